/* SPDX-License-Identifier: MIT */
/* Hands workers to a scheduler: a script that starts one worker, and the scheduler's own command, which
 * places, queues and starts it as often as asked. */
#define _DEFAULT_SOURCE /* popen, timegm */
#include "app/share.h"
#include "app/common.h"
#include "io/csv.h"
#include "io/file.h"
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { OUTPUT = 4096, ARRAY_MAX = 1001 /* MaxArraySize of Slurm where nothing else is set */ };
static const double LOOK_S = 0.2,
                    LOOK_PART = 20; /* between looks at the files: at least, and in terms of their cost */
static const double LEAVE_S = 10;   /* for workers to end after the last item */
static const double SQUEUE_S = 20;  /* between looks at the queue */

/* ---- the script ---- */

static const char *whole_path(atvi_pool *pool, const char *path) {
  char real[PATH_MAX];
  return realpath(path, real) ? atvi_pool_strndup(pool, real, strlen(real)) : path;
}

static const char *own_program(atvi_pool *pool) {
  char path[PATH_MAX];
  ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
  return n > 0 ? atvi_pool_strndup(pool, path, (size_t)n) : "atvi";
}

/* exec: the scheduler's signals reach the worker itself. */
static atvi_status write_script(const atvi_share *s, const char *path) {
  atvi_text t = {.pool = s->pool};
  const char *text;
  char here[PATH_MAX];
  atvi_io_text_add(
      &t, "#!/bin/sh\n# One worker. Written by atvi; any number of them may run at the same time.\ncd ");
  atvi_app_quoted(&t, getcwd(here, sizeof here) ? here : ".");
  atvi_io_text_add(&t, " || exit 1\nexec ");
  atvi_app_quoted(&t, own_program(s->pool));
  for (atvi_idx i = 0; i < s->o->n_argv; i++) {
    atvi_io_text_add(&t, " ");
    atvi_app_quoted(&t, s->o->argv[i]);
  }
  atvi_io_text_add(&t, "\n");
  ATVI_TRY(atvi_io_text_get(&t, &text));
  ATVI_TRY(atvi_io_file_save(s->ctx, path, text, (size_t)t.n));
  return chmod(path, 0755) == 0 ? ATVI_OK : atvi_io_file_cannot(s->ctx, "make executable", path, errno);
}

/* ---- commands ---- */

