/* SPDX-License-Identifier: MIT */
/* Predictions as CSV, and the forecast back from it; forecasts for a terminal and as a figure. */
#include "app/predictions.h"
#include "io/csv.h"
#include "io/file.h"
#include "report/report.h"
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void cell(atvi_text *out, double x) {
  atvi_io_text_add(out, isnan(x) ? "," : ",%.9g", x); /* far beyond the Monte Carlo error */
}

static void band(atvi_text *out, const atvi_band *b) {
  cell(out, b->mean);
  cell(out, b->sd);
  cell(out, b->median);
  cell(out, b->hpd95[0]);
  cell(out, b->hpd95[1]);
}

static const char *status_of(const atvi_point *p) {
  if (isnan(p->value)) return "";
  return p->held ? (p->apart ? "apart" : "held_out") : p->exact ? "fitted" : "censored";
}

/* Columns of the data that observations depend on; none if there are several data sets. */
typedef struct {
  const atvi_csv *csv; /* NULL: none */
  bool *used;          /* [n_col] */
  bool dated;          /* followed by a column `date`, unless one of them has that name */
} covariates;

static void use(void *user, atvi_idx index) {
  const covariates *c = user;
  if (index < c->csv->n_col) c->used[index] = true;
}

static atvi_status find_covariates(atvi_pool *pool, const atvi_loaded *l, covariates *c) {
  const atvi_lang *lang = l->model->lang;
  *c = (covariates){lang->n_data == 1 ? lang->data[0].csv : NULL, NULL, lang->time.calendar.unit > 0};
  if (!c->csv) return ATVI_OK;
  c->used = atvi_pool_take(pool, (size_t)c->csv->n_col + 1, sizeof *c->used);
  bool ok = c->used != NULL;
  for (atvi_idx o = 0; o < lang->n_observe; o++)
    for (int a = 0; a < lang->observe[o].n_arg && ok; a++)
      ok = atvi_model_inputs(l->model, lang->observe[o].arg[a], ATVI_IN_DATA, use, c);
  for (atvi_idx k = 0; ok && k < c->csv->n_col; k++)
    c->dated = c->dated && !(c->used[k] && strcmp(c->csv->name[k], "date") == 0);
  return ok ? ATVI_OK : ATVI_ENOMEM;
}

/* If points are times, not rows. */
static void put_date(atvi_text *out, const atvi_lang *lang, atvi_idx s, const atvi_point *p) {
  char date[ATVI_APP_DATE] = "";
  if (!p->draw || lang->data[lang->observe[s].data].time) atvi_app_date(lang, p->time, date);
  atvi_io_text_add(out, ",%s", date);
}

/* Their names, or the cells of a row; row < 0: names. */
static void add_covariates(atvi_text *out, const covariates *c, bool observed, atvi_idx row) {
  for (atvi_idx k = 0; c->csv && k < c->csv->n_col; k++) {
    if (!c->used[k]) continue;
    atvi_io_text_add(out, ",");
    if (row < 0)
      atvi_app_field(out, c->csv->name[k]);
    else if (observed && row < c->csv->n_row)
      atvi_app_field(out, c->csv->text[row * c->csv->n_col + k]);
  }
}

/* As in the file if it is censored there; values hidden only by limits of the model are shown as such
 * limits. */
static void put_value(atvi_text *out, const atvi_lang *lang, atvi_idx s, const atvi_point *p) {
  if (isnan(p->value)) return;
  const atvi_lang_observe *o = s < lang->n_observe && p->draw ? &lang->observe[s] : NULL;
  const atvi_csv *csv = o && !p->exact ? lang->data[o->data].csv : NULL;
  atvi_idx at = csv && p->row < csv->n_row ? p->row * csv->n_col + o->column : -1;
  if (at >= 0 && csv->kind[at] != ATVI_CELL_NUMBER) {
    atvi_app_field(out, csv->text[at]);
    return;
  }
  bool below = at >= 0 && p->value <= o->limit_lower, above = at >= 0 && p->value >= o->limit_upper;
  atvi_io_text_add(out, "%s", below ? "<=" : above ? ">=" : "");
  atvi_io_text_number(out, below ? o->limit_lower : above ? o->limit_upper : p->value);
}

