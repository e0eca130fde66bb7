/* SPDX-License-Identifier: MIT */
/* Parts of atvi predict; only for src/app. */
#ifndef ATVI_APP_PREDICT_H
#define ATVI_APP_PREDICT_H

#include "app/common.h"
#include "app/predictions.h"
#include "diag/score.h"

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
/* ---- a file without observations, whose rows are predicted ---- */

typedef struct {
  atvi_idx n;
  /* [n] ascending. */
  const double *time;
} atvi_predict_rows;

/* Where the model continues from, according to the fit. */
typedef struct {
  /* The data of the fit could be read. */
  bool known;
  atvi_idx n_data;
  /* [n_data] the rows of the fit's data sets. */
  atvi_predict_rows *of;
  /* The model with the start of the fit, if that depends on the data; else NULL. */
  const char *text;
  /* [n_data] as in atvi_model_load_opts; NULL: nothing counts since the previous row. */
  const double *since;
} atvi_predict_grid;

/* l: the model with the file instead of its data. folder: of files, NULL for that of the fit. Memory from
 * pool. Errors: EDATA (the start of the model is not known), ENOMEM. */
ATVI_CHECKED atvi_status atvi_app_predict_grid_find(atvi_pool *pool, const atvi_loaded *l,
                                                    const atvi_fitted *run, const char *folder,
                                                    atvi_predict_grid *g);
/* A note on the time spans that rows count over; *note is NULL if there is nothing to say. Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_app_predict_grid_note(atvi_pool *pool, const atvi_loaded *l,
                                                    const atvi_predict_grid *g, const char **note);

/* The values at draw[n_draw] of draws.csv. Errors: EIO, ENOMEM. */
ATVI_CHECKED atvi_status atvi_app_predict_save_draws(atvi_pool *pool, const char *path, atvi_idx n,
                                                     const atvi_predicted *series, atvi_idx n_draw,
                                                     const atvi_idx *draw);

#endif
