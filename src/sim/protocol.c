/* SPDX-License-Identifier: MIT */
/* The two protocols: one process per run, and workers that stay alive. */
#define _DEFAULT_SOURCE /* environ, strsignal */

#include "io/csv.h"
#include "io/file.h"
#include "io/text.h"
#include "sim/detail.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const char STDIN[] = ".stdin.json", STDOUT[] = "stdout.txt", STDERR[] = "stderr.txt";
static const size_t OUTPUT_MAX = (size_t)1 << 30;

extern char **environ;

atvi_status atvi_sim_fresh_folder(atvi_simulator *s, const char *path) {
  if (!path) return ATVI_ENOMEM;
  if (mkdir(path, 0777) == 0) return ATVI_OK;
  if (!atvi_sim_folder_remove(path)) return atvi_io_file_cannot(s->ctx, "remove the old folder", path, errno);
  return atvi_io_dir_make(s->ctx, path, false);
}

/* {"k":0.31,...} and a line end. NULL: out of memory. */
static const char *line_of(const atvi_simulator *s, atvi_pool *pool, const double *x) {
  atvi_text t = {.pool = pool};
  const char *text;
  for (atvi_idx i = 0; i < s->spec.d; i++) {
    char number[ATVI_NUMBER_BYTES];
    atvi_io_format_number(number, x[i]);
    atvi_io_text_add(&t, "%s\"%s\":%s", i ? "," : "{", s->spec.param[i], number); /* names have no quotes */
  }
  atvi_io_text_add(&t, s->spec.d ? "}\n" : "{}\n");
  return atvi_io_text_get(&t, &text) == ATVI_OK ? text : NULL;
}

/* "theta_1=0.25" */
static char *variable(atvi_pool *pool, const char *name, double x) {
  char number[ATVI_NUMBER_BYTES];
  atvi_io_format_number(number, x);
  char *text = atvi_pool_printf(pool, "%s=%s", name, number);
  for (char *p = text; p && *p != '='; p++)
    if (*p == '.') *p = '_';
  return text;
}

static bool same_name(const char *a, const char *b) {
  size_t n = strcspn(a, "=");
  return strncmp(a, b, n) == 0 && b[n] == '=';
}

/* Environment of a program. x NULL: without parameters; id 0: no run. NULL: out of memory. */
static char **environment(const atvi_simulator *s, atvi_pool *pool, int64_t id, const double *x) {
  atvi_idx n = 0, own = 0;
  while (environ && environ[n]) n++;
  char **env = atvi_pool_take(pool, (size_t)(n + s->spec.d) + 3, sizeof *env);
  if (!env) return NULL;
  env[own++] = atvi_pool_printf(pool, "ATVI_MODEL_DIR=%s", s->spec.folder);
  if (id) env[own++] = atvi_pool_printf(pool, "ATVI_RUN=%lld", (long long)id);
  for (atvi_idx i = 0; x && i < s->spec.d; i++) env[own++] = variable(pool, s->spec.param[i], x[i]);
  if (atvi_pool_failed(pool)) return NULL;
  atvi_idx m = own;
  for (atvi_idx i = 0; i < n; i++) {
    bool ours = false;
    for (atvi_idx k = 0; k < own && !ours; k++) ours = same_name(env[k], environ[i]);
    if (!ours) env[m++] = environ[i];
  }
  return env;
}

/* How a process ended, in words; NULL if well. *missing: the shell could not start it. */
static const char *ending(atvi_pool *pool, int status, bool *missing) {
  *missing = false;
  if (WIFSIGNALED(status)) {
    const char *name = strsignal(WTERMSIG(status));
    return atvi_pool_printf(pool, "ended by signal %d (%s)", WTERMSIG(status), name ? name : "?");
  }
  int code = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
  if (code == 0) return NULL;
  *missing = code == 127 || code == 126;
  if (code > 128 && code < 128 + 65) { /* how the shell reports a signal */
    const char *name = strsignal(code - 128);
    return atvi_pool_printf(pool, "ended with status %d (%s)", code, name ? name : "?");
  }
  return atvi_pool_printf(pool, "ended with status %d%s", code,
                          code == 127   ? ": the program was not found"
                          : code == 126 ? ": the program cannot be run"
                                        : "");
}

