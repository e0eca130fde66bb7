/* SPDX-License-Identifier: MIT */
#include "infer/vi_state.h"
#include "math/rng.h"
#include "math/special.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const double UNTEMPERED[] = {1};

/* Above this many coordinates q is a copula: a flow's cost grows with their square, and the joint weights of
 * so many are no better. */
enum { WIDE_FACTORS = 5 };
/* Above this many, units are fitted one by one and q is not trained if chains may follow: training takes as
 * many gradients as chains in all, and the operations of a flow besides, ten times those of a cheap model.
 * Below, a flow takes no longer, and its draws are worth more than those of chains. */
enum { MANY = ATVI_VI_WIDE / 2 };
/* Of its threshold is k-hat where weights of a q that was not trained serve. */
#define WELL_BELOW 0.7

atvi_vi_opts atvi_infer_vi_defaults(void) {
  return (atvi_vi_opts){.method = "atvi",
                        .seed = 1,
                        .map = "auto",
                        .tune = ATVI_TUNE_AUTO,
                        .seek_modes = true,
                        .batch = 64,
                        .max_steps = 20000,
                        .ess = NAN,
                        .max_seconds = HUGE_VAL,
                        .exact = ATVI_EXACT_AUTO,
                        .exact_iter = 20000};
}

atvi_vi_opts atvi_infer_vi_nf_defaults(void) {
  atvi_vi_opts o = atvi_infer_vi_defaults();
  o.method = "nf";
  o.map = "logit";
  o.n_rung = 1;
  o.temperature = UNTEMPERED;
  o.tune = ATVI_TUNE_OFF;
  o.seek_modes = false;
  o.exact = ATVI_EXACT_OFF;
  return o;
}

atvi_vi_opts atvi_infer_vi_copula_defaults(void) {
  atvi_vi_opts o = atvi_infer_vi_nf_defaults();
  o.method = "copula";
  o.factors = 3;
  return o;
}

static atvi_status check_opts(atvi_ctx *ctx, const atvi_vi_opts *o) {
  if (o->batch < ATVI_LANES || o->batch > 1 << 20)
    return ATVI_FAIL(ctx, ATVI_EINVAL, "vi: batch = %d, want %d to %d", o->batch, ATVI_LANES, 1 << 20);
  if (o->max_steps < 1) return ATVI_FAIL(ctx, ATVI_EINVAL, "vi: max_steps = %d, want >= 1", o->max_steps);
  if (!(o->max_seconds > 0))
    return ATVI_FAIL(ctx, ATVI_EINVAL, "vi: max_seconds = %g, want > 0", o->max_seconds);
  if (o->ess <= 0) return ATVI_FAIL(ctx, ATVI_EINVAL, "vi: ess = %g, want > 0", o->ess);
  if (o->exact_iter < 1) return ATVI_FAIL(ctx, ATVI_EINVAL, "vi: exact_iter = %d, want >= 1", o->exact_iter);
  if (o->exact != ATVI_EXACT_OFF && o->factors > 0)
    return ATVI_FAIL(ctx, ATVI_EINVAL, "vi: the exact sampler needs a flow, not a copula");
  ATVI_ASSERT(o->n_rung >= (o->freeze ? 1 : 0));
  for (int k = 0; k < o->n_rung; k++)
    ATVI_ASSERT(k + 1 < o->n_rung ? o->temperature[k] > o->temperature[k + 1] : o->temperature[k] == 1);
  return ATVI_OK;
}

/* ---- constants ---- */

atvi_vi_tuning atvi_infer_vi_tuning_defaults(void) {
#define VALUE(name, value, unit, what) .name = value,
  return (atvi_vi_tuning){ATVI_VI_TUNABLES(VALUE)};
#undef VALUE
}

const atvi_vi_tunable *atvi_infer_vi_tunables(int *n) {
#define ROW(name, value, unit, what) {#name, value, unit, what},
  static const atvi_vi_tunable rows[] = {ATVI_VI_TUNABLES(ROW)};
#undef ROW
  *n = (int)(sizeof rows / sizeof *rows);
  return rows;
}

/* ---- the object ---- */

bool atvi_infer_vi_cloud(atvi_pool *pool, atvi_idx d, atvi_idx cap, atvi_cloud *c) {
  double **row[] = {&c->log_prior, &c->log_lik, &c->log_base, &c->log_pi, &c->log_q, &c->log_member};
  *c = (atvi_cloud){.cap = cap};
  c->x = atvi_pool_take(pool, (size_t)(d * cap), sizeof(double));
  c->theta = atvi_pool_take(pool, (size_t)(d * cap), sizeof(double));
  for (size_t k = 0; k < sizeof row / sizeof *row; k++)
    *row[k] = atvi_pool_take(pool, (size_t)cap, sizeof(double));
  return !atvi_pool_failed(pool);
}

