/* SPDX-License-Identifier: MIT */
/* What repeated runs share (study, sbc): data sets, fits that may fail, records that survive; for src/app alone. */
#ifndef ATVI_APP_REPLICATE_H
#define ATVI_APP_REPLICATE_H

#include "app/delivery.h"
#include "io/csv.h"
#include "io/journal.h"
#include <jansson.h>

/* ---- records: DIR/replicates.csv, one complete line at a time, and DIR/<command>.json, the settings ---- */

typedef struct {
  atvi_ctx *ctx;
  atvi_pool *pool;
  const char *dir, *path;
  atvi_journal lines;
  atvi_csv *done; /* what is recorded; NULL: nothing */
} atvi_record;

/* Opens the folder, which is made if there is none, and keeps others out until it is closed. Settings must be those of the
 * folder, but for version, replicates and methods, which may change. An incomplete last line is cut off. settings is borrowed.
 * Errors: EINVAL (other settings; says which), EEXIST (in use, or a folder of something else), EDATA, EIO, ENOMEM. */
ATVI_CHECKED atvi_status atvi_record_open(atvi_ctx *ctx, atvi_pool *pool, const char *dir,
                                          const char *command, const json_t *settings, const char *header,
                                          atvi_record *out);
/* Whether replicate r (from 1) with that method is recorded. */
bool atvi_record_has(const atvi_record *rec, atvi_idx r, const char *method);
/* Appends a line (without its end) and waits until it is on the disk. Errors: EIO, ENOMEM. */
ATVI_CHECKED atvi_status atvi_record_add(atvi_record *rec, const char *line);
/* Everything recorded by now; NULL: nothing. Errors: those of atvi_csv_read; EDATA (a line that no run of ours could have written: a fit that is
 * there twice, a coverage or a rank that cannot be; says which). */
ATVI_CHECKED atvi_status atvi_record_read(const atvi_record *rec, atvi_csv **out);
void atvi_record_close(atvi_record *rec);
/* Writes a file of the folder. */
ATVI_CHECKED atvi_status atvi_record_save(const atvi_record *rec, const char *name, const char *text);

enum { ATVI_RANK_MOST = 99 }; /* ranks of a calibration run are 0 .. that */

/* The folder to use: out, or <name of the model>-<command>. NULL: no memory. */
const char *atvi_record_dir(atvi_pool *pool, const atvi_app_model *model, const char *command,
                            const char *out);
/* Settings that both commands have: the model, the files that it reads and fixed parameters, the seed. NULL: no memory. */
json_t *atvi_record_settings(atvi_pool *pool, const atvi_loaded *l, const atvi_app_model *model,
                             uint64_t seed, atvi_idx replicates);

/* A comma and a number with nine digits, far beyond the Monte Carlo error; NaN as NA. */
void atvi_record_cell(atvi_text *out, double x);
/* A cell of the record by name of its column, infinite ones too; NaN where there is none. */
double atvi_record_number(const atvi_csv *csv, atvi_idx row, const char *prefix, const char *column);
const char *atvi_record_text(const atvi_csv *csv, atvi_idx row, const char *column);

/* ---- one replicate ---- */

/* Emulators are the same for all data sets: those of l are kept in dir, and model (of a replicate) is told to take them from there. Errors: EIO, ENOMEM. */
ATVI_CHECKED atvi_status atvi_replicate_emulators(atvi_ctx *ctx, atvi_pool *pool, const atvi_loaded *l,
                                                  const char *dir);
void atvi_replicate_use_emulators(const atvi_loaded *l, const char *dir, atvi_app_model *model);

/* Plan of a method that draws from the posterior, by its name, all defaults. option: which the name is from, for messages. Errors: EINVAL. */
ATVI_CHECKED atvi_status atvi_replicate_method(atvi_ctx *ctx, const char *option, const char *name,
                                               uint64_t seed, atvi_fit_plan *plan);

/* Where in the whole we are, for progress. */
typedef struct {
  atvi_ctx *ctx; /* of the command */
  const char *command, *method;
  atvi_idx replicate, replicates;
  double done, share; /* of the whole before this fit, and of this fit */
  double begun_s;
} atvi_replicate_place;

/* A fit in a context of its own, so that its messages and memory are its own. */
typedef struct {
  atvi_ctx *ctx;
  atvi_pool *pool;
  atvi_loaded l;
  atvi_delivery y;
  bool stopped;
} atvi_replicate;

/* Whether simulated data can be put in the place of the model's. Errors: EMODEL (one of several data sets has no name). */
ATVI_CHECKED atvi_status atvi_replicate_sets(atvi_ctx *ctx, const atvi_loaded *l);
/* Whether data can be simulated at theta[d] (draw number r - 1 of the seed): value[n_obs]. Errors: EMODEL (the model cannot be run there;
 * message says so). */
ATVI_CHECKED atvi_status atvi_replicate_simulate(atvi_ctx *ctx, const atvi_loaded *l, uint64_t seed,
                                                 atvi_idx r, const double *theta, double *value);
/* Writes such data to DIR/data and gives the files to load instead of the model's. hash: of what they hold.
 * Errors: EMODEL (as above), EINVAL (another file is there already), EIO, ENOMEM. */
ATVI_CHECKED atvi_status atvi_replicate_data(atvi_ctx *ctx, atvi_pool *pool, atvi_loaded *l,
                                             const atvi_app_model *model, const char *dir, uint64_t seed,
                                             atvi_idx r, const double *theta, atvi_idx *n_data,
                                             const atvi_app_data **data, uint64_t *hash);
/* Loads the model and fits it. `out` must be freed whatever the status; the message of a failure is in out->ctx, or, if that is
 * NULL, there was no memory. */
ATVI_CHECKED atvi_status atvi_replicate_fit(atvi_replicate_place *place, const atvi_app_model *model,
                                            const atvi_fit_plan *plan, atvi_replicate *out);
void atvi_replicate_free(atvi_replicate *r);
/* Whether the failure is one of this replicate alone: it is recorded, and the next one is begun. */
bool atvi_replicate_goes_on(atvi_status status);
/* The last failure on one line, and as a cell of the record. Memory from pool. Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_replicate_reason(atvi_pool *pool, const atvi_ctx *ctx, const char **line,
                                               const char **cell);

#endif
