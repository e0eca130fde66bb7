/* SPDX-License-Identifier: MIT */
#include "infer/vi_state.h"
#include "math/rng.h"
#include "math/special.h"
#include "math/stat/psis.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const double ONE = 1;
#define TRAIN_SHARE 0.85 /* of a time limit; the rest is for the draws */

atvi_vi_opts atvi_vi_defaults(void) {
  return (atvi_vi_opts){.method = "atvi",
                        .seed = 1,
                        .map = "auto",
                        .tune = ATVI_TUNE_AUTO,
                        .seek_modes = true,
                        .batch = 64,
                        .max_steps = 20000,
                        .ess = NAN,
                        .max_seconds = HUGE_VAL,
                        .exact = ATVI_EXACT_AUTO,
                        .exact_iter = 20000};
}

atvi_vi_opts atvi_vi_nf_defaults(void) {
  atvi_vi_opts o = atvi_vi_defaults();
  o.method = "nf";
  o.map = "logit";
  o.n_rung = 1;
  o.temperature = &ONE;
  o.tune = ATVI_TUNE_OFF;
  o.seek_modes = false;
  o.exact = ATVI_EXACT_OFF;
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
  if (o->exact_iter < 1) return ATVI_FAIL(ctx, ATVI_EINVAL, "vi: exact_iter = %d, want >= 1", o->exact_iter);
  if (o->exact != ATVI_EXACT_OFF && o->factors > 0)
    return ATVI_FAIL(ctx, ATVI_EINVAL, "vi: the exact sampler needs a flow, not a copula");
  ATVI_ASSERT(o->n_rung >= (o->freeze ? 1 : 0));
  for (int k = 0; k < o->n_rung; k++)
    ATVI_ASSERT(k + 1 < o->n_rung ? o->temperature[k] > o->temperature[k + 1] : o->temperature[k] == 1);
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

atvi_status atvi_vi_open(atvi_vi *v) {
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
  v->frame = reals(v, (size_t)(v->d * (v->d + 2)));
  v->gap_now = reals(v, ATVI_VI_TEST);
  v->gap_best = reals(v, ATVI_VI_TEST);
  v->weight = reals(v, ATVI_VI_LOOK);
  v->work = reals(v, atvi_psis_work(ATVI_VI_LOOK));
  v->part = atvi_pool_take(v->pool, ATVI_VI_PARTS, sizeof *v->part);
  if (!atvi_vi_cloud(v, ATVI_VI_LOOK, &v->look)) return ATVI_FAIL(v->ctx, ATVI_ENOMEM, "vi: d = %td", v->d);
  return ATVI_OK;
}

void atvi_vi_close(atvi_vi *v) {
  atvi_adam_free(v->adam);
  atvi_elbo_free(v->elbo);
  atvi_family_free(&v->family);
  atvi_space_free(v->space);
  atvi_pool_free(v->pool);
}

bool atvi_vi_member_new(atvi_vi *v, const double *shift, const double *chol, atvi_member *m) {
  *m = (atvi_member){.whole = shift != NULL};
  m->phi = reals(v, (size_t)v->size);
  m->shift = reals(v, (size_t)v->d);
  m->chol = reals(v, (size_t)(v->d * v->d));
  if (atvi_pool_failed(v->pool)) return false;
  v->family.ops->init(v->family.self, m->phi);
  for (atvi_idx i = 0; i < v->d; i++) {
    m->shift[i] = shift ? shift[i] : 0;
    for (atvi_idx k = 0; k <= i; k++) m->chol[i * v->d + k] = chol ? chol[i * v->d + k] : i == k;
    m->log_det += log(fabs(m->chol[i * v->d + i]));
  }
  return true;
}

/* ---- shared steps ---- */

bool atvi_vi_late(const atvi_vi *v) {
  return atvi_stop_asked(v->ctx) || atvi_clock_s() - v->begun_s > v->opts.max_seconds;
}

bool atvi_vi_over(const atvi_vi *v) {
  return v->steps >= v->opts.max_steps || atvi_vi_late(v) ||
         atvi_clock_s() - v->begun_s > TRAIN_SHARE * v->opts.max_seconds;
}

void atvi_vi_tell(atvi_vi *v, const char *phase, double done, const char *fmt, ...) {
  char detail[96];
  va_list args;
  va_start(args, fmt);
  vsnprintf(detail, sizeof detail, fmt, args);
  va_end(args);
  v->told = fmax(v->told, done);
  atvi_tell(v->ctx, phase, v->told, atvi_clock_s() - v->begun_s, "%s", detail);
}

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

/* Is there any point at all, and a gradient there? The first draws of q are about those of the prior. */
static atvi_status first_look(atvi_vi *v) {
  bool any = false;
  for (atvi_idx n = 64; n <= ATVI_VI_LOOK; n *= 2) {
    atvi_vi_look(v, &v->part[0].at, ATVI_STREAM_TRAIN, v->scramble++, false, n);
    for (atvi_idx j = 0; j < n; j++) any = any || isfinite(v->look.log_pi[j]);
    if (!any) continue;
    atvi_elbo_info info = atvi_elbo_grad(v->elbo, &v->part[0].at, 1, v->scramble++, v->grad);
    if (info.good > 0) return ATVI_OK;
  }
  if (any)
    return ATVI_FAIL_AS(v->ctx, ATVI_EMODEL, ATVI_CODE_NO_GRADIENT,
                        "the gradient is not finite at any of the points tried");
  return ATVI_FAIL_AS(v->ctx, ATVI_EMODEL, ATVI_CODE_NEVER_EVALUATED,
                      "none of %d draws %s can be evaluated with a positive likelihood",
                      2 * ATVI_VI_LOOK - 64, v->space->from_prior ? "from the prior" : "to begin with");
}

/* Fine-tuning pays where the weights have much left to correct, or k-hat says that q is too narrow somewhere. */
#define TUNE_BELOW 0.7
#define STEP_AGAIN 0.00125 /* of further training; its rounds begin with twice that */
#define BLAME 0.1
enum { IMPROVE_TIMES = 3, EXTEND_TIMES = 2 };

static bool may_tune(const atvi_vi *v) {
  return v->opts.tune != ATVI_TUNE_OFF && v->family.ops->score && !atvi_vi_over(v);
}

static void tune(atvi_vi *v, atvi_vi_part *p) { v->tuned = fmax(v->tuned, atvi_vi_tune(v, &p->at)); }

/* More of everything, for every component that has its part in the wild weights. */
static void improve(atvi_vi *v) {
  double all = -HUGE_VAL;
  for (atvi_idx k = 0; k < v->n_part; k++) all = atvi_log_add(all, v->part[k].log_evidence);
  for (atvi_idx k = 0; k < v->n_part && !atvi_vi_over(v); k++) {
    atvi_vi_part *p = &v->part[k];
    if (p->blame < BLAME) continue;
    v->step = STEP_AGAIN;
    atvi_vi_train_more(v, &p->at, v->n_part > 1 ? exp(p->log_evidence - all) : 1, NULL);
    if (may_tune(v)) tune(v, p);
    if (v->n_part > 1) p->log_evidence = atvi_vi_judge(v, &p->at, v->scramble++).log_evidence;
  }
}

/* Until no place is found where the posterior goes on and the approximation does not. */
static atvi_status extend(atvi_vi *v) {
  for (int k = 0; k < EXTEND_TIMES && v->weighed_all && v->permits && !atvi_vi_late(v); k++) {
    atvi_idx before = v->n_part;
    ATVI_TRY(atvi_vi_extend(v));
    if (v->n_part == before) break;
    if (!v->extended) v->bound = atvi_vi_elbo(v);
    v->extended = true;
    ATVI_TRY(atvi_vi_weigh(v, true));
  }
  return ATVI_OK;
}

static bool wants_exact(const atvi_vi *v) {
  if (v->opts.exact == ATVI_EXACT_OFF || v->cut) return false;
  return v->opts.exact == ATVI_EXACT_ON || (v->converged && !v->permits);
}

static atvi_status run(atvi_vi *v, atvi_draws **out) {
  ATVI_TRY(atvi_vi_open(v));
  atvi_vi_part *first = &v->part[v->n_part++];
  if (!atvi_vi_member_new(v, NULL, NULL, &first->at))
    return ATVI_FAIL(v->ctx, ATVI_ENOMEM, "vi: d = %td", v->d);
  ATVI_TRY(first_look(v));
  v->converged = atvi_vi_train(v, &first->at);
  if (v->converged && v->opts.seek_modes && !atvi_vi_over(v)) ATVI_TRY(atvi_vi_seek(v));
  if (v->converged) ATVI_TRY(atvi_vi_cover(v));
  ATVI_TRY(atvi_vi_weigh(v, false));
  if (v->converged && may_tune(v) && v->n_part == 1 &&
      (v->opts.tune == ATVI_TUNE_ON || v->share < TUNE_BELOW)) {
    tune(v, first);
    ATVI_TRY(atvi_vi_weigh(v, false));
  }
  for (int k = 0; v->converged; k++) {
    /* The tail of few weights is a rough guess; all draws cost less than training for nothing. */
    if (v->opts.exact != ATVI_EXACT_ON) ATVI_TRY(atvi_vi_weigh(v, true));
    if (v->tail_fits || k == IMPROVE_TIMES || atvi_vi_over(v)) break;
    improve(v);
    ATVI_TRY(atvi_vi_cover(v)); /* more training may have given up a mode */
    ATVI_TRY(atvi_vi_weigh(v, false));
  }
  if (atvi_vi_late(v) && (!v->weighed_all || wants_exact(v)))
    v->cut = true; /* what ought to follow is not done */
  /* Weights that will not be used need no more draws. */
  if (v->converged && !v->weighed_all && !v->cut && !wants_exact(v)) ATVI_TRY(atvi_vi_weigh(v, true));
  if (v->opts.seek_modes) ATVI_TRY(extend(v));
  if (wants_exact(v)) {
    ATVI_TRY(atvi_vi_exact(v, out));
    if (*out) return ATVI_OK;
  }
  return atvi_vi_deliver(v, out);
}

atvi_status atvi_vi_run(atvi_ctx *ctx, atvi_evaluator *ev, const atvi_vi_opts *opts, atvi_draws **out) {
  *out = NULL;
  atvi_vi v = {.ctx = ctx, .ev = ev, .opts = opts ? *opts : atvi_vi_defaults(), .tuned = NAN};
  v.begun_s = atvi_clock_s();
  ATVI_TRY(check_opts(ctx, &v.opts));
  atvi_status status = run(&v, out);
  atvi_vi_close(&v);
  return status;
}
