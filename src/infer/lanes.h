/* SPDX-License-Identifier: MIT */
/* The arithmetic of adaptive Metropolis for one group of ATVI_LANES chains, a chain per lane.
 * Arrays are [..][ATVI_LANES], aligned to ATVI_ALIGN. No lane ever influences another. */
#ifndef ATVI_INFER_LANES_H
#define ATVI_INFER_LANES_H

#include "core/core.h"

typedef struct {
  atvi_idx d;
  uint64_t seed;
  uint32_t chain;              /* number of the chain in lane 0 */
  const double *lower, *upper; /* [d], shared by the lanes */
  double *S; /* [d (d + 1) / 2][LANES] lower triangular factor of the proposal, row after row */
  double *x; /* [d][LANES] where the chains are */
  double *log_prior, *log_lik; /* [LANES] there */
  double *u;                   /* [d + 1][LANES] standard normals of the current proposal (one to spare) */
  double *log_u;               /* [LANES] log of the uniform number that decides */
  double *prop;                /* [d][LANES] proposal */
  double *prop_log_prior, *prop_log_lik; /* [LANES]; -inf: rejected */
  double *outside;                       /* [LANES] 1 where the proposal is outside the box, else 0 */
  double *diag, *gain;                   /* [d][LANES] scratch */
  double *accepted;                      /* [LANES] count of accepted proposals */
} atvi_lanes;

/* prop = x + S u with the random numbers of this iteration; fills u, log_u, outside. */
typedef void atvi_lanes_propose_fn(const atvi_lanes *g, uint32_t iteration);
/* Accepts or rejects for the density prior * likelihood^beta, then
 * S S^T becomes S (I + eta (alpha - 0.234) u u^T / |u|^2) S^T. eta in [0, 1]. */
typedef void atvi_lanes_update_fn(const atvi_lanes *g, double beta, double eta);

atvi_lanes_propose_fn atvi_lanes_propose_base, atvi_lanes_propose_avx2, atvi_lanes_propose_avx512;
atvi_lanes_update_fn atvi_lanes_update_base, atvi_lanes_update_avx2, atvi_lanes_update_avx512;

#endif
