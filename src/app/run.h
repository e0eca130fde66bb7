/* SPDX-License-Identifier: MIT */
/* Shared by runs of a simulator: in this process, as one of several workers, and submitted; only for src/app. */
#ifndef ATVI_APP_RUN_H
#define ATVI_APP_RUN_H

#include "app/program.h"
#include "app/share.h"

typedef struct {
  atvi_ctx *ctx;
  atvi_pool *pool;
  const atvi_app_run_opts *o;
  const atvi_lang *lang;
  const char *dir;
  const char **name; /* [d] */
  atvi_idx d;
  atvi_program_points points;
} atvi_run_job;

/* What is to be done, without a source. */
atvi_sim_batch atvi_app_run_batch(const atvi_run_job *j);
/* Does runs together with the other workers of the folder. */
ATVI_CHECKED atvi_status atvi_app_run_worker(atvi_run_job *j, atvi_simulator *sim,
                                             atvi_app_run_result *result);

#endif
