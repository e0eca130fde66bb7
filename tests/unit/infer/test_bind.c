/* SPDX-License-Identifier: MIT */
#include "atvi/bind.h"
#include "core/core.h"
#include "infer/vi_tuning.h"
#include "testing.h"

enum { D = 2 };
static const char *const NAMES[D] = {"a", "b.1"};
static const double LOWER[D] = {-HUGE_VAL, 0}, UPPER[D] = {HUGE_VAL, 5};

typedef struct {
  atvi_idx calls, points, fail_at; /* fail_at: in that call; 0: never */
  bool with_gradient, flipped;     /* flipped: the sign of the gradient */
} world;

/* a is normal(1.3, 0.7), b exponential with rate 2.385 on [0, 5]; normalised but for the end of b, e^-12. */
static int density(void *user, atvi_idx d, atvi_idx B, const double *theta, double *value, double *grad) {
  world *w = user;
  CHECK(d == D && B >= 1 && B <= 512);
  w->points += B;
  w->with_gradient = w->with_gradient || grad;
  for (atvi_idx i = 0; i < B; i++) {
    double z = (theta[i] - 1.3) / 0.7, b = theta[B + i];
    CHECK(b >= 0 && b <= 5);
    value[i] = -0.5 * z * z - log(0.7 * sqrt(2 * acos(-1.0))) + log(2.385) - 2.385 * b;
    double sign = w->flipped ? -1 : 1;
    if (grad) grad[i] = -sign * z / 0.7, grad[B + i] = -sign * 2.385;
  }
  return ++w->calls == w->fail_at;
}

static atvi_target *make(atvi_ctx *ctx, world *w) {
  atvi_target *t;
  CHECK_OK(atvi_density_new(ctx, "toy", D, NAMES, LOWER, UPPER, NULL, density, w, &t));
  return t;
}

