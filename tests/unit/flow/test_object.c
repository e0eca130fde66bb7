/* SPDX-License-Identifier: MIT */
/* Elementary functions, instruction sets, memory and refusals. */
#include "world.h"

static atvi_flow_shape shape(void) {
  return (atvi_flow_shape){.d = 4, .layers = 3, .bins = 4, .hidden = 7, .box = 3, .seed = 5};
}

static void elementary_functions_are_right(void) {
  atvi_ctx *ctx = test_ctx();
  atvi_flow_shape s = shape();
  atvi_flow *f;
  CHECK_OK(atvi_flow_new(ctx, &s, &f));
  for (int isa = ATVI_ISA_BASE; isa <= (int)atvi_isa_best(); isa++) {
    atvi_flow_set_isa(f, (atvi_isa)isa);
    for (int k = 0; k < 4000; k++) {
      _Alignas(64) double x[ATVI_LANES], e[ATVI_LANES], l[ATVI_LANES], t[ATVI_LANES];
      atvi_rng r = atvi_math_rng_at(1, ATVI_STREAM_TEST, 0, (uint32_t)k);
      const double reach = k % 4 == 0 ? 700 : k % 4 == 1 ? 10 : k % 4 == 2 ? 1 : 1e-5;
      for (int i = 0; i < ATVI_LANES; i++) x[i] = reach * (2 * atvi_math_rng_uniform(&r) - 1);
      f->kern->elementary(x, e, l, t);
      for (int i = 0; i < ATVI_LANES; i++) {
        CHECK_REL(e[i], exp(x[i]), 4e-16);
        CHECK_ABS(l[i], log(fabs(x[i])), 3e-16 * (1 + fabs(log(fabs(x[i])))));
        CHECK_ABS(t[i], tanh(x[i]), 3e-16);
      }
    }
  }
  atvi_flow_free(f);
  atvi_ctx_free(ctx);
}

static void elementary_functions_at_special_points(void) {
  atvi_ctx *ctx = test_ctx();
  atvi_flow_shape s = shape();
  atvi_flow *f;
  CHECK_OK(atvi_flow_new(ctx, &s, &f));
  for (int isa = ATVI_ISA_BASE; isa <= (int)atvi_isa_best(); isa++) {
    atvi_flow_set_isa(f, (atvi_isa)isa);
    _Alignas(64) double x[ATVI_LANES] = {0, 1, -1e4, 705, NAN, -1, 0x1p-1000, 0x1p1000};
    _Alignas(64) double e[ATVI_LANES], l[ATVI_LANES], t[ATVI_LANES];
    f->kern->elementary(x, e, l, t);
    CHECK(e[0] == 1 && t[0] == 0);
    CHECK(l[1] == 0 && l[5] == 0);
    CHECK(e[2] > 0 && e[2] < 1e-300 && t[2] == -1);
    CHECK(e[3] > 1e300 && isfinite(e[3]) && t[3] == 1);
    CHECK(isnan(e[4]) && isnan(l[4]) && isnan(t[4]));
    CHECK_REL(l[6], -1000 * log(2), 3e-16);
    CHECK_REL(l[7], 1000 * log(2), 3e-16);
  }
  atvi_flow_free(f);
  atvi_ctx_free(ctx);
}

static void instruction_sets_agree(void) {
  atvi_flow_shape s = atvi_flow_defaults(10);
  world o = world_new(&s, 77, 0.02);
  double *x = numbers(770), *ldj = numbers(77), *z = numbers(770), *one = numbers(77);
  double *g = numbers(o.n), *g0 = numbers(o.n), *dz = numbers(770), *dz0 = numbers(770);
  for (int i = 0; i < 77; i++) one[i] = 1;
  for (int isa = ATVI_ISA_BASE; isa <= (int)atvi_isa_best(); isa++) {
    const bool first = isa == ATVI_ISA_BASE;
    atvi_flow_set_isa(o.f, (atvi_isa)isa);
    memset(g, 0, (size_t)o.n * sizeof *g);
    atvi_flow_fwd(o.f, o.theta, o.w, 77, o.z, first ? o.x : x, first ? o.ldj : ldj);
    atvi_flow_fwd_vjp(o.f, o.theta, o.w, o.x, one, first ? g0 : g, first ? dz0 : dz);
    atvi_flow_inv(o.f, o.theta, o.w, 77, o.x, z, ldj + 0);
    for (int i = 0; i < 770; i++) CHECK_ABS(z[i], o.z[i], 1e-12);
    for (int b = 0; b < 77; b++) CHECK_ABS(ldj[b], -o.ldj[b], 1e-12 * (1 + fabs(ldj[b])));
    if (first) continue;
    for (int i = 0; i < 770; i++) CHECK_ABS(x[i], o.x[i], 1e-12 * (1 + fabs(o.x[i])));
    for (int i = 0; i < 770; i++) CHECK_ABS(dz[i], dz0[i], 1e-12 * (1 + fabs(dz0[i])));
    for (atvi_idx i = 0; i < o.n; i++) CHECK_ABS(g[i], g0[i], 1e-11 * (1 + fabs(g0[i])));
  }
  free(x);
  free(ldj);
  free(z);
  free(one);
  free(g);
  free(g0);
  free(dz);
  free(dz0);
  world_free(&o);
}

