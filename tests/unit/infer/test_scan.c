/* SPDX-License-Identifier: MIT */
#include "infer/scan.h"
#include "testing.h"
#include <math.h>

static double two(double y) { return log(0.7 * exp(-0.5 * y * y) + 0.3 * exp(-0.5 * (y - 12) * (y - 12))); }
static double tailed(double y) { return -1.5 * log1p(y * y / 2); }

static atvi_scan look(double (*f)(double)) {
  atvi_scan s = {0};
  double y[ATVI_SCAN_FIRST], v[ATVI_SCAN_FIRST];
  for (int round = 0; round < 3; round++) {
    atvi_idx n = round ? ATVI_SCAN_MORE : ATVI_SCAN_FIRST;
    if (round)
      atvi_infer_scan_next(&s, y);
    else
      atvi_infer_scan_places(y);
    for (atvi_idx i = 0; i < n; i++) v[i] = f(y[i]);
    atvi_infer_scan_add(&s, n, y, v);
  }
  CHECK(atvi_infer_scan_close(&s));
  return s;
}

/* The mean of f / q at quantiles is the integral of f, whatever q is, and ratios vary little. */
static void check(double (*f)(double), double integral, double most) {
  atvi_scan s = look(f);
  enum { N = 20000 };
  double sum = 0, square = 0, before = -HUGE_VAL;
  for (int k = 0; k < N; k++) {
    double q, y = atvi_infer_scan_quantile(&s, (k + 0.5) / N, &q), r = exp(f(y) - q);
    CHECK(y > before);
    before = y;
    sum += r / N;
    square += r * r / N;
  }
  CHECK_ABS(sum, integral, 2e-3 * integral);
  CHECK(square / (sum * sum) < 1 + most);
}

static void two_maxima(void) { check(two, sqrt(2 * acos(-1.0)), 0.2); }
static void long_tails(void) { check(tailed, 2 * sqrt(2.0), 0.05); }

static void nothing(void) {
  atvi_scan s = {0};
  double y[ATVI_SCAN_FIRST], f[ATVI_SCAN_FIRST];
  atvi_infer_scan_places(y);
  for (int i = 0; i < ATVI_SCAN_FIRST; i++) f[i] = i % 2 ? NAN : -HUGE_VAL;
  atvi_infer_scan_add(&s, ATVI_SCAN_FIRST, y, f);
  CHECK(!atvi_infer_scan_close(&s));
}

TESTS({"two_maxima", two_maxima}, {"long_tails", long_tails}, {"nothing", nothing})
