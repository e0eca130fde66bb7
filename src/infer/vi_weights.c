/* SPDX-License-Identifier: MIT */
/* The end of a fit: fresh draws of the mixture, weights against all of it, smoothing, delivery.
 *
 * Draws come in BLOCKS independent scramblings of Sobol points, each with the same share of every component, so that the block
 * means are independent and identically distributed: their spread gives an honest standard error of the evidence. The
 * weights of component draws are pi / q with q the whole mixture: unbiased, whatever the shares. */
#include "infer/deliver.h"
#include "infer/vi_state.h"
#include "math/rng.h"
#include "math/special.h"
#include "math/stat/psis.h"
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
  BLOCKS = 16,
  FIRST = 256,             /* draws per block to begin with */
  MOST = 8 * 1024,         /* draws per block */
  MOST_WANTED = 64 * 1024, /* where an effective size was asked for */
  HASTY = 64,              /* draws per block when the run is to end now */
  BLOCKS_LEAST = 4,        /* drawn even then */
  LEAST_SHARE = 32,        /* draws of a component per block */
};
#define WILD 4.0 /* times the mean weight */
static const double ESS_DEFAULT =
    25000; /* a minor part of the cost: training takes twice as many gradients */

typedef struct atvi_vi_lots {
  atvi_idx per_block; /* draws per block */
  int blocks;
  atvi_idx *count;       /* [n_part] draws per block of each component */
  double *work, *part_q; /* scratch, [n] */
} lots;

/* Shares of the components by the evidence that each found alone. */
static void share_out(const atvi_vi *v, atvi_vi_weights *w) {
  lots *f = w->lots;
  double all = atvi_vi_all_evidence(v);
  w->c.n = 0;
  for (atvi_idx k = 0; k < v->n_part; k++) {
    double share = v->n_part == 1  ? 1
                   : isfinite(all) ? exp(v->part[k].log_evidence - all)
                                   : 1.0 / (double)v->n_part;
    f->count[k] = (atvi_idx)ceil(share * (double)f->per_block / ATVI_GUARD) * ATVI_GUARD;
    if (f->count[k] < LEAST_SHARE) f->count[k] = LEAST_SHARE;
    v->part[k].share = (double)f->count[k];
    w->c.n += BLOCKS * f->count[k];
  }
  for (atvi_idx k = 0; k < v->n_part; k++) v->part[k].share *= (double)BLOCKS / (double)w->c.n;
}

static bool make_room(atvi_vi *v, atvi_vi_weights *w) {
  lots *f = w->lots;
  atvi_idx n = w->c.n;
  w->log_w = atvi_pool_take(v->pool, (size_t)n, sizeof(double));
  w->w = atvi_pool_take(v->pool, (size_t)n, sizeof(double));
  f->part_q = atvi_pool_take(v->pool, (size_t)n, sizeof(double));
  f->work = atvi_pool_take(v->pool, atvi_psis_work(n), sizeof(double));
  bool made = atvi_vi_cloud(v->pool, v->d, n, &w->c);
  w->c.n = n;
  return made;
}

/* Draws block after block, component after component, unless the run is to end: then n and blocks are what there is. */
static void draw(atvi_vi *v, atvi_vi_weights *w, bool all) {
  lots *f = w->lots;
  atvi_idx at = 0;
  for (f->blocks = 0; f->blocks < BLOCKS; f->blocks++) {
    v->cut = f->blocks >= BLOCKS_LEAST && atvi_vi_late(v);
    if (v->cut) break;
    for (atvi_idx k = 0; k < v->n_part; k++) {
      atvi_elbo_lot lot = {ATVI_STREAM_FINAL, v->final_scramble++, 0, f->count[k], true};
      atvi_elbo_draw(v->elbo, &v->part[k].at, &lot, &w->c, at);
      at += f->count[k];
      if (all)
        atvi_vi_tell(v, "drawing", 0.85 + 0.15 * (double)at / (double)w->c.n, "%td of %td draws", at, w->c.n);
    }
  }
  w->c.n = at;
}

