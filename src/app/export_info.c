/* SPDX-License-Identifier: MIT */
/* The info file that posteriordb keeps beside draws: how they were made, and their diagnostics, quantity by quantity. */
#include "app/export.h"
#include "io/arrays.h"
#include "io/draws_file.h"
#include <math.h>

static const double RHAT_MOST = 1.01, EBFMI_LEAST = 0.2;
enum { DRAWS_DUE = 10000, CHAINS_DUE = 4 }; /* of a reference posterior there */

/* One number of each quantity's summary. */
static void put_numbers(atvi_json *w, const char *key, const atvi_summary *s, const char *field) {
  const atvi_field *f = atvi_fields_find(&atvi_summary_column_fields, field);
  atvi_json_list(w, key);
  for (atvi_idx j = 0; j < s->n_col; j++)
    atvi_json_put(w, NULL, atvi_json_real(atvi_field_number(f, &s->col[j])));
  atvi_json_end(w);
}

static void put_diagnostics(atvi_json *w, const atvi_draws *d, const atvi_summary *s) {
  const atvi_made *m = &s->made;
  atvi_json_object(w, "diagnostics");
  atvi_json_object(w, "diagnostic_information");
  atvi_json_list(w, "names");
  for (atvi_idx j = 0; j < s->n_col; j++)
    atvi_json_put(w, NULL, atvi_json_word(w->pool, atvi_array_bracket(w->pool, s->col[j].name)));
  atvi_json_end(w);
  atvi_json_end(w);
  atvi_json_put(w, "ndraws", json_integer(d->n));
  atvi_json_put(w, "nchains", json_integer(d->n_chain));
  put_numbers(w, "effective_sample_size_bulk", s, "ess_bulk");
  put_numbers(w, "effective_sample_size_tail", s, "ess_tail");
  put_numbers(w, "r_hat", s, "rhat");
  atvi_json_put(w, "divergent_transitions", atvi_json_real(m->divergences));
  atvi_json_put(w, "expected_fraction_of_missing_information", atvi_json_real(m->ebfmi));
  atvi_json_put(w, "pareto_khat", atvi_json_real(m->khat));
  atvi_fields_json(w, &atvi_made_fields, m, "elbo log_evidence log_evidence_se");
  atvi_json_end(w);
}

static json_t *known(bool is, bool good) { return is ? json_boolean(good) : json_null(); }

static void put_checks(atvi_json *w, const atvi_draws *d, const atvi_summary *s) {
  double rhat = atvi_summary_headline(s).rhat;
  atvi_json_object(w, "checks");
  atvi_json_put(w, "ndraws_is_10k", json_boolean(d->n == DRAWS_DUE));
  atvi_json_put(w, "nchains_is_gte_4", json_boolean(d->n_chain >= CHAINS_DUE));
  atvi_json_put(w, "r_hat_below_1_01", known(rhat > 0, rhat < RHAT_MOST));
  atvi_json_put(w, "efmi_above_0_2", known(!isnan(s->made.ebfmi), s->made.ebfmi > EBFMI_LEAST));
  atvi_json_put(w, "verdict_is_ok", json_boolean(s->verdict == ATVI_VERDICT_OK));
  atvi_json_end(w);
}

atvi_status atvi_export_info(atvi_pool *pool, const atvi_draws *d, const atvi_summary *s, const char **text) {
  atvi_json w = {.pool = pool};
  atvi_json_object(&w, NULL);
  atvi_json_put(&w, "name", atvi_json_word(pool, s->made.model));
  atvi_json_object(&w, "inference");
  atvi_fields_json(&w, &atvi_made_fields, &s->made, "method");
  atvi_json_object(&w, "method_arguments");
  atvi_fields_json(&w, &atvi_made_fields, &s->made, "seed");
  atvi_json_end(&w);
  atvi_json_end(&w);
  put_diagnostics(&w, d, s);
  put_checks(&w, d, s);
  atvi_json_list(&w, "comments");
  for (atvi_idx i = 0; i < s->n_message; i++)
    atvi_json_put(&w, NULL, atvi_json_word(pool, s->message[i].text));
  atvi_json_end(&w);
  atvi_json_object(&w, "versions");
  atvi_json_put(&w, "atvi_version", json_string(ATVI_VERSION));
  atvi_json_end(&w);
  return atvi_json_get(&w, "info", text);
}
