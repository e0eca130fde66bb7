/* SPDX-License-Identifier: MIT */
/* The kind of kernel is constant in every loop: each entry point below is four loops. */
#include "gp/emulator_detail.h"
#include "math/vec.h"

/* a times the sign of b; 0 if b is 0. */
ALWAYS vec vec_signed(vec a, vec b) { return (vec)((b != 0) & ((veci)a ^ ((veci)b & INT64_MIN))); }

#define EACH_KIND(kind, call)                                                                                \
  switch (kind) {                                                                                            \
  case ATVI_EM_EXPONENTIAL: call(ATVI_EM_EXPONENTIAL); break;                                                \
  case ATVI_EM_MATERN32: call(ATVI_EM_MATERN32); break;                                                      \
  case ATVI_EM_MATERN52: call(ATVI_EM_MATERN52); break;                                                      \
  case ATVI_EM_SQUARED: call(ATVI_EM_SQUARED); break;                                                        \
  }

/* One more coordinate. */
ALWAYS void gather(atvi_em_kernel kind, vec s, vec *sum, vec *factor) {
  vec a = vec_abs(s);
  if (kind == ATVI_EM_SQUARED) a = s * s;
  *sum += a;
  if (kind == ATVI_EM_MATERN32) *factor *= 1 + a;
  if (kind == ATVI_EM_MATERN52) *factor *= 1 + a * (1 + a * (1.0 / 3));
}

ALWAYS vec finish(atvi_em_kernel kind, vec sum, vec factor) {
  vec e = vec_exp(-sum);
  if (kind == ATVI_EM_MATERN32 || kind == ATVI_EM_MATERN52) e *= factor;
  return e;
}

/* t * d log k / du at s = u - u'. */
ALWAYS vec slope(atvi_em_kernel kind, vec t, vec s) {
  vec a = vec_abs(s);
  if (kind == ATVI_EM_MATERN32) return -t * s / (1 + a);
  if (kind == ATVI_EM_MATERN52) return -t * s * (1 + a) / (3 + a * (3 + a));
  if (kind == ATVI_EM_SQUARED) return -2 * t * s;
  return -vec_signed(t, s);
}

/* d log k / d log l, for one coordinate: minus s times the slope. */
ALWAYS vec stretch(atvi_em_kernel kind, vec s) {
  vec a = vec_abs(s);
  if (kind == ATVI_EM_MATERN32) return s * s / (1 + a);
  if (kind == ATVI_EM_MATERN52) return s * s * (1 + a) / (3 + a * (3 + a));
  if (kind == ATVI_EM_SQUARED) return 2 * s * s;
  return a;
}

ALWAYS vec row_at(atvi_em_kernel kind, atvi_idx d, atvi_idx ld, atvi_idx i, const double *restrict u,
                  const double *restrict ut) {
  vec sum = vec_of(0), factor = vec_of(1);
  for (atvi_idx j = 0; j < d; j++) gather(kind, *(const vec *)(ut + j * ld + i) - u[j], &sum, &factor);
  return finish(kind, sum, factor);
}

ALWAYS void row_of(atvi_em_kernel kind, atvi_idx d, atvi_idx ld, atvi_idx count, const double *restrict u,
                   const double *restrict ut, double *restrict out) {
  for (atvi_idx i = 0; i < count; i += PER_VEC) *(vec *)(out + i) = row_at(kind, d, ld, i, u, ut);
}

static void row(atvi_em_kernel kind, atvi_idx d, atvi_idx ld, atvi_idx count, const double *u,
                const double *ut, double *out){
#define ROW(k) row_of(k, d, ld, count, u, ut, out)
    EACH_KIND(kind, ROW)}

ALWAYS
    void row_grad_of(atvi_em_kernel kind, atvi_idx d, atvi_idx ld, atvi_idx count, const double *restrict u,
                     const double *restrict ut, const double *restrict weight, double *restrict grad) {
  enum { BLOCK = 16 }; /* vectors whose weights are kept while coordinates pass */
  for (atvi_idx i0 = 0; i0 < count; i0 += BLOCK * PER_VEC) {
    vec w[BLOCK];
    atvi_idx n = (count - i0 + PER_VEC - 1) / PER_VEC;
    if (n > BLOCK) n = BLOCK;
    for (atvi_idx b = 0; b < n; b++) {
      double part[PER_VEC];
      for (int l = 0; l < PER_VEC; l++) {
        atvi_idx i = i0 + b * PER_VEC + l;
        part[l] = i < count ? weight[i] : 0;
      }
      vec t = vec_of(0);
      for (int l = 0; l < PER_VEC; l++) t[l] = part[l];
      w[b] = t * row_at(kind, d, ld, i0 + b * PER_VEC, u, ut);
    }
    for (atvi_idx j = 0; j < d; j++) {
      vec s = vec_of(0);
      for (atvi_idx b = 0; b < n; b++)
        s += w[b] * stretch(kind, *(const vec *)(ut + j * ld + i0 + b * PER_VEC) - u[j]);
      for (int l = 0; l < PER_VEC; l++) grad[j] += s[l];
    }
  }
}

static void row_grad(atvi_em_kernel kind, atvi_idx d, atvi_idx ld, atvi_idx count, const double *u,
                     const double *ut, const double *weight, double *grad) {
#define ROW_GRAD(k) row_grad_of(k, d, ld, count, u, ut, weight, grad)
  EACH_KIND(kind, ROW_GRAD)
}

enum { G = ATVI_EM_GROUP, PAIR = 2 }; /* PAIR vectors at once hide the latency of exp */

