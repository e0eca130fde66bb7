/* SPDX-License-Identifier: MIT */
/* The driver of adaptive Metropolis: starts, blocks of iterations on threads, checkpoints, delivery.
 *
 * Starts      candidates from the prior, of which `chains` are drawn with weight likelihood^beta0 (start.c).
 * Annealing   in the first `anneal` iterations the likelihood counts with a power that grows from beta0 to 1
 *             geometrically, so that chains do not freeze in the first hollow they meet. Nothing of this
 *             part is ever kept. Chains stay independent: disagreement between modes remains visible.
 * Adaptation  goes on all the time with eta_n = min(1, d n^(-2/3)), as in the paper: it diminishes, so the
 *             chains are ergodic, and since warm-up ends only in hindsight there is no moment to freeze it.
 *             While annealing, eta is constant and large, and n counts from its end: after n steps the paper's
 *             rate can narrow a direction by no more than e^(n^(1/3)/3).
 * Sharing     at checkpoints that are not passed every chain's proposal takes the covariance within the
 *             chains as its shape, keeping its own size (ram_judge.c). That halves the work or better; states are
 *             never shared, but for lost chains, which are moved and told of.
 * Warm-up     is the first half of what was run so far. At checkpoints spaced by CHECK_RATIO the second half
 *             is judged; the run ends when R-hat and both ESS are good for every parameter.
 * Storage     every thin-th state of the whole run; when the store is full every second one is dropped and
 *             thin doubles. Between 1/4 and 1/2 of the store is delivered.
 * Threads     a group of ATVI_LANES chains runs a whole block alone. Where blocks end follows the clock, and
 *             means nothing to the results: random numbers belong to (seed, iteration, chain), checkpoints
 *             to iteration numbers. */
#include "infer/ram.h"
#include "infer/ram_state.h"
#include <math.h>

enum {
  STORE = 40960,      /* states stored of all chains together, unless ess asks for more */
  STORE_PER_ESS = 8,  /* so many per effective draw wanted: thinning then costs little */
  STORE_MIN = 64,     /* per chain */
  KEEP_MIN = 4000,    /* delivered draws before the criteria are looked at */
  FIRST_CHECK = 400,  /* iterations; nor are they looked at before */
  CHAINS_MOST = 1024, /* more would each be too short to judge */
  BLOCK_MAX = 20000,
  MOVES = 3,
  PASSES = 2, /* checkpoints in a row that must be good: stopping at the first good look favours chains that
               * happen not to have seen the tails yet */
};
#define ESS_MOST 1e5
#define CHECK_RATIO 1.2
#define ANNEAL_ETA                                                                                           \
  0.7 /* adaptation while annealing: must keep up with a target that narrows e-fold per e-fold */
#define BLOCK_S 0.1    /* how long a block of iterations shall last: stop requests are seen in time */
#define START_STEP 0.5 /* first proposals, as a share of the optimum for the spread of the starts */

atvi_ram_opts atvi_ram_defaults(void) {
  return (atvi_ram_opts){.seed = 1,
                         .chains = 16,
                         .ess = 1000,
                         .rhat = 1.01,
                         .max_iter = 500000,
                         .max_seconds = HUGE_VAL,
                         .candidates = 50};
}

static atvi_status check_opts(atvi_ctx *ctx, const atvi_ram_opts *o) {
  if (o->chains < 1 || o->chains > CHAINS_MOST)
    return ATVI_FAIL(ctx, ATVI_EINVAL, "ram: chains = %d, want >= 1 and <= %d", o->chains, (int)CHAINS_MOST);
  if (!(o->ess > 0) || o->ess > ESS_MOST)
    return ATVI_FAIL(ctx, ATVI_EINVAL, "ram: ess = %g, want > 0 and <= %g: all draws are kept in memory",
                     o->ess, ESS_MOST);
  if (!(o->rhat > 1)) return ATVI_FAIL(ctx, ATVI_EINVAL, "ram: rhat = %g, want > 1", o->rhat);
  if (o->max_iter < 16 || o->max_iter > (atvi_idx)UINT32_MAX)
    return ATVI_FAIL(ctx, ATVI_EINVAL, "ram: max_iter = %td, want >= 16 and < 2^32", o->max_iter);
  if (!(o->max_seconds > 0))
    return ATVI_FAIL(ctx, ATVI_EINVAL, "ram: max_seconds = %g, want > 0", o->max_seconds);
  if (o->candidates < 1) return ATVI_FAIL(ctx, ATVI_EINVAL, "ram: candidates = %d, want >= 1", o->candidates);
  return ATVI_OK;
}

