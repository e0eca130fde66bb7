/* SPDX-License-Identifier: MIT */
/* One transition of the No-U-Turn sampler, and how its step size is adapted. */
#ifndef ATVI_INFER_NUTS_TREE_H
#define ATVI_INFER_NUTS_TREE_H

#include "core/core.h"
#include "io/memo.h"
#include "math/rng.h"

/* ---- trees ---- */

/* A place and all that is known of it. */
typedef struct {
  /* [d] */
  double *x, *g, *theta;
  double log_pi, log_prior, log_lik;
  /* of the place and the momentum it was reached with */
  double energy;
} atvi_nuts_place;

/* What the target says about the point that was asked for. */
typedef struct {
  /* log_pi -inf: the run failed */
  double log_pi, log_prior, log_lik;
  /* [d][stride], the first of each row */
  const double *g, *theta;
  atvi_idx stride;
} atvi_nuts_value;

/* A stretch of the trajectory: a subtree. Index 0 is the leaf that was visited first, 1 the last. */
typedef struct {
  /* [d] sum of momenta */
  double *rho;
  /* [d] momenta and velocities at its ends */
  double *p[2], *v[2];
  /* log sum of e^(H0 - H) */
  double log_weight;
  atvi_nuts_place pick;
} atvi_nuts_node;

typedef struct {
  double *x, *p, *g; /* [d] */
} atvi_nuts_phase;

/* A transition, one gradient at a time: begin, then for every point that is asked for in move.x, take. */
typedef struct {
  atvi_idx d;
  int max_depth;
  /* [d] the inverse metric */
  const double *var;
  double eps;
  atvi_rng rng;
  /* where the transition begins and, once it is complete, where it ended */
  atvi_nuts_place at;
  /* the leapfrog: x is the point asked for, p and g are half a step behind */
  atvi_nuts_phase move;
  /* ends of the whole; it grows at 1, where time has this sign */
  atvi_nuts_phase end[2];
  int sign;
  double h0;
  /* the stack: [max_depth + 1] subtrees of 2^k leaves that wait for their other half */
  atvi_nuts_node whole, *stack;
  int n_stack;
  /* of the subtree that is being built */
  uint32_t leaves;
  /* the whole has 2^depth leaves */
  int depth;
  int steps;
  /* over steps, of min(1, e^(H0 - H)) */
  double sum_accept;
  bool divergent;
} atvi_nuts_tree;

void atvi_infer_nuts_place_copy(atvi_idx d, atvi_nuts_place *to, const atvi_nuts_place *from);
void atvi_infer_nuts_tree_carve(atvi_arena *a, atvi_nuts_tree *t, atvi_idx d, int max_depth);
/* A leapfrog step: half a step of the momentum and one of the place; then, with the gradient at move.x, the
 * other half. Returns H, infinite where there is no density. */
void atvi_infer_nuts_leap(atvi_nuts_tree *t);
double atvi_infer_nuts_land(atvi_nuts_tree *t, const atvi_nuts_value *v);
/* Everything but var, in the middle of a transition too. */
void atvi_infer_nuts_tree_state(atvi_nuts_tree *t, atvi_state *s);
/* at, var, eps and rng are set. */
void atvi_infer_nuts_begin(atvi_nuts_tree *t);
/* Returns whether the transition is complete. */
bool atvi_infer_nuts_take(atvi_nuts_tree *t, const atvi_nuts_value *v);
/* A single step from `at` with a new momentum, for the search of a step size: asks for move.x; the answer
 * gives H0 - H. */
void atvi_infer_nuts_try(atvi_nuts_tree *t);
double atvi_infer_nuts_tried(atvi_nuts_tree *t, const atvi_nuts_value *v);

/* ---- step size ---- */

/* Dual averaging of log eps (Hoffman & Gelman 2014, 3.2). */
typedef struct {
  double mu, log_eps, log_eps_bar, error_bar, count;
} atvi_nuts_dual;
void atvi_infer_nuts_dual_begin(atvi_nuts_dual *a, double eps);
void atvi_infer_nuts_dual_step(atvi_nuts_dual *a, double wanted, double accept);

#endif
