/* SPDX-License-Identifier: MIT */
/* The record of a simulator's runs: an append-only file with one line of JSON per run.
 *
 *   {"record":"atvi runs","version":1,"parameters":["k","m"],"outputs":["flow"],"program":"..."}
 *   {"id":1,"outcome":"ok","seconds":2.1,"attempts":1,"parameters":{"k":0.31,"m":7.5},"outputs":{"flow":{"time":[1,2],"value":[3.2,4.1]}}}
 *   {"id":2,"outcome":"failed","seconds":0.3,"attempts":2,"parameters":{...},"ended":true,"reason":"ended with status 1","log":"..."}
 *
 * A line is written by one call and forced to the disk before the next run starts in its slot, so that a kill
 * at any moment loses at most the runs in progress. An incomplete last line is cut off when the record is
 * opened next; readers skip it. If several lines have the same id, the last counts.
 *
 * Processes that share the runs write shards of it: its files are DIR/runs.jsonl and the shards
 * DIR/shards/NAME.jsonl, in the order of their names, which begin with the time of their start. Every file
 * has one writer. If files have the same run, a good one counts before a failed one, and of equals the last.
 * Lists of shards serve other records too, such as DIR/replicates.csv. */
#ifndef ATVI_SIM_RECORD_H
#define ATVI_SIM_RECORD_H

#include "sim/output.h"

enum { ATVI_SIM_ID_MAX = 10000000 };

/* The folder of a model's design and record: "<name of the model>-runs" in the working folder or, if that is
 * missing, next to the model file. Memory from pool; NULL: out of memory. And the names in it. */
const char *atvi_sim_folder(atvi_pool *pool, const char *model_path);
#define ATVI_SIM_DESIGN "design.csv"
#define ATVI_SIM_RECORD "runs.jsonl"

/* ---- for readers ---- */

/* A run that is not good. */
typedef struct {
  int64_t id;
  /* [d] NaN: not recorded. */
  const double *x;
  /* "": none recorded; for a program that ended badly, with the last line it wrote. */
  const char *reason;
} atvi_sim_left;

typedef struct {
  /* Good runs, parameters, values of the output per run (1: a scalar). */
  atvi_idx n, d, m;
  const int64_t *id; /* [n] */
  /* [n][d] in natural units, in the requested order. */
  const double *x;
  const double *y; /* [n][m] */
  /* [m] ascending; NULL: none (a scalar, or rows 1, 2, ...). */
  const double *time;
  /* Runs that are not among the n: failed by their last line, or in any output at other times than most. */
  atvi_idx n_failed;
  /* Those that failed more than once. */
  atvi_idx n_again;
  /* "run 7: why" for the first failure, and which runs are at other times; NULL if none. */
  const char *failure;
  /* Number of the n made with another command, other templates or outputs than the latest good run. */
  atvi_idx n_other;
  /* Lines of the record that were read. */
  atvi_idx lines;
  /* [n_failed] in the order of their ids. */
  const atvi_sim_left *left;
  /* Of all runs, including repeated ones; NaN: not known. */
  double seconds;
  /* Number of runs with a known time. */
  atvi_idx n_timed;
} atvi_sim_runs;

/* One output of the record, at some of its parameters. */
typedef struct {
  /* NULL: the only one */
  const char *output;
  atvi_idx d;
  /* [d] all must exist */
  const char *const *param;
} atvi_sim_want;

/* The good runs of a record in the order of their ids: out[n], one for each of want[n], in one pass. lines:
 * read only the first lines, the record as it was at an earlier time; 0: all. A record may be read while it
 * is written. Memory from pool. Errors: EIO (no record: message says how to make one), EDATA (not a record,
 * no such output or parameter, no good run, fewer lines), ENOMEM. */
ATVI_CHECKED atvi_status atvi_sim_runs_read(atvi_pool *pool, const char *path, atvi_idx lines, atvi_idx n,
                                            const atvi_sim_want *want, atvi_sim_runs *out);

/* ---- for the writer ---- */

typedef struct {
  atvi_idx d, n_output;
  const char *const *param;  /* [d] */
  const char *const *output; /* [n_output] */
  /* A text that changes with the simulator. */
  const char *program;
} atvi_sim_shape;

typedef struct {
  /* 1 .. ATVI_SIM_ID_MAX. */
  int64_t id;
  const double *x; /* [d] */
  bool ok;
  /* [n_output]; ignored unless ok. */
  const atvi_sim_series *out;
  double seconds;
  int attempts;
  /* For a failed one: why, and the end of its log; NULL: nothing. */
  const char *reason, *log;
  /* The reason is only how the program ended: the last line of the log says more. */
  bool ended;
  /* From the header before it; ignored by add. */
  const char *program;
} atvi_sim_run;

typedef struct atvi_sim_record atvi_sim_record;

/* Opens the record for writing, makes it if necessary, and locks it until it is freed. If it has shards, runs
 * are added to a new one, so that the record only grows at its end. The shape is copied. Good runs of another
 * program cause a warning every time. Errors: EEXIST (another process writes it), EINVAL (it has other
 * parameters or outputs), EDATA (a line that is not one of a record; message has file:line:column), EIO,
 * ENOMEM. *out is NULL on any error. */
ATVI_CHECKED atvi_status atvi_sim_record_open(atvi_ctx *ctx, const char *path, const atvi_sim_shape *shape,
                                              atvi_sim_record **out);
void atvi_sim_record_free(atvi_sim_record *r); /* NULL is fine */

/* What is known about a run; NULL: nothing. Valid until the next add. `out` of a good run is not kept. A
 * run recorded as good but at other times than most is not ok once the record is settled, and `reason`
 * says so. */
const atvi_sim_run *atvi_sim_record_find(const atvi_sim_record *r, int64_t id);
atvi_idx atvi_sim_record_count(const atvi_sim_record *r, bool ok);
/* Lets the good runs decide by majority which times are right: the *n_other others are then not ok. Done when
 * the record is opened; runs added later are not judged until it is done again. Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_sim_record_settle(atvi_sim_record *r, atvi_idx *n_other);
/* Adds a run, which atvi_sim_record_sync forces to the disk. On failure the file is unchanged. Errors: EINVAL
 * (id), EIO, ENOMEM. */
ATVI_CHECKED atvi_status atvi_sim_record_add(atvi_sim_record *r, const atvi_sim_run *run);
/* Forces the runs that were added to the disk. Errors: EIO. */
ATVI_CHECKED atvi_status atvi_sim_record_sync(atvi_sim_record *r);

/* ---- its files (shards.c) ---- */

/* Paths of the files of the record whose first is `path` (DIR/runs.jsonl), in order; it need not exist.
 * Memory from pool. Errors: EIO, ENOMEM. */
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

/* Reads what was added since the last call (at first *ix is {pool, dir}). Incomplete last lines are left for
 * the next call. Errors: EIO, ENOMEM; EDATA (a line that is not one of a record). */
ATVI_CHECKED atvi_status atvi_sim_index_read(atvi_sim_index *ix);
atvi_sim_state atvi_sim_index_state(const atvi_sim_index *ix, int64_t id);
/* Opens the failed runs again. Not to be called while others do so. Errors: EIO, ENOMEM. */
ATVI_CHECKED atvi_status atvi_sim_index_forgive(atvi_sim_index *ix, atvi_idx n, const int64_t *id);

#endif
