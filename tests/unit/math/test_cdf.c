/* SPDX-License-Identifier: MIT */
#include "math/special.h"
#include "oracle.h"
#include "testing.h"
#include <time.h>

static double phi(double x) { return 0.5 * erfc(-x * sqrt(0.5)); }

#define ROWS(t) (int)(sizeof(t) / sizeof((t)[0]))
#define CHECK_LOG(a, b, tol) CHECK_ABS(a, b, (tol)*fmax(1.0, fabs(b)))

/* Front factors of counts near 1e6 carry a few hundred roundings of their size. */
#define TOL_VALUE 3e-13
#define TOL_GRAD 1e-12
#define TOL_NUMERIC 1e-8 /* of |df/dp p| + |f|: differences in log p */

static void poisson(void) {
  for (int i = 0; i < ROWS(oracle_poisson); i++) {
    const double *r = oracle_poisson[i];
    double g[1];
    CHECK_LOG(atvi_math_poisson_lcdf(r[0], r[1], g), r[2], TOL_VALUE);
    CHECK_REL(g[0], r[3], TOL_GRAD);
    CHECK_LOG(atvi_math_poisson_lccdf(r[0], r[1], g), r[4], TOL_VALUE);
    CHECK_REL(g[0], r[5], TOL_GRAD);
    CHECK(atvi_math_poisson_lcdf(r[0] + 0.7, r[1], NULL) == atvi_math_poisson_lcdf(r[0], r[1], NULL));
  }
}

static void negbin(void) {
  for (int i = 0; i < ROWS(oracle_negbin); i++) {
    const double *r = oracle_negbin[i];
    double g[2];
    CHECK_LOG(atvi_math_negbin_lcdf(r[0], r[1], r[2], g), r[3], TOL_VALUE);
    CHECK_REL(g[0], r[4], TOL_GRAD);
    CHECK_ABS(g[1] * r[2], r[5] * r[2], TOL_NUMERIC * (fabs(r[5] * r[2]) + fabs(r[3])) + 1e-11);
    CHECK_LOG(atvi_math_negbin_lccdf(r[0], r[1], r[2], g), r[6], TOL_VALUE);
    CHECK_REL(g[0], r[7], TOL_GRAD);
    CHECK_ABS(g[1] * r[2], r[8] * r[2], TOL_NUMERIC * (fabs(r[8] * r[2]) + fabs(r[6])) + 1e-11);
  }
  double a[2], b[1]; /* size -> inf is Poisson */
  CHECK(atvi_math_negbin_lcdf(7, 5.5, HUGE_VAL, a) == atvi_math_poisson_lcdf(7, 5.5, b));
  CHECK(a[0] == b[0] && a[1] == 0);
  CHECK_REL(atvi_math_negbin_lccdf(7, 5.5, 1e14, NULL), atvi_math_poisson_lccdf(7, 5.5, NULL), 1e-12);
}

static void binomial(void) {
  for (int i = 0; i < ROWS(oracle_binomial); i++) {
    const double *r = oracle_binomial[i];
    double g[2] = {5, 5};
    CHECK_LOG(atvi_math_binomial_lcdf(r[0], r[1], r[2], g), r[3], 1e-11);
    CHECK_REL(g[1], r[4], 1e-11);
    CHECK(g[0] == 0);
    CHECK_LOG(atvi_math_binomial_lccdf(r[0], r[1], r[2], g), r[5], 1e-11);
    CHECK_REL(g[1], r[6], 1e-11);
  }
}

static void student(void) {
  for (int i = 0; i < ROWS(oracle_student); i++) {
    const double *r = oracle_student[i];
    double g[3];
    CHECK_LOG(atvi_math_student_lcdf(r[0], r[1], r[2], r[3], g), r[4], TOL_VALUE);
    CHECK_ABS(g[0] * r[1], r[5] * r[1], TOL_NUMERIC * (fabs(r[5] * r[1]) + fabs(r[4])) + 1e-12);
    CHECK_REL(g[1], r[6], TOL_GRAD);
    CHECK_REL(g[2], r[7], TOL_GRAD);
    CHECK_LOG(atvi_math_student_lccdf(r[0], r[1], r[2], r[3], g), r[8], TOL_VALUE);
    CHECK_ABS(g[0] * r[1], r[9] * r[1], TOL_NUMERIC * (fabs(r[9] * r[1]) + fabs(r[8])) + 1e-12);
    CHECK_REL(g[1], r[10], TOL_GRAD);
    CHECK_REL(g[2], r[11], TOL_GRAD);
  }
  double g[3];
  CHECK(atvi_math_student_lcdf(-1.3, HUGE_VAL, 0.2, 1.7, g) == atvi_math_normal_lcdf(-1.3, 0.2, 1.7, NULL));
  CHECK(g[0] == 0);
  CHECK_REL(atvi_math_student_lcdf(0.2, 3.3, 0.2, 1.7, NULL), log(0.5), 1e-15);
}

