/* SPDX-License-Identifier: MIT */
/* atvi predict: predictions of a fitted model, at the times of its data and beyond, and their scores.
 *
 *   1. The folder of the fit names the model, its data and its draws. The fitted model is evaluated at the draws: if the log likelihood is not that of the fit, the model or the data have changed.
 *   2. The same model, with the data that were held out and at further times, is run at the draws.
 *   3. Bands and scores are written into the folder. */
#include "app/predictions.h"
#include "io/draws_file.h"
#include "io/file.h"
#include "math/special.h"
#include <math.h>
#include <string.h>
#include <unistd.h>

/* Predictions in the rows of a file without observations. The model continues from the fit: it has the same
 * start, and what counts since the previous row (increase) counts, in the first row, since the last earlier
 * row of the fitted data. */

typedef struct {
  atvi_idx n;
  /* [n] ascending. */
  const double *time;
} fit_rows;

/* Where the model continues from, according to the fit. */
typedef struct {
  /* The data of the fit could be read. */
  bool known;
  atvi_idx n_data;
  /* [n_data] the rows of the fit's data sets. */
  fit_rows *of;
  /* The model with the start of the fit, if that depends on the data; else NULL. */
  const char *text;
  /* [n_data] as in atvi_model_load_opts; NULL: nothing counts since the previous row. */
  const double *since;
} grid_start;

static const double SAME_STEP = 1e-9; /* relative to the largest time: rounding error */

/* Times of the data sets of the fit, and its start. */
static atvi_status copy_times(atvi_pool *pool, const atvi_lang *lang, grid_start *g) {
  g->n_data = lang->n_data;
  g->of = atvi_pool_take(pool, (size_t)lang->n_data + 1, sizeof *g->of);
  for (atvi_idx k = 0; g->of && k < lang->n_data; k++) {
    const atvi_lang_data *d = &lang->data[k];
    double *time = atvi_pool_take(pool, (size_t)d->n_row + 1, sizeof *time);
    if (!time) return ATVI_ENOMEM;
    for (atvi_idx r = 0; d->time && r < d->n_row; r++) time[r] = d->time[r];
    g->of[k] = (fit_rows){d->time ? d->n_row : 0, time};
  }
  if (!g->of) return ATVI_ENOMEM;
  ATVI_TRY(atvi_app_start_text(pool, lang, lang->time.start, &g->text));
  g->known = true;
  return ATVI_OK;
}

/* *lang is NULL if that can no longer be read: then *silent has the reason. */
static void read_fit(atvi_ctx *silent, atvi_pool *own, const atvi_fitted *run, const char *folder,
                     atvi_lang **lang) {
  atvi_fitted was;
  *lang = NULL;
  if (atvi_app_fitted_read(silent, own, &(atvi_app_finished){.where = run->dir, .folder = folder}, &was) !=
      ATVI_OK)
    return;
  const atvi_lang_opts how = {was.model.n_data, was.model.data, was.model.folder, false};
  if (atvi_lang_parse(silent, was.model.path, was.text, strlen(was.text), &how, lang) != ATVI_OK)
    *lang = NULL;
}

/* A separate context keeps the message and announces nothing twice. */
static atvi_status find_fit(atvi_pool *pool, const atvi_fitted *run, const char *folder, grid_start *g) {
  atvi_ctx *silent;
  atvi_pool *own;
  atvi_lang *lang = NULL;
  if (atvi_ctx_new(NULL, &silent) != ATVI_OK) return ATVI_ENOMEM;
  atvi_status status = atvi_pool_new(silent, &own) == ATVI_OK ? ATVI_OK : ATVI_ENOMEM;
  if (status == ATVI_OK) {
    read_fit(silent, own, run, folder, &lang);
    if (lang) status = copy_times(pool, lang, g);
    atvi_lang_free(lang);
    atvi_pool_free(own);
  }
  atvi_ctx_free(silent);
  return status;
}

