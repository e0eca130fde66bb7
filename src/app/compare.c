/* SPDX-License-Identifier: MIT */
/* atvi compare: every method as atvi fit and atvi predict would run it, each into its own folder; then the
 * folders are read and compared. So nothing here knows how a method works, and a method that fails does not
 * affect the others.
 *
 * The methods are a repeated run (app/replicate.h) of one replicate: methods.csv says which have ended and
 * how, so that a comparison can be stopped anywhere and continued, or shared by workers.
 *
 * Each method has its own context; side by side, also a thread. Results do not depend on the number of
 * threads, so they are the same as one after another; only times differ. */
#include "app/compare.h"
#include "app/replicate.h"
#include "app/report.h"
#include "app/common.h"
#include "infer/fit.h"
#include "io/file.h"
#include "io/netcdf.h"
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MESSAGE = 1024 };
static const double LOOK_EVERY_S = 0.1;
static const char LINE[] = "seconds"; /* fields of atvi_headline in methods.csv */

typedef struct work work;

/* The work of one method. */
typedef struct {
  const work *w;
  const char *method;
  atvi_app_fit_opts fit;
  int threads;
  pthread_t thread;
  atvi_status status, scored;
  atvi_verdict verdict;
  double seconds;
  bool begun, stopped, started, noted;
  atomic_bool ended;
  /* side by side: the file that could not be written */
  char lost[MESSAGE];
  char message[MESSAGE]; /* of what failed */
} job;

struct work {
  atvi_ctx *ctx;
  atvi_pool *pool;
  const atvi_app_compare_opts *opts;
  atvi_loaded *l;
  const char *model;
  atvi_record rec;
  atvi_app_repeat_opts how;
  atvi_repeat all;
  bool side_by_side;
  atomic_bool stop; /* side by side: asked to stop */
  atvi_idx n;
  job *job; /* [n] */
};

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
    w->job[i].w = w;
    w->job[i].method = method[i]->name;
    w->job[i].fit = w->opts->fit;
    w->job[i].fit.how = how(&w->opts->fit.how, method[i]);
    ATVI_TRY(atvi_infer_fit_check(w->ctx, &w->job[i].fit.how, &plan));
    if (reference && strcmp(method[i]->name, reference) == 0) reference = NULL;
  }
  if (!reference) return ATVI_OK;
  return ATVI_FAIL(w->ctx, ATVI_EINVAL, "--reference %s: not one of the methods compared (%s)", reference,
                   list);
}

/* Folders of methods that were compared earlier in this folder, but not now. */
static void tell_left(const work *w) {
  const atvi_method *m;
  for (int k = 0; (m = atvi_infer_method_at(0, k)); k++) {
    bool now = false;
    for (atvi_idx i = 0; i < w->n; i++) now = now || strcmp(w->job[i].method, m->name) == 0;
    const char *folder = atvi_pool_printf(w->pool, "%s/%s", w->rec.dir, m->name),
               *fit = folder ? atvi_pool_printf(w->pool, "%s/fit.json", folder) : NULL;
    if (!now && fit && access(fit, F_OK) == 0)
      atvi_log(w->ctx, ATVI_LOG_WARN, "%s is from an earlier comparison and not part of this one", folder);
  }
}

static atvi_status open_record(work *w) {
  const atvi_app_fit_opts *fit = &w->opts->fit;
  const char *base = atvi_pool_printf(w->pool, "%s-compare", w->model), *header;
  atvi_text t = {.pool = w->pool};
  atvi_json settings = {.pool = w->pool};
  if (!base) return ATVI_ENOMEM;
  atvi_app_repeat_header(&t, LINE);
  atvi_io_text_add(&t, ",unscored,side_by_side");
  ATVI_TRY(atvi_io_text_get(&t, &header));
  w->rec = (atvi_record){.command = "compare",
                         .header = header,
                         .dir = fit->out,
                         .name = "methods",
                         .settings = "methods",
                         .shared = atvi_app_repeat_is_shared(&w->opts->share),
                         .force = fit->force,
                         .can_force = true};
  if (!fit->out) ATVI_TRY(atvi_app_out_dir(w->ctx, w->pool, NULL, false, base, &w->rec.dir));
  w->how = (atvi_app_repeat_opts){
      .model = fit->model, .replicates = 1, .seed = fit->how.seed, .share = w->opts->share};
  atvi_app_record_settings(&settings, w->l, &w->how);
  atvi_io_json_put(&settings, "holdout", atvi_app_bytes_json(w->pool, fit->holdout));
  atvi_io_json_put(&settings, "ess", json_real(fit->how.ess));
  atvi_io_json_put(&settings, "max-time", json_real(fit->how.max_seconds));
  ATVI_TRY(atvi_app_record_open(w->pool, &fit->model, &settings, &w->rec));
  tell_left(w);
  return ATVI_OK;
}

