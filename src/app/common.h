/* SPDX-License-Identifier: MIT */
/* Shared by the commands; only for src/app. */
#ifndef ATVI_APP_COMMON_H
#define ATVI_APP_COMMON_H

#include "app/app.h"
#include "atvi/draws.h"
#include "core/core.h"
#include "diag/summary.h"
#include "infer/fit.h"
#include "io/text.h"
#include "model/evaluator.h"
#include "model/model.h"
#include "io/memo.h"
#include "report/report.h"
#include "sim/simulator.h"
#include <jansson.h>
#include <sys/types.h>

/* atvi_diag_summary_new, with advice after the first message of every code. Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_app_advised_summary(atvi_pool *pool, const atvi_draws *d, atvi_summary **out);

/* A model with its fixed parameters and scratch. */
typedef struct {
  atvi_model *model;
  /* NULL if nothing is fixed. */
  atvi_target *fixed;
  /* What to infer. */
  const atvi_target *target;
  atvi_evaluator *ev;
} atvi_loaded;

/* use: how to load (its data come from opts); NULL: as usual. On failure everything is freed and *out
 * zeroed. */
ATVI_CHECKED atvi_status atvi_app_load(atvi_ctx *ctx, const atvi_app_model *opts,
                                       const atvi_model_load_opts *use, atvi_loaded *out);
void atvi_app_unload(atvi_loaded *l);
/* Whether the model has observations but every value is missing. */
bool atvi_app_no_data(const atvi_loaded *l);
/* The name of a parameter whose prior is flat; NULL: there is none. */
const char *atvi_app_flat(const atvi_loaded *l);

/* Largest error of the log likelihood by the model's solver at n points theta[d][n]; NaN if none could be
 * compared. */
ATVI_CHECKED atvi_status atvi_app_solver_error(atvi_ctx *ctx, atvi_loaded *l, atvi_idx n, const double *theta,
                                               double *error);

/* Resolves name=value pairs against a target's parameters: value[d], NaN for parameters without a value.
 * what: the option, for messages. */
ATVI_CHECKED atvi_status atvi_app_values(atvi_ctx *ctx, const char *what, const atvi_target *target,
                                         atvi_idx n, const atvi_app_set *set, double *value);
/* The same, and every parameter must get a value inside its bounds. */
ATVI_CHECKED atvi_status atvi_app_point(atvi_ctx *ctx, const atvi_target *target, atvi_idx n,
                                        const atvi_app_set *set, double *theta);

/* The next element of a comma list, without surrounding blanks; false at the end. *at: where to continue. */
bool atvi_app_next(const char **at, const char **item, size_t *n);

/* Finds a method by name among those with all properties `is`; option: where the name is from, for messages.
 * Errors: EINVAL. */
ATVI_CHECKED atvi_status atvi_app_method(atvi_ctx *ctx, unsigned is, const char *option, const char *name,
                                         const atvi_method **out);
/* The methods [n] of a comma list, each once. Memory from pool. Errors: EINVAL, ENOMEM. */
ATVI_CHECKED atvi_status atvi_app_methods(atvi_pool *pool, unsigned is, const char *list, atvi_idx *n,
                                          const atvi_method ***out);
/* Reads --times: "first:last", "first:last:step" or "t1,t2,...". If the model has a calendar (lang is not
 * NULL), times may be dates and the step is in its unit. times NULL: none, *out is NULL. Errors: EINVAL,
 * ENOMEM. */
ATVI_CHECKED atvi_status atvi_app_times(atvi_ctx *ctx, atvi_pool *pool, const char *times,
                                        const atvi_lang *lang, atvi_idx *n, double **out);
/* The date of time t, with the time of day if the calendar counts days and t is not a whole day; "" without a
 * calendar or such a date. */
enum { ATVI_APP_DATE = 32 };
void atvi_app_date(const atvi_lang *lang, double t, char out[ATVI_APP_DATE]);