void atvi_vi_log_q(atvi_vi *v, const atvi_cloud *c, atvi_idx n, double *part_q, double *log_q) {
  for (atvi_idx j = 0; j < n; j++) log_q[j] = -HUGE_VAL;
  for (atvi_idx k = 0; k < v->n_part; k++) {
    atvi_elbo_log_q(v->elbo, &v->part[k].at, true, c, n, part_q);
    atvi_log_add_all(n, log(v->part[k].share), part_q, log_q);
  }
}

/* log_q of every draw becomes that of the mixture. */
static void mix(atvi_vi *v, atvi_vi_weights *w) {
  if (v->n_part > 1) atvi_vi_log_q(v, &w->c, w->c.n, w->lots->part_q, w->c.log_q);
}

/* Standard error of the log evidence from the blocks. */
static double block_error(const atvi_vi_weights *w) {
  const lots *f = w->lots;
  atvi_idx per = w->c.n / f->blocks;
  double top = -HUGE_VAL, mean = 0, var = 0, block[BLOCKS];
  for (atvi_idx j = 0; j < w->c.n; j++) top = fmax(top, w->log_w[j]);
  if (!isfinite(top)) return NAN;
  for (int b = 0; b < f->blocks; b++) {
    block[b] = 0;
    for (atvi_idx j = b * per; j < (b + 1) * per; j++) block[b] += exp(w->log_w[j] - top) / (double)per;
    mean += block[b] / f->blocks;
  }
  for (int b = 0; b < f->blocks; b++) var += (block[b] - mean) * (block[b] - mean) / (f->blocks - 1);
  return sqrt(var / f->blocks) / mean;
}

static void tell_weights(atvi_vi *v, const atvi_vi_weights *w) {
  char detail[96];
  snprintf(detail, sizeof detail, "%td draws, k-hat %.2f", w->c.n, w->psis.khat);
  v->told = fmax(v->told, 0.85);
  atvi_tell_about(v->ctx, &(atvi_progress){.phase = "weighing",
                                           .done = v->told,
                                           .elapsed_s = atvi_clock_s() - v->begun_s,
                                           .detail = detail,
                                           .steps = v->steps,
                                           .temperature = NAN, /* the ELBO is of all components together */
                                           .elbo = NAN,
                                           .part = NAN,
                                           .khat = w->psis.khat,
                                           .rhat = NAN,
                                           .ess = NAN});
}

/* Whose draws have the weights that are wild? The others need no further training. */
static void blame(atvi_vi *v, const atvi_vi_weights *w) {
  const lots *f = w->lots;
  double mean = 0, all = 0;
  atvi_idx at = 0;
  for (atvi_idx j = 0; j < w->c.n; j++) mean += w->w[j] / (double)w->c.n;
  for (atvi_idx k = 0; k < v->n_part; k++) v->part[k].blame = 0;
  for (int b = 0; b < f->blocks; b++)
    for (atvi_idx k = 0; k < v->n_part; k++)
      for (atvi_idx end = at + f->count[k]; at < end; at++)
        if (w->w[at] > WILD * mean) v->part[k].blame += w->w[at];
  for (atvi_idx k = 0; k < v->n_part; k++) all += v->part[k].blame;
  for (atvi_idx k = 0; k < v->n_part; k++) v->part[k].blame = all > 0 ? v->part[k].blame / all : 1;
}

static void weigh(atvi_vi *v, atvi_vi_weights *w) {
  const atvi_cloud *c = &w->c;
  double sum = 0, n = 0, tried = 0;
  mix(v, w);
  for (atvi_idx j = 0; j < c->n; j++) {
    double r = c->log_pi[j] - c->log_q[j];
    w->log_w[j] = isfinite(r) ? r : -HUGE_VAL;
    double e = c->log_pi[j] - (v->n_part == 1 ? c->log_member[j] : c->log_q[j]);
    if (isnan(c->log_member[j])) continue; /* stretched */
    tried++;
    if (!isfinite(e)) continue;
    sum += e;
    n++;
  }
  w->elbo = sum / n + log(n / tried); /* that of q given success */
  w->psis = atvi_psis(c->n, w->log_w, w->w, w->lots->work);
  blame(v, w);
  /* The blocks do not see a tail that none of them reached; smoothing guesses at it. */
  w->se = fmax(block_error(w), fabs(w->psis.log_mean - w->psis.log_mean_smooth)) *
          atvi_psis_inflation(w->psis.khat);
  tell_weights(v, w);
}

