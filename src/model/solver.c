/* SPDX-License-Identifier: MIT */
/* Which solver. In a model that names none, the explicit solver runs every point, and the implicit one takes
 * over where it fails or has done as much work as the implicit one needs: whatever the point, that costs at
 * most twice the cheaper of the two. Where most points that fit the data are such, the implicit solver runs
 * all of them. That is measured when the model is read, at draws from its prior; where the explicit solver
 * takes less than the implicit one would with the fewest steps, the latter is not even tried. Work is
 * counted, not timed, the draws have a seed of their own, and what a point is run by depends on the point
 * alone: results are the same in every run and on any number of threads. */
#include "math/rng.h"
#include "model/model.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Default tolerance: log likelihoods at posterior draws of the examples are then within 0.003 of converged
 * ones (tools/acceptance.py), far below what a posterior can show. The absolute one is in units of each
 * state's own size. */
static const double TOL_REL = 1e-4, ABS_PER_REL = 1e-2;
/* What counts as exact: a thousandth of the tolerance in use, within what rounding allows. */
static const double EXACT_PER_TOL = 1e-3, EXACT_LEAST = 1e-11;
static const atvi_idx MAX_STEPS = 100000, STEADY_STEPS = 10000;
static const double NEVER = 1e300;

enum {
  DRAWS = 8 * ATVI_LANES, /* from the prior, run by the implicit solver */
  BEST = 4 * ATVI_LANES,  /* of these, run by both */
  MOST_STATES = 200,      /* above it Jacobians, which are dense, cost more than stiffness does */
  FIRST_STEPS = 10,       /* of the implicit solver, before its step has grown */
  SEED = 7061,
};
/* The implicit solver runs all points if explicit steps first would cost this many times as much; 2 would be
 * all points in vain. */
static const double IN_VAIN = 1.5;
/* Draws that take the explicit solver this many times the least work of the implicit one are run by that. */
static const double LONG = 20;
/* Beside a solution and a factorisation inside their shape, Newton's method does this many operations per
 * state: as much as with full matrices of 10 states. (docs/performance.md#diffusion-along-cells has gradients
 * of diffusion along 10 to 100 cells by both.) */
static const double BESIDE_SOLVE = 20, BESIDE_FACTOR = 67;
/* An adjoint of a right-hand side costs about this many right-hand sides. */
static const double VJP = 3;

static double or_default(double given, double otherwise) { return isnan(given) ? otherwise : given; }

static void describe(atvi_model *m) {
  const atvi_lang *lang = m->lang;
  atvi_ode *ode = &m->odes.fit;
  ode->method = lang->kind == ATVI_MODEL_MAP             ? ATVI_ODE_MAP
                : lang->solver.kind == ATVI_SOLVER_RK4   ? ATVI_ODE_RK4
                : lang->solver.kind == ATVI_SOLVER_STIFF ? ATVI_ODE_STIFF
                                                         : ATVI_ODE_RK45;
  ode->n = m->states.n;
  ode->n_par = m->prog.n_hoist;
  ode->n_tab = atvi_model_tab(lang);
  ode->n_jump = m->jumps.n;
  ode->jump = m->jumps.at;
  ode->n_delay = m->delays.n;
  ode->delay = m->delays.delay;
  ode->n_moving = m->pulses.n_moving;
  ode->moving = m->pulses.moving;
  ode->roots.n = m->pulses.n_root;
  ode->roots.pulse = m->pulses.root_pulse;
  ode->n_output = m->times.n_output;
  ode->control.tol_rel = or_default(lang->solver.tol_rel, TOL_REL);
  ode->control.tol_abs = or_default(lang->solver.tol_abs, ode->control.tol_rel * ABS_PER_REL);
  ode->control.h = lang->kind == ATVI_MODEL_MAP ? lang->time.step : or_default(lang->solver.step, 0.1);
  ode->control.max_steps = lang->solver.max_steps > 0 ? lang->solver.max_steps
                                                      : MAX_STEPS + ode->n_stop; /* every stop costs a step */
}

