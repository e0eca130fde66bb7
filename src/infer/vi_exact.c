/* SPDX-License-Identifier: MIT */
/* The exact sampler on the driver of chains.h: chains that start from draws of the trained q and move by
 * jumps through q, by Hamiltonian moves in its coordinates (vi_moves.c) and along lines (vi_exact_lines.c),
 * until they agree.
 *
 * Warm-up  WARMUP iterations, in which the steps of the local moves are adapted, for each component, to an
 *          acceptance of 0.8: after every ADAPT iterations, from all chains at once, in order. Then they are
 *          fixed, at the average over the second half.
 * Kept     what came after the warm-up and after the first quarter of all iterations. log pi - log q is
 *          judged like a parameter. */
#include "infer/vi_exact.h"
#include "math/linalg.h"
#include "math/special.h"
#include "math/stat/stat.h"
#include <math.h>
#include <string.h>

enum {
  L = ATVI_LANES,
  CHAINS = ATVI_EXACT_CHAINS,
  GROUPS = CHAINS / L,
  ADAPT = 5,               /* iterations between two changes of the steps: 160 moves of all chains */
  KEEP_MIN = ATVI_VI_LOOK, /* iterations before the criteria are looked at: what q misses is found late */
};
/* Iterations: steps that are adapted settle within half of them, and the other half is judged. */
#define WARMUP (2 * ATVI_CHAINS_JUDGED)
#define TAIL 0.2 /* of the effective size wanted is wanted of the largest hundredth of the weights */

typedef struct {
  atvi_chains c;
  atvi_vi *v;
  atvi_exact_moves moves;
  atvi_exact_group group[GROUPS];
  /* [2][n_part] while adapting */
  double *log_step;
  /* [2][n_part] over the second half of the warm-up */
  double *sum_step;
  /* [d][CHAINS] */
  double *start;
} sampler;

/* ---- the object; arrays are the pool's ---- */

static double *reals(sampler *s, atvi_idx n) { return atvi_pool_take(s->v->pool, (size_t)n, sizeof(double)); }

static atvi_status sampler_open(sampler *s) {
  atvi_vi *v = s->v;
  atvi_chains *c = &s->c;
  atvi_idx d = v->d, n_part = v->n_part;
  c->opts = atvi_infer_chains_defaults();
  c->opts.chains = CHAINS;
  if (!isnan(v->opts.ess)) c->opts.ess = fmin(v->opts.ess, ATVI_CHAINS_ESS_MOST);
  c->opts.max_iter = WARMUP + v->opts.exact_iter;
  c->opts.max_seconds = v->opts.max_seconds;
  c->begun_s = v->progress.begun_s;
  c->reported = v->progress.told;
  c->plan = (atvi_chains_plan){.groups = GROUPS,
                               .rows = d + 3, /* and log pi - log q */
                               .states_per_ess = 8,
                               .discard = WARMUP,
                               .part = 4,
                               .first_check = WARMUP + KEEP_MIN,
                               .phase = "exact sampler",
                               .leaves_out = true,
                               .before = 0.85};
  s->moves.lines = ATVI_EXACT_LINES;
  s->log_step = reals(s, 2 * n_part);
  s->sum_step = reals(s, 2 * n_part);
  s->start = reals(s, d * CHAINS);
  for (int k = 0; k < GROUPS; k++) {
    s->group[k].chain = (uint32_t)(k * L);
    atvi_infer_exact_group_make(v->pool, d, n_part, &s->group[k]);
  }
  if (atvi_pool_failed(v->pool)) return ATVI_ENOMEM;
  ATVI_TRY(atvi_infer_exact_open(v, &s->moves));
  return atvi_infer_chains_open(c);
}

/* ---- running ---- */

