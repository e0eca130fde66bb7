/* SPDX-License-Identifier: MIT */
#include "io/file.h"
#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>

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
  if (make_parents(path) != 0) return atvi_file_cannot(ctx, "make the folder", path, errno);
  if (mkdir(path, 0777) == 0) return ATVI_OK;
  if (errno != EEXIST) return atvi_file_cannot(ctx, "make the folder", path, errno);
  if (fresh) return ATVI_FAIL(ctx, ATVI_EEXIST, "%s exists already", path);
  return is_folder(path) ? ATVI_OK : atvi_file_cannot(ctx, "make the folder", path, EEXIST);
}

atvi_status atvi_dir_make(atvi_ctx *ctx, const char *path, bool fresh) {
  size_t n = strlen(path);
  if (n == 0) return atvi_file_cannot(ctx, "make the folder", "''", ENOENT);
  while (n > 1 && path[n - 1] == '/') n--;
  char *copy = atvi_block(ctx, n + 1);
  if (!copy) return ATVI_FAIL(ctx, ATVI_ENOMEM, "%s: out of memory", path);
  memcpy(copy, path, n);
  atvi_status status = make_dir(ctx, copy, fresh);
  atvi_block_free(ctx, copy);
  return status;
}

/* NNN of a name <stem>-NNN; -1 if it is none. */
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
  if (!folder) return ATVI_FAIL(ctx, ATVI_ENOMEM, "%s: out of memory", base);
  DIR *dir = opendir(folder);
  if (!dir) return atvi_file_cannot(ctx, "read the folder", folder, errno);
  const struct dirent *entry;
  while ((entry = readdir(dir)) != NULL) {
    long k = run_number(entry->d_name, stem);
    if (k <= *out) continue;
    const char *path = atvi_pool_printf(pool, "%s/%s", folder, entry->d_name);
    if (path && is_folder(path)) *out = k;
  }
  closedir(dir);
  return atvi_pool_failed(pool) ? ATVI_FAIL(ctx, ATVI_ENOMEM, "%s: out of memory", base) : ATVI_OK;
}

atvi_status atvi_rundir_new(atvi_ctx *ctx, atvi_pool *pool, const char *base, char **path) {
  long k;
  *path = NULL;
  ATVI_TRY(highest(ctx, pool, base, &k));
  for (;;) {
    char *name = atvi_pool_printf(pool, "%s-%03ld", base, ++k);
    if (!name) return ATVI_FAIL(ctx, ATVI_ENOMEM, "%s: out of memory", base);
    if (mkdir(name, 0777) == 0) {
      *path = name;
      return ATVI_OK;
    }
    if (errno != EEXIST) return atvi_file_cannot(ctx, "make the folder", name, errno);
  }
}

atvi_status atvi_rundir_latest(atvi_ctx *ctx, atvi_pool *pool, const char *base, const char *holding,
                               char **path) {
  long k;
  *path = NULL;
  ATVI_TRY(highest(ctx, pool, base, &k));
  for (; k > 0; k--) {
    char *dir = atvi_pool_printf(pool, "%s-%03ld", base, k),
         *file = atvi_pool_printf(pool, "%s/%s", dir ? dir : "", holding);
    if (!dir || !file) return ATVI_FAIL(ctx, ATVI_ENOMEM, "%s: out of memory", base);
    if (access(file, F_OK) != 0) continue;
    *path = dir;
    return ATVI_OK;
  }
  return ATVI_FAIL(ctx, ATVI_EIO, "there is no folder %s-001, %s-002, ... with a file %s", base, base,
                   holding);
}