static void carve_group(atvi_arena *a, atvi_ram_group *g, atvi_idx d) {
  atvi_lanes *l = &g->lanes;
  ATVI_TAKE(a, l->S, d * (d + 1) / 2 * ATVI_LANES);
  ATVI_TAKE(a, l->x, d * ATVI_LANES);
  ATVI_TAKE(a, l->log_prior, ATVI_LANES);
  ATVI_TAKE(a, l->log_lik, ATVI_LANES);
  ATVI_TAKE(a, l->u, (d + 1) * ATVI_LANES);
  ATVI_TAKE(a, l->log_u, ATVI_LANES);
  ATVI_TAKE(a, l->prop, d * ATVI_LANES);
  ATVI_TAKE(a, l->prop_log_prior, ATVI_LANES);
  ATVI_TAKE(a, l->prop_log_lik, ATVI_LANES);
  ATVI_TAKE(a, l->outside, ATVI_LANES);
  ATVI_TAKE(a, l->diag, d * ATVI_LANES);
  ATVI_TAKE(a, l->gain, d * ATVI_LANES);
  ATVI_TAKE(a, l->accepted, ATVI_LANES);
  ATVI_TAKE(a, g->pack, d * ATVI_LANES);
  ATVI_TAKE(a, g->pack_prior, ATVI_LANES);
  ATVI_TAKE(a, g->pack_lik, ATVI_LANES);
  ATVI_TAKE(a, g->outcome, ATVI_LANES);
}

static atvi_ram *carve(atvi_arena *a, atvi_ram head) {
  atvi_ram *r;
  atvi_idx m = head.opts.chains, half = head.room / 2 + 1;
  ATVI_TAKE(a, r, 1);
  ATVI_TAKE(a, head.group, head.n_group);
  for (atvi_idx i = 0; i < head.n_group; i++) {
    atvi_ram_group g = {0};
    carve_group(a, &g, head.d);
    if (r) head.group[i] = g;
  }
  ATVI_TAKE(a, head.bounds, 2 * head.d);
  ATVI_TAKE(a, head.store, (head.d + 2) * m * head.room);
  ATVI_TAKE(a, head.shape, head.d * (head.d + 1));
  atvi_criteria_carve(a, &head.judge, head.d, m, half);
  if (r) *r = head;
  return r;
}

/* ---- running ---- */

/* Fills prop_log_prior and prop_log_lik. Lanes outside the box are left out of the batch: they cost nothing,
 * and a point's value does not depend on its neighbours. */
static void evaluate(atvi_evaluator *ev, atvi_ram_group *g, int worker) {
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
  atvi_evaluator_run_on(ev, worker, &b);
  for (int i = 0; i < n; i++) {
    double lp = b.log_prior[i], ll = b.log_lik[i];
    bool good = g->outcome[i] == ATVI_RUN_OK && isfinite(lp) && isfinite(ll);
    l->prop_log_prior[lane[i]] = good ? lp : -HUGE_VAL;
    l->prop_log_lik[lane[i]] = good ? ll : -HUGE_VAL;
  }
}

