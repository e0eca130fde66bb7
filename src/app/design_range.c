/* SPDX-License-Identifier: MIT */
/* Inputs of a design by quantiles of their priors. A prior with fixed arguments is inverted; one whose arguments are parameters is drawn from. */
#include "app/program.h"
#include "math/stat/stat.h"
#include <math.h>
#include <stdlib.h>

enum { DRAWS = 4000, HALVINGS = 200 };
static const double TAIL = 0.001;
static const double REACH = 700; /* expm1 of this is about the largest number */

static double stretched(double u) { return u < 0 ? -expm1(-u) : expm1(u); }
static double shrunk(double x) { return x < 0 ? -log1p(-x) : log1p(x); }

static void support(const atvi_lang_param *q, double *lower, double *upper) {
  const atvi_dist_info *info = atvi_lang_dist_get(q->dist);
  *lower = q->truncated ? fmax(q->lower, info->lower) : info->lower;
  *upper = q->truncated ? fmin(q->upper, info->upper) : info->upper;
}

/* x with P(lower < Y < x) = p P(lower < Y < upper), by bisection on a scale that covers all numbers. */
static double quantile(const atvi_lang_param *q, const double *arg, double p) {
  double lower, upper;
  support(q, &lower, &upper);
  double whole = atvi_lang_dist_log_mass(q->dist, lower, upper, arg);
  double a = isfinite(lower) ? shrunk(lower) : -REACH, b = isfinite(upper) ? shrunk(upper) : REACH;
  for (int k = 0; k < HALVINGS; k++) {
    double mid = a + (b - a) / 2;
    if (!(mid > a && mid < b)) break;
    if (atvi_lang_dist_log_mass(q->dist, lower, stretched(mid), arg) - whole < log(p))
      a = mid;
    else
      b = mid;
  }
  return stretched(a + (b - a) / 2);
}

static double share_below(const atvi_lang_param *q, const double *arg, double x) {
  double lower, upper;
  support(q, &lower, &upper);
  return exp(atvi_lang_dist_log_mass(q->dist, lower, x, arg) -
             atvi_lang_dist_log_mass(q->dist, lower, upper, arg));
}

/* One draw of all parameters: theta[n_param]. An argument that is NaN depends on parameters not drawn yet. */
static atvi_status draw(atvi_ctx *ctx, const atvi_lang *lang, atvi_idx number, double *theta) {
  const double *in[32] = {theta};
  for (atvi_idx i = 0; i < lang->n_param; i++) theta[i] = NAN;
  for (bool more = true; more;) {
    more = false;
    for (atvi_idx i = 0; i < lang->n_param; i++) {
      const atvi_lang_param *q = &lang->param[i];
      double arg[ATVI_DIST_ARGS] = {0};
      bool known = isnan(theta[i]);
      for (int a = 0; a < q->n_arg && known; a++) {
        ATVI_TRY(atvi_graph_value(ctx, lang->graph, q->arg[a], in, &arg[a]));
        known = !isnan(arg[a]);
      }
      if (!known) continue;
      atvi_rng rng = atvi_math_rng_at(1, ATVI_STREAM_PRIOR, (uint32_t)i, (uint32_t)number);
      theta[i] = atvi_lang_dist_draw(&rng, q->dist, arg, q->truncated ? q->lower : -HUGE_VAL,
                                     q->truncated ? q->upper : HUGE_VAL);
      more = more || !isnan(theta[i]);
    }
  }
  return ATVI_OK;
}

static atvi_status draws(atvi_pool *pool, const atvi_lang *lang, atvi_idx k, atvi_program_axis *out) {
  atvi_ctx *ctx = atvi_pool_ctx(pool);
  double *theta = atvi_pool_take(pool, (size_t)lang->n_param + DRAWS, sizeof *theta);
  if (!theta) return ATVI_ENOMEM;
  double *x = theta + lang->n_param;
  for (atvi_idx i = 0; i < DRAWS; i++) {
    ATVI_TRY(draw(ctx, lang, i, theta));
    if (isfinite(theta[k])) x[out->n_draw++] = theta[k];
  }
  qsort(x, (size_t)out->n_draw, sizeof *x, atvi_math_by_value);
  out->draw = x;
  return ATVI_OK;
}

/* For ascending x[n]: the value at share p of them, and back. */
static double drawn_at(atvi_idx n, const double *x, double p) {
  double at = p * (double)(n - 1);
  atvi_idx i = (atvi_idx)at;
  if (i >= n - 1) return x[n - 1];
  return x[i] + (at - (double)i) * (x[i + 1] - x[i]);
}

static double drawn_share(atvi_idx n, const double *x, double v) {
  atvi_idx lo = 0, hi = n - 1;
  while (hi - lo > 1) {
    atvi_idx mid = (lo + hi) / 2;
    if (x[mid] <= v)
      lo = mid;
    else
      hi = mid;
  }
  double step = x[hi] > x[lo] ? fmin((v - x[lo]) / (x[hi] - x[lo]), 1) : 0;
  return ((double)lo + step) / (double)(n - 1);
}

double atvi_app_program_axis_at(const atvi_program_axis *a, double u) {
  if (a->box) return a->lower * (1 - u) + a->upper * u;
  double p = TAIL + u * (1 - 2 * TAIL);
  return a->draw ? drawn_at(a->n_draw, a->draw, p) : quantile(a->q, a->arg, p);
}

double atvi_app_program_axis_find(const atvi_program_axis *a, double x) {
  if (a->box) return (x - a->lower) / (a->upper - a->lower);
  if (!(x >= a->q->lower && x <= a->q->upper)) return x < a->q->lower ? -1 : 2;
  if (!(x >= a->lower && x <= a->upper)) return x < a->lower ? 0 : 1; /* far out in a tail, but possible */
  double p = a->draw ? drawn_share(a->n_draw, a->draw, x) : share_below(a->q, a->arg, x);
  return fmin(fmax((p - TAIL) / (1 - 2 * TAIL), 0), 1);
}

double atvi_app_program_axis_below(const atvi_program_axis *a, double x) {
  if (a->draw && !(x > a->draw[0])) return 0;
  return a->draw ? drawn_share(a->n_draw, a->draw, x) : fmin(share_below(a->q, a->arg, x), 1);
}

atvi_status atvi_app_program_axis_new(atvi_pool *pool, const atvi_lang *lang, atvi_idx param,
                                      atvi_program_axis *out) {
  const atvi_lang_param *q = &lang->param[param];
  bool fixed = true;
  *out = (atvi_program_axis){.q = q, .lower = q->lower, .upper = q->upper};
  out->box = isfinite(q->lower) && isfinite(q->upper);
  if (out->box) return ATVI_OK;
  for (int a = 0; a < q->n_arg; a++)
    fixed = atvi_graph_is_const(lang->graph, q->arg[a], &out->arg[a]) && fixed;
  if (!fixed) ATVI_TRY(draws(pool, lang, param, out));
  bool known = fixed || out->n_draw > 1;
  out->lower = known ? atvi_app_program_axis_at(out, 0) : NAN;
  out->upper = known ? atvi_app_program_axis_at(out, 1) : NAN;
  if (isfinite(out->lower) && isfinite(out->upper) && out->lower < out->upper) return ATVI_OK;
  return ATVI_FAIL(
      atvi_pool_ctx(pool), ATVI_EMODEL,
      "%s:%d:%d: error: the prior of %s is too wide for a design\nhint: give it bounds: in (0, 10)",
      lang->path, q->place.line, q->place.column, q->name);
}
