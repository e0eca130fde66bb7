/* SPDX-License-Identifier: MIT */
/* Predictions in the rows of a file without observations. The model continues from the fit: it has the same
 * start, and what counts since the previous row (increase) counts, in the first row, since the last earlier
 * row of the fitted data. */
#include "app/predict.h"
#include <math.h>
#include <string.h>

static const double SAME_STEP = 1e-9; /* relative to the largest time: rounding error */

/* Times of the data sets of the fit, and its start. */
static atvi_status copy_times(atvi_pool *pool, const atvi_lang *lang, atvi_predict_grid *g) {
  g->n_data = lang->n_data;
  g->of = atvi_pool_take(pool, (size_t)lang->n_data + 1, sizeof *g->of);
  for (atvi_idx k = 0; g->of && k < lang->n_data; k++) {
    const atvi_lang_data *d = &lang->data[k];
    double *time = atvi_pool_take(pool, (size_t)d->n_row + 1, sizeof *time);
    if (!time) return ATVI_ENOMEM;
    for (atvi_idx r = 0; d->time && r < d->n_row; r++) time[r] = d->time[r];
    g->of[k] = (atvi_predict_rows){d->time ? d->n_row : 0, time};
  }
  if (!g->of) return ATVI_ENOMEM;
  ATVI_TRY(atvi_app_start_text(pool, lang, lang->start, &g->text));
  g->known = true;
  return ATVI_OK;
}

/* *lang is NULL if that can no longer be read: then *silent has the reason. */
static void read_fit(atvi_ctx *silent, atvi_pool *own, const atvi_fitted *run, const char *folder,
                     atvi_lang **lang) {
  atvi_fitted was;
  *lang = NULL;
  if (atvi_app_fitted_read(silent, own, &(atvi_app_finished){.where = run->dir, .folder = folder}, &was) !=
      ATVI_OK)
    return;
  const atvi_lang_opts how = {was.model.n_data, was.model.data, was.model.folder, false};
  if (atvi_lang_parse(silent, was.model.path, was.text, strlen(was.text), &how, lang) != ATVI_OK)
    *lang = NULL;
}

/* A separate context keeps the message and announces nothing twice. */
static atvi_status find_fit(atvi_pool *pool, const atvi_fitted *run, const char *folder,
                            atvi_predict_grid *g) {
  atvi_ctx *silent;
  atvi_pool *own;
  atvi_lang *lang = NULL;
  if (atvi_ctx_new(NULL, &silent) != ATVI_OK) return ATVI_ENOMEM;
  atvi_status status = atvi_pool_new(silent, &own) == ATVI_OK ? ATVI_OK : ATVI_ENOMEM;
  if (status == ATVI_OK) {
    read_fit(silent, own, run, folder, &lang);
    if (lang) status = copy_times(pool, lang, g);
    atvi_lang_free(lang);
    atvi_pool_free(own);
  }
  atvi_ctx_free(silent);
  return status;
}

static bool any_counts(const atvi_lang *lang) {
  for (atvi_idx o = 0; o < lang->n_observe; o++)
    if (atvi_app_counts(lang, &lang->observe[o])) return true;
  return false;
}

atvi_status atvi_app_predict_grid_find(atvi_pool *pool, const atvi_loaded *l, const atvi_fitted *run,
                                       const char *folder, atvi_predict_grid *g) {
  const atvi_lang *lang = l->model->lang;
  const char *must_say;
  *g = (atvi_predict_grid){0};
  if (lang->n_state == 0) return ATVI_OK;
  ATVI_TRY(find_fit(pool, run, folder, g));
  ATVI_TRY(atvi_app_start_text(pool, lang, 0, &must_say));
  if (!g->known && must_say)
    return ATVI_FAIL(atvi_pool_ctx(pool), ATVI_EDATA,
                     "%s: error: the model starts at the first time of its data, and the data of the fit can "
                     "no longer be read\nhint: restore them",
                     run->dir);
  if (!any_counts(lang) || !g->known || g->n_data != lang->n_data) return ATVI_OK;
  double *since = atvi_pool_take(pool, (size_t)lang->n_data + 1, sizeof *since);
  if (!since) return ATVI_ENOMEM;
  for (atvi_idx k = 0; k < lang->n_data; k++) {
    const atvi_lang_data *d = &lang->data[k];
    atvi_idx r = d->time && d->n_row ? atvi_model_time_before(g->of[k].n, g->of[k].time, d->time[0]) : -1;
    since[k] = r >= 0 ? g->of[k].time[r] : NAN;
  }
  g->since = since;
  return ATVI_OK;
}

