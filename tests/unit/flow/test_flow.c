/* SPDX-License-Identifier: MIT */
/* Values, inverse, density and structure of flows. */
#include "reference.h"
#include "world.h"
#include <float.h>

static atvi_flow_shape small(atvi_idx d, uint64_t seed) {
  return (atvi_flow_shape){.d = d, .layers = 3, .bins = 4, .hidden = 7, .box = 3.1, .seed = seed};
}

static void starts_at_the_identity(void) {
  for (atvi_idx d = 1; d <= 11; d += 5) {
    for (int isa = ATVI_ISA_BASE; isa <= (int)atvi_isa_best(); isa++) {
      atvi_flow_shape s = atvi_flow_defaults(d);
      world o = world_new(&s, 37, 0);
      atvi_flow_set_isa(o.f, (atvi_isa)isa);
      atvi_flow_fwd(o.f, o.theta, o.w, 37, o.z, o.x, o.ldj);
      for (atvi_idx i = 0; i < d * 37; i++) CHECK_ABS(o.x[i], o.z[i], 1e-15);
      for (atvi_idx b = 0; b < 37; b++) CHECK_ABS(o.ldj[b], 0, 1e-15);
      CHECK(atvi_flow_is_identity(o.f, o.theta));
      world_free(&o);
      o = world_new(&s, 8, 1e-9);
      CHECK(!atvi_flow_is_identity(o.f, o.theta));
      world_free(&o);
    }
  }
}

/* Each output of the networks counts, however small and wherever it stands, and the sign of a zero does not. */
static void one_number_ends_the_identity(void) {
  for (atvi_idx d = 1; d <= 11; d += 5) {
    atvi_flow_shape s = atvi_flow_defaults(d);
    world o = world_new(&s, 1, 0);
    atvi_idx outputs = 0;
    for (atvi_idx i = 0; i < o.n; i++) {
      const double was = o.theta[i];
      if (was != 0) continue; /* weights inside */
      o.theta[i] = 1;
      const bool output = !atvi_flow_is_identity(o.f, o.theta);
      o.theta[i] = DBL_MIN;
      CHECK(atvi_flow_is_identity(o.f, o.theta) != output);
      o.theta[i] = -0.0;
      CHECK(atvi_flow_is_identity(o.f, o.theta));
      o.theta[i] = was;
      outputs += output;
    }
    CHECK(outputs > 20);
    world_free(&o);
  }
}

/* Rounding of some tens of operations per layer, amplified by slopes of up to a few hundred. */
static void agrees_with_the_reference(void) {
  for (uint64_t seed = 1; seed <= 6; seed++) {
    for (int bins = 1; bins <= 9; bins += 4) {
      atvi_flow_shape s = small(1 + (atvi_idx)seed, seed);
      s.bins = bins;
      world o = world_new(&s, 45, 0.4);
      for (int isa = ATVI_ISA_BASE; isa <= (int)atvi_isa_best(); isa++) {
        atvi_flow_set_isa(o.f, (atvi_isa)isa);
        atvi_flow_fwd(o.f, o.theta, o.w, 45, o.z, o.x, o.ldj);
        for (atvi_idx b = 0; b < 45; b++) {
          double z[8], x[8];
          for (atvi_idx i = 0; i < o.d; i++) z[i] = o.z[i * 45 + b];
          double ldj = ref_fwd(o.f, o.theta, z, x);
          CHECK_ABS(o.ldj[b], ldj, 1e-11 * (1 + fabs(ldj)));
          for (atvi_idx i = 0; i < o.d; i++) CHECK_ABS(o.x[i * 45 + b], x[i], 1e-11 * (1 + fabs(x[i])));
        }
      }
      world_free(&o);
    }
  }
}

/* The inverse is as good as the flow is well-conditioned: errors grow with the slopes of the coordinates
 * before. So wild parameters go with few coordinates and layers, and mild ones with many. */
