/* SPDX-License-Identifier: MIT */
#include "app/replicate.h"
#include "app/common.h"
#include "app/share.h"
#include "io/csv.h"
#include "io/file.h"
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- data ---- */

static bool observes(const atvi_lang *lang, atvi_idx file) {
  for (atvi_idx o = 0; o < lang->n_observe; o++)
    if (lang->data[lang->observe[o].data].file == file) return true;
  return false;
}

/* The first data set of a file. */
static atvi_idx first_of(const atvi_lang *lang, atvi_idx file) {
  atvi_idx k = 0;
  while (lang->data[k].file != file) k++;
  return k;
}

atvi_status atvi_app_replicate_sets(atvi_ctx *ctx, const atvi_loaded *l) {
  const atvi_lang *lang = l->model->lang;
  atvi_idx n = atvi_app_files(lang);
  for (atvi_idx f = 0; n > 1 && f < n; f++) {
    atvi_idx first = first_of(lang, f);
    const atvi_lang_data *d = &lang->data[first];
    if (observes(lang, f) && !*atvi_app_set_name(l->model, first))
      return ATVI_FAIL(ctx, ATVI_EMODEL,
                       "%s: error: the model has %td data files, and %s has no name, so simulated data "
                       "cannot replace it\nhint: give every data set a name, for example: data first \"%s\"",
                       lang->path, n, d->path, d->path);
  }
  return ATVI_OK;
}

atvi_status atvi_app_replicate_simulate(atvi_ctx *ctx, const atvi_loaded *l, uint64_t seed, atvi_idx r,
                                        const double *theta, double *value) {
  const atvi_target *t = l->target;
  void *work = atvi_model_evaluator_work(l->ev);
  double ll;
  atvi_outcome outcome;
  t->ops->simulate(t->self, work, seed, r - 1, 1, theta, value);
  atvi_idx bad = atvi_app_undrawn(l, 1, value);
  if (bad == 0) return ATVI_OK;
  t->ops->eval(t->self, work, &(atvi_batch){.B = 1, .theta = theta, .log_lik = &ll, .outcome = &outcome});
  if (outcome != ATVI_RUN_OK)
    return ATVI_FAIL(ctx, ATVI_EMODEL, "the model cannot be run at the truth: %s",
                     atvi_outcome_word(outcome));
  return ATVI_FAIL(ctx, ATVI_EMODEL,
                   "at the truth %td of %td observations cannot be simulated: their distribution has no "
                   "finite values there",
                   bad, t->n_obs);
}

/* Files of the user, for data sets that are not simulated. */
static void keep_given(const atvi_model *m, const atvi_app_model *model, atvi_data_file *data, atvi_idx *n) {
  for (atvi_idx k = 0; k < model->n_data; k++) {
    bool simulated = !model->data[k].name;
    for (atvi_idx f = 0; !simulated && f < atvi_app_files(m->lang); f++)
      simulated = observes(m->lang, f) &&
                  strcmp(atvi_app_set_name(m, first_of(m->lang, f)), model->data[k].name) == 0;
    if (!simulated) data[(*n)++] = model->data[k];
  }
}

/* Existing files come from a run that was stopped, or the user has put them there. */
static atvi_status put_data(atvi_ctx *ctx, atvi_pool *pool, const char *path, const char *text) {
  char *was;
  size_t n = strlen(text), n_was;
  if (access(path, F_OK) != 0) return atvi_io_file_save(ctx, path, text, n);
  ATVI_TRY(atvi_io_file_read(pool, path, &was, &n_was));
  if (n_was == n && memcmp(was, text, n) == 0) return ATVI_OK;
  return ATVI_FAIL(ctx, ATVI_EINVAL,
                   "%s is not the data set simulated for this replicate, so it was changed; remove it, or "
                   "give another --out",
                   path);
}

atvi_status atvi_app_repeat_simulate(const atvi_repeat *x, atvi_pool *pool, const double *theta,
                                     atvi_replicate_place *at, atvi_app_model *model) {
  const atvi_lang *lang = x->l->model->lang;
  double *value = atvi_pool_take(pool, (size_t)x->l->target->n_obs + 1, sizeof *value);
  atvi_data_file *data = atvi_pool_take(pool, (size_t)(lang->n_data + x->o->model.n_data) + 1, sizeof *data);
  const char *folder = atvi_pool_printf(pool, "%s/data", x->rec->dir);
  if (!value || !data || !folder) return ATVI_ENOMEM;
  at->hash = ATVI_HASH;
  ATVI_TRY(atvi_app_replicate_simulate(x->ctx, x->l, x->o->seed, at->replicate, theta, value));
  ATVI_TRY(atvi_io_dir_make(x->ctx, folder, false));
  model->n_data = 0;
  for (atvi_idx f = 0; f < atvi_app_files(lang); f++) {
    if (!observes(lang, f)) continue;
    const char *text,
        *name = atvi_app_files(lang) > 1 ? atvi_app_set_name(x->l->model, first_of(lang, f)) : NULL;
    const char *path =
        atvi_pool_printf(pool, "%s/%s_%td.csv", folder, name && *name ? name : "set", at->replicate);
    if (!path) return ATVI_ENOMEM;
    ATVI_TRY(atvi_app_data_text(pool, x->l, f, value, &text));
    ATVI_TRY(put_data(x->ctx, pool, path, text));
    at->hash = atvi_hash(at->hash, text, strlen(text));
    data[model->n_data++] = (atvi_data_file){name, path};
  }
  keep_given(x->l->model, &x->o->model, data, &model->n_data);
  model->data = data;
  return ATVI_OK;
}

