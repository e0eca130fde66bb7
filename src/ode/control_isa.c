/* SPDX-License-Identifier: MIT */
/* Step control, lane by lane.
 *
 * Error     E^2 = mean_i (err_i / w_i)^2,  w_i = tol_abs S_i + tol_rel max(|y_i|, |ynew_i|),  S_i the largest
 *           |y_i| of this lane so far, at least FLOOR times that of its largest state. Thus no tolerance has a
 *           unit, and a state that starts at 0 is followed as finely as its own history demands. With explicit steps, S_i fades while
 *           tol_abs S_i exceeds tol_rel |y_i|: a state that dies out is then followed in its own size.
 * Step      h <- h * 0.85 E^(-1/q), between 1/5 and 5 times; not larger right after a rejection. A step that was
 *           shortened to land on a stop and calls for the largest growth says only that: the wish of before stands.
 * Landing   a stop closer than 1.15 h is taken whole, one closer than 2 h in two equal steps.
 * Root      E^(-2/(2q)) needs no accuracy: exponent arithmetic on the bits of E^2 (within 6 %), then one Newton
 *           step (within 2 %). */
#include "ode/lanes.h"
#include <math.h>

static const double FLOOR =
    1e-6; /* of the largest state: below it a state counts as rounding of the others */
static const double TINY = 1e-200; /* keeps 0/0 away where all states are 0 */
static const double SAFETY = 0.85, SHRINK = 0.2, GROW = 5.0, SHRINK_BAD = 0.1;
static const double LAND = 1.15;
static const double RETRY = 0.8; /* below 1 / LAND: what was rejected may not be proposed again */

void ATVI_ISA_NAME(atvi_ode_propose)(atvi_ode_work *w) {
  LANES(l) {
    double left = w->tstop[l] - w->t[l], h = w->h[l];
    bool land = left <= LAND * h;
    double hs = left < 2 * h ? 0.5 * left : h;
    hs = land ? left : hs;
    w->trial.hs[l] = hs;
    w->trial.tnew[l] = land ? w->tstop[l] : w->t[l] + hs;
  }
}

/* x^(-1/p) for p = 10 or 8, 1e-9 < x < 1e9 */
ALWAYS double inverse_root(double x, int p) {
  const double one = 1;
  uint64_t bits, unit;
  memcpy(&bits, &x, sizeof bits);
  memcpy(&unit, &one, sizeof unit);
  const uint64_t part = (uint64_t)(4294967296.0 / p);
  bits = unit + (unit >> 32) * part - (bits >> 32) * part;
  double r;
  memcpy(&r, &bits, sizeof r);
  double r2 = r * r, r4 = r2 * r2, rp = r4 * r4 * (p == 10 ? r2 : 1.0);
  return FMA(r * (1.0 / p), FMA(-x, rp, 1.0), r);
}

ALWAYS void judge(atvi_ode_work *w, int p) {
  LANES(l) {
    double e = w->trial.e2[l], hs = w->trial.hs[l], h = w->h[l];
    bool moves = hs > 0, ok = moves && e <= 1;
    double x = max2(e, 1e-8);
    x = min2(x, 1e8);
    double f = SAFETY * inverse_root(x, p);
    f = max2(min2(f, w->control.grow[l]), SHRINK);
    double next = f * hs;
    double kept = hs < h && f >= w->control.grow[l] ? max2(next, h) : next;
    double less = e < (double)INFINITY ? min2(next, RETRY * hs) : SHRINK_BAD * hs;
    double to = ok ? kept : less;
    w->h[l] = moves ? to : 0.0;
    w->control.grow[l] = ok ? GROW : 1.0;
    w->trial.acc[l] = ok ? 1.0 : 0.0;
    w->count.accepted[l] += ok ? 1.0 : 0.0;
    w->count.rejected[l] += moves && !ok ? 1.0 : 0.0;
  }
}

unsigned ATVI_ISA_NAME(atvi_ode_judge)(atvi_ode_work *w) {
  if (w->control.root == 10)
    judge(w, 10);
  else
    judge(w, 8);
  unsigned accepted = mask_of(w->trial.acc);
  return accepted | (w->run & ~accepted) << ATVI_LANES;
}

