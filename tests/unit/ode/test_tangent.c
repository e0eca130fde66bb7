/* SPDX-License-Identifier: MIT */
/* Tangents along the steps: against the adjoint, whose transpose they are, and against differences of fine
 * solutions. Events, delays and steady states are in the tests of models, which have their programs. */
#include "problems.h"

static double dot_in(const double *const *in, int slot, int i) { return in[slot] ? in[slot][i] : 0; }

PROGRAM(epi_tangent) {
  epi(self, scratch, in, out);
  EACH(l) {
    double S = in[1][l], I = in[1][L + l], R = in[1][2 * L + l], N = S + I + R;
    double dS = dot_in(in, 5, l), dI = dot_in(in, 5, L + l), dR = dot_in(in, 5, 2 * L + l);
    double a = in[2][2 * L + l], season = 1 + a * cos(in[0][l]);
    double dseason = dot_in(in, 6, 2 * L + l) * cos(in[0][l]) - a * sin(in[0][l]) * dot_in(in, 4, l);
    double mix = S * I / N, dmix = (dS * I + S * dI) / N - mix / N * (dS + dI + dR);
    double dinf = dot_in(in, 6, l) * mix * season + in[2][l] * (dmix * season + mix * dseason);
    double out_of = dot_in(in, 6, L + l) * I + in[2][L + l] * dI;
    out[1][l] = -dinf + in[3][l] * dR;
    out[1][L + l] = dinf - out_of;
    out[1][2 * L + l] = out_of - in[3][l] * dR;
  }
}

PROGRAM(epi_pulse_tangent) {
  epi_pulse(self, scratch, in, out);
  EACH(l) {
    double moved = 0.2 * (dot_in(in, 6, L + l) * in[1][l] + in[2][L + l] * in[5][l]);
    out[1][l] = in[5][l] - moved;
    out[1][L + l] = in[5][L + l] + moved;
    out[1][2 * L + l] = in[5][2 * L + l];
  }
}

/* A Jacobian with one entry that is 1 % off. */
PROGRAM(epi_jac_wrong) {
  epi_jac(self, scratch, in, out);
  EACH(l) out[0][4 * L + l] *= 1.01;
}

PROGRAM(euler) {
  double *outs[1] = {out[0]};
  epi(self, scratch, in, outs);
  for (int i = 0; i < 3 * L; i++) out[0][i] = in[1][i] + 0.1 * out[0][i];
}
PROGRAM(euler_tangent) {
  epi_tangent(self, scratch, in, out);
  for (int i = 0; i < 3 * L; i++) {
    out[0][i] = in[1][i] + 0.1 * out[0][i];
    out[1][i] = in[5][i] + 0.1 * out[1][i];
  }
}
PROGRAM(euler_vjp) {
  _Alignas(ATVI_ALIGN) double lam[3 * L];
  const double *ins[5] = {in[0], in[1], in[2], in[3], lam};
  for (int i = 0; i < 3 * L; i++) lam[i] = 0.1 * in[4][i];
  epi_vjp(self, scratch, ins, out);
  for (int i = 0; i < 3 * L; i++) out[0][i] += in[4][i];
}

static const atvi_prog pulse_tangents[1] = {{.fn = epi_pulse_tangent}};
static const atvi_ode_tangents of_epi = {.rhs = {.fn = epi_tangent}, .pulse = pulse_tangents},
                               of_euler = {.rhs = {.fn = euler_tangent}, .pulse = pulse_tangents};
static _Alignas(ATVI_ALIGN) double y0dot[3 * L], pardot[3 * L], youtdot[7 * 3 * L];

static atvi_ode problem(atvi_ode_method method) {
  static const atvi_ode_stop grid[4] = {{-0.3, 0, -1, epi_tabs},
                                        {0.4, -1, 0, epi_tabs + 1},
                                        {2.1, 1, 0, epi_tabs + 1},
                                        {4.7, 2, -1, epi_tabs + 2}};
  atvi_ode ode = epi_problem(method);
  ode.tangents = &of_epi;
  if (method != ATVI_ODE_MAP) return ode;
  ode.rhs = PROG(euler);
  ode.vjp = PROG(euler_vjp);
  ode.tangents = &of_euler;
  ode.stop = grid;
  ode.n_stop = 4;
  ode.n_output = 3;
  return ode;
}

