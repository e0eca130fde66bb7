/* SPDX-License-Identifier: MIT */
/* atvi sbc: simulation-based calibration. Replicate r has the truth number r - 1 of the prior and the observations number r - 1 of the
 * seed, and is fitted with seed + r - 1. Records as in a study. */
#include "app/sbc.h"
#include "app/truth.h"
#include "diag/summary.h"
#include "math/rng.h"
#include <math.h>
#include <string.h>

enum { L = ATVI_SBC_DRAWS };

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
  atvi_text_add(&out, "replicate,method,status,reason,verdict,seed,seconds,evaluations,khat,rhat,ess");
  for (atvi_idx i = 0; i < x->n; i++)
    atvi_text_add(&out, ",%s.truth,%s.rank", x->s.line[i].name, x->s.line[i].name);
  ATVI_TRY(atvi_text_get(&out, &header));
  json_t *now = atvi_record_settings(x->pool, x->l, &x->opts->model, x->opts->seed, x->opts->replicates);
  json_object_set_new(now, "method", json_string(x->opts->method));
  json_object_set_new(now, "scale-sd", json_real(x->opts->scale_sd));
  atvi_status status =
      atvi_record_open(x->ctx, x->pool, atvi_record_dir(x->pool, &x->opts->model, "sbc", x->opts->out), "sbc",
                       now, header, &x->rec);
  json_decref(now);
  return status;
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

static atvi_status line_of(const sbc *x, atvi_replicate *one, atvi_idx r, uint64_t seed, const char **line) {
  atvi_summary *s;
  double rhat = NAN, ess = NAN;
  if (one->y.plain->n < L)
    return ATVI_FAIL(one->ctx, ATVI_ELIMIT, "%td draws are too few for a rank among %d", one->y.plain->n, L);
  ATVI_TRY(atvi_summary_new(one->pool, one->y.draws, &s));
  for (atvi_idx i = 0; i < s->n_param; i++) {
    rhat = fmax(rhat, s->col[i].rhat);
    ess = fmin(ess, fmin(s->col[i].ess_bulk, s->col[i].ess_tail));
  }
  atvi_text out = {.pool = one->pool};
  atvi_text_add(&out, "%td,%s,ok,,%s,%llu", r, x->opts->method, atvi_verdict_name(s->verdict),
                (unsigned long long)seed);
  atvi_record_cell(&out, s->made.seconds);
  atvi_record_cell(&out, (double)s->made.evaluations);
  atvi_record_cell(&out, s->made.khat);
  atvi_record_cell(&out, rhat);
  atvi_record_cell(&out, ess);
  for (atvi_idx i = 0; i < x->n; i++) {
    atvi_record_cell(&out, x->true_[i]);
    atvi_record_cell(&out, rank_of(x, one->y.plain, i, r));
  }
  return atvi_text_get(&out, line);
}

static atvi_status failed_line(const sbc *x, atvi_pool *pool, atvi_idx r, uint64_t seed, const atvi_ctx *ctx,
                               const char **line) {
  const char *why, *cell;
  atvi_text out = {.pool = pool};
  ATVI_TRY(atvi_replicate_reason(pool, ctx, &why, &cell));
  atvi_text_add(&out, "%td,%s,failed,%s,,%llu,NA,NA,NA,NA,NA", r, x->opts->method, cell,
                (unsigned long long)seed);
  for (atvi_idx i = 0; i < x->n; i++) {
    atvi_record_cell(&out, x->true_[i]);
    atvi_text_add(&out, ",NA");
  }
  atvi_log(x->ctx, ATVI_LOG_WARN, "replicate %td: %s", r, why);
  return atvi_text_get(&out, line);
}

static atvi_status fit_one(sbc *x, atvi_pool *pool, atvi_idx r, bool *stopped) {
  atvi_fit_plan plan;
  atvi_replicate one = {0};
  atvi_app_model model = x->opts->model;
  uint64_t seed = x->opts->seed + (uint64_t)(r - 1), hash;
  const char *line;
  double all = (double)x->opts->replicates;
  atvi_replicate_place place = {.ctx = x->ctx,
                                .command = "sbc",
                                .method = x->opts->method,
                                .replicate = r,
                                .replicates = x->opts->replicates,
                                .done = (double)(r - 1) / all,
                                .share = 1 / all,
                                .begun_s = x->begun_s};
  ATVI_TRY(atvi_replicate_method(x->ctx, "--method", x->opts->method, seed, &plan));
  draw_truth(x, r);
  atvi_status status = atvi_replicate_data(x->ctx, pool, x->l, &x->opts->model, x->rec.dir, x->opts->seed, r,
                                           x->theta, &model.n_data, &model.data, &hash);
  if (atvi_replicate_goes_on(status)) {
    ATVI_TRY(failed_line(x, pool, r, seed, x->ctx, &line));
    return atvi_record_add(&x->rec, line);
  }
  if (status != ATVI_OK) return status;
  model.interpret = model.interpret || !x->l->model->info.compiled; /* it was told once */
  atvi_replicate_use_emulators(x->l, x->rec.dir, &model);
  status = atvi_replicate_fit(&place, &model, &plan, &one);
  *stopped = one.stopped || status == ATVI_ESTOP;
  if (status == ATVI_OK && !*stopped) status = line_of(x, &one, r, seed, &line);
  if (atvi_replicate_goes_on(status)) status = failed_line(x, pool, r, seed, one.ctx, &line);
  if (!*stopped) {
    if (status == ATVI_OK)
      status = atvi_record_add(&x->rec, line);
    else
      status =
          ATVI_FAIL(x->ctx, status, "replicate %td: %s", r, one.ctx ? atvi_errmsg(one.ctx) : "out of memory");
  }
  atvi_replicate_free(&one);
  return *stopped ? ATVI_OK : status;
}

static atvi_status run_all(sbc *x, bool *stopped) {
  for (atvi_idx r = 1; r <= x->opts->replicates; r++) {
    if (atvi_record_has(&x->rec, r, x->opts->method)) continue;
    *stopped = atvi_stop_asked(x->ctx);
    if (*stopped) return ATVI_OK;
    atvi_pool *pool;
    ATVI_TRY(atvi_pool_new(x->ctx, &pool));
    atvi_status status = fit_one(x, pool, r, stopped);
    atvi_pool_free(pool);
    if (status != ATVI_OK || *stopped) return status;
  }
  return ATVI_OK;
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
  ATVI_TRY(atvi_record_save(&x->rec, "ecdf.csv", table));
  ATVI_TRY(atvi_record_save(&x->rec, "sbc_summary.json", out->json));
  out->failed = x->s.n_failed;
  out->done = x->s.n_done;
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
    status = atvi_replicate_emulators(ctx, pool, &l, x.rec.dir);
    if (status == ATVI_OK) status = run_all(&x, &result->stopped);
    if (status == ATVI_OK) status = report(&x, result);
    atvi_record_close(&x.rec);
  }
  atvi_app_unload(&l);
  return status;
}
