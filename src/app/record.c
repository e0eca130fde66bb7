/* SPDX-License-Identifier: MIT */
/* Records of a repeated run. A line is written by one call and forced to the disk before the next fit begins,
 * so that a run that is killed loses at most the fit in progress. */
#include "app/common.h"
#include "app/replicate.h"
#include "app/share.h"
#include "io/file.h"
#include "sim/record.h"
#include <dirent.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* ---- settings ---- */

static bool may_change(const char *key) {
  return strcmp(key, "version") == 0 || strcmp(key, "replicates") == 0 || strcmp(key, "methods") == 0;
}

/* The name of the first that differs; they are "name hash". */
static const char *other_file(const atvi_record *rec, const json_t *was, const json_t *now) {
  size_t n = json_array_size(was) > json_array_size(now) ? json_array_size(was) : json_array_size(now);
  for (size_t i = 0; i < n; i++) {
    const json_t *a = json_array_get(was, i), *b = json_array_get(now, i);
    if (a && b && json_equal(a, b)) continue;
    char *name = atvi_app_bytes_text(rec->pool, json_string_value(b ? b : a)),
         *end = name ? strrchr(name, ' ') : NULL;
    if (!end) break;
    *end = 0;
    return name;
  }
  return "file";
}

static atvi_status differs(const atvi_record *rec, const char *key, const json_t *was, const json_t *now) {
  const char *hint = rec->can_force ? "; give another --out, or --force, to start again"
                                    : "; give another --out to start again";
  if (!was)
    return ATVI_FAIL(rec->ctx, ATVI_EINVAL,
                     "%s was started by another version of atvi, which did not record %s%s", rec->dir, key,
                     hint);
  if (strcmp(key, "files") == 0)
    return ATVI_FAIL(rec->ctx, ATVI_EINVAL, "%s was started with another %s, which the model reads%s",
                     rec->dir, other_file(rec, was, now), hint);
  if (strcmp(key, "model") == 0 || strcmp(key, "data_hash") == 0)
    return ATVI_FAIL(rec->ctx, ATVI_EINVAL, "%s was started with another %s%s", rec->dir,
                     key[0] == 'm' ? "model file" : "data file", hint);
  char *a = json_dumps(was, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(12)),
       *b = json_dumps(now, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(12));
  atvi_status status =
      ATVI_FAIL(rec->ctx, ATVI_EINVAL, "%s was started with another --%s: %.300s, now %.300s%s", rec->dir,
                key, a ? a : "none", b ? b : "none", hint);
  free(a);
  free(b);
  return status;
}

static atvi_status compare(const atvi_record *rec, const char *path, const json_t *now) {
  char *text;
  size_t n;
  json_error_t error;
  const char *key;
  json_t *value;
  ATVI_TRY(atvi_io_file_read(rec->pool, path, &text, &n));
  json_t *was = json_loadb(text, n, 0, &error);
  if (!was)
    return ATVI_FAIL(rec->ctx, ATVI_EDATA, "%s:%d:%d: error: %s", path, error.line, error.column, error.text);
  atvi_status status = ATVI_OK;
  json_object_foreach((json_t *)now, key, value) {
    if (status != ATVI_OK || may_change(key)) continue;
    if (!json_equal(json_object_get(was, key), value))
      status = differs(rec, key, json_object_get(was, key), value);
  }
  json_decref(was);
  return status;
}

static atvi_status settle(const atvi_record *rec, const json_t *settings) {
  const char *path = atvi_pool_printf(rec->pool, "%s/%s.json", rec->dir, rec->settings);
  if (!path) return ATVI_ENOMEM;
  if (access(path, F_OK) == 0) {
    ATVI_TRY(compare(rec, path, settings));
    if (rec->shared) return ATVI_OK;
  }
  char *text = json_dumps(settings, JSON_INDENT(2));
  if (!text) return ATVI_FAIL(rec->ctx, ATVI_ENOMEM, "settings: out of memory");
  atvi_status status = atvi_io_file_save(rec->ctx, path, text, strlen(text));
  free(text);
  return status;
}

/* What is left of a run that was killed, or is beginning now, before it wrote anything: an empty record, its
 * lock, half of the settings. */
