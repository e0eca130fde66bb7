/* SPDX-License-Identifier: MIT */
#include "sim/output.h"
#include "io/csv.h"
#include "io/text.h"
#include "sim/detail.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Times that differ by less than this share of their span are equal: they may have been printed with six
 * digits. */
static const double TIME_TOL = 1e-6;

typedef struct {
  atvi_pool *pool;
  const atvi_sim_output *o;
  atvi_sim_reason *reason;
} job;

/* Status of a run that cannot be used: OK, unless there was no memory for the reason. */
ATVI_PRINTF(2, 3)
static atvi_status refuse(const job *j, const char *fmt, ...) {
  char what[400];
  va_list args;
  va_start(args, fmt);
  vsnprintf(what, sizeof what, fmt, args);
  va_end(args);
  atvi_io_excerpt_clean(what);
  *j->reason = (atvi_sim_reason){atvi_pool_printf(j->pool, "%s: %s", j->o->name, what), ATVI_SIM_OUTPUT};
  return j->reason->text ? ATVI_OK : ATVI_ENOMEM;
}

static atvi_status refuse_number(const job *j, atvi_status refused) {
  j->reason->cause = ATVI_SIM_NUMBER;
  return refused;
}

static const char *source(const job *j) { return j->o->file ? j->o->file : "standard output"; }

static atvi_status check_times(const job *j, const atvi_sim_series *s) {
  for (atvi_idx i = 1; s->time && i < s->n; i++)
    if (!(s->time[i] > s->time[i - 1]))
      return refuse(j, "times are not ascending in %s: %.9g after %.9g", source(j), s->time[i],
                    s->time[i - 1]);
  return ATVI_OK;
}

/* ---- tables ---- */

/* Position named by text, from 0; -1 if it is not a number. */
static atvi_idx position(const char *text) {
  double x;
  if (!atvi_io_parse_number(text, strlen(text), &x) || !(x >= 1 && x < 1e9) || x != floor(x)) return -1;
  return (atvi_idx)x - 1;
}

/* Column by name, else by position; -1 and a reason where there is none. */
static atvi_status find_column(const job *j, const atvi_csv *t, const char *wanted, atvi_idx other,
                               atvi_idx *col) {
  const char *name = wanted ? wanted : j->o->name;
  *col = atvi_io_csv_find(t, name);
  if (*col < 0 && wanted) *col = position(wanted);
  if (*col < 0 && !wanted && t->n_col == 1) *col = 0;
  if (*col < 0 && !wanted && t->n_col == 2 && other >= 0) *col = 1 - other;
  if (*col >= 0 && *col < t->n_col) return ATVI_OK;
  *col = -1;
  char list[200] = "";
  size_t used = 0;
  for (atvi_idx c = 0; c < t->n_col && used < sizeof list - 60; c++) {
    int put = snprintf(list + used, sizeof list - used, "%s%.40s", c ? ", " : "", t->name[c]);
    used += put > 0 ? (size_t)put : 0;
  }
  return refuse(j, "no column %s in %s, which has %s", name, source(j), list);
}

static atvi_status cell(const job *j, const atvi_csv *t, atvi_idx row, atvi_idx col, double *x) {
  atvi_idx at = row * t->n_col + col;
  if (t->kind[at] != ATVI_CELL_NUMBER)
    return refuse_number(j, refuse(j, "'%.60s' in line %d of %s, column %.60s, is not a finite number",
                                   t->text[at], t->line[row], source(j), t->name[col]));
  *x = t->value[at];
  return ATVI_OK;
}

static atvi_status from_table(const job *j, const atvi_csv *t, atvi_sim_series *out) {
  atvi_idx value, time = -1;
  if (j->o->time) ATVI_TRY(find_column(j, t, j->o->time, -1, &time));
  if (j->reason->text) return ATVI_OK;
  ATVI_TRY(find_column(j, t, j->o->column, time, &value));
  if (j->reason->text) return ATVI_OK;
  out->n = t->n_row;
  out->value = atvi_pool_take(j->pool, (size_t)t->n_row, sizeof *out->value);
  if (time >= 0) out->time = atvi_pool_take(j->pool, (size_t)t->n_row, sizeof *out->time);
  if (atvi_pool_failed(j->pool)) return ATVI_ENOMEM;
  for (atvi_idx i = 0; i < t->n_row && !j->reason->text; i++) {
    ATVI_TRY(cell(j, t, i, value, &out->value[i]));
    if (time >= 0 && !j->reason->text) ATVI_TRY(cell(j, t, i, time, &out->time[i]));
  }
  return j->reason->text ? ATVI_OK : check_times(j, out);
}

