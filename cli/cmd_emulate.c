/* SPDX-License-Identifier: MIT */
#include "cli.h"
#include "app/app.h"
#include <limits.h>
#include <stdio.h>

static const char *const after[] = {
    "FILES",
    "DIR/emulator-NAME.json  the estimates; atvi fit reuses them as long as runs\n"
    "                        and settings are the same\n"
    "DIR/emulate.json        the printed results as JSON\n"
    "DIR/report.html         the same with figures, for a browser; a report.html\n"
    "                        that atvi emulate did not write is not changed,\n"
    "                        and no report is written\n"
    "DIR/figures/            its figures as SVG and PDF\n",
    "MEASURES",
    "Q2           share of the variance between runs that is predicted when a\n"
    "             run is left out\n"
    "intervals    share of left-out values inside their 95 % intervals\n"
    "first, total Sobol indices: share of the output's variance that an input\n"
    "             causes alone, and with all its interactions\n",
    "EXIT STATUS",
    "0     done\n"
    "1     failed, or a file of the results could not be written\n"
    "2     wrong usage, or the model or its files are wrong\n"
    "3     done, but the verdict is not ok (only with --strict)\n"
    "130   interrupted\n",
    "EXAMPLES",
    "atvi emulate flow.atvi\n"
    "atvi emulate hydrology.atvi --folder ensemble --test 0.2\n",
    NULL,
};

static int run(int argc, char **argv) {
  atvi_app_emulate_opts o = {.test = 0.1, .seed = 1};
  const char *test = NULL;
  bool strict = false, json = false, quiet = false;
  atvi_idx threads = 0;
  const atvi_arg arg[] = {
      {"test", "SHARE", ATVI_ARG_TEXT, &test,
       "Share of the runs to hold out of a test emulator and predict with it (default 0.1; 0: none). The "
       "saved emulator uses all runs."},
      {"refit", NULL, ATVI_ARG_FLAG, &o.refit, "Estimate again even if there is an emulator of these runs."},
      {"runs", "DIR", ATVI_ARG_TEXT, &o.runs, "Folder of runs and emulators. Default: MODEL-runs here."},
      ATVI_ROW_FOLDER(&o.folder),
      {"seed", "N", ATVI_ARG_SEED, &o.seed, "Seed of what is held out and of the indices (default 1)."},
      ATVI_ROW_THREADS(&threads),
      {"json", NULL, ATVI_ARG_FLAG, &json, "Print emulate.json instead of the table."},
      {"no-report", NULL, ATVI_ARG_FLAG, &o.no_report,
       "Do not write report.html and figures; existing ones are kept."},
      {"strict", NULL, ATVI_ARG_FLAG, &strict, "End with status 3 unless the verdict is ok."},
      ATVI_ROW_QUIET(&quiet),
      {0},
  };
  int code = atvi_args_parse(&atvi_cmd_emulate, arg, argc, argv, &o.path);
  if (code >= 0) return code;
  char rest;
  if (test && sscanf(test, "%lf%c", &o.test, &rest) != 1) {
    fprintf(stderr, "atvi emulate: --test %s: want a share of the runs, such as 0.1\n", test);
    return ATVI_EXIT_USAGE;
  }
  atvi_call s;
  if (!atvi_call_open(&s, &atvi_cmd_emulate, (int)threads, quiet)) return ATVI_EXIT_FAILED;
  atvi_app_emulate_result r;
  atvi_signals_catch(s.ctx, false);
  atvi_status status = atvi_app_emulate(s.ctx, s.pool, &o, &r);
  if (status != ATVI_OK) {
    code = atvi_call_fail(&s, status);
  } else {
    char line[2 * PATH_MAX];
    code = quiet  ? ATVI_EXIT_DONE
           : json ? atvi_print(r.json)
                  : atvi_print_judged(r.text, r.n_judged, r.judged);
    snprintf(line, sizeof line, quiet ? "%s\n" : "\nsaved in %s for atvi fit\n", r.dir);
    if (code == ATVI_EXIT_DONE && !json) code = atvi_print(line);
    if (code == ATVI_EXIT_DONE && !json && !quiet && r.report) {
      snprintf(line, sizeof line, "report  %s\n", r.report);
      code = atvi_print(line);
    }
    if (code == ATVI_EXIT_DONE && strict && r.doubtful) code = ATVI_EXIT_DOUBT;
  }
  atvi_call_close(&s);
  return code;
}

const atvi_command atvi_cmd_emulate = {
    .name = "emulate",
    .brief = "fit an emulator to the runs of a simulator, and judge it",
    .usage = "MODEL [--test SHARE] [--refit] [--runs DIR] ...",
    .operand = "MODEL",
    .about =
        "Fits a Gaussian process to runs of a simulator (those of atvi run, or files that the model names), "
        "so that atvi fit can use it instead of the simulator, and reports how good it is: by leaving out "
        "each run in turn, by predicting held-out runs, and by the effect of each input on the output.\n\n"
        "atvi fit does this estimation itself if it has not been done before.",
    .after = after,
    .run = run,
};
