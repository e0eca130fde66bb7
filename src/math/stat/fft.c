/* SPDX-License-Identifier: MIT */
#include "math/detail.h"
#include <math.h>

static bool odd_power(atvi_idx n) {
  bool odd = false;
  for (; n > 1; n /= 2) odd = !odd;
  return odd;
}

/* cos and -sin of 2 pi k / n for k = 0, step, 2 step, ... */
static void twiddles(atvi_idx n, atvi_idx step, atvi_idx count, double *c, double *s) {
  for (atvi_idx j = 0; j < count; j++) {
    double angle = 2.0 * ATVI_PI * (double)(j * step) / (double)n;
    c[j] = cos(angle);
    s[j] = -sin(angle);
  }
}

/* Layout: for an odd power the factors of the radix-2 stage, then per radix-4 stage of length L, h = L / 4:
 * w^j, w^2j, w^3j, each as h cosines and h sines. */
void atvi_math_fft_plan(atvi_idx n, double *tw) {
  atvi_idx len = n;
  if (odd_power(n)) {
    twiddles(n, 1, n / 2, tw, tw + n / 2);
    tw += n;
    len /= 2;
  }
  const double *big = tw; /* later stages use every fourth factor of the one before */
  for (atvi_idx first = len; len >= 4; len /= 4) {
    atvi_idx h = len / 4, stride = first / len;
    for (int r = 1; r <= 3; r++) {
      double *c = tw + (r - 1) * 2 * h, *s = c + h;
      if (len == first) {
        twiddles(first, r, h, c, s);
        continue;
      }
      const double *from = big + (r - 1) * 2 * (first / 4);
      for (atvi_idx j = 0; j < h; j++) {
        c[j] = from[j * stride];
        s[j] = from[j * stride + first / 4];
      }
    }
    tw += 6 * h;
  }
}

atvi_idx atvi_math_fft_place(atvi_idx n, atvi_idx k) {
  atvi_idx at = 0, len = n;
  if (odd_power(n)) {
    len /= 2;
    at += (k % 2) * len;
    k /= 2;
  }
  while (len > 1) {
    len /= 4;
    at += (k % 4) * len;
    k /= 4;
  }
  return at;
}

void atvi_math_fft_fwd(atvi_idx n, const double *tw, double *re, double *im) {
  ATVI_ISA_PICK(atvi_math_fft_fwd)(n, tw, re, im);
}

void atvi_math_fft_inv(atvi_idx n, const double *tw, double *re, double *im) {
  ATVI_ISA_PICK(atvi_math_fft_inv)(n, tw, re, im);
}
