/* SPDX-License-Identifier: MIT */
/* One of several processes, perhaps on several hosts, that share the points of a design.
 *
 * It claims points (sim/claims.h), runs them, and writes its own shard of the record (sim/shards.h). When all ranges are
 * claimed it looks for points whose worker has ended or disappeared. It ends when nothing is left, when the others have
 * held the rest for longer than a lease, when its time is over, or when it is told to; closing its lease gives back what it
 * has not done.
 *
 * A run that was killed, or could not be started, may be the fault of the host: it is given back, for a worker on another
 * host if there is one, and recorded as failed if that happens three times. */
#include "app/program.h"
#include "io/csv.h"
#include "io/file.h"
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
  SITE_MAX = 3,  /* losses by the site after which a point has failed, and a host is avoided */
  LOST_MAX = 10, /* losses of any kind, after which a point has failed */
  FAILED_FIRST =
      10, /* failures of all workers before the first good run: then everything is considered wrong */
  CHUNK_MAX = 1000, /* points claimed at once */
};
static const double CHUNK_S = 1; /* of work in a claim: short runs are claimed in chunks of about this */
static const double END_S = 5;   /* kept free before the end, to end programs and write */
static const double LOOK_MIN_S = 0.1, LOOK_MAX_S = 5; /* between looks for points that were given back */
static const double IDLE_MAX_S = 100; /* without a point: a lease, and time to notice its end */

typedef struct {
  atvi_run_job *j;
  atvi_claims *claims;
  atvi_sim_record *record;
  atvi_sim_index ix;
  double limit_s, until_s, begun_s;
  int jobs;
  int64_t n;           /* largest id */
  bool *todo;          /* [n + 1] */
  atvi_idx *place;     /* [n + 1] item of an id */
  atvi_claimed *claim; /* [points] of an item */
  bool *mine;          /* [points] claimed and not done */
  atvi_claimed got[CHUNK_MAX];
  atvi_idx n_mine, done, failed, lost;
  double seconds, longest_s;
  int streak; /* losses by the site in succession */
  bool lapsed;
  double idle_s, look_s, pause_s;
  const char *ended; /* why; NULL: not yet */
  bool late;         /* no time is left */
} worker;

/* ---- callbacks ---- */

static void end(worker *w, const char *why) {
  if (!w->ended) w->ended = why;
}

static atvi_status tick(void *self, bool *stop) {
  worker *w = self;
  bool lapsed;
  ATVI_TRY(atvi_sim_claims_renew(w->claims, &lapsed));
  w->lapsed = w->lapsed || lapsed;
  if (w->until_s > 0 && atvi_app_share_now_s() > w->until_s - END_S) {
    end(w, "its time was over");
    w->late = *stop = true;
  }
  atvi_tell(w->j->ctx, "worker", -1, atvi_clock_s() - w->begun_s, "%td runs done%s", w->done,
            w->idle_s > 0 ? ", waiting for points of others" : "");
  return ATVI_OK;
}

/* Whether another run would end in time. */
static bool fits(const worker *w) {
  double longest = fmax(w->longest_s, w->ix.longest_s), need = 1.1 * longest;
  if (w->limit_s > 0 && w->limit_s < need) need = w->limit_s;
  return !(w->until_s > 0) || atvi_app_share_now_s() + need < w->until_s - END_S;
}

static atvi_idx chunk(const worker *w) {
  atvi_idx n = w->done + w->ix.n_timed;
  double mean = n ? (w->seconds + w->ix.seconds) / (double)n : CHUNK_S;
  double each = mean > 0 ? floor(CHUNK_S / mean) : CHUNK_MAX;
  double all = (each < 1 ? 1 : each) * w->jobs;
  return all > CHUNK_MAX ? CHUNK_MAX : (atvi_idx)all;
}

static void mark_todo(worker *w) {
  for (atvi_idx i = 0; i < w->j->points.n; i++) {
    int64_t id = w->j->points.id[i];
    w->todo[id] = !w->mine[i] && atvi_sim_index_state(&w->ix, id) == ATVI_SIM_OPEN;
  }
}

static void accept(worker *w, const atvi_claimed *c, atvi_idx *item, atvi_idx *n) {
  atvi_idx i = w->place[c->item];
  w->claim[i] = *c;
  w->claim[i].after = NULL; /* its memory does not last */
  w->mine[i] = true;
  w->n_mine++;
  w->todo[c->item] = false;
  item[(*n)++] = i;
}

/* Whether the folder of a run that disappeared with its worker is still there: then it was in progress. */
static bool was_running(const worker *w, const atvi_claimed *c) {
  char path[4200];
  snprintf(path, sizeof path, "%s/work/%s/%06lld", w->j->dir, c->after->name, (long long)c->item);
  return access(path, F_OK) == 0;
}

