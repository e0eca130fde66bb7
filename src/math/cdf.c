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
#include <float.h>
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
  double v = atvi_math_log_ndtr(sign * z);
  if (isinf(v)) return trivial(false, grad, 2);
  if (grad) {
    double d = sign * atvi_math_log_ndtr_d(sign * z) / sd;
    grad[0] = -d;
    grad[1] = d == 0 ? 0 : -z * d;
  }
  return v;
}

double atvi_math_normal_lcdf(double y, double mean, double sd, double grad[2]) {
  return normal_tail((y - mean) / sd, 1, sd, grad);
}

double atvi_math_normal_lccdf(double y, double mean, double sd, double grad[2]) {
  return normal_tail((y - mean) / sd, -1, sd, grad);
}

/* log P(T <= t), args = {t}. I_x(df/2, 1/2) with x = df / (df + t^2) is P(|T| > |t|). */
static double student_log_cdf(const double *args, double df) {
  double t = args[0], p, q;
  if (isinf(df)) return atvi_math_log_ndtr(t);
  if (isinf(t)) return t > 0 ? 0 : -HUGE_VAL;
  double t2 = t * t, x = isinf(t2) ? 0 : df / (df + t2), y = isinf(t2) ? 1 : t2 / (df + t2);
  atvi_math_log_beta_pq(0.5 * df, 0.5, x, y, &p, &q);
  if (t <= 0) return p - log(2.0);
  return log1p(-0.5 * exp(p));
}

static double student_tail(double t, double sign, double df, double scale, double grad[3]) {
  if (!(df > 0) || !(scale > 0) || isnan(t)) return bad(grad, 3);
  double arg = sign * t, v = student_log_cdf(&arg, df);
  if (isinf(v) || isinf(t)) return trivial(!isinf(v), grad, 3);
  if (grad) {
    double lpdf =
        isinf(df) ? -0.5 * t * t - ATVI_LN_SQRT_2PI
                  : -atvi_math_lbeta(0.5 * df, 0.5) - 0.5 * log(df) - 0.5 * (df + 1.0) * log1p(t * t / df);
    double d = sign * exp(lpdf - v) / scale;
    grad[0] = isinf(df) || t == 0 ? 0 : slope(student_log_cdf, &arg, df);
    grad[1] = -d;
    grad[2] = -t * d;
  }
  return v;
}

double atvi_math_student_lcdf(double y, double df, double loc, double scale, double grad[3]) {
  return student_tail((y - loc) / scale, 1, df, scale, grad);
}

double atvi_math_student_lccdf(double y, double df, double loc, double scale, double grad[3]) {
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
  atvi_math_log_gamma_pq(k + 1.0, mean, &p, &q);
  double v = lower ? q : p;
  if (isinf(v)) return trivial(false, grad, 1);
  if (grad) grad[0] = (lower ? -1 : 1) * exp(atvi_math_log_pois(k, mean) - v);
  return v;
}

double atvi_math_poisson_lcdf(double y, double mean, double grad[1]) {
  return poisson_tail(y, true, mean, grad);
}
double atvi_math_poisson_lccdf(double y, double mean, double grad[1]) {
  return poisson_tail(y, false, mean, grad);
}

/* args = {k, mean, lower}; P(Y <= k) = I_x(size, k + 1), x = size / (size + mean). */
static double negbin_log_tail(const double *args, double size) {
  double k = args[0], mean = args[1], p, q;
  atvi_math_log_beta_pq(size, k + 1.0, size / (size + mean), mean / (size + mean), &p, &q);
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
    double front = atvi_math_log_binom(size, k + 1.0, x, mean / (size + mean)) + log(size / n * (k + 1.0));
    grad[0] = (lower ? -1 : 1) * exp(front - log(mean) - v);
    grad[1] = slope(negbin_log_tail, args, size);
  }
  return v;
}

double atvi_math_negbin_lcdf(double y, double mean, double size, double grad[2]) {
  return negbin_tail(y, true, mean, size, grad);
}

