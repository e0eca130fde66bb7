/* SPDX-License-Identifier: MIT */
/* Ends the outside programs if we end before them, even by SIGKILL; for src/sim alone.
 *
 * A second process of ours does nothing but read a pipe, in which we tell it the process groups that begin and end. When the pipe is closed, by us
 * or by our death, it kills the groups that are left and ends. */
#ifndef ATVI_SIM_GUARD_H
#define ATVI_SIM_GUARD_H

#include <stdbool.h>
#include <sys/types.h>

typedef struct {
  pid_t pid; /* 0: none */
  int fd;
  bool lost; /* there was one, and it has ended before us */
} atvi_sim_guard;

/* Without processes or descriptors there is no guard: nothing else changes. */
void atvi_sim_guard_start(atvi_sim_guard *g);
/* By the leader itself, before it is anything else: told by us, it could be missed if we are killed in between. */
void atvi_sim_guard_add(const atvi_sim_guard *g, pid_t group);
/* To be called before the group's leader is waited for: afterwards its number may be another's. */
void atvi_sim_guard_drop(const atvi_sim_guard *g, pid_t group);
/* Whether it was there and is no more: somebody killed it, and perhaps the programs with it. */
bool atvi_sim_guard_gone(atvi_sim_guard *g);
void atvi_sim_guard_end(atvi_sim_guard *g);

#endif
