/* SPDX-License-Identifier: MIT */
/* Loops over lanes, for the *_isa.c files of this folder only: all of it is static and compiled per
 * instruction set. The inner loop over ATVI_LANES becomes one or a few vector instructions.
 *
 * All lanes must round alike. A compiler that may contract a*b + c*d chooses which product it rounds, and may
 * choose differently from lane to lane where it does not use whole vectors; so sums of products are written
 * with FMA. */
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

/* Whole vectors by hand where the compiler, left to itself, takes loops apart into single lanes. */
#if defined __AVX512F__
#define WIDTH 64
#define VEC_MAX(a, b) ((vec)_mm512_max_pd((__m512d)(a), (__m512d)(b)))
#elif defined __AVX__
#define WIDTH 32
#define VEC_MAX(a, b) ((vec)_mm256_max_pd((__m256d)(a), (__m256d)(b)))
#else
#define WIDTH 16
#define VEC_MAX(a, b) pick((a) > (b), (a), (b))
#endif
#if WIDTH > 16
#include <immintrin.h>
#endif
typedef double vec __attribute__((vector_size(WIDTH), __may_alias__));
typedef int64_t veci __attribute__((vector_size(WIDTH), __may_alias__));
enum { PER_VEC = WIDTH / sizeof(double), PER_ROW = ATVI_LANES / PER_VEC };
#define PARTS(p) for (int p = 0; p < PER_ROW; p++)

/* mask ? a : b, bit by bit */
ALWAYS vec pick(veci mask, vec a, vec b) { return (vec)((mask & (veci)a) | (~mask & (veci)b)); }
ALWAYS vec vec_max(vec a, vec b) { return VEC_MAX(a, b); } /* a NaN in either yields b */
ALWAYS vec vec_abs(vec a) { return (vec)((veci)a & INT64_MAX); }

/* to = flag != 0 ? a : to, [n][L] */
static ATVI_UNUSED void assign(atvi_idx n, const double *restrict flag, const double *restrict a,
                               double *restrict to) {
  const vec *restrict fv = (const vec *)flag, *restrict av = (const vec *)a;
  vec *restrict tv = (vec *)to;
  veci mask[PER_ROW];
  PARTS(p) mask[p] = fv[p] != 0;
  for (atvi_idx i = 0; i < n * PER_ROW; i += PER_ROW)
    PARTS(p) tv[i + p] = pick(mask[p], av[i + p], tv[i + p]);
}

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
