/* SPDX-License-Identifier: MIT */
/* Inside of the emulator; only for src/gp/emulator*.c and kernel_isa.c. */
#ifndef ATVI_GP_EMULATOR_DETAIL_H
#define ATVI_GP_EMULATOR_DETAIL_H

#include "core/compiler.h"
#include "gp/emulator.h"

/* ---- correlations over parameters, and products of matrices with a group of points ----
 *
 * Coordinates are scaled: u_j = x_j * atvi_gp_scale(kind, l_j), a_j = |u_j - u'_j|, and k = prod_j f(a_j):
 *
 *   exponential  e^-a        matern32  (1 + a) e^-a        matern52  (1 + a + a^2 / 3) e^-a        squared  e^-a^2
 *
 * All functions exist per instruction set (atvi_gp_table). No allocation, no failure. */
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
  /* The same with the transpose: c (+)= the sum over blocks a[ATVI_GP_PANEL][ATVI_GP_PANEL] of a b, one block
   * for each ATVI_GP_PANEL of the rows b[rows][ATVI_EM_GROUP]. The second block is `stride` numbers after the
   * first, and each later one is farther by `growth` from the one before. Sums run over rows in order. */
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

/* ---- likelihood of the runs ---- */

/* Values are unknowns: log lengths [d], log nugget, log time length; d + 2 in all. */
typedef struct {
  /* Runs in use, inputs, outputs; ld: n padded. */
  atvi_idx n, d, m, ld;
  atvi_em_kernel kernel;
  const atvi_gp_table *table;
  /* Borrowed. */
  const atvi_em_runs *runs;
  /* [m] borrowed. */
  const double *mean;
  /* [n] which runs, borrowed; NULL: all. */
  const atvi_idx *row;
  /* Products of outputs were summed over time in advance. */
  bool squares;
  /* Step of the regular grid, with squares. */
  double step;
  /* [n][ld] lower; see emulator_lik.c. */
  double *dd, *yy;
  /* [n] outputs at the first and the last time. */
  double *first, *last;
} atvi_em_lik;

typedef struct atvi_em_scratch atvi_em_scratch;

/* mean, time: [m]; row[n] or NULL; all borrowed, as is runs. Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_gp_em_lik_new(atvi_ctx *ctx, const atvi_em_runs *runs, const double *mean,
                                            atvi_em_kernel kernel, atvi_idx n, const atvi_idx *row,
                                            atvi_em_lik **out);
void atvi_gp_em_lik_free(atvi_ctx *ctx, atvi_em_lik *lik);
/* Scratch of one thread. */
ATVI_CHECKED atvi_status atvi_gp_em_scratch_new(atvi_ctx *ctx, const atvi_em_lik *lik, atvi_em_scratch **out);
void atvi_gp_em_scratch_free(atvi_ctx *ctx, atvi_em_scratch *s);
/* Log likelihood at par[d + 2]; *sill NaN: the best one is used and stored there. grad[d + 3] (the last by
 * log sill) or NULL. NaN if K is not positive definite. */
double atvi_gp_em_lik_eval(const atvi_em_lik *lik, atvi_em_scratch *s, const double *par, double *sill,
                           double *grad);

/* ---- search ---- */

typedef struct {
  double log_lik, sill;
  int starts, evals, agreed;
} atvi_em_found;

/* par[d + 2]: on input the held values, NaN if free; on return all of them. Errors: ENOMEM, ESTOP, EINVAL (no
 * start can be evaluated). */
ATVI_CHECKED atvi_status atvi_gp_em_search(atvi_ctx *ctx, const atvi_em_runs *runs, const double *mean,
                                           const atvi_em_opts *opts, double *par, atvi_em_found *out);

/* ---- the emulator ---- */

/* a[rows][cols] in panels of ATVI_GP_PANEL rows: panel p is [length][ATVI_GP_PANEL], missing rows are 0.
 * A triangle stores only the columns that are not 0. */
typedef struct {
  atvi_idx rows, cols;
  /* A lower triangle, which is square. */
  bool lower;
  double *data;
} atvi_em_packed;

struct atvi_emulator {
  atvi_ctx *ctx;
  /* q: columns of coefficients, m without a basis. */
  atvi_idx n, d, m, q;
  atvi_em_kernel kernel;
  const atvi_gp_table *table;
  atvi_em_info info;
  uint64_t runs_hash, opts_hash;
  double *length, *scale; /* [d] */
  /* [n][d] scaled runs. */
  double *u;
  double *mean; /* [m] */
  /* [n] of K^-1. */
  double *inv_diag;
  /* [q][m], orthonormal rows; NULL: none. */
  double *basis;
  /* (K^-1 Y)' [q][n]. */
  atvi_em_packed w;
  /* L^-1, K = L L'. */
  atvi_em_packed root;
};

/* Doubles before panel p. */
size_t atvi_gp_em_panel_at(const atvi_em_packed *a, atvi_idx p);
/* Doubles in all: the panels, and room to read the last columns of the last one as a whole block. */
size_t atvi_gp_em_packed_size(const atvi_em_packed *a);
/* Fills from a plain matrix: element (i, j) is at src[i * ld_i + j * ld_j]. */
void atvi_gp_em_pack(atvi_em_packed *a, const double *src, atvi_idx ld_i, atvi_idx ld_j);
double atvi_gp_em_packed_get(const atvi_em_packed *a, atvi_idx i, atvi_idx j);
/* c[rows][ATVI_EM_GROUP] (+)= a b[cols][ATVI_EM_GROUP]. spill: one panel's room. */
void atvi_gp_em_packed_mul(const atvi_gp_table *table, const atvi_em_packed *a, int cols, const double *b,
                           bool add, double *c, double *spill);
/* c[cols][ATVI_EM_GROUP] (+)= a' b[rows][ATVI_EM_GROUP], likewise. */
void atvi_gp_em_packed_mul_t(const atvi_gp_table *table, const atvi_em_packed *a, int cols, const double *b,
                             bool add, double *c, double *spill);

/* Checks shapes and numbers. Errors: EINVAL, EDATA. */
ATVI_CHECKED atvi_status atvi_gp_em_check(atvi_ctx *ctx, const atvi_em_runs *runs, const atvi_em_opts *opts);
uint64_t atvi_gp_em_hash_runs(const atvi_em_runs *runs);
uint64_t atvi_gp_em_hash_opts(const atvi_em_opts *opts, atvi_idx d);

/* One thread's scratch of the evaluation, as used by the evaluation and its oracle. */

struct atvi_em_work {
  atvi_ctx *ctx;
  atvi_idx n_row;
  /* Points of a group that are computed. */
  int cols;
  /* Rows of W': those of the emulator, or a copy. */
  atvi_em_packed w;
  /* Rows of B', with a basis. */
  atvi_em_packed base;
  double *mean; /* [n_row] */
  /* [d][ATVI_EM_GROUP] scaled points. */
  double *p, *p_bar;
  double *k, *v, *k_bar; /* [n][ATVI_EM_GROUP] */
  /* [q][ATVI_EM_GROUP] with a basis. */
  double *coef;
  double *spill; /* [ATVI_GP_PANEL][ATVI_EM_GROUP] */
};

#endif
