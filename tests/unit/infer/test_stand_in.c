/* SPDX-License-Identifier: MIT */
/* The polynomial that stands in for a likelihood: what it finds, its gradient, threads, limits. */
#include "infer/stand_in.h"
#include "math/rng.h"
#include "testing.h"
#include <math.h>
#include <string.h>

enum { D = 5, N = 400 };

/* A polynomial of degree 4, with its gradient, at u[d][n], column j. */
static double quartic(atvi_idx n, const double *u, atvi_idx j, double *du) {
  double x[D], v = 1.37, g[D] = {0};
  for (int i = 0; i < D; i++) x[i] = u[i * n + j];
  for (int i = 0; i < D; i++) {
    double a = 0.31 + 0.2 * i;
    v -= a * x[i] * x[i];
    g[i] -= 2 * a * x[i];
  }
  v += 0.17 * x[0] * x[1] * x[2] - 0.05 * x[3] * x[3] * x[4] - 0.013 * pow(x[1], 4) +
       0.021 * x[0] * x[4] * x[4] * x[2];
  g[0] += 0.17 * x[1] * x[2] + 0.021 * x[4] * x[4] * x[2];
  g[1] += 0.17 * x[0] * x[2] - 0.052 * pow(x[1], 3);
  g[2] += 0.17 * x[0] * x[1] + 0.021 * x[0] * x[4] * x[4];
  g[3] += -0.1 * x[3] * x[4];
  g[4] += -0.05 * x[3] * x[3] + 0.042 * x[0] * x[4] * x[2];
  for (int i = 0; i < D && du; i++) du[i * n + j] = g[i];
  return v;
}

typedef struct {
  double u[D * N], du[D * N], value[N], weight[N];
  double shift[D], chol[D * D];
} points;

static void draw(points *p, uint32_t stream, double wide) {
  for (int i = 0; i < D; i++) {
    p->shift[i] = 0.3 * i - 0.4;
    for (int k = 0; k < D; k++) p->chol[i * D + k] = k == i ? 0.7 + 0.1 * i : k < i ? 0.15 : 0;
  }
  for (int j = 0; j < N; j++) {
    atvi_rng r = atvi_math_rng_at(7, ATVI_STREAM_TEST, stream, (uint32_t)j);
    double z[D];
    for (int i = 0; i < D; i++) z[i] = wide * atvi_math_rng_normal(&r);
    for (int i = 0; i < D; i++) {
      p->u[i * N + j] = p->shift[i];
      for (int k = 0; k <= i; k++) p->u[i * N + j] += p->chol[i * D + k] * z[k];
    }
    p->value[j] = quartic(N, p->u, j, p->du);
    p->weight[j] = 0.2 + (j % 5) * 0.2;
  }
}

static atvi_stand_in_data data_of(const points *p) {
  return (atvi_stand_in_data){N, p->u, p->du, p->value, p->weight};
}

/* What is a polynomial is found, to the accuracy at which its search ends. */
static void finds_a_polynomial(void) {
  static points p, other;
  static double value[N], du[D * N];
  atvi_stand_in *s;
  double left;
  atvi_ctx *ctx = test_ctx();
  CHECK_OK(atvi_infer_stand_in_new(ctx, D, &s));
  CHECK(atvi_infer_stand_in_degree(s) == 4);
  draw(&p, 1, 1);
  atvi_stand_in_data data = data_of(&p);
  CHECK_OK(atvi_infer_stand_in_fit(s, p.shift, p.chol, &data, &left));
  CHECK(left < 0.01);
  CHECK_OK(atvi_infer_stand_in_fit(s, p.shift, p.chol, &data, &left)); /* goes on from there */
  draw(&other, 2, 0.7);
  atvi_infer_stand_in_eval(s, 0, N, other.u, value, du);
  for (int j = 0; j < N; j++) {
    CHECK_ABS(value[j], other.value[j], 0.02);
    for (int i = 0; i < D; i++) CHECK_ABS(du[i * N + j], other.du[i * N + j], 0.1);
  }
  atvi_infer_stand_in_free(s);
  atvi_ctx_free(ctx);
}

/* The gradient is that of the value, inside and beyond the radius, and neither depends on the size of the
 * batch. */
