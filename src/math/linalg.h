/* SPDX-License-Identifier: MIT */
/* Small dense linear algebra, row-major. No allocation, no failure except by return value. */
#ifndef ATVI_MATH_LINALG_H
#define ATVI_MATH_LINALG_H

#include "core/core.h"

/* Lower Cholesky factor in place of the lower triangle of a[n][n] (upper left as is).
 * Returns false, with a spoilt, if a is not positive definite. */
bool atvi_cholesky(atvi_idx n, double *a);
/* L[n][n] becomes the factor of L L^T + sign v v^T, sign = +1 or -1; v is spoilt.
 * Returns false if the result is not positive definite; L is then unchanged. O(n^2).
 * work[n*n + n]. */
bool atvi_cholesky_update(atvi_idx n, double *L, double *v, double sign, double *work);
void atvi_chol_solve(atvi_idx n, const double *L, double *b);               /* b = (L L^T)^-1 b */
void atvi_tri_mul(atvi_idx n, const double *L, const double *x, double *y); /* y = L x, L lower; y may be x */
/* Eigenvalues w[n] ascending and eigenvectors, column j of v[n][n], of symmetric a (spoilt). Jacobi. */
void atvi_eigen_sym(atvi_idx n, double *a, double *w, double *v);
/* LU with partial pivoting in place; piv[n]. False if singular. */
bool atvi_lu(atvi_idx n, double *a, int *piv);
void atvi_lu_solve(atvi_idx n, const double *lu, const int *piv, double *b);
void atvi_lu_solve_t(atvi_idx n, const double *lu, const int *piv, double *b); /* A^T x = b */

#endif
