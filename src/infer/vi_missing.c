/* SPDX-License-Identifier: MIT */
/* What q lacks: a population annealed from the prior (Neal 2001; Del Moral, Doucet and Jasra 2006) to
 *
 *     r(x) = pi(x) min(1, pi(x) / (c q(x)))^10,    q with the mass that its components have found, log c = `missed`,
 *
 * which is the posterior where q has far too little density and next to nothing elsewhere. What the main mass
 * would crowd out, a small mode, the tip of a ridge, an island behind an edge, is all that is left there; and
 * the integral of r, by the increments of the ladder, is what q misses. The estimate is unbiased and skewed:
 * a large one can be believed, a small one says little where points move badly.
 *
 * Ladder    From beta = 0. The next beta is where the conditional effective size of the increments falls to half of the points; then systematic
 *           resampling, and sweeps until every point has moved a few times.
 * Moves     Metropolis steps by the difference of two other points (ter Braak 2006), one half of the points by differences of the other. Every
 *           other pair are near each other, so that steps have the size of the smallest mode as well as of all of them together; and some steps
 *           are as long as the difference, from one mode to another.
 * Dead      Prior draws that cannot be evaluated are replaced by others; their share is part of the integral. */
#include "infer/vi_state.h"
#include "math/rng.h"
#include "math/special.h"
#include "math/stat/stat.h"
#include <math.h>
#include <string.h>

/* Power of the ratio that keeps points away from where q is: a tenth of a nat less is an e-fold less. */
#define HARD (1 / ATVI_SMALL)

enum { AMONG = 8 }; /* points among which the nearest is taken for a near pair */
#define FEW                                                                                                  \
  (1 / (ATVI_SMALL * ATVI_SMALL)) /* draws in a place, of which weights make its share to ATVI_SMALL */

typedef struct {
  atvi_vi *v;
  atvi_idx d, n;
  atvi_cloud *c; /* [n] the points: x, log_base, log_pi; log_q is log r */
  atvi_cloud to; /* [n] proposals, or prior draws */
  double *q, *w; /* [n] scratch; weights */
  double *sd;    /* [d] of the points */
  atvi_idx *at;  /* [n] */
  double beta, log_z;
  atvi_idx first;  /* prior draw */
  uint32_t number; /* of the next sweep */
} herd;

static bool herd_new(herd *h, atvi_pool *pool) {
  double **row[] = {&h->q, &h->w};
  for (size_t k = 0; k < sizeof row / sizeof *row; k++)
    *row[k] = atvi_pool_take(pool, (size_t)h->n, sizeof(double));
  h->sd = atvi_pool_take(pool, (size_t)h->d, sizeof(double));
  h->at = atvi_pool_take(pool, (size_t)h->n, sizeof *h->at);
  return atvi_infer_vi_cloud(pool, h->d, h->n, &h->to) && !atvi_pool_failed(pool);
}

static void evaluate(herd *h, atvi_idx n) {
  atvi_cloud *c = &h->to;
  c->cap = c->n = n;
  atvi_infer_space_eval(
      h->v->space,
      &(atvi_space_batch){
          .B = n, .x = c->x, .beta = 1, .theta = c->theta, .log_base = c->log_base, .log_pi = c->log_pi});
}

static void copy_point(atvi_idx d, const atvi_cloud *from, atvi_idx j, atvi_cloud *to, atvi_idx i) {
  for (atvi_idx k = 0; k < d; k++) to->x[k * to->cap + i] = from->x[k * from->cap + j];
  to->log_base[i] = from->log_base[j];
  to->log_pi[i] = from->log_pi[j];
  to->log_q[i] = from->log_q[j];
}

void atvi_infer_vi_log_lacking(atvi_vi *v, const atvi_cloud *c, atvi_idx n, double *part, double *out) {
  atvi_infer_vi_log_mass(v, v->n_part, c, n, part, out);
  for (atvi_idx k = 0; k < n; k++)
    out[k] = isfinite(c->log_pi[k]) ? c->log_pi[k] + HARD * fmin(0, c->log_pi[k] - v->tuning.missed - out[k])
                                    : -HUGE_VAL;
}

