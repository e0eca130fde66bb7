/* SPDX-License-Identifier: MIT */
#include "infer/chains.h"
#include "infer/fit.h"
#include "infer/vi_tuning.h"
#include "math/rng.h"
#include "math/stat/stat.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
  CHAINS_MOST = 1024, /* input: chains; more would each be too short to judge */
  STORE_ESS =
      2 * ATVI_VI_LOOK, /* effective draws that the store has room for, at least; four times the default */
};
/* Good checkpoints in a row: stopping at the first favours chains that have not seen the tails yet. */
enum { PASSES = 2 };
#define BLOCK_S 0.1     /* time: seconds of a block: stop requests are heard in time, threads seldom wait */
#define CHECK_RATIO 1.2 /* of the iterations at two checkpoints: a run is at most two fifths too long */

/* ---- options ---- */

atvi_chains_opts atvi_infer_chains_defaults(void) {
  return (atvi_chains_opts){.seed = 1,
                            .chains = 16,
                            .ess = 1000,
                            .rhat = 1.01,
                            .max_iter = 500000,
                            .max_seconds = HUGE_VAL,
                            .candidates = 50,
                            .accept = 0.8,
                            .max_depth = 10};
}

static atvi_status check_opts(const atvi_chains *c) {
  const atvi_chains_opts *o = &c->opts;
  const struct {
    bool good;
    const char *name;
    double value;
    const char *want;
  } rule[] = {
      {o->chains >= 1 && o->chains <= CHAINS_MOST, "chains", o->chains, ">= 1 and <= 1024"},
      {o->ess > 0 && o->ess <= ATVI_CHAINS_ESS_MOST, "ess", o->ess,
       "> 0 and <= 1e5: draws are kept in memory"},
      {o->rhat > 1, "rhat", o->rhat, "> 1"},
      {o->max_iter >= 16 && o->max_iter < (atvi_idx)UINT32_MAX, "max_iter", (double)o->max_iter,
       ">= 16 and < 2^32"},
      {o->max_seconds > 0, "max_seconds", o->max_seconds, "> 0"},
      {o->candidates >= 1, "candidates", o->candidates, ">= 1"},
      {o->accept > 0 && o->accept < 1, "accept", o->accept, "> 0 and < 1"},
      {o->max_depth >= 1 && o->max_depth <= 20, "max_depth", o->max_depth, ">= 1 and <= 20"},
  };
  for (size_t k = 0; k < sizeof rule / sizeof *rule; k++)
    if (!rule[k].good)
      return ATVI_FAIL(c->ctx, ATVI_EINVAL, "%s: %s = %.10g, want %s", c->ops->name, rule[k].name,
                       rule[k].value, rule[k].want);
  return ATVI_OK;
}

/* ---- the store ---- */

atvi_status atvi_infer_chains_open(atvi_chains *c) {
  int threads = atvi_ctx_threads(c->ctx);
  size_t m = (size_t)c->opts.chains, d = (size_t)atvi_model_evaluator_target(c->ev)->d;
  c->m = (atvi_idx)m;
  c->d = (atvi_idx)d;
  c->store.thin = 1;
  c->block.evals = 1;
  c->judged.seen = (atvi_quality){NAN, NAN};
  c->store.room = (atvi_idx)(c->plan.states_per_ess * fmax(STORE_ESS, c->opts.ess) / (double)m) / 2 * 2;
  if (c->store.room < ATVI_CHAINS_JUDGED) c->store.room = ATVI_CHAINS_JUDGED;
  c->store.row =
      atvi_pool_take(c->pool, (size_t)c->plan.rows * m * (size_t)c->store.room, sizeof *c->store.row);
  c->block.reached = atvi_pool_take(c->pool, (size_t)c->plan.groups, sizeof *c->block.reached);
  c->judged.quality = atvi_pool_take(c->pool, d, sizeof *c->judged.quality);
  c->lost.mass = atvi_pool_take(c->pool, 2 * m, sizeof *c->lost.mass);
  c->lost.moved = atvi_pool_take(c->pool, m, sizeof *c->lost.moved);
  c->absent = atvi_pool_take(c->pool, m, sizeof *c->absent);
  c->live = c->m;
  c->store.opened_s = atvi_clock_s() - c->begun_s;
  c->work = atvi_pool_take(c->pool, (size_t)threads, sizeof *c->work);
  for (int k = 0; k < threads && c->work; k++)
    c->work[k] = atvi_pool_take(c->pool, m * (size_t)c->store.room + atvi_math_stat_work(c->m, c->store.room),
                                sizeof **c->work);
  if (atvi_pool_failed(c->pool)) return ATVI_ENOMEM;
  c->lost.log_pi = c->lost.mass + m;
  return ATVI_OK;
}

