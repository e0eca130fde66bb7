/* SPDX-License-Identifier: MIT */
/* Scores for programs (JSON) and for a terminal. */
#include "diag/score.h"
#include "io/text.h"
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { DIGITS = 12, NAME_MAX_SHOWN = 28, SERIES_SHOWN = 24 };

/* ---- JSON; a NULL anywhere is missing memory ---- */

static json_t *real(double x) { return isfinite(x) ? json_real(x) : json_null(); }

/* What comes from the user's files may be in any encoding; JSON takes UTF-8 alone. */
static json_t *word(atvi_pool *pool, const char *s) {
  json_t *out = s ? json_string(s) : json_null();
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

static bool set(json_t *object, const char *key, json_t *value) {
  return json_object_set_new(object, key, value) == 0;
}

static json_t *done(json_t *object, bool ok) {
  if (ok) return object;
  json_decref(object);
  return NULL;
}

static json_t *score(atvi_pool *pool, const atvi_score *s) {
  json_t *o = json_object();
  bool ok = o != NULL;
  if (s->name) ok = set(o, "series", word(pool, s->name)) && ok;
  ok = set(o, "n", json_integer(s->n)) && ok;
  ok = set(o, "coverage", real(s->coverage)) && ok;
  ok = set(o, "ail", real(s->ail)) && ok;
  ok = set(o, "mspe", real(s->mspe)) && ok;
  ok = set(o, "ail_sum", real(s->ail_sum)) && ok;
  ok = set(o, "mspe_draws", real(s->mspe_draws)) && ok;
  ok = set(o, "lpd", real(s->lpd)) && ok;
  return done(o, ok);
}

static json_t *scores(atvi_pool *pool, atvi_idx n, const atvi_score *each, const atvi_score *all) {
  json_t *o = json_object(), *list = json_array();
  bool ok = o != NULL;
  for (atvi_idx i = 0; i < n; i++) ok = json_array_append_new(list, score(pool, &each[i])) == 0 && ok;
  ok = set(o, "series", list) && ok;
  ok = set(o, "all", score(pool, all)) && ok;
  return done(o, ok);
}

static json_t *loo(atvi_pool *pool, const atvi_scores *s) {
  json_t *o = json_object(), *worst = json_object();
  bool ok = o != NULL;
  ok = set(worst, "series", word(pool, s->worst_name)) && ok;
  ok = set(worst, "time", real(s->worst_time)) && ok;
  ok = set(worst, "khat", real(s->worst_khat)) && ok;
  ok = set(o, "n", json_integer(s->loo.n)) && ok;
  ok = set(o, "elpd", real(s->loo.elpd)) && ok;
  ok = set(o, "se", real(s->loo.se)) && ok;
  ok = set(o, "p", real(s->loo.p)) && ok;
  ok = set(o, "khat_threshold", real(s->khat_threshold)) && ok;
  ok = set(o, "khat_above", json_integer(s->loo.n_bad)) && ok;
  ok = set(o, "worst", worst) && ok;
  return done(o, ok);
}

static json_t *waic(const atvi_loo_sum *w) {
  json_t *o = json_object();
  bool ok = o != NULL;
  ok = set(o, "n", json_integer(w->n)) && ok;
  ok = set(o, "elpd", real(w->elpd)) && ok;
  ok = set(o, "se", real(w->se)) && ok;
  ok = set(o, "p", real(w->p)) && ok;
  ok = set(o, "waic", real(-2 * w->elpd)) && ok;
  ok = set(o, "p_above", json_integer(w->n_bad)) && ok;
  return done(o, ok);
}

static json_t *messages(atvi_pool *pool, const atvi_scores *s) {
  json_t *list = json_array();
  bool ok = list != NULL;
  for (atvi_idx i = 0; i < s->n_message; i++)
    ok = json_array_append_new(list, word(pool, s->message[i])) == 0 && ok;
  return done(list, ok);
}

static json_t *whole(atvi_pool *pool, const atvi_scores *s) {
  json_t *o = json_object();
  bool ok = o != NULL, any = s->loo.n > 0;
  ok = set(o, "model", word(pool, s->model)) && ok;
  ok = set(o, "method", word(pool, s->method)) && ok;
  ok = set(o, "seed", seed(pool, s->seed)) && ok;
  ok = set(o, "verdict", word(pool, s->verdict)) && ok;
  ok = set(o, "draws", json_integer(s->n_draw)) && ok;
  ok = set(o, "log_map", real(s->log_map)) && ok;
  ok = set(o, "censored", json_integer(s->n_censored)) && ok;
  ok = set(o, "fitted", scores(pool, s->n_series, s->fitted, &s->fitted_all)) && ok;
  ok = set(o, "holdout", word(pool, s->holdout)) && ok;
  ok = set(o, "held_out", s->holdout ? scores(pool, s->n_series, s->held, &s->held_all) : json_null()) && ok;
  ok = set(o, "loo", any ? loo(pool, s) : json_null()) && ok;
  ok = set(o, "waic", any ? waic(&s->waic) : json_null()) && ok;
  ok = set(o, "messages", messages(pool, s)) && ok;
  return done(o, ok);
}

atvi_status atvi_scores_json(atvi_pool *pool, const atvi_scores *s, const char **text) {
  const size_t flags = JSON_INDENT(2) | JSON_REAL_PRECISION(DIGITS);
  json_t *o = whole(pool, s);
  size_t n = o ? json_dumpb(o, NULL, 0, flags) : 0;
  char *out = n ? atvi_pool_take(pool, n + 2, 1) : NULL;
  *text = NULL;
  if (out && json_dumpb(o, out, n, flags) == n) {
    out[n] = '\n';
    *text = out;
  }
  json_decref(o);
  return *text ? ATVI_OK : ATVI_FAIL(atvi_pool_ctx(pool), ATVI_ENOMEM, "scores: out of memory");
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
                "AIL sum", "MSPE draws", s->holdout ? "        lpd" : "");
  block(t, width, s, false);
  if (s->holdout) {
    atvi_text_add(t, "held out (%s):\n", s->holdout);
    block(t, width, s, true);
  }
  if (s->n_series > SERIES_SHOWN) atvi_text_add(t, "each of the %td series: scores.json\n", s->n_series);
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
    atvi_text_add(t, "         worst: %s at %g, k-hat %.2f\n", s->worst_name, s->worst_time, s->worst_khat);
  atvi_text_add(t, "WAIC     elpd %.2f +- %.2f, %.2f effective parameters\n", s->waic.elpd, s->waic.se,
                s->waic.p);
}

atvi_status atvi_scores_text(atvi_pool *pool, const atvi_scores *s, const char **text) {
  atvi_text t = {.pool = pool};
  atvi_text_add(&t, "%s, method %s: %td draws of the posterior\n\n", s->model ? s->model : "model",
                s->method ? s->method : "unknown", s->n_draw);
  if (s->n_series)
    table(&t, s);
  else
    atvi_text_add(&t, "the model observes nothing: there is nothing to score\n");
  atvi_text_add(&t, "\n");
  if (isfinite(s->log_map)) atvi_text_add(&t, "log MAP  %.2f\n", s->log_map);
  validation(&t, s);
  if (s->verdict && strcmp(s->verdict, "ok") != 0)
    atvi_text_add(&t, "the verdict on the fit was %s: these numbers are no better (atvi summary tells why)\n",
                  s->verdict);
  for (atvi_idx i = 0; i < s->n_message; i++) atvi_text_add(&t, "note: %s\n", s->message[i]);
  return atvi_text_get(&t, text);
}
