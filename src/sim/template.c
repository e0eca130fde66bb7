/* SPDX-License-Identifier: MIT */
#include "sim/template.h"
#include "io/csv.h"
#include "io/text.h"
#include "io/arrays.h"
#include <stdio.h>
#include <string.h>

typedef struct {
  const char *text; /* text before the field */
  size_t n;
  atvi_idx field; /* -1: none */
} piece;

struct atvi_template {
  atvi_idx n, cap;
  piece *piece;
};

typedef struct {
  atvi_pool *pool;
  atvi_template_place at;
  const char *text, *end;
  atvi_idx n_name;
  const char *const *name;
  atvi_template *t;
} reader;

static atvi_status complain(const reader *r, const char *where, const char *what, const char *hint) {
  int line = 1;
  const char *start = r->text;
  char shown[ATVI_EXCERPT_BYTES];
  for (const char *p = r->text; p < where; p++)
    if (*p == '\n') line++, start = p + 1;
  int column = (int)(where - start) + 1;
  atvi_io_excerpt(r->text, (size_t)(r->end - r->text), line, column, false, shown);
  int first = line == 1 ? r->at.column - 1 : 0;
  return ATVI_FAIL(atvi_pool_ctx(r->pool), ATVI_EMODEL, "%s:%d:%d: error: %s\n%s\nhint: %s", r->at.path,
                   r->at.line + line - 1, first + column, what, shown, hint);
}

static bool add(reader *r, const char *text, size_t n, atvi_idx field) {
  atvi_template *t = r->t;
  if (!ATVI_PUSH(r->pool, t->piece, t->n, t->cap)) return false;
  t->piece[t->n++] = (piece){text, n, field};
  return true;
}

/* Letters to insert, delete or change (Levenshtein), for names of usual length; else many. */
static int distance(const char *a, const char *b) {
  enum { MOST = 40 };
  int row[MOST + 1], n = (int)strlen(a), m = (int)strlen(b);
  if (n > MOST || m > MOST) return 2 * MOST;
  for (int j = 0; j <= m; j++) row[j] = j;
  for (int i = 1; i <= n; i++) {
    int corner = row[0];
    row[0] = i;
    for (int j = 1; j <= m; j++) {
      int change = corner + (a[i - 1] != b[j - 1]), other = 1 + (row[j] < row[j - 1] ? row[j] : row[j - 1]);
      corner = row[j];
      row[j] = change < other ? change : other;
    }
  }
  return row[m];
}

/* The nearest name; NULL: none. */
static const char *nearest(const reader *r, const char *name) {
  const char *best = NULL;
  int least = 1 + (int)strlen(name) / 3;
  for (atvi_idx i = 0; i < r->n_name; i++) {
    int d = distance(name, r->name[i]);
    if (d > least || (best && d == least)) continue;
    least = d;
    best = r->name[i];
  }
  return best;
}

static atvi_status unknown(const reader *r, const char *at, const char *name) {
  const char *meant = nearest(r, name);
  char what[200], hint[600];
  snprintf(hint, sizeof hint, meant ? "did you mean {%.60s}? The fields are " : "the fields are ", meant);
  size_t used = strlen(hint);
  for (atvi_idx i = 0; i < r->n_name && used < 440; i++) {
    int put = snprintf(hint + used, sizeof hint - used, "%s{%.60s}", i ? ", " : "", r->name[i]);
    used += put > 0 ? (size_t)put : 0;
  }
  snprintf(hint + used, sizeof hint - used, "; for literal braces write {{ and }}");
  snprintf(what, sizeof what, "there is no parameter %.120s", name[0] ? name : "of an empty name");
  atvi_io_excerpt_clean(what);
  return complain(r, at, what, hint);
}

/* p is at a single {. *next: after the field. */
static atvi_status field(reader *r, const char *p, const char *text, const char **next) {
  char name[ATVI_ARRAY_NAME];
  const char *close = p + 1;
  while (close < r->end && *close && *close != '}' && *close != '{' && *close != '\n') close++;
  if (close == r->end || *close != '}')
    return complain(r, p, "this brace opens a field that is not closed",
                    "a field is {name}; for a brace write {{");
  if (!atvi_io_array_dots(p + 1, (size_t)(close - p - 1), name))
    return complain(r, p, "no parameter has such a long name", "for literal braces write {{ and }}");
  *next = close + 1;
  for (atvi_idx i = 0; i < r->n_name; i++)
    if (strcmp(r->name[i], name) == 0) return add(r, text, (size_t)(p - text), i) ? ATVI_OK : ATVI_ENOMEM;
  return unknown(r, p, name);
}

static atvi_status read_all(reader *r) {
  const char *text = r->text, *p = text;
  while (p < r->end) {
    if (!*p) return complain(r, p, "a zero byte: this is not plain text", "templates are plain text files");
    if (*p != '{' && *p != '}') {
      p++;
    } else if (p + 1 < r->end && p[1] == *p) {
      if (!add(r, text, (size_t)(p + 1 - text), -1)) return ATVI_ENOMEM;
      text = p += 2;
    } else if (*p == '}') {
      return complain(r, p, "this brace closes no field", "for a brace write }}");
    } else {
      ATVI_TRY(field(r, p, text, &p));
      text = p;
    }
  }
  return add(r, text, (size_t)(p - text), -1) ? ATVI_OK : ATVI_ENOMEM;
}

atvi_status atvi_sim_template_parse(atvi_pool *pool, atvi_template_place at, const char *text, size_t n,
                                    atvi_idx n_name, const char *const *name, atvi_template **out) {
  *out = NULL;
  char *copy = atvi_pool_strndup(pool, text, n);
  reader r = {.pool = pool, .at = at, .text = copy, .n_name = n_name, .name = name};
  r.t = atvi_pool_take(pool, 1, sizeof *r.t);
  atvi_status status = ATVI_ENOMEM;
  if (copy && r.t) {
    r.end = copy + n;
    status = read_all(&r);
  }
  if (status == ATVI_ENOMEM) return ATVI_ENOMEM;
  if (status == ATVI_OK) *out = r.t;
  return status;
}

void atvi_sim_template_fill(const atvi_template *t, const double *value, atvi_text *to) {
  for (atvi_idx i = 0; i < t->n; i++) {
    char number[ATVI_NUMBER_BYTES] = "";
    if (t->piece[i].field >= 0) atvi_io_format_number(number, value[t->piece[i].field]);
    atvi_io_text_add(to, "%.*s%s", (int)t->piece[i].n, t->piece[i].text, number);
  }
}

bool atvi_sim_template_uses(const atvi_template *t, atvi_idx k) {
  for (atvi_idx i = 0; i < t->n; i++)
    if (t->piece[i].field == k) return true;
  return false;
}
