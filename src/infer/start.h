/* SPDX-License-Identifier: MIT */
/* Starting points: draws from the prior that can be evaluated, and a choice among them. */
#ifndef ATVI_INFER_START_H
#define ATVI_INFER_START_H

#include "model/evaluator.h"

typedef struct {
  atvi_ctx *ctx;
  atvi_idx d, n;     /* parameters; points found, >= 1 */
  atvi_idx cap;      /* row length of theta */
  bool from_prior;   /* false: the prior cannot be drawn, the points are spread over the box */
  double *theta;     /* [d][cap], the first n of each row */
  double *log_prior; /* [n] finite */
  double *log_lik;   /* [n] finite */
  double *scale;     /* [d] standard deviations of the prior, from draws, > 0 */
  atvi_idx tried;    /* points evaluated to find n */
  atvi_idx bad[7];   /* of these, by atvi_outcome; [0]: evaluated, but of zero likelihood; [6] unused */
} atvi_starts;

/* Draws points until want >= 1 can be evaluated and have positive density, or a limit (at least 2 000
 * draws) is reached. *out is NULL on error.
 * Errors: EINVAL (want < 1), ENOMEM, EMODEL (no point at all can be evaluated: the message says how most
 * of them ended), ESTOP. */
ATVI_CHECKED atvi_status atvi_starts_new(atvi_ctx *ctx, atvi_evaluator *ev, uint64_t seed, atvi_idx want,
                                         atvi_starts **out);
void atvi_starts_free(atvi_starts *s); /* NULL is fine */

/* Draws m points: index[m]. The likelihood counts with a power beta <= 1, returned, so small that about
 * 2 m of the points matter (all of them if there are fewer): better ones are preferred, and they remain as
 * dispersed as the candidates allow. Points are distinct while there are enough of them. */
double atvi_starts_pick(const atvi_starts *s, uint64_t seed, atvi_idx m, atvi_idx *index);

#endif
