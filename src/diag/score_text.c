/* SPDX-License-Identifier: MIT */
/* Scores for programs (JSON) and for a terminal. */
#include "diag/score.h"
#include "io/json.h"
#include "io/text.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { WIDTH = 100, NAME_MAX_SHOWN = 28, SERIES_SHOWN = 24 };

/* ---- JSON ---- */

static json_t *score(atvi_pool *pool, const atvi_score *s) {
  json_t *o = json_object();
  bool ok = o != NULL;
  if (s->name) ok = atvi_json_set(o, "series", atvi_json_word(pool, s->name)) && ok;
  ok = atvi_json_set(o, "n", json_integer(s->n)) && ok;
  ok = atvi_json_set(o, "coverage", atvi_json_real(s->coverage)) && ok;
  ok = atvi_json_set(o, "ail", atvi_json_real(s->ail)) && ok;
  ok = atvi_json_set(o, "mspe", atvi_json_real(s->mspe)) && ok;
  ok = atvi_json_set(o, "ail_sum", atvi_json_real(s->ail_sum)) && ok;
  ok = atvi_json_set(o, "mspe_draws", atvi_json_real(s->mspe_draws)) && ok;
  ok = atvi_json_set(o, "lpd", atvi_json_real(s->lpd)) && ok;
  return atvi_json_done(o, ok);
}

json_t *atvi_scores_of(atvi_pool *pool, atvi_idx n, const atvi_score *each, const atvi_score *all) {
  json_t *o = json_object(), *list = json_array();
  bool ok = o != NULL;
  for (atvi_idx i = 0; i < n; i++) ok = json_array_append_new(list, score(pool, &each[i])) == 0 && ok;
  ok = atvi_json_set(o, "series", list) && ok;
  ok = atvi_json_set(o, "all", score(pool, all)) && ok;
  return atvi_json_done(o, ok);
}

static json_t *loo(atvi_pool *pool, const atvi_scores *s) {
  json_t *o = json_object(), *worst = json_object();
  bool ok = o != NULL;
  ok = atvi_json_set(worst, "series", atvi_json_word(pool, s->worst_name)) && ok;
  ok = atvi_json_set(worst, "time", atvi_json_real(s->worst_time)) && ok;
  if (s->worst_date) ok = atvi_json_set(worst, "date", atvi_json_word(pool, s->worst_date)) && ok;
  ok = atvi_json_set(worst, "khat", atvi_json_real(s->worst_khat)) && ok;
  ok = atvi_json_set(o, "n", json_integer(s->loo.n)) && ok;
  ok = atvi_json_set(o, "elpd", atvi_json_real(s->loo.elpd)) && ok;
  ok = atvi_json_set(o, "se", atvi_json_real(s->loo.se)) && ok;
  ok = atvi_json_set(o, "p", atvi_json_real(s->loo.p)) && ok;
  ok = atvi_json_set(o, "khat_threshold", atvi_json_real(s->khat_threshold)) && ok;
  ok = atvi_json_set(o, "khat_above", json_integer(s->loo.n_bad)) && ok;
  ok = atvi_json_set(o, "worst", worst) && ok;
  return atvi_json_done(o, ok);
}

static json_t *waic(const atvi_loo_sum *w) {
  json_t *o = json_object();
  bool ok = o != NULL;
  ok = atvi_json_set(o, "n", json_integer(w->n)) && ok;
  ok = atvi_json_set(o, "elpd", atvi_json_real(w->elpd)) && ok;
  ok = atvi_json_set(o, "se", atvi_json_real(w->se)) && ok;
  ok = atvi_json_set(o, "p", atvi_json_real(w->p)) && ok;
  ok = atvi_json_set(o, "waic", atvi_json_real(-2 * w->elpd)) && ok;
  ok = atvi_json_set(o, "p_above", json_integer(w->n_bad)) && ok;
  return atvi_json_done(o, ok);
}

static json_t *messages(atvi_pool *pool, const atvi_scores *s) {
  json_t *list = json_array();
  bool ok = list != NULL;
  for (atvi_idx i = 0; i < s->n_message; i++)
    ok = json_array_append_new(list, atvi_json_word(pool, s->message[i])) == 0 && ok;
  return atvi_json_done(list, ok);
}

static json_t *whole(atvi_pool *pool, const atvi_scores *s) {
  json_t *o = json_object();
  bool ok = o != NULL, any = s->loo.n > 0;
  ok = atvi_json_set(o, "model", atvi_json_word(pool, s->model)) && ok;
  ok = atvi_json_set(o, "method", atvi_json_word(pool, s->method)) && ok;
  ok = atvi_json_set(o, "seed", atvi_json_seed(pool, s->seed)) && ok;
  ok = atvi_json_set(o, "verdict", atvi_json_word(pool, s->verdict)) && ok;
  ok = atvi_json_set(o, "draws", json_integer(s->n_draw)) && ok;
  ok = atvi_json_set(o, "log_map", atvi_json_real(s->log_map)) && ok;
  ok = atvi_json_set(o, "censored", json_integer(s->n_censored)) && ok;
  ok = atvi_json_set(o, "fitted", atvi_scores_of(pool, s->n_series, s->fitted, &s->fitted_all)) && ok;
  ok = atvi_json_set(o, "holdout", atvi_json_word(pool, s->holdout)) && ok;
  if (s->apart) ok = atvi_json_set(o, "apart", json_true()) && ok;
  ok = atvi_json_set(o, "held_out",
                     s->holdout ? atvi_scores_of(pool, s->n_series, s->held, &s->held_all) : json_null()) &&
       ok;
  ok = atvi_json_set(o, "loo", any ? loo(pool, s) : json_null()) && ok;
  ok = atvi_json_set(o, "waic", any ? waic(&s->waic) : json_null()) && ok;
  ok = atvi_json_set(o, "messages", messages(pool, s)) && ok;
  return atvi_json_done(o, ok);
}

