/* SPDX-License-Identifier: MIT */
/* Problems written by hand as programs, for the tests of src/ode. */
#ifndef ATVI_TEST_ODE_PROBLEMS_H
#define ATVI_TEST_ODE_PROBLEMS_H

#include "ode/ode.h"
#include "testing.h"

enum { L = ATVI_LANES };
#define EACH(l) for (int l = 0; l < L; l++)
#define PROGRAM(name)                                                                                        \
  static TEST_UNUSED void name(const void *self, double *scratch, const double *const *in, double *const *out)
#define IGNORE ((void)self, (void)scratch)
#define PROG(f) ((atvi_prog){.fn = (f)})

/* y' = tab - p y: exact between jumps of tab */
PROGRAM(decay) {
  IGNORE;
  EACH(l) out[0][l] = in[3][l] - in[2][l] * in[1][l];
}
PROGRAM(decay_vjp) {
  IGNORE;
  EACH(l) {
    out[0][l] = -in[2][l] * in[4][l];
    out[1][l] -= in[1][l] * in[4][l];
  }
}
PROGRAM(decay_jac) {
  IGNORE;
  EACH(l) out[0][l] = -in[2][l];
}

/* y' = r y (1 - y / K) */
PROGRAM(logistic) {
  IGNORE;
  EACH(l) out[0][l] = in[2][l] * in[1][l] * (1 - in[1][l] / in[2][L + l]);
}

/* x'' = -w^2 x */
PROGRAM(harmonic) {
  IGNORE;
  EACH(l) {
    out[0][l] = in[1][L + l];
    out[0][L + l] = -in[2][l] * in[2][l] * in[1][l];
  }
}

/* y' = p (y - cos t) - sin t, solution cos t from y(0) = 1; stiff for p << 0 */
PROGRAM(prothero) {
  IGNORE;
  EACH(l) out[0][l] = in[2][l] * (in[1][l] - cos(in[0][l])) - sin(in[0][l]);
}
PROGRAM(prothero_jac) {
  IGNORE;
  EACH(l) out[0][l] = in[2][l];
}

/* y' = p y^2: leaves the real numbers at t = 1 / (p y0) */
PROGRAM(blowup) {
  IGNORE;
  EACH(l) out[0][l] = in[2][l] * in[1][l] * in[1][l];
}

/* Epidemic with seasonal transmission and loss of immunity: y = S I R, par = beta gamma amp, tab = loss rate. */
PROGRAM(epi) {
  IGNORE;
  EACH(l) {
    double S = in[1][l], I = in[1][L + l], R = in[1][2 * L + l];
    double inf = in[2][l] * S * I / (S + I + R) * (1 + in[2][2 * L + l] * cos(in[0][l]));
    out[0][l] = -inf + in[3][l] * R;
    out[0][L + l] = inf - in[2][L + l] * I;
    out[0][2 * L + l] = in[2][L + l] * I - in[3][l] * R;
  }
}
PROGRAM(epi_vjp) {
  IGNORE;
  EACH(l) {
    double S = in[1][l], I = in[1][L + l], R = in[1][2 * L + l], N = S + I + R, c = cos(in[0][l]);
    double beta = in[2][l], gamma = in[2][L + l], season = 1 + in[2][2 * L + l] * c;
    double l0 = in[4][l], l1 = in[4][L + l], l2 = in[4][2 * L + l], d = l1 - l0,
           inf = beta * S * I / N * season;
    out[0][l] = d * (beta * season * I - inf) / N;
    out[0][L + l] = d * (beta * season * S - inf) / N + gamma * (l2 - l1);
    out[0][2 * L + l] = -d * inf / N + in[3][l] * (l0 - l2);
    out[1][l] += d * S * I / N * season;
    out[1][L + l] += I * (l2 - l1);
    out[1][2 * L + l] += d * beta * S * I / N * c;
  }
}
PROGRAM(epi_jac) {
  IGNORE;
  EACH(l) {
    double S = in[1][l], I = in[1][L + l], R = in[1][2 * L + l], N = S + I + R;
    double b = in[2][l] * (1 + in[2][2 * L + l] * cos(in[0][l])), inf = b * S * I / N;
    double d[3] = {(b * I - inf) / N, (b * S - inf) / N, -inf / N};
    for (int j = 0; j < 3; j++) {
      out[0][j * L + l] = -d[j] + (j == 2 ? in[3][l] : 0);
      out[0][(3 + j) * L + l] = d[j] - (j == 1 ? in[2][L + l] : 0);
      out[0][(6 + j) * L + l] = (j == 1 ? in[2][L + l] : 0) - (j == 2 ? in[3][l] : 0);
    }
  }
}
/* A share gamma / 5 of S becomes I, and tab is added to R. */
PROGRAM(epi_pulse) {
  IGNORE;
  EACH(l) {
    double moved = 0.2 * in[2][L + l] * in[1][l];
    out[0][l] = in[1][l] - moved;
    out[0][L + l] = in[1][L + l] + moved;
    out[0][2 * L + l] = in[1][2 * L + l] + in[3][l];
  }
}
PROGRAM(epi_pulse_vjp) {
  IGNORE;
  EACH(l) {
    double d = in[4][L + l] - in[4][l];
    out[0][l] = in[4][l] + 0.2 * in[2][L + l] * d;
    out[0][L + l] = in[4][L + l];
    out[0][2 * L + l] = in[4][2 * L + l];
    out[1][L + l] += 0.2 * in[1][l] * d;
  }
}

