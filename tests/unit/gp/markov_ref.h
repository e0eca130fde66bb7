/* SPDX-License-Identifier: MIT */
#ifndef ATVI_TESTS_MARKOV_REF_H
#define ATVI_TESTS_MARKOV_REF_H

#include "gp/markov_detail.h"

/* One lane by dense matrices, O(n^3): the oracle. par[2 n_term], resid[n]. Outputs may be NULL: par_bar[2
 * n_term], resid_bar[n] (0 in rows not used); mean[n_term][n], var[n], var_term[n_term][n], loo_mean[n],
 * loo_var[n] as atvi_gp_markov_smooth; cov[n][n], the covariance of the sum of all non-white terms given the
 * used rows. Everything is NaN if the covariance is not positive definite. Errors: ENOMEM. */
typedef struct {
  double log_density;
  double *par_bar, *resid_bar;
  double *mean, *var, *var_term, *loo_mean, *loo_var, *cov;
} markov_dense;
ATVI_CHECKED atvi_status markov_ref(atvi_ctx *ctx, atvi_idx n, const double *time, const bool *used,
                                    int n_term, const atvi_gp_kind *term, const double *par,
                                    const double *resid, markov_dense *out);

#endif
