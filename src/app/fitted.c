/* SPDX-License-Identifier: MIT */
#include "app/common.h"
#include "io/file.h"
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

atvi_status atvi_app_find_run(atvi_ctx *ctx, atvi_pool *pool, const char *where, const char *holding,
                              const char **dir) {
  struct stat st;
  char *name = atvi_io_path_stem(pool, where), *path = atvi_pool_printf(pool, "%s/%s", where, holding);
  *dir = where;
  if (!name || !path) return ATVI_ENOMEM;
  if (stat(where, &st) == 0 && S_ISDIR(st.st_mode)) return ATVI_OK;
  if (atvi_io_rundir_latest(ctx, pool, name, holding, &path) != ATVI_OK)
    return ATVI_FAIL(ctx, ATVI_EINVAL,
                     "%s is not the folder of a fit, and there is no folder %s-NNN with a file %s here; run "
                     "atvi fit first, or name the folder",
                     where, name, holding);
  *dir = path;
  return ATVI_OK;
}

/* ---- pieces ---- */

typedef struct {
  atvi_ctx *ctx;
  atvi_pool *pool;
  const char *folder; /* where the fit was started */
  atvi_fitted *run;
} reading;

static const char *copy(const reading *r, const char *s) { return atvi_app_bytes_text(r->pool, s); }

/* Where a file of the fit is now. */
static const char *locate(const reading *r, const char *as_written) {
  const char *path = copy(r, as_written);
  if (!path || path[0] == '/' || !*r->folder) return path;
  const char *there = atvi_pool_printf(r->pool, "%s/%s", r->folder, path);
  return !there || access(there, F_OK) == 0 || access(path, F_OK) != 0 ? there : path;
}

static atvi_status read_json(const reading *r, const char *name, json_t **out) {
  char *text;
  size_t n;
  json_error_t error;
  const char *path = atvi_pool_printf(r->pool, "%s/%s", r->run->dir, name);
  *out = NULL;
  if (!path) return ATVI_ENOMEM;
  ATVI_TRY(atvi_io_file_read(r->pool, path, &text, &n));
  *out = json_loadb(text, n, 0, &error);
  if (*out) return ATVI_OK;
  return ATVI_FAIL(r->ctx, ATVI_EDATA, "%s:%d:%d: %s; the file was changed after it was written", path,
                   error.line, error.column, error.text);
}

/* Every required file. */
static atvi_status check_folder(const reading *r) {
  static const char *const need[] = {"draws.csv", "fit.json", "model.atvi"};
  for (int i = 0; i < 3; i++) {
    const char *path = atvi_pool_printf(r->pool, "%s/%s", r->run->dir, need[i]);
    if (!path) return ATVI_ENOMEM;
    if (access(path, F_OK) != 0)
      return ATVI_FAIL(r->ctx, ATVI_EINVAL, "%s has no %s: it is not the folder of a finished fit",
                       r->run->dir, need[i]);
  }
  return ATVI_OK;
}

/* ---- data ---- */

static atvi_status check_data(const reading *r, const json_t *paths) {
  for (size_t i = 0; i < json_array_size(paths); i++) {
    const char *was = json_string_value(json_array_get(paths, i)), *now = was ? locate(r, was) : NULL;
    if (!now) return ATVI_ENOMEM;
    if (access(now, F_OK) != 0)
      return ATVI_FAIL(r->ctx, ATVI_EDATA,
                       "%s: error: the data file of this fit, %s, is gone\nhint: restore it, or say where it "
                       "is now: --data %sFILE",
                       r->run->dir, now, json_array_size(paths) > 1 ? "NAME=" : "");
  }
  return ATVI_OK;
}

/* Files that replace those of the model: those given to the fit, unless given again now. */
static atvi_status find_data(const reading *r, const json_t *fit, atvi_idx n_now, const atvi_data_file *now) {
  json_t *paths = json_object_get(fit, "data"), *given = json_object_get(fit, "given"), *path;
  const char *name;
  bool one = json_array_size(paths) == 1;
  atvi_data_file *data = atvi_pool_take(r->pool, (size_t)n_now + json_object_size(given) + 2, sizeof *data);
  if (!data) return ATVI_ENOMEM;
  atvi_idx n = 0;
  for (; n < n_now; n++) data[n] = now[n]; /* the first one of each name counts */
  if (n_now == 0) ATVI_TRY(check_data(r, paths));
  if (one && n_now == 0) {
    path = json_array_get(paths, 0);
    data[n++] = (atvi_data_file){NULL, locate(r, json_string_value(path))};
  }
  json_object_foreach(given, name, path) if (!one || *name) data[n++] =
      (atvi_data_file){copy(r, name), locate(r, json_string_value(path) ? json_string_value(path) : "")};
  r->run->model.data = data;
  r->run->model.n_data = n;
  return atvi_pool_status(r->pool);
}

