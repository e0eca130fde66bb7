/* SPDX-License-Identifier: MIT */
/* Sorting of draws: insertion for few, else least-significant-digit radix sort on the bits of the double,
 * mapped so that unsigned order is numerical order. Stable; digits that all keys share are skipped. */
#include "math/stat/stat.h"
#include <string.h>

enum { FEW = 200, BITS = 11, SIZE = 1 << BITS, PASSES = 6 };

static uint64_t key_of(double x) {
  uint64_t u;
  memcpy(&u, &x, sizeof u);
  return u >> 63 ? ~u : u | 0x8000000000000000u;
}

static void insertion(atvi_idx n, double *x, double *w) {
  for (atvi_idx i = 1; i < n; i++) {
    double v = x[i], c = w ? w[i] : 0;
    uint64_t k = key_of(v);
    atvi_idx j = i;
    for (; j > 0 && key_of(x[j - 1]) > k; j--) {
      x[j] = x[j - 1];
      if (w) w[j] = w[j - 1];
    }
    x[j] = v;
    if (w) w[j] = c;
  }
}

/* Counts to starting places; false if one digit holds all keys. */
static bool places(uint32_t *count, atvi_idx n) {
  uint32_t sum = 0;
  for (int d = 0; d < SIZE; d++) {
    uint32_t c = count[d];
    if ((atvi_idx)c == n) return false;
    count[d] = sum;
    sum += c;
  }
  return true;
}

int atvi_by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

void atvi_sort(atvi_idx n, double *x, double *w, double *work) {
  uint32_t count[PASSES][SIZE];
  double *x0 = x, *w0 = w, *x1 = work, *w1 = work + n;
  if (n <= FEW) {
    insertion(n, x, w);
    return;
  }
  ATVI_ASSERT((uint64_t)n <= UINT32_MAX);
  memset(count, 0, sizeof count);
  for (atvi_idx i = 0; i < n; i++) {
    uint64_t k = key_of(x[i]);
    for (int p = 0; p < PASSES; p++) count[p][k >> (p * BITS) & (SIZE - 1)]++;
  }
  for (int p = 0; p < PASSES; p++) {
    if (!places(count[p], n)) continue;
    for (atvi_idx i = 0; i < n; i++) {
      uint32_t to = count[p][key_of(x0[i]) >> (p * BITS) & (SIZE - 1)]++;
      x1[to] = x0[i];
      if (w) w1[to] = w0[i];
    }
    double *t = x0;
    x0 = x1;
    x1 = t;
    t = w0;
    w0 = w1;
    w1 = t;
  }
  if (x0 == x) return;
  memcpy(x, x0, (size_t)n * sizeof *x);
  if (w) memcpy(w, w0, (size_t)n * sizeof *w);
}
