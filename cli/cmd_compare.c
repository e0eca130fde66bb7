/* SPDX-License-Identifier: MIT */
#include "cli.h"
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static char methods[ATVI_HELP_METHODS]; /* filled from the list of methods before it is shown */

static const char *const after[] = {
    "METHODS",
    methods,
    "TABLE",
    "For every parameter and derived quantity the mode, the 95 % HPD interval,\n"
    "and the distance of its marginal to that of the reference: Wasserstein-1,\n"
    "in standard deviations of the reference. * marks more than three times what\n"
    "two samples of one distribution differ by chance; unweighted is the\n"
    "distance of an approximation before its draws are weighted. Then verdict,\n"
    "seconds, model evaluations, k-hat, largest R-hat and smallest ESS of the\n"
    "parameters, log MAP, log evidence, and the scores of atvi predict. See\n"
    "docs/compare.md.\n",
    "MODELS",
    "Finished fits to the same data are compared by leave-one-out log density\n"
    "(elpd), its difference to the best with the error of that difference, the\n"
    "weights of the mixture that predicts best (stacking), log evidence, and\n"
    "probabilities if all models are equally likely before the data. Quantities\n"
    "that two or more fits share follow; for fits to different data that is all.\n"
    "See docs/compare.md.\n",
    "FILES",
    "DIR/METHOD/       what atvi fit and atvi predict write (methods)\n"
    "DIR/methods.csv   which methods have ended, and how\n"
    "DIR/methods.json  the settings (methods)\n"
    "DIR/compare.csv   all numbers, one on a line: method or fit, kind, name,\n"
    "                  statistic, value\n"
    "DIR/compare.json  the same\n"
    "DIR/report.html   a page with figures, which are in DIR/figures\n",
    "SIGNALS",
    "Ctrl-C (SIGINT) and SIGTERM end the running method, as in atvi fit; those\n"
    "after it are not started. Results so far are compared and written, and the\n"
    "exit status is 130. A second signal exits at once. The same command with\n"
    "--out DIR continues, as it does after a kill.\n",
    "EXIT STATUS",
    "0     done; the table shows which methods failed\n"
    "1     failed, no method gave draws, or a file of the results could not be\n"
    "      written\n"
    "2     wrong usage, or the model or its data are wrong\n"
    "3     a method failed or its verdict is not ok (only with --strict)\n"
    "130   interrupted\n",
    "EXAMPLES",
    "atvi compare examples/cold/cold.atvi\n"
    "atvi compare cold.atvi --methods atvi,ram --seed 7 --out both\n"
    "atvi compare rotavirus.atvi --parallel --max-time 20m\n"
    "atvi compare cold.atvi --json -q | jq '.methods[] | {method, seconds}'\n"
    "atvi compare poisson-001 negbin-001   # which model is better?\n",
    NULL,
};

typedef struct {
  atvi_app_compare_opts compare;
  atvi_arg_list fix, data, where;
  atvi_idx threads;
  atvi_share_args share;
  bool strict, quiet, json;
} options;

static int wrong(const char *what, const char *why) {
  fprintf(stderr, "atvi compare: %s: %s\n'atvi compare --help' says more.\n", what, why);
  return ATVI_EXIT_USAGE;
}