static void has_the_gradient_of_its_value(void) {
  static points p, far;
  static double value[N], du[D * N];
  atvi_stand_in *s;
  double left;
  atvi_ctx *ctx = test_ctx();
  CHECK_OK(atvi_infer_stand_in_new(ctx, D, &s));
  draw(&p, 3, 1);
  draw(&far, 4, 2.5);
  atvi_stand_in_data data = data_of(&p);
  CHECK_OK(atvi_infer_stand_in_fit(s, p.shift, p.chol, &data, &left));
  long before = test_allocs;
  atvi_infer_stand_in_eval(s, 0, N, far.u, value, du);
  int beyond = 0;
  for (int j = 0; j < N; j += 7) {
    double x[D], v, g[D];
    for (int i = 0; i < D; i++) x[i] = far.u[i * N + j];
    atvi_infer_stand_in_eval(s, 0, 1, x, &v, g);
    CHECK(v == value[j]);
    beyond += fabs(v - far.value[j]) > 1;
    for (int i = 0; i < D; i++) {
      double up, down, h = 1e-5, at = x[i];
      CHECK(g[i] == du[i * N + j]);
      x[i] = at + h;
      atvi_infer_stand_in_eval(s, 0, 1, x, &up, NULL);
      x[i] = at - h;
      atvi_infer_stand_in_eval(s, 0, 1, x, &down, NULL);
      x[i] = at;
      CHECK_ABS(g[i], (up - down) / (2 * h), 1e-4 * (1 + fabs(g[i])));
    }
  }
  CHECK(beyond > 5); /* some of them were beyond it */
  CHECK(test_allocs == before);
  atvi_infer_stand_in_free(s);
  atvi_ctx_free(ctx);
}

/* The same on any number of threads. */
static void is_the_same_on_two_threads(void) {
  static points p;
  static double value[2][N], du[2][D * N];
  draw(&p, 5, 1.2);
  for (int k = 0; k < 2; k++) {
    atvi_stand_in *s;
    double left;
    atvi_ctx *ctx = test_ctx();
    atvi_ctx_set_threads(ctx, 1 + k);
    CHECK_OK(atvi_infer_stand_in_new(ctx, D, &s));
    atvi_stand_in_data data = data_of(&p);
    CHECK_OK(atvi_infer_stand_in_fit(s, p.shift, p.chol, &data, &left));
    atvi_infer_stand_in_eval(s, 0, N, p.u, value[k], du[k]);
    atvi_infer_stand_in_free(s);
    atvi_ctx_free(ctx);
  }
  CHECK(memcmp(value[0], value[1], sizeof value[0]) == 0);
  CHECK(memcmp(du[0], du[1], sizeof du[0]) == 0);
}

/* Degrees by dimension, and what cannot be had. */
static void knows_its_limits(void) {
  atvi_stand_in *s;
  const struct { int d, degree; } want[] = {{1, 4}, {13, 4}, {14, 3}, {24, 3}, {25, 2}, {75, 2}};
  atvi_ctx *ctx = test_ctx();
  for (size_t k = 0; k < sizeof want / sizeof *want; k++) {
    CHECK_OK(atvi_infer_stand_in_new(ctx, want[k].d, &s));
    CHECK(atvi_infer_stand_in_degree(s) == want[k].degree);
    atvi_infer_stand_in_free(s);
  }
  CHECK(atvi_infer_stand_in_new(ctx, 76, &s) == ATVI_EINVAL && !s);
  CHECK(atvi_infer_stand_in_new(ctx, 0, &s) == ATVI_EINVAL && !s);
  atvi_infer_stand_in_free(NULL);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

static void memory_fails(void) {
  static points p;
  draw(&p, 6, 1);
  for (long at = 1;; at++) {
    atvi_ctx *ctx = test_ctx();
    atvi_stand_in *s;
    double left;
    atvi_stand_in_data data = data_of(&p);
    test_fail_at = test_allocs + at;
    atvi_status status = atvi_infer_stand_in_new(ctx, D, &s);
    CHECK(status == ATVI_OK || (status == ATVI_ENOMEM && !s));
    if (status == ATVI_OK) status = atvi_infer_stand_in_fit(s, p.shift, p.chol, &data, &left);
    test_fail_at = 0;
    atvi_infer_stand_in_free(s);
    atvi_ctx_free(ctx);
    CHECK_INT(test_live, 0);
    if (status == ATVI_OK) break;
    CHECK(status == ATVI_ENOMEM && at < 10);
  }
}

TESTS({"polynomial", finds_a_polynomial}, {"gradient", has_the_gradient_of_its_value},
      {"threads", is_the_same_on_two_threads}, {"limits", knows_its_limits}, {"memory", memory_fails})
