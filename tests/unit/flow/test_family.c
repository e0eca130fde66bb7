/* SPDX-License-Identifier: MIT */
/* What every family promises, asked of a flow and of a copula. */
#include "flow/flow.h"
#include "math/rng.h"
#include "testing.h"

enum { B = 11, D = 4, MAX_BASE = 8, KINDS = 3 };

static atvi_status family_of(atvi_ctx *ctx, int kind, atvi_family *f) {
  const atvi_flow_shape s = {.d = D, .layers = 3, .bins = 4, .hidden = 7, .box = 3, .seed = 5};
  return kind == 0 ? atvi_flow_family_flow(ctx, &s, f)
                   : atvi_flow_family_copula(ctx, D, kind == 1 ? 2 : D, f);
}

typedef struct {
  atvi_ctx *ctx;
  atvi_family f;
  void *w;
  double *theta, z[MAX_BASE * B], x[D * B], q[B];
} world;

/* spread: sd of what is added to the starting parameters; less for the flow, whose many weights add up. */
static world world_new(int kind, double spread) {
  world o = {.ctx = test_ctx()};
  CHECK_OK(family_of(o.ctx, kind, &o.f));
  CHECK_OK(o.f.ops->work_new(o.f.self, o.ctx, B, &o.w));
  o.theta = calloc((size_t)o.f.size, sizeof *o.theta);
  CHECK(o.theta != NULL);
  o.f.ops->init(o.f.self, o.theta);
  atvi_rng r = atvi_math_rng_at(31 + (uint64_t)kind, ATVI_STREAM_TEST, 0, 0);
  for (atvi_idx i = 0; i < o.f.size; i++)
    o.theta[i] += (kind ? spread : 0.3 * spread) * atvi_math_rng_normal(&r);
  for (atvi_idx i = 0; i < o.f.n_base * B; i++) o.z[i] = 1.3 * atvi_math_rng_normal(&r);
  return o;
}

static void world_free(world *o) {
  o->f.ops->work_free(o->w);
  atvi_flow_family_free(&o->f);
  free(o->theta);
  atvi_ctx_free(o->ctx);
  CHECK_INT(test_live, 0);
}

static void fwd(world *o) { o->f.ops->fwd(o->f.self, o->theta, o->w, B, o->z, o->x, o->q); }

static double value(world *o, const double *c, const double *e) {
  double sum = 0;
  fwd(o);
  for (int i = 0; i < D * B; i++) sum += c[i] * o->x[i];
  for (int b = 0; b < B; b++) sum += e[b] * o->q[b];
  return sum;
}

static void vjp_is_the_slope(void) {
  for (int kind = 0; kind < KINDS; kind++) {
    world o = world_new(kind, 0.15);
    double c[D * B], e[B], top = 0, *g = calloc((size_t)o.f.size, sizeof *g);
    atvi_rng r = atvi_math_rng_at(3, ATVI_STREAM_TEST, 1, 0);
    for (int i = 0; i < D * B; i++) c[i] = atvi_math_rng_normal(&r);
    for (int b = 0; b < B; b++) e[b] = atvi_math_rng_normal(&r);
    value(&o, c, e);
    for (int twice = 0; twice < 2; twice++) o.f.ops->vjp(o.f.self, o.theta, o.w, c, e, g);
    for (atvi_idx i = 0; i < o.f.size; i++) top = fmax(top, fabs(g[i] *= 0.5)); /* it adds */
    /* Fourth order: rounding of 1e-13 / h, and h^4 times a fifth derivative. */
    const double h = 1e-4;
    for (atvi_idx i = 0; i < o.f.size; i++) {
      const double was = o.theta[i];
      double v[4];
      for (int k = 0; k < 4; k++) {
        o.theta[i] = was + h * (k < 2 ? k - 2 : k - 1);
        v[k] = value(&o, c, e);
      }
      o.theta[i] = was;
      CHECK_ABS(g[i], (v[0] - 8 * v[1] + 8 * v[2] - v[3]) / (12 * h), 1e-7 * (1 + top));
    }
    free(g);
    world_free(&o);
  }
}

static void a_draw_without_weight_adds_nothing(void) {
  for (int kind = 0; kind < KINDS; kind++) {
    world o = world_new(kind, 0.15);
    double dx[D * B] = {0}, e[B] = {0}, *g = calloc((size_t)o.f.size, sizeof *g);
    fwd(&o);
    o.f.ops->vjp(o.f.self, o.theta, o.w, dx, e, g);
    for (atvi_idx i = 0; i < o.f.size; i++) CHECK(g[i] == 0);
    free(g);
    world_free(&o);
  }
}