double *atvi_infer_chains_keep(const atvi_chains *c, atvi_idx chain, atvi_idx iteration, const double *x,
                               atvi_idx stride, double log_prior, double log_lik) {
  atvi_idx n = iteration - c->plan.from, row = c->m * c->store.room;
  if (n < 1 || n % c->store.thin != 0) return NULL;
  double *to = c->store.row + chain * c->store.room + n / c->store.thin - 1;
  for (atvi_idx j = 0; j < c->d; j++, to += row) *to = x[j * stride];
  to[0] = log_prior;
  to[row] = log_lik;
  return to + 2 * row;
}

atvi_kept atvi_infer_chains_kept(const atvi_chains *c) {
  atvi_idx skip = c->done / c->plan.part > c->plan.discard ? c->done / c->plan.part : c->plan.discard;
  atvi_idx first = (skip - c->plan.from) / c->store.thin + c->late,
           last = (c->done - c->plan.from) / c->store.thin;
  return (atvi_kept){first, last > first ? last - first : 0};
}

void atvi_infer_chains_copy_row(const atvi_chains *c, atvi_kept kept, atvi_idx row, double *x) {
  for (atvi_idx k = 0; k < c->m; k++) {
    if (c->absent[k]) continue;
    memcpy(x, atvi_infer_chains_row(c, row, k) + kept.first, (size_t)kept.n * sizeof *x);
    x += kept.n;
  }
}

/* Drops every second stored state: what is left are the 2nd, 4th, ... */
static void halve(atvi_chains *c) {
  for (atvi_idx k = 0; k < c->plan.rows * c->m; k++) {
    double *s = c->store.row + k * c->store.room;
    for (atvi_idx i = 0; i < c->store.room / 2; i++) s[i] = s[2 * i + 1];
  }
  c->store.thin *= 2;
  c->late /= 2;
}

/* ---- arrival ---- */

static double log_density(const atvi_chains *c, atvi_idx chain, atvi_idx i) {
  return atvi_infer_chains_row(c, c->d, chain)[i] + atvi_infer_chains_row(c, c->d + 1, chain)[i];
}

/* Log mass of the region that a chain has seen, up to a constant: at most its mean log density and the
 * entropy of a normal with its variances. -inf: it stood still. */
static double mass_seen(const atvi_chains *c, atvi_kept kept, atvi_idx chain) {
  double mass = 0;
  for (atvi_idx i = 0; i < kept.n; i++) mass += log_density(c, chain, kept.first + i) / (double)kept.n;
  for (atvi_idx j = 0; j < c->d; j++)
    mass += log(atvi_math_sd(kept.n, atvi_infer_chains_row(c, j, chain) + kept.first, NULL));
  return isnan(mass) ? -HUGE_VAL : mass;
}

/* Finds the chains to leave out, and when the last of the others had arrived. */
static void find_absent(atvi_chains *c) {
  double *x = c->work[0], most = -HUGE_VAL;
  atvi_idx n_absent = 0, when[CHAINS_MOST];
  c->late = 0;
  c->live = c->m;
  memset(c->absent, 0, (size_t)c->m * sizeof *c->absent);
  atvi_kept kept = atvi_infer_chains_kept(c);
  if (!c->plan.leaves_out || kept.n < ATVI_CONVERGE_LEAST) return;
  for (atvi_idx k = 0; k < c->m; k++)
    for (atvi_idx i = 0; i < kept.n; i++) x[k * kept.n + i] = log_density(c, k, kept.first + i);
  atvi_math_sort(c->m * kept.n, x, NULL, x + c->m * kept.n);
  double level = x[(atvi_idx)(ATVI_SMALL * (double)(c->m * kept.n))];
  for (atvi_idx k = 0; k < c->m; k++) {
    when[k] = 0;
    while (when[k] < kept.n && log_density(c, k, kept.first + when[k]) < level) when[k]++;
    c->lost.mass[k] = mass_seen(c, kept, k);
    most = fmax(most, c->lost.mass[k]);
  }
  atvi_idx patience = kept.n / 8;
  for (atvi_idx k = 0; k < c->m; k++) {
    c->absent[k] = when[k] > patience && c->lost.mass[k] < most - ATVI_NEGLIGIBLE;
    n_absent += c->absent[k];
  }
  if ((double)n_absent > ATVI_SMALL * (double)c->m) { /* too many for an accident: R-hat has the word */
    memset(c->absent, 0, (size_t)c->m * sizeof *c->absent);
    return;
  }
  c->live = c->m - n_absent;
  for (atvi_idx k = 0; k < c->m; k++)
    if (!c->absent[k] && when[k] <= patience && when[k] > c->late) c->late = when[k];
}

