/* SPDX-License-Identifier: MIT */
/* Notation  C = B / delta (row i by delta_i), M = I + C^T C = L L^T, k x k; l = log dx/dpsi of a margin.
 *
 * Normal    With r = (psi - mu) / delta and u = M^-1 C^T r (Woodbury),
 *             (psi - mu)^T Sigma^-1 (psi - mu) = |w|^2 + |u|^2,  w = r - C u,  delta Sigma^-1 (psi - mu) = w:
 *           the ridge form, a sum of squares, where the usual r^T r - r^T C u cancels for small delta. For a draw,
 *           r = C eps + eta, and with v = u - eps both come straight from z: v = M^-1 (C^T eta - eps), w = eta - C v.
 *           log det Sigma = 2 sum log delta + 2 sum log L_jj. Every pivot of M is at least 1, as M - I is positive
 *           semidefinite; holding them there keeps rounding from breaking the factorisation.
 * Adjoint   of log N(psi; mu, Sigma) with z fixed: (w / delta) v^T - C M^-1 / delta by B, and
 *           w (w - eta) - P by log delta, P_i = delta_i^2 (Sigma^-1)_ii = 1 - C_i M^-1 C_i^T.
 * Margin    t = g psi, a = |t|, phi = (1 - e^{-a}) / a in (0, 1], S = e^{max(t, 0) + h psi^2 / 2}:
 *             x = S psi phi,  dx/dpsi = S q,  q = e^{min(t, 0)} + h psi^2 phi.
 *           Nothing but S can overflow, all sums are of one sign, and g = 0 is an ordinary point. */
#include "flow/flow.h"
#include "math/rng.h"
#include "math/special.h"
#include <float.h>
#include <math.h>
#include <string.h>

enum { STREAM_COPULA = 0x636f7075 }; /* apart from the streams of math/rng.h, which count from 1 */
enum { MAX_D = 4096, MAX_INVERSE_STEPS = 400 };

#define MAX_G 4.0
#define MAX_H 2.0
#define START_H 1e-3
#define H_BEND 0.05 /* h goes from exponential to linear in its raw value there, a few steps from the start */
#define START_B 0.1 /* deviation of the first factor loadings */
#define MAX_POWER 600.0 /* of e in S: squares of slopes may overflow, slopes times adjoints do not */
#define SMALL_A 0.25    /* below, (1 - phi) / a is summed as a series */
#define FAR 1e30        /* no psi beyond this is looked for */

struct atvi_copula {
  atvi_ctx *ctx;
  atvi_idx d, k;
};

/* What a margin leaves for the adjoint: [MARGIN_ROWS][d][B] */
enum { X_PSI, X_G, X_H, L_PSI, L_G, L_H, MARGIN_ROWS };

struct atvi_copula_work {
  atvi_ctx *ctx;
  atvi_idx B;            /* draws of the last fwd */
  double *delta, *g, *h; /* [d] */
  double *dg, *dh;       /* [d] by the raw values */
  double *C, *CM;        /* [d][k], CM = C M^-1 */
  double *chol;          /* [k][k] L, its upper triangle unused */
  double *P;             /* [d] */
  double half_log_det;   /* of Sigma */
  double *z;             /* [k + d][B] */
  double *v;             /* [k][B] */
  double *w;             /* [d][B] */
  double *dpsi;          /* [B] scratch of vjp */
  double *rec;           /* [MARGIN_ROWS][d][B] */
};

/* ---- one margin ---- */

typedef struct {
  double x, x_psi, x_g, x_h; /* value and derivatives */
  double l, l_psi, l_g, l_h; /* log dx/dpsi and its derivatives */
} margin;

static double phi_of(double a) { return a > 0 ? -expm1(-a) / a : 1; }

/* (1 - phi(a)) / a = sum (-a)^n / (n + 2)!; the series, to 1e-16 where it is used, avoids the cancellation. */
static double chi_of(double a, double phi) {
  if (a >= SMALL_A) return (1 - phi) / a;
  double sum = 0;
  for (int n = 11; n >= 0; n--) sum = (1 - a * sum) / (n + 2);
  return sum;
}

