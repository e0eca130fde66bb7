/* SPDX-License-Identifier: MIT */
/* Adjoints of solutions that are known; test_tangent.c compares those of the steps with tangents. */
#include "problems.h"

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
                  .control.tol_rel = 1e-10,
                  .control.tol_abs = 1e-10,
                  .control.max_steps = 1000};
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

TESTS({"exact", is_that_of_the_equation})
