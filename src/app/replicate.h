/* SPDX-License-Identifier: MIT */
/* Shared by commands that make many fits (study, sbc, compare): data sets, fits that may fail, records that
 * survive; only for src/app. */
#ifndef ATVI_APP_REPLICATE_H
#define ATVI_APP_REPLICATE_H

#include "app/common.h"
#include "diag/summary.h"
#include "io/csv.h"
#include "io/file.h"
#include "io/memo.h"

/* ---- records: DIR/replicates.csv, one complete line at a time, and DIR/<command>.json, the settings ---- */

typedef struct {
  /* Set before it is opened: the command, and the columns, which must last. */
  const char *command, *header;
  /* NULL: <name of the model>-<command>. */
  const char *dir;
  /* Names of the two files; NULL: "replicates", and the command. */
  const char *name, *settings;
  /* For workers, and those who ask about them: nothing is locked, and only the settings are looked at. */
  bool shared;
  /* The folder may have anything in it, and what is recorded is dropped; the command has such an option. */
  bool force, can_force;
  /* Set by opening it. */
  atvi_ctx *ctx;
  atvi_pool *pool;
  const char *path;
  atvi_journal lines;
  /* What is recorded; NULL: nothing. */
  atvi_csv *done;
} atvi_record;

/* Opens the folder, which is made if necessary, and locks it until it is closed. Settings must be those of
 * the folder, except version, replicates and methods, which may change; the writer is used up. An incomplete
 * last line is cut off, and lines of workers, none of which may be alive, are added. Errors: EINVAL (other
 * settings; says which), EEXIST (in use, or a folder of something else), EDATA, EIO, ENOMEM. */
ATVI_CHECKED atvi_status atvi_app_record_open(atvi_pool *pool, const atvi_app_model *model,
                                              atvi_json *settings, atvi_record *rec);
/* The file of a worker, to which lines are then added. */
ATVI_CHECKED atvi_status atvi_app_record_shard(atvi_record *rec, const char *worker);
/* Whether replicate r (from 1) with that method is recorded. */
bool atvi_app_record_has(const atvi_record *rec, atvi_idx r, const char *method);
/* Appends a line (without its end) and waits until it is on the disk. Errors: EIO, ENOMEM. */
ATVI_CHECKED atvi_status atvi_app_record_add(atvi_record *rec, const char *line);
/* Everything recorded so far; NULL: nothing. Errors: those of atvi_io_csv_read; EDATA (a line that atvi
 * cannot have written: a fit listed twice, an impossible coverage or rank; says which). */
ATVI_CHECKED atvi_status atvi_app_record_read(const atvi_record *rec, atvi_csv **out);
void atvi_app_record_close(atvi_record *rec);

enum { ATVI_RANK_MOST = 99 }; /* ranks of a calibration run are 0 .. this */

/* Adds what the results of a fit depend on: fixed parameters, the data, the model, and the files it reads. */
void atvi_app_record_inputs(atvi_json *w, const atvi_loaded *l, const atvi_app_model *model);
/* Opens the object of settings with those that both commands share: the model, the files it reads, fixed
 * parameters, the seed. */
void atvi_app_record_settings(atvi_json *w, const atvi_loaded *l, const atvi_app_repeat_opts *o);

/* A cell of the record by name of its column, possibly infinite; NaN if there is none. */
double atvi_app_record_number(const atvi_csv *csv, atvi_idx row, const char *prefix, const char *column);
const char *atvi_app_record_text(const atvi_csv *csv, atvi_idx row, const char *column);

/* The fits of one method, replicates 1 .. replicates, in a record. */
typedef struct {
  const atvi_csv *csv;
  const char *method;
  atvi_idx replicates;
} atvi_record_part;

/* Whether the row is one of them, and a finished fit. */
bool atvi_app_record_good(const atvi_record_part *x, atvi_idx row);

/* How they ended. */
typedef struct {
  atvi_idx n_done, n_failed;
  /* ok, warn, bad */
  atvi_idx n_verdict[3];
} atvi_tally;

/* Reasons of failures, "replicate 7, atvi: why"; all from the pool. */
typedef struct {
  atvi_idx n, cap;
  const char **of;
} atvi_failures;

/* Counts the fits and adds their failures. named: these name the method. Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_app_record_tally(atvi_pool *pool, const atvi_record_part *x, bool named,
                                               atvi_tally *out, atvi_failures *failures);
/* "7 fits, 1 failed; verdicts: 5 ok, 2 warn, 0 bad", and "failed: why" on a line each; the same as members of
 * the object that is open. */
void atvi_app_tally_text(atvi_text *out, const atvi_tally *x);
void atvi_app_failures_text(atvi_text *out, const atvi_failures *x);
void atvi_app_tally_json(atvi_json *w, const atvi_tally *x);

/* ---- one replicate ---- */

/* Plan of a method that draws from the posterior, by name, with defaults. option: where the name is from, for
 * messages. Errors: EINVAL. */
