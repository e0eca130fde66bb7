/* SPDX-License-Identifier: MIT */
/* A chain of the No-U-Turn sampler as a machine that asks for one gradient at a time, and its adaptation.
 *
 * Step size  dual averaging, as in Stan: gamma 0.05, t0 10, kappa 0.75, begun at ten times a size found by doubling or
 *            halving until a single step is accepted with probability about 0.8; anew after every change of the metric.
 * Metric     the variances within the chains, pooled over all chains: with 16 of them a window of 50 tells as much as 800
 *            iterations of one chain, so warm-up is short. Step sizes are each chain's own.
 * Lost       a chain may be caught in a hollow that holds next to none of the posterior, and would stay there. The log
 *            mass of the region it is in is about mean log pi + sum of log sd, but for a constant that chains share.
 *            A chain whose mass is below e^-LOST of the greatest is moved to the place of another; the user is told.
 *            Modes that matter are far above that: they keep their chains, and R-hat shows them. */
#include "infer/nuts_state.h"
#include <math.h>
#include <string.h>

#define GAMMA 0.05
#define T0 10.0
#define KAPPA 0.75
#define TRY_ACCEPT 0.8
#define EPS_LEAST 1e-12
#define EPS_MOST 1e7
#define SHRINK 5.0 /* as so many draws count those of a small variance, 1e-3 of the typical one */
#define SHRINK_TO 1e-3
#define LOST 20.0         /* of this some nats are for the error of the variances */
enum { EARLY_DEPTH = 6 }; /* of trees before the first variances are known: the metric may be hopeless yet */

/* ---- step size ---- */

void atvi_nuts_dual_begin(atvi_nuts_dual *a, double eps) {
  *a = (atvi_nuts_dual){.mu = log(10 * eps), .log_eps = log(eps), .log_eps_bar = 0};
}

void atvi_nuts_dual_step(atvi_nuts_dual *a, double wanted, double accept) {
  a->count++;
  double eta = 1 / (a->count + T0), weight = pow(a->count, -KAPPA);
  a->error_bar = (1 - eta) * a->error_bar + eta * (wanted - accept);
  a->log_eps = a->mu - a->error_bar * sqrt(a->count) / GAMMA;
  a->log_eps = fmin(fmax(a->log_eps, log(EPS_LEAST)), log(EPS_MOST));
  a->log_eps_bar = (1 - weight) * a->log_eps_bar + weight * a->log_eps;
}

/* ---- one iteration after the other ---- */

void atvi_nuts_resume(atvi_nuts *r, atvi_nuts_chain *c) {
  if (c->doing != ATVI_NUTS_IDLE || c->iteration >= r->goal) return;
  atvi_nuts_tree *t = &c->tree;
  t->rng = atvi_rng_at(r->opts.seed, ATVI_STREAM_MCMC, (uint32_t)(c->iteration + 1), c->number);
  t->var = r->var;
  bool early = r->n_window > 0 && c->iteration < r->window[1];
  t->max_depth = early && EARLY_DEPTH < r->opts.max_depth ? EARLY_DEPTH : r->opts.max_depth;
  if (c->search) {
    c->way = 0;
    c->doing = ATVI_NUTS_SEARCH;
    atvi_nuts_try(t);
  } else {
    c->doing = ATVI_NUTS_BUILD;
    atvi_nuts_begin(t);
  }
}

/* The first size for which the acceptance of a step crosses TRY_ACCEPT. */
static void search_on(atvi_nuts_chain *c, double log_ratio) {
  atvi_nuts_tree *t = &c->tree;
  bool good = log_ratio > log(TRY_ACCEPT);
  if (c->way == 0) c->way = good ? 1 : -1;
  double next = c->way > 0 ? 2 * t->eps : 0.5 * t->eps;
  if (good == (c->way > 0) && next > EPS_LEAST && next < EPS_MOST) {
    t->eps = next;
    atvi_nuts_try(t);
    return;
  }
  atvi_nuts_dual_begin(&c->dual, t->eps);
  c->search = false;
  c->doing = ATVI_NUTS_BUILD;
  atvi_nuts_begin(t);
}

static void learn(atvi_nuts_chain *c) {
  const atvi_nuts_place *q = &c->tree.at;
  c->seen++;
  c->mean_log_pi += (q->log_pi - c->mean_log_pi) / c->seen;
  for (atvi_idx i = 0; i < c->tree.d; i++) {
    double off = q->x[i] - c->mean[i];
    c->mean[i] += off / c->seen;
    c->m2[i] += off * (q->x[i] - c->mean[i]);
  }
}

static void tally(atvi_nuts_chain *c, double accept) {
  const atvi_nuts_tree *t = &c->tree;
  double e = t->at.energy, off = e - c->energy_mean;
  c->count++;
  c->accept += accept;
  c->depth += t->depth;
  c->divergences += t->divergent;
  c->hits += t->depth == t->max_depth;
  if (c->count > 1) c->energy_jumps += (e - c->energy) * (e - c->energy);
  c->energy = e;
  c->energy_mean += off / c->count;
  c->energy_m2 += off * (e - c->energy_mean);
}

static void keep(atvi_nuts *r, const atvi_nuts_chain *c) {
  const atvi_nuts_place *q = &c->tree.at;
  atvi_idx n = c->iteration - r->warm, stride = r->opts.chains * r->room;
  if (n % r->thin != 0) return;
  double *to = r->store + (atvi_idx)c->number * r->room + n / r->thin - 1;
  for (atvi_idx j = 0; j < r->d; j++) to[j * stride] = q->theta[j];
  to[r->d * stride] = q->log_prior;
  to[(r->d + 1) * stride] = q->log_lik;
}

