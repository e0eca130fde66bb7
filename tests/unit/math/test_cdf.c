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

/* y, (n,) log mean or logit, (size,) lcdf, its slope by the second, lccdf, its slope: sums with a thousand
 * digits. */
static void by_log_mean_and_by_logit(void) {
  static const double pois[][6] = {
      {3, 1.43, -0.9178932222103863, -1.949230269501919, -0.5097587217522856, 1.296022631819094},
      {3, -40.25, -4.99317942021202e-72, -1.997271768084808e-71, -164.17805383034795, 4.0},
      {3, -800.5, -0.0, -0.0, -3205.178053830348, 4.0},
      {0, -1500.0, -0.0, -0.0, -1500.0, 1.0},
      {3, 7.3, -1460.189659753844, -1477.301955567152, -0.0, 0.0},
  };
  static const double nb[][7] = {
      {3, 1.43, 1.37, -0.5995045063550748, -0.6869979947127735, -0.7964734026934546, 0.836561693501885},
      {3, -40.25, 1.37, -6.777587829766794e-71, -2.7110351319067175e-70, -161.56992034124923, 4.0},
      {3, -800.5, 1.37, -0.0, -0.0, -3202.569920341249, 4.0},
      {3, 800.5, 1.37, -1094.4929030470284, -1.37, -0.0, 0.0},
      {3, 1500.0, 0.001, -1.505075102114127, -0.001, -0.2510295523489469, 0.00028534806882457515},
      {0, -1500.0, 25.5, -0.0, -0.0, -1500.0, 1.0},
  };
  static const double bin[][7] = {
      {3, 9, -0.77, -0.3694072448340627, -0.7460243545129349, -1.1748797686334391, 1.6694187155042197},
      {3, 9, -40.25, -1.5099374566721148e-68, -6.039749826688459e-68, -156.16371809304852, 4.0},
      {0, 1, -800.5, -0.0, -0.0, -800.5, 1.0},
      {3, 9, 800.5, -4798.569183201157, -6.0, -0.0, 0.0},
      {6, 9, 1500.25, -4496.319183201157, -3.0, -0.0, 0.0},
      {2, 9, -1500.25, -0.0, -0.0, -4496.319183201157, 3.0},
      {10, 30, 599.5, -11972.781792684998, -20.0, -0.0, 0.0},
      {10, 30, 600.5, -11992.781792684998, -20.0, -0.0, 0.0},
  };
  double g[2];
  for (int i = 0; i < ROWS(pois); i++) {
    const double *r = pois[i];
    CHECK_LOG(atvi_math_poisson_log_lcdf(r[0], r[1], g), r[2], TOL_VALUE);
    CHECK_ABS(g[0], r[3], 1e-12 * (1 + fabs(r[3])));
    CHECK_LOG(atvi_math_poisson_log_lccdf(r[0], r[1], g), r[4], TOL_VALUE);
    CHECK_ABS(g[0], r[5], 1e-12 * (1 + fabs(r[5])));
  }
  for (int i = 0; i < ROWS(nb); i++) {
    const double *r = nb[i], h = 1e-4;
    for (int up = 0; up < 2; up++) {
      double (*f)(double, double, double, double *) =
          up ? atvi_math_negbin_log_lccdf : atvi_math_negbin_log_lcdf;
      CHECK_LOG(f(r[0], r[1], r[2], g), r[3 + 2 * up], TOL_VALUE);
      CHECK_ABS(g[0], r[4 + 2 * up], 1e-12 * (1 + fabs(g[0])));
      double by_size = (f(r[0], r[1], r[2] * exp(h), NULL) - f(r[0], r[1], r[2] * exp(-h), NULL)) / (2 * h);
      CHECK_ABS(g[1] * r[2], by_size, 1e-6 * (fabs(by_size) + fabs(r[3 + 2 * up])) + 1e-9);
    }
  }
  for (int i = 0; i < ROWS(bin); i++) {
    const double *r = bin[i];
    CHECK_LOG(atvi_math_binomial_logit_lcdf(r[0], r[1], r[2], g), r[3], TOL_VALUE);
    CHECK_ABS(g[1], r[4], 1e-12 * (1 + fabs(r[4])));
    CHECK_LOG(atvi_math_binomial_logit_lccdf(r[0], r[1], r[2], g), r[5], TOL_VALUE);
    CHECK_ABS(g[1], r[6], 1e-12 * (1 + fabs(r[6])));
    CHECK(g[0] == 0);
  }
  for (int i = 0; i < ROWS(oracle_negbin); i++) { /* the same numbers by the mean */
    const double *r = oracle_negbin[i];
    CHECK_LOG(atvi_math_negbin_log_lcdf(r[0], log(r[1]), r[2], g), r[3], 1e-10);
    CHECK_ABS(g[0], r[4] * r[1], 1e-9 * (1 + fabs(g[0])));
  }
  CHECK(atvi_math_poisson_log_lccdf(0, -HUGE_VAL, g) == -HUGE_VAL && g[0] == 0);
  CHECK(atvi_math_poisson_log_lcdf(0, 1e4, g) == -HUGE_VAL && atvi_math_poisson_log_lccdf(0, 1e4, g) == 0);
  CHECK(atvi_math_negbin_log_lcdf(0, -HUGE_VAL, 1.3, g) == 0 &&
        isnan(atvi_math_negbin_log_lcdf(0, NAN, 1.3, g)));
  CHECK(atvi_math_binomial_logit_lccdf(3, 7, -HUGE_VAL, g) == -HUGE_VAL);
  CHECK(atvi_math_binomial_logit_lccdf(7, 7, 2, g) == -HUGE_VAL &&
        isnan(atvi_math_binomial_logit_lcdf(1, 7, NAN, g)));
  CHECK(atvi_math_negbin_log_lcdf(4, 2.1, HUGE_VAL, g) == atvi_math_poisson_log_lcdf(4, 2.1, NULL) &&
        g[1] == 0);
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

/* Cost must not grow with the counts: some microseconds each, here at most 100 on average, gradients and
 * sanitizer included. */
static void large_counts_are_fast(void) {
  double sum = 0, g[2];
  clock_t start = clock(); /* processor time: other work on the machine does not count */
  for (int i = 0; i < 1000; i++) sum += atvi_math_negbin_lcdf(1e6 + 7 * i, 1.001e6, 0.01 * exp2(i % 27), g);
  for (int i = 0; i < 1000; i++) sum += atvi_math_poisson_lccdf(1e6 + 7 * i, 1.001e6, g);
  for (int i = 0; i < 1000; i++) sum += atvi_math_binomial_lcdf(1e6 + 7 * i, 3e6, 0.333, g);
  CHECK(isfinite(sum));
  CHECK((double)(clock() - start) / CLOCKS_PER_SEC < 0.3);
}

TESTS({"links", by_log_mean_and_by_logit}, {"poisson", poisson}, {"negbin", negbin}, {"binomial", binomial},
      {"student", student}, {"normal", normal}, {"limits", limits_are_right}, {"fast", large_counts_are_fast})
