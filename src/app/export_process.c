/* SPDX-License-Identifier: MIT */
/* fit.nc is written by a process of its own: libhdf5 may crash if memory is short, and a fit has its page to draw meanwhile. */
#include "app/common.h"
#include "io/file.h"
#include "io/netcdf.h"
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif
#include <sys/wait.h>
#include <unistd.h>

enum { WORDS = 1024, LOOK_EVERY_MS = 50 };

/* What the other process found: its status and, if it failed, its message. */
typedef struct {
  atvi_status status;
  char words[WORDS];
} verdict;

/* In the other process: it ends when a signal asks to stop, and when its parent ends. */
static void end_by_signals(const sigset_t *mask) {
  static const int number[] = {SIGINT, SIGTERM};
  for (int i = 0; i < 2; i++)
    if (signal(number[i], SIG_DFL) == SIG_IGN) signal(number[i], SIG_IGN);
#ifdef __linux__
  prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
  pthread_sigmask(SIG_SETMASK, mask, NULL);
}

/* The other process. It has this thread alone: the others must have been asleep. */
static void write_apart(atvi_ctx *ctx, atvi_pool *pool, const atvi_export_fit *fit, const char *path,
                        int fd) {
  verdict v = {0};
  v.status = atvi_app_export_nc_here(ctx, pool, fit, path);
  if (v.status != ATVI_OK) snprintf(v.words, sizeof v.words, "%s", atvi_errmsg(ctx));
  ssize_t put = write(fd, &v, sizeof v); /* shorter than PIPE_BUF: never torn */
  _exit(put == (ssize_t)sizeof v ? 0 : 1);
}

static atvi_status start(atvi_ctx *ctx, atvi_pool *pool, const atvi_export_fit *fit, const char *path,
                         atvi_export_process *p) {
  int fd[2];
  sigset_t all, old;
  *p = (atvi_export_process){.so_far = atvi_stop_asked(ctx)};
  if (pipe(fd) != 0) return atvi_io_file_cannot(ctx, "write", path, errno);
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old); /* our handlers must not run in the other process */
  pid_t pid = fork();
  if (pid == 0) {
    end_by_signals(&old);
    write_apart(ctx, pool, fit, path, fd[1]);
  }
  int err = errno;
  pthread_sigmask(SIG_SETMASK, &old, NULL);
  close(fd[1]);
  if (pid > 0) {
    p->pid = pid;
    p->fd = fd[0];
    return ATVI_OK;
  }
  close(fd[0]);
  return atvi_io_file_cannot(ctx, "write", path, err);
}

/* Until the other process has something to say or has ended. A request to stop that came since it was started ends
 * it: true. */
static bool wait_for(atvi_ctx *ctx, const atvi_export_process *p) {
  struct pollfd look = {.fd = p->fd, .events = POLLIN};
  while (poll(&look, 1, LOOK_EVERY_MS) <= 0) {
    if (p->so_far || !atvi_stop_asked(ctx)) continue;
    kill(p->pid, SIGKILL);
    return true;
  }
  return false;
}

static atvi_status finish(atvi_ctx *ctx, atvi_export_process *p) {
  int how = 0;
  verdict v;
  ssize_t got;
  bool stopped = wait_for(ctx, p);
  do got = read(p->fd, &v, sizeof v);
  while (got < 0 && errno == EINTR);
  close(p->fd);
  while (waitpid(p->pid, &how, 0) < 0 && errno == EINTR) continue;
  p->pid = 0;
  stopped = stopped || (WIFSIGNALED(how) && (WTERMSIG(how) == SIGINT || WTERMSIG(how) == SIGTERM));
  if (stopped && got != (ssize_t)sizeof v) return ATVI_FAIL(ctx, ATVI_ESTOP, "stopped");
  if (got != (ssize_t)sizeof v)
    return WIFSIGNALED(how) ? ATVI_FAIL(ctx, ATVI_EIO, "the netCDF library ended its process with signal %d",
                                        WTERMSIG(how))
                            : ATVI_FAIL(ctx, ATVI_EIO, "the netCDF library ended its process with status %d",
                                        WEXITSTATUS(how));
  v.words[WORDS - 1] = 0;
  return v.status == ATVI_OK ? ATVI_OK : ATVI_FAIL(ctx, v.status, "%s", v.words);
}

atvi_status atvi_app_export_nc(atvi_ctx *ctx, atvi_pool *pool, const atvi_export_fit *fit, const char *path) {
  atvi_export_process p;
  ATVI_TRY(start(ctx, pool, fit, path, &p));
  return finish(ctx, &p);
}

static void tell_lost(atvi_ctx *ctx, const char *dir) {
  atvi_log(ctx, ATVI_LOG_LOST, "%s/fit.nc was not written: %s; atvi export %s --format nc writes it", dir,
           atvi_errmsg(ctx), dir);
}

void atvi_app_export_begin(atvi_ctx *ctx, atvi_pool *pool, const atvi_export_fit *fit, const char *dir,
                           atvi_export_process *p) {
  const char *path = atvi_pool_printf(pool, "%s/fit.nc", dir);
  *p = (atvi_export_process){0};
  if (path && atvi_io_netcdf_available(ctx) != ATVI_OK)
    atvi_log(ctx, ATVI_LOG_NOTE, "fit.nc was not written: %s", atvi_errmsg(ctx));
  else if (!path || start(ctx, pool, fit, path, p) != ATVI_OK)
    tell_lost(ctx, dir);
  p->dir = dir;
}

void atvi_app_export_end(atvi_ctx *ctx, atvi_export_process *p) {
  if (p->pid > 0 && finish(ctx, p) != ATVI_OK) tell_lost(ctx, p->dir);
}
