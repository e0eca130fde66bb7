/* SPDX-License-Identifier: MIT */
/* Robust adaptive Metropolis (Vihola 2012): many chains, run until they agree. */
#ifndef ATVI_INFER_RAM_H
#define ATVI_INFER_RAM_H

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
} atvi_ram_opts;

atvi_ram_opts atvi_ram_defaults(void);

/* Samples the target. opts NULL: defaults. The draws are the second half of what was run, thinned to at
 * most some ten thousand; made.end says whether the criteria were met. The result depends on the options and
 * the target alone, not on the number of threads (unless time or the stop request ends the run).
 * Errors: EINVAL (a setting out of range), ENOMEM, EMODEL (no starting point), ESTOP or ELIMIT (stopped, or out of
 * time, before any draw could be kept). *out is NULL on error. */
ATVI_CHECKED atvi_status atvi_ram_run(atvi_ctx *ctx, atvi_evaluator *ev, const atvi_ram_opts *opts,
                                      atvi_draws **out);

#endif