/* ---- agreement ---- */

static atvi_quality judge_row(const atvi_chains *c, atvi_idx row, int worker) {
  atvi_kept kept = atvi_infer_chains_kept(c);
  double *x = c->work[worker];
  atvi_infer_chains_copy_row(c, kept, row, x);
  atvi_convergence v = atvi_math_converge(c->live, kept.n, x, x + c->live * kept.n);
  return (atvi_quality){.rhat = v.rhat,
                        .ess = isnan(v.ess_tail) || v.ess_tail < v.ess_bulk ? v.ess_tail : v.ess_bulk};
}

static void judge_item(void *arg, atvi_idx param, int worker) {
  atvi_chains *c = arg;
  c->judged.quality[param] = judge_row(c, param, worker);
}

/* How far from the criteria: share of the way, above 1 is there. */
static double share_of(const atvi_chains *c, atvi_quality q) {
  double rhat = (c->opts.rhat - 1) / fmax(q.rhat - 1, 1e-9), ess = q.ess / c->opts.ess;
  if (!(q.rhat >= 0) || !(q.ess >= 0)) return 0;
  return fmin(rhat, ess);
}

double atvi_infer_chains_share(const atvi_chains *c, atvi_idx row) {
  return share_of(c, judge_row(c, row, 0));
}

/* A checkpoint, on all threads. The parameter that was worst is looked at first, and while it is not good
 * enough the others are not looked at, so that checkpoints stay cheap. */
static bool judge(atvi_chains *c) {
  c->judged.seen = judge_row(c, c->judged.worst, 0);
  c->judged.share = share_of(c, c->judged.seen);
  if (c->judged.share > 1) {
    atvi_parallel(c->ctx, c->d, judge_item, c);
    for (atvi_idx k = 0; k < c->d; k++) {
      if (share_of(c, c->judged.quality[k]) >= c->judged.share) continue;
      c->judged.share = share_of(c, c->judged.quality[k]);
      c->judged.worst = k;
    }
    c->judged.seen = c->judged.quality[c->judged.worst];
  }
  if (c->ops->further) c->judged.share = fmin(c->judged.share, c->ops->further(c->self));
  return c->judged.share > 1;
}

/* A chain may get caught in a hollow that holds next to none of the posterior. It would stay there, and the
 * run would never end. Modes that matter are far above ATVI_HOPELESS: they keep their chains, and R-hat shows
 * them. */
bool atvi_infer_chains_move_lost(atvi_chains *c) {
  double *mass = c->lost.mass;
  atvi_idx best = 0;
  bool any = false;
  for (atvi_idx k = 0; k < c->m; k++) {
    mass[k] = c->ops->mass(c->self, k, &c->lost.log_pi[k]);
    if (isnan(mass[k])) mass[k] = -HUGE_VAL;
    if (mass[k] > mass[best]) best = k;
  }
  double least = mass[best] - ATVI_HOPELESS;
  if (!isfinite(least)) return false;
  for (atvi_idx k = 0; k < c->m; k++) {
    if (mass[k] >= least) continue;
    atvi_rng rng = atvi_math_rng_at(c->opts.seed, ATVI_STREAM_START, 2, (uint32_t)k);
    atvi_idx good = (atvi_idx)(atvi_math_rng_uniform(&rng) * (double)c->m);
    while (!(mass[good] >= least)) good = (good + 1) % c->m;
    c->ops->copy(c->self, k, good);
    c->lost.moved[k] = any = true;
    c->lost.drop = fmax(c->lost.drop, c->lost.log_pi[best] - c->lost.log_pi[k]);
    mass[k] = -HUGE_VAL;
  }
  return any;
}

