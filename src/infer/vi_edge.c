/* SPDX-License-Identifier: MIT */
/* Does the posterior go on where the approximation ends? Weights cannot tell: they are those of draws of q, and where q has next to nothing
 * there are none. A curved ridge whose tips q leaves out looks perfect from inside.
 *
 * So a few chains that leave the posterior as it is start from the outermost draws on either side of every coordinate. Where one comes to a place
 * that has e^far times the average weight, q ends and the posterior does not, and a normal component is put there: its centre is where
 * chains were seen, its covariance that of the outermost draws next to it. Its share is small and it is not trained, which would
 * draw it back to the main mass; weights against the whole mixture make it count for what is there.
 *
 * Moves are Metropolis steps by differences of starting points of the same side, which have the local shape and size of the
 * posterior (ter Braak 2006). They cost a tenth of the last draws, or so. */
#include "infer/vi_state.h"
#include "math/linalg.h"
#include "math/rng.h"
#include "math/special.h"
#include "math/stat/stat.h"
#include <float.h>
#include <math.h>
#include <string.h>

enum { SIDES_MOST = 32, LOOK_EVERY = 4, SIZES = 5 }; /* sides, moves between looks, lengths of moves */

typedef struct {
  atvi_vi *v;
  const atvi_vi_weights *w;                       /* the draws */
  atvi_idx sides, per, n;                         /* chains: `per` of each side */
  double log_far;                                 /* log weight */
  double *start, *x, *next, *theta;               /* [d][n] */
  double *log_pi, *log_next, *log_q, *part_q, *u; /* [n] */
  double *centre, *cov, *seen; /* [sides][d] sums over points that are far, [sides][d][d], [sides] */
  double *look_q;              /* [2][ATVI_VI_LOOK] */
  double *weight, *key, *at;   /* [draws] */
  double *work, *point;        /* scratch of sorting, [2][d] */
} edge;

static bool make(edge *e) {
  atvi_idx draws = e->w->c.n;
  atvi_pool *pool = e->v->pool;
  size_t d = (size_t)e->v->d;
  e->sides = 2 * e->v->d < SIDES_MOST ? 2 * e->v->d : SIDES_MOST;
  e->per = (atvi_idx)e->v->tuning.side_chains;
  e->n = e->sides * e->per;
  double **wide[] = {&e->start, &e->x, &e->next, &e->theta};
  double **row[] = {&e->log_pi, &e->log_next, &e->log_q, &e->part_q, &e->u};
  for (size_t k = 0; k < sizeof wide / sizeof *wide; k++)
    *wide[k] = atvi_pool_take(pool, d * (size_t)e->n, sizeof(double));
  for (size_t k = 0; k < sizeof row / sizeof *row; k++)
    *row[k] = atvi_pool_take(pool, (size_t)e->n, sizeof(double));
  e->centre = atvi_pool_take(pool, (size_t)e->sides * d, sizeof(double));
  e->cov = atvi_pool_take(pool, (size_t)e->sides * d * d, sizeof(double));
  e->seen = atvi_pool_take(pool, (size_t)e->sides, sizeof(double));
  e->weight = atvi_pool_take(pool, (size_t)draws, sizeof(double));
  e->key = atvi_pool_take(pool, (size_t)draws, sizeof(double));
  e->at = atvi_pool_take(pool, (size_t)draws, sizeof(double));
  e->work = atvi_pool_take(pool, 2 * (size_t)draws, sizeof(double));
  e->look_q = atvi_pool_take(pool, 2 * ATVI_VI_LOOK, sizeof(double));
  e->point = atvi_pool_take(pool, 2 * d, sizeof(double));
  return !atvi_pool_failed(pool);
}

/* ---- sides ---- */

/* Draw j to x[i * stride], i < d. */
static void draw_at(const edge *e, atvi_idx j, atvi_idx stride, double *x) {
  for (atvi_idx i = 0; i < e->v->d; i++) x[i * stride] = e->w->c.x[i * e->w->c.cap + j];
}

