/* SPDX-License-Identifier: MIT */
/* The info file that posteriordb keeps beside draws: how they were made, and their diagnostics, quantity by quantity. */
#include "app/export.h"
#include "io/arrays.h"
#include "io/json.h"
#include <math.h>
#include <stddef.h>
#include <string.h>

static const double RHAT_MOST = 1.01, EBFMI_LEAST = 0.2;
enum { DRAWS_DUE = 10000, CHAINS_DUE = 4 }; /* of a reference posterior there */

/* One number of each quantity's summary. */
static json_t *numbers(const atvi_summary *s, size_t offset) {
  json_t *out = json_array();
  bool ok = out != NULL;
  for (atvi_idx j = 0; j < s->n_col; j++) {
    double x;
    memcpy(&x, (const char *)&s->col[j] + offset, sizeof x);
    ok = json_array_append_new(out, atvi_json_real(x)) == 0 && ok;
  }
  return atvi_json_done(out, ok);
}

static json_t *names(atvi_pool *pool, const atvi_summary *s) {
  json_t *list = json_array(), *out = json_object();
  bool ok = list != NULL;
  for (atvi_idx j = 0; j < s->n_col; j++)
    ok = json_array_append_new(list, atvi_json_word(pool, atvi_array_bracket(pool, s->col[j].name))) == 0 &&
         ok;
  ok = atvi_json_set(out, "names", atvi_json_done(list, ok)) && ok;
  return atvi_json_done(out, ok);
}

static json_t *diagnostics(atvi_pool *pool, const atvi_draws *d, const atvi_summary *s) {
  const atvi_made *m = &s->made;
  json_t *o = json_object();
  bool ok = o != NULL;
  ok = atvi_json_set(o, "diagnostic_information", names(pool, s)) && ok;
  ok = atvi_json_set(o, "ndraws", json_integer(d->n)) && ok;
  ok = atvi_json_set(o, "nchains", json_integer(d->n_chain)) && ok;
  ok = atvi_json_set(o, "effective_sample_size_bulk", numbers(s, offsetof(atvi_summary_column, ess_bulk))) &&
       ok;
  ok = atvi_json_set(o, "effective_sample_size_tail", numbers(s, offsetof(atvi_summary_column, ess_tail))) &&
       ok;
  ok = atvi_json_set(o, "r_hat", numbers(s, offsetof(atvi_summary_column, rhat))) && ok;
  ok = atvi_json_set(o, "divergent_transitions", atvi_json_real(m->divergences)) && ok;
  ok = atvi_json_set(o, "expected_fraction_of_missing_information", atvi_json_real(m->ebfmi)) && ok;
  ok = atvi_json_set(o, "pareto_khat", atvi_json_real(m->khat)) && ok;
  ok = atvi_json_set(o, "elbo", atvi_json_real(m->elbo)) && ok;
  ok = atvi_json_set(o, "log_evidence", atvi_json_real(m->log_evidence)) && ok;
  ok = atvi_json_set(o, "log_evidence_se", atvi_json_real(m->log_evidence_se)) && ok;
  return atvi_json_done(o, ok);
}

static json_t *known(bool is, bool good) { return is ? json_boolean(good) : json_null(); }

static json_t *checks(const atvi_draws *d, const atvi_summary *s) {
  json_t *o = json_object();
  double rhat = 0;
  bool ok = o != NULL;
  for (atvi_idx j = 0; j < s->n_param; j++) rhat = fmax(rhat, s->col[j].rhat); /* fmax passes over NaN */
  ok = atvi_json_set(o, "ndraws_is_10k", json_boolean(d->n == DRAWS_DUE)) && ok;
  ok = atvi_json_set(o, "nchains_is_gte_4", json_boolean(d->n_chain >= CHAINS_DUE)) && ok;
  ok = atvi_json_set(o, "r_hat_below_1_01", known(rhat > 0, rhat < RHAT_MOST)) && ok;
  ok = atvi_json_set(o, "efmi_above_0_2", known(!isnan(s->made.ebfmi), s->made.ebfmi > EBFMI_LEAST)) && ok;
  ok = atvi_json_set(o, "verdict_is_ok", json_boolean(s->verdict == ATVI_VERDICT_OK)) && ok;
  return atvi_json_done(o, ok);
}

static json_t *comments(atvi_pool *pool, const atvi_summary *s) {
  json_t *out = json_array();
  bool ok = out != NULL;
  for (atvi_idx i = 0; i < s->n_message; i++)
    ok = json_array_append_new(out, atvi_json_word(pool, s->message[i].text)) == 0 && ok;
  return atvi_json_done(out, ok);
}

static json_t *inference(atvi_pool *pool, const atvi_made *m) {
  json_t *o = json_object(), *how = json_object();
  bool ok = atvi_json_set(how, "seed", atvi_json_seed(pool, m->seed));
  ok = atvi_json_set(o, "method", atvi_json_word(pool, m->method)) && ok;
  ok = atvi_json_set(o, "method_arguments", how) && ok;
  return atvi_json_done(o, ok);
}

atvi_status atvi_export_info(atvi_pool *pool, const atvi_draws *d, const atvi_summary *s, const char **text) {
  json_t *o = json_object(), *versions = json_object();
  bool ok = atvi_json_set(versions, "atvi_version", json_string(ATVI_VERSION));
  ok = atvi_json_set(o, "name", atvi_json_word(pool, s->made.model)) && ok;
  ok = atvi_json_set(o, "inference", inference(pool, &s->made)) && ok;
  ok = atvi_json_set(o, "diagnostics", diagnostics(pool, d, s)) && ok;
  ok = atvi_json_set(o, "checks", checks(d, s)) && ok;
  ok = atvi_json_set(o, "comments", comments(pool, s)) && ok;
  ok = atvi_json_set(o, "versions", versions) && ok;
  return atvi_json_text(pool, atvi_json_done(o, ok), "info", text);
}
