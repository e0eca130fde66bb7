/* SPDX-License-Identifier: MIT */
/* The No-U-Turn sampler on the driver of chains.h: chains, their adaptation, groups.
 *
 * Lockstep   a model costs the same for one point as for ATVI_LANES of them. So chains run in groups of that
 *            many: each is a machine that asks for one gradient at a time, and what the chains of a group ask
 *            for is evaluated in one batch. Chains do not wait for each other after an iteration, however
 *            long their trees are, but only at the end of a window of warm-up and at checkpoints.
 * Warm-up    a window's length for the step size alone; windows of WINDOW iterations, twice as many and so
 *            on, at the end of each of which the metric is learnt from what was seen in it; LAST iterations for
 *            the step size again. A tenth of what Stan takes by default, as all chains together learn the
 *            metric, and from gradients too.
 * Step size  dual averaging (nuts_tree.c), begun at ten times a size found by doubling or
 *            halving until a single step is accepted with the probability wanted; anew after every change of
 *            the metric. In a fit it then becomes one of which a complete tree is half a turn (whole_trees).
 * Metric     nuts_metric.h, from places and gradients less their means within chains, pooled over all chains. Trees are in coordinates in
 *            which it is the unit matrix. Step sizes are each chain's own until warm-up ends, then one for all.
 * Lost       chains are looked for at the end of the last window. The log mass of the region a chain is in is
 *            about mean log pi + sum of log sd.
 * Fine       where chains of a fit diverge, every fourth iteration from then on has steps a fourth as long. Steps that do not depend on
 *            the state leave the posterior as it is, whatever their length: what the long ones run past, the short ones enter, and only
 *            if those diverge too is there a place that no chain reaches. Half of what is kept must have been made with them.
 * Kept       what came after warm-up. In long runs the first third is left out: chains that need long also
 *            need long to forget their starts. */
#include "infer/chains.h"
#include "infer/nuts_metric.h"
#include "infer/nuts_tree.h"
#include "infer/space.h"
#include "infer/vi_tuning.h"
#include "math/special.h"
#include "math/stat/stat.h"
#include <math.h>
#include <string.h>

/* Acceptance below which longer steps save no more gradients in a normal posterior of many dimensions
 * (Beskos and others 2013). */
#define ACCEPT_LEAST 0.65

enum {
  WINDOW = 10,                            /* iterations of the first window */
  WINDOWS = 7,                            /* that one chain has; many together have fewer */
  WINDOW_DRAWS = WINDOW << (WINDOWS - 1), /* draws of all chains together in the last one: Stan's has 500 */
  LAST = 4 * WINDOW,                      /* iterations; Stan's are 50 */
  EARLY_DEPTH = 6, /* of trees before the first metric is known: it may be hopeless yet */
  FINE = 4,        /* iterations of which one has steps as much shorter, after a divergence; a power of 2 */
};

typedef struct {
  atvi_nuts_tree tree;
  uint32_t number;
  /* complete ones */
  atvi_idx iteration;
  enum { IDLE, SEARCH, BUILD } doing;
  /* a step size is to be searched before the next iteration */
  bool search;
  /* of the search: doubling 1, halving -1, not known yet 0 */
  int way;
  atvi_nuts_dual dual;
  /* since the window began: iterations, mean of log pi */
  atvi_idx seen;
  double mean_log_pi;
  /* [2 d] scratch: a place and a gradient outside the metric */
  double *out;
  /* sums over the iterations since warm-up ended */
  double count, accept, depth, divergences, hits;
  double energy, energy_mean, energy_m2, energy_jumps;
} nuts_chain;

typedef struct {
  /* chains in use, <= ATVI_LANES */
  int n;
  /* [ATVI_LANES] */
  nuts_chain *chain;
  /* [d][n] of the points asked for: in the coordinates of the metric, of the frame, xi, parameters, gradient */
  double *z, *y, *x, *theta, *dx;
  /* [ATVI_LANES] */
  double *log_pi, *log_prior, *log_lik;
} nuts_group;

