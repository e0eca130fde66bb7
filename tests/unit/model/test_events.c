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

TESTS({"set", pulses_set_and_scale})
