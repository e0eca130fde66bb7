/* SPDX-License-Identifier: MIT */
#include "infer/scan.h"
#include "infer/vi_tuning.h"
#include <float.h>
#include <math.h>
#include <string.h>

#define PITCH                                                                                                \
  0.36 /* between places, which are evenly spaced up to about ATVI_NEAR, and by a factor beyond it */
#define SILENT (-log(DBL_MIN)) /* nats below the top: as good as none */
#define POWER_LEAST 1.25       /* of a tail: less might have no integral */

void atvi_infer_scan_places(double *y) {
  const int half = ATVI_SCAN_FIRST / 2;
  for (int k = -half; k <= half; k++) y[k + half] = ATVI_NEAR * sinh(PITCH * k);
}

void atvi_infer_scan_next(const atvi_scan *s, double *y) {
  bool taken[ATVI_SCAN_MOST] = {false};
  double top = -HUGE_VAL;
  for (atvi_idx i = 0; i < s->n; i++) top = fmax(top, s->f[i]);
  for (int k = 0; k < ATVI_SCAN_MORE; k++) {
    atvi_idx best = -1;
    double most = -1;
    for (atvi_idx i = 0; i + 1 < s->n; i++) {
      double box = (s->y[i + 1] - s->y[i]) * exp(fmax(s->f[i], s->f[i + 1]) - top);
      if (taken[i] || !(box > most)) continue;
      most = box;
      best = i;
    }
    taken[best] = true;
    y[k] = 0.5 * (s->y[best] + s->y[best + 1]);
  }
}

void atvi_infer_scan_add(atvi_scan *s, atvi_idx m, const double *y, const double *f) {
  for (atvi_idx k = 0; k < m; k++) {
    atvi_idx at = s->n++;
    for (; at > 0 && s->y[at - 1] > y[k]; at--) s->y[at] = s->y[at - 1], s->f[at] = s->f[at - 1];
    s->y[at] = y[k];
    s->f[at] = isfinite(f[k]) ? f[k] : -HUGE_VAL;
  }
}

/* Integral of exp(a + (b - a) t) over 0 < t < 1. */
static double segment(double a, double b) {
  double by = b - a;
  return fabs(by) < 1e-6 ? exp(0.5 * (a + b)) : exp(a) * expm1(by) / by;
}

/* The power with which the density falls from one node to the next, which is further out. */
static double falls(double y0, double f0, double y1, double f1) {
  return fmin(fmax((f0 - f1) / log(fabs(y1 / y0)), POWER_LEAST), ATVI_FOLDS);
}

bool atvi_infer_scan_close(atvi_scan *s) {
  const atvi_idx n = s->n;
  s->top = -HUGE_VAL;
  for (atvi_idx i = 0; i < n; i++) s->top = fmax(s->top, s->f[i]);
  if (!isfinite(s->top)) return false;
  for (atvi_idx i = 0; i < n; i++) s->f[i] = fmax(s->f[i] - s->top, -SILENT);
  s->power[0] = falls(s->y[1], s->f[1], s->y[0], s->f[0]);
  s->power[1] = falls(s->y[n - 2], s->f[n - 2], s->y[n - 1], s->f[n - 1]);
  s->below[0] = -s->y[0] * exp(s->f[0]) / (s->power[0] - 1);
  for (atvi_idx i = 0; i + 1 < n; i++)
    s->below[i + 1] = s->below[i] + (s->y[i + 1] - s->y[i]) * segment(s->f[i], s->f[i + 1]);
  s->below[n] = s->below[n - 1] + s->y[n - 1] * exp(s->f[n - 1]) / (s->power[1] - 1);
  s->log_all = log(s->below[n]);
  for (atvi_idx i = 0; i <= n; i++) s->below[i] /= exp(s->log_all);
  return true;
}

/* Beyond a node, where a share `left` of the tail is further out. */
static double tail(const atvi_scan *s, atvi_idx node, double power, double left, double *log_q) {
  double by = pow(left, -1 / (power - 1));
  *log_q = s->f[node] - power * log(by) - s->log_all;
  return s->y[node] * by;
}

double atvi_infer_scan_quantile(const atvi_scan *s, double u, double *log_q) {
  atvi_idx lo = 0, hi = s->n - 1, n = s->n;
  if (u < s->below[0]) return tail(s, 0, s->power[0], u / s->below[0], log_q);
  if (u >= s->below[n - 1])
    return tail(s, n - 1, s->power[1], (1 - u) / (s->below[n] - s->below[n - 1]), log_q);
  while (hi - lo > 1) {
    atvi_idx mid = (lo + hi) / 2;
    if (u < s->below[mid])
      hi = mid;
    else
      lo = mid;
  }
  double a = s->f[lo], by = s->f[hi] - a, t = (u - s->below[lo]) / (s->below[hi] - s->below[lo]);
  if (fabs(by) > 1e-6) t = by > 0 ? 1 + log(t + (1 - t) * exp(-by)) / by : log1p(t * expm1(by)) / by;
  *log_q = a + by * t - s->log_all;
  return s->y[lo] + t * (s->y[hi] - s->y[lo]);
}
