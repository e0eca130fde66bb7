/* SPDX-License-Identifier: MIT */
/* Several fits to the same data side by side, by leave-one-out cross-validation. What is compared is read from the folders that atvi predict has
 * written. With e_i the log density of value i given all the others, elpd is the sum of e_i, and the difference of two fits is the sum of
 * their differences d_i, with standard error sqrt(n var(d_i)): paired, since values that are hard to predict are so for every model
 * (Vehtari, Gelman and Gabry 2017, section 5.2). */
#include "app/predict.h"
#include "io/csv.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* One value that was fitted. */
typedef struct {
  const char *series;
  double time, value, elpd;
} entry;

typedef struct {
  const char *dir, *model, *method;
  atvi_idx n;
  entry *of;      /* [n], in an order that all fits have */
  double p;       /* effective parameters; NaN: not known */
  atvi_idx n_bad; /* k-hat above its threshold */
  double elpd, se, difference, difference_se;
} candidate;

typedef struct {
  atvi_ctx *ctx;
  atvi_pool *pool;
  atvi_idx n;
  candidate *of; /* [n] best first */
  atvi_idx n_note, cap_note;
  const char **note;
} comparison;

static atvi_status nomem(const comparison *c) { return ATVI_FAIL(c->ctx, ATVI_ENOMEM, "out of memory"); }

static const char *copy(const comparison *c, const char *s) {
  return s ? atvi_pool_strndup(c->pool, s, strlen(s)) : NULL;
}

/* ---- reading ---- */

static int by_place(const void *a, const void *b) {
  const entry *x = a, *y = b;
  int name = strcmp(x->series, y->series);
  if (name) return name;
  if (x->time != y->time) return x->time < y->time ? -1 : 1;
  return (x->value > y->value) - (x->value < y->value);
}

static atvi_status read_values(comparison *c, candidate *k) {
  static const char *const name[] = {"series", "time", "value", "elpd_loo", "status"};
  const char *path = atvi_pool_printf(c->pool, "%s/predict.csv", k->dir);
  atvi_csv *csv;
  atvi_idx at[5];
  if (!path) return nomem(c);
  ATVI_TRY(atvi_csv_read(c->pool, path, &csv));
  for (int i = 0; i < 5; i++) at[i] = atvi_csv_find(csv, name[i]);
  k->of = atvi_pool_take(c->pool, (size_t)csv->n_row + 1, sizeof *k->of);
  if (!k->of) return nomem(c);
  for (atvi_idx r = 0; r < csv->n_row; r++) {
    const char *status = csv->text[r * csv->n_col + at[4]];
    if (strcmp(status, "fitted") != 0 && strcmp(status, "censored") != 0) continue;
    const double *row = csv->value + r * csv->n_col;
    k->of[k->n++] = (entry){csv->text[r * csv->n_col + at[0]], row[at[1]], row[at[2]], row[at[3]]};
  }
  qsort(k->of, (size_t)k->n, sizeof *k->of, by_place);
  return ATVI_OK;
}

static atvi_status read_scores(comparison *c, candidate *k, const char *text) {
  json_t *root = json_loads(text, 0, NULL);
  const json_t *loo = json_object_get(root, "loo");
  if (!root) return nomem(c);
  k->model = copy(c, json_string_value(json_object_get(root, "model")));
  k->method = copy(c, json_string_value(json_object_get(root, "method")));
  k->n_bad = (atvi_idx)json_integer_value(json_object_get(loo, "khat_above"));
  k->p = atvi_json_number(loo, "p");
  json_decref(root);
  return k->model && k->method ? ATVI_OK : nomem(c);
}

static atvi_status take(comparison *c, const atvi_app_predict_result *r, candidate *k) {
  k->dir = copy(c, r->dir);
  if (!k->dir) return nomem(c);
  for (atvi_idx i = 0; i < r->n_note; i++) {
    if (!ATVI_PUSH(c->pool, c->note, c->n_note, c->cap_note)) return nomem(c);
    c->note[c->n_note] = atvi_pool_printf(c->pool, "%s: %s", k->dir, r->note[i]);
    if (!c->note[c->n_note++]) return nomem(c);
  }
  ATVI_TRY(read_scores(c, k, r->json));
  return read_values(c, k);
}

