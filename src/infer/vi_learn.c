/* SPDX-License-Identifier: MIT */
/* Training on a stand-in for the likelihood (stand_in.h), for models whose runs are what a fit costs.
 *
 * A lesson is a few hundred draws of q, run with their gradients, and some of a wider q, which show how the
 * likelihood falls off. They say what draws of q are worth, and join those of earlier lessons. The stand-in
 * is fitted to all of them, and q is trained and fine-tuned on it until the ELBO no longer improves, which
 * takes no run of the model. Where q goes astray because the stand-in is wrong, the next lesson is taken
 * there, and puts it right. Lessons go on while one is expected to save more runs than it takes
 * (vi_budget.c).
 *
 * Points are kept as parameters, with gradients by them, so that they serve whatever the coordinates are.
 * Parameters whose posterior reaches a bound are folded after the first lessons, which then go on under the
 * fold; what draws are worth decides which stays. */
#include "infer/vi_state.h"
#include "math/linalg.h"
#include "math/rng.h"
#include <math.h>
#include <string.h>

enum {
  LESSON = ATVI_VI_TEST,
  WIDE = ATVI_VI_PROBES, /* draws of a lesson that are wider than q */
  OWN = LESSON - WIDE,   /* draws of q */
};
#define PER_DIM                                                                                              \
  2.0 /* effective draws per dimension: with fewer, hardly any point is where the posterior is */

struct atvi_vi_lessons {
  atvi_stand_in *stand_in;
  /* Points of all lessons. */
  atvi_cloud seen;
  /* [d][cap] and [cap]: what the stand-in is fitted to. */
  double *u, *du, *value, *weight;
  /* [d] maps before any was folded. */
  atvi_map *map;
  double *log_w;       /* [OWN] of the last lesson */
  double *mean, *chol; /* [d], [d][d] scratch */
  atvi_pool *pool;
};
typedef struct atvi_vi_lessons lessons;

void atvi_infer_vi_lessons_free(struct atvi_vi_lessons *c) {
  if (!c) return;
  atvi_infer_stand_in_free(c->stand_in);
  atvi_pool_free(c->pool);
}

/* The object itself is in its pool. */
static atvi_status lessons_new(atvi_vi *v, lessons **out) {
  const size_t cap = LESSON * ATVI_ROUNDS, d = (size_t)v->d;
  atvi_pool *pool;
  *out = NULL;
  ATVI_TRY(atvi_pool_new(v->ctx, &pool));
  lessons *c = atvi_pool_take(pool, 1, sizeof *c);
  if (!c) {
    atvi_pool_free(pool);
    return ATVI_ENOMEM;
  }
  *c = (lessons){.pool = pool};
  *out = c;
  if (!atvi_infer_vi_cloud(pool, v->d, (atvi_idx)cap, &c->seen)) return ATVI_ENOMEM;
  c->seen.dlik = atvi_pool_take(pool, d * cap, sizeof(double));
  c->u = atvi_pool_take(pool, d * cap, sizeof(double));
  c->du = atvi_pool_take(pool, d * cap, sizeof(double));
  c->value = atvi_pool_take(pool, cap, sizeof(double));
  c->weight = atvi_pool_take(pool, cap, sizeof(double));
  c->map = atvi_pool_take(pool, d, sizeof *c->map);
  c->log_w = atvi_pool_take(pool, OWN, sizeof(double));
  c->mean = atvi_pool_take(pool, d, sizeof(double));
  c->chol = atvi_pool_take(pool, d * d, sizeof(double));
  ATVI_TRY(atvi_pool_status(pool));
  memcpy(c->map, v->space->map, d * sizeof *c->map);
  return atvi_infer_stand_in_new(v->ctx, v->d, &c->stand_in);
}

/* ---- lessons ---- */

static bool has_room(const lessons *c) { return c->seen.n + LESSON <= c->seen.cap; }

