/* SPDX-License-Identifier: MIT */
/* A target in unconstrained coordinates: a map per parameter (transform.h), and log pi(xi) with its gradient.
 *
 *     log pi_beta(xi) = beta log p(D | theta) + log p(theta) + ldj(xi),   theta = map(xi)
 *
 * A parameter whose prior depends on others goes two steps, xi -> z by its map and z -> theta by its anchor
 * (anchor.h), level by level since the anchor needs the values of those others. Maps, their bounds and folds
 * are then those of z.
 *
 * The prior is about standard normal in xi, exactly so for a uniform prior under the probit map: location and
 * scale of the other maps are those of prior draws. Where the prior cannot be drawn it may not even be
 * proper, and the path is beta (log p(D | theta) + log p(theta) + ldj) + (1 - beta) log N(xi; 0, I) instead.
 * At beta = 1 both are the posterior: integral Z. */
#ifndef ATVI_INFER_SPACE_H
#define ATVI_INFER_SPACE_H

#include "infer/kin.h"
#include "infer/stand_in.h"
#include "infer/vi_tuning.h"
#include "model/evaluator.h"
#include "transform/transform.h"

/* The anchor of a parameter. */
typedef struct {
  /* ALONE: it has none, theta = z. */
  atvi_prior_form form;
  /* >= 1; scales, and locations that are not parameters, follow from theta of lower levels; 0 if ALONE. */
  int level;
  /* Within a level: a location that is a parameter of the same level has less. */
  int depth;
  /* The parameter that is its location, if that has the same level; -1: it has not, or there is none. */
  atvi_idx at;
  /* The parameter that gets its message (anchor.h); -1: none. */
  atvi_idx to;
  /* Its kin (kin.h); -1: none. */
  atvi_idx kin;
  /* The parameter of which its location is an affine function, if both may be kin; -1: none. */
  atvi_idx after;
  /* What the data say of it, but for messages; where kin are taken together, of that coordinate of theirs. */
  double k, r;
} atvi_space_link;

/* Blocks: what the units of a target (target.h) make of the coordinates.
 *
 * Given the common coordinates, those of different blocks are independent in prior and likelihood:
 *
 *     log pi(x) = f_0(x_0) + sum_b f_b(x_0, x_b)
 *
 * A unit and all that is nested in it are one block. */
typedef struct {
  /* Blocks beside what is common; 0: there is no such structure. */
  atvi_idx n;
  /* [d] the block of a coordinate, 1 .. n; 0: it is common. */
  atvi_idx *of;
  /* [units] the block that a unit of the target is part of; 0: of what is common. */
  atvi_idx *unit;
  /* [threads] scratch for the evaluation by blocks. */
  double **room;
} atvi_blocks;

typedef struct atvi_space {
  atvi_ctx *ctx;
  /* Borrowed. */
  atvi_evaluator *ev;
  const atvi_target *target;
  atvi_idx d;
  /* The path begins at the prior; false: at N(0, I). */
  bool from_prior;
  /* [d] may be changed before the first evaluation. */
  atvi_map *map;
  /* Steps to theta: 1 + the highest level of a parameter with an anchor; 1: there are none. */
  int n_level;
  atvi_space_link *link; /* [d] */
  atvi_idx n_anchor;
  /* [n_anchor] parameters with an anchor, by level and depth, the highest first: a location after all that it
   * is the location of. */
  atvi_idx *upward;
  /* Kin, and where they are kept. */
  atvi_idx n_kin;
  atvi_kin *kin;
  /* What stands in for the log likelihood, in these coordinates with folds undone; NULL: the model itself is
   * run. Borrowed; may be set and taken away between evaluations. */
  const atvi_stand_in *stand_in;
  /* Coordinates that are independent of each other given common ones. */
  atvi_blocks blocks;
  atvi_pool *pool;
  /* [threads] scratch of the workers. */
  double **part;
  /* [threads] and that for chains; NULL: there are none. */
  double **chain_part;
} atvi_space;

/* kind: for parameters whose own choice is auto ("auto" or NULL: probit, log or none by their bounds;
 * "logit", "surjection", ... where the bounds permit it, else as auto). Errors: EINVAL (no such kind; priors
 * in a circle; a parameter's own choice does not suit its bounds), ENOMEM. *out is NULL on error. */
ATVI_CHECKED atvi_status atvi_infer_space_new(atvi_ctx *ctx, atvi_evaluator *ev, const char *kind,
                                              uint64_t seed, atvi_space **out);
void atvi_infer_space_free(atvi_space *s); /* NULL is fine */

/* theta[d][B] of x[d][B], and the image x inside the box of theta. On the calling thread, not inside a
 * parallel region. */
void atvi_infer_space_fwd(const atvi_space *s, atvi_idx B, const double *x, double *theta);
void atvi_infer_space_inv(const atvi_space *s, atvi_idx B, const double *theta, double *x);

/* The gradient by x of something whose gradient by theta is dtheta[d][B], at x[d][B]: dx[d][B], which may be
 * dtheta. As fwd. */
void atvi_infer_space_pull(const atvi_space *s, atvi_idx B, const double *x, const double *dtheta,
                           double *dx);

/* B points. Pointers to outputs not wanted may be NULL; dx needs log_pi. */
typedef struct {
  atvi_idx B;
  /* [d][B] xi. */
  const double *x;
  /* Inverse temperature, in [0, 1]. */
  double beta;
  /* [d][B] required. */
  double *theta;
  /* [B] -inf: impossible; NaN: the run failed. */
  double *log_lik;
  double *log_prior; /* [B] */
  /* [B] log p(theta) + ldj, or log N: what remains at beta = 0. */
  double *log_base;
  /* [B] at beta; -inf where the run failed or the density is zero. */
  double *log_pi;
  /* [B] at beta = 1, whatever beta is. */
  double *log_pi_one;
  /* [d][B] gradient of log_pi; 0 where log_pi is not finite. */
  double *dx;
  /* [d][B] gradient of log_lik by theta; not together with dx, nor with a stand-in. */
  double *dlik;
  /* [1 + blocks.n][B] log p(theta), log p(D | theta) and ldj of what is common and of each block; all three
   * or none. */
  double *block_prior, *block_lik, *block_ldj;
} atvi_space_batch;

/* On all threads (it is up to the evaluator); not inside a parallel region. */
void atvi_infer_space_eval(const atvi_space *s, const atvi_space_batch *b);
/* On the calling thread, inside a parallel region. At most ATVI_BATCH points. */
void atvi_infer_space_eval_on(const atvi_space *s, int worker, const atvi_space_batch *b);

/* Location, scale, k and r (messages included) of the anchors, each [d], at one point theta[d]. As fwd. */
void atvi_infer_space_anchors(const atvi_space *s, const double *theta, double *loc, double *scale, double *k,
                              double *r);
/* Slopes of the locations in chains, [d], at one point theta[d]; other rows are not written. As fwd. */
void atvi_infer_space_slopes(const atvi_space *s, const double *theta, double *slope);
/* Chooses k and r of the links (settle.c), at a maximum of pi that climbs find from start[d][n], in xi. On
 * return they are set, or 0 where nothing could be measured; the maps' locations and scales are not. Errors:
 * ENOMEM. */
ATVI_CHECKED atvi_status atvi_infer_space_settle(atvi_space *s, atvi_idx n, const double *start);
/* Looks for blocks in the target and in the links of a space (blocks.c). Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_infer_blocks_find(const atvi_space *s, atvi_blocks *out);

#endif
