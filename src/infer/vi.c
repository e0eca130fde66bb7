/* SPDX-License-Identifier: MIT */
#include "infer/vi_state.h"
#include "math/rng.h"
#include "math/stat/psis.h"
#include <math.h>
#include <string.h>

static const double ONE = 1;

atvi_vi_opts atvi_vi_defaults(void) {
  return (atvi_vi_opts){.method = "atvi",
                        .seed = 1,
                        .map = "auto",
                        .tune = ATVI_TUNE_AUTO,
                        .seek_modes = true,
                        .batch = 64,
                        .max_steps = 20000,
                        .ess = NAN,
                        .max_seconds = HUGE_VAL};
}

atvi_vi_opts atvi_vi_nf_defaults(void) {
  atvi_vi_opts o = atvi_vi_defaults();
  o.method = "nf";
  o.map = "logit";
  o.n_rung = 1;
  o.temperature = &ONE;
  o.tune = ATVI_TUNE_OFF;
  o.seek_modes = false;
  return o;
}

atvi_vi_opts atvi_vi_copula_defaults(void) {
  atvi_vi_opts o = atvi_vi_nf_defaults();
  o.method = "copula";
  o.factors = 3;
  return o;
}

static atvi_status check_opts(atvi_ctx *ctx, const atvi_vi_opts *o) {
  if (o->batch < ATVI_LANES || o->batch > 1 << 20)
    return ATVI_FAIL(ctx, ATVI_EINVAL, "vi: batch = %d, want %d to %d", o->batch, ATVI_LANES, 1 << 20);
  if (o->max_steps < 1) return ATVI_FAIL(ctx, ATVI_EINVAL, "vi: max_steps = %d, want >= 1", o->max_steps);
  if (!(o->max_seconds > 0))
    return ATVI_FAIL(ctx, ATVI_EINVAL, "vi: max_seconds = %g, want > 0", o->max_seconds);
  if (o->ess <= 0) return ATVI_FAIL(ctx, ATVI_EINVAL, "vi: ess = %g, want > 0", o->ess);
  if (o->n_rung < 0) return ATVI_FAIL(ctx, ATVI_EINVAL, "vi: n_rung = %d, want >= 0", o->n_rung);
  for (int k = 0; k < o->n_rung; k++)
    if (!(o->temperature[k] >= 1) || !isfinite(o->temperature[k]) ||
        (k > 0 && !(o->temperature[k] < o->temperature[k - 1])))
      return ATVI_FAIL(ctx, ATVI_EINVAL, "ladder: temperatures fall and end with 1, but number %d is %g",
                       k + 1, o->temperature[k]);
  if (o->n_rung > 0 && o->temperature[o->n_rung - 1] != 1)
    return ATVI_FAIL(ctx, ATVI_EINVAL, "ladder: the last temperature is %g, want 1",
                     o->temperature[o->n_rung - 1]);
  if (o->freeze && o->n_rung < 1)
    return ATVI_FAIL(ctx, ATVI_EINVAL, "freeze needs given temperatures, such as 3,1");
  return ATVI_OK;
}

/* ---- the object ---- */

bool atvi_vi_cloud(atvi_vi *v, atvi_idx n, atvi_cloud *c) {
  double **row[] = {&c->log_prior, &c->log_lik, &c->log_base, &c->log_pi, &c->log_q, &c->log_member};
  c->cap = n;
  c->x = atvi_pool_take(v->pool, (size_t)(v->d * n), sizeof(double));
  c->theta = atvi_pool_take(v->pool, (size_t)(v->d * n), sizeof(double));
  for (size_t k = 0; k < sizeof row / sizeof *row; k++)
    *row[k] = atvi_pool_take(v->pool, (size_t)n, sizeof(double));
  return !atvi_pool_failed(v->pool);
}

static double *reals(atvi_vi *v, size_t n) { return atvi_pool_take(v->pool, n, sizeof(double)); }

static atvi_status make(atvi_vi *v) {
  atvi_vi_opts *o = &v->opts;
  ATVI_TRY(atvi_pool_new(v->ctx, &v->pool));
  ATVI_TRY(atvi_space_new(v->ctx, v->ev, o->map, o->seed, &v->space));
  v->d = v->space->d;
  if (o->factors > 0) {
    int most = v->d < o->factors ? (int)v->d : o->factors;
    ATVI_TRY(atvi_family_copula(v->ctx, v->d, most, &v->family));
  } else {
    atvi_flow_shape shape = o->shape.layers > 0 ? o->shape : atvi_flow_defaults(v->d);
    shape.d = v->d;
    if (o->freeze && shape.layers < o->n_rung) shape.layers = o->n_rung;
    ATVI_TRY(atvi_family_flow(v->ctx, &shape, &v->family));
  }
  v->size = v->family.size;
  ATVI_TRY(atvi_elbo_new(v->ctx, v->space, &v->family, o->seed, o->plain, o->batch, &v->elbo));
  atvi_adam_opts adam = {.step = 0.01, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8};
  ATVI_TRY(atvi_adam_new(v->ctx, v->size, &adam, &v->adam));
  v->grad = reals(v, (size_t)v->size);
  v->avg = reals(v, (size_t)v->size);
  v->best = reals(v, (size_t)v->size);
  v->gap_now = reals(v, ATVI_VI_TEST);
  v->gap_best = reals(v, ATVI_VI_TEST);
  v->weight = reals(v, ATVI_VI_LOOK);
  v->work = reals(v, atvi_psis_work(ATVI_VI_LOOK));
  v->part = atvi_pool_take(v->pool, (size_t)atvi_modes_defaults().most + 1, sizeof *v->part);
  if (!atvi_vi_cloud(v, ATVI_VI_LOOK, &v->look)) return ATVI_FAIL(v->ctx, ATVI_ENOMEM, "vi: d = %td", v->d);
  return ATVI_OK;
}

