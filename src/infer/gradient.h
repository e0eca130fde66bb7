/* SPDX-License-Identifier: MIT */
/* Whether a gradient belongs to its log density: the one comparison with finite differences. */
#ifndef ATVI_INFER_GRADIENT_H
#define ATVI_INFER_GRADIENT_H

#include "model/evaluator.h"

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

/* Compares at n points x[j * stride + k], k < n, all inside the bounds. Differences are of eval_frozen where
 * the target has it. Without, doubt is in favour of the gradient: it is wrong where differences agree with
 * each other better than with it, by far. At most eight evaluations for each parameter and point; two if they
 * agree at once. max_seconds 0: no limit.
 * Errors: ENOMEM, ESTOP. */
ATVI_CHECKED atvi_status atvi_gradient_compare(atvi_ctx *ctx, atvi_evaluator *ev, atvi_idx n, atvi_idx stride,
                                               const double *x, double max_seconds, atvi_gradient_info *info);

/* Refuses a gradient that is wrong at most of a few points of positive density. Nothing is said where there
 * is no such point.
 * Errors: EMODEL (it is wrong; the message names a parameter and both numbers), ENOMEM, ESTOP. */
ATVI_CHECKED atvi_status atvi_gradient_check(atvi_ctx *ctx, atvi_evaluator *ev, uint64_t seed,
                                             double max_seconds);

#endif
