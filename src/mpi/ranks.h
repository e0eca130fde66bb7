/* SPDX-License-Identifier: MIT */
/* One fit on the processes ("ranks") that mpirun or srun has started. Rank 0 infers; all ranks evaluate
 * groups of points.
 *
 * Every rank reads the model by itself. What rank 0 then uses in place of its target has the same members,
 * but scratch number k belongs to rank k: evaluating with it sends the points there and waits for the answer.
 * So each thread of rank 0 stands for one rank, and nothing else in the program knows of them. A point's
 * result does not depend on who computes it, nor do draws.
 *
 * The code is a shared object of its own, atvi_mpi.so, which the program loads where several ranks were
 * started: the program itself needs no MPI. */
#ifndef ATVI_MPI_RANKS_H
#define ATVI_MPI_RANKS_H

#include "atvi/target.h"

typedef enum {
  /* This process works by itself, and MPI has ended: the ranks were given different commands, or MPI sees
   * just one. */
  ATVI_MPI_ALONE,
  /* Rank 0. */
  ATVI_MPI_FIRST,
  /* Any other rank, after rank 0 has read the model: it should read it too. Its standard output and error
   * lead nowhere. */
  ATVI_MPI_OTHER,
  /* Any other rank, if rank 0 has failed; MPI has ended. */
  ATVI_MPI_DONE,
} atvi_mpi_role;

typedef struct {
  /* ATVI_VERSION of the program that this belongs to. */
  const char *version;
  /* Starts MPI; *n is the number of ranks it sees. Call once, before anything is printed. */
  atvi_mpi_role (*begin)(int argc, char **argv, int *n);
  /* Rank 0: replaces a target by one that evaluates on all ranks, as long as the context has as many threads
   * as there are ranks. Other ranks: evaluates the target, and those before it, for rank 0 until that calls
   * again (OK) or ends (ESTOP). Targets are borrowed until end; at most ATVI_MPI_TARGETS. Errors: ENOMEM,
   * ELIMIT, those of work_new. */
  atvi_status (*share)(atvi_ctx *ctx, const atvi_target **target);
  /* Ends MPI. A rank besides 0 that has not been asked to end is a failure: then the message is printed and
   * the whole job aborted. */
  void (*end)(const char *message);
} atvi_mpi;

enum { ATVI_MPI_TARGETS = 2 };

/* The only symbol of atvi_mpi.so. */
extern ATVI_API const atvi_mpi atvi_mpi_ranks;

#endif
