/* SPDX-License-Identifier: MIT */
/* The comparison as compare.csv, one number per line, and as compare.json. */
#include "app/compare.h"
#include <math.h>
#include <string.h>

static const char QUANTITY[] = "mode hpd95 mean sd mcse";

/* How far the marginal of a quantity is from that of the reference. */
typedef struct {
  double distance, chance, raw;
} far;

static const atvi_field FAR[] = {ATVI_FIELD(REAL, far, distance),
                                 ATVI_FIELD_AS("distance_by_chance", REAL, far, chance),
                                 ATVI_FIELD_AS("distance_unweighted", REAL, far, raw)};
static const atvi_fields FAR_FIELDS = ATVI_FIELDS(FAR);

static far far_of(const atvi_compared *m, atvi_idx j) {
  return (far){m->distance[j], m->chance[j], m->raw[j]};
}

/* ---- CSV ---- */

const char *atvi_compare_lead(atvi_pool *pool, const char *who, const char *kind, const char *name) {
  atvi_text t = {.pool = pool};
  const char *out;
  atvi_app_field(&t, who);
  atvi_text_add(&t, ",%s,", kind);
  atvi_app_field(&t, name);
  atvi_text_add(&t, ",");
  return atvi_text_get(&t, &out) == ATVI_OK ? out : NULL;
}

void atvi_compare_word(atvi_text *t, const char *who, const char *what, const char *word) {
  char *flat = atvi_pool_strndup(t->pool, word, strlen(word));
  for (char *p = flat; p && *p; p++)
    if (*p == '\n') *p = ' ';
  atvi_app_field(t, who);
  atvi_text_add(t, ",fit,,%s,", what);
  atvi_app_field(t, flat ? flat : ""); /* NULL: the text fails too */
  atvi_text_add(t, "\n");
}

static void csv_columns(atvi_text *t, const atvi_compared *m) {
  const atvi_summary *s = m->summary;
  for (atvi_idx j = 0; j < s->n_col; j++) {
    const char *at =
        atvi_compare_lead(t->pool, m->method, j < s->n_param ? "parameter" : "derived", s->col[j].name);
    far x = far_of(m, j);
    if (!at) return;
    atvi_fields_lines(t, at, &atvi_summary_column_fields, &s->col[j], QUANTITY);
    atvi_fields_lines(t, at, &FAR_FIELDS, &x, NULL);
  }
}

static void csv_scores(atvi_text *t, const atvi_compared *m, const char *kind, const atvi_score *list) {
  for (atvi_idx i = 0; list && i <= m->n_series; i++) {
    const char *at =
        atvi_compare_lead(t->pool, m->method, kind, i < m->n_series && list[i].name ? list[i].name : "all");
    if (!at) return;
    atvi_fields_lines(t, at, &atvi_score_fields, &list[i], "n coverage ail mspe ail_sum mspe_draws lpd");
  }
}

static void csv_method(atvi_text *t, const atvi_comparison *c, const atvi_compared *m) {
  atvi_compare_word(t, m->method, "state", m->state);
  if (m->reason) atvi_compare_word(t, m->method, "reason", m->reason);
  if (!m->summary) return;
  const char *at = atvi_compare_lead(t->pool, m->method, "fit", "");
  if (!at) return;
  atvi_compare_word(t, m->method, "verdict", atvi_verdict_name(m->summary->verdict));
  atvi_text_add(t, "%sreference,%d\n", at, c->reference >= 0 && m == &c->of[c->reference]);
  atvi_text_add(t, c->shared ? "%sseconds_shared," : "%sseconds,", at);
  atvi_text_number(t, m->fit.seconds);
  atvi_text_add(t, "\n");
  atvi_fields_lines(t, at, &atvi_headline_fields, &m->fit,
                    "evaluations khat rhat ess log_map log_evidence log_evidence_se");
  csv_columns(t, m);
  csv_scores(t, m, "fitted", m->fitted);
  csv_scores(t, m, "held_out", m->held);
}

atvi_status atvi_compare_csv(atvi_pool *pool, const atvi_comparison *c, const char **text) {
  atvi_text t = {.pool = pool};
  atvi_text_add(&t, "method,kind,name,statistic,value\n");
  for (atvi_idx i = 0; i < c->n; i++) csv_method(&t, c, &c->of[i]);
  t.failed = t.failed || atvi_pool_failed(pool);
  return atvi_text_get(&t, text);
}

/* ---- JSON ---- */

static void put_columns(atvi_json *w, const char *key, const atvi_compared *m, atvi_idx from, atvi_idx to) {
  atvi_json_list(w, key);
  for (atvi_idx j = from; j < to; j++) {
    far x = far_of(m, j);
    atvi_json_object(w, NULL);
    atvi_fields_json(w, &atvi_summary_column_fields, &m->summary->col[j], "name");
    atvi_fields_json(w, &atvi_summary_column_fields, &m->summary->col[j], QUANTITY);
    atvi_fields_json(w, &FAR_FIELDS, &x, NULL);
    atvi_json_end(w);
  }
  atvi_json_end(w);
}

static void put_method(atvi_json *w, const atvi_compared *m) {
  const atvi_summary *s = m->summary;
  atvi_json_object(w, NULL);
  atvi_json_put(w, "method", atvi_json_word(w->pool, m->method));
  atvi_json_put(w, "state", atvi_json_word(w->pool, m->state));
  atvi_json_put(w, "reason", atvi_json_word(w->pool, m->reason));
  /* beside compare.json: the whole may be moved */
  atvi_json_put(w, "folder", atvi_json_word(w->pool, m->method));
  if (s) {
    atvi_json_put(w, "verdict", json_string(atvi_verdict_name(s->verdict)));
    atvi_fields_json(w, &atvi_headline_fields, &m->fit, NULL);
    put_columns(w, "parameters", m, 0, s->n_param);
    put_columns(w, "derived", m, s->n_param, s->n_col);
    atvi_scores_put(w, "fitted", m->n_series, m->fitted, m->fitted ? &m->fitted[m->n_series] : NULL);
    atvi_scores_put(w, "held_out", m->n_series, m->held, m->held ? &m->held[m->n_series] : NULL);
    atvi_json_put(w, "unscored", atvi_json_word(w->pool, m->unscored));
  }
  atvi_json_end(w);
}

atvi_status atvi_compare_json(atvi_pool *pool, const atvi_comparison *c, const char **text) {
  const char *reference = c->reference < 0 ? NULL : c->of[c->reference].method;
  atvi_json w = {.pool = pool};
  atvi_json_object(&w, NULL);
  atvi_json_put(&w, "version", json_string(ATVI_VERSION));
  atvi_json_put(&w, "model", atvi_json_word(pool, c->model));
  atvi_json_put(&w, "seed", atvi_json_seed(pool, c->seed));
  atvi_json_put(&w, "holdout", atvi_json_word(pool, c->holdout));
  atvi_json_put(&w, "times_shared", json_boolean(c->shared));
  atvi_json_put(&w, "reference", atvi_json_word(pool, reference));
  atvi_json_put(&w, "reference_because", atvi_json_word(pool, reference ? c->because : NULL));
  atvi_json_list(&w, "methods");
  for (atvi_idx i = 0; i < c->n; i++) put_method(&w, &c->of[i]);
  atvi_json_end(&w);
  return atvi_json_get(&w, "compare", text);
}