/* Whether SIGKILL ended a process, or what its shell had started. */
static bool killed(int status) {
  return (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) ||
         (WIFEXITED(status) && WEXITSTATUS(status) == 128 + SIGKILL);
}

/* ---- start ---- */

static atvi_status write_file(atvi_simulator *s, atvi_sim_slot *slot, const char *name, const char *text,
                              size_t n) {
  char *path = atvi_pool_printf(slot->pool, "%s/%s", slot->folder, name);
  if (!path) return ATVI_ENOMEM;
  char *slash = strrchr(path, '/');
  if (strchr(name, '/')) { /* a folder inside the folder */
    *slash = 0;
    ATVI_TRY(atvi_io_dir_make(s->ctx, path, false));
    *slash = '/';
  }
  FILE *f = fopen(path, "we"); /* no waiting for the disk: if we are killed, the run is repeated */
  if (!f) return atvi_io_file_cannot(s->ctx, "write", path, errno);
  bool ok = fwrite(text, 1, n, f) == n;
  int err = errno;
  ok = fclose(f) == 0 && ok;
  return ok ? ATVI_OK : atvi_io_file_cannot(s->ctx, "write", path, err ? err : errno);
}

static atvi_status write_files(atvi_simulator *s, atvi_sim_slot *slot, const double *x) {
  for (atvi_idx i = 0; i < s->spec.n_file; i++) {
    atvi_text t = {.pool = slot->pool};
    const char *text;
    atvi_sim_template_fill(s->file[i], x, &t);
    if (atvi_io_text_get(&t, &text) != ATVI_OK) return ATVI_ENOMEM;
    ATVI_TRY(write_file(s, slot, s->spec.file[i].to, text, (size_t)t.n));
  }
  return ATVI_OK;
}

atvi_status atvi_sim_once_begin(atvi_simulator *s, atvi_sim_slot *slot, int64_t id, const double *x) {
  atvi_text command = {.pool = slot->pool};
  ATVI_TRY(atvi_sim_fresh_folder(s, slot->folder));
  ATVI_TRY(write_files(s, slot, x));
  atvi_proc_spec p = {.folder = slot->folder, .guard = &s->guard};
  if (s->spec.send_json) {
    const char *line = line_of(s, slot->pool, x);
    if (!line) return ATVI_ENOMEM;
    ATVI_TRY(write_file(s, slot, STDIN, line, strlen(line)));
    p.in = atvi_pool_printf(slot->pool, "%s/%s", slot->folder, STDIN);
  }
  p.out = atvi_pool_printf(slot->pool, "%s/%s", slot->folder, STDOUT);
  p.err = atvi_pool_printf(slot->pool, "%s/%s", slot->folder, STDERR);
  p.env = environment(s, slot->pool, id, s->spec.send_environment ? x : NULL);
  atvi_sim_template_fill(s->command, x, &command);
  p.command = command.text;
  if (!p.command || atvi_pool_failed(slot->pool)) return ATVI_ENOMEM;
  return atvi_sim_proc_start(s->ctx, &p, &slot->proc);
}

/* ---- end ---- */

/* Whether a file is larger than we would read. */
static bool flood(const atvi_sim_slot *slot, const char *name) {
  char path[4096];
  struct stat st;
  snprintf(path, sizeof path, "%s/%s", slot->folder, name);
  return stat(path, &st) == 0 && (size_t)st.st_size > OUTPUT_MAX;
}

