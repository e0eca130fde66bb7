/* SPDX-License-Identifier: MIT */
/* The model at draws of its posterior: means, predicted observations and log likelihoods, in groups of draws on all
 * threads. Results of a draw depend on its number alone. */
#include "app/predict.h"
#include "math/rng.h"
#include <math.h>

/* A log likelihood that differs by more than this is one of other data or another model; the same model compiled for another
 * processor differs by rounding. */
static const double SAME_ABS = 1e-3, SAME_REL = 1e-6;

typedef struct {
  atvi_evaluator *ev;
  const atvi_target *t;
  const atvi_predict_draws *p;
  uint64_t seed;
  atvi_idx group; /* draws at once */
  double *room;   /* [threads][per_worker] */
  size_t per_worker;
  bool latent; /* some series are drawn */
} job;

static void spread(atvi_idx n, atvi_idx b, const double *from, atvi_idx B, atvi_idx first, double *to) {
  for (atvi_idx i = 0; i < n; i++)
    for (atvi_idx j = 0; j < b; j++) to[i * B + first + j] = from[i * b + j];
}

static void run_group(void *arg, atvi_idx item, int worker) {
  const job *j = arg;
  const atvi_target *t = j->t;
  const atvi_predict_draws *p = j->p;
  void *work = atvi_evaluator_work_of(j->ev, worker);
  atvi_idx first = item * j->group, b = p->B - first < j->group ? p->B - first : j->group;
  double *theta = j->room + (size_t)worker * j->per_worker, *out = theta + t->d * j->group;
  for (atvi_idx i = 0; i < t->d; i++)
    for (atvi_idx k = 0; k < b; k++) theta[i * b + k] = p->theta[i * p->B + first + k];
  if (!p->observed_alone) {
    t->ops->predict(t->self, work, b, theta, out);
    if (j->latent) t->ops->latent(t->self, work, j->seed, first, b, theta, out);
    spread(t->n_out, b, out, p->B, first, p->mean);
  }
  if (t->n_obs == 0) return;
  (t->ops->predictive ? t->ops->predictive : t->ops->simulate)(t->self, work, j->seed, first, b, theta, out);
  spread(t->n_obs, b, out, p->B, first, p->draw);
  if (p->others) {
    t->ops->leave_one_out(t->self, work, j->seed, first, b, theta, out);
    spread(t->n_obs, b, out, p->B, first, p->others);
  }
  t->ops->pointwise(t->self, work, b, theta, out);
  spread(t->n_obs, b, out, p->B, first, p->log_lik);
}

atvi_status atvi_predict_run(atvi_ctx *ctx, atvi_pool *pool, atvi_loaded *l, uint64_t seed,
                             atvi_predict_draws *p) {
  const atvi_target *t = l->target;
  atvi_idx n = t->n_out > t->n_obs ? t->n_out : t->n_obs;
  atvi_rng rng =
      atvi_rng_at(seed, ATVI_STREAM_PREDICT, 0, 0); /* not the noise that simulated the data, if it was */
  job j = {.ev = l->ev, .t = t, .p = p, .seed = atvi_rng_bits(&rng)};
  j.latent = l->model->emulated && t->ops->latent;
  j.group = t->group > 0 ? t->group : ATVI_LANES;
  j.per_worker = (size_t)((t->d + n) * j.group);
  j.room = atvi_pool_take(pool, (size_t)atvi_ctx_threads(ctx) * j.per_worker + 1, sizeof *j.room);
  p->mean = atvi_pool_take(pool, (size_t)(p->observed_alone ? 0 : t->n_out * p->B) + 1, sizeof(double));
  p->draw = atvi_pool_take(pool, (size_t)(t->n_obs * p->B) + 1, sizeof(double));
  p->log_lik = atvi_pool_take(pool, (size_t)(t->n_obs * p->B) + 1, sizeof(double));
  bool others = p->want_others && l->model->emulated && t->ops->leave_one_out;
  p->others = others ? atvi_pool_take(pool, (size_t)(t->n_obs * p->B) + 1, sizeof(double)) : NULL;
  if (!j.room || !p->mean || !p->draw || !p->log_lik || (others && !p->others))
    return ATVI_FAIL(ctx, ATVI_ENOMEM, "out of memory: %td draws; ask for fewer with --draws", p->B);
  atvi_parallel(ctx, (p->B + j.group - 1) / j.group, run_group, &j);
  return ATVI_OK;
}

static atvi_status compare(atvi_ctx *ctx, const atvi_fitted *run, const atvi_predict_draws *p, atvi_idx k,
                           double now) {
  double was = p->was_log_lik[k];
  if (!isfinite(was) || fabs(now - was) <= SAME_ABS + SAME_REL * fabs(was)) return ATVI_OK;
  return ATVI_FAIL(
      ctx, ATVI_EDATA,
      "%s: error: the data, or the model's copy in the folder, have changed since the fit: the log "
      "likelihood of draw %td is %.8g now and was %.8g\nhint: put them back as they were, or fit again",
      run->dir, p->line[k], now, was);
}

/* Moves draw `from` to place `to`. */
static void move(atvi_predict_draws *p, atvi_idx d, atvi_idx B, atvi_idx from, atvi_idx to) {
  for (atvi_idx i = 0; i < d; i++) p->theta[i * B + to] = p->theta[i * B + from];
  p->line[to] = p->line[from];
  p->was_log_lik[to] = p->was_log_lik[from];
}

/* Closes the gaps between parameters that fewer draws leave. */
static void tighten(atvi_predict_draws *p, atvi_idx d, atvi_idx B) {
  for (atvi_idx i = 0; i < d; i++)
    for (atvi_idx k = 0; k < p->B; k++) p->theta[i * p->B + k] = p->theta[i * B + k];
}

atvi_status atvi_predict_check(atvi_ctx *ctx, atvi_loaded *l, const atvi_fitted *run, atvi_predict_draws *p,
                               atvi_idx *n_failed) {
  atvi_idx B = p->B, d = l->target->d, good = 0;
  double *log_lik = atvi_block(ctx, (size_t)B * sizeof *log_lik);
  atvi_outcome *outcome = atvi_block(ctx, (size_t)B * sizeof *outcome);
  atvi_status status = ATVI_OK;
  if (!log_lik || !outcome) {
    status = ATVI_FAIL(ctx, ATVI_ENOMEM, "out of memory: %td draws", B);
  } else {
    atvi_evaluator_run(l->ev,
                       &(atvi_batch){.B = B, .theta = p->theta, .log_lik = log_lik, .outcome = outcome});
    for (atvi_idx k = 0; status == ATVI_OK && k < B; k++) {
      if (outcome[k] != ATVI_RUN_OK) continue;
      status = compare(ctx, run, p, k, log_lik[k]);
      move(p, d, B, k, good++);
    }
    if (status == ATVI_OK && good == 0)
      status = ATVI_FAIL(ctx, ATVI_EMODEL, "%s: error: the model can be run at none of the draws: %s",
                         run->dir, atvi_outcome_word(outcome[0]));
  }
  atvi_block_free(ctx, log_lik);
  atvi_block_free(ctx, outcome);
  *n_failed = B - good;
  p->B = good;
  if (status == ATVI_OK) tighten(p, d, B);
  return status;
}
