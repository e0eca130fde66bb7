/* SPDX-License-Identifier: MIT */
/* The commands' work. Each function does what one command does and hands back text to print;
 * nothing here prints, parses arguments or exits. Text is owned by the pool given. */
#ifndef ATVI_APP_APP_H
#define ATVI_APP_APP_H

#include "atvi/fit.h"
#include "atvi/verdict.h"
#include "core/core.h"

typedef struct {
  const char *name;  /* a parameter ("beta.1") or a whole array ("beta") */
  const char *value; /* a number; for an array one number for all or a comma list */
} atvi_app_set;

/* What every command that reads a model takes. */
typedef struct {
  const char *path; /* model file */
  atvi_idx n_data;
  const atvi_data_file *data; /* --data */
  atvi_idx n_fix;
  const atvi_app_set *fix; /* --fix: parameters held at a value */
  bool interpret;          /* --no-compile */
  const char *folder;      /* --folder: where files are looked for; NULL: as the model says */
  const char *runs;        /* --runs: folder with the runs of its simulator; NULL: <model>-runs */
  /* Of the model of a finished fit (atvi_fitted): the record as it was, and where its emulators are. */
  atvi_idx runs_lines;
  const char *emulators;
} atvi_app_model;

/* Statuses of all: EMODEL, EDATA, EINVAL (wrong usage: unknown name, bad number) mean exit code 2; others 1. */

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
  bool observe;      /* --observe: synthetic data in the layout of the model's data file */
  atvi_idx prior;    /* --prior N: N prior predictive draws instead of one point; 0: no */
  const char *times; /* --times a:b[:step] or a comma list; NULL: the data's times */
  const char *data;  /* with --observe and several data sets: which one to write; NULL: the only one */
  uint64_t seed;
} atvi_app_simulate_opts;

typedef struct {
  const char *text; /* CSV */
  bool failed;      /* the model can be run at none of the points; it was told */
} atvi_app_simulate_result;

/* atvi simulate. */
ATVI_CHECKED atvi_status atvi_app_simulate(atvi_ctx *ctx, atvi_pool *pool, const atvi_app_simulate_opts *opts,
                                           atvi_app_simulate_result *result);

/* A verdict, and where its word is in a text for the terminal, which may set it off. */
typedef struct {
  atvi_verdict verdict;
  size_t at;
} atvi_app_mark;

typedef struct {
  atvi_app_model model;
  atvi_fit_opts how;   /* method, seed and the rest; from atvi_fit_defaults */
  const char *out;     /* --out; NULL: the next free numbered folder here */
  bool force;          /* write into an existing folder */
  const char *holdout; /* --holdout: rows that are no part of the fit (model/holdout.h); NULL: none */
  bool no_report;      /* --no-report */
  bool live;           /* --live: serve the report while the fit runs */
  bool watched;        /* DIR/progress.json and a page of the running fit are kept up to date */
} atvi_app_fit_opts;

typedef struct {
  const char *dir;      /* where draws.csv, summary.json and, of weighted draws, weighted.csv are */
  const char *text;     /* table and messages for the terminal */
  atvi_app_mark judged; /* the verdict, and where it is in text */
  const char *reason;   /* the first message behind it; NULL if ok */
  bool stopped;         /* by the stop callback */
  const char *report;   /* path of the report; NULL: none was written */
} atvi_app_fit_result;

/* atvi fit. EEXIST: the folder exists and force is not set. ESTOP: stopped before there was anything to keep. */
ATVI_CHECKED atvi_status atvi_app_fit(atvi_ctx *ctx, atvi_pool *pool, const atvi_app_fit_opts *opts,
                                      atvi_app_fit_result *result);

typedef struct {
  const char *where; /* a run folder, or a model file, whose newest run folder here is taken */
  /* For a folder without groups, whose model is run again: as of atvi predict. */
  atvi_idx n_data;
  const atvi_data_file *data;
  const char *folder;
  bool interpret;
  const char *runs;
} atvi_app_report_opts;

/* atvi report: writes DIR/report.html and DIR/figures again from what the folder holds. *path: of the page. EINVAL: no finished fit. EDATA: a
 * file of the folder is damaged. */
ATVI_CHECKED atvi_status atvi_app_report(atvi_ctx *ctx, atvi_pool *pool, const atvi_app_report_opts *opts,
                                         const char **path);

typedef struct {
  const char
      *where; /* folder of a fit, finished or not, or a model file, whose newest run folder here is taken */
  int port;   /* 0: any that is free */
} atvi_app_watch_opts;

/* atvi watch: serves the page of a fit on 127.0.0.1 until it is asked to stop. told gets the address. EINVAL: no such fit. */
ATVI_CHECKED atvi_status atvi_app_watch(atvi_ctx *ctx, atvi_pool *pool, const atvi_app_watch_opts *opts,
                                        void (*told)(const char *url));

