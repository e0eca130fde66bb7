/* SPDX-License-Identifier: MIT */
/* Autoregressive rational-quadratic spline flows: z ~ N(0, I) becomes x = f(z), with log |det df/dz|.
 *
 * A flow is a stack of layers with a permutation between them. In a layer, coordinate i goes through an
 * affine map and a monotone spline whose parameters depend on the coordinates before it:
 *
 *     (a_i, b_i, widths_i, heights_i, slopes_i) = conditioner(z_1 .. z_{i-1})
 *     x_i = e^{a_i} S(z_i; widths_i, heights_i, slopes_i) + b_i
 *
 * S is the rational-quadratic spline of Durkan et al. (2019, arXiv:1906.04032) on [-A, A], the identity
 * outside, A = box. |a_i| stays below 3. The conditioner is a masked MLP (MADE) with one hidden layer (tanh),
 * plus a masked linear skip from input to output. All parameters of all layers are one flat vector theta[P];
 * what is masked is not in it. With the LAST conditioner layer (and the skip) zero the flow is the identity,
 * and still learns dependence from the first step on.
 *
 * Forward and inverse cost about the same. Arrays are [d][B], draws innermost.
 * flow is read-only and shared; work is one per thread and holds what vjp needs from the last fwd or inv. */
#ifndef ATVI_FLOW_FLOW_H
#define ATVI_FLOW_FLOW_H

#include "core/core.h"

typedef struct {
  atvi_idx d;    /* coordinates, 1 to 4096 (d = 1: no conditioner inputs, biases only) */
  int layers;    /* 1 to 4096 */
  int bins;      /* 1 to 64 */
  int hidden;    /* units per layer, 1 to 4096 */
  double box;    /* A > 0 */
  uint64_t seed; /* of the permutations and of the hidden weights */
} atvi_flow_shape;

/* 6 layers, 4 bins (8 and 6 for d = 1 and 2), 16 to 32 hidden units by d, box 4, seed 1. */
atvi_flow_shape atvi_flow_defaults(atvi_idx d);

typedef struct atvi_flow atvi_flow;
typedef struct atvi_flow_work atvi_flow_work;

/* Errors: EINVAL (no shape, or one out of range), ENOMEM. *out is NULL on any error. ctx must outlive *out. */
ATVI_CHECKED atvi_status atvi_flow_new(atvi_ctx *ctx, const atvi_flow_shape *shape, atvi_flow **out);
void atvi_flow_free(atvi_flow *f);
atvi_idx atvi_flow_size(const atvi_flow *f); /* P */
/* Writes the identity into theta[P]: random hidden weights, zero output weights, biases and skip. */
void atvi_flow_init(const atvi_flow *f, double *theta);
/* Whether theta makes the identity, as after init. */
bool atvi_flow_is_identity(const atvi_flow *f, const double *theta);
/* Indices [first, last) of theta that belong to layer k, for freezing. */
void atvi_flow_layer(const atvi_flow *f, int k, atvi_idx *first, atvi_idx *last);

/* Scratch for batches of up to max_B >= 1 draws. Errors: EINVAL (max_B), ENOMEM. ctx and f must outlive *out. */
ATVI_CHECKED atvi_status atvi_flow_work_new(atvi_ctx *ctx, const atvi_flow *f, atvi_idx max_B,
                                            atvi_flow_work **out);
void atvi_flow_work_free(atvi_flow_work *w);

/* x = f(z), ldj[B] = log |det df/dz|, for 0 <= B <= max_B. A draw's result is the same to the bit in any
 * batch and place; one that is not finite touches no other. x may be z. Never allocates, never fails; the
 * same holds below. */
void atvi_flow_fwd(const atvi_flow *f, const double *theta, atvi_flow_work *w, atvi_idx B, const double *z,
                   double *x, double *ldj);
/* Adjoint of the last fwd with this work, at the same theta: dtheta[P] += , dz[d][B] = (either NULL: not
 * wanted), from dx[d][B] and dldj[B]. A draw with zero dx and dldj adds nothing to dtheta as long as its z is
 * finite. */
