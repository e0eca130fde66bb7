/* SPDX-License-Identifier: MIT */
/* An outside program: started by the shell in a folder of its own, in a process group of its own, and ended with everything it
 * started; for src/sim alone. No call waits unless it says so. */
#ifndef ATVI_SIM_PROCESS_H
#define ATVI_SIM_PROCESS_H

#include "core/core.h"
#include "sim/guard.h"
#include <sys/types.h>

typedef struct {
  char *command; /* is not changed; exec wants it so */
  const char *folder;
  char *const *env;            /* NULL-ended */
  const char *in;              /* file for standard input; NULL: /dev/null */
  const char *out;             /* file for standard output, made anew */
  const char *err;             /* and for standard error */
  const atvi_sim_guard *guard; /* NULL: none */
  bool pipes;                  /* standard input and output are pipes to us; in and out are not looked at */
} atvi_proc_spec;

typedef struct {
  pid_t pid;                   /* 0: none */
  const atvi_sim_guard *guard; /* told of its beginning and end; NULL: none */
  int in, out;                 /* our ends of the pipes, not blocking; -1: none */
} atvi_proc;

#define ATVI_PROC_NONE ((atvi_proc){.pid = 0, .in = -1, .out = -1})

/* Errors: EIO (a file cannot be opened, no more processes). What the shell cannot run ends with status 127 or 126. */
ATVI_CHECKED atvi_status atvi_proc_start(atvi_ctx *ctx, const atvi_proc_spec *spec, atvi_proc *p);
/* Whether it has ended (or there is none); it is left as it is. */
bool atvi_proc_over(const atvi_proc *p);
/* Whether it has ended: then what it left behind is killed, it is waited for, pipes are closed, and *status is that of waitpid. */
bool atvi_proc_ended(atvi_proc *p, int *status);
/* A signal to the whole group; nothing if there is none. */
void atvi_proc_signal(const atvi_proc *p, int number);
/* Kills the group and waits for its end, which is at once. */
void atvi_proc_kill(atvi_proc *p);

/* write() to a pipe whose reader may be gone: EPIPE, never a signal. */
ssize_t atvi_proc_write(int fd, const char *bytes, size_t n);

/* Removes a folder and everything in it, never following links. True if it is gone (or never was). */
bool atvi_folder_remove(const char *path);
/* The last bytes of a file, from the beginning of a line, at most `most`, NUL-terminated: "" where it cannot be read. Memory from pool; NULL: there is none. */
char *atvi_file_tail(atvi_pool *pool, const char *path, size_t most);

#endif
