/* SPDX-License-Identifier: MIT */
#include "diag/summary.h"
#include "io/json.h"
#include "math/stat/psis.h"
#include <math.h>
#include <string.h>

static json_t *quantiles(const double q[ATVI_SUMMARY_QUANTILES]) {
  static const char *const key[ATVI_SUMMARY_QUANTILES] = {"2.5", "25", "50", "75", "97.5"};
  json_t *out = json_object();
  bool ok = out != NULL;
  for (int k = 0; k < ATVI_SUMMARY_QUANTILES; k++)
    ok = atvi_json_set(out, key[k], atvi_json_real(q[k])) && ok;
  return atvi_json_done(out, ok);
}

static json_t *column(atvi_pool *pool, const atvi_summary_column *c) {
  json_t *o = json_object();
  bool ok = o != NULL;
  ok = atvi_json_set(o, "name", atvi_json_word(pool, c->name)) && ok;
  ok = atvi_json_set(o, "mean", atvi_json_real(c->mean)) && ok;
  ok = atvi_json_set(o, "sd", atvi_json_real(c->sd)) && ok;
  ok = atvi_json_set(o, "mode", atvi_json_real(c->mode)) && ok;
  ok = atvi_json_set(o, "median", atvi_json_real(c->median)) && ok;
  ok = atvi_json_set(o, "hpd95", atvi_json_pair(c->hpd95[0], c->hpd95[1])) && ok;
  ok = atvi_json_set(o, "quantiles", quantiles(c->quantile)) && ok;
  ok = atvi_json_set(o, "ess_bulk", atvi_json_real(c->ess_bulk)) && ok;
  ok = atvi_json_set(o, "ess_tail", atvi_json_real(c->ess_tail)) && ok;
  ok = atvi_json_set(o, "rhat", atvi_json_real(c->rhat)) && ok;
  ok = atvi_json_set(o, "mcse", atvi_json_real(c->mcse)) && ok;
  ok = atvi_json_set(o, "near_lower", atvi_json_real(c->near_lower)) && ok;
  ok = atvi_json_set(o, "near_upper", atvi_json_real(c->near_upper)) && ok;
  ok = atvi_json_set(o, "reaches_lower", json_boolean(c->reaches_lower)) && ok;
  ok = atvi_json_set(o, "reaches_upper", json_boolean(c->reaches_upper)) && ok;
  return atvi_json_done(o, ok);
}

static json_t *columns(atvi_pool *pool, const atvi_summary *s, atvi_idx from, atvi_idx to) {
  json_t *out = json_array();
  bool ok = out != NULL;
  for (atvi_idx k = from; k < to; k++) ok = json_array_append_new(out, column(pool, &s->col[k])) == 0 && ok;
  return atvi_json_done(out, ok);
}

static const char *text_of(const atvi_message *m) { return m->text; }
static const char *code_of(const atvi_message *m) { return atvi_code_name(m->code); }
static const char *severity_of(const atvi_message *m) { return atvi_severity_name(m->severity); }

/* One thing about every message. */
static json_t *messages(atvi_pool *pool, const atvi_summary *s, const char *(*what)(const atvi_message *)) {
  json_t *out = json_array();
  bool ok = out != NULL;
  for (atvi_idx i = 0; i < s->n_message; i++)
    ok = json_array_append_new(out, atvi_json_word(pool, what(&s->message[i]))) == 0 && ok;
  return atvi_json_done(out, ok);
}

static json_t *evidence(const atvi_made *m) {
  if (isnan(m->log_evidence)) return json_null();
  json_t *o = json_object();
  bool ok = o != NULL;
  ok = atvi_json_set(o, "value", atvi_json_real(m->log_evidence)) && ok;
  ok = atvi_json_set(o, "se", atvi_json_real(m->log_evidence_se)) && ok;
  return atvi_json_done(o, ok);
}