static bool any_counts(const atvi_lang *lang) {
  for (atvi_idx o = 0; o < lang->n_observe; o++)
    if (atvi_app_counts(lang, &lang->observe[o])) return true;
  return false;
}

/* l: the model with the file instead of its data. folder: of files, NULL for that of the fit. Memory from
 * pool. Errors: EDATA (the start of the model is not known), ENOMEM. */
static atvi_status grid_find(atvi_pool *pool, const atvi_loaded *l, const atvi_fitted *run,
                             const char *folder, grid_start *g) {
  const atvi_lang *lang = l->model->lang;
  const char *must_say;
  *g = (grid_start){0};
  if (lang->dynamics.n_state == 0) return ATVI_OK;
  ATVI_TRY(find_fit(pool, run, folder, g));
  ATVI_TRY(atvi_app_start_text(pool, lang, 0, &must_say));
  if (!g->known && must_say)
    return ATVI_FAIL(atvi_pool_ctx(pool), ATVI_EDATA,
                     "%s: error: the model starts at the first time of its data, and the data of the fit can "
                     "no longer be read\nhint: restore them",
                     run->dir);
  if (!any_counts(lang) || !g->known || g->n_data != lang->n_data) return ATVI_OK;
  double *since = atvi_pool_take(pool, (size_t)lang->n_data + 1, sizeof *since);
  if (!since) return ATVI_ENOMEM;
  for (atvi_idx k = 0; k < lang->n_data; k++) {
    const atvi_lang_data *d = &lang->data[k];
    atvi_idx r = d->time && d->n_row ? atvi_model_time_before(g->of[k].n, g->of[k].time, d->time[0]) : -1;
    since[k] = r >= 0 ? g->of[k].time[r] : NAN;
  }
  g->since = since;
  return ATVI_OK;
}

/* ---- notes on spans ---- */

static void put_when(atvi_text *t, const atvi_lang *lang, double time) {
  char date[ATVI_APP_DATE];
  atvi_app_date(lang, time, date);
  atvi_io_text_add(t, "%g", time);
  if (*date) atvi_io_text_add(t, " (%s)", date);
}

static void say_unknown(atvi_text *t, const atvi_lang *lang, const atvi_lang_observe *o) {
  const atvi_lang_data *d = &lang->data[o->data];
  atvi_io_text_add(t, "row 1 of %s, at ", d->path);
  put_when(t, lang, d->time[0]);
  atvi_io_text_add(t,
                   ": %s counts since the start (increase), which spans %g: the data of the fit can no "
                   "longer be read, so their end is not known",
                   o->name, d->time[0] - lang->time.start);
}

static void say_span(atvi_text *t, const atvi_lang *lang, const atvi_lang_observe *o, atvi_idx row,
                     double from, double usual) {
  const atvi_lang_data *d = &lang->data[o->data];
  atvi_io_text_add(t, "row %td of %s, at ", row + 1, d->path);
  put_when(t, lang, d->time[row]);
  atvi_io_text_add(t, ": %s counts since ", o->name);
  put_when(t, lang, from);
  atvi_io_text_add(t, " (increase): that spans %g, in the data of the fit %g; such counts cannot be compared",
                   d->time[row] - from, usual);
}

/* The first row whose span does not occur in the fit. */
static void look(atvi_text *t, const atvi_lang *lang, const grid_start *g, const atvi_lang_observe *o) {
  const atvi_lang_data *d = &lang->data[o->data];
  const fit_rows *fit = &g->of[o->data];
  double least, most,
      from = g->since && g->since[o->data] > lang->time.start ? g->since[o->data] : lang->time.start;
  atvi_app_steps(fit->n, fit->time, &least, &most);
  if (!(most > 0)) return;
  double eps = SAME_STEP * fmax(fabs(d->time[d->n_row - 1]), fabs(lang->time.start));
  for (atvi_idx r = 0; r < d->n_row; r++) {
    if (r > 0 && d->time[r] > d->time[r - 1]) from = d->time[r - 1];
    double span = d->time[r] - from;
    bool first = r == 0 && fabs(d->time[0] - fit->time[0]) <= eps; /* as in the fit */
    if (first || (span >= least - eps && span <= most + eps)) continue;
    say_span(t, lang, o, r, from, most);
    return;
  }
}

