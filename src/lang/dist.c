/* SPDX-License-Identifier: MIT */
/* The table of distributions; their distribution functions as numbers; their log densities as graphs. */
#include "lang/dist.h"
#include "lang/lang.h"
#include "math/special.h"
#include <math.h>
#include <string.h>

#define ANY ATVI_ARG_ANY
#define POS ATVI_ARG_POSITIVE
#define INF HUGE_VAL

static const atvi_dist_info TABLE[ATVI_DIST_COUNT] = {
    [ATVI_DIST_UNIFORM] = {"uniform", 2, {"lower", "upper"}, {ANY, ANY}, true, true, false, -INF, INF},
    [ATVI_DIST_NORMAL] = {"normal", 2, {"mean", "sd"}, {ANY, POS}, true, true, false, -INF, INF},
    [ATVI_DIST_LOGNORMAL] = {"lognormal", 2, {"meanlog", "sdlog"}, {ANY, POS}, true, true, false, 0, INF},
    [ATVI_DIST_GAMMA] = {"gamma", 2, {"shape", "rate"}, {POS, POS}, true, true, false, 0, INF},
    [ATVI_DIST_INVGAMMA] = {"invgamma", 2, {"shape", "scale"}, {POS, POS}, true, true, false, 0, INF},
    [ATVI_DIST_BETA] = {"beta", 2, {"a", "b"}, {POS, POS}, true, true, false, 0, 1},
    [ATVI_DIST_EXPONENTIAL] = {"exponential", 1, {"rate"}, {POS}, true, true, false, 0, INF},
    [ATVI_DIST_HALFNORMAL] = {"halfnormal", 1, {"sd"}, {POS}, true, true, false, 0, INF},
    [ATVI_DIST_HALFCAUCHY] = {"halfcauchy", 1, {"scale"}, {POS}, true, true, false, 0, INF},
    [ATVI_DIST_CAUCHY] = {"cauchy", 2, {"location", "scale"}, {ANY, POS}, true, true, false, -INF, INF},
    [ATVI_DIST_STUDENT] =
        {"student", 3, {"df", "location", "scale"}, {POS, ANY, POS}, true, true, false, -INF, INF},
    [ATVI_DIST_LAPLACE] = {"laplace", 2, {"location", "scale"}, {ANY, POS}, true, true, false, -INF, INF},
    [ATVI_DIST_LOGISTIC] = {"logistic", 2, {"location", "scale"}, {ANY, POS}, true, true, false, -INF, INF},
    [ATVI_DIST_WEIBULL] = {"weibull", 2, {"shape", "scale"}, {POS, POS}, true, true, false, 0, INF},
    [ATVI_DIST_POISSON] = {"poisson", 1, {"mean"}, {ATVI_ARG_NONNEGATIVE}, false, true, true, 0, INF},
    [ATVI_DIST_NEGBIN] =
        {"negbin", 2, {"mean", "size"}, {ATVI_ARG_NONNEGATIVE, POS}, false, true, true, 0, INF},
    [ATVI_DIST_BINOMIAL] =
        {"binomial", 2, {"n", "p"}, {ATVI_ARG_WHOLE, ATVI_ARG_PROBABILITY}, false, true, true, 0, INF},
    [ATVI_DIST_BETABINOMIAL] =
        {"betabinomial", 3, {"n", "a", "b"}, {ATVI_ARG_WHOLE, POS, POS}, false, true, true, 0, INF},
};

const atvi_dist_info *atvi_lang_dist_get(atvi_dist dist) { return &TABLE[dist]; }

