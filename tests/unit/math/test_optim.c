/* SPDX-License-Identifier: MIT */
#include "math/optim.h"
#include "testing.h"

/* With scratch of just the right size, between marks. */
static atvi_lbfgs_info minimise(atvi_idx n, const atvi_lbfgs_opts *opts, double *x) {
  static double room[1000];
  const double mark = 2.385e17;
  size_t size = atvi_math_lbfgs_work(n);
  CHECK(size + 2 <= sizeof room / sizeof *room);
  for (size_t i = 0; i < size; i++) room[i + 1] = NAN;
  room[0] = room[size + 1] = mark;
  atvi_lbfgs_info info;
  long before = test_allocs;
  atvi_math_lbfgs(n, opts, x, room + 1, &info);
  CHECK(test_allocs == before && room[0] == mark && room[size + 1] == mark);
  return info;
}

static double rosenbrock(void *user, const double *x, double *g) {
  atvi_idx n = *(atvi_idx *)user;
  double f = 0;
  memset(g, 0, (size_t)n * sizeof *g);
  for (atvi_idx i = 0; i + 1 < n; i++) {
    double a = x[i + 1] - x[i] * x[i], b = 1 - x[i];
    f += 100 * a * a + b * b;
    g[i] += -400 * a * x[i] - 2 * b;
    g[i + 1] += 200 * a;
  }
  return f;
}

static void rosenbrock_free(void) {
  for (atvi_idx n = 2; n <= 20; n += 9) {
    double x[20];
    for (atvi_idx i = 0; i < n; i++) x[i] = i % 2 ? 1.0 : -1.2;
    atvi_lbfgs_info info;
    atvi_lbfgs_opts opts = {.f = rosenbrock, .user = &n, .max_evals = 2000, .tol_grad = 1e-10};
    info = minimise(n, &opts, x);
    CHECK(info.converged && info.grad_norm <= 1e-10 * (1 + info.value));
    CHECK(info.evals < 60 + 20 * n);
    for (atvi_idx i = 0; i < n; i++) CHECK_ABS(x[i], 1, 1e-8);
  }
}

/* With x_0 <= 0.5 the minimum is at (0.5, 0.25), f = 0.25. */
static void rosenbrock_at_a_bound(void) {
  atvi_idx n = 2;
  double x[2] = {-1.2, 1.0}, lower[2] = {-2, -HUGE_VAL}, upper[2] = {0.5, HUGE_VAL};
  atvi_lbfgs_info info;
  atvi_lbfgs_opts opts = {
      .f = rosenbrock, .user = &n, .lower = lower, .upper = upper, .max_evals = 1000, .tol_grad = 1e-10};
  info = minimise(n, &opts, x);
  CHECK(info.converged);
  CHECK(x[0] == 0.5);
  CHECK_ABS(x[1], 0.25, 1e-9);
  CHECK_REL(info.value, 0.25, 1e-12);
}

enum { Q = 12 };

/* 1/2 (x - c)^T A (x - c), A tridiagonal with scales from 1 to 1e4. */
static double quadratic(void *user, const double *x, double *g) {
  const double *c = user;
  double f = 0;
  for (int i = 0; i < Q; i++) {
    double s = pow(10, 4.0 * i / (Q - 1)), r = 2 * s * (x[i] - c[i]);
    if (i > 0) r -= 0.5 * pow(10, 4.0 * (i - 0.5) / (Q - 1)) * (x[i - 1] - c[i - 1]);
    if (i + 1 < Q) r -= 0.5 * pow(10, 4.0 * (i + 0.5) / (Q - 1)) * (x[i + 1] - c[i + 1]);
    g[i] = r;
    f += 0.5 * r * (x[i] - c[i]);
  }
  return f;
}

/* Every third minimum lies outside the box: check the first-order conditions. */
static void quadratic_with_active_bounds(void) {
  double c[Q], lower[Q], upper[Q], x[Q], g[Q];
  int active = 0;
  for (int i = 0; i < Q; i++) {
    c[i] = i % 3 == 0 ? 1.7 : i % 3 == 1 ? -0.31 : 0.23 + 0.01 * i;
    lower[i] = -1;
    upper[i] = 1;
    x[i] = i % 2 ? 5.0 : -0.9; /* half of the start is outside */
  }
  atvi_lbfgs_info info;
  atvi_lbfgs_opts opts = {
      .f = quadratic, .user = c, .lower = lower, .upper = upper, .max_evals = 2000, .tol_grad = 1e-9};
  info = minimise(Q, &opts, x);
  CHECK(info.converged);
  quadratic(c, x, g);
  for (int i = 0; i < Q; i++) {
    CHECK(x[i] >= -1 && x[i] <= 1);
    if (x[i] == 1) {
      CHECK(g[i] < 0);
      active++;
    } else {
      CHECK_ABS(g[i], 0, 1e-9 * (1 + info.value));
    }
  }
  CHECK_INT(active, 4);
}