double atvi_math_negbin_lccdf(double y, double mean, double size, double grad[2]) {
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
  atvi_math_log_beta_pq(n - k, k + 1.0, 1.0 - p, p, &lp, &lq);
  double v = lower ? lp : lq;
  if (isinf(v)) return trivial(false, grad, 2);
  if (grad) { /* dP/dp = -(n - k) C(n, k) p^k (1 - p)^(n-k-1) */
    grad[0] = 0;
    grad[1] = (lower ? -1 : 1) * (n - k) / (1.0 - p) * exp(atvi_math_log_binom(k, n - k, p, 1.0 - p) - v);
  }
  return v;
}

double atvi_math_binomial_lcdf(double y, double n, double p, double grad[2]) {
  return binomial_tail(y, true, n, p, grad);
}

double atvi_math_binomial_lccdf(double y, double n, double p, double grad[2]) {
  return binomial_tail(y, false, n, p, grad);
}

/* By log mean and by logit. I_u(a, b) = u^a / (a B(a, b)) (1 + O(u)), which is exact to the last digit below
 * this u. */
#define LOG_LEAD (-600.0)

static double complement(double log_p) { return log_p > -0.7 ? log(-expm1(log_p)) : log1p(-exp(log_p)); }

/* log I_u(a, b), or log(1 - I_u(a, b)) if upper, where log(u / (1 - u)) = l. */
static double beta_logit(double a, double b, double l, bool upper) {
  double p, q;
  if (l < LOG_LEAD || -l < LOG_LEAD) {
    bool low = l < 0;
    double v =
        fmin(low ? a * l - log(a) - atvi_math_lbeta(a, b) : -b * l - log(b) - atvi_math_lbeta(a, b), 0.0);
    return low != upper ? v : complement(v);
  }
  atvi_math_log_beta_pq(a, b, 1.0 / (1.0 + exp(-l)), 1.0 / (1.0 + exp(l)), &p, &q);
  return upper ? q : p;
}

/* d/dl of it: u^a (1 - u)^b / B(a, b) over the probability. */
static double beta_logit_slope(double a, double b, double l, bool upper, double v) {
  double front;
  bool low = l < LOG_LEAD;
  if (low || -l < LOG_LEAD) {
    if (low != upper) return low ? a : -b;
    front = (low ? a * l : -b * l) - atvi_math_lbeta(a, b);
  } else
    front =
        atvi_math_log_binom(a, b, 1.0 / (1.0 + exp(-l)), 1.0 / (1.0 + exp(l))) + log(b / (a + b)) + log(a);
  return (upper ? -1 : 1) * exp(front - v);
}

static double poisson_log_tail(double y, bool lower, double log_mean, double grad[1]) {
  if (isnan(log_mean) || isnan(y)) return bad(grad, 1);
  if (y < 0 || isinf(y)) return trivial(lower == (y > 0), grad, 1);
  if (log_mean == -HUGE_VAL) return trivial(lower, grad, 1);
  double k = floor(y), mean = exp(log_mean);
  if (log_mean < LOG_LEAD) { /* P(Y > k) = mean^(k+1) / (k+1)! (1 + O(mean)) */
    if (grad) grad[0] = lower ? 0 : k + 1.0;
    return lower ? 0 : (k + 1.0) * log_mean - atvi_math_lgamma(k + 2.0);
  }
  double v = poisson_tail(y, lower, mean, NULL);
  if (isinf(v) || isinf(mean)) return trivial(!isinf(v), grad, 1);
  if (grad) grad[0] = (lower ? -1 : 1) * exp(atvi_math_log_pois(k, mean) + log_mean - v);
  return v;
}

double atvi_math_poisson_log_lcdf(double y, double log_mean, double grad[1]) {
  return poisson_log_tail(y, true, log_mean, grad);
}
double atvi_math_poisson_log_lccdf(double y, double log_mean, double grad[1]) {
  return poisson_log_tail(y, false, log_mean, grad);
}

