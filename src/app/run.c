/* SPDX-License-Identifier: MIT */
#include "app/common.h"
#include "app/share.h"
#include "io/csv.h"
#include "io/file.h"
#include "io/text.h"
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { SHOWN_MAX = 12 }; /* failed runs that the summary names */

typedef struct {
  atvi_ctx *ctx;
  atvi_pool *pool;
  const atvi_app_run_opts *o;
  const atvi_lang *lang;
  const char *dir;
  const char **name; /* [d] */
  atvi_idx d;
  atvi_program_points points;
} job;

/* Absolute path of the model's folder. */
static const char *model_folder(atvi_pool *pool, const char *path) {
  const char *slash = strrchr(path, '/');
  char here[PATH_MAX];
  if (slash == path) return "/";
  int n = slash ? (int)(slash - path) : 0;
  if (path[0] == '/') return atvi_pool_strndup(pool, path, (size_t)n);
  if (!getcwd(here, sizeof here)) snprintf(here, sizeof here, ".");
  return atvi_pool_printf(pool, "%s%s%.*s", here, n ? "/" : "", n, path);
}

static atvi_sim_format format_of(const char *word) {
  if (strcmp(word, "json") == 0) return ATVI_SIM_JSON;
  return strcmp(word, "columns") == 0 ? ATVI_SIM_COLUMNS : ATVI_SIM_CSV;
}

static atvi_status make_simulator(const job *j, atvi_simulator **out) {
  const atvi_lang_simulator *s = &j->lang->simulator;
  atvi_sim_file *file = atvi_pool_take(j->pool, (size_t)s->n_template + 1, sizeof *file);
  atvi_sim_output *output = atvi_pool_take(j->pool, (size_t)s->n_output + 1, sizeof *output);
  const char *folder = model_folder(j->pool, j->o->path);
  if (!file || !output || !folder) return ATVI_ENOMEM;
  for (atvi_idx i = 0; i < s->n_template; i++)
    file[i] = (atvi_sim_file){s->templates[i].from, s->templates[i].to};
  for (atvi_idx o = 0; o < s->n_output; o++) {
    const atvi_lang_output *p = &s->output[o];
    output[o] = (atvi_sim_output){p->name, p->file, format_of(p->format), p->column, p->time};
  }
  const atvi_sim_spec spec = {.place = {j->lang->path, s->place.line, s->place.column},
                              .folder = folder,
                              .command = s->command,
                              .worker = s->worker,
                              .send_json = s->send_json,
                              .send_environment = s->send_environment,
                              .n_file = s->n_template,
                              .file = file,
                              .n_output = s->n_output,
                              .output = output,
                              .d = j->d,
                              .param = j->name};
  return atvi_sim_new(j->ctx, &spec, out);
}

/* ---- summary ---- */

static void add_point(atvi_text *t, const job *j, const double *x) {
  for (atvi_idx i = 0; i < j->d; i++) atvi_io_text_add(t, "%s%s = %.6g", i ? ", " : "", j->name[i], x[i]);
}

/* The last nonempty line of a log. */
static char *last_words(atvi_pool *pool, const char *log) {
  size_t n = log ? strlen(log) : 0;
  while (n > 0 && strchr("\r\n \t", log[n - 1])) n--;
  size_t from = n;
  while (from > 0 && log[from - 1] != '\n' && n - from < 120) from--;
  char *text = n ? atvi_pool_strndup(pool, log + from, n - from) : NULL;
  if (text) atvi_io_excerpt_clean(text);
  return text;
}

