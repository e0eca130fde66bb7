/* SPDX-License-Identifier: MIT */
/* From numbers to series of points, and to CSV. */
#include "app/predict.h"
#include "io/csv.h"
#include "io/file.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const KIND[] = {"observed", "tracked", "state"}; /* by atvi_series_kind */

static int by_time(const void *a, const void *b) {
  const atvi_point *x = a, *y = b;
  if (x->time != y->time) return x->time < y->time ? -1 : 1;
  return (x->mean > y->mean) -
         (x->mean < y->mean); /* rows at one time stay in their order: pointers into one array */
}

/* The name, with that of its data set where another series has the same. */
static const char *name_of(atvi_pool *pool, const atvi_lang *lang, const atvi_target *t, atvi_idx s) {
  bool twice = false;
  for (atvi_idx k = 0; k < t->n_series; k++)
    twice = twice || (k != s && strcmp(t->series[k].name, t->series[s].name) == 0);
  if (!twice || t->series[s].kind != ATVI_SERIES_OBSERVED) return t->series[s].name;
  return atvi_pool_printf(pool, "%s.%s", lang->data[t->series[s].group].name, t->series[s].name);
}

static bool all_nan(atvi_idx n, const double *x) {
  for (atvi_idx i = 0; i < n; i++)
    if (!isnan(x[i])) return false;
  return true;
}

/* Which rows of the series' data set were held out; NULL: none. */
static const bool *held_rows(const atvi_holdout *h, const atvi_series *s) {
  return h->held && s->kind == ATVI_SERIES_OBSERVED ? h->held[s->group] : NULL;
}

atvi_status atvi_predict_series(atvi_ctx *ctx, atvi_pool *pool, const atvi_loaded *l, const char *holdout,
                                const atvi_predict_draws *p, atvi_idx *n, atvi_predicted **out) {
  const atvi_target *t = l->target;
  const atvi_lang *lang = l->model->lang;
  atvi_holdout h = {0};
  if (holdout) ATVI_TRY(atvi_holdout_find(pool, lang, holdout, &h));
  atvi_predicted *series = atvi_pool_take(pool, (size_t)t->n_series + 1, sizeof *series);
  if (!series) return ATVI_FAIL(ctx, ATVI_ENOMEM, "out of memory: series");
  for (atvi_idx s = 0, at = 0; s < t->n_series; at += t->series[s++].n) {
    const atvi_series *from = &t->series[s];
    const bool *held = held_rows(&h, from);
    bool observed = from->kind == ATVI_SERIES_OBSERVED;
    atvi_predicted *to = &series[s];
    *to = (atvi_predicted){.name = name_of(pool, lang, t, s), .kind = KIND[from->kind]};
    to->point = atvi_pool_take(pool, (size_t)from->n + 1, sizeof *to->point);
    if (!to->name || !to->point) return ATVI_FAIL(ctx, ATVI_ENOMEM, "out of memory: series");
    for (atvi_idx r = 0; r < from->n; r++) {
      atvi_point *x = &to->point[to->n];
      *x = (atvi_point){.time = from->time[r],
                        .row = r,
                        .value = observed ? from->value[r] : NAN,
                        .held = held && held[r],
                        .exact = observed && atvi_observed_exactly(lang, &lang->observe[s], r),
                        .mean = p->mean + (at + r) * p->B,
                        .draw = observed ? p->draw + (at + r) * p->B : NULL,
                        .log_lik = observed ? p->log_lik + (at + r) * p->B : NULL};
      if (observed && p->others && !x->held && !isnan(x->value)) x->others = p->others + (at + r) * p->B;
      /* without covariates there is nothing to say */
      if (isnan(x->value) && all_nan(p->B, x->mean)) continue;
      to->n++;
    }
    qsort(to->point, (size_t)to->n, sizeof *to->point, by_time);
  }
  *n = t->n_series;
  *out = series;
  return ATVI_OK;
}

/* ---- CSV ---- */