/* args = {k, log mean, lower}; P(Y > k) = I_u(k + 1, size), log(u / (1 - u)) = log mean - log size. */
static double negbin_logit_tail(const double *args, double size) {
  return beta_logit(args[0] + 1.0, size, args[1] - log(size), args[2] > 0);
}

static double negbin_log_tail_by(double y, bool lower, double log_mean, double size, double grad[2]) {
  if (isnan(log_mean) || !(size > 0) || isnan(y)) return bad(grad, 2);
  if (isinf(size)) {
    double v = poisson_log_tail(y, lower, log_mean, grad);
    if (grad) grad[1] = 0;
    return v;
  }
  if (y < 0 || isinf(y)) return trivial(lower == (y > 0), grad, 2);
  if (isinf(log_mean)) return trivial(lower == (log_mean < 0), grad, 2);
  double k = floor(y), args[3] = {k, log_mean, lower}, v = negbin_logit_tail(args, size);
  if (isinf(v)) return trivial(false, grad, 2);
  if (grad) {
    grad[0] = beta_logit_slope(k + 1.0, size, log_mean - log(size), lower, v);
    grad[1] = slope(negbin_logit_tail, args, size);
  }
  return v;
}

double atvi_math_negbin_log_lcdf(double y, double log_mean, double size, double grad[2]) {
  return negbin_log_tail_by(y, true, log_mean, size, grad);
}
double atvi_math_negbin_log_lccdf(double y, double log_mean, double size, double grad[2]) {
  return negbin_log_tail_by(y, false, log_mean, size, grad);
}

/* P(Y > k) = I_p(k + 1, n - k) */
static double binomial_logit_tail(double y, bool lower, double n, double logit, double grad[2]) {
  if (!(n >= 0) || isnan(logit) || isnan(y)) return bad(grad, 2);
  if (y < 0 || y >= n) return trivial(lower == (y >= n), grad, 2);
  if (isinf(logit)) return trivial(lower == (logit < 0), grad, 2);
  double k = floor(y), v = beta_logit(k + 1.0, n - k, logit, lower);
  if (isinf(v)) return trivial(false, grad, 2);
  if (grad) {
    grad[0] = 0;
    grad[1] = beta_logit_slope(k + 1.0, n - k, logit, lower, v);
  }
  return v;
}

double atvi_math_binomial_logit_lcdf(double y, double n, double logit, double grad[2]) {
  return binomial_logit_tail(y, true, n, logit, grad);
}
double atvi_math_binomial_logit_lccdf(double y, double n, double logit, double grad[2]) {
  return binomial_logit_tail(y, false, n, logit, grad);
}

/* Incomplete gamma and beta functions, in logs.
 *
 * The tail that ends at x and does not hold the mode is computed, the other one is its complement.
 * Small shapes: power series or continued fraction (Lentz). From LARGE on these need sqrt(shape)
 * terms; there the tail is integrated outwards from x by one Gauss-Legendre rule instead, with the
 * integrand relative to its value at x. Its exponent
 *   e(u) = A log1pmx(s u) + C log1pmx(r u) - c u,   u in [0, end], e(end) = -DROP,
 * is concave and free of cancellation (s = +-1; gamma has C = 0), so the cost does not grow. */

#define LARGE 100.0
#define DROP 42.0   /* the tail left out is below e^-42 of the integral */
#define TINY 1e-300 /* keeps Lentz's quotients from dividing by zero */
enum { MAX_TERMS = 100000, GL_HALF = 16 };

/* Gauss-Legendre on [-1, 1] with 32 points: nodes are +-gl_x[i]. */
static const double gl_x[GL_HALF] = {
    0.048307665687738316235, 0.14447196158279649349, 0.23928736225213707454, 0.33186860228212764978,
    0.42135127613063534536,  0.50689990893222939002, 0.58771575724076232904, 0.66304426693021520098,
    0.73218211874028968039,  0.79448379596794240696, 0.84936761373256997013, 0.89632115576605212397,
    0.93490607593773968917,  0.96476225558750643077, 0.9856115115452683354,  0.99726386184948156354};
