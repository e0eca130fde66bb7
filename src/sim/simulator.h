/* SPDX-License-Identifier: MIT */
/* A simulator that is an outside program: how it is started, how parameters reach it, what comes back, and
 * running it at many points.
 *
 * Two protocols. One process per run: in its own new folder, with the files of the templates in it; the
 * program ends with status 0 and its outputs are read from files or from standard output. A worker: it stays
 * alive, reads a line of JSON with the parameters, {"k":0.31,"m":7.5}, and answers with a line of JSON with
 * the outputs, or {"error":"why"}. It is started again when it ends, is too slow, or answers anything else.
 *
 * The environment has ATVI_MODEL_DIR (the folder of the model) and, except for workers, ATVI_RUN (the number
 * of the run). */
#ifndef ATVI_SIM_SIMULATOR_H
#define ATVI_SIM_SIMULATOR_H

#include "io/text.h"
#include "sim/record.h"

/* Text with fields: {name} is replaced by the value of a parameter, {{ and }} by braces. */

typedef struct atvi_template atvi_template;

/* Where a text is, for messages. */
typedef struct {
  const char *path;
  /* Place of its first byte, from 1. */
  int line, column;
} atvi_template_place;

/* Reads text[n], which is copied; memory from pool. name[n_name]: the allowed fields; theta[1] is theta.1,
 * and blanks around a name are ignored. Errors: EMODEL (an unknown field, a brace that is neither a field nor
 * doubled, a zero byte; message has file:line:column, the line, a caret and a hint), ENOMEM. */
ATVI_CHECKED atvi_status atvi_sim_template_parse(atvi_pool *pool, atvi_template_place at, const char *text,
                                                 size_t n, atvi_idx n_name, const char *const *name,
                                                 atvi_template **out);
/* Appends the text with value[n_name] in the fields, numbers with 17 digits. The text remembers failures. */
void atvi_sim_template_fill(const atvi_template *t, const double *value, atvi_text *to);
/* Whether field k occurs. */
bool atvi_sim_template_uses(const atvi_template *t, atvi_idx k);

typedef struct {
  /* Path of the template. */
  const char *from;
  /* File made from it in the run's folder. */
  const char *to;
} atvi_sim_file;

typedef struct {
  /* Of the command in the model file, for messages. */
  atvi_template_place place;
  /* Folder of the model, absolute: a first word of the command with a slash is relative to it. */
  const char *folder;
  /* Command with fields, run by /bin/sh. */
  const char *command;
  bool worker;
  /* A line of JSON on standard input; workers always get one. */
  bool send_json;
  /* Parameters as environment variables, theta.1 as theta_1; not for workers. */
  bool send_environment;
  atvi_idx n_file;
  /* Not for workers. */
  const atvi_sim_file *file;
  atvi_idx n_output;
  /* >= 1; for workers: keys of the answer. */
  const atvi_sim_output *output;
  atvi_idx d;
  /* [d] names. */
  const char *const *param;
} atvi_sim_spec;

typedef struct atvi_simulator atvi_simulator;

/* Reads the templates; copies everything. Errors: EMODEL (a field that is not a parameter; a file outside the
 * run's folder; something a worker cannot have; message has file:line:column), EIO (a template cannot be
 * read), ENOMEM. */
ATVI_CHECKED atvi_status atvi_sim_new(atvi_ctx *ctx, const atvi_sim_spec *spec, atvi_simulator **out);
void atvi_sim_free(atvi_simulator *s); /* NULL is fine */
/* For opening its record. Valid as long as s. */
const atvi_sim_shape *atvi_sim_simulator_shape(const atvi_simulator *s);

/* Where the runs of one of several processes come from: called by atvi_sim_simulator_run. Items are places in
 * the batch. */