/* The most common reason, if more runs failed than the summary names. */
static void add_commonest(atvi_text *t, const job *j, const atvi_sim_record *r, atvi_idx failed) {
  const char *best = NULL;
  atvi_idx most = 0;
  for (atvi_idx i = 0; failed > SHOWN_MAX && i < j->points.n; i++) {
    const atvi_sim_run *k = atvi_sim_record_find(r, j->points.id[i]);
    atvi_idx n = 0;
    if (!k || k->ok || !k->reason || (best && strcmp(best, k->reason) == 0)) continue;
    for (atvi_idx a = i; a < j->points.n; a++) {
      const atvi_sim_run *other = atvi_sim_record_find(r, j->points.id[a]);
      n += other && !other->ok && other->reason && strcmp(other->reason, k->reason) == 0;
    }
    if (n > most) most = n, best = k->reason;
  }
  if (best)
    atvi_io_text_add(t, "most often (%td of %td): %s\n", most, failed, atvi_app_share_words(j->pool, best));
}

static void add_failures(atvi_text *t, const job *j, const atvi_sim_record *r, atvi_idx failed) {
  atvi_idx shown = 0;
  atvi_io_text_add(t, "\nfailed runs, which emulators do not use:\n");
  for (atvi_idx i = 0; i < j->points.n && shown < SHOWN_MAX; i++) {
    const atvi_sim_run *k = atvi_sim_record_find(r, j->points.id[i]);
    if (!k || k->ok) continue;
    char *words = last_words(j->pool, k->log);
    atvi_io_text_add(t, "  run %lld: %s\n    at ", (long long)k->id,
                     atvi_app_share_words(j->pool, k->reason));
    add_point(t, j, k->x);
    atvi_io_text_add(t, words ? "\n    log: %s\n" : "\n", words);
    shown++;
  }
  if (shown < failed) atvi_io_text_add(t, "  and %td more, in the record\n", failed - shown);
  add_commonest(t, j, r, failed);
  atvi_io_text_add(t, "atvi run --retry-failed repeats them%s\n",
                   j->lang->simulator.worker ? "" : "; --keep-failed keeps their folders");
}

static atvi_status summarise(const job *j, const atvi_sim_record *r, const atvi_sim_report *rep,
                             atvi_app_run_result *result) {
  atvi_text t = {.pool = j->pool};
  atvi_idx n = j->points.n, done = rep->ok + rep->failed;
  result->good = rep->had_ok + rep->ok;
  result->failed = rep->had_failed + rep->failed;
  result->left = rep->left;
  result->stopped = rep->stopped;
  atvi_io_text_add(&t, "%td of %td runs are good", result->good, n);
  if (result->failed) atvi_io_text_add(&t, ", %td failed", result->failed);
  if (result->left) atvi_io_text_add(&t, ", %td not done yet", result->left);
  atvi_io_text_add(&t, "\n");
  if (done) {
    char all[ATVI_DURATION_BYTES], each[ATVI_DURATION_BYTES];
    atvi_io_format_duration(all, rep->seconds, true);
    atvi_io_format_duration(each, rep->run_seconds / (double)done, true);
    atvi_io_text_add(&t, "%td done now in %s, about %s each\n", done, all, each);
  } else if (!rep->left) {
    atvi_io_text_add(&t, "nothing left to do\n");
  }
  if (rep->left && !rep->stopped)
    atvi_io_text_add(&t, "the program could not be started for %td runs; the same command tries again\n",
                     rep->left);
  if (result->failed) add_failures(&t, j, r, result->failed);
  for (atvi_idx i = 0; result->failed && !result->reason && i < n; i++) {
    const atvi_sim_run *k = atvi_sim_record_find(r, j->points.id[i]);
    if (k && !k->ok) result->reason = atvi_app_share_words(j->pool, k->reason);
  }
  return atvi_io_text_get(&t, &result->text);
}

/* What is kept when it ends early: stated in the message, as there will be no summary. */
static atvi_status given_up(const job *j, atvi_status status, const atvi_sim_report *rep) {
  atvi_idx good = rep->had_ok + rep->ok;
  if (status == ATVI_EINVAL || good == 0) return status;
  const char *message = atvi_pool_printf(j->pool, "%s", atvi_errmsg(j->ctx));
  atvi_code code = atvi_errcode(j->ctx);
  return message ? ATVI_FAIL_AS(j->ctx, status, code, "%s\n%td good runs of %td are recorded in %s/%s.",
                                message, good, j->points.n, j->dir, ATVI_SIM_RECORD)
                 : status;
}

