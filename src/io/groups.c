/* SPDX-License-Identifier: MIT */
#include "io/draws_file.h"
#include "core/core.h"
#include "draws/made.h"
#include "io/csv.h"
#include "io/file.h"
#include "io/json.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const GROUP[] = {"mean",   "grid",    "predictive", "grid_predictive",
                                    "others", "log_lik", "simulator",  "prior"};
enum {
  GROUPS = sizeof GROUP / sizeof *GROUP,
  VERSION = 1,
  HEADER = 128,
  DIGITS = 17,
  MOST_DRAWS = 1000000000,
  MOST_SETS = 1000000
};

/* Number of values of a group: of all series, of observed ones, or columns. */
static atvi_idx values_of(const atvi_draws *d, int group) {
  bool grid = group == 1 || group == 3, all = group < 2;
  atvi_idx n = 0;
  if (group == GROUPS - 1) return d->n_col;
  for (atvi_idx s = 0; s < d->n_series; s++)
    if (all || d->series[s].kind == ATVI_SERIES_OBSERVED) n += grid ? d->series[s].n_grid : d->series[s].n;
  return n;
}

/* Fingerprint of the draws that groups belong to. */
static uint64_t fingerprint(const atvi_draws *d) {
  return atvi_hash(ATVI_HASH, d->x, (size_t)(d->n_col * d->n) * sizeof *d->x);
}

/* ---- NumPy's format, version 1.0 ---- */

/* The head of a file with these values in the byte order of this machine. */
static void header_of(const atvi_group *g, char head[HEADER]) {
  const uint16_t one = 1;
  bool little = *(const unsigned char *)&one == 1;
  memset(head, ' ', HEADER);
  memcpy(head, "\x93NUMPY\x01", 8);
  head[8] = (char)(HEADER - 10), head[9] = 0;
  int n = snprintf(head + 10, HEADER - 10, "{'descr': '%cf8', 'fortran_order': False, 'shape': (%td, %td), }",
                   little ? '<' : '>', g->n_value, g->n_draw);
  head[10 + n] = ' ';
  head[HEADER - 1] = '\n';
}

static atvi_status write_values(atvi_ctx *ctx, const atvi_group *g, const char *path) {
  atvi_file *f;
  char head[HEADER];
  header_of(g, head);
  ATVI_TRY(atvi_io_file_new(ctx, path, &f));
  atvi_io_file_put(f, head, HEADER);
  atvi_io_file_put(f, (const char *)g->x, (size_t)(g->n_value * g->n_draw) * sizeof *g->x);
  atvi_status status = atvi_io_file_commit_soon(f);
  atvi_io_file_free(f);
  return status;
}

/* The file of group g is read before its values get memory: its size bounds them. */
static atvi_status read_values(atvi_pool *own, atvi_draws *d, const char *dir, const atvi_group *g) {
  char head[HEADER], *text;
  size_t n, want = (size_t)(g->n_value * g->n_draw) * sizeof *g->x;
  double *x;
  const char *path = atvi_pool_printf(own, "%s/groups/%s.npy", dir, g->name);
  if (!path) return ATVI_ENOMEM;
  header_of(g, head);
  ATVI_TRY(atvi_io_file_read_most(own, path, HEADER + want, &text, &n));
  if (n != HEADER + want || memcmp(text, head, HEADER) != 0)
    return ATVI_FAIL(d->ctx, ATVI_EDATA, "%s: error: these are not %td by %td numbers", path, g->n_value,
                     g->n_draw);
  ATVI_TRY(atvi_draws_group_new(d, g->name, g->n_value, g->n_draw, g->draw, &x));
  memcpy(x, text + HEADER, want);
  return ATVI_OK;
}

/* ---- groups.json ---- */

static json_t *numbers(atvi_idx n, const double *x) {
  json_t *list = x ? json_array() : json_null();
  for (atvi_idx i = 0; x && i < n; i++) json_array_append_new(list, atvi_io_json_real(x[i]));
  return list;
}