static bool is_beginning(const atvi_record *rec, const char *name) {
  struct stat st;
  const char *file = strrchr(rec->path, '/') + 1;
  size_t n = strlen(file), k = strlen(rec->settings);
  if (strcmp(name, file) == 0) return stat(rec->path, &st) == 0 && st.st_size == 0;
  return (strncmp(name, file, n) == 0 && strncmp(name + n, ".lock", 5) == 0) ||
         (name[0] == '.' && strncmp(name + 1, rec->settings, k) == 0 &&
          strncmp(name + 1 + k, ".json.", 6) == 0);
}

/* A folder of this command, an empty one, or one where it has just begun. Any other contains something of the
 * user's. */
static atvi_status check_folder(const atvi_record *rec) {
  const char *own = atvi_pool_printf(rec->pool, "%s/%s.json", rec->dir, rec->settings);
  if (!own) return ATVI_ENOMEM;
  DIR *d = opendir(rec->dir);
  if (!d) return ATVI_OK; /* no folder, or one whose creation will report the error */
  atvi_idx foreign = 0;
  for (const struct dirent *e; (e = readdir(d));)
    foreign += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 && !is_beginning(rec, e->d_name);
  closedir(d);
  if (foreign == 0 || access(own, F_OK) == 0) return ATVI_OK;
  return ATVI_FAIL(rec->ctx, ATVI_EEXIST,
                   "%s already exists and is not a folder of atvi %s; choose another --out%s", rec->dir,
                   rec->command, rec->can_force ? ", or --force to write into it" : "");
}

/* What an earlier run has recorded in the folder. */
static atvi_status drop(const atvi_record *rec) {
  const char *const *list;
  atvi_idx n;
  const char *own = atvi_pool_printf(rec->pool, "%s/%s.json", rec->dir, rec->settings);
  if (!own) return ATVI_ENOMEM;
  if (atvi_io_journal_used(rec->path))
    return ATVI_FAIL(rec->ctx, ATVI_EEXIST, "another atvi is using %s", rec->path);
  ATVI_TRY(atvi_app_share_alone(rec->ctx, rec->dir));
  ATVI_TRY(atvi_sim_shards_list(rec->pool, rec->path, &n, &list));
  for (atvi_idx i = 0; i < n; i++) unlink(list[i]);
  unlink(own);
  return ATVI_OK;
}

/* ---- lines ---- */

static atvi_status check_header(const atvi_record *rec) {
  const char *header = rec->header;
  char *text;
  size_t n;
  ATVI_TRY(atvi_io_file_read(rec->pool, rec->path, &text, &n));
  if (strncmp(text, header, strlen(header)) == 0 && text[strlen(header)] == '\n') return ATVI_OK;
  return ATVI_FAIL(rec->ctx, ATVI_EDATA,
                   "%s:1:1: error: these are not the columns that this version of atvi writes for this model",
                   rec->path);
}

/* ---- lines of workers ---- */

atvi_status atvi_app_record_shard(atvi_record *rec, const char *worker) {
  const char *path = atvi_sim_shards_path(rec->pool, rec->path, worker);
  if (!path) return atvi_pool_failed(rec->pool) ? ATVI_ENOMEM : ATVI_EIO;
  ATVI_TRY(atvi_io_journal_open(rec->ctx, path, NULL, &rec->lines));
  return atvi_app_record_add(rec, rec->header);
}

/* "7,atvi," of a line: its fit. 0: not a whole line. */
static size_t key_of(const char *line) {
  const char *method = strchr(line, ','), *end = method ? strchr(method + 1, ',') : NULL;
  return end && line[0] >= '0' && line[0] <= '9' ? (size_t)(end - line) + 1 : 0;
}

/* Lines that are in the record, or are to be added to it. */
typedef struct {
  atvi_idx n, cap;
  const char **of;
} lines;

/* The lines of a shard whose fits are not there yet: good ones, or failed ones. */
static atvi_status take_lines(atvi_record *rec, const char *path, bool ok, lines *all) {
  char *text, *next;
  size_t bytes;
  ATVI_TRY(atvi_io_file_read(rec->pool, path, &text, &bytes));
  size_t first = strcspn(text, "\n");
  if (text[first] && (first != strlen(rec->header) || memcmp(text, rec->header, first) != 0))
    return ATVI_FAIL(
        rec->ctx, ATVI_EDATA,
        "%s:1:1: error: these are not the columns that this version of atvi writes for this model", path);
  for (char *line = text; (next = strchr(line, '\n')); line = next + 1) {
    size_t key = key_of(line);
    bool known = key == 0 || (strncmp(line + key, "ok,", 3) == 0) != ok;
    for (atvi_idx i = 0; i < all->n && !known; i++) known = strncmp(all->of[i], line, key) == 0;
    if (known) continue;
    if (!ATVI_PUSH(rec->pool, all->of, all->n, all->cap)) return ATVI_ENOMEM;
    all->of[all->n++] = line;
  }
  return ATVI_OK;
}