static void cell(atvi_text *out, double x) {
  atvi_text_add(out, isnan(x) ? "," : ",%.9g", x); /* far beyond the Monte Carlo error */
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

/* Columns of the data that observations depend on; of several data sets none. */
typedef struct {
  const atvi_csv *csv; /* NULL: none */
  bool *used;          /* [n_col] */
  bool dated;          /* and a column `date` after them, unless one of them is called so */
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
  return ok ? ATVI_OK : ATVI_FAIL(atvi_pool_ctx(pool), ATVI_ENOMEM, "out of memory");
}

/* Where points are times, not rows. */
static void put_date(atvi_text *out, const atvi_lang *lang, atvi_idx s, const atvi_point *p) {
  char date[ATVI_APP_DATE] = "";
  if (!p->draw || lang->data[lang->observe[s].data].time) atvi_app_date(lang, p->time, date);
  atvi_text_add(out, ",%s", date);
}

/* Their names, or the cells of a row; row < 0: names. */
static void add_covariates(atvi_text *out, const covariates *c, bool observed, atvi_idx row) {
  for (atvi_idx k = 0; c->csv && k < c->csv->n_col; k++) {
    if (!c->used[k]) continue;
    atvi_text_add(out, ",");
    if (row < 0)
      atvi_app_field(out, c->csv->name[k]);
    else if (observed && row < c->csv->n_row)
      atvi_app_field(out, c->csv->text[row * c->csv->n_col + k]);
  }
}

/* As the file has it where it is censored; what only the model's limits hide is told by them. */
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
  atvi_text_add(out, "%s", below ? "<=" : above ? ">=" : "");
  atvi_text_number(out, below ? o->limit_lower : above ? o->limit_upper : p->value);
}

static void csv_line(atvi_text *out, const atvi_lang *lang, const atvi_predicted *series, atvi_idx k,
                     const atvi_point *p, const covariates *c) {
  const atvi_predicted *s = &series[k];
  atvi_app_field(out, s->name);
  atvi_text_add(out, ",%s,", s->kind);
  atvi_text_number(out, p->time);
  atvi_text_add(out, ",");
  put_value(out, lang, k, p);
  atvi_text_add(out, ",%s", status_of(p));
  band(out, &p->of_mean);
  band(out, &p->of_draw);
  cell(out, p->loo.lpd);
  cell(out, p->held ? NAN : p->loo.elpd_loo);
  cell(out, p->held ? NAN : p->loo.khat);
  add_covariates(out, c, p->draw != NULL, p->row);
  if (c->dated) put_date(out, lang, k, p);
  atvi_text_add(out, "\n");
}

atvi_status atvi_predict_csv(atvi_pool *pool, const atvi_loaded *l, atvi_idx n, const atvi_predicted *series,
                             bool (*wanted)(const atvi_point *p), const char **text) {
  atvi_text out = {.pool = pool};
  covariates c;
  ATVI_TRY(find_covariates(pool, l, &c));
  atvi_text_add(&out, "series,kind,time,value,status,mean,sd,median,hpd95_low,hpd95_high,"
                      "pred_mean,pred_sd,pred_median,pred_hpd95_low,pred_hpd95_high,lpd,elpd_loo,khat");
  add_covariates(&out, &c, true, -1);
  atvi_text_add(&out, c.dated ? ",date\n" : "\n");
  for (atvi_idx s = 0; s < n; s++)
    for (atvi_idx i = 0; i < series[s].n; i++)
      if (wanted(&series[s].point[i])) csv_line(&out, l->model->lang, series, s, &series[s].point[i], &c);
  return atvi_text_get(&out, text);
}

static void put_number(atvi_file *f, double x, const char *after) {
  char buf[ATVI_NUMBER_BYTES];
  if (!isnan(x)) atvi_file_put(f, buf, (size_t)atvi_format_number(buf, x));
  atvi_file_put(f, after, 1);
}

atvi_status atvi_predict_save_draws(atvi_ctx *ctx, atvi_pool *pool, const char *path, atvi_idx n,
                                    const atvi_predicted *series, const atvi_predict_draws *p) {
  atvi_file *f;
  const char **name = atvi_pool_take(pool, (size_t)n + 1, sizeof *name);
  if (!name) return ATVI_FAIL(ctx, ATVI_ENOMEM, "out of memory: series");
  for (atvi_idx s = 0; s < n; s++) {
    atvi_text quoted = {.pool = pool};
    atvi_app_field(&quoted, series[s].name);
    ATVI_TRY(atvi_text_get(&quoted, &name[s]));
  }
  ATVI_TRY(atvi_file_new(ctx, path, &f));
  atvi_file_printf(f, "draw__,series,time,mean,predictive\n");
  for (atvi_idx k = 0; k < p->B; k++)
    for (atvi_idx s = 0; s < n; s++)
      for (atvi_idx i = 0; i < series[s].n; i++) {
        const atvi_point *x = &series[s].point[i];
        atvi_file_printf(f, "%td,%s,", p->line[k], name[s]);
        put_number(f, x->time, ",");
        put_number(f, x->mean[k], ",");
        put_number(f, x->draw ? x->draw[k] : NAN, "\n");
      }
  atvi_status status = atvi_file_commit(f);
  atvi_file_free(f);
  return status;
}
