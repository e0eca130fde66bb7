/* SPDX-License-Identifier: MIT */
/* Predictions against what was observed: bands, scores, LOO and WAIC.
 *
 * A predicted quantity has draws of its mean (given the parameters: the model without noise) and, if it is
 * observed, draws of the observation itself (predictive) and of its log likelihood.
 *
 *   coverage    share of the observed values inside the 95 % HPD band of the predictive draws
 *   ail         mean length of that band
 *   mspe        mean squared error of the predictive mean, for which the mean of the draws of the mean is taken: the same number without
 *               the noise of simulated observations (but of a value with `others` the mean of these)
 *   ail_sum     length of the band summed over the values of a series; over all, averaged over the series
 *   mspe_draws  squared error of a predictive draw, averaged over draws and values: includes the predictive variance
 *   lpd         sum of the log mean likelihood of each value; of values held out, the log predictive density
 *
 * The last but two are the definitions of the tables in Cho, Chang and Park. Censored values have bands but
 * are not scored, since it is not known where they are. */
#ifndef ATVI_DIAG_SCORE_H
#define ATVI_DIAG_SCORE_H

#include "atvi/draws.h"
#include "core/core.h"
#include "io/fields.h"
#include "math/stat/stat.h"

typedef struct {
  double mean, sd, median, hpd95[2], quartile[2];
} atvi_band;

/* One quantity at one time. Bands and what follows them are NaN if not known. */
typedef struct {
  double time;
  /* in its series, in the order of the model */
  atvi_idx row;
  /* the user asked for this time */
  bool asked;
  /* the data have this time */
  bool given;
  /* between the times of the data, for a curve */
  bool grid;
  /* observed; NaN: not */
  double value;
  /* the value was held out of the fit */
  bool held;
  /* held out, but only of this prediction */
  bool apart;
  /* observed, and not only as a limit */
  bool exact;
  /* [n_draw] of the mean; NULL: none */
  const double *mean;
  /* [n_draw] simulated observations; NULL: none */
  const double *draw;
  /* [n_draw]; NULL: none */
  const double *log_lik;
  /* [n_draw] draws given all values but this one, by which it is judged; NULL: it is judged by draw */
  const double *others;
  /* [n_draw] the simulator without its discrepancy; NULL: not separate */
  const double *alone;
  /* set by atvi_diag_predicted_judge */
  atvi_band of_mean, of_draw, of_alone;
  atvi_loo_point loo;
  /* observed minus predicted, in predictive standard deviations; set by atvi_diag_predicted_residuals */
  double residual;
  /* probability of a smaller observation, in [0, 1]; likewise */
  double pit;
} atvi_point;

typedef struct {
  const char *name;
  atvi_series_kind kind;
  /* whose it is, "subject s01"; "": nobody's alone */
  const char *unit;
  /* the data have no time: times are row numbers */
  bool rows;
  /* predictions use the values that were not held out, and do not test them */
  bool told;
  /* each value is judged by a prediction from all others */
  bool others;
  atvi_idx n;
  /* [n] in the order of time */
  atvi_point *point;
} atvi_predicted;

typedef struct {
  /* Name of the series; NULL: all together. */
  const char *name;
  /* Values scored; 0: everything else is NaN. */
  atvi_idx n;
  atvi_idx n_inside;
  double coverage, ail, mspe, ail_sum, mspe_draws, lpd;
} atvi_score;

typedef struct {
  atvi_idx n_draw;
  /* Observed ones. */
  atvi_idx n_series;
  /* [n_series] values that were part of the fit, and those that were not. */
  atvi_score *fitted, *held;
  atvi_score fitted_all, held_all;
  /* Values not scored. */
  atvi_idx n_censored;
  /* Of values that were part of the fit, censored ones too. */
  atvi_loo_sum loo, waic;
  double khat_threshold;
  /* The observation with the largest k-hat. */
  struct {
    /* NULL: none. */
    const char *name;
    double time, khat;
    /* Of the time, set by the caller; NULL: no dates. */
    const char *date;
  } worst;
  /* The same where each unit is left out with all of its values. n = 0: there are no units. */
  atvi_loo_sum units;
  struct {
    const char *name;
    double khat;
  } worst_unit;
  /* set by the caller; strings are borrowed */
  /* Holdout: the rule; NULL: none. */
  const char *model, *method, *verdict, *holdout;
  /* The rule of this prediction, not of the fit. */
  bool apart;
  uint64_t seed;
  double log_map;
  atvi_idx n_message;
  const char **message;
} atvi_scores;

/* Band of n draws, ignoring NaN. work: 3 n doubles. NaN if there are none. */
atvi_band atvi_diag_band_of(atvi_idx n, const double *x, double *work);

/* "observed", "tracked", "state". */
const char *atvi_diag_series_word(atvi_series_kind kind);
/* A point of which only the time is known. */
atvi_point atvi_diag_point_at(double time);

enum {
  /* with the times between those of the data */
  ATVI_PREDICTED_GRID = 1,
  /* with the log likelihood of values */
  ATVI_PREDICTED_LOO = 2,
};
/* The series of d with the contents of its groups; rows without a value and without a prediction are left
 * out. Values are borrowed from d, memory is from pool. Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_diag_predicted_read(atvi_pool *pool, const atvi_draws *d, int what, atvi_idx *n,
                                                  atvi_predicted **out);
/* Number of draws behind the predictions of d; 0: none. */
atvi_idx atvi_diag_predicted_draws(const atvi_draws *d);
/* Residuals and probabilities of judged series, on the context's threads. seed: of the fit; equal values
 * count in part, at random. */
void atvi_diag_predicted_residuals(atvi_ctx *ctx, uint64_t seed, atvi_idx n_draw, atvi_idx n,
                                   atvi_predicted *series);
/* [s->n] the field of every point at that offset in atvi_point, a double; NULL: out of memory. */
double *atvi_diag_predicted_column(atvi_pool *pool, const atvi_predicted *s, size_t offset);

/* Fills the bands and loo of every point, on the context's threads. Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_diag_predicted_judge(atvi_ctx *ctx, atvi_idx n_draw, atvi_idx n,
                                                   atvi_predicted *series);
/* Scores of judged series; memory from pool, names are borrowed. Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_diag_scores_new(atvi_pool *pool, atvi_idx n_draw, atvi_idx n,
                                              const atvi_predicted *series, atvi_scores **out);

/* Units of series that were read with ATVI_PREDICTED_LOO, each left out with all of its values that were part
 * of the fit: unit[*n] and loo[*n]. Memory from pool. Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_diag_unit_loo(atvi_pool *pool, atvi_idx n_draw, atvi_idx n_series,
                                            const atvi_predicted *series, atvi_idx *n, const char ***unit,
                                            atvi_loo_point **loo);

/* Fields of atvi_score, for JSON, CSV and tables. */
extern const atvi_fields atvi_diag_score_fields;
/* {"series": [...], "all": {...}} of each[n] and all, as in scores.json; all NULL: null. */
void atvi_diag_scores_put(atvi_json *w, const char *key, atvi_idx n, const atvi_score *each,
                          const atvi_score *all);
/* scores.json; NaN and infinities become null. Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_diag_scores_json(atvi_pool *pool, const atvi_scores *s, const char **text);
/* A table for a terminal, at most 100 columns wide. Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_diag_scores_text(atvi_pool *pool, const atvi_scores *s, const char **text);

#endif