static void csv_line(atvi_text *out, const atvi_lang *lang, const atvi_predicted *series, atvi_idx k,
                     const atvi_point *p, const covariates *c, bool quartiles) {
  const atvi_predicted *s = &series[k];
  atvi_app_field(out, s->name);
  atvi_io_text_add(out, ",%s,", atvi_diag_series_word(s->kind));
  atvi_io_text_number(out, p->time);
  atvi_io_text_add(out, ",");
  put_value(out, lang, k, p);
  atvi_io_text_add(out, ",%s", status_of(p));
  band(out, &p->of_mean);
  band(out, &p->of_draw);
  cell(out, p->loo.lpd);
  cell(out, p->held ? NAN : p->loo.elpd_loo);
  cell(out, p->held ? NAN : p->loo.khat);
  add_covariates(out, c, p->draw != NULL, p->row);
  if (c->dated) put_date(out, lang, k, p);
  for (int q = 0; quartiles && q < 4; q++) cell(out, (q < 2 ? &p->of_mean : &p->of_draw)->quartile[q % 2]);
  atvi_io_text_add(out, "\n");
}

atvi_status atvi_app_predict_csv(atvi_pool *pool, const atvi_loaded *l, atvi_idx n,
                                 const atvi_predicted *series, bool (*wanted)(const atvi_point *p),
                                 bool quartiles, const char **text) {
  atvi_text out = {.pool = pool};
  covariates c;
  ATVI_TRY(find_covariates(pool, l, &c));
  atvi_io_text_add(&out, "series,kind,time,value,status,mean,sd,median,hpd95_low,hpd95_high,pred_mean,pred_"
                         "sd,pred_median,pred_hpd95_low,pred_hpd95_high,lpd,elpd_loo,khat");
  add_covariates(&out, &c, true, -1);
  atvi_io_text_add(&out, "%s%s\n", c.dated ? ",date" : "", quartiles ? ",q25,q75,pred_q25,pred_q75" : "");
  for (atvi_idx s = 0; s < n; s++)
    for (atvi_idx i = 0; i < series[s].n; i++)
      if (wanted(&series[s].point[i]))
        csv_line(&out, l->model->lang, series, s, &series[s].point[i], &c, quartiles);
  return atvi_io_text_get(&out, text);
}

/* ---- and back ---- */

/* Columns of the two bands; quartiles are not known in files of older versions. */
static const struct {
  const char *name;
  size_t at;
  bool old;
} READ[] = {
#define BAND(before, band)                                                                                   \
  {before "mean", offsetof(atvi_point, band.mean), true},                                                    \
      {before "sd", offsetof(atvi_point, band.sd), true},                                                    \
      {before "median", offsetof(atvi_point, band.median), true},                                            \
      {before "hpd95_low", offsetof(atvi_point, band.hpd95[0]), true},                                       \
      {before "hpd95_high", offsetof(atvi_point, band.hpd95[1]), true},                                      \
      {before "q25", offsetof(atvi_point, band.quartile[0]), false},                                         \
      {before "q75", offsetof(atvi_point, band.quartile[1]), false},
    BAND("", of_mean) BAND("pred_", of_draw)
#undef BAND
};
enum { READ_COLUMNS = sizeof READ / sizeof *READ };

static void read_row(const atvi_csv *csv, atvi_idx row, const atvi_idx *at, double time, atvi_point *p) {
  *p = atvi_diag_point_at(time);
  p->asked = true;
  for (int k = 0; k < READ_COLUMNS; k++)
    if (at[k] >= 0) memcpy((char *)p + READ[k].at, &csv->value[row * csv->n_col + at[k]], sizeof(double));
}

static bool is_of(const atvi_csv *csv, atvi_idx row, atvi_idx name, atvi_idx kind, const atvi_predicted *s) {
  const char *const *text = csv->text + row * csv->n_col;
  return strcmp(text[name], s->name) == 0 && strcmp(text[kind], atvi_diag_series_word(s->kind)) == 0;
}