/* ---- fit ---- */

atvi_status atvi_app_replicate_method(atvi_ctx *ctx, const char *option, const char *name, uint64_t seed,
                                      atvi_fit_plan *plan) {
  const atvi_method *m;
  atvi_fit_opts how = atvi_fit_defaults();
  ATVI_TRY(atvi_app_method(ctx, ATVI_METHOD_POSTERIOR, option, name, &m));
  atvi_infer_fit_options_choose(m, &how);
  how.seed = seed;
  return atvi_infer_fit_check(ctx, &how, plan);
}

/* Fits side by side, of one process: as many as there are threads, each with its share of them. A fit by
 * itself leaves threads idle wherever training is serial. The lock is held for everything but loading,
 * fitting and scoring: those use a context and memory of their own. */
typedef struct {
  const atvi_repeat *x;
  pthread_mutex_t lock;
  /* Of atvi_app_resume_program. */
  const char *program;
  /* All fits, the next one to begin, the first whose line is not in the record, and those not begun. */
  atvi_idx n, next, recorded, left;
  /* [n] NULL: not known; "" : in the record. Lines are recorded in the order of fits, and wait in files of
   * their own until it is their turn. */
  const char **line;
  int n_lane, busy;
  double *part; /* [n_lane] of the fit under way */
  double ended;
  /* A fit was asked to stop, or an error ends all of them, whose text is `why`. */
  atomic_bool over;
  bool stopped;
  atvi_status status;
  const char *why;
} side_by_side;

/* How far the whole run is, for progress. all: NULL for a worker, which has one fit at a time. */
typedef struct {
  const atvi_repeat *x;
  const atvi_replicate_place *at;
  side_by_side *all;
  int lane, threads;
  /* Fits before this one, and in total. */
  double before, n;
  const char *program;
} progress;

static void hold(side_by_side *f) {
  if (f) pthread_mutex_lock(&f->lock);
}

static void let_go(side_by_side *f) {
  if (f) pthread_mutex_unlock(&f->lock);
}

bool atvi_app_repeat_over(const atvi_repeat *x) {
  return atvi_stop_asked(x->ctx) || (x->until_s > 0 && atvi_app_share_now_s() > x->until_s);
}

static bool stop_asked(void *user) {
  const progress *w = user;
  return atvi_app_repeat_over(w->x) || (w->all && atomic_load(&w->all->over));
}

static void on_progress(void *user, const atvi_progress *p) {
  const progress *w = user;
  double part = p->done > 0 && p->done <= 1 ? p->done : 0, ended = w->before + part;
  hold(w->all);
  if (w->all) {
    w->all->part[w->lane] = part;
    ended = w->all->ended;
    for (int k = 0; k < w->all->n_lane; k++) ended += w->all->part[k];
  }
  double whole = fmin(ended / w->n, 1 - 1e-9); /* 1 would mean the end */
  atvi_tell(w->x->ctx, w->x->command, whole, atvi_clock_s() - w->x->begun_s, "replicate %td of %td, %s: %s",
            w->at->replicate, w->x->o->replicates, w->at->method, p->phase);
  let_go(w->all);
}

static const char *checkpoint_item(atvi_pool *pool, const atvi_replicate_place *at) {
  return atvi_pool_printf(pool, "-%td-%s", at->replicate, at->method);
}

static void drop_checkpoint(const atvi_repeat *x, atvi_pool *pool, const atvi_replicate_place *at) {
  const char *item = checkpoint_item(pool, at),
             *path = item ? atvi_pool_printf(pool, "%s/" ATVI_APP_CHECKPOINT "%s", x->rec->dir, item) : NULL;
  if (path) unlink(path);
}