static void drop(atvi_vi *v) {
  atvi_adam_free(v->adam);
  atvi_elbo_free(v->elbo);
  atvi_family_free(&v->family);
  atvi_space_free(v->space);
  atvi_pool_free(v->pool);
}

atvi_vi_part *atvi_vi_part_new(atvi_vi *v, const double *shift, const double *chol) {
  atvi_vi_part *p = &v->part[v->n_part];
  *p = (atvi_vi_part){.at.whole = shift != NULL, .share = 1};
  p->at.phi = reals(v, (size_t)v->size);
  p->at.shift = reals(v, (size_t)v->d);
  p->at.chol = reals(v, (size_t)(v->d * v->d));
  if (atvi_pool_failed(v->pool)) return NULL;
  v->family.ops->init(v->family.self, p->at.phi);
  for (atvi_idx i = 0; i < v->d; i++) {
    p->at.shift[i] = shift ? shift[i] : 0;
    for (atvi_idx k = 0; k <= i; k++) p->at.chol[i * v->d + k] = chol ? chol[i * v->d + k] : i == k;
    p->at.log_det += log(fabs(p->at.chol[i * v->d + i]));
  }
  v->n_part++;
  return p;
}

/* ---- shared steps ---- */

bool atvi_vi_late(const atvi_vi *v) {
  return atvi_stop_asked(v->ctx) || atvi_clock_s() - v->begun_s > v->opts.max_seconds;
}

bool atvi_vi_over(const atvi_vi *v) { return v->steps >= v->opts.max_steps || atvi_vi_late(v); }

void atvi_vi_look(atvi_vi *v, const atvi_member *m, uint32_t stream, uint32_t scramble, bool guard,
                  atvi_idx n) {
  atvi_elbo_draw(v->elbo, m, &(atvi_elbo_lot){stream, scramble, 0, n, guard}, &v->look, 0);
}

atvi_vi_quality atvi_vi_judge(atvi_vi *v, const atvi_member *m, uint32_t scramble) {
  atvi_vi_look(v, m, ATVI_STREAM_TRAIN, scramble, true, ATVI_VI_LOOK);
  for (atvi_idx j = 0; j < ATVI_VI_LOOK; j++) {
    double w = v->look.log_pi[j] - v->look.log_q[j];
    v->weight[j] = isfinite(w) ? w : -HUGE_VAL;
  }
  atvi_psis_info p = atvi_psis(ATVI_VI_LOOK, v->weight, v->weight, v->work);
  return (atvi_vi_quality){p.log_mean, p.khat, p.excess, p.ess / ATVI_VI_LOOK};
}

/* ---- the run ---- */

/* Is there any point at all? The first draws of q are about those of the prior. */
static atvi_status first_look(atvi_vi *v) {
  for (atvi_idx n = 64; n <= ATVI_VI_LOOK; n *= 2) {
    atvi_vi_look(v, &v->part[0].at, ATVI_STREAM_TRAIN, v->scramble++, false, n);
    for (atvi_idx j = 0; j < n; j++)
      if (isfinite(v->look.log_pi[j])) return ATVI_OK;
  }
  return ATVI_FAIL(
      v->ctx, ATVI_EMODEL,
      "none of %d draws from the prior can be evaluated with a positive likelihood; 'atvi check' says why",
      ATVI_VI_LOOK);
}

/* Fine-tuning pays where the weights have much left to correct, or k-hat forbids to use them. */
#define TUNE_BELOW 0.7
enum { TUNE_TIMES = 3 };

static bool may_tune(const atvi_vi *v) {
  return v->opts.tune != ATVI_TUNE_OFF && v->family.ops->score && v->n_part == 1 && !atvi_vi_over(v);
}

static void tune(atvi_vi *v) { v->tuned = fmax(v->tuned, atvi_vi_tune(v, &v->part[0].at)); }

static atvi_status run(atvi_vi *v, atvi_draws **out) {
  ATVI_TRY(make(v));
  if (!atvi_vi_part_new(v, NULL, NULL)) return ATVI_FAIL(v->ctx, ATVI_ENOMEM, "vi: d = %td", v->d);
  ATVI_TRY(first_look(v));
  v->converged = atvi_vi_train(v, &v->part[0].at, true);
  if (v->converged && v->opts.seek_modes) ATVI_TRY(atvi_vi_seek(v));
  if (v->converged && may_tune(v)) {
    if (v->opts.tune == ATVI_TUNE_ON || atvi_vi_judge(v, &v->part[0].at, v->scramble++).share < TUNE_BELOW)
      tune(v);
  }
  ATVI_TRY(atvi_vi_weigh(v));
  for (int k = 0; k < TUNE_TIMES && !v->tail_fits && v->converged && may_tune(v); k++) {
    tune(v);
    ATVI_TRY(atvi_vi_weigh(v));
  }
  return atvi_vi_deliver(v, out);
}

atvi_status atvi_vi_run(atvi_ctx *ctx, atvi_evaluator *ev, const atvi_vi_opts *opts, atvi_draws **out) {
  *out = NULL;
  atvi_vi v = {.ctx = ctx, .ev = ev, .opts = opts ? *opts : atvi_vi_defaults(), .tuned = NAN};
  v.begun_s = atvi_clock_s();
  ATVI_TRY(check_opts(ctx, &v.opts));
  atvi_status status = run(&v, out);
  drop(&v);
  return status;
}