static void normal(void) {
  const double y = -1.37, mean = 2.385, sd = 0.83, h = 1e-5;
  double g[2];
  CHECK_REL(atvi_math_normal_lcdf(y, mean, sd, g), atvi_math_log_ndtr((y - mean) / sd), 1e-15);
  CHECK_REL(g[0],
            (atvi_math_normal_lcdf(y, mean + h, sd, NULL) - atvi_math_normal_lcdf(y, mean - h, sd, NULL)) /
                (2 * h),
            1e-9);
  CHECK_REL(g[1],
            (atvi_math_normal_lcdf(y, mean, sd + h, NULL) - atvi_math_normal_lcdf(y, mean, sd - h, NULL)) /
                (2 * h),
            1e-8);
  CHECK_REL(atvi_math_normal_lccdf(y, mean, sd, g), atvi_math_log_ndtr((mean - y) / sd), 1e-15);
  CHECK_REL(g[0], exp(-0.5 * pow((y - mean) / sd, 2)) / (sd * sqrt(2 * acos(-1.0)) * phi((mean - y) / sd)),
            1e-13);
  CHECK_REL(g[1], g[0] * (y - mean) / sd, 1e-13);
  CHECK(atvi_math_normal_lcdf(-HUGE_VAL, mean, sd, g) == -HUGE_VAL && g[0] == 0 && g[1] == 0);
  CHECK(atvi_math_normal_lcdf(HUGE_VAL, mean, sd, g) == 0 && g[0] == 0 && g[1] == 0);
}

static void limits_are_right(void) {
  double g[3];
  CHECK(atvi_math_poisson_lcdf(0, 0, g) == 0 && g[0] == -1);
  CHECK(atvi_math_poisson_lcdf(3, 0, g) == 0 && g[0] == 0);
  CHECK(atvi_math_poisson_lccdf(0, 0, g) == -HUGE_VAL && g[0] == 0);
  CHECK(atvi_math_poisson_lcdf(-1, 2.5, g) == -HUGE_VAL && g[0] == 0);
  CHECK(atvi_math_poisson_lccdf(-1, 2.5, g) == 0 && g[0] == 0);
  CHECK(atvi_math_poisson_lccdf(HUGE_VAL, 2.5, g) == -HUGE_VAL);
  CHECK(atvi_math_negbin_lcdf(0, 0, 1.3, g) == 0 && g[0] == -1 && g[1] == 0);
  CHECK(atvi_math_negbin_lccdf(-0.5, 2, 1.3, g) == 0 && g[0] == 0);
  CHECK(atvi_math_binomial_lcdf(0, 7, 0, g) == 0 && g[1] == -7);
  CHECK(atvi_math_binomial_lcdf(7, 7, 0.4, g) == 0 && g[1] == 0);
  CHECK(atvi_math_binomial_lccdf(6, 7, 1, g) == 0 && g[1] == 7);
  CHECK(atvi_math_binomial_lccdf(7, 7, 0.4, g) == -HUGE_VAL);
  CHECK(atvi_math_binomial_lcdf(3, 7, 1, g) == -HUGE_VAL);
  CHECK(isnan(atvi_math_poisson_lcdf(1, -1, g)) && isnan(g[0]));
  CHECK(isnan(atvi_math_negbin_lcdf(1, 1, 0, g)) && isnan(atvi_math_binomial_lcdf(1, 2, 1.5, g)));
  CHECK(isnan(atvi_math_student_lcdf(1, -1, 0, 1, g)) && isnan(atvi_math_normal_lcdf(1, 0, 0, g)));
}

/* Cost must not grow with the counts: some microseconds each, here at most 100 on average, gradients and sanitizer included. */
static void large_counts_are_fast(void) {
  double sum = 0, g[2];
  clock_t start = clock(); /* processor time: other work on the machine does not count */
  for (int i = 0; i < 1000; i++) sum += atvi_math_negbin_lcdf(1e6 + 7 * i, 1.001e6, 0.01 * exp2(i % 27), g);
  for (int i = 0; i < 1000; i++) sum += atvi_math_poisson_lccdf(1e6 + 7 * i, 1.001e6, g);
  for (int i = 0; i < 1000; i++) sum += atvi_math_binomial_lcdf(1e6 + 7 * i, 3e6, 0.333, g);
  CHECK(isfinite(sum));
  CHECK((double)(clock() - start) / CLOCKS_PER_SEC < 0.3);
}

TESTS({"poisson", poisson}, {"negbin", negbin}, {"binomial", binomial}, {"student", student},
      {"normal", normal}, {"limits", limits_are_right}, {"fast", large_counts_are_fast})
