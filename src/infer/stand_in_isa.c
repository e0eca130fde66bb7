/* SPDX-License-Identifier: MIT */
/* Kernels of stand_in.c, ATVI_LANES points at a time: all terms, a polynomial and its gradient, and the
 * adjoint of both. */
#include "infer/stand_in.h"
#include <math.h>

enum {
  L = ATVI_LANES,
  BLOCK = 4 /* memory: rows of a gradient that stay in registers */
};

/* h_1 = y, sqrt(k + 1) h_k+1 = y h_k - sqrt(k) h_k-1. */
void ATVI_ISA_NAME(atvi_infer_stand_in_expand)(const atvi_stand_in_terms *s, const double *restrict y,
                                               double *restrict h, double *restrict term) {
  const atvi_idx row = s->d * L;
  for (atvi_idx i = 0; i < row; i++) h[i] = y[i];
  for (int k = 1; k < s->degree; k++) {
    double a = 1 / sqrt(k + 1), b = sqrt(k);
    for (atvi_idx i = 0; i < row; i++)
      h[k * row + i] = a * (y[i] * h[(k - 1) * row + i] - b * (k > 1 ? h[(k - 2) * row + i] : 1));
  }
  for (int l = 0; l < L; l++) term[l] = 1;
  for (atvi_idx t = 1; t < s->n; t++) {
    const double *from = term + s->parent[t] * L, *by = h + (s->power[t] - 1) * row + s->coord[t] * L;
    for (int l = 0; l < L; l++) term[t * L + l] = from[l] * by[l];
  }
}

/* Rows of the gradient in blocks that stay in registers. */
static void gradient_rows(const atvi_stand_in_terms *s, const double *restrict slope,
                          const double *restrict term, atvi_idx first, double *restrict dy) {
  double sum[BLOCK][L] = {{0}};
  for (atvi_idx t = 0; t < s->n_inner; t++) {
    const double *by = slope + t * s->d + first, *from = term + t * L;
    for (int j = 0; j < BLOCK; j++)
      for (int l = 0; l < L; l++) sum[j][l] += by[j] * from[l];
  }
  for (int j = 0; j < BLOCK; j++)
    for (int l = 0; l < L; l++) dy[(first + j) * L + l] = sum[j][l];
}

static void gradient_row(const atvi_stand_in_terms *s, const double *restrict slope,
                         const double *restrict term, atvi_idx j, double *restrict dy) {
  double sum[L] = {0};
  for (atvi_idx t = 0; t < s->n_inner; t++)
    for (int l = 0; l < L; l++) sum[l] += slope[t * s->d + j] * term[t * L + l];
  for (int l = 0; l < L; l++) dy[j * L + l] = sum[l];
}

void ATVI_ISA_NAME(atvi_infer_stand_in_sum)(const atvi_stand_in_terms *s, const double *restrict coef,
                                            const double *restrict slope, const double *restrict term,
                                            double *restrict value, double *restrict dy) {
  double sum[L] = {0};
  atvi_idx j = 0;
  for (atvi_idx t = 0; t < s->n; t++)
    for (int l = 0; l < L; l++) sum[l] += coef[t] * term[t * L + l];
  for (int l = 0; l < L; l++) value[l] = sum[l];
  if (!dy) return;
  for (; j + BLOCK <= s->d; j += BLOCK) gradient_rows(s, slope, term, j, dy);
  for (; j < s->d; j++) gradient_row(s, slope, term, j, dy);
}

void ATVI_ISA_NAME(atvi_infer_stand_in_add)(const atvi_stand_in_terms *s, const double *restrict value,
                                            const double *restrict dy, const double *restrict term,
                                            double *restrict sum) {
  for (atvi_idx t = 0; t < s->n; t++) {
    double to[L];
    for (int l = 0; l < L; l++) to[l] = sum[t * L + l] + value[l] * term[t * L + l];
    for (int k = s->down[t]; k < s->down[t + 1]; k++) {
      const double by = s->down_root[k], *g = dy + s->down_coord[k] * L, *from = term + s->down_term[k] * L;
      for (int l = 0; l < L; l++) to[l] += by * g[l] * from[l];
    }
    for (int l = 0; l < L; l++) sum[t * L + l] = to[l];
  }
}