typedef struct {
  atvi_chains c;
  const atvi_space *space;
  /* the same where nobody lent it */
  atvi_space *own;
  /* the metric is in its coordinates; NULL: in xi */
  const atvi_member *frame;
  /* [groups] */
  nuts_group *group;
  /* shared by all chains; trees are in its coordinates, in which it is [d] ones */
  atvi_nuts_metric metric;
  double *unit;
  /* [chains][d][longest] places and gradients of the window, in the coordinates of the frame; [d][chains
   * longest] of all chains, less means */
  double *place, *slope, *places, *slopes;
  atvi_idx longest;
  int n_window;
  /* variances are learnt from window[k] + 1 .. window[k + 1] */
  atvi_idx window[WINDOWS + 1];
  /* windows that were begun */
  int at_window;
  /* iterations of warm-up */
  atvi_idx warm;
  /* divergences are a reason for fine steps; the iteration since which there are some, 0: none */
  bool may_refine;
  atvi_idx refined;
} nuts;

static nuts_chain *chain_at(const nuts *r, atvi_idx k) {
  return &r->group[k / ATVI_LANES].chain[k % ATVI_LANES];
}

atvi_chains_opts atvi_infer_nuts_defaults(void) {
  atvi_chains_opts o = atvi_infer_chains_defaults();
  o.max_iter = 20000;
  return o;
}

/* ---- one iteration after the other ---- */

/* Whether the iteration that the chain is in has short steps. */
static bool is_fine(const nuts *r, const nuts_chain *c) { return r->refined > 0 && c->iteration % FINE == 0; }

static void resume(nuts *r, nuts_chain *c) {
  if (c->doing != IDLE || c->iteration >= r->c.block.goal) return;
  atvi_nuts_tree *t = &c->tree;
  t->rng = atvi_math_rng_at(r->c.opts.seed, ATVI_STREAM_MCMC, (uint32_t)(c->iteration + 1), c->number);
  t->var = r->unit;
  bool early = r->n_window > 0 && c->iteration < r->window[1];
  t->max_depth = early && EARLY_DEPTH < r->c.opts.max_depth ? EARLY_DEPTH : r->c.opts.max_depth;
  if (c->search) {
    c->way = 0;
    c->doing = SEARCH;
    atvi_infer_nuts_try(t);
  } else {
    c->doing = BUILD;
    if (is_fine(r, c)) t->eps /= FINE;
    atvi_infer_nuts_begin(t);
  }
}

/* The first size for which the acceptance of a step crosses what is wanted. */
static void search_on(nuts_chain *c, double wanted, double log_ratio) {
  atvi_nuts_tree *t = &c->tree;
  bool good = log_ratio > log(wanted);
  if (c->way == 0) c->way = good ? 1 : -1;
  double next = c->way > 0 ? 2 * t->eps : 0.5 * t->eps;
  if (good == (c->way > 0) && fabs(log(next)) < ATVI_FOLDS) {
    t->eps = next;
    atvi_infer_nuts_try(t);
    return;
  }
  atvi_infer_nuts_dual_begin(&c->dual, t->eps);
  c->search = false;
  c->doing = BUILD;
  atvi_infer_nuts_begin(t);
}

/* Where the chain is, for the metric and for the search for lost chains. */
static void learn(nuts *r, nuts_chain *c) {
  const atvi_nuts_place *q = &c->tree.at;
  atvi_idx d = r->c.d, n = r->longest, at = c->seen++;
  double *x = c->out, *g = x + d;
  c->mean_log_pi += (q->log_pi - c->mean_log_pi) / (double)c->seen;
  memcpy(g, q->g, (size_t)d * sizeof *g);
  atvi_infer_nuts_metric_out(&r->metric, 1, q->x, x);
  atvi_infer_nuts_metric_adjoint_back(&r->metric, 1, g);
  for (atvi_idx i = 0; i < d; i++) {
    r->place[((atvi_idx)c->number * d + i) * n + at] = x[i];
    r->slope[((atvi_idx)c->number * d + i) * n + at] = g[i];
  }
}

