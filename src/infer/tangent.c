/* SPDX-License-Identifier: MIT */
/* Gradients against tangents. For a direction v, reverse mode gives g . v and forward mode the same number T
 * by another way, so that nothing but rounding is between them, however rough the density is or stiff the
 * equations are.
 *
 * Prior and likelihood are compared each by itself, in directions in which every parameter has about the same
 * say,
 *
 *     v_i = +-u / max(|g_i|, ATVI_TINY max_j |g_j| w_j / w_i),   1/2 < u < 3/2,   w: the widths of the parameters,
 *
 * and the difference is taken relative to sum_i |g_i v_i|. Where it is larger than rounding makes it, each
 * parameter is compared alone.
 *
 * Rounding is measured, since steps of a solver that stability limits magnify it by any factor: tangents are
 * linear in v, and by as much as those in the directions a + b and a - b differ from the sum and the
 * difference of those in a and b they are rounding. Reverse mode goes through the transposes of the same
 * matrices, and has as much of it. */
#include "infer/chains.h"
#include "infer/optimum.h"
#include "infer/vi_tuning.h"
#include "math/rng.h"
#include <math.h>

enum { DIRECTIONS = ATVI_LANES / 2 }; /* of the prior, and as many of the likelihood */
/* ATVI_ROUNDED is the relative difference that rounding may make where little of it is seen in tangents:
 * 2e-12 in the examples, 1e-10 in the targets of bench/trust, 1e-9 where implicit steps solve for states of
 * very different sizes. Wrong rules are wrong in the first digits. */
/* Times the rounding that was seen, of which there are two samples, is rounding. */
#define SAFETY (1 / ATVI_SLIGHT)

typedef struct {
  atvi_ctx *ctx;
  const atvi_target *t;
  void *work;
  atvi_rng rng;
  double *at;        /* [d] the point */
  double *grad[2];   /* [d] gradients of log prior and log likelihood */
  double *scale[2];  /* [d] lengths of directions */
  double *theta, *v; /* [d][2 DIRECTIONS] */
  double *dot[2];    /* [2 DIRECTIONS] */
  bool *wrong;       /* [d] */
  double tol[2];     /* at this point */
  atvi_tangent_info *info;
} comparing;

static comparing carve(atvi_arena *a, atvi_idx d) {
  comparing c = {0};
  double **each[] = {&c.at, &c.grad[0], &c.grad[1], &c.scale[0], &c.scale[1]};
  for (size_t i = 0; i < sizeof each / sizeof *each; i++) ATVI_TAKE(a, *each[i], d);
  ATVI_TAKE(a, c.theta, d * 2 * DIRECTIONS);
  ATVI_TAKE(a, c.v, d * 2 * DIRECTIONS);
  ATVI_TAKE(a, c.dot[0], 2 * DIRECTIONS);
  ATVI_TAKE(a, c.dot[1], 2 * DIRECTIONS);
  ATVI_TAKE(a, c.wrong, d);
  return c;
}

static void set_scales(comparing *c) {
  for (int part = 0; part < 2; part++) {
    double most = 0;
    for (atvi_idx i = 0; i < c->t->d; i++)
      most = fmax(most, fabs(c->grad[part][i]) * atvi_infer_gradient_width(&c->t->param[i], c->at[i]));
    for (atvi_idx i = 0; i < c->t->d; i++) {
      const double width = atvi_infer_gradient_width(&c->t->param[i], c->at[i]);
      /* a derivative that far below the largest may be what rounding has left of larger ones */
      const double least = fmax(fabs(c->grad[part][i]), ATVI_TINY * most / width);
      c->scale[part][i] = least > 0 ? 1 / least : 1;
    }
  }
}

/* Column b of v against part `part`; relative difference. */
static double difference(const comparing *c, int part, int b, double *reverse) {
  double sum = 0, size = 0;
  for (atvi_idx i = 0; i < c->t->d; i++) {
    const double term = c->grad[part][i] * c->v[i * 2 * DIRECTIONS + b];
    sum += term, size += fabs(term);
  }
  const double off = fabs(c->dot[part][b] - sum) / fmax(size, 1);
  *reverse = sum;
  return isnan(off) ? HUGE_VAL : off;
}

static void ask(const comparing *c) {
  c->t->ops->tangent(c->t->self, c->work, 2 * DIRECTIONS, c->theta, c->v, c->dot[0], c->dot[1]);
}

/* Each parameter alone: of the prior in the first half of the columns, of the likelihood in the second. */
static atvi_status blame(comparing *c) {
  const atvi_idx d = c->t->d;
  for (atvi_idx first = 0; first < d; first += DIRECTIONS) {
    if (atvi_stop_asked(c->ctx))
      return ATVI_FAIL(c->ctx, ATVI_ESTOP, "stopped while the gradient was checked");
    for (atvi_idx i = 0; i < d; i++)
      for (int b = 0; b < 2 * DIRECTIONS; b++)
        c->v[i * 2 * DIRECTIONS + b] = i == first + b % DIRECTIONS ? c->scale[b / DIRECTIONS][i] : 0;
    ask(c);
    for (int b = 0; b < 2 * DIRECTIONS; b++) {
      const atvi_idx i = first + b % DIRECTIONS;
      const int part = b / DIRECTIONS;
      double reverse, off = i < d ? difference(c, part, b, &reverse) : 0;
      if (!(off > c->tol[part])) continue;
      if (!c->wrong[i]) c->info->wrong++;
      c->wrong[i] = true;
      if (off <= c->info->worst) continue;
      c->info->worst = off;
      c->info->param = i;
      c->info->in_prior = part == 0;
      c->info->x = c->at[i];
      c->info->gradient = c->grad[part][i];
      c->info->tangent = c->dot[part][b] / c->scale[part][i];
    }
  }
  return ATVI_OK;
}