/* atvi summary: `where` is a run folder, or a model file, whose newest run folder here is taken. json: the text of
 * summary.json instead of the table, without a place of the verdict. */
ATVI_CHECKED atvi_status atvi_app_summary(atvi_ctx *ctx, atvi_pool *pool, const char *where, bool json,
                                          const char **text, atvi_app_mark *judged);

typedef struct {
  const char *where; /* a run folder, or a model file, whose newest run folder here is taken */
  const char *times; /* --times: further times, as in simulate; NULL: none */
  atvi_idx draws;    /* --draws: how many to use; 0: all, up to 20000, fewer of a large model */
  const char *out;   /* --out: a file for the draws themselves; NULL: none */
  atvi_idx n_data;
  const atvi_data_file *data; /* --data: where the data are now, if they were moved */
  const char *folder;         /* --folder: likewise, of the other files; NULL: as in the fit */
  bool interpret;
  const char *runs;  /* --runs: where the runs of the simulator are now, if they were moved */
  const char *apart; /* --apart: rows to predict from the others, as of a rule of --holdout; NULL: none */
} atvi_app_predict_opts;

typedef struct {
  const char *dir;   /* where predict.csv and scores.json are, and forecast.csv if times were asked for */
  const char *files; /* which of them were written: "predict.csv and scores.json" */
  /* the page of the fit, drawn again with the forecast; NULL: it was not */
  const char *page;
  const char *text; /* table for the terminal */
  const char *json; /* the text of scores.json */
  atvi_idx n_note;
  const char *const *note; /* [n_note] what the user should know; part of text and json */
} atvi_app_predict_result;

/* atvi predict. EDATA: data gone, or model or data are not those of the fit. */
ATVI_CHECKED atvi_status atvi_app_predict(atvi_ctx *ctx, atvi_pool *pool, const atvi_app_predict_opts *opts,
                                          atvi_app_predict_result *result);

typedef struct {
  atvi_app_fit_opts
      fit; /* as for each fit, but for method and out; exact, ess: passed on to the methods that take them */
  const char *methods;   /* "atvi,ram,..."; NULL: all of them */
  const char *reference; /* the one of them to measure distances from; NULL: the best there is */
  bool parallel;         /* side by side, each on its share of the threads */
} atvi_app_compare_opts;

typedef struct {
  const char *dir;   /* where compare.csv, compare.json and a folder for each method are */
  const char *text;  /* table for the terminal */
  const char *json;  /* the text of compare.json */
  atvi_idx n_fitted; /* methods that gave draws */
  bool all_ok;       /* every method did, with verdict ok */
  bool stopped;      /* by the stop callback */
} atvi_app_compare_result;

/* atvi compare. A method that fails is told in the result; statuses are about what all have in common: the options, the model, the
 * folder (EEXIST). */
ATVI_CHECKED atvi_status atvi_app_compare(atvi_ctx *ctx, atvi_pool *pool, const atvi_app_compare_opts *opts,
                                          atvi_app_compare_result *result);

typedef struct {
  atvi_idx n;
  /* [n] folders of finished fits */
  const char *const *where;
  /* as of atvi fit; the default folder is compare-NNN here */
  const char *out;
  bool force, no_report;
  /* for folders of older versions, whose models are run again; `where` is not used */
  atvi_app_report_opts older;
} atvi_app_models_opts;

/* atvi compare of n >= 2 finished fits. Errors: EINVAL (fewer than two, one is given twice, or is not a finished fit), EDATA
 * (a file is damaged), EEXIST (the folder), EIO, ENOMEM. */
ATVI_CHECKED atvi_status atvi_app_compare_models(atvi_ctx *ctx, atvi_pool *pool,
                                                 const atvi_app_models_opts *opts,
                                                 atvi_app_compare_result *result);

typedef struct {
  atvi_app_model model;
  atvi_idx n_truth;
  const char *const *truth; /* --truth: name=value,... or a JSON file */
  atvi_idx replicates;
  const char *methods; /* --methods: comma list; "exact" is atvi with chains that end exact */
  uint64_t seed;
  const char *out;      /* --out; NULL: <model>-study here */
  const char *data_dir; /* --data-dir: data sets that are there already; NULL: simulate */
  const char *pattern;  /* --pattern: their names, with %d for the number; NULL: set_%d.csv */
} atvi_app_study_opts;

typedef struct {
  const char *dir;
  const char *text; /* table for the terminal; NULL if stopped before there was anything */
  const char *json; /* the text of study_summary.json or sbc_summary.json */
  bool stopped;
  atvi_idx done, failed; /* fits */
  bool passed;           /* sbc: the overall verdict; false too where there are too few replicates to tell */
} atvi_app_repeat_result;

/* atvi study. A folder with records is continued. EINVAL: its settings are others; EEXIST: another process is at work there. */
ATVI_CHECKED atvi_status atvi_app_study(atvi_ctx *ctx, atvi_pool *pool, const atvi_app_study_opts *opts,
                                        atvi_app_repeat_result *result);

