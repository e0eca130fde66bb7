/* SPDX-License-Identifier: MIT */
#include "app/common.h"
#include "app/predictions.h"
#include "diag/summary.h"
#include "io/draws_file.h"
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

/* as_text: of the file, unless NULL. */
static atvi_status read_json(const reading *r, const char *name, json_t **out, const char **as_text) {
  char *text;
  size_t n;
  json_error_t error;
  const char *path = atvi_pool_printf(r->pool, "%s/%s", r->run->dir, name);
  *out = NULL;
  if (!path) return ATVI_ENOMEM;
  ATVI_TRY(atvi_io_file_read(r->pool, path, &text, &n));
  if (as_text) *as_text = text;
  *out = json_loadb(text, n, 0, &error);
  if (*out) return ATVI_OK;
  if (!error.text[0])
    return ATVI_FAIL(r->ctx, ATVI_ENOMEM, "%s: out of memory", path); /* no word: no memory */
  return ATVI_FAIL(r->ctx, ATVI_EDATA, "%s:%d:%d: %s; the file was changed after it was written", path,
                   error.line, error.column, error.text);
}

/* Every required file, except the draws if they are read at once. */
static atvi_status check_folder(const reading *r, bool draws) {
  static const char *const need[] = {"draws.csv", "fit.json", "model.atvi"};
  for (int i = draws ? 0 : 1; i < 3; i++) {
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

static atvi_status read_fit(reading *r, const json_t *fit, const atvi_app_finished *opts) {
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
  r->run->model.interpret = opts->interpret;
  if (opts->folder) r->run->model.folder = opts->folder;
  if (opts->runs) r->run->model.runs = opts->runs;
  ATVI_TRY(find_model(r, fit));
  ATVI_TRY(find_fixed(r, fit));
  return find_data(r, fit, opts->n_data, opts->data);
}

atvi_status atvi_app_fitted_read(atvi_ctx *ctx, atvi_pool *pool, const atvi_app_finished *opts,
                                 atvi_fitted *out) {
  reading r = {ctx, pool, "", out};
  json_t *fit, *summary;
  *out = (atvi_fitted){.log_map = NAN};
  ATVI_TRY(atvi_app_find_run(ctx, pool, opts->where, "draws.csv", &out->dir));
  ATVI_TRY(check_folder(&r, true));
  ATVI_TRY(read_json(&r, "fit.json", &fit, NULL));
  atvi_status status = read_fit(&r, fit, opts);
  json_decref(fit);
  if (status != ATVI_OK) return status;
  if (read_json(&r, "summary.json", &summary, NULL) == ATVI_OK) {
    json_t *map = json_object_get(summary, "log_map");
    out->verdict = copy(&r, json_string_value(json_object_get(summary, "verdict")));
    if (json_is_number(map)) out->log_map = json_number_value(map);
    json_decref(summary);
  }
  return atvi_pool_status(pool);
}

/* ---- as DRAWS ---- */

static atvi_status read_folder(atvi_kept *x) {
  atvi_ctx *ctx = atvi_pool_ctx(x->pool);
  const reading r = {ctx, x->pool, "", &x->run};
  const char *path = atvi_pool_printf(x->pool, "%s/draws.csv", x->dir),
             *text = atvi_pool_printf(x->pool, "%s/model.atvi", x->dir);
  char *source;
  size_t n;
  json_t *fit;
  if (!path || !text) return ATVI_ENOMEM;
  x->run.dir = x->dir;
  ATVI_TRY(check_folder(&r, false));
  ATVI_TRY(atvi_io_file_read(x->pool, text, &source, &n));
  x->text = source;
  ATVI_TRY(read_json(&r, "fit.json", &fit, &x->how));
  const char *model = json_string_value(json_object_get(fit, "model"));
  x->file = atvi_app_bytes_text(x->pool, model ? model : "model.atvi");
  x->holdout = atvi_app_bytes_text(x->pool, json_string_value(json_object_get(fit, "holdout")));
  json_decref(fit);
  ATVI_TRY(atvi_app_read_draws(ctx, x->pool, x->dir, &x->draws));
  if (x->draws->weight) return atvi_io_draws_csv_read(ctx, path, &x->plain);
  x->plain = x->draws;
  return ATVI_OK;
}

atvi_status atvi_app_kept_load(atvi_kept *x) {
  atvi_ctx *ctx = atvi_pool_ctx(x->pool);
  ATVI_TRY(atvi_app_fitted_read(ctx, x->pool, x->opts, &x->run));
  const atvi_model_load_opts how = {.text = x->run.text, .holdout = x->run.holdout};
  return atvi_app_load(ctx, &x->run.model, &how, &x->l);
}

/* Steps that older versions kept only in progress.json, without phases. */
static atvi_status old_history(const atvi_kept *x) {
  const char *path = atvi_pool_printf(x->pool, "%s/progress.json", x->dir);
  json_t *root = path ? json_load_file(path, 0, NULL) : NULL, *list = json_object_get(root, "history");
  size_t n = json_array_size(list);
  atvi_progress *step = atvi_pool_take(x->pool, n + 1, sizeof *step);
  for (size_t i = 0; step && i < n; i++) {
    atvi_io_fields_read(x->pool, &atvi_io_step_fields, json_array_get(list, i), &step[i]);
    step[i].phase = step[i].detail = "";
    step[i].done = -1;
  }
  json_decref(root);
  return step ? atvi_draws_history(x->plain, (atvi_idx)n, step) : ATVI_ENOMEM;
}

static atvi_status run_again(atvi_kept *x) {
  atvi_idx n, *draw;
  ATVI_TRY(old_history(x));
  atvi_status status = atvi_app_kept_load(x);
  if (status == ATVI_OK)
    status = atvi_app_predictions_pick(x->pool, x->plain, ATVI_PREDICTIONS_CHECKED, &n, &draw);
  if (status == ATVI_OK) status = atvi_app_predictions_check(&x->l, x->dir, x->plain, false, &n, draw);
  if (status == ATVI_OK)
    return atvi_app_predictions_of_fit(&x->l, &x->run.model, x->run.text, x->run.holdout, NULL, x->plain);
  if (status == ATVI_ENOMEM) return status;
  const char *why = atvi_errmsg(atvi_pool_ctx(x->pool));
  x->failed = true;
  x->plain->about->no_groups = atvi_pool_strndup(x->pool, why, strcspn(why, "\n"));
  x->plain->about->title = atvi_io_path_stem(x->pool, x->file);
  return x->plain->about->title && x->plain->about->no_groups ? ATVI_OK : ATVI_ENOMEM;
}

atvi_status atvi_app_kept_open(atvi_ctx *ctx, atvi_pool *pool, const atvi_app_finished *opts,
                               atvi_kept *out) {
  *out = (atvi_kept){.pool = pool, .opts = opts};
  ATVI_TRY(atvi_app_find_run(ctx, pool, opts->where, "draws.csv", &out->dir));
  ATVI_TRY(read_folder(out));
  return atvi_io_groups_there(out->dir) ? atvi_io_groups_read(out->plain, out->dir) : run_again(out);
}

void atvi_app_kept_close(atvi_kept *x) {
  if (x->plain != x->draws) atvi_draws_free(x->plain);
  atvi_draws_free(x->draws);
  atvi_app_unload(&x->l);
  x->draws = x->plain = NULL;
}

/* atvi summary: the table of a finished fit, computed again from its draws. */

/* Folders that other commands make, recognised by a file in them. */
static const struct {
  const char *holds, *what;
} OTHER[] = {
    {"compare.json", "of atvi compare: its table is compare.csv, and each fit has a folder in it"},
    {"study.json", "of atvi study: its table is study.csv"},
    {"sbc.json", "of atvi sbc: its results are in sbc_summary.json"},
    {"runs.jsonl", "of atvi run with runs of a simulator; atvi emulate judges them"},
    {"design.csv", "of atvi design; next: atvi run"},
    {"fit.json", "of a fit that has not finished"},
};

static bool has(atvi_pool *pool, const char *dir, const char *name) {
  const char *path = atvi_pool_printf(pool, "%s/%s", dir, name);
  return path && access(path, F_OK) == 0;
}

static atvi_status no_draws(atvi_ctx *ctx, atvi_pool *pool, const char *dir) {
  for (size_t k = 0; k < sizeof OTHER / sizeof *OTHER; k++)
    if (has(pool, dir, OTHER[k].holds))
      return ATVI_FAIL(ctx, ATVI_EIO, "%s is the folder %s", dir, OTHER[k].what);
  return ATVI_FAIL(ctx, ATVI_EIO, "%s has no draws.csv: it is not the folder of a finished fit", dir);
}

atvi_status atvi_app_whole_fit(atvi_ctx *ctx, atvi_pool *pool, const char *dir) {
  if (has(pool, dir, "fit.json")) return ATVI_OK;
  return ATVI_FAIL(ctx, ATVI_EIO,
                   "%s has no fit.json, which is written last: the fit ended before all its files were "
                   "written, and others may be of an earlier one; run it again",
                   dir);
}

atvi_status atvi_app_read_draws(atvi_ctx *ctx, atvi_pool *pool, const char *dir, atvi_draws **out) {
  bool weighted = has(pool, dir, "weighted.csv"), plain = weighted || has(pool, dir, "draws.csv");
  const char *path = atvi_pool_printf(pool, "%s/%s.csv", dir, weighted ? "weighted" : "draws");
  *out = NULL;
  if (!path) return ATVI_ENOMEM;
  if (!plain) return no_draws(ctx, pool, dir);
  ATVI_TRY(atvi_app_whole_fit(ctx, pool, dir));
  ATVI_TRY(atvi_io_draws_csv_read(ctx, path, out));
  atvi_status status = atvi_io_groups_priors(*out, dir);
  if (status != ATVI_OK) {
    atvi_draws_free(*out);
    *out = NULL;
  }
  return status;
}

atvi_status atvi_app_summary(atvi_ctx *ctx, atvi_pool *pool, const char *where, bool json, const char **text,
                             atvi_app_mark *judged) {
  const char *dir;
  atvi_draws *draws;
  atvi_summary *s;
  ATVI_TRY(atvi_app_find_run(ctx, pool, where, "draws.csv", &dir));
  ATVI_TRY(atvi_app_read_draws(ctx, pool, dir, &draws));
  atvi_status status = atvi_app_advised_summary(pool, draws, &s);
  if (status == ATVI_OK)
    status =
        json ? atvi_diag_summary_json(pool, s, text) : atvi_diag_summary_text(pool, s, text, &judged->at);
  if (status == ATVI_OK) judged->verdict = s->verdict;
  atvi_draws_free(draws);
  return status;
}
