/* SPDX-License-Identifier: MIT */
/* Sums of numbers given by their logarithms. The largest is factored out, so that nothing overflows and what underflows is
 * too small to count. -inf is the logarithm of zero; where all are zero the sum is -inf, not NaN. */
#include "math/special.h"
#include <math.h>

double atvi_log_add(double a, double b) {
  double top = fmax(a, b);
  return top > -HUGE_VAL ? top + log(exp(a - top) + exp(b - top)) : top;
}

void atvi_log_add_all(atvi_idx n, double shift, const double *x, double *sum) {
  for (atvi_idx i = 0; i < n; i++) sum[i] = atvi_log_add(sum[i], shift + x[i]);
}

double atvi_softmax(atvi_idx n, const double *x, double *w) {
  double top = -HUGE_VAL, sum = 0;
  for (atvi_idx i = 0; i < n; i++) top = fmax(top, x[i]);
  if (!isfinite(top)) {
    for (atvi_idx i = 0; i < n && w; i++) w[i] = 0;
    return top;
  }
  for (atvi_idx i = 0; i < n; i++) {
    double e = isnan(x[i]) ? 0 : exp(x[i] - top);
    if (w) w[i] = e;
    sum += e;
  }
  for (atvi_idx i = 0; i < n && w; i++) w[i] /= sum;
  return top + log(sum);
}

double atvi_log_sum_exp(atvi_idx n, const double *x) { return atvi_softmax(n, x, NULL); }

double atvi_effective_size(atvi_idx n, const double *w) {
  double sum_sq = 0;
  for (atvi_idx i = 0; i < n; i++) sum_sq += w[i] * w[i];
  return sum_sq > 0 ? 1 / sum_sq : 0;
}
