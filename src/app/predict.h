/* SPDX-License-Identifier: MIT */
/* Parts of atvi predict; for src/app/predict*.c alone. */
#ifndef ATVI_APP_PREDICT_H
#define ATVI_APP_PREDICT_H

#include "app/run.h"
#include "diag/score.h"

/* Everything the model says at B draws. */
typedef struct {
  atvi_idx B;
  double *theta;       /* [d][B] */
  atvi_idx *line;      /* [B] number of the draw in draws.csv, from 1 */
  double *was_log_lik; /* [B] what the fit found */
  bool observed_alone; /* leave mean out, and with it what is not observed */
  bool want_others;    /* others too, where values depend on each other given the parameters */
  double *mean;        /* [n_out][B] */
  double *draw;        /* [n_obs][B] simulated */
  double *
      others; /* [n_obs][B] each value given all the others; NULL: draw has them so, or they are not wanted */
  double *log_lik; /* [n_obs][B] */
} atvi_predict_draws;

/* Fills mean, draw and log_lik, on the context's threads. Memory from pool. Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_predict_run(atvi_ctx *ctx, atvi_pool *pool, atvi_loaded *l, uint64_t seed,
                                          atvi_predict_draws *p);
/* Checks that the model and its data are those of the draws, and leaves out draws that cannot be run; *n_failed says how many. l: the
 * model as it was fitted. Errors: EDATA (the log likelihood is not what it was), EMODEL (no draw can be run), ENOMEM. */
ATVI_CHECKED atvi_status atvi_predict_check(atvi_ctx *ctx, atvi_loaded *l, const atvi_run *run,
                                            atvi_predict_draws *p, atvi_idx *n_failed);

/* The numbers as series of points, in the order of time. l: the model with all its data. Memory from pool. Errors: EINVAL (holdout), ENOMEM. */
ATVI_CHECKED atvi_status atvi_predict_series(atvi_ctx *ctx, atvi_pool *pool, const atvi_loaded *l,
                                             const char *holdout, const atvi_predict_draws *p, atvi_idx *n,
                                             atvi_predicted **out);

/* predict.csv or forecast.csv: the points that are wanted, with the columns of the data that observations depend on. Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_predict_csv(atvi_pool *pool, const atvi_loaded *l, atvi_idx n,
                                          const atvi_predicted *series, bool (*wanted)(const atvi_point *p),
                                          const char **text);

/* Marks the points at the times asked for: time[n_time] ascending. l: the model with these times after its data. */
void atvi_predict_mark(const atvi_loaded *l, atvi_idx n_time, const double *time, atvi_idx n,
                       atvi_predicted *series);
/* The first and the last of them, of each series, for a terminal. word: "time" or "row". Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_predict_forecast_text(atvi_pool *pool, const char *word, atvi_idx n,
                                                    const atvi_predicted *series, const char **text);
/* What the user should know of times that are not spaced as the data are, where observations count since the time before. *note is NULL where
 * there is nothing. Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_predict_spacing(atvi_pool *pool, const atvi_loaded *l, atvi_idx n_time,
                                              const double *time, const char **note);
/* The draws themselves. Errors: EIO, ENOMEM. */
ATVI_CHECKED atvi_status atvi_predict_save_draws(atvi_ctx *ctx, atvi_pool *pool, const char *path, atvi_idx n,
                                                 const atvi_predicted *series, const atvi_predict_draws *p);

#endif
