/* SPDX-License-Identifier: MIT */
/* Adaptive Metropolis in lanes: random numbers, proposal, decision, adaptation.
 *
 * Random numbers  Philox4x32-10 with counter (block, chain, iteration, stream) as in math/rng, one chain
 *   per vector element. Two 32-bit words give two normals by Box-Muller: the radius from log, the angle
 *   from a quadrant (2 bits) and an offset within +-pi/4 (30 bits). 32 bits reach 6.7 standard deviations,
 *   and the set of angles is symmetric, so proposals are too: all that Metropolis needs.
 *
 * Adaptation (Vihola 2012, eq. 1)  S' S'^T = S (I + c e e^T) S^T, e = u/|u|, c = eta (alpha - alpha*).
 *   The Cholesky factor M of I + c e e^T is known: with t_k = 1 + c (e_1^2 + .. + e_k^2), t_0 = 1,
 *     M_kk = sqrt(t_k / t_{k-1}),   M_ik = c e_i e_k / sqrt(t_k t_{k-1})  for i > k,
 *   so S' = S M row by row with running sums of S_ik e_k: no update that could lose definiteness, because
 *   t stays between 1 and 1 + c, and c >= -0.234.
 *
 * Vectors have the native width of the instruction set (wider ones were measured to be slow), and a group
 * is worked off in ATVI_LANES / W parts. */
#include "infer/chains.h"
#include "math/rng.h"
#include <math.h>
#include <string.h>

/* Doubles of a register. */
#if defined __AVX512F__
enum { W = 512 / 64 };
#elif defined __AVX2__
enum { W = 256 / 64 };
#else
enum { W = 128 / 64 };
#endif

typedef double vd __attribute__((vector_size(W * 8)));
typedef uint64_t vu __attribute__((vector_size(W * 8)));
typedef int64_t vi __attribute__((vector_size(W * 8)));

#define ACCEPT_WANTED 0.234 /* Vihola 2012, section 5 */

static inline vd at(const double *p) {
  vd v;
  memcpy(&v, p, sizeof v);
  return v;
}
static inline void put(double *p, vd v) { memcpy(p, &v, sizeof v); }
static inline vd all(double x) { return x - (vd){0}; }
static inline vd pick(vi mask, vd yes, vd no) { return (vd)(((vi)yes & mask) | ((vi)no & ~mask)); }

static inline vd root(vd x) {
  for (int i = 0; i < W; i++) x[i] = sqrt(x[i]);
  return x;
}

/* Whole numbers below 2^52 as doubles: as the low bits of 2^52. */
static inline vd whole(vu n) { return (vd)(n | 0x4330000000000000u) - 0x1p52; }

/* log x for normal x > 0: x = 2^e m, m in [sqrt(1/2), sqrt 2), log m = 2 atanh((m - 1)/(m + 1)).
 * The series is cut where its rest is below 1e-15 of log m. */
static inline vd vlog(vd x) {
  vu bits = (vu)x + 0x00095f619980c433u; /* adds 1 to the exponent from sqrt 2 on */
  vd e = whole(bits >> 52) - 1023.0;
  vd m = (vd)((vu)x - (((bits >> 52) - 1023u) << 52));
  vd f = (m - 1.0) / (m + 1.0), s = f * f;
  vd p = all(1.0 / 19);
  for (int k = 17; k >= 1; k -= 2) p = p * s + 1.0 / k;
  return e * 0x1.62e42fefa39efp-1 + 2.0 * f * p;
}

/* e^x for -700 <= x <= 0: x = k log 2 + r, Taylor of degree 12 in |r| <= 0.35. */
static inline vd vexp(vd x) {
  vd shifted = x * 0x1.71547652b82fep0 + 0x1.8p52;
  vd k = shifted - 0x1.8p52;
  vd r = (x - k * 0x1.62e42fefa0000p-1) - k * 0x1.cf79abc9e3b3ap-40;
  vd p = all(1.0 / 479001600);
  double fact = 479001600;
  for (int i = 12; i >= 1; i--) {
    fact /= i;
    p = p * r + 1.0 / fact;
  }
  return (vd)((vu)p + ((vu)shifted << 52));
}

