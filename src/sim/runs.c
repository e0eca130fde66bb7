/* SPDX-License-Identifier: MIT */
/* A record as matrices. Lines are read one after another and only the requested outputs are kept, so memory
 * is about twice that of the matrices. */
#include "sim/record.h"
#include "sim/detail.h"
#include "io/text.h"
#include "io/file.h"
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NAMED_MAX = 8 }; /* runs at other times that a message names */

typedef struct {
  int64_t id;
  bool ok;
  atvi_idx file;   /* of the record, with the line that counts */
  atvi_idx *party; /* [n_output] of a good run: the party with its times */
  double *x;       /* [n_x] parameters of all that is wanted, one after another */
  double **y;      /* [n_want] */
  const char *reason;
  double tries; /* that failed */
  const char *program;
} row;

typedef struct {
  atvi_ctx *ctx;
  atvi_pool *pool;    /* the caller's */
  atvi_pool *scratch; /* rows */
  const char *path;
  atvi_idx n_want;
  atvi_sim_want *want; /* [n_want] */
  atvi_idx *wanted;    /* [n_want] which output of the record it is */
  atvi_idx n_x;
  atvi_idx n_output;    /* of the record */
  const char **outputs; /* [n_output] */
  row *row;
  atvi_idx n, cap;
  atvi_idx *at; /* [n_at] by id: 1 + index into row */
  atvi_idx n_at;
  atvi_sim_vote *vote; /* [n_output] */
  atvi_idx *winner;    /* [n_output] */
  const char *program; /* of the last header */
  const char *latest;  /* of the last good run */
  atvi_idx most;       /* lines to read; 0: all */
  atvi_idx lines;
  atvi_idx file; /* number of the one being read */
  double seconds;
  atvi_idx n_timed;
} reader;

static atvi_status wrong_output(const reader *r, const char *output, const json_t *list) {
  char have[300] = "";
  for (size_t i = 0; i < json_array_size(list) && strlen(have) < 200; i++) {
    const char *s = json_string_value(json_array_get(list, i));
    if (i) strcat(have, ", ");
    strncat(have, s ? s : "?", 60);
  }
  return output ? ATVI_FAIL(r->ctx, ATVI_EDATA, "%s:1:1: error: the runs have no output %s; they have %s",
                            r->path, output, have)
                : ATVI_FAIL(r->ctx, ATVI_EDATA,
                            "%s:1:1: error: the runs have several outputs (%s): which one?", r->path, have);
}

static bool holds(const json_t *list, const char *name) {
  for (size_t i = 0; i < json_array_size(list); i++) {
    const char *s = json_string_value(json_array_get(list, i));
    if (s && strcmp(s, name) == 0) return true;
  }
  return false;
}

/* All outputs of a record, because a run at other times in any of them is not good. */
static atvi_status learn_outputs(reader *r, const json_t *list) {
  atvi_idx n = (atvi_idx)json_array_size(list);
  r->outputs = atvi_pool_take(r->scratch, (size_t)n, sizeof *r->outputs);
  r->vote = atvi_pool_take(r->scratch, (size_t)n, sizeof *r->vote);
  r->winner = atvi_pool_take(r->scratch, (size_t)n, sizeof *r->winner);
  for (atvi_idx o = 0; !atvi_pool_failed(r->scratch) && o < n; o++) {
    const char *name = json_string_value(json_array_get(list, (size_t)o));
    r->outputs[o] = atvi_pool_strndup(r->scratch, name ? name : "", name ? strlen(name) : 0);
    r->vote[o] = (atvi_sim_vote){.pool = r->scratch};
    for (atvi_idx w = 0; name && w < r->n_want; w++)
      if (strcmp(name, r->want[w].output) == 0) r->wanted[w] = o;
  }
  r->n_output = n;
  return atvi_pool_status(r->scratch);
}

