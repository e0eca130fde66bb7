/* SPDX-License-Identifier: MIT */
/* A point's result depends on nothing but itself; lanes that fail do so alone. */
#include "ode/work.h"
#include "problems.h"

enum { OUT = 7 * 3 };

typedef struct {
  double y[OUT], y0bar[3], parbar[3];
  atvi_outcome outcome;
  atvi_ode_count count;
} result;

/* Fills the bits of v, so that results can be compared exactly. */
static void solve_and_take(const atvi_ode *ode, run *r, int lane, result *v) {
  atvi_ode_count count[L];
  memset(v, 0, sizeof *v);
  for (int i = 0; i < OUT; i++) EACH(l) r->ybar[i * L + l] = sin(0.7 * i) + 0.3;
  memset(r->parbar, 0, sizeof r->parbar);
  run_solve(r, ode, true);
  atvi_ode_adjoint(ode, r->w, r->par, r->ybar, r->y0bar, r->parbar);
  atvi_ode_counts(r->w, count);
  for (int i = 0; i < OUT; i++) v->y[i] = r->yout[i * L + lane];
  for (int i = 0; i < 3; i++) v->y0bar[i] = r->y0bar[i * L + lane];
  for (int i = 0; i < 3; i++) v->parbar[i] = r->parbar[i * L + lane];
  v->outcome = r->outcome[lane];
  v->count = count[lane];
}

static bool same(const result *a, const result *b) {
  return !memcmp(a->y, b->y, sizeof a->y) && !memcmp(a->y0bar, b->y0bar, sizeof a->y0bar) &&
         !memcmp(a->parbar, b->parbar, sizeof a->parbar) && a->outcome == b->outcome &&
         a->count.accepted == b->count.accepted && a->count.rejected == b->count.rejected;
}

/* Company: 0 the point itself, 1 others, 2 NaN parameters, 3 NaN states, 4 stiff, 5 infinite and huge */
static void company(run *r, int kind, int lane, int who) {
  EACH(l) {
    epi_lane(r->y0, r->par, l, kind == 0 || l == lane ? who : (who + l + 1) % 9);
    if (l == lane) continue;
    if (kind == 2) r->par[(l % 3) * L + l] = NAN;
    if (kind == 3) r->y0[(l % 3) * L + l] = NAN;
    if (kind == 4) r->par[L + l] = 3e3;
    if (kind == 5) r->par[l] = l % 2 ? 1e300 : INFINITY;
    if (kind == 5) r->y0[l] = l % 4 ? -1e200 : 0;
  }
}

static void alone_or_in_company(atvi_ode_method method) {
  atvi_ode ode = epi_problem(method);
  ode.control.max_steps = 1500;
  run r;
  run_open(&r, &ode);
  for (int who = 0; who < 3; who++) {
    result first = {.outcome = ATVI_RUN_OK}, v;
    for (int kind = 0; kind < 6; kind++)
      for (int lane = 0; lane < L; lane += 3) {
        company(&r, kind, lane, who);
        solve_and_take(&ode, &r, lane, &v);
        CHECK_INT(v.outcome, ATVI_RUN_OK);
        if (kind == 0 && lane == 0) first = v;
        CHECK(same(&v, &first));
      }
  }
  run_close(&r);
}
static void rk45_alone(void) { alone_or_in_company(ATVI_ODE_RK45); }
static void rk4_alone(void) { alone_or_in_company(ATVI_ODE_RK4); }
static void stiff_alone(void) { alone_or_in_company(ATVI_ODE_STIFF); }

/* Every instruction set gives the same up to rounding, which steps and Newton carry on. */
static void instruction_sets_agree(void) {
  for (int m = 0; m < 3; m++) {
    atvi_ode ode = epi_problem((atvi_ode_method)m);
    run r;
    run_open(&r, &ode);
    EACH(l) epi_lane(r.y0, r.par, l, l);
    for (int lane = 0; lane < L; lane += 2) {
      result first = {.outcome = ATVI_RUN_OK}, v;
      for (int isa = ATVI_ISA_BASE; isa <= (int)atvi_isa_best(); isa++) {
        r.w->kern = atvi_ode_kernels_of((atvi_isa)isa);
        solve_and_take(&ode, &r, lane, &v);
        if (isa == ATVI_ISA_BASE) first = v;
        CHECK_INT(v.outcome, ATVI_RUN_OK);
        CHECK_INT(v.count.accepted, first.count.accepted);
        for (int i = 0; i < OUT; i++) CHECK_ABS(v.y[i], first.y[i], 1e-9);
        for (int i = 0; i < 3; i++) CHECK_ABS(v.y0bar[i], first.y0bar[i], 1e-8 * (1 + fabs(first.y0bar[i])));
        for (int i = 0; i < 3; i++)
          CHECK_ABS(v.parbar[i], first.parbar[i], 1e-8 * (1 + fabs(first.parbar[i])));
      }
    }
    run_close(&r);
  }
}