/* A note on the time spans that rows count over; *note is NULL if there is nothing to say. Errors: ENOMEM. */
static atvi_status grid_note(atvi_pool *pool, const atvi_loaded *l, const grid_start *g, const char **note) {
  const atvi_lang *lang = l->model->lang;
  *note = NULL;
  for (atvi_idx o = 0; o < lang->n_observe && !*note; o++) {
    const atvi_lang_observe *obs = &lang->observe[o];
    const atvi_lang_data *d = &lang->data[obs->data];
    atvi_text t = {.pool = pool};
    if (!d->time || d->n_row == 0 || !atvi_app_counts(lang, obs)) continue;
    if (g->known)
      look(&t, lang, g, obs);
    else
      say_unknown(&t, lang, obs);
    ATVI_TRY(atvi_io_text_get(&t, note));
    if (!**note) *note = NULL;
  }
  return ATVI_OK;
}

enum { MESSAGES = 12 };
enum { DRAWS = 20000 }; /* by default: enough to know the ends of a 95 % band to a hundredth of its length */
static const double MOST_NUMBERS = 2e8; /* in all: 1.6 GB */
static const double MANY_NUMBERS = 3e7; /* by default: a few seconds */
static const double MORE_NUMBERS =
    1e8; /* if times were given: results at the data should not depend on them */

typedef struct {
  atvi_ctx *ctx;
  atvi_pool *pool;
  const atvi_app_predict_opts *opts;
  atvi_fitted run;
  atvi_idx n_time;
  double *time;
  atvi_draws *draws;      /* draws of the fit; their groups are filled here */
  atvi_idx n_draw, *draw; /* which of them */
  bool grid;              /* --data has no observations: its rows are to be predicted */
  grid_start from;
  atvi_idx n_message;
  const char *message[MESSAGES];
} prediction;

static void say(prediction *x, const char *message) {
  if (message && x->n_message < MESSAGES) x->message[x->n_message++] = message;
}

/* ---- draws ---- */

static atvi_status read_draws(prediction *x, const atvi_target *t) {
  const char *path = atvi_pool_printf(x->pool, "%s/draws.csv", x->run.dir);
  if (!path) return ATVI_ENOMEM;
  ATVI_TRY(atvi_io_draws_csv_read(x->ctx, path, &x->draws));
  const atvi_draws *d = x->draws;
  double most = -HUGE_VAL, of_data = (double)(t->n_out + 2 * t->n_obs + 1),
         each = of_data + (double)x->n_time * (double)(t->n_series + 1);
  for (atvi_idx i = 0; i < d->n; i++) most = fmax(most, d->log_prior[i] + d->log_lik[i]);
  if (isnan(x->run.log_map)) x->run.log_map = most;
  atvi_idx asked = x->opts->draws,
           few = (atvi_idx)fmax(400, fmin(MANY_NUMBERS / of_data, MORE_NUMBERS / each));
  atvi_idx n = asked > 0 ? asked : few < DRAWS ? few : DRAWS;
  if (n > d->n) n = d->n;
  if ((double)n * each > MOST_NUMBERS)
    return ATVI_FAIL(x->ctx, ATVI_EINVAL,
                     "%td draws of %.0f numbers each are %.2g numbers; use fewer with --draws", n, each,
                     (double)n * each);
  if (asked > d->n)
    say(x, atvi_pool_printf(x->pool, "draws.csv has %td draws, fewer than were asked for", d->n));
  return atvi_app_predictions_pick(x->pool, d, n, &x->n_draw, &x->draw);
}

/* ---- models ---- */

