/* SPDX-License-Identifier: MIT */
#include "sim/record.h"
#include "sim/detail.h"
#include "io/file.h"
#include "io/text.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef struct {
  atvi_sim_run run;
  bool good;       /* as in the file, whatever its times */
  atvi_idx file;   /* with the line that counts */
  atvi_idx *party; /* [n_output] of a good one */
} known;

struct atvi_sim_record {
  atvi_ctx *ctx;
  atvi_pool *pool;
  const char *path;
  atvi_journal file;
  atvi_journal shard; /* where runs are added, if there are shards; made for the first one */
  const char *shard_path;
  atvi_idx n_file; /* of the record that were read or are being read */
  atvi_sim_shape shape;
  known *run; /* [n] in order of their first lines */
  atvi_idx n, cap;
  atvi_idx *at; /* [n_at] by id: 1 + index into run; 0: none */
  atvi_idx n_at;
  atvi_sim_vote *vote; /* [n_output] */
  const char *program; /* of the last header */
};

const char *atvi_sim_folder(atvi_pool *pool, const char *model_path) {
  const char *stem = atvi_io_path_stem(pool, model_path), *slash = strrchr(model_path, '/');
  const char *here = stem ? atvi_pool_printf(pool, "%s-runs", stem) : NULL;
  if (!here || !slash || access(here, F_OK) == 0) return here;
  const char *there = atvi_pool_printf(pool, "%.*s/%s", (int)(slash - model_path), model_path, here);
  return !there || access(there, F_OK) == 0 ? there : here;
}

static char *keep(atvi_sim_record *r, const char *s) { return atvi_pool_strndup(r->pool, s, strlen(s)); }

/* ---- what is known ---- */

const atvi_sim_run *atvi_sim_record_find(const atvi_sim_record *r, int64_t id) {
  if (id < 1 || id >= r->n_at || r->at[id] == 0) return NULL;
  return &r->run[r->at[id] - 1].run;
}

atvi_idx atvi_sim_record_count(const atvi_sim_record *r, bool ok) {
  atvi_idx n = 0;
  for (atvi_idx i = 0; i < r->n; i++) n += r->run[i].run.ok == ok;
  return n;
}

/* The first output without the winner's times; NULL: none. */
static const char *minority(const atvi_sim_record *r, const known *k, const atvi_idx *winner,
                            const char **why) {
  for (atvi_idx o = 0; o < r->shape.n_output; o++) {
    if (k->party[o] == winner[o]) continue;
    *why = atvi_sim_vote_why(&r->vote[o], r->pool, r->shape.output[o], k->party[o]);
    return r->shape.output[o];
  }
  return NULL;
}

atvi_status atvi_sim_record_settle(atvi_sim_record *r, atvi_idx *n_other) {
  atvi_idx *winner = atvi_pool_take(r->pool, (size_t)r->shape.n_output + 1, sizeof *winner);
  *n_other = 0;
  if (!winner) return ATVI_ENOMEM;
  for (atvi_idx o = 0; o < r->shape.n_output; o++) winner[o] = atvi_sim_vote_winner(&r->vote[o]);
  for (atvi_idx i = 0; i < r->n; i++) {
    known *k = &r->run[i];
    if (!k->good) continue;
    k->run.reason = NULL;
    k->run.ok = !minority(r, k, winner, &k->run.reason);
    *n_other += !k->run.ok;
  }
  return atvi_pool_status(r->pool);
}

/* Counts the times of a good run instead of those of the line it replaces. */
static bool count_times(atvi_sim_record *r, known *k, const atvi_sim_run *run) {
  bool fine = true;
  for (atvi_idx o = 0; k->good && o < r->shape.n_output; o++) atvi_sim_vote_drop(&r->vote[o], k->party[o]);
  k->good = false;
  if (!run->ok) return true;
  if (!k->party) k->party = atvi_pool_take(r->pool, (size_t)r->shape.n_output + 1, sizeof *k->party);
  if (!k->party) return false;
  for (atvi_idx o = 0; o < r->shape.n_output && fine; o++) {
    k->party[o] = atvi_sim_vote_add(&r->vote[o], run->id, &run->out[o]);
    fine = k->party[o] >= 0;
  }
  k->good = fine;
  return fine;
}