static void keep_state(atvi_ram *r, const atvi_ram_group *g, atvi_idx iteration) {
  const atvi_lanes *l = &g->lanes;
  atvi_idx at = iteration / r->thin - 1, stride = r->opts.chains * r->room;
  for (int i = 0; i < g->n; i++) {
    double *to = r->store + ((atvi_idx)l->chain + i) * r->room + at;
    for (atvi_idx j = 0; j < r->d; j++) to[j * stride] = l->x[j * ATVI_LANES + i];
    to[r->d * stride] = l->log_prior[i];
    to[(r->d + 1) * stride] = l->log_lik[i];
  }
}

static void run_group(void *arg, atvi_idx item, int worker) {
  atvi_ram *r = arg;
  atvi_ram_group *g = &r->group[item];
  for (atvi_idx n = r->done + 1; n <= r->to; n++) {
    double beta = n <= r->anneal ? exp(r->log_beta0 * (1 - (double)n / (double)(r->anneal + 1))) : 1;
    double eta = n <= r->anneal ? ANNEAL_ETA : fmin(1, (double)r->d * pow((double)(n - r->anneal), -2.0 / 3));
    if (n == r->anneal + 1)
      for (int i = 0; i < ATVI_LANES; i++) g->lanes.accepted[i] = 0;
    r->propose(&g->lanes, (uint32_t)n);
    evaluate(r->ev, g, worker);
    r->update(&g->lanes, beta, eta);
    if (n % r->thin == 0) keep_state(r, g, n);
  }
}

/* Runs up to iteration `goal` in blocks of about BLOCK_S; returns how it went on. */
static bool run_to(atvi_ram *r, atvi_idx goal, atvi_idx *block, atvi_end *end, const char *phase,
                   double share, atvi_quality worst) {
  while (r->done < goal) {
    double now = atvi_clock_s() - r->begun_s;
    if (atvi_stop_asked(r->ctx)) return *end = ATVI_END_STOPPED, false;
    if (now > r->opts.max_seconds) return *end = ATVI_END_LIMIT, false;
    double limit = fmax((double)r->done / (double)r->opts.max_iter, now / r->opts.max_seconds);
    atvi_chains_tell(r->ctx, phase, fmin(0.999, fmax(share, limit)), now, worst);
    r->to = r->done + *block;
    if (r->to > goal) r->to = goal;
    if (r->to > r->room * r->thin) r->to = r->room * r->thin;
    atvi_parallel(r->ctx, r->n_group, run_group, r);
    double each = (atvi_clock_s() - r->begun_s - now) / (double)(r->to - r->done);
    r->done = r->to;
    if (r->done == r->room * r->thin) {
      atvi_chains c = atvi_ram_kept(r);
      atvi_chains_halve(&c);
      r->thin *= 2;
    }
    *block = each * BLOCK_MAX < BLOCK_S ? BLOCK_MAX : each > BLOCK_S ? 1 : (atvi_idx)(BLOCK_S / each);
  }
  return true;
}

/* ---- the loop ---- */

static atvi_idx first_check(const atvi_ram *r) {
  atvi_idx n = 2 * KEEP_MIN / r->opts.chains + 1;
  if (n < FIRST_CHECK * r->d) n = FIRST_CHECK * r->d;
  if (n < 2 * r->anneal) n = 2 * r->anneal;
  return n;
}

/* Lost chains are looked for in the middle of the way to the first checkpoint, where it costs nothing, and at a
 * few of the checkpoints that are not passed. */
