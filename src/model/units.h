/* SPDX-License-Identifier: MIT */
/* The target of a model with blocks `each`. */
#ifndef ATVI_MODEL_UNITS_H
#define ATVI_MODEL_UNITS_H

#include "atvi/target.h"
#include "core/core.h"

extern const atvi_target_ops atvi_model_units_ops;

/* The sum over units at up to ATVI_LANES points of a batch, first .. first+n-1; units are added in their order. */
typedef struct {
  double log_prior[ATVI_LANES], log_lik[ATVI_LANES];
  atvi_outcome outcome[ATVI_LANES];
  atvi_idx first;
  int n;
} atvi_units_sum;

void atvi_model_sum_begin(const atvi_target *t, const atvi_batch *batch, atvi_idx first, int n,
                          atvi_units_sum *sum);
/* Points of the batch as the unit has them: theta[n_on][n]. */
void atvi_model_sum_load(const atvi_target *t, const atvi_batch *batch, const atvi_units_sum *sum, atvi_idx u,
                         double *theta);
/* Adds what the unit gave: log prior, outcome, and of the rest what `batch` asks for. */
void atvi_model_sum_add(const atvi_target *t, const atvi_batch *batch, atvi_units_sum *sum, atvi_idx u,
                        const atvi_batch *part);
/* Whether the batch asks for anything that needs a run. */
bool atvi_model_sum_runs(const atvi_batch *batch);
void atvi_model_sum_end(const atvi_target *t, const atvi_batch *batch, const atvi_units_sum *sum);

#endif