static int parse(options *o, int argc, char **argv) {
  atvi_app_fit_opts *fit = &o->compare.fit;
  char list[ATVI_METHODS_TEXT], which[2 * ATVI_METHODS_TEXT], from[2 * ATVI_METHODS_TEXT];
  snprintf(which, sizeof which, "Methods, separated by commas (default %s).",
           atvi_infer_methods_text(ATVI_METHOD_POSTERIOR, ", ", list));
  snprintf(from, sizeof from,
           "Method from which distances are measured (default: the last of %s with verdict ok, or else %s).",
           atvi_infer_methods_text(ATVI_METHOD_EXACT, " and ", list), fit->how.method);
  atvi_help_methods(0, methods);
  const atvi_arg arg[] = {
      {"methods", "LIST", ATVI_ARG_TEXT, &o->compare.methods, which},
      {"reference", "METHOD", ATVI_ARG_TEXT, &o->compare.reference, from},
      {"parallel", NULL, ATVI_ARG_FLAG, &o->compare.parallel,
       "Run the methods side by side instead of one after another. The results are the same, but the times "
       "overlap and are marked."},
      {"seed", "N", ATVI_ARG_SEED, &fit->how.seed, "Seed of every method (default 1)."},
      {"out", "DIR", ATVI_ARG_TEXT, &fit->out,
       "Folder for the results. A comparison of methods that was begun there with the same settings is "
       "continued. Default: a new numbered folder here (cold-compare-001, ... for methods, compare-001, ... "
       "for models)."},
      {"force", NULL, ATVI_ARG_FLAG, &fit->force,
       "Write into DIR even if it exists, and fit what was fitted there again."},
      {"threads", "N", ATVI_ARG_COUNT, &o->threads, "Total number of threads (default: one per core)."},
      ATVI_ROW_FIX(&o->fix),
      ATVI_ROW_DATA(&o->data),
      ATVI_ROW_FOLDER(&fit->model.folder),
      ATVI_ROW_RUNS(&fit->model.runs),
      {"holdout", "RULE", ATVI_ARG_TEXT, &fit->holdout,
       "Leave observations out of the fits and score them separately, as in atvi fit."},
      {"ess", "N", ATVI_ARG_NUMBER, &fit->how.ess, "Effective sample size for every method, as in atvi fit."},
      {"max-time", "TIME", ATVI_ARG_DURATION, &fit->how.max_seconds,
       "Time limit for each method: 90s, 10m, 1.5h, 2d."},
      ATVI_ROW_CHECKPOINT(&fit->checkpoint_s),
      {"no-report", NULL, ATVI_ARG_FLAG, &fit->no_report, "Do not write report.html and figures."},
      {"strict", NULL, ATVI_ARG_FLAG, &o->strict, "End with status 3 unless every verdict is ok."},
      {"json", NULL, ATVI_ARG_FLAG, &o->json, "Print compare.json instead of the table."},
      ATVI_ROWS_SHARE(&o->share),
      ATVI_ROW_NO_COMPILE(&fit->model.interpret),
      {"quiet", NULL, ATVI_ARG_FLAG, &o->quiet,
       "No progress; without --json print only the name of the folder."},
      {0},
  };
  int code = atvi_args_parse_many(&atvi_cmd_compare, arg, argc, argv, &o->where);
  if (code >= 0) return code;
  atvi_app_share *share = &o->compare.share;
  if (!atvi_args_share(&atvi_cmd_compare, &o->share, argc, argv, share, &o->threads)) return ATVI_EXIT_USAGE;
  if ((share->worker || share->status || share->slurm || share->submit) &&
      (fit->force || o->compare.parallel || !fit->out))
    return wrong(fit->force            ? "--force"
                 : o->compare.parallel ? "--parallel"
                                       : "--out is missing",
                 fit->force || o->compare.parallel ? "not with workers"
                                                   : "workers need to know the folder that they share");
  return -1;
}

