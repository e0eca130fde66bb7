/* SPDX-License-Identifier: MIT */
/* Pulses of all kinds, against closed forms and finite differences with frozen steps. */
#include "core/core.h"
#include "model/model.h"
#include "models.h"

static double normal(double y, double mean, double sd) {
  double z = (y - mean) / sd;
  return -0.5 * z * z - log(sd) - 0.91893853320467274178;
}

/* dA/dt = -k A. At one time pulses act in the order of the file, with amounts from the state before all of them. */
static void pulses_set_and_scale(void) {
  atvi_ctx *ctx = test_ctx();
  test_file("set.csv", "t,a,b\n0.5,1.1,2\n2.5,0.4,1\n3,0.3,2\n6.5,2.1,3\n");
  const char *path = test_file(
      "set.atvi", "param k ~ uniform(0, 3)\nparam f ~ uniform(0, 3)\nstart 0\nstate A = 2\nstate B = 1\n"
                  "dA/dt = -k*A\ndB/dt = 0*B\npulse A = 3*f at 1\npulse A *= f at 1\npulse A += A at 1\n"
                  "pulse B = A + B at every 2 from 2 to 6.1\ndata \"set.csv\" time t\n"
                  "observe a ~ normal(A, 0.5)\nobserve b ~ normal(B, 0.3)\nsolver rk45 tol 1e-10\n");
  for (int interpret = 0; interpret < 2; interpret++) {
    atvi_model *m = test_load(ctx, path, interpret);
    const double k = 0.731, f = 0.6, theta[2] = {k, f}, t[4] = {0.5, 2.5, 3, 6.5};
    const double a[4] = {1.1, 0.4, 0.3, 2.1}, b[4] = {2, 1, 2, 3};
    double A1 = 3 * f * f + 2 * exp(-k), want = 0;
    for (int i = 0; i < 4; i++) {
      double A = t[i] < 1 ? 2 * exp(-k * t[i]) : A1 * exp(-k * (t[i] - 1)), B = 1;
      for (int j = 2; j <= 6 && j < t[i]; j += 2) B += A1 * exp(-k * (j - 1));
      want += normal(a[i], A, 0.5) + normal(b[i], B, 0.3);
    }
    CHECK_ABS(test_eval(ctx, atvi_model_target(m), theta).ll, want, 1e-7);
    CHECK(test_gradient(ctx, atvi_model_target(m), theta, 1e-6) < 1e-7);
    atvi_model_free(m);
  }
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

/* Values and gradients of n points in one batch; each is what it is alone. */
static void check_batch(atvi_ctx *ctx, const atvi_target *t, atvi_idx n, const double *theta, double *ll,
                        double *gl) {
  atvi_outcome outcome[16];
  void *work;
  CHECK_OK(t->ops->work_new(t->self, ctx, &work));
  t->ops->eval(t->self, work,
               &(atvi_batch){.B = n, .theta = theta, .log_lik = ll, .grad_lik = gl, .outcome = outcome});
  t->ops->work_free(work);
  for (atvi_idx j = 0; j < n; j++) {
    double one[16];
    for (atvi_idx i = 0; i < t->d; i++) one[i] = theta[i * n + j];
    test_value v = test_eval(ctx, t, one);
    CHECK_INT(outcome[j], ATVI_RUN_OK);
    CHECK(v.ll == ll[j]);
    for (atvi_idx i = 0; i < t->d; i++) CHECK(v.gl[i] == gl[i * n + j]);
  }
}

static const char *const ALL =
    "param k ~ uniform(0, 3)\nparam lag in (0, 2)\nstart 0 steady\nstate A = 2\nstate B "
    "= 1\ndA/dt = -k*A\ndB/dt = A - B\n"
    "pulse A = 3 at 1\npulse A *= 2 at every 1 from 1 to 2\npulse A += 1 at [lag, "
    "3 + lag]\npulse B += 1 when A < 1\n"
    "data \"all.csv\" time t\nobserve a ~ normal(A, 0.5)\n"
    "derived top = maximum(A, 0, 5)\n";

static const char *const MORE =
    "param k ~ uniform(0, 3)\nparam lag in (0.1, 2)\nstart 0\nstate A = 2\ndA/dt = -k*delay(A^2 + t, lag) - "
    "delay(A, 1)\n"
    "pulse A = 3 at 1\npulse A += 1 at lag\npulse A += 2 when A < 0.5\ndata \"all.csv\" time t\nobserve a ~ "
    "normal(A, 0.5)\n";

static const char *const SOLVERS[4] = {"", "solver rk45 tol 1e-8\n", "solver stiff tol 1e-8\n",
                                       "solver stiff\n"};

/* dA/dt = -k A + t/10, doses d (1 + t) at lag and 3 + lag: the amount depends on the time. In one lane the second dose comes too
 * late to be seen. */
static double dosed(double k, double d, double lag, double t) {
  double A = (1 - exp(-k * t)) / (k * k) * -0.1 + 0.1 * t / k;
  for (int j = 0; j < 2; j++) {
    double at = 3 * j + lag;
    if (t > at) A += d * (1 + at) * exp(-k * (t - at));
  }
  return A;
}

static void pulses_at_parameters(void) {
  atvi_ctx *ctx = test_ctx();
  test_file("lag.csv", "t,a\n0.5,0.1\n1.5,0.9\n4,2.2\n5.3,1.4\n7,3\n");
  const double t[5] = {0.5, 1.5, 4, 5.3, 7}, a[5] = {0.1, 0.9, 2.2, 1.4, 3};
  for (int s = 0; s < 4; s++)
    for (int interpret = 0; interpret < 2; interpret++) {
      char text[600];
      snprintf(text, sizeof text,
               "param k ~ uniform(0, 3)\nparam d ~ uniform(0, 3)\nparam lag ~ uniform(0, 6)\nstart 0\nstate "
               "A = 0\n"
               "dA/dt = -k*A + t/10\npulse A += d*(1 + t) at [lag, 3 + lag]\ndata \"lag.csv\" time t\n"
               "observe a ~ normal(A, 0.5)\n%s",
               SOLVERS[s]);
      atvi_model *m = test_load(ctx, test_file("lag.atvi", text), interpret);
      const atvi_target *target = atvi_model_target(m);
      enum { B = 9 };
      const double lag[B] = {0.7, 1.2, 1.50001, 2.9, 0.01, 5.9, 4.5, 3.3, 1e-9}, k = 0.7, d = 1.3, h = 1e-5;
      double theta[3 * B], ll[B], gl[3 * B], tol = s == 1 || s == 2 ? 1e-5 : 0.05;
      for (int j = 0; j < B; j++) theta[j] = k, theta[B + j] = d, theta[2 * B + j] = lag[j];
      check_batch(ctx, target, B, theta, ll, gl);
      CHECK_INT(m->n_moving, 2);
      for (int j = 0; j < B; j++) {
        double want = 0, by_lag = 0;
        for (int i = 0; i < 5; i++) {
          double A = dosed(k, d, lag[j], t[i]);
          double slope = lag[j] > h
                             ? (dosed(k, d, lag[j] + h, t[i]) - dosed(k, d, lag[j] - h, t[i])) / (2 * h)
                             : (dosed(k, d, lag[j] + h, t[i]) - A) / h;
          want += normal(a[i], A, 0.5);
          by_lag += (a[i] - A) / 0.25 * slope;
        }
        CHECK_ABS(ll[j], want, tol * (1 + fabs(want)));
        if (fabs(lag[j] - 1.5) > 0.001)
          CHECK_MSG(fabs(gl[2 * B + j] - by_lag) <= tol * (1 + fabs(by_lag)),
                    "solver %d, lag %g: %g, want %g", s, lag[j], gl[2 * B + j], by_lag);
        double off = test_gradient(ctx, target, (double[]){k, d, fmax(lag[j], 0.001)}, 1e-6);
        CHECK_MSG(off < 1e-6, "solver %d, lag %g: %g", s, lag[j], off);
      }
      atvi_model_free(m);
    }
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

/* dA/dt = -k A, and d more whenever A falls below c; B counts, as does the amount given, and N is not touched by A. */
static double refilled(double k, double d, double c, double t, double *doses) {
  double A = 2, now = 0;
  for (*doses = 0;; (*doses)++) {
    double at = now + log(A / c) / k;
    if (at > t) return A * exp(-k * (t - now));
    A = c + d;
    now = at;
  }
}

static void pulses_when_a_state_falls(void) {
  atvi_ctx *ctx = test_ctx();
  test_file("when.csv", "t,a,b\n0.5,1.1,0.1\n2.5,0.9,1\n4,1.2,2\n7,0.4,5\n");
  const double t[4] = {0.5, 2.5, 4, 7}, a[4] = {1.1, 0.9, 1.2, 0.4}, b[4] = {0.1, 1, 2, 5};
  for (int s = 0; s < 4; s++)
    for (int interpret = 0; interpret < 2; interpret++) {
      char text[700];
      snprintf(
          text, sizeof text,
          "param k ~ uniform(0, 3)\nparam d ~ uniform(0, 3)\nparam c ~ uniform(0, 2)\nstart 0\nstate A = 2\n"
          "state B = 0\ndA/dt = -k*A\ndB/dt = 0*A\npulse A += d when A < c\npulse B += 1 when c > A\n"
          "data \"when.csv\" time t\nobserve a ~ normal(A, 0.5)\nobserve b ~ normal(B, 0.3)\n%s",
          SOLVERS[s]);
      atvi_model *m = test_load(ctx, test_file("when.atvi", text), interpret);
      const atvi_target *target = atvi_model_target(m);
      enum { B = 8 };
      const double k[B] = {0.7, 1.1, 0.3, 2.1, 1.4, 0.9, 0.05, 0.5}, d = 0.63, c = 0.8, h = 1e-6;
      double theta[3 * B], ll[B], gl[3 * B], tol = s == 1 || s == 2 ? 2e-5 : 0.05, n;
      for (int j = 0; j < B; j++) theta[j] = k[j], theta[B + j] = d, theta[2 * B + j] = c;
      check_batch(ctx, target, B, theta, ll, gl);
      CHECK_INT(m->n_root, 1);
      for (int j = 0; j < B; j++) {
        double want = 0, by_k = 0, by_c = 0;
        for (int i = 0; i < 4; i++) {
          double A = refilled(k[j], d, c, t[i], &n), by;
          want += normal(a[i], A, 0.5) + normal(b[i], n, 0.3);
          by = refilled(k[j] + h, d, c, t[i], &n) - refilled(k[j] - h, d, c, t[i], &n);
          by_k += (a[i] - A) / 0.25 * by / (2 * h);
          by = refilled(k[j], d, c + h, t[i], &n) - refilled(k[j], d, c - h, t[i], &n);
          by_c += (a[i] - A) / 0.25 * by / (2 * h);
        }
        CHECK_ABS(ll[j], want, tol * (1 + fabs(want)));
        CHECK_MSG(fabs(gl[j] - by_k) <= tol * (1 + fabs(by_k)), "solver %d, k %g: %g, want %g", s, k[j],
                  gl[j], by_k);
        CHECK_MSG(fabs(gl[2 * B + j] - by_c) <= tol * (1 + fabs(by_c)), "solver %d, k %g: c %g, want %g", s,
                  k[j], gl[2 * B + j], by_c);
        double off = test_gradient(ctx, target, (double[]){k[j], d, c}, 1e-6);
        CHECK_MSG(off < 1e-6, "solver %d, k %g: %g", s, k[j], off);
      }
      atvi_model_free(m);
    }
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

/* An oscillation above q for a short while in each period of 2 pi: none is missed, nor counted twice. A condition that holds at
 * the start does not act then; a pulse at a fixed time, and one at a parameter, may make others true. */
static void conditions_become_true_once(void) {
  atvi_ctx *ctx = test_ctx();
  test_file("osc.csv", "t,n,e\n3,0,0\n40,2.6,140\n");
  for (int s = 0; s < 4; s++) {
    char text[900];
    snprintf(
        text, sizeof text,
        "param q ~ uniform(0.5, 0.99)\nparam T ~ uniform(30, 36)\nstart 0\nstate x = 1\nstate v = 0\n"
        "state N = 0\nstate M = 0\nstate D = 0\nstate E = 0\ndx/dt = v\ndv/dt = -x\ndN/dt = 0*x\ndM/dt = 0\n"
        "dD/dt = 0\ndE/dt = 0.1*x\npulse N += v when x > q\npulse M += 1 when not (x <= q or v > 0)\n"
        "pulse D += 1 at [5, 9]\npulse D += 1 at T\npulse E += t when D > 1.5\npulse E += 100 + t when D > "
        "2.5\n"
        "data \"osc.csv\" time t\nobserve n ~ normal(N, 0.5)\nobserve e ~ normal(E, 1)\ntrack m = M\n%s",
        SOLVERS[s]);
    atvi_model *m = test_load(ctx, test_file("osc.atvi", text), false);
    const atvi_target *target = atvi_model_target(m);
    const double q = 0.9, T = 33, theta[2] = {q, T}, tol = s == 1 || s == 2 ? 1e-5 : 0.02;
    double out[64];
    void *work;
    CHECK_OK(target->ops->work_new(target->self, ctx, &work));
    target->ops->predict(target->self, work, 1, theta, out);
    target->ops->work_free(work);
    CHECK_REL(out[0], 0, 0);
    CHECK_ABS(out[1], 6 * sqrt(1 - q * q), tol);
    CHECK_ABS(out[3], 9 + 100 + T + 0.1 * sin(40), tol);
    CHECK_REL(out[5], 6, 0); /* M: each time x turns round above q */
    test_value v = test_eval(ctx, target, theta);
    double by_q = (2.6 - 6 * sqrt(1 - q * q)) / 0.25 * -6 * q / sqrt(1 - q * q);
    CHECK_ABS(v.gl[0], by_q, 10 * tol * fabs(by_q));
    CHECK_ABS(v.gl[1], 140 - (109 + T + 0.1 * sin(40)), tol);
    CHECK(test_gradient(ctx, target, theta, 1e-7) < 1e-5);
    atvi_model_free(m);
  }
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

/* A ball that loses half its speed each time comes to rest: an infinity of bounces, which is no result. */
static void conditions_that_never_rest_fail(void) {
  atvi_ctx *ctx = test_ctx();
  test_file("ball.csv", "t,h\n0.5,0.1\n9,0.9\n");
  for (int s = 1; s < 3; s++) {
    char text[600];
    snprintf(text, sizeof text,
             "param e ~ uniform(0, 1)\nstart 0\nstate x = 1\nstate v = 0\ndx/dt = v\ndv/dt = -9.81\n"
             "pulse v = -e*v when x < 0\ndata \"ball.csv\" time t\nobserve h ~ normal(x, 0.5)\n%s",
             SOLVERS[s]);
    atvi_model *m = test_load(ctx, test_file("ball.atvi", text), false);
    test_value v = test_eval(ctx, atvi_model_target(m), (double[]){0.5});
    CHECK_INT(v.outcome, ATVI_RUN_EVENTS);
    atvi_model_free(m);
  }
  /* 171 of them do not count as many steps, 1710 are too many */
  atvi_model *m = test_load(
      ctx,
      test_file("many.atvi",
                "param k ~ uniform(0, 30)\nstart 0\nstate x = 1\ndx/dt = -k*x\npulse x = 1 when x < 0.9\n"
                "data \"ball.csv\" time t\nobserve h ~ normal(x, 0.5)\nsolver rk45 maxsteps 100\n"),
      false);
  CHECK_INT(test_eval(ctx, atvi_model_target(m), (double[]){2}).outcome, ATVI_RUN_OK);
  CHECK_INT(test_eval(ctx, atvi_model_target(m), (double[]){20}).outcome, ATVI_RUN_EVENTS);
  atvi_model_free(m);
  atvi_ctx_free(ctx);
}

/* Values, maxima and integrals of an oscillation and of a decay with pulses, also beyond the last time of the data. */
static void derived_of_trajectories(void) {
  atvi_ctx *ctx = test_ctx();
  test_file("path.csv", "t,a\n0.5,1.1\n6,0.3\n");
  for (int s = 0; s < 5; s++)
    for (int interpret = 0; interpret < 2; interpret++) {
      char text[1200];
      snprintf(
          text, sizeof text,
          "param k ~ uniform(0, 3)\nparam lag in (0, 9)\nstart 0\nstate A = 2\nstate x = 1\nstate v = 0\n"
          "dA/dt = -k*A\ndx/dt = v\ndv/dt = -x\npulse A += 3 at 2\n%s\nlet level = 2*A + t\n"
          "table u step = [0: 1, 2.5: 3]\n"
          "derived d[i in 1..2] = at(A, i) + k*0\nderived e = at(level*u, 7.5)\nderived f = maximum(A, 0.2, "
          "8)\n"
          "derived g = time_of_maximum(A, 0.2, 8)\nderived h = integral(A, 0.5, 7)\nderived i = maximum(x, "
          "1, 12)\n"
          "derived j = time_of_maximum(x, 1, 12)\nderived m = integral(x^2, 0, 12)\nderived n = at(A, 0)\n"
          "data \"path.csv\" time t\nobserve a ~ normal(A, 0.5)\n%s",
          s == 4 ? "" : "pulse A += 5 at lag", s == 4 ? "solver rk4 step 0.01\n" : SOLVERS[s]);
      atvi_model *m = test_load(ctx, test_file("path.atvi", text), interpret);
      const atvi_target *target = atvi_model_target(m);
      enum { B = 3 };
      const double k[B] = {0.7, 0.2, 1.3}, lag[B] = {2.9, 8.5, 0.4}, pi = 3.14159265358979323846;
      double theta[2 * B], out[10 * B], tol = s == 1 || s == 2 ? 1e-7 : 2e-5;
      for (int j = 0; j < B; j++) theta[j] = k[j], theta[B + j] = lag[j];
      void *work;
      CHECK_INT(target->n_derived, 10);
      CHECK_OK(target->ops->work_new(target->self, ctx, &work));
      target->ops->derived(target->self, work, B, theta, out);
      target->ops->work_free(work);
      for (int j = 0; j < B; j++) {
        double dose = s == 4 ? 0 : 5, at[3] = {0, 2, lag[j]}, size[3] = {2, 3, dose}, value[3] = {0},
               area = 0;
        const double t[3] = {1, 2, 7.5};
        for (int i = 0; i < 3; i++)
          for (int q = 0; q < 3; q++)
            if (q == 0 || t[i] > at[q]) value[i] += size[q] * exp(-k[j] * (t[i] - at[q]));
        for (int q = 0; q < 3; q++)
          area +=
              7 > at[q] ? size[q] / k[j] * (exp(-k[j] * fmax(0.5 - at[q], 0)) - exp(-k[j] * (7 - at[q]))) : 0;
        double top = 2 * exp(-0.2 * k[j]), when = 0.2;
        for (int q = 1; q < 3; q++) {
          double sum = 0;
          for (int o = 0; o < 3; o++)
            if (at[q] >= at[o]) sum += size[o] * exp(-k[j] * (at[q] - at[o]));
          if (at[q] < 8 && sum > top) top = sum, when = at[q];
        }
        CHECK_ABS(out[j], value[0], tol);
        CHECK_ABS(out[B + j], value[1], tol);
        CHECK_ABS(out[2 * B + j], (2 * value[2] + 7.5) * 3, 10 * tol);
        CHECK_ABS(out[3 * B + j], top, tol);
        CHECK_ABS(out[4 * B + j], when, 1e-12);
        CHECK_ABS(out[5 * B + j], area, 10 * tol);
        CHECK_ABS(out[6 * B + j], 1, tol);
        CHECK_ABS(out[7 * B + j], 2 * pi, 100 * tol); /* the top is flat */
        CHECK_ABS(out[8 * B + j], 6 + sin(24) / 4, 20 * tol);
        CHECK_REL(out[9 * B + j], 2, 0);
      }
      atvi_model_free(m);
    }
  /* difference equations: x is 1, 2, 4, 8, ... */
  atvi_model *m = test_load(
      ctx,
      test_file("double.atvi", "param k ~ uniform(0, 3)\nstart 0\nstep 0.5\nstate x = 1\nnext x = k*x\n"
                               "data \"path.csv\" time t\nobserve a ~ normal(x, 1)\nderived a1 = at(x, 2)\n"
                               "derived b = maximum(x, 0, 3)\nderived c = time_of_maximum(x, 0, 3)\n"
                               "derived d = integral(x, 0.5, 2)\nderived e = at(x, 8)\n"),
      true);
  const double two = 2, want[5] = {16, 64, 3, 0.5 * (2 + 4 + 8), 65536};
  double out[5];
  void *work;
  CHECK_OK(m->target.ops->work_new(m, ctx, &work));
  m->target.ops->derived(m, work, 1, &two, out);
  m->target.ops->work_free(work);
  for (int i = 0; i < 5; i++) CHECK_REL(out[i], want[i], 1e-12);
  atvi_model_free(m);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

/* dA/dt = p u - k A at rest is p u/k, with u as it is at the start and without the pulse there; X + Y = N is conserved, and
 * the share of X is b/(a + b). Rates differ by 1e7. */
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

/* A dose-response curve: the label of a unit, and the columns of a row, are the inputs of a steady state, x p/(k + x). */
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
    CHECK_INT(m->n_part, i ? 6 : 4);
    CHECK_ABS(v.ll, want, 1e-6);
    CHECK_ABS(v.gl[0], by_p, 1e-5);
    CHECK(test_gradient(ctx, atvi_model_target(m), (double[]){p, k}, 1e-6) < 1e-7);
    atvi_model_free(m);
  }
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

/* Until the start u is 3 q, v is 1 and w is 0, whatever they are later: parameters, columns and tables of all kinds. */
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

/* A switch comes to rest at the lower or the upper state, to rounding; its gradient is that of the implicit function. */
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

/* A cascade whose states are all 0 at first has no size to measure errors by: each state is product of those before it. */
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
  CHECK(atvi_ode_effort_of(((atvi_model_work *)work)->steady).steps < 80);
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

/* dx/dt = -k x(t - tau) from x = 1: on the n-th interval a polynomial of degree n. */
static double delayed_decay(double k, double tau, double t) {
  double sum = 1, term = 1;
  for (int n = 1; t - (n - 1) * tau > 0 && n < 100; n++) {
    term = pow(-k * (t - (n - 1) * tau), n);
    for (int i = 2; i <= n; i++) term /= i;
    sum += term;
  }
  return sum;
}

static void delays_by_steps(void) {
  atvi_ctx *ctx = test_ctx();
  test_file("late.csv", "t,a\n0.5,0.9\n1.7,0.2\n3,-0.6\n6.1,0.3\n");
  const double t[4] = {0.5, 1.7, 3, 6.1}, a[4] = {0.9, 0.2, -0.6, 0.3};
  for (int fixed = 0; fixed < 2; fixed++)
    for (int s = 0; s < 4 + fixed; s++)
      for (int interpret = 0; interpret < 2; interpret++) {
        char text[600];
        snprintf(text, sizeof text,
                 "param k ~ uniform(0, 3)\nparam tau in (0.2, 9)\nstart 0\nstate x = 1\nstate still = 4\n"
                 "dx/dt = -k*delay(x*still, %s)/4\ndstill/dt = 0\ndata \"late.csv\" time t\nobserve a ~ "
                 "normal(x, 0.5)\n%s",
                 fixed ? "1.3" : "tau", s < 4 ? SOLVERS[s] : "solver rk4 step 0.02\n");
        atvi_model *m = test_load(ctx, test_file("late.atvi", text), interpret);
        const atvi_target *target = atvi_model_target(m);
        enum { B = 9 };
        const double k = 0.9, h = 1e-5;
        double tau[B] = {1.3, 0.37, 2, 5, 7, 0.9, 2.9, 0.25, 1.1}, theta[2 * B], ll[B], gl[2 * B],
               tol = s == 0 || s == 3 ? 5e-3 : 1e-5;
        for (int j = 0; j < B; j++) theta[j] = k, theta[B + j] = tau[j];
        check_batch(ctx, target, B, theta, ll, gl);
        for (int j = 0; j < B; j++) {
          const double d = fixed ? 1.3 : tau[j];
          double want = 0, by_k = 0, by_tau = 0;
          for (int i = 0; i < 4; i++) {
            double x = delayed_decay(k, d, t[i]), r = (a[i] - x) / 0.25;
            want += normal(a[i], x, 0.5);
            by_k += r * (delayed_decay(k + h, d, t[i]) - delayed_decay(k - h, d, t[i])) / (2 * h);
            by_tau +=
                fixed ? 0 : r * (delayed_decay(k, d + h, t[i]) - delayed_decay(k, d - h, t[i])) / (2 * h);
          }
          CHECK_ABS(ll[j], want, tol * (1 + fabs(want)));
          CHECK_MSG(fabs(gl[j] - by_k) <= tol * (1 + fabs(by_k)),
                    "fixed %d, solver %d, tau %g: k %g, want %g", fixed, s, tau[j], gl[j], by_k);
          CHECK_MSG(fabs(gl[B + j] - by_tau) <= tol * (1 + fabs(by_tau)), "solver %d, tau %g: %g, want %g", s,
                    tau[j], gl[B + j], by_tau);
          double off = test_gradient(ctx, target, (double[]){k, tau[j]}, 1e-6);
          CHECK_MSG(off < 1e-6, "fixed %d, solver %d, tau %g: %g", fixed, s, tau[j], off);
        }
        atvi_model_free(m);
      }
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

/* dx/dt = -a x with doses at 1 and at lag, dy/dt = delay(x + t, tau) - c y + delay(y, 2 tau)*0: jumps come again after tau. */
static double after_doses(double a, double c, double lag, double tau, double t) {
  double y = 0;
  for (int j = 0; j < 2; j++) {
    double u = t - tau - (j ? lag : 1);
    if (u > 0) y += (j ? 2 : 3) * (exp(-a * u) - exp(-c * u)) / (c - a);
  }
  /* t - tau all along */
  return y + (t - tau) / c - 1 / (c * c) + (tau / c + 1 / (c * c)) * exp(-c * t);
}

static void delayed_jumps(void) {
  atvi_ctx *ctx = test_ctx();
  test_file("echo.csv", "t,b\n0.5,0.9\n1.7,0.2\n3,0.6\n6.1,1.3\n");
  const double t[4] = {0.5, 1.7, 3, 6.1}, b[4] = {0.9, 0.2, 0.6, 1.3};
  for (int s = 0; s < 4; s++)
    for (int interpret = 0; interpret < 2; interpret++) {
      char text[700];
      snprintf(
          text, sizeof text,
          "param a ~ uniform(0, 3)\nparam tau in (0, 3)\nparam lag in (0, 9)\nstart 0\nstate x = 0\nstate y "
          "= 0\n"
          "let late = delay(x + t, tau)\ndx/dt = -a*x\ndy/dt = late - 1.1*y + 0*delay(y, 2*tau)\n"
          "pulse x += 3 at 1\npulse x += 2 at lag\ndata \"echo.csv\" time t\nobserve b ~ normal(y, 0.5)\n"
          "derived top = at(y, 6.1) + at(x, 0)\n%s",
          SOLVERS[s]);
      atvi_model *m = test_load(ctx, test_file("echo.atvi", text), interpret);
      const atvi_target *target = atvi_model_target(m);
      enum { B = 4 };
      const double a = 0.6, c = 1.1, h = 1e-5, tau[B] = {0.8, 1.9, 0.31, 2.6}, lag[B] = {2.3, 0.3, 4.4, 1.05};
      double theta[3 * B], ll[B], gl[3 * B], top[B], tol = s == 1 || s == 2 ? 2e-5 : 1e-2;
      for (int j = 0; j < B; j++) theta[j] = a, theta[B + j] = tau[j], theta[2 * B + j] = lag[j];
      check_batch(ctx, target, B, theta, ll, gl);
      void *work;
      CHECK_OK(target->ops->work_new(target->self, ctx, &work));
      target->ops->derived(target->self, work, B, theta, top);
      target->ops->work_free(work);
      for (int j = 0; j < B; j++) {
        double want = 0, by_tau = 0, by_lag = 0;
        for (int i = 0; i < 4; i++) {
          double y = after_doses(a, c, lag[j], tau[j], t[i]), r = (b[i] - y) / 0.25;
          want += normal(b[i], y, 0.5);
          by_tau +=
              r *
              (after_doses(a, c, lag[j], tau[j] + h, t[i]) - after_doses(a, c, lag[j], tau[j] - h, t[i])) /
              (2 * h);
          by_lag +=
              r *
              (after_doses(a, c, lag[j] + h, tau[j], t[i]) - after_doses(a, c, lag[j] - h, tau[j], t[i])) /
              (2 * h);
        }
        CHECK_ABS(ll[j], want, tol * (1 + fabs(want)));
        CHECK_ABS(top[j], after_doses(a, c, lag[j], tau[j], 6.1), 1e-5);
        CHECK_MSG(fabs(gl[B + j] - by_tau) <= tol * (1 + fabs(by_tau)), "solver %d, %d: tau %g, want %g", s,
                  j, gl[B + j], by_tau);
        CHECK_MSG(fabs(gl[2 * B + j] - by_lag) <= tol * (1 + fabs(by_lag)), "solver %d, %d: lag %g, want %g",
                  s, j, gl[2 * B + j], by_lag);
        double off = test_gradient(ctx, target, (double[]){a, tau[j], lag[j]}, 1e-6);
        CHECK_MSG(off < 1e-6, "solver %d, %d: %g", s, j, off);
      }
      atvi_model_free(m);
    }
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

/* dx/dt = u p - k x(t - tau) is at rest at p/k until u doubles at t = 0. */
static void delays_start_at_rest(void) {
  atvi_ctx *ctx = test_ctx();
  test_file("still.csv", "t,y\n0,1.1\n0.5,0.4\n1.7,1.9\n");
  const char *path = test_file(
      "still.atvi", "param p in (0, 3)\nparam k in (0, 3)\nparam tau in (0.1, 3)\ntable u step = [0: 2]\n"
                    "state x = 0.3\ndx/dt = u*p - k*delay(x, tau)\nstart 0 steady with u = 1\n"
                    "data \"still.csv\" time t\nobserve y ~ normal(x, 0.5)\nsolver rk45 tol 1e-9\n");
  const double p = 0.9, k = 0.6, tau = 1.1, t[3] = {0, 0.5, 1.7}, y[3] = {1.1, 0.4, 1.9};
  for (int interpret = 0; interpret < 2; interpret++) {
    atvi_model *m = test_load(ctx, path, interpret);
    double want = 0, by_tau = 0;
    for (int i = 0; i < 3; i++) {
      double late = fmax(0, t[i] - tau), x = p / k + p * t[i] - k * p * late * late / 2;
      want += normal(y[i], x, 0.5);
      by_tau += (y[i] - x) / 0.25 * k * p * late;
    }
    test_value v = test_eval(ctx, &m->target, (double[]){p, k, tau});
    CHECK_INT(v.outcome, ATVI_RUN_OK);
    CHECK_ABS(v.ll, want, 1e-7);
    CHECK_ABS(v.gl[2], by_tau, 1e-6);
    CHECK(test_gradient(ctx, &m->target, (double[]){p, k, tau}, 1e-6) < 1e-7);
    atvi_model_free(m);
  }
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

/* dx/dt = -a x from 2, and 3 more whenever x falls to 1; dy/dt = x(t - tau) - c y: what each dose does comes again after tau. */
static double after_refills(double a, double low, double tau, double t) {
  const double c = 1.1;
  double at = log(2 / low) / a, y = 2 / c * (1 - exp(-c * fmin(t, tau))) * exp(-c * fmax(0, t - tau));
  if (t > tau) y += 2 * (exp(-a * (t - tau)) - exp(-c * (t - tau))) / (c - a);
  for (; at < t - tau; at += log((low + 3) / low) / a) {
    double u = t - tau - at;
    y += 3 * (exp(-a * u) - exp(-c * u)) / (c - a);
  }
  return y;
}

static void delays_of_conditions(void) {
  atvi_ctx *ctx = test_ctx();
  test_file("refill.csv", "t,b\n0.5,0.9\n1.7,0.2\n3,0.6\n6.1,1.3\n9.3,2\n");
  const double t[5] = {0.5, 1.7, 3, 6.1, 9.3}, b[5] = {0.9, 0.2, 0.6, 1.3, 2};
  for (int s = 0; s < 4; s++)
    for (int interpret = 0; interpret < 2; interpret++) {
      char text[700];
      snprintf(text, sizeof text,
               "param a ~ uniform(0, 3)\nparam low in (0, 1.9)\nparam tau in (0, 9)\nstart 0\nstate x = "
               "2\nstate y = 0\ndx/dt = -a*x\ndy/dt = delay(x, tau) - 1.1*y\npulse x += 3 when x < low\n"
               "data \"refill.csv\" time t\nobserve b ~ normal(y, 0.5)\nderived top = at(y, 9)\n%s",
               SOLVERS[s]);
      atvi_model *m = test_load(ctx, test_file("refill.atvi", text), interpret);
      const atvi_target *target = atvi_model_target(m);
      enum { B = 5 };
      const double h = 1e-5, value[3][B] = {{0.6, 1.3, 0.9, 0.31, 2.2},
                                            {0.9, 0.31, 1.1, 1.7, 0.2},
                                            {1.3, 0.8, 2.6, 0.37, 7}};
      double theta[3 * B], ll[B], gl[3 * B], tol = s == 1 || s == 2 ? 5e-5 : 2e-2;
      for (int j = 0; j < 3 * B; j++) theta[j] = value[j / B][j % B];
      check_batch(ctx, target, B, theta, ll, gl);
      for (int j = 0; j < B; j++) {
        double x[3] = {theta[j], theta[B + j], theta[2 * B + j]}, want = 0, by[3] = {0};
        for (int i = 0; i < 5; i++) {
          double y = after_refills(x[0], x[1], x[2], t[i]), r = (b[i] - y) / 0.25;
          want += normal(b[i], y, 0.5);
          for (int p = 0; p < 3; p++) {
            double up[3] = {x[0], x[1], x[2]}, down[3] = {x[0], x[1], x[2]};
            up[p] += h, down[p] -= h;
            by[p] +=
                r *
                (after_refills(up[0], up[1], up[2], t[i]) - after_refills(down[0], down[1], down[2], t[i])) /
                (2 * h);
          }
        }
        CHECK_ABS(ll[j], want, tol * (1 + fabs(want)));
        for (int p = 0; p < 3; p++)
          CHECK_MSG(fabs(gl[p * B + j] - by[p]) <= tol * (1 + fabs(by[p])),
                    "solver %d, %d: %d is %g, want %g", s, j, p, gl[p * B + j], by[p]);
        double off = test_gradient(ctx, target, x, 1e-6);
        CHECK_MSG(off < 1e-6, "solver %d, %d: %g", s, j, off);
      }
      atvi_model_free(m);
    }
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

/* The condition itself depends on what was pulsed a delay before, two delays overlap, and a table, a moving pulse and an observation fall
 * between: the derivative is that of runs at a fine tolerance. */
static void delays_close_the_circle(void) {
  atvi_ctx *ctx = test_ctx();
  test_file("circle.csv", "t,b\n0.5,0.9\n1.7,0.2\n3,0.6\n6.1,1.3\n9.3,2\n");
  for (int s = 1; s < 3; s++) {
    char text[900];
    snprintf(
        text, sizeof text,
        "param a in (0.1, 2)\nparam low in (0.1, 1.9)\nparam tau in (0.1, 9)\nparam lag in (0, 9)\nstart "
        "0\nstate x = 2\nstate y = 1.5\ntable u step = [0: 1, 4: 1.5]\ndx/dt = -a*u*x*delay(y, tau)/(1 + y)\n"
        "dy/dt = delay(x*y, 0.7*tau)/(1 + y) - y + 0.2*delay(x, 0.5)\npulse x += 2 when y < low\npulse y *= "
        "0.7 when y > "
        "1.6\npulse x += 1 at lag\n"
        "data \"circle.csv\" time t\nobserve b ~ normal(y, 0.5)\nsolver %s tol 1e-10\n",
        s == 1 ? "rk45" : "stiff");
    atvi_model *m = test_load(ctx, test_file("circle.atvi", text), false);
    const double x[3][4] = {{0.6, 0.9, 1.3, 2.05}, {1.1, 1.2, 0.4, 5.3}, {0.35, 0.8, 2.2, 0.77}};
    for (int j = 0; j < 3; j++) {
      test_value v = test_eval(ctx, &m->target, x[j]);
      CHECK_INT(v.outcome, ATVI_RUN_OK);
      for (int p = 0; p < 4; p++) {
        const double h = 1e-4;
        double up[4], down[4];
        memcpy(up, x[j], sizeof up);
        memcpy(down, x[j], sizeof down);
        up[p] += h, down[p] -= h;
        double by = (test_eval(ctx, &m->target, up).ll - test_eval(ctx, &m->target, down).ll) / (2 * h);
        CHECK_MSG(fabs(v.gl[p] - by) <= 1e-4 * (1 + fabs(by)), "solver %d, %d: %d is %g, want %g", s, j, p,
                  v.gl[p], by);
      }
      double off = test_gradient(ctx, &m->target, x[j], 1e-6);
      CHECK_MSG(off < 1e-6, "solver %d, %d: %g", s, j, off);
    }
    atvi_model_free(m);
  }
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

/* Units with events of all kinds: the sum of what each of them is alone. */
static void units_have_their_own_events(void) {
  static const char *const BODY[3] = {
      "  start 0 steady\n  state A = 1\n  dA/dt = p*t + p - k*A\n  pulse A += dose at [lag, 2 + lag]\n  "
      "pulse A *= 0.5 when A > 3*p/k\n"
      "  derived top = maximum(A, 0, 6)\n",
      "  start 0\n  state A = 1\n  dA/dt = p - k*delay(A, lag)\n  pulse A = dose at [1.5, 3 + when]\n  "
      "derived top = integral(A, 0, 6)\n",
      "  start 0\n  state A = 1\n  dA/dt = p - k*delay(A, when)\n  pulse A += dose at lag\n  derived top = "
      "at(A, 4)\n",
  };
  atvi_ctx *ctx = test_ctx();
  test_file("who.csv", "who,dose,when\na,1.5,0.4\nb,2.5,0.7\nc,0.5,1.1\n");
  test_file("seen.csv", "who,t,y\na,0.5,1.1\na,3.3,2\nb,1,0.4\nc,2.5,1.9\nc,4,0.7\nc,5.5,2.7\n");
  test_file("a.csv", "t,y\n0.5,1.1\n3.3,2\n");
  test_file("b.csv", "t,y\n1,0.4\n");
  test_file("c.csv", "t,y\n2.5,1.9\n4,0.7\n5.5,2.7\n");
  for (int body = 0; body < 3; body++) {
    char text[900];
    snprintf(
        text, sizeof text,
        "param k in (0.1, 2)\neach who from \"who.csv\" {\n  param p in (0.1, 2)\n  param lag in (0.1, 2)\n%s"
        "  data \"seen.csv\" time t\n  observe y ~ normal(A, 0.5)\n}\n",
        BODY[body]);
    atvi_model *m = test_load(ctx, test_file("who.atvi", text), body == 1);
    const atvi_target *target = atvi_model_target(m);
    const double theta[7] = {0.7, 0.9, 1.2, 0.5, 0.55, 0.8, 1.27}, dose[3] = {1.5, 2.5, 0.5},
                 when[3] = {0.4, 0.7, 1.1};
    test_value v = test_eval(ctx, target, theta);
    double top[3], sum = 0, by_k = 0;
    void *work;
    CHECK_INT(v.outcome, ATVI_RUN_OK);
    CHECK_OK(target->ops->work_new(target->self, ctx, &work));
    target->ops->derived(target->self, work, 1, theta, top);
    target->ops->work_free(work);
    for (int u = 0; u < 3; u++) {
      snprintf(text, sizeof text,
               "param k in (0.1, 2)\nparam p in (0.1, 2)\nparam lag in (0.1, 2)\nconst dose = %g\nconst when "
               "= %g\n%s"
               "data \"%c.csv\" time t\nobserve y ~ normal(A, 0.5)\n",
               dose[u], when[u], BODY[body], 'a' + u);
      atvi_model *one = test_load(ctx, test_file("one.atvi", text), true);
      test_value w = test_eval(ctx, atvi_model_target(one), (double[]){theta[0], theta[1 + u], theta[4 + u]});
      double alone;
      CHECK_OK(one->target.ops->work_new(one, ctx, &work));
      one->target.ops->derived(one, work, 1, (double[]){theta[0], theta[1 + u], theta[4 + u]}, &alone);
      one->target.ops->work_free(work);
      sum += w.ll;
      by_k += w.gl[0];
      CHECK_ABS(v.gl[1 + u], w.gl[1], 0.01 * (1 + fabs(w.gl[1])));
      CHECK_ABS(v.gl[4 + u], w.gl[2], 0.01 * (1 + fabs(w.gl[2])));
      CHECK_ABS(top[u], alone, 1e-4 * (1 + fabs(alone)));
      atvi_model_free(one);
    }
    CHECK_ABS(v.ll, sum, 1e-3 * (1 + fabs(sum)));
    CHECK_ABS(v.gl[0], by_k, 0.01 * (1 + fabs(by_k)));
    CHECK(test_gradient(ctx, target, theta, 1e-6) < 1e-6);
    atvi_model_free(m);
  }
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

/* Tables whose values are parameters, in conditions, amounts, trajectories and a steady start. */
static void tables_of_parameters(void) {
  atvi_ctx *ctx = test_ctx();
  test_file("mix.csv", "t,y\n0,1.1\n1,1.4\n2.3,2.1\n4,1.7\n6,2.2\n");
  for (int s = 0; s < 4; s++) {
    char text[900];
    snprintf(
        text, sizeof text,
        "param k in (0.1, 2)\nparam tau in (0.2, 1.5)\nparam b1 in (0.5, 2)\nparam b2 in (0.5, 2)\n"
        "table b step = [0: b1, 3: b2]\ntable c linear = [0: b1, 2: b2, 5: b1]\nstart steady\nstate A = 1\n"
        "dA/dt = b - k*A\npulse A += c at [tau, 2.5]\npulse A += 0.5 when A < c*0.8\ndata \"mix.csv\" time "
        "t\n"
        "observe y ~ normal(A, 0.5)\nderived flat = integral(b, 0, 6)\nderived line = integral(c, 0, 6)\n%s",
        SOLVERS[s]);
    atvi_model *m = test_load(ctx, test_file("mix.atvi", text), s % 2);
    const double theta[4] = {0.9, 0.61, 0.8, 1.3};
    double out[2];
    void *work;
    CHECK(test_gradient(ctx, atvi_model_target(m), theta, 1e-6) < 1e-6);
    CHECK_OK(m->target.ops->work_new(m, ctx, &work));
    m->target.ops->derived(m, work, 1, theta, out);
    m->target.ops->work_free(work);
    CHECK_ABS(out[0], 3 * 0.8 + 3 * 1.3, 1e-9);
    CHECK_ABS(out[1], 5 * (0.8 + 1.3) / 2 + 0.8, 1e-9);
    atvi_model_free(m);
  }
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

/* Loading fails cleanly at every allocation, with every kind of event. */
static void memory_may_run_out_anywhere(void) {
  atvi_ctx *ctx = test_ctx();
  test_file("all.csv", "t,a\n0.5,1.1\n3,0.3\n");
  const char *path[2] = {test_file("all.atvi", ALL), test_file("more.atvi", MORE)};
  long live = test_live;
  for (int i = 0; i < 2; i++)
    for (long k = 1;; k++) {
      atvi_model *m;
      test_fail_at = test_allocs + k;
      atvi_status status = atvi_model_load_with(ctx, path[i], &(atvi_model_load_opts){.interpret = true}, &m);
      test_fail_at = 0;
      if (status == ATVI_OK) {
        atvi_model_free(m);
        break;
      }
      CHECK_INT(status, ATVI_ENOMEM);
      CHECK(m == NULL);
      CHECK_INT(test_live, live);
      CHECK(k < 100000);
    }
  atvi_ctx_free(ctx);
}

/* Lanes that wait for others between an event and their next step do not fire again. */
static void lanes_do_not_matter(void) {
  enum { D = 3, N = 8 };
  static const char *const text =
      "param a ~ lognormal(0, 0.5)\nparam k ~ lognormal(-1, 0.5)\nparam e ~ lognormal(0, 0.5)\n"
      "state G = 5\nstate I = 0\ndG/dt = a - k*I*G\ndI/dt = -e*I\npulse I += 2 when G > 8\nstart 0\n"
      "solver rk45 tol 1e-7\ndata \"g.csv\" time t\nobserve y ~ normal(G, 0.3)\n";
  atvi_ctx *ctx = test_ctx();
  test_file("g.csv", "t,y\n2,6.9\n4,6.4\n8,8.6\n12,6.8\n");
  atvi_model *m = test_load(ctx, test_file("lanes.atvi", text), true);
  const atvi_target *t = atvi_model_target(m);
  double theta[D * N], together[N];
  void *work;
  CHECK_OK(t->ops->work_new(t->self, ctx, &work));
  t->ops->prior_draw(t->self, work, 3, 0, N, theta);
  t->ops->eval(t->self, work, &(atvi_batch){.B = N, .theta = theta, .log_lik = together});
  for (int j = 0; j < N; j++) {
    double one[D], alone;
    for (int i = 0; i < D; i++) one[i] = theta[i * N + j];
    t->ops->eval(t->self, work, &(atvi_batch){.B = 1, .theta = one, .log_lik = &alone});
    CHECK_MSG(alone == together[j], "point %d: %.17g alone, %.17g with others", j, alone, together[j]);
  }
  t->ops->work_free(work);
  atvi_model_free(m);
  atvi_ctx_free(ctx);
}

TESTS({"set", pulses_set_and_scale}, {"moving", pulses_at_parameters}, {"when", pulses_when_a_state_falls},
      {"once", conditions_become_true_once}, {"rest", conditions_that_never_rest_fail},
      {"trajectories", derived_of_trajectories}, {"steady", states_start_at_rest},
      {"doses", every_dose_has_its_rest}, {"before", inputs_differ_before_the_start},
      {"rounding", rest_is_found_to_rounding}, {"some", some_lanes_conserve},
      {"zero", cascades_start_from_zero}, {"still", delays_start_at_rest}, {"never", without_rest_runs_fail},
      {"rows", rows_are_seen_at_rest}, {"delays", delays_by_steps}, {"echoes", delayed_jumps},
      {"refills", delays_of_conditions}, {"circle", delays_close_the_circle},
      {"units", units_have_their_own_events}, {"tables", tables_of_parameters},
      {"memory", memory_may_run_out_anywhere}, {"lanes_do_not_matter", lanes_do_not_matter})
