/* SPDX-License-Identifier: MIT */
/* The table of distributions, and their distribution functions as numbers. */
#include "lang/dist.h"
#include "math/special.h"
#include <math.h>
#include <string.h>

#define ANY ATVI_ARG_ANY
#define POS ATVI_ARG_POSITIVE
#define INF HUGE_VAL

static const atvi_dist_info TABLE[ATVI_DIST_COUNT] = {
    [ATVI_DIST_UNIFORM] = {"uniform", 2, {"lower", "upper"}, {ANY, ANY}, true, false, false, -INF, INF},
    [ATVI_DIST_NORMAL] = {"normal", 2, {"mean", "sd"}, {ANY, POS}, true, true, false, -INF, INF},
    [ATVI_DIST_LOGNORMAL] = {"lognormal", 2, {"meanlog", "sdlog"}, {ANY, POS}, true, true, false, 0, INF},
    [ATVI_DIST_GAMMA] = {"gamma", 2, {"shape", "rate"}, {POS, POS}, true, false, false, 0, INF},
    [ATVI_DIST_INVGAMMA] = {"invgamma", 2, {"shape", "scale"}, {POS, POS}, true, false, false, 0, INF},
    [ATVI_DIST_BETA] = {"beta", 2, {"a", "b"}, {POS, POS}, true, false, false, 0, 1},
    [ATVI_DIST_EXPONENTIAL] = {"exponential", 1, {"rate"}, {POS}, true, false, false, 0, INF},
    [ATVI_DIST_HALFNORMAL] = {"halfnormal", 1, {"sd"}, {POS}, true, false, false, 0, INF},
    [ATVI_DIST_HALFCAUCHY] = {"halfcauchy", 1, {"scale"}, {POS}, true, false, false, 0, INF},
    [ATVI_DIST_CAUCHY] = {"cauchy", 2, {"location", "scale"}, {ANY, POS}, true, false, false, -INF, INF},
    [ATVI_DIST_STUDENT] =
        {"student", 3, {"df", "location", "scale"}, {POS, ANY, POS}, true, true, false, -INF, INF},
    [ATVI_DIST_POISSON] = {"poisson", 1, {"mean"}, {ATVI_ARG_NONNEGATIVE}, false, true, true, 0, INF},
    [ATVI_DIST_NEGBIN] =
        {"negbin", 2, {"mean", "size"}, {ATVI_ARG_NONNEGATIVE, POS}, false, true, true, 0, INF},
    [ATVI_DIST_BINOMIAL] =
        {"binomial", 2, {"n", "p"}, {ATVI_ARG_WHOLE, ATVI_ARG_PROBABILITY}, false, true, true, 0, INF},
};

const atvi_dist_info *atvi_lang_dist_get(atvi_dist dist) { return &TABLE[dist]; }

int atvi_lang_dist_find(const char *name, size_t n) {
  static const struct {
    const char *name;
    atvi_dist dist;
  } ALIASES[] = {
      {"inverse_gamma", ATVI_DIST_INVGAMMA}, {"half_normal", ATVI_DIST_HALFNORMAL},
      {"half_cauchy", ATVI_DIST_HALFCAUCHY}, {"student_t", ATVI_DIST_STUDENT},
      {"neg_binomial", ATVI_DIST_NEGBIN},    {"negative_binomial", ATVI_DIST_NEGBIN},
  };
  for (int d = 0; d < ATVI_DIST_COUNT; d++)
    if (strlen(TABLE[d].name) == n && memcmp(TABLE[d].name, name, n) == 0) return d;
  for (size_t a = 0; a < sizeof ALIASES / sizeof *ALIASES; a++)
    if (strlen(ALIASES[a].name) == n && memcmp(ALIASES[a].name, name, n) == 0) return ALIASES[a].dist;
  return -1;
}

bool atvi_lang_dist_arg_ok(atvi_dist dist, int k, double value) {
  if (!isfinite(value)) return false;
  switch (TABLE[dist].range[k]) {
  case ATVI_ARG_POSITIVE: return value > 0;
  case ATVI_ARG_NONNEGATIVE: return value >= 0;
  case ATVI_ARG_WHOLE: return value >= 0 && value == floor(value);
  case ATVI_ARG_PROBABILITY: return value >= 0 && value <= 1;
  default: return true;
  }
}

static bool args_ok(atvi_dist dist, const double *arg) {
  for (int k = 0; k < TABLE[dist].n_arg; k++)
    if (!atvi_lang_dist_arg_ok(dist, k, arg[k])) return false;
  return dist != ATVI_DIST_UNIFORM || arg[0] < arg[1];
}

static double log_of(double p) { return p > 0 ? log(p) : -INF; }

/* The half-line (upper = false) or upper tail of a Cauchy at z, accurate for small probabilities: atan2 keeps what 1/2 - atan loses. */
static double cauchy_tail(double z) { return atan2(1, z) / 3.14159265358979323846; }

