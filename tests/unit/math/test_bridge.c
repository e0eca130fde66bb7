/* SPDX-License-Identifier: MIT */
#include "math/rng.h"
#include "math/stat/stat.h"
#include "testing.h"

enum { M = 8, N = 500, Q = 4000 };
static const double LOG_Z = 312.75; /* far from 0: nothing may overflow */

/* pi = Z N(0, 1); q = N(shift, scale). */
static double log_ratio(double x, double shift, double scale) {
  double z = (x - shift) / scale;
  return LOG_Z - 0.5 * x * x + 0.5 * z * z + log(scale);
}

typedef struct {
  double log_q[Q], log_p[M * N];
} samples;

/* Chains are autoregressive with coefficient rho and start in their stationary law. */
static void fill(samples *s, uint32_t number, double shift, double scale, double rho) {
  atvi_rng r = atvi_math_rng_at(number, ATVI_STREAM_TEST, 0, 0);
  for (int i = 0; i < Q; i++) s->log_q[i] = log_ratio(shift + scale * atvi_math_rng_normal(&r), shift, scale);
  for (int k = 0; k < M; k++) {
    double x = atvi_math_rng_normal(&r);
    for (int i = 0; i < N; i++) {
      x = rho * x + sqrt(1 - rho * rho) * atvi_math_rng_normal(&r);
      s->log_p[k * N + i] = log_ratio(x, shift, scale);
    }
  }
}

static atvi_bridge_info bridge(const samples *s) {
  atvi_bridge_draws b = {Q, s->log_q, M, N, s->log_p};
  double *work = malloc(atvi_math_bridge_work(&b) * sizeof *work);
  atvi_bridge_info info = atvi_math_bridge(&b, work);
  free(work);
  return info;
}

/* Over many samples errors have mean 0 and the sd that is claimed: mean square of error / se within 4 of its
 * own standard errors, sqrt(2 / n), and a little for the estimate of se. */
static void check_errors(double shift, double scale, double rho) {
  enum { TIMES = 200 };
  samples *s = malloc(sizeof *s);
  double sum = 0, sq = 0;
  for (uint32_t k = 1; k <= TIMES; k++) {
    fill(s, k, shift, scale, rho);
    atvi_bridge_info info = bridge(s);
    CHECK(info.se > 0 && info.se < 0.2 && info.iterations > 0 && info.iterations < 200);
    double e = (info.log_evidence - LOG_Z) / info.se;
    sum += e / TIMES;
    sq += e * e / TIMES;
  }
  CHECK_ABS(sum, 0, 4 / sqrt((double)TIMES));
  CHECK_ABS(sq, 1, 4 * sqrt(2.0 / TIMES) + 0.1);
  free(s);
}

static void good_approximation(void) { check_errors(0.137, 1.183, 0); }
static void autocorrelated_chains(void) { check_errors(0.731, 0.862, 0.85); }
/* k-hat of these weights is 1 - scale^2 = 0.84: importance sampling has no variance, the bridge has. */
static void narrow_approximation(void) { check_errors(0, 0.4, 0.5); }

static void same_density(void) {
  samples *s = malloc(sizeof *s);
  fill(s, 1, 0, 1, 0.3);
  for (int i = 0; i < Q; i++) s->log_q[i] = LOG_Z;
  for (int i = 0; i < M * N; i++) s->log_p[i] = LOG_Z;
  atvi_bridge_info info = bridge(s);
  CHECK_ABS(info.log_evidence, LOG_Z, 1e-9);
  CHECK(info.se < 1e-12);
  free(s);
}

/* Half of q's draws where pi is zero: the evidence halves. */
static void failed_draws_count(void) {
  samples *s = malloc(sizeof *s);
  fill(s, 3, 0.2, 1.1, 0.3);
  double all = bridge(s).log_evidence;
  for (int i = 0; i < Q; i += 2) s->log_q[i] = -HUGE_VAL;
  for (int i = 0; i < M * N; i++) s->log_p[i] += log(0.5); /* q given a coin, pi on one side */
  for (int i = 1; i < Q; i += 2) s->log_q[i] += 0;
  double half = bridge(s).log_evidence;
  CHECK(half < all && isfinite(half));
  for (int i = 0; i < Q; i++) s->log_q[i] = -HUGE_VAL;
  CHECK(isnan(bridge(s).log_evidence) && isnan(bridge(s).se));
  free(s);
}

TESTS({"good", good_approximation}, {"autocorrelated", autocorrelated_chains},
      {"narrow", narrow_approximation}, {"same", same_density}, {"failed", failed_draws_count})
