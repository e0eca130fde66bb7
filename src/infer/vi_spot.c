/* SPDX-License-Identifier: MIT */
/* A place that q does not know of, and that one of its draws has met: a draw that outweighs all the others.
 * Smoothing would make an accident of it. So a few chains that leave the posterior as it is start there, and
 * what they see becomes a normal component, if they stay where q has too little, and draws of the component
 * say that there is something.
 *
 * Moves are slice updates (Neal 2003) along one coordinate at a time, and along the difference of two of the
 * chains: the place may be smaller than q by any factor, and a bracket that shrinks to the point finds its
 * width within some thirty evaluations. */
#include "infer/vi_state.h"
#include "math/linalg.h"
#include "math/rng.h"
#include "math/stat/stat.h"
#include <float.h>
#include <math.h>
#include <string.h>

enum {
  CHAINS = 2 * ATVI_LANES,
  AHEAD = 2 * CHAINS,   /* tries of all chains that are evaluated at once */
  SWEEPS = ATVI_NEWTON, /* times that every coordinate is moved along; the first third is not used */
  LINES_MOST = (int)ATVI_VI_ESS /
               (CHAINS * ATVI_NEWTON), /* of a chain: as many runs as a look for what q misses may take */
};
static const uint32_t NUMBERS = UINT32_MAX / 4; /* of iterations: no other phase has these */

typedef struct {
  atvi_vi *v;
  /* [d][CHAINS] points, and directions of the lines */
  double *x, *way;
  /* [d][AHEAD] tries, one after the other for each chain */
  double *next, *theta;
  /* [d] standard deviations of q; sums over points seen */
  double *sd, *mean;
  /* [d][d] */
  double *cov;
  double log_pi[CHAINS], log_next[AHEAD], seen;
  atvi_rng rng[CHAINS];
} spot;

static bool make(spot *s) {
  atvi_pool *pool = s->v->pool;
  size_t d = (size_t)s->v->d;
  s->x = atvi_pool_take(pool, d * CHAINS, sizeof(double));
  s->way = atvi_pool_take(pool, d * CHAINS, sizeof(double));
  s->next = atvi_pool_take(pool, d * AHEAD, sizeof(double));
  s->theta = atvi_pool_take(pool, d * AHEAD, sizeof(double));
  s->sd = atvi_pool_take(pool, d, sizeof(double));
  s->mean = atvi_pool_take(pool, d, sizeof(double));
  s->cov = atvi_pool_take(pool, d * d, sizeof(double));
  return !atvi_pool_failed(pool);
}

/* Every chain at the draw of largest weight. */
static void begin(spot *s, const atvi_vi_weights *w) {
  atvi_idx top = 0, n = w->c.n;
  for (atvi_idx j = 1; j < n; j++)
    if (w->log_w[j] > w->log_w[top]) top = j;
  for (atvi_idx i = 0; i < s->v->d; i++) {
    const double *x = w->c.x + i * w->c.cap;
    s->sd[i] = atvi_math_sd(n, x, NULL);
    for (int k = 0; k < CHAINS; k++) s->x[i * CHAINS + k] = x[top];
  }
  for (int k = 0; k < CHAINS; k++) s->log_pi[k] = w->c.log_pi[top];
}

/* The direction of every chain's next line: a coordinate, or every other time the difference of two chains. */
static void aim(spot *s, int line) {
  atvi_idx d = s->v->d;
  for (int k = 0; k < CHAINS; k++) {
    int a = (int)(atvi_math_rng_uniform(&s->rng[k]) * CHAINS),
        b = (int)(atvi_math_rng_uniform(&s->rng[k]) * CHAINS);
    atvi_idx axis = (atvi_idx)(atvi_math_rng_uniform(&s->rng[k]) * (double)d);
    bool apart = line % 2 && line > 2 * d && a != b;
    for (atvi_idx i = 0; i < d; i++)
      s->way[i * CHAINS + k] = apart ? s->x[i * CHAINS + a] - s->x[i * CHAINS + b] : i == axis ? s->sd[i] : 0;
  }
}

typedef struct {
  double lo, hi, level; /* the bracket along the line, and log pi that a point must have */
  double at[AHEAD];     /* tries of this batch */
  int tries, n;         /* before it; in it */
  bool done;
} slice;

/* A bracket shrinks by where a try was, not by what log pi is there: so all tries of a chain are known before
 * the first is evaluated, as if each failed. */
static void look_ahead(spot *s, int k, int n, slice *c) {
  for (c->n = 0; c->n < n && c->tries + c->n < ATVI_ITERATIONS; c->n++) {
    double at = c->lo + (c->hi - c->lo) * atvi_math_rng_uniform(&s->rng[k]);
    *(at < 0 ? &c->lo : &c->hi) = at;
    c->at[c->n] = at;
  }
}

/* The next tries of all chains that are not done, as many of each as there is room for; their number. */
static atvi_idx try_ahead(spot *s, slice *chain) {
  atvi_idx B = 0, i = 0;
  int busy = 0;
  for (int k = 0; k < CHAINS; k++) busy += !chain[k].done;
  for (int k = 0; k < CHAINS; k++) {
    if (!chain[k].done) look_ahead(s, k, AHEAD / busy, &chain[k]);
    if (!chain[k].done) B += chain[k].n;
  }
  for (int k = 0; k < CHAINS; k++)
    for (int n = 0; n < chain[k].n && !chain[k].done; n++, i++)
      for (atvi_idx j = 0; j < s->v->d; j++)
        s->next[j * B + i] = s->x[j * CHAINS + k] + chain[k].at[n] * s->way[j * CHAINS + k];
  return B;
}