/* A fit that was interrupted goes on. */
static atvi_status infer(const progress *where, const atvi_fit_plan *plan, atvi_replicate *out) {
  const atvi_replicate_place *at = where->at;
  const char *about =
      atvi_pool_printf(out->pool, "%s, replicate %td, method %s, seed %" PRIu64 ", data %016" PRIx64,
                       where->program, at->replicate, at->method, at->seed, at->hash);
  /* Several fits are under way at once; who takes one over from another goes on with it. */
  const char *item = checkpoint_item(out->pool, at);
  if (!about || !item) return ATVI_ENOMEM;
  ATVI_TRY(atvi_app_resume_item(out->ctx, out->pool, where->x->rec->dir, item, where->x->o->checkpoint_s,
                                about, &out->memo));
  atvi_model_evaluator_set_memo(out->l.ev, out->memo);
  atvi_status status = atvi_infer_fit_with(out->ctx, out->l.ev, plan, &out->y.draws);
  atvi_model_evaluator_set_memo(out->l.ev, NULL);
  return status;
}

/* `out` must be freed whatever the status; the message of a failure is in out->ctx, or if that is NULL memory
 * was exhausted. */
static atvi_status fit(progress *where, const atvi_app_model *model, const atvi_fit_plan *plan,
                       atvi_replicate *out) {
  ATVI_TRY(atvi_ctx_new(NULL, &out->ctx));
  atvi_ctx_set_threads(out->ctx, where->threads);
  atvi_ctx_set_stop(out->ctx, stop_asked, where);
  atvi_ctx_set_progress(out->ctx, on_progress, where);
  ATVI_TRY(atvi_pool_new(out->ctx, &out->pool));
  ATVI_TRY(atvi_app_load(out->ctx, model, NULL, &out->l));
  ATVI_TRY(infer(where, plan, out));
  /* whether or not the fit noticed: from then on its results may differ */
  out->stopped = out->y.draws->made->end == ATVI_END_STOPPED || atvi_stop_asked(out->ctx);
  return atvi_app_delivery_make(out->ctx, out->pool, &out->l, &out->y);
}

static void fit_free(atvi_replicate *r, bool recorded) {
  atvi_io_memo_close(r->memo, recorded);
  atvi_app_delivery_free(&r->y);
  atvi_app_unload(&r->l);
  atvi_pool_free(r->pool);
  atvi_ctx_free(r->ctx);
}

bool atvi_app_repeat_goes_on(atvi_status status) {
  return status == ATVI_EMODEL || status == ATVI_EDATA || status == ATVI_ECALL || status == ATVI_ELIMIT;
}

/* ---- lines ---- */

void atvi_app_repeat_header(atvi_text *out, const char *keys) {
  atvi_io_text_add(out, "replicate,method,status,reason,verdict,seed");
  atvi_io_fields_names(out, &atvi_diag_headline_fields, keys);
}

static atvi_status done_line(const atvi_repeat *x, const atvi_replicate_place *at, atvi_replicate *r,
                             const char **line) {
  atvi_text out = {.pool = r->pool};
  atvi_summary *s;
  ATVI_TRY(atvi_diag_summary_new(r->pool, r->y.draws, &s));
  atvi_headline h = atvi_diag_summary_headline(s);
  atvi_io_text_add(&out, "%td,%s,ok,,%s,%" PRIu64, at->replicate, at->method, atvi_verdict_name(s->verdict),
                   at->seed);
  atvi_io_fields_cells(&out, &atvi_diag_headline_fields, &h, x->keys);
  ATVI_TRY(x->cells(x, at, r, s, &out));
  return atvi_io_text_get(&out, line);
}

/* "replicate 7, ram" for messages. Memory from pool. */
static const char *repeat_name(const atvi_repeat *x, atvi_pool *pool, atvi_idx replicate,
                               const char *method) {
  if (!x->numbered) return method;
  const char *out = x->named ? atvi_pool_printf(pool, "replicate %td, %s", replicate, method)
                             : atvi_pool_printf(pool, "replicate %td", replicate);
  return out ? out : "";
}

/* The reason is the first line of the last failure of ctx. */
static atvi_status failed_line(const atvi_repeat *x, atvi_pool *pool, const atvi_replicate_place *at,
                               const atvi_ctx *ctx, const char **line) {
  const char *message = atvi_errmsg(ctx);
  char *why = atvi_pool_strndup(pool, message, strcspn(message, "\n"));
  atvi_text out = {.pool = pool};
  if (!why) return ATVI_ENOMEM;
  for (char *c = why; *c; c++)
    if ((unsigned char)*c < ' ') *c = ' ';
  atvi_io_text_add(&out, "%td,%s,failed,", at->replicate, at->method);
  atvi_app_field(&out, why);
  atvi_io_text_add(&out, ",,%" PRIu64, at->seed);
  atvi_io_fields_cells(&out, &atvi_diag_headline_fields, NULL, x->keys);
  ATVI_TRY(x->cells(x, at, NULL, NULL, &out));
  atvi_log(x->ctx, ATVI_LOG_WARN, "%s: %s", repeat_name(x, pool, at->replicate, at->method), why);
  return atvi_io_text_get(&out, line);
}

/* ---- the loop ---- */

