/* SPDX-License-Identifier: MIT */
#include "cli.h"

static const char *const after[] = {
    "EXIT STATUS",
    "0   done\n"
    "1   the fit cannot be read\n"
    "2   wrong usage, or there is no such fit\n",
    "EXAMPLES",
    "atvi summary cold-001\n"
    "atvi summary examples/cold/cold.atvi\n"
    "atvi summary cold-001 --json | jq .verdict\n",
    NULL,
};

static int run(int argc, char **argv) {
  bool json = false;
  const atvi_arg arg[] = {
      {"json", NULL, ATVI_ARG_FLAG, &json, "The summary as JSON instead of a table."},
      {0},
  };
  const char *where;
  int code = atvi_args_parse(&atvi_cmd_summary, arg, argc, argv, &where);
  if (code >= 0) return code;

  atvi_call s;
  if (!atvi_call_open(&s, &atvi_cmd_summary, 1, true)) return ATVI_EXIT_FAILED;
  const char *text = "";
  atvi_app_mark judged;
  atvi_status status = atvi_app_summary(s.ctx, s.pool, where, json, &text, &judged);
  code = status != ATVI_OK ? atvi_call_fail(&s, status) : atvi_print_judged(text, json ? 0 : 1, &judged);
  atvi_call_close(&s);
  return code;
}

const atvi_command atvi_cmd_summary = {
    .name = "summary",
    .brief = "show the result of a fit again",
    .usage = "DIR | MODEL [--json]",
    .operand = "DIR",
    .about = "Prints the table, verdict and messages of a fit: of the folder DIR, or of the newest numbered "
             "folder here of a fit of MODEL.",
    .after = after,
    .run = run,
};
