/* SPDX-License-Identifier: MIT */
/* Small things that several commands need: lists and times on the command line, cells of a CSV file, hashes of data. */
#include "app/common.h"
#include "io/csv.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

/* More times than this in one range is a slip of the pen. */
enum { MAX_TIMES = 1000000 };
static const char BLANKS[] = " \t";

bool atvi_app_next(const char **at, const char **item, size_t *n) {
  if (!*at) return false;
  size_t whole = strcspn(*at, ","), skip = strspn(*at, BLANKS);
  *item = *at + (skip < whole ? skip : whole);
  *n = whole - (size_t)(*item - *at);
  while (*n > 0 && strchr(BLANKS, (*item)[*n - 1])) --*n;
  *at = (*at)[whole] ? *at + whole + 1 : NULL;
  return true;
}

/* ---- times ---- */

static atvi_status bad_time(atvi_ctx *ctx, const char *times, const char *item, size_t n) {
  return ATVI_FAIL(ctx, ATVI_EINVAL,
                   "--times %s: '%.*s' is not a number; want first:last, first:last:step or a list t1,t2,...",
                   times, (int)n, item);
}

static atvi_status read_range(atvi_ctx *ctx, const char *times, double part[3], atvi_idx *n) {
  int n_part = 0;
  part[2] = 1;
  for (const char *at = times; at; n_part++) {
    size_t len = strcspn(at, ":"), skip = strspn(at, BLANKS), end = len;
    if (skip > len) skip = len;
    while (end > skip && strchr(BLANKS, at[end - 1])) end--;
    if (n_part == 3)
      return ATVI_FAIL(ctx, ATVI_EINVAL,
                       "--times %s: more than three numbers; want first:last or first:last:step", times);
    if (!atvi_parse_number(at + skip, end - skip, &part[n_part]) || !isfinite(part[n_part]))
      return bad_time(ctx, times, at + skip, end - skip);
    at = at[len] ? at + len + 1 : NULL;
  }
  if (!(part[2] > 0))
    return ATVI_FAIL(ctx, ATVI_EINVAL, "--times %s: the step is %g; it must be above 0", times, part[2]);
  if (part[1] < part[0])
    return ATVI_FAIL(ctx, ATVI_EINVAL, "--times %s: the last time, %g, is before the first, %g", times,
                     part[1], part[0]);
  double count = floor((part[1] - part[0]) / part[2] + 1e-9) + 1;
  if (!(count <= MAX_TIMES))
    return ATVI_FAIL(ctx, ATVI_EINVAL, "--times %s: these are %.3g times; at most %d", times, count,
                     MAX_TIMES);
  *n = (atvi_idx)count;
  return ATVI_OK;
}

static atvi_status read_list(atvi_ctx *ctx, atvi_pool *pool, const char *times, atvi_idx *n, double **out) {
  const char *item;
  size_t len;
  atvi_idx cap = 0;
  for (const char *at = times; atvi_app_next(&at, &item, &len);) {
    double x;
    if (!atvi_parse_number(item, len, &x) || !isfinite(x)) return bad_time(ctx, times, item, len);
    if (*n > 0 && !(x > (*out)[*n - 1]))
      return ATVI_FAIL(ctx, ATVI_EINVAL, "--times %s: %g stands after %g; times must ascend", times, x,
                       (*out)[*n - 1]);
    if (!ATVI_PUSH(pool, *out, *n, cap)) return ATVI_FAIL(ctx, ATVI_ENOMEM, "out of memory");
    (*out)[(*n)++] = x;
  }
  return ATVI_OK;
}

atvi_status atvi_app_times(atvi_ctx *ctx, atvi_pool *pool, const char *times, atvi_idx *n, double **out) {
  double part[3];
  *n = 0;
  *out = NULL;
  if (!times) return ATVI_OK;
  if (!strchr(times, ':')) return read_list(ctx, pool, times, n, out);
  ATVI_TRY(read_range(ctx, times, part, n));
  *out = atvi_pool_take(pool, (size_t)*n, sizeof **out);
  for (atvi_idx i = 0; *out && i < *n; i++) (*out)[i] = part[0] + (double)i * part[2];
  return *out ? ATVI_OK : ATVI_FAIL(ctx, ATVI_ENOMEM, "out of memory");
}

/* ---- telling data apart ---- */

const char *atvi_app_held_hash(atvi_pool *pool, const atvi_loaded *l) {
  const atvi_lang *lang = l->model->lang;
  const atvi_holdout *h = &l->model->holdout;
  uint64_t hash = ATVI_HASH;
  for (atvi_idx o = 0; h->held && o < lang->n_observe; o++) {
    const atvi_lang_observe *obs = &lang->observe[o];
    const atvi_csv *csv = lang->data[obs->data].csv; /* as it was read: the model has these values no more */
    for (atvi_idx r = 0; csv && obs->column >= 0 && r < csv->n_row; r++) {
      const char *cell = csv->text[r * csv->n_col + obs->column];
      if (h->held[obs->data][r]) hash = atvi_hash(hash, cell, strlen(cell) + 1);
    }
  }
  return atvi_pool_printf(pool, "%016" PRIx64, hash);
}

/* ---- text ---- */

void atvi_app_field(atvi_text *out, const char *s) {
  if (!strpbrk(s, ",\"; \t")) {
    atvi_text_add(out, "%s", s);
    return;
  }
  atvi_text_add(out, "\"");
  for (; *s; s++) atvi_text_add(out, *s == '"' ? "\"\"" : "%c", *s);
  atvi_text_add(out, "\"");
}