/* Draws of m, and wider ones, join those seen. What those of m are worth. */
static atvi_vi_worth take_lesson(atvi_vi *v, lessons *c, const atvi_member *m) {
  atvi_cloud *seen = &c->seen;
  atvi_idx at = seen->n;
  atvi_member wide = *m;
  wide.chol = c->chol;
  wide.whole = true;
  const double wider = v->tuning.inflate * v->tuning.inflate;
  for (atvi_idx i = 0; i < v->d * v->d; i++) wide.chol[i] = wider * m->chol[i];
  atvi_elbo_lot own = {ATVI_STREAM_TRAIN, v->scramble++, 0, OWN, true};
  atvi_elbo_lot far = {ATVI_STREAM_TRAIN, v->scramble++, 0, WIDE, false};
  atvi_infer_elbo_draw(v->elbo, m, &own, seen, at);
  atvi_infer_elbo_draw(v->elbo, &wide, &far, seen, at + OWN);
  seen->n += LESSON;
  for (atvi_idx j = 0; j < OWN; j++) c->log_w[j] = seen->log_pi[at + j] - seen->log_q[at + j];
  return atvi_infer_vi_worth_of(v, OWN, c->log_w);
}

/* What the draws of q in the last lesson say of the prior. */
static double gained(const atvi_vi *v, const lessons *c) {
  atvi_cloud l = c->seen;
  atvi_idx at = l.n - LESSON;
  l.log_pi += at;
  l.log_base += at;
  l.n = OWN;
  return atvi_infer_vi_gained(v, &l, c->log_w);
}

/* ---- the stand-in ---- */

/* Usable points seen, as parameters, to c->u ...; returns how many. A usual draw of the posterior is d/2
 * below the highest: what is another d/2 below counts less. */
static atvi_idx gather(const atvi_vi *v, lessons *c) {
  const atvi_cloud *seen = &c->seen;
  atvi_idx d = v->d, n = 0, at = 0;
  double top = -HUGE_VAL;
  for (atvi_idx j = 0; j < seen->n; j++) {
    bool good = isfinite(seen->log_pi[j]);
    for (atvi_idx i = 0; i < d; i++) good = good && isfinite(seen->dlik[i * seen->cap + j]);
    c->weight[j] = good ? seen->log_pi[j] : -HUGE_VAL;
    top = fmax(top, c->weight[j]);
    n += good;
  }
  for (atvi_idx j = 0; j < seen->n; j++) {
    if (!(c->weight[j] > -HUGE_VAL)) continue;
    for (atvi_idx i = 0; i < d; i++) {
      c->u[i * n + at] = seen->theta[i * seen->cap + j];
      c->du[i * n + at] = seen->dlik[i * seen->cap + j];
    }
    c->value[at] = seen->log_lik[j];
    /* points below the usual count less, but not as little as their density says */
    c->weight[at++] = exp(ATVI_HALF * fmin(0, c->weight[j] - top + (double)d));
  }
  return n;
}

/* Mean and covariance (its factor) of the n points in c->u. */
static bool frame(lessons *c, atvi_idx d, atvi_idx n) {
  double sum = 0, *mean = c->mean, *cov = c->chol;
  memset(mean, 0, (size_t)d * sizeof *mean);
  memset(cov, 0, (size_t)(d * d) * sizeof *cov);
  for (atvi_idx j = 0; j < n; j++) sum += c->weight[j];
  for (atvi_idx i = 0; i < d; i++)
    for (atvi_idx j = 0; j < n; j++) mean[i] += c->weight[j] * c->u[i * n + j] / sum;
  for (atvi_idx i = 0; i < d; i++)
    for (atvi_idx k = 0; k <= i; k++)
      for (atvi_idx j = 0; j < n; j++)
        cov[i * d + k] += c->weight[j] * (c->u[i * n + j] - mean[i]) * (c->u[k * n + j] - mean[k]) / sum;
  return atvi_math_cholesky(d, cov);
}