static void describe_exact(atvi_model *m) {
  m->odes.exact = m->odes.fit;
  m->odes.exact.control.tol_rel =
      fmin(m->odes.fit.control.tol_rel, fmax(EXACT_PER_TOL * m->odes.fit.control.tol_rel, EXACT_LEAST));
  m->odes.exact.control.tol_abs =
      fmin(m->odes.fit.control.tol_abs, m->odes.exact.control.tol_rel * ABS_PER_REL);
  m->odes.exact.control.max_steps = 10 * m->odes.fit.control.max_steps;
  m->odes.exact.control.foresees = false;
  m->odes.exact.tangents = NULL;
  atvi_ode path = m->odes.exact;
  path.path = m->odes.path.path;
  path.most.stops = m->odes.path.most.stops;
  path.n_stop = m->odes.path.n_stop;
  path.stop = m->odes.path.stop;
  m->odes.path = path;
}

/* Operations of a value and a gradient, from the work of a value. */
typedef struct {
  double rhs, jac;      /* operations of one of each */
  double factor, solve; /* and of a linear system */
} price;

atvi_status atvi_model_steady_stops(atvi_model *m) {
  atvi_ode_stop *stop = atvi_pool_take(m->pool, 2, sizeof *stop);
  if (!stop) return ATVI_ENOMEM;
  stop[0] = stop[1] = m->odes.fit.stop[0];
  stop[0].output = stop[0].pulse = stop[1].pulse = -1;
  stop[1].output = 0;
  stop[1].t = NEVER;
  m->odes.steady.stop = stop;
  return ATVI_OK;
}

/* The run to a steady start: implicit steps, however long. */
static atvi_status describe_steady(atvi_model *m) {
  ATVI_TRY(atvi_model_steady_stops(m));
  const atvi_ode own = m->odes.steady;
  m->odes.steady = m->odes.fit;
  m->odes.steady.rhs = own.rhs;
  m->odes.steady.vjp = own.vjp;
  m->odes.steady.tangents = own.tangents;
  m->odes.steady.method = ATVI_ODE_STIFF;
  m->odes.steady.steady = true;
  m->odes.steady.n_stop = 2;
  m->odes.steady.stop = own.stop;
  m->odes.steady.n_output = 1;
  m->odes.steady.n_delay = 0;
  m->odes.steady.n_moving = m->odes.steady.roots.n = m->odes.steady.most.moving = m->odes.steady.most.stops =
      0;
  m->odes.steady.control.max_steps = STEADY_STEPS;
  price p;
  return m->lang->dynamics.given
             ? atvi_model_jacobian(m, m->odes.rest_node, !m->prog.interpret, &m->choice.rest_jacobian,
                                   &m->odes.steady, &p.jac, &p.rhs)
             : ATVI_OK;
}

static double cost_of(const price *p, atvi_ode_method method, atvi_ode_effort e) {
  double factor = p->jac + p->factor, steps = (double)e.steps;
  double back = 6 * VJP * p->rhs; /* of a step */
  if (method == ATVI_ODE_RK45) return (double)e.rhs * p->rhs + steps * back;
  return (double)e.rhs * (p->rhs + p->solve) + (double)e.factors * factor +
         steps * (5 * (factor + p->solve) + back);
}

/* Runs ATVI_LANES points by one solver: operations, and whether all arrived. */
static double run(const atvi_model *m, atvi_model_work *w, const atvi_ode *ode, atvi_ode_work *work,
                  const price *p, const double *theta, bool *arrived) {
  atvi_outcome outcome[ATVI_LANES];
  memcpy(w->theta, theta, (size_t)(m->target.d * ATVI_LANES) * sizeof *theta);
  atvi_model_load_covariates(m, w);
  atvi_model_setup(m, w, false);
  atvi_ode_solve(ode, work, w->y0, w->hoist, w->yout, false, outcome);
  *arrived = true;
  for (int l = 0; l < ATVI_LANES; l++) *arrived = *arrived && outcome[l] == ATVI_RUN_OK;
  return cost_of(p, ode->method, atvi_ode_effort_of(work));
}

