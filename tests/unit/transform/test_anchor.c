/* SPDX-License-Identifier: MIT */
/* Parameters of hierarchies: the map and its inverse, its Jacobian, adjoints against differences, messages. */
#include "testing.h"
#include "transform/transform.h"

static const atvi_prior_form FORMS[] = {ATVI_PRIOR_LINE,  ATVI_PRIOR_LOG,      ATVI_PRIOR_LOGIT,
                                        ATVI_PRIOR_RATIO, ATVI_PRIOR_INTERVAL, ATVI_PRIOR_STANDARD};
enum { N_FORM = 6, LOC = 0, SCALE, K, R, Z, N_IN };
static const double KS[] = {0, 0.37, 8.2};

/* One point: {loc, scale, k, r, z} to theta and ldj. */
static void at(atvi_prior_form form, const double in[N_IN], double out[2]) {
  atvi_anchor a = {form, &in[LOC], &in[SCALE], &in[K], &in[R]};
  out[1] = 0.71; /* is added to */
  atvi_transform_anchor_fwd(&a, 1, &in[Z], &out[0], &out[1]);
  out[1] -= 0.71;
}

static bool anchored(atvi_prior_form form, double k) { return form != ATVI_PRIOR_INTERVAL || k == 0; }

static void input(atvi_prior_form form, double k, double in[N_IN]) {
  const double some[N_IN] = {0.43, 0.81, k, form == ATVI_PRIOR_INTERVAL ? 0 : 0.62 * k, 0.385};
  memcpy(in, some, sizeof some);
}

static void inverse_and_jacobian(void) {
  for (int f = 0; f < N_FORM; f++)
    for (int k = 0; k < 3; k++) {
      double in[N_IN], out[2], up[2], down[2], back, h = 1e-6;
      if (!anchored(FORMS[f], KS[k])) continue;
      input(FORMS[f], KS[k], in);
      at(FORMS[f], in, out);
      atvi_anchor a = {FORMS[f], &in[LOC], &in[SCALE], &in[K], &in[R]};
      atvi_transform_anchor_inv(&a, 1, &out[0], &back);
      CHECK_REL(back, in[Z], 1e-13);
      in[Z] += h;
      at(FORMS[f], in, up);
      in[Z] -= 2 * h;
      at(FORMS[f], in, down);
      CHECK_ABS(out[1], log((up[0] - down[0]) / (2 * h)), 1e-9);
    }
}

/* Both outputs, with respect to everything. */
static void adjoint_is_right(void) {
  for (int f = 0; f < N_FORM; f++)
    for (int k = 0; k < 3; k++)
      for (int o = 0; o < 2; o++) {
        double in[N_IN], got[N_IN] = {0}, dtheta = o == 0, dldj = o == 1, h = 1e-6;
        if (!anchored(FORMS[f], KS[k])) continue;
        input(FORMS[f], KS[k], in);
        atvi_anchor a = {FORMS[f], &in[LOC], &in[SCALE], &in[K], &in[R]};
        atvi_anchor_adjoint to = {&got[LOC], &got[SCALE], &got[K], &got[R]};
        atvi_transform_anchor_vjp(&a, 1, &in[Z], &dtheta, &dldj, &got[Z], &to);
        for (int i = 0; i < N_IN; i++) {
          double up[2], down[2], was = in[i];
          if (i == K && was == 0) h = 1e-8; /* a one-sided difference would do, but k < 0 is as smooth */
          in[i] = was + h;
          at(FORMS[f], in, up);
          in[i] = was - h;
          at(FORMS[f], in, down);
          in[i] = was;
          double want = (up[o] - down[o]) / (2 * h);
          if (FORMS[f] == ATVI_PRIOR_RATIO && i == LOC) want = 0;
          CHECK_MSG(fabs(got[i] - want) < 1e-7 * (1 + fabs(want)),
                    "form %d k %g output %d input %d: %g, want %g", f, KS[k], o, i, got[i], want);
          h = 1e-6;
        }
      }
}

static void message(const double in[N_IN], double out[2]) {
  atvi_anchor a = {ATVI_PRIOR_LINE, &in[LOC], &in[SCALE], &in[K], &in[R]};
  out[0] = out[1] = 0;
  atvi_transform_anchor_message(&a, 1, &out[0], &out[1]);
}

