/* SPDX-License-Identifier: MIT */
/* On the line the distance has a closed form: W1 = integral |F(x) - G(x)| dx (Vallender 1974). Both distribution functions
 * are steps, so the integral is a sum over the merged values. */
#include "math/stat/wasserstein.h"
#include <math.h>

static double total(atvi_idx n, const double *w) {
  if (!w) return (double)n;
  double sum = 0;
  for (atvi_idx i = 0; i < n; i++) sum += w[i];
  return sum;
}

/* Ends of the order hold whatever is not finite. */
static bool usable(atvi_idx n, const double *xs, double weight) {
  return n > 0 && weight > 0 && isfinite(weight) && isfinite(xs[0]) && isfinite(xs[n - 1]);
}

double atvi_wasserstein(atvi_idx n, const double *xs, const double *wx, atvi_idx m, const double *ys,
                        const double *wy) {
  double all_x = total(n, wx), all_y = total(m, wy);
  if (!usable(n, xs, all_x) || !usable(m, ys, all_y)) return NAN;
  double sum = 0, below_x = 0, below_y = 0, at = fmin(xs[0], ys[0]);
  for (atvi_idx i = 0, j = 0; i < n || j < m;) {
    double next = i == n ? ys[j] : j == m ? xs[i] : fmin(xs[i], ys[j]);
    sum += (next - at) * fabs(below_x / all_x - below_y / all_y);
    at = next;
    for (; i < n && xs[i] == at; i++) below_x += wx ? wx[i] : 1;
    for (; j < m && ys[j] == at; j++) below_y += wy ? wy[j] : 1;
  }
  return sum;
}

double atvi_cdf_spread(atvi_idx n, const double *xs, const double *wx) {
  double all = total(n, wx), below = 0, sum = 0;
  if (!usable(n, xs, all)) return NAN;
  for (atvi_idx i = 0; i + 1 < n; i++) {
    below += wx ? wx[i] : 1;
    double f = below / all;
    sum += (xs[i + 1] - xs[i]) * sqrt(fmax(0, f * (1 - f)));
  }
  return sum;
}
