/* SPDX-License-Identifier: MIT */
/* Parts of atvi compare of methods; for src/app/compare*.c alone. */
#ifndef ATVI_APP_COMPARE_H
#define ATVI_APP_COMPARE_H

#include "app/common.h"
#include "diag/score.h"
#include "diag/summary.h"

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
 * folder that cannot be read makes its method "failed". Free with atvi_compare_free. Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_compare_read(atvi_ctx *ctx, atvi_pool *pool, const char *wanted,
                                           atvi_comparison *c);
void atvi_compare_free(atvi_comparison *c); /* the draws; the rest is the pool's */

/* The log evidence; NaN: none, or of weights that cannot be trusted, of which the mean cannot either. */
double atvi_compared_evidence(const atvi_compared *m);
/* Table for a terminal, at most 100 columns wide. Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_compare_text(atvi_pool *pool, const atvi_comparison *c, const char **text);
/* compare.csv: method,kind,name,statistic,value. Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_compare_csv(atvi_pool *pool, const atvi_comparison *c, const char **text);
/* Beginning of a line of it, up to the statistic; NULL: no memory. who: the method or the fit. */
const char *atvi_compare_lead(atvi_pool *pool, const char *who, const char *kind, const char *name);
/* A line of it about the fit with a word as its value, whatever is in it. */
void atvi_compare_word(atvi_text *t, const char *who, const char *what, const char *word);
/* compare.json; NaN and infinite become null. Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_compare_json(atvi_pool *pool, const atvi_comparison *c, const char **text);

#endif
