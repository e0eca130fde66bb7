/* SPDX-License-Identifier: MIT */
/* atvi predict: what a fitted model says, at the times of its data and beyond, and how well.
 *
 *   1. The folder of the fit tells the model, its data and its draws. The model as it was fitted is evaluated at them: what does not give
 *      the log likelihood that the fit found is another model or other data.
 *   2. The same model, with the data that were held out and at further times, is run at the draws.
 *   3. Bands and scores are written into the folder. */
#include "app/predict.h"
#include "io/draws_csv.h"
#include "io/file.h"
#include <math.h>
#include <string.h>

enum { DRAWS = 20000 }; /* by default: the ends of a 95 % band are then known to a hundredth of it */
static const double MOST_NUMBERS = 2e8; /* in all: 1.6 GB */
static const double MANY_NUMBERS = 3e7; /* by default: a few seconds */

typedef struct {
  atvi_ctx *ctx;
  atvi_pool *pool;
  const atvi_app_predict_opts *opts;
  atvi_run run;
  atvi_idx n_time;
  double *time;
  atvi_predict_draws p;
  atvi_idx n_message;
  const char *message[4];
} prediction;

static void say(prediction *x, const char *message) {
  if (message && x->n_message < 4) x->message[x->n_message++] = message;
}

/* ---- draws ---- */

static atvi_status check_names(const prediction *x, const atvi_draws *d, const atvi_target *t) {
  bool same = d->n_param == t->d;
  for (atvi_idx i = 0; same && i < t->d; i++) same = strcmp(d->col[i].name, t->param[i].name) == 0;
  if (same) return ATVI_OK;
  return ATVI_FAIL(
      x->ctx, ATVI_EDATA,
      "%s: error: draws.csv and model.atvi have different parameters: one of them has changed since "
      "the fit\nhint: put it back as it was, or fit again",
      x->run.dir);
}

/* Draws spread evenly over the file, and so over chains. */
static atvi_status pick(prediction *x, const atvi_draws *d) {
  atvi_predict_draws *p = &x->p;
  p->theta = atvi_pool_take(x->pool, (size_t)(d->n_param * p->B) + 1, sizeof *p->theta);
  p->line = atvi_pool_take(x->pool, (size_t)p->B + 1, sizeof *p->line);
  p->was_log_lik = atvi_pool_take(x->pool, (size_t)p->B + 1, sizeof *p->was_log_lik);
  if (!p->theta || !p->line || !p->was_log_lik)
    return ATVI_FAIL(x->ctx, ATVI_ENOMEM, "out of memory: %td draws", p->B);
  for (atvi_idx k = 0; k < p->B; k++) {
    atvi_idx at = (atvi_idx)((double)k * (double)d->n / (double)p->B);
    p->line[k] = at + 1;
    p->was_log_lik[k] = d->log_lik[at];
    for (atvi_idx i = 0; i < d->n_param; i++) p->theta[i * p->B + k] = d->x[i * d->n + at];
  }
  return ATVI_OK;
}

static atvi_status read_draws(prediction *x, const atvi_target *t) {
  atvi_draws *d;
  const char *path = atvi_pool_printf(x->pool, "%s/draws.csv", x->run.dir);
  if (!path) return ATVI_FAIL(x->ctx, ATVI_ENOMEM, "out of memory");
  ATVI_TRY(atvi_draws_csv_read(x->ctx, path, &d));
  double most = -HUGE_VAL,
         each = (double)(t->n_out + 2 * t->n_obs + 1) + (double)x->n_time * (double)(t->n_series + 1);
  for (atvi_idx i = 0; i < d->n; i++) most = fmax(most, d->log_prior[i] + d->log_lik[i]);
  if (isnan(x->run.log_map)) x->run.log_map = most;
  atvi_idx asked = x->opts->draws, few = (atvi_idx)fmax(400, MANY_NUMBERS / each);
  x->p.B = asked > 0 ? asked : few < DRAWS ? few : DRAWS;
  if (x->p.B > d->n) x->p.B = d->n;
  atvi_status status = check_names(x, d, t);
  if (status == ATVI_OK && (double)x->p.B * each > MOST_NUMBERS)
    status = ATVI_FAIL(x->ctx, ATVI_EINVAL,
                       "%td draws of %.0f numbers are %.2g numbers; ask for fewer with --draws", x->p.B, each,
                       (double)x->p.B * each);
  if (status == ATVI_OK) status = pick(x, d);
  if (status == ATVI_OK && asked > d->n)
    say(x, atvi_pool_printf(x->pool, "draws.csv has %td draws, fewer than were asked for", d->n));
  atvi_draws_free(d);
  return status;
}

/* ---- models ---- */

static atvi_status check_times(const prediction *x, const atvi_loaded *l) {
  const atvi_lang *lang = l->model->lang;
  if (x->n_time == 0 || lang->n_state > 0) return ATVI_OK;
  return ATVI_FAIL(x->ctx, ATVI_EINVAL,
                   "--times %s: the model has no states, and so nothing that goes on in time",
                   x->opts->times);
}