static json_t *series_json(atvi_pool *pool, const atvi_draws_series *s) {
  char *mark = s->mark ? atvi_pool_take(pool, (size_t)s->n + 1, 1) : NULL; /* a digit each */
  for (atvi_idx i = 0; mark && i < s->n; i++) mark[i] = (char)('0' + s->mark[i]);
  return json_pack("{s:o, s:i, s:I, s:o, s:b, s:o, s:o, s:s?, s:o, s:o}", "name",
                   atvi_io_json_word(pool, s->name), "kind", (int)s->kind, "data", (json_int_t)s->data, "set",
                   atvi_io_json_word(pool, s->set), "rows", (int)s->rows, "time", numbers(s->n, s->time),
                   "value", numbers(s->n, s->value), "mark", mark, "grid", numbers(s->n_grid, s->grid),
                   "unit", atvi_io_json_word(pool, s->unit));
}

static json_t *about_json(atvi_pool *pool, const atvi_about *a) {
  return json_pack("{s:o, s:o, s:f, s:f, s:I, s:o, s:b, s:o}", "title", atvi_io_json_word(pool, a->title),
                   "time", atvi_io_json_word(pool, a->time_name), "day0", a->day0, "day_unit", a->day_unit,
                   "data_sets", (json_int_t)a->n_data, "command", atvi_io_json_word(pool, a->command),
                   "dependent", (int)a->dependent, "no_groups", atvi_io_json_word(pool, a->no_groups));
}

static json_t *draws_json(const atvi_draws *d) {
  json_t *used = json_array();
  const atvi_group *first = NULL;
  for (atvi_idx k = 0; k < d->n_group && !first; k++) first = d->group[k].draw ? &d->group[k] : NULL;
  for (atvi_idx i = 0; first && i < first->n_draw; i++)
    json_array_append_new(used, json_integer(first->draw[i] + 1));
  return json_pack("{s:I, s:o, s:o}", "n", (json_int_t)d->n, "hash",
                   json_sprintf("%016" PRIx64, fingerprint(d)), "used", used);
}

static atvi_status write_json(atvi_pool *pool, const atvi_draws *d, const char *path) {
  json_t *series = json_array(), *prior = json_array(), *failed = json_array(), *group = json_object();
  for (atvi_idx k = 0; k < d->n_series; k++) json_array_append_new(series, series_json(pool, &d->series[k]));
  for (atvi_idx k = 0; d->prior && k < d->n_param; k++) {
    const atvi_prior *p = &d->prior[k];
    json_array_append_new(prior, json_pack("{s:s?, s:o, s:b, s:o}", "dist", p->dist, "arg",
                                           numbers(3, p->arg), "truncated", (int)p->truncated, "bounds",
                                           atvi_io_json_pair(p->lower, p->upper))); /* null: infinite */
  }
  for (atvi_idx k = 0; k < d->n_failed; k++)
    json_array_append_new(failed, json_pack("{s:i, s:o}", "outcome", (int)d->failed[k].outcome, "value",
                                            numbers(d->n_param, d->failed[k].value)));
  for (atvi_idx k = 0; k < d->n_group; k++)
    json_object_set_new(group, d->group[k].name, json_integer(d->group[k].n_draw));
  json_t *root = json_pack("{s:i, s:o, s:o, s:o, s:o, s:o, s:o}", "version", VERSION, "about",
                           about_json(pool, d->about), "draws", draws_json(d), "groups", group, "series",
                           series, "prior", prior, "failed", failed);
  char *text = root ? json_dumps(root, JSON_REAL_PRECISION(DIGITS)) : NULL;
  json_decref(root);
  if (!text || atvi_pool_failed(pool)) {
    free(text);
    return ATVI_ENOMEM;
  }
  atvi_file *f;
  atvi_status status = atvi_io_file_new(d->ctx, path, &f);
  if (status == ATVI_OK) {
    atvi_io_file_put(f, text, strlen(text));
    status = atvi_io_file_commit_soon(f);
    atvi_io_file_free(f);
  }
  free(text);
  return status;
}

