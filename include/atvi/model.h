/* SPDX-License-Identifier: MIT */
/* A model file and its data, ready to be evaluated: the usual way to a TARGET. */
#ifndef ATVI_MODEL_H
#define ATVI_MODEL_H

#include "atvi/target.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
  const char *name; /* data set; NULL or "": the only one */
  const char *path;
} atvi_model_data;

typedef struct {
  atvi_idx n_data;
  const atvi_model_data *data; /* files put in the place of the model's */
  bool interpret;              /* do not generate and compile code */
  atvi_idx n_time;
  const double *time; /* [n_time] ascending: predict at these times, without data (NULL: at the data's) */
  /* Predict at the data's times and at these. What an observation counts since the time before (increase) then counts, in
   * rows of the data as without them, and at these since the last time of either before. */
  bool extend;
  /* [n data sets of the model] The time from which the first row of each counts what it counts since the row before (increase), in the
   * place of the start; NaN, or not between the start and that row: the start. NULL: all from the start. */
  const double *since;
  const char *
      text; /* the model, in place of what the file holds; paths in it are relative to the file (NULL: the file) */
  const char *holdout; /* rows that are no part of the likelihood: "t > 14", "row % 5 == 0" (NULL: none) */
  const char *
      folder; /* files are looked for here, in place of where the model says; relative to the working folder (NULL: as it says) */
  /* Rows, as in holdout, whose values are there to be compared with predictions but not to be learnt from, where observations depend on each
   * other (sums of processes; others are predicted from parameters alone, and this changes nothing for them). NULL: none */
  const char *apart;
  const char *
      runs; /* folder with the runs of the model's simulator and its emulators (NULL: <model>-runs in the working folder, else next to the model) */
  atvi_idx
      runs_lines; /* the first lines of the record of runs alone, as it was when it had so many (0: all) */
  /* Folder with the emulators of a fit, emulator-NAME.json, which must be of these runs (NULL: those with the runs, if they are; else they are
   * fitted) */
  const char *emulators;
  bool
      forward; /* observations that are sums of processes are predicted from the parameters alone, not from values */
} atvi_model_opts;

typedef struct atvi_model atvi_model;

/* Reads a model file (docs/language.md) and its data. opts NULL: defaults. Errors: EIO, EMODEL, EDATA, EINVAL
 * (times, holdout), ENOMEM. */
ATVI_API ATVI_CHECKED atvi_status atvi_model_load(atvi_ctx *ctx, const char *path,
                                                  const atvi_model_opts *opts, atvi_model **out);
ATVI_API void atvi_model_free(atvi_model *model); /* NULL is fine */
/* Valid as long as the model. */
ATVI_API const atvi_target *atvi_model_target(const atvi_model *model);

#ifdef __cplusplus
}
#endif
#endif
