/* SPDX-License-Identifier: MIT */
/* Weighted moments, quantiles and shortest intervals. */
#include "math/stat/stat.h"
#include <math.h>

static double weight(const double *w, atvi_idx i) { return w ? w[i] : 1.0; }

double atvi_mean(atvi_idx n, const double *x, const double *w) {
  double mean = 0, sum = 0;
  for (atvi_idx i = 0; i < n; i++) { /* running mean: no overflow, little rounding */
    double wi = weight(w, i);
    if (wi == 0) continue;
    sum += wi;
    mean += (x[i] - mean) * (wi / sum);
  }
  return sum > 0 ? mean : NAN;
}

double atvi_sd(atvi_idx n, const double *x, const double *w) {
  double mean = atvi_mean(n, x, w), s = 0, w1 = 0, w2 = 0;
  for (atvi_idx i = 0; i < n; i++) {
    double wi = weight(w, i);
    if (wi == 0) continue;
    s += wi * (x[i] - mean) * (x[i] - mean);
    w1 += wi;
    w2 += wi * wi;
  }
  return sqrt(s / (w1 - w2 / w1)); /* unbiased for weights that say how reliable a draw is */
}

/* Point i of n stands at probability (W_i - w_i/2 - w_0/2) / (W - w_0/2 - w_(n-1)/2), W_i the cumulative
 * weight; between points the quantile is linear. Equal weights make this i / (n - 1), type 7. */
static double weighted_quantile(atvi_idx n, const double *xs, const double *ws, double p) {
  double total = 0, at = 0;
  for (atvi_idx i = 0; i + 1 < n; i++) total += 0.5 * (ws[i] + ws[i + 1]);
  double goal = p * total;
  for (atvi_idx i = 0; i + 1 < n; i++) {
    double step = 0.5 * (ws[i] + ws[i + 1]);
    if (at + step >= goal && step > 0) return xs[i] + (xs[i + 1] - xs[i]) * ((goal - at) / step);
    at += step;
  }
  return xs[n - 1];
}

double atvi_quantile(atvi_idx n, const double *xs, const double *ws, double p) {
  if (n < 1 || !(p >= 0 && p <= 1)) return NAN;
  if (n == 1) return xs[0];
  if (ws) return weighted_quantile(n, xs, ws, p);
  double at = p * (double)(n - 1), k = floor(at);
  atvi_idx i = (atvi_idx)k;
  if (i + 1 >= n || at == k) return xs[i];
  return xs[i] + (at - k) * (xs[i + 1] - xs[i]);
}

/* Weight of the draws equal to xs[j - 1] that stand at j and after. */
static double ties_after(atvi_idx n, const double *xs, const double *ws, atvi_idx j) {
  double sum = 0;
  for (atvi_idx i = j; i < n && xs[i] == xs[j - 1]; i++) sum += weight(ws, i);
  return sum;
}

/* Counts have many shortest intervals: the one that holds most is the densest. */
void atvi_hpd(atvi_idx n, const double *xs, const double *ws, double p, double out[2]) {
  double total = 0, mass = 0, best = HUGE_VAL, most = 0;
  out[0] = out[1] = NAN;
  if (n < 1 || !(p > 0 && p <= 1)) return;
  for (atvi_idx i = 0; i < n; i++) total += weight(ws, i);
  double goal = p * total * (1.0 - 1e-12);  /* a sum of weights may fall short by rounding */
  for (atvi_idx i = 0, j = 0; i < n; i++) { /* mass: weight of draws i .. j - 1 */
    while (j < n && mass < goal) mass += weight(ws, j++);
    if (mass < goal) break;
    double length = xs[j - 1] - xs[i];
    if (length <= best && (i == 0 || xs[i] > xs[i - 1])) {
      double held = mass + ties_after(n, xs, ws, j);
      if (length < best || held > most) {
        best = length;
        most = held;
        out[0] = xs[i];
        out[1] = xs[j - 1];
      }
    }
    mass -= weight(ws, i);
  }
}
