/* SPDX-License-Identifier: MIT */
/* Philox4x32-10 (Salmon, Moraes, Dror, Shaw 2011, section 3.3): ten rounds of two 32 x 32 -> 64 bit
 * products; the key is bumped by Weyl constants between rounds. */
#include "math/rng.h"
#include "math/detail.h"
#include "math/special.h"
#include <math.h>
#include <string.h>

static void bump(uint32_t key[2]) {
  key[0] += 0x9E3779B9u;
  key[1] += 0xBB67AE85u;
}

void atvi_math_rng_block(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]) {
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

atvi_rng atvi_math_rng_at(uint64_t seed, uint32_t stream, uint32_t iteration, uint32_t draw) {
  return (atvi_rng){.key = {(uint32_t)seed, (uint32_t)(seed >> 32)}, .counter = {0, draw, iteration, stream}};
}

uint64_t atvi_math_rng_bits(atvi_rng *r) {
  if (r->left < 2) {
    atvi_math_rng_block(r->counter, r->key, r->out);
    r->counter[0]++;
    r->left = 4;
  }
  int i = 4 - r->left;
  r->left -= 2;
  return (uint64_t)r->out[i] | (uint64_t)r->out[i + 1] << 32;
}

/* 52 bits and a half: with 53 the largest value would round to 1. */
double atvi_math_rng_uniform(atvi_rng *r) { return ((double)(atvi_math_rng_bits(r) >> 12) + 0.5) * 0x1p-52; }

double atvi_math_rng_normal(atvi_rng *r) { return atvi_math_ndtri(atvi_math_rng_uniform(r)); }

void atvi_math_rng_normals(const atvi_rng *at, atvi_idx first, atvi_idx n, double *x) {
  uint32_t counter[4] = {(uint32_t)(first / 2), at->counter[1], at->counter[2], at->counter[3]};
  double last[2 * ATVI_LANES];
  for (atvi_idx i = 0; i < n; i += 2, counter[0]++) {
    double *to = x + i * ATVI_LANES;
    ATVI_ISA_PICK(atvi_math_normals)(at->key, counter, i + 1 < n ? to : last);
    if (i + 1 == n) memcpy(to, last, ATVI_LANES * sizeof *to);
  }
}

double atvi_math_rng_exponential(atvi_rng *r) { return -log(atvi_math_rng_uniform(r)); }

/* Draws by rejection. Acceptance tests use the saddle-point forms of detail.h: with plain lgamma
 * the log mass of a count near 1e9 would be off by 1e-6. */

/* Marsaglia and Tsang 2000, shape >= 1. */
static double gamma_large(atvi_rng *r, double shape) {
  double d = shape - 1.0 / 3.0, c = 1.0 / sqrt(9.0 * d);
  for (;;) {
    double x = atvi_math_rng_normal(r), v = 1.0 + c * x;
    if (!(v > 0)) continue;
    v = v * v * v;
    double u = atvi_math_rng_uniform(r);
    if (u < 1.0 - 0.0331 * x * x * x * x) return d * v;
    if (log(u) < 0.5 * x * x + d * (1.0 - v + log(v))) return d * v;
  }
}

/* Log of a gamma draw: small shapes give values that no double holds. */
static double log_gamma_draw(atvi_rng *r, double shape) {
  if (shape >= 1.0) return log(gamma_large(r, shape));
  double g = log(gamma_large(r, shape + 1.0));
  return g + log(atvi_math_rng_uniform(r)) / shape;
}

double atvi_math_rng_gamma(atvi_rng *r, double shape) {
  if (!(shape > 0) || isinf(shape)) return shape > 0 ? shape : NAN;
  if (shape >= 1.0) return gamma_large(r, shape);
  return exp(log_gamma_draw(r, shape));
}

double atvi_math_rng_beta(atvi_rng *r, double a, double b) {
  if (!(a > 0) || !(b > 0) || isinf(a) || isinf(b)) return NAN;
  double la = log_gamma_draw(r, a), lb = log_gamma_draw(r, b);
  return 1.0 / (1.0 + exp(lb - la));
}

double atvi_math_rng_student(atvi_rng *r, double df) {
  if (!(df > 0)) return NAN;
  double z = atvi_math_rng_normal(r);
  if (isinf(df)) return z;
  return z * exp(-0.5 * (log_gamma_draw(r, 0.5 * df) - log(0.5 * df)));
}

static double poisson_small(atvi_rng *r, double mean) {
  double u = atvi_math_rng_uniform(r), p = exp(-mean), k = 0;
  while (u > p) {
    u -= p;
    k++;
    p *= mean / k;
    if (p < 1e-300) break; /* u beyond the rounded total */
  }
  return k;
}

/* Transformed rejection PTRS, Hoermann 1993, for mean >= 10. */
static double poisson_large(atvi_rng *r, double mean) {
  double b = 0.931 + 2.53 * sqrt(mean), a = -0.059 + 0.02483 * b;
  double inv_alpha = 1.1239 + 1.1328 / (b - 3.4), v_r = 0.9277 - 3.6224 / (b - 2.0);
  for (;;) {
    double u = atvi_math_rng_uniform(r) - 0.5, v = atvi_math_rng_uniform(r), us = 0.5 - fabs(u);
    double k = floor((2.0 * a / us + b) * u + mean + 0.43);
    if (us >= 0.07 && v <= v_r) return k;
    if (k < 0 || (us < 0.013 && v > us)) continue;
    if (log(v * inv_alpha / (a / (us * us) + b)) <= atvi_math_log_pois(k, mean)) return k;
  }
}

double atvi_math_rng_poisson(atvi_rng *r, double mean) {
  if (!(mean >= 0) || isinf(mean)) return NAN;
  if (mean == 0) return 0;
  return mean < 10.0 ? poisson_small(r, mean) : poisson_large(r, mean);
}

static double binomial_small(atvi_rng *r, double n, double p) {
  double u = atvi_math_rng_uniform(r), f = exp(n * log1p(-p)), odds = p / (1.0 - p), k = 0;
  while (u > f && k < n) {
    u -= f;
    f *= odds * (n - k) / (k + 1.0);
    k++;
    if (f < 1e-300) break;
  }
  return k;
}

/* Transformed rejection BTRS, Hoermann 1993, for n p >= 10 and p <= 1/2. */
static double binomial_large(atvi_rng *r, double n, double p) {
  double q = 1.0 - p, sd = sqrt(n * p * q);
  double b = 1.15 + 2.53 * sd, a = -0.0873 + 0.0248 * b + 0.01 * p, c = n * p + 0.5;
  double v_r = 0.92 - 4.2 / b, alpha = (2.83 + 5.1 / b) * sd, m = floor((n + 1.0) * p);
  double top = atvi_math_log_binom(m, n - m, p, q);
  for (;;) {
    double u = atvi_math_rng_uniform(r) - 0.5, v = atvi_math_rng_uniform(r), us = 0.5 - fabs(u);
    double k = floor((2.0 * a / us + b) * u + c);
    if (us >= 0.07 && v <= v_r) return k;
    if (k < 0 || k > n) continue;
    if (log(v * alpha / (a / (us * us) + b)) <= atvi_math_log_binom(k, n - k, p, q) - top) return k;
  }
}

double atvi_math_rng_binomial(atvi_rng *r, double n, double p) {
  if (!(n >= 0) || !(p >= 0 && p <= 1) || isinf(n)) return NAN;
  if (n == 0 || p == 0) return 0;
  if (p == 1) return n;
  if (p > 0.5) return n - atvi_math_rng_binomial(r, n, 1.0 - p);
  return n * p < 10.0 ? binomial_small(r, n, p) : binomial_large(r, n, p);
}

double atvi_math_rng_negbin(atvi_rng *r, double mean, double size) {
  if (!(mean >= 0) || !(size > 0)) return NAN;
  if (isinf(size)) return atvi_math_rng_poisson(r, mean);
  return atvi_math_rng_poisson(r, exp(log_gamma_draw(r, size) - log(size) + log(mean)));
}