unsigned ATVI_ISA_NAME(atvi_ode_commit)(atvi_ode_work *w) {
  const atvi_idx size = w->n * PER_ROW;
  const vec *restrict ynew = (const vec *)w->trial.ynew, *restrict kend = (const vec *)w->trial.k +
                                                                          (ATVI_ODE_STAGES - 1) * size;
  vec *restrict y = (vec *)w->y, *restrict k = (vec *)w->trial.k, *restrict scale = (vec *)w->trial.scale,
                smax[PER_ROW];
  _Alignas(ATVI_ALIGN) double at[ATVI_LANES];
  veci ok[PER_ROW];
  const double ratio = w->control.tol_abs / w->control.tol_rel;
  PARTS(p) smax[p] = ((const vec *)w->control.smax)[p];
  PARTS(p) ok[p] = ((const vec *)w->trial.acc)[p] != 0;
  for (atvi_idx i = 0; i < size; i += PER_ROW) {
    PARTS(p) {
      vec v = pick(ok[p], ynew[i + p], y[i + p]);
      y[i + p] = v;
      k[i + p] = pick(ok[p], kend[i + p], k[i + p]);
      vec s = scale[i + p];
      s = vec_max(vec_abs(v), pick(ok[p] & (ratio * s > vec_abs(v)), w->control.fade * s, s));
      scale[i + p] = s;
      smax[p] = vec_max(s, smax[p]);
    }
  }
  PARTS(p)((vec *)w->control.smax)[p] = smax[p];
  LANES(l) {
    double t = w->trial.acc[l] != 0 ? w->trial.tnew[l] : w->t[l];
    w->t[l] = t;
    at[l] = t == w->tstop[l] ? w->trial.acc[l] : 0.0;
  }
  return mask_of(at);
}

void ATVI_ISA_NAME(atvi_ode_refresh)(const atvi_ode *ode, atvi_ode_work *w, unsigned mask) {
  _Alignas(ATVI_ALIGN) double flag[ATVI_LANES];
  double *k = w->trial.k + w->n * ATVI_LANES;
  LANES(l) flag[l] = mask >> l & 1 ? 1.0 : 0.0;
  if (w->delay.n) atvi_ode_delay_middle(w, w->t, w->prog.one); /* from here on */
  atvi_ode_run(w, &ode->rhs, w->t, w->y, NULL, k, NULL);
  assign(w->n, flag, k, w->trial.k);
}

void ATVI_ISA_NAME(atvi_ode_put)(atvi_idx n, unsigned mask, const double *from, double *to) {
  _Alignas(ATVI_ALIGN) double flag[ATVI_LANES];
  LANES(l) flag[l] = mask >> l & 1 ? 1.0 : 0.0;
  assign(n, flag, from, to);
}

unsigned ATVI_ISA_NAME(atvi_ode_pass)(atvi_ode_work *w, int32_t seg, unsigned landed, double next,
                                      double *to) {
  _Alignas(ATVI_ALIGN) double flag[ATVI_LANES];
  LANES(l) flag[l] = w->seg[l] == seg && (landed >> l & 1) ? 1.0 : 0.0;
  LANES(l) w->seg[l] = flag[l] != 0 ? seg + 1 : w->seg[l];
  LANES(l) w->tstop[l] = flag[l] != 0 ? next : w->tstop[l];
  if (to) assign(w->n, flag, w->y, to);
  return mask_of(flag);
}

unsigned ATVI_ISA_NAME(atvi_ode_meet)(atvi_ode_work *w, const atvi_ode_record *r, unsigned landed,
                                      int32_t seg, const double *from) {
  _Alignas(ATVI_ALIGN) double flag[ATVI_LANES];
  LANES(l) flag[l] = r->seg[l] == seg && (landed >> l & 1) ? 1.0 : 0.0;
  if (from) {
    const vec *restrict fv = (const vec *)from;
    vec *restrict lam = (vec *)w->back.lam;
    veci mask[PER_ROW];
    PARTS(p) mask[p] = ((const vec *)flag)[p] != 0;
    for (atvi_idx i = 0; i < w->n * PER_ROW; i += PER_ROW)
      PARTS(p) lam[i + p] = pick(mask[p], lam[i + p] + fv[i + p], lam[i + p]);
  }
  return mask_of(flag);
}

