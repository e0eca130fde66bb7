/* SPDX-License-Identifier: MIT */
/* Mirror images of a posterior: which there are, which draws lack, and fits that have them all. */
#include "infer/mirrors.h"
#include "infer/vi.h"
#include "math/rng.h"
#include "math/stat/stat.h"
#include "models.h"
#include <math.h>
#include <string.h>

enum { DRAWS = 64, MOST = 12 };

typedef struct {
  atvi_ctx *ctx;
  atvi_model *model;
  atvi_evaluator *ev;
  atvi_pool *pool;
  double theta[MOST * DRAWS];
  atvi_mirrors found;
} world;

/* The mirrors that draws around these means, all with this sd, lack. */
static world look(const char *text, const double *mean, double sd) {
  world w = {.ctx = test_ctx()};
  w.model = test_load(w.ctx, test_file("m.atvi", text), true);
  const atvi_target *t = atvi_model_target(w.model);
  CHECK_OK(atvi_model_evaluator_new(w.ctx, t, &w.ev));
  CHECK_OK(atvi_pool_new(w.ctx, &w.pool));
  atvi_rng r = atvi_math_rng_at(1, ATVI_STREAM_PRIOR, 0, 0);
  for (atvi_idx i = 0; i < t->d; i++)
    for (atvi_idx j = 0; j < DRAWS; j++) w.theta[i * DRAWS + j] = mean[i] + sd * atvi_math_rng_normal(&r);
  CHECK_OK(
      atvi_infer_mirrors_find(w.ev, w.pool, &(atvi_mirror_draws){DRAWS, DRAWS, w.theta, NULL}, &w.found));
  return w;
}

static void leave(world *w) {
  atvi_pool_free(w->pool);
  atvi_model_evaluator_free(w->ev);
  atvi_model_free(w->model);
  atvi_ctx_free(w->ctx);
  CHECK_INT(test_live, 0);
}

static const char *const FACTOR =
    "index p = 1..3\nindex q = 1..2\nconst y[p, q] = [[1, 2], [3, -1], [0.5, 1]]\n"
    "param load[q] ~ normal(0, 2)\nparam score[p] ~ normal(0, 1)\nparam mu[q] ~ normal(0, 5)\nparam s ~ "
    "halfnormal(1)\n"
    "logp sum(i in p, j in q: -0.5*((y[i, j] - mu[j] - load[j]*score[i])/s)^2 - log(s))\n";

/* Intercepts, which are in one term with loading and score, keep their signs. */
static void signs_that_change_together_are_found(void) {
  static const double mean[] = {1, -2, 1, 0.5, -1, 2, 1, 1};
  world w = look(FACTOR, mean, 0.1);
  CHECK_INT(w.found.n, 1);
  for (atvi_idx i = 0; i < 8; i++) {
    CHECK_ABS(w.found.mirror[0].sign[i], i < 5 ? -1 : 1, 0);
    CHECK_INT(w.found.mirror[0].from[i], i);
  }
  atvi_mirror_draws d = {DRAWS, DRAWS, w.theta, NULL};
  CHECK(atvi_infer_mirror_gap(&w.found.mirror[0], 8, &d) > 10);
  double image[8];
  atvi_infer_mirror_image(&w.found.mirror[0], 8, 1, mean, image);
  CHECK_ABS(image[1], 2, 0);
  CHECK_ABS(image[5], 2, 0);
  leave(&w);
}

static void independent_products_have_a_mirror_each(void) {
  static const double mean[] = {1, 2, -1, -2};
  world w =
      look("param a[1..4] ~ normal(0, 1)\nlogp -0.5*(a[1]*a[2] - 2)^2 - 0.5*(a[3]*a[4] - 2)^2\n", mean, 0.1);
  int signs = 0; /* exchanges are others: a1 with a2, and the pairs */
  for (atvi_idx g = 0; g < w.found.n; g++) {
    bool stays = true;
    for (atvi_idx i = 0; i < 4; i++) stays = stays && w.found.mirror[g].from[i] == i;
    signs += stays;
  }
  CHECK_INT(signs, 2);
  leave(&w);
}

