/* SPDX-License-Identifier: MIT */
/* atvi compare: every method as atvi fit and atvi predict would run it, each into its own folder; then the
 * folders are read and compared. So nothing here knows how a method works, and a method that fails does not
 * affect the others.
 *
 * Side by side, each method has a thread with its own context. Results do not depend on the number of
 * threads, so they are the same as one after another; only times differ. */
#include "app/compare.h"
#include "app/report.h"
#include "infer/fit.h"
#include "io/file.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MESSAGE = 1024 };
static const double LOOK_EVERY_S = 0.1;

/* The work of one method. */
typedef struct {
  const char *method;
  atvi_app_fit_opts fit;
  atvi_ctx *ctx;
  int threads; /* side by side: of this method */
  pthread_t thread;
  atvi_status status, scored;
  bool begun, stopped, started;
  /* side by side: the file that could not be written */
  char lost[MESSAGE];
  char message[MESSAGE]; /* of what failed */
  atomic_bool *stop;     /* side by side: asked to stop */
  atomic_int *n_ended;
} job;

typedef struct {
  atvi_ctx *ctx;
  atvi_pool *pool;
  const atvi_app_compare_opts *opts;
  const char *model, *dir;
  atvi_idx n;
  job *job; /* [n] */
} work;

/* ---- before ---- */

/* The options of a method that are its own. Options it does not use are dropped, not refused: one command
 * line serves all methods. */
static atvi_fit_opts how(const atvi_fit_opts *common, const atvi_method *m) {
  atvi_fit_opts o = *common;
  /* atvi stays the approximation with its weights: if it turned exact by itself, it would be another name for
   * exact. */
  o.exact = "off";
  atvi_infer_fit_options_choose(m, &o);
  return o;
}

static atvi_status read_methods(work *w) {
  const char *list = w->opts->methods, *reference = w->opts->reference;
  const atvi_method **method;
  atvi_fit_plan plan;
  char all[ATVI_METHODS_TEXT];
  if (!list) list = atvi_infer_methods_text(ATVI_METHOD_POSTERIOR, ", ", all);
  ATVI_TRY(atvi_app_methods(w->pool, 0, list, &w->n, &method));
  w->job = atvi_pool_take(w->pool, (size_t)w->n, sizeof *w->job);
  if (!w->job) return ATVI_ENOMEM;
  for (atvi_idx i = 0; i < w->n; i++) {
    w->job[i] = (job){.method = method[i]->name, .fit = w->opts->fit};
    w->job[i].fit.how = how(&w->opts->fit.how, method[i]);
    ATVI_TRY(atvi_infer_fit_check(w->ctx, &w->job[i].fit.how, &plan));
    if (reference && strcmp(method[i]->name, reference) == 0) reference = NULL;
  }
  if (!reference) return ATVI_OK;
  return ATVI_FAIL(w->ctx, ATVI_EINVAL, "--reference %s: not one of the methods compared (%s)", reference,
                   list);
}

/* Faults of the model or its data are reported once, before anything starts. The compiled model is then in
 * the cache for all. */
static atvi_status check_model(work *w) {
  atvi_loaded l;
  ATVI_TRY(atvi_app_load(w->ctx, &w->opts->fit.model,
                         &(atvi_model_load_opts){.holdout = w->opts->fit.holdout}, &l));
  w->model = atvi_pool_printf(w->pool, "%s", l.target->name);
  atvi_app_unload(&l);
  return w->model ? ATVI_OK : ATVI_ENOMEM;
}

/* Folders of methods that were compared earlier in this folder, but not now. */
static void tell_left(const work *w) {
  const atvi_method *m;
  for (int k = 0; (m = atvi_infer_method_at(0, k)); k++) {
    bool now = false;
    for (atvi_idx i = 0; i < w->n; i++) now = now || strcmp(w->job[i].method, m->name) == 0;
    const char *folder = atvi_pool_printf(w->pool, "%s/%s", w->dir, m->name),
               *fit = folder ? atvi_pool_printf(w->pool, "%s/fit.json", folder) : NULL;
    if (!now && fit && access(fit, F_OK) == 0)
      atvi_log(w->ctx, ATVI_LOG_WARN, "%s is from an earlier comparison and not part of this one", folder);
  }
}

