/* SPDX-License-Identifier: MIT */
/* Adjoints against finite differences with the steps frozen, for every method. */
#include "problems.h"

static void weights(double *ybar, int n) {
  for (int i = 0; i < n; i++) EACH(l) ybar[i * L + l] = cos(1.7 * i + 0.31 * l) + 0.2;
}

static double ell(const atvi_ode *ode, const run *r, const double *yout, int lane, int from) {
  double sum = 0;
  for (int i = 0; i < ode->n_output * ode->n; i++) sum += r->ybar[i * L + from] * yout[i * L + lane];
  return sum;
}

/* Derivative along start value or parameter d of lane `lane`: six-point central differences, error h^6. */
static double difference(const atvi_ode *ode, run *r, int lane, int d, double rel_step) {
  static _Alignas(ATVI_ALIGN) double y0[3 * L], par[3 * L], yout[64 * 3 * L];
  static const double at[L] = {-3, -2, -1, 1, 2, 3, 0, 0};
  static const double weight[6] = {-1.0 / 60, 9.0 / 60, -45.0 / 60, 45.0 / 60, -9.0 / 60, 1.0 / 60};
  atvi_outcome outcome[L];
  int n = (int)ode->n, n_par = (int)ode->n_par;
  for (int i = 0; i < n; i++) EACH(l) y0[i * L + l] = r->y0[i * L + lane];
  for (int i = 0; i < n_par; i++) EACH(l) par[i * L + l] = r->par[i * L + lane];
  double *x = d < n ? &y0[d * L] : &par[(d - n) * L];
  double h = rel_step * fmax(fabs(x[0]), 0.1);
  EACH(l) x[l] += at[l] * h;
  atvi_ode_replay(ode, r->w, lane, y0, par, yout, outcome);
  double sum = 0;
  for (int j = 0; j < 6; j++) {
    CHECK_INT(outcome[j], ATVI_RUN_OK);
    sum += weight[j] * ell(ode, r, yout, j, lane);
  }
  return sum / h;
}

static void check_gradient(const atvi_ode *ode, run *r, double rel_step, double tol) {
  int n = (int)ode->n, n_par = (int)ode->n_par;
  weights(r->ybar, (int)ode->n_output * n);
  run_solve(r, ode, true);
  EACH(l) CHECK_INT(r->outcome[l], ATVI_RUN_OK);
  for (int i = 0; i < n_par * L; i++) r->parbar[i] = 0;
  atvi_ode_adjoint(ode, r->w, r->par, r->ybar, r->y0bar, r->parbar);
  EACH(l) {
    double fd[6], most = 0;
    for (int d = 0; d < n + n_par; d++) {
      fd[d] = difference(ode, r, l, d, rel_step);
      most = fmax(most, fabs(fd[d]) * (d < n ? fabs(r->y0[d * L + l]) : fabs(r->par[(d - n) * L + l])));
    }
    for (int d = 0; d < n + n_par; d++) {
      double g = d < n ? r->y0bar[d * L + l] : r->parbar[(d - n) * L + l];
      double unit = fmax(d < n ? fabs(r->y0[d * L + l]) : fabs(r->par[(d - n) * L + l]), 0.1);
      CHECK_ABS(g * unit, fd[d] * unit, tol * most);
    }
  }
}

static void epidemic(atvi_ode_method method, double tol) {
  atvi_ode ode = epi_problem(method);
  run r;
  run_open(&r, &ode);
  EACH(l) epi_lane(r.y0, r.par, l, l);
  check_gradient(&ode, &r, 1e-3, tol);
  run_close(&r);
}
static void of_rk45(void) { epidemic(ATVI_ODE_RK45, 1e-9); }
static void of_rk4(void) { epidemic(ATVI_ODE_RK4, 1e-9); }
/* Newton leaves 1e-13, differences with steps of 1e-3 magnify it a thousandfold */
static void of_stiff(void) { epidemic(ATVI_ODE_STIFF, 1e-8); }

