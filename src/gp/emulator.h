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
  atvi_idx n, d, m;   /* runs, inputs, outputs of a run */
  const double *x;    /* [n][d] in the unit cube (points outside are allowed) */
  const double *y;    /* [n][m] as simulated */
  const double *time; /* [m] ascending; NULL: 1 .. m */
  const double *mean; /* [m] subtracted from y; NULL: the mean over the runs */
} atvi_em_runs;

typedef struct {
  atvi_em_kernel kernel; /* default: matern52 (best mean log score of held-out runs over nine simulators) */
  const double *length;  /* [d] held; NULL: estimated */
  double nugget;         /* g, held; NaN: estimated */
  double time_length;    /* l_t, held; NaN: estimated */
  double sill;           /* held; NaN: estimated */
  double basis;          /* share of variance that the basis keeps, in (0, 1); 0: no basis */
  int starts;            /* of the search; 0: 8, or 16 if there are few runs */
  uint64_t seed;
} atvi_em_opts;

typedef struct {
  const double *length; /* [d]; a length at the upper bound means that this input does not matter */
  double nugget, time_length, sill; /* time_length is NaN for one output */
  double log_lik;                   /* of the runs at these values, all constants kept */
  int starts, evals, agreed;        /* agreed: starts that ended within 0.1 of the best, or 1e-6 per value */
  atvi_idx n_basis;                 /* columns in use; m without a basis */
  double basis_share;               /* of the variance */
  double dropped;                   /* mean square of what the basis leaves out, in sills; 0 without */
} atvi_em_info;

typedef struct atvi_emulator atvi_emulator;
typedef struct atvi_em_work atvi_em_work;

void atvi_gp_em_defaults(atvi_em_opts *opts);
/* Fits. Copies what it needs. Uses the threads of ctx; the result does not depend on their number. Progress through the ctx.
 * Errors: EINVAL (shapes, times that do not ascend, settings, fewer than 2 runs, held values at which K is not positive definite:
 * equal points without nugget), EDATA (numbers that are not finite, outputs that never vary), ENOMEM, ESTOP (the ctx asked to), EIO (OpenBLAS is not installed). */
ATVI_CHECKED atvi_status atvi_gp_emulator_new(atvi_ctx *ctx, const atvi_em_runs *runs,
                                              const atvi_em_opts *opts, atvi_emulator **out);
void atvi_gp_emulator_free(atvi_emulator *em); /* NULL is fine */
const atvi_em_info *atvi_gp_emulator_info(const atvi_emulator *em);

/* Which estimates lie at an end of the search range (-1: the lower one, 1: the upper one, 0: between, or
 * held): the data only say "less" or "more". A length at its upper end is normal, see above. */
typedef struct {
  int nugget, time;
  atvi_idx n_short; /* lengths at their lower end */
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
  double q2;       /* 1 - sum of squared errors / sum of squares around the mean over runs */
  double coverage; /* of 95 % intervals */
  double rmse;
  double log_score;   /* mean log density of a value under its own prediction: larger is better */
  atvi_idx worst;     /* run with the largest standardised error (root mean square over times) */
  double worst_error; /* that error */
  double *q2_time;    /* [m] or NULL on input: filled per output */
  double *run_error;  /* [n] or NULL: root mean square standardised error of each run */
  double *predicted;  /* [n][m] or NULL: the prediction */
  double *run_sd; /* [n] or NULL: standard deviation of the prediction, the same for all outputs of a run */
} atvi_em_loo;
ATVI_CHECKED atvi_status atvi_gp_emulator_loo(atvi_ctx *ctx, const atvi_emulator *em,
                                              const atvi_em_runs *runs, atvi_em_loo *out);
/* Both: errors EINVAL (other shapes, or no runs), EDATA (numbers that are not finite; loo: runs that are not those of the fit), ENOMEM.
 * The same for runs that were not used in the fit. */
ATVI_CHECKED atvi_status atvi_gp_emulator_test(atvi_ctx *ctx, const atvi_emulator *em,
                                               const atvi_em_runs *held, atvi_em_loo *out);

/* Sobol indices of the emulator's mean, inputs uniform on the unit cube: first[d], total[d], aggregated over
 * outputs by variance; if first_time and total_time are not NULL, also those of each output. err: largest
 * standard error among first and total. Uses the threads of ctx; results do not depend on their number.
 * Errors: EINVAL (one of the pointers missing), ENOMEM. */
typedef struct {
  double *first, *total;           /* [d] */
  double *first_time, *total_time; /* [m][d] or NULL */
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
