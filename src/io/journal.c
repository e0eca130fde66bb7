/* SPDX-License-Identifier: MIT */
#define _DEFAULT_SOURCE /* flock: unlike lockf, its lock survives when this process reads and closes the file elsewhere */
#include "io/file.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* Where the last complete line of the file ends; -1 on error. */
static int64_t last_end(int fd) {
  char buf[4096];
  struct stat st;
  if (fstat(fd, &st) != 0) return -1;
  for (int64_t end = st.st_size; end > 0;) {
    int64_t from = end > (int64_t)sizeof buf ? end - (int64_t)sizeof buf : 0;
    ssize_t got = pread(fd, buf, (size_t)(end - from), (off_t)from);
    if (got < 0 && errno == EINTR) continue;
    if (got < end - from) return -1;
    for (; got > 0; got--)
      if (buf[got - 1] == '\n') return from + got;
    end = from;
  }
  return 0;
}

/* ---- locks ---- */

/* Where the file system has no locks: a file PATH.lock, made by link(), which fails where there is one, with
 * host and process in it. One that a process of this host left behind is taken away. */

enum { OWNER = 320, LOCK_TRIES = 8 };

static void describe_owner(char owner[OWNER], long pid) {
  char host[256] = "";
  if (gethostname(host, sizeof host - 1) != 0) snprintf(host, sizeof host, "unknown");
  snprintf(owner, OWNER, "process %ld on %s", pid, host);
}

static bool read_owner(const char *path, char owner[OWNER]) {
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  ssize_t got = fd >= 0 ? read(fd, owner, OWNER - 1) : -1;
  if (fd >= 0) close(fd);
  owner[got > 0 ? got : 0] = 0;
  return got >= 0;
}

/* Whether its process was one of this host and is no more. */
static bool owner_died(const char *owner) {
  char same[OWNER];
  long pid = strncmp(owner, "process ", 8) == 0 ? strtol(owner + 8, NULL, 10) : 0;
  describe_owner(same, pid);
  return pid > 0 && strcmp(owner, same) == 0 && kill((pid_t)pid, 0) != 0 && errno == ESRCH;
}

/* Takes away the lock of a dead process, unless another came first and it is a new one. */
static void break_lock(const char *lock, const char *own, const char *dead) {
  char owner[OWNER];
  if (rename(lock, own) != 0) return;
  if (read_owner(own, owner) && strcmp(owner, dead) != 0) (void)!link(own, lock);
  unlink(own);
}

static bool write_owner(const char *path, const char *owner) {
  int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  bool ok = fd >= 0 && write(fd, owner, strlen(owner)) == (ssize_t)strlen(owner);
  if (fd >= 0 && close(fd) != 0) ok = false;
  return ok;
}

static atvi_status lock_by_file(atvi_journal *j, const char *own, const char *owner) {
  char other[OWNER] = "";
  for (int k = 0; k < LOCK_TRIES; k++) {
    unlink(own); /* of a process that had our number */
    if (!write_owner(own, owner)) return atvi_io_file_cannot(j->ctx, "write", own, errno);
    int bad = link(own, j->lock) != 0 ? errno : 0;
    unlink(own);
    if (bad == EPERM || bad == EOPNOTSUPP) bad = write_owner(j->lock, owner) ? 0 : errno; /* no hard links */
    if (!bad) return ATVI_OK;
    if (bad != EEXIST) return atvi_io_file_cannot(j->ctx, "make the lock", j->lock, bad);
    if (read_owner(j->lock, other) && !owner_died(other)) break;
    break_lock(j->lock, own, other);
  }
  atvi_status status = ATVI_FAIL(j->ctx, ATVI_EEXIST, "another atvi is using %s: %s; if it is not, remove %s",
                                 j->path, other[0] ? other : "an unknown process", j->lock);
  j->lock[0] = 0; /* not ours */
  return status;
}

static atvi_status take_lock(atvi_journal *j) {
  char own[sizeof j->lock + 32], owner[OWNER];
  if (flock(j->fd, LOCK_EX | LOCK_NB) == 0) return ATVI_OK;
  if (errno == EWOULDBLOCK) return ATVI_FAIL(j->ctx, ATVI_EEXIST, "another atvi is using %s", j->path);
  if (snprintf(j->lock, sizeof j->lock, "%s.lock", j->path) >= (int)sizeof j->lock) {
    j->lock[0] = 0;
    return atvi_io_file_cannot(j->ctx, "lock", j->path, ENAMETOOLONG);
  }
  snprintf(own, sizeof own, "%s.%ld", j->lock, (long)getpid());
  describe_owner(owner, (long)getpid());
  atvi_status status = lock_by_file(j, own, owner);
  if (status != ATVI_OK) j->lock[0] = 0;
  return status;
}

