/* SPDX-License-Identifier: MIT */
/* The metric of the No-U-Turn sampler as a map from coordinates y, in which it is the unit matrix: x = A y, A
 * = diag(scale) (I + U (diag(stretch) - I) U').
 *
 * Learnt   from places x and gradients g = grad log pi there, both less their means. Of a normal posterior g = -P x whatever the places are, so that the A that gives
 *          places and gradients one covariance in y, A^-1 cov(x) A'^-1 = A' cov(g) A, has A A' = P^-1: exactly, from as few places as there are coordinates, and
 *          from chains that are still on their way. (Variances alone need places that are spread as the posterior is.)
 * Scale    does this for each coordinate: the fourth root of var(x) / var(g).
 * U        what correlations are left: the same for the widest directions of x and of g together, those that are wider or narrower than the others by so much
 *          that trajectories are longer for it. The cost of a point is 4 d rank. */
#ifndef ATVI_INFER_NUTS_METRIC_H
#define ATVI_INFER_NUTS_METRIC_H

#include "core/core.h"

typedef struct {
  atvi_idx d, rank, n_most;
  /* [d] */
  double *scale;
  /* [most rank][d] orthonormal rows; [most rank] */
  double *dir, *stretch;
  double *work;
} atvi_nuts_metric;

/* The unit matrix; it will learn from n_most places at most. False: no memory. */
bool atvi_infer_nuts_metric_new(atvi_pool *pool, atvi_idx d, atvi_idx n_most, atvi_nuts_metric *m);
/* x[d][n] = A y[d][n]; y = A^-1 x; g = A' g, from gradients by x to those by y, and back. In place where both
 * are the same. */
void atvi_infer_nuts_metric_out(const atvi_nuts_metric *m, atvi_idx n, const double *y, double *x);
void atvi_infer_nuts_metric_in(const atvi_nuts_metric *m, atvi_idx n, const double *x, double *y);
void atvi_infer_nuts_metric_adjoint(const atvi_nuts_metric *m, atvi_idx n, double *g);
void atvi_infer_nuts_metric_adjoint_back(const atvi_nuts_metric *m, atvi_idx n, double *g);
/* From n places x[d][n] and gradients g[d][n], less their means and spoilt. A coordinate that does not move,
 * or has no slope, keeps its scale. */
void atvi_infer_nuts_metric_learn(atvi_nuts_metric *m, atvi_idx n, double *x, double *g);

#endif
