/* SPDX-License-Identifier: MIT */
/* Runs of a simulator as a report tells of them: those that failed, and what all of them cost. The record is read here line by line, and of a line
 * only what comes before its outputs, so that a large one costs no more than reading it. */
#include "app/report_runs.h"
#include "core/core.h"
#include "io/json.h"
#include "sim/record.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
  int64_t id;
  atvi_idx line;
  const double *value; /* of one that failed; NULL: it did not */
  const char *say;
} entry;

typedef struct {
  atvi_pool *pool;
  atvi_idx d;
  const char *const *input;
  double seconds;
  atvi_idx n, cap;
  entry *of;
} reading;

static bool make_room(reading *r) {
  if (r->n < r->cap) return true;
  atvi_idx cap = r->cap ? 2 * r->cap : 256;
  entry *of = atvi_pool_take(r->pool, (size_t)cap, sizeof *of);
  if (!of) return false;
  if (r->n > 0) memcpy(of, r->of, (size_t)r->n * sizeof *of);
  r->of = of;
  r->cap = cap;
  return true;
}

static void tell_failed(const reading *r, const json_t *line, entry *e) {
  const json_t *at = json_object_get(line, "parameters");
  const char *reason = json_string_value(json_object_get(line, "reason"));
  double *value = atvi_pool_take(r->pool, (size_t)r->d + 1, sizeof *value);
  for (atvi_idx j = 0; value && j < r->d; j++) {
    const json_t *x = json_object_get(at, r->input[j]);
    value[j] = json_is_number(x) ? json_number_value(x) : NAN;
  }
  e->value = value;
  e->say = atvi_pool_printf(r->pool, "%s", reason ? reason : "");
}

static void read_line(reading *r, atvi_idx number, char *text) {
  char *outputs = strstr(text, ",\"outputs\":");
  if (outputs && strncmp(text, "{\"id\":", 6) == 0) memcpy(outputs, "}", 2);
  json_t *line = json_loads(text, 0, NULL);
  const json_t *id = json_object_get(line, "id"), *seconds = json_object_get(line, "seconds");
  const char *outcome = json_string_value(json_object_get(line, "outcome"));
  if (json_is_integer(id) && outcome && make_room(r)) {
    entry *e = &r->of[r->n++];
    *e = (entry){.id = json_integer_value(id), .line = number};
    if (json_is_number(seconds)) r->seconds += json_number_value(seconds);
    if (strcmp(outcome, "ok") != 0) tell_failed(r, line, e);
  }
  json_decref(line);
}

/* By run, and of one run the last line first: it is the one that counts. */
static int in_order(const void *a, const void *b) {
  const entry *p = a, *q = b;
  if (p->id != q->id) return p->id < q->id ? -1 : 1;
  return (p->line < q->line) - (p->line > q->line);
}

static void sum_up(reading *r, atvi_told_runs *out) {
  int64_t *good = atvi_pool_take(r->pool, (size_t)r->n + 1, sizeof *good);
  if (r->n > 0) qsort(r->of, (size_t)r->n, sizeof *r->of, in_order);
  for (atvi_idx i = 0; good && i < r->n; i++) {
    const entry *e = &r->of[i];
    if (i > 0 && e[-1].id == e->id) continue;
    if (!e->value)
      good[out->n_good++] = e->id;
    else if (out->n_bad < ATVI_TOLD_RUNS)
      out->bad[out->n_bad++] =
          (atvi_report_run){atvi_pool_printf(r->pool, "run %" PRId64, e->id), e->value, e->say};
  }
  out->good = good;
}

void atvi_told_runs_read(atvi_pool *pool, const char *folder, atvi_idx lines, atvi_idx d,
                         const char *const *input, atvi_told_runs *out) {
  reading r = {.pool = pool, .d = d, .input = input};
  const char *path = atvi_pool_printf(pool, "%s/%s", folder, ATVI_SIM_RECORD);
  char *text = NULL;
  size_t room = 0;
  *out = (atvi_told_runs){.seconds = NAN};
  FILE *f = path ? fopen(path, "re") : NULL;
  if (!f) return;
  for (atvi_idx i = 0; (lines == 0 || i < lines) && getline(&text, &room, f) > 0; i++) read_line(&r, i, text);
  fclose(f);
  free(text);
  out->seconds = r.seconds;
  sum_up(&r, out);
}