static atvi_status find_fixed(const reading *r, const json_t *fit) {
  json_t *fixed = json_object_get(fit, "fix"), *value;
  const char *name;
  atvi_idx n = 0;
  atvi_app_set *set = atvi_pool_take(r->pool, json_object_size(fixed) + 1, sizeof *set);
  if (!set) return ATVI_ENOMEM;
  json_object_foreach(fixed, name, value) {
    set[n].name = copy(r, name);
    set[n].value = copy(r, json_string_value(value));
    if (!set[n].name || !set[n].value) return ATVI_ENOMEM;
    n++;
  }
  r->run->model.fix = set;
  r->run->model.n_fix = n;
  return ATVI_OK;
}

/* ---- the whole ---- */

static atvi_status find_model(const reading *r, const json_t *fit) {
  const char *path = json_string_value(json_object_get(fit, "model")), *kept;
  size_t n;
  char *text, *now;
  kept = atvi_pool_printf(r->pool, "%s/model.atvi", r->run->dir);
  r->run->model.path = path ? locate(r, path) : kept;
  if (!kept || !r->run->model.path) return ATVI_ENOMEM;
  ATVI_TRY(atvi_io_file_read(r->pool, kept, &text, &n));
  r->run->text = text;
  if (access(r->run->model.path, R_OK) == 0 &&
      atvi_io_file_read(r->pool, r->run->model.path, &now, &n) == ATVI_OK)
    r->run->changed = strcmp(now, text) != 0;
  return ATVI_OK;
}

static atvi_status read_fit(reading *r, const json_t *fit, atvi_idx n_data, const atvi_data_file *data) {
  const char *folder = json_string_value(json_object_get(fit, "folder"));
  r->folder = copy(r, folder ? folder : "");
  if (!r->folder) return ATVI_ENOMEM;
  r->run->method = copy(r, json_string_value(json_object_get(fit, "method")));
  r->run->holdout = copy(r, json_string_value(json_object_get(fit, "holdout")));
  const json_t *held = json_object_get(fit, "held_n");
  r->run->held_n = json_is_integer(held) ? (atvi_idx)json_integer_value(held) : -1;
  r->run->held_hash = copy(r, json_string_value(json_object_get(fit, "held_hash")));
  const json_t *seed = json_object_get(fit, "seed"); /* a string if it is too large for an integer */
  r->run->seed =
      json_is_string(seed) ? strtoull(json_string_value(seed), NULL, 10) : (uint64_t)json_integer_value(seed);
  const char *files = json_string_value(json_object_get(fit, "files"));
  if (files && !(r->run->model.folder = locate(r, files))) return ATVI_ENOMEM;
  const char *runs = json_string_value(json_object_get(fit, "runs"));
  if (runs && !(r->run->model.runs = locate(r, runs))) return ATVI_ENOMEM;
  r->run->model.runs_lines = (atvi_idx)json_integer_value(json_object_get(fit, "runs_lines"));
  r->run->model.emulators = r->run->dir;
  ATVI_TRY(find_model(r, fit));
  ATVI_TRY(find_fixed(r, fit));
  return find_data(r, fit, n_data, data);
}

atvi_status atvi_app_fitted_read(atvi_ctx *ctx, atvi_pool *pool, const char *where, atvi_idx n_data,
                                 const atvi_data_file *data, atvi_fitted *out) {
  reading r = {ctx, pool, "", out};
  json_t *fit, *summary;
  *out = (atvi_fitted){.log_map = NAN};
  ATVI_TRY(atvi_app_find_run(ctx, pool, where, "draws.csv", &out->dir));
  ATVI_TRY(check_folder(&r));
  ATVI_TRY(read_json(&r, "fit.json", &fit));
  atvi_status status = read_fit(&r, fit, n_data, data);
  json_decref(fit);
  if (status != ATVI_OK) return status;
  if (read_json(&r, "summary.json", &summary) == ATVI_OK) {
    json_t *map = json_object_get(summary, "log_map");
    out->verdict = copy(&r, json_string_value(json_object_get(summary, "verdict")));
    if (json_is_number(map)) out->log_map = json_number_value(map);
    json_decref(summary);
  }
  return atvi_pool_status(pool);
}
