/* SPDX-License-Identifier: MIT */
#include "app/study.h"
#include "io/json.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const VERDICT[3] = {"ok", "warn", "bad"};

atvi_status atvi_study_header(atvi_pool *pool, atvi_idx n, const atvi_quantity *quantity, const char **text) {
  static const char *const one[] = {"covered", "mode", "mean", "sd", "low", "high", NULL};
  static const char *const many[] = {"covered", "length", "mse", NULL}; /* means over its times */
  atvi_text out = {.pool = pool};
  atvi_text_add(&out, "replicate,method,status,reason,verdict,seed,seconds,evaluations,khat,rhat,ess,log_map,"
                      "log_evidence,coverage,ail,mspe,ail_sum,mspe_draws,data_hash");
  for (atvi_idx i = 0; i < n; i++)
    for (const char *const *k = quantity[i].kind[0] == 't' ? many : one; *k; k++)
      atvi_text_add(&out, ",%s.%s", quantity[i].name, *k);
  return atvi_text_get(&out, text);
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

/* A share of yes and no. Where all agree the usual error would be 0, hence two of each are added (Agresti and Coull 1998). */
static atvi_average proportion(const sums *s) {
  atvi_average a = average(s);
  double p = (s->sum + 2) / (s->n + 4);
  if (a.n > 0) a.error = sqrt(p * (1 - p) / (s->n + 4));
  return a;
}

typedef struct {
  const atvi_csv *csv;
  const char *method;
  atvi_idx replicates;
} selection;

static bool mine(const selection *x, atvi_idx row) {
  return strcmp(atvi_record_text(x->csv, row, "method"), x->method) == 0 &&
         atvi_record_number(x->csv, row, "", "replicate") <= (double)x->replicates;
}

static bool good(const selection *x, atvi_idx row) {
  return mine(x, row) && strcmp(atvi_record_text(x->csv, row, "status"), "ok") == 0;
}

static sums column(const selection *x, const char *name, const char *what) {
  sums s = {0};
  for (atvi_idx r = 0; r < x->csv->n_row; r++)
    if (good(x, r)) add(&s, atvi_record_number(x->csv, r, name, what));
  return s;
}

static void count_line(const selection *x, const atvi_quantity *q, atvi_study_line *line) {
  sums covered = column(x, q->name, ".covered"), mode = {0}, square = {0}, length = {0};
  if (q->kind[0] == 't') {
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
    if (!good(x, r)) continue;
    double error = atvi_record_number(x->csv, r, q->name, ".mode") - q->truth;
    add(&square, error * error);
    add(&length,
        atvi_record_number(x->csv, r, q->name, ".high") - atvi_record_number(x->csv, r, q->name, ".low"));
  }
  line->coverage = proportion(&covered);
  line->mode = average(&mode);
  line->mse = average(&square);
  line->length = average(&length);
}

static void count_scores(const selection *x, atvi_study_method *m) {
  static const char *const name[] = {"coverage", "ail", "mspe", "ail_sum", "mspe_draws", "seconds"};
  atvi_average *const to[] = {&m->coverage, &m->ail, &m->mspe, &m->ail_sum, &m->mspe_draws, &m->seconds};
  for (int k = 0; k < 6; k++) {
    sums s = column(x, "", name[k]);
    *to[k] = average(&s);
  }
  m->khat = m->rhat = NAN;
  for (atvi_idx r = 0; r < x->csv->n_row; r++) {
    if (!good(x, r)) continue;
    m->khat = fmax(m->khat, atvi_record_number(x->csv, r, "", "khat"));
    m->rhat = fmax(m->rhat, atvi_record_number(x->csv, r, "", "rhat"));
  }
}

atvi_status atvi_study_count(atvi_pool *pool, const atvi_csv *record, atvi_study *s) {
  atvi_idx cap = 0;
  s->n_failure = 0;
  for (atvi_idx k = 0; k < s->n_method; k++) {
    atvi_study_method *m = &s->method[k];
    selection x = {record, m->name, s->replicates};
    m->line = atvi_pool_take(pool, (size_t)s->n_quantity + 1, sizeof *m->line);
    if (!m->line) return ATVI_FAIL(atvi_pool_ctx(pool), ATVI_ENOMEM, "out of memory");
    for (atvi_idx r = 0; r < record->n_row; r++) {
      if (!mine(&x, r)) continue;
      m->n_done += good(&x, r);
      for (int v = 0; v < 3; v++)
        m->n_verdict[v] += strcmp(atvi_record_text(record, r, "verdict"), VERDICT[v]) == 0;
      if (good(&x, r)) continue;
      m->n_failed++;
      if (!ATVI_PUSH(pool, s->failure, s->n_failure, cap)) break;
      s->failure[s->n_failure++] =
          atvi_pool_printf(pool, "replicate %.0f, %s: %s", atvi_record_number(record, r, "", "replicate"),
                           m->name, atvi_record_text(record, r, "reason"));
    }
    for (atvi_idx i = 0; i < s->n_quantity; i++) count_line(&x, &s->quantity[i], &m->line[i]);
    count_scores(&x, m);
  }
  return atvi_pool_failed(pool) ? ATVI_FAIL(atvi_pool_ctx(pool), ATVI_ENOMEM, "out of memory") : ATVI_OK;
}

/* ---- terminal ---- */

static void cell(atvi_text *out, int width, double x) {
  if (isnan(x))
    atvi_text_add(out, " %*s", width, "");
  else
    atvi_text_add(out, " %*.4g", width, x);
}

static void share(atvi_text *out, const atvi_average *a) {
  if (a->n > 0 && isnan(a->error))
    atvi_text_add(out, " %6.1f %%%8s", 100 * a->value, "");
  else if (a->n > 0)
    atvi_text_add(out, " %6.1f %% +- %4.1f", 100 * a->value, 100 * a->error);
  else
    atvi_text_add(out, " %16s", "");
}

static void one(atvi_text *out, const char *name, const atvi_average *a) {
  if (a->n == 0) return;
  atvi_text_add(out, "  %-11s %.4g", name, a->value);
  if (!isnan(a->error)) atvi_text_add(out, " +- %.2g", a->error);
  atvi_text_add(out, "\n");
}

static void method_text(atvi_text *out, const atvi_study *s, const atvi_study_method *m) {
  atvi_text_add(out, "\n%s: %td fit%s, %td failed; verdicts: %td ok, %td warn, %td bad\n", m->name, m->n_done,
                m->n_done == 1 ? "" : "s", m->n_failed, m->n_verdict[0], m->n_verdict[1], m->n_verdict[2]);
  if (m->n_done == 0) return;
  atvi_text_add(out, "  %-18s %10s  %15s %10s %11s %10s\n", "", "truth", "coverage", "mode", "MSE",
                "HPD length");
  for (atvi_idx i = 0; i < s->n_quantity; i++) {
    const atvi_study_line *l = &m->line[i];
    atvi_text_add(out, "  %-18.40s", s->quantity[i].name);
    if (isnan(s->quantity[i].truth))
      atvi_text_add(out, " %10s", s->quantity[i].kind);
    else
      cell(out, 10, s->quantity[i].truth);
    share(out, &l->coverage);
    cell(out, 10, l->mode.value);
    cell(out, 11, l->mse.value);
    cell(out, 10, l->length.value);
    atvi_text_add(out, "\n");
  }
  if (m->coverage.n > 0) atvi_text_add(out, "  data in 95 %% %.1f %%", 100 * m->coverage.value);
  if (m->coverage.n > 1) atvi_text_add(out, " +- %.1f", 100 * m->coverage.error);
  if (m->coverage.n > 0) atvi_text_add(out, "\n");
  one(out, "AIL", &m->ail);
  one(out, "MSPE", &m->mspe);
  atvi_text_add(out, "  %-11s %.3g a fit, %.3g in all\n", "seconds", m->seconds.value,
                m->seconds.value * (double)m->seconds.n);
  if (!isnan(m->khat)) atvi_text_add(out, "  %-11s %.2f at worst\n", "k-hat", m->khat);
  if (!isnan(m->rhat)) atvi_text_add(out, "  %-11s %.3f at worst\n", "R-hat", m->rhat);
}

atvi_status atvi_study_text(atvi_pool *pool, const atvi_study *s, const char **text) {
  atvi_text out = {.pool = pool};
  atvi_text_add(&out, "%s, %td replicate%s, seed %" PRIu64 "\n", s->model, s->replicates,
                s->replicates == 1 ? "" : "s", s->seed);
  for (atvi_idx k = 0; k < s->n_method; k++) method_text(&out, s, &s->method[k]);
  for (atvi_idx i = 0; i < s->n_failure; i++)
    atvi_text_add(&out, "%sfailed: %.200s\n", i ? "" : "\n", s->failure[i]);
  return atvi_text_get(&out, text);
}

/* ---- files ---- */

static void row(atvi_text *out, const char *method, const atvi_quantity *q, const char *measure,
                const atvi_average *a) {
  if (a->n == 0) return;
  atvi_text_add(out, "%s,", method);
  atvi_app_field(out, q ? q->name : "");
  atvi_text_add(out, ",%s,%s,%td,", q ? q->kind : "fit", measure, a->n);
  atvi_text_number(out, a->value);
  atvi_text_add(out, ",");
  atvi_text_number(out, a->error);
  atvi_text_add(out, "\n");
}

atvi_status atvi_study_csv(atvi_pool *pool, const atvi_study *s, const char **text) {
  atvi_text out = {.pool = pool};
  atvi_text_add(&out, "method,quantity,kind,measure,n,value,error\n");
  for (atvi_idx k = 0; k < s->n_method; k++) {
    const atvi_study_method *m = &s->method[k];
    for (atvi_idx i = 0; i < s->n_quantity; i++) {
      row(&out, m->name, &s->quantity[i], "coverage", &m->line[i].coverage);
      row(&out, m->name, &s->quantity[i], "mode", &m->line[i].mode);
      row(&out, m->name, &s->quantity[i], "mse", &m->line[i].mse);
      row(&out, m->name, &s->quantity[i], "length", &m->line[i].length);
    }
    row(&out, m->name, NULL, "coverage", &m->coverage);
    row(&out, m->name, NULL, "ail", &m->ail);
    row(&out, m->name, NULL, "mspe", &m->mspe);
    row(&out, m->name, NULL, "ail_sum", &m->ail_sum);
    row(&out, m->name, NULL, "mspe_draws", &m->mspe_draws);
    row(&out, m->name, NULL, "seconds", &m->seconds);
  }
  return atvi_text_get(&out, text);
}

static json_t *number(double x) { return isfinite(x) ? json_real(x) : json_null(); }

static void put(json_t *to, const char *name, const atvi_average *a) {
  json_object_set_new(to, name,
                      a->n ? json_pack("{s:o,s:o}", "value", number(a->value), "error", number(a->error))
                           : json_null());
}

static json_t *method_json(atvi_pool *pool, const atvi_study *s, const atvi_study_method *m) {
  json_t *root = json_object(), *verdicts = json_object(), *lines = json_array();
  json_object_set_new(root, "method", json_string(m->name));
  json_object_set_new(root, "done", json_integer(m->n_done));
  json_object_set_new(root, "failed", json_integer(m->n_failed));
  for (int v = 0; v < 3; v++) json_object_set_new(verdicts, VERDICT[v], json_integer(m->n_verdict[v]));
  json_object_set_new(root, "verdicts", verdicts);
  for (atvi_idx i = 0; i < s->n_quantity; i++) {
    json_t *line = json_object();
    json_object_set_new(line, "name", atvi_json_word(pool, s->quantity[i].name));
    json_object_set_new(line, "kind", json_string(s->quantity[i].kind));
    json_object_set_new(line, "truth", number(s->quantity[i].truth));
    put(line, "coverage", &m->line[i].coverage);
    put(line, "mode", &m->line[i].mode);
    put(line, "mse", &m->line[i].mse);
    put(line, "length", &m->line[i].length);
    json_array_append_new(lines, line);
  }
  json_object_set_new(root, "quantities", lines);
  put(root, "coverage", &m->coverage);
  put(root, "ail", &m->ail);
  put(root, "mspe", &m->mspe);
  put(root, "ail_sum", &m->ail_sum);
  put(root, "mspe_draws", &m->mspe_draws);
  put(root, "seconds", &m->seconds);
  json_object_set_new(root, "khat", number(m->khat));
  json_object_set_new(root, "rhat", number(m->rhat));
  return root;
}

atvi_status atvi_study_json(atvi_pool *pool, const atvi_study *s, const char **text) {
  json_t *root = json_object(), *methods = json_array(), *failures = json_array();
  json_object_set_new(root, "model", atvi_json_word(pool, s->model));
  json_object_set_new(root, "seed", atvi_json_seed(pool, s->seed));
  json_object_set_new(root, "replicates", json_integer(s->replicates));
  for (atvi_idx k = 0; k < s->n_method; k++)
    json_array_append_new(methods, method_json(pool, s, &s->method[k]));
  json_object_set_new(root, "methods", methods);
  for (atvi_idx i = 0; i < s->n_failure; i++)
    json_array_append_new(failures, atvi_json_word(pool, s->failure[i]));
  json_object_set_new(root, "failures", failures);
  char *dump = json_dumps(root, JSON_INDENT(2));
  json_decref(root);
  *text = dump ? atvi_pool_printf(pool, "%s\n", dump) : NULL;
  free(dump);
  return *text ? ATVI_OK : ATVI_FAIL(atvi_pool_ctx(pool), ATVI_ENOMEM, "out of memory");
}
