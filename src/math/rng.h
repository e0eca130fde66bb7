/* SPDX-License-Identifier: MIT */
/* Counter-based random numbers: Philox4x32-10 (Salmon and others 2011).
 *
 * A generator is a position: (seed, stream, iteration, draw). Equal positions give equal
 * numbers whatever the thread, so results do not depend on who computes what.
 * Streams are named below so that no two uses share numbers. */
#ifndef ATVI_MATH_RNG_H
#define ATVI_MATH_RNG_H

#include "core/compiler.h"
#include "core/core.h"

typedef struct {
  uint32_t key[2];     /* seed */
  uint32_t counter[4]; /* block number, draw, iteration, stream */
  uint32_t out[4];
  int left; /* unused words in out */
} atvi_rng;

enum {                        /* streams */
       ATVI_STREAM_START = 1, /* starting points */
       ATVI_STREAM_PRIOR,
       ATVI_STREAM_OBSERVE, /* simulated observations */
       ATVI_STREAM_MCMC,
       ATVI_STREAM_MAP,
       ATVI_STREAM_CHECK,
       ATVI_STREAM_TEST,
       ATVI_STREAM_TRAIN, /* base draws of variational training */
       ATVI_STREAM_FINAL, /* and of its end */
       ATVI_STREAM_RESAMPLE,
       ATVI_STREAM_UNIT,           /* seeds of units */
       ATVI_STREAM_POPULATION,     /* points annealed where an approximation lacks the posterior */
       ATVI_STREAM_BLOCKS,         /* units, each by itself */
       ATVI_STREAM_EXACT = 32,     /* chains that start from an approximation */
       ATVI_STREAM_PREDICT = 64,   /* predictive draws */
       ATVI_STREAM_EMULATOR = 128, /* functions that an emulator may be of: one more for each process */
};

/* One Philox4x32-10 block, bit for bit as published. */
void atvi_math_rng_block(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

atvi_rng atvi_math_rng_at(uint64_t seed, uint32_t stream, uint32_t iteration, uint32_t draw);
uint64_t atvi_math_rng_bits(atvi_rng *r);  /* 64 random bits */
double atvi_math_rng_uniform(atvi_rng *r); /* in (0, 1), never 0 or 1 */
double atvi_math_rng_normal(atvi_rng *r);  /* standard normal (Box-Muller or inversion; no rejection) */
/* x[n][ATVI_LANES]: the n normals that come first from `first` on, even, at this position and at those of the
 * draws that follow. To rounding those of atvi_math_rng_normal, at a tenth of the time. */
void atvi_math_rng_normals(const atvi_rng *at, atvi_idx first, atvi_idx n, double *x);
double atvi_math_rng_exponential(atvi_rng *r);         /* mean 1 */
double atvi_math_rng_gamma(atvi_rng *r, double shape); /* scale 1; shape > 0, also below 1 */
double atvi_math_rng_beta(atvi_rng *r, double a, double b);
double atvi_math_rng_student(atvi_rng *r, double df);
double atvi_math_rng_poisson(atvi_rng *r,
                             double mean); /* mean >= 0; whole number; right for mean up to 1e9 */
double atvi_math_rng_binomial(atvi_rng *r, double n, double p);
double atvi_math_rng_negbin(atvi_rng *r, double mean, double size); /* variance mean + mean^2 / size */

#endif
