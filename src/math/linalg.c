/* SPDX-License-Identifier: MIT */
/* Dense kernels for a few dozen unknowns: plain loops, row-major. */
#include "math/linalg.h"
#include <float.h>
#include <math.h>

bool atvi_cholesky(atvi_idx n, double *a) {
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

static void update(atvi_idx n, double *L, double *v) {
  for (atvi_idx k = 0; k < n; k++) {
    double old = L[k * n + k], r = hypot(old, v[k]), c = old / r, s = v[k] / r;
    L[k * n + k] = r;
    for (atvi_idx i = k + 1; i < n; i++) {
      double l = L[i * n + k];
      L[i * n + k] = c * l + s * v[i];
      v[i] = c * v[i] - s * l;
    }
  }
}

/* With L p = v the result is positive definite exactly if |p| < 1. Rotations that turn (p, sqrt(1 - |p|^2))
 * into the last unit vector, applied to L with a zero column, give the factor (Golub and Van Loan, 6.5.4);
 * unlike hyperbolic rotations they are backward stable, and nothing is written before the test. */
static bool downdate(atvi_idx n, double *L, double *v, double *c, double *s) {
  double rest = 1;
  for (atvi_idx i = 0; i < n; i++) {
    for (atvi_idx k = 0; k < i; k++) v[i] -= L[i * n + k] * v[k];
    v[i] /= L[i * n + i];
    rest -= v[i] * v[i];
  }
  if (!(rest > DBL_EPSILON)) return false;
  double alpha = sqrt(rest);
  for (atvi_idx i = n - 1; i >= 0; i--) {
    double r = hypot(alpha, v[i]);
    c[i] = alpha / r;
    s[i] = v[i] / r;
    alpha = r;
  }
  for (atvi_idx j = 0; j < n; j++) {
    double extra = 0;
    for (atvi_idx i = j; i >= 0; i--) {
      double l = L[j * n + i], t = c[i] * extra + s[i] * l;
      L[j * n + i] = c[i] * l - s[i] * extra;
      extra = t;
    }
  }
  return true;
}

bool atvi_cholesky_update(atvi_idx n, double *L, double *v, double sign, double *work) {
  double sum = 0;
  for (atvi_idx i = 0; i < n; i++) sum += v[i] * v[i];
  if (!isfinite(sum)) return false;
  if (sign < 0) return downdate(n, L, v, work, work + n);
  update(n, L, v);
  return true;
}

void atvi_chol_solve(atvi_idx n, const double *L, double *b) {
  for (atvi_idx i = 0; i < n; i++) {
    for (atvi_idx k = 0; k < i; k++) b[i] -= L[i * n + k] * b[k];
    b[i] /= L[i * n + i];
  }
  for (atvi_idx i = n - 1; i >= 0; i--) {
    b[i] /= L[i * n + i];
    for (atvi_idx k = 0; k < i; k++) b[k] -= L[i * n + k] * b[i];
  }
}

void atvi_tri_mul(atvi_idx n, const double *L, const double *x, double *y) {
  for (atvi_idx i = n - 1; i >= 0; i--) { /* downwards, so that y may be x */
    double s = 0;
    for (atvi_idx k = 0; k <= i; k++) s += L[i * n + k] * x[k];
    y[i] = s;
  }
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

void atvi_eigen_sym(atvi_idx n, double *a, double *w, double *v) {
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

bool atvi_lu(atvi_idx n, double *a, int *piv) {
  for (atvi_idx k = 0; k < n; k++) {
    atvi_idx top = k;
    for (atvi_idx i = k + 1; i < n; i++)
      if (fabs(a[i * n + k]) > fabs(a[top * n + k])) top = i;
    piv[k] = (int)top;
    if (!(fabs(a[top * n + k]) > 0) || isinf(a[top * n + k])) return false;
    for (atvi_idx j = 0; j < n && top != k; j++) {
      double t = a[k * n + j];
      a[k * n + j] = a[top * n + j];
      a[top * n + j] = t;
    }
    for (atvi_idx i = k + 1; i < n; i++) {
      double f = a[i * n + k] /= a[k * n + k];
      for (atvi_idx j = k + 1; j < n; j++) a[i * n + j] -= f * a[k * n + j];
    }
  }
  return true;
}

static void swap_rows(double *b, atvi_idx i, atvi_idx j) {
  double t = b[i];
  b[i] = b[j];
  b[j] = t;
}

void atvi_lu_solve(atvi_idx n, const double *lu, const int *piv, double *b) {
  for (atvi_idx i = 0; i < n; i++) swap_rows(b, i, piv[i]);
  for (atvi_idx i = 0; i < n; i++)
    for (atvi_idx k = 0; k < i; k++) b[i] -= lu[i * n + k] * b[k];
  for (atvi_idx i = n - 1; i >= 0; i--) {
    for (atvi_idx k = i + 1; k < n; k++) b[i] -= lu[i * n + k] * b[k];
    b[i] /= lu[i * n + i];
  }
}

void atvi_lu_solve_t(atvi_idx n, const double *lu, const int *piv, double *b) {
  for (atvi_idx i = 0; i < n; i++) {
    for (atvi_idx k = 0; k < i; k++) b[i] -= lu[k * n + i] * b[k];
    b[i] /= lu[i * n + i];
  }
  for (atvi_idx i = n - 1; i >= 0; i--)
    for (atvi_idx k = i + 1; k < n; k++) b[i] -= lu[k * n + i] * b[k];
  for (atvi_idx i = n - 1; i >= 0; i--) swap_rows(b, i, piv[i]);
}
