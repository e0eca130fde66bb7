/* SPDX-License-Identifier: MIT */
/* Adjoints against differences, and what they are for: learning dependence. */
#include "world.h"

enum { B = 11 };

/* A scalar function of a flow's results: sum of c x + e ldj over draws, weights fixed. */
typedef struct {
  double c[8 * B], e[B];
} functional;

static functional functional_at(uint64_t seed) {
  functional u;
  atvi_rng r = atvi_math_rng_at(seed, ATVI_STREAM_TEST, 1, 0);
  for (int i = 0; i < 8 * B; i++) u.c[i] = atvi_math_rng_normal(&r);
  for (int i = 0; i < B; i++) u.e[i] = atvi_math_rng_normal(&r);
  return u;
}

static double value(const world *o, const functional *u, bool inverse, const double *theta,
                    const double *in) {
  double out[8 * B], ldj[B], sum = 0;
  (inverse ? atvi_flow_inv : atvi_flow_fwd)(o->f, theta, o->w, B, in, out, ldj);
  for (atvi_idx i = 0; i < o->d * B; i++) sum += u->c[i] * out[i];
  for (int b = 0; b < B; b++) sum += u->e[b] * ldj[b];
  return sum;
}

/* Derivative by *x, fourth order: error h^4 times a fifth derivative, plus 1e-14 / h of rounding. */
static double slope_by(const world *o, const functional *u, bool inverse, double *x, const double *in) {
  const double h = 3e-5, was = *x;
  double v[4];
  for (int k = 0; k < 4; k++) {
    *x = was + h * (k < 2 ? k - 2 : k - 1);
    v[k] = value(o, u, inverse, o->theta, in);
  }
  *x = was;
  return (v[0] - 8 * v[1] + 8 * v[2] - v[3]) / (12 * h);
}

static double largest(atvi_idx n, const double *x) {
  double top = 0;
  for (atvi_idx i = 0; i < n; i++) top = fmax(top, fabs(x[i]));
  return top;
}

/* log dx/dz has a kink where a draw passes a knot, and differences are wrong across one. With these seeds at
 * most a few parameters move a draw that far; all others must agree. */
static void check_slopes(const world *o, const functional *u, bool inverse, double *at, const double *in,
                         atvi_idx n, const double *grad) {
  const double tol = 1e-6 * (1 + largest(n, grad));
  atvi_idx kinks = 0;
  for (atvi_idx i = 0; i < n; i++) {
    double want = slope_by(o, u, inverse, at + i, in);
    if (fabs(grad[i] - want) <= tol) continue;
    kinks++;
    CHECK_ABS(grad[i], want, 1e4 * tol);
  }
  CHECK_MSG(kinks * 200 <= n, "%td of %td slopes are wrong", kinks, n);
}

static void check_adjoint(const atvi_flow_shape *s, double spread, bool inverse) {
  world o = world_new(s, B, spread);
  functional u = functional_at(s->seed);
  double *dtheta = numbers(o.n), *again = numbers(o.n), *din = numbers(o.d * B);
  for (int isa = ATVI_ISA_BASE; isa <= (int)atvi_isa_best(); isa++) {
    atvi_flow_set_isa(o.f, (atvi_isa)isa);
    memset(dtheta, 0, (size_t)o.n * sizeof *dtheta);
    value(&o, &u, inverse, o.theta, o.z);
    if (inverse)
      atvi_flow_inv_vjp(o.f, o.theta, o.w, u.c, u.e, din, dtheta);
    else
      atvi_flow_fwd_vjp(o.f, o.theta, o.w, u.c, u.e, dtheta, din);
    if (isa == ATVI_ISA_BASE) {
      check_slopes(&o, &u, inverse, o.theta, o.z, o.n, dtheta);
      check_slopes(&o, &u, inverse, o.z, o.z, o.d * B, din);
      memcpy(again, dtheta, (size_t)o.n * sizeof *dtheta);
    } else {
      const double tol = 1e-10 * (1 + largest(o.n, again));
      for (atvi_idx i = 0; i < o.n; i++) CHECK_ABS(dtheta[i], again[i], tol);
    }
  }
  free(dtheta);
  free(again);
  free(din);
  world_free(&o);
}

