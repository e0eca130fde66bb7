/* SPDX-License-Identifier: MIT */
/* L-BFGS ascent (Nocedal and Wright, Algorithms 7.4 and 3.1) of many points in lockstep: every iteration is
 * one trial of each climb, and all trials are one batch.
 *
 * The coordinates have the prior's scale, and that sets the lengths: no step is longer than 3, the first is
 * 0.7, and where nothing is known of the curvature it is taken to be that of the prior, 1. A trial that
 * cannot be evaluated is a rejected one. Pairs without positive curvature are not stored; as long as there is
 * none, steps follow the gradient and double in length. */
#include "infer/modes.h"
#include "infer/vi_tuning.h"
#include <float.h>
#include <math.h>
#include <string.h>

/* ---- batches ---- */

atvi_status atvi_infer_climb_batch_new(const atvi_space *s, atvi_pool *pool, atvi_idx cap,
                                       atvi_climb_batch *out) {
  size_t n = (size_t)(s->d * cap);
  *out = (atvi_climb_batch){.s = s, .d = s->d, .cap = cap};
  out->x = atvi_pool_take(pool, n, sizeof(double));
  out->theta = atvi_pool_take(pool, n, sizeof(double));
  out->dx = atvi_pool_take(pool, n, sizeof(double));
  out->log_pi = atvi_pool_take(pool, (size_t)cap, sizeof(double));
  if (atvi_pool_failed(pool)) return ATVI_ENOMEM;
  return ATVI_OK;
}

void atvi_infer_climb_batch_put(atvi_climb_batch *b, atvi_idx i, double t, const double *from,
                                const double *to) {
  for (atvi_idx j = 0; j < b->d; j++) b->x[j * b->B + i] = from[j] + t * (to[j] - from[j]);
}

void atvi_infer_climb_batch_eval(atvi_climb_batch *b, bool gradient) {
  ATVI_ASSERT(b->B <= b->cap);
  if (b->B < 1) return;
  atvi_infer_space_eval(b->s, &(atvi_space_batch){.B = b->B,
                                                  .x = b->x,
                                                  .beta = 1,
                                                  .theta = b->theta,
                                                  .log_pi = b->log_pi,
                                                  .dx = gradient ? b->dx : NULL});
  b->evaluations += b->B;
}

double atvi_infer_climb_batch_get(const atvi_climb_batch *b, atvi_idx i, double *g) {
  if (!isfinite(b->log_pi[i])) return -HUGE_VAL;
  for (atvi_idx j = 0; g && j < b->d; j++)
    if (!isfinite(b->dx[j * b->B + i])) return -HUGE_VAL;
  for (atvi_idx j = 0; g && j < b->d; j++) g[j] = b->dx[j * b->B + i];
  return b->log_pi[i];
}

/* ---- one climb ---- */

void atvi_infer_climb_restart(atvi_climb *c) {
  c->f = -HUGE_VAL;
  c->gain = HUGE_VAL;
  c->length = ATVI_PART_SD;
  c->pairs = c->next = c->trials = c->small = 0;
  c->ended = false;
}

atvi_status atvi_infer_climbs_new(atvi_pool *pool, atvi_idx d, atvi_idx n, const double *start,
                                  atvi_climb **out) {
  atvi_climb *c = atvi_pool_take(pool, (size_t)n, sizeof *c);
  double *room = atvi_pool_take(pool, (size_t)(n * d * (4 + 2 * ATVI_CLIMB_PAIRS)), sizeof *room);
  *out = NULL;
  if (atvi_pool_failed(pool)) return ATVI_ENOMEM;
  for (atvi_idx k = 0; k < n; k++, room += d * (4 + 2 * ATVI_CLIMB_PAIRS)) {
    c[k] = (atvi_climb){.x = room,
                        .g = room + d,
                        .to = room + 2 * d,
                        .gt = room + 3 * d,
                        .s = room + 4 * d,
                        .y = room + (4 + ATVI_CLIMB_PAIRS) * d,
                        .fixed = -1};
    atvi_infer_climb_restart(&c[k]);
    for (atvi_idx j = 0; j < d; j++) room[j] = start[j * n + k];
  }
  *out = c;
  return ATVI_OK;
}

static double dot(atvi_idx d, const double *a, const double *b) {
  double s = 0;
  for (atvi_idx j = 0; j < d; j++) s += a[j] * b[j];
  return s;
}

static void axpy(atvi_idx d, double t, const double *x, double *y) {
  for (atvi_idx j = 0; j < d; j++) y[j] += t * x[j];
}

/* v = H g, H the inverse of the curvature seen. Where none was seen it is s's / y's of the last pair, the
 * longer of the two usual choices, and at most 1: weak directions are the slow ones, and too long a step
 * costs but one trial. */
static void quasi_newton(const atvi_climb *c, atvi_idx d, double *v) {
  double alpha[ATVI_CLIMB_PAIRS] = {0}, rho[ATVI_CLIMB_PAIRS] = {0};
  memcpy(v, c->g, (size_t)d * sizeof *v);
  for (int k = 1; k <= c->pairs; k++) {
    int i = (c->next - k + ATVI_CLIMB_PAIRS) % ATVI_CLIMB_PAIRS;
    rho[i] = 1 / dot(d, c->s + i * d, c->y + i * d);
    alpha[i] = rho[i] * dot(d, c->s + i * d, v);
    axpy(d, -alpha[i], c->y + i * d, v);
  }
  int last = (c->next - 1 + ATVI_CLIMB_PAIRS) % ATVI_CLIMB_PAIRS;
  double scale = fmin(1, rho[last] * dot(d, c->s + last * d, c->s + last * d));
  for (atvi_idx j = 0; j < d; j++) v[j] *= scale;
  for (int k = c->pairs; k >= 1; k--) {
    int i = (c->next - k + ATVI_CLIMB_PAIRS) % ATVI_CLIMB_PAIRS;
    axpy(d, alpha[i] - rho[i] * dot(d, c->y + i * d, v), c->s + i * d, v);
  }
}

