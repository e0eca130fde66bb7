/* SPDX-License-Identifier: MIT */
#include "math/rng.h"
#include "math/stat/stat.h"
#include "testing.h"

enum { N = 120, K = 20 };

static void draw(uint32_t set, atvi_idx *count) {
  atvi_rng rng = atvi_math_rng_at(977, ATVI_STREAM_TEST, set, 0);
  for (int i = 0; i < K; i++) count[i] = 0;
  for (int j = 0; j < N; j++) count[(int)(atvi_math_rng_uniform(&rng) * K)]++;
}

static bool inside(const atvi_idx *count, const double *low, const double *high) {
  atvi_idx below = 0;
  for (int i = 0; i < K - 1; i++) {
    below += count[i];
    double f = (double)below / N;
    if (f < low[i] - 1e-12 || f > high[i] + 1e-12) return false;
  }
  return true;
}

/* One rank, two values: C ~ Binomial(1, 1/2) has the tails 1 at both values, so every p-value is 1 and the
 * band is everything. */
static void smallest_case(void) {
  atvi_ctx *ctx = test_ctx();
  atvi_ecdf *e;
  CHECK_OK(atvi_math_ecdf_new(ctx, 1, 2, 100, 3, &e));
  const atvi_idx count[2] = {0, 1};
  double low, high;
  CHECK_ABS(atvi_math_ecdf_p(e, count), 1, 1e-12);
  atvi_math_ecdf_band(e, 0.05, &low, &high);
  CHECK_ABS(low, 0, 0);
  CHECK_ABS(high, 1, 0);
  atvi_math_ecdf_free(e);
  atvi_ctx_free(ctx);
}

/* Of 6 ranks of two values C ~ Binomial(6, 1/2). g = 2/64 if all are alike, so P(g <= 2/64) = 2/64; then
 * 14/64. */
static void exact_p_of_two_values(void) {
  atvi_ctx *ctx = test_ctx();
  atvi_ecdf *e;
  enum { SIMS = 40000 };
  CHECK_OK(atvi_math_ecdf_new(ctx, 6, 2, SIMS, 5, &e));
  const atvi_idx all[2] = {6, 0}, most[2] = {1, 5}, even[2] = {3, 3};
  double p = 2. / 64, q = 14. / 64;
  CHECK_ABS(atvi_math_ecdf_p(e, all), p, 5 * sqrt(p * (1 - p) / SIMS));
  CHECK_ABS(atvi_math_ecdf_p(e, most), q, 5 * sqrt(q * (1 - q) / SIMS));
  CHECK_ABS(atvi_math_ecdf_p(e, even), 1, 1e-12);
  double low, high;
  atvi_math_ecdf_band(e, 0.01, &low, &high); /* less than 2/64: nothing is outside */
  CHECK_ABS(low, 0, 0);
  CHECK_ABS(high, 1, 0);
  atvi_math_ecdf_band(
      e, 0.05, &low,
      &high); /* all alike is inside: without it 1/32 < 5 % would be lost, with the next 22 % */
  CHECK(low >= 0 && low <= 1. / 6 + 1e-12);
  CHECK_ABS(low + high, 1, 1e-12);
  atvi_math_ecdf_free(e);
  atvi_ctx_free(ctx);
}

/* Fresh uniform ranks leave the band, and have p-values below alpha, in a share alpha of cases or less (tails
 * are discrete). */