static double *reals(atvi_vi *v, size_t n) { return atvi_pool_take(v->pool, n, sizeof(double)); }

atvi_status atvi_infer_vi_open(atvi_vi *v) {
  atvi_vi_opts *o = &v->opts;
  v->tuning = o->tuning ? *o->tuning : atvi_infer_vi_tuning_defaults();
  ATVI_TRY(atvi_pool_new(v->ctx, &v->pool));
  ATVI_TRY(atvi_infer_space_new(v->ctx, v->ev, o->map, o->seed, &v->space));
  v->d = v->space->d;
  if (o->factors == 0 && o->shape.layers == 0 && !o->freeze && v->d > ATVI_VI_WIDE) {
    o->factors = WIDE_FACTORS;
    v->wide = true;
  }
  if (o->factors > 0) {
    int most = v->d < o->factors ? (int)v->d : o->factors;
    ATVI_TRY(atvi_flow_family_copula(v->ctx, v->d, most, &v->family));
  } else {
    atvi_flow_shape shape = o->shape.layers > 0 ? o->shape : atvi_flow_defaults(v->d);
    shape.d = v->d;
    if (o->freeze && shape.layers < o->n_rung) shape.layers = o->n_rung;
    ATVI_TRY(atvi_flow_family_flow(v->ctx, &shape, &v->family));
  }
  v->size = v->family.size;
  ATVI_TRY(atvi_infer_elbo_new(v->ctx, v->space, &v->family, o->seed, o->plain, o->batch, &v->elbo));
  atvi_infer_elbo_set_outlier(v->elbo, v->tuning.outlier);
  ATVI_TRY(atvi_infer_vi_trainer_new(v));
  /* Weights of a look and their smoothing; a frame; or two sets of probes. */
  v->scratch = reals(v, ATVI_VI_LOOK + atvi_math_psis_work(ATVI_VI_LOOK) +
                            (size_t)(v->d * (v->d + 2 + ATVI_VI_PROBES)));
  v->probes = reals(v, (size_t)(v->d * ATVI_VI_PROBES));
  v->part = atvi_pool_take(v->pool, ATVI_VI_PARTS, sizeof *v->part);
  if (!atvi_infer_vi_cloud(v->pool, v->d, ATVI_VI_LOOK, &v->room)) return ATVI_ENOMEM;
  atvi_idx last = v->wide ? 0 : ATVI_VI_PARTS / 2; /* temperatures whose draws are kept */
  if (!atvi_infer_vi_cloud(v->pool, v->d, ATVI_VI_PROBES * last, &v->path)) return ATVI_ENOMEM;
  return ATVI_OK;
}

void atvi_infer_vi_close(atvi_vi *v) {
  atvi_infer_vi_lessons_free(v->lessons);
  atvi_infer_vi_trainer_free(v);
  atvi_infer_elbo_free(v->elbo);
  atvi_flow_family_free(&v->family);
  atvi_infer_space_free(v->space);
  atvi_pool_free(v->pool);
}

bool atvi_infer_vi_member_new(atvi_vi *v, const double *shift, const double *chol, atvi_member *m) {
  *m = (atvi_member){.whole = shift != NULL};
  m->phi = reals(v, (size_t)v->size);
  m->shift = reals(v, (size_t)v->d);
  m->chol = reals(v, (size_t)(v->d * v->d));
  if (atvi_pool_failed(v->pool)) return false;
  v->family.ops->init(v->family.self, m->phi);
  for (atvi_idx i = 0; i < v->d; i++) {
    m->shift[i] = shift ? shift[i] : 0;
    for (atvi_idx k = 0; k <= i; k++) m->chol[i * v->d + k] = chol ? chol[i * v->d + k] : i == k;
    m->log_det += log(fabs(m->chol[i * v->d + i]));
  }
  return true;
}

void atvi_infer_vi_member_copy(const atvi_vi *v, const atvi_member *from, atvi_member *to) {
  size_t d = (size_t)v->d;
  memcpy(to->phi, from->phi, (size_t)v->size * sizeof *to->phi);
  memcpy(to->shift, from->shift, d * sizeof *to->shift);
  memcpy(to->chol, from->chol, d * d * sizeof *to->chol);
  to->log_det = from->log_det;
  to->whole = from->whole;
}

/* ---- shared steps ---- */

bool atvi_infer_vi_late(const atvi_vi *v) {
  return atvi_stop_asked(v->ctx) || atvi_clock_s() - v->progress.begun_s > v->opts.max_seconds;
}

