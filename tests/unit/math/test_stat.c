/* SPDX-License-Identifier: MIT */
#include "math/stat/stat.h"
#include "math/rng.h"
#include "math/special.h"
#include "oracle.h"
#include "testing.h"

static double phi(double x) { return 0.5 * erfc(-x * sqrt(0.5)); }

static double *room(size_t n) {
  double *p = malloc(n * sizeof *p);
  CHECK(p != NULL);
  return p;
}

/* Small chains with ties and an odd length, against direct sums in 100 digits. */
static void convergence_matches_direct_sums(void) {
  const double *x = oracle_chains[0], *want = oracle_convergence[0];
  double *work = room(atvi_math_stat_work(3, 41));
  atvi_convergence c = atvi_math_converge(3, 41, x, work);
  CHECK_REL(c.rhat, want[0], 1e-13);
  CHECK_REL(c.ess_bulk, want[1], 1e-12);
  CHECK_REL(c.ess_tail, want[2], 1e-12);
  CHECK_REL(c.ess_mean, want[3], 1e-12);
  free(work);
}

/* AR(1): x_t = rho x_(t-1) + e. ESS of the mean is N (1 - rho) / (1 + rho). */
static void fill_ar(double *x, atvi_idx m, atvi_idx n, double rho, double shift) {
  atvi_rng r = atvi_math_rng_at(4711, ATVI_STREAM_TEST, (uint32_t)(int32_t)(1000 * rho), 0);
  for (atvi_idx c = 0; c < m; c++) {
    double v = atvi_math_rng_normal(&r) / sqrt(1 - rho * rho);
    for (atvi_idx i = 0; i < n; i++) {
      v = rho * v + atvi_math_rng_normal(&r);
      x[c * n + i] = v + shift * (double)c;
    }
  }
}

static void ess_of_autoregression(void) {
  enum { M = 4, N = 20000 };
  double *x = room(M * N), *work = room(atvi_math_stat_work(M, N));
  for (double rho = -0.5; rho < 0.96; rho += 0.35) {
    fill_ar(x, M, N, rho, 0);
    double exact = M * N * (1 - rho) / (1 + rho);
    /* the estimate's own scatter is a few per cent here */
    atvi_convergence c = atvi_math_converge(M, N, x, work);
    CHECK_REL(c.ess_mean, exact, 0.1);
    CHECK_REL(c.ess_bulk, exact, 0.1);
    CHECK(c.rhat < 1.01);
    double tail = c.ess_tail; /* indicators are less correlated than the draws */
    CHECK(tail > (rho > 0 ? 0.9 * exact : 0.5 * M * N) && tail < 1.2 * M * N);
  }
  free(x);
  free(work);
}

static void rhat_sees_what_it_should(void) {
  enum { M = 4, N = 1000 };
  double *x = room(M * N), *work = room(atvi_math_stat_work(M, N));
  fill_ar(x, M, N, 0.3, 0.5); /* different means */
  CHECK(atvi_math_converge(M, N, x, work).rhat > 1.05);
  fill_ar(x, M, N, 0.3, 0);
  for (int i = 0; i < N; i++) x[i] *= 3; /* one chain wider: only folding sees it */
  CHECK(atvi_math_converge(M, N, x, work).rhat > 1.05);
  fill_ar(x, 1, N, 0.3, 0);
  for (int i = 0; i < N; i++) x[i] += 0.003 * i; /* one drifting chain: splitting sees it */
  CHECK(atvi_math_converge(1, N, x, work).rhat > 1.3);
  /* a chain so slow that the autocovariance never ends within the first padding */
  for (int i = 0; i < M * N; i++) x[i] = sin(0.004 * (i % N)) + 1e-3 * cos(17.0 * i);
  double ess = atvi_math_converge(M, N, x, work).ess_bulk;
  CHECK(ess > 1 && ess < 20);
  free(x);
  free(work);
}