atvi_status atvi_app_repeat_fail(const atvi_repeat *x, atvi_pool *pool, atvi_replicate_place *at) {
  atvi_app_model model = x->o->model;
  const char *line, *why = atvi_pool_printf(pool, "%s", atvi_errmsg(x->ctx));
  if (!why) return ATVI_ENOMEM;
  if (x->data && x->data(x, pool, at, &model) == ATVI_OK) /* the line has its data */
    (void)ATVI_FAIL(x->ctx, ATVI_ECALL, "%s", why);
  ATVI_TRY(failed_line(x, pool, at, x->ctx, &line));
  return atvi_app_record_add(x->rec, line);
}

void atvi_app_repeat_model(const atvi_repeat *x, atvi_app_model *model) {
  model->interpret = model->interpret || !x->l->model->prog.info.compiled; /* reported once */
  if (!x->l->model->emulated) return;
  model->emulators = x->rec->dir;
  model->runs_lines = x->l->model->emulated->lines; /* even if the record grows meanwhile */
}

/* The fit and its line, from out->pool or, if it failed, from pool; NULL: it was asked to stop, or its time
 * is over, and it goes on later. The lock is held, but not while the fit runs. `out` must be freed whatever
 * the status. */
static atvi_status one_line(progress *where, atvi_pool *pool, atvi_replicate_place *at, atvi_replicate *out,
                            const char **line) {
  const atvi_repeat *x = where->x;
  atvi_fit_plan plan;
  atvi_app_model model = x->o->model;
  *line = NULL;
  ATVI_TRY(atvi_app_replicate_method(x->ctx, x->option, at->method, at->seed, &plan));
  atvi_status status = x->data(x, pool, at, &model);
  if (atvi_app_repeat_goes_on(status)) return failed_line(x, pool, at, x->ctx, line);
  if (status != ATVI_OK) return status;
  atvi_app_repeat_model(x, &model);
  let_go(where->all);
  status = fit(where, &model, &plan, out);
  out->stopped = out->stopped || status == ATVI_ESTOP;
  if (status == ATVI_OK && !out->stopped) status = done_line(x, at, out, line);
  hold(where->all);
  if (out->stopped) return ATVI_OK;
  if (atvi_app_repeat_goes_on(status)) return failed_line(x, pool, at, out->ctx, line);
  if (status == ATVI_OK) return ATVI_OK;
  return ATVI_FAIL(x->ctx, status, "%s: %s", repeat_name(x, pool, at->replicate, at->method),
                   out->ctx ? atvi_errmsg(out->ctx) : "out of memory");
}

/* Fit number `before` and its line, for a worker. */
static atvi_status repeat_fit(const atvi_repeat *x, atvi_pool *pool, atvi_replicate_place *at,
                              atvi_idx before, bool *stopped) {
  atvi_replicate one = {0};
  const char *line;
  progress where = {.x = x,
                    .at = at,
                    .threads = atvi_ctx_threads(x->ctx),
                    .before = (double)before,
                    .n = (double)(x->o->replicates * x->n_method),
                    .program = atvi_app_resume_program(pool)};
  if (!where.program) return ATVI_ENOMEM;
  atvi_status status = one_line(&where, pool, at, &one, &line);
  *stopped = one.stopped;
  if (status == ATVI_OK && line) status = atvi_app_record_add(x->rec, line);
  fit_free(&one, !*stopped && status == ATVI_OK);
  return status;
}

/* ---- side by side ---- */

static atvi_replicate_place place_of(const atvi_repeat *x, atvi_idx i) {
  atvi_idx r = i / x->n_method;
  return (atvi_replicate_place){
      .replicate = r + 1, .method = x->method[i % x->n_method], .seed = x->o->seed + (uint64_t)r};
}

/* Where the line of fit i waits for those before it. */
static const char *waiting_path(const atvi_repeat *x, atvi_pool *pool, atvi_idx i) {
  atvi_replicate_place at = place_of(x, i);
  return atvi_pool_printf(pool, "%s/line-%td-%s", x->rec->dir, at.replicate, at.method);
}

/* Records the lines whose turn it is. */
static atvi_status record_ready(side_by_side *f, atvi_pool *pool) {
  for (; f->recorded < f->n && f->line[f->recorded]; f->recorded++) {
    const char *path = waiting_path(f->x, pool, f->recorded);
    if (!path) return ATVI_ENOMEM;
    if (f->line[f->recorded][0]) ATVI_TRY(atvi_app_record_add(f->x->rec, f->line[f->recorded]));
    f->line[f->recorded] = "";
    unlink(path);
  }
  return ATVI_OK;
}

static atvi_status keep_line(side_by_side *f, atvi_pool *pool, atvi_idx i, const char *line) {
  const char *path = waiting_path(f->x, pool, i);
  f->line[i] = atvi_pool_printf(f->x->rec->pool, "%s", line);
  if (!path || !f->line[i]) return ATVI_ENOMEM;
  if (i > f->recorded) ATVI_TRY(atvi_io_file_save(f->x->ctx, path, line, strlen(line)));
  return record_ready(f, pool);
}

