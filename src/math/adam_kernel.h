/* SPDX-License-Identifier: MIT */
/* The loop of Adam, per instruction set. */
#ifndef ATVI_MATH_ADAM_KERNEL_H
#define ATVI_MATH_ADAM_KERNEL_H

#include "core/core.h"

typedef struct {
  double beta1, beta2, eps;
  double step; /* learning rate over the bias correction of the first moment */
  double root; /* 1 / root of the bias correction of the second */
} atvi_adam_rates;

/* m, v, x, g: [n], not overlapping. Returns how many g are not finite; their m, v, x stay. */
typedef atvi_idx atvi_adam_update_fn(atvi_idx n, const atvi_adam_rates *r, double *m, double *v, double *x,
                                     const double *g);
atvi_adam_update_fn atvi_adam_update_base;
#ifdef ATVI_HAVE_X86_ISA
atvi_adam_update_fn atvi_adam_update_avx2;
atvi_adam_update_fn atvi_adam_update_avx512;
#endif

#endif
