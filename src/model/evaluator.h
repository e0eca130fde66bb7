/* SPDX-License-Identifier: MIT */
/* A target with scratch for every thread: how inference calls it. */
#ifndef ATVI_MODEL_EVALUATOR_H
#define ATVI_MODEL_EVALUATOR_H

#include "atvi/target.h"
#include "core/core.h"
#include "io/memo.h"

typedef struct atvi_evaluator atvi_evaluator;

/* target is borrowed. Serves as many threads as the context has now. Errors: EINVAL (ops incomplete), ENOMEM,
 * those of work_new. */
ATVI_CHECKED atvi_status atvi_model_evaluator_new(atvi_ctx *ctx, const atvi_target *target,
                                                  atvi_evaluator **out);
void atvi_model_evaluator_free(atvi_evaluator *ev);
const atvi_target *atvi_model_evaluator_target(const atvi_evaluator *ev);

/* From now on evaluations that took long are kept in the memo, and those that it has are not repeated; they
 * count all the same. NULL: none. Borrowed; inference finds it here. */
void atvi_model_evaluator_set_memo(atvi_evaluator *ev, atvi_memo *memo);
atvi_memo *atvi_model_evaluator_memo(const atvi_evaluator *ev);
/* From now on one alternative of the density alone is evaluated (eval_branch of the target); -1: the density
 * itself. */
void atvi_model_evaluator_set_branch(atvi_evaluator *ev, atvi_idx k);
/* The counters, as part of the state of a stretch. */
void atvi_model_evaluator_state(atvi_evaluator *ev, atvi_state *s);

/* Evaluates a batch on all threads, in groups of ATVI_LANES points, or as many as the target likes. A density
 * that is NaN or +inf has the outcome NONFINITE even if the target did not notice. */
void atvi_model_evaluator_run(atvi_evaluator *ev, const atvi_batch *batch);
/* Evaluates a batch on the calling thread, inside a parallel region: worker is the region's worker number. */
void atvi_model_evaluator_run_on(atvi_evaluator *ev, int worker, const atvi_batch *batch);
/* Draws number first .. first+n-1 of the prior, theta[d][n], on all threads. The target must have
 * prior_draw. */
void atvi_model_evaluator_prior(atvi_evaluator *ev, uint64_t seed, atvi_idx first, atvi_idx n, double *theta);
/* Scratch of worker 0, for the optional members of the target; not inside a parallel region. */
void *atvi_model_evaluator_work(atvi_evaluator *ev);
/* The same inside a parallel region, of the region's worker. A context that was given more threads after new
 * has none for them: NULL. */
void *atvi_model_evaluator_work_of(atvi_evaluator *ev, int worker);
/* Points evaluated (outcome not OUTSIDE) and failed (neither OK nor OUTSIDE) since new; likelihood gradients
 * count once, and priors alone not at all. */
int64_t atvi_model_evaluator_count(const atvi_evaluator *ev);
int64_t atvi_model_evaluator_failures(const atvi_evaluator *ev);
/* A sample of the points that failed, each once: those whose fingerprints are smallest, so that it does not
 * depend on threads. theta[ATVI_FAILED_KEPT][d], why[ATVI_FAILED_KEPT]; returns how many there are. */
enum { ATVI_FAILED_KEPT = 16 };
atvi_idx atvi_model_evaluator_failed(const atvi_evaluator *ev, double *theta, atvi_outcome *why);

/* The target of a model with blocks `each`. */

extern const atvi_target_ops atvi_model_units_ops;

/* The sum over units at up to ATVI_LANES points of a batch, first .. first+n-1; units are added in their
 * order. */
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