static bool is_folder(const char *path) {
  struct stat st;
  return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* Finds out whether models are compared; -1, or the exit code of wrong usage. */
static int choose(const options *o, int argc, char **argv, bool *models) {
  static const char *const of_methods[] = {
      "methods", "reference", "parallel", "seed",   "fix",  "holdout", "ess",   "max-time",
      "worker",  "workers",   "slurm",    "submit", "wait", "status",  "until", "checkpoint"};
  const atvi_arg_list *where = &o->where;
  atvi_idx n = 0, other = 0;
  for (atvi_idx i = 0; i < where->n; i++) {
    if (is_folder(where->text[i]))
      n++;
    else
      other = i;
  }
  *models = n > 0;
  if (n == 0 && where->n == 1) return -1;
  if (n < where->n)
    return wrong(where->text[other], "not a folder; want one model file, or two or more folders of fits");
  if (n == 1) return wrong(where->text[0], "only one fit; want two or more, or one model file");
  for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
    for (size_t k = 0; k < sizeof of_methods / sizeof *of_methods; k++) {
      size_t length = strlen(of_methods[k]);
      if (strncmp(argv[i], "--", 2) == 0 && strncmp(argv[i] + 2, of_methods[k], length) == 0 &&
          (argv[i][2 + length] == 0 || argv[i][2 + length] == '='))
        return wrong(argv[i], "applies to methods with a model file, not to finished fits");
    }
  return -1;
}

static int report(const options *o, const atvi_app_compare_result *r) {
  int code = o->json ? atvi_print(r->json) : o->quiet ? ATVI_EXIT_DONE : atvi_print(r->text);
  if (code == ATVI_EXIT_DONE && !o->json) {
    char line[PATH_MAX + 32];
    snprintf(line, sizeof line, o->quiet ? "%s\n" : "\nwritten to %s\n", r->dir);
    code = atvi_print(line);
  }
  if (code != ATVI_EXIT_DONE) return code;
  if (r->stopped || atvi_signals_seen()) return ATVI_EXIT_STOPPED;
  if (r->n_fitted == 0) return ATVI_EXIT_FAILED;
  return o->strict && !r->all_ok ? ATVI_EXIT_DOUBT : ATVI_EXIT_DONE;
}

static atvi_status compare_models(const atvi_call *s, const options *o, atvi_app_compare_result *result) {
  const atvi_app_fit_opts *fit = &o->compare.fit;
  const atvi_app_models_opts models = {.n = o->where.n,
                                       .where = o->where.text,
                                       .out = fit->out,
                                       .force = fit->force,
                                       .no_report = fit->no_report,
                                       .older = {.n_data = fit->model.n_data,
                                                 .data = fit->model.data,
                                                 .folder = fit->model.folder,
                                                 .interpret = fit->model.interpret,
                                                 .runs = fit->model.runs}};
  return atvi_app_compare_models(s->ctx, s->pool, &models, result);
}

static int run(int argc, char **argv) {
  options o = {.compare.fit.how = atvi_fit_defaults()};
  bool models = false;
  int code = parse(&o, argc, argv);
  if (code < 0) code = choose(&o, argc, argv, &models);
  if (code >= 0) return code;
  o.compare.fit.model.path = o.where.text[0];

  atvi_call s;
  if (!atvi_call_open(&s, &atvi_cmd_compare, o.threads, o.quiet)) return ATVI_EXIT_FAILED;
  code = ATVI_EXIT_USAGE;
  if (atvi_call_model(&s, &o.fix, &o.data, &o.compare.fit.model)) {
    atvi_app_compare_result result;
    atvi_signals_catch(s.ctx, o.compare.share.worker);
    atvi_status status =
        models ? compare_models(&s, &o, &result) : atvi_app_compare(s.ctx, s.pool, &o.compare, &result);
    code = status != ATVI_OK       ? atvi_call_fail(&s, status)
           : result.workers.shared ? atvi_call_repeated(&s, &result.workers, o.json, o.quiet)
                                   : report(&o, &result);
    if (status == ATVI_EEXIST && models)
      fprintf(stderr, "Use --force to write into it, or choose another --out.\n");
  }
  atvi_call_close(&s);
  return code;
}

const atvi_command atvi_cmd_compare = {
    .name = "compare",
    .brief = "compare methods, or fits of several models",
    .usage = "MODEL [--methods LIST] [--reference METHOD] [--parallel]\n"
             "         [--seed N] [--out DIR] ...\n"
             "MODEL ... --out DIR --slurm OPTIONS | --submit COMMAND\n"
             "         [--workers N]\n"
             "MODEL ... --out DIR --worker | --status\n"
             "FIT FIT ... [--out DIR] ...",
    .operand = "MODEL",
    .about = "Fits MODEL with each of the methods, one after another, as 'atvi fit' would, predicts with "
             "each as 'atvi predict' would, and prints one table. A method that fails is listed as such, and "
             "the others continue.\n\n"
             "The methods can also be shared by workers on many hosts (docs/cluster.md). To continue a "
             "comparison that was stopped, give the same command again, with its --out.\n\n"
             "Distances are measured from the best available reference: a method that is exact in the limit "
             "and whose verdict is ok. Method atvi is run as 'atvi fit --no-exact' and exact as 'atvi fit "
             "--exact'.\n\n"
             "Given the folders of two or more finished fits, compares their models instead: evidence, "
             "leave-one-out cross-validation, stacking weights, shared parameters. Nothing is fitted, and "
             "the folders are not changed. Models are run again only for folders of older versions, which "
             "contain no predictions; --data, --folder and --runs then say where files are.",
    .after = after,
    .run = run,
};
