/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* dl_iterate_phdr */
#include "app/common.h"
#include "app/replicate.h"
#include "app/report.h"
#include "io/file.h"
#include <elf.h>
#include <inttypes.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define EVERY_S 30.0 /* seconds between two checkpoints: work that a kill may cost */

bool atvi_app_resume_there(atvi_pool *pool, const char *dir) {
  const char *path = atvi_pool_printf(pool, "%s/" ATVI_APP_CHECKPOINT, dir);
  return path && access(path, F_OK) == 0;
}

/* Hash of the build ID of the program, which comes first: linkers make it from all that is linked. 1: found,
 * or there is none. */
static int hash_build_id(struct dl_phdr_info *info, size_t size, void *hash) {
  (void)size;
  for (int k = 0; k < info->dlpi_phnum; k++) {
    const ElfW(Phdr) *part = &info->dlpi_phdr[k];
    const char *at = (const char *)(info->dlpi_addr + part->p_vaddr), /* NOLINT(performance-no-int-to-ptr) */
        *end = at + part->p_memsz;
    if (part->p_type != PT_NOTE) continue;
    while (end - at > (ptrdiff_t)sizeof(ElfW(Nhdr))) {
      ElfW(Nhdr) note;
      memcpy(&note, at, sizeof note);
      const char *name = at + sizeof note, *id = name + (note.n_namesz + 3) / 4 * 4;
      if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && memcmp(name, "GNU", 4) == 0) {
        *(uint64_t *)hash = atvi_hash(ATVI_HASH, id, note.n_descsz);
        return 1;
      }
      at = id + (note.n_descsz + 3) / 4 * 4;
    }
  }
  return 1;
}

const char *atvi_app_resume_program(atvi_pool *pool) {
  char *bytes;
  size_t n;
  atvi_pool *own;
  uint64_t hash = 0;
  struct stat st;
  dl_iterate_phdr(hash_build_id, &hash);
  if (hash &&
      stat("/proc/self/exe", &st) == 0) { /* a file that was changed afterwards mostly has another size */
    hash = atvi_hash(hash, &st.st_size, sizeof st.st_size);
    return atvi_pool_printf(pool, "%s, build %016" PRIx64, ATVI_VERSION, hash);
  }
  hash = 0;
  if (atvi_pool_new(atvi_pool_ctx(pool), &own) != ATVI_OK) return NULL;
  if (atvi_io_file_read(own, "/proc/self/exe", &bytes, &n) == ATVI_OK) hash = atvi_hash(ATVI_HASH, bytes, n);
  atvi_pool_free(own);
  return atvi_pool_printf(pool, "%s, build %016" PRIx64, ATVI_VERSION, hash);
}

/* ---- how a fit was called, as JSON and back ---- */

static void add_options(atvi_json *w, const atvi_fit_opts *how) {
  const atvi_fit_option *p;
  atvi_io_json_object(w, "options");
  for (int i = 0; (p = atvi_infer_fit_option_at(i)); i++) {
    const void *at = atvi_infer_fit_option_in(p, how);
    const char *text =
        p->kind == ATVI_OPTION_WORD    ? *(const char *const *)at
        : p->kind == ATVI_OPTION_SEED  ? atvi_pool_printf(w->pool, "%" PRIu64, *(const uint64_t *)at)
        : p->kind == ATVI_OPTION_COUNT ? atvi_pool_printf(w->pool, "%td", *(const atvi_idx *)at)
        : p->kind == ATVI_OPTION_FLAG  ? (*(const bool *)at ? "on" : "off")
                                       : atvi_pool_printf(w->pool, "%.17g", *(const double *)at);
    atvi_io_json_put(w, p->name, text ? json_string(text) : json_null());
  }
  atvi_io_json_end(w);
}