/* ---- columns: made into a table of the same kind, so that names, positions and messages are the same ---- */

static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v'; }

/* The words of a line, separated by commas, with exponents of Fortran (1.0D+03) as in C. Words with commas
 * are not numbers anyway. */
static char *copy_line(const char *p, const char *end, char *to) {
  while (p < end && is_blank(*p)) p++;
  if (p == end || *p == '#' || *p == '!' || *p == '%') return to;
  bool first = true;
  while (p < end && *p != '#' && *p != '!' && *p != '%') {
    bool numeric = (*p >= '0' && *p <= '9') || *p == '.' || *p == '-' || *p == '+';
    if (!first) *to++ = '\t';
    for (; p < end && !is_blank(*p); p++) {
      char c = *p ? *p : '?';
      *to++ = numeric && (c == 'd' || c == 'D') ? 'e' : c == '"' ? '?' : c;
    }
    while (p < end && is_blank(*p)) p++;
    first = false;
  }
  *to++ = '\n';
  return to;
}

/* Bytes of the word at p that stands for no finite number; 0: none. */
static size_t no_number(const char *p, const char *end) {
  static const char *const word[] = {"NaN", "nan", "Infinity", "inf", "-Infinity", "-inf", "-NaN", "-nan"};
  for (size_t i = 0; i < sizeof word / sizeof *word; i++) {
    size_t n = strlen(word[i]);
    if ((size_t)(end - p) < n || memcmp(p, word[i], n) != 0) continue;
    if (p + n == end || strchr(" \t\r\n,]}", p[n])) return n;
  }
  return 0;
}

/* Why the words of copy[n], separated by tabs, are no table. */
static atvi_status no_table(const job *j, const char *copy, size_t n) {
  const char *end = copy + n;
  for (const char *p = copy; p < end; p++) {
    size_t word = p == copy || p[-1] == '\t' || p[-1] == '\n' ? no_number(p, end) : 0;
    if (word) return refuse(j, "%s has '%.*s', which is not a finite number", source(j), (int)word, p);
  }
  const char *stop = memchr(copy, '\n', n);
  if (stop == end - 1) return refuse(j, "%s has just '%.*s'", source(j), n > 61 ? 60 : (int)n - 1, copy);
  return refuse(j, "%s is not a table: rows have different lengths", source(j));
}

static atvi_status from_columns(const job *j, const char *text, size_t n, atvi_sim_series *out) {
  char *copy = atvi_pool_take(j->pool, n + 2, 1), *to = copy;
  if (!copy) return ATVI_ENOMEM;
  for (const char *p = text, *end = text + n; p < end;) {
    const char *stop = memchr(p, '\n', (size_t)(end - p));
    if (!stop) stop = end;
    to = copy_line(p, stop, to);
    p = stop + (stop < end);
  }
  if (to == copy) return refuse(j, "%s has no numbers", source(j));
  atvi_csv *t;
  atvi_status status = atvi_io_csv_parse(j->pool, source(j), copy, (size_t)(to - copy), &t);
  if (status == ATVI_ENOMEM) return status;
  if (status != ATVI_OK) return no_table(j, copy, (size_t)(to - copy));
  for (atvi_idx i = 0; i < t->n_row; i++)
    t->line[i] = (int)i + 1; /* comment lines are gone: rows, not lines */
  return from_table(j, t, out);
}

static atvi_status from_csv(const job *j, const char *text, size_t n, atvi_sim_series *out) {
  atvi_csv *t;
  atvi_status status = atvi_io_csv_parse(j->pool, source(j), text, n, &t);
  if (status == ATVI_ENOMEM) return status;
  if (status == ATVI_OK) return from_table(j, t, out);
  const char *from = text, *end = text + n;
  while (from < end && (is_blank(*from) || *from == '\n')) from++;
  while (end > from && (is_blank(end[-1]) || end[-1] == '\n')) end--;
  if (end > from && !memchr(from, '\n', (size_t)(end - from)))
    return refuse(j, "%s has just '%.*s'", source(j), (int)(end - from < 60 ? end - from : 60), from);
  const char *message = atvi_errmsg(atvi_pool_ctx(j->pool));
  return refuse(j, "%.*s", (int)strcspn(message, "\n"), message);
}

/* ---- JSON ---- */