static void tally(nuts_chain *c, bool counts, double accept) {
  const atvi_nuts_tree *t = &c->tree;
  double e = t->at.energy, off = e - c->energy_mean;
  c->count++;
  c->accept += accept;
  c->depth += t->depth;
  c->divergences += t->divergent && counts;
  c->hits += t->depth == t->max_depth;
  if (c->count > 1) c->energy_jumps += (e - c->energy) * (e - c->energy);
  c->energy = e;
  c->energy_mean += off / c->count;
  c->energy_m2 += off * (e - c->energy_mean);
}

static void complete(nuts *r, nuts_chain *c) {
  atvi_nuts_tree *t = &c->tree;
  double accept = t->sum_accept / t->steps;
  bool fine = is_fine(r, c);
  if (fine) t->eps *= FINE;
  c->iteration++;
  c->doing = IDLE;
  if (c->iteration > r->warm) {
    tally(c, fine || r->refined == 0, accept);
    const atvi_nuts_place *q = &t->at;
    double *own =
        atvi_infer_chains_keep(&r->c, c->number, c->iteration, q->theta, 1, q->log_prior, q->log_lik);
    if (!own || !r->frame) return;
    double *x = c->out;
    atvi_infer_nuts_metric_out(&r->metric, 1, q->x, x);
    for (atvi_idx j = -1; j < r->c.d; j++, own += r->c.m * r->c.store.room) *own = j < 0 ? q->log_pi : x[j];
    return;
  }
  atvi_infer_nuts_dual_step(&c->dual, r->c.opts.accept, accept);
  t->eps = exp(c->iteration < r->warm ? c->dual.log_eps : c->dual.log_eps_bar);
  if (c->iteration > r->window[0] && c->iteration <= r->window[r->n_window]) learn(r, c);
}

static void answer(nuts *r, nuts_chain *c, const atvi_nuts_value *v) {
  if (c->doing == SEARCH) {
    search_on(c, r->c.opts.accept, atvi_infer_nuts_tried(&c->tree, v));
  } else if (atvi_infer_nuts_take(&c->tree, v)) {
    complete(r, c);
    resume(r, c);
  }
}

/* ---- adaptation from all chains ---- */

static double mass(void *self, atvi_idx k, double *log_pi) {
  const nuts *r = self;
  const nuts_chain *c = chain_at(r, k);
  double sum = *log_pi = c->mean_log_pi;
  for (atvi_idx i = 0; i < r->c.d; i++)
    sum += log(atvi_math_sd(c->seen, r->place + (k * r->c.d + i) * r->longest, NULL));
  return sum;
}

static void copy(void *self, atvi_idx to, atvi_idx from) {
  atvi_nuts_tree *a = &chain_at(self, to)->tree;
  const atvi_nuts_tree *b = &chain_at(self, from)->tree;
  atvi_infer_nuts_place_copy(a->d, &a->at, &b->at);
  a->eps = b->eps;
}

/* To row[n], less their mean. */
static void copy_centred(atvi_idx n, const double *from, double *row) {
  double mean = atvi_math_mean(n, from, NULL);
  for (atvi_idx b = 0; b < n; b++) row[b] = from[b] - mean;
}

/* From all places of the window, less the means of their chains; chains go on where they are. */
static void set_metric(nuts *r) {
  atvi_idx d = r->c.d, n = 0, at = 0;
  for (atvi_idx k = 0; k < r->c.m; k++) n += r->c.lost.mass[k] == -HUGE_VAL ? 0 : chain_at(r, k)->seen;
  for (atvi_idx k = 0; k < r->c.m; k++) {
    const nuts_chain *c = chain_at(r, k);
    if (r->c.lost.mass[k] == -HUGE_VAL) continue;
    for (atvi_idx i = 0; i < d; i++) {
      copy_centred(c->seen, r->place + (k * d + i) * r->longest, r->places + i * n + at);
      copy_centred(c->seen, r->slope + (k * d + i) * r->longest, r->slopes + i * n + at);
    }
    at += c->seen;
  }
  for (atvi_idx k = 0; k < r->c.m; k++) {
    atvi_nuts_place *q = &chain_at(r, k)->tree.at;
    atvi_infer_nuts_metric_out(&r->metric, 1, q->x, q->x);
    atvi_infer_nuts_metric_adjoint_back(&r->metric, 1, q->g);
  }
  if (n > 0) atvi_infer_nuts_metric_learn(&r->metric, n, r->places, r->slopes);
  for (atvi_idx k = 0; k < r->c.m; k++) {
    atvi_nuts_place *q = &chain_at(r, k)->tree.at;
    atvi_infer_nuts_metric_in(&r->metric, 1, q->x, q->x);
    atvi_infer_nuts_metric_adjoint(&r->metric, 1, q->g);
  }
}

