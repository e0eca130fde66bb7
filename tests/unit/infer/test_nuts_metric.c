/* SPDX-License-Identifier: MIT */
/* The metric of the No-U-Turn sampler: its map, and what it learns from places and gradients of normal
 * posteriors. */
#include "infer/nuts_metric.h"
#include "math/rng.h"
#include "testing.h"
#include <math.h>
#include <string.h>

enum { MOST = 120, PLACES = 400 };

typedef struct {
  atvi_ctx *ctx;
  atvi_pool *pool;
  atvi_nuts_metric m;
} world;

static world begin(atvi_idx d) {
  world w = {.ctx = test_ctx()};
  CHECK_OK(atvi_pool_new(w.ctx, &w.pool));
  CHECK(atvi_infer_nuts_metric_new(w.pool, d, PLACES, &w.m));
  return w;
}

static void end(world *w) {
  atvi_pool_free(w->pool);
  atvi_ctx_free(w->ctx);
}

/* A normal posterior with scales from 0.1 to 10 and, along a direction of all coordinates, `ratio` times the
 * variance: P = S^-1 (I - c e e') S^-1. */
static double scale_at(atvi_idx d, atvi_idx j) { return pow(10, 2.0 * (double)j / (double)(d - 1) - 1); }

static void gradient(atvi_idx d, double ratio, const double *x, double *g) {
  double along = 0, c = (1 - 1 / ratio) / (double)d;
  for (atvi_idx j = 0; j < d; j++) along += x[j] / scale_at(d, j);
  for (atvi_idx j = 0; j < d; j++) g[j] = -(x[j] / scale_at(d, j) - c * along) / scale_at(d, j);
}

/* Places that are spread by a fifth of what the posterior is, more here than there, as of chains that have
 * only begun. */
static void places(atvi_idx d, atvi_idx n, double ratio, double *x, double *g) {
  for (atvi_idx b = 0; b < n; b++) {
    atvi_rng r = atvi_math_rng_at(7, 1, 0, (uint32_t)b);
    double at[MOST], slope[MOST];
    for (atvi_idx j = 0; j < d; j++)
      at[j] = scale_at(d, j) * (0.2 + 0.1 * (double)(j % 3)) * atvi_math_rng_normal(&r);
    gradient(d, ratio, at, slope);
    for (atvi_idx j = 0; j < d; j++) x[j * n + b] = at[j], g[j * n + b] = slope[j];
  }
}

/* Curvature of the posterior along y at the worst and the best of some directions: 1 where the metric is
 * right. */
static void curvatures(const atvi_nuts_metric *m, double ratio, double *least, double *most) {
  atvi_idx d = m->d;
  double y[MOST], x[MOST], g[MOST];
  *least = HUGE_VAL, *most = 0;
  for (int k = 0; k < 200; k++) {
    atvi_rng r = atvi_math_rng_at(8, 1, 0, (uint32_t)k);
    double length2 = 0, curve = 0;
    for (atvi_idx j = 0; j < d; j++) { /* the common direction, single coordinates, and anywhere */
      x[j] = k == 0 ? scale_at(d, j) : 0;
      y[j] = k <= d ? (j == k - 1) : atvi_math_rng_normal(&r);
    }
    if (k == 0) atvi_infer_nuts_metric_in(m, 1, x, y);
    atvi_infer_nuts_metric_out(m, 1, y, x);
    gradient(d, ratio, x, g);
    atvi_infer_nuts_metric_adjoint(m, 1, g);
    for (atvi_idx j = 0; j < d; j++) length2 += y[j] * y[j], curve -= g[j] * y[j];
    *least = fmin(*least, curve / length2);
    *most = fmax(*most, curve / length2);
  }
}

/* Though the places themselves say nothing of how wide the posterior is. Exact where all directions are
 * looked at, up to 64; a ratio of variances of 4 is a trajectory that is twice as long. */
