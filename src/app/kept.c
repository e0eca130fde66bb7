/* SPDX-License-Identifier: MIT */
#include "app/kept.h"
#include "app/common.h"
#include "io/draws_file.h"
#include "io/file.h"
#include <math.h>
#include <string.h>
#include <unistd.h>

static atvi_status read_text(const atvi_kept *x, const char *name, const char **text) {
  const char *path = atvi_pool_printf(x->pool, "%s/%s", x->dir, name);
  char *all;
  size_t n;
  if (!path) return ATVI_ENOMEM;
  if (access(path, F_OK) != 0)
    return ATVI_FAIL(atvi_pool_ctx(x->pool), ATVI_EINVAL,
                     "%s has no %s: it is not the folder of a finished fit", x->dir, name);
  ATVI_TRY(atvi_io_file_read(x->pool, path, &all, &n));
  *text = all;
  return ATVI_OK;
}

static atvi_status read_folder(atvi_kept *x) {
  atvi_ctx *ctx = atvi_pool_ctx(x->pool);
  ATVI_TRY(read_text(x, "fit.json", &x->how));
  ATVI_TRY(read_text(x, "model.atvi", &x->text));
  json_error_t error;
  json_t *fit = json_loads(x->how, 0, &error);
  if (!fit)
    return ATVI_FAIL(ctx, ATVI_EDATA, "%s/fit.json:%d:%d: %s; the file was changed after it was written",
                     x->dir, error.line, error.column, error.text);
  const char *model = json_string_value(json_object_get(fit, "model"));
  x->file = atvi_app_bytes_text(x->pool, model ? model : "model.atvi");
  x->holdout = atvi_app_bytes_text(x->pool, json_string_value(json_object_get(fit, "holdout")));
  json_decref(fit);
  const char *path = atvi_pool_printf(x->pool, "%s/draws.csv", x->dir);
  if (!path) return ATVI_ENOMEM;
  ATVI_TRY(atvi_app_read_draws(ctx, x->pool, x->dir, &x->draws));
  if (x->draws->weight) return atvi_io_draws_csv_read(ctx, path, &x->plain);
  x->plain = x->draws;
  return ATVI_OK;
}

atvi_status atvi_app_kept_load(atvi_kept *x) {
  atvi_ctx *ctx = atvi_pool_ctx(x->pool);
  ATVI_TRY(atvi_app_fitted_read(ctx, x->pool, x->dir, x->opts->n_data, x->opts->data, &x->run));
  x->run.model.interpret = x->opts->interpret;
  if (x->opts->folder) x->run.model.folder = x->opts->folder;
  if (x->opts->runs) x->run.model.runs = x->opts->runs;
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
    static const char *const key[] = {"seconds",   "steps", "temperature", "elbo",
                                      "component", "khat",  "rhat",        "ess"};
    double v[8];
    for (int k = 0; k < 8; k++) {
      const json_t *cell = json_object_get(json_array_get(list, i), key[k]);
      v[k] = json_is_number(cell) ? json_number_value(cell) : NAN;
    }
    step[i] = (atvi_progress){"", -1, v[0], "", v[1], v[2], v[3], v[4], v[5], v[6], v[7]};
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

atvi_status atvi_app_kept_open(atvi_ctx *ctx, atvi_pool *pool, const atvi_app_report_opts *opts,
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
