/* SPDX-License-Identifier: MIT */
/* Vectors of the instruction set's own width and elementary functions on them, for *_isa.c only: all of it is
 * static. Lanes never meet, and every lane is computed by the same instructions, so that a point's result
 * depends neither on its place nor on its neighbours.
 *
 * exp    x = k log 2 + r, |r| <= log(2)/2; e^r = 1 + r + r^2 Q(r), Q of degree 9 through Chebyshev points (error 2e-17).
 * log    x = 2^k m, m in [sqrt(1/2), sqrt 2), s = (m-1)/(m+1); log m = 2 s + s^3 P(s^2), P of degree 6 (error 5e-18).
 * tanh   (1 - e^{-2|x|}) / (1 + e^{-2|x|}) with the sign of x: right to 2e-16 absolute, which is what a unit needs.
 * exp(0) = 1 and log(1) = 0 exactly: the identity stays the identity. */
#ifndef ATVI_MATH_VEC_H
#define ATVI_MATH_VEC_H

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
typedef double vec_any __attribute__((vector_size(WIDTH), __may_alias__, aligned(8)));
typedef int64_t veci __attribute__((vector_size(WIDTH), __may_alias__));
typedef uint64_t vecu __attribute__((vector_size(WIDTH), __may_alias__));
enum { PER_VEC = WIDTH / sizeof(double), PER_ROW = ATVI_LANES / PER_VEC };
#define PARTS(p) for (int p = 0; p < PER_ROW; p++)

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

ALWAYS vec vec_sqrt(vec a) {
#if defined __AVX512F__
  return (vec)_mm512_sqrt_pd((__m512d)a);
#elif defined __AVX__
  return (vec)_mm256_sqrt_pd((__m256d)a);
#elif defined __SSE2__
  return (vec)_mm_sqrt_pd((__m128d)a);
#else
  for (int l = 0; l < PER_VEC; l++) a[l] = sqrt(a[l]);
  return a;
#endif
}

ALWAYS vec vec_of(double a) { return (vec){0} + a; }
ALWAYS vec vec_abs(vec a) { return (vec)((veci)a & INT64_MAX); }
ALWAYS vec pick(veci mask, vec a, vec b) { return (vec)((mask & (veci)a) | (~mask & (veci)b)); }
ALWAYS vec keep(veci mask, vec a) { return (vec)(mask & (veci)a); }

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

/* x positive, finite and not denormal; NaN and infinity give NaN. */
ALWAYS vec vec_log(vec x) {
  const uint64_t root_half = 0x3fe6a09e667f3bcd, one = (uint64_t)1023 << 52;
  vecu u = (vecu)x - root_half + one;
  vec k = (vec)((u >> 52) | (uint64_t)0x4330000000000000) - (0x1p52 + 1023);
  vec m = (vec)((vecu)x - ((u & ((uint64_t)0xfff << 52)) - one));
  vec f = x * 0 + (m - 1), s = f / (2 + f), s2 = s * s, s4 = s2 * s2;
  vec p0 = 0.66666666666666697077 + s2 * 0.39999999999898890514;
  vec p1 = 0.28571428626253837606 + s2 * 0.22222211089379496214;
  vec p2 = 0.18182892432536871201 + s2 * 0.15331611722055007885;
  vec p = (p0 + s4 * p1) + (s4 * s4) * (p2 + s4 * 0.14617807153417324964);
  vec tail = s * s2 * p + k * 0x1.f473de6af278fp-30;
  return k * 0x1.62e42fep-1 + (2 * s + tail);
}

ALWAYS vec vec_tanh(vec x) {
  vec e = vec_exp(-2 * vec_abs(x));
  vec t = (1 - e) / (1 + e);
  return (vec)((veci)t | ((veci)x & INT64_MIN));
}

#endif
