/* SPDX-License-Identifier: MIT */
/* Maps from unconstrained coordinates xi to parameters theta, one coordinate at a time.
 *
 * A map is either one-to-one (affine, log, logit, probit) or the boundary surjection, which folds the line
 * onto the interval and shares the mass at theta among its images. For a target p(theta), the target in
 * xi-space is
 *
 *     log pi(xi) = log p(theta(xi)) + ldj(xi)
 *
 * with ldj = log |d theta / d xi| for one-to-one maps and log scale + log w(xi | theta) for the surjection,
 * where the images' shares w sum to one, so that the integral of pi over xi is that of p over theta, exactly.
 *
 * Surjection, two ends: u = xi in units in which the box is [-2, 2]; triangle wave on the whole line; the
 * images of
 *   t in [-2, 2] are 4 j + (-1)^j t for all whole j; w = g(u) / sum of g over all images,
 *   g(u) = sigma(B (2 - u)) sigma(B (2 + u)), which is sigma(B (2 - |u|)) without that one's kink at 0. With it the sum is
 *   known: (1 - e^-4B) g(u) = sigma(B (u + 2)) - sigma(B (u - 2)), g is even, so the images are t + 4 j as far as g can
 *   tell, and the differences telescope to 1. Hence w = (1 - e^-4B) g(u), for every theta.
 *   One end: u = signed distance of loc + scale xi from the end in units of scale, positive inside; folded at that
 *   end alone, images +-u, w = sigma(B u). Finite and differentiable everywhere; the slope B says how sharply mass
 *   outside is discouraged.
 * theta itself has a kink at a fold. Its derivative there is the one from the side of the upright copies (u
 * in [-2, 2] + 8 j; u >= 0 with one end), that is, from inside the box. */
#ifndef ATVI_TRANSFORM_TRANSFORM_H
#define ATVI_TRANSFORM_TRANSFORM_H

#include "core/core.h"

typedef enum {
  ATVI_MAP_NONE,  /* theta = loc + scale xi; no bounds */
  ATVI_MAP_LOG,   /* one bound: theta = lower + exp(loc + scale xi), or upper - exp(...) */
  ATVI_MAP_LOGIT, /* theta = lower + (upper - lower) sigma(c (loc + scale xi))^(1/c), c the power; see there */
  ATVI_MAP_PROBIT,     /* theta = lower + (upper - lower) Phi(loc + scale xi) */
  ATVI_MAP_SURJECTION, /* one bound or two */
} atvi_map_kind;

typedef struct {
  atvi_map_kind kind;
  double lower, upper; /* infinite where open; kinds check what they need */
  double loc, scale;   /* scale > 0; SURJECTION with two ends: 0 and (upper - lower) / 4, not to be changed */
  double slope;        /* SURJECTION: B in (0, 1e6] */
  /* LOGIT: 1; above 1 it is the more like a logarithm of the distance from the lower end, below -1 from the
   * upper end */
  double power;
} atvi_map;

/* The map of that kind for these bounds with loc 0, scale 1 (surjection with two ends: (upper - lower) / 4),
 * slope 20, power 1. loc, scale, slope and power may be changed afterwards. Errors: EINVAL (bounds do not
 * suit the kind). */
ATVI_CHECKED atvi_status atvi_transform_map_new(atvi_ctx *ctx, atvi_map_kind kind, double lower, double upper,
                                                atvi_map *out);
/* Whether a map whose loc, scale, slope or power were changed is still one. Errors: EINVAL. */
ATVI_CHECKED atvi_status atvi_transform_map_check(atvi_ctx *ctx, const atvi_map *m);

/* xi, theta, ldj: [n]; ldj is added to. Never NaN or infinite for finite xi within +-1e6 or so; theta stays
 * inside the closed interval (one-to-one maps: the open one, except that log stops growing at a finite
 * theta). xi and theta may be the same array. */
void atvi_transform_map_fwd(const atvi_map *m, atvi_idx n, const double *xi, double *theta, double *ldj);
/* Adjoint: dxi[n] += dtheta * d theta/d xi + dldj * d ldj/d xi. */
void atvi_transform_map_vjp(const atvi_map *m, atvi_idx n, const double *xi, const double *dtheta,
                            const double *dldj, double *dxi);
/* The image inside the box (surjection) or the only one. theta outside the interval gives NaN; at an end that
 * a one-to-one map does not reach, -+inf. xi and theta may be the same array. */
void atvi_transform_map_inv(const atvi_map *m, atvi_idx n, const double *theta, double *xi);
/* Images of theta, nearest the box first, at most max, those within `reach` units of the box (units of u;
 * reach >= 0): returns how many. The density of theta under q on xi-space is the sum of q(image) / |d theta/d
 * xi| over them,
 * |d theta/d xi| = scale for the surjection. On a fold two images coincide and both count. One-to-one: 1, the inverse. */
int atvi_transform_map_images(const atvi_map *m, double theta, double reach, int max, double *xi);

const char *
atvi_transform_map_name(atvi_map_kind kind); /* "surjection", ... as in model files; "?" for no kind */

/* A parameter of a hierarchy, expressed through its prior and what the data say of it.
 *
 * Its prior has location mu and scale s, which are functions of other parameters. In u = theta, log theta or
 * logit theta (the form's), suppose that the data inform u as one observation with precision k and value m
 * would, and let r = k m. Given mu and s the posterior of u is then N(M, S^2), were the prior normal, and z
 * is what is left:
 *
 *     u = M + S z,   M = (mu + s^2 r) / (1 + k s^2),   S = s / sqrt(1 + k s^2)
 *
 * k = 0: u = mu + s z, independent of mu and s under the prior ("non-centred"). k s^2 large: u = m + z /
 * sqrt(k), independent of them where data are strong ("centred"). In between z is independent of both in the
 * posterior, for every s at once: exactly so where prior and likelihood are normal (a partial non-centring as
 * of Papaspiliopoulos, Roberts and Skold 2007, whose weight follows s). Whatever k and r are, the map is
 * one-to-one and its Jacobian exact; they decide how easy the posterior is, not what it is.
 *
 * Messages  Where mu is itself such a parameter, what the data say of u they say of mu, through the prior: with precision k / (1 + k s^2)
 *           and r / (1 + k s^2), which add up over all that have this location.
 * RATIO     theta = s^w z with w = 1 / (1 + k), k in units of the precision of log z under the prior: the same for a family of
 *           scales, whose spread in log theta is constant; z keeps its bound at 0.
 * INTERVAL  is LINE with k = 0 and z in (0, 1).
 * STANDARD  theta is standard under the prior, and the data inform u = mu + s theta. It is (u - mu) / s with u as above. */

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

/* z, theta, ldj: [n]; log |d theta / d z| is added to ldj. A scale that is not positive gives NaN, but for
 * STANDARD. z and theta may be the same array. */
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
