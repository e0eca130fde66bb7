/* SPDX-License-Identifier: MIT */
/* Predictions as CSV, and the forecast back from it. */
#include "app/predict.h"
#include "io/csv.h"
#include "io/file.h"
#include <math.h>
#include <stddef.h>
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
  *c = (covariates){lang->n_data == 1 ? lang->data[0].csv : NULL, NULL, lang->calendar.unit > 0};
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
