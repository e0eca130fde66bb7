/* SPDX-License-Identifier: MIT */
/* A layer for a few groups of draws: values, inverse, adjoints. Layouts are told in detail.h.
 *
 * Values and inverse go through the positions in the same order and leave the same record: position i's outputs need the
 * features before it, which are complete by then in either direction. So the inverse costs no more than the values.
 * Adjoints go backwards: when position i is done nothing more can reach the units of degree i, and when those are done
 * nothing more can reach z_{i-1}. */
#include "flow/dense.h"
#include "flow/spline.h"
#include <string.h>

extern const atvi_flow_kernels ATVI_ISA_NAME(atvi_flow_kernels);

enum { L = ATVI_LANES };

/* Units of degree i + 1, from the inputs z (with their leading 1). */
static void units_fwd(const atvi_flow_pass *p, atvi_idx i, const double *z, double *unit) {
  const atvi_flow *f = p->f;
  atvi_idx n = f->units[i];
  vec *v = (vec *)unit;
  memset(unit, 0, (size_t)(n * L) * sizeof *unit);
  times(n, i + 2, p->theta + f->unit_at[i], i + 2, (const vec *)z, v);
  for (atvi_idx j = 0; j < n * PER_ROW; j++) v[j] = vec_tanh(v[j]);
}

ALWAYS void group_run(const atvi_flow_pass *p, bool inverse, double *rec, double *v, double *ldj) {
  const atvi_flow *f = p->f;
  const atvi_idx d = f->shape.d;
  const int K = f->shape.bins;
  double *z = rec, *u = z + (1 + d) * L, *own = u + f->features * L;
  vec out[(3 * FLOW_MAX_BINS + 1) * PER_ROW], *l = (vec *)ldj;
  for (int j = 0; j < L; j++) z[j] = u[j] = 1;
  for (atvi_idx i = 0; i < d; i++, own += (2 * K + REC_ROWS) * L) {
    const atvi_idx cut = f->cut[i];
    vec *x = (vec *)(v + p->order[i] * L), *zi = (vec *)(z + (1 + i) * L);
    memset(out, 0, (size_t)(f->rows * PER_ROW) * sizeof *out);
    times(f->rows, cut, p->theta + f->out_at[i], cut, (const vec *)u, out);
    PARTS(h) {
      vec *r = (vec *)own + h, was = x[h];
      x[h] = inverse ? spline_inv(K, f->shape.box, was, out + h, r, l + h)
                     : spline_fwd(K, f->shape.box, was, out + h, r, l + h);
      zi[h] = inverse ? x[h] : was;
    }
    if (i + 1 == d) break;
    memcpy(u + cut * L, zi, L * sizeof *u);
    units_fwd(p, i, z, u + (cut + 1) * L);
  }
}

static void layer_fwd(const atvi_flow_pass *p) {
  for (atvi_idx g = 0; g < p->groups; g++)
    group_run(p, false, p->rec + g * p->f->rec_rows * L, p->v + g * p->f->shape.d * L, p->ldj + g * L);
}

static void layer_inv(const atvi_flow_pass *p) {
  for (atvi_idx g = 0; g < p->groups; g++)
    group_run(p, true, p->rec + g * p->f->rec_rows * L, p->v + g * p->f->shape.d * L, p->ldj + g * L);
}

/* Through the units of degree i + 1: their adjoints du become dpre, and reach dz[1 ..]. */
static void units_bwd(const atvi_flow_pass *p, atvi_idx i, const double *u, const double *du, double *dpre,
                      double *dz) {
  const atvi_flow *f = p->f;
  const vec *t = (const vec *)u, *dt = (const vec *)du;
  vec *to = (vec *)dpre;
  for (atvi_idx j = 0; j < f->units[i] * PER_ROW; j++) to[j] = dt[j] * (1 - t[j] * t[j]);
  times_t(i + 1, f->units[i], p->theta + f->unit_at[i] + 1, i + 2, to, (vec *)(dz + L));
}