static int by_replicate(const void *a, const void *b) {
  const char *x = *(char *const *)a, *y = *(char *const *)b;
  long r = strtol(x, NULL, 10), s = strtol(y, NULL, 10);
  return r != s ? (r > s) - (r < s) : strcmp(x, y);
}

/* What workers have recorded, by replicate, as if one process had done it. If this is killed, it is done
 * again: nothing is added twice, and shards go last. */
static atvi_status take_shards(atvi_record *rec) {
  const char *const *list;
  lines all = {0};
  atvi_idx n_list;
  ATVI_TRY(atvi_sim_shards_list(rec->pool, rec->path, &n_list, &list));
  if (n_list == 1) return ATVI_OK;
  for (atvi_idx r = 0; rec->done && r < rec->done->n_row; r++) {
    if (!ATVI_PUSH(rec->pool, all.of, all.n, all.cap)) return ATVI_ENOMEM;
    all.of[all.n] =
        atvi_pool_printf(rec->pool, "%.0f,%s,", atvi_app_record_number(rec->done, r, "", "replicate"),
                         atvi_app_record_text(rec->done, r, "method"));
    if (!all.of[all.n++]) return ATVI_ENOMEM;
  }
  atvi_idx had = all.n;
  for (int ok = 1; ok >= 0; ok--)
    for (atvi_idx i = 1; i < n_list; i++) ATVI_TRY(take_lines(rec, list[i], ok, &all));
  if (all.n > had) qsort(all.of + had, (size_t)(all.n - had), sizeof *all.of, by_replicate);
  for (atvi_idx i = had; i < all.n; i++)
    ATVI_TRY(atvi_io_journal_put(&rec->lines, all.of[i], strcspn(all.of[i], "\n") + 1));
  ATVI_TRY(atvi_io_journal_sync(&rec->lines));
  for (atvi_idx i = 1; i < n_list; i++) unlink(list[i]);
  const char *shards = atvi_pool_printf(rec->pool, "%s/shards", rec->dir);
  if (shards) rmdir(shards);
  return atvi_app_record_read(rec, &rec->done);
}

static atvi_status begin(atvi_record *rec, const json_t *settings) {
  if (rec->force)
    ATVI_TRY(drop(rec));
  else
    ATVI_TRY(check_folder(rec));
  ATVI_TRY(atvi_io_dir_make(rec->ctx, rec->dir, false));
  ATVI_TRY(atvi_io_journal_open(rec->ctx, rec->path, NULL, &rec->lines));
  ATVI_TRY(settle(rec, settings));
  ATVI_TRY(atvi_app_share_alone(rec->ctx, rec->dir));
  if (rec->lines.size == 0) ATVI_TRY(atvi_app_record_add(rec, rec->header));
  ATVI_TRY(check_header(rec));
  ATVI_TRY(atvi_app_record_read(rec, &rec->done));
  return take_shards(rec);
}

/* Others may be making the folder at the same moment. */
static atvi_status begin_shared(atvi_record *rec, const json_t *settings) {
  enum { TRIES = 50 };
  atvi_status status = ATVI_OK;
  for (int k = 0; k < TRIES; k++) {
    if ((status = check_folder(rec)) != ATVI_EEXIST) break;
    nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
  }
  if (status == ATVI_OK) status = atvi_io_dir_make(rec->ctx, rec->dir, false);
  if (status == ATVI_OK && atvi_io_journal_used(rec->path))
    status = ATVI_FAIL(rec->ctx, ATVI_EEXIST, "another atvi is using %s; workers cannot join it", rec->path);
  return status == ATVI_OK ? settle(rec, settings) : status;
}

