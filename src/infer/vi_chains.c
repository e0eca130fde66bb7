/* SPDX-License-Identifier: MIT */
/* Chains that start from the approximation, where weights cannot correct it: which sampler runs them, and
 * what they deliver.
 *
 * Two know how to. The exact sampler (vi_exact.c) jumps through q, from mode to mode, and finds its way into
 * necks. The No-U-Turn sampler (nuts.c), in coordinates in which the weighted draws are uncorrelated with
 * variance one, does not need q to be good and costs a tenth per draw, but stays in its mode and diverges in
 * necks. So nuts begins. At its first checkpoint its R-hat and ESS say how many more model runs it needs:
 * R-hat - 1 falls, and ESS grows, in proportion to them. If that is less than the exact sampler takes to its
 * own first checkpoint nuts goes on. Otherwise the exact sampler comes to that checkpoint too, and the one
 * that needs fewer runs from there goes on. All of it is counted in runs: the choice depends on the seed
 * alone.
 *
 * Evidence by bridge sampling between the draws of q that were weighed last and the chains (stat.h), or from
 * the chains alone (vi_bridge.c). */
#include "infer/vi_exact.h"
#include "math/stat/stat.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { NUTS_CHAINS = 2 * ATVI_LANES }; /* as many as nuts has by default */
/* All but a tenth: smaller steps than by default, since none may diverge. */
#define NUTS_ACCEPT (1 - ATVI_SMALL)
/* Training is in vain when hardly any of the draws can be evaluated, or when after this many steps their log
 * weights still have this standard deviation, by the quartiles: where weights can be used in the end it is 1
 * to 2 by then. */
enum { VAIN_STEPS = 600 };
#define VAIN_SD 5.0

typedef struct {
  atvi_vi *v;
  /* draws of the approximation */
  const atvi_vi_weights *w;
  /* where the posterior is and how wide, about */
  atvi_exact_moves where;
  /* of nuts */
  const atvi_member *frame;
  atvi_chains *nuts, *exact;
} takeover;

/* One of the two at its first checkpoint. */
typedef struct {
  atvi_chains *c;
  bool over;
  atvi_end end;
  /* model runs so far, and those that it needs beyond */
  double runs, left;
} trial;

static double *reals(takeover *t, atvi_idx n) {
  return atvi_pool_take(t->v->pool, (size_t)n, sizeof(double));
}

static double count(const takeover *t) { return (double)atvi_model_evaluator_count(t->v->ev); }

/* ---- the two ---- */

static atvi_status find_spread(takeover *t) {
  double *x = reals(t, t->v->d * ATVI_VI_LOOK);
  if (!x) return ATVI_ENOMEM;
  atvi_infer_vi_starts(t->v, t->w, ATVI_VI_LOOK, x);
  return atvi_infer_exact_spread(t->v->pool, t->v->d, ATVI_VI_LOOK, x, &t->where) ? ATVI_OK : ATVI_ENOMEM;
}

/* The identity, for starts from the prior. */
static void plain_frame(takeover *t) {
  atvi_member *m = &t->where.spread;
  atvi_idx d = t->v->d;
  memset(m->shift, 0, (size_t)d * sizeof *m->shift);
  memset(m->chol, 0, (size_t)(d * d) * sizeof *m->chol);
  for (atvi_idx i = 0; i < d; i++) m->chol[i * d + i] = t->where.sd[i] = 1;
  m->log_det = 0;
  atvi_infer_exact_heavy(d, &t->where);
}

