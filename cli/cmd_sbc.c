/* SPDX-License-Identifier: MIT */
#include "cli.h"

static const char *const after[] = {
    "TABLE",
    "95 %       whether the distribution function of the ranks lies inside its\n"
    "           simultaneous 95 % band, for this quantity alone\n"
    "p band     p-value of that test\n"
    "p spread   p-value of the spread of the ranks: chi-squared test of sum z^2,\n"
    "           z = normal score of a rank\n"
    "sd z       above 1: posteriors are too narrow; below: too wide\n"
    "NO         a p-value is below the level at which all quantities raise a\n"
    "           false alarm in at most one of a hundred runs\n"
    "yes        neither is, and sds 3/4 of the right size would be noticed\n"
    "no sign    neither is, and sds half the right size would be noticed\n"
    "-          too few replicates to tell\n"
    "\n"
    "Noticing sds 0.8 of the right size takes about 200 replicates with one\n"
    "quantity, 250 with four, and 300 with ten.\n",
    "FILES",
    "DIR/data/          the simulated data sets\n"
    "DIR/replicates.csv one line per replicate: for each quantity its truth and\n"
    "                   the rank of the truth among 99 draws\n"
    "DIR/ecdf.csv       difference of the distribution functions, with the band\n"
    "DIR/sbc.json       the settings\n"
    "DIR/sbc_summary.json\n"
    "                   the table as JSON\n",
    "SIGNALS",
    "Ctrl-C (SIGINT) and SIGTERM end the run; the same command continues it: what\n"
    "is recorded is not done again, and the fit that was running continues. You\n"
    "may ask for more replicates then.\n",
    "EXIT STATUS",
    "0     done\n"
    "1     failed, or every fit failed\n"
    "2     wrong usage, or the model or its data are wrong\n"
    "3     done, but not calibrated, too few replicates to tell, or some fits\n"
    "      failed (only with --strict)\n"
    "130   interrupted\n",
    "EXAMPLES",
    "atvi sbc cold.atvi\n"
    "atvi sbc cold.atvi --method ram --replicates 100 --out sbc-ram\n"
    "atvi sbc cold.atvi --scale-sd 0.8 --out broken   # must say NO\n",
    NULL,
};

typedef struct {
  atvi_app_sbc_opts sbc;
  atvi_arg_list fix, data;
  atvi_idx threads;
  atvi_share_args share;
  bool json, strict, quiet;
} options;

static int parse(options *o, int argc, char **argv) {
  char list[ATVI_METHODS_TEXT], which[2 * ATVI_METHODS_TEXT];
  snprintf(which, sizeof which, "One of %s, with default options; exact is atvi fit --exact (default atvi).",
           atvi_infer_methods_text(ATVI_METHOD_POSTERIOR, " and ", list));
  const atvi_arg arg[] = {
      {"replicates", "N", ATVI_ARG_COUNT, &o->sbc.all.replicates, "Number of data sets (default 200)."},
      {"method", "METHOD", ATVI_ARG_TEXT, &o->sbc.method, which},
      {"seed", "N", ATVI_ARG_SEED, &o->sbc.all.seed,
       "Seed (default 1). Replicate r is fitted with seed + r - 1."},
      {"out", "DIR", ATVI_ARG_TEXT, &o->sbc.all.out,
       "Folder of the run, which is continued if it exists. Default: MODEL-sbc here."},
      {"scale-sd", "FACTOR", ATVI_ARG_NUMBER, &o->sbc.scale_sd,
       "Test the check itself: shrink posterior draws about their mean by this factor. 0.8 must be noticed."},
      ATVI_ROWS_REPLICATES(o, &o->sbc.all),
      {"json", NULL, ATVI_ARG_FLAG, &o->json, "Print sbc_summary.json instead of the table."},
      {"strict", NULL, ATVI_ARG_FLAG, &o->strict,
       "End with status 3 if the method is not calibrated or a fit failed."},
      ATVI_ROWS_SHARE(&o->share),
      ATVI_ROW_NO_COMPILE(&o->sbc.all.model.interpret),
      ATVI_ROW_QUIET(&o->quiet),
      {0},
  };
  int code = atvi_args_parse(&atvi_cmd_sbc, arg, argc, argv, &o->sbc.all.model.path);
  if (code >= 0) return code;
  if (!atvi_args_share(&atvi_cmd_sbc, &o->share, argc, argv, &o->sbc.all.share, &o->threads))
    return ATVI_EXIT_USAGE;
  return -1;
}

static int run(int argc, char **argv) {
  options o = {.sbc = {.all = {.replicates = 200, .seed = 1}, .method = "atvi", .scale_sd = 1}};
  int code = parse(&o, argc, argv);
  if (code >= 0) return code;

  atvi_call s;
  if (!atvi_call_open(&s, &atvi_cmd_sbc, o.threads, o.quiet || o.json)) return ATVI_EXIT_FAILED;
  code = ATVI_EXIT_USAGE;
  if (atvi_call_model(&s, &o.fix, &o.data, &o.sbc.all.model)) {
    atvi_app_repeat_result result;
    atvi_signals_catch(s.ctx, o.sbc.all.share.worker);
    atvi_status status = atvi_app_sbc(s.ctx, s.pool, &o.sbc, &result);
    code = status == ATVI_OK ? atvi_call_repeated(&s, &result, o.json, o.quiet) : atvi_call_fail(&s, status);
    if (code == ATVI_EXIT_DONE && o.strict && !result.shared && (result.failed || !result.passed))
      code = ATVI_EXIT_DOUBT;
  }
  atvi_call_close(&s);
  return code;
}

const atvi_command atvi_cmd_sbc = {
    .name = "sbc",
    .brief = "simulation-based calibration of a method for a model",
    .usage = "MODEL [--replicates N] [--method METHOD] [--seed N] [--out DIR] ...\n"
             "MODEL ... --slurm OPTIONS | --submit COMMAND [--workers N]\n"
             "MODEL ... --worker | --status",
    .operand = "MODEL",
    .about =
        "Draws truths from the prior, simulates data at each in the layout of the model's data file, "
        "fits them, and counts how many of 99 posterior draws of a parameter are below its truth. If "
        "the posterior is right, these ranks are uniform. The table shows whether they are for each "
        "parameter and derived quantity, the last line whether all are.\n\n"
        "Fits run side by side, each on its share of the threads, or are shared by workers on many hosts "
        "(docs/cluster.md). To continue a run that was stopped, give the same command again.",
    .after = after,
    .run = run,
};
