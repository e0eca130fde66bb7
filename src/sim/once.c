/* SPDX-License-Identifier: MIT */
/* One process per run, and what it shares with workers. */
#define _DEFAULT_SOURCE /* environ, strsignal */
#include "sim/detail.h"
#include "io/csv.h"
#include "io/file.h"
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

const char *atvi_sim_line(const atvi_simulator *s, atvi_pool *pool, const double *x) {
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

char **atvi_sim_environment(const atvi_simulator *s, atvi_pool *pool, int64_t id, const double *x) {
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

const char *atvi_sim_ending(atvi_pool *pool, int status, bool *missing) {
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

bool atvi_sim_killed(int status) {
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
    const char *line = atvi_sim_line(s, slot->pool, x);
    if (!line) return ATVI_ENOMEM;
    ATVI_TRY(write_file(s, slot, STDIN, line, strlen(line)));
    p.in = atvi_pool_printf(slot->pool, "%s/%s", slot->folder, STDIN);
  }
  p.out = atvi_pool_printf(slot->pool, "%s/%s", slot->folder, STDOUT);
  p.err = atvi_pool_printf(slot->pool, "%s/%s", slot->folder, STDERR);
  p.env = atvi_sim_environment(s, slot->pool, id, s->spec.send_environment ? x : NULL);
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
  end->why.text = slot->why[0] ? slot->why : atvi_sim_ending(slot->pool, status, &end->missing);
  if (atvi_pool_failed(slot->pool)) return ATVI_ENOMEM;
  end->killed = !slot->why[0] && atvi_sim_killed(status);
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