static void end_window(nuts *r) {
  /* before the metric is known, chains have moved as far as their steps let them */
  if (r->at_window == r->n_window) atvi_infer_chains_move_lost(&r->c);
  set_metric(r);
  for (atvi_idx k = 0; k < r->c.m; k++) {
    nuts_chain *c = chain_at(r, k);
    c->search = true;
    c->seen = 0;
    c->mean_log_pi = 0;
  }
}

/* The step that is accepted with this probability in a standard normal: the energy along a trajectory errs by
 * a standard deviation of sqrt(d / 32) eps^2, and that of acceptance 2 Phi(-sd / 2) (Neal 2011). */
static double normal_step(atvi_idx d, double accept) {
  return sqrt(-2 * atvi_math_ndtri(0.5 * accept) / sqrt((double)d / 32));
}

/* Trees double until they span half a turn, which takes a time of pi where the metric makes the posterior a
 * standard normal: steps that are a little too short for 7 of them to span it take 15. Returns the step of
 * which 2^k - 1 span it, for the least k that leaves acceptance, of a normal posterior 2 Phi(-c eps^2), at
 * ACCEPT_LEAST. Trees of another depth, or steps that are much shorter than those of a normal, say that the
 * posterior is not like that; then it returns eps. */
static double whole_trees(const nuts *r, double eps) {
  double wanted = fmax(r->c.opts.accept, ACCEPT_LEAST), depth = 0,
         longer = sqrt(atvi_math_ndtri(0.5 * ACCEPT_LEAST) / atvi_math_ndtri(0.5 * wanted));
  if (eps < ATVI_HALF * normal_step(r->c.d, wanted)) return eps;
  int k = 2; /* a single step of half a turn would be unstable */
  while (k < r->c.opts.max_depth && (exp2(k) - 1) * longer * eps < acos(-1)) k++;
  for (atvi_idx i = 0; i < r->c.m; i++) depth += chain_at(r, i)->tree.depth / (double)r->c.m;
  /* now they are of depth k or k + 1 */
  return fabs(depth - k - 0.5) < 1 ? acos(-1) / (exp2(k) - 1) : eps;
}

/* One step size for all, the geometric mean of theirs: chains that were not where the posterior is narrow
 * while theirs was learnt would be stuck there for long, and not diverge. What longer steps run past is for
 * fine ones. */
static void share_steps(nuts *r) {
  double sum = 0;
  for (atvi_idx k = 0; k < r->c.m; k++) sum += chain_at(r, k)->dual.log_eps_bar / (double)r->c.m;
  double eps = r->may_refine ? whole_trees(r, exp(sum)) : exp(sum);
  for (atvi_idx k = 0; k < r->c.m; k++) chain_at(r, k)->tree.eps = eps;
}

/* The iterations at which windows end, and warm-up. */
static atvi_idx warm_up(void *self) {
  nuts *r = self;
  if (r->at_window > 0 && r->at_window <= r->n_window) end_window(r);
  if (r->at_window > r->n_window) share_steps(r);
  r->at_window++;
  return r->at_window <= r->n_window       ? r->window[r->at_window]
         : r->at_window == r->n_window + 1 ? r->warm
                                           : 0;
}

static double divergences(const nuts *r) {
  double n = 0;
  for (atvi_idx k = 0; k < r->c.m; k++) n += chain_at(r, k)->divergences;
  return n;
}

/* How much of what is kept was made with short steps too, where they are needed. */
static double further(void *self) {
  const nuts *r = self;
  if (!r->may_refine || (r->refined == 0 && divergences(r) == 0)) return HUGE_VAL;
  double kept = (double)(atvi_infer_chains_kept(&r->c).n * r->c.store.thin);
  return r->refined > 0 ? 2 * (double)(r->c.done - r->refined) / kept : 0;
}