static atvi_status read_output(atvi_simulator *s, atvi_sim_slot *slot, const atvi_sim_output *o,
                               atvi_sim_series *out, atvi_sim_end *end) {
  atvi_sim_reason *why = &end->why;
  char *text, *path = atvi_pool_printf(slot->pool, "%s/%s", slot->folder, o->file ? o->file : STDOUT);
  size_t n;
  struct stat st;
  if (!path) return ATVI_ENOMEM;
  why->cause = ATVI_SIM_OUTPUT;
  bool found = stat(path, &st) == 0;
  end->late = !found || st.st_size == 0;
  if (!found || !S_ISREG(st.st_mode))
    why->text = atvi_pool_printf(slot->pool, "%s: there is no file %s", o->name, o->file ? o->file : STDOUT);
  else if ((size_t)st.st_size > OUTPUT_MAX)
    why->text =
        atvi_pool_printf(slot->pool, "%s: %s is larger than 1 GB", o->name, o->file ? o->file : STDOUT);
  if (why->text || atvi_pool_failed(slot->pool)) return why->text ? ATVI_OK : ATVI_ENOMEM;
  atvi_status status = atvi_io_file_read(slot->pool, path, &text, &n);
  if (status == ATVI_OK) return atvi_sim_output_parse(slot->pool, o, text, n, out, why);
  if (status == ATVI_ENOMEM) return ATVI_ENOMEM;
  if (errno == EMFILE || errno == ENFILE) /* of ours: the program has nothing to do with it */
    return ATVI_FAIL(s->ctx, ATVI_EIO,
                     "%s; what is recorded is kept, and the same command goes on from there",
                     atvi_errmsg(s->quiet));
  why->text = atvi_pool_printf(slot->pool, "%s: %s", o->name, atvi_errmsg(s->quiet));
  return why->text ? ATVI_OK : ATVI_ENOMEM;
}

static atvi_status read_outputs(atvi_simulator *s, atvi_sim_slot *slot, atvi_sim_end *end) {
  end->out = atvi_pool_take(slot->pool, (size_t)s->spec.n_output, sizeof *end->out);
  if (!end->out) return ATVI_ENOMEM;
  for (atvi_idx o = 0; o < s->spec.n_output && !end->why.text; o++)
    ATVI_TRY(read_output(s, slot, &s->spec.output[o], &end->out[o], end));
  return ATVI_OK;
}

/* A program on another host may have written it: opening the folder makes this one ask the file server. */
static bool wait_for_output(const atvi_simulator *s, atvi_sim_slot *slot, const atvi_sim_end *end) {
  if (s->patience_s <= 0 || end->why.cause != ATVI_SIM_OUTPUT || !end->late) return false;
  if (slot->waiting_s == 0) slot->waiting_s = atvi_clock_s();
  int fd = open(slot->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd >= 0) close(fd);
  return atvi_clock_s() - slot->waiting_s < s->patience_s;
}

atvi_status atvi_sim_once_look(atvi_simulator *s, atvi_sim_slot *slot, atvi_sim_end *end) {
  int status;
  *end = (atvi_sim_end){0};
  if (!atvi_sim_proc_ended(&slot->proc, &status)) {
    if (!slot->why[0] && (flood(slot, STDOUT) || flood(slot, STDERR)))
      snprintf(slot->why, sizeof slot->why, "it printed more than 1 GB");
    return ATVI_OK;
  }
  end->ended = true;
  end->why.cause = slot->why[0] ? ATVI_SIM_PROGRAM : ATVI_SIM_ENDED;
  end->why.text = slot->why[0] ? slot->why : ending(slot->pool, status, &end->missing);
  if (atvi_pool_failed(slot->pool)) return ATVI_ENOMEM;
  end->killed = !slot->why[0] && killed(status);
  if (!end->why.text) ATVI_TRY(read_outputs(s, slot, end));
  if (!end->why.text) return ATVI_OK;
  if (wait_for_output(s, slot, end)) {
    *end = (atvi_sim_end){0};
    return ATVI_OK;
  }
  const char *err = atvi_pool_printf(slot->pool, "%s/%s", slot->folder, STDERR),
             *out = atvi_pool_printf(slot->pool, "%s/%s", slot->folder, STDOUT);
  end->log = err && out ? atvi_sim_file_tail(slot->pool, err, ATVI_SIM_TAIL) : NULL;
  if (end->log && !end->log[0]) end->log = atvi_sim_file_tail(slot->pool, out, ATVI_SIM_TAIL);
  return end->log ? ATVI_OK : ATVI_ENOMEM;
}

/* ---- workers ---- */

