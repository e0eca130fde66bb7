/* SPDX-License-Identifier: MIT */
/* Building blocks shared by the files of this module; not for others. */
#ifndef ATVI_MATH_DETAIL_H
#define ATVI_MATH_DETAIL_H

#include "core/core.h"
#include "math/special.h"

#define ATVI_PI 3.14159265358979323846
#define ATVI_SQRT_2PI 2.50662827463100050242

/* log(1 + u) - u without cancellation, u > -1. */
double atvi_math_log1pmx(double u);
/* lgamma(x) - ((x - 1/2) log x - x + log sqrt(2 pi)), x > 0. */
double atvi_math_stirling(double x);
/* log(x^a e^-x / Gamma(a + 1)), a >= 0, x > 0: the Poisson mass for whole a. */
double atvi_math_log_pois(double a, double x);
/* log(x^a y^b Gamma(a + b + 1) / (Gamma(a + 1) Gamma(b + 1))), a, b >= 0, x + y = 1: the binomial mass. */
double atvi_math_log_binom(double a, double b, double x, double y);
/* log P(a, x) and log Q(a, x) at once; right in both tails. a > 0, x >= 0. */
void atvi_math_log_gamma_pq(double a, double x, double *log_p, double *log_q);
/* log I_x(a, b) and log of its complement; x + y = 1, both given so that neither is rounded. */
void atvi_math_log_beta_pq(double a, double b, double x, double y, double *log_p, double *log_q);

/* The inverse of Phi: numerators and denominators of its ratios of polynomials, in the middle and near the
 * ends. */
extern const double atvi_math_ndtri_mid[2][8], atvi_math_ndtri_near[2][8];

/* x[2][ATVI_LANES]: the two normals of the block at this counter, and at those of the draws that follow. */
typedef void atvi_normals_fn(const uint32_t key[2], const uint32_t counter[4], double *x);
atvi_normals_fn atvi_math_normals_base;
#ifdef ATVI_HAVE_X86_ISA
atvi_normals_fn atvi_math_normals_avx2;
atvi_normals_fn atvi_math_normals_avx512;
#endif

/* The loop of Adam, per instruction set. */

typedef struct {
  double beta1, beta2, eps;
  double step; /* learning rate over the bias correction of the first moment */
  double root; /* 1 / root of the bias correction of the second */
} atvi_adam_rates;

/* m, v, x, g: [n], not overlapping. Returns how many g are not finite; their m, v, x stay. */
typedef atvi_idx atvi_adam_update_fn(atvi_idx n, const atvi_adam_rates *r, double *m, double *v, double *x,
                                     const double *g);
atvi_adam_update_fn atvi_math_adam_update_base;
#ifdef ATVI_HAVE_X86_ISA
atvi_adam_update_fn atvi_math_adam_update_avx2;
atvi_adam_update_fn atvi_math_adam_update_avx512;
#endif

/* Complex fast Fourier transform of n = 2^k points, k >= 2, real and imaginary parts apart.
 * The forward transform leaves frequencies in scrambled order, the inverse takes them so: enough for
 * products of spectra, and no permutation is paid for. Unnormalised: inv(fwd(x)) = n x. */

/* Fills the table tw[2 n] for size n. */
void atvi_math_fft_plan(atvi_idx n, double *tw);
void atvi_math_fft_fwd(atvi_idx n, const double *tw, double *re, double *im);
void atvi_math_fft_inv(atvi_idx n, const double *tw, double *re, double *im);
/* Where the forward transform puts frequency k. */
atvi_idx atvi_math_fft_place(atvi_idx n, atvi_idx k);

/* Per instruction set; call those above. */
void atvi_math_fft_fwd_base(atvi_idx n, const double *tw, double *re, double *im);
void atvi_math_fft_inv_base(atvi_idx n, const double *tw, double *re, double *im);
#ifdef ATVI_HAVE_X86_ISA
void atvi_math_fft_fwd_avx2(atvi_idx n, const double *tw, double *re, double *im);
void atvi_math_fft_inv_avx2(atvi_idx n, const double *tw, double *re, double *im);
void atvi_math_fft_fwd_avx512(atvi_idx n, const double *tw, double *re, double *im);
void atvi_math_fft_inv_avx512(atvi_idx n, const double *tw, double *re, double *im);
#endif

#endif
