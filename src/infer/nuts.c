/* SPDX-License-Identifier: MIT */
/* The driver of the No-U-Turn sampler: starts, groups of chains on threads, warm-up, checkpoints, delivery.
 *
 * Lockstep   a model costs the same for one point as for ATVI_LANES of them. So chains run in groups of that many: each is a
 *            machine (nuts_chain.c) that asks for one gradient at a time, and what the chains of a group ask for is
 *            evaluated in one batch. Chains do not wait for each other after an iteration, however long their
 *            trees are, but only at the end of a window of warm-up and at checkpoints.
 * Warm-up    FAST iterations for the step size alone; windows of FIRST_WINDOW iterations, twice as many and so on, at the end
 *            of each of which the metric becomes the variances seen in it; LAST iterations for the step size again. A
 *            sixth of what Stan takes by default, as all chains together learn the metric.
 * Judgement  at checkpoints spaced by CHECK_RATIO; the run ends when R-hat and both ESS are good for every parameter. In
 *            long runs the first third is left out: chains that need long also need long to forget their starts.
 * Storage    every thin-th state after warm-up; when the store is full every second one is dropped and thin doubles.
 * Threads    a group runs a block of rounds alone. Where blocks end follows the clock, and means nothing to the
 *            results: random numbers belong to (seed, iteration, chain), windows and checkpoints to iteration numbers. */
#include "infer/nuts.h"
#include "infer/nuts_state.h"
#include <math.h>
#include <string.h>

enum {
  STORE = 20480,     /* states stored of all chains together, unless ess asks for more */
  STORE_PER_ESS = 4, /* so many per effective draw wanted: thinning then costs little */
  STORE_MIN = 64,    /* per chain */
  FAST = 50,
  FIRST_WINDOW = 25,
  LAST_WINDOW = 50,   /* the last is at least so long, */
  WINDOW_DRAWS = 800, /* and has so many draws of all chains together */
  LAST = 40,
  FIRST_CHECK = 100,  /* iterations after warm-up, at least */
  CHAINS_MOST = 1024, /* more would each be too short to judge */
  ROUNDS_MOST = 100000,
  PASSES = 2, /* checkpoints in a row that must be good: stopping at the first good look favours chains that
               * happen not to have seen the tails yet */
};
#define ESS_MOST 1e5
#define CHECK_RATIO 1.2
#define BLOCK_S 0.1 /* how long a block of rounds shall last: stop requests are seen in time */
#define FAR 8.0     /* starts are moved so near in xi-space, in prior standard deviations */

atvi_nuts_opts atvi_nuts_defaults(void) {
  return (atvi_nuts_opts){.seed = 1,
                          .chains = 16,
                          .ess = 1000,
                          .rhat = 1.01,
                          .max_iter = 20000,
                          .max_seconds = HUGE_VAL,
                          .candidates = 50,
                          .accept = 0.8,
                          .max_depth = 10};
}

static atvi_status check_opts(atvi_ctx *ctx, const atvi_nuts_opts *o) {
  if (o->chains < 1 || o->chains > CHAINS_MOST)
    return ATVI_FAIL(ctx, ATVI_EINVAL, "nuts: chains = %d, want >= 1 and <= %d", o->chains, (int)CHAINS_MOST);
  if (!(o->ess > 0) || o->ess > ESS_MOST)
    return ATVI_FAIL(ctx, ATVI_EINVAL, "nuts: ess = %g, want > 0 and <= %g: all draws are kept in memory",
                     o->ess, ESS_MOST);
  if (!(o->rhat > 1)) return ATVI_FAIL(ctx, ATVI_EINVAL, "nuts: rhat = %g, want > 1", o->rhat);
  if (o->max_iter < 16 || o->max_iter > (atvi_idx)UINT32_MAX - 1)
    return ATVI_FAIL(ctx, ATVI_EINVAL, "nuts: max_iter = %td, want >= 16 and < 2^32", o->max_iter);
  if (!(o->max_seconds > 0))
    return ATVI_FAIL(ctx, ATVI_EINVAL, "nuts: max_seconds = %g, want > 0", o->max_seconds);
  if (o->candidates < 1)
    return ATVI_FAIL(ctx, ATVI_EINVAL, "nuts: candidates = %d, want >= 1", o->candidates);
  if (!(o->accept > 0 && o->accept < 1))
    return ATVI_FAIL(ctx, ATVI_EINVAL, "nuts: accept = %g, want > 0 and < 1", o->accept);
  if (o->max_depth < 1 || o->max_depth > 20)
    return ATVI_FAIL(ctx, ATVI_EINVAL, "nuts: max_depth = %d, want >= 1 and <= 20", o->max_depth);
  return ATVI_OK;
}