/* Columns a, b, a + b, a - b of v, for the prior and for the likelihood, where the theta are the point. */
static void draw_directions(comparing *c) {
  for (atvi_idx i = 0; i < c->t->d; i++)
    for (int part = 0; part < 2; part++) {
      const atvi_idx first = i * 2 * DIRECTIONS + part * DIRECTIONS;
      double *v = c->v + first, *theta = c->theta + first;
      for (int k = 0; k < 2; k++) {
        const double u = 2 * atvi_math_rng_uniform(&c->rng) - 1;
        v[k] = (u + (u < 0 ? -0.5 : 0.5)) * c->scale[part][i];
      }
      v[2] = v[0] + v[1];
      v[3] = v[0] - v[1];
      for (int k = 0; k < DIRECTIONS; k++) theta[k] = c->at[i];
    }
}

/* By how much tangents in these directions fail to be linear, relative to what `difference` is. */
static double rounding(const comparing *c, int part) {
  const double *dot = c->dot[part] + part * DIRECTIONS;
  double size = 0;
  for (atvi_idx i = 0; i < c->t->d; i++)
    size += fabs(c->grad[part][i] * c->v[i * 2 * DIRECTIONS + part * DIRECTIONS]);
  return fmax(fabs(dot[2] - dot[0] - dot[1]), fabs(dot[3] - dot[0] + dot[1])) / fmax(size, 1);
}

static atvi_status compare_point(comparing *c) {
  bool wrong = false;
  double reverse;
  set_scales(c);
  draw_directions(c);
  ask(c);
  for (int part = 0; part < 2; part++) c->tol[part] = fmax(ATVI_ROUNDED, SAFETY * rounding(c, part));
  /* where rounding may be that large, it says nothing that the two differ, or that they do not */
  bool known = fmax(c->tol[0], c->tol[1]) <= ATVI_TINY;
  for (int b = 0; b < 2 * DIRECTIONS; b++) known = known && !isnan(c->dot[b / DIRECTIONS][b]);
  if (!known) return ATVI_OK;
  for (int part = 0; part < 2; part++) {
    double off = 0;
    for (int k = 0; k < DIRECTIONS; k++)
      off = fmax(off, difference(c, part, part * DIRECTIONS + k, &reverse));
    wrong = wrong || off > c->tol[part];
    c->info->off = fmax(c->info->off, off);
  }
  c->info->points++;
  return wrong ? blame(c) : ATVI_OK;
}

static atvi_status compare(comparing *c, atvi_evaluator *ev, atvi_idx n, atvi_idx stride, const double *x) {
  for (atvi_idx k = 0; k < n; k++) {
    double lp, ll;
    if (atvi_stop_asked(c->ctx))
      return ATVI_FAIL(c->ctx, ATVI_ESTOP, "stopped while the gradient was checked");
    for (atvi_idx i = 0; i < c->t->d; i++) c->at[i] = x[i * stride + k];
    atvi_model_evaluator_run(ev, &(atvi_batch){.B = 1,
                                               .theta = c->at,
                                               .log_prior = &lp,
                                               .log_lik = &ll,
                                               .grad_prior = c->grad[0],
                                               .grad_lik = c->grad[1]});
    bool finite = isfinite(lp) && isfinite(ll);
    for (atvi_idx i = 0; i < c->t->d; i++) finite = finite && isfinite(c->grad[0][i] + c->grad[1][i]);
    if (finite) ATVI_TRY(compare_point(c));
  }
  return ATVI_OK;
}

atvi_status atvi_infer_gradient_tangents(atvi_ctx *ctx, atvi_evaluator *ev, atvi_idx n, atvi_idx stride,
                                         const double *x, uint64_t seed, atvi_tangent_info *info) {
  const atvi_target *t = atvi_model_evaluator_target(ev);
  atvi_arena a = {0};
  *info = (atvi_tangent_info){0};
  carve(&a, t->d);
  void *block = atvi_block(ctx, a.used);
  if (!block) return ATVI_ENOMEM;
  a = (atvi_arena){.base = block};
  comparing c = carve(&a, t->d);
  c.ctx = ctx;
  c.t = t;
  c.work = atvi_model_evaluator_work(ev);
  c.rng = atvi_math_rng_at(seed, ATVI_STREAM_CHECK, 0, 0);
  c.info = info;
  atvi_status status = compare(&c, ev, n, stride, x);
  atvi_block_free(ctx, block);
  return status;
}