json_t *atvi_sim_json_read(atvi_pool *pool, const char *text, size_t n, json_error_t *error) {
  if (memchr(text, 0, n)) { /* jansson passes over it, which would make one number of two */
    *error = (json_error_t){.line = 1, .column = 1, .text = "a zero byte"};
    return NULL;
  }
  json_t *root = json_loadb(text, n, JSON_DECODE_INT_AS_REAL, error);
  char *copy = root ? NULL : atvi_pool_take(pool, 2 * n + 1, 1), *to = copy; /* null is longer than nan */
  bool quoted = false, changed = false;
  if (!copy) return root;
  for (const char *p = text, *end = text + n; p < end;) {
    size_t skip = quoted ? 0 : no_number(p, end);
    if (skip) {
      memcpy(to, "null", 4);
      to += 4, p += skip, changed = true;
      continue;
    }
    if (quoted && *p == '\\' && p + 1 < end)
      *to++ = *p++; /* whatever comes next is part of the word */
    else if (*p == '"')
      quoted = !quoted;
    *to++ = *p++;
  }
  json_error_t ignored;
  return changed ? json_loadb(copy, (size_t)(to - copy), JSON_DECODE_INT_AS_REAL, &ignored) : NULL;
}

/* The whole key first: keys may have dots in them. */
static const json_t *find_key(const json_t *root, const char *key) {
  const json_t *found = json_object_get(root, key);
  for (const char *dot = key; !found && (dot = strchr(dot, '.')) != NULL; dot++) {
    char head[128];
    if (dot - key >= (ptrdiff_t)sizeof head) break;
    memcpy(head, key, (size_t)(dot - key));
    head[dot - key] = 0;
    const json_t *below = json_object_get(root, head);
    if (below) found = find_key(below, dot + 1);
  }
  return found;
}

static atvi_status numbers(const job *j, const json_t *from, const char *key, atvi_idx *n, double **out) {
  *n = json_is_array(from) ? (atvi_idx)json_array_size(from) : 1;
  if (*n == 0) return refuse(j, "the list %s is empty", key);
  *out = atvi_pool_take(j->pool, (size_t)*n, sizeof **out);
  if (!*out) return ATVI_ENOMEM;
  for (atvi_idx i = 0; i < *n; i++) {
    const json_t *x = json_is_array(from) ? json_array_get(from, (size_t)i) : from;
    if (!json_is_number(x) || !isfinite(json_number_value(x)))
      return refuse_number(j, refuse(j, "number %td of %s is not a finite number", i + 1, key));
    (*out)[i] = json_number_value(x);
  }
  return ATVI_OK;
}

static atvi_status from_object(const job *j, const json_t *root, atvi_sim_series *out) {
  const char *key = j->o->column ? j->o->column : j->o->name, *when = j->o->time ? j->o->time : "time";
  if (!json_is_object(root)) return refuse(j, "%s is not a JSON object", source(j));
  const json_t *value = find_key(root, key), *time = find_key(root, when);
  if (!value) return refuse(j, "there is no key %s in %s", key, source(j));
  ATVI_TRY(numbers(j, value, key, &out->n, &out->value));
  if (j->reason->text) return ATVI_OK;
  if (!time && j->o->time) return refuse(j, "there is no key %s in %s", when, source(j));
  if (!j->o->time && !(json_is_array(time) && json_is_array(value))) return ATVI_OK; /* not its times */
  atvi_idx n;
  ATVI_TRY(numbers(j, time, when, &n, &out->time));
  if (j->reason->text) return ATVI_OK;
  if (n != out->n) return refuse(j, "%td values in %s but %td in %s", out->n, key, n, when);
  return check_times(j, out);
}

static atvi_status from_json(const job *j, const char *text, size_t n, atvi_sim_series *out) {
  json_error_t error, ignored;
  json_t *root = atvi_sim_json_read(j->pool, text, n, &error);
  if (!root) { /* programs may print before they answer: the last line may be an object by itself */
    while (n > 0 && (is_blank(text[n - 1]) || text[n - 1] == '\n')) n--;
    size_t from = n;
    while (from > 0 && text[from - 1] != '\n') from--;
    root = atvi_sim_json_read(j->pool, text + from, n - from, &ignored);
  }
  if (atvi_pool_failed(j->pool)) {
    json_decref(root);
    return ATVI_ENOMEM;
  }
  if (!root) return refuse(j, "%s:%d:%d: not JSON: %.120s", source(j), error.line, error.column, error.text);
  atvi_status status = from_object(j, root, out);
  json_decref(root);
  return status;
}

/* ---- all of them ---- */

static atvi_status finish(const job *j, atvi_status status, atvi_sim_series *out) {
  if (status != ATVI_OK || j->reason->text) *out = (atvi_sim_series){0};
  return status;
}

