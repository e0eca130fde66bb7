/* SPDX-License-Identifier: MIT */
/* Scores for programs (JSON) and for a terminal. */
#include "diag/score.h"
#include <math.h>
#include <string.h>

enum { NAME_MAX_SHOWN = 28, SERIES_SHOWN = 24 };

#define SCORE(name, heading) ATVI_FIELD_SHOWN(#name, REAL, atvi_score, name, heading, 11, SIZE, 0)
static const atvi_field SCORES[] = {
    ATVI_FIELD_AS("series", NAME, atvi_score, name),
    ATVI_FIELD_SHOWN("n", COUNT, atvi_score, n, "values", 7, FIXED, 0),
    ATVI_FIELD_SHOWN("coverage", REAL, atvi_score, coverage, "in 95 %", 12, PERCENT, 1),
    SCORE(ail, "AIL"),
    SCORE(mspe, "MSPE"),
    SCORE(ail_sum, "AIL/series"),
    SCORE(mspe_draws, "MSPE draws"),
    SCORE(lpd, "lpd"),
};
const atvi_fields atvi_diag_score_fields = ATVI_FIELDS(SCORES);
static const char FITTED[] = "n coverage ail mspe ail_sum mspe_draws",
                  HELD[] = "n coverage ail mspe ail_sum mspe_draws lpd";

#define LOO(kind, name, member) ATVI_FIELD_AS(name, kind, atvi_loo_sum, member)
static const atvi_field LOO_SUM[] = {
    LOO(COUNT, "n", n), LOO(REAL, "elpd", elpd),         LOO(REAL, "se", se),
    LOO(REAL, "p", p),  LOO(COUNT, "khat_above", n_bad), LOO(COUNT, "p_above", n_bad)};
static const atvi_fields LOO_FIELDS = ATVI_FIELDS(LOO_SUM);

#define WHOLE(kind, name, member) ATVI_FIELD_AS(name, kind, atvi_scores, member)
static const atvi_field WHOLES[] = {WHOLE(WORD, "model", model),         WHOLE(WORD, "method", method),
                                    WHOLE(SEED, "seed", seed),           WHOLE(WORD, "verdict", verdict),
                                    WHOLE(COUNT, "draws", n_draw),       WHOLE(REAL, "log_map", log_map),
                                    WHOLE(COUNT, "censored", n_censored)};
static const atvi_fields WHOLE_FIELDS = ATVI_FIELDS(WHOLES);

/* ---- JSON ---- */

static void put_score(atvi_json *w, const char *key, const atvi_score *s) {
  atvi_io_json_object(w, key);
  atvi_io_fields_json(w, &atvi_diag_score_fields, s, NULL);
  atvi_io_json_end(w);
}

void atvi_diag_scores_put(atvi_json *w, const char *key, atvi_idx n, const atvi_score *each,
                          const atvi_score *all) {
  if (!all) {
    atvi_io_json_put(w, key, json_null());
    return;
  }
  atvi_io_json_object(w, key);
  atvi_io_json_list(w, "series");
  for (atvi_idx i = 0; i < n; i++) put_score(w, NULL, &each[i]);
  atvi_io_json_end(w);
  put_score(w, "all", all);
  atvi_io_json_end(w);
}

static void put_units(atvi_json *w, const atvi_scores *s) {
  if (s->units.n == 0) {
    atvi_io_json_put(w, "loo_units", json_null());
    return;
  }
  atvi_io_json_object(w, "loo_units");
  atvi_io_fields_json(w, &LOO_FIELDS, &s->units, "n elpd se p");
  atvi_io_json_put(w, "khat_threshold", atvi_io_json_real(s->khat_threshold));
  atvi_io_fields_json(w, &LOO_FIELDS, &s->units, "khat_above");
  atvi_io_json_object(w, "worst");
  atvi_io_json_put(w, "unit", atvi_io_json_word(w->pool, s->worst_unit));
  atvi_io_json_put(w, "khat", atvi_io_json_real(s->worst_unit_khat));
  atvi_io_json_end(w);
  atvi_io_json_end(w);
}

static void put_validation(atvi_json *w, const atvi_scores *s) {
  if (s->loo.n == 0) {
    atvi_io_json_put(w, "loo", json_null());
    atvi_io_json_put(w, "waic", json_null());
    return;
  }
  atvi_io_json_object(w, "loo");
  atvi_io_fields_json(w, &LOO_FIELDS, &s->loo, "n elpd se p");
  atvi_io_json_put(w, "khat_threshold", atvi_io_json_real(s->khat_threshold));
  atvi_io_fields_json(w, &LOO_FIELDS, &s->loo, "khat_above");
  atvi_io_json_object(w, "worst");
  atvi_io_json_put(w, "series", atvi_io_json_word(w->pool, s->worst_name));
  atvi_io_json_put(w, "time", atvi_io_json_real(s->worst_time));
  if (s->worst_date) atvi_io_json_put(w, "date", atvi_io_json_word(w->pool, s->worst_date));
  atvi_io_json_put(w, "khat", atvi_io_json_real(s->worst_khat));
  atvi_io_json_end(w);
  atvi_io_json_end(w);
  atvi_io_json_object(w, "waic");
  atvi_io_fields_json(w, &LOO_FIELDS, &s->waic, "n elpd se p");
  atvi_io_json_put(w, "waic", atvi_io_json_real(-2 * s->waic.elpd));
  atvi_io_fields_json(w, &LOO_FIELDS, &s->waic, "p_above");
  atvi_io_json_end(w);
}

