/* SPDX-License-Identifier: MIT */
/* atvi sbc: simulation-based calibration. Replicate r has the truth number r - 1 of the prior and the observations number r - 1 of the
 * seed, and is fitted with seed + r - 1. Records as in a study. */
#include "app/sbc.h"
#include "app/truth.h"
#include "diag/summary.h"
#include "io/file.h"
#include "math/rng.h"
#include <math.h>
#include <string.h>

enum { L = ATVI_SBC_DRAWS };
static const char FIT[] = "seconds evaluations khat rhat ess"; /* fields of the headline in the record */

typedef struct {
  atvi_ctx *ctx;
  atvi_pool *pool;
  const atvi_app_sbc_opts *opts;
  atvi_loaded *l;
  atvi_idx n;            /* parameters and derived quantities */
  double *theta, *true_; /* [d], [n] of this replicate */
  atvi_sbc s;
  atvi_record rec;
  double begun_s;
} sbc;

static atvi_status nomem(const sbc *x) { return ATVI_FAIL(x->ctx, ATVI_ENOMEM, "out of memory"); }

static atvi_status prepare(sbc *x) {
  const atvi_target *t = x->l->target;
  atvi_fit_plan plan;
  if (x->l->model->lang->n_observe == 0)
    return ATVI_FAIL(x->ctx, ATVI_EINVAL, "the model observes nothing, so there is nothing to calibrate");
  ATVI_TRY(atvi_replicate_sets(x->ctx, x->l));
  if (x->l->model->has_extra)
    return ATVI_FAIL(x->ctx, ATVI_EMODEL,
                     "%s: error: the model has logp terms, which truths drawn from its declared priors would "
                     "not follow: a right method would be found wrong\nhint: say the same by priors, or use "
                     "atvi study",
                     x->opts->model.path);
  if (!t->ops->prior_draw)
    return ATVI_FAIL(x->ctx, ATVI_EINVAL, "the prior of this model cannot be drawn from");
  if (!(x->opts->scale_sd > 0))
    return ATVI_FAIL(x->ctx, ATVI_EINVAL, "--scale-sd %g: want a number above 0", x->opts->scale_sd);
  ATVI_TRY(atvi_replicate_method(x->ctx, "--method", x->opts->method, x->opts->seed, &plan));
  x->n = t->d + t->n_derived;
  x->theta = atvi_pool_take(x->pool, (size_t)t->d + 1, sizeof *x->theta);
  x->true_ = atvi_pool_take(x->pool, (size_t)x->n + 1, sizeof *x->true_);
  x->s.line = atvi_pool_take(x->pool, (size_t)x->n + 1, sizeof *x->s.line);
  if (!x->theta || !x->true_ || !x->s.line) return nomem(x);
  x->s.n = x->n;
  x->s.model = t->name;
  x->s.method = x->opts->method;
  x->s.seed = x->opts->seed;
  x->s.scale_sd = x->opts->scale_sd;
  x->s.replicates = x->opts->replicates;
  for (atvi_idx i = 0; i < x->n; i++) {
    x->s.line[i].derived = i >= t->d;
    x->s.line[i].name = i < t->d ? t->param[i].name : t->derived[i - t->d];
  }
  return ATVI_OK;
}

static atvi_status open_record(sbc *x) {
  const char *header;
  atvi_text out = {.pool = x->pool};
  atvi_repeat_header(&out, FIT);
  for (atvi_idx i = 0; i < x->n; i++)
    atvi_text_add(&out, ",%s.truth,%s.rank", x->s.line[i].name, x->s.line[i].name);
  ATVI_TRY(atvi_text_get(&out, &header));
  atvi_json w = {.pool = x->pool};
  atvi_record_settings(&w, x->l, &x->opts->model, x->opts->seed, x->opts->replicates);
  atvi_json_put(&w, "method", json_string(x->opts->method));
  atvi_json_put(&w, "scale-sd", json_real(x->opts->scale_sd));
  return atvi_record_open(x->pool, &x->opts->model, x->opts->out, "sbc", &w, header, &x->rec);
}

/* ---- one replicate ---- */

static void draw_truth(sbc *x, atvi_idx r) {
  const atvi_target *t = x->l->target;
  void *work = atvi_evaluator_work(x->l->ev);
  t->ops->prior_draw(t->self, work, x->opts->seed, ATVI_TRUTH_FIRST + r - 1, 1, x->theta);
  for (atvi_idx i = 0; i < t->d; i++) x->true_[i] = x->theta[i];
  if (t->n_derived) t->ops->derived(t->self, work, 1, x->theta, x->true_ + t->d);
}

