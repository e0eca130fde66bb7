/* SPDX-License-Identifier: MIT */
/* L-BFGS with box bounds by projection, for a few dozen unknowns. Minimises.
 * The caller owns the loop's inside: f is called with one point at a time. */
#ifndef ATVI_MATH_OPTIM_H
#define ATVI_MATH_OPTIM_H

#include "core/core.h"

typedef struct {
  /* Value and gradient g[n] at x[n]. May return NaN or inf for a point that cannot be evaluated. */
  double (*f)(void *user, const double *x, double *g);
  void *user;
  const double *lower, *upper; /* [n], +-inf where free; NULL: no bounds */
  int max_evals;               /* > 0 */
  double tol_grad;             /* on the projected gradient, max norm, relative to 1 + |f| */
} atvi_lbfgs_opts;

typedef struct {
  double value;
  double grad_norm; /* projected, max norm */
  int evals;
  bool converged;
} atvi_lbfgs_info;

/* Doubles of scratch for n >= 1 unknowns. */
size_t atvi_lbfgs_work(atvi_idx n);

/* Minimises from x[n], in place, n >= 1, with work[atvi_lbfgs_work(n)]. Never allocates, never fails: a start that
 * cannot be evaluated gives the value NaN after one evaluation. */
void atvi_lbfgs(atvi_idx n, const atvi_lbfgs_opts *opts, double *x, double *work, atvi_lbfgs_info *info);

#endif
