/* SPDX-License-Identifier: MIT */
#include "infer/chains.h"
#include "toys.h"

static atvi_starts *look(atvi_ctx *ctx, toy *t, atvi_idx want) {
  atvi_evaluator *ev;
  atvi_starts *s;
  CHECK_OK(atvi_model_evaluator_new(ctx, &t->target, &ev));
  CHECK_OK(atvi_infer_starts_new(ctx, ev, 5, want, &s));
  atvi_model_evaluator_free(ev);
  return s;
}

static void points_are_prior_draws_with_their_density(void) {
  toy t = {.lik = toy_chain, .prior_sd = 2.5};
  toy_set(&t, 3, -HUGE_VAL, HUGE_VAL);
  atvi_ctx *ctx = test_ctx();
  atvi_starts *s = look(ctx, &t, 300);
  CHECK(s->n == 300 && s->from_prior && s->tried == 512);
  for (atvi_idx i = 0; i < s->n; i++) {
    double x[3], g[3] = {0}, want[3], lp = 0, unused;
    toy_draw(&t, NULL, 5, i, 1, want);
    for (int j = 0; j < 3; j++) {
      x[j] = s->theta[j * s->cap + i];
      CHECK(x[j] == want[j]);
      lp += toy_prior(&t, j, x[j], &unused);
    }
    CHECK_ABS(s->log_prior[i], lp, 1e-13);
    CHECK_ABS(s->log_lik[i], toy_chain(&t, x, g, NULL), 1e-10);
  }
  for (int j = 0; j < 3; j++) CHECK_REL(s->scale[j], 2.5, 4 / sqrt(2 * 4096.0)); /* four standard errors */
  atvi_infer_starts_free(s);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

/* Where runs fail or the likelihood is zero no point is kept, and it is counted. */
static double patchy(const toy *t, const double *x, double *g, atvi_outcome *o) {
  (void)t, (void)g;
  if (x[0] < 0.25) *o = ATVI_RUN_STEPS;
  if (x[0] > 0.75) return -HUGE_VAL;
  return x[0] < 0.25 ? NAN : 0;
}

static void bad_points_are_redrawn(void) {
  toy t = {.lik = patchy};
  toy_set(&t, 1, 0, 1);
  atvi_ctx *ctx = test_ctx();
  atvi_starts *s = look(ctx, &t, 500);
  CHECK_INT(s->n, 500);
  for (atvi_idx i = 0; i < s->n; i++) CHECK(s->theta[i] >= 0.25 && s->theta[i] <= 0.75);
  double n = (double)s->tried, se = sqrt(n * 0.25 * 0.75);
  CHECK_ABS((double)s->bad[ATVI_RUN_STEPS], 0.25 * n, 4 * se);
  CHECK_ABS((double)s->bad[ATVI_RUN_OK], 0.25 * n, 4 * se);
  atvi_infer_starts_free(s);
  atvi_ctx_free(ctx);
}

/* The spread stays inside the bounds, whichever are finite. */
static double flat(const toy *t, const double *x, double *g, atvi_outcome *o) {
  (void)t, (void)x, (void)g, (void)o;
  return 0;
}

static void spreads_without_a_prior(void) {
  toy t = {.lik = flat, .no_prior = true};
  toy_set(&t, 4, -HUGE_VAL, HUGE_VAL);
  t.param[0].lower = t.lower[0] = 3;
  t.param[1].upper = t.upper[1] = -2;
  t.param[2].lower = t.lower[2] = 5;
  t.param[2].upper = t.upper[2] = 6;
  atvi_ctx *ctx = test_ctx();
  atvi_starts *s = look(ctx, &t, 400);
  CHECK(!s->from_prior && s->n == 400 && s->tried == 512);
  int negative = 0;
  for (atvi_idx i = 0; i < s->n; i++) {
    CHECK(s->theta[i] > 3 && s->theta[s->cap + i] < -2);
    CHECK(s->theta[2 * s->cap + i] > 5 && s->theta[2 * s->cap + i] < 6);
    negative += s->theta[3 * s->cap + i] < 0;
  }
  CHECK_ABS(negative, 200, 40);
  CHECK_REL(s->scale[2], sqrt(1 / 12.0), 0.05);
  atvi_infer_starts_free(s);
  atvi_ctx_free(ctx);
}

/* A likelihood of width 1e-3 on [-1, 1]: chosen points lie closer than the candidates, are distinct, and
 * still differ from one another. */
static double narrow(const toy *t, const double *x, double *g, atvi_outcome *o) {
  (void)t, (void)g, (void)o;
  return -0.5 * pow((x[0] - 0.3) / 1e-3, 2);
}

static void choice_prefers_the_better_and_stays_dispersed(void) {
  toy t = {.lik = narrow};
  toy_set(&t, 1, -1, 1);
  atvi_ctx *ctx = test_ctx();
  atvi_starts *s = look(ctx, &t, 800);
  atvi_idx index[16];
  double beta = atvi_infer_starts_pick(s, 9, 16, index), far = 0;
  CHECK(beta > 0 && beta < 0.1);
  for (int k = 0; k < 16; k++) {
    far += fabs(s->theta[index[k]] - 0.3) / 16;
    for (int l = 0; l < k; l++) CHECK(index[k] != index[l]);
  }
  /* effective number 32 of 800 on a length of 2: a normal of sd 32 / 400 / 2 sqrt(pi) = 0.023 */
  CHECK(far > 0.005 && far < 0.05);
  double sum = 0, sum2 = 0;
  for (atvi_idx i = 0; i < s->n; i++) {
    double w = exp(beta * s->log_lik[i]);
    sum += w;
    sum2 += w * w;
  }
  CHECK_REL(sum * sum / sum2, 32, 1e-6);
  atvi_infer_starts_free(s);
  atvi_ctx_free(ctx);
}

static void choice_without_information_is_the_prior(void) {
  toy t = {.lik = flat};
  toy_set(&t, 1, -1, 1);
  atvi_ctx *ctx = test_ctx();
  atvi_starts *s = look(ctx, &t, 5);
  atvi_idx index[12];
  CHECK(atvi_infer_starts_pick(s, 9, 12, index) == 1);
  int seen[5] = {0};
  for (int k = 0; k < 12; k++) seen[index[k]]++;
  for (int i = 0; i < 5; i++) CHECK(seen[i] >= 2 && seen[i] <= 3); /* fewer points than wanted: in turn */
  atvi_infer_starts_free(s);
  atvi_ctx_free(ctx);
}

static bool stop_now(void *user) {
  (void)user;
  return true;
}

static double zero(const toy *t, const double *x, double *g, atvi_outcome *o) {
  (void)t, (void)x, (void)g, (void)o;
  return -HUGE_VAL;
}

static void refuses_and_explains(void) {
  toy t = {.lik = zero}, undrawable = {.lik = zero, .no_prior = true};
  toy_set(&t, 1, 0, 1);
  toy_set(&undrawable, 1, 0, 1);
  atvi_ctx *ctx = test_ctx();
  atvi_evaluator *ev;
  atvi_starts *s;
  CHECK_OK(atvi_model_evaluator_new(ctx, &t.target, &ev));
  CHECK_STATUS(atvi_infer_starts_new(ctx, ev, 1, 0, &s), ATVI_EINVAL);
  CHECK_STATUS(atvi_infer_starts_new(ctx, ev, 1, 10, &s), ATVI_EMODEL);
  CHECK(s == NULL);
  CHECK(strstr(atvi_errmsg(ctx), "toy: none of 4096 draws from the prior could be evaluated; for 4096 of "
                                 "them the likelihood is zero"));
  CHECK_INT(atvi_errcode(ctx), ATVI_CODE_LIKELIHOOD_ZERO);
  test_fail_at = test_allocs + 1;
  CHECK_STATUS(atvi_infer_starts_new(ctx, ev, 1, 10, &s), ATVI_ENOMEM);
  CHECK(s == NULL);
  atvi_ctx_set_stop(ctx, stop_now, NULL);
  CHECK_STATUS(atvi_infer_starts_new(ctx, ev, 1, 10, &s), ATVI_ESTOP);
  atvi_ctx_set_stop(ctx, NULL, NULL);
  atvi_model_evaluator_free(ev);
  CHECK_OK(atvi_model_evaluator_new(ctx, &undrawable.target, &ev));
  CHECK_STATUS(atvi_infer_starts_new(ctx, ev, 1, 10, &s), ATVI_EMODEL);
  CHECK(strstr(atvi_errmsg(ctx), "points spread over the bounds"));
  atvi_model_evaluator_free(ev);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
  for (int k = ATVI_RUN_OK; k <= ATVI_RUN_STEADY; k++)
    CHECK(strcmp(atvi_outcome_word((atvi_outcome)k), "unknown") != 0);
}

TESTS({"draws", points_are_prior_draws_with_their_density}, {"redrawn", bad_points_are_redrawn},
      {"spread", spreads_without_a_prior}, {"choice", choice_prefers_the_better_and_stays_dispersed},
      {"flat", choice_without_information_is_the_prior}, {"refuses", refuses_and_explains})
