/* SPDX-License-Identifier: MIT */
/* Many runs, several at once, from one thread: slots are checked in turn, and when nothing has happened we
 * sleep a little, longer each time, or until a program ends. Programs that take a millisecond lose a fraction
 * of it, and programs that take hours cost nothing to watch. */
#include "sim/detail.h"
#include "io/text.h"
#include "io/file.h"
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>

enum {
  MISSING_MAX = 3,   /* consecutive programs that could not be started before giving up */
  FAILED_FIRST = 10, /* failures before the first good run, after which all are considered wrong */
  ALIKE_FIRST = 3,   /* the same, if all have unreadable outputs for the same reason */
  TOLD_MAX = 10,     /* failures reported as they happen; the summary lists all */
  JOBS_MAX = 1000,
};
static const double PATIENCE_S = 5; /* for a file that another host may have written */
static const double GRACE_S = 2;    /* between asking a program to end and killing it */
static const double SLEEP_MIN_S = 2e-4, SLEEP_MAX_S = 0.02;
/* Where the end of every program wakes us, as signals do: progress is shown as often, but not that of a
 * worker. */
static const double SLEEP_LONG_S = 0.25, SLEEP_WORKER_S = 1;
static const double SLEEP_IDLE_S = 0.1; /* where others have all that is left */
static const double FREE_MIN =
    1 << 16; /* bytes; with less free space, a run may have failed because of that */

/* Of an item, this time. */
enum { KNOWN_BEFORE, TO_DO, DONE };

/* A run whose program could not be started, while that may hold for all. */
typedef struct {
  atvi_idx item;
  int attempt;
  double seconds;
  atvi_sim_reason why;
  const char *log;
} held_run;

typedef struct {
  atvi_simulator *s;
  atvi_sim_record *record;
  const atvi_sim_batch *b;
  const atvi_sim_source *from; /* NULL: all that the record lacks */
  bool over;                   /* nothing more comes from there */
  const char *work;            /* parent of the folders of runs */
  atvi_sim_report *report;
  atvi_idx *todo; /* [n_todo] items */
  atvi_idx n_todo, next;
  unsigned char *state; /* [n] */
  atvi_pool *pool;
  held_run *held; /* [n_held] */
  atvi_idx n_held, cap_held;
  atvi_idx n_slot;
  atvi_sim_slot *slot;
  struct pollfd *fd; /* [3 n_slot] */
  int missing;       /* in a row */
  atvi_idx n_alike;  /* failures, all for the reason below */
  char alike[400];   /* what is wrong with an output */
  double begun_s;
} loop;

/* "k = 0.31, m = 7.5" */
static void tell_point(const loop *l, atvi_idx item, char *out, size_t n) {
  const atvi_sim_spec *p = &l->s->spec;
  size_t used = 0;
  out[0] = 0;
  for (atvi_idx i = 0; i < p->d && used + 60 < n; i++) {
    int put = snprintf(out + used, n - used, "%s%.30s = %.6g", i ? ", " : "", p->param[i],
                       l->b->x[item * p->d + i]);
    used += put > 0 ? (size_t)put : 0;
  }
}

/* ---- one attempt ---- */

static atvi_status begin_attempt(loop *l, atvi_sim_slot *slot) {
  atvi_simulator *s = l->s;
  int64_t id = l->b->id[slot->item];
  const double *x = l->b->x + slot->item * s->spec.d;
  slot->attempt++;
  slot->started_s = atvi_clock_s();
  slot->ending_s = 0;
  slot->killed = false;
  slot->why[0] = 0;
  slot->waiting_s = 0;
  atvi_pool_free(slot->pool);
  slot->pool = NULL;
  if (atvi_pool_new(s->quiet, &slot->pool) != ATVI_OK) return ATVI_ENOMEM;
  slot->folder = s->spec.worker ? atvi_pool_printf(slot->pool, "%s/worker-%td", l->work, slot->number + 1)
                                : atvi_pool_printf(slot->pool, "%s/%06lld", l->work, (long long)id);
  if (!slot->folder) return ATVI_ENOMEM;
  slot->busy = true;
  return s->spec.worker ? atvi_sim_worker_begin(s, slot, x) : atvi_sim_once_begin(s, slot, id, x);
}

static atvi_status begin_run(loop *l, atvi_sim_slot *slot) {
  slot->item = l->todo[l->next++];
  slot->attempt = 0;
  slot->begun_s = atvi_clock_s();
  return begin_attempt(l, slot);
}