/* Whether an observation counts since the previous row (increase). */
bool atvi_app_counts(const atvi_lang *lang, const atvi_lang_observe *o);
/* The shortest and the longest time between rows; HUGE_VAL and 0 if there is none. */
void atvi_app_steps(atvi_idx n, const double *time, double *least, double *most);
/* A note on data that are mostly evenly spaced but lack rows, when observations count since the previous row.
 * *note is NULL if there is nothing to say. Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_app_gaps(atvi_pool *pool, const atvi_lang *lang, const char **note);
/* The text of the model with that start if the start depends on the data, else NULL. Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_app_start_text(atvi_pool *pool, const atvi_lang *lang, double start,
                                             const char **text);

/* Hash of the held-out cells, as they are in the data file. Memory from pool; NULL: none. */
const char *atvi_app_held_hash(atvi_pool *pool, const atvi_loaded *l);

/* Number of data files: units of a block share one. */
atvi_idx atvi_app_files(const atvi_lang *lang);
/* The description in which data set *k has its names as they are in the model, "conc" and not "conc.s01"; *k
 * becomes its number there. */
const atvi_lang *atvi_app_home(const atvi_model *m, atvi_idx *k);
/* The name of data set k as it is in the model, "" if it has none. */
const char *atvi_app_set_name(const atvi_model *m, atvi_idx k);

/* A cell of a CSV file, quoted if necessary. */
void atvi_app_field(atvi_text *out, const char *s);
/* Adds a word for a shell, quoted if it has to be. */
void atvi_app_quoted(atvi_text *out, const char *s);

/* Observations value[n_obs] of one data file as CSV, in its layout. Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_app_data_text(atvi_pool *pool, const atvi_loaded *l, atvi_idx file,
                                            const double *value, const char **text);

/* Number of simulated observations value[n_obs][B] that are not finite, except those that are missing or
 * whose covariates are. */
atvi_idx atvi_app_undrawn(const atvi_loaded *l, atvi_idx B, const double *value);

/* The folder of a fit: `where` itself or, for a model file, the newest fit here that contains such a file.
 * Errors: EINVAL (none), ENOMEM. */
ATVI_CHECKED atvi_status atvi_app_find_run(atvi_ctx *ctx, atvi_pool *pool, const char *where,
                                           const char *holding, const char **dir);

/* The folder for results: out, which must not exist unless force is set or it is empty; NULL: a new numbered
 * one, named after base. Errors: EEXIST, EIO, ENOMEM. */
ATVI_CHECKED atvi_status atvi_app_out_dir(atvi_ctx *ctx, atvi_pool *pool, const char *out, bool force,
                                          const char *base, const char **dir);
/* Errors: EIO (there is no fit.json: files of two fits may be mixed in the folder). */
ATVI_CHECKED atvi_status atvi_app_whole_fit(atvi_ctx *ctx, atvi_pool *pool, const char *dir);
/* The draws by which the fit in dir was judged: the weighted ones if there are any. Errors: EIO, EDATA,
 * ENOMEM. */
ATVI_CHECKED atvi_status atvi_app_read_draws(atvi_ctx *ctx, atvi_pool *pool, const char *dir,
                                             atvi_draws **out);

/* What the user wrote, in any encoding, as JSON and back, byte by byte; only for src/app.
 *
 * JSON is always UTF-8. In text that is not, each byte b above 127 becomes the character U+F700 + b of the
 * private use area. */

/* null for NULL. NULL: out of memory. */
json_t *atvi_app_bytes_json(atvi_pool *pool, const char *s);
/* A copy of s, a string from such a file, in its original encoding. NULL for NULL, or out of memory. */
char *atvi_app_bytes_text(atvi_pool *pool, const char *s);

/* A finished fit as stored in its folder; only for src/app. */

typedef struct {
  const char *dir;
  /* Verdict: NULL if summary.json is gone. */
  const char *method, *verdict;
  /* Rule; NULL: none. */
  const char *holdout;
  /* Values that were held out; -1: not known. */
  atvi_idx held_n;
  /* Their hash (atvi_app_held_hash); NULL: not known. */
  const char *held_hash;
  uint64_t seed;
  /* NaN if summary.json is gone. */
  double log_map;
  /* The model as it was fitted. */
  const char *text;
  /* Its path, data and fixed parameters as they were. */
  atvi_app_model model;
  /* The model file has changed since the fit. */
  bool changed;
} atvi_fitted;

