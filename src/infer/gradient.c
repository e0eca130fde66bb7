/* SPDX-License-Identifier: MIT */
/* Central differences of the log density f along each parameter, with steps h of several sizes, in units of
 * the width that the parameter has:
 *
 *     D(h) = (f(x + h) - f(x - h)) / 2h,   wrong by h^2 f'''/6 and by (rounding, a solver's error) / h.
 *
 * Which size is good depends on f. A gradient that agrees with one of them is right. Else two successive
 * sizes that agree with each other are both good: the pair that agrees best is taken, and how well it does is
 * the error of D. Noise alone makes no pair agree, and so nothing is held against the gradient of a noisy f. */
#include "infer/optimum.h"
#include "infer/chains.h"
#include "infer/vi_tuning.h"
#include <float.h>
#include <math.h>

enum {
  BLOCK = ATVI_BATCH / 4, /* parameters differenced at a time: two points each */
  POINTS =
      6, /* input: points at which the gradient of a user is compared: what holds at most of them is no accident */
  MOST =
      1024, /* input: parameters compared at one point, the next ones at the next: work grows with the square of their number */
};
/* Steps in units of the width. The first is best for a smooth f in double precision; the next is tried while
 * those before disagree. Differences relative to the gradient that are no larger than the first step agree,
 * as rounding makes them; ten times as large with one step at least is no accident either, even if others
 * agree with each other, as with emulators. */
static const double STEP[] = {1e-5, 1e-6, 1e-4, 1e-3};
enum { STEPS = sizeof STEP / sizeof *STEP };
#define SAFETY (1 / ATVI_SMALL) /* times the error of a difference, which is itself a guess, is forgiven */

/* A parameter: points at which it was compared, those at which its derivative is wrong, and the worst of
 * them. */
typedef struct {
  atvi_idx points, wrong;
  double excess, x, gradient, difference;
} tally;

typedef struct {
  atvi_ctx *ctx;
  atvi_evaluator *ev;
  const atvi_target *t;
  /* points and their gradients, [d][n] */
  atvi_idx n;
  double *x, *gradient, *grad_lik;
  /* [n] f there, and its likelihood part */
  double *f, *lik;
  /* relative size of the last place of f */
  double unit;
  /* [d] one of the points, the widths there, and the smallest relative differences */
  double *at, *width, *off;
  /* [STEPS][d] differences there, and the distances over which they were taken */
  double *difference, *twice;
  /* parameters compared at that point: first .. end-1 */
  atvi_idx first, end;
  /* [d][B], [B], [B] of a block, B <= 2 BLOCK */
  double *theta, *block_prior, *block_lik;
  /* [d] */
  tally *tally;
} checking;

static checking carve(atvi_arena *a, atvi_idx d, atvi_idx n) {
  checking c = {.n = n};
  double **of_all[] = {&c.x, &c.gradient, &c.grad_lik}, **of_params[] = {&c.at, &c.width, &c.off};
  for (int k = 0; k < 3; k++) ATVI_TAKE(a, *of_all[k], d * n);
  for (int k = 0; k < 3; k++) ATVI_TAKE(a, *of_params[k], d);
  ATVI_TAKE(a, c.f, n);
  ATVI_TAKE(a, c.lik, n);
  ATVI_TAKE(a, c.difference, STEPS * d);
  ATVI_TAKE(a, c.twice, STEPS * d);
  ATVI_TAKE(a, c.theta, d * 2 * BLOCK);
  ATVI_TAKE(a, c.block_prior, 2 * BLOCK);
  ATVI_TAKE(a, c.block_lik, 2 * BLOCK);
  ATVI_TAKE(a, c.tally, d);
  return c;
}

/* ---- differences ---- */

double atvi_infer_gradient_width(const atvi_param *p, double x) {
  double w = fabs(x) > 0 ? fabs(x) : 1, range = p->upper - p->lower;
  if (isfinite(range)) w = fmax(w, 0.01 * range);
  return fmin(w, fmin(x - p->lower, p->upper - x));
}

/* f and its gradient at the points. */
static void ask_gradient(checking *c) {
  bool single = true; /* as machine learning likes it */
  atvi_model_evaluator_run(c->ev, &(atvi_batch){.B = c->n,
                                                .theta = c->x,
                                                .log_prior = c->f,
                                                .log_lik = c->lik,
                                                .grad_prior = c->gradient,
                                                .grad_lik = c->grad_lik});
  for (atvi_idx k = 0; k < c->n; k++) {
    c->f[k] += c->lik[k];
    single = single && (double)(float)c->f[k] == c->f[k];
  }
  c->unit = single ? FLT_EPSILON : DBL_EPSILON;
  for (atvi_idx i = 0; i < c->t->d * c->n; i++) c->gradient[i] += c->grad_lik[i];
}

