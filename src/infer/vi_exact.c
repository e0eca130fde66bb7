/* SPDX-License-Identifier: MIT */
/* The exact sampler: chains that start from draws of the trained q and move by jumps through q, by Hamiltonian moves in its
 * coordinates (vi_moves.c) and along lines (vi_exact_lines.c), until they agree.
 *
 * Warm-up  WARMUP iterations, in which the steps of the local moves are adapted, for each component, to an acceptance of 0.8: after every
 *          ADAPT iterations, from all chains at once, in order. Then they are fixed. The end of the steps is the average over the second half.
 * Kept     what came after the warm-up and after the first quarter of all iterations. At checkpoints spaced by CHECK_RATIO it is judged; the
 *          run ends when R-hat and both ESS are good for every parameter and for log pi - log q, at two checkpoints in a row.
 * Storage  every thin-th state; when the store is full every second one is dropped and thin doubles.
 * Threads  a group of LANES chains runs a whole block alone. After the warm-up the ends of blocks follow the clock and mean
 *          nothing to the results.
 * Evidence by bridge sampling between the draws of q that were weighed last and the chains (bridge.h). */
#include "infer/vi_exact.h"
#include "math/stat/bridge.h"
#include "math/stat/stat.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
  L = ATVI_LANES,
  CHAINS = ATVI_EXACT_CHAINS,
  GROUPS = CHAINS / L,
  WARMUP = 200,
  ADAPT = 5,
  STORE = 40960,     /* states of all chains together, unless ess asks for more */
  STORE_PER_ESS = 8, /* so many per effective draw wanted */
  KEEP_MIN = 2000,   /* iterations before the criteria are looked at: what q misses is found late */
  KEEP_LEAST = 16,   /* per chain: fewer are not delivered */
  BLOCK_MAX = 1000,
  PASSES = 2,
  SPREAD = 2048, /* draws for location and covariance */
};
#define ESS_WANTED 1000.0
#define ESS_MOST 1e5
#define RHAT 1.01
#define CHECK_RATIO 1.2
#define TAIL 0.2
#define ACCEPT 0.8
#define BLOCK_S 0.1
#define WRONG 1.0 /* log of pi / q at the worst of 500 states, above its median */
#define EVIDENCE_SE_MOST 0.5

typedef struct {
  atvi_vi *v;
  const atvi_vi_weights *w; /* draws of the approximation */
  atvi_exact_moves moves;
  atvi_exact_group group[GROUPS];
  double *log_step; /* [2][n_part] while adapting */
  double *sum_step; /* [2][n_part] over the second half of the warm-up */
  double *start;    /* [d][CHAINS] */
  double *store;    /* [d + 3][CHAINS][room]: theta, log prior, log likelihood, log pi - log q */
  atvi_idx room, thin, done, to;
  atvi_criteria judge, judge_w; /* of the parameters; of log pi - log q */
  bool placing;
} sampler;

/* ---- the object; arrays are the pool's ---- */

static double *reals(sampler *s, atvi_idx n) { return atvi_pool_take(s->v->pool, (size_t)n, sizeof(double)); }

static atvi_status make_judge(sampler *s, atvi_criteria *j, atvi_idx d) {
  atvi_arena a = {0};
  j->rhat = RHAT;
  j->ess = isnan(s->v->opts.ess) ? ESS_WANTED : fmin(s->v->opts.ess, ESS_MOST);
  j->workers = atvi_ctx_threads(s->v->ctx);
  atvi_criteria_carve(&a, j, d, CHAINS, s->room);
  a = (atvi_arena){.base = atvi_pool_take(s->v->pool, a.used + ATVI_ALIGN, 1)};
  if (!a.base) return ATVI_FAIL(s->v->ctx, ATVI_ENOMEM, "exact sampler: d = %td", s->v->d);
  atvi_criteria_carve(&a, j, d, CHAINS, s->room);
  return ATVI_OK;
}

static atvi_status sampler_open(sampler *s) {
  atvi_vi *v = s->v;
  atvi_idx d = v->d, n_part = v->n_part;
  int threads = atvi_ctx_threads(v->ctx);
  double ess = isnan(v->opts.ess) ? ESS_WANTED : fmin(v->opts.ess, ESS_MOST);
  s->thin = 1;
  s->room = (atvi_idx)(fmax(STORE, STORE_PER_ESS * ess) / CHAINS) / 2 * 2;
  s->moves =
      (atvi_exact_moves){.v = v, .n_part = n_part, .leaps = ATVI_EXACT_LEAPS, .lines = ATVI_EXACT_LINES};
  s->moves.step = reals(s, 2 * n_part);
  s->log_step = reals(s, 2 * n_part);
  s->sum_step = reals(s, 2 * n_part);
  s->start = reals(s, d * CHAINS);
  s->store = reals(s, (d + 3) * CHAINS * s->room);
  for (int k = 0; k < GROUPS; k++) {
    s->group[k].chain = (uint32_t)(k * L);
    atvi_exact_group_make(v->pool, d, n_part, &s->group[k]);
  }
  s->moves.work = atvi_pool_take(v->pool, (size_t)(threads * n_part), sizeof *s->moves.work);
  if (atvi_pool_failed(v->pool)) return ATVI_FAIL(v->ctx, ATVI_ENOMEM, "exact sampler: d = %td", d);
  for (atvi_idx k = 0; k < threads * n_part; k++)
    ATVI_TRY(v->family.ops->work_new(v->family.self, v->ctx, L, &s->moves.work[k]));
  ATVI_TRY(make_judge(s, &s->judge, d));
  return make_judge(s, &s->judge_w, 1);
}