static atvi_idx run(void *self, atvi_idx item, int worker) {
  sampler *s = self;
  atvi_exact_group *g = &s->group[item];
  const atvi_exact_point *p = &g->now;
  atvi_idx to = atvi_infer_chains_to(&s->c);
  if (s->c.done == 0) {
    for (atvi_idx j = 0; j < s->v->d; j++)
      memcpy(g->next.x + j * L, s->start + j * CHAINS + item * L, L * sizeof(double));
    atvi_infer_exact_place(&s->moves, g, worker, g->next.x);
  }
  for (atvi_idx n = s->c.done + 1; n <= to; n++) {
    atvi_infer_exact_step(&s->moves, g, worker, (uint32_t)n);
    for (int i = 0; i < L; i++) {
      double *ratio = atvi_infer_chains_keep(&s->c, (atvi_idx)g->chain + i, n, p->theta + i, L,
                                             p->log_prior[i], p->log_lik[i]);
      if (ratio) *ratio = p->log_pi[i] - p->log_q[i];
    }
  }
  return to;
}

/* Lines are half of the cost. Where the second half of the warm-up, with all of them, met no place (1 in 500)
 * from which jumps are accepted less than once in e times as often as usual, one per iteration keeps looking
 * for it. */
static int lines_needed(const sampler *s) {
  atvi_idx n = CHAINS * WARMUP / 2;
  double *x = s->c.work[0];
  atvi_infer_chains_copy_row(&s->c, (atvi_kept){WARMUP / 2, WARMUP / 2}, s->v->d + 2, x);
  atvi_math_sort(n, x, NULL, x + n);
  return x[n - 1 - n / 500] - x[n / 2] > 1 ? ATVI_EXACT_LINES : 1;
}

static atvi_idx warm_up(void *self) {
  sampler *s = self;
  int blocks = (int)(WARMUP / ADAPT), b = (int)(s->c.done / ADAPT) - 1;
  if (b >= 0) atvi_infer_exact_adapt(&s->moves, GROUPS, s->group, b, s->c.opts.accept, s->log_step);
  for (atvi_idx k = 0; k < 2 * s->v->n_part; k++) {
    if (b < 0) {
      s->log_step[k] = log(s->moves.step[k]);
      continue;
    }
    s->sum_step[k] += b >= blocks / 2 ? s->log_step[k] : 0;
    s->moves.step[k] = exp(b == blocks - 1 ? s->sum_step[k] / (blocks - blocks / 2) : s->log_step[k]);
  }
  if (b < blocks - 1) return s->c.done + ADAPT;
  for (int i = 0; i < GROUPS; i++) s->group[i].jumped = s->group[i].jumps = 0;
  s->moves.lines = lines_needed(s);
  return 0;
}

/* Where q has too little mass chains seldom come and then stay long. Parameters may not show it, but w = pi /
 * q does: how often the chains are among the largest hundredth of it must be known as well, to a fifth of the
 * effective size. */
static double further(void *self) {
  const sampler *s = self;
  atvi_kept kept = atvi_infer_chains_kept(&s->c);
  atvi_idx n = s->c.live * kept.n, row = s->v->d + 2;
  double share = atvi_infer_chains_share(&s->c, row), *x = s->c.work[0], *work = x + n;
  atvi_infer_chains_copy_row(&s->c, kept, row, x);
  atvi_math_sort(n, x, NULL, work);
  double top = x[n - 1 - n / 100];
  atvi_infer_chains_copy_row(&s->c, kept, row, x);
  for (atvi_idx i = 0; i < n; i++) x[i] = x[i] > top;
  double ess = atvi_math_converge(s->c.live, kept.n, x, work).ess_mean;
  return isnan(ess) ? 0 : fmin(share, ess / (TAIL * s->c.opts.ess));
}

static void state(void *self, atvi_state *s) {
  sampler *x = self;
  size_t lane = L * sizeof(double), d = (size_t)x->v->d, parts = (size_t)x->v->n_part;
  double *step[] = {x->moves.step, x->log_step, x->sum_step};
  for (int k = 0; k < 3; k++) atvi_io_state(s, step[k], 2 * parts * sizeof(double));
  ATVI_STATE(s, x->moves.lines);
  for (int i = 0; i < GROUPS; i++) {
    atvi_exact_group *g = &x->group[i];
    atvi_exact_point *p = &g->now;
    double *wide[] = {p->x, p->theta, p->dx, p->z},
           *row[] = {p->log_prior, p->log_lik, p->log_pi, p->log_q, p->log_jump, p->log_own};
    for (int k = 0; k < 4; k++) atvi_io_state(s, wide[k], d * lane);
    for (int k = 0; k < 6; k++) atvi_io_state(s, row[k], lane);
    atvi_io_state(s, p->part_q, parts * lane);
    ATVI_STATE(s, p->k);
    atvi_io_state(s, g->accepted, 2 * parts * sizeof(double));
    atvi_io_state(s, g->tried, 2 * parts * sizeof(double));
    ATVI_STATE(s, g->jumped);
    ATVI_STATE(s, g->jumps);
  }
}

