/* SPDX-License-Identifier: MIT */
/* Variational inference: annealed and transformed (atvi), with a flow and no annealing (nf), with a copula.
 *
 * A family q is trained in unconstrained coordinates (space.h) along a ladder of tempered posteriors; other
 * modes are looked for and get a component of their own; fine-tuning follows where it helps. The end is
 * importance sampling: fresh draws of q with smoothed weights, exact in the limit, with k-hat and ESS telling
 * how far they can be trusted. Where k-hat forbids the weights, chains that start from q and use it take over
 * (vi_exact.c). */
#ifndef ATVI_INFER_VI_H
#define ATVI_INFER_VI_H

#include "atvi/draws.h"
#include "flow/flow.h"
#include "infer/space.h"
#include "infer/vi_tuning.h"

typedef enum { ATVI_TUNE_AUTO, ATVI_TUNE_ON, ATVI_TUNE_OFF } atvi_tune;
typedef enum { ATVI_EXACT_AUTO, ATVI_EXACT_ON, ATVI_EXACT_OFF } atvi_exact;

typedef struct {
  /* Name in the draws: "atvi", "nf", "copula". */
  const char *method;
  uint64_t seed;
  /* With layers = 0: atvi_flow_defaults. */
  atvi_flow_shape shape;
  /* Above 0: a copula with this many factors instead of a flow. */
  int factors;
  /* For parameters that leave it open; see atvi_infer_space_new. */
  const char *map;
  /* Temperatures of the ladder, falling, the last one 1. n_rung = 0: chosen from the draws at hand; 1 with
   * temperature 1: no annealing. */
  int n_rung;
  const double *temperature; /* [n_rung] */
  /* A block of layers per temperature, earlier ones frozen (needs n_rung >= 1). */
  bool freeze;
  /* Fine-tuning with smoothed weights. */
  atvi_tune tune;
  /* Look for other modes. */
  bool seek_modes;
  /* Plain normals instead of Sobol points. */
  bool plain;
  /* Draws per step, >= 8. */
  int batch;
  /* Steps of training in all, >= 1. */
  int max_steps;
  /* Effective size of the weighted draws, > 0; NaN: 25 000, or 4 000 where runs are dear. */
  double ess;
  /* Wall-clock limit, > 0; HUGE_VAL: none. */
  double max_seconds;
  /* The exact sampler; auto: where k-hat forbids the weights. Flows only. */
  atvi_exact exact;
  /* Iterations of each of its chains at most, >= 1. */
  int exact_iter;
  /* For measurements; NULL: the defaults. */
  const atvi_vi_tuning *tuning;
} atvi_vi_opts;

atvi_vi_opts atvi_infer_vi_defaults(void); /* atvi */
atvi_vi_opts
atvi_infer_vi_nf_defaults(void); /* the same flow, logistic map, no annealing, one mode, not tuned */
atvi_vi_opts atvi_infer_vi_copula_defaults(void); /* likewise with a copula */

/* *out: independent draws with weights that sum to one (draws.h resamples them), or, of the exact sampler, chains without
 * weights (made.exact is 1). made has elbo, khat, log_evidence, efficiency, modes and the rest. Depends on
 * the options and the target alone, not on the number of threads (unless time or the stop request ends the
 * run). The target must give gradients. Errors: EINVAL (a setting out of range), ENOMEM, EMODEL (no point of
 * the prior can be evaluated), ESTOP, ELIMIT. *out is NULL on error. */
ATVI_CHECKED atvi_status atvi_infer_vi_run(atvi_ctx *ctx, atvi_evaluator *ev, const atvi_vi_opts *opts,
                                           atvi_draws **out);

#endif
