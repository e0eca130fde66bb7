/* SPDX-License-Identifier: MIT */
/* The posterior without observation i is the posterior divided by p(y_i | theta): its draws have weights 1 / p(y_i | theta), whose
 * tail is smoothed, and the density of y_i is its mean likelihood under them. */
#include "math/stat/loo.h"
#include "math/stat/psis.h"
#include <math.h>

static const double P_WAIC_MOST =
    0.4; /* above, WAIC is no longer like LOO (Vehtari and others 2017, section 2.2) */

size_t atvi_loo_work(atvi_idx n) { return atvi_psis_work(n) + (size_t)n; }

/* log sum of w e^x, w NULL: 1/n. The largest term is taken out: nothing overflows, and one term stays. */
static double log_mean(atvi_idx n, const double *x, const double *w) {
  double top = -HUGE_VAL, sum = 0;
  for (atvi_idx i = 0; i < n; i++)
    if (!w || w[i] > 0) top = fmax(top, x[i]);
  if (!isfinite(top)) return top;
  for (atvi_idx i = 0; i < n; i++)
    if (!w || w[i] > 0) sum += (w ? w[i] : 1 / (double)n) * exp(x[i] - top);
  return top + log(sum);
}

static double variance(atvi_idx n, const double *x) {
  double mean = 0, sum = 0;
  for (atvi_idx i = 0; i < n; i++) mean += (x[i] - mean) / (double)(i + 1);
  for (atvi_idx i = 0; i < n; i++) sum += (x[i] - mean) * (x[i] - mean);
  return n > 1 ? sum / (double)(n - 1) : NAN;
}

atvi_loo_point atvi_loo_of(atvi_idx n, const double *log_lik, double *work) {
  atvi_loo_point p = {NAN, NAN, NAN, NAN, NAN};
  double *w = work, least = HUGE_VAL;
  for (atvi_idx i = 0; i < n; i++) {
    if (isnan(log_lik[i])) return p;
    least = fmin(least, log_lik[i]);
    w[i] = -log_lik[i];
  }
  p.lpd = log_mean(n, log_lik, NULL);
  if (least == -HUGE_VAL) {
    p.elpd_loo = p.elpd_waic = -HUGE_VAL;
    p.khat = p.p_waic = HUGE_VAL;
    return p;
  }
  p.khat = atvi_psis(n, w, w, work + n).khat;
  p.elpd_loo = log_mean(n, log_lik, w);
  p.p_waic = variance(n, log_lik);
  p.elpd_waic = p.lpd - p.p_waic;
  return p;
}

/* Sums one member of the points; bad and worst follow from another. */
static atvi_loo_sum total(atvi_idx n, const atvi_loo_point *point, bool waic, double most) {
  atvi_loo_sum s = {.n = n, .worst = n > 0 ? 0 : -1};
  double mean = 0, square = 0, worst = -HUGE_VAL;
  for (atvi_idx i = 0; i < n; i++) {
    double x = waic ? point[i].elpd_waic : point[i].elpd_loo, doubt = waic ? point[i].p_waic : point[i].khat;
    s.elpd += x;
    s.p += point[i].lpd - x;
    s.n_bad += !(doubt <= most);
    if (isnan(doubt)) doubt = HUGE_VAL;
    if (doubt > worst) worst = doubt, s.worst = i;
  }
  mean = s.elpd / (double)n;
  for (atvi_idx i = 0; i < n; i++) {
    double x = (waic ? point[i].elpd_waic : point[i].elpd_loo) - mean;
    square += x * x;
  }
  s.se = n > 1 ? sqrt((double)n * square / (double)(n - 1)) : NAN;
  return s;
}

atvi_loo_sum atvi_loo_total(atvi_idx n, const atvi_loo_point *point, atvi_idx n_draw) {
  return total(n, point, false, atvi_psis_threshold(n_draw));
}

atvi_loo_sum atvi_waic_total(atvi_idx n, const atvi_loo_point *point) {
  return total(n, point, true, P_WAIC_MOST);
}

atvi_loo_difference atvi_loo_less(atvi_idx n, const double *x, const double *y) {
  double mean = 0, square = 0;
  for (atvi_idx i = 0; i < n; i++) mean += (x[i] - y[i]) / (double)n;
  for (atvi_idx i = 0; i < n; i++) square += (x[i] - y[i] - mean) * (x[i] - y[i] - mean);
  return (atvi_loo_difference){(double)n * mean, n > 1 ? sqrt((double)n / (double)(n - 1) * square) : NAN};
}
