/* SPDX-License-Identifier: MIT */
/* Fits that were interrupted; only for src/app.
 *
 * DIR/checkpoint (io/memo.h) is there from the beginning of a fit to its end. It also says how the fit was called, and has
 * fingerprints of the program and of all files that were read. A fit continues only if they are the same. */
#ifndef ATVI_APP_RESUME_H
#define ATVI_APP_RESUME_H

#include "app/common.h"
#include "io/memo.h"

#define ATVI_APP_CHECKPOINT "checkpoint"

/* Whether DIR has a fit that was interrupted. */
bool atvi_app_resume_there(atvi_pool *pool, const char *dir);
/* The options with which the fit in opts->resume was begun, with out and force set; the caller's are kept where they change nothing in the
 * results. Memory from pool. Errors: EINVAL (there is nothing to resume), EDATA (the checkpoint is damaged), EIO, ENOMEM. */
ATVI_CHECKED atvi_status atvi_app_resume_options(atvi_ctx *ctx, atvi_pool *pool,
                                                 const atvi_app_fit_opts *opts, atvi_app_fit_opts *out);
/* Makes the folder of a fit (atvi_app_out_dir) and its memo, or continues the fit that was interrupted there. Errors: EEXIST (that was another fit, and
 * opts->force is not set: the message says what differs), EDATA, EIO (also: another process is at it), ENOMEM. */
ATVI_CHECKED atvi_status atvi_app_resume_begin(atvi_ctx *ctx, atvi_pool *pool, const atvi_app_fit_opts *opts,
                                               const atvi_loaded *l, const char **dir, atvi_memo **memo);

/* Version and fingerprint of the program: another one may give other draws. Memory from pool; NULL: none. */
const char *atvi_app_resume_program(atvi_pool *pool);
/* The memo of one fit of a repeated run, in DIR; item: end of its name. What another fit left there is dropped. about: the program, and which fit it is. every_s as
 * checkpoint_s. Errors: EIO, ENOMEM. */
ATVI_CHECKED atvi_status atvi_app_resume_item(atvi_ctx *ctx, atvi_pool *pool, const char *dir,
                                              const char *item, double every_s, const char *about,
                                              atvi_memo **memo);

#endif