/* ---- running ---- */

static void report(atvi_chains *c, double elapsed_s) {
  char detail[64] = "";
  bool warm = isnan(c->judged.seen.ess);
  const char *phase = c->plan.phase ? c->plan.phase : warm ? "warm-up" : "sampling";
  double limit = fmax((double)c->done / (double)c->opts.max_iter, elapsed_s / c->opts.max_seconds);
  double done = fmin(0.999, fmax(c->judged.share, limit));
  if (warm) /* nothing is known but that the first checkpoint has to be reached, and as much again may come */
    done = fmax(done, 0.5 * (double)c->done / (double)c->plan.first_check);
  double left = 0;
  if (c->plan.before > 0) { /* of the whole fit: the chains' own time, scaled to what is left of it */
    left = done > 0 ? (elapsed_s - c->store.opened_s) * (1 / done - 1) : HUGE_VAL;
    done = elapsed_s / (elapsed_s + left);
  }
  c->reported = fmax(c->reported, done);
  if (!warm) snprintf(detail, sizeof detail, "R-hat %.3f, ESS %.0f", c->judged.seen.rhat, c->judged.seen.ess);
  atvi_tell_about(c->ctx,
                  &(atvi_progress){phase, c->reported, elapsed_s, detail, NAN, NAN, NAN, NAN, NAN,
                                   c->judged.seen.rhat, c->judged.seen.ess, isfinite(left) ? left : 0});
}

static void run_item(void *arg, atvi_idx group, int worker) {
  atvi_chains *c = arg;
  c->block.reached[group] = c->ops->run(c->self, group, worker);
}

/* Runs all chains to iteration c->to in blocks of about BLOCK_S; false: it ended before. */
static bool run_on(atvi_chains *c) {
  while (c->done < c->to) {
    double now = atvi_clock_s() - c->begun_s;
    atvi_io_stretch_mark(atvi_model_evaluator_memo(c->ev), c);
    if (atvi_stop_asked(c->ctx)) return c->end = ATVI_END_STOPPED, false;
    if (now > c->opts.max_seconds) return c->end = ATVI_END_LIMIT, false;
    report(c, now);
    atvi_idx full = c->plan.from + c->store.room * c->store.thin;
    c->block.goal = c->to < full ? c->to : full;
    atvi_parallel(c->ctx, c->plan.groups, run_item, c);
    c->done = c->block.goal;
    for (atvi_idx g = 0; g < c->plan.groups; g++)
      if (c->block.reached[g] < c->done) c->done = c->block.reached[g];
    if (c->done == full) halve(c);
    if (c->done == c->block.goal) continue; /* the block was cut short and tells no cost */
    double each = (atvi_clock_s() - c->begun_s - now) / (double)c->block.evals;
    c->block.evals =
        (atvi_idx)fmax(1, BLOCK_S / fmax(each, 1e-6)); /* one that is too short to be timed tells little */
  }
  return true;
}

double atvi_infer_chains_outlook(atvi_chains *c) {
  double share = HUGE_VAL;
  if (atvi_infer_chains_kept(c).n < ATVI_CONVERGE_LEAST) return 0;
  atvi_parallel(c->ctx, c->d, judge_item, c);
  for (atvi_idx k = 0; k < c->d; k++) share = fmin(share, share_of(c, c->judged.quality[k]));
  return c->ops->further ? fmin(share, c->ops->further(c->self)) : share;
}

/* To the next checkpoint. Returns whether the run is over. */
static bool go_on(atvi_chains *c) {
  while (!c->check.warm) {
    if (c->to <= c->done) c->to = c->ops->warm_up(c->self);
    c->check.warm = c->to == 0;
    if (!run_on(c)) return true;
  }
  if (c->to <= c->done)
    c->check.next = c->check.next == 0 ? c->plan.first_check - c->plan.from
                                       : (atvi_idx)ceil(CHECK_RATIO * (double)c->check.next);
  bool last = c->plan.from + c->check.next >= c->opts.max_iter;
  c->to = last ? c->opts.max_iter : c->plan.from + c->check.next;
  if (!run_on(c)) return true;
  find_absent(c);
  bool enough = atvi_infer_chains_kept(c).n * c->m >= c->plan.look_min;
  c->check.passed = enough && judge(c) ? c->check.passed + 1 : 0;
  c->end = c->check.passed == PASSES ? ATVI_END_DONE : ATVI_END_LIMIT;
  if (c->check.passed == PASSES || last) return true;
  if (c->check.passed == 0 && c->ops->not_passed) c->ops->not_passed(c->self, enough);
  return false;
}

