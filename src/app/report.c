/* SPDX-License-Identifier: MIT */
/* The page of a fit, drawn from DRAWS: by the fit itself, and again by atvi report from the folder. */
#include "app/common.h"
#include "app/predictions.h"
#include "app/report.h"
#include "diag/score.h"
#include "infer/fit.h"
#include "io/draws_file.h"
#include "io/file.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- what is on the page ---- */

double atvi_app_report_prior_mass(const void *user, atvi_idx col, double a, double b) {
  const atvi_draws *d = user;
  if (col >= d->n_param || !d->prior || !d->prior[col].dist) return NAN;
  const atvi_prior *p = &d->prior[col];
  int dist = atvi_lang_dist_find(p->dist, strlen(p->dist));
  if (dist < 0) return NAN;
  a = fmax(a, p->lower);
  b = fmin(b, p->upper);
  if (!(a < b)) return 0;
  double all = p->truncated ? atvi_lang_dist_log_mass((atvi_dist)dist, p->lower, p->upper, p->arg) : 0;
  return exp(atvi_lang_dist_log_mass((atvi_dist)dist, a, b, p->arg) - all);
}

const char *atvi_app_report_time_name(const atvi_lang *lang) {
  for (atvi_idx i = 0; i < lang->n_data; i++)
    if (lang->data[i].time_name) return lang->data[i].time_name;
  return NULL;
}

/* States are not shown: there may be many, and those of interest can be tracked. */
static atvi_status find_series(atvi_pool *pool, atvi_report_fit *r) {
  const atvi_draws *d = r->plain;
  atvi_idx n_draw = atvi_diag_predicted_draws(d);
  atvi_predicted *series;
  int what = ATVI_PREDICTED_GRID;
  for (atvi_idx s = 0; s < d->n_series; s++)
    if (d->series[s].unit && *d->series[s].unit) what |= ATVI_PREDICTED_LOO;
  ATVI_TRY(atvi_diag_predicted_read(pool, d, what, &r->n_series, &series));
  while (r->n_series > 0 &&
         series[r->n_series - 1].kind > (n_draw ? ATVI_SERIES_TRACKED : ATVI_SERIES_OBSERVED))
    r->n_series--;
  ATVI_TRY(atvi_diag_predicted_judge(d->ctx, n_draw, r->n_series, series));
  if (n_draw) atvi_diag_predicted_residuals(d->ctx, d->made->seed, n_draw, r->n_series, series);
  r->series = series;
  return ATVI_OK;
}

/* A forecast that cannot be read is left out. */
static atvi_status find_forecast(atvi_pool *pool, const char *dir, atvi_report_fit *r) {
  atvi_status status = atvi_app_predict_read_forecast(pool, dir, r->n_series, r->series, &r->forecast);
  if (status == ATVI_OK || status == ATVI_ENOMEM) return status;
  atvi_log(r->plain->ctx, ATVI_LOG_WARN, "the page has no forecast: %s", atvi_errmsg(r->plain->ctx));
  return ATVI_OK;
}

/* Figures are large: they have their own pool, which is freed at once. l NULL: without emulators. forecast:
 * include that of the folder, if any. */
static atvi_status write_page(atvi_ctx *ctx, atvi_report_fit r, const atvi_loaded *l,
                              const atvi_app_model *opts, const char *dir, bool forecast) {
  atvi_pool *own;
  ATVI_TRY(atvi_pool_new(ctx, &own));
  r.prior = atvi_app_report_prior_mass;
  r.prior_user = r.plain;
  if (r.summary && l) r.n_emulator = atvi_app_emulators_reports(own, opts, l, r.draws, &r.emulator);
  atvi_status status = find_series(own, &r);
  if (status == ATVI_OK && forecast) status = find_forecast(own, dir, &r);
  if (status == ATVI_OK) status = atvi_report_fit_save(own, &r, dir);
  if (status == ATVI_OK) status = atvi_pool_status(own); /* a page with gaps is no page */
  atvi_pool_free(own);
  return status;
}

/* ---- with a fit ---- */

