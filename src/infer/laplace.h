/* SPDX-License-Identifier: MIT */
/* The normal approximation at a mode: Hessian, covariance, what the data do not inform, draws. */
#ifndef ATVI_INFER_LAPLACE_H
#define ATVI_INFER_LAPLACE_H

#include "atvi/draws.h"
#include "infer/optimum.h"

typedef struct {
  atvi_idx d, k;          /* parameters; those that are free */
  const double *scale;    /* [d] prior standard deviations; coordinates y = theta / scale */
  atvi_idx *free;         /* [k] which are free */
  double *slope;          /* [d] gradient of the log posterior in y at the mode */
  double *hess_lik;       /* [k][k] minus the Hessian of the log likelihood in y */
  double *hess;           /* [k][k] minus the Hessian of the log posterior in y */
  double *value, *vector; /* [k], [k][k] its eigenvalues, raised to a floor, and eigenvectors (columns) */
} atvi_laplace;

/* Builds it at info->mode with info->at_bound; fills sd, cov, definite, gap, uninformed of info. Pieces come from
 * info->pool. scale[d] is borrowed. Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_laplace_at(atvi_ctx *ctx, atvi_evaluator *ev, const double *scale,
                                         atvi_optimum_info *info, atvi_laplace **out);

/* n draws x[d][n] inside the box. Returns the share of the normal approximation that lies in the box, as
 * far as rejection can tell (0: so little that some draws had to be moved to the box). */
double atvi_laplace_draw(const atvi_laplace *l, const atvi_target *t, const atvi_optimum_info *info,
                         uint64_t seed, atvi_idx n, double *x);

/* Log evidence of the approximation; NaN if the Hessian is not definite. share: from atvi_laplace_draw. */
double atvi_laplace_evidence(const atvi_laplace *l, const atvi_target *t, const atvi_optimum_info *info,
                             double share);

#endif