/* Keeps what is needed of a run in the file. */
static atvi_status know(atvi_sim_record *r, const atvi_sim_run *run) {
  if (!atvi_sim_ids_room(r->pool, run->id, &r->at, &r->n_at)) return ATVI_ENOMEM;
  if (r->at[run->id] == 0) {
    if (!ATVI_PUSH(r->pool, r->run, r->n, r->cap)) return ATVI_ENOMEM;
    r->run[r->n] = (known){0};
    r->at[run->id] = ++r->n;
  }
  double *x = atvi_pool_take(r->pool, (size_t)r->shape.d + 1, sizeof *x);
  if (!x) return ATVI_ENOMEM;
  if (r->shape.d) memcpy(x, run->x, (size_t)r->shape.d * sizeof *x);
  known *k = &r->run[r->at[run->id] - 1];
  if (k->good && k->file != r->n_file && !run->ok) return ATVI_OK;
  k->file = r->n_file;
  if (!count_times(r, k, run)) return ATVI_ENOMEM;
  k->run = *run;
  k->run.x = x;
  k->run.out = NULL;
  k->run.reason = run->reason ? keep(r, run->reason) : NULL;
  k->run.log = run->log ? keep(r, run->log) : NULL;
  k->run.program = r->program;
  return atvi_pool_status(r->pool);
}

/* ---- writing ---- */

/* Any bytes as a JSON string: bytes that are not UTF-8 would make the line unreadable. */
static void add_string(atvi_text *t, atvi_pool *pool, const char *s) {
  size_t n = s ? strlen(s) : 0;
  char *copy = atvi_pool_strndup(pool, s ? s : "", n);
  if (!copy) {
    t->failed = true;
    return;
  }
  json_t *word = json_stringn(copy, n);
  for (size_t i = 0; !word && i < n; i++)
    if ((unsigned char)copy[i] >= 128) copy[i] = '?';
  json_decref(word);
  atvi_io_text_add(t, "\"");
  for (const char *p = copy; *p;) {
    size_t plain = 0;
    while ((unsigned char)p[plain] >= 32 && p[plain] != '"' && p[plain] != '\\') plain++;
    atvi_io_text_add(t, "%.*s", (int)plain, p);
    p += plain;
    if (!*p) break;
    if (*p == '"' || *p == '\\')
      atvi_io_text_add(t, "\\%c", *p);
    else
      atvi_io_text_add(t, "\\u%04x", (unsigned char)*p);
    p++;
  }
  atvi_io_text_add(t, "\"");
}

static void add_names(atvi_text *t, const char *key, atvi_idx n, const char *const *name) {
  atvi_io_text_add(t, ",\"%s\":[", key);
  for (atvi_idx i = 0; i < n; i++) {
    if (i) atvi_io_text_add(t, ",");
    add_string(t, t->pool, name[i]);
  }
  atvi_io_text_add(t, "]");
}

static void add_numbers(atvi_text *t, const char *key, atvi_idx n, const double *x) {
  atvi_io_text_add(t, "\"%s\":[", key);
  for (atvi_idx i = 0; i < n; i++) {
    if (i) atvi_io_text_add(t, ",");
    atvi_io_text_number(t, x[i]);
  }
  atvi_io_text_add(t, "]");
}

static void add_run(atvi_text *t, const atvi_sim_shape *shape, const atvi_sim_run *run) {
  atvi_io_text_add(t, "{\"id\":%lld,\"outcome\":\"%s\",\"seconds\":%.6g,\"attempts\":%d,\"parameters\":{",
                   (long long)run->id, run->ok ? "ok" : "failed", run->seconds, run->attempts);
  for (atvi_idx i = 0; i < shape->d; i++) {
    if (i) atvi_io_text_add(t, ",");
    add_string(t, t->pool, shape->param[i]);
    atvi_io_text_add(t, ":");
    atvi_io_text_number(t, run->x[i]);
  }
  atvi_io_text_add(t, "}");
  for (atvi_idx o = 0; run->ok && o < shape->n_output; o++) {
    atvi_io_text_add(t, o ? "," : ",\"outputs\":{");
    add_string(t, t->pool, shape->output[o]);
    atvi_io_text_add(t, ":{");
    if (run->out[o].time) {
      add_numbers(t, "time", run->out[o].n, run->out[o].time);
      atvi_io_text_add(t, ",");
    }
    add_numbers(t, "value", run->out[o].n, run->out[o].value);
    atvi_io_text_add(t, "}");
  }
  if (run->ok && shape->n_output) atvi_io_text_add(t, "}");
  if (!run->ok) {
    atvi_io_text_add(t, run->ended ? ",\"ended\":true,\"reason\":" : ",\"reason\":");
    add_string(t, t->pool, run->reason);
    atvi_io_text_add(t, ",\"log\":");
    add_string(t, t->pool, run->log);
  }
  atvi_io_text_add(t, "}\n");
}

