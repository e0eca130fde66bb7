/* SPDX-License-Identifier: MIT */
/* A target in unconstrained coordinates: a map per parameter (transform.h), and log pi(xi) with its gradient.
 *
 *     log pi_beta(xi) = beta log p(D | theta) + log p(theta) + ldj(xi),   theta = map(xi)
 *
 * The prior is about standard normal in xi, exactly so for a uniform prior under the probit map: location and scale of
 * the other maps are those of prior draws. Where the prior cannot be drawn it may not even be proper, and the path is
 * beta (log p(D | theta) + log p(theta) + ldj) + (1 - beta) log N(xi; 0, I) instead. At beta = 1 both are the
 * posterior: integral Z. */
#ifndef ATVI_INFER_SPACE_H
#define ATVI_INFER_SPACE_H

#include "model/evaluator.h"
#include "transform/transform.h"

typedef struct {
  atvi_ctx *ctx;
  atvi_evaluator *ev; /* borrowed */
  const atvi_target *target;
  atvi_idx d;
  bool from_prior; /* the path begins at the prior; false: at N(0, I) */
  atvi_map *map;   /* [d] may be changed before the first evaluation */
  double **part;   /* [threads] scratch of the workers */
} atvi_space;

/* kind: for parameters whose own choice is auto ("auto" or NULL: probit, log or none by their bounds; "logit",
 * "surjection", ... where the bounds permit it, else as auto). Errors: EINVAL (no such kind; a parameter's own choice does not
 * suit its bounds), ENOMEM. *out is NULL on error. */
ATVI_CHECKED atvi_status atvi_infer_space_new(atvi_ctx *ctx, atvi_evaluator *ev, const char *kind,
                                              uint64_t seed, atvi_space **out);
void atvi_infer_space_free(atvi_space *s); /* NULL is fine */

/* B points. Pointers to outputs not wanted may be NULL; dx needs log_pi. */
typedef struct {
  atvi_idx B;
  const double *x;    /* [d][B] xi */
  double beta;        /* inverse temperature, in [0, 1] */
  double *theta;      /* [d][B] required */
  double *log_lik;    /* [B] -inf: impossible; NaN: the run failed */
  double *log_prior;  /* [B] */
  double *log_base;   /* [B] log p(theta) + ldj, or log N: what remains at beta = 0 */
  double *log_pi;     /* [B] at beta; -inf where the run failed or the density is zero */
  double *log_pi_one; /* [B] at beta = 1, whatever beta is */
  double *dx;         /* [d][B] gradient of log_pi; 0 where log_pi is not finite */
} atvi_space_batch;

/* On all threads (it is up to the evaluator); not inside a parallel region. */
void atvi_infer_space_eval(const atvi_space *s, const atvi_space_batch *b);
/* On the calling thread, inside a parallel region. At most ATVI_SPACE_PART points. */
enum { ATVI_SPACE_PART = 256 };
void atvi_infer_space_eval_on(const atvi_space *s, int worker, const atvi_space_batch *b);

#endif