/* Lower half of the covariance of draws at[first .. n). */
static void covariance(const edge *e, atvi_idx first, atvi_idx n, double *cov) {
  atvi_idx d = e->v->d;
  double *x = e->point, *mean = x + d, count = (double)(n - first);
  memset(mean, 0, (size_t)d * sizeof *mean);
  for (atvi_idx j = first; j < n; j++) {
    draw_at(e, (atvi_idx)e->at[j], 1, x);
    for (atvi_idx i = 0; i < d; i++) mean[i] += x[i] / count;
  }
  for (atvi_idx j = first; j < n; j++) {
    draw_at(e, (atvi_idx)e->at[j], 1, x);
    for (atvi_idx i = 0; i < d; i++)
      for (atvi_idx k = 0; k <= i; k++) cov[i * d + k] += (x[i] - mean[i]) * (x[k] - mean[k]) / count;
  }
}

/* As many draws as chains, by weight (sum one), of the outermost on one side of coordinate i. */
static void find_side(edge *e, atvi_idx side, atvi_idx i, const double *weight) {
  atvi_idx d = e->v->d, n = e->w->c.n, k = 0, first = n - 1;
  double sign = side % 2 ? -1 : 1, sum = 0;
  for (atvi_idx j = 0; j < n; j++) {
    e->key[j] = sign * e->w->c.x[i * e->w->c.cap + j];
    e->at[j] = (double)j;
  }
  atvi_math_sort(n, e->key, e->at, e->work);
  for (atvi_idx j = n - 1; j >= 0 && k < e->per; j--) {
    sum += weight[(atvi_idx)e->at[j]];
    for (; k < e->per && sum >= ((double)k + 0.5) / (double)e->per * e->v->tuning.outer; k++, first = j)
      draw_at(e, (atvi_idx)e->at[j], e->n, e->start + side * e->per + k);
  }
  covariance(e, first, n, e->cov + side * d * d);
}

static void find_sides(edge *e) {
  atvi_idx d = e->v->d, n = e->w->c.n, every = 2 * d > e->sides ? 2 * d / e->sides : 1;
  e->log_far = atvi_math_softmax(n, e->w->log_w, e->weight) - log((double)n) + e->v->tuning.far;
  for (atvi_idx side = 0; side < e->sides; side++) find_side(e, side, side / 2 * every, e->weight);
}

/* ---- chains ---- */

static void evaluate(edge *e, const double *x, double *log_pi) {
  atvi_infer_space_eval(
      e->v->space, &(atvi_space_batch){.B = e->n, .x = x, .beta = 1, .theta = e->theta, .log_pi = log_pi});
}

static void move(edge *e, uint32_t number) {
  atvi_idx d = e->v->d, n = e->n;
  for (atvi_idx i = 0; i < n; i++) {
    atvi_rng r = atvi_math_rng_at(e->v->opts.seed, ATVI_STREAM_EXACT, number, (uint32_t)i);
    atvi_idx side = i / e->per * e->per, a = side + (atvi_idx)(atvi_math_rng_uniform(&r) * (double)e->per),
             b = side + (atvi_idx)(atvi_math_rng_uniform(&r) * (double)e->per);
    double by = 2.38 / sqrt(2 * (double)d) * pow(2, 1 - (int)(atvi_math_rng_uniform(&r) * SIZES));
    e->u[i] = log(atvi_math_rng_uniform(&r));
    for (atvi_idx j = 0; j < d; j++)
      e->next[j * n + i] = e->x[j * n + i] + by * (e->start[j * n + a] - e->start[j * n + b]);
  }
  evaluate(e, e->next, e->log_next);
  for (atvi_idx i = 0; i < n; i++) {
    if (!(e->u[i] < e->log_next[i] - e->log_pi[i])) continue;
    e->log_pi[i] = e->log_next[i];
    for (atvi_idx j = 0; j < d; j++) e->x[j * n + i] = e->next[j * n + i];
  }
}