/* Rank of the truth in column i among L draws, spread evenly: as good as independent where there are many more effective draws. Among draws
 * that are equal to it, as those of a discrete quantity may be, its place is drawn: it is uniform only then. */
static double rank_of(const sbc *x, const atvi_draws *d, atvi_idx i, atvi_idx r) {
  const double *col = d->x + i * d->n;
  double mean = 0, scale = x->opts->scale_sd;
  atvi_idx below = 0, equal = 0;
  if (!isfinite(x->true_[i])) return NAN;
  for (atvi_idx k = 0; k < d->n; k++) mean += col[k] / (double)d->n;
  for (atvi_idx k = 0; k < L; k++) {
    double v = col[(atvi_idx)(((double)k + 0.5) * (double)d->n / L)];
    if (scale != 1) v = mean + scale * (v - mean);
    below += v < x->true_[i];
    equal += v == x->true_[i];
  }
  atvi_rng rng = atvi_rng_at(x->opts->seed, ATVI_STREAM_CHECK, (uint32_t)i, (uint32_t)r);
  return (double)below + floor(atvi_rng_uniform(&rng) * (double)(equal + 1));
}

static atvi_status get_data(const atvi_repeat *all, atvi_pool *pool, atvi_replicate_place *at,
                            atvi_app_model *model) {
  sbc *x = all->self;
  draw_truth(x, at->replicate);
  return atvi_repeat_simulate(all, pool, x->theta, at, model);
}

static atvi_status add_ranks(const atvi_repeat *all, const atvi_replicate_place *at, atvi_replicate *r,
                             const atvi_summary *s, atvi_text *out) {
  const sbc *x = all->self;
  (void)s;
  if (r && r->y.plain->n < L)
    return ATVI_FAIL(r->ctx, ATVI_ELIMIT, "%td draws are too few for a rank among %d", r->y.plain->n, L);
  for (atvi_idx i = 0; i < x->n; i++) {
    atvi_fields_cell(out, x->true_[i]);
    atvi_fields_cell(out, r ? rank_of(x, r->y.plain, i, at->replicate) : NAN);
  }
  return ATVI_OK;
}

static atvi_status run_all(sbc *x, bool *stopped) {
  return atvi_repeat_run(&(atvi_repeat){.ctx = x->ctx,
                                        .command = "sbc",
                                        .option = "--method",
                                        .l = x->l,
                                        .model = &x->opts->model,
                                        .rec = &x->rec,
                                        .seed = x->opts->seed,
                                        .replicates = x->opts->replicates,
                                        .n_method = 1,
                                        .method = &x->opts->method,
                                        .keys = FIT,
                                        .begun_s = x->begun_s,
                                        .self = x,
                                        .data = get_data,
                                        .cells = add_ranks},
                         stopped);
}

/* ---- the whole ---- */

static atvi_status report(sbc *x, atvi_app_repeat_result *out) {
  atvi_csv *csv;
  const char *table;
  ATVI_TRY(atvi_record_read(&x->rec, &csv));
  if (!csv) return ATVI_OK; /* stopped before the first */
  ATVI_TRY(atvi_sbc_count(x->ctx, x->pool, csv, &x->s));
  ATVI_TRY(atvi_sbc_text(x->pool, &x->s, &out->text));
  ATVI_TRY(atvi_sbc_csv(x->pool, &x->s, &table));
  ATVI_TRY(atvi_sbc_json(x->pool, &x->s, &out->json));
  ATVI_TRY(atvi_file_save_in(x->pool, x->rec.dir, "ecdf.csv", table));
  ATVI_TRY(atvi_file_save_in(x->pool, x->rec.dir, "sbc_summary.json", out->json));
  out->failed = x->s.tally.n_failed;
  out->done = x->s.tally.n_done;
  out->passed = x->s.fine && x->s.power != ATVI_SBC_BLIND && x->s.n_untested == 0;
  return ATVI_OK;
}

atvi_status atvi_app_sbc(atvi_ctx *ctx, atvi_pool *pool, const atvi_app_sbc_opts *opts,
                         atvi_app_repeat_result *result) {
  atvi_loaded l;
  *result = (atvi_app_repeat_result){0};
  ATVI_TRY(atvi_app_load(ctx, &opts->model, NULL, &l));
  sbc x = {.ctx = ctx, .pool = pool, .opts = opts, .l = &l, .begun_s = atvi_clock_s()};
  atvi_status status = prepare(&x);
  if (status == ATVI_OK) status = open_record(&x);
  if (status == ATVI_OK) {
    result->dir = x.rec.dir;
    status = run_all(&x, &result->stopped);
    if (status == ATVI_OK) status = report(&x, result);
    atvi_record_close(&x.rec);
  }
  atvi_app_unload(&l);
  return status;
}
