/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* realpath, sync_file_range */
#include "io/csv.h"
#include "io/file.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
  BUFFER = 1 << 16,
  NAMES_MAX = 1000, /* temporary names tried before giving up */
};
static const size_t READ_MAX = (size_t)1 << 30; /* for something without a size: a pipe may never end */

const char *atvi_io_path_between(atvi_pool *pool, const char *from, const char *to) {
  char here[PATH_MAX], there[PATH_MAX];
  size_t same = 0;
  if (!realpath(from, here) || !realpath(to, there)) return NULL;
  strncat(here, "/", sizeof here - strlen(here) - 1); /* whole names are compared */
  strncat(there, "/", sizeof there - strlen(there) - 1);
  for (size_t i = 0; here[i] && here[i] == there[i]; i++)
    if (here[i] == '/') same = i + 1;
  const char *up = "";
  for (const char *p = here + same; up && (p = strchr(p, '/')); p++) up = atvi_pool_printf(pool, "%s../", up);
  const char *path = up ? atvi_pool_printf(pool, "%s%s", up, there + same) : NULL;
  return path && *path ? atvi_pool_strndup(pool, path, strlen(path) - 1) : path ? "." : NULL;
}

atvi_status atvi_io_file_cannot(atvi_ctx *ctx, const char *what, const char *path, int err) {
  atvi_status status = ATVI_FAIL(ctx, ATVI_EIO, "cannot %s %s: %s", what, path, strerror(err));
  errno = err;
  return status;
}

char *atvi_io_path_stem(atvi_pool *pool, const char *path) {
  size_t end = strlen(path), begin;
  while (end > 1 && path[end - 1] == '/') end--;
  for (begin = end; begin > 0 && path[begin - 1] != '/'; begin--) continue;
  size_t name = begin, stem = end;
  while (name < end && path[name] == '.') name++; /* these begin the name rather than an extension */
  while (stem > name && path[stem - 1] != '.') stem--;
  return atvi_pool_strndup(pool, path + begin, (stem > name ? stem - 1 : end) - begin);
}

/* ---- reading ---- */

/* Fills text[0..cap) from fd as far as possible. -1 on error, errno set. */
static ssize_t fill(int fd, char *text, size_t cap) {
  size_t n = 0;
  while (n < cap) {
    size_t want = cap - n < (size_t)1 << 30 ? cap - n : (size_t)1 << 30;
    ssize_t got = read(fd, text + n, want);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return -1;
    if (got == 0) break;
    n += (size_t)got;
  }
  return (ssize_t)n;
}

/* size is what the file system says; wrong for pipes, and for files that grow while being read. */
static atvi_status read_fd(atvi_pool *pool, const char *path, int fd, size_t size, size_t most, char **text,
                           size_t *n) {
  atvi_ctx *ctx = atvi_pool_ctx(pool);
  size_t cap = (size < most ? size : most) + 1, have = 0;
  char *buf = atvi_pool_take(pool, cap + 1, 1);
  for (;;) {
    if (!buf) return ATVI_ENOMEM;
    ssize_t got = fill(fd, buf + have, cap - have);
    if (got < 0) return atvi_io_file_cannot(ctx, "read", path, errno);
    have += (size_t)got;
    if (have < cap || have > most) break;
    if (have > READ_MAX) return atvi_io_file_cannot(ctx, "read", path, EFBIG);
    cap = 2 * cap + BUFFER;
    if (cap > most) cap = most + 1;
    char *bigger = atvi_pool_take(pool, cap + 1, 1);
    if (bigger) memcpy(bigger, buf, have);
    buf = bigger;
  }
  buf[have] = 0;
  *text = buf;
  *n = have;
  return ATVI_OK;
}

atvi_status atvi_io_file_read_most(atvi_pool *pool, const char *path, size_t most, char **text, size_t *n) {
  *text = NULL;
  *n = 0;
  atvi_ctx *ctx = atvi_pool_ctx(pool);
  struct stat st; /* checked before opening, which may act or wait on a device */
  if (stat(path, &st) == 0 && (S_ISCHR(st.st_mode) || S_ISBLK(st.st_mode)))
    return ATVI_FAIL(ctx, ATVI_EIO, "cannot read %s: it is a device, not a file", path);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return atvi_io_file_cannot(ctx, "read", path, errno);
  size_t size = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0 ? (size_t)st.st_size : 0;
  atvi_status status = read_fd(pool, path, fd, size, most, text, n);
  close(fd);
  return status;
}

