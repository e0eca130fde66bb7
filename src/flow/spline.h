/* SPDX-License-Identifier: MIT */
/* One coordinate of a layer: x = e^a S(z) + b with S the rational-quadratic spline of Durkan et al. (2019,
 * arXiv:1906.04032) on [-A, A], the identity outside. For *_isa.c of this folder only; one vector of draws at
 * a time.
 *
 * Notation  K bins; w, h width and height of the bin the point is in, (x_k, y_k) its left knot, t0, t1 > 0 the slopes at its
 *           knots (1 at -A and A, so that the tails join smoothly), s = h / w, q = (z - x_k) / w, r = q (1 - q).
 * Forward   y = y_k + (z - x_k) s (t0 + (s - t0) q) / D, D = s + (t0 + t1 - 2 s) r     (their eq. 4)
 *           S' = (s / D)^2 M, M = t0 + q (2 (s - t0) + q (t0 + t1 - 2 s))              (their eq. 5)
 *           in forms that give y = z and S' = 1 without rounding where all bins are even and all slopes 1.
 * Inverse   the root of their eq. 6 to 8, by whichever of its two forms adds numbers of one sign.
 * Shares    w_k = 2A/K (m + (1 - m) K p_k), p the softmax of the raw widths, m = MIN_BIN; heights alike.
 * Slopes    t = 1 + log(1 + c (e^s - 1)), c = 1 - e^{-(1 - MIN_SLOPE)}: the softplus of s + offset plus MIN_SLOPE, with the
 *           offset for which s = 0 means slope 1, written so that it does exactly. Only the two slopes in use are formed.
 * Scale     a = r / sqrt(1 + (r / MAX_LOG_SCALE)^2) of the raw r: r near 0, never beyond MAX_LOG_SCALE, so that
 *           no layer explodes whatever a training step does to the weights. */
#ifndef ATVI_FLOW_SPLINE_H
#define ATVI_FLOW_SPLINE_H

#include "flow/detail.h"
#include "math/vec.h"

#define MIN_BIN 0.01      /* smallest bin, as a share of an even one: slopes s stay within 100 K */
#define MAX_LOG_SCALE 3.0 /* per layer; a factor of 20 either way */
#define MIN_SLOPE 0.001   /* keeps the inverse well-conditioned */
#define SLOPE_C 0.63175249538633707879 /* 1 - exp(-(1 - MIN_SLOPE)) */

/* Rows of a vector's part: row r of part p of an array a[..][L] is ((vec *)a)[r * PER_ROW + p]. */
#define AT(a, r) ((a)[(r)*PER_ROW])

typedef struct {
  vec x, y, w, h, t0, t1; /* the bin */
  veci in;                /* lanes inside the box */
} bin;

/* p = softmax(raw), both K rows. The first row is always there: K >= 1. */
ALWAYS void softmax(int K, const vec *restrict raw, vec *restrict p) {
  vec top = AT(raw, 0), sum = {0};
  for (int k = 1; k < K; k++) top = vec_max(top, AT(raw, k));
  for (int k = 0; k < K; k++) {
    vec e = vec_exp(AT(raw, k) - top);
    AT(p, k) = e;
    sum += e;
  }
  vec inv = 1 / sum;
  for (int k = 0; k < K; k++) AT(p, k) *= inv;
}

/* Slope of the raw s, and its derivative. */
ALWAYS vec slope(vec s, vec *dt) {
  vec e = vec_exp(-vec_abs(s));
  veci pos = s > 0;
  vec arg = 1 + pick(pos, vec_of(1 - SLOPE_C), vec_of(SLOPE_C)) * (e - 1);
  *dt = SLOPE_C * pick(pos, vec_of(1), e) / arg;
  return 1 + (vec_max((vec){0}, s) + vec_log(arg));
}

/* The bin that holds key, on the axis of the widths or (inverse) of the heights. out: raw outputs; rec: the
 * shares and what the adjoint needs. */