/* The proposals at[k], k < n, in rising order, go to the first places and get their log r. */
static void gather(herd *h, atvi_idx n) {
  atvi_cloud *c = &h->to;
  for (atvi_idx k = 0; k < n; k++) copy_point(h->d, c, h->at[k], c, k);
  atvi_infer_vi_log_lacking(h->v, c, n, h->q, c->log_q);
}

/* ---- the first points ---- */

/* n of them to h->to.x. One that overflows counts as one that cannot be evaluated: h->w is 0, and x the
 * origin. */
static void draw_prior(const herd *h, atvi_idx first) {
  const atvi_space *s = h->v->space;
  double *x = h->to.x;
  if (s->from_prior) {
    s->target->ops->prior_draw(s->target->self, atvi_model_evaluator_work(s->ev), h->v->opts.seed, first,
                               h->n, h->to.theta);
    atvi_infer_space_inv(s, h->n, h->to.theta, x);
  }
  for (atvi_idx j = 0; j < h->n; j++) {
    atvi_rng r = atvi_math_rng_at(h->v->opts.seed, ATVI_STREAM_POPULATION, 0, (uint32_t)(first + j));
    bool good = true;
    for (atvi_idx i = 0; i < h->d && !s->from_prior; i++) x[i * h->n + j] = atvi_math_rng_normal(&r);
    for (atvi_idx i = 0; i < h->d; i++) good = good && isfinite(x[i * h->n + j]);
    for (atvi_idx i = 0; i < h->d && !good; i++) x[i * h->n + j] = 0;
    h->w[j] = good;
  }
}

/* Places left after many tries are taken by copies. False: there is no point. */
static bool begin(herd *h) {
  atvi_idx tried = 0, got = 0, n = h->n;
  const atvi_cloud *c = &h->to;
  for (int k = 0; k < ATVI_ROUNDS && got < n && !atvi_infer_vi_over(h->v); k++) {
    atvi_idx alive = 0;
    draw_prior(h, h->first + tried);
    evaluate(h, n);
    for (atvi_idx j = 0; j < n; j++)
      if (h->w[j] > 0 && isfinite(c->log_pi[j]) && isfinite(c->log_base[j])) h->at[alive++] = j;
    gather(h, alive);
    for (atvi_idx j = 0; j < alive; j++, got++)
      if (got < n) copy_point(h->d, c, j, h->c, got);
    tried += n;
  }
  for (atvi_idx j = got; j < n && got > 0; j++) copy_point(h->d, h->c, j % got, h->c, j);
  h->log_z = log((double)got / (double)tried);
  return got > 0;
}

/* ---- temperatures ---- */

static void up(herd *h) {
  atvi_cloud *c = h->c;
  atvi_idx n = h->n;
  atvi_cloud r = {.n = n, .cap = n, .log_base = c->log_base, .log_pi = c->log_q};
  double beta = atvi_infer_vi_next_beta(&r, h->beta);
  for (atvi_idx j = 0; j < n; j++) h->w[j] = (beta - h->beta) * (c->log_q[j] - c->log_base[j]);
  h->log_z += atvi_math_softmax(n, h->w, h->w) - log((double)n);
  h->beta = beta;
  atvi_rng rng = atvi_math_rng_at(h->v->opts.seed, ATVI_STREAM_POPULATION, ++h->number, UINT32_MAX);
  double u = atvi_math_rng_uniform(&rng), sum = 0;
  h->to.cap = n;
  for (atvi_idx k = 0, j = -1; k < n; k++) {
    while (j < n - 1 && (j < 0 || sum < (u + (double)k) / (double)n)) sum += h->w[++j];
    copy_point(h->d, c, j, &h->to, k);
  }
  for (atvi_idx k = 0; k < n; k++) copy_point(h->d, &h->to, k, c, k);
}

/* ---- moves ---- */

static double apart2(const herd *h, atvi_idx a, atvi_idx b) {
  double sum = 0;
  for (atvi_idx i = 0; i < h->d; i++) {
    double r = (h->c->x[i * h->n + a] - h->c->x[i * h->n + b]) / h->sd[i];
    sum += r * r;
  }
  return sum;
}

