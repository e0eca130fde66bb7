/* SPDX-License-Identifier: MIT */
/* Summary of every quantity, whether to believe it, and why, in words for the user.
 *
 * The verdict: "bad" where numbers should not be used (chains disagree or never move, R-hat > 1.05; far too
 * few effective draws; k-hat > 1 or unknown; one draw that outweighs the others; weights worth less than
 * 1 % of the draws), "warn" where they
 * should be used with care (R-hat > 1.01, ESS below the requested one, the run ended early, more than 1 % of
 * model runs failed, k-hat above its threshold, weights worth less than 10 %), else "ok". Only parameters
 * count, not derived quantities.
 *
 * Weights of an approximation's draws are used where k-hat permits (atvi_diag_weights_hold); otherwise the
 * summary is that of the uncorrected approximation, and says so: its distance from the posterior and any
 * effective size are then not known. */
#ifndef ATVI_DIAG_SUMMARY_H
#define ATVI_DIAG_SUMMARY_H

#include "atvi/draws.h"
#include "atvi/verdict.h"
#include "core/core.h"
#include "io/fields.h"

enum { ATVI_SUMMARY_QUANTILES = 5 }; /* 2.5, 25, 50, 75, 97.5 % */
#define ATVI_SUMMARY_RHAT 1.01       /* chains agree below this (Vehtari and others 2021) */
#define ATVI_SUMMARY_ESS 400.0 /* effective draws that are enough if none were requested; same authors */

typedef struct {
  const char *name;
  /* Bounds, as in the draws. */
  double lower, upper;
  double mean, sd, mode, median, hpd95[2], quantile[ATVI_SUMMARY_QUANTILES];
  /* For weighted draws: number of independent draws whose means, and 5 % and 95 % quantiles, have the same
   * error. For other draws without chains their number. NaN if weights were refused. */
  double ess_bulk, ess_tail;
  /* NaN without chains, or if the column is constant or not finite. */
  double rhat;
  /* Monte Carlo standard error of the mean, inflated for k-hat > 0.5; NaN if weights were refused. */
  double mcse;
  /* Share of the posterior within 1 % of the range of a bound; NaN unless both are finite. */
  double near_lower, near_upper;
  /* Density at a finite bound as a share of the largest; NaN: no such bound. */
  double at_lower, at_upper;
  /* That share is above 15 %, and not by accident of few draws: the bound cuts the posterior (a normal closer
   * than 1.9 sds to it). */
  bool reaches_lower, reaches_upper;
  /* Shape of the heavier tail (atvi_math_tail_index); mcse and sd are NaN where draws say that there is no
   * variance, and the mean unless they say that there is one. */
  double tail;
  bool no_moments;
} atvi_summary_column;

typedef struct {
  /* Strings from the pool. */
  atvi_made made;
  atvi_idx n, n_chain;
  bool chains;
  /* The weights of the draws were used. */
  bool weighted;
  /* The draws are those of an approximation that cannot be corrected. */
  bool refused;
  /* 1 / sum of squared weights; n without weights; NaN if refused. */
  double ess;
  atvi_idx n_param, n_col;
  /* [n_col], parameters first. */
  atvi_summary_column *col;
  /* Highest log prior + log likelihood among the draws. */
  double log_map;
  atvi_verdict verdict;
  atvi_idx n_message;
  /* [n_message] most important first; the draws' own messages last. */
  atvi_message *message;
} atvi_summary;

/* Whether the draws come from a trained approximation, or from chains started from one: made.steps is
 * known. */
bool atvi_diag_made_variational(const atvi_made *made);
/* One draw or a few outweigh all the others before smoothing: reason enough to refuse the weights. */
bool atvi_diag_weights_contradict(const atvi_draws *d);
/* Whether d has weights that can be trusted. */
bool atvi_diag_weights_hold(const atvi_draws *d);
/* 1 / sum of squared weights, which need not sum to one; n without weights. */
double atvi_diag_weights_ess(const atvi_draws *d);

/* Everything above; memory from pool, d may be freed afterwards. Uses the context's threads. Errors:
 * ENOMEM. */
ATVI_CHECKED atvi_status atvi_diag_summary_new(atvi_pool *pool, const atvi_draws *d, atvi_summary **out);

/* Cost and quality of a fit in one line; NaN: not known. */
typedef struct {
  double seconds;
  int64_t evaluations;
  double khat;
  /* Largest of the parameters. */
  double rhat;
  /* Smallest bulk or tail ESS of the parameters. */
  double ess;
  double log_map, log_evidence, log_evidence_se;
} atvi_headline;
atvi_headline atvi_diag_summary_headline(const atvi_summary *s);

/* Fields of these structs, for JSON, CSV and tables. */
extern const atvi_fields atvi_diag_headline_fields, atvi_diag_summary_column_fields;

/* summary.json; NaN and infinities become null. Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_diag_summary_json(atvi_pool *pool, const atvi_summary *s, const char **text);

/* A table and the messages for a terminal, at most 100 columns wide, and where the word of the verdict is in
 * it. Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_diag_summary_text(atvi_pool *pool, const atvi_summary *s, const char **text,
                                                size_t *verdict_at);

/* The first message behind a verdict that is not ok; NULL if it is. */
const atvi_message *atvi_diag_summary_reason(const atvi_summary *s);
/* The parameter with the fewest effective draws, as shown in tables, and their number; -1: not known, and
 * *ess is NaN. */
atvi_idx atvi_diag_summary_least_ess(const atvi_summary *s, double *ess);
/* Whether weights were used although k-hat is above its threshold, because the tail that it describes has
 * almost no weight. */
bool atvi_diag_summary_tail_is_small(const atvi_summary *s);
/* "k-hat is 0.56 (good up to 0.70)", or why a larger one is harmless, for weights that were used. NULL: out
 * of memory. */
const char *atvi_diag_summary_khat(atvi_pool *pool, const atvi_summary *s);

/* For summary.c: sets verdict and messages from the numbers, which must be set. Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_diag_summary_judge(atvi_pool *pool, const atvi_draws *d, atvi_summary *s);

#endif