/* Draws per block for the effective size wanted, from what the last draws were worth. */
static atvi_idx enough(const atvi_vi *v, const atvi_vi_weights *w) {
  double wanted = isnan(v->opts.ess) ? ESS_DEFAULT : v->opts.ess;
  double share = w->c.n > 0 ? w->psis.ess / (double)w->c.n : 0;
  share = fmax(share, 1e-3) * 0.97; /* a little less than seen */
  atvi_idx per = FIRST, most = isnan(v->opts.ess) ? MOST : MOST_WANTED;
  while (per < most && (double)(per * BLOCKS) * share < wanted) per += FIRST;
  return per;
}

bool atvi_vi_tail_fits(const atvi_vi_weights *w) { return w->psis.khat < atvi_psis_threshold(w->c.n); }

bool atvi_vi_permits(const atvi_vi_weights *w) {
  return w->c.n > 0 && atvi_psis_permits(w->c.n, w->psis.khat, w->psis.excess);
}

atvi_status atvi_vi_weigh(atvi_vi *v, atvi_vi_weights *w, bool all) {
  if (w->c.n > 0 && atvi_vi_late(v)) return ATVI_OK; /* what there is is better than what haste would add */
  atvi_vi_weights next = {.all = all};
  next.lots = atvi_pool_take(v->pool, 1, sizeof *next.lots);
  if (next.lots) next.lots->count = atvi_pool_take(v->pool, (size_t)v->n_part, sizeof *next.lots->count);
  if (atvi_pool_failed(v->pool)) return ATVI_FAIL(v->ctx, ATVI_ENOMEM, "vi: %td components", v->n_part);
  next.lots->per_block = all ? enough(v, w) : atvi_vi_late(v) ? HASTY : FIRST;
  share_out(v, &next);
  if (!make_room(v, &next)) return ATVI_FAIL(v->ctx, ATVI_ENOMEM, "vi: %td draws", next.c.n);
  draw(v, &next, all);
  if (v->cut && w->c.n > next.c.n) return ATVI_OK;
  *w = next;
  weigh(v, w);
  return ATVI_OK;
}

/* ---- delivery ---- */

static double outside_share(const atvi_vi *v, const atvi_vi_weights *w) {
  double out = 0;
  bool folds = false;
  for (atvi_idx i = 0; i < v->d; i++) folds = folds || v->space->map[i].kind == ATVI_MAP_SURJECTION;
  if (!folds) return 0;
  for (atvi_idx j = 0; j < w->c.n; j++) {
    bool outside = false;
    for (atvi_idx i = 0; i < v->d; i++) {
      const atvi_map *m = &v->space->map[i];
      if (m->kind != ATVI_MAP_SURJECTION) continue;
      double x = w->c.x[i * w->c.cap + j], theta = w->c.theta[i * w->c.cap + j], home;
      atvi_map_inv(m, 1, &theta, &home);
      outside = outside || fabs(home - x) > 1e-9 * (1 + fabs(x));
    }
    out += outside;
  }
  return out / (double)w->c.n;
}

static bool is_kept(const atvi_vi_weights *w, atvi_idx j, bool hold) {
  return isfinite(w->c.log_pi[j]) && (hold || !isnan(w->c.log_member[j]));
}

