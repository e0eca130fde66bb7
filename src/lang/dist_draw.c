/* SPDX-License-Identifier: MIT */
/* Random draws, truncated by rejection where that is quick and by inverting the distribution function elsewhere. */
#include "lang/dist.h"
#include <math.h>

enum { TRIES = 32, HALVINGS = 200 };

static double plain(atvi_rng *r, atvi_dist dist, const double *a) {
  switch (dist) {
  case ATVI_DIST_UNIFORM: return a[0] + (a[1] - a[0]) * atvi_rng_uniform(r);
  case ATVI_DIST_NORMAL: return a[0] + a[1] * atvi_rng_normal(r);
  case ATVI_DIST_LOGNORMAL: return exp(a[0] + a[1] * atvi_rng_normal(r));
  case ATVI_DIST_GAMMA: return atvi_rng_gamma(r, a[0]) / a[1];
  case ATVI_DIST_INVGAMMA: return a[1] / atvi_rng_gamma(r, a[0]);
  case ATVI_DIST_BETA: return atvi_rng_beta(r, a[0], a[1]);
  case ATVI_DIST_EXPONENTIAL: return atvi_rng_exponential(r) / a[0];
  case ATVI_DIST_HALFNORMAL: return a[0] * fabs(atvi_rng_normal(r));
  case ATVI_DIST_HALFCAUCHY: return a[0] * tan(1.57079632679489661923 * atvi_rng_uniform(r));
  case ATVI_DIST_CAUCHY: return a[0] + a[1] * tan(3.14159265358979323846 * (atvi_rng_uniform(r) - 0.5));
  case ATVI_DIST_STUDENT: return a[1] + a[2] * atvi_rng_student(r, a[0]);
  case ATVI_DIST_POISSON: return atvi_rng_poisson(r, a[0]);
  case ATVI_DIST_NEGBIN: return atvi_rng_negbin(r, a[0], a[1]);
  case ATVI_DIST_BINOMIAL: return atvi_rng_binomial(r, a[0], a[1]);
  default: return NAN;
  }
}

/* A finite point beyond which the wanted probability has been passed: doubling away from the other end. */
static double reach(atvi_dist dist, const double *a, double from, double sign, double target, bool upper) {
  double step = 1;
  for (int k = 0; k < 1100; k++, step *= 2) {
    double x = from + sign * step;
    double p = upper ? atvi_dist_log_ccdf(dist, x, a) : atvi_dist_log_cdf(dist, x, a);
    bool falls = (sign > 0) == upper;
    if (falls ? p <= target : p >= target) return x;
  }
  return from + sign * 1e300;
}

/* Solves P(Y <= x) = target between the bounds, in the tail where precision is kept. */
static double invert(atvi_dist dist, const double *a, double lower, double upper, double u) {
  bool tail = atvi_dist_log_cdf(dist, lower, a) > -0.6931471805599453;
  double p0 = tail ? atvi_dist_log_ccdf(dist, upper, a) : atvi_dist_log_cdf(dist, lower, a);
  double p1 = tail ? atvi_dist_log_ccdf(dist, lower, a) : atvi_dist_log_cdf(dist, upper, a);
  if (!(p1 > p0)) return NAN;
  double target = p1 + log(u + (1 - u) * exp(p0 - p1));
  if (isinf(lower) && isinf(upper)) lower = reach(dist, a, 0, -1, target, tail);
  if (isinf(lower)) lower = reach(dist, a, upper, -1, target, tail);
  if (isinf(upper)) upper = reach(dist, a, lower, 1, target, tail);
  for (int k = 0; k < HALVINGS; k++) {
    double mid = lower + (upper - lower) / 2;
    if (!(mid > lower && mid < upper)) break;
    double p = tail ? atvi_dist_log_ccdf(dist, mid, a) : atvi_dist_log_cdf(dist, mid, a);
    if (tail ? p > target : p < target)
      lower = mid;
    else
      upper = mid;
  }
  return lower + (upper - lower) / 2;
}

double atvi_dist_draw(atvi_rng *r, atvi_dist dist, const double *arg, double lower, double upper) {
  const atvi_dist_info *info = atvi_dist_get(dist);
  for (int k = 0; k < info->n_arg; k++)
    if (!atvi_dist_arg_ok(dist, k, arg[k])) return NAN;
  double least = dist == ATVI_DIST_UNIFORM ? arg[0] : info->lower,
         most = dist == ATVI_DIST_UNIFORM ? arg[1] : info->upper;
  if (!(least < most)) return NAN;
  if (lower <= least && upper >= most) return plain(r, dist, arg);
  lower = fmax(lower, least);
  upper = fmin(upper, most);
  if (!(lower < upper)) return NAN;
  if (dist == ATVI_DIST_UNIFORM) return lower + (upper - lower) * atvi_rng_uniform(r);
  for (int k = 0; k < TRIES; k++) {
    double x = plain(r, dist, arg);
    if (x > lower && x < upper) return x;
  }
  return info->count ? NAN : invert(dist, arg, lower, upper, atvi_rng_uniform(r));
}
