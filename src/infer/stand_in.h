/* SPDX-License-Identifier: MIT */
/* A polynomial that stands in for the log likelihood while q is trained.
 *
 * Training asks for tens of thousands of gradients at points that are all in the same place, where the log
 * likelihood of most models is a smooth function. A polynomial that is fitted to a few hundred values and
 * gradients there says the same for nothing. It never decides what the posterior is: draws are weighted by
 * the model itself, and what the polynomial gets wrong shows in their weights.
 *
 * Coordinates  those of the space (space.h), u, with folds undone, in a frame: y = chol^-1 (u - shift), about standard normal in the posterior.
 * Terms        products of normalised Hermite polynomials, of total degree 4 or what ATVI_STAND_IN_TERMS allow: orthogonal for a standard normal y, and so
 *              are their gradients, so that conjugate gradients need few steps. The derivative of a term is another term.
 * Far out      beyond the radius within which there are points the polynomial knows nothing: there it has its value on the sphere, less what a normal
 *              distribution falls. */
#ifndef ATVI_INFER_STAND_IN_H
#define ATVI_INFER_STAND_IN_H

#include "core/compiler.h"
#include "core/core.h"

enum {
  ATVI_STAND_IN_TERMS = 3000, /* at most: degree 4 up to 13 dimensions, 3 up to 24, 2 up to 75 */
};

typedef struct atvi_stand_in atvi_stand_in;

/* The degree that ATVI_STAND_IN_TERMS allow with d coordinates. */
int atvi_infer_stand_in_allowed(atvi_idx d);

/* For d >= 1 coordinates; not to be evaluated before it is fitted. Serves as many threads as the context has
 * now. Errors: EINVAL (d with which not even degree 2 is allowed), ENOMEM. *out is NULL on error. */
ATVI_CHECKED atvi_status atvi_infer_stand_in_new(atvi_ctx *ctx, atvi_idx d, atvi_stand_in **out);
void atvi_infer_stand_in_free(atvi_stand_in *s); /* NULL is fine */
int atvi_infer_stand_in_degree(const atvi_stand_in *s);

/* n points with values and gradients, which must be finite, and weights >= 0. */
typedef struct {
  atvi_idx n;
  const double *u, *du;         /* [d][n] */
  const double *value, *weight; /* [n] */
} atvi_stand_in_data;
/* Fits it in the frame shift[d], chol[d][d] (lower triangle), by weighted least squares of values and of
 * gradients in the frame. On all threads; not inside a parallel region. Returns the root of the weighted mean
 * square that is left of the values. Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_infer_stand_in_fit(atvi_stand_in *s, const double *shift, const double *chol,
                                                 const atvi_stand_in_data *data, double *left);

/* value[B] and gradient du[d][B] (NULL: not wanted) at u[d][B]. worker: as in a parallel region, else 0. */
void atvi_infer_stand_in_eval(const atvi_stand_in *s, int worker, atvi_idx B, const double *u, double *value,
                              double *du);

/* ---- kernels (stand_in_isa.c), for ATVI_LANES points ---- */

/* Terms by degree; those below the highest come first. */
typedef struct {
  atvi_idx d, n, n_inner;
  int degree;
  /* [n] term t is term parent[t] times the Hermite polynomial of degree power[t] in coordinate coord[t]. */
  int *parent, *coord, *power;
  /* [n + 1] where the derivatives of a term begin in the lists that follow: by coordinate down_coord it is
   * down_root times term down_term. */
  int *down, *down_term, *down_coord;
  double *down_root;
} atvi_stand_in_terms;

/* term[n][L] and, on the way, h[degree][d][L], at y[d][L]. */
typedef void atvi_stand_in_expand_fn(const atvi_stand_in_terms *s, const double *restrict y,
                                     double *restrict h, double *restrict term);
/* value[L] and gradient dy[d][L] (NULL: not wanted) of the polynomial with coef[n], whose derivatives have
 * the coefficients slope[n_inner][d]. */
typedef void atvi_stand_in_sum_fn(const atvi_stand_in_terms *s, const double *restrict coef,
                                  const double *restrict slope, const double *restrict term,
                                  double *restrict value, double *restrict dy);
/* Its adjoint: adds to sum[n][L], lane by lane. */
typedef void atvi_stand_in_add_fn(const atvi_stand_in_terms *s, const double *restrict value,
                                  const double *restrict dy, const double *restrict term,
                                  double *restrict sum);
atvi_stand_in_expand_fn atvi_infer_stand_in_expand_base, atvi_infer_stand_in_expand_avx2,
    atvi_infer_stand_in_expand_avx512;
atvi_stand_in_sum_fn atvi_infer_stand_in_sum_base, atvi_infer_stand_in_sum_avx2,
    atvi_infer_stand_in_sum_avx512;
atvi_stand_in_add_fn atvi_infer_stand_in_add_base, atvi_infer_stand_in_add_avx2,
    atvi_infer_stand_in_add_avx512;

#endif
