/* SPDX-License-Identifier: MIT */
/* Emulators in reports. The values that are shown were predicted by emulators without their runs, with the estimates kept: the closed form that
 * atvi_emulator_loo sums up gives no single values. Each costs a factorisation, so of many runs some are shown, and of very many several are left
 * out at a time. */
#include "app/report_emulator.h"
#include "app/report.h"
#include "app/report_runs.h"
#include "sim/record.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
  RUNS = 60,    /* shown, at most, */
  OUTPUTS = 8,  /* and of each so many values */
  VALUES = 300, /* or fewer */
  WORST = 5,
};
static const double MOST_WORK = 3e10; /* products: a few seconds */

static atvi_status no_memory(atvi_pool *pool) {
  return ATVI_FAIL(atvi_pool_ctx(pool), ATVI_ENOMEM, "report: out of memory");
}

/* ---- values of runs that were left out ---- */

typedef struct {
  double observed, predicted, sd;
} value;

typedef struct {
  atvi_pool *pool;
  atvi_ctx *quiet; /* these emulators are nobody's progress */
  const atvi_em_runs *all;
  atvi_em_opts at;         /* everything held */
  atvi_idx n_run, n_group; /* shown; left out in so many groups */
  atvi_idx m;              /* outputs shown */
  atvi_em_runs some;       /* all runs, these outputs */
  atvi_idx n;
  value *v;
} leaving;

static atvi_idx which(atvi_idx i, atvi_idx n, atvi_idx of) { return (2 * i + 1) * of / (2 * n); }

/* Outputs are normal with the same correlation over runs each: a few of them are predicted as among all. */
static bool choose(leaving *l) {
  const atvi_em_runs *r = l->all;
  double cost = 3 * pow((double)r->n, 3);
  l->n_run = r->n < RUNS ? r->n : RUNS;
  l->n_group = (atvi_idx)fmax(1, fmin((double)l->n_run, MOST_WORK / cost));
  l->m = r->m < OUTPUTS ? r->m : OUTPUTS;
  if (l->m * l->n_run > VALUES) l->m = VALUES / l->n_run;
  double *y = atvi_pool_take(l->pool, (size_t)(r->n * l->m) + 1, sizeof *y),
         *mean = atvi_pool_take(l->pool, 2 * (size_t)l->m + 1, sizeof *mean),
         *time = mean ? mean + l->m : NULL;
  l->v = atvi_pool_take(l->pool, (size_t)(l->n_run * l->m) + 1, sizeof *l->v);
  if (!y || !mean || !l->v) return false;
  for (atvi_idx t = 0; t < l->m; t++) {
    atvi_idx at = which(t, l->m, r->m);
    time[t] = r->time ? r->time[at] : (double)(at + 1);
    for (atvi_idx i = 0; i < r->n; i++) {
      y[i * l->m + t] = r->y[i * r->m + at];
      if (!r->mean) mean[t] += y[i * l->m + t] / (double)r->n;
    }
    if (r->mean) mean[t] = r->mean[at];
  }
  l->some = *r;
  l->some.m = l->m;
  l->some.y = y;
  l->some.mean = mean;
  l->some.time = time;
  return true;
}

/* Runs of group g: shown run number s is in group s % n_group. */
static bool in_group(const leaving *l, atvi_idx run, atvi_idx g) {
  atvi_idx s = (2 * run + 1) * l->n_run / (2 * l->all->n);
  for (atvi_idx k = s > 0 ? s - 1 : 0; k <= s + 1 && k < l->n_run; k++)
    if (which(k, l->n_run, l->all->n) == run) return k % l->n_group == g;
  return false;
}

static void predict(leaving *l, const atvi_emulator *em, atvi_em_work *w, double sill, atvi_idx g, double *x,
                    double *mean) {
  enum { G = ATVI_EM_GROUP };
  atvi_idx d = l->all->d;
  double share[G];
  for (atvi_idx s = g; s < l->n_run; s += l->n_group) {
    atvi_idx run = which(s, l->n_run, l->all->n);
    for (atvi_idx j = 0; j < d; j++)
      for (int b = 0; b < G; b++) x[j * G + b] = l->all->x[run * d + j];
    atvi_em_eval(em, w, x, mean, share);
    for (atvi_idx t = 0; t < l->m; t++)
      l->v[l->n++] = (value){l->some.y[run * l->m + t], mean[t * G], sqrt(sill * fmax(0, share[0]))};
  }
}