static margin margin_at(double psi, double g, double h) {
  const double t = g * psi, a = fabs(t), p2 = psi * psi, phi = phi_of(a), chi_up = chi_of(a, phi);
  const double chi = t > 0 ? chi_up : phi - chi_up; /* d(E/S)/dg = psi^2 chi, E = (e^t - 1) / g */
  const double fall = t < 0 ? exp(t) : 1, q = fall + h * p2 * phi;
  const double power = fmax(t, 0) + 0.5 * h * p2;
  const bool held = !(power < MAX_POWER);
  const double S = exp(held ? MAX_POWER : power), slope = held ? 0 : S;
  margin m = {.x = S * psi * phi, .x_psi = slope * q, .x_g = slope * p2 * chi};
  m.x_h = slope * psi * phi * 0.5 * p2;
  m.l = power + log(q);
  m.l_psi = h * psi + ((g + h * psi) * fall + h * psi * phi) / q;
  m.l_g = psi * (fall + h * p2 * chi) / q;
  m.l_h = p2 * (0.5 + phi / q);
  return m;
}

/* An upper bound of the psi > 0 at which the margin reaches y > 0; infinite if none does. Each term drops a
 * factor that is at least 1; for h = 0 it is the solution. */
static double ceiling_of(double y, double g, double h) {
  double by_g, by_h = INFINITY, one = 1; /* one: what (e^{g psi} - 1) / g is at least for psi >= 1 */
  if (g >= 0) {
    by_g = g > 0 ? fmin(y, log1p(g * y) / g) : y;
  } else {
    by_g = -g * y < 1 ? log1p(g * y) / g : INFINITY;
    one = phi_of(-g);
  }
  if (h > 0) by_h = y > one ? fmax(1, sqrt(2 * log(y / one) / h)) : 1;
  return fmin(by_g, by_h);
}

/* psi of x; false if there is none. Newton's method on log |x| as a function of log |psi|, which is convex
 * unless the exponential flattens out on this side; there, the bracket guards it. */
static bool margin_inv(double x, double g, double h, double *psi) {
  const double y = fabs(x);
  *psi = x;
  if (!(y > 0)) return true; /* 0, and NaN stays NaN */
  if (x < 0) g = -g;
  double lo = 0, hi = ceiling_of(y, g, h), at = hi;
  if (!(hi < FAR)) return false;
  for (int n = 0; n < MAX_INVERSE_STEPS && hi - lo > DBL_EPSILON * hi; n++) {
    const double t = g * at, phi = phi_of(fabs(t)), h2 = h * at * at;
    const double f = fmax(t, 0) + 0.5 * h2 + log(at * phi / y);
    const double step = -f / ((t < 0 ? exp(t) : 1) / phi + h2);
    if (f > 0)
      hi = at;
    else
      lo = at;
    const double next = at * exp(step);
    const bool done = fabs(step) <= 2 * DBL_EPSILON, wild = !(next > lo && next < hi) || (n > 20 && n % 2);
    at = wild && !done ? 0.5 * (lo + hi) : next;
    if (done) break;
  }
  *psi = x < 0 ? -at : at;
  return true;
}

/* ---- parameters ---- */

/* r near 0, never beyond top; *slope is multiplied by the derivative. */
static double bounded(double r, double top, double *slope) {
  const double u = r / top, v = 1 / sqrt(1 + u * u);
  *slope *= v * v * v;
  return r * v;
}

static double softplus(double r) { return fmax(r, 0) + log1p(exp(-fabs(r))); }

/* START_H at raw 0. */
static double h_of(double raw, double *dh) {
  const double start = log(expm1(START_H / H_BEND)), r = raw / H_BEND + start;
  *dh = 1 / (1 + exp(-r));
  return bounded(H_BEND * softplus(r), MAX_H, dh);
}

/* t[k][n] = M^-1 t */
static void solve(atvi_idx k, const double *chol, atvi_idx n, double *t) {
  for (atvi_idx j = 0; j < k; j++) {
    double *tj = t + j * n;
    for (atvi_idx m = 0; m < j; m++)
      for (atvi_idx b = 0; b < n; b++) tj[b] -= chol[j * k + m] * t[m * n + b];
    for (atvi_idx b = 0; b < n; b++) tj[b] /= chol[j * k + j];
  }
  for (atvi_idx j = k - 1; j >= 0; j--) {
    double *tj = t + j * n;
    for (atvi_idx m = j + 1; m < k; m++)
      for (atvi_idx b = 0; b < n; b++) tj[b] -= chol[m * k + j] * t[m * n + b];
    for (atvi_idx b = 0; b < n; b++) tj[b] /= chol[j * k + j];
  }
}

