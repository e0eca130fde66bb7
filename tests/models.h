/* SPDX-License-Identifier: MIT */
/* Models for tests, written to a temporary folder, and small helpers on targets. */
#ifndef ATVI_TEST_MODELS_H
#define ATVI_TEST_MODELS_H

#include "model/model.h"
#include "testing.h"
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static TEST_UNUSED char test_dir[64];

static void test_remove_dir_(void) {
  char command[128];
  snprintf(command, sizeof command, "rm -rf '%s'", test_dir);
  if (test_dir[0] && system(command) != 0) fprintf(stderr, "%s is left over\n", test_dir);
}

/* Writes a file into the test's folder and returns its path (valid until the 8th call after). */
static TEST_UNUSED const char *test_file(const char *name, const char *text) {
  static char path[8][160];
  static int next;
  if (!test_dir[0]) {
    strcpy(test_dir, "/tmp/atvi-test-XXXXXX");
    CHECK(mkdtemp(test_dir) != NULL);
    CHECK(atexit(test_remove_dir_) == 0);
  }
  char *p = path[next++ % 8];
  snprintf(p, sizeof path[0], "%s/%s", test_dir, name);
  FILE *f = fopen(p, "w");
  CHECK(f != NULL);
  CHECK(fputs(text, f) >= 0);
  CHECK(fclose(f) == 0);
  return p;
}

static TEST_UNUSED atvi_model *test_load(atvi_ctx *ctx, const char *path, bool interpret) {
  atvi_model *m;
  atvi_status status =
      atvi_model_load_with(ctx, path, &(atvi_model_load_opts){.interpret = interpret, .tangents = true}, &m);
  CHECK_MSG(status == ATVI_OK, "%s", atvi_errmsg(ctx));
  return m;
}

typedef struct {
  double lp, ll, gp[32], gl[32];
  atvi_outcome outcome;
} test_value;

/* Everything at one point. */
static TEST_UNUSED test_value test_eval(atvi_ctx *ctx, const atvi_target *t, const double *theta) {
  test_value v;
  void *work;
  CHECK(t->d <= 32);
  CHECK_OK(t->ops->work_new(t->self, ctx, &work));
  t->ops->eval(t->self, work,
               &(atvi_batch){.B = 1,
                             .theta = theta,
                             .log_prior = &v.lp,
                             .log_lik = &v.ll,
                             .grad_prior = v.gp,
                             .grad_lik = v.gl,
                             .outcome = &v.outcome});
  t->ops->work_free(work);
  return v;
}

/* Derivatives of the log posterior by central differences, with the solver's error made negligible. */
static TEST_UNUSED void test_differences(const atvi_target *t, void *work, const double *theta,
                                         double rel_step, double *out) {
  for (atvi_idx i = 0; i < t->d; i++) {
    double x[64], lp[2], ll[2], h = rel_step * fmax(fabs(theta[i]), 1e-3);
    for (atvi_idx j = 0; j < t->d; j++) x[2 * j] = x[2 * j + 1] = theta[j];
    x[2 * i] -= h;
    x[2 * i + 1] += h;
    (t->ops->eval_exact ? t->ops->eval_exact : t->ops->eval)(
        t->self, work, &(atvi_batch){.B = 2, .theta = x, .log_prior = lp, .log_lik = ll});
    out[i] = (lp[1] + ll[1] - lp[0] - ll[0]) / (x[2 * i + 1] - x[2 * i]);
  }
}

/* Largest difference between the gradient of the log posterior and its tangents, relative to max(|g_i|, 1e-3
 * max |g|). Without tangents, to central differences. */
static TEST_UNUSED double test_gradient(atvi_ctx *ctx, const atvi_target *t, const double *theta,
                                        double rel_step) {
  test_value v = test_eval(ctx, t, theta);
  CHECK_INT(v.outcome, ATVI_RUN_OK);
  void *work;
  CHECK_OK(t->ops->work_new(t->self, ctx, &work));
  double most = 0, worst = 0, slope[32], rough = 0;
  for (atvi_idx i = 0; i < t->d; i++) most = fmax(most, fabs(v.gp[i] + v.gl[i]));
  test_differences(t, work, theta, rel_step, slope);
  for (atvi_idx i = 0; i < t->d; i++) {
    double v1[32] = {0}, dp, dl, g = v.gp[i] + v.gl[i];
    double off = fabs(slope[i] - g) / fmax(fabs(g), 1e-3 * most);
    if (!(off <= rough)) rough = isnan(off) ? HUGE_VAL : off;
    v1[i] = 1;
    if (t->ops->tangent) t->ops->tangent(t->self, work, 1, theta, v1, &dp, &dl);
    double err = t->ops->tangent ? fabs(dp + dl - g) / fmax(fabs(g), 1e-3 * most) : off;
    if (!(err <= worst)) worst = isnan(err) ? HUGE_VAL : err; /* fmax would hide a NaN */
  }
  t->ops->work_free(work);
  /* That both are derivatives of this density at all: steps at the model's own tolerance have some error of
   * their own. */
  CHECK_MSG(rough < 0.2, "differences of fine solutions are off by %g", rough);
  return worst;
}

#endif