/* What is recorded, and lines that were waiting when a run was interrupted. */
static atvi_status find_lines(side_by_side *f, atvi_pool *pool) {
  const atvi_repeat *x = f->x;
  for (atvi_idx i = 0; i < f->n; i++) {
    atvi_replicate_place at = place_of(x, i);
    const char *path = waiting_path(x, pool, i);
    char *text;
    size_t n;
    if (!path) return ATVI_ENOMEM;
    if (atvi_app_record_has(x->rec, at.replicate, at.method)) {
      f->line[i] = "";
    } else if (access(path, F_OK) == 0) {
      ATVI_TRY(atvi_io_file_read(x->rec->pool, path, &text, &n));
      f->line[i] = text;
    }
    if (f->line[i]) drop_checkpoint(x, pool, &at); /* killed between its line and the end of the fit */
    f->left += !f->line[i];
  }
  f->ended = (double)(f->n - f->left);
  return record_ready(f, pool);
}

/* Fit i, with the lock held. */
static atvi_status do_item(side_by_side *f, int lane, atvi_idx i) {
  const atvi_repeat *x = f->x;
  atvi_replicate_place at = place_of(x, i);
  atvi_replicate one = {0};
  atvi_pool *pool;
  const char *line;
  int share = atvi_ctx_threads(x->ctx) / (int)(f->busy + f->left < f->n_lane ? f->busy + f->left : f->n_lane);
  progress where = {.x = x,
                    .at = &at,
                    .all = f,
                    .lane = lane,
                    .threads = share > 1 ? share : 1,
                    .n = (double)f->n,
                    .program = f->program};
  ATVI_TRY(atvi_pool_new(x->ctx, &pool));
  atvi_status status = one_line(&where, pool, &at, &one, &line);
  if (status == ATVI_OK && line) status = keep_line(f, pool, i, line);
  if (one.stopped) f->stopped = true;
  fit_free(&one, !one.stopped && status == ATVI_OK);
  atvi_pool_free(pool);
  f->part[lane] = 0;
  f->ended++;
  return status;
}

typedef struct {
  side_by_side *all;
  int lane;
  pthread_t thread;
  bool started;
} lane;

static void *lane_main(void *arg) {
  const lane *l = arg;
  side_by_side *f = l->all;
  hold(f);
  while (!atomic_load(&f->over)) {
    while (f->next < f->n && f->line[f->next]) f->next++;
    if (f->next == f->n) break;
    f->stopped = f->stopped || atvi_stop_asked(f->x->ctx);
    if (f->stopped) break;
    f->left--, f->busy++;
    atvi_status status = do_item(f, l->lane, f->next++);
    f->busy--;
    if (status != ATVI_OK && f->status == ATVI_OK) {
      f->status = status;
      f->why = atvi_pool_printf(f->x->rec->pool, "%s", atvi_errmsg(f->x->ctx));
      atomic_store(&f->over, true);
    }
  }
  let_go(f);
  return NULL;
}

static atvi_status run_lanes(side_by_side *f, atvi_pool *pool) {
  lane *l = atvi_pool_take(pool, (size_t)f->n_lane + 1, sizeof *l);
  f->part = atvi_pool_take(pool, (size_t)f->n_lane + 1, sizeof *f->part);
  if (!l || !f->part) return ATVI_ENOMEM;
  for (int k = 0; k < f->n_lane; k++) l[k] = (lane){.all = f, .lane = k};
  for (int k = 1; k < f->n_lane; k++)
    l[k].started = pthread_create(&l[k].thread, NULL, lane_main, &l[k]) == 0;
  lane_main(&l[0]);
  for (int k = 1; k < f->n_lane; k++)
    if (l[k].started) pthread_join(l[k].thread, NULL);
  if (f->status == ATVI_OK || !f->why) return f->status;
  return ATVI_FAIL(f->x->ctx, f->status, "%s", f->why);
}

static atvi_status run_side_by_side(const atvi_repeat *x, bool *stopped) {
  atvi_pool *pool;
  side_by_side f = {.x = x, .n = x->o->replicates * x->n_method};
  ATVI_TRY(atvi_pool_new(x->ctx, &pool));
  pthread_mutex_init(&f.lock, NULL);
  atomic_init(&f.over, false);
  f.program = atvi_app_resume_program(pool);
  f.line = atvi_pool_take(pool, (size_t)f.n + 1, sizeof *f.line);
  atvi_status status = f.program && f.line ? find_lines(&f, pool) : ATVI_ENOMEM;
  f.n_lane = f.left < atvi_ctx_threads(x->ctx) ? (int)f.left : atvi_ctx_threads(x->ctx);
  if (status == ATVI_OK && f.left > 0) status = run_lanes(&f, pool);
  *stopped = f.stopped;
  pthread_mutex_destroy(&f.lock);
  atvi_pool_free(pool);
  return status;
}

