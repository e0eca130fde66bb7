/* SPDX-License-Identifier: MIT */
/* Evaluation of a model: log prior, log likelihood and gradients for groups of ATVI_LANES points.
 *
 *   theta --prior--> log prior
 *   theta --setup--> H, y0 --solver--> states at outputs --rows--> log likelihood
 * and back: rows' adjoints -> solver's adjoint -> setup's adjoint -> gradient. */
#include "model/model.h"
#include <math.h>
#include <string.h>

enum { L = ATVI_LANES };

static atvi_model_work *carve(atvi_arena *a, const atvi_model *m) {
  atvi_model_work *o, head = {0};
  atvi_idx d = m->target.d, n = m->states.n, nh = m->prog.n_hoist, n_el = m->lik.max_el,
           n_out = m->copies.most_output;
  atvi_idx n_report = m->levels.most_arg, n_arg = m->emulated ? m->emulated->n_arg : 0;
  for (atvi_idx k = 0; k < m->lang->n_data; k++)
    if (m->rare.report_args[k] + m->lang->n_observe > n_report)
      n_report = m->rare.report_args[k] + m->lang->n_observe;
  if (m->lang->outputs.n_derived > n_report) n_report = m->lang->outputs.n_derived;
  if (m->lang->outputs.n_track > n_report) n_report = m->lang->outputs.n_track;
  if (2 * m->place.n > n_report) n_report = 2 * m->place.n;
  if (n_report > n_el) n_el = n_report;
  ATVI_TAKE(a, o, 1);
  ATVI_TAKE(a, head.theta, (d + m->copies.n_covariate + 1) * L);
  ATVI_TAKE(a, head.grad.prior, (d + 1) * L);
  ATVI_TAKE(a, head.grad.extra, (d + 1) * L);
  ATVI_TAKE(a, head.grad.lik, (d + 1) * L);
  ATVI_TAKE(a, head.value, L);
  ATVI_TAKE(a, head.units.prior, (m->arrays.n + 1) * L);
  ATVI_TAKE(a, head.units.lik, (m->arrays.n + 1) * L);
  ATVI_TAKE(a, head.units.extra, (m->arrays.n + 1) * L);
  ATVI_TAKE(a, head.hoist, (nh + 1) * L);
  ATVI_TAKE(a, head.seeds, (nh + n + n_arg + 1) * L);
  ATVI_TAKE(a, head.y0, (n + 1) * L);
  ATVI_TAKE(a, head.arg, (n_arg + 1) * L);
  ATVI_TAKE(a, head.yout, (n_out * n + 1) * L);
  ATVI_TAKE(a, head.ybar, (n_out * n + 1) * L);
  ATVI_TAKE(a, head.el, (n_el + 1) * L);
  ATVI_TAKE(a, head.scratch, m->prog.scratch + 1);
  ATVI_TAKE(a, head.time, 1);
  if (m->lang->dynamics.steady) {
    ATVI_TAKE(a, head.start.guess, (n + 1) * L);
    ATVI_TAKE(a, head.start.guess_bar, (n + 1) * L);
  }
  ATVI_TAKE(a, head.path.value, (m->lang->outputs.n_trajectory + 1) * L);
  ATVI_TAKE(a, head.path.out, (m->lang->outputs.n_trajectory + 1) * L);
  ATVI_TAKE(a, head.path.best, (m->lang->outputs.n_trajectory + 1) * L);
  ATVI_TAKE(a, head.path.seen, (m->lang->outputs.n_trajectory + 1) * L);
  if (m->choice.automatic) {
    ATVI_TAKE(a, head.second.yout, (n_out * n + 1) * L);
    ATVI_TAKE(a, head.second.y0_bar, (n + 1) * L);
    ATVI_TAKE(a, head.second.hoist_bar, (nh + 1) * L);
  }
  if (m->prog.tangents) {
    ATVI_TAKE(a, head.dot.theta, (d + m->copies.n_covariate + 1) * L);
    ATVI_TAKE(a, head.dot.value, L);
    ATVI_TAKE(a, head.dot.hoist, (nh + 1) * L);
    ATVI_TAKE(a, head.dot.y0, (n + 1) * L);
    ATVI_TAKE(a, head.dot.guess, (n + 1) * L);
    ATVI_TAKE(a, head.dot.arg, (n_arg + 1) * L);
    ATVI_TAKE(a, head.dot.yout, (n_out * n + 1) * L);
    ATVI_TAKE(a, head.dot.yout2, (n_out * n + 1) * L);
    ATVI_TAKE(a, head.dot.el, (n_el + 1) * L);
    ATVI_TAKE(a, head.dot.setup, (nh + n + n_arg + 1) * L);
  }
  head.hoist_bar = head.seeds;
  if (o) {
    head.y0_bar = head.seeds + nh * L;
    head.arg_bar = head.seeds + (nh + n) * L;
    *o = head;
  }
  return o;
}