static void each_shape(bool inverse) {
  const atvi_flow_shape shapes[] = {
      {.d = 1, .layers = 2, .bins = 4, .hidden = 5, .box = 3, .seed = 2},
      {.d = 2, .layers = 1, .bins = 1, .hidden = 1, .box = 2.3, .seed = 3},
      {.d = 3, .layers = 3, .bins = 4, .hidden = 6, .box = 3, .seed = 4},
      {.d = 5, .layers = 2, .bins = 7, .hidden = 3, .box = 3.4, .seed = 5},
      {.d = 7, .layers = 2, .bins = 2, .hidden = 19, .box = 2.7, .seed = 6},
  };
  for (int k = 0; k < 5; k++) check_adjoint(&shapes[k], 0.12, inverse);
}

static void forward_adjoint_is_the_slope(void) { each_shape(false); }
static void inverse_adjoint_is_the_slope(void) { each_shape(true); }

/* inv_vjp may follow fwd instead of inv: the record is the same up to the inverse's rounding. */
static void inverse_adjoint_follows_either(void) {
  atvi_flow_shape s = {.d = 4, .layers = 4, .bins = 4, .hidden = 9, .box = 3, .seed = 7};
  world o = world_new(&s, B, 0.06);
  functional u = functional_at(8);
  double *one = numbers(o.n), *two = numbers(o.n), dx[4 * B], dx2[4 * B], back[4 * B], ldj[B];
  atvi_flow_fwd(o.f, o.theta, o.w, B, o.z, o.x, o.ldj);
  atvi_flow_inv_vjp(o.f, o.theta, o.w, u.c, u.e, dx, one);
  atvi_flow_inv(o.f, o.theta, o.w, B, o.x, back, ldj);
  atvi_flow_inv_vjp(o.f, o.theta, o.w, u.c, u.e, dx2, two);
  for (int i = 0; i < 4 * B; i++) CHECK_ABS(dx[i], dx2[i], 1e-10 * (1 + largest(4 * B, dx)));
  for (atvi_idx i = 0; i < o.n; i++) CHECK_ABS(one[i], two[i], 1e-10 * (1 + largest(o.n, one)));
  free(one);
  free(two);
  world_free(&o);
}

/* With dz = -z and dldj = 1 the inverse's adjoint is the gradient of log q(x). */
static void gives_the_score(void) {
  atvi_flow_shape s = {.d = 3, .layers = 4, .bins = 4, .hidden = 9, .box = 3, .seed = 9};
  world o = world_new(&s, B, 0.06);
  double dz[3 * B], one[B], dx[3 * B], z[3 * B], lo[B], hi[B];
  atvi_flow_fwd(o.f, o.theta, o.w, B, o.z, o.x, o.ldj);
  for (int i = 0; i < 3 * B; i++) dz[i] = -o.z[i];
  for (int b = 0; b < B; b++) one[b] = 1;
  atvi_flow_inv_vjp(o.f, o.theta, o.w, dz, one, dx, NULL);
  const double h = 1e-6;
  for (int i = 0; i < 3; i++) {
    double *at[2] = {lo, hi};
    for (int side = 0; side < 2; side++) {
      for (int b = 0; b < B; b++) o.x[i * B + b] += side ? 2 * h : -h;
      atvi_flow_inv(o.f, o.theta, o.w, B, o.x, z, at[side]);
      for (int b = 0; b < B; b++)
        for (int j = 0; j < 3; j++) at[side][b] -= 0.5 * z[j * B + b] * z[j * B + b];
    }
    for (int b = 0; b < B; b++) o.x[i * B + b] -= h;
    for (int b = 0; b < B; b++)
      CHECK_ABS(dx[i * B + b], (hi[b] - lo[b]) / (2 * h), 1e-7 * (1 + fabs(dx[i * B + b])));
  }
  world_free(&o);
}