/* The draws that fit best and could be run come first. Returns how many could be run. */
static atvi_idx sort_best(const atvi_model *m, atvi_model_work *w, double *theta, double *ll,
                          atvi_outcome *outcome) {
  const atvi_idx d = m->target.d;
  atvi_idx n = 0;
  m->target.ops->eval(m, w, &(atvi_batch){.B = DRAWS, .theta = theta, .log_lik = ll, .outcome = outcome});
  for (; n < DRAWS; n++) {
    atvi_idx top = n;
    for (atvi_idx j = n + 1; j < DRAWS; j++)
      if (ll[j] > ll[top] || isnan(ll[top])) top = j;
    if (outcome[top] != ATVI_RUN_OK || !isfinite(ll[top])) break;
    double l = ll[n];
    atvi_outcome o = outcome[n];
    ll[n] = ll[top], ll[top] = l;
    outcome[n] = outcome[top], outcome[top] = o;
    for (atvi_idx i = 0; i < d; i++) {
      double x = theta[i * DRAWS + n];
      theta[i * DRAWS + n] = theta[i * DRAWS + top], theta[i * DRAWS + top] = x;
    }
  }
  return n;
}

/* The fewest steps that the implicit solver could take: one from stop to stop, and some at the start. */
static double least(const atvi_model *m, const price *p) {
  atvi_idx steps = m->odes.fit.n_stop + FIRST_STEPS;
  return cost_of(p, ATVI_ODE_STIFF, (atvi_ode_effort){.steps = steps, .rhs = 10 * steps, .factors = steps});
}

/* Explicit steps that cost as much. */
static void limit(atvi_model *m, const price *p, double cost) {
  double steps =
      cost / cost_of(p, ATVI_ODE_RK45, (atvi_ode_effort){.steps = 1, .rhs = 6}) + (double)m->odes.fit.n_stop;
  if (m->lang->solver.max_steps <= 0)
    m->odes.fit.control.max_steps = steps < MAX_STEPS ? (atvi_idx)steps : MAX_STEPS + m->odes.fit.n_stop;
}

/* Both solvers at the best draws, ATVI_LANES at a time: what it costs to run the explicit one first, and the
 * implicit one alone. */
static void both(atvi_model *m, atvi_model_work *w, const price *p, atvi_idx groups, const double *theta,
                 double *first, double *alone) {
  const atvi_idx size = m->target.d * ATVI_LANES;
  double explicit[BEST / ATVI_LANES], implicit[BEST / ATVI_LANES];
  bool arrived[BEST / ATVI_LANES], all = true, any;
  *first = *alone = 0;
  for (atvi_idx k = 0; k < groups; k++) {
    *first += explicit[k] = run(m, w, &m->odes.fit, w->ode, p, theta + k * size, &arrived[k]);
    all = all && arrived[k];
  }
  *alone = (double)groups * least(m, p);
  if (all && *first <= *alone) return;
  *first = *alone = 0;
  for (atvi_idx k = 0; k < groups; k++)
    *alone += implicit[k] = run(m, w, &m->choice.other, w->second.ode, p, theta + k * size, &any);
  double most = *alone / (double)groups;
  for (atvi_idx k = 0; k < groups; k++) {
    bool lost = !arrived[k] || explicit[k] > most;
    *first += fmin(explicit[k], most) + (lost ? implicit[k] : 0);
    m->choice.uses_both = m->choice.uses_both || lost;
  }
  limit(m, p, most);
}

