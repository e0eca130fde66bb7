/* SPDX-License-Identifier: MIT */
/* Draws with known properties for the tests of diag: "level" is normal(2.385, 0.731), "share" on [0, 1] the
 * mean of four uniform numbers, which stays away from its bounds (world_flat makes it uniform), "twice" = 2
 * level is derived. All independent, made by a small generator of its own. */
#ifndef ATVI_TEST_DIAG_WORLD_H
#define ATVI_TEST_DIAG_WORLD_H

#include "atvi/draws.h"
#include "core/core.h"
#include "diag/summary.h"
#include "testing.h"

typedef struct {
  atvi_ctx *ctx;
  atvi_pool *pool;
  atvi_draws *d;
} world;

static TEST_UNUSED double world_uniform(uint64_t *state) {
  uint64_t z = *state += 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  z ^= z >> 31;
  return ((double)(z >> 11) + 0.5) * 0x1p-53;
}

static TEST_UNUSED double world_normal(uint64_t *state) {
  double u = world_uniform(state), v = world_uniform(state);
  return sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
}

static TEST_UNUSED world world_new(atvi_idx n_chain, atvi_idx per_chain, bool weighted) {
  static const atvi_column col[3] = {
      {"level", -HUGE_VAL, HUGE_VAL}, {"share", 0, 1}, {"twice", -HUGE_VAL, HUGE_VAL}};
  world w;
  uint64_t state = 20240;
  w.ctx = test_ctx();
  CHECK_OK(atvi_pool_new(w.ctx, &w.pool));
  CHECK_OK(atvi_draws_new(w.ctx, n_chain * per_chain, n_chain, 2, 3, col, weighted, &w.d));
  for (atvi_idx i = 0; i < w.d->n; i++) {
    double z = world_normal(&state);
    w.d->x[i] = 2.385 + 0.731 * z;
    for (int k = 0; k < 4; k++) w.d->x[w.d->n + i] += 0.25 * world_uniform(&state);
    w.d->x[2 * w.d->n + i] = 2 * w.d->x[i];
    w.d->log_lik[i] = -0.5 * z * z;
    w.d->log_prior[i] = -3.25;
  }
  w.d->made->method = "ram";
  w.d->made->model = "World";
  w.d->made->seed = 7;
  w.d->made->seconds = 12.25;
  w.d->made->evaluations = 100000;
  w.d->made->failures = 12;
  w.d->made->ess_wanted = 1000;
  return w;
}

static TEST_UNUSED void world_flat(world *w) {
  uint64_t state = 415;
  for (atvi_idx i = 0; i < w->d->n; i++) w->d->x[w->d->n + i] = world_uniform(&state);
}

/* A summary in the world's pool. */
static TEST_UNUSED atvi_summary *world_summary(world *w) {
  atvi_summary *s;
  CHECK_OK(atvi_diag_summary_new(w->pool, w->d, &s));
  return s;
}

static TEST_UNUSED void world_free(world *w) {
  atvi_draws_free(w->d);
  atvi_pool_free(w->pool);
  atvi_ctx_free(w->ctx);
  CHECK_INT(test_live, 0);
}

#endif