static void log_q_agrees_with_fwd(void) {
  for (int kind = 0; kind < KINDS; kind++) {
    world o = world_new(kind, 0.2);
    double q[B];
    fwd(&o);
    o.f.ops->log_q(o.f.self, o.theta, o.w, B, o.x, q, NULL);
    for (int b = 0; b < B; b++) CHECK_ABS(q[b], o.q[b], 1e-11 * (1 + fabs(o.q[b])));
    world_free(&o);
  }
}

static void score_is_the_slope_of_log_q(void) {
  for (int kind = 0; kind < KINDS; kind++) {
    world o = world_new(kind, 0.2);
    double s[D * B], side[2][B];
    const double h = 1e-6; /* rounding of log q of 1e-15 |log q| / h, and h^2 */
    fwd(&o);
    o.f.ops->score(o.f.self, o.theta, o.w, s);
    for (int i = 0; i < D; i++) {
      for (int k = 0; k < 2; k++) {
        for (int b = 0; b < B; b++) o.x[i * B + b] += k ? 2 * h : -h;
        o.f.ops->log_q(o.f.self, o.theta, o.w, B, o.x, side[k], NULL);
      }
      for (int b = 0; b < B; b++) {
        o.x[i * B + b] -= h;
        CHECK_ABS(s[i * B + b], (side[1][b] - side[0][b]) / (2 * h), 1e-7 * (1 + fabs(s[i * B + b])));
      }
    }
    world_free(&o);
  }
}

/* The base draw comes back; and the derivative in it, of c x + e log q, by fourth-order differences. */
static void pull_is_the_slope_in_z(void) {
  for (int kind = 0; kind < KINDS; kind++) {
    world o = world_new(kind, 0.2);
    CHECK((o.f.ops->inv == NULL) == (o.f.ops->pull == NULL) && (o.f.ops->inv != NULL) == (o.f.n_base == D));
    if (!o.f.ops->pull) {
      world_free(&o);
      continue;
    }
    double back[D * B], c[D * B], e[B], dz[D * B];
    const double h = 1e-4;
    for (int i = 0; i < D * B; i++) c[i] = sin(1.7 * i);
    for (int b = 0; b < B; b++) e[b] = cos(2.3 * b);
    fwd(&o);
    o.f.ops->pull(o.f.self, o.theta, o.w, c, e, dz);
    o.f.ops->inv(o.f.self, o.theta, o.w, B, o.x, back);
    for (int i = 0; i < D * B; i++) CHECK_ABS(back[i], o.z[i], 1e-10 * (1 + fabs(o.z[i])));
    for (int i = 0; i < D * B; i++) {
      const double was = o.z[i];
      double v[4];
      for (int k = 0; k < 4; k++) {
        o.z[i] = was + h * (k < 2 ? k - 2 : k - 1);
        v[k] = value(&o, c, e);
      }
      o.z[i] = was;
      CHECK_ABS(dz[i], (v[0] - 8 * v[1] + 8 * v[2] - v[3]) / (12 * h), 1e-6 * (1 + fabs(dz[i])));
    }
    world_free(&o);
  }
}

static void a_draw_does_not_see_its_batch(void) {
  for (int kind = 0; kind < KINDS; kind++) {
    world o = world_new(kind, 0.2);
    double q[B], score[D * B];
    fwd(&o);
    o.f.ops->score(o.f.self, o.theta, o.w, score);
    o.f.ops->log_q(o.f.self, o.theta, o.w, B, o.x, q, NULL);
    for (int b = 0; b < B; b++) {
      double z[MAX_BASE], x[D], at, again, s[D];
      for (atvi_idx i = 0; i < o.f.n_base; i++) z[i] = o.z[i * B + b];
      o.f.ops->fwd(o.f.self, o.theta, o.w, 1, z, x, &at);
      o.f.ops->score(o.f.self, o.theta, o.w, s);
      o.f.ops->log_q(o.f.self, o.theta, o.w, 1, x, &again, NULL);
      CHECK(at == o.q[b] && again == q[b]);
      for (int i = 0; i < D; i++) CHECK(x[i] == o.x[i * B + b] && s[i] == score[i * B + b]);
    }
    o.f.ops->fwd(o.f.self, o.theta, o.w, 0, o.z, o.x, o.q);
    o.f.ops->log_q(o.f.self, o.theta, o.w, 0, o.x, o.q, NULL);
    world_free(&o);
  }
}

/* The flow starts at it exactly. The copula: loadings of 0.1 and h = 0.001 move the log density of these
 * draws, at most four deviations out, by tenths. */
