/* SPDX-License-Identifier: MIT */
/* Series of points from arrays, for tests. */
#ifndef ATVI_TEST_POINTS_H
#define ATVI_TEST_POINTS_H

#include "diag/score.h"
#include <math.h>

typedef struct {
  const char *name;
  atvi_series_kind kind;
  bool rows, told;
  atvi_idx n;
  /* [n]; NULL: not known */
  const double *time, *value, *mean, *mean_low, *mean_high, *low, *high, *alone, *alone_low, *alone_high,
      *residual, *pit;
  /* of the mean; and quartiles of it and of observations */
  const double *median, *q25, *q75, *pred_q25, *pred_q75;
  const bool *held;
} columns;

enum { POINTS = 40000 };
static atvi_point point_room[POINTS];
static atvi_idx points_used;

static inline double cell(const double *x, atvi_idx i) { return x ? x[i] : NAN; }

/* Lives as long as the program. */
static inline atvi_predicted points(columns c) {
  atvi_predicted s = {.name = c.name, .kind = c.kind, .rows = c.rows, .told = c.told, .n = c.n};
  s.point = point_room + points_used;
  points_used += c.n;
  for (atvi_idx i = 0; i < c.n; i++) {
    atvi_point *p = &s.point[i];
    *p = atvi_diag_point_at(c.time[i]);
    p->value = cell(c.value, i);
    p->exact = !isnan(p->value);
    p->held = c.held && c.held[i];
    p->of_mean = (atvi_band){.mean = cell(c.mean, i),
                             .sd = NAN,
                             .median = cell(c.median, i),
                             .hpd95 = {cell(c.mean_low, i), cell(c.mean_high, i)},
                             .quartile = {cell(c.q25, i), cell(c.q75, i)}};
    p->of_draw = (atvi_band){.mean = NAN,
                             .sd = NAN,
                             .median = NAN,
                             .hpd95 = {cell(c.low, i), cell(c.high, i)},
                             .quartile = {cell(c.pred_q25, i), cell(c.pred_q75, i)}};
    p->of_alone = (atvi_band){.mean = cell(c.alone, i),
                              .sd = NAN,
                              .median = NAN,
                              .hpd95 = {cell(c.alone_low, i), cell(c.alone_high, i)},
                              .quartile = {NAN, NAN}};
    p->residual = cell(c.residual, i);
    p->pit = cell(c.pit, i);
  }
  return s;
}

#endif