static atvi_status leave_group(leaving *l, double *x, double *y, double *room, atvi_idx g) {
  atvi_ctx *ctx = l->quiet;
  atvi_idx d = l->all->d, n = 0;
  atvi_emulator *em;
  atvi_em_work *w;
  for (atvi_idx i = 0; i < l->all->n; i++) {
    if (in_group(l, i, g)) continue;
    memcpy(x + n * d, l->all->x + i * d, (size_t)d * sizeof *x);
    memcpy(y + n * l->m, l->some.y + i * l->m, (size_t)l->m * sizeof *y);
    n++;
  }
  atvi_em_runs kept = l->some;
  kept.n = n;
  kept.x = x;
  kept.y = y;
  if (n < 2) return ATVI_FAIL(ctx, ATVI_EDATA, "emulator: too few runs to leave one out");
  ATVI_TRY(atvi_emulator_new(ctx, &kept, &l->at, &em));
  atvi_status status = atvi_em_work_new(em, ctx, l->m, NULL, &w);
  if (status == ATVI_OK) predict(l, em, w, l->at.sill, g, room, room + (size_t)d * ATVI_EM_GROUP);
  atvi_em_work_free(w);
  atvi_emulator_free(em);
  return status;
}

static int by_observed(const void *a, const void *b) {
  const value *p = a, *q = b;
  return (p->observed > q->observed) - (p->observed < q->observed);
}

static atvi_status hand_over(leaving *l, atvi_report_emulator *out) {
  double *column = atvi_pool_take(l->pool, 3 * (size_t)l->n + 1, sizeof *column);
  if (!column) return no_memory(l->pool);
  qsort(l->v, (size_t)l->n, sizeof *l->v, by_observed);
  for (atvi_idx i = 0; i < l->n; i++) {
    column[i] = l->v[i].observed;
    column[l->n + i] = l->v[i].predicted;
    column[2 * l->n + i] = l->v[i].sd;
  }
  out->n_left = l->n;
  out->observed = column;
  out->predicted = column + l->n;
  out->sd = column + 2 * l->n;
  out->left_runs = l->n_run;
  out->left_at_once = (l->n_run + l->n_group - 1) / l->n_group;
  return ATVI_OK;
}

/* Nothing is shown where it cannot be done; the sums are known all the same. */
static atvi_status leave_out(atvi_pool *pool, const atvi_emulated_runs *r, const atvi_em_info *info,
                             atvi_report_emulator *out) {
  leaving l = {.pool = pool, .all = &r->runs, .at = r->opts};
  atvi_idx n = r->runs.n, d = r->runs.d;
  l.at.length = info->length;
  l.at.nugget = info->nugget;
  l.at.time_length = r->runs.m > 1 ? info->time_length : NAN;
  l.at.sill = info->sill;
  l.at.basis = 0;
  l.at.starts = 1;
  if (!choose(&l)) return no_memory(pool);
  if (l.m == 1) l.at.time_length = NAN;
  double *x = atvi_pool_take(pool, (size_t)(n * d) + 1, sizeof *x),
         *y = atvi_pool_take(pool, (size_t)(n * l.m) + 1, sizeof *y);
  double *room = atvi_block(atvi_pool_ctx(pool), (size_t)((d + l.m) * ATVI_EM_GROUP) * sizeof *room);
  atvi_status status = x && y && room ? atvi_ctx_new(NULL, &l.quiet) : ATVI_ENOMEM;
  if (l.quiet) atvi_ctx_set_threads(l.quiet, atvi_ctx_threads(atvi_pool_ctx(pool)));
  for (atvi_idx g = 0; g < l.n_group && status == ATVI_OK; g++) status = leave_group(&l, x, y, room, g);
  atvi_ctx_free(l.quiet);
  atvi_block_free(atvi_pool_ctx(pool), room);
  if (status == ATVI_OK) return hand_over(&l, out);
  return status == ATVI_ENOMEM ? no_memory(pool) : ATVI_OK;
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

/* The record once more, for what an emulator has no use for. Returns the ids of its runs. */
static const int64_t *read_record(atvi_pool *pool, const char *folder, const atvi_emulated_runs *r,
                                  atvi_report_emulator *out) {
  atvi_told_runs *told = atvi_pool_take(pool, 1, sizeof *told);
  if (!told) return NULL;
  atvi_told_runs_read(pool, folder, r->lines, r->runs.d, out->input, told);
  out->n_bad = told->n_bad;
  out->bad = told->bad;
  out->run_seconds = told->seconds;
  return told->n_good == r->runs.n ? told->good : NULL; /* else some good ones were left out */
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
  const int64_t *id = NULL;
  const char *folder = runs ? runs : atvi_sim_folder(pool, lang->path);
  double *q2 = atvi_pool_take(pool, (size_t)r->runs.m + 1, sizeof *q2);
  if (!folder || !q2 || !describe(pool, lang, k, r, out)) return no_memory(pool);
  loo.q2_time = q2;
  loo.run_error = atvi_pool_take(pool, (size_t)r->runs.n + 1, sizeof(double));
  if (!loo.run_error) return no_memory(pool);
  ATVI_TRY(atvi_emulator_loo(atvi_pool_ctx(pool), em, &r->runs, &loo));
  out->q2 = loo.q2;
  out->coverage = loo.coverage;
  out->rmse = loo.rmse;
  out->q2_time = r->runs.m > 1 ? q2 : NULL;
  if (r->lines > 0) id = read_record(pool, folder, r, out);
  if (!find_worst(pool, r, id, loo.run_error, out)) return no_memory(pool);
  return leave_out(pool, r, atvi_emulator_info(em), out);
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