static atvi_end loop(atvi_ram *r) {
  atvi_end end = ATVI_END_LIMIT;
  atvi_idx block = 4, goal = first_check(r);
  double share = 0;
  atvi_quality worst = {NAN, NAN};
  int passed = 0, moves = 0;
  if (goal / 2 < r->opts.max_iter / 2) {
    if (!run_to(r, goal / 2, &block, &end, "warm-up", share, worst)) return end;
    atvi_ram_reshape(r);
    atvi_ram_move(r);
  }
  for (;;) {
    bool last = goal >= r->opts.max_iter;
    if (last) goal = r->opts.max_iter;
    if (!run_to(r, goal, &block, &end, share > 0 ? "sampling" : "warm-up", share, worst)) return end;
    atvi_chains kept = atvi_ram_kept(r);
    bool enough = (kept.last - kept.first) * r->opts.chains >= KEEP_MIN;
    passed = enough && atvi_chains_judge(r->ctx, &kept, &r->judge, &share, &worst) ? passed + 1 : 0;
    if (passed == PASSES) return ATVI_END_DONE;
    if (last) return ATVI_END_LIMIT;
    if (enough && passed == 0 && moves++ < MOVES && goal < r->opts.max_iter / 4) atvi_ram_move(r);
    if (passed == 0) atvi_ram_reshape(r);
    goal = (atvi_idx)ceil(CHECK_RATIO * (double)goal);
  }
}

/* ---- beginning and end ---- */

static void place(atvi_ram *r, const atvi_starts *s, const atvi_idx *index) {
  atvi_idx m = r->opts.chains;
  double step = START_STEP * 2.38 / sqrt((double)r->d);
  for (atvi_idx k = 0; k < r->n_group * ATVI_LANES; k++) {
    atvi_lanes *l = &r->group[k / ATVI_LANES].lanes;
    atvi_idx lane = k % ATVI_LANES, from = index[k < m ? k : 0];
    for (atvi_idx j = 0; j < r->d; j++) l->x[j * ATVI_LANES + lane] = s->theta[j * s->cap + from];
    l->log_prior[lane] = s->log_prior[from];
    l->log_lik[lane] = s->log_lik[from];
  }
  for (atvi_idx j = 0; j < r->d; j++) {
    double mean = 0, var = 0;
    for (atvi_idx k = 0; k < m; k++) mean += s->theta[j * s->cap + index[k]] / (double)m;
    for (atvi_idx k = 0; k < m; k++) var += pow(s->theta[j * s->cap + index[k]] - mean, 2) / (double)m;
    /* The spread of the chosen, but never so small that nothing could be learnt from a proposal. */
    double sd = fmin(fmax(sqrt(var), 0.01 * s->scale[j]), s->scale[j]);
    for (atvi_idx g = 0; g < r->n_group; g++)
      for (int i = 0; i < ATVI_LANES; i++)
        r->group[g].lanes.S[(j * (j + 1) / 2 + j) * ATVI_LANES + i] = step * sd;
  }
}

static atvi_status ram_new(atvi_ctx *ctx, atvi_evaluator *ev, const atvi_ram_opts *opts, atvi_ram **out) {
  *out = NULL;
  const atvi_target *t = atvi_evaluator_target(ev);
  double want = fmax(STORE, STORE_PER_ESS * opts->ess);
  atvi_ram head = {.ctx = ctx,
                   .ev = ev,
                   .target = t,
                   .opts = *opts,
                   .d = t->d,
                   .thin = 1,
                   .judge = {.rhat = opts->rhat, .ess = opts->ess, .workers = atvi_ctx_threads(ctx)}};
  head.n_group = (opts->chains + ATVI_LANES - 1) / ATVI_LANES;
  head.room = (atvi_idx)(want / opts->chains) / 2 * 2;
  if (head.room < STORE_MIN) head.room = STORE_MIN;
  head.propose = ATVI_ISA_PICK(atvi_lanes_propose);
  head.update = ATVI_ISA_PICK(atvi_lanes_update);
  atvi_arena a = {0};
  carve(&a, head);
  a = (atvi_arena){.base = atvi_block(ctx, a.used)};
  if (!a.base) return ATVI_FAIL(ctx, ATVI_ENOMEM, "ram: %d chains, d = %td", opts->chains, t->d);
  atvi_ram *r = carve(&a, head);
  for (atvi_idx j = 0; j < r->d; j++) {
    r->bounds[j] = t->param[j].lower;
    r->bounds[r->d + j] = t->param[j].upper;
  }
  for (atvi_idx i = 0; i < r->n_group; i++) {
    atvi_idx left = opts->chains - i * ATVI_LANES;
    atvi_lanes *l = &r->group[i].lanes;
    r->group[i].n = left < ATVI_LANES ? (int)left : ATVI_LANES;
    l->d = r->d;
    l->seed = opts->seed;
    l->chain = (uint32_t)(i * ATVI_LANES);
    l->lower = r->bounds;
    l->upper = r->bounds + r->d;
  }
  *out = r;
  return ATVI_OK;
}

