/* SPDX-License-Identifier: MIT */
/* Robust adaptive Metropolis (Vihola 2012) on the driver of chains.h.
 *
 * Starts      candidates from the prior, of which `chains` are drawn with weight likelihood^beta0 (start.c).
 * Annealing   in the first `anneal` iterations the likelihood counts with a power that grows from beta0 to 1
 *             geometrically, so that chains do not freeze in the first hollow they meet. Nothing of this
 *             part is ever kept. Chains stay independent: disagreement between modes remains visible.
 * Adaptation  goes on all the time with eta_n = min(1, d n^(-2/3)), as in the paper: it diminishes, so the
 *             chains are ergodic, and since warm-up ends only in hindsight there is no moment to freeze it.
 *             While annealing, eta is constant and large, and n counts from its end: after n steps the
 *             paper's rate can narrow a direction by no more than e^(n^(1/3)/3).
 * Sharing     at checkpoints that are not passed every chain's proposal takes the covariance within the
 *             chains as its shape, keeping its own size. That halves the work or better; states are
 *             never shared, but for lost chains, which are moved and reported.
 * Lost        chains are looked for in the middle of the way to the first checkpoint, where it costs nothing,
 *             and at a few of the checkpoints that are not passed. The log mass of the region a chain is in
 *             is about mean of log posterior + log det S, exactly so for normal regions, as S S^T is
 *             proportional to their covariance. When chains are moved, everything before is discarded.
 * Warm-up     is the first half of what was run so far. Between 1/4 and 1/2 of the store is delivered. */
#include "infer/chains.h"
#include "infer/vi_tuning.h"
#include "math/linalg.h"
#include "math/stat/stat.h"
#include <math.h>

enum {
  LOOK_MIN =
      2 *
      ATVI_VI_LOOK, /* kept states of all chains before the criteria are looked at: tails have 1 in 20 of them */
  FIRST_CHECK = 400, /* iterations per parameter before that: about as many as adaptation takes */
  ANNEAL = 30,       /* iterations of annealing for each parameter, and for ten more */
};
/* Adaptation while annealing; it must keep up with a target that narrows e-fold per e-fold. */
#define ANNEAL_ETA 0.7

typedef struct {
  atvi_lanes lanes;
  /* chains in use, <= ATVI_LANES */
  int n;
  /* [d][n], [n], [n] evaluation of some of the lanes */
  double *pack, *pack_prior, *pack_lik;
  /* [LANES] */
  atvi_outcome *outcome;
} ram_group;

typedef struct {
  atvi_chains c;
  /* [groups] */
  ram_group *group;
  /* [2][d] */
  double *bounds;
  /* iterations below full likelihood, which begins with the power e^log_beta0 */
  atvi_idx anneal;
  double log_beta0;
  /* checkpoints at which lost chains were looked for */
  int looked;
  /* [d][d + 1] covariance that the chains share, and a mean */
  double *shape;
  atvi_lanes_propose_fn *propose;
  atvi_lanes_update_fn *update;
} ram;

/* ---- running ---- */

/* Fills prop_log_prior and prop_log_lik. Lanes outside the box are left out of the batch: they cost nothing,
 * and a point's value does not depend on its neighbours. */
static void evaluate(atvi_evaluator *ev, ram_group *g, int worker) {
  atvi_lanes *l = &g->lanes;
  int lane[ATVI_LANES], n = 0;
  for (int i = 0; i < ATVI_LANES; i++) {
    bool in = i < g->n && l->outside[i] == 0;
    if (in) lane[n++] = i;
  }
  atvi_batch b = {.B = n,
                  .theta = l->prop,
                  .log_prior = l->prop_log_prior,
                  .log_lik = l->prop_log_lik,
                  .outcome = g->outcome};
  if (n < ATVI_LANES) {
    for (int i = 0; i < ATVI_LANES; i++) l->prop_log_prior[i] = l->prop_log_lik[i] = -HUGE_VAL;
    if (n == 0) return;
    for (atvi_idx j = 0; j < l->d; j++)
      for (int i = 0; i < n; i++) g->pack[j * n + i] = l->prop[j * ATVI_LANES + lane[i]];
    b.theta = g->pack;
    b.log_prior = g->pack_prior;
    b.log_lik = g->pack_lik;
  }
  atvi_model_evaluator_run_on(ev, worker, &b);
  for (int i = 0; i < n; i++) {
    double lp = b.log_prior[i], ll = b.log_lik[i];
    bool good = g->outcome[i] == ATVI_RUN_OK && isfinite(lp) && isfinite(ll);
    l->prop_log_prior[lane[i]] = good ? lp : -HUGE_VAL;
    l->prop_log_lik[lane[i]] = good ? ll : -HUGE_VAL;
  }
}