static void clear_folder(loop *l, atvi_sim_slot *slot, bool failed) {
  if (l->s->spec.worker) return;
  if (failed && l->b->keep_failed) {
    const char *root = atvi_pool_printf(slot->pool, "%s/failed", l->b->dir),
               *to = atvi_pool_printf(slot->pool, "%s/failed/%06lld", l->b->dir,
                                      (long long)l->b->id[slot->item]);
    if (root && to) {
      mkdir(root, 0777);
      if (atvi_sim_folder_remove(to) && rename(slot->folder, to) == 0) return;
      atvi_log(l->s->ctx, ATVI_LOG_WARN, "cannot move %s to %s: %s", slot->folder, to, strerror(errno));
      return; /* kept anyway */
    }
  }
  atvi_sim_folder_remove(slot->folder);
}

/* A run that failed because the disk is full says nothing about its point. */
static atvi_status check_disk(loop *l, const atvi_sim_slot *slot, const char *reason) {
  struct statvfs v;
  if (statvfs(l->b->dir, &v) != 0 || (double)v.f_bavail * (double)v.f_frsize >= FREE_MIN) return ATVI_OK;
  return ATVI_FAIL(l->s->ctx, ATVI_EIO,
                   "the disk is full: %s has %.0f kB left, and run %lld failed (%s); recorded runs are kept, "
                   "and the same command continues",
                   l->b->dir, (double)v.f_bavail * (double)v.f_frsize / 1024, (long long)l->b->id[slot->item],
                   reason);
}

/* What happens to programs then may not be their fault. */
static atvi_status check_guard(loop *l) {
  if (!atvi_guard_gone(&l->s->guard)) return ATVI_OK;
  return ATVI_FAIL(
      l->s->ctx, ATVI_EIO,
      "the process atvi-guard, which ends the programs if atvi itself is killed, was killed: everything was "
      "stopped, and nothing is recorded of the runs in progress; the same command repeats them");
}

/* The last line of a log, for messages of one line. */
static char *last_line(atvi_pool *pool, const char *log) {
  size_t n = log ? strlen(log) : 0;
  while (n > 0 && (log[n - 1] == '\n' || log[n - 1] == '\r' || log[n - 1] == ' ')) n--;
  size_t from = n;
  while (from > 0 && log[from - 1] != '\n') from--;
  return atvi_pool_strndup(pool, log ? log + from : "", n - from);
}

/* A script named by its path from the model does not exist: the most common mistake. */
static const char *advice(const char *log) {
  static const char *const word[] = {"can't open file", "cannot open", "No such file", "can't open"};
  for (size_t i = 0; log && i < sizeof word / sizeof word[0]; i++)
    if (strstr(log, word[i]))
      return "\nThe program runs in its own empty folder: {here} in the command is the model's folder, as "
             "in: python3 {here}/flow.py";
  return "";
}

static atvi_status give_up(loop *l, atvi_sim_slot *slot, const atvi_sim_end *end) {
  const char *line = last_line(slot->pool, end->log), *joint = line && line[0] ? ": " : "";
  if (!line) line = "";
  if (end->missing)
    return ATVI_FAIL_AS(l->s->ctx, ATVI_ECALL,
                        l->report->failed ? ATVI_CODE_SIMULATOR_FAILED : ATVI_CODE_NONE,
                        "the simulator cannot be started: %s%s%s\ncommand: %s\nThe command is run by /bin/sh "
                        "in its own folder; a first word with a slash is relative to the model file, and "
                        "$ATVI_MODEL_DIR is the model's folder.%s",
                        end->why.text, joint, line, l->s->spec.command,
                        l->report->failed ? "" : " Nothing was recorded for these runs.");
  return ATVI_FAIL_AS(
      l->s->ctx, ATVI_ECALL, ATVI_CODE_SIMULATOR_FAILED,
      "none of the first %td runs was good, so the rest was not started; the last one: %s%s%s%s",
      l->report->failed, end->why.text, joint, line, advice(end->log));
}