static atvi_status record_lost(worker *w, const atvi_claimed *c) {
  const char *why = atvi_pool_printf(
      w->j->pool, "lost %d times: killed, cut off by the end of a job, or with its worker", c->n_lost);
  const atvi_sim_run run = {
      .id = c->item, .x = w->j->points.x + w->place[c->item] * w->j->d, .attempts = c->n_lost, .reason = why};
  if (!why) return ATVI_ENOMEM;
  ATVI_TRY(atvi_sim_record_add(w->record, &run));
  w->todo[c->item] = false;
  w->failed++;
  return atvi_sim_record_sync(w->record);
}

/* Points whose claims are over. What became of them is asked again once they are ours: nobody else adds to it then. */
static atvi_status take_over(worker *w, atvi_pool *pool, atvi_idx want, atvi_idx *item, atvi_idx *n,
                             atvi_idx *held) {
  atvi_idx got;
  ATVI_TRY(atvi_sim_index_read(&w->ix));
  mark_todo(w);
  ATVI_TRY(atvi_sim_claims_again(w->claims, pool, w->n, w->todo, want, w->got, &got, held));
  if (got == 0) return ATVI_OK;
  ATVI_TRY(atvi_sim_index_read(&w->ix));
  for (atvi_idx i = 0; i < got; i++) {
    atvi_claimed *c = &w->got[i];
    if (atvi_sim_index_state(&w->ix, c->item) != ATVI_SIM_OPEN) continue;
    if (c->after && was_running(w, c)) {
      atvi_sim_claims_lose(w->claims, c->item, c->claim - 1, ATVI_LOST_WORKER, c->after->host,
                           "its worker was lost");
      c->n_lost++;
    }
    if (c->n_site >= SITE_MAX || c->n_lost >= LOST_MAX)
      ATVI_TRY(record_lost(w, c));
    else
      accept(w, c, item, n);
  }
  return ATVI_OK;
}

static atvi_status look_for_more(worker *w, atvi_idx want, atvi_idx *item, atvi_idx *n, bool *over) {
  double now = atvi_clock_s();
  atvi_idx held = 0;
  atvi_pool *pool;
  if (now < w->look_s) return ATVI_OK;
  ATVI_TRY(atvi_pool_new(w->j->ctx, &pool));
  atvi_status status = take_over(w, pool, want, item, n, &held);
  atvi_pool_free(pool);
  w->pause_s = *n ? LOOK_MIN_S : fmin(1.5 * fmax(w->pause_s, LOOK_MIN_S), LOOK_MAX_S);
  w->look_s = atvi_clock_s() + (*n ? 0 : w->pause_s);
  if (*n || w->n_mine) {
    w->idle_s = 0;
    return status;
  }
  if (w->idle_s == 0) w->idle_s = now;
  if (held == 0) {
    end(w, "nothing was left");
    *over = true;
  } else if (now - w->idle_s > IDLE_MAX_S) {
    end(w, "the rest is in progress elsewhere");
    *over = true;
  }
  return status;
}

/* If nobody had a good run yet, the program or the model may be wrong, and more runs are a waste. */
static atvi_status check_hope(worker *w) {
  if (w->ix.n_ok > 0 || w->done > w->failed) return ATVI_OK;
  ATVI_TRY(atvi_sim_index_read(&w->ix));
  atvi_idx failed = 0;
  const char *why = NULL;
  for (atvi_idx i = 0; w->ix.n_ok == 0 && i < w->j->points.n; i++)
    if (atvi_sim_index_state(&w->ix, w->j->points.id[i]) == ATVI_SIM_FAILED) {
      failed++;
      why = w->ix.mark[w->j->points.id[i]].reason;
    }
  if (failed < FAILED_FIRST) return ATVI_OK;
  return ATVI_FAIL_AS(w->j->ctx, ATVI_ECALL, ATVI_CODE_SIMULATOR_FAILED,
                      "none of the first %td runs was good, so the rest was not started; one of them: %s",
                      failed, atvi_app_share_words(w->j->pool, why));
}

static atvi_status take(void *self, atvi_idx room, atvi_idx *item, atvi_idx *n, bool *over) {
  worker *w = self;
  atvi_idx want = chunk(w), got;
  *n = 0;
  if (!fits(w)) {
    end(w, "no further run would have ended in time");
    w->late = *over = true;
    return ATVI_OK;
  }
  if (w->streak >= SITE_MAX) {
    end(w, "three runs in succession could not be started or were killed on this host");
    *over = true;
    return ATVI_OK;
  }
  ATVI_TRY(check_hope(w));
  if (want > room) want = room;
  ATVI_TRY(atvi_sim_claims_next(w->claims, w->n, w->todo, want, w->got, &got));
  for (atvi_idx i = 0; i < got; i++) accept(w, &w->got[i], item, n);
  return got ? ATVI_OK : look_for_more(w, want, item, n, over);
}

