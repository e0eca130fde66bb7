/* SPDX-License-Identifier: MIT */
/* Figures from plain arrays. A panel fills a box of a canvas; a figure is a canvas of panels. NaN is "not
 * known" everywhere: it is left out. */
#ifndef ATVI_REPORT_FIGURE_H
#define ATVI_REPORT_FIGURE_H

#include "atvi/draws.h"
#include "diag/score.h"
#include "diag/summary.h"
#include "math/stat/stat.h"
#include "report/canvas.h"

typedef struct {
  double x, y, width, height;
} atvi_box;

/* ---- for this module: shared by panels ---- */

/* The frame of a panel with a title; named: with the name of its horizontal axis. ticks: on the other axis,
 * as for atvi_report_frame_left. */
atvi_frame atvi_report_panel_frame(atvi_box box, atvi_scale across, atvi_scale up, bool named, int ticks);
/* name[n] under the horizontal axis, of places at first, first + 1, ...: as many as fit. */
void atvi_report_frame_names(atvi_canvas *c, const atvi_frame *f, double first, atvi_idx n,
                             const char *const *name);
/* Length of the name of the array that a quantity is an element of, 3 for "mu.2"; 0: it is not an element. */
size_t atvi_report_array_name(const char *name);
/* Their names, one after another, in as many lines as needed. */
typedef struct {
  /* Room. */
  double left, top, right;
  /* Marks; else lines. */
  bool dots;
  /* Start with 0; height: of what is drawn so far. */
  double used, height;
} atvi_legend;

/* ---- data and predictions ---- */

/* At most `most` points: for each run of points the mean of means, the outer ends of bands, and the extremes
 * of the data in turn. Residuals and pit are left out. Returns s itself if it is short enough or memory runs
 * out, which the pool remembers. */
const atvi_predicted *atvi_report_series_thin(atvi_pool *pool, const atvi_predicted *s, atvi_idx most);

/* How series are shown: shared by all of one kind. */
typedef struct {
  atvi_scale across, up;
  /* the same values on a logarithmic scale */
  atvi_scale log_up;
  /* that scale exists: neither lines nor data are below zero, and at least half of the data are above it */
  bool has_log;
  /* the median with bands that contain 50 % and 95 % of observations, instead of the mean with its own band
   * and that of observations */
  bool middle;
  /* what is written under the axis; NULL: nothing under dates, else "row" */
  const char *time_name;
  /* a dashed line at this time; NaN: none */
  double end;
  /* names of the points, which are then separate and 1 apart; NULL: points follow each other */
  const char *const *label;
} atvi_series_view;

/* Length of a series' name without the label of its unit, 4 for "conc.s01"; 0: it has none. */
size_t atvi_report_unit_name(const atvi_predicted *s);
/* Whether both are elements of one array, or the same quantity of two units. */
bool atvi_report_same_kind(const atvi_predicted *a, const atvi_predicted *b);
/* [n] one for each of s[n]; elements of an array, and units, share their scales. middle: end is where the
 * data end if a forecast follows, else NaN. NULL: out of memory. */
atvi_series_view *atvi_report_series_views(atvi_pool *pool, atvi_idx n, const atvi_predicted *const *s,
                                           atvi_calendar calendar, const char *time_name, bool middle);
/* Number of data at or below zero, which the logarithmic scale leaves out. *cut becomes true if a band ends
 * below that scale. */
atvi_idx atvi_report_series_below(const atvi_predicted *s, const atvi_series_view *v, bool *cut);
/* Data with the outer band (light), the inner band (dark), the line, and the simulator alone in another
 * colour. log: on log_up, where bands that reach zero end at the bottom. Returns the frame. */
atvi_frame atvi_report_panel_series(atvi_canvas *c, atvi_box box, const atvi_predicted *s,
                                    const atvi_series_view *v, bool log);
/* The legend of views with `middle`, from the top left; held: with held-out data. Returns its height. */
double atvi_report_series_legend(atvi_canvas *c, double width, bool held);
/* Standardised residuals against time, with lines at -2 and 2. */
atvi_frame atvi_report_panel_residuals(atvi_canvas *c, atvi_box box, const atvi_predicted *s,
                                       const atvi_series_view *v);