/* cos and sin of the angle that a 32-bit word stands for. */
static inline void circle(vu word, vd *c, vd *s) {
  vd a = ((whole(word & 0x3fffffffu) + 0.5) * 0x1p-30 - 0.5) * 0x1.921fb54442d18p0, b = a * a;
  vd sn = all(-1.0 / 1307674368000), cs = all(1.0 / 20922789888000);
  sn = sn * b + 1.0 / 6227020800;
  sn = sn * b - 1.0 / 39916800;
  sn = sn * b + 1.0 / 362880;
  sn = sn * b - 1.0 / 5040;
  sn = sn * b + 1.0 / 120;
  sn = sn * b - 1.0 / 6;
  sn = a + a * (sn * b);
  cs = cs * b - 1.0 / 87178291200;
  cs = cs * b + 1.0 / 479001600;
  cs = cs * b - 1.0 / 3628800;
  cs = cs * b + 1.0 / 40320;
  cs = cs * b - 1.0 / 720;
  cs = cs * b + 1.0 / 24;
  cs = cs * b - 0.5;
  cs = cs * b + 1.0;
  vi turn = -(vi)((word >> 30) & 1u); /* a quarter: (c, s) -> (-s, c) */
  vu sign = (word >> 31) << 63;       /* a half: both change sign */
  *c = (vd)((vu)pick(turn, -sn, cs) ^ sign);
  *s = (vd)((vu)pick(turn, cs, sn) ^ sign);
}

static inline void philox(vu c[4], uint64_t seed) {
  uint64_t k0 = (uint32_t)seed, k1 = seed >> 32;
  for (int i = 0; i < 10; i++) {
    vu p0 = c[0] * 0xD2511F53u, p1 = c[2] * 0xCD9E8D57u;
    c[0] = (p1 >> 32) ^ c[1] ^ k0;
    c[1] = p1 & 0xffffffffu;
    c[2] = (p0 >> 32) ^ c[3] ^ k1;
    c[3] = p0 & 0xffffffffu;
    k0 = (uint32_t)(k0 + 0x9E3779B9u);
    k1 = (uint32_t)(k1 + 0xBB67AE85u);
  }
}

static inline void block_at(const atvi_lanes *g, uint32_t iteration, uint32_t number, int part, vu c[4]) {
  for (int i = 0; i < W; i++) c[1][i] = g->chain + (uint32_t)(part * W + i);
  vu zero = {0};
  c[0] = zero + number;
  c[2] = zero + iteration;
  c[3] = zero + (uint32_t)ATVI_STREAM_MCMC;
  philox(c, g->seed);
}

/* u[0 .. d] (d rounded up to even) and log_u for one part of the lanes. */
static inline void numbers(const atvi_lanes *g, uint32_t iteration, int part) {
  vu c[4] = {{0}};
  atvi_idx pairs = (g->d + 1) / 2;
  for (atvi_idx p = 0; p <= pairs; p++) {
    if (p % 2 == 0) block_at(g, iteration, (uint32_t)(p / 2), part, c);
    vu w0 = p % 2 ? c[2] : c[0], w1 = p % 2 ? c[3] : c[1];
    if (p == pairs) { /* the last pair of words decides, with 52 bits */
      vd unit = (vd)((w0 << 20 | w1 >> 12) | 0x3ff0000000000000u) - 1.0 + 0x1p-53;
      put(g->log_u + part * W, vlog(unit));
      break;
    }
    vd cs, sn, radius = root(-2.0 * vlog((whole(w0) + 0.5) * 0x1p-32));
    circle(w1, &cs, &sn);
    put(g->u + (2 * p) * ATVI_LANES + part * W, radius * cs);
    put(g->u + (2 * p + 1) * ATVI_LANES + part * W, radius * sn);
  }
}