ALWAYS void group_bwd(const atvi_flow_pass *p, bool inverse, atvi_idx g) {
  const atvi_flow *f = p->f;
  const atvi_idx d = f->shape.d;
  const int K = f->shape.bins, own_rows = 2 * K + REC_ROWS;
  const double *u = p->rec + (g * f->rec_rows + 1 + d) * L, *own = u + f->features * L;
  const vec *dl = (const vec *)(p->ldj + g * L);
  double *dpre = p->dpre + (g + 1) * f->shape.hidden * L; /* filled from its end */
  memset(p->du, 0, (size_t)(f->features * L) * sizeof *p->du);
  memset(p->dz, 0, (size_t)((1 + d) * L) * sizeof *p->dz);
  for (atvi_idx i = d - 1; i >= 0; i--) {
    const atvi_idx cut = f->cut[i];
    double *dout = p->dout + (g * d + i) * f->rows * L;
    vec *v = (vec *)(p->v + (g * d + p->order[i]) * L);
    const vec *r = (const vec *)(own + i * own_rows * L), *later = (const vec *)(p->dz + (1 + i) * L);
    PARTS(h) {
      if (inverse) v[h] += later[h];
      v[h] = spline_bwd(K, f->shape.box, inverse, v[h], dl[h], r + h, (vec *)dout + h);
      if (!inverse) v[h] += later[h];
    }
    if (i == 0) break;
    times_t(cut - 1, f->rows, p->theta + f->out_at[i] + 1, cut, (const vec *)dout, (vec *)(p->du + L));
    const atvi_idx skip = f->cut[i - 1]; /* where z_{i-1} stands among the features, its units after it */
    dpre -= f->units[i - 1] * L;
    units_bwd(p, i - 1, u + (skip + 1) * L, p->du + (skip + 1) * L, dpre, p->dz);
    for (int j = 0; j < L; j++) p->dz[i * L + j] += p->du[skip * L + j];
  }
}

static void layer_fwd_bwd(const atvi_flow_pass *p) {
  for (atvi_idx g = 0; g < p->groups; g++) group_bwd(p, false, g);
}

static void layer_inv_bwd(const atvi_flow_pass *p) {
  for (atvi_idx g = 0; g < p->groups; g++) group_bwd(p, true, g);
}

/* t[groups L][ld] = rows [groups][stride][L] with draws outermost */
static void turn(atvi_idx n, atvi_idx groups, const double *restrict rows, atvi_idx stride,
                 double *restrict t, atvi_idx ld) {
  for (atvi_idx g = 0; g < groups; g++, rows += stride * L, t += ld * L)
    for (atvi_idx i = 0; i < n; i++)
      for (int j = 0; j < L; j++) t[j * ld + i] = rows[i * L + j];
}

static void layer_grad(const atvi_flow_pass *p) {
  const atvi_flow *f = p->f;
  const atvi_idx d = f->shape.d, hidden = f->shape.hidden;
  turn(1 + d, p->groups, p->rec, f->rec_rows, p->zt, p->zt_ld);
  turn(f->features, p->groups, p->rec + (1 + d) * L, f->rec_rows, p->ut, p->ut_ld);
  const double *dpre = p->dpre + hidden * L;
  for (atvi_idx i = d - 1; i >= 0; i--) {
    outer(f->rows, f->cut[i], p->groups, p->dout + i * f->rows * L, d * f->rows, p->ut, p->ut_ld,
          p->dtheta + f->out_at[i]);
    dpre -= f->units[i] * L;
    outer(f->units[i], i + 2, p->groups, dpre, hidden, p->zt, p->zt_ld, p->dtheta + f->unit_at[i]);
  }
}

static void elementary(const double *x, double *e, double *l, double *t) {
  PARTS(h) {
    vec v = ((const vec *)x)[h];
    ((vec *)e)[h] = vec_exp(v);
    ((vec *)l)[h] = vec_log(vec_abs(v));
    ((vec *)t)[h] = vec_tanh(v);
  }
}

const atvi_flow_kernels ATVI_ISA_NAME(atvi_flow_kernels) = {layer_fwd,     layer_inv,  layer_fwd_bwd,
                                                            layer_inv_bwd, layer_grad, elementary};
