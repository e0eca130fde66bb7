/* SPDX-License-Identifier: MIT */
/* Philox4x32-10 (Salmon, Moraes, Dror, Shaw 2011, section 3.3): ten rounds of two 32 x 32 -> 64 bit
 * products; the key is bumped by Weyl constants between rounds. */
#include "math/rng.h"
#include "math/special.h"
#include <math.h>

static void bump(uint32_t key[2]) {
  key[0] += 0x9E3779B9u;
  key[1] += 0xBB67AE85u;
}

void atvi_rng_block(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]) {
  uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
  uint32_t k[2] = {key[0], key[1]};
  for (int round = 0; round < 10; round++) {
    if (round > 0) bump(k);
    uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
    c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k[0];
    c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k[1];
    c1 = (uint32_t)p1;
    c3 = (uint32_t)p0;
  }
  out[0] = c0;
  out[1] = c1;
  out[2] = c2;
  out[3] = c3;
}

atvi_rng atvi_rng_at(uint64_t seed, uint32_t stream, uint32_t iteration, uint32_t draw) {
  return (atvi_rng){.key = {(uint32_t)seed, (uint32_t)(seed >> 32)}, .counter = {0, draw, iteration, stream}};
}

uint64_t atvi_rng_bits(atvi_rng *r) {
  if (r->left < 2) {
    atvi_rng_block(r->counter, r->key, r->out);
    r->counter[0]++;
    r->left = 4;
  }
  int i = 4 - r->left;
  r->left -= 2;
  return (uint64_t)r->out[i] | (uint64_t)r->out[i + 1] << 32;
}

/* 52 bits and a half: with 53 the largest value would round to 1. */
double atvi_rng_uniform(atvi_rng *r) { return ((double)(atvi_rng_bits(r) >> 12) + 0.5) * 0x1p-52; }

double atvi_rng_normal(atvi_rng *r) { return atvi_ndtri(atvi_rng_uniform(r)); }

double atvi_rng_exponential(atvi_rng *r) { return -log(atvi_rng_uniform(r)); }
