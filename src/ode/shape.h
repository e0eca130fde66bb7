/* SPDX-License-Identifier: MIT */
/* The entries of a Jacobian that are not always 0, for implicit steps. */
#ifndef ATVI_ODE_SHAPE_H
#define ATVI_ODE_SHAPE_H

#include "core/core.h"

typedef struct atvi_ode_shape {
  /* Entries that the program of the Jacobian gives, and where each stands in the matrix of reordered states, row * n + column. */
  atvi_idx n_entry;
  const int32_t *at; /* [n_entry] */
  /* The states in the order in which they are eliminated. */
  const int32_t *order; /* [n] */
  /* The last row and the last column that a pivot changes; neither ever decreases. */
  const int32_t *low, *right; /* [n] */
  /* Operations of factors, and of a solution with them. */
  double factor, solve;
} atvi_ode_shape;

/* Of n states with these entries, row * n + column; NULL: out of memory. */
const atvi_ode_shape *atvi_ode_shape_new(atvi_pool *pool, atvi_idx n, atvi_idx n_entry, const int32_t *entry);

#endif