static inline void propose_part(const atvi_lanes *g, uint32_t iteration, int part) {
  numbers(g, iteration, part);
  const double *S = g->S + part * W, *u = g->u + part * W, *x = g->x + part * W;
  vi inside = ~(vi){0};
  for (atvi_idx i = 0; i < g->d; i++) {
    vd y = at(x + i * ATVI_LANES);
    for (atvi_idx j = 0; j <= i; j++, S += ATVI_LANES) y += at(S) * at(u + j * ATVI_LANES);
    put(g->prop + i * ATVI_LANES + part * W, y);
    inside &= (vi)(y >= all(g->lower[i])) & (vi)(y <= all(g->upper[i]));
  }
  put(g->outside + part * W, pick(inside, all(0), all(1)));
}

void ATVI_ISA_NAME(atvi_infer_lanes_propose)(const atvi_lanes *g, uint32_t iteration) {
  for (int part = 0; part < ATVI_LANES / W; part++) propose_part(g, iteration, part);
}

/* Moves the accepted lanes; returns alpha, the probability of acceptance. */
static inline vd decide(const atvi_lanes *g, double beta, int part) {
  double *lp = g->log_prior + part * W, *ll = g->log_lik + part * W, *acc = g->accepted + part * W;
  vd np = at(g->prop_log_prior + part * W), nl = at(g->prop_log_lik + part * W);
  vd delta = (np + beta * nl) - (at(lp) + beta * at(ll));
  vi yes = (vi)(delta > at(g->log_u + part * W));
  put(lp, pick(yes, np, at(lp)));
  put(ll, pick(yes, nl, at(ll)));
  put(acc, at(acc) + pick(yes, all(1), all(0)));
  for (atvi_idx i = 0; i < g->d; i++) {
    double *x = g->x + i * ATVI_LANES + part * W;
    put(x, pick(yes, at(g->prop + i * ATVI_LANES + part * W), at(x)));
  }
  vi some = (vi)(delta > all(-700));
  vd capped = pick(some, pick((vi)(delta < all(0)), delta, all(0)), all(-700));
  return pick(some, vexp(capped), all(0));
}

static inline void adapt(const atvi_lanes *g, vd c, int part) {
  const double *u = g->u + part * W;
  double *diag = g->diag + part * W, *gain = g->gain + part * W, *row = g->S + part * W;
  vd norm = {0}, t = all(1);
  for (atvi_idx j = 0; j < g->d; j++) norm += at(u + j * ATVI_LANES) * at(u + j * ATVI_LANES);
  c /= norm;
  for (atvi_idx j = 0; j < g->d; j++) {
    vd uj = at(u + j * ATVI_LANES), before = t, both;
    t = before + c * uj * uj;
    both = root(t * before);
    put(diag + j * ATVI_LANES, both / before);
    put(gain + j * ATVI_LANES, c * uj / both);
  }
  for (atvi_idx i = 0; i < g->d; row += ++i * ATVI_LANES) {
    vd sum = {0}; /* of S_ik u_k over k > j */
    for (atvi_idx j = i; j >= 0; j--) {
      vd s = at(row + j * ATVI_LANES);
      put(row + j * ATVI_LANES, s * at(diag + j * ATVI_LANES) + sum * at(gain + j * ATVI_LANES));
      sum += s * at(u + j * ATVI_LANES);
    }
  }
}

void ATVI_ISA_NAME(atvi_infer_lanes_update)(const atvi_lanes *g, double beta, double eta) {
  for (int part = 0; part < ATVI_LANES / W; part++) {
    vd alpha = decide(g, beta, part);
    adapt(g, eta * (alpha - ACCEPT_WANTED), part);
  }
}