void atvi_flow_fwd_vjp(const atvi_flow *f, const double *theta, atvi_flow_work *w, const double *dx,
                       const double *dldj, double *dtheta, double *dz);

/* z = f^-1(x), ldj[B] = log |det df^-1/dx| (minus that of fwd at z). */
void atvi_flow_inv(const atvi_flow *f, const double *theta, atvi_flow_work *w, atvi_idx B, const double *x,
                   double *z, double *ldj);
/* Adjoint of the inverse at the point of the last fwd OR inv with this work (both leave the same record), at
 * the same theta: given dz[d][B] and dldj[B] (of the inverse's outputs), dx[d][B] = , dtheta[P] += (either
 * NULL: not wanted). One backward pass: the triangular system is solved coordinate by coordinate while hidden
 * adjoints accumulate. With dz = -z and dldj = 1, dx is the gradient of log q at x. */
void atvi_flow_inv_vjp(const atvi_flow *f, const double *theta, atvi_flow_work *w, const double *dz,
                       const double *dldj, double *dx, double *dtheta);

/* A family of distributions on R^d that can be drawn from, evaluated and trained: what variational inference
 * knows of a flow or a copula.
 *
 * x = f(z; theta), z[n_base] standard normal; log_q = log density of x. theta[size] is one flat vector.
 * Arrays are [d][B] and [n_base][B], draws innermost. A family is read-only and shared by threads; work is
 * one per thread. */

typedef struct {
  size_t size; /* sizeof(atvi_family_ops) */

  /* The starting point: theta[size], close to the standard normal distribution, from which training can
   * leave. */
  void (*init)(const void *self, double *theta);

  /* x[d][B] and log_q[B] from z[n_base][B], 0 <= B <= max_B of the work. A draw's result does not depend on
   * the others. */
  void (*fwd)(const void *self, const double *theta, void *work, atvi_idx B, const double *z, double *x,
              double *log_q);
  /* Adjoint of the last fwd with this work at the same theta, before any log_q: dtheta[size] += from dx[d][B]
   * and dlog_q[B]. The derivative is the total one: log_q depends on theta directly and through x. A draw
   * with zero dx and dlog_q adds nothing. */
  void (*vjp)(const void *self, const double *theta, void *work, const double *dx, const double *dlog_q,
              double *dtheta);
  /* log_q[B] at any points x[d][B]; -inf where q has no mass. radius2[B], unless NULL: |z|^2 of the base draw
   * that gives x, NaN where that is not unique (n_base > d). Spoils what fwd left in the work. */
  void (*log_q)(const void *self, const double *theta, void *work, atvi_idx B, const double *x, double *log_q,
                double *radius2);

  /* optional; NULL: the family has none. Gradient of log q in x at the points of the last fwd, before any
   * log_q: dx[d][B]. */
  void (*score)(const void *self, const double *theta, void *work, double *dx);
  /* optional; NULL: the base draw is not unique. z[n_base][B] that gives x[d][B]. Spoils what fwd left in the
   * work. */
  void (*inv)(const void *self, const double *theta, void *work, atvi_idx B, const double *x, double *z);
  /* optional; NULL with inv. As vjp, for the base draws: dz[n_base][B] = total derivative, through x and
   * through log_q. */
  void (*pull)(const void *self, const double *theta, void *work, const double *dx, const double *dlog_q,
               double *dz);

  /* Scratch for up to max_B >= 1 draws; *work is NULL on any error. Errors: EINVAL (max_B), ENOMEM. */
  atvi_status (*work_new)(const void *self, atvi_ctx *ctx, atvi_idx max_B, void **work);
  void (*work_free)(void *work);
  void (*free)(void *self);
} atvi_family_ops;

typedef struct {
  const atvi_family_ops *ops;
  void *self;
  atvi_idx d, n_base, size;
  int blocks; /* that can be frozen one by one; >= 1 */
} atvi_family;

