/* SPDX-License-Identifier: MIT */
/* Small targets with known answers. A toy is a function of one point; the harness batches it. */
#ifndef ATVI_TEST_TOYS_H
#define ATVI_TEST_TOYS_H

#include "math/rng.h"
#include "model/evaluator.h"
#include "testing.h"

enum { TOY_MAX = 12 };

typedef struct toy toy;
struct toy {
  /* Log likelihood and gradient (already zeroed); may set the outcome. */
  double (*lik)(const toy *t, const double *x, double *g, atvi_outcome *outcome);
  double lower[TOY_MAX], upper[TOY_MAX]; /* finite: uniform prior there; else normal with prior_sd around 0 */
  double prior_sd;
  bool no_prior; /* flat, improper, cannot be drawn */
  /* NULL: as above. Else log prior with gradient inside the bounds, and a draw of it, of parameter j. */
  double (*prior)(const toy *t, atvi_idx j, double x, double *g);
  double (*draw)(const toy *t, atvi_idx j, atvi_rng *r);
  atvi_param param[TOY_MAX];
  atvi_target target;
};

static TEST_UNUSED double toy_prior(const toy *t, atvi_idx j, double x, double *g) {
  *g = 0;
  if (x < t->lower[j] || x > t->upper[j]) return -HUGE_VAL;
  if (t->no_prior) return 0;
  if (t->prior) return t->prior(t, j, x, g);
  if (isfinite(t->upper[j] - t->lower[j])) return -log(t->upper[j] - t->lower[j]);
  *g = -x / (t->prior_sd * t->prior_sd);
  double z = x / t->prior_sd;
  return -0.5 * z * z - log(t->prior_sd * sqrt(2 * acos(-1.0)));
}

static TEST_UNUSED void toy_eval(const void *self, void *work, const atvi_batch *b) {
  const toy *t = self;
  (void)work;
  for (atvi_idx i = 0; i < b->B; i++) {
    double x[TOY_MAX], gp[TOY_MAX], gl[TOY_MAX] = {0}, lp = 0;
    for (atvi_idx j = 0; j < t->target.d; j++) {
      x[j] = b->theta[j * b->B + i];
      lp += toy_prior(t, j, x[j], &gp[j]);
    }
    atvi_outcome outcome = lp > -HUGE_VAL ? ATVI_RUN_OK : ATVI_RUN_OUTSIDE;
    double ll = outcome == ATVI_RUN_OK ? t->lik(t, x, gl, &outcome) : -HUGE_VAL;
    if (b->log_prior) b->log_prior[i] = lp;
    if (b->log_lik) b->log_lik[i] = ll;
    for (atvi_idx j = 0; j < t->target.d; j++) {
      if (b->grad_prior) b->grad_prior[j * b->B + i] = gp[j];
      if (b->grad_lik) b->grad_lik[j * b->B + i] = gl[j];
    }
    if (b->outcome) b->outcome[i] = outcome;
  }
}

static TEST_UNUSED void toy_draw(const void *self, void *work, uint64_t seed, atvi_idx first, atvi_idx B,
                                 double *theta) {
  const toy *t = self;
  (void)work;
  for (atvi_idx i = 0; i < B; i++) {
    atvi_rng r = atvi_math_rng_at(seed, ATVI_STREAM_PRIOR, 0, (uint32_t)(first + i));
    for (atvi_idx j = 0; j < t->target.d; j++) {
      bool box = isfinite(t->upper[j] - t->lower[j]);
      if (t->draw)
        theta[j * B + i] = t->draw(t, j, &r);
      else
        theta[j * B + i] = box ? t->lower[j] + atvi_math_rng_uniform(&r) * (t->upper[j] - t->lower[j])
                               : t->prior_sd * atvi_math_rng_normal(&r);
    }
  }
}

/* One derived quantity: the sum of the parameters. */
static TEST_UNUSED void toy_derived(const void *self, void *work, atvi_idx B, const double *theta,
                                    double *out) {
  const toy *t = self;
  (void)work;
  for (atvi_idx i = 0; i < B; i++) {
    out[i] = 0;
    for (atvi_idx j = 0; j < t->target.d; j++) out[i] += theta[j * B + i];
  }
}

static const atvi_target_ops toy_ops = {
    .size = sizeof toy_ops, .eval = toy_eval, .prior_draw = toy_draw, .derived = toy_derived};