static atvi_status make_folders(work *w) {
  const atvi_app_fit_opts *fit = &w->opts->fit;
  const char *base = atvi_pool_printf(w->pool, "%s-compare", w->model);
  if (!base) return ATVI_ENOMEM;
  ATVI_TRY(atvi_app_out_dir(w->ctx, w->pool, fit->out, fit->force, base, &w->dir));
  for (atvi_idx i = 0; i < w->n; i++) {
    w->job[i].fit.out = atvi_pool_printf(w->pool, "%s/%s", w->dir, w->job[i].method);
    if (!w->job[i].fit.out) return ATVI_ENOMEM;
  }
  tell_left(w);
  return ATVI_OK;
}

/* ---- running ---- */

static void fit_and_score(atvi_pool *pool, job *j) {
  atvi_app_fit_result fitted;
  atvi_app_predict_result predicted;
  j->status = atvi_app_fit(j->ctx, pool, &j->fit, &fitted);
  j->stopped = j->status == ATVI_ESTOP || (j->status == ATVI_OK && fitted.stopped);
  if (j->status != ATVI_OK) return;
  j->scored = atvi_app_predict(
      j->ctx, pool, &(atvi_app_predict_opts){.where = fitted.dir, .interpret = j->fit.model.interpret},
      &predicted);
}

static void run_job(job *j) {
  atvi_pool *pool; /* predictions are large: free them before the next method starts */
  j->begun = true;
  j->status = atvi_pool_new(j->ctx, &pool);
  if (j->status == ATVI_OK) {
    fit_and_score(pool, j);
    atvi_pool_free(pool);
  }
  if (j->status != ATVI_OK || j->scored != ATVI_OK)
    snprintf(j->message, sizeof j->message, "%s", atvi_errmsg(j->ctx));
}

static void one_after_another(work *w) {
  for (atvi_idx i = 0; i < w->n && !atvi_stop_asked(w->ctx); i++) {
    job *j = &w->job[i];
    atvi_log(w->ctx, ATVI_LOG_NOTE, "method %td of %td: %s", i + 1, w->n, j->method);
    j->ctx = w->ctx;
    run_job(j);
    if (j->status != ATVI_OK && !j->stopped)
      atvi_log(w->ctx, ATVI_LOG_WARN, "%s failed: %s", j->method, j->message);
  }
}

/* ---- side by side ---- */

static bool asked(void *user) { return atomic_load((atomic_bool *)user); }

static void keep_lost(void *user, atvi_log_level level, const char *line) {
  job *j = user;
  if (level == ATVI_LOG_LOST) snprintf(j->lost, sizeof j->lost, "%s", line);
}

static void *thread_main(void *arg) {
  job *j = arg;
  j->begun = true;
  j->status = atvi_ctx_new(NULL, &j->ctx);
  if (j->status == ATVI_OK) {
    atvi_ctx_set_threads(j->ctx, j->threads);
    atvi_ctx_set_stop(j->ctx, asked, j->stop);
    atvi_ctx_set_log(j->ctx, keep_lost, j);
    run_job(j);
    atvi_ctx_free(j->ctx);
  } else {
    snprintf(j->message, sizeof j->message, "out of memory");
  }
  atomic_fetch_add(j->n_ended, 1);
  return NULL;
}

/* Until all have ended: passes on requests to stop, and reports how many are left. */
static void watch(work *w, int started, atomic_bool *stop, atomic_int *n_ended) {
  const struct timespec pause = {.tv_nsec = (long)(1e9 * LOOK_EVERY_S)};
  double begun = atvi_clock_s();
  for (int ended; (ended = atomic_load(n_ended)) < started;) {
    if (atvi_stop_asked(w->ctx)) atomic_store(stop, true);
    atvi_tell(w->ctx, "side by side", -1, atvi_clock_s() - begun, "%d of %td methods are done", ended, w->n);
    nanosleep(&pause, NULL);
  }
}

