/* SPDX-License-Identifier: MIT */
/* The comparison of fits for a terminal, as compare.csv and as compare.json. */
#include "app/compare.h"
#include <math.h>
#include <string.h>

enum { NAME_LEAST = 12, NAME_MOST = 32, QUANTITIES_SHOWN = 40 };

#define TEXT(key, member) ATVI_FIELD_AS(key, WORD, atvi_candidate, member)
#define FIXED(key, member, heading, width, digits)                                                           \
  ATVI_FIELD_SHOWN(key, REAL, atvi_candidate, member, heading, width, FIXED, digits)
static const atvi_field CANDIDATE[] = {
    TEXT("fit", name),
    TEXT("folder", dir),
    TEXT("model", model),
    TEXT("method", method),
    TEXT("holdout", holdout),
    TEXT("verdict", verdict),
    TEXT("reason", reason),
    ATVI_FIELD_AS("observations", COUNT, atvi_candidate, n_value),
    FIXED("log_evidence", log_evidence, "log evidence", 14, 2),
    ATVI_FIELD_SHOWN("log_evidence_se", REAL, atvi_candidate, log_evidence_se, "+-", 9, GENERAL, 2),
    FIXED("log_evidence_difference", log_evidence_difference, "difference", 12, 2),
    ATVI_FIELD_SHOWN("log_evidence_difference_se", REAL, atvi_candidate, log_evidence_difference_se, "+-", 9,
                     GENERAL, 2),
    FIXED("probability", probability, "probability", 13, 3),
    ATVI_FIELD_AS("log_evidence_doubtful", FLAG, atvi_candidate, doubtful),
    FIXED("elpd_loo", elpd_loo, "elpd", 10, 2),
    FIXED("elpd_loo_se", elpd_loo_se, "+-", 8, 2),
    FIXED("elpd_difference", elpd_difference, "difference", 12, 2),
    FIXED("elpd_difference_se", elpd_difference_se, "+-", 8, 2),
    FIXED("p_loo", p_loo, "p", 8, 2),
    ATVI_FIELD_SHOWN("khat_above", WHOLE, atvi_candidate, khat_above, "bad k", 7, FIXED, 0),
    FIXED("stacking_weight", weight, "weight", 9, 3),
};
const atvi_fields atvi_app_candidate_fields = ATVI_FIELDS(CANDIDATE);

#define SHARED_NUMBER(key, member, heading, width)                                                           \
  ATVI_FIELD_SHOWN(key, REAL, atvi_shared_value, member, heading, width, SIZE, 0)
static const atvi_field SHARED[] = {
    ATVI_FIELD(WORD, atvi_shared_value, fit),
    SHARED_NUMBER("mean", mean, "mean", 12),
    SHARED_NUMBER("sd", sd, "sd", 12),
    ATVI_FIELD(PAIR, atvi_shared_value, hpd95),
    SHARED_NUMBER("low", hpd95[0], "95 % from", 12), /* for the terminal, which shows a pair in one column */
    SHARED_NUMBER("high", hpd95[1], "to", 12),
    ATVI_FIELD_SHOWN("difference", REAL, atvi_shared_value, difference, "in sds", 9, FIXED, 2),
};
const atvi_fields atvi_app_shared_fields = ATVI_FIELDS(SHARED);

static const char
    EVIDENCE[] =
        "log_evidence log_evidence_se log_evidence_difference log_evidence_difference_se probability",
    LOO[] = "elpd_loo elpd_loo_se elpd_difference elpd_difference_se p_loo khat_above stacking_weight",
    QUANTITY[] = "mean sd hpd95 difference", QUANTITY_SHOWN[] = "mean sd low high difference";

/* ---- terminal ---- */

static int name_width(const atvi_candidates *c) {
  int width = NAME_LEAST;
  for (atvi_idx k = 0; k < c->n; k++)
    if ((int)strlen(c->of[k].name) > width) width = (int)strlen(c->of[k].name);
  return width < NAME_MOST ? width : NAME_MOST;
}

/* The difference of the best to itself is not shown. */
static atvi_candidate shown(const atvi_candidates *c, atvi_idx k) {
  atvi_candidate m = c->of[k];
  if (k == c->best_evidence) m.log_evidence_difference = m.log_evidence_difference_se = NAN;
  if (k == c->best_loo) m.elpd_difference = m.elpd_difference_se = NAN;
  return m;
}