enum { ATVI_PIT_BINS = 10 };
typedef struct {
  atvi_idx n, count[ATVI_PIT_BINS];
  /* A bin lies between these with probability 95 % if predictions are right. */
  double low, high;
} atvi_pit;
/* Of the values of all series. */
atvi_pit atvi_report_pit_of(atvi_idx n, const atvi_predicted *series);
atvi_frame atvi_report_panel_pit(atvi_canvas *c, atvi_box box, const atvi_pit *p);

/* ---- parameters ---- */

enum { ATVI_MARGINAL = ATVI_DENSITY_GRID };

/* Probability that the prior gives to (a, b) of column `col`; NaN: not known. Several threads may ask at
 * once. */
typedef double atvi_prior_mass(const void *user, atvi_idx col, double a, double b);

typedef struct {
  const atvi_summary_column *of;
  /* No density: constant, or not finite. */
  bool flat;
  /* Middles of equal cells. */
  double x[ATVI_MARGINAL];
  /* Mean over each cell; zero beyond bounds. */
  double density[ATVI_MARGINAL];
  bool has_prior;
  /* Likewise. */
  double prior[ATVI_MARGINAL];
  /* Ends of the cells. */
  double ends[2];
  /* Range shown in figures: where the density is. */
  double shown[2];
  /* Largest density. */
  double top;
} atvi_marginal;

/* weight NULL: equal. work: of size atvi_report_marginal_work. */
size_t atvi_report_marginal_work(atvi_idx n);
void atvi_report_marginal_make(atvi_idx n, const double *x, const double *weight,
                               const atvi_summary_column *of, atvi_idx col, atvi_prior_mass *prior,
                               const void *user, double *work, atvi_marginal *out);
atvi_frame atvi_report_panel_density(atvi_canvas *c, atvi_box box, const atvi_marginal *m);

/* Outlines of regions of highest density of two quantities. */
enum { ATVI_CONTOUR_LEVELS = 2, ATVI_CONTOUR_UNIT = 1000 };
extern const double atvi_report_contour_mass[ATVI_CONTOUR_LEVELS]; /* 0.5, 0.95 */

typedef struct {
  /* Points. */
  atvi_idx n;
  /* [n][2] x and y in units of 1 / ATVI_CONTOUR_UNIT of the range; x = -1 ends a closed line. */
  const short *at;
} atvi_contour;

/* One axis of a contour. */
typedef struct {
  /* [n] of each draw, from atvi_report_contour_cells. */
  const unsigned char *cell;
  /* Sd given the other, in units of the range; not above 0: constant, no contours. */
  double width;
} atvi_contour_axis;

/* The cells between low and high that contain the draws: cell[n]. */
void atvi_report_contour_cells(atvi_idx n, const double *x, double low, double high, unsigned char *cell);

/* The smallest regions with the masses above, level[ATVI_CONTOUR_LEVELS]; the density reflects at the ends of
 * the ranges. Memory from pool (empty if it runs out). weight NULL: equal. */
void atvi_report_contour_make(atvi_pool *pool, atvi_idx n, const atvi_contour_axis *across,
                              const atvi_contour_axis *up, const double *weight, atvi_contour *level);
double atvi_report_correlation(atvi_idx n, const double *x, const double *y, const double *weight);

typedef struct {
  /* Quantities. */
  atvi_idx n;
  const atvi_marginal *marginal; /* [n] */
  atvi_idx n_draw;
  /* [n][n_draw] draws that count equally, for dots; few. */
  const double *const *draw;
  const double *correlation; /* [n][n] */
  /* [n][n][ATVI_CONTOUR_LEVELS]; below the diagonal: row i, column j < i. */
  const atvi_contour *contour;
} atvi_pairs;

/* Quantities pick[k] of p in a square of panels: contours below, densities on, correlations above the
 * diagonal. */
void atvi_report_figure_pairs(atvi_canvas *c, const atvi_pairs *p, atvi_idx k, const atvi_idx *pick);