/* Counts are doubles where they may be unknown. */
static json_t *count(double x) { return isfinite(x) ? json_integer((json_int_t)x) : json_null(); }

/* Numbers that a method may or may not know. */
static bool set_made(json_t *o, const atvi_summary *s) {
  const atvi_made *m = &s->made;
  bool ok = atvi_json_set(o, "elbo", atvi_json_real(m->elbo));
  ok = atvi_json_set(o, "khat", atvi_json_real(m->khat)) && ok;
  ok = atvi_json_set(o, "khat_threshold", atvi_json_real(isnan(m->khat) ? NAN : atvi_psis_threshold(s->n))) &&
       ok;
  ok = atvi_json_set(o, "excess", atvi_json_real(m->excess)) && ok;
  ok = atvi_json_set(o, "lost", atvi_json_real(m->lost)) && ok;
  ok = atvi_json_set(o, "weighted", json_boolean(s->weighted)) && ok;
  ok = atvi_json_set(o, "ess", atvi_json_real(s->chains ? NAN : s->ess)) && ok;
  ok = atvi_json_set(o, "efficiency", atvi_json_real(m->efficiency)) && ok;
  ok = atvi_json_set(o, "modes", count(m->modes)) && ok;
  ok = atvi_json_set(o, "outside", atvi_json_real(m->outside)) && ok;
  ok = atvi_json_set(o, "rungs", count(m->rungs)) && ok;
  ok = atvi_json_set(o, "steps", count(m->steps)) && ok;
  ok = atvi_json_set(o, "divergences", count(m->divergences)) && ok;
  ok = atvi_json_set(o, "ebfmi", atvi_json_real(m->ebfmi)) && ok;
  ok = atvi_json_set(o, "tree_depth", atvi_json_real(m->tree_depth)) && ok;
  ok = atvi_json_set(o, "max_depth_hits", count(m->max_depth_hits)) && ok;
  ok = atvi_json_set(o, "exact", json_boolean(m->exact > 0)) && ok;
  ok = atvi_json_set(o, "tuned", isnan(m->tuned) ? json_null() : json_boolean(m->tuned > 0)) && ok;
  return ok;
}

static json_t *whole(atvi_pool *pool, const atvi_summary *s) {
  const atvi_made *m = &s->made;
  json_t *o = json_object();
  bool ok = o != NULL;
  ok = atvi_json_set(o, "method", atvi_json_word(pool, m->method)) && ok;
  ok = atvi_json_set(o, "model", atvi_json_word(pool, m->model)) && ok;
  ok = atvi_json_set(o, "seed", atvi_json_seed(pool, m->seed)) && ok;
  ok = atvi_json_set(o, "seconds", atvi_json_real(m->seconds)) && ok;
  ok = atvi_json_set(o, "evaluations", json_integer(m->evaluations)) && ok;
  ok = atvi_json_set(o, "failures", json_integer(m->failures)) && ok;
  ok = atvi_json_set(o, "log_map", atvi_json_real(s->log_map)) && ok;
  ok = atvi_json_set(o, "log_evidence", evidence(m)) && ok;
  ok = set_made(o, s) && ok;
  ok = atvi_json_set(o, "verdict", atvi_json_word(pool, atvi_verdict_name(s->verdict))) && ok;
  ok = atvi_json_set(o, "messages", messages(pool, s, text_of)) && ok;
  ok = atvi_json_set(o, "message_codes", messages(pool, s, code_of)) && ok;
  ok = atvi_json_set(o, "message_severities", messages(pool, s, severity_of)) && ok;
  ok = atvi_json_set(o, "parameters", columns(pool, s, 0, s->n_param)) && ok;
  ok = atvi_json_set(o, "derived", columns(pool, s, s->n_param, s->n_col)) && ok;
  return atvi_json_done(o, ok);
}

atvi_status atvi_summary_json(atvi_pool *pool, const atvi_summary *s, const char **text) {
  return atvi_json_text(pool, whole(pool, s), "summary", text);
}