static atvi_status measure(atvi_model *m, const price *p, double *theta, bool *implicit) {
  const atvi_idx d = m->target.d;
  double *best = theta + d * DRAWS, *ll = best + d * BEST, first = 0, alone = 0;
  atvi_outcome outcome[DRAWS];
  void *work;
  limit(m, p, LONG * least(m, p));
  ATVI_TRY(atvi_model_work_new(m, m->ctx, &work));
  atvi_model_work *w = work;
  m->target.ops->prior_draw(m, w, SEED, 0, DRAWS, theta);
  atvi_idx n = sort_best(m, w, theta, ll, outcome), groups = n < BEST ? n / ATVI_LANES : BEST / ATVI_LANES;
  for (atvi_idx k = 0; k < groups; k++)
    for (atvi_idx i = 0; i < d; i++)
      for (int l = 0; l < ATVI_LANES; l++)
        best[(k * d + i) * ATVI_LANES + l] = theta[i * DRAWS + k * ATVI_LANES + l];
  if (groups) both(m, w, p, groups, best, &first, &alone);
  atvi_model_work_free(w);
  *implicit = groups > 0 && first > IN_VAIN * alone;
  const double points = (double)(groups * ATVI_LANES);
  if (groups)
    snprintf(m->choice.why, sizeof m->choice.why,
             "chosen at the %d best of %d draws from the prior: explicit first %.2g operations per point, "
             "implicit %.2g",
             (int)points, (int)DRAWS, first / points, alone / points);
  else
    snprintf(m->choice.why, sizeof m->choice.why, "not compared: %d of %d draws from the prior could be run",
             (int)n, (int)DRAWS);
  return ATVI_OK;
}

atvi_status atvi_model_solver(atvi_model *m) {
  const atvi_idx d = m->target.d;
  price p;
  bool implicit;
  describe(m);
  describe_exact(m);
  if (m->odes.any && m->lang->dynamics.steady) ATVI_TRY(describe_steady(m));
  if (!m->odes.any || m->lang->kind == ATVI_MODEL_MAP || m->lang->solver.kind != ATVI_SOLVER_DEFAULT ||
      m->emulated || m->states.n > MOST_STATES || m->odes.fit.n_stop < 2)
    return m->odes.any && m->lang->dynamics.steady && !m->odes.steady.jac.fn
               ? atvi_model_jacobian(m, m->odes.rhs_node, !m->prog.interpret, &m->choice.jacobian,
                                     &m->odes.steady, &p.jac, &p.rhs)
               : ATVI_OK;
  double *theta = atvi_pool_take(m->pool, (size_t)(d * (DRAWS + BEST) + DRAWS), sizeof *theta);
  if (!theta) return ATVI_ENOMEM;
  bool rests = m->lang->dynamics.steady && !m->lang->dynamics.given; /* by this Jacobian */
  ATVI_TRY(atvi_model_jacobian(m, m->odes.rhs_node, rests && !m->prog.interpret, &m->choice.jacobian,
                               &m->odes.fit, &p.jac, &p.rhs));
  if (rests) m->odes.steady.jac = m->odes.fit.jac, m->odes.steady.shape = m->odes.fit.shape;
  const double n = (double)m->states.n;
  const atvi_ode_shape *shape = m->odes.fit.shape;
  p.factor = fmin(2 * n * n * n / 3, shape->factor + BESIDE_FACTOR * n);
  p.solve = fmin(2 * n * n, shape->solve + BESIDE_SOLVE * n);
  m->choice.automatic = true;
  m->choice.other = m->odes.fit;
  m->choice.other.method = ATVI_ODE_STIFF;
  ATVI_TRY(measure(m, &p, theta, &implicit));
  if ((implicit || m->choice.uses_both) && !m->prog.interpret)
    ATVI_TRY(
        atvi_model_jacobian(m, m->odes.rhs_node, true, &m->choice.jacobian, &m->odes.fit, &p.jac, &p.rhs));
  m->choice.other.jac = m->odes.fit.jac, m->choice.other.shape = m->odes.fit.shape;
  if (rests) m->odes.steady.jac = m->odes.fit.jac, m->odes.steady.shape = m->odes.fit.shape;
  if (implicit) {
    atvi_ode ode = m->odes.fit;
    m->odes.fit = m->choice.other;
    m->choice.other = ode;
  }
  m->odes.fit.control.foresees = !implicit;
  atvi_idx most = m->odes.exact.control.max_steps;
  describe_exact(m);
  m->odes.exact.control.max_steps = m->odes.path.control.max_steps = most;
  return ATVI_OK;
}

const char *atvi_model_solver_word(const atvi_model *m) {
  static const char *const word[] = {"rk45", "rk4", "stiff", "map"};
  if (m->choice.automatic) return m->odes.fit.method == ATVI_ODE_STIFF ? "stiff, rk45" : "rk45, stiff";
  return word[m->odes.fit.method];
}
