/* SPDX-License-Identifier: MIT */
/* The M = min(S/5, 3 sqrt S) largest weights are replaced by the expected order statistics of a generalised
 * Pareto distribution fitted to their excess over the largest weight that is left as it is (the cutoff), and
 * cut at the largest raw weight. Weights are scaled so that the largest is 1: exp never overflows, and
 * weights that underflow are no part of the tail.
 *
 * Zhang & Stephens (2009) estimate b = -k / sigma (theta in their paper) as the posterior mean over a grid of
 * quantiles of a prior that scales with the sample's quartile; k follows from b in closed form. k is then
 * shrunk towards 1/2 as by ten observations (Vehtari and others). */
#include "math/stat/stat.h"
#include <math.h>

enum { MIN_DRAWS = 25, MIN_TAIL = 5, PRIOR_COUNT = 10, MIN_TAIL_INDEX = 50 };
#define PRIOR_K 0.5
#define LOG_TINY (-600.0) /* exp of it times the smallest relative excess is still a normal number */

double atvi_math_psis_threshold(atvi_idx n) {
  return n <= 1 ? -HUGE_VAL : fmin(1 - 1 / log10((double)n), 0.7);
}

#define HARMLESS 0.005 /* of the weight: moves a mean by some hundredths of a standard deviation at most */

bool atvi_math_psis_permits(atvi_idx n, double khat, double excess) {
  return khat <= atvi_math_psis_threshold(n) || excess < HARMLESS;
}

/* Weights that make the tail of n. */
static atvi_idx tail_length(atvi_idx n) {
  double count = (double)n;
  return (atvi_idx)ceil(fmin(0.2 * count, 3 * sqrt(count)));
}

double atvi_math_psis_beyond(atvi_idx n, double khat, double excess) {
  double m = (double)tail_length(n), k = fmin(khat, 1);
  return excess * fmin(((fabs(k) < 1e-6 ? log(m) : (pow(m, k) - 1) / k) + 1) / m, 1);
}

#define TOP_MOST 0.5         /* of the sum: above, one draw decides */
#define LOG_MEAN_SE_MOST 0.5 /* nats: above, the mean is known by its order of magnitude alone */

bool atvi_math_weights_agree(double top, double se) { return !(top > TOP_MOST) && !(se > LOG_MEAN_SE_MOST); }

bool atvi_math_weights_few(double share) { return share < 0.1; }

double atvi_math_psis_inflation(double khat) {
  double r = 0.5 / (1 - fmin(khat, 0.9));
  return khat > 0.5 ? r * r : 1;
}

size_t atvi_math_psis_work(atvi_idx n) { return 4 * (size_t)n; }

/* ---- generalised Pareto distribution ---- */

/* k for this b: the maximiser of the likelihood. */
static double shape(atvi_idx n, const double *x, double b) {
  double sum = 0;
  for (atvi_idx i = 0; i < n; i++) sum += log1p(-b * x[i]);
  return sum / (double)n;
}

/* Log likelihood, maximised over k, per observation. Its limit for b -> 0 is the exponential distribution's. */
static double profile(atvi_idx n, const double *x, double b) {
  double k = shape(n, x, b), ratio = -b / k;
  if (!(fabs(b * x[n - 1]) > 1e-12)) {
    double mean = 0;
    for (atvi_idx i = 0; i < n; i++) mean += x[i] / (double)n;
    ratio = 1 / mean;
  }
  return log(ratio) - k - 1;
}

void atvi_math_gpd_fit(atvi_idx n, const double *x, double *k, double *sigma) {
  enum { MAX_GRID = 512 };
  double grid[MAX_GRID], value[MAX_GRID], most = -HUGE_VAL, sum = 0, b = 0;
  const double count = (double)n, quartile = x[(atvi_idx)floor(count / 4 + 0.5) - 1];
  int m = (int)fmin(30 + floor(sqrt(count)), MAX_GRID);
  for (int j = 0; j < m; j++) {
    grid[j] = 1 / x[n - 1] + (1 - sqrt(m / (j + 0.5))) / (3 * quartile);
    value[j] = count * profile(n, x, grid[j]);
    most = fmax(most, value[j]);
  }
  for (int j = 0; j < m; j++) sum += exp(value[j] - most);
  for (int j = 0; j < m; j++) b += grid[j] * exp(value[j] - most) / sum;
  *k = shape(n, x, b);
  *sigma = fabs(*k) > 1e-12 ? -*k / b : atvi_math_mean(n, x, NULL);
}

