/* SPDX-License-Identifier: MIT */
/* The inside of the No-U-Turn sampler, shared by its trees (nuts_tree.c), chains (nuts_chain.c) and driver (nuts.c). */
#ifndef ATVI_INFER_NUTS_STATE_H
#define ATVI_INFER_NUTS_STATE_H

#include "infer/chains.h"
#include "infer/nuts.h"
#include "infer/space.h"
#include "math/rng.h"

/* ---- trees ---- */

/* A place and all that is known of it. */
typedef struct {
  double *x, *g, *theta; /* [d] */
  double log_pi, log_prior, log_lik;
  double energy; /* of the place and the momentum it was reached with */
} atvi_nuts_place;

/* What the target says about the point that was asked for. */
typedef struct {
  double log_pi, log_prior, log_lik; /* log_pi -inf: the run failed */
  const double *g, *theta;           /* [d][stride], the first of each row */
  atvi_idx stride;
} atvi_nuts_value;

/* A stretch of the trajectory: a subtree. Index 0 is the leaf that was visited first, 1 the last. */
typedef struct {
  double *rho;         /* [d] sum of momenta */
  double *p[2], *v[2]; /* [d] momenta and velocities at its ends */
  double log_weight;   /* log sum of e^(H0 - H) */
  atvi_nuts_place pick;
} atvi_nuts_node;

typedef struct {
  double *x, *p, *g; /* [d] */
} atvi_nuts_phase;

/* A transition, one gradient at a time: begin, then for every point that is asked for in move.x, take. */
typedef struct {
  atvi_idx d;
  int max_depth;
  const double *var; /* [d] the inverse metric */
  double eps;
  atvi_rng rng;
  atvi_nuts_place at;   /* the state: where the transition begins and, once it is complete, where it ended */
  atvi_nuts_phase move; /* the leapfrog: x is the point asked for, p and g are half a step behind */
  atvi_nuts_phase end[2]; /* of the whole; it grows at 1 */
  int sign;               /* of time at end 1 */
  double h0;
  atvi_nuts_node whole, *stack; /* [max_depth + 1] subtrees of 2^k leaves that wait for their other half */
  int n_stack;
  uint32_t leaves; /* of the subtree that is being built */
  int depth;       /* the whole has 2^depth leaves */
  int steps;
  double sum_accept; /* sum over steps of min(1, e^(H0 - H)) */
  bool divergent;
} atvi_nuts_tree;

void atvi_nuts_tree_carve(atvi_arena *a, atvi_nuts_tree *t, atvi_idx d, int max_depth);
/* A leapfrog step: half a step of the momentum and one of the place; then, with the gradient at move.x, the other half.
 * Returns H, infinite where there is no density. */
void atvi_nuts_leap(atvi_nuts_tree *t);
double atvi_nuts_land(atvi_nuts_tree *t, const atvi_nuts_value *v);
/* at, var, eps and rng are set. */
void atvi_nuts_begin(atvi_nuts_tree *t);
/* Returns whether the transition is complete. */
bool atvi_nuts_take(atvi_nuts_tree *t, const atvi_nuts_value *v);
/* A single step from `at` with a new momentum, for the search of a step size: asks for move.x; the answer gives H0 - H. */
void atvi_nuts_try(atvi_nuts_tree *t);
double atvi_nuts_tried(atvi_nuts_tree *t, const atvi_nuts_value *v);

/* ---- chains ---- */

/* Dual averaging of log eps (Hoffman & Gelman 2014, 3.2). */
typedef struct {
  double mu, log_eps, log_eps_bar, error_bar, count;
} atvi_nuts_dual;
void atvi_nuts_dual_begin(atvi_nuts_dual *a, double eps);
void atvi_nuts_dual_step(atvi_nuts_dual *a, double wanted, double accept);

typedef enum { ATVI_NUTS_IDLE, ATVI_NUTS_SEARCH, ATVI_NUTS_BUILD } atvi_nuts_doing;

typedef struct {
  atvi_nuts_tree tree;
  uint32_t number;
  atvi_idx iteration; /* complete ones */
  atvi_nuts_doing doing;
  bool moved;
  bool search; /* a step size is to be searched before the next iteration */
  int way;     /* of the search: doubling 1, halving -1, not known yet 0 */
  atvi_nuts_dual dual;
  /* Since the window began: mean and sum of squared deviations of x, and the mean of log pi. */
  double *mean, *m2; /* [d] */
  double seen, mean_log_pi;
  /* Since warm-up ended. */
  double count, accept, depth, divergences, hits;
  double energy, energy_mean, energy_m2, energy_jumps;
} atvi_nuts_chain;

typedef struct {
  int n;                                /* chains in use, <= ATVI_LANES */
  atvi_nuts_chain *chain;               /* [ATVI_LANES] */
  double *x, *theta, *dx;               /* [d][n] of the points asked for */
  double *log_pi, *log_prior, *log_lik; /* [ATVI_LANES] */
} atvi_nuts_group;

enum { ATVI_NUTS_WINDOWS = 12 };

typedef struct {
  atvi_ctx *ctx;
  atvi_evaluator *ev;
  atvi_space *space;
  atvi_nuts_opts opts;
  atvi_idx d, n_group;
  atvi_nuts_group *group; /* [n_group] */
  double *var;            /* [d] the inverse metric, shared by all chains */
  double *sum;            /* [d] room to pool variances */
  double *mass;           /* [2][chains] room to look for lost chains */
  int n_window;
  atvi_idx window[ATVI_NUTS_WINDOWS + 1]; /* variances are learnt from window[k] + 1 .. window[k + 1] */
  atvi_idx warm;                          /* iterations of warm-up */
  atvi_idx goal;                          /* where chains wait for each other */
  atvi_idx rounds;                        /* gradients per chain of a block */
  atvi_idx room;                          /* states per chain in the store, even */
  double *store;                          /* see chains.h */
  atvi_idx thin;                          /* iterations per stored state */
  atvi_criteria judge;
  int moved;         /* chains that were moved */
  double moved_drop; /* how much lower the log density was where they came from, at most */
  double begun_s;
} atvi_nuts;

/* Sets an idle chain going, if it has not reached the goal. */
void atvi_nuts_resume(atvi_nuts *r, atvi_nuts_chain *c);
/* Hands a chain what it asked for; it goes on by itself until it is at the goal. */
void atvi_nuts_answer(atvi_nuts *r, atvi_nuts_chain *c, const atvi_nuts_value *v);
/* The end of a window, all chains idle: moves lost chains, takes the variances as the metric, begins anew. */
void atvi_nuts_window_end(atvi_nuts *r);
/* Smallest energy fraction of missing information (Betancourt 2016) of the chains; NaN: too few iterations. */
double atvi_nuts_ebfmi(const atvi_nuts *r);

static inline atvi_nuts_chain *atvi_nuts_chain_at(const atvi_nuts *r, atvi_idx k) {
  return &r->group[k / ATVI_LANES].chain[k % ATVI_LANES];
}

#endif
