/* SPDX-License-Identifier: MIT */
/* A frame that follows a curved ridge.
 *
 * Where only the product of two parameters is known, say, the posterior is a thin ridge, and it is straight
 * in no frame x = shift + chol y if one of the two has bounds. So y is bent before: along a direction v, a
 * unit vector, all else is displaced by a polynomial of how far one is,
 *
 *     y' = y + b_2 u^2 + b_3 u^3 + ...,   u = 4 tanh(v'y / 4),   v'b = 0
 *
 * which is one-to-one with Jacobian 1, and linear far out. Several bends, each along another direction,
 * follow each other. */
#ifndef ATVI_INFER_BEND_H
#define ATVI_INFER_BEND_H

#include "infer/vi_tuning.h"
#include "core/core.h"

/* How many terms a bend has, of which there may be ATVI_TOPS: u^2 and so on. */
enum { ATVI_BEND_TERMS = 4 };

typedef struct {
  int n;
  /* [d] v. */
  double *along[ATVI_TOPS];
  /* [terms][d] b; and chol b. */
  double *by[ATVI_TOPS], *in_x[ATVI_TOPS];
} atvi_bend;

/* f[terms]: u^2 and so on, at t = v'y. */
void atvi_infer_bend_features(double t, double *f);
/* n points [d][n], in place: x = shift + chol y becomes that of y'; y' becomes y; dy' becomes dy at y. */
void atvi_infer_bend_x(const atvi_bend *b, atvi_idx d, atvi_idx n, const double *y, double *x);
void atvi_infer_bend_back(const atvi_bend *b, atvi_idx d, atvi_idx n, double *y);
void atvi_infer_bend_adjoint(const atvi_bend *b, atvi_idx d, atvi_idx n, const double *y, double *dy);

#endif
