/* SPDX-License-Identifier: MIT */
/* The inside of simulators; for src/sim alone. */
#ifndef ATVI_SIM_DETAIL_H
#define ATVI_SIM_DETAIL_H

#include "core/core.h"
#include "core/guard.h"
#include "sim/output.h"
#include "sim/simulator.h"
#include <jansson.h>
#include <stdbool.h>
#include <sys/types.h>

/* An outside program: started by the shell in a folder of its own, in a process group of its own, and ended with everything it
 * started; for src/sim alone. No call waits unless it says so. */

typedef struct {
  char *command; /* is not changed; exec wants it so */
  const char *folder;
  char *const *env;        /* NULL-ended */
  const char *in;          /* file for standard input; NULL: /dev/null */
  const char *out;         /* file for standard output, made anew */
  const char *err;         /* and for standard error */
  const atvi_guard *guard; /* NULL: none */
  bool pipes;              /* standard input and output are pipes to us; in and out are not looked at */
} atvi_proc_spec;

typedef struct {
  pid_t pid;               /* 0: none */
  const atvi_guard *guard; /* told of its beginning and end; NULL: none */
  int in, out;             /* our ends of the pipes, not blocking; -1: none */
} atvi_proc;

#define ATVI_PROC_NONE ((atvi_proc){.pid = 0, .in = -1, .out = -1})

/* Errors: EIO (a file cannot be opened, no more processes). What the shell cannot run ends with status 127 or 126. */
ATVI_CHECKED atvi_status atvi_sim_proc_start(atvi_ctx *ctx, const atvi_proc_spec *spec, atvi_proc *p);
/* Whether it has ended (or there is none); it is left as it is. */
bool atvi_sim_proc_over(const atvi_proc *p);
/* Whether it has ended: then what it left behind is killed, it is waited for, pipes are closed, and *status is that of waitpid. */
bool atvi_sim_proc_ended(atvi_proc *p, int *status);
/* A signal to the whole group; nothing if there is none. */
void atvi_sim_proc_signal(const atvi_proc *p, int number);
/* Kills the group and waits for its end, which is at once. */
void atvi_sim_proc_kill(atvi_proc *p);

/* Removes a folder and everything in it, never following links. True if it is gone (or never was). */
bool atvi_sim_folder_remove(const char *path);
/* The last bytes of a file, from the beginning of a line, at most `most`, NUL-terminated: "" where it cannot be read. Memory from pool; NULL: there is none. */
char *atvi_sim_file_tail(atvi_pool *pool, const char *path, size_t most);

/* Which times most runs have; for src/sim alone. Runs arrive in any order, and who is first must not matter. */

/* Runs on the same times. */
typedef struct {
  atvi_sim_series times; /* of the run `id`; without values */
  int64_t id;            /* the smallest of those that were added */
  atvi_idx n;            /* runs */
} atvi_sim_party;

typedef struct {
  atvi_pool *pool;
  atvi_sim_party *party; /* [n] */
  atvi_idx n, cap;
} atvi_sim_vote;

/* The party of a run, which is made if there is none; -1: no memory. */
atvi_idx atvi_sim_vote_add(atvi_sim_vote *v, int64_t id, const atvi_sim_series *s);
/* A run leaves its party: another line of the record has taken its place. */
void atvi_sim_vote_drop(atvi_sim_vote *v, atvi_idx party);
/* The party with most runs; of equals that with more values, then the one with the smallest id. -1: there is no run. */
atvi_idx atvi_sim_vote_winner(const atvi_sim_vote *v);
/* Why a run of a party is not one of the winner's. Memory from pool. */
const char *atvi_sim_vote_why(const atvi_sim_vote *v, atvi_pool *pool, const char *name, atvi_idx party);

/* Reading a record line by line; for src/sim alone. */

/* A list of numbers as it stands in the file, without its brackets. */
typedef struct {
  const char *text;
  size_t n;
} atvi_sim_list;

typedef struct {
  atvi_ctx *ctx;
  const char *path;
  int fd;            /* borrowed */
  char *buf;         /* block */
  size_t n, cap, at; /* bytes in it, its size, where the next line begins */
  bool end;          /* of the file */
  int64_t whole;     /* bytes of the file in complete lines so far */
  int line;          /* number of the last one */
  /* The last line with every list of numbers in it replaced by ["k"], k being its place in list[]: JSON of a thousand times the size would
   * be read many times slower than the numbers alone. */
  char *bare; /* block */
  size_t cap_bare;
  atvi_sim_list *list; /* block */
  size_t n_list, cap_list;
} atvi_sim_lines;

/* From the file's beginning. close gives up the buffer, whatever came before. */
ATVI_CHECKED atvi_status atvi_sim_lines_open(atvi_ctx *ctx, const char *path, int fd, atvi_sim_lines *l);
void atvi_sim_lines_close(atvi_sim_lines *l);
/* The next complete line as an object, owned by the caller; NULL at the end, where half a line may stand; a whole one without its line end counts. Errors: EDATA, EIO, ENOMEM. */
ATVI_CHECKED atvi_status atvi_sim_lines_next(atvi_sim_lines *l, json_t **out);
/* Numbers x[*n] of a list of the last line, n >= 1. Memory from pool. Errors: EDATA (it is none), ENOMEM. */
ATVI_CHECKED atvi_status atvi_sim_lines_numbers(const atvi_sim_lines *l, atvi_pool *pool, const json_t *list,
                                                atvi_idx *n, double **x);
/* EDATA for the last line. */
atvi_status atvi_sim_lines_wrong(const atvi_sim_lines *l, const char *what);

/* Room for number id in at[*n], which grows in the pool with zeros; false: out of memory. */
bool atvi_sim_ids_room(atvi_pool *pool, int64_t id, atvi_idx **at, atvi_idx *n);

struct atvi_simulator {
  atvi_ctx *ctx;
  atvi_pool *pool;
  atvi_ctx *quiet; /* for reading outputs: its messages are reasons of failed runs */
  atvi_sim_spec spec;
  atvi_template *command;
  atvi_template **file; /* [n_file] */
  atvi_sim_shape shape;
  atvi_guard guard; /* while runs are under way */
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
