/* SPDX-License-Identifier: MIT */
/* Results of a study, from its records; for src/app/study*.c and their tests. */
#ifndef ATVI_APP_STUDY_H
#define ATVI_APP_STUDY_H

#include "app/replicate.h"

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

#endif