static atvi_status check_want(const reader *r, atvi_sim_want *w, const json_t *outputs,
                              const json_t *params) {
  if (!w->output && json_array_size(outputs) == 1) {
    const char *only = json_string_value(json_array_get(outputs, 0));
    w->output = only ? atvi_pool_strndup(r->scratch, only, strlen(only)) : NULL;
  }
  if (!w->output || !holds(outputs, w->output)) return wrong_output(r, w->output, outputs);
  for (atvi_idx i = 0; i < w->d; i++)
    if (!holds(params, w->param[i]))
      return ATVI_FAIL_AS(r->ctx, ATVI_EDATA, ATVI_CODE_RUNS_OTHER,
                          "%s:1:1: error: the runs have no parameter %s: they belong to another model, or to "
                          "an earlier version of this one",
                          r->path, w->param[i]);
  return ATVI_OK;
}

static atvi_status header(reader *r, const json_t *line) {
  const json_t *outputs = json_object_get(line, "outputs"), *params = json_object_get(line, "parameters");
  for (atvi_idx w = 0; w < r->n_want; w++) ATVI_TRY(check_want(r, &r->want[w], outputs, params));
  if (r->n_output == 0) ATVI_TRY(learn_outputs(r, outputs));
  const char *program = json_string_value(json_object_get(line, "program"));
  r->program = atvi_pool_strndup(r->scratch, program ? program : "", program ? strlen(program) : 0);
  return r->program ? ATVI_OK : ATVI_ENOMEM;
}

static row *row_of(reader *r, int64_t id) {
  if (!atvi_sim_ids_room(r->scratch, id, &r->at, &r->n_at)) return NULL;
  if (r->at[id] == 0) {
    if (!ATVI_PUSH(r->scratch, r->row, r->n, r->cap)) return NULL;
    r->row[r->n] = (row){.id = id};
    r->at[id] = ++r->n;
  }
  return &r->row[r->at[id] - 1];
}

/* Counts the times of all outputs and keeps the values of the wanted ones. */
static atvi_status keep_series(reader *r, const atvi_sim_series *s, row *k) {
  if (!k->party) {
    k->party = atvi_pool_take(r->scratch, (size_t)r->n_output, sizeof *k->party);
    k->y = atvi_pool_take(r->scratch, (size_t)r->n_want, sizeof *k->y);
    if (!k->party || !k->y) return ATVI_ENOMEM;
  }
  for (atvi_idx w = 0; w < r->n_want; w++) {
    const atvi_sim_series *own = &s[r->wanted[w]];
    if (!(k->y[w] = atvi_pool_take(r->scratch, (size_t)own->n, sizeof(double)))) return ATVI_ENOMEM;
    memcpy(k->y[w], own->value, (size_t)own->n * sizeof(double));
  }
  for (atvi_idx o = 0; o < r->n_output; o++)
    if ((k->party[o] = atvi_sim_vote_add(&r->vote[o], k->id, &s[o])) < 0) return ATVI_ENOMEM;
  k->ok = true;
  return ATVI_OK;
}

static atvi_status series(const atvi_sim_lines *l, atvi_pool *pool, const json_t *from, atvi_sim_series *s) {
  const json_t *time = json_object_get(from, "time");
  atvi_idx n;
  ATVI_TRY(atvi_sim_lines_numbers(l, pool, json_object_get(from, "value"), &s->n, &s->value));
  if (!time) return ATVI_OK;
  ATVI_TRY(atvi_sim_lines_numbers(l, pool, time, &n, &s->time));
  return n == s->n ? ATVI_OK : atvi_sim_lines_wrong(l, "times and values have different lengths");
}

static atvi_status point(const reader *r, const json_t *line, row *k) {
  const json_t *param = json_object_get(line, "parameters");
  double *to = k->x = atvi_pool_take(r->scratch, (size_t)r->n_x + 1, sizeof *k->x);
  if (!to) return ATVI_ENOMEM;
  for (const atvi_sim_want *w = r->want; w < r->want + r->n_want; w++)
    for (atvi_idx i = 0; i < w->d; i++) {
      const json_t *x = json_object_get(param, w->param[i]);
      *to++ = json_is_number(x) ? json_number_value(x) : NAN;
    }
  return ATVI_OK;
}

