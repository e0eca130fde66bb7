/* SPDX-License-Identifier: MIT */
/* atvi sbc: simulation-based calibration. Replicate r has the truth number r - 1 of the prior and the observations number r - 1 of the
 * seed, and is fitted with seed + r - 1. Records as in a study. */
#include "app/sbc.h"
#include "app/replicate.h"
#include "diag/summary.h"
#include "io/file.h"
#include "math/rng.h"
#include "math/special.h"
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
} sbc;

static atvi_status prepare(sbc *x) {
  const atvi_target *t = x->l->target;
  atvi_fit_plan plan;
  if (x->l->model->lang->n_observe == 0)
    return ATVI_FAIL(x->ctx, ATVI_EINVAL, "the model observes nothing, so there is nothing to calibrate");
  ATVI_TRY(atvi_app_replicate_sets(x->ctx, x->l));
  if (x->l->model->has_extra)
    return ATVI_FAIL(
        x->ctx, ATVI_EMODEL,
        "%s: error: the model has logp terms, which truths drawn from its declared priors do not follow: a "
        "correct method would appear wrong\nhint: express them as priors, or use atvi study",
        x->opts->all.model.path);
  if (!t->ops->prior_draw)
    return ATVI_FAIL(x->ctx, ATVI_EINVAL, "the prior of this model cannot be drawn from");
  if (!(x->opts->scale_sd > 0))
    return ATVI_FAIL(x->ctx, ATVI_EINVAL, "--scale-sd %g: want a number above 0", x->opts->scale_sd);
  ATVI_TRY(atvi_app_replicate_method(x->ctx, "--method", x->opts->method, x->opts->all.seed, &plan));
  x->n = t->d + t->n_derived;
  x->theta = atvi_pool_take(x->pool, (size_t)t->d + 1, sizeof *x->theta);
  x->true_ = atvi_pool_take(x->pool, (size_t)x->n + 1, sizeof *x->true_);
  x->s.line = atvi_pool_take(x->pool, (size_t)x->n + 1, sizeof *x->s.line);
  if (!x->theta || !x->true_ || !x->s.line) return ATVI_ENOMEM;
  x->s.n = x->n;
  x->s.model = t->name;
  x->s.method = x->opts->method;
  x->s.seed = x->opts->all.seed;
  x->s.scale_sd = x->opts->scale_sd;
  x->s.replicates = x->opts->all.replicates;
  for (atvi_idx i = 0; i < x->n; i++) {
    x->s.line[i].derived = i >= t->d;
    x->s.line[i].name = i < t->d ? t->param[i].name : t->derived[i - t->d];
  }
  return ATVI_OK;
}

static atvi_status open_record(sbc *x) {
  const char *header;
  atvi_text out = {.pool = x->pool};
  atvi_app_repeat_header(&out, FIT);
  for (atvi_idx i = 0; i < x->n; i++)
    atvi_io_text_add(&out, ",%s.truth,%s.rank", x->s.line[i].name, x->s.line[i].name);
  ATVI_TRY(atvi_io_text_get(&out, &header));
  atvi_json w = {.pool = x->pool};
  atvi_app_record_settings(&w, x->l, &x->opts->all);
  atvi_io_json_put(&w, "method", json_string(x->opts->method));
  atvi_io_json_put(&w, "scale-sd", json_real(x->opts->scale_sd));
  x->rec = (atvi_record){.command = "sbc",
                         .header = header,
                         .dir = x->opts->all.out,
                         .shared = atvi_app_repeat_is_shared(&x->opts->all.share)};
  return atvi_app_record_open(x->pool, &x->opts->all.model, &w, &x->rec);
}

/* ---- one replicate ---- */

static void draw_truth(sbc *x, atvi_idx r) {
  const atvi_target *t = x->l->target;
  void *work = atvi_model_evaluator_work(x->l->ev);
  t->ops->prior_draw(t->self, work, x->opts->all.seed, ATVI_TRUTH_FIRST + r - 1, 1, x->theta);
  for (atvi_idx i = 0; i < t->d; i++) x->true_[i] = x->theta[i];
  if (t->n_derived) t->ops->derived(t->self, work, 1, x->theta, x->true_ + t->d);
}

