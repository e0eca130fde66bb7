/* SPDX-License-Identifier: MIT */
/* A figure as a list of shapes, and its two writers, SVG and PDF.
 *
 * Lengths are CSS pixels (1/96 inch; the PDF has 0.75 pt for each), y grows downwards. Colours are roles, not
 * values: an SVG inside a page takes them from the style sheet of the page, in light or dark; a separate SVG
 * file and a PDF have fixed ones for white paper. Both writers depend only on the list: the same figure gives
 * the same bytes.
 *
 * Shapes are copied into the canvas. The pool remembers that memory ran out, and the writers report it. A
 * number that is not finite breaks a line, leaves a gap in a band and drops a dot. */
#ifndef ATVI_REPORT_CANVAS_H
#define ATVI_REPORT_CANVAS_H

#include "core/core.h"
#include "io/csv.h"
#include "io/text.h"

typedef enum {
  ATVI_INK_NONE,
  ATVI_INK_TEXT,
  ATVI_INK_MUTED,
  ATVI_INK_GRID,
  ATVI_INK_PAPER,
  ATVI_INK_MAIN,  /* the posterior, the model */
  ATVI_INK_PRIOR, /* what it is compared with */
  ATVI_INK_DATA,
  ATVI_INK_HELD, /* data that were held out */
  ATVI_INK_WARN,
  ATVI_INK_CHAIN, /* first of ATVI_INK_CHAINS colours that distinguish lines */
  ATVI_INKS = ATVI_INK_CHAIN + 8
} atvi_ink;
enum { ATVI_INK_CHAINS = ATVI_INKS - ATVI_INK_CHAIN };

/* Name of a colour in class names and style sheets: "main", "c1". */
const char *atvi_report_ink_name(atvi_ink ink);
/* On white paper: 0xrrggbb. */
unsigned atvi_report_ink_rgb(atvi_ink ink);

typedef struct {
  atvi_ink stroke, fill;
  /* Width of the stroke; 0: 1. */
  double width;
  /* Opacity of stroke and fill, in (0, 1); 0: 1. */
  double opacity;
  bool dash;
} atvi_style;

typedef enum { ATVI_ANCHOR_START, ATVI_ANCHOR_MIDDLE, ATVI_ANCHOR_END } atvi_anchor;

typedef struct {
  atvi_anchor anchor;
  /* Size of the font; 0: ATVI_FONT_SIZE. */
  double size;
  atvi_ink ink;
  bool bold;
  /* A quarter turn to the left, reading upwards. */
  bool turned;
} atvi_label;

#define ATVI_FONT_SIZE 12.0

typedef struct atvi_canvas atvi_canvas;

/* NULL: out of memory. */
atvi_canvas *atvi_report_canvas_new(atvi_pool *pool, double width, double height);
double atvi_report_canvas_width(const atvi_canvas *c);
double atvi_report_canvas_height(const atvi_canvas *c);
/* Number of shapes so far; groups and clips do not count. */
atvi_idx atvi_report_canvas_shapes(const atvi_canvas *c);

/* A line through n points or, if closed, an area with that outline; points that are not finite split it. */
void atvi_report_draw_path(atvi_canvas *c, atvi_idx n, const double *x, const double *y, bool closed,
                           atvi_style style);
/* The area between two lines. */
void atvi_report_draw_band(atvi_canvas *c, atvi_idx n, const double *x, const double *low, const double *high,
                           atvi_style style);
void atvi_report_draw_line(atvi_canvas *c, double x0, double y0, double x1, double y1, atvi_style style);
void atvi_report_draw_rect(atvi_canvas *c, double x, double y, double width, double height, atvi_style style);
/* Discs in the colour of the stroke. */
void atvi_report_draw_dots(atvi_canvas *c, atvi_idx n, const double *x, const double *y, double radius,
                           atvi_style style);
/* text is UTF-8. */
void atvi_report_draw_text(atvi_canvas *c, double x, double y, atvi_label label, const char *text);
/* Groups everything up to the matching end; class for the script of the page, NULL: none. */
void atvi_report_draw_group(atvi_canvas *c, const char *name);
/* Likewise, clipped to the rectangle. */
void atvi_report_draw_clip(atvi_canvas *c, double x, double y, double width, double height);
void atvi_report_draw_end(atvi_canvas *c);

/* Width of text in Helvetica, to leave room for it. */
double atvi_report_text_width(const char *text, double size, bool bold);
/* The byte for a character in the encoding of a PDF, '?' if it has none. Advances *at. */
unsigned char atvi_report_font_byte(const char **at);

typedef struct {
  /* Unique in the page; no blanks. */
  const char *id;
  /* What it shows, for those who cannot see it. */
  const char *title;
  /* Part of a page, with colours from its style sheet; else a separate file. */
  bool page;
} atvi_svg_opts;

/* Appends the figure. */
void atvi_report_canvas_svg(const atvi_canvas *c, const atvi_svg_opts *opts, atvi_text *out);
/* Appends a PDF file with one page. */
void atvi_report_canvas_pdf(const atvi_canvas *c, const char *title, atvi_text *out);
/* Appends text escaped for HTML and XML, without control characters; bytes that are not UTF-8 become '?'. */
void atvi_report_text_escape(atvi_text *out, const char *s);

/* ---- its inside; for its writers ---- */

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

/* Axes: from numbers to places on a canvas, and ticks at round numbers, powers of ten or dates. */

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
