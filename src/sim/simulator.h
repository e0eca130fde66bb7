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

#include "sim/record.h"
#include "sim/template.h"

typedef struct {
  const char *from; /* path of the template */
  const char *to;   /* file made from it in the run's folder */
} atvi_sim_file;

typedef struct {
  atvi_template_place place; /* of the command in the model file, for messages */
  const char
      *folder; /* folder of the model, absolute: a first word of the command with a slash is relative to it */
  const char *command; /* with fields; run by /bin/sh */
  bool worker;
  bool send_json;        /* a line of JSON on standard input; workers always get one */
  bool send_environment; /* parameters as environment variables, theta.1 as theta_1; not for workers */
  atvi_idx n_file;
  const atvi_sim_file *file; /* not for workers */
  atvi_idx n_output;
  const atvi_sim_output *output; /* >= 1; for workers: keys of the answer */
  atvi_idx d;
  const char *const *param; /* [d] names */
} atvi_sim_spec;

typedef struct atvi_simulator atvi_simulator;

/* Reads the templates; copies everything. Errors: EMODEL (a field that is not a parameter; a file outside the
 * run's folder; something a worker cannot have; message has file:line:column), EIO (a template cannot be
 * read), ENOMEM. */
ATVI_CHECKED atvi_status atvi_sim_new(atvi_ctx *ctx, const atvi_sim_spec *spec, atvi_simulator **out);
void atvi_sim_free(atvi_simulator *s); /* NULL is fine */
/* For opening its record. Valid as long as s. */
const atvi_sim_shape *atvi_sim_simulator_shape(const atvi_simulator *s);

typedef struct {
  const char *dir; /* parent of the run folders: dir/work, and dir/failed for those that are kept */
  atvi_idx n;
  const int64_t *id; /* [n] */
  const double *x;   /* [n][d] */
  double limit_s;    /* time limit of a run; not above 0, or inf: none */
  int jobs;          /* at once; 0: one per thread of the context */
  int retries;       /* after a failure */
  bool retry_failed; /* also runs that are recorded as failed */
  bool keep_failed;  /* folders of failed runs */
} atvi_sim_batch;

typedef struct {
  atvi_idx had_ok, had_failed; /* recorded earlier and not changed */
  atvi_idx ok, failed;         /* done and recorded now */
  atvi_idx left;               /* recorded neither earlier nor now */
  double seconds;              /* spent */
  double run_seconds;          /* sum over the runs done now */
  bool stopped;                /* by the stop callback */
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

#endif