/* Fits of a study, a calibration run or a comparison that several processes share. Fit r with method m is
 * item (r - 1) METHODS + m of the claims, whatever the methods that were asked for. Workers write shards of
 * the record (DIR/shards/NAME.csv); whoever continues the run alone adds them to the record. */

/* Items of a replicate: more than there are methods. */
enum { METHODS = 32 };
/* Fits that were lost with their worker as often have failed. At the end of a job's time they leave a
 * checkpoint. */
enum { LOST_MAX = 10 };
static const double END_S = 5;        /* kept free before the end of a job */
static const double IDLE_MAX_S = 100; /* without a fit to do: a lease, and time to notice its end */
static const double LOOK_MAX_S = 5;

bool atvi_app_repeat_is_shared(const atvi_app_share *o) {
  return o->worker || o->status || o->slurm || o->submit;
}

/* Place of a method in the list of all, from 1. */
static int number_of(const char *method) {
  const atvi_method *m;
  for (int i = 0; i < METHODS && (m = atvi_infer_method_at(0, i)); i++)
    if (strcmp(m->name, method) == 0) return i + 1;
  return METHODS;
}

static int64_t item_of(const atvi_repeat *x, atvi_idx i) {
  return (int64_t)(i / x->n_method) * METHODS + number_of(x->method[i % x->n_method]);
}

/* ---- what is recorded ---- */

/* The whole lines of a file of the record; NULL: there are none yet, or it is damaged, and its fits are done
 * again. */
static atvi_csv *read_lines(atvi_pool *pool, const char *path) {
  atvi_csv *csv;
  char *text;
  size_t n;
  if (atvi_io_file_read(pool, path, &text, &n) != ATVI_OK) return NULL;
  while (n > 0 && text[n - 1] != '\n') n--;
  return n > 0 && atvi_io_csv_parse(pool, path, text, n, &csv) == ATVI_OK ? csv : NULL;
}

static const char *label(const void *self, atvi_pool *pool, atvi_idx i) {
  const atvi_repeat *x = self;
  return repeat_name(x, pool, i / x->n_method + 1, x->method[i % x->n_method]);
}

/* State of the fits, in the order of atvi_app_repeat_run, from all files of the record. */
static atvi_status look(void *self, atvi_pool *pool, atvi_share_items *out) {
  const atvi_repeat *x = self;
  const char *const *list;
  atvi_idx n = x->o->replicates * x->n_method, n_list;
  ATVI_TRY(atvi_sim_shards_list(pool, x->rec->path, &n_list, &list));
  int64_t *id = atvi_pool_take(pool, (size_t)n, sizeof *id);
  unsigned char *state = atvi_pool_take(pool, (size_t)n, sizeof *state);
  const char **reason = atvi_pool_take(pool, (size_t)n, sizeof *reason),
             **part = atvi_pool_take(pool, (size_t)n_list, sizeof *part);
  atvi_idx *done = atvi_pool_take(pool, (size_t)n_list, sizeof *done);
  if (atvi_pool_failed(pool)) return ATVI_ENOMEM;
  *out = (atvi_share_items){n, id, state, reason, label, .n_part = n_list, .part = part, .part_done = done};
  for (atvi_idx i = 0; i < n; i++) id[i] = item_of(x, i);
  for (atvi_idx f = 0; f < n_list; f++) {
    part[f] = f == 0 ? "" : atvi_io_path_stem(pool, list[f]);
    if (!part[f]) return ATVI_ENOMEM;
    const atvi_csv *csv = read_lines(pool, list[f]);
    for (atvi_idx row = 0; csv && row < csv->n_row; row++) {
      double r = atvi_app_record_number(csv, row, "", "replicate"), seconds;
      const char *method = atvi_app_record_text(csv, row, "method");
      atvi_idx k = 0;
      while (k < x->n_method && strcmp(method, x->method[k]) != 0) k++;
      if (!(r >= 1 && r <= (double)x->o->replicates) || k == x->n_method) continue;
      atvi_idx i = ((atvi_idx)r - 1) * x->n_method + k;
      bool ok = strcmp(atvi_app_record_text(csv, row, "status"), "ok") == 0;
      if (ok || state[i] == ATVI_SIM_OPEN) state[i] = ok ? ATVI_SIM_GOOD : ATVI_SIM_FAILED;
      reason[i] = atvi_app_record_text(csv, row, "reason");
      done[f]++;
      seconds = atvi_app_record_number(csv, row, "", "seconds");
      if (seconds > 0) out->seconds += seconds, out->n_timed++;
    }
  }
  return ATVI_OK;
}

/* ---- a worker ---- */