/* The spline flow (flow.h); n_base = d, a block is a layer. Errors: those of atvi_flow_new. */
ATVI_CHECKED atvi_status atvi_flow_family_flow(atvi_ctx *ctx, const atvi_flow_shape *shape, atvi_family *out);
/* Gaussian copula with g-and-h margins (copula.c); one block. Errors: those of atvi_flow_copula_new. */
ATVI_CHECKED atvi_status atvi_flow_family_copula(atvi_ctx *ctx, atvi_idx d, int factors, atvi_family *out);
/* Indices [first, last) of theta that belong to block k. */
void atvi_flow_family_block(const atvi_family *f, int k, atvi_idx *first, atvi_idx *last);
void atvi_flow_family_free(atvi_family *f); /* frees self; a zeroed family is fine */

/* Gaussian copula with g-and-h margins and few factors (Smith, Loaiza-Maya and Nott 2020, High-dimensional
 * copula variational approximation through transformation; the margins are Tukey's).
 *
 *     psi = mu + B eps + delta * eta,    x_i = ((e^{g_i psi_i} - 1) / g_i) e^{h_i psi_i^2 / 2}
 *
 * z = (eps[k], eta[d]) is standard normal, k the number of factors, so that psi ~ N(mu, B B^T +
 * diag(delta^2)). theta[size] = mu[d], log delta[d], raw g[d], raw h[d], B[d][k]; |g| < 4 and 0 <= h < 2 are
 * smooth functions of the raw values. Arrays are [d][B] and [k + d][B], draws innermost. A copula is
 * read-only and shared; work is one per thread. */

typedef struct atvi_copula atvi_copula;
typedef struct atvi_copula_work atvi_copula_work;

/* Errors: EINVAL (d outside 1 to 4096, factors outside 1 to d), ENOMEM. *out is NULL on any error. ctx must
 * outlive
 * *out. */
ATVI_CHECKED atvi_status atvi_flow_copula_new(atvi_ctx *ctx, atvi_idx d, int factors, atvi_copula **out);
void atvi_flow_copula_free(atvi_copula *c);           /* NULL is fine */
atvi_idx atvi_flow_copula_size(const atvi_copula *c); /* of theta, d (4 + k) */
/* Nearly standard normal: mu and g 0, h 0.001, B small and random but always the same (B = 0 is a saddle
 * point), marginal variances of psi 1. All zeros are the same without B. */
void atvi_flow_copula_init(const atvi_copula *c, double *theta);

/* Scratch for batches of up to max_B >= 1 draws. Errors: EINVAL (max_B), ENOMEM. ctx and c must outlive *out. */
ATVI_CHECKED atvi_status atvi_flow_copula_work_new(atvi_ctx *ctx, const atvi_copula *c, atvi_idx max_B,
                                                   atvi_copula_work **out);
void atvi_flow_copula_work_free(atvi_copula_work *w); /* NULL is fine */

/* x[d][B] and its log density from z[k + d][B], 0 <= B <= max_B. A draw's result is the same to the bit in
 * any batch and place. x stays finite: it and its slopes are held where e^{g psi + h psi^2 / 2} would pass
 * e^600. Never allocates, never fails; the same holds below. */
void atvi_flow_copula_fwd(const atvi_copula *c, const double *theta, atvi_copula_work *w, atvi_idx B,
                          const double *z, double *x, double *log_q);
/* Adjoint of the last fwd with this work, at the same theta and with no log_q since: dtheta[size] += the
 * total derivative of sum dx x + dlog_q log_q with z fixed. */
void atvi_flow_copula_vjp(const atvi_copula *c, const double *theta, atvi_copula_work *w, const double *dx,
                          const double *dlog_q, double *dtheta);
/* Gradient of log q in x at the points of the last fwd, under the same conditions: dx[d][B]. */
void atvi_flow_copula_score(const atvi_copula *c, atvi_copula_work *w, double *dx);
/* Log density at any x[d][B]; -inf where no psi reaches x. Spoils what fwd left in the work. */
void atvi_flow_copula_log_q(const atvi_copula *c, const double *theta, atvi_copula_work *w, atvi_idx B,
                            const double *x, double *log_q);

#endif
