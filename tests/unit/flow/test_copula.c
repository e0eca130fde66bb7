/* SPDX-License-Identifier: MIT */
/* The copula against closed forms, by quadrature, at its extremes, and in training. */
#include "flow/flow.h"
#include "math/rng.h"
#include "testing.h"

enum { MAX_SIZE = 64, ROOM = 4096 };
static const double no_h = -100; /* raw h so low that h = 0 */

typedef struct {
  atvi_ctx *ctx;
  atvi_copula *c;
  atvi_copula_work *w;
  atvi_idx d, k, n;
  double theta[MAX_SIZE];
  double *mu, *log_delta, *raw_g, *raw_h, *load; /* views into theta */
} world;

static void world_new(world *o, atvi_idx d, int k) {
  *o = (world){.ctx = test_ctx(), .d = d, .k = k};
  CHECK_OK(atvi_flow_copula_new(o->ctx, d, k, &o->c));
  CHECK_OK(atvi_flow_copula_work_new(o->ctx, o->c, ROOM, &o->w));
  o->n = atvi_flow_copula_size(o->c);
  CHECK(o->n <= MAX_SIZE);
  o->mu = o->theta;
  o->log_delta = o->mu + d;
  o->raw_g = o->log_delta + d;
  o->raw_h = o->raw_g + d;
  o->load = o->raw_h + d;
  atvi_flow_copula_init(o->c, o->theta);
}

static void world_free(world *o) {
  atvi_flow_copula_work_free(o->w);
  atvi_flow_copula_free(o->c);
  atvi_ctx_free(o->ctx);
  CHECK_INT(test_live, 0);
}

/* The raw value of which |g| < 4 makes g. */
static double raw_of_g(double g) { return g / sqrt(1 - g * g / 16); }

static double log_normal(double x, double mean, double var) {
  return -0.5 * ((x - mean) * (x - mean) / var + log(2 * acos(-1) * var));
}

static double log_q1(world *o, double x) {
  double q;
  atvi_flow_copula_log_q(o->c, o->theta, o->w, 1, &x, &q);
  return q;
}

/* With h = 0, 1 + g x is log-normal, and nothing lies beyond -1 / g. */
static void without_h_it_is_shifted_log_normal(void) {
  world o;
  world_new(&o, 1, 1);
  const double gs[] = {1.37, -0.62, 3.2, 1e-5, -1e-9, 0};
  o.mu[0] = 0.31, o.log_delta[0] = -0.4, o.load[0] = 0.57, o.raw_h[0] = no_h;
  const double var = exp(-0.8) + 0.57 * 0.57;
  for (int i = 0; i < 6; i++) {
    const double g = gs[i];
    o.raw_g[0] = raw_of_g(g);
    for (double x = -3.03; x < 3; x += 0.217) {
      if (1 + g * x <= 0) {
        CHECK(log_q1(&o, x) == -INFINITY);
        continue;
      }
      const double psi = g == 0 ? x : log1p(g * x) / g;
      const double want = log_normal(psi, 0.31, var) - log1p(g * x);
      CHECK_ABS(log_q1(&o, x), want, 1e-12 * (1 + fabs(want)));
    }
  }
  CHECK(isnan(log_q1(&o, NAN)));
  CHECK(log_q1(&o, INFINITY) == -INFINITY);
  world_free(&o);
}

