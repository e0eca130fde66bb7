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
  double *ll = malloc((DRAWS + atvi_math_loo_work(DRAWS)) * sizeof *ll), mean, var;
  CHECK(ll != NULL);
  posterior(-1, &mean, &var);
  for (int i = 0; i < N; i++) {
    for (int j = 0; j < DRAWS; j++) {
      atvi_rng r = atvi_math_rng_at(20240, ATVI_STREAM_TEST, 0, (uint32_t)j);
      ll[j] = log_normal(Y[i], mean + sqrt(var) * atvi_math_rng_normal(&r), S * S);
    }
    p[i] = atvi_math_loo_of(DRAWS, ll, ll + DRAWS);
  }
  free(ll);
  return p;
}

/* The log of the mean likelihood has the standard error sd(log likelihood) / sqrt(draws), to first order;
 * weights make it larger. */
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
  atvi_loo_sum s = atvi_math_loo_total(N, p, DRAWS);
  CHECK_ABS(s.elpd, all, 0.03);
  CHECK_ABS(s.p, lpd - all, 0.03);
  CHECK_INT(s.n, N);
  CHECK_INT(s.n_bad, 0);
  double square = 0;
  for (int i = 0; i < N; i++) square += (p[i].elpd_loo - s.elpd / N) * (p[i].elpd_loo - s.elpd / N);
  CHECK_REL(s.se, sqrt(N * square / (N - 1)), 1e-12);
}

/* The log likelihood is quadratic in mu: its variance under a normal posterior is (2 v^2 + 4 v (y - m)^2) /
 * (4 s^4). */
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
  atvi_loo_sum s = atvi_math_waic_total(N, p);
  CHECK_REL(s.elpd, sum, 1e-12);
  CHECK_INT(s.n_bad, 1); /* 3.12 has p_waic above 0.4 */
  CHECK_INT(s.worst, 9);
}

static void extremes(void) {
  double ll[400], work[400 * 5];
  CHECK(atvi_math_loo_work(400) <= 400 * 5);
  for (int i = 0; i < 400; i++) ll[i] = -2.385;
  atvi_loo_point p = atvi_math_loo_of(400, ll, work); /* an observation without influence */
  CHECK_REL(p.elpd_loo, -2.385, 1e-12);
  CHECK_REL(p.lpd, -2.385, 1e-12);
  CHECK(p.khat == 0 && p.p_waic < 1e-20);
  ll[7] = -HUGE_VAL;
  p = atvi_math_loo_of(400, ll, work);
  CHECK(p.elpd_loo == -HUGE_VAL && p.khat == HUGE_VAL && isfinite(p.lpd));
  atvi_loo_sum s = atvi_math_loo_total(1, &p, 400);
  CHECK(s.n_bad == 1 && s.worst == 0 && isnan(s.se) && s.elpd == -HUGE_VAL);
  ll[7] = NAN;
  p = atvi_math_loo_of(400, ll, work);
  CHECK(isnan(p.elpd_loo) && isnan(p.lpd) && isnan(p.khat));
  s = atvi_math_loo_total(0, NULL, 400);
  CHECK(s.n == 0 && s.elpd == 0 && s.worst == -1);
  ll[0] = -1.25;
  p = atvi_math_loo_of(1, ll, work);
  CHECK(p.lpd == -1.25 && p.elpd_loo == -1.25 && isnan(p.khat) && isnan(p.p_waic));
  CHECK_INT(atvi_math_loo_total(1, &p, 1).n_bad, 1); /* nothing is known */
  /* log likelihoods far below what exp can hold */
  for (int i = 0; i < 400; i++) ll[i] = -2000 - 0.01 * (i % 20);
  p = atvi_math_loo_of(400, ll, work);
  CHECK(p.elpd_loo < p.lpd && p.elpd_loo > -2000.2 && p.lpd < -2000);
}

/* One draw carries everything: told, not hidden. */
static void influential_observations_are_counted(void) {
  double *ll = malloc((2000 + atvi_math_loo_work(2000)) * sizeof *ll);
  CHECK(ll != NULL);
  for (int j = 0; j < 2000; j++) {
    atvi_rng r = atvi_math_rng_at(3, ATVI_STREAM_TEST, 1, (uint32_t)j);
    ll[j] = -1.5 * atvi_math_rng_exponential(&r); /* weights e^(1.5 x): a Pareto tail of shape 1.5 */
  }
  atvi_loo_point p = atvi_math_loo_of(2000, ll, ll + 2000);
  CHECK_MSG(p.khat > 1, "k-hat %g", p.khat);
  CHECK_INT(atvi_math_loo_total(1, &p, 2000).n_bad, 1);
  free(ll);
}

/* ---- several models ---- */

static void differences_are_paired(void) {
  const double x[4] = {-1.5, -2.25, -0.5, -4}, y[4] = {-1, -2.75, -1.5, -3.5};
  atvi_loo_difference d = atvi_math_loo_less(4, x, y); /* -0.5, 0.5, 1, -0.5: mean 0.125, squares 1.6875 */
  CHECK_ABS(d.sum, 0.5, 1e-14);
  CHECK_ABS(d.se, sqrt(4.0 / 3 * 1.6875), 1e-14);
  d = atvi_math_loo_less(1, x, y);
  CHECK(d.sum == -0.5 && isnan(d.se));
}

enum { OBSERVATIONS = 40, MODELS = 4 };

static void stack(atvi_idx n, atvi_idx K, const double *elpd, double *w) {
  double *work = malloc(atvi_math_stacking_work(n, K) * sizeof *work);
  CHECK(work != NULL);
  atvi_math_stacking(n, K, elpd, w, work);
  free(work);
}