atvi_status atvi_app_record_open(atvi_pool *pool, const atvi_app_model *model, atvi_json *settings,
                                 atvi_record *rec) {
  const char *stem = atvi_io_path_stem(pool, model->path);
  json_t *now = atvi_io_json_whole(settings);
  rec->ctx = atvi_pool_ctx(pool);
  rec->pool = pool;
  rec->lines = (atvi_journal){.fd = -1};
  rec->done = NULL;
  if (!rec->settings) rec->settings = rec->command;
  if (!rec->dir && stem) rec->dir = atvi_pool_printf(pool, "%s-%s", stem, rec->command);
  rec->path =
      rec->dir ? atvi_pool_printf(pool, "%s/%s.csv", rec->dir, rec->name ? rec->name : "replicates") : NULL;
  atvi_status status =
      rec->path && rec->header && now ? ATVI_OK : ATVI_FAIL(rec->ctx, ATVI_ENOMEM, "settings: out of memory");
  if (status == ATVI_OK) status = rec->shared ? begin_shared(rec, now) : begin(rec, now);
  if (status != ATVI_OK) atvi_app_record_close(rec);
  json_decref(now);
  return status;
}

atvi_status atvi_app_record_add(atvi_record *rec, const char *line) {
  char *whole = atvi_pool_printf(rec->pool, "%s\n", line);
  return whole ? atvi_io_journal_add(&rec->lines, whole, strlen(whole)) : ATVI_ENOMEM;
}

/* ---- reading ---- */

static atvi_status cannot_be(const atvi_record *rec, const atvi_csv *csv, atvi_idx r, atvi_idx c) {
  return ATVI_FAIL(rec->ctx, ATVI_EDATA,
                   "%s:%d:%d: error: %s is '%.60s', which is impossible\nhint: the file was changed; remove "
                   "the line, and its fit is repeated",
                   rec->path, csv->line[r], csv->column[r * csv->n_col + c], csv->name[c],
                   csv->text[r * csv->n_col + c]);
}

static bool ends_with(const char *s, const char *end) {
  size_t n = strlen(s), k = strlen(end);
  return n >= k && strcmp(s + n - k, end) == 0;
}

/* What the columns of a study or a calibration run may contain, judging by their names. */
static atvi_status check_cells(const atvi_record *rec, const atvi_csv *csv) {
  for (atvi_idx c = 0; c < csv->n_col; c++) {
    const char *name = csv->name[c];
    bool replicate = strcmp(name, "replicate") == 0, rank = ends_with(name, ".rank"),
         share = ends_with(name, ".covered") || strcmp(name, "coverage") == 0;
    for (atvi_idx r = 0; (replicate || rank || share) && r < csv->n_row; r++) {
      double x = csv->value[r * csv->n_col + c];
      bool missing = csv->kind[r * csv->n_col + c] == ATVI_CELL_MISSING && !replicate;
      double least = replicate ? 1 : 0, most = replicate ? HUGE_VAL : rank ? ATVI_RANK_MOST : 1;
      if (!missing && !(x >= least && x <= most && (share || x == floor(x))))
        return cannot_be(rec, csv, r, c);
    }
  }
  return ATVI_OK;
}

static atvi_status check_once(const atvi_record *rec, const atvi_csv *csv) {
  atvi_idx at = atvi_io_csv_find(csv, "replicate"), method = atvi_io_csv_find(csv, "method"), w = csv->n_col;
  for (atvi_idx r = 0; at >= 0 && method >= 0 && r < csv->n_row; r++)
    for (atvi_idx k = 0; k < r; k++)
      if (csv->value[r * w + at] == csv->value[k * w + at] &&
          strcmp(csv->text[r * w + method], csv->text[k * w + method]) == 0)
        return ATVI_FAIL(rec->ctx, ATVI_EDATA,
                         "%s:%d:1: error: replicate %.0f with %s is listed twice, first in line %d\nhint: "
                         "the file was changed; remove one of them",
                         rec->path, csv->line[r], csv->value[r * w + at], csv->text[r * w + method],
                         csv->line[k]);
  return ATVI_OK;
}

atvi_status atvi_app_record_read(const atvi_record *rec, atvi_csv **out) {
  char *text;
  size_t n;
  *out = NULL;
  ATVI_TRY(atvi_io_file_read(rec->pool, rec->path, &text, &n));
  if (strcspn(text, "\n") + 1 >= n) return ATVI_OK; /* only the header */
  ATVI_TRY(atvi_io_csv_read(rec->pool, rec->path, out));
  ATVI_TRY(check_cells(rec, *out));
  return check_once(rec, *out);
}

void atvi_app_record_close(atvi_record *rec) { atvi_io_journal_close(&rec->lines); }

/* ---- cells ---- */