/* ---- and back ---- */

typedef struct {
  atvi_pool *pool; /* of the draws */
  const char *path;
  atvi_draws *d;
} reading;

static atvi_status bad(const reading *r, const char *what) {
  if (atvi_pool_failed(r->pool)) return ATVI_ENOMEM;
  return ATVI_FAIL(r->d->ctx, ATVI_EDATA, "%s: error: %s; the file was changed after it was written", r->path,
                   what);
}

/* null is NULL. */
static bool get_word(const reading *r, const json_t *x, const char **out) {
  *out = json_is_string(x) ? atvi_pool_strndup(r->pool, json_string_value(x), json_string_length(x)) : NULL;
  return *out || json_is_null(x);
}

/* [n]; null is NaN. NULL: another number of them, or out of memory. */
static double *get_numbers(const reading *r, const json_t *list, atvi_idx n) {
  double *x = json_is_array(list) && json_array_size(list) == (size_t)n
                  ? atvi_pool_take(r->pool, (size_t)n + 1, sizeof *x)
                  : NULL;
  for (atvi_idx i = 0; x && i < n; i++) {
    const json_t *v = json_array_get(list, (size_t)i);
    if (!json_is_number(v) && !json_is_null(v)) return NULL;
    x[i] = json_is_null(v) ? NAN : json_number_value(v);
  }
  return x;
}

static bool all_known(atvi_idx n, const double *x) {
  for (atvi_idx i = 0; x && i < n; i++)
    if (isnan(x[i])) return false;
  return x != NULL;
}

static bool read_mark(const reading *r, const json_t *from, atvi_draws_series *s) {
  const char *digit = json_string_value(from);
  unsigned char *mark =
      json_string_length(from) == (size_t)s->n ? atvi_pool_take(r->pool, (size_t)s->n + 1, 1) : NULL;
  for (atvi_idx i = 0; mark && i < s->n; i++) {
    if (!digit || digit[i] < '0' || digit[i] > '3') return false;
    mark[i] = (unsigned char)(digit[i] - '0');
  }
  s->mark = mark;
  return mark != NULL;
}

static bool read_one_series(const reading *r, json_t *o, atvi_draws_series *s) {
  json_t *name, *set, *time, *value, *mark, *grid, *unit = json_object_get(o, "unit");
  int kind, rows;
  json_int_t data;
  if (json_unpack(o, "{s:o, s:i, s:I, s:o, s:b, s:o, s:o, s:o, s:o}", "name", &name, "kind", &kind, "data",
                  &data, "set", &set, "rows", &rows, "time", &time, "value", &value, "mark", &mark, "grid",
                  &grid) != 0)
    return false;
  s->kind = (atvi_series_kind)kind;
  s->unit = ""; /* before there were units */
  s->data = (atvi_idx)data;
  s->rows = rows;
  s->n = (atvi_idx)json_array_size(time), s->n_grid = (atvi_idx)json_array_size(grid);
  s->time = get_numbers(r, time, s->n), s->grid = get_numbers(r, grid, s->n_grid);
  if (!get_word(r, name, &s->name) || !s->name || !get_word(r, set, &s->set) || !s->set ||
      (unit && !get_word(r, unit, &s->unit)) || !all_known(s->n, s->time) || !all_known(s->n_grid, s->grid))
    return false;
  if (kind == ATVI_SERIES_TRACKED || kind == ATVI_SERIES_STATE)
    return json_is_null(value) && json_is_null(mark) && data == 0;
  s->value = get_numbers(r, value, s->n);
  return kind == ATVI_SERIES_OBSERVED && data >= 0 && data < r->d->about->n_data && s->value &&
         read_mark(r, mark, s);
}