bool atvi_infer_vi_over(const atvi_vi *v) {
  return v->progress.steps >= v->opts.max_steps || atvi_infer_vi_late(v) ||
         atvi_clock_s() - v->progress.begun_s > ATVI_VI_TRAIN_TIME * v->opts.max_seconds;
}

void atvi_infer_vi_tell(atvi_vi *v, const char *phase, double done, const char *fmt, ...) {
  char detail[96];
  va_list args;
  va_start(args, fmt);
  vsnprintf(detail, sizeof detail, fmt, args);
  va_end(args);
  v->progress.told = fmax(v->progress.told, done);
  atvi_tell(v->ctx, phase, v->progress.told, atvi_clock_s() - v->progress.begun_s, "%s", detail);
}

atvi_cloud atvi_infer_vi_look(atvi_vi *v, const atvi_member *m, const atvi_elbo_lot *lot) {
  atvi_cloud c = v->room;
  c.n = lot->n;
  atvi_infer_elbo_draw(v->elbo, m, lot, &c, 0);
  return c;
}

atvi_cloud atvi_infer_vi_glance(atvi_vi *v, const atvi_member *m, atvi_idx n) {
  return atvi_infer_vi_look(v, m,
                            &(atvi_elbo_lot){.stream = ATVI_STREAM_TRAIN, .scramble = v->scramble++, .n = n});
}

atvi_vi_quality atvi_infer_vi_judge(atvi_vi *v, const atvi_member *m, uint32_t scramble, atvi_cloud *seen) {
  atvi_cloud c =
      atvi_infer_vi_look(v, m, &(atvi_elbo_lot){ATVI_STREAM_TRAIN, scramble, 0, ATVI_VI_LOOK, true});
  double *weight = v->scratch;
  for (atvi_idx j = 0; j < c.n; j++) {
    double w = c.log_pi[j] - c.log_q[j];
    weight[j] = isfinite(w) ? w : -HUGE_VAL;
  }
  atvi_psis_info p = atvi_math_psis(c.n, weight, weight, weight + c.n);
  if (seen) *seen = c;
  return (atvi_vi_quality){p.log_mean, p.khat, p.ess / (double)c.n, p.excess};
}

double atvi_infer_vi_best_evidence(const atvi_vi *v) {
  double best = -HUGE_VAL;
  for (atvi_idx k = 0; k < v->n_part; k++) best = fmax(best, v->part[k].log_evidence);
  return best;
}

double atvi_infer_vi_all_evidence(const atvi_vi *v) {
  double all = -HUGE_VAL;
  for (atvi_idx k = 0; k < v->n_part; k++) all = atvi_math_log_add(all, v->part[k].log_evidence);
  return all;
}

/* ---- the run ---- */

/* Whether the gradient is finite at one of the first of these draws that can be evaluated. Where hardly any
 * can, fresh draws may all fail. */
static bool has_gradient(atvi_vi *v, const atvi_cloud *c) {
  enum { N = ATVI_LANES };
  atvi_idx d = v->d, got = 0;
  double *x = v->scratch, *theta = x + d * N, *dx = theta + d * N, log_pi[N];
  for (atvi_idx j = 0; j < c->n && got < N; j++) {
    if (!isfinite(c->log_pi[j])) continue;
    for (atvi_idx i = 0; i < d; i++) x[i * N + got] = c->x[i * c->cap + j];
    got++;
  }
  for (atvi_idx i = 0; i < d; i++)
    for (atvi_idx k = got; k < N && got > 0; k++) x[i * N + k] = x[i * N];
  if (got == 0) return false;
  atvi_infer_space_eval(
      v->space, &(atvi_space_batch){.B = N, .x = x, .beta = 1, .theta = theta, .log_pi = log_pi, .dx = dx});
  bool any = false;
  for (atvi_idx k = 0; k < N; k++) {
    bool finite = isfinite(log_pi[k]);
    for (atvi_idx i = 0; i < d; i++) finite = finite && isfinite(dx[i * N + k]);
    any = any || finite;
  }
  return any;
}

/* Is there any point at all, and a gradient there? The first draws of q are about those of the prior; a group
 * of them says so for less than a batch of training does, since runs at extreme points take long. */
