/* SPDX-License-Identifier: MIT */
/* Pulses of all kinds, against closed forms and finite differences with frozen steps. */
#include "events_world.h"

/* dA/dt = -k A. At one time pulses act in the order of the file, with amounts from the state before all of
 * them. */
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

/* dA/dt = -k A + t/10, doses d (1 + t) at lag and 3 + lag: the amount depends on the time. In one lane the
 * second dose comes too late to be seen. */
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
      CHECK_INT(m->pulses.n_moving, 2);
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

/* dA/dt = -k A, and d more whenever A falls below c; B counts, as does the amount given, and N is not touched
 * by A. */
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
      CHECK_INT(m->pulses.n_root, 1);
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

/* An oscillation above q for a short while in each period of 2 pi: none is missed, nor counted twice. A
 * condition that holds at the start does not act then; a pulse at a fixed time, and one at a parameter, may
 * make others true. */
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

/* Values, maxima and integrals of an oscillation and of a decay with pulses, also beyond the last time of the
 * data. */
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
      {"trajectories", derived_of_trajectories}, {"units", units_have_their_own_events},
      {"tables", tables_of_parameters}, {"memory", memory_may_run_out_anywhere},
      {"lanes_do_not_matter", lanes_do_not_matter})
