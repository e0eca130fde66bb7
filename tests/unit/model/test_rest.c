/* SPDX-License-Identifier: MIT */
/* Models that start at rest, against closed forms and finite differences with frozen steps. */
#include "events_world.h"

/* dA/dt = p u - k A at rest is p u/k, with u as it is at the start and without the pulse there; X + Y = N is
 * conserved, and the share of X is b/(a + b). Rates differ by 1e7. */
static void states_start_at_rest(void) {
  atvi_ctx *ctx = test_ctx();
  test_file("rest.csv", "t,a,x\n5,1.1,0.4\n7,0.3,0.9\n");
  for (int s = 0; s < 5; s++)
    for (int interpret = 0; interpret < 2; interpret++) {
      char text[900];
      snprintf(text, sizeof text,
               "param p ~ uniform(0, 3)\nparam k ~ uniform(0, 3)\nparam a ~ lognormal(9, 3)\nparam N ~ "
               "uniform(0, 9)\n"
               "start steady\nstate A = 0\nstate X = N\nstate Y = 0\nstate Z = 1\ntable u step = [0: 1, 6: "
               "2, 6.5: 0]\n"
               "dA/dt = p*u*(if t < 5.5 then 1 else 0)*t - k*A\ndX/dt = -a*X + 2*a*Y\ndY/dt = a*X - 2*a*Y\n"
               "dZ/dt = -Z\npulse A += 2 at 5\n%sdata \"rest.csv\" time t\nobserve a ~ normal(A + Z, 0.5)\n"
               "observe x ~ normal(X, 0.3)\n%s",
               s == 4 ? "" : "pulse A += 1 when A < 0.5*p/k\n",
               s == 4 ? "solver rk4 step 1e-4\n" : SOLVERS[s]);
      atvi_model *m = test_load(ctx, test_file("rest.atvi", text), interpret);
      const atvi_target *target = atvi_model_target(m);
      enum { B = 3 };
      const double p[B] = {0.7, 1.2, 2.9}, k[B] = {0.7, 2, 1.3},
                   a[B] = {3.3, s == 1 ? 5 : 1e3,
                           s == 4   ? 11
                           : s == 1 ? 2
                                    : 1e5},
                   N = 1.7;
      double theta[4 * B], ll[B], gl[4 * B], tol = s == 0 || s == 3 ? 1e-3 : 1e-5;
      for (int j = 0; j < B; j++)
        theta[j] = p[j], theta[B + j] = k[j], theta[2 * B + j] = a[j], theta[3 * B + j] = N;
      check_batch(ctx, target, B, theta, ll, gl);
      for (int j = 0; j < B; j++) {
        double A5 = 5 * p[j] / k[j], X = 2 * N / 3, e = exp(-2 * k[j]);
        /* from 5 to 5.5 p t, then nothing */
        double f = exp(-0.5 * k[j]), part = p[j] * ((5.5 - 5 * f) / k[j] - (1 - f) / (k[j] * k[j]));
        double A7 = (A5 + 2) * e + part * exp(-1.5 * k[j]), want;
        want = normal(1.1, A5, 0.5) + normal(0.3, A7, 0.5) + normal(0.4, X, 0.3) + normal(0.9, X, 0.3);
        double by_N = ((0.4 - X) + (0.9 - X)) / 0.09 * 2 / 3;
        double by_p =
            ((1.1 - A5) * 5 / k[j] + (0.3 - A7) * (5 / k[j] * e + part / p[j] * exp(-1.5 * k[j]))) / 0.25;
        if (s == 4 || A7 > 0.5 * p[j] / k[j]) {
          CHECK_ABS(ll[j], want, tol * (1 + fabs(want)));
          CHECK_ABS(gl[3 * B + j], by_N, tol * (1 + fabs(by_N)));
          CHECK_ABS(gl[j], by_p, tol * (1 + fabs(by_p)));
          CHECK_ABS(gl[2 * B + j] * a[j], 0, tol);
        }
        double off = test_gradient(ctx, target, (double[]){p[j], k[j], a[j], N}, 1e-6);
        CHECK_MSG(off < 1e-6, "solver %d, point %d: %g", s, j, off);
      }
      atvi_model_free(m);
    }
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

/* Nothing moves, and so no error says how long steps may be; derivatives would grow with steps that are
 * unstable. */
static void what_stays_at_rest_has_derivatives(void) {
  atvi_ctx *ctx = test_ctx();
  test_file("still.csv", "t,y\n24,80.1\n48,77\n96,79.3\n");
  for (int s = 0; s < 3; s++) {
    char text[300];
    snprintf(text, sizeof text,
             "param k ~ uniform(0, 9)\nparam R0 ~ uniform(0, 100)\nstart 0\nstate R = R0\nstate C = 1\n"
             "dR/dt = k*R0 - k*R\ndC/dt = %s\ndata \"still.csv\" time t\nobserve y ~ normal(R, 5)\n%s",
             s == 1 ? "-C" : "0", s == 2 ? "solver stiff\n" : "");
    atvi_model *m = test_load(ctx, test_file("still.atvi", text), true);
    const double theta[2] = {2.1, 78.15};
    test_value v = test_eval(ctx, atvi_model_target(m), theta);
    CHECK_ABS(v.gl[0], 0, 1e-6);
    CHECK_ABS(v.gl[1], ((80.1 - 78.15) + (77 - 78.15) + (79.3 - 78.15)) / 25, 1e-6);
    atvi_model_free(m);
  }
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

/* Rows without a time see the steady state: A = p/k. */
static void rows_are_seen_at_rest(void) {
  atvi_ctx *ctx = test_ctx();
  test_file("rows.csv", "x,y\n1,2.2\n3,5.1\n");
  atvi_model *m =
      test_load(ctx,
                test_file("rows.atvi", "param p ~ uniform(0, 3)\nparam k ~ uniform(0, 3)\nstart 4 steady\n"
                                       "state A = 0\ndA/dt = p*t - k*A\ndata \"rows.csv\"\n"
                                       "observe y ~ normal(x*A + t, 0.5)\n"),
                true);
  const double theta[2] = {1.3, 0.7}, A = 4 * 1.3 / 0.7;
  test_value v = test_eval(ctx, atvi_model_target(m), theta);
  CHECK_ABS(v.ll, normal(2.2, A + 4, 0.5) + normal(5.1, 3 * A + 4, 0.5), 1e-4);
  CHECK_ABS(v.gl[0], ((2.2 - A - 4) + 3 * (5.1 - 3 * A - 4)) / 0.25 * 4 / 0.7, 1e-3);
  CHECK(test_gradient(ctx, atvi_model_target(m), theta, 1e-6) < 1e-7);
  atvi_model_free(m);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

/* A dose-response curve: the label of a unit, and the columns of a row, are the inputs of a steady state, x
 * p/(k + x). */
static void every_dose_has_its_rest(void) {
  static const char *const BLOCK[] = {"each x from \"curve.csv\"", "each row from \"curve.csv\""};
  atvi_ctx *ctx = test_ctx();
  const double x[5] = {0.25, 0.25, 1.5, 4, 4}, y[5] = {0.3, 0.2, 0.7, 1.1, 0.9}, p = 1.3, k = 0.7;
  double want = 0, by_p = 0;
  test_file("curve.csv", "x,y\n0.25,0.3\n0.25,0.2\n1.5,0.7\n4,1.1\n4,0.9\n");
  for (int i = 0; i < 5; i++) {
    double A = x[i] * p / (k + x[i]);
    want += normal(y[i], A, 0.5);
    by_p += (y[i] - A) / 0.25 * A / p;
  }
  for (int i = 0; i < 2; i++) {
    char text[400];
    snprintf(text, sizeof text,
             "param p ~ uniform(0, 3)\nparam k ~ uniform(0, 3)\n%s {\n  state A = 0\n  dA/dt = x*(p - A) - "
             "k*A\n  start steady\n  data \"curve.csv\"\n  observe y ~ normal(A, 0.5)\n}\n",
             BLOCK[i]);
    atvi_model *m = test_load(ctx, test_file("curve.atvi", text), true);
    test_value v = test_eval(ctx, atvi_model_target(m), (double[]){p, k});
    CHECK_INT(m->blocks.n_part, i ? 6 : 4);
    CHECK_ABS(v.ll, want, 1e-6);
    CHECK_ABS(v.gl[0], by_p, 1e-5);
    CHECK(test_gradient(ctx, atvi_model_target(m), (double[]){p, k}, 1e-6) < 1e-7);
    atvi_model_free(m);
  }
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

/* Until the start u is 3 q, v is 1 and w is 0, whatever they are later: parameters, columns and tables of all
 * kinds. */
static void inputs_differ_before_the_start(void) {
  static const struct {
    const char *text;
    double u, v, w; /* from the start on, on average over the first unit of time */
  } CASES[] = {
      {"param u in (0, 9)\ntable v step = [0: 2, 9: 5]\ntable w linear = [0: 0.5, 1: 1.5]\n", 0.4, 2, 1},
      {"table u spline = [0: 2, 0.5: 2, 3: 2]\ntable v step = [0: 2*q, 9: 5]\ntable w linear = [0: q, 1: "
       "q]\n",
       2, 1.4, 0.7},
      {"walk u at [0, 2] ~ normal(0, 1) from normal(0, 1)\ntable v linear = [-5: 2, 5: 2]\ntable w step = "
       "[0: 3]\n",
       0.4, 2, 3},
  };
  atvi_ctx *ctx = test_ctx();
  const double q = 0.7;
  test_file("before.csv", "t,a,b\n0,1.1,0.5\n1,0.4,1.5\n");
  for (int c = 0; c < 3; c++)
    for (int s = 0; s < 5; s++) {
      char text[700];
      snprintf(text, sizeof text,
               "param q in (0, 3)\n%sstate A = 5\nstate B = 0\nlet gain = 2*u + v\ndA/dt = gain*w + u - A\n"
               "dB/dt = v*u - B\nstart 0 steady with u = 3*q, v = 1, w = 0\ndata \"before.csv\" time t\n"
               "observe a ~ normal(A, 0.5)\nobserve b ~ normal(B, 0.5)\n%s",
               CASES[c].text, s == 4 ? "solver rk4 step 1e-3\n" : SOLVERS[s]);
      atvi_model *m = test_load(ctx, test_file("before.atvi", text), s % 2 == 0);
      const atvi_target *target = atvi_model_target(m);
      double theta[3] = {q, CASES[c].u, 0.2}, u = CASES[c].u, e = exp(-1), f = 1 - e;
      double v = CASES[c].v, w = CASES[c].w, A0 = 3 * q, B0 = 3 * q, gain = 2 * u + v;
      /* w of the first case is 0.5 + t: its response is 0.5 f + (1 - f) */
      double A1 = A0 * e + (c ? gain * w * f : gain * (0.5 * f + 1 - f)) + u * f, B1 = B0 * e + v * u * f;
      double want = normal(1.1, A0, 0.5) + normal(0.4, A1, 0.5) + normal(0.5, B0, 0.5) + normal(1.5, B1, 0.5);
      test_value got = test_eval(ctx, target, theta);
      CHECK_INT(got.outcome, ATVI_RUN_OK);
      CHECK_MSG(fabs(got.ll - want) < 1e-3 * (1 + fabs(want)), "case %d, solver %d: %.10g, want %.10g", c, s,
                got.ll, want);
      double off = test_gradient(ctx, target, theta, 1e-6);
      CHECK_MSG(off < 1e-6, "case %d, solver %d: %g", c, s, off);
      atvi_model_free(m);
    }
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

/* The state of rest of a switch, dx/dt = a + v x^2/(1 + x^2) - k x, between lower and upper, by bisection. */
static double switched(double a, double v, double k, double lower, double upper) {
  for (int i = 0; i < 200; i++) {
    double x = 0.5 * (lower + upper);
    *(a + v * x * x / (1 + x * x) - k * x > 0 ? &lower : &upper) = x;
  }
  return lower;
}

/* A switch comes to rest at the lower or the upper state, to rounding; its gradient is that of the implicit
 * function. */
static void rest_is_found_to_rounding(void) {
  atvi_ctx *ctx = test_ctx();
  test_file("switch.csv", "y\n1.3\n");
  for (int up = 0; up < 2; up++) {
    char text[400];
    snprintf(text, sizeof text,
             "param a in (0, 1)\nparam v in (0, 9)\nparam k in (0, 9)\nstate x = %d\nstate z = 3\n"
             "dx/dt = a + v*x^2/(1 + x^2) - k*x\ndz/dt = 100*(x - z)\nstart steady\ndata \"switch.csv\"\n"
             "observe y ~ normal(z, 0.5)\n",
             up ? 9 : 0);
    atvi_model *m = test_load(ctx, test_file("switch.atvi", text), up);
    enum { B = 2 };
    const double a[B] = {0.05, 0.02}, v[B] = {3, 2.5}, k[B] = {1.2, 1.1};
    double theta[3 * B], ll[B], gl[3 * B];
    for (int j = 0; j < B; j++) theta[j] = a[j], theta[B + j] = v[j], theta[2 * B + j] = k[j];
    check_batch(ctx, &m->target, B, theta, ll, gl);
    for (int j = 0; j < B; j++) {
      double x = switched(a[j], v[j], k[j], up ? 1 : 0, up ? 9 : 0.3), s = 1 + x * x;
      double slope = k[j] - 2 * v[j] * x / (s * s), by = (1.3 - x) / 0.25 / slope;
      CHECK_REL(ll[j], normal(1.3, x, 0.5), 1e-12);
      CHECK_REL(gl[j], by, 1e-11);
      CHECK_REL(gl[B + j], by * x * x / s, 1e-11);
      CHECK_REL(gl[2 * B + j], -by * x, 1e-11);
    }
    CHECK(test_gradient(ctx, &m->target, (double[]){a[0], v[0], k[0]}, 1e-6) < 1e-8);
    atvi_model_free(m);
  }
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

/* A cascade whose states are all 0 at first has no size to measure errors by: each state is product of those
 * before it. */
static void cascades_start_from_zero(void) {
  atvi_ctx *ctx = test_ctx();
  test_file("casc.csv", "y\n0.3\n");
  atvi_model *m = test_load(
      ctx,
      test_file(
          "casc.atvi",
          "param v in (0, 9)\nstate P[1..8] = 0\ndP[1]/dt = v - P[1]\ndP[i in 2..8]/dt = P[i-1] - 2*P[i]\n"
          "start steady\ndata \"casc.csv\"\nobserve y ~ normal(P[8], 0.5)\n"),
      true);
  double theta = 3.2, ll, gl, P = 3.2 / 128;
  void *work;
  CHECK_OK(m->target.ops->work_new(m, ctx, &work));
  m->target.ops->eval(m, work, &(atvi_batch){.B = 1, .theta = &theta, .log_lik = &ll, .grad_lik = &gl});
  CHECK_REL(ll, normal(0.3, P, 0.5), 1e-12);
  CHECK_REL(gl, (0.3 - P) / 0.25 / 128, 1e-12);
  CHECK(atvi_ode_effort_of(((atvi_model_work *)work)->start.ode).steps < 80);
  m->target.ops->work_free(work);
  atvi_model_free(m);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

/* X + Y is conserved where q = 0 alone: lanes of both sorts beside each other. */
static void some_lanes_conserve(void) {
  atvi_ctx *ctx = test_ctx();
  test_file("some.csv", "x,y\n0.4,0.7\n");
  atvi_model *m = test_load(
      ctx,
      test_file("some.atvi",
                "param a in (0, 9)\nparam q in (0, 9)\nparam N in (0, 9)\nstate X = N\nstate Y = 0\n"
                "dX/dt = -a*X + 2*Y + q*(1 - X)\ndY/dt = a*X - 2*Y\nstart steady\n"
                "data \"some.csv\"\nobserve x ~ normal(X, 0.5)\nobserve y ~ normal(Y, 0.5)\n"),
      true);
  enum { B = 4 };
  const double a[B] = {0.7, 1.1, 3.1, 0.4}, q[B] = {0, 0.6, 0, 4}, N = 1.7;
  double theta[3 * B], ll[B], gl[3 * B];
  for (int j = 0; j < B; j++) theta[j] = a[j], theta[B + j] = q[j], theta[2 * B + j] = N;
  check_batch(ctx, &m->target, B, theta, ll, gl);
  for (int j = 0; j < B; j++) {
    double X = q[j] > 0 ? 1 : 2 * N / (a[j] + 2), Y = a[j] / 2 * X;
    double by_X = (0.4 - X) / 0.25, by_Y = (0.7 - Y) / 0.25, X_a = q[j] > 0 ? 0 : -X / (a[j] + 2);
    double by_a = by_X * X_a + by_Y * (X / 2 + a[j] / 2 * X_a);
    double by_N = q[j] > 0 ? 0 : (by_X * X + by_Y * Y) / N;
    CHECK_ABS(ll[j], normal(0.4, X, 0.5) + normal(0.7, Y, 0.5), 1e-7);
    CHECK_ABS(gl[j], by_a, 1e-6);
    CHECK_ABS(gl[2 * B + j], by_N, 1e-6);
  }
  atvi_model_free(m);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

/* Growth, and an oscillation, have no steady state; in other lanes there is one. */
static void without_rest_runs_fail(void) {
  atvi_ctx *ctx = test_ctx();
  test_file("never.csv", "t,a\n0,1.1\n");
  atvi_model *m = test_load(
      ctx,
      test_file(
          "never.atvi",
          "param r ~ uniform(-3, 3)\nparam q ~ uniform(0, 1)\nstart 0 steady\nstate A = 2\n"
          "state x = 1\nstate v = 0\ndA/dt = r*A\ndx/dt = v\ndv/dt = -x - q*v\n"
          "data \"never.csv\" time t\nobserve a ~ normal(A + x, 0.5)\nderived top = maximum(A, 0, 3)\n"),
      true);
  enum { B = 5 };
  const double theta[2 * B] = {-1, 1, -1, 0, -0.3, 0.5, 0.5, 0, 0.4, 0.3};
  double ll[B], derived[B];
  atvi_outcome outcome[B];
  void *work;
  CHECK_OK(m->target.ops->work_new(m, ctx, &work));
  m->target.ops->eval(m, work, &(atvi_batch){.B = B, .theta = theta, .log_lik = ll, .outcome = outcome});
  m->target.ops->derived(m, work, B, theta, derived);
  m->target.ops->work_free(work);
  const bool rests[B] = {true, false, false, true, true};
  for (int j = 0; j < B; j++) {
    CHECK_INT(outcome[j], rests[j] ? ATVI_RUN_OK : ATVI_RUN_STEADY);
    CHECK(rests[j] == !isnan(derived[j]));
    if (rests[j]) CHECK_ABS(ll[j], normal(1.1, j == 3 ? 2 : 0, 0.5), 1e-5);
  }
  atvi_model_free(m);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

TESTS({"still", what_stays_at_rest_has_derivatives}, {"steady", states_start_at_rest},
      {"doses", every_dose_has_its_rest}, {"before", inputs_differ_before_the_start},
      {"rounding", rest_is_found_to_rounding}, {"some", some_lanes_conserve},
      {"zero", cascades_start_from_zero}, {"never", without_rest_runs_fail}, {"rows", rows_are_seen_at_rest})
