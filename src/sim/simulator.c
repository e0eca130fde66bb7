/* SPDX-License-Identifier: MIT */
#include "core/core.h"
#include "io/arrays.h"
#include "io/csv.h"
#include "io/file.h"
#include "io/text.h"
#include "sim/detail.h"
#include "sim/simulator.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char *keep(atvi_simulator *s, const char *text) {
  return text ? atvi_pool_strndup(s->pool, text, strlen(text)) : NULL;
}

ATVI_PRINTF(3, 4)
static atvi_status wrong(const atvi_simulator *s, const char *hint, const char *fmt, ...) {
  char what[400];
  va_list args;
  va_start(args, fmt);
  vsnprintf(what, sizeof what, fmt, args);
  va_end(args);
  return ATVI_FAIL(s->ctx, ATVI_EMODEL, "%s:%d:%d: error: %s\nhint: %s", s->spec.place.path,
                   s->spec.place.line, s->spec.place.column, what, hint);
}

/* ---- checks ---- */

static bool inside(const char *path) {
  if (!path[0] || path[0] == '/' || path[strlen(path) - 1] == '/') return false;
  for (const char *p = path; p; p = strchr(p, '/') ? strchr(p, '/') + 1 : NULL)
    if (strncmp(p, "..", 2) == 0 && (p[2] == 0 || p[2] == '/')) return false;
  return true;
}

static atvi_status check_worker(const atvi_simulator *s) {
  const atvi_sim_spec *p = &s->spec;
  static const char hint[] =
      "a worker receives a line of JSON on standard input and answers with one on standard output";
  for (atvi_idx i = 0; i < p->d; i++)
    if (atvi_sim_template_uses(s->command, i))
      return wrong(s, hint,
                   "the command of a worker cannot have the field {%.60s}: it is started once for many runs",
                   p->param[i]);
  if (p->n_file) return wrong(s, hint, "a worker cannot have templates");
  if (p->send_environment) return wrong(s, hint, "a worker cannot get parameters through its environment");
  for (atvi_idx o = 0; o < p->n_output; o++)
    if (p->output[o].file)
      return wrong(s, hint, "output %.60s of a worker cannot come from a file", p->output[o].name);
  return ATVI_OK;
}

static atvi_status check(const atvi_simulator *s) {
  const atvi_sim_spec *p = &s->spec;
  static const char hint[] = "name a file by its path from the run's folder, without ..";
  if (p->n_output < 1)
    return wrong(s, "add a line such as: output flow from \"out.csv\" csv", "the simulator has no output");
  for (atvi_idx i = 0; i < p->n_file; i++)
    if (!inside(p->file[i].to)) return wrong(s, hint, "%.200s is not inside the run's folder", p->file[i].to);
  for (atvi_idx o = 0; o < p->n_output; o++)
    if (p->output[o].file && !inside(p->output[o].file))
      return wrong(s, hint, "%.200s is not inside the run's folder", p->output[o].file);
  return p->worker ? check_worker(s) : ATVI_OK;
}

/* ---- the command ---- */

static bool name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/* Start of the first word that is not an assignment. */
static const char *first_word(const char *p) {
  for (;;) {
    p += strspn(p, " \t\n");
    const char *q = p;
    while (name_char(*q)) q++;
    if (q == p || *q != '=') return p;
    p += strcspn(p, " \t\n");
  }
}

/* A program name with a slash is relative to the model: the folder is put in front, quoted, with braces
 * doubled. */
static const char *absolute(atvi_simulator *s, const char *command) {
  const char *word = first_word(command), *name = word + strspn(word, "'\"");
  size_t n = strcspn(name, " \t\n;|&<>()");
  if (name[0] == '/' || name[0] == '~' || name[0] == '$' || !memchr(name, '/', n)) return command;
  atvi_text t = {.pool = s->pool};
  atvi_io_text_add(&t, "%.*s'", (int)(word - command), command);
  for (const char *p = s->spec.folder; *p; p++) {
    if (*p == '\'')
      atvi_io_text_add(&t, "'\\''");
    else
      atvi_io_text_add(&t, *p == '{' || *p == '}' ? "%c%c" : "%c", *p, *p);
  }
  atvi_io_text_add(&t, "'/%s", word);
  const char *text;
  return atvi_io_text_get(&t, &text) == ATVI_OK ? text : NULL;
}