/* g = h = 0 in two dimensions: a normal distribution with the covariance written out. */
static void without_g_and_h_it_is_normal(void) {
  world o;
  world_new(&o, 2, 1);
  o.raw_h[0] = o.raw_h[1] = no_h;
  o.mu[0] = 0.7, o.mu[1] = -1.3, o.log_delta[0] = -0.9, o.log_delta[1] = 0.2, o.load[0] = 0.83,
  o.load[1] = -0.46;
  const double a = exp(-1.8) + 0.83 * 0.83, c = exp(0.4) + 0.46 * 0.46, b = -0.83 * 0.46;
  const double det = a * c - b * b;
  for (int n = 0; n < 50; n++) {
    atvi_rng r = atvi_math_rng_at(6, ATVI_STREAM_TEST, 0, (uint32_t)n);
    double z[3], x[2], at, q;
    for (int i = 0; i < 3; i++) z[i] = 2 * atvi_math_rng_normal(&r);
    atvi_flow_copula_fwd(o.c, o.theta, o.w, 1, z, x, &at);
    CHECK_ABS(x[0], 0.7 + 0.83 * z[0] + exp(-0.9) * z[1], 1e-14);
    CHECK_ABS(x[1], -1.3 - 0.46 * z[0] + exp(0.2) * z[2], 1e-14);
    const double u = x[0] - 0.7, v = x[1] + 1.3;
    const double want =
        -0.5 * (c * u * u - 2 * b * u * v + a * v * v) / det - log(2 * acos(-1)) - 0.5 * log(det);
    atvi_flow_copula_log_q(o.c, o.theta, o.w, 1, x, &q);
    CHECK_ABS(at, want, 1e-12 * (1 + fabs(want)));
    CHECK_ABS(q, want, 1e-12 * (1 + fabs(want)));
  }
  world_free(&o);
}

/* Integral over x = sinh(s): the trapezoid rule converges exponentially for smooth functions on the whole
 * line; beyond
 * |s| = 30 there is nothing left of tails as heavy as these. */
static void density_in_one_dimension_integrates_to_one(void) {
  const double gs[] = {0, 0.8, -2.1, 0.4}, hs[] = {0, 0.1, 0.35, 0.6};
  enum { N = 2001 };
  world o;
  world_new(&o, 1, 1);
  double x[N], q[N];
  for (int k = 0; k < 4; k++) {
    double sum = 0;
    o.mu[0] = 0.23 * k, o.log_delta[0] = -0.3, o.load[0] = 0.5;
    o.raw_g[0] = gs[k], o.raw_h[0] = hs[k];
    for (int i = 0; i < N; i++) x[i] = sinh(0.03 * (i - N / 2));
    atvi_flow_copula_log_q(o.c, o.theta, o.w, N, x, q);
    for (int i = 0; i < N; i++) sum += 0.03 * exp(q[i]) * cosh(0.03 * (i - N / 2));
    CHECK_ABS(sum, 1, 1e-9);
  }
  world_free(&o);
}

static void density_in_two_dimensions_integrates_to_one(void) {
  enum { N = 501 };
  const double h = 0.04;
  world o;
  world_new(&o, 2, 2);
  const double theta[] = {0.2, -0.4, -0.5, -0.2, 0.5, -0.3, 0.1, 0.25, 0.6, 0.1, -0.5, 0.3};
  memcpy(o.theta, theta, sizeof theta);
  double x[2 * N], q[N], sum = 0;
  for (int i = 0; i < N; i++) {
    for (int j = 0; j < N; j++) {
      x[j] = sinh(h * (i - N / 2));
      x[N + j] = sinh(h * (j - N / 2));
    }
    atvi_flow_copula_log_q(o.c, o.theta, o.w, N, x, q);
    for (int j = 0; j < N; j++) sum += h * h * exp(q[j]) * cosh(h * (i - N / 2)) * cosh(h * (j - N / 2));
  }
  CHECK_ABS(sum, 1, 1e-9);
  world_free(&o);
}

/* g and h all over their range, psi up to eight deviations: fwd is finite, its slopes too, and log_q finds
 * the way back wherever the margin is not so flat that x has lost psi: an error of 1e-16 |x| in x is one of
 * that over dx/dpsi in psi. */