static atvi_status check_times(const prediction *x, const atvi_loaded *l) {
  const atvi_lang *lang = l->model->lang;
  if (x->n_time == 0 || lang->dynamics.n_state > 0 || l->model->emulated) return ATVI_OK;
  return ATVI_FAIL(x->ctx, ATVI_EINVAL, "--times %s: the model has no states, so nothing continues in time",
                   x->opts->times);
}

/* Rows without the columns that their observation needs. */
static void tell_missing(prediction *x, const atvi_loaded *l) {
  const atvi_model *m = l->model;
  for (atvi_idx o = 0; o < m->lang->n_observe; o++) {
    const atvi_csv *csv = m->lang->data[m->lang->observe[o].data].csv;
    atvi_idx n = 0;
    for (atvi_idx r = 0; csv && r < csv->n_row; r++) n += !m->lik.covariates[o][r];
    if (n)
      say(x, atvi_pool_printf(
                 x->pool,
                 "%td of %td rows have no prediction of %s: it depends on a column that is missing there", n,
                 csv->n_row, m->lang->observe[o].name));
  }
}

/* Series that cannot continue because they depend on a column of the data. */
static void tell_covariates(prediction *x, const atvi_loaded *l) {
  const atvi_lang *lang = l->model->lang;
  const char *name = NULL;
  for (atvi_idx o = 0; o < lang->n_observe; o++)
    for (int a = 0; a < lang->observe[o].n_arg; a++)
      if (atvi_graph_kinds(lang->graph, lang->observe[o].arg[a]) >> ATVI_IN_DATA & 1)
        name = lang->observe[o].name;
  if (name && x->n_time)
    say(x, atvi_pool_printf(x->pool,
                            "%s depends on a column of its data file, which has no value at other times: it "
                            "is predicted only at the times of the data",
                            name));
}

/* As it was fitted; or, to predict, with the data that were held out and at further times. */
static atvi_status load(const prediction *x, bool all, atvi_loaded *l) {
  atvi_model_load_opts how = {.text = x->run.text};
  *(all ? &how.apart : &how.holdout) = x->run.holdout;
  if (all) how.n_time = x->n_time, how.time = x->time, how.extend = true;
  if (x->grid) how.since = x->from.since;
  return atvi_app_load(x->ctx, &x->run.model, &how, l);
}

/* ---- results ---- */

/* By chance, this few are inside once in a thousand fits. */
static void tell_misses(prediction *x, const atvi_score *s, const char *whose) {
  static const double RARE = 1e-3, MASS = 0.95;
  if (s->n == 0 || atvi_math_binomial_lcdf((double)s->n_inside, (double)s->n, MASS, NULL) > log(RARE)) return;
  say(x, atvi_pool_printf(x->pool,
                          "the model misses %td of the %td %s: %.0f %% are inside its 95 %% bands, fewer "
                          "than expected by chance",
                          s->n - s->n_inside, s->n, whose, 100 * s->coverage));
}

static void tell_fit(prediction *x, const atvi_loaded *l, const atvi_scores *s) {
  double d = (double)l->target->d;
  tell_misses(x, &s->fitted_all, "fitted values");
  tell_misses(x, &s->held_all, x->opts->apart ? "values that were set apart" : "held-out values");
  if (!l->model->emulated && s->loo.n > 0 && s->loo.p > 2 * d + 2)
    say(x, atvi_pool_printf(x->pool,
                            "LOO finds %.1f effective parameters, but the model has %td: single values "
                            "influence it too much, as when a model does not fit",
                            s->loo.p, l->target->d));
}

/* LOO of whole units is seldom right: a unit's parameters depend on its data alone. */
static void tell_units(prediction *x, const atvi_loaded *l, const atvi_scores *s) {
  const char *label = s->units.n_bad ? strchr(s->worst_unit.name, ' ') : NULL, *rule = "";
  if (!label || !l->model->blocks.part) return;
  int block = (int)(label - s->worst_unit.name);
  if (!memchr(s->worst_unit.name, '.', (size_t)block)) /* of blocks inside others the file has two columns */
    rule = atvi_pool_printf(x->pool, " '%.*s == \"%s\"'", block, s->worst_unit.name, label + 1);
  say(x,
      atvi_pool_printf(
          x->pool,
          "to see how well a unit is predicted without its data, leave it out of a fit: atvi fit --holdout%s",
          rule ? rule : ""));
}