/* Each chain goes to the first of its tries that is high enough. */
static void settle(spot *s, atvi_idx B, slice *chain) {
  atvi_idx first = 0;
  for (int k = 0; k < CHAINS; k++) {
    slice *c = &chain[k];
    if (c->done) continue;
    for (atvi_idx i = first; i < first + c->n && !c->done; i++) {
      if (!(s->log_next[i] >= c->level)) continue;
      for (atvi_idx j = 0; j < s->v->d; j++) s->x[j * CHAINS + k] = s->next[j * B + i];
      s->log_pi[k] = s->log_next[i];
      c->done = true;
    }
    first += c->n;
    c->tries += c->n;
  }
}

/* One slice update of every chain. */
static void move(spot *s, int line) {
  slice chain[CHAINS];
  atvi_idx B;
  for (int k = 0; k < CHAINS; k++)
    s->rng[k] = atvi_math_rng_at(s->v->opts.seed, ATVI_STREAM_EXACT, NUMBERS + (uint32_t)line, (uint32_t)k);
  aim(s, line);
  for (int k = 0; k < CHAINS; k++) {
    double level = s->log_pi[k] + log(atvi_math_rng_uniform(&s->rng[k]));
    double lo = -(1 / ATVI_SMALL) * atvi_math_rng_uniform(&s->rng[k]);
    chain[k] = (slice){.level = level, .lo = lo, .hi = lo + (1 / ATVI_SMALL)};
  }
  while ((B = try_ahead(s, chain)) > 0) {
    atvi_infer_space_eval(
        s->v->space,
        &(atvi_space_batch){.B = B, .x = s->next, .beta = 1, .theta = s->theta, .log_pi = s->log_next});
    settle(s, B, chain);
  }
}

/* The running mean and sum of squares (Welford). */
static void see(spot *s) {
  atvi_idx d = s->v->d;
  double *off = s->theta;
  for (int k = 0; k < CHAINS; k++) {
    s->seen++;
    for (atvi_idx i = 0; i < d; i++) off[i] = s->x[i * CHAINS + k] - s->mean[i];
    for (atvi_idx i = 0; i < d; i++) s->mean[i] += off[i] / s->seen;
    for (atvi_idx i = 0; i < d; i++)
      for (atvi_idx j = 0; j <= i; j++) s->cov[i * d + j] += off[i] * off[j] * (s->seen - 1) / s->seen;
  }
}

/* Most chains end where q has too little: weights there are among the largest hundredth. Chains that start in
 * a heavy tail do not; they come back to where q fits. */
static bool is_unknown(spot *s, const atvi_vi_weights *w) {
  atvi_cloud c = {.cap = CHAINS, .n = CHAINS, .x = s->x, .log_pi = s->log_pi};
  double log_q[CHAINS], part_q[CHAINS], *sorted = w->work;
  atvi_idx n = w->c.n;
  int outside = 0;
  memcpy(sorted, w->log_w, (size_t)n * sizeof *sorted);
  atvi_math_sort(n, sorted, NULL, sorted + n);
  atvi_infer_vi_log_q(s->v, &c, CHAINS, part_q, log_q);
  for (int k = 0; k < CHAINS; k++) outside += s->log_pi[k] - log_q[k] > sorted[n - n / 100 - 1];
  return 2 * outside > CHAINS;
}

static atvi_status add(spot *s) {
  atvi_vi *v = s->v;
  atvi_idx d = v->d;
  double wider = v->tuning.inflate * v->tuning.inflate, all = atvi_infer_vi_all_evidence(v);
  atvi_vi_part *part = &v->part[v->n_part];
  for (atvi_idx i = 0; i < d * d; i++) s->cov[i] *= wider / s->seen;
  if (!atvi_math_cholesky(d, s->cov)) return ATVI_OK;
  if (!atvi_infer_vi_member_new(v, s->mean, s->cov, &part->at)) return ATVI_ENOMEM;
  double found = atvi_infer_vi_judge(v, &part->at, v->scramble++, NULL).log_evidence;
  if (!isfinite(found) || found < all - ATVI_NEGLIGIBLE) return ATVI_OK;
  part->log_evidence = found;
  part->share = DBL_MIN; /* until the next weighing */
  part->drawn = 0;
  part->plain = true;
  v->n_part++;
  return ATVI_OK;
}

atvi_status atvi_infer_vi_spot(atvi_vi *v, const atvi_vi_weights *w) {
  spot s = {.v = v};
  int lines = v->d * SWEEPS < LINES_MOST ? 2 * (int)v->d * SWEEPS : 2 * LINES_MOST;
  if (!make(&s)) return ATVI_ENOMEM;
  begin(&s, w);
  for (int line = 0; line < lines && !atvi_infer_vi_late(v); line++) {
    move(&s, line);
    if (3 * line == lines - lines % 3 && !is_unknown(&s, w)) return ATVI_OK; /* back already */
    if (3 * line >= lines) see(&s);
  }
  return s.seen > (double)(v->d * (atvi_idx)v->tuning.per_dim) && is_unknown(&s, w) ? add(&s) : ATVI_OK;
}
