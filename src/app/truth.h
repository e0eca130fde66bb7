/* SPDX-License-Identifier: MIT */
/* The truth of a study; for src/app alone. */
#ifndef ATVI_APP_TRUTH_H
#define ATVI_APP_TRUTH_H

#include "app/common.h"

/* theta[d] from n texts, each name=value,... or the path of a JSON file. Every parameter must get a value inside its bounds; those
 * that are fixed may be told, too, and are ignored. Errors: EINVAL, EDATA (the file), ENOMEM. */
ATVI_CHECKED atvi_status atvi_app_truth(atvi_ctx *ctx, atvi_pool *pool, const atvi_app_model *model,
                                        const atvi_target *target, atvi_idx n, const char *const *text,
                                        double *theta);

#endif
