/* SPDX-License-Identifier: MIT */
/* Adaptive 5(4), RK4 and difference equations against exact solutions. */
#include "problems.h"

static atvi_ode plain(atvi_ode_method method, atvi_idx n, atvi_idx n_par, atvi_prog rhs, atvi_ode_stop *stop,
                      int n_stop) {
  return (atvi_ode){.method = method,
                    .n = n,
                    .n_par = n_par,
                    .rhs = rhs,
                    .n_stop = n_stop,
                    .stop = stop,
                    .n_output = n_stop,
                    .control.tol_rel = 1e-8,
                    .control.tol_abs = 1e-8,
                    .control.h = 0.01,
                    .control.max_steps = 100000};
}

static void logistic_is_exact(void) {
  atvi_ode_stop stop[7];
  plain_stops(stop, 7, 0.3, 1.7);
  atvi_ode ode = plain(ATVI_ODE_RK45, 1, 2, PROG(logistic), stop, 7);
  run r;
  run_open(&r, &ode);
  EACH(l) {
    r.y0[l] = 0.37 + 0.2 * l;
    r.par[l] = 0.4 + 0.23 * l;
    r.par[L + l] = 41.3 + l;
  }
  run_solve(&r, &ode, false);
  EACH(l) {
    CHECK_INT(r.outcome[l], ATVI_RUN_OK);
    for (int s = 0; s < 7; s++) {
      double e = exp(r.par[l] * (stop[s].t - 0.3)), K = r.par[L + l];
      /* the error of each of about 20 steps is below 1e-8 of the state and grows with it at first */
      CHECK_REL(run_at(&r, &ode, s, 0, l), K * r.y0[l] * e / (K + r.y0[l] * (e - 1)), 1e-7);
    }
  }
  run_close(&r);
}

static void oscillation_keeps_phase_and_amplitude(void) {
  atvi_ode_stop stop[3];
  plain_stops(stop, 3, 0, 31.4);
  atvi_ode ode = plain(ATVI_ODE_RK45, 2, 1, PROG(harmonic), stop, 3);
  ode.control.tol_rel = ode.control.tol_abs = 1e-10;
  run r;
  run_open(&r, &ode);
  EACH(l) {
    r.y0[l] = 1.3;
    r.par[l] = 0.7 + 0.3 * l;
  }
  run_solve(&r, &ode, false);
  EACH(l) {
    CHECK_INT(r.outcome[l], ATVI_RUN_OK);
    for (int s = 0; s < 3; s++) /* up to 30 periods */
      CHECK_ABS(run_at(&r, &ode, s, 0, l), 1.3 * cos(r.par[l] * stop[s].t), 1e-6);
  }
  run_close(&r);
}

/* Forcing that jumps at stops, exact piecewise; the solver must not smear the jumps. */
static void lands_on_jumps(void) {
  static const double tabs[5] = {0, 100, 3.1, -55, 0};
  atvi_ode_stop stop[6];
  for (int s = 0; s < 6; s++) stop[s] = (atvi_ode_stop){1.13 * s, s, -1, &tabs[s < 5 ? s : 4]};
  atvi_ode ode = plain(ATVI_ODE_RK45, 1, 1, PROG(decay), stop, 6);
  ode.n_tab = 1;
  for (int stiff = 0; stiff < 2; stiff++) {
    ode.method = stiff ? ATVI_ODE_STIFF : ATVI_ODE_RK45;
    ode.jac = PROG(decay_jac);
    run r;
    run_open(&r, &ode);
    EACH(l) {
      r.y0[l] = 2.385;
      r.par[l] = 0.2 + 0.4 * l;
    }
    run_solve(&r, &ode, false);
    EACH(l) {
      CHECK_INT(r.outcome[l], ATVI_RUN_OK);
      double y = r.y0[l], p = r.par[l];
      for (int s = 1; s < 6; s++) {
        double level = tabs[s - 1] / p;
        y = level + (y - level) * exp(-p * 1.13);
        /* absolute tolerance: 1e-8 of the largest value so far, at most 100 / p, a dozen steps */
        CHECK_ABS(run_at(&r, &ode, s, 0, l), y, stiff ? 2e-5 / p : 2e-6 / p);
      }
    }
    run_close(&r);
  }
}

