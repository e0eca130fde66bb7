/* SPDX-License-Identifier: MIT */
/* Emulators in reports: the values that are shown are some of those that the numbers are of, runs left out one at a time. */
#include "app/report_emulator.h"
#include "app/report.h"
#include "sim/record.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
  VALUES = 300, /* shown, at most, */
  RUNS = 60,    /* of so many runs, or more with fewer values each */
  WORST = 5,
  TOLD = 20, /* failed runs */
};

static atvi_status no_memory(atvi_pool *pool) {
  return ATVI_FAIL(atvi_pool_ctx(pool), ATVI_ENOMEM, "report: out of memory");
}

/* ---- values of runs that were left out ---- */

typedef struct {
  double observed, predicted, sd;
} value;

static atvi_idx which(atvi_idx i, atvi_idx n, atvi_idx of) { return (2 * i + 1) * of / (2 * n); }

static int by_observed(const void *a, const void *b) {
  const value *p = a, *q = b;
  return (p->observed > q->observed) - (p->observed < q->observed);
}

static atvi_status show(atvi_pool *pool, const atvi_em_runs *r, const atvi_em_loo *loo,
                        atvi_report_emulator *out) {
  atvi_idx few = VALUES / r->m, n_run = few > RUNS ? few : RUNS, n = 0;
  bool all = r->n * r->m <= VALUES;
  if (all || n_run > r->n) n_run = r->n;
  atvi_idx m = r->m, most = n_run < VALUES ? VALUES / n_run : 1;
  if (!all && m > most) m = most;
  value *v = atvi_pool_take(pool, (size_t)(n_run * m), sizeof *v);
  double *column = atvi_pool_take(pool, 3 * (size_t)(n_run * m), sizeof *column);
  if (!v || !column) return no_memory(pool);
  for (atvi_idx k = 0; k < n_run; k++)
    for (atvi_idx t = 0; t < m; t++) {
      atvi_idx run = which(k, n_run, r->n), at = run * r->m + which(t, m, r->m);
      v[n++] = (value){r->y[at], loo->predicted[at], loo->run_sd[run]};
    }
  qsort(v, (size_t)n, sizeof *v, by_observed);
  for (atvi_idx i = 0; i < n; i++) {
    column[i] = v[i].observed;
    column[n + i] = v[i].predicted;
    column[2 * n + i] = v[i].sd;
  }
  out->n_left = n;
  out->observed = column;
  out->predicted = column + n;
  out->sd = column + 2 * n;
  out->left_runs = n_run;
  return ATVI_OK;
}

/* ---- the runs ---- */

/* Ids are those of the record; runs of files are numbered by their lines. */
static const char *name_run(atvi_pool *pool, const atvi_emulated_runs *r, const int64_t *id, atvi_idx i) {
  if (r->lines > 0 && !id) return "";
  return id ? atvi_pool_printf(pool, "run %" PRId64, id[i]) : atvi_pool_printf(pool, "run %td", i + 1);
}

static bool find_worst(atvi_pool *pool, const atvi_emulated_runs *r, const int64_t *id, double *error,
                       atvi_report_emulator *out) {
  atvi_idx d = r->runs.d, n = r->runs.n < WORST ? r->runs.n : WORST;
  atvi_report_run *run = atvi_pool_take(pool, WORST, sizeof *run);
  double *at = atvi_pool_take(pool, (size_t)(n * d) + 1, sizeof *at);
  if (!run || !at) return false;
  for (atvi_idx k = 0; k < n; k++, at += d) {
    atvi_idx most = 0;
    for (atvi_idx i = 1; i < r->runs.n; i++)
      if (error[i] > error[most]) most = i;
    for (atvi_idx j = 0; j < d; j++) at[j] = atvi_emulated_axis_theta(&r->axis[j], r->runs.x[most * d + j]);
    run[k] = (atvi_report_run){name_run(pool, r, id, most), at, atvi_pool_printf(pool, "%.1f", error[most])};
    error[most] = -1;
  }
  out->worst = run;
  out->n_worst = n;
  return !atvi_pool_failed(pool);
}

static const int64_t *take_over(atvi_pool *pool, const atvi_sim_runs *rec, atvi_report_emulator *out) {
  atvi_idx n = rec->n_failed < TOLD ? rec->n_failed : TOLD;
  int64_t *id = atvi_pool_take(pool, (size_t)rec->n, sizeof *id);
  atvi_report_run *bad = atvi_pool_take(pool, TOLD, sizeof *bad);
  double *x = atvi_pool_take(pool, (size_t)(n * rec->d) + 1, sizeof *x);
  if (!id || !bad || !x) return NULL;
  memcpy(id, rec->id, (size_t)rec->n * sizeof *id);
  for (atvi_idx i = 0; i < n; i++, x += rec->d) {
    const atvi_sim_left *from = &rec->left[i];
    if (rec->d) memcpy(x, from->x, (size_t)rec->d * sizeof *x);
    bad[i] = (atvi_report_run){atvi_pool_printf(pool, "run %" PRId64, from->id), x,
                               atvi_pool_strndup(pool, from->reason, strlen(from->reason))};
  }
  out->n_bad = n;
  out->bad = bad;
  out->run_seconds = rec->seconds;
  out->n_timed = rec->n_timed;
  return id;
}