atvi_status atvi_scores_json(atvi_pool *pool, const atvi_scores *s, const char **text) {
  return atvi_json_text(pool, whole(pool, s), "scores", text);
}

/* ---- terminal ---- */

static void cell(atvi_text *t, double x) {
  if (!isfinite(x))
    atvi_text_add(t, "%11s", "-");
  else if (fabs(x) >= 1e6 || (fabs(x) < 1e-3 && x != 0))
    atvi_text_add(t, "%11.3g", x);
  else
    atvi_text_add(t, "%11.*f", fabs(x) >= 1000 ? 0 : fabs(x) >= 100 ? 1 : fabs(x) >= 1 ? 2 : 4, x);
}

static void line(atvi_text *t, int width, const atvi_score *s, bool with_lpd) {
  const char *name = s->name ? s->name : "all";
  int n = (int)strlen(name), skip = n > width ? n - width + 2 : 0; /* the end holds the index */
  atvi_text_add(t, "%s%-*s%7td", skip ? ".." : "", skip ? width - 2 : width, name + skip, s->n);
  if (s->n)
    atvi_text_add(t, "%10.1f %%", 100 * s->coverage);
  else
    atvi_text_add(t, "%12s", "-");
  cell(t, s->ail);
  cell(t, s->mspe);
  cell(t, s->ail_sum);
  cell(t, s->mspe_draws);
  if (with_lpd) cell(t, s->lpd);
  atvi_text_add(t, "\n");
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
  atvi_text_add(t, "%-*s%7s%12s%11s%11s%11s%11s%s\n", width, "", "values", "in 95 %", "AIL", "MSPE",
                "AIL/series", "MSPE draws", s->holdout ? "        lpd" : "");
  block(t, width, s, false);
  if (s->holdout) {
    atvi_text_add(t, s->apart ? "apart (%s), predicted from the others:\n" : "held out (%s):\n", s->holdout);
    block(t, width, s, true);
  }
  if (s->n_series > SERIES_SHOWN)
    atvi_text_add(t, "each of the %td series: %s.json\n", s->n_series, s->apart ? "apart" : "scores");
  if (s->n_censored) atvi_text_add(t, "%td censored values are not scored\n", s->n_censored);
}

static void validation(atvi_text *t, const atvi_scores *s) {
  if (s->loo.n == 0) return;
  if (!(s->khat_threshold > 0) || isnan(s->worst_khat)) {
    atvi_text_add(t, "LOO and WAIC take more draws than %td\n", s->n_draw);
    return;
  }
  atvi_text_add(t, "LOO      elpd %.2f +- %.2f, %.2f effective parameters; ", s->loo.elpd, s->loo.se,
                s->loo.p);
  if (s->loo.n_bad == 0)
    atvi_text_add(t, "every k-hat is below %.2f\n", s->khat_threshold);
  else
    atvi_text_add(t, "k-hat above %.2f for %td of %td values\n", s->khat_threshold, s->loo.n_bad, s->loo.n);
  if (s->loo.n_bad)
    atvi_text_add(t, "         worst: %s at %g%s%s%s, k-hat %.2f\n", s->worst_name, s->worst_time,
                  s->worst_date ? " (" : "", s->worst_date ? s->worst_date : "", s->worst_date ? ")" : "",
                  s->worst_khat);
  atvi_text_add(t, "WAIC     elpd %.2f +- %.2f, %.2f effective parameters\n", s->waic.elpd, s->waic.se,
                s->waic.p);
}

void atvi_scores_note(atvi_text *t, const char *note) {
  int column = 5;
  atvi_text_add(t, "note:");
  for (note += strspn(note, " \n"); *note; note += strspn(note, " \n")) {
    int n = (int)strcspn(note, " \n");
    bool fits = column + 1 + n <= WIDTH;
    atvi_text_add(t, "%s%.*s", fits ? " " : "\n  ", n, note);
    column = (fits ? column + 1 : 2) + n;
    note += n;
  }
  atvi_text_add(t, "\n");
}

atvi_status atvi_scores_text(atvi_pool *pool, const atvi_scores *s, const char **text) {
  atvi_text t = {.pool = pool};
  bool map = s->method && strcmp(s->method, "map") == 0;
  atvi_text_add(&t, "%s, method %s: %td draws of the %s\n\n", s->model ? s->model : "model",
                s->method ? s->method : "unknown", s->n_draw,
                map ? "normal approximation at the mode" : "posterior");
  bool any = s->fitted_all.n || s->held_all.n || s->n_censored;
  if (any)
    table(&t, s);
  else if (s->n_series == 0)
    atvi_text_add(&t, "the model observes nothing: there is nothing to score\n");
  if (any || s->n_series == 0) atvi_text_add(&t, "\n");
  if (isfinite(s->log_map)) atvi_text_add(&t, "log MAP  %.2f\n", s->log_map);
  validation(&t, s);
  if (s->verdict && strcmp(s->verdict, "ok") != 0)
    atvi_text_add(&t, "the verdict on the fit was %s: these numbers can be trusted no more than it\n",
                  s->verdict);
  for (atvi_idx i = 0; i < s->n_message; i++) atvi_scores_note(&t, s->message[i]);
  return atvi_text_get(&t, text);
}
