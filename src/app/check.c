/* SPDX-License-Identifier: MIT */
/* atvi check: what was read, is the gradient right, what does an evaluation cost. */
#include "app/common.h"
#include "io/text.h"
#include "math/rng.h"
#include <math.h>
#include <string.h>

/* Central differences with relative steps of this size have errors of about 1e-7 in smooth models. */
static const double STEP = 1e-5, STEP_TO_BOUND = 1e-3;
/* Agreement wanted, relative to max(|g_i|, 1e-3 max |g|). */
static const double TOL_GRAD = 1e-5;
static const double FLOOR = 1e-3;
enum { POINTS = 10, TRIES = 200, SOME = 64 }; /* SOME: coordinates differenced at a time */

typedef struct {
  atvi_ctx *ctx;
  const atvi_loaded *l;
  double *theta, *grad_p, *grad_l, *batch, *lp, *ll;
  atvi_outcome *outcome;
  double worst; /* relative difference */
  atvi_idx worst_i;
  bool wrong;
  int points, failed;
} checking;

static void bounds(atvi_text *out, double x) {
  if (isinf(x))
    atvi_text_add(out, x < 0 ? "-inf" : "inf");
  else
    atvi_text_add(out, "%g", x);
}

static void describe_params(atvi_text *out, const atvi_lang *lang) {
  atvi_text_add(out, "parameters  %td\n", lang->n_param);
  for (atvi_idx i = 0; i < lang->n_param; i++) {
    const atvi_lang_param *p = &lang->param[i];
    atvi_text_add(out, "  %-16s %-12s in [", p->name, atvi_dist_get(p->dist)->name);
    bounds(out, p->lower);
    atvi_text_add(out, ", ");
    bounds(out, p->upper);
    atvi_text_add(out, "]\n");
  }
}

static void describe_data(atvi_text *out, const atvi_model *m) {
  const atvi_lang *lang = m->lang;
  for (atvi_idx k = 0; k < lang->n_data; k++) {
    const atvi_lang_data *d = &lang->data[k];
    atvi_text_add(out, "data        %s: %td rows", d->path, d->n_row);
    if (d->time && d->n_row) atvi_text_add(out, ", time %g to %g", d->time[0], d->time[d->n_row - 1]);
    atvi_text_add(out, "\n");
    for (atvi_idx o = 0; o < lang->n_observe; o++) {
      const atvi_lang_observe *obs = &lang->observe[o];
      if (obs->data != k) continue;
      double lo = HUGE_VAL, hi = -HUGE_VAL, sum = 0;
      atvi_idx n = 0;
      for (atvi_idx r = 0; r < d->n_row; r++) {
        double v = d->value[r * d->n_col + obs->column];
        if (isnan(v)) continue;
        lo = fmin(lo, v), hi = fmax(hi, v), sum += v, n++;
      }
      atvi_text_add(out, "  %-16s %-12s %td values", obs->name, atvi_dist_get(obs->dist)->name, n);
      if (n) atvi_text_add(out, ", %g to %g, mean %.4g", lo, hi, sum / (double)n);
      if (obs->n_missing) atvi_text_add(out, ", %td missing", obs->n_missing);
      if (obs->n_censored) atvi_text_add(out, ", %td censored", obs->n_censored);
      atvi_text_add(out, "\n");
    }
  }
}

static void describe(atvi_text *out, const atvi_model *m) {
  const atvi_lang *lang = m->lang;
  static const char *const kind[] = {"a curve (no states)", "differential equations", "difference equations"};
  atvi_text_add(out, "model       %s\n", *lang->title ? lang->title : lang->path);
  atvi_text_add(out, "kind        %s", kind[lang->kind]);
  if (lang->n_state) {
    atvi_text_add(out, ", %td states, start at t = %g", lang->n_state, lang->start);
    static const char *const method[] = {"adaptive Runge-Kutta 5(4)", "Runge-Kutta 4", "stiff: ESDIRK 4(3)",
                                         "steps"};
    atvi_text_add(out, "; solver: %s", method[m->ode.method]);
  }
  atvi_text_add(out, "\n");
  describe_params(out, lang);
  if (lang->n_derived) atvi_text_add(out, "derived     %td\n", lang->n_derived);
  if (lang->n_track) atvi_text_add(out, "tracked     %td\n", lang->n_track);
  describe_data(out, m);
  atvi_text_add(out, "code        %s", m->info.compiled ? "compiled" : "interpreted");
  if (m->info.compiled && m->info.from_cache)
    atvi_text_add(out, " (from the cache)");
  else if (m->info.compiled)
    atvi_text_add(out, " in %.2f s", m->info.compile_s);
  if (m->info.reason[0]) atvi_text_add(out, ": %s", m->info.reason);
  atvi_text_add(out, "\n");
}

