/* SPDX-License-Identifier: MIT */
/* Runs for an emulator: matrices in CSV files, or the record of a simulator, with inputs in the unit cube.
 *
 * A Gaussian process is as smooth at one end of an input as at the other. Runs of an input without an upper
 * bound, such as a rate with a lognormal prior, lie close together near its lower one and far apart beyond,
 * and so do the places where the output changes. Where the logarithm of such an input is spread more evenly
 * over its range than the input itself, the logarithm takes its place. The runs decide, not the prior: an
 * ensemble that was made evenly over a range stays as it is. */
#include "model/dossier.h"
#include "io/csv.h"
#include "io/text.h"
#include "io/file.h"
#include "math/stat/stat.h"
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- inputs ---- */

/* On a log scale the middle of the runs must be nearer to that of the range by this factor, and the range
 * this many times its lower end. */
static const double BETTER = 0.8, SPAN = 5;

/* How far the median is from the middle of the ends, in half ranges. */
static double lean(double least, double median, double most) {
  return fabs(least + most - 2 * median) / (most - least);
}

bool atvi_model_emulated_axis_log(atvi_idx n, double *value, double base) {
  qsort(value, (size_t)n, sizeof *value, atvi_math_by_value);
  double least = value[0] - base, most = value[n - 1] - base;
  double median = 0.5 * (value[(n - 1) / 2] + value[n / 2]) - base;
  if (!(least > 0 && most > SPAN * least && isfinite(most))) return false;
  return lean(log(least), log(median), log(most)) < BETTER * lean(least, median, most);
}

void atvi_model_emulated_axis_set(atvi_emulated_axis *a, double base, double lower, double upper) {
  a->base = base;
  a->lower = isnan(base) ? lower : log(lower - base);
  double end = isnan(base) ? upper : log(upper - base);
  a->width = end > a->lower ? end - a->lower : 1;
}

/* At the bound itself the logarithm would not be finite: a point so near to it is as good. */
double atvi_model_emulated_axis_x(const atvi_emulated_axis *a, double theta) {
  double s = isnan(a->base) ? theta : log(fmax(theta - a->base, DBL_MIN));
  return (s - a->lower) / a->width;
}

double atvi_model_emulated_axis_theta(const atvi_emulated_axis *a, double x) {
  double s = a->lower + a->width * x;
  return isnan(a->base) ? s : a->base + exp(s);
}

double atvi_model_emulated_axis_slope(const atvi_emulated_axis *a, double x) {
  return isnan(a->base) ? 1 / a->width : exp(-(a->lower + a->width * x)) / a->width;
}

/* ---- runs ---- */

typedef struct {
  atvi_ctx *ctx;
  atvi_pool *pool; /* of the results */
  atvi_pool *room; /* files */
  const atvi_lang *lang;
  const atvi_lang_emulator *em;
} reading;

/* Something is wrong with a file; the statement of the model that names it is shown. */
static atvi_status wrong(const reading *r, atvi_place at, const char *path, const char *what) {
  char shown[ATVI_EXCERPT_BYTES];
  atvi_io_excerpt(r->lang->source, strlen(r->lang->source), at.line, at.column, false, shown);
  return ATVI_FAIL(r->ctx, ATVI_EDATA, "%s:1:1: error: %s\nasked for in %s:%d:%d\n%s", path, what,
                   r->lang->path, at.line, at.column, shown);
}

static atvi_status wrong_cell(const reading *r, const atvi_csv *csv, atvi_idx row, atvi_idx col,
                              const char *what, const char *hint) {
  char shown[ATVI_EXCERPT_BYTES];
  int line = csv->line[row], column = csv->column[row * csv->n_col + col];
  atvi_io_excerpt(csv->source, csv->n_source, line, column, true, shown);
  return ATVI_FAIL(r->ctx, ATVI_EDATA, "%s:%d:%d: error: %s\n%s\nhint: %s", csv->path, line, column, what,
                   shown, hint);
}

