/* SPDX-License-Identifier: MIT */
/* The scratch object: wrong problems, memory, reuse. */
#include "ode/work.h"
#include "problems.h"

static void refuse(const atvi_ode *ode, const char *word) {
  atvi_ctx *ctx = test_ctx();
  atvi_ode_work *w = (void *)&ctx;
  CHECK_STATUS(atvi_ode_work_new(ctx, ode, &w), ATVI_EINVAL);
  CHECK(w == NULL);
  CHECK_MSG(strstr(atvi_errmsg(ctx), word) != NULL, "'%s' not in '%s'", word, atvi_errmsg(ctx));
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

#define REFUSE(word, method, change)                                                                         \
  do {                                                                                                       \
    atvi_ode ode = epi_problem(method);                                                                      \
    change;                                                                                                  \
    refuse(&ode, word);                                                                                      \
  } while (0)

static void wrong_problems_are_refused(void) {
  REFUSE("states", ATVI_ODE_RK45, ode.n = 0);
  REFUSE("states", ATVI_ODE_RK45, ode.n_par = -1);
  REFUSE("states", ATVI_ODE_RK45, ode.n_tab = -1);
  REFUSE("stops", ATVI_ODE_RK45, ode.n_stop = 0);
  REFUSE("stops", ATVI_ODE_RK45, ode.stop = NULL);
  REFUSE("right-hand side", ATVI_ODE_RK45, ode.rhs.fn = NULL);
  REFUSE("pulse", ATVI_ODE_RK45, ode.pulses.prog = NULL);
  REFUSE("pulse", ATVI_ODE_RK45, ode.pulses.vjp = NULL);
  REFUSE("pulse", ATVI_ODE_RK45, ode.pulses.n = 0);
  REFUSE("moving", ATVI_ODE_RK4, ode.n_moving = 1);
  REFUSE("event 0", ATVI_ODE_RK45, ode.moving = (&(atvi_ode_moving){.pulse = 99}); ode.n_moving = 1);
  REFUSE("event 0", ATVI_ODE_RK45, ode.moving = (&(atvi_ode_moving){.par = -1}); ode.n_moving = 1);
  REFUSE("delays", ATVI_ODE_MAP, ode.delay = (&(atvi_ode_delay){0, -1, 2}); ode.n_delay = 1);
  REFUSE("delay 0", ATVI_ODE_RK4, ode.delay = (&(atvi_ode_delay){0, 0, 2}); ode.n_delay = 1);
  REFUSE("delay 0", ATVI_ODE_RK45, ode.delay = (&(atvi_ode_delay){99, -1, 2}); ode.n_delay = 1);
  REFUSE("steady", ATVI_ODE_RK45, ode.steady = true);
  REFUSE("roots", ATVI_ODE_STIFF, ode.roots.n = ATVI_ODE_ROOTS + 1);
  REFUSE("root programs", ATVI_ODE_STIFF, ode.roots.n = 1);
  REFUSE("method", ATVI_ODE_RK45, ode.method = (atvi_ode_method)17);
  REFUSE("Jacobian", ATVI_ODE_STIFF, ode.jac.fn = NULL);
  REFUSE("tolerance", ATVI_ODE_RK45, ode.control.tol_rel = 0);
  REFUSE("tolerance", ATVI_ODE_STIFF, ode.control.tol_rel = NAN);
  REFUSE("tolerance", ATVI_ODE_RK45, ode.control.tol_abs = -1e-9);
  REFUSE("h =", ATVI_ODE_RK4, ode.control.h = 0);
  REFUSE("h =", ATVI_ODE_MAP, ode.control.h = INFINITY);
  REFUSE("max_steps", ATVI_ODE_RK4, ode.control.max_steps = 0);
  REFUSE("output", ATVI_ODE_RK45, ode.n_output = 6);
  REFUSE("0.2385", ATVI_ODE_MAP,
         ode.stop = ((atvi_ode_stop[]){{0, 0, -1, no_tab}, {0.2, 1, -1, no_tab}, {0.2385, 1, -1, no_tab}});
         ode.n_stop = 3);
  REFUSE("ascending", ATVI_ODE_RK45,
         ode.stop = ((atvi_ode_stop[]){{0.7, 0, -1, no_tab}, {0.7, 1, -1, no_tab}});
         ode.n_stop = 2);
  REFUSE("stop 1", ATVI_ODE_RK45, ode.stop = ((atvi_ode_stop[]){{0.7, 0, -1, no_tab}, {NAN, 1, -1, no_tab}});
         ode.n_stop = 2);
  REFUSE("table", ATVI_ODE_RK45, ode.stop = ((atvi_ode_stop[]){{0.7, 0, -1, NULL}}); ode.n_stop = 1);
}

static void memory_may_run_out(void) {
  for (int m = 0; m < 3; m++) {
    atvi_ode ode = epi_problem((atvi_ode_method)m);
    atvi_ctx *ctx = test_ctx();
    atvi_ode_work *w;
    test_fail_at = test_allocs + 1;
    CHECK_STATUS(atvi_ode_work_new(ctx, &ode, &w), ATVI_ENOMEM);
    CHECK(w == NULL);
    test_fail_at = 0;
    CHECK_OK(atvi_ode_work_new(ctx, &ode, &w));
    atvi_ode_work_free(w);
    atvi_ode_work_free(NULL);
    atvi_ctx_free(ctx);
    CHECK_INT(test_live, 0);
  }
}

/* The tape cannot grow: lanes end with the step limit; later solves are as good as new. */
static void tape_may_not_grow(void) {
  for (int m = 0; m < 3; m++) {
    atvi_ode ode = epi_problem((atvi_ode_method)m);
    ode.control.tol_rel = ode.control.tol_abs = 1e-9;
    run r;
    run_open(&r, &ode);
    EACH(l) epi_lane(r.y0, r.par, l, l);
    int failures = 0;
    for (long k = 1;; k++) {
      test_fail_at = test_allocs + k;
      run_solve(&r, &ode, true);
      if (test_allocs < test_fail_at) break;
      int ended = 0; /* lanes that were done before may well be right */
      EACH(l) ended += r.outcome[l] == ATVI_RUN_STEPS;
      CHECK(ended > 0);
      CHECK(++failures < 20);
    }
    test_fail_at = 0;
    CHECK(failures >= 2);
    EACH(l) CHECK_INT(r.outcome[l], ATVI_RUN_OK);
    run_close(&r);
  }
}

/* Runs longer than the tape go on without it. Those that arrive are done again with a longer one: nothing
 * differs. Those that fail leave it as it is. */
static void long_runs_are_taped_if_they_arrive(void) {
  for (int m = 0; m < 2; m++) {
    atvi_ode ode = epi_problem(m ? ATVI_ODE_STIFF : ATVI_ODE_RK45);
    ode.control.tol_rel = ode.control.tol_abs = 1e-8;
    run whole, r;
    run_open(&whole, &ode);
    EACH(l) epi_lane(whole.y0, whole.par, l, l);
    for (int i = 0; i < 64 * 3 * L; i++) whole.ybar[i] = sin(1.7 * i);
    run_solve(&whole, &ode, true);
    atvi_ode_adjoint(&ode, whole.w, whole.par, whole.ybar, whole.y0bar, whole.parbar);
    atvi_idx records = whole.w->tape.n;
    run_close(&whole);
    run_open(&r, &ode);
    EACH(l) epi_lane(r.y0, r.par, l, l);
    memcpy(r.ybar, whole.ybar, sizeof r.ybar);
    r.w->tape.most = 10;
    run_solve(&r, &ode, true);
    atvi_ode_adjoint(&ode, r.w, r.par, r.ybar, r.y0bar, r.parbar);
    CHECK(r.w->tape.most > 20);
    CHECK_INT(r.w->tape.n, records);
    CHECK(r.parbar[0] != 0);
    CHECK(memcmp(r.y0bar, whole.y0bar, sizeof r.y0bar) == 0);
    CHECK(memcmp(r.parbar, whole.parbar, sizeof r.parbar) == 0);
    ode.control.max_steps = 30;
    r.w->tape.most = 10;
    run_solve(&r, &ode, true);
    EACH(l) CHECK_INT(r.outcome[l], ATVI_RUN_STEPS);
    CHECK(r.w->tape.n <= 11);
    run_close(&r);
  }
}

static void steady_state_allocates_nothing(void) {
  for (int m = 0; m < 3; m++) {
    atvi_ode ode = epi_problem((atvi_ode_method)m);
    run r;
    run_open(&r, &ode);
    EACH(l) epi_lane(r.y0, r.par, l, l);
    run_solve(&r, &ode, true);
    long before = test_allocs;
    for (int i = 0; i < 10; i++) {
      run_solve(&r, &ode, i % 2);
      if (i % 2) atvi_ode_adjoint(&ode, r.w, r.par, r.ybar, r.y0bar, r.parbar);
    }
    CHECK_INT(test_allocs, before);
    run_close(&r);
  }
}

/* Scratch of the largest program is there for every program. */
PROGRAM(scribble) {
  for (int i = 0; i < 1000; i++) scratch[i] = i;
  epi(self, scratch, in, out);
}
static void scratch_is_given(void) {
  atvi_ode ode = epi_problem(ATVI_ODE_RK45);
  run r;
  run_open(&r, &ode);
  run_close(&r);
  ode.rhs = (atvi_prog){.fn = scribble, .scratch = 1000};
  run_open(&r, &ode);
  EACH(l) epi_lane(r.y0, r.par, l, l);
  run_solve(&r, &ode, false);
  EACH(l) CHECK_INT(r.outcome[l], ATVI_RUN_OK);
  run_close(&r);
}

TESTS({"refusals", wrong_problems_are_refused}, {"memory", memory_may_run_out}, {"tape", tape_may_not_grow},
      {"long", long_runs_are_taped_if_they_arrive}, {"steady", steady_state_allocates_nothing},
      {"scratch", scratch_is_given})