/* ---- for those who run it ---- */

static void made(const void *self, atvi_made *about) {
  const sampler *s = self;
  double jumped = 0, jumps = 0;
  for (int i = 0; i < GROUPS; i++) jumped += s->group[i].jumped, jumps += s->group[i].jumps;
  about->accept = jumped / jumps;
}

static void end(void *self) {
  sampler *s = self;
  atvi_infer_exact_close(&s->moves);
}

atvi_status atvi_infer_exact_begin(atvi_vi *v, const atvi_vi_weights *w, const atvi_exact_moves *where,
                                   atvi_chains **out) {
  static const atvi_chains_ops OPS = {.name = "exact sampler",
                                      .run = run,
                                      .warm_up = warm_up,
                                      .further = further,
                                      .made = made,
                                      .state = state,
                                      .end = end};
  sampler *s = atvi_pool_take(v->pool, 1, sizeof *s);
  *out = NULL;
  if (!s) return ATVI_ENOMEM;
  s->c = (atvi_chains){.ctx = v->ctx, .ev = v->ev, .pool = v->pool, .ops = &OPS, .self = s};
  s->v = v;
  s->moves = *where;
  atvi_status status = sampler_open(s);
  if (status == ATVI_OK) {
    atvi_infer_vi_starts(v, w, CHAINS, s->start);
    *out = &s->c;
  } else {
    end(s);
  }
  return status;
}

/* Updates along lines: slice sampling (Neal 2003) without stepping out, in xi.
 *
 * Why     Where q is wrong (necks and wide ends of funnels: hierarchical models) jumps are refused for
 *         thousands of iterations, and the flow's coordinates are distorted. Hamiltonian moves in the frame
 *         have one step for all directions, which the narrowest decides: they crawl. Along one coordinate the
 *         conditional distribution has a width of its own, and a slice finds it by itself.
 * Lines   half of them parallel to an axis, half along a column of the Cholesky factor of the posterior's
 *         covariance.
 * Bracket 10, 1 or 0.1 standard deviations wide, placed at random around the point, shrunk to the point at
 *         each miss. Neither the line nor the width depends on the state, and the bracket's law given the
 *         slice is the same seen from either end; a line given up after ATVI_ITERATIONS misses leaves the lane where
 *         it was. So every update leaves pi as it is. */

void atvi_infer_exact_heavy(atvi_idx d, atvi_exact_moves *s) {
  double half = 0.5 * ATVI_EXACT_DEGREES, n_half = 0.5 * (double)d;
  s->log_heavy = atvi_math_lgamma(half + n_half) - atvi_math_lgamma(half) -
                 n_half * log(2 * half * acos(-1)) - s->spread.log_det;
}

bool atvi_infer_exact_spread(atvi_pool *pool, atvi_idx d, atvi_idx n, double *x, atvi_exact_moves *s) {
  atvi_member *m = &s->spread;
  *m = (atvi_member){.whole = true};
  m->shift = atvi_pool_take(pool, (size_t)d, sizeof(double));
  m->chol = atvi_pool_take(pool, (size_t)(d * d), sizeof(double));
  s->sd = atvi_pool_take(pool, (size_t)d, sizeof(double));
  if (atvi_pool_failed(pool)) return false;
  for (atvi_idx i = 0; i < d; i++) {
    double *xi = x + i * n;
    m->shift[i] = atvi_math_mean(n, xi, NULL);
    for (atvi_idx j = 0; j < n; j++) xi[j] -= m->shift[i];
    for (atvi_idx k = 0; k <= i; k++)
      for (atvi_idx j = 0; j < n; j++) m->chol[i * d + k] += xi[j] * x[k * n + j] / (double)n;
    s->sd[i] = fmax(sqrt(m->chol[i * d + i]),
                    ATVI_ROUNDING); /* where all points are the same: it still has a line */
  }
  if (!atvi_math_cholesky(d, m->chol)) {
    memset(m->chol, 0, (size_t)(d * d) * sizeof *m->chol);
    for (atvi_idx i = 0; i < d; i++) m->chol[i * d + i] = s->sd[i];
  }
  for (atvi_idx i = 0; i < d; i++) m->log_det += log(m->chol[i * d + i]);
  atvi_infer_exact_heavy(d, s);
  return true;
}