/* log barrier: NaN for x <= 0, as a failed model run would give. Minimum of x - log x summed at 1. */
static double barrier(void *user, const double *x, double *g) {
  (void)user;
  double f = 0;
  for (int i = 0; i < 3; i++) {
    if (x[i] <= 0) return i % 2 ? HUGE_VAL : NAN;
    f += x[i] - log(x[i]);
    g[i] = 1 - 1 / x[i];
  }
  return f;
}

static void points_that_fail_are_backed_off(void) {
  double x[3] = {37.0, 0.013, 2.385};
  atvi_lbfgs_info info;
  atvi_lbfgs_opts opts = {.f = barrier, .max_evals = 500, .tol_grad = 1e-9};
  info = minimise(3, &opts, x);
  CHECK(info.converged);
  for (int i = 0; i < 3; i++) CHECK_ABS(x[i], 1, 1e-7);
  double bad[3] = {1.3, -2.0, 1.1}; /* nothing to start from */
  info = minimise(3, &opts, bad);
  CHECK(!info.converged && info.evals == 1 && isnan(info.value));
}

static void evaluations_are_limited(void) {
  atvi_idx n = 2;
  double x[2] = {-1.2, 1.0};
  atvi_lbfgs_info info;
  atvi_lbfgs_opts opts = {.f = rosenbrock, .user = &n, .max_evals = 5, .tol_grad = 1e-10};
  info = minimise(2, &opts, x);
  CHECK(!info.converged && info.evals <= 5 && info.value < 24.2);
}

/* f = sum_i 4^i (x_i - c)^2 */
static double valley(void *user, const double *x, double *g) {
  double c = *(double *)user, f = 0, scale = 1;
  for (int i = 0; i < 6; i++, scale *= 4) {
    f += scale * (x[i] - c) * (x[i] - c);
    g[i] = 2 * scale * (x[i] - c);
  }
  return f;
}

static void curvature_is_kept_for_a_similar_function(void) {
  double room[300], c = 0.731, x[6] = {0}, cold[6];
  atvi_lbfgs_info first, again, without;
  atvi_lbfgs_opts opts = {.f = valley, .user = &c, .max_evals = 500, .tol_grad = 1e-9};
  CHECK(atvi_math_lbfgs_work(6) <= sizeof room / sizeof *room);
  atvi_math_lbfgs(6, &opts, x, room, &first);
  c = 0.692;
  memcpy(cold, x, sizeof x);
  opts.warm = true;
  atvi_math_lbfgs(6, &opts, x, room, &again);
  opts.warm = false;
  without = minimise(6, &opts, cold);
  CHECK(first.converged && again.converged && without.converged);
  CHECK(again.evals < without.evals);
  for (int i = 0; i < 6; i++) CHECK_ABS(x[i], c, 1e-8);
}

static void small_gains_end_it(void) {
  double c = 0.731, x[6] = {0};
  atvi_lbfgs_opts opts = {.f = valley, .user = &c, .max_evals = 500, .tol_grad = 0, .tol_value = 1e-3};
  atvi_lbfgs_info info = minimise(6, &opts, x);
  CHECK(!info.converged && info.value < 1e-2);
  int evals = info.evals;
  memset(x, 0, sizeof x);
  opts.tol_value = 1e-9;
  info = minimise(6, &opts, x);
  CHECK(info.evals > evals && info.value < 1e-7);
}

/* A gradient that points the wrong way. */
static double wrong_way(void *user, const double *x, double *g) {
  (void)user;
  g[0] = -2 * x[0];
  return x[0] * x[0];
}

static void trials_are_limited(void) {
  double x[1] = {2.385};
  atvi_lbfgs_opts opts = {.f = wrong_way, .max_evals = 500, .tol_grad = 1e-9, .max_trials = 6};
  CHECK(minimise(1, &opts, x).evals == 7 && x[0] == 2.385);
}

TESTS({"free", rosenbrock_free}, {"bound", rosenbrock_at_a_bound},
      {"quadratic", quadratic_with_active_bounds}, {"fail", points_that_fail_are_backed_off},
      {"limits", evaluations_are_limited}, {"warm", curvature_is_kept_for_a_similar_function},
      {"gain", small_gains_end_it}, {"trials", trials_are_limited})