/* ---- running ---- */

/* What is to be done, without a source. */
static atvi_sim_batch batch_of(const job *j) {
  const atvi_lang_simulator *s = &j->lang->simulator;
  return (atvi_sim_batch){.dir = j->dir,
                          .n = j->points.n,
                          .id = j->points.id,
                          .x = j->points.x,
                          .limit_s = j->o->limit_s > 0 ? j->o->limit_s : s->limit_s,
                          .jobs = j->o->jobs > 0 ? j->o->jobs : s->jobs,
                          .retries = j->o->retries >= 0 ? j->o->retries : s->retries,
                          .retry_failed = j->o->retry_failed,
                          .keep_failed = j->o->keep_failed};
}

static atvi_status run_points(job *j, atvi_simulator *sim, atvi_app_run_result *result) {
  const char *path = atvi_pool_printf(j->pool, "%s/%s", j->dir, ATVI_SIM_RECORD);
  atvi_sim_record *record;
  atvi_sim_report rep;
  if (!path) return ATVI_ENOMEM;
  const atvi_sim_batch batch = batch_of(j);
  ATVI_TRY(atvi_sim_record_open(j->ctx, path, atvi_sim_simulator_shape(sim), &record));
  atvi_status status = atvi_app_share_alone(j->ctx, j->dir);
  if (status == ATVI_OK) {
    status = atvi_sim_simulator_run(sim, record, &batch, &rep);
    status = status == ATVI_OK ? summarise(j, record, &rep, result) : given_up(j, status, &rep);
  }
  atvi_sim_record_free(record);
  return status;
}

/* ---- workers ---- */

static atvi_status look(void *self, atvi_pool *pool, atvi_share_items *out) {
  const job *j = self;
  atvi_idx n = j->points.n;
  atvi_sim_index ix = {.pool = pool, .dir = j->dir};
  ATVI_TRY(atvi_sim_index_read(&ix));
  unsigned char *state = atvi_pool_take(pool, (size_t)n, sizeof *state);
  const char **reason = atvi_pool_take(pool, (size_t)n, sizeof *reason),
             **part = atvi_pool_take(pool, (size_t)ix.n_part, sizeof *part);
  atvi_idx *done = atvi_pool_take(pool, (size_t)ix.n_part, sizeof *done);
  if (atvi_pool_failed(pool)) return ATVI_ENOMEM;
  for (atvi_idx i = 0; i < n; i++) {
    state[i] = (unsigned char)atvi_sim_index_state(&ix, j->points.id[i]);
    if (state[i] == ATVI_SIM_FAILED) reason[i] = ix.mark[j->points.id[i]].reason;
  }
  for (atvi_idx p = 0; p < ix.n_part; p++)
    part[p] = ix.part[p].name, done[p] = ix.part[p].ok + ix.part[p].failed;
  *out = (atvi_share_items){.n = n,
                            .id = j->points.id,
                            .state = state,
                            .reason = reason,
                            .seconds = ix.seconds,
                            .n_timed = ix.n_timed,
                            .n_part = ix.n_part,
                            .part = part,
                            .part_done = done};
  return ATVI_OK;
}

static atvi_status run_shared(job *j, atvi_app_run_result *result) {
  const char *stem = atvi_io_path_stem(j->pool, j->o->path);
  const atvi_share s = {.ctx = j->ctx,
                        .pool = j->pool,
                        .o = &j->o->share,
                        .dir = j->dir,
                        .claims = j->dir,
                        .job = stem ? atvi_pool_printf(j->pool, "atvi-%s", stem) : NULL,
                        .command = atvi_pool_printf(j->pool, "atvi run %s", j->o->path),
                        .item = "run",
                        .self = j,
                        .look = look};
  atvi_share_counts c = {0};
  if (!s.job || !s.command) return ATVI_ENOMEM;
  if (j->o->retry_failed) {
    atvi_sim_index ix = {.pool = j->pool, .dir = j->dir};
    ATVI_TRY(atvi_app_share_alone(j->ctx, j->dir));
    ATVI_TRY(atvi_sim_index_read(&ix));
    ATVI_TRY(atvi_sim_index_forgive(&ix, j->points.n, j->points.id));
  }
  ATVI_TRY(j->o->share.status ? atvi_app_share_status(&s, &result->text, &c)
                              : atvi_app_share_submit(&s, &result->text, &c));
  result->good = c.good, result->failed = c.failed, result->left = c.open;
  result->stopped = j->o->share.wait && atvi_stop_asked(j->ctx);
  return ATVI_OK;
}

