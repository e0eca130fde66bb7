/* SPDX-License-Identifier: MIT */
/* The truth of a study; for src/app alone. */
#ifndef ATVI_APP_TRUTH_H
#define ATVI_APP_TRUTH_H

#include "app/common.h"

/* Truths drawn from the prior have numbers from here on. Fits draw from it, too, the first ones of their seed, to find a start and the scale of
 * parameters: none may be handed the truth that it is to find. */
#define ATVI_TRUTH_FIRST ((atvi_idx)1 << 30)

/* theta[d] from n texts, each name=value,... or the path of a JSON file. Every parameter must get a value inside its bounds; those
 * that are fixed may be told, too, and are ignored; none may be told twice. Errors: EINVAL, EDATA (the file), ENOMEM. */
ATVI_CHECKED atvi_status atvi_app_truth(atvi_ctx *ctx, atvi_pool *pool, const atvi_app_model *model,
                                        const atvi_target *target, atvi_idx n, const char *const *text,
                                        double *theta);

#endif
