/* SPDX-License-Identifier: MIT */
/* What a fit hands over: the draws of its method, and draws that count equally; for src/app alone. */
#ifndef ATVI_APP_DELIVERY_H
#define ATVI_APP_DELIVERY_H

#include "app/common.h"
#include "atvi/draws.h"

typedef struct {
  /* from the method */
  atvi_draws *draws;
  /* draws that count equally, as far as they can be had; the same where they have no weights */
  atvi_draws *plain;
} atvi_delivery;

/* Makes the rest from y->draws, and measures the solver's error where the posterior is: it counts in the verdict.
 * Errors: ENOMEM, those of the evaluation. */
ATVI_CHECKED atvi_status atvi_delivery_make(atvi_ctx *ctx, atvi_pool *pool, atvi_loaded *l, atvi_delivery *y);
void atvi_delivery_free(atvi_delivery *y); /* zeroed is fine */

#endif
