/* SPDX-License-Identifier: MIT */
#include "diag/score.h"
#include "math/rng.h"
#include "math/stat/stat.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double MASS = 0.95;
static const atvi_band NO_BAND = {NAN, NAN, NAN, {NAN, NAN}, {NAN, NAN}};
static const atvi_loo_point NO_LOO = {NAN, NAN, NAN, NAN, NAN};

atvi_band atvi_diag_band_of(atvi_idx n, const double *x, double *work) {
  atvi_band b = NO_BAND;
  atvi_idx m = 0;
  for (atvi_idx i = 0; i < n; i++)
    if (!isnan(x[i])) work[m++] = x[i];
  if (m == 0) return b;
  b.mean = atvi_math_mean(m, work, NULL);
  b.sd = m > 1 ? atvi_math_sd(m, work, NULL) : NAN;
  atvi_math_sort(m, work, NULL, work + n);
  b.median = atvi_math_quantile(m, work, NULL, 0.5);
  for (int k = 0; k < 2; k++) b.quartile[k] = atvi_math_quantile(m, work, NULL, k ? 0.75 : 0.25);
  atvi_math_hpd(m, work, NULL, MASS, b.hpd95);
  return b;
}

/* ---- every point ---- */

typedef struct {
  /* points are divided into this many shares, which run at the same time: bounds the scratch */
  atvi_idx n_draw, n_share, n;
  atvi_point **point; /* [n] */
  double *scratch;    /* [n_share][per_share] */
  size_t per_share;
} job;

static void judge_point(atvi_idx n, atvi_point *p, double *work) {
  p->of_mean = p->mean ? atvi_diag_band_of(n, p->mean, work) : NO_BAND;
  p->of_alone = p->alone ? atvi_diag_band_of(n, p->alone, work) : NO_BAND;
  const double *draw = p->others ? p->others : p->draw;
  p->of_draw = draw ? atvi_diag_band_of(n, draw, work) : NO_BAND;
  p->loo = p->log_lik && !isnan(p->value) ? atvi_math_loo_of(n, p->log_lik, work) : NO_LOO;
}

static void judge_share(void *arg, atvi_idx share, int worker) {
  const job *j = arg;
  (void)worker;
  for (atvi_idx k = share; k < j->n; k += j->n_share)
    judge_point(j->n_draw, j->point[k], j->scratch + (size_t)share * j->per_share);
}

atvi_status atvi_diag_predicted_judge(atvi_ctx *ctx, atvi_idx n_draw, atvi_idx n, atvi_predicted *series) {
  job j = {.n_draw = n_draw, .n_share = atvi_ctx_threads(ctx)};
  size_t loo = atvi_math_loo_work(n_draw), band = 3 * (size_t)n_draw;
  atvi_idx total = 0;
  for (atvi_idx s = 0; s < n; s++) total += series[s].n;
  j.per_share = loo > band ? loo : band;
  j.point = atvi_block(ctx, ((size_t)total + 1) * sizeof *j.point);
  j.scratch = atvi_block(ctx, (size_t)j.n_share * j.per_share * sizeof *j.scratch + 1);
  if (j.point && j.scratch) {
    for (atvi_idx s = 0; s < n; s++)
      for (atvi_idx i = 0; i < series[s].n; i++) j.point[j.n++] = &series[s].point[i];
    atvi_parallel(ctx, j.n_share, judge_share, &j);
  }
  bool ok = j.point && j.scratch;
  atvi_block_free(ctx, j.point);
  atvi_block_free(ctx, j.scratch);
  return ok ? ATVI_OK : ATVI_ENOMEM;
}

/* ---- scores ---- */

static void add(atvi_score *s, const atvi_point *p, atvi_idx n_draw) {
  double length = p->of_draw.hpd95[1] - p->of_draw.hpd95[0], drawn = p->of_draw.mean - p->value;
  double error = isfinite(p->of_mean.mean) && !p->others ? p->of_mean.mean - p->value : drawn;
  double sd = isnan(p->of_draw.sd) ? 0 : p->of_draw.sd;
  bool inside = p->value >= p->of_draw.hpd95[0] && p->value <= p->of_draw.hpd95[1];
  s->n++;
  s->n_inside += inside;
  s->ail_sum += length;
  s->mspe += error * error;
  s->mspe_draws += drawn * drawn + sd * sd * (double)(n_draw - 1) / (double)n_draw;
  if (!isnan(p->loo.lpd)) s->lpd += p->loo.lpd;
}