static void report_failure(loop *l, const held_run *how) {
  atvi_idx item = how->item;
  char point[400];
  if (l->report->failed > TOLD_MAX) return;
  tell_point(l, item, point, sizeof point);
  char *line = how->why.cause == ATVI_SIM_ENDED ? last_line(l->pool, how->log) : NULL;
  if (line) atvi_io_excerpt_clean(line);
  atvi_log(l->s->ctx, ATVI_LOG_NOTE, "run %lld failed: %s%s%.200s (%s)%s", (long long)l->b->id[item],
           how->why.text, line && line[0] ? ": " : "", line ? line : "", point,
           l->report->failed == TOLD_MAX ? "; further failures are listed at the end" : "");
}

static atvi_status put(loop *l, atvi_idx item, const held_run *how, const atvi_sim_series *out) {
  atvi_sim_run run = {.id = l->b->id[item],
                      .x = l->b->x + item * l->s->spec.d,
                      .ok = !how->why.text,
                      .out = out,
                      .seconds = how->seconds,
                      .attempts = how->attempt,
                      .reason = how->why.text,
                      .ended = how->why.cause == ATVI_SIM_ENDED,
                      .log = how->log};
  ATVI_TRY(atvi_sim_record_add(l->record, &run));
  l->state[item] = DONE;
  l->report->left--;
  if (run.ok)
    l->report->ok++;
  else
    l->report->failed++;
  if (l->from) l->from->done(l->from->self, item, run.ok, run.seconds);
  return ATVI_OK;
}

static bool hold(loop *l, held_run how) {
  if (!ATVI_PUSH(l->pool, l->held, l->n_held, l->cap_held)) return false;
  how.why.text = atvi_pool_strndup(l->pool, how.why.text, strlen(how.why.text));
  how.log = how.log ? atvi_pool_strndup(l->pool, how.log, strlen(how.log)) : NULL;
  l->held[l->n_held++] = how;
  return !atvi_pool_failed(l->pool);
}

/* The program exists after all: those points kept it from starting. */
static atvi_status put_held(loop *l) {
  for (; l->n_held > 0; l->n_held--) {
    const held_run *how = &l->held[l->n_held - 1];
    ATVI_TRY(put(l, how->item, how, NULL));
    report_failure(l, how);
  }
  return ATVI_OK;
}

/* Whether runs are left that were not begun. */
static bool more(const loop *l) { return l->next < l->n_todo || (l->from && !l->over); }

/* Whether any run, even an old one, was good. */
static bool proved(const loop *l) {
  return atvi_sim_record_count(l->record, true) > 0 || (l->from && l->from->proved(l->from->self));
}

/* Whether each of the first good runs has different times, as with a program that chooses its own steps. */
static atvi_status check_times(loop *l, atvi_idx most) {
  atvi_idx other;
  if (l->report->ok != most || !more(l)) return ATVI_OK;
  ATVI_TRY(atvi_sim_record_settle(l->record, &other));
  if (other <= atvi_sim_record_count(l->record, true)) return ATVI_OK;
  const char *why = "";
  for (atvi_idx i = 0; i < l->b->n; i++) {
    const atvi_sim_run *k = atvi_sim_record_find(l->record, l->b->id[i]);
    if (l->state[i] == DONE && k && !k->ok && k->reason) why = k->reason;
  }
  return ATVI_FAIL_AS(l->s->ctx, ATVI_ECALL, ATVI_CODE_RUNS_TIMES,
                      "the runs do not have the same times, so the rest was not started: %td of the good "
                      "ones are %s\nAll runs must have their outputs at the same times.",
                      other, why);
}

/* Whether all failures so far are the same unreadable output of a program that ended well: then the model's
 * line about it is wrong. */
static bool all_alike(loop *l, const atvi_sim_reason *why) {
  if (why->cause != ATVI_SIM_OUTPUT || strlen(why->text) >= sizeof l->alike) return false;
  if (l->n_alike == 0) snprintf(l->alike, sizeof l->alike, "%s", why->text);
  if (strcmp(l->alike, why->text) == 0) l->n_alike++;
  return l->n_alike == l->report->failed;
}

/* Status 126 or 127 of the shell, no program, is believed until any run, even an old one, was good. After
 * that it is an ordinary failure, because a script may end like that too, unless it happens again and
 * again. */
