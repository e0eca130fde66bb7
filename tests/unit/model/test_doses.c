/* SPDX-License-Identifier: MIT */
/* Pulses whose times and numbers come from a file. */
#include "model/model.h"
#include "models.h"

static double normal(double y, double mean) {
  return -0.5 * (y - mean) * (y - mean) - 0.91893853320467274178;
}

/* dA/dt = -k A with doses f*amount - b: A(t) is a sum of exponentials. Two rows at one time act both, a row
 * without an amount is no dose, another pulse shares a time, and a jump of the equations at a parameter has
 * its place beside the numbers. */
static void doses_have_the_closed_form(void) {
  atvi_ctx *ctx = test_ctx();
  test_file("doses.csv", "time,amount,bias\n0,90,1\n2.5,40,2\n2.5,12.5,0\n3,NA,1\n6,25,4\n");
  test_file("conc.csv", "hour,A\n1,55\n2.5,60\n4,66\n9,21\n");
  const char *path = test_file("doses.atvi", "param k in (0, 1)\nparam f in (0, 2)\nparam lag in (5, 50)\n"
                                             "state A = 0\nstate B = 1\nstate C = 0\n"
                                             "dA/dt = -k*A\ndB/dt = level\ndC/dt = if t < lag then 1 else 2\n"
                                             "table level step = [0: 1, 5: 3]\n"
                                             "pulse B += 1 at [2.5]\n"
                                             "pulse A += f*amount - bias*B at time from \"doses.csv\"\n"
                                             "data \"conc.csv\" time hour\nobserve A ~ normal(A, 1)\n"
                                             "solver rk45 tol 1e-11\n");
  const double k = 0.231, f = 0.875, theta[3] = {k, f, 7.3};
  const double time[4] = {0, 2.5, 2.5, 6}, amount[4] = {90, 40, 12.5, 25}, bias[4] = {1, 2, 0, 4};
  const double B[4] = {1, 3.5, 3.5, 10}; /* just before the pulses */
  const double hour[4] = {1, 2.5, 4, 9}, y[4] = {55, 60, 66, 21};
  for (int interpret = 0; interpret < 2; interpret++) {
    atvi_model *m = test_load(ctx, path, interpret);
    double want = 0;
    for (int r = 0; r < 4; r++) {
      double A = 0;
      for (int i = 0; i < 4; i++) /* an observation comes before the pulses of its time */
        if (time[i] < hour[r]) A += (f * amount[i] - bias[i] * B[i]) * exp(-k * (hour[r] - time[i]));
      want += normal(y[r], A);
    }
    test_value v = test_eval(ctx, atvi_model_target(m), theta);
    CHECK_INT(v.outcome, ATVI_RUN_OK);
    CHECK_ABS(v.ll, want, 1e-6);
    CHECK(test_gradient(ctx, atvi_model_target(m), theta, 1e-6) < 1e-7);
    CHECK_INT(m->lang->dynamics.n_pulse, 2);
    CHECK_INT(atvi_model_tab(m->lang), 2 * m->lang->n_table + 4);
    atvi_model_free(m);
  }
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

/* The same doses a lag later, which is a parameter; in units each has its own, and one has none. */
static void doses_with_a_lag(void) {
  atvi_ctx *ctx = test_ctx();
  const double lag = 0.37, time[4] = {0, 2.5, 2.5, 6}, amount[4] = {90, 40, 12.5, 25}, bias[4] = {1, 2, 0, 4};
  const double k = 0.231, f = 0.875, hour[4] = {1, 2.6, 4, 9}, y[4] = {55, 60, 66, 21}, h = 1e-6;
  test_file("doses.csv",
            "who,time,amount,bias\na,0,90,1\na,2.5,40,2\na,2.5,12.5,0\na,3,NA,1\na,6,25,4\nc,2.6,7,1\n");
  test_file("conc.csv", "who,hour,A\na,1,55\na,2.6,60\na,4,66\na,9,21\nb,1,0.3\nc,1,0\nc,4,3\n");
  for (int s = 0; s < 2; s++) {
    char text[600];
    snprintf(text, sizeof text,
             "param k in (0, 1)\nparam f in (0, 2)\neach who in b, a, c {\n  param lag in (0, 2)\n  start "
             "0\n  state A = 0\n"
             "  dA/dt = -k*A\n  pulse A += f*amount - bias at %s from \"doses.csv\"\n"
             "  data \"conc.csv\" time hour\n  observe A ~ normal(A, 1)\n}\nsolver %s tol 1e-9\n",
             s ? "2*lag + time" : "time + lag", s ? "stiff" : "rk45");
    atvi_model *m = test_load(ctx, test_file("lag.atvi", text), s);
    const double theta[5] = {k, f, 0.5, s ? lag / 2 : lag, 0.9};
    double want[3] = {0};
    for (int j = 0; j < 3; j++) {
      double later = lag + h * (j - 1);
      for (int r = 0; r < 4; r++) {
        double A = 0;
        for (int i = 0; i < 4; i++)
          if (time[i] + later < hour[r])
            A += (f * amount[i] - bias[i]) * exp(-k * (hour[r] - time[i] - later));
        want[j] += normal(y[r], A);
      }
    }
    double C = s ? 0 : (7 * f - 1) * exp(-k * (4 - 2.6 - 0.9));
    double rest = normal(0.3, 0) + normal(0, 0) + normal(3, C);
    test_value v = test_eval(ctx, atvi_model_target(m), theta);
    CHECK_INT(v.outcome, ATVI_RUN_OK);
    CHECK_ABS(v.ll, want[1] + rest, 1e-5 * fabs(want[1]));
    double slope = (want[2] - want[0]) / (2 * h) * (s ? 2 : 1);
    CHECK_ABS(v.gl[3], slope, 1e-5 * (1 + fabs(slope)));
    CHECK_ABS(v.gl[2], 0, 0);
    CHECK(test_gradient(ctx, atvi_model_target(m), theta, 1e-6) < 1e-6);
    atvi_model_free(m);
  }
  /* a number is just a later time */
  test_file("lone.csv", "time,amount\n1,5\n");
  test_file("seen.csv", "t,a\n2,3\n4,6\n");
  atvi_model *m = test_load(
      ctx,
      test_file("lone.atvi", "param k in (0, 1)\nstart 0\nstate A = 0\ndA/dt = -k*A\n"
                             "pulse A += amount at time + 2 from \"lone.csv\"\n"
                             "data \"seen.csv\" time t\nobserve a ~ normal(A, 1)\nsolver rk45 tol 1e-9\n"),
      true);
  test_value v = test_eval(ctx, atvi_model_target(m), (double[]){0.3});
  CHECK_ABS(v.ll, normal(3, 0) + normal(6, 5 * exp(-0.3)), 1e-7);
  atvi_model_free(m);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

/* Difference equations: S grows by what the file says at each step. */
static void doses_of_difference_equations(void) {
  atvi_ctx *ctx = test_ctx();
  test_file("in.csv", "day,n\n1,3\n2,5.5\n4,7\n");
  test_file("out.csv", "day,S\n0,1\n5,20\n");
  const char *path = test_file("in.atvi", "param a in (0, 2)\nstate S = 1\nnext S = S\n"
                                          "pulse S += a*n at day from \"in.csv\"\ndata \"out.csv\" time day\n"
                                          "observe S ~ normal(S, 1)\n");
  atvi_model *m = test_load(ctx, path, true);
  test_value v = test_eval(ctx, atvi_model_target(m), (double[]){1.125});
  double S = 1 + 1.125 * (3 + 5.5 + 7);
  CHECK_ABS(v.ll, normal(1, 1) + normal(20, S), 1e-12);
  CHECK_REL(v.gl[0], (20 - S) * 15.5, 1e-12);
  atvi_model_free(m);
  atvi_ctx_free(ctx);
}

/* Infusions that overlap, by pulses on their rate that end after a column more; doses by mouth are other rows
 * of the file. */
static void infusions_have_the_closed_form(void) {
  atvi_ctx *ctx = test_ctx();
  test_file("doses.csv", "time,amount,duration,route\n0,90,3,iv\n1,40,0,oral\n2,30,0.5,iv\n4,7,0,oral\n");
  test_file("conc.csv", "hour,y\n1,25\n2.25,60\n2.75,66\n9,21\n");
  const char *path =
      test_file("doses.atvi", "index route = oral, iv\nparam k in (0, 1)\nstate A = 0\nstate R = 0\n"
                              "dA/dt = R - k*A\ndR/dt = 0\n"
                              "let rate = if route == iv then amount/duration else 0\n"
                              "pulse R += rate at time from \"doses.csv\"\n"
                              "pulse R -= rate at time + duration from \"doses.csv\"\n"
                              "pulse A += if route == oral then amount else 0 at time from \"doses.csv\"\n"
                              "data \"conc.csv\" time hour\nobserve y ~ normal(A, 1)\n"
                              "solver rk45 tol 1e-11\n");
  const double k = 0.231, begin[2] = {0, 2}, end[2] = {3, 2.5}, rate[2] = {30, 60},
               hour[4] = {1, 2.25, 2.75, 9}, y[4] = {25, 60, 66, 21};
  atvi_model *m = test_load(ctx, path, false);
  double want = 0;
  for (int r = 0; r < 4; r++) {
    double A = hour[r] > 1 ? 40 * exp(-k * (hour[r] - 1)) : 0;
    if (hour[r] > 4) A += 7 * exp(-k * (hour[r] - 4));
    for (int i = 0; i < 2; i++) {
      double until = fmin(hour[r], end[i]);
      if (hour[r] > begin[i])
        A += rate[i] / k * (exp(-k * (hour[r] - until)) - exp(-k * (hour[r] - begin[i])));
    }
    want += normal(y[r], A);
  }
  test_value v = test_eval(ctx, atvi_model_target(m), &k);
  CHECK_INT(v.outcome, ATVI_RUN_OK);
  CHECK_ABS(v.ll, want, 1e-6 * fabs(want));
  CHECK(test_gradient(ctx, atvi_model_target(m), &k, 1e-6) < 1e-7);
  atvi_model_free(m);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

TESTS({"closed", doses_have_the_closed_form}, {"lag", doses_with_a_lag},
      {"map", doses_of_difference_equations}, {"infusions", infusions_have_the_closed_form})
