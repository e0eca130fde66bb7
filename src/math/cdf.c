/* SPDX-License-Identifier: MIT */
/* Log distribution functions and their gradients.
 *
 * Values come from the incomplete gamma and beta functions in logs. Derivatives with respect to a
 * location, scale or mean are a density over a probability, formed as exp of a difference of logs.
 * The two that have no closed form (negative binomial size, Student df) are central differences in
 * the logarithm of the parameter, extrapolated twice: about 1e-10 relative to the value's own change.
 * Where the probability is 0 the value is -inf and the derivatives are 0. */
#include "math/detail.h"
#include "math/special.h"
#include <math.h>

static void zero(double *grad, int n) {
  if (!grad) return;
  for (int i = 0; i < n; i++) grad[i] = 0;
}

static double bad(double *grad, int n) {
  if (grad)
    for (int i = 0; i < n; i++) grad[i] = NAN;
  return NAN;
}

/* A sure event (value 0) or an impossible one (-inf). */
static double trivial(bool sure, double *grad, int n) {
  zero(grad, n);
  return sure ? 0.0 : -HUGE_VAL;
}

/* d/dp of f(p), by central differences in log p with steps h, h/2, h/4 and Richardson extrapolation. */
static double slope(double (*f)(const double *args, double p), const double *args, double p) {
  double d[3], h = 0.08;
  for (int i = 0; i < 3; i++, h *= 0.5) d[i] = (f(args, p * exp(h)) - f(args, p * exp(-h))) / (2.0 * h);
  double e0 = d[1] + (d[1] - d[0]) / 3.0, e1 = d[2] + (d[2] - d[1]) / 3.0;
  return (e1 + (e1 - e0) / 15.0) / p;
}

static double normal_tail(double z, double sign, double sd, double grad[2]) {
  if (!(sd > 0) || isnan(z)) return bad(grad, 2);
  double v = atvi_log_ndtr(sign * z);
  if (isinf(v)) return trivial(false, grad, 2);
  if (grad) {
    double d = sign * atvi_log_ndtr_d(sign * z) / sd;
    grad[0] = -d;
    grad[1] = d == 0 ? 0 : -z * d;
  }
  return v;
}

double atvi_normal_lcdf(double y, double mean, double sd, double grad[2]) {
  return normal_tail((y - mean) / sd, 1, sd, grad);
}

double atvi_normal_lccdf(double y, double mean, double sd, double grad[2]) {
  return normal_tail((y - mean) / sd, -1, sd, grad);
}

/* log P(T <= t), args = {t}. I_x(df/2, 1/2) with x = df / (df + t^2) is P(|T| > |t|). */
static double student_log_cdf(const double *args, double df) {
  double t = args[0], p, q;
  if (isinf(df)) return atvi_log_ndtr(t);
  if (isinf(t)) return t > 0 ? 0 : -HUGE_VAL;
  double t2 = t * t, x = isinf(t2) ? 0 : df / (df + t2), y = isinf(t2) ? 1 : t2 / (df + t2);
  atvi_log_beta_pq(0.5 * df, 0.5, x, y, &p, &q);
  if (t <= 0) return p - log(2.0);
  return log1p(-0.5 * exp(p));
}

static double student_tail(double t, double sign, double df, double scale, double grad[3]) {
  if (!(df > 0) || !(scale > 0) || isnan(t)) return bad(grad, 3);
  double arg = sign * t, v = student_log_cdf(&arg, df);
  if (isinf(v) || isinf(t)) return trivial(!isinf(v), grad, 3);
  if (grad) {
    double lpdf = isinf(df)
                      ? -0.5 * t * t - ATVI_LN_SQRT_2PI
                      : -atvi_lbeta(0.5 * df, 0.5) - 0.5 * log(df) - 0.5 * (df + 1.0) * log1p(t * t / df);
    double d = sign * exp(lpdf - v) / scale;
    grad[0] = isinf(df) || t == 0 ? 0 : slope(student_log_cdf, &arg, df);
    grad[1] = -d;
    grad[2] = -t * d;
  }
  return v;
}

double atvi_student_lcdf(double y, double df, double loc, double scale, double grad[3]) {
  return student_tail((y - loc) / scale, 1, df, scale, grad);
}

double atvi_student_lccdf(double y, double df, double loc, double scale, double grad[3]) {
  return student_tail((y - loc) / scale, -1, df, scale, grad);
}