/* The page of a fit that has no draws yet. */
static atvi_status write_running(const atvi_report_session *w) {
  const atvi_target *t = w->l->target;
  atvi_draws *none;
  atvi_column *col = atvi_pool_take(w->pool, (size_t)t->d + 1, sizeof *col);
  if (!col) return ATVI_ENOMEM;
  for (atvi_idx i = 0; i < t->d; i++) col[i].name = t->param[i].name;
  ATVI_TRY(atvi_draws_new(w->ctx, 1, 1, t->d, t->d, col, false, &none));
  atvi_status status = atvi_app_predictions_describe(w->l, atvi_app_report_command(w->pool, w->opts), none);
  const atvi_report_fit r = {.file = w->opts->model.path,
                             .plain = none,
                             .watch = "'atvi watch' shows its progress.",
                             .holdout = w->opts->holdout,
                             .text = w->l->model->lang->source};
  if (status == ATVI_OK) status = write_page(w->ctx, r, NULL, NULL, w->dir, false);
  atvi_draws_free(none);
  return status;
}

static bool logged(atvi_ctx *ctx, atvi_status status, atvi_log_level level) {
  if (status != ATVI_OK) atvi_log(ctx, level, "the report could not be written: %s", atvi_errmsg(ctx));
  return status == ATVI_OK;
}

void atvi_app_report_begin(atvi_ctx *ctx, atvi_pool *pool, const atvi_app_fit_opts *opts, atvi_loaded *l,
                           const char *dir, atvi_report_session *out) {
  bool watched = opts->watched && !opts->no_report;
  memset(out, 0, sizeof *out);
  out->ctx = ctx;
  out->pool = pool;
  out->opts = opts;
  out->l = l;
  out->dir = dir;
  atvi_app_recorder_begin(&out->rec, ctx, watched ? dir : NULL);
  if (watched) (void)logged(ctx, write_running(out), ATVI_LOG_WARN);
  if (watched && opts->live) atvi_app_live_begin(ctx, dir, &out->live);
}

void atvi_app_report_finish(atvi_report_session *w, const atvi_delivery *y, const atvi_summary *s,
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
  w->written = logged(w->ctx, write_page(w->ctx, r, w->l, &w->opts->model, w->dir, false), ATVI_LOG_LOST);
  if (w->written) *path = atvi_pool_printf(w->pool, "%s/report.html", w->dir);
}

static void drop(const atvi_report_session *w, const char *name) {
  const char *path = atvi_pool_printf(w->pool, "%s/%s", w->dir, name);
  if (path) unlink(path);
}

void atvi_app_report_end(atvi_report_session *w) {
  bool watched = w->rec.path[0] != 0;
  atvi_app_recorder_end(&w->rec, w->written ? "done" : "ended", w->written ? "" : "The fit failed.");
  atvi_app_live_end(&w->live);
  if (!watched || w->written) return;
  drop(w, "progress.json");
  drop(w, "report.html");
}

/* ---- atvi report ---- */

static atvi_status redraw(atvi_kept *x) {
  atvi_summary *s;
  atvi_ctx *ctx = x->plain->ctx;
  if (x->failed)
    atvi_log(ctx, ATVI_LOG_WARN, "the page has no predictions, because the model cannot be run: %s",
             x->plain->about->no_groups);
  if (x->plain->about->dependent && !x->l.model) {
    atvi_status status = atvi_app_kept_load(x);
    if (status == ATVI_ENOMEM) return status;
    if (status != ATVI_OK)
      atvi_log(ctx, ATVI_LOG_WARN, "the page says nothing about emulators, because they cannot be loaded: %s",
               atvi_errmsg(ctx));
  }
  ATVI_TRY(atvi_app_advised_summary(x->pool, x->draws, &s));
  const atvi_report_fit r = {.file = x->file,
                             .summary = s,
                             .draws = x->draws,
                             .plain = x->plain,
                             .holdout = x->holdout,
                             .how = x->how,
                             .text = x->text};
  return write_page(ctx, r, x->l.model ? &x->l : NULL, &x->run.model, x->dir, true);
}

