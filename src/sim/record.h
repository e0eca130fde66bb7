/* SPDX-License-Identifier: MIT */
/* The record of a simulator's runs: a file to which one line of JSON per run is added, and nothing is ever changed.
 *
 *   {"record":"atvi runs","version":1,"parameters":["k","m"],"outputs":["flow"],"program":"..."}
 *   {"id":1,"outcome":"ok","seconds":2.1,"attempts":1,"parameters":{"k":0.31,"m":7.5},"outputs":{"flow":{"time":[1,2],"value":[3.2,4.1]}}}
 *   {"id":2,"outcome":"failed","seconds":0.3,"attempts":2,"parameters":{...},"ended":true,"reason":"ended with status 1","log":"..."}
 *
 * A line is written by one call and forced to the disk before the next run is begun in its place, so that a kill at any moment loses
 * at most the runs under way. What a kill leaves of a line is cut off when the record is opened next; readers pass over it. Of several
 * lines with one id the last counts. */
#ifndef ATVI_SIM_RECORD_H
#define ATVI_SIM_RECORD_H

#include "sim/output.h"

enum { ATVI_SIM_ID_MAX = 10000000 };

/* The folder of a model's design and record: "<name of the model>-runs" in the working folder or, where that is missing and there is one next to
 * the model file, that one. Memory from pool; NULL: there is none. And the names in it. */
const char *atvi_sim_folder(atvi_pool *pool, const char *model_path);
#define ATVI_SIM_DESIGN "design.csv"
#define ATVI_SIM_RECORD "runs.jsonl"

/* ---- for those who want the results ---- */

/* A run that is not among the good ones. */
typedef struct {
  int64_t id;
  const double *x;    /* [d] NaN: not recorded */
  const char *reason; /* "": none was recorded; of a program that ended badly with the last line it wrote */
} atvi_sim_left;

typedef struct {
  atvi_idx n, d, m;   /* good runs, parameters, values of the output per run (1: a scalar) */
  const int64_t *id;  /* [n] */
  const double *x;    /* [n][d] in natural units, in the order asked for */
  const double *y;    /* [n][m] */
  const double *time; /* [m] ascending; NULL: none (a scalar, or rows 1, 2, ...) */
  atvi_idx
      n_failed; /* runs that are not among the n: failed by their last line, or in any output at other times than most */
  atvi_idx n_again;    /* of these: failed more than once */
  const char *failure; /* "run 7: why" of the first that failed, and which are at other times; NULL if none */
  atvi_idx
      n_other; /* of the n: made with another command, other templates or outputs than the latest good run */
  atvi_idx lines;            /* of the record that were read */
  const atvi_sim_left *left; /* [n_failed] in the order of their ids */
  double seconds;   /* of all runs that the lines are of, each as often as it was done; NaN: none is known */
  atvi_idx n_timed; /* so many */
} atvi_sim_runs;

/* One output of the record, at some of its parameters. */
typedef struct {
  /* NULL: the only one */
  const char *output;
  atvi_idx d;
  /* [d] all must be there */
  const char *const *param;
} atvi_sim_want;

/* The good runs of a record in the order of their ids: out[n], what each of want[n] asks for, in one pass. lines: its first lines alone, as it was when it had
 * no more, since it is only ever added to; 0: all. A record that is being written may be read. Memory from pool. Errors: EIO (no record: message says how
 * to make one), EDATA (not a record, no such output or parameter, no good run, fewer lines), ENOMEM. */
ATVI_CHECKED atvi_status atvi_sim_runs_read(atvi_pool *pool, const char *path, atvi_idx lines, atvi_idx n,
                                            const atvi_sim_want *want, atvi_sim_runs *out);

/* ---- for the one who writes it ---- */

typedef struct {
  atvi_idx d, n_output;
  const char *const *param;  /* [d] */
  const char *const *output; /* [n_output] */
  const char *program;       /* a text that changes when the simulator does */
} atvi_sim_shape;

typedef struct {
  int64_t id;      /* 1 .. ATVI_SIM_ID_MAX */
  const double *x; /* [d] */
  bool ok;
  const atvi_sim_series *out; /* [n_output]; not looked at unless ok */
  double seconds;
  int attempts;
  const char *reason, *log; /* of a failed one: why, and the end of what it wrote; NULL: nothing */
  bool ended;               /* the reason is how the program ended: the last line of the log says more */
  const char *program;      /* of the header before it; not looked at by add */
} atvi_sim_run;

typedef struct atvi_sim_record atvi_sim_record;

/* Opens the record for writing, makes it if there is none, and keeps others out until it is freed. The shape is copied. Good runs of another
 * program are told as a warning, every time. Errors: EEXIST (another process writes it), EINVAL (it has other parameters or outputs), EDATA (a line that is not one
 * of a record; message has file:line:column), EIO, ENOMEM. *out is NULL on any error. */
ATVI_CHECKED atvi_status atvi_sim_record_open(atvi_ctx *ctx, const char *path, const atvi_sim_shape *shape,
                                              atvi_sim_record **out);
void atvi_sim_record_free(atvi_sim_record *r); /* NULL is fine */

/* What is known of a run: NULL if nothing. Valid until the next add. Of a good one `out` is not kept. One that was recorded as good but has other
 * times than most is not ok when the record has been settled, and `reason` says so. */
const atvi_sim_run *atvi_sim_record_find(const atvi_sim_record *r, int64_t id);
atvi_idx atvi_sim_record_count(const atvi_sim_record *r, bool ok);
/* Lets the good runs decide by majority which times are those of all: the others are then not ok, and *n_other in number. Done when the record is opened; runs
 * that are added later are taken as they are until it is done again. Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_sim_record_settle(atvi_sim_record *r, atvi_idx *n_other);
/* Adds a run, which atvi_sim_record_sync forces to the disk. On failure the file is as it was. Errors: EINVAL (id), EIO, ENOMEM. */
ATVI_CHECKED atvi_status atvi_sim_record_add(atvi_sim_record *r, const atvi_sim_run *run);
/* Forces the runs that were added to the disk. Errors: EIO. */
ATVI_CHECKED atvi_status atvi_sim_record_sync(atvi_sim_record *r);

#endif