static atvi_status first_look(atvi_vi *v) {
  const atvi_member *m = &v->part[0].at;
  bool any = false;
  for (atvi_idx n = 64; n <= ATVI_VI_LOOK; n *= 2) {
    atvi_cloud c = atvi_infer_vi_glance(v, m, n);
    for (atvi_idx j = 0; j < n; j++) any = any || isfinite(c.log_pi[j]);
    if (!any) continue;
    if (has_gradient(v, &c)) {
      v->scramble++; /* all that follows is the same, whichever of the two found it */
      return ATVI_OK;
    }
    if (atvi_infer_vi_try_gradient(v, m) > 0) return ATVI_OK;
  }
  if (any)
    return ATVI_FAIL_AS(v->ctx, ATVI_EMODEL, ATVI_CODE_NO_GRADIENT,
                        "the gradient is not finite at any of the points tried");
  return ATVI_FAIL_AS(v->ctx, ATVI_EMODEL, ATVI_CODE_NEVER_EVALUATED,
                      "none of %d draws %s can be evaluated with a positive likelihood",
                      2 * ATVI_VI_LOOK - 64, v->space->from_prior ? "from the prior" : "to begin with");
}

/* What a run does, in this order; after() says when a phase is left out or comes again. */
typedef enum {
  BLOCKS,      /* many units: draws and weights unit by unit */
  TRAIN,       /* the first component: ladder and rounds */
  WEIGH_ONE,   /* a few thousand draws of it */
  SEEK,        /* look for what q misses */
  COVER,       /* components for it */
  WEIGH_FIRST, /* a few thousand draws of the mixture */
  RIPEN,       /* components that those show to be worth training */
  TUNE,        /* a single component, on smoothed weights */
  WEIGH_ALL,   /* as many draws as are wanted */
  WEIGH_MORE,  /* some more, where that is all that the weights lack */
  SPOT,        /* a component where a draw was met that outweighs the others */
  FOLLOW,      /* components for what lies beyond the draws of largest weight */
  IMPROVE,     /* more training for components with wild weights */
  SAMPLE,      /* chains, where weights do not do */
  DELIVER
} phase;

typedef struct {
  atvi_vi *v;
  atvi_vi_weights w;
  /* How often these phases came. */
  int improved, spotted, sought, followed, filled, extended;
  /* Of the last FOLLOW: components came; there was something to speak of beyond; and nothing, by all draws. */
  bool grew, open, ends;
  /* Looks in a row at which what was absent had not halved. */
  int stayed;
  /* By how much k-hat was above its threshold before the last further training, and what the weights were
   * like. */
  double lacked, noise, sd_gap, beyond;
  /* Log evidence of the components at the last look for what q misses. */
  double log_known;
  atvi_draws *out;
} fit;

static bool may_tune(const atvi_vi *v) {
  return v->opts.tune != ATVI_TUNE_OFF && v->family.ops->score && !atvi_infer_vi_over(v);
}

/* Fine-tuning is tried where it would pay if it made draws as good as independent ones. */
static bool wants_tuning(const fit *f) {
  const atvi_vi *v = f->v;
  double cost = ATVI_VI_GRADIENT_RUNS * v->tuning.round_steps * ATVI_VI_TEST + 2 * ATVI_VI_LOOK;
  bool pays = atvi_infer_vi_saving(v, 1, f->w.psis.ess / (double)f->w.c.n, 0) > cost;
  return may_tune(v) && !v->wide && v->n_part == 1 && (v->opts.tune == ATVI_TUNE_ON || pays);
}

static bool wants_exact(const fit *f) {
  const atvi_vi *v = f->v;
  if (v->opts.exact == ATVI_EXACT_OFF || v->outcome.cut) return false;
  return v->opts.exact == ATVI_EXACT_ON ||
         (v->outcome.converged && (v->search.uncovered > 0 || !atvi_infer_vi_permits(&f->w)));
}

/* With many coordinates chains cost little more than draws, and a q that was not trained must be good to
 * spare them: by these weights, and by what their tail lets expect of those of all draws. */
static bool wants_chains(const fit *f) {
  const atvi_vi *v = f->v;
  const atvi_psis_info *p = &f->w.psis;
  bool good = atvi_infer_vi_serves(&f->w) &&
              atvi_math_psis_permits(f->w.c.n, p->khat / WELL_BELOW, p->excess) &&
              atvi_infer_vi_will_reach(v, &f->w);
  return v->opts.exact == ATVI_EXACT_AUTO && v->wide && !v->outcome.cut && (!good || wants_exact(f));
}

/* What was missing may have hidden more, unless it was little: by the points, which in many dimensions hardly
 * move, or by the maxima that climbs found. Where a search has found half of 24 modes, as a mixture of four
 * components has, it has not found the other half. */
static bool is_much(const fit *f) {
  const atvi_vi *v = f->v;
  return fmax(v->search.log_missing, v->search.log_found) > f->log_known + log(ATVI_SLIGHT);
}

static bool wants_another_look(const fit *f) {
  const atvi_vi *v = f->v;
  return f->sought > 0 && f->sought < ATVI_REPEATS && v->n_part > v->search.looked &&
         !(v->search.uncovered > 0) && is_much(f) && !atvi_infer_vi_over(v);
}

