/* SPDX-License-Identifier: MIT */
/* Looks for the maxima of a posterior in unconstrained coordinates, on purpose and cheaply: many short climbs at
 * once, from given starts. A variational fit or a chain that has settled in one mode cannot see another. */
#ifndef ATVI_INFER_MODES_H
#define ATVI_INFER_MODES_H

#include "infer/space.h"

typedef struct {
  double log_pi;       /* at the maximum, at beta = 1 */
  double log_evidence; /* Laplace: log of the integral of the normal approximation */
  double *x;           /* [d] the maximum, in xi */
  double *chol;        /* [d][d] lower Cholesky factor of the covariance of the normal approximation */
  int hits;            /* climbs that ended here */
} atvi_peak;

typedef struct {
  atvi_idx n;      /* >= 0 */
  atvi_peak *mode; /* [n] by log_evidence, best first; separated from each other by a barrier */
  int64_t evaluations;
} atvi_modes;

typedef struct {
  int iterations; /* of each climb, >= 1 */
  int most;       /* modes reported, >= 1 */
  /* Asked now and then; true ends the search with what there is. NULL: never. */
  bool (*late)(const void *user);
  const void *user;
} atvi_modes_opts;
atvi_modes_opts atvi_modes_defaults(void); /* 60, 8 */

/* Climbs from start[d][n_start], all at once, one batched evaluation with gradient per iteration. Starts that cannot be evaluated
 * are left out. Modes more than 20 nats below the best are not reported; surjections' copies of a mode outside the box are
 * taken for what they are. opts NULL: defaults. Pieces of *out come from pool. The result does not depend on the number of
 * threads. A stop request ends it early with the best end so far, if there is any.
 * Errors: ENOMEM; *out is then empty. */
ATVI_CHECKED atvi_status atvi_modes_find(const atvi_space *s, const atvi_modes_opts *opts, atvi_pool *pool,
                                         atvi_idx n_start, const double *start, atvi_modes *out);

#endif
