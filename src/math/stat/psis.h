/* SPDX-License-Identifier: MIT */
/* Pareto-smoothed importance sampling (Vehtari, Simpson, Gelman, Yao, Gabry, JMLR 2024). */
#ifndef ATVI_MATH_STAT_PSIS_H
#define ATVI_MATH_STAT_PSIS_H

#include "core/core.h"

typedef struct {
  /* Shape of the generalised Pareto distribution fitted to the largest weights. 0 where the largest weights are all equal
   * (bounded, nothing to smooth); +inf where fewer than five stand out (they are everything); NaN where it
   * cannot be told: S < 25, or no weight above zero. Compare with atvi_psis_threshold(S): `khat < threshold` is
   * false for the last two. */
  double khat;
  double ess; /* 1 / sum of squares of the smoothed weights; 0 if no weight is above zero */
  /* Logarithm of the mean of the weights as given (failed draws count with 0): with log_w = log pi - log q of draws of
   * q, the log evidence. Its standard error for independent draws by the delta method: sd / (mean sqrt(S)); NaN for S = 1. -inf
   * and NaN if no weight is above zero. */
  double log_mean, log_mean_se;
  double log_mean_smooth; /* the same of the smoothed weights: less noisy for a long tail, slightly biased */
  atvi_idx n_tail;        /* weights smoothed; 0: none */
  /* Share of the weight that lies above the cutoff of the tail, as given: what a wrong tail could spoil at most, as far as can be
   * seen. khat knows no scale: weights that are all within a few percent of each other may have any khat. NaN where
   * khat is. */
  double excess;
} atvi_psis_info;

/* Doubles of scratch for n draws. */
size_t atvi_psis_work(atvi_idx n);
/* Smooths S = n >= 1 weights given by logarithms: w[n] sums to one and has the order of log_w, equal ones stay equal.
 * -inf (a failed draw) and NaN have weight 0; with no weight above zero w is 0 throughout. +inf: these
 * share the weight equally, khat, log_mean are +inf. log_w and w may be the same array. */
atvi_psis_info atvi_psis(atvi_idx n, const double *log_w, double *w, double *work);

/* Largest khat that can be trusted with n draws: min(1 - 1/log10 n, 0.7). -inf for n <= 1. */
double atvi_psis_threshold(atvi_idx n);

/* Whether weights may be used: khat is below the threshold, or the tail that it speaks of holds next to nothing (excess
 * below 0.5 %). */
bool atvi_psis_permits(atvi_idx n, double khat, double excess);

/* By how much standard errors computed from weights are too small for this khat: 1 up to 1/2, where the weights have a variance; beyond,
 * (0.5 / (1 - khat))^2, a rule of thumb (2 at 0.65), held from 0.9 on. */
double atvi_psis_inflation(double khat);

/* Shape k and scale sigma of the generalised Pareto distribution 1 - (1 + k x / sigma)^(-1/k) for n >= 5 exceedances
 * x > 0, ascending, not all equal: the profile estimate of Zhang & Stephens (2009), without the prior on k. */
void atvi_gpd_fit(atvi_idx n, const double *x, double *k, double *sigma);

#endif
