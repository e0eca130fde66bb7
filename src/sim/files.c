/* SPDX-License-Identifier: MIT */
#include "sim/process.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DEPTH_MAX = 64 };

/* Empties the folder fd, which is closed. */
static bool empty(int fd, int depth) {
  DIR *dir = depth < DEPTH_MAX ? fdopendir(fd) : NULL;
  if (!dir) {
    close(fd);
    return false;
  }
  bool ok = true;
  const struct dirent *entry;
  while ((entry = readdir(dir)) != NULL) {
    const char *name = entry->d_name;
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0) continue;
    if (unlinkat(fd, name, 0) == 0 || errno == ENOENT) continue;
    int below = openat(fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (below < 0 && errno == EACCES &&
        fchmodat(fd, name, 0700, 0) == 0) /* a folder of ours without rights */
      below = openat(fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    bool gone = below >= 0 && empty(below, depth + 1) && unlinkat(fd, name, AT_REMOVEDIR) == 0;
    ok = ok && gone;
  }
  closedir(dir);
  return ok;
}

bool atvi_folder_remove(const char *path) {
  int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return errno == ENOENT || unlink(path) == 0;
  return empty(fd, 0) && rmdir(path) == 0;
}

char *atvi_file_tail(atvi_pool *pool, const char *path, size_t most) {
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