/* What was absent and got components must have halved by the next look, if it matters: else they do not help,
 * and neither would more of them. Where runs take long, and chains with them, it has one look more: a single
 * one may be off by a factor of two. */
static atvi_status seek(fit *f) {
  atvi_vi *v = f->v;
  double before = v->search.log_absent, least;
  ATVI_TRY(atvi_infer_vi_mirrors(v, &f->w));
  ATVI_TRY(atvi_infer_vi_reflect(v));
  f->log_known = atvi_infer_vi_all_evidence(v);
  least = f->log_known + log(ATVI_SLIGHT);
  ATVI_TRY(atvi_infer_vi_seek(v));
  bool stays = f->sought++ > 0 && before > least && v->search.log_absent > fmax(before - log(2), least);
  f->stayed = stays ? f->stayed + 1 : 0;
  if (f->stayed > atvi_infer_vi_is_dear(v)) v->search.uncovered = exp(v->search.log_absent - f->log_known);
  return ATVI_OK;
}

/* Where the last look was one at which nothing had changed, and no component comes or no look is left, it
 * stays so. */
static atvi_status cover(fit *f) {
  atvi_vi *v = f->v;
  ATVI_TRY(atvi_infer_vi_cover(v));
  if (f->stayed > 0 && (v->n_part == v->search.looked || f->sought == ATVI_REPEATS))
    v->search.uncovered = exp(v->search.log_absent - f->log_known);
  double share = exp(v->search.log_found - atvi_infer_vi_all_evidence(v));
  v->search.unsettled = share > ATVI_SLIGHT && !wants_another_look(f) ? share : 0;
  return ATVI_OK;
}

static bool wants_spot(const fit *f) {
  const atvi_vi *v = f->v;
  return v->opts.seek_modes && v->outcome.converged && f->spotted < ATVI_REPEATS &&
         v->n_part < ATVI_VI_PARTS && !atvi_infer_vi_late(v) && atvi_infer_vi_surprised(&f->w);
}

/* Where nothing is found, looking again would not find it either. */
static atvi_status find_spot(fit *f) {
  atvi_idx before = f->v->n_part;
  atvi_status status = atvi_infer_vi_spot(f->v, &f->w);
  f->spotted = f->v->n_part > before ? f->spotted + 1 : ATVI_REPEATS;
  return status;
}

static bool may_follow(const fit *f) {
  const atvi_vi *v = f->v;
  return v->opts.seek_modes && v->outcome.converged && !v->wide && v->n_part < ATVI_VI_PARTS &&
         !atvi_infer_vi_late(v);
}

/* Whether to add components where q has too few draws for a variance: once by the first draws, and once by
 * all, which see more. */
static bool wants_filling(const fit *f) {
  return may_follow(f) && f->filled < (f->w.all ? 2 : 1) && atvi_infer_vi_is_thin(&f->w);
}

/* Whether to look beyond the largest weights: once they may be used, and again after there was something.
 * What the first draws saw must be gone, even where components hide it from the weights. */
static bool wants_following(const fit *f) {
  bool any = f->open || atvi_infer_vi_has_frontier(&f->w);
  return wants_filling(f) || (may_follow(f) && f->w.all && f->followed < ATVI_REPEATS && any);
}

/* What components cannot cover is for more training, once, and then for chains; so is what has no end. */
static atvi_status follow(fit *f) {
  atvi_vi *v = f->v;
  atvi_idx before = v->n_part;
  bool fills = wants_filling(f);
  double share;
  ATVI_TRY(atvi_infer_vi_beyond(v, &f->w, fills, &share));
  f->grew = v->n_part > before;
  f->filled += fills;
  f->open = share > ATVI_VI_UNSEEN / 2;
  if (!f->w.all) return ATVI_OK; /* all draws will say what is beyond */
  f->ends = !f->open;
  f->followed = f->ends && !f->grew ? ATVI_REPEATS : f->followed + 1;
  if (!f->ends && (f->followed == ATVI_REPEATS || (!f->grew && f->improved > 0))) v->search.uncovered = share;
  return ATVI_OK;
}

/* Training ended where the density is zero: there is more to be found by looking elsewhere than by chains
 * from there. */
static bool is_in_a_hole(const fit *f) {
  atvi_idx alive = 0;
  for (atvi_idx j = 0; j < f->w.c.n; j++) alive += isfinite(f->w.c.log_pi[j]);
  return !f->v->wide && (double)alive < ATVI_SMALL * (double)f->w.c.n;
}

static double lack(const fit *f) { return fmax(f->w.psis.khat - atvi_math_psis_threshold(f->w.c.n), 0); }

