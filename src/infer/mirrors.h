/* SPDX-License-Identifier: MIT */
/* Mirror images: maps of the parameters that leave the posterior density exactly as it is, and that given
 * draws are not symmetric under. The loadings and the scores of a factor model may all change their signs,
 * and the names of the components of a mixture may be exchanged. Draws that have one image and not the other
 * have half of the posterior, and nothing in their weights shows it. */
#ifndef ATVI_INFER_MIRRORS_H
#define ATVI_INFER_MIRRORS_H

#include "model/evaluator.h"

/* The image of theta: parameter i is at[i] + sign[i] theta[from[i]]. It is its own inverse. */
typedef struct {
  double *at, *sign; /* [d] */
  atvi_idx *from;    /* [d] */
} atvi_mirror;

typedef struct {
  atvi_idx n;
  atvi_mirror *mirror; /* [n] */
} atvi_mirrors;

/* Draws theta[i * stride + j], j < n, and their weights w[n], of any sum; NULL: equal ones. */
typedef struct {
  atvi_idx n, stride;
  const double *theta, *w;
} atvi_mirror_draws;

/* The mirrors of the target's density whose images the draws lack. Costs nothing where no candidate would
 * move the means, else a few gradients and runs. Pieces come from pool. Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_infer_mirrors_find(atvi_evaluator *ev, atvi_pool *pool,
                                                 const atvi_mirror_draws *draws, atvi_mirrors *out);
/* image[d][n] of theta[d][n], another array. */
void atvi_infer_mirror_image(const atvi_mirror *m, atvi_idx d, atvi_idx n, const double *theta,
                             double *image);
/* By how much the mean of a parameter differs from the mean of its image, at most, in standard deviations of
 * the draws. */
double atvi_infer_mirror_gap(const atvi_mirror *m, atvi_idx d, const atvi_mirror_draws *draws);

#endif