/* Reads the folder of a fit (atvi_app_find_run). Paths of the fit are relative to the folder it was started
 * in or, if there is no such file, to the working folder. Memory from pool. Errors: EINVAL (no such fit, or
 * an incomplete one), EDATA (fit.json cannot be read, a data file is gone), EIO, ENOMEM. */
ATVI_CHECKED atvi_status atvi_app_fitted_read(atvi_ctx *ctx, atvi_pool *pool, const atvi_app_finished *opts,
                                              atvi_fitted *out);

/* The contents of a fit's folder, read back as DRAWS. */
typedef struct {
  atvi_pool *pool;
  const atvi_app_finished *opts;
  const char *dir;
  /* texts of fit.json and model.atvi */
  const char *how, *text;
  /* path of the model and rule of the holdout, as in fit.json; NULL: none */
  const char *file, *holdout;
  /* as the method made them, and draws that count equally, with the groups; may be the same */
  atvi_draws *draws, *plain;
  /* the folder is from an older version and the model could not be run; plain->about.no_groups says why */
  bool failed;
  atvi_fitted run;
  /* if the model was needed; zeroed: it was not, or it cannot be loaded */
  atvi_loaded l;
} atvi_kept;

/* Reads the folder of opts->where. For a folder of an older version, without groups, the model is run again
 * at the draws if its files still exist. Close *out in any case; strings are from pool. Errors: EINVAL (not a
 * finished fit), EDATA (a file is damaged), EIO, ENOMEM. */
ATVI_CHECKED atvi_status atvi_app_kept_open(atvi_ctx *ctx, atvi_pool *pool, const atvi_app_finished *opts,
                                            atvi_kept *out);
/* Loads the model as it was fitted. Errors: those of atvi_app_fitted_read and atvi_app_load. */
ATVI_CHECKED atvi_status atvi_app_kept_load(atvi_kept *x);
void atvi_app_kept_close(atvi_kept *x);

/* What a fit returns: the draws of its method, and draws that count equally; only for src/app. */

typedef struct {
  /* from the method */
  atvi_draws *draws;
  /* draws that count equally, if they can be made; the same draws if they have no weights */
  atvi_draws *plain;
} atvi_delivery;

/* Makes the rest from y->draws, and measures the error of the solver at the posterior, which counts in the
 * verdict. Errors: ENOMEM, those of the evaluation. */
ATVI_CHECKED atvi_status atvi_app_delivery_make(atvi_ctx *ctx, atvi_pool *pool, atvi_loaded *l,
                                                atvi_delivery *y);
void atvi_app_delivery_free(atvi_delivery *y); /* zeroed is fine */

/* A fit in the formats of other programs; docs/formats.md describes them. */
typedef struct {
  /* draws that count equally, with their groups */
  const atvi_draws *plain;
  /* NULL: none */
  const atvi_draws *weighted;
  /* NULL: not known */
  const char *verdict;
} atvi_export_fit;

/* netCDF-4 in the layout of ArviZ's InferenceData, written by a process of its own: libhdf5 may crash if
 * memory is short. Errors: EIO (no netCDF library, or the file cannot be written), ENOMEM, ESTOP. */
ATVI_CHECKED atvi_status atvi_app_export_nc(atvi_ctx *ctx, atvi_pool *pool, const atvi_export_fit *fit,
                                            const char *path);

/* A process that writes fit.nc while its parent does something else. */
typedef struct {
  pid_t pid; /* 0: there is none */
  int fd;    /* what it found */
  /* A request to stop came before it was started: these are results so far, and are written. */
  bool so_far;
  const char *dir;
} atvi_export_process;

/* fit.nc of a new fit, if there is a netCDF library: between the two calls anything may be done that leaves
 * the draws alone. Errors are logged and do not fail the fit. A request to stop that comes between begin and
 * the end of the process ends it. */
void atvi_app_export_begin(atvi_ctx *ctx, atvi_pool *pool, const atvi_export_fit *fit, const char *dir,
                           atvi_export_process *p);
void atvi_app_export_end(atvi_ctx *ctx, atvi_export_process *p); /* zeroed is fine */

