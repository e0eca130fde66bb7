/* SPDX-License-Identifier: MIT */
/* Bridge sampling with the optimal bridge, iterated (Meng & Wong 1996, eq. 4.1):
 *
 *     r <- mean over q of [ l / (s1 l + s2 r) ]  /  mean over pi of [ 1 / (s1 l + s2 r) ],   l = pi / q,
 *
 * s1 and s2 the shares of the two samples. Draws of a chain count as many as their effective size; its mean
 * is of them all. Error: the relative mean squared error of Fruehwirth-Schnatter (2004, section 3),
 *
 *     var_q(f1) / (n_q mean(f1)^2) + var_pi(f2) / (ess(f2) mean(f2)^2),   f1 = l / (s1 l + s2 r),  f2 = 1 / (s1 l + s2 r).
 *
 * Both functions are bounded whatever the tails of l, which is why this works where importance sampling does
 * not. All is done with l / r, so that nothing overflows: r is kept by its logarithm. */
#include "math/stat/stat.h"
#include <math.h>

enum { ITERATIONS_MAX = 1000 };
#define TOL 1e-10 /* of log r between iterations: far below any standard error */

size_t atvi_math_bridge_work(const atvi_bridge_draws *b) {
  return (size_t)(b->m * b->n) + atvi_math_stat_work(b->m, b->n);
}

/* With t = log l - log r: l / r / (s1 l / r + s2), and 1 / (s1 l / r + s2). Written so that e^t never
 * overflows. */
static double of_q(double t, double s1, double s2) { return 1 / (s1 + s2 * exp(-t)); }
static double of_p(double t, double s1, double s2) {
  return t > 0 ? exp(-t) / (s1 + s2 * exp(-t)) : 1 / (s1 * exp(t) + s2);
}

typedef struct {
  double mean, var; /* of the terms */
} moments;

static moments mean_over(atvi_idx n, const double *log_l, double log_r, double s1, double s2,
                         double (*f)(double, double, double)) {
  double sum = 0, sq = 0;
  for (atvi_idx i = 0; i < n; i++) sum += f(log_l[i] - log_r, s1, s2);
  double mean = sum / (double)n;
  for (atvi_idx i = 0; i < n; i++) {
    double e = f(log_l[i] - log_r, s1, s2) - mean;
    sq += e * e;
  }
  return (moments){mean, sq / (double)(n - 1)};
}

/* Effective number of the chains' draws for the mean of f2 (log_r NaN: of log l itself). */
static double effective(const atvi_bridge_draws *b, double log_r, double s1, double s2, double *work) {
  atvi_idx n = b->m * b->n;
  for (atvi_idx i = 0; i < n; i++) work[i] = isnan(log_r) ? b->log_p[i] : of_p(b->log_p[i] - log_r, s1, s2);
  double ess = atvi_math_converge(b->m, b->n, work, work + n).ess_mean;
  return ess > 0 ? fmin(ess, (double)n) : (double)n; /* constant: every draw says the same */
}

static double start(const atvi_bridge_draws *b) {
  double top = -HUGE_VAL, sum = 0;
  for (atvi_idx i = 0; i < b->n_q; i++)
    if (b->log_q[i] > top) top = b->log_q[i];
  for (atvi_idx i = 0; i < b->n_q; i++) sum += exp(b->log_q[i] - top);
  return top + log(sum / (double)b->n_q);
}

atvi_bridge_info atvi_math_bridge(const atvi_bridge_draws *b, double *work) {
  atvi_bridge_info out = {NAN, NAN, 0};
  double log_r = start(b);
  if (!isfinite(log_r)) return out;
  double ess = effective(b, NAN, 0, 0, work), s1 = ess / (ess + (double)b->n_q), s2 = 1 - s1;
  moments q, p;
  for (;; out.iterations++) {
    q = mean_over(b->n_q, b->log_q, log_r, s1, s2, of_q);
    p = mean_over(b->m * b->n, b->log_p, log_r, s1, s2, of_p);
    double step = log(q.mean / p.mean); /* the terms are those of l / r */
    if (!isfinite(step)) return out;
    log_r += step;
    if (fabs(step) < TOL || out.iterations == ITERATIONS_MAX) break;
  }
  ess = effective(b, log_r, s1, s2, work);
  out.log_evidence = log_r;
  out.se = sqrt(q.var / ((double)b->n_q * q.mean * q.mean) + p.var / (ess * p.mean * p.mean));
  return out;
}