static void sampler_close(sampler *s) {
  for (atvi_idx k = 0; s->moves.work && k < atvi_ctx_threads(s->v->ctx) * s->v->n_part; k++)
    if (s->moves.work[k]) s->v->family.ops->work_free(s->moves.work[k]);
}

/* Where the posterior is and how wide, from the weighted draws. */
static atvi_status find_spread(sampler *s) {
  atvi_idx d = s->v->d;
  double *x = reals(s, d * SPREAD);
  if (!x) return ATVI_FAIL(s->v->ctx, ATVI_ENOMEM, "exact sampler: d = %td", d);
  atvi_vi_starts(s->v, s->w, SPREAD, x);
  if (!atvi_exact_spread(s->v->pool, d, SPREAD, x, &s->moves))
    return ATVI_FAIL(s->v->ctx, ATVI_ENOMEM, "exact sampler: d = %td", d);
  return ATVI_OK;
}

/* ---- running ---- */

static void keep_state(sampler *s, const atvi_exact_group *g, atvi_idx iteration) {
  const atvi_exact_point *p = &g->now;
  atvi_idx at = iteration / s->thin - 1, stride = CHAINS * s->room, d = s->v->d;
  for (int i = 0; i < L; i++) {
    double *to = s->store + ((atvi_idx)g->chain + i) * s->room + at;
    for (atvi_idx j = 0; j < d; j++) to[j * stride] = p->theta[j * L + i];
    to[d * stride] = p->log_prior[i];
    to[(d + 1) * stride] = p->log_lik[i];
    to[(d + 2) * stride] = p->log_pi[i] - p->log_q[i];
  }
}

static void run_group(void *arg, atvi_idx item, int worker) {
  sampler *s = arg;
  atvi_exact_group *g = &s->group[item];
  if (s->placing) {
    for (atvi_idx j = 0; j < s->v->d; j++)
      memcpy(g->next.x + j * L, s->start + j * CHAINS + item * L, L * sizeof(double));
    atvi_exact_place(&s->moves, g, worker, g->next.x);
  }
  for (atvi_idx n = s->done + 1; n <= s->to; n++) {
    atvi_exact_step(&s->moves, g, worker, (uint32_t)n);
    if (n % s->thin == 0) keep_state(s, g, n);
  }
}

static atvi_chains kept(const sampler *s) {
  atvi_idx skip = s->done / 4 > WARMUP ? s->done / 4 : WARMUP, first = skip / s->thin,
           last = s->done / s->thin;
  return (atvi_chains){s->v->d, CHAINS, s->room, s->store, first < last ? first : last, last};
}

/* Iterations up to s->to, which is not beyond the store. */
static void run_block(sampler *s) {
  atvi_parallel(s->v->ctx, GROUPS, run_group, s);
  s->done = s->to;
  s->placing = false;
  if (s->done < s->room * s->thin) return;
  atvi_chains all = kept(s);
  all.d++; /* the row of ratios, too */
  atvi_chains_halve(&all);
  s->thin *= 2;
}

/* What the groups saw of local moves with each component, in order, and forgets it. */
static double acceptance(sampler *s, atvi_idx k) {
  double sum = 0, n = 0;
  for (int i = 0; i < GROUPS; i++) {
    sum += s->group[i].accepted[k];
    n += s->group[i].tried[k];
    s->group[i].accepted[k] = s->group[i].tried[k] = 0;
  }
  return sum / n;
}

/* Contiguous copy of a row of the store. */
static void copy_row(const sampler *s, const atvi_chains *c, atvi_idx row, double *to) {
  atvi_idx n = c->last - c->first;
  for (atvi_idx k = 0; k < CHAINS; k++)
    memcpy(to + k * n, s->store + (row * CHAINS + k) * s->room + c->first, (size_t)n * sizeof *to);
}

/* Lines are half of the cost. Where the second half of the warm-up, with all of them, met no place from which jumps are accepted less than once in
 * e^WRONG times, one per iteration keeps looking for it. */
