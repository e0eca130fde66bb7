/* SPDX-License-Identifier: MIT */
/* What lies beyond the draws of largest weight. Weights know of no place where there are no draws: where q
 * ends too early, at the tip of a ridge or in the neck of a scale, they grow towards its end, and k-hat says
 * how fast, not how much of the posterior is behind it. So chains that leave the posterior as it is start at
 * these draws, by their weights, and take a few Hamiltonian steps. Where q has all of the posterior they come
 * back; where it has not they go on outwards, to where log pi - log q is larger than at any draw. Such points
 * are covered like those that the search for what q misses has found (vi_modes.c), and all is weighed
 * again. */
#include "infer/vi_exact.h"
#include "math/stat/stat.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
  L = ATVI_LANES,
  ITERATIONS = 5, /* after which steps are adapted, and states are looked at */
  LOOKS = 3,      /* points that come back do so within them */
};
static const uint32_t NUMBERS = UINT32_MAX / 8; /* of iterations: no other phase has these */

typedef struct {
  atvi_vi *v;
  atvi_exact_moves moves;
  /* [groups] */
  atvi_exact_group *group;
  atvi_idx groups;
  /* [d][L groups] where chains start */
  double *start;
  /* [2][n_part] */
  double *log_step;
  /* the first iteration of a look */
  uint32_t at;
  /* log pi - log q of the draw where it is largest */
  double top;
  /* log pi - log q from which on q lacks the posterior */
  double large;
  /* Chains start at draws of this weight and more, which have this share of the posterior. */
  double least, share;
  /* [L groups] whether a chain was beyond all draws at the last look; at the first one so many were, and of
   * those that were at a look but the last, so many had come back at the next. */
  bool *out;
  int went, were, back;
} frontier;

static double *reals(frontier *f, atvi_idx n) {
  return atvi_pool_take(f->v->pool, (size_t)n, sizeof(double));
}

/* As many chains as a look for what q misses has runs, but no more than draws of a place. */
static atvi_idx groups_wanted(const atvi_vi *v) {
  double runs = v->tuning.look_cost * (double)atvi_model_evaluator_count(v->ev);
  double each = ATVI_VI_GRADIENT_RUNS * ITERATIONS * LOOKS * ATVI_EXACT_LEAPS / 2;
  return (atvi_idx)fmax(ATVI_REPEATS, fmin(runs / each, ATVI_VI_PROBES) / L);
}

/* The largest weights, from f->least on, with so much of the posterior at least: f->share. */
static void choose_least(frontier *f, const atvi_vi_weights *w, double want) {
  double *sorted = w->part_q;
  memcpy(sorted, w->w, (size_t)w->c.n * sizeof *sorted);
  qsort(sorted, (size_t)w->c.n, sizeof *sorted, atvi_math_by_value);
  for (atvi_idx k = w->c.n - 1; k >= 0 && f->share < want; k--) f->share += f->least = sorted[k];
}

/* Systematically by weight, among the draws of large weight. */
static void choose_starts(frontier *f, const atvi_vi_weights *w) {
  const atvi_vi *v = f->v;
  atvi_idx n = L * f->groups, j = -1;
  double sum = 0;
  f->top = -HUGE_VAL;
  for (atvi_idx k = 0; k < w->c.n; k++) f->top = fmax(f->top, w->c.log_pi[k] - w->c.log_q[k]);
  for (atvi_idx k = 0; k < n; k++) {
    double level = ((double)k + 0.5) / (double)n * f->share;
    while (j < w->c.n - 1 && (j < 0 || sum < level || w->w[j] < f->least))
      sum += w->w[++j] < f->least ? 0 : w->w[j];
    for (atvi_idx i = 0; i < v->d; i++) f->start[i * n + k] = w->c.x[i * w->c.cap + j];
  }
}

