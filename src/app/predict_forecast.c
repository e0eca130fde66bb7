/* SPDX-License-Identifier: MIT */
/* Predictions at times that the user asks for: which they are, a look at them, and a word on their spacing. */
#include "app/predict.h"
#include <math.h>
#include <string.h>

enum { SERIES_SHOWN = 12, NAME_SHOWN = 24 };
static const double SAME_TIME = 1e-9; /* of the largest time: what rounding does to it */

static bool among(atvi_idx n, const double *time, double t, double eps) {
  atvi_idx low = 0, high = n;
  while (low < high) {
    atvi_idx mid = (low + high) / 2;
    if (time[mid] < t - eps)
      low = mid + 1;
    else
      high = mid;
  }
  return low < n && time[low] <= t + eps;
}

static double rounding(atvi_idx n, const double *time) {
  return n ? SAME_TIME * fmax(fabs(time[0]), fabs(time[n - 1])) : 0;
}

static atvi_idx n_given(const atvi_model *m, atvi_idx group) {
  return m->n_given ? m->n_given[group] : m->lang->data[group].n_row;
}

/* Whether a state is there without being asked for: at the times of the data, and at the start if something counts from it. */
static bool in_data(const atvi_model *m, double t, double eps) {
  for (atvi_idx k = 0; k < m->lang->n_data; k++)
    if (m->lang->data[k].time && among(n_given(m, k), m->lang->data[k].time, t, eps)) return true;
  return m->has_prev && fabs(t - m->lang->start) <= eps;
}

void atvi_predict_mark(const atvi_loaded *l, atvi_idx n_time, const double *time, atvi_idx n,
                       atvi_predicted *series) {
  const atvi_model *m = l->model;
  double eps = rounding(n_time, time);
  for (atvi_idx s = 0; s < n; s++)
    for (atvi_idx i = 0; i < series[s].n; i++) {
      atvi_point *p = &series[s].point[i];
      p->asked = among(n_time, time, p->time, eps);
      p->given =
          p->draw ? p->row < n_given(m, m->lang->observe[s].data) : !p->asked || in_data(m, p->time, eps);
    }
}

/* ---- terminal ---- */

static void number(atvi_text *t, double x) {
  if (!isfinite(x))
    atvi_text_add(t, "%11s", "-");
  else
    atvi_text_add(t, "%11.5g", x);
}

static void line(atvi_text *t, int width, const char *name, const atvi_point *p) {
  const atvi_band *b = p->draw ? &p->of_draw : &p->of_mean;
  atvi_text_add(t, "%-*.*s", width, width, name);
  number(t, p->time);
  number(t, p->of_mean.mean);
  number(t, b->hpd95[0]);
  number(t, b->hpd95[1]);
  atvi_text_add(t, "\n");
}

/* Observed and tracked quantities; states where there is nothing else. */
static bool shown(atvi_idx n, const atvi_predicted *series, atvi_idx s) {
  bool only_states = true;
  for (atvi_idx k = 0; k < n; k++) only_states = only_states && series[k].kind[0] == 's';
  return only_states || series[s].kind[0] != 's';
}

atvi_status atvi_predict_forecast_text(atvi_pool *pool, const char *word, atvi_idx n,
                                       const atvi_predicted *series, const char **text) {
  atvi_text t = {.pool = pool};
  int width = 8;
  atvi_idx lines = 0;
  for (atvi_idx s = 0; s < n; s++)
    if (shown(n, series, s) && (int)strlen(series[s].name) > width) width = (int)strlen(series[s].name);
  if (width > NAME_SHOWN) width = NAME_SHOWN;
  atvi_text_add(&t, "%-*s%11s%11s%11s%11s\n", width, "asked for", word, "mean", "95 % from", "to");
  for (atvi_idx s = 0; s < n; s++) {
    const atvi_point *first = NULL, *last = NULL;
    for (atvi_idx i = 0; i < series[s].n; i++)
      if (series[s].point[i].asked) last = &series[s].point[i], first = first ? first : last;
    if (!first || !shown(n, series, s) || ++lines > SERIES_SHOWN) continue;
    line(&t, width, series[s].name, first);
    if (last != first) line(&t, width, "", last);
  }
  if (lines > SERIES_SHOWN) atvi_text_add(&t, "and %td more series\n", lines - SERIES_SHOWN);
  return atvi_text_get(&t, text);
}

/* ---- spacing ---- */

/* Of the rows of the file: rows at one time count from the same one. */
static void spacing(atvi_idx n, const double *time, double *least, double *most) {
  *least = HUGE_VAL;
  *most = 0;
  for (atvi_idx r = 1; r < n; r++) {
    double step = time[r] - time[r - 1];
    if (!(step > 0)) continue;
    *least = fmin(*least, step);
    *most = fmax(*most, step);
  }
}

static bool counts(const atvi_lang *lang, const atvi_lang_observe *o) {
  for (int a = 0; a < o->n_arg; a++)
    if (atvi_graph_kinds(lang->graph, o->arg[a]) >> ATVI_IN_PREV & 1) return true;
  return false;
}

atvi_status atvi_predict_spacing(atvi_pool *pool, const atvi_loaded *l, atvi_idx n_time, const double *time,
                                 const char **note) {
  const atvi_lang *lang = l->model->lang;
  *note = NULL;
  for (atvi_idx o = 0; o < lang->n_observe; o++) {
    const atvi_lang_data *d = &lang->data[lang->observe[o].data];
    atvi_idx n = n_given(l->model, lang->observe[o].data), at = 0;
    double least, most, eps = rounding(n_time, time), before = lang->start;
    if (!d->time || !counts(lang, &lang->observe[o])) continue;
    spacing(n, d->time, &least, &most);
    for (atvi_idx i = 0; i < n_time && most > 0; before = time[i++]) {
      while (at < n && d->time[at] < time[i] - eps) before = fmax(before, d->time[at++]);
      double step = time[i] - before;
      if (among(n, d->time, time[i], eps) || (step >= least - eps && step <= most + eps)) continue;
      *note = atvi_pool_printf(
          pool,
          "%s counts since the time before (increase): at %g that is %g long, in the data %g; "
          "such counts are not to be compared",
          lang->observe[o].name, time[i], step, most);
      return *note ? ATVI_OK : ATVI_FAIL(atvi_pool_ctx(pool), ATVI_ENOMEM, "out of memory");
    }
  }
  return ATVI_OK;
}
