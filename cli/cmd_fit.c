/* SPDX-License-Identifier: MIT */
#include "cli.h"
#include <limits.h>
#include <stdio.h>

static char methods[ATVI_HELP_METHODS]; /* filled from the list of methods before it is shown */

static const char *const after[] = {
    "METHODS",
    methods,
    "FILES",
    "DIR/draws.csv      draws that count equally, as Stan CSV: # lines with the\n"
    "                   configuration, a header, lp__, log_lik__, then parameters\n"
    "                   and derived quantities. For atvi, nf and copula resampled\n"
    "                   by weight if k-hat permits\n"
    "DIR/weighted.csv   atvi, nf, copula: the draws of the approximation with\n"
    "                   their weights (weight__)\n"
    "DIR/fit.nc         everything as netCDF-4, in the layout of ArviZ, with\n"
    "                   predictions at the data (docs/formats.md); needs a netCDF\n"
    "                   library\n"
    "DIR/summary.json   method, seed, cost, verdict and messages, log_evidence,\n"
    "                   elbo, khat; for every parameter mean, sd, mode, median,\n"
    "                   hpd95, quantiles, ess_bulk, ess_tail, rhat, mcse\n"
    "                   (docs/method.md has all fields)\n"
    "DIR/report.html    all results, for a browser; needs no network\n"
    "DIR/figures/       its figures as SVG and PDF\n"
    "DIR/model.atvi     a copy of the model file\n"
    "DIR/fit.json       how the fit was called\n"
    "DIR/checkpoint     state of a fit that is running or was interrupted\n"
    "DIR/emulator-NAME.json\n"
    "                   the emulators it used, for atvi predict\n"
    "$XDG_CACHE_HOME/atvi\n"
    "                   compiled models (default ~/.cache/atvi); may be deleted\n",
    "SIGNALS",
    "Ctrl-C (SIGINT) and SIGTERM end the fit early: results so far are written,\n"
    "the summary says so, and the exit status is 130. A second signal exits at\n"
    "once. 'atvi fit --resume DIR' continues it, also after kill -9, a crash of\n"
    "the machine, or the time limit of a batch system; so does the same command.\n",
    "EXIT STATUS",
    "0     done\n"
    "1     failed, or a file of the results could not be written\n"
    "2     wrong usage, or the model or its data are wrong\n"
    "3     done, but the result cannot be trusted (only with --strict)\n"
    "130   interrupted\n",
    "EXAMPLES",
    "atvi fit examples/cold/cold.atvi\n"
    "atvi fit rotavirus.atvi --data set_1.csv --out set1 --max-time 10m\n"
    "atvi fit cold.atvi --method ram --ess 4000\n"
    "atvi fit cold.atvi --fix S0=38 --method map\n",
    NULL,
};

typedef struct {
  atvi_app_fit_opts fit;
  atvi_arg_list fix, data;
  atvi_idx threads;
  bool strict, quiet, resume;
} options;

static int parse(options *o, int argc, char **argv, const char **path) {
  const atvi_arg own[] = {
      {"out", "DIR", ATVI_ARG_TEXT, &o->fit.out,
       "Folder for the results. Default: a new numbered folder here, named after the model (cold-001, "
       "cold-002, ...)."},
      {"force", NULL, ATVI_ARG_FLAG, &o->fit.force, "Write into DIR even if it exists."},
      {"resume", NULL, ATVI_ARG_FLAG, &o->resume,
       "Continue a fit that was interrupted or killed: instead of MODEL give its folder DIR. The draws are "
       "those of a fit that was not interrupted. The model, its data and the program must be what they "
       "were."},
      ATVI_ROW_CHECKPOINT(&o->fit.checkpoint_s),
      ATVI_ROW_THREADS(&o->threads),
      {"fix", "NAME=VALUE", ATVI_ARG_LIST, &o->fix,
       "Hold a parameter at a value; may be repeated. beta.1=0.9 holds one element of an array, beta=0.9 "
       "all."},
      ATVI_ROW_DATA(&o->data),
      ATVI_ROW_FOLDER(&o->fit.model.folder),
      ATVI_ROW_RUNS(&o->fit.model.runs),
      {"holdout", "RULE", ATVI_ARG_TEXT, &o->fit.holdout,
       "Leave observations out of the fit, for atvi predict to score: 't > 14', 'row % 5 == 0', or any other "
       "column of the data, with < <= > >= == !=; join several with 'and'. 'subject == s01' leaves out a "
       "unit."},
      {"no-report", NULL, ATVI_ARG_FLAG, &o->fit.no_report, "Do not write report.html and figures."},
      {"live", NULL, ATVI_ARG_FLAG, &o->fit.live,
       "Serve the report on this machine while the fit runs; the address is printed. See also atvi watch."},
      {"strict", NULL, ATVI_ARG_FLAG, &o->strict, "End with status 3 unless the verdict is ok."},
      ATVI_ROW_NO_COMPILE(&o->fit.model.interpret),
      {"quiet", NULL, ATVI_ARG_FLAG, &o->quiet,
       "No progress; print only the name of the folder and, on standard error, why the verdict is not ok."},
      {0},
  };
  atvi_arg arg[ATVI_ARGS_MOST];
  atvi_args_fit(&o->fit.how, own, arg);
  atvi_help_methods(ATVI_METHOD_OWN, methods);
  return atvi_args_parse(&atvi_cmd_fit, arg, argc, argv, path);
}