atvi_status atvi_app_predict_read_forecast(atvi_pool *pool, const char *dir, atvi_idx n,
                                           const atvi_predicted *series, const atvi_predicted **forecast) {
  const char *path = atvi_pool_printf(pool, "%s/forecast.csv", dir);
  atvi_csv *csv;
  atvi_idx at[READ_COLUMNS];
  atvi_ctx *ctx = atvi_pool_ctx(pool);
  *forecast = NULL;
  if (path && access(path, F_OK) != 0) return ATVI_OK;
  atvi_predicted *out = atvi_pool_take(pool, (size_t)n + 1, sizeof *out);
  if (!path || !out) return ATVI_ENOMEM;
  ATVI_TRY(atvi_io_csv_read(pool, path, &csv));
  atvi_idx name = atvi_io_csv_find(csv, "series"), kind = atvi_io_csv_find(csv, "kind"),
           time = atvi_io_csv_find(csv, "time");
  bool whole = name >= 0 && kind >= 0 && time >= 0;
  for (int k = 0; k < READ_COLUMNS; k++) {
    at[k] = atvi_io_csv_find(csv, READ[k].name);
    whole = whole && (at[k] >= 0 || !READ[k].old);
  }
  if (!whole)
    return ATVI_FAIL(ctx, ATVI_EDATA, "%s: a column is missing; the file was changed after it was written",
                     path);
  for (atvi_idx s = 0; s < n; s++) {
    atvi_idx rows = 0;
    for (atvi_idx r = 0; r < csv->n_row; r++) rows += is_of(csv, r, name, kind, &series[s]);
    out[s] = series[s];
    out[s].n = 0;
    out[s].point = atvi_pool_take(pool, (size_t)rows + 1, sizeof *out[s].point);
    if (!out[s].point) return ATVI_ENOMEM;
    for (atvi_idx r = 0; r < csv->n_row; r++)
      if (is_of(csv, r, name, kind, &series[s]))
        read_row(csv, r, at, csv->value[r * csv->n_col + time], &out[s].point[out[s].n++]);
  }
  *forecast = out;
  return ATVI_OK;
}

/* ---- draws ---- */

static void put_number(atvi_file *f, double x, const char *after) {
  char buf[ATVI_NUMBER_BYTES];
  if (!isnan(x)) atvi_io_file_put(f, buf, (size_t)atvi_io_format_number(buf, x));
  atvi_io_file_put(f, after, 1);
}

atvi_status atvi_app_predict_save_draws(atvi_pool *pool, const char *path, atvi_idx n,
                                        const atvi_predicted *series, atvi_idx n_draw, const atvi_idx *draw) {
  atvi_file *f;
  atvi_ctx *ctx = atvi_pool_ctx(pool);
  const char **name = atvi_pool_take(pool, (size_t)n + 1, sizeof *name);
  if (!name) return ATVI_ENOMEM;
  for (atvi_idx s = 0; s < n; s++) {
    atvi_text quoted = {.pool = pool};
    atvi_app_field(&quoted, series[s].name);
    ATVI_TRY(atvi_io_text_get(&quoted, &name[s]));
  }
  ATVI_TRY(atvi_io_file_new(ctx, path, &f));
  atvi_io_file_printf(f, "draw__,series,time,mean,predictive\n");
  for (atvi_idx k = 0; k < n_draw; k++)
    for (atvi_idx s = 0; s < n; s++)
      for (atvi_idx i = 0; i < series[s].n; i++) {
        const atvi_point *x = &series[s].point[i];
        atvi_io_file_printf(f, "%td,%s,", draw[k] + 1, name[s]);
        put_number(f, x->time, ",");
        put_number(f, x->mean[k], ",");
        put_number(f, x->draw ? x->draw[k] : NAN, "\n");
      }
  atvi_status status = atvi_io_file_commit(f);
  atvi_io_file_free(f);
  return status;
}

/* Predictions at times given by the user: selecting them, a table, a figure with the data, and a note on
 * their spacing. */

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
      const atvi_model *own = m->blocks.part ? m->blocks.part[l->target->series[s].unit].m : m;
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
  table t = {.out = {.pool = pool}, .lang = lang, .dated = lang && lang->time.calendar.unit > 0, .width = 9};
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
  return atvi_report_save_forecast(pool, dir, m, list, lang->time.calendar, name);
}

/* ---- spacing ---- */

atvi_status atvi_app_predict_spacing(atvi_pool *pool, const atvi_loaded *l, atvi_idx n_time,
                                     const double *time, const char **note) {
  const atvi_lang *lang = l->model->lang;
  *note = NULL;
  for (atvi_idx o = 0; o < lang->n_observe; o++) {
    const atvi_lang_data *d = &lang->data[lang->observe[o].data];
    atvi_idx n = atvi_app_predictions_rows(l->model, lang->observe[o].data), at = 0;
    double least, most, eps = atvi_app_predictions_rounding(n_time, time), before = lang->time.start;
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