static atvi_journal *written(atvi_sim_record *r) { return r->shard.fd >= 0 ? &r->shard : &r->file; }

atvi_status atvi_sim_record_sync(atvi_sim_record *r) { return atvi_io_journal_sync(written(r)); }

static atvi_status append_text(atvi_sim_record *r, atvi_text *t) {
  const char *text;
  atvi_status status = atvi_io_text_get(t, &text);
  return status == ATVI_OK ? atvi_io_journal_put(written(r), text, (size_t)t->n) : ATVI_ENOMEM;
}

static atvi_status add_header(atvi_sim_record *r) {
  atvi_text t = {.pool = r->pool};
  atvi_io_text_add(&t, "{\"record\":\"atvi runs\",\"version\":1");
  add_names(&t, "parameters", r->shape.d, r->shape.param);
  add_names(&t, "outputs", r->shape.n_output, r->shape.output);
  atvi_io_text_add(&t, ",\"program\":");
  add_string(&t, r->pool, r->shape.program);
  atvi_io_text_add(&t, "}\n");
  return append_text(r, &t);
}

static atvi_status begin_shard(atvi_sim_record *r) {
  if (!r->shard_path || r->shard.fd >= 0) return ATVI_OK;
  ATVI_TRY(atvi_io_journal_open(r->ctx, r->shard_path, NULL, &r->shard));
  return add_header(r);
}

atvi_status atvi_sim_record_add(atvi_sim_record *r, const atvi_sim_run *run) {
  atvi_pool *scratch;
  if (run->id < 1 || run->id > ATVI_SIM_ID_MAX)
    return ATVI_FAIL(r->ctx, ATVI_EINVAL, "%s: a run has the number %lld", r->path, (long long)run->id);
  ATVI_TRY(begin_shard(r));
  ATVI_TRY(atvi_pool_new(r->ctx, &scratch));
  atvi_text t = {.pool = scratch};
  add_run(&t, &r->shape, run);
  atvi_status status = append_text(r, &t);
  atvi_pool_free(scratch);
  return status == ATVI_OK ? know(r, run) : status;
}

/* ---- opening ---- */

static bool same_names(const json_t *list, atvi_idx n, const char *const *name) {
  if (!json_is_array(list) || json_array_size(list) != (size_t)n) return false;
  for (atvi_idx i = 0; i < n; i++) {
    const char *s = json_string_value(json_array_get(list, (size_t)i));
    if (!s || strcmp(s, name[i]) != 0) return false;
  }
  return true;
}

static atvi_status check_header(atvi_sim_record *r, const json_t *line) {
  const char *wrong = NULL;
  if (!same_names(json_object_get(line, "parameters"), r->shape.d, r->shape.param)) wrong = "parameters";
  if (!same_names(json_object_get(line, "outputs"), r->shape.n_output, r->shape.output)) wrong = "outputs";
  if (wrong)
    return ATVI_FAIL_AS(r->ctx, ATVI_EINVAL, ATVI_CODE_RUNS_OTHER, "%s has runs with other %s than the model",
                        r->path, wrong);
  const char *program = json_string_value(json_object_get(line, "program"));
  r->program = keep(r, program ? program : "");
  return r->program ? ATVI_OK : ATVI_ENOMEM;
}

