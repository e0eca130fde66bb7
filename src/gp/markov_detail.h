/* SPDX-License-Identifier: MIT */
/* Inside of processes in time; see markov_lanes.h for the formulas.
 *
 * A path is a list of rows in time order and the steps between them. There are two: the rows with a value
 * (enough for a density) and all rows. Steps of equal length share one entry of the table of transitions, so
 * that a regular grid has a table of one. */
#ifndef ATVI_GP_MARKOV_DETAIL_H
#define ATVI_GP_MARKOV_DETAIL_H

#include "gp/markov.h"

typedef struct {
  atvi_idx n;
  atvi_idx *row; /* [n] */
  /* [n] entry of the table for the step that leads to this row; the first is not used. */
  atvi_idx *step;
} atvi_markov_path;

struct atvi_markov {
  atvi_ctx *ctx;
  atvi_idx n, n_dt;
  int n_term, n_state;
  /* Only exponential and white terms. */
  bool diagonal;
  atvi_gp_kind kind[ATVI_MARKOV_TERMS];
  /* First state of a term. */
  int first[ATVI_MARKOV_TERMS];
  /* Offset of its parts in an entry of the table. */
  int unit_at[ATVI_MARKOV_TERMS];
  /* 1: the value of a process; 0: one of its derivatives. */
  double head[ATVI_MARKOV_STATES];
  /* Numbers per lane in an entry of the table. */
  int entry;
  bool *used; /* [n] */
  /* [n_dt] lengths of steps. */
  double *dt;
  atvi_markov_path value, all;
};

/* Scratch of the kernels: [..][ATVI_LANES] at most. */
struct atvi_markov_work {
  atvi_ctx *ctx;
  double *table; /* [n_dt][entry] */
  double *tape;  /* [n][tape] */
  /* [2 n] normals of draws: noise of the values, and of the output. */
  double *white;
  /* [n][n_state] normals of draws. */
  double *state;
  /* [n] residuals of a draw. */
  double *diff;
  /* [n] of the states that are values. */
  double *sum;
  double *mean; /* [n_term][n] */
  /* [n_term][n] values of each term in the last draw; white: 0. */
  double *part;
};

static inline int atvi_gp_markov_order(atvi_gp_kind k) { return (int)k; } /* states of a term */

typedef void atvi_markov_density_fn(const atvi_markov *m, atvi_markov_work *w, const double *par,
                                    const double *resid, double *log_density, double *par_bar,
                                    double *resid_bar);
typedef void atvi_markov_smooth_fn(const atvi_markov *m, atvi_markov_work *w, const double *par,
                                   const double *resid, double *mean, double *var, double *var_term,
                                   double *loo_mean, double *loo_var);
/* Values of all processes except white ones, w->part, and their sum, w->sum, from w->state. */
typedef void atvi_markov_sample_fn(const atvi_markov *m, atvi_markov_work *w, const double *par);
atvi_markov_density_fn atvi_gp_markov_density_base, atvi_gp_markov_density_avx2,
    atvi_gp_markov_density_avx512;
atvi_markov_smooth_fn atvi_gp_markov_back_base, atvi_gp_markov_back_avx2, atvi_gp_markov_back_avx512;
atvi_markov_sample_fn atvi_gp_markov_sample_base, atvi_gp_markov_sample_avx2, atvi_gp_markov_sample_avx512;

#endif
