/* SPDX-License-Identifier: MIT */
/* The model at draws of its posterior: the one place that fills the groups of DRAWS; and the files, tables
 * and figures of atvi predict; only for src/app. */
#ifndef ATVI_APP_PREDICTIONS_H
#define ATVI_APP_PREDICTIONS_H

#include "app/common.h"
#include "atvi/draws.h"
#include "diag/score.h"

enum { ATVI_PREDICTIONS_CHECKED = 8 }; /* number of draws at which to check that a model is that of a fit */

/* `most` draws spread evenly over d and so over chains, or all draws: draw[*n], from 0. Memory from pool.
 * Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_app_predictions_pick(atvi_pool *pool, const atvi_draws *d, atvi_idx most,
                                                   atvi_idx *n, atvi_idx **draw);
/* Checks that the model and its data are those of draw[*n] of d, and drops draws that cannot be run. l: the
 * model as it was fitted. other: the data differ on purpose. dir: for messages. Errors: EDATA (other
 * parameters; another log likelihood), EMODEL (no draw can be run), ENOMEM. */
ATVI_CHECKED atvi_status atvi_app_predictions_check(atvi_loaded *l, const char *dir, const atvi_draws *d,
                                                    bool other, atvi_idx *n, atvi_idx *draw);

typedef struct {
  atvi_idx n;
  /* [n] draws to use */
  const atvi_idx *draw;
  /* rule by which values were held out; NULL: none */
  const char *holdout;
  /* as a fit keeps them: rows after those of the data are the grid, and predictions of an emulator given the
   * data are left out */
  bool fit;
  /* with the series of states */
  bool states;
  /* the model as it was fitted, for log likelihoods that add up to those of the draws; NULL: the same */
  atvi_loaded *fitted;
} atvi_predictions_opts;

/* Fills series and groups of d, on the context's threads: the model is run once at every draw for each of
 * predictions, simulated observations and likelihoods. l: the model with all its data. Errors: EINVAL
 * (holdout), ENOMEM. */
ATVI_CHECKED atvi_status atvi_app_predictions_fill(atvi_loaded *l, const atvi_predictions_opts *opts,
                                                   atvi_draws *d);
/* Priors of the parameters, which the summary reads too. */
void atvi_app_predictions_priors(const atvi_loaded *l, atvi_draws *d);
/* Series without groups, priors, and what a page says about the model. Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_app_predictions_describe(const atvi_loaded *l, const char *command,
                                                       atvi_draws *d);
/* Both, as the folder of a fit keeps them: on a grid of times, at up to 2000 draws, with draws of the prior
 * and the points that failed. l: the model as it was fitted; model, text: to load it again. Failures are
 * described in d->about.no_groups. Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_app_predictions_of_fit(atvi_loaded *l, const atvi_app_model *model,
                                                     const char *text, const char *holdout,
                                                     const char *command, atvi_draws *d);

/* What a process that only evaluates the model for another one does while that makes these predictions; l is
 * the model as it is fitted. Errors: those of atvi_app_load. */
ATVI_CHECKED atvi_status atvi_app_predictions_serve(atvi_ctx *ctx, atvi_pool *pool, const atvi_loaded *l,
                                                    const atvi_app_model *model, const char *holdout);

/* Number of rows of data set k without those added for additional times. */
atvi_idx atvi_app_predictions_rows(const atvi_model *m, atvi_idx k);
/* Whether ascending time[n] contain t, up to eps. */
bool atvi_app_predictions_among(atvi_idx n, const double *time, double t, double eps);
/* Rounding error of the largest of these times. */
double atvi_app_predictions_rounding(atvi_idx n, const double *time);
/* Whether the data have that time, or it is the start and something counts from it. */
bool atvi_app_predictions_in_data(const atvi_model *m, double t, double eps);

/* ---- files, tables and figures of atvi predict ---- */

/* predict.csv or forecast.csv: the wanted points, with the data columns that observations depend on.
 * quartiles: write these too. Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_app_predict_csv(atvi_pool *pool, const atvi_loaded *l, atvi_idx n,
                                              const atvi_predicted *series,
                                              bool (*wanted)(const atvi_point *p), bool quartiles,
                                              const char **text);

/* Reads DIR/forecast.csv for series[n] into forecast[n], in order of time; NULL: no such file. Memory from
 * pool. Errors: EDATA (the file is damaged), EIO, ENOMEM. */
ATVI_CHECKED atvi_status atvi_app_predict_read_forecast(atvi_pool *pool, const char *dir, atvi_idx n,
                                                        const atvi_predicted *series,
                                                        const atvi_predicted **forecast);

/* Marks the points at the times time[n_time], ascending. l: the model with these times after its data. grid:
 * the rows of the data are wanted. */
void atvi_app_predict_mark(const atvi_loaded *l, bool grid, atvi_idx n_time, const double *time, atvi_idx n,
                           atvi_predicted *series);
/* These points of each series for a terminal, or if there are many the first and last few. lang NULL: points
 * are rows, not times. Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_app_predict_forecast_text(atvi_pool *pool, const atvi_lang *lang, atvi_idx n,
                                                        const atvi_predicted *series, const char **text);
/* DIR/figures/forecast.svg and .pdf: the observed series, data and bands. Errors: EIO, ENOMEM. */
ATVI_CHECKED atvi_status atvi_app_predict_figure(atvi_pool *pool, const atvi_loaded *l, const char *dir,
                                                 atvi_idx n, const atvi_predicted *series);
/* A note on times that are not spaced like the data, when observations count since the previous time. *note
 * is NULL if there is nothing to say. Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_app_predict_spacing(atvi_pool *pool, const atvi_loaded *l, atvi_idx n_time,
                                                  const double *time, const char **note);

/* The values at draw[n_draw] of draws.csv. Errors: EIO, ENOMEM. */
ATVI_CHECKED atvi_status atvi_app_predict_save_draws(atvi_pool *pool, const char *path, atvi_idx n,
                                                     const atvi_predicted *series, atvi_idx n_draw,
                                                     const atvi_idx *draw);

#endif
