/* SPDX-License-Identifier: MIT */
/* The files of a record, and which runs they have.
 *
 * A record is DIR/runs.jsonl and the shards DIR/shards/NAME.jsonl, in the order of their names, which begin with the time
 * of their start. Every file has one writer. If files have the same run, a good one counts before a failed one, and of
 * equals the last. Lists of shards serve other records too, such as DIR/replicates.csv. */
#ifndef ATVI_SIM_SHARDS_H
#define ATVI_SIM_SHARDS_H

#include "core/core.h"

/* Paths of the files of the record whose first is `path` (DIR/runs.jsonl), in order; it need not exist. Memory from
 * pool. Errors: EIO, ENOMEM. */
ATVI_CHECKED atvi_status atvi_sim_shards_list(atvi_pool *pool, const char *path, atvi_idx *n,
                                              const char *const **list);
/* Path of the shard of that name of a record; the folder is made. NULL, after a failure: EIO, ENOMEM. */
const char *atvi_sim_shards_path(atvi_pool *pool, const char *path, const char *name);

/* Makes DIR/runs.jsonl, if it is missing, with the first line of a shard. Errors: EIO, ENOMEM. */
ATVI_CHECKED atvi_status atvi_sim_shards_begin(atvi_ctx *ctx, const char *dir, const char *shard);

/* ---- which runs there are, without their outputs ---- */

typedef struct {
  const char *path;
  /* Of the worker; "" for runs.jsonl. */
  const char *name;
  /* Bytes read. */
  int64_t at;
  /* Runs in it. */
  atvi_idx ok, failed;
} atvi_sim_part;

typedef struct {
  bool ok;
  /* Lines that say it failed, and how many of them are to be forgotten. */
  int failed, forgiven;
  /* Of the last failure; NULL: none. */
  const char *reason;
} atvi_sim_mark;

typedef struct {
  atvi_pool *pool;
  const char *dir;
  atvi_sim_part *part; /* [n_part] in order */
  atvi_idx n_part;
  atvi_sim_mark *mark; /* [n_mark] by id */
  atvi_idx n_mark;
  /* Seconds of all runs, of the longest, and their number. */
  double seconds, longest_s;
  atvi_idx n_timed;
  /* Bytes read of the list of runs to repeat. */
  int64_t forgiven_at;
  /* Points with a good run. */
  atvi_idx n_ok;
} atvi_sim_index;

typedef enum { ATVI_SIM_OPEN, ATVI_SIM_GOOD, ATVI_SIM_FAILED } atvi_sim_state;

/* Reads what was added since the last call (at first *ix is {pool, dir}). Incomplete last lines are left for the next
 * call. Errors: EIO, ENOMEM; EDATA (a line that is not one of a record). */
ATVI_CHECKED atvi_status atvi_sim_index_read(atvi_sim_index *ix);
atvi_sim_state atvi_sim_index_state(const atvi_sim_index *ix, int64_t id);
/* Opens the failed runs again. Not to be called while others do so. Errors: EIO, ENOMEM. */
ATVI_CHECKED atvi_status atvi_sim_index_forgive(atvi_sim_index *ix, atvi_idx n, const int64_t *id);

#endif