static atvi_status read_command(atvi_simulator *s) {
  const atvi_sim_spec *p = &s->spec;
  if (!p->command[strspn(p->command, " \t\n")])
    return wrong(s, "add a line such as: command \"./simulator {k}\"", "the simulator's command is empty");
  ATVI_TRY(atvi_sim_template_parse(s->pool, p->place, p->command, strlen(p->command), p->d, p->param,
                                   &s->command));
  const char *text = absolute(s, p->command);
  if (!text) return ATVI_ENOMEM;
  return atvi_sim_template_parse(s->pool, p->place, text, strlen(text), p->d, p->param, &s->command);
}

/* ---- making ---- */

static atvi_status read_files(atvi_simulator *s, uint64_t *h) {
  const atvi_sim_spec *p = &s->spec;
  s->file = atvi_pool_take(s->pool, (size_t)p->n_file + 1, sizeof *s->file);
  if (!s->file) return ATVI_ENOMEM;
  for (atvi_idx i = 0; i < p->n_file; i++) {
    char *text;
    size_t n;
    ATVI_TRY(atvi_io_file_read(s->pool, p->file[i].from, &text, &n));
    ATVI_TRY(atvi_sim_template_parse(s->pool, (atvi_template_place){p->file[i].from, 1, 1}, text, n, p->d,
                                     p->param, &s->file[i]));
    *h = atvi_hash(*h, text, n);
  }
  return ATVI_OK;
}

/* The folder of the model is left out: a moved model is still the same. */
static void add_command(atvi_text *t, const atvi_sim_spec *p) {
  size_t n = strlen(p->folder);
  const char *at = p->command;
  for (const char *next; n > 1 && (next = strstr(at, p->folder)) != NULL; at = next + n)
    atvi_io_text_add(t, "%.*s.", (int)(next - at), at);
  atvi_io_text_add(t, "%s", at);
}

static atvi_status describe(atvi_simulator *s, uint64_t h) {
  const atvi_sim_spec *p = &s->spec;
  atvi_text t = {.pool = s->pool};
  const char **name = atvi_pool_take(s->pool, (size_t)p->n_output, sizeof *name);
  if (!name) return ATVI_ENOMEM;
  add_command(&t, p);
  if (p->n_file) atvi_io_text_add(&t, "; templates %016" PRIx64, h);
  for (atvi_idx o = 0; o < p->n_output; o++) {
    static const char *const format[] = {"csv", "json", "columns"};
    const atvi_sim_output *out = &p->output[o];
    name[o] = out->name;
    atvi_io_text_add(&t, "; %s from %s %s %s %s", out->name, out->file ? out->file : "stdout",
                     format[out->format], out->column ? out->column : "-", out->time ? out->time : "-");
  }
  s->shape = (atvi_sim_shape){p->d, p->n_output, p->param, name, NULL};
  return atvi_io_text_get(&t, &s->shape.program);
}

static atvi_status copy(atvi_simulator *s, const atvi_sim_spec *from) {
  atvi_sim_file *file = atvi_pool_take(s->pool, (size_t)from->n_file + 1, sizeof *file);
  atvi_sim_output *output = atvi_pool_take(s->pool, (size_t)from->n_output + 1, sizeof *output);
  const char **param = atvi_pool_take(s->pool, (size_t)from->d + 1, sizeof *param);
  if (!file || !output || !param) return ATVI_ENOMEM;
  for (atvi_idx i = 0; i < from->n_file; i++)
    file[i] = (atvi_sim_file){keep(s, from->file[i].from), keep(s, from->file[i].to)};
  for (atvi_idx o = 0; o < from->n_output; o++) {
    const atvi_sim_output *p = &from->output[o];
    output[o] = (atvi_sim_output){keep(s, p->name), keep(s, p->file), p->format, keep(s, p->column),
                                  keep(s, p->time)};
  }
  for (atvi_idx i = 0; i < from->d; i++) param[i] = keep(s, from->param[i]);
  s->spec = *from;
  s->spec.place.path = keep(s, from->place.path);
  s->spec.folder = keep(s, from->folder);
  s->spec.command = keep(s, from->command);
  s->spec.file = file;
  s->spec.output = output;
  s->spec.param = param;
  return atvi_pool_status(s->pool);
}

