/* SPDX-License-Identifier: MIT */
/* DRAWS with the columns of a target: what every method ends with. */
#ifndef ATVI_INFER_DELIVER_H
#define ATVI_INFER_DELIVER_H

#include "atvi/draws.h"
#include "model/evaluator.h"

/* Room for n draws of n_chain chains: parameters with their bounds, then derived quantities.
 * Errors: EINVAL, ENOMEM; *out is NULL then. */
ATVI_CHECKED atvi_status atvi_deliver_new(atvi_ctx *ctx, const atvi_target *t, atvi_idx n, atvi_idx n_chain,
                                          bool weighted, atvi_draws **out);
/* Fills the derived quantities from the parameters. */
void atvi_deliver_derived(atvi_evaluator *ev, atvi_draws *d);

#endif
