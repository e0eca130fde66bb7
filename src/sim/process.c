/* SPDX-License-Identifier: MIT */
#define _DEFAULT_SOURCE /* syscall, vfork */
#include "io/file.h"
#include "sim/detail.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* What the child needs; made before vfork, after which only calls that are safe in signal handlers are
 * allowed, and memory, which is the parent's, is only read. The cost of a fork would grow with our memory. */
typedef struct {
  const atvi_proc_spec *spec;
  int in, out, err;
} child;

static void say(const char *what) {
  ssize_t ignored = write(STDERR_FILENO, what, strlen(what));
  (void)ignored;
}

static void reset_signals(void) {
  static const int reset[] = {SIGINT, SIGTERM, SIGPIPE, SIGHUP, SIGQUIT, SIGCHLD, SIGXFSZ};
  sigset_t none;
  for (size_t i = 0; i < sizeof reset / sizeof reset[0]; i++) signal(reset[i], SIG_DFL);
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
}

static void run_child(const child *c) {
  setpgid(0, 0);
  signal(SIGPIPE, SIG_IGN);
  if (c->spec->guard) atvi_guard_add(c->spec->guard, getpid());
  signal(SIGPIPE, SIG_IGN); /* again: a blocked signal waits even if it is ignored, and this discards it */
  reset_signals();
  /* Descriptors of ours are above 2 and close on exec; dup2 makes copies that do not. */
  if (dup2(c->in, STDIN_FILENO) < 0 || dup2(c->out, STDOUT_FILENO) < 0 || dup2(c->err, STDERR_FILENO) < 0)
    _exit(126);
  if (chdir(c->spec->folder) != 0) {
    say("atvi: cannot enter the folder of the run\n");
    _exit(126);
  }
  char shell[] = "/bin/sh", name[] = "sh", option[] = "-c";
  char *argv[] = {name, option, c->spec->command, NULL};
  execve(shell, argv, c->spec->env);
  say("atvi: cannot start /bin/sh\n");
  _exit(127);
}

/* Descriptors 0 to 2 may be closed in the process that uses the library: ours must not take their numbers. */
static int above(int fd) {
  if (fd < 0 || fd > STDERR_FILENO) return fd;
  int other = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  int err = errno;
  close(fd);
  errno = err;
  return other;
}

static int open_file(const char *path, int flags) { return above(open(path, flags | O_CLOEXEC, 0666)); }

static bool make_pipe(int fd[2]) {
  if (pipe(fd) != 0) {
    fd[0] = fd[1] = -1;
    return false;
  }
  for (int i = 0; i < 2; i++) {
    fd[i] = above(fd[i]);
    if (fd[i] >= 0) fcntl(fd[i], F_SETFD, FD_CLOEXEC);
  }
  return fd[0] >= 0 && fd[1] >= 0;
}

static void close_all(int n, const int *fd) {
  for (int i = 0; i < n; i++)
    if (fd[i] >= 0) close(fd[i]);
}

/* -1: the kernel is older than Linux 5.3, or forbids it. */
static int watch(pid_t pid) {
#ifdef SYS_pidfd_open
  return (int)syscall(SYS_pidfd_open, pid, 0);
#else
  (void)pid;
  return -1;
#endif
}

static atvi_status launch(atvi_ctx *ctx, child *c, atvi_proc *p) {
  sigset_t all, old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all,
                  &old); /* until exec the child has our handlers, which must not run there */
  pid_t pid = vfork();
  if (pid == 0) run_child(c);
  int err = errno;
  pthread_sigmask(SIG_SETMASK, &old, NULL);
  errno = err;
  if (pid < 0) return ATVI_FAIL(ctx, ATVI_EIO, "cannot start another process: %s", strerror(errno));
  p->pid = pid;
  p->end = watch(pid);
  p->guard = c->spec->guard;
  return ATVI_OK;
}

static atvi_status start_piped(atvi_ctx *ctx, child *c, atvi_proc *p) {
  int in[2] = {-1, -1}, out[2] = {-1, -1};
  atvi_status status = ATVI_OK;
  if (!make_pipe(in) || !make_pipe(out))
    status = ATVI_FAIL(ctx, ATVI_EIO, "cannot make a pipe: %s", strerror(errno));
  c->in = in[0];
  c->out = out[1];
  if (status == ATVI_OK) status = launch(ctx, c, p);
  close_all(2, (int[]){in[0], out[1]});
  if (status != ATVI_OK) {
    close_all(2, (int[]){in[1], out[0]});
    return status;
  }
  p->in = in[1];
  p->out = out[0];
  fcntl(p->in, F_SETFL, fcntl(p->in, F_GETFL) | O_NONBLOCK);
  fcntl(p->out, F_SETFL, fcntl(p->out, F_GETFL) | O_NONBLOCK);
  return ATVI_OK;
}

