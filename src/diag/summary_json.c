/* SPDX-License-Identifier: MIT */
#include "diag/summary.h"
#include "io/draws_config.h"
#include "math/stat/psis.h"
#include <math.h>
#include <stddef.h>

#define COLUMN(kind, name) ATVI_FIELD(kind, atvi_summary_column, name)
static const atvi_field COLUMNS[] = {
    COLUMN(WORD, name),          COLUMN(REAL, mean),         COLUMN(REAL, sd),
    COLUMN(REAL, mode),          COLUMN(REAL, median),       COLUMN(PAIR, hpd95),
    COLUMN(REAL, ess_bulk),      COLUMN(REAL, ess_tail),     COLUMN(REAL, rhat),
    COLUMN(REAL, mcse),          COLUMN(REAL, near_lower),   COLUMN(REAL, near_upper),
    COLUMN(FLAG, reaches_lower), COLUMN(FLAG, reaches_upper)};
const atvi_fields atvi_summary_column_fields = ATVI_FIELDS(COLUMNS);

#define NUMBER(kind, name) ATVI_FIELD(kind, atvi_headline, name)
static const atvi_field HEADLINE[] = {NUMBER(REAL, seconds),      NUMBER(COUNT, evaluations),
                                      NUMBER(REAL, khat),         NUMBER(REAL, rhat),
                                      NUMBER(REAL, ess),          NUMBER(REAL, log_map),
                                      NUMBER(REAL, log_evidence), NUMBER(REAL, log_evidence_se)};
const atvi_fields atvi_headline_fields = ATVI_FIELDS(HEADLINE);

atvi_headline atvi_summary_headline(const atvi_summary *s) {
  const atvi_made *m = &s->made;
  atvi_headline h = {m->seconds, m->evaluations, m->khat,         NAN,
                     NAN,        s->log_map,     m->log_evidence, m->log_evidence_se};
  for (atvi_idx i = 0; i < s->n_param; i++) {
    h.rhat = fmax(h.rhat, s->col[i].rhat);
    h.ess = fmin(h.ess, fmin(s->col[i].ess_bulk, s->col[i].ess_tail));
  }
  return h;
}

static void put_columns(atvi_json *w, const char *key, const atvi_summary *s, atvi_idx from, atvi_idx to) {
  static const char *const percent[ATVI_SUMMARY_QUANTILES] = {"2.5", "25", "50", "75", "97.5"};
  atvi_json_list(w, key);
  for (const atvi_summary_column *c = s->col + from; c < s->col + to; c++) {
    atvi_json_object(w, NULL);
    atvi_fields_json(w, &atvi_summary_column_fields, c, "name mean sd mode median hpd95");
    atvi_json_object(w, "quantiles");
    for (int k = 0; k < ATVI_SUMMARY_QUANTILES; k++)
      atvi_json_put(w, percent[k], atvi_json_real(c->quantile[k]));
    atvi_json_end(w);
    atvi_fields_json(w, &atvi_summary_column_fields, c,
                     "ess_bulk ess_tail rhat mcse near_lower near_upper reaches_lower reaches_upper");
    atvi_json_end(w);
  }
  atvi_json_end(w);
}

static const char *text_of(const atvi_message *m) { return m->text; }
static const char *code_of(const atvi_message *m) { return atvi_code_name(m->code); }
static const char *severity_of(const atvi_message *m) { return atvi_severity_name(m->severity); }

/* One thing about every message. */
static void put_messages(atvi_json *w, const char *key, const atvi_summary *s,
                         const char *(*what)(const atvi_message *)) {
  atvi_json_list(w, key);
  for (atvi_idx i = 0; i < s->n_message; i++)
    atvi_json_put(w, NULL, atvi_json_word(w->pool, what(&s->message[i])));
  atvi_json_end(w);
}

static void put_evidence(atvi_json *w, const atvi_made *m) {
  if (isnan(m->log_evidence)) {
    atvi_json_put(w, "log_evidence", json_null());
    return;
  }
  atvi_json_object(w, "log_evidence");
  atvi_json_put(w, "value", atvi_json_real(m->log_evidence));
  atvi_json_put(w, "se", atvi_json_real(m->log_evidence_se));
  atvi_json_end(w);
}

atvi_status atvi_summary_json(atvi_pool *pool, const atvi_summary *s, const char **text) {
  const atvi_made *m = &s->made;
  atvi_json w = {.pool = pool};
  atvi_json_object(&w, NULL);
  atvi_fields_json(&w, &atvi_made_fields, m, "method model seed seconds evaluations failures");
  atvi_json_put(&w, "log_map", atvi_json_real(s->log_map));
  put_evidence(&w, m);
  atvi_fields_json(&w, &atvi_made_fields, m, "elbo khat");
  atvi_json_put(&w, "khat_threshold", atvi_json_real(isnan(m->khat) ? NAN : atvi_psis_threshold(s->n)));
  atvi_fields_json(&w, &atvi_made_fields, m, "excess lost");
  atvi_json_put(&w, "weighted", json_boolean(s->weighted));
  atvi_json_put(&w, "ess", atvi_json_real(s->chains ? NAN : s->ess));
  atvi_fields_json(
      &w, &atvi_made_fields, m,
      "efficiency modes outside rungs steps divergences ebfmi tree_depth max_depth_hits exact tuned");
  atvi_json_put(&w, "verdict", json_string(atvi_verdict_name(s->verdict)));
  put_messages(&w, "messages", s, text_of);
  put_messages(&w, "message_codes", s, code_of);
  put_messages(&w, "message_severities", s, severity_of);
  put_columns(&w, "parameters", s, 0, s->n_param);
  put_columns(&w, "derived", s, s->n_param, s->n_col);
  return atvi_json_get(&w, "summary", text);
}
