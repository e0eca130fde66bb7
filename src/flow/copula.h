/* SPDX-License-Identifier: MIT */
/* Gaussian copula with g-and-h margins and few factors (Smith, Loaiza-Maya and Nott 2020, High-dimensional copula
 * variational approximation through transformation; the margins are Tukey's).
 *
 *     psi = mu + B eps + delta * eta,    x_i = ((e^{g_i psi_i} - 1) / g_i) e^{h_i psi_i^2 / 2}
 *
 * z = (eps[k], eta[d]) is standard normal, k the number of factors, so that psi ~ N(mu, B B^T + diag(delta^2)).
 * theta[size] = mu[d], log delta[d], raw g[d], raw h[d], B[d][k]; |g| < 4 and 0 <= h < 2 are smooth functions of the raw
 * values. Arrays are [d][B] and [k + d][B], draws innermost. A copula is read-only and shared; work is one per thread. */
#ifndef ATVI_FLOW_COPULA_H
#define ATVI_FLOW_COPULA_H

#include "core/core.h"

typedef struct atvi_copula atvi_copula;
typedef struct atvi_copula_work atvi_copula_work;

/* Errors: EINVAL (d outside 1 to 4096, factors outside 1 to d), ENOMEM. *out is NULL on any error. ctx must outlive
 * *out. */
ATVI_CHECKED atvi_status atvi_copula_new(atvi_ctx *ctx, atvi_idx d, int factors, atvi_copula **out);
void atvi_copula_free(atvi_copula *c);           /* NULL is fine */
atvi_idx atvi_copula_size(const atvi_copula *c); /* of theta, d (4 + k) */
/* Nearly standard normal: mu and g 0, h 0.001, B small and random but always the same (B = 0 is a saddle point), marginal
 * variances of psi 1. */
void atvi_copula_init(const atvi_copula *c, double *theta);

/* Scratch for batches of up to max_B >= 1 draws. Errors: EINVAL (max_B), ENOMEM. ctx and c must outlive *out. */
ATVI_CHECKED atvi_status atvi_copula_work_new(atvi_ctx *ctx, const atvi_copula *c, atvi_idx max_B,
                                              atvi_copula_work **out);
void atvi_copula_work_free(atvi_copula_work *w); /* NULL is fine */

/* x[d][B] and its log density from z[k + d][B], 0 <= B <= max_B. A draw's result is the same to the bit in any batch and
 * place. x stays finite: it and its slopes are held where e^{g psi + h psi^2 / 2} would pass e^600. Never allocates, never
 * fails; the same holds below. */
void atvi_copula_fwd(const atvi_copula *c, const double *theta, atvi_copula_work *w, atvi_idx B,
                     const double *z, double *x, double *log_q);
/* Adjoint of the last fwd with this work, at the same theta and with no log_q since: dtheta[size] += the total derivative
 * of sum dx x + dlog_q log_q with z fixed. */
void atvi_copula_vjp(const atvi_copula *c, const double *theta, atvi_copula_work *w, const double *dx,
                     const double *dlog_q, double *dtheta);
/* Gradient of log q in x at the points of the last fwd, under the same conditions: dx[d][B]. */
void atvi_copula_score(const atvi_copula *c, atvi_copula_work *w, double *dx);
/* Log density at any x[d][B]; -inf where no psi reaches x. Spoils what fwd left in the work. */
void atvi_copula_log_q(const atvi_copula *c, const double *theta, atvi_copula_work *w, atvi_idx B,
                       const double *x, double *log_q);

#endif
