/* SPDX-License-Identifier: MIT */
#include "transform/transform.h"
#include <math.h>

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