static bool read_series(const reading *r, const json_t *list) {
  size_t n = json_array_size(list);
  atvi_draws_series *s = atvi_pool_take(r->pool, n + 1, sizeof *s);
  for (size_t k = 0; s && k < n; k++) {
    if (!read_one_series(r, json_array_get(list, k), &s[k])) return false;
    if (k > 0 && s[k].kind < s[k - 1].kind) return false; /* observed ones come first */
    for (size_t j = 0; j < k && s[k].kind == ATVI_SERIES_OBSERVED; j++)
      if (s[j].data == s[k].data && (s[j].n != s[k].n || s[j].rows != s[k].rows)) return false;
  }
  r->d->series = s;
  r->d->n_series = (atvi_idx)n;
  return s && json_is_array(list);
}

static bool read_about(const reading *r, json_t *o) {
  atvi_about *a = r->d->about;
  json_t *title, *time, *command, *no_groups;
  int dependent;
  json_int_t n_data;
  if (json_unpack(o, "{s:o, s:o, s:F, s:F, s:I, s:o, s:b, s:o}", "title", &title, "time", &time, "day0",
                  &a->day0, "day_unit", &a->day_unit, "data_sets", &n_data, "command", &command, "dependent",
                  &dependent, "no_groups", &no_groups) != 0 ||
      n_data < 0 || n_data > MOST_SETS)
    return false;
  a->n_data = (atvi_idx)n_data;
  a->dependent = dependent;
  return get_word(r, title, &a->title) && a->title && get_word(r, time, &a->time_name) &&
         get_word(r, command, &a->command) && get_word(r, no_groups, &a->no_groups);
}

static bool read_priors(const reading *r, const json_t *list) {
  size_t n = json_array_size(list);
  if (!json_is_array(list) || (n != 0 && n != (size_t)r->d->n_param)) return false;
  atvi_prior *prior = n ? atvi_pool_take(r->pool, n, sizeof *prior) : NULL;
  for (size_t k = 0; prior && k < n; k++) {
    json_t *dist, *arg, *bounds;
    int truncated;
    if (json_unpack(json_array_get(list, k), "{s:o, s:o, s:b, s:o}", "dist", &dist, "arg", &arg, "truncated",
                    &truncated, "bounds", &bounds) != 0)
      return false;
    const double *x = get_numbers(r, arg, 3), *end = get_numbers(r, bounds, 2);
    const char *word;
    if (!x || !end || !get_word(r, dist, &word)) return false;
    prior[k] = (atvi_prior){word,
                            {x[0], x[1], x[2]},
                            truncated,
                            isnan(end[0]) ? -HUGE_VAL : end[0],
                            isnan(end[1]) ? HUGE_VAL : end[1]};
  }
  r->d->prior = prior;
  return true;
}

static bool read_failed(const reading *r, const json_t *list) {
  size_t n = json_array_size(list);
  atvi_failed_point *failed = atvi_pool_take(r->pool, n + 1, sizeof *failed);
  for (size_t k = 0; failed && k < n; k++) {
    int outcome;
    json_t *value;
    if (json_unpack(json_array_get(list, k), "{s:i, s:o}", "outcome", &outcome, "value", &value) != 0 ||
        outcome < 0 || outcome > ATVI_RUN_STEADY || !(failed[k].value = get_numbers(r, value, r->d->n_param)))
      return false;
    failed[k].outcome = (atvi_outcome)outcome;
  }
  r->d->failed = failed;
  r->d->n_failed = (atvi_idx)n;
  return failed && json_is_array(list);
}