static void adjoints_accumulate_and_add_up(void) {
  atvi_flow_shape s = {.d = 3, .layers = 2, .bins = 3, .hidden = 4, .box = 3, .seed = 10};
  enum { N = 203 };
  world o = world_new(&s, N, 0.1);
  double *dx = numbers(3 * N), *e = numbers(N), *dz = numbers(3 * N);
  double *whole = numbers(o.n), *parts = numbers(o.n);
  atvi_rng r = atvi_math_rng_at(10, ATVI_STREAM_TEST, 2, 0);
  for (int i = 0; i < 3 * N; i++) dx[i] = atvi_math_rng_normal(&r);
  for (int i = 0; i < N; i++) e[i] = atvi_math_rng_normal(&r);
  atvi_flow_fwd(o.f, o.theta, o.w, N, o.z, o.x, o.ldj);
  atvi_flow_fwd_vjp(o.f, o.theta, o.w, dx, e, whole, NULL);
  atvi_flow_fwd_vjp(o.f, o.theta, o.w, dx, e, NULL, dz);
  for (int b = 0; b < N; b++) {
    double z[3], in[3], x[3], ldj, back[3];
    for (int i = 0; i < 3; i++) z[i] = o.z[i * N + b], in[i] = dx[i * N + b];
    atvi_flow_fwd(o.f, o.theta, o.w, 1, z, x, &ldj);
    atvi_flow_fwd_vjp(o.f, o.theta, o.w, in, e + b, parts, back);
    for (int i = 0; i < 3; i++) CHECK(back[i] == dz[i * N + b]);
  }
  for (atvi_idx i = 0; i < o.n; i++) CHECK_ABS(whole[i], parts[i], 1e-12 * (1 + largest(o.n, whole)));
  free(dx);
  free(e);
  free(dz);
  free(whole);
  free(parts);
  world_free(&o);
}

/* ---- a normal target in three dimensions, by its precision matrix; correlation of the first two -0.8 ---- */
static const double target_mean[3] = {0.7, -1.2, 0.3};
static const double target_sd[3] = {0.4, 1.6, 0.9};
/* correlations -0.8, 0.5, -0.3 (12, 13, 23); inverse of that matrix */
static double precision[3][3];

static void set_target(void) {
  const double a = -0.8, b = 0.5, c = -0.3, det = 1 + 2 * a * b * c - a * a - b * b - c * c;
  const double inv[3][3] = {{1 - c * c, b * c - a, a * c - b},
                            {b * c - a, 1 - b * b, a * b - c},
                            {a * c - b, a * b - c, 1 - a * a}};
  for (int i = 0; i < 3; i++)
    for (int j = 0; j < 3; j++) precision[i][j] = inv[i][j] / (det * target_sd[i] * target_sd[j]);
}

/* -log p (up to a constant) of n draws in all and, into dx, the gradient of its mean */
static double energy(atvi_idx n, const double *x, double *dx) {
  double sum = 0;
  for (atvi_idx b = 0; b < n; b++)
    for (int i = 0; i < 3; i++) {
      double g = 0;
      for (int j = 0; j < 3; j++) g += precision[i][j] * (x[j * n + b] - target_mean[j]);
      dx[i * n + b] = g / (double)n;
      sum += 0.5 * g * (x[i * n + b] - target_mean[i]);
    }
  return sum;
}

enum { DRAWS = 64, STEPS = 600, JUDGE = 4000 };

/* KL(q, p) up to a constant, over fresh draws; x[3][JUDGE] are left in the world. */
static double loss_of(world *o) {
  double *dx = numbers(3 * JUDGE), sum = 0;
  atvi_flow_fwd(o->f, o->theta, o->w, JUDGE, o->z, o->x, o->ldj);
  for (int b = 0; b < JUDGE; b++) {
    for (int i = 0; i < 3; i++) sum -= 0.5 * o->z[i * JUDGE + b] * o->z[i * JUDGE + b];
    sum -= o->ldj[b];
  }
  sum += energy(JUDGE, o->x, dx);
  free(dx);
  return sum / JUDGE;
}

static double correlation(const double *x, const double *y) {
  double mx = 0, my = 0, xx = 0, yy = 0, xy = 0;
  for (int b = 0; b < JUDGE; b++) mx += x[b] / JUDGE, my += y[b] / JUDGE;
  for (int b = 0; b < JUDGE; b++) {
    xx += (x[b] - mx) * (x[b] - mx);
    yy += (y[b] - my) * (y[b] - my);
    xy += (x[b] - mx) * (y[b] - my);
  }
  return xy / sqrt(xx * yy);
}