/* Outermost twentieth on one side, as distances from where it begins; weighted draws by their quantiles.
 * Returns k, or -inf. */
static double side_index(atvi_idx n, const double *xs, const double *ws, bool upper, atvi_idx m, double *x) {
  double total = 0, at = 0, k, sigma, cut = 0;
  for (atvi_idx i = 0; i < n && ws; i++) total += ws[i];
  /* From the outside in: the j-th of m + 1 quantiles, the last of which is the cutoff. */
  for (atvi_idx i = 0, j = 0; i < n && j <= m; i++) {
    atvi_idx l = upper ? n - 1 - i : i;
    at += ws ? ws[l] / total : 1 / (double)n;
    for (; j <= m && (i == n - 1 || at * (double)n > (double)j + 0.5); j++)
      j < m ? (x[j] = xs[l]) : (cut = xs[l]);
  }
  for (atvi_idx j = 0; j < m; j++) x[j] = fabs(x[j] - cut);
  for (atvi_idx j = 0; j < m / 2; j++) { /* ascending */
    double y = x[j];
    x[j] = x[m - 1 - j];
    x[m - 1 - j] = y;
  }
  if (!(x[m / 4] > 0) || !isfinite(x[m - 1])) return -HUGE_VAL;
  atvi_math_gpd_fit(m, x, &k, &sigma);
  return k;
}

double atvi_math_tail_index(atvi_idx n, const double *xs, const double *ws, double *se, double *work) {
  atvi_idx m = n / 20;
  *se = NAN;
  if (m < MIN_TAIL_INDEX) return -HUGE_VAL;
  double k = fmax(side_index(n, xs, ws, false, m, work), side_index(n, xs, ws, true, m, work));
  *se = (1 + fmax(k, 0)) / sqrt((double)m);
  return k;
}

static double quantile(double p, double k, double sigma) {
  return fabs(k) < 1e-12 ? -sigma * log1p(-p) : sigma * expm1(-k * log1p(-p)) / k;
}

/* ---- smoothing ---- */

/* Equal raw weights get the mean of what they would get: the result does not depend on the order of draws. */
static void level_ties(atvi_idx n, const double *raw, double *smooth) {
  for (atvi_idx i = 0, j; i < n; i = j) {
    double sum = 0;
    for (j = i; j < n && raw[j] == raw[i]; j++) sum += smooth[j];
    for (atvi_idx l = i; l < j; l++) smooth[l] = sum / (double)(j - i);
  }
}

/* raw[n] ascending, largest 0, are log weights; smooth[n] = weights with the tail smoothed. Sets khat and
 * n_tail. */
static void smooth_tail(atvi_idx n, const double *raw, double *smooth, atvi_psis_info *info) {
  for (atvi_idx i = 0; i < n; i++) smooth[i] = exp(raw[i]);
  if (n < MIN_DRAWS) return;
  atvi_idx at = n - tail_length(n) - 1;
  double cutoff = fmax(raw[at], LOG_TINY), above = 0, all = 0;
  for (atvi_idx i = 0; i < n; i++) {
    all += smooth[i];
    above += fmax(0, smooth[i] - exp(cutoff));
  }
  info->excess = above / all;
  while (at < n && raw[at] <= cutoff) at++;
  atvi_idx tail = n - at;
  if (tail == 0 || raw[at] == raw[n - 1]) { /* bounded by an atom; one or two alone at the top are no atom */
    info->khat = tail == 0 || tail >= MIN_TAIL ? 0 : HUGE_VAL;
    return;
  }
  info->khat = HUGE_VAL;
  if (tail < MIN_TAIL) return;
  double k, sigma, base = exp(cutoff), *x = smooth + at;
  for (atvi_idx i = 0; i < tail; i++) x[i] = base * expm1(raw[at + i] - cutoff);
  atvi_math_gpd_fit(tail, x, &k, &sigma);
  k = (k * (double)tail + PRIOR_COUNT * PRIOR_K) / (double)(tail + PRIOR_COUNT);
  for (atvi_idx i = 0; i < tail; i++)
    x[i] = fmin(base + quantile(((double)i + 0.5) / (double)tail, k, sigma), 1);
  level_ties(tail, raw + at, x);
  info->khat = k;
  info->n_tail = tail;
}

