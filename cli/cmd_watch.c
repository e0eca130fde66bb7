/* SPDX-License-Identifier: MIT */
#include "cli.h"
#include <limits.h>
#include <stdio.h>

static const char *const after[] = {
    "SAFETY",
    "The page is served on 127.0.0.1, which other machines cannot reach. Only\n"
    "the page and the progress of the fit are served. The server accepts no\n"
    "commands.\n",
    "EXIT STATUS",
    "0   ended by Ctrl-C\n"
    "1   the port is taken\n"
    "2   wrong usage, or there is no such fit\n",
    "EXAMPLES",
    "atvi fit rotavirus.atvi --method ram --out long &\n"
    "atvi watch long\n",
    NULL,
};

static void print_url(const char *url) {
  printf("%s\n", url);
  fflush(stdout);
  fprintf(stderr, "Ctrl-C ends it.\n");
}

static int run(int argc, char **argv) {
  atvi_idx port = 0;
  const atvi_arg arg[] = {
      {"port", "N", ATVI_ARG_COUNT, &port, "Port to listen on (default: any free one)."},
      {0},
  };
  atvi_app_watch_opts opts = {0};
  int code = atvi_args_parse(&atvi_cmd_watch, arg, argc, argv, &opts.where);
  if (code >= 0) return code;
  opts.port = port > INT_MAX ? INT_MAX : (int)port;

  atvi_call s;
  if (!atvi_call_open(&s, &atvi_cmd_watch, 1, true)) return ATVI_EXIT_FAILED;
  atvi_signals_end(s.ctx);
  atvi_status status = atvi_app_watch(s.ctx, s.pool, &opts, print_url);
  code = status == ATVI_OK ? ATVI_EXIT_DONE : atvi_call_fail(&s, status);
  atvi_call_close(&s);
  return code;
}

const atvi_command atvi_cmd_watch = {
    .name = "watch",
    .brief = "show a running fit in a browser",
    .usage = "DIR | MODEL [--port N]",
    .operand = "DIR",
    .about = "Serves the report of a fit on this machine and prints its address: of the folder DIR, or of "
             "the newest numbered folder here of a fit of MODEL. While the fit runs the page shows its "
             "progress; when it ends the page becomes the report.",
    .after = after,
    .run = run,
};
