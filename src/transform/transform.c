/* SPDX-License-Identifier: MIT */
/* Every kind is one function from xi to a point: theta, ldj and both derivatives. They share their
 * exponentials, and fwd and vjp cannot disagree.
 *
 * Near an end theta is built from its distance to that end, so that the distance keeps its relative accuracy
 * when the end is 0. Where lower + distance rounds to lower, one-to-one maps give the next number instead:
 * densities that are infinite at an end (gamma, beta) are never evaluated on it. */
#include "transform/transform.h"
#include "math/special.h"
#include <math.h>

#define LN_SQRT_2PI 0.91893853320467274178
#define SQRT_HALF 0.70710678118654752440
#define EXP_MAX 700.0 /* exp beyond it nears overflow; theta of the log map stays there */

typedef struct {
  double theta, ldj;
  double dtheta, dldj; /* by xi */
} point;

static bool has_lower(const atvi_map *m) { return m->lower > -HUGE_VAL; }
static bool has_both(const atvi_map *m) { return has_lower(m) && m->upper < HUGE_VAL; }
static double width(const atvi_map *m) { return m->upper - m->lower; }

static double inside(const atvi_map *m, double theta) {
  if (theta <= m->lower) return nextafter(m->lower, HUGE_VAL);
  if (theta >= m->upper) return nextafter(m->upper, -HUGE_VAL);
  return theta;
}

static point none_at(const atvi_map *m, double constant, double xi) {
  return (point){m->loc + m->scale * xi, constant, m->scale, 0};
}

/* Where theta stays, ldj falls: a density that is constant there would otherwise have infinite mass. */
static point log_at(const atvi_map *m, double constant, double xi) {
  double x = m->loc + m->scale * xi, sign = has_lower(m) ? 1 : -1;
  bool beyond = x > EXP_MAX;
  double e = exp(beyond ? EXP_MAX : x), theta = inside(m, has_lower(m) ? m->lower + e : m->upper - e);
  return (point){theta, constant + (beyond ? 2 * EXP_MAX - x : x), beyond ? 0 : sign * m->scale * e,
                 beyond ? -m->scale : m->scale};
}

/* near = share of the interval between theta and the nearer end, which is the upper one if top. */
static double place(const atvi_map *m, double near, bool top) {
  return inside(m, top ? m->upper - width(m) * near : m->lower + width(m) * near);
}

static point plain_logit_at(const atvi_map *m, double constant, double xi) {
  double x = m->loc + m->scale * xi, e = exp(-fabs(x)), near = e / (1 + e);
  return (point){place(m, near, x > 0), constant - fabs(x) - 2 * log1p(e),
                 m->scale * width(m) * near / (1 + e), copysign(m->scale, x) * (2 * near - 1)};
}

/* log(1 + e^y) */
static double softplus(double y) { return y > 0 ? y + log1p(exp(-y)) : log1p(exp(y)); }

/* p = sigma(c x)^(1/c) is the share of the interval between theta and the end that the power names, where x
 * grows away from it. */
static point logit_at(const atvi_map *m, double constant, double xi) {
  if (m->power == 1) return plain_logit_at(m, constant, xi);
  double sign = m->power > 0 ? 1 : -1, c = fabs(m->power), x = sign * (m->loc + m->scale * xi);
  double log_p = -softplus(-c * x) / c, log_rest = -softplus(c * x), rest = exp(log_rest), p = exp(log_p);
  bool far = p > 0.5;
  return (point){place(m, far ? -expm1(log_p) : p, far == (sign > 0)), constant + log_p + log_rest,
                 m->scale * width(m) * p * rest, sign * m->scale * (rest - c * (1 - rest))};
}

static point probit_at(const atvi_map *m, double constant, double xi) {
  double x = m->loc + m->scale * xi, near = 0.5 * erfc(fabs(x) * SQRT_HALF);
  return (point){place(m, near, x > 0), constant - 0.5 * x * x,
                 m->scale * width(m) * exp(-0.5 * x * x - LN_SQRT_2PI), -m->scale * x};
}