/* Chooses the next full step, or ends the climb. c->to holds the step itself meanwhile. */
static void aim(atvi_climb *c, atvi_idx d) {
  double norm_g = sqrt(dot(d, c->g, c->g));
  c->gain = 0.5 * norm_g * norm_g;
  if (c->gain < ATVI_SLIGHT || c->small >= ATVI_REPEATS) {
    c->ended = true;
    return;
  }
  double *v = c->to;
  if (c->pairs > 0) {
    quasi_newton(c, d, v);
    c->slope = dot(d, c->g, v);
    if (!(c->slope > 0)) c->pairs = 0;
  }
  if (c->pairs == 0) {
    double length = fmin(fmin(2 * c->length, ATVI_CLIMB_STEP_MOST), norm_g);
    for (atvi_idx j = 0; j < d; j++) v[j] = c->g[j] * (length / norm_g);
    c->slope = norm_g * length;
  } else {
    c->gain = 0.5 * c->slope;
  }
  /* The weak directions may not be among the curvature seen: small steps in fact, too, are asked for. */
  if (c->gain < ATVI_SLIGHT && c->small > 0 && !c->strict) c->ended = true;
  c->t = fmin(1, ATVI_CLIMB_STEP_MOST / sqrt(dot(d, v, v)));
  c->trials = 0;
  axpy(d, 1, c->x, v);
}

static void accept(atvi_climb *c, atvi_idx d, double f) {
  double *s = c->s + c->next * d, *y = c->y + c->next * d;
  for (atvi_idx j = 0; j < d; j++) {
    s[j] = c->t * (c->to[j] - c->x[j]);
    y[j] = c->g[j] - c->gt[j];
  }
  double sy = dot(d, s, y), ss = dot(d, s, s), yy = dot(d, y, y);
  axpy(d, 1, s, c->x);
  memcpy(c->g, c->gt, (size_t)d * sizeof *c->g);
  c->small = f - c->f < ATVI_TINY ? c->small + 1 : 0;
  c->f = f;
  c->length = sqrt(ss);
  if (sy > 1e-10 * sqrt(ss * yy)) {
    c->next = (c->next + 1) % ATVI_CLIMB_PAIRS;
    if (c->pairs < ATVI_CLIMB_PAIRS) c->pairs++;
  }
  aim(c, d);
}

/* Shortens the step; after too many trials what is known of the curvature is forgotten, and then the climb
 * ends. */
static void reject(atvi_climb *c, atvi_idx d, double f) {
  double want = c->slope * c->t, lost = want - (f - c->f);
  double shorter = isfinite(f) ? fmin(fmax(0.5 * want / lost, 0.1), 0.5) : 0.25;
  c->t *= shorter;
  if (++c->trials < ATVI_NEWTON) return;
  if (c->pairs == 0) {
    c->ended = true;
    return;
  }
  double ss = 0;
  for (atvi_idx j = 0; j < d; j++) ss += (c->to[j] - c->x[j]) * (c->to[j] - c->x[j]);
  c->length = c->t * sqrt(ss);
  c->pairs = 0;
  aim(c, d);
}

void atvi_infer_climb_resume(atvi_climb *c, atvi_idx d) {
  c->strict = true;
  c->small = 0;
  if (!c->ended) return;
  c->ended = false;
  aim(c, d);
}

static void take(atvi_climb *c, atvi_idx d, const atvi_climb_batch *b, atvi_idx i) {
  bool first = isinf(c->f);
  double *g = first ? c->g : c->gt, f = atvi_infer_climb_batch_get(b, i, g);
  if (c->fixed >= 0) g[c->fixed] = 0;
  if (first) {
    c->f = f;
    if (isinf(f))
      c->ended = true;
    else
      aim(c, d);
  } else if (f >= c->f + ATVI_TINY * c->t * c->slope) {
    accept(c, d, f);
  } else {
    reject(c, d, f);
  }
}

bool atvi_infer_climbs_run(atvi_climb_batch *b, atvi_idx n, atvi_climb *const *climb, int iterations) {
  for (int k = 0; k < iterations; k++) {
    if (atvi_stop_asked(b->s->ctx) || (b->late && b->late(b->user))) return false;
    b->B = 0;
    for (atvi_idx i = 0; i < n; i++) b->B += !climb[i]->ended;
    if (b->B == 0) break;
    atvi_idx at = 0;
    for (atvi_idx i = 0; i < n; i++) {
      const atvi_climb *c = climb[i];
      if (!c->ended)
        atvi_infer_climb_batch_put(b, at++, isinf(c->f) ? 0 : c->t, c->x, isinf(c->f) ? c->x : c->to);
    }
    atvi_infer_climb_batch_eval(b, true);
    at = 0;
    for (atvi_idx i = 0; i < n; i++)
      if (!climb[i]->ended) take(climb[i], b->d, b, at++);
  }
  return true;
}