bool atvi_app_record_has(const atvi_record *rec, atvi_idx r, const char *method) {
  for (atvi_idx i = 0; rec->done && i < rec->done->n_row; i++)
    if (atvi_app_record_number(rec->done, i, "", "replicate") == (double)r &&
        strcmp(atvi_app_record_text(rec->done, i, "method"), method) == 0)
      return true;
  return false;
}

double atvi_app_record_number(const atvi_csv *csv, atvi_idx row, const char *prefix, const char *column) {
  char name[512];
  snprintf(name, sizeof name, "%s%s", prefix, column);
  atvi_idx c = atvi_io_csv_find(csv, name);
  if (c < 0) return NAN;
  const char *text = csv->text[row * csv->n_col + c];
  bool minus = text[0] == '-';
  if (strcmp(text + minus, "inf") == 0)
    return minus ? -HUGE_VAL : HUGE_VAL; /* for the reader of files it is text */
  return csv->value[row * csv->n_col + c];
}

const char *atvi_app_record_text(const atvi_csv *csv, atvi_idx row, const char *column) {
  atvi_idx c = atvi_io_csv_find(csv, column);
  return c < 0 ? "" : csv->text[row * csv->n_col + c];
}

/* ---- counting ---- */

static const char *const VERDICT[3] = {"ok", "warn", "bad"};

static bool mine(const atvi_record_part *x, atvi_idx row) {
  return strcmp(atvi_app_record_text(x->csv, row, "method"), x->method) == 0 &&
         atvi_app_record_number(x->csv, row, "", "replicate") <= (double)x->replicates;
}

bool atvi_app_record_good(const atvi_record_part *x, atvi_idx row) {
  return mine(x, row) && strcmp(atvi_app_record_text(x->csv, row, "status"), "ok") == 0;
}

atvi_status atvi_app_record_tally(atvi_pool *pool, const atvi_record_part *x, bool named, atvi_tally *out,
                                  atvi_failures *failures) {
  *out = (atvi_tally){0};
  for (atvi_idx r = 0; r < x->csv->n_row; r++) {
    if (!mine(x, r)) continue;
    for (int v = 0; v < 3; v++)
      out->n_verdict[v] += strcmp(atvi_app_record_text(x->csv, r, "verdict"), VERDICT[v]) == 0;
    out->n_done += atvi_app_record_good(x, r);
    if (atvi_app_record_good(x, r)) continue;
    out->n_failed++;
    if (!ATVI_PUSH(pool, failures->of, failures->n, failures->cap)) break;
    failures->of[failures->n++] = atvi_pool_printf(
        pool, "replicate %.0f%s%s: %s", atvi_app_record_number(x->csv, r, "", "replicate"), named ? ", " : "",
        named ? x->method : "", atvi_app_record_text(x->csv, r, "reason"));
  }
  return atvi_pool_status(pool);
}

void atvi_app_tally_text(atvi_text *out, const atvi_tally *x) {
  atvi_io_text_add(out, "%td fit%s, %td failed; verdicts: %td ok, %td warn, %td bad", x->n_done,
                   x->n_done == 1 ? "" : "s", x->n_failed, x->n_verdict[0], x->n_verdict[1], x->n_verdict[2]);
}

void atvi_app_failures_text(atvi_text *out, const atvi_failures *x) {
  for (atvi_idx i = 0; i < x->n; i++) atvi_io_text_add(out, "%sfailed: %.200s\n", i ? "" : "\n", x->of[i]);
}

void atvi_app_tally_json(atvi_json *w, const atvi_tally *x) {
  atvi_io_json_put(w, "done", json_integer(x->n_done));
  atvi_io_json_put(w, "failed", json_integer(x->n_failed));
  atvi_io_json_object(w, "verdicts");
  for (int v = 0; v < 3; v++) atvi_io_json_put(w, VERDICT[v], json_integer(x->n_verdict[v]));
  atvi_io_json_end(w);
}

/* The settings of a repeated run: options, the text of the model, and the contents of the files it reads. The
 * description of a model does not keep the names of all its files (constants and tables are numbers by then),
 * so they are found in the text: everything in quotes that is a file, except data, which options may replace,
 * and the record of a simulator's runs. */

typedef struct {
  atvi_pool *pool;
  const atvi_lang *lang;
  atvi_json *to;
} files;