/* Points that a map takes to infinity, or whose gradient it does, do not count. */
static void leave_out(const lessons *c, atvi_idx d, atvi_idx n) {
  for (atvi_idx j = 0; j < n; j++)
    for (atvi_idx i = 0; i < d; i++) {
      double *u = &c->u[i * n + j], *du = &c->du[i * n + j];
      if (isfinite(*u) && isfinite(*du)) continue;
      *u = *du = c->weight[j] = 0;
    }
}

/* Fits the stand-in to all points seen, in the present coordinates and their own frame, or that of m. */
static atvi_status study(atvi_vi *v, lessons *c, const atvi_member *m) {
  double left;
  atvi_idx n = gather(v, c);
  atvi_infer_space_inv(v->space, n, c->u, c->u);
  atvi_infer_space_pull(v->space, n, c->u, c->du, c->du);
  leave_out(c, v->d, n);
  bool own = frame(c, v->d, n);
  atvi_stand_in_data data = {n, c->u, c->du, c->value, c->weight};
  return atvi_infer_stand_in_fit(c->stand_in, own ? c->mean : m->shift, own ? c->chol : m->chol, &data,
                                 &left);
}

/* Trains and fine-tunes m on the stand-in. */
static atvi_status practise(atvi_vi *v, lessons *c, atvi_member *m) {
  atvi_vi_rounds_opts o = {.beta = 1,
                           .step = HUGE_VAL,
                           .most = ATVI_REPEATS,
                           .halvings = (int)v->tuning.halvings,
                           .last = v->size,
                           .thorough = true};
  ATVI_TRY(study(v, c, m));
  v->space->stand_in = c->stand_in;
  atvi_infer_vi_rounds(v, m, &o);
  if (v->family.ops->score) atvi_infer_vi_tune(v, m, (int)v->tuning.round_steps / 2);
  v->space->stand_in = NULL;
  return ATVI_OK;
}

/* ---- learning ---- */

/* At most so many lessons from m on, which is worth *now; the best q in m, and what it is worth in *now. */
static atvi_status learn(atvi_vi *v, lessons *c, atvi_member *m, double part, int most, atvi_vi_worth *now,
                         bool *enough) {
  atvi_member at;
  atvi_vi_worth best = *now, before = {0};
  if (!atvi_infer_vi_member_new(v, NULL, NULL, &at)) return ATVI_ENOMEM;
  atvi_infer_vi_member_copy(v, m, &at);
  for (int k = 0, idle = 0;
       k < most && !*enough && idle < ATVI_REPEATS && has_room(c) && !atvi_infer_vi_over(v); k++) {
    ATVI_TRY(practise(v, c, &at));
    *now = take_lesson(v, c, &at);
    idle = now->share > (1 + ATVI_SLIGHT) * best.share ? 0 : idle + 1;
    *enough = atvi_infer_vi_is_enough(v, part, ATVI_VI_GRADIENT_RUNS * LESSON,
                                      before.share > 0 ? &before : NULL, now);
    if (now->share > best.share || *enough) {
      atvi_infer_vi_member_copy(v, &at, m);
      best = *now;
    } else if (now->share < ATVI_HALF * best.share) { /* q went where the stand-in is wrong */
      atvi_infer_vi_member_copy(v, m, &at);
    }
    before = *now;
  }
  *now = best;
  return ATVI_OK;
}

/* Parameters whose posterior reaches a bound are folded; folds stay if draws are worth as much after a lesson
 * under them as after m's first. */