static atvi_status good(reader *r, const atvi_sim_lines *l, const json_t *line, row *k) {
  const json_t *outputs = json_object_get(line, "outputs");
  atvi_pool *pool;
  for (atvi_idx i = 0; i < r->n_x; i++)
    if (isnan(k->x[i])) return atvi_sim_lines_wrong(l, "a run without one of its parameters");
  ATVI_TRY(atvi_pool_new(r->ctx, &pool));
  atvi_sim_series *s = atvi_pool_take(pool, (size_t)r->n_output, sizeof *s);
  atvi_status status = s ? ATVI_OK : ATVI_ENOMEM;
  for (atvi_idx o = 0; o < r->n_output && status == ATVI_OK; o++)
    status = series(l, pool, json_object_get(outputs, r->outputs[o]), &s[o]);
  if (status == ATVI_OK) status = keep_series(r, s, k);
  atvi_pool_free(pool);
  return status;
}

/* Why a run failed. "ended with status 1" alone helps nobody: the last line that the program wrote is its
 * reason. */
static const char *reason_of(const reader *r, const json_t *line) {
  enum { MOST = 200 };
  const char *reason = json_string_value(json_object_get(line, "reason"));
  const char *log = json_string_value(json_object_get(line, "log"));
  size_t n = log ? strlen(log) : 0;
  while (n > 0 && strchr("\r\n \t", log[n - 1])) n--;
  size_t from = n;
  while (from > 0 && !strchr("\r\n", log[from - 1])) from--;
  if (!reason) reason = "";
  if (n == 0 || !json_is_true(json_object_get(line, "ended")))
    return atvi_pool_printf(r->scratch, "%s", reason);
  char *text = atvi_pool_printf(r->scratch, "%s: %.*s%s", reason, n - from > MOST ? MOST : (int)(n - from),
                                log + from, n - from > MOST ? " ..." : "");
  if (text) atvi_io_excerpt_clean(text);
  return text;
}

static atvi_status one(reader *r, const atvi_sim_lines *l, const json_t *line) {
  if (json_object_get(line, "record")) return header(r, line);
  if (r->n_output == 0) return atvi_sim_lines_wrong(l, "the first line is missing");
  double id = json_number_value(json_object_get(line, "id"));
  const char *outcome = json_string_value(json_object_get(line, "outcome"));
  if (!(id >= 1 && id <= ATVI_SIM_ID_MAX) || !outcome)
    return atvi_sim_lines_wrong(l, "a run without id or outcome");
  row *k = row_of(r, (int64_t)id);
  if (!k) return ATVI_ENOMEM;
  const json_t *seconds = json_object_get(line, "seconds");
  if (json_is_number(seconds)) r->n_timed++, r->seconds += json_number_value(seconds);
  if (k->ok && k->file != r->file && strcmp(outcome, "ok") != 0) return ATVI_OK;
  k->file = r->file;
  for (atvi_idx o = 0; k->ok && o < r->n_output; o++) atvi_sim_vote_drop(&r->vote[o], k->party[o]);
  k->ok = false;
  k->reason = NULL;
  k->program = r->program;
  ATVI_TRY(point(r, line, k));
  if (strcmp(outcome, "ok") == 0) {
    r->latest = r->program;
    k->tries = 0;
    return good(r, l, line, k);
  }
  const json_t *attempts = json_object_get(line, "attempts");
  k->tries += json_is_number(attempts) ? json_number_value(attempts) : 1;
  k->reason = reason_of(r, line);
  return k->reason ? ATVI_OK : ATVI_ENOMEM;
}

static int by_id(const void *a, const void *b) {
  const row *x = a, *y = b;
  return (x->id > y->id) - (x->id < y->id);
}

/* The first output of a good run without the times of most; n_output: none. */
static atvi_idx elsewhen(const reader *r, const row *k) {
  atvi_idx o = 0;
  while (o < r->n_output && k->party[o] == r->winner[o]) o++;
  return o;
}

