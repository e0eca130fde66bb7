/* SPDX-License-Identifier: MIT */
/* What the draws say about every quantity, whether to believe it, and why, in words for the user.
 *
 * The verdict: "bad" where numbers should not be used (chains disagree, stand still, or R-hat > 1.05; far too few effective
 * draws; k-hat > 1 or unknown; weights worth less than 1 % of the draws), "warn" where they should be used with care (R-hat > 1.01,
 * ESS below what was asked for, the run ended early, more than 1 % of model runs failed, k-hat above its threshold, weights
 * worth less than 10 %), else "ok". Only parameters count, not derived quantities.
 *
 * Weights of an approximation's draws are used where k-hat permits (atvi_diag_weights_hold); where it does not, the
 * summary is of the approximation as it is, and says so: how far it is from the posterior is then not known, and neither is any
 * effective size. */
#ifndef ATVI_DIAG_SUMMARY_H
#define ATVI_DIAG_SUMMARY_H

#include "atvi/draws.h"
#include "atvi/verdict.h"
#include "core/core.h"
#include "io/fields.h"

enum { ATVI_SUMMARY_QUANTILES = 5 }; /* 2.5, 25, 50, 75, 97.5 % */
#define ATVI_SUMMARY_RHAT 1.01       /* chains agree below this (Vehtari and others 2021) */
#define ATVI_SUMMARY_ESS                                                                                     \
  400.0 /* effective draws that are enough where none were asked for; the same authors */

typedef struct {
  const char *name;
  double lower, upper; /* bounds, as in the draws */
  double mean, sd, mode, median, hpd95[2], quantile[ATVI_SUMMARY_QUANTILES];
  /* Of weighted draws: how many independent draws have means, and 5 % and 95 % quantiles, with the same error as the weights
   * give them. Of other draws without chains their number. NaN where weights were refused. */
  double ess_bulk, ess_tail;
  double rhat; /* NaN without chains, or where the column is constant or not finite */
  double
      mcse; /* Monte Carlo standard error of the mean, inflated for k-hat > 0.5; NaN where weights were refused */
  double near_lower,
      near_upper; /* share of the posterior within 1 % of the range of a bound; NaN unless both are finite */
  double at_lower, at_upper; /* density at a finite bound as a share of the largest; NaN: no such bound */
  /* That share is above 15 %, and no accident of few draws: the bound cuts the posterior (a normal closer than 1.9 sds to it). */
  bool reaches_lower, reaches_upper;
} atvi_summary_column;

typedef struct {
  atvi_made made; /* strings from the pool */
  atvi_idx n, n_chain;
  bool chains;
  bool weighted; /* the weights of the draws were used */
  bool refused;  /* the draws are of an approximation that cannot be corrected */
  double ess;    /* 1 / sum of squared weights; n without weights; NaN if refused */
  atvi_idx n_param, n_col;
  atvi_summary_column *col; /* [n_col], parameters first */
  double log_map;           /* highest log prior + log likelihood among the draws */
  atvi_verdict verdict;
  atvi_idx n_message;
  atvi_message *message; /* [n_message] most important first; the draws' own messages last */
} atvi_summary;

/* Whether the draws are of an approximation that was trained, or of chains that started from one: made.steps is known. */
bool atvi_diag_made_variational(const atvi_made *made);
/* Whether weights cannot make d draws of the posterior: k-hat forbids it (atvi_math_psis_permits), or a variational method
 * has none. */
bool atvi_diag_weights_refused(const atvi_draws *d);
/* Whether d has weights that can be trusted. */
bool atvi_diag_weights_hold(const atvi_draws *d);
/* 1 / sum of squared weights, which need not sum to one; n without weights. */
double atvi_diag_weights_ess(const atvi_draws *d);

/* Everything above; memory from pool, d may be freed afterwards. Uses the context's threads. Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_diag_summary_new(atvi_pool *pool, const atvi_draws *d, atvi_summary **out);

/* What a fit cost and how good it is, in a line; NaN: not known. */
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

/* summary.json; NaN and infinite become null. Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_diag_summary_json(atvi_pool *pool, const atvi_summary *s, const char **text);

/* A table and the messages for a terminal, at most 100 columns wide, and where the word of the verdict is in it. Errors:
 * ENOMEM. */
ATVI_CHECKED atvi_status atvi_diag_summary_text(atvi_pool *pool, const atvi_summary *s, const char **text,
                                                size_t *verdict_at);

/* The first message behind a verdict that is not ok; NULL if it is. */
const atvi_message *atvi_diag_summary_reason(const atvi_summary *s);
/* The parameter that has the fewest effective draws, of those that tables show, and how many; -1: not known, *ess is then NaN. */
atvi_idx atvi_diag_summary_least_ess(const atvi_summary *s, double *ess);
/* Weights that were used although k-hat is above its threshold: the tail that it speaks of holds next to nothing. */
bool atvi_diag_summary_tail_is_small(const atvi_summary *s);
/* "k-hat is 0.56 (good up to 0.70)", or why it does no harm that it is larger; of weights that were used. NULL: no memory. */
const char *atvi_diag_summary_khat(atvi_pool *pool, const atvi_summary *s);

/* For summary.c: sets verdict and messages from the numbers, which must be there. Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_diag_summary_judge(atvi_pool *pool, const atvi_draws *d, atvi_summary *s);

#endif