/* Draws of the prior, as nuts begins with by itself. */
static atvi_status prior_starts(takeover *t, double *x) {
  atvi_vi *v = t->v;
  atvi_starts *s;
  atvi_idx index[NUTS_CHAINS];
  double *theta = reals(t, v->d * NUTS_CHAINS);
  if (!theta) return ATVI_ENOMEM;
  atvi_idx want = NUTS_CHAINS * (atvi_idx)atvi_infer_chains_defaults().candidates;
  ATVI_TRY(atvi_infer_starts_new(v->ctx, v->ev, v->opts.seed, want, &s));
  atvi_infer_starts_pick(s, v->opts.seed, NUTS_CHAINS, index);
  for (atvi_idx j = 0; j < v->d; j++)
    for (int k = 0; k < NUTS_CHAINS; k++) theta[j * NUTS_CHAINS + k] = s->theta[j * s->cap + index[k]];
  atvi_infer_space_inv(v->space, NUTS_CHAINS, theta, x);
  for (atvi_idx i = 0; i < v->d * NUTS_CHAINS; i++) x[i] = fmin(fmax(x[i], -ATVI_START_FAR), ATVI_START_FAR);
  atvi_infer_starts_free(s);
  plain_frame(t);
  return ATVI_OK;
}

/* With many coordinates nuts learns their correlations from its own places: few weighted draws say less of
 * them. A bend is kept. */
static atvi_status begin_nuts(takeover *t) {
  atvi_vi *v = t->v;
  bool bent = v->wide && v->n_part == 1 && v->part[0].at.bend.n > 0 && !atvi_infer_vi_hopeless(t->w);
  if (v->wide) plain_frame(t);
  t->frame = bent ? &v->part[0].at : &t->where.spread;
  double *start = reals(t, v->d * NUTS_CHAINS);
  atvi_nuts_from from = {.opts = atvi_infer_nuts_defaults(),
                         .space = v->space,
                         .frame = t->frame,
                         .start = start,
                         .begun_s = v->progress.begun_s,
                         .before = v->progress.told,
                         .reported = v->progress.told};
  if (!start) return ATVI_ENOMEM;
  from.opts.seed = v->opts.seed;
  from.opts.chains = NUTS_CHAINS;
  from.opts.accept = NUTS_ACCEPT;
  from.opts.max_seconds = v->opts.max_seconds;
  if (!isnan(v->opts.ess)) from.opts.ess = fmin(v->opts.ess, ATVI_CHAINS_ESS_MOST);
  if (atvi_infer_vi_hopeless(t->w))
    ATVI_TRY(prior_starts(t, start));
  else
    atvi_infer_vi_starts(v, t->w, NUTS_CHAINS, start);
  return atvi_infer_nuts_begin_from(v->ctx, v->ev, v->pool, &from, &t->nuts);
}

/* Runs to the next checkpoint. Runs of warm-up are spent and say nothing of those to come. */
static void attempt(takeover *t, trial *a) {
  atvi_chains *c = a->c;
  double before = count(t);
  a->over = atvi_infer_chains_on(c, &a->end);
  a->runs += count(t) - before;
  double kept = (double)(c->done - c->plan.from) / (double)c->done, share = atvi_infer_chains_outlook(c);
  a->left = share > 0 ? kept * a->runs * fmax(1 / share - 1, 0) : HUGE_VAL;
}

static atvi_made told(const atvi_chains *c) {
  atvi_made m;
  c->ops->made(c->self, &m);
  return m;
}

static double divergences(const atvi_chains *c) { return told(c).divergences; }

/* Trajectories that diverge, or energies that hardly change, show places that nuts does not reach. */
static bool is_sound(const atvi_chains *c) { return divergences(c) == 0 && told(c).ebfmi > ATVI_VI_WORTH; }

/* Model runs of the exact sampler up to its first checkpoint, about: a jump, half of the leaps, and all
 * lines, as q is wrong, of five points each. */
static double first_runs(const atvi_chains *exact) {
  return (double)(exact->m * exact->plan.first_check) * (1 + ATVI_EXACT_LEAPS / 2 + 5 * ATVI_EXACT_LINES);
}

/* Only divergences that stay with smaller steps, which nuts takes after the first checkpoint, are those of
 * the posterior. */