static void names_are_exchanged_with_their_share(void) {
  static const double mean[] = {-1, 2, 0.5, 1, 0.3};
  world w = look("param m[1..2] ~ normal(0, 3)\nparam s[1..2] ~ lognormal(0, 1)\nparam w ~ beta(2, 2)\n"
                 "const y[1..3] = [-1, 2, 3]\n"
                 "logp sum(i in 1..3: log_mix(w, -0.5*((y[i] - m[1])/s[1])^2 - log(s[1]), -0.5*((y[i] - "
                 "m[2])/s[2])^2 - log(s[2])))\n",
                 mean, 0.01);
  CHECK_INT(w.found.n, 1);
  const atvi_mirror *m = w.found.mirror;
  CHECK_INT(m->from[0], 1);
  CHECK_INT(m->from[1], 0);
  CHECK_INT(m->from[2], 3);
  CHECK_INT(m->from[3], 2);
  CHECK_ABS(m->sign[4], -1, 0);
  CHECK_ABS(m->at[4], 1, 0);
  leave(&w);
}

/* A prior that prefers a sign, and draws that have both images. */
static void what_is_not_lacking_is_not_found(void) {
  static const double mean[] = {1, 2, 0, 0};
  world w = look("param a ~ normal(0.5, 1)\nparam b ~ normal(0, 1)\nlogp -0.5*(a*b - 2)^2\n", mean, 0.1);
  CHECK_INT(w.found.n, 0);
  leave(&w);
  w = look("param a ~ normal(0, 1)\nparam b ~ normal(0, 1)\nlogp -0.5*(a*b - 2)^2\n", mean, 5);
  CHECK_INT(w.found.n, 0);
  CHECK_INT(atvi_model_evaluator_count(w.ev), 0);
  leave(&w);
}

/* ---- fits ---- */

static atvi_draws *fit(atvi_ctx *ctx, const char *text, uint64_t seed) {
  atvi_model *m = test_load(ctx, test_file("m.atvi", text), true);
  atvi_evaluator *ev;
  atvi_draws *d;
  atvi_vi_opts o = atvi_infer_vi_defaults();
  o.seed = seed;
  CHECK_OK(atvi_model_evaluator_new(ctx, atvi_model_target(m), &ev));
  CHECK_OK(atvi_infer_vi_run(ctx, ev, &o, &d));
  atvi_model_evaluator_free(ev);
  atvi_model_free(m);
  return d;
}

/* y_i = a_i b: given b all a are normal, so that the evidence is one integral over b. */
static double product_evidence(const double *y, int n, double sd) {
  double top = -HUGE_VAL, sum = 0, h = 1e-3;
  for (int pass = 0; pass < 2; pass++)
    for (double b = -12; b < 12; b += h) {
      double v = b * b + sd * sd, lp = -0.125 * b * b - 0.5 * log(8 * acos(-1));
      for (int i = 0; i < n; i++) lp -= 0.5 * (log(2 * acos(-1) * v) + y[i] * y[i] / v);
      if (pass == 0)
        top = fmax(top, lp);
      else
        sum += h * exp(lp - top);
    }
  return top + log(sum);
}

/* 41 parameters, fitted unit by unit, and 11, which have a flow: both images of either, each with half. */
static void fits_have_both_images(void) {
  for (int big = 0; big < 2; big++) {
    int n = big ? 40 : 10;
    double y[40];
    char text[2000], *at = text;
    at += sprintf(at, "const y[1..%d] = [", n);
    for (int i = 0; i < n; i++) {
      y[i] = round(100 * 2 * sin(1 + 1.7 * i)) / 100;
      at += sprintf(at, "%s%.2f", i ? ", " : "", y[i]);
    }
    sprintf(at,
            "]\nparam a[1..%d] ~ normal(0, 1)\nparam b ~ normal(0, 2)\n"
            "logp sum(i in 1..%d: -0.5*((a[i]*b - y[i])/0.3)^2 - log(0.3*sqrt(2*pi)))\n",
            n, n);
    atvi_ctx *ctx = test_ctx();
    atvi_draws *d = fit(ctx, text, 5);
    double se = d->made->log_evidence_se, want = product_evidence(y, n, 0.3);
    CHECK_MSG(fabs(d->made->log_evidence - want) < hypot(0.01, 4 * se), "%g +- %g, not %g",
              d->made->log_evidence, se, want);
    double above = 0;
    for (atvi_idx j = 0; j < d->n; j++) above += d->x[n * d->n + j] > 0 ? d->weight[j] : 0;
    CHECK_ABS(above, 0.5, 0.03);
    CHECK_ABS(d->made->modes, 2, 0);
    atvi_draws_free(d);
    atvi_ctx_free(ctx);
  }
}

TESTS({"signs", signs_that_change_together_are_found}, {"products", independent_products_have_a_mirror_each},
      {"names", names_are_exchanged_with_their_share}, {"none", what_is_not_lacking_is_not_found},
      {"fits", fits_have_both_images})
