/* SPDX-License-Identifier: MIT */
/* A frame that follows a curved ridge.
 *
 * Where only the product of two parameters is known, say, the posterior is a thin ridge, and it is straight in no frame x = shift + chol y
 * if one of the two has bounds. So y is bent before: along a direction v, a unit vector, all else is displaced by a polynomial of how far one is,
 *
 *     y' = y + b f(t) + c g(t),   t = v'y,   f(t) = u^2, g(t) = u^3, u = 4 tanh(t / 4),   v'b = v'c = 0
 *
 * which is one-to-one with Jacobian 1, and linear far out. Several bends, each along another direction, follow each other. */
#ifndef ATVI_INFER_BEND_H
#define ATVI_INFER_BEND_H

#include "core/core.h"

enum { ATVI_BENDS = 3 };

typedef struct {
  int n;
  /* [d] v. */
  double *along[ATVI_BENDS];
  /* [2][d] b and c; and chol b, chol c. */
  double *by[ATVI_BENDS], *in_x[ATVI_BENDS];
} atvi_bend;

/* f(t) and g(t). */
void atvi_infer_bend_features(double t, double *f, double *g);
/* n points [d][n], in place: x = shift + chol y becomes that of y'; y' becomes y; dy' becomes dy at y. */
void atvi_infer_bend_x(const atvi_bend *b, atvi_idx d, atvi_idx n, const double *y, double *x);
void atvi_infer_bend_back(const atvi_bend *b, atvi_idx d, atvi_idx n, double *y);
void atvi_infer_bend_adjoint(const atvi_bend *b, atvi_idx d, atvi_idx n, const double *y, double *dy);

#endif