static void add_call(atvi_json *w, const atvi_app_fit_opts *o) {
  char folder[4096], host[256] = "";
  if (gethostname(host, sizeof host - 1) != 0) host[0] = 0;
  atvi_io_json_put(w, "host", atvi_app_bytes_json(w->pool, host));
  atvi_io_json_put(w, "pid", json_integer((json_int_t)getpid()));
  atvi_io_json_put(w, "folder", atvi_app_bytes_json(w->pool, getcwd(folder, sizeof folder) ? folder : ""));
  atvi_io_json_put(w, "path", atvi_app_bytes_json(w->pool, o->model.path));
  atvi_io_json_list(w, "data");
  for (atvi_idx i = 0; i < o->model.n_data; i++) {
    atvi_io_json_put(w, NULL, atvi_app_bytes_json(w->pool, o->model.data[i].name));
    atvi_io_json_put(w, NULL, atvi_app_bytes_json(w->pool, o->model.data[i].path));
  }
  atvi_io_json_end(w);
  atvi_io_json_put(w, "files", atvi_app_bytes_json(w->pool, o->model.folder));
  atvi_io_json_put(w, "runs", atvi_app_bytes_json(w->pool, o->model.runs));
  atvi_io_json_put(w, "no-report", json_boolean(o->no_report));
}

/* What the draws depend on, and how the fit was called. */
static atvi_status describe(atvi_pool *pool, const atvi_app_fit_opts *o, const atvi_loaded *l,
                            const char **text) {
  atvi_json w = {.pool = pool};
  const char *own = atvi_app_resume_program(pool);
  atvi_io_json_object(&w, NULL);
  atvi_io_json_put(&w, "program", own ? json_string(own) : NULL);
  atvi_app_record_inputs(&w, l, &o->model);
  atvi_io_json_put(&w, "holdout", atvi_app_bytes_json(pool, o->holdout));
  atvi_io_json_put(&w, "no-compile", json_boolean(o->model.interpret));
  atvi_io_json_put(&w, "compiled", json_boolean(l->model->prog.info.compiled));
  add_options(&w, &o->how);
  atvi_io_json_object(&w, "call");
  add_call(&w, o);
  atvi_io_json_end(&w);
  return atvi_io_json_get(&w, "checkpoint", text);
}

typedef struct {
  atvi_pool *pool;
  const json_t *call;
  const char *folder;
} reading;

static const char *text_of(const reading *r, const json_t *x) {
  return atvi_app_bytes_text(r->pool, json_string_value(x));
}

/* A path, relative to the folder in which the fit was begun. */
static const char *path_of(const reading *r, const json_t *x) {
  char here[4096];
  const char *path = text_of(r, x);
  if (!path || path[0] == '/' || !r->folder) return path;
  if (getcwd(here, sizeof here) && strcmp(here, r->folder) == 0) return path;
  return atvi_pool_printf(r->pool, "%s/%s", r->folder, path);
}

static atvi_status read_model(const reading *r, const json_t *root, atvi_app_model *model) {
  const json_t *list = json_object_get(r->call, "data");
  json_t *fixed = json_object_get(root, "fix"), *value;
  atvi_data_file *data = atvi_pool_take(r->pool, json_array_size(list) + 1, sizeof *data);
  atvi_app_set *fix = atvi_pool_take(r->pool, json_object_size(fixed) + 1, sizeof *fix);
  const char *name;
  if (!data || !fix) return ATVI_ENOMEM;
  *model = (atvi_app_model){.data = data, .fix = fix};
  model->path = path_of(r, json_object_get(r->call, "path"));
  model->folder = path_of(r, json_object_get(r->call, "files"));
  model->runs = path_of(r, json_object_get(r->call, "runs"));
  model->interpret = json_is_true(json_object_get(root, "no-compile"));
  for (size_t i = 0; i + 1 < json_array_size(list); i += 2)
    data[model->n_data++] =
        (atvi_data_file){text_of(r, json_array_get(list, i)), path_of(r, json_array_get(list, i + 1))};
  json_object_foreach(fixed, name, value) fix[model->n_fix++] =
      (atvi_app_set){atvi_pool_printf(r->pool, "%s", name), text_of(r, value)};
  return model->path ? atvi_pool_status(r->pool) : ATVI_ENOMEM;
}

