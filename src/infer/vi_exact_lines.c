/* SPDX-License-Identifier: MIT */
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
 *         slice is the same seen from either end; a line given up after SHRINKS misses leaves the lane where
 *         it was. So every update leaves pi as it is. */
#include "infer/vi_exact.h"
#include "math/linalg.h"
#include "math/special.h"
#include "math/stat/stat.h"
#include <math.h>
#include <string.h>

enum {
  L = ATVI_LANES,
  WIDTHS = 3,   /* brackets of 10, 1 and 0.1 standard deviations: wide end, middle and neck of a funnel */
  SHRINKS = 20, /* points tried on a line: a bracket is then e^-10 of what it was */
};
/* Standard deviation of a coordinate in which all points are the same: it still has a line. */
#define LEAST 1e-10

bool atvi_exact_spread(atvi_pool *pool, atvi_idx d, atvi_idx n, double *x, atvi_exact_moves *s) {
  atvi_member *m = &s->spread;
  *m = (atvi_member){.whole = true};
  m->shift = atvi_pool_take(pool, (size_t)d, sizeof(double));
  m->chol = atvi_pool_take(pool, (size_t)(d * d), sizeof(double));
  s->sd = atvi_pool_take(pool, (size_t)d, sizeof(double));
  if (atvi_pool_failed(pool)) return false;
  for (atvi_idx i = 0; i < d; i++) {
    double *xi = x + i * n;
    m->shift[i] = atvi_mean(n, xi, NULL);
    for (atvi_idx j = 0; j < n; j++) xi[j] -= m->shift[i];
    for (atvi_idx k = 0; k <= i; k++)
      for (atvi_idx j = 0; j < n; j++) m->chol[i * d + k] += xi[j] * x[k * n + j] / (double)n;
    s->sd[i] = fmax(sqrt(m->chol[i * d + i]), LEAST);
  }
  if (!atvi_cholesky(d, m->chol)) {
    memset(m->chol, 0, (size_t)(d * d) * sizeof *m->chol);
    for (atvi_idx i = 0; i < d; i++) m->chol[i * d + i] = s->sd[i];
  }
  for (atvi_idx i = 0; i < d; i++) m->log_det += log(m->chol[i * d + i]);
  double half = 0.5 * ATVI_EXACT_DEGREES, n_half = 0.5 * (double)d;
  s->log_heavy =
      atvi_lgamma(half + n_half) - atvi_lgamma(half) - n_half * log(2 * half * acos(-1)) - m->log_det;
  return true;
}

/* Where a lane is on its line, x = y + at * direction. */
typedef struct {
  double level, lo, hi, at; /* log of the height of the slice; bracket; the point tried */
  int left, tries;          /* lines to do, this one too; points tried on it */
} line;

/* A new line for a lane at g->y, where log pi is g->row[1]: its direction goes to g->x. */
static void line_begin(const atvi_exact_moves *s, atvi_exact_group *g, int i, atvi_rng *r, line *c) {
  atvi_idx d = s->v->d, axis = (atvi_idx)(atvi_rng_uniform(r) * (double)d);
  bool turned = atvi_rng_uniform(r) < 0.5;
  for (atvi_idx j = 0; j < d; j++)
    g->x[j * L + i] = turned ? (j >= axis ? s->spread.chol[j * d + axis] : 0) : j == axis ? s->sd[j] : 0;
  double width = pow(10, 1 - (int)(WIDTHS * atvi_rng_uniform(r)));
  c->level = g->row[1][i] + log(atvi_rng_uniform(r));
  c->lo = -width * atvi_rng_uniform(r);
  c->hi = c->lo + width;
  c->tries = 0;
}

/* The point tried is on the slice, or the bracket shrinks to it. Returns whether the line is done. */
static bool line_judge(const atvi_exact_moves *s, atvi_exact_group *g, int i, line *c) {
  const atvi_exact_point *p = &g->next;
  if (p->log_pi[i] >= c->level) {
    atvi_exact_take_lane(s->v->d, i, p->x, g->y);
    atvi_exact_take_lane(1, i, p->log_pi, g->row[1]);
    return true;
  }
  *(c->at < 0 ? &c->lo : &c->hi) = c->at;
  return ++c->tries == SHRINKS;
}

/* Lanes do not wait for each other from line to line: on some the slice is found at once, on others after a
 * dozen tries. */
void atvi_exact_lines(const atvi_exact_moves *s, atvi_exact_group *g, int worker, atvi_rng *r) {
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
      c[i].at = c[i].left > 0 ? c[i].lo + (c[i].hi - c[i].lo) * atvi_rng_uniform(&r[i]) : 0;
      for (atvi_idx j = 0; j < d; j++) p->x[j * L + i] = g->y[j * L + i] + c[i].at * g->x[j * L + i];
    }
    atvi_space_eval_on(
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
