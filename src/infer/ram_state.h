/* SPDX-License-Identifier: MIT */
/* The inside of adaptive Metropolis, shared by its driver (ram.c) and its judge (ram_judge.c). */
#ifndef ATVI_INFER_RAM_STATE_H
#define ATVI_INFER_RAM_STATE_H

#include "infer/chains.h"
#include "infer/lanes.h"
#include "infer/ram.h"

typedef struct {
  atvi_lanes lanes;
  int n;                                /* chains in use, <= ATVI_LANES */
  double *pack, *pack_prior, *pack_lik; /* [d][n], [n], [n] evaluation of some of the lanes */
  atvi_outcome *outcome;                /* [LANES] */
} atvi_ram_group;

typedef struct {
  atvi_ctx *ctx;
  atvi_evaluator *ev;
  const atvi_target *target;
  atvi_ram_opts opts;
  atvi_idx d, n_group;
  atvi_ram_group *group; /* [n_group] */
  double *bounds;        /* [2][d] */
  atvi_idx room;         /* states per chain in the store, even */
  double *store;         /* [d + 2][chains][room]; the last two rows are log prior and log likelihood */
  atvi_idx thin;         /* iterations per stored state */
  atvi_idx done;         /* iterations run */
  atvi_idx to;           /* where the current block ends */
  atvi_idx anneal;       /* iterations below full likelihood */
  atvi_idx discard;  /* iterations of which nothing may be kept: annealing, and before chains were moved */
  int moved;         /* chains that were moved */
  double moved_drop; /* how much lower the log posterior was where they came from, at most */
  double log_beta0;
  atvi_criteria judge;
  double *shape; /* [d][d + 1] covariance that the chains share, and a mean */
  double begun_s;
  atvi_lanes_propose_fn *propose;
  atvi_lanes_update_fn *update;
} atvi_ram;

/* The stored states; those to keep are the second half, without what must be discarded. */
atvi_chains atvi_ram_kept(const atvi_ram *r);
/* Moves chains that are lost in a region of negligible mass to where others are. */
void atvi_ram_move(atvi_ram *r);
/* Gives every chain's proposal the shape of the covariance within the chains, at its own size. */
void atvi_ram_reshape(atvi_ram *r);

#endif
