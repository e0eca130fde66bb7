/* SPDX-License-Identifier: MIT */
/* Reports: one page and its figures, from draws, summaries and plain arrays. Nothing here knows a model. */
#ifndef ATVI_REPORT_REPORT_H
#define ATVI_REPORT_REPORT_H

#include "report/figure.h"
#include "report/page.h"

/* A model run that failed at a draw. */
typedef struct {
  const double *value; /* [n_param] */
} atvi_report_failure;

/* Everything that the report of a fit tells; all is borrowed. */
typedef struct {
  const char *title; /* of the model */
  const char *file;  /* its path */
  /* NULL while the fit is running: the page then shows the data and asks how it is getting on. */
  const atvi_summary *summary;
  const atvi_draws *draws; /* as the method made them, weighted if the summary used weights */
  const atvi_draws *plain; /* draws that count equally; may be the same */
  atvi_prior_mass *prior;  /* NULL: not known */
  void *prior_user;
  atvi_idx n_series;
  const atvi_report_series *series; /* observed ones first */
  atvi_idx n_predict;               /* draws that predictions are from */
  const char *no_predict;           /* why there are none; NULL: there are */
  const char *holdout;              /* rule; NULL: none */
  atvi_calendar calendar;
  const char *time_name; /* NULL: rows */
  atvi_idx n_step;
  const atvi_report_step *step;
  atvi_idx n_failure;
  const atvi_report_failure *failure;
  const char *command; /* to run it again */
  const char *how;     /* the text of fit.json */
  const char *text;    /* the model file */
} atvi_report_fit;

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
} atvi_report_table;

typedef struct {
  const char *name; /* of its files */
  const char *alt;
  const atvi_canvas *canvas;
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

/* An emulator: how well it predicts runs that it has not seen, and which inputs matter. */
typedef struct {
  const char *title, *sub;
  atvi_idx n_loo;
  const double *observed, *predicted; /* [n_loo] left out one at a time */
  double q2, coverage;                /* of the 95 % intervals */
  atvi_idx n_input;
  const char *const *input;
  const double *first, *total; /* [n_input] Sobol indices; NULL: none */
} atvi_report_emulator;

ATVI_CHECKED atvi_status atvi_report_emulator_save(atvi_pool *pool, const atvi_report_emulator *r,
                                                   const char *dir);

/* For this module: figures/NAME.svg and NAME.pdf in dir. Errors: EIO, ENOMEM. */
ATVI_CHECKED atvi_status atvi_report_save_figure(atvi_pool *pool, const char *dir, const char *name,
                                                 const char *title, const atvi_canvas *c);
ATVI_CHECKED atvi_status atvi_report_save_page(atvi_pool *pool, const char *dir, const char *html);
/* Title and the box with the verdict, which is left open: messages and "</div>" follow. */
void atvi_report_head(atvi_page *p, const char *title, const char *sub, const char *verdict, const char *say);

#endif
