/* SPDX-License-Identifier: MIT */
/* The comparison as compare.csv, one number per line, and as compare.json. */
#include "app/compare.h"
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <string.h>

enum { DIGITS = 12 }; /* of reals in JSON: far beyond the Monte Carlo error, and 0.1 stays 0.1 */

/* ---- CSV ---- */

static void lead(atvi_text *t, const atvi_compared *m, const char *kind, const char *name, const char *what) {
  atvi_text_add(t, "%s,%s,", m->method, kind);
  atvi_app_field(t, name);
  atvi_text_add(t, ",%s,", what);
}

static void line(atvi_text *t, const atvi_compared *m, const char *kind, const char *name, const char *what,
                 double x) {
  lead(t, m, kind, name, what);
  atvi_text_number(t, x);
  atvi_text_add(t, "\n");
}

/* One line, whatever is in it. */
static void word_line(atvi_text *t, const atvi_compared *m, const char *what, const char *word) {
  char *flat = atvi_pool_strndup(t->pool, word, strlen(word));
  for (char *p = flat; p && *p; p++)
    if (*p == '\n') *p = ' ';
  lead(t, m, "fit", "", what);
  atvi_app_field(t, flat ? flat : ""); /* NULL: the text has failed too, which is told at the end */
  atvi_text_add(t, "\n");
}

static void csv_columns(atvi_text *t, const atvi_compared *m) {
  for (atvi_idx j = 0; j < m->summary->n_col; j++) {
    const atvi_summary_column *c = &m->summary->col[j];
    const char *kind = j < m->summary->n_param ? "parameter" : "derived";
    line(t, m, kind, c->name, "mode", c->mode);
    line(t, m, kind, c->name, "hpd95_low", c->hpd95[0]);
    line(t, m, kind, c->name, "hpd95_high", c->hpd95[1]);
    line(t, m, kind, c->name, "mean", c->mean);
    line(t, m, kind, c->name, "sd", c->sd);
    line(t, m, kind, c->name, "mcse", c->mcse);
    line(t, m, kind, c->name, "distance", m->distance[j]);
    line(t, m, kind, c->name, "distance_by_chance", m->chance[j]);
    line(t, m, kind, c->name, "distance_unweighted", m->raw[j]);
  }
}

static void csv_scores(atvi_text *t, const atvi_compared *m, const char *kind, const atvi_score *list) {
  for (atvi_idx i = 0; list && i <= m->n_series; i++) {
    const atvi_score *s = &list[i];
    const char *name = i < m->n_series && s->name ? s->name : "all";
    line(t, m, kind, name, "n", (double)s->n);
    line(t, m, kind, name, "coverage", s->coverage);
    line(t, m, kind, name, "ail", s->ail);
    line(t, m, kind, name, "mspe", s->mspe);
    line(t, m, kind, name, "ail_sum", s->ail_sum);
    line(t, m, kind, name, "mspe_draws", s->mspe_draws);
    line(t, m, kind, name, "lpd", s->lpd);
  }
}

static void csv_method(atvi_text *t, const atvi_comparison *c, const atvi_compared *m) {
  const atvi_summary *s = m->summary;
  word_line(t, m, "state", m->state);
  if (m->reason) word_line(t, m, "reason", m->reason);
  if (!s) return;
  word_line(t, m, "verdict", atvi_verdict_name(s->verdict));
  line(t, m, "fit", "", "reference", c->reference >= 0 && m == &c->of[c->reference]);
  line(t, m, "fit", "", c->shared ? "seconds_shared" : "seconds", s->made.seconds);
  line(t, m, "fit", "", "evaluations", (double)s->made.evaluations);
  line(t, m, "fit", "", "khat", s->made.khat);
  line(t, m, "fit", "", "rhat", m->rhat);
  line(t, m, "fit", "", "ess", m->ess);
  line(t, m, "fit", "", "log_map", s->log_map);
  line(t, m, "fit", "", "log_evidence", s->made.log_evidence);
  line(t, m, "fit", "", "log_evidence_se", s->made.log_evidence_se);
  csv_columns(t, m);
  csv_scores(t, m, "fitted", m->fitted);
  csv_scores(t, m, "held_out", m->held);
}