static trial choose(takeover *t) {
  atvi_vi *v = t->v;
  trial nuts = {.c = t->nuts, .end = ATVI_END_LIMIT, .left = HUGE_VAL},
        exact = {.c = t->exact, .end = ATVI_END_LIMIT};
  if (nuts.c) {
    attempt(t, &nuts);
    if (nuts.left == HUGE_VAL && !nuts.over && !atvi_infer_vi_late(v)) attempt(t, &nuts);
    if (nuts.over || atvi_infer_vi_late(v) || !exact.c) return nuts;
    if (!is_sound(nuts.c)) nuts.left = HUGE_VAL;
    if (nuts.left < first_runs(exact.c)) return nuts;
  }
  attempt(t, &exact);
  return nuts.left < exact.left && !exact.over ? nuts : exact;
}

/* ---- delivery ---- */

/* States kept, chain after chain. */
static atvi_status states(takeover *t, const atvi_chains *c, atvi_vi_chain_states *s) {
  atvi_idx d = t->v->d;
  atvi_kept kept = atvi_infer_chains_kept(c);
  *s = (atvi_vi_chain_states){.m = c->live, .n = kept.n, .frame = t->frame};
  double *y = reals(t, d * s->m * s->n), *log_pi = reals(t, s->m * s->n);
  if (!y || !log_pi) return ATVI_ENOMEM;
  for (atvi_idx j = 0; j < d; j++) atvi_infer_chains_copy_row(c, kept, d + 3 + j, y + j * s->m * s->n);
  atvi_infer_chains_copy_row(c, kept, d + 2, log_pi);
  s->y = y;
  s->log_pi = log_pi;
  return ATVI_OK;
}

/* log pi - log q at the states kept, chain after chain. */
static atvi_status ratios(takeover *t, const atvi_chains *c, double *out) {
  atvi_vi *v = t->v;
  if (c == t->exact) {
    atvi_infer_chains_copy_row(c, atvi_infer_chains_kept(c), v->d + 2, out);
    return ATVI_OK;
  }
  atvi_vi_chain_states s;
  ATVI_TRY(states(t, c, &s));
  atvi_idx n = s.m * s.n;
  double *x = reals(t, v->d * n), *part_q = reals(t, n), *log_q = reals(t, n);
  if (atvi_pool_failed(v->pool)) return ATVI_ENOMEM;
  atvi_infer_member_to_frame(t->frame, v->d, n, s.y, x);
  atvi_infer_vi_log_q(v, &(atvi_cloud){.cap = n, .n = n, .x = x}, n, part_q, log_q);
  for (atvi_idx i = 0; i < n; i++) out[i] = s.log_pi[i] - log_q[i];
  return ATVI_OK;
}

/* From draws of q that were weighed. */
static atvi_status evidence_of_q(takeover *t, const atvi_chains *c, atvi_made *made) {
  atvi_idx n = atvi_infer_chains_kept(c).n;
  double *log_p = reals(t, c->live * n);
  atvi_bridge_draws b = {.m = c->live, .n = n, .log_p = log_p, .n_q = t->w->c.n, .log_q = t->w->log_w};
  double *work = atvi_pool_take(t->v->pool, atvi_math_bridge_work(&b), sizeof *work);
  if (!log_p || !work) return ATVI_ENOMEM;
  ATVI_TRY(ratios(t, c, log_p));
  atvi_bridge_info info = atvi_math_bridge(&b, work);
  made->log_evidence = info.log_evidence;
  made->log_evidence_se = info.se;
  return ATVI_OK;
}

/* Draws of q that are nowhere near may have any density, and a bridge takes weights that count one image:
 * then chains alone say what they can. So they do where they and q hardly meet, one draw decides, and its
 * error is not known either. */
