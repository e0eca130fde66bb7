/* SPDX-License-Identifier: MIT */
/* The page of a fit, made of DRAWS: by the fit itself, and again by atvi report from the folder. */
#include "app/report.h"
#include "app/advice.h"
#include "app/bytes.h"
#include "app/emulators.h"
#include "app/predict.h"
#include "diag/score.h"
#include "io/draws_file.h"
#include "io/file.h"
#include "io/groups.h"
#include <math.h>
#include <string.h>
#include <unistd.h>

/* ---- what is on the page ---- */

double atvi_report_prior_mass(void *user, atvi_idx col, double a, double b) {
  const atvi_draws *d = user;
  if (col >= d->n_param || !d->prior || !d->prior[col].dist) return NAN;
  const atvi_prior *p = &d->prior[col];
  int dist = atvi_dist_find(p->dist, strlen(p->dist));
  if (dist < 0) return NAN;
  a = fmax(a, p->lower);
  b = fmin(b, p->upper);
  if (!(a < b)) return 0;
  double all = p->truncated ? atvi_dist_log_mass((atvi_dist)dist, p->lower, p->upper, p->arg) : 0;
  return exp(atvi_dist_log_mass((atvi_dist)dist, a, b, p->arg) - all);
}

const char *atvi_report_time_name(const atvi_lang *lang) {
  for (atvi_idx i = 0; i < lang->n_data; i++)
    if (lang->data[i].time_name) return lang->data[i].time_name;
  return NULL;
}

/* States are not shown: there may be many, and what matters of them can be tracked. */
static atvi_status find_series(atvi_pool *pool, atvi_report_fit *r) {
  const atvi_draws *d = r->plain;
  atvi_idx n_draw = atvi_predicted_draws(d);
  atvi_predicted *series;
  ATVI_TRY(atvi_predicted_read(pool, d, ATVI_PREDICTED_GRID, &r->n_series, &series));
  while (r->n_series > 0 &&
         series[r->n_series - 1].kind > (n_draw ? ATVI_SERIES_TRACKED : ATVI_SERIES_OBSERVED))
    r->n_series--;
  ATVI_TRY(atvi_predicted_judge(d->ctx, n_draw, r->n_series, series));
  if (n_draw) atvi_predicted_residuals(d->made.seed, n_draw, r->n_series, series);
  r->series = series;
  return ATVI_OK;
}

/* A forecast that cannot be read is left out. */
static atvi_status find_forecast(atvi_pool *pool, const char *dir, atvi_report_fit *r) {
  atvi_status status = atvi_predict_read_forecast(pool, dir, r->n_series, r->series, &r->forecast);
  if (status == ATVI_OK || status == ATVI_ENOMEM) return status;
  atvi_log(r->plain->ctx, ATVI_LOG_WARN, "the page has no forecast: %s", atvi_errmsg(r->plain->ctx));
  return ATVI_OK;
}

/* Drawings are large: they have a pool of their own, which goes at once. l NULL: without emulators. forecast: with what
 * the folder has of one. */
static atvi_status write_page(atvi_ctx *ctx, atvi_report_fit r, const atvi_loaded *l,
                              const atvi_app_model *opts, const char *dir, bool forecast) {
  atvi_pool *own;
  ATVI_TRY(atvi_pool_new(ctx, &own));
  r.prior = atvi_report_prior_mass;
  r.prior_user = (void *)(uintptr_t)r.plain;
  if (r.summary && l) r.n_emulator = atvi_emulators_reports(own, opts, l, r.draws, &r.emulator);
  atvi_status status = find_series(own, &r);
  if (status == ATVI_OK && forecast) status = find_forecast(own, dir, &r);
  if (status == ATVI_OK) status = atvi_report_fit_save(own, &r, dir);
  atvi_pool_free(own);
  return status;
}

/* ---- with a fit ---- */

/* The page of a fit that has no draws yet. */
static atvi_status write_running(const atvi_report_session *w) {
  const atvi_target *t = w->l->target;
  atvi_draws *none;
  atvi_column *col = atvi_pool_take(w->pool, (size_t)t->d + 1, sizeof *col);
  if (!col) return ATVI_FAIL(w->ctx, ATVI_ENOMEM, "report: out of memory");
  for (atvi_idx i = 0; i < t->d; i++) col[i].name = t->param[i].name;
  ATVI_TRY(atvi_draws_new(w->ctx, 1, 1, t->d, t->d, col, false, &none));
  atvi_status status = atvi_predictions_describe(w->l, atvi_report_command(w->pool, w->opts), none);
  const atvi_report_fit r = {.file = w->opts->model.path,
                             .plain = none,
                             .watch = "'atvi watch' shows how it is getting on.",
                             .holdout = w->opts->holdout,
                             .text = w->l->model->lang->source};
  if (status == ATVI_OK) status = write_page(w->ctx, r, NULL, NULL, w->dir, false);
  atvi_draws_free(none);
  return status;
}