static void inverse_undoes_forward(void) {
  const struct {
    int layers;
    atvi_idx d;
    double spread;
  } cases[] = {{6, 9, 0},    {1, 1, 2},   {6, 1, 0.6},  {1, 3, 0.6},
               {1, 5, 0.15}, {6, 3, 0.1}, {6, 5, 0.08}, {6, 9, 0.05}};
  for (int k = 0; k < 8; k++) {
    atvi_idx d = cases[k].d;
    atvi_flow_shape s = small(d, 11 + (uint64_t)d);
    s.layers = cases[k].layers;
    world o = world_new(&s, 100, cases[k].spread);
    double *back = numbers(d * 100), *ldj = numbers(100);
    for (int isa = ATVI_ISA_BASE; isa <= (int)atvi_isa_best(); isa++) {
      atvi_flow_set_isa(o.f, (atvi_isa)isa);
      atvi_flow_fwd(o.f, o.theta, o.w, 100, o.z, o.x, o.ldj);
      atvi_flow_inv(o.f, o.theta, o.w, 100, o.x, back, ldj);
      for (atvi_idx i = 0; i < d * 100; i++) CHECK_ABS(back[i], o.z[i], 1e-10);
      for (atvi_idx b = 0; b < 100; b++) CHECK_ABS(ldj[b], -o.ldj[b], 1e-10 * (1 + fabs(o.ldj[b])));
    }
    free(back);
    free(ldj);
    world_free(&o);
  }
}

/* log |det a|, a[n][n] spoilt */
static double log_det(atvi_idx n, double *a) {
  double sum = 0;
  for (atvi_idx k = 0; k < n; k++) {
    atvi_idx top = k;
    for (atvi_idx i = k + 1; i < n; i++)
      if (fabs(a[i * n + k]) > fabs(a[top * n + k])) top = i;
    for (atvi_idx j = 0; j < n; j++) {
      double was = a[k * n + j];
      a[k * n + j] = a[top * n + j];
      a[top * n + j] = was;
    }
    sum += log(fabs(a[k * n + k]));
    for (atvi_idx i = k + 1; i < n; i++) {
      double m = a[i * n + k] / a[k * n + k];
      for (atvi_idx j = k; j < n; j++) a[i * n + j] -= m * a[k * n + j];
    }
  }
  return sum;
}

/* jac[d][d] = dx/dz at z by central differences of fourth order; error about 1e-10 */
static void jacobian(const world *o, const double *z, double *jac) {
  const double h = 2e-4, weight[4] = {1.0 / 12, -2.0 / 3, 2.0 / 3, -1.0 / 12}, at[4] = {-2, -1, 1, 2};
  const atvi_idx d = o->d, B = 4 * d;
  double *zs = numbers(d * B), *xs = numbers(d * B), *ldj = numbers(B);
  for (atvi_idx j = 0; j < d; j++)
    for (int k = 0; k < 4; k++)
      for (atvi_idx i = 0; i < d; i++) zs[i * B + 4 * j + k] = z[i] + (i == j ? at[k] * h : 0);
  atvi_flow_fwd(o->f, o->theta, o->w, B, zs, xs, ldj);
  for (atvi_idx j = 0; j < d; j++)
    for (atvi_idx i = 0; i < d; i++) {
      double sum = 0;
      for (int k = 0; k < 4; k++) sum += weight[k] * xs[i * B + 4 * j + k];
      jac[i * d + j] = sum / h;
    }
  free(zs);
  free(xs);
  free(ldj);
}

static void log_determinant_is_that_of_the_jacobian(void) {
  const atvi_idx dims[] = {1, 3, 5};
  for (int k = 0; k < 3; k++) {
    atvi_flow_shape s = small(dims[k], 23);
    world o = world_new(&s, 24, 0.15);
    int close = 0;
    for (int b = 0; b < 24; b++) {
      double jac[25], z[5], x[5], ldj;
      for (atvi_idx i = 0; i < o.d; i++) z[i] = o.z[i * 24 + b];
      jacobian(&o, z, jac);
      atvi_flow_fwd(o.f, o.theta, o.w, 1, z, x, &ldj);
      double err = fabs(log_det(o.d, jac) - ldj);
      CHECK_ABS(err, 0, 1e-2); /* the second derivative jumps at knots, where differences are of low order */
      close += err < 1e-7;
    }
    CHECK(close >= 20);
    world_free(&o);
  }
}

/* Integral of the density over a grid in x: midpoints of a function that vanishes at the ends. Its kinks at
 * knots leave an error of the order of the step squared. */
