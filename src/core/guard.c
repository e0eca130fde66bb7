/* SPDX-License-Identifier: MIT */
#include "core/guard.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif
#include <sys/wait.h>
#include <unistd.h>

enum { GROUPS_MAX = 4096, FILES_MAX = 1 << 16 };

/* A message: the group, negative when it has ended. Shorter than PIPE_BUF, so never torn. */
static void keep(pid_t *group, int *n, pid_t message) {
  if (message > 0) {
    if (*n < GROUPS_MAX) group[(*n)++] = message;
    return;
  }
  for (int i = 0; i < *n; i++)
    if (group[i] == -message) {
      group[i] = group[--*n];
      return;
    }
}

/* The other process: from here on, only calls that are safe after forking a program with threads. */
static void watch(int fd) {
  static const int ignored[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGTSTP};
  pid_t group[GROUPS_MAX], message;
  int n = 0;
#ifdef __linux__
  prctl(PR_SET_NAME, "atvi-guard"); /* so that it can be recognised in a list of processes */
#endif
  setpgid(0, 0); /* signals from a terminal to our group must not reach it */
  for (size_t i = 0; i < sizeof ignored / sizeof ignored[0]; i++) signal(ignored[i], SIG_IGN);
  long most = sysconf(_SC_OPEN_MAX);
  for (int k = 0; k < (most > 0 && most < FILES_MAX ? most : FILES_MAX); k++)
    if (k != fd) close(k); /* locks and pipes of others must not outlive us */
  for (;;) {
    ssize_t got = read(fd, &message, sizeof message);
    if (got < 0 && errno == EINTR) continue;
    if (got != (ssize_t)sizeof message) break;
    keep(group, &n, message);
  }
  for (int i = 0; i < n; i++) kill(-group[i], SIGKILL);
  _exit(0);
}

ssize_t atvi_pipe_write(int fd, const char *bytes, size_t n) {
  sigset_t pipe_only, old, pending;
  sigemptyset(&pipe_only);
  sigaddset(&pipe_only, SIGPIPE);
  sigpending(&pending);
  bool was_pending = sigismember(&pending, SIGPIPE) == 1;
  pthread_sigmask(SIG_BLOCK, &pipe_only, &old);
  ssize_t put = write(fd, bytes, n);
  int err = errno;
  if (put < 0 && err == EPIPE && !was_pending) /* takes ours away before anyone sees it */
    while (sigtimedwait(&pipe_only, NULL, &(struct timespec){0}) < 0 && errno == EINTR) continue;
  pthread_sigmask(SIG_SETMASK, &old, NULL);
  errno = err;
  return put;
}

bool atvi_guard_start(atvi_guard *g) {
  int fd[2];
  sigset_t all, old;
  *g = (atvi_guard){.fd = -1};
  if (pipe(fd) != 0) return false;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old); /* our handlers must not run in the other process */
  pid_t pid = fork();
  if (pid == 0) {
    close(fd[1]);
    watch(fd[0]);
  }
  int err = errno;
  pthread_sigmask(SIG_SETMASK, &old, NULL);
  close(fd[0]);
  if (pid < 0) {
    close(fd[1]);
    errno = err;
    return false;
  }
  fcntl(fd[1], F_SETFD, FD_CLOEXEC);
  *g = (atvi_guard){.pid = pid, .fd = fd[1]};
  return true;
}

void atvi_guard_add(const atvi_guard *g, pid_t group) {
  if (g->fd < 0) return;
  while (write(g->fd, &group, sizeof group) < 0 && errno == EINTR) continue;
}

void atvi_guard_drop(const atvi_guard *g, pid_t group) {
  pid_t message = -group;
  if (g->fd < 0) return;
  while (atvi_pipe_write(g->fd, (const char *)&message, sizeof message) < 0 && errno == EINTR) continue;
}

bool atvi_guard_gone(atvi_guard *g) {
  pid_t got;
  if (g->pid <= 0) return g->lost;
  do got = waitpid(g->pid, NULL, WNOHANG);
  while (got < 0 && errno == EINTR);
  if (got == 0) return false;
  g->pid = 0;
  g->lost = true;
  return true;
}

void atvi_guard_end(atvi_guard *g) {
  if (g->fd >= 0) close(g->fd);
  if (g->pid > 0)
    while (waitpid(g->pid, NULL, 0) < 0 && errno == EINTR) continue;
  *g = (atvi_guard){.fd = -1};
}