static bool logged(atvi_ctx *ctx, atvi_status status) {
  if (status != ATVI_OK)
    atvi_log(ctx, ATVI_LOG_WARN, "the report could not be written: %s", atvi_errmsg(ctx));
  return status == ATVI_OK;
}

void atvi_report_begin(atvi_ctx *ctx, atvi_pool *pool, const atvi_app_fit_opts *opts, atvi_loaded *l,
                       const char *dir, atvi_report_session *out) {
  bool watched = opts->watched && !opts->no_report;
  memset(out, 0, sizeof *out);
  out->ctx = ctx;
  out->pool = pool;
  out->opts = opts;
  out->l = l;
  out->dir = dir;
  atvi_recorder_begin(&out->rec, ctx, watched ? dir : NULL);
  if (watched) (void)logged(ctx, write_running(out));
  if (watched && opts->live) atvi_live_begin(ctx, dir, &out->live);
}

void atvi_report_finish(atvi_report_session *w, const atvi_delivery *y, const atvi_summary *s,
                        const char *how, const char **path) {
  *path = NULL;
  if (w->opts->no_report) return;
  const atvi_report_fit r = {.file = w->opts->model.path,
                             .summary = s,
                             .draws = y->draws,
                             .plain = y->plain,
                             .holdout = w->opts->holdout,
                             .how = how,
                             .text = w->l->model->lang->source};
  w->written = logged(w->ctx, write_page(w->ctx, r, w->l, &w->opts->model, w->dir, false));
  if (w->written) *path = atvi_pool_printf(w->pool, "%s/report.html", w->dir);
}

static void drop(const atvi_report_session *w, const char *name) {
  const char *path = atvi_pool_printf(w->pool, "%s/%s", w->dir, name);
  if (path) unlink(path);
}

void atvi_report_end(atvi_report_session *w) {
  bool watched = w->rec.path[0] != 0;
  atvi_recorder_end(&w->rec, w->written ? "done" : "ended", w->written ? "" : "The fit failed.");
  atvi_live_end(w->ctx, &w->live);
  if (!watched || w->written) return;
  drop(w, "progress.json");
  drop(w, "report.html");
}

/* ---- atvi report ---- */

typedef struct {
  atvi_ctx *ctx;
  atvi_pool *pool;
  const atvi_app_report_opts *opts;
  const char *dir;
  const char *how, *text;     /* fit.json and model.atvi */
  const char *file, *holdout; /* as fit.json has them */
  atvi_draws *draws, *plain;  /* may be the same */
  atvi_fitted run;
  atvi_loaded l; /* where the model is needed; zeroed: it is not, or it cannot be loaded */
} redrawing;

static atvi_status no_memory(const redrawing *x) {
  return ATVI_FAIL(x->ctx, ATVI_ENOMEM, "report: out of memory");
}

static atvi_status read_text(const redrawing *x, const char *name, const char **text) {
  const char *path = atvi_pool_printf(x->pool, "%s/%s", x->dir, name);
  char *all;
  size_t n;
  if (!path) return no_memory(x);
  if (access(path, F_OK) != 0)
    return ATVI_FAIL(x->ctx, ATVI_EINVAL, "%s has no %s: it is not the folder of a finished fit", x->dir,
                     name);
  ATVI_TRY(atvi_file_read(x->pool, path, &all, &n));
  *text = all;
  return ATVI_OK;
}

static atvi_status read_folder(redrawing *x) {
  ATVI_TRY(read_text(x, "fit.json", &x->how));
  ATVI_TRY(read_text(x, "model.atvi", &x->text));
  json_error_t error;
  json_t *fit = json_loads(x->how, 0, &error);
  if (!fit)
    return ATVI_FAIL(x->ctx, ATVI_EDATA, "%s/fit.json:%d:%d: %s; the file was changed after it was written",
                     x->dir, error.line, error.column, error.text);
  const char *model = json_string_value(json_object_get(fit, "model"));
  x->file = atvi_bytes_text(x->pool, model ? model : "model.atvi");
  x->holdout = atvi_bytes_text(x->pool, json_string_value(json_object_get(fit, "holdout")));
  json_decref(fit);
  const char *path = atvi_pool_printf(x->pool, "%s/draws.csv", x->dir);
  if (!path) return no_memory(x);
  ATVI_TRY(atvi_app_read_draws(x->ctx, x->pool, x->dir, &x->draws));
  if (!x->draws->weight) {
    x->plain = x->draws;
    return ATVI_OK;
  }
  return atvi_draws_csv_read(x->ctx, path, &x->plain);
}

