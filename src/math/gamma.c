/* SPDX-License-Identifier: MIT */
/* Gamma function and its logarithmic derivatives.
 *
 * Everything asymptotic uses Stirling's series in 1/x^2 for x >= ASYM, reached by recurrence:
 *   lgamma(x) = (x - 1/2) log x - x + log sqrt(2 pi) + S(x),  S(x) = sum_j c_j x^(1-2j).
 * Differences lgamma(nu + k) - lgamma(nu) are formed term by term, each with log1p or expm1, so that
 * they keep their relative accuracy when nu is large and k is not. */
#define _DEFAULT_SOURCE /* lgamma_r: lgamma writes the global signgam */
#include "math/detail.h"
#include "math/special.h"
#include <math.h>

#define ASYM 10.0 /* the first neglected term of each series is below 1e-16 there */
enum { TERMS = 8, SMALL_COUNT = 64 };

/* B_2j / (2j (2j - 1)) and B_2j / (2j), j = 1 .. TERMS */
static const double stirling_c[TERMS] = {1.0 / 12,   -1.0 / 360,      1.0 / 1260, -1.0 / 1680,
                                         1.0 / 1188, -691.0 / 360360, 1.0 / 156,  -3617.0 / 122400};
static const double digamma_c[TERMS] = {1.0 / 12,  -1.0 / 120,     1.0 / 252, -1.0 / 240,
                                        1.0 / 132, -691.0 / 32760, 1.0 / 12,  -3617.0 / 8160};

double atvi_log1pmx(double u) {
  if (fabs(u) > 0.5) return log1p(u) - u;
  /* log(1 + u) = 2 atanh(r), r = u / (2 + u), and 2 r - u = -r u. */
  double r = u / (2.0 + u), r2 = r * r, s = 0;
  for (int k = 17; k >= 1; k--) s = s * r2 + 1.0 / (2 * k + 1);
  return r * (2.0 * r2 * s - u);
}

static double series(const double *c, double t) {
  double s = 0;
  for (int j = TERMS - 1; j >= 0; j--) s = s * t + c[j];
  return s;
}

double atvi_stirling(double x) {
  if (x >= ASYM) return series(stirling_c, 1.0 / (x * x)) / x;
  return atvi_lgamma(x) - ((x - 0.5) * log(x) - x + ATVI_LN_SQRT_2PI);
}

double atvi_lgamma(double x) {
  int sign;
  if (!(x >= 0)) return NAN;
  if (x == 0) return HUGE_VAL;
  return lgamma_r(x, &sign);
}

double atvi_digamma(double x) {
  double s = 0;
  if (!(x > 0)) return NAN;
  for (; x < ASYM; x++) s -= 1.0 / x;
  double t = 1.0 / (x * x);
  return s + (log(x) - 0.5 / x - t * series(digamma_c, t));
}

double atvi_trigamma(double x) {
  double s = 0, b = 0;
  if (!(x > 0)) return NAN;
  for (; x < 2 * ASYM; x++) s += 1.0 / (x * x);
  double t = 1.0 / (x * x);
  for (int j = TERMS - 1; j >= 0; j--) b = b * t + 2 * (j + 1) * digamma_c[j];
  return s + 1.0 / x + 0.5 * t + t / x * b;
}

/* sum_j c_j (nu + k)^-p_j - c_j nu^-p_j with p_j = p, p + 2, ...; l = log1p(k / nu). */
static double series_diff(const double *c, int p, double nu, double l) {
  double s = 0, t = 1.0 / (nu * nu), pow_nu = p == 1 ? 1.0 / nu : t;
  for (int j = 0; j < TERMS; j++, pow_nu *= t) s += c[j] * pow_nu * expm1(-(p + 2 * j) * l);
  return s;
}

/* log of nu (nu + 1) ... (nu + k - 1), for few factors of moderate size */
static double log_product(double nu, int k) {
  double s = 0, prod = 1;
  for (int i = 0; i < k; i++) {
    prod *= nu + i;
    if (prod > 1e100 || prod < 1e-100) {
      s += log(prod);
      prod = 1;
    }
  }
  return s + log(prod);
}

double atvi_lrise(double nu, double k) {
  if (!(nu > 0) || !(k >= 0)) return NAN;
  if (k == 0) return 0;
  if (isinf(k) || isinf(nu)) return HUGE_VAL;
  if (k <= SMALL_COUNT && k == floor(k) && nu < 1e100) return log_product(nu, (int)k);
  double s = 0;
  for (; nu < ASYM; nu++) s -= k < 1e10 * nu ? log1p(k / nu) : log(nu + k) - log(nu);
  double l = log1p(k / nu);
  /* k log nu + k + ... would be as exact, but nu log1p(k/nu) - k tends to -k^2/(2 nu) as it should. */
  double lead = k * log(nu + k) + (nu * l - k) - 0.5 * l;
  double rest = l < 1.0 ? series_diff(stirling_c, 1, nu, l) : atvi_stirling(nu + k) - atvi_stirling(nu);
  return s + (lead + rest);
}

double atvi_lrise_dnu(double nu, double k) {
  double s = 0;
  if (!(nu > 0) || !(k >= 0)) return NAN;
  if (k == 0 || isinf(nu)) return 0;
  if (k <= SMALL_COUNT && k == floor(k)) {
    for (int i = 0; i < (int)k; i++) s += 1.0 / (nu + i);
    return s;
  }
  for (; nu < ASYM; nu++) s += 1.0 / (nu * (1.0 + nu / k));
  double l = log1p(k / nu), half = 0.5 / (nu * (1.0 + nu / k)); /* 1/(2 nu) - 1/(2 (nu + k)) */
  return s + (l + half - series_diff(digamma_c, 2, nu, l));
}

double atvi_lbeta(double a, double b) {
  if (!(a >= 0) || !(b >= 0)) return NAN;
  double lo = fmin(a, b), hi = fmax(a, b);
  if (lo == 0) return HUGE_VAL;
  if (isinf(hi)) return -HUGE_VAL;
  if (lo < ASYM) return atvi_lgamma(lo) - atvi_lrise(hi, lo);
  double x = lo / hi, lead = -(lo - 0.5) * log1p(hi / lo) - hi * log1p(x) - 0.5 * log(hi);
  return lead + ATVI_LN_SQRT_2PI + (atvi_stirling(lo) + atvi_stirling(hi) - atvi_stirling(lo + hi));
}

double atvi_log_pois(double a, double x) {
  if (a < ASYM) return a * log(x) - x - atvi_lgamma(a + 1.0);
  return a * atvi_log1pmx((x - a) / a) - 0.5 * log(a) - ATVI_LN_SQRT_2PI - atvi_stirling(a);
}

double atvi_log_binom(double a, double b, double x, double y) {
  double n = a + b;
  if (fmin(a, b) < ASYM) {
    double lx = x < 0.5 ? log(x) : log1p(-y), ly = y < 0.5 ? log(y) : log1p(-x);
    double lo = fmin(a, b), hi = fmax(a, b);
    double v = atvi_lrise(hi + 1.0, lo) - atvi_lgamma(lo + 1.0);
    return v + (a > 0 ? a * lx : 0) + (b > 0 ? b * ly : 0);
  }
  double d = x * b - y * a; /* n (x - a/n) */
  double lead = a * atvi_log1pmx(d / a) + b * atvi_log1pmx(-d / b);
  double s = atvi_stirling(n) - atvi_stirling(a) - atvi_stirling(b);
  return lead + s - 0.5 * (log(a) + log(b / n)) - ATVI_LN_SQRT_2PI;
}