/* Halving the tolerance by 2^5 halves the step: the error falls with the tolerance. */
static void error_follows_tolerance(void) {
  atvi_ode_stop stop[2];
  plain_stops(stop, 2, 0, 10);
  double last = 0;
  for (int k = 4; k <= 10; k += 2) {
    atvi_ode ode = plain(ATVI_ODE_RK45, 2, 1, PROG(harmonic), stop, 2);
    ode.control.tol_rel = ode.control.tol_abs = pow(10, -k);
    run r;
    run_open(&r, &ode);
    fill_lanes(r.y0, 2, (double[]){1.3, 0.4});
    fill_lanes(r.par, 1, (double[]){1.7});
    run_solve(&r, &ode, false);
    double error = fabs(run_at(&r, &ode, 1, 0, 3) - (1.3 * cos(17) + 0.4 / 1.7 * sin(17)));
    CHECK(error < 30 * ode.control.tol_rel);
    if (last > 0) CHECK(error < last / 20);
    last = error;
    run_close(&r);
  }
}

static void rk4_has_order_four(void) {
  atvi_ode_stop stop[4] = {
      {0, 0, -1, no_tab}, {0.93, 1, -1, no_tab}, {2.1, 2, -1, no_tab}, {5, 3, -1, no_tab}};
  double error[3];
  for (int k = 0; k < 3; k++) {
    atvi_ode ode = plain(ATVI_ODE_RK4, 2, 1, PROG(harmonic), stop, 4);
    ode.control.h = 0.04 / (1 << k);
    run r;
    run_open(&r, &ode);
    fill_lanes(r.y0, 2, (double[]){1.3, 0.4});
    fill_lanes(r.par, 1, (double[]){1.7});
    run_solve(&r, &ode, false);
    CHECK_INT(r.outcome[5], ATVI_RUN_OK);
    CHECK(run_at(&r, &ode, 0, 1, 5) == 0.4);
    error[k] = fabs(run_at(&r, &ode, 3, 0, 5) - (1.3 * cos(8.5) + 0.4 / 1.7 * sin(8.5)));
    atvi_ode_count count[L];
    atvi_ode_counts(r.w, count);
    /* segments of 0.93, 1.17 and 2.9, each in equal steps not above h */
    CHECK_INT(count[2].accepted, ceil(0.93 / ode.control.h - 1e-6) + ceil(1.17 / ode.control.h - 1e-6) +
                                     ceil(2.9 / ode.control.h - 1e-6));
    run_close(&r);
  }
  CHECK_REL(log2(error[0] / error[1]), 4, 0.05);
  CHECK_REL(log2(error[1] / error[2]), 4, 0.05);
}

/* y <- tab - p y */
static void map_repeats_the_function(void) {
  static const double tabs[2] = {3.7, -1.1};
  atvi_ode_stop stop[3] = {{0.5, 0, -1, tabs}, {0.8, 1, -1, tabs + 1}, {1.5, 2, -1, tabs + 1}};
  atvi_ode ode = plain(ATVI_ODE_MAP, 1, 1, PROG(decay), stop, 3);
  ode.n_tab = 1;
  ode.control.h = 0.1;
  run r;
  run_open(&r, &ode);
  EACH(l) {
    r.y0[l] = 0.3 + l;
    r.par[l] = 0.11 * l - 0.4;
  }
  run_solve(&r, &ode, false);
  EACH(l) {
    double y = r.y0[l];
    CHECK(run_at(&r, &ode, 0, 0, l) == y);
    for (int i = 0; i < 3; i++) y = 3.7 - r.par[l] * y;
    CHECK_REL(run_at(&r, &ode, 1, 0, l), y, 1e-14);
    for (int i = 0; i < 7; i++) y = -1.1 - r.par[l] * y;
    CHECK_REL(run_at(&r, &ode, 2, 0, l), y, 1e-13);
  }
  run_close(&r);
}

