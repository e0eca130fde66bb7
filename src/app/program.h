/* SPDX-License-Identifier: MIT */
/* Commands for models whose simulator is an outside program: designs and runs. Text is owned by the pool given. */
#ifndef ATVI_APP_PROGRAM_H
#define ATVI_APP_PROGRAM_H

#include "app/app.h"

typedef struct {
  const char *path, *folder; /* the model, and --folder; NULL: as the model says */
  atvi_idx n;                /* points in all */
  const char *kind;          /* "lhs", "sobol"; NULL: lhs */
  uint64_t seed;
  const char *out; /* --out; NULL: <model>-runs here */
} atvi_app_design_opts;

typedef struct {
  const char *path;  /* of the design */
  const char *text;  /* table for the terminal */
  atvi_idx n_old, n; /* points that were there, points now */
} atvi_app_design_result;

/* atvi design. A design that is there is extended; its points stay. Errors: EINVAL (fewer points than there are, another prior, another sequence), EMODEL
 * (no simulator), EDATA (design.csv cannot be used), EIO, ENOMEM. */
ATVI_CHECKED atvi_status atvi_app_design(atvi_ctx *ctx, atvi_pool *pool, const atvi_app_design_opts *opts,
                                         atvi_app_design_result *result);

typedef struct {
  const char *path, *folder;
  const char *dir; /* --runs; NULL: <model>-runs here */
  int jobs;        /* 0: as the model says */
  double limit_s;  /* 0: as the model says */
  int retries;     /* -1: as the model says */
  bool retry_failed, keep_failed;
} atvi_app_program_opts;

typedef struct {
  const char *dir;             /* of design and record */
  const char *text;            /* summary for the terminal */
  atvi_idx good, failed, left; /* of the design's points, now */
  bool stopped;
} atvi_app_program_result;

/* atvi run. Errors: as of atvi_simulator_run and atvi_sim_record_open; EINVAL (no design), EDATA (design.csv), EMODEL. What was done is recorded
 * whatever the status. */
ATVI_CHECKED atvi_status atvi_app_program(atvi_ctx *ctx, atvi_pool *pool, const atvi_app_program_opts *opts,
                                          atvi_app_program_result *result);

#endif
