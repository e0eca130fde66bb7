/* SPDX-License-Identifier: MIT */
/* The report of a fit: gathers what is to be told, in a pool of its own, and hands it to src/report. */
#include "app/report.h"
#include "app/emulators.h"
#include <string.h>
#include <unistd.h>

/* A fit that has ended. */
typedef struct {
  const atvi_delivery *y;
  const atvi_summary *s;
  const char *how;
} outcome;

/* With rows held out: the model with all its data, so that they can be shown. */
static atvi_status predict(atvi_pool *pool, const atvi_report_session *w, const outcome *o,
                           atvi_report_fit *r) {
  atvi_report_series *series;
  const atvi_draws *plain = o ? o->y->plain : NULL;
  const char *holdout = w->opts->holdout;
  atvi_loaded all;
  atvi_status status;
  if (holdout && plain) {
    ATVI_TRY(atvi_app_load(w->ctx, &w->opts->model, &(atvi_model_load_opts){.apart = holdout}, &all));
    status =
        atvi_report_series_make(w->ctx, pool, &all, holdout, plain, &r->n_series, &series, &r->n_predict);
    if (status == ATVI_OK)
      status = atvi_report_alone(w->ctx, pool, &all, &w->opts->model, plain, r->n_series, series);
    atvi_app_unload(&all);
  } else {
    status = atvi_report_series_make(w->ctx, pool, w->l, NULL, plain, &r->n_series, &series, &r->n_predict);
    if (status == ATVI_OK && plain)
      status = atvi_report_alone(w->ctx, pool, w->l, &w->opts->model, plain, r->n_series, series);
  }
  r->series = series;
  return status;
}

const char *atvi_report_time_name(const atvi_lang *lang) {
  for (atvi_idx i = 0; i < lang->n_data; i++)
    if (lang->data[i].time_name) return lang->data[i].time_name;
  return NULL;
}

/* o NULL: the fit is running. */
static atvi_status write_report(atvi_pool *pool, const atvi_report_session *w, const outcome *o) {
  const atvi_lang *lang = w->l->model->lang;
  atvi_report_priors priors = {lang, w->l->target};
  atvi_report_fit r = {.title = lang->title && *lang->title ? lang->title : w->l->target->name,
                       .file = w->opts->model.path,
                       .prior = atvi_report_prior_mass,
                       .prior_user = &priors,
                       .holdout = w->opts->holdout,
                       .time_name = atvi_report_time_name(lang),
                       .n_step = w->rec.n,
                       .step = w->rec.step,
                       .watch = "'atvi watch' shows how it is getting on.",
                       .command = atvi_report_command(pool, w->opts),
                       .text = lang->source};
  r.calendar = lang->calendar;
  if (o) {
    r.summary = o->s;
    r.how = o->how;
    r.draws = o->y->draws;
    r.plain = o->y->plain;
    atvi_report_find_failures(pool, w->l->ev, &r);
    r.n_emulator = atvi_emulators_reports(pool, &w->opts->model, w->l, r.draws, &r.emulator);
  }
  if (predict(pool, w, o, &r) != ATVI_OK) {
    r.no_predict = atvi_pool_printf(pool, "%s", atvi_errmsg(w->ctx));
    r.n_series = 0;
  } else if (!o) {
    r.no_predict = "the fit is running";
  }
  return atvi_report_fit_save(pool, &r, w->dir);
}

/* Drawings are large: they have a pool of their own, which goes at once. */
static bool write_apart(const atvi_report_session *w, const outcome *o) {
  atvi_pool *own;
  atvi_status status = atvi_pool_new(w->ctx, &own);
  if (status == ATVI_OK) {
    status = write_report(own, w, o);
    atvi_pool_free(own);
  }
  if (status != ATVI_OK)
    atvi_log(w->ctx, ATVI_LOG_WARN, "the report could not be written: %s", atvi_errmsg(w->ctx));
  return status == ATVI_OK;
}

void atvi_report_begin(atvi_ctx *ctx, atvi_pool *pool, const atvi_app_fit_opts *opts, atvi_loaded *l,
                       const char *dir, atvi_report_session *out) {
  bool record = opts->show && !opts->no_report;
  memset(out, 0, sizeof *out);
  out->ctx = ctx;
  out->pool = pool;
  out->opts = opts;
  out->l = l;
  out->dir = dir;
  atvi_recorder_begin(&out->rec, ctx, record ? opts->show : NULL, dir);
  if (record) (void)write_apart(out, NULL);
  if (record && opts->live) atvi_live_begin(ctx, dir, &out->live);
}

void atvi_report_finish(atvi_report_session *w, const atvi_delivery *y, const atvi_summary *s,
                        const char *how, const char **path) {
  *path = NULL;
  if (w->opts->no_report) return;
  w->written = write_apart(w, &(outcome){y, s, how});
  if (w->written) *path = atvi_pool_printf(w->pool, "%s/report.html", w->dir);
}

static void drop(const atvi_report_session *w, const char *name) {
  const char *path = atvi_pool_printf(w->pool, "%s/%s", w->dir, name);
  if (path) unlink(path);
}

void atvi_report_end(atvi_report_session *w) {
  bool recorded = w->rec.show != NULL;
  atvi_recorder_end(&w->rec, w->written ? "done" : "ended", w->written ? "" : "The fit failed.");
  atvi_live_end(w->ctx, &w->live);
  if (!recorded || w->written) return;
  drop(w, "progress.json");
  drop(w, "report.html");
}