/* Robertson's chemistry: par = 0.04, 1e4, 3e7 */
PROGRAM(robertson) {
  IGNORE;
  EACH(l) {
    double a = in[2][l] * in[1][l], b = in[2][L + l] * in[1][L + l] * in[1][2 * L + l];
    double c = in[2][2 * L + l] * in[1][L + l] * in[1][L + l];
    out[0][l] = -a + b;
    out[0][L + l] = a - b - c;
    out[0][2 * L + l] = c;
  }
}
PROGRAM(robertson_jac) {
  IGNORE;
  EACH(l) {
    double y2 = in[1][L + l], y3 = in[1][2 * L + l], p2 = in[2][L + l], c = 2 * in[2][2 * L + l] * y2;
    double J[9] = {-in[2][l], p2 * y3, p2 * y2, in[2][l], -p2 * y3 - c, -p2 * y2, 0, c, 0};
    for (int i = 0; i < 9; i++) out[0][i * L + l] = J[i];
  }
}
PROGRAM(robertson_vjp) {
  IGNORE;
  EACH(l) {
    double y1 = in[1][l], y2 = in[1][L + l], y3 = in[1][2 * L + l];
    double da = in[4][L + l] - in[4][l], db = -da, dc = in[4][2 * L + l] - in[4][L + l];
    out[0][l] = in[2][l] * da;
    out[0][L + l] = in[2][L + l] * y3 * db + 2 * in[2][2 * L + l] * y2 * dc;
    out[0][2 * L + l] = in[2][L + l] * y2 * db;
    out[1][l] += y1 * da;
    out[1][L + l] += y2 * y3 * db;
    out[1][2 * L + l] += y2 * y2 * dc;
  }
}

/* x' = v, v' = mu (1 - x^2) v - x */
PROGRAM(vanderpol) {
  IGNORE;
  EACH(l) {
    double x = in[1][l], v = in[1][L + l];
    out[0][l] = v;
    out[0][L + l] = in[2][l] * (1 - x * x) * v - x;
  }
}
PROGRAM(vanderpol_jac) {
  IGNORE;
  EACH(l) {
    double x = in[1][l], v = in[1][L + l];
    out[0][l] = 0;
    out[0][L + l] = 1;
    out[0][2 * L + l] = -2 * in[2][l] * x * v - 1;
    out[0][3 * L + l] = in[2][l] * (1 - x * x);
  }
}
PROGRAM(vanderpol_vjp) {
  IGNORE;
  EACH(l) {
    double x = in[1][l], v = in[1][L + l], l0 = in[4][l], l1 = in[4][L + l];
    out[0][l] = (-2 * in[2][l] * x * v - 1) * l1;
    out[0][L + l] = l0 + in[2][l] * (1 - x * x) * l1;
    out[1][l] += (1 - x * x) * v * l1;
  }
}