/* Squared error, from the slopes if e is given (weights), else from w->err. */
ALWAYS void measure(atvi_ode_work *w, const double *e) {
  const atvi_idx size = w->n * PER_ROW;
  const vec *restrict y = (const vec *)w->y, *restrict ynew = (const vec *)w->trial.ynew,
                      *restrict err = (const vec *)w->trial.err;
  const vec *restrict scale = (const vec *)w->trial.scale, *restrict k = (const vec *)w->trial.k;
  const vec *hs = (const vec *)w->trial.hs, *smax = (const vec *)w->control.smax;
  const double rel = w->control.tol_rel, ratio = w->control.tol_abs / w->control.tol_rel,
               share = 1.0 / (double)w->n;
  const vec zero = {0};
  vec sum[PER_ROW], least[PER_ROW];
  PARTS(p) sum[p] = zero;
  PARTS(p) least[p] = FLOOR * smax[p];
  for (atvi_idx i = 0; i < size; i += PER_ROW) {
    PARTS(p) {
      vec d = err[i + p];
      if (e) d = e[0] * k[i + p];
#pragma GCC unroll 8
      for (int j = 1; e && j < ATVI_ODE_STAGES; j++) d += e[j] * k[j * size + i + p];
      if (e) d *= hs[p];
      vec v = ynew[i + p], a = vec_max(vec_abs(y[i + p]), vec_abs(v));
      vec s = vec_max(vec_max(scale[i + p], least[p]), a);
      vec q = d / vec_max(rel * (ratio * s + a), zero + TINY);
      /* 0 * v: an infinite state must not pass because its tolerance is infinite too */
      sum[p] += 0.0 * v;
      sum[p] += q * q;
    }
  }
  PARTS(p)((vec *)w->trial.e2)[p] = sum[p] * share;
}

void ATVI_ISA_NAME(atvi_ode_measure)(atvi_ode_work *w) { measure(w, NULL); }
void ATVI_ISA_NAME(atvi_ode_measure_slopes)(atvi_ode_work *w, const double *e) { measure(w, e); }

/* The rate at which the slope changes, from a short Euler step, says how long a step of this order may be. It
 * is a guess to the bold side; error control corrects it. Steps are never longer than the first segment. */
void ATVI_ISA_NAME(atvi_ode_first_step)(const atvi_ode *ode, atvi_ode_work *w) {
  const atvi_idx size = w->n * ATVI_LANES;
  const double *restrict y = w->y, *restrict k = w->trial.k;
  double *restrict y1 = w->trial.ynew, *restrict k1 = w->trial.k + size;
  double ymax[ATVI_LANES] = {0}, kmax[ATVI_LANES] = {0}, h0[ATVI_LANES], num[ATVI_LANES] = {0},
         den[ATVI_LANES] = {0};
  for (atvi_idx i = 0; i < size; i += ATVI_LANES) {
    LANES(l) ymax[l] = max2(fabs(y[i + l]), ymax[l]);
    LANES(l) kmax[l] = max2(fabs(k[i + l]), kmax[l]);
  }
  LANES(l) {
    double seg = w->tstop[l] - w->t[l];
    double h = 0.01 * ymax[l] / max2(kmax[l], TINY);
    h0[l] = max2(min2(h, seg), 1e-6 * seg);
    w->prog.ts[l] = w->t[l] + h0[l];
  }
  for (atvi_idx i = 0; i < size; i += ATVI_LANES) LANES(l) y1[i + l] = FMA(h0[l], k[i + l], y[i + l]);
  atvi_ode_run(w, &ode->rhs, w->prog.ts, y1, NULL, k1, NULL);
  for (atvi_idx i = 0; i < size; i += ATVI_LANES) {
    LANES(l) {
      double s = max2(max2(fabs(y[i + l]), fabs(y1[i + l])), max2(FLOOR * ymax[l], TINY));
      double d = (k1[i + l] - k[i + l]) / s, f = k[i + l] / s;
      num[l] = FMA(d, d, num[l]);
      den[l] = FMA(f, f, den[l]);
    }
  }
  LANES(l) {
    double seg = w->tstop[l] - w->t[l];
    double rate = sqrt(num[l] / max2(den[l], TINY)) / max2(h0[l], TINY);
    double h = w->control.first / max2(rate, TINY);
    bool finite = rate < (double)INFINITY;
    h = finite ? h : 0.001 * h0[l];
    w->h[l] = max2(min2(h, seg), 1e-12 * seg);
    w->control.grow[l] = 2 * GROW;
  }
}
