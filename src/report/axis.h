/* SPDX-License-Identifier: MIT */
/* Axes: from numbers to places on a canvas, and ticks at round numbers, powers of ten or dates. */
#ifndef ATVI_REPORT_AXIS_H
#define ATVI_REPORT_AXIS_H

#include "io/csv.h"
#include "report/canvas.h"

typedef struct {
  /* Low < high. */
  double low, high;
  /* Both above 0. */
  bool log;
  atvi_calendar calendar;
} atvi_scale;

enum { ATVI_TICKS = 24, ATVI_TICK_LABEL = 24 };
typedef struct {
  double at;
  char label[ATVI_TICK_LABEL];
} atvi_tick;

/* The scale that shows low .. high with a margin of pad of its length on either side; if the ends are not
 * finite or not in order, a scale around the valid one. */
atvi_scale atvi_report_scale_of(double low, double high, double pad);
/* About `want` ticks at most, and never more than ATVI_TICKS; ascending, inside the scale. Returns their
 * number. */
int atvi_report_ticks(const atvi_scale *s, int want, atvi_tick tick[ATVI_TICKS]);
/* x as people write it, with the given number of significant digits: "0.887", "5201000", "2.1e-7", with a
 * real minus sign; NaN is a dash. */
void atvi_report_write_number(char out[ATVI_TICK_LABEL], double x, int digits);
/* A time, as a date to the day if there is a calendar. */
void atvi_report_write_time(char out[ATVI_TICK_LABEL], double t, atvi_calendar calendar);

/* A rectangle of the canvas with a scale along each side. */
typedef struct {
  double x, y, width, height;
  atvi_scale across, up;
} atvi_frame;

double atvi_report_frame_x(const atvi_frame *f, double v); /* NaN for values outside a log scale */
double atvi_report_frame_y(const atvi_frame *f, double v);

typedef struct {
  /* NULL: none; y is written above the axis, not along it. */
  const char *title, *x, *y;
  /* No ticks on the vertical axis, because heights have no meaning. */
  bool no_y;
  /* No ticks on the horizontal axis. */
  bool no_x;
  /* Approximate number; 0: as many as fit. */
  int ticks_x, ticks_y;
} atvi_frame_opts;

/* Grid, ticks and titles; later shapes lie on top. */
void atvi_report_frame_draw(atvi_canvas *c, const atvi_frame *f, const atvi_frame_opts *opts);
/* Room needed by the labels of the vertical axis. */
double atvi_report_frame_left(const atvi_scale *up, int ticks);

/* Draws in terms of values. */
void atvi_report_plot_line(atvi_canvas *c, const atvi_frame *f, atvi_idx n, const double *x, const double *y,
                           atvi_style style);
void atvi_report_plot_band(atvi_canvas *c, const atvi_frame *f, atvi_idx n, const double *x,
                           const double *low, const double *high, atvi_style style);
void atvi_report_plot_dots(atvi_canvas *c, const atvi_frame *f, atvi_idx n, const double *x, const double *y,
                           double radius, atvi_style style);

#endif
