/* SPDX-License-Identifier: MIT */
/* Small dense linear algebra, row-major. No allocation, no failure except by return value. */
#ifndef ATVI_MATH_LINALG_H
#define ATVI_MATH_LINALG_H

#include "core/core.h"

/* Lower Cholesky factor in place of the lower triangle of a[n][n] (upper left as is).
 * Returns false, with a spoilt, if a is not positive definite. */
bool atvi_cholesky(atvi_idx n, double *a);
/* Eigenvalues w[n] ascending and eigenvectors, column j of v[n][n], of symmetric a (spoilt). Jacobi. */
void atvi_eigen_sym(atvi_idx n, double *a, double *w, double *v);

#endif