static point one_end_at(const atvi_map *m, double constant, double xi) {
  double y = m->loc + m->scale * xi, sign = has_lower(m) ? 1 : -1;
  double away = has_lower(m) ? y - m->lower : m->upper - y, bu = m->slope * (away / m->scale);
  double theta = has_lower(m) ? m->lower + fabs(away) : m->upper - fabs(away), e = exp(-fabs(bu));
  return (point){theta, constant + fmin(bu, 0) - log1p(e), away >= 0 ? m->scale : -m->scale,
                 sign * m->slope * (bu > 0 ? e : 1) / (1 + e)};
}

/* v = xi from the middle of the nearest upright copy of the box. t = v for |v| <= 2, else copysign(4, v) - v:
 * both have the sign of v. */
static point two_ends_at(const atvi_map *m, double constant, double xi) {
  double v = xi - 8 * round(xi / 8); /* exact: both are multiples of xi's last bit */
  bool upright = fabs(v) <= 2;
  /* 2 -+ t from v, not from t: no rounding near the ends. */
  double near = m->scale * fabs(fabs(v) - 2);
  double theta = v < 0 ? m->lower + near : m->upper - near;
  double out = m->slope * (fabs(xi) - 2), a = exp(-fabs(out)), b = exp(-m->slope * (fabs(xi) + 2));
  double slope = (out > 0 ? 1 : a) / (1 + a) - b / (1 + b);
  return (point){fmin(fmax(theta, m->lower), m->upper), constant - fmax(out, 0) - log1p(a + b + a * b),
                 upright ? m->scale : -m->scale, -copysign(m->slope, xi) * slope};
}

/* The part of ldj that does not depend on xi. */
static double constant_of(const atvi_map *m) {
  switch (m->kind) {
  case ATVI_MAP_NONE:
  case ATVI_MAP_LOG: break;
  case ATVI_MAP_LOGIT: return log(m->scale * width(m));
  case ATVI_MAP_PROBIT: return log(m->scale * width(m)) - LN_SQRT_2PI;
  case ATVI_MAP_SURJECTION:
    if (has_both(m)) return log(m->scale) + log(-expm1(-4 * m->slope));
  }
  return log(m->scale);
}

static point at(const atvi_map *m, double constant, double xi) {
  switch (m->kind) {
  case ATVI_MAP_NONE: return none_at(m, constant, xi);
  case ATVI_MAP_LOG: return log_at(m, constant, xi);
  case ATVI_MAP_LOGIT: return logit_at(m, constant, xi);
  case ATVI_MAP_PROBIT: return probit_at(m, constant, xi);
  case ATVI_MAP_SURJECTION: break;
  }
  return has_both(m) ? two_ends_at(m, constant, xi) : one_end_at(m, constant, xi);
}

void atvi_transform_map_fwd(const atvi_map *m, atvi_idx n, const double *xi, double *theta, double *ldj) {
  double constant = constant_of(m);
  for (atvi_idx i = 0; i < n; i++) {
    point p = at(m, constant, xi[i]);
    theta[i] = p.theta;
    ldj[i] += p.ldj;
  }
}

void atvi_transform_map_vjp(const atvi_map *m, atvi_idx n, const double *xi, const double *dtheta,
                            const double *dldj, double *dxi) {
  for (atvi_idx i = 0; i < n; i++) {
    point p = at(m, 0, xi[i]);
    dxi[i] += dtheta[i] * p.dtheta + dldj[i] * p.dldj;
  }
}

/* ---- back ---- */

static double logit(const atvi_map *m, double low, double high) {
  if (m->power == 1) return log(low) - log(high);
  double sign = m->power > 0 ? 1 : -1, c = fabs(m->power), near = m->power > 0 ? low : high, w = width(m);
  double log_p = near < 0.5 * w ? log(near / w) : log1p(-(m->power > 0 ? high : low) / w);
  return sign * (log_p - log(-expm1(c * log_p)) / c);
}

