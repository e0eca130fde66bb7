/* SPDX-License-Identifier: MIT */
/* Central differences of the log density f along each parameter, with steps h of several sizes, in units of the width that the parameter has:
 *
 *     D(h) = (f(x + h) - f(x - h)) / 2h,   wrong by h^2 f'''/6 and by (rounding, a solver's error) / h.
 *
 * Which size is good depends on f. Two neighbouring ones that agree are both good: the pair that agrees best is taken, and how
 * well it does is the error of D. Noise alone makes no pair agree, and so nothing is held against the gradient of a noisy f. */
#include "infer/gradient.h"
#include "infer/start.h"
#include <float.h>
#include <math.h>

enum {
  CANDIDATES = 64, /* of which the better ones are taken */
  POINTS = 6,
  STEPS = 4,
  EACH = 2 * STEPS * POINTS, /* evaluations for a parameter */
  BLOCK = 10,                /* parameters at a time */
  ASKED = BLOCK * EACH,
};
static const double STEP[STEPS] = {1e-3, 1e-4, 1e-5, 1e-6};
static const double TOL = 1e-3;     /* of the derivative itself */
static const double TOL_ALL = 1e-8; /* of the largest one, in units of the widths: errors go with the whole */
static const double SAFETY = 10;    /* times the error of a difference, which is itself a guess */
static const double ROUNDING = 8;   /* units in the last place of f */

typedef struct {
  atvi_ctx *ctx;
  atvi_evaluator *ev;
  const atvi_target *t;
  atvi_idx n;                    /* points, <= POINTS */
  double *x, *gradient;          /* [d][n] */
  double *width;                 /* [d][n] */
  double *difference, *error;    /* [d][n]; NaN where there is none */
  double *theta;                 /* [d][B], B <= ASKED */
  double *prior, *lik;           /* [ASKED] */
  double *grad_prior, *grad_lik; /* [d][n] */
  double *f;                     /* [n] */
  double unit;                   /* relative, of the last place of f */
} checking;

static checking carve(atvi_arena *a, atvi_idx d) {
  checking c = {0};
  ATVI_TAKE(a, c.x, d * POINTS);
  ATVI_TAKE(a, c.gradient, d * POINTS);
  ATVI_TAKE(a, c.width, d * POINTS);
  ATVI_TAKE(a, c.difference, d * POINTS);
  ATVI_TAKE(a, c.error, d * POINTS);
  ATVI_TAKE(a, c.theta, d * ASKED);
  ATVI_TAKE(a, c.prior, ASKED);
  ATVI_TAKE(a, c.lik, ASKED);
  ATVI_TAKE(a, c.grad_prior, d * POINTS);
  ATVI_TAKE(a, c.grad_lik, d * POINTS);
  ATVI_TAKE(a, c.f, POINTS);
  return c;
}

/* ---- points ---- */

/* The length over which f may be expected to change along a parameter. */
static double width_at(const atvi_param *p, double x) {
  bool lo = p->lower > -HUGE_VAL, hi = p->upper < HUGE_VAL;
  double w = lo && hi ? p->upper - p->lower : lo ? x - p->lower : hi ? p->upper - x : fabs(x);
  return isfinite(w) ? w : fabs(x);
}

static void choose(checking *c, const atvi_starts *s, uint64_t seed) {
  atvi_idx index[POINTS];
  c->n = s->n < POINTS ? s->n : POINTS;
  atvi_starts_pick(s, seed, c->n, index);
  for (atvi_idx j = 0; j < c->t->d; j++)
    for (atvi_idx k = 0; k < c->n; k++) {
      double x = s->theta[j * s->cap + index[k]];
      c->x[j * c->n + k] = x;
      c->width[j * c->n + k] = width_at(&c->t->param[j], x);
    }
}

/* f and its gradient at the points. */
static void ask_gradient(checking *c) {
  atvi_evaluator_run(c->ev, &(atvi_batch){.B = c->n,
                                          .theta = c->x,
                                          .log_prior = c->prior,
                                          .log_lik = c->lik,
                                          .grad_prior = c->grad_prior,
                                          .grad_lik = c->grad_lik});
  bool single = true; /* as machine learning likes it */
  for (atvi_idx k = 0; k < c->n; k++) {
    c->f[k] = c->prior[k] + c->lik[k];
    single = single && (double)(float)c->f[k] == c->f[k];
  }
  c->unit = single ? FLT_EPSILON : DBL_EPSILON;
  for (atvi_idx i = 0; i < c->t->d * c->n; i++) {
    c->gradient[i] = c->grad_prior[i] + c->grad_lik[i];
    c->difference[i] = c->error[i] = NAN;
  }
}

/* ---- differences ---- */

/* Steps along parameter j at point k; not over a bound. */
static double step_at(const checking *c, atvi_idx j, atvi_idx k, int s) {
  const atvi_param *p = &c->t->param[j];
  double x = c->x[j * c->n + k], room = fmin(x - p->lower, p->upper - x);
  return STEP[s] * fmin(c->width[j * c->n + k], room);
}

