/* SPDX-License-Identifier: MIT */
#include "cli.h"
#include <limits.h>
#include <stdio.h>

static const char *const after[] = {
    "EXIT STATUS",
    "0   done\n"
    "1   failed (memory, disk)\n"
    "2   wrong usage, there is no such fit, or one of its files is damaged\n",
    "EXAMPLES",
    "atvi report cold-001\n"
    "atvi report examples/cold/cold.atvi\n",
    NULL,
};

static int run(int argc, char **argv) {
  atvi_app_finished o = {0};
  atvi_arg_list data = {0};
  long long threads = 0;
  bool quiet = false;
  const atvi_arg arg[] = {
      {"data", "[NAME=]FILE", ATVI_ARG_LIST, &data,
       "For a folder of an older version: where a data file of the fit is now, if it was moved."},
      {"folder", "DIR", ATVI_ARG_TEXT, &o.folder, "Likewise for the other files that the model names."},
      {"runs", "DIR", ATVI_ARG_TEXT, &o.runs,
       "Where the runs of the model's simulator are now, if they were moved."},
      ATVI_ROW_THREADS(&threads),
      {"no-compile", NULL, ATVI_ARG_FLAG, &o.interpret, "Use the interpreter if the model must be run."},
      {"quiet", NULL, ATVI_ARG_FLAG, &quiet, "Print only warnings, on standard error."},
      {0},
  };
  int code = atvi_args_parse(&atvi_cmd_report, arg, argc, argv, &o.where);
  if (code >= 0) return code;

  atvi_call s;
  if (!atvi_call_open(&s, &atvi_cmd_report, threads, true)) return ATVI_EXIT_FAILED;
  code = ATVI_EXIT_USAGE;
  if (atvi_call_data(&s, &data, &o.n_data, &o.data)) {
    const char *path;
    char line[PATH_MAX + 32];
    atvi_status status = atvi_app_report(s.ctx, s.pool, &o, &path);
    if (status == ATVI_OK) snprintf(line, sizeof line, "report      %s\n", path);
    code = status != ATVI_OK ? atvi_call_fail(&s, status) : quiet ? ATVI_EXIT_DONE : atvi_print(line);
  }
  atvi_call_close(&s);
  return code;
}

const atvi_command atvi_cmd_report = {
    .name = "report",
    .brief = "write the report of a fit again",
    .usage = "DIR | MODEL [--quiet]",
    .operand = "DIR",
    .about = "Writes report.html and figures/ of a finished fit again: of the folder DIR, or of the newest "
             "numbered folder here of a fit of MODEL. The page is drawn from the folder alone; neither the "
             "model nor its data are needed.\n\n"
             "Folders of older versions contain no predictions. The model is then run again at some of the "
             "draws, as by atvi predict; if that fails, the page has no predictions and says why. Emulators "
             "are judged by their runs, which must still exist.",
    .after = after,
    .run = run,
};