static double inverse(const atvi_map *m, double theta) {
  if (!(theta >= m->lower && theta <= m->upper)) return NAN;
  double low = theta - m->lower, high = m->upper - theta, x = theta;
  switch (m->kind) {
  case ATVI_MAP_NONE:
  case ATVI_MAP_SURJECTION:
    if (has_both(m)) return low < high ? low / m->scale - 2 : 2 - high / m->scale;
    break;
  case ATVI_MAP_LOG: x = log(has_lower(m) ? low : high); break;
  case ATVI_MAP_LOGIT: x = logit(m, low, high); break;
  case ATVI_MAP_PROBIT:
    x = low < high ? atvi_math_ndtri(low / width(m)) : -atvi_math_ndtri(high / width(m));
    break;
  }
  return (x - m->loc) / m->scale;
}

void atvi_transform_map_inv(const atvi_map *m, atvi_idx n, const double *theta, double *xi) {
  for (atvi_idx i = 0; i < n; i++) xi[i] = inverse(m, theta[i]);
}

/* Pair j lies 4 j - 2 -+ |t| beyond the ends, its nearer member above for t >= 0 and odd j. */
static int two_end_images(double t, double reach, int max, double *xi) {
  int count = 0;
  xi[count++] = t;
  for (int j = 1; count < max; j++) {
    double sign = (t >= 0) == (j % 2 != 0) ? 1 : -1;
    double near = 4.0 * j - fabs(t), far = 4.0 * j + fabs(t);
    if (near - 2 > reach) break;
    xi[count++] = sign * near;
    if (count < max && far - 2 <= reach) xi[count++] = -sign * far;
  }
  return count;
}

int atvi_transform_map_images(const atvi_map *m, double theta, double reach, int max, double *xi) {
  if (max < 1) return 0;
  double in = inverse(m, theta);
  if (isnan(in)) return 0;
  xi[0] = in;
  if (m->kind != ATVI_MAP_SURJECTION || max < 2) return 1;
  if (has_both(m)) return two_end_images(in, reach, max, xi);
  double end = has_lower(m) ? m->lower : m->upper;
  if (fabs(theta - end) / m->scale > reach) return 1;
  xi[1] = (2 * end - theta - m->loc) / m->scale;
  return 2;
}

/* Making and checking maps. */

#define SLOPE 20.0
#define SLOPE_MAX 1e6 /* log w stays finite and smooth for any xi that a flow can give */

const char *atvi_transform_map_name(atvi_map_kind kind) {
  switch (kind) {
  case ATVI_MAP_NONE: return "none";
  case ATVI_MAP_LOG: return "log";
  case ATVI_MAP_LOGIT: return "logit";
  case ATVI_MAP_PROBIT: return "probit";
  case ATVI_MAP_SURJECTION: return "surjection";
  }
  return "?";
}

/* What is wrong with the bounds, or NULL. */
static const char *unsuited(atvi_map_kind kind, double lower, double upper) {
  if (!(lower < upper) || lower == HUGE_VAL || upper == -HUGE_VAL) return "lower < upper";
  bool low = lower > -HUGE_VAL, high = upper < HUGE_VAL;
  if (low && high && !(upper - lower < HUGE_VAL)) return "a finite width";
  switch (kind) {
  case ATVI_MAP_NONE: return low || high ? "no bounds" : NULL;
  case ATVI_MAP_LOG: return low == high ? "one bound" : NULL;
  case ATVI_MAP_LOGIT:
  case ATVI_MAP_PROBIT: return low && high ? NULL : "two bounds";
  case ATVI_MAP_SURJECTION: return low || high ? NULL : "one bound or two";
  }
  return "a known kind";
}

static bool two_ends(const atvi_map *m) {
  return m->kind == ATVI_MAP_SURJECTION && isfinite(m->lower) && isfinite(m->upper);
}

atvi_status atvi_transform_map_new(atvi_ctx *ctx, atvi_map_kind kind, double lower, double upper,
                                   atvi_map *out) {
  const char *want = unsuited(kind, lower, upper);
  *out = (atvi_map){kind, lower, upper, 0, 1, SLOPE, 1};
  if (want)
    return ATVI_FAIL(ctx, ATVI_EINVAL, "map %s: bounds %g and %g, want %s", atvi_transform_map_name(kind),
                     lower, upper, want);
  if (two_ends(out)) out->scale = (upper - lower) / 4;
  return ATVI_OK;
}