static void fits_by_name(void) {
  static const char *const key[] = {"method", "seed", "ess", "ladder", "freeze"}, *const value[] = {
                                                                                      "atvi",
                                                                                      "18446744073709551615",
                                                                                      "4000", "2,1", "1"};
  atvi_ctx *ctx = test_ctx();
  world w = {0};
  atvi_target *t = make(ctx, &w);
  atvi_draws *d;
  CHECK_OK(atvi_fit_named(ctx, t, 5, key, value, &d));
  atvi_idx n = atvi_draws_size(d, "draws");
  CHECK(n >= 4000 && w.with_gradient && w.points >= n);
  CHECK_INT(atvi_draws_size(d, "parameters"), D);
  CHECK_INT(atvi_draws_size(d, "columns"), D);
  CHECK_INT(atvi_draws_size(d, "chains"), 1);
  CHECK_INT(atvi_draws_size(d, "messages"), d->n_message);
  CHECK_INT(atvi_draws_size(d, "nothing"), -1);
  CHECK_STR(atvi_draws_word(d, "column", 1), "b.1");
  CHECK_STR(atvi_draws_word(d, "method", 0), "atvi");
  CHECK_STR(atvi_draws_word(d, "model", 0), "toy");
  CHECK_STR(atvi_draws_word(d, "end", 0), "done");
  CHECK(!atvi_draws_word(d, "column", 2) && !atvi_draws_word(d, "column", -1));
  CHECK(!atvi_draws_word(d, "message", d->n_message) && !atvi_draws_word(d, "nothing", 0));
  const double *a = atvi_draws_numbers(d, "column", 0), *weight = atvi_draws_numbers(d, "weight", 0);
  double mean = 0;
  for (atvi_idx i = 0; i < n; i++) mean += weight[i] * a[i];
  CHECK_ABS(mean, 1.3, 5 * 0.7 / sqrt(4000)); /* five standard errors */
  CHECK(atvi_draws_numbers(d, "log_lik", 0) == d->log_lik &&
        atvi_draws_numbers(d, "log_prior", 0) == d->log_prior);
  CHECK(!atvi_draws_numbers(d, "column", 2) && !atvi_draws_numbers(d, "nothing", 0));
  CHECK_ABS(atvi_draws_number(d, "log_evidence"), 0, 0.05);
  CHECK(atvi_draws_number(d, "rungs") == 2 && atvi_draws_number(d, "seed") == 0x1p64);
  CHECK(atvi_draws_number(d, "evaluations") == (double)d->made->evaluations);
  CHECK(isnan(atvi_draws_number(d, "nothing")));
  CHECK(!atvi_density_failed(t));
  CHECK_STR(atvi_version(), ATVI_VERSION);
  atvi_draws_free(d);
  atvi_density_free(t);
  atvi_density_free(NULL);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

static void points_outside_and_failures(void) {
  atvi_ctx *ctx = test_ctx();
  world w = {0};
  atvi_target *t = make(ctx, &w);
  void *work;
  const double theta[D * 3] = {0.2, 0.4, 0.1, 0.5, 5.5, 4};
  double prior[3], lik[3], grad_prior[6], grad[6];
  atvi_outcome outcome[3];
  const atvi_batch b = {.B = 3,
                        .theta = theta,
                        .log_prior = prior,
                        .log_lik = lik,
                        .grad_prior = grad_prior,
                        .grad_lik = grad,
                        .outcome = outcome};
  CHECK_OK(t->ops->work_new(t->self, ctx, &work));
  t->ops->eval(t->self, work, &b);
  CHECK_INT(w.points, 2);
  CHECK(outcome[0] == ATVI_RUN_OK && outcome[1] == ATVI_RUN_OUTSIDE && outcome[2] == ATVI_RUN_OK);
  CHECK(prior[0] == 0 && prior[1] == -HUGE_VAL && lik[1] == -HUGE_VAL);
  CHECK_REL(grad[2], 1.2 / 0.49, 1e-14);
  CHECK_REL(grad[5], -2.385, 1e-14);
  CHECK(grad_prior[0] == 0 && grad[1] == 0 && grad[4] == 0);
  w.fail_at = 2;
  t->ops->eval(t->self, work, &b);
  CHECK(outcome[0] == ATVI_RUN_CALL && outcome[1] == ATVI_RUN_OUTSIDE && outcome[2] == ATVI_RUN_CALL);
  CHECK(atvi_density_failed(t));
  t->ops->eval(t->self, work, &b); /* not asked again */
  CHECK_INT(w.calls, 2);
  CHECK(outcome[0] == ATVI_RUN_CALL);
  t->ops->work_free(work);
  atvi_density_free(t);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

/* A failure of the function as a whole ends a fit without draws, or with what there was before. */
static void a_failed_function_ends_a_fit(void) {
  static const char *const key[] = {"method", "max_iter", "chains"}, *const value[] = {"ram", "1000", "4"};
  atvi_ctx *ctx = test_ctx();
  world w = {.fail_at = 1};
  atvi_target *t = make(ctx, &w);
  atvi_draws *d = NULL;
  CHECK_STATUS(atvi_fit_named(ctx, t, 3, key, value, &d), ATVI_EMODEL);
  CHECK(!d && w.calls == 1 && !w.with_gradient);
  atvi_density_free(t);
  atvi_ctx_free(ctx);
}

/* Before anything is begun; but for ram, which does without, and where it is not to be. */
static void a_wrong_gradient_is_told(void) {
  static const char *const key[] = {"method", "check_gradient", "max_seconds"};
  static const char *const method[] = {"atvi", "nf", "copula", "nuts", "map"};
  atvi_ctx *ctx = test_ctx();
  world w = {.flipped = true};
  atvi_target *t = make(ctx, &w);
  for (size_t i = 0; i < sizeof method / sizeof *method; i++) {
    atvi_draws *d = (atvi_draws *)&d;
    w.points = 0;
    CHECK_STATUS(atvi_fit_named(ctx, t, 1, key, &method[i], &d), ATVI_EMODEL);
    CHECK(!d && w.points <= ATVI_BATCH + 6 + 48 * D);
    CHECK(strstr(atvi_errmsg(ctx), "the gradient is wrong: for ") && strstr(atvi_errmsg(ctx), "sign"));
  }
  atvi_draws *d;
  CHECK_OK(atvi_fit_named(ctx, t, 1, key, (const char *const[]){"ram"}, &d));
  atvi_draws_free(d);
  CHECK_OK(atvi_fit_named(ctx, t, 3, key, (const char *const[]){"atvi", "0", "0.2"}, &d));
  atvi_draws_free(d);
  atvi_density_free(t);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

static void mistakes_are_told(void) {
  static const char *const twice[D] = {"a", "a"}, *const none[D] = {"a", ""};
  static const double back[D] = {9, 9}, unknown[D] = {NAN, 0};
  atvi_ctx *ctx = test_ctx();
  atvi_target *t = (atvi_target *)&t;
  world w = {0};
  CHECK_STATUS(atvi_density_new(ctx, "x", 0, NAMES, LOWER, UPPER, NULL, density, &w, &t), ATVI_EINVAL);
  CHECK(!t);
  CHECK_STATUS(atvi_density_new(ctx, "x", D, NAMES, LOWER, UPPER, NULL, NULL, &w, &t), ATVI_EINVAL);
  CHECK_STATUS(atvi_density_new(ctx, "x", D, NULL, LOWER, UPPER, NULL, density, &w, &t), ATVI_EINVAL);
  CHECK_STATUS(atvi_density_new(ctx, "x", D, twice, LOWER, UPPER, NULL, density, &w, &t), ATVI_EINVAL);
  CHECK_STATUS(atvi_density_new(ctx, "x", D, none, LOWER, UPPER, NULL, density, &w, &t), ATVI_EINVAL);
  CHECK_STATUS(atvi_density_new(ctx, "x", D, NAMES, back, UPPER, NULL, density, &w, &t), ATVI_EINVAL);
  CHECK(strstr(atvi_errmsg(ctx), "b.1") != NULL);
  CHECK_STATUS(atvi_density_new(ctx, "x", D, NAMES, unknown, UPPER, NULL, density, &w, &t), ATVI_EINVAL);
  static const char *const bad[][2] = {{"metod", "ram"},    {"seed", "-1"},         {"seed", "x"},
                                       {"seed", ""},        {"chains", "2.5"},      {"chains", "9e9"},
                                       {"ess", "many"},     {"max_iter", "-3"},     {"freeze", "yes"},
                                       {"method", "magic"}, {"check_gradient", "2"}};
  t = make(ctx, &w);
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    atvi_draws *d = (atvi_draws *)&d;
    CHECK_STATUS(atvi_fit_named(ctx, t, 1, &bad[i][0], &bad[i][1], &d), ATVI_EINVAL);
    CHECK(!d && strstr(atvi_errmsg(ctx), bad[i][0]));
  }
  CHECK_INT(w.calls, 0);
  atvi_density_free(t);
  atvi_ctx_free(ctx);
}

static void memory_failures_are_told(void) {
  for (long at = 1, ok = 0; !ok; at++) {
    atvi_ctx *ctx = test_ctx();
    world w = {0};
    atvi_target *t;
    test_fail_at = test_allocs + at;
    atvi_status status = atvi_density_new(ctx, "x", D, NAMES, LOWER, UPPER, "probit", density, &w, &t);
    test_fail_at = 0;
    ok = status == ATVI_OK;
    CHECK(ok ? at == 2 && t != NULL : status == ATVI_ENOMEM && !t);
    if (ok) CHECK_STR(t->param[1].map, "probit");
    atvi_density_free(t);
    atvi_ctx_free(ctx);
    CHECK_INT(test_live, 0);
  }
}

TESTS({"fit", fits_by_name}, {"points", points_outside_and_failures},
      {"failed", a_failed_function_ends_a_fit}, {"gradient", a_wrong_gradient_is_told},
      {"mistakes", mistakes_are_told}, {"memory", memory_failures_are_told})