/* A table of the fits, if `known` is known for any. */
static void fits(atvi_text *t, const atvi_candidates *c, const char *title, const char *known,
                 const char *keys) {
  const atvi_field *f = atvi_io_fields_find(&atvi_app_candidate_fields, known);
  int width = name_width(c);
  bool some = false, doubtful = false;
  for (atvi_idx k = 0; k < c->n; k++) some = some || !isnan(atvi_io_field_number(f, &c->of[k]));
  if (!some) return;
  atvi_io_text_add(t, "\n%-*s", width, title);
  atvi_io_fields_heading(t, &atvi_app_candidate_fields, keys);
  for (atvi_idx k = 0; k < c->n; k++) {
    atvi_candidate m = shown(c, k);
    bool mark = keys == EVIDENCE && m.doubtful;
    atvi_io_text_add(t, "\n");
    atvi_io_text_label(t, width, m.name);
    atvi_io_fields_row(t, &atvi_app_candidate_fields, &m, keys, "-");
    if (mark) atvi_io_text_add(t, " *");
    doubtful = doubtful || mark;
  }
  atvi_io_text_add(t, doubtful ? "\n* from weights that cannot be trusted\n" : "\n");
}

static void verdicts(atvi_text *t, const atvi_candidates *c) {
  int width = name_width(c);
  atvi_io_text_add(t, "%-*s  %-8s  %-8s  %12s  %-s\n", width, "", "verdict", "method", "observations",
                   "model");
  for (atvi_idx k = 0; k < c->n; k++) {
    const atvi_candidate *m = &c->of[k];
    atvi_io_text_label(t, width, m->name);
    atvi_io_text_add(t, "  %-8s  %-8s  %12td  %.*s\n", m->verdict, m->method, m->n_value,
                     ATVI_TEXT_WIDTH - width - 36, m->model);
  }
}

static void quantities(atvi_text *t, const atvi_candidates *c) {
  int fit = name_width(c), name = NAME_LEAST;
  for (atvi_idx i = 0; i < c->n_shared && i < QUANTITIES_SHOWN; i++)
    if ((int)strlen(c->shared[i].name) > name) name = (int)strlen(c->shared[i].name);
  if (name > ATVI_TEXT_WIDTH - 57 - 1 - fit) name = ATVI_TEXT_WIDTH - 57 - 1 - fit;
  if (c->n_shared == 0) return;
  atvi_io_text_add(t, "\n%-*s %-*s", name, "shared", fit, "");
  atvi_io_fields_heading(t, &atvi_app_shared_fields, QUANTITY_SHOWN);
  atvi_io_text_add(t, "\n");
  for (atvi_idx i = 0; i < c->n_shared && i < QUANTITIES_SHOWN; i++)
    for (atvi_idx k = 0; k < c->shared[i].n; k++) {
      atvi_io_text_label(t, name, k == 0 ? c->shared[i].name : "");
      atvi_io_text_add(t, " ");
      atvi_io_text_label(t, fit, c->shared[i].of[k].fit);
      atvi_shared_value x = c->shared[i].of[k];
      if (fabs(x.difference) < 0.005) x.difference = 0; /* no -0.00 */
      atvi_io_fields_row(t, &atvi_app_shared_fields, &x, QUANTITY_SHOWN, "-");
      atvi_io_text_add(t, "\n");
    }
  if (c->n_shared > QUANTITIES_SHOWN)
    atvi_io_text_add(t, "%td more: compare.csv\n", c->n_shared - QUANTITIES_SHOWN);
}

atvi_status atvi_app_candidates_text(atvi_pool *pool, const atvi_candidates *c, const char **text) {
  atvi_text t = {.pool = pool};
  verdicts(&t, c);
  fits(&t, c, "LOO", "elpd_loo", LOO);
  fits(&t, c, "evidence", "log_evidence", EVIDENCE);
  quantities(&t, c);
  atvi_io_text_add(&t, "\n");
  for (atvi_idx i = 0; i < c->n_message; i++) atvi_io_text_wrap(&t, "- ", 2, c->message[i].text);
  if (c->say_loo) atvi_io_text_wrap(&t, "- ", 2, c->say_loo);
  if (c->say_evidence) atvi_io_text_wrap(&t, "- ", 2, c->say_evidence);
  if (c->n_shared > 0)
    atvi_io_text_wrap(&t, "- ", 2,
                      "in sds: the mean minus that of the first fit with the quantity, in sds of that fit.");
  return atvi_io_text_get(&t, text);
}

/* ---- CSV ---- */