/* Removes the runs without the times of most; `text` names them. */
static atvi_idx take_out(reader *r, atvi_text *text) {
  atvi_idx n = 0, named = 0;
  const char *why = NULL;
  for (atvi_idx i = 0; i < r->n; i++) n += r->row[i].ok && elsewhen(r, &r->row[i]) < r->n_output;
  if (n == 0) return 0;
  for (atvi_idx i = 0; i < r->n; i++) {
    row *k = &r->row[i];
    atvi_idx o = k->ok ? elsewhen(r, k) : r->n_output;
    if (o == r->n_output) continue;
    k->ok = false;
    k->reason = atvi_sim_vote_why(&r->vote[o], r->scratch, r->outputs[o], k->party[o]);
    if (!why) why = k->reason;
    if (named++ < NAMED_MAX)
      atvi_io_text_add(text, "%s%lld", named > 1 ? ", " : n > 1 ? "runs " : "run ", (long long)k->id);
  }
  if (n > NAMED_MAX) atvi_io_text_add(text, " and %td more", n - NAMED_MAX);
  atvi_io_text_add(text, ": %s", why ? why : "other times than most runs");
  return n;
}

static atvi_status tell_left_out(reader *r, atvi_sim_runs *out) {
  atvi_text failures = {.pool = r->pool};
  for (atvi_idx i = 0; i < r->n; i++) {
    const row *k = &r->row[i];
    if (k->ok) continue;
    out->n_again += k->tries > 1;
    if (out->n_failed++ == 0) atvi_io_text_add(&failures, "run %lld: %s", (long long)k->id, k->reason);
  }
  atvi_text others = {.pool = r->scratch};
  atvi_idx n = take_out(r, &others);
  if (n) atvi_io_text_add(&failures, "%s%s", out->n_failed ? "; " : "", others.text ? others.text : "");
  out->n_failed += n;
  if (out->n_failed && atvi_io_text_get(&failures, &out->failure) != ATVI_OK) return ATVI_ENOMEM;
  return others.failed || atvi_pool_failed(r->scratch) ? ATVI_ENOMEM : ATVI_OK;
}

/* The same one by one, with d parameters starting with number `from`. */
static const atvi_sim_left *list_left_out(const reader *r, atvi_idx n, atvi_idx from, atvi_idx d) {
  atvi_sim_left *list = atvi_pool_take(r->pool, (size_t)n + 1, sizeof *list);
  double *x = atvi_pool_take(r->pool, (size_t)(n * d) + 1, sizeof *x);
  for (atvi_idx i = 0, k = 0; list && x && i < r->n && k < n; i++) {
    const row *of = &r->row[i];
    if (of->ok) continue;
    if (d) memcpy(x + k * d, of->x + from, (size_t)d * sizeof *x);
    const char *reason = of->reason ? of->reason : "";
    list[k] = (atvi_sim_left){of->id, x + k * d, atvi_pool_strndup(r->pool, reason, strlen(reason))};
    k++;
  }
  return list;
}

/* out holds what all share; w: which one is wanted, with parameters starting with number `from`. */
static atvi_status collect_one(const reader *r, atvi_idx w, atvi_idx from, atvi_sim_runs *out) {
  const atvi_sim_series *times = &r->vote[r->wanted[w]].party[r->winner[r->wanted[w]]].times;
  atvi_idx n = out->n, d = r->want[w].d, m = times->n;
  double *x = atvi_pool_take(r->pool, (size_t)(n * d) + 1, sizeof *x);
  double *y = atvi_pool_take(r->pool, (size_t)(n * m), sizeof *y);
  double *time = times->time ? atvi_pool_take(r->pool, (size_t)m, sizeof *time) : NULL;
  out->left = list_left_out(r, out->n_failed, from, d);
  if (atvi_pool_failed(r->pool)) return ATVI_ENOMEM;
  if (time) memcpy(time, times->time, (size_t)m * sizeof *time);
  out->d = d, out->m = m;
  out->x = x, out->y = y, out->time = time;
  for (atvi_idx i = 0, k = 0; i < r->n; i++) {
    const row *of = &r->row[i];
    if (!of->ok) continue;
    if (d) memcpy(x + k * d, of->x + from, (size_t)d * sizeof *x);
    memcpy(y + k * m, of->y[w], (size_t)m * sizeof *y);
    k++;
  }
  return ATVI_OK;
}

