/* SPDX-License-Identifier: MIT */
/* Draws by rejection. Acceptance tests use the saddle-point forms of detail.h: with plain lgamma
 * the log mass of a count near 1e9 would be off by 1e-6. */
#include "math/detail.h"
#include "math/rng.h"
#include "math/special.h"
#include <math.h>

/* Marsaglia and Tsang 2000, shape >= 1. */
static double gamma_large(atvi_rng *r, double shape) {
  double d = shape - 1.0 / 3.0, c = 1.0 / sqrt(9.0 * d);
  for (;;) {
    double x = atvi_rng_normal(r), v = 1.0 + c * x;
    if (!(v > 0)) continue;
    v = v * v * v;
    double u = atvi_rng_uniform(r);
    if (u < 1.0 - 0.0331 * x * x * x * x) return d * v;
    if (log(u) < 0.5 * x * x + d * (1.0 - v + log(v))) return d * v;
  }
}

/* Log of a gamma draw: small shapes give values that no double holds. */
static double log_gamma_draw(atvi_rng *r, double shape) {
  if (shape >= 1.0) return log(gamma_large(r, shape));
  double g = log(gamma_large(r, shape + 1.0));
  return g + log(atvi_rng_uniform(r)) / shape;
}

double atvi_rng_gamma(atvi_rng *r, double shape) {
  if (!(shape > 0) || isinf(shape)) return shape > 0 ? shape : NAN;
  if (shape >= 1.0) return gamma_large(r, shape);
  return exp(log_gamma_draw(r, shape));
}

double atvi_rng_beta(atvi_rng *r, double a, double b) {
  if (!(a > 0) || !(b > 0) || isinf(a) || isinf(b)) return NAN;
  double la = log_gamma_draw(r, a), lb = log_gamma_draw(r, b);
  return 1.0 / (1.0 + exp(lb - la));
}

double atvi_rng_student(atvi_rng *r, double df) {
  if (!(df > 0)) return NAN;
  double z = atvi_rng_normal(r);
  if (isinf(df)) return z;
  return z * exp(-0.5 * (log_gamma_draw(r, 0.5 * df) - log(0.5 * df)));
}

static double poisson_small(atvi_rng *r, double mean) {
  double u = atvi_rng_uniform(r), p = exp(-mean), k = 0;
  while (u > p) {
    u -= p;
    k++;
    p *= mean / k;
    if (p < 1e-300) break; /* u beyond the rounded total */
  }
  return k;
}

/* Transformed rejection PTRS, Hoermann 1993, for mean >= 10. */
static double poisson_large(atvi_rng *r, double mean) {
  double b = 0.931 + 2.53 * sqrt(mean), a = -0.059 + 0.02483 * b;
  double inv_alpha = 1.1239 + 1.1328 / (b - 3.4), v_r = 0.9277 - 3.6224 / (b - 2.0);
  for (;;) {
    double u = atvi_rng_uniform(r) - 0.5, v = atvi_rng_uniform(r), us = 0.5 - fabs(u);
    double k = floor((2.0 * a / us + b) * u + mean + 0.43);
    if (us >= 0.07 && v <= v_r) return k;
    if (k < 0 || (us < 0.013 && v > us)) continue;
    if (log(v * inv_alpha / (a / (us * us) + b)) <= atvi_log_pois(k, mean)) return k;
  }
}

double atvi_rng_poisson(atvi_rng *r, double mean) {
  if (!(mean >= 0) || isinf(mean)) return NAN;
  if (mean == 0) return 0;
  return mean < 10.0 ? poisson_small(r, mean) : poisson_large(r, mean);
}

static double binomial_small(atvi_rng *r, double n, double p) {
  double u = atvi_rng_uniform(r), f = exp(n * log1p(-p)), odds = p / (1.0 - p), k = 0;
  while (u > f && k < n) {
    u -= f;
    f *= odds * (n - k) / (k + 1.0);
    k++;
    if (f < 1e-300) break;
  }
  return k;
}

/* Transformed rejection BTRS, Hoermann 1993, for n p >= 10 and p <= 1/2. */
static double binomial_large(atvi_rng *r, double n, double p) {
  double q = 1.0 - p, sd = sqrt(n * p * q);
  double b = 1.15 + 2.53 * sd, a = -0.0873 + 0.0248 * b + 0.01 * p, c = n * p + 0.5;
  double v_r = 0.92 - 4.2 / b, alpha = (2.83 + 5.1 / b) * sd, m = floor((n + 1.0) * p);
  double top = atvi_log_binom(m, n - m, p, q);
  for (;;) {
    double u = atvi_rng_uniform(r) - 0.5, v = atvi_rng_uniform(r), us = 0.5 - fabs(u);
    double k = floor((2.0 * a / us + b) * u + c);
    if (us >= 0.07 && v <= v_r) return k;
    if (k < 0 || k > n) continue;
    if (log(v * alpha / (a / (us * us) + b)) <= atvi_log_binom(k, n - k, p, q) - top) return k;
  }
}

double atvi_rng_binomial(atvi_rng *r, double n, double p) {
  if (!(n >= 0) || !(p >= 0 && p <= 1) || isinf(n)) return NAN;
  if (n == 0 || p == 0) return 0;
  if (p == 1) return n;
  if (p > 0.5) return n - atvi_rng_binomial(r, n, 1.0 - p);
  return n * p < 10.0 ? binomial_small(r, n, p) : binomial_large(r, n, p);
}

double atvi_rng_negbin(atvi_rng *r, double mean, double size) {
  if (!(mean >= 0) || !(size > 0)) return NAN;
  if (isinf(size)) return atvi_rng_poisson(r, mean);
  return atvi_rng_poisson(r, exp(log_gamma_draw(r, size) - log(size) + log(mean)));
}