/* From here on the divergences of the short steps are those that count. */
static void not_passed(void *self, bool judged) {
  nuts *r = self;
  (void)judged;
  if (!r->may_refine || r->refined > 0 || divergences(r) == 0) return;
  r->refined = r->c.done;
  for (atvi_idx k = 0; k < r->c.m; k++) chain_at(r, k)->divergences = 0;
}

/* ---- running ---- */

/* Hands chain c the i-th of the n points evaluated; n = 0: its point could not be. */
static void hand(nuts *r, nuts_group *g, nuts_chain *c, int i, int n) {
  atvi_nuts_value v = {.log_pi = -HUGE_VAL};
  if (n > 0) v = (atvi_nuts_value){g->log_pi[i], g->log_prior[i], g->log_lik[i], g->dx + i, g->theta + i, n};
  answer(r, c, &v);
}

static bool finite(atvi_idx d, const double *x) {
  for (atvi_idx j = 0; j < d; j++)
    if (!isfinite(x[j])) return false;
  return true;
}

/* One gradient for every chain of the group that is not idle; false: all are. */
static bool round_of(nuts *r, nuts_group *g, int worker) {
  int lane[ATVI_LANES], n = 0;
  bool any = false;
  for (int i = 0; i < g->n; i++) {
    nuts_chain *c = &g->chain[i];
    if (c->doing == IDLE) continue;
    any = true;
    if (finite(r->c.d, c->tree.move.x))
      lane[n++] = i;
    else
      hand(r, g, c, 0, 0);
  }
  for (atvi_idx j = 0; j < r->c.d; j++)
    for (int i = 0; i < n; i++) g->z[j * n + i] = g->chain[lane[i]].tree.move.x[j];
  if (n == 0) return any;
  atvi_infer_nuts_metric_out(&r->metric, n, g->z, g->y);
  if (r->frame) atvi_infer_member_to_frame(r->frame, r->c.d, n, g->y, g->x);
  atvi_infer_space_eval_on(r->space, worker,
                           &(atvi_space_batch){.B = n,
                                               .x = r->frame ? g->x : g->y,
                                               .beta = 1,
                                               .theta = g->theta,
                                               .log_lik = g->log_lik,
                                               .log_prior = g->log_prior,
                                               .log_pi = g->log_pi,
                                               .dx = g->dx});
  if (r->frame) atvi_infer_member_adjoint(r->frame, r->c.d, n, g->y, g->dx);
  atvi_infer_nuts_metric_adjoint(&r->metric, n, g->dx);
  for (int i = 0; i < n; i++) hand(r, g, &g->chain[lane[i]], i, n);
  return true;
}

static atvi_idx run(void *self, atvi_idx item, int worker) {
  nuts *r = self;
  nuts_group *g = &r->group[item];
  atvi_idx least = r->c.block.goal;
  for (int i = 0; i < g->n; i++) resume(r, &g->chain[i]);
  for (atvi_idx k = 0; k < r->c.block.evals && round_of(r, g, worker); k++) {}
  for (int i = 0; i < g->n; i++)
    if (g->chain[i].iteration < least) least = g->chain[i].iteration;
  return least;
}

/* ---- beginning and end ---- */

/* Where windows end. Short runs get half of their iterations as warm-up, in the proportions that Stan has. */
static void plan_windows(nuts *r) {
  atvi_idx at = WINDOW, half = r->c.opts.max_iter / 2, m = r->c.opts.chains;
  r->window[0] = at;
  for (atvi_idx n = WINDOW; r->n_window < WINDOWS; n *= 2) {
    r->window[++r->n_window] = at += n;
    if (n > WINDOW && n * m >= WINDOW_DRAWS) break;
  }
  r->warm = at + LAST;
  if (r->warm <= half) return;
  r->warm = half;
  r->n_window = 1;
  r->window[0] = half * 15 / 100;
  r->window[1] = half - half / 10;
}

