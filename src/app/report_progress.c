/* SPDX-License-Identifier: MIT */
/* The progress of a fit, kept for its report and written to DIR/progress.json for those who watch. */
#include "app/report.h"
#include "io/draws_file.h"
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

static void on_progress(void *user, const atvi_progress *told) {
  atvi_recorder *r = user;
  atvi_progress here = *told, *p = &here;
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
  if (!draws || access(draws, F_OK) == 0 || !atvi_app_report_state(dir, state, &pid)) return;
  /* another fit may be using it */
  if (pid <= 0 || pid == (long)getpid() || kill((pid_t)pid, 0) == 0 || errno != ESRCH) return;
  for (int i = 0; i < 3; i++) {
    const char *path = atvi_pool_printf(pool, "%s/%s", dir, ours[i]);
    if (path) unlink(path);
  }
}