static bool is_given(const atvi_point *p) { return p->given; }
static bool is_asked(const atvi_point *p) { return p->asked; }

static atvi_status save_csv(const prediction *x, const atvi_loaded *l, const char *name, atvi_idx n,
                            const atvi_predicted *series, bool (*wanted)(const atvi_point *p)) {
  const char *csv;
  ATVI_TRY(atvi_app_predict_csv(x->pool, l, n, series, wanted, wanted == is_asked, &csv));
  return atvi_io_file_save_in(x->pool, x->run.dir, name, csv);
}

/* What was asked for, beyond the data. */
static atvi_status forecast(const prediction *x, const atvi_loaded *l, atvi_idx n,
                            const atvi_predicted *series, atvi_app_predict_result *out) {
  const char *text;
  bool timed = x->n_time || (l->model->lang->n_data && l->model->lang->data[0].time);
  if (!x->n_time && !x->grid) return ATVI_OK;
  ATVI_TRY(save_csv(x, l, "forecast.csv", n, series, is_asked));
  if (x->n_time) ATVI_TRY(atvi_app_predict_figure(x->pool, l, x->run.dir, n, series));
  ATVI_TRY(atvi_app_predict_forecast_text(x->pool, timed ? l->model->lang : NULL, n, series, &text));
  out->text = atvi_pool_printf(x->pool, "%s\n%s", out->text, text);
  return out->text ? ATVI_OK : ATVI_ENOMEM;
}

/* The date of the worst value, if times have dates. */
static void tell_date(const atvi_loaded *l, atvi_scores *s, char date[ATVI_APP_DATE]) {
  const atvi_lang *lang = l->model->lang;
  for (atvi_idx k = 0; k < lang->n_data; k++)
    if (!lang->data[k].time) return; /* its points are rows */
  if (!s->worst.name) return;
  atvi_app_date(lang, s->worst.time, date);
  s->worst.date = *date ? date : NULL;
}

static atvi_status report(prediction *x, const atvi_loaded *l, atvi_app_predict_result *out) {
  atvi_idx n;
  atvi_predicted *series;
  atvi_scores *s;
  char date[ATVI_APP_DATE];
  ATVI_TRY(atvi_diag_predicted_read(x->pool, x->draws, ATVI_PREDICTED_LOO, &n, &series));
  atvi_app_predict_mark(l, x->grid, x->n_time, x->time, n, series);
  for (atvi_idx k = 0; k < n; k++)
    for (atvi_idx i = 0; i < series[k].n; i++) series[k].point[i].apart = x->opts->apart != NULL;
  ATVI_TRY(atvi_diag_predicted_judge(x->ctx, x->n_draw, n, series));
  ATVI_TRY(atvi_diag_scores_new(x->pool, x->n_draw, n, series, &s));
  tell_fit(x, l, s);
  tell_units(x, l, s);
  s->model = l->target->name;
  s->method = x->run.method;
  s->verdict = x->run.verdict;
  s->holdout = x->run.holdout;
  s->apart = x->opts->apart != NULL;
  s->seed = x->run.seed;
  s->log_map = x->run.log_map;
  s->n_message = x->n_message;
  s->message = x->message;
  tell_date(l, s, date);
  ATVI_TRY(atvi_diag_scores_json(x->pool, s, &out->json));
  ATVI_TRY(atvi_diag_scores_text(x->pool, s, &out->text));
  if (!x->grid) {
    ATVI_TRY(save_csv(x, l, s->apart ? "apart.csv" : "predict.csv", n, series, is_given));
    ATVI_TRY(atvi_io_file_save_in(x->pool, x->run.dir, s->apart ? "apart.json" : "scores.json", out->json));
  }
  ATVI_TRY(forecast(x, l, n, series, out));
  if (x->opts->out)
    ATVI_TRY(atvi_app_predict_save_draws(x->pool, x->opts->out, n, series, x->n_draw, x->draw));
  out->dir = x->run.dir;
  out->files = x->grid                 ? "forecast.csv"
               : s->apart && x->n_time ? "apart.csv, forecast.csv and apart.json"
               : s->apart              ? "apart.csv and apart.json"
               : x->n_time             ? "predict.csv, forecast.csv, scores.json and figures/forecast.svg"
                                       : "predict.csv and scores.json";
  const char **note = atvi_pool_take(x->pool, MESSAGES, sizeof *note);
  if (!note) return ATVI_ENOMEM;
  for (atvi_idx i = 0; i < x->n_message; i++) note[i] = x->message[i];
  out->n_note = x->n_message;
  out->note = note;
  return ATVI_OK;
}