/* From sums to means. */
static void finish(atvi_score *s, atvi_idx n_series) {
  double n = (double)s->n;
  if (s->n == 0) {
    s->coverage = s->ail = s->mspe = s->ail_sum = s->mspe_draws = s->lpd = NAN;
    return;
  }
  s->coverage = (double)s->n_inside / n;
  s->ail = s->ail_sum / n;
  s->mspe /= n;
  s->mspe_draws /= n;
  s->ail_sum /= (double)n_series;
}

static void score_series(const atvi_predicted *series, bool held, atvi_idx n_draw, atvi_score *one,
                         atvi_score *all) {
  *one = (atvi_score){.name = series->name};
  for (atvi_idx i = 0; i < series->n; i++) {
    const atvi_point *p = &series->point[i];
    if (!p->exact || p->held != held || isnan(p->of_draw.mean)) continue;
    add(one, p, n_draw);
    add(all, p, n_draw);
  }
  finish(one, 1);
}

/* LOO and WAIC over all fitted values. */
static atvi_status cross_validate(atvi_pool *pool, atvi_idx n, const atvi_predicted *series,
                                  atvi_scores *out) {
  atvi_idx total = 0, m = 0;
  for (atvi_idx s = 0; s < n; s++) total += series[s].n;
  atvi_loo_point *loo = atvi_pool_take(pool, (size_t)total + 1, sizeof *loo);
  const atvi_point **from = atvi_pool_take(pool, (size_t)total + 1, sizeof *from);
  const char **name = atvi_pool_take(pool, (size_t)total + 1, sizeof *name);
  if (!loo || !from || !name) return ATVI_ENOMEM;
  for (atvi_idx s = 0; s < n; s++)
    for (atvi_idx i = 0; i < series[s].n; i++) {
      const atvi_point *p = &series[s].point[i];
      if (isnan(p->loo.lpd) || p->held) continue;
      loo[m] = p->loo;
      name[m] = series[s].name;
      from[m++] = p;
    }
  out->loo = atvi_math_loo_total(m, loo, out->n_draw);
  out->waic = atvi_math_waic_total(m, loo);
  out->khat_threshold = atvi_math_psis_threshold(out->n_draw);
  out->worst.time = out->worst.khat = NAN;
  if (m > 0) {
    out->worst.name = name[out->loo.worst];
    out->worst.time = from[out->loo.worst]->time;
    out->worst.khat = from[out->loo.worst]->loo.khat;
  }
  return ATVI_OK;
}

/* Adds the log likelihood of the fitted values of a series to sum[n]. False: it has none. */
static bool add_log_lik(const atvi_predicted *s, atvi_idx n, double *sum) {
  bool any = false;
  for (atvi_idx i = 0; i < s->n; i++) {
    const atvi_point *p = &s->point[i];
    if (!p->log_lik || isnan(p->value) || p->held) continue;
    for (atvi_idx k = 0; k < n; k++) sum[k] += p->log_lik[k];
    any = true;
  }
  return any;
}

atvi_status atvi_diag_unit_loo(atvi_pool *pool, atvi_idx n_draw, atvi_idx n_series,
                               const atvi_predicted *series, atvi_idx *n, const char ***unit,
                               atvi_loo_point **loo) {
  double *sum = atvi_pool_take(pool, (size_t)n_draw + atvi_math_loo_work(n_draw) + 1, sizeof *sum);
  bool *done = atvi_pool_take(pool, (size_t)n_series + 1, sizeof *done);
  *unit = atvi_pool_take(pool, (size_t)n_series + 1, sizeof **unit);
  *loo = atvi_pool_take(pool, (size_t)n_series + 1, sizeof **loo);
  *n = 0;
  if (!sum || !done || !*unit || !*loo) return ATVI_ENOMEM;
  for (atvi_idx s = 0; s < n_series; s++) {
    bool any = false;
    if (done[s] || !series[s].unit || !*series[s].unit || series[s].kind != ATVI_SERIES_OBSERVED) continue;
    for (atvi_idx k = 0; k < n_draw; k++) sum[k] = 0;
    for (atvi_idx o = s; o < n_series; o++)
      if (series[o].kind == ATVI_SERIES_OBSERVED && series[o].unit &&
          strcmp(series[o].unit, series[s].unit) == 0) {
        any = add_log_lik(&series[o], n_draw, sum) || any;
        done[o] = true;
      }
    if (!any) continue;
    (*unit)[*n] = series[s].unit;
    (*loo)[(*n)++] = atvi_math_loo_of(n_draw, sum, sum + n_draw);
  }
  return ATVI_OK;
}

