/* SPDX-License-Identifier: MIT */
#include "infer/bend.h"
#include <math.h>

#define FAR 4.0 /* where a displacement begins to level off, in standard deviations */

/* f, g and their derivatives. */
typedef struct {
  double f, g, df, dg;
} feature;

static feature at(double t) {
  double h = tanh(t / FAR), u = FAR * h, du = 1 - h * h;
  return (feature){u * u, u * u * u, 2 * u * du, 3 * u * u * du};
}

void atvi_infer_bend_features(double t, double *f, double *g) {
  feature a = at(t);
  *f = a.f;
  *g = a.g;
}

/* v of bend m times the displacement by bend l. */
static double across(const atvi_bend *b, int m, int l, atvi_idx d, const feature *f) {
  double sum = 0;
  for (atvi_idx i = 0; i < d; i++) sum += b->along[m][i] * (b->by[l][i] * f->f + b->by[l][d + i] * f->g);
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
  feature f[ATVI_BENDS];
  for (atvi_idx j = 0; j < n; j++) {
    see(b, d, n, y, j, f);
    for (int m = 0; m < b->n; m++)
      for (atvi_idx i = 0; i < d; i++) x[i * n + j] += b->in_x[m][i] * f[m].f + b->in_x[m][d + i] * f[m].g;
  }
}

/* The last bend is undone first. */
void atvi_infer_bend_back(const atvi_bend *b, atvi_idx d, atvi_idx n, double *y) {
  for (int m = b->n - 1; m >= 0; m--)
    for (atvi_idx j = 0; j < n; j++) {
      feature f = at(along(b, m, d, n, y, j));
      for (atvi_idx i = 0; i < d; i++) y[i * n + j] -= b->by[m][i] * f.f + b->by[m][d + i] * f.g;
    }
}

void atvi_infer_bend_adjoint(const atvi_bend *b, atvi_idx d, atvi_idx n, const double *y, double *dy) {
  feature f[ATVI_BENDS];
  for (atvi_idx j = 0; j < n; j++) {
    see(b, d, n, y, j, f);
    for (int m = b->n - 1; m >= 0; m--) {
      double sum = 0;
      for (atvi_idx i = 0; i < d; i++)
        sum += dy[i * n + j] * (b->by[m][i] * f[m].df + b->by[m][d + i] * f[m].dg);
      for (atvi_idx i = 0; i < d; i++) dy[i * n + j] += sum * b->along[m][i];
    }
  }
}
