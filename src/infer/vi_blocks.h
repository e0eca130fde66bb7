/* SPDX-License-Identifier: MIT */
/* The approximation of a posterior whose coordinates come in blocks (space.h): in what is common, and in each
 * block given that. Cost and memory are linear in the number of blocks.
 *
 *     x_0 = mean_0 + chol_0 y_0,   x_b = mean_b + slope_b (x_0 - from) + chol_b y_b
 *
 * where each y of a block has halves of two normal distributions with different widths, as in Geweke (1989).
 * Where that follows what is common too loosely, every block goes to its maximum for each draw of what is
 * common, and has its middle and its factor there. */
#ifndef ATVI_INFER_VI_BLOCKS_H
#define ATVI_INFER_VI_BLOCKS_H

#include "infer/vi_state.h"

typedef struct {
  atvi_idx n;
  /* [n] its coordinates. */
  atvi_idx *of;
  /* [n], [n][common] (none of what is common), and [n][n] lower triangular. */
  double *mean, *slope, *chol;
  /* [n] widths of y above and below 0, where blocks are skewed (none of what is common). */
  double *up, *down;
  /* Of chol. */
  double log_det;
} atvi_vi_piece;

typedef struct {
  atvi_vi *v;
  const atvi_blocks *b;
  /* [1 + b->n] the first is what is common. */
  atvi_vi_piece *piece;
  /* Coordinates of the largest block. */
  atvi_idx most;
  /* [common] */
  double *from;
  /* Another maximum of the integral is as high as this one, and far from it: a mirror image, or draws lack
   * half of the posterior. */
  bool twin;
  /* Blocks of one coordinate have several maxima: these must be scanned. */
  bool several;
  /* What found it (vi_arrow.c). */
  struct atvi_vi_finder *finder;
  atvi_pool *pool;
} atvi_vi_arrow;

/* Sets it from chol. */
void atvi_infer_vi_piece_log_det(atvi_vi_piece *p);
/* Lays it out, with no numbers yet. Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_infer_vi_arrow_new(atvi_vi *v, atvi_pool *pool, atvi_vi_arrow *out);
/* The normal approximation at the maximum of the integral over the blocks, itself by normal approximations
 * (Laplace's method), from climbs that begin at start[d][n]. The maximum of all coordinates together would
 * not do: where blocks are many, it is far from where they are for most values of what is common. *found:
 * there is one, and no block has two. Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_infer_vi_arrow_find(atvi_vi_arrow *a, atvi_idx n, const double *start,
                                                  bool *found);
enum { ATVI_VI_ARROW_CLIMBS = 64 }; /* memory: columns of a climb of blocks */
/* Brings every block from x[d][n], n at most ATVI_VI_ARROW_CLIMBS, to its maximum: mid[d][n], and the factors
 * of the covariances there, chol[n][1 + blocks][most][most], of which the first n_b^2 numbers are those of
 * block b. */
void atvi_infer_vi_arrow_climb(const atvi_vi_arrow *a, atvi_idx n, const double *x, double *mid,
                               double *chol);

#endif