static void complete(atvi_nuts *r, atvi_nuts_chain *c) {
  atvi_nuts_tree *t = &c->tree;
  double accept = t->sum_accept / t->steps;
  c->iteration++;
  c->doing = ATVI_NUTS_IDLE;
  if (c->iteration > r->warm) {
    tally(c, accept);
    keep(r, c);
    return;
  }
  atvi_nuts_dual_step(&c->dual, r->opts.accept, accept);
  t->eps = exp(c->iteration < r->warm ? c->dual.log_eps : c->dual.log_eps_bar);
  if (c->iteration > r->window[0] && c->iteration <= r->window[r->n_window]) learn(c);
}

void atvi_nuts_answer(atvi_nuts *r, atvi_nuts_chain *c, const atvi_nuts_value *v) {
  if (c->doing == ATVI_NUTS_SEARCH) {
    search_on(c, atvi_nuts_tried(&c->tree, v));
  } else if (atvi_nuts_take(&c->tree, v)) {
    complete(r, c);
    atvi_nuts_resume(r, c);
  }
}

/* ---- windows ---- */

static double log_mass(const atvi_nuts_chain *c) {
  double sum = c->mean_log_pi;
  for (atvi_idx i = 0; i < c->tree.d; i++) sum += 0.5 * log(c->m2[i] / (c->seen - 1));
  return isnan(sum) ? -HUGE_VAL : sum;
}

static void move_chain(atvi_nuts_chain *to, const atvi_nuts_chain *from) {
  const atvi_nuts_place *a = &from->tree.at;
  atvi_nuts_place *b = &to->tree.at;
  size_t bytes = (size_t)to->tree.d * sizeof *a->x;
  memcpy(b->x, a->x, bytes);
  memcpy(b->g, a->g, bytes);
  memcpy(b->theta, a->theta, bytes);
  b->log_pi = a->log_pi;
  b->log_prior = a->log_prior;
  b->log_lik = a->log_lik;
  to->tree.eps = from->tree.eps;
}

/* mass[k] becomes -inf for chains that were moved: their variances do not count. */
static void move_lost(atvi_nuts *r) {
  atvi_idx m = r->opts.chains, best = 0;
  double *mass = r->mass, *log_pi = mass + m;
  for (atvi_idx k = 0; k < m; k++) {
    mass[k] = log_mass(atvi_nuts_chain_at(r, k));
    log_pi[k] = atvi_nuts_chain_at(r, k)->mean_log_pi;
    if (mass[k] > mass[best]) best = k;
  }
  double least = mass[best] - LOST;
  if (!isfinite(least)) return;
  for (atvi_idx k = 0; k < m; k++) {
    if (mass[k] >= least) continue;
    atvi_rng rng = atvi_rng_at(r->opts.seed, ATVI_STREAM_START, 2, (uint32_t)k);
    atvi_idx good = (atvi_idx)(atvi_rng_uniform(&rng) * (double)m);
    while (!(mass[good] >= least)) good = (good + 1) % m;
    move_chain(atvi_nuts_chain_at(r, k), atvi_nuts_chain_at(r, good));
    r->moved += !atvi_nuts_chain_at(r, k)->moved;
    atvi_nuts_chain_at(r, k)->moved = true;
    r->moved_drop = fmax(r->moved_drop, log_pi[best] - log_pi[k]);
  }
  for (atvi_idx k = 0; k < m; k++)
    if (mass[k] < least) mass[k] = -HUGE_VAL;
}

/* The variances, a little drawn to a small one: a direction in which a few chains hardly moved is not believed to be
 * that narrow. Where nothing moved at all the metric stays. */
static void set_metric(atvi_nuts *r) {
  double n = 0, log_mean = 0;
  for (atvi_idx j = 0; j < r->d; j++) r->sum[j] = 0;
  for (atvi_idx k = 0; k < r->opts.chains; k++) {
    const atvi_nuts_chain *c = atvi_nuts_chain_at(r, k);
    if (r->mass[k] == -HUGE_VAL) continue;
    n += c->seen - 1;
    for (atvi_idx j = 0; j < r->d; j++) r->sum[j] += c->m2[j];
  }
  for (atvi_idx j = 0; j < r->d; j++) {
    r->sum[j] /= n;
    if (!(r->sum[j] > 0) || !isfinite(r->sum[j])) return;
    log_mean += log(r->sum[j]) / (double)r->d;
  }
  for (atvi_idx j = 0; j < r->d; j++)
    r->var[j] = (n * r->sum[j] + SHRINK * SHRINK_TO * exp(log_mean)) / (n + SHRINK);
}

void atvi_nuts_window_end(atvi_nuts *r) {
  move_lost(r);
  set_metric(r);
  for (atvi_idx k = 0; k < r->opts.chains; k++) {
    atvi_nuts_chain *c = atvi_nuts_chain_at(r, k);
    c->search = true;
    c->seen = c->mean_log_pi = 0;
    memset(c->mean, 0, (size_t)r->d * sizeof *c->mean);
    memset(c->m2, 0, (size_t)r->d * sizeof *c->m2);
  }
}

double atvi_nuts_ebfmi(const atvi_nuts *r) {
  double least = NAN;
  for (atvi_idx k = 0; k < r->opts.chains; k++) {
    const atvi_nuts_chain *c = atvi_nuts_chain_at(r, k);
    double e = c->count > 2 ? c->energy_jumps / c->energy_m2 : NAN;
    if (isnan(least) || e < least) least = e;
  }
  return least;
}
