/* SPDX-License-Identifier: MIT */
#include "math/special.h"
#include "math/detail.h"
#include "oracle.h"
#include "testing.h"

#define ROWS(t) (int)(sizeof(t) / sizeof((t)[0]))
/* Logs of probabilities: relative to the probability near 1 of it, relative to the log far out. */
#define CHECK_LOG(a, b, tol) CHECK_ABS(a, b, (tol)*fmax(1.0, fabs(b)))

static void gamma_and_its_derivatives(void) {
  for (int i = 0; i < ROWS(oracle_gamma); i++) {
    const double *r = oracle_gamma[i];
    CHECK_REL(atvi_math_lgamma(r[0]), r[1], 1e-14);
    CHECK_ABS(atvi_math_digamma(r[0]), r[2], 2e-15 * fmax(1.0, fabs(r[2])));
    CHECK_REL(atvi_math_trigamma(r[0]), r[3], 2e-15);
    if (r[0] >= 0.5) {
      double stirling = r[1] - ((r[0] - 0.5) * log(r[0]) - r[0] + ATVI_LN_SQRT_2PI);
      CHECK_ABS(atvi_math_stirling(r[0]), stirling, 1e-15 * fmax(10.0, fabs(r[1])));
    }
  }
  CHECK(isinf(atvi_math_lgamma(0)));
  CHECK(isnan(atvi_math_lgamma(-0.3)) && isnan(atvi_math_digamma(0)) && isnan(atvi_math_trigamma(-1)));
}

static void rising_factorial_does_not_cancel(void) {
  for (int i = 0; i < ROWS(oracle_rise); i++) {
    const double *r = oracle_rise[i];
    /* k < 1 with nu < 10: the sum of the recurrence passes 0 near nu = 1.46, hence the absolute part. */
    double small = r[0] < 10 ? r[1] : 0;
    CHECK_ABS(atvi_math_lrise(r[0], r[1]), r[2], 2e-15 * fmax(fabs(r[2]), small) + 4e-16 * (r[2] > 1));
    CHECK_REL(atvi_math_lrise_dnu(r[0], r[1]), r[3], 3e-15);
  }
  CHECK(atvi_math_lrise(2.385, 0) == 0 && atvi_math_lrise_dnu(2.385, 0) == 0);
  CHECK(isnan(atvi_math_lrise(-1, 2)) && isnan(atvi_math_lrise(1, -2)) && isnan(atvi_math_lrise_dnu(0, 2)));
}

static void log_beta(void) {
  for (int i = 0; i < ROWS(oracle_beta); i++) {
    const double *r = oracle_beta[i];
    CHECK_REL(atvi_math_lbeta(r[0], r[1]), r[2], 3e-15);
    CHECK(atvi_math_lbeta(r[0], r[1]) == atvi_math_lbeta(r[1], r[0]));
  }
  CHECK(isnan(atvi_math_lbeta(-1, 2)) && isinf(atvi_math_lbeta(0, 2)));
}

static void normal_tails(void) {
  for (int i = 0; i < ROWS(oracle_normal); i++) {
    const double *r = oracle_normal[i];
    CHECK_REL(atvi_math_log_ndtr(r[0]), r[1], r[0] > 0 ? 1e-14 : 2e-15); /* 8.1^2 / 2 roundings */
    CHECK_REL(atvi_math_log_ndtr_d(r[0]), r[2], 1e-14); /* 4.999^2 / 2 roundings in the exponential */
  }
  CHECK(atvi_math_log_ndtr(-HUGE_VAL) == -HUGE_VAL && atvi_math_log_ndtr(HUGE_VAL) == 0);
  CHECK(isnan(atvi_math_log_ndtr(NAN)));
}

static void normal_inverse(void) {
  for (int i = 0; i < ROWS(oracle_inverse); i++) {
    const double *r = oracle_inverse[i];
    /* near 1/2 the argument's own rounding is what counts */
    CHECK_ABS(atvi_math_ndtri(r[0]), r[1], 1e-15 * fabs(r[1]) + 1e-16);
  }
  CHECK(atvi_math_ndtri(0) == -HUGE_VAL && atvi_math_ndtri(1) == HUGE_VAL);
  CHECK(isnan(atvi_math_ndtri(-0.1)) && isnan(atvi_math_ndtri(1.1)) && isnan(atvi_math_ndtri(NAN)));
}

