/* SPDX-License-Identifier: MIT */
/* The posterior of the common cold by quadrature over our log density, against figures that were computed
 * independently (on a grid, with another solver): evidence, means, standard deviations, correlations. */
#include "core/core.h"
#include "model/evaluator.h"
#include "models.h"

enum { NB = 40, NG = 40, NS = 48, B = NB * NG * NS };

static void posterior_by_quadrature(void) {
  static double theta[3 * B], lp[B], ll[B];
  static atvi_outcome outcome[B];
  const double lo[3] = {0.70, 0.18, 37}, hi[3] = {1.10, 0.44, 58};
  const int n[3] = {NB, NG, NS};
  atvi_ctx *ctx = test_ctx();
  atvi_model *m = test_load(ctx, TEST_SOURCE_DIR "/examples/cold/cold.atvi", false);
  atvi_evaluator *ev;
  CHECK_OK(atvi_model_evaluator_new(ctx, atvi_model_target(m), &ev));
  CHECK_INT(atvi_model_target(m)->d, 3);
  double cell = 1;
  for (int k = 0; k < 3; k++) cell *= (hi[k] - lo[k]) / n[k];
  for (int j = 0; j < B; j++) {
    const int at[3] = {j % NB, j / NB % NG, j / NB / NG};
    for (int k = 0; k < 3; k++) theta[k * B + j] = lo[k] + (at[k] + 0.5) * (hi[k] - lo[k]) / n[k];
  }
  atvi_model_evaluator_run(
      ev, &(atvi_batch){.B = B, .theta = theta, .log_prior = lp, .log_lik = ll, .outcome = outcome});
  double most = -HUGE_VAL, z = 0, mean[3] = {0}, cov[3][3] = {{0}};
  for (int j = 0; j < B; j++) most = fmax(most, lp[j] + ll[j]);
  for (int j = 0; j < B; j++) {
    double w = exp(lp[j] + ll[j] - most);
    z += w;
    for (int k = 0; k < 3; k++) mean[k] += w * theta[k * B + j];
  }
  for (int k = 0; k < 3; k++) mean[k] /= z;
  for (int j = 0; j < B; j++)
    for (int a = 0; a < 3; a++)
      for (int b = 0; b < 3; b++)
        cov[a][b] +=
            exp(lp[j] + ll[j] - most) / z * (theta[a * B + j] - mean[a]) * (theta[b * B + j] - mean[b]);
  CHECK_ABS(most + log(z * cell), -97.900, 0.003);
  const double want[3] = {0.8871, 0.2902, 39.775}, sd[3] = {0.0348, 0.0255, 2.010};
  for (int k = 0; k < 3; k++) {
    CHECK_ABS(mean[k], want[k], 0.005 * sd[k]);
    CHECK_REL(sqrt(cov[k][k]), sd[k], 0.005);
  }
  /* known as "about" 0.53 and -0.32 */
  CHECK_ABS(cov[1][2] / sqrt(cov[1][1] * cov[2][2]), 0.53, 0.01);
  CHECK_ABS(cov[0][2] / sqrt(cov[0][0] * cov[2][2]), -0.32, 0.015);
  atvi_model_evaluator_free(ev);
  atvi_model_free(m);
  atvi_ctx_free(ctx);
}

TESTS({"quadrature", posterior_by_quadrature})
