/* SPDX-License-Identifier: MIT */
#include "cli.h"

static const char *const after[] = {
    "FILES",
    "DIR/data/          the simulated data sets, set_1.csv, set_2.csv, ...\n"
    "DIR/replicates.csv one line per replicate and method, written as soon as a\n"
    "                   fit is done; failed ones with their reason\n"
    "DIR/study.json     the settings\n"
    "DIR/study.csv      method, quantity, kind, measure, n, value, error\n"
    "DIR/study_summary.json\n"
    "                   the same as JSON\n",
    "MEASURES",
    "coverage     how often the 95 % HPD interval contains the truth; for a\n"
    "             tracked quantity, the share of times at which it does; +- is\n"
    "             the Monte Carlo error\n"
    "mode, MSE    mean of the marginal modes; their mean squared error. For\n"
    "             tracked quantities, of the posterior mean over all times\n"
    "data, AIL, MSPE\n"
    "             as in atvi predict, mean over the replicates\n",
    "SIGNALS",
    "Ctrl-C (SIGINT), SIGTERM or a power cut end the study. The same\n"
    "command continues it: what is recorded is not done again, and the fit that\n"
    "was running continues. You may then ask for more replicates or other\n"
    "methods, but other settings are an error.\n",
    "EXIT STATUS",
    "0     done\n"
    "1     failed, every fit failed, or a file of the results could not be\n"
    "      written\n"
    "2     wrong usage, or the model, its data or the truth are wrong\n"
    "3     done, but some fits failed (only with --strict)\n"
    "130   interrupted\n",
    "EXAMPLES",
    "atvi study cold.atvi --truth beta=0.9,gamma=0.3,S0=40 --replicates 20\n"
    "atvi study cold.atvi --truth truth.json --methods atvi,ram --out study\n"
    "atvi study rotavirus.atvi --truth truth.json --data-dir sets\n",
    NULL,
};

typedef struct {
  atvi_app_study_opts study;
  atvi_arg_list truth, fix, data;
  atvi_idx threads;
  atvi_share_args share;
  bool json, strict, quiet;
} options;

static int parse(options *o, int argc, char **argv) {
  char list[ATVI_METHODS_TEXT], which[2 * ATVI_METHODS_TEXT];
  snprintf(which, sizeof which,
           "Any of %s, separated by commas, with default options; exact is atvi fit --exact (default atvi).",
           atvi_infer_methods_text(ATVI_METHOD_POSTERIOR, " and ", list));
  const atvi_arg arg[] = {
      {"truth", "TRUTH", ATVI_ARG_LIST, &o->truth,
       "Parameters at which data are simulated and by which fits are scored: name=value,... or a JSON file, "
       "{\"beta\": 0.9, \"nu\": [1, 2]}. May be repeated."},
      {"replicates", "N", ATVI_ARG_COUNT, &o->study.all.replicates, "Number of data sets (default 50)."},
      {"methods", "LIST", ATVI_ARG_TEXT, &o->study.methods, which},
      {"seed", "N", ATVI_ARG_SEED, &o->study.all.seed,
       "Seed (default 1). Replicate r is fitted with seed + r - 1; the data set of the first is that of atvi "
       "simulate --observe."},
      {"out", "DIR", ATVI_ARG_TEXT, &o->study.all.out,
       "Folder of the study, which is continued if it exists. Default: MODEL-study here."},
      {"data-dir", "DIR", ATVI_ARG_TEXT, &o->study.data_dir,
       "Fit the data sets in DIR instead of simulating; the truth is then used only for scoring."},
      {"pattern", "NAME", ATVI_ARG_TEXT, &o->study.pattern,
       "Names of the data sets, with %d for the number of the replicate (default set_%d.csv)."},
      ATVI_ROWS_REPLICATES(o, &o->study.all),
      {"json", NULL, ATVI_ARG_FLAG, &o->json, "Print study_summary.json instead of the table."},
      {"strict", NULL, ATVI_ARG_FLAG, &o->strict, "End with status 3 if a fit failed."},
      ATVI_ROWS_SHARE(&o->share),
      ATVI_ROW_NO_COMPILE(&o->study.all.model.interpret),
      ATVI_ROW_QUIET(&o->quiet),
      {0},
  };
  int code = atvi_args_parse(&atvi_cmd_study, arg, argc, argv, &o->study.all.model.path);
  if (code >= 0) return code;
  if (!atvi_args_share(&atvi_cmd_study, &o->share, argc, argv, &o->study.all.share, &o->threads))
    return ATVI_EXIT_USAGE;
  return -1;
}

static int run(int argc, char **argv) {
  options o = {.study = {.all = {.replicates = 50, .seed = 1}, .methods = "atvi"}};
  int code = parse(&o, argc, argv);
  if (code >= 0) return code;
  o.study.n_truth = o.truth.n;
  o.study.truth = o.truth.text;

  atvi_call s;
  if (!atvi_call_open(&s, &atvi_cmd_study, o.threads, o.quiet || o.json)) return ATVI_EXIT_FAILED;
  code = ATVI_EXIT_USAGE;
  if (atvi_call_model(&s, &o.fix, &o.data, &o.study.all.model)) {
    atvi_app_repeat_result result;
    atvi_signals_catch(s.ctx, o.study.all.share.worker);
    atvi_status status = atvi_app_study(s.ctx, s.pool, &o.study, &result);
    code = status == ATVI_OK ? atvi_call_repeated(&s, &result, o.json, o.quiet) : atvi_call_fail(&s, status);
    if (code == ATVI_EXIT_DONE && o.strict && !result.shared && result.failed) code = ATVI_EXIT_DOUBT;
  }
  atvi_call_close(&s);
  return code;
}

const atvi_command atvi_cmd_study = {
    .name = "study",
    .brief = "simulate at a known truth, fit and score, many times",
    .usage = "MODEL --truth TRUTH [--replicates N] [--methods LIST] [--seed N]\n"
             "         [--out DIR] [--data-dir DIR [--pattern NAME]] ...\n"
             "MODEL ... --slurm OPTIONS | --submit COMMAND [--workers N]\n"
             "MODEL ... --worker | --status",
    .operand = "MODEL",
    .about =
        "Simulates data sets at a known truth, in the layout of the model's data file, fits each with "
        "every method and reports how often intervals contain the truth, how far modes are from it, how "
        "well the data are predicted, and the cost. A fit that fails is recorded with its reason, "
        "reported and counted.\n\n"
        "Fits run side by side, each on its share of the threads, or are shared by workers on many hosts "
        "(docs/cluster.md). To continue a study that was stopped, give the same command again.",
    .after = after,
    .run = run,
};
