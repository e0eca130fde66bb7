/* SPDX-License-Identifier: MIT */
/* Gradients of the examples against finite differences with frozen steps, at ten draws from the prior. */
#include "models.h"

static void check(const char *path) {
  atvi_ctx *ctx = test_ctx();
  atvi_model *m = test_load(ctx, path, false);
  const atvi_target *t = atvi_model_target(m);
  void *work;
  int done = 0;
  CHECK_OK(t->ops->work_new(t->self, ctx, &work));
  for (int k = 0; done < 10; k++) {
    double theta[32];
    CHECK(k < 100);
    t->ops->prior_draw(t->self, work, 3, k, 1, theta);
    bool inside = true; /* away from the bounds by more than the difference's step */
    for (atvi_idx i = 0; i < t->d; i++)
      inside = inside && theta[i] > t->param[i].lower + 1e-3 && theta[i] < t->param[i].upper - 1e-3;
    if (!inside || test_eval(ctx, t, theta).outcome != ATVI_RUN_OK) continue;
    done++;
    double worst = test_gradient(ctx, t, theta, 1e-5);
    CHECK_MSG(worst < 1e-5, "draw %d: %g", k, worst);
  }
  t->ops->work_free(work);
  atvi_model_free(m);
  atvi_ctx_free(ctx);
}

static void cold(void) { check(TEST_SOURCE_DIR "/examples/cold/cold.atvi"); }
static void rotavirus(void) { check(TEST_SOURCE_DIR "/examples/rotavirus/rotavirus.atvi"); }

TESTS({"cold", cold}, {"rotavirus", rotavirus})