/* Parameters first .. end-1 with step number s. */
static void ask_differences(checking *c, int s, atvi_idx first, atvi_idx end) {
  const atvi_idx d = c->t->d, B = 2 * (end - first);
  for (atvi_idx i = 0; i < d; i++)
    for (atvi_idx b = 0; b < B; b++) {
      double h = first + b / 2 == i ? STEP[s] * c->width[i] : 0;
      c->theta[i * B + b] = c->at[i] + (b % 2 ? h : -h);
    }
  atvi_batch batch = {.B = B, .theta = c->theta, .log_prior = c->block_prior, .log_lik = c->block_lik};
  atvi_model_evaluator_run(c->ev, &batch);
  for (atvi_idx i = first; i < end; i++) {
    atvi_idx b = 2 * (i - first);
    double up = c->block_prior[b + 1] + c->block_lik[b + 1], down = c->block_prior[b] + c->block_lik[b];
    c->twice[s * d + i] = c->theta[i * B + b + 1] - c->theta[i * B + b];
    c->difference[s * d + i] = (up - down) / c->twice[s * d + i];
  }
}

/* ---- judgement ---- */

/* The difference along parameter i that has the smallest error. */
static double best_difference(const checking *c, atvi_idx i, double f, double *error) {
  double before = NAN, best = NAN;
  *error = HUGE_VAL;
  for (int k = 0; k < STEPS; k++) {
    atvi_idx at = k * c->t->d + i;
    double D = c->difference[at], e = fabs(D - before) + c->unit * fabs(f) / c->twice[at];
    if (e < *error) *error = e, best = D;
    before = D;
  }
  return best;
}

/* Whether one of the differences is as good as equal. */
static bool is_near(const checking *c, atvi_idx i, double g) {
  bool any = false;
  for (int s = 0; s < STEPS; s++)
    any = any || fabs(g - c->difference[s * c->t->d + i]) < (SAFETY * STEP[0]) * fabs(g);
  return any;
}

/* Point k, with differences by all steps. */
static void judge_point(const checking *c, atvi_idx k) {
  double largest = 0, error;
  for (atvi_idx i = c->first; i < c->end; i++)
    largest = fmax(largest, fabs(best_difference(c, i, c->f[k], &error) * c->width[i]));
  for (atvi_idx i = c->first; i < c->end; i++) {
    tally *y = &c->tally[i];
    double g = c->gradient[i * c->n + k], D = best_difference(c, i, c->f[k], &error);
    double forgiven =
        ATVI_TINY * fmax(fabs(g), fabs(D)) + SAFETY * error + sqrt(c->unit) * largest / c->width[i];
    double excess = (fabs(g - D) - forgiven) / forgiven;
    if (c->off[i] <= STEP[0] || is_near(c, i, g)) continue;
    y->wrong += excess > 0;
    if (excess > y->excess) *y = (tally){y->points, y->wrong, excess, c->at[i], g, D};
  }
}

/* Point k, by as many steps as it takes. Errors: ESTOP. */
static atvi_status compare_point(checking *c, atvi_idx k, atvi_gradient_info *info) {
  const atvi_idx d = c->t->d;
  double largest = 0, worst = HUGE_VAL;
  for (atvi_idx i = 0; i < d; i++) {
    c->at[i] = c->x[i * c->n + k];
    c->width[i] = atvi_infer_gradient_width(&c->t->param[i], c->at[i]);
    c->off[i] = HUGE_VAL;
    largest = fmax(largest, fabs(c->gradient[i * c->n + k]));
  }
  c->first = d > MOST ? k * MOST % d : 0;
  c->end = c->first + MOST < d ? c->first + MOST : d;
  for (int s = 0; s < STEPS && worst > STEP[0]; s++) {
    for (atvi_idx i = c->first; i < c->end; i += BLOCK) {
      if (atvi_stop_asked(c->ctx))
        return ATVI_FAIL(c->ctx, ATVI_ESTOP, "stopped while the gradient was checked");
      ask_differences(c, s, i, i + BLOCK < c->end ? i + BLOCK : c->end);
    }
    worst = 0;
    for (atvi_idx i = c->first; i < c->end; i++) {
      double g = c->gradient[i * c->n + k], off = fabs(g - c->difference[s * d + i]);
      double least = sqrt(c->unit) / c->width[i]; /* a slope that no density would show */
      c->off[i] = fmin(c->off[i], off / fmax(fmax(fabs(g), ATVI_TINY * largest), least));
      worst = fmax(worst, c->off[i]);
    }
  }
  if (worst > STEP[0]) judge_point(c, k);
  for (atvi_idx i = c->first; i < c->end; i++) {
    c->tally[i].points++;
    if (c->off[i] > info->off) info->off = c->off[i], info->off_param = i;
  }
  info->points++;
  return ATVI_OK;
}

