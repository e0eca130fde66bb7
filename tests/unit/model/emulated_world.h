/* SPDX-License-Identifier: MIT */
/* A small ensemble of runs, a model that emulates it, and the same model by dense matrices. */
#ifndef ATVI_TEST_EMULATED_WORLD_H
#define ATVI_TEST_EMULATED_WORLD_H

#include "core/core.h"
#include "io/file.h"
#include "math/linalg.h"
#include "math/rng.h"
#include "model/evaluator.h"
#include "model/model.h"
#include "models.h"
#include "unit/gp/markov_ref.h"

enum { RUNS = 14, TIMES = 9, D = 6 };
static const double TIME[TIMES] = {0.5, 1, 1.5, 2, 3, 4, 4.5, 6, 7};
static const double LENGTH[2] = {1.7, 0.61}, NUGGET = 0.013, TIME_LENGTH = 5.3;

/* Designs in natural units: a in [2, 5] by its prior, b normal, in what the designs cover. */
static double DESIGN[RUNS][2], OUTPUT[RUNS][TIMES];

static TEST_UNUSED void make_runs(void) {
  atvi_rng r = atvi_math_rng_at(4, ATVI_STREAM_TEST, 0, 0);
  for (int i = 0; i < RUNS; i++) {
    DESIGN[i][0] = 2 + 3 * ((i + 0.5) / RUNS);
    DESIGN[i][1] = -1 + 4 * ((double)((i * 5) % RUNS) + atvi_math_rng_uniform(&r)) / RUNS;
    for (int t = 0; t < TIMES; t++)
      OUTPUT[i][t] =
          DESIGN[i][0] * sin(TIME[t]) + exp(0.3 * DESIGN[i][1]) * TIME[t] + 0.1 * atvi_math_rng_normal(&r);
  }
}

/* CSV with a label in the first column. */
static TEST_UNUSED const char *write_matrix(const char *name, const double *v, int rows, int cols) {
  static char text[20000];
  size_t n = (size_t)snprintf(text, sizeof text, "run");
  for (int j = 0; j < cols; j++) n += (size_t)snprintf(text + n, sizeof text - n, ",c%d", j + 1);
  for (int i = 0; i < rows; i++) {
    n += (size_t)snprintf(text + n, sizeof text - n, "\n%d", i + 1);
    for (int j = 0; j < cols; j++)
      n += (size_t)snprintf(text + n, sizeof text - n, ",%.17g", v[i * cols + j]);
  }
  snprintf(text + n, sizeof text - n, "\n");
  return test_file(name, text);
}

#define PARAMETERS                                                                                           \
  "param a ~ uniform(2, 5)\nparam b ~ normal(1, 1)\nparam v ~ exponential(1)\nparam l ~ gamma(2, 1/3)\n"     \
  "param s2 ~ exponential(2)\nparam sill ~ exponential(0.1)\n"
#define EMULATOR                                                                                             \
  "emulator flow {\n inputs a, b\n designs \"designs.csv\" columns 2..3\n outputs \"outputs.csv\" columns "  \
  "2..10\n"                                                                                                  \
  " times \"times.csv\" column 2\n kernel matern32\n lengths 1.7, 0.61\n nugget 0.013\n time 5.3\n}\n"
#define OBSERVED                                                                                             \
  "data \"data.csv\" time t\nobserve y ~ emulator(flow, sill) + exponential(v, l) + white(s2)\n"

/* Times in another order than the runs', one twice, one missing. */
enum { ROWS = 8 };
static const double DATA_TIME[ROWS] = {0.5, 1, 1.5, 1.5, 3, 4, 6, 7};
static const double DATA[ROWS] = {2.385, 4.19, 5.07, 4.731, NAN, 1.93, 8.2, 12.31};

static TEST_UNUSED void write_world(void) {
  static char text[1000];
  size_t n = (size_t)snprintf(text, sizeof text, "t,y\n");
  make_runs();
  write_matrix("designs.csv", DESIGN[0], RUNS, 2);
  write_matrix("outputs.csv", OUTPUT[0], RUNS, TIMES);
  write_matrix("times.csv", TIME, TIMES, 1);
  for (int i = 0; i < ROWS; i++) {
    n += (size_t)snprintf(text + n, sizeof text - n, isnan(DATA[i]) ? "%g,\n" : "%g,%.17g\n", DATA_TIME[i],
                          DATA[i]);
  }
  test_file("data.csv", text);
}

