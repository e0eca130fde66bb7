/* SPDX-License-Identifier: MIT */
#include "cli.h"
#include <limits.h>
#include <stdio.h>

static const char *const after[] = {
    "RANGES",
    "A parameter ranges over its bounds if both are finite, else from the 0.1 %\n"
    "to the 99.9 % quantile of its prior. The table shows which.\n",
    "FILES",
    "DIR/design.csv     id and parameters of each point, in natural units;\n"
    "                   you may add points of your own by hand\n",
    "EXIT STATUS",
    "0     done\n"
    "1     failed\n"
    "2     wrong usage, or the model is wrong\n",
    "EXAMPLES",
    "atvi design flow.atvi -n 200\n"
    "atvi design flow.atvi -n 400             # 200 more; the first 200 stay\n"
    "atvi design flow.atvi -n 256 --kind sobol --runs trial\n",
    NULL,
};

static int run(int argc, char **argv) {
  atvi_app_design_opts o = {.seed = 1};
  atvi_idx n = 0;
  bool quiet = false;
  const atvi_arg arg[] = {
      {"n", "N", ATVI_ARG_COUNT, &n, "Total number of points. Start with ten to twenty per parameter."},
      {"kind", "KIND", ATVI_ARG_TEXT, &o.kind,
       "lhs: maximin Latin hypercube (default). sobol: scrambled Sobol points."},
      {"seed", "N", ATVI_ARG_SEED, &o.seed, "Seed (default 1)."},
      {"runs", "DIR", ATVI_ARG_TEXT, &o.out,
       "Folder for the design, its runs and emulators. Default: MODEL-runs here."},
      ATVI_ROW_FOLDER(&o.folder),
      {"quiet", NULL, ATVI_ARG_FLAG, &quiet, "Print only the name of the file."},
      {0},
  };
  int code = atvi_args_parse(&atvi_cmd_design, arg, argc, argv, &o.path);
  if (code >= 0) return code;
  if (n == 0) {
    fprintf(stderr, "atvi design: -n is missing, such as: atvi design %s -n 100\n", o.path);
    return ATVI_EXIT_USAGE;
  }
  o.n = n;
  atvi_call s;
  if (!atvi_call_open(&s, &atvi_cmd_design, 1, quiet)) return ATVI_EXIT_FAILED;
  atvi_app_design_result r;
  atvi_status status = atvi_app_design(s.ctx, s.pool, &o, &r);
  if (status != ATVI_OK) {
    code = atvi_call_fail(&s, status);
  } else {
    char line[2 * PATH_MAX];
    code = quiet ? ATVI_EXIT_DONE : atvi_print(r.text);
    snprintf(line, sizeof line, quiet ? "%s\n" : "\nwritten to %s; next: atvi run\n", r.path);
    if (code == ATVI_EXIT_DONE) code = atvi_print(line);
  }
  atvi_call_close(&s);
  return code;
}

const atvi_command atvi_cmd_design = {
    .name = "design",
    .brief = "choose points at which to run a simulator, or add more",
    .usage = "MODEL -n N [--kind lhs|sobol] [--seed N] [--runs DIR]",
    .operand = "MODEL",
    .about = "Chooses the points at which to run the simulator of the model, spread evenly over the range of "
             "its parameters, and writes them to a file. An existing file is extended to N points: the "
             "points in it are kept, and new ones fill the gaps between them. A doubled Latin hypercube is "
             "evenly spread again; with other numbers of points it nearly is.\n\n"
             "'atvi run' runs the simulator at these points. An emulator fitted to the results replaces the "
             "simulator in atvi fit.",
    .after = after,
    .run = run,
};