/* Output and errors of a command, at most OUTPUT - 1 bytes; its status, -1: it could not be run. */
static int call(atvi_pool *pool, const char *command, char out[OUTPUT]) {
  const char *both = atvi_pool_printf(pool, "{ %s\n} 2>&1", command);
  FILE *f = both ? popen(both, "re") : NULL;
  out[0] = 0;
  if (!f) return -1;
  size_t n = fread(out, 1, OUTPUT - 1, f);
  out[n] = 0;
  while (n > 0 && (out[n - 1] == '\n' || out[n - 1] == ' ')) out[--n] = 0;
  for (char rest[512]; fread(rest, 1, sizeof rest, f) > 0;) {}
  int status = pclose(f);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Most workers of one array. */
static atvi_idx array_max(atvi_pool *pool) {
  char out[OUTPUT];
  int most = 0;
  if (call(pool, "scontrol show config | grep -i '^MaxArraySize'", out) == 0) {
    const char *equals = strchr(out, '=');
    if (equals) most = atoi(equals + 1);
  }
  return (most > 1 ? most : ARRAY_MAX) - 1; /* numbers go up to one less */
}

static atvi_status refused(const atvi_share *s, const char *command, const char *said, atvi_idx before) {
  return ATVI_FAIL(s->ctx, ATVI_ECALL,
                   "the scheduler did not accept the workers: %s\ncommand: %s\n%td workers were submitted. "
                   "If there is a limit to the number of jobs, ask for fewer workers: each does many %ss.",
                   said[0] ? said : "it said nothing", command, before, s->item);
}

/* Several arrays if one cannot have them all. *jobs: their numbers, separated by commas. */
static atvi_status submit_slurm(const atvi_share *s, const char *script, atvi_idx workers,
                                const char **jobs) {
  atvi_idx most = array_max(s->pool);
  const char *logs = atvi_pool_printf(s->pool, "%s/logs", whole_path(s->pool, s->dir));
  atvi_text list = {.pool = s->pool};
  if (!logs) return ATVI_ENOMEM;
  ATVI_TRY(atvi_io_dir_make(s->ctx, logs, false));
  for (atvi_idx sent = 0; sent < workers;) {
    atvi_idx n = workers - sent < most ? workers - sent : most;
    atvi_text t = {.pool = s->pool};
    const char *command;
    char out[OUTPUT];
    atvi_io_text_add(&t, "sbatch --parsable --array=1-%td --requeue --open-mode=append --job-name=", n);
    atvi_app_quoted(&t, s->job);
    atvi_io_text_add(&t, " --output=");
    atvi_app_quoted(&t, atvi_pool_printf(s->pool, "%s/%%A_%%a.txt", logs));
    atvi_io_text_add(&t, " %s ", s->o->slurm);
    atvi_app_quoted(&t, script);
    ATVI_TRY(atvi_io_text_get(&t, &command));
    if (call(s->pool, command, out) != 0) return refused(s, command, out, sent);
    const char *line = strrchr(out, '\n'); /* warnings come before it */
    atvi_io_text_add(&list, "%s%.*s", sent ? "," : "", (int)strcspn(line ? line + 1 : out, ";"),
                     line ? line + 1 : out);
    sent += n;
  }
  return atvi_io_text_get(&list, jobs);
}

/* The command with {n} and {script} filled in. Without {n} it is called once per worker. */
static atvi_status submit_other(const atvi_share *s, const char *script, atvi_idx workers,
                                const char **said) {
  const char *text = s->o->submit;
  bool array = strstr(text, "{n}") != NULL;
  if (!strstr(text, "{script}"))
    return ATVI_FAIL(s->ctx, ATVI_EINVAL,
                     "--submit '%s': want {script}, which is the script of a worker, and {n}, the number of "
                     "workers, if the command starts all of them, such as: qsub -t 1-{n} {script}",
                     text);
  char out[OUTPUT] = "";
  for (atvi_idx sent = 0; sent < (array ? 1 : workers); sent++) {
    atvi_text t = {.pool = s->pool};
    const char *command;
    for (const char *p = text; *p;) {
      if (strncmp(p, "{n}", 3) == 0)
        atvi_io_text_add(&t, "%td", workers), p += 3;
      else if (strncmp(p, "{script}", 8) == 0)
        atvi_app_quoted(&t, script), p += 8;
      else
        atvi_io_text_add(&t, "%c", *p++);
    }
    ATVI_TRY(atvi_io_text_get(&t, &command));
    if (call(s->pool, command, out) != 0) return refused(s, command, out, sent);
  }
  *said = atvi_pool_printf(s->pool, "%s", out);
  return *said ? ATVI_OK : ATVI_ENOMEM;
}

/* ---- what the files of a folder say about its items and workers: nobody is asked, and nothing is changed ---- */

enum { HOSTS_MAX = 20, FAILED_MAX = 12, LOST_MAX = 8 }; /* lines that are shown */

typedef struct {
  const char *name;
  atvi_idx workers, running, done;
  atvi_idx lost;
  const char *why; /* of the last loss */
} host;

static void count(const atvi_share_items *it, atvi_claims_view *v, atvi_share_counts *out) {
  const atvi_claims_worker *w;
  *out = (atvi_share_counts){0};
  for (atvi_idx i = 0; i < it->n; i++) {
    out->good += it->state[i] == ATVI_SIM_GOOD;
    out->failed += it->state[i] == ATVI_SIM_FAILED;
    if (it->state[i] == ATVI_SIM_OPEN) out->held += atvi_sim_claims_holder(v, it->id[i]) != NULL;
  }
  out->open = it->n - out->good - out->failed;
  for (atvi_idx i = atvi_sim_claims_workers(v, &w); i-- > 0;) out->workers += w[i].alive;
}

/* The counts alone. */
static atvi_status share_count(const atvi_share *s, atvi_pool *pool, atvi_share_counts *out) {
  atvi_claims_view *v;
  atvi_share_items it = {0};
  ATVI_TRY(atvi_sim_claims_view(pool, s->claims, &v));
  ATVI_TRY(s->look(s->self, pool, &it));
  count(&it, v, out);
  return ATVI_OK;
}

/* Until all are done; NaN: not known. */
static double seconds_left(const atvi_share_items *it, const atvi_claims_view *v, atvi_idx open) {
  const atvi_claims_worker *w;
  atvi_idx slots = 0;
  for (atvi_idx i = atvi_sim_claims_workers(v, &w); i-- > 0;) slots += w[i].alive ? w[i].jobs : 0;
  return it->n_timed && slots ? it->seconds / (double)it->n_timed * (double)open / (double)slots : NAN;
}

static int by_host(const void *a, const void *b) {
  const host *x = a, *y = b;
  return strcmp(x->name, y->name);
}

static host *host_of(host *list, atvi_idx n, const char *name) {
  return n ? bsearch(&(host){.name = name}, list, (size_t)n, sizeof *list, by_host) : NULL;
}

/* Hosts of workers and losses, each once. */
static atvi_idx list_hosts(const atvi_share *s, atvi_claims_view *v, host **out) {
  const atvi_claims_worker *w;
  const atvi_claims_loss *l;
  atvi_idx n_worker = atvi_sim_claims_workers(v, &w), n_loss = atvi_sim_claims_losses(v, &l), n = 0, m = 0;
  host *all = *out = atvi_pool_take(s->pool, (size_t)(n_worker + n_loss) + 1, sizeof *all);
  if (!all) return 0;
  for (atvi_idx i = 0; i < n_worker; i++) all[n++].name = w[i].host;
  for (atvi_idx i = 0; i < n_loss; i++) all[n++].name = l[i].host;
  if (n) qsort(all, (size_t)n, sizeof *all, by_host);
  for (atvi_idx i = 0; i < n; i++)
    if (i == 0 || strcmp(all[i].name, all[m - 1].name) != 0) all[m++] = all[i];
  return m;
}

static int by_text(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static atvi_idx count_hosts(const atvi_share *s, const atvi_share_items *it, atvi_claims_view *v,
                            host **out) {
  const atvi_claims_worker *w;
  const atvi_claims_loss *l;
  atvi_idx n = list_hosts(s, v, out), n_worker = atvi_sim_claims_workers(v, &w),
           n_loss = atvi_sim_claims_losses(v, &l);
  for (atvi_idx i = 0; i < n_worker; i++) {
    host *h = host_of(*out, n, w[i].host);
    const char *const *p =
        it->n_part ? bsearch(&w[i].name, it->part, (size_t)it->n_part, sizeof *p, by_text) : NULL;
    if (!h) continue;
    if (p) h->done += it->part_done[p - it->part];
    h->workers += w[i].alive;
  }
  for (atvi_idx i = 0; i < it->n; i++) {
    if (it->state[i] != ATVI_SIM_OPEN) continue;
    const atvi_claims_worker *who = atvi_sim_claims_holder(v, it->id[i]);
    host *h = who ? host_of(*out, n, who->host) : NULL;
    if (h) h->running++;
  }
  for (atvi_idx i = 0; i < n_loss; i++) {
    host *h = host_of(*out, n, l[i].host);
    if (h) h->lost++, h->why = l[i].text;
  }
  return n;
}

static void add_hosts(atvi_text *t, const char *item, const host *h, atvi_idx n) {
  atvi_idx shown = 0, alive = 0;
  for (atvi_idx i = 0; i < n; i++) {
    if (h[i].workers == 0) continue;
    if (shown++ == 0) atvi_io_text_add(t, "\n%-24s %8s %8s %8s\n", "host", "workers", "claimed", "done");
    alive++;
    if (shown <= HOSTS_MAX)
      atvi_io_text_add(t, "%-24s %8td %8td %8td\n", h[i].name, h[i].workers, h[i].running, h[i].done);
  }
  if (alive > HOSTS_MAX) atvi_io_text_add(t, "and %td more hosts\n", alive - HOSTS_MAX);
  shown = 0;
  for (atvi_idx i = 0; i < n; i++) {
    if (h[i].lost == 0 || ++shown > LOST_MAX) continue;
    if (shown == 1) atvi_io_text_add(t, "\n%ss that were lost and will be repeated:\n", item);
    atvi_io_text_add(t, "  %td on %s; the last: %s\n", h[i].lost, h[i].name,
                     h[i].why && h[i].why[0] ? h[i].why : "?");
  }
}

static void add_failed(atvi_text *t, const atvi_share *s, const atvi_share_items *it, atvi_idx failed) {
  atvi_idx shown = 0;
  if (failed) atvi_io_text_add(t, "\nfailed %ss:\n", s->item);
  for (atvi_idx i = 0; i < it->n && shown < FAILED_MAX; i++) {
    if (it->state[i] != ATVI_SIM_FAILED) continue;
    const char *name = it->label ? it->label(s->self, s->pool, i)
                                 : atvi_pool_printf(s->pool, "%s %lld", s->item, (long long)it->id[i]);
    atvi_io_text_add(t, "  %s: %s\n", name ? name : "?", atvi_app_share_words(s->pool, it->reason[i]));
    shown++;
  }
  if (shown < failed) atvi_io_text_add(t, "  and %td more, in the record\n", failed - shown);
}

atvi_status atvi_app_share_status(const atvi_share *s, const char **text, atvi_share_counts *c) {
  atvi_claims_view *v;
  atvi_share_items it = {0};
  atvi_text t = {.pool = s->pool};
  host *h;
  ATVI_TRY(atvi_sim_claims_view(s->pool, s->claims, &v));
  ATVI_TRY(s->look(s->self, s->pool, &it));
  count(&it, v, c);
  atvi_io_text_add(&t, "%td of %td %ss are good", c->good, it.n, s->item);
  if (c->failed) atvi_io_text_add(&t, ", %td failed", c->failed);
  if (c->open) atvi_io_text_add(&t, ", %td not done yet", c->open);
  atvi_io_text_add(&t, "\n");
  double left_s = seconds_left(&it, v, c->open);
  if (c->workers)
    atvi_io_text_add(&t, "%td worker%s running, %td %ss claimed", c->workers,
                     c->workers == 1 ? " is" : "s are", c->held, s->item);
  else if (c->open)
    atvi_io_text_add(&t, "no worker is running\n");
  if (c->workers && c->open && !isnan(left_s)) {
    char left[ATVI_DURATION_BYTES];
    atvi_io_format_duration(left, left_s, false);
    atvi_io_text_add(&t, ", about %s left", left);
  }
  if (c->workers) atvi_io_text_add(&t, "\n");
  atvi_idx n = count_hosts(s, &it, v, &h);
  if (h) add_hosts(&t, s->item, h, n);
  add_failed(&t, s, &it, c->failed);
  return atvi_io_text_get(&t, text);
}

const char *atvi_app_share_words(atvi_pool *pool, const char *reason) {
  enum { MOST = 160 };
  const char *r = reason && reason[0] ? reason : "?";
  char *text = atvi_pool_printf(pool, "%.*s%s", MOST, r, strlen(r) > MOST ? " ..." : "");
  if (text) atvi_io_excerpt_clean(text);
  return text ? text : "?";
}

/* ---- waiting ---- */

/* Whether the queue still has one of the jobs; true if it cannot be asked, which may pass. */
static bool queued(atvi_pool *pool, const char *jobs) {
  char out[OUTPUT];
  const char *command = atvi_pool_printf(pool, "squeue -h -o %%i -j %s", jobs);
  if (!command) return true;
  int status = call(pool, command, out);
  if (status != 0) return !strstr(out, "Invalid job id");
  return out[0] != 0;
}

static atvi_status wait_for(const atvi_share *s, const char *jobs) {
  double begun = atvi_clock_s(), asked = begun, open_s = begun;
  bool there = true;
  atvi_status status = ATVI_OK;
  while (status == ATVI_OK && !atvi_stop_asked(s->ctx)) {
    atvi_pool *pool;
    atvi_share_counts c = {0};
    double looked = atvi_clock_s();
    if ((status = atvi_pool_new(s->ctx, &pool)) != ATVI_OK) break;
    status = share_count(s, pool, &c);
    if (jobs && atvi_clock_s() - asked > SQUEUE_S) {
      there = queued(pool, jobs);
      asked = atvi_clock_s();
    }
    atvi_pool_free(pool);
    if (c.open > 0) open_s = atvi_clock_s();
    if (status != ATVI_OK || (c.workers == 0 && (c.open == 0 || !there)) || atvi_clock_s() - open_s > LEAVE_S)
      break;
    char failed[40] = "";
    atvi_idx done = c.good + c.failed, all = done + c.open;
    if (c.failed) snprintf(failed, sizeof failed, ", %td failed", c.failed);
    atvi_tell(s->ctx, "workers", (double)done / (double)all, atvi_clock_s() - begun,
              "%td of %td %ss%s, %td workers", done, all, s->item, failed, c.workers);
    double until = atvi_clock_s() + fmax(LOOK_S, LOOK_PART * (atvi_clock_s() - looked));
    while (atvi_clock_s() < until && !atvi_stop_asked(s->ctx))
      nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
  }
  return status;
}

/* ---- all of it ---- */

atvi_status atvi_app_share_submit(const atvi_share *s, const char **text, atvi_share_counts *c) {
  const char *script = atvi_pool_printf(s->pool, "%s/worker.sh", whole_path(s->pool, s->dir)), *said = "";
  if (!script) return ATVI_ENOMEM;
  ATVI_TRY(share_count(s, s->pool, c));
  if (c->open == 0) return atvi_app_share_status(s, text, c);
  atvi_idx workers = s->o->workers > 0 ? s->o->workers : 1;
  if (workers > c->open) workers = c->open;
  ATVI_TRY(write_script(s, script));
  ATVI_TRY(s->o->slurm ? submit_slurm(s, script, workers, &said) : submit_other(s, script, workers, &said));
  if (s->o->wait) {
    ATVI_TRY(wait_for(s, s->o->slurm ? said : NULL));
    return atvi_app_share_status(s, text, c);
  }
  *text =
      atvi_pool_printf(s->pool, "%td worker%s submitted for %td %ss%s%s\n'%s --status' shows what they do\n",
                       workers, workers == 1 ? " was" : "s were", c->open, s->item,
                       s->o->slurm ? ": job "
                       : said[0]   ? ": "
                                   : "",
                       said, s->command);
  return *text ? ATVI_OK : ATVI_ENOMEM;
}

atvi_status atvi_app_share_alone(atvi_ctx *ctx, const char *claims) {
  atvi_claims_view *v;
  const atvi_claims_worker *w;
  atvi_idx alive = 0;
  atvi_pool *pool;
  ATVI_TRY(atvi_pool_new(ctx, &pool));
  atvi_status status = atvi_sim_claims_view(pool, claims, &v);
  for (atvi_idx i = status == ATVI_OK ? atvi_sim_claims_workers(v, &w) : 0; i-- > 0;) alive += w[i].alive;
  if (alive)
    status = ATVI_FAIL(ctx, ATVI_EEXIST,
                       "%td worker%s at work in %s: --status shows what they do, --worker joins them", alive,
                       alive == 1 ? " is" : "s are", claims);
  else if (status == ATVI_OK)
    atvi_sim_claims_clear(claims);
  atvi_pool_free(pool);
  return status;
}

double atvi_app_share_end_s(atvi_pool *pool, const atvi_app_share *o) {
  const char *given = getenv("SLURM_JOB_END_TIME"), *job = getenv("SLURM_JOB_ID");
  char out[OUTPUT];
  double end = 0;
  if (o->until_s > 0) return o->until_s;
  if (given && strtod(given, NULL) > 0) return strtod(given, NULL);
  const char *command = job ? atvi_pool_printf(pool, "squeue -h -o %%e -j %s", job) : NULL;
  if (!command || call(pool, command, out) != 0 || !strchr(out, 'T') || !atvi_app_share_until(out, &end))
    return 0;
  return end;
}

bool atvi_app_share_requeue(atvi_ctx *ctx) {
  const char *array = getenv("SLURM_ARRAY_JOB_ID"), *task = getenv("SLURM_ARRAY_TASK_ID"),
             *job = getenv("SLURM_JOB_ID");
  char out[OUTPUT];
  atvi_pool *pool;
  if (!job || getenv("SLURM_STEP_ID") || atvi_pool_new(ctx, &pool) != ATVI_OK)
    return false; /* a step cannot be */
  const char *command = array && task ? atvi_pool_printf(pool, "scontrol requeue %s_%s", array, task)
                                      : atvi_pool_printf(pool, "scontrol requeue %s", job);
  int status = command ? call(pool, command, out) : -1;
  if (status != 0) atvi_log(ctx, ATVI_LOG_WARN, "Slurm does not start this job again: %s", out);
  atvi_pool_free(pool);
  return status == 0;
}

bool atvi_app_share_until(const char *text, double *out) {
  time_t now = time(NULL);
  struct tm t;
  int year, month, day, hour, minute, second = 0, used = 0;
  char unit, rest;
  double x;
  if (!localtime_r(&now, &t)) return false;
  if (sscanf(text, "@%lf%c", &x, &rest) == 1) return *out = x, x > 0;
  t.tm_isdst = -1;
  if (sscanf(text, "%4d-%2d-%2d%*1[T ]%2d:%2d%n:%2d%n", &year, &month, &day, &hour, &minute, &used, &second,
             &used) >= 5 &&
      !text[used]) {
    t.tm_year = year - 1900, t.tm_mon = month - 1, t.tm_mday = day;
    t.tm_hour = hour, t.tm_min = minute, t.tm_sec = second;
    return (*out = (double)mktime(&t)) > 0;
  }
  used = 0;
  if (sscanf(text, "%2d:%2d%n:%2d%n", &hour, &minute, &used, &second, &used) >= 2 && !text[used] &&
      hour >= 0 && hour < 24 && minute >= 0 && minute < 60) {
    t.tm_hour = hour, t.tm_min = minute, t.tm_sec = second;
    if (mktime(&t) <= now) t.tm_mday++, t.tm_isdst = -1;
    return (*out = (double)mktime(&t)) > 0;
  }
  if (sscanf(text, "%lf%c%c", &x, &unit, &rest) != 2 || !(x > 0)) return false;
  double scale = unit == 's' ? 1 : unit == 'm' ? 60 : unit == 'h' ? 3600 : unit == 'd' ? 86400 : 0;
  *out = (double)now + scale * x;
  return scale > 0 && isfinite(*out);
}

double atvi_app_share_now_s(void) {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int atvi_app_share_cores(void) {
  const char *cpus = getenv("SLURM_CPUS_PER_TASK");
  if (cpus && atoi(cpus) > 0) return atoi(cpus);
  return getenv("SLURM_JOB_ID") ? 1 : 0;
}

const char *atvi_app_share_job(atvi_pool *pool) {
  const char *array = getenv("SLURM_ARRAY_JOB_ID"), *task = getenv("SLURM_ARRAY_TASK_ID"),
             *job = getenv("SLURM_JOB_ID");
  if (array && task) return atvi_pool_printf(pool, "%s_%s", array, task);
  if (!job) job = getenv("PBS_JOBID");
  if (!job) job = getenv("LSB_JOBID");
  return job ? job : "";
}
