/* SPDX-License-Identifier: MIT */
/* Complex fast Fourier transform of n = 2^k points, k >= 2, real and imaginary parts apart.
 * The forward transform leaves frequencies in scrambled order, the inverse takes them so: enough for
 * products of spectra, and no permutation is paid for. Unnormalised: inv(fwd(x)) = n x. */
#ifndef ATVI_MATH_STAT_FFT_H
#define ATVI_MATH_STAT_FFT_H

#include "core/core.h"

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
