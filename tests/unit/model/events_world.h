/* SPDX-License-Identifier: MIT */
/* Shared by tests of events, rests and delays: densities, solvers, and batches whose points must not depend
 * on each other. */
#ifndef TEST_EVENTS_WORLD_H
#define TEST_EVENTS_WORLD_H

#include "core/core.h"
#include "model/model.h"
#include "models.h"

static inline double normal(double y, double mean, double sd) {
  double z = (y - mean) / sd;
  return -0.5 * z * z - log(sd) - 0.91893853320467274178;
}

/* Values and gradients of n points in one batch; each is what it is alone. */
static inline void check_batch(atvi_ctx *ctx, const atvi_target *t, atvi_idx n, const double *theta,
                               double *ll, double *gl) {
  atvi_outcome outcome[16];
  void *work;
  CHECK_OK(t->ops->work_new(t->self, ctx, &work));
  t->ops->eval(t->self, work,
               &(atvi_batch){.B = n, .theta = theta, .log_lik = ll, .grad_lik = gl, .outcome = outcome});
  t->ops->work_free(work);
  for (atvi_idx j = 0; j < n; j++) {
    double one[16];
    for (atvi_idx i = 0; i < t->d; i++) one[i] = theta[i * n + j];
    test_value v = test_eval(ctx, t, one);
    CHECK_INT(outcome[j], ATVI_RUN_OK);
    CHECK(v.ll == ll[j]);
    for (atvi_idx i = 0; i < t->d; i++) CHECK(v.gl[i] == gl[i * n + j]);
  }
}

static const char *const SOLVERS[4] = {"", "solver rk45 tol 1e-8\n", "solver stiff tol 1e-8\n",
                                       "solver stiff\n"};

#endif
