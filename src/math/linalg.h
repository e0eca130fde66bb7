/* SPDX-License-Identifier: MIT */
/* Small dense linear algebra, row-major. No allocation, no failure except by return value. */
#ifndef ATVI_MATH_LINALG_H
#define ATVI_MATH_LINALG_H

#include "core/core.h"

/* Lower Cholesky factor in place of the lower triangle of a[n][n] (upper left as is).
 * Returns false, with a spoilt, if a is not positive definite. */
bool atvi_math_cholesky(atvi_idx n, double *a);
/* Eigenvalues w[n] ascending and eigenvectors, column j of v[n][n], of symmetric a (spoilt). Jacobi. */
void atvi_math_eigen_sym(atvi_idx n, double *a, double *w, double *v);

/* Large dense linear algebra, row-major, by OpenBLAS. Only blas.c sees it.
 *
 * One thread inside, always: results do not depend on how many threads call, and every function may be called
 * from several threads at once (a build of the library without locks is guarded by one of ours). Sizes fit an
 * int. A symmetric matrix is its lower triangle, unless a function says otherwise; ld is the distance between
 * rows. Nothing here allocates. */

/* To be called before any other function here, from any thread, as often as one likes. The first call loads
 * the library, which is not linked: loading takes a few milliseconds and starts threads that spin for a
 * while, and most commands have no use for it. It is kept to one thread, for the whole process. Errors: EIO
 * (it is not installed). */
ATVI_CHECKED atvi_status atvi_math_blas_begin(atvi_ctx *ctx);

/* a[n][n] = L L': L overwrites the lower triangle (the upper one stays). False, with a spoilt, if a is not
 * positive definite. */
bool atvi_math_blas_cholesky(atvi_idx n, double *a, atvi_idx ld);
/* The inverse of a from the factor L of above, in its place; the upper triangle stays. */
void atvi_math_blas_inverse(atvi_idx n, double *l, atvi_idx ld);
/* The inverse of the lower triangular l, in its place; the upper triangle stays. */
void atvi_math_blas_tri_inverse(atvi_idx n, double *l, atvi_idx ld);
/* b[n][m] = L^-1 b; with transposed: L'^-1 b. Both, one after the other, solve with the matrix that L is the
 * factor of. */
void atvi_math_blas_tri_solve(atvi_idx n, atvi_idx m, const double *l, atvi_idx ld_l, bool transposed,
                              double *b, atvi_idx ld_b);
/* c[n][m] = beta c + a b, a[n][k], b[k][m]. beta 0: c is not read. */
void atvi_math_blas_mul(atvi_idx n, atvi_idx m, atvi_idx k, const double *a, atvi_idx ld_a, const double *b,
                        atvi_idx ld_b, double beta, double *c, atvi_idx ld_c);
/* c[n][m] = beta c + a b', a[n][k], b[m][k]. */
void atvi_math_blas_mul_bt(atvi_idx n, atvi_idx m, atvi_idx k, const double *a, atvi_idx ld_a,
                           const double *b, atvi_idx ld_b, double beta, double *c, atvi_idx ld_c);
/* Lower triangle of c[n][n] = beta c + alpha a a', a[n][k]. */
void atvi_math_blas_square(atvi_idx n, atvi_idx k, double alpha, const double *a, atvi_idx ld_a, double beta,
                           double *c, atvi_idx ld_c);
/* c[n][m] = s b, s[n][n] symmetric. */
void atvi_math_blas_sym_mul(atvi_idx n, atvi_idx m, const double *s, atvi_idx ld_s, const double *b,
                            atvi_idx ld_b, double *c, atvi_idx ld_c);
/* Lower triangle copied to the upper one. */
void atvi_math_blas_mirror(atvi_idx n, double *a, atvi_idx ld);

/* Eigenvalues w[n] ascending and eigenvectors, ROW j of a on return, of symmetric a[n][n] (spoilt). Divide
 * and conquer. work[atvi_math_blas_eigen_work(n)] doubles. False if it does not converge (or a holds what is
 * not finite). */
size_t atvi_math_blas_eigen_work(atvi_idx n);
bool atvi_math_blas_eigen(atvi_idx n, double *a, double *w, double *work);

#endif
