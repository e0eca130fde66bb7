/* SPDX-License-Identifier: MIT */
#include "io/fields.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { CELL = 40 };
_Static_assert(sizeof(atvi_idx) == sizeof(int64_t), "both are ATVI_FIELD_COUNT");

/* ---- fields and values ---- */

static const atvi_field *find(const atvi_fields *t, const char *key, size_t n) {
  for (atvi_idx i = 0; i < t->n; i++)
    if (strlen(t->of[i].key) == n && memcmp(t->of[i].key, key, n) == 0) return &t->of[i];
  return NULL;
}

const atvi_field *atvi_io_fields_find(const atvi_fields *t, const char *key) {
  return find(t, key, strlen(key));
}

typedef struct {
  const atvi_fields *table;
  const char *keys;
  atvi_idx i;
} walk;

/* The next field; NULL at the end. */
static const atvi_field *next(walk *w) {
  if (!w->keys) return w->i < w->table->n ? &w->table->of[w->i++] : NULL;
  w->keys += strspn(w->keys, " ");
  size_t n = strcspn(w->keys, " ");
  const atvi_field *f = n ? find(w->table, w->keys, n) : NULL;
  ATVI_ASSERT(f || n == 0);
  w->keys += n;
  return f;
}

/* A member of the struct. */
#define MEMBER(type, f, row) (*(const type *)((const char *)(row) + (f)->offset))

double atvi_io_field_number(const atvi_field *f, const void *row) {
  switch (f->kind) {
  case ATVI_FIELD_REAL:
  case ATVI_FIELD_PAIR:
  case ATVI_FIELD_WHOLE:
  case ATVI_FIELD_MAYBE:
  case ATVI_FIELD_YES: return MEMBER(double, f, row);
  case ATVI_FIELD_COUNT: return (double)MEMBER(int64_t, f, row);
  case ATVI_FIELD_SEED: return (double)MEMBER(uint64_t, f, row);
  case ATVI_FIELD_FLAG: return MEMBER(bool, f, row);
  case ATVI_FIELD_WORD:
  case ATVI_FIELD_NAME: break;
  }
  return NAN;
}

/* ---- JSON ---- */

static json_t *value(atvi_pool *pool, const atvi_field *f, const void *row) {
  double x = atvi_io_field_number(f, row);
  switch (f->kind) {
  case ATVI_FIELD_REAL: return atvi_io_json_real(x);
  case ATVI_FIELD_PAIR: return atvi_io_json_pair(x, (&MEMBER(double, f, row))[1]);
  case ATVI_FIELD_WHOLE: return isfinite(x) ? json_integer((json_int_t)x) : json_null();
  case ATVI_FIELD_MAYBE: return isnan(x) ? json_null() : json_boolean(x > 0);
  case ATVI_FIELD_YES:
  case ATVI_FIELD_FLAG: return json_boolean(x > 0);
  case ATVI_FIELD_COUNT: return json_integer(MEMBER(int64_t, f, row));
  case ATVI_FIELD_SEED: return atvi_io_json_seed(pool, MEMBER(uint64_t, f, row));
  case ATVI_FIELD_WORD:
  case ATVI_FIELD_NAME: break;
  }
  return atvi_io_json_word(pool, MEMBER(char *, f, row));
}

void atvi_io_fields_json(atvi_json *w, const atvi_fields *t, const void *row, const char *keys) {
  const atvi_field *f;
  for (walk at = {t, keys, 0}; (f = next(&at));)
    if (f->kind != ATVI_FIELD_NAME || MEMBER(char *, f, row))
      atvi_io_json_put(w, f->key, value(w->pool, f, row));
}