/* ---- one method ---- */

static void fit_and_score(atvi_ctx *ctx, atvi_pool *pool, job *j) {
  atvi_app_fit_result fitted;
  atvi_app_predict_result predicted;
  j->status = atvi_app_fit(ctx, pool, &j->fit, &fitted);
  j->stopped = j->status == ATVI_ESTOP || (j->status == ATVI_OK && fitted.resume);
  j->verdict = fitted.judged.verdict;
  if (j->status != ATVI_OK || (j->stopped && j->w->opts->share.worker)) return;
  j->scored = atvi_app_predict(
      ctx, pool, &(atvi_app_predict_opts){.fit = {.where = fitted.dir, .interpret = j->fit.model.interpret}},
      &predicted);
}

static void run_job(atvi_ctx *ctx, job *j) {
  atvi_pool *pool; /* predictions are large: free them before the next method starts */
  double begun = atvi_clock_s();
  j->begun = true;
  atvi_ctx_set_threads(ctx, j->threads);
  j->status = atvi_pool_new(ctx, &pool);
  if (j->status == ATVI_OK) {
    fit_and_score(ctx, pool, j);
    atvi_pool_free(pool);
  }
  j->seconds = atvi_clock_s() - begun;
  if (j->status != ATVI_OK || j->scored != ATVI_OK)
    snprintf(j->message, sizeof j->message, "%s", atvi_errmsg(ctx));
}

/* Adds the line of a method that has ended. Failures that another attempt may not meet again have none. */
static atvi_status note(const atvi_repeat *x, job *j) {
  work *w = x->self;
  atvi_text t = {.pool = w->pool};
  const atvi_headline h = {.seconds = j->seconds};
  const char *line, *checkpoint = atvi_pool_printf(w->pool, "%s/" ATVI_APP_CHECKPOINT, j->fit.out);
  j->noted = true;
  if (!checkpoint) return ATVI_ENOMEM;
  if (j->stopped) return ATVI_OK;
  if (atvi_app_repeat_goes_on(j->status)) {
    (void)ATVI_FAIL(w->ctx, j->status, "%s", j->message);
    return atvi_app_repeat_fail(
        x, w->pool, &(atvi_replicate_place){.replicate = 1, .method = j->method, .seed = x->o->seed});
  }
  if (j->status != ATVI_OK && x->o->share.worker)
    return ATVI_FAIL(w->ctx, j->status, "%s: %s", j->method, j->message);
  if (j->status != ATVI_OK) {
    atvi_log(w->ctx, ATVI_LOG_WARN, "%s failed: %s", j->method, j->message);
    return ATVI_OK;
  }
  atvi_io_text_add(&t, "1,%s,ok,,%s,%" PRIu64, j->method, atvi_verdict_name(j->verdict), x->o->seed);
  atvi_io_fields_cells(&t, &atvi_diag_headline_fields, &h, LINE);
  atvi_io_text_add(&t, ",");
  j->message[strcspn(j->message, "\n")] = 0;
  atvi_io_excerpt_clean(j->message);
  atvi_app_field(&t, j->message);
  atvi_io_text_add(&t, ",%d", w->side_by_side);
  ATVI_TRY(atvi_io_text_get(&t, &line));
  ATVI_TRY(atvi_app_record_add(x->rec, line));
  unlink(checkpoint);
  return ATVI_OK;
}

