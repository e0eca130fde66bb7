/* SPDX-License-Identifier: MIT */
/* Cost of the calibration of an emulated simulator: one evaluation and one gradient of the hydrograph's
 * posterior (400 runs, 480 hours, five inputs), per point in a batch of 64, one core, at points of the
 * posterior. Run in the project's folder; skipped where the ensemble is missing. The Kalman filter against
 * its dense reference is in bench_markov, the emulator alone in bench_emulator. Times are minima of several
 * trials.
 *
 *   figure hydrology evaluation|gradient <microseconds per point> */
#include "core/core.h"
#include "math/rng.h"
#include "model/evaluator.h"
#include "model/model.h"
#include <math.h>
#include <stdio.h>
#include <unistd.h>

enum { D = 9, POINTS = 64, EACH = 20, TRIALS = 40 };
static const char MODEL[] = "examples/hydrology/hydrology.atvi",
                  RUNS[] = "../shared/data/hydrology/mat_Y_em.csv";
/* The last four on the log scale. */
static const double MEAN[D] = {.557, .868, .367, .9024, .94, 5.493, 8.787, 2.360, 17.442};
static const double SD[D] = {.15, .04, .02, .01, .03, .5, .5, .5, .06};

static double theta[D * POINTS], log_prior[POINTS], log_lik[POINTS], prior_bar[D * POINTS],
    lik_bar[D * POINTS];
static atvi_outcome outcome[POINTS];

static double cost_us(atvi_evaluator *ev, const atvi_batch *b) {
  double best = HUGE_VAL;
  for (int t = 0; t < TRIALS; t++) {
    double from = atvi_clock_s();
    for (int k = 0; k < EACH; k++) atvi_model_evaluator_run(ev, b);
    best = fmin(best, atvi_clock_s() - from);
  }
  return 1e6 * best / (EACH * POINTS);
}

static bool all_finite(void) {
  for (int j = 0; j < POINTS; j++)
    if (!isfinite(log_lik[j])) return false;
  for (int j = 0; j < D * POINTS; j++)
    if (!isfinite(lik_bar[j])) return false;
  return true;
}

static void set_points(void) {
  for (int j = 0; j < POINTS; j++) {
    atvi_rng rng = atvi_math_rng_at(1, ATVI_STREAM_TEST, 0, (uint32_t)j);
    for (int i = 0; i < D; i++) {
      double x = MEAN[i] + SD[i] * atvi_math_rng_normal(&rng);
      theta[i * POINTS + j] = i < 5 ? fmin(fmax(x, 0.01), 0.99) : exp(x);
    }
  }
}

int main(void) {
  atvi_ctx *ctx;
  atvi_model *m;
  atvi_evaluator *ev;
  if (access(RUNS, R_OK) != 0) {
    printf("SKIP: no %s\n", RUNS);
    return 0;
  }
  if (atvi_ctx_new(NULL, &ctx) != ATVI_OK) return 1;
  atvi_ctx_set_threads(ctx, 1);
  if (atvi_model_load(ctx, MODEL, NULL, &m) != ATVI_OK ||
      atvi_model_evaluator_new(ctx, atvi_model_target(m), &ev) != ATVI_OK) {
    fprintf(stderr, "%s\n", atvi_errmsg(ctx));
    return 1;
  }
  set_points();
  atvi_batch value = {
      .B = POINTS, .theta = theta, .log_prior = log_prior, .log_lik = log_lik, .outcome = outcome};
  atvi_batch gradient = {.B = POINTS,
                         .theta = theta,
                         .log_prior = log_prior,
                         .log_lik = log_lik,
                         .grad_prior = prior_bar,
                         .grad_lik = lik_bar,
                         .outcome = outcome};
  atvi_model_evaluator_run(ev, &gradient);
  if (!all_finite()) {
    fprintf(stderr, "a point of the posterior cannot be evaluated\n");
    return 1;
  }
  printf("figure hydrology evaluation %.2f\n", cost_us(ev, &value));
  printf("figure hydrology gradient %.2f\n", cost_us(ev, &gradient));
  atvi_model_evaluator_free(ev);
  atvi_model_free(m);
  atvi_ctx_free(ctx);
  return 0;
}
