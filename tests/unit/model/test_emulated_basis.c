/* SPDX-License-Identifier: MIT */
/* What the basis of an emulator drops is an error of a fixed size: a sill that is a parameter does not change
 * it. */
#include "unit/gp/emulator_ref.h"
#include "emulated_world.h"

#define BASIS                                                                                                \
  "emulator flow {\n inputs a, b\n designs \"designs.csv\" columns 2..3\n outputs \"outputs.csv\" columns "  \
  "2..10\n"                                                                                                  \
  " times \"times.csv\" column 2\n kernel matern32\n lengths 1.7, 0.61\n nugget 0.013\n time 5.3\n basis "   \
  "0.9\n}\n"
#define WITH(sill)                                                                                           \
  "data \"data.csv\" time t\nobserve y ~ emulator(flow" sill ") + exponential(v, l) + white(s2)\n"

enum { G = ATVI_EM_GROUP };
static const double THETA[D] = {3.31, 0.87, 0.61, 2.7, 0.083, 4.1};
static const bool USED[ROWS] = {true, true, true, true, false, true, true, true};

/* mean[ROWS] and share at theta, by plain loops. */
static void emulate(atvi_ctx *ctx, const atvi_model *m, const double *theta, double *mean, double *share) {
  const atvi_emulation *em = &m->emulated->emulator[0];
  static _Alignas(64) double x[2 * G], out[ROWS * G], shares[G];
  atvi_em_work *work;
  for (int i = 0; i < 2 * G; i++) x[i] = atvi_model_emulated_axis_x(&em->axis[i / G], theta[i / G]);
  CHECK_OK(atvi_gp_em_work_new(em->em, ctx, ROWS, m->emulated->process[0].em_row, &work));
  em_eval_ref(em->em, work, x, out, shares);
  atvi_gp_em_work_free(work);
  for (int r = 0; r < ROWS; r++) mean[r] = out[r * G];
  *share = shares[0];
}

static double dense(atvi_ctx *ctx, const atvi_model *m, const double *theta) {
  const atvi_gp_kind term[3] = {ATVI_GP_EXPONENTIAL, ATVI_GP_EXPONENTIAL, ATVI_GP_WHITE};
  const atvi_em_info *info = atvi_gp_emulator_info(m->emulated->emulator[0].em);
  double mean[ROWS], resid[ROWS], share;
  markov_dense d = {0};
  emulate(ctx, m, theta, mean, &share);
  CHECK(info->dropped > 0 && share > info->dropped);
  double variance = theta[5] * (share - info->dropped) + info->dropped * info->sill;
  const double par[6] = {variance, TIME_LENGTH, theta[2], theta[3], theta[4], 0};
  for (int r = 0; r < ROWS; r++) resid[r] = DATA[r] - mean[r];
  CHECK_OK(markov_ref(ctx, ROWS, DATA_TIME, USED, 3, term, par, resid, &d));
  return d.log_density;
}

static void dropped_is_a_variance(void) {
  atvi_ctx *ctx = test_ctx();
  write_world();
  atvi_model *m = load_with(ctx, PARAMETERS BASIS WITH(", sill"), (atvi_model_load_opts){0});
  atvi_model *plain = load_with(ctx, PARAMETERS BASIS WITH(""), (atvi_model_load_opts){0});
  const atvi_target *t = atvi_model_target(m);
  double found = atvi_gp_emulator_info(m->emulated->emulator[0].em)->sill;
  const double sill[4] = {1e-4, THETA[5], found, 100 * found};
  for (int k = 0; k < 4; k++) {
    double theta[D];
    memcpy(theta, THETA, sizeof theta);
    theta[5] = sill[k];
    CHECK_REL(test_eval(ctx, t, theta).ll, dense(ctx, m, theta), 1e-10);
    CHECK(test_gradient(ctx, t, theta, 1e-5) < 1e-6);
    /* the sill that was found is what an emulator without one has */
    if (k == 2) CHECK(test_eval(ctx, t, theta).ll == test_eval(ctx, atvi_model_target(plain), theta).ll);
  }
  atvi_model_free(plain);
  atvi_model_free(m);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

/* What is dropped does not make a variance of a sill that is none. */
static void a_sill_below_0_is_none(void) {
  atvi_ctx *ctx = test_ctx();
  write_world();
  atvi_model *m = load_with(ctx, PARAMETERS BASIS WITH(", sill - 4.11"), (atvi_model_load_opts){0});
  const atvi_target *t = atvi_model_target(m);
  CHECK_INT(test_eval(ctx, t, THETA).outcome, ATVI_RUN_NONFINITE);
  double theta[D];
  memcpy(theta, THETA, sizeof theta);
  theta[5] = 4.12;
  CHECK_INT(test_eval(ctx, t, theta).outcome, ATVI_RUN_OK);
  atvi_model_free(m);
  atvi_ctx_free(ctx);
}

TESTS({"dropped", dropped_is_a_variance}, {"below", a_sill_below_0_is_none})