static const atvi_target_ops toy_ops_undrawable = {.size = sizeof toy_ops, .eval = toy_eval};

/* d parameters a, b, c, ... all with the same box. */
static TEST_UNUSED void toy_set(toy *t, atvi_idx d, double lower, double upper) {
  static const char *const names[TOY_MAX] = {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"};
  static const char *const derived[1] = {"sum"};
  for (atvi_idx j = 0; j < d; j++) {
    t->lower[j] = lower;
    t->upper[j] = upper;
    t->param[j] = (atvi_param){names[j], lower, upper, NULL};
  }
  if (!(t->prior_sd > 0)) t->prior_sd = 10;
  t->target = (atvi_target){.ops = t->no_prior ? &toy_ops_undrawable : &toy_ops,
                            .self = t,
                            .name = "toy",
                            .d = d,
                            .param = t->param,
                            .n_derived = t->no_prior ? 0 : 1,
                            .derived = derived};
}

/* ---- priors ---- */

/* By bounds: two, Beta(2, 3) on the box; one, exponential with rate 5.3 from the end; none, normal with
 * prior_sd around 0. */
#define TOY_RATE 5.3
static TEST_UNUSED double toy_curved(const toy *t, atvi_idx j, double x, double *g) {
  double a = t->lower[j], b = t->upper[j];
  if (isfinite(b - a)) {
    double u = (x - a) / (b - a);
    *g = (1 / u - 2 / (1 - u)) / (b - a);
    return log(12 * u * (1 - u) * (1 - u) / (b - a));
  }
  if (isfinite(a) || isfinite(b)) {
    *g = isfinite(a) ? -TOY_RATE : TOY_RATE;
    return log(TOY_RATE) - TOY_RATE * (isfinite(a) ? x - a : b - x);
  }
  *g = -x / (t->prior_sd * t->prior_sd);
  return -0.5 * x * x / (t->prior_sd * t->prior_sd) - log(t->prior_sd * sqrt(2 * acos(-1.0)));
}

static TEST_UNUSED double toy_curved_draw(const toy *t, atvi_idx j, atvi_rng *r) {
  double a = t->lower[j], b = t->upper[j];
  if (isfinite(b - a)) return a + (b - a) * atvi_math_rng_beta(r, 2, 3);
  if (isfinite(a)) return a + atvi_math_rng_exponential(r) / TOY_RATE;
  if (isfinite(b)) return b - atvi_math_rng_exponential(r) / TOY_RATE;
  return t->prior_sd * atvi_math_rng_normal(r);
}

/* Other bounds for parameter j, and its own map. */
static TEST_UNUSED void toy_bound(toy *t, atvi_idx j, double lower, double upper, const char *map) {
  t->lower[j] = lower;
  t->upper[j] = upper;
  t->param[j].lower = lower;
  t->param[j].upper = upper;
  t->param[j].map = map;
}

/* ---- likelihoods ---- */

/* AR(1)-like normal: x_0 ~ N(m_0, s_0), x_j | x_{j-1} regression with coefficient rho, all sds known. */
#define TOY_RHO 0.9
static TEST_UNUSED double toy_chain(const toy *t, const double *x, double *g, atvi_outcome *o) {
  (void)o;
  double sum = 0, before = 0, v = 1 - TOY_RHO * TOY_RHO;
  for (atvi_idx j = 0; j < t->target.d; j++) {
    double s = 0.3 * (double)(j + 1), z = (x[j] - 0.4 * (double)j) / s; /* standard in z */
    double e = j == 0 ? z : (z - TOY_RHO * before) / sqrt(v);
    sum -= 0.5 * e * e;
    double ge = j == 0 ? -e : -e / sqrt(v);
    g[j] += ge / s;
    if (j > 0) g[j - 1] -= TOY_RHO * ge / (0.3 * (double)j);
    before = z;
  }
  return sum;
}

static TEST_UNUSED double toy_unit(const toy *t, const double *x, double *g, atvi_outcome *o) {
  (void)o;
  double sum = 0;
  for (atvi_idx j = 0; j < t->target.d; j++) sum -= 0.5 * x[j] * x[j], g[j] = -x[j];
  return sum;
}

static TEST_UNUSED double toy_slope4(const toy *t, const double *x, double *g, atvi_outcome *o) {
  (void)o, (void)t;
  g[0] = -4;
  return -4 * x[0];
}

#endif
