/* SPDX-License-Identifier: MIT */
/* The inside of simulators; only for src/sim. */
#ifndef ATVI_SIM_DETAIL_H
#define ATVI_SIM_DETAIL_H

#include "core/core.h"
#include "core/guard.h"
#include "sim/output.h"
#include "sim/simulator.h"
#include <jansson.h>
#include <stdbool.h>
#include <sys/types.h>

/* An outside program: started by the shell in its own folder and process group, and ended with everything it
 * started; only for src/sim. No call waits unless it says so. */

typedef struct {
  /* Not changed; exec requires this type. */
  char *command;
  const char *folder;
  /* NULL-ended. */
  char *const *env;
  /* File for standard input; NULL: /dev/null. */
  const char *in;
  /* File for standard output, created again. */
  const char *out;
  /* File for standard error, created again. */
  const char *err;
  /* NULL: none. */
  const atvi_guard *guard;
  /* Standard input and output are pipes to us; in and out are ignored. */
  bool pipes;
} atvi_proc_spec;

typedef struct {
  /* 0: none. */
  pid_t pid;
  /* Notified of its start and end; NULL: none. */
  const atvi_guard *guard;
  /* Our ends of the pipes, not blocking; -1: none. */
  int in, out;
  /* Becomes readable when it ends; -1: the system has no such thing. */
  int end;
} atvi_proc;

#define ATVI_PROC_NONE ((atvi_proc){.pid = 0, .in = -1, .out = -1, .end = -1})

/* Errors: EIO (a file cannot be opened, no more processes). What the shell cannot run ends with status 127 or
 * 126. */
ATVI_CHECKED atvi_status atvi_sim_proc_start(atvi_ctx *ctx, const atvi_proc_spec *spec, atvi_proc *p);
/* Whether it has ended (or there is none); nothing is changed. */
bool atvi_sim_proc_over(const atvi_proc *p);
/* Whether it has ended: if so, kills what it left behind, waits for it, closes pipes, and sets *status to
 * that of waitpid. */
bool atvi_sim_proc_ended(atvi_proc *p, int *status);
/* A signal to the whole group; nothing if there is none. */
void atvi_sim_proc_signal(const atvi_proc *p, int number);
/* Kills the group and waits for its end, which is immediate. */
void atvi_sim_proc_kill(atvi_proc *p);

/* Removes a folder and everything in it, never following links. True if it is gone (or never existed). */
bool atvi_sim_folder_remove(const char *path);
/* The last bytes of a file, from the beginning of a line, at most `most`, NUL-terminated: "" if it cannot be
 * read. Memory from pool; NULL: out of memory. */
char *atvi_sim_file_tail(atvi_pool *pool, const char *path, size_t most);

/* The times that most runs have; only for src/sim. Runs arrive in any order, and the first must not
 * matter. */

/* Runs on the same times. */
typedef struct {
  /* Times of the run `id`; without values. */
  atvi_sim_series times;
  /* The smallest id added. */
  int64_t id;
  /* Runs. */
  atvi_idx n;
} atvi_sim_party;

typedef struct {
  atvi_pool *pool;
  atvi_sim_party *party; /* [n] */
  atvi_idx n, cap;
} atvi_sim_vote;

/* The party of a run, which is made if necessary; -1: out of memory. */
atvi_idx atvi_sim_vote_add(atvi_sim_vote *v, int64_t id, const atvi_sim_series *s);
/* A run leaves its party: another line of the record has replaced it. */
void atvi_sim_vote_drop(atvi_sim_vote *v, atvi_idx party);
/* The party with most runs; among equals the one with more values, then with the smallest id. -1: no run. */
atvi_idx atvi_sim_vote_winner(const atvi_sim_vote *v);
/* Why a run of a party does not belong to the winner. Memory from pool. */
const char *atvi_sim_vote_why(const atvi_sim_vote *v, atvi_pool *pool, const char *name, atvi_idx party);

/* Reading a record line by line; only for src/sim. */

/* A list of numbers as in the file, without its brackets. */
typedef struct {
  const char *text;
  size_t n;
} atvi_sim_list;

typedef struct {
  atvi_ctx *ctx;
  const char *path;
  /* Borrowed. */
  int fd;
  /* block. */
  char *buf;
  /* Bytes in it, its size, start of the next line. */
  size_t n, cap, at;
  /* End of the file. */
  bool end;
  /* Bytes of the file in complete lines so far. */
  int64_t whole;
  /* Number of the last one. */
  int line;
  /* The last line with every list of numbers in it replaced by ["k"], k being its place in list[]: parsing
   * all numbers as JSON would be many times slower. */
  /* block. */
  char *bare;
  size_t cap_bare;
  /* block. */
  atvi_sim_list *list;
  size_t n_list, cap_list;
} atvi_sim_lines;