static void csv_fit(atvi_text *t, const atvi_candidate *m) {
  const char *lead = atvi_app_compare_lead(t->pool, m->name, "fit", "");
  if (!lead) return;
  atvi_app_compare_word(t, m->name, "folder", m->dir);
  atvi_app_compare_word(t, m->name, "model", m->model);
  atvi_app_compare_word(t, m->name, "method", m->method);
  atvi_app_compare_word(t, m->name, "verdict", m->verdict);
  if (m->reason) atvi_app_compare_word(t, m->name, "reason", m->reason);
  atvi_io_fields_lines(t, lead, &atvi_app_candidate_fields, m, "observations");
  atvi_io_fields_lines(t, lead, &atvi_app_candidate_fields, m, EVIDENCE);
  atvi_io_fields_lines(t, lead, &atvi_app_candidate_fields, m, LOO);
}

atvi_status atvi_app_candidates_csv(atvi_pool *pool, const atvi_candidates *c, const char **text) {
  atvi_text t = {.pool = pool};
  atvi_io_text_add(&t, "fit,kind,name,statistic,value\n");
  for (atvi_idx k = 0; k < c->n; k++) csv_fit(&t, &c->of[k]);
  for (atvi_idx i = 0; i < c->n_shared; i++)
    for (atvi_idx k = 0; k < c->shared[i].n; k++) {
      const atvi_shared_value *x = &c->shared[i].of[k];
      const char *lead = atvi_app_compare_lead(pool, x->fit, c->shared[i].kind, c->shared[i].name);
      if (lead) atvi_io_fields_lines(&t, lead, &atvi_app_shared_fields, x, QUANTITY);
    }
  t.failed = t.failed || atvi_pool_failed(pool);
  return atvi_io_text_get(&t, text);
}

/* ---- JSON ---- */

static json_t *name_of(atvi_pool *pool, const atvi_candidates *c, atvi_idx k) {
  return atvi_io_json_word(pool, k < 0 ? NULL : c->of[k].name);
}

static void put_messages(atvi_json *w, const atvi_candidates *c) {
  atvi_io_json_list(w, "messages");
  for (atvi_idx i = 0; i < c->n_message; i++)
    atvi_io_json_put(w, NULL, atvi_io_json_word(w->pool, c->message[i].text));
  atvi_io_json_end(w);
  atvi_io_json_list(w, "message_codes");
  for (atvi_idx i = 0; i < c->n_message; i++)
    atvi_io_json_put(w, NULL, json_string(atvi_code_name(c->message[i].code)));
  atvi_io_json_end(w);
}

atvi_status atvi_app_candidates_json(atvi_pool *pool, const atvi_candidates *c, const char **text) {
  atvi_json w = {.pool = pool};
  atvi_io_json_object(&w, NULL);
  atvi_io_json_put(&w, "version", json_string(ATVI_VERSION));
  atvi_io_json_put(&w, "same_data", json_boolean(!c->differ));
  atvi_io_json_put(&w, "best_loo", name_of(pool, c, c->best_loo));
  atvi_io_json_put(&w, "best_evidence", name_of(pool, c, c->best_evidence));
  atvi_io_json_list(&w, "fits");
  for (atvi_idx k = 0; k < c->n; k++) {
    atvi_io_json_object(&w, NULL);
    atvi_io_fields_json(&w, &atvi_app_candidate_fields, &c->of[k], NULL);
    atvi_io_json_end(&w);
  }
  atvi_io_json_end(&w);
  atvi_io_json_list(&w, "shared");
  for (atvi_idx i = 0; i < c->n_shared; i++) {
    atvi_io_json_object(&w, NULL);
    atvi_io_json_put(&w, "name", atvi_io_json_word(pool, c->shared[i].name));
    atvi_io_json_put(&w, "kind", json_string(c->shared[i].kind));
    atvi_io_json_list(&w, "fits");
    for (atvi_idx k = 0; k < c->shared[i].n; k++) {
      atvi_io_json_object(&w, NULL);
      atvi_io_fields_json(&w, &atvi_app_shared_fields, &c->shared[i].of[k], "fit");
      atvi_io_fields_json(&w, &atvi_app_shared_fields, &c->shared[i].of[k], QUANTITY);
      atvi_io_json_end(&w);
    }
    atvi_io_json_end(&w);
    atvi_io_json_end(&w);
  }
  atvi_io_json_end(&w);
  put_messages(&w, c);
  return atvi_io_json_get(&w, "compare", text);
}
