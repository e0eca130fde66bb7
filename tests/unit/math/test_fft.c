/* SPDX-License-Identifier: MIT */
#include "math/rng.h"
#include "math/detail.h"
#include "testing.h"

typedef void transform(atvi_idx n, const double *tw, double *re, double *im);
enum { MAX = 256 };

/* Against the sum that defines it; angles reduced so that the check itself is exact to rounding. */
static void check_pair(transform *fwd, transform *inv) {
  double tw[2 * MAX], x[2][MAX], re[MAX], im[MAX], pi = acos(-1.0);
  for (int n = 4; n <= MAX; n *= 2) {
    atvi_rng r = atvi_math_rng_at(31, ATVI_STREAM_TEST, (uint32_t)n, 0);
    for (int i = 0; i < n; i++) {
      re[i] = x[0][i] = atvi_math_rng_normal(&r);
      im[i] = x[1][i] = atvi_math_rng_normal(&r);
    }
    atvi_math_fft_plan(n, tw);
    fwd(n, tw, re, im);
    for (int k = 0; k < n; k++) {
      double a = 0, b = 0;
      for (int i = 0; i < n; i++) {
        double c = cos(2 * pi * (i * k % n) / n), s = -sin(2 * pi * (i * k % n) / n);
        a += x[0][i] * c - x[1][i] * s;
        b += x[0][i] * s + x[1][i] * c;
      }
      CHECK_ABS(re[atvi_math_fft_place(n, k)], a, 1e-13);
      CHECK_ABS(im[atvi_math_fft_place(n, k)], b, 1e-13);
    }
    inv(n, tw, re, im);
    for (int i = 0; i < n; i++) {
      CHECK_ABS(re[i] / n, x[0][i], 4e-15);
      CHECK_ABS(im[i] / n, x[1][i], 4e-15);
    }
  }
}

static void chosen_set(void) { check_pair(atvi_math_fft_fwd, atvi_math_fft_inv); }

static void every_instruction_set(void) {
  check_pair(atvi_math_fft_fwd_base, atvi_math_fft_inv_base);
#ifdef ATVI_HAVE_X86_ISA
  if (atvi_isa_best() >= ATVI_ISA_AVX2) check_pair(atvi_math_fft_fwd_avx2, atvi_math_fft_inv_avx2);
  if (atvi_isa_best() >= ATVI_ISA_AVX512) check_pair(atvi_math_fft_fwd_avx512, atvi_math_fft_inv_avx512);
#endif
}

TESTS({"chosen", chosen_set}, {"every", every_instruction_set})
