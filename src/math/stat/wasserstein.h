/* SPDX-License-Identifier: MIT */
/* How far apart two distributions on the line are, from draws of them. */
#ifndef ATVI_MATH_STAT_WASSERSTEIN_H
#define ATVI_MATH_STAT_WASSERSTEIN_H

#include "core/core.h"

/* Wasserstein-1 distance of two weighted samples: the integral of |F - G|, exact. In the unit of x: a shift by c
 * is a distance of c, whatever the shape. xs[n], ys[m] ascending, wx, wy their weights in the same order, >= 0; NULL: equal; they need
 * not sum to one. NaN where a sample is empty, has no weight, or a value that is not finite. */
double atvi_wasserstein(atvi_idx n, const double *xs, const double *wx, atvi_idx m, const double *ys,
                        const double *wy);

/* The integral of sqrt(F (1 - F)), of a sample as above; NaN likewise. Two independent samples of one distribution, worth n and m
 * independent draws, are on average about sqrt(2/pi (1/n + 1/m)) of it apart: F - G is then nearly normal with variance
 * F (1 - F) (1/n + 1/m). */
double atvi_cdf_spread(atvi_idx n, const double *xs, const double *wx);

#endif
