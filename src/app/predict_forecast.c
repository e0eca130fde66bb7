/* SPDX-License-Identifier: MIT */
/* Predictions at times given by the user: selecting them, a table, a figure with the data, and a note on
 * their spacing. */
#include "app/predict.h"
#include "report/report.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { SERIES_SHOWN = 12, TIMES_SHOWN = 12, LINES_SHOWN = 40, NAME_SHOWN = 24, NAME_SHOWN_DATED = 18 };

/* For the rows of a file: not at times from which something counts. */
static bool in_rows(const atvi_model *m, double t) {
  bool timed = false;
  for (atvi_idx k = 0; k < m->lang->n_data; k++) {
    const atvi_lang_data *d = &m->lang->data[k];
    timed = timed || d->time;
    if (d->time &&
        atvi_app_predictions_among(d->n_row, d->time, t, atvi_app_predictions_rounding(d->n_row, d->time)))
      return true;
  }
  return !timed;
}

void atvi_app_predict_mark(const atvi_loaded *l, bool grid, atvi_idx n_time, const double *time, atvi_idx n,
                           atvi_predicted *series) {
  const atvi_model *m = l->model;
  double eps = atvi_app_predictions_rounding(n_time, time);
  for (atvi_idx s = 0; s < n; s++)
    for (atvi_idx i = 0; i < series[s].n; i++) {
      atvi_point *p = &series[s].point[i];
      const atvi_model *own = m->part ? m->part[l->target->series[s].unit].m : m;
      p->asked =
          grid ? p->draw || in_rows(own, p->time) : atvi_app_predictions_among(n_time, time, p->time, eps);
      p->given = p->draw ? p->row < atvi_app_predictions_rows(m, m->lang->observe[s].data)
                         : !p->asked || atvi_app_predictions_in_data(own, p->time, eps);
    }
}

/* ---- terminal ---- */

typedef struct {
  atvi_text out;
  const atvi_lang *lang; /* NULL: rows */
  bool dated;
  int width; /* of names */
} table;

/* Five digits, or as many as leave a blank in front. */
static void number(atvi_text *t, double x) {
  char text[32] = "-";
  for (int digits = 5; isfinite(x) && digits > 0; digits--)
    if (snprintf(text, sizeof text, "%.*g", digits, x) < 10) break;
  atvi_io_text_add(t, "%10s", text);
}

static void line(table *t, const char *name, const atvi_point *p) {
  char date[ATVI_APP_DATE];
  atvi_io_text_add(&t->out, "%-*.*s", t->width, t->width, name);
  number(&t->out, p->time);
  if (t->dated) atvi_app_date(t->lang, p->time, date), atvi_io_text_add(&t->out, "%12.10s", date);
  const atvi_band *b = p->draw ? &p->of_draw : &p->of_mean;
  const double column[] = {p->of_mean.mean, p->of_mean.median, b->quartile[0],
                           b->quartile[1],  b->hpd95[0],       b->hpd95[1]};
  for (int k = 0; k < 6; k++) number(&t->out, column[k]);
  atvi_io_text_add(&t->out, "\n");
}

/* Observed and tracked quantities; states if there is nothing else. */
static bool shown(atvi_idx n, const atvi_predicted *series, atvi_idx s) {
  bool only_states = true;
  for (atvi_idx k = 0; k < n; k++) only_states = only_states && series[k].kind == ATVI_SERIES_STATE;
  return only_states || series[s].kind != ATVI_SERIES_STATE;
}

static atvi_idx n_asked(const atvi_predicted *s) {
  atvi_idx n = 0;
  for (atvi_idx i = 0; i < s->n; i++) n += s->point[i].asked;
  return n;
}

/* At most `most` points: the first and the last. */
static void lines(table *t, const atvi_predicted *s, atvi_idx most) {
  atvi_idx n = n_asked(s), head = n <= most ? n : (most + 1) / 2, tail = n <= most ? 0 : most / 2, at = 0;
  for (atvi_idx i = 0; i < s->n; i++) {
    if (!s->point[i].asked) continue;
    if (at < head || at >= n - tail)
      line(t, at ? "" : s->name, &s->point[i]);
    else if (at == head)
      atvi_io_text_add(&t->out, "%*s%10s\n", t->width, "", "...");
    at++;
  }
}