static void release(worker *w, atvi_idx item) {
  w->mine[item] = false;
  w->n_mine--;
}

static bool keep(void *self, atvi_idx item) {
  worker *w = self;
  if (!w->lapsed || atvi_sim_claims_mine(w->claims, &w->claim[item])) return true;
  release(w, item);
  return false;
}

static bool lost(void *self, atvi_idx item, const char *why) {
  worker *w = self;
  const atvi_claimed *c = &w->claim[item];
  atvi_sim_claims_lose(w->claims, c->item, c->claim, ATVI_LOST_SITE, NULL, why);
  w->streak++;
  w->lost++;
  atvi_log(w->j->ctx, ATVI_LOG_NOTE, "run %lld was lost: %s", (long long)c->item, why);
  if (c->n_site + 1 >= SITE_MAX) return true;
  release(w, item);
  return false;
}

static void done(void *self, atvi_idx item, bool ok, double seconds) {
  worker *w = self;
  release(w, item);
  w->done++;
  w->failed += !ok;
  w->seconds += seconds;
  if (seconds > w->longest_s) w->longest_s = seconds;
  if (ok) w->streak = 0;
}

static void cut(void *self, atvi_idx item) {
  worker *w = self;
  const atvi_claimed *c = &w->claim[item];
  if (w->late)
    atvi_sim_claims_lose(w->claims, c->item, c->claim, ATVI_LOST_TIME, NULL, "the time of the job was over");
}

static bool proved(void *self) {
  worker *w = self;
  if (w->ix.n_ok == 0 && atvi_sim_index_read(&w->ix) != ATVI_OK) return true;
  return w->ix.n_ok > 0;
}

/* ---- begin and end ---- */

/* Whether this host lost runs again and again, did not do more, and there are others. */
static atvi_status avoided(worker *w, bool *out) {
  atvi_claims_view *v;
  const atvi_claims_worker *who;
  const atvi_claims_loss *loss;
  const char *host = atvi_sim_claims_host(w->claims);
  atvi_idx n_lost = 0, n_ok = 0;
  ATVI_TRY(atvi_sim_claims_view(w->j->pool, w->j->dir, &v));
  atvi_idx n_who = atvi_sim_claims_workers(v, &who), n_loss = atvi_sim_claims_losses(v, &loss);
  for (atvi_idx i = 0; i < n_loss; i++)
    n_lost += loss[i].why == ATVI_LOST_SITE && strcmp(loss[i].host, host) == 0;
  bool others = false;
  for (atvi_idx i = 0; n_lost >= SITE_MAX && i < n_who; i++) {
    bool here = strcmp(who[i].host, host) == 0;
    others = others || (who[i].alive && !here);
    for (atvi_idx p = 0; here && p < w->ix.n_part; p++)
      if (strcmp(w->ix.part[p].name, who[i].name) == 0) n_ok += w->ix.part[p].ok;
  }
  *out = n_lost >= SITE_MAX && n_ok < n_lost && others;
  return ATVI_OK;
}

static atvi_status plan(worker *w) {
  const atvi_program_points *p = &w->j->points;
  for (atvi_idx i = 0; i < p->n; i++)
    if (p->id[i] > w->n) w->n = p->id[i];
  w->todo = atvi_pool_take(w->j->pool, (size_t)w->n + 1, sizeof *w->todo);
  w->place = atvi_pool_take(w->j->pool, (size_t)w->n + 1, sizeof *w->place);
  w->claim = atvi_pool_take(w->j->pool, (size_t)p->n, sizeof *w->claim);
  w->mine = atvi_pool_take(w->j->pool, (size_t)p->n, sizeof *w->mine);
  if (atvi_pool_failed(w->j->pool)) return ATVI_ENOMEM;
  for (atvi_idx i = 0; i < p->n; i++) w->place[p->id[i]] = i;
  ATVI_TRY(atvi_sim_index_read(&w->ix));
  mark_todo(w);
  return ATVI_OK;
}

