/* SPDX-License-Identifier: MIT */
/* The contents of a fit's folder, read back as DRAWS; only for src/app. */
#ifndef ATVI_APP_KEPT_H
#define ATVI_APP_KEPT_H

#include "app/predictions.h"

typedef struct {
  atvi_pool *pool;
  const atvi_app_report_opts *opts;
  const char *dir;
  /* texts of fit.json and model.atvi */
  const char *how, *text;
  /* path of the model and rule of the holdout, as in fit.json; NULL: none */
  const char *file, *holdout;
  /* as the method made them, and draws that count equally, with the groups; may be the same */
  atvi_draws *draws, *plain;
  /* the folder is from an older version and the model could not be run; plain->about.no_groups says why */
  bool failed;
  atvi_fitted run;
  /* if the model was needed; zeroed: it was not, or it cannot be loaded */
  atvi_loaded l;
} atvi_kept;

/* Reads the folder of opts->where. For a folder of an older version, without groups, the model is run again
 * at the draws if its files still exist. Close *out in any case; strings are from pool. Errors: EINVAL (not a
 * finished fit), EDATA (a file is damaged), EIO, ENOMEM. */
ATVI_CHECKED atvi_status atvi_app_kept_open(atvi_ctx *ctx, atvi_pool *pool, const atvi_app_report_opts *opts,
                                            atvi_kept *out);
/* Loads the model as it was fitted. Errors: those of atvi_app_fitted_read and atvi_app_load. */
ATVI_CHECKED atvi_status atvi_app_kept_load(atvi_kept *x);
void atvi_app_kept_close(atvi_kept *x);

#endif
