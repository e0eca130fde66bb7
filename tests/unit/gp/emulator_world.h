/* SPDX-License-Identifier: MIT */
/* Runs of a made-up simulator, and the emulator's formulas by plain loops over dense matrices. */
#ifndef ATVI_TEST_EMULATOR_WORLD_H
#define ATVI_TEST_EMULATOR_WORLD_H

#include "gp/emulator.h"
#include "math/linalg.h"
#include "math/rng.h"
#include "math/sobol.h"
#include "testing.h"

enum { G = ATVI_EM_GROUP, MOST_D = 8 };

typedef struct {
  atvi_em_runs runs;
  double *x, *y, *time;
} world;

/* A wave that comes earlier and higher with the inputs, in three of them at most nonlinear. */
static TEST_UNUSED double simulator(atvi_idx d, const double *x, double s) {
  double a = 1.3 * x[0] - 0.4, b = d > 1 ? x[1] : 0.3, c = d > 2 ? x[2] : 0.6;
  return 7.3 + 2.1 * sin(3.1 * s + 2.3 * a) * (1 + b) + 1.7 * c * c * s + 0.3 * cos(5 * a * b);
}

/* irregular: time points that are not evenly spaced. */
static TEST_UNUSED world world_new(atvi_idx n, atvi_idx d, atvi_idx m, bool irregular) {
  world w = {.runs = {.n = n, .d = d, .m = m}};
  w.x = calloc((size_t)(n * d), sizeof *w.x);
  w.y = calloc((size_t)(n * m), sizeof *w.y);
  w.time = calloc((size_t)m, sizeof *w.time);
  double u[MOST_D];
  for (atvi_idx t = 0; t < m; t++)
    w.time[t] = 2.5 + 0.75 * (double)t + (irregular ? 0.31 * sin(1.9 * (double)t) : 0);
  for (atvi_idx i = 0; i < n; i++) {
    atvi_math_sobol_uniform((atvi_sobol){.seed = 5, .stream = ATVI_STREAM_TEST}, i, d, 1, u);
    for (atvi_idx j = 0; j < d; j++) w.x[i * d + j] = u[j];
    for (atvi_idx t = 0; t < m; t++) w.y[i * m + t] = simulator(d, u, w.time[t] / (2.5 + 0.75 * (double)m));
  }
  w.runs.x = w.x, w.runs.y = w.y, w.runs.time = w.time;
  return w;
}

static TEST_UNUSED void world_free(world *w) {
  free(w->x);
  free(w->y);
  free(w->time);
}

static TEST_UNUSED double dense_corr(atvi_em_kernel kind, atvi_idx d, const double *length, const double *x,
                                     const double *y) {
  double k = 1;
  for (atvi_idx j = 0; j < d; j++) {
    double h = fabs(x[j] - y[j]) / length[j], a = sqrt(3.0) * h, b = sqrt(5.0) * h;
    k *= kind == ATVI_EM_EXPONENTIAL ? exp(-h)
         : kind == ATVI_EM_MATERN32  ? (1 + a) * exp(-a)
         : kind == ATVI_EM_MATERN52  ? (1 + b + b * b / 3) * exp(-b)
                                     : exp(-0.5 * h * h);
  }
  return k;
}

static TEST_UNUSED void dense_mean(const atvi_em_runs *r, double *mean) {
  for (atvi_idx t = 0; t < r->m; t++) {
    double s = 0;
    for (atvi_idx i = 0; i < r->n; i++) s += r->y[i * r->m + t];
    mean[t] = r->mean ? r->mean[t] : s / (double)r->n;
  }
}

/* b[n] = L^-1 b */
static TEST_UNUSED void dense_forward(atvi_idx n, const double *l, double *b) {
  for (atvi_idx i = 0; i < n; i++) {
    for (atvi_idx j = 0; j < i; j++) b[i] -= l[i * n + j] * b[j];
    b[i] /= l[i * n + i];
  }
}

