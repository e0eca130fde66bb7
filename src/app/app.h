/* SPDX-License-Identifier: MIT */
/* The work of the commands. Each function does the work of one command and returns text to print; nothing
 * here prints, parses arguments or exits. The given pool owns the text. */
#ifndef ATVI_APP_APP_H
#define ATVI_APP_APP_H

#include "atvi/fit.h"
#include "atvi/verdict.h"
#include "core/core.h"

typedef struct {
  /* A parameter ("beta.1") or a whole array ("beta"). */
  const char *name;
  /* A number; for an array, one number for all or a comma list. */
  const char *value;
} atvi_app_set;

/* Input of every command that reads a model. */
typedef struct {
  /* Model file. */
  const char *path;
  atvi_idx n_data;
  /* --data. */
  const atvi_data_file *data;
  atvi_idx n_fix;
  /* --fix: parameters held at a value. */
  const atvi_app_set *fix;
  /* --no-compile. */
  bool interpret;
  /* --folder: where to look for files; NULL: as the model says. */
  const char *folder;
  /* --runs: folder with the runs of its simulator; NULL: <model>-runs. */
  const char *runs;
  /* For the model of a finished fit (atvi_fitted): the record as it was, and where its emulators are. */
  atvi_idx runs_lines;
  const char *emulators;
  /* Called with the target before it is used, and may replace it; NULL: none. */
  atvi_status (*share)(atvi_ctx *ctx, const atvi_target **target);
  /* This process only evaluates the model for another one: share returns when that reads the next model (OK)
   * or ends (ESTOP). */
  bool serves;
} atvi_app_model;

/* What to do about a message or a failure, in the words of the command line: a sentence or two; NULL if there
 * is nothing to add. The library says what is wrong and gives a code; only advice.c knows which options and
 * commands help. python/ and r/ have their own tables. */
const char *atvi_app_advice(atvi_code code);

/* Statuses of all commands: EMODEL, EDATA and EINVAL (wrong usage: unknown name, bad number) mean exit code
 * 2, others 1. */

/* atvi check: shapes, data summary, gradient self-check, cost. *ok is false if the gradient check failed. */
ATVI_CHECKED atvi_status atvi_app_check(atvi_ctx *ctx, atvi_pool *pool, const atvi_app_model *model,
                                        uint64_t seed, const char **text, bool *ok);

/* atvi eval: JSON with log_prior, log_likelihood, gradient {name: value}, outcome, at a point. */
ATVI_CHECKED atvi_status atvi_app_eval(atvi_ctx *ctx, atvi_pool *pool, const atvi_app_model *model,
                                       atvi_idx n_set, const atvi_app_set *set, const char **text);

typedef struct {
  atvi_app_model model;
  atvi_idx n_set;
  const atvi_app_set *set;
  /* --observe: synthetic data in the layout of the model's data file. */
  bool observe;
  /* --prior N: N prior predictive draws instead of one point; 0: no. */
  atvi_idx prior;
  /* --fit: parameters outside blocks are draws of this fit, a folder or a model file; NULL: they are in `set`. */
  const char *fit;
  /* --draws N, of the fit or of what is not set; 0: default. */
  atvi_idx draws;
  /* --times a:b[:step] or a comma list; NULL: the data's times. */
  const char *times;
  /* With --observe and several data sets: which one to write; NULL: the only one. */
  const char *data;
  uint64_t seed;
} atvi_app_simulate_opts;

typedef struct {
  /* CSV. */
  const char *text;
  /* The model could not be run at any of the points, which was reported. */
  bool failed;
} atvi_app_simulate_result;

/* atvi simulate. */
ATVI_CHECKED atvi_status atvi_app_simulate(atvi_ctx *ctx, atvi_pool *pool, const atvi_app_simulate_opts *opts,
                                           atvi_app_simulate_result *result);

/* A verdict, and where its word is in a text for the terminal, which may highlight it. */
typedef struct {
  atvi_verdict verdict;
  size_t at;
} atvi_app_mark;

typedef struct {
  atvi_app_model model;
  /* Method, seed and the rest; from atvi_fit_defaults. */
  atvi_fit_opts how;
  /* --out; NULL: the next free numbered folder here. */
  const char *out;
  /* Write into an existing folder. */
  bool force;
  /* --holdout: rows left out of the fit (model/model.h); NULL: none. */
  const char *holdout;
  /* --no-report. */
  bool no_report;
  /* --live: serve the report while the fit runs. */
  bool live;
  /* DIR/progress.json and a page of the running fit are kept up to date. */
  bool watched;
  /* --resume: folder of a fit that was interrupted; model, method and the rest are then those of that fit. NULL: none. */
  const char *resume;
  /* --checkpoint: most seconds between two checkpoints; 0: the default. */
  double checkpoint_s;
  /* The checkpoint stays when the fit is complete: the caller removes it once all that follows is done. */
  bool keeps_checkpoint;
  /* fit.nc is left to the caller. It is written by a process of its own, and one forked while other threads
   * work may never get the memory they were asking for. */
  bool leaves_nc;
} atvi_app_fit_opts;