static double rough(uint32_t i, uint32_t k) {
  atvi_rng r = atvi_math_rng_at(91, ATVI_STREAM_TEST, i, k);
  return -2.385 + 0.731 * atvi_math_rng_normal(&r);
}

static const double ALIKE = 1e-5; /* rounding over the last barrier: 40 * 1e-16 / 1e-10 */
static void models_that_predict_alike_share_their_weight(void) {
  double elpd[3][OBSERVATIONS], w[3];
  for (int i = 0; i < OBSERVATIONS; i++) elpd[0][i] = elpd[1][i] = elpd[2][i] = rough((uint32_t)i, 0);
  stack(OBSERVATIONS, 2, elpd[0], w);
  CHECK_ABS(w[0], 0.5, ALIKE);
  CHECK_ABS(w[1], 0.5, ALIKE);
  for (int i = 0; i < OBSERVATIONS; i++)
    elpd[2][i] -= 0.05; /* a little worse everywhere: nothing for it to do */
  stack(OBSERVATIONS, 3, elpd[0], w);
  CHECK_ABS(w[0], 0.5, ALIKE);
  CHECK_ABS(w[1], 0.5, ALIKE);
  CHECK(w[2] >= 0 && w[2] < ALIKE);
  stack(OBSERVATIONS, 1, elpd[0], w);
  CHECK(w[0] == 1);
}

/* Of n observations the first model predicts m better by log(1 / rho), the second the others: the best share
 * of the first is (m / n - (1 - m / n) rho) / (1 - rho), or 0 or 1 beyond them. */
static void a_mixture_has_its_weights(void) {
  static const struct {
    int m;
    double rho;
  } of[] = {{25, 0.1}, {25, 0.5}, {22, 0.995}, {31, 0}, {38, 0.9}, {2, 0.7}, {20, 0.9999}};
  for (size_t c = 0; c < sizeof of / sizeof *of; c++) {
    double elpd[2][OBSERVATIONS], w[2], share = (double)of[c].m / OBSERVATIONS,
                                        best = (share - (1 - share) * of[c].rho) / (1 - of[c].rho);
    best = fmin(1, fmax(0, best));
    for (int i = 0; i < OBSERVATIONS; i++) {
      double at = rough((uint32_t)i, 1);
      elpd[0][i] = at + (i < of[c].m ? 0 : log(of[c].rho));
      elpd[1][i] = at + (i < of[c].m ? log(of[c].rho) : 0);
    }
    stack(OBSERVATIONS, 2, elpd[0], w);
    CHECK_ABS(w[0], best, 1e-5); /* the barrier of 1e-10 over a curvature of 1e-5 where rho is 0.995 */
    CHECK_ABS(w[0] + w[1], 1, 1e-15);
  }
}

/* At the maximum, sum_i r_ik / p_i is n for models with weight and at most n for others. */
static void the_conditions_of_the_maximum_hold(void) {
  double elpd[MODELS][OBSERVATIONS], w[MODELS];
  for (uint32_t k = 0; k < MODELS; k++)
    for (uint32_t i = 0; i < OBSERVATIONS; i++) elpd[k][i] = rough(i, 2 + k) - 0.4 * k - 900;
  stack(OBSERVATIONS, MODELS, elpd[0], w);
  int used = 0;
  for (int k = 0; k < MODELS; k++) {
    double slope = 0;
    for (int i = 0; i < OBSERVATIONS; i++) {
      double p = 0;
      for (int l = 0; l < MODELS; l++) p += w[l] * exp(elpd[l][i] - elpd[k][i]);
      slope += 1 / p / OBSERVATIONS;
    }
    CHECK_MSG(slope < 1 + 1e-8, "model %d: slope %.17g", k, slope);
    if (w[k] > 1e-4) CHECK_ABS(slope, 1, 1e-5);
    used += w[k] > 1e-4;
  }
  CHECK_MSG(used > 1, "%d models are used", used);
}

static void impossible_observations_do_not_spoil_the_weights(void) {
  double elpd[2][OBSERVATIONS], w[2];
  for (int i = 0; i < OBSERVATIONS; i++) {
    elpd[0][i] = rough((uint32_t)i, 7);
    elpd[1][i] = elpd[0][i] + 3;
  }
  elpd[0][3] = elpd[1][3] = -HUGE_VAL; /* neither allows it */
  elpd[0][4] = NAN;
  stack(OBSERVATIONS, 2, elpd[0], w);
  CHECK_ABS(w[1], 1, 1e-6);
  elpd[1][5] =
      -HUGE_VAL; /* only the first allows this one: 1/38 of the weight, and what it loses elsewhere back */
  stack(OBSERVATIONS, 2, elpd[0], w);
  double rho = exp(-3), share = 1.0 / (OBSERVATIONS - 2);
  CHECK_ABS(w[0], share / (1 - rho), 1e-5);
  stack(1, 2, (double[]){NAN, -1}, w);
  CHECK(w[0] == 0.5 && w[1] == 0.5);
}

TESTS({"loo_is_that_of_the_conjugate_model", loo_is_that_of_the_conjugate_model},
      {"waic_is_that_of_the_conjugate_model", waic_is_that_of_the_conjugate_model}, {"extremes", extremes},
      {"influential_observations_are_counted", influential_observations_are_counted},
      {"differences_are_paired", differences_are_paired},
      {"models_that_predict_alike_share_their_weight", models_that_predict_alike_share_their_weight},
      {"a_mixture_has_its_weights", a_mixture_has_its_weights},
      {"the_conditions_of_the_maximum_hold", the_conditions_of_the_maximum_hold},
      {"impossible_observations_do_not_spoil_the_weights", impossible_observations_do_not_spoil_the_weights})