/* The model as it was fitted, if it and its files are still there. */
static atvi_status load_model(redrawing *x) {
  ATVI_TRY(atvi_fitted_read(x->ctx, x->pool, x->dir, x->opts->n_data, x->opts->data, &x->run));
  x->run.model.interpret = x->opts->interpret;
  if (x->opts->folder) x->run.model.folder = x->opts->folder;
  if (x->opts->runs) x->run.model.runs = x->opts->runs;
  const atvi_model_load_opts how = {.text = x->run.text, .holdout = x->run.holdout};
  return atvi_app_load(x->ctx, &x->run.model, &how, &x->l);
}

/* Steps that an older version kept in progress.json alone, without their phases. */
static atvi_status old_history(const redrawing *x) {
  const char *path = atvi_pool_printf(x->pool, "%s/progress.json", x->dir);
  json_t *root = path ? json_load_file(path, 0, NULL) : NULL, *list = json_object_get(root, "history");
  size_t n = json_array_size(list);
  atvi_progress *step = atvi_pool_take(x->pool, n + 1, sizeof *step);
  for (size_t i = 0; step && i < n; i++) {
    static const char *const key[] = {"seconds",   "steps", "temperature", "elbo",
                                      "component", "khat",  "rhat",        "ess"};
    double v[8];
    for (int k = 0; k < 8; k++) {
      const json_t *cell = json_object_get(json_array_get(list, i), key[k]);
      v[k] = json_is_number(cell) ? json_number_value(cell) : NAN;
    }
    step[i] = (atvi_progress){"", -1, v[0], "", v[1], v[2], v[3], v[4], v[5], v[6], v[7]};
  }
  json_decref(root);
  return step ? atvi_draws_history(x->plain, (atvi_idx)n, step) : no_memory(x);
}

/* A folder of an older version: the model is run at the draws again. */
static atvi_status run_again(redrawing *x) {
  atvi_idx n, *draw;
  ATVI_TRY(old_history(x));
  atvi_status status = load_model(x);
  if (status == ATVI_OK)
    status = atvi_predictions_pick(x->pool, x->plain, ATVI_PREDICTIONS_CHECKED, &n, &draw);
  if (status == ATVI_OK) status = atvi_predictions_check(&x->l, x->dir, x->plain, false, &n, draw);
  if (status == ATVI_OK)
    return atvi_predictions_of_fit(&x->l, &x->run.model, x->run.text, x->run.holdout, NULL, x->plain);
  if (status == ATVI_ENOMEM) return status;
  const char *why = atvi_errmsg(x->ctx);
  atvi_log(x->ctx, ATVI_LOG_WARN, "the page has no predictions, for the model cannot be run: %s", why);
  x->plain->about.no_groups = atvi_pool_strndup(x->pool, why, strcspn(why, "\n"));
  x->plain->about.title = atvi_path_stem(x->pool, x->file);
  return x->plain->about.title && x->plain->about.no_groups ? ATVI_OK : no_memory(x);
}

static atvi_status redraw(redrawing *x) {
  atvi_summary *s;
  ATVI_TRY(read_folder(x));
  ATVI_TRY(atvi_groups_there(x->dir) ? atvi_groups_read(x->plain, x->dir) : run_again(x));
  if (x->plain->about.dependent && !x->l.model && load_model(x) == ATVI_ENOMEM) return no_memory(x);
  if (x->plain->about.dependent && !x->l.model)
    atvi_log(x->ctx, ATVI_LOG_WARN, "the page says nothing of emulators, for they cannot be loaded: %s",
             atvi_errmsg(x->ctx));
  ATVI_TRY(atvi_advised_summary(x->pool, x->draws, &s));
  const atvi_report_fit r = {.file = x->file,
                             .summary = s,
                             .draws = x->draws,
                             .plain = x->plain,
                             .holdout = x->holdout,
                             .how = x->how,
                             .text = x->text};
  return write_page(x->ctx, r, x->l.model ? &x->l : NULL, &x->run.model, x->dir, true);
}

atvi_status atvi_app_report(atvi_ctx *ctx, atvi_pool *pool, const atvi_app_report_opts *opts,
                            const char **path) {
  redrawing x = {.ctx = ctx, .pool = pool, .opts = opts};
  *path = NULL;
  ATVI_TRY(atvi_app_find_run(ctx, pool, opts->where, "draws.csv", &x.dir));
  atvi_status status = redraw(&x);
  if (x.plain != x.draws) atvi_draws_free(x.plain);
  atvi_draws_free(x.draws);
  atvi_app_unload(&x.l);
  if (status != ATVI_OK) return status;
  *path = atvi_pool_printf(pool, "%s/report.html", x.dir);
  return *path ? ATVI_OK : no_memory(&x);
}