/* Whether the solver makes an error that its tolerance controls. */
static bool inexact(const atvi_model *m) {
  return m->odes.any && (m->odes.fit.method == ATVI_ODE_RK45 || m->odes.fit.method == ATVI_ODE_STIFF);
}

atvi_status atvi_model_work_new(const void *self, atvi_ctx *ctx, void **work) {
  const atvi_model *m = self;
  atvi_arena a = {0};
  *work = NULL;
  carve(&a, m);
  a = (atvi_arena){.base = atvi_block(ctx, a.used)};
  if (!a.base) return ATVI_ENOMEM;
  atvi_model_work *w = carve(&a, m);
  w->ctx = ctx;
  atvi_status status = m->odes.any ? atvi_ode_work_new(ctx, &m->odes.fit, &w->ode) : ATVI_OK;
  if (status == ATVI_OK && m->choice.automatic)
    status = atvi_ode_work_new(ctx, &m->choice.other, &w->second.ode);
  if (status == ATVI_OK && inexact(m)) status = atvi_ode_work_new(ctx, &m->odes.exact, &w->exact);
  if (status == ATVI_OK && m->odes.any && m->lang->dynamics.steady)
    status = atvi_ode_work_new(ctx, &m->odes.steady, &w->start.ode);
  if (status == ATVI_OK && m->odes.any && m->lang->outputs.n_trajectory)
    status = atvi_ode_work_new(ctx, &m->odes.path, &w->path.ode);
  if (status == ATVI_OK && m->emulated) status = atvi_model_emulated_work_new(m->emulated, ctx, &w->emulated);
  if (status != ATVI_OK) {
    atvi_model_work_free(w);
    return status;
  }
  *work = w;
  return ATVI_OK;
}

void atvi_model_work_free(void *work) {
  atvi_model_work *w = work;
  if (!w) return;
  if (w->ode) atvi_ode_work_free(w->ode);
  atvi_ode_work_free(w->second.ode);
  if (w->exact) atvi_ode_work_free(w->exact);
  atvi_ode_work_free(w->path.ode);
  atvi_ode_work_free(w->start.ode);
  atvi_model_emulated_work_free(w->emulated);
  atvi_block_free(w->ctx, w);
}

int atvi_model_load_lanes(const atvi_model *m, atvi_model_work *w, atvi_idx B, const double *theta,
                          atvi_idx first) {
  int real = B - first < L ? (int)(B - first) : L;
  for (atvi_idx i = 0; i < m->target.d; i++)
    for (int l = 0; l < L; l++) w->theta[i * L + l] = theta[i * B + first + (l < real ? l : real - 1)];
  atvi_model_load_covariates(m, w);
  return real;
}

void atvi_model_load_covariates(const atvi_model *m, atvi_model_work *w) {
  for (atvi_idx i = 0; i < m->copies.n_covariate; i++)
    for (int l = 0; l < L; l++) w->theta[(m->target.d + i) * L + l] = m->copies.covariate[i];
}

/* to = from in the lanes of mask, [n][L] */
static void take_lanes(atvi_idx n, unsigned mask, const double *from, double *to) {
  for (atvi_idx i = 0; i < n * L; i++)
    if (mask >> (i % L) & 1) to[i] = from[i];
}