int atvi_lang_dist_find(const char *name, size_t n) {
  static const struct {
    const char *name;
    atvi_dist dist;
  } ALIASES[] = {
      {"inverse_gamma", ATVI_DIST_INVGAMMA},     {"half_normal", ATVI_DIST_HALFNORMAL},
      {"half_cauchy", ATVI_DIST_HALFCAUCHY},     {"student_t", ATVI_DIST_STUDENT},
      {"neg_binomial", ATVI_DIST_NEGBIN},        {"negative_binomial", ATVI_DIST_NEGBIN},
      {"neg_binomial_2", ATVI_DIST_NEGBIN},      {"inv_gamma", ATVI_DIST_INVGAMMA},
      {"double_exponential", ATVI_DIST_LAPLACE}, {"beta_binomial", ATVI_DIST_BETABINOMIAL},
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

static double log_choose(double n, double k) { return lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1); }
static double log_beta(double a, double b) { return lgamma(a) + lgamma(b) - lgamma(a + b); }

/* P(Y <= y), or P(Y > y), term by term. */
static double betabinomial_tail(double y, const double *a, bool upper) {
  double p = 0, from = upper ? floor(y) + 1 : 0, to = upper ? a[0] : floor(y);
  for (double k = from; k <= to; k++)
    p += exp(log_choose(a[0], k) + log_beta(k + a[1], a[0] - k + a[2]) - log_beta(a[1], a[2]));
  return fmin(p, 1);
}

/* The half-line (upper = false) or upper tail of a Cauchy at z, accurate for small probabilities: atan2 keeps
 * what 1/2 - atan loses. */
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
  case ATVI_DIST_LAPLACE:
    z = (upper ? a[0] - y : y - a[0]) / a[1];
    return z < 0 ? z - log(2.0) : log1p(-0.5 * exp(-z));
  case ATVI_DIST_LOGISTIC: z = (upper ? a[0] - y : y - a[0]) / a[1]; return fmin(z, 0) - log1p(exp(-fabs(z)));
  case ATVI_DIST_WEIBULL: p = pow(y / a[1], a[0]); return upper ? -p : log_of(-expm1(-p));
  case ATVI_DIST_BETABINOMIAL: return log_of(betabinomial_tail(y, a, upper));
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

/* Random draws, truncated by rejection where that is quick and by inverting the distribution function
 * elsewhere. */

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
  case ATVI_DIST_LAPLACE: {
    double e = atvi_math_rng_exponential(r);
    return a[0] + (atvi_math_rng_uniform(r) < 0.5 ? -a[1] : a[1]) * e;
  }
  case ATVI_DIST_LOGISTIC: {
    double u = atvi_math_rng_uniform(r);
    return a[0] + a[1] * (log(u) - log1p(-u));
  }
  case ATVI_DIST_WEIBULL: return a[1] * pow(atvi_math_rng_exponential(r), 1 / a[0]);
  case ATVI_DIST_BETABINOMIAL: return atvi_math_rng_binomial(r, a[0], atvi_math_rng_beta(r, a[1], a[2]));
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

/* Log densities as graphs, all constants kept. */

static const double LOG_2PI = 1.83787706640934548356, LOG_PI = 1.14472988584940017414,
                    LOG_2 = 0.69314718055994530942;

typedef atvi_graph graph;
typedef atvi_node node;

static node num(graph *g, double x) { return atvi_graph_const(g, x); }
static node add(graph *g, node a, node b) { return atvi_graph_op2(g, ATVI_OP_ADD, a, b); }
static node sub(graph *g, node a, node b) { return atvi_graph_op2(g, ATVI_OP_SUB, a, b); }
static node mul(graph *g, node a, node b) { return atvi_graph_op2(g, ATVI_OP_MUL, a, b); }
static node divide(graph *g, node a, node b) { return atvi_graph_op2(g, ATVI_OP_DIV, a, b); }
static node neg(graph *g, node a) { return atvi_graph_op1(g, ATVI_OP_NEG, a); }
static node ln(graph *g, node a) { return atvi_graph_op1(g, ATVI_OP_LOG, a); }
static node ln1p(graph *g, node a) { return atvi_graph_op1(g, ATVI_OP_LOG1P, a); }
static node lgam(graph *g, node a) { return atvi_graph_op1(g, ATVI_OP_LGAMMA, a); }
static node less(graph *g, node a, node b) { return atvi_graph_op2(g, ATVI_OP_LT, a, b); }
static node at_most(graph *g, node a, node b) { return atvi_graph_op2(g, ATVI_OP_LE, a, b); }
static node where(graph *g, node cond, node x) { return atvi_graph_select(g, cond, x, num(g, -HUGE_VAL)); }
static node either(graph *g, node a, node b) { return atvi_graph_op2(g, ATVI_OP_OR, a, b); }
static node scaled(graph *g, node y, node location, node scale) {
  return divide(g, sub(g, y, location), scale);
}

/* Whether an argument is out of its range. NaN is not: it spoils the value, as it should, so that a run that
 * failed can be distinguished from one that contradicts the data. */
static node bad_args(graph *g, atvi_dist dist, const node *a) {
  const atvi_dist_info *info = atvi_lang_dist_get(dist);
  node zero = num(g, 0), bad = dist == ATVI_DIST_UNIFORM ? at_most(g, a[1], a[0]) : zero;
  for (int k = 0; k < info->n_arg; k++) switch (info->range[k]) {
    case ATVI_ARG_POSITIVE: bad = either(g, bad, at_most(g, a[k], zero)); break;
    case ATVI_ARG_NONNEGATIVE:
    case ATVI_ARG_WHOLE: bad = either(g, bad, less(g, a[k], zero)); break;
    case ATVI_ARG_PROBABILITY:
      bad = either(g, bad, either(g, less(g, a[k], zero), less(g, num(g, 1), a[k])));
      break;
    default: break;
    }
  return bad;
}

static node unless(graph *g, node bad, double instead, node x) {
  return atvi_graph_select(g, bad, num(g, instead), x);
}

/* -z^2/2 - log scale - constant */
static node bell(graph *g, node z, node scale, double constant) {
  node square = mul(g, num(g, -0.5), mul(g, z, z));
  return sub(g, sub(g, square, ln(g, scale)), num(g, constant));
}

static node gamma_like(graph *g, node y, const node *a, bool inverse) {
  node norm = sub(g, mul(g, a[0], ln(g, a[1])), lgam(g, a[0]));
  node one = num(g, 1), body;
  if (inverse)
    body = add(g, mul(g, add(g, a[0], one), ln(g, y)), divide(g, a[1], y));
  else
    body = sub(g, mul(g, a[1], y), mul(g, sub(g, a[0], one), ln(g, y)));
  return where(g, less(g, num(g, 0), y), sub(g, norm, body));
}

static node beta_density(graph *g, node y, const node *a) {
  node one = num(g, 1), zero = num(g, 0);
  node norm = sub(g, lgam(g, add(g, a[0], a[1])), add(g, lgam(g, a[0]), lgam(g, a[1])));
  node body = add(g, mul(g, sub(g, a[0], one), ln(g, y)), mul(g, sub(g, a[1], one), ln1p(g, neg(g, y))));
  return where(g, atvi_graph_op2(g, ATVI_OP_AND, less(g, zero, y), less(g, y, one)), add(g, norm, body));
}

static node student_density(graph *g, node y, const node *a) {
  node z = scaled(g, y, a[1], a[2]), half = num(g, 0.5);
  node norm = sub(g, atvi_graph_op2(g, ATVI_OP_LRISE, mul(g, half, a[0]), half),
                  add(g, mul(g, half, add(g, ln(g, a[0]), num(g, LOG_PI))), ln(g, a[2])));
  node power = mul(g, half, add(g, a[0], num(g, 1)));
  return sub(g, norm, mul(g, power, ln1p(g, divide(g, mul(g, z, z), a[0]))));
}

static node uniform_density(graph *g, node y, const node *a) {
  node value = neg(g, ln(g, sub(g, a[1], a[0])));
  if (atvi_graph_is_const(g, value, NULL)) return value;
  node inside = atvi_graph_op2(g, ATVI_OP_AND, at_most(g, a[0], y), at_most(g, y, a[1]));
  return where(g, inside, value);
}

/* XLOGY makes count 0 right at mean 0, and its derivative too. */
static node poisson_density(graph *g, node y, const node *a) {
  node log_fact = lgam(g, add(g, y, num(g, 1)));
  return sub(g, sub(g, atvi_graph_op2(g, ATVI_OP_XLOGY, y, a[0]), a[0]), log_fact);
}

/* y log(m/(m+k)) - k log(1 + m/k): nothing cancels when the size k is large. */
static node negbin_density(graph *g, node y, const node *a, node *lrise) {
  node m = a[0], k = a[1];
  node rise = atvi_graph_op2(g, ATVI_OP_LRISE, k, y);
  node rest = sub(g, atvi_graph_op2(g, ATVI_OP_XLOGY, y, divide(g, m, add(g, m, k))),
                  mul(g, k, ln1p(g, divide(g, m, k))));
  rest = sub(g, rest, lgam(g, add(g, y, num(g, 1))));
  if (!lrise) return add(g, rest, rise);
  *lrise = rise;
  return rest;
}

static node binomial_density(graph *g, node y, const node *a) {
  node one = num(g, 1), left = sub(g, a[0], y);
  node choose =
      sub(g, lgam(g, add(g, a[0], one)), add(g, lgam(g, add(g, y, one)), lgam(g, add(g, left, one))));
  node hit = atvi_graph_op2(g, ATVI_OP_XLOGY, y, a[1]);
  node miss = atvi_graph_op2(g, ATVI_OP_XLOGY, left, sub(g, one, a[1]));
  return where(g, at_most(g, y, a[0]), add(g, choose, add(g, hit, miss)));
}

/* Rising factorials, so that nothing cancels where a and b are large. */
static node betabinomial_density(graph *g, node y, const node *a) {
  node one = num(g, 1), left = sub(g, a[0], y);
  node choose =
      sub(g, lgam(g, add(g, a[0], one)), add(g, lgam(g, add(g, y, one)), lgam(g, add(g, left, one))));
  node hit = atvi_graph_op2(g, ATVI_OP_LRISE, a[1], y), miss = atvi_graph_op2(g, ATVI_OP_LRISE, a[2], left);
  node all = atvi_graph_op2(g, ATVI_OP_LRISE, add(g, a[1], a[2]), a[0]);
  return where(g, at_most(g, y, a[0]), add(g, choose, sub(g, add(g, hit, miss), all)));
}

/* For arguments in their ranges. */
static node density(graph *g, atvi_dist dist, node y, const node *a, node *lrise) {
  node zero = num(g, 0), z;
  switch (dist) {
  case ATVI_DIST_UNIFORM: return uniform_density(g, y, a);
  case ATVI_DIST_NORMAL: return bell(g, scaled(g, y, a[0], a[1]), a[1], 0.5 * LOG_2PI);
  case ATVI_DIST_LOGNORMAL:
    z = scaled(g, ln(g, y), a[0], a[1]);
    return where(g, less(g, zero, y), sub(g, bell(g, z, a[1], 0.5 * LOG_2PI), ln(g, y)));
  case ATVI_DIST_GAMMA: return gamma_like(g, y, a, false);
  case ATVI_DIST_INVGAMMA: return gamma_like(g, y, a, true);
  case ATVI_DIST_BETA: return beta_density(g, y, a);
  case ATVI_DIST_EXPONENTIAL: return where(g, at_most(g, zero, y), sub(g, ln(g, a[0]), mul(g, a[0], y)));
  case ATVI_DIST_HALFNORMAL:
    return where(g, at_most(g, zero, y), bell(g, divide(g, y, a[0]), a[0], 0.5 * LOG_2PI - LOG_2));
  case ATVI_DIST_HALFCAUCHY:
  case ATVI_DIST_CAUCHY: {
    bool half = dist == ATVI_DIST_HALFCAUCHY;
    node scale = half ? a[0] : a[1];
    z = half ? divide(g, y, scale) : scaled(g, y, a[0], scale);
    node x = sub(g, num(g, (half ? LOG_2 : 0) - LOG_PI), add(g, ln(g, scale), ln1p(g, mul(g, z, z))));
    return half ? where(g, at_most(g, zero, y), x) : x;
  }
  case ATVI_DIST_STUDENT: return student_density(g, y, a);
  case ATVI_DIST_LAPLACE: /* -|z| - log 2 scale */
    z = atvi_graph_op1(g, ATVI_OP_ABS, scaled(g, y, a[0], a[1]));
    return neg(g, add(g, z, add(g, num(g, LOG_2), ln(g, a[1]))));
  case ATVI_DIST_LOGISTIC: /* -z - 2 log(1 + exp(-z)) - log scale */
    z = neg(g, scaled(g, y, a[0], a[1]));
    return sub(g, z, add(g, mul(g, num(g, 2), atvi_graph_op2(g, ATVI_OP_LOG_ADD, zero, z)), ln(g, a[1])));
  case ATVI_DIST_WEIBULL: { /* log k - log y + k z - exp(k z), z = log y - log scale */
    z = mul(g, a[0], sub(g, ln(g, y), ln(g, a[1])));
    node x = sub(g, add(g, ln(g, a[0]), z), add(g, ln(g, y), atvi_graph_op1(g, ATVI_OP_EXP, z)));
    return where(g, less(g, zero, y), x);
  }
  case ATVI_DIST_BETABINOMIAL: return betabinomial_density(g, y, a);
  case ATVI_DIST_POISSON: return poisson_density(g, y, a);
  case ATVI_DIST_NEGBIN: return negbin_density(g, y, a, lrise);
  case ATVI_DIST_BINOMIAL: return binomial_density(g, y, a);
  default: return ATVI_NODE_NONE;
  }
}

atvi_node atvi_lang_dist_lpdf(atvi_graph *g, atvi_dist dist, atvi_node y, const atvi_node *a,
                              atvi_node *lrise) {
  node rise = ATVI_NODE_NONE;
  if (lrise) *lrise = ATVI_NODE_NONE;
  if (y == ATVI_NODE_NONE) return ATVI_NODE_NONE;
  for (int k = 0; k < atvi_lang_dist_get(dist)->n_arg; k++)
    if (a[k] == ATVI_NODE_NONE) return ATVI_NODE_NONE;
  node bad = bad_args(g, dist, a), x = density(g, dist, y, a, lrise ? &rise : NULL);
  if (rise != ATVI_NODE_NONE) *lrise = unless(g, bad, 0, rise);
  return unless(g, bad, -HUGE_VAL, x);
}

/* The logarithm of a mean that is an exponential times something known: a number or an offset from the data. */
static bool log_mean(graph *g, node mean, node *log_of) {
  node coef, expo;
  const uint32_t known = 1u << ATVI_IN_DATA | 1u << ATVI_IN_TIME | 1u << ATVI_IN_TABLE;
  if (!atvi_graph_split(g, mean, &coef, &expo) || (atvi_graph_kinds(g, coef) & ~known)) return false;
  *log_of = add(g, expo, ln(g, coef));
  return true;
}

/* log(1 - exp(-h)) and -h for a cumulated hazard h; 0 before the value 0. */
static node hazard_tail(graph *g, node y, node h, bool upper) {
  node begun = less(g, num(g, 0), y);
  if (upper) return atvi_graph_select(g, begun, neg(g, h), num(g, 0));
  return where(g, begun, ln(g, neg(g, atvi_graph_op1(g, ATVI_OP_EXPM1, neg(g, h)))));
}

/* Tails with a formula, for arguments in their ranges; ATVI_NODE_NONE for other families. */
static node closed_tail(graph *g, atvi_dist dist, node y, const node *a, bool upper) {
  node zero = num(g, 0), one = num(g, 1), z, x;
  switch (dist) {
  case ATVI_DIST_EXPONENTIAL: return hazard_tail(g, y, mul(g, a[0], y), upper);
  case ATVI_DIST_WEIBULL:
    z = mul(g, a[0], sub(g, ln(g, y), ln(g, a[1])));
    return hazard_tail(g, y, atvi_graph_op1(g, ATVI_OP_EXP, z), upper);
  case ATVI_DIST_LOGISTIC:
    z = scaled(g, y, a[0], a[1]);
    return neg(g, atvi_graph_op2(g, ATVI_OP_LOG_ADD, zero, upper ? z : neg(g, z)));
  case ATVI_DIST_LAPLACE: /* the half that holds the end of the tail, or what the other leaves */
    z = scaled(g, y, a[0], a[1]);
    z = upper ? neg(g, z) : z;
    x = atvi_graph_op1(g, ATVI_OP_EXP, neg(g, atvi_graph_op1(g, ATVI_OP_ABS, z)));
    return atvi_graph_select(g, less(g, z, zero), sub(g, z, num(g, LOG_2)), ln1p(g, mul(g, num(g, -0.5), x)));
  case ATVI_DIST_CAUCHY: /* atan2 keeps what 1/2 - atan loses */
    z = scaled(g, y, a[0], a[1]);
    return sub(g, ln(g, atvi_graph_op2(g, ATVI_OP_ATAN2, one, upper ? z : neg(g, z))), num(g, LOG_PI));
  case ATVI_DIST_HALFCAUCHY:
    z = divide(g, y, a[0]);
    x = upper ? atvi_graph_op2(g, ATVI_OP_ATAN2, one, z) : atvi_graph_op1(g, ATVI_OP_ATAN, z);
    x = add(g, num(g, LOG_2 - LOG_PI), ln(g, x));
    return atvi_graph_select(g, less(g, zero, y), x, num(g, upper ? 0 : -HUGE_VAL));
  case ATVI_DIST_HALFNORMAL:
    z = divide(g, y, a[0]);
    x = upper ? add(g, num(g, LOG_2), atvi_graph_op1(g, ATVI_OP_LOG_NDTR, neg(g, z)))
              : ln(g, atvi_graph_op1(g, ATVI_OP_ERF, mul(g, num(g, sqrt(0.5)), z)));
    return atvi_graph_select(g, less(g, zero, y), x, num(g, upper ? 0 : -HUGE_VAL));
  default: return ATVI_NODE_NONE;
  }
}

static bool has_function(atvi_dist dist) {
  return dist == ATVI_DIST_NORMAL || dist == ATVI_DIST_LOGNORMAL || dist == ATVI_DIST_STUDENT ||
         dist == ATVI_DIST_POISSON || dist == ATVI_DIST_NEGBIN || dist == ATVI_DIST_BINOMIAL;
}

static node tail(graph *g, atvi_dist dist, node y, const node *a, bool upper) {
  static const atvi_fn FN[ATVI_DIST_COUNT] = {
      [ATVI_DIST_NORMAL] = ATVI_FN_NORMAL_LCDF,   [ATVI_DIST_LOGNORMAL] = ATVI_FN_NORMAL_LCDF,
      [ATVI_DIST_STUDENT] = ATVI_FN_STUDENT_LCDF, [ATVI_DIST_POISSON] = ATVI_FN_POISSON_LCDF,
      [ATVI_DIST_NEGBIN] = ATVI_FN_NEGBIN_LCDF,   [ATVI_DIST_BINOMIAL] = ATVI_FN_BINOMIAL_LCDF};
  atvi_fn fn = FN[dist];
  if (!atvi_lang_dist_get(dist)->observation || y == ATVI_NODE_NONE) return ATVI_NODE_NONE;
  node arg[4] = {dist == ATVI_DIST_LOGNORMAL ? ln(g, y) : y};
  int n = atvi_lang_dist_get(dist)->n_arg;
  for (int k = 0; k < n; k++)
    if ((arg[k + 1] = a[k]) == ATVI_NODE_NONE) return ATVI_NODE_NONE;
  if (!has_function(dist)) {
    node x = closed_tail(g, dist, y, a, upper);
    return x == ATVI_NODE_NONE ? x : unless(g, bad_args(g, dist, a), -HUGE_VAL, x);
  }
  /* the upper tail's function follows the lower one's in the list */
  if (dist == ATVI_DIST_POISSON && log_mean(g, a[0], &arg[1])) fn = ATVI_FN_POISSON_LOG_LCDF;
  if (dist == ATVI_DIST_NEGBIN && log_mean(g, a[0], &arg[1])) fn = ATVI_FN_NEGBIN_LOG_LCDF;
  if (dist == ATVI_DIST_BINOMIAL && atvi_graph_get(g, a[1]).op == ATVI_OP_INVLOGIT) {
    fn = ATVI_FN_BINOMIAL_LOGIT_LCDF;
    arg[2] = atvi_graph_get(g, a[1]).arg[0];
  }
  node x = atvi_graph_fn(g, (atvi_fn)(fn + (upper ? 1 : 0)), 0, n + 1, arg);
  return unless(g, bad_args(g, dist, a), -HUGE_VAL, x);
}

atvi_node atvi_lang_dist_lcdf(atvi_graph *g, atvi_dist dist, atvi_node y, const atvi_node *arg) {
  return tail(g, dist, y, arg, false);
}

atvi_node atvi_lang_dist_lccdf(atvi_graph *g, atvi_dist dist, atvi_node y, const atvi_node *arg) {
  return tail(g, dist, y, arg, true);
}

/* log(exp(big) - exp(small)) */
static node node_log_diff(graph *g, node big, node small) {
  return add(g, big, ln(g, neg(g, atvi_graph_op1(g, ATVI_OP_EXPM1, sub(g, small, big)))));
}

/* log(Phi(b) - Phi(a)): from the tail in which both lie, else precision is lost. */
static node normal_mass(graph *g, node a, node b, bool open_below, bool open_above) {
  if (open_below && open_above) return num(g, 0);
  if (open_below) return atvi_graph_op1(g, ATVI_OP_LOG_NDTR, b);
  if (open_above) return atvi_graph_op1(g, ATVI_OP_LOG_NDTR, neg(g, a));
  node right = less(g, num(g, 0), add(g, a, b));
  node big = atvi_graph_op1(g, ATVI_OP_LOG_NDTR, atvi_graph_select(g, right, neg(g, a), b));
  node small = atvi_graph_op1(g, ATVI_OP_LOG_NDTR, atvi_graph_select(g, right, neg(g, b), a));
  return node_log_diff(g, big, small);
}

static node cauchy_mass(graph *g, double lower, double upper, node location, node scale, double factor) {
  node ends[2];
  double end[2] = {lower, upper};
  for (int k = 0; k < 2; k++)
    ends[k] = isinf(end[k]) ? num(g, end[k] > 0 ? exp(LOG_PI) / 2 : -exp(LOG_PI) / 2)
                            : atvi_graph_op1(g, ATVI_OP_ATAN, scaled(g, num(g, end[k]), location, scale));
  return add(g, ln(g, sub(g, ends[1], ends[0])), num(g, log(factor) - LOG_PI));
}

/* A family with a location, whose argument is the last but one. */
static node line_mass(graph *g, atvi_dist dist, double lower, double upper, const node *a) {
  if (isinf(lower) && isinf(upper)) return num(g, 0);
  if (isinf(lower)) return atvi_lang_dist_lcdf(g, dist, num(g, upper), a);
  if (isinf(upper)) return atvi_lang_dist_lccdf(g, dist, num(g, lower), a);
  node location = a[atvi_lang_dist_get(dist)->n_arg - 2];
  node right = less(g, mul(g, num(g, 2), location), num(g, lower + upper));
  node above = node_log_diff(g, atvi_lang_dist_lccdf(g, dist, num(g, lower), a),
                             atvi_lang_dist_lccdf(g, dist, num(g, upper), a));
  node below = node_log_diff(g, atvi_lang_dist_lcdf(g, dist, num(g, upper), a),
                             atvi_lang_dist_lcdf(g, dist, num(g, lower), a));
  return atvi_graph_select(g, right, above, below);
}

static node constant_mass(graph *g, atvi_dist dist, double lower, double upper, const node *a, bool *all) {
  double arg[ATVI_DIST_ARGS] = {0};
  *all = true;
  for (int k = 0; k < atvi_lang_dist_get(dist)->n_arg; k++)
    *all = *all && a[k] != ATVI_NODE_NONE && atvi_graph_is_const(g, a[k], &arg[k]);
  return *all ? num(g, atvi_lang_dist_log_mass(dist, lower, upper, arg)) : ATVI_NODE_NONE;
}

/* For arguments in their ranges, not all of them constant. */
static node mass(graph *g, atvi_dist dist, double lo, double upper, const node *a) {
  node zero = num(g, 0), nl = num(g, lo), nu = num(g, upper), x;
  switch (dist) {
  case ATVI_DIST_UNIFORM: {
    node from = isinf(lo) ? a[0] : atvi_graph_op2(g, ATVI_OP_MAX, a[0], nl);
    node to = isinf(upper) ? a[1] : atvi_graph_op2(g, ATVI_OP_MIN, a[1], nu);
    return sub(g, ln(g, sub(g, to, from)), ln(g, sub(g, a[1], a[0])));
  }
  case ATVI_DIST_NORMAL:
    return normal_mass(g, scaled(g, nl, a[0], a[1]), scaled(g, nu, a[0], a[1]), isinf(lo), isinf(upper));
  case ATVI_DIST_LOGNORMAL:
    return normal_mass(g, scaled(g, ln(g, nl), a[0], a[1]), scaled(g, ln(g, nu), a[0], a[1]), lo <= 0,
                       isinf(upper));
  case ATVI_DIST_HALFNORMAL:
    return add(g, num(g, LOG_2),
               normal_mass(g, divide(g, nl, a[0]), divide(g, nu, a[0]), false, isinf(upper)));
  case ATVI_DIST_EXPONENTIAL: /* exp(-rl) (1 - exp(-r(u-l))) */
    x = neg(g, mul(g, a[0], nl));
    if (isinf(upper)) return x;
    return add(g, x,
               ln(g, neg(g, atvi_graph_op1(g, ATVI_OP_EXPM1, neg(g, mul(g, a[0], num(g, upper - lo)))))));
  case ATVI_DIST_HALFCAUCHY: return cauchy_mass(g, lo, upper, zero, a[0], 2);
  case ATVI_DIST_CAUCHY: return cauchy_mass(g, lo, upper, a[0], a[1], 1);
  case ATVI_DIST_STUDENT:
  case ATVI_DIST_LAPLACE:
  case ATVI_DIST_LOGISTIC: return line_mass(g, dist, lo, upper, a);
  case ATVI_DIST_WEIBULL:
    if (isinf(upper)) return atvi_lang_dist_lccdf(g, dist, nl, a);
    if (lo <= 0) return atvi_lang_dist_lcdf(g, dist, nu, a);
    return node_log_diff(g, atvi_lang_dist_lccdf(g, dist, nl, a), atvi_lang_dist_lccdf(g, dist, nu, a));
  default: return ATVI_NODE_NONE;
  }
}

atvi_node atvi_lang_dist_lmass(atvi_graph *g, atvi_dist dist, double lower, double upper,
                               const atvi_node *a) {
  bool all;
  node x = constant_mass(g, dist, lower, upper, a, &all);
  if (all) return x;
  for (int k = 0; k < atvi_lang_dist_get(dist)->n_arg; k++)
    if (a[k] == ATVI_NODE_NONE) return ATVI_NODE_NONE;
  x = mass(g, dist, fmax(lower, atvi_lang_dist_get(dist)->lower), upper, a);
  return x == ATVI_NODE_NONE ? x : unless(g, bad_args(g, dist, a), 0, x);
}

atvi_node atvi_lang_dist_mean(atvi_graph *g, atvi_dist dist, const atvi_node *a) {
  switch (dist) {
  case ATVI_DIST_POISSON:
  case ATVI_DIST_NEGBIN:
  case ATVI_DIST_NORMAL: return a[0];
  case ATVI_DIST_STUDENT: return a[1];
  case ATVI_DIST_BINOMIAL: return mul(g, a[0], a[1]);
  case ATVI_DIST_LOGNORMAL:
    return atvi_graph_op1(g, ATVI_OP_EXP, add(g, a[0], mul(g, num(g, 0.5), mul(g, a[1], a[1]))));
  case ATVI_DIST_CAUCHY:
  case ATVI_DIST_LAPLACE:
  case ATVI_DIST_LOGISTIC:
  case ATVI_DIST_HALFCAUCHY: return a[0]; /* where there is no mean, the median */
  case ATVI_DIST_UNIFORM: return mul(g, num(g, 0.5), add(g, a[0], a[1]));
  case ATVI_DIST_GAMMA: return divide(g, a[0], a[1]);
  case ATVI_DIST_INVGAMMA:
    return atvi_graph_select(g, less(g, num(g, 1), a[0]), divide(g, a[1], sub(g, a[0], num(g, 1))),
                             num(g, HUGE_VAL));
  case ATVI_DIST_BETA: return divide(g, a[0], add(g, a[0], a[1]));
  case ATVI_DIST_EXPONENTIAL: return divide(g, num(g, 1), a[0]);
  case ATVI_DIST_HALFNORMAL: return mul(g, num(g, sqrt(2 / exp(LOG_PI))), a[0]);
  case ATVI_DIST_WEIBULL:
    return mul(g, a[1],
               atvi_graph_op1(g, ATVI_OP_EXP, lgam(g, add(g, num(g, 1), divide(g, num(g, 1), a[0])))));
  case ATVI_DIST_BETABINOMIAL: return mul(g, a[0], divide(g, a[1], add(g, a[1], a[2])));
  default: return ATVI_NODE_NONE;
  }
}