atvi_status atvi_compare_csv(atvi_pool *pool, const atvi_comparison *c, const char **text) {
  atvi_text t = {.pool = pool};
  atvi_text_add(&t, "method,kind,name,statistic,value\n");
  for (atvi_idx i = 0; i < c->n; i++) csv_method(&t, c, &c->of[i]);
  return atvi_text_get(&t, text);
}

/* ---- JSON: NULL is how jansson tells of missing memory; it is carried up ---- */

static json_t *real(double x) { return isfinite(x) ? json_real(x) : json_null(); }

/* Words of the user's files may be in any encoding; JSON takes UTF-8 alone. */
static json_t *word(atvi_pool *pool, const char *s) {
  if (!s) return json_null();
  json_t *out = json_string(s);
  if (out) return out;
  char *copy = atvi_pool_strndup(pool, s, strlen(s));
  for (char *p = copy; p && *p; p++)
    if ((unsigned char)*p >= 128) *p = '?';
  return copy ? json_string(copy) : NULL;
}

static bool set(json_t *object, const char *key, json_t *value) {
  return json_object_set_new(object, key, value) == 0;
}

static json_t *done(json_t *x, bool ok) {
  if (ok) return x;
  json_decref(x);
  return NULL;
}

static json_t *pair(double a, double b) {
  json_t *out = json_array();
  bool ok = json_array_append_new(out, real(a)) == 0;
  return done(out, json_array_append_new(out, real(b)) == 0 && ok);
}

static json_t *column(atvi_pool *pool, const atvi_compared *m, atvi_idx j) {
  const atvi_summary_column *c = &m->summary->col[j];
  json_t *o = json_object();
  bool ok = set(o, "name", word(pool, c->name));
  ok = set(o, "mode", real(c->mode)) && ok;
  ok = set(o, "hpd95", pair(c->hpd95[0], c->hpd95[1])) && ok;
  ok = set(o, "mean", real(c->mean)) && ok;
  ok = set(o, "sd", real(c->sd)) && ok;
  ok = set(o, "mcse", real(c->mcse)) && ok;
  ok = set(o, "distance", real(m->distance[j])) && ok;
  ok = set(o, "distance_by_chance", real(m->chance[j])) && ok;
  ok = set(o, "distance_unweighted", real(m->raw[j])) && ok;
  return done(o, ok);
}

static json_t *columns(atvi_pool *pool, const atvi_compared *m, atvi_idx from, atvi_idx to) {
  json_t *list = json_array();
  bool ok = list != NULL;
  for (atvi_idx j = from; j < to; j++) ok = json_array_append_new(list, column(pool, m, j)) == 0 && ok;
  return done(list, ok);
}

static json_t *score(atvi_pool *pool, const atvi_score *s) {
  json_t *o = json_object();
  bool ok = o != NULL;
  if (s->name) ok = set(o, "series", word(pool, s->name)) && ok;
  ok = set(o, "n", json_integer(s->n)) && ok;
  ok = set(o, "coverage", real(s->coverage)) && ok;
  ok = set(o, "ail", real(s->ail)) && ok;
  ok = set(o, "mspe", real(s->mspe)) && ok;
  ok = set(o, "ail_sum", real(s->ail_sum)) && ok;
  ok = set(o, "mspe_draws", real(s->mspe_draws)) && ok;
  ok = set(o, "lpd", real(s->lpd)) && ok;
  return done(o, ok);
}

