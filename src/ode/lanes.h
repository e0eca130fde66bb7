/* SPDX-License-Identifier: MIT */
/* Loops over lanes, for the *_isa.c files of this folder only: all of it is static and compiled per
 * instruction set. The inner loop over ATVI_LANES becomes one or a few vector instructions. */
#ifndef ATVI_ODE_LANES_H
#define ATVI_ODE_LANES_H

#include "ode/work.h"
#include <string.h>

#define LANES(l) for (int l = 0; l < ATVI_LANES; l++)
#define ALWAYS static inline __attribute__((always_inline))

/* Written so that a NaN in a yields b: compiles to one instruction. */
ALWAYS double max2(double a, double b) { return a > b ? a : b; }
ALWAYS double min2(double a, double b) { return a < b ? a : b; }

ALWAYS void combine_n(int s, atvi_idx n, const double *restrict c, const double *restrict h,
                      const double *restrict base, const double *restrict k, double *restrict out) {
  const atvi_idx step = n * ATVI_LANES;
  for (atvi_idx i = 0; i < step; i += ATVI_LANES) {
    LANES(l) {
      double sum = c[0] * k[i + l];
#pragma GCC unroll 8
      for (int j = 1; j < s; j++) sum += c[j] * k[j * step + i + l];
      out[i + l] = base[i + l] + h[l] * sum;
    }
  }
}

/* out = base + h * sum_{j < s} c[j] k[j]; base, k[j], out: [n][L], h: [L], 1 <= s <= 7 */
static ATVI_UNUSED void combine(int s, atvi_idx n, const double *restrict c, const double *restrict h,
                                const double *restrict base, const double *restrict k, double *restrict out) {
  switch (s) {
  case 1: combine_n(1, n, c, h, base, k, out); break;
  case 2: combine_n(2, n, c, h, base, k, out); break;
  case 3: combine_n(3, n, c, h, base, k, out); break;
  case 4: combine_n(4, n, c, h, base, k, out); break;
  case 5: combine_n(5, n, c, h, base, k, out); break;
  case 6: combine_n(6, n, c, h, base, k, out); break;
  default: combine_n(7, n, c, h, base, k, out); break;
  }
}

#endif