/* y ~ N(u, 1/k), u ~ N(mu, s^2): y ~ N(mu, 1/k + s^2). */
static void messages_are_what_integration_leaves(void) {
  for (int k = 1; k < 3; k++) {
    double in[N_IN], out[2], h = 1e-6;
    input(ATVI_PRIOR_LINE, KS[k], in);
    message(in, out);
    double var = 1 / in[K] + in[SCALE] * in[SCALE];
    CHECK_REL(out[0], 1 / var, 1e-13);
    CHECK_REL(out[1], in[R] / in[K] / var, 1e-13);
    for (int o = 0; o < 2; o++) {
      double got[N_IN] = {0}, dk = o == 0, dr = o == 1;
      atvi_anchor a = {ATVI_PRIOR_LINE, &in[LOC], &in[SCALE], &in[K], &in[R]};
      atvi_anchor_adjoint to = {&got[LOC], &got[SCALE], &got[K], &got[R]};
      atvi_transform_anchor_message_vjp(&a, 1, &dk, &dr, &to);
      for (int i = 0; i < Z; i++) {
        double up[2], down[2], was = in[i];
        in[i] = was + h;
        message(in, up);
        in[i] = was - h;
        message(in, down);
        in[i] = was;
        CHECK_ABS(got[i], (up[o] - down[o]) / (2 * h), 1e-8);
      }
    }
  }
}

/* The posterior of u given location and scale, both normal, is standard normal in z: log p + ldj is -z^2/2
 * and a constant, the logarithm of the evidence less log sqrt(2 pi). */
static void posterior_is_standard_normal(void) {
  for (int k = 0; k < 3; k++)
    for (int j = 0; j < 5; j++) {
      double in[N_IN], out[2];
      input(ATVI_PRIOR_LINE, KS[k], in);
      in[Z] = -2.1 + 0.93 * j;
      at(ATVI_PRIOR_LINE, in, out);
      double z = (out[0] - in[LOC]) / in[SCALE], s2 = in[SCALE] * in[SCALE];
      double log_p = -0.5 * z * z - 0.5 * log(2 * 3.14159265358979323846 * s2) -
                     0.5 * in[K] * out[0] * out[0] + in[R] * out[0];
      double share = 1 / (1 + in[K] * s2), m = share * (in[LOC] + s2 * in[R]);
      double log_z = 0.5 * log(share) - 0.5 * in[LOC] * in[LOC] / s2 + 0.5 * m * m / (share * s2);
      CHECK_ABS(log_p + out[1], log_z - 0.5 * in[Z] * in[Z] - 0.5 * log(2 * 3.14159265358979323846), 1e-12);
    }
}

/* The two ways to write a hierarchy have the same coordinate. */
static void standard_is_the_line_seen_from_its_prior(void) {
  for (int k = 0; k < 3; k++) {
    double in[N_IN], line[2], standard[2];
    input(ATVI_PRIOR_LINE, KS[k], in);
    at(ATVI_PRIOR_LINE, in, line);
    at(ATVI_PRIOR_STANDARD, in, standard);
    CHECK_REL(in[LOC] + in[SCALE] * standard[0], line[0], 1e-13);
    CHECK_REL(standard[1] + log(in[SCALE]), line[1], 1e-13);
  }
}

static void far_and_wrong_points(void) {
  double lower, upper, out[2], in[N_IN];
  for (int f = 0; f < N_FORM; f++) {
    input(FORMS[f], 0, in);
    in[SCALE] = f % 2 ? 0 : -0.3;
    at(FORMS[f], in, out);
    CHECK(FORMS[f] == ATVI_PRIOR_STANDARD ? out[0] == in[Z] : isnan(out[1]));
  }
  input(ATVI_PRIOR_LOG, 0, in);
  for (int sign = -1; sign < 2; sign += 2) {
    in[Z] = sign * 1e5;
    at(ATVI_PRIOR_LOG, in, out);
    CHECK(out[0] > 0 && isfinite(out[0]) && isfinite(out[1]));
  }
  atvi_transform_anchor_bounds(ATVI_PRIOR_INTERVAL, &lower, &upper);
  CHECK(lower == 0 && upper == 1);
  atvi_transform_anchor_bounds(ATVI_PRIOR_RATIO, &lower, &upper);
  CHECK(lower == 0 && upper == HUGE_VAL);
  atvi_transform_anchor_bounds(ATVI_PRIOR_LOG, &lower, &upper);
  CHECK(lower == -HUGE_VAL && upper == HUGE_VAL);
}

TESTS({"inverse", inverse_and_jacobian}, {"adjoint", adjoint_is_right},
      {"message", messages_are_what_integration_leaves}, {"posterior", posterior_is_standard_normal},
      {"standard", standard_is_the_line_seen_from_its_prior}, {"far", far_and_wrong_points})
