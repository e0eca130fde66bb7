/* SPDX-License-Identifier: MIT */
/* Maximum of the posterior from several starts, and the normal (Laplace) approximation there. */
#ifndef ATVI_INFER_OPTIMUM_H
#define ATVI_INFER_OPTIMUM_H

#include "atvi/draws.h"
#include "model/evaluator.h"

typedef struct {
  uint64_t seed;
  int starts;         /* searches, >= 1 */
  int candidates;     /* prior draws looked at per search, >= 1 */
  int max_evals;      /* evaluations per search, >= 10 */
  atvi_idx draws;     /* draws delivered, >= 4 */
  double max_seconds; /* wall-clock limit, > 0; HUGE_VAL: none */
} atvi_optimum_opts;

typedef struct {
  double log_post;
  const double *theta; /* [d] */
  int hits;            /* searches that ended here */
} atvi_optimum;

typedef struct {
  atvi_pool *pool; /* owns all that follows */
  atvi_idx d;
  double *mode;              /* [d] the best optimum */
  double *sd;                /* [d] of the normal approximation before the bounds cut it; 0 where at_bound */
  double *cov;               /* [d][d] likewise */
  int *at_bound;             /* [d] -1 at the lower bound, +1 at the upper, 0 inside */
  double log_prior, log_lik; /* at the mode */
  double grad_norm;          /* projected gradient there, max norm, per prior standard deviation */
  double gap;                /* by how much the log posterior could still rise, from gradient and Hessian */
  bool converged;            /* gap below 0.01 */
  bool definite;             /* the Hessian is positive definite in what is free */
  atvi_idx n_optimum;
  atvi_optimum *optimum; /* [n_optimum] best first; those separated by a barrier from better ones */
  atvi_idx n_uninformed;
  const char **
      uninformed; /* [n_uninformed] combinations that the data leave as wide as the prior: "beta - 0.7 gamma" */
} atvi_optimum_info;

atvi_optimum_opts atvi_optimum_defaults(void);

/* Maximises log prior + log likelihood within the box. The target must give gradients. opts NULL: defaults.
 * Parameters that end at a bound are held there: the normal approximation is for the others, and theirs is
 * an exponential law that leaves the bound with the slope of the density. The draws are of this
 * approximation cut to the box, but for the first, which is the maximum itself; info may be NULL, else it belongs to the caller.
 * Errors: EINVAL (a setting out of range), ENOMEM, EMODEL (no starting point, or none with a gradient), ESTOP (stopped), ELIMIT (out of
 * time, before the first search ended). *out and *info are NULL on error. */
ATVI_CHECKED atvi_status atvi_optimum_run(atvi_ctx *ctx, atvi_evaluator *ev, const atvi_optimum_opts *opts,
                                          atvi_optimum_info **info, atvi_draws **out);
void atvi_optimum_info_free(atvi_optimum_info *info); /* NULL is fine */

#endif