/* Counts are written as integers, and missing reals as NaN. */
void atvi_io_fields_read(atvi_pool *pool, const atvi_fields *t, const json_t *object, void *row) {
  for (atvi_idx i = 0; i < t->n; i++) {
    const atvi_field *f = &t->of[i];
    void *at = (char *)row + f->offset;
    const json_t *x = json_object_get(object, f->key);
    const char *word = json_string_value(x);
    switch (f->kind) {
    case ATVI_FIELD_REAL: *(double *)at = atvi_io_json_number(object, f->key); break;
    case ATVI_FIELD_COUNT: *(int64_t *)at = json_integer_value(x); break;
    case ATVI_FIELD_WORD:
    case ATVI_FIELD_NAME:
      *(const char **)at = word ? atvi_pool_strndup(pool, word, strlen(word)) : NULL;
      break;
    default: ATVI_ASSERT(false); /* not needed yet */
    }
  }
}

/* ---- CSV ---- */

static void line(atvi_text *out, const char *lead, const char *key, const char *end, double x) {
  atvi_io_text_add(out, "%s%s%s,", lead, key, end);
  atvi_io_text_number(out, x);
  atvi_io_text_add(out, "\n");
}

void atvi_io_fields_lines(atvi_text *out, const char *lead, const atvi_fields *t, const void *row,
                          const char *keys) {
  const atvi_field *f;
  for (walk at = {t, keys, 0}; (f = next(&at));) {
    bool pair = f->kind == ATVI_FIELD_PAIR;
    line(out, lead, f->key, pair ? "_low" : "", atvi_io_field_number(f, row));
    if (pair) line(out, lead, f->key, "_high", (&MEMBER(double, f, row))[1]);
  }
}

void atvi_io_fields_cell(atvi_text *out, double x) {
  if (isnan(x))
    atvi_io_text_add(out, ",NA");
  else
    atvi_io_text_add(out, ",%.9g", x);
}

void atvi_io_fields_names(atvi_text *out, const atvi_fields *t, const char *keys) {
  const atvi_field *f;
  for (walk at = {t, keys, 0}; (f = next(&at));) atvi_io_text_add(out, ",%s", f->key);
}

void atvi_io_fields_cells(atvi_text *out, const atvi_fields *t, const void *row, const char *keys) {
  const atvi_field *f;
  for (walk at = {t, keys, 0}; (f = next(&at));)
    atvi_io_fields_cell(out, row ? atvi_io_field_number(f, row) : NAN);
}

/* ---- terminal ---- */

static const char *show(char cell[CELL], const atvi_field *f, double x, const char *missing) {
  double size = fabs(x);
  if (isnan(x) || (isinf(x) && f->show != ATVI_SHOW_GENERAL)) return missing;
  switch (f->show) {
  case ATVI_SHOW_FIXED: snprintf(cell, CELL, "%.*f", f->digits, x); break;
  case ATVI_SHOW_GENERAL: snprintf(cell, CELL, "%.*g", f->digits, x); break;
  case ATVI_SHOW_PERCENT: snprintf(cell, CELL, "%.*f %%", f->digits, 100 * x); break;
  case ATVI_SHOW_SIZE:
    if (size >= 1e6 || (size < 1e-3 && size > 0))
      snprintf(cell, CELL, "%.3g", x);
    else
      snprintf(cell, CELL, "%.*f", size >= 1000 ? 0 : size >= 100 ? 1 : size >= 1 ? 2 : 4, x);
    break;
  }
  return cell;
}

void atvi_io_fields_heading(atvi_text *out, const atvi_fields *t, const char *keys) {
  const atvi_field *f;
  for (walk at = {t, keys, 0}; (f = next(&at));) atvi_io_text_add(out, "%*s", f->width, f->heading);
}

void atvi_io_fields_row(atvi_text *out, const atvi_fields *t, const void *row, const char *keys,
                        const char *missing) {
  const atvi_field *f;
  char cell[CELL];
  for (walk at = {t, keys, 0}; (f = next(&at));)
    atvi_io_text_add(out, "%*s", f->width, show(cell, f, atvi_io_field_number(f, row), missing));
}
