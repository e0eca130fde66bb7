/* SPDX-License-Identifier: MIT */
/* The inside of the exact sampler: its moves (vi_moves.c) and its driver (vi_exact.c). */
#ifndef ATVI_INFER_VI_EXACT_H
#define ATVI_INFER_VI_EXACT_H

#include "infer/chains.h"
#include "infer/vi_state.h"
#include "math/rng.h"

enum {
  ATVI_EXACT_CHAINS = 4 * ATVI_LANES,
  ATVI_EXACT_LEAPS = 8,
  ATVI_EXACT_LINES = 4,
  ATVI_EXACT_DEGREES = 2
};

/* A point of each lane, and all that is known there. */
typedef struct {
  double *x, *theta, *dx;               /* [d][LANES] xi, parameters, gradient of log pi in xi */
  double *z;                            /* [d][LANES] base draw of component k[lane] that gives x */
  double *log_prior, *log_lik, *log_pi; /* [LANES] */
  double *part_q;   /* [n_part][LANES] log (share times density) of each component, guarded */
  double *log_q;    /* [LANES] of the mixture: log of the sum of these */
  double *log_jump; /* [LANES] of that and the heavy-tailed part */
  double *log_own;  /* [LANES] of component k[lane] alone, not guarded, in its own frame */
  int k[ATVI_LANES];
} atvi_exact_point;

/* LANES chains that one thread moves at a time. */
typedef struct {
  uint32_t chain; /* number of the first */
  atvi_exact_point now, next;
  double *p, *dz, *x, *y; /* [d][LANES] momentum, gradient in z, scratch */
  double *row[2];         /* [LANES] scratch */
  double *accepted,
      *tried; /* [2][n_part] local moves (through the flow, without) with steps as adapted: sum of probabilities, number; since the caller set them to 0 */
  double jumped, jumps; /* the same of jumps */
} atvi_exact_group;

typedef struct {
  atvi_vi *v;
  atvi_idx n_part;
  void **work;  /* [threads][n_part] of the family, each for LANES draws */
  double *step; /* [2][n_part] of leapfrog in a component's coordinates, and in its frame */
  int leaps;    /* at most so many per move */
  int lines;    /* slice updates per iteration; 0: none */
  double *sd;   /* [d] of the posterior, about: for lines parallel to an axis */
  atvi_member
      spread;       /* location and covariance of it (no phi): for other lines, and for heavy-tailed jumps */
  double log_heavy; /* log density of the t distribution at its centre */
} atvi_exact_moves;

/* Arrays of a group, from the pool; false: out of memory. */
bool atvi_exact_group_make(atvi_pool *pool, atvi_idx d, atvi_idx n_part, atvi_exact_group *g);
/* sd, spread and log_heavy from n >= 1 points x[d][n], which it spoils; no correlations where they have no covariance. False: out of
 * memory. */
bool atvi_exact_spread(atvi_pool *pool, atvi_idx d, atvi_idx n, double *x, atvi_exact_moves *s);
/* Puts the lanes at x[d][LANES] and finds all that is known there; k is the component that most likely gives x. */
void atvi_exact_place(const atvi_exact_moves *s, atvi_exact_group *g, int worker, const double *x);
/* s->lines updates of every lane along lines (vi_exact_lines.c): next.x is where they lead. r[LANES]. */
void atvi_exact_lines(const atvi_exact_moves *s, atvi_exact_group *g, int worker, atvi_rng *r);
/* One iteration: a jump, a local move, and updates along lines. Random numbers belong to (seed, iteration, chain). */
void atvi_exact_step(const atvi_exact_moves *s, atvi_exact_group *g, int worker, uint32_t iteration);

#endif
