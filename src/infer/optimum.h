/* SPDX-License-Identifier: MIT */
/* Maximum of the posterior from several starts, and the normal (Laplace) approximation there. */
#ifndef ATVI_INFER_OPTIMUM_H
#define ATVI_INFER_OPTIMUM_H

#include "atvi/draws.h"
#include "model/evaluator.h"

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
  /* gap below ATVI_SLIGHT */
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

atvi_optimum_opts atvi_infer_optimum_defaults(void);

/* Maximises log prior + log likelihood within the box. The target must give gradients. opts NULL: defaults.
 * Parameters that end at a bound are held there: the normal approximation is for the others, and theirs is
 * an exponential law that leaves the bound with the slope of the density. The draws are of this
 * approximation cut to the box, but for the first, which is the maximum itself; info may be NULL, else it
 * belongs to the caller.
 * Errors: EINVAL (a setting out of range), ENOMEM, EMODEL (no starting point, or none with a gradient), ESTOP
 * (stopped), ELIMIT (out of time, before the first search ended). *out and *info are NULL on error. */
ATVI_CHECKED atvi_status atvi_infer_optimum_run(atvi_ctx *ctx, atvi_evaluator *ev,
                                                const atvi_optimum_opts *opts, atvi_optimum_info **info,
                                                atvi_draws **out);
void atvi_infer_optimum_info_free(atvi_optimum_info *info); /* NULL is fine */

/* Whether a gradient belongs to its log density: the one comparison with finite differences. */

typedef struct {
  /* points that were compared: density and gradient are finite there, and there was time */
  atvi_idx points;
  /* largest difference of a derivative, relative to the larger of it and 1e-3 of the largest at the point;
   * and whose it is */
  double off;
  atvi_idx off_param;
  /* parameters whose derivative is wrong at some point, and at most of the points */
  atvi_idx wrong_somewhere, wrong;
  /* of the latter the worst, and at how many points it is wrong */
  atvi_idx param, wrong_points;
  /* where it is worst: its value, its derivative and what differences say */
  double x, gradient, difference;
} atvi_gradient_info;

/* Compares at n points x[j * stride + k], k < n, all inside the bounds. Doubt is in
 * favour of the gradient: it is wrong where differences agree with
 * each other better than with it, by far. At most eight evaluations for each parameter and point; two if they
 * agree at once. max_seconds 0: no limit.
 * Errors: ENOMEM, ESTOP. */
ATVI_CHECKED atvi_status atvi_infer_gradient_compare(atvi_ctx *ctx, atvi_evaluator *ev, atvi_idx n,
                                                     atvi_idx stride, const double *x, double max_seconds,
                                                     atvi_gradient_info *info);

/* The length over which a density may be expected to change along a parameter that is x; not over a bound. */
double atvi_infer_gradient_width(const atvi_param *p, double x);

/* Whether a gradient is the derivative that forward mode gives (the target's tangent): the same to rounding,
 * which is measured, or it is wrong. */

typedef struct {
  /* points that were compared: density, gradient and tangents are finite there, and rounding leaves something
   * to compare */
  atvi_idx points;
  /* the largest difference in a random direction, relative to the sum of what the parameters contribute there */
  double off;
  /* parameters whose derivative is wrong at some point; of them the worst, relative to the derivative or, if
   * that is larger, to 1e-3 of the largest at the point */
  atvi_idx wrong, param;
  double worst;
  /* its derivative is of the log prior; else of the log likelihood */
  bool in_prior;
  /* its value, its derivative and its tangent there */
  double x, gradient, tangent;
} atvi_tangent_info;

/* Compares at n points x[j * stride + k], k < n, all inside the bounds, in directions drawn with this seed.
 * The target must have tangent. Errors: ENOMEM, ESTOP. */
ATVI_CHECKED atvi_status atvi_infer_gradient_tangents(atvi_ctx *ctx, atvi_evaluator *ev, atvi_idx n,
                                                      atvi_idx stride, const double *x, uint64_t seed,
                                                      atvi_tangent_info *info);

/* Refuses a gradient that is wrong at most of a few points of positive density. Nothing is said where there
 * is no such point.
 * Errors: EMODEL (it is wrong; the message names a parameter and both numbers), ENOMEM, ESTOP. */
ATVI_CHECKED atvi_status atvi_infer_gradient_check(atvi_ctx *ctx, atvi_evaluator *ev, uint64_t seed,
                                                   double max_seconds);

#endif
