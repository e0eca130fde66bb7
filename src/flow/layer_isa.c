/* SPDX-License-Identifier: MIT */
/* A layer for a few groups of draws: values, inverse, adjoints. Layouts are described in detail.h.
 *
 * Values and inverse go through the positions in the same order and leave the same record: position i's
 * outputs need the features before it, which are complete by then in either direction. So the inverse costs
 * no more than the values. Adjoints go backwards: when position i is done nothing more can reach the units of
 * degree i, and when those are done nothing more can reach z_{i-1}. */
#include "flow/spline.h"
#include <string.h>

/* ---- small matrix products with draws in the lanes ---- */

/* Sums run in one order, whatever the number of draws. Blocks are as large as the registers allow and as even
 * as the rows permit. */

#if WIDTH == 64
enum { BLOCK = 8, COLS = 2 };
#elif WIDTH == 32
enum { BLOCK = 6, COLS = 2 };
#else
enum { BLOCK = 3, COLS = 3 };
#endif

/* out[i] += sum_j A[i si + j sj] in[j], i < n (a constant once inlined), j < m; in [m][L], out [n][L] */
ALWAYS void rows_block(int n, atvi_idx m, const double *A, atvi_idx si, atvi_idx sj, const vec *restrict in,
                       vec *restrict out) {
  vec sum[BLOCK][PER_ROW];
#pragma GCC unroll 8
  for (int i = 0; i < n; i++) PARTS(p) sum[i][p] = out[i * PER_ROW + p];
  for (atvi_idx j = 0; j < m; j++) {
    vec v[PER_ROW];
    PARTS(p) v[p] = in[j * PER_ROW + p];
#pragma GCC unroll 8
    for (int i = 0; i < n; i++) PARTS(p) sum[i][p] += A[i * si + j * sj] * v[p];
  }
#pragma GCC unroll 8
  for (int i = 0; i < n; i++) PARTS(p) out[i * PER_ROW + p] = sum[i][p];
}

/* The same for any n. */
ALWAYS void rows_all(atvi_idx n, atvi_idx m, const double *A, atvi_idx si, atvi_idx sj,
                     const vec *restrict in, vec *restrict out) {
  atvi_idx blocks = (n + BLOCK - 1) / BLOCK;
  for (atvi_idx at = 0; blocks > 0; blocks--) {
    int size = (int)((n - at + blocks - 1) / blocks);
    const double *a = A + at * si;
    vec *to = out + at * PER_ROW;
    switch (size) {
    case 1: rows_block(1, m, a, si, sj, in, to); break;
    case 2: rows_block(2, m, a, si, sj, in, to); break;
    case 3: rows_block(3, m, a, si, sj, in, to); break;
#if WIDTH > 16
    case 4: rows_block(4, m, a, si, sj, in, to); break;
    case 5: rows_block(5, m, a, si, sj, in, to); break;
    case 6: rows_block(6, m, a, si, sj, in, to); break;
#endif
#if WIDTH > 32
    case 7: rows_block(7, m, a, si, sj, in, to); break;
    case 8: rows_block(8, m, a, si, sj, in, to); break;
#endif
    }
    at += size;
  }
}

/* out += A in, A [n][ld] */
static ATVI_UNUSED void times(atvi_idx n, atvi_idx m, const double *A, atvi_idx ld, const vec *restrict in,
                              vec *restrict out) {
  rows_all(n, m, A, ld, 1, in, out);
}

/* out += A^T in, A [m][ld], out [n][L] */
static ATVI_UNUSED void times_t(atvi_idx n, atvi_idx m, const double *A, atvi_idx ld, const vec *restrict in,
                                vec *restrict out) {
  rows_all(n, m, A, 1, ld, in, out);
}

/* to[m] += first m of v[c], c vectors */
ALWAYS void add_some(int c, atvi_idx m, const vec *v, double *to) {
  for (int j = 0; j < c; j++, to += PER_VEC, m -= PER_VEC) {
    if (m >= PER_VEC) {
      *(vec_any *)to += v[j];
    } else {
      for (atvi_idx i = 0; i < m; i++) to[i] += v[j][i];
    }
  }
}

/* G[i][j] += sum_b d[i][b] t[b][j] for n rows (a constant once inlined) and c vectors of columns, m of them
 * real. Draw b is lane b % L of group b / L: d [groups][ds][L]; t [groups L][ld] has draws outermost. */
ALWAYS void outer_block(int n, int c, atvi_idx m, atvi_idx groups, const double *restrict d, atvi_idx ds,
                        const double *restrict t, atvi_idx ld, double *restrict G, atvi_idx ldg) {
  vec sum[BLOCK][COLS];
#pragma GCC unroll 8
  for (int i = 0; i < n; i++)
    for (int j = 0; j < c; j++) sum[i][j] = (vec){0};
  for (atvi_idx g = 0; g < groups; g++, d += ds * ATVI_LANES) {
    for (int l = 0; l < ATVI_LANES; l++, t += ld) {
      vec v[COLS];
#pragma GCC unroll 3
      for (int j = 0; j < c; j++) v[j] = ((const vec *)t)[j];
#pragma GCC unroll 8
      for (int i = 0; i < n; i++)
#pragma GCC unroll 3
        for (int j = 0; j < c; j++) sum[i][j] += d[i * ATVI_LANES + l] * v[j];
    }
  }
  for (int i = 0; i < n; i++) add_some(c, m, sum[i], G + i * ldg);
}

ALWAYS void outer_cols(int n, atvi_idx m, atvi_idx groups, const double *d, atvi_idx ds, const double *t,
                       atvi_idx ld, double *G, atvi_idx ldg) {
  for (; m > 0; m -= COLS * PER_VEC, t += COLS * PER_VEC, G += COLS * PER_VEC) {
    if (m > (COLS - 1) * PER_VEC) {
      outer_block(n, COLS, m, groups, d, ds, t, ld, G, ldg);
#if WIDTH == 16
    } else if (m > PER_VEC) {
      outer_block(n, 2, m, groups, d, ds, t, ld, G, ldg);
#endif
    } else {
      outer_block(n, 1, m, groups, d, ds, t, ld, G, ldg);
    }
  }
}

/* G[n][m] += d t for any n and m: the gradient of weights whose outputs' adjoints are d and whose inputs are
 * t. */
static ATVI_UNUSED void outer(atvi_idx n, atvi_idx m, atvi_idx groups, const double *d, atvi_idx ds,
                              const double *t, atvi_idx ld, double *G) {
  atvi_idx blocks = (n + BLOCK - 1) / BLOCK;
  for (atvi_idx at = 0; blocks > 0; blocks--) {
    int size = (int)((n - at + blocks - 1) / blocks);
    const double *a = d + at * ATVI_LANES;
    double *to = G + at * m;
    switch (size) {
    case 1: outer_cols(1, m, groups, a, ds, t, ld, to, m); break;
    case 2: outer_cols(2, m, groups, a, ds, t, ld, to, m); break;
    case 3: outer_cols(3, m, groups, a, ds, t, ld, to, m); break;
#if WIDTH > 16
    case 4: outer_cols(4, m, groups, a, ds, t, ld, to, m); break;
    case 5: outer_cols(5, m, groups, a, ds, t, ld, to, m); break;
    case 6: outer_cols(6, m, groups, a, ds, t, ld, to, m); break;
#endif
#if WIDTH > 32
    case 7: outer_cols(7, m, groups, a, ds, t, ld, to, m); break;
    case 8: outer_cols(8, m, groups, a, ds, t, ld, to, m); break;
#endif
    }
    at += size;
  }
}

/* ---- the layer ---- */

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
