/* SPDX-License-Identifier: MIT */
/* Finds out whether mpirun or srun has started several processes, and then loads MPI. */
#include "cli.h"
#include "mpi/ranks.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const atvi_mpi *mpi;
static atvi_mpi_role role;
static char message[1024];

static int number(const char *name) {
  const char *text = getenv(name);
  return text ? atoi(text) : 0;
}

/* Open MPI; MPICH, Intel MPI and srun --mpi=pmi2; srun --mpi=pmix. Slurm alone sets SLURM_* for programs
 * without MPI, too. */
static int started(void) {
  int n = number("OMPI_COMM_WORLD_SIZE");
  if (n < 2) n = number("PMI_SIZE");
  if (n < 2 && getenv("PMIX_RANK")) n = number("SLURM_STEP_NUM_TASKS");
  return n;
}

/* NULL: the reason is in *why. */
static const atvi_mpi *load(const char **why) {
  /* MPI libraries load parts of themselves, which need their symbols. */
  void *object = dlopen("atvi_mpi.so", RTLD_NOW | RTLD_GLOBAL);
  const atvi_mpi *m = object ? dlsym(object, "atvi_mpi_ranks") : NULL;
  *why = object ? "atvi_mpi.so is from another version" : dlerror();
  return m && strcmp(m->version, ATVI_VERSION) == 0 ? m : NULL;
}

int atvi_ranks_begin(int argc, char **argv, atvi_app_model *model) {
  int n = started(), seen = 0;
  const char *why;
  if (n < 2) return 1;
  mpi = load(&why);
  if (!mpi) {
    fprintf(stderr,
            "atvi fit: %d processes were started, and each makes a fit of its own: %s. To make one fit on "
            "all of them, install MPI (Debian: libopenmpi-dev) and build atvi again (docs/mpi.md).\n",
            n, why);
    return 1;
  }
  role = mpi->begin(argc, argv, &seen);
  if (role == ATVI_MPI_ALONE && seen == 1)
    fprintf(stderr,
            "atvi fit: %d processes were started, and each makes a fit of its own: the MPI that atvi was "
            "built with sees just this one. Use its mpirun, or srun --mpi=pmix (docs/mpi.md).\n",
            n);
  if (role == ATVI_MPI_ALONE) return 1;
  model->share = mpi->share;
  model->serves = role == ATVI_MPI_OTHER;
  return role == ATVI_MPI_DONE ? 0 : seen;
}

void atvi_ranks_message(const char *text) { snprintf(message, sizeof message, "%s", text); }

int atvi_ranks_end(int code) {
  if (role == ATVI_MPI_ALONE) return code;
  mpi->end(message);
  return role == ATVI_MPI_FIRST ? code : ATVI_EXIT_DONE;
}
