/* SPDX-License-Identifier: MIT */
/* Sobol points by Gray code, scrambled by hashing.
 *
 * Point i of dimension k is the exclusive or of the direction numbers v_b over the bits b of i ^ i/2; from i to i + 1 only
 * one bit of that changes, the lowest zero of i (Antonov & Saleev 1979). v_b comes from the first s by
 * the recurrence of the primitive polynomial (Bratley & Fox 1988).
 *
 * Nested uniform scrambling (Owen 1995) flips digit b of a point by a random bit that depends on the digits before
 * it. On the reversed word "before" is "below", and additions and multiplications carry upwards only: a keyed permutation
 * made of them is a nested scrambling (Laine & Karras 2011, Burley 2020). Key words are Philox numbers of the
 * dimension: the first is added before anything else, which alone makes every single point exactly uniform; random
 * odd factors and x ^= x * even make what happens under different prefixes independent of each other, as far as a
 * few operations can. The test compares errors with those of true nested scrambling.
 *
 * Digits beyond the 32 of the net are independent between points in a full scrambling: 20 more hashed bits. */
#include "math/sobol.h"
#include "math/rng.h"
#include "math/special.h"

enum { BITS = 32 };
#define PLAIN 0x80000000u /* set in the dimension of independent numbers: no counter is used twice */

static void directions(atvi_idx dim, uint32_t v[BITS]) {
  const atvi_sobol_entry *e = &atvi_math_sobol_table[dim];
  for (int b = 0; b < BITS; b++) {
    if (e->s == 0) {
      v[b] = 1u << (BITS - 1 - b);
    } else if (b < e->s) {
      v[b] = (uint32_t)e->m[b] << (BITS - 1 - b);
    } else {
      v[b] = v[b - e->s] ^ v[b - e->s] >> e->s;
      for (int k = 1; k < e->s; k++)
        if (e->a >> (e->s - 1 - k) & 1) v[b] ^= v[b - k];
    }
  }
}

static uint32_t raw(const uint32_t v[BITS], uint32_t i) {
  uint32_t x = 0, gray = i ^ i >> 1;
  for (int b = 0; gray; b++, gray >>= 1)
    if (gray & 1) x ^= v[b];
  return x;
}

uint32_t atvi_math_sobol_raw(uint32_t i, atvi_idx dim) {
  uint32_t v[BITS];
  directions(dim, v);
  return raw(v, i);
}

static int lowest_zero(uint32_t i) {
  int b = 0;
  for (; i & 1; i >>= 1) b++;
  return b;
}

static uint32_t reversed(uint32_t x) {
  x = (x & 0x55555555u) << 1 | (x >> 1 & 0x55555555u);
  x = (x & 0x33333333u) << 2 | (x >> 2 & 0x33333333u);
  x = (x & 0x0F0F0F0Fu) << 4 | (x >> 4 & 0x0F0F0F0Fu);
  x = (x & 0x00FF00FFu) << 8 | (x >> 8 & 0x00FF00FFu);
  return x << 16 | x >> 16;
}

/* Every line is a permutation in which bit b of the result depends on bits 0 .. b of x: x * even does not reach bit b
 * from bit b itself. The even factors have dense low bits (2 modulo 4), so that each bit reaches its upper neighbour. */
static uint32_t scrambled(uint32_t x, const uint32_t key[8]) {
  x = reversed(x) + key[0];
  x ^= x * (key[1] << 2 | 2);
  x *= key[2] | 1;
  x ^= x * (key[3] << 2 | 2);
  x += key[4];
  x *= key[5] | 1;
  x ^= x * (key[6] << 2 | 2);
  x ^= x * (key[7] << 2 | 2);
  return reversed(x);
}

/* 20 bits that differ between points at random (finaliser of splitmix64, Steele, Lea & Flood 2014). */
static uint32_t low_bits(uint32_t x, uint32_t key) {
  uint64_t z = ((uint64_t)key << 32 | x) + 0x9E3779B97F4A7C15u;
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
  z = (z ^ z >> 27) * 0x94D049BB133111EBu;
  return (uint32_t)(z >> 44);
}

/* 52 bits and a half, as in rng.c. */
static double unit(uint32_t high, uint32_t low20) {
  return ((double)((uint64_t)high << 20 | low20) + 0.5) * 0x1p-52;
}

static void net(atvi_sobol s, atvi_idx first, atvi_idx dim, atvi_idx B, double *out) {
  const uint32_t seed[2] = {(uint32_t)s.seed, (uint32_t)(s.seed >> 32)};
  uint32_t v[BITS], key[12];
  for (uint32_t k = 0; k < 3; k++)
    atvi_math_rng_block((uint32_t[4]){k, (uint32_t)dim, s.scramble, s.stream}, seed, key + 4 * k);
  directions(dim, v);
  uint32_t x = raw(v, (uint32_t)first);
  for (atvi_idx j = 0; j < B; j++) {
    uint32_t y = scrambled(x, key), i = (uint32_t)(first + j);
    out[j] = unit(y, low_bits(y, key[8]));
    if (i != UINT32_MAX) x ^= v[lowest_zero(i)];
  }
}

static void plain(atvi_sobol s, atvi_idx first, atvi_idx dim, atvi_idx B, double *out) {
  const uint32_t seed[2] = {(uint32_t)s.seed, (uint32_t)(s.seed >> 32)};
  for (atvi_idx j = 0; j < B; j++) {
    uint32_t bits[4];
    atvi_math_rng_block((uint32_t[4]){(uint32_t)(first + j), (uint32_t)dim | PLAIN, s.scramble, s.stream},
                        seed, bits);
    out[j] = unit(bits[0], bits[1] >> 12);
  }
}

static void to_normal(atvi_idx n, double *x) {
  for (atvi_idx i = 0; i < n; i++) x[i] = atvi_math_ndtri(x[i]);
}

void atvi_math_sobol_uniform(atvi_sobol key, atvi_idx first, atvi_idx d, atvi_idx B, double *out) {
  ATVI_ASSERT(first >= 0 && first + B <= (atvi_idx)1 << BITS);
  for (atvi_idx dim = 0; B > 0 && dim < d; dim++)
    (dim < ATVI_SOBOL_DIMS ? net : plain)(key, first, dim, B, out + dim * B);
}

void atvi_math_sobol_normal(atvi_sobol key, atvi_idx first, atvi_idx d, atvi_idx B, double *out) {
  atvi_math_sobol_uniform(key, first, d, B, out);
  to_normal(d * B, out);
}

void atvi_math_sobol_plain_normal(atvi_sobol key, atvi_idx first, atvi_idx d, atvi_idx B, double *out) {
  ATVI_ASSERT(first >= 0 && first + B <= (atvi_idx)1 << BITS);
  for (atvi_idx dim = 0; dim < d; dim++) plain(key, first, dim, B, out + dim * B);
  to_normal(d * B, out);
}
