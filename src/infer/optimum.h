/* SPDX-License-Identifier: MIT */
/* Maximum of the posterior from several starts, and the normal (Laplace) approximation there. */
#ifndef ATVI_INFER_OPTIMUM_H
#define ATVI_INFER_OPTIMUM_H

#include "atvi/draws.h"
#include "model/evaluator.h"

/* Nats that the log posterior may still rise at what counts as a maximum: draws do not show them. */
#define ATVI_OPTIMUM_RISE 0.01

typedef struct {
  uint64_t seed;
  /* searches, >= 1 */
  int starts;
  /* prior draws looked at per search, >= 1 */
  int candidates;
  /* evaluations per search, >= 10 */
  int max_evals;
  /* draws delivered, >= 4 */
  atvi_idx draws;
  /* wall-clock limit, > 0; HUGE_VAL: none */
  double max_seconds;
} atvi_optimum_opts;

typedef struct {
  double log_post;
  /* [d] */
  const double *theta;
  /* searches that ended here */
  int hits;
} atvi_optimum;

typedef struct {
  /* owns all that follows */
  atvi_pool *pool;
  atvi_idx d;
  /* [d] the best optimum */
  double *mode;
  /* [d] and [d][d] of the normal approximation before the bounds cut it; 0 where at_bound */
  double *sd, *cov;
  /* [d] -1 at the lower bound, +1 at the upper, 0 inside */
  int *at_bound;
  /* at the mode */
  double log_prior, log_lik;
  /* projected gradient there, max norm, per prior standard deviation */
  double grad_norm;
  /* by how much the log posterior could still rise, from gradient and Hessian */
  double gap;
  /* gap below ATVI_OPTIMUM_RISE */
  bool converged;
  /* the Hessian is positive definite in what is free */
  bool definite;
  /* [n_optimum] best first; those separated by a barrier from better ones */
  atvi_optimum *optimum;
  atvi_idx n_optimum;
  /* [n_uninformed] combinations that the data leave as wide as the prior: "beta - 0.7 gamma" */
  const char **uninformed;
  atvi_idx n_uninformed;
} atvi_optimum_info;

atvi_optimum_opts atvi_optimum_defaults(void);

/* Maximises log prior + log likelihood within the box. The target must give gradients. opts NULL: defaults.
 * Parameters that end at a bound are held there: the normal approximation is for the others, and theirs is
 * an exponential law that leaves the bound with the slope of the density. The draws are of this
 * approximation cut to the box, but for the first, which is the maximum itself; info may be NULL, else it
 * belongs to the caller.
 * Errors: EINVAL (a setting out of range), ENOMEM, EMODEL (no starting point, or none with a gradient), ESTOP
 * (stopped), ELIMIT (out of time, before the first search ended). *out and *info are NULL on error. */
ATVI_CHECKED atvi_status atvi_optimum_run(atvi_ctx *ctx, atvi_evaluator *ev, const atvi_optimum_opts *opts,
                                          atvi_optimum_info **info, atvi_draws **out);
void atvi_optimum_info_free(atvi_optimum_info *info); /* NULL is fine */

#endif
