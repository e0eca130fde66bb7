/* SPDX-License-Identifier: MIT */
/* Correlations over parameters, and products of matrices with a group of points; inside of src/gp.
 *
 * Coordinates are scaled: u_j = x_j * atvi_gp_scale(kind, l_j), a_j = |u_j - u'_j|, and k = prod_j f(a_j):
 *
 *   exponential  e^-a        matern32  (1 + a) e^-a        matern52  (1 + a + a^2 / 3) e^-a        squared  e^-a^2
 *
 * All functions exist per instruction set (atvi_gp_table). No allocation, no failure. */
#ifndef ATVI_GP_KERNEL_H
#define ATVI_GP_KERNEL_H

#include "core/compiler.h"
#include "gp/emulator.h"

enum {
  ATVI_GP_PANEL = 12, /* rows that a product computes at once */
  ATVI_GP_PAD = 8,    /* rows of correlations are padded to a multiple of it */
};

double atvi_gp_scale(atvi_em_kernel kind, double length);

typedef struct {
  /* out[count], padded: correlation of u[d] with the columns of ut[d][ld]. out and the rows of ut are
   * aligned. */
  void (*row)(atvi_em_kernel kind, atvi_idx d, atvi_idx ld, atvi_idx count, const double *u, const double *ut,
              double *out);
  /* grad[j] += sum over count columns of weight * dk / d log l_j. */
  void (*row_grad)(atvi_em_kernel kind, atvi_idx d, atvi_idx ld, atvi_idx count, const double *u,
                   const double *ut, const double *weight, double *grad);
  /* The first cols points of a group are computed, and perhaps some more. k[n][ATVI_EM_GROUP]: correlation of
   * u[n][d] with the points p[d][ATVI_EM_GROUP]. */
  void (*points)(atvi_em_kernel kind, atvi_idx n, atvi_idx d, int cols, const double *u, const double *p,
                 double *k);
  /* p_bar[d][ATVI_EM_GROUP], overwritten, from k and k_bar[n][ATVI_EM_GROUP]. */
  void (*points_vjp)(atvi_em_kernel kind, atvi_idx n, atvi_idx d, int cols, const double *u, const double *p,
                     const double *k, const double *k_bar, double *p_bar);
  /* c[ATVI_GP_PANEL][ATVI_EM_GROUP] (+)= a' b: a[len][ATVI_GP_PANEL], b[len][ATVI_EM_GROUP]. Sums run over
   * len in order. */
  void (*panel)(atvi_idx len, int cols, const double *a, const double *b, bool add, double *c);
  /* The same with the transpose: c (+)= the sum over blocks a[ATVI_GP_PANEL][ATVI_GP_PANEL] of a b, one block for each
   * ATVI_GP_PANEL of the rows b[rows][ATVI_EM_GROUP]. The second block is `stride` numbers after the first, and each later one
   * is farther by `growth` from the one before. Sums run over rows in order. */
  void (*across)(atvi_idx rows, int cols, const double *a, atvi_idx stride, atvi_idx growth, const double *b,
                 bool add, double *c);
} atvi_gp_table;

extern const atvi_gp_table atvi_gp_table_base;
#ifdef ATVI_HAVE_X86_ISA
extern const atvi_gp_table atvi_gp_table_avx2;
extern const atvi_gp_table atvi_gp_table_avx512;
#endif
const atvi_gp_table *atvi_gp_best(void);

/* The same by the C library, one pair at a time, as an oracle. */
double atvi_gp_corr_ref(atvi_em_kernel kind, atvi_idx d, const double *u, const double *v);

#endif