atvi_status atvi_app_report(atvi_ctx *ctx, atvi_pool *pool, const atvi_app_finished *opts,
                            const char **path) {
  atvi_kept x;
  *path = NULL;
  atvi_status status = atvi_app_kept_open(ctx, pool, opts, &x);
  if (status == ATVI_OK) status = redraw(&x);
  atvi_app_kept_close(&x);
  if (status != ATVI_OK) return status;
  *path = atvi_pool_printf(pool, "%s/report.html", x.dir);
  return *path ? ATVI_OK : ATVI_ENOMEM;
}

/* ---- the command that gives the same draws again ---- */

void atvi_app_quoted(atvi_text *out, const char *s) {
  if (*s && s[strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=,:+@%")] == 0) {
    atvi_io_text_add(out, "%s", s);
    return;
  }
  atvi_io_text_add(out, "'");
  for (; *s; s++) atvi_io_text_add(out, *s == '\'' ? "'\\''" : "%c", *s);
  atvi_io_text_add(out, "'");
}

void atvi_app_report_word(atvi_text *out, const char *s) {
  atvi_io_text_add(out, " ");
  atvi_app_quoted(out, s);
}

static void put_text(atvi_text *out, const char *option, const char *name, const char *value) {
  if (!value) return;
  const char *both = name && *name ? atvi_pool_printf(out->pool, "%s=%s", name, value) : value;
  atvi_io_text_add(out, " --%s", option);
  if (both) atvi_app_report_word(out, both);
}

static void put_option(atvi_text *out, const atvi_fit_option *p, const atvi_fit_opts *how) {
  const void *at = atvi_infer_fit_option_in(p, how);
  const char *word = p->kind == ATVI_OPTION_WORD ? *(const char *const *)at : NULL;
  bool off = p->flag_off && strcmp(word, "off") == 0;
  atvi_io_text_add(out, " --%s", off ? p->flag_off : p->flag ? p->flag : p->name);
  if (!p->value) return;
  switch (p->kind) {
  case ATVI_OPTION_WORD: atvi_app_report_word(out, word); break;
  case ATVI_OPTION_SEED: atvi_io_text_add(out, " %" PRIu64, *(const uint64_t *)at); break;
  case ATVI_OPTION_NUMBER: atvi_io_text_add(out, " %g", *(const double *)at); break;
  case ATVI_OPTION_SECONDS: atvi_io_text_add(out, " %gs", *(const double *)at); break;
  case ATVI_OPTION_COUNT: atvi_io_text_add(out, " %td", *(const atvi_idx *)at); break;
  case ATVI_OPTION_FLAG: break;
  }
}

const char *atvi_app_report_command(atvi_pool *pool, const atvi_app_fit_opts *o) {
  const atvi_fit_option *p;
  atvi_text out = {.pool = pool};
  const char *text;
  atvi_io_text_add(&out, "atvi fit");
  atvi_app_report_word(&out, o->model.path);
  for (int i = 0; (p = atvi_infer_fit_option_at(i));
       i++) /* always with the seed, so that whoever repeats a fit sees it */
    if (p->kind == ATVI_OPTION_SEED || !atvi_infer_fit_option_is_default(p, &o->how))
      put_option(&out, p, &o->how);
  for (atvi_idx i = 0; i < o->model.n_data; i++)
    put_text(&out, "data", o->model.data[i].name, o->model.data[i].path);
  for (atvi_idx i = 0; i < o->model.n_fix; i++)
    put_text(&out, "fix", o->model.fix[i].name, o->model.fix[i].value);
  put_text(&out, "folder", NULL, o->model.folder);
  put_text(&out, "runs", NULL, o->model.runs);
  put_text(&out, "holdout", NULL, o->holdout);
  if (o->model.interpret) atvi_io_text_add(&out, " --no-compile");
  return atvi_io_text_get(&out, &text) == ATVI_OK ? text : NULL;
}

/* The progress of a fit, kept for its report and written to DIR/progress.json for those who watch. */

static const double WRITE_EVERY_S = 0.5;

/* ---- writing ---- */

/* Written completely or not at all, but not durably: it is useless after the fit. */
static void replace(const char *path, const char *text) {
  char temp[sizeof((atvi_recorder *)0)->path + 8];
  snprintf(temp, sizeof temp, "%s.tmp", path);
  int fd = open(temp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd < 0) return;
  size_t n = strlen(text), at = 0;
  while (at < n) {
    ssize_t put = write(fd, text + at, n - at);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) break;
    at += (size_t)put;
  }
  if (close(fd) != 0 || at < n || rename(temp, path) != 0) unlink(temp);
}

