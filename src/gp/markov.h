/* SPDX-License-Identifier: MIT */
/* Gaussian processes in time at a cost that is linear in the number of times.
 *
 * A residual r(t_i), i = 1 .. n, is a sum of independent processes, each with a variance and a range:
 *
 *   white         v [s = t]
 *   exponential   v exp(-h / l),                      h = |s - t|
 *   matern32      v (1 + a) exp(-a),                  a = sqrt(3) h / l
 *   matern52      v (1 + a + a^2 / 3) exp(-a),        a = sqrt(5) h / l
 *
 * All but the white one are Markov with 1, 2, 3 states, so that the log density is one pass of a Kalman
 * filter and its gradient one pass of the filter's adjoint. Rows without a value (held out, missing) are
 * skipped. Points are lanes, innermost. */
#ifndef ATVI_GP_MARKOV_H
#define ATVI_GP_MARKOV_H

#include "core/compiler.h"
#include "core/core.h"

typedef enum { ATVI_GP_WHITE, ATVI_GP_EXPONENTIAL, ATVI_GP_MATERN32, ATVI_GP_MATERN52 } atvi_gp_kind;

enum { ATVI_MARKOV_TERMS = 8, ATVI_MARKOV_STATES = 8 };

typedef struct atvi_markov atvi_markov;
typedef struct atvi_markov_work atvi_markov_work;

/* n >= 1 times, ascending (equal ones are allowed); used[n] says which rows have a value (NULL: all). Copies
 * everything. Read-only afterwards and shared by threads. Errors: EINVAL (order, more than ATVI_MARKOV_TERMS
 * terms or ATVI_MARKOV_STATES states), ENOMEM. */
ATVI_CHECKED atvi_status atvi_gp_markov_new(atvi_ctx *ctx, atvi_idx n, const double *time, const bool *used,
                                            int n_term, const atvi_gp_kind *term, atvi_markov **out);
void atvi_gp_markov_free(atvi_markov *m); /* NULL is fine */

/* Scratch of one thread. */
ATVI_CHECKED atvi_status atvi_gp_markov_work_new(const atvi_markov *m, atvi_ctx *ctx, atvi_markov_work **out);
void atvi_gp_markov_work_free(atvi_markov_work *w); /* NULL is fine */

/* Log density of resid[n][ATVI_LANES] (rows that are not used are not read) for par[2 n_term][ATVI_LANES]:
 * variance, range of each term in turn (the range of white is not read): log_density[ATVI_LANES], with all
 * constants. A lane whose variances or ranges are not > 0 (a variance may be 0 as long as the covariance
 * stays positive definite) or whose filter breaks down has NaN, in its gradients too. With par_bar and
 * resid_bar not NULL also the gradients par_bar[2 n_term][ATVI_LANES], resid_bar[n][ATVI_LANES] (overwritten;
 * 0 in rows not used). Never allocates. Lanes are independent. */
void atvi_gp_markov_eval(const atvi_markov *m, atvi_markov_work *w, const double *par, const double *resid,
                         double *log_density, double *par_bar, double *resid_bar);

/* Given the used rows of resid: for each term except white ones, the conditional mean of the process in all n
 * rows, mean[n_term][n][ATVI_LANES] (white: 0), and the conditional variance of the sum of all non-white
 * terms, var[n][ATVI_LANES], of a term alone, var_term[n_term][n][ATVI_LANES] (either may be NULL). loo_mean,
 * loo_var [n][ATVI_LANES] (may be NULL): mean and variance of the VALUE in each row (white included) given
 * all other used rows. */
void atvi_gp_markov_smooth(const atvi_markov *m, atvi_markov_work *w, const double *par, const double *resid,
                           double *mean, double *var, double *var_term, double *loo_mean, double *loo_var);

/* Draws: the value in every row, white included, from par: out[n][ATVI_LANES]. Lane b of a call is draw
 * number first + b of the seed. given NULL: unconditional. Else given the used rows of given[n][ATVI_LANES]
 * (residuals): non-white terms are drawn from their joint conditional law, and fresh white noise is added. */
void atvi_gp_markov_draw(const atvi_markov *m, atvi_markov_work *w, const double *par, const double *given,
                         uint64_t seed, atvi_idx first, double *out);
/* Each term in the last draw: [n_term][n][ATVI_LANES] (white: 0). */
const double *atvi_gp_markov_drawn(const atvi_markov_work *w);

#endif