/* *value[rows][cols] of a file; *csv for messages. */
static atvi_status read_cells(const reading *r, const atvi_lang_matrix *m, atvi_csv **csv, atvi_idx *rows,
                              atvi_idx *cols, double **value) {
  ATVI_TRY(atvi_io_csv_read(r->room, m->path, csv));
  const atvi_csv *c = *csv;
  atvi_idx last = m->last > 0 ? m->last : c->n_col;
  char what[200];
  if (m->first > c->n_col || last > c->n_col) {
    snprintf(what, sizeof what, "the file has %td columns, and column %td is asked for", c->n_col,
             m->first > last ? m->first : last);
    return wrong(r, m->place, c->path, what);
  }
  *rows = c->n_row;
  *cols = last - m->first + 1;
  double *v = *value = atvi_pool_take(r->pool, (size_t)(*rows * *cols + 1), sizeof *v);
  if (!v) return ATVI_ENOMEM;
  for (atvi_idx i = 0; i < *rows; i++)
    for (atvi_idx j = 0; j < *cols; j++) {
      atvi_idx col = m->first - 1 + j, at = i * c->n_col + col;
      if (c->kind[at] != ATVI_CELL_NUMBER) {
        snprintf(what, sizeof what, "'%.60s' is not a number", c->text[at]);
        return wrong_cell(r, c, i, col, c->kind[at] == ATVI_CELL_MISSING ? "a value is missing" : what,
                          "every run needs all of its numbers; leave out the lines of runs that failed");
      }
      v[i * *cols + j] = c->value[at];
    }
  return ATVI_OK;
}

/* The same for the largest file; *csv has just its size. */
static atvi_status read_outputs(const reading *r, atvi_csv **csv, atvi_idx *rows, atvi_idx *cols,
                                double **value) {
  const atvi_lang_matrix *m = &r->em->outputs;
  atvi_csv *size = *csv = atvi_pool_take(r->room, 1, sizeof *size);
  if (!size) return ATVI_ENOMEM;
  size->path = m->path;
  ATVI_TRY(atvi_io_matrix_read(r->pool, m->path, m->first, m->last, &size->n_row, &size->n_col, value));
  if (!*value) return read_cells(r, m, csv, rows, cols, value);
  *rows = size->n_row;
  *cols = (m->last > 0 ? m->last : size->n_col) - m->first + 1;
  return ATVI_OK;
}

static atvi_status read_mean(const reading *r, atvi_em_runs *runs, double *y) {
  atvi_csv *csv;
  atvi_idx rows, cols;
  double *mean;
  char what[200];
  ATVI_TRY(read_cells(r, &r->em->mean, &csv, &rows, &cols, &mean));
  if (rows != runs->m) {
    snprintf(what, sizeof what, "%td lines, but %td outputs: there must be one line per output", rows,
             runs->m);
    return wrong(r, r->em->mean.place, csv->path, what);
  }
  for (atvi_idx i = 0; i < runs->n * runs->m; i++) y[i] += mean[i % runs->m]; /* it was taken off */
  runs->mean = mean;
  return ATVI_OK;
}

static atvi_status read_times(const reading *r, atvi_em_runs *runs) {
  atvi_csv *csv;
  atvi_idx rows, cols;
  double *time;
  char what[200];
  ATVI_TRY(read_cells(r, &r->em->times, &csv, &rows, &cols, &time));
  if (rows != runs->m) {
    snprintf(what, sizeof what, "%td lines, but %td outputs: there must be one time per output", rows,
             runs->m);
    return wrong(r, r->em->times.place, csv->path, what);
  }
  for (atvi_idx i = 1; i < rows; i++)
    if (!(time[i] > time[i - 1]))
      return wrong_cell(r, csv, i, r->em->times.first - 1, "times must ascend",
                        "put the outputs in the order of time");
  runs->time = time;
  return ATVI_OK;
}

