/* SPDX-License-Identifier: MIT */
#include "cli.h"
#include <limits.h>
#include <stdio.h>

static const char *const after[] = {
    "FILES",
    "DIR/predict.csv   one line per series and time: value (observed, or empty),\n"
    "                  status (fitted, held_out, censored, or empty); mean, sd,\n"
    "                  median and 95 % HPD interval of the mean, and of the\n"
    "                  predictive draws (pred_...); lpd, elpd_loo, khat;\n"
    "                  columns of the data that observations depend on; date,\n"
    "                  where the model has a calendar\n"
    "DIR/forecast.csv  the same at the times of --times, or in the rows of a file\n"
    "                  without observations (--data); and quartiles, of the mean\n"
    "                  (q25, q75) and of the predictive draws (pred_...)\n"
    "DIR/figures/      forecast.svg and forecast.pdf: data, median and bands\n"
    "                  (--times)\n"
    "DIR/report.html   if it exists, redrawn with the forecast\n"
    "DIR/apart.csv     with --apart, instead of predict.csv; and apart.json\n"
    "                  instead of scores.json\n"
    "DIR/scores.json   scores of each observed series and of all, for the data\n"
    "                  that were fitted and the data held out; LOO and WAIC\n",
    "SCORES",
    "in 95 %     share of the observed values inside the 95 % HPD predictive band\n"
    "AIL         mean length of that band\n"
    "MSPE        mean squared error of the predictive mean\n"
    "AIL/series  length of the band summed over a series; for all, the mean over\n"
    "            the series, not their sum\n"
    "MSPE draws  squared error of a predictive draw, mean over draws and values\n"
    "lpd         log predictive density of the values held out\n"
    "LOO, WAIC   expected log predictive density of new data, estimated by\n"
    "            leaving out each value in turn (PSIS-LOO) and by WAIC. Values\n"
    "            with a high k-hat dominate the fit: LOO is unreliable for them\n",
    "EXIT STATUS",
    "0   done\n"
    "1   failed, or a file of the results could not be written\n"
    "2   wrong usage, there is no such fit, its data are gone, or the model or\n"
    "    the data have changed since\n",
    "EXAMPLES",
    "atvi predict cold-001\n"
    "atvi predict cold-001 --times 20:40 --out draws-of-series.csv\n"
    "atvi predict flu-001 --times 2024-01-07:2024-02-04:7\n"
    "atvi fit cold.atvi --holdout 't > 14' --out early && atvi predict early\n"
    "atvi predict line-001 --data grid.csv\n"
    "atvi predict cold-001 --json | jq .loo.elpd\n",
    NULL,
};

typedef struct {
  atvi_app_predict_opts predict;
  atvi_arg_list data, where;
  atvi_idx threads;
  bool json, quiet;
} options;

static int parse(options *o, int argc, char **argv) {
  const atvi_arg arg[] = {
      {"times", "A:B[:STEP]", ATVI_ARG_TEXT, &o->predict.times,
       "Times to predict besides those of the data: from A to B (default STEP 1), or a list A,B,C; dates "
       "where the model has a calendar, with STEP in its unit. Counts since the previous time (increase) "
       "start at the last time of either."},
      {"apart", "RULE", ATVI_ARG_TEXT, &o->predict.apart,
       "Predict these rows from the others with the fitted parameters; the rule is as for atvi fit "
       "--holdout. For models whose observations are sums of processes."},
      {"draws", "N", ATVI_ARG_COUNT, &o->predict.draws,
       "Number of posterior draws to use (default: all, at most 20000, fewer for large models)."},
      {"out", "FILE", ATVI_ARG_TEXT, &o->predict.out,
       "Write the draws of the series: draw__ (line in draws.csv), series, time, mean, predictive."},
      {"data", "[NAME=]FILE", ATVI_ARG_LIST, &o->data,
       "Where a data file of the fit is now, if it was moved; or a file with the same columns and no "
       "observations (NA), for predictions at its rows. In its first row, counts since the previous row "
       "(increase) start at the last earlier row of the fitted data."},
      {"folder", "DIR", ATVI_ARG_TEXT, &o->predict.fit.folder,
       "Where the files that the model names are now, if they were moved."},
      {"runs", "DIR", ATVI_ARG_TEXT, &o->predict.fit.runs,
       "Where the runs of the model's simulator are now, if they were moved."},
      ATVI_ROW_THREADS(&o->threads),
      {"json", NULL, ATVI_ARG_FLAG, &o->json, "Print scores.json instead of the table."},
      ATVI_ROW_NO_COMPILE(&o->predict.fit.interpret),
      {"quiet", NULL, ATVI_ARG_FLAG, &o->quiet, "Print only notes and warnings, on standard error."},
      {0},
  };
  int code = atvi_args_parse_many(&atvi_cmd_predict, arg, argc, argv, &o->where);
  if (code >= 0 || o->where.n == 1) return code;
  fprintf(stderr, "atvi predict: want one DIR, but there is a second: %s\n'atvi compare' compares fits.\n",
          o->where.text[1]);
  return ATVI_EXIT_USAGE;
}

static int report(const options *o, const atvi_app_predict_result *r) {
  if (o->quiet) /* table and JSON contain them */
    for (atvi_idx i = 0; i < r->n_note; i++) fprintf(stderr, "note: %s\n", r->note[i]);
  if (o->quiet) return ATVI_EXIT_DONE;
  int code = atvi_print(o->json ? r->json : r->text);
  if (code != ATVI_EXIT_DONE || o->json) return code;
  char line[3 * PATH_MAX];
  snprintf(line, sizeof line, "\nwritten to %s/%s\n%s%s", r->dir, r->files, r->page ? r->page : "",
           r->page ? " shows the forecast\n" : "");
  return atvi_print(line);
}

static int run(int argc, char **argv) {
  options o = {0};
  int code = parse(&o, argc, argv);
  if (code >= 0) return code;

  atvi_call s;
  if (!atvi_call_open(&s, &atvi_cmd_predict, o.threads, true)) return ATVI_EXIT_FAILED;
  code = ATVI_EXIT_USAGE;
  if (atvi_call_data(&s, &o.data, &o.predict.fit.n_data, &o.predict.fit.data)) {
    atvi_app_predict_result result;
    o.predict.fit.where = o.where.text[0];
    atvi_status status = atvi_app_predict(s.ctx, s.pool, &o.predict, &result);
    code = status == ATVI_OK ? report(&o, &result) : atvi_call_fail(&s, status);
  }
  atvi_call_close(&s);
  return code;
}

const atvi_command atvi_cmd_predict = {
    .name = "predict",
    .brief = "predict with a fitted model, and score the predictions",
    .usage = "DIR | MODEL [--times A:B[:STEP]] [--draws N] [--out FILE]\n"
             "         [--json]",
    .operand = "DIR",
    .about = "Runs the model at draws of the posterior of a finished fit: the folder DIR, or the newest "
             "numbered folder here of a fit of MODEL. Observed and tracked quantities and states are "
             "predicted at the times of the data and of --times; observed quantities also with observation "
             "noise (predictive). Predictions are scored against the data; held-out data (atvi fit "
             "--holdout) are scored separately.\n\n"
             "The model and the settings are those of the fit. Random numbers follow from its seed. 'atvi "
             "compare' compares several fits.",
    .after = after,
    .run = run,
};