static atvi_idx run(void *self, atvi_idx item, int worker) {
  ram *r = self;
  ram_group *g = &r->group[item];
  const atvi_lanes *l = &g->lanes;
  atvi_idx to = atvi_infer_chains_to(&r->c);
  for (atvi_idx n = r->c.done + 1; n <= to; n++) {
    double beta = n <= r->anneal ? exp(r->log_beta0 * (1 - (double)n / (double)(r->anneal + 1))) : 1;
    double eta = n <= r->anneal ? ANNEAL_ETA : fmin(1, (double)l->d * pow((double)(n - r->anneal), -2.0 / 3));
    if (n == r->anneal + 1)
      for (int i = 0; i < ATVI_LANES; i++) l->accepted[i] = 0;
    r->propose(l, (uint32_t)n);
    evaluate(r->c.ev, g, worker);
    r->update(l, beta, eta);
    for (int i = 0; i < g->n; i++)
      atvi_infer_chains_keep(&r->c, (atvi_idx)l->chain + i, n, l->x + i, ATVI_LANES, l->log_prior[i],
                             l->log_lik[i]);
  }
  return to;
}

/* ---- adaptation from all chains ---- */

static double mass(void *self, atvi_idx chain, double *mean) {
  const ram *r = self;
  const atvi_lanes *l = &r->group[chain / ATVI_LANES].lanes;
  atvi_kept kept = atvi_infer_chains_kept(&r->c);
  const double *prior = atvi_infer_chains_row(&r->c, l->d, chain),
               *lik = atvi_infer_chains_row(&r->c, l->d + 1, chain);
  double sum = 0, log_det = 0;
  for (atvi_idx i = kept.first; i < kept.first + kept.n; i++) sum += prior[i] + lik[i];
  for (atvi_idx i = 0; i < l->d; i++) log_det += log(l->S[i * (i + 3) / 2 * ATVI_LANES + chain % ATVI_LANES]);
  *mean = sum / (double)kept.n;
  return *mean + log_det;
}

static void copy_rows(atvi_idx rows, double *to, atvi_idx to_lane, const double *from, atvi_idx from_lane) {
  for (atvi_idx i = 0; i < rows; i++) to[i * ATVI_LANES + to_lane] = from[i * ATVI_LANES + from_lane];
}

static void copy(void *self, atvi_idx to, atvi_idx from) {
  ram *r = self;
  atvi_lanes *a = &r->group[to / ATVI_LANES].lanes, *b = &r->group[from / ATVI_LANES].lanes;
  atvi_idx i = to % ATVI_LANES, k = from % ATVI_LANES;
  copy_rows(a->d, a->x, i, b->x, k);
  copy_rows(a->d * (a->d + 1) / 2, a->S, i, b->S, k);
  copy_rows(1, a->log_prior, i, b->log_prior, k);
  copy_rows(1, a->log_lik, i, b->log_lik, k);
}

static void move_lost(ram *r) {
  if (atvi_infer_chains_kept(&r->c).n > 0 && atvi_infer_chains_move_lost(&r->c))
    r->c.plan.discard = r->c.done;
}

/* Adds the kept states of a chain, about their mean[d], to the lower triangle of cov[d][d]. */
static void add_chain(const atvi_chains *c, atvi_idx chain, atvi_kept kept, double *cov, double *mean) {
  const double *x = atvi_infer_chains_row(c, 0, chain) + kept.first;
  atvi_idx d = c->d, stride = c->m * c->store.room;
  for (atvi_idx j = 0; j < d; j++) mean[j] = atvi_math_mean(kept.n, x + j * stride, NULL);
  for (atvi_idx j = 0; j < d; j++)
    for (atvi_idx k = 0; k <= j; k++) {
      double sum = 0;
      for (atvi_idx i = 0; i < kept.n; i++)
        sum += (x[j * stride + i] - mean[j]) * (x[k * stride + i] - mean[k]);
      cov[j * d + k] += sum;
    }
}