/* Predictions are large: each has memory of its own. */
static atvi_status add(comparison *c, const atvi_app_predict_opts *opts, const char *where) {
  atvi_app_predict_opts one = *opts;
  atvi_app_predict_result r;
  atvi_pool *pool;
  one.where = where;
  ATVI_TRY(atvi_pool_new(c->ctx, &pool));
  atvi_status status = atvi_app_predict(c->ctx, pool, &one, &r);
  if (status == ATVI_OK && strncmp(r.files, "predict", 7) != 0)
    status =
        ATVI_FAIL(c->ctx, ATVI_EINVAL, "--data has no observations: there is nothing to compare fits by");
  if (status == ATVI_OK) status = take(c, &r, &c->of[c->n++]);
  atvi_pool_free(pool);
  return status;
}

/* ---- comparing ---- */

static atvi_status check_same(const comparison *c) {
  const candidate *a = &c->of[0];
  for (atvi_idx k = 1; k < c->n; k++) {
    const candidate *b = &c->of[k];
    if (a->n != b->n)
      return ATVI_FAIL(
          c->ctx, ATVI_EINVAL,
          "%s was fitted to %td values and %s to %td: fits can be compared if they were fitted to the "
          "same data",
          a->dir, a->n, b->dir, b->n);
    for (atvi_idx i = 0; i < a->n; i++)
      if (by_place(&a->of[i], &b->of[i]) != 0)
        return ATVI_FAIL(
            c->ctx, ATVI_EINVAL,
            "%s was fitted to %s = %g at %g and %s to %s = %g at %g: fits can be compared if they were "
            "fitted to the same data",
            a->dir, a->of[i].series, a->of[i].value, a->of[i].time, b->dir, b->of[i].series, b->of[i].value,
            b->of[i].time);
  }
  return ATVI_OK;
}

/* Sum of x_i - y_i and its standard error; y NULL: of x_i. */
static void sum(atvi_idx n, const entry *x, const entry *y, double *total, double *se) {
  double mean = 0, square = 0;
  for (atvi_idx i = 0; i < n; i++) mean += (x[i].elpd - (y ? y[i].elpd : 0)) / (double)n;
  for (atvi_idx i = 0; i < n; i++) {
    double d = x[i].elpd - (y ? y[i].elpd : 0) - mean;
    square += d * d;
  }
  *total = mean * (double)n;
  *se = n > 1 ? sqrt((double)n / (double)(n - 1) * square) : NAN;
}

static int by_elpd(const void *a, const void *b) {
  double x = ((const candidate *)a)->elpd, y = ((const candidate *)b)->elpd;
  if (isnan(x) || isnan(y)) return isnan(x) - isnan(y); /* what is not known comes last */
  return (x < y) - (x > y);
}

static void rank(comparison *c) {
  for (atvi_idx k = 0; k < c->n; k++) sum(c->of[k].n, c->of[k].of, NULL, &c->of[k].elpd, &c->of[k].se);
  qsort(c->of, (size_t)c->n, sizeof *c->of, by_elpd);
  for (atvi_idx k = 0; k < c->n; k++)
    sum(c->of[k].n, c->of[k].of, c->of[0].of, &c->of[k].difference, &c->of[k].difference_se);
}

/* ---- telling ---- */

#define FIT(name, heading, width) ATVI_FIELD_SHOWN(#name, REAL, candidate, name, heading, width, FIXED, 2)
static const atvi_field FITS[] = {ATVI_FIELD_AS("folder", WORD, candidate, dir),
                                  ATVI_FIELD(WORD, candidate, model),
                                  ATVI_FIELD(WORD, candidate, method),
                                  FIT(elpd, "elpd", 10),
                                  FIT(se, "+-", 10),
                                  FIT(difference, "difference", 12),
                                  FIT(difference_se, "+-", 10),
                                  FIT(p, "p", 10),
                                  ATVI_FIELD_AS("khat_above", COUNT, candidate, n_bad)};