static double log_tail(atvi_dist dist, double y, const double *a, bool upper) {
  double z, p;
  switch (dist) {
  case ATVI_DIST_UNIFORM:
    p = (y - a[0]) / (a[1] - a[0]);
    p = fmin(fmax(p, 0), 1);
    return upper ? log1p(-p) : log_of(p);
  case ATVI_DIST_NORMAL:
    return upper ? atvi_math_normal_lccdf(y, a[0], a[1], NULL) : atvi_math_normal_lcdf(y, a[0], a[1], NULL);
  case ATVI_DIST_LOGNORMAL: z = (log(y) - a[0]) / a[1]; return atvi_math_log_ndtr(upper ? -z : z);
  case ATVI_DIST_GAMMA:
    return log_of(upper ? atvi_math_gamma_q(a[0], a[1] * y) : atvi_math_gamma_p(a[0], a[1] * y));
  case ATVI_DIST_INVGAMMA:
    return log_of(upper ? atvi_math_gamma_p(a[0], a[1] / y) : atvi_math_gamma_q(a[0], a[1] / y));
  case ATVI_DIST_BETA:
    return log_of(upper ? atvi_math_beta_inc(a[1], a[0], 1 - y) : atvi_math_beta_inc(a[0], a[1], y));
  case ATVI_DIST_EXPONENTIAL: return upper ? -a[0] * y : log_of(-expm1(-a[0] * y));
  case ATVI_DIST_HALFNORMAL: /* 2 Phi(-z), and 1 - that */
    z = y / a[0];
    return upper ? log(2.0) + atvi_math_log_ndtr(-z) : log_of(erf(z / 1.41421356237309504880));
  case ATVI_DIST_HALFCAUCHY: z = y / a[0]; return log_of(2 * (upper ? cauchy_tail(z) : 0.5 - cauchy_tail(z)));
  case ATVI_DIST_CAUCHY: z = (y - a[0]) / a[1]; return log_of(cauchy_tail(upper ? z : -z));
  case ATVI_DIST_STUDENT:
    return upper ? atvi_math_student_lccdf(y, a[0], a[1], a[2], NULL)
                 : atvi_math_student_lcdf(y, a[0], a[1], a[2], NULL);
  case ATVI_DIST_POISSON:
    return upper ? atvi_math_poisson_lccdf(y, a[0], NULL) : atvi_math_poisson_lcdf(y, a[0], NULL);
  case ATVI_DIST_NEGBIN:
    return upper ? atvi_math_negbin_lccdf(y, a[0], a[1], NULL) : atvi_math_negbin_lcdf(y, a[0], a[1], NULL);
  case ATVI_DIST_BINOMIAL:
    return upper ? atvi_math_binomial_lccdf(y, a[0], a[1], NULL)
                 : atvi_math_binomial_lcdf(y, a[0], a[1], NULL);
  default: return NAN;
  }
}

/* Ends of the support first, so that the families need not think of infinities. */
static double log_prob(atvi_dist dist, double y, const double *arg, bool upper) {
  if (!args_ok(dist, arg) || isnan(y)) return NAN;
  double lower = dist == ATVI_DIST_UNIFORM ? arg[0] : TABLE[dist].lower;
  double higher = dist == ATVI_DIST_UNIFORM ? arg[1] : TABLE[dist].upper;
  bool below = TABLE[dist].count ? y < lower : y <= lower;
  if (below) return upper ? 0 : -INF;
  if (y >= higher) return upper ? -INF : 0;
  return log_tail(dist, y, arg, upper);
}

double atvi_lang_dist_log_cdf(atvi_dist dist, double y, const double *arg) {
  return log_prob(dist, y, arg, false);
}
double atvi_lang_dist_log_ccdf(atvi_dist dist, double y, const double *arg) {
  return log_prob(dist, y, arg, true);
}

/* log(exp(big) - exp(small)) */
static double log_diff(double big, double small) {
  if (small == -INF) return big;
  return big > small ? big + log(-expm1(small - big)) : -INF;
}

double atvi_lang_dist_log_mass(atvi_dist dist, double lower, double upper, const double *arg) {
  if (!args_ok(dist, arg)) return NAN;
  if (!(lower < upper)) return -INF;
  double below = log_prob(dist, lower, arg, false);
  if (below < -0.6931471805599453) return log_diff(log_prob(dist, upper, arg, false), below);
  return log_diff(log_prob(dist, lower, arg, true), log_prob(dist, upper, arg, true));
}

/* Random draws, truncated by rejection where that is quick and by inverting the distribution function elsewhere. */

enum { TRIES = 32, HALVINGS = 200 };