static void incomplete_gamma(void) {
  double p, q;
  for (int i = 0; i < ROWS(oracle_gamma_inc); i++) {
    const double *r = oracle_gamma_inc[i];
    atvi_math_log_gamma_pq(r[0], r[1], &p, &q);
    CHECK_LOG(p, r[2], 2e-14);
    CHECK_LOG(q, r[3], 2e-14);
    CHECK_REL(atvi_math_gamma_p(r[0], r[1]), exp(r[2]), 1e-13);
    CHECK_REL(atvi_math_gamma_q(r[0], r[1]), exp(r[3]), 1e-13);
  }
  CHECK(atvi_math_gamma_p(2, 0) == 0 && atvi_math_gamma_q(2, 0) == 1 && atvi_math_gamma_q(2, HUGE_VAL) == 0);
  CHECK(isnan(atvi_math_gamma_p(0, 1)) && isnan(atvi_math_gamma_q(1, -1)));
}

static void incomplete_beta(void) {
  double p, q;
  for (int i = 0; i < ROWS(oracle_beta_inc); i++) {
    const double *r = oracle_beta_inc[i];
    atvi_math_log_beta_pq(r[0], r[1], r[2], 1.0 - r[2], &p, &q);
    /* 1 - x is rounded: the log changes by up to b eps / (1 - x) */
    double tol = 3e-14 + 2e-16 * r[1];
    CHECK_LOG(p, r[3], tol);
    CHECK_LOG(q, r[4], tol);
    CHECK_REL(atvi_math_beta_inc(r[0], r[1], r[2]), exp(r[3]), 1e-13 + 2e-16 * r[1]);
  }
  CHECK(atvi_math_beta_inc(2, 3, 0) == 0 && atvi_math_beta_inc(2, 3, 1) == 1);
  CHECK(isnan(atvi_math_beta_inc(0, 3, 0.5)) && isnan(atvi_math_beta_inc(2, 3, 1.5)));
}

/* The methods change at shapes of 100: both sides must agree with the recurrence
 * P(a + 1, x) = P(a, x) - x^a e^-x / Gamma(a + 1). */
static void methods_meet(void) {
  for (double a = 99.2; a < 100; a += 0.13)
    for (double x = 70; x < 140; x += 3.7) {
      double step = exp(atvi_math_log_pois(a, x));
      CHECK_ABS(atvi_math_gamma_p(a + 1, x), atvi_math_gamma_p(a, x) - step, 2e-14);
      CHECK_ABS(atvi_math_gamma_q(a + 1, x), atvi_math_gamma_q(a, x) + step, 2e-14);
    }
}

/* Numbers whose exponentials overflow, underflow, or are zero. */
static void log_sums(void) {
  const double x[4] = {710.4, 709.1, -HUGE_VAL, -803.2}, none[2] = {-HUGE_VAL, NAN};
  double w[4], exact = 710.4 + log1p(exp(-1.3)), sum[2] = {-HUGE_VAL, -1.2};
  CHECK_REL(atvi_math_softmax(4, x, NULL), exact, 1e-15);
  CHECK_REL(atvi_math_softmax(4, x, w), exact, 1e-15);
  CHECK_REL(w[1], 1 / (1 + exp(1.3)), 1e-13);
  CHECK_ABS(w[0] + w[1], 1, 1e-15);
  CHECK(w[2] == 0 && w[3] == 0);
  CHECK_REL(atvi_math_effective_size(4, w), 1 / (w[0] * w[0] + w[1] * w[1]), 1e-15);
  CHECK_REL(atvi_math_softmax(2, x, w), exact, 1e-15);
  CHECK(atvi_math_softmax(2, none, w) == -HUGE_VAL && w[0] == 0 && w[1] == 0);
  CHECK(atvi_math_effective_size(2, w) == 0);
  CHECK(atvi_math_softmax(0, x, NULL) == -HUGE_VAL);
  CHECK_REL(atvi_math_log_add(x[0], x[1]), exact, 1e-15);
  CHECK(atvi_math_log_add(-HUGE_VAL, -HUGE_VAL) == -HUGE_VAL && atvi_math_log_add(2.5, -HUGE_VAL) == 2.5);
  atvi_math_log_add_all(2, 0.4, (double[]){-0.7, -1.1}, sum);
  CHECK_REL(sum[0], -0.3, 1e-15);
  CHECK_REL(sum[1], log(exp(-1.2) + exp(-0.7)), 1e-15);
}

TESTS({"gamma", gamma_and_its_derivatives}, {"rise", rising_factorial_does_not_cancel}, {"beta", log_beta},
      {"normal", normal_tails}, {"inverse", normal_inverse}, {"gamma_inc", incomplete_gamma},
      {"beta_inc", incomplete_beta}, {"meet", methods_meet}, {"log_sums", log_sums})