static atvi_status finish(loop *l, atvi_sim_slot *slot, atvi_sim_end *end) {
  ATVI_TRY(check_guard(l));
  slot->busy = false;
  const held_run how = {slot->item, slot->attempt, atvi_clock_s() - slot->started_s, end->why, end->log};
  if (l->from && !l->from->keep(l->from->self, slot->item)) { /* another process does it now */
    clear_folder(l, slot, false);
    return ATVI_OK;
  }
  if (l->from && (end->missing || end->killed) && !l->from->lost(l->from->self, slot->item, end->why.text)) {
    clear_folder(l, slot, false);
    return ATVI_OK;
  }
  l->missing = end->missing ? l->missing + 1 : 0;
  if (end->missing && !l->from && !proved(l)) {
    if (!hold(l, how)) return ATVI_ENOMEM;
    clear_folder(l, slot, false);
    return l->missing >= MISSING_MAX || l->missing >= l->n_todo ? give_up(l, slot, end) : ATVI_OK;
  }
  if (end->why.text) ATVI_TRY(check_disk(l, slot, end->why.text));
  if (end->why.text && slot->attempt <= l->b->retries) return begin_attempt(l, slot);
  ATVI_TRY(put(l, slot->item, &how, end->out));
  l->report->run_seconds += atvi_clock_s() - slot->begun_s;
  clear_folder(l, slot, end->why.text != NULL);
  atvi_idx most = FAILED_FIRST > 2 * l->n_slot ? FAILED_FIRST : 2 * l->n_slot;
  if (!end->why.text) {
    ATVI_TRY(put_held(l));
    return check_times(l, most);
  }
  report_failure(l, &how);
  if (all_alike(l, &end->why)) most = ALIKE_FIRST;
  bool hopeless = l->missing >= most || (l->report->failed >= most && !proved(l));
  return hopeless && more(l) ? give_up(l, slot, end) : ATVI_OK;
}

/* ---- all slots ---- */

/* Asks a program to end, and kills it if it does not. */
static void hurry(loop *l, atvi_sim_slot *slot, double now) {
  double limit = l->b->limit_s;
  if (slot->waiting_s > 0) return; /* it has ended */
  if (!slot->why[0] && limit > 0 && now - slot->started_s > limit)
    snprintf(slot->why, sizeof slot->why, "it took longer than its limit of %.6g s", limit);
  if (!slot->why[0]) return;
  if (slot->ending_s == 0) {
    slot->ending_s = now;
    atvi_sim_proc_signal(&slot->proc, SIGTERM);
    atvi_sim_proc_signal(&slot->proc, SIGCONT); /* a stopped process would never receive it */
  } else if (!slot->killed && now - slot->ending_s > GRACE_S) {
    slot->killed = true;
    atvi_sim_proc_signal(&slot->proc, SIGKILL);
  }
}

static atvi_status look(loop *l, bool *happened) {
  for (atvi_idx k = 0; k < l->n_slot; k++) {
    atvi_sim_slot *slot = &l->slot[k];
    atvi_sim_end end;
    if (!slot->busy) continue;
    ATVI_TRY(l->s->spec.worker ? atvi_sim_worker_look(l->s, slot, &end)
                               : atvi_sim_once_look(l->s, slot, &end));
    if (end.ended) {
      *happened = true;
      ATVI_TRY(finish(l, slot, &end));
    } else {
      hurry(l, slot, atvi_clock_s());
    }
  }
  return atvi_sim_record_sync(l->record); /* of all that ended, before any begins in their places */
}

/* How long to sleep, if the last time was `before`: longer each time, or at once as long as possible if the
 * end of every program wakes us. */
static double next_nap(const loop *l, double before) {
  double most = l->from ? SLEEP_WORKER_S : SLEEP_LONG_S, now = atvi_clock_s(), limit = l->b->limit_s;
  bool busy = false;
  for (atvi_idx k = 0; k < l->n_slot; k++) {
    const atvi_sim_slot *slot = &l->slot[k];
    if (!slot->busy) continue;
    busy = true;
    if (slot->proc.end < 0 || slot->why[0] || slot->closed_s > 0) return fmin(1.5 * before, SLEEP_MAX_S);
    if (limit > 0) most = fmin(most, fmax(slot->started_s + limit - now, SLEEP_MIN_S));
  }
  return busy ? most : l->from ? SLEEP_IDLE_S : SLEEP_MAX_S;
}

