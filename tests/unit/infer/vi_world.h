/* SPDX-License-Identifier: MIT */
/* Variational inference for tests: whole runs, and runs in pieces, with all that a test may want to look at. */
#ifndef ATVI_TEST_VI_WORLD_H
#define ATVI_TEST_VI_WORLD_H

#include "infer/vi_state.h"
#include "math/stat/stat.h"
#include "toys.h"

/* ---- a run, from outside ---- */

typedef struct {
  atvi_ctx *ctx;
  atvi_draws *d;
} fitted;

static TEST_UNUSED fitted fit_on(const toy *t, const atvi_vi_opts *o, int threads) {
  fitted f = {.ctx = test_ctx()};
  atvi_evaluator *ev;
  atvi_ctx_set_threads(f.ctx, threads);
  CHECK_OK(atvi_model_evaluator_new(f.ctx, &t->target, &ev));
  atvi_status status = atvi_infer_vi_run(f.ctx, ev, o, &f.d);
  CHECK_MSG(status == ATVI_OK, "status %d: %s", status, atvi_errmsg(f.ctx));
  atvi_model_evaluator_free(ev);
  return f;
}

static TEST_UNUSED void fitted_free(fitted f) {
  atvi_draws_free(f.d);
  atvi_ctx_free(f.ctx);
  CHECK_INT(test_live, 0);
}

static TEST_UNUSED double fit_mean(const atvi_draws *d, atvi_idx j) {
  return atvi_math_mean(d->n, d->x + j * d->n, d->weight);
}

static TEST_UNUSED double fit_sd(const atvi_draws *d, atvi_idx j) {
  return atvi_math_sd(d->n, d->x + j * d->n, d->weight);
}

static TEST_UNUSED double fit_cor(const atvi_draws *d, atvi_idx i, atvi_idx j) {
  const double *x = d->x + i * d->n, *y = d->x + j * d->n;
  double mx = fit_mean(d, i), my = fit_mean(d, j), sum = 0;
  for (atvi_idx k = 0; k < d->n; k++) sum += d->weight[k] * (x[k] - mx) * (y[k] - my);
  return sum / (fit_sd(d, i) * fit_sd(d, j));
}

/* Weighted share of draws with lower <= x_j < upper, and its standard error from the weights (none: those of
 * the exact sampler, as if they were independent). */
static TEST_UNUSED double fit_share(const atvi_draws *d, atvi_idx j, double lower, double upper, double *se) {
  double share = 0, var = 0, equal = 1 / (double)d->n;
  const double *x = d->x + j * d->n;
  for (atvi_idx k = 0; k < d->n; k++)
    share += x[k] >= lower && x[k] < upper ? (d->weight ? d->weight[k] : equal) : 0;
  for (atvi_idx k = 0; k < d->n; k++)
    var += pow((d->weight ? d->weight[k] : equal) * ((x[k] >= lower && x[k] < upper) - share), 2);
  if (se) *se = sqrt(var);
  return share;
}

/* Draws make sense as such, whatever the target. */
static TEST_UNUSED void check_draws(const atvi_draws *d) {
  double sum = 0;
  CHECK(d->weight != NULL && d->n > 0);
  for (atvi_idx k = 0; k < d->n; k++) {
    CHECK(d->weight[k] > 0 && isfinite(d->log_prior[k] + d->log_lik[k]));
    sum += d->weight[k];
  }
  CHECK_REL(sum, 1, 1e-9);
  CHECK(!d->chains && d->n_chain == 1);
  CHECK(isfinite(d->made->elbo) && isfinite(d->made->log_evidence) && d->made->evaluations > d->n);
  CHECK(d->made->efficiency > 0 && d->made->efficiency <= 1 + 1e-12);
  /* the ELBO is a bound; the evidence has noise */
  CHECK_MSG(d->made->elbo < d->made->log_evidence + 0.02, "ELBO %.4f, log evidence %.4f", d->made->elbo,
            d->made->log_evidence);
}

/* The weights may be used: k-hat is small, or the tail that it speaks of holds next to nothing. */
static TEST_UNUSED void check_tail(const atvi_draws *d) {
  CHECK_MSG(atvi_math_psis_permits(d->n, d->made->khat, d->made->excess),
            "seed %d: k-hat %.3f, excess %.4f, ESS %.3f", (int)d->made->seed, d->made->khat, d->made->excess,
            d->made->efficiency);
}

/* ---- a run, in pieces ---- */

typedef struct {
  atvi_vi v;
  atvi_member *m; /* the first component */
} inside;

/* As atvi_infer_vi_run, up to the first component at its starting point. */
static TEST_UNUSED inside *inside_new(const toy *t, const atvi_vi_opts *o, int threads) {
  inside *w = calloc(1, sizeof *w);
  CHECK(w != NULL);
  atvi_vi *v = &w->v;
  *v = (atvi_vi){
      .ctx = test_ctx(), .opts = *o, .outcome = {.tuned = NAN}, .progress = {.begun_s = atvi_clock_s()}};
  atvi_ctx_set_threads(v->ctx, threads);
  CHECK_OK(atvi_model_evaluator_new(v->ctx, &t->target, &v->ev));
  CHECK_OK(atvi_infer_vi_open(v));
  CHECK(atvi_infer_vi_member_new(v, NULL, NULL, &v->part[v->n_part++].at));
  w->m = &v->part[0].at;
  return w;
}

static TEST_UNUSED void inside_free(inside *w) {
  atvi_infer_vi_close(&w->v);
  atvi_model_evaluator_free(w->v.ev);
  atvi_ctx_free(w->v.ctx);
  free(w);
  CHECK_INT(test_live, 0);
}

/* Density of theta (d = 1) under q without weights: the sum over images, each divided by the map's scale
 * there. */
static TEST_UNUSED double inside_density(inside *w, double theta) {
  atvi_vi *v = &w->v;
  const atvi_map *map = &v->space->map[0];
  double xi[64], at, ldj, log_q[64], sum = 0;
  int n = atvi_transform_map_images(map, theta, 60, 64, xi);
  CHECK(v->d == 1 && n >= 1);
  atvi_infer_elbo_log_q(v->elbo, w->m, false, &(atvi_cloud){.cap = 64, .x = xi}, n, log_q);
  for (int k = 0; k < n; k++) {
    ldj = 0;
    if (map->kind == ATVI_MAP_SURJECTION)
      ldj = log(map->scale);
    else
      atvi_transform_map_fwd(map, 1, &xi[k], &at, &ldj);
    sum += exp(log_q[k] - ldj);
  }
  return sum;
}

#endif