/* L of M, with pivots held at 1. */
static void factorise(atvi_idx d, atvi_idx k, const double *C, double *chol) {
  for (atvi_idx i = 0; i < k; i++)
    for (atvi_idx j = 0; j <= i; j++) {
      double sum = i == j;
      for (atvi_idx r = 0; r < d; r++) sum += C[r * k + i] * C[r * k + j];
      for (atvi_idx m = 0; m < j; m++) sum -= chol[i * k + m] * chol[j * k + m];
      chol[i * k + j] = i == j ? sqrt(sum > 1 ? sum : 1) : sum / chol[j * k + j];
    }
}

static void prepare(const atvi_copula *c, const double *theta, atvi_copula_work *w) {
  const atvi_idx d = c->d, k = c->k;
  const double *load = theta + 4 * d;
  w->half_log_det = 0;
  for (atvi_idx i = 0; i < d; i++) {
    w->delta[i] = exp(theta[d + i]);
    w->half_log_det += theta[d + i];
    w->dg[i] = 1;
    w->g[i] = bounded(theta[2 * d + i], MAX_G, &w->dg[i]);
    w->h[i] = h_of(theta[3 * d + i], &w->dh[i]);
    for (atvi_idx j = 0; j < k; j++) w->C[i * k + j] = w->CM[i * k + j] = load[i * k + j] / w->delta[i];
  }
  factorise(d, k, w->C, w->chol);
  for (atvi_idx j = 0; j < k; j++) w->half_log_det += log(w->chol[j * k + j]);
  for (atvi_idx i = 0; i < d; i++) {
    solve(k, w->chol, 1, w->CM + i * k);
    w->P[i] = 1;
    for (atvi_idx j = 0; j < k; j++) w->P[i] -= w->C[i * k + j] * w->CM[i * k + j];
  }
}

/* ---- batches ---- */

/* log_q[B] += log N(psi; mu, Sigma), from eps[k][B] and eta[d][B] (fwd) or, with eps NULL, from r instead of
 * eta. Leaves v (or u) and w in the work; eta may be w. */
static void add_normal(const atvi_copula *c, atvi_copula_work *w, atvi_idx B, const double *eps,
                       const double *eta, double *log_q) {
  const atvi_idx d = c->d, k = c->k;
  for (atvi_idx j = 0; j < k; j++) {
    double *v = w->v + j * B;
    for (atvi_idx b = 0; b < B; b++) v[b] = eps ? -eps[j * B + b] : 0;
    for (atvi_idx i = 0; i < d; i++)
      for (atvi_idx b = 0; b < B; b++) v[b] += w->C[i * k + j] * eta[i * B + b];
  }
  solve(k, w->chol, B, w->v);
  for (atvi_idx i = 0; i < d; i++) {
    double *to = w->w + i * B;
    for (atvi_idx b = 0; b < B; b++) to[b] = eta[i * B + b];
    for (atvi_idx j = 0; j < k; j++)
      for (atvi_idx b = 0; b < B; b++) to[b] -= w->C[i * k + j] * w->v[j * B + b];
    for (atvi_idx b = 0; b < B; b++) log_q[b] -= 0.5 * to[b] * to[b];
  }
  for (atvi_idx j = 0; j < k; j++)
    for (atvi_idx b = 0; b < B; b++) {
      const double u = w->v[j * B + b] + (eps ? eps[j * B + b] : 0);
      log_q[b] -= 0.5 * u * u;
    }
  for (atvi_idx b = 0; b < B; b++) log_q[b] -= w->half_log_det + (double)d * ATVI_LN_SQRT_2PI;
}

/* Row i: psi[B] becomes x, its margin's derivatives are kept. */
static void margin_row(const atvi_copula *c, atvi_copula_work *w, atvi_idx B, atvi_idx i, double *x,
                       double *log_q) {
  double *rec = w->rec + i * B;
  const atvi_idx row = c->d * B;
  for (atvi_idx b = 0; b < B; b++) {
    const margin m = margin_at(x[b], w->g[i], w->h[i]);
    x[b] = m.x;
    log_q[b] -= m.l;
    rec[X_PSI * row + b] = m.x_psi;
    rec[X_G * row + b] = m.x_g;
    rec[X_H * row + b] = m.x_h;
    rec[L_PSI * row + b] = m.l_psi;
    rec[L_G * row + b] = m.l_g;
    rec[L_H * row + b] = m.l_h;
  }
}