static atvi_status evidence(takeover *t, const atvi_chains *c, atvi_made *made) {
  bool hopeless = atvi_infer_vi_hopeless(t->w);
  made->log_evidence = made->log_evidence_se = NAN;
  if (hopeless || t->w->images) made->elbo = NAN;
  if (!hopeless && !t->w->images) ATVI_TRY(evidence_of_q(t, c, made));
  if (c == t->nuts && !(made->log_evidence_se < ATVI_ROUGH) && !atvi_infer_vi_late(t->v)) {
    atvi_vi_chain_states s;
    ATVI_TRY(states(t, c, &s));
    ATVI_TRY(atvi_infer_vi_bridge(t->v, &s, &made->log_evidence, &made->log_evidence_se));
  }
  if (!(made->log_evidence_se < ATVI_ROUGH)) made->log_evidence = made->log_evidence_se = NAN;
  return ATVI_OK;
}

/* Chains that are where the search for what q misses has been miss nothing there. */
static atvi_status compare_with_search(takeover *t, const atvi_chains *c, const atvi_made *made) {
  atvi_vi *v = t->v;
  atvi_idx n = c->live * atvi_infer_chains_kept(c).n;
  if (!isfinite(made->log_evidence) || !isfinite(v->search.log_absent)) return ATVI_OK;
  double *log_ratio = reals(t, n);
  if (!log_ratio) return ATVI_ENOMEM;
  ATVI_TRY(ratios(t, c, log_ratio));
  atvi_infer_vi_present(v, made->log_evidence, n, log_ratio);
  return ATVI_OK;
}

/* Where the modes are is known in xi: parameters go back there, to the image inside the box. */
static atvi_status tell_modes(takeover *t, atvi_draws *d) {
  double *x = reals(t, t->v->d * d->n);
  if (!x) return ATVI_ENOMEM;
  atvi_infer_space_inv(t->v->space, d->n, d->x, x);
  return atvi_infer_vi_mode_shares(t->v, &(atvi_vi_points){d->n, d->n, x, NULL, true}, d);
}

static atvi_status say_sampler(const takeover *t, const atvi_chains *c, atvi_draws *d) {
  bool asked = t->v->opts.exact == ATVI_EXACT_ON;
  char why[128], needed[256];
  atvi_infer_vi_refusal(t->w, sizeof why, why);
  snprintf(needed, sizeof needed,
           "The approximation could not be corrected by weights (%s), so these are draws of the", why);
  if (c == t->nuts)
    return atvi_draws_say(
        d, ATVI_NOTE, ATVI_CODE_NUTS_NEEDED,
        "%s No-U-Turn sampler: %td chains that start from %s, %td iterations each, exact in the limit.",
        needed, c->m, atvi_infer_vi_hopeless(t->w) ? "draws of the prior" : "the approximation", c->done);
  return atvi_draws_say(
      d, ATVI_NOTE, asked ? ATVI_CODE_EXACT_ASKED : ATVI_CODE_EXACT_NEEDED,
      "%s exact sampler%s: %td chains that start from the approximation and use it for their moves, %td "
      "iterations each, "
      "exact in the limit. %.2g %% of the jumps by which a chain may go anywhere in the posterior at once "
      "were accepted.",
      asked ? "These are draws of the" : needed, asked ? ", as asked for" : "", c->m, c->done,
      100 * d->made->accept);
}

static atvi_status deliver(takeover *t, const atvi_chains *c, atvi_end end, atvi_draws **out) {
  ATVI_TRY(atvi_infer_chains_deliver(c, end, out));
  atvi_made *made = (*out)->made;
  atvi_infer_vi_made(t->v, t->w, made);
  if (made->end == ATVI_END_DONE) made->end = end;
  made->exact = 1;
  made->ess_wanted = c->opts.ess;
  c->ops->made(c->self, made);
  ATVI_TRY(evidence(t, c, made));
  ATVI_TRY(say_sampler(t, c, *out));
  if (isnan(made->log_evidence))
    ATVI_TRY(
        atvi_draws_say(*out, ATVI_NOTE, ATVI_CODE_EVIDENCE_UNKNOWN,
                       "The log evidence is not known: the approximation and the posterior hardly overlap."));
  ATVI_TRY(compare_with_search(t, c, made));
  ATVI_TRY(atvi_infer_vi_self_check(t->v, t->w, *out));
  ATVI_TRY(atvi_infer_vi_mirror_check(t->v, *out));
  return tell_modes(t, *out);
}

