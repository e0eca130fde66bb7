/* SPDX-License-Identifier: MIT */
#define _DEFAULT_SOURCE /* flock: unlike lockf, its lock survives when this process reads and closes the file elsewhere */
#include "io/file.h"
#include <errno.h>
#include <fcntl.h>
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

static atvi_status begin(atvi_journal *j) {
  if (flock(j->fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
    return ATVI_FAIL(j->ctx, ATVI_EEXIST, "another atvi is using %s", j->path);
  j->size = last_end(j->fd);
  if (j->size < 0) return atvi_io_file_cannot(j->ctx, "read", j->path, errno);
  return ftruncate(j->fd, (off_t)j->size) == 0 ? ATVI_OK
                                               : atvi_io_file_cannot(j->ctx, "write", j->path, errno);
}

atvi_status atvi_io_journal_open(atvi_ctx *ctx, const char *path, atvi_journal *out) {
  *out = (atvi_journal){.ctx = ctx, .path = path};
  out->fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (out->fd < 0) return atvi_io_file_cannot(ctx, "write", path, errno);
  atvi_status status = begin(out);
  if (status != ATVI_OK) atvi_io_journal_close(out);
  return status;
}

atvi_status atvi_io_journal_add(atvi_journal *j, const char *text, size_t n) {
  int err = 0;
  for (size_t at = 0; at < n && !err;) {
    ssize_t put = write(j->fd, text + at, n - at);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) err = errno;
    at += put < 0 ? 0 : (size_t)put;
  }
  if (!err && fsync(j->fd) != 0) err = errno;
  if (!err) {
    j->size += (int64_t)n;
    return ATVI_OK;
  }
  if (ftruncate(j->fd, (off_t)j->size) == 0) return atvi_io_file_cannot(j->ctx, "write", j->path, err);
  return ATVI_FAIL(j->ctx, ATVI_EIO, "cannot write %s: %s; half a line may be left at its end", j->path,
                   strerror(err));
}

void atvi_io_journal_close(atvi_journal *j) {
  if (j->fd >= 0) close(j->fd); /* releases the lock */
  j->fd = -1;
}