static void senseless_chains_give_nan(void) {
  double x[40], *work = room(atvi_math_stat_work(4, 10) + atvi_math_stat_work(13, 4));
  for (int i = 0; i < 40; i++) x[i] = 2.385;
  atvi_convergence c = atvi_math_converge(4, 10, x, work);
  CHECK(isnan(c.rhat) && isnan(c.ess_bulk) && isnan(c.ess_tail) && isnan(c.ess_mean));
  for (int i = 0; i < 40; i++) x[i] = sin(3.0 * i);
  c = atvi_math_converge(4, 10, x, work);
  CHECK(isfinite(c.ess_mean) && isfinite(c.rhat));
  c = atvi_math_converge(13, 3, x, work);
  CHECK(isnan(c.rhat) && isnan(c.ess_bulk) && isnan(c.ess_tail) && isnan(c.ess_mean));
  CHECK(isfinite(atvi_math_converge(10, 4, x, work).rhat));
  x[17] = NAN;
  c = atvi_math_converge(4, 10, x, work);
  CHECK(isnan(c.rhat) && isnan(c.ess_mean));
  x[17] = HUGE_VAL;
  CHECK(isnan(atvi_math_converge(4, 10, x, work).ess_bulk));
  free(work);
}

static void sorts_and_carries(void) {
  static const int sizes[] = {0, 1, 2, 199, 200, 201, 5000};
  double x[5000], w[5000], copy[5000], work[10000];
  for (int s = 0; s < 7; s++) {
    int n = sizes[s];
    atvi_rng r = atvi_math_rng_at(8, ATVI_STREAM_TEST, (uint32_t)n, 0);
    for (int i = 0; i < n; i++) {
      x[i] = floor(300 * atvi_math_rng_normal(&r)) * exp2(i % 40 - 20.0);
      copy[i] = x[i];
      w[i] = i;
    }
    atvi_math_sort(n, x, w, work);
    for (int i = 0; i < n; i++) {
      CHECK(x[i] == copy[(int)w[i]]);
      if (i > 0) CHECK(x[i] >= x[i - 1]);
    }
    if (s % 2)
      qsort(copy, (size_t)n, sizeof *copy, atvi_math_by_value);
    else
      atvi_math_sort(n, copy, NULL, work);
    CHECK(memcmp(copy, x, (size_t)n * sizeof *x) == 0);
  }
}

static void moments_and_quantiles(void) {
  const double x[5] = {-1.27, 0.483, 0.91, 2.385, 7.6}, twice[5] = {1, 2, 1, 1, 2};
  const double longer[7] = {-1.27, 0.483, 0.483, 0.91, 2.385, 7.6, 7.6}, equal[5] = {0.2, 0.2, 0.2, 0.2, 0.2};
  CHECK_REL(atvi_math_mean(5, x, NULL), 2.0216, 1e-15);
  CHECK_REL(atvi_math_mean(5, x, twice), atvi_math_mean(7, longer, NULL), 1e-15);
  CHECK_REL(atvi_math_sd(5, x, equal), atvi_math_sd(5, x, NULL), 1e-14);
  double ss = 0;
  for (int i = 0; i < 5; i++) ss += (x[i] - 2.0216) * (x[i] - 2.0216);
  CHECK_REL(atvi_math_sd(5, x, NULL), sqrt(ss / 4), 1e-14);
  CHECK(atvi_math_quantile(5, x, NULL, 0) == -1.27 && atvi_math_quantile(5, x, NULL, 1) == 7.6);
  CHECK(atvi_math_quantile(5, x, NULL, 0.5) == 0.91 && atvi_math_quantile(1, x, NULL, 0.3) == -1.27);
  CHECK_REL(atvi_math_quantile(5, x, NULL, 0.9), 2.385 + 0.6 * (7.6 - 2.385), 1e-14); /* type 7 */
  for (double p = 0; p <= 1; p += 0.083)
    CHECK_ABS(atvi_math_quantile(5, x, equal, p), atvi_math_quantile(5, x, NULL, p), 1e-13);
  CHECK(isnan(atvi_math_quantile(0, x, NULL, 0.5)) && isnan(atvi_math_quantile(5, x, NULL, 1.5)) &&
        isnan(atvi_math_mean(0, x, NULL)));
  CHECK(isnan(atvi_math_sd(1, x, NULL)));
  double tiny[5], huge[5]; /* whose squares are 0, and infinite */
  for (int i = 0; i < 5; i++) tiny[i] = 1e-300 * x[i], huge[i] = 1e300 * x[i];
  CHECK_REL(atvi_math_sd(5, tiny, NULL), 1e-300 * atvi_math_sd(5, x, NULL), 1e-13);
  CHECK_REL(atvi_math_sd(5, huge, equal), 1e300 * atvi_math_sd(5, x, NULL), 1e-13);
}