static atvi_status summarise(worker *w, const atvi_sim_report *rep, atvi_app_run_result *result) {
  atvi_text t = {.pool = w->j->pool};
  ATVI_TRY(atvi_sim_index_read(&w->ix));
  for (atvi_idx i = 0; i < w->j->points.n; i++) {
    atvi_sim_state s = atvi_sim_index_state(&w->ix, w->j->points.id[i]);
    result->good += s == ATVI_SIM_GOOD;
    result->failed += s == ATVI_SIM_FAILED;
  }
  result->left = w->j->points.n - result->good - result->failed;
  result->late = w->late;
  result->stopped = rep->stopped && !w->late;
  result->unfinished = result->left > 0 && w->done > 0;
  atvi_io_text_add(&t, "worker %s ended: %s\n", atvi_sim_claims_name(w->claims),
                   w->ended ? w->ended : "it was asked to");
  atvi_io_text_add(&t, "%td runs done", w->done);
  if (w->failed) atvi_io_text_add(&t, ", %td of them failed", w->failed);
  if (w->lost) atvi_io_text_add(&t, "; %td lost", w->lost);
  atvi_io_text_add(&t, "\nof all %td runs %td are good", w->j->points.n, result->good);
  if (result->failed) atvi_io_text_add(&t, ", %td failed", result->failed);
  if (result->left) atvi_io_text_add(&t, ", %td not done yet", result->left);
  atvi_io_text_add(&t, "\n");
  return atvi_io_text_get(&t, &result->text);
}

static atvi_status work(worker *w, atvi_simulator *sim, atvi_app_run_result *result) {
  const atvi_sim_source source = {.self = w,
                                  .name = atvi_sim_claims_name(w->claims),
                                  .tick = tick,
                                  .take = take,
                                  .keep = keep,
                                  .lost = lost,
                                  .done = done,
                                  .cut = cut,
                                  .proved = proved};
  atvi_sim_batch batch = atvi_app_run_batch(w->j);
  atvi_sim_report rep = {0};
  bool avoid;
  batch.source = &source;
  batch.jobs = w->jobs;
  const char *record = atvi_pool_printf(w->j->pool, "%s/%s", w->j->dir, ATVI_SIM_RECORD),
             *path = record ? atvi_sim_shards_path(w->j->pool, record, source.name) : NULL;
  if (!path) return atvi_pool_failed(w->j->pool) ? ATVI_ENOMEM : ATVI_EIO;
  ATVI_TRY(avoided(w, &avoid));
  if (avoid)
    return ATVI_FAIL(
        w->j->ctx, ATVI_EIO,
        "host %s is avoided: runs could not be started there, or were killed, three times; --status has "
        "the reasons",
        atvi_sim_claims_host(w->claims));
  ATVI_TRY(atvi_sim_record_open(w->j->ctx, path, atvi_sim_simulator_shape(sim), &w->record));
  atvi_status status = atvi_sim_shards_begin(w->j->ctx, w->j->dir, path);
  if (status == ATVI_OK) status = atvi_sim_simulator_run(sim, w->record, &batch, &rep);
  if (status != ATVI_OK) end(w, atvi_errmsg(w->j->ctx));
  if (status == ATVI_OK) status = summarise(w, &rep, result);
  atvi_sim_record_free(w->record);
  if (w->done == 0 && w->failed == 0) unlink(path);
  return status;
}

/* Somebody runs the points of the folder without claims. */
static atvi_status check_record(const atvi_run_job *j) {
  const char *path = atvi_pool_printf(j->pool, "%s/%s", j->dir, ATVI_SIM_RECORD);
  if (!path) return ATVI_ENOMEM;
  if (!atvi_io_journal_used(path)) return ATVI_OK;
  return ATVI_FAIL(j->ctx, ATVI_EEXIST, "another atvi is using %s; workers cannot join it", path);
}

atvi_status atvi_app_run_worker(atvi_run_job *j, atvi_simulator *sim, atvi_app_run_result *result) {
  const atvi_sim_batch batch = atvi_app_run_batch(j);
  worker *w = atvi_pool_take(j->pool, 1, sizeof *w);
  if (!w) return ATVI_ENOMEM;
  *w = (worker){
      .j = j, .ix = {.pool = j->pool, .dir = j->dir}, .begun_s = atvi_clock_s(), .limit_s = batch.limit_s};
  w->jobs = batch.jobs > 0               ? batch.jobs
            : atvi_app_share_cores() > 0 ? atvi_app_share_cores()
                                         : atvi_ctx_threads(j->ctx);
  w->until_s = atvi_app_share_end_s(j->pool, &j->o->share);
  const atvi_claims_opts how = {.dir = j->dir, .job = atvi_app_share_job(j->pool), .jobs = w->jobs};
  ATVI_TRY(check_record(j));
  ATVI_TRY(plan(w));
  ATVI_TRY(atvi_sim_claims_open(j->ctx, &how, &w->claims));
  atvi_status status = work(w, sim, result);
  atvi_sim_claims_close(w->claims, w->ended ? w->ended : "it was asked to");
  return status;
}