/* Series that cannot go on because they depend on a column of the data. */
static void tell_covariates(prediction *x, const atvi_loaded *l) {
  const atvi_lang *lang = l->model->lang;
  const char *name = NULL;
  for (atvi_idx o = 0; o < lang->n_observe; o++)
    for (int a = 0; a < lang->observe[o].n_arg; a++)
      if (atvi_graph_kinds(lang->graph, lang->observe[o].arg[a]) >> ATVI_IN_DATA & 1)
        name = lang->observe[o].name;
  if (name && x->n_time)
    say(x,
        atvi_pool_printf(x->pool,
                         "%s depends on a column of its data file, which has no value at other times: it is "
                         "predicted at the data's alone",
                         name));
}

static atvi_status load(const prediction *x, const char *holdout, bool extend, atvi_loaded *l) {
  atvi_model_opts how = {.text = x->run.text, .holdout = holdout};
  if (extend) how.n_time = x->n_time, how.time = x->time, how.extend = true;
  return atvi_app_load(x->ctx, &x->run.model, &how, l);
}

/* ---- results ---- */

static atvi_status save(const prediction *x, const char *name, const char *text) {
  const char *path = atvi_pool_printf(x->pool, "%s/%s", x->run.dir, name);
  return path ? atvi_file_save(x->ctx, path, text, strlen(text))
              : ATVI_FAIL(x->ctx, ATVI_ENOMEM, "out of memory");
}

static atvi_status report(prediction *x, const atvi_loaded *l, atvi_app_predict_result *out) {
  atvi_idx n;
  atvi_predicted *series;
  atvi_scores *s;
  const char *csv;
  ATVI_TRY(atvi_predict_series(x->ctx, x->pool, l, x->run.holdout, &x->p, &n, &series));
  ATVI_TRY(atvi_predicted_judge(x->ctx, x->p.B, n, series));
  ATVI_TRY(atvi_scores_new(x->pool, x->p.B, n, series, &s));
  s->model = l->target->name;
  s->method = x->run.method;
  s->verdict = x->run.verdict;
  s->holdout = x->run.holdout;
  s->seed = x->run.seed;
  s->log_map = x->run.log_map;
  s->n_message = x->n_message;
  s->message = x->message;
  ATVI_TRY(atvi_scores_json(x->pool, s, &out->json));
  ATVI_TRY(atvi_scores_text(x->pool, s, &out->text));
  ATVI_TRY(atvi_predict_csv(x->pool, n, series, &csv));
  ATVI_TRY(save(x, "predict.csv", csv));
  ATVI_TRY(save(x, "scores.json", out->json));
  if (x->opts->out) ATVI_TRY(atvi_predict_save_draws(x->ctx, x->pool, x->opts->out, n, series, &x->p));
  out->dir = x->run.dir;
  return ATVI_OK;
}

static atvi_status predict(prediction *x, atvi_loaded *l, atvi_app_predict_result *out) {
  tell_covariates(x, l);
  ATVI_TRY(atvi_predict_run(x->ctx, x->pool, l, x->run.seed, &x->p));
  return report(x, l, out);
}

/* l: the model as it was fitted. */
static atvi_status check(prediction *x, atvi_loaded *l) {
  atvi_idx failed;
  ATVI_TRY(check_times(x, l));
  ATVI_TRY(read_draws(x, l->target));
  ATVI_TRY(atvi_predict_check(x->ctx, l, &x->run, &x->p, &failed));
  if (failed) say(x, atvi_pool_printf(x->pool, "%td draws could not be run and are left out", failed));
  if (x->run.changed)
    say(x, atvi_pool_printf(x->pool, "%s has changed since the fit; the copy in %s is used",
                            x->run.model.path, x->run.dir));
  return ATVI_OK;
}

atvi_status atvi_app_predict(atvi_ctx *ctx, atvi_pool *pool, const atvi_app_predict_opts *opts,
                             atvi_app_predict_result *out) {
  prediction x = {.ctx = ctx, .pool = pool, .opts = opts};
  atvi_loaded l;
  *out = (atvi_app_predict_result){0};
  ATVI_TRY(atvi_app_times(ctx, pool, opts->times, &x.n_time, &x.time));
  ATVI_TRY(atvi_run_read(ctx, pool, opts->where, opts->n_data, opts->data, &x.run));
  x.run.model.interpret = opts->interpret;
  ATVI_TRY(load(&x, x.run.holdout, false, &l));
  atvi_status status = check(&x, &l);
  if (status == ATVI_OK && (x.run.holdout || x.n_time)) {
    atvi_app_unload(&l);
    ATVI_TRY(load(&x, NULL, true, &l));
  }
  if (status == ATVI_OK) status = predict(&x, &l, out);
  atvi_app_unload(&l);
  return status;
}
