/* SPDX-License-Identifier: MIT */
/* Simulated values as CSV: trajectories, or observations in the layout of their data file; only for src/app.
 *
 * In a model with blocks units have their own times, so that every line is of one unit: a column of the block's name says of
 * which, and columns are named as in the block. */
#ifndef ATVI_APP_SIMULATE_TABLE_H
#define ATVI_APP_SIMULATE_TABLE_H

#include "app/common.h"

/* One line. */
typedef struct {
  /* of the target; 0: none */
  atvi_idx unit;
  /* data set; -1: none */
  atvi_idx data;
  atvi_idx row;
} atvi_table_line;

typedef struct {
  const atvi_loaded *l;
  /* which data file (atvi_lang_data); -1: tracked quantities and states */
  atvi_idx file;
  /* [values of all series][B] */
  const double *value;
  atvi_idx B;
  /* a data file that can be fitted */
  bool fitted;
  /* without missing cells */
  bool whole;
  /* the rest is made by atvi_app_table_make */
  const atvi_csv *csv;
  atvi_idx n_line;
  atvi_table_line *line;
  /* columns of series */
  atvi_idx n_col;
  const char **col;
  /* [parts][n_col] which series; -1: the unit has none */
  atvi_idx *series;
  /* [n_series] where their values begin */
  atvi_idx *offset;
  /* name of the column that says whose line it is; NULL: nobody's alone */
  const char *whose;
  /* columns of parameters and derived quantities */
  atvi_idx n_lead;
  const char **lead;
  /* [parts][n_lead] which one, derived quantities after the parameters; -1: none */
  atvi_idx *from;
} atvi_table;

/* Fills in the rest. Memory from pool. Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_app_table_make(atvi_pool *pool, atvi_table *t);
/* The first line, unless the data file has none. lead: with the number of the draw, parameters and derived quantities. */
void atvi_app_table_header(atvi_text *out, const atvi_table *t, bool lead);
/* The lines of a draw. theta[d][B], derived[n_derived][B] are for the lead; NULL: there is none. */
void atvi_app_table_lines(atvi_text *out, const atvi_table *t, atvi_idx draw, const double *theta,
                          const double *derived);

#endif