typedef struct {
  /* Folder of draws.csv, summary.json and, if draws are weighted, weighted.csv. */
  const char *dir;
  /* Table and messages for the terminal. */
  const char *text;
  /* The verdict, and where it is in text. */
  atvi_app_mark judged;
  /* The first message behind it; NULL if ok. */
  const char *reason;
  /* Ended by the stop callback. */
  bool stopped;
  /* Path of the report; NULL: none was written. */
  const char *report;
  /* Folder to give to --resume; NULL: there is nothing left to do. */
  const char *resume;
} atvi_app_fit_result;

/* atvi fit. A fit that was interrupted in the folder goes on. EEXIST: the folder exists and force is not set.
 * ESTOP: stopped before there was anything to keep. */
ATVI_CHECKED atvi_status atvi_app_fit(atvi_ctx *ctx, atvi_pool *pool, const atvi_app_fit_opts *opts,
                                      atvi_app_fit_result *result);

/* A finished fit, and where the files of its model are now, for those who run it again. */
typedef struct {
  /* Folder of the fit, or a model file, whose newest fit here is used. */
  const char *where;
  atvi_idx n_data;
  /* --data: where the data are now, if they were moved. */
  const atvi_data_file *data;
  /* --folder, --runs: likewise for the other files and the runs of the simulator; NULL: as in the fit. */
  const char *folder, *runs;
  bool interpret;
} atvi_app_finished;

/* atvi report: writes DIR/report.html and DIR/figures again from the contents of the folder; the model is run
 * only for one without groups. *path: of the page. EINVAL: no finished fit. EDATA: a file of the folder is
 * damaged. */
ATVI_CHECKED atvi_status atvi_app_report(atvi_ctx *ctx, atvi_pool *pool, const atvi_app_finished *opts,
                                         const char **path);

typedef struct {
  /* Folder of a fit, finished or not, or a model file, whose newest fit here is used. */
  const char *where;
  /* 0: any free one. */
  int port;
} atvi_app_watch_opts;

/* atvi watch: serves the page of a fit on 127.0.0.1 until asked to stop. `listen` receives the address.
 * EINVAL: no such fit. */
ATVI_CHECKED atvi_status atvi_app_watch(atvi_ctx *ctx, atvi_pool *pool, const atvi_app_watch_opts *opts,
                                        void (*listen)(const char *url));

/* atvi summary: `where` is folder of a fit, or a model file, whose newest fit here is used. json: the text of
 * summary.json instead of the table, without the place of the verdict. */
ATVI_CHECKED atvi_status atvi_app_summary(atvi_ctx *ctx, atvi_pool *pool, const char *where, bool json,
                                          const char **text, atvi_app_mark *judged);

typedef struct {
  atvi_app_finished fit;
  /* --times: further times, as in simulate; NULL: none. */
  const char *times;
  /* --draws: how many to use; 0: all, up to 20000, fewer for a large model. */
  atvi_idx draws;
  /* --out: a file for the draws of the series; NULL: none. */
  const char *out;
  /* --apart: rows to predict from the others, a rule as for --holdout; NULL: none. */
  const char *apart;
} atvi_app_predict_opts;

typedef struct {
  /* Folder of predict.csv and scores.json, and of forecast.csv if times were given. */
  const char *dir;
  /* Which of them were written: "predict.csv and scores.json". */
  const char *files;
  /* page of the fit, redrawn with the forecast; NULL: it was not redrawn */
  const char *page;
  /* Table for the terminal. */
  const char *text;
  /* The text of scores.json. */
  const char *json;
  atvi_idx n_note;
  /* [n_note] what the user should know; part of text and json. */
  const char *const *note;
} atvi_app_predict_result;

/* atvi predict. EDATA: the data are gone, or the model or the data are not those of the fit. */
ATVI_CHECKED atvi_status atvi_app_predict(atvi_ctx *ctx, atvi_pool *pool, const atvi_app_predict_opts *opts,
                                          atvi_app_predict_result *result);

/* ---- work that several processes share: atvi run, study, sbc and compare ---- */

typedef struct {
  /* Be one of them; report on them. */
  bool worker, status;
  /* When a worker must end, in seconds since 1970; 0: not known. */
  double until_s;
  /* Workers to submit. */
  atvi_idx workers;
  /* Options of sbatch; or a command with {n} and {script}. NULL: not given. */
  const char *slurm, *submit;
  /* Wait until those that were submitted have ended. */
  bool wait;
  /* [n_argv] the command line of such a worker, without the name of the program. */
  atvi_idx n_argv;
  const char *const *argv;
} atvi_app_share;