/* Step for coordinate i that stays inside the box. */
static double step_for(const atvi_param *p, double x) {
  double scale = fabs(x) > 0 ? fabs(x) : 1;
  if (isfinite(p->lower) && isfinite(p->upper)) scale = fmax(scale, 0.01 * (p->upper - p->lower));
  double h = STEP * scale;
  /* a density may be steep towards a bound: stay well within the distance to it */
  if (isfinite(p->lower)) h = fmin(h, STEP_TO_BOUND * (x - p->lower));
  if (isfinite(p->upper)) h = fmin(h, STEP_TO_BOUND * (p->upper - x));
  return h;
}

/* Central differences of coordinates first .. last-1 at c->theta, everything adaptive frozen, against the gradient. */
static void check_some(checking *c, atvi_idx first, atvi_idx last, double largest) {
  const atvi_target *t = c->l->target;
  atvi_idx d = t->d, B = 2 * (last - first);
  void *work = atvi_evaluator_work(c->l->ev);
  for (atvi_idx i = 0; i < d; i++)
    for (atvi_idx j = 0; j < B; j++) {
      double h = step_for(&t->param[i], c->theta[i]);
      c->batch[i * B + j] = c->theta[i] + (first + j / 2 == i ? (j % 2 ? h : -h) : 0);
    }
  atvi_batch many = {B, c->batch, c->lp, c->ll, NULL, NULL, c->outcome};
  if (t->ops->eval_frozen)
    t->ops->eval_frozen(t->self, work, c->theta, &many);
  else
    t->ops->eval(t->self, work, &many);
  for (atvi_idx i = first; i < last; i++) {
    atvi_idx j = 2 * (i - first);
    double up = c->lp[j + 1] + c->ll[j + 1], down = c->lp[j] + c->ll[j];
    double h = c->batch[i * B + j + 1] - c->batch[i * B + j], g = c->grad_p[i] + c->grad_l[i];
    double off = fabs(g - (up - down) / h), unit = fmax(fmax(fabs(g), FLOOR * largest), 1e-300);
    double noise =
        4 * 2.3e-16 * (fabs(up) + fabs(down)) / h; /* rounding of the differences: nothing can beat it */
    if (!(off - noise <= TOL_GRAD * unit)) c->wrong = true; /* NaN is wrong */
    if (!(off / unit <= c->worst)) c->worst = isnan(off) ? HUGE_VAL : off / unit, c->worst_i = i;
  }
}

/* false: the point cannot be evaluated. */
static bool check_point(checking *c) {
  const atvi_target *t = c->l->target;
  double lp, ll, largest = 0;
  atvi_outcome outcome;
  atvi_batch one = {1, c->theta, &lp, &ll, c->grad_p, c->grad_l, &outcome};
  t->ops->eval(t->self, atvi_evaluator_work(c->l->ev), &one);
  if (outcome != ATVI_RUN_OK || !isfinite(lp + ll)) return false;
  for (atvi_idx i = 0; i < t->d; i++) largest = fmax(largest, fabs(c->grad_p[i] + c->grad_l[i]));
  for (atvi_idx i = 0; i < t->d; i += SOME) check_some(c, i, i + SOME < t->d ? i + SOME : t->d, largest);
  return true;
}

static atvi_status check_gradient(checking *c, uint64_t seed, atvi_text *out, bool *ok) {
  const atvi_target *t = c->l->target;
  for (int k = 0; k < TRIES && c->points < POINTS; k++) {
    t->ops->prior_draw(t->self, atvi_evaluator_work(c->l->ev), seed, k, 1, c->theta);
    if (check_point(c))
      c->points++;
    else
      c->failed++;
  }
  *ok = c->points > 0 && !c->wrong;
  if (c->points == 0)
    atvi_text_add(out, "gradient    NOT CHECKED: none of %d draws from the prior could be evaluated\n",
                  TRIES);
  else
    atvi_text_add(out,
                  "gradient    %s: largest relative difference to finite differences %.1e (%s) at %d draws "
                  "from the prior\n",
                  *ok ? "ok" : "WRONG", c->worst, t->param[c->worst_i].name, c->points);
  if (c->wrong && c->l->model->has_ode && c->l->model->ode.method == ATVI_ODE_RK45)
    atvi_text_add(out, "            A stiff model does this to the default solver: try the line 'solver "
                       "stiff' in the model.\n");
  if (c->failed)
    atvi_text_add(out, "            %d draws from the prior could not be evaluated\n", c->failed);
  return ATVI_OK;
}

