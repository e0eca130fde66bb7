/* SPDX-License-Identifier: MIT */
#include "diag/summary.h"
#include "math/stat/psis.h"
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <string.h>

/* Digits of reals: far beyond the Monte Carlo error, and 0.1 stays 0.1. */
enum { DIGITS = 12 };

static json_t *real(double x) { return isfinite(x) ? json_real(x) : json_null(); }

/* Titles come from the user's file and may be in any encoding; JSON takes UTF-8 alone. */
static json_t *string(atvi_pool *pool, const char *s) {
  json_t *out = json_string(s);
  if (out) return out;
  char *copy = atvi_pool_strndup(pool, s, strlen(s));
  for (char *p = copy; p && *p; p++)
    if ((unsigned char)*p >= 128) *p = '?';
  return copy ? json_string(copy) : NULL;
}

/* Integers of JSON readers are signed at best: a larger seed is a string. */
static json_t *seed(atvi_pool *pool, uint64_t x) {
  if (x <= INT64_MAX) return json_integer((json_int_t)x);
  const char *text = atvi_pool_printf(pool, "%" PRIu64, x);
  return text ? json_string(text) : NULL;
}

/* Takes value over; false if anything was NULL, which is how jansson tells of missing memory. */
static bool set(json_t *object, const char *key, json_t *value) {
  return json_object_set_new(object, key, value) == 0;
}

static json_t *pair(double a, double b) {
  json_t *out = json_array();
  bool ok = json_array_append_new(out, real(a)) == 0;
  ok = json_array_append_new(out, real(b)) == 0 && ok;
  if (ok) return out;
  json_decref(out);
  return NULL;
}

static json_t *quantiles(const double q[ATVI_SUMMARY_QUANTILES]) {
  static const char *const key[ATVI_SUMMARY_QUANTILES] = {"2.5", "25", "50", "75", "97.5"};
  json_t *out = json_object();
  bool ok = out != NULL;
  for (int k = 0; k < ATVI_SUMMARY_QUANTILES; k++) ok = set(out, key[k], real(q[k])) && ok;
  if (ok) return out;
  json_decref(out);
  return NULL;
}

static json_t *column(atvi_pool *pool, const atvi_summary_column *c) {
  json_t *o = json_object();
  bool ok = o != NULL;
  ok = set(o, "name", string(pool, c->name)) && ok;
  ok = set(o, "mean", real(c->mean)) && ok;
  ok = set(o, "sd", real(c->sd)) && ok;
  ok = set(o, "mode", real(c->mode)) && ok;
  ok = set(o, "median", real(c->median)) && ok;
  ok = set(o, "hpd95", pair(c->hpd95[0], c->hpd95[1])) && ok;
  ok = set(o, "quantiles", quantiles(c->quantile)) && ok;
  ok = set(o, "ess_bulk", real(c->ess_bulk)) && ok;
  ok = set(o, "ess_tail", real(c->ess_tail)) && ok;
  ok = set(o, "rhat", real(c->rhat)) && ok;
  ok = set(o, "mcse", real(c->mcse)) && ok;
  ok = set(o, "near_lower", real(c->near_lower)) && ok;
  ok = set(o, "near_upper", real(c->near_upper)) && ok;
  ok = set(o, "reaches_lower", json_boolean(c->reaches_lower)) && ok;
  ok = set(o, "reaches_upper", json_boolean(c->reaches_upper)) && ok;
  if (ok) return o;
  json_decref(o);
  return NULL;
}

static json_t *columns(atvi_pool *pool, const atvi_summary *s, atvi_idx from, atvi_idx to) {
  json_t *out = json_array();
  bool ok = out != NULL;
  for (atvi_idx k = from; k < to; k++) ok = json_array_append_new(out, column(pool, &s->col[k])) == 0 && ok;
  if (ok) return out;
  json_decref(out);
  return NULL;
}

static json_t *messages(atvi_pool *pool, const atvi_summary *s) {
  json_t *out = json_array();
  bool ok = out != NULL;
  for (atvi_idx i = 0; i < s->n_message; i++)
    ok = json_array_append_new(out, string(pool, s->message[i])) == 0 && ok;
  if (ok) return out;
  json_decref(out);
  return NULL;
}