typedef struct {
  const atvi_repeat *x;
  atvi_claims *claims;
  int64_t n;       /* largest item */
  bool *todo;      /* [n + 1] */
  atvi_idx *place; /* [n + 1] */
  atvi_idx done;
  double longest_s;
  const char *ended;
  bool late, stopped;
} worker;

static atvi_status mark_todo(worker *w) {
  atvi_share_items it;
  atvi_pool *pool;
  ATVI_TRY(atvi_pool_new(w->x->ctx, &pool));
  atvi_status status = look((void *)w->x, pool, &it);
  for (atvi_idx i = 0; status == ATVI_OK && i < it.n; i++) {
    w->place[it.id[i]] = i;
    w->todo[it.id[i]] = it.state[i] == ATVI_SIM_OPEN;
  }
  atvi_pool_free(pool);
  return status;
}

/* A fit whose worker has ended or disappeared. */
static atvi_status take_over(worker *w, atvi_claimed *c, atvi_idx *n, atvi_idx *held) {
  atvi_pool *pool;
  ATVI_TRY(atvi_pool_new(w->x->ctx, &pool));
  atvi_status status = mark_todo(w);
  if (status == ATVI_OK) status = atvi_sim_claims_again(w->claims, pool, w->n, w->todo, 1, c, n, held);
  if (status == ATVI_OK && *n && c->after) {
    atvi_sim_claims_lose(w->claims, c->item, c->claim - 1, ATVI_LOST_WORKER, c->after->host,
                         "its worker was lost");
    c->n_lost++;
  }
  atvi_pool_free(pool);
  return status;
}

/* The next fit: *n is 0 if there is none for this worker, and w->ended says why. */
static atvi_status take(worker *w, atvi_claimed *c, atvi_idx *n) {
  double idle = 0, pause = 0.1;
  for (;;) {
    atvi_idx held = 0;
    if (atvi_stop_asked(w->x->ctx)) {
      w->stopped = true;
      return ATVI_OK;
    }
    if (w->x->until_s > 0 && atvi_app_share_now_s() + 1.1 * w->longest_s > w->x->until_s) {
      w->late = true;
      w->ended = "no further fit would have ended in time";
      return ATVI_OK;
    }
    ATVI_TRY(atvi_sim_claims_next(w->claims, w->n, w->todo, 1, c, n));
    if (*n == 0) ATVI_TRY(take_over(w, c, n, &held));
    if (*n && c->claim > 0) { /* ours now: is it still to be done? */
      ATVI_TRY(mark_todo(w));
      if (!w->todo[c->item]) continue;
    }
    if (*n) return ATVI_OK;
    w->ended = held ? "the rest is in progress elsewhere" : "nothing was left";
    if (held == 0 || idle > IDLE_MAX_S) return ATVI_OK;
    for (double until = atvi_clock_s() + pause; atvi_clock_s() < until && !atvi_stop_asked(w->x->ctx);)
      nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    idle += pause;
    pause = fmin(1.5 * pause, LOOK_MAX_S);
  }
}

static atvi_status do_fit(worker *w, const atvi_claimed *c) {
  const atvi_repeat *x = w->x;
  atvi_idx i = w->place[c->item];
  atvi_replicate_place at = place_of(x, i);
  double begun = atvi_clock_s();
  atvi_pool *pool;
  atvi_status status;
  w->todo[c->item] = false;
  ATVI_TRY(atvi_pool_new(x->ctx, &pool));
  if (c->n_lost >= LOST_MAX) {
    (void)ATVI_FAIL(x->ctx, ATVI_ECALL, "lost %d times with its worker", c->n_lost);
    status = atvi_app_repeat_fail(x, pool, &at);
  } else {
    status = (x->fit ? x->fit : repeat_fit)(x, pool, &at, i, &w->stopped);
  }
  atvi_pool_free(pool);
  if (status != ATVI_OK) return status;
  w->late = w->stopped && !atvi_stop_asked(x->ctx);
  if (w->late) w->ended = "its time was up";
  w->done += !w->stopped;
  w->longest_s = fmax(w->longest_s, atvi_clock_s() - begun);
  return ATVI_OK;
}

static atvi_status summarise(const worker *w, atvi_app_repeat_result *out) {
  const atvi_repeat *x = w->x;
  atvi_share_items it;
  atvi_text t = {.pool = x->rec->pool};
  atvi_idx good = 0, failed = 0;
  ATVI_TRY(look((void *)x, x->rec->pool, &it));
  for (atvi_idx i = 0; i < it.n; i++)
    good += it.state[i] == ATVI_SIM_GOOD, failed += it.state[i] == ATVI_SIM_FAILED;
  out->stopped = w->stopped && !w->late;
  out->late = w->late;
  out->done = good, out->failed = failed;
  /* A fit that was cut off has left a checkpoint: that is progress, too. */
  out->unfinished = good + failed < it.n && (w->done > 0 || (w->late && w->stopped));
  atvi_io_text_add(&t, "worker %s ended: %s\n%td fits done\n%td of all %td fits are good",
                   atvi_sim_claims_name(w->claims), w->ended ? w->ended : "it was asked to", w->done, good,
                   it.n);
  if (failed) atvi_io_text_add(&t, ", %td failed", failed);
  if (good + failed < it.n) atvi_io_text_add(&t, ", %td not done yet", it.n - good - failed);
  atvi_io_text_add(&t, "\n");
  return atvi_io_text_get(&t, &out->text);
}

