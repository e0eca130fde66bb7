/* SPDX-License-Identifier: MIT */
#include "sim/detail.h"
#include "io/csv.h"
#include "io/file.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CHUNK = 1 << 16 };

atvi_status atvi_sim_lines_open(atvi_ctx *ctx, const char *path, int fd, atvi_sim_lines *l) {
  *l = (atvi_sim_lines){.ctx = ctx, .path = path, .fd = fd};
  return lseek(fd, 0, SEEK_SET) == 0 ? ATVI_OK : atvi_io_file_cannot(ctx, "read", path, errno);
}

void atvi_sim_lines_close(atvi_sim_lines *l) {
  atvi_block_free(l->ctx, l->buf);
  atvi_block_free(l->ctx, l->bare);
  atvi_block_free(l->ctx, l->list);
  l->buf = l->bare = NULL;
  l->list = NULL;
}

/* At least `want` of the old block's items, which are kept; NULL: out of memory, and the old one is kept. */
static void *bigger(atvi_ctx *ctx, void *old, size_t have, size_t want, size_t size) {
  void *block = atvi_block(ctx, want * size);
  if (!block) return NULL;
  if (have) memcpy(block, old, have * size);
  atvi_block_free(ctx, old);
  return block;
}

/* Makes room and reads more; what was already returned is dropped. */
static atvi_status fill(atvi_sim_lines *l) {
  if (l->at > 0) memmove(l->buf, l->buf + l->at, l->n - l->at);
  l->n -= l->at;
  l->at = 0;
  if (l->cap - l->n < CHUNK) {
    size_t cap = 2 * l->cap + 2 * CHUNK;
    char *buf = bigger(l->ctx, l->buf, l->n, cap, 1);
    if (!buf) return ATVI_ENOMEM;
    l->buf = buf;
    l->cap = cap;
  }
  ssize_t got;
  do got = read(l->fd, l->buf + l->n, l->cap - l->n);
  while (got < 0 && errno == EINTR);
  if (got < 0) return atvi_io_file_cannot(l->ctx, "read", l->path, errno);
  l->end = got == 0;
  l->n += (size_t)got;
  return ATVI_OK;
}

atvi_status atvi_sim_lines_wrong(const atvi_sim_lines *l, const char *what) {
  return ATVI_FAIL(l->ctx, ATVI_EDATA,
                   "%s:%d:1: error: %s\nhint: this is not a line of a record of runs; if the file was "
                   "damaged, remove the line",
                   l->path, l->line, what);
}

/* ---- lists of numbers ---- */

static bool number_char(char c) {
  return (c >= '0' && c <= '9') || c == ',' || c == '.' || c == '-' || c == '+' || c == 'e' || c == 'E' ||
         c == ' ';
}

/* Bytes of the list of numbers whose [ is at p, without brackets; 0 if it is not a list. */
static size_t list_length(const char *p, const char *end) {
  size_t n = 0;
  if (end - p < 3 || !((p[1] >= '0' && p[1] <= '9') || p[1] == '-')) return 0;
  while (p + 1 + n < end && number_char(p[1 + n])) n++;
  return p + 1 + n < end && p[1 + n] == ']' ? n : 0;
}

static atvi_status add_list(atvi_sim_lines *l, const char *text, size_t n) {
  if (l->n_list == l->cap_list) {
    size_t cap = 2 * l->cap_list + 8;
    atvi_sim_list *list = bigger(l->ctx, l->list, l->n_list, cap, sizeof *list);
    if (!list) return ATVI_ENOMEM;
    l->list = list;
    l->cap_list = cap;
  }
  l->list[l->n_list++] = (atvi_sim_list){text, n};
  return ATVI_OK;
}