void atvi_flow_copula_fwd(const atvi_copula *c, const double *theta, atvi_copula_work *w, atvi_idx B,
                          const double *z, double *x, double *log_q) {
  const atvi_idx d = c->d, k = c->k;
  const double *eps = w->z, *eta = w->z + k * B, *load = theta + 4 * d;
  w->B = B;
  prepare(c, theta, w);
  memcpy(w->z, z, (size_t)((k + d) * B) * sizeof *z);
  for (atvi_idx b = 0; b < B; b++) log_q[b] = 0;
  for (atvi_idx i = 0; i < d; i++) {
    double *psi = x + i * B;
    for (atvi_idx b = 0; b < B; b++) psi[b] = theta[i] + w->delta[i] * eta[i * B + b];
    for (atvi_idx j = 0; j < k; j++)
      for (atvi_idx b = 0; b < B; b++) psi[b] += load[i * k + j] * eps[j * B + b];
    margin_row(c, w, B, i, psi, log_q);
  }
  add_normal(c, w, B, eps, eta, log_q);
}

void atvi_flow_copula_vjp(const atvi_copula *c, const double *theta, atvi_copula_work *w, const double *dx,
                          const double *dlog_q, double *dtheta) {
  const atvi_idx d = c->d, k = c->k, B = w->B, row = d * B;
  const double *eps = w->z, *eta = w->z + k * B;
  double weight = 0, *dpsi = w->dpsi;
  (void)theta; /* all that is needed of it is in the work */
  for (atvi_idx b = 0; b < B; b++) weight += dlog_q[b];
  for (atvi_idx i = 0; i < d; i++) {
    const double *rec = w->rec + i * B, *wi = w->w + i * B, *eta_i = eta + i * B;
    double dmu = 0, ddelta = -weight * w->P[i], dg = 0, dh = 0, *dload = dtheta + 4 * d + i * k;
    for (atvi_idx b = 0; b < B; b++) {
      const double to_x = dx[i * B + b], e = dlog_q[b];
      dpsi[b] = to_x * rec[X_PSI * row + b] - e * rec[L_PSI * row + b];
      dmu += dpsi[b];
      ddelta += dpsi[b] * w->delta[i] * eta_i[b] + e * wi[b] * (wi[b] - eta_i[b]);
      dg += to_x * rec[X_G * row + b] - e * rec[L_G * row + b];
      dh += to_x * rec[X_H * row + b] - e * rec[L_H * row + b];
    }
    for (atvi_idx j = 0; j < k; j++) {
      double by_psi = 0, direct = -weight * w->CM[i * k + j];
      for (atvi_idx b = 0; b < B; b++) {
        by_psi += dpsi[b] * eps[j * B + b];
        direct += dlog_q[b] * wi[b] * w->v[j * B + b];
      }
      dload[j] += by_psi + direct / w->delta[i];
    }
    dtheta[i] += dmu;
    dtheta[d + i] += ddelta;
    dtheta[2 * d + i] += dg * w->dg[i];
    dtheta[3 * d + i] += dh * w->dh[i];
  }
}

void atvi_flow_copula_score(const atvi_copula *c, atvi_copula_work *w, double *dx) {
  const atvi_idx d = c->d, B = w->B;
  for (atvi_idx i = 0; i < d; i++)
    for (atvi_idx b = i * B; b < (i + 1) * B; b++) {
      const double slope =
          w->rec[X_PSI * d * B + b]; /* 0 where x is held: out there the score has long died away */
      dx[b] = slope > 0 ? -(w->w[b] / w->delta[i] + w->rec[L_PSI * d * B + b]) / slope : 0;
    }
}