static void starts_near_the_standard_normal(void) {
  for (int kind = 0; kind < KINDS; kind++) {
    world o = world_new(kind, 0);
    const double tol = kind == 0 ? 1e-12 : 0.3;
    double sum = 0;
    fwd(&o);
    for (int b = 0; b < B; b++) {
      double want = -0.5 * D * log(2 * acos(-1));
      for (int i = 0; i < D; i++) want -= 0.5 * o.x[i * B + b] * o.x[i * B + b];
      CHECK_ABS(o.q[b], want, tol);
      sum += (o.q[b] - want) / B;
    }
    CHECK_ABS(sum, 0, tol / 4);
    world_free(&o);
  }
}

static void steady_state_allocates_nothing(void) {
  for (int kind = 0; kind < KINDS; kind++) {
    world o = world_new(kind, 0.1);
    double *g = calloc((size_t)o.f.size, sizeof *g), dx[D * B];
    const long before = test_allocs;
    fwd(&o);
    o.f.ops->vjp(o.f.self, o.theta, o.w, o.x, o.q, g);
    o.f.ops->score(o.f.self, o.theta, o.w, dx);
    o.f.ops->log_q(o.f.self, o.theta, o.w, B, o.x, o.q, NULL);
    CHECK_INT(test_allocs, before);
    free(g);
    world_free(&o);
  }
}

static void survives_allocation_failure(void) {
  for (int kind = 0; kind < KINDS; kind++) {
    atvi_ctx *ctx = test_ctx();
    const long base = test_live;
    bool done = false;
    for (long n = 1; !done; n++) {
      atvi_family f;
      void *w = ctx;
      test_fail_at = test_allocs + n;
      atvi_status s = family_of(ctx, kind, &f);
      if (s == ATVI_OK) {
        s = f.ops->work_new(f.self, ctx, 13, &w);
        CHECK(s == ATVI_OK || w == NULL);
      } else {
        CHECK(f.ops == NULL && f.self == NULL && f.size == 0);
      }
      done = s == ATVI_OK;
      CHECK(done || s == ATVI_ENOMEM);
      if (done) f.ops->work_free(w);
      atvi_flow_family_free(&f);
      CHECK_INT(test_live, base);
      CHECK(n < 10 && (n > 2 || !done));
    }
    test_fail_at = 0;
    atvi_ctx_free(ctx);
  }
}

static void refuses_wrong_calls(void) {
  atvi_ctx *ctx = test_ctx();
  atvi_flow_shape bad = atvi_flow_defaults(0);
  atvi_family f;
  CHECK_STATUS(atvi_flow_family_flow(ctx, &bad, &f), ATVI_EINVAL);
  CHECK(f.ops == NULL);
  CHECK_STATUS(atvi_flow_family_flow(ctx, NULL, &f), ATVI_EINVAL);
  CHECK_STATUS(atvi_flow_family_copula(ctx, 3, 4, &f), ATVI_EINVAL);
  CHECK(f.ops == NULL);
  atvi_flow_family_free(&f);
  for (int kind = 0; kind < KINDS; kind++) {
    void *w = ctx;
    CHECK_OK(family_of(ctx, kind, &f));
    CHECK_STATUS(f.ops->work_new(f.self, ctx, 0, &w), ATVI_EINVAL);
    CHECK(w == NULL);
    if (kind > 0) CHECK_STATUS(f.ops->work_new(f.self, ctx, PTRDIFF_MAX, &w), ATVI_ENOMEM);
    CHECK(w == NULL);
    f.ops->work_free(NULL);
    atvi_flow_family_free(&f);
    CHECK(f.ops == NULL);
  }
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

static void blocks_cover_the_parameters(void) {
  for (int kind = 0; kind < KINDS; kind++) {
    world o = world_new(kind, 0);
    atvi_idx at = 0, first, last;
    CHECK_INT(o.f.blocks, kind == 0 ? 3 : 1);
    CHECK_INT(o.f.d, D);
    CHECK_INT(o.f.n_base, kind == 0 ? D : kind == 1 ? D + 2 : 2 * D);
    CHECK_INT(o.f.ops->size, sizeof(atvi_family_ops));
    for (int k = 0; k < o.f.blocks; k++, at = last) {
      atvi_flow_family_block(&o.f, k, &first, &last);
      CHECK(first == at && last > first);
    }
    CHECK_INT(at, o.f.size);
    world_free(&o);
  }
}

TESTS({"vjp", vjp_is_the_slope}, {"no_weight", a_draw_without_weight_adds_nothing},
      {"log_q", log_q_agrees_with_fwd}, {"score", score_is_the_slope_of_log_q},
      {"pull", pull_is_the_slope_in_z}, {"batch", a_draw_does_not_see_its_batch},
      {"start", starts_near_the_standard_normal}, {"steady", steady_state_allocates_nothing},
      {"faults", survives_allocation_failure}, {"refuses", refuses_wrong_calls},
      {"blocks", blocks_cover_the_parameters})
