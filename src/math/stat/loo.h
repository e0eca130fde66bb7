/* SPDX-License-Identifier: MIT */
/* How well a model predicts data it has not seen, from its draws alone: leave-one-out cross-validation by Pareto-smoothed
 * importance sampling (PSIS-LOO; Vehtari, Gelman, Gabry 2017) and the widely applicable information criterion (WAIC; Watanabe 2010);
 * and what several models predict together (stacking; Yao, Vehtari, Simpson, Gelman 2018). */
#ifndef ATVI_MATH_STAT_LOO_H
#define ATVI_MATH_STAT_LOO_H

#include "core/core.h"

/* Of one observation. */
typedef struct {
  double lpd;       /* log of its mean likelihood over the draws */
  double elpd_loo;  /* log density of it given all the others */
  double khat;      /* of the weights that leave it out, as in atvi_psis_info */
  double p_waic;    /* variance of its log likelihood over the draws; NaN for one draw */
  double elpd_waic; /* lpd - p_waic */
} atvi_loo_point;

/* Doubles of scratch for n draws. */
size_t atvi_loo_work(atvi_idx n);
/* From its log likelihood at n >= 1 draws that count equally. A draw where that is -inf says that the observation is
 * impossible: elpd_loo is then -inf, khat +inf. NaN anywhere: all NaN. */
atvi_loo_point atvi_loo_of(atvi_idx n, const double *log_lik, double *work);

/* Over n observations. */
typedef struct {
  atvi_idx n;
  double elpd, se; /* sum, and its standard error sqrt(n var); se is NaN for n < 2 */
  double p;        /* effective number of parameters: sum of lpd - elpd */
  atvi_idx n_bad;  /* LOO: observations whose khat is not <= the threshold; WAIC: whose p_waic is above 0.4 */
  atvi_idx worst;  /* the one with the largest khat or p_waic; -1 for n = 0 */
} atvi_loo_sum;

/* n_draw: how many draws the points are from, for the threshold of khat. Of no observations: zeros. */
atvi_loo_sum atvi_loo_total(atvi_idx n, const atvi_loo_point *point, atvi_idx n_draw);
atvi_loo_sum atvi_waic_total(atvi_idx n, const atvi_loo_point *point);

/* Sum of x_i - y_i over n observations and its standard error sqrt(n var), NaN for n < 2: paired, since observations that are
 * hard to predict are so for every model. */
typedef struct {
  double sum, se;
} atvi_loo_difference;
atvi_loo_difference atvi_loo_less(atvi_idx n, const double *x, const double *y);

/* Weights of K >= 1 models in the mixture of their predictions that predicts best: w[K] maximises
 * sum_i log sum_k w_k exp(elpd[k][i]) over w >= 0 that sum to 1. elpd: [K][n], elpd_loo of observation i. Models that
 * predict alike share their weight evenly. Observations that no model allows, or that one knows nothing of, are left
 * out; of none: equal weights. work: atvi_stacking_work doubles. */
size_t atvi_stacking_work(atvi_idx n, atvi_idx K);
void atvi_stacking(atvi_idx n, atvi_idx K, const double *elpd, double *w, double *work);

#endif