/* A pair of points of the other half. */
static void choose_pair(const herd *h, atvi_rng *r, int half, atvi_idx *a, atvi_idx *b) {
  double count = (double)(h->n / 2);
  int tries = atvi_math_rng_uniform(r) < 0.5 ? AMONG : 1;
  *a = *b = 2 * (atvi_idx)(atvi_math_rng_uniform(r) * count) + 1 - half;
  double near = HUGE_VAL;
  for (int k = 0; k < tries; k++) {
    atvi_idx other = 2 * (atvi_idx)(atvi_math_rng_uniform(r) * count) + 1 - half;
    double far = apart2(h, *a, other);
    if (far > 0 && far < near) near = far, *b = other;
  }
}

/* Of log r at beta, from point j. */
static double gain(const herd *h, double log_base, double log_r, atvi_idx j) {
  double base = log_base - h->c->log_base[j], one = log_r - h->c->log_q[j];
  return base + h->beta * (one - base);
}

/* Moves the points of one half: the even or the odd ones, as copies of a point are next to each other.
 * Returns how many moved. */
static atvi_idx move_half(herd *h, int half) {
  atvi_idx d = h->d, m = h->n / 2, asked = 0, moved = 0;
  atvi_cloud *c = h->c;
  for (atvi_idx k = 0; k < m; k++) {
    atvi_rng r =
        atvi_math_rng_at(h->v->opts.seed, ATVI_STREAM_POPULATION, h->number, (uint32_t)(2 * k + half));
    atvi_idx a, b, j = 2 * k + half;
    choose_pair(h, &r, half, &a, &b);
    double sign = atvi_math_rng_uniform(&r) < 0.5 ? -1 : 1;
    double by = pow(2, -(int)(atvi_math_rng_uniform(&r) * ATVI_SIZES)) * 2.38 / sqrt(2 * (double)d);
    if (atvi_math_rng_uniform(&r) < ATVI_SMALL) by = 1; /* as long as the difference */
    h->w[k] = a == b ? HUGE_VAL : log(atvi_math_rng_uniform(&r));
    for (atvi_idx i = 0; i < d; i++)
      h->to.x[i * m + k] = c->x[i * h->n + j] + sign * by * (c->x[i * h->n + a] - c->x[i * h->n + b]);
  }
  evaluate(h, m);
  /* r is at most pi: q is asked only about those that would be accepted without it */
  for (atvi_idx k = 0; k < m; k++)
    if (isfinite(h->to.log_pi[k]) && isfinite(h->to.log_base[k]) &&
        h->w[k] < gain(h, h->to.log_base[k], h->to.log_pi[k], 2 * k + half))
      h->at[asked++] = k;
  gather(h, asked);
  for (atvi_idx k = 0; k < asked; k++) {
    atvi_idx j = 2 * h->at[k] + half;
    if (!(h->w[h->at[k]] < gain(h, h->to.log_base[k], h->to.log_q[k], j))) continue;
    copy_point(d, &h->to, k, c, j);
    moved++;
  }
  return moved;
}

/* Moves all points once; returns how many moved. */
static atvi_idx sweep(herd *h) {
  for (atvi_idx i = 0; i < h->d; i++) h->sd[i] = fmax(atvi_math_sd(h->n, h->c->x + i * h->n, NULL), 1e-300);
  h->number++;
  return move_half(h, 0) + move_half(h, 1);
}

/* False: there is no time. */
static bool move(herd *h) {
  const atvi_vi *v = h->v;
  double wanted = v->tuning.renew * (double)h->n, moved = 0;
  for (int k = 0; k < ATVI_REPEATS * v->tuning.renew && moved < wanted; k++) {
    if (atvi_infer_vi_over(v)) return false;
    moved += (double)sweep(h);
  }
  return true;
}

/* ---- the whole ---- */

/* As many as the dimension asks for, and as the budget has if the ladder is as long as that of q, or, where q
 * had none, as long as the information that the data gave makes it. A multiple of ATVI_LANES. */
static atvi_idx points_wanted(const atvi_vi *v) {
  double rungs = v->progress.rungs > 0 ? v->progress.rungs : 3 + 2 * v->outcome.gained / sqrt((double)v->d);
  double wanted = v->tuning.points * (double)(v->d + 2), runs = (double)atvi_model_evaluator_count(v->ev),
         least = 8 * ATVI_LANES,
         have = fmax(ATVI_VI_ESS, v->tuning.look_cost * runs) /
                (ATVI_REPEATS * v->tuning.renew * fmax(1, rungs));
  return (atvi_idx)(fmax(fmin(wanted, have), least) / ATVI_LANES) * ATVI_LANES;
}