/* More steps than a whole number can hold are still too many. */
static void huge_times_are_too_many_steps(void) {
  static const double times[3] = {1e18, 1e300, 1.7e308};
  for (int k = 0; k < 6; k++) {
    atvi_ode_stop stop[2] = {{-times[k % 3], 0, -1, NULL}, {times[k % 3], 1, -1, NULL}};
    atvi_ode ode = plain(k < 3 ? ATVI_ODE_MAP : ATVI_ODE_RK4, 1, 1, PROG(prothero), stop, 2);
    ode.control.h = 1;
    run r;
    run_open(&r, &ode);
    EACH(l) r.y0[l] = 0.3;
    run_solve(&r, &ode, false);
    EACH(l) CHECK_INT(r.outcome[l], ATVI_RUN_STEPS);
    run_close(&r);
  }
}

/* The unit of a state must not matter: scaling by a power of two scales the answer exactly. */
static void units_do_not_matter(void) {
  atvi_ode_stop stop[4];
  plain_stops(stop, 4, 0, 2.3);
  atvi_ode ode = plain(ATVI_ODE_RK45, 1, 2, PROG(logistic), stop, 4);
  ode.control.tol_rel = ode.control.tol_abs = 1e-5;
  run r;
  run_open(&r, &ode);
  EACH(l) {
    double unit = ldexp(1, 20 * l - 60);
    r.y0[l] = 0.37 * unit;
    r.par[l] = 1.3;
    r.par[L + l] = 7.1 * unit;
  }
  run_solve(&r, &ode, false);
  for (int s = 0; s < 4; s++)
    EACH(l) CHECK(run_at(&r, &ode, s, 0, l) == ldexp(run_at(&r, &ode, s, 0, 3), 20 * l - 60));
  run_close(&r);
}

/* Stops at every distance: a step that was rejected must not be proposed again only because it lands. */
static void every_distance_is_passed(void) {
  for (int k = 0; k < 150; k++) {
    atvi_ode_stop stop[20];
    plain_stops(stop, 20, 0, 0.31 + 0.0173 * k);
    atvi_ode ode = plain(ATVI_ODE_RK45, 2, 1, PROG(harmonic), stop, 20);
    ode.control.tol_rel = ode.control.tol_abs = 1e-5;
    ode.control.max_steps = 1000;
    run r;
    run_open(&r, &ode);
    EACH(l) {
      r.y0[l] = 1.3;
      r.par[l] = 1 + 0.11 * l;
    }
    run_solve(&r, &ode, false);
    atvi_ode_count count[L];
    atvi_ode_counts(r.w, count);
    EACH(l) CHECK_INT(r.outcome[l], ATVI_RUN_OK);
    EACH(l) CHECK(count[l].rejected <= 5 + count[l].accepted / 4);
    run_close(&r);
  }
}

static void start_only_gives_the_start(void) {
  atvi_ode_stop stop[1];
  plain_stops(stop, 1, 4.2, 1);
  for (int m = 0; m < 4; m++) {
    atvi_ode ode = plain((atvi_ode_method)m, 1, 1, PROG(prothero), stop, 1);
    ode.jac = PROG(prothero_jac);
    run r;
    run_open(&r, &ode);
    EACH(l) r.y0[l] = 0.1 * l;
    r.y0[6] = NAN;
    run_solve(&r, &ode, true);
    EACH(l) CHECK_INT(r.outcome[l], l == 6 ? ATVI_RUN_NONFINITE : ATVI_RUN_OK);
    CHECK(run_at(&r, &ode, 0, 0, 3) == r.y0[3]);
    run_close(&r);
  }
}

/* A' = -(p + 8) A / 7.5 + 0.4 P, P' = 8 A / 7.5 - 0.4 P: A falls fast to a small share of P. */
PROGRAM(compartments) {
  IGNORE;
  EACH(l) {
    double A = in[1][l], P = in[1][L + l];
    out[0][l] = -(in[2][l] + 8) / 7.5 * A + 0.4 * P;
    out[0][L + l] = 8 / 7.5 * A - 0.4 * P;
  }
}
PROGRAM(compartments_vjp) {
  IGNORE;
  EACH(l) {
    double a = in[4][l], b = in[4][L + l];
    out[0][l] = -(in[2][l] + 8) / 7.5 * a + 8 / 7.5 * b;
    out[0][L + l] = 0.4 * a - 0.4 * b;
    out[1][l] -= in[1][l] / 7.5 * a;
  }
}

