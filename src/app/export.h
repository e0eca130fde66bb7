/* SPDX-License-Identifier: MIT */
/* A fit in the formats of others; for src/app alone. docs/formats.md tells what is in them. */
#ifndef ATVI_APP_EXPORT_H
#define ATVI_APP_EXPORT_H

#include "app/common.h"
#include "atvi/draws.h"
#include "diag/summary.h"

/* What the model says at some of the draws, and before the data. */
typedef struct {
  const atvi_target *target; /* borrowed: its series are those of the data */
  const char **name;         /* [n_series] of each observed series, unique */
  atvi_idx n_series;         /* observed */
  atvi_idx n_data;
  const char **axis; /* [n_data] name of the dimension along the rows of a data set */
  atvi_idx n_chain, per_chain;
  int64_t *draw;                /* [per_chain] which draws of each chain, from 0 */
  double *predictive, *log_lik; /* [n_obs][n_chain * per_chain] */
  atvi_draws *prior;            /* NULL where it cannot be drawn */
} atvi_export_said;

/* Runs the model at draws of d, at most 2000 and no more than fit for the cost of the fit. Memory from pool, and out->prior, for
 * atvi_export_said_free. Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_export_ask(atvi_ctx *ctx, atvi_pool *pool, atvi_loaded *l, const atvi_draws *d,
                                         atvi_export_said *out);
void atvi_export_said_free(atvi_export_said *said); /* zeroed is fine */

typedef struct {
  const atvi_draws *plain;      /* draws that count equally */
  const atvi_draws *weighted;   /* NULL: there are none */
  const char *verdict;          /* NULL: not known */
  const atvi_export_said *said; /* NULL: groups that it takes the model for are left out */
} atvi_export_fit;

/* netCDF-4 in the layout of ArviZ's InferenceData. Errors: EIO (no netCDF library, or the file cannot be written), ENOMEM. */
ATVI_CHECKED atvi_status atvi_export_nc(atvi_ctx *ctx, atvi_pool *pool, const atvi_export_fit *fit,
                                        const char *path);

/* fit.nc of a fit that has just been made, where there is a netCDF library; what goes wrong is logged, for the fit is worth more. */
void atvi_export_after_fit(atvi_ctx *ctx, atvi_pool *pool, atvi_loaded *l, const atvi_draws *plain,
                           const atvi_draws *weighted, const char *verdict, const char *dir);

/* What posteriordb keeps beside draws: how they were made and their diagnostics. Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_export_info(atvi_pool *pool, const atvi_draws *d, const atvi_summary *s,
                                          const char **text);

#endif