/* Waits until a program ends or a worker answers, or for that time. */
static void nap(loop *l, double seconds) {
  nfds_t n = 0;
  for (atvi_idx k = 0; k < l->n_slot; k++) {
    const atvi_sim_slot *slot = &l->slot[k];
    if (slot->busy && slot->proc.end >= 0)
      l->fd[n++] = (struct pollfd){.fd = slot->proc.end, .events = POLLIN};
    if (!slot->busy || slot->proc.out < 0 || slot->why[0] || slot->closed_s > 0) continue;
    l->fd[n++] = (struct pollfd){.fd = slot->proc.out, .events = POLLIN};
    if (slot->sent < slot->n_line) l->fd[n++] = (struct pollfd){.fd = slot->proc.in, .events = POLLOUT};
  }
  int ms = (int)(seconds * 1e3);
  if (ms >= 1 || n > 0) {
    poll(l->fd, n, ms > 1 ? ms : 1);
    return;
  }
  nanosleep(&(struct timespec){.tv_nsec = (long)(seconds * 1e9)}, NULL);
}

static void tell(const loop *l) {
  atvi_idx done = l->report->ok + l->report->failed;
  char failed[40] = "";
  if (l->report->failed) snprintf(failed, sizeof failed, ", %td failed", l->report->failed);
  atvi_tell(l->s->ctx, "runs", (double)done / (double)l->n_todo, atvi_clock_s() - l->begun_s, "%td of %td%s",
            done, l->n_todo, failed);
}

/* Asks for items if all were begun. */
static atvi_status refill(loop *l) {
  if (!l->from || l->over || l->next < l->n_todo) return ATVI_OK;
  l->next = 0;
  return l->from->take(l->from->self, l->b->n, l->todo, &l->n_todo, &l->over);
}

static atvi_status go_round(loop *l) {
  double pause = SLEEP_MIN_S;
  for (;;) {
    bool happened = false, busy = false, stop = atvi_stop_asked(l->s->ctx);
    if (l->from && !stop) ATVI_TRY(l->from->tick(l->from->self, &stop));
    if (stop) {
      l->report->stopped = true;
      return ATVI_OK;
    }
    for (atvi_idx k = 0; k < l->n_slot; k++) {
      if (!l->slot[k].busy) ATVI_TRY(refill(l));
      if (!l->slot[k].busy && l->next < l->n_todo) {
        ATVI_TRY(begin_run(l, &l->slot[k]));
        happened = true;
      }
      busy = busy || l->slot[k].busy;
    }
    if (!busy && (!l->from || l->over)) return ATVI_OK;
    ATVI_TRY(check_guard(l));
    ATVI_TRY(look(l, &happened));
    if (!l->from) tell(l);
    pause = happened ? SLEEP_MIN_S : next_nap(l, pause);
    if (!happened) nap(l, pause);
  }
}

/* Ends what is still running: asks first, then kills. Removes the folders of unfinished runs. */
static void end_all(loop *l) {
  double begun = atvi_clock_s();
  bool waiting = true;
  for (atvi_idx k = 0; k < l->n_slot; k++) {
    atvi_sim_proc_signal(&l->slot[k].proc, SIGTERM);
    atvi_sim_proc_signal(&l->slot[k].proc, SIGCONT);
  }
  while (waiting && atvi_clock_s() - begun < GRACE_S) {
    waiting = false;
    for (atvi_idx k = 0; k < l->n_slot; k++) waiting = waiting || !atvi_sim_proc_over(&l->slot[k].proc);
    if (waiting) nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
  }
  for (atvi_idx k = 0; k < l->n_slot; k++) {
    atvi_sim_slot *slot = &l->slot[k];
    atvi_sim_proc_kill(&slot->proc);
    if (slot->pool && slot->folder && (slot->busy || l->s->spec.worker)) atvi_sim_folder_remove(slot->folder);
    atvi_pool_free(slot->pool);
    atvi_block_free(l->s->quiet, slot->answer);
  }
}

/* ---- which runs to do ---- */

static bool same(atvi_idx d, const double *a, const double *b) {
  for (atvi_idx i = 0; i < d; i++)
    if (fabs(a[i] - b[i]) > 1e-12 * fabs(b[i])) return false;
  return true;
}