void atvi_flow_copula_log_q(const atvi_copula *c, const double *theta, atvi_copula_work *w, atvi_idx B,
                            const double *x, double *log_q) {
  prepare(c, theta, w);
  for (atvi_idx b = 0; b < B; b++) log_q[b] = 0;
  for (atvi_idx i = 0; i < c->d; i++)
    for (atvi_idx b = 0; b < B; b++) {
      double psi, l = INFINITY;
      if (margin_inv(x[i * B + b], w->g[i], w->h[i], &psi))
        l = margin_at(psi, w->g[i], w->h[i]).l;
      else
        psi = theta[i];
      log_q[b] -= l;
      w->w[i * B + b] = (psi - theta[i]) / w->delta[i];
    }
  add_normal(c, w, B, NULL, w->w, log_q);
}

/* ---- objects ---- */

atvi_status atvi_flow_copula_new(atvi_ctx *ctx, atvi_idx d, int factors, atvi_copula **out) {
  *out = NULL;
  if (d < 1 || d > MAX_D) return ATVI_FAIL(ctx, ATVI_EINVAL, "copula: d = %td, want 1 to %d", d, MAX_D);
  if (factors < 1 || factors > d)
    return ATVI_FAIL(ctx, ATVI_EINVAL, "copula: %d factors, want 1 to d = %td", factors, d);
  atvi_copula *c = atvi_block(ctx, sizeof *c);
  if (!c) return ATVI_ENOMEM;
  *c = (atvi_copula){ctx, d, factors};
  *out = c;
  return ATVI_OK;
}

void atvi_flow_copula_free(atvi_copula *c) {
  if (c) atvi_block_free(c->ctx, c);
}

atvi_idx atvi_flow_copula_size(const atvi_copula *c) { return c->d * (4 + c->k); }

void atvi_flow_copula_init(const atvi_copula *c, double *theta) {
  const atvi_idx d = c->d, k = c->k;
  const double sd =
      fmin(START_B, 0.5 / sqrt((double)k)); /* many factors together still leave room for delta */
  atvi_rng r = atvi_math_rng_at(1, STREAM_COPULA, 0, 0);
  for (atvi_idx i = 0; i < 4 * d; i++) theta[i] = 0;
  for (atvi_idx i = 0; i < d; i++) {
    double left = 1, *load = theta + 4 * d + i * k;
    for (atvi_idx j = 0; j < k; j++) {
      load[j] = sd * atvi_math_rng_normal(&r);
      left -= load[j] * load[j];
    }
    theta[d + i] = 0.5 * log(fmax(left, 0.1));
  }
}

static atvi_copula_work *carve(atvi_arena *a, atvi_idx d, atvi_idx k, atvi_idx max_B) {
  atvi_copula_work *w, head = {0};
  double **per_d[] = {&head.delta, &head.g, &head.h, &head.dg, &head.dh, &head.P};
  const size_t of = sizeof(double), n = (size_t)max_B;
  ATVI_TAKE(a, w, 1);
  for (int i = 0; i < 6; i++) ATVI_TAKE(a, *per_d[i], d);
  ATVI_TAKE(a, head.C, d * k);
  ATVI_TAKE(a, head.CM, d * k);
  ATVI_TAKE(a, head.chol, k * k);
  /* max_B apart: the product could wrap, and the arena saturates */
  head.z = atvi_arena_take(a, n, (size_t)(k + d) * of);
  head.v = atvi_arena_take(a, n, (size_t)k * of);
  head.w = atvi_arena_take(a, n, (size_t)d * of);
  ATVI_TAKE(a, head.dpsi, max_B);
  head.rec = atvi_arena_take(a, n, (size_t)(MARGIN_ROWS * d) * of);
  if (w) *w = head;
  return w;
}

atvi_status atvi_flow_copula_work_new(atvi_ctx *ctx, const atvi_copula *c, atvi_idx max_B,
                                      atvi_copula_work **out) {
  atvi_arena a = {0};
  *out = NULL;
  if (max_B < 1) return ATVI_FAIL(ctx, ATVI_EINVAL, "copula: room for %td draws, want >= 1", max_B);
  carve(&a, c->d, c->k, max_B);
  a = (atvi_arena){.base = atvi_block(ctx, a.used)};
  if (!a.base) return ATVI_ENOMEM;
  *out = carve(&a, c->d, c->k, max_B);
  (*out)->ctx = ctx;
  return ATVI_OK;
}

void atvi_flow_copula_work_free(atvi_copula_work *w) {
  if (w) atvi_block_free(w->ctx, w);
}
