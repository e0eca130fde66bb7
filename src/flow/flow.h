/* SPDX-License-Identifier: MIT */
/* Autoregressive rational-quadratic spline flows: z ~ N(0, I) becomes x = f(z), with log |det df/dz|.
 *
 * A flow is a stack of layers with a permutation between them. In a layer, coordinate i goes through an affine map and a
 * monotone spline whose parameters depend on the coordinates before it:
 *
 *     (a_i, b_i, widths_i, heights_i, slopes_i) = conditioner(z_1 .. z_{i-1})
 *     x_i = e^{a_i} S(z_i; widths_i, heights_i, slopes_i) + b_i
 *
 * S is the rational-quadratic spline of Durkan et al. (2019, arXiv:1906.04032) on [-A, A], the identity outside,
 * A = box. |a_i| stays below 3. The conditioner is a masked MLP (MADE) with one hidden layer (tanh), plus a masked
 * linear skip from input to output. All parameters of all layers are one flat vector theta[P]; what is masked is not in
 * it. With the LAST conditioner layer (and the skip) zero the flow is the identity, and still learns dependence from
 * the first step on.
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
/* Indices [first, last) of theta that belong to layer k, for freezing. */
void atvi_flow_layer(const atvi_flow *f, int k, atvi_idx *first, atvi_idx *last);

/* Scratch for batches of up to max_B >= 1 draws. Errors: EINVAL (max_B), ENOMEM. ctx and f must outlive *out. */
ATVI_CHECKED atvi_status atvi_flow_work_new(atvi_ctx *ctx, const atvi_flow *f, atvi_idx max_B,
                                            atvi_flow_work **out);
void atvi_flow_work_free(atvi_flow_work *w);

/* x = f(z), ldj[B] = log |det df/dz|, for 0 <= B <= max_B. A draw's result is the same to the bit in any batch and
 * place; one that is not finite touches no other. x may be z. Never allocates, never fails; the same holds below. */
void atvi_flow_fwd(const atvi_flow *f, const double *theta, atvi_flow_work *w, atvi_idx B, const double *z,
                   double *x, double *ldj);
/* Adjoint of the last fwd with this work, at the same theta: dtheta[P] += , dz[d][B] = (either NULL: not wanted), from
 * dx[d][B] and dldj[B]. A draw with zero dx and dldj adds nothing to dtheta as long as its z is finite. */
void atvi_flow_fwd_vjp(const atvi_flow *f, const double *theta, atvi_flow_work *w, const double *dx,
                       const double *dldj, double *dtheta, double *dz);

/* z = f^-1(x), ldj[B] = log |det df^-1/dx| (minus that of fwd at z). */
void atvi_flow_inv(const atvi_flow *f, const double *theta, atvi_flow_work *w, atvi_idx B, const double *x,
                   double *z, double *ldj);
/* Adjoint of the inverse at the point of the last fwd OR inv with this work (both leave the same record), at the same
 * theta: given dz[d][B] and dldj[B] (of the inverse's outputs), dx[d][B] = , dtheta[P] += (either NULL: not wanted). One
 * backward pass: the triangular system is solved coordinate by coordinate while hidden adjoints accumulate. With
 * dz = -z and dldj = 1, dx is the gradient of log q at x. */
void atvi_flow_inv_vjp(const atvi_flow *f, const double *theta, atvi_flow_work *w, const double *dz,
                       const double *dldj, double *dx, double *dtheta);

#endif