static atvi_status open(frontier *f, const atvi_vi_weights *w, double want) {
  atvi_vi *v = f->v;
  double *x = reals(f, v->d * ATVI_VI_LOOK);
  f->groups = groups_wanted(v);
  f->start = reals(f, v->d * L * f->groups);
  f->log_step = reals(f, 2 * v->n_part);
  f->group = atvi_pool_take(v->pool, (size_t)f->groups, sizeof *f->group);
  f->out = atvi_pool_take(v->pool, (size_t)(L * f->groups), sizeof *f->out);
  if (atvi_pool_failed(v->pool)) return ATVI_ENOMEM;
  for (atvi_idx k = 0; k < f->groups; k++) {
    f->group[k].chain = (uint32_t)(k * L);
    atvi_infer_exact_group_make(v->pool, v->d, v->n_part, &f->group[k]);
  }
  atvi_infer_vi_starts(v, w, ATVI_VI_LOOK, x);
  if (!atvi_infer_exact_spread(v->pool, v->d, ATVI_VI_LOOK, x, &f->moves)) return ATVI_ENOMEM;
  f->moves.stays = true;
  ATVI_TRY(atvi_infer_exact_open(v, &f->moves));
  for (atvi_idx k = 0; k < 2 * v->n_part; k++) f->log_step[k] = log(f->moves.step[k]);
  choose_least(f, w, want);
  choose_starts(f, w);
  return ATVI_OK;
}

static void move(void *arg, atvi_idx item, int worker) {
  frontier *f = arg;
  atvi_exact_group *g = &f->group[item];
  atvi_idx n = L * f->groups;
  if (f->at == 0) {
    for (atvi_idx i = 0; i < f->v->d; i++)
      memcpy(g->next.x + i * L, f->start + i * n + item * L, L * sizeof(double));
    atvi_infer_exact_place(&f->moves, g, worker, g->next.x);
  }
  for (uint32_t k = 0; k < ITERATIONS; k++) atvi_infer_exact_step(&f->moves, g, worker, NUMBERS + f->at + k);
}

static void adapt(frontier *f, int look) {
  double wanted = atvi_infer_chains_defaults().accept;
  atvi_infer_exact_adapt(&f->moves, f->groups, f->group, look, wanted, f->log_step);
  for (atvi_idx k = 0; k < 2 * f->v->n_part; k++) f->moves.step[k] = exp(f->log_step[k]);
}

/* Adds the states where q lacks the posterior, and counts who goes beyond all draws and who comes back. */
static void collect(frontier *f, atvi_cloud *c) {
  for (atvi_idx g = 0; g < f->groups; g++)
    for (int i = 0; i < L; i++) {
      const atvi_exact_point *p = &f->group[g].now;
      bool *out = &f->out[g * L + i], was = *out;
      *out = p->log_pi[i] - p->log_q[i] > f->top;
      f->went += *out && f->at == 0;
      f->were += was;
      f->back += was && !*out;
      if (!(p->log_pi[i] - p->log_q[i] > f->large)) continue;
      for (atvi_idx j = 0; j < f->v->d; j++) c->x[j * c->cap + c->n] = p->x[j * L + i];
      c->log_pi[c->n++] = p->log_pi[i];
    }
}

static atvi_status look(frontier *f, atvi_cloud *c) {
  if (!atvi_infer_vi_cloud(f->v->pool, f->v->d, LOOKS * L * f->groups, c)) return ATVI_ENOMEM;
  c->n = 0;
  for (int k = 0; k < LOOKS && !atvi_infer_vi_late(f->v); k++) {
    f->at = (uint32_t)(k * ITERATIONS);
    atvi_parallel(f->v->ctx, f->groups, move, f);
    collect(f, c);
    adapt(f, k);
  }
  return ATVI_OK;
}

bool atvi_infer_vi_is_thin(const atvi_vi_weights *w) {
  return atvi_infer_vi_permits(w) && w->far > ATVI_SLIGHT;
}

bool atvi_infer_vi_has_frontier(const atvi_vi_weights *w) {
  return atvi_infer_vi_permits(w) && w->lacking > ATVI_SLIGHT / 2;
}

atvi_status atvi_infer_vi_beyond(atvi_vi *v, const atvi_vi_weights *w, bool fill, double *share) {
  frontier f = {.v = v, .large = w->psis.log_mean + v->tuning.missed};
  atvi_infer_vi_tell(v, "other modes", 0.9, "beyond the largest weights");
  atvi_status status = open(&f, w, fill ? w->lacking : fmax(w->lacking, ATVI_SLIGHT));
  if (status == ATVI_OK) status = look(&f, &v->search.missing);
  atvi_infer_exact_close(&f.moves);
  ATVI_TRY(status);
  *share = f.share * (double)f.went / (double)(L * f.groups) * (f.were + 1.0) / (f.back + 1.0);
  return fill || *share > ATVI_VI_UNSEEN / 2 ? atvi_infer_vi_cover_rim(v) : ATVI_OK;
}
