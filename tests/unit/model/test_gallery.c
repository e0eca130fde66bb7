/* SPDX-License-Identifier: MIT */
/* The models of examples/language and examples/pk: a point's result depends on no other point, and gradients
 * are right. */
#include "model/model.h"
#include "models.h"
#include <math.h>

static const char *const MODELS[] = {
    "language/conditions", "language/delay",   "language/doses",   "language/event",  "language/items",
    "language/pretreated", "language/regions", "language/renewal", "language/steady", "pk/pk"};

enum { N = 16, D_MOST = 64 };

typedef struct {
  double ll[N], gl[D_MOST * N], lp[N], gp[D_MOST * N];
  atvi_outcome outcome[N];
} values;

static void alone_as_together(const char *name, const atvi_target *t, void *work, const double *theta,
                              const values *all) {
  for (int j = 0; j < N; j++) {
    double one[D_MOST], ll, gl[D_MOST];
    for (atvi_idx i = 0; i < t->d; i++) one[i] = theta[i * N + j];
    t->ops->eval(t->self, work, &(atvi_batch){.B = 1, .theta = one, .log_lik = &ll, .grad_lik = gl});
    CHECK_MSG(ll == all->ll[j], "%s: point %d: %.17g alone, %.17g with others", name, j, ll, all->ll[j]);
    for (atvi_idx i = 0; i < t->d; i++)
      CHECK_MSG(gl[i] == all->gl[i * N + j], "%s: point %d: gradient by %s is %.17g alone, %.17g with others",
                name, j, t->param[i].name, gl[i], all->gl[i * N + j]);
  }
}

/* Against tangents, at the point that fits best. Elsewhere the steps of a solver may magnify rounding. */
static void gradient_is_right(const char *name, const atvi_target *t, void *work, const double *theta,
                              const values *all) {
  int best = 0;
  double at[D_MOST], most = 0;
  for (int j = 0; j < N; j++)
    if (all->outcome[j] == ATVI_RUN_OK && !(all->ll[j] <= all->ll[best])) best = j;
  CHECK(all->outcome[best] == ATVI_RUN_OK);
  for (atvi_idx i = 0; i < t->d; i++) {
    at[i] = theta[i * N + best];
    most = fmax(most, fabs(all->gl[i * N + best] * at[i]));
  }
  for (atvi_idx i = 0; i < t->d; i++) {
    double v[D_MOST] = {0}, lp, slope, scale = fmax(fabs(at[i]), 1e-3);
    v[i] = 1;
    if (!t->ops->tangent) continue; /* sums of processes have tests of their own */
    t->ops->tangent(t->self, work, 1, at, v, &lp, &slope);
    CHECK_MSG(fabs(slope - all->gl[i * N + best]) * scale <= 1e-9 * most, "%s: by %s: %.10g, tangent %.10g",
              name, t->param[i].name, all->gl[i * N + best], slope);
  }
}

static void every_model(void) {
  for (size_t k = 0; k < sizeof MODELS / sizeof *MODELS; k++) {
    static values all;
    double theta[D_MOST * N];
    char path[512];
    void *work;
    atvi_ctx *ctx = test_ctx();
    snprintf(path, sizeof path, TEST_SOURCE_DIR "/examples/%s.atvi", MODELS[k]);
    atvi_model *m = test_load(ctx, path, false);
    const atvi_target *t = atvi_model_target(m);
    CHECK(t->d <= D_MOST);
    CHECK_OK(t->ops->work_new(t->self, ctx, &work));
    t->ops->prior_draw(t->self, work, 5, 0, N, theta);
    t->ops->eval(t->self, work,
                 &(atvi_batch){.B = N,
                               .theta = theta,
                               .log_prior = all.lp,
                               .log_lik = all.ll,
                               .grad_prior = all.gp,
                               .grad_lik = all.gl,
                               .outcome = all.outcome});
    alone_as_together(MODELS[k], t, work, theta, &all);
    gradient_is_right(MODELS[k], t, work, theta, &all);
    t->ops->work_free(work);
    atvi_model_free(m);
    atvi_ctx_free(ctx);
    CHECK_INT(test_live, 0);
  }
}

TESTS({"every_model", every_model})