atvi_status atvi_sim_output_json(atvi_pool *pool, const atvi_sim_output *o, const json_t *root,
                                 atvi_sim_series *out, atvi_sim_reason *reason) {
  const job j = {pool, o, reason};
  *reason = (atvi_sim_reason){0};
  *out = (atvi_sim_series){0};
  return finish(&j, from_object(&j, root, out), out);
}

atvi_status atvi_sim_output_parse(atvi_pool *pool, const atvi_sim_output *o, const char *text, size_t n,
                                  atvi_sim_series *out, atvi_sim_reason *reason) {
  const job j = {pool, o, reason};
  *reason = (atvi_sim_reason){0};
  *out = (atvi_sim_series){0};
  atvi_status status;
  switch (o->format) {
  case ATVI_SIM_JSON: status = from_json(&j, text, n, out); break;
  case ATVI_SIM_COLUMNS: status = from_columns(&j, text, n, out); break;
  default: status = from_csv(&j, text, n, out); break;
  }
  return finish(&j, status, out);
}

/* The first time that differs, for series of equal length; -1 if none does. */
static atvi_idx first_other(const atvi_sim_series *a, const atvi_sim_series *b) {
  double span = b->time[b->n - 1] - b->time[0];
  for (atvi_idx i = 0; i < a->n; i++)
    if (!(fabs(a->time[i] - b->time[i]) <= TIME_TOL * span + 1e-12 * fabs(b->time[i]))) return i;
  return -1;
}

/* Whether two series have the same times; values are ignored. */
static bool agrees(const atvi_sim_series *a, const atvi_sim_series *b) {
  return a->n == b->n && !a->time == !b->time && (!a->time || first_other(a, b) < 0);
}

const char *atvi_sim_output_differs(atvi_pool *pool, const char *name, const atvi_sim_series *a,
                                    const atvi_sim_series *b, int64_t id_b) {
  const char *why = NULL;
  if (a->n != b->n)
    why = atvi_pool_printf(pool, "%s: %td values, but run %lld has %td", name, a->n, (long long)id_b, b->n);
  else if (!a->time != !b->time)
    why = atvi_pool_printf(pool, "%s: %s times, unlike run %lld", name, a->time ? "has" : "has no",
                           (long long)id_b);
  else {
    atvi_idx i = a->time ? first_other(a, b) : -1;
    if (i < 0) return NULL;
    why = atvi_pool_printf(pool, "%s: time %td is %.9g, but %.9g in run %lld", name, i + 1, a->time[i],
                           b->time[i], (long long)id_b);
  }
  return why ? why : "times differ from those of other runs";
}

static bool keep_times(atvi_sim_vote *v, atvi_sim_party *p, int64_t id, const atvi_sim_series *s) {
  p->id = id;
  p->times.n = s->n;
  if (!s->time) return true;
  if (!p->times.time) p->times.time = atvi_pool_take(v->pool, (size_t)s->n, sizeof(double));
  if (p->times.time) memcpy(p->times.time, s->time, (size_t)s->n * sizeof(double));
  return p->times.time != NULL;
}

atvi_idx atvi_sim_vote_add(atvi_sim_vote *v, int64_t id, const atvi_sim_series *s) {
  for (atvi_idx k = 0; k < v->n; k++) {
    atvi_sim_party *p = &v->party[k];
    if (!agrees(s, &p->times)) continue;
    p->n++;
    return id >= p->id || keep_times(v, p, id, s) ? k : -1;
  }
  if (!ATVI_PUSH(v->pool, v->party, v->n, v->cap)) return -1;
  v->party[v->n] = (atvi_sim_party){.n = 1};
  if (!keep_times(v, &v->party[v->n], id, s)) return -1;
  return v->n++;
}

void atvi_sim_vote_drop(atvi_sim_vote *v, atvi_idx party) { v->party[party].n--; }

atvi_idx atvi_sim_vote_winner(const atvi_sim_vote *v) {
  const atvi_sim_party *best = NULL;
  for (atvi_idx k = 0; k < v->n; k++) {
    const atvi_sim_party *p = &v->party[k];
    if (p->n == 0) continue;
    bool better = !best || p->n > best->n;
    if (best && p->n == best->n)
      better = p->times.n != best->times.n ? p->times.n > best->times.n : p->id < best->id;
    if (better) best = p;
  }
  return best ? best - v->party : -1;
}

const char *atvi_sim_vote_why(const atvi_sim_vote *v, atvi_pool *pool, const char *name, atvi_idx party) {
  const atvi_sim_party *most = &v->party[atvi_sim_vote_winner(v)];
  const char *why = atvi_sim_output_differs(pool, name, &v->party[party].times, &most->times, most->id);
  return atvi_pool_printf(pool, "at other times than most runs: %s", why ? why : name);
}
