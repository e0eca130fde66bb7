/* SPDX-License-Identifier: MIT */
/* Results of a study and of a calibration run, from their records; for src/app/study*.c, sbc.c and their
 * tests. */
#ifndef ATVI_APP_STUDY_H
#define ATVI_APP_STUDY_H

#include "app/replicate.h"
#include "math/stat/stat.h"

/* A mean over replicates and its Monte Carlo standard error; NaN if there is nothing to average. */
typedef struct {
  atvi_idx n;
  double value, error;
} atvi_average;

typedef enum { ATVI_QUANTITY_PARAMETER, ATVI_QUANTITY_DERIVED, ATVI_QUANTITY_TRACKED } atvi_quantity_kind;

typedef struct {
  const char *name;
  atvi_quantity_kind kind;
  /* NaN for tracked quantities, whose truth varies in time */
  double truth;
} atvi_quantity;

typedef struct {
  /* By the 95 % HPD interval; tracked: mean share of times. */
  atvi_average coverage;
  /* Marginal; tracked: none. */
  atvi_average mode;
  /* Of the mode; tracked: of the posterior mean, mean over times. */
  atvi_average mse;
  /* Length of the interval; tracked: mean over times. */
  atvi_average length;
} atvi_study_line;

typedef struct {
  const char *name;
  atvi_tally tally;
  /* Coverage: of the data. */
  atvi_average coverage, ail, mspe, ail_sum, mspe_draws, seconds;
  /* The worst; NaN: none. */
  double khat, rhat;
  atvi_study_line *line; /* [n_quantity] */
} atvi_study_method;

typedef struct {
  const char *model;
  uint64_t seed;
  atvi_idx replicates;
  atvi_idx n_quantity;
  const atvi_quantity *quantity;
  atvi_idx n_method;
  atvi_study_method *method;
  atvi_failures failures;
} atvi_study;

/* Columns of the record that are fields of atvi_headline and atvi_score. */
#define ATVI_STUDY_FIT "seconds evaluations khat rhat ess log_map log_evidence"
#define ATVI_STUDY_SCORES "coverage ail mspe ail_sum mspe_draws"
/* Columns of the record. Memory from pool. Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_app_study_header(atvi_pool *pool, atvi_idx n, const atvi_quantity *quantity,
                                               const char **text);
/* Fills s->method[].* and failures from the record; the caller sets names of methods, replicates and
 * quantities. Records of other replicates or methods are ignored. Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_app_study_count(atvi_pool *pool, const atvi_csv *record, atvi_study *s);

/* Table for a terminal, study.csv and study_summary.json. Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_app_study_text(atvi_pool *pool, const atvi_study *s, const char **text);
ATVI_CHECKED atvi_status atvi_app_study_csv(atvi_pool *pool, const atvi_study *s, const char **text);
ATVI_CHECKED atvi_status atvi_app_study_json(atvi_pool *pool, const atvi_study *s, const char **text);

/* Results of a calibration run.
 *
 * If data come from the model at a truth drawn from the prior, the rank of the truth among L independent
 * posterior draws is uniform on 0 .. L (Cook, Gelman and Rubin 2006; Talts and others 2018). For each
 * quantity:
 *
 *   band    whether the distribution function of the ranks is inside its simultaneous 95 % band (math/stat/stat.h), and the p-value
 *           of the test behind it
 *   spread  with z = Phi^-1((rank + 1/2) / (L + 1)), sum z^2, divided by the mean of z^2 over all ranks, which is a little below 1, is about
 *           chi-squared with as many degrees of freedom as ranks: too large where posteriors are too narrow, too small where they are too wide. It sees what the band sees only with many more
 *           replicates
 *
 * Overall: all quantities and both tests together raise a false alarm in at most one of a hundred runs
 * (Bonferroni). What no alarm means depends on what would have been noticed (sbc.c). */

enum { ATVI_SBC_DRAWS = ATVI_RANK_MOST, ATVI_SBC_BINS = 10 };

typedef struct {
  const char *name;
  bool derived;
  /* Ranks. */
  atvi_idx n;
  /* Their histogram. */
  atvi_idx bin[ATVI_SBC_BINS];
  /* 0 and 1 if ranks are uniform; sd about 0. */
  double mean_z, sd_z;
  /* NaN: no ranks. */
  double p_band, p_spread;
  /* The 95 % band. */
  bool inside;
  /* No objection at the overall level. */
  bool fine;
  /* Of the distribution functions, at (i+1) / (L+1). */
  double difference[ATVI_SBC_DRAWS];
  double low[ATVI_SBC_DRAWS], high[ATVI_SBC_DRAWS];
} atvi_sbc_line;

/* What the number of replicates can show. */
typedef enum {
  ATVI_SBC_BLIND, /* posterior sds half the right size may go unnoticed */
  ATVI_SBC_ROUGH, /* those would be noticed, but not sds three quarters of the right size */
  ATVI_SBC_SHARP  /* those, too */
} atvi_sbc_sight;

typedef struct {
  const char *model, *method;
  uint64_t seed;
  double scale_sd;
  atvi_idx replicates;
  atvi_tally tally;
  /* Seconds of all fits. */
  double seconds;
  atvi_idx n;
  atvi_sbc_line *line; /* [n] */
  /* Quantities without any rank, about which nothing is known. */
  atvi_idx n_untested;
  /* p-values below it fail. */
  double level;
  bool fine;
  atvi_sbc_sight power;
  /* Factors of the sd nearest to 1 that would be noticed; NaN: none. */
  double narrow, wide;
  atvi_failures failures;
} atvi_sbc;

/* Fills everything but model, method, seed, scale_sd, replicates, n and the names. Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_app_sbc_count(atvi_ctx *ctx, atvi_pool *pool, const atvi_csv *record,
                                            atvi_sbc *s);

/* Normal score of a rank; the mean of its square if ranks are uniform; and the p-value of n of them whose
 * squares, divided by that, have that sum: twice the smaller tail of chi-squared. */
double atvi_app_sbc_score(atvi_idx rank);
double atvi_app_sbc_mean_square(void);
double atvi_app_sbc_spread(atvi_idx n, double sum);
/* The factors of posterior sds, below and above 1 and nearest to it, that n ranks of one quantity would show
 * at that level four times in five; NaN: none. ecdf: for n ranks of ATVI_SBC_DRAWS + 1 values. By simulation,
 * always the same. */
void atvi_app_sbc_notice(const atvi_ecdf *ecdf, atvi_idx n, double level, double *narrow, double *wide);

/* Table for a terminal; ranks of each quantity as ecdf.csv; sbc_summary.json. Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_app_sbc_text(atvi_pool *pool, const atvi_sbc *s, const char **text);
ATVI_CHECKED atvi_status atvi_app_sbc_csv(atvi_pool *pool, const atvi_sbc *s, const char **text);
ATVI_CHECKED atvi_status atvi_app_sbc_json(atvi_pool *pool, const atvi_sbc *s, const char **text);

#endif
