/* SPDX-License-Identifier: MIT */
/* A model file and its data, ready to be evaluated: the usual way to a TARGET. */
#ifndef ATVI_MODEL_H
#define ATVI_MODEL_H

#include "atvi/target.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
  /* set by atvi_model_defaults */
  size_t size;
  /* [n_data] files instead of those that the model names */
  atvi_idx n_data;
  const atvi_data_file *data;
  /* do not generate and compile code */
  bool interpret;
  /* [n_time] ascending: predict at these times, without data; NULL: at those of the data */
  atvi_idx n_time;
  const double *time;
  /* rows that are not part of the likelihood: "t > 14", "row % 5 == 0"; NULL: none */
  const char *holdout;
  /* where to look for files, relative to the working folder; NULL: where the model says */
  const char *folder;
  /* folder with the runs of the model's simulator and its emulators; NULL: <model>-runs in the working
   * folder, else next to the model */
  const char *runs;
} atvi_model_opts;

/* Everything as the model file says. */
ATVI_API atvi_model_opts atvi_model_defaults(void);

typedef struct atvi_model atvi_model;

/* Reads a model file (docs/language.md) and its data. opts NULL: defaults. Errors: EIO, EMODEL, EDATA, EINVAL
 * (times, holdout, a size of an unknown version), ENOMEM. */
ATVI_API ATVI_CHECKED atvi_status atvi_model_load(atvi_ctx *ctx, const char *path,
                                                  const atvi_model_opts *opts, atvi_model **out);
ATVI_API void atvi_model_free(atvi_model *model); /* NULL is fine */
/* Valid as long as the model. */
ATVI_API const atvi_target *atvi_model_target(const atvi_model *model);

#ifdef __cplusplus
}
#endif
#endif