static const double gl_w[GL_HALF] = {
    0.096540088514727800567, 0.095638720079274859419, 0.093844399080804565639, 0.091173878695763884713,
    0.087652093004403811143, 0.083311924226946755222, 0.078193895787070306472, 0.072345794108848506225,
    0.065822222776361846838, 0.058684093478535547145, 0.050998059262376176196, 0.042835898022226680657,
    0.034273862913021433103, 0.025392065309262059456, 0.016274394730905670605, 0.0070186100094700966004};

typedef struct {
  double A, s, C, r, c;
} tail;

static double tail_exponent(const tail *t, double u) {
  double e = t->A * atvi_math_log1pmx(t->s * u) - t->c * u;
  return t->C > 0 ? e + t->C * atvi_math_log1pmx(t->r * u) : e;
}

/* Integral of exp(e(u)) from 0 to the end of what counts. */
static double tail_integral(const tail *t) {
  double K = t->A + t->C * t->r * t->r, end = 2.0 * DROP / (t->c + sqrt(t->c * t->c + 2.0 * DROP * K)),
         sum = 0;
  double limit = t->s < 0 ? 1.0 - 1e-12 : HUGE_VAL;
  for (int k = 0; k < 3; k++) { /* Newton for e(end) = -DROP; overshooting is harmless */
    end = fmin(end, limit);
    double slope = -t->A * end / (1.0 + t->s * end) - t->C * t->r * t->r * end / (1.0 + t->r * end) - t->c;
    end -= (tail_exponent(t, end) + DROP) / slope;
  }
  end = fmin(end, limit);
  for (int i = 0; i < GL_HALF; i++) {
    double d = 0.5 * end * gl_x[i], m = 0.5 * end;
    sum += gl_w[i] * (exp(tail_exponent(t, m - d)) + exp(tail_exponent(t, m + d)));
  }
  return 0.5 * end * sum;
}

static double gamma_series(double a, double x) {
  double term = 1, sum = 1;
  for (int k = 1; k < MAX_TERMS && term > sum * DBL_EPSILON * 0.1; k++) sum += term *= x / (a + k);
  return sum;
}

/* x^-a e^x Gamma(a, x), x > a - 1 or so. */
static double gamma_fraction(double a, double x) {
  double b = x + 1.0 - a, c = 1.0 / TINY, d = 1.0 / b, h = d;
  for (int k = 1; k < MAX_TERMS; k++) {
    double an = -k * (k - a);
    b += 2.0;
    d = an * d + b;
    if (fabs(d) < TINY) d = TINY;
    c = b + an / c;
    if (fabs(c) < TINY) c = TINY;
    d = 1.0 / d;
    h *= d * c;
    if (fabs(d * c - 1.0) < DBL_EPSILON) break;
  }
  return h;
}

/* Q for a < 1, x < 1, where P may be close to 1:
 * P = x^a / Gamma(1 + a) (1 + a sum_k (-x)^k / (k! (a + k))). */
static double gamma_q_small(double a, double x) {
  double s = 1.0 + a, lost = a - (s - 1.0); /* what rounding took from a */
  double term = 1, sum = 0, log_front = a * log(x) - (atvi_math_lgamma(s) + lost * atvi_math_digamma(s));
  for (int k = 1; k < 30; k++) {
    term *= -x / k;
    sum += term / (a + k);
  }
  return -expm1(log_front) - exp(log_front) * a * sum;
}