static atvi_status leave_units_out(atvi_pool *pool, atvi_idx n, const atvi_predicted *series,
                                   atvi_scores *out) {
  atvi_idx m;
  const char **unit;
  atvi_loo_point *loo;
  ATVI_TRY(atvi_diag_unit_loo(pool, out->n_draw, n, series, &m, &unit, &loo));
  out->units = atvi_math_loo_total(m, loo, out->n_draw);
  out->worst_unit.khat = NAN;
  if (m > 0) {
    out->worst_unit.name = unit[out->units.worst];
    out->worst_unit.khat = loo[out->units.worst].khat;
  }
  return ATVI_OK;
}

atvi_status atvi_diag_scores_new(atvi_pool *pool, atvi_idx n_draw, atvi_idx n, const atvi_predicted *series,
                                 atvi_scores **out) {
  atvi_scores *s = atvi_pool_take(pool, 1, sizeof *s);
  atvi_score *fitted = atvi_pool_take(pool, (size_t)n + 1, sizeof *fitted);
  atvi_score *held = atvi_pool_take(pool, (size_t)n + 1, sizeof *held);
  atvi_idx n_fitted = 0, n_held = 0;
  *out = NULL;
  if (!s || !fitted || !held) return ATVI_ENOMEM;
  *s = (atvi_scores){.n_draw = n_draw, .fitted = fitted, .held = held, .log_map = NAN};
  for (atvi_idx k = 0; k < n; k++) {
    if (series[k].kind != ATVI_SERIES_OBSERVED) continue;
    score_series(&series[k], false, n_draw, &fitted[s->n_series], &s->fitted_all);
    score_series(&series[k], true, n_draw, &held[s->n_series], &s->held_all);
    n_fitted += fitted[s->n_series].n > 0;
    n_held += held[s->n_series].n > 0;
    for (atvi_idx i = 0; i < series[k].n; i++)
      s->n_censored += !isnan(series[k].point[i].value) && !series[k].point[i].exact;
    s->n_series++;
  }
  finish(&s->fitted_all, n_fitted);
  finish(&s->held_all, n_held);
  ATVI_TRY(cross_validate(pool, n, series, s));
  ATVI_TRY(leave_units_out(pool, n, series, s));
  *out = s;
  return ATVI_OK;
}

/* ---- for programs and for a terminal ---- */

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

/* Up to the object "worst", which is open then. */
static void begin_loo(atvi_json *w, const char *key, const atvi_loo_sum *loo, double khat_threshold) {
  atvi_io_json_object(w, key);
  atvi_io_fields_json(w, &LOO_FIELDS, loo, "n elpd se p");
  atvi_io_json_put(w, "khat_threshold", atvi_io_json_real(khat_threshold));
  atvi_io_fields_json(w, &LOO_FIELDS, loo, "khat_above");
  atvi_io_json_object(w, "worst");
}

static void put_units(atvi_json *w, const atvi_scores *s) {
  if (s->units.n == 0) {
    atvi_io_json_put(w, "loo_units", json_null());
    return;
  }
  begin_loo(w, "loo_units", &s->units, s->khat_threshold);
  atvi_io_json_put(w, "unit", atvi_io_json_word(w->pool, s->worst_unit.name));
  atvi_io_json_put(w, "khat", atvi_io_json_real(s->worst_unit.khat));
  atvi_io_json_end(w);
  atvi_io_json_end(w);
}