static atvi_status plan(loop *l) {
  const atvi_sim_batch *b = l->b;
  atvi_idx d = l->s->spec.d;
  for (atvi_idx i = 0; i < b->n; i++) {
    const atvi_sim_run *known = atvi_sim_record_find(l->record, b->id[i]);
    if (known && !same(d, known->x, b->x + i * d))
      return ATVI_FAIL(
          l->s->ctx, ATVI_EINVAL,
          "the record in %s has other parameters for run %lld than the design: it belongs to another design",
          b->dir, (long long)b->id[i]);
    if (known && known->ok)
      l->report->had_ok++;
    else if (known && !b->retry_failed)
      l->report->had_failed++;
    else {
      l->todo[l->n_todo++] = i;
      l->state[i] = TO_DO;
    }
  }
  l->report->left = l->n_todo;
  return ATVI_OK;
}

/* Runs at other times than most fail only when all are considered together. */
static atvi_status recount(loop *l) {
  atvi_sim_report *p = l->report;
  atvi_idx other;
  ATVI_TRY(atvi_sim_record_settle(l->record, &other));
  p->had_ok = p->had_failed = p->ok = p->failed = 0;
  for (atvi_idx i = 0; i < l->b->n; i++) {
    const atvi_sim_run *k = atvi_sim_record_find(l->record, l->b->id[i]);
    if (!k || l->state[i] == TO_DO) continue;
    if (l->state[i] == DONE)
      *(k->ok ? &p->ok : &p->failed) += 1;
    else
      *(k->ok ? &p->had_ok : &p->had_failed) += 1;
  }
  return ATVI_OK;
}

static atvi_status run_all(loop *l) {
  const char *work = atvi_pool_printf(l->s->pool, "%s/work", l->b->dir);
  l->work = l->from ? atvi_pool_printf(l->s->pool, "%s/work/%s", l->b->dir, l->from->name) : work;
  if (!work || !l->work) return ATVI_ENOMEM;
  l->s->patience_s = l->from ? PATIENCE_S : 0;
  ATVI_TRY(atvi_sim_fresh_folder(l->s, l->work)); /* a killed run may have left something */
  if (!atvi_guard_start(&l->s->guard))
    atvi_log(l->s->ctx, ATVI_LOG_WARN,
             "there is no process to end the programs if atvi itself is killed: %s; then they go on",
             strerror(errno));
  atvi_status status = go_round(l);
  for (atvi_idx k = 0; l->from && k < l->n_slot; k++)
    if (l->slot[k].busy) l->from->cut(l->from->self, l->slot[k].item);
  end_all(l);
  if (status == ATVI_OK) status = atvi_sim_record_sync(l->record);
  atvi_guard_end(&l->s->guard);
  atvi_sim_folder_remove(l->work);
  return status;
}

atvi_status atvi_sim_simulator_run(atvi_simulator *s, atvi_sim_record *record, const atvi_sim_batch *batch,
                                   atvi_sim_report *report) {
  loop l = {.s = s, .record = record, .b = batch, .report = report, .begun_s = atvi_clock_s()};
  l.from = batch->source;
  *report = (atvi_sim_report){0};
  atvi_pool *pool;
  ATVI_TRY(atvi_pool_new(s->ctx, &pool));
  l.n_slot = batch->jobs > 0 ? batch->jobs : atvi_ctx_threads(s->ctx);
  if (l.n_slot > JOBS_MAX) l.n_slot = JOBS_MAX;
  l.pool = pool;
  l.todo = atvi_pool_take(pool, (size_t)batch->n + 1, sizeof *l.todo);
  l.state = atvi_pool_take(pool, (size_t)batch->n + 1, sizeof *l.state);
  l.slot = atvi_pool_take(pool, (size_t)l.n_slot, sizeof *l.slot);
  l.fd = atvi_pool_take(pool, 3 * (size_t)l.n_slot, sizeof *l.fd);
  atvi_status status = l.todo && l.state && l.slot && l.fd ? ATVI_OK : ATVI_ENOMEM;
  if (status == ATVI_OK && !l.from) status = plan(&l);
  if (status == ATVI_OK && (l.n_todo > 0 || l.from)) {
    if (l.n_slot > l.n_todo && !l.from) l.n_slot = l.n_todo;
    for (atvi_idx k = 0; k < l.n_slot; k++) {
      l.slot[k].number = k;
      l.slot[k].proc = ATVI_PROC_NONE;
    }
    status = run_all(&l);
    atvi_status counted = recount(&l);
    if (status == ATVI_OK) status = counted;
  }
  if (l.from) report->left = 0;
  report->seconds = atvi_clock_s() - l.begun_s;
  atvi_pool_free(pool);
  return status;
}
