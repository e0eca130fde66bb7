/* SPDX-License-Identifier: MIT */
/* What the commands share; for src/app alone. */
#ifndef ATVI_APP_COMMON_H
#define ATVI_APP_COMMON_H

#include "app/advice.h"
#include "app/app.h"
#include "atvi/draws.h"
#include "core/core.h"
#include "diag/summary.h"
#include "infer/fit.h"
#include "io/text.h"
#include "model/evaluator.h"
#include "model/model.h"
#include <jansson.h>

/* A model with its fixed parameters and scratch. */
typedef struct {
  atvi_model *model;
  atvi_target *fixed;        /* NULL if nothing is fixed */
  const atvi_target *target; /* what to infer */
  atvi_evaluator *ev;
} atvi_loaded;

/* use: how to load (its data are taken from opts); NULL: as usual. On failure everything is freed and *out zeroed. */
ATVI_CHECKED atvi_status atvi_app_load(atvi_ctx *ctx, const atvi_app_model *opts,
                                       const atvi_model_load_opts *use, atvi_loaded *out);
void atvi_app_unload(atvi_loaded *l);
/* Whether the model observes something but every value is missing. */
bool atvi_app_no_data(const atvi_loaded *l);

/* Largest error of the log likelihood by the model's solver at n points theta[d][n]; NaN where none could be compared. */
ATVI_CHECKED atvi_status atvi_app_solver_error(atvi_ctx *ctx, atvi_loaded *l, atvi_idx n, const double *theta,
                                               double *error);

/* Resolves name=value pairs against a target's parameters: value[d], NaN where nothing was said. what: the option, for messages. */
ATVI_CHECKED atvi_status atvi_app_values(atvi_ctx *ctx, const char *what, const atvi_target *target,
                                         atvi_idx n, const atvi_app_set *set, double *value);
/* The same, and every parameter must get a value inside its bounds. */
ATVI_CHECKED atvi_status atvi_app_point(atvi_ctx *ctx, const atvi_target *target, atvi_idx n,
                                        const atvi_app_set *set, double *theta);

/* The next element of a comma list, without the blanks around it; false at the end. *at: where to go on. */
bool atvi_app_next(const char **at, const char **item, size_t *n);

/* A method by its name, of those that are all of `is`; option: where the name is from, for messages. Errors: EINVAL. */
ATVI_CHECKED atvi_status atvi_app_method(atvi_ctx *ctx, unsigned is, const char *option, const char *name,
                                         const atvi_method **out);
/* The methods [n] of a comma list, each once. Memory from pool. Errors: EINVAL, ENOMEM. */
ATVI_CHECKED atvi_status atvi_app_methods(atvi_pool *pool, unsigned is, const char *list, atvi_idx *n,
                                          const atvi_method ***out);
/* Reads --times: "first:last", "first:last:step" or "t1,t2,...". Where the model has a calendar, times may be dates; the step is in its
 * unit. lang NULL: it has none. times NULL: none, *out is NULL. Errors: EINVAL, ENOMEM. */
ATVI_CHECKED atvi_status atvi_app_times(atvi_ctx *ctx, atvi_pool *pool, const char *times,
                                        const atvi_lang *lang, atvi_idx *n, double **out);
/* The date of time t, with the time of day where the calendar counts days and t is within one; "": there is no calendar, or no such
 * date. */
enum { ATVI_APP_DATE = 32 };
void atvi_app_date(const atvi_lang *lang, double t, char out[ATVI_APP_DATE]);

/* Whether an observation counts since the row before (increase). */
bool atvi_app_counts(const atvi_lang *lang, const atvi_lang_observe *o);
/* The shortest and the longest time between rows; HUGE_VAL and 0: there is none. */
void atvi_app_steps(atvi_idx n, const double *time, double *least, double *most);
/* What the user should know of data that are mostly evenly spaced but lack rows, where observations count since the row before. *note is
 * NULL where there is nothing. Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_app_gaps(atvi_pool *pool, const atvi_lang *lang, const char **note);
/* The text of the model with that start, if the start of its runs depends on its data; NULL: it does not. Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_app_start_text(atvi_pool *pool, const atvi_lang *lang, double start,
                                             const char **text);

/* Of the cells that were held out, as the data file has them. Memory from pool; NULL: there is none. */
const char *atvi_app_held_hash(atvi_pool *pool, const atvi_loaded *l);

