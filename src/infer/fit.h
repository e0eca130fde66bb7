/* SPDX-License-Identifier: MIT */
/* Inside of atvi/fit.h: for callers that have an evaluator already. */
#ifndef ATVI_INFER_FIT_H
#define ATVI_INFER_FIT_H

#include "atvi/fit.h"
#include "model/evaluator.h"

/* Whether the options make sense, before anything is begun. opts NULL: yes. Errors: EINVAL, naming the value. */
ATVI_CHECKED atvi_status atvi_fit_check(atvi_ctx *ctx, const atvi_fit_opts *opts);
/* As atvi_fit, with an evaluator of the caller. */
ATVI_CHECKED atvi_status atvi_fit_with(atvi_ctx *ctx, atvi_evaluator *ev, const atvi_fit_opts *opts,
                                       atvi_draws **out);

#endif