typedef struct {
  atvi_app_model model;
  atvi_idx replicates;
  const char *method;
  uint64_t seed;
  const char *out; /* --out; NULL: <model>-sbc here */
  double
      scale_sd; /* --scale-sd: posterior draws are shrunk about their mean by this, to see that it is noticed; 1: not */
} atvi_app_sbc_opts;

/* atvi sbc. Likewise. */
ATVI_CHECKED atvi_status atvi_app_sbc(atvi_ctx *ctx, atvi_pool *pool, const atvi_app_sbc_opts *opts,
                                      atvi_app_repeat_result *result);

typedef struct {
  const char *where;  /* a run folder, or a model file, whose newest run folder here is taken */
  const char *format; /* "nc", "csv", "stan", "json" */
  const char *out;    /* --out: the file; NULL: in the run folder, named after the format */
  bool force;         /* --force: write over a file that out names, and over a fuller fit.nc */
  bool weighted;      /* csv, json: the draws as they came, with their weights */
  atvi_idx n_data;
  const atvi_data_file *data; /* --data: where the data are now, if they were moved */
  const char *folder;         /* --folder: likewise, of the other files; NULL: as in the fit */
  bool interpret;
} atvi_app_export_opts;

/* atvi export. *text: the names of the files written, one per line. EEXIST: out is there already and force is not set. EIO: also where there is no
 * netCDF library. */
ATVI_CHECKED atvi_status atvi_app_export(atvi_ctx *ctx, atvi_pool *pool, const atvi_app_export_opts *opts,
                                         const char **text);

/* ---- models whose simulator is an outside program ---- */

typedef struct {
  const char *path, *folder; /* the model, and --folder; NULL: as the model says */
  atvi_idx n;                /* points in all */
  const char *kind;          /* "lhs", "sobol"; NULL: lhs */
  uint64_t seed;
  const char *out; /* --out; NULL: <model>-runs here */
} atvi_app_design_opts;

typedef struct {
  const char *path;  /* of the design */
  const char *text;  /* table for the terminal */
  atvi_idx n_old, n; /* points that were there, points now */
} atvi_app_design_result;

/* atvi design. A design that is there is extended; its points stay. Errors: EINVAL (fewer points than there are, another prior, another sequence), EMODEL
 * (no simulator), EDATA (design.csv cannot be used), EIO, ENOMEM. */
ATVI_CHECKED atvi_status atvi_app_design(atvi_ctx *ctx, atvi_pool *pool, const atvi_app_design_opts *opts,
                                         atvi_app_design_result *result);

typedef struct {
  const char *path, *folder;
  const char *dir; /* --runs; NULL: <model>-runs here */
  int jobs;        /* 0: as the model says */
  double limit_s;  /* 0: as the model says */
  int retries;     /* -1: as the model says */
  bool retry_failed, keep_failed;
} atvi_app_run_opts;

typedef struct {
  const char *dir;             /* of design and record */
  const char *text;            /* summary for the terminal */
  atvi_idx good, failed, left; /* of the design's points, now */
  bool stopped;
  /* why the first of the failed ones did; NULL: none did */
  const char *reason;
} atvi_app_run_result;

/* atvi run. Errors: as of atvi_sim_simulator_run and atvi_sim_record_open; EINVAL (no design), EDATA (design.csv), EMODEL. What was done is recorded
 * whatever the status. */
ATVI_CHECKED atvi_status atvi_app_run(atvi_ctx *ctx, atvi_pool *pool, const atvi_app_run_opts *opts,
                                      atvi_app_run_result *result);

/* atvi emulate: fits the emulators of a model, judges them, and keeps them for atvi fit. */

typedef struct {
  const char *path, *folder; /* the model, and --folder; NULL: as the model says */
  const char *runs;          /* --runs; NULL: <model>-runs here */
  double test;               /* share of the runs that is held out once, to be predicted; 0: none; below 1 */
  bool refit;                /* also where there is a saved emulator of these runs */
  uint64_t seed;
  bool no_report; /* --no-report */
} atvi_app_emulate_opts;

typedef struct {
  const char *dir;  /* where it was written */
  const char *text; /* for the terminal */
  atvi_idx n_judged;
  atvi_app_mark *judged; /* [n_judged] verdicts on the emulators, and where they are in text */
  const char *json;      /* emulate.json */
  const char *report;    /* path of report.html; NULL: none was written */
  bool doubtful;         /* something about an emulator was warned of */
} atvi_app_emulate_result;

/* Errors: EINVAL (test), EMODEL (no emulator), EDATA, EIO, ENOMEM, ESTOP. */
ATVI_CHECKED atvi_status atvi_app_emulate(atvi_ctx *ctx, atvi_pool *pool, const atvi_app_emulate_opts *opts,
                                          atvi_app_emulate_result *result);

#endif