static void side_by_side(work *w) {
  atomic_bool stop = false;
  atomic_int n_ended = 0;
  int n = 0, share = atvi_ctx_threads(w->ctx) / (int)w->n;
  for (atvi_idx i = 0; i < w->n; i++) {
    job *j = &w->job[i];
    j->threads = share > 1 ? share : 1;
    j->stop = &stop;
    j->n_ended = &n_ended;
    j->started = pthread_create(&j->thread, NULL, thread_main, j) == 0;
    n += j->started;
  }
  watch(w, n, &stop, &n_ended);
  for (atvi_idx i = 0; i < w->n; i++)
    if (w->job[i].started)
      pthread_join(w->job[i].thread, NULL);
    else if (!atvi_stop_asked(w->ctx)) /* no more threads available */
      thread_main(&w->job[i]);
  for (atvi_idx i = 0; i < w->n; i++)
    if (w->job[i].lost[0]) atvi_log(w->ctx, ATVI_LOG_LOST, "%s: %s", w->job[i].method, w->job[i].lost);
}

/* ---- after ---- */

static atvi_status describe(work *w, const job *j, atvi_compared *out) {
  const char *message = j->message[0] ? atvi_pool_printf(w->pool, "%s", j->message) : NULL;
  *out = (atvi_compared){.method = j->method, .dir = j->fit.out};
  out->state = !j->begun              ? ATVI_COMPARED_NOT_RUN
               : j->stopped           ? ATVI_COMPARED_STOPPED
               : j->status != ATVI_OK ? ATVI_COMPARED_FAILED
                                      : ATVI_COMPARED_DONE;
  out->reason = !j->begun ? "stopped before it began" : j->status != ATVI_OK ? message : NULL;
  out->unscored = j->status == ATVI_OK && j->scored != ATVI_OK ? message : NULL;
  return atvi_pool_status(w->pool);
}

static atvi_status report(work *w, const atvi_comparison *c, atvi_app_compare_result *out) {
  const char *csv;
  out->dir = w->dir;
  out->all_ok = true;
  for (atvi_idx i = 0; i < c->n; i++) {
    const atvi_summary *s = c->of[i].summary;
    out->n_fitted += s != NULL;
    if (!s || s->verdict != ATVI_VERDICT_OK) out->all_ok = false;
  }
  ATVI_TRY(atvi_app_compare_text(w->pool, c, &out->text));
  ATVI_TRY(atvi_app_compare_json(w->pool, c, &out->json));
  ATVI_TRY(atvi_app_compare_csv(w->pool, c, &csv));
  ATVI_TRY(atvi_io_file_save_in(w->pool, w->dir, "compare.csv", csv));
  ATVI_TRY(atvi_io_file_save_in(w->pool, w->dir, "compare.json", out->json));
  if (!w->opts->fit.no_report) atvi_app_report_compare(w->ctx, w->pool, c, w->dir);
  return ATVI_OK;
}

static atvi_status collect(work *w, atvi_app_compare_result *out) {
  atvi_comparison c = {.model = w->model,
                       .holdout = w->opts->fit.holdout,
                       .seed = w->opts->fit.how.seed,
                       .shared = w->opts->parallel && w->n > 1,
                       .n = w->n,
                       .of = atvi_pool_take(w->pool, (size_t)w->n, sizeof *c.of)};
  if (!c.of) return ATVI_ENOMEM;
  for (atvi_idx i = 0; i < w->n; i++) {
    ATVI_TRY(describe(w, &w->job[i], &c.of[i]));
    out->stopped = out->stopped || w->job[i].stopped || !w->job[i].begun;
  }
  atvi_status status = atvi_app_compare_read(w->ctx, w->pool, w->opts->reference, &c);
  if (status == ATVI_OK) status = report(w, &c, out);
  atvi_app_compare_free(&c);
  return status;
}

atvi_status atvi_app_compare(atvi_ctx *ctx, atvi_pool *pool, const atvi_app_compare_opts *opts,
                             atvi_app_compare_result *result) {
  work w = {.ctx = ctx, .pool = pool, .opts = opts};
  *result = (atvi_app_compare_result){0};
  ATVI_TRY(read_methods(&w));
  ATVI_TRY(check_model(&w));
  ATVI_TRY(make_folders(&w));
  if (opts->parallel && w.n > 1)
    side_by_side(&w);
  else
    one_after_another(&w);
  return collect(&w, result);
}