static atvi_status start_plain(atvi_ctx *ctx, child *c, atvi_proc *p) {
  const char *from = c->spec->in ? c->spec->in : "/dev/null";
  c->in = open_file(from, O_RDONLY);
  if (c->in < 0) return atvi_io_file_cannot(ctx, "read", from, errno);
  c->out = open_file(c->spec->out, O_WRONLY | O_CREAT | O_TRUNC);
  atvi_status status =
      c->out < 0 ? atvi_io_file_cannot(ctx, "write", c->spec->out, errno) : launch(ctx, c, p);
  close_all(2, (int[]){c->in, c->out});
  return status;
}

atvi_status atvi_sim_proc_start(atvi_ctx *ctx, const atvi_proc_spec *spec, atvi_proc *p) {
  child c = {.spec = spec, .in = -1, .out = -1};
  *p = ATVI_PROC_NONE;
  c.err = open_file(spec->err, O_WRONLY | O_CREAT | O_TRUNC);
  if (c.err < 0) return atvi_io_file_cannot(ctx, "write", spec->err, errno);
  atvi_status status = spec->pipes ? start_piped(ctx, &c, p) : start_plain(ctx, &c, p);
  close(c.err);
  return status;
}

void atvi_sim_proc_signal(const atvi_proc *p, int number) {
  if (p->pid > 0) kill(-p->pid, number);
}

static void reap(atvi_proc *p, int *status) {
  pid_t got;
  if (p->guard) atvi_guard_drop(p->guard, p->pid);
  do got = waitpid(p->pid, status, 0);
  while (got < 0 && errno == EINTR);
  if (got < 0) *status = 0;
  close_all(3, (int[]){p->in, p->out, p->end});
  *p = ATVI_PROC_NONE;
}

bool atvi_sim_proc_over(const atvi_proc *p) {
  siginfo_t info;
  if (p->pid <= 0) return true;
  info.si_pid = 0;
  int got;
  do got = waitid(P_PID, (id_t)p->pid, &info, WEXITED | WNOHANG | WNOWAIT);
  while (got < 0 && errno == EINTR);
  return got != 0 || info.si_pid != 0;
}

bool atvi_sim_proc_ended(atvi_proc *p, int *status) {
  *status = 0;
  if (p->pid <= 0) return true;
  if (!atvi_sim_proc_over(p)) return false;
  atvi_sim_proc_signal(p, SIGKILL); /* before it is waited for, so that its number is not reused */
  reap(p, status);
  return true;
}

void atvi_sim_proc_kill(atvi_proc *p) {
  int ignored;
  if (p->pid <= 0) return;
  atvi_sim_proc_signal(p, SIGKILL);
  reap(p, &ignored);
}

enum { DEPTH_MAX = 64 };

/* A folder being emptied. */
typedef struct {
  /* the outermost one */
  int top;
  /* folders that were moved there, because they lie too deep for a descriptor each */
  long moved;
} emptying;

/* Empties the folder fd, which is closed. */
static bool empty(emptying *e, int fd, int depth) {
  DIR *dir = fdopendir(fd);
  if (!dir) {
    close(fd);
    return false;
  }
  bool ok = true;
  const struct dirent *entry;
  while ((entry = readdir(dir)) != NULL) {
    const char *name = entry->d_name;
    char up[64];
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0) continue;
    if (unlinkat(fd, name, 0) == 0 || errno == ENOENT) continue;
    if (depth == DEPTH_MAX) {
      snprintf(up, sizeof up, ".atvi-deep-%ld-%ld", (long)getpid(), e->moved++);
      ok = renameat(fd, name, e->top, up) == 0 && ok;
      continue;
    }
    int below = openat(fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (below < 0 && errno == EACCES &&
        fchmodat(fd, name, 0700, 0) == 0) /* one of our folders without permissions */
      below = openat(fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    bool gone = below >= 0 && empty(e, below, depth + 1) && unlinkat(fd, name, AT_REMOVEDIR) == 0;
    ok = ok && gone;
  }
  closedir(dir);
  return ok;
}

bool atvi_sim_folder_remove(const char *path) {
  emptying e = {0};
  for (;;) {
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) return errno == ENOENT || unlink(path) == 0;
    long before = e.moved;
    e.top = fd;
    bool ok = empty(&e, fd, 0);
    if (e.moved == before || !ok) return ok && rmdir(path) == 0;
  }
}

char *atvi_sim_file_tail(atvi_pool *pool, const char *path, size_t most) {
  char *text = atvi_pool_take(pool, most + 1, 1);
  int fd = text ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
  if (fd < 0) return text;
  struct stat st;
  off_t size = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) ? st.st_size : 0;
  bool cut = size > (off_t)most;
  ssize_t got = pread(fd, text, most, cut ? size - (off_t)most : 0);
  close(fd);
  text[got > 0 ? got : 0] = 0;
  for (ssize_t i = 0; i < got; i++)
    if (!text[i]) text[i] = '?';
  const char *line = cut ? strchr(text, '\n') : NULL;
  if (line && line[1]) memmove(text, line + 1, strlen(line + 1) + 1);
  return text;
}