static TEST_UNUSED atvi_model *load_with(atvi_ctx *ctx, const char *text, atvi_model_load_opts opts) {
  atvi_model *m;
  const char *path = test_file("world.atvi", text);
  opts.interpret = true;
  if (!opts.runs) opts.runs = test_dir;
  atvi_status status = atvi_model_load_with(ctx, path, &opts, &m);
  CHECK_MSG(status == ATVI_OK, "%s", atvi_errmsg(ctx));
  return m;
}

/* ---- dense ---- */

static TEST_UNUSED double kernel32(const double *x, const double *y) {
  double k = 1;
  for (int j = 0; j < 2; j++) {
    double a = sqrt(3) * fabs(x[j] - y[j]) / LENGTH[j];
    k *= (1 + a) * exp(-a);
  }
  return k;
}

static TEST_UNUSED void unit(const double *from, double *to) {
  double low = HUGE_VAL, high = -HUGE_VAL;
  for (int i = 0; i < RUNS; i++) low = fmin(low, DESIGN[i][1]), high = fmax(high, DESIGN[i][1]);
  to[0] = (from[0] - 2) / 3;
  to[1] = (from[1] - low) / (high - low);
}

/* mean[ROWS] at the data's times and the share, for theta. */
static TEST_UNUSED void dense_emulator(const double *theta, double *mean, double *share) {
  double K[RUNS * RUNS], x[RUNS][2], at[2], k[RUNS], z[RUNS];
  unit(theta, at);
  for (int i = 0; i < RUNS; i++) unit(DESIGN[i], x[i]);
  for (int i = 0; i < RUNS; i++) {
    z[i] = k[i] = kernel32(x[i], at);
    for (int j = 0; j < RUNS; j++) K[i * RUNS + j] = kernel32(x[i], x[j]) + (i == j ? NUGGET : 0);
  }
  CHECK(atvi_math_cholesky(RUNS, K));
  for (int i = 0; i < RUNS; i++) {
    for (int j = 0; j < i; j++) z[i] -= K[i * RUNS + j] * z[j];
    z[i] /= K[i * RUNS + i];
  }
  for (int i = RUNS - 1; i >= 0; i--) {
    for (int j = i + 1; j < RUNS; j++) z[i] -= K[j * RUNS + i] * z[j];
    z[i] /= K[i * RUNS + i];
  }
  *share = 1 + NUGGET;
  for (int i = 0; i < RUNS; i++) *share -= k[i] * z[i];
  for (int r = 0; r < ROWS; r++) {
    int t = 0;
    double centre = 0;
    while (TIME[t] != DATA_TIME[r]) t++;
    for (int i = 0; i < RUNS; i++) centre += OUTPUT[i][t] / RUNS;
    mean[r] = centre;
    for (int i = 0; i < RUNS; i++) mean[r] += z[i] * (OUTPUT[i][t] - centre);
  }
}

/* Everything about the observed series at theta = a, b, v, l, s2, sill, with the rows that are used. */
static TEST_UNUSED double dense_world(atvi_ctx *ctx, const double *theta, const bool *used, double *em_mean,
                                      markov_dense *out) {
  const atvi_gp_kind term[3] = {ATVI_GP_EXPONENTIAL, ATVI_GP_EXPONENTIAL, ATVI_GP_WHITE};
  double share, resid[ROWS];
  dense_emulator(theta, em_mean, &share);
  const double par[6] = {theta[5] * share, TIME_LENGTH, theta[2], theta[3], theta[4], 0};
  for (int r = 0; r < ROWS; r++) resid[r] = DATA[r] - em_mean[r];
  CHECK_OK(markov_ref(ctx, ROWS, DATA_TIME, used, 3, term, par, resid, out));
  return out->log_density;
}

#endif
