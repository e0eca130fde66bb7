/* SPDX-License-Identifier: MIT */
/* Normals of ATVI_LANES generators at once: Philox and the inverse of Phi without branches, as in rng.c and
 * special.c. */
#include "math/detail.h"
#include "math/vec.h"
#include <string.h>

/* Products of numbers below 2^32. */
ALWAYS vecu times(vecu a, vecu b) {
#if defined __AVX512F__
  return (vecu)_mm512_mul_epu32((__m512i)a, (__m512i)b);
#elif defined __AVX2__
  return (vecu)_mm256_mul_epu32((__m256i)a, (__m256i)b);
#elif defined __SSE2__ && !defined __AVX__
  return (vecu)_mm_mul_epu32((__m128i)a, (__m128i)b);
#else
  return a * b;
#endif
}

ALWAYS vec ratio8(const double c[2][8], vec t) {
  vec n = vec_of(c[0][7]), d = vec_of(c[1][7]);
  for (int k = 6; k >= 0; k--) {
    n = n * t + c[0][k];
    d = d * t + c[1][k];
  }
  return n / d;
}

/* Where r > 5, at 1 of 10^10, it is wrong. */
ALWAYS vec quantile(vec p, vec *r) {
  vec q = p - 0.5, side = pick(q < 0, p, 1 - p);
  *r = vec_sqrt(-vec_log(side));
  vec mid = q * ratio8(atvi_math_ndtri_mid, 0.180625 - q * q), tail = ratio8(atvi_math_ndtri_near, *r - 1.6);
  return pick(vec_abs(q) <= 0.425, mid, pick(q < 0, -tail, tail));
}

/* 52 bits behind the point of a number in [2^52, 2^53), and half a bit, as in rng.c. */
ALWAYS vec uniform(vecu low, vecu high) {
  vecu bits = (low | high << 32) >> 12;
  return ((vec)(bits | (vecu)vec_of(0x1p52)) - 0x1p52 + 0.5) * 0x1p-52;
}

void ATVI_ISA_NAME(atvi_math_normals)(const uint32_t key[2], const uint32_t counter[4], double *x) {
  const uint64_t low = 0xFFFFFFFFu;
  PARTS(part) {
    uint32_t k0 = key[0], k1 = key[1];
    vecu c[4];
    for (int w = 0; w < 4; w++) c[w] = (vecu){0} + counter[w];
    for (int l = 0; l < PER_VEC; l++) c[1][l] = (uint32_t)(counter[1] + (uint32_t)(part * PER_VEC + l));
    for (int round = 0; round < 10; round++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
      vecu p0 = times(c[0], (vecu){0} + 0xD2511F53u), p1 = times(c[2], (vecu){0} + 0xCD9E8D57u);
      c[0] = (p1 >> 32) ^ c[1] ^ k0;
      c[2] = (p0 >> 32) ^ c[3] ^ k1;
      c[1] = p1 & low;
      c[3] = p0 & low;
    }
    for (int row = 0; row < 2; row++) {
      vec p = uniform(c[2 * row], c[2 * row + 1]), r, z = quantile(p, &r);
      for (int l = 0; l < PER_VEC; l++)
        if (r[l] > 5) z[l] = atvi_math_ndtri(p[l]);
      memcpy(x + row * ATVI_LANES + part * PER_VEC, &z, sizeof z);
    }
  }
}
