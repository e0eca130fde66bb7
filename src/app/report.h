/* SPDX-License-Identifier: MIT */
/* Reports of the commands, and how a fit is getting on, for those who watch it; for src/app alone.
 *
 * A report never fails what it reports on: what goes wrong with it is logged, as ATVI_LOG_LOST. */
#ifndef ATVI_APP_REPORT_H
#define ATVI_APP_REPORT_H

#include "app/common.h"
#include "app/compare.h"
#include "app/study.h"
#include "core/core.h"
#include "diag/summary.h"
#include "report/report.h"
#include <pthread.h>
#include <stdatomic.h>

/* A server for one page: GET / is DIR/report.html, GET /state is DIR/progress.json, anything else is not found.
 *
 * It listens on 127.0.0.1 alone and takes no commands. A request must name this server as its host, so that a page from elsewhere cannot make a
 * browser read it under another name (DNS rebinding). Requests have at most a few kilobytes and seconds, and no client has
 * to wait for another. */

typedef struct {
  int fd; /* -1: closed */
  int port;
  char dir[4096];
  atomic_bool stop;      /* ends atvi_app_serve_run */
  atomic_llong asked_ms; /* when the last request came, on the clock of atvi_clock_s; 0: never */
  atomic_bool told;      /* the whole report was sent */
} atvi_server;

/* port 0: any that is free. Errors: EIO (the port is taken, ...), EINVAL (dir is too long). */
ATVI_CHECKED atvi_status atvi_app_serve_open(atvi_ctx *ctx, const char *dir, int port, atvi_server *out);
/* Answers until stop is set or asked(user) is true (NULL: never). Touches no context: may run on a thread of its own. */
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
  /* one in `every` of those seen is kept, so that they are always few */
  atvi_idx n, seen, every;
  atvi_progress step[ATVI_RECORDED];
  int n_phase;
  char phase_word[ATVI_PHASES][48];
  char phase[64], detail[256];
  double done, seconds;
} atvi_recorder;

/* From now on ctx tells r too. dir NULL: without progress.json. */
void atvi_app_recorder_begin(atvi_recorder *r, atvi_ctx *ctx, const char *dir);
/* The last word: "done" (report.html is complete), "ended". */
void atvi_app_recorder_end(atvi_recorder *r, const char *state, const char *detail);
/* What progress.json says; false: there is none. */
bool atvi_app_report_state(const char *dir, char state[ATVI_STATE_BYTES], long *pid);
/* A folder that a killed fit left behind, with nothing but its progress and its page, is emptied. */
void atvi_app_report_sweep(atvi_pool *pool, const char *dir);

/* ---- watching ---- */

/* The page of a fit that this process runs, served on a thread of its own. */
typedef struct {
  atvi_server server;
  bool running;
  pthread_t thread;
} atvi_live;

/* Serves dir and logs where. What goes wrong is a warning. */
void atvi_app_live_begin(atvi_ctx *ctx, const char *dir, atvi_live *live);
/* Ends it, once whoever watches has the whole report, or soon. */
void atvi_app_live_end(atvi_ctx *ctx, atvi_live *live);

/* ---- fits ---- */

/* The report of one fit, from before it begins to its end; all is borrowed. */
typedef struct {
  atvi_ctx *ctx;
  atvi_pool *pool;
  const atvi_app_fit_opts *opts;
  atvi_loaded *l;
  const char *dir;
  atvi_recorder rec;
  atvi_live live;
  bool written; /* report.html is the whole report */
} atvi_report_session;

/* Before the fit: begins to record, writes the page of a fit that is running, serves it, as the options say. */
void atvi_app_report_begin(atvi_ctx *ctx, atvi_pool *pool, const atvi_app_fit_opts *opts, atvi_loaded *l,
                           const char *dir, atvi_report_session *out);
/* After it: DIR/report.html and DIR/figures. how: the text of fit.json. *path: of the report; NULL if none is written. */
void atvi_app_report_finish(atvi_report_session *w, const atvi_delivery *y, const atvi_summary *s,
                            const char *how, const char **path);
/* In any case: stops recording and serving. Of a fit that failed nothing is left. */
void atvi_app_report_end(atvi_report_session *w);

/* Probability that the prior of column col of `user`, a const atvi_draws, gives to (a, b); NaN: not known. */
double atvi_app_report_prior_mass(void *user, atvi_idx col, double a, double b);

/* What the model calls time; NULL: nothing. */
const char *atvi_app_report_time_name(const atvi_lang *lang);
/* A word of the shell, after a blank. */
void atvi_app_report_word(atvi_text *out, const char *s);
/* The command line that runs a fit again; NULL: out of memory. */
const char *atvi_app_report_command(atvi_pool *pool, const atvi_app_fit_opts *o);

/* ---- others ---- */

void atvi_app_report_compare(atvi_ctx *ctx, atvi_pool *pool, const atvi_comparison *c, const char *dir);
void atvi_app_report_models(atvi_ctx *ctx, atvi_pool *pool, const atvi_candidates *c, const char *dir);
void atvi_app_report_study(atvi_ctx *ctx, atvi_pool *pool, const atvi_study *s, const char *dir);

#endif