/* Asks Slurm to start this job again, if it is one; it is ended at once then. False: it is not, or cannot be. */
bool atvi_app_share_requeue(atvi_ctx *ctx);
/* Seconds since 1970 of "17:30", "2030-01-31T17:30", "@1893456000" or, from now, "50m". False: not
 * understood. */
bool atvi_app_share_until(const char *text, double *out);
/* Cores that Slurm has given to this task; 0: it is none. */
int atvi_app_share_cores(void);

typedef struct {
  const char *dir;
  /* Table for the terminal; NULL if stopped before the first result. */
  const char *text;
  /* The text of study_summary.json or sbc_summary.json. */
  const char *json;
  bool stopped;
  /* Fits. */
  atvi_idx done, failed;
  /* For sbc: the overall verdict; also false if there are too few replicates to decide. */
  bool passed;
  /* The text is about workers, and there are no results yet. */
  bool shared;
  /* As in atvi_app_run_result. */
  bool unfinished, late;
} atvi_app_repeat_result;

typedef struct {
  /* As for each fit, except method and out; exact, ess: passed to the methods that take them. */
  atvi_app_fit_opts fit;
  /* "atvi,ram,..."; NULL: all of them. */
  const char *methods;
  /* Method from which distances are measured; NULL: the best available. */
  const char *reference;
  /* Side by side, each on its share of the threads. */
  bool parallel;
  atvi_app_share share;
} atvi_app_compare_opts;

typedef struct {
  /* Folder of compare.csv, compare.json and of a folder for each method. */
  const char *dir;
  /* Table for the terminal. */
  const char *text;
  /* The text of compare.json. */
  const char *json;
  /* Methods that gave draws. */
  atvi_idx n_fitted;
  /* Every method gave draws, with verdict ok. */
  bool all_ok;
  /* Ended by the stop callback. */
  bool stopped;
  /* If its `shared` is set: about workers, and there is nothing else. */
  atvi_app_repeat_result workers;
} atvi_app_compare_result;

/* atvi compare. A method that fails is reported in the result; statuses are about what all have in common:
 * the options, the model, the folder. A comparison that was begun in the folder is continued. EINVAL: its
 * settings differ; EEXIST: another process is using it, or there is something else in it. */
ATVI_CHECKED atvi_status atvi_app_compare(atvi_ctx *ctx, atvi_pool *pool, const atvi_app_compare_opts *opts,
                                          atvi_app_compare_result *result);

typedef struct {
  atvi_idx n;
  /* [n] folders of finished fits */
  const char *const *where;
  /* as in atvi fit; the default folder is compare-NNN here */
  const char *out;
  bool force, no_report;
  /* for folders of older versions, whose models are run again; `where` is not used */
  atvi_app_finished older;
} atvi_app_models_opts;

/* atvi compare of n >= 2 finished fits. Errors: EINVAL (fewer than two, one given twice, or not a finished
 * fit), EDATA (a file is damaged), EEXIST (the folder), EIO, ENOMEM. */
ATVI_CHECKED atvi_status atvi_app_compare_models(atvi_ctx *ctx, atvi_pool *pool,
                                                 const atvi_app_models_opts *opts,
                                                 atvi_app_compare_result *result);

/* What study and sbc have in common. */
typedef struct {
  atvi_app_model model;
  atvi_idx replicates;
  uint64_t seed;
  /* --out; NULL: <model>-study or <model>-sbc here. */
  const char *out;
  /* --checkpoint, as in atvi fit. */
  double checkpoint_s;
  atvi_app_share share;
} atvi_app_repeat_opts;

typedef struct {
  atvi_app_repeat_opts all;
  atvi_idx n_truth;
  /* --truth: name=value,... or a JSON file. */
  const char *const *truth;
  /* --methods: comma list; "exact" is atvi with chains that end exact. */
  const char *methods;
  /* --data-dir: existing data sets; NULL: simulate. */
  const char *data_dir;
  /* --pattern: their names, with %d for the number; NULL: set_%d.csv. */
  const char *pattern;
} atvi_app_study_opts;

/* atvi study. A folder with records is continued. EINVAL: its settings differ; EEXIST: another process is
 * using it. */
ATVI_CHECKED atvi_status atvi_app_study(atvi_ctx *ctx, atvi_pool *pool, const atvi_app_study_opts *opts,
                                        atvi_app_repeat_result *result);

