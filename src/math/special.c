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

double atvi_math_log1pmx(double u) {
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

double atvi_math_stirling(double x) {
  if (x >= ASYM) return series(stirling_c, 1.0 / (x * x)) / x;
  return atvi_math_lgamma(x) - ((x - 0.5) * log(x) - x + ATVI_LN_SQRT_2PI);
}

double atvi_math_lgamma(double x) {
  int sign;
  if (!(x >= 0)) return NAN;
  if (x == 0) return HUGE_VAL;
  return lgamma_r(x, &sign);
}

double atvi_math_digamma(double x) {
  double s = 0;
  if (!(x > 0)) return NAN;
  for (; x < ASYM; x++) s -= 1.0 / x;
  double t = 1.0 / (x * x);
  return s + (log(x) - 0.5 / x - t * series(digamma_c, t));
}

double atvi_math_trigamma(double x) {
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

double atvi_math_lrise(double nu, double k) {
  if (!(nu > 0) || !(k >= 0)) return NAN;
  if (k == 0) return 0;
  if (isinf(k) || isinf(nu)) return HUGE_VAL;
  if (k <= SMALL_COUNT && k == floor(k) && nu < 1e100) return log_product(nu, (int)k);
  double s = 0;
  for (; nu < ASYM; nu++) s -= k < 1e10 * nu ? log1p(k / nu) : log(nu + k) - log(nu);
  double l = log1p(k / nu);
  /* k log nu + k + ... would be as exact, but nu log1p(k/nu) - k tends to -k^2/(2 nu) as it should. */
  double lead = k * log(nu + k) + (nu * l - k) - 0.5 * l;
  double rest =
      l < 1.0 ? series_diff(stirling_c, 1, nu, l) : atvi_math_stirling(nu + k) - atvi_math_stirling(nu);
  return s + (lead + rest);
}

double atvi_math_lrise_dnu(double nu, double k) {
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

double atvi_math_lbeta(double a, double b) {
  if (!(a >= 0) || !(b >= 0)) return NAN;
  double lo = fmin(a, b), hi = fmax(a, b);
  if (lo == 0) return HUGE_VAL;
  if (isinf(hi)) return -HUGE_VAL;
  if (lo < ASYM) return atvi_math_lgamma(lo) - atvi_math_lrise(hi, lo);
  double x = lo / hi, lead = -(lo - 0.5) * log1p(hi / lo) - hi * log1p(x) - 0.5 * log(hi);
  return lead + ATVI_LN_SQRT_2PI +
         (atvi_math_stirling(lo) + atvi_math_stirling(hi) - atvi_math_stirling(lo + hi));
}

/* log(r) - (r - 1) where t = r - 1: from t near 1, from r where it is so small that t has lost it. */
static double log_excess(double t, double r) { return t > -0.5 ? atvi_math_log1pmx(t) : log(r) - t; }

double atvi_math_log_pois(double a, double x) {
  if (a < ASYM) return a * log(x) - x - atvi_math_lgamma(a + 1.0);
  return a * log_excess((x - a) / a, x / a) - 0.5 * log(a) - ATVI_LN_SQRT_2PI - atvi_math_stirling(a);
}

double atvi_math_log_binom(double a, double b, double x, double y) {
  double n = a + b;
  if (fmin(a, b) < ASYM) {
    double lx = x < 0.5 ? log(x) : log1p(-y), ly = y < 0.5 ? log(y) : log1p(-x);
    double lo = fmin(a, b), hi = fmax(a, b);
    double v = atvi_math_lrise(hi + 1.0, lo) - atvi_math_lgamma(lo + 1.0);
    return v + (a > 0 ? a * lx : 0) + (b > 0 ? b * ly : 0);
  }
  double d = x * b - y * a; /* n (x - a/n) */
  double lead = a * log_excess(d / a, n * x / a) + b * log_excess(-d / b, n * y / b);
  double s = atvi_math_stirling(n) - atvi_math_stirling(a) - atvi_math_stirling(b);
  return lead + s - 0.5 * (log(a) + log(b / n)) - ATVI_LN_SQRT_2PI;
}

/* Logarithm and inverse of the normal distribution function.
 *
 * Below TAIL the continued fraction of Mills' ratio replaces erfc: it gives log Phi and phi / Phi with
 * full relative accuracy and never underflows. The inverse is Wichura's PPND16 (AS 241, 1988),
 * rational approximations in three ranges, good to about 1e-16. */

#define TAIL (-5.0)

/* phi(z) / Phi(-z) = z + 1/(z + 2/(z + 3/(z + ...))), z >= 5, by backward recurrence. */
static double inverse_mills(double z) {
  double t = z;
  int depth = 8 + (int)(800.0 / (z * z)); /* 1e-16 at every z >= 5, tested */
  for (int k = depth; k >= 1; k--) t = z + k / t;
  return t;
}

double atvi_math_log_ndtr(double x) {
  if (x < TAIL) {
    if (x < -1e150) return -HUGE_VAL;
    return -0.5 * x * x - ATVI_LN_SQRT_2PI - log(inverse_mills(-x));
  }
  return x <= 0 ? log(0.5 * erfc(-x * ATVI_SQRT_HALF)) : log1p(-0.5 * erfc(x * ATVI_SQRT_HALF));
}

double atvi_math_log_ndtr_d(double x) {
  if (x < TAIL) return inverse_mills(-x);
  return exp(-0.5 * x * x) / (ATVI_SQRT_2PI * 0.5 * erfc(-x * ATVI_SQRT_HALF));
}

static double horner8(const double c[8], double t) {
  return ((((((c[7] * t + c[6]) * t + c[5]) * t + c[4]) * t + c[3]) * t + c[2]) * t + c[1]) * t + c[0];
}

const double atvi_math_ndtri_mid[2][8] = {
    {3.3871328727963666080e0, 1.3314166789178437745e+2, 1.9715909503065514427e+3, 1.3731693765509461125e+4,
     4.5921953931549871457e+4, 6.7265770927008700853e+4, 3.3430575583588128105e+4, 2.5090809287301226727e+3},
    {1.0, 4.2313330701600911252e+1, 6.8718700749205790830e+2, 5.3941960214247511077e+3,
     2.1213794301586595867e+4, 3.9307895800092710610e+4, 2.8729085735721942674e+4, 5.2264952788528545610e+3}};
const double atvi_math_ndtri_near[2][8] = {
    {1.42343711074968357734e0, 4.63033784615654529590e0, 5.76949722146069140550e0, 3.64784832476320460504e0,
     1.27045825245236838258e0, 2.41780725177450611770e-1, 2.27238449892691845833e-2,
     7.74545014278341407640e-4},
    {1.0, 2.05319162663775882187e0, 1.67638483018380384940e0, 6.89767334985100004550e-1,
     1.48103976427480074590e-1, 1.51986665636164571966e-2, 5.47593808499534494600e-4,
     1.05075007164441684324e-9}};
static const double far_n[8] = {6.65790464350110377720e0,  5.46378491116411436990e0,
                                1.78482653991729133580e0,  2.96560571828504891230e-1,
                                2.65321895265761230930e-2, 1.24266094738807843860e-3,
                                2.71155556874348757815e-5, 2.01033439929228813265e-7};
static const double far_d[8] = {1.0,
                                5.99832206555887937690e-1,
                                1.36929880922735805310e-1,
                                1.48753612908506148525e-2,
                                7.86869131145613259100e-4,
                                1.84631831751005468180e-5,
                                1.42151175831644588870e-7,
                                2.04426310338993978564e-15};

double atvi_math_ndtri(double p) {
  if (!(p > 0 && p < 1)) return p == 0 ? -HUGE_VAL : p == 1 ? HUGE_VAL : NAN;
  double q = p - 0.5;
  if (fabs(q) <= 0.425) {
    double t = 0.180625 - q * q;
    return q * horner8(atvi_math_ndtri_mid[0], t) / horner8(atvi_math_ndtri_mid[1], t);
  }
  double r = sqrt(-log(q < 0 ? p : 1.0 - p)), x;
  x = r <= 5.0 ? horner8(atvi_math_ndtri_near[0], r - 1.6) / horner8(atvi_math_ndtri_near[1], r - 1.6)
               : horner8(far_n, r - 5.0) / horner8(far_d, r - 5.0);
  return q < 0 ? -x : x;
}

/* Sums of numbers given by their logarithms. The largest is factored out, so that nothing overflows and what
 * underflows is too small to count. -inf is the logarithm of zero; where all are zero the sum is -inf, not
 * NaN. */

double atvi_math_log_add(double a, double b) {
  double top = fmax(a, b);
  return top > -HUGE_VAL ? top + log(exp(a - top) + exp(b - top)) : top;
}

void atvi_math_log_add_all(atvi_idx n, double shift, const double *x, double *sum) {
  for (atvi_idx i = 0; i < n; i++) sum[i] = atvi_math_log_add(sum[i], shift + x[i]);
}

double atvi_math_softmax(atvi_idx n, const double *x, double *w) {
  double top = -HUGE_VAL, sum = 0;
  for (atvi_idx i = 0; i < n; i++) top = fmax(top, x[i]);
  if (!isfinite(top)) {
    for (atvi_idx i = 0; i < n && w; i++) w[i] = 0;
    return top;
  }
  for (atvi_idx i = 0; i < n; i++) {
    double e = isnan(x[i]) ? 0 : exp(x[i] - top);
    if (w) w[i] = e;
    sum += e;
  }
  for (atvi_idx i = 0; i < n && w; i++) w[i] /= sum;
  return top + log(sum);
}

double atvi_math_effective_size(atvi_idx n, const double *w) {
  double sum_sq = 0;
  for (atvi_idx i = 0; i < n; i++) sum_sq += w[i] * w[i];
  return sum_sq > 0 ? 1 / sum_sq : 0;
}