/* Standard error of k-hat, which is made of the 3 sqrt(n) largest weights. */
static double khat_se(const fit *f) { return (1 + f->w.psis.khat) / sqrt(3 * sqrt((double)f->w.c.n)); }

/* Further training must have brought k-hat half of the way to its threshold, or as near to it as can be told:
 * else q cannot follow the posterior, and chains do it sooner. */
static bool wants_improvement(const fit *f) {
  const atvi_vi *v = f->v;
  bool helped = lack(f) > 0 ? lack(f) <= fmax(f->lacked / 2, khat_se(f))
                            : f->w.noise < f->noise || f->w.sd_gap < f->sd_gap || f->w.beyond < f->beyond / 2;
  return v->outcome.converged && !v->wide && !atvi_infer_vi_tail_fits(&f->w) && !atvi_infer_vi_over(v) &&
         f->improved < v->tuning.improve_times && (f->improved == 0 || helped);
}

/* As many draws again as there are cost less than training, after which all of them are drawn anew. */
static bool wants_more(const fit *f) {
  const atvi_vi *v = f->v;
  return v->outcome.converged && f->extended <= f->improved && !atvi_infer_vi_over(v) &&
         atvi_infer_vi_nearly_reaches(v, &f->w);
}

static bool wants_ripening(const fit *f) {
  const atvi_vi *v = f->v;
  bool any = false;
  for (atvi_idx k = 0; k < v->n_part && v->outcome.converged && !v->wide && !atvi_infer_vi_over(v); k++)
    any = any || atvi_infer_vi_is_unripe(v, k);
  return any;
}

static phase sample_next(const fit *f) {
  return wants_exact(f) && !atvi_infer_vi_late(f->v) ? SAMPLE : DELIVER;
}

static phase after(const fit *f, phase now) {
  const atvi_vi *v = f->v;
  bool over = atvi_infer_vi_over(v), tuned = v->outcome.tuned >= 0,
       exact_only = v->opts.exact == ATVI_EXACT_ON;
  switch (now) {
  case BLOCKS: return v->outcome.converged || v->outcome.cut ? DELIVER : TRAIN;
  case TRAIN: return v->outcome.converged && v->opts.seek_modes && !over ? WEIGH_ONE : WEIGH_FIRST;
  case WEIGH_ONE:
    /* what few draws did not show; those of a lesson are very few */
    if (v->outcome.enough && !over &&
        !(v->lessons ? atvi_infer_vi_is_sound(v, &f->w) : atvi_infer_vi_permits(&f->w)))
      return v->outcome.drafted ? TRAIN : IMPROVE;
    return wants_exact(f) && atvi_infer_vi_hopeless(&f->w) && !is_in_a_hole(f) ? sample_next(f) : SEEK;
  case SEEK:
    return wants_chains(f) ? WEIGH_FIRST : COVER; /* mirror images have come, others are for chains */
  case COVER: return wants_another_look(f) ? SEEK : WEIGH_FIRST;
  case SPOT: return f->w.all ? WEIGH_ALL : WEIGH_FIRST;
  case WEIGH_FIRST:
    if (wants_chains(f) && !atvi_infer_vi_late(v)) return SAMPLE;
    if ((v->search.uncovered > 0 || v->wide) && wants_exact(f)) return sample_next(f);
    if (wants_spot(f)) return SPOT;
    if (wants_ripening(f)) return RIPEN;
    if (v->outcome.converged && f->improved == 0 && !tuned && wants_tuning(f)) return TUNE;
    if (wants_filling(f)) return FOLLOW;
    if (v->outcome.converged && !exact_only) return WEIGH_ALL;
    break;
  case RIPEN:
  case TUNE: return WEIGH_FIRST;
  case IMPROVE:
    return v->opts.seek_modes && !over ? SEEK : COVER; /* more training may have given up a mode */
  case WEIGH_ALL:
  case WEIGH_MORE:
    if (v->wide && wants_exact(f)) return sample_next(f);
    if (wants_spot(f)) return SPOT;
    if (wants_more(f)) return WEIGH_MORE;
    if (wants_following(f)) return FOLLOW;
    break;
  case FOLLOW:
    if (!f->w.all) return WEIGH_FIRST;
    if (f->grew) return WEIGH_ALL;
    if (!f->ends && !(v->search.uncovered > 0) && !over) return IMPROVE;
    break;
  case SAMPLE: return !f->out && f->w.c.n == 0 ? TRAIN : DELIVER;
  case DELIVER: return DELIVER;
  }
  /* after a weighing */
  return wants_improvement(f) ? IMPROVE : sample_next(f);
}