typedef struct {
  atvi_app_repeat_opts all;
  const char *method;
  /* --scale-sd: factor that shrinks posterior draws about their mean, to test that it is noticed; 1: none. */
  double scale_sd;
} atvi_app_sbc_opts;

/* atvi sbc. Likewise. */
ATVI_CHECKED atvi_status atvi_app_sbc(atvi_ctx *ctx, atvi_pool *pool, const atvi_app_sbc_opts *opts,
                                      atvi_app_repeat_result *result);

typedef struct {
  atvi_app_finished fit;
  /* "nc", "csv", "stan", "json". */
  const char *format;
  /* --out: the file; NULL: in the run folder, named after the format. */
  const char *out;
  /* --force: overwrite the file `out`, and a more complete fit.nc. */
  bool force;
  /* Csv, json: the draws as they came, with their weights. */
  bool weighted;
} atvi_app_export_opts;

/* atvi export. *text: the names of the files written, one per line. EEXIST: out exists and force is not set.
 * EIO: also if there is no netCDF library. */
ATVI_CHECKED atvi_status atvi_app_export(atvi_ctx *ctx, atvi_pool *pool, const atvi_app_export_opts *opts,
                                         const char **text);

/* ---- models whose simulator is an outside program ---- */

typedef struct {
  /* The model, and --folder; NULL: as the model says. */
  const char *path, *folder;
  /* Points in all. */
  atvi_idx n;
  /* "lhs", "sobol"; NULL: lhs. */
  const char *kind;
  uint64_t seed;
  /* --out; NULL: <model>-runs here. */
  const char *out;
} atvi_app_design_opts;

typedef struct {
  /* Path of the design. */
  const char *path;
  /* Table for the terminal. */
  const char *text;
  /* Points before, points now. */
  atvi_idx n_old, n;
} atvi_app_design_result;

/* atvi design. An existing design is extended; its points are kept. Errors: EINVAL (fewer points than there
 * are, another prior, another sequence), EMODEL (no simulator), EDATA (design.csv cannot be used), EIO,
 * ENOMEM. */
ATVI_CHECKED atvi_status atvi_app_design(atvi_ctx *ctx, atvi_pool *pool, const atvi_app_design_opts *opts,
                                         atvi_app_design_result *result);

typedef struct {
  const char *path, *folder;
  /* --runs; NULL: <model>-runs here. */
  const char *dir;
  /* 0: as the model says. */
  int jobs;
  /* 0: as the model says. */
  double limit_s;
  /* -1: as the model says. */
  int retries;
  bool retry_failed, keep_failed;
  atvi_app_share share;
} atvi_app_run_opts;

typedef struct {
  /* Folder of design and record. */
  const char *dir;
  /* Summary for the terminal. */
  const char *text;
  /* Points of the design with a good, a failed, or no run. */
  atvi_idx good, failed, left;
  bool stopped;
  /* why the first of the failed ones did; NULL: none did */
  const char *reason;
  /* A worker did some runs, and had to end before all were done. */
  bool unfinished;
  /* A worker ended because its time was over. */
  bool late;
} atvi_app_run_result;

/* atvi run. Errors: those of atvi_sim_simulator_run and atvi_sim_record_open; EINVAL (no design), EDATA
 * (design.csv), EMODEL. Finished runs are recorded whatever the status. */
ATVI_CHECKED atvi_status atvi_app_run(atvi_ctx *ctx, atvi_pool *pool, const atvi_app_run_opts *opts,
                                      atvi_app_run_result *result);

/* atvi emulate: fits the emulators of a model, judges them, and saves them for atvi fit. */

typedef struct {
  /* The model, and --folder; NULL: as the model says. */
  const char *path, *folder;
  /* --runs; NULL: <model>-runs here. */
  const char *runs;
  /* Share of the runs to hold out once and predict, below 1; 0: none. */
  double test;
  /* Even if there is a saved emulator of these runs. */
  bool refit;
  uint64_t seed;
  /* --no-report. */
  bool no_report;
} atvi_app_emulate_opts;

typedef struct {
  /* Where it was written. */
  const char *dir;
  /* Table for the terminal. */
  const char *text;
  atvi_idx n_judged;
  /* [n_judged] verdicts on the emulators, and where they are in text. */
  atvi_app_mark *judged;
  /* emulate.json. */
  const char *json;
  /* Path of report.html; NULL: none was written. */
  const char *report;
  /* There was a warning about an emulator. */
  bool doubtful;
} atvi_app_emulate_result;

/* Errors: EINVAL (test), EMODEL (no emulator), EDATA, EIO, ENOMEM, ESTOP. */
ATVI_CHECKED atvi_status atvi_app_emulate(atvi_ctx *ctx, atvi_pool *pool, const atvi_app_emulate_opts *opts,
                                          atvi_app_emulate_result *result);

#endif
