/* SPDX-License-Identifier: MIT */
/* Whether a gradient that someone has written belongs to its log density. */
#ifndef ATVI_INFER_GRADIENT_H
#define ATVI_INFER_GRADIENT_H

#include "model/evaluator.h"

/* Compares the gradient with central differences at a few points of positive density, some 50 evaluations for each parameter. Doubt is in favour of
 * the gradient: differences must agree with each other, and disagree with it at most of the points. Nothing is said where there is no such point,
 * nor of parameters that max_seconds (0: no limit) leaves no time for.
 * Errors: EMODEL (it is wrong; the message names a parameter and both numbers), ENOMEM, ESTOP. */
ATVI_CHECKED atvi_status atvi_gradient_check(atvi_ctx *ctx, atvi_evaluator *ev, uint64_t seed,
                                             double max_seconds);

#endif