/* The rest of the line of a method that failed. */
static atvi_status no_cells(const atvi_repeat *x, const atvi_replicate_place *at, atvi_replicate *fit,
                            const atvi_summary *s, atvi_text *out) {
  (void)x, (void)at, (void)fit, (void)s;
  atvi_io_text_add(out, ",,0");
  return ATVI_OK;
}

/* ---- one after another ---- */

static bool over(void *user) { return atvi_app_repeat_over(user); }
static void pass_line(void *user, atvi_log_level level, const char *line) {
  atvi_log(user, level, "%s", line);
}
static void pass_progress(void *user, const atvi_progress *p) { atvi_tell_about(user, p); }

static atvi_status fit_one(const atvi_repeat *x, atvi_pool *pool, atvi_replicate_place *at, atvi_idx i,
                           bool *stopped) {
  work *w = x->self;
  job *j = &w->job[i];
  atvi_ctx *ctx;
  (void)pool, (void)at;
  ATVI_TRY(atvi_ctx_new(NULL, &ctx));
  atvi_log(w->ctx, ATVI_LOG_NOTE, "method %td of %td: %s", i + 1, w->n, j->method);
  atvi_ctx_set_stop(ctx, over, (void *)x);
  atvi_ctx_set_log(ctx, pass_line, w->ctx);
  atvi_ctx_set_progress(ctx, pass_progress, w->ctx);
  run_job(ctx, j);
  atvi_ctx_free(ctx);
  *stopped = j->stopped;
  return note(x, j);
}

/* ---- side by side ---- */

static bool asked(void *user) { return atomic_load(&((work *)user)->stop); }

static void keep_lost(void *user, atvi_log_level level, const char *line) {
  job *j = user;
  if (level == ATVI_LOG_LOST) snprintf(j->lost, sizeof j->lost, "%s", line);
}

static void *thread_main(void *arg) {
  job *j = arg;
  atvi_ctx *ctx;
  j->begun = true;
  j->status = atvi_ctx_new(NULL, &ctx);
  if (j->status == ATVI_OK) {
    atvi_ctx_set_stop(ctx, asked, (void *)j->w);
    atvi_ctx_set_log(ctx, keep_lost, j);
    run_job(ctx, j);
    atvi_ctx_free(ctx);
  } else {
    snprintf(j->message, sizeof j->message, "out of memory");
  }
  atomic_store(&j->ended, true);
  return NULL;
}

/* Until all have ended: records each that has, passes on requests to stop, and reports how many are left. */
static atvi_status watch(work *w) {
  const struct timespec pause = {.tv_nsec = (long)(1e9 * LOOK_EVERY_S)};
  double begun = atvi_clock_s();
  atvi_status status = ATVI_OK;
  for (bool left = true; left;) {
    atvi_idx done = 0;
    left = false;
    for (atvi_idx i = 0; i < w->n; i++) {
      job *j = &w->job[i];
      bool ended = !j->started || atomic_load(&j->ended);
      if (j->started && ended && !j->noted && status == ATVI_OK) status = note(&w->all, j);
      left = left || !ended;
      done += ended;
    }
    if (status != ATVI_OK || atvi_stop_asked(w->ctx)) atomic_store(&w->stop, true);
    atvi_tell(w->ctx, "side by side", -1, atvi_clock_s() - begun, "%td of %td methods are done", done, w->n);
    if (left) nanosleep(&pause, NULL);
  }
  return status;
}

/* fit.nc of the methods that have draws and lack it: now that no thread works beside. */
static void export_nc(const work *w) {
  if (atvi_io_netcdf_available(w->ctx) != ATVI_OK) {
    atvi_log(w->ctx, ATVI_LOG_NOTE, "fit.nc was not written: %s", atvi_errmsg(w->ctx));
    return;
  }
  for (atvi_idx i = 0; i < w->n; i++) {
    const char *dir = w->job[i].fit.out, *fit = atvi_pool_printf(w->pool, "%s/fit.json", dir),
               *nc = atvi_pool_printf(w->pool, "%s/fit.nc", dir), *text;
    bool lacks = fit && nc && access(fit, F_OK) == 0 && access(nc, F_OK) != 0;
    atvi_app_export_opts o = {.fit = {.where = dir, .interpret = w->opts->fit.model.interpret},
                              .format = "nc"};
    if (lacks && atvi_app_export(w->ctx, w->pool, &o, &text) != ATVI_OK)
      atvi_log(w->ctx, ATVI_LOG_LOST, "%s was not written: %s", nc, atvi_errmsg(w->ctx));
  }
}