/* Numbers of draws[*n], from 0; false also if they differ. */
static bool read_draws(const reading *r, const json_t *o, atvi_idx *n, atvi_idx **draw) {
  const json_t *used = json_object_get(o, "used"), *hash = json_object_get(o, "hash");
  char now[32];
  snprintf(now, sizeof now, "%016" PRIx64, fingerprint(r->d));
  *n = (atvi_idx)json_array_size(used);
  *draw = atvi_pool_take(r->pool, (size_t)*n + 1, sizeof **draw);
  if (!*draw || json_integer_value(json_object_get(o, "n")) != r->d->n || !json_string_value(hash) ||
      strcmp(json_string_value(hash), now) != 0)
    return false;
  for (atvi_idx i = 0; i < *n; i++) {
    json_int_t k = json_integer_value(json_array_get(used, (size_t)i));
    if (k < 1 || k > r->d->n) return false;
    (*draw)[i] = (atvi_idx)k - 1;
  }
  return true;
}

static atvi_status read_group(atvi_draws *d, const char *dir, int k, atvi_idx n_draw, const atvi_idx *draw) {
  const atvi_group g = {GROUP[k], values_of(d, k), n_draw, NULL, draw};
  atvi_pool *own; /* the whole file */
  ATVI_TRY(atvi_pool_new(d->ctx, &own));
  atvi_status status = read_values(own, d, dir, &g);
  atvi_pool_free(own);
  return status;
}

static atvi_status read_all(const reading *r, const char *dir, const json_t *root) {
  const json_t *group = json_object_get(root, "groups"), *n_of;
  atvi_idx n_draw, *draw;
  size_t found = 0;
  if (json_integer_value(json_object_get(root, "version")) != VERSION)
    return bad(r, "it is from another version of atvi");
  if (!read_draws(r, json_object_get(root, "draws"), &n_draw, &draw))
    return bad(r, "it belongs to other draws");
  if (!read_about(r, json_object_get(root, "about"))) return bad(r, "'about' is wrong");
  if (!read_series(r, json_object_get(root, "series"))) return bad(r, "'series' is wrong");
  if (!read_priors(r, json_object_get(root, "prior"))) return bad(r, "'prior' is wrong");
  if (!read_failed(r, json_object_get(root, "failed"))) return bad(r, "'failed' is wrong");
  for (int k = 0; k < GROUPS; k++) {
    if (!(n_of = json_object_get(group, GROUP[k]))) continue;
    bool prior = k == GROUPS - 1;
    json_int_t n = json_integer_value(n_of);
    if (n < 0 || n > MOST_DRAWS || (!prior && n != n_draw)) return bad(r, "'groups' is wrong");
    ATVI_TRY(read_group(r->d, dir, k, (atvi_idx)n, prior ? NULL : draw));
    found++;
  }
  return json_is_object(group) && found == json_object_size(group) ? ATVI_OK : bad(r, "'groups' is wrong");
}

static atvi_status read_json(reading *r, atvi_pool *own, const char *dir) {
  char *text;
  size_t n;
  json_error_t error;
  if (!r->path) return ATVI_ENOMEM;
  ATVI_TRY(atvi_io_file_read(own, r->path, &text, &n));
  json_t *root = json_loadb(text, n, 0, &error);
  if (!root) return error.text[0] ? bad(r, error.text) : ATVI_ENOMEM; /* no word: no memory */
  atvi_status status = read_all(r, dir, root);
  json_decref(root);
  return status;
}

/* ---- history ---- */

#define STEP(name, member) ATVI_FIELD_AS(name, REAL, atvi_progress, member)
static const atvi_field STEP_FIELD[] = {STEP("seconds", elapsed_s),
                                        STEP("done", done),
                                        STEP("steps", steps),
                                        STEP("temperature", temperature),
                                        STEP("elbo", elbo),
                                        STEP("component", part),
                                        STEP("khat", khat),
                                        STEP("rhat", rhat),
                                        STEP("ess", ess)};
enum { COLUMNS = sizeof STEP_FIELD / sizeof *STEP_FIELD };
const atvi_fields atvi_io_step_fields = ATVI_FIELDS(STEP_FIELD);