/* Fits that were interrupted; only for src/app.
 *
 * DIR/checkpoint (io/memo.h) is there from the beginning of a fit to its end. It also says how the fit was
 * called, and has fingerprints of the program and of all files that were read. A fit continues only if they
 * are the same. */

#define ATVI_APP_CHECKPOINT "checkpoint"

/* Whether DIR has a fit that was interrupted. */
bool atvi_app_resume_there(atvi_pool *pool, const char *dir);
/* The options with which the fit in opts->resume was begun, with out and force set; the caller's are kept
 * where they change nothing in the results. Memory from pool. Errors: EINVAL (there is nothing to resume),
 * EDATA (the checkpoint is damaged), EIO, ENOMEM. */
ATVI_CHECKED atvi_status atvi_app_resume_options(atvi_ctx *ctx, atvi_pool *pool,
                                                 const atvi_app_fit_opts *opts, atvi_app_fit_opts *out);
/* Makes the folder of a fit (atvi_app_out_dir) and its memo, or continues the fit that was interrupted there.
 * Errors: EEXIST (that was another fit, and opts->force is not set: the message says what differs), EDATA,
 * EIO (also: another process is at it), ENOMEM. */
ATVI_CHECKED atvi_status atvi_app_resume_begin(atvi_ctx *ctx, atvi_pool *pool, const atvi_app_fit_opts *opts,
                                               const atvi_loaded *l, const char **dir, atvi_memo **memo);

/* Version and fingerprint of the program: another one may give other draws. Memory from pool; NULL: none. */
const char *atvi_app_resume_program(atvi_pool *pool);
/* The memo of one fit of a repeated run, in DIR; item: end of its name. What another fit left there is
 * dropped. about: the program, and which fit it is. every_s as checkpoint_s. Errors: EIO, ENOMEM. */
ATVI_CHECKED atvi_status atvi_app_resume_item(atvi_ctx *ctx, atvi_pool *pool, const char *dir,
                                              const char *item, double every_s, const char *about,
                                              atvi_memo **memo);

/* What commands say about emulators, from their dossiers, and the emulators in the folder of a fit; only for
 * src/app. */

/* Counts the points of the design in the folder `runs` (NULL: the usual one), and those without a run, good
 * or failed, into d. Leaves d unchanged if there is no design or it cannot be read. known: another emulator
 * of these runs that is already counted; NULL: none. */
void atvi_app_emulators_count_design(atvi_pool *pool, const atvi_lang *lang, const char *runs,
                                     const atvi_dossier *known, atvi_dossier *d);
/* Doubt i of d with advice for the command line. path, runs: of the model, and as given. Memory from pool. */
const char *atvi_app_emulators_doubt(atvi_pool *pool, const char *path, const char *runs,
                                     const atvi_dossier *d, int i);

/* Judges the emulators of the model and adds messages to draws of its posterior: how good each is, reasons to
 * doubt it, and how much of the posterior lies where there are no runs. Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_app_emulators_say(atvi_ctx *ctx, atvi_pool *pool, const atvi_app_model *opts,
                                                const atvi_loaded *l, atvi_draws *draws);

/* Fills what follows from the dossier, which is borrowed; the rest stays unknown. */
void atvi_app_emulators_report(atvi_pool *pool, const atvi_lang *lang, const char *path, const char *runs,
                               const atvi_dossier *d, atvi_report_emulator *out);
/* The same for all emulators that the model uses, with the share of draws outside their runs; returns their
 * number. */
atvi_idx atvi_app_emulators_reports(atvi_pool *pool, const atvi_app_model *opts, const atvi_loaded *l,
                                    const atvi_draws *draws, const atvi_report_emulator **out);

/* Saves the emulators of a fit in its folder for atvi predict: emulator-NAME.json. Errors: EIO, ENOMEM. */
ATVI_CHECKED atvi_status atvi_app_emulators_keep(atvi_ctx *ctx, atvi_pool *pool, const atvi_loaded *l,
                                                 const char *dir);
/* Removes those of an earlier fit. */
void atvi_app_emulators_drop(const char *dir);

/* ---- designs and runs of an outside program ---- */

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
