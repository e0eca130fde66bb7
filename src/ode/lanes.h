/* SPDX-License-Identifier: MIT */
/* Loops over lanes, for the *_isa.c files of this folder only: all of it is static and compiled per
 * instruction set. The inner loop over ATVI_LANES becomes one or a few vector instructions.
 *
 * All lanes must round alike. A compiler that may contract a*b + c*d chooses which product it rounds, and may choose
 * differently from lane to lane where it does not use whole vectors; so sums of products are written with FMA. */
#ifndef ATVI_ODE_LANES_H
#define ATVI_ODE_LANES_H

#include "ode/work.h"
#include <string.h>

#define LANES(l) for (int l = 0; l < ATVI_LANES; l++)
#ifdef __FMA__
#define FMA(a, b, c) __builtin_fma((a), (b), (c))
#else
#define FMA(a, b, c) ((a) * (b) + (c))
#endif
#ifdef __clang__
#pragma clang fp contract(off)
#endif

#define ALWAYS static inline __attribute__((always_inline))

/* Written so that a NaN in a yields b: compiles to one instruction. */
ALWAYS double max2(double a, double b) { return a > b ? a : b; }
ALWAYS double min2(double a, double b) { return a < b ? a : b; }

/* Bit l: flag[l] is not 0. */
ALWAYS unsigned mask_of(const double *flag) {
  uint64_t mask = 0;
  LANES(l) mask |= flag[l] != 0 ? (uint64_t)1 << l : 0;
  return (unsigned)mask;
}

/* Whole vectors by hand for the loop that matters most: left to itself the compiler takes some of its cases apart. */
#if defined __AVX512F__
#define WIDTH 64
#elif defined __AVX__
#define WIDTH 32
#else
#define WIDTH 16
#endif
typedef double vec __attribute__((vector_size(WIDTH), __may_alias__));
enum { PER_VEC = WIDTH / sizeof(double), PER_ROW = ATVI_LANES / PER_VEC };

ALWAYS void combine_n(int s, atvi_idx n, const double *restrict c, const double *restrict h,
                      const double *restrict base, const double *restrict k, double *restrict out) {
#ifdef __clang__
#pragma clang fp contract(fast)
#endif
  const atvi_idx step = n * PER_ROW;
  const vec *restrict hv = (const vec *)h, *restrict bv = (const vec *)base, *restrict kv = (const vec *)k;
  vec *restrict ov = (vec *)out;
  for (atvi_idx i = 0; i < step; i += PER_ROW) {
#pragma GCC unroll 8
    for (int p = 0; p < PER_ROW; p++) {
      vec sum = c[0] * kv[i + p];
#pragma GCC unroll 8
      for (int j = 1; j < s; j++) sum += c[j] * kv[j * step + i + p];
      ov[i + p] = bv[i + p] + hv[p] * sum;
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