static void inverts_over_the_whole_range(void) {
  world o;
  world_new(&o, 1, 1);
  atvi_idx back = 0, all = 0;
  for (double g = -40; g <= 40; g += 3.97)
    for (double h = -0.5; h < 8; h = h < 0.5 ? h + 0.083 : 2 * h)
      for (double z = -8; z <= 8; z += 0.59, all++) {
        double in[2] = {0, z}, x, q, s, theta[5] = {0}, dx = 1, e = 1;
        o.raw_g[0] = g, o.raw_h[0] = h, o.load[0] = 0.1, o.log_delta[0] = 0;
        atvi_flow_copula_fwd(o.c, o.theta, o.w, 1, in, &x, &q);
        atvi_flow_copula_score(o.c, o.w, &s);
        atvi_flow_copula_vjp(o.c, o.theta, o.w, &dx, &e, theta);
        CHECK(isfinite(x) && isfinite(q) && isfinite(s));
        for (int i = 0; i < 5; i++) CHECK(isfinite(theta[i]));
        CHECK(x == 0 || (x > 0) == (z > 0));
        /* log dx/dpsi = log N(z) - log q, up to the factor's share */
        const double slope = exp(log_normal(z, 0, 1.01) - q), lost = 1e-15 * fabs(x) / slope;
        if (lost > 1e-10) continue;
        back++;
        CHECK_ABS(log_q1(&o, x), q, 1e-12 * (1 + fabs(q)) + 100 * lost * (1 + fabs(z)));
      }
  CHECK_MSG(back * 100 > 90 * all, "%td of %td", back, all);
  world_free(&o);
}

/* Far beyond any use: x is held, nothing becomes infinite or NaN. */
static void stays_finite_when_absurd(void) {
  world o;
  world_new(&o, 1, 1);
  o.raw_h[0] = 50, o.raw_g[0] = 50, o.log_delta[0] = 3;
  double z[2 * 2] = {0, 0, 8, -8}, x[2], q[2], g[5] = {0}, dx[2] = {0, 0}, e[2] = {-1, -1}, s[2];
  atvi_flow_copula_fwd(o.c, o.theta, o.w, 2, z, x, q);
  CHECK(x[0] > 1e250 && isfinite(x[0]) && x[1] < -1e250 && isfinite(x[1]));
  CHECK(isfinite(q[0]) && isfinite(q[1]));
  atvi_flow_copula_vjp(o.c, o.theta, o.w, dx, e, g);
  for (int i = 0; i < 5; i++) CHECK(isfinite(g[i]));
  atvi_flow_copula_score(o.c, o.w, s);
  CHECK(s[0] == 0 && s[1] == 0);
  world_free(&o);
}

/* Two coordinates tied together up to 1e-6: the usual form of Woodbury loses twelve digits, ours none that x
 * has. A third factor parallel to the others would break an unguarded Cholesky. */
static void strong_dependence_is_accurate(void) {
  world o;
  world_new(&o, 3, 3);
  for (int i = 0; i < 3; i++) {
    o.log_delta[i] = log(1e-6), o.raw_h[i] = no_h;
    for (int j = 0; j < 3; j++) o.load[i * 3 + j] = 1;
  }
  /* Sigma = 3 J + 1e-12 I, J all ones: eigenvalues 9 (and 1e-12 more) and 1e-12 twice */
  double z[6] = {0.3, -1.1, 0.8, 0.42, -1.7, 0.94}, x[3], q, again;
  atvi_flow_copula_fwd(o.c, o.theta, o.w, 1, z, x, &q);
  const double mean = (z[3] + z[4] + z[5]) / 3, centre = z[0] + z[1] + z[2] + 1e-6 * mean;
  double quad = 3 * centre * centre / (9 + 1e-12);
  for (int i = 3; i < 6; i++) quad += (z[i] - mean) * (z[i] - mean);
  const double want = -0.5 * (quad + log(9) + 2 * log(1e-12) + 3 * log(2 * acos(-1)));
  /* M is of size 1e13 with two eigenvalues 1: their rounding is 1e-3 */
  CHECK_ABS(q, want, 0.02);
  atvi_flow_copula_log_q(o.c, o.theta, o.w, 1, x, &again);
  CHECK_ABS(again, want, 0.02);
  for (int j = 0; j < 9; j++) o.load[j] = j % 3 == 0; /* one factor only: no rounding to speak of */
  atvi_flow_copula_fwd(o.c, o.theta, o.w, 1, z, x, &q);
  const double alone = z[0] + 1e-6 * mean;
  quad = 3 * alone * alone / (3 + 1e-12);
  for (int i = 3; i < 6; i++) quad += (z[i] - mean) * (z[i] - mean);
  CHECK_ABS(q, -0.5 * (quad + log(3 + 1e-12) + 2 * log(1e-12) + 3 * log(2 * acos(-1))), 1e-9);
  world_free(&o);
}

