/* SPDX-License-Identifier: MIT */
/* Chains: kin (kin.h) whose locations are a_i + b_i times the kin before, with functions a and b of other parameters: AR(1) processes, walks with a
 * drift.
 *
 *     A theta = c + e,   e_i of scale s_i;   row i of A is theta_i - b_i theta_before(i); c_i is a_i, or the whole location of the first ones
 *
 * Since A depends on parameters, no one rotation serves. Suppose that the data inform theta as a normal density with precision G and G times its mean h
 * would. Given a, b and s the posterior of theta is then normal, with
 *
 *     K = A' D A + G,  D = diag 1 / s^2;   K mean = A' D c + h;   theta = K^-1 (A' D c + h) + U^-T z,   K = U U', U upper triangular
 *
 * (G and h in proportion to powers of scales such as that of the noise) and z is what is left: independent of a, b and s, exactly so where prior and likelihood are normal. G = 0 is A theta = c + s z. The cost is linear
 * in the length where G is banded, as it is for values that are observed each by itself. */
#ifndef ATVI_INFER_CHAIN_H
#define ATVI_INFER_CHAIN_H

#include "infer/kin.h"

/* Entries of a row of G right of its diagonal, and this one: the most there are. */
enum { ATVI_CHAIN_BAND = 128 };

/* c, b and s of the members: rows of [d][B]; b is read only of those with one before. gain[B]: factors of G and h. */
typedef struct {
  const double *loc, *slope, *scale, *gain;
} atvi_chain_place;

/* Where their adjoints go: rows of the members are set, and so is gain. */
typedef struct {
  double *loc, *slope, *scale, *gain;
} atvi_chain_adjoint;

/* Doubles of scratch for n members. */
size_t atvi_infer_chain_work(atvi_idx n);

/* z, in rows of theta[d][B], becomes theta; log |d theta / d z| is added to ldj[B]. NaN where a scale is not positive. */
void atvi_infer_chain_fwd(const atvi_kin *k, atvi_idx B, const atvi_chain_place *p, double *theta,
                          double *ldj, double *work);
/* From theta to z. */
void atvi_infer_chain_inv(const atvi_kin *k, atvi_idx B, const atvi_chain_place *p, double *theta,
                          double *work);
/* Adjoint of fwd at z[d][B]: dtheta, in rows of [d][B], becomes dz. dldj: [B]. */
void atvi_infer_chain_vjp(const atvi_kin *k, atvi_idx B, const atvi_chain_place *p, const double *z,
                          const double *dldj, double *dtheta, const atvi_chain_adjoint *to, double *work);

/* The factor of G and h at theta[d][B], and its adjoint, which adds to dtheta[d][B]. */
void atvi_infer_chain_gain(const atvi_kin *k, atvi_idx B, const double *theta, double *gain);
void atvi_infer_chain_gain_vjp(const atvi_kin *k, atvi_idx B, const double *theta, const double *gain,
                               const double *dgain, double *dtheta);

/* Sets G and h from what the data say at theta: the precision g[n][n] of A theta, and the slope rise[n] of its log density. slope, scale, theta: [d]. g and
 * rise are spoilt; work: [n][n], value: [n]. What is far from the diagonal and small is left out, with G no less than it was; what is negative in it
 * counts as 0. */
void atvi_infer_chain_set(atvi_kin *k, const double *slope, const double *scale, const double *theta,
                          double *g, double *rise, double *work, double *value);

#endif