ALWAYS bin find_bin(int K, double A, bool inverse, vec key, const vec *restrict out, vec *restrict rec) {
  const double even = 2 * A / K * MIN_BIN, per = 2 * A * (1 - MIN_BIN);
  const vec *pw = rec, *ph = rec + K * PER_ROW, *raw = out + (2 + 2 * K) * PER_ROW;
  vec *use = rec + 2 * K * PER_ROW;
  softmax(K, out + 2 * PER_ROW, rec);
  softmax(K, out + (2 + K) * PER_ROW, rec + K * PER_ROW);
  vec x = vec_of(-A), y = x, w = even + per * AT(pw, 0), h = even + per * AT(ph, 0), zero = {0};
  vec s0 = zero, s1 = K > 1 ? AT(raw, 0) : zero, number = zero;
  bin b = {x, y, w, h, zero, zero, vec_abs(key) < A};
  for (int k = 1; k < K; k++) {
    x += w;
    y += h;
    w = even + per * AT(pw, k);
    h = even + per * AT(ph, k);
    veci here = key >= (inverse ? y : x);
    b.x = pick(here, x, b.x);
    b.y = pick(here, y, b.y);
    b.w = pick(here, w, b.w);
    b.h = pick(here, h, b.h);
    s0 = pick(here, AT(raw, k - 1), s0);
    s1 = k < K - 1 ? pick(here, AT(raw, k), s1) : keep(~here, s1);
    number = pick(here, vec_of(k), number);
  }
  b.t0 = slope(s0, use + REC_DT0 * PER_ROW);
  b.t1 = slope(s1, use + REC_DT1 * PER_ROW);
  AT(use, REC_BIN) = pick(b.in, number, vec_of(-1));
  AT(use, REC_WIDTH) = b.w;
  AT(use, REC_HEIGHT) = b.h;
  AT(use, REC_T0) = b.t0;
  AT(use, REC_T1) = b.t1;
  return b;
}

/* log S' at place q of the bin; g = s / D is given back. */
ALWAYS vec log_slope(const bin *b, vec s, vec q, vec *g) {
  vec bend = b->t0 + b->t1 - 2 * s;
  *g = s / (s + bend * (q * (1 - q)));
  vec M = b->t0 + q * (2 * (s - b->t0) + q * bend);
  return keep(b->in, vec_log(*g * *g * M));
}

ALWAYS vec log_scale(vec raw, vec *da) {
  vec g = raw * (1 / MAX_LOG_SCALE), v = 1 / vec_sqrt(1 + g * g);
  *da = v * v * v;
  return raw * v;
}

/* x of z; log dx/dz is added to *l. */
ALWAYS vec spline_fwd(int K, double A, vec z, const vec *restrict out, vec *restrict rec, vec *l) {
  vec *use = rec + 2 * K * PER_ROW, g;
  bin b = find_bin(K, A, false, z, out, rec);
  vec from = keep(b.in, z) - b.x, s = b.h / b.w, q = from / b.w;
  vec ls = log_slope(&b, s, q, &g), chord = g * (b.t0 + (s - b.t0) * q);
  vec y = z + keep(b.in, (b.y - b.x) + from * (chord - 1));
  vec a = log_scale(AT(out, 0), &AT(use, REC_DA)), scale = vec_exp(a);
  AT(use, REC_Q) = q;
  AT(use, REC_Y) = y;
  AT(use, REC_SCALE) = scale;
  *l += a + ls;
  return scale * y + AT(out, 1);
}

/* z of x; log dx/dz is added to *l. */
ALWAYS vec spline_inv(int K, double A, vec x, const vec *restrict out, vec *restrict rec, vec *l) {
  vec *use = rec + 2 * K * PER_ROW, g;
  vec a = log_scale(AT(out, 0), &AT(use, REC_DA)), scale = vec_exp(a);
  vec y = (x - AT(out, 1)) / scale;
  bin b = find_bin(K, A, true, y, out, rec);
  vec up = keep(b.in, y) - b.y, s = b.h / b.w, bend = up * (b.t0 + b.t1 - 2 * s);
  vec qa = b.h * (s - b.t0) + bend, qb = b.h * b.t0 - bend, qc = s * up;
  vec root = vec_sqrt(vec_max((vec){0}, qb * qb + 4 * qa * qc));
  veci plus = qb >= 0; /* where qb < 0, qa > h s > 0 */
  vec q = pick(plus, 2 * qc, root - qb) / pick(plus, qb + root, 2 * qa);
  vec z = pick(b.in, b.x + q * b.w, y);
  AT(use, REC_Q) = q;
  AT(use, REC_Y) = y;
  AT(use, REC_SCALE) = scale;
  *l += a + log_slope(&b, s, q, &g);
  return z;
}