static atvi_status predict(prediction *x, atvi_loaded *l, atvi_app_predict_result *out) {
  const char *note;
  tell_covariates(x, l);
  tell_missing(x, l);
  ATVI_TRY(atvi_app_predict_spacing(x->pool, l, x->n_time, x->time, &note));
  say(x, note);
  if (x->grid) {
    ATVI_TRY(grid_note(x->pool, l, &x->from, &note));
    say(x, note);
  }
  x->draws->made->seed = x->run.seed;
  const atvi_predictions_opts opts = {
      .n = x->n_draw, .draw = x->draw, .holdout = x->run.holdout, .states = true};
  ATVI_TRY(atvi_app_predictions_fill(l, &opts, x->draws));
  return report(x, l, out);
}

/* Held-out values are not part of the log likelihood, which reveals other changes. */
static void tell_held(prediction *x, const atvi_loaded *l) {
  const atvi_holdout *h = &l->model->holdout;
  const char *hash = h->held && x->run.held_hash ? atvi_app_held_hash(x->pool, l) : NULL;
  if (!hash || x->run.held_n < 0 || (h->n_held == x->run.held_n && strcmp(hash, x->run.held_hash) == 0))
    return;
  if (h->n_held != x->run.held_n)
    say(x, atvi_pool_printf(x->pool, "the data have %td held-out values, but had %td at the time of the fit",
                            h->n_held, x->run.held_n));
  else
    say(x, "held-out values have changed since the fit");
}

/* Rows to predict: a file without observations instead of the data. */
static atvi_status check_grid(prediction *x) {
  if (!x->grid) return ATVI_OK;
  if (x->n_time)
    return ATVI_FAIL(x->ctx, ATVI_EINVAL,
                     "--data has no observations, so its rows are predicted; leave --times out");
  say(x, "the file given by --data has no observations: its rows are predicted, and nothing is scored");
  return ATVI_OK;
}

/* l: the model as it was fitted. */
static atvi_status check(prediction *x, atvi_loaded *l) {
  ATVI_TRY(check_times(x, l));
  ATVI_TRY(read_draws(x, l->target));
  ATVI_TRY(check_grid(x));
  atvi_idx failed = x->n_draw;
  ATVI_TRY(atvi_app_predictions_check(l, x->run.dir, x->draws, x->grid, &x->n_draw, x->draw));
  failed -= x->n_draw;
  if (failed)
    say(x, atvi_pool_printf(x->pool, "%td draw%s could not be run and %s left out", failed,
                            failed == 1 ? "" : "s", failed == 1 ? "is" : "are"));
  if (x->run.changed)
    say(x, atvi_pool_printf(x->pool, "%s has changed since the fit; the copy in %s is used",
                            x->run.model.path, x->run.dir));
  tell_held(x, l);
  return ATVI_OK;
}