/* A cell of a CSV file, quoted where it must be. */
void atvi_app_field(atvi_text *out, const char *s);

/* Observations value[n_obs] of one data set as CSV, in the layout of its file. Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_app_data_text(atvi_pool *pool, const atvi_loaded *l, atvi_idx group,
                                            const double *value, const char **text);

/* How many of the simulated observations value[n_obs][B] are not finite, those apart whose covariates, or which themselves, are missing. */
atvi_idx atvi_app_undrawn(const atvi_loaded *l, atvi_idx B, const double *value);

/* The folder of a fit: `where` itself, or of a model file the newest run here that holds such a file. Errors: EINVAL (there is none), ENOMEM. */
ATVI_CHECKED atvi_status atvi_app_find_run(atvi_ctx *ctx, atvi_pool *pool, const char *where,
                                           const char *holding, const char **dir);

/* The folder for results: out, which must not exist unless force is set or it is empty; NULL: a new numbered one, named after base.
 * Errors: EEXIST, EIO, ENOMEM. */
ATVI_CHECKED atvi_status atvi_app_out_dir(atvi_ctx *ctx, atvi_pool *pool, const char *out, bool force,
                                          const char *base, const char **dir);
/* Errors: EIO: there is no fit.json, so that files of two fits may be mixed in the folder. */
ATVI_CHECKED atvi_status atvi_app_whole_fit(atvi_ctx *ctx, atvi_pool *pool, const char *dir);
/* The draws that the fit in dir was judged by: weighted ones where there are. Errors: EIO, EDATA, ENOMEM. */
ATVI_CHECKED atvi_status atvi_app_read_draws(atvi_ctx *ctx, atvi_pool *pool, const char *dir,
                                             atvi_draws **out);

/* What the user wrote, in any encoding, as JSON and back, byte by byte; for src/app alone.
 *
 * JSON takes UTF-8 alone. Of text that is something else, each byte b above 127 becomes the character U+F700 + b, of those that Unicode
 * leaves to everyone's use. */

/* null for NULL. NULL: no memory. */
json_t *atvi_app_bytes_json(atvi_pool *pool, const char *s);
/* What s, a string from such a file, was; a copy. NULL for NULL, or no memory. */
char *atvi_app_bytes_text(atvi_pool *pool, const char *s);

/* A finished fit as its folder tells it; for src/app alone. */

typedef struct {
  const char *dir;
  const char *method, *verdict; /* verdict: NULL where summary.json is gone */
  const char *holdout;          /* rule; NULL: none */
  atvi_idx held_n;              /* values that were held out; -1: not known */
  const char *held_hash;        /* of them (atvi_app_held_hash); NULL: not known */
  uint64_t seed;
  double log_map;       /* NaN where summary.json is gone */
  const char *text;     /* the model as it was fitted */
  atvi_app_model model; /* its path, data and fixed parameters as they were */
  bool changed;         /* the model file is no longer what was fitted */
} atvi_fitted;

/* Reads the folder of a fit (atvi_app_find_run). data[n_data] are files given now in the place of those of the fit. Paths of the fit are
 * relative to the folder it was started in or, where there is no such file, to the working folder. Memory from pool.
 * Errors: EINVAL (no such run, or one that is not complete), EDATA (fit.json cannot be read, a data file is gone), EIO, ENOMEM. */
ATVI_CHECKED atvi_status atvi_app_fitted_read(atvi_ctx *ctx, atvi_pool *pool, const char *where,
                                              atvi_idx n_data, const atvi_data_file *data, atvi_fitted *out);

/* What a fit hands over: the draws of its method, and draws that count equally; for src/app alone. */

typedef struct {
  /* from the method */
  atvi_draws *draws;
  /* draws that count equally, as far as they can be had; the same where they have no weights */
  atvi_draws *plain;
} atvi_delivery;

/* Makes the rest from y->draws, and measures the solver's error where the posterior is: it counts in the verdict.
 * Errors: ENOMEM, those of the evaluation. */
ATVI_CHECKED atvi_status atvi_app_delivery_make(atvi_ctx *ctx, atvi_pool *pool, atvi_loaded *l,
                                                atvi_delivery *y);
void atvi_app_delivery_free(atvi_delivery *y); /* zeroed is fine */

#endif