/* Share of the posterior within 1 % of the range of each bound. */
atvi_canvas *atvi_report_figure_bounds(atvi_pool *pool, double width, atvi_idx n,
                                       const atvi_summary_column *const *col);

/* The n elements of an array next to each other: median, 50 % and 95 % interval of each. name: of the array;
 * elements are labelled by what follows it. Returns the frame, in which element i is at i. */
atvi_frame atvi_report_panel_intervals(atvi_canvas *c, atvi_box box, const char *name, atvi_idx n,
                                       const atvi_summary_column *col);

/* ---- how the draws were made ---- */

/* Was the ELBO of the posterior itself reported? hot: of a tempered one? */
bool atvi_report_step_has_elbo(const atvi_progress *s, bool hot);
/* ELBO at temperature 1 against steps, a line for each component; hot: at the earlier temperatures. */
atvi_frame atvi_report_panel_elbo(atvi_canvas *c, atvi_box box, atvi_idx n, const atvi_progress *step,
                                  bool hot, double log_evidence);
atvi_frame atvi_report_panel_temperature(atvi_canvas *c, atvi_box box, atvi_idx n, const atvi_progress *step);
/* Weights, largest first, in units of their mean, both scales logarithmic; those behind k-hat in another
 * colour. work: 3 n doubles. */
atvi_frame atvi_report_panel_weights(atvi_canvas *c, atvi_box box, atvi_idx n, const double *weight,
                                     double khat, double *work);
/* Chains, thinned to about `points` in all. x[n_chain][n]. */
atvi_frame atvi_report_panel_trace(atvi_canvas *c, atvi_box box, const char *name, atvi_idx n_chain,
                                   atvi_idx n, const double *x, atvi_idx points);
/* How often each chain has ranks of each size: flat if chains agree. work: 4 n_chain n + 20 n_chain
 * doubles. */
atvi_frame atvi_report_panel_ranks(atvi_canvas *c, atvi_box box, const char *name, atvi_idx n_chain,
                                   atvi_idx n, const double *x, double *work);

/* ---- comparisons ---- */

typedef struct {
  const char *name;
  /* [n_row]; NULL: none */
  const double *value, *error;
  /* [n_row] ends of bars instead of errors; NULL: use errors */
  const double *low, *high;
} atvi_dots;

typedef struct {
  atvi_idx n_row;
  const char *const *row;
  atvi_idx n;
  /* [n] distinguished by colour. */
  const atvi_dots *of;
  const char *title, *axis;
  /* A line across; NaN: none. */
  double mark;
  /* Ends of the axis; NaN: from the values. */
  double ends[2];
  bool log;
  /* Width of the figure; 0: 640. */
  double width;
} atvi_dot_plot;

enum { ATVI_DOTS_NARROW = 362 }; /* for a phone */
atvi_canvas *atvi_report_figure_dots(atvi_pool *pool, const atvi_dot_plot *p);

/* ---- emulators ---- */

/* Predicted against simulated with 95 % intervals and the diagonal; those whose interval misses it in another
 * colour. */
atvi_frame atvi_report_panel_left_out(atvi_canvas *c, atvi_box box, atvi_idx n, const double *observed,
                                      const double *predicted, const double *sd);
/* Simulated less predicted in sds against predicted, with lines at -2 and 2. */
atvi_frame atvi_report_panel_left_errors(atvi_canvas *c, atvi_box box, atvi_idx n, const double *observed,
                                         const double *predicted, const double *sd);

typedef struct {
  const char *title, *x_name;
  /* Places. */
  atvi_idx n;
  const double *x;
  atvi_idx n_line;
  /* [n_line]; NULL: one line, which needs none. */
  const char *const *name;
  const double *const *value; /* [n_line][n] */
  /* Ends of the vertical axis; NaN: from the values. */
  double ends[2];
} atvi_line_plot;
/* Lines distinguished by colour, with their names above. */
atvi_frame atvi_report_panel_lines(atvi_canvas *c, atvi_box box, const atvi_line_plot *p);

#endif
