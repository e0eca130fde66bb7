/* SPDX-License-Identifier: MIT */
/* A flow with everything it needs, at random parameters. */
#ifndef ATVI_TEST_FLOW_WORLD_H
#define ATVI_TEST_FLOW_WORLD_H

#include "testing.h"
#include "flow/detail.h"
#include "math/rng.h"

typedef struct {
  atvi_ctx *ctx;
  atvi_flow *f;
  atvi_flow_work *w;
  atvi_idx d, n, B; /* coordinates, parameters, room for draws */
  double *theta, *z, *x, *ldj;
} world;

static TEST_UNUSED double *numbers(atvi_idx n) {
  double *p = calloc((size_t)n, sizeof *p);
  CHECK(p != NULL);
  return p;
}

/* spread: sd of the numbers added to the parameters of the identity; 0 leaves it. Draws reach beyond the box. */
static TEST_UNUSED world world_new(const atvi_flow_shape *shape, atvi_idx B, double spread) {
  world o = {.ctx = test_ctx(), .d = shape->d, .B = B};
  CHECK_OK(atvi_flow_new(o.ctx, shape, &o.f));
  CHECK_OK(atvi_flow_work_new(o.ctx, o.f, B, &o.w));
  o.n = atvi_flow_size(o.f);
  o.theta = numbers(o.n);
  o.z = numbers(o.d * B);
  o.x = numbers(o.d * B);
  o.ldj = numbers(B);
  atvi_flow_init(o.f, o.theta);
  atvi_rng r = atvi_math_rng_at(shape->seed, ATVI_STREAM_TEST, 0, 0);
  for (atvi_idx i = 0; i < o.n; i++) o.theta[i] += spread * atvi_math_rng_normal(&r);
  for (atvi_idx i = 0; i < o.d * B; i++) o.z[i] = 1.7 * atvi_math_rng_normal(&r);
  return o;
}

static TEST_UNUSED void world_free(world *o) {
  free(o->theta);
  free(o->z);
  free(o->x);
  free(o->ldj);
  atvi_flow_work_free(o->w);
  atvi_flow_free(o->f);
  atvi_ctx_free(o->ctx);
}

#endif
