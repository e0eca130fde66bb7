/* SPDX-License-Identifier: MIT */
/* Small things that several commands need: lists and times on the command line, cells of a CSV file, hashes of data. */
#include "app/common.h"
#include "io/csv.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
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

atvi_status atvi_app_method(atvi_ctx *ctx, unsigned is, const char *option, const char *name,
                            const atvi_method **out) {
  char list[ATVI_METHODS_TEXT];
  *out = atvi_method_find(is, name);
  if (*out) return ATVI_OK;
  atvi_methods_text(is, " and ", list);
  if (is & ATVI_METHOD_POSTERIOR)
    return ATVI_FAIL(ctx, ATVI_EINVAL,
                     "%s: there is no '%s' among the methods that draw from the posterior: %s", option, name,
                     list);
  return ATVI_FAIL(ctx, ATVI_EINVAL, "%s: there is no method '%s'; there are %s", option, name, list);
}

atvi_status atvi_app_methods(atvi_pool *pool, unsigned is, const char *list, atvi_idx *n,
                             const atvi_method ***out) {
  atvi_ctx *ctx = atvi_pool_ctx(pool);
  const char *item;
  size_t len;
  atvi_idx cap = 0;
  *n = 0;
  *out = NULL;
  for (const char *at = list; atvi_app_next(&at, &item, &len);) {
    const atvi_method *m;
    const char *name = atvi_pool_strndup(pool, item, len);
    if (!name || !ATVI_PUSH(pool, *out, *n, cap)) return ATVI_FAIL(ctx, ATVI_ENOMEM, "out of memory");
    ATVI_TRY(atvi_app_method(ctx, is, "--methods", name, &m));
    for (atvi_idx k = 0; k < *n; k++)
      if ((*out)[k] == m) return ATVI_FAIL(ctx, ATVI_EINVAL, "--methods %s: %s is given twice", list, name);
    (*out)[(*n)++] = m;
  }
  return ATVI_OK;
}

/* ---- times ---- */

static atvi_status bad_time(atvi_ctx *ctx, const char *times, const char *item, size_t n) {
  int64_t days;
  if (atvi_parse_date(item, n, &days))
    return ATVI_FAIL(ctx, ATVI_EINVAL,
                     "--times %s: %.*s is a date; the first and the last time and those of a list can be "
                     "dates, where the model has a calendar",
                     times, (int)n, item);
  return ATVI_FAIL(ctx, ATVI_EINVAL,
                   "--times %s: '%.*s' is not a number; want first:last, first:last:step or a list t1,t2,...",
                   times, (int)n, item);
}

/* A number, or a date where there is a calendar. */
static bool read_time(const atvi_lang *lang, const char *s, size_t n, double *out) {
  int64_t days;
  if (atvi_parse_number(s, n, out)) return isfinite(*out);
  if (!lang || !lang->calendar.unit || !atvi_parse_date(s, n, &days)) return false;
  *out = atvi_calendar_time(lang->calendar, (double)days);
  return true;
}

static atvi_status read_range(atvi_ctx *ctx, const char *times, const atvi_lang *lang, double part[3],
                              atvi_idx *n) {
  int n_part = 0;
  part[2] = 1;
  for (const char *at = times; at; n_part++) {
    size_t len = strcspn(at, ":"), skip = strspn(at, BLANKS), end = len;
    if (skip > len) skip = len;
    while (end > skip && strchr(BLANKS, at[end - 1])) end--;
    if (n_part == 3)
      return ATVI_FAIL(ctx, ATVI_EINVAL,
                       "--times %s: more than three numbers; want first:last or first:last:step", times);
    if (!read_time(n_part < 2 ? lang : NULL, at + skip, end - skip, &part[n_part]))
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

static atvi_status read_list(atvi_ctx *ctx, atvi_pool *pool, const char *times, const atvi_lang *lang,
                             atvi_idx *n, double **out) {
  const char *item;
  size_t len;
  atvi_idx cap = 0;
  for (const char *at = times; atvi_app_next(&at, &item, &len);) {
    double x;
    if (!read_time(lang, item, len, &x)) return bad_time(ctx, times, item, len);
    if (*n > 0 && !(x > (*out)[*n - 1]))
      return ATVI_FAIL(ctx, ATVI_EINVAL, "--times %s: %g comes after %g; times must ascend", times, x,
                       (*out)[*n - 1]);
    if (!ATVI_PUSH(pool, *out, *n, cap)) return ATVI_FAIL(ctx, ATVI_ENOMEM, "out of memory");
    (*out)[(*n)++] = x;
  }
  return ATVI_OK;
}

atvi_status atvi_app_times(atvi_ctx *ctx, atvi_pool *pool, const char *times, const atvi_lang *lang,
                           atvi_idx *n, double **out) {
  double part[3];
  *n = 0;
  *out = NULL;
  if (!times) return ATVI_OK;
  if (!strchr(times, ':')) return read_list(ctx, pool, times, lang, n, out);
  ATVI_TRY(read_range(ctx, times, lang, part, n));
  *out = atvi_pool_take(pool, (size_t)*n, sizeof **out);
  for (atvi_idx i = 0; *out && i < *n; i++) (*out)[i] = part[0] + (double)i * part[2];
  return *out ? ATVI_OK : ATVI_FAIL(ctx, ATVI_ENOMEM, "out of memory");
}

void atvi_app_date(const atvi_lang *lang, double t, char out[ATVI_APP_DATE]) {
  static const double FARTHEST = 3e6; /* days: some eight thousand years */
  double at = atvi_calendar_day(lang->calendar, t);
  int y, m, d;
  out[0] = 0;
  if (!lang->calendar.unit || !(fabs(at) < FARTHEST)) return;
  double second = round(86400 * at),
         day = floor(second / 86400); /* t is rarely a whole day to the last bit */
  int rest = (int)(second - 86400 * day);
  atvi_date_from_days((int64_t)day, &y, &m, &d);
  int n = snprintf(out, ATVI_APP_DATE, "%04d-%02d-%02d", y, m, d);
  if (rest == 0 || lang->calendar.unit > 1) return;
  n += snprintf(out + n, ATVI_APP_DATE - (size_t)n, "T%02d:%02d", rest / 3600, rest / 60 % 60);
  if (rest % 60) snprintf(out + n, ATVI_APP_DATE - (size_t)n, ":%02d", rest % 60);
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
