/* SPDX-License-Identifier: MIT */
/* Parts of a fit's report; only for src/report/fit*.c. */
#ifndef ATVI_REPORT_FIT_H
#define ATVI_REPORT_FIT_H

#include "report/report.h"

enum {
  ATVI_REPORT_COLUMNS = 60, /* parameters and derived quantities with their own density */
  ATVI_REPORT_ARRAY = 6,    /* elements from which an array is one figure of intervals */
  ATVI_REPORT_PAIRED = 30,  /* of these that can be paired */
  ATVI_REPORT_SQUARE = 5,   /* shown in pairs at first; all if there is at most one more */
  ATVI_REPORT_TRACES = 30,  /* parameters with traces */
  /* Size of a figure that fills half of a wide page or all of a narrow one, readable on both. */
  ATVI_REPORT_HALF = 420,
  ATVI_REPORT_HEIGHT = 225,
  ATVI_REPORT_WIDE = 960,
  /* Of a panel among many. */
  ATVI_REPORT_SMALL = 300,
  ATVI_REPORT_SMALL_HEIGHT = 170,
  /* Units: all are shown at once up to UNITS, else UNITS_FIRST. */
  ATVI_REPORT_UNITS = 24,
  ATVI_REPORT_UNITS_FIRST = 12,
};

/* The same quantity of every unit. */
typedef struct {
  /* "conc" */
  const char *name;
  atvi_series_kind kind;
  atvi_idx n, n_shown;
  /* [n] numbers of series: those shown at first, then the others in the order of the data */
  atvi_idx *series;
  /* the first are those with the largest residuals, largest first */
  bool worst;
  /* the values of all units, in the order of time */
  atvi_predicted all;
  /* every unit has one value and no time: all are shown as one figure, in the order of the data */
  bool single;
  /* of that figure */
  atvi_series_view view;
} atvi_report_units;

/* Shared by figures and pages, computed once. */
typedef struct {
  const atvi_report_fit *r;
  atvi_pool *pool;
  /* Densities, [n_col] in the order of columns: of single quantities before those of long arrays, which have
   * intervals. */
  atvi_idx n_col;
  atvi_marginal *marginal;
  atvi_pairs pairs;
  atvi_marginal *paired; /* [pairs.n] */
  atvi_idx n_pick, pick[ATVI_REPORT_SQUARE + 1];
  /* Series with data. */
  atvi_idx n_observed;
  /* [r->n_series] thinned. */
  const atvi_predicted **series;
  /* [r->n_series] the elements of an array share one view */
  atvi_series_view *view;
  /* quantities of units; their series are not shown one by one */
  atvi_idx n_units;
  atvi_report_units *units;
  /* [r->n_series] */
  bool *of_unit;
  /* series that continue after the data, thinned, likewise */
  atvi_idx n_forecast;
  const atvi_predicted **forecast;
  atvi_series_view *forecast_view;
  atvi_pit pit;
  atvi_idx n_bounded;
  /* Parameters with two finite bounds. */
  const atvi_summary_column **bounded;
  /* Scratch of the figure being drawn. */
  double *work;
  /* [threads] memory that each thread takes from while the parts are made; freed with them. */
  struct atvi_fit_own {
    atvi_ctx *ctx;
    atvi_pool *pool;
    double *work;
  } * own;
} atvi_fit_parts;

/* Does any of view[n] have a logarithmic scale? */
bool atvi_report_has_log(atvi_idx n, const atvi_series_view *view);

/* Figures on the page and in files. NULL: nothing to draw, or out of memory. A width of ATVI_REPORT_SMALL has
 * its own height. */
atvi_canvas *atvi_report_draw_series(atvi_pool *pool, const atvi_predicted *s, const atvi_series_view *v,
                                     bool log, double width, atvi_frame *f);
atvi_canvas *atvi_report_draw_residuals(atvi_pool *pool, const atvi_predicted *s, const atvi_series_view *v,
                                        double width, atvi_frame *f);
/* The density of column k; NULL: it has none. */
const atvi_marginal *atvi_report_density_of(const atvi_fit_parts *x, atvi_idx k);
/* Length of the name of an array, or of a parameter of units: 2 for "CL.s01"; 0: it is neither. */
size_t atvi_report_family_name(const char *name);
/* The end of the array that begins with column k; k + 1 for a single quantity. Derived quantities are apart
 * from parameters. */
atvi_idx atvi_report_family_end(const atvi_summary *s, atvi_idx k);
/* Of the columns in[n_col] leaves at most so many in as there is room for: elements of long arrays go first,
 * from the end. */
void atvi_report_keep_most(const atvi_summary *s, atvi_idx room, bool *in);
atvi_canvas *atvi_report_draw_marginal(const atvi_fit_parts *x, const atvi_marginal *m, atvi_frame *f);
/* Columns from .. from+n-1 are the elements of the array called name. */
atvi_canvas *atvi_report_draw_array(const atvi_fit_parts *x, const char *name, atvi_idx from, atvi_idx n,
                                    double width, atvi_frame *f);
atvi_canvas *atvi_report_draw_pairs(const atvi_fit_parts *x);
atvi_canvas *atvi_report_draw_weights(const atvi_fit_parts *x, atvi_frame *f);
/* Were there at least two values to draw a line through? */
bool atvi_report_has_elbo(const atvi_fit_parts *x, bool hot);
bool atvi_report_has_ladder(const atvi_fit_parts *x);
bool atvi_report_has_chains(const atvi_fit_parts *x);
atvi_canvas *atvi_report_draw_trace(const atvi_fit_parts *x, atvi_idx k, bool ranks);
/* Is the series long enough to need the width of the page? */
bool atvi_report_long(const atvi_predicted *s);

/* Sections, in their order. */
void atvi_report_say_head(atvi_page *p, const atvi_fit_parts *x);
void atvi_report_say_data(atvi_page *p, const atvi_fit_parts *x);
void atvi_report_say_forecast(atvi_page *p, const atvi_fit_parts *x);
void atvi_report_say_marginals(atvi_page *p, const atvi_fit_parts *x);
void atvi_report_say_pairs(atvi_page *p, const atvi_fit_parts *x);
void atvi_report_say_table(atvi_page *p, const atvi_fit_parts *x);
void atvi_report_say_bounds(atvi_page *p, const atvi_fit_parts *x);
void atvi_report_say_convergence(atvi_page *p, const atvi_fit_parts *x);
void atvi_report_say_residuals(atvi_page *p, const atvi_fit_parts *x);
void atvi_report_say_emulators(atvi_page *p, const atvi_fit_parts *x);
void atvi_report_say_cost(atvi_page *p, const atvi_fit_parts *x);
void atvi_report_say_again(atvi_page *p, const atvi_fit_parts *x);

#endif
