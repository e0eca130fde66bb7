/* SPDX-License-Identifier: MIT */
/* Work that several processes share by files (sim/claims.h): submitting workers, and what the files say about
 * them; only for src/app. */
#ifndef ATVI_APP_SHARE_H
#define ATVI_APP_SHARE_H

#include "app/app.h"
#include "io/text.h"
#include "sim/claims.h"
#include "sim/record.h"

/* What the record says about the items. */
typedef struct {
  atvi_idx n;
  const int64_t *id; /* [n] as claims number them */
  /* [n] of atvi_sim_state. */
  const unsigned char *state;
  /* [n] of failed ones. */
  const char *const *reason;
  /* Name of an item for messages; NULL: "run 7". */
  const char *(*label)(const void *self, atvi_pool *pool, atvi_idx i);
  /* Seconds of all that were timed, and their number. */
  double seconds;
  atvi_idx n_timed;
  /* [n_part] names of workers, ascending, and how many items each has recorded. */
  atvi_idx n_part;
  const char *const *part;
  const atvi_idx *part_done;
} atvi_share_items;

typedef struct atvi_share atvi_share;
struct atvi_share {
  atvi_ctx *ctx;
  atvi_pool *pool;
  const atvi_app_share *o;
  /* Folder of the record, and of the claims. */
  const char *dir, *claims;
  /* Of the jobs; the command that shows their state; and what an item is called, "run". */
  const char *job, *command, *item;
  void *self;
  /* Reads the record. Memory from pool. */
  atvi_status (*look)(void *self, atvi_pool *pool, atvi_share_items *out);
};

typedef struct {
  atvi_idx good, failed, open;
  /* Open items that a worker has claimed; workers that are alive. */
  atvi_idx held, workers;
} atvi_share_counts;

/* What is done, running where, and failed why. Memory of *text from s->pool. */
ATVI_CHECKED atvi_status atvi_app_share_status(const atvi_share *s, const char **text,
                                               atvi_share_counts *out);
/* Hands workers to the scheduler, and waits for them if asked to. */
ATVI_CHECKED atvi_status atvi_app_share_submit(const atvi_share *s, const char **text,
                                               atvi_share_counts *out);
/* Makes sure that no worker is alive, and forgets what those before have claimed. Errors: EEXIST, EIO,
 * ENOMEM. */
ATVI_CHECKED atvi_status atvi_app_share_alone(atvi_ctx *ctx, const char *claims);
/* When this process must have ended, in seconds since 1970: as asked for, or with its Slurm job; 0: not
 * known. */
double atvi_app_share_end_s(atvi_pool *pool, const atvi_app_share *o);
/* Seconds since 1970. */
double atvi_app_share_now_s(void);
/* Number of this job in its scheduler; "": none. */
const char *atvi_app_share_job(atvi_pool *pool);
/* A reason, cut off if it is long. */
const char *atvi_app_share_words(atvi_pool *pool, const char *reason);

#endif
