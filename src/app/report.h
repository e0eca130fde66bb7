/* SPDX-License-Identifier: MIT */
/* Reports of the commands, and the progress of a fit for those who watch it; only for src/app.
 *
 * A report never fails a command: its failures are logged, as ATVI_LOG_LOST. */
#ifndef ATVI_APP_REPORT_H
#define ATVI_APP_REPORT_H

#include "app/common.h"
#include "io/memo.h"
#include "app/compare.h"
#include "app/study.h"
#include "core/core.h"
#include "diag/summary.h"
#include "report/report.h"
#include <pthread.h>
#include <stdatomic.h>

/* A server for one page: GET / is DIR/report.html, GET /state is DIR/progress.json, anything else is not
 * found.
 *
 * It listens only on 127.0.0.1 and accepts no commands. A request must name this server as its host, so that
 * a page from elsewhere cannot make a browser read it under another name (DNS rebinding). Requests have
 * at most a few kilobytes and seconds, and no client has to wait for another. */

typedef struct {
  /* -1: closed. */
  int fd;
  int port;
  char dir[4096];
  /* Set to end atvi_app_serve_run. */
  atomic_bool stop;
  /* When the last request came, on the clock of atvi_clock_s; 0: never. */
  atomic_llong asked_ms;
  /* The whole report was sent. */
  atomic_bool delivered;
} atvi_server;

/* port 0: any free one. Errors: EIO (the port is taken, ...), EINVAL (dir is too long). */
ATVI_CHECKED atvi_status atvi_app_serve_open(atvi_ctx *ctx, const char *dir, int port, atvi_server *out);
/* Answers until stop is set or asked(user) is true (NULL: never). Uses no context, so it may run on its own
 * thread. */
void atvi_app_serve_run(atvi_server *s, bool (*asked)(void *user), void *user);
void atvi_app_serve_close(atvi_server *s);

/* ---- progress ---- */

enum { ATVI_RECORDED = 512, ATVI_PHASES = 16, ATVI_STATE_BYTES = 32 };

/* Keeps the progress of a fit, and writes DIR/progress.json at most twice a second. */
typedef struct {
  atvi_ctx *ctx;
  /* of progress.json; "": it is not written */
  char path[4096];
  double wrote_s;
  /* one in `every` steps is kept, so that there are always few */
  atvi_idx n, seen, every;
  atvi_progress step[ATVI_RECORDED];
  int n_phase;
  char phase_word[ATVI_PHASES][48];
  char phase[64], detail[256];
  double done, seconds;
  /* of a fit that goes on: seconds before, and steps from then, which may come again */
  double before_s;
  atvi_idx n_before;
} atvi_recorder;

/* From now on r receives the progress of ctx too. dir NULL: without progress.json. */
void atvi_app_recorder_begin(atvi_recorder *r, atvi_ctx *ctx, const char *dir);
/* The history is part of the checkpoint, and that of the runs before is taken from it. memo NULL: there is
 * none. */
void atvi_app_recorder_resume(atvi_recorder *r, atvi_memo *memo);
/* The final state: "done" (report.html is complete) or "ended". */
void atvi_app_recorder_end(atvi_recorder *r, const char *state, const char *detail);
/* Reads progress.json; false: there is none. */
bool atvi_app_report_state(const char *dir, char state[ATVI_STATE_BYTES], long *pid);
/* Empties a folder that a killed fit left behind with nothing but its progress, its page and half-written
 * files. */
void atvi_app_report_sweep(atvi_pool *pool, const char *dir);

/* ---- watching ---- */

/* The page of a fit that this process runs, served on its own thread. */
typedef struct {
  atvi_server server;
  bool running;
  pthread_t thread;
} atvi_live;

/* Serves dir and logs the address. Failures are warnings. */
void atvi_app_live_begin(atvi_ctx *ctx, const char *dir, atvi_live *live);
/* Ends it once the watching browser has the whole report, or after a short wait. */
void atvi_app_live_end(atvi_live *live);

/* ---- fits ---- */

/* The report of one fit, from before it starts to its end; everything is borrowed. */
typedef struct {
  atvi_ctx *ctx;
  atvi_pool *pool;
  const atvi_app_fit_opts *opts;
  atvi_loaded *l;
  const char *dir;
  atvi_recorder rec;
  atvi_live live;
  /* report.html is the whole report. */
  bool written;
} atvi_report_session;

/* Before the fit: starts recording, writes the page of a running fit and serves it, as the options say. */
void atvi_app_report_begin(atvi_ctx *ctx, atvi_pool *pool, const atvi_app_fit_opts *opts, atvi_loaded *l,
                           const char *dir, atvi_report_session *out);
/* After it: DIR/report.html and DIR/figures. how: the text of fit.json. *path: of the report; NULL if none is
 * written. */
void atvi_app_report_finish(atvi_report_session *w, const atvi_delivery *y, const atvi_summary *s,
                            const char *how, const char **path);
/* In any case: stops recording and serving. A failed fit leaves nothing behind. */
void atvi_app_report_end(atvi_report_session *w);

/* Probability that the prior of column col of `user`, a const atvi_draws, gives to (a, b); NaN: not known. */
double atvi_app_report_prior_mass(const void *user, atvi_idx col, double a, double b);

/* What the model calls time; NULL: nothing. */
const char *atvi_app_report_time_name(const atvi_lang *lang);
/* Adds a blank and a word quoted for the shell. */
void atvi_app_report_word(atvi_text *out, const char *s);
/* The command line that repeats a fit; NULL: out of memory. */
const char *atvi_app_report_command(atvi_pool *pool, const atvi_app_fit_opts *o);

/* ---- others ---- */

void atvi_app_report_compare(atvi_ctx *ctx, atvi_pool *pool, const atvi_comparison *c, const char *dir);
void atvi_app_report_models(atvi_ctx *ctx, atvi_pool *pool, const atvi_candidates *c, const char *dir);
void atvi_app_report_study(atvi_ctx *ctx, atvi_pool *pool, const atvi_study *s, const char *dir);

#endif