static atvi_status read_options(const reading *r, const json_t *root, atvi_app_fit_opts *out) {
  const json_t *options = json_object_get(root, "options");
  const atvi_fit_option *p;
  double limit_s = out->how.max_seconds; /* given again, or the old one */
  out->how = atvi_fit_defaults();
  for (int i = 0; (p = atvi_infer_fit_option_at(i)); i++) {
    const char *text = text_of(r, json_object_get(options, p->name));
    if (text) (void)atvi_infer_fit_option_read(p, text, &out->how);
  }
  if (limit_s > 0) out->how.max_seconds = limit_s;
  out->holdout = text_of(r, json_object_get(root, "holdout"));
  out->no_report = json_is_true(json_object_get(r->call, "no-report"));
  return read_model(r, root, &out->model);
}

atvi_status atvi_app_resume_options(atvi_ctx *ctx, atvi_pool *pool, const atvi_app_fit_opts *opts,
                                    atvi_app_fit_opts *out) {
  atvi_memo *memo;
  const char *dir = opts->resume, *path = atvi_pool_printf(pool, "%s/" ATVI_APP_CHECKPOINT, dir);
  *out = *opts;
  if (!path) return ATVI_ENOMEM;
  if (!atvi_app_resume_there(pool, dir))
    return ATVI_FAIL(ctx, ATVI_EINVAL, "%s has no interrupted fit: there is no file %s", dir, path);
  ATVI_TRY(atvi_io_memo_open(ctx, path, EVERY_S, &memo));
  json_t *root = json_loads(atvi_io_memo_about(memo), 0, NULL);
  const json_t *call = json_object_get(root, "call");
  reading r = {pool, call, NULL};
  r.folder = text_of(&r, json_object_get(call, "folder"));
  atvi_status status = call
                           ? read_options(&r, root, out)
                           : ATVI_FAIL(ctx, ATVI_EDATA, "%s is not from a fit by this version of atvi", path);
  json_decref(root);
  atvi_io_memo_close(memo, false);
  out->out = dir;
  return status;
}

/* ---- the same fit? ---- */

/* What differs, in words; NULL: nothing that matters. */
static const char *difference(atvi_pool *pool, const char *was_text, const char *now_text) {
  static const struct {
    const char *key, *word;
  } file[] = {{"model", "the model file has changed"},
              {"data_hash", "a data file has changed"},
              {"files", "a file that the model reads has changed"},
              {"compiled", "the model was compiled then and is not now, or the other way round"}};
  json_t *was = json_loads(was_text, 0, NULL), *now = json_loads(now_text, 0, NULL), *value;
  const char *key, *why = NULL;
  if (!was || !now) why = "it is not from a fit by this version of atvi";
  json_object_foreach(now, key, value) {
    const json_t *old = json_object_get(was, key);
    if (why || strcmp(key, "call") == 0 || json_equal(old, value)) continue;
    if (strcmp(key, "program") == 0)
      why = atvi_pool_printf(pool, "it was begun by atvi %s, and this is %s", json_string_value(old),
                             json_string_value(value));
    for (size_t i = 0; i < sizeof file / sizeof *file; i++)
      if (strcmp(key, file[i].key) == 0) why = file[i].word;
    if (strcmp(key, "options") != 0) {
      if (!why) why = atvi_pool_printf(pool, "--%s is not what it was", key);
      continue;
    }
    const char *name;
    json_t *option;
    json_object_foreach(value, name, option) {
      const json_t *before = json_object_get(old, name);
      if (why || strcmp(name, "max_seconds") == 0 || json_equal(before, option)) continue;
      why = atvi_pool_printf(pool, "%s is %s, and was %s", name, json_string_value(option),
                             before ? json_string_value(before) : "not known");
    }
  }
  json_decref(was);
  json_decref(now);
  return why;
}

/* Whether two links lead to the same file. */
static bool same_link(const char *a, const char *b) {
  char x[4096], y[4096];
  ssize_t n = readlink(a, x, sizeof x), k = readlink(b, y, sizeof y);
  return n > 0 && n == k && memcmp(x, y, (size_t)n) == 0;
}