/* ---- memory ---- */

static void carve_group(atvi_arena *a, atvi_nuts_group *g, atvi_idx d, int max_depth) {
  ATVI_TAKE(a, g->chain, ATVI_LANES);
  for (int i = 0; i < ATVI_LANES; i++) {
    atvi_nuts_chain c = {0};
    atvi_nuts_tree_carve(a, &c.tree, d, max_depth);
    ATVI_TAKE(a, c.mean, d);
    ATVI_TAKE(a, c.m2, d);
    if (a->base) g->chain[i] = c;
  }
  ATVI_TAKE(a, g->x, d * ATVI_LANES);
  ATVI_TAKE(a, g->theta, d * ATVI_LANES);
  ATVI_TAKE(a, g->dx, d * ATVI_LANES);
  ATVI_TAKE(a, g->log_pi, ATVI_LANES);
  ATVI_TAKE(a, g->log_prior, ATVI_LANES);
  ATVI_TAKE(a, g->log_lik, ATVI_LANES);
}

static atvi_nuts *carve(atvi_arena *a, atvi_nuts head) {
  atvi_nuts *r;
  atvi_idx m = head.opts.chains;
  ATVI_TAKE(a, r, 1);
  ATVI_TAKE(a, head.group, head.n_group);
  for (atvi_idx i = 0; i < head.n_group; i++) {
    atvi_nuts_group g = {0};
    carve_group(a, &g, head.d, head.opts.max_depth);
    if (r) head.group[i] = g;
  }
  ATVI_TAKE(a, head.var, head.d);
  ATVI_TAKE(a, head.sum, head.d);
  ATVI_TAKE(a, head.mass, 2 * m);
  ATVI_TAKE(a, head.store, (head.d + 2) * m * head.room);
  atvi_criteria_carve(a, &head.judge, head.d, m, head.room);
  if (r) *r = head;
  return r;
}

/* ---- running ---- */

/* Hands chain c the i-th of the n points evaluated; n = 0: its point could not be. */
static void hand(atvi_nuts *r, atvi_nuts_group *g, atvi_nuts_chain *c, int i, int n) {
  atvi_nuts_value v = {.log_pi = -HUGE_VAL};
  if (n > 0) v = (atvi_nuts_value){g->log_pi[i], g->log_prior[i], g->log_lik[i], g->dx + i, g->theta + i, n};
  atvi_nuts_answer(r, c, &v);
}

static bool finite(atvi_idx d, const double *x) {
  for (atvi_idx j = 0; j < d; j++)
    if (!isfinite(x[j])) return false;
  return true;
}

/* One gradient for every chain of the group that is not idle; false: all are. */
static bool round_of(atvi_nuts *r, atvi_nuts_group *g, int worker) {
  int lane[ATVI_LANES], n = 0;
  bool any = false;
  for (int i = 0; i < g->n; i++) {
    atvi_nuts_chain *c = &g->chain[i];
    if (c->doing == ATVI_NUTS_IDLE) continue;
    any = true;
    if (finite(r->d, c->tree.move.x))
      lane[n++] = i;
    else
      hand(r, g, c, 0, 0);
  }
  for (atvi_idx j = 0; j < r->d; j++)
    for (int i = 0; i < n; i++) g->x[j * n + i] = g->chain[lane[i]].tree.move.x[j];
  if (n == 0) return any;
  atvi_space_eval_on(r->space, worker,
                     &(atvi_space_batch){.B = n,
                                         .x = g->x,
                                         .beta = 1,
                                         .theta = g->theta,
                                         .log_lik = g->log_lik,
                                         .log_prior = g->log_prior,
                                         .log_pi = g->log_pi,
                                         .dx = g->dx});
  for (int i = 0; i < n; i++) hand(r, g, &g->chain[lane[i]], i, n);
  return true;
}

static void run_group(void *arg, atvi_idx item, int worker) {
  atvi_nuts *r = arg;
  for (atvi_idx k = 0; k < r->rounds; k++)
    if (!round_of(r, &r->group[item], worker)) return;
}