static void add_data(atvi_json *to, const atvi_lang *lang) {
  for (atvi_idx g = 0, file = 0; g < lang->n_data; g++) {
    const atvi_csv *csv = lang->data[g].csv;
    if (lang->data[g].file != file) continue; /* units share a file */
    file++;
    uint64_t hash = ATVI_HASH;
    if (csv && csv->source) hash = atvi_hash(hash, csv->source, csv->n_source);
    char text[24];
    snprintf(text, sizeof text, "%016" PRIx64, hash);
    atvi_io_json_put(to, NULL, json_string(text));
  }
}

/* "name hash", if the file exists. */
static bool add_file(const files *f, const char *name, const char *path) {
  struct stat st;
  char *text;
  size_t n;
  if (!path || stat(path, &st) != 0 || !S_ISREG(st.st_mode)) return false;
  if (atvi_io_file_read(f->pool, path, &text, &n) != ATVI_OK) return false;
  const char *line = atvi_pool_printf(f->pool, "%s %016" PRIx64, name, atvi_hash(ATVI_HASH, text, n));
  atvi_io_json_put(f->to, NULL, line ? atvi_app_bytes_json(f->pool, line) : NULL);
  return true;
}

/* Files are searched where the model says, or next to it. */
static void add_quoted(const files *f, const char *name) {
  const char *model = f->lang->path, *slash = strrchr(model, '/');
  int n = slash ? (int)(slash - model) : 1;
  if (name[0] == '/') {
    add_file(f, name, name);
    return;
  }
  if (f->lang->folder && add_file(f, name, atvi_pool_printf(f->pool, "%s/%s", f->lang->folder, name))) return;
  add_file(f, name, atvi_pool_printf(f->pool, "%.*s/%s", n, slash ? model : ".", name));
}

static void add_line(const files *f, const char *at, size_t n) {
  const char *end = at + n;
  size_t blanks = strspn(at, " \t");
  if (blanks < n && strncmp(at + blanks, "data", 4) == 0 && strchr(" \t\"", at[blanks + 4])) return;
  while (at < end && *at != '#') {
    const char *close = *at == '"' ? memchr(at + 1, '"', (size_t)(end - at - 1)) : NULL;
    if (close) {
      const char *name = atvi_pool_strndup(f->pool, at + 1, (size_t)(close - at - 1));
      if (name && *name) add_quoted(f, name);
      at = close;
    }
    at++;
  }
}

static void add_files(const files *f, const char *runs) {
  for (const char *at = f->lang->source; *at;) {
    size_t n = strcspn(at, "\n");
    add_line(f, at, n);
    at += n + (at[n] != 0);
  }
  if (!f->lang->simulator.given) return;
  const char *folder = runs ? runs : atvi_sim_folder(f->pool, f->lang->path);
  const char *path = folder ? atvi_pool_printf(f->pool, "%s/%s", folder, ATVI_SIM_RECORD) : NULL;
  const char *const *list;
  atvi_idx n;
  if (!path || atvi_sim_shards_list(f->pool, path, &n, &list) != ATVI_OK) return;
  for (atvi_idx i = 0; i < n; i++) add_file(f, ATVI_SIM_RECORD, list[i]);
}

void atvi_app_record_inputs(atvi_json *w, const atvi_loaded *l, const atvi_app_model *model) {
  atvi_io_json_object(w, "fix");
  for (atvi_idx i = 0; i < model->n_fix; i++)
    atvi_io_json_put(w, model->fix[i].name, atvi_app_bytes_json(w->pool, model->fix[i].value));
  atvi_io_json_end(w);
  atvi_io_json_list(w, "data_hash");
  add_data(w, l->model->lang);
  atvi_io_json_end(w);
  atvi_io_json_put(w, "model", atvi_app_bytes_json(w->pool, l->model->lang->source));
  atvi_io_json_list(w, "files");
  add_files(&(files){w->pool, l->model->lang, w}, model->runs);
  atvi_io_json_end(w);
}

void atvi_app_record_settings(atvi_json *w, const atvi_loaded *l, const atvi_app_repeat_opts *o) {
  char text[24];
  snprintf(text, sizeof text, "%" PRIu64, o->seed);
  atvi_io_json_object(w, NULL);
  atvi_io_json_put(w, "version", json_string(ATVI_VERSION));
  atvi_io_json_put(w, "replicates", json_integer(o->replicates));
  atvi_io_json_put(w, "seed", json_string(text));
  atvi_app_record_inputs(w, l, &o->model);
}
