/* SPDX-License-Identifier: MIT */
/* Vectors of the instruction set's own width, and exp on them, for kernel*_isa.c only: all of it is static. Lanes never
 * meet, and every lane is computed by the same instructions, so that a point's result depends neither on its place nor
 * on its neighbours.
 *
 * exp    x = k log 2 + r, |r| <= log(2)/2; e^r = 1 + r + r^2 Q(r), Q of degree 9 through Chebyshev points (error 2e-17).
 *        exp(0) = 1 exactly: a point has correlation 1 with itself. */
#ifndef ATVI_GP_KERNEL_VEC_H
#define ATVI_GP_KERNEL_VEC_H

#include "core/compiler.h"
#include <math.h>
#include <stdint.h>

#if defined __AVX512F__
#define WIDTH 64
#elif defined __AVX__
#define WIDTH 32
#else
#define WIDTH 16
#endif
#if defined __SSE2__
#include <immintrin.h>
#endif

#define ALWAYS static inline __attribute__((always_inline))

typedef double vec __attribute__((vector_size(WIDTH), __may_alias__));
typedef int64_t veci __attribute__((vector_size(WIDTH), __may_alias__));
typedef uint64_t vecu __attribute__((vector_size(WIDTH), __may_alias__));
enum { PER_VEC = WIDTH / sizeof(double) };

/* A NaN in either gives b. */
ALWAYS vec vec_max(vec a, vec b) {
#if defined __AVX512F__
  return (vec)_mm512_max_pd((__m512d)a, (__m512d)b);
#elif defined __AVX__
  return (vec)_mm256_max_pd((__m256d)a, (__m256d)b);
#elif defined __SSE2__
  return (vec)_mm_max_pd((__m128d)a, (__m128d)b);
#else
  for (int l = 0; l < PER_VEC; l++) a[l] = a[l] > b[l] ? a[l] : b[l];
  return a;
#endif
}

ALWAYS vec vec_of(double a) { return (vec){0} + a; }
ALWAYS vec vec_abs(vec a) { return (vec)((veci)a & INT64_MAX); }
/* a with the sign of b turned into it; 0 where b is 0. */
ALWAYS vec vec_signed(vec a, vec b) { return (vec)((b != 0) & ((veci)a ^ ((veci)b & INT64_MIN))); }

/* x <= 709; x below -708 counts as -708; NaN stays NaN. */
ALWAYS vec vec_exp(vec x) {
  const vec magic = vec_of(0x1.8p52); /* adding it rounds to a whole number, which its last bits then hold */
  x = vec_max(vec_of(-708), x);
  vec t = x * 0x1.71547652b82fep+0 + magic, k = t - magic;
  vec r = x - k * 0x1.62e42fep-1; /* exact: 29 bits times 11 */
  r = r - k * 0x1.f473de6af278fp-30;
  vec r2 = r * r, r4 = r2 * r2;
  vec q0 = 0.50000000000000010262 + r * 0.16666666666666667456;
  vec q1 = 0.041666666666623991516 + r * 0.0083333333333300513464;
  vec q2 = 0.0013888888917281793308 + r * 0.00019841269863105968748;
  vec q3 = 0.000024801521190217727651 + r * 2.7557268378684192873e-6;
  vec q4 = 2.7620138719733995569e-7 + r * 2.5100424157005066788e-8;
  vec q = (q0 + r2 * q1) + r4 * ((q2 + r2 * q3) + r4 * q4);
  vec e = 1 + (r + r2 * q);
  return (vec)((vecu)e + (((vecu)t - (vecu)magic) << 52));
}

#endif