/* Numbers that are not known are left out. */
static json_t *history(const atvi_recorder *r) {
  json_t *list = json_array();
  for (atvi_idx i = 0; i < r->n; i++) {
    json_t *one = json_object();
    for (const atvi_field *f = atvi_io_step_fields.of, *end = f + atvi_io_step_fields.n; f < end; f++) {
      double x = atvi_io_field_number(f, &r->step[i]);
      if (isfinite(x) && strcmp(f->key, "done") != 0) json_object_set_new(one, f->key, json_real(x));
    }
    json_array_append_new(list, one);
  }
  return list;
}

/* Nothing here may fail a fit: without memory the file is not changed. */
static void write_state(atvi_recorder *r, const char *state, const char *detail) {
  json_t *root = json_object();
  json_object_set_new(root, "state", json_string(state));
  json_object_set_new(root, "pid", json_integer(getpid()));
  json_object_set_new(root, "phase", json_string(r->phase));
  json_object_set_new(root, "done", json_real(isfinite(r->done) ? r->done : -1));
  json_object_set_new(root, "seconds", json_real(r->seconds));
  json_object_set_new(root, "detail", json_string(detail));
  json_object_set_new(root, "history", history(r));
  char *text = json_dumps(root, JSON_REAL_PRECISION(8) | JSON_PRESERVE_ORDER);
  json_decref(root);
  if (text) replace(r->path, text);
  free(text);
  r->wrote_s = atvi_clock_s();
}

/* ---- receiving ---- */

/* The names of phases may not outlive the call, so they are copied. */
static const char *phase_word(atvi_recorder *r, const char *phase) {
  for (int i = 0; i < r->n_phase; i++)
    if (strncmp(phase, r->phase_word[i], sizeof r->phase_word[i] - 1) == 0) return r->phase_word[i];
  if (r->n_phase == ATVI_PHASES) return r->phase_word[ATVI_PHASES - 1];
  snprintf(r->phase_word[r->n_phase], sizeof r->phase_word[0], "%s", phase);
  return r->phase_word[r->n_phase++];
}

static void keep(atvi_recorder *r, const atvi_progress *p) {
  if (r->n == ATVI_RECORDED) { /* drop every second one */
    for (atvi_idx i = 0; i < r->n / 2; i++) r->step[i] = r->step[2 * i];
    r->n /= 2;
    r->n_before /= 2;
    r->every *= 2;
  }
  if (r->seen++ % r->every != 0) return;
  r->step[r->n] = *p;
  r->step[r->n].phase = phase_word(r, p->phase);
  r->step[r->n++].detail = "";
}

static bool alike(double a, double b) { return a == b || (isnan(a) && isnan(b)); }

/* Whether it is a step of the runs before: a fit goes on by being repeated, and only the time differs. */
static bool repeated(const atvi_recorder *r, const atvi_progress *p) {
  for (atvi_idx i = 0; i < r->n_before; i++) {
    const atvi_progress *q = &r->step[i];
    bool bare = isnan(p->elbo) && isnan(p->khat) && isnan(p->ess); /* then it is known by how far it is */
    if ((!bare || alike(p->done, q->done)) && alike(p->steps, q->steps) &&
        alike(p->temperature, q->temperature) && alike(p->elbo, q->elbo) && alike(p->part, q->part) &&
        alike(p->khat, q->khat) && alike(p->rhat, q->rhat) && alike(p->ess, q->ess) &&
        strncmp(p->phase, q->phase, sizeof r->phase_word[0] - 1) == 0)
      return true;
  }
  return false;
}

