/* SPDX-License-Identifier: MIT */
/* Incomplete gamma and beta functions, in logs.
 *
 * The tail that ends at x and does not hold the mode is computed, the other one is its complement.
 * Small shapes: power series or continued fraction (Lentz). From LARGE on these need sqrt(shape)
 * terms; there the tail is integrated outwards from x by one Gauss-Legendre rule instead, with the
 * integrand relative to its value at x. Its exponent
 *   e(u) = A log1pmx(s u) + C log1pmx(r u) - c u,   u in [0, end], e(end) = -DROP,
 * is concave and free of cancellation (s = +-1; gamma has C = 0), so the cost does not grow. */
#include "math/detail.h"
#include "math/special.h"
#include <float.h>
#include <math.h>

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
  double e = t->A * atvi_log1pmx(t->s * u) - t->c * u;
  return t->C > 0 ? e + t->C * atvi_log1pmx(t->r * u) : e;
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

static double complement(double log_p) { return log_p > -0.7 ? log(-expm1(log_p)) : log1p(-exp(log_p)); }

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
  double term = 1, sum = 0, log_front = a * log(x) - (atvi_lgamma(s) + lost * atvi_digamma(s));
  for (int k = 1; k < 30; k++) {
    term *= -x / k;
    sum += term / (a + k);
  }
  return -expm1(log_front) - exp(log_front) * a * sum;
}

void atvi_log_gamma_pq(double a, double x, double *log_p, double *log_q) {
  *log_p = *log_q = NAN;
  if (!(a > 0) || !(x >= 0)) return;
  if (x == 0 || isinf(x)) {
    *log_p = x == 0 ? -HUGE_VAL : 0;
    *log_q = x == 0 ? 0 : -HUGE_VAL;
    return;
  }
  double front = atvi_log_pois(a, x);
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

double atvi_gamma_p(double a, double x) {
  double p, q;
  atvi_log_gamma_pq(a, x, &p, &q);
  return exp(p);
}

double atvi_gamma_q(double a, double x) {
  double p, q;
  atvi_log_gamma_pq(a, x, &p, &q);
  return exp(q);
}

/* B(a, b) x^-a y^-b I_x(a, b) for x up to about the mean, as 1/(beta_0 + alpha_1/(beta_1 + ...)) (DiDonato and
 * Morris 1992). The usual fraction is this one before contraction, and has terms 1 - x that
 * cancel when the mean is close to 1; here only y and a y - b x appear. */
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

void atvi_log_beta_pq(double a, double b, double x, double y, double *log_p, double *log_q) {
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
    atvi_log_beta_pq(b, a, y, x, log_q, log_p);
    return;
  }
  double front = atvi_log_binom(a, b, x, y) + log(b / (a + b)), v; /* x^a y^b / (a B(a, b)) */
  if (large) {
    tail t = {.A = a - 1.0, .s = -1, .C = b - 1.0, .r = x / y, .c = (a - 1.0) - (b - 1.0) * (x / y)};
    v = front + log(a / y * tail_integral(&t));
  } else {
    v = front + log(a * beta_fraction(a, b, x, y));
  }
  *log_p = fmin(v, 0.0);
  *log_q = complement(*log_p);
}

double atvi_beta_inc(double a, double b, double x) {
  double p, q;
  atvi_log_beta_pq(a, b, x, 1.0 - x, &p, &q);
  return exp(p);
}