static atvi_status compare(checking *c, double until_s, atvi_gradient_info *info) {
  ask_gradient(c);
  for (atvi_idx k = 0; k < c->n && atvi_clock_s() < until_s; k++) {
    bool finite = isfinite(c->f[k]);
    for (atvi_idx i = 0; i < c->t->d; i++) finite = finite && isfinite(c->gradient[i * c->n + k]);
    if (finite) ATVI_TRY(compare_point(c, k, info));
  }
  double worst = 0;
  for (atvi_idx i = 0; i < c->t->d; i++) {
    const tally *y = &c->tally[i];
    info->wrong_somewhere += y->wrong > 0;
    if (2 * y->wrong <= y->points || (info->points > 1 && y->points < 2)) continue;
    info->wrong++;
    if (y->excess <= worst) continue;
    worst = y->excess;
    info->param = i;
    info->wrong_points = y->wrong;
    info->x = y->x;
    info->gradient = y->gradient;
    info->difference = y->difference;
  }
  return ATVI_OK;
}

atvi_status atvi_infer_gradient_compare(atvi_ctx *ctx, atvi_evaluator *ev, atvi_idx n, atvi_idx stride,
                                        const double *x, double max_seconds, atvi_gradient_info *info) {
  const atvi_target *t = atvi_model_evaluator_target(ev);
  atvi_arena a = {0};
  *info = (atvi_gradient_info){0};
  carve(&a, t->d, n);
  void *block = atvi_block(ctx, a.used);
  if (!block) return ATVI_ENOMEM;
  a = (atvi_arena){.base = block};
  checking c = carve(&a, t->d, n);
  c.ctx = ctx;
  c.ev = ev;
  c.t = t;
  for (atvi_idx j = 0; j < t->d; j++)
    for (atvi_idx k = 0; k < n; k++) c.x[j * n + k] = x[j * stride + k];
  atvi_status status = compare(&c, max_seconds > 0 ? atvi_clock_s() + max_seconds : HUGE_VAL, info);
  atvi_block_free(ctx, block);
  return status;
}

/* ---- gradients of users ---- */

atvi_status atvi_infer_gradient_check(atvi_ctx *ctx, atvi_evaluator *ev, uint64_t seed, double max_seconds) {
  const atvi_target *t = atvi_model_evaluator_target(ev);
  atvi_idx index[POINTS];
  atvi_gradient_info y;
  atvi_starts *s;
  atvi_status status = atvi_infer_starts_new(ctx, ev, seed, 10 * POINTS, &s);
  if (status == ATVI_EMODEL) return ATVI_OK; /* the method has its own words for that */
  if (status != ATVI_OK) return status;
  atvi_idx n = s->n < POINTS ? s->n : POINTS;
  atvi_infer_starts_pick(s, seed, n, index);
  for (atvi_idx j = 0; j < t->d; j++) { /* the chosen to the front */
    double x[POINTS];
    for (atvi_idx k = 0; k < n; k++) x[k] = s->theta[j * s->cap + index[k]];
    for (atvi_idx k = 0; k < n; k++) s->theta[j * s->cap + k] = x[k];
  }
  status = atvi_infer_gradient_compare(ctx, ev, n, s->cap, s->theta, max_seconds, &y);
  atvi_infer_starts_free(s);
  if (status != ATVI_OK || y.wrong == 0) return status;
  const char *name = t->param[y.param].name;
  return ATVI_FAIL(
      ctx, ATVI_EMODEL,
      "the gradient is wrong: for %s it is %.6g at a point with %s = %.6g, but differences of "
      "the log density there say %.6g%s. So at %td of %td points, for %td of %td parameters. "
      "Method ram needs no gradient; check_gradient = 0 skips this check",
      name, y.gradient, name, y.x, y.difference,
      fabs(y.gradient + y.difference) < ATVI_TINY * fabs(y.gradient) ? " (the sign is the wrong one)" : "",
      y.wrong_points, y.points, y.wrong, t->d);
}