/* log A(t), from A(0) = 90, P(0) = 0. */
static double log_amount(double p, double t) {
  double a = (p + 8) / 7.5, root = sqrt((a - 0.4) * (a - 0.4) + 4 * 0.4 * 8 / 7.5);
  double slow = (root - a - 0.4) / 2, fast = (-root - a - 0.4) / 2;
  double late = 90 * (slow + 0.4) / (slow - fast), early = 90 - late;
  return log(late * exp(slow * t) + early * exp(fast * t));
}

/* At the default tolerance, after A has fallen to below a millionth of its start, with steps that stability
 * limits. */
static void small_remainders_are_right(void) {
  atvi_ode_stop stop[2];
  plain_stops(stop, 2, 0, 24);
  atvi_ode ode = plain(ATVI_ODE_RK45, 2, 1, PROG(compartments), stop, 2);
  ode.vjp = PROG(compartments_vjp);
  ode.control.tol_rel = 1e-4;
  ode.control.tol_abs = 1e-6;
  run r;
  run_open(&r, &ode);
  EACH(l) {
    r.y0[l] = 90;
    r.par[l] = 100.5 + 47.3 * l;
  }
  run_solve(&r, &ode, true);
  EACH(l) {
    double A = run_at(&r, &ode, 1, 0, l);
    CHECK_INT(r.outcome[l], ATVI_RUN_OK);
    CHECK(A < 90e-6);
    CHECK_ABS(log(A), log_amount(r.par[l], 24), 0.01);
    r.ybar[2 * L + l] = 1 / A;
  }
  atvi_ode_adjoint(&ode, r.w, r.par, r.ybar, r.y0bar, r.parbar);
  EACH(l) {
    double p = r.par[l],
           slope = (log_amount(p * 1.001, 24) - log_amount(p / 1.001, 24)) / (p * 1.001 - p / 1.001);
    CHECK_REL(r.parbar[l], slope, 0.3);
  }
  run_close(&r);
}

/* A lane that would take a thousand times the steps it may gives up at once; the others do what they did, and
 * their adjoint is theirs. */
static void hopeless_lanes_give_up(void) {
  atvi_ode_stop stop[2];
  plain_stops(stop, 2, 0, 24);
  atvi_ode ode = plain(ATVI_ODE_RK45, 2, 1, PROG(compartments), stop, 2);
  double yout[2][L], slope[2][L];
  ode.vjp = PROG(compartments_vjp);
  ode.control.max_steps = 2000;
  for (int k = 0; k < 2; k++) {
    atvi_ode_count count[L];
    run r;
    ode.control.foresees = k > 0;
    run_open(&r, &ode);
    EACH(l) {
      r.y0[l] = 90;
      r.par[l] = l == 3 ? 3e6 : 2.1 + l;
    }
    run_solve(&r, &ode, true);
    atvi_ode_counts(r.w, count);
    CHECK_INT(r.outcome[3], ATVI_RUN_STEPS);
    CHECK(ode.control.foresees ? count[3].accepted + count[3].rejected < 100
                               : count[3].accepted + count[3].rejected == 2000);
    EACH(l) {
      if (l != 3) CHECK_INT(r.outcome[l], ATVI_RUN_OK);
      r.ybar[2 * L + l] = 1;
    }
    atvi_ode_adjoint(&ode, r.w, r.par, r.ybar, r.y0bar, r.parbar);
    memcpy(yout[k], r.yout + 2 * L, sizeof yout[k]);
    memcpy(slope[k], r.parbar, sizeof slope[k]);
    run_close(&r);
  }
  EACH(l) {
    if (l == 3) continue;
    CHECK_ABS(yout[1][l], yout[0][l], 0);
    CHECK_ABS(slope[1][l], slope[0][l], 0);
  }
}

TESTS({"huge times", huge_times_are_too_many_steps}, {"logistic", logistic_is_exact},
      {"oscillation", oscillation_keeps_phase_and_amplitude}, {"jumps", lands_on_jumps},
      {"tolerance", error_follows_tolerance}, {"rk4", rk4_has_order_four}, {"map", map_repeats_the_function},
      {"units", units_do_not_matter}, {"distances", every_distance_is_passed},
      {"start", start_only_gives_the_start}, {"remainders", small_remainders_are_right},
      {"hopeless", hopeless_lanes_give_up})