/* Iterations that all chains have done. */
static atvi_idx done(const atvi_nuts *r) {
  atvi_idx least = r->goal;
  for (atvi_idx k = 0; k < r->opts.chains; k++)
    if (atvi_nuts_chain_at(r, k)->iteration < least) least = atvi_nuts_chain_at(r, k)->iteration;
  return least;
}

static atvi_chains kept(const atvi_nuts *r) {
  atvi_chains c = {.d = r->d, .m = r->opts.chains, .room = r->room, .store = r->store};
  atvi_idx n = done(r) - r->warm, skip = done(r) / 3 - r->warm;
  if (n > 0) c.last = n / r->thin;
  if (skip > 0) c.first = skip / r->thin;
  return c;
}

/* What a run is about to be told of. */
typedef struct {
  const char *phase;
  double share;
  atvi_quality worst;
} telling;

/* Runs in blocks of about BLOCK_S until all chains are at r->goal; false: it ended before. */
static bool run_blocks(atvi_nuts *r, const telling *t, atvi_end *end) {
  for (atvi_idx k = 0; k < r->opts.chains; k++) atvi_nuts_resume(r, atvi_nuts_chain_at(r, k));
  for (atvi_idx at; (at = done(r)) < r->goal;) {
    double now = atvi_clock_s() - r->begun_s;
    if (atvi_stop_asked(r->ctx)) return *end = ATVI_END_STOPPED, false;
    if (now > r->opts.max_seconds) return *end = ATVI_END_LIMIT, false;
    double limit = fmax((double)at / (double)r->opts.max_iter, now / r->opts.max_seconds);
    atvi_chains_tell(r->ctx, t->phase, fmin(0.999, fmax(t->share, limit)), now, t->worst);
    atvi_parallel(r->ctx, r->n_group, run_group, r);
    double each = (atvi_clock_s() - r->begun_s - now) / (double)r->rounds;
    r->rounds = each * ROUNDS_MOST < BLOCK_S ? ROUNDS_MOST : each > BLOCK_S ? 1 : (atvi_idx)(BLOCK_S / each);
  }
  return true;
}

/* Runs to iteration `goal`, making room in the store on the way. */
static bool run_to(atvi_nuts *r, atvi_idx goal, const telling *t, atvi_end *end) {
  for (;;) {
    atvi_idx full = r->warm + r->room * r->thin;
    r->goal = goal < full ? goal : full;
    if (!run_blocks(r, t, end)) return false;
    if (r->goal == full) {
      atvi_chains c = kept(r);
      atvi_chains_halve(&c);
      r->thin *= 2;
    }
    if (r->goal == goal) return true;
  }
}

/* ---- the loop ---- */

/* Where windows end. Short runs get half of their iterations as warm-up, in the proportions that Stan has. */
static void plan(atvi_nuts *r) {
  atvi_idx at = FAST, half = r->opts.max_iter / 2, m = r->opts.chains;
  r->window[0] = at;
  for (atvi_idx n = FIRST_WINDOW; r->n_window < ATVI_NUTS_WINDOWS; n *= 2) {
    r->window[++r->n_window] = at += n;
    if (n >= LAST_WINDOW && n * m >= WINDOW_DRAWS) break;
  }
  r->warm = at + LAST;
  if (r->warm <= half) return;
  r->warm = half;
  r->n_window = 1;
  r->window[0] = half * 15 / 100;
  r->window[1] = half - half / 10;
}

static atvi_end loop(atvi_nuts *r) {
  atvi_end end = ATVI_END_LIMIT;
  telling t = {.phase = "warm-up", .worst = {NAN, NAN}};
  for (int k = 1; k <= r->n_window; k++) {
    if (!run_to(r, r->window[k], &t, &end)) return end;
    atvi_nuts_window_end(r);
  }
  if (!run_to(r, r->warm, &t, &end)) return end;
  t.phase = "sampling";
  atvi_idx n = (atvi_idx)ceil(r->opts.ess / r->opts.chains);
  if (n < FIRST_CHECK) n = FIRST_CHECK;
  for (int passed = 0;;) {
    bool last = r->warm + n >= r->opts.max_iter;
    if (!run_to(r, last ? r->opts.max_iter : r->warm + n, &t, &end)) return end;
    atvi_chains c = kept(r);
    passed = atvi_chains_judge(r->ctx, &c, &r->judge, &t.share, &t.worst) ? passed + 1 : 0;
    if (passed == PASSES) return ATVI_END_DONE;
    if (last) return ATVI_END_LIMIT;
    n = (atvi_idx)ceil(CHECK_RATIO * (double)n);
  }
}