/* Rows that are predicted from the others with the fitted parameters; the rule replaces that of the fit. */
static atvi_status set_apart(prediction *x, const atvi_loaded *l) {
  if (!l->model->emulated)
    return ATVI_FAIL(
        x->ctx, ATVI_EINVAL,
        "--apart %s: observations of this model depend on each other only through the parameters, so this "
        "would change nothing; atvi fit --holdout leaves them out of the fit",
        x->opts->apart);
  if (x->run.holdout)
    return ATVI_FAIL(x->ctx, ATVI_EINVAL, "--apart %s: the fit already holds out %s", x->opts->apart,
                     x->run.holdout);
  x->run.holdout = x->opts->apart;
  return ATVI_OK;
}

/* A holdout rule cannot select rows from a file without observations. */
static atvi_status drop_holdout(prediction *x) {
  atvi_loaded l;
  const char *rule = x->run.holdout;
  if (!rule || x->opts->fit.n_data == 0) return ATVI_OK;
  x->run.holdout = NULL;
  ATVI_TRY(load(x, false, &l));
  if (!atvi_app_no_data(&l)) x->run.holdout = rule;
  atvi_app_unload(&l);
  return ATVI_OK;
}

/* Loads the model as it was fitted or, with a file without observations, continuing from the fit. */
static atvi_status open_model(prediction *x, atvi_loaded *l) {
  ATVI_TRY(load(x, false, l));
  x->grid = x->opts->fit.n_data > 0 && atvi_app_no_data(l);
  if (!x->grid) return ATVI_OK;
  atvi_status status = l->model->emulated ? ATVI_FAIL(x->ctx, ATVI_EINVAL,
                                                      "--data: every observation is missing, but this model "
                                                      "predicts from observations; use --times")
                                          : grid_find(x->pool, l, &x->run, x->opts->fit.folder, &x->from);
  if (status == ATVI_OK && !x->from.text && !x->from.since) return ATVI_OK;
  atvi_app_unload(l);
  if (status != ATVI_OK) return status;
  if (x->from.text) x->run.text = x->from.text;
  return load(x, false, l);
}

/* Redraws the page of the fit, if it has one, with the forecast. Failures are warnings. */
static void redraw(const prediction *x, atvi_app_predict_result *out) {
  const char *page = atvi_pool_printf(x->pool, "%s/report.html", x->run.dir);
  if (!page || access(page, F_OK) != 0) return;
  atvi_app_finished how = x->opts->fit;
  how.where = x->run.dir;
  if (x->grid) how.n_data = 0;
  if (atvi_app_report(x->ctx, x->pool, &how, &out->page) != ATVI_OK)
    atvi_log(x->ctx, ATVI_LOG_LOST, "the report could not be written: %s", atvi_errmsg(x->ctx));
}

atvi_status atvi_app_predict(atvi_ctx *ctx, atvi_pool *pool, const atvi_app_predict_opts *opts,
                             atvi_app_predict_result *out) {
  prediction x = {.ctx = ctx, .pool = pool, .opts = opts};
  atvi_loaded l;
  *out = (atvi_app_predict_result){0};
  ATVI_TRY(atvi_app_fitted_read(ctx, pool, &opts->fit, &x.run));
  ATVI_TRY(drop_holdout(&x));
  ATVI_TRY(open_model(&x, &l));
  atvi_status status = atvi_app_times(ctx, pool, opts->times, l.model->lang, &x.n_time, &x.time);
  if (status == ATVI_OK) status = check(&x, &l);
  if (status == ATVI_OK && opts->apart) status = set_apart(&x, &l);
  if (status == ATVI_OK && (x.run.holdout || x.n_time)) {
    atvi_app_unload(&l);
    status = load(&x, true, &l);
  }
  if (status == ATVI_OK) status = predict(&x, &l, out);
  atvi_app_unload(&l);
  atvi_draws_free(x.draws);
  if (status == ATVI_OK && (x.n_time || x.grid)) redraw(&x, out);
  return status;
}