atvi_status atvi_io_file_read(atvi_pool *pool, const char *path, char **text, size_t *n) {
  return atvi_io_file_read_most(pool, path, SIZE_MAX / 4, text, n);
}

/* ---- writing ---- */

struct atvi_file {
  atvi_ctx *ctx;
  int fd;
  int err;      /* errno of the first failure; 0: none */
  char *path;   /* as given */
  char *target; /* path with symbolic links followed */
  char *temp;   /* name until commit; "" if target is written directly */
  char *buf;    /* [BUFFER] */
  size_t used;
};

static atvi_file *carve(atvi_arena *a, size_t path, size_t target) {
  atvi_file *f, head = {0};
  ATVI_TAKE(a, f, 1);
  ATVI_TAKE(a, head.path, path + 1);
  ATVI_TAKE(a, head.target, target + 1);
  ATVI_TAKE(a, head.temp, target + 64);
  ATVI_TAKE(a, head.buf, BUFFER);
  if (f) *f = head;
  return f;
}

/* Length of the folder part of path, with its slash; 0 if there is none. */
static size_t folder_length(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? (size_t)(slash - path) + 1 : 0;
}

/* A few letters that distinguish hosts with the same folder. */
static uint32_t host_mark(void) {
  char host[256] = "";
  if (gethostname(host, sizeof host - 1) != 0) host[0] = 0;
  uint64_t hash = atvi_hash(ATVI_HASH, host, strlen(host));
  return (uint32_t)(hash ^ hash >> 32);
}

/* Whether an entry of a folder is what a process of this host that is dead left of the file `name`; NULL: of
 * any. */
static bool left_behind(const char *entry, const char *name) {
  uint32_t host;
  long pid;
  int k, end = 0;
  size_t n = name ? strlen(name) : strlen(entry);
  if (entry[0] != '.') return false;
  for (int dots = 0; !name && n > 0 && dots < 2; n--)
    dots += entry[n - 1] == '.'; /* of .NAME.WHO.tmp: .NAME */
  if (name ? strncmp(entry + 1, name, n) != 0 : n < 2) return false;
  const char *who = entry + n + (name ? 1 : 0);
  if (sscanf(who, ".%8" SCNx32 "-%ld-%d.tmp%n", &host, &pid, &k, &end) != 3) return false;
  return end > 0 && !who[end] && host == host_mark() && pid > 0 && kill((pid_t)pid, 0) != 0 && errno == ESRCH;
}

static void remove_left(const char *folder, const char *name) {
  DIR *dir = opendir(*folder ? folder : ".");
  if (!dir) return;
  for (const struct dirent *e; (e = readdir(dir));)
    if (left_behind(e->d_name, name)) unlinkat(dirfd(dir), e->d_name, 0);
  closedir(dir);
}

void atvi_io_file_sweep(const char *folder) { remove_left(folder, NULL); }

/* The dot keeps half-written files out of listings and patterns such as *.csv. */
static int open_temp(atvi_file *f) {
  size_t folder = folder_length(f->target);
  snprintf(f->temp, strlen(f->target) + 64, "%.*s", (int)folder, f->target);
  remove_left(f->temp, f->target + folder);
  for (int k = 0; k < NAMES_MAX; k++) {
    snprintf(f->temp, strlen(f->target) + 64, "%.*s.%s.%08" PRIx32 "-%ld-%d.tmp", (int)folder, f->target,
             f->target + folder, host_mark(), (long)getpid(), k);
    int fd = open(f->temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd >= 0 || errno != EEXIST) return fd;
  }
  return -1;
}

