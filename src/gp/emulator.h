/* SPDX-License-Identifier: MIT */
/* A simulator replaced by a Gaussian process that was fitted to runs of it.
 *
 * n runs at points x[n][d] of the unit cube gave outputs y[n][m] (m times, or 1). With the mean over runs
 * subtracted,
 *
 *   cov(y_s(x), y_t(x')) = sill * (k(x, x') + g [x = x']) * c(s, t),   k = prod_j kernel(|x_j - x'_j| / l_j),  c = exp(-|s - t| / l_t)
 *
 * Given the runs, y(x) is normal: mean(t) + k(x)' K^-1 Y(t), with covariance sill * (1 + g - k(x)' K^-1 k(x))
 * * c(s, t), K = k(x_i, x_j) + g I. Lengths, g and l_t are estimated by maximum likelihood (sill has a closed
 * form), or given. With a basis, Y in the mean is replaced by its leading singular vectors: a point then
 * costs n q + q m instead of n m products. What the basis leaves out of the runs, on average over runs and
 * outputs, is added to the variance. All outputs are used to estimate the values in any case. */
#ifndef ATVI_GP_EMULATOR_H
#define ATVI_GP_EMULATOR_H

#include "core/compiler.h"
#include "core/core.h"

typedef enum { ATVI_EM_EXPONENTIAL, ATVI_EM_MATERN32, ATVI_EM_MATERN52, ATVI_EM_SQUARED } atvi_em_kernel;
extern const char *const atvi_gp_em_kernel_name[ATVI_EM_SQUARED + 1];

typedef struct {
  /* Runs, inputs, outputs of a run. */
  atvi_idx n, d, m;
  /* [n][d] in the unit cube (points outside are allowed). */
  const double *x;
  /* [n][m] as simulated. */
  const double *y;
  /* [m] ascending; NULL: 1 .. m. */
  const double *time;
  /* [m] subtracted from y; NULL: the mean over the runs. */
  const double *mean;
} atvi_em_runs;

typedef struct {
  /* Default: matern52 (best mean log score of held-out runs over nine simulators). */
  atvi_em_kernel kernel;
  /* [d] held; NULL: estimated. */
  const double *length;
  /* G, held; NaN: estimated. */
  double nugget;
  /* l_t, held; NaN: estimated. */
  double time_length;
  /* Held; NaN: estimated. */
  double sill;
  /* Share of variance that the basis keeps, in (0, 1); 0: no basis. */
  double basis;
  /* Of the search; 0: 8, or 16 if there are few runs. */
  int starts;
  uint64_t seed;
} atvi_em_opts;

typedef struct {
  /* [d]; a length at the upper bound means that this input does not matter. */
  const double *length;
  /* time_length is NaN for one output. */
  double nugget, time_length, sill;
  /* Of the runs at these values, all constants kept. */
  double log_lik;
  /* Agreed: starts that ended within 0.1 of the best, or 1e-6 per value. */
  int starts, evals, agreed;
  /* Columns in use; m without a basis. */
  atvi_idx n_basis;
  /* Share of the variance that the basis keeps. */
  double basis_share;
  /* Mean square of what the basis leaves out, in sills; 0 without. */
  double dropped;
} atvi_em_info;

typedef struct atvi_emulator atvi_emulator;
typedef struct atvi_em_work atvi_em_work;

void atvi_gp_em_defaults(atvi_em_opts *opts);
/* Fits. Copies what it needs. Uses the threads of ctx; the result does not depend on their number. Progress
 * through the ctx. Errors: EINVAL (shapes, times that do not ascend, settings, fewer than 2 runs, held values
 * at which K is not positive definite: equal points without nugget), EDATA (numbers that are not finite,
 * outputs that never vary), ENOMEM, ESTOP (the ctx asked to), EIO (OpenBLAS is not installed). */
ATVI_CHECKED atvi_status atvi_gp_emulator_new(atvi_ctx *ctx, const atvi_em_runs *runs,
                                              const atvi_em_opts *opts, atvi_emulator **out);
void atvi_gp_emulator_free(atvi_emulator *em); /* NULL is fine */
const atvi_em_info *atvi_gp_emulator_info(const atvi_emulator *em);

/* Which estimates lie at an end of the search range (-1: the lower one, 1: the upper one, 0: between, or
 * held): the data only say "less" or "more". A length at its upper end is normal, see above. */
typedef struct {
  int nugget, time;
  /* Lengths at their lower end. */
  atvi_idx n_short;
} atvi_em_ends;
void atvi_gp_emulator_ends(const atvi_em_runs *runs, const atvi_em_opts *opts, const atvi_em_info *info,
                           atvi_em_ends *out);

/* Log likelihood of the runs at given values and its gradient in the log of lengths[d], nugget, time_length,
 * sill: grad[d + 3] (NULL: not wanted). For tests, reports and the search itself. NaN if K is not positive
 * definite. */
ATVI_CHECKED atvi_status atvi_gp_emulator_log_lik(atvi_ctx *ctx, const atvi_em_runs *runs,
                                                  const atvi_em_opts *at, double *log_lik, double *grad);

