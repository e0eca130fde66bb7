/* SPDX-License-Identifier: MIT */
/* Delays, and what pulses and conditions become by them, against closed forms and finite differences with
 * frozen steps. */
#include "events_world.h"

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

/* dx/dt = -a x with doses at 1 and at lag, dy/dt = delay(x + t, tau) - c y + delay(y, 2 tau)*0: jumps come
 * again after tau. */
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

/* dx/dt = -a x from 2, and 3 more whenever x falls to 1; dy/dt = x(t - tau) - c y: what each dose does comes
 * again after tau. */
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

/* The condition itself depends on what was pulsed a delay before, two delays overlap, and a table, a moving
 * pulse and an observation fall between: the derivative is that of runs at a fine tolerance. */
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

TESTS({"still", delays_start_at_rest}, {"delays", delays_by_steps}, {"echoes", delayed_jumps},
      {"refills", delays_of_conditions}, {"circle", delays_close_the_circle})
