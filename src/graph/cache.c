/* SPDX-License-Identifier: MIT */
/* Loading runs the code of a file, and dlopen may crash on a damaged one. So an entry is loaded
 * only from a directory that belongs to us and that nobody else may write, only if it is a plain
 * file of ours, and only if its seal fits: SHA-256 over its contents and its key, appended behind the
 * end of the ELF image, where the loader does not look. Entries appear under their name by
 * rename(), complete; whoever comes second replaces them by their like. */
#include "graph/internal.h"
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const char magic[8] = {'a', 't', 'v', 'i', 's', 'e', 'a', 'l'};
enum { SEAL = 32 + 8, MAX_ENTRY = 1 << 30 };

static bool make_dirs(char *path) {
  for (char *p = path + 1; *p; p++) {
    if (*p != '/') continue;
    *p = 0;
    bool ok = mkdir(path, 0700) == 0 || errno == EEXIST;
    *p = '/';
    if (!ok && errno != EROFS && errno != EACCES) return false;
  }
  return mkdir(path, 0700) == 0 || errno == EEXIST;
}

const char *atvi_graph_cache_dir(atvi_pool *pool, const char *dir, char *why, size_t room) {
  const char *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
  char *path = NULL;
  if (dir)
    path = atvi_pool_printf(pool, "%s", dir);
  else if (xdg && xdg[0] == '/')
    path = atvi_pool_printf(pool, "%s/atvi", xdg);
  else if (home && home[0] == '/')
    path = atvi_pool_printf(pool, "%s/.cache/atvi", home);
  if (!path || !*path) {
    snprintf(why, room, "neither XDG_CACHE_HOME nor HOME is set");
    return NULL;
  }
  struct stat st;
  if (!make_dirs(path) || lstat(path, &st) != 0) {
    snprintf(why, room, "cannot make %s: %s", path, strerror(errno));
    return NULL;
  }
  if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & (S_IWGRP | S_IWOTH))) {
    snprintf(why, room, "%s is not a directory that only we can write", path);
    return NULL;
  }
  return path;
}

/* Where folders that hold a compilation are: dir, or the system's place for temporary files. *prefix: how their names begin. */
static const char *temp_place(const char *dir, const char **prefix) {
  const char *tmp = getenv("TMPDIR");
  *prefix = dir ? "tmp-" : "atvi-cc-";
  return dir ? dir : tmp && tmp[0] == '/' ? tmp : "/tmp";
}

const char *atvi_graph_cache_temp(atvi_pool *pool, const char *dir) {
  const char *prefix, *place = temp_place(dir, &prefix);
  char *path = atvi_pool_printf(pool, "%s/%sXXXXXX", place, prefix);
  return path && mkdtemp(path) ? path : NULL;
}

void atvi_graph_cache_temp_remove(const char *folder) {
  DIR *d = opendir(folder);
  if (d) {
    for (struct dirent *e; (e = readdir(d));)
      if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0) unlinkat(dirfd(d), e->d_name, 0);
    closedir(d);
  }
  rmdir(folder);
}

void atvi_graph_cache_tidy(atvi_pool *pool, const char *dir) {
  const time_t hour_s = 3600; /* no compiler has that long */
  const char *prefix, *place = temp_place(dir, &prefix);
  DIR *d = opendir(place);
  if (!d) return;
  for (struct dirent *e; (e = readdir(d));) {
    struct stat st;
    size_t n = strlen(prefix);
    if (strncmp(e->d_name, prefix, n) != 0 || strlen(e->d_name) != n + 6 ||
        fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0)
      continue;
    if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid() || time(NULL) - st.st_mtime < hour_s) continue;
    const char *folder = atvi_pool_printf(pool, "%s/%s", place, e->d_name);
    if (folder) atvi_graph_cache_temp_remove(folder);
  }
  closedir(d);
}

/* The whole file if it is a plain one of ours; *bytes its size. NULL: errno, or 0 where it is not fit. */
static unsigned char *read_file(atvi_pool *pool, const char *path, size_t *bytes) {
  struct stat st;
  int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return NULL;
  unsigned char *data = NULL;
  errno = 0;
  if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
      !(st.st_mode & (S_IWGRP | S_IWOTH)) && st.st_size > 0 && st.st_size < MAX_ENTRY)
    data = atvi_pool_take(pool, (size_t)st.st_size, 1);
  for (*bytes = 0; data && *bytes < (size_t)st.st_size;) {
    ssize_t got = read(fd, data + *bytes, (size_t)st.st_size - *bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0)
      data = NULL;
    else
      *bytes += (size_t)got;
  }
  close(fd);
  return data;
}

static void seal_of(const unsigned char *data, size_t bytes, const char *key, unsigned char seal[SEAL]) {
  atvi_sha256 s;
  atvi_sha256_begin(&s);
  atvi_sha256_add(&s, key, strlen(key));
  atvi_sha256_add(&s, data, bytes);
  atvi_sha256_end(&s, seal);
  memcpy(seal + 32, magic, sizeof magic);
}

bool atvi_graph_cache_seal(atvi_pool *pool, const char *path, const char *key) {
  size_t bytes, done = 0;
  unsigned char seal[SEAL];
  /* the umask may have left it writable for others */
  unsigned char *data = chmod(path, 0700) == 0 ? read_file(pool, path, &bytes) : NULL;
  int fd = data ? open(path, O_WRONLY | O_APPEND | O_NOFOLLOW | O_CLOEXEC) : -1;
  if (fd < 0) return false;
  seal_of(data, bytes, key, seal);
  while (done < SEAL) {
    ssize_t put = write(fd, seal + done, SEAL - done);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) break;
    done += (size_t)put;
  }
  return close(fd) == 0 && done == SEAL;
}

void *atvi_graph_cache_load(atvi_pool *pool, const char *path, const char *key, char *why, size_t room) {
  size_t bytes;
  unsigned char seal[SEAL];
  *why = 0;
  unsigned char *data = read_file(pool, path, &bytes);
  if (!data) {
    if (errno != ENOENT) snprintf(why, room, "%s cannot be read or is not ours", path);
    return NULL;
  }
  if (bytes > SEAL) seal_of(data, bytes - SEAL, key, seal);
  if (bytes <= SEAL || memcmp(data + bytes - SEAL, seal, SEAL) != 0) {
    snprintf(why, room, "%s is damaged", path);
    return NULL;
  }
  void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    const char *said = dlerror();
    snprintf(why, room, "cannot load: %s", said ? said : path);
  }
  return handle;
}