void atvi_math_log_gamma_pq(double a, double x, double *log_p, double *log_q) {
  *log_p = *log_q = NAN;
  if (!(a > 0) || !(x >= 0)) return;
  if (x == 0 || isinf(x)) {
    *log_p = x == 0 ? -HUGE_VAL : 0;
    *log_q = x == 0 ? 0 : -HUGE_VAL;
    return;
  }
  double front = atvi_math_log_pois(a, x);
  bool lower = x <= a;
  double v;
  if (a >= LARGE) {
    tail t = {.A = a - 1.0, .s = lower ? -1 : 1, .c = lower ? a - 1.0 - x : x - a + 1.0};
    v = front + log(a * tail_integral(&t));
  } else if (a < 1 && x < 1) {
    *log_p = front + log(gamma_series(a, x));
    *log_q = log(gamma_q_small(a, x));
    return;
  } else {
    lower = x < a + 1.0;
    v = lower ? front + log(gamma_series(a, x)) : front + log(a * gamma_fraction(a, x));
  }
  v = fmin(v, 0.0);
  *log_p = lower ? v : complement(v);
  *log_q = lower ? complement(v) : v;
}

double atvi_math_gamma_p(double a, double x) {
  double p, q;
  atvi_math_log_gamma_pq(a, x, &p, &q);
  return exp(p);
}

double atvi_math_gamma_q(double a, double x) {
  double p, q;
  atvi_math_log_gamma_pq(a, x, &p, &q);
  return exp(q);
}

/* B(a, b) x^-a y^-b I_x(a, b) for x up to about the mean, as 1/(beta_0 + alpha_1/(beta_1 + ...)) (DiDonato
 * and Morris 1992). The usual fraction is this one before contraction, and has terms 1 - x that cancel when
 * the mean is close to 1; here only y and a y - b x appear. */
static double beta_fraction(double a, double b, double x, double y) {
  double lambda = a * y - b * x, f = (1.0 + lambda) / (1.0 + 1.0 / a), c = f, d = 0;
  for (int n = 1; n < MAX_TERMS; n++) {
    double s = a + 2 * n - 1.0, w = n * (b - n) * x;
    double alpha = (a + n - 1.0) / s * ((a + b + n - 1.0) / s) * w * x;
    double beta = n + w / s + (a + n) / (s + 2.0) * (1.0 + lambda + n * (1.0 + y));
    d = beta + alpha * d;
    if (fabs(d) < TINY) d = TINY;
    d = 1.0 / d;
    c = beta + alpha / c;
    if (fabs(c) < TINY) c = TINY;
    f *= c * d;
    if (fabs(c * d - 1.0) < DBL_EPSILON) break;
  }
  return 1.0 / f;
}

void atvi_math_log_beta_pq(double a, double b, double x, double y, double *log_p, double *log_q) {
  *log_p = *log_q = NAN;
  if (!(a > 0) || !(b > 0) || !(x >= 0) || !(y >= 0)) return;
  if (x == 0 || y == 0) {
    *log_p = x == 0 ? -HUGE_VAL : 0;
    *log_q = x == 0 ? 0 : -HUGE_VAL;
    return;
  }
  bool large = fmin(a, b) >= LARGE;
  bool swap = large ? x * b > y * a : x * (b + 1.0) > y * (a + 1.0);
  if (swap) {
    atvi_math_log_beta_pq(b, a, y, x, log_q, log_p);
    return;
  }
  double front = atvi_math_log_binom(a, b, x, y) + log(b / (a + b)), v; /* x^a y^b / (a B(a, b)) */
  if (large) {
    tail t = {.A = a - 1.0, .s = -1, .C = b - 1.0, .r = x / y, .c = (a - 1.0) - (b - 1.0) * (x / y)};
    v = front + log(a / y * tail_integral(&t));
  } else {
    v = front + log(a * beta_fraction(a, b, x, y));
  }
  *log_p = fmin(v, 0.0);
  *log_q = complement(*log_p);
}

double atvi_math_beta_inc(double a, double b, double x) {
  double p, q;
  atvi_math_log_beta_pq(a, b, x, 1.0 - x, &p, &q);
  return exp(p);
}