/* Log density of all outputs at once, from the covariance of all with all. */
static TEST_UNUSED double dense_log_lik(const atvi_em_runs *r, const atvi_em_opts *o) {
  atvi_idx n = r->n, m = r->m, all = n * m;
  double *c = calloc((size_t)(all * all), sizeof *c), *z = calloc((size_t)all, sizeof *z);
  double *mean = calloc((size_t)m, sizeof *mean);
  dense_mean(r, mean);
  for (atvi_idx p = 0; p < all; p++) {
    z[p] = r->y[p] - mean[p % m];
    for (atvi_idx q = 0; q < all; q++) {
      double k = dense_corr(o->kernel, r->d, o->length, r->x + (p / m) * r->d, r->x + (q / m) * r->d);
      if (p / m == q / m) k += o->nugget;
      double h = r->time ? r->time[p % m] - r->time[q % m] : (double)(p % m - q % m);
      c[p * all + q] = o->sill * k * (m > 1 ? exp(-fabs(h) / o->time_length) : 1);
    }
  }
  double log_lik = -0.5 * (double)all * log(2 * acos(-1.0));
  CHECK(atvi_math_cholesky(all, c));
  dense_forward(all, c, z);
  for (atvi_idx p = 0; p < all; p++) log_lik -= 0.5 * z[p] * z[p] + log(c[p * all + p]);
  free(c);
  free(z);
  free(mean);
  return log_lik;
}

/* Mean[m] and share at x[d] given the runs. */
static TEST_UNUSED double dense_predict(const atvi_em_runs *r, const atvi_em_opts *o, const double *x,
                                        double *out) {
  atvi_idx n = r->n, m = r->m;
  double *l = calloc((size_t)(n * n), sizeof *l), *k = calloc((size_t)n, sizeof *k),
         *z = calloc((size_t)n, sizeof *z);
  double *mean = calloc((size_t)m, sizeof *mean), share = 1 + o->nugget;
  dense_mean(r, mean);
  for (atvi_idx i = 0; i < n; i++) {
    k[i] = dense_corr(o->kernel, r->d, o->length, x, r->x + i * r->d);
    for (atvi_idx j = 0; j < n; j++)
      l[i * n + j] =
          dense_corr(o->kernel, r->d, o->length, r->x + i * r->d, r->x + j * r->d) + (i == j ? o->nugget : 0);
  }
  CHECK(atvi_math_cholesky(n, l));
  dense_forward(n, l, k);
  for (atvi_idx i = 0; i < n; i++) share -= k[i] * k[i];
  for (atvi_idx t = 0; t < m; t++) {
    for (atvi_idx i = 0; i < n; i++) z[i] = r->y[i * m + t] - mean[t];
    dense_forward(n, l, z);
    out[t] = mean[t];
    for (atvi_idx i = 0; i < n; i++) out[t] += k[i] * z[i];
  }
  free(l);
  free(k);
  free(z);
  free(mean);
  return share;
}

static TEST_UNUSED atvi_em_opts some_opts(atvi_em_kernel kernel) {
  static const double length[MOST_D] = {0.83, 1.41, 2.17, 0.64, 1.09, 3.3, 2.7, 1.9};
  atvi_em_opts o;
  atvi_gp_em_defaults(&o);
  o.kernel = kernel, o.length = length, o.nugget = 0.0137, o.time_length = 4.21, o.sill = 3.57;
  return o;
}

/* Aligned numbers that the caller frees. */
static TEST_UNUSED double *reals(atvi_idx n) {
  double *p = aligned_alloc(ATVI_ALIGN, ((size_t)n * sizeof *p + ATVI_ALIGN - 1) / ATVI_ALIGN * ATVI_ALIGN);
  CHECK(p != NULL);
  return p;
}

static TEST_UNUSED void fill_uniform(uint32_t number, atvi_idx n, double *x) {
  atvi_rng r = atvi_math_rng_at(11, ATVI_STREAM_TEST, number, 0);
  for (atvi_idx i = 0; i < n; i++) x[i] = atvi_math_rng_uniform(&r);
}

#endif