atvi_status atvi_transform_map_check(atvi_ctx *ctx, const atvi_map *m) {
  const char *name = atvi_transform_map_name(m->kind), *want = unsuited(m->kind, m->lower, m->upper);
  if (want)
    return ATVI_FAIL(ctx, ATVI_EINVAL, "map %s: bounds %g and %g, want %s", name, m->lower, m->upper, want);
  if (!(m->scale > 0 && m->scale < HUGE_VAL))
    return ATVI_FAIL(ctx, ATVI_EINVAL, "map %s: scale = %g, want > 0", name, m->scale);
  if (!isfinite(m->loc)) return ATVI_FAIL(ctx, ATVI_EINVAL, "map %s: loc = %g", name, m->loc);
  if (two_ends(m) && (m->loc != 0 || m->scale != (m->upper - m->lower) / 4))
    return ATVI_FAIL(ctx, ATVI_EINVAL, "map %s: loc = %g, scale = %g, want 0 and %g", name, m->loc, m->scale,
                     (m->upper - m->lower) / 4);
  if (m->kind == ATVI_MAP_SURJECTION && !(m->slope > 0 && m->slope <= SLOPE_MAX))
    return ATVI_FAIL(ctx, ATVI_EINVAL, "map %s: slope = %g, want > 0 and <= %g", name, m->slope, SLOPE_MAX);
  if (m->kind == ATVI_MAP_LOGIT && !(fabs(m->power) >= 1 && fabs(m->power) < HUGE_VAL))
    return ATVI_FAIL(ctx, ATVI_EINVAL, "map %s: power = %g, want 1 or more, up or down", name, m->power);
  return ATVI_OK;
}

void atvi_transform_anchor_bounds(atvi_prior_form form, double *lower, double *upper) {
  bool bounded = form == ATVI_PRIOR_RATIO || form == ATVI_PRIOR_INTERVAL;
  *lower = bounded ? 0 : -HUGE_VAL;
  *upper = form == ATVI_PRIOR_INTERVAL ? 1 : HUGE_VAL;
}

/* share = 1 / (1 + k s^2): how much of u is the prior's. */
typedef struct {
  double s, k, r, share, middle, spread;
} frame;

static frame frame_at(const atvi_anchor *a, atvi_idx j) {
  double s = a->scale[j], k = a->k[j], r = a->r[j], share = 1 / (1 + k * s * s);
  if (a->form == ATVI_PRIOR_STANDARD)
    return (frame){s, k, r, share, share * s * (r - k * a->loc[j]), sqrt(share)};
  return (frame){s, k, r, share, share * (a->loc[j] + s * s * r), s > 0 ? s * sqrt(share) : NAN};
}

static double power(const atvi_anchor *a, atvi_idx j) { return 1 / (1 + a->k[j]); }

static double sigma(double u) { return u < 0 ? exp(u) / (1 + exp(u)) : 1 / (1 + exp(-u)); }
/* log(sigma(u)) + log(1 - sigma(u)) */
static double log_slope(double u) { return -fabs(u) - 2 * log1p(exp(-fabs(u))); }

/* |log theta| stops growing here: beyond, a prior or a model sees infinity. */
#define LOG_MOST 690.0

void atvi_transform_anchor_fwd(const atvi_anchor *a, atvi_idx n, const double *z, double *theta,
                               double *ldj) {
  for (atvi_idx j = 0; j < n; j++) {
    if (a->form == ATVI_PRIOR_RATIO) {
      double log_factor = a->scale[j] > 0 ? power(a, j) * log(a->scale[j]) : NAN;
      theta[j] = z[j] * exp(log_factor);
      ldj[j] += log_factor;
      continue;
    }
    frame f = frame_at(a, j);
    double u = f.middle + f.spread * z[j];
    ldj[j] += log(f.spread);
    if (a->form == ATVI_PRIOR_LOG) {
      u = u > LOG_MOST ? LOG_MOST : u < -LOG_MOST ? -LOG_MOST : u;
      ldj[j] += u;
      u = exp(u);
    } else if (a->form == ATVI_PRIOR_LOGIT) {
      ldj[j] += log_slope(u);
      u = sigma(u);
    }
    theta[j] = u;
  }
}

