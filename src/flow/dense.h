/* SPDX-License-Identifier: MIT */
/* Small matrix products with draws in the lanes, for *_isa.c of this folder only. Sums run in one order, whatever the
 * number of draws. Blocks are as large as the registers allow and as even as the rows permit. */
#ifndef ATVI_FLOW_DENSE_H
#define ATVI_FLOW_DENSE_H

#include "math/vec.h"

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

/* G[n][m] += d t for any n and m: the gradient of weights whose outputs' adjoints are d and whose inputs are t. */
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

#endif