static void failures_are_told(void) {
  atvi_ode_stop stop[3];
  plain_stops(stop, 3, 0, 1);
  atvi_ode ode = {.n = 1,
                  .n_par = 1,
                  .rhs = PROG(blowup),
                  .n_stop = 3,
                  .stop = stop,
                  .n_output = 3,
                  .control.tol_rel = 1e-6,
                  .control.tol_abs = 1e-6,
                  .control.max_steps = 100000};
  run r;
  run_open(&r, &ode);
  EACH(l) {
    r.y0[l] = 1;
    r.par[l] = 0.1 + 0.05 * l; /* y = 1 / (1 - p t) */
  }
  r.par[1] = 0.731; /* beyond the reals at t = 1.37 */
  r.par[2] = NAN;
  r.y0[3] = INFINITY;
  run_solve(&r, &ode, false);
  EACH(l) {
    if (l == 1)
      CHECK(r.outcome[l] == ATVI_RUN_SMALL || r.outcome[l] == ATVI_RUN_NONFINITE);
    else
      CHECK_INT(r.outcome[l], l == 2 || l == 3 ? ATVI_RUN_NONFINITE : ATVI_RUN_OK);
    if (l == 1) CHECK_REL(run_at(&r, &ode, 1, 0, l), 1 / (1 - r.par[l]), 1e-5);
    if (r.outcome[l] == ATVI_RUN_OK) CHECK_REL(run_at(&r, &ode, 2, 0, l), 1 / (1 - 2 * r.par[l]), 1e-4);
  }
  run_close(&r);
}

/* Fixed steps do not see it coming: the state itself becomes infinite. */
static void fixed_steps_end_nonfinite(void) {
  atvi_ode_stop stop[3];
  plain_stops(stop, 3, 0, 1);
  atvi_ode ode = {.method = ATVI_ODE_RK4,
                  .n = 1,
                  .n_par = 1,
                  .rhs = PROG(blowup),
                  .n_stop = 3,
                  .stop = stop,
                  .n_output = 3,
                  .control.h = 0.01,
                  .control.max_steps = 200};
  run r;
  run_open(&r, &ode);
  EACH(l) {
    r.y0[l] = 1;
    r.par[l] = l == 4 ? 9.3 : 0.2;
  }
  run_solve(&r, &ode, false);
  EACH(l) CHECK_INT(r.outcome[l], l == 4 ? ATVI_RUN_NONFINITE : ATVI_RUN_OK);
  ode.control.max_steps = 199;
  run_solve(&r, &ode, false);
  EACH(l) CHECK_INT(r.outcome[l], ATVI_RUN_STEPS);
  run_close(&r);
}

static void step_limit_counts_attempts(void) {
  atvi_ode_stop stop[2];
  plain_stops(stop, 2, 0, 50);
  atvi_ode ode = {.n = 2,
                  .n_par = 1,
                  .rhs = PROG(harmonic),
                  .n_stop = 2,
                  .stop = stop,
                  .n_output = 2,
                  .control.tol_rel = 1e-6,
                  .control.tol_abs = 1e-6,
                  .control.max_steps = 300};
  run r;
  run_open(&r, &ode);
  EACH(l) {
    r.y0[l] = 1.3;
    r.par[l] = l % 2 ? 100 : 1;
  }
  run_solve(&r, &ode, false);
  atvi_ode_count count[L];
  atvi_ode_counts(r.w, count);
  EACH(l) {
    CHECK_INT(r.outcome[l], l % 2 ? ATVI_RUN_STEPS : ATVI_RUN_OK);
    if (l % 2) CHECK_INT(count[l].accepted + count[l].rejected, 300);
  }
  run_close(&r);
}

TESTS({"rk45", rk45_alone}, {"rk4", rk4_alone}, {"stiff", stiff_alone},
      {"instructions", instruction_sets_agree}, {"failures", failures_are_told},
      {"fixed", fixed_steps_end_nonfinite}, {"limit", step_limit_counts_attempts})
