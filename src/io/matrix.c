/* SPDX-License-Identifier: MIT */
/* Twice through the file, a block at a time: lines are counted, then their cells are turned into numbers, on all threads. */
#include "io/csv.h"
#include "io/text.h"
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 8 << 20 }; /* bytes; a line must fit */

typedef struct {
  FILE *file;
  char *text; /* [BLOCK + 1] */
  size_t n;   /* bytes in it */
  size_t at;  /* where the lines that are in use end */
  bool end;
} blocks;

/* Lines that are whole: text[0 .. at). False: no more, or not plain. */
static bool next_block(blocks *b) {
  memmove(b->text, b->text + b->at, b->n - b->at);
  b->n -= b->at;
  b->at = 0;
  b->n += fread(b->text + b->n, 1, BLOCK - b->n, b->file);
  b->end = feof(b->file) != 0;
  if (b->n == 0 || ferror(b->file)) return false;
  if (b->end && b->text[b->n - 1] != '\n') b->text[b->n++] = '\n';
  size_t n = b->n;
  while (n > 0 && b->text[n - 1] != '\n') n--;
  b->at = n;
  return n > 0;
}

/* The end of the line at p: its \n. */
static const char *line_end(const char *p, const char *stop) { return memchr(p, '\n', (size_t)(stop - p)); }

static bool empty(const char *p, const char *end) {
  while (p < end && (*p == ' ' || *p == '\t' || *p == '\r')) p++;
  return p == end;
}

typedef struct {
  atvi_idx n_col, first, last; /* columns that are wanted, from 0, last included */
  const char **line;           /* [n] of this block, and the end of the last one */
  double *out;                 /* of its first line */
  atomic_bool failed;
} job;

/* The cell at *p without blanks; *p is then after its comma. False: not plain. */
static bool cell(const char **p, const char *end, const char **from, size_t *n) {
  const char *a = *p;
  while (a < end && *a == ' ') a++;
  const char *z = a;
  if (a < end && *a == '"') {
    z = memchr(a + 1, '"', (size_t)(end - a - 1));
    if (!z || (++z < end && *z != ',')) return false;
  } else {
    z = memchr(a, ',', (size_t)(end - a));
    if (!z) z = end;
  }
  *p = z < end ? z + 1 : end + 1;
  while (z > a && z[-1] == ' ') z--;
  *from = a;
  *n = (size_t)(z - a);
  return true;
}

static void read_line(void *arg, atvi_idx item, int worker) {
  job *j = arg;
  const char *p = j->line[item], *end = line_end(p, j->line[item + 1]), *from;
  size_t n;
  double *out = j->out + item * (j->last - j->first + 1);
  (void)worker;
  if (end > p && end[-1] == '\r') end--;
  bool ok = p[strspn(p, " ")] != '#';
  for (atvi_idx c = 0; ok && c < j->n_col; c++) {
    ok = p <= end && cell(&p, end, &from, &n);
    if (ok && c >= j->first && c <= j->last) ok = atvi_io_parse_number(from, n, out++);
  }
  if (!ok || p <= end) atomic_store(&j->failed, true);
}

/* From the first two lines: the number of columns, and whether the first is a header. False: not plain. */
static bool look(atvi_pool *pool, const char *path, const blocks *b, atvi_idx *n_col, bool *header) {
  const char *stop = b->text + b->at, *one = line_end(b->text, stop);
  const char *two = one + 1 < stop ? line_end(one + 1, stop) : NULL;
  atvi_csv *csv;
  if (!two || memchr(b->text, ';', (size_t)(two - b->text)) ||
      memchr(b->text, '\t', (size_t)(two - b->text)) || empty(b->text, one) ||
      memchr(b->text, '#', (size_t)(two - b->text)))
    return false;
  if (atvi_io_csv_parse(pool, path, b->text, (size_t)(two + 1 - b->text), &csv) != ATVI_OK) return false;
  *n_col = csv->n_col;
  *header = csv->header;
  return csv->n_row == (csv->header ? 1 : 2);
}

static bool rewind_all(blocks *b) {
  b->n = b->at = 0;
  b->end = false;
  return fseek(b->file, 0, SEEK_SET) == 0;
}

/* The lines of the block, without the header and empty ones. */
static atvi_idx lines_of(const blocks *b, bool header, const char **line) {
  const char *stop = b->text + b->at;
  atvi_idx n = 0;
  for (const char *p = b->text, *end; p < stop; p = end + 1) {
    end = line_end(p, stop);
    if (!header && !empty(p, end)) {
      if (line) line[n] = p;
      n++;
    }
    header = false;
  }
  if (line) line[n] = stop;
  return n;
}

/* room: for what lasts as long as this call. */
static atvi_status read_blocks(atvi_pool *pool, atvi_pool *room, const char *path, blocks *b, job *j,
                               atvi_idx *n_row, double **value) {
  bool header = false, first = true;
  atvi_idx most = 0, done = 0;
  *n_row = 0;
  for (; next_block(b); first = false) {
    if (first && !look(room, path, b, &j->n_col, &header)) return ATVI_OK;
    atvi_idx n = lines_of(b, first && header, NULL);
    *n_row += n;
    if (n > most) most = n;
  }
  if (j->last < 0) j->last = j->n_col - 1;
  /* An empty line of a file with one column is a missing value. */
  if (*n_row == 0 || b->n > b->at || j->n_col < 2 || j->last >= j->n_col || j->first > j->last)
    return ATVI_OK;
  atvi_idx cols = j->last - j->first + 1;
  j->line = atvi_pool_take(room, (size_t)most + 1, sizeof *j->line);
  double *out = atvi_pool_take(pool, (size_t)(*n_row * cols) + 1, sizeof *out);
  if (!j->line || !out) return ATVI_ENOMEM;
  if (!rewind_all(b)) return ATVI_OK;
  for (first = true; next_block(b) && !atomic_load(&j->failed); first = false) {
    atvi_idx n = lines_of(b, first && header, j->line);
    if (done + n > *n_row) return ATVI_OK;
    j->out = out + done * cols;
    atvi_parallel(atvi_pool_ctx(pool), n, read_line, j);
    done += n;
  }
  if (!atomic_load(&j->failed) && done == *n_row) *value = out;
  return ATVI_OK;
}

atvi_status atvi_io_matrix_read(atvi_pool *pool, const char *path, atvi_idx first, atvi_idx last,
                                atvi_idx *n_row, atvi_idx *n_col, double **value) {
  job j = {.first = first - 1, .last = last - 1};
  blocks b = {.file = fopen(path, "rb")};
  atvi_pool *room;
  *value = NULL;
  if (!b.file) return ATVI_OK;
  atvi_status status = atvi_pool_new(atvi_pool_ctx(pool), &room);
  if (status == ATVI_OK) {
    b.text = atvi_pool_take(room, BLOCK + 1, 1);
    status = b.text ? read_blocks(pool, room, path, &b, &j, n_row, value) : ATVI_ENOMEM;
    *n_col = j.n_col;
    atvi_pool_free(room);
  }
  fclose(b.file);
  return status;
}