static double mass(world *o, double half, atvi_idx n) {
  const atvi_idx d = o->d;
  double step = 2 * half / (double)n, sum = 0;
  double *x = numbers(d * n), *z = numbers(d * n), *ldj = numbers(n);
  for (atvi_idx row = 0; row < (d == 1 ? 1 : n); row++) {
    for (atvi_idx b = 0; b < n; b++) {
      x[b] = -half + step * ((double)b + 0.5);
      if (d == 2) x[n + b] = -half + step * ((double)row + 0.5);
    }
    atvi_flow_inv(o->f, o->theta, o->w, n, x, z, ldj);
    for (atvi_idx b = 0; b < n; b++) {
      double square = z[b] * z[b] + (d == 2 ? z[n + b] * z[n + b] : 0);
      sum += exp(ldj[b] - 0.5 * square - (double)d * 0.91893853320467274178);
    }
  }
  free(x);
  free(z);
  free(ldj);
  return sum * pow(step, (double)d);
}

static void density_integrates_to_one(void) {
  for (uint64_t seed = 31; seed < 34; seed++) {
    atvi_flow_shape s = small(1, seed);
    world o = world_new(&s, 8000, 0.3);
    CHECK_ABS(mass(&o, 60, 8000), 1, 1e-4);
    world_free(&o);
    s = small(2, seed);
    s.layers = 2;
    o = world_new(&s, 1500, 0.2);
    CHECK_ABS(mass(&o, 30, 1500), 1, 1e-3);
    world_free(&o);
  }
}

/* One layer: dx/dz in the order of positions is lower triangular, and what may be there is there. */
static void a_layer_is_autoregressive(void) {
  for (int layers = 1; layers <= 4; layers++) {
    atvi_flow_shape s = small(5, 41);
    s.layers = layers;
    world o = world_new(&s, 40, 0.4);
    double jac[25];
    for (atvi_idx i = 0; i < (layers - 1) * o.f->per_layer; i++)
      o.theta[i] = 0; /* the identity up to the last */
    jacobian(&o, (double[]){0.31, -0.82, 1.13, 0.47, -0.29}, jac);
    const int32_t *order = o.f->order + (layers - 1) * 5;
    for (int i = 0; i < 5; i++)
      for (int j = 0; j < 5; j++) {
        double entry = jac[order[i] * 5 + order[j]];
        if (j > i) CHECK_ABS(entry, 0, 1e-11); /* rounding over the step: 1e-15 / 2e-4 */
        if (j == i) CHECK(entry > 0);
        if (j < i) CHECK(fabs(entry) > 1e-4);
      }
    world_free(&o);
  }
}

static void orders_alternate(void) {
  atvi_flow_shape s = small(9, 43);
  s.layers = 6;
  world o = world_new(&s, 1, 0);
  for (int k = 0; k < 6; k++) {
    const int32_t *order = o.f->order + k * 9;
    unsigned seen = 0;
    for (int i = 0; i < 9; i++) seen |= 1u << order[i];
    CHECK_INT(seen, 511);
    if (k % 2)
      for (int i = 0; i < 9; i++) CHECK_INT(order[i], order[-1 - i]);
  }
  CHECK(memcmp(o.f->order + 18, o.f->order + 36, 9 * sizeof *o.f->order) != 0);
  world_free(&o);
}