/* Gives every chain's proposal the shape of the covariance within the chains, at its own size. */
static void reshape(ram *r) {
  atvi_idx d = r->c.d;
  atvi_kept kept = atvi_infer_chains_kept(&r->c);
  double *cov = r->shape, *mean = cov + d * d, log_det = 0;
  if (kept.n * r->c.m < ATVI_CHAINS_JUDGED * d) return;
  for (atvi_idx i = 0; i < d * d; i++) cov[i] = 0;
  for (atvi_idx k = 0; k < r->c.m; k++) add_chain(&r->c, k, kept, cov, mean);
  if (!atvi_math_cholesky(d, cov)) return;
  for (atvi_idx j = 0; j < d; j++) log_det += log(cov[j * d + j]);
  if (!isfinite(log_det)) return;
  for (atvi_idx k = 0; k < r->c.plan.groups * ATVI_LANES; k++) {
    double *S = r->group[k / ATVI_LANES].lanes.S + k % ATVI_LANES, own = 0;
    for (atvi_idx j = 0; j < d; j++) own += log(S[j * (j + 3) / 2 * ATVI_LANES]);
    double size = exp((own - log_det) / (double)d);
    for (atvi_idx j = 0; j < d; j++)
      for (atvi_idx i = 0; i <= j; i++) S[(j * (j + 1) / 2 + i) * ATVI_LANES] = size * cov[j * d + i];
  }
}

static atvi_idx warm_up(void *self) {
  ram *r = self;
  atvi_idx half = r->c.plan.first_check / 2;
  if (r->c.done == 0) return half < r->c.opts.max_iter / 2 ? half : 0;
  reshape(r);
  move_lost(r);
  return 0;
}

static void not_passed(void *self, bool judged) {
  ram *r = self;
  if (judged && r->looked++ < ATVI_REPEATS && r->c.done < r->c.opts.max_iter / 4) move_lost(r);
  reshape(r);
}

/* ---- beginning and end ---- */

/* The arrays of a group, aligned as the kernels like it. */
static void make_group(atvi_pool *pool, size_t d, ram_group *g) {
  atvi_lanes *l = &g->lanes;
  const struct {
    double **at;
    size_t rows;
  } array[] = {{&l->S, d * (d + 1) / 2}, {&l->x, d},       {&l->log_prior, 1},  {&l->log_lik, 1},
               {&l->u, d + 1},           {&l->log_u, 1},   {&l->prop, d},       {&l->prop_log_prior, 1},
               {&l->prop_log_lik, 1},    {&l->outside, 1}, {&l->diag, d},       {&l->gain, d},
               {&l->accepted, 1},        {&g->pack, d},    {&g->pack_prior, 1}, {&g->pack_lik, 1}};
  size_t n = sizeof array / sizeof *array, rows = 1;
  for (size_t k = 0; k < n; k++) rows += array[k].rows;
  double *room = atvi_pool_take(pool, rows * ATVI_LANES, sizeof *room);
  g->outcome = atvi_pool_take(pool, ATVI_LANES, sizeof *g->outcome);
  if (!room) return;
  while ((uintptr_t)room % ATVI_ALIGN != 0) room++;
  for (size_t k = 0; k < n; room += array[k++].rows * ATVI_LANES) *array[k].at = room;
}

static atvi_status make(ram *r) {
  const atvi_target *t = atvi_model_evaluator_target(r->c.ev);
  size_t d = (size_t)t->d, groups = (size_t)(r->c.opts.chains + ATVI_LANES - 1) / ATVI_LANES;
  r->c.plan.groups = (atvi_idx)groups;
  r->propose = ATVI_ISA_PICK(atvi_infer_lanes_propose);
  r->update = ATVI_ISA_PICK(atvi_infer_lanes_update);
  r->group = atvi_pool_take(r->c.pool, groups, sizeof *r->group);
  r->bounds = atvi_pool_take(r->c.pool, 2 * d, sizeof *r->bounds);
  r->shape = atvi_pool_take(r->c.pool, d * (d + 1), sizeof *r->shape);
  for (size_t i = 0; i < groups && r->group; i++) {
    size_t left = (size_t)r->c.opts.chains - i * ATVI_LANES;
    atvi_lanes *l = &r->group[i].lanes;
    make_group(r->c.pool, d, &r->group[i]);
    r->group[i].n = left < ATVI_LANES ? (int)left : ATVI_LANES;
    l->d = t->d;
    l->seed = r->c.opts.seed;
    l->chain = (uint32_t)(i * ATVI_LANES);
    l->lower = r->bounds;
    l->upper = r->bounds + d;
  }
  if (atvi_pool_failed(r->c.pool)) return ATVI_ENOMEM;
  for (size_t j = 0; j < d; j++) {
    r->bounds[j] = t->param[j].lower;
    r->bounds[d + j] = t->param[j].upper;
  }
  return ATVI_OK;
}

/* First proposals have half of the width that is best for a normal, 2.38 / sqrt(d) (Roberts et al. 1997),
 * with the spread of the starts, which is at least that of differences in the prior: nothing is learnt from
 * proposals that go nowhere. */
