/* SPDX-License-Identifier: MIT */
/* A fit in the formats of other programs; only for src/app. docs/formats.md describes them. */
#ifndef ATVI_APP_EXPORT_H
#define ATVI_APP_EXPORT_H

#include "app/common.h"
#include "atvi/draws.h"

typedef struct {
  /* draws that count equally, with their groups */
  const atvi_draws *plain;
  /* NULL: none */
  const atvi_draws *weighted;
  /* NULL: not known */
  const char *verdict;
} atvi_export_fit;

/* netCDF-4 in the layout of ArviZ's InferenceData, written by a process of its own: libhdf5 may crash if memory
 * is short. Errors: EIO (no netCDF library, or the file cannot be written), ENOMEM. */
ATVI_CHECKED atvi_status atvi_app_export_nc(atvi_ctx *ctx, atvi_pool *pool, const atvi_export_fit *fit,
                                            const char *path);

/* fit.nc of a new fit, if there is a netCDF library; errors are logged and do not fail the fit. */
void atvi_app_export_after_fit(atvi_ctx *ctx, atvi_pool *pool, const atvi_export_fit *fit, const char *dir);

#endif
