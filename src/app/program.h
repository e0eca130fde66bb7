/* SPDX-License-Identifier: MIT */
/* Designs and runs of an outside program; only for src/app. */
#ifndef ATVI_APP_PROGRAM_H
#define ATVI_APP_PROGRAM_H

#include "app/share.h"
#include "lang/lang.h"
#include "sim/design.h"
#include "sim/simulator.h"

/* Reads the model, which must have a simulator; its data need not exist, but its templates must, with fields
 * that are inputs. Errors: EMODEL, EDATA, ENOMEM. */
ATVI_CHECKED atvi_status atvi_app_program_load(atvi_ctx *ctx, const char *path, const char *folder,
                                               atvi_lang **out);
/* name[n_input] of the simulator's inputs. NULL: out of memory. */
const char **atvi_app_program_inputs(atvi_pool *pool, const atvi_lang *lang);

typedef struct {
  atvi_idx n;
  int64_t *id; /* [n] */
  double *x;   /* [n][d] */
  /* Text of the file. */
  const char *text;
  size_t n_text;
  /* how a line is written: */
  atvi_idx n_col;
  /* [n_col] the input of a column, or one of these. */
  atvi_idx *what;
  char separator;
  /* Numbers have a decimal comma. */
  bool comma;
} atvi_program_points;
enum { ATVI_POINTS_ID = -1, ATVI_POINTS_OTHER = -2 };
/* Reads DIR/design.csv; n is 0 if there is none. Columns: the names and id; without id, lines are counted
 * from 1. Errors: EDATA, EIO, ENOMEM. */
ATVI_CHECKED atvi_status atvi_app_program_points_read(atvi_pool *pool, const char *dir, atvi_idx d,
                                                      const char *const *name, atvi_program_points *out);

/* One input of the simulator. A parameter with finite bounds ranges over them evenly. Any other ranges over
 * its prior from the 0.1 % to the 99.9 % quantile, evenly in probability, so that points are where the prior
 * is. */
typedef struct {
  /* Ends of the range. */
  double lower, upper;
  /* The ends are its bounds. */
  bool box;
  const atvi_lang_param *q;
  /* Arguments of the prior, if fixed. */
  double arg[ATVI_DIST_ARGS];
  /* [n_draw] ascending draws from the prior if they are not fixed, else NULL. */
  const double *draw;
  atvi_idx n_draw;
} atvi_program_axis;
/* Memory from pool; lang must outlive it. Errors: EMODEL (a prior too wide), ENOMEM. */
ATVI_CHECKED atvi_status atvi_app_program_axis_new(atvi_pool *pool, const atvi_lang *lang, atvi_idx param,
                                                   atvi_program_axis *out);
/* Share of the prior below x, for an axis that is not a box. */
double atvi_app_program_axis_below(const atvi_program_axis *a, double x);

#endif