static void place(ram *r, const atvi_starts *s, const atvi_idx *index) {
  atvi_idx m = r->c.opts.chains, d = s->d;
  double step = 0.5 * 2.38 / sqrt((double)d);
  for (atvi_idx k = 0; k < r->c.plan.groups * ATVI_LANES; k++) {
    atvi_lanes *l = &r->group[k / ATVI_LANES].lanes;
    atvi_idx lane = k % ATVI_LANES, from = index[k < m ? k : 0];
    for (atvi_idx j = 0; j < d; j++) l->x[j * ATVI_LANES + lane] = s->theta[j * s->cap + from];
    l->log_prior[lane] = s->log_prior[from];
    l->log_lik[lane] = s->log_lik[from];
  }
  for (atvi_idx j = 0; j < d; j++) {
    double mean = 0, var = 0;
    for (atvi_idx k = 0; k < m; k++) mean += s->theta[j * s->cap + index[k]] / (double)m;
    for (atvi_idx k = 0; k < m; k++) var += pow(s->theta[j * s->cap + index[k]] - mean, 2) / (double)m;
    double sd = fmin(fmax(sqrt(var), ATVI_STEP * s->scale[j]), s->scale[j]);
    for (atvi_idx g = 0; g < r->c.plan.groups; g++)
      for (int i = 0; i < ATVI_LANES; i++)
        r->group[g].lanes.S[(j * (j + 1) / 2 + j) * ATVI_LANES + i] = step * sd;
  }
}

static atvi_status begin(void *self, const atvi_starts *s, atvi_idx *index) {
  ram *r = self;
  atvi_chains *c = &r->c;
  atvi_chains_plan *p = &c->plan;
  double beta0 = atvi_infer_starts_pick(s, c->opts.seed, c->opts.chains, index);
  ATVI_TRY(make(r));
  place(r, s, index);
  r->log_beta0 = log(beta0);
  r->anneal = beta0 < 1 ? ANNEAL * (10 + s->d) : 0;
  if (r->anneal > c->opts.max_iter / 4) r->anneal = c->opts.max_iter / 4;
  p->rows = s->d + 2;
  p->states_per_ess = 8;
  p->discard = r->anneal;
  p->part = 2;
  p->look_min = LOOK_MIN;
  p->first_check = 2 * LOOK_MIN / c->opts.chains + 1;
  if (p->first_check < FIRST_CHECK * s->d) p->first_check = FIRST_CHECK * s->d;
  if (p->first_check < 2 * r->anneal) p->first_check = 2 * r->anneal;
  return ATVI_OK;
}

static void state(void *self, atvi_state *s) {
  ram *r = self;
  size_t d = (size_t)r->c.d;
  ATVI_STATE(s, r->looked);
  for (atvi_idx g = 0; g < r->c.plan.groups; g++) {
    const atvi_lanes *l = &r->group[g].lanes;
    atvi_io_state(s, l->S, d * (d + 1) / 2 * ATVI_LANES * sizeof(double));
    atvi_io_state(s, l->x, d * ATVI_LANES * sizeof(double));
    atvi_io_state(s, l->log_prior, ATVI_LANES * sizeof(double));
    atvi_io_state(s, l->log_lik, ATVI_LANES * sizeof(double));
    atvi_io_state(s, l->accepted, ATVI_LANES * sizeof(double));
  }
}

static void made(const void *self, atvi_made *about) {
  const ram *r = self;
  double sum = 0, n = (double)(r->c.done > r->anneal ? r->c.done - r->anneal : r->c.done);
  for (atvi_idx g = 0; g < r->c.plan.groups; g++)
    for (int i = 0; i < r->group[g].n; i++) sum += r->group[g].lanes.accepted[i];
  about->accept = sum / (n * (double)r->c.m);
}

atvi_status atvi_infer_ram_run(atvi_ctx *ctx, atvi_evaluator *ev, const atvi_chains_opts *opts,
                               atvi_draws **out) {
  static const atvi_chains_ops OPS = {.name = "ram",
                                      .begin = begin,
                                      .run = run,
                                      .warm_up = warm_up,
                                      .not_passed = not_passed,
                                      .mass = mass,
                                      .copy = copy,
                                      .made = made,
                                      .state = state};
  const atvi_chains_opts standard = atvi_infer_chains_defaults();
  ram r = {.c = {.ctx = ctx, .ev = ev, .ops = &OPS, .self = &r}};
  return atvi_infer_chains_sample(&r.c, opts ? opts : &standard, out);
}
