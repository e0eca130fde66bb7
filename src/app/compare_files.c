/* SPDX-License-Identifier: MIT */
/* The comparison as compare.csv, one number per line, and as compare.json. */
#include "app/compare.h"
#include "io/json.h"
#include <math.h>
#include <string.h>

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

/* ---- JSON ---- */

static json_t *column(atvi_pool *pool, const atvi_compared *m, atvi_idx j) {
  const atvi_summary_column *c = &m->summary->col[j];
  json_t *o = json_object();
  bool ok = atvi_json_set(o, "name", atvi_json_word(pool, c->name));
  ok = atvi_json_set(o, "mode", atvi_json_real(c->mode)) && ok;
  ok = atvi_json_set(o, "hpd95", atvi_json_pair(c->hpd95[0], c->hpd95[1])) && ok;
  ok = atvi_json_set(o, "mean", atvi_json_real(c->mean)) && ok;
  ok = atvi_json_set(o, "sd", atvi_json_real(c->sd)) && ok;
  ok = atvi_json_set(o, "mcse", atvi_json_real(c->mcse)) && ok;
  ok = atvi_json_set(o, "distance", atvi_json_real(m->distance[j])) && ok;
  ok = atvi_json_set(o, "distance_by_chance", atvi_json_real(m->chance[j])) && ok;
  ok = atvi_json_set(o, "distance_unweighted", atvi_json_real(m->raw[j])) && ok;
  return atvi_json_done(o, ok);
}

static json_t *columns(atvi_pool *pool, const atvi_compared *m, atvi_idx from, atvi_idx to) {
  json_t *list = json_array();
  bool ok = list != NULL;
  for (atvi_idx j = from; j < to; j++) ok = json_array_append_new(list, column(pool, m, j)) == 0 && ok;
  return atvi_json_done(list, ok);
}

static json_t *scores(atvi_pool *pool, atvi_idx n, const atvi_score *list) {
  return list ? atvi_scores_of(pool, n, list, &list[n]) : json_null();
}

static json_t *method(atvi_pool *pool, const atvi_compared *m) {
  const atvi_summary *s = m->summary;
  json_t *o = json_object();
  bool ok = atvi_json_set(o, "method", atvi_json_word(pool, m->method));
  ok = atvi_json_set(o, "state", atvi_json_word(pool, m->state)) && ok;
  ok = atvi_json_set(o, "reason", atvi_json_word(pool, m->reason)) && ok;
  ok = atvi_json_set(o, "folder", atvi_json_word(pool, m->method)) &&
       ok; /* beside compare.json: the whole may be moved */
  if (!s) return atvi_json_done(o, ok);
  ok = atvi_json_set(o, "verdict", atvi_json_word(pool, atvi_verdict_name(s->verdict))) && ok;
  ok = atvi_json_set(o, "seconds", atvi_json_real(s->made.seconds)) && ok;
  ok = atvi_json_set(o, "evaluations", json_integer(s->made.evaluations)) && ok;
  ok = atvi_json_set(o, "khat", atvi_json_real(s->made.khat)) && ok;
  ok = atvi_json_set(o, "rhat", atvi_json_real(m->rhat)) && ok;
  ok = atvi_json_set(o, "ess", atvi_json_real(m->ess)) && ok;
  ok = atvi_json_set(o, "log_map", atvi_json_real(s->log_map)) && ok;
  ok = atvi_json_set(o, "log_evidence", atvi_json_real(s->made.log_evidence)) && ok;
  ok = atvi_json_set(o, "log_evidence_se", atvi_json_real(s->made.log_evidence_se)) && ok;
  ok = atvi_json_set(o, "parameters", columns(pool, m, 0, s->n_param)) && ok;
  ok = atvi_json_set(o, "derived", columns(pool, m, s->n_param, s->n_col)) && ok;
  ok = atvi_json_set(o, "fitted", scores(pool, m->n_series, m->fitted)) && ok;
  ok = atvi_json_set(o, "held_out", scores(pool, m->n_series, m->held)) && ok;
  ok = atvi_json_set(o, "unscored", atvi_json_word(pool, m->unscored)) && ok;
  return atvi_json_done(o, ok);
}

static json_t *whole(atvi_pool *pool, const atvi_comparison *c) {
  json_t *o = json_object(), *list = json_array();
  bool ok = atvi_json_set(o, "version", json_string(ATVI_VERSION)) && list;
  ok = atvi_json_set(o, "model", atvi_json_word(pool, c->model)) && ok;
  ok = atvi_json_set(o, "seed", atvi_json_seed(pool, c->seed)) && ok;
  ok = atvi_json_set(o, "holdout", atvi_json_word(pool, c->holdout)) && ok;
  ok = atvi_json_set(o, "times_shared", json_boolean(c->shared)) && ok;
  ok = atvi_json_set(o, "reference",
                     atvi_json_word(pool, c->reference < 0 ? NULL : c->of[c->reference].method)) &&
       ok;
  ok =
      atvi_json_set(o, "reference_because", atvi_json_word(pool, c->reference < 0 ? NULL : c->because)) && ok;
  for (atvi_idx i = 0; i < c->n; i++) ok = json_array_append_new(list, method(pool, &c->of[i])) == 0 && ok;
  return atvi_json_done(o, atvi_json_set(o, "methods", list) && ok);
}

atvi_status atvi_compare_json(atvi_pool *pool, const atvi_comparison *c, const char **text) {
  return atvi_json_text(pool, whole(pool, c), "compare", text);
}