static void tune(atvi_vi *v, atvi_vi_part *p) {
  bool kept = atvi_infer_vi_tune(v, &p->at, (int)v->tuning.round_steps);
  if (kept) p->drawn = 0;
  v->outcome.tuned = fmax(v->outcome.tuned, kept);
}

/* More of everything, for every component that has its part in the wild weights. */
static atvi_status improve(atvi_vi *v) {
  double all = atvi_infer_vi_all_evidence(v);
  for (atvi_idx k = 0; k < v->n_part && !atvi_infer_vi_over(v); k++) {
    atvi_vi_part *p = &v->part[k];
    if (p->blame < ATVI_SMALL) continue;
    if (k == 0 && v->lessons) {
      bool learned;
      ATVI_TRY(atvi_infer_vi_learn_more(v, &p->at, &learned));
      p->drawn = 0;
      if (learned) continue;
    }
    atvi_vi_rounds_opts o = {.beta = 1,
                             .step = v->tuning.step_round / 4,
                             .most = INT32_MAX,
                             .halvings = (int)v->tuning.halvings,
                             .last = v->size,
                             .share = v->n_part > 1 ? exp(p->log_evidence - all) : 1,
                             .thorough = true};
    if (atvi_infer_vi_rounds(v, &p->at, &o).changed) p->drawn = 0;
    if (may_tune(v)) tune(v, p);
    if (v->n_part > 1 && p->drawn == 0)
      p->log_evidence = atvi_infer_vi_judge(v, &p->at, v->scramble++, NULL).log_evidence;
  }
  return ATVI_OK;
}

/* Many coordinates: the normal approximation at the best maximum, if that is a peak. A ladder would have as
 * many rungs as the posterior is narrower than the prior in all of them together, and training takes as many
 * runs as chains do in all and often leaves weights that cannot be used: it is for those who will not have
 * chains, and for several modes, as far as a flow serves: chains that have begun in one stay there. */
static atvi_status train(atvi_vi *v);
static atvi_status train_wide(atvi_vi *v) {
  atvi_member *m = &v->part[0].at;
  atvi_member top;
  bool found = false, chains = v->opts.exact == ATVI_EXACT_AUTO;
  ATVI_TRY(atvi_infer_vi_summit(v, &top, &found));
  if (v->d <= ATVI_VI_WIDE && (!found || atvi_infer_vi_has_rivals(v))) {
    v->wide = false;
    v->search.modes.n = 0;
    return train(v);
  }
  if (!found) {
    v->outcome.converged = chains || atvi_infer_vi_train(v, m);
    return ATVI_OK;
  }
  double *phi = m->phi;
  *m = top;
  memcpy(phi, m->phi, (size_t)v->size * sizeof *phi);
  /* a copula that is normal, from which training could not leave; a flow begins as the identity */
  if (v->opts.factors > 0) memset(m->phi, 0, (size_t)v->size * sizeof *phi);
  v->outcome.converged = chains;
  if (v->outcome.converged) return ATVI_OK;
  memcpy(m->phi, phi, (size_t)v->size * sizeof *phi);
  v->outcome.converged = atvi_infer_vi_train_more(v, m, HUGE_VAL, 0, atvi_infer_vi_in_vain).done;
  return ATVI_OK;
}

/* Whether the options leave it open how q is found. With few coordinates training goes on in any case. */
static bool may_draft(const atvi_vi *v) {
  const atvi_vi_opts *o = &v->opts;
  bool folds = v->d < ATVI_VI_FEW;
  for (atvi_idx i = 0; i < v->d; i++) folds = folds || v->space->map[i].kind == ATVI_MAP_SURJECTION;
  return o->n_rung == 0 && o->shape.layers == 0 && o->factors == 0 && !o->freeze && o->seek_modes && !folds;
}

/* A draft, or training; a draft that more draws found wanting was none. */
static atvi_status train(atvi_vi *v) {
  atvi_vi_part *first = &v->part[0];
  atvi_member *m = &first->at;
  if (v->wide) return train_wide(v);
  bool again = v->outcome.drafted;
  v->outcome.enough = v->outcome.drafted = false;
  if (again && v->lessons) { /* more draws than a lesson has found it wanting: there is more to learn */
    first->drawn = 0;
    ATVI_TRY(atvi_infer_vi_learn(v, m, &v->outcome.enough));
    v->outcome.drafted = v->outcome.enough;
  }
  if (again && !v->outcome.enough) {
    first->drawn = 0;
    if (!atvi_infer_vi_member_new(v, NULL, NULL, m)) return ATVI_ENOMEM;
  } else if (!again && may_draft(v)) {
    ATVI_TRY(atvi_infer_vi_draft(v, m, &v->outcome.enough));
    v->outcome.drafted = v->outcome.enough;
  }
  if (!v->outcome.enough) atvi_infer_vi_unlearn(v);
  v->outcome.converged = v->outcome.enough || atvi_infer_vi_train(v, m);
  return ATVI_OK;
}