static atvi_status write_history(const atvi_draws *d, const char *path) {
  atvi_file *f;
  ATVI_TRY(atvi_io_file_new(d->ctx, path, &f));
  atvi_io_file_printf(f, "phase");
  for (int k = 0; k < COLUMNS; k++) atvi_io_file_printf(f, ",%s", STEP_FIELD[k].key);
  for (atvi_idx i = 0; i < d->n_step; i++) {
    const atvi_progress *p = &d->step[i];
    char number[ATVI_NUMBER_BYTES];
    atvi_io_file_printf(f, "\n\"");
    for (const char *c = p->phase; *c; c++)
      atvi_io_file_put(f, *c == '"' || (unsigned char)*c < ' ' ? "'" : c, 1);
    atvi_io_file_printf(f, "\"");
    for (int k = 0; k < COLUMNS; k++) {
      double x = atvi_io_field_number(&STEP_FIELD[k], p);
      atvi_io_format_number(number, x);
      atvi_io_file_printf(f, ",%s", isfinite(x) ? number : "NA");
    }
  }
  atvi_io_file_printf(f, "\n");
  atvi_status status = atvi_io_file_commit_soon(f);
  atvi_io_file_free(f);
  return status;
}

static atvi_status read_history(atvi_pool *own, atvi_draws *d, const char *path) {
  atvi_csv *csv;
  atvi_idx column[COLUMNS], phase;
  if (!path) return ATVI_ENOMEM;
  if (access(path, F_OK) != 0) return ATVI_OK; /* the fit reported no steps */
  ATVI_TRY(atvi_io_csv_read(own, path, &csv));
  bool ok = (phase = atvi_io_csv_find(csv, "phase")) >= 0;
  for (int k = 0; k < COLUMNS; k++) ok = ok && (column[k] = atvi_io_csv_find(csv, STEP_FIELD[k].key)) >= 0;
  atvi_progress *step = atvi_pool_take(own, (size_t)csv->n_row + 1, sizeof *step);
  for (atvi_idx i = 0; ok && step && i < csv->n_row; i++) {
    step[i].phase = csv->text[i * csv->n_col + phase];
    for (int k = 0; ok && k < COLUMNS; k++) {
      atvi_idx at = i * csv->n_col + column[k];
      memcpy((char *)&step[i] + STEP_FIELD[k].offset, &csv->value[at], sizeof(double));
      ok = csv->kind[at] == ATVI_CELL_NUMBER || csv->kind[at] == ATVI_CELL_MISSING;
    }
  }
  if (!step) return ATVI_ENOMEM;
  if (!ok) return ATVI_FAIL(d->ctx, ATVI_EDATA, "%s: error: this is not the history of a fit", path);
  return atvi_draws_history(d, csv->n_row, step);
}

/* ---- the whole ---- */

/* Files of groups, side by side: each with a context of its own. */
typedef struct {
  const atvi_draws *d;
  const char *folder;
  atvi_ctx **ctx;      /* [n_group] NULL: out of memory */
  atvi_status *status; /* [n_group] */
} writing;

static void write_item(void *arg, atvi_idx k, int worker) {
  const writing *w = arg;
  atvi_pool *own;
  (void)worker;
  w->status[k] = atvi_ctx_new(NULL, &w->ctx[k]);
  if (w->status[k] != ATVI_OK) return;
  w->status[k] = atvi_pool_new(w->ctx[k], &own);
  if (w->status[k] != ATVI_OK) return;
  const char *path = atvi_pool_printf(own, "%s/%s.npy", w->folder, w->d->group[k].name);
  w->status[k] = path ? write_values(w->ctx[k], &w->d->group[k], path) : ATVI_ENOMEM;
  atvi_pool_free(own);
}