static void starts_with_unit_variances(void) {
  world o;
  world_new(&o, 5, 3);
  double again[MAX_SIZE], off = 0;
  atvi_flow_copula_init(o.c, again);
  CHECK(memcmp(again, o.theta, (size_t)o.n * sizeof *again) == 0);
  for (int i = 0; i < 5; i++) {
    double var = exp(2 * o.log_delta[i]);
    for (int j = 0; j < 3; j++) var += o.load[i * 3 + j] * o.load[i * 3 + j];
    CHECK_ABS(var, 1, 1e-14);
    CHECK(o.mu[i] == 0 && o.raw_g[i] == 0);
    for (int j = 0; j < 3; j++) off = fmax(off, fabs(o.load[i * 3 + j]));
  }
  CHECK(off > 0.05 && off < 0.4);
  /* h = 0.001: at z with psi = 2, x = 2 e^{0.002} */
  double z[8] = {0}, x[5], q;
  z[3] = 2 / exp(o.log_delta[0]);
  atvi_flow_copula_fwd(o.c, o.theta, o.w, 1, z, x, &q);
  CHECK_REL(x[0], 2 * exp(0.002), 1e-6);
  world_free(&o);
}

/* ---- training on a target that the family contains ---- */

enum { DRAWS = 64, STEPS = 1500 };

/* x1 = e^{u1} - 1, x2 = u2, u normal with deviations 0.5 and 0.8 and correlation -0.9; log density and
 * gradient. */
static double target(double x1, double x2, double *d1, double *d2) {
  const double r = -0.9, u = log1p(x1) / 0.5, v = x2 / 0.8, c = 1 - r * r;
  const double du = -(u - r * v) / c, dv = -(v - r * u) / c;
  *d1 = (du / 0.5 - 1) / (1 + x1);
  *d2 = dv / 0.8;
  return -0.5 * (u * u - 2 * r * u * v + v * v) / c - log(2 * acos(-1) * 0.4 * sqrt(c)) - log1p(x1);
}

/* Gradient of -ELBO by fresh draws; the ELBO is given back. Draws the target has no mass at are left out. */
static double elbo(world *o, uint32_t step, double *g) {
  double z[3 * DRAWS], x[2 * DRAWS], q[DRAWS], dx[2 * DRAWS] = {0}, e[DRAWS] = {0}, sum = 0;
  int n = 0;
  atvi_rng r = atvi_math_rng_at(9, ATVI_STREAM_TEST, step, 0);
  for (int i = 0; i < 3 * DRAWS; i++) z[i] = atvi_math_rng_normal(&r);
  atvi_flow_copula_fwd(o->c, o->theta, o->w, DRAWS, z, x, q);
  for (int b = 0; b < DRAWS; b++) {
    if (x[b] <= -0.999) continue;
    double d1, d2, p = target(x[b], x[DRAWS + b], &d1, &d2);
    sum += p - q[b];
    dx[b] = -d1 / DRAWS, dx[DRAWS + b] = -d2 / DRAWS, e[b] = 1.0 / DRAWS;
    n++;
  }
  memset(g, 0, MAX_SIZE * sizeof *g);
  atvi_flow_copula_vjp(o->c, o->theta, o->w, dx, e, g);
  return sum / n;
}

