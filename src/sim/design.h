/* SPDX-License-Identifier: MIT */
/* Points at which a simulator is run: n points x[n][d] of the unit cube that leave no corner empty.
 *
 * LHS    Latin hypercube: each of n equal slices of every axis contains one point. Slices are paired so that the nearest points are far apart (maximin).
 * SOBOL  scrambled Sobol points (math/sobol.h).
 *
 * A design can be extended: the first n_old points do not change in any bit, and new ones fill the gaps. A
 * Latin hypercube that is extended to a multiple of its size is a Latin hypercube again; to other sizes its
 * slices are as even as the old points allow. If the old points cover only part of an axis, because the range
 * has grown, new ones are spread over the empty part. */
#ifndef ATVI_SIM_DESIGN_H
#define ATVI_SIM_DESIGN_H

#include "core/core.h"

typedef enum { ATVI_DESIGN_LHS, ATVI_DESIGN_SOBOL } atvi_design_kind;

/* Fills rows n_old .. n-1 of x[n][d]; the rows before are given (SOBOL ignores them). Depends only on the
 * seed, the old points and the sizes. Errors: EINVAL (d < 1, n_old < 0, n < n_old, old points outside the
 * unit cube), ENOMEM. */
ATVI_CHECKED atvi_status atvi_sim_design_fill(atvi_ctx *ctx, atvi_design_kind kind, uint64_t seed, atvi_idx d,
                                              atvi_idx n_old, atvi_idx n, double *x);

/* The part of axis j that points x[n][d] cover: [0, 1], or less if an end has none of them. */
void atvi_sim_design_extent(atvi_idx n, atvi_idx d, const double *x, atvi_idx j, double *from, double *to);

#endif
