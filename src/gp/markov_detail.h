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
  atvi_idx *row;  /* [n] */
  atvi_idx *step; /* [n] entry of the table for the step that leads to this row; the first is not used */
} atvi_markov_path;

struct atvi_markov {
  atvi_ctx *ctx;
  atvi_idx n, n_dt;
  int n_term, n_state;
  bool diagonal; /* only exponential and white terms */
  atvi_gp_kind kind[ATVI_MARKOV_TERMS];
  int first[ATVI_MARKOV_TERMS];    /* first state of a term */
  int unit_at[ATVI_MARKOV_TERMS];  /* offset of its parts in an entry of the table */
  double head[ATVI_MARKOV_STATES]; /* 1: the value of a process; 0: one of its derivatives */
  int entry;                       /* numbers per lane in an entry of the table */
  bool *used;                      /* [n] */
  double *dt;                      /* [n_dt] lengths of steps */
  atvi_markov_path value, all;
};

/* Scratch of the kernels: [..][ATVI_LANES] at most. */
struct atvi_markov_work {
  atvi_ctx *ctx;
  double *table; /* [n_dt][entry] */
  double *tape;  /* [n][tape] */
  double *white; /* [2 n] normals of draws: noise of the values, and of the output */
  double *state; /* [n][n_state] normals of draws */
  double *diff;  /* [n] residuals of a draw */
  double *sum;   /* [n] of the states that are values */
  double *mean;  /* [n_term][n] */
  double *part;  /* [n_term][n] values of each term in the last draw; white: 0 */
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