static void learns_dependence_and_shape(void) {
  world o;
  world_new(&o, 2, 1);
  double g[MAX_SIZE], m[MAX_SIZE] = {0}, v[MAX_SIZE] = {0}, mean = 0;
  for (int k = 1; k <= STEPS; k++) {
    elbo(&o, (uint32_t)k, g);
    const double rate = 0.01 * (1 + cos(3.14159 * k / STEPS));
    double norm = 0;
    for (int i = 0; i < o.n; i++) norm += g[i] * g[i];
    for (int i = 0; i < o.n; i++) {
      g[i] /= fmax(1, sqrt(norm) / 10);
      m[i] = 0.9 * m[i] + 0.1 * g[i];
      v[i] = 0.99 * v[i] + 0.01 * g[i] * g[i];
      o.theta[i] -= rate * (m[i] / (1 - pow(0.9, k))) / (sqrt(v[i] / (1 - pow(0.99, k))) + 1e-8);
    }
  }
  for (int k = 0; k < 20; k++) mean += elbo(&o, (uint32_t)(STEPS + 1 + k), g) / 20;
  CHECK_ABS(mean, 0, 0.01); /* the target is normalised: minus the divergence */
  CHECK_ABS(o.raw_g[0], raw_of_g(1), 0.1);
  CHECK_ABS(o.raw_g[1], 0, 0.1);
  const double s1 = hypot(exp(o.log_delta[0]), o.load[0]), s2 = hypot(exp(o.log_delta[1]), o.load[1]);
  CHECK_REL(s1, 0.5, 0.06);
  CHECK_REL(s2, 0.8, 0.06);
  CHECK_ABS(o.load[0] * o.load[1] / (s1 * s2), -0.9, 0.02);
  world_free(&o);
}

static void refuses_wrong_calls(void) {
  atvi_ctx *ctx = test_ctx();
  const atvi_idx d[] = {0, -3, 4097, 3, 3, 3};
  const int k[] = {1, 1, 1, 0, -1, 4};
  for (int i = 0; i < 6; i++) {
    atvi_copula *c = (atvi_copula *)ctx;
    CHECK_STATUS(atvi_flow_copula_new(ctx, d[i], k[i], &c), ATVI_EINVAL);
    CHECK(c == NULL);
  }
  atvi_copula *c;
  atvi_copula_work *w = (atvi_copula_work *)ctx;
  CHECK_OK(atvi_flow_copula_new(ctx, 4096, 4096, &c));
  CHECK_INT(atvi_flow_copula_size(c), 4096 * 4100);
  CHECK_STATUS(atvi_flow_copula_work_new(ctx, c, 0, &w), ATVI_EINVAL);
  CHECK(w == NULL);
  atvi_flow_copula_free(c);
  test_fail_at = test_allocs + 1;
  CHECK_STATUS(atvi_flow_copula_new(ctx, 2, 1, &c), ATVI_ENOMEM);
  CHECK(c == NULL);
  test_fail_at = 0;
  CHECK_OK(atvi_flow_copula_new(ctx, 2, 1, &c));
  test_fail_at = test_allocs + 1;
  CHECK_STATUS(atvi_flow_copula_work_new(ctx, c, 5, &w), ATVI_ENOMEM);
  CHECK(w == NULL);
  atvi_flow_copula_free(c);
  atvi_flow_copula_free(NULL);
  atvi_flow_copula_work_free(NULL);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

TESTS({"log_normal", without_h_it_is_shifted_log_normal}, {"normal", without_g_and_h_it_is_normal},
      {"one", density_in_one_dimension_integrates_to_one},
      {"two", density_in_two_dimensions_integrates_to_one}, {"range", inverts_over_the_whole_range},
      {"absurd", stays_finite_when_absurd}, {"dependence", strong_dependence_is_accurate},
      {"start", starts_with_unit_variances}, {"learns", learns_dependence_and_shape},
      {"refuses", refuses_wrong_calls})