/* Where a lane is on its line, x = y + at * direction. */
typedef struct {
  double level, lo, hi, at; /* log of the height of the slice; bracket; the point tried */
  int left, tries;          /* lines to do, this one too; points tried on it */
} line;

/* A new line for a lane at g->y, where log pi is g->row[1]: its direction goes to g->x. */
static void line_begin(const atvi_exact_moves *s, atvi_exact_group *g, int i, atvi_rng *r, line *c) {
  atvi_idx d = s->v->d, axis = (atvi_idx)(atvi_math_rng_uniform(r) * (double)d);
  bool turned = atvi_math_rng_uniform(r) < 0.5;
  for (atvi_idx j = 0; j < d; j++)
    g->x[j * L + i] = turned ? (j >= axis ? s->spread.chol[j * d + axis] : 0) : j == axis ? s->sd[j] : 0;
  double width = pow(10, 1 - (int)(ATVI_SIZES * atvi_math_rng_uniform(r)));
  c->level = g->row[1][i] + log(atvi_math_rng_uniform(r));
  c->lo = -width * atvi_math_rng_uniform(r);
  c->hi = c->lo + width;
  c->tries = 0;
}

/* The point tried is on the slice, or the bracket shrinks to it. Returns whether the line is done. */
static bool line_judge(const atvi_exact_moves *s, atvi_exact_group *g, int i, line *c) {
  const atvi_exact_point *p = &g->next;
  if (p->log_pi[i] >= c->level) {
    atvi_infer_exact_take_lane(s->v->d, i, p->x, g->y);
    atvi_infer_exact_take_lane(1, i, p->log_pi, g->row[1]);
    return true;
  }
  *(c->at < 0 ? &c->lo : &c->hi) = c->at;
  return ++c->tries == ATVI_ITERATIONS;
}

/* Lanes do not wait for each other from line to line: on some the slice is found at once, on others after a
 * dozen tries. */
void atvi_infer_exact_lines(const atvi_exact_moves *s, atvi_exact_group *g, int worker, atvi_rng *r) {
  atvi_idx d = s->v->d;
  atvi_exact_point *p = &g->next;
  line c[L];
  int busy = L;
  memcpy(g->y, g->now.x, (size_t)(d * L) * sizeof *g->y);
  memcpy(g->row[1], g->now.log_pi, L * sizeof *g->row[1]);
  for (int i = 0; i < L; i++) {
    c[i].left = s->lines;
    line_begin(s, g, i, &r[i], &c[i]);
  }
  while (busy > 0) {
    for (int i = 0; i < L; i++) {
      c[i].at = c[i].left > 0 ? c[i].lo + (c[i].hi - c[i].lo) * atvi_math_rng_uniform(&r[i]) : 0;
      for (atvi_idx j = 0; j < d; j++) p->x[j * L + i] = g->y[j * L + i] + c[i].at * g->x[j * L + i];
    }
    atvi_infer_space_eval_on(
        s->v->space, worker,
        &(atvi_space_batch){.B = L, .x = p->x, .beta = 1, .theta = p->theta, .log_pi = p->log_pi});
    for (int i = 0; i < L; i++) {
      if (c[i].left == 0 || !line_judge(s, g, i, &c[i])) continue;
      if (--c[i].left == 0)
        busy--;
      else
        line_begin(s, g, i, &r[i], &c[i]);
    }
  }
  memcpy(p->x, g->y, (size_t)(d * L) * sizeof *p->x);
}