static void learns_a_normal(void) {
  static const atvi_idx dim[] = {3, 40, MOST};
  static double x[MOST * PLACES], g[MOST * PLACES];
  for (int k = 0; k < 3; k++) {
    world w = begin(dim[k]);
    double least, most;
    places(dim[k], PLACES, 50, x, g);
    curvatures(&w.m, 50, &least, &most);
    CHECK(most / least > 1000);
    atvi_infer_nuts_metric_learn(&w.m, PLACES, x, g);
    curvatures(&w.m, 50, &least, &most);
    CHECK_MSG(most / least < (dim[k] > 64 ? 4 : 2.1), "d = %td: curvatures %g to %g, rank %td", dim[k], least,
              most, w.m.rank);
    CHECK(w.m.rank >= 1 && w.m.rank < dim[k]);
    end(&w);
  }
}

/* Nothing but scales: no directions, whatever noise the places have. */
static void needs_no_directions(void) {
  static double x[MOST * PLACES], g[MOST * PLACES];
  world w = begin(MOST);
  places(MOST, PLACES, 1, x, g);
  atvi_infer_nuts_metric_learn(&w.m, PLACES, x, g);
  CHECK_INT(w.m.rank, 0);
  for (atvi_idx j = 0; j < MOST; j++) CHECK_REL(w.m.scale[j], scale_at(MOST, j), 1e-9);
  end(&w);
}

static void goes_there_and_back(void) {
  static double x[MOST * PLACES], g[MOST * PLACES];
  enum { N = 11 };
  double a[3 * N], b[3 * N], c[3 * N], s[3 * N], left = 0, right = 0;
  world w = begin(3);
  places(3, PLACES, 50, x, g);
  atvi_infer_nuts_metric_learn(&w.m, PLACES, x, g);
  for (int i = 0; i < 3 * N; i++) a[i] = sin(2.385 * i), c[i] = s[i] = cos(0.731 * i);
  atvi_infer_nuts_metric_out(&w.m, N, a, b);
  atvi_infer_nuts_metric_adjoint(&w.m, N, s);
  for (int i = 0; i < 3 * N; i++) left += c[i] * b[i], right += s[i] * a[i];
  CHECK_REL(left, right, 1e-12); /* g . A y = A' g . y */
  atvi_infer_nuts_metric_in(&w.m, N, b, b);
  atvi_infer_nuts_metric_adjoint_back(&w.m, N, s);
  for (int i = 0; i < 3 * N; i++) {
    CHECK_ABS(b[i], a[i], 1e-12);
    CHECK_ABS(s[i], c[i], 1e-12);
  }
  end(&w);
}

/* A coordinate that stands still, or has no slope, keeps its scale, and the others learn. */
static void keeps_what_it_cannot_know(void) {
  static double x[MOST * PLACES], g[MOST * PLACES];
  world w = begin(5);
  places(5, PLACES, 1, x, g);
  memset(x, 0, PLACES * sizeof *x);
  memset(g + PLACES, 0, PLACES * sizeof *g);
  w.m.scale[0] = 2.385, w.m.scale[1] = 0.731;
  atvi_infer_nuts_metric_learn(&w.m, PLACES, x, g);
  CHECK_REL(w.m.scale[0], 2.385, 1e-3); /* but for what is usual in the other directions */
  CHECK_REL(w.m.scale[1], 0.731, 1e-3);
  CHECK_INT(w.m.rank, 0);
  for (atvi_idx j = 2; j < 5; j++) CHECK_REL(w.m.scale[j], scale_at(5, j), 1e-3);
  atvi_infer_nuts_metric_learn(&w.m, 1, x, g);
  CHECK_INT(w.m.rank, 0);
  end(&w);
}

TESTS({"normal", learns_a_normal}, {"scales", needs_no_directions}, {"back", goes_there_and_back},
      {"unknown", keeps_what_it_cannot_know})