static atvi_status write_groups(atvi_pool *own, const atvi_draws *d, const char *folder) {
  atvi_status status = ATVI_OK;
  writing w = {d, folder, atvi_pool_take(own, (size_t)d->n_group + 1, sizeof *w.ctx),
               atvi_pool_take(own, (size_t)d->n_group + 1, sizeof *w.status)};
  if (!w.ctx || !w.status) return ATVI_ENOMEM;
  atvi_parallel(d->ctx, d->n_group, write_item, &w);
  for (atvi_idx k = 0; k < d->n_group; k++) {
    if (status == ATVI_OK && w.status[k] != ATVI_OK) {
      status = w.status[k];
      (void)ATVI_FAIL(d->ctx, status, "%s", w.ctx[k] ? atvi_errmsg(w.ctx[k]) : "out of memory");
    }
    atvi_ctx_free(w.ctx[k]);
  }
  return status;
}

atvi_status atvi_io_groups_write(const atvi_draws *d, const char *dir) {
  atvi_pool *own;
  ATVI_TRY(atvi_pool_new(d->ctx, &own));
  const char *folder = atvi_pool_printf(own, "%s/groups", dir),
             *json = atvi_pool_printf(own, "%s/groups/groups.json", dir),
             *history = atvi_pool_printf(own, "%s/history.csv", dir);
  atvi_status status = folder && json && history ? atvi_io_dir_make(d->ctx, folder, false) : ATVI_ENOMEM;
  if (status == ATVI_OK) status = write_groups(own, d, folder);
  if (status == ATVI_OK && d->n_step > 0) status = write_history(d, history);
  if (status == ATVI_OK) status = write_json(own, d, json);
  atvi_pool_free(own);
  return status;
}

atvi_status atvi_io_groups_read(atvi_draws *d, const char *dir) {
  atvi_pool *own;
  ATVI_TRY(atvi_pool_new(d->ctx, &own));
  reading r = {atvi_draws_pool(d), atvi_pool_printf(own, "%s/groups/groups.json", dir), d};
  atvi_status status = read_json(&r, own, dir);
  if (status == ATVI_OK) status = read_history(own, d, atvi_pool_printf(own, "%s/history.csv", dir));
  if (status != ATVI_OK) {
    *d->about = (atvi_about){0};
    d->n_series = d->n_group = d->n_step = d->n_failed = 0;
    d->prior = NULL;
  }
  atvi_pool_free(own);
  return status;
}

atvi_status atvi_io_groups_priors(atvi_draws *d, const char *dir) {
  atvi_pool *own;
  char *text;
  size_t n;
  json_error_t error;
  if (!atvi_io_groups_there(dir)) return ATVI_OK;
  ATVI_TRY(atvi_pool_new(d->ctx, &own));
  reading r = {atvi_draws_pool(d), atvi_pool_printf(own, "%s/groups/groups.json", dir), d};
  json_t *root =
      r.path && atvi_io_file_read(own, r.path, &text, &n) == ATVI_OK ? json_loadb(text, n, 0, &error) : NULL;
  if (root && !read_priors(&r, json_object_get(root, "prior"))) d->prior = NULL;
  json_decref(root);
  atvi_pool_free(own);
  return atvi_pool_status(r.pool);
}

bool atvi_io_groups_there(const char *dir) {
  char path[4200];
  return snprintf(path, sizeof path, "%.4000s/groups/groups.json", dir) < (int)sizeof path &&
         access(path, F_OK) == 0;
}

void atvi_io_groups_drop(const char *dir) {
  char path[4200];
  for (int k = 0; k < GROUPS + 2; k++) {
    if (k < GROUPS)
      snprintf(path, sizeof path, "%.4000s/groups/%s.npy", dir, GROUP[k]);
    else
      snprintf(path, sizeof path, k == GROUPS ? "%.4000s/groups/groups.json" : "%.4000s/history.csv", dir);
    unlink(path);
  }
  snprintf(path, sizeof path, "%.4000s/groups", dir);
  rmdir(path);
}
