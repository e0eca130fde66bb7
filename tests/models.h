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
  atvi_status status = atvi_model_load_with(ctx, path, &(atvi_model_load_opts){.interpret = interpret}, &m);
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

/* Largest difference between the gradient of the log posterior and central differences with everything adaptive frozen,
 * relative to max(|g_i|, 1e-3 max |g|). */
static TEST_UNUSED double test_gradient(atvi_ctx *ctx, const atvi_target *t, const double *theta,
                                        double rel_step) {
  test_value v = test_eval(ctx, t, theta);
  CHECK_INT(v.outcome, ATVI_RUN_OK);
  void *work;
  CHECK_OK(t->ops->work_new(t->self, ctx, &work));
  double most = 0, worst = 0;
  for (atvi_idx i = 0; i < t->d; i++) most = fmax(most, fabs(v.gp[i] + v.gl[i]));
  for (atvi_idx i = 0; i < t->d; i++) {
    double x[64], lp[2], ll[2], h = rel_step * fmax(fabs(theta[i]), 1e-3);
    atvi_outcome outcome[2];
    for (atvi_idx j = 0; j < t->d; j++) x[2 * j] = x[2 * j + 1] = theta[j];
    x[2 * i] -= h;
    x[2 * i + 1] += h;
    t->ops->eval_frozen(
        t->self, work, theta,
        &(atvi_batch){.B = 2, .theta = x, .log_prior = lp, .log_lik = ll, .outcome = outcome});
    CHECK_INT(outcome[0], ATVI_RUN_OK);
    CHECK_INT(outcome[1], ATVI_RUN_OK);
    double diff = (lp[1] + ll[1] - lp[0] - ll[0]) / (x[2 * i + 1] - x[2 * i]), g = v.gp[i] + v.gl[i];
    double err = fabs(diff - g) / fmax(fabs(g), 1e-3 * most);
    if (!(err <= worst)) worst = isnan(err) ? HUGE_VAL : err; /* fmax would hide a NaN */
  }
  t->ops->work_free(work);
  return worst;
}

#endif