static const double no_tab[1] = {0};
static TEST_UNUSED const atvi_prog epi_pulses[1] = {{.fn = epi_pulse}},
                                   epi_pulse_vjps[1] = {{.fn = epi_pulse_vjp}};

/* Stops at t0, t0 + dt, ..., n of them, each an output, without tables or pulses. */
static TEST_UNUSED void plain_stops(atvi_ode_stop *stop, int n, double t0, double dt) {
  for (int s = 0; s < n; s++) stop[s] = (atvi_ode_stop){t0 + s * dt, s, -1, no_tab};
}

static TEST_UNUSED void fill_lanes(double *to, int n, const double *from) {
  for (int i = 0; i < n; i++) EACH(l) to[i * L + l] = from[i];
}

/* The epidemic with everything: burn-in without outputs, tables that jump, two pulses, one of them on an
 * output. */
static const double epi_tabs[4] = {0.031, 0.31, 0.127, 0.0};
static TEST_UNUSED const atvi_ode_stop epi_stops[9] = {
    {-1.37, 0, -1, epi_tabs},     {0.0, -1, -1, epi_tabs + 1},  {1.2, 1, -1, epi_tabs + 1},
    {2.385, -1, 0, epi_tabs + 2}, {3.0, 2, -1, epi_tabs + 2},   {4.1, 3, 0, epi_tabs + 2},
    {4.2, 4, -1, epi_tabs + 3},   {11.73, 5, -1, epi_tabs + 3}, {12.0, 6, -1, epi_tabs + 3}};

static TEST_UNUSED atvi_ode epi_problem(atvi_ode_method method) {
  return (atvi_ode){.method = method,
                    .n = 3,
                    .n_par = 3,
                    .n_tab = 1,
                    .rhs = PROG(epi),
                    .vjp = PROG(epi_vjp),
                    .jac = PROG(epi_jac),
                    .pulses.n = 1,
                    .pulses.prog = epi_pulses,
                    .pulses.vjp = epi_pulse_vjps,
                    .n_stop = 9,
                    .stop = epi_stops,
                    .n_output = 7,
                    .control.tol_rel = 1e-5,
                    .control.tol_abs = 1e-5,
                    .control.h = 0.1,
                    .control.max_steps = 10000};
}

/* Lane l of a batch of epidemics of different difficulty. */
static TEST_UNUSED void epi_lane(double *y0, double *par, int l, int who) {
  y0[l] = 97.3 - 3.1 * who;
  y0[L + l] = 0.83 + 0.41 * who;
  y0[2 * L + l] = 1.7 * who;
  par[l] = 0.94 + 0.61 * who;
  par[L + l] = 0.371 + 0.093 * who;
  par[2 * L + l] = 0.27 - 0.03 * who;
}

typedef struct {
  atvi_ctx *ctx;
  atvi_ode_work *w;
  _Alignas(ATVI_ALIGN) double y0[3 * L], par[3 * L], yout[64 * 3 * L];
  _Alignas(ATVI_ALIGN) double ybar[64 * 3 * L], y0bar[3 * L], parbar[3 * L];
  atvi_outcome outcome[L];
} run;

static TEST_UNUSED void run_open(run *r, const atvi_ode *ode) {
  memset(r, 0, sizeof *r);
  r->ctx = test_ctx();
  CHECK_OK(atvi_ode_work_new(r->ctx, ode, &r->w));
}

static TEST_UNUSED void run_close(run *r) {
  atvi_ode_work_free(r->w);
  atvi_ctx_free(r->ctx);
  CHECK_INT(test_live, 0);
}

static TEST_UNUSED void run_solve(run *r, const atvi_ode *ode, bool tape) {
  atvi_ode_solve(ode, r->w, r->y0, r->par, r->yout, tape, r->outcome);
}

static TEST_UNUSED double run_at(const run *r, const atvi_ode *ode, int output, int state, int lane) {
  return r->yout[(output * ode->n + state) * L + lane];
}

#endif