/* Seconds per point of batched evaluation on all threads, the least of a few trials. */
static double cost(const checking *c, atvi_idx B, const double *theta, double *out, atvi_outcome *outcome,
                   bool grad) {
  atvi_idx d = c->l->target->d;
  double best = HUGE_VAL, began = atvi_clock_s();
  atvi_batch b = {B,      theta, out, out + B, grad ? out + 2 * B : NULL, grad ? out + (2 + d) * B : NULL,
                  outcome};
  for (int k = 0; k < 20 && (k < 2 || atvi_clock_s() - began < 0.2); k++) {
    double t0 = atvi_clock_s();
    atvi_evaluator_run(c->l->ev, &b);
    best = fmin(best, atvi_clock_s() - t0);
  }
  return best / (double)B;
}

static atvi_status check_cost(checking *c, atvi_pool *pool, uint64_t seed, atvi_text *out) {
  const atvi_target *t = c->l->target;
  atvi_idx d = t->d, B = 32 * ATVI_LANES;
  double *theta = atvi_pool_take(pool, (size_t)(d * B), sizeof *theta);
  double *values = atvi_pool_take(pool, (size_t)((2 + 2 * d) * B), sizeof *values);
  atvi_outcome *outcome = atvi_pool_take(pool, (size_t)B, sizeof *outcome);
  if (!theta || !values || !outcome) return ATVI_FAIL(c->ctx, ATVI_ENOMEM, "out of memory");
  t->ops->prior_draw(t->self, atvi_evaluator_work(c->l->ev), seed, 0, B, theta);
  double plain = cost(c, B, theta, values, outcome, false), grad = cost(c, B, theta, values, outcome, true);
  atvi_text_add(out,
                "cost        %.3g us per evaluation, %.3g us with gradient (batches of draws from the prior, "
                "%d threads)\n",
                1e6 * plain, 1e6 * grad, atvi_ctx_threads(c->ctx));
  return ATVI_OK;
}

/* At the draws from the prior that fit the data best: a posterior is near there. */
static atvi_status check_solver(checking *c, atvi_loaded *l, atvi_pool *pool, uint64_t seed, atvi_text *out) {
  enum { ALL = 64 * ATVI_LANES, BEST = 4 * ATVI_LANES };
  atvi_idx d = l->target->d;
  double *theta = atvi_pool_take(pool, (size_t)(d * (ALL + BEST) + ALL), sizeof *theta), error;
  if (!theta) return ATVI_FAIL(c->ctx, ATVI_ENOMEM, "out of memory");
  double *best = theta + d * ALL, *ll = best + d * BEST;
  l->target->ops->prior_draw(l->target->self, atvi_evaluator_work(l->ev), seed, 0, ALL, theta);
  atvi_evaluator_run(l->ev, &(atvi_batch){.B = ALL, .theta = theta, .log_lik = ll});
  for (atvi_idx k = 0; k < BEST; k++) {
    atvi_idx top = 0;
    for (atvi_idx j = 1; j < ALL; j++)
      if (ll[j] > ll[top]) top = j;
    ll[top] = -HUGE_VAL;
    for (atvi_idx i = 0; i < d; i++) best[i * BEST + k] = theta[i * ALL + top];
  }
  ATVI_TRY(atvi_app_solver_error(c->ctx, l, BEST, best, &error));
  if (error > 0)
    atvi_text_add(out,
                  "solver      its error changes the log likelihood by at most %.1e at the %d best of %d "
                  "draws from the prior\n",
                  error, BEST, ALL);
  return ATVI_OK;
}

static atvi_status check(atvi_ctx *ctx, atvi_pool *pool, atvi_loaded *l, uint64_t seed, const char **text,
                         bool *ok) {
  atvi_idx d = l->target->d;
  checking c = {.ctx = ctx, .l = l};
  atvi_idx B = 2 * (d < SOME ? d : SOME);
  double *room = atvi_pool_take(pool, (size_t)(3 * d + 2 * B + d * B), sizeof *room);
  c.outcome = atvi_pool_take(pool, (size_t)B, sizeof *c.outcome);
  if (!room || !c.outcome) return ATVI_FAIL(ctx, ATVI_ENOMEM, "out of memory");
  c.theta = room, c.grad_p = room + d, c.grad_l = room + 2 * d;
  c.lp = room + 3 * d, c.ll = c.lp + B, c.batch = c.ll + B;
  atvi_text out = {.pool = pool};
  describe(&out, l->model);
  ATVI_TRY(check_gradient(&c, seed, &out, ok));
  ATVI_TRY(check_solver(&c, l, pool, seed, &out));
  ATVI_TRY(check_cost(&c, pool, seed, &out));
  return atvi_text_get(&out, text);
}

atvi_status atvi_app_check(atvi_ctx *ctx, atvi_pool *pool, const atvi_app_model *model, uint64_t seed,
                           const char **text, bool *ok) {
  atvi_loaded l;
  *ok = false;
  ATVI_TRY(atvi_app_load(ctx, model, NULL, &l));
  atvi_status status = check(ctx, pool, &l, seed, text, ok);
  atvi_app_unload(&l);
  return status;
}