static atvi_status read_files(const reading *r, atvi_em_runs *runs, double **x) {
  atvi_csv *designs, *outputs;
  atvi_idx n = 0, d;
  double *y = NULL;
  char what[400];
  ATVI_TRY(read_cells(r, &r->em->designs, &designs, &runs->n, &runs->d, x));
  ATVI_TRY(read_outputs(r, &outputs, &n, &runs->m, &y));
  d = r->em->n_input;
  if (runs->d != d) {
    snprintf(what, sizeof what, "%td columns of designs, but %td inputs", runs->d, d);
    return wrong(r, r->em->designs.place, designs->path, what);
  }
  if (n != runs->n) {
    bool turned = runs->m == runs->n || outputs->n_col == runs->n;
    snprintf(what, sizeof what, "%td runs, but %.200s has %td designs%s", n, designs->path, runs->n,
             turned ? ": every run is a line of the outputs, not a column" : "");
    return wrong(r, r->em->outputs.place, outputs->path, what);
  }
  if (n < 2) return wrong(r, r->em->outputs.place, outputs->path, "an emulator needs at least 2 runs");
  runs->y = y;
  if (r->em->mean.path) ATVI_TRY(read_mean(r, runs, y));
  return r->em->times.path ? read_times(r, runs) : ATVI_OK;
}

static const char *folder_of(atvi_pool *pool, const atvi_lang *lang, const char *runs) {
  return runs ? runs : atvi_sim_folder(pool, lang->path);
}

static bool of_record(const atvi_lang *lang, const bool *use, atvi_idx k) {
  return (!use || use[k]) && !lang->emulator[k].designs.path;
}

/* record[n_emulator] of those whose runs are in the simulator's record, which is parsed once for all of them. */
static atvi_status read_record(const reading *r, const bool *use, const char *folder, atvi_idx lines,
                               atvi_sim_runs *record) {
  const atvi_lang *lang = r->lang;
  atvi_idx n = 0;
  atvi_sim_want *want = atvi_pool_take(r->room, (size_t)lang->n_emulator + 1, sizeof *want);
  atvi_sim_runs *runs = atvi_pool_take(r->room, (size_t)lang->n_emulator + 1, sizeof *runs);
  const char *dir = folder_of(r->pool, lang, folder);
  const char *path = dir ? atvi_pool_printf(r->pool, "%s/%s", dir, ATVI_SIM_RECORD) : NULL;
  for (atvi_idx k = 0; want && k < lang->n_emulator; k++)
    if (of_record(lang, use, k)) {
      const char *const *name = atvi_model_emulated_inputs(r->room, lang, k);
      want[n++] = (atvi_sim_want){lang->emulator[k].name, lang->emulator[k].n_input, name};
    }
  if (!path || atvi_pool_failed(r->room)) return ATVI_ENOMEM;
  if (n > 0) ATVI_TRY(atvi_sim_runs_read(r->pool, path, lines, n, want, runs));
  for (atvi_idx k = lang->n_emulator; k-- > 0;)
    if (of_record(lang, use, k)) record[k] = runs[--n];
  return ATVI_OK;
}

static atvi_status take_record(const reading *r, const atvi_sim_runs *record, atvi_emulated_runs *out,
                               double **x) {
  *x = atvi_pool_take(r->pool, (size_t)(record->n * record->d + 1), sizeof **x);
  if (!*x) return ATVI_ENOMEM;
  memcpy(*x, record->x, (size_t)(record->n * record->d) * sizeof **x);
  out->record = *record;
  out->runs =
      (atvi_em_runs){.n = record->n, .d = record->d, .m = record->m, .y = record->y, .time = record->time};
  return ATVI_OK;
}

/* The bound from which the logarithm of an input is taken; NaN: it is taken as it is. value[n]: room. Lengths
 * that are given are in ranges of the input itself. */
static double base_of(const reading *r, const atvi_lang_param *p, atvi_idx n, atvi_idx d, const double *x,
                      double *value) {
  if (!isfinite(p->lower) || isfinite(p->upper) || r->em->length) return NAN;
  for (atvi_idx i = 0; i < n; i++) value[i] = x[i * d];
  return atvi_model_emulated_axis_log(n, value, p->lower) ? p->lower : NAN;
}

