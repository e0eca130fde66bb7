/* SPDX-License-Identifier: MIT */
/* Decimation in frequency, radix 4 with one radix-2 stage for odd powers. With a, b, c, d the quarters of a
 * block and w = exp(-2 pi i / L):
 *   y0 = a + b + c + d              y1 = (a - i b - c + i d) w^j
 *   y2 = (a - b + c - d) w^2j       y3 = (a + i b - c - i d) w^3j
 * The inverse undoes the stages in the opposite order with conjugate factors. Inner loops run over
 * contiguous j, so that the compiler vectorises them. */
#include "math/detail.h"

void ATVI_ISA_NAME(atvi_math_fft_fwd)(atvi_idx n, const double *tw, double *re, double *im);
void ATVI_ISA_NAME(atvi_math_fft_inv)(atvi_idx n, const double *tw, double *re, double *im);

static void fwd4(atvi_idx h, const double *restrict w, double *restrict r0, double *restrict r1,
                 double *restrict r2, double *restrict r3, double *restrict i0, double *restrict i1,
                 double *restrict i2, double *restrict i3) {
  const double *c1 = w, *s1 = w + h, *c2 = w + 2 * h, *s2 = w + 3 * h, *c3 = w + 4 * h, *s3 = w + 5 * h;
  for (atvi_idx j = 0; j < h; j++) {
    double pr = r0[j] + r2[j], pi = i0[j] + i2[j], mr = r0[j] - r2[j], mi = i0[j] - i2[j];
    double qr = r1[j] + r3[j], qi = i1[j] + i3[j], dr = r1[j] - r3[j], di = i1[j] - i3[j];
    double ar = mr + di, ai = mi - dr; /* a - c - i (b - d) */
    double br = pr - qr, bi = pi - qi;
    double er = mr - di, ei = mi + dr;
    r0[j] = pr + qr;
    i0[j] = pi + qi;
    r1[j] = ar * c1[j] - ai * s1[j];
    i1[j] = ar * s1[j] + ai * c1[j];
    r2[j] = br * c2[j] - bi * s2[j];
    i2[j] = br * s2[j] + bi * c2[j];
    r3[j] = er * c3[j] - ei * s3[j];
    i3[j] = er * s3[j] + ei * c3[j];
  }
}

static void inv4(atvi_idx h, const double *restrict w, double *restrict r0, double *restrict r1,
                 double *restrict r2, double *restrict r3, double *restrict i0, double *restrict i1,
                 double *restrict i2, double *restrict i3) {
  const double *c1 = w, *s1 = w + h, *c2 = w + 2 * h, *s2 = w + 3 * h, *c3 = w + 4 * h, *s3 = w + 5 * h;
  for (atvi_idx j = 0; j < h; j++) {
    double ar = r1[j] * c1[j] + i1[j] * s1[j], ai = i1[j] * c1[j] - r1[j] * s1[j];
    double br = r2[j] * c2[j] + i2[j] * s2[j], bi = i2[j] * c2[j] - r2[j] * s2[j];
    double er = r3[j] * c3[j] + i3[j] * s3[j], ei = i3[j] * c3[j] - r3[j] * s3[j];
    double pr = r0[j] + br, pi = i0[j] + bi, mr = r0[j] - br, mi = i0[j] - bi;
    double qr = ar + er, qi = ai + ei, dr = ar - er, di = ai - ei;
    r0[j] = pr + qr;
    i0[j] = pi + qi;
    r1[j] = mr - di; /* + i (t1 - t3) */
    i1[j] = mi + dr;
    r2[j] = pr - qr;
    i2[j] = pi - qi;
    r3[j] = mr + di;
    i3[j] = mi - dr;
  }
}

static void all4(atvi_idx n, atvi_idx h, const double *w, double *re, double *im, int inverse) {
  for (atvi_idx at = 0; at < n; at += 4 * h) {
    double *r = re + at, *i = im + at;
    if (inverse)
      inv4(h, w, r, r + h, r + 2 * h, r + 3 * h, i, i + h, i + 2 * h, i + 3 * h);
    else
      fwd4(h, w, r, r + h, r + 2 * h, r + 3 * h, i, i + h, i + 2 * h, i + 3 * h);
  }
}

/* Blocks of four: no factors, and adjacent points. The two directions differ in the sign of i. */
static void last4(atvi_idx n, double *restrict re, double *restrict im, double sign) {
  for (atvi_idx at = 0; at < n; at += 4) {
    double *r = re + at, *i = im + at;
    double pr = r[0] + r[2], pi = i[0] + i[2], mr = r[0] - r[2], mi = i[0] - i[2];
    double qr = r[1] + r[3], qi = i[1] + i[3], dr = sign * (r[1] - r[3]), di = sign * (i[1] - i[3]);
    r[0] = pr + qr;
    i[0] = pi + qi;
    r[1] = mr + di;
    i[1] = mi - dr;
    r[2] = pr - qr;
    i[2] = pi - qi;
    r[3] = mr - di;
    i[3] = mi + dr;
  }
}

static int odd_power(atvi_idx n) {
  int odd = 0;
  for (; n > 1; n /= 2) odd = !odd;
  return odd;
}

void ATVI_ISA_NAME(atvi_math_fft_fwd)(atvi_idx n, const double *tw, double *re, double *im) {
  atvi_idx len = n;
  if (odd_power(n)) {
    atvi_idx h = n / 2;
    for (atvi_idx j = 0; j < h; j++) {
      double dr = re[j] - re[j + h], di = im[j] - im[j + h], c = tw[j], s = tw[h + j];
      re[j] += re[j + h];
      im[j] += im[j + h];
      re[j + h] = dr * c - di * s;
      im[j + h] = dr * s + di * c;
    }
    tw += n;
    len = h;
  }
  for (; len > 4; len /= 4) {
    all4(n, len / 4, tw, re, im, 0);
    tw += 6 * (len / 4);
  }
  last4(n, re, im, 1.0);
}

void ATVI_ISA_NAME(atvi_math_fft_inv)(atvi_idx n, const double *tw, double *re, double *im) {
  int odd = odd_power(n);
  atvi_idx top = odd ? n / 2 : n;
  const double *base = odd ? tw + n : tw;
  last4(n, re, im, -1.0);
  for (atvi_idx len = 16; len <= top; len *= 4) {
    /* stages top, top/4, ..., 4 len take 6/4 (top + ... + 4 len) = 2 (top - len) entries */
    all4(n, len / 4, base + 2 * (top - len), re, im, 1);
  }
  if (!odd) return;
  atvi_idx h = n / 2;
  for (atvi_idx j = 0; j < h; j++) {
    double c = tw[j], s = tw[h + j];
    double br = re[j + h] * c + im[j + h] * s, bi = im[j + h] * c - re[j + h] * s;
    re[j + h] = re[j] - br;
    im[j + h] = im[j] - bi;
    re[j] += br;
    im[j] += bi;
  }
}
