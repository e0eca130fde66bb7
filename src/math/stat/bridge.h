/* SPDX-License-Identifier: MIT */
/* The normalising constant of a density by bridge sampling (Meng & Wong 1996), from draws of an approximation with known
 * density and draws of the density itself. */
#ifndef ATVI_MATH_STAT_BRIDGE_H
#define ATVI_MATH_STAT_BRIDGE_H

#include "core/core.h"

/* Logarithms of l = pi / q, pi not normalised, q normalised. */
typedef struct {
  atvi_idx n_q;        /* independent draws of q, >= 2 */
  const double *log_q; /* [n_q] log l at them; -inf: pi is zero there */
  atvi_idx m, n;       /* chains, and draws of pi in each, n >= 4 */
  const double *log_p; /* [m][n] log l at them, finite */
} atvi_bridge_draws;

typedef struct {
  double log_evidence; /* log of the integral of pi; NaN where it cannot be had */
  double
      se; /* standard error of it: from the relative mean squared error, with the autocorrelation of the chains */
  int iterations;
} atvi_bridge_info;

/* Doubles of scratch. */
size_t atvi_bridge_work(const atvi_bridge_draws *b);
atvi_bridge_info atvi_bridge(const atvi_bridge_draws *b, double *work);

#endif