atvi_status atvi_sim_new(atvi_ctx *ctx, const atvi_sim_spec *spec, atvi_simulator **out) {
  atvi_pool *pool;
  *out = NULL;
  ATVI_TRY(atvi_pool_new(ctx, &pool));
  atvi_simulator *s = atvi_pool_take(pool, 1, sizeof *s);
  if (!s) {
    atvi_pool_free(pool);
    return ATVI_ENOMEM;
  }
  s->ctx = ctx;
  s->pool = pool;
  uint64_t h = ATVI_HASH;
  atvi_status status = atvi_ctx_new(NULL, &s->quiet) == ATVI_OK ? copy(s, spec) : ATVI_ENOMEM;
  if (status == ATVI_OK) status = read_command(s);
  if (status == ATVI_OK) status = check(s);
  if (status == ATVI_OK) status = read_files(s, &h);
  if (status == ATVI_OK) status = describe(s, h);
  if (status == ATVI_OK)
    *out = s;
  else
    atvi_sim_free(s);
  return status;
}

void atvi_sim_free(atvi_simulator *s) {
  if (!s) return;
  atvi_ctx_free(s->quiet);
  atvi_pool_free(s->pool);
}

const atvi_sim_shape *atvi_sim_simulator_shape(const atvi_simulator *s) { return &s->shape; }

typedef struct {
  const char *text; /* text before the field */
  size_t n;
  atvi_idx field; /* -1: none */
} piece;

struct atvi_template {
  atvi_idx n, cap;
  piece *piece;
};

typedef struct {
  atvi_pool *pool;
  atvi_template_place at;
  const char *text, *end;
  atvi_idx n_name;
  const char *const *name;
  atvi_template *t;
} reader;

static atvi_status complain(const reader *r, const char *where, const char *what, const char *hint) {
  int line = 1;
  const char *start = r->text;
  char shown[ATVI_EXCERPT_BYTES];
  for (const char *p = r->text; p < where; p++)
    if (*p == '\n') line++, start = p + 1;
  int column = (int)(where - start) + 1;
  atvi_io_excerpt(r->text, (size_t)(r->end - r->text), line, column, false, shown);
  int first = line == 1 ? r->at.column - 1 : 0;
  return ATVI_FAIL(atvi_pool_ctx(r->pool), ATVI_EMODEL, "%s:%d:%d: error: %s\n%s\nhint: %s", r->at.path,
                   r->at.line + line - 1, first + column, what, shown, hint);
}

static bool add(reader *r, const char *text, size_t n, atvi_idx field) {
  atvi_template *t = r->t;
  if (!ATVI_PUSH(r->pool, t->piece, t->n, t->cap)) return false;
  t->piece[t->n++] = (piece){text, n, field};
  return true;
}

/* Letters to insert, delete or change (Levenshtein), for names of usual length; else many. */
static int distance(const char *a, const char *b) {
  enum { MOST = 40 };
  int row[MOST + 1], n = (int)strlen(a), m = (int)strlen(b);
  if (n > MOST || m > MOST) return 2 * MOST;
  for (int j = 0; j <= m; j++) row[j] = j;
  for (int i = 1; i <= n; i++) {
    int corner = row[0];
    row[0] = i;
    for (int j = 1; j <= m; j++) {
      int change = corner + (a[i - 1] != b[j - 1]), other = 1 + (row[j] < row[j - 1] ? row[j] : row[j - 1]);
      corner = row[j];
      row[j] = change < other ? change : other;
    }
  }
  return row[m];
}

/* The nearest name; NULL: none. */
static const char *nearest(const reader *r, const char *name) {
  const char *best = NULL;
  int least = 1 + (int)strlen(name) / 3;
  for (atvi_idx i = 0; i < r->n_name; i++) {
    int d = distance(name, r->name[i]);
    if (d > least || (best && d == least)) continue;
    least = d;
    best = r->name[i];
  }
  return best;
}