ALWAYS void points_of(atvi_em_kernel kind, atvi_idx n, atvi_idx d, int cols, const double *restrict u,
                      const double *restrict p, double *restrict k) {
  for (atvi_idx i = 0; i < n; i++)
    for (int c = 0; c * PER_VEC < cols; c += PAIR) {
      vec sum[PAIR], factor[PAIR];
      for (int q = 0; q < PAIR; q++) sum[q] = vec_of(0), factor[q] = vec_of(1);
      for (atvi_idx j = 0; j < d; j++)
        for (int q = 0; q < PAIR; q++)
          gather(kind, *(const vec *)(p + j * G + (c + q) * PER_VEC) - u[i * d + j], &sum[q], &factor[q]);
      for (int q = 0; q < PAIR; q++)
        *(vec *)(k + i * G + (c + q) * PER_VEC) = finish(kind, sum[q], factor[q]);
    }
}

static void points(atvi_em_kernel kind, atvi_idx n, atvi_idx d, int cols, const double *u, const double *p,
                   double *k){
#define POINTS(kd) points_of(kd, n, d, cols, u, p, k)
    EACH_KIND(kind, POINTS)}

ALWAYS void points_vjp_of(atvi_em_kernel kind, atvi_idx n, atvi_idx d, int cols, const double *restrict u,
                          const double *restrict p, const double *restrict k, const double *restrict k_bar,
                          double *restrict p_bar) {
  for (atvi_idx j = 0; j < d; j++)
    for (int c = 0; c * PER_VEC < cols; c++) *(vec *)(p_bar + j * G + c * PER_VEC) = vec_of(0);
  for (atvi_idx i = 0; i < n; i++)
    for (int c = 0; c * PER_VEC < cols; c++) {
      vec t = *(const vec *)(k + i * G + c * PER_VEC) * *(const vec *)(k_bar + i * G + c * PER_VEC);
      for (atvi_idx j = 0; j < d; j++) {
        vec s = *(const vec *)(p + j * G + c * PER_VEC) - u[i * d + j];
        *(vec *)(p_bar + j * G + c * PER_VEC) += slope(kind, t, s);
      }
    }
}

static void points_vjp(atvi_em_kernel kind, atvi_idx n, atvi_idx d, int cols, const double *u,
                       const double *p, const double *k, const double *k_bar, double *p_bar) {
#define POINTS_VJP(kd) points_vjp_of(kd, n, d, cols, u, p, k, k_bar, p_bar)
  EACH_KIND(kind, POINTS_VJP)
}

/* Rows and vectors of a tile: as many accumulators as registers, except those for b and one for a. */
#if defined __AVX512F__
enum { ROWS = 12, COLS = 2 };
#else
enum { ROWS = 6, COLS = 2 };
#endif

/* The tile of c that begins at row r0 and vector c0. */
ALWAYS void tile_load(vec acc[ROWS][COLS], bool add, const double *restrict c) {
  for (int r = 0; r < ROWS; r++)
    for (int q = 0; q < COLS; q++) acc[r][q] = add ? *(const vec *)(c + r * G + q * PER_VEC) : (vec){0};
}

ALWAYS void tile_store(vec acc[ROWS][COLS], double *restrict c) {
  for (int r = 0; r < ROWS; r++)
    for (int q = 0; q < COLS; q++) *(vec *)(c + r * G + q * PER_VEC) = acc[r][q];
}

/* acc += (column of a) (row of b); neighbours in the column are `apart` numbers apart. */
ALWAYS void tile_add(vec acc[ROWS][COLS], const double *restrict a, int apart, const double *restrict b) {
  vec bl[COLS];
  for (int q = 0; q < COLS; q++) bl[q] = *(const vec *)(b + q * PER_VEC);
  for (int r = 0; r < ROWS; r++)
    for (int q = 0; q < COLS; q++) acc[r][q] += a[r * apart] * bl[q];
}

static void panel(atvi_idx len, int cols, const double *restrict a, const double *restrict b, bool add,
                  double *restrict c) {
  for (int r0 = 0; r0 < ATVI_GP_PANEL; r0 += ROWS)
    for (int c0 = 0; c0 < cols; c0 += COLS * PER_VEC) {
      vec acc[ROWS][COLS];
      tile_load(acc, add, c + r0 * G + c0);
      for (atvi_idx l = 0; l < len; l++) tile_add(acc, a + l * ATVI_GP_PANEL + r0, 1, b + l * G + c0);
      tile_store(acc, c + r0 * G + c0);
    }
}

static void across(atvi_idx rows, int cols, const double *restrict a, atvi_idx stride, atvi_idx growth,
                   const double *restrict b, bool add, double *restrict c) {
  for (int r0 = 0; r0 < ATVI_GP_PANEL; r0 += ROWS)
    for (int c0 = 0; c0 < cols; c0 += COLS * PER_VEC) {
      const double *block = a + r0 * ATVI_GP_PANEL;
      atvi_idx next = stride;
      vec acc[ROWS][COLS];
      tile_load(acc, add, c + r0 * G + c0);
      for (atvi_idx l0 = 0; l0 < rows; l0 += ATVI_GP_PANEL, block += next, next += growth) {
        int n = rows - l0 < ATVI_GP_PANEL ? (int)(rows - l0) : ATVI_GP_PANEL;
        for (int l = 0; l < n; l++) tile_add(acc, block + l, ATVI_GP_PANEL, b + (l0 + l) * G + c0);
      }
      tile_store(acc, c + r0 * G + c0);
    }
}

const atvi_gp_table ATVI_ISA_NAME(atvi_gp_table) = {row, row_grad, points, points_vjp, panel, across};
