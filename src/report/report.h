/* SPDX-License-Identifier: MIT */
/* Reports: one page and its figures, from draws, summaries and plain arrays. Nothing here knows a model. */
#ifndef ATVI_REPORT_REPORT_H
#define ATVI_REPORT_REPORT_H

#include "model/dossier.h"
#include "report/figure.h"
#include "report/page.h"

typedef struct atvi_report_emulator atvi_report_emulator;

/* Contents of the report of a fit; all borrowed. Facts about the model, the history and the failed points are
 * those of `plain`. */
typedef struct {
  /* Path of the model. */
  const char *file;
  /* NULL while the fit is running: the page then shows the data and asks for progress. */
  const atvi_summary *summary;
  /* As the method made them, weighted if the summary used weights. */
  const atvi_draws *draws;
  /* Draws that count equally; may be the same. Empty while the fit is running. */
  const atvi_draws *plain;
  /* NULL: not known. */
  atvi_prior_mass *prior;
  const void *prior_user;
  atvi_idx n_series;
  /* Observed ones first. */
  const atvi_predicted *series;
  /* [n_series] predictions at other times; those after the data are shown; NULL: none */
  const atvi_predicted *forecast;
  /* Rule; NULL: none. */
  const char *holdout;
  /* Emulators that replace the simulator; 0: the model itself was run. */
  atvi_idx n_emulator;
  const atvi_report_emulator *emulator;
  /* How to follow the fit while it runs, a sentence; NULL: not known. */
  const char *watch;
  /* The text of fit.json. */
  const char *how;
  /* The model file. */
  const char *text;
} atvi_report_fit;

/* The calendar of its model. */
atvi_calendar atvi_report_calendar(const atvi_draws *d);

/* report.html. Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_report_fit_page(atvi_pool *pool, const atvi_report_fit *r, const char **html);
/* The same, and figures/NAME.svg and NAME.pdf, in the existing folder dir. Errors: EIO, ENOMEM. */
ATVI_CHECKED atvi_status atvi_report_fit_save(atvi_pool *pool, const atvi_report_fit *r, const char *dir);

/* ---- shorter reports: sentences, tables, figures ---- */

typedef struct {
  const char *caption;
  int n_column;
  /* [n_column], the first of the rows' names. */
  const char *const *column;
  atvi_idx n_row;
  const char *const *cell; /* [n_row][n_column] */
  /* [n_row] links of the names of the rows, relative to the page; NULL: none. */
  const char *const *link;
} atvi_report_table;

typedef struct {
  /* Name of its files. */
  const char *name;
  const char *alt;
  const atvi_canvas *canvas;
  /* The same for a phone; NULL: the figure above. */
  const atvi_canvas *narrow;
} atvi_report_figure;

typedef struct {
  const char *id, *heading;
  atvi_idx n_say;
  /* Paragraphs. */
  const char *const *say;
  atvi_idx n_figure;
  const atvi_report_figure *figure;
  atvi_idx n_table;
  const atvi_report_table *table;
} atvi_report_part;

typedef struct {
  const char *title, *sub;
  /* "ok", "warn", "bad". */
  const char *verdict;
  /* One sentence. */
  const char *say;
  atvi_idx n_part;
  const atvi_report_part *part;
} atvi_report_short;

/* report.html and figures, in the existing folder dir. Errors: EIO, ENOMEM. */
ATVI_CHECKED atvi_status atvi_report_short_save(atvi_pool *pool, const atvi_report_short *r, const char *dir);

/* ---- emulators ---- */

/* An emulator, its quality, and which inputs matter. NaN and NULL: not known, left out. */
struct atvi_report_emulator {
  /* its runs, and how well each is predicted without it */
  const atvi_dossier *of;
  /* a sentence about its kernel and estimates */
  const char *how;
  /* seconds for its estimation, or for loading it if it was estimated earlier */
  double seconds;
  bool loaded;
  /* [d] lengths of the kernel in ranges of the input, and Sobol indices */
  const double *length, *first, *total;
  double sobol_error;
  /* [m][d] */
  const double *total_time;
  /* [d] */
  const char *const *remark;
  const char *time_name;
  /* of the first emulator of a fit: how far its posterior would move without the errors of all, with the
   * names of the parameters */
  const atvi_emulated_moves *moves;
  const char *const *of_moves;
  /* what is wrong with it, worst first */
  atvi_idx n_doubt;
  const char *const *doubt;
};

/* Values to show: some outputs of left-out runs, ascending in observed. */
typedef struct {
  atvi_idx n, n_run;
  /* [n] sd: the prediction's standard deviation */
  const double *observed, *predicted, *sd;
} atvi_report_left;
/* Memory from pool. Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_report_left_out(atvi_pool *pool, const atvi_dossier *d, atvi_report_left *out);

typedef struct {
  const char *title, *file;
  atvi_idx n;
  const atvi_report_emulator *emulator;
  /* Command that repeats it. */
  const char *command;
  /* The model file. */
  const char *text;
} atvi_report_emulate;

/* Whether report.html may be written into dir: there is none, or the next function wrote it. */
bool atvi_report_emulate_may(atvi_pool *pool, const char *dir);
/* report.html and figures, in the existing folder dir. Errors: EIO, ENOMEM. */
ATVI_CHECKED atvi_status atvi_report_emulate_save(atvi_pool *pool, const atvi_report_emulate *r,
                                                  const char *dir);

/* ---- only series ---- */

/* As atvi_report_fit_save does for a forecast, figures/forecast.svg and forecast.pdf in dir: data with median
 * and bands that contain 50 % and 95 % of observations, a panel for each of series[n], and a legend.
 * time_name NULL: rows. Errors: EIO, ENOMEM. */
ATVI_CHECKED atvi_status atvi_report_save_forecast(atvi_pool *pool, const char *dir, atvi_idx n,
                                                   const atvi_predicted *series, atvi_calendar calendar,
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