/* The record once more, for what an emulator has no use for. *id: of its runs; NULL: it is not what it was. */
static atvi_status read_record(atvi_pool *pool, const char *folder, const atvi_emulated_runs *r,
                               atvi_report_emulator *out, const int64_t **id) {
  atvi_pool *own; /* all values are read */
  atvi_sim_runs rec;
  ATVI_TRY(atvi_pool_new(atvi_pool_ctx(pool), &own));
  const char *path = atvi_pool_printf(own, "%s/%s", folder, ATVI_SIM_RECORD);
  atvi_status status =
      path ? atvi_sim_runs_read_first(own, path, r->lines, out->name, r->runs.d, out->input, &rec)
           : no_memory(pool);
  if (status == ATVI_OK && rec.n == r->runs.n && rec.n_failed == r->n_failed) {
    *id = take_over(pool, &rec, out);
    if (atvi_pool_failed(pool)) status = no_memory(pool);
  }
  atvi_pool_free(own);
  return status == ATVI_ENOMEM ? status : ATVI_OK;
}

static bool describe(atvi_pool *pool, const atvi_lang *lang, atvi_idx k, const atvi_emulated_runs *r,
                     atvi_report_emulator *out) {
  const atvi_lang_emulator *of = &lang->emulator[k];
  const char **input = atvi_pool_take(pool, (size_t)of->n_input + 1, sizeof *input);
  double *high = atvi_pool_take(pool, (size_t)of->n_input + 1, sizeof *high);
  if (!input || !high) return false;
  for (atvi_idx j = 0; j < of->n_input; j++) {
    input[j] = lang->param[of->input[j]].name;
    high[j] = r->lower[j] + r->width[j];
  }
  *out = (atvi_report_emulator){.name = of->name,
                                .n_run = r->runs.n,
                                .n_output = r->runs.m,
                                .n_input = r->runs.d,
                                .n_failed = r->n_failed,
                                .input = input,
                                .low = r->lower,
                                .high = high,
                                .time = r->runs.time,
                                .time_name = r->runs.time ? atvi_report_time_name(lang) : NULL,
                                .seconds = NAN,
                                .run_seconds = NAN,
                                .sobol_error = NAN,
                                .outside = NAN};
  return true;
}

atvi_status atvi_report_emulator_judge(atvi_pool *pool, const atvi_lang *lang, atvi_idx k, const char *runs,
                                       const atvi_emulated_runs *r, const atvi_emulator *em,
                                       atvi_report_emulator *out) {
  atvi_em_loo loo = {0};
  atvi_ctx *ctx = atvi_pool_ctx(pool);
  const int64_t *id = NULL;
  const char *folder = runs ? runs : atvi_sim_folder(pool, lang->path);
  double *q2 = atvi_pool_take(pool, (size_t)r->runs.m + 1, sizeof *q2);
  if (!folder || !q2 || !describe(pool, lang, k, r, out)) return no_memory(pool);
  loo.q2_time = q2;
  loo.run_error = atvi_pool_take(pool, 2 * (size_t)r->runs.n + 1, sizeof(double));
  if (!loo.run_error) return no_memory(pool);
  loo.run_sd = loo.run_error + r->runs.n;
  loo.predicted =
      atvi_block(ctx, (size_t)(r->runs.n * r->runs.m) * sizeof(double)); /* as large as the runs */
  if (!loo.predicted) return no_memory(pool);
  atvi_status status = atvi_emulator_loo(ctx, em, &r->runs, &loo);
  if (status == ATVI_OK) status = show(pool, &r->runs, &loo, out);
  atvi_block_free(ctx, loo.predicted);
  ATVI_TRY(status);
  out->q2 = loo.q2;
  out->coverage = loo.coverage;
  out->rmse = loo.rmse;
  out->q2_time = r->runs.m > 1 ? q2 : NULL;
  if (r->lines > 0) ATVI_TRY(read_record(pool, folder, r, out, &id));
  return find_worst(pool, r, id, loo.run_error, out) ? ATVI_OK : no_memory(pool);
}

/* ---- the page of atvi emulate ---- */

static const char *command(atvi_pool *pool, const atvi_app_emulate_opts *o) {
  atvi_text out = {.pool = pool};
  const char *text;
  atvi_text_add(&out, "atvi emulate");
  atvi_report_word(&out, o->path);
  if (o->folder) atvi_text_add(&out, " --folder"), atvi_report_word(&out, o->folder);
  if (o->runs) atvi_text_add(&out, " --runs"), atvi_report_word(&out, o->runs);
  atvi_text_add(&out, " --test %g --seed %" PRIu64 " --refit", o->test, o->seed);
  return atvi_text_get(&out, &text) == ATVI_OK ? text : NULL;
}

void atvi_app_report_emulate(atvi_pool *pool, const atvi_app_emulate_opts *opts, const atvi_lang *lang,
                             atvi_idx n, const atvi_report_emulator *of, const char *dir, const char **path) {
  atvi_pool *own; /* drawings are large */
  atvi_ctx *ctx = atvi_pool_ctx(pool);
  atvi_status status = atvi_pool_new(ctx, &own);
  *path = NULL;
  if (status == ATVI_OK) {
    const char *title = lang->title && *lang->title ? lang->title : lang->path;
    status = atvi_report_emulate_save(
        own, &(atvi_report_emulate){title, opts->path, n, of, command(own, opts), lang->source}, dir);
    atvi_pool_free(own);
  }
  if (status != ATVI_OK)
    atvi_log(ctx, ATVI_LOG_WARN, "the report could not be written: %s", atvi_errmsg(ctx));
  else
    *path = atvi_pool_printf(pool, "%s/report.html", dir);
}