/* Scratch of one thread. Rows of the outputs that eval gives: row[n_row] in [0, m), in any order; NULL: all,
 * with n_row = m (which shares the emulator's matrices; other rows are copied). Another work may have other
 * rows. Errors: EINVAL (rows), ENOMEM. */
ATVI_CHECKED atvi_status atvi_gp_em_work_new(const atvi_emulator *em, atvi_ctx *ctx, atvi_idx n_row,
                                             const atvi_idx *row, atvi_em_work **out);
void atvi_gp_em_work_free(atvi_em_work *w); /* NULL is fine */

enum { ATVI_EM_GROUP = 32 }; /* points per call */

/* mean[n_row][ATVI_EM_GROUP] and share[ATVI_EM_GROUP] = 1 + g - k' K^-1 k + dropped >= 0 (times info's sill:
 * the variance; with another sill `dropped` still goes with that one) at x[d][ATVI_EM_GROUP]. Always a whole
 * group (the caller repeats a point to fill it); the result of a point depends neither on the others nor on
 * its place, in every bit. mean and, below, mean_bar are aligned to ATVI_ALIGN. Never allocates. */
void atvi_gp_em_eval(const atvi_emulator *em, atvi_em_work *w, const double *x, double *mean, double *share);
/* From now on the first n points of a group are computed, rounded up to whole lanes; results of the others
 * are undefined. Initially all. */
void atvi_gp_em_use(atvi_em_work *w, int n);
/* Adjoint of the last eval with this work: x_bar[d][ATVI_EM_GROUP], overwritten. */
void atvi_gp_em_vjp(const atvi_emulator *em, atvi_em_work *w, const double *mean_bar, const double *share_bar,
                    double *x_bar);

/* Its quality, from leaving out each run in turn (closed form, lengths kept), over all runs and times. */
typedef struct {
  /* 1 - sum of squared errors / sum of squares around the mean over runs. */
  double q2;
  /* Coverage of 95 % intervals. */
  double coverage;
  double rmse;
  /* Mean log density of a value under its own prediction: larger is better. */
  double log_score;
  /* Run with the largest standardised error (root mean square over times). */
  atvi_idx worst;
  /* That error. */
  double worst_error;
  /* [m] or NULL on input: filled per output. */
  double *q2_time;
  /* [n] or NULL: root mean square standardised error of each run. */
  double *run_error;
  /* [n][m] or NULL: the prediction. */
  double *predicted;
  /* [n] or NULL: standard deviation of the prediction, the same for all outputs of a run. */
  double *run_sd;
} atvi_em_loo;
ATVI_CHECKED atvi_status atvi_gp_emulator_loo(atvi_ctx *ctx, const atvi_emulator *em,
                                              const atvi_em_runs *runs, atvi_em_loo *out);
/* Both: errors EINVAL (other shapes, or no runs), EDATA (numbers that are not finite; loo: runs that are not
 * those of the fit), ENOMEM. The same for runs that were not used in the fit. */
ATVI_CHECKED atvi_status atvi_gp_emulator_test(atvi_ctx *ctx, const atvi_emulator *em,
                                               const atvi_em_runs *held, atvi_em_loo *out);

/* What the runs leave open of the output at points x[d][B] together: cov[B][B], in sills, whose diagonal
 * is the share of eval; and which runs predictions there are made of: near[n], each point's squared
 * weights of the runs as shares, summed with weight[B]. Errors: EINVAL, ENOMEM, EIO (OpenBLAS is not
 * installed). */
ATVI_CHECKED atvi_status atvi_gp_emulator_joint(atvi_ctx *ctx, const atvi_emulator *em, atvi_idx B,
                                                const double *x, const double *weight, double *cov,
                                                double *near);

/* Sobol indices of the emulator's mean, inputs uniform on the unit cube: first[d], total[d], aggregated over
 * outputs by variance; if first_time and total_time are not NULL, also those of each output. err: largest
 * standard error among first and total. Uses the threads of ctx; results do not depend on their number.
 * Errors: EINVAL (one of the pointers missing), ENOMEM. */
typedef struct {
  double *first, *total; /* [d] */
  /* [m][d] or NULL. */
  double *first_time, *total_time;
  double err;
} atvi_em_sobol;
ATVI_CHECKED atvi_status atvi_gp_emulator_sobol(atvi_ctx *ctx, const atvi_emulator *em, uint64_t seed,
                                                atvi_em_sobol *out);

/* To and from a small file (JSON) with the estimated values and fingerprints of runs and settings. load
 * rebuilds the emulator from the same runs and settings, without the search, equal to the saved one in every
 * bit. Errors of save: EIO, ENOMEM. Of load: EIO; EDATA (another version, a damaged file, or, with *other set
 * (other NULL: not wanted), one fitted to other runs or with other settings); those of new. */
ATVI_CHECKED atvi_status atvi_gp_emulator_save(atvi_ctx *ctx, const atvi_emulator *em, const char *path);
ATVI_CHECKED atvi_status atvi_gp_emulator_load(atvi_ctx *ctx, const char *path, const atvi_em_runs *runs,
                                               const atvi_em_opts *opts, bool *other, atvi_emulator **out);

#endif