static atvi_status side_by_side(work *w) {
  atvi_idx n = 0;
  for (atvi_idx i = 0; i < w->n; i++) n += !atvi_app_record_has(&w->rec, 1, w->job[i].method);
  int share = n ? atvi_ctx_threads(w->ctx) / (int)n : 1;
  if (w->l->model->emulated) ATVI_TRY(atvi_app_emulators_keep(w->ctx, w->pool, w->l, w->rec.dir));
  for (atvi_idx i = 0; i < w->n; i++) {
    job *j = &w->job[i];
    if (atvi_app_record_has(&w->rec, 1, j->method)) continue;
    j->threads = share > 1 ? share : 1;
    j->fit.leaves_nc = true;
    j->started = pthread_create(&j->thread, NULL, thread_main, j) == 0;
  }
  atvi_status status = watch(w);
  for (atvi_idx i = 0; i < w->n; i++)
    if (w->job[i].started) pthread_join(w->job[i].thread, NULL);
  for (atvi_idx i = 0; i < w->n; i++)
    if (w->job[i].lost[0]) atvi_log(w->ctx, ATVI_LOG_LOST, "%s: %s", w->job[i].method, w->job[i].lost);
  for (atvi_idx i = 0; i < w->n && status == ATVI_OK && !atvi_stop_asked(w->ctx); i++) {
    bool stopped; /* no more threads were available */
    if (!w->job[i].begun && !atvi_app_record_has(&w->rec, 1, w->job[i].method))
      status = fit_one(&w->all, NULL, NULL, i, &stopped);
  }
  export_nc(w);
  return status;
}

/* ---- after ---- */

/* From the record, and of those that have no line from what happened now. */
static atvi_status describe(work *w, const atvi_csv *record, const job *j, atvi_compared *out, bool *shared) {
  *out = (atvi_compared){.method = j->method, .dir = j->fit.out};
  for (atvi_idx r = 0; record && r < record->n_row; r++) {
    if (strcmp(atvi_app_record_text(record, r, "method"), j->method) != 0) continue;
    bool ok = strcmp(atvi_app_record_text(record, r, "status"), "ok") == 0;
    const char *unscored = atvi_app_record_text(record, r, "unscored");
    out->state = ok ? ATVI_COMPARED_DONE : ATVI_COMPARED_FAILED;
    if (!ok) out->reason = atvi_app_record_text(record, r, "reason");
    if (unscored[0]) out->unscored = unscored;
    *shared = *shared || atvi_app_record_number(record, r, "", "side_by_side") == 1;
    return ATVI_OK;
  }
  out->state = !j->begun ? ATVI_COMPARED_NOT_RUN : j->stopped ? ATVI_COMPARED_STOPPED : ATVI_COMPARED_FAILED;
  const char *message = j->message[0] ? atvi_pool_printf(w->pool, "%s", j->message) : NULL;
  out->reason = !j->begun ? "stopped before it began" : j->status != ATVI_OK ? message : NULL;
  out->unscored = j->status == ATVI_OK && j->scored != ATVI_OK ? message : NULL;
  return atvi_pool_status(w->pool);
}

