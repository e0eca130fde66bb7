/* SPDX-License-Identifier: MIT */
/* LU factors of ATVI_LANES small matrices at once, inside their shape. Rows are exchanged lane by lane,
 * everything else is done for all lanes together. Multipliers stay in the row in which they arose: exchanges
 * take turns with the columns they belong to. */
#include "ode/lanes.h"
#include <math.h>

static void exchange_rows(atvi_idx n, double *a, atvi_idx k, atvi_idx other, atvi_idx last, int l) {
  double *x = a + k * n * ATVI_LANES + l, *y = a + other * n * ATVI_LANES + l;
  for (atvi_idx c = k * ATVI_LANES; c <= last * ATVI_LANES; c += ATVI_LANES) {
    double v = x[c];
    x[c] = y[c];
    y[c] = v;
  }
}

/* Row of the largest entry of column k from the diagonal to row `last`, for each lane. */
static void find_pivots(atvi_idx n, const double *restrict a, atvi_idx k, atvi_idx last,
                        int32_t *restrict row) {
  double best[ATVI_LANES], where[ATVI_LANES];
  LANES(l) best[l] = fabs(a[(k * n + k) * ATVI_LANES + l]);
  LANES(l) where[l] = (double)k;
  for (atvi_idx i = k + 1; i <= last; i++) {
    const double *restrict x = a + (i * n + k) * ATVI_LANES;
    LANES(l) {
      double v = fabs(x[l]);
      where[l] = v > best[l] ? (double)i : where[l];
      best[l] = max2(v, best[l]);
    }
  }
  LANES(l) row[l] = (int32_t)where[l];
}

void ATVI_ISA_NAME(atvi_ode_lu)(const atvi_ode_shape *s, atvi_idx n, double *a, int32_t *piv) {
  for (atvi_idx k = 0; k < n; k++) {
    const atvi_idx low = s->low[k], right = s->right[k];
    find_pivots(n, a, k, low, piv + k * ATVI_LANES);
    LANES(l) if (piv[k * ATVI_LANES + l] != k) exchange_rows(n, a, k, piv[k * ATVI_LANES + l], right, l);
    const double *restrict top = a + k * n * ATVI_LANES;
    double inv[ATVI_LANES];
    LANES(l) inv[l] = 1 / top[k * ATVI_LANES + l];
    for (atvi_idx i = k + 1; i <= low; i++) {
      double *restrict row = a + i * n * ATVI_LANES;
      double m[ATVI_LANES];
      LANES(l) m[l] = row[k * ATVI_LANES + l] * inv[l];
      LANES(l) row[k * ATVI_LANES + l] = m[l];
      for (atvi_idx j = (k + 1) * ATVI_LANES; j <= right * ATVI_LANES; j += ATVI_LANES)
        LANES(l) row[j + l] = FMA(-m[l], top[j + l], row[j + l]);
    }
  }
}

static void exchange(const int32_t *order, double *b, atvi_idx k, const int32_t *piv) {
  double *to = b + order[k] * ATVI_LANES;
  int32_t moved = 0;
  LANES(l) moved |= piv[k * ATVI_LANES + l] ^ (int32_t)k;
  if (!moved) return;
  LANES(l) {
    double *from = b + order[piv[k * ATVI_LANES + l]] * ATVI_LANES + l, v = to[l];
    to[l] = *from;
    *from = v;
  }
}

/* to -= m * from, one row */
ALWAYS void take(double *restrict to, const double *restrict m, const double *restrict from) {
  LANES(l) to[l] = FMA(-m[l], from[l], to[l]);
}

void ATVI_ISA_NAME(atvi_ode_lu_solve)(const atvi_ode_shape *s, atvi_idx n, const double *a,
                                      const int32_t *piv, double *b) {
  const int32_t *order = s->order;
  for (atvi_idx k = 0; k < n; k++) {
    if (s->low[k] > k) exchange(order, b, k, piv);
    for (atvi_idx i = k + 1; i <= s->low[k]; i++)
      take(b + order[i] * ATVI_LANES, a + (i * n + k) * ATVI_LANES, b + order[k] * ATVI_LANES);
  }
  for (atvi_idx i = n - 1; i >= 0; i--) {
    double *at = b + order[i] * ATVI_LANES;
    for (atvi_idx j = i + 1; j <= s->right[i]; j++)
      take(at, a + (i * n + j) * ATVI_LANES, b + order[j] * ATVI_LANES);
    LANES(l) at[l] /= a[(i * n + i) * ATVI_LANES + l];
  }
}

void ATVI_ISA_NAME(atvi_ode_lu_solve_t)(const atvi_ode_shape *s, atvi_idx n, const double *a,
                                        const int32_t *piv, double *b) {
  const int32_t *order = s->order;
  for (atvi_idx i = 0; i < n; i++) {
    double *at = b + order[i] * ATVI_LANES;
    LANES(l) at[l] /= a[(i * n + i) * ATVI_LANES + l];
    for (atvi_idx j = i + 1; j <= s->right[i]; j++)
      take(b + order[j] * ATVI_LANES, a + (i * n + j) * ATVI_LANES, at);
  }
  for (atvi_idx k = n - 1; k >= 0; k--) {
    for (atvi_idx i = s->low[k]; i > k; i--)
      take(b + order[k] * ATVI_LANES, a + (i * n + k) * ATVI_LANES, b + order[i] * ATVI_LANES);
    if (s->low[k] > k) exchange(order, b, k, piv);
  }
}
