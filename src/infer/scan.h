/* SPDX-License-Identifier: MIT */
/* A density of one coordinate, known up to a constant, as nodes show it: exponential between nodes, a power
 * of the distance beyond them. It has as many maxima as it needs, and tails as long as they are. */
#ifndef ATVI_INFER_SCAN_H
#define ATVI_INFER_SCAN_H

#include "core/core.h"

enum {
  ATVI_SCAN_FIRST = 21, /* nodes at fixed places */
  ATVI_SCAN_MORE = 5,   /* added at a time, where the density needs them */
  ATVI_SCAN_MOST = ATVI_SCAN_FIRST + 2 * ATVI_SCAN_MORE
};

typedef struct {
  atvi_idx n;
  /* Places, in ascending order, and log densities there. */
  double y[ATVI_SCAN_MOST], f[ATVI_SCAN_MOST];
  /* Integral below each node, and below infinity, as a share of all; the highest log density, and the log of
   * the integral less that. */
  double below[ATVI_SCAN_MOST + 1], top, log_all;
  /* Powers with which the density falls beyond the first and the last node. */
  double power[2];
} atvi_scan;

/* Where a scan begins: y[ATVI_SCAN_FIRST], around 0 and in units of about a standard deviation. */
void atvi_infer_scan_places(double *y);
/* Where it goes on: y[ATVI_SCAN_MORE], in the middle of the intervals that may hold the most. */
void atvi_infer_scan_next(const atvi_scan *s, double *y);
/* Takes in m places with their log densities; what is not finite counts as none. */
void atvi_infer_scan_add(atvi_scan *s, atvi_idx m, const double *y, const double *f);
/* Integrates it. False: it has no density anywhere, and cannot be drawn from. */
bool atvi_infer_scan_close(atvi_scan *s);
/* The u-quantile, 0 < u < 1, of a closed scan; *log_q: its log density there. */
double atvi_infer_scan_quantile(const atvi_scan *s, double u, double *log_q);

#endif
