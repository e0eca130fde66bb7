/* SPDX-License-Identifier: MIT */
/* The inside of the exact sampler: its moves (vi_moves.c) and its driver (vi_exact.c), for vi_chains.c. */
#ifndef ATVI_INFER_VI_EXACT_H
#define ATVI_INFER_VI_EXACT_H

#include "infer/chains.h"
#include "infer/vi_state.h"
#include "math/rng.h"

enum {
  ATVI_EXACT_CHAINS = 4 * ATVI_LANES, /* enough for R-hat, few enough that each is long */
  ATVI_EXACT_LEAPS = 8,               /* per Hamiltonian move, at most: half of a period at the usual steps */
  ATVI_EXACT_LINES =
      ATVI_EXACT_LEAPS / 2, /* slice updates per iteration where q is wrong: half of the cost */
  ATVI_EXACT_DEGREES = 2    /* of freedom of the heavy-tailed jumps: tails heavier than any with a variance */
};

/* A point of each lane, and all that is known there. */
typedef struct {
  /* [d][LANES] xi, parameters, gradient of log pi in xi */
  double *x, *theta, *dx;
  /* [d][LANES] base draw of component k[lane] that gives x */
  double *z;
  /* [LANES] */
  double *log_prior, *log_lik, *log_pi;
  /* [n_part][LANES] log (share times density) of each component, guarded */
  double *part_q;
  /* [LANES] of the mixture: log of the sum of these */
  double *log_q;
  /* [LANES] of that and the heavy-tailed part */
  double *log_jump;
  /* [LANES] of component k[lane] alone, not guarded, in its own frame */
  double *log_own;
  int k[ATVI_LANES];
} atvi_exact_point;

/* LANES chains that one thread moves at a time. */
typedef struct {
  /* number of the first */
  uint32_t chain;
  atvi_exact_point now, next;
  /* [d][LANES] momentum, gradient in z, scratch */
  double *p, *dz, *x, *y;
  /* [LANES] scratch */
  double *row[2];
  /* [2][n_part] local moves (through the flow, without) with steps as adapted: sum of probabilities and
   * number, since set to 0 */
  double *accepted, *tried;
  /* the same of jumps */
  double jumped, jumps;
} atvi_exact_group;

typedef struct {
  atvi_vi *v;
  atvi_idx n_part;
  /* [threads][n_part] of the family, each for LANES draws */
  void **work;
  /* [2][n_part] of leapfrog in a component's coordinates, and in its frame */
  double *step;
  /* leapfrog steps per move, at most */
  int leaps;
  /* slice updates per iteration; 0: none */
  int lines;
  /* iterations have no jump */
  bool stays;
  /* [d] standard deviations of the posterior, about: for lines parallel to an axis */
  double *sd;
  /* its location and covariance (no phi): for other lines, and for heavy-tailed jumps */
  atvi_member spread;
  /* log density of the t distribution at its centre */
  double log_heavy;
} atvi_exact_moves;

static inline void atvi_infer_exact_take_lane(atvi_idx rows, int lane, const double *from, double *to) {
  for (atvi_idx r = 0; r < rows; r++) to[r * ATVI_LANES + lane] = from[r * ATVI_LANES + lane];
}
/* Arrays of a group, from the pool; false: out of memory. */
bool atvi_infer_exact_group_make(atvi_pool *pool, atvi_idx d, atvi_idx n_part, atvi_exact_group *g);
/* log_heavy, of a spread that has changed. */
void atvi_infer_exact_heavy(atvi_idx d, atvi_exact_moves *s);
/* sd, spread and log_heavy from n >= 1 points x[d][n], which it spoils; no correlations where they have no
 * covariance. False: out of memory. */
bool atvi_infer_exact_spread(atvi_pool *pool, atvi_idx d, atvi_idx n, double *x, atvi_exact_moves *s);
/* n_part, leaps, steps to begin with, and scratch, of moves whose sd, spread and log_heavy are known; the
 * pool's, but for what close frees, also after an error. Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_infer_exact_open(atvi_vi *v, atvi_exact_moves *s);
void atvi_infer_exact_close(atvi_exact_moves *s);
/* Puts the lanes at x[d][LANES] and finds all that is known there; k is the component that most likely gives
 * x. */
void atvi_infer_exact_place(const atvi_exact_moves *s, atvi_exact_group *g, int worker, const double *x);
/* s->lines updates of every lane along lines (vi_exact_lines.c): next.x is where they lead. r[LANES]. */
void atvi_infer_exact_lines(const atvi_exact_moves *s, atvi_exact_group *g, int worker, atvi_rng *r);
/* One iteration: a jump, a local move, and updates along lines. Random numbers belong to (seed, iteration,
 * chain). */
void atvi_infer_exact_step(const atvi_exact_moves *s, atvi_exact_group *g, int worker, uint32_t iteration);
/* Moves log_step[2][n_part] towards the acceptance that is wanted, by what n groups saw of local moves with
 * each component, in order, and forgets that; round = 0, 1, ... */
void atvi_infer_exact_adapt(const atvi_exact_moves *s, atvi_idx n, atvi_exact_group *g, int round,
                            double wanted, double *log_step);

/* The sampler on the driver of chains.h, ready for atvi_infer_chains_on, from draws by their weights; what
 * follows log prior and log likelihood of a state is log pi - log q. where: sd, spread and log_heavy. The
 * pool's, but for what ops->end frees. Errors: ENOMEM; *out is NULL then. */
ATVI_CHECKED atvi_status atvi_infer_exact_begin(atvi_vi *v, const atvi_vi_weights *w,
                                                const atvi_exact_moves *where, atvi_chains **out);

#endif
