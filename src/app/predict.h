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
  double *mean;        /* [n_out][B] */
  double *draw;        /* [n_obs][B] simulated */
  double *log_lik;     /* [n_obs][B] */
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

/* predict.csv. Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_predict_csv(atvi_pool *pool, atvi_idx n, const atvi_predicted *series,
                                          const char **text);
/* The draws themselves. Errors: EIO, ENOMEM. */
ATVI_CHECKED atvi_status atvi_predict_save_draws(atvi_ctx *ctx, atvi_pool *pool, const char *path, atvi_idx n,
                                                 const atvi_predicted *series, const atvi_predict_draws *p);

#endif