static json_t *scores(atvi_pool *pool, atvi_idx n, const atvi_score *list) {
  if (!list) return json_null();
  json_t *o = json_object(), *series = json_array();
  bool ok = o && series;
  for (atvi_idx i = 0; i < n; i++) ok = json_array_append_new(series, score(pool, &list[i])) == 0 && ok;
  ok = set(o, "series", series) && ok;
  ok = set(o, "all", score(pool, &list[n])) && ok;
  return done(o, ok);
}

static json_t *method(atvi_pool *pool, const atvi_compared *m) {
  const atvi_summary *s = m->summary;
  json_t *o = json_object();
  bool ok = set(o, "method", word(pool, m->method));
  ok = set(o, "state", word(pool, m->state)) && ok;
  ok = set(o, "reason", word(pool, m->reason)) && ok;
  ok = set(o, "folder", word(pool, m->method)) && ok; /* beside compare.json: the whole may be moved */
  if (!s) return done(o, ok);
  ok = set(o, "verdict", word(pool, atvi_verdict_name(s->verdict))) && ok;
  ok = set(o, "seconds", real(s->made.seconds)) && ok;
  ok = set(o, "evaluations", json_integer(s->made.evaluations)) && ok;
  ok = set(o, "khat", real(s->made.khat)) && ok;
  ok = set(o, "rhat", real(m->rhat)) && ok;
  ok = set(o, "ess", real(m->ess)) && ok;
  ok = set(o, "log_map", real(s->log_map)) && ok;
  ok = set(o, "log_evidence", real(s->made.log_evidence)) && ok;
  ok = set(o, "log_evidence_se", real(s->made.log_evidence_se)) && ok;
  ok = set(o, "parameters", columns(pool, m, 0, s->n_param)) && ok;
  ok = set(o, "derived", columns(pool, m, s->n_param, s->n_col)) && ok;
  ok = set(o, "fitted", scores(pool, m->n_series, m->fitted)) && ok;
  ok = set(o, "held_out", scores(pool, m->n_series, m->held)) && ok;
  ok = set(o, "unscored", word(pool, m->unscored)) && ok;
  return done(o, ok);
}

static json_t *seed(atvi_pool *pool, uint64_t x) { /* a string where it is too large for JSON readers */
  if (x <= INT64_MAX) return json_integer((json_int_t)x);
  const char *text = atvi_pool_printf(pool, "%" PRIu64, x);
  return text ? json_string(text) : NULL;
}

static json_t *whole(atvi_pool *pool, const atvi_comparison *c) {
  json_t *o = json_object(), *list = json_array();
  bool ok = set(o, "version", json_string(ATVI_VERSION)) && list;
  ok = set(o, "model", word(pool, c->model)) && ok;
  ok = set(o, "seed", seed(pool, c->seed)) && ok;
  ok = set(o, "holdout", word(pool, c->holdout)) && ok;
  ok = set(o, "times_shared", json_boolean(c->shared)) && ok;
  ok = set(o, "reference", word(pool, c->reference < 0 ? NULL : c->of[c->reference].method)) && ok;
  ok = set(o, "reference_because", word(pool, c->reference < 0 ? NULL : c->because)) && ok;
  for (atvi_idx i = 0; i < c->n; i++) ok = json_array_append_new(list, method(pool, &c->of[i])) == 0 && ok;
  return done(o, set(o, "methods", list) && ok);
}

atvi_status atvi_compare_json(atvi_pool *pool, const atvi_comparison *c, const char **text) {
  const size_t flags = JSON_INDENT(2) | JSON_REAL_PRECISION(DIGITS);
  json_t *o = whole(pool, c);
  size_t n = o ? json_dumpb(o, NULL, 0, flags) : 0;
  char *out = n ? atvi_pool_take(pool, n + 2, 1) : NULL;
  *text = NULL;
  if (out && json_dumpb(o, out, n, flags) == n) {
    out[n] = '\n';
    *text = out;
  }
  json_decref(o);
  return *text ? ATVI_OK : ATVI_FAIL(atvi_pool_ctx(pool), ATVI_ENOMEM, "compare: out of memory");
}