static atvi_status try_folds(atvi_vi *v, lessons *c, atvi_member *m, double part, atvi_vi_worth *now,
                             bool *enough) {
  size_t bytes = (size_t)v->d * sizeof(atvi_map);
  atvi_map *old = atvi_pool_take(v->pool, (size_t)v->d, sizeof *old);
  atvi_member there_at;
  bool one_sided, enough_there = false;
  if (!old || !atvi_infer_vi_member_new(v, NULL, NULL, &there_at)) return ATVI_ENOMEM;
  memcpy(old, v->space->map, bytes);
  v->space->stand_in = c->stand_in;
  atvi_cloud draws = atvi_infer_vi_glance(v, m, ATVI_VI_TEST);
  v->space->stand_in = NULL; /* whose coordinates are those of the old maps */
  bool able = atvi_infer_vi_fold(v, &draws, &one_sided);
  double *log_w = draws.log_lik; /* which nobody asks for */
  for (atvi_idx j = 0; j < draws.n; j++) log_w[j] = draws.log_pi[j] - draws.log_q[j];
  if (able && atvi_infer_vi_follow(v, &there_at, &draws, log_w)) {
    atvi_vi_worth there = {0};
    atvi_infer_vi_slopes(v, &draws);
    ATVI_TRY(learn(v, c, &there_at, part, 1, &there, &enough_there));
    if (there.share > (one_sided ? 1 : (1 - ATVI_SLIGHT)) * now->share) {
      atvi_infer_vi_member_copy(v, &there_at, m);
      *now = there;
      *enough = enough_there;
      return ATVI_OK;
    }
  }
  memcpy(v->space->map, old, bytes);
  return ATVI_OK;
}

bool atvi_infer_vi_can_learn(const atvi_vi *v) {
  return atvi_infer_vi_is_dear(v) && v->d >= ATVI_VI_FEW && atvi_infer_stand_in_allowed(v->d) > 2 &&
         v->space->from_prior;
}

static bool folded(const atvi_vi *v) {
  bool any = false;
  for (atvi_idx i = 0; i < v->d; i++) any = any || v->space->map[i].kind == ATVI_MAP_SURJECTION;
  return any;
}

static atvi_status attend(atvi_vi *v, lessons *c, atvi_member *m, double part, bool maps, bool *enough) {
  if (!has_room(c)) return ATVI_OK;
  atvi_vi_worth now = take_lesson(v, c, m);
  bool able = now.share * OWN > PER_DIM * (double)v->d;
  bool first = c->seen.n == LESSON; /* else what was good enough for a lesson was not for more draws */
  *enough = first && atvi_infer_vi_is_enough(v, part, ATVI_VI_GRADIENT_RUNS * LESSON, NULL, &now) &&
            !(maps && atvi_infer_vi_log_loses(v, m));
  if (!*enough && able) {
    if (first) ATVI_TRY(learn(v, c, m, part, 1, &now, enough));
    if (maps && !folded(v)) ATVI_TRY(try_folds(v, c, m, part, &now, enough));
    ATVI_TRY(learn(v, c, m, part, ATVI_ROUNDS, &now, enough));
  }
  if (maps) v->outcome.gained = gained(v, c);
  return ATVI_OK;
}

atvi_status atvi_infer_vi_learn(atvi_vi *v, atvi_member *m, bool *enough) {
  *enough = false;
  if (!v->lessons) ATVI_TRY(lessons_new(v, &v->lessons));
  return attend(v, v->lessons, m, 1, true, enough);
}

atvi_status atvi_infer_vi_learn_more(atvi_vi *v, atvi_member *m, bool *enough) {
  *enough = false;
  return v->lessons ? attend(v, v->lessons, m, 1, false, enough) : ATVI_OK;
}

atvi_status atvi_infer_vi_learn_part(atvi_vi *v, atvi_member *m, double part, bool *enough) {
  lessons *c;
  *enough = false;
  if (!atvi_infer_vi_can_learn(v)) return ATVI_OK;
  atvi_status status = lessons_new(v, &c);
  if (status == ATVI_OK) status = attend(v, c, m, part, false, enough);
  atvi_infer_vi_lessons_free(c);
  return status;
}

void atvi_infer_vi_unlearn(atvi_vi *v) {
  if (!v->lessons) return;
  memcpy(v->space->map, v->lessons->map, (size_t)v->d * sizeof *v->space->map);
  atvi_infer_vi_lessons_free(v->lessons);
  v->lessons = NULL;
}