static void make_group(atvi_pool *pool, atvi_idx d, int max_depth, nuts_group *g) {
  double **wide[] = {&g->z, &g->y, &g->x, &g->theta, &g->dx},
         **row[] = {&g->log_pi, &g->log_prior, &g->log_lik};
  for (size_t k = 0; k < sizeof wide / sizeof *wide; k++)
    *wide[k] = atvi_pool_take(pool, (size_t)(d * ATVI_LANES), sizeof(double));
  for (size_t k = 0; k < sizeof row / sizeof *row; k++)
    *row[k] = atvi_pool_take(pool, ATVI_LANES, sizeof(double));
  g->chain = atvi_pool_take(pool, ATVI_LANES, sizeof *g->chain);
  for (int i = 0; i < ATVI_LANES && g->chain; i++) {
    nuts_chain *c = &g->chain[i];
    atvi_arena a = {0};
    atvi_infer_nuts_tree_carve(&a, &c->tree, d, max_depth);
    a = (atvi_arena){.base = atvi_pool_take(pool, a.used, 1)};
    if (a.base) atvi_infer_nuts_tree_carve(&a, &c->tree, d, max_depth);
    c->out = atvi_pool_take(pool, (size_t)(2 * d), sizeof *c->out);
    c->search = true;
    c->tree.eps = 1;
  }
}

static atvi_status make(nuts *r) {
  atvi_chains *c = &r->c;
  atvi_idx d = atvi_model_evaluator_target(c->ev)->d;
  c->plan.groups = (c->opts.chains + ATVI_LANES - 1) / ATVI_LANES;
  r->group = atvi_pool_take(c->pool, (size_t)c->plan.groups, sizeof *r->group);
  plan_windows(r);
  for (int k = 0; k < r->n_window; k++)
    if (r->window[k + 1] - r->window[k] > r->longest) r->longest = r->window[k + 1] - r->window[k];
  size_t n = (size_t)c->opts.chains * (size_t)d * (size_t)r->longest;
  double **all[] = {&r->place, &r->slope, &r->places, &r->slopes};
  for (int k = 0; k < 4; k++) *all[k] = atvi_pool_take(c->pool, n, sizeof(double));
  r->unit = atvi_pool_take(c->pool, (size_t)d, sizeof *r->unit);
  if (!atvi_infer_nuts_metric_new(c->pool, d, c->opts.chains * r->longest, &r->metric)) return ATVI_ENOMEM;
  for (atvi_idx i = 0; i < c->plan.groups && r->group; i++) {
    atvi_idx left = c->opts.chains - i * ATVI_LANES;
    make_group(c->pool, d, c->opts.max_depth, &r->group[i]);
    r->group[i].n = left < ATVI_LANES ? (int)left : ATVI_LANES;
  }
  if (atvi_pool_failed(c->pool)) return ATVI_ENOMEM;
  for (atvi_idx j = 0; j < d; j++) r->unit[j] = 1;
  for (atvi_idx k = 0; k < c->opts.chains; k++) chain_at(r, k)->number = (uint32_t)k;
  return ATVI_OK;
}

/* Points at which the chains begin, x[d][chains] xi, and what is there. */
typedef struct {
  double *x, *theta, *dx, *log_pi, *log_prior, *log_lik;
} places;

static bool make_places(const nuts *r, places *p) {
  size_t m = (size_t)r->c.opts.chains, d = (size_t)r->space->d;
  double **wide[] = {&p->x, &p->theta, &p->dx}, **row[] = {&p->log_pi, &p->log_prior, &p->log_lik};
  for (size_t k = 0; k < 3; k++) {
    *wide[k] = atvi_pool_take(r->c.pool, d * m, sizeof(double));
    *row[k] = atvi_pool_take(r->c.pool, m, sizeof(double));
  }
  return !atvi_pool_failed(r->c.pool);
}

/* Evaluates the points and puts the chains there; a point without a gradient is replaced by another. False:
 * none has one. */
