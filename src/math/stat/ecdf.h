/* SPDX-License-Identifier: MIT */
/* Are ranks uniform? Simultaneous bands for their empirical distribution function (Saeilynoja, Buerkner and Vehtari 2022,
 * Graphical test for discrete uniformity, Statistics and Computing 32:32).
 *
 * Of n ranks, each one of 0 .. k-1, let C_i be how many are below i, i = 1 .. k-1. If ranks are uniform C_i ~ Binomial(n, i/k), so
 * that a band which each C_i leaves with probability gamma is a pair of binomial quantiles. How often any of them is outside
 * is found by simulation: of ranks drawn uniformly, the smallest two-sided binomial tail over i,
 *     g = 2 min_i min(P(C <= C_i), P(C >= C_i)),
 * has a distribution whose alpha quantile is the gamma of a band that holds everywhere with probability 1 - alpha; the share of
 * simulated g that are no larger than the observed one is a p-value. Where it would be smaller than simulation can tell, (k - 1) g bounds it. */
#ifndef ATVI_MATH_STAT_ECDF_H
#define ATVI_MATH_STAT_ECDF_H

#include "core/core.h"

typedef struct atvi_ecdf atvi_ecdf;

/* How many simulations it takes to tell p-values about level > 0: 10 / level, as far as that takes a few seconds at most, and no fewer than usual. */
atvi_idx atvi_ecdf_sims(atvi_idx n, double level);
/* For n >= 1 ranks of k >= 2 values, by simulating `sims` >= 100 sets (0: as many as take about a second, at least 4000). n * k at
 * most 1e8. *out is NULL on error. Errors: EINVAL, ENOMEM. */
ATVI_CHECKED atvi_status atvi_ecdf_new(atvi_ctx *ctx, atvi_idx n, atvi_idx k, atvi_idx sims, uint64_t seed,
                                       atvi_ecdf **out);
void atvi_ecdf_free(atvi_ecdf *e); /* NULL is fine */

/* p-value of ranks that occur count[k] times, sum n; 0 only where it underflows. */
double atvi_ecdf_p(const atvi_ecdf *e, const atvi_idx *count);
/* Band of C_i / n that holds for all i with probability 1 - alpha: low[k-1], high[k-1]. */
void atvi_ecdf_band(const atvi_ecdf *e, double alpha, double *low, double *high);

#endif