/* Observed series have intervals for new observations, others for the model's mean. */
static void head(table *t, bool observed) {
  atvi_io_text_add(&t->out, "%*s%22s%*s\n", t->width + 10 + 12 * t->dated, "", "what the model expects",
                   observed ? 36 : 0, observed ? "new observations" : "");
  atvi_io_text_add(&t->out, "%-*s%10s%s%10s%10s%10s%10s%10s%10s\n", t->width, "asked for",
                   t->lang ? "time" : "row", t->dated ? "        date" : "", "mean", "median", "50 % from",
                   "to", "95 % from", "to");
}

atvi_status atvi_app_predict_forecast_text(atvi_pool *pool, const atvi_lang *lang, atvi_idx n,
                                           const atvi_predicted *series, const char **text) {
  table t = {.out = {.pool = pool}, .lang = lang, .dated = lang && lang->calendar.unit > 0, .width = 9};
  atvi_idx found = 0, seen = 0;
  int last = -1, room = t.dated ? NAME_SHOWN_DATED : NAME_SHOWN;
  for (atvi_idx s = 0; s < n; s++) {
    if (!shown(n, series, s) || n_asked(&series[s]) == 0) continue;
    found++;
    if ((int)strlen(series[s].name) > t.width) t.width = (int)strlen(series[s].name);
  }
  if (t.width > room) t.width = room;
  atvi_idx most = LINES_SHOWN / (found ? found : 1);
  most = most < 2 ? 2 : most > TIMES_SHOWN ? TIMES_SHOWN : most;
  for (atvi_idx s = 0; s < n; s++) {
    if (!shown(n, series, s) || n_asked(&series[s]) == 0 || ++seen > SERIES_SHOWN) continue;
    int observed = series[s].kind == ATVI_SERIES_OBSERVED;
    if (observed != last) head(&t, observed);
    last = observed;
    lines(&t, &series[s], most);
  }
  if (seen > SERIES_SHOWN) atvi_io_text_add(&t.out, "and %td more series\n", seen - SERIES_SHOWN);
  return atvi_io_text_get(&t.out, text);
}

/* ---- figure ---- */

atvi_status atvi_app_predict_figure(atvi_pool *pool, const atvi_loaded *l, const char *dir, atvi_idx n,
                                    const atvi_predicted *series) {
  const atvi_lang *lang = l->model->lang;
  atvi_predicted *list = atvi_pool_take(pool, (size_t)n + 1, sizeof *list);
  atvi_idx m = 0;
  const char *name = NULL;
  for (atvi_idx k = 0; k < lang->n_data && !name; k++) name = lang->data[k].time_name;
  for (atvi_idx s = 0; list && s < n; s++)
    if (series[s].kind == ATVI_SERIES_OBSERVED && series[s].n > 0) list[m++] = series[s];
  if (!list) return ATVI_ENOMEM;
  if (m == 0) return ATVI_OK;
  return atvi_report_save_forecast(pool, dir, m, list, lang->calendar, name);
}

/* ---- spacing ---- */

atvi_status atvi_app_predict_spacing(atvi_pool *pool, const atvi_loaded *l, atvi_idx n_time,
                                     const double *time, const char **note) {
  const atvi_lang *lang = l->model->lang;
  *note = NULL;
  for (atvi_idx o = 0; o < lang->n_observe; o++) {
    const atvi_lang_data *d = &lang->data[lang->observe[o].data];
    atvi_idx n = atvi_app_predictions_rows(l->model, lang->observe[o].data), at = 0;
    double least, most, eps = atvi_app_predictions_rounding(n_time, time), before = lang->start;
    if (!d->time || !atvi_app_counts(lang, &lang->observe[o])) continue;
    atvi_app_steps(n, d->time, &least, &most);
    for (atvi_idx i = 0; i < n_time && most > 0; before = time[i++]) {
      while (at < n && d->time[at] < time[i] - eps) before = fmax(before, d->time[at++]);
      double step = time[i] - before;
      if (atvi_app_predictions_among(n, d->time, time[i], eps) || (step >= least - eps && step <= most + eps))
        continue;
      char date[ATVI_APP_DATE];
      atvi_app_date(lang, time[i], date);
      *note = atvi_pool_printf(pool,
                               "%s counts since the previous time (increase): at %g%s%s%s that spans %g, in "
                               "the data %g; such counts cannot be compared",
                               lang->observe[o].name, time[i], *date ? " (" : "", date, *date ? ")" : "",
                               step, most);
      return *note ? ATVI_OK : ATVI_ENOMEM;
    }
  }
  return ATVI_OK;
}
