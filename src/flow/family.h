/* SPDX-License-Identifier: MIT */
/* A family of distributions on R^d that can be drawn from, evaluated and trained: what variational inference knows of
 * a flow or a copula.
 *
 * x = f(z; theta), z[n_base] standard normal; log_q = log density of x. theta[size] is one flat vector. Arrays are
 * [d][B] and [n_base][B], draws innermost. A family is read-only and shared by threads; work is one per thread. */
#ifndef ATVI_FLOW_FAMILY_H
#define ATVI_FLOW_FAMILY_H

#include "flow/flow.h"

typedef struct {
  size_t size; /* sizeof(atvi_family_ops) */

  /* The starting point: theta[size], close to the standard normal distribution, from which training can leave. */
  void (*init)(const void *self, double *theta);

  /* x[d][B] and log_q[B] from z[n_base][B], 0 <= B <= max_B of the work. A draw's result does not depend on the others. */
  void (*fwd)(const void *self, const double *theta, void *work, atvi_idx B, const double *z, double *x,
              double *log_q);
  /* Adjoint of the last fwd with this work at the same theta, before any log_q: dtheta[size] += from dx[d][B] and dlog_q[B]. The
   * derivative is the total one: log_q depends on theta directly and through x. A draw with zero dx and dlog_q
   * adds nothing. */
  void (*vjp)(const void *self, const double *theta, void *work, const double *dx, const double *dlog_q,
              double *dtheta);
  /* log_q[B] at any points x[d][B]; -inf where q has no mass. radius2[B], unless NULL: |z|^2 of the base draw that gives
   * x, NaN where that is not unique (n_base > d). Spoils what fwd left in the work. */
  void (*log_q)(const void *self, const double *theta, void *work, atvi_idx B, const double *x, double *log_q,
                double *radius2);

  /* optional; NULL: the family has none. Gradient of log q in x at the points of the last fwd, before any log_q:
   * dx[d][B]. */
  void (*score)(const void *self, const double *theta, void *work, double *dx);
  /* optional; NULL: the base draw is not unique. z[n_base][B] that gives x[d][B]. Spoils what fwd left in the work. */
  void (*inv)(const void *self, const double *theta, void *work, atvi_idx B, const double *x, double *z);
  /* optional; NULL with inv. As vjp, for the base draws: dz[n_base][B] = total derivative, through x and through log_q. */
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
ATVI_CHECKED atvi_status atvi_family_flow(atvi_ctx *ctx, const atvi_flow_shape *shape, atvi_family *out);
/* Gaussian copula with g-and-h margins (copula.h); one block. Errors: those of atvi_copula_new. */
ATVI_CHECKED atvi_status atvi_family_copula(atvi_ctx *ctx, atvi_idx d, int factors, atvi_family *out);
/* Indices [first, last) of theta that belong to block k. */
void atvi_family_block(const atvi_family *f, int k, atvi_idx *first, atvi_idx *last);
void atvi_family_free(atvi_family *f); /* frees self; a zeroed family is fine */

#endif