/* Draws at the quantiles of a distribution stand for it without noise. */
static void normal_grid(double *x, int n, double mean, double sd) {
  for (int i = 0; i < n; i++) x[i] = mean + sd * atvi_math_ndtri((i + 0.5) / n);
}

/* 1.5, 30, 64 and 4.5 % of 0 to 3: [0, 2] and [1, 3] are equally short and both enough, and the second holds
 * more. */
static void densest_of_shortest(void) {
  enum { N = 1000 };
  const int count[4] = {15, 300, 640, 45};
  double x[N], w[4] = {0.015, 0.3, 0.64, 0.045}, value[4] = {0, 1, 2, 3}, out[2];
  for (int k = 0, at = 0; k < 4; k++)
    for (int i = 0; i < count[k]; i++) x[at++] = k;
  atvi_math_hpd(N, x, NULL, 0.95, out);
  CHECK(out[0] == 1 && out[1] == 3);
  atvi_math_hpd(4, value, w, 0.95, out);
  CHECK(out[0] == 1 && out[1] == 3);
  atvi_math_hpd(N, x, NULL, 0.93, out);
  CHECK(out[0] == 1 && out[1] == 2);
}

static void shortest_interval(void) {
  enum { N = 20000 };
  static double x[N], w[N];
  double out[2];
  normal_grid(x, N, 1.3, 0.7);
  atvi_math_hpd(N, x, NULL, 0.95, out);
  CHECK_ABS(out[0], 1.3 - 0.7 * 1.959964, 0.02); /* flat near the optimum: sqrt(grid) matters */
  CHECK_ABS(out[1] - out[0], 2 * 0.7 * 1.959964, 1e-3);
  for (int i = 0; i < N; i++) x[i] = -log1p(-(i + 0.5) / N); /* exponential: starts at 0 */
  atvi_math_hpd(N, x, NULL, 0.95, out);
  CHECK_ABS(out[0], 0, 1e-4);
  CHECK_ABS(out[1], log(20), 2e-3);
  for (int i = 0; i < N; i++) { /* uniform draws weighted to the same exponential */
    x[i] = 12.0 * (i + 0.5) / N;
    w[i] = exp(-x[i]);
  }
  atvi_math_hpd(N, x, w, 0.95, out);
  CHECK_ABS(out[0], 0, 1e-3);
  CHECK_ABS(out[1], log(20), 3e-3);
  atvi_math_hpd(N, x, NULL, 1.0, out);
  CHECK(out[0] == x[0] && out[1] == x[N - 1]);
  atvi_math_hpd(0, x, NULL, 0.95, out);
  CHECK(isnan(out[0]) && isnan(out[1]));
}

enum { MODE_N = 20000 };
static double mode_x[MODE_N], mode_w[MODE_N], mode_work[MODE_N + 4 * 1024];

static double mode_of(double lower, double upper) {
  atvi_math_sort(MODE_N, mode_x, NULL, mode_w);
  return atvi_math_mode(MODE_N, mode_x, NULL, lower, upper, mode_work);
}

