/* SPDX-License-Identifier: MIT */
/* Scrambled Sobol points: uniforms and normals that fill space more evenly than independent ones.
 *
 * Direction numbers of Joe and Kuo (2008) for the first ATVI_SOBOL_DIMS dimensions; further dimensions are
 * independent uniforms. Nested uniform (Owen) scrambling, by hashing: every point is uniform, averages are
 * unbiased, and every scramble number is an independent randomisation of the same net.
 *
 * A point depends on its key, its number and the dimension only: not on the batch it is asked for in. The
 * best sets are 2^m points that begin at a multiple of 2^m. Kernels: no state, no allocation, no failure. */
#ifndef ATVI_MATH_SOBOL_H
#define ATVI_MATH_SOBOL_H

#include "core/core.h"

enum { ATVI_SOBOL_DIMS = 128 };

typedef struct {
  uint64_t seed;
  uint32_t stream;   /* as in rng.h, of this use alone */
  uint32_t scramble; /* e.g. the iteration */
} atvi_sobol;

/* Points first .. first+B-1 in d >= 0 dimensions, out[d][B], in (0, 1), never 0 or 1. 0 <= first, first + B
 * <= 2^32. */
void atvi_math_sobol_uniform(atvi_sobol key, atvi_idx first, atvi_idx d, atvi_idx B, double *out);
/* The same, standard normal by inversion. */
void atvi_math_sobol_normal(atvi_sobol key, atvi_idx first, atvi_idx d, atvi_idx B, double *out);
/* Independent normals with the same key and layout: the alternative. Apart from dimensions beyond the table,
 * they share no random number with the above. */
void atvi_math_sobol_plain_normal(atvi_sobol key, atvi_idx first, atvi_idx d, atvi_idx B, double *out);

/* Point i without scrambling, in units of 2^-32, for dim < ATVI_SOBOL_DIMS, in the (Gray code) order of Joe
 * and Kuo. */
uint32_t atvi_math_sobol_raw(uint32_t i, atvi_idx dim);

#endif