static double accept_rate(const atvi_ram *r) {
  double sum = 0, n = (double)(r->done > r->anneal ? r->done - r->anneal : r->done);
  for (atvi_idx g = 0; g < r->n_group; g++)
    for (int i = 0; i < r->group[g].n; i++) sum += r->group[g].lanes.accepted[i];
  return sum / (n * r->opts.chains);
}

static atvi_status run(atvi_ram *r, const atvi_starts *s, atvi_idx *index, atvi_draws **out) {
  double beta0 = atvi_starts_pick(s, r->opts.seed, r->opts.chains, index);
  place(r, s, index);
  r->log_beta0 = log(beta0);
  r->anneal = beta0 < 1 ? 300 + 30 * r->d : 0;
  if (r->anneal > r->opts.max_iter / 4) r->anneal = r->opts.max_iter / 4;
  r->discard = r->anneal;
  atvi_end end = loop(r);
  atvi_chains kept = atvi_ram_kept(r);
  ATVI_TRY(atvi_chains_deliver(r->ctx, r->ev, &kept, end, r->done, out));
  (*out)->made.end = end;
  (*out)->made.accept = accept_rate(r);
  if (r->moved > 0)
    ATVI_TRY(atvi_draws_say(
        *out, ATVI_NOTE, ATVI_CODE_CHAINS_MOVED,
        "%d chains had been caught in a region of negligible probability, its log posterior %.0f lower, and "
        "were moved to where the others are during warm-up.",
        r->moved, r->moved_drop));
  return atvi_chains_say_starts(s, r->opts.chains, *out);
}

atvi_status atvi_ram_run(atvi_ctx *ctx, atvi_evaluator *ev, const atvi_ram_opts *opts, atvi_draws **out) {
  *out = NULL;
  atvi_ram_opts o = opts ? *opts : atvi_ram_defaults();
  ATVI_TRY(check_opts(ctx, &o));
  double begun = atvi_clock_s();
  int64_t count = atvi_evaluator_count(ev), failures = atvi_evaluator_failures(ev);
  atvi_starts *s = NULL;
  atvi_ram *r = NULL;
  atvi_idx *index = NULL;
  atvi_status st = atvi_starts_new(ctx, ev, o.seed, (atvi_idx)o.chains * o.candidates, &s);
  if (st == ATVI_OK) st = ram_new(ctx, ev, &o, &r);
  if (st == ATVI_OK) {
    index = atvi_block(ctx, (size_t)o.chains * sizeof *index);
    if (!index) st = ATVI_FAIL(ctx, ATVI_ENOMEM, "ram: %d chains", o.chains);
  }
  if (st == ATVI_OK) {
    r->begun_s = begun;
    st = run(r, s, index, out);
  }
  if (st == ATVI_OK) {
    atvi_made *made = &(*out)->made;
    made->method = "ram";
    made->model = atvi_evaluator_target(ev)->name;
    made->seed = o.seed;
    made->evaluations = atvi_evaluator_count(ev) - count;
    made->failures = atvi_evaluator_failures(ev) - failures;
    made->ess_wanted = o.ess;
    made->log_evidence = made->log_evidence_se = made->elbo = made->khat = NAN;
    made->seconds = atvi_clock_s() - begun;
    atvi_tell(ctx, "done", 1, made->seconds, "%td draws", (*out)->n);
  } else {
    atvi_draws_free(*out);
    *out = NULL;
  }
  atvi_block_free(ctx, index);
  atvi_block_free(ctx, r);
  atvi_starts_free(s);
  return st;
}