static void look(edge *e) {
  atvi_idx d = e->v->d, n = e->n;
  atvi_infer_vi_log_q(e->v, &(atvi_cloud){.cap = n, .x = e->x}, n, e->part_q, e->log_q);
  for (atvi_idx i = 0; i < n; i++) {
    if (!(e->log_pi[i] - e->log_q[i] > e->log_far)) continue;
    e->seen[i / e->per]++;
    for (atvi_idx j = 0; j < d; j++) e->centre[i / e->per * d + j] += e->x[j * n + i];
  }
}

/* ---- components ---- */

/* Posterior at places that q lacks, as draws c of a component there find it, without the largest of them, which may be chance;
 * log. */
static double log_lacking(edge *e, const atvi_cloud *c) {
  double *log_q = e->look_q, *lacks = log_q + ATVI_VI_LOOK, top = -HUGE_VAL;
  atvi_infer_vi_log_q(e->v, c, c->n, lacks, log_q);
  for (atvi_idx j = 0; j < c->n; j++) {
    bool far = c->log_pi[j] - log_q[j] > e->log_far - e->v->tuning.far + e->v->tuning.missed;
    lacks[j] = far ? c->log_pi[j] - c->log_q[j] : -HUGE_VAL;
    top = fmax(top, lacks[j]);
  }
  double all = atvi_math_log_sum_exp(c->n, lacks);
  return all > top ? all + log1p(-exp(top - all)) - log((double)c->n) : -HUGE_VAL;
}

static atvi_status add(edge *e, atvi_idx side, double best) {
  atvi_vi *v = e->v;
  atvi_idx d = v->d;
  double *centre = e->centre + side * d, *chol = e->cov + side * d * d;
  atvi_vi_part *part = &v->part[v->n_part];
  for (atvi_idx i = 0; i < d; i++) centre[i] /= e->seen[side];
  for (atvi_idx i = 0; i < d * d; i++) chol[i] *= v->tuning.edge_wider * v->tuning.edge_wider;
  if (!atvi_math_cholesky(d, chol)) return ATVI_OK;
  for (atvi_idx i = 0; i < d; i++)
    for (atvi_idx k = i + 1; k < d; k++) chol[i * d + k] = 0;
  if (!atvi_infer_vi_member_new(v, centre, chol, &part->at)) return ATVI_ENOMEM;
  atvi_cloud seen;
  double found = atvi_infer_vi_judge(v, &part->at, v->scramble++, &seen).log_evidence;
  if (!isfinite(found) || log_lacking(e, &seen) < best + log(v->tuning.lost)) return ATVI_OK;
  part->log_evidence = fmin(found, best + log(v->tuning.edge_share));
  part->share = DBL_MIN; /* until the next weighing */
  part->drawn = 0;
  v->n_part++;
  return ATVI_OK;
}

atvi_status atvi_infer_vi_extend(atvi_vi *v, const atvi_vi_weights *w, int time) {
  edge e = {.v = v, .w = w};
  if ((double)w->c.n * v->tuning.outer < v->tuning.side_chains) return ATVI_OK;
  if (!make(&e)) return ATVI_ENOMEM;
  find_sides(&e);
  memcpy(e.x, e.start, (size_t)(v->d * e.n) * sizeof *e.x);
  evaluate(&e, e.x, e.log_pi);
  int steps = (int)v->tuning.side_steps;
  for (int step = 0; step < steps && !atvi_infer_vi_late(v); step++) {
    move(&e, UINT32_MAX - (uint32_t)(time * steps + step)); /* above any iteration of the exact sampler */
    if (step % LOOK_EVERY == LOOK_EVERY - 1) look(&e);
  }
  double best = atvi_infer_vi_best_evidence(v);
  for (atvi_idx side = 0; side < e.sides && v->n_part < ATVI_VI_PARTS; side++)
    if (e.seen[side] > 0) ATVI_TRY(add(&e, side, best));
  return ATVI_OK;
}