static void ratio_vjp(const atvi_anchor *a, atvi_idx j, double z, double dtheta, double dldj, double *dz,
                      const atvi_anchor_adjoint *to) {
  double w = power(a, j), log_s = log(a->scale[j]), factor = exp(w * log_s);
  double dlog = dtheta * factor * z + dldj;
  *dz = dtheta * factor;
  to->scale[j] += w / a->scale[j] * dlog;
  to->k[j] -= w * w * log_s * dlog;
}

void atvi_transform_anchor_vjp(const atvi_anchor *a, atvi_idx n, const double *z, const double *dtheta,
                               const double *dldj, double *dz, const atvi_anchor_adjoint *to) {
  for (atvi_idx j = 0; j < n; j++) {
    double du = dtheta[j];
    if (a->form == ATVI_PRIOR_RATIO) {
      ratio_vjp(a, j, z[j], du, dldj[j], &dz[j], to);
      continue;
    }
    frame f = frame_at(a, j);
    double u = f.middle + f.spread * z[j];
    if (a->form == ATVI_PRIOR_LOG)
      du = fabs(u) < LOG_MOST ? du * exp(u) + dldj[j] : 0;
    else if (a->form == ATVI_PRIOR_LOGIT)
      du = du * exp(log_slope(u)) + dldj[j] * (1 - 2 * sigma(u));
    double dlog_spread = dldj[j] + du * f.spread * z[j], s2 = f.s * f.s;
    dz[j] = du * f.spread;
    if (a->form == ATVI_PRIOR_STANDARD) {
      double by = f.r - f.k * a->loc[j], dlog_share = du * f.middle + 0.5 * dlog_spread;
      to->loc[j] -= du * f.share * f.s * f.k;
      to->scale[j] += du * f.share * by - 2 * f.k * f.s * f.share * dlog_share;
      to->k[j] -= du * f.share * f.s * a->loc[j] + s2 * f.share * dlog_share;
      to->r[j] += du * f.share * f.s;
      continue;
    }
    to->loc[j] += du * f.share;
    to->scale[j] += dlog_spread * f.share / f.s + du * 2 * f.s * f.share * (f.r - f.k * f.middle);
    to->k[j] -= s2 * f.share * (du * f.middle + 0.5 * dlog_spread);
    to->r[j] += du * s2 * f.share;
  }
}

void atvi_transform_anchor_inv(const atvi_anchor *a, atvi_idx n, const double *theta, double *z) {
  for (atvi_idx j = 0; j < n; j++) {
    if (a->form == ATVI_PRIOR_RATIO) {
      z[j] = theta[j] * exp(-power(a, j) * log(a->scale[j]));
      continue;
    }
    frame f = frame_at(a, j);
    double u = a->form == ATVI_PRIOR_LOG     ? log(theta[j])
               : a->form == ATVI_PRIOR_LOGIT ? log(theta[j]) - log1p(-theta[j])
                                             : theta[j];
    z[j] = (u - f.middle) / f.spread;
  }
}

void atvi_transform_anchor_message(const atvi_anchor *a, atvi_idx n, double *k, double *r) {
  for (atvi_idx j = 0; j < n; j++) {
    double share = 1 / (1 + a->k[j] * a->scale[j] * a->scale[j]);
    k[j] += a->k[j] * share;
    r[j] += a->r[j] * share;
  }
}

void atvi_transform_anchor_message_vjp(const atvi_anchor *a, atvi_idx n, const double *dk, const double *dr,
                                       const atvi_anchor_adjoint *to) {
  for (atvi_idx j = 0; j < n; j++) {
    double s = a->scale[j], k = a->k[j], r = a->r[j], share = 1 / (1 + k * s * s);
    double dshare = dk[j] * k + dr[j] * r; /* d share = -share^2 (s^2 dk + 2 k s ds) */
    to->k[j] += dk[j] * share - dshare * share * share * s * s;
    to->r[j] += dr[j] * share;
    to->scale[j] -= dshare * share * share * 2 * k * s;
  }
}