/* Times of a good run; values are read only to count them. */
static atvi_status read_times(const atvi_sim_record *r, const atvi_sim_lines *l, atvi_pool *scratch,
                              const json_t *line, atvi_sim_series *out) {
  for (atvi_idx o = 0; o < r->shape.n_output; o++) {
    const json_t *from = json_object_get(json_object_get(line, "outputs"), r->shape.output[o]);
    const json_t *time = json_object_get(from, "time");
    atvi_idx n;
    ATVI_TRY(atvi_sim_lines_numbers(l, scratch, json_object_get(from, "value"), &out[o].n, &out[o].value));
    if (!time) continue;
    ATVI_TRY(atvi_sim_lines_numbers(l, scratch, time, &n, &out[o].time));
    if (n != out[o].n) return atvi_sim_lines_wrong(l, "times and values have different lengths");
  }
  return ATVI_OK;
}

static atvi_status read_run(atvi_sim_record *r, const atvi_sim_lines *l, const json_t *line) {
  const json_t *id = json_object_get(line, "id"), *param = json_object_get(line, "parameters");
  const char *outcome = json_string_value(json_object_get(line, "outcome"));
  double number = json_number_value(id);
  if (!(number >= 1 && number <= ATVI_SIM_ID_MAX) || !outcome || !json_is_object(param))
    return atvi_sim_lines_wrong(l, "a run without id, outcome or parameters");
  atvi_pool *scratch;
  ATVI_TRY(atvi_pool_new(r->ctx, &scratch));
  double *x = atvi_pool_take(scratch, (size_t)r->shape.d + 1, sizeof *x);
  atvi_sim_series *out = atvi_pool_take(scratch, (size_t)r->shape.n_output + 1, sizeof *out);
  atvi_sim_run run = {.id = (int64_t)number, .x = x, .ok = strcmp(outcome, "ok") == 0, .out = out};
  run.seconds = json_number_value(json_object_get(line, "seconds"));
  run.attempts = (int)json_number_value(json_object_get(line, "attempts"));
  run.reason = json_string_value(json_object_get(line, "reason"));
  run.ended = json_is_true(json_object_get(line, "ended"));
  run.log = json_string_value(json_object_get(line, "log"));
  for (atvi_idx i = 0; x && i < r->shape.d; i++)
    x[i] = json_number_value(json_object_get(param, r->shape.param[i]));
  atvi_status status = ATVI_OK;
  if (atvi_pool_failed(scratch))
    status = ATVI_ENOMEM;
  else if (run.ok)
    status = read_times(r, l, scratch, line, out);
  if (status == ATVI_OK) status = know(r, &run);
  atvi_pool_free(scratch);
  return status;
}

static atvi_status read_file(atvi_sim_record *r, const char *path, int fd) {
  atvi_sim_lines l;
  json_t *line = NULL;
  atvi_status status = atvi_sim_lines_open(r->ctx, path, fd, &l);
  while (status == ATVI_OK) {
    status = atvi_sim_lines_next(&l, &line);
    if (status != ATVI_OK || !line) break;
    if (json_object_get(line, "record"))
      status = check_header(r, line);
    else
      status = r->program ? read_run(r, &l, line) : atvi_sim_lines_wrong(&l, "the first line is missing");
    json_decref(line);
  }
  atvi_sim_lines_close(&l);
  return status;
}

/* Where there are shards, runs are added to a new one: the record then only grows at its end. */
static atvi_status read_all(atvi_sim_record *r) {
  const char *const *list;
  atvi_idx n;
  ATVI_TRY(read_file(r, r->path, r->file.fd));
  ATVI_TRY(atvi_sim_shards_list(r->pool, r->path, &n, &list));
  for (r->n_file = 1; r->n_file < n; r->n_file++) {
    int fd = open(list[r->n_file], O_RDONLY | O_CLOEXEC);
    if (fd < 0) return atvi_io_file_cannot(r->ctx, "read", list[r->n_file], errno);
    atvi_status status = read_file(r, list[r->n_file], fd);
    close(fd);
    if (status != ATVI_OK) return status;
  }
  if (n == 1) r->n_file = 0;
  if (n == 1) return ATVI_OK;
  const char *name = atvi_pool_printf(r->pool, "%010lld-run-%ld", (long long)time(NULL), (long)getpid());
  r->shard_path = name ? atvi_sim_shards_path(r->pool, r->path, name) : NULL;
  return r->shard_path ? ATVI_OK : atvi_pool_failed(r->pool) ? ATVI_ENOMEM : ATVI_EIO;
}