/* Everything that a run changes, but for what only the clock knows. */
static void state(void *self, atvi_state *s) {
  atvi_chains *c = self;
  size_t d = (size_t)c->d, m = (size_t)c->m;
  atvi_idx *number[] = {&c->done, &c->to,   &c->block.goal,   &c->store.thin, &c->plan.discard,
                        &c->late, &c->live, &c->judged.worst, &c->check.next};
  for (size_t k = 0; k < sizeof number / sizeof *number; k++) ATVI_STATE(s, *number[k]);
  ATVI_STATE(s, c->check.passed);
  ATVI_STATE(s, c->check.warm);
  ATVI_STATE(s, c->over);
  ATVI_STATE(s, c->end);
  ATVI_STATE(s, c->judged.seen);
  ATVI_STATE(s, c->judged.share);
  ATVI_STATE(s, c->lost.drop);
  atvi_io_state(s, c->judged.quality, d * sizeof *c->judged.quality);
  atvi_io_state(s, c->lost.mass, 2 * m * sizeof *c->lost.mass);
  atvi_io_state(s, c->lost.moved, m * sizeof *c->lost.moved);
  atvi_io_state(s, c->absent, m * sizeof *c->absent);
  atvi_idx filled = c->block.goal > c->plan.from ? (c->block.goal - c->plan.from) / c->store.thin : 0;
  for (atvi_idx k = 0; k < c->plan.rows * c->m; k++)
    atvi_io_state(s, c->store.row + k * c->store.room, (size_t)filled * sizeof *c->store.row);
  c->ops->state(c->self, s);
  atvi_model_evaluator_state(c->ev, s);
}

/* False: there is nothing left to do. */
static bool begin_stretch(atvi_chains *c) {
  return !c->ops->state || !atvi_io_stretch_begin(atvi_model_evaluator_memo(c->ev),
                                                  &(atvi_stretch){c->ops->name, state, c, .lean = true});
}

static void end_stretch(atvi_chains *c) {
  if (c->ops->state) atvi_io_stretch_end(atvi_model_evaluator_memo(c->ev), c->to <= c->done);
}

bool atvi_infer_chains_on(atvi_chains *c, atvi_end *end) {
  if (begin_stretch(c)) {
    c->over = go_on(c);
    end_stretch(c);
  }
  *end = c->end;
  return c->over;
}

atvi_end atvi_infer_chains_loop(atvi_chains *c) {
  atvi_end end = ATVI_END_LIMIT;
  if (begin_stretch(c)) {
    while (!atvi_infer_chains_on(c, &end)) {}
    end_stretch(c);
  }
  return c->end;
}

/* ---- delivery ---- */

atvi_status atvi_infer_chains_deliver(const atvi_chains *c, atvi_end end, atvi_draws **out) {
  atvi_kept kept = atvi_infer_chains_kept(c);
  atvi_idx n = c->live * kept.n;
  *out = NULL;
  if (kept.n < ATVI_CONVERGE_LEAST)
    return ATVI_FAIL(c->ctx, end == ATVI_END_STOPPED ? ATVI_ESTOP : ATVI_ELIMIT,
                     "ended after %td iterations per chain: too few to keep any draw", c->done);
  ATVI_TRY(atvi_infer_fit_draws_new(c->ctx, atvi_model_evaluator_target(c->ev), n, c->live, false, out));
  atvi_draws *d = *out;
  for (atvi_idx j = 0; j < c->d; j++) atvi_infer_chains_copy_row(c, kept, j, d->x + j * n);
  atvi_infer_chains_copy_row(c, kept, c->d, d->log_prior);
  atvi_infer_chains_copy_row(c, kept, c->d + 1, d->log_lik);
  atvi_infer_fit_derived(c->ev, d);
  d->chains = true;
  d->made->end = end;
  if (c->live == c->m) return ATVI_OK;
  atvi_idx absent = c->m - c->live;
  return atvi_draws_say(d, ATVI_NOTE, ATVI_CODE_CHAINS_LEFT_OUT,
                        "%td of %td chains had not come to where the others are by the end, and %s left out: "
                        "the region where %s "
                        "holds less than a thousandth of the posterior.",
                        absent, c->m, absent == 1 ? "is" : "are", absent == 1 ? "it was" : "they were");
}