atvi_status atvi_infer_vi_missing(atvi_vi *v, atvi_cloud *points, double *log_evidence) {
  herd h = {.v = v,
            .d = v->d,
            .n = points_wanted(v),
            .c = points,
            .number = v->scramble << 13,
            .first = (atvi_idx)v->scramble << 13};
  v->scramble++;
  atvi_pool *pool;
  int rungs = 0;
  *log_evidence = -HUGE_VAL;
  if (points->cap != h.n && !atvi_infer_vi_cloud(v->pool, v->d, h.n, points)) return ATVI_ENOMEM;
  points->n = 0;
  ATVI_TRY(atvi_pool_new(v->ctx, &pool));
  atvi_status status = herd_new(&h, pool) ? ATVI_OK : ATVI_ENOMEM;
  if (status == ATVI_OK && begin(&h)) {
    points->n = h.n;
    bool on = true;
    for (; rungs < ATVI_VI_RUNGS && on && h.beta < 1; rungs++) {
      up(&h);
      on = move(&h);
    }
    if (h.beta >= 1) *log_evidence = h.log_z;
  }
  atvi_pool_free(pool);
  return status;
}

atvi_status atvi_infer_vi_wander(atvi_vi *v, atvi_cloud *points) {
  herd h = {.v = v, .d = v->d, .n = points->n, .c = points, .number = v->scramble << 13, .beta = 1};
  v->scramble++;
  atvi_pool *pool;
  atvi_idx alive = 0;
  ATVI_TRY(atvi_pool_new(v->ctx, &pool));
  atvi_status status = herd_new(&h, pool) ? ATVI_OK : ATVI_ENOMEM;
  if (status == ATVI_OK) {
    h.to.cap = h.n;
    memcpy(h.to.x, points->x, (size_t)(h.d * h.n) * sizeof(double));
    evaluate(&h, h.n);
    for (atvi_idx j = 0; j < h.n; j++)
      if (isfinite(h.to.log_pi[j]) && isfinite(h.to.log_base[j])) h.at[alive++] = j;
    gather(&h, alive);
    for (atvi_idx j = 0; j < h.n && alive > 0; j++) copy_point(h.d, &h.to, j % alive, points, j);
    /* points become some twenty times as wide where nothing stops them */
    for (int k = 0; k < ATVI_ROUNDS && alive > 0 && !atvi_infer_vi_over(v); k++) sweep(&h);
  }
  points->n = alive > 0 ? h.n : 0;
  atvi_pool_free(pool);
  return status;
}

/* The least log pi - log q of places from which so few draws come that weights do not know their share. */
static double log_few(const atvi_vi *v, double log_missing) {
  return log(atvi_infer_vi_draws(v, 1)) + log_missing - log(FEW);
}

/* Where q is too low and draws are not few, weights say how much there is, far better than points do: they
 * overlook nothing. */
atvi_status atvi_infer_vi_absent(atvi_vi *v, const atvi_cloud *points, double log_missing,
                                 double *log_absent) {
  atvi_idx n = points->n, few = 0;
  double least = log_few(v, log_missing) - atvi_infer_vi_all_evidence(v);
  double *have = atvi_pool_take(v->pool, 2 * (size_t)n + 1, sizeof *have);
  *log_absent = -HUGE_VAL;
  if (!have) return ATVI_ENOMEM;
  atvi_infer_vi_log_mass(v, v->n_part, points, n, have + n, have);
  for (atvi_idx j = 0; j < n; j++) few += !(points->log_pi[j] - have[j] < least);
  if (few > 0) *log_absent = log_missing + log((double)few / (double)n);
  return ATVI_OK;
}

void atvi_infer_vi_present(atvi_vi *v, double log_evidence, atvi_idx n, const double *log_ratio) {
  double least = log_few(v, v->search.log_missing), *absent = &v->search.log_absent, there = 0;
  for (atvi_idx j = 0; j < n; j++) there += log_ratio[j] >= least;
  *absent = log_evidence + log(fmax(exp(*absent - log_evidence) - there / (double)n, 0));
}