ATVI_CHECKED atvi_status atvi_app_replicate_method(atvi_ctx *ctx, const char *option, const char *name,
                                                   uint64_t seed, atvi_fit_plan *plan);

/* A fit in its own context, with its own messages and memory. */
typedef struct {
  atvi_ctx *ctx;
  atvi_pool *pool;
  atvi_loaded l;
  atvi_delivery y;
  /* Its checkpoint, which stays until the fit is recorded. */
  atvi_memo *memo;
  bool stopped;
} atvi_replicate;

/* Which fit it is. */
typedef struct {
  /* From 1. */
  atvi_idx replicate;
  const char *method;
  uint64_t seed;
  /* Hash of its data; 0: none. */
  uint64_t hash;
  /* For the command: where its data are from. */
  const double *truth;
} atvi_replicate_place;

/* A repeated run: replicates of every method, each a line of the record. */
typedef struct atvi_repeat atvi_repeat;
struct atvi_repeat {
  atvi_ctx *ctx;
  /* "study", "sbc" or "compare", and the option that gives its methods. */
  const char *command, *option;
  /* Replicate r is fitted with seed + r - 1. */
  const atvi_app_repeat_opts *o;
  /* The model with its own data. */
  atvi_loaded *l;
  atvi_record *rec;
  atvi_idx n_method;
  const char *const *method; /* [n_method] */
  /* Messages name the replicate, the method, or both. */
  bool numbered, named;
  /* Fields of atvi_headline in the record. */
  const char *keys;
  double begun_s;
  /* When the fits must end, in seconds since 1970; 0: not known. */
  double until_s;
  void *self;
  /* One fit and its line, if there is one at a time. NULL: they run side by side, and `data` is called with
   * none beside it, but `cells` of several fits at once. */
  atvi_status (*fit)(const atvi_repeat *x, atvi_pool *pool, atvi_replicate_place *at, atvi_idx before,
                     bool *stopped);
  /* Gives model the data of at->replicate, and at their hash; NULL: they are those of the model. */
  atvi_status (*data)(const atvi_repeat *x, atvi_pool *pool, atvi_replicate_place *at, atvi_app_model *model);
  /* Adds the rest of the line after the headline, ",cell" for each column. fit and s are NULL if it failed;
   * messages are fit->ctx's. */
  atvi_status (*cells)(const atvi_repeat *x, const atvi_replicate_place *at, atvi_replicate *fit,
                       const atvi_summary *s, atvi_text *out);
};

/* For `data`: simulates at theta[d], writes to DIR/data, and gives the files instead of the model's. Errors:
 * EMODEL (as atvi_app_replicate_simulate), EINVAL (another file exists), EIO, ENOMEM. */
ATVI_CHECKED atvi_status atvi_app_repeat_simulate(const atvi_repeat *x, atvi_pool *pool, const double *theta,
                                                  atvi_replicate_place *at, atvi_app_model *model);
/* Names of the columns of every record; the caller adds its own. */
void atvi_app_repeat_header(atvi_text *out, const char *keys);
/* Does all fits that are not recorded yet; emulators, the same for all, are kept in the folder. A failure of
 * one fit is recorded, and the next one starts. If work is shared, does its part of it
 * (atvi_app_repeat_shared). Errors: those of fits that are not of that kind; EIO, ENOMEM. */
ATVI_CHECKED atvi_status atvi_app_repeat_run(const atvi_repeat *x, atvi_app_repeat_result *out);

/* Whether the fit that is under way must end now. */
bool atvi_app_repeat_over(const atvi_repeat *x);
/* Lets a fit use what the folder keeps for all: emulators. */
void atvi_app_repeat_model(const atvi_repeat *x, atvi_app_model *model);
/* Whether a failure concerns that fit alone: it is recorded, and the next one starts. */
bool atvi_app_repeat_goes_on(atvi_status status);
/* The line of a fit that failed because of the last failure of x->ctx. */
ATVI_CHECKED atvi_status atvi_app_repeat_fail(const atvi_repeat *x, atvi_pool *pool,
                                              atvi_replicate_place *at);
/* Whether work is shared in any of these ways. */
bool atvi_app_repeat_is_shared(const atvi_app_share *o);

/* Whether simulated data can replace those of the model. Errors: EMODEL (one of several data sets has no
 * name). */
ATVI_CHECKED atvi_status atvi_app_replicate_sets(atvi_ctx *ctx, const atvi_loaded *l);
/* Whether data can be simulated at theta[d] (draw number r - 1 of the seed): value[n_obs]. Errors: EMODEL
 * (the model cannot be run there). */
ATVI_CHECKED atvi_status atvi_app_replicate_simulate(atvi_ctx *ctx, const atvi_loaded *l, uint64_t seed,
                                                     atvi_idx r, const double *theta, double *value);

/* Truths drawn from the prior have numbers from here on. Fits use the first prior draws of their seed to find
 * a start and the scale of parameters: none may start from the truth it is to find. */
#define ATVI_TRUTH_FIRST ((atvi_idx)1 << 30)

#endif
