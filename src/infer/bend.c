/* SPDX-License-Identifier: MIT */
#include "infer/bend.h"
#include "infer/vi_tuning.h"
#include <math.h>

enum { T = ATVI_BEND_TERMS };

/* Powers of u and their derivatives by t. */
typedef struct {
  double f[T], df[T];
} feature;

static feature at(double t) {
  double h = tanh(t / ATVI_FAR), u = ATVI_FAR * h, du = 1 - h * h, power = u;
  feature a;
  for (int k = 0; k < T; k++) {
    a.df[k] = (k + 2) * power * du;
    a.f[k] = power *= u;
  }
  return a;
}

void atvi_infer_bend_features(double t, double *f) {
  feature a = at(t);
  for (int k = 0; k < T; k++) f[k] = a.f[k];
}

/* Coordinate i of b times these values. */
static double term(const double *b, atvi_idx d, atvi_idx i, const double *f) {
  double sum = 0;
  for (int k = 0; k < T; k++) sum += b[k * d + i] * f[k];
  return sum;
}

/* v of bend m times the displacement by bend l. */
static double across(const atvi_bend *b, int m, int l, atvi_idx d, const feature *f) {
  double sum = 0;
  for (atvi_idx i = 0; i < d; i++) sum += b->along[m][i] * term(b->by[l], d, i, f->f);
  return sum;
}

static double along(const atvi_bend *b, int m, atvi_idx d, atvi_idx n, const double *y, atvi_idx j) {
  double t = 0;
  for (atvi_idx i = 0; i < d; i++) t += b->along[m][i] * y[i * n + j];
  return t;
}

/* Features of the j-th point of y: each bend sees what the ones before it did. */
static void see(const atvi_bend *b, atvi_idx d, atvi_idx n, const double *y, atvi_idx j, feature *f) {
  for (int m = 0; m < b->n; m++) {
    double t = along(b, m, d, n, y, j);
    for (int l = 0; l < m; l++) t += across(b, m, l, d, &f[l]);
    f[m] = at(t);
  }
}

void atvi_infer_bend_x(const atvi_bend *b, atvi_idx d, atvi_idx n, const double *y, double *x) {
  feature f[ATVI_TOPS];
  for (atvi_idx j = 0; j < n; j++) {
    see(b, d, n, y, j, f);
    for (int m = 0; m < b->n; m++)
      for (atvi_idx i = 0; i < d; i++) x[i * n + j] += term(b->in_x[m], d, i, f[m].f);
  }
}

/* The last bend is undone first. */
void atvi_infer_bend_back(const atvi_bend *b, atvi_idx d, atvi_idx n, double *y) {
  for (int m = b->n - 1; m >= 0; m--)
    for (atvi_idx j = 0; j < n; j++) {
      feature f = at(along(b, m, d, n, y, j));
      for (atvi_idx i = 0; i < d; i++) y[i * n + j] -= term(b->by[m], d, i, f.f);
    }
}

void atvi_infer_bend_adjoint(const atvi_bend *b, atvi_idx d, atvi_idx n, const double *y, double *dy) {
  feature f[ATVI_TOPS];
  for (atvi_idx j = 0; j < n; j++) {
    see(b, d, n, y, j, f);
    for (int m = b->n - 1; m >= 0; m--) {
      double sum = 0;
      for (atvi_idx i = 0; i < d; i++) sum += dy[i * n + j] * term(b->by[m], d, i, f[m].df);
      for (atvi_idx i = 0; i < d; i++) dy[i * n + j] += sum * b->along[m][i];
    }
  }
}