static atvi_status collect(reader *r, atvi_sim_runs *out) {
  atvi_sim_runs all = {.lines = r->lines, .seconds = r->n_timed ? r->seconds : NAN, .n_timed = r->n_timed};
  for (atvi_idx o = 0; o < r->n_output; o++) r->winner[o] = atvi_sim_vote_winner(&r->vote[o]);
  if (r->n) qsort(r->row, (size_t)r->n, sizeof *r->row, by_id);
  ATVI_TRY(tell_left_out(r, &all));
  int64_t *id = atvi_pool_take(r->pool, (size_t)r->n + 1, sizeof *id);
  if (!id) return ATVI_ENOMEM;
  for (atvi_idx i = 0; i < r->n; i++) {
    if (!r->row[i].ok) continue;
    id[all.n++] = r->row[i].id;
    all.n_other += strcmp(r->row[i].program, r->latest) != 0;
  }
  all.id = id;
  if (all.n == 0)
    return ATVI_FAIL_AS(r->ctx, ATVI_EDATA, ATVI_CODE_SIMULATOR_FAILED,
                        "%s:1:1: error: no run of the simulator is good%s%s", r->path,
                        all.failure ? "; " : "", all.failure ? all.failure : "");
  for (atvi_idx w = 0, from = 0; w < r->n_want; from += r->want[w++].d) {
    out[w] = all;
    ATVI_TRY(collect_one(r, w, from, &out[w]));
  }
  return ATVI_OK;
}

static atvi_status read_file(reader *r, const char *path, int fd) {
  atvi_sim_lines l;
  json_t *line = NULL;
  atvi_status status = atvi_sim_lines_open(r->ctx, path, fd, &l);
  while (status == ATVI_OK && (r->most == 0 || r->lines < r->most)) {
    status = atvi_sim_lines_next(&l, &line);
    if (status != ATVI_OK || !line) break;
    status = one(r, &l, line);
    r->lines++;
    json_decref(line);
  }
  atvi_sim_lines_close(&l);
  return status;
}

static atvi_status read_files(reader *r, atvi_sim_runs *out) {
  const char *const *list;
  atvi_idx n;
  ATVI_TRY(atvi_sim_shards_list(r->scratch, r->path, &n, &list));
  for (r->file = 0; r->file < n; r->file++) {
    const char *path = list[r->file];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT && n == 1)
      return ATVI_FAIL_AS(r->ctx, ATVI_EIO, ATVI_CODE_RUNS_NONE,
                          "there is no record of runs of the simulator at %s", path);
    if (fd < 0 && errno == ENOENT) continue;
    atvi_status status = fd < 0 ? atvi_io_file_cannot(r->ctx, "read", path, errno) : read_file(r, path, fd);
    if (fd >= 0) close(fd);
    if (status != ATVI_OK) return status;
  }
  if (r->lines < r->most)
    return ATVI_FAIL(r->ctx, ATVI_EDATA, "%s: error: the record has %td lines, but had %td", r->path,
                     r->lines, r->most);
  return collect(r, out);
}

static atvi_status read_path(reader *r, const atvi_sim_want *want, atvi_sim_runs *out) {
  r->want = atvi_pool_take(r->scratch, (size_t)r->n_want + 1, sizeof *r->want);
  r->wanted = atvi_pool_take(r->scratch, (size_t)r->n_want + 1, sizeof *r->wanted);
  for (atvi_idx w = 0; r->want && w < r->n_want; w++) {
    r->want[w] = want[w];
    r->n_x += want[w].d;
  }
  return atvi_pool_failed(r->scratch) ? ATVI_ENOMEM : read_files(r, out);
}

atvi_status atvi_sim_runs_read(atvi_pool *pool, const char *path, atvi_idx lines, atvi_idx n,
                               const atvi_sim_want *want, atvi_sim_runs *out) {
  reader r = {.ctx = atvi_pool_ctx(pool), .pool = pool, .path = path, .n_want = n, .most = lines};
  memset(out, 0, (size_t)n * sizeof *out);
  ATVI_TRY(atvi_pool_new(r.ctx, &r.scratch));
  atvi_status status = read_path(&r, want, out);
  if (status != ATVI_OK) memset(out, 0, (size_t)n * sizeof *out);
  atvi_pool_free(r.scratch);
  return status;
}