/* One of several processes, perhaps on several hosts, that share the points of a design.
 *
 * It claims points (sim/claims.h), runs them, and writes its own shard of the record (sim/record.h). When all
 * ranges are claimed it looks for points whose worker has ended or disappeared. It ends when nothing is left,
 * when the others have held the rest for longer than a lease, when its time is over, or when it is asked to;
 * closing its lease gives back what it has not done.
 *
 * A run that was killed, or could not be started, may be the fault of the host: it is given back, for a
 * worker on another host if there is one, and recorded as failed if that happens three times. */

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
  job *j;
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
  atvi_idx n_mine;
  struct { /* runs of this worker */
    atvi_idx done, failed, lost;
    double seconds, longest_s;
  } count;
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
    end(w, "its time was up");
    w->late = *stop = true;
  }
  atvi_tell(w->j->ctx, "worker", -1, atvi_clock_s() - w->begun_s, "%td runs done%s", w->count.done,
            w->idle_s > 0 ? ", waiting for points of others" : "");
  return ATVI_OK;
}

/* Whether another run would end in time. */
static bool fits(const worker *w) {
  double longest = fmax(w->count.longest_s, w->ix.longest_s), need = 1.1 * longest;
  if (w->limit_s > 0 && w->limit_s < need) need = w->limit_s;
  return !(w->until_s > 0) || atvi_app_share_now_s() + need < w->until_s - END_S;
}

static atvi_idx chunk(const worker *w) {
  atvi_idx n = w->count.done + w->ix.n_timed;
  double mean = n ? (w->count.seconds + w->ix.seconds) / (double)n : CHUNK_S;
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
  w->count.failed++;
  return atvi_sim_record_sync(w->record);
}

/* Points whose claims are over. What became of them is asked again once they are ours: nobody else adds to it
 * then. */
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
  if (w->ix.n_ok > 0 || w->count.done > w->count.failed) return ATVI_OK;
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
  w->count.lost++;
  atvi_log(w->j->ctx, ATVI_LOG_NOTE, "run %lld was lost: %s", (long long)c->item, why);
  if (c->n_site + 1 >= SITE_MAX) return true;
  release(w, item);
  return false;
}

static void done(void *self, atvi_idx item, bool ok, double seconds) {
  worker *w = self;
  release(w, item);
  w->count.done++;
  w->count.failed += !ok;
  w->count.seconds += seconds;
  if (seconds > w->count.longest_s) w->count.longest_s = seconds;
  if (ok) w->streak = 0;
}

