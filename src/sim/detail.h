/* SPDX-License-Identifier: MIT */
/* The inside of simulators; for src/sim alone. */
#ifndef ATVI_SIM_DETAIL_H
#define ATVI_SIM_DETAIL_H

#include "sim/process.h"
#include "sim/simulator.h"

struct atvi_simulator {
  atvi_ctx *ctx;
  atvi_pool *pool;
  atvi_ctx *quiet; /* for reading outputs: its messages are reasons of failed runs */
  atvi_sim_spec spec;
  atvi_template *command;
  atvi_template **file; /* [n_file] */
  atvi_sim_shape shape;
  atvi_sim_guard guard; /* while runs are under way */
};

/* One place at which runs are done, one after another. */
typedef struct {
  atvi_idx number;
  atvi_proc proc;
  bool busy;
  atvi_idx item;                       /* of the batch */
  int attempt;                         /* from 1 */
  double begun_s, started_s, ending_s; /* first attempt, this one, when it was asked to end (0: not) */
  bool killed;
  char why[200];      /* reason to end it; "" if none */
  atvi_pool *pool;    /* of the attempt, in the quiet context */
  const char *folder; /* of the run or the worker */
  /* worker */
  char *answer; /* block of the quiet context: what was read */
  size_t n_answer, cap_answer;
  const char *line; /* what is to be sent, and how far it is */
  size_t n_line, sent;
  atvi_idx served; /* answers of this worker */
  double closed_s; /* when it closed its standard output; 0: not */
} atvi_sim_slot;

/* How an attempt ended. */
typedef struct {
  bool ended;          /* at all */
  bool missing;        /* the program could not be started */
  atvi_sim_reason why; /* no text: it is good */
  const char *log;
  atvi_sim_series *out; /* [n_output] */
} atvi_sim_end;

/* One process per run: begins an attempt in folder (which is made anew); looks whether it has ended. Memory from slot->pool. */
ATVI_CHECKED atvi_status atvi_sim_once_begin(atvi_simulator *s, atvi_sim_slot *slot, int64_t id,
                                             const double *x);
ATVI_CHECKED atvi_status atvi_sim_once_look(atvi_simulator *s, atvi_sim_slot *slot, atvi_sim_end *end);
/* The same of a worker, which is started if there is none. */
ATVI_CHECKED atvi_status atvi_sim_worker_begin(atvi_simulator *s, atvi_sim_slot *slot, const double *x);
ATVI_CHECKED atvi_status atvi_sim_worker_look(atvi_simulator *s, atvi_sim_slot *slot, atvi_sim_end *end);

/* Folder, made anew. Errors: EIO, ENOMEM. */
ATVI_CHECKED atvi_status atvi_sim_fresh_folder(atvi_simulator *s, const char *path);
/* {"k":0.31,...} and a line end. NULL: no memory. */
const char *atvi_sim_line(const atvi_simulator *s, atvi_pool *pool, const double *x);
/* Environment of a program. x NULL: without parameters; id 0: no run. NULL: no memory. */
char **atvi_sim_environment(const atvi_simulator *s, atvi_pool *pool, int64_t id, const double *x);
/* In words how a process ended, NULL if well. *missing: the shell could not start it. */
const char *atvi_sim_ending(atvi_pool *pool, int status, bool *missing);

enum { ATVI_SIM_TAIL = 2000 }; /* bytes of the log that are kept */

#endif