/* The mode of a density estimate from N draws scatters by about 0.07 sd at N = 20000. */
static void modes_inside(void) {
  atvi_rng r = atvi_math_rng_at(3, ATVI_STREAM_TEST, 1, 0);
  for (int i = 0; i < MODE_N; i++) mode_x[i] = 1000 + 0.01 * atvi_math_rng_normal(&r);
  CHECK_ABS(mode_of(-HUGE_VAL, HUGE_VAL), 1000, 0.0015);
  for (int i = 0; i < MODE_N; i++) mode_x[i] = atvi_math_rng_gamma(&r, 3.7);
  CHECK_ABS(mode_of(0, HUGE_VAL), 2.7, 0.2);
  for (int i = 0; i < MODE_N; i++) mode_x[i] = 5 + atvi_math_rng_student(&r, 1); /* Cauchy */
  CHECK_ABS(mode_of(-HUGE_VAL, HUGE_VAL), 5, 0.15);
  for (int i = 0; i < MODE_N; i++) /* a sharp peak next to a broad one of twice the weight */
    mode_x[i] = i % 3 ? 3 * atvi_math_rng_normal(&r) : 8 + 0.1 * atvi_math_rng_normal(&r);
  CHECK_ABS(mode_of(-HUGE_VAL, HUGE_VAL), 8, 0.04);
}

static void modes_at_bounds(void) {
  atvi_rng r = atvi_math_rng_at(3, ATVI_STREAM_TEST, 2, 0);
  for (int i = 0; i < MODE_N; i++) mode_x[i] = 2 + 0.3 * atvi_math_rng_exponential(&r);
  CHECK_ABS(mode_of(2, HUGE_VAL), 2, 0.3 * 0.08); /* on [2, inf) */
  for (int i = 0; i < MODE_N; i++) mode_x[i] = -mode_x[i];
  CHECK_ABS(mode_of(-HUGE_VAL, -2), -2, 0.3 * 0.08);
  for (int i = 0; i < MODE_N; i++) /* normal(1.4, 1) cut to [0, 1] rises up to the bound */
    mode_x[i] = 1.4 + atvi_math_ndtri(phi(-1.4) + atvi_math_rng_uniform(&r) * (phi(-0.4) - phi(-1.4)));
  CHECK_ABS(mode_of(0, 1), 1, 0.12);
  for (int i = 0; i < MODE_N; i++) mode_x[i] = fabs(atvi_math_rng_normal(&r));
  CHECK_ABS(mode_of(0, HUGE_VAL), 0, 0.15);
}

static void modes_of_weighted_repeated_and_constant_draws(void) {
  for (int i = 0; i < MODE_N; i++) { /* uniform points weighted to normal(0.7, 0.2) */
    mode_x[i] = 2.0 * (i + 0.5) / MODE_N;
    mode_w[i] = exp(-0.5 * pow((mode_x[i] - 0.7) / 0.2, 2));
  }
  CHECK_ABS(atvi_math_mode(MODE_N, mode_x, mode_w, 0, 2, mode_work), 0.7, 0.01);
  atvi_rng r = atvi_math_rng_at(3, ATVI_STREAM_TEST, 3, 0);
  for (int i = 0; i < MODE_N;
       i++) /* every value 40 times: 500 distinct ones, a smooth density all the same */
    mode_x[i] = i % 40 ? mode_x[i - 1] : atvi_math_rng_normal(&r);
  CHECK_ABS(mode_of(-HUGE_VAL, HUGE_VAL), 0, 0.4);
  for (int i = 0; i < MODE_N; i++) mode_x[i] = 2.385;
  CHECK(atvi_math_mode(MODE_N, mode_x, NULL, 0, 10, mode_work) == 2.385);
  CHECK(atvi_math_mode(1, mode_x, NULL, 0, 10, mode_work) == 2.385);
  CHECK(isnan(atvi_math_mode(0, mode_x, NULL, 0, 10, mode_work)));
  double few[3] = {0.2, 0.5, 0.55};
  double mode = atvi_math_mode(3, few, NULL, 0, 1, mode_work);
  CHECK(mode >= 0.2 && mode <= 0.6);
}

TESTS({"direct", convergence_matches_direct_sums}, {"ar", ess_of_autoregression},
      {"rhat", rhat_sees_what_it_should}, {"nan", senseless_chains_give_nan}, {"sort", sorts_and_carries},
      {"quantiles", moments_and_quantiles}, {"hpd", shortest_interval},
      {"hpd of counts", densest_of_shortest}, {"mode", modes_inside}, {"mode_bound", modes_at_bounds},
      {"mode_weighted", modes_of_weighted_repeated_and_constant_draws})
