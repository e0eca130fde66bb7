/* SPDX-License-Identifier: MIT */
/* A finished fit as its folder tells it; for src/app alone. */
#ifndef ATVI_APP_FITTED_H
#define ATVI_APP_FITTED_H

#include "app/common.h"

typedef struct {
  const char *dir;
  const char *method, *verdict; /* verdict: NULL where summary.json is gone */
  const char *holdout;          /* rule; NULL: none */
  atvi_idx held_n;              /* values that were held out; -1: not known */
  const char *held_hash;        /* of them (atvi_app_held_hash); NULL: not known */
  uint64_t seed;
  double log_map;       /* NaN where summary.json is gone */
  const char *text;     /* the model as it was fitted */
  atvi_app_model model; /* its path, data and fixed parameters as they were */
  bool changed;         /* the model file is no longer what was fitted */
} atvi_fitted;

/* Reads the folder of a fit (atvi_app_find_run). data[n_data] are files given now in the place of those of the fit. Paths of the fit are
 * relative to the folder it was started in or, where there is no such file, to the working folder. Memory from pool.
 * Errors: EINVAL (no such run, or one that is not complete), EDATA (fit.json cannot be read, a data file is gone), EIO, ENOMEM. */
ATVI_CHECKED atvi_status atvi_fitted_read(atvi_ctx *ctx, atvi_pool *pool, const char *where, atvi_idx n_data,
                                          const atvi_data_file *data, atvi_fitted *out);

#endif