/* Bit for bit the same alone, in any batch, in any place. */
static void a_draw_does_not_feel_its_batch(void) {
  atvi_flow_shape s = small(4, 47);
  world o = world_new(&s, 150, 0.4);
  double *back = numbers(4 * 150), *dx = numbers(4 * 150), *dz = numbers(4 * 150), *one = numbers(150);
  for (int isa = ATVI_ISA_BASE; isa <= (int)atvi_isa_best(); isa++) {
    atvi_flow_set_isa(o.f, (atvi_isa)isa);
    for (int i = 0; i < 150; i++) one[i] = 0.7;
    for (int i = 0; i < 600; i++) dx[i] = o.z[(i * 7) % 600];
    atvi_flow_fwd(o.f, o.theta, o.w, 150, o.z, o.x, o.ldj);
    atvi_flow_fwd_vjp(o.f, o.theta, o.w, dx, one, NULL, dz);
    for (int b = 0; b < 150; b += 13) {
      for (int B = 1; B <= 10; B += 3) {
        double z[40], x[40], ldj[10], in[40], g[40];
        for (int i = 0; i < 4 * B; i++) z[i] = NAN, in[i] = NAN;
        for (int i = 0; i < 4; i++) z[i * B + B - 1] = o.z[i * 150 + b], in[i * B + B - 1] = dx[i * 150 + b];
        atvi_flow_fwd(o.f, o.theta, o.w, B, z, x, ldj);
        atvi_flow_fwd_vjp(o.f, o.theta, o.w, in, one, NULL, g);
        CHECK(ldj[B - 1] == o.ldj[b]);
        for (int i = 0; i < 4; i++) CHECK(x[i * B + B - 1] == o.x[i * 150 + b]);
        for (int i = 0; i < 4; i++) CHECK(g[i * B + B - 1] == dz[i * 150 + b]);
      }
    }
    atvi_flow_inv(o.f, o.theta, o.w, 150, o.x, back, o.ldj);
    for (int b = 0; b < 150; b += 13) {
      double x[4], z[4], ldj;
      for (int i = 0; i < 4; i++) x[i] = o.x[i * 150 + b];
      atvi_flow_inv(o.f, o.theta, o.w, 1, x, z, &ldj);
      CHECK(ldj == o.ldj[b]);
      for (int i = 0; i < 4; i++) CHECK(z[i] == back[i * 150 + b]);
    }
  }
  free(back);
  free(dx);
  free(dz);
  free(one);
  world_free(&o);
}

/* Spread 4 drives the scale to its bound, bins to their smallest and slopes to theirs; draws stay finite,
 * even far out. */
static void nothing_explodes(void) {
  atvi_flow_shape s = small(3, 53);
  s.layers = 6;
  world o = world_new(&s, 64, 4);
  o.z[5] = 1e9, o.z[70] = -1e12, o.z[130] = 3.1, o.z[131] = -3.1, o.z[132] = 0;
  atvi_flow_fwd(o.f, o.theta, o.w, 64, o.z, o.x, o.ldj);
  for (int i = 0; i < 3 * 64; i++) CHECK(isfinite(o.x[i]));
  for (int b = 0; b < 64; b++) CHECK(isfinite(o.ldj[b]));
  world_free(&o);
}

static void default_shapes_grow_with_d(void) {
  atvi_flow_shape a = atvi_flow_defaults(3), b = atvi_flow_defaults(10);
  CHECK_INT(a.layers, 6);
  CHECK_INT(a.bins, 4);
  CHECK_INT(a.hidden, 16);
  CHECK_INT(b.hidden, 32);
  CHECK_INT(b.d, 10);
}

static void layers_partition_theta(void) {
  atvi_flow_shape s = small(6, 59);
  world o = world_new(&s, 16, 0.3);
  double *x = numbers(6 * 16);
  atvi_idx next = 0;
  for (int k = 0; k < 3; k++) {
    atvi_idx first, last;
    atvi_flow_layer(o.f, k, &first, &last);
    CHECK_INT(first, next);
    CHECK(last > first);
    next = last;
  }
  CHECK_INT(next, o.n);
  /* rows [13] times cuts of 6 positions, then 7 units of degrees 1 to 5 */
  atvi_idx cuts = 0, units = 0, weights = 0;
  for (int i = 0; i < 6; i++) {
    cuts += 1 + i + units;
    units += o.f->units[i];
    weights += o.f->units[i] * (i + 2);
  }
  CHECK_INT(units, 7);
  CHECK_INT(o.n, 3 * (13 * cuts + weights));
  free(x);
  world_free(&o);
}

TESTS({"starts_at_the_identity", starts_at_the_identity},
      {"one_number_ends_the_identity", one_number_ends_the_identity},
      {"agrees_with_the_reference", agrees_with_the_reference},
      {"inverse_undoes_forward", inverse_undoes_forward},
      {"log_determinant_is_that_of_the_jacobian", log_determinant_is_that_of_the_jacobian},
      {"density_integrates_to_one", density_integrates_to_one},
      {"a_layer_is_autoregressive", a_layer_is_autoregressive}, {"orders_alternate", orders_alternate},
      {"a_draw_does_not_feel_its_batch", a_draw_does_not_feel_its_batch},
      {"nothing_explodes", nothing_explodes}, {"default_shapes_grow_with_d", default_shapes_grow_with_d},
      {"layers_partition_theta", layers_partition_theta})
