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
  /* Begin with the curvature that the last call found, which had the same n and the same work, for a similar
   * f. */
  bool warm;
  /* End when a step decreases f by less than this, relative to 1 + |f|; 0: never. */
  double tol_value;
  /* Points tried along one direction; 0: 40. */
  int max_trials;
} atvi_lbfgs_opts;

typedef struct {
  double value;
  double grad_norm; /* projected, max norm */
  int evals;
  bool converged;
} atvi_lbfgs_info;

/* Doubles of scratch for n >= 1 unknowns. */
size_t atvi_math_lbfgs_work(atvi_idx n);

/* Minimises from x[n], in place, n >= 1, with work[atvi_math_lbfgs_work(n)]. Never allocates, never fails: a
 * start that cannot be evaluated gives the value NaN after one evaluation. */
void atvi_math_lbfgs(atvi_idx n, const atvi_lbfgs_opts *opts, double *x, double *work, atvi_lbfgs_info *info);

/* Adam optimiser with bias correction (Kingma & Ba 2015, Algorithm 1). */

typedef struct atvi_adam atvi_adam;

typedef struct {
  double step;  /* learning rate, > 0 */
  double beta1; /* decay of first moment, in [0, 1) */
  double beta2; /* decay of second moment, in [0, 1) */
  double eps;   /* added to the root of the second moment, > 0 */
} atvi_adam_opts;

atvi_adam_opts atvi_math_adam_defaults(void); /* 0.001, 0.9, 0.999, 1e-8 as published */

/* Create an optimiser for n >= 1 parameters. Copies *opts (NULL: defaults).
 * Allocates once, from ctx; *out is NULL on any error. ctx must outlive *out.
 * Errors: EINVAL (n or a setting out of range), ENOMEM. */
ATVI_CHECKED atvi_status atvi_math_adam_new(atvi_ctx *ctx, atvi_idx n, const atvi_adam_opts *opts,
                                            atvi_adam **out);
void atvi_math_adam_free(atvi_adam *opt); /* NULL is fine */

/* Another learning rate from the next step on (schedules); > 0 or 0, which holds x and still gathers moments. */
void atvi_math_adam_set_step(atvi_adam *opt, double step);
/* What it remembers: steps taken, and moments [n]. */
typedef struct {
  int64_t *t;
  double *m, *v;
} atvi_adam_memory;
atvi_adam_memory atvi_math_adam_memory(atvi_adam *opt);
/* Forgets moments and steps. */
void atvi_math_adam_reset(atvi_adam *opt);

/* One descent step: x[n] is updated in place from the gradient g[n]. Never allocates, never fails; a g[i]
 * that is not finite, or beyond 1e150, leaves x[i] and its moments as they were and is counted in the return
 * value. x and g must not overlap. */
atvi_idx atvi_math_adam_step(atvi_adam *opt, double *x, const double *g);

#endif