/* Inputs to the unit cube. */
static atvi_status scale(const reading *r, atvi_emulated_runs *out, double *x) {
  const atvi_em_runs *runs = &out->runs;
  atvi_idx n = runs->n, d = runs->d;
  out->lower = atvi_pool_take(r->pool, 4 * (size_t)d + 1, sizeof(double));
  out->axis = atvi_pool_take(r->pool, (size_t)d + 1, sizeof *out->axis);
  double *value = atvi_pool_take(r->room, (size_t)n + 1, sizeof *value);
  if (!out->lower || !out->axis || !value) return ATVI_ENOMEM;
  out->width = out->lower + d;
  out->least = out->width + d;
  out->most = out->least + d;
  for (atvi_idx j = 0; j < d; j++) {
    const atvi_lang_param *p = &r->lang->param[r->em->input[j]];
    bool box = isfinite(p->lower) && isfinite(p->upper);
    out->least[j] = HUGE_VAL, out->most[j] = -HUGE_VAL;
    for (atvi_idx i = 0; i < n; i++) {
      out->least[j] = fmin(out->least[j], x[i * d + j]);
      out->most[j] = fmax(out->most[j], x[i * d + j]);
    }
    double lower = box ? p->lower : out->least[j], upper = box ? p->upper : out->most[j];
    out->lower[j] = lower;
    out->width[j] = upper > lower ? upper - lower : 1;
    atvi_model_emulated_axis_set(&out->axis[j], base_of(r, p, n, d, x + j, value), lower, upper);
    for (atvi_idx i = 0; i < n; i++) x[i * d + j] = atvi_model_emulated_axis_x(&out->axis[j], x[i * d + j]);
  }
  out->runs.x = x;
  return ATVI_OK;
}

static void set_opts(const atvi_lang_emulator *em, atvi_em_opts *o) {
  atvi_gp_em_defaults(o);
  for (int k = 0; em->kernel && k <= ATVI_EM_SQUARED; k++)
    if (strcmp(em->kernel, atvi_gp_em_kernel_name[k]) == 0) o->kernel = (atvi_em_kernel)k;
  o->length = em->length;
  o->nugget = em->nugget;
  o->time_length = em->time_length;
  o->basis = isnan(em->basis) ? 0 : em->basis;
}

static atvi_status read_all(reading *r, const bool *use, const char *runs, atvi_idx lines,
                            atvi_emulated_runs *out) {
  atvi_idx n = r->lang->n_emulator;
  atvi_sim_runs *record = atvi_pool_take(r->room, (size_t)n + 1, sizeof *record);
  if (!record) return ATVI_ENOMEM;
  ATVI_TRY(read_record(r, use, runs, lines, record));
  for (atvi_idx k = 0; k < n; k++) {
    double *x = NULL;
    if (use && !use[k]) continue;
    r->em = &r->lang->emulator[k];
    ATVI_TRY(r->em->designs.path ? read_files(r, &out[k].runs, &x) : take_record(r, &record[k], &out[k], &x));
    ATVI_TRY(scale(r, &out[k], x));
    set_opts(r->em, &out[k].opts);
  }
  return ATVI_OK;
}

atvi_status atvi_model_emulated_runs_read(atvi_pool *pool, const atvi_lang *lang, const bool *use,
                                          const char *runs, atvi_idx lines, atvi_emulated_runs *out) {
  reading r = {.ctx = atvi_pool_ctx(pool), .pool = pool, .lang = lang};
  memset(out, 0, (size_t)lang->n_emulator * sizeof *out);
  ATVI_TRY(atvi_pool_new(r.ctx, &r.room));
  atvi_status status = read_all(&r, use, runs, lines, out);
  atvi_pool_free(r.room);
  return status;
}

const char *const *atvi_model_emulated_inputs(atvi_pool *pool, const atvi_lang *lang, atvi_idx k) {
  const atvi_lang_emulator *em = &lang->emulator[k];
  const char **name = atvi_pool_take(pool, (size_t)em->n_input + 1, sizeof *name);
  for (atvi_idx j = 0; name && j < em->n_input; j++) name[j] = lang->param[em->input[j]].name;
  return name;
}

const char *atvi_model_emulated_path(atvi_pool *pool, const atvi_lang *lang, atvi_idx k, const char *runs) {
  const char *dir = folder_of(pool, lang, runs);
  return dir ? atvi_pool_printf(pool, "%s/emulator-%s.json", dir, lang->emulator[k].name) : NULL;
}