/* Adjoints of the bin's widths or heights, rows j of d: those left of bin k feel dleft, bin k itself dsize. */
ALWAYS void shares_bwd(int K, double per, vec k, vec dleft, vec dsize, const vec *restrict p,
                       vec *restrict d) {
  vec mean = {0};
  for (int j = 0; j < K; j++) {
    vec g = pick(k == (double)j, dsize, keep(k > (double)j, dleft));
    AT(d, j) = g;
    mean += AT(p, j) * g;
  }
  for (int j = 0; j < K; j++) AT(d, j) = per * AT(p, j) * (AT(d, j) - mean);
}

/* Adjoint at the recorded point. dl is that of log dx/dz. Forward: v = dx; gives back what reaches z
 * directly. Inverse: v = dz, complete; gives back dx. In the inverse, z(x, out) is implicit: dx = dz /
 * (dx/dz), and the outputs feel -dx times their effect on x. dout: adjoints of the raw outputs. */
ALWAYS vec spline_bwd(int K, double A, bool inverse, vec v, vec dl, const vec *restrict rec,
                      vec *restrict dout) {
  const vec *use = rec + 2 * K * PER_ROW;
  vec k = AT(use, REC_BIN), q = AT(use, REC_Q), w = AT(use, REC_WIDTH), h = AT(use, REC_HEIGHT);
  vec t0 = AT(use, REC_T0), t1 = AT(use, REC_T1), y = AT(use, REC_Y), scale = AT(use, REC_SCALE);
  veci in = k >= 0;
  vec iw = 1 / w, s = h * iw, r = q * (1 - q), bend = t0 + t1 - 2 * s;
  vec D = s + bend * r, iD = 1 / D, N = q * (t0 + (s - t0) * q);
  vec M = t0 + q * (2 * (s - t0) + q * bend), iM = 1 / M;
  vec Mq = 2 * ((t1 + t0) * q - t0), gap = 1 - 2 * q;
  vec dx = v, given = {0};
  if (inverse) {
    vec curve = iw * (Mq * iM + 2 * gap * (s * iM - bend * iD)); /* d log S' / dz */
    vec total = v + keep(in, curve) * dl, g = s * iD;
    given = total / (scale * pick(in, g * g * M, vec_of(1)));
    dx = -given;
  }
  vec dy = scale * dx, dN = h * dy * iD, part = N * iD;
  vec dD = -(dN * part + 2 * dl * iD), dM = dl * iM;
  vec ds = 2 * dl / s + q * q * dN + (1 - 2 * r) * dD + 2 * r * dM;
  vec dt0 = r * (dN + dD) + (1 - q) * (1 - q) * dM, dt1 = r * dD + q * q * dM;
  vec dq = 2 * s * q * dN + Mq * dM + gap * (t0 * dN + bend * dD + 2 * s * dM), dqw = dq * iw;
  vec dw = -(ds * s * iw + q * dqw), dh = part * dy + ds * iw;
  const double per = 2 * A * (1 - MIN_BIN);
  AT(dout, 0) = (scale * y * dx + dl) * AT(use, REC_DA);
  AT(dout, 1) = dx;
  shares_bwd(K, per, k, -dqw, dw, rec, dout + 2 * PER_ROW);
  shares_bwd(K, per, k, dy, dh, rec + K * PER_ROW, dout + (2 + K) * PER_ROW);
  vec left = dt0 * AT(use, REC_DT0), right = dt1 * AT(use, REC_DT1);
  vec *to = dout + (2 + 2 * K) * PER_ROW;
  for (int j = 0; j < K - 1; j++) AT(to, j) = pick(k == (double)j, right, keep(k == (double)(j + 1), left));
  return inverse ? given : pick(in, dqw, dy);
}

#endif
