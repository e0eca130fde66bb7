/* SPDX-License-Identifier: MIT */
/* Parts of atvi compare of methods; only for src/app/compare*.c. */
#ifndef ATVI_APP_COMPARE_H
#define ATVI_APP_COMPARE_H

#include "app/common.h"
#include "diag/score.h"
#include "diag/summary.h"
#include "math/stat/stat.h"

/* How far a method came. */
typedef enum {
  ATVI_COMPARED_NOT_RUN,
  ATVI_COMPARED_STOPPED,
  ATVI_COMPARED_FAILED,
  ATVI_COMPARED_DONE,
} atvi_compared_state;

/* One method. */
typedef struct {
  /* As requested: "exact" is atvi with its exact sampler. */
  const char *method;
  atvi_compared_state state;
  /* Why it failed, or why the verdict is not ok; NULL: neither. */
  const char *reason;
  /* Why there are no scores; NULL if there are. */
  const char *unscored;
  const char *dir;
  /* NULL: none, and no summary either. */
  atvi_draws *draws;
  /* From the pool. */
  atvi_summary *summary;
  atvi_headline fit;
  /* [n_col] Wasserstein-1 to the reference, in its posterior sds; NaN: not known. */
  double *distance;
  /* [n_col] the same for the draws without their weights; NaN: no weights were used. */
  double *raw;
  /* [n_col] about the distance between two samples of one distribution. */
  double *chance;
  /* Observed ones. */
  atvi_idx n_series;
  /* [n_series + 1], the last for all together; held: NULL without a holdout. */
  atvi_score *fitted, *held;
} atvi_compared;

typedef struct {
  /* Name. */
  const char *model;
  const char *holdout;
  uint64_t seed;
  /* The methods ran side by side. */
  bool shared;
  atvi_idx n;
  atvi_compared *of; /* [n] */
  /* -1: nothing to compare with. */
  atvi_idx reference;
  /* Why it is this one, as a phrase. */
  const char *because;
} atvi_comparison;

/* A distance is marked if it exceeds this many times the one expected by chance. The integral of the absolute
 * value of a Brownian bridge exceeds three times its mean once in a thousand. */
#define ATVI_COMPARE_BEYOND 3.0

/* Reads what each method wrote into its folder; of[] holds method, state and dir. wanted: name of the
 * reference; NULL: the best. A folder that cannot be read makes its method FAILED. Free with
 * atvi_app_compare_free. Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_app_compare_read(atvi_ctx *ctx, atvi_pool *pool, const char *wanted,
                                               atvi_comparison *c);
void atvi_app_compare_free(atvi_comparison *c); /* frees the draws; the rest belongs to the pool */

/* "not run", "stopped", "failed", "done". */
const char *atvi_app_compared_word(const atvi_compared *m);
/* The log evidence; NaN if there is none or the weights cannot be trusted. */
double atvi_app_compared_evidence(const atvi_compared *m);
/* Table for a terminal, at most 100 columns wide. Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_app_compare_text(atvi_pool *pool, const atvi_comparison *c, const char **text);
/* compare.csv: method,kind,name,statistic,value. Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_app_compare_csv(atvi_pool *pool, const atvi_comparison *c, const char **text);
/* Start of a line of it, up to the statistic; NULL: out of memory. who: the method or the fit. */
const char *atvi_app_compare_lead(atvi_pool *pool, const char *who, const char *kind, const char *name);
/* A line of it about the fit whose value is a word, quoted if necessary. */
void atvi_app_compare_word(atvi_text *t, const char *who, const char *what, const char *word);
/* compare.json; NaN and infinities become null. Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_app_compare_json(atvi_pool *pool, const atvi_comparison *c, const char **text);

/* Finished fits of several models side by side; only for src/app.
 *
 *   evidence   log p(data | model) and its differences; probabilities of the models if all are equally likely a priori
 *   LOO        elpd_loo and its differences, paired over observations; weights of the mixture that predicts best (stacking)
 *   shared     parameters and derived quantities of the same name in two or more fits
 *
 * The first two need fits to the same values at the same times. */

/* One fitted value. */
typedef struct {
  const char *series;
  double time, value;
  /* false: a limit, because the value was censored */
  bool exact;
  /* NaN: not known */
  atvi_loo_point loo;
} atvi_candidate_value;

/* One fit; unknown numbers are NaN, and differences are to the best. */
typedef struct {
  /* last part of the folder's path, or the whole path if that is ambiguous */
  const char *name;
  const char *dir;
  const char *model, *method, *holdout;
  /* the model file */
  const char *text;
  const char *verdict;
  /* why the verdict is not ok; NULL if it is */
  const char *reason;
  atvi_summary *summary;
  /* draws behind the predictions */
  atvi_idx n_draw;
  /* [n_value] fitted values, in the same order for all fits */
  atvi_idx n_value;
  atvi_candidate_value *value;
  /* why the data or the predictions are not known; NULL if they are */
  const char *no_groups;
  struct {
    double log, se, difference, difference_se, probability;
    /* the weights behind it cannot be trusted */
    bool doubtful;
  } evidence;
  /* weight: of the mixture that predicts best */
  struct {
    double elpd, se, difference, difference_se, p, khat_above, weight;
  } loo;
} atvi_candidate;

/* A quantity of one fit. difference: from the mean of the first fit with the quantity, in its sds; NaN for
 * that fit. */
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
  /* why evidence and LOO are not compared; NULL if they are */
  const char *differ;
  /* [n] the highest evidence and elpd_loo; -1: fewer than two to compare */
  atvi_idx best_evidence, best_loo;
  /* the conclusion of each in one sentence; NULL: none */
  const char *say_evidence, *say_loo;
  atvi_idx n_shared, cap_shared;
  atvi_shared *shared;
  /* worst fits first */
  atvi_idx n_message, cap_message;
  atvi_message *message;
} atvi_candidates;

/* Computes all comparisons from summaries and values of the fits; sorts the values. Memory from pool. Errors:
 * ENOMEM. */
ATVI_CHECKED atvi_status atvi_app_candidates_compare(atvi_pool *pool, atvi_candidates *c);

/* "a, b and c" of name[n]; NULL: out of memory. */
const char *atvi_app_candidates_list(atvi_pool *pool, atvi_idx n, const char *const *name);

/* Table for a terminal, at most 100 columns wide. Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_app_candidates_text(atvi_pool *pool, const atvi_candidates *c,
                                                  const char **text);
/* compare.csv: fit,kind,name,statistic,value. Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_app_candidates_csv(atvi_pool *pool, const atvi_candidates *c,
                                                 const char **text);
/* compare.json; NaN and infinities become null. Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_app_candidates_json(atvi_pool *pool, const atvi_candidates *c,
                                                  const char **text);

#endif
