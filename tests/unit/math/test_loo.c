/* SPDX-License-Identifier: MIT */
#include "math/rng.h"
#include "math/stat/stat.h"
#include "testing.h"

/* y_i ~ normal(mu, S), mu ~ normal(M0, T0): everything in closed form. */
enum { N = 12, DRAWS = 40000 };
static const double S = 0.731, M0 = 0.4, T0 = 2.385;
static const double Y[N] = {1.21,  0.483, 2.05, 1.77, -0.31, 1.04,
                            0.915, 1.36,  0.68, 3.12, 1.19,  0.27}; /* the last but two is far off */

static double log_normal(double y, double mean, double var) {
  return -0.5 * (y - mean) * (y - mean) / var - 0.5 * log(6.283185307179586477 * var);
}

/* Posterior of mu without observation `out` (-1: with all). */
static void posterior(int out, double *mean, double *var) {
  double precision = 1 / (T0 * T0), sum = M0 / (T0 * T0);
  for (int i = 0; i < N; i++)
    if (i != out) precision += 1 / (S * S), sum += Y[i] / (S * S);
  *mean = sum / precision;
  *var = 1 / precision;
}

static atvi_loo_point *points(void) {
  static atvi_loo_point p[N];
  double *ll = malloc((DRAWS + atvi_loo_work(DRAWS)) * sizeof *ll), mean, var;
  CHECK(ll != NULL);
  posterior(-1, &mean, &var);
  for (int i = 0; i < N; i++) {
    for (int j = 0; j < DRAWS; j++) {
      atvi_rng r = atvi_rng_at(20240, ATVI_STREAM_TEST, 0, (uint32_t)j);
      ll[j] = log_normal(Y[i], mean + sqrt(var) * atvi_rng_normal(&r), S * S);
    }
    p[i] = atvi_loo_of(DRAWS, ll, ll + DRAWS);
  }
  free(ll);
  return p;
}

/* The log of the mean likelihood has the standard error sd(log likelihood) / sqrt(draws), to first order; weights make it larger. */
static void loo_is_that_of_the_conjugate_model(void) {
  const atvi_loo_point *p = points();
  double all = 0, lpd = 0, mean, var;
  for (int i = 0; i < N; i++) {
    posterior(i, &mean, &var);
    double exact = log_normal(Y[i], mean, var + S * S), error = sqrt(p[i].p_waic / DRAWS);
    CHECK_ABS(p[i].elpd_loo, exact, 7 * error);
    CHECK_MSG(p[i].khat < 0.7, "k-hat of %d is %g", i, p[i].khat);
    all += exact;
    posterior(-1, &mean, &var);
    CHECK_ABS(p[i].lpd, log_normal(Y[i], mean, var + S * S), 4 * error);
    lpd += log_normal(Y[i], mean, var + S * S);
  }
  atvi_loo_sum s = atvi_loo_total(N, p, DRAWS);
  CHECK_ABS(s.elpd, all, 0.03);
  CHECK_ABS(s.p, lpd - all, 0.03);
  CHECK_INT(s.n, N);
  CHECK_INT(s.n_bad, 0);
  double square = 0;
  for (int i = 0; i < N; i++) square += (p[i].elpd_loo - s.elpd / N) * (p[i].elpd_loo - s.elpd / N);
  CHECK_REL(s.se, sqrt(N * square / (N - 1)), 1e-12);
}

/* The log likelihood is quadratic in mu: its variance under a normal posterior is (2 v^2 + 4 v (y - m)^2) / (4 s^4). */
static void waic_is_that_of_the_conjugate_model(void) {
  const atvi_loo_point *p = points();
  double mean, var, sum = 0;
  posterior(-1, &mean, &var);
  for (int i = 0; i < N; i++) {
    double r = Y[i] - mean, exact = (2 * var * var + 4 * var * r * r) / (4 * S * S * S * S);
    CHECK_REL(p[i].p_waic, exact,
              0.06); /* a variance of 40 000 draws: 4 standard errors of 1 % and a long tail */
    CHECK_REL(p[i].elpd_waic, p[i].lpd - p[i].p_waic, 1e-12);
    sum += p[i].elpd_waic;
  }
  atvi_loo_sum s = atvi_waic_total(N, p);
  CHECK_REL(s.elpd, sum, 1e-12);
  CHECK_INT(s.n_bad, 1); /* 3.12 has p_waic above 0.4 */
  CHECK_INT(s.worst, 9);
}

static void extremes(void) {
  double ll[400], work[400 * 5];
  CHECK(atvi_loo_work(400) <= 400 * 5);
  for (int i = 0; i < 400; i++) ll[i] = -2.385;
  atvi_loo_point p = atvi_loo_of(400, ll, work); /* an observation without influence */
  CHECK_REL(p.elpd_loo, -2.385, 1e-12);
  CHECK_REL(p.lpd, -2.385, 1e-12);
  CHECK(p.khat == 0 && p.p_waic < 1e-20);
  ll[7] = -HUGE_VAL;
  p = atvi_loo_of(400, ll, work);
  CHECK(p.elpd_loo == -HUGE_VAL && p.khat == HUGE_VAL && isfinite(p.lpd));
  atvi_loo_sum s = atvi_loo_total(1, &p, 400);
  CHECK(s.n_bad == 1 && s.worst == 0 && isnan(s.se) && s.elpd == -HUGE_VAL);
  ll[7] = NAN;
  p = atvi_loo_of(400, ll, work);
  CHECK(isnan(p.elpd_loo) && isnan(p.lpd) && isnan(p.khat));
  s = atvi_loo_total(0, NULL, 400);
  CHECK(s.n == 0 && s.elpd == 0 && s.worst == -1);
  ll[0] = -1.25;
  p = atvi_loo_of(1, ll, work);
  CHECK(p.lpd == -1.25 && p.elpd_loo == -1.25 && isnan(p.khat) && isnan(p.p_waic));
  CHECK_INT(atvi_loo_total(1, &p, 1).n_bad, 1); /* nothing is known */
  /* log likelihoods far below what exp can hold */
  for (int i = 0; i < 400; i++) ll[i] = -2000 - 0.01 * (i % 20);
  p = atvi_loo_of(400, ll, work);
  CHECK(p.elpd_loo < p.lpd && p.elpd_loo > -2000.2 && p.lpd < -2000);
}

/* One draw carries everything: told, not hidden. */
static void influential_observations_are_counted(void) {
  double *ll = malloc((2000 + atvi_loo_work(2000)) * sizeof *ll);
  CHECK(ll != NULL);
  for (int j = 0; j < 2000; j++) {
    atvi_rng r = atvi_rng_at(3, ATVI_STREAM_TEST, 1, (uint32_t)j);
    ll[j] = -1.5 * atvi_rng_exponential(&r); /* weights e^(1.5 x): a Pareto tail of shape 1.5 */
  }
  atvi_loo_point p = atvi_loo_of(2000, ll, ll + 2000);
  CHECK_MSG(p.khat > 1, "k-hat %g", p.khat);
  CHECK_INT(atvi_loo_total(1, &p, 2000).n_bad, 1);
  free(ll);
}

TESTS({"loo_is_that_of_the_conjugate_model", loo_is_that_of_the_conjugate_model},
      {"waic_is_that_of_the_conjugate_model", waic_is_that_of_the_conjugate_model}, {"extremes", extremes},
      {"influential_observations_are_counted", influential_observations_are_counted})