static void cut(void *self, atvi_idx item) {
  worker *w = self;
  const atvi_claimed *c = &w->claim[item];
  if (w->late)
    atvi_sim_claims_lose(w->claims, c->item, c->claim, ATVI_LOST_TIME, NULL, "the time of the job was up");
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

static atvi_status summarise_share(worker *w, const atvi_sim_report *rep, atvi_app_run_result *result) {
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
  result->unfinished = result->left > 0 && w->count.done > 0;
  atvi_io_text_add(&t, "worker %s ended: %s\n", atvi_sim_claims_name(w->claims),
                   w->ended ? w->ended : "it was asked to");
  atvi_io_text_add(&t, "%td runs done", w->count.done);
  if (w->count.failed) atvi_io_text_add(&t, ", %td of them failed", w->count.failed);
  if (w->count.lost) atvi_io_text_add(&t, "; %td lost", w->count.lost);
  atvi_io_text_add(&t, "\n%td of all %td runs are good", result->good, w->j->points.n);
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
  atvi_sim_batch batch = batch_of(w->j);
  atvi_sim_report rep = {0};
  bool avoid;
  batch.source = &source;
  batch.jobs = w->jobs;
  const char *record = atvi_pool_printf(w->j->pool, "%s/%s", w->j->dir, ATVI_SIM_RECORD),
             *path = record ? atvi_sim_shards_path(w->j->pool, record, source.name) : NULL;
  if (!path) return atvi_pool_failed(w->j->pool) ? ATVI_ENOMEM : ATVI_EIO;
  ATVI_TRY(avoided(w, &avoid));
  if (avoid)
    return ATVI_FAIL(w->j->ctx, ATVI_EIO,
                     "host %s is avoided: runs could not be started there, or were killed, three times; "
                     "--status has the reasons",
                     atvi_sim_claims_host(w->claims));
  ATVI_TRY(atvi_sim_record_open(w->j->ctx, path, atvi_sim_simulator_shape(sim), &w->record));
  atvi_status status = atvi_sim_shards_begin(w->j->ctx, w->j->dir, path);
  if (status == ATVI_OK) status = atvi_sim_simulator_run(sim, w->record, &batch, &rep);
  if (status != ATVI_OK) end(w, atvi_errmsg(w->j->ctx));
  if (status == ATVI_OK) status = summarise_share(w, &rep, result);
  atvi_sim_record_free(w->record);
  if (w->count.done == 0 && w->count.failed == 0) unlink(path);
  return status;
}

/* Somebody runs the points of the folder without claims. */
static atvi_status check_record(const job *j) {
  const char *path = atvi_pool_printf(j->pool, "%s/%s", j->dir, ATVI_SIM_RECORD);
  if (!path) return ATVI_ENOMEM;
  if (!atvi_io_journal_used(path)) return ATVI_OK;
  return ATVI_FAIL(j->ctx, ATVI_EEXIST, "another atvi is using %s; workers cannot join it", path);
}

/* Does runs together with the other workers of the folder. */
static atvi_status run_worker(job *j, atvi_simulator *sim, atvi_app_run_result *result) {
  const atvi_sim_batch batch = batch_of(j);
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

static atvi_status begin(job *j, atvi_app_run_result *result) {
  atvi_simulator *sim = NULL;
  j->d = j->lang->simulator.n_input;
  j->name = atvi_app_program_inputs(j->pool, j->lang);
  j->dir = j->o->dir ? j->o->dir : atvi_sim_folder(j->pool, j->o->path);
  if (!j->name || !j->dir) return ATVI_ENOMEM;
  result->dir = j->dir;
  ATVI_TRY(atvi_app_program_points_read(j->pool, j->dir, j->d, j->name, &j->points));
  if (j->points.n == 0)
    return ATVI_FAIL(j->ctx, ATVI_EINVAL, "there is no design in %s; make one first: atvi design %s -n %td",
                     j->dir, j->o->path, 20 * j->d > 50 ? 20 * j->d : 50);
  const atvi_app_share *share = &j->o->share;
  if (share->status) return run_shared(j, result);
  ATVI_TRY(make_simulator(j, &sim));
  atvi_status status = share->worker                   ? run_worker(j, sim, result)
                       : share->slurm || share->submit ? run_shared(j, result)
                                                       : run_points(j, sim, result);
  atvi_sim_free(sim);
  return status;
}

atvi_status atvi_app_run(atvi_ctx *ctx, atvi_pool *pool, const atvi_app_run_opts *opts,
                         atvi_app_run_result *result) {
  job j = {.ctx = ctx, .pool = pool, .o = opts};
  atvi_lang *lang;
  *result = (atvi_app_run_result){0};
  ATVI_TRY(atvi_app_program_load(ctx, opts->path, opts->folder, &lang));
  j.lang = lang;
  atvi_status status = begin(&j, result);
  atvi_lang_free(lang);
  return status;
}