static void band_holds_as_often_as_promised(void) {
  atvi_ctx *ctx = test_ctx();
  atvi_ecdf *e;
  CHECK_OK(atvi_math_ecdf_new(ctx, N, K, 20000, 11, &e));
  enum { SETS = 20000 };
  const double alpha[2] = {0.05, 0.01};
  for (int a = 0; a < 2; a++) {
    double low[K - 1], high[K - 1];
    atvi_idx count[K], out = 0, small = 0;
    atvi_math_ecdf_band(e, alpha[a], low, high);
    for (uint32_t s = 0; s < SETS; s++) {
      draw(s, count);
      out += !inside(count, low, high);
      small += atvi_math_ecdf_p(e, count) <= alpha[a];
    }
    /* both have Monte Carlo error: twice the variance */
    double error = 5 * sqrt(2 * alpha[a] * (1 - alpha[a]) / SETS);
    CHECK((double)out / SETS <= alpha[a] + error);
    CHECK((double)out / SETS >= 0.8 * alpha[a] - error);
    CHECK((double)small / SETS <= alpha[a] + error);
  }
  atvi_math_ecdf_free(e);
  atvi_ctx_free(ctx);
}

static void sees_what_is_not_uniform(void) {
  atvi_ctx *ctx = test_ctx();
  atvi_ecdf *e;
  CHECK_OK(atvi_math_ecdf_new(ctx, N, K, 0, 11, &e));
  atvi_idx ends[K] = {0}, even[K];
  ends[0] = ends[K - 1] = N / 2;
  for (int i = 0; i < K; i++) even[i] = N / K;
  CHECK(atvi_math_ecdf_p(e, ends) < 1e-3 && atvi_math_ecdf_p(e, ends) > 0);
  CHECK(atvi_math_ecdf_p(e, even) > 0.99);
  atvi_math_ecdf_free(e);
  atvi_ctx_free(ctx);
}

/* What is further out than anything simulated is bounded: all of 120 ranks 0 have the tail 2 * 20^-120 at the
 * first value, and 19 of it in all. */
static void beyond_what_was_simulated(void) {
  atvi_ctx *ctx = test_ctx();
  atvi_ecdf *e;
  CHECK_OK(atvi_math_ecdf_new(ctx, N, K, 100, 11, &e));
  atvi_idx all[K] = {N};
  CHECK_REL(atvi_math_ecdf_p(e, all), 19 * 2 * pow(K, -N), 1e-9);
  atvi_math_ecdf_free(e);
  CHECK_INT(atvi_math_ecdf_sims(200, 1), 50000);
  CHECK_INT(atvi_math_ecdf_sims(200, 1e-4), 100000); /* ten beyond the level */
  CHECK_INT(atvi_math_ecdf_sims(200, 1e-9), 1000000);
  CHECK_INT(atvi_math_ecdf_sims(1000000, 1e-9), 4000);
  atvi_ctx_free(ctx);
}

static void wrong_calls_and_no_memory(void) {
  atvi_ctx *ctx = test_ctx();
  atvi_ecdf *e;
  CHECK_STATUS(atvi_math_ecdf_new(ctx, 0, 20, 0, 1, &e), ATVI_EINVAL);
  CHECK(!e);
  CHECK_STATUS(atvi_math_ecdf_new(ctx, 10, 1, 0, 1, &e), ATVI_EINVAL);
  CHECK_STATUS(atvi_math_ecdf_new(ctx, 10, 20, 99, 1, &e), ATVI_EINVAL);
  CHECK_STATUS(atvi_math_ecdf_new(ctx, 10, 20, -1, 1, &e), ATVI_EINVAL);
  CHECK_STATUS(atvi_math_ecdf_new(ctx, 1 << 20, 1 << 10, 0, 1, &e), ATVI_EINVAL);
  test_fail_at = test_allocs + 1;
  CHECK_STATUS(atvi_math_ecdf_new(ctx, 10, 20, 100, 1, &e), ATVI_ENOMEM);
  CHECK(!e);
  test_fail_at = 0;
  atvi_math_ecdf_free(NULL);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

TESTS({"smallest_case", smallest_case}, {"exact_p_of_two_values", exact_p_of_two_values},
      {"band_holds_as_often_as_promised", band_holds_as_often_as_promised},
      {"sees_what_is_not_uniform", sees_what_is_not_uniform},
      {"beyond_what_was_simulated", beyond_what_was_simulated},
      {"wrong_calls_and_no_memory", wrong_calls_and_no_memory})