static atvi_status say_moved(const atvi_chains *c, atvi_draws *d) {
  int n = 0;
  for (atvi_idx k = 0; k < c->m; k++) n += c->lost.moved[k];
  if (n == 0) return ATVI_OK;
  /* One that hardly moves holds little of the posterior however high it is. */
  char how[64] = ", where it hardly moved,";
  if (n > 1) snprintf(how, sizeof how, ", where they hardly moved,");
  if (c->lost.drop >= 1) snprintf(how, sizeof how, ", its log posterior %.0f lower,", c->lost.drop);
  return atvi_draws_say(
      d, ATVI_NOTE, ATVI_CODE_CHAINS_MOVED,
      "%d %s caught in a region of negligible probability%s and moved to where the others are "
      "during warm-up.",
      n, n == 1 ? "chain was" : "chains were", how);
}

static atvi_status say_starts(const atvi_starts *s, atvi_idx chains, atvi_draws *d) {
  int worst = 0;
  for (int k = 1; k < 6; k++)
    if (s->bad[k] > s->bad[worst]) worst = k;
  if (s->n < chains)
    ATVI_TRY(atvi_draws_say(
        d, ATVI_NOTE, ATVI_CODE_STARTS_FEW,
        "Only %td starting points were found for %td chains, so some chains began at the same point.", s->n,
        chains));
  atvi_idx bad = 0;
  for (int k = 0; k < 6; k++) bad += s->bad[k];
  if (2 * bad > s->tried)
    ATVI_TRY(atvi_draws_say(d, ATVI_NOTE, ATVI_CODE_STARTS_FAILED,
                            "%td of %td draws from the prior could not be evaluated; most often %s.", bad,
                            s->tried, atvi_outcome_word((atvi_outcome)worst)));
  return ATVI_OK;
}

/* ---- a whole run ---- */

static atvi_status sample(atvi_chains *c, atvi_starts **s, atvi_draws **out) {
  const atvi_chains_opts *o = &c->opts;
  ATVI_TRY(atvi_pool_new(c->ctx, &c->pool));
  ATVI_TRY(atvi_infer_starts_new(c->ctx, c->ev, o->seed, (atvi_idx)o->chains * o->candidates, s));
  atvi_idx *index = atvi_pool_take(c->pool, (size_t)o->chains, sizeof *index);
  if (!index) return ATVI_ENOMEM;
  ATVI_TRY(c->ops->begin(c->self, *s, index));
  ATVI_TRY(atvi_infer_chains_open(c));
  atvi_end end = atvi_infer_chains_loop(c);
  ATVI_TRY(atvi_infer_chains_deliver(c, end, out));
  c->ops->made(c->self, (*out)->made);
  ATVI_TRY(say_moved(c, *out));
  return say_starts(*s, c->m, *out);
}

atvi_status atvi_infer_chains_sample(atvi_chains *c, const atvi_chains_opts *opts, atvi_draws **out) {
  int64_t count = atvi_model_evaluator_count(c->ev), failures = atvi_model_evaluator_failures(c->ev);
  atvi_starts *s = NULL;
  *out = NULL;
  c->opts = *opts;
  c->begun_s = atvi_clock_s();
  ATVI_TRY(check_opts(c));
  atvi_status status = sample(c, &s, out);
  if (status == ATVI_OK) {
    atvi_made *made = (*out)->made;
    made->method = c->ops->name;
    made->model = atvi_model_evaluator_target(c->ev)->name;
    made->seed = c->opts.seed;
    made->evaluations = atvi_model_evaluator_count(c->ev) - count;
    made->failures = atvi_model_evaluator_failures(c->ev) - failures;
    made->ess_wanted = c->opts.ess;
    made->seconds = atvi_clock_s() - c->begun_s;
    atvi_tell(c->ctx, "done", 1, made->seconds, "%td draws", (*out)->n);
  } else {
    atvi_draws_free(*out);
    *out = NULL;
  }
  if (c->ops->end) c->ops->end(c->self);
  atvi_infer_starts_free(s);
  atvi_pool_free(c->pool);
  return status;
}
