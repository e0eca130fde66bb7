/* SPDX-License-Identifier: MIT */
/* atvi sbc: simulation-based calibration. Replicate r has the truth number r - 1 of the prior and the
 * observations number r - 1 of the seed, and is fitted with seed + r - 1. Records as in a study. */
#include "app/replicate.h"
#include "app/study.h"
#include "diag/summary.h"
#include "io/file.h"
#include "math/rng.h"
#include "math/special.h"
#include <inttypes.h>
#include <math.h>

enum { L = ATVI_SBC_DRAWS, K = ATVI_SBC_DRAWS + 1 };
static const char FIT[] = "seconds evaluations khat rhat ess"; /* fields of the headline in the record */

typedef struct {
  atvi_ctx *ctx;
  atvi_pool *pool;
  const atvi_app_sbc_opts *opts;
  atvi_loaded *l;
  atvi_idx n; /* parameters and derived quantities */
  atvi_sbc s;
  atvi_record rec;
} sbc;

static atvi_status prepare(sbc *x) {
  const atvi_target *t = x->l->target;
  atvi_fit_plan plan;
  if (x->l->model->lang->n_observe == 0)
    return ATVI_FAIL(x->ctx, ATVI_EINVAL, "the model observes nothing, so there is nothing to calibrate");
  ATVI_TRY(atvi_app_replicate_sets(x->ctx, x->l));
  if (atvi_app_flat(x->l))
    return ATVI_FAIL(x->ctx, ATVI_EMODEL,
                     "%s: error: the prior of '%s' is flat, and truths cannot be drawn from it\nhint: give "
                     "it a prior, or use "
                     "atvi study",
                     x->opts->all.model.path, atvi_app_flat(x->l));
  if (x->l->model->prog.has_extra)
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
  x->s.line = atvi_pool_take(x->pool, (size_t)x->n + 1, sizeof *x->s.line);
  if (!x->s.line) return ATVI_ENOMEM;
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

/* truth[x->n]: parameters and derived quantities. */
static void draw_truth(const sbc *x, atvi_idx r, double *truth) {
  const atvi_target *t = x->l->target;
  void *work = atvi_model_evaluator_work(x->l->ev);
  t->ops->prior_draw(t->self, work, x->opts->all.seed, ATVI_TRUTH_FIRST + r - 1, 1, truth);
  if (t->n_derived) t->ops->derived(t->self, work, 1, truth, truth + t->d);
}

/* Rank of the truth in column i among L draws, spread evenly: practically independent if there are many more
 * effective draws. Among draws equal to it, as for a discrete quantity, its place is random: only then is the
 * rank uniform. */
static double rank_of(const sbc *x, const atvi_draws *d, atvi_idx i, atvi_idx r, double truth) {
  const double *col = d->x + i * d->n;
  double mean = 0, scale = x->opts->scale_sd;
  atvi_idx below = 0, equal = 0;
  if (!isfinite(truth)) return NAN;
  for (atvi_idx k = 0; k < d->n; k++) mean += col[k] / (double)d->n;
  for (atvi_idx k = 0; k < L; k++) {
    double v = col[(atvi_idx)(((double)k + 0.5) * (double)d->n / L)];
    if (scale != 1) v = mean + scale * (v - mean);
    below += v < truth;
    equal += v == truth;
  }
  atvi_rng rng = atvi_math_rng_at(x->opts->all.seed, ATVI_STREAM_CHECK, (uint32_t)i, (uint32_t)r);
  return (double)below + floor(atvi_math_rng_uniform(&rng) * (double)(equal + 1));
}

static atvi_status get_data(const atvi_repeat *all, atvi_pool *pool, atvi_replicate_place *at,
                            atvi_app_model *model) {
  const sbc *x = all->self;
  double *truth = atvi_pool_take(pool, (size_t)x->n + 1, sizeof *truth);
  if (!truth) return ATVI_ENOMEM;
  draw_truth(x, at->replicate, truth);
  at->truth = truth;
  return atvi_app_repeat_simulate(all, pool, truth, at, model);
}

static atvi_status add_ranks(const atvi_repeat *all, const atvi_replicate_place *at, atvi_replicate *r,
                             const atvi_summary *s, atvi_text *out) {
  const sbc *x = all->self;
  (void)s;
  if (r && r->y.plain->n < L)
    return ATVI_FAIL(r->ctx, ATVI_ELIMIT, "%td draws are too few for a rank among %d", r->y.plain->n, L);
  for (atvi_idx i = 0; i < x->n; i++) {
    atvi_io_fields_cell(out, at->truth ? at->truth[i] : NAN);
    atvi_io_fields_cell(out, r ? rank_of(x, r->y.plain, i, at->replicate, at->truth[i]) : NAN);
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

enum { GRID = 500, HALVINGS = 7, SETS = 400, SETS_LEAST = 100 };
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

static const double BAND = 0.05, OVERALL = 0.01;
static const double SIGHT = 0.005; /* to which factors are found */

/* ---- counting ---- */

/* A test for n ranks; *ecdf is one for *n_ecdf of them already. It is shared by quantities with the same
 * number of ranks, almost always all. */
static atvi_status test_for(atvi_ctx *ctx, const atvi_sbc *s, atvi_idx n, atvi_ecdf **ecdf,
                            atvi_idx *n_ecdf) {
  if (*n_ecdf == n) return ATVI_OK;
  atvi_math_ecdf_free(*ecdf);
  *n_ecdf = 0;
  ATVI_TRY(atvi_math_ecdf_new(ctx, n, K, atvi_math_ecdf_sims(n, s->level), 1, ecdf));
  *n_ecdf = n;
  return ATVI_OK;
}

static atvi_status count_line(atvi_ctx *ctx, const atvi_sbc *s, const atvi_record_part *x, atvi_ecdf **ecdf,
                              atvi_idx *n_ecdf, atvi_sbc_line *line) {
  atvi_idx count[K] = {0}, below = 0;
  double sum = 0, square = 0, unit = atvi_app_sbc_mean_square();
  for (atvi_idx r = 0; r < x->csv->n_row; r++) {
    double rank = atvi_app_record_good(x, r) ? atvi_app_record_number(x->csv, r, line->name, ".rank") : NAN;
    if (!(rank >= 0 && rank <= L)) continue;
    double z = atvi_app_sbc_score((atvi_idx)rank);
    count[(atvi_idx)rank]++;
    line->bin[(atvi_idx)rank * ATVI_SBC_BINS / K]++;
    line->n++;
    sum += z;
    square += z * z / unit;
  }
  line->p_band = line->p_spread = line->mean_z = line->sd_z = NAN;
  line->inside = line->fine = true; /* no objection */
  if (line->n == 0) return ATVI_OK;
  ATVI_TRY(test_for(ctx, s, line->n, ecdf, n_ecdf));
  line->mean_z = sum / (double)line->n;
  line->sd_z = sqrt(square / (double)line->n);
  line->p_spread = atvi_app_sbc_spread(line->n, square);
  line->p_band = atvi_math_ecdf_p(*ecdf, count);
  atvi_math_ecdf_band(*ecdf, BAND, line->low, line->high);
  for (atvi_idx i = 0; i < L; i++) {
    double u = (double)(i + 1) / K, f;
    below += count[i];
    f = (double)below / (double)line->n;
    line->inside = line->inside && f >= line->low[i] - 1e-12 && f <= line->high[i] + 1e-12;
    line->difference[i] = f - u;
    line->low[i] -= u;
    line->high[i] -= u;
  }
  return ATVI_OK;
}

/* By the quantity with the fewest ranks. */
static atvi_status look(atvi_ctx *ctx, atvi_sbc *s, atvi_ecdf **ecdf, atvi_idx *n_ecdf) {
  atvi_idx n = 0;
  s->power = ATVI_SBC_BLIND;
  s->narrow = s->wide = NAN;
  for (atvi_idx i = 0; i < s->n; i++)
    if (s->line[i].n > 0 && (n == 0 || s->line[i].n < n)) n = s->line[i].n;
  if (n == 0) return ATVI_OK;
  ATVI_TRY(test_for(ctx, s, n, ecdf, n_ecdf));
  atvi_app_sbc_notice(*ecdf, n, s->level, &s->narrow, &s->wide);
  s->power = s->narrow >= 0.75 - SIGHT  ? ATVI_SBC_SHARP
             : s->narrow >= 0.5 - SIGHT ? ATVI_SBC_ROUGH
                                        : ATVI_SBC_BLIND;
  return ATVI_OK;
}

atvi_status atvi_app_sbc_count(atvi_ctx *ctx, atvi_pool *pool, const atvi_csv *record, atvi_sbc *s) {
  atvi_ecdf *ecdf = NULL;
  atvi_idx n_ecdf = 0;
  atvi_record_part x = {record, s->method, s->replicates};
  ATVI_TRY(atvi_app_record_tally(pool, &x, false, &s->tally, &s->failures));
  for (atvi_idx r = 0; r < record->n_row; r++)
    if (atvi_app_record_good(&x, r)) s->seconds += atvi_app_record_number(record, r, "", "seconds");
  s->level = OVERALL / (2 * (double)(s->n > 0 ? s->n : 1));
  atvi_status status = ATVI_OK;
  for (atvi_idx i = 0; status == ATVI_OK && i < s->n; i++)
    status = count_line(ctx, s, &x, &ecdf, &n_ecdf, &s->line[i]);
  s->fine = true;
  s->n_untested = 0;
  for (atvi_idx i = 0; i < s->n; i++) {
    atvi_sbc_line *l = &s->line[i];
    l->fine = !(l->p_band < s->level) && !(l->p_spread < s->level); /* NaN is not an objection */
    s->fine = s->fine && l->fine;
    s->n_untested += l->n == 0;
  }
  if (status == ATVI_OK) status = look(ctx, s, &ecdf, &n_ecdf);
  atvi_math_ecdf_free(ecdf);
  return status;
}

#define LINE(name, heading, width, show)                                                                     \
  ATVI_FIELD_SHOWN(#name, REAL, atvi_sbc_line, name, heading, width, show, 2)
static const atvi_field LINES[] = {LINE(p_band, "p band", 9, GENERAL), LINE(p_spread, "p spread", 9, GENERAL),
                                   ATVI_FIELD(REAL, atvi_sbc_line, mean_z), LINE(sd_z, "sd z", 7, FIXED)};
static const atvi_fields LINE_FIELDS = ATVI_FIELDS(LINES);
static const char SHOWN[] = "p_band p_spread sd_z";

/* ---- terminal ---- */

/* The problem, in two words. */
static const char *word(const atvi_sbc_line *l) {
  if (l->n == 0) return "no ranks";
  if (l->fine) return "";
  double far =
      2.6 / sqrt((double)l->n); /* 1 % of means of z are further out; 1 % of its sds, at 0.7 of that */
  if (fabs(l->mean_z) > far * fmax(1, l->sd_z)) return l->mean_z > 0 ? "too low" : "too high";
  if (fabs(l->sd_z - 1) > 0.7 * far) return l->sd_z > 1 ? "too narrow" : "too wide";
  return "wrong shape";
}

/* By power, if there is no objection. */
static const char *const WORD[] = {"-", "no sign", "yes"};
static const char *const WHOLE[] = {"too few replicates to tell", "no sign of an error", "yes"};

static void sight(atvi_text *out, const atvi_sbc *s) {
  const char *more = s->tally.n_done == 1 ? "" : "s";
  if (isnan(s->narrow) && isnan(s->wide)) {
    atvi_io_text_add(out, "with %td replicate%s no wrong posterior is certain to be noticed\n",
                     s->tally.n_done, more);
    return;
  }
  atvi_io_text_add(out, "may go unnoticed with %td replicate%s: sds too small by ", s->tally.n_done, more);
  if (isnan(s->narrow))
    atvi_io_text_add(out, "any factor, too large by ");
  else
    atvi_io_text_add(out, "a factor of %.3g, too large by ", 1 / s->narrow);
  if (isnan(s->wide))
    atvi_io_text_add(out, "any factor\n");
  else
    atvi_io_text_add(out, "%.3g\n", s->wide);
}

atvi_status atvi_app_sbc_text(atvi_pool *pool, const atvi_sbc *s, const char **text) {
  atvi_text out = {.pool = pool};
  atvi_io_text_add(&out, "%s, method %s, %td replicate%s, seed %" PRIu64 "\n", s->model, s->method,
                   s->replicates, s->replicates == 1 ? "" : "s", s->seed);
  atvi_app_tally_text(&out, &s->tally);
  atvi_io_text_add(&out, "; %.3g s per fit\n", s->tally.n_done ? s->seconds / (double)s->tally.n_done : 0);
  if (s->scale_sd != 1)
    atvi_io_text_add(&out, "posterior draws were scaled about their mean by %g: this should be noticed\n",
                     s->scale_sd);
  atvi_io_text_add(&out, "\n%-14s %-7s", "", "95 %");
  atvi_io_fields_heading(&out, &LINE_FIELDS, SHOWN);
  atvi_io_text_add(&out, "  ranks of the truth, ten bins\n");
  for (atvi_idx i = 0; i < s->n; i++) {
    const atvi_sbc_line *l = &s->line[i];
    atvi_io_text_add(&out, "%-14.30s %-7s", l->name, l->n == 0 ? "" : l->inside ? "inside" : "outside");
    atvi_io_fields_row(&out, &LINE_FIELDS, l, SHOWN, "");
    atvi_io_text_add(&out, " ");
    for (int b = 0; b < ATVI_SBC_BINS; b++) atvi_io_text_add(&out, " %3td", l->bin[b]);
    const char *how = !l->fine ? "NO" : l->n == 0 ? "not known" : WORD[s->power];
    atvi_io_text_add(&out, "  %s%s%s\n", how, *word(l) ? ", " : "", word(l));
  }
  atvi_io_text_add(&out, "\ncalibrated at 99 %% over all quantities: ");
  if (s->fine && s->n_untested)
    atvi_io_text_add(&out, "not known, %td of %td %s no ranks\n", s->n_untested, s->n,
                     s->n_untested == 1 ? "has" : "have");
  else
    atvi_io_text_add(&out, "%s\n", s->fine ? WHOLE[s->power] : "NO");
  if (s->fine && s->tally.n_done) sight(&out, s);
  atvi_app_failures_text(&out, &s->failures);
  return atvi_io_text_get(&out, text);
}

/* ---- files ---- */

atvi_status atvi_app_sbc_csv(atvi_pool *pool, const atvi_sbc *s, const char **text) {
  atvi_text out = {.pool = pool};
  atvi_io_text_add(&out, "quantity,u,difference,low95,high95\n");
  for (atvi_idx i = 0; i < s->n; i++)
    for (int k = 0; s->line[i].n && k < L; k++) {
      const atvi_sbc_line *l = &s->line[i];
      atvi_app_field(&out, l->name);
      atvi_io_text_add(&out, ",%.4g,%.9g,%.9g,%.9g\n", (double)(k + 1) / K, l->difference[k], l->low[k],
                       l->high[k]);
    }
  return atvi_io_text_get(&out, text);
}

/* null if there are too few replicates to decide, or no ranks */
static json_t *calibrated(const atvi_sbc *s, bool fine, bool tested) {
  return fine && (s->power == ATVI_SBC_BLIND || !tested) ? json_null() : json_boolean(fine);
}

static void put_line(atvi_json *w, const atvi_sbc *s, const atvi_sbc_line *l) {
  atvi_io_json_object(w, NULL);
  atvi_io_json_put(w, "name", atvi_io_json_word(w->pool, l->name));
  atvi_io_json_put(w, "kind", json_string(l->derived ? "derived" : "parameter"));
  atvi_io_json_put(w, "ranks", json_integer(l->n));
  atvi_io_json_list(w, "histogram");
  for (int b = 0; b < ATVI_SBC_BINS; b++) atvi_io_json_put(w, NULL, json_integer(l->bin[b]));
  atvi_io_json_end(w);
  atvi_io_json_put(w, "inside95", l->n ? json_boolean(l->inside) : json_null());
  atvi_io_fields_json(w, &LINE_FIELDS, l, NULL);
  atvi_io_json_put(w, "calibrated", calibrated(s, l->fine, l->n > 0));
  atvi_io_json_end(w);
}

atvi_status atvi_app_sbc_json(atvi_pool *pool, const atvi_sbc *s, const char **text) {
  atvi_json w = {.pool = pool, .digits = 17};
  atvi_io_json_object(&w, NULL);
  atvi_io_json_put(&w, "model", atvi_io_json_word(pool, s->model));
  atvi_io_json_put(&w, "method", json_string(s->method));
  atvi_io_json_put(&w, "seed", atvi_io_json_seed(pool, s->seed));
  atvi_io_json_put(&w, "replicates", json_integer(s->replicates));
  atvi_app_tally_json(&w, &s->tally);
  atvi_io_json_put(&w, "scale_sd", json_real(s->scale_sd));
  atvi_io_json_put(&w, "seconds", atvi_io_json_real(s->seconds));
  atvi_io_json_put(&w, "level", json_real(s->level));
  atvi_io_json_put(&w, "calibrated", calibrated(s, s->fine, s->n_untested == 0));
  atvi_io_json_object(&w, "noticed");
  atvi_io_json_put(&w, "sd_below", atvi_io_json_real(s->narrow));
  atvi_io_json_put(&w, "sd_above", atvi_io_json_real(s->wide));
  atvi_io_json_end(&w);
  atvi_io_json_list(&w, "quantities");
  for (atvi_idx i = 0; i < s->n; i++) put_line(&w, s, &s->line[i]);
  atvi_io_json_end(&w);
  atvi_io_json_words(&w, "failures", s->failures.n, s->failures.of);
  return atvi_io_json_get(&w, "sbc", text);
}