/* Rank of the truth in column i among L draws, spread evenly: practically independent if there are many more
 * effective draws. Among draws equal to it, as for a discrete quantity, its place is random: only then is the
 * rank uniform. */
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
  atvi_rng rng = atvi_math_rng_at(x->opts->all.seed, ATVI_STREAM_CHECK, (uint32_t)i, (uint32_t)r);
  return (double)below + floor(atvi_math_rng_uniform(&rng) * (double)(equal + 1));
}

static atvi_status get_data(const atvi_repeat *all, atvi_pool *pool, atvi_replicate_place *at,
                            atvi_app_model *model) {
  sbc *x = all->self;
  draw_truth(x, at->replicate);
  return atvi_app_repeat_simulate(all, pool, x->theta, at, model);
}

static atvi_status add_ranks(const atvi_repeat *all, const atvi_replicate_place *at, atvi_replicate *r,
                             const atvi_summary *s, atvi_text *out) {
  const sbc *x = all->self;
  (void)s;
  if (r && r->y.plain->n < L)
    return ATVI_FAIL(r->ctx, ATVI_ELIMIT, "%td draws are too few for a rank among %d", r->y.plain->n, L);
  for (atvi_idx i = 0; i < x->n; i++) {
    atvi_io_fields_cell(out, x->true_[i]);
    atvi_io_fields_cell(out, r ? rank_of(x, r->y.plain, i, at->replicate) : NAN);
  }
  return ATVI_OK;
}

static atvi_status run_all(sbc *x, atvi_app_repeat_result *out) {
  const atvi_repeat all = {.ctx = x->ctx,
                           .command = "sbc",
                           .option = "--method",
                           .o = &x->opts->all,
                           .l = x->l,
                           .rec = &x->rec,
                           .n_method = 1,
                           .method = &x->opts->method,
                           .keys = FIT,
                           .numbered = true,
                           .begun_s = atvi_clock_s(),
                           .self = x,
                           .data = get_data,
                           .cells = add_ranks};
  return atvi_app_repeat_run(&all, out);
}

/* ---- the whole ---- */

static atvi_status report(sbc *x, atvi_app_repeat_result *out) {
  atvi_csv *csv;
  const char *table;
  ATVI_TRY(atvi_app_record_read(&x->rec, &csv));
  if (!csv) return ATVI_OK; /* stopped before the first */
  ATVI_TRY(atvi_app_sbc_count(x->ctx, x->pool, csv, &x->s));
  ATVI_TRY(atvi_app_sbc_text(x->pool, &x->s, &out->text));
  ATVI_TRY(atvi_app_sbc_csv(x->pool, &x->s, &table));
  ATVI_TRY(atvi_app_sbc_json(x->pool, &x->s, &out->json));
  ATVI_TRY(atvi_io_file_save_in(x->pool, x->rec.dir, "ecdf.csv", table));
  ATVI_TRY(atvi_io_file_save_in(x->pool, x->rec.dir, "sbc_summary.json", out->json));
  out->failed = x->s.tally.n_failed;
  out->done = x->s.tally.n_done;
  out->passed = x->s.fine && x->s.power != ATVI_SBC_BLIND && x->s.n_untested == 0;
  return ATVI_OK;
}

atvi_status atvi_app_sbc(atvi_ctx *ctx, atvi_pool *pool, const atvi_app_sbc_opts *opts,
                         atvi_app_repeat_result *result) {
  atvi_loaded l;
  *result = (atvi_app_repeat_result){0};
  ATVI_TRY(atvi_app_load(ctx, &opts->all.model, NULL, &l));
  sbc x = {.ctx = ctx, .pool = pool, .opts = opts, .l = &l};
  atvi_status status = prepare(&x);
  if (status == ATVI_OK) status = open_record(&x);
  if (status == ATVI_OK) {
    result->dir = x.rec.dir;
    status = run_all(&x, result);
    if (status == ATVI_OK && !result->shared) status = report(&x, result);
    atvi_app_record_close(&x.rec);
  }
  atvi_app_unload(&l);
  return status;
}

/* Which wrong posteriors a calibration run would have noticed.
 *
 * Let posterior standard deviations be f times the right size. Given the data, the truth is then z right sds
 * and z/f reported sds from the posterior mean, with z standard normal if posteriors are normal, and its rank
 * among L draws is Binomial(L, Phi(z/f)). Averaged over z by the midpoint rule in Phi(z), that is the
 * distribution of one rank. Sets of n ranks are drawn from it and put through the two tests as
 * atvi_app_sbc_count does; the share that is flagged is the power at f. All f use the same random numbers, so
 * that it grows with the distance of f from 1, and the f at which it passes POWER is found by bisection. */

