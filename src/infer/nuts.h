/* SPDX-License-Identifier: MIT */
/* The No-U-Turn sampler (Hoffman & Gelman 2014; multinomial, Betancourt 2017) on the unconstrained space. */
#ifndef ATVI_INFER_NUTS_H
#define ATVI_INFER_NUTS_H

#include "atvi/draws.h"
#include "model/evaluator.h"

typedef struct {
  uint64_t seed;
  int chains;         /* 1 to 1024; a multiple of ATVI_LANES is efficient */
  double ess;         /* bulk and tail effective size that every parameter must reach, > 0 */
  double rhat;        /* R-hat that every parameter must fall below, > 1 */
  atvi_idx max_iter;  /* iterations per chain, warm-up included, >= 16, below 2^32 */
  double max_seconds; /* wall-clock limit, > 0; HUGE_VAL: none */
  int candidates;     /* prior draws looked at per chain for good starting points, >= 1 */
  double accept;      /* acceptance statistic that step sizes are adapted to, in (0, 1) */
  int max_depth;      /* of a tree: at most 2^max_depth - 1 gradients per iteration; 1 to 20 */
} atvi_nuts_opts;

atvi_nuts_opts atvi_nuts_defaults(void);

/* Samples the target, which must give gradients. opts NULL: defaults. The draws are those after warm-up (in long runs
 * without the first third), thinned to at most some twenty thousand; made.end says whether the criteria were met;
 * made.divergences, ebfmi, tree_depth and max_depth_hits tell about all iterations after warm-up. The result depends on the
 * options and the target alone, not on the number of threads (unless time or the stop request ends the run).
 * Errors: EINVAL (a setting out of range; a map that does not suit its parameter), ENOMEM, EMODEL (no starting point), ESTOP
 * or ELIMIT (stopped, or out of time, before any draw could be kept). *out is NULL on error. */
ATVI_CHECKED atvi_status atvi_nuts_run(atvi_ctx *ctx, atvi_evaluator *ev, const atvi_nuts_opts *opts,
                                       atvi_draws **out);

#endif
