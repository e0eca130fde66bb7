/* SPDX-License-Identifier: MIT */
/* The whole library: include this one.
 *
 *   atvi_ctx_new            a context: threads, memory, messages, progress           core.h
 *   atvi_target             a model of your own, as a table of callbacks             target.h
 *   atvi_model_load         a model file and its data, as a target                   model.h
 *   atvi_fit                from a target to draws, by any method                    fit.h
 *   atvi_draws_mean, ...    means, standard deviations and quantiles of the draws    draws.h
 *   atvi_judge              whether to believe them, and why                         verdict.h
 *
 * examples/library/line.c is a complete program. Other languages use bind.h, which is not included here. */
#ifndef ATVI_ATVI_H
#define ATVI_ATVI_H

#include "atvi/core.h"
#include "atvi/draws.h"
#include "atvi/fit.h"
#include "atvi/model.h"
#include "atvi/target.h"
#include "atvi/verdict.h"

#endif