/* Where weights by units do not do either, what follows begins anew. */
static atvi_status blocks(fit *f) {
  atvi_vi *v = f->v;
  ATVI_TRY(atvi_infer_vi_blocks(v, &f->w));
  v->outcome.converged = v->wide ? atvi_infer_vi_serves(&f->w) : atvi_infer_vi_permits(&f->w);
  if (v->outcome.converged || v->outcome.cut) return ATVI_OK;
  atvi_infer_vi_weights_free(&f->w);
  v->part[0].drawn = 0;
  v->wide = true;
  return ATVI_OK;
}

/* A flow, where there was none for being many coordinates, but not too many. */
static bool may_train_instead(const atvi_vi *v) {
  return v->d <= ATVI_VI_WIDE && v->opts.exact == ATVI_EXACT_AUTO && !atvi_infer_vi_over(v);
}

/* Chains that got nowhere from a normal approximation leave it to training, which then begins anew. */
static atvi_status sample(fit *f) {
  atvi_vi *v = f->v;
  ATVI_TRY(atvi_infer_vi_chains(v, &f->w, &f->out));
  if (f->out || !v->wide || !may_train_instead(v)) return ATVI_OK;
  atvi_infer_vi_weights_free(&f->w);
  v->wide = false;
  v->n_part = 1;
  v->part[0].drawn = 0;
  v->search = (atvi_vi_search){0};
  v->outcome.converged = false;
  return atvi_infer_vi_member_new(v, NULL, NULL, &v->part[0].at) ? ATVI_OK : ATVI_ENOMEM;
}

static atvi_status enter(fit *f, phase now) {
  atvi_vi *v = f->v;
  switch (now) {
  case BLOCKS: return blocks(f);
  case TRAIN: return train(v);
  case SEEK: return seek(f);
  case COVER: return cover(f);
  case WEIGH_ONE:
  case WEIGH_FIRST: return atvi_infer_vi_weigh(v, &f->w, false);
  case RIPEN: return atvi_infer_vi_ripen(v);
  case TUNE: tune(v, &v->part[0]); return ATVI_OK;
  case WEIGH_ALL: return atvi_infer_vi_weigh(v, &f->w, true);
  case WEIGH_MORE: f->extended++; return atvi_infer_vi_weigh_more(v, &f->w);
  case IMPROVE:
    f->improved++;
    f->lacked = lack(f);
    f->noise = f->w.noise;
    f->sd_gap = f->w.sd_gap;
    f->beyond = f->w.beyond;
    return improve(v);
  case SPOT: return find_spot(f);
  case FOLLOW: return follow(f);
  case SAMPLE: return sample(f);
  case DELIVER: break;
  }
  /* What ought to have come and did not: all draws, or the chains. */
  v->outcome.cut = v->outcome.cut || (!f->out && (wants_exact(f) || (atvi_infer_vi_late(v) && !f->w.all)));
  return f->out ? ATVI_OK : atvi_infer_vi_deliver(v, &f->w, &f->out);
}

static atvi_status run(fit *f) {
  atvi_vi *v = f->v;
  ATVI_TRY(atvi_infer_vi_open(v));
  atvi_vi_part *first = &v->part[v->n_part++];
  if (!atvi_infer_vi_member_new(v, NULL, NULL, &first->at)) return ATVI_ENOMEM;
  ATVI_TRY(first_look(v));
  bool asked = v->opts.shape.layers > 0 || v->opts.freeze || v->opts.n_rung > 0; /* for a flow, or a ladder */
  phase now = v->d > MANY && !asked && v->opts.exact == ATVI_EXACT_AUTO ? BLOCKS : TRAIN;
  for (; now != DELIVER; now = after(f, now)) ATVI_TRY(enter(f, now));
  return enter(f, DELIVER);
}

atvi_status atvi_infer_vi_run(atvi_ctx *ctx, atvi_evaluator *ev, const atvi_vi_opts *opts, atvi_draws **out) {
  *out = NULL;
  atvi_vi v = {
      .ctx = ctx, .ev = ev, .opts = opts ? *opts : atvi_infer_vi_defaults(), .outcome = {.tuned = NAN}};
  v.progress.begun_s = atvi_clock_s();
  ATVI_TRY(check_opts(ctx, &v.opts));
  fit f = {.v = &v};
  atvi_status status = run(&f);
  atvi_infer_vi_weights_free(&f.w);
  atvi_infer_vi_close(&v);
  *out = f.out;
  return status;
}