static int lines_needed(sampler *s) {
  atvi_chains c = {s->v->d, CHAINS, s->room, s->store, WARMUP / 2, WARMUP};
  atvi_idx n = CHAINS * (c.last - c.first);
  double *x = s->judge_w.work[0];
  copy_row(s, &c, c.d + 2, x);
  atvi_sort(n, x, NULL, x + n);
  return x[n - 1 - n / 500] - x[n / 2] > WRONG ? ATVI_EXACT_LINES : 1;
}

/* False: there is no time. */
static bool warm_up(sampler *s) {
  atvi_vi *v = s->v;
  int blocks = WARMUP / ADAPT;
  for (atvi_idx k = 0; k < 2 * v->n_part; k++) {
    s->moves.step[k] = pow((double)v->d, -0.25);
    s->log_step[k] = log(s->moves.step[k]);
  }
  for (int b = 0; b < blocks; b++) {
    if (atvi_vi_late(v)) return false;
    atvi_vi_tell(v, "exact sampler", 0.85, "warm-up, step %d of %d", b + 1, blocks);
    s->to = s->done + ADAPT;
    run_block(s);
    for (atvi_idx k = 0; k < 2 * v->n_part; k++) {
      double a = acceptance(s, k);
      if (!isnan(a)) s->log_step[k] = fmin(s->log_step[k] + 2 / sqrt(1.0 + b) * (a - ACCEPT), log(2.0));
      s->sum_step[k] += b >= blocks / 2 ? s->log_step[k] : 0;
      s->moves.step[k] = exp(b == blocks - 1 ? s->sum_step[k] / (blocks - blocks / 2) : s->log_step[k]);
    }
  }
  for (int i = 0; i < GROUPS; i++) s->group[i].jumped = s->group[i].jumps = 0;
  s->moves.lines = lines_needed(s);
  return true;
}

/* False: out of time. */
static bool run_to(sampler *s, atvi_idx goal, atvi_idx *block, double share, atvi_quality worst) {
  while (s->done < goal) {
    if (atvi_vi_late(s->v)) return false;
    double begun = atvi_clock_s();
    s->v->told = fmax(s->v->told, fmin(0.999, 0.85 + 0.15 * share));
    atvi_chains_tell(s->v->ctx, "exact sampler", s->v->told, begun - s->v->begun_s, worst);
    atvi_idx from = s->done;
    s->to = from + *block;
    if (s->to > goal) s->to = goal;
    if (s->to > s->room * s->thin) s->to = s->room * s->thin;
    run_block(s);
    double each = (atvi_clock_s() - begun) / (double)(s->done - from);
    *block = each * BLOCK_MAX < BLOCK_S ? BLOCK_MAX : each > BLOCK_S ? 1 : (atvi_idx)(BLOCK_S / each);
  }
  return true;
}

/* Where q has too little mass chains seldom come and then stay long. Parameters may not show it, but w = pi / q does: how often the
 * chains are among the largest hundredth of it must be known as well, to a fifth of the effective size. */
static double tail_share(sampler *s, const atvi_chains *c) {
  atvi_idx n = CHAINS * (c->last - c->first);
  double *x = s->judge_w.work[0], *work = x + n;
  copy_row(s, c, c->d + 2, x);
  atvi_sort(n, x, NULL, work);
  double top = x[n - 1 - n / 100];
  copy_row(s, c, c->d + 2, x);
  for (atvi_idx i = 0; i < n; i++) x[i] = x[i] > top;
  double ess = atvi_converge(CHAINS, n / CHAINS, x, work).ess_mean;
  return isnan(ess) ? 0 : ess / (TAIL * s->judge_w.ess);
}

static bool agree(sampler *s, double *share, atvi_quality *worst) {
  atvi_chains c = kept(s), w = c;
  double share_w;
  atvi_quality unused;
  bool good = atvi_chains_judge(s->v->ctx, &c, &s->judge, share, worst);
  w.d = 1;
  w.store += (c.d + 2) * CHAINS * s->room;
  good = atvi_chains_judge(s->v->ctx, &w, &s->judge_w, &share_w, &unused) && good;
  *share = fmin(*share, fmin(share_w, tail_share(s, &c)));
  return good && *share > 1;
}

static atvi_end loop(sampler *s) {
  atvi_idx block = 4, most = WARMUP + s->v->opts.exact_iter, goal = WARMUP + KEEP_MIN;
  double share = 0;
  atvi_quality worst = {NAN, NAN};
  int passed = 0;
  if (!warm_up(s)) return ATVI_END_LIMIT;
  for (;;) {
    bool last = goal >= most;
    if (last) goal = most;
    if (!run_to(s, goal, &block, share, worst)) return ATVI_END_LIMIT;
    passed = agree(s, &share, &worst) ? passed + 1 : 0;
    if (passed == PASSES) return ATVI_END_DONE;
    if (last) return ATVI_END_LIMIT;
    goal = (atvi_idx)ceil(CHECK_RATIO * (double)goal);
  }
}