static const atvi_fields FIT_FIELDS = ATVI_FIELDS(FITS);
static const char SHOWN[] = "elpd se difference difference_se p";

static atvi_status tell(const comparison *c, const char **text) {
  atvi_text t = {.pool = c->pool};
  int width = 12;
  atvi_idx bad = 0;
  for (atvi_idx k = 0; k < c->n; k++)
    if ((int)strlen(c->of[k].dir) > width) width = (int)strlen(c->of[k].dir);
  if (width > 32) width = 32;
  atvi_text_add(&t, "leave-one-out log density of %td values, the best first\n\n", c->of[0].n);
  atvi_text_add(&t, "%-*s  %-8s", width, "", "method");
  atvi_fields_heading(&t, &FIT_FIELDS, SHOWN);
  atvi_text_add(&t, "%8s\n", "k-hat");
  for (atvi_idx k = 0; k < c->n; k++) {
    candidate x = c->of[k];
    int n = (int)strlen(x.dir), skip = n > width ? n - width : 0;
    if (k == 0) x.difference = x.difference_se = NAN; /* from itself */
    atvi_text_add(&t, "%-*s  %-8s", width, x.dir + skip, x.method);
    atvi_fields_row(&t, &FIT_FIELDS, &x, SHOWN, "-");
    if (x.n_bad)
      atvi_text_add(&t, "%4td bad\n", x.n_bad);
    else
      atvi_text_add(&t, "%8s\n", "ok");
    bad += x.n_bad;
  }
  atvi_text_add(&t, "\na difference below 4, or below twice its error, does not decide between two models\n");
  if (bad) atvi_text_add(&t, "values with a bad k-hat decide their fit: LOO is not reliable for them\n");
  for (atvi_idx i = 0; i < c->n_note; i++) atvi_text_wrap(&t, "note:", 2, c->note[i]);
  return atvi_text_get(&t, text);
}

static atvi_status fits_json(const comparison *c, const char **text) {
  atvi_json w = {.pool = c->pool};
  atvi_json_object(&w, NULL);
  atvi_json_put(&w, "n", json_integer(c->of[0].n));
  atvi_json_list(&w, "fits");
  for (atvi_idx k = 0; k < c->n; k++) {
    atvi_json_object(&w, NULL);
    atvi_fields_json(&w, &FIT_FIELDS, &c->of[k], NULL);
    atvi_json_end(&w);
  }
  atvi_json_end(&w);
  atvi_json_words(&w, "messages", c->n_note, c->note);
  return atvi_json_get(&w, "predict", text);
}

atvi_status atvi_app_predict_many(atvi_ctx *ctx, atvi_pool *pool, const atvi_app_predict_opts *opts,
                                  atvi_idx n, const char *const *where, atvi_app_predict_result *result) {
  comparison c = {.ctx = ctx, .pool = pool};
  *result = (atvi_app_predict_result){0};
  if (opts->out) return ATVI_FAIL(ctx, ATVI_EINVAL, "--out %s: want one fit, not %td", opts->out, n);
  c.of = atvi_pool_take(pool, (size_t)n, sizeof *c.of);
  if (!c.of) return nomem(&c);
  for (atvi_idx k = 0; k < n; k++) ATVI_TRY(add(&c, opts, where[k]));
  ATVI_TRY(check_same(&c));
  if (c.of[0].n == 0) return ATVI_FAIL(ctx, ATVI_EINVAL, "%s: nothing was observed", c.of[0].dir);
  rank(&c);
  ATVI_TRY(tell(&c, &result->text));
  ATVI_TRY(fits_json(&c, &result->json));
  result->n_note = c.n_note;
  result->note = c.note;
  return ATVI_OK;
}