/* A direction per lane, solved and gone through. */
static void go(run *r, const atvi_ode *ode) {
  EACH(l) epi_lane(r->y0, r->par, l, l);
  for (int i = 0; i < 3 * L; i++)
    y0dot[i] = cos(2.3 * i) * r->y0[i], pardot[i] = sin(1.1 * i + 1) * r->par[i];
  run_solve(r, ode, true);
  EACH(l) CHECK_INT(r->outcome[l], ATVI_RUN_OK);
  atvi_ode_tangent(ode, r->w, r->par, y0dot, pardot, youtdot);
}

/* The largest relative difference of ybar . youtdot and of what the adjoint says. */
static double against_adjoint(run *r, const atvi_ode *ode) {
  double worst = 0;
  for (int i = 0; i < ode->n_output * 3 * L; i++) r->ybar[i] = cos(1.7 * i) + 0.2;
  memset(r->parbar, 0, sizeof r->parbar);
  atvi_ode_adjoint(ode, r->w, r->par, r->ybar, r->y0bar, r->parbar);
  EACH(l) {
    double forward = 0, back = 0, size = 0;
    for (int i = l; i < ode->n_output * 3 * L; i += L) forward += r->ybar[i] * youtdot[i];
    for (int i = l; i < 3 * L; i += L) {
      double parts[2] = {r->y0bar[i] * y0dot[i], r->parbar[i] * pardot[i]};
      back += parts[0] + parts[1];
      size += fabs(parts[0]) + fabs(parts[1]);
    }
    worst = fmax(worst, fabs(forward - back) / size);
  }
  return worst;
}

static void is_the_transpose_of_the_adjoint(void) {
  for (int m = 0; m < 4; m++) {
    atvi_ode ode = problem((atvi_ode_method)m);
    run r;
    run_open(&r, &ode);
    for (int again = 0; again < 2; again++) { /* what went before leaves nothing behind */
      go(&r, &ode);
      CHECK(against_adjoint(&r, &ode) < 1e-13);
    }
    run_close(&r);
  }
}

/* With tolerances near rounding, steps that differ change nothing: differences are known to 1e-8 or so. */
static void is_the_derivative(void) {
  static _Alignas(ATVI_ALIGN) double up[7 * 3 * L], y0[3 * L], par[3 * L];
  for (int m = 0; m < 4; m++) {
    atvi_ode ode = problem((atvi_ode_method)m);
    ode.control.tol_rel = ode.control.tol_abs = 1e-12;
    ode.control.max_steps = 100000;
    run r;
    run_open(&r, &ode);
    go(&r, &ode);
    memcpy(y0, r.y0, sizeof y0);
    memcpy(par, r.par, sizeof par);
    const double h = 1e-4;
    for (int side = 0; side < 2; side++) {
      for (int i = 0; i < 3 * L; i++) {
        r.y0[i] = y0[i] + (side ? -h : h) * y0dot[i];
        r.par[i] = par[i] + (side ? -h : h) * pardot[i];
      }
      run_solve(&r, &ode, false);
      if (!side) memcpy(up, r.yout, sizeof up);
    }
    for (int i = 0; i < ode.n_output * 3 * L; i++)
      CHECK_ABS(youtdot[i], (up[i] - r.yout[i]) / (2 * h), 2e-5 * (1 + fabs(youtdot[i])));
    run_close(&r);
  }
}

/* It serves the adjoint, which is then wrong; the tangent only uses it to find its way. (Steps are a little
 * different with it.) */
static void does_not_believe_the_jacobian(void) {
  static double right[7 * 3 * L];
  atvi_ode ode = problem(ATVI_ODE_STIFF);
  run r;
  run_open(&r, &ode);
  go(&r, &ode);
  memcpy(right, youtdot, sizeof right);
  ode.jac = PROG(epi_jac_wrong);
  go(&r, &ode);
  for (int i = 0; i < 7 * 3 * L; i++) CHECK_ABS(youtdot[i], right[i], 1e-6 * (1 + fabs(right[i])));
  CHECK(against_adjoint(&r, &ode) > 1e-6);
  run_close(&r);
}

TESTS({"adjoint", is_the_transpose_of_the_adjoint}, {"derivative", is_the_derivative},
      {"jacobian", does_not_believe_the_jacobian})