void atvi_model_setup(const atvi_model *m, atvi_model_work *w, bool tape) {
  double *y0 = w->start.ode ? w->start.guess : w->y0;
  atvi_graph_prog_run(&m->prog.setup, w->scratch, (const double *[]){w->theta},
                      (double *[]){w->hoist, y0, w->arg});
  for (int l = 0; l < L; l++) w->start.outcome[l] = ATVI_RUN_OK;
  if (!w->start.ode) return;
  atvi_ode_solve(&m->odes.steady, w->start.ode, w->start.guess, w->hoist, w->y0, tape, w->start.outcome);
  unsigned failed = 0;
  for (int l = 0; l < L; l++) failed |= (unsigned)(w->start.outcome[l] != ATVI_RUN_OK) << l;
  take_lanes(m->states.n, failed, w->start.guess, w->y0);
}

/* What ended before the start did not begin. */
static void keep_rest(const atvi_model_work *w, atvi_outcome outcome[L]) {
  for (int l = 0; l < L; l++)
    if (w->start.outcome[l] != ATVI_RUN_OK) outcome[l] = w->start.outcome[l];
}

/* to = from, [n][L], with a lane of mask instead of those that are not in it. */
static void repeat_lane(atvi_idx n, unsigned mask, const double *from, double *to) {
  int first = 0;
  while (!(mask >> first & 1)) first++;
  for (atvi_idx i = 0; i < n * L; i++) to[i] = from[mask >> (i % L) & 1 ? i : i - i % L + first];
}

/* The lanes of mask, and those it has run before, by the other solver. The others do what one of these does,
 * so that no time is spent on events of their own; where the adjoints go later there is room for them. */
static void solve_by_other(const atvi_model *m, atvi_model_work *w, bool tape, unsigned mask,
                           atvi_outcome outcome[L]) {
  atvi_outcome again[L];
  if (!mask) return;
  w->second.lanes |= mask;
  repeat_lane(m->states.n, w->second.lanes, w->y0, w->second.y0_bar);
  repeat_lane(m->prog.n_hoist, w->second.lanes, w->hoist, w->second.hoist_bar);
  atvi_ode_solve(&m->choice.other, w->second.ode, w->second.y0_bar, w->second.hoist_bar, w->second.yout, tape,
                 again);
  take_lanes(m->times.n_output * m->states.n, w->second.lanes, w->second.yout, w->yout);
  for (int l = 0; l < L; l++)
    if (w->second.lanes >> l & 1) outcome[l] = again[l];
}

void atvi_model_solve(const atvi_model *m, atvi_model_work *w, bool tape, atvi_outcome outcome[L]) {
  atvi_model_setup(m, w, tape);
  for (int l = 0; l < L; l++) outcome[l] = ATVI_RUN_OK;
  w->second.lanes = 0;
  if (!m->odes.any) return;
  atvi_ode_solve(&m->odes.fit, w->ode, w->y0, w->hoist, w->yout, tape, outcome);
  unsigned failed = 0; /* pulses without end are none of the solver's making */
  for (int l = 0; l < L; l++)
    failed |= (unsigned)(outcome[l] != ATVI_RUN_OK && outcome[l] != ATVI_RUN_EVENTS) << l;
  if (w->second.ode) solve_by_other(m, w, tape, failed, outcome);
  keep_rest(w, outcome);
}

static double *state_at(const atvi_model *m, double *states, atvi_idx output) {
  return output >= 0 ? states + output * m->states.n * L : states;
}

static void add_lanes(const double from[L], double to[L]) {
  for (int l = 0; l < L; l++) to[l] += from[l];
}

/* Adds the log likelihood of all rows to sum[L]; with gradients, adjoints to w->ybar and w->hoist_bar; and
 * what is of each unit to w->unit_l. */