/* Parameters first .. end-1. */
static void ask_differences(checking *c, atvi_idx first, atvi_idx end) {
  const atvi_idx d = c->t->d, B = (end - first) * c->n * STEPS * 2;
  atvi_idx b = 0;
  for (atvi_idx j = first; j < end; j++)
    for (atvi_idx k = 0; k < c->n; k++)
      for (int s = 0; s < STEPS; s++, b += 2) {
        double h = step_at(c, j, k, s);
        for (atvi_idx i = 0; i < d; i++) c->theta[i * B + b] = c->theta[i * B + b + 1] = c->x[i * c->n + k];
        c->theta[j * B + b] += h;
        c->theta[j * B + b + 1] -= h;
      }
  atvi_evaluator_run(c->ev,
                     &(atvi_batch){.B = B, .theta = c->theta, .log_prior = c->prior, .log_lik = c->lik});
  b = 0;
  for (atvi_idx j = first; j < end; j++)
    for (atvi_idx k = 0; k < c->n; k++) {
      double before = NAN, least = HUGE_VAL;
      for (int s = 0; s < STEPS; s++, b += 2) {
        double twice = c->theta[j * B + b] - c->theta[j * B + b + 1];
        double D = (c->prior[b] + c->lik[b] - c->prior[b + 1] - c->lik[b + 1]) / twice;
        double error = fabs(D - before) + ROUNDING * c->unit * fabs(c->f[k]) / twice;
        if (error < least) {
          least = c->error[j * c->n + k] = error;
          c->difference[j * c->n + k] = D;
        }
        before = D;
      }
    }
}

/* ---- judgement ---- */

/* By how much more than could be forgiven the gradient is wrong; 0: not, or not known. largest: of the derivatives at k, in units of their widths. */
static double wrong(const checking *c, atvi_idx j, atvi_idx k, double largest) {
  atvi_idx i = j * c->n + k;
  double g = c->gradient[i], D = c->difference[i];
  double forgiven = TOL * fmax(fabs(g), fabs(D)) + SAFETY * c->error[i] +
                    fmax(TOL_ALL, ROUNDING * c->unit) * largest / c->width[i];
  double excess = fabs(g - D) - forgiven;
  return excess > 0 ? excess / forgiven : 0;
}

static double largest_at(const checking *c, atvi_idx k) {
  double most = 0;
  for (atvi_idx i = k; i < c->t->d * c->n; i += c->n) most = fmax(most, fabs(c->difference[i] * c->width[i]));
  return most;
}

static atvi_status judge(const checking *c) {
  double largest[POINTS], worst = 0;
  atvi_idx at = 0, of = 0, n_points = 0, n_param = 0;
  for (atvi_idx k = 0; k < c->n; k++) largest[k] = largest_at(c, k);
  for (atvi_idx j = 0; j < c->t->d; j++) {
    double most = 0;
    atvi_idx n = 0, where = 0;
    for (atvi_idx k = 0; k < c->n; k++) {
      double w = wrong(c, j, k, largest[k]);
      n += w > 0;
      if (w > most) most = w, where = k;
    }
    if (2 * n <= c->n) continue;
    n_param++;
    if (most > worst) worst = most, of = j, at = where, n_points = n;
  }
  if (!n_param) return ATVI_OK;
  atvi_idx i = of * c->n + at;
  double g = c->gradient[i], D = c->difference[i];
  const char *name = c->t->param[of].name;
  return ATVI_FAIL(
      c->ctx, ATVI_EMODEL,
      "the gradient is wrong: for %s it is %.6g at a point with %s = %.6g, but differences of the "
      "log density there say %.6g%s. So at %td of %td points, for %td of %td parameters. "
      "Method ram needs no gradient; check_gradient = 0 skips this check",
      name, g, name, c->x[i], D, fabs(g + D) < TOL * fabs(g) ? " (the sign is the wrong one)" : "", n_points,
      c->n, n_param, c->t->d);
}

static atvi_status compare(checking *c, double until_s) {
  ask_gradient(c);
  for (atvi_idx first = 0; first < c->t->d && atvi_clock_s() < until_s; first += BLOCK) {
    if (atvi_stop_asked(c->ctx))
      return ATVI_FAIL(c->ctx, ATVI_ESTOP, "stopped while the gradient was checked");
    ask_differences(c, first, first + BLOCK < c->t->d ? first + BLOCK : c->t->d);
  }
  return judge(c);
}

atvi_status atvi_gradient_check(atvi_ctx *ctx, atvi_evaluator *ev, uint64_t seed, double max_seconds) {
  const atvi_target *t = atvi_evaluator_target(ev);
  double until_s = max_seconds > 0 ? atvi_clock_s() + max_seconds : HUGE_VAL;
  atvi_starts *s;
  atvi_arena a = {0};
  atvi_status status = atvi_starts_new(ctx, ev, seed, CANDIDATES, &s);
  if (status == ATVI_EMODEL) return ATVI_OK; /* the method has its own words for that */
  if (status != ATVI_OK) return status;
  carve(&a, t->d);
  void *block = atvi_block(ctx, a.used);
  if (!block) {
    atvi_starts_free(s);
    return ATVI_FAIL(ctx, ATVI_ENOMEM, "gradient: d = %td", t->d);
  }
  a = (atvi_arena){.base = block};
  checking c = carve(&a, t->d);
  c.ctx = ctx;
  c.ev = ev;
  c.t = t;
  choose(&c, s, seed);
  atvi_starts_free(s);
  status = compare(&c, until_s);
  atvi_block_free(ctx, block);
  return status;
}
