/* SPDX-License-Identifier: MIT */
#include "sim/record.h"
#include "io/file.h"
#include "sim/detail.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char SHARDS[] = "shards", FORGIVEN[] = "forgiven";
enum { CHUNK = 1 << 20 };

static int by_text(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

/* Shards have the ending of the file that they are parts of. */
static const char *ending_of(const char *path) {
  const char *dot = strrchr(path, '.');
  return dot && !strchr(dot, '/') ? dot : "";
}

static bool is_shard(const char *name, const char *ending) {
  size_t n = strlen(name), k = strlen(ending);
  return name[0] != '.' && n > k && strcmp(name + n - k, ending) == 0;
}

static const char *folder_of(atvi_pool *pool, const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? atvi_pool_strndup(pool, path, (size_t)(slash - path)) : ".";
}

atvi_status atvi_sim_shards_list(atvi_pool *pool, const char *path, atvi_idx *n, const char *const **list) {
  const char *dir = folder_of(pool, path),
             *folder = dir ? atvi_pool_printf(pool, "%s/%s", dir, SHARDS) : NULL;
  const char **all = NULL;
  atvi_idx cap = 0;
  *n = 0;
  if (!folder || !ATVI_PUSH(pool, all, *n, cap)) return ATVI_ENOMEM;
  all[(*n)++] = path;
  DIR *d = opendir(folder);
  if (!d && errno != ENOENT && errno != ENOTDIR)
    return atvi_io_file_cannot(atvi_pool_ctx(pool), "read", folder, errno);
  for (const struct dirent *e; d && !atvi_pool_failed(pool) && (e = readdir(d));)
    if (is_shard(e->d_name, ending_of(path)) && ATVI_PUSH(pool, all, *n, cap))
      all[(*n)++] = atvi_pool_printf(pool, "%s/%s", folder, e->d_name);
  if (d) closedir(d);
  if (atvi_pool_failed(pool)) return ATVI_ENOMEM;
  qsort(all + 1, (size_t)*n - 1, sizeof *all, by_text);
  *list = all;
  return ATVI_OK;
}

const char *atvi_sim_shards_path(atvi_pool *pool, const char *path, const char *name) {
  const char *dir = folder_of(pool, path),
             *folder = dir ? atvi_pool_printf(pool, "%s/%s", dir, SHARDS) : NULL;
  if (!folder || atvi_io_dir_make(atvi_pool_ctx(pool), folder, false) != ATVI_OK) return NULL;
  return atvi_pool_printf(pool, "%s/%s%s", folder, name, ending_of(path));
}

/* Several processes may do this at once: whoever links first has made it, whole. */
atvi_status atvi_sim_shards_begin(atvi_ctx *ctx, const char *dir, const char *shard) {
  atvi_pool *pool;
  char *text;
  size_t n;
  ATVI_TRY(atvi_pool_new(ctx, &pool));
  const char *path = atvi_pool_printf(pool, "%s/%s", dir, ATVI_SIM_RECORD), *slash = strrchr(shard, '/'),
             *temp = atvi_pool_printf(pool, "%s/.%s", dir, slash ? slash + 1 : shard);
  atvi_status status = path && temp ? ATVI_OK : ATVI_ENOMEM;
  if (status == ATVI_OK && access(path, F_OK) != 0) {
    status = atvi_io_file_read(pool, shard, &text, &n);
    if (status == ATVI_OK) status = atvi_io_file_save(ctx, temp, text, strcspn(text, "\n") + 1);
    if (status == ATVI_OK && link(temp, path) != 0 && errno != EEXIST && access(path, F_OK) != 0 &&
        rename(temp, path) != 0) /* no hard links */
      status = atvi_io_file_cannot(ctx, "make", path, errno);
    unlink(temp);
  }
  atvi_pool_free(pool);
  return status;
}

/* ---- index ---- */

static char *copy(atvi_pool *pool, const char *s) { return s ? atvi_pool_strndup(pool, s, strlen(s)) : NULL; }

static atvi_sim_mark *mark_of(atvi_sim_index *ix, int64_t id) {
  if (id >= ix->n_mark) {
    atvi_idx more = 2 * (atvi_idx)id + 64;
    atvi_sim_mark *to = atvi_pool_take(ix->pool, (size_t)more, sizeof *to);
    if (!to) return NULL;
    if (ix->n_mark) memcpy(to, ix->mark, (size_t)ix->n_mark * sizeof *to);
    ix->mark = to;
    ix->n_mark = more;
  }
  return &ix->mark[id];
}

static atvi_status count(atvi_sim_index *ix, atvi_sim_part *p, int64_t id, bool ok, double seconds,
                         const char *reason) {
  atvi_sim_mark *m = mark_of(ix, id);
  if (!m) return ATVI_ENOMEM;
  if (ok) {
    ix->n_ok += !m->ok;
    m->ok = true;
    p->ok++;
  } else {
    m->failed++;
    m->reason = reason ? copy(ix->pool, reason) : m->reason;
    p->failed++;
  }
  if (seconds >= 0) {
    ix->seconds += seconds;
    ix->n_timed++;
    if (seconds > ix->longest_s) ix->longest_s = seconds;
  }
  return atvi_pool_status(ix->pool);
}

/* Moves past word if it is there. */
static bool skip(const char **at, const char *word) {
  size_t n = strlen(word);
  if (strncmp(*at, word, n) != 0) return false;
  *at += n;
  return true;
}

/* A line as the parser of JSON sees it: of a failed run, or one that somebody has edited. */
static atvi_status parse_line(atvi_sim_index *ix, atvi_sim_part *p, const char *line, size_t n) {
  json_error_t error;
  json_t *o = json_loadb(line, n, JSON_DECODE_INT_AS_REAL, &error);
  double id = json_number_value(json_object_get(o, "id"));
  const char *outcome = json_string_value(json_object_get(o, "outcome"));
  const json_t *seconds = json_object_get(o, "seconds");
  atvi_status status = ATVI_OK;
  if (id >= 1 && id <= ATVI_SIM_ID_MAX && outcome)
    status = count(ix, p, (int64_t)id, strcmp(outcome, "ok") == 0,
                   json_is_number(seconds) ? json_number_value(seconds) : -1,
                   json_string_value(json_object_get(o, "reason")));
  else if (!json_object_get(o, "record"))
    status = ATVI_FAIL(atvi_pool_ctx(ix->pool), ATVI_EDATA,
                       "%s: error: byte %lld: this is not a line of a record of runs; if the file was "
                       "damaged, remove the line",
                       p->path, (long long)p->at);
  json_decref(o);
  return status;
}

/* Good runs, which are long and most of the file, begin as we write them. */
static atvi_status take_line(atvi_sim_index *ix, atvi_sim_part *p, const char *line, size_t n) {
  const char *at = line;
  char *end;
  if (!skip(&at, "{\"id\":")) return parse_line(ix, p, line, n);
  int64_t id = strtoll(at, &end, 10);
  at = end;
  if (id < 1 || id > ATVI_SIM_ID_MAX || !skip(&at, ",\"outcome\":\"ok\",\"seconds\":"))
    return parse_line(ix, p, line, n);
  return count(ix, p, id, true, strtod(at, NULL), NULL);
}

/* New complete lines of a file; each ends with a NUL while it is looked at. */
static atvi_status read_part(atvi_sim_index *ix, atvi_sim_part *p, int fd, char **buf, size_t *cap) {
  atvi_ctx *ctx = atvi_pool_ctx(ix->pool);
  for (;;) {
    ssize_t got = pread(fd, *buf, *cap - 1, (off_t)p->at);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return atvi_io_file_cannot(ctx, "read", p->path, errno);
    size_t from = 0, n = (size_t)got;
    for (char *stop; (stop = memchr(*buf + from, '\n', n - from)); from = (size_t)(stop - *buf) + 1) {
      *stop = 0;
      ATVI_TRY(take_line(ix, p, *buf + from, (size_t)(stop - *buf) - from));
      p->at += stop - *buf - (ptrdiff_t)from + 1;
    }
    if (n + 1 < *cap) return ATVI_OK; /* the end of the file */
    if (from > 0) continue;
    char *more = atvi_block(ctx, 4 * *cap); /* a long line */
    if (!more) return ATVI_ENOMEM;
    atvi_block_free(ctx, *buf);
    *buf = more;
    *cap *= 4;
  }
}

/* Keeps what is known of files that were there before. One that was removed had no runs. */
static atvi_status merge_parts(atvi_sim_index *ix, atvi_idx n, const char *const *list) {
  atvi_idx k = 0;
  while (k < n && k < ix->n_part && strcmp(ix->part[k].path, list[k]) == 0) k++;
  if (k == n && k == ix->n_part) return ATVI_OK;
  atvi_sim_part *all = atvi_pool_take(ix->pool, (size_t)n, sizeof *all);
  for (atvi_idx i = k = 0; all && i < n; i++) {
    while (i > 0 && k < ix->n_part && strcmp(ix->part[k].path, list[i]) < 0) k++;
    if (k < ix->n_part && strcmp(ix->part[k].path, list[i]) == 0)
      all[i] = ix->part[k++];
    else
      all[i] = (atvi_sim_part){.path = copy(ix->pool, list[i]),
                               .name = i == 0 ? "" : atvi_io_path_stem(ix->pool, list[i])};
  }
  if (atvi_pool_failed(ix->pool)) return ATVI_ENOMEM;
  ix->part = all;
  ix->n_part = n;
  return ATVI_OK;
}

static atvi_status list_parts(atvi_sim_index *ix) {
  const char *const *list = NULL;
  atvi_idx n = 0;
  atvi_pool *scratch;
  ATVI_TRY(atvi_pool_new(atvi_pool_ctx(ix->pool), &scratch));
  const char *path = atvi_pool_printf(scratch, "%s/%s", ix->dir, ATVI_SIM_RECORD);
  atvi_status status = path ? atvi_sim_shards_list(scratch, path, &n, &list) : ATVI_ENOMEM;
  if (status == ATVI_OK) status = merge_parts(ix, n, list);
  atvi_pool_free(scratch);
  return status;
}

static atvi_status read_forgiven(atvi_sim_index *ix) {
  char path[4200], line[64];
  snprintf(path, sizeof path, "%s/%s", ix->dir, FORGIVEN);
  FILE *f = fopen(path, "re");
  if (!f) return ATVI_OK;
  atvi_status status = ATVI_OK;
  if (fseeko(f, (off_t)ix->forgiven_at, SEEK_SET) != 0)
    status = atvi_io_file_cannot(atvi_pool_ctx(ix->pool), "read", path, errno);
  while (status == ATVI_OK && fgets(line, sizeof line, f) && strchr(line, '\n')) {
    long long id;
    int times;
    ix->forgiven_at += (int64_t)strlen(line);
    if (sscanf(line, "%lld %d", &id, &times) != 2 || id < 1 || id > ATVI_SIM_ID_MAX) continue;
    atvi_sim_mark *m = mark_of(ix, id);
    if (!m)
      status = ATVI_ENOMEM;
    else if (times > m->forgiven)
      m->forgiven = times;
  }
  fclose(f);
  return status;
}

atvi_status atvi_sim_index_read(atvi_sim_index *ix) {
  atvi_ctx *ctx = atvi_pool_ctx(ix->pool);
  ATVI_TRY(list_parts(ix));
  size_t cap = CHUNK;
  char *buf = atvi_block(ctx, cap);
  atvi_status status = buf ? ATVI_OK : ATVI_ENOMEM;
  for (atvi_idx i = 0; i < ix->n_part && status == ATVI_OK; i++) {
    atvi_sim_part *p = &ix->part[i];
    int fd = open(p->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT) continue;
    status = fd < 0 ? atvi_io_file_cannot(ctx, "read", p->path, errno) : read_part(ix, p, fd, &buf, &cap);
    if (fd >= 0) close(fd);
  }
  atvi_block_free(ctx, buf);
  return status == ATVI_OK ? read_forgiven(ix) : status;
}

atvi_sim_state atvi_sim_index_state(const atvi_sim_index *ix, int64_t id) {
  if (id < 1 || id >= ix->n_mark) return ATVI_SIM_OPEN;
  const atvi_sim_mark *m = &ix->mark[id];
  if (m->ok) return ATVI_SIM_GOOD;
  return m->failed > m->forgiven ? ATVI_SIM_FAILED : ATVI_SIM_OPEN;
}

atvi_status atvi_sim_index_forgive(atvi_sim_index *ix, atvi_idx n, const int64_t *id) {
  atvi_ctx *ctx = atvi_pool_ctx(ix->pool);
  char path[4200], line[64];
  atvi_journal j;
  snprintf(path, sizeof path, "%s/%s", ix->dir, FORGIVEN);
  ATVI_TRY(atvi_io_journal_open(ctx, path, NULL, &j));
  atvi_status status = ATVI_OK;
  for (atvi_idx i = 0; i < n && status == ATVI_OK; i++) {
    if (atvi_sim_index_state(ix, id[i]) != ATVI_SIM_FAILED) continue;
    int k = snprintf(line, sizeof line, "%lld %d\n", (long long)id[i], ix->mark[id[i]].failed);
    status = atvi_io_journal_put(&j, line, (size_t)k);
  }
  if (status == ATVI_OK) status = atvi_io_journal_sync(&j);
  atvi_io_journal_close(&j);
  return status == ATVI_OK ? read_forgiven(ix) : status;
}
