/* SPDX-License-Identifier: MIT */
/* Kin: parameters whose priors share one scale s, such as the values of a random walk, or coefficients that are shrunk together.
 *
 *     theta_i = loc_i + e_i,   e_i of scale s;   loc_i is the kin before it, or comes from elsewhere (call it c_i; 0 for the others)
 *
 * With A theta = c + e (differences to the one before), suppose that the data inform A theta as a normal density with precision matrix
 * G would. One rotation V makes G diagonal, for every s at once, and a rotation leaves independent errors of one scale what they are.
 * So in t = V' A theta each coordinate has an anchor of its own (anchor.h), with location V' c, scale s and the eigenvalue of G as k:
 * given c and s, t is then independent in the posterior, exactly so where prior and likelihood are normal. */
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
  /* They are a chain (chain.h): a location is not the kin before it, but an affine function of it. The rest is of chains only. */
  bool affine;
  /* Whether G and h are known; else they are 0. */
  bool known;
  /* Entries of a row of G right of its diagonal; at least as many as there are between one and that before it. */
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

/* All of them that are two or more, *n_kin of them. own[d] says which parameters may be kin, scale[d][B] are their scales at B points: those that
 * have the same at all of them, from the same parameters, are kin.
 * after[d] is the parameter of which a location is an affine function; -1: none. NULL: there are none, or out of memory (see the pool). */
atvi_kin *atvi_infer_kin_find(atvi_pool *pool, const atvi_target *t, const bool *own, const atvi_idx *after,
                              atvi_idx B, const double *scale, atvi_idx *n_kin);

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

#endif
