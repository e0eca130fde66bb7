/* SPDX-License-Identifier: MIT */
#include "math/optim.h"
#include "testing.h"

/* f(x) = sum_i w_i (x_i - c_i)^2 has its minimum at c. */
static void finds_quadratic_minimum(void) {
  const double w[3] = {0.731, 4.19, 2.385}, c[3] = {-1.27, 0.483, 3.16};
  double x[3] = {0}, g[3];
  atvi_ctx *ctx = test_ctx();
  atvi_adam *opt;
  CHECK_OK(atvi_math_adam_new(ctx, 3, &(atvi_adam_opts){0.05, 0.9, 0.999, 1e-8}, &opt));
  long before = test_allocs;
  for (int k = 0; k < 4000; k++) {
    for (int i = 0; i < 3; i++) g[i] = 2 * w[i] * (x[i] - c[i]);
    CHECK_INT(atvi_math_adam_step(opt, x, g), 0);
  }
  CHECK(test_allocs == before); /* steady state allocates nothing */
  for (int i = 0; i < 3; i++) CHECK_REL(x[i], c[i], 1e-6);
  atvi_math_adam_free(opt);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

/* Three steps worked out by hand from Algorithm 1, each with its own moments. */
static void follows_the_algorithm(void) {
  const atvi_adam_opts o = {0.1, 0.8, 0.95, 1e-3};
  const double g[3] = {0.7, -1.9, 0.23};
  atvi_ctx *ctx = test_ctx();
  atvi_adam *opt;
  CHECK_OK(atvi_math_adam_new(ctx, 1, &o, &opt));
  for (int round = 0; round < 2; round++) {
    double x = 2.385, want = 2.385, m = 0, v = 0, step = o.step;
    for (int t = 1; t <= 3; t++) {
      m = o.beta1 * m + (1 - o.beta1) * g[t - 1];
      v = o.beta2 * v + (1 - o.beta2) * g[t - 1] * g[t - 1];
      if (t == 3) atvi_math_adam_set_step(opt, step = 0.017);
      want -= step * (m / (1 - pow(o.beta1, t))) / (sqrt(v / (1 - pow(o.beta2, t))) + o.eps);
      CHECK_INT(atvi_math_adam_step(opt, &x, &g[t - 1]), 0);
      CHECK_REL(x, want, 1e-14);
    }
    atvi_math_adam_reset(opt); /* and all over again */
    atvi_math_adam_set_step(opt, o.step);
  }
  double x = 1.31;
  atvi_math_adam_set_step(opt, 0);
  atvi_math_adam_step(opt, &x, &g[1]);
  CHECK(x == 1.31);
  atvi_math_adam_free(opt);
  atvi_ctx_free(ctx);
}

static void first_step_has_the_size_of_the_rate(void) {
  atvi_ctx *ctx = test_ctx();
  atvi_adam *opt;
  CHECK_OK(atvi_math_adam_new(ctx, 2, NULL, &opt));
  double x[2] = {0.31, -4.7};
  atvi_math_adam_step(opt, x, (double[2]){1e5, -37.3});
  CHECK_ABS(x[0], 0.31 - atvi_math_adam_defaults().step, 1e-12);
  CHECK_ABS(x[1], -4.7 + atvi_math_adam_defaults().step, 1e-12);
  atvi_math_adam_free(opt);
  atvi_ctx_free(ctx);
}

static void skips_what_is_not_finite(void) {
  atvi_ctx *ctx = test_ctx();
  atvi_adam *a, *b;
  CHECK_OK(atvi_math_adam_new(ctx, 4, NULL, &a));
  CHECK_OK(atvi_math_adam_new(ctx, 4, NULL, &b));
  double x[4] = {1.1, 2.2, 3.3, 4.4}, y[4] = {1.1, 2.2, 3.3, 4.4};
  CHECK_INT(atvi_math_adam_step(a, x, (double[4]){0.3, NAN, HUGE_VAL, -HUGE_VAL}), 3);
  CHECK(x[1] == 2.2 && x[2] == 3.3 && x[3] == 4.4 && x[0] < 1.1);
  CHECK_INT(atvi_math_adam_step(b, y, (double[4]){0.3, 0, 0, 0}), 0);
  CHECK(x[0] == y[0]);
  for (int k = 0; k < 5; k++) { /* as if the bad entries had been zero: nothing of them stays */
    CHECK_INT(atvi_math_adam_step(a, x, (double[4]){0.3, 1.7, -0.2, 5}), 0);
    CHECK_INT(atvi_math_adam_step(b, y, (double[4]){0.3, 1.7, -0.2, 5}), 0);
  }
  for (int i = 0; i < 4; i++) CHECK_REL(x[i], y[i], 1e-15);
  atvi_math_adam_free(a);
  atvi_math_adam_free(b);
  atvi_ctx_free(ctx);
}

/* Long vectors, with bad entries in every place of a group, against a loop that treats parameters one by one. */
static void places_do_not_matter(void) {
  enum { N = 203, STEPS = 40 };
  const atvi_adam_opts o = {0.02, 0.9, 0.99, 1e-8};
  double x[N], g[N], want[N], m[N] = {0}, v[N] = {0};
  atvi_ctx *ctx = test_ctx();
  atvi_adam *opt;
  CHECK_OK(atvi_math_adam_new(ctx, N, &o, &opt));
  for (int i = 0; i < N; i++) x[i] = want[i] = sin(i);
  for (int t = 1; t <= STEPS; t++) {
    int bad = 0;
    for (int i = 0; i < N; i++) {
      g[i] = cos(3.1 * i + 0.7 * t);
      if ((i + 5 * t) % 11 == 0) g[i] = (i % 3 == 0 ? NAN : i % 3 == 1 ? -HUGE_VAL : 1e151);
      if (!(fabs(g[i]) <= 1)) {
        bad++;
        continue;
      }
      m[i] = o.beta1 * m[i] + (1 - o.beta1) * g[i];
      v[i] = o.beta2 * v[i] + (1 - o.beta2) * g[i] * g[i];
      want[i] -= o.step * (m[i] / (1 - pow(o.beta1, t))) / (sqrt(v[i] / (1 - pow(o.beta2, t))) + o.eps);
    }
    CHECK_INT(atvi_math_adam_step(opt, x, g), bad);
  }
  for (int i = 0; i < N; i++) CHECK_ABS(x[i], want[i], 1e-14);
  atvi_math_adam_free(opt);
  atvi_ctx_free(ctx);
}

static void refuses_settings(void) {
  const atvi_adam_opts bad[] = {{0, .9, .999, 1e-8},  {NAN, .9, .999, 1e-8}, {.1, 1, .999, 1e-8},
                                {.1, -.1, .9, 1e-8},  {.1, .9, 1, 1e-8},     {.1, .9, NAN, 1e-8},
                                {.1, .9, -.01, 1e-8}, {.1, .9, .99, 0}};
  atvi_ctx *ctx = test_ctx();
  atvi_adam *opt = (atvi_adam *)ctx;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    CHECK_STATUS(atvi_math_adam_new(ctx, 3, &bad[i], &opt), ATVI_EINVAL);
    CHECK(opt == NULL);
  }
  CHECK_STATUS(atvi_math_adam_new(ctx, 0, NULL, &opt), ATVI_EINVAL);
  atvi_math_adam_free(NULL);
  atvi_ctx_free(ctx);
}

static void survives_lack_of_memory(void) {
  atvi_ctx *ctx = test_ctx();
  atvi_adam *opt;
  for (long at = 1;; at++) {
    long live = test_live;
    test_fail_at = test_allocs + at;
    atvi_status s = atvi_math_adam_new(ctx, 17, NULL, &opt);
    test_fail_at = 0;
    if (s == ATVI_OK) break;
    CHECK_STATUS(s, ATVI_ENOMEM);
    CHECK(opt == NULL);
    CHECK_INT(test_live, live);
  }
  atvi_math_adam_free(opt);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

TESTS({"quadratic", finds_quadratic_minimum}, {"algorithm", follows_the_algorithm},
      {"first", first_step_has_the_size_of_the_rate}, {"nonfinite", skips_what_is_not_finite},
      {"places", places_do_not_matter}, {"refuses", refuses_settings}, {"memory", survives_lack_of_memory})
