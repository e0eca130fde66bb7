/* SPDX-License-Identifier: MIT */
#ifndef ATVI_DRAWS_MADE_H
#define ATVI_DRAWS_MADE_H

#include "atvi/draws.h"
#include "core/core.h"

/* Nothing known about how draws were made: "" and NaN, 0 for counts. */
atvi_made atvi_draws_made_none(void);
/* Memory that lives as long as d. */
atvi_pool *atvi_draws_pool(atvi_draws *d);
/* The same draws without their weights, and without groups. Errors: ENOMEM. *out is NULL on error. */
ATVI_CHECKED atvi_status atvi_draws_unweighted(const atvi_draws *d, atvi_draws **out);

#endif