/* ---- delivery ---- */

static atvi_status evidence(sampler *s, const atvi_chains *c, atvi_made *made) {
  atvi_idx n = c->last - c->first;
  double *log_p = reals(s, CHAINS * n);
  atvi_bridge_draws b = {.m = CHAINS, .n = n, .log_p = log_p};
  b.n_q = s->w->c.n;
  b.log_q = s->w->log_w;
  double *work = atvi_pool_take(s->v->pool, atvi_bridge_work(&b), sizeof *work);
  if (!log_p || !work) return ATVI_FAIL(s->v->ctx, ATVI_ENOMEM, "exact sampler: evidence");
  copy_row(s, c, s->v->d + 2, log_p);
  atvi_bridge_info info = atvi_bridge(&b, work);
  /* Where chains and approximation hardly meet, one draw decides, and its error is not known either. */
  bool known = info.se < EVIDENCE_SE_MOST;
  made->log_evidence = known ? info.log_evidence : NAN;
  made->log_evidence_se = known ? info.se : NAN;
  return ATVI_OK;
}

/* Where the modes are is known in xi: parameters go back there, to the image inside the box. */
static atvi_status tell_modes(sampler *s, atvi_draws *d) {
  double *x = reals(s, s->v->d * d->n);
  if (!x) return ATVI_FAIL(s->v->ctx, ATVI_ENOMEM, "exact sampler: modes");
  for (atvi_idx i = 0; i < s->v->d; i++)
    atvi_map_inv(&s->v->space->map[i], d->n, d->x + i * d->n, x + i * d->n);
  return atvi_vi_mode_shares(s->v, &(atvi_vi_points){d->n, d->n, x, NULL, true}, d);
}

static atvi_status deliver(sampler *s, atvi_end end, atvi_draws **out) {
  atvi_vi *v = s->v;
  atvi_chains c = kept(s);
  double jumped = 0, jumps = 0;
  for (int i = 0; i < GROUPS; i++) jumped += s->group[i].jumped, jumps += s->group[i].jumps;
  ATVI_TRY(atvi_chains_deliver(v->ctx, v->ev, &c, end, s->done, out));
  atvi_made *made = &(*out)->made;
  atvi_vi_made(v, s->w, made);
  if (made->end == ATVI_END_DONE && end != ATVI_END_DONE)
    made->end = atvi_stop_asked(v->ctx) ? ATVI_END_STOPPED : ATVI_END_LIMIT;
  made->exact = 1;
  made->ess_wanted = s->judge.ess;
  made->accept = jumped / jumps;
  ATVI_TRY(evidence(s, &c, made));
  ATVI_TRY(atvi_draws_say(
      *out, ATVI_NOTE, v->opts.exact == ATVI_EXACT_ON ? ATVI_CODE_EXACT_ASKED : ATVI_CODE_EXACT_NEEDED,
      "%s: %d chains that start from the approximation and use it for their moves, %td "
      "iterations each, exact in the limit. %.2g %% of the jumps by which a chain may go "
      "anywhere in the posterior at once were accepted.",
      v->opts.exact == ATVI_EXACT_ON
          ? "These are draws of the exact sampler, as asked for"
          : "The approximation could not be corrected by weights, so these are draws of the "
            "exact sampler",
      (int)CHAINS, s->done, 100 * made->accept));
  if (isnan(made->log_evidence))
    ATVI_TRY(
        atvi_draws_say(*out, ATVI_NOTE, ATVI_CODE_EVIDENCE_UNKNOWN,
                       "The log evidence is not known: the approximation and the posterior hardly overlap."));
  return tell_modes(s, *out);
}

static atvi_status sample(sampler *s, atvi_draws **out) {
  ATVI_TRY(sampler_open(s));
  atvi_vi_starts(s->v, s->w, CHAINS, s->start);
  ATVI_TRY(find_spread(s));
  s->placing = true;
  atvi_end end = loop(s);
  atvi_chains c = kept(s);
  if (c.last - c.first >= KEEP_LEAST) return deliver(s, end, out);
  return ATVI_OK;
}

atvi_status atvi_vi_exact(atvi_vi *v, const atvi_vi_weights *w, atvi_draws **out) {
  sampler s = {.v = v, .w = w};
  *out = NULL;
  if (v->opts.exact == ATVI_EXACT_AUTO)
    atvi_log(v->ctx, ATVI_LOG_NOTE, "weights cannot correct the approximation; the exact sampler takes over");
  atvi_status status = sample(&s, out);
  sampler_close(&s);
  if (status != ATVI_OK) {
    atvi_draws_free(*out);
    *out = NULL;
  }
  return status;
}