/* ---- all ---- */

bool atvi_infer_vi_hopeless(const atvi_vi_weights *w) {
  return !(w->psis.ess >= NUTS_CHAINS) && !atvi_infer_vi_surprised(w);
}

bool atvi_infer_vi_in_vain(atvi_vi *v, const atvi_cloud *test) {
  double *e = v->scratch;
  atvi_idx n = 0;
  if (v->opts.exact != ATVI_EXACT_AUTO) return false;
  for (atvi_idx j = 0; j < test->n; j++) {
    e[n] = test->log_pi[j] - test->log_q[j];
    n += isfinite(e[n]);
  }
  if ((double)n < ATVI_SMALL * (double)test->n) return true;
  atvi_math_sort(n, e, NULL, e + n);
  return v->progress.steps >= VAIN_STEPS && e[3 * n / 4] - e[n / 4] > 2 * 0.6745 * VAIN_SD;
}

/* Modes that the search found and that may hold more than a thousandth: nuts would need a start in each, and
 * as many as are due to it. */
static bool several_modes(const atvi_vi *v) {
  double best = -HUGE_VAL;
  int n = 0;
  for (atvi_idx k = 0; k < v->search.modes.n; k++) best = fmax(best, v->search.modes.mode[k].log_evidence);
  for (atvi_idx k = 0; k < v->search.modes.n; k++)
    n += v->search.modes.mode[k].log_evidence > best - ATVI_NEGLIGIBLE;
  return n > 1;
}

/* Energies that hardly change, or chains that are nowhere near each other: a neck that nuts does not pass,
 * and that a flow may follow. */
static bool is_for_a_flow(const takeover *t, const trial *a) {
  const atvi_vi *v = t->v;
  bool may = v->wide && v->d <= ATVI_VI_WIDE && !a->over && !atvi_infer_vi_late(v);
  return may && (!(told(a->c).ebfmi > ATVI_VI_WORTH) || atvi_infer_chains_outlook(a->c) < ATVI_SLIGHT);
}

static atvi_status run(takeover *t, atvi_draws **out) {
  atvi_vi *v = t->v;
  ATVI_TRY(find_spread(t));
  if (v->wide || (v->opts.exact == ATVI_EXACT_AUTO && !several_modes(v))) ATVI_TRY(begin_nuts(t));
  if (!v->wide) ATVI_TRY(atvi_infer_exact_begin(v, t->w, &t->where, &t->exact));
  trial best = choose(t);
  if (is_for_a_flow(t, &best)) return ATVI_OK;
  if (v->opts.exact == ATVI_EXACT_AUTO)
    atvi_log(v->ctx, ATVI_LOG_NOTE, "weights cannot correct the approximation; the %s takes over",
             best.c == t->nuts ? "No-U-Turn sampler" : "exact sampler");
  if (!best.over) best.end = atvi_infer_chains_loop(best.c);
  return atvi_infer_chains_kept(best.c).n >= ATVI_CONVERGE_LEAST ? deliver(t, best.c, best.end, out)
                                                                 : ATVI_OK;
}

atvi_status atvi_infer_vi_chains(atvi_vi *v, const atvi_vi_weights *w, atvi_draws **out) {
  takeover t = {.v = v, .w = w};
  *out = NULL;
  atvi_status status = run(&t, out);
  if (t.exact) t.exact->ops->end(t.exact->self);
  if (status != ATVI_OK) {
    atvi_draws_free(*out);
    *out = NULL;
  }
  return status;
}
