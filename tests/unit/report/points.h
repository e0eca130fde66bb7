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
    *p = atvi_point_at(c.time[i]);
    p->value = cell(c.value, i);
    p->exact = !isnan(p->value);
    p->held = c.held && c.held[i];
    p->of_mean = (atvi_band){cell(c.mean, i), NAN, NAN, {cell(c.mean_low, i), cell(c.mean_high, i)}};
    p->of_draw = (atvi_band){NAN, NAN, NAN, {cell(c.low, i), cell(c.high, i)}};
    p->of_alone = (atvi_band){cell(c.alone, i), NAN, NAN, {cell(c.alone_low, i), cell(c.alone_high, i)}};
    p->residual = cell(c.residual, i);
    p->pit = cell(c.pit, i);
  }
  return s;
}

#endif
