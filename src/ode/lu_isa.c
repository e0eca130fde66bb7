/* SPDX-License-Identifier: MIT */
/* LU factors of ATVI_LANES small matrices at once. Rows are exchanged lane by lane, everything else is done for
 * all lanes together. */
#include "ode/lanes.h"
#include <math.h>

static void exchange_rows(atvi_idx n, double *a, atvi_idx i, atvi_idx j, int l) {
  double *x = a + i * n * ATVI_LANES + l, *y = a + j * n * ATVI_LANES + l;
  for (atvi_idx c = 0; c < n * ATVI_LANES; c += ATVI_LANES) {
    double v = x[c];
    x[c] = y[c];
    y[c] = v;
  }
}

/* Row of the largest entry of column k at or below the diagonal, for each lane. */
static void find_pivots(atvi_idx n, const double *restrict a, atvi_idx k, int32_t *restrict row) {
  double best[ATVI_LANES], where[ATVI_LANES];
  LANES(l) best[l] = fabs(a[(k * n + k) * ATVI_LANES + l]);
  LANES(l) where[l] = (double)k;
  for (atvi_idx i = k + 1; i < n; i++) {
    const double *restrict x = a + (i * n + k) * ATVI_LANES;
    LANES(l) {
      double v = fabs(x[l]);
      where[l] = v > best[l] ? (double)i : where[l];
      best[l] = max2(v, best[l]);
    }
  }
  LANES(l) row[l] = (int32_t)where[l];
}

void ATVI_ISA_NAME(atvi_ode_lu)(atvi_idx n, double *a, int32_t *piv) {
  for (atvi_idx k = 0; k < n; k++) {
    find_pivots(n, a, k, piv + k * ATVI_LANES);
    LANES(l) if (piv[k * ATVI_LANES + l] != k) exchange_rows(n, a, k, piv[k * ATVI_LANES + l], l);
    const double *restrict top = a + k * n * ATVI_LANES;
    double inv[ATVI_LANES];
    LANES(l) inv[l] = 1 / top[k * ATVI_LANES + l];
    for (atvi_idx i = k + 1; i < n; i++) {
      double *restrict row = a + i * n * ATVI_LANES;
      double m[ATVI_LANES];
      LANES(l) m[l] = row[k * ATVI_LANES + l] * inv[l];
      LANES(l) row[k * ATVI_LANES + l] = m[l];
      for (atvi_idx j = (k + 1) * ATVI_LANES; j < n * ATVI_LANES; j += ATVI_LANES)
        LANES(l) row[j + l] = FMA(-m[l], top[j + l], row[j + l]);
    }
  }
}

static void exchange(double *b, atvi_idx k, const int32_t *piv) {
  LANES(l) {
    atvi_idx p = piv[k * ATVI_LANES + l];
    double v = b[k * ATVI_LANES + l];
    b[k * ATVI_LANES + l] = b[p * ATVI_LANES + l];
    b[p * ATVI_LANES + l] = v;
  }
}

/* to -= m * from, one row */
ALWAYS void take(double *restrict to, const double *restrict m, const double *restrict from) {
  LANES(l) to[l] = FMA(-m[l], from[l], to[l]);
}

void ATVI_ISA_NAME(atvi_ode_lu_solve)(atvi_idx n, const double *a, const int32_t *piv, double *b) {
  for (atvi_idx k = 0; k < n; k++) exchange(b, k, piv);
  for (atvi_idx i = 1; i < n; i++)
    for (atvi_idx j = 0; j < i; j++)
      take(b + i * ATVI_LANES, a + (i * n + j) * ATVI_LANES, b + j * ATVI_LANES);
  for (atvi_idx i = n - 1; i >= 0; i--) {
    for (atvi_idx j = i + 1; j < n; j++)
      take(b + i * ATVI_LANES, a + (i * n + j) * ATVI_LANES, b + j * ATVI_LANES);
    LANES(l) b[i * ATVI_LANES + l] /= a[(i * n + i) * ATVI_LANES + l];
  }
}

void ATVI_ISA_NAME(atvi_ode_lu_solve_t)(atvi_idx n, const double *a, const int32_t *piv, double *b) {
  for (atvi_idx i = 0; i < n; i++) {
    LANES(l) b[i * ATVI_LANES + l] /= a[(i * n + i) * ATVI_LANES + l];
    for (atvi_idx j = i + 1; j < n; j++)
      take(b + j * ATVI_LANES, a + (i * n + j) * ATVI_LANES, b + i * ATVI_LANES);
  }
  for (atvi_idx i = n - 1; i > 0; i--)
    for (atvi_idx j = 0; j < i; j++)
      take(b + j * ATVI_LANES, a + (i * n + j) * ATVI_LANES, b + i * ATVI_LANES);
  for (atvi_idx k = n - 1; k >= 0; k--) exchange(b, k, piv);
}