atvi_status atvi_diag_scores_json(atvi_pool *pool, const atvi_scores *s, const char **text) {
  atvi_json w = {.pool = pool};
  atvi_io_json_object(&w, NULL);
  atvi_io_fields_json(&w, &WHOLE_FIELDS, s, NULL);
  atvi_diag_scores_put(&w, "fitted", s->n_series, s->fitted, &s->fitted_all);
  atvi_io_json_put(&w, "holdout", atvi_io_json_word(pool, s->holdout));
  if (s->apart) atvi_io_json_put(&w, "apart", json_true());
  atvi_diag_scores_put(&w, "held_out", s->n_series, s->held, s->holdout ? &s->held_all : NULL);
  put_validation(&w, s);
  put_units(&w, s);
  atvi_io_json_words(&w, "messages", s->n_message, s->message);
  return atvi_io_json_get(&w, "scores", text);
}

/* ---- terminal ---- */

static void line(atvi_text *t, int width, const atvi_score *s, bool held) {
  atvi_io_text_label(t, width, s->name ? s->name : "all");
  atvi_io_fields_row(t, &atvi_diag_score_fields, s, held ? HELD : FITTED, "-");
  atvi_io_text_add(t, "\n");
}

static void block(atvi_text *t, int width, const atvi_scores *s, bool held) {
  const atvi_score *each = held ? s->held : s->fitted, *all = held ? &s->held_all : &s->fitted_all;
  for (atvi_idx i = 0; i < s->n_series && s->n_series <= SERIES_SHOWN; i++)
    if (each[i].n) line(t, width, &each[i], held);
  if (s->n_series != 1) line(t, width, all, held);
}

static void table(atvi_text *t, const atvi_scores *s) {
  int width = 4;
  for (atvi_idx i = 0; i < s->n_series; i++)
    if ((int)strlen(s->fitted[i].name) > width) width = (int)strlen(s->fitted[i].name);
  if (width > NAME_MAX_SHOWN) width = NAME_MAX_SHOWN;
  atvi_io_text_label(t, width, "");
  atvi_io_fields_heading(t, &atvi_diag_score_fields, s->holdout ? HELD : FITTED);
  atvi_io_text_add(t, "\n");
  block(t, width, s, false);
  if (s->holdout) {
    atvi_io_text_add(t, s->apart ? "apart (%s), predicted from the others:\n" : "held out (%s):\n",
                     s->holdout);
    block(t, width, s, true);
  }
  if (s->n_series > SERIES_SHOWN)
    atvi_io_text_add(t, "each of the %td series: %s.json\n", s->n_series, s->apart ? "apart" : "scores");
  if (s->n_censored) atvi_io_text_add(t, "%td censored values are not scored\n", s->n_censored);
}

static void validation(atvi_text *t, const atvi_scores *s) {
  if (s->loo.n == 0) return;
  if (!(s->khat_threshold > 0) || isnan(s->worst_khat)) {
    atvi_io_text_add(t, "LOO and WAIC need more draws than %td\n", s->n_draw);
    return;
  }
  atvi_io_text_add(t, "LOO      elpd %.2f +- %.2f, %.2f effective parameters; ", s->loo.elpd, s->loo.se,
                   s->loo.p);
  if (s->loo.n_bad == 0)
    atvi_io_text_add(t, "every k-hat is below %.2f\n", s->khat_threshold);
  else
    atvi_io_text_add(t, "k-hat above %.2f for %td of %td values\n", s->khat_threshold, s->loo.n_bad,
                     s->loo.n);
  if (s->loo.n_bad)
    atvi_io_text_add(t, "         worst: %s at %g%s%s%s, k-hat %.2f\n", s->worst_name, s->worst_time,
                     s->worst_date ? " (" : "", s->worst_date ? s->worst_date : "", s->worst_date ? ")" : "",
                     s->worst_khat);
  atvi_io_text_add(t, "WAIC     elpd %.2f +- %.2f, %.2f effective parameters\n", s->waic.elpd, s->waic.se,
                   s->waic.p);
  if (s->units.n == 0) return;
  atvi_io_text_add(t, "units    LOO of %td whole units: elpd %.2f +- %.2f; ", s->units.n, s->units.elpd,
                   s->units.se);
  if (s->units.n_bad == 0)
    atvi_io_text_add(t, "every k-hat is below %.2f\n", s->khat_threshold);
  else
    atvi_io_text_add(t, "not to be trusted, k-hat above %.2f for %td\n         worst: %s, k-hat %.2f\n",
                     s->khat_threshold, s->units.n_bad, s->worst_unit, s->worst_unit_khat);
}

atvi_status atvi_diag_scores_text(atvi_pool *pool, const atvi_scores *s, const char **text) {
  atvi_text t = {.pool = pool};
  bool map = s->method && strcmp(s->method, "map") == 0;
  atvi_io_text_add(&t, "%s, method %s: %td draws of the %s\n\n", s->model ? s->model : "model",
                   s->method ? s->method : "unknown", s->n_draw,
                   map ? "normal approximation at the mode" : "posterior");
  bool any = s->fitted_all.n || s->held_all.n || s->n_censored;
  if (any)
    table(&t, s);
  else if (s->n_series == 0)
    atvi_io_text_add(&t, "the model observes nothing: there is nothing to score\n");
  if (any || s->n_series == 0) atvi_io_text_add(&t, "\n");
  if (isfinite(s->log_map)) atvi_io_text_add(&t, "log MAP  %.2f\n", s->log_map);
  validation(&t, s);
  if (s->verdict && strcmp(s->verdict, "ok") != 0)
    atvi_io_text_add(&t, "the verdict on the fit was %s: these numbers are no more reliable than the fit\n",
                     s->verdict);
  for (atvi_idx i = 0; i < s->n_message; i++) atvi_io_text_wrap(&t, "note:", 2, s->message[i]);
  return atvi_io_text_get(&t, text);
}