/* A program that stays alive. Its answers are not numbered, so an answer must never be taken for that of
 * another run: a worker that prints unasked, or something that is not an answer, is killed, and the next run
 * gets a new one. */

static const size_t ANSWER_MAX = (size_t)1 << 30;
enum { CHUNK = 1 << 16 };
static const double DYING_S = 1; /* seconds from the end of the pipe to that of the process */

static const char *log_path(const atvi_sim_slot *slot) {
  return atvi_pool_printf(slot->pool, "%s/stderr.txt", slot->folder);
}

static atvi_status start(atvi_simulator *s, atvi_sim_slot *slot) {
  atvi_text command = {.pool = slot->pool};
  ATVI_TRY(atvi_sim_fresh_folder(s, slot->folder));
  atvi_proc_spec p = {.folder = slot->folder, .guard = &s->guard, .pipes = true, .err = log_path(slot)};
  p.env = environment(s, slot->pool, 0, NULL);
  atvi_sim_template_fill(s->command, NULL, &command);
  p.command = command.text;
  if (!p.command || atvi_pool_failed(slot->pool)) return ATVI_ENOMEM;
  slot->n_answer = 0;
  slot->closed_s = 0;
  slot->served = 0;
  return atvi_sim_proc_start(s->ctx, &p, &slot->proc);
}

/* Reads what is available. *more: false at the end of the pipe. */
static atvi_status take(atvi_simulator *s, atvi_sim_slot *slot, bool *more) {
  *more = true;
  for (;;) {
    if (slot->cap_answer - slot->n_answer < CHUNK) {
      size_t cap = 2 * slot->cap_answer + 2 * CHUNK;
      char *bigger = cap < 4 * ANSWER_MAX ? atvi_block(s->quiet, cap) : NULL;
      if (!bigger) return ATVI_ENOMEM;
      if (slot->n_answer) memcpy(bigger, slot->answer, slot->n_answer);
      atvi_block_free(s->quiet, slot->answer);
      slot->answer = bigger;
      slot->cap_answer = cap;
    }
    ssize_t got = read(slot->proc.out, slot->answer + slot->n_answer, CHUNK);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ATVI_OK; /* nothing available now */
    *more = got > 0;
    if (got == 0) return ATVI_OK;
    slot->n_answer += (size_t)got;
    if (slot->n_answer > ANSWER_MAX || memchr(slot->answer + slot->n_answer - got, '\n', (size_t)got))
      return ATVI_OK;
  }
}

static void give(atvi_sim_slot *slot) {
  while (slot->sent < slot->n_line) {
    ssize_t put = atvi_pipe_write(slot->proc.in, slot->line + slot->sent, slot->n_line - slot->sent);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return; /* full, or nobody reads: then it has ended, which is noticed elsewhere */
    slot->sent += (size_t)put;
  }
}

atvi_status atvi_sim_worker_begin(atvi_simulator *s, atvi_sim_slot *slot, const double *x) {
  bool more;
  int status;
  slot->line = line_of(s, slot->pool, x);
  if (!slot->line) return ATVI_ENOMEM;
  slot->n_line = strlen(slot->line);
  slot->sent = 0;
  if (slot->proc.pid && atvi_sim_proc_ended(&slot->proc, &status)) slot->n_answer = 0;
  if (slot->proc.pid) {
    ATVI_TRY(take(s, slot, &more));
    if (slot->n_answer > 0 || !more) atvi_sim_proc_kill(&slot->proc);
  }
  if (!slot->proc.pid) ATVI_TRY(start(s, slot));
  give(slot);
  return ATVI_OK;
}

static atvi_status refuse(atvi_sim_slot *slot, atvi_sim_end *end, const char *what, const char *detail,
                          size_t n) {
  char *text =
      atvi_pool_printf(slot->pool, "%s%s%.*s", what, n ? ": " : "", (int)(n < 200 ? n : 200), detail);
  if (!text) return ATVI_ENOMEM;
  for (char *p = text; *p; p++)
    if (*p == '\n') *p = ' ';
  atvi_io_excerpt_clean(text);
  end->why.text = text;
  return ATVI_OK;
}