/* ---- notes on spans ---- */

static void put_when(atvi_text *t, const atvi_lang *lang, double time) {
  char date[ATVI_APP_DATE];
  atvi_app_date(lang, time, date);
  atvi_io_text_add(t, "%g", time);
  if (*date) atvi_io_text_add(t, " (%s)", date);
}

static void say_unknown(atvi_text *t, const atvi_lang *lang, const atvi_lang_observe *o) {
  const atvi_lang_data *d = &lang->data[o->data];
  atvi_io_text_add(t, "row 1 of %s, at ", d->path);
  put_when(t, lang, d->time[0]);
  atvi_io_text_add(t,
                   ": %s counts since the start (increase), which spans %g: the data of the fit can no "
                   "longer be read, so their end is not known",
                   o->name, d->time[0] - lang->start);
}

static void say_span(atvi_text *t, const atvi_lang *lang, const atvi_lang_observe *o, atvi_idx row,
                     double from, double usual) {
  const atvi_lang_data *d = &lang->data[o->data];
  atvi_io_text_add(t, "row %td of %s, at ", row + 1, d->path);
  put_when(t, lang, d->time[row]);
  atvi_io_text_add(t, ": %s counts since ", o->name);
  put_when(t, lang, from);
  atvi_io_text_add(t, " (increase): that spans %g, in the data of the fit %g; such counts cannot be compared",
                   d->time[row] - from, usual);
}

/* The first row whose span does not occur in the fit. */
static void look(atvi_text *t, const atvi_lang *lang, const atvi_predict_grid *g,
                 const atvi_lang_observe *o) {
  const atvi_lang_data *d = &lang->data[o->data];
  const atvi_predict_rows *fit = &g->of[o->data];
  double least, most, from = g->since && g->since[o->data] > lang->start ? g->since[o->data] : lang->start;
  atvi_app_steps(fit->n, fit->time, &least, &most);
  if (!(most > 0)) return;
  double eps = SAME_STEP * fmax(fabs(d->time[d->n_row - 1]), fabs(lang->start));
  for (atvi_idx r = 0; r < d->n_row; r++) {
    if (r > 0 && d->time[r] > d->time[r - 1]) from = d->time[r - 1];
    double span = d->time[r] - from;
    bool first = r == 0 && fabs(d->time[0] - fit->time[0]) <= eps; /* as in the fit */
    if (first || (span >= least - eps && span <= most + eps)) continue;
    say_span(t, lang, o, r, from, most);
    return;
  }
}

atvi_status atvi_app_predict_grid_note(atvi_pool *pool, const atvi_loaded *l, const atvi_predict_grid *g,
                                       const char **note) {
  const atvi_lang *lang = l->model->lang;
  *note = NULL;
  for (atvi_idx o = 0; o < lang->n_observe && !*note; o++) {
    const atvi_lang_observe *obs = &lang->observe[o];
    const atvi_lang_data *d = &lang->data[obs->data];
    atvi_text t = {.pool = pool};
    if (!d->time || d->n_row == 0 || !atvi_app_counts(lang, obs)) continue;
    if (g->known)
      look(&t, lang, g, obs);
    else
      say_unknown(&t, lang, obs);
    ATVI_TRY(atvi_io_text_get(&t, note));
    if (!**note) *note = NULL;
  }
  return ATVI_OK;
}