/* Mean of weights whose largest was e^-shift times too small, and its standard error. */
static void evidence(atvi_idx n, const double *raw, double shift, atvi_psis_info *info) {
  double sum = 0, square = 0;
  for (atvi_idx i = 0; i < n; i++) sum += exp(raw[i]);
  double mean = sum / (double)n;
  for (atvi_idx i = 0; i < n; i++) square += (exp(raw[i]) / mean - 1) * (exp(raw[i]) / mean - 1);
  info->log_mean = shift + log(mean);
  info->log_mean_se = n > 1 ? sqrt(square / ((double)(n - 1) * (double)n)) : NAN;
}

/* No weight above zero, or infinite ones: what remains is defined, not estimated. */
static atvi_psis_info degenerate(atvi_idx n, double top, atvi_idx count, const double *sorted,
                                 const double *order, double *w) {
  bool infinite = top == HUGE_VAL;
  for (atvi_idx i = 0; i < n; i++)
    w[(atvi_idx)order[i]] = infinite && sorted[i] == top ? 1 / (double)count : 0;
  if (!infinite) return (atvi_psis_info){NAN, 0, -HUGE_VAL, NAN, -HUGE_VAL, 0, NAN};
  return (atvi_psis_info){HUGE_VAL, (double)count, HUGE_VAL, NAN, HUGE_VAL, 0, 1};
}

atvi_psis_info atvi_math_psis(atvi_idx n, const double *log_w, double *w, double *work) {
  double *raw = work, *order = work + n, *smooth = work + 2 * n, sum = 0, square = 0;
  atvi_psis_info info = {.khat = NAN, .excess = NAN};
  for (atvi_idx i = 0; i < n; i++) {
    raw[i] = isnan(log_w[i]) ? -HUGE_VAL : log_w[i];
    order[i] = (double)i;
  }
  atvi_math_sort(n, raw, order, work + 2 * n);
  double top = raw[n - 1];
  if (!isfinite(top)) {
    atvi_idx count = 0;
    for (atvi_idx i = 0; i < n; i++) count += raw[i] == top;
    return degenerate(n, top, count, raw, order, w);
  }
  for (atvi_idx i = 0; i < n; i++) raw[i] -= top;
  evidence(n, raw, top, &info);
  smooth_tail(n, raw, smooth, &info);
  for (atvi_idx i = 0; i < n; i++) sum += smooth[i];
  info.log_mean_smooth = top + log(sum / (double)n);
  for (atvi_idx i = 0; i < n; i++) {
    double share = smooth[i] / sum;
    square += share * share;
    w[(atvi_idx)order[i]] = share;
  }
  info.ess = 1 / square;
  return info;
}

/* The posterior without observation i is the posterior divided by p(y_i | theta): its draws have weights 1 /
 * p(y_i | theta), whose tail is smoothed, and the density of y_i is its mean likelihood under them. */

static const double P_WAIC_MOST =
    0.4; /* above, WAIC is no longer like LOO (Vehtari and others 2017, section 2.2) */

size_t atvi_math_loo_work(atvi_idx n) { return atvi_math_psis_work(n) + (size_t)n; }

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

atvi_loo_point atvi_math_loo_of(atvi_idx n, const double *log_lik, double *work) {
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
  p.khat = atvi_math_psis(n, w, w, work + n).khat;
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

atvi_loo_sum atvi_math_loo_total(atvi_idx n, const atvi_loo_point *point, atvi_idx n_draw) {
  return total(n, point, false, atvi_math_psis_threshold(n_draw));
}

atvi_loo_sum atvi_math_waic_total(atvi_idx n, const atvi_loo_point *point) {
  return total(n, point, true, P_WAIC_MOST);
}

atvi_loo_difference atvi_math_loo_less(atvi_idx n, const double *x, const double *y) {
  double mean = 0, square = 0;
  for (atvi_idx i = 0; i < n; i++) mean += (x[i] - y[i]) / (double)n;
  for (atvi_idx i = 0; i < n; i++) square += (x[i] - y[i] - mean) * (x[i] - y[i] - mean);
  return (atvi_loo_difference){(double)n * mean, n > 1 ? sqrt((double)n / (double)(n - 1) * square) : NAN};
}
