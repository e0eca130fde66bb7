/* SPDX-License-Identifier: MIT */
/* Axes: from numbers to places on a canvas, and ticks at round numbers, powers of ten or dates. */
#ifndef ATVI_REPORT_AXIS_H
#define ATVI_REPORT_AXIS_H

#include "io/csv.h"
#include "report/canvas.h"

typedef struct {
  double low, high; /* low < high */
  bool log;         /* both above 0 */
  atvi_calendar calendar;
} atvi_scale;

enum { ATVI_TICKS = 24, ATVI_TICK_LABEL = 24 };
typedef struct {
  double at;
  char label[ATVI_TICK_LABEL];
} atvi_tick;

/* The scale that shows low .. high with a margin of pad of its length on either side; ends that are not finite or not in order
 * give one around what there is. */
atvi_scale atvi_report_scale_of(double low, double high, double pad);
/* At most `want` ticks, about, and never more than ATVI_TICKS; ascending, inside the scale. Returns how many. */
int atvi_report_ticks(const atvi_scale *s, int want, atvi_tick tick[ATVI_TICKS]);
/* x as people write it, to that many significant digits: "0.887", "5201000", "2.1e-7", with a real minus sign; NaN is a dash. */
void atvi_report_write_number(char out[ATVI_TICK_LABEL], double x, int digits);
/* A time: a date, to the day, where there is a calendar. */
void atvi_report_write_time(char out[ATVI_TICK_LABEL], double t, atvi_calendar calendar);

/* A rectangle of the canvas with a scale along each side. */
typedef struct {
  double x, y, width, height;
  atvi_scale across, up;
} atvi_frame;

double atvi_report_frame_x(const atvi_frame *f, double v); /* NaN for what a log scale does not have */
double atvi_report_frame_y(const atvi_frame *f, double v);

typedef struct {
  const char *title, *x, *y; /* NULL: none. y is written above the axis, not along it */
  bool no_y;                 /* no ticks on the vertical axis: the height says nothing */
  bool no_x;                 /* none on the other */
  int ticks_x, ticks_y;      /* about how many; 0: as fit */
} atvi_frame_opts;

/* Grid, ticks and titles; what is drawn after it lies on top. */
void atvi_report_frame_draw(atvi_canvas *c, const atvi_frame *f, const atvi_frame_opts *opts);
/* Room that the labels of the vertical axis need. */
double atvi_report_frame_left(const atvi_scale *up, int ticks);

/* Draws in terms of values. */
void atvi_report_plot_line(atvi_canvas *c, const atvi_frame *f, atvi_idx n, const double *x, const double *y,
                           atvi_style style);
void atvi_report_plot_band(atvi_canvas *c, const atvi_frame *f, atvi_idx n, const double *x,
                           const double *low, const double *high, atvi_style style);
void atvi_report_plot_dots(atvi_canvas *c, const atvi_frame *f, atvi_idx n, const double *x, const double *y,
                           double radius, atvi_style style);

#endif
