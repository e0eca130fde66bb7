/* SPDX-License-Identifier: MIT */
/* Blocks: what the units of a target (target.h) make of the coordinates.
 *
 * Given the common coordinates, those of different blocks are independent in prior and likelihood:
 *
 *     log pi(x) = f_0(x_0) + sum_b f_b(x_0, x_b)
 *
 * A unit and all that is nested in it are one block. */
#ifndef ATVI_INFER_BLOCKS_H
#define ATVI_INFER_BLOCKS_H

#include "core/core.h"

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

struct atvi_space;
/* Looks for them in the target and in the links of a space. Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_infer_blocks_find(const struct atvi_space *s, atvi_blocks *out);

#endif