/* ---- beginning and end ---- */

static atvi_status nuts_new(atvi_ctx *ctx, atvi_evaluator *ev, atvi_space *space, const atvi_nuts_opts *opts,
                            atvi_nuts **out) {
  *out = NULL;
  double want = fmax(STORE, STORE_PER_ESS * opts->ess);
  atvi_nuts head = {.ctx = ctx,
                    .ev = ev,
                    .space = space,
                    .opts = *opts,
                    .d = space->d,
                    .thin = 1,
                    .rounds = 4,
                    .judge = {.rhat = opts->rhat, .ess = opts->ess, .workers = atvi_ctx_threads(ctx)}};
  head.n_group = (opts->chains + ATVI_LANES - 1) / ATVI_LANES;
  head.room = (atvi_idx)(want / opts->chains) / 2 * 2;
  if (head.room < STORE_MIN) head.room = STORE_MIN;
  plan(&head);
  atvi_arena a = {0};
  carve(&a, head);
  a = (atvi_arena){.base = atvi_block(ctx, a.used)};
  if (!a.base) return ATVI_FAIL(ctx, ATVI_ENOMEM, "nuts: %d chains, d = %td", opts->chains, head.d);
  atvi_nuts *r = carve(&a, head);
  for (atvi_idx j = 0; j < r->d; j++) r->var[j] = 1;
  for (atvi_idx i = 0; i < r->n_group; i++) {
    atvi_idx left = opts->chains - i * ATVI_LANES;
    r->group[i].n = left < ATVI_LANES ? (int)left : ATVI_LANES;
  }
  for (atvi_idx k = 0; k < opts->chains; k++) {
    atvi_nuts_chain *c = atvi_nuts_chain_at(r, k);
    c->number = (uint32_t)k;
    c->search = true;
    c->tree.eps = 1;
  }
  *out = r;
  return ATVI_OK;
}

/* Puts the chains at the points chosen and evaluates them; a point without a gradient is replaced by another's. work:
 * [3 d + 3][chains]. False: no point has one. */
static bool place(atvi_nuts *r, const atvi_starts *s, const atvi_idx *index, double *work) {
  atvi_idx m = r->opts.chains, d = r->d, good = -1;
  double *x = work, *theta = x + d * m, *dx = theta + d * m, *log_pi = dx + d * m, *log_prior = log_pi + m,
         *log_lik = log_prior + m;
  for (atvi_idx j = 0; j < d; j++) {
    for (atvi_idx k = 0; k < m; k++) theta[j * m + k] = s->theta[j * s->cap + index[k]];
    atvi_map_inv(&r->space->map[j], m, theta + j * m, x + j * m);
    bool scaled = s->from_prior;
    for (atvi_idx k = 0; k < m; k++)
      if (scaled || !isfinite(x[j * m + k])) x[j * m + k] = fmin(fmax(x[j * m + k], -FAR), FAR);
  }
  atvi_space_eval(r->space, &(atvi_space_batch){.B = m,
                                                .x = x,
                                                .beta = 1,
                                                .theta = theta,
                                                .log_lik = log_lik,
                                                .log_prior = log_prior,
                                                .log_pi = log_pi,
                                                .dx = dx});
  for (atvi_idx k = 0; k < m && good < 0; k++)
    if (isfinite(log_pi[k])) good = k;
  if (good < 0) return false;
  for (atvi_idx k = 0; k < m; k++) {
    atvi_idx from = isfinite(log_pi[k]) ? k : good;
    atvi_nuts_place *q = &atvi_nuts_chain_at(r, k)->tree.at;
    for (atvi_idx j = 0; j < d; j++) {
      q->x[j] = x[j * m + from];
      q->g[j] = dx[j * m + from];
      q->theta[j] = theta[j * m + from];
    }
    q->log_pi = log_pi[from];
    q->log_prior = log_prior[from];
    q->log_lik = log_lik[from];
  }
  return true;
}