static atvi_status unknown(const reader *r, const char *at, const char *name) {
  const char *meant = nearest(r, name);
  char what[200], hint[600];
  snprintf(hint, sizeof hint, meant ? "did you mean {%.60s}? The fields are " : "the fields are ", meant);
  size_t used = strlen(hint);
  for (atvi_idx i = 0; i < r->n_name && used < 440; i++) {
    int put = snprintf(hint + used, sizeof hint - used, "%s{%.60s}", i ? ", " : "", r->name[i]);
    used += put > 0 ? (size_t)put : 0;
  }
  snprintf(hint + used, sizeof hint - used, "; for literal braces write {{ and }}");
  snprintf(what, sizeof what, "there is no parameter %.120s", name[0] ? name : "of an empty name");
  atvi_io_excerpt_clean(what);
  return complain(r, at, what, hint);
}

/* p is at a single {. *next: after the field. */
static atvi_status field(reader *r, const char *p, const char *text, const char **next) {
  char name[ATVI_ARRAY_NAME];
  const char *close = p + 1;
  while (close < r->end && *close && *close != '}' && *close != '{' && *close != '\n') close++;
  if (close == r->end || *close != '}')
    return complain(r, p, "this brace opens a field that is not closed",
                    "a field is {name}; for a brace write {{");
  if (!atvi_io_array_dots(p + 1, (size_t)(close - p - 1), name))
    return complain(r, p, "no parameter has such a long name", "for literal braces write {{ and }}");
  *next = close + 1;
  for (atvi_idx i = 0; i < r->n_name; i++)
    if (strcmp(r->name[i], name) == 0) return add(r, text, (size_t)(p - text), i) ? ATVI_OK : ATVI_ENOMEM;
  return unknown(r, p, name);
}

static atvi_status read_all(reader *r) {
  const char *text = r->text, *p = text;
  while (p < r->end) {
    if (!*p) return complain(r, p, "a zero byte: this is not plain text", "templates are plain text files");
    if (*p != '{' && *p != '}') {
      p++;
    } else if (p + 1 < r->end && p[1] == *p) {
      if (!add(r, text, (size_t)(p + 1 - text), -1)) return ATVI_ENOMEM;
      text = p += 2;
    } else if (*p == '}') {
      return complain(r, p, "this brace closes no field", "for a brace write }}");
    } else {
      ATVI_TRY(field(r, p, text, &p));
      text = p;
    }
  }
  return add(r, text, (size_t)(p - text), -1) ? ATVI_OK : ATVI_ENOMEM;
}

atvi_status atvi_sim_template_parse(atvi_pool *pool, atvi_template_place at, const char *text, size_t n,
                                    atvi_idx n_name, const char *const *name, atvi_template **out) {
  *out = NULL;
  char *copy = atvi_pool_strndup(pool, text, n);
  reader r = {.pool = pool, .at = at, .text = copy, .n_name = n_name, .name = name};
  r.t = atvi_pool_take(pool, 1, sizeof *r.t);
  atvi_status status = ATVI_ENOMEM;
  if (copy && r.t) {
    r.end = copy + n;
    status = read_all(&r);
  }
  if (status == ATVI_ENOMEM) return ATVI_ENOMEM;
  if (status == ATVI_OK) *out = r.t;
  return status;
}

void atvi_sim_template_fill(const atvi_template *t, const double *value, atvi_text *to) {
  for (atvi_idx i = 0; i < t->n; i++) {
    char number[ATVI_NUMBER_BYTES] = "";
    if (t->piece[i].field >= 0) atvi_io_format_number(number, value[t->piece[i].field]);
    atvi_io_text_add(to, "%.*s%s", (int)t->piece[i].n, t->piece[i].text, number);
  }
}

bool atvi_sim_template_uses(const atvi_template *t, atvi_idx k) {
  for (atvi_idx i = 0; i < t->n; i++)
    if (t->piece[i].field == k) return true;
  return false;
}
