/* SPDX-License-Identifier: MIT */
/* Statistics of draws: used by infer to stop and by diag to judge. Pure kernels; scratch is
 * passed in by the caller where it is needed. Chains: x[m][n], chain-major, n draws each. */
#ifndef ATVI_MATH_STAT_STAT_H
#define ATVI_MATH_STAT_STAT_H

#include "core/core.h"

/* Convergence of m chains of n draws (Vehtari and others 2021). work: atvi_stat_work(m, n) doubles.
 * Constant or non-finite input, and n < 4, give NaN. */
size_t atvi_stat_work(atvi_idx m, atvi_idx n);
typedef struct {
  double rhat;     /* max of rank-normalised split and folded */
  double ess_bulk; /* rank-normalised split */
  double ess_tail; /* min over the 5 % and 95 % quantiles */
  double ess_mean; /* split, for the MCSE of the mean */
} atvi_convergence;
atvi_convergence atvi_converge(atvi_idx m, atvi_idx n, const double *x, double *work);

/* Weighted summaries of n draws; w NULL: equal weights; weights need not sum to one.
 * sorted x is required where the argument is called xs, with ws its weights in the same order. */
double atvi_mean(atvi_idx n, const double *x, const double *w);
double atvi_sd(atvi_idx n, const double *x, const double *w); /* divisor n - 1 for equal weights */
double atvi_quantile(atvi_idx n, const double *xs, const double *ws, double p); /* type 7 for equal weights */
/* Shortest interval with mass p. */
void atvi_hpd(atvi_idx n, const double *xs, const double *ws, double p, double out[2]);
/* Maximiser of the kernel density, reflected at finite bounds (+-inf: none). Bandwidth: Sheather-Jones
 * or improved plug-in; robust to long tails. Constant xs give that value. work: n + 4 * 1024 doubles. */
double atvi_mode(atvi_idx n, const double *xs, const double *ws, double lower, double upper, double *work);
/* The density that atvi_mode maximises: its mean over each of ATVI_DENSITY_GRID equal cells from ends[0] to ends[1]. It reflects at
 * finite bounds and is 0 beyond them; beyond the ends it is left out, but counted: the cells sum to the share of
 * the draws that lies between. False where all draws are equal or not finite. work: as for atvi_mode. */
enum { ATVI_DENSITY_GRID = 256 };
bool atvi_density(atvi_idx n, const double *xs, const double *ws, double lower, double upper, double ends[2],
                  double *out, double *work);
/* For qsort: doubles ascending. */
int atvi_by_value(const void *a, const void *b);
/* Sorts x ascending and carries w along (w may be NULL). work: 2 n doubles. */
void atvi_sort(atvi_idx n, double *x, double *w, double *work);

#endif