static void likelihood(const atvi_model *m, atvi_model_work *w, bool grad, double sum[L]) {
  for (atvi_idx k = 0; k < m->lik.n_rows; k++) {
    const atvi_rows *rows = &m->lik.rows[k];
    for (atvi_idx r = 0; r < rows->n_row; r++) {
      const double *mask = rows->mask + r * rows->n_el;
      const double *in[] = {w->hoist, state_at(m, w->yout, rows->out[r]), state_at(m, w->yout, rows->prev[r]),
                            rows->known + r * rows->n_known, mask};
      if (grad) {
        double *out[] = {w->el, state_at(m, w->ybar, rows->out[r]), state_at(m, w->ybar, rows->prev[r]),
                         w->hoist_bar};
        atvi_graph_prog_run(&rows->grad, w->scratch, in, out);
      } else {
        atvi_graph_prog_run(&rows->value, w->scratch, in, (double *[]){w->el});
      }
      for (atvi_idx e = 0; e < rows->n_el; e++) {
        if (mask[e] == 0) continue;
        add_lanes(w->el + e * L, sum);
        if (rows->unit) add_lanes(w->el + e * L, w->units.lik + rows->unit[r * rows->n_el + e] * L);
      }
    }
  }
}

/* Log prior of the lanes; lanes outside the support become a copy of one inside, so that the solver never
 * meets them. Returns whether any lane is inside. */
static bool prior(const atvi_model *m, atvi_model_work *w, double lp[L], atvi_outcome outcome[L]) {
  int inside = -1;
  atvi_graph_prog_run(&m->prog.prior, w->scratch, (const double *[]){w->theta},
                      (double *[]){w->value, w->grad.prior, w->units.prior});
  for (int l = 0; l < L; l++) {
    bool in = w->value[l] > -HUGE_VAL && w->value[l] < HUGE_VAL;
    for (atvi_idx i = 0; in && i < m->target.d; i++) {
      double x = w->theta[i * L + l];
      in = x >= m->target.param[i].lower && x <= m->target.param[i].upper && isfinite(x);
    }
    lp[l] = in ? w->value[l] : -HUGE_VAL;
    outcome[l] = in ? ATVI_RUN_OK : ATVI_RUN_OUTSIDE;
    if (in) inside = l;
  }
  for (int l = 0; inside >= 0 && l < L; l++)
    if (outcome[l] == ATVI_RUN_OUTSIDE)
      for (atvi_idx i = 0; i < m->target.d; i++) w->theta[i * L + l] = w->theta[i * L + inside];
  return inside >= 0;
}

static void extra(const atvi_model *m, atvi_model_work *w, double ll[L]) {
  if (!m->prog.has_extra) return;
  const atvi_prog *p = w->branch > 0 ? &m->branches.extra[w->branch - 1] : &m->prog.extra;
  atvi_graph_prog_run(p, w->scratch, (const double *[]){w->theta},
                      (double *[]){w->value, w->grad.extra, w->units.extra});
  add_lanes(w->value, ll);
  for (atvi_idx u = 0; w->branch == 0 && u < m->arrays.n; u++)
    add_lanes(w->units.extra + u * L, w->units.lik + u * L);
}

/* Ways to run setup and the solver: as usual, or near rounding. */
typedef void solving(const atvi_model *m, atvi_model_work *w, bool tape, atvi_outcome outcome[L]);

static void solve_exact(const atvi_model *m, atvi_model_work *w, bool tape, atvi_outcome outcome[L]) {
  if (!w->exact) {
    atvi_model_solve(m, w, tape, outcome);
    return;
  }
  w->second.lanes = 0;
  atvi_model_setup(m, w, false);
  atvi_ode_solve(&m->odes.exact, w->exact, w->y0, w->hoist, w->yout, tape, outcome);
  keep_rest(w, outcome);
}

static void gradient(const atvi_model *m, atvi_model_work *w) {
  atvi_idx n = m->states.n, nh = m->prog.n_hoist;
  if (w->second.lanes) { /* both adjoints begin from what the rows gave */
    memcpy(w->second.hoist_bar, w->hoist_bar, (size_t)(nh * L) * sizeof *w->hoist_bar);
    atvi_ode_adjoint(&m->choice.other, w->second.ode, w->hoist, w->ybar, w->second.y0_bar,
                     w->second.hoist_bar);
  }
  if (m->odes.any && w->second.lanes != (1u << L) - 1)
    atvi_ode_adjoint(&m->odes.fit, w->ode, w->hoist, w->ybar, w->y0_bar, w->hoist_bar);
  if (w->second.lanes) {
    take_lanes(n, w->second.lanes, w->second.y0_bar, w->y0_bar);
    take_lanes(nh, w->second.lanes, w->second.hoist_bar, w->hoist_bar);
  }
  if (w->start.ode) {
    atvi_ode_adjoint(&m->odes.steady, w->start.ode, w->hoist, w->y0_bar, w->start.guess_bar, w->hoist_bar);
    memcpy(w->y0_bar, w->start.guess_bar, (size_t)(n * L) * sizeof *w->y0_bar);
  }
  atvi_graph_prog_run(&m->prog.setup_vjp, w->scratch, (const double *[]){w->theta, w->seeds},
                      (double *[]){w->grad.lik});
  for (atvi_idx i = 0; m->prog.has_extra && i < m->target.d * L; i++) w->grad.lik[i] += w->grad.extra[i];
}

