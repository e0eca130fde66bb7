/* SPDX-License-Identifier: MIT */
#include "sim/simulator.h"
#include "math/rng.h"
#include "testing.h"

enum { MOST = 4000 };
static double x[MOST], y[MOST];

/* Every one of n slices of every axis has exactly one point. */
static void check_latin(atvi_idx n, atvi_idx d, const double *p) {
  for (atvi_idx j = 0; j < d; j++) {
    int count[MOST] = {0};
    for (atvi_idx i = 0; i < n; i++) {
      CHECK(p[i * d + j] > 0 && p[i * d + j] < 1);
      count[(int)(p[i * d + j] * (double)n)]++;
    }
    for (atvi_idx k = 0; k < n; k++) CHECK_INT(count[k], 1);
  }
}

static void latin_slices_have_one_point_each(void) {
  atvi_ctx *ctx = test_ctx();
  static const int size[][2] = {{1, 1}, {2, 3}, {7, 1}, {41, 5}, {100, 2}, {400, 5}};
  for (size_t k = 0; k < sizeof size / sizeof size[0]; k++) {
    CHECK_OK(atvi_sim_design_fill(ctx, ATVI_DESIGN_LHS, 3 + k, size[k][1], 0, size[k][0], x));
    check_latin(size[k][0], size[k][1], x);
  }
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

/* Smallest distance between two points. */
static double distance(atvi_idx n, atvi_idx d, const double *p) {
  double least = INFINITY;
  for (atvi_idx i = 0; i < n; i++)
    for (atvi_idx k = 0; k < i; k++) {
      double sum = 0;
      for (atvi_idx j = 0; j < d; j++) sum += (p[i * d + j] - p[k * d + j]) * (p[i * d + j] - p[k * d + j]);
      least = fmin(least, sqrt(sum));
    }
  return least;
}

/* Without the search: slices shuffled, points anywhere inside them. */
static void plain_latin(uint64_t seed, atvi_idx n, atvi_idx d, double *p) {
  atvi_rng r = atvi_math_rng_at(seed, ATVI_STREAM_TEST, 0, 0);
  for (atvi_idx j = 0; j < d; j++) {
    atvi_idx slice[MOST];
    for (atvi_idx i = 0; i < n; i++) slice[i] = i;
    for (atvi_idx i = n - 1; i >= 0; i--) {
      atvi_idx k = (atvi_idx)(atvi_math_rng_bits(&r) % (uint64_t)(i + 1)), t = slice[k];
      slice[k] = slice[i];
      p[i * d + j] = ((double)t + atvi_math_rng_uniform(&r)) / (double)n;
    }
  }
}

static void nearest_points_are_far_apart(void) {
  atvi_ctx *ctx = test_ctx();
  static const int size[][2] = {{30, 2}, {50, 3}, {100, 5}};
  for (size_t k = 0; k < 3; k++) {
    atvi_idx n = size[k][0], d = size[k][1];
    double best = 0;
    for (uint64_t seed = 0; seed < 200; seed++) {
      plain_latin(seed, n, d, y);
      best = fmax(best, distance(n, d, y));
    }
    CHECK_OK(atvi_sim_design_fill(ctx, ATVI_DESIGN_LHS, 11, d, 0, n, x));
    double got = distance(n, d, x);
    CHECK_MSG(got > 1.2 * best, "%td points in %td: %g, the best of 200 random ones has %g", n, d, got, best);
  }
  atvi_ctx_free(ctx);
}

static void equal_seeds_give_equal_designs(void) {
  atvi_ctx *ctx = test_ctx();
  for (int kind = 0; kind < 2; kind++) {
    CHECK_OK(atvi_sim_design_fill(ctx, kind, 7, 4, 0, 60, x));
    CHECK_OK(atvi_sim_design_fill(ctx, kind, 7, 4, 0, 60, y));
    CHECK(memcmp(x, y, 240 * sizeof *x) == 0);
    CHECK_OK(atvi_sim_design_fill(ctx, kind, 8, 4, 0, 60, y));
    CHECK(memcmp(x, y, 240 * sizeof *x) != 0);
  }
  atvi_ctx_free(ctx);
}

static void extension_keeps_the_first_points(void) {
  atvi_ctx *ctx = test_ctx();
  for (int kind = 0; kind < 2; kind++) {
    CHECK_OK(atvi_sim_design_fill(ctx, kind, 5, 3, 0, 40, x));
    memcpy(y, x, 120 * sizeof *x);
    CHECK_OK(atvi_sim_design_fill(ctx, kind, 5, 3, 40, 40, x));
    CHECK_OK(atvi_sim_design_fill(ctx, kind, 5, 3, 40, 80, x));
    CHECK(memcmp(x, y, 120 * sizeof *x) == 0);
    if (kind == ATVI_DESIGN_LHS) check_latin(80, 3, x);
    CHECK(distance(80, 3, x) > 0.02);
  }
  /* Sobol points do not depend on how they were asked for. */
  CHECK_OK(atvi_sim_design_fill(ctx, ATVI_DESIGN_SOBOL, 5, 3, 0, 80, y));
  CHECK(memcmp(x, y, 240 * sizeof *x) == 0);
  atvi_ctx_free(ctx);
}

/* To a size that is no multiple: the share of points below any value stays near that value. */
static void odd_extension_stays_even(void) {
  atvi_ctx *ctx = test_ctx();
  CHECK_OK(atvi_sim_design_fill(ctx, ATVI_DESIGN_LHS, 5, 2, 0, 50, x));
  CHECK_OK(atvi_sim_design_fill(ctx, ATVI_DESIGN_LHS, 6, 2, 50, 73, x));
  CHECK_OK(atvi_sim_design_fill(ctx, ATVI_DESIGN_LHS, 7, 2, 73, 120, x));
  for (int j = 0; j < 2; j++)
    for (int k = 1; k <= 120; k++) {
      int below = 0;
      for (int i = 0; i < 120; i++) below += x[2 * i + j] < k / 120.0;
      CHECK_MSG(abs(below - k) <= 3, "axis %d: %d points below %d of 120", j, below, k);
    }
  atvi_ctx_free(ctx);
}

/* Points of a design that was made when the axes ended at to[j]. */
static void shrink(atvi_idx n, atvi_idx d, const double *to, double *p) {
  for (atvi_idx i = 0; i < n; i++)
    for (atvi_idx j = 0; j < d; j++) p[i * d + j] *= to[j];
}

/* The range of one input has grown: no tenth of what was added is without a point, and the slices of the
 * other are as even as ever. */
static void a_wider_axis_is_filled(void) {
  atvi_ctx *ctx = test_ctx();
  CHECK_OK(atvi_sim_design_fill(ctx, ATVI_DESIGN_LHS, 5, 2, 0, 40, x));
  shrink(40, 2, (double[]){0.25, 1}, x);
  CHECK_OK(atvi_sim_design_fill(ctx, ATVI_DESIGN_LHS, 5, 2, 40, 80, x));
  int count[10] = {0}, below[2] = {0};
  for (int i = 40; i < 80; i++) {
    CHECK(x[2 * i] > 0.2); /* where the old ones are, they are denser than all could be */
    count[(int)fmax(0, fmin(9, (x[2 * i] - 0.25) / 0.075))]++;
    below[x[2 * i + 1] < 0.5]++;
  }
  for (int k = 0; k < 10; k++) CHECK_MSG(count[k] >= 2 && count[k] <= 6, "tenth %d has %d", k, count[k]);
  CHECK(abs(below[0] - below[1]) <= 6);
  atvi_ctx_free(ctx);
}

/* The ranges of two inputs have grown: old points fill a corner, and new ones the other three parts, none of
 * which is left out. */
static void two_wider_axes_are_filled(void) {
  atvi_ctx *ctx = test_ctx();
  CHECK_OK(atvi_sim_design_fill(ctx, ATVI_DESIGN_LHS, 5, 3, 0, 40, x));
  shrink(40, 3, (double[]){0.5, 0.5, 1}, x);
  CHECK_OK(atvi_sim_design_fill(ctx, ATVI_DESIGN_LHS, 5, 3, 40, 120, x));
  int count[4] = {0};
  for (int i = 40; i < 120; i++) count[2 * (x[3 * i] < 0.5) + (x[3 * i + 1] < 0.5)]++;
  CHECK_MSG(count[0] >= 23 && count[1] >= 23 && count[2] >= 23, "%d %d %d %d", count[0], count[1], count[2],
            count[3]);
  CHECK(count[3] < 6);
  atvi_ctx_free(ctx);
}

static void wrong_calls_are_refused(void) {
  atvi_ctx *ctx = test_ctx();
  CHECK_STATUS(atvi_sim_design_fill(ctx, ATVI_DESIGN_LHS, 1, 0, 0, 3, x), ATVI_EINVAL);
  CHECK_STATUS(atvi_sim_design_fill(ctx, ATVI_DESIGN_LHS, 1, 2, 5, 3, x), ATVI_EINVAL);
  CHECK_STATUS(atvi_sim_design_fill(ctx, ATVI_DESIGN_LHS, 1, 2, -1, 3, x), ATVI_EINVAL);
  x[0] = 1.25;
  CHECK_STATUS(atvi_sim_design_fill(ctx, ATVI_DESIGN_LHS, 1, 1, 1, 3, x), ATVI_EINVAL);
  x[0] = NAN;
  CHECK_STATUS(atvi_sim_design_fill(ctx, ATVI_DESIGN_LHS, 1, 1, 1, 3, x), ATVI_EINVAL);
  for (int kind = 0; kind < 2; kind++) {
    test_fail_at = test_allocs + 1;
    CHECK_STATUS(atvi_sim_design_fill(ctx, kind, 1, 2, 0, 30, x), ATVI_ENOMEM);
  }
  test_fail_at = 0;
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

TESTS({"latin", latin_slices_have_one_point_each}, {"maximin", nearest_points_are_far_apart},
      {"seed", equal_seeds_give_equal_designs}, {"extend", extension_keeps_the_first_points},
      {"odd", odd_extension_stays_even}, {"wider", a_wider_axis_is_filled},
      {"corner", two_wider_axes_are_filled}, {"wrong", wrong_calls_are_refused})