static void on_progress(void *user, const atvi_progress *now) {
  atvi_recorder *r = user;
  atvi_progress here = *now, *p = &here;
  p->elapsed_s += r->before_s;
  if (!repeated(r, p)) keep(r, p);
  snprintf(r->phase, sizeof r->phase, "%s", p->phase);
  snprintf(r->detail, sizeof r->detail, "%s", p->detail);
  r->done = p->done;
  r->seconds = p->elapsed_s;
  if (r->path[0] && atvi_clock_s() - r->wrote_s >= WRITE_EVERY_S) write_state(r, "running", r->detail);
}

void atvi_app_recorder_begin(atvi_recorder *r, atvi_ctx *ctx, const char *dir) {
  memset(r, 0, sizeof *r);
  r->ctx = ctx;
  r->every = 1;
  r->done = -1;
  snprintf(r->phase, sizeof r->phase, "starting");
  if (dir && strlen(dir) + 16 < sizeof r->path)
    snprintf(r->path, sizeof r->path, "%.4000s/progress.json", dir);
  if (r->path[0]) write_state(r, "running", "");
  atvi_ctx_set_recorder(ctx, on_progress, r);
}

static void state(void *self, atvi_state *s) {
  atvi_recorder *r = self;
  ATVI_STATE(s, r->n);
  ATVI_STATE(s, r->seen);
  ATVI_STATE(s, r->every);
  ATVI_STATE(s, r->n_phase);
  ATVI_STATE(s, r->phase_word);
  for (atvi_idx i = 0; i < r->n && i < ATVI_RECORDED; i++) {
    atvi_progress *p = &r->step[i];
    atvi_idx word = p->phase ? (p->phase - r->phase_word[0]) / (ptrdiff_t)sizeof r->phase_word[0] : 0;
    ATVI_STATE(s, *p);
    ATVI_STATE(s, word);
    p->phase = r->phase_word[word];
    p->detail = "";
  }
}

void atvi_app_recorder_resume(atvi_recorder *r, atvi_memo *memo) {
  if (!atvi_io_memo_attach(memo, state, r)) {
    r->n = r->seen = 0;
    r->every = 1;
    r->n_phase = 0;
    return;
  }
  r->before_s = atvi_io_memo_seconds(memo);
  r->n_before = r->n;
}

void atvi_app_recorder_end(atvi_recorder *r, const char *state, const char *detail) {
  atvi_ctx_set_recorder(r->ctx, NULL, NULL);
  if (r->path[0]) write_state(r, state, detail);
}

bool atvi_app_report_state(const char *dir, char state[ATVI_STATE_BYTES], long *pid) {
  char path[4200];
  snprintf(path, sizeof path, "%.4000s/progress.json", dir);
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  FILE *f = fd >= 0 ? fdopen(fd, "r") : NULL;
  json_t *root = f ? json_loadf(f, 0, NULL) : NULL;
  const char *word = json_string_value(json_object_get(root, "state"));
  snprintf(state, ATVI_STATE_BYTES, "%s", word ? word : "");
  *pid = (long)json_integer_value(json_object_get(root, "pid"));
  json_decref(root);
  if (f)
    fclose(f);
  else if (fd >= 0)
    close(fd);
  return word != NULL;
}

void atvi_app_report_sweep(atvi_pool *pool, const char *dir) {
  static const char *const ours[] = {"progress.json", "progress.json.tmp", "report.html"};
  char state[ATVI_STATE_BYTES];
  long pid;
  const char *draws = atvi_pool_printf(pool, "%s/draws.csv", dir);
  atvi_io_file_sweep(dir);
  if (!draws || access(draws, F_OK) == 0 || !atvi_app_report_state(dir, state, &pid)) return;
  /* another fit may be using it */
  if (pid <= 0 || pid == (long)getpid() || kill((pid_t)pid, 0) == 0 || errno != ESRCH) return;
  for (int i = 0; i < 3; i++) {
    const char *path = atvi_pool_printf(pool, "%s/%s", dir, ours[i]);
    if (path) unlink(path);
  }
}