static void the_seed_decides(void) {
  atvi_flow_shape s = shape();
  world a = world_new(&s, 1, 0), b = world_new(&s, 1, 0);
  s.seed = 6;
  world c = world_new(&s, 1, 0);
  CHECK_INT(a.n, b.n);
  CHECK(memcmp(a.theta, b.theta, (size_t)a.n * sizeof *a.theta) == 0);
  CHECK(memcmp(a.f->order, b.f->order, 12 * sizeof *a.f->order) == 0);
  CHECK(memcmp(a.theta, c.theta, (size_t)a.n * sizeof *a.theta) != 0);
  world_free(&a);
  world_free(&b);
  world_free(&c);
}

static void steady_state_allocates_nothing(void) {
  atvi_flow_shape s = shape();
  world o = world_new(&s, 130, 0.1);
  double *g = numbers(o.n), *d = numbers(4 * 130);
  const long before = test_allocs;
  for (atvi_idx n = 0; n <= 130; n += 13) {
    atvi_flow_fwd(o.f, o.theta, o.w, n, o.z, o.x, o.ldj);
    atvi_flow_fwd_vjp(o.f, o.theta, o.w, o.x, o.ldj, g, d);
    atvi_flow_inv(o.f, o.theta, o.w, n, o.z, o.x, o.ldj);
    atvi_flow_inv_vjp(o.f, o.theta, o.w, o.x, o.ldj, d, g);
  }
  CHECK(test_allocs == before);
  free(g);
  free(d);
  world_free(&o);
}

static void works_in_place(void) {
  atvi_flow_shape s = shape();
  world o = world_new(&s, 130, 0.1);
  double *v = numbers(4 * 130);
  memcpy(v, o.z, 4 * 130 * sizeof *v);
  atvi_flow_fwd(o.f, o.theta, o.w, 130, o.z, o.x, o.ldj);
  atvi_flow_fwd(o.f, o.theta, o.w, 130, v, v, o.ldj);
  for (int i = 0; i < 4 * 130; i++) CHECK(v[i] == o.x[i]);
  atvi_flow_inv(o.f, o.theta, o.w, 130, v, v, o.ldj);
  for (int i = 0; i < 4 * 130; i++) CHECK_ABS(v[i], o.z[i], 1e-10);
  free(v);
  world_free(&o);
}

static void survives_allocation_failure(void) {
  for (long n = 1;; n++) {
    atvi_ctx *ctx = test_ctx();
    const long live = test_live;
    atvi_flow_shape s = shape();
    atvi_flow *f = NULL;
    atvi_flow_work *w = NULL;
    test_fail_at = test_allocs + n;
    atvi_status status = atvi_flow_new(ctx, &s, &f);
    if (status == ATVI_OK) status = atvi_flow_work_new(ctx, f, 20, &w);
    test_fail_at = 0;
    if (status != ATVI_OK) {
      CHECK_STATUS(status, ATVI_ENOMEM);
      CHECK(w == NULL);
      CHECK(n > 1 || f == NULL);
    }
    atvi_flow_work_free(w);
    atvi_flow_free(f);
    CHECK(test_live == live);
    atvi_ctx_free(ctx);
    if (status == ATVI_OK) {
      CHECK_INT(n, 3);
      return;
    }
  }
}

static void refuses_wrong_shapes(void) {
  atvi_ctx *ctx = test_ctx();
  const atvi_flow_shape good = shape();
  atvi_flow_shape bad[11];
  for (int i = 0; i < 11; i++) bad[i] = good;
  bad[0].d = 0, bad[1].d = 4097, bad[2].layers = 0, bad[3].layers = 4097, bad[4].bins = 0, bad[5].bins = 65;
  bad[6].hidden = 0, bad[7].hidden = 4097, bad[8].box = 0, bad[9].box = NAN, bad[10].box = INFINITY;
  atvi_flow *f = (atvi_flow *)ctx;
  for (int i = 0; i < 11; i++) {
    CHECK_STATUS(atvi_flow_new(ctx, &bad[i], &f), ATVI_EINVAL);
    CHECK(f == NULL);
  }
  CHECK_STATUS(atvi_flow_new(ctx, NULL, &f), ATVI_EINVAL);
  CHECK(f == NULL);
  CHECK_OK(atvi_flow_new(ctx, &good, &f));
  atvi_flow_work *w = (atvi_flow_work *)ctx;
  CHECK_STATUS(atvi_flow_work_new(ctx, f, 0, &w), ATVI_EINVAL);
  CHECK(w == NULL);
  atvi_flow_free(f);
  atvi_flow_free(NULL);
  atvi_flow_work_free(NULL);
  atvi_ctx_free(ctx);
}

TESTS({"elementary_functions_are_right", elementary_functions_are_right},
      {"elementary_functions_at_special_points", elementary_functions_at_special_points},
      {"instruction_sets_agree", instruction_sets_agree}, {"the_seed_decides", the_seed_decides},
      {"steady_state_allocates_nothing", steady_state_allocates_nothing}, {"works_in_place", works_in_place},
      {"survives_allocation_failure", survives_allocation_failure},
      {"refuses_wrong_shapes", refuses_wrong_shapes})
