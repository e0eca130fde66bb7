/* SPDX-License-Identifier: MIT */
#include "math/stat/stat.h"
#include "math/rng.h"
#include "math/special.h"
#include "testing.h"

enum { N = 4000 };
static double x[N], y[N], w[N], v[N], work[2 * N];

/* Quantiles of normal(0, 1) at the middles of n equal shares: ascending. */
static void normal_grid(atvi_idx n, double *out, double mean, double sd) {
  for (atvi_idx i = 0; i < n; i++) out[i] = mean + sd * atvi_math_ndtri(((double)i + 0.5) / (double)n);
}

static void by_hand(void) {
  const double a[3] = {0.5, 1.25, 4}, b[2] = {1, 3};
  /* steps: [.5,1] 1/3, [1,1.25] |1/3-1/2|, [1.25,3] |2/3-1/2|, [3,4] 1/3 */
  CHECK_REL(atvi_math_wasserstein(3, a, NULL, 2, b, NULL), 0.5 / 3 + 0.25 / 6 + 1.75 / 6 + 1.0 / 3, 1e-15);
  CHECK_REL(atvi_math_wasserstein(2, b, NULL, 3, a, NULL), 0.5 / 3 + 0.25 / 6 + 1.75 / 6 + 1.0 / 3, 1e-15);
  const double one = 2.385;
  CHECK_REL(atvi_math_wasserstein(1, &one, NULL, 2, b, NULL), (1.385 + 0.615) / 2, 1e-15);
  const double p[2] = {3, 1}; /* mean distance of the mass to a single point */
  CHECK_REL(atvi_math_wasserstein(1, &one, NULL, 2, b, p), 0.75 * 1.385 + 0.25 * 0.615, 1e-15);
}

/* A shift by c is a distance of c; scaling by s about the mean is |s - 1| E|x - mean|, sqrt(2/pi) for a
 * normal. */
static void shifted_and_scaled(void) {
  normal_grid(N, x, 0, 1);
  normal_grid(N, y, -0.731, 1);
  CHECK_REL(atvi_math_wasserstein(N, x, NULL, N, y, NULL), 0.731, 1e-12);
  normal_grid(N, y, 0, 1.27);
  CHECK_REL(atvi_math_wasserstein(N, x, NULL, N, y, NULL), 0.27 * sqrt(2 / 3.14159265358979), 1e-3);
  CHECK(atvi_math_wasserstein(N, x, NULL, N, x, NULL) == 0);
  for (int i = 0; i < N; i++) { /* uniform on [0, 1] and on [0, 2.385]; other sizes */
    x[i] = (i + 0.5) / N;
    y[i] = 2.385 * (i + 0.5) / (N / 2);
  }
  CHECK_REL(atvi_math_wasserstein(N, x, NULL, N / 2, y, NULL), 1.385 / 2, 1e-6);
}

static void weights_are_repetitions(void) {
  atvi_rng r = atvi_math_rng_at(4711, ATVI_STREAM_TEST, 31, 0);
  enum { M = 300 };
  double short_x[M];
  atvi_idx n = 0;
  for (int i = 0; i < M; i++) {
    short_x[i] = atvi_math_rng_normal(&r);
    w[i] = (double)(i * 7 % 5); /* some have none */
  }
  atvi_math_sort(M, short_x, NULL, work);
  for (int i = 0; i < M; i++)
    for (int k = 0; k < (int)w[i]; k++) x[n++] = short_x[i];
  for (int i = 0; i < M; i++) v[i] = 0.0317 * w[i];
  CHECK_ABS(atvi_math_wasserstein(M, short_x, v, n, x, NULL), 0, 1e-12);
  for (int i = 0; i < M; i++) y[i] = short_x[i] * 1.3 + 0.2;
  CHECK_REL(atvi_math_wasserstein(M, short_x, v, M, y, NULL), atvi_math_wasserstein(n, x, NULL, M, y, NULL),
            1e-12);
  CHECK_REL(atvi_math_cdf_spread(M, short_x, v), atvi_math_cdf_spread(n, x, NULL), 1e-12);
}

static void senseless_gives_nan(void) {
  const double a[3] = {1, 2, 3}, none[3] = {0}, inf[3] = {1, 2, HUGE_VAL}, nan[3] = {1, 2, NAN};
  CHECK(isnan(atvi_math_wasserstein(0, a, NULL, 3, a, NULL)) &&
        isnan(atvi_math_wasserstein(3, a, NULL, 0, a, NULL)));
  CHECK(isnan(atvi_math_wasserstein(3, a, none, 3, a, NULL)) &&
        isnan(atvi_math_wasserstein(3, a, NULL, 3, a, none)));
  CHECK(isnan(atvi_math_wasserstein(3, a, NULL, 3, inf, NULL)) &&
        isnan(atvi_math_wasserstein(3, nan, NULL, 3, a, NULL)));
  CHECK(isnan(atvi_math_cdf_spread(0, a, NULL)) && isnan(atvi_math_cdf_spread(3, a, none)));
  CHECK(isnan(atvi_math_cdf_spread(3, inf, NULL)));
}

/* Uniform: integral of sqrt(u (1 - u)) = pi / 8. And the distance by chance is what it says. */
static void spread_tells_the_distance_by_chance(void) {
  for (int i = 0; i < N; i++) x[i] = 2.385 * (i + 0.5) / N;
  double spread = atvi_math_cdf_spread(N, x, NULL);
  CHECK_REL(spread, 2.385 * 3.14159265358979 / 8, 1e-3);
  atvi_rng r = atvi_math_rng_at(4711, ATVI_STREAM_TEST, 32, 0);
  enum { A = 500, B = 800, TIMES = 400 };
  double sum = 0;
  for (int k = 0; k < TIMES; k++) {
    for (int i = 0; i < A; i++) x[i] = 2.385 * atvi_math_rng_uniform(&r);
    for (int i = 0; i < B; i++) y[i] = 2.385 * atvi_math_rng_uniform(&r);
    atvi_math_sort(A, x, NULL, work);
    atvi_math_sort(B, y, NULL, work);
    sum += atvi_math_wasserstein(A, x, NULL, B, y, NULL) / TIMES;
  }
  /* one distance scatters by 43 % (integral of |Brownian bridge|): the mean of 400 by 2.2 % */
  CHECK_REL(sum, spread * sqrt(2 / 3.14159265358979 * (1.0 / A + 1.0 / B)), 0.08);
}

TESTS({"by_hand", by_hand}, {"closed_forms", shifted_and_scaled}, {"weights", weights_are_repetitions},
      {"nan", senseless_gives_nan}, {"spread", spread_tells_the_distance_by_chance})