/* Log likelihood of the lanes that were solved for; with gradients, its adjoints by states, HOIST and
 * arguments. */
static void score(const atvi_model *m, atvi_model_work *w, int part, bool grad, double ll[L]) {
  atvi_idx n = m->states.n, n_arg = m->emulated ? m->emulated->n_arg : 0;
  if (grad) {
    memset(w->ybar, 0, (size_t)(m->times.n_output * n * L) * sizeof *w->ybar);
    memset(w->seeds, 0, (size_t)((m->prog.n_hoist + n + n_arg) * L) * sizeof *w->seeds);
  }
  for (int l = 0; l < L; l++) ll[l] = 0;
  memset(w->units.lik, 0, (size_t)(m->arrays.n * L) * sizeof *w->units.lik);
  likelihood(m, w, grad, ll);
  if (m->emulated)
    atvi_model_emulated_lanes(m->emulated, w->emulated, part, w->arg, grad ? w->arg_bar : NULL, ll);
  extra(m, w, ll);
}

/* Lanes whose states have no likelihood, such as one just below 0 that is positive: the other solver may see
 * that. */
static unsigned undefined(const atvi_model_work *w, const double ll[L], const atvi_outcome run[L]) {
  unsigned mask = 0;
  for (int l = 0; l < L; l++) mask |= (unsigned)(run[l] == ATVI_RUN_OK && isnan(ll[l])) << l;
  return mask & ~w->second.lanes;
}

/* Log likelihood of the lanes in w->theta, and its gradient in w->grad_l. part: where the lanes begin in
 * their group. */
static void evaluate(const atvi_model *m, atvi_model_work *w, solving *solve, int part, bool grad,
                     double ll[L], atvi_outcome outcome[L]) {
  atvi_outcome run[L];
  solve(m, w, grad, run);
  score(m, w, part, grad, ll);
  unsigned again = w->second.ode && solve == atvi_model_solve ? undefined(w, ll, run) : 0;
  if (again) {
    solve_by_other(m, w, grad, again, run);
    score(m, w, part, grad, ll);
  }
  if (grad) gradient(m, w);
  for (int l = 0; l < L; l++) {
    bool finite = !isnan(ll[l]) && ll[l] != HUGE_VAL;
    /* an unknown slope is as bad as an unknown value; where the likelihood is 0 there is no slope */
    for (atvi_idx i = 0; finite && grad && ll[l] > -HUGE_VAL && i < m->target.d; i++)
      finite = isfinite(w->grad.lik[i * L + l]);
    if (outcome[l] == ATVI_RUN_OK) outcome[l] = run[l];
    if (outcome[l] == ATVI_RUN_OK && !finite) outcome[l] = ATVI_RUN_NONFINITE;
    if (outcome[l] != ATVI_RUN_OK) ll[l] = -HUGE_VAL;
  }
}

static void put(double *to, atvi_idx first, int real, const double *from) {
  for (int l = 0; to && l < real; l++) to[first + l] = from[l];
}

static void put_gradient(const atvi_model *m, const atvi_batch *b, double *to, atvi_idx first, int real,
                         const double *from, const double value[L]) {
  for (atvi_idx i = 0; to && i < m->target.d; i++)
    for (int l = 0; l < real; l++) to[i * b->B + first + l] = isfinite(value[l]) ? from[i * L + l] : 0;
}

