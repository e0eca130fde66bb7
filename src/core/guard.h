/* SPDX-License-Identifier: MIT */
/* Ends the programs that we started if we end before them, even by SIGKILL.
 *
 * A second process of ours does nothing but read a pipe, through which it learns the process groups that
 * begin and end. When the pipe is closed, by us or by our death, it kills the groups that are left and
 * ends. */
#ifndef ATVI_CORE_GUARD_H
#define ATVI_CORE_GUARD_H

#include <stdbool.h>
#include <sys/types.h>

typedef struct {
  /* 0: none */
  pid_t pid;
  int fd;
  /* there was one, and it has ended before us */
  bool lost;
} atvi_guard;

/* False, and errno: without processes or descriptors there is no guard, and the other calls do nothing. */
bool atvi_guard_start(atvi_guard *g);
/* Best called by the leader itself, before it is anything else: called by us, it could be missed if we are
 * killed in between. */
void atvi_guard_add(const atvi_guard *g, pid_t group);
/* To be called before the group's leader is waited for: afterwards its number may be another's. */
void atvi_guard_drop(const atvi_guard *g, pid_t group);
/* Whether it was there and is no more: somebody killed it, and perhaps the programs with it. */
bool atvi_guard_gone(atvi_guard *g);
void atvi_guard_end(atvi_guard *g);

/* write() to a pipe whose reader may be gone: EPIPE, never a signal. */
ssize_t atvi_pipe_write(int fd, const char *bytes, size_t n);

#endif
