/* SPDX-License-Identifier: MIT */
/* A target with some parameters held at given values: another target with fewer parameters. The
 * log prior keeps the density of the fixed ones at their values, so that log densities of both agree. */
#ifndef ATVI_MODEL_FIXED_H
#define ATVI_MODEL_FIXED_H

#include "atvi/target.h"
#include "core/core.h"

/* base is borrowed; index[n] are the parameters to hold at value[n]. Errors: EINVAL (index out of range or twice, value
 * outside the bounds or not finite, no parameter left), ENOMEM. */
ATVI_CHECKED atvi_status atvi_fixed_new(atvi_ctx *ctx, const atvi_target *base, atvi_idx n,
                                        const atvi_idx *index, const double *value, atvi_target **out);
void atvi_fixed_free(atvi_target *target); /* NULL is fine */

#endif