typedef struct {
  void *self;
  /* Folder below dir/work that is this process's own. */
  const char *name;
  /* Called often. *stop: end the programs that are running. */
  atvi_status (*tick)(void *self, bool *stop);
  /* The next items to do, item[*n], at most `room`. *over: there will be no more. */
  atvi_status (*take)(void *self, atvi_idx room, atvi_idx *item, atvi_idx *n, bool *over);
  /* Whether the outcome of an item is still ours to record. */
  bool (*keep)(void *self, atvi_idx item);
  /* The site ended a run, or could not start it, for which its point may not be to blame: true if it is
   * recorded as failed all the same. */
  bool (*lost)(void *self, atvi_idx item, const char *why);
  /* An item was recorded, or ended unfinished because of *stop. */
  void (*done)(void *self, atvi_idx item, bool ok, double seconds);
  void (*cut)(void *self, atvi_idx item);
  /* Whether some run of the record is known to be good. */
  bool (*proved)(void *self);
} atvi_sim_source;

typedef struct {
  /* Parent of the run folders: dir/work, and dir/failed for those that are kept. */
  const char *dir;
  atvi_idx n;
  const int64_t *id; /* [n] */
  const double *x;   /* [n][d] */
  /* Time limit of a run; not above 0, or inf: none. */
  double limit_s;
  /* Runs at the same time; 0: one per thread of the context. */
  int jobs;
  /* After a failure. */
  int retries;
  /* Also runs that are recorded as failed. */
  bool retry_failed;
  /* Folders of failed runs. */
  bool keep_failed;
  /* NULL: all runs that the record lacks. */
  const atvi_sim_source *source;
} atvi_sim_batch;

typedef struct {
  /* Recorded earlier and not changed. */
  atvi_idx had_ok, had_failed;
  /* Done and recorded now. */
  atvi_idx ok, failed;
  /* Recorded neither earlier nor now. */
  atvi_idx left;
  /* Spent. */
  double seconds;
  /* Sum over the runs done now. */
  double run_seconds;
  /* Ended by the stop callback. */
  bool stopped;
} atvi_sim_report;

/* Does the runs that the record lacks. Failed runs are recorded with their reason; good ones at other times
 * than most count as failed in the end. When asked to stop it ends the programs and keeps what was done. A
 * program that cannot be started (before any run of the record was good) is not a failure of a point: nothing
 * is recorded unless another run is good, and after a few of them everything is given up. The same happens if
 * none of the first runs is good, or if they are at many different times. Errors: EINVAL (the record has
 * other parameters for an id), ECALL (given up; message has the reason), EIO (record or folders cannot be
 * written, no more processes), ENOMEM. *report is valid whatever the status. No process is left behind. */
ATVI_CHECKED atvi_status atvi_sim_simulator_run(atvi_simulator *s, atvi_sim_record *record,
                                                const atvi_sim_batch *batch, atvi_sim_report *report);

/* ---- designs ---- */

/* Points at which a simulator is run: n points x[n][d] of the unit cube that leave no corner empty.
 *
 * LHS    Latin hypercube: each of n equal slices of every axis contains one point. Slices are paired so that the nearest points are far apart (maximin).
 * SOBOL  scrambled Sobol points (math/sobol.h).
 *
 * A design can be extended: the first n_old points do not change in any bit, and new ones fill the gaps. A
 * Latin hypercube that is extended to a multiple of its size is a Latin hypercube again; to other sizes its
 * slices are as even as the old points allow. If the old points cover only part of an axis, because the range
 * has grown, new ones are spread over the empty part. */

typedef enum { ATVI_DESIGN_LHS, ATVI_DESIGN_SOBOL } atvi_design_kind;

/* Fills rows n_old .. n-1 of x[n][d]; the rows before are given (SOBOL ignores them). Depends only on the
 * seed, the old points and the sizes. Errors: EINVAL (d < 1, n_old < 0, n < n_old, old points outside the
 * unit cube), ENOMEM. */
ATVI_CHECKED atvi_status atvi_sim_design_fill(atvi_ctx *ctx, atvi_design_kind kind, uint64_t seed, atvi_idx d,
                                              atvi_idx n_old, atvi_idx n, double *x);

/* The part of axis j that points x[n][d] cover: [0, 1], or less if an end has none of them. */
void atvi_sim_design_extent(atvi_idx n, atvi_idx d, const double *x, atvi_idx j, double *from, double *to);

#endif