static double plain(atvi_rng *r, atvi_dist dist, const double *a) {
  switch (dist) {
  case ATVI_DIST_UNIFORM: return a[0] + (a[1] - a[0]) * atvi_math_rng_uniform(r);
  case ATVI_DIST_NORMAL: return a[0] + a[1] * atvi_math_rng_normal(r);
  case ATVI_DIST_LOGNORMAL: return exp(a[0] + a[1] * atvi_math_rng_normal(r));
  case ATVI_DIST_GAMMA: return atvi_math_rng_gamma(r, a[0]) / a[1];
  case ATVI_DIST_INVGAMMA: return a[1] / atvi_math_rng_gamma(r, a[0]);
  case ATVI_DIST_BETA: return atvi_math_rng_beta(r, a[0], a[1]);
  case ATVI_DIST_EXPONENTIAL: return atvi_math_rng_exponential(r) / a[0];
  case ATVI_DIST_HALFNORMAL: return a[0] * fabs(atvi_math_rng_normal(r));
  case ATVI_DIST_HALFCAUCHY: return a[0] * tan(1.57079632679489661923 * atvi_math_rng_uniform(r));
  case ATVI_DIST_CAUCHY: return a[0] + a[1] * tan(3.14159265358979323846 * (atvi_math_rng_uniform(r) - 0.5));
  case ATVI_DIST_STUDENT: return a[1] + a[2] * atvi_math_rng_student(r, a[0]);
  case ATVI_DIST_POISSON: return atvi_math_rng_poisson(r, a[0]);
  case ATVI_DIST_NEGBIN: return atvi_math_rng_negbin(r, a[0], a[1]);
  case ATVI_DIST_BINOMIAL: return atvi_math_rng_binomial(r, a[0], a[1]);
  default: return NAN;
  }
}

/* A finite point beyond which the wanted probability has been passed: doubling away from the other end. */
static double reach(atvi_dist dist, const double *a, double from, double sign, double target, bool upper) {
  double step = 1;
  for (int k = 0; k < 1100; k++, step *= 2) {
    double x = from + sign * step;
    double p = upper ? atvi_lang_dist_log_ccdf(dist, x, a) : atvi_lang_dist_log_cdf(dist, x, a);
    bool falls = (sign > 0) == upper;
    if (falls ? p <= target : p >= target) return x;
  }
  return from + sign * 1e300;
}

/* Solves P(Y <= x) = target between the bounds, in the tail where precision is kept. */
static double invert(atvi_dist dist, const double *a, double lower, double upper, double u) {
  bool tail = atvi_lang_dist_log_cdf(dist, lower, a) > -0.6931471805599453;
  double p0 = tail ? atvi_lang_dist_log_ccdf(dist, upper, a) : atvi_lang_dist_log_cdf(dist, lower, a);
  double p1 = tail ? atvi_lang_dist_log_ccdf(dist, lower, a) : atvi_lang_dist_log_cdf(dist, upper, a);
  if (!(p1 > p0)) return NAN;
  double target = p1 + log(u + (1 - u) * exp(p0 - p1));
  if (isinf(lower) && isinf(upper)) lower = reach(dist, a, 0, -1, target, tail);
  if (isinf(lower)) lower = reach(dist, a, upper, -1, target, tail);
  if (isinf(upper)) upper = reach(dist, a, lower, 1, target, tail);
  for (int k = 0; k < HALVINGS; k++) {
    double mid = lower + (upper - lower) / 2;
    if (!(mid > lower && mid < upper)) break;
    double p = tail ? atvi_lang_dist_log_ccdf(dist, mid, a) : atvi_lang_dist_log_cdf(dist, mid, a);
    if (tail ? p > target : p < target)
      lower = mid;
    else
      upper = mid;
  }
  return lower + (upper - lower) / 2;
}

double atvi_lang_dist_draw(atvi_rng *r, atvi_dist dist, const double *arg, double lower, double upper) {
  const atvi_dist_info *info = atvi_lang_dist_get(dist);
  for (int k = 0; k < info->n_arg; k++)
    if (!atvi_lang_dist_arg_ok(dist, k, arg[k])) return NAN;
  double least = dist == ATVI_DIST_UNIFORM ? arg[0] : info->lower,
         most = dist == ATVI_DIST_UNIFORM ? arg[1] : info->upper;
  if (!(least < most)) return NAN;
  if (lower <= least && upper >= most) return plain(r, dist, arg);
  lower = fmax(lower, least);
  upper = fmin(upper, most);
  if (!(lower < upper)) return NAN;
  if (dist == ATVI_DIST_UNIFORM) return lower + (upper - lower) * atvi_math_rng_uniform(r);
  for (int k = 0; k < TRIES; k++) {
    double x = plain(r, dist, arg);
    if (x > lower && x < upper) return x;
  }
  return info->count ? NAN : invert(dist, arg, lower, upper, atvi_math_rng_uniform(r));
}