static int open_target(atvi_file *f) {
  struct stat st;
  bool there = stat(f->target, &st) == 0;
  if (there && S_ISDIR(st.st_mode)) {
    errno = EISDIR;
    return -1;
  }
  if (there && !S_ISREG(st.st_mode)) return open(f->target, O_WRONLY | O_CLOEXEC);
  if (there && access(f->target, W_OK) != 0) return -1; /* a rename would quietly replace a protected file */
  int fd = open_temp(f);
  if (fd < 0)
    f->temp[0] = 0;
  else if (there && fchmod(fd, st.st_mode & 0777) != 0)
    return fd; /* optional: the new file keeps the permissions of the old one */
  return fd;
}

atvi_status atvi_io_file_new(atvi_ctx *ctx, const char *path, atvi_file **out) {
  *out = NULL;
  char real[PATH_MAX];
  const char *target = realpath(path, real) ? real : path; /* path: does not exist yet, or fails below */
  atvi_arena a = {0};
  carve(&a, strlen(path), strlen(target));
  a = (atvi_arena){.base = atvi_block(ctx, a.used)};
  atvi_file *f = a.base ? carve(&a, strlen(path), strlen(target)) : NULL;
  if (!f) return ATVI_ENOMEM;
  f->ctx = ctx;
  memcpy(f->path, path, strlen(path));
  memcpy(f->target, target, strlen(target));
  f->fd = open_target(f);
  if (f->fd < 0) {
    atvi_status status = atvi_io_file_cannot(ctx, "write", path, errno);
    atvi_block_free(ctx, f);
    return status;
  }
  *out = f;
  return ATVI_OK;
}

static void write_out(atvi_file *f, const char *bytes, size_t n) {
  while (n > 0 && !f->err) {
    ssize_t put = write(f->fd, bytes, n);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0)
      f->err = errno;
    else {
      bytes += put;
      n -= (size_t)put;
    }
  }
}

static void flush(atvi_file *f) {
  write_out(f, f->buf, f->used);
  f->used = 0;
}

void atvi_io_file_put(atvi_file *f, const char *bytes, size_t n) {
  if (n > BUFFER - f->used) flush(f);
  if (n > BUFFER) {
    write_out(f, bytes, n);
    return;
  }
  memcpy(f->buf + f->used, bytes, n);
  f->used += n;
}

void atvi_io_file_printf(atvi_file *f, const char *fmt, ...) {
  char small[512], *text = small;
  va_list args, again;
  va_start(args, fmt);
  va_copy(again, args);
  int n = vsnprintf(small, sizeof small, fmt, args);
  if (n >= (int)sizeof small) {
    text = atvi_block(f->ctx, (size_t)n + 1);
    if (text) vsnprintf(text, (size_t)n + 1, fmt, again);
  }
  if (n >= 0 && text)
    atvi_io_file_put(f, text, (size_t)n);
  else if (!f->err)
    f->err = ENOMEM;
  if (text != small) atvi_block_free(f->ctx, text);
  va_end(again);
  va_end(args);
}

void atvi_io_file_number(atvi_file *f, const char *before, double x) {
  char number[ATVI_NUMBER_BYTES];
  atvi_io_format_number(number, x);
  atvi_io_file_printf(f, "%s%s", before, number);
}