/* line[n] without its lists of numbers: *bytes of it in l->bare. */
static atvi_status strip(atvi_sim_lines *l, const char *line, size_t n, size_t *bytes) {
  const char *end = line + n;
  bool quoted = false;
  l->n_list = 0;
  *bytes = 0;
  for (const char *p = line; p < end; p++) {
    if (l->cap_bare - *bytes < 64) {
      size_t cap = 2 * l->cap_bare + 1024;
      char *bare = bigger(l->ctx, l->bare, *bytes, cap, 1);
      if (!bare) return ATVI_ENOMEM;
      l->bare = bare;
      l->cap_bare = cap;
    }
    size_t length = *p == '[' && !quoted ? list_length(p, end) : 0;
    if (length) {
      ATVI_TRY(add_list(l, p + 1, length));
      *bytes += (size_t)snprintf(l->bare + *bytes, 40, "[\"%zu\"]", l->n_list - 1);
      p += length + 1;
      continue;
    }
    l->bare[(*bytes)++] = *p;
    if (*p == '"') quoted = !quoted;
    if (*p == '\\' && quoted && p + 1 < end) l->bare[(*bytes)++] = *++p;
  }
  return ATVI_OK;
}

atvi_status atvi_sim_lines_numbers(const atvi_sim_lines *l, atvi_pool *pool, const json_t *list, atvi_idx *n,
                                   double **x) {
  const char *place = json_array_size(list) == 1 ? json_string_value(json_array_get(list, 0)) : NULL;
  size_t k = place ? strtoul(place, NULL, 10) : l->n_list;
  if (k >= l->n_list) return atvi_sim_lines_wrong(l, "a list of numbers is missing");
  const char *p = l->list[k].text, *end = p + l->list[k].n;
  *n = 1;
  for (const char *q = p; q < end; q++) *n += *q == ',';
  double *out = *x = atvi_pool_take(pool, (size_t)*n, sizeof *out);
  if (!out) return ATVI_ENOMEM;
  for (atvi_idx i = 0; i < *n; i++) {
    while (p < end && *p == ' ') p++;
    const char *stop = p;
    while (stop < end && *stop != ',') stop++;
    const char *next = stop + (stop < end);
    while (stop > p && stop[-1] == ' ') stop--;
    if (!atvi_io_parse_number(p, (size_t)(stop - p), &out[i]))
      return atvi_sim_lines_wrong(l, "an element of a list is not a finite number");
    p = next;
  }
  return ATVI_OK;
}

/* The line from[n] as an object; NULL, and why, if it is none. */
static atvi_status parse(atvi_sim_lines *l, const char *from, size_t n, json_t **out, json_error_t *error) {
  size_t bytes;
  ATVI_TRY(strip(l, from, n, &bytes));
  error->text[0] = 0;
  *out = json_loadb(l->bare ? l->bare : "", bytes, JSON_DECODE_INT_AS_REAL, error);
  if (json_is_object(*out)) return ATVI_OK;
  json_decref(*out);
  *out = NULL;
  return ATVI_OK;
}

atvi_status atvi_sim_lines_next(atvi_sim_lines *l, json_t **out) {
  size_t looked = 0;
  json_error_t error;
  *out = NULL;
  for (;;) {
    char *from = l->buf ? l->buf + l->at : NULL;
    size_t left = l->n - l->at;
    char *stop = from ? memchr(from + looked, '\n', left - looked) : NULL;
    if (!stop && !l->end) {
      looked = left;
      ATVI_TRY(fill(l));
      continue;
    }
    if (!stop && left == 0) return ATVI_OK;
    size_t n = stop ? (size_t)(stop - from) : left;
    ATVI_TRY(parse(l, from, n, out, &error));
    if (!stop && !*out) return ATVI_OK; /* half a line */
    l->at += n + (stop != NULL);
    l->whole += (int64_t)n + (stop != NULL);
    l->line++;
    return *out ? ATVI_OK : atvi_sim_lines_wrong(l, error.text[0] ? error.text : "no JSON object");
  }
}

bool atvi_sim_ids_room(atvi_pool *pool, int64_t id, atvi_idx **at, atvi_idx *n) {
  if (id < *n) return true;
  atvi_idx more = 2 * (atvi_idx)id + 64, *to = atvi_pool_take(pool, (size_t)more, sizeof *to);
  if (!to) return false;
  if (*n) memcpy(to, *at, (size_t)*n * sizeof *to);
  *at = to;
  *n = more;
  return true;
}