/* Gradient of the loss over DRAWS fresh draws of this step. */
static void gradient(world *o, uint32_t step, double *g) {
  double z[3 * DRAWS], x[3 * DRAWS], ldj[DRAWS], dx[3 * DRAWS], e[DRAWS];
  for (int b = 0; b < DRAWS; b++) {
    atvi_rng r = atvi_math_rng_at(77, ATVI_STREAM_TEST, step + 10, (uint32_t)b);
    for (int i = 0; i < 3; i++) z[i * DRAWS + b] = atvi_math_rng_normal(&r);
    e[b] = -1.0 / DRAWS;
  }
  memset(g, 0, (size_t)o->n * sizeof *g);
  atvi_flow_fwd(o->f, o->theta, o->w, DRAWS, z, x, ldj);
  energy(DRAWS, x, dx);
  atvi_flow_fwd_vjp(o->f, o->theta, o->w, dx, e, g, NULL);
}

static void learns_dependence(void) {
  atvi_flow_shape s = {.d = 3, .layers = 4, .bins = 4, .hidden = 16, .box = 3, .seed = 12};
  world o = world_new(&s, JUDGE, 0);
  atvi_rng r = atvi_math_rng_at(5, ATVI_STREAM_TEST, 3, 0);
  for (int i = 0; i < 3 * JUDGE; i++) o.z[i] = atvi_math_rng_normal(&r);
  double *g = numbers(o.n), *m = numbers(o.n), *v = numbers(o.n);
  set_target();
  gradient(&o, 0, g);
  /* At the start: the weights of z_0 and of each unit in the shift of position 1 already have slopes. */
  for (atvi_idx c = 1; c < o.f->cut[1]; c++) CHECK(fabs(g[o.f->out_at[1] + o.f->cut[1] + c]) > 1e-3);
  const double before = loss_of(&o);
  const long allocs = test_allocs;
  for (int k = 1; k <= STEPS; k++) {
    gradient(&o, (uint32_t)k, g);
    double rate = 0.01 * 0.5 * (1 + cos(3.14159 * k / STEPS));
    for (atvi_idx i = 0; i < o.n; i++) {
      m[i] = 0.9 * m[i] + 0.1 * g[i];
      v[i] = 0.99 * v[i] + 0.01 * g[i] * g[i];
      o.theta[i] -= rate * (m[i] / (1 - pow(0.9, k))) / (sqrt(v[i] / (1 - pow(0.99, k))) + 1e-8);
    }
  }
  CHECK(test_allocs == allocs); /* steady state allocates nothing */
  /* KL: loss minus its least, which is log of sqrt(det covariance) less 3/2 and so on; differences suffice */
  const double det = 1 + 2 * -0.8 * 0.5 * -0.3 - 0.64 - 0.25 - 0.09;
  const double least = -0.5 * log(det) - log(0.4 * 1.6 * 0.9);
  const double after = loss_of(&o);
  CHECK(before - least > 3);
  CHECK_ABS(after, least, 0.02);
  /* standard error of a correlation from 4000 draws: (1 - rho^2) / 63, below .015 */
  CHECK_ABS(correlation(o.x, o.x + JUDGE), -0.8, 0.025);
  CHECK_ABS(correlation(o.x, o.x + 2 * JUDGE), 0.5, 0.05);
  CHECK_ABS(correlation(o.x + JUDGE, o.x + 2 * JUDGE), -0.3, 0.05);
  free(g);
  free(m);
  free(v);
  world_free(&o);
}

TESTS({"forward_adjoint_is_the_slope", forward_adjoint_is_the_slope},
      {"inverse_adjoint_is_the_slope", inverse_adjoint_is_the_slope},
      {"inverse_adjoint_follows_either", inverse_adjoint_follows_either},
      {"gives_the_score", gives_the_score},
      {"adjoints_accumulate_and_add_up", adjoints_accumulate_and_add_up},
      {"learns_dependence", learns_dependence})