enum { K = ATVI_SBC_DRAWS + 1, GRID = 500, HALVINGS = 7, SETS = 400, SETS_LEAST = 100 };
static const double POWER = 0.8, FURTHEST = 8; /* factors beyond are not considered */
static const double MOST_RANKS = 4e6;          /* ranks drawn in total: about a tenth of a second */

typedef struct {
  const atvi_ecdf *ecdf;
  atvi_idx n;
  double level;
  int sets;
  double square[K]; /* of the normal score of each rank, in units of their mean */
  double log_choose[K];
} design;

double atvi_app_sbc_score(atvi_idx rank) { return atvi_math_ndtri(((double)rank + 0.5) / K); }

double atvi_app_sbc_mean_square(void) {
  double sum = 0;
  for (atvi_idx k = 0; k < K; k++) sum += atvi_app_sbc_score(k) * atvi_app_sbc_score(k);
  return sum / K;
}

double atvi_app_sbc_spread(atvi_idx n, double sum) {
  double a = 0.5 * (double)n, x = 0.5 * sum;
  return fmin(1, 2 * fmin(atvi_math_gamma_p(a, x), atvi_math_gamma_q(a, x)));
}

/* cdf[k] = P(rank <= k) */
static void distribution(const design *d, double f, double cdf[K]) {
  for (int k = 0; k < K; k++) cdf[k] = 0;
  for (int i = 0; i < GRID; i++) {
    double z = atvi_math_ndtri((i + 0.5) / GRID) / f, below = atvi_math_log_ndtr(z),
           above = atvi_math_log_ndtr(-z);
    for (int k = 0; k < K; k++) cdf[k] += exp(d->log_choose[k] + k * below + (L - k) * above) / GRID;
  }
  for (int k = 1; k < K; k++) cdf[k] += cdf[k - 1];
}

static int draw(const double cdf[K], double u) {
  int low = 0, high = K - 1;
  while (low < high) {
    int mid = (low + high) / 2;
    if (cdf[mid] < u)
      low = mid + 1;
    else
      high = mid;
  }
  return low;
}

static double power(const design *d, double f) {
  double cdf[K];
  int flagged = 0;
  distribution(d, f, cdf);
  for (int s = 0; s < d->sets; s++) {
    atvi_rng rng = atvi_math_rng_at(0, ATVI_STREAM_CHECK, (uint32_t)s, 1);
    atvi_idx count[K] = {0};
    double sum = 0;
    for (atvi_idx i = 0; i < d->n; i++) {
      int rank = draw(cdf, atvi_math_rng_uniform(&rng));
      count[rank]++;
      sum += d->square[rank];
    }
    flagged += atvi_app_sbc_spread(d->n, sum) < d->level || atvi_math_ecdf_p(d->ecdf, count) < d->level;
  }
  return (double)flagged / d->sets;
}

/* The factor nearest to 1 that is noticed, on the side of `far`; NaN if not even `far` is. */
static double nearest(const design *d, double far) {
  if (power(d, far) < POWER) return NAN;
  double in = 0, out = log(far);
  for (int i = 0; i < HALVINGS; i++) {
    double mid = 0.5 * (in + out);
    *(power(d, exp(mid)) < POWER ? &in : &out) = mid;
  }
  return exp(out);
}

void atvi_app_sbc_notice(const atvi_ecdf *ecdf, atvi_idx n, double level, double *narrow, double *wide) {
  design d = {.ecdf = ecdf, .n = n, .level = level};
  double mean = atvi_app_sbc_mean_square(), sets = MOST_RANKS / (2 * (HALVINGS + 1) * (double)n);
  d.sets = sets > SETS ? SETS : sets < SETS_LEAST ? SETS_LEAST : (int)sets;
  for (int k = 0; k < K; k++) {
    double z = atvi_app_sbc_score(k);
    d.square[k] = z * z / mean;
    d.log_choose[k] = atvi_math_lgamma(L + 1) - atvi_math_lgamma(k + 1) - atvi_math_lgamma(L - k + 1);
  }
  *narrow = nearest(&d, 1 / FURTHEST);
  *wide = nearest(&d, FURTHEST);
}