/* A fit that goes on has the options that it was begun with. */
static bool may_resume(options *o) {
  const atvi_fit_option *p;
  const char *other = o->fit.out       ? "out"
                      : o->fit.holdout ? "holdout"
                      : o->fix.n       ? "fix"
                      : o->data.n      ? "data"
                                       : NULL;
  for (int i = 0; (p = atvi_infer_fit_option_at(i)); i++)
    if (!atvi_infer_fit_option_is_default(p, &o->fit.how) && p->kind != ATVI_OPTION_SECONDS)
      other = p->flag ? p->flag : p->name;
  if (!other && (o->fit.model.folder || o->fit.model.runs)) other = o->fit.model.runs ? "runs" : "folder";
  if (other)
    fprintf(stderr, "atvi fit: --%s cannot be given with --resume: the fit continues as it was begun\n",
            other);
  o->fit.resume = o->fit.model.path;
  return !other;
}

static void say_resume(const char *dir) {
  if (!dir) return;
  atvi_show_end();
  fprintf(stderr, "atvi fit: interrupted; 'atvi fit --resume %s' continues it\n", dir);
}

static int report(const options *o, const atvi_app_fit_result *r) {
  if (!r->text) { /* --resume of a fit that is complete */
    char line[PATH_MAX + 64];
    snprintf(line, sizeof line, o->quiet ? "%s\n" : "%s is complete; there is nothing to resume\n", r->dir);
    return atvi_print(line);
  }
  int code = o->quiet ? ATVI_EXIT_DONE : atvi_print_judged(r->text, 1, &r->judged);
  if (code == ATVI_EXIT_DONE) {
    char line[PATH_MAX + 32];
    snprintf(line, sizeof line, o->quiet ? "%s\n" : "\nwritten to %s\n", r->dir);
    code = atvi_print(line);
    if (!o->quiet && r->report && code == ATVI_EXIT_DONE) {
      snprintf(line, sizeof line, "report      %s\n", r->report);
      code = atvi_print(line);
    }
  }
  if (code != ATVI_EXIT_DONE) return code;
  if (o->quiet && r->reason)
    fprintf(stderr, "%satvi fit:%s verdict %s: %s\n", atvi_show_strong(), atvi_show_plain(),
            atvi_verdict_name(r->judged.verdict), r->reason);
  if (r->stopped || atvi_signals_seen()) return ATVI_EXIT_STOPPED;
  return o->strict && r->judged.verdict != ATVI_VERDICT_OK ? ATVI_EXIT_DOUBT : ATVI_EXIT_DONE;
}

static int fit(options *o) {
  atvi_call s;
  int code = ATVI_EXIT_USAGE;
  if (!atvi_call_open(&s, &atvi_cmd_fit, o->threads, o->quiet)) return ATVI_EXIT_FAILED;
  if (atvi_call_model(&s, &o->fix, &o->data, &o->fit.model)) {
    atvi_app_fit_result result = {0};
    o->fit.watched = true;
    atvi_signals_catch(s.ctx, false);
    atvi_status status = atvi_app_fit(s.ctx, s.pool, &o->fit, &result);
    code = status == ATVI_OK ? report(o, &result) : atvi_call_fail(&s, status);
    if (status == ATVI_EEXIST) fprintf(stderr, "Use --force to write into it, or choose another --out.\n");
    say_resume(result.resume);
  }
  atvi_ranks_message(atvi_errmsg(s.ctx));
  atvi_call_close(&s);
  return code;
}

static int run(int argc, char **argv) {
  options o = {.fit.how = atvi_fit_defaults()};
  int ranks = atvi_ranks_begin(argc, argv, &o.fit.model);
  if (ranks == 0) return ATVI_EXIT_DONE;
  int code = parse(&o, argc, argv, &o.fit.model.path);
  if (ranks > 1) o.threads = o.fit.model.serves ? 1 : ranks;
  if (code < 0 && o.resume && !may_resume(&o)) code = ATVI_EXIT_USAGE;
  if (code < 0) code = fit(&o);
  return atvi_ranks_end(code);
}

const atvi_command atvi_cmd_fit = {
    .name = "fit",
    .brief = "infer the parameters of a model from its data",
    .usage = "MODEL [--method METHOD] [--seed N] [--out DIR]\n"
             "         [--threads N] [--fix NAME=VALUE] [--max-time TIME]\n"
             "         [--data FILE] ...\n"
             "--resume DIR [--threads N] [--max-time TIME] ...",
    .operand = "MODEL",
    .about = "Draws from the posterior distribution of the parameters of MODEL given its data, writes the "
             "draws and a summary into a folder, and prints the summary with a verdict (ok, warn or bad) and "
             "its reasons. Progress goes to standard error.\n\n"
             "An existing folder is not changed without --force. Without --out every fit gets a new numbered "
             "folder; 'atvi summary MODEL' shows the newest.\n\n"
             "mpirun or srun of several processes makes one fit on all of them, with the same draws "
             "(docs/mpi.md).",
    .after = after,
    .run = run,
};