static bool place(nuts *r, places *p) {
  atvi_idx m = r->c.opts.chains, d = r->space->d, good = -1;
  atvi_infer_space_eval(r->space, &(atvi_space_batch){.B = m,
                                                      .x = p->x,
                                                      .beta = 1,
                                                      .theta = p->theta,
                                                      .log_lik = p->log_lik,
                                                      .log_prior = p->log_prior,
                                                      .log_pi = p->log_pi,
                                                      .dx = p->dx});
  if (r->frame) atvi_infer_member_to_family(r->frame, d, m, p->x, p->x);
  if (r->frame) atvi_infer_member_adjoint(r->frame, d, m, p->x, p->dx);
  for (atvi_idx k = 0; k < m && good < 0; k++)
    if (isfinite(p->log_pi[k])) good = k;
  if (good < 0) return false;
  for (atvi_idx k = 0; k < m; k++) {
    atvi_idx from = isfinite(p->log_pi[k]) ? k : good;
    atvi_nuts_place *q = &chain_at(r, k)->tree.at;
    for (atvi_idx j = 0; j < d; j++) {
      q->x[j] = p->x[j * m + from];
      q->g[j] = p->dx[j * m + from];
      q->theta[j] = p->theta[j * m + from];
    }
    q->log_pi = p->log_pi[from];
    q->log_prior = p->log_prior[from];
    q->log_lik = p->log_lik[from];
  }
  return true;
}

static void make_plan(nuts *r) {
  atvi_chains *c = &r->c;
  c->plan.rows = r->space->d + 2;
  if (r->frame) c->plan.rows += 1 + r->space->d;
  c->plan.states_per_ess = 4;
  c->plan.from = c->plan.discard = r->warm;
  c->plan.part = 3;
  c->plan.first_check = (atvi_idx)ceil(c->opts.ess / c->opts.chains);
  if (c->plan.first_check < ATVI_CHAINS_JUDGED) c->plan.first_check = ATVI_CHAINS_JUDGED;
  c->plan.first_check += r->warm;
}

/* Draws of the prior, and xi held within ATVI_START_FAR. */
static atvi_status begin(void *self, const atvi_starts *s, atvi_idx *index) {
  nuts *r = self;
  atvi_chains *c = &r->c;
  atvi_space *space;
  atvi_idx m = c->opts.chains;
  places p;
  ATVI_TRY(atvi_infer_space_new(c->ctx, c->ev, "auto", c->opts.seed, &space));
  r->space = r->own = space;
  ATVI_TRY(make(r));
  if (!make_places(r, &p)) return ATVI_ENOMEM;
  atvi_infer_starts_pick(s, c->opts.seed, m, index);
  for (atvi_idx j = 0; j < s->d; j++)
    for (atvi_idx k = 0; k < m; k++) p.theta[j * m + k] = s->theta[j * s->cap + index[k]];
  atvi_infer_space_inv(space, m, p.theta, p.x);
  for (atvi_idx i = 0; i < s->d * m; i++)
    if (s->from_prior || !isfinite(p.x[i])) p.x[i] = fmin(fmax(p.x[i], -ATVI_START_FAR), ATVI_START_FAR);
  if (!place(r, &p))
    return ATVI_FAIL_AS(c->ctx, ATVI_EMODEL, ATVI_CODE_NO_GRADIENT,
                        "%s: the gradient is not finite at any of %d starting points",
                        space->target->name ? space->target->name : "model", c->opts.chains);
  make_plan(r);
  return ATVI_OK;
}

static void state(void *self, atvi_state *s) {
  nuts *r = self;
  size_t bytes = (size_t)r->c.d * sizeof(double);
  ATVI_STATE(s, r->at_window);
  ATVI_STATE(s, r->refined);
  ATVI_STATE(s, r->metric.rank);
  atvi_io_state(s, r->metric.scale, bytes);
  atvi_io_state(s, r->metric.dir, (size_t)r->metric.rank * bytes);
  atvi_io_state(s, r->metric.stretch, (size_t)r->metric.rank * sizeof(double));
  for (atvi_idx k = 0; k < r->c.m; k++) {
    nuts_chain *c = chain_at(r, k);
    double *number[] = {&c->mean_log_pi, &c->count,  &c->accept,    &c->depth,        &c->divergences,
                        &c->hits,        &c->energy, &c->energy_m2, &c->energy_jumps, &c->energy_mean};
    for (size_t i = 0; i < sizeof number / sizeof *number; i++) ATVI_STATE(s, *number[i]);
    ATVI_STATE(s, c->iteration);
    ATVI_STATE(s, c->doing);
    ATVI_STATE(s, c->search);
    ATVI_STATE(s, c->way);
    ATVI_STATE(s, c->dual);
    ATVI_STATE(s, c->seen);
    for (atvi_idx i = 0; i < 2 * r->c.d; i++) {
      double *of = i < r->c.d ? r->place : r->slope;
      atvi_io_state(s, of + (k * r->c.d + i % r->c.d) * r->longest, (size_t)c->seen * sizeof *of);
    }
    atvi_infer_nuts_tree_state(&c->tree, s);
    c->tree.var = r->unit;
  }
}