/* y <- tab + y - 0.1 p y, with pulses */
PROGRAM(euler) {
  IGNORE;
  double *outs[1] = {out[0]};
  epi(self, scratch, in, outs);
  for (int i = 0; i < 3 * L; i++) out[0][i] = in[1][i] + 0.1 * out[0][i];
}
PROGRAM(euler_vjp) {
  IGNORE;
  _Alignas(ATVI_ALIGN) double lam[3 * L];
  const double *ins[5] = {in[0], in[1], in[2], in[3], lam};
  for (int i = 0; i < 3 * L; i++) lam[i] = 0.1 * in[4][i];
  epi_vjp(self, scratch, ins, out);
  for (int i = 0; i < 3 * L; i++) out[0][i] += in[4][i];
}

static void of_map(void) {
  atvi_ode_stop stop[4] = {{-0.3, 0, -1, epi_tabs},
                           {0.4, -1, 0, epi_tabs + 1},
                           {2.1, 1, 0, epi_tabs + 1},
                           {4.7, 2, -1, epi_tabs + 2}};
  atvi_ode ode = epi_problem(ATVI_ODE_MAP);
  ode.rhs = PROG(euler);
  ode.vjp = PROG(euler_vjp);
  ode.stop = stop;
  ode.n_stop = 4;
  ode.n_output = 3;
  run r;
  run_open(&r, &ode);
  EACH(l) epi_lane(r.y0, r.par, l, l);
  check_gradient(&ode, &r, 1e-3, 1e-9);
  run_close(&r);
}

/* dy/dp and dy/dy0 of y' = tab - p y, known exactly: adjoint of the solution up to the tolerance. */
static void is_that_of_the_equation(void) {
  static const double tabs[1] = {2.9};
  atvi_ode_stop stop[2] = {{0, -1, -1, tabs}, {1.9, 0, -1, tabs}};
  atvi_ode ode = {.n = 1,
                  .n_par = 1,
                  .n_tab = 1,
                  .rhs = PROG(decay),
                  .vjp = PROG(decay_vjp),
                  .n_stop = 2,
                  .stop = stop,
                  .n_output = 1,
                  .tol_rel = 1e-10,
                  .tol_abs = 1e-10,
                  .max_steps = 1000};
  run r;
  run_open(&r, &ode);
  EACH(l) {
    r.y0[l] = 0.7;
    r.par[l] = 0.3 + 0.4 * l;
    r.ybar[l] = 1.3;
    r.parbar[l] = 17 * l; /* is added to */
  }
  run_solve(&r, &ode, true);
  atvi_ode_adjoint(&ode, r.w, r.par, r.ybar, r.y0bar, r.parbar);
  EACH(l) {
    double p = r.par[l], e = exp(-1.9 * p);
    CHECK_ABS(r.y0bar[l], 1.3 * e, 1e-9);
    CHECK_ABS(r.parbar[l] - 17 * l, 1.3 * (-2.9 / p / p * (1 - e) - 1.9 * e * (0.7 - 2.9 / p)), 1e-7);
  }
  run_close(&r);
}

static void replay_repeats_the_solution(void) {
  for (int m = 0; m < 3; m++) {
    atvi_ode ode = epi_problem((atvi_ode_method)m);
    run r;
    run_open(&r, &ode);
    EACH(l) epi_lane(r.y0, r.par, l, l);
    run_solve(&r, &ode, true);
    static _Alignas(ATVI_ALIGN) double y0[3 * L], par[3 * L], yout[64 * 3 * L];
    for (int lane = 0; lane < L; lane += 3) {
      EACH(l) epi_lane(y0, par, l, lane);
      atvi_ode_replay(&ode, r.w, lane, y0, par, yout, r.outcome);
      EACH(l) CHECK_INT(r.outcome[l], ATVI_RUN_OK);
      for (int i = 0; i < 21;
           i++) /* slopes are computed anew, not carried over: rounding, for STIFF Newton's rest */
        CHECK_REL(yout[i * L + 5], r.yout[i * L + lane], m == ATVI_ODE_STIFF ? 1e-10 : 1e-14);
    }
    run_close(&r);
  }
}

TESTS({"rk45", of_rk45}, {"rk4", of_rk4}, {"stiff", of_stiff}, {"map", of_map},
      {"exact", is_that_of_the_equation}, {"replay", replay_repeats_the_solution})
