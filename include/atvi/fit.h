/* SPDX-License-Identifier: MIT */
/* From a TARGET to DRAWS: every method behind one call. */
#ifndef ATVI_FIT_H
#define ATVI_FIT_H

#include "atvi/draws.h"
#include "atvi/target.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Start with atvi_fit_defaults() and change what you like. A NULL string means the default. An option that
 * the method does not take is an error. 'atvi fit --help' explains methods and options, atvi_fit_method_word
 * (bind.h) lists them. */
typedef struct {
  /* Set by atvi_fit_defaults. */
  size_t size;
  /* "atvi" (the default), "nf", "copula", "ram", "nuts", "map", ... */
  const char *method;
  uint64_t seed;
  /* Effective sample size wanted; 0: the method's default. */
  double ess;
  /* Wall-clock limit; 0: none. */
  double max_seconds;
  /* Number of chains, for methods that have chains; 0: the method's default. */
  atvi_idx chains;
  /* Most iterations of each chain, or training steps; 0: the method's default. */
  atvi_idx max_iter;
  /* atvi: "auto", "none", or falling temperatures that end with 1: "3,1". */
  const char *ladder;
  /* atvi, with given temperatures: a block of layers per temperature, earlier ones frozen. */
  bool freeze;
  /* atvi, for parameters without a map of their own: "auto", "surjection", "probit", "logit". */
  const char *map;
  /* atvi: fine-tuning "auto", "on", "off". */
  const char *tune;
  /* atvi: "on": chains that start from the approximation and become exact, instead of its weighted draws;
   * "auto": if k-hat forbids the weights; "off": never. */
  const char *exact;
  /* File in which the state of the fit is kept while it runs. If it is there, the fit goes on from it and
   * gives the same draws as one that was never interrupted. It is removed at the end, and stays after a
   * request to stop. NULL: none. */
  const char *checkpoint;
  /* Most seconds between two checkpoints: work that a kill may cost; 0: 30. */
  double checkpoint_seconds;
} atvi_fit_opts;

ATVI_API atvi_fit_opts atvi_fit_defaults(void);

/* Infers. opts NULL: defaults. The target must give gradients (except for ram), be smooth inside its bounds,
 * and allow calls from several threads at once. It may be freed afterwards. Draws of atvi, nf and copula are
 * weighted (draws->weight), those of ram, nuts and map are not, nor are those of the exact sampler of atvi
 * (made.exact is 1). The weights make them draws of the posterior if made.khat is at most min(1 - 1/log10 n,
 * 0.7); atvi_draws_resample then gives plain ones. The same seed gives the same draws, whatever the number of
 * threads. One context serves one thread at a time; contexts are independent. Errors: EINVAL (an option; the
 * message names it), EDATA (the checkpoint is of another fit, judging by options, parameters and the density
 * at eight points, or is damaged), ENOMEM, EMODEL (the target cannot be evaluated anywhere), ESTOP, ELIMIT
 * (before the first result), those of the target's work_new. *out is NULL on error; free it with
 * atvi_draws_free. */
ATVI_API ATVI_CHECKED atvi_status atvi_fit(atvi_ctx *ctx, const atvi_target *target,
                                           const atvi_fit_opts *opts, atvi_draws **out);

#ifdef __cplusplus
}
#endif
#endif
