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
    "                   the same for programs\n",
    "MEASURES",
    "coverage     how often the 95 % HPD interval holds the truth; of a tracked\n"
    "             quantity, the share of times at which it does; +- is the Monte\n"
    "             Carlo error\n"
    "mode, MSE    mean of the marginal modes; their mean squared error. Of a\n"
    "             tracked quantity, that of its posterior mean, over all times\n"
    "data, AIL, MSPE\n"
    "             as in atvi predict, mean over the replicates\n",
    "SIGNALS",
    "Ctrl-C (SIGINT) and SIGTERM end the study; so may a power cut. The same\n"
    "command continues it: what is recorded is not done again. More replicates or\n"
    "other methods may be asked for then, other settings are an error.\n",
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
  bool json, strict, quiet;
} options;

static int parse(options *o, int argc, char **argv) {
  char list[ATVI_METHODS_TEXT], which[2 * ATVI_METHODS_TEXT];
  snprintf(which, sizeof which,
           "Which of %s, separated by commas, with their defaults; exact is atvi fit --exact (default atvi).",
           atvi_infer_methods_text(ATVI_METHOD_POSTERIOR, " and ", list));
  const atvi_arg arg[] = {
      {"truth", "TRUTH", ATVI_ARG_LIST, &o->truth,
       "Parameters at which data are simulated and by which fits are scored: name=value,... or a JSON file, "
       "{\"beta\": 0.9, \"nu\": [1, 2]}. May be repeated."},
      {"replicates", "N", ATVI_ARG_COUNT, &o->study.replicates, "Number of data sets (default 50)."},
      {"methods", "LIST", ATVI_ARG_TEXT, &o->study.methods, which},
      {"seed", "N", ATVI_ARG_SEED, &o->study.seed,
       "Seed (default 1). Replicate r is fitted with seed + r - 1; the data set of the first is that of atvi "
       "simulate --observe."},
      {"out", "DIR", ATVI_ARG_TEXT, &o->study.out,
       "Folder of the study, which is continued if it was begun. Default: MODEL-study here."},
      {"data-dir", "DIR", ATVI_ARG_TEXT, &o->study.data_dir,
       "Fit the data sets in DIR instead of simulating; the truth is then for scoring alone."},
      {"pattern", "NAME", ATVI_ARG_TEXT, &o->study.pattern,
       "How they are named, with %d for the number of the replicate (default set_%d.csv)."},
      {"fix", "NAME=VALUE", ATVI_ARG_LIST, &o->fix, "Hold a parameter at a value; may be repeated."},
      {"data", "[NAME=]FILE", ATVI_ARG_LIST, &o->data,
       "Put FILE in the place of the model's data file: its times and columns are those of the simulated "
       "ones."},
      {"folder", "DIR", ATVI_ARG_TEXT, &o->study.model.folder,
       "Look for the files that the model names in DIR, as in atvi fit."},
      {"runs", "DIR", ATVI_ARG_TEXT, &o->study.model.runs,
       "Folder with the runs of the model's simulator. Default: MODEL-runs here, else next "
       "to the model."},
      {"threads", "N", ATVI_ARG_COUNT, &o->threads, "Threads (default: one per core)."},
      {"json", NULL, ATVI_ARG_FLAG, &o->json, "Print study_summary.json instead of the table."},
      {"strict", NULL, ATVI_ARG_FLAG, &o->strict, "End with status 3 if a fit failed."},
      {"no-compile", NULL, ATVI_ARG_FLAG, &o->study.model.interpret,
       "Use the interpreter instead of compiling the model."},
      {"quiet", NULL, ATVI_ARG_FLAG, &o->quiet, "No progress; only the folder's name."},
      {0},
  };
  return atvi_args_parse(&atvi_cmd_study, arg, argc, argv, &o->study.model.path);
}

static int run(int argc, char **argv) {
  options o = {.study = {.methods = "atvi", .seed = 1, .replicates = 50}};
  int code = parse(&o, argc, argv);
  if (code >= 0) return code;
  o.study.n_truth = o.truth.n;
  o.study.truth = o.truth.text;

  atvi_call s;
  if (!atvi_call_open(&s, &atvi_cmd_study, o.threads, o.quiet || o.json)) return ATVI_EXIT_FAILED;
  code = ATVI_EXIT_USAGE;
  if (atvi_call_model(&s, &o.fix, &o.data, &o.study.model)) {
    atvi_app_repeat_result result;
    atvi_signals_catch(s.ctx);
    atvi_status status = atvi_app_study(s.ctx, s.pool, &o.study, &result);
    code = status == ATVI_OK ? atvi_call_repeated(&s, &result, o.json, o.quiet) : atvi_call_fail(&s, status);
    if (code == ATVI_EXIT_DONE && o.strict && result.failed) code = ATVI_EXIT_DOUBT;
  }
  atvi_call_close(&s);
  return code;
}

const atvi_command atvi_cmd_study = {
    .name = "study",
    .brief = "simulate at a known truth, fit and score, many times",
    .usage = "MODEL --truth TRUTH [--replicates N] [--methods LIST] [--seed N]\n"
             "         [--out DIR] [--data-dir DIR [--pattern NAME]] ...",
    .operand = "MODEL",
    .about =
        "Simulates data sets at a known truth, in the layout of the model's data file, fits each with every "
        "method and tells how often intervals hold the truth, how far modes are from it, how well the data "
        "are "
        "predicted, and what it cost. A fit that fails is recorded with its reason, reported and counted."
        "\n\n"
        "Fits run one after another, each on all threads. A study that was stopped is continued by the same "
        "command.",
    .after = after,
    .run = run,
};