static atvi_status report(work *w, const atvi_comparison *c, atvi_app_compare_result *out) {
  const char *csv;
  out->dir = w->rec.dir;
  out->all_ok = true;
  for (atvi_idx i = 0; i < c->n; i++) {
    const atvi_summary *s = c->of[i].summary;
    out->n_fitted += s != NULL;
    if (!s || s->verdict != ATVI_VERDICT_OK) out->all_ok = false;
  }
  ATVI_TRY(atvi_app_compare_text(w->pool, c, &out->text));
  ATVI_TRY(atvi_app_compare_json(w->pool, c, &out->json));
  ATVI_TRY(atvi_app_compare_csv(w->pool, c, &csv));
  ATVI_TRY(atvi_io_file_save_in(w->pool, w->rec.dir, "compare.csv", csv));
  ATVI_TRY(atvi_io_file_save_in(w->pool, w->rec.dir, "compare.json", out->json));
  if (!w->opts->fit.no_report) atvi_app_report_compare(w->ctx, w->pool, c, w->rec.dir);
  return ATVI_OK;
}

static atvi_status collect(work *w, atvi_app_compare_result *out) {
  atvi_csv *record;
  atvi_comparison c = {.model = w->model,
                       .holdout = w->opts->fit.holdout,
                       .seed = w->opts->fit.how.seed,
                       .shared = w->opts->parallel && w->n > 1,
                       .n = w->n,
                       .of = atvi_pool_take(w->pool, (size_t)w->n, sizeof *c.of)};
  if (!c.of) return ATVI_ENOMEM;
  ATVI_TRY(atvi_app_record_read(&w->rec, &record));
  for (atvi_idx i = 0; i < w->n; i++) {
    ATVI_TRY(describe(w, record, &w->job[i], &c.of[i], &c.shared));
    out->stopped = out->stopped || c.of[i].state < ATVI_COMPARED_FAILED;
  }
  atvi_status status = atvi_app_compare_read(w->ctx, w->pool, w->opts->reference, &c);
  if (status == ATVI_OK) status = report(w, &c, out);
  atvi_app_compare_free(&c);
  return status;
}

/* ---- the whole ---- */

static atvi_status plan(work *w) {
  const char **method = atvi_pool_take(w->pool, (size_t)w->n, sizeof *method);
  if (!method) return ATVI_ENOMEM;
  w->all = (atvi_repeat){.ctx = w->ctx,
                         .command = "compare",
                         .option = "--methods",
                         .o = &w->how,
                         .l = w->l,
                         .rec = &w->rec,
                         .n_method = w->n,
                         .method = method,
                         .keys = LINE,
                         .self = w,
                         .fit = fit_one,
                         .cells = no_cells};
  for (atvi_idx i = 0; i < w->n; i++) {
    job *j = &w->job[i];
    method[i] = j->method;
    atvi_app_repeat_model(&w->all, &j->fit.model);
    j->fit.force = true; /* the folder is ours */
    j->fit.keeps_checkpoint = true;
    j->threads = atvi_ctx_threads(w->ctx);
    if (!(j->fit.out = atvi_pool_printf(w->pool, "%s/%s", w->rec.dir, j->method))) return ATVI_ENOMEM;
  }
  return ATVI_OK;
}

static atvi_status run(work *w, atvi_app_compare_result *out) {
  ATVI_TRY(open_record(w));
  out->workers.dir = w->rec.dir;
  w->side_by_side = w->opts->parallel && w->n > 1 && !w->rec.shared;
  atvi_status status = plan(w);
  if (status == ATVI_OK)
    status = w->side_by_side ? side_by_side(w) : atvi_app_repeat_run(&w->all, &out->workers);
  if (status == ATVI_OK && !w->rec.shared) status = collect(w, out);
  atvi_app_record_close(&w->rec);
  return status;
}

/* Faults of the model or its data are reported once, before anything starts. The compiled model is then in
 * the cache for all. */
atvi_status atvi_app_compare(atvi_ctx *ctx, atvi_pool *pool, const atvi_app_compare_opts *opts,
                             atvi_app_compare_result *result) {
  atvi_loaded l;
  work w = {.ctx = ctx, .pool = pool, .opts = opts, .l = &l};
  *result = (atvi_app_compare_result){0};
  ATVI_TRY(read_methods(&w));
  ATVI_TRY(atvi_app_load(ctx, &opts->fit.model, &(atvi_model_load_opts){.holdout = opts->fit.holdout}, &l));
  w.model = l.target->name;
  atvi_status status = run(&w, result);
  atvi_app_unload(&l);
  return status;
}
