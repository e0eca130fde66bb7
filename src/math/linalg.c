/* SPDX-License-Identifier: MIT */
/* Dense kernels for a few dozen unknowns: plain loops, row-major. */
#include "math/linalg.h"
#include <float.h>
#include <math.h>

bool atvi_math_cholesky(atvi_idx n, double *a) {
  for (atvi_idx i = 0; i < n; i++) {
    for (atvi_idx j = 0; j <= i; j++) {
      double s = a[i * n + j];
      for (atvi_idx k = 0; k < j; k++) s -= a[i * n + k] * a[j * n + k];
      if (j < i) {
        a[i * n + j] = s / a[j * n + j];
      } else {
        if (!(s > 0) || isinf(s)) return false;
        a[i * n + i] = sqrt(s);
      }
    }
  }
  return true;
}

/* One Jacobi rotation that makes a[p][q] zero. */
static void rotate(atvi_idx n, double *a, double *v, atvi_idx p, atvi_idx q) {
  double apq = a[p * n + q], theta = (a[q * n + q] - a[p * n + p]) / (2.0 * apq);
  double t = (theta >= 0 ? 1.0 : -1.0) / (fabs(theta) + hypot(theta, 1.0));
  double c = 1.0 / sqrt(1.0 + t * t), s = t * c;
  for (atvi_idx k = 0; k < n; k++) {
    double x = a[k * n + p], y = a[k * n + q];
    a[k * n + p] = c * x - s * y;
    a[k * n + q] = s * x + c * y;
  }
  for (atvi_idx k = 0; k < n; k++) {
    double x = a[p * n + k], y = a[q * n + k];
    a[p * n + k] = c * x - s * y;
    a[q * n + k] = s * x + c * y;
    x = v[k * n + p];
    y = v[k * n + q];
    v[k * n + p] = c * x - s * y;
    v[k * n + q] = s * x + c * y;
  }
  a[p * n + q] = a[q * n + p] = 0;
}

static void sort_columns(atvi_idx n, double *w, double *v) {
  for (atvi_idx i = 0; i < n; i++) {
    atvi_idx least = i;
    for (atvi_idx j = i + 1; j < n; j++)
      if (w[j] < w[least]) least = j;
    double t = w[i];
    w[i] = w[least];
    w[least] = t;
    for (atvi_idx k = 0; k < n && least != i; k++) {
      t = v[k * n + i];
      v[k * n + i] = v[k * n + least];
      v[k * n + least] = t;
    }
  }
}

void atvi_math_eigen_sym(atvi_idx n, double *a, double *w, double *v) {
  enum { MAX_SWEEPS = 60 };
  for (atvi_idx i = 0; i < n; i++)
    for (atvi_idx j = 0; j < n; j++) v[i * n + j] = i == j;
  for (int sweep = 0; sweep < MAX_SWEEPS; sweep++) {
    bool done = true;
    for (atvi_idx p = 0; p < n; p++) {
      for (atvi_idx q = p + 1; q < n; q++) {
        /* Relative to the two diagonal entries: small eigenvalues of graded matrices stay right. */
        double scale = sqrt(fabs(a[p * n + p])) * sqrt(fabs(a[q * n + q]));
        if (!(fabs(a[p * n + q]) > fmax(DBL_EPSILON * 0.125 * scale, DBL_MIN))) continue;
        done = false;
        rotate(n, a, v, p, q);
      }
    }
    if (done) break;
  }
  for (atvi_idx i = 0; i < n; i++) w[i] = a[i * n + i];
  sort_columns(n, w, v);
}