/* The answer is answer[0..n). *broken: the worker can no longer be trusted. */
static atvi_status understand(atvi_simulator *s, atvi_sim_slot *slot, size_t n, atvi_sim_end *end,
                              bool *broken) {
  json_error_t error;
  json_t *root = atvi_sim_json_read(slot->pool, slot->answer, n, &error);
  *broken = !json_is_object(root);
  atvi_status status = ATVI_OK;
  const char *said = json_string_value(json_object_get(root, "error"));
  end->out = atvi_pool_take(slot->pool, (size_t)s->spec.n_output, sizeof *end->out);
  if (!end->out || atvi_pool_failed(slot->pool))
    status = ATVI_ENOMEM;
  else if (*broken)
    status = refuse(slot, end, "the answer is not a JSON object", slot->answer, n);
  else if (json_object_get(root, "error"))
    status = refuse(slot, end, "the worker says", said ? said : "error", said ? strlen(said) : 5);
  for (atvi_idx o = 0; status == ATVI_OK && !end->why.text && o < s->spec.n_output; o++)
    if (atvi_sim_output_json(slot->pool, &s->spec.output[o], root, &end->out[o], &end->why) != ATVI_OK)
      status = ATVI_ENOMEM;
  json_decref(root);
  return status;
}

static atvi_status answered(atvi_simulator *s, atvi_sim_slot *slot, const char *stop, atvi_sim_end *end) {
  bool broken;
  size_t n = (size_t)(stop - slot->answer);
  ATVI_TRY(understand(s, slot, n, end, &broken));
  end->ended = true;
  slot->served++;
  broken = broken || n + 1 < slot->n_answer; /* it printed more than was asked */
  slot->n_answer = 0;
  if (broken) atvi_sim_proc_kill(&slot->proc);
  return ATVI_OK;
}

/* A worker that ends well after some answers was already ending when it got this line: the next worker gets
 * it. */
static atvi_status gone(atvi_simulator *s, atvi_sim_slot *slot, int status, atvi_sim_end *end) {
  const char *how = ending(slot->pool, status, &end->missing);
  if (!how && slot->served > 0 && slot->n_answer == 0 && !slot->why[0]) {
    slot->sent = 0;
    return start(s, slot);
  }
  end->ended = true;
  end->killed = !slot->why[0] && killed(status);
  if (slot->why[0])
    end->why.text = slot->why;
  else
    end->why.text = how ? atvi_pool_printf(slot->pool, "the worker %s before it answered", how)
                        : "the worker ended before it answered";
  return end->why.text && !atvi_pool_failed(slot->pool) ? ATVI_OK : ATVI_ENOMEM;
}

atvi_status atvi_sim_worker_look(atvi_simulator *s, atvi_sim_slot *slot, atvi_sim_end *end) {
  bool more = true;
  int status;
  *end = (atvi_sim_end){0};
  bool dead = atvi_sim_proc_over(&slot->proc); /* check this first: then all it wrote is in the pipe */
  if (!slot->why[0]) {
    give(slot);
    ATVI_TRY(take(s, slot, &more));
    const char *stop = slot->n_answer ? memchr(slot->answer, '\n', slot->n_answer) : NULL;
    if (stop) ATVI_TRY(answered(s, slot, stop, end));
    if (!stop && slot->n_answer > ANSWER_MAX)
      snprintf(slot->why, sizeof slot->why, "the answer is longer than 1 GB");
  }
  if (!end->ended) {
    if (dead && atvi_sim_proc_ended(&slot->proc, &status)) ATVI_TRY(gone(s, slot, status, end));
    if (!dead && !more && slot->closed_s == 0) slot->closed_s = atvi_clock_s();
    if (!dead && slot->closed_s > 0 && atvi_clock_s() - slot->closed_s > DYING_S && !slot->why[0])
      snprintf(slot->why, sizeof slot->why, "the worker closed its standard output before it answered");
  }
  if (!end->ended || !end->why.text) return ATVI_OK;
  const char *path = log_path(slot);
  end->log = path ? atvi_sim_file_tail(slot->pool, path, ATVI_SIM_TAIL) : NULL;
  return end->log ? ATVI_OK : ATVI_ENOMEM;
}