static json_t *evidence(const atvi_made *m) {
  if (isnan(m->log_evidence)) return json_null();
  json_t *o = json_object();
  bool ok = o != NULL;
  ok = set(o, "value", real(m->log_evidence)) && ok;
  ok = set(o, "se", real(m->log_evidence_se)) && ok;
  if (ok) return o;
  json_decref(o);
  return NULL;
}

/* Counts are doubles where they may be unknown. */
static json_t *count(double x) { return isfinite(x) ? json_integer((json_int_t)x) : json_null(); }

/* Numbers that a method may or may not know. */
static bool set_made(json_t *o, const atvi_summary *s) {
  const atvi_made *m = &s->made;
  bool ok = set(o, "elbo", real(m->elbo));
  ok = set(o, "khat", real(m->khat)) && ok;
  ok = set(o, "khat_threshold", real(isnan(m->khat) ? NAN : atvi_psis_threshold(s->n))) && ok;
  ok = set(o, "excess", real(m->excess)) && ok;
  ok = set(o, "lost", real(m->lost)) && ok;
  ok = set(o, "weighted", json_boolean(s->weighted)) && ok;
  ok = set(o, "ess", real(s->chains ? NAN : s->ess)) && ok;
  ok = set(o, "efficiency", real(m->efficiency)) && ok;
  ok = set(o, "modes", count(m->modes)) && ok;
  ok = set(o, "outside", real(m->outside)) && ok;
  ok = set(o, "rungs", count(m->rungs)) && ok;
  ok = set(o, "steps", count(m->steps)) && ok;
  ok = set(o, "divergences", count(m->divergences)) && ok;
  ok = set(o, "ebfmi", real(m->ebfmi)) && ok;
  ok = set(o, "tree_depth", real(m->tree_depth)) && ok;
  ok = set(o, "max_depth_hits", count(m->max_depth_hits)) && ok;
  ok = set(o, "exact", json_boolean(m->exact > 0)) && ok;
  ok = set(o, "tuned", isnan(m->tuned) ? json_null() : json_boolean(m->tuned > 0)) && ok;
  return ok;
}

static json_t *whole(atvi_pool *pool, const atvi_summary *s) {
  const atvi_made *m = &s->made;
  json_t *o = json_object();
  bool ok = o != NULL;
  ok = set(o, "method", string(pool, m->method)) && ok;
  ok = set(o, "model", string(pool, m->model)) && ok;
  ok = set(o, "seed", seed(pool, m->seed)) && ok;
  ok = set(o, "seconds", real(m->seconds)) && ok;
  ok = set(o, "evaluations", json_integer(m->evaluations)) && ok;
  ok = set(o, "failures", json_integer(m->failures)) && ok;
  ok = set(o, "log_map", real(s->log_map)) && ok;
  ok = set(o, "log_evidence", evidence(m)) && ok;
  ok = set_made(o, s) && ok;
  ok = set(o, "verdict", string(pool, atvi_verdict_name(s->verdict))) && ok;
  ok = set(o, "messages", messages(pool, s)) && ok;
  ok = set(o, "parameters", columns(pool, s, 0, s->n_param)) && ok;
  ok = set(o, "derived", columns(pool, s, s->n_param, s->n_col)) && ok;
  if (ok) return o;
  json_decref(o);
  return NULL;
}

atvi_status atvi_summary_json(atvi_pool *pool, const atvi_summary *s, const char **text) {
  const size_t flags = JSON_INDENT(2) | JSON_REAL_PRECISION(DIGITS);
  *text = NULL;
  json_t *o = whole(pool, s);
  size_t n = o ? json_dumpb(o, NULL, 0, flags) : 0;
  char *out = n ? atvi_pool_take(pool, n + 2, 1) : NULL;
  if (out && json_dumpb(o, out, n, flags) == n) {
    out[n] = '\n';
    *text = out;
  }
  json_decref(o);
  return *text ? ATVI_OK : ATVI_FAIL(atvi_pool_ctx(pool), ATVI_ENOMEM, "summary: out of memory");
}