static void put_validation(atvi_json *w, const atvi_scores *s) {
  if (s->loo.n == 0) {
    atvi_io_json_put(w, "loo", json_null());
    atvi_io_json_put(w, "waic", json_null());
    return;
  }
  begin_loo(w, "loo", &s->loo, s->khat_threshold);
  atvi_io_json_put(w, "series", atvi_io_json_word(w->pool, s->worst.name));
  atvi_io_json_put(w, "time", atvi_io_json_real(s->worst.time));
  if (s->worst.date) atvi_io_json_put(w, "date", atvi_io_json_word(w->pool, s->worst.date));
  atvi_io_json_put(w, "khat", atvi_io_json_real(s->worst.khat));
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
  if (!(s->khat_threshold > 0) || isnan(s->worst.khat)) {
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
    atvi_io_text_add(t, "         worst: %s at %g%s%s%s, k-hat %.2f\n", s->worst.name, s->worst.time,
                     s->worst.date ? " (" : "", s->worst.date ? s->worst.date : "", s->worst.date ? ")" : "",
                     s->worst.khat);
  atvi_io_text_add(t, "WAIC     elpd %.2f +- %.2f, %.2f effective parameters\n", s->waic.elpd, s->waic.se,
                   s->waic.p);
  if (s->units.n == 0) return;
  atvi_io_text_add(t, "units    LOO of %td whole units: elpd %.2f +- %.2f; ", s->units.n, s->units.elpd,
                   s->units.se);
  if (s->units.n_bad == 0)
    atvi_io_text_add(t, "every k-hat is below %.2f\n", s->khat_threshold);
  else
    atvi_io_text_add(t, "not to be trusted, k-hat above %.2f for %td\n         worst: %s, k-hat %.2f\n",
                     s->khat_threshold, s->units.n_bad, s->worst_unit.name, s->worst_unit.khat);
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

/* From the groups of DRAWS to series of points. */

const char *atvi_diag_series_word(atvi_series_kind kind) {
  static const char *const word[] = {"observed", "tracked", "state"};
  return word[kind];
}

atvi_point atvi_diag_point_at(double time) {
  const atvi_band none = {NAN, NAN, NAN, {NAN, NAN}, {NAN, NAN}};
  return (atvi_point){.time = time,
                      .value = NAN,
                      .of_mean = none,
                      .of_draw = none,
                      .of_alone = none,
                      .loo = {NAN, NAN, NAN, NAN, NAN},
                      .residual = NAN,
                      .pit = NAN};
}

atvi_idx atvi_diag_predicted_draws(const atvi_draws *d) {
  const atvi_group *mean = atvi_draws_group(d, "mean");
  return mean ? mean->n_draw : 0;
}

static int by_time(const void *a, const void *b) {
  const atvi_point *x = a, *y = b;
  if (x->time != y->time) return x->time < y->time ? -1 : 1;
  return (x->row > y->row) - (x->row < y->row);
}

/* The name, with that of its data set if another series has the same. */
static const char *name_of(atvi_pool *pool, const atvi_draws *d, atvi_idx s) {
  bool twice = false;
  for (atvi_idx k = 0; k < d->n_series; k++)
    twice = twice || (k != s && strcmp(d->series[k].name, d->series[s].name) == 0);
  if (!twice || d->series[s].kind != ATVI_SERIES_OBSERVED) return d->series[s].name;
  return atvi_pool_printf(pool, "%s.%s", d->series[s].set, d->series[s].name);
}

static bool all_nan(atvi_idx n, const double *x) {
  for (atvi_idx i = 0; i < n; i++)
    if (!isnan(x[i])) return false;
  return true;
}

/* Value number `at` of a group; NULL: no such group. */
static const double *value_of(const atvi_draws *d, const char *group, atvi_idx at) {
  const atvi_group *g = atvi_draws_group(d, group);
  return g && at < g->n_value ? g->x + at * g->n_draw : NULL;
}

static atvi_point data_point(const atvi_draws *d, const atvi_draws_series *s, int what, atvi_idx at,
                             atvi_idx r) {
  atvi_point x = atvi_diag_point_at(s->time[r]);
  x.row = r;
  x.given = true;
  x.mean = value_of(d, "mean", at + r);
  if (s->kind != ATVI_SERIES_OBSERVED) return x;
  x.value = s->value[r];
  x.held = s->mark[r] & ATVI_MARK_HELD;
  x.exact = s->mark[r] & ATVI_MARK_EXACT;
  x.draw = value_of(d, "predictive", at + r);
  if (what & ATVI_PREDICTED_LOO) x.log_lik = value_of(d, "log_lik", at + r);
  if (!x.held && !isnan(x.value)) x.others = value_of(d, "others", at + r);
  x.alone = value_of(d, "simulator", at + r);
  if (x.alone && all_nan(atvi_diag_predicted_draws(d), x.alone)) x.alone = NULL;
  return x;
}

static atvi_point grid_point(const atvi_draws *d, const atvi_draws_series *s, atvi_idx at, atvi_idx g) {
  atvi_point x = atvi_diag_point_at(s->grid[g]);
  x.row = s->n + g;
  x.grid = true;
  x.mean = value_of(d, "grid", at + g);
  if (s->kind == ATVI_SERIES_OBSERVED) x.draw = value_of(d, "grid_predictive", at + g);
  return x;
}

/* at, grid_at: where the values of the series begin. */
static void fill(const atvi_draws *d, const atvi_draws_series *s, int what, atvi_idx at, atvi_idx grid_at,
                 atvi_predicted *to) {
  atvi_idx B = atvi_diag_predicted_draws(d), n_grid = what & ATVI_PREDICTED_GRID ? s->n_grid : 0;
  for (atvi_idx r = 0; r < s->n + n_grid; r++) {
    atvi_point x = r < s->n ? data_point(d, s, what, at, r) : grid_point(d, s, grid_at, r - s->n);
    to->others = to->others || x.others;
    if (isnan(x.value) && x.mean && all_nan(B, x.mean)) continue; /* nothing is known without covariates */
    to->point[to->n++] = x;
  }
  to->told = d->about->dependent && s->kind == ATVI_SERIES_OBSERVED && !to->others;
  qsort(to->point, (size_t)to->n, sizeof *to->point, by_time);
}

atvi_status atvi_diag_predicted_read(atvi_pool *pool, const atvi_draws *d, int what, atvi_idx *n,
                                     atvi_predicted **out) {
  atvi_predicted *series = atvi_pool_take(pool, (size_t)d->n_series + 1, sizeof *series);
  atvi_idx at = 0, grid_at = 0;
  *n = 0;
  *out = series;
  for (atvi_idx k = 0; series && k < d->n_series; k++) {
    const atvi_draws_series *s = &d->series[k];
    series[k] = (atvi_predicted){
        .name = name_of(pool, d, k), .kind = s->kind, .unit = s->unit ? s->unit : "", .rows = s->rows};
    series[k].point = atvi_pool_take(pool, (size_t)(s->n + s->n_grid) + 1, sizeof *series[k].point);
    if (atvi_pool_failed(pool)) break;
    fill(d, s, what, at, grid_at, &series[k]);
    at += s->n;
    grid_at += s->n_grid;
  }
  if (atvi_pool_failed(pool)) return ATVI_ENOMEM;
  *n = d->n_series;
  return ATVI_OK;
}

/* ---- residuals ---- */

/* u: uniform, for equal values. */
static double pit_of(const atvi_point *p, atvi_idx n_draw, double u) {
  double below = 0, equal = 0, n = 0;
  const double *draw = p->others ? p->others : p->draw;
  for (atvi_idx k = 0; k < n_draw; k++) {
    if (isnan(draw[k])) continue;
    n++;
    below += draw[k] < p->value;
    equal += draw[k] == p->value;
  }
  return (below + u * (equal + 1)) / (n + 1);
}

static bool has_pit(const atvi_point *p, atvi_idx n_draw) {
  const double *draw = p->others ? p->others : p->draw;
  if (isnan(p->value) || !draw || !p->exact) return false;
  return !all_nan(n_draw, draw);
}

typedef struct {
  atvi_idx n_draw;
  atvi_predicted *series;
} rest;

static void residual_item(void *arg, atvi_idx item, int worker) {
  const rest *r = arg;
  const atvi_predicted *s = &r->series[item];
  (void)worker;
  for (atvi_idx i = 0; i < s->n; i++) {
    atvi_point *p = &s->point[i];
    double predicted = isfinite(p->of_mean.mean) && !p->others ? p->of_mean.mean : p->of_draw.mean;
    p->residual = p->exact && p->of_draw.sd > 0 ? (p->value - predicted) / p->of_draw.sd : NAN;
    if (!isnan(p->pit)) p->pit = pit_of(p, r->n_draw, p->pit);
    if (s->told && !p->held) p->residual = p->pit = NAN;
  }
}

void atvi_diag_predicted_residuals(atvi_ctx *ctx, uint64_t seed, atvi_idx n_draw, atvi_idx n,
                                   atvi_predicted *series) {
  atvi_rng rng = atvi_math_rng_at(seed, ATVI_STREAM_PREDICT, 1, 0);
  /* random numbers first, in the order of the points */
  for (atvi_idx s = 0; s < n; s++)
    for (atvi_idx i = 0; i < series[s].n; i++) {
      atvi_point *p = &series[s].point[i];
      p->pit = has_pit(p, n_draw) ? atvi_math_rng_uniform(&rng) : NAN;
    }
  atvi_parallel(ctx, n, residual_item, &(rest){n_draw, series});
}

double *atvi_diag_predicted_column(atvi_pool *pool, const atvi_predicted *s, size_t offset) {
  double *x = atvi_pool_take(pool, (size_t)s->n + 1, sizeof *x);
  for (atvi_idx i = 0; x && i < s->n; i++) memcpy(&x[i], (const char *)&s->point[i] + offset, sizeof *x);
  return x;
}
