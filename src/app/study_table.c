/* SPDX-License-Identifier: MIT */
#include "app/study.h"
#include "diag/score.h"
#include <inttypes.h>
#include <math.h>
#include <stddef.h>

/* An average in its struct. */
typedef struct {
  const char *key;
  size_t offset;
} measure;

#define LINE(name)                                                                                           \
  { #name, offsetof(atvi_study_line, name) }
#define METHOD(name)                                                                                         \
  { #name, offsetof(atvi_study_method, name) }
enum { N_LINE = 4, N_METHOD = 6 };
static const measure LINES[N_LINE] = {LINE(coverage), LINE(mode), LINE(mse), LINE(length)};
static const measure METHODS[N_METHOD] = {METHOD(coverage), METHOD(ail),        METHOD(mspe),
                                          METHOD(ail_sum),  METHOD(mspe_draws), METHOD(seconds)};

static atvi_average *average_of(const measure *m, const void *row) {
  return (atvi_average *)(void *)((char *)row + m->offset);
}

atvi_status atvi_app_study_header(atvi_pool *pool, atvi_idx n, const atvi_quantity *quantity,
                                  const char **text) {
  static const char *const one[] = {"covered", "mode", "mean", "sd", "low", "high", NULL};
  static const char *const many[] = {"covered", "length", "mse", NULL}; /* means over its times */
  atvi_text out = {.pool = pool};
  atvi_app_repeat_header(&out, ATVI_STUDY_FIT);
  atvi_io_fields_names(&out, &atvi_diag_score_fields, ATVI_STUDY_SCORES);
  atvi_io_text_add(&out, ",data_hash");
  for (atvi_idx i = 0; i < n; i++)
    for (const char *const *k = quantity[i].kind == ATVI_QUANTITY_TRACKED ? many : one; *k; k++)
      atvi_io_text_add(&out, ",%s.%s", quantity[i].name, *k);
  return atvi_io_text_get(&out, text);
}

static const char *kind_word(atvi_quantity_kind kind) {
  static const char *const word[] = {"parameter", "derived", "tracked"};
  return word[kind];
}

/* ---- counting ---- */

typedef struct {
  double n, sum, square;
} sums;

static void add(sums *s, double x) {
  if (isnan(x)) return;
  s->n++;
  s->sum += x;
  s->square += x * x;
}

static atvi_average average(const sums *s) {
  atvi_average a = {(atvi_idx)s->n, NAN, NAN};
  if (s->n < 1) return a;
  a.value = s->sum / s->n;
  double variance = s->n > 1 ? fmax(0, s->square - s->n * a.value * a.value) / (s->n - 1) : NAN;
  a.error = sqrt(variance / s->n);
  return a;
}

/* A share of yes and no. If all agree the usual error would be 0, so two of each are added (Agresti and Coull
 * 1998). */
static atvi_average proportion(const sums *s) {
  atvi_average a = average(s);
  double p = (s->sum + 2) / (s->n + 4);
  if (a.n > 0) a.error = sqrt(p * (1 - p) / (s->n + 4));
  return a;
}

static sums column(const atvi_record_part *x, const char *name, const char *what) {
  sums s = {0};
  for (atvi_idx r = 0; r < x->csv->n_row; r++)
    if (atvi_app_record_good(x, r)) add(&s, atvi_app_record_number(x->csv, r, name, what));
  return s;
}

static void count_line(const atvi_record_part *x, const atvi_quantity *q, atvi_study_line *line) {
  sums covered = column(x, q->name, ".covered"), mode = {0}, square = {0}, length = {0};
  if (q->kind == ATVI_QUANTITY_TRACKED) {
    square = column(x, q->name, ".mse");
    length = column(x, q->name, ".length");
    line->coverage = average(&covered);
    line->mse = average(&square);
    line->length = average(&length);
    line->mode = average(&mode);
    return;
  }
  mode = column(x, q->name, ".mode");
  for (atvi_idx r = 0; r < x->csv->n_row; r++) {
    if (!atvi_app_record_good(x, r)) continue;
    double error = atvi_app_record_number(x->csv, r, q->name, ".mode") - q->truth;
    add(&square, error * error);
    add(&length, atvi_app_record_number(x->csv, r, q->name, ".high") -
                     atvi_app_record_number(x->csv, r, q->name, ".low"));
  }
  line->coverage = proportion(&covered);
  line->mode = average(&mode);
  line->mse = average(&square);
  line->length = average(&length);
}

static void count_scores(const atvi_record_part *x, atvi_study_method *m) {
  for (int k = 0; k < N_METHOD; k++) {
    sums all = column(x, "", METHODS[k].key);
    *average_of(&METHODS[k], m) = average(&all);
  }
  m->khat = m->rhat = NAN;
  for (atvi_idx r = 0; r < x->csv->n_row; r++) {
    if (!atvi_app_record_good(x, r)) continue;
    m->khat = fmax(m->khat, atvi_app_record_number(x->csv, r, "", "khat"));
    m->rhat = fmax(m->rhat, atvi_app_record_number(x->csv, r, "", "rhat"));
  }
}

atvi_status atvi_app_study_count(atvi_pool *pool, const atvi_csv *record, atvi_study *s) {
  s->failures = (atvi_failures){0};
  for (atvi_idx k = 0; k < s->n_method; k++) {
    atvi_study_method *m = &s->method[k];
    atvi_record_part x = {record, m->name, s->replicates};
    m->line = atvi_pool_take(pool, (size_t)s->n_quantity + 1, sizeof *m->line);
    if (!m->line) return ATVI_ENOMEM;
    ATVI_TRY(atvi_app_record_tally(pool, &x, true, &m->tally, &s->failures));
    for (atvi_idx i = 0; i < s->n_quantity; i++) count_line(&x, &s->quantity[i], &m->line[i]);
    count_scores(&x, m);
  }
  return ATVI_OK;
}

/* ---- terminal ---- */

static const atvi_field TRUTH[] = {
    ATVI_FIELD_SHOWN("truth", REAL, atvi_quantity, truth, "truth", 11, GENERAL, 4)};
static const atvi_field NUMBERS[] = {
    ATVI_FIELD_SHOWN("mode", REAL, atvi_study_line, mode.value, "mode", 11, GENERAL, 4),
    ATVI_FIELD_SHOWN("mse", REAL, atvi_study_line, mse.value, "MSE", 12, GENERAL, 4),
    ATVI_FIELD_SHOWN("length", REAL, atvi_study_line, length.value, "HPD length", 11, GENERAL, 4)};
static const atvi_fields TRUTH_FIELDS = ATVI_FIELDS(TRUTH), NUMBER_FIELDS = ATVI_FIELDS(NUMBERS);

static void share(atvi_text *out, const atvi_average *a) {
  if (a->n > 0 && isnan(a->error))
    atvi_io_text_add(out, " %6.1f %%%8s", 100 * a->value, "");
  else if (a->n > 0)
    atvi_io_text_add(out, " %6.1f %% +- %4.1f", 100 * a->value, 100 * a->error);
  else
    atvi_io_text_add(out, " %16s", "");
}

static void one(atvi_text *out, const char *name, const atvi_average *a) {
  if (a->n == 0) return;
  atvi_io_text_add(out, "  %-11s %.4g", name, a->value);
  if (!isnan(a->error)) atvi_io_text_add(out, " +- %.2g", a->error);
  atvi_io_text_add(out, "\n");
}

static void method_text(atvi_text *out, const atvi_study *s, const atvi_study_method *m) {
  atvi_io_text_add(out, "\n%s: ", m->name);
  atvi_app_tally_text(out, &m->tally);
  atvi_io_text_add(out, "\n");
  if (m->tally.n_done == 0) return;
  atvi_io_text_add(out, "  %-18s", "");
  atvi_io_fields_heading(out, &TRUTH_FIELDS, NULL);
  atvi_io_text_add(out, "%17s", "coverage");
  atvi_io_fields_heading(out, &NUMBER_FIELDS, NULL);
  atvi_io_text_add(out, "\n");
  for (atvi_idx i = 0; i < s->n_quantity; i++) {
    const atvi_quantity *q = &s->quantity[i];
    atvi_io_text_add(out, "  %-18.40s", q->name);
    atvi_io_fields_row(out, &TRUTH_FIELDS, q, NULL, kind_word(q->kind));
    share(out, &m->line[i].coverage);
    atvi_io_fields_row(out, &NUMBER_FIELDS, &m->line[i], NULL, "");
    atvi_io_text_add(out, "\n");
  }
  if (m->coverage.n > 0) atvi_io_text_add(out, "  data in 95 %% %.1f %%", 100 * m->coverage.value);
  if (m->coverage.n > 1) atvi_io_text_add(out, " +- %.1f", 100 * m->coverage.error);
  if (m->coverage.n > 0) atvi_io_text_add(out, "\n");
  one(out, "AIL", &m->ail);
  one(out, "MSPE", &m->mspe);
  atvi_io_text_add(out, "  %-11s %.3g per fit, %.3g in total\n", "seconds", m->seconds.value,
                   m->seconds.value * (double)m->seconds.n);
  if (!isnan(m->khat)) atvi_io_text_add(out, "  %-11s %.2f at worst\n", "k-hat", m->khat);
  if (!isnan(m->rhat)) atvi_io_text_add(out, "  %-11s %.3f at worst\n", "R-hat", m->rhat);
}

atvi_status atvi_app_study_text(atvi_pool *pool, const atvi_study *s, const char **text) {
  atvi_text out = {.pool = pool};
  atvi_io_text_add(&out, "%s, %td replicate%s, seed %" PRIu64 "\n", s->model, s->replicates,
                   s->replicates == 1 ? "" : "s", s->seed);
  for (atvi_idx k = 0; k < s->n_method; k++) method_text(&out, s, &s->method[k]);
  atvi_app_failures_text(&out, &s->failures);
  return atvi_io_text_get(&out, text);
}

/* ---- files ---- */

/* The averages in the row of a method or, with q, of one of its quantities. */
static void add_rows(atvi_text *out, const char *method, const atvi_quantity *q, int n, const measure *list,
                     const void *row) {
  for (int k = 0; k < n; k++) {
    const atvi_average *a = average_of(&list[k], row);
    if (a->n == 0) continue;
    atvi_io_text_add(out, "%s,", method);
    atvi_app_field(out, q ? q->name : "");
    atvi_io_text_add(out, ",%s,%s,%td,", q ? kind_word(q->kind) : "fit", list[k].key, a->n);
    atvi_io_text_number(out, a->value);
    atvi_io_text_add(out, ",");
    atvi_io_text_number(out, a->error);
    atvi_io_text_add(out, "\n");
  }
}

atvi_status atvi_app_study_csv(atvi_pool *pool, const atvi_study *s, const char **text) {
  atvi_text out = {.pool = pool};
  atvi_io_text_add(&out, "method,quantity,kind,measure,n,value,error\n");
  for (const atvi_study_method *m = s->method; m < s->method + s->n_method; m++) {
    for (atvi_idx i = 0; i < s->n_quantity; i++)
      add_rows(&out, m->name, &s->quantity[i], N_LINE, LINES, &m->line[i]);
    add_rows(&out, m->name, NULL, N_METHOD, METHODS, m);
  }
  return atvi_io_text_get(&out, text);
}

static void put_averages(atvi_json *w, int n, const measure *list, const void *row) {
  for (int k = 0; k < n; k++) {
    const atvi_average *a = average_of(&list[k], row);
    if (a->n == 0) {
      atvi_io_json_put(w, list[k].key, json_null());
      continue;
    }
    atvi_io_json_object(w, list[k].key);
    atvi_io_json_put(w, "value", atvi_io_json_real(a->value));
    atvi_io_json_put(w, "error", atvi_io_json_real(a->error));
    atvi_io_json_end(w);
  }
}

static void put_method(atvi_json *w, const atvi_study *s, const atvi_study_method *m) {
  atvi_io_json_object(w, NULL);
  atvi_io_json_put(w, "method", json_string(m->name));
  atvi_app_tally_json(w, &m->tally);
  atvi_io_json_list(w, "quantities");
  for (atvi_idx i = 0; i < s->n_quantity; i++) {
    atvi_io_json_object(w, NULL);
    atvi_io_json_put(w, "name", atvi_io_json_word(w->pool, s->quantity[i].name));
    atvi_io_json_put(w, "kind", json_string(kind_word(s->quantity[i].kind)));
    atvi_io_json_put(w, "truth", atvi_io_json_real(s->quantity[i].truth));
    put_averages(w, N_LINE, LINES, &m->line[i]);
    atvi_io_json_end(w);
  }
  atvi_io_json_end(w);
  put_averages(w, N_METHOD, METHODS, m);
  atvi_io_json_put(w, "khat", atvi_io_json_real(m->khat));
  atvi_io_json_put(w, "rhat", atvi_io_json_real(m->rhat));
  atvi_io_json_end(w);
}

atvi_status atvi_app_study_json(atvi_pool *pool, const atvi_study *s, const char **text) {
  atvi_json w = {.pool = pool, .digits = 17};
  atvi_io_json_object(&w, NULL);
  atvi_io_json_put(&w, "model", atvi_io_json_word(pool, s->model));
  atvi_io_json_put(&w, "seed", atvi_io_json_seed(pool, s->seed));
  atvi_io_json_put(&w, "replicates", json_integer(s->replicates));
  atvi_io_json_list(&w, "methods");
  for (atvi_idx k = 0; k < s->n_method; k++) put_method(&w, s, &s->method[k]);
  atvi_io_json_end(&w);
  atvi_io_json_words(&w, "failures", s->failures.n, s->failures.of);
  return atvi_io_json_get(&w, "study", text);
}