static atvi_status copy_draws(atvi_vi *v, const atvi_vi_weights *w, atvi_draws **out) {
  const atvi_target *t = v->space->target;
  /* Without weights the stretched draws have no place: they are no draws of q. */
  bool hold = atvi_vi_permits(w);
  atvi_idx n = 0, at = 0;
  for (atvi_idx j = 0; j < w->c.n; j++) n += is_kept(w, j, hold);
  if (n == 0)
    return ATVI_FAIL_AS(v->ctx, ATVI_EMODEL, ATVI_CODE_NEVER_EVALUATED,
                        "no draw of the approximation can be evaluated");
  ATVI_TRY(atvi_deliver_new(v->ctx, t, n, 1, true, out));
  atvi_draws *d = *out;
  d->chains = false;
  for (atvi_idx j = 0; j < w->c.n; j++) {
    if (!is_kept(w, j, hold)) continue;
    for (atvi_idx i = 0; i < v->d; i++) d->x[i * n + at] = w->c.theta[i * w->c.cap + j];
    d->log_prior[at] = w->c.log_prior[j];
    d->log_lik[at] = w->c.log_lik[j];
    d->weight[at++] = fmax(w->w[j], DBL_MIN); /* one that underflows is still a draw */
  }
  double all = 0;
  for (atvi_idx k = 0; k < n; k++) all += d->weight[k];
  for (atvi_idx k = 0; k < n; k++) d->weight[k] /= all;
  atvi_deliver_derived(v->ev, d);
  return ATVI_OK;
}

void atvi_vi_made(const atvi_vi *v, const atvi_vi_weights *w, atvi_made *made) {
  bool whole = v->converged && !v->cut;
  made->method = v->opts.method;
  made->model = v->space->target->name;
  made->seed = v->opts.seed;
  made->seconds = atvi_clock_s() - v->begun_s;
  made->evaluations = atvi_evaluator_count(v->ev);
  made->failures = atvi_evaluator_failures(v->ev);
  made->end = whole ? ATVI_END_DONE : atvi_stop_asked(v->ctx) ? ATVI_END_STOPPED : ATVI_END_LIMIT;
  made->log_evidence = w->psis.log_mean;
  made->log_evidence_se = w->se;
  made->elbo = w->elbo;
  made->khat = w->psis.khat;
  made->ess_wanted = isnan(v->opts.ess) ? NAN : v->opts.ess;
  made->efficiency = w->psis.ess / (double)w->c.n;
  made->outside = outside_share(v, w);
  made->rungs = v->rungs;
  made->steps = v->steps;
  made->tuned = v->tuned;
  made->excess = w->psis.excess;
  made->lost = 0;
  for (atvi_idx j = 0; j < w->c.n; j++) made->lost += isnan(w->c.log_lik[j]) / (double)w->c.n;
}

static atvi_status deliver(atvi_vi *v, const atvi_vi_weights *w, atvi_draws **out) {
  ATVI_TRY(copy_draws(v, w, out));
  atvi_vi_made(v, w, &(*out)->made);
  atvi_vi_points p = {w->c.n, w->c.cap, w->c.x, w->w, atvi_vi_permits(w)};
  return atvi_vi_mode_shares(v, &p, *out);
}

/* ---- for the exact sampler ---- */

/* Systematic: the number of times that a draw is taken differs from its expectation by less than one. */
void atvi_vi_starts(const atvi_vi *v, const atvi_vi_weights *w, atvi_idx n, double *x) {
  atvi_rng r = atvi_rng_at(v->opts.seed, ATVI_STREAM_EXACT, 0, 0);
  double most = 1 / sqrt((double)w->c.n), all = 0, sum = 0, u = atvi_rng_uniform(&r);
  for (atvi_idx j = 0; j < w->c.n; j++) all += fmin(w->w[j], most);
  atvi_idx j = -1;
  for (atvi_idx k = 0; k < n; k++) {
    while (j < w->c.n - 1 && (j < 0 || sum < (u + (double)k) / (double)n * all)) sum += fmin(w->w[++j], most);
    for (atvi_idx i = 0; i < v->d; i++) x[i * n + k] = w->c.x[i * w->c.cap + j];
  }
}

atvi_status atvi_vi_deliver(atvi_vi *v, const atvi_vi_weights *w, atvi_draws **out) {
  atvi_status status = deliver(v, w, out);
  if (status != ATVI_OK) {
    atvi_draws_free(*out);
    *out = NULL;
  }
  return status;
}
