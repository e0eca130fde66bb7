/* SPDX-License-Identifier: MIT */
/* Fits of a study, a calibration run or a comparison that several processes share. Fit r with method m is item (r - 1) METHODS + m of
 * the claims, whatever the methods that were asked for. Workers write shards of the record (DIR/shards/NAME.csv); whoever
 * continues the run alone adds them to the record. */
#include "app/emulators.h"
#include "app/replicate.h"
#include "app/share.h"
#include "io/file.h"
#include "io/csv.h"
#include <math.h>
#include <string.h>
#include <time.h>

/* Items of a replicate: more than there are methods. */
enum { METHODS = 32 };
/* Fits that were lost with their worker as often have failed. At the end of a job's time they leave a checkpoint. */
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

/* The whole lines of a file of the record; NULL: there are none yet, or it is damaged, and its fits are done again. */
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
  return atvi_app_repeat_name(x, pool, i / x->n_method + 1, x->method[i % x->n_method]);
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
  atvi_idx i = w->place[c->item], r = i / x->n_method;
  atvi_replicate_place at = {r + 1, x->method[i % x->n_method], x->o->seed + (uint64_t)r, 0};
  double begun = atvi_clock_s();
  atvi_pool *pool;
  atvi_status status;
  w->todo[c->item] = false;
  ATVI_TRY(atvi_pool_new(x->ctx, &pool));
  if (c->n_lost >= LOST_MAX) {
    (void)ATVI_FAIL(x->ctx, ATVI_ECALL, "lost %d times with its worker", c->n_lost);
    status = atvi_app_repeat_fail(x, pool, &at);
  } else {
    status = (x->fit ? x->fit : atvi_app_repeat_fit)(x, pool, &at, i, &w->stopped);
  }
  atvi_pool_free(pool);
  if (status != ATVI_OK) return status;
  w->late = w->stopped && !atvi_stop_asked(x->ctx);
  if (w->late) w->ended = "its time was over";
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
  atvi_io_text_add(&t, "worker %s ended: %s\n%td fits done\nof all %td fits %td are good",
                   atvi_sim_claims_name(w->claims), w->ended ? w->ended : "it was asked to", w->done, it.n,
                   good);
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

atvi_status atvi_app_repeat_shared(const atvi_repeat *x, atvi_app_repeat_result *out) {
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
