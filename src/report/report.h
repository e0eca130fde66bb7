/* SPDX-License-Identifier: MIT */
/* Reports: one page and its figures, from draws, summaries and plain arrays. Nothing here knows a model. */
#ifndef ATVI_REPORT_REPORT_H
#define ATVI_REPORT_REPORT_H

#include "report/figure.h"
#include "report/page.h"

typedef struct atvi_report_emulator atvi_report_emulator;

/* Everything that the report of a fit says; all is borrowed. What is known of the model, the history and the points
 * that failed are those of `plain`. */
typedef struct {
  const char *file; /* path of the model */
  /* NULL while the fit is running: the page then shows the data and asks how it is getting on. */
  const atvi_summary *summary;
  const atvi_draws *draws; /* as the method made them, weighted if the summary used weights */
  const atvi_draws
      *plain; /* draws that count equally; may be the same. While the fit is running: without any */
  atvi_prior_mass *prior; /* NULL: not known */
  void *prior_user;
  atvi_idx n_series;
  const atvi_predicted *series; /* observed ones first */
  const char *holdout;          /* rule; NULL: none */
  atvi_idx n_emulator;          /* that stand in the simulator's place; 0: the model itself was run */
  const atvi_report_emulator *emulator;
  const char *watch; /* how to follow the fit while it runs, a sentence; NULL: not known */
  const char *how;   /* the text of fit.json */
  const char *text;  /* the model file */
} atvi_report_fit;

/* The calendar of its model. */
atvi_calendar atvi_report_calendar(const atvi_draws *d);

/* report.html. Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_report_fit_page(atvi_pool *pool, const atvi_report_fit *r, const char **html);
/* That, and figures/NAME.svg and NAME.pdf, into dir, which is there. Errors: EIO, ENOMEM. */
ATVI_CHECKED atvi_status atvi_report_fit_save(atvi_pool *pool, const atvi_report_fit *r, const char *dir);

/* ---- shorter reports: sentences, tables, figures ---- */

typedef struct {
  const char *caption;
  int n_column;
  const char *const *column; /* [n_column], the first of the rows' names */
  atvi_idx n_row;
  const char *const *cell; /* [n_row][n_column] */
  const char *const
      *link; /* [n_row] what the names of the rows lead to, relative to the page; NULL: nothing */
} atvi_report_table;

typedef struct {
  const char *name; /* of its files */
  const char *alt;
  const atvi_canvas *canvas;
  const atvi_canvas *narrow; /* the same for a phone; NULL: that one */
} atvi_report_figure;

typedef struct {
  const char *id, *heading;
  atvi_idx n_say;
  const char *const *say; /* paragraphs */
  atvi_idx n_figure;
  const atvi_report_figure *figure;
  atvi_idx n_table;
  const atvi_report_table *table;
} atvi_report_part;

typedef struct {
  const char *title, *sub;
  const char *verdict; /* "ok", "warn", "bad" */
  const char *say;     /* one sentence */
  atvi_idx n_part;
  const atvi_report_part *part;
} atvi_report_short;

/* report.html and figures, into dir, which is there. Errors: EIO, ENOMEM. */
ATVI_CHECKED atvi_status atvi_report_short_save(atvi_pool *pool, const atvi_report_short *r, const char *dir);

/* ---- emulators ---- */

/* A run of the simulator that is told of. */
typedef struct {
  const char *name;    /* "run 7" */
  const double *value; /* [n_input] */
  const char *say;     /* why it failed, or how far off its prediction is */
} atvi_report_run;

/* How well an emulator predicts runs that it has not seen, and which inputs matter. NaN and NULL: not known, left out. */
struct atvi_report_emulator {
  const char *name;
  const char *how; /* a sentence about its kernel and estimates */
  atvi_idx n_run, n_output, n_input, n_failed;
  double seconds;     /* its estimation */
  double run_seconds; /* all runs together, those done again each time: */
  atvi_idx n_timed;   /* so many */
  bool loaded;        /* it was estimated before */
  /* each run left out in turn */
  double q2, coverage, rmse; /* coverage: of the 95 % intervals */
  atvi_idx n_held;           /* runs that were held out once, with estimates made without them; 0: none */
  double held_q2, held_coverage, held_rmse;
  /* Values to show: some outputs of some of these predictions; ascending in observed. */
  atvi_idx n_left, left_runs;
  const double *observed, *predicted, *sd; /* [n_left] */
  atvi_idx n_worst;
  const atvi_report_run *worst; /* furthest off first */
  atvi_idx n_bad;
  const atvi_report_run *bad;  /* the first of those that failed */
  const char *const *input;    /* [n_input] */
  const double *low, *high;    /* [n_input] of the prior */
  const double *length;        /* [n_input] in ranges of the input */
  const bool *log;             /* [n_input] taken by their logarithm; NULL: none is */
  const double *first, *total; /* [n_input] Sobol indices */
  const char *const *remark;   /* [n_input] */
  double sobol_error;
  const double *time, *q2_time, *total_time; /* [n_output], [n_output], [n_output][n_input] */
  const char *time_name;
  atvi_idx n_doubt;
  const char *const *doubt; /* what is wrong with it, worst first */
  double outside;           /* of a fit: share of the posterior where there are no runs */
};

typedef struct {
  const char *title, *file;
  atvi_idx n;
  const atvi_report_emulator *emulator;
  const char *command; /* to do it again */
  const char *text;    /* the model file */
} atvi_report_emulate;

/* Whether report.html may be written into dir: there is none, or it is one that the next function wrote. */
bool atvi_report_emulate_may(atvi_pool *pool, const char *dir);
/* report.html and figures, into dir, which is there. Errors: EIO, ENOMEM. */
ATVI_CHECKED atvi_status atvi_report_emulate_save(atvi_pool *pool, const atvi_report_emulate *r,
                                                  const char *dir);

/* ---- series alone ---- */

/* figures/NAME.svg and NAME.pdf in dir: data with their bands, a panel for each of series[n], as the report of a fit has them. end: [n] a
 * line is drawn at that time; NaN: none. time_name NULL: rows. Errors: EIO, ENOMEM. */
ATVI_CHECKED atvi_status atvi_report_save_series(atvi_pool *pool, const char *dir, const char *name,
                                                 const char *title, atvi_idx n, const atvi_predicted *series,
                                                 const double *end, atvi_calendar calendar,
                                                 const char *time_name);

/* For this module: a name and a value in the list of facts; value NULL: none. */
void atvi_report_fact(atvi_page *p, const char *name, const char *value);

/* For this module: figures/NAME.svg and NAME.pdf in dir. Errors: EIO, ENOMEM. */
ATVI_CHECKED atvi_status atvi_report_save_figure(atvi_pool *pool, const char *dir, const char *name,
                                                 const char *title, const atvi_canvas *c);
ATVI_CHECKED atvi_status atvi_report_save_page(atvi_pool *pool, const char *dir, const char *html);
/* Title and the box with the verdict, which is left open: messages and "</div>" follow. */
void atvi_report_head(atvi_page *p, const char *title, const char *sub, const char *verdict, const char *say);

#endif