static bool begins_with_object(const char *text, size_t n, size_t flags) {
  json_t *line = json_loadb(text, n, JSON_DECODE_INT_AS_REAL | flags, NULL);
  bool is = json_is_object(line);
  json_decref(line);
  return is;
}

/* An editor may have taken the last line end away: a line that is a whole object is one all the same. A whole
 * object with more behind it is no line that was cut off, but several that lost their line ends: runs, which
 * are not to be thrown away. */
static atvi_journal_end judge_end(const char *text, size_t n, bool first) {
  static const char header[] = "{\"record\"";
  if (begins_with_object(text, n, 0)) return ATVI_JOURNAL_KEEP;
  if (begins_with_object(text, n, JSON_DISABLE_EOF_CHECK)) return ATVI_JOURNAL_OTHER;
  size_t same = n < sizeof header - 1 ? n : sizeof header - 1;
  return first && memcmp(text, header, same) != 0 ? ATVI_JOURNAL_OTHER : ATVI_JOURNAL_CUT;
}

static atvi_status begin(atvi_sim_record *r) {
  ATVI_TRY(atvi_io_journal_open(r->ctx, r->path, judge_end, &r->file));
  r->vote = atvi_pool_take(r->pool, (size_t)r->shape.n_output + 1, sizeof *r->vote);
  if (!r->vote) return ATVI_ENOMEM;
  for (atvi_idx o = 0; o < r->shape.n_output; o++) r->vote[o] = (atvi_sim_vote){.pool = r->pool};
  ATVI_TRY(read_all(r));
  atvi_idx other = 0, elsewhen;
  ATVI_TRY(atvi_sim_record_settle(r, &elsewhen));
  for (atvi_idx i = 0; i < r->n; i++)
    other += r->run[i].run.ok && strcmp(r->run[i].run.program, r->shape.program) != 0;
  if (other > 0)
    atvi_log(r->ctx, ATVI_LOG_WARN,
             "%s: %td good runs were done with another command, other templates or other outputs than the "
             "model has now; if that changes results, start again in another folder",
             r->path, other);
  bool same = r->program && strcmp(r->program, r->shape.program) == 0;
  r->program = r->shape.program;
  return same || r->shard_path ? ATVI_OK : add_header(r);
}

static bool copy_names(atvi_sim_record *r, atvi_idx n, const char *const *from, const char *const **to) {
  const char **list = atvi_pool_take(r->pool, (size_t)n + 1, sizeof *list);
  for (atvi_idx i = 0; list && i < n; i++) list[i] = keep(r, from[i]);
  *to = list;
  return !atvi_pool_failed(r->pool);
}

atvi_status atvi_sim_record_open(atvi_ctx *ctx, const char *path, const atvi_sim_shape *shape,
                                 atvi_sim_record **out) {
  atvi_pool *pool;
  *out = NULL;
  ATVI_TRY(atvi_pool_new(ctx, &pool));
  atvi_sim_record *r = atvi_pool_take(pool, 1, sizeof *r);
  if (!r) {
    atvi_pool_free(pool);
    return ATVI_ENOMEM;
  }
  *r = (atvi_sim_record){
      .ctx = ctx, .pool = pool, .path = path, .file = {.fd = -1}, .shard = {.fd = -1}, .shape = *shape};
  r->path = atvi_pool_strndup(pool, path, strlen(path));
  r->shape.program = keep(r, shape->program);
  atvi_status status = copy_names(r, shape->d, shape->param, &r->shape.param) &&
                               copy_names(r, shape->n_output, shape->output, &r->shape.output)
                           ? begin(r)
                           : ATVI_ENOMEM;
  if (status == ATVI_OK)
    *out = r;
  else
    atvi_sim_record_free(r);
  return status;
}

void atvi_sim_record_free(atvi_sim_record *r) {
  if (!r) return;
  atvi_io_journal_close(&r->shard);
  atvi_io_journal_close(&r->file);
  atvi_pool_free(r->pool);
}