/* Makes the rename durable. Some file systems cannot; the data are safe by then, so failure is not reported. */
static void sync_folder(const atvi_file *f, char *scratch) {
  size_t n = folder_length(f->target);
  memcpy(scratch, f->target, n);
  scratch[n] = 0;
  int fd = open(n ? scratch : ".", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  (void)fsync(fd);
  close(fd);
}

/* fsync of a pipe or terminal fails with EINVAL or ENOTSUP: there is nothing to sync. */
static bool real_sync_error(int err) { return err != EINVAL && err != ENOTSUP && err != EROFS; }

void atvi_io_file_put_line(atvi_file *f, const char *s) {
  for (; s && *s; s++) atvi_io_file_put(f, (unsigned char)*s < ' ' ? " " : s, 1);
}

void atvi_io_file_put_name(atvi_file *f, const char *s) {
  bool quote = strpbrk(s, ",;\t\"\r\n ") != NULL;
  atvi_io_file_put(f, ",\"", quote ? 2 : 1);
  for (; *s; s++) atvi_io_file_put(f, *s == '"' ? "\"\"" : s, *s == '"' ? 2 : 1);
  if (quote) atvi_io_file_put(f, "\"", 1);
}

static atvi_status commit(atvi_file *f, bool wait) {
  ATVI_ASSERT(f->fd >= 0);
  flush(f);
  if (wait && !f->err && fsync(f->fd) != 0 && real_sync_error(errno)) f->err = errno;
  if (close(f->fd) != 0 && !f->err) f->err = errno;
  f->fd = -1;
  if (!f->err && f->temp[0] && rename(f->temp, f->target) != 0) f->err = errno;
  if (f->err) {
    if (f->temp[0]) unlink(f->temp);
    f->temp[0] = 0;
    return atvi_io_file_cannot(f->ctx, "write", f->path, f->err);
  }
  if (wait && f->temp[0]) sync_folder(f, f->temp);
  f->temp[0] = 0;
  return ATVI_OK;
}

atvi_status atvi_io_file_commit(atvi_file *f) { return commit(f, true); }
atvi_status atvi_io_file_commit_soon(atvi_file *f) { return commit(f, false); }

void atvi_io_file_free(atvi_file *f) {
  if (!f) return;
  if (f->fd >= 0) close(f->fd);
  if (f->temp[0]) unlink(f->temp);
  atvi_block_free(f->ctx, f);
}

atvi_status atvi_io_file_save(atvi_ctx *ctx, const char *path, const char *text, size_t n) {
  atvi_file *f;
  ATVI_TRY(atvi_io_file_new(ctx, path, &f));
  atvi_io_file_put(f, text, n);
  atvi_status status = atvi_io_file_commit(f);
  atvi_io_file_free(f);
  return status;
}

atvi_status atvi_io_file_save_in(atvi_pool *pool, const char *dir, const char *name, const char *text) {
  const char *path = atvi_pool_printf(pool, "%s/%s", dir, name);
  if (!path) return ATVI_ENOMEM;
  return atvi_io_file_save(atvi_pool_ctx(pool), path, text, strlen(text));
}

atvi_status atvi_io_file_save_soon(atvi_pool *pool, const char *dir, const char *name, const char *text) {
  atvi_file *f;
  const char *path = atvi_pool_printf(pool, "%s/%s", dir, name);
  if (!path) return ATVI_ENOMEM;
  ATVI_TRY(atvi_io_file_new(atvi_pool_ctx(pool), path, &f));
  atvi_io_file_put(f, text, strlen(text));
  atvi_status status = commit(f, false);
  atvi_io_file_free(f);
  return status;
}

/* All files begin to be written before the first is waited for: then they need one entry of the file system's
 * journal, not one each. */
atvi_status atvi_io_dir_sync(atvi_ctx *ctx, const char *path) {
  DIR *dir = opendir(path);
  if (!dir) return atvi_io_file_cannot(ctx, "read the folder", path, errno);
  int err = 0;
  for (int wait = 0; wait < 2; wait++) {
    rewinddir(dir);
    for (const struct dirent *e; (e = readdir(dir));) {
      struct stat st;
      if (fstatat(dirfd(dir), e->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(st.st_mode)) continue;
      int fd = openat(dirfd(dir), e->d_name, O_RDONLY | O_CLOEXEC);
      if (fd < 0) continue; /* of the user, who lets nobody read it */
#ifdef __linux__
      if (!wait) (void)sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE);
#endif
      if (wait && fsync(fd) != 0 && real_sync_error(errno)) err = errno;
      close(fd);
    }
  }
  (void)fsync(dirfd(dir));
  closedir(dir);
  return err ? atvi_io_file_cannot(ctx, "write", path, err) : ATVI_OK;
}

static bool is_folder(const char *path) {
  struct stat st;
  return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* Makes every folder above the last name in path, which is changed and restored on the way. */
static int make_parents(char *path) {
  for (char *p = path + 1; (p = strchr(p, '/')) != NULL; p++) {
    *p = 0;
    bool bad = mkdir(path, 0777) != 0 && !is_folder(path);
    *p = '/';
    if (bad) return -1;
  }
  return 0;
}

static atvi_status make_dir(atvi_ctx *ctx, char *path, bool fresh) {
  if (mkdir(path, 0777) == 0) return ATVI_OK;
  if (errno == ENOENT && make_parents(path) == 0 && mkdir(path, 0777) == 0) return ATVI_OK;
  if (errno != EEXIST) return atvi_io_file_cannot(ctx, "make the folder", path, errno);
  if (fresh) return ATVI_FAIL(ctx, ATVI_EEXIST, "%s already exists", path);
  return is_folder(path) ? ATVI_OK : atvi_io_file_cannot(ctx, "make the folder", path, EEXIST);
}

atvi_status atvi_io_dir_make(atvi_ctx *ctx, const char *path, bool fresh) {
  size_t n = strlen(path);
  if (n == 0) return atvi_io_file_cannot(ctx, "make the folder", "''", ENOENT);
  while (n > 1 && path[n - 1] == '/') n--;
  char *copy = atvi_block(ctx, n + 1);
  if (!copy) return ATVI_ENOMEM;
  memcpy(copy, path, n);
  atvi_status status = make_dir(ctx, copy, fresh);
  atvi_block_free(ctx, copy);
  return status;
}

/* NNN of a name <stem>-NNN; -1 if it is not one. */
static long run_number(const char *name, const char *stem) {
  size_t n = strlen(stem);
  if (strncmp(name, stem, n) != 0 || name[n] != '-') return -1;
  long number = 0;
  const char *p = name + n + 1;
  if (strlen(p) < 3) return -1;
  for (; *p; p++) {
    if (*p < '0' || *p > '9' || number > 100000000) return -1;
    number = 10 * number + (*p - '0');
  }
  return number;
}

/* Highest number of a folder <base>-NNN; 0 if there is none. */
static atvi_status highest(atvi_ctx *ctx, atvi_pool *pool, const char *base, long *out) {
  const char *slash = strrchr(base, '/');
  const char *stem = slash ? slash + 1 : base;
  *out = 0;
  char *folder =
      slash ? atvi_pool_strndup(pool, base, (size_t)(slash - base) + 1) : atvi_pool_strndup(pool, ".", 1);
  if (!folder) return ATVI_ENOMEM;
  DIR *dir = opendir(folder);
  if (!dir) return atvi_io_file_cannot(ctx, "read the folder", folder, errno);
  const struct dirent *entry;
  while ((entry = readdir(dir)) != NULL) {
    long k = run_number(entry->d_name, stem);
    if (k <= *out) continue;
    const char *path = atvi_pool_printf(pool, "%s/%s", folder, entry->d_name);
    if (path && is_folder(path)) *out = k;
  }
  closedir(dir);
  return atvi_pool_status(pool);
}

atvi_status atvi_io_rundir_new(atvi_ctx *ctx, atvi_pool *pool, const char *base, char **path) {
  long k;
  *path = NULL;
  ATVI_TRY(highest(ctx, pool, base, &k));
  for (;;) {
    char *name = atvi_pool_printf(pool, "%s-%03ld", base, ++k);
    if (!name) return ATVI_ENOMEM;
    if (mkdir(name, 0777) == 0) {
      *path = name;
      return ATVI_OK;
    }
    if (errno != EEXIST) return atvi_io_file_cannot(ctx, "make the folder", name, errno);
  }
}

atvi_status atvi_io_rundir_latest(atvi_ctx *ctx, atvi_pool *pool, const char *base, const char *holding,
                                  char **path) {
  long k;
  *path = NULL;
  ATVI_TRY(highest(ctx, pool, base, &k));
  for (; k > 0; k--) {
    char *dir = atvi_pool_printf(pool, "%s-%03ld", base, k),
         *file = atvi_pool_printf(pool, "%s/%s", dir ? dir : "", holding);
    if (!dir || !file) return ATVI_ENOMEM;
    if (access(file, F_OK) != 0) continue;
    *path = dir;
    return ATVI_OK;
  }
  return ATVI_FAIL(ctx, ATVI_EIO, "there is no folder %s-001, %s-002, ... with a file %s", base, base,
                   holding);
}
