/* SPDX-License-Identifier: MIT */
/* The inside of a canvas; only for its writers. */
#ifndef ATVI_REPORT_LIST_H
#define ATVI_REPORT_LIST_H

#include "report/canvas.h"

typedef enum {
  ATVI_SHAPE_PATH,
  ATVI_SHAPE_AREA,
  ATVI_SHAPE_DOTS,
  ATVI_SHAPE_TEXT,
  ATVI_SHAPE_GROUP,
  ATVI_SHAPE_CLIP,
  ATVI_SHAPE_END
} atvi_shape_kind;

typedef struct {
  atvi_shape_kind kind;
  atvi_style style;
  atvi_idx n;
  /* [n]; TEXT: its place; CLIP: two corners. */
  const double *x, *y;
  /* DOTS. */
  double radius;
  /* TEXT. */
  atvi_label label;
  /* TEXT, GROUP. */
  const char *text;
} atvi_shape;

struct atvi_canvas {
  atvi_pool *pool;
  double width, height;
  atvi_idx n, cap, n_drawn;
  atvi_shape *shape;
};

#endif