/* The process of this host that is at the fit; 0: none is, as far as can be seen. */
static long busy(const char *about) {
  char here[256] = "", path[64];
  json_t *root = json_loads(about, 0, NULL);
  const json_t *call = json_object_get(root, "call");
  const char *host = json_string_value(json_object_get(call, "host"));
  long pid = (long)json_integer_value(json_object_get(call, "pid"));
  snprintf(path, sizeof path, "/proc/%ld/exe", pid);
  bool is = pid > 0 && pid != (long)getpid() && host && gethostname(here, sizeof here - 1) == 0 &&
            strcmp(here, host) == 0 && same_link(path, "/proc/self/exe");
  json_decref(root);
  return is ? pid : 0;
}

static atvi_status refuse(atvi_ctx *ctx, const atvi_app_fit_opts *o, const char *dir, const char *why) {
  return ATVI_FAIL(ctx, o->resume ? ATVI_EDATA : ATVI_EEXIST,
                   "%s has an interrupted fit, which cannot continue: %s", dir, why);
}

atvi_status atvi_app_resume_begin(atvi_ctx *ctx, atvi_pool *pool, const atvi_app_fit_opts *opts,
                                  const atvi_loaded *l, const char **dir, atvi_memo **memo) {
  const char *about, *path;
  bool there = opts->out && atvi_app_resume_there(pool, opts->out), fresh = !there;
  *memo = NULL;
  ATVI_TRY(describe(pool, opts, l, &about));
  if (there) {
    *dir = opts->out;
    atvi_app_report_sweep(pool, *dir);
  } else {
    ATVI_TRY(atvi_app_out_dir(ctx, pool, opts->out, opts->force, l->target->name, dir));
  }
  path = atvi_pool_printf(pool, "%s/" ATVI_APP_CHECKPOINT, *dir);
  if (!path) return ATVI_ENOMEM;
  double every_s = opts->checkpoint_s > 0 ? opts->checkpoint_s : EVERY_S;
  atvi_status status = atvi_io_memo_open(ctx, path, every_s, memo);
  if (status == ATVI_EDATA && opts->force && unlink(path) == 0)
    status = atvi_io_memo_open(ctx, path, every_s, memo);
  if (status != ATVI_OK) return status;
  const char *was = there ? atvi_io_memo_about(*memo) : NULL,
             *why = was ? difference(pool, was, about) : NULL;
  long pid = was ? busy(was) : 0;
  if (pid || (why && !opts->force)) {
    atvi_io_memo_close(*memo, false);
    *memo = NULL;
    return pid ? ATVI_FAIL(ctx, ATVI_EIO, "%s: process %ld is working on this fit", *dir, pid)
               : refuse(ctx, opts, *dir, why);
  }
  if (there && !why)
    atvi_log(ctx, ATVI_LOG_NOTE, "%s was interrupted after %.3g s; this continues from there", *dir,
             atvi_io_memo_seconds(*memo));
  return atvi_io_memo_start(*memo, about, fresh || why, true);
}

atvi_status atvi_app_resume_item(atvi_ctx *ctx, atvi_pool *pool, const char *dir, const char *item,
                                 double every_s, const char *about, atvi_memo **memo) {
  const char *path = atvi_pool_printf(pool, "%s/" ATVI_APP_CHECKPOINT "%s", dir, item);
  *memo = NULL;
  if (!path) return ATVI_ENOMEM;
  if (!(every_s > 0)) every_s = EVERY_S;
  atvi_status status = atvi_io_memo_open(ctx, path, every_s, memo);
  if (status == ATVI_EDATA && unlink(path) == 0) status = atvi_io_memo_open(ctx, path, every_s, memo);
  if (status != ATVI_OK) return status;
  const char *was = atvi_io_memo_about(*memo);
  return atvi_io_memo_start(*memo, about, !was || strcmp(was, about) != 0, false);
}
