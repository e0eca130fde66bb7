/* SPDX-License-Identifier: MIT */
/* Kin: parameters whose priors share one scale s, such as the values of a random walk, or coefficients that
 * are shrunk together.
 *
 *     theta_i = loc_i + e_i,   e_i of scale s;   loc_i is the kin before it, or comes from elsewhere (call it c_i; 0 for the others)
 *
 * With A theta = c + e (differences to the one before), suppose that the data inform A theta as a normal
 * density with precision matrix G would. One rotation V makes G diagonal, for every s at once, and a rotation
 * leaves independent errors of one scale what they are. So in t = V' A theta each coordinate has an anchor of
 * its own (anchor.h), with location V' c, scale s and the eigenvalue of G as k: given c and s, t is then
 * independent in the posterior, exactly so where prior and likelihood are normal. */
#ifndef ATVI_INFER_KIN_H
#define ATVI_INFER_KIN_H

#include "atvi/target.h"
#include "core/core.h"

typedef struct {
  atvi_idx n;
  /* [n] parameters, each after the one before it. */
  atvi_idx *of;
  /* [n] which of them is before it; -1: none. */
  atvi_idx *before;
  /* Whether any is before another. */
  bool linked;
  /* They are a chain (below). The rest is of chains only. */
  bool chain;
  /* Whether G and h are known; else they are 0. */
  bool known;
  /* Entries of a row of G right of its diagonal; at least as many as there are between one and that before
   * it. */
  atvi_idx width, least_width;
  /* [n][width + 1] upper triangle of G by rows, from the diagonal on, and h[n]. */
  double *g, *h;
  /* G and h are in proportion to theta[gain_of] / gain_at to these powers, [n_gain] each. */
  atvi_idx n_gain;
  atvi_idx *gain_of;
  double *gain_at, *power;
  /* [n][n] V; NULL: no rotation. */
  double *turn;
  /* [n][n] where V is when there is one. */
  double *room;
} atvi_kin;

/* Whether the log likelihood is a quadratic function of the parameters of[n], with a Hessian and a gradient
 * that others change by a factor at most. */
typedef struct {
  bool (*is_normal)(void *user, atvi_idx n, const atvi_idx *of);
  void *user;
} atvi_kin_data;

/* All of them that are two or more, *n_kin of them. own[d] says which parameters may be kin, scale[d][B] are
 * their scales at B points: those that have the same at all of them, from the same parameters, are kin, and
 * so is what a chain of them begins with. is_normal says whether the data inform these parameters as a normal
 * density (below). after[d] is the parameter of which a location is an affine function; -1: none. NULL: there
 * are none, or out of memory (see the pool). */
atvi_kin *atvi_infer_kin_find(atvi_pool *pool, const atvi_target *t, const bool *own, const atvi_idx *after,
                              atvi_idx B, const double *scale, const atvi_kin_data *data, atvi_idx *n_kin);

/* Whether the scales of a and b are the same in this sense. */
bool atvi_infer_kin_alike(const atvi_target *t, atvi_idx a, atvi_idx b, atvi_idx B, const double *scale);

/* Whether members depend on each other through A or V, so that they are taken together. */
bool atvi_infer_kin_together(const atvi_kin *k);

/* Rows of [d][B] in place, of the members; work: [n][B]. */

/* From locations of theta to those of t. */
void atvi_infer_kin_locate(const atvi_kin *k, atvi_idx B, double *loc, double *work);
/* From t to theta. */
void atvi_infer_kin_fwd(const atvi_kin *k, atvi_idx B, double *theta, double *work);
/* From theta to t. */
void atvi_infer_kin_inv(const atvi_kin *k, atvi_idx B, double *theta, double *work);
/* Adjoints of fwd and of locate. */
void atvi_infer_kin_fwd_vjp(const atvi_kin *k, atvi_idx B, double *dtheta, double *work);
void atvi_infer_kin_locate_vjp(const atvi_kin *k, atvi_idx B, double *dloc, double *work);

/* ---- chains (chain.c) ---- */

/* Kin whose locations are a_i + b_i times the kin before, with functions a and b of other parameters: AR(1)
 * processes, walks with a drift. Where the data inform them as a normal density does whose mean nothing else
 * moves, random walks are chains as well, and the values that they begin with are members, although they have
 * scales of their own, unless others depend on them. (In other models the rotation suits a walk better, and
 * where it begins is left to q.)
 *
 *     A theta = c + e,   e_i of scale s_i;   row i of A is theta_i - b_i theta_before(i); c_i is a_i, or the whole location of the first ones
 *
 * Since A depends on parameters, no one rotation serves. Suppose that the data inform theta as a normal
 * density with precision G and G times its mean h would. Given a, b and s the posterior of theta is then
 * normal, with
 *
 *     K = A' D A + G,  D = diag 1 / s^2;   K mean = A' D c + h;   theta = K^-1 (A' D c + h) + U^-T z,   K = U U', U upper triangular
 *
 * (G and h in proportion to powers of scales such as that of the noise) and z is what is left: independent of
 * a, b and s, exactly so where prior and likelihood are normal. G = 0 is A theta = c + s z. The cost is
 * linear in the length where G is banded, as it is for values that are observed each by itself. */

/* Entries of a row of G right of its diagonal, and this one: the most there are. */
enum { ATVI_CHAIN_BAND = 128 };

/* c, b and s of the members: rows of [d][B]; b is read only of those with one before. gain[B]: factors of G
 * and h. */
typedef struct {
  const double *loc, *slope, *scale, *gain;
} atvi_chain_place;

/* Where their adjoints go: rows of the members are set, and so is gain. */
typedef struct {
  double *loc, *slope, *scale, *gain;
} atvi_chain_adjoint;

/* Doubles of scratch for n members. */
size_t atvi_infer_chain_work(atvi_idx n);

/* z, in rows of theta[d][B], becomes theta; log |d theta / d z| is added to ldj[B]. NaN where a scale is not
 * positive. */
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

/* Sets G and h from what the data say at theta: the precision g[n][n] of A theta, and the slope rise[n] of
 * its log density. slope, scale, theta: [d]. g and rise are spoilt; work: [n][n], value: [n]. What is far
 * from the diagonal and small is left out, with G no less than it was; what is negative in it counts as 0. */
void atvi_infer_chain_set(atvi_kin *k, const double *slope, const double *scale, const double *theta,
                          double *g, double *rise, double *work, double *value);

#endif