/* Starts at the beginning of the file. close frees the buffer in any state. */
ATVI_CHECKED atvi_status atvi_sim_lines_open(atvi_ctx *ctx, const char *path, int fd, atvi_sim_lines *l);
void atvi_sim_lines_close(atvi_sim_lines *l);
/* The next complete line as an object, owned by the caller, also a last one without its line end; NULL at the
 * end, where half a line may remain. Errors: EDATA, EIO, ENOMEM. */
ATVI_CHECKED atvi_status atvi_sim_lines_next(atvi_sim_lines *l, json_t **out);
/* Numbers x[*n] of a list of the last line, n >= 1. Memory from pool. Errors: EDATA (not such a list),
 * ENOMEM. */
ATVI_CHECKED atvi_status atvi_sim_lines_numbers(const atvi_sim_lines *l, atvi_pool *pool, const json_t *list,
                                                atvi_idx *n, double **x);
/* EDATA for the last line. */
atvi_status atvi_sim_lines_wrong(const atvi_sim_lines *l, const char *what);

/* Room for number id in at[*n], which grows in the pool with zeros; false: out of memory. */
bool atvi_sim_ids_room(atvi_pool *pool, int64_t id, atvi_idx **at, atvi_idx *n);

struct atvi_simulator {
  atvi_ctx *ctx;
  atvi_pool *pool;
  /* For reading outputs: its messages become reasons of failed runs. */
  atvi_ctx *quiet;
  atvi_sim_spec spec;
  atvi_template *command;
  atvi_template **file; /* [n_file] */
  atvi_sim_shape shape;
  /* While runs are in progress. */
  atvi_guard guard;
  /* How long to wait for an output that another host may have written. */
  double patience_s;
};

/* A slot in which runs are done, one after another. */
typedef struct {
  atvi_idx number;
  atvi_proc proc;
  bool busy;
  /* Item of the batch. */
  atvi_idx item;
  /* From 1. */
  int attempt;
  /* Start of the first attempt and of this one, and when it was asked to end (0: not). */
  double begun_s, started_s, ending_s;
  bool killed;
  /* Reason to end it; "" if none. */
  char why[200];
  /* Memory of the attempt, in the quiet context. */
  atvi_pool *pool;
  /* Folder of the run or the worker. */
  const char *folder;
  /* worker */
  /* block of the quiet context: what was read. */
  char *answer;
  size_t n_answer, cap_answer;
  /* What to send, and how much was sent. */
  const char *line;
  size_t n_line, sent;
  /* Answers of this worker. */
  atvi_idx served;
  /* When it closed its standard output; 0: not. */
  double closed_s;
  /* When it ended without an output; 0: not. */
  double waiting_s;
} atvi_sim_slot;

/* How an attempt ended. */
typedef struct {
  /* The attempt has ended. */
  bool ended;
  /* The program could not be started. */
  bool missing;
  /* SIGKILL, not sent by us, ended it: the system was short of memory, or somebody did. */
  bool killed;
  /* The output it lacks has no file, or an empty one. */
  bool late;
  /* No text: good. */
  atvi_sim_reason why;
  const char *log;
  atvi_sim_series *out; /* [n_output] */
} atvi_sim_end;

/* One process per run: starts an attempt in folder (which is created again); checks whether it has ended.
 * Memory from slot->pool. */
ATVI_CHECKED atvi_status atvi_sim_once_begin(atvi_simulator *s, atvi_sim_slot *slot, int64_t id,
                                             const double *x);
ATVI_CHECKED atvi_status atvi_sim_once_look(atvi_simulator *s, atvi_sim_slot *slot, atvi_sim_end *end);
/* The same for a worker, which is started if there is none. */
ATVI_CHECKED atvi_status atvi_sim_worker_begin(atvi_simulator *s, atvi_sim_slot *slot, const double *x);
ATVI_CHECKED atvi_status atvi_sim_worker_look(atvi_simulator *s, atvi_sim_slot *slot, atvi_sim_end *end);

/* Creates the folder again. Errors: EIO, ENOMEM. */
ATVI_CHECKED atvi_status atvi_sim_fresh_folder(atvi_simulator *s, const char *path);

enum { ATVI_SIM_TAIL = 2000 }; /* bytes of the log that are kept */

#endif