/* ---- the file ---- */

/* What is behind the last complete line: kept, with the line end that it lacks, or cut off. */
static atvi_status settle_end(atvi_journal *j,
                              atvi_journal_end (*judge)(const char *text, size_t n, bool first)) {
  struct stat st;
  if (fstat(j->fd, &st) != 0) return atvi_io_file_cannot(j->ctx, "read", j->path, errno);
  size_t n = (size_t)(st.st_size - j->size), at = 0;
  char *text = judge && n ? atvi_block(j->ctx, n + 1) : NULL;
  if (judge && n && !text) return ATVI_ENOMEM;
  while (text && at < n) {
    ssize_t got = pread(j->fd, text + at, n - at, (off_t)(j->size + (int64_t)at));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    at += (size_t)got;
  }
  atvi_journal_end end = text && at == n ? judge(text, n, j->size == 0) : ATVI_JOURNAL_CUT;
  atvi_block_free(j->ctx, text);
  if (end == ATVI_JOURNAL_OTHER)
    return ATVI_FAIL(j->ctx, ATVI_EDATA,
                     "%s: error: its end is not as atvi wrote it; repair the file, or move it away", j->path);
  if (end == ATVI_JOURNAL_KEEP) {
    j->size = j->synced = st.st_size;
    return atvi_io_journal_add(j, "\n", 1);
  }
  j->synced = j->size;
  return ftruncate(j->fd, (off_t)j->size) == 0 ? ATVI_OK
                                               : atvi_io_file_cannot(j->ctx, "write", j->path, errno);
}

atvi_status atvi_io_journal_open(atvi_ctx *ctx, const char *path,
                                 atvi_journal_end (*judge)(const char *text, size_t n, bool first),
                                 atvi_journal *out) {
  *out = (atvi_journal){.ctx = ctx, .path = path};
  out->fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (out->fd < 0) return atvi_io_file_cannot(ctx, "write", path, errno);
  atvi_status status = take_lock(out);
  if (status == ATVI_OK) {
    out->size = last_end(out->fd);
    status = out->size < 0 ? atvi_io_file_cannot(ctx, "read", path, errno) : settle_end(out, judge);
  }
  if (status != ATVI_OK) atvi_io_journal_close(out);
  return status;
}

/* Whether the file that we add to is still the one of that name: lines of one that was removed are lost. */
static bool is_there(const atvi_journal *j) {
  struct stat ours, named;
  return fstat(j->fd, &ours) != 0 ||
         (stat(j->path, &named) == 0 && ours.st_ino == named.st_ino && ours.st_dev == named.st_dev);
}

/* Takes away what is behind byte `whole`, after err. */
static atvi_status take_back(atvi_journal *j, int64_t whole, int err) {
  j->size = whole;
  if (ftruncate(j->fd, (off_t)whole) == 0) return atvi_io_file_cannot(j->ctx, "write", j->path, err);
  return ATVI_FAIL(j->ctx, ATVI_EIO, "cannot write %s: %s; half a line may be left at its end", j->path,
                   strerror(err));
}

atvi_status atvi_io_journal_put(atvi_journal *j, const char *text, size_t n) {
  if (!is_there(j))
    return ATVI_FAIL(j->ctx, ATVI_EIO, "%s was removed or replaced while it was being written", j->path);
  for (size_t at = 0; at < n;) {
    ssize_t put = write(j->fd, text + at, n - at);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return take_back(j, j->size, errno);
    at += (size_t)put;
  }
  j->size += (int64_t)n;
  return ATVI_OK;
}

atvi_status atvi_io_journal_sync(atvi_journal *j) {
  if (j->synced == j->size) return ATVI_OK;
  if (fsync(j->fd) != 0) return take_back(j, j->synced, errno);
  j->synced = j->size;
  return ATVI_OK;
}

atvi_status atvi_io_journal_add(atvi_journal *j, const char *text, size_t n) {
  ATVI_TRY(atvi_io_journal_put(j, text, n));
  return atvi_io_journal_sync(j);
}

void atvi_io_journal_close(atvi_journal *j) {
  if (j->lock[0]) unlink(j->lock);
  j->lock[0] = 0;
  if (j->fd >= 0) close(j->fd); /* releases the lock */
  j->fd = -1;
}

bool atvi_io_journal_used(const char *path) {
  char lock[4096 + 8], owner[OWNER];
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  bool locked = flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  close(fd);
  snprintf(lock, sizeof lock, "%.4096s.lock", path);
  return locked || (read_owner(lock, owner) && !owner_died(owner));
}