static double poisson_tail(double y, bool lower, double mean, double grad[1]) {
  if (!(mean >= 0) || isnan(y)) return bad(grad, 1);
  if (y < 0 || isinf(y)) return trivial(lower == (y > 0), grad, 1);
  double k = floor(y), p, q;
  if (mean == 0) {
    trivial(lower, grad, 1);
    if (grad && lower && k == 0) grad[0] = -1;
    return lower ? 0 : -HUGE_VAL;
  }
  atvi_log_gamma_pq(k + 1.0, mean, &p, &q);
  double v = lower ? q : p;
  if (isinf(v)) return trivial(false, grad, 1);
  if (grad) grad[0] = (lower ? -1 : 1) * exp(atvi_log_pois(k, mean) - v);
  return v;
}

double atvi_poisson_lcdf(double y, double mean, double grad[1]) { return poisson_tail(y, true, mean, grad); }
double atvi_poisson_lccdf(double y, double mean, double grad[1]) {
  return poisson_tail(y, false, mean, grad);
}

/* args = {k, mean, lower}; P(Y <= k) = I_x(size, k + 1), x = size / (size + mean). */
static double negbin_log_tail(const double *args, double size) {
  double k = args[0], mean = args[1], p, q;
  atvi_log_beta_pq(size, k + 1.0, size / (size + mean), mean / (size + mean), &p, &q);
  return args[2] > 0 ? p : q;
}

static double negbin_tail(double y, bool lower, double mean, double size, double grad[2]) {
  if (!(mean >= 0) || !(size > 0) || isnan(y)) return bad(grad, 2);
  if (isinf(size)) {
    double v = poisson_tail(y, lower, mean, grad);
    if (grad) grad[1] = 0;
    return v;
  }
  if (y < 0 || isinf(y)) return trivial(lower == (y > 0), grad, 2);
  double k = floor(y), args[3] = {k, mean, lower};
  if (mean == 0) {
    trivial(lower, grad, 2);
    if (grad && lower && k == 0) grad[0] = -1;
    return lower ? 0 : -HUGE_VAL;
  }
  double v = negbin_log_tail(args, size);
  if (isinf(v)) return trivial(false, grad, 2);
  if (grad) {
    /* dP/dmean = -x^size (1 - x)^(k+1) / (B(size, k + 1) mean) */
    double x = size / (size + mean), n = size + k + 1.0;
    double front = atvi_log_binom(size, k + 1.0, x, mean / (size + mean)) + log(size / n * (k + 1.0));
    grad[0] = (lower ? -1 : 1) * exp(front - log(mean) - v);
    grad[1] = slope(negbin_log_tail, args, size);
  }
  return v;
}

double atvi_negbin_lcdf(double y, double mean, double size, double grad[2]) {
  return negbin_tail(y, true, mean, size, grad);
}

double atvi_negbin_lccdf(double y, double mean, double size, double grad[2]) {
  return negbin_tail(y, false, mean, size, grad);
}

static double binomial_tail(double y, bool lower, double n, double p, double grad[2]) {
  if (!(n >= 0) || !(p >= 0 && p <= 1) || isnan(y)) return bad(grad, 2);
  if (y < 0 || y >= n) return trivial(lower == (y >= n), grad, 2);
  double k = floor(y), lp, lq;
  if (p == 0 || p == 1) {
    bool sure = lower == (p == 0);
    trivial(sure, grad, 2);
    if (grad && p == 0 && lower && k == 0) grad[1] = -n;
    if (grad && p == 1 && !lower && k == n - 1) grad[1] = n;
    return sure ? 0 : -HUGE_VAL;
  }
  atvi_log_beta_pq(n - k, k + 1.0, 1.0 - p, p, &lp, &lq);
  double v = lower ? lp : lq;
  if (isinf(v)) return trivial(false, grad, 2);
  if (grad) { /* dP/dp = -(n - k) C(n, k) p^k (1 - p)^(n-k-1) */
    grad[0] = 0;
    grad[1] = (lower ? -1 : 1) * (n - k) / (1.0 - p) * exp(atvi_log_binom(k, n - k, p, 1.0 - p) - v);
  }
  return v;
}

double atvi_binomial_lcdf(double y, double n, double p, double grad[2]) {
  return binomial_tail(y, true, n, p, grad);
}

double atvi_binomial_lccdf(double y, double n, double p, double grad[2]) {
  return binomial_tail(y, false, n, p, grad);
}