/* The smallest energy fraction of missing information (Betancourt 2016) of the chains; NaN: too few
 * iterations. */
static double ebfmi(const nuts *r) {
  double least = NAN;
  for (atvi_idx k = 0; k < r->c.m; k++) {
    const nuts_chain *c = chain_at(r, k);
    double e = c->count > 2 ? c->energy_jumps / c->energy_m2 : NAN;
    if (isnan(least) || e < least) least = e;
  }
  return least;
}

static void made(const void *self, atvi_made *about) {
  const nuts *r = self;
  double n = 0, accept = 0, depth = 0;
  about->divergences = divergences(r);
  about->max_depth_hits = 0;
  for (atvi_idx k = 0; k < r->c.m; k++) {
    const nuts_chain *c = chain_at(r, k);
    n += c->count;
    accept += c->accept;
    depth += c->depth;
    about->max_depth_hits += c->hits;
  }
  about->accept = accept / n;
  about->tree_depth = depth / n;
  about->ebfmi = ebfmi(r);
}

static void end(void *self) { atvi_infer_space_free(((nuts *)self)->own); }

static const atvi_chains_ops OPS = {.name = "nuts",
                                    .begin = begin,
                                    .run = run,
                                    .warm_up = warm_up,
                                    .not_passed = not_passed,
                                    .further = further,
                                    .mass = mass,
                                    .copy = copy,
                                    .made = made,
                                    .state = state,
                                    .end = end};

atvi_status atvi_infer_nuts_run(atvi_ctx *ctx, atvi_evaluator *ev, const atvi_chains_opts *opts,
                                atvi_draws **out) {
  const atvi_chains_opts standard = atvi_infer_nuts_defaults();
  nuts r = {.c = {.ctx = ctx, .ev = ev, .ops = &OPS, .self = &r}};
  return atvi_infer_chains_sample(&r.c, opts ? opts : &standard, out);
}

static atvi_status begin_from(nuts *r, const atvi_nuts_from *from) {
  size_t bytes = (size_t)(r->space->d * r->c.opts.chains) * sizeof(double);
  places p;
  ATVI_TRY(make(r));
  if (!make_places(r, &p)) return ATVI_ENOMEM;
  memcpy(p.x, from->start, bytes);
  if (!place(r, &p)) return ATVI_EMODEL;
  make_plan(r);
  r->c.plan.phase = "nuts";
  r->c.plan.leaves_out = true;
  r->c.plan.before = from->before;
  return atvi_infer_chains_open(&r->c);
}

atvi_status atvi_infer_nuts_begin_from(atvi_ctx *ctx, atvi_evaluator *ev, atvi_pool *pool,
                                       const atvi_nuts_from *from, atvi_chains **out) {
  nuts *r = atvi_pool_take(pool, 1, sizeof *r);
  *out = NULL;
  if (!r) return ATVI_ENOMEM;
  r->c = (atvi_chains){.ctx = ctx, .ev = ev, .pool = pool, .ops = &OPS, .self = r, .opts = from->opts};
  r->c.begun_s = from->begun_s;
  r->c.reported = from->reported;
  r->space = from->space;
  r->frame = from->frame;
  r->may_refine = true;
  atvi_status status = begin_from(r, from);
  if (status == ATVI_OK) *out = &r->c;
  return status == ATVI_EMODEL ? ATVI_OK : status;
}