static void tell_made(const atvi_nuts *r, atvi_made *made) {
  double n = 0, accept = 0, depth = 0;
  made->divergences = made->max_depth_hits = 0;
  for (atvi_idx k = 0; k < r->opts.chains; k++) {
    const atvi_nuts_chain *c = atvi_nuts_chain_at(r, k);
    n += c->count;
    accept += c->accept;
    depth += c->depth;
    made->divergences += c->divergences;
    made->max_depth_hits += c->hits;
  }
  made->accept = accept / n;
  made->tree_depth = depth / n;
  made->ebfmi = atvi_nuts_ebfmi(r);
}

static atvi_status run(atvi_nuts *r, const atvi_starts *s, atvi_idx *index, double *work, atvi_draws **out) {
  atvi_starts_pick(s, r->opts.seed, r->opts.chains, index);
  if (!place(r, s, index, work))
    return ATVI_FAIL_AS(r->ctx, ATVI_EMODEL, ATVI_CODE_NO_GRADIENT,
                        "%s: the gradient is not finite at any of %d starting points",
                        r->space->target->name ? r->space->target->name : "model", r->opts.chains);
  atvi_end end = loop(r);
  atvi_chains c = kept(r);
  ATVI_TRY(atvi_chains_deliver(r->ctx, r->ev, &c, end, done(r), out));
  (*out)->made.end = end;
  tell_made(r, &(*out)->made);
  if (r->moved > 0)
    ATVI_TRY(atvi_draws_say(*out, ATVI_NOTE, ATVI_CODE_CHAINS_MOVED,
                            "%d %s caught in a region of negligible probability, its log posterior %.0f "
                            "lower, and moved to where the others are during warm-up.",
                            r->moved, r->moved == 1 ? "chain was" : "chains were", r->moved_drop));
  return atvi_chains_say_starts(s, r->opts.chains, *out);
}

/* Everything that a run needs besides its starts; all freed by the caller. */
typedef struct {
  atvi_starts *s;
  atvi_space *space;
  atvi_nuts *r;
  atvi_idx *index;
  double *work;
} needs;

static atvi_status gather(atvi_ctx *ctx, atvi_evaluator *ev, const atvi_nuts_opts *o, needs *y) {
  atvi_idx d = atvi_evaluator_target(ev)->d;
  size_t m = (size_t)o->chains;
  ATVI_TRY(atvi_space_new(ctx, ev, "auto", o->seed, &y->space));
  ATVI_TRY(atvi_starts_new(ctx, ev, o->seed, (atvi_idx)o->chains * o->candidates, &y->s));
  ATVI_TRY(nuts_new(ctx, ev, y->space, o, &y->r));
  y->index = atvi_block(ctx, m * sizeof *y->index);
  y->work = atvi_block(ctx, (size_t)(3 * d + 3) * m * sizeof *y->work);
  if (!y->index || !y->work) return ATVI_FAIL(ctx, ATVI_ENOMEM, "nuts: %d chains, d = %td", o->chains, d);
  return ATVI_OK;
}

atvi_status atvi_nuts_run(atvi_ctx *ctx, atvi_evaluator *ev, const atvi_nuts_opts *opts, atvi_draws **out) {
  *out = NULL;
  atvi_nuts_opts o = opts ? *opts : atvi_nuts_defaults();
  ATVI_TRY(check_opts(ctx, &o));
  double begun = atvi_clock_s();
  int64_t count = atvi_evaluator_count(ev), failures = atvi_evaluator_failures(ev);
  needs y = {0};
  atvi_status st = gather(ctx, ev, &o, &y);
  if (st == ATVI_OK) {
    y.r->begun_s = begun;
    st = run(y.r, y.s, y.index, y.work, out);
  }
  if (st == ATVI_OK) {
    atvi_made *made = &(*out)->made;
    made->method = "nuts";
    made->model = atvi_evaluator_target(ev)->name;
    made->seed = o.seed;
    made->evaluations = atvi_evaluator_count(ev) - count;
    made->failures = atvi_evaluator_failures(ev) - failures;
    made->ess_wanted = o.ess;
    made->seconds = atvi_clock_s() - begun;
    atvi_tell(ctx, "done", 1, made->seconds, "%td draws", (*out)->n);
  } else {
    atvi_draws_free(*out);
    *out = NULL;
  }
  atvi_block_free(ctx, y.work);
  atvi_block_free(ctx, y.index);
  atvi_block_free(ctx, y.r);
  atvi_starts_free(y.s);
  atvi_space_free(y.space);
  return st;
}