static atvi_status work(const atvi_repeat *all, atvi_app_repeat_result *out) {
  atvi_pool *pool = all->rec->pool;
  atvi_repeat x = *all;
  const atvi_claims_opts how = {.dir = x.rec->dir, .job = atvi_app_share_job(pool), .jobs = 1};
  worker w = {.x = &x, .n = (int64_t)x.o->replicates * METHODS};
  double end = atvi_app_share_end_s(pool, &x.o->share);
  if (end > 0) x.until_s = end - END_S;
  w.todo = atvi_pool_take(pool, (size_t)w.n + 1, sizeof *w.todo);
  w.place = atvi_pool_take(pool, (size_t)w.n + 1, sizeof *w.place);
  if (!w.todo || !w.place) return ATVI_ENOMEM;
  ATVI_TRY(mark_todo(&w));
  ATVI_TRY(atvi_sim_claims_open(x.ctx, &how, &w.claims));
  atvi_status status = atvi_sim_claims_beat(w.claims);
  if (status == ATVI_OK) status = atvi_app_record_shard(x.rec, atvi_sim_claims_name(w.claims));
  if (status == ATVI_OK && x.l->model->emulated)
    status = atvi_app_emulators_keep(x.ctx, pool, x.l, x.rec->dir);
  while (status == ATVI_OK && !w.stopped) {
    atvi_claimed c;
    atvi_idx n = 0;
    if ((status = take(&w, &c, &n)) != ATVI_OK || n == 0) break;
    status = do_fit(&w, &c);
  }
  if (status == ATVI_OK) status = summarise(&w, out);
  atvi_sim_claims_close(w.claims,
                        status == ATVI_OK ? w.ended ? w.ended : "it was asked to" : atvi_errmsg(x.ctx));
  return status;
}

/* ---- all of it ---- */

/* The loop of a worker, the state of all, or handing workers to a scheduler, as x->o->share says. Errors: as
 * above. */
static atvi_status repeat_shared(const atvi_repeat *x, atvi_app_repeat_result *out) {
  atvi_pool *pool = x->rec->pool;
  out->shared = true;
  if (x->o->share.worker) return work(x, out);
  const char *stem = atvi_io_path_stem(pool, x->o->model.path);
  const atvi_share s = {.ctx = x->ctx,
                        .pool = pool,
                        .o = &x->o->share,
                        .dir = x->rec->dir,
                        .claims = x->rec->dir,
                        .job = stem ? atvi_pool_printf(pool, "atvi-%s-%s", x->command, stem) : NULL,
                        .command = atvi_pool_printf(pool, "atvi %s %s ...", x->command, x->o->model.path),
                        .item = "fit",
                        .self = (void *)x,
                        .look = look};
  atvi_share_counts c = {0};
  if (!s.job || !s.command) return ATVI_ENOMEM;
  ATVI_TRY(x->o->share.status ? atvi_app_share_status(&s, &out->text, &c)
                              : atvi_app_share_submit(&s, &out->text, &c));
  out->stopped = x->o->share.wait && atvi_stop_asked(x->ctx);
  out->done = c.good, out->failed = c.failed;
  return ATVI_OK;
}

static atvi_status run_in_turn(const atvi_repeat *x, bool *stopped) {
  for (atvi_idx i = 0; i < x->o->replicates * x->n_method; i++) {
    atvi_replicate_place at = place_of(x, i);
    atvi_pool *pool;
    if (atvi_app_record_has(x->rec, at.replicate, at.method)) continue;
    *stopped = atvi_stop_asked(x->ctx);
    if (*stopped) return ATVI_OK;
    ATVI_TRY(atvi_pool_new(x->ctx, &pool));
    atvi_status status = x->fit(x, pool, &at, i, stopped);
    atvi_pool_free(pool);
    if (status != ATVI_OK || *stopped) return status;
  }
  return ATVI_OK;
}

atvi_status atvi_app_repeat_run(const atvi_repeat *x, atvi_app_repeat_result *out) {
  if (atvi_app_repeat_is_shared(&x->o->share)) return repeat_shared(x, out);
  if (x->l->model->emulated) ATVI_TRY(atvi_app_emulators_keep(x->ctx, x->rec->pool, x->l, x->rec->dir));
  return x->fit ? run_in_turn(x, &out->stopped) : run_side_by_side(x, &out->stopped);
}
