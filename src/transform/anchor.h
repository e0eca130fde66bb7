/* SPDX-License-Identifier: MIT */
/* A parameter of a hierarchy, expressed through its prior and what the data say of it.
 *
 * Its prior has location mu and scale s, which are functions of other parameters. In u = theta, log theta or logit theta (the
 * form's), suppose that the data inform u as one observation with precision k and value m would, and let r = k m. Given mu and s
 * the posterior of u is then N(M, S^2), were the prior normal, and z is what is left:
 *
 *     u = M + S z,   M = (mu + s^2 r) / (1 + k s^2),   S = s / sqrt(1 + k s^2)
 *
 * k = 0: u = mu + s z, independent of mu and s under the prior ("non-centred"). k s^2 large: u = m + z / sqrt(k), independent of
 * them where data are strong ("centred"). In between z is independent of both in the posterior, for every s at once: exactly so
 * where prior and likelihood are normal (a partial non-centring as of Papaspiliopoulos, Roberts and Skold 2007, whose weight
 * follows s). Whatever k and r are, the map is one-to-one and its Jacobian exact; they decide how easy the posterior is, not what it
 * is.
 *
 * Messages  Where mu is itself such a parameter, what the data say of u they say of mu, through the prior: with precision k / (1 + k s^2)
 *           and r / (1 + k s^2), which add up over all that have this location.
 * RATIO     theta = s^w z with w = 1 / (1 + k), k in units of the precision of log z under the prior: the same for a family of
 *           scales, whose spread in log theta is constant; z keeps its bound at 0.
 * INTERVAL  is LINE with k = 0 and z in (0, 1).
 * STANDARD  theta is standard under the prior, and the data inform u = mu + s theta. It is (u - mu) / s with u as above. */
#ifndef ATVI_TRANSFORM_ANCHOR_H
#define ATVI_TRANSFORM_ANCHOR_H

#include "core/core.h"

/* n points of one parameter. */
typedef struct {
  atvi_prior_form form;      /* not ALONE */
  const double *loc, *scale; /* [n]; loc is not read for RATIO */
  const double *k, *r;       /* [n] k >= 0; RATIO: r is not read; INTERVAL: both 0 */
} atvi_anchor;

/* Where adjoints of these go: each [n] is added to. */
typedef struct {
  double *loc, *scale, *k, *r;
} atvi_anchor_adjoint;

/* Bounds of z for a form. */
void atvi_transform_anchor_bounds(atvi_prior_form form, double *lower, double *upper);

/* z, theta, ldj: [n]; log |d theta / d z| is added to ldj. A scale that is not positive gives NaN, but for STANDARD. z and theta may be the same
 * array. */
void atvi_transform_anchor_fwd(const atvi_anchor *a, atvi_idx n, const double *z, double *theta, double *ldj);
/* Adjoint: dz[n] is set from dtheta[n] and dldj[n], and may be the same array as dtheta. */
void atvi_transform_anchor_vjp(const atvi_anchor *a, atvi_idx n, const double *z, const double *dtheta,
                               const double *dldj, double *dz, const atvi_anchor_adjoint *to);
/* theta and z may be the same array. */
void atvi_transform_anchor_inv(const atvi_anchor *a, atvi_idx n, const double *theta, double *z);

/* What the data say of the location: k[n] and r[n] are added to. */
void atvi_transform_anchor_message(const atvi_anchor *a, atvi_idx n, double *k, double *r);
/* Adjoint, from dk[n] and dr[n]; to->loc is left alone. */
void atvi_transform_anchor_message_vjp(const atvi_anchor *a, atvi_idx n, const double *dk, const double *dr,
                                       const atvi_anchor_adjoint *to);

#endif