/* Densities of units, [n_array][B]: 0 where the point has no prior, or where they are unknown. */
static void put_units(const atvi_model *m, const atvi_batch *b, double *to, atvi_idx first, int real,
                      const double *from, const double lp[L]) {
  for (atvi_idx u = 0; to && u < m->arrays.n; u++)
    for (int l = 0; l < real; l++) {
      double x = from[u * L + l];
      to[u * b->B + first + l] = isfinite(lp[l]) && isfinite(x) ? x : -HUGE_VAL;
    }
}

bool atvi_model_eval_lanes(const atvi_model *m, atvi_model_work *w, double lp[L], double ll[L],
                           atvi_outcome outcome[L]) {
  bool inside = prior(m, w, lp, outcome);
  if (inside) evaluate(m, w, atvi_model_solve, 0, true, ll, outcome);
  return inside;
}

/* One part of a group: points first .. first+L-1. Tells which have a likelihood. */
static void run_part(const atvi_model *m, atvi_model_work *w, solving *solve, const atvi_batch *b,
                     atvi_idx first, int part, bool *good) {
  bool want = b->log_lik || b->grad_lik || b->unit_lik;
  int real = atvi_model_load_lanes(m, w, b->B, b->theta, first);
  double lp[L], ll[L];
  atvi_outcome outcome[L];
  for (int l = 0; l < L; l++) ll[l] = -HUGE_VAL;
  if (prior(m, w, lp, outcome) && want) evaluate(m, w, solve, part, b->grad_lik != NULL, ll, outcome);
  put_units(m, b, b->unit_prior, first, real, w->units.prior, lp);
  put_units(m, b, b->unit_lik, first, real, w->units.lik, lp);
  put(b->log_prior, first, real, lp);
  put(b->log_lik, first, real, ll);
  put_gradient(m, b, b->grad_prior, first, real, w->grad.prior, lp);
  put_gradient(m, b, b->grad_lik, first, real, w->grad.lik, ll);
  for (int l = 0; b->outcome && l < real; l++) b->outcome[first + l] = outcome[l];
  for (int l = 0; l < L; l++) good[l] = isfinite(ll[l]);
}

static void run_batch(const atvi_model *m, atvi_model_work *w, solving *solve, const atvi_batch *b) {
  const int group = m->emulated ? (int)ATVI_EM_GROUP : (int)L;
  bool good[ATVI_EM_GROUP], want = b->log_lik || b->grad_lik;
  for (atvi_idx at = 0; at < b->B; at += group) {
    if (m->emulated && want) atvi_model_emulated_begin(m->emulated, w->emulated, false, b->B, b->theta, at);
    for (int part = 0; part < group && at + part < b->B; part += L)
      run_part(m, w, solve, b, at + part, part, good + part);
    if (m->emulated && b->grad_lik)
      atvi_model_emulated_end(m->emulated, w->emulated, b->B, at, good, b->grad_lik);
  }
}

static void eval(const void *self, void *work, const atvi_batch *b) {
  run_batch(self, work, atvi_model_solve, b);
}

static void eval_branch(const void *self, void *work, atvi_idx k, const atvi_batch *b) {
  atvi_model_work *w = work;
  w->branch = k + 1;
  eval(self, work, b);
  w->branch = 0;
}

static void eval_exact(const void *self, void *work, const atvi_batch *b) {
  atvi_batch plain = *b;
  plain.grad_lik = NULL;
  run_batch(self, work, solve_exact, &plain);
}

const atvi_target_ops atvi_model_ops = {
    .size = sizeof(atvi_target_ops),
    .eval = eval,
    .work_new = atvi_model_work_new,
    .work_free = atvi_model_work_free,
    .prior_draw = atvi_model_prior_draw,
    .prior_place = atvi_model_prior_place,
    .prior_place_vjp = atvi_model_prior_place_vjp,
    .derived = atvi_model_derived,
    .pointwise = atvi_model_pointwise,
    .predict = atvi_model_predict,
    .simulate = atvi_model_simulate,
    .predictive = atvi_model_predictive,
    .leave_one_out = atvi_model_leave_one_out,
    .latent = atvi_model_latent,
    .eval_exact = eval_exact,
    .eval_branch = eval_branch,
};
