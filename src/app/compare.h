/* SPDX-License-Identifier: MIT */
/* Parts of atvi compare of methods; for src/app/compare*.c alone. */
#ifndef ATVI_APP_COMPARE_H
#define ATVI_APP_COMPARE_H

#include "app/common.h"
#include "diag/score.h"
#include "diag/summary.h"
#include "math/stat/stat.h"

/* One method. */
typedef struct {
  const char *method;   /* as asked for: "exact" is atvi with its exact sampler */
  const char *state;    /* "done", "stopped", "failed", "not run" */
  const char *reason;   /* why it failed, or why the verdict is not ok; NULL: there is no reason */
  const char *unscored; /* why there are no scores; NULL: there are */
  const char *dir;
  atvi_draws *draws;     /* NULL: none, then neither summary */
  atvi_summary *summary; /* from the pool */
  atvi_headline fit;
  double *distance; /* [n_col] Wasserstein-1 to the reference, in its posterior sds; NaN: not known */
  double *raw; /* [n_col] as distance, of the draws without the weights that were used; NaN: there are none */
  double *chance;            /* [n_col] about what it would be between two samples of one distribution */
  atvi_idx n_series;         /* observed ones */
  atvi_score *fitted, *held; /* [n_series + 1], the last of all together; held: NULL without a holdout */
} atvi_compared;

typedef struct {
  const char *model; /* name */
  const char *holdout;
  uint64_t seed;
  bool shared; /* the methods ran side by side */
  atvi_idx n;
  atvi_compared *of;   /* [n] */
  atvi_idx reference;  /* -1: nothing to compare with */
  const char *because; /* why it is this one: half a sentence */
} atvi_comparison;

/* Of a distance: more than this many times the one by chance is told. The integral of a Brownian bridge's absolute value exceeds three
 * times its mean once in a thousand. */
#define ATVI_COMPARE_BEYOND 3.0

/* Reads what each method wrote into its folder; of[] has method, state and dir. wanted: name of the reference; NULL: the best. A
 * folder that cannot be read makes its method "failed". Free with atvi_app_compare_free. Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_app_compare_read(atvi_ctx *ctx, atvi_pool *pool, const char *wanted,
                                               atvi_comparison *c);
void atvi_app_compare_free(atvi_comparison *c); /* the draws; the rest is the pool's */

/* The log evidence; NaN: none, or of weights that cannot be trusted, of which the mean cannot either. */
double atvi_app_compared_evidence(const atvi_compared *m);
/* Table for a terminal, at most 100 columns wide. Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_app_compare_text(atvi_pool *pool, const atvi_comparison *c, const char **text);
/* compare.csv: method,kind,name,statistic,value. Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_app_compare_csv(atvi_pool *pool, const atvi_comparison *c, const char **text);
/* Beginning of a line of it, up to the statistic; NULL: no memory. who: the method or the fit. */
const char *atvi_app_compare_lead(atvi_pool *pool, const char *who, const char *kind, const char *name);
/* A line of it about the fit with a word as its value, whatever is in it. */
void atvi_app_compare_word(atvi_text *t, const char *who, const char *what, const char *word);
/* compare.json; NaN and infinite become null. Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_app_compare_json(atvi_pool *pool, const atvi_comparison *c, const char **text);

/* Finished fits of several models side by side; for src/app alone.
 *
 *   evidence   log p(data | model) and its differences; probabilities of the models if all were equally likely before
 *   LOO        elpd_loo and its differences, paired over observations; weights of the mixture that predicts best (stacking)
 *   shared     parameters and derived quantities of the same name in two or more fits
 *
 * The first two need fits to the same values at the same times. */

/* One value that was fitted. */
typedef struct {
  const char *series;
  double time, value;
  /* false: a limit, the value was censored */
  bool exact;
  /* NaN: not known */
  atvi_loo_point loo;
} atvi_candidate_value;

/* One fit; numbers are NaN where they are not known, and differences are to the best. */
typedef struct {
  /* last part of the folder's path, or the whole path where that is not enough */
  const char *name;
  const char *dir;
  const char *model, *method, *holdout;
  /* the model file */
  const char *text;
  const char *verdict;
  /* why the verdict is not ok; NULL: it is */
  const char *reason;
  atvi_summary *summary;
  /* draws that predictions are from */
  atvi_idx n_draw;
  /* [n_value] values that were fitted, in an order that all fits have */
  atvi_idx n_value;
  atvi_candidate_value *value;
  /* why the data are not known, or what the model says of them; NULL: they are */
  const char *no_groups;
  double log_evidence, log_evidence_se, log_evidence_difference, log_evidence_difference_se, probability;
  /* the evidence is the mean of weights that cannot be trusted */
  bool doubtful;
  double elpd_loo, elpd_loo_se, elpd_difference, elpd_difference_se, p_loo, khat_above, weight;
} atvi_candidate;

/* A quantity of one fit. difference: from the mean of the first fit that has it, in its sds; NaN there. */
typedef struct {
  const char *fit;
  double mean, sd, hpd95[2], difference;
} atvi_shared_value;

typedef struct {
  const char *name;
  /* "parameter", or "derived" in the first fit that has it */
  const char *kind;
  atvi_idx n;
  atvi_shared_value *of;
} atvi_shared;

typedef struct {
  atvi_idx n;
  atvi_candidate *of;
  /* why evidence and LOO are not compared; NULL: they are */
  const char *differ;
  /* [n] the highest evidence and elpd_loo; -1: there are no two to compare */
  atvi_idx best_evidence, best_loo;
  /* what they say, a sentence each; NULL: nothing */
  const char *say_evidence, *say_loo;
  atvi_idx n_shared, cap_shared;
  atvi_shared *shared;
  /* worst fits first */
  atvi_idx n_message, cap_message;
  atvi_message *message;
} atvi_candidates;

/* From summaries and values of the fits to everything that compares them; sorts the values. Memory from pool. Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_app_candidates_compare(atvi_pool *pool, atvi_candidates *c);

/* "a, b and c" of name[n]; NULL: no memory. */
const char *atvi_app_candidates_list(atvi_pool *pool, atvi_idx n, const char *const *name);

/* Fields of atvi_candidate and atvi_shared_value. */
extern const atvi_fields atvi_app_candidate_fields, atvi_app_shared_fields;
/* Table for a terminal, at most 100 columns wide. Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_app_candidates_text(atvi_pool *pool, const atvi_candidates *c,
                                                  const char **text);
/* compare.csv: fit,kind,name,statistic,value. Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_app_candidates_csv(atvi_pool *pool, const atvi_candidates *c,
                                                 const char **text);
/* compare.json; NaN and infinite become null. Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_app_candidates_json(atvi_pool *pool, const atvi_candidates *c,
                                                  const char **text);

#endif
