/* SPDX-License-Identifier: MIT */
/* atvi fit: load, infer, judge, write. The folder is made before the work begins, so that a run does not end with
 * nowhere to write; where writing fails all the same, the draws are rescued to a temporary folder. */
#include "app/common.h"
#include "diag/summary.h"
#include "infer/map.h"
#include "infer/ram.h"
#include "io/draws_csv.h"
#include "io/file.h"
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef enum { METHOD_RAM, METHOD_MAP } method;

static atvi_status find_method(atvi_ctx *ctx, const char *name, method *out) {
  *out = METHOD_RAM;
  if (!name || strcmp(name, "ram") == 0) return ATVI_OK;
  *out = METHOD_MAP;
  if (strcmp(name, "map") == 0) return ATVI_OK;
  return ATVI_FAIL(ctx, ATVI_EINVAL,
                   "--method %s: there are ram (adaptive Metropolis) and map (maximum and Laplace)", name);
}

static atvi_status infer(atvi_ctx *ctx, const atvi_app_fit_opts *o, method how, atvi_evaluator *ev,
                         atvi_draws **draws) {
  if (how == METHOD_MAP) {
    atvi_map_opts map = atvi_map_defaults();
    map.seed = o->seed;
    if (o->max_seconds > 0) map.max_seconds = o->max_seconds;
    return atvi_map_run(ctx, ev, &map, NULL, draws);
  }
  atvi_ram_opts ram = atvi_ram_defaults();
  ram.seed = o->seed;
  if (o->chains > 0) ram.chains = o->chains;
  if (o->ess > 0) ram.ess = o->ess;
  if (o->max_iter > 0) ram.max_iter = o->max_iter;
  if (o->max_seconds > 0) ram.max_seconds = o->max_seconds;
  return atvi_ram_run(ctx, ev, &ram, draws);
}

enum { SOLVER_POINTS = 8 * ATVI_LANES };

/* Is the solver exact enough where the posterior is? */
static atvi_status check_solver(atvi_ctx *ctx, atvi_pool *pool, atvi_loaded *l, atvi_draws *draws) {
  atvi_idx n = draws->n < SOLVER_POINTS ? draws->n : SOLVER_POINTS, d = draws->n_param;
  double *theta = atvi_pool_take(pool, (size_t)(d * n + 1), sizeof *theta), error;
  if (!theta) return ATVI_FAIL(ctx, ATVI_ENOMEM, "out of memory");
  for (atvi_idx i = 0; i < d; i++)
    for (atvi_idx j = 0; j < n; j++) theta[i * n + j] = draws->x[i * draws->n + j * draws->n / n];
  ATVI_TRY(atvi_app_solver_error(ctx, l, n, theta, &error));
  draws->made.log_lik_error = error;
  return ATVI_OK;
}

/* What it takes to run this fit again. */
static atvi_status config(atvi_ctx *ctx, atvi_pool *pool, const atvi_app_fit_opts *o, const atvi_loaded *l,
                          const char **text) {
  char folder[4096];
  json_t *root = json_object(), *data = json_array(), *fix = json_object();
  json_object_set_new(root, "version", json_string(ATVI_VERSION));
  json_object_set_new(root, "folder", json_string(getcwd(folder, sizeof folder) ? folder : ""));
  json_object_set_new(root, "model", json_string(o->model.path));
  json_object_set_new(root, "method", json_string(o->method ? o->method : "ram"));
  json_object_set_new(root, "seed", json_integer((json_int_t)o->seed));
  for (atvi_idx i = 0; i < l->model->lang->n_data; i++)
    json_array_append_new(data, json_string(l->model->lang->data[i].path));
  json_object_set_new(root, "data", data);
  for (atvi_idx i = 0; i < o->model.n_fix; i++)
    json_object_set_new(fix, o->model.fix[i].name, json_string(o->model.fix[i].value));
  json_object_set_new(root, "fix", fix);
  json_object_set_new(root, "compiled", json_boolean(l->model->info.compiled));
  char *dump = json_dumps(root, JSON_INDENT(2));
  json_decref(root);
  *text = dump ? atvi_pool_printf(pool, "%s\n", dump) : NULL;
  free(dump);
  return *text ? ATVI_OK : ATVI_FAIL(ctx, ATVI_ENOMEM, "out of memory");
}

typedef struct {
  const char *draws, *summary, *model, *config; /* paths */
} paths;

static bool paths_in(atvi_pool *pool, const char *dir, paths *p) {
  p->draws = atvi_pool_printf(pool, "%s/draws.csv", dir);
  p->summary = atvi_pool_printf(pool, "%s/summary.json", dir);
  p->model = atvi_pool_printf(pool, "%s/model.atvi", dir);
  p->config = atvi_pool_printf(pool, "%s/fit.json", dir);
  return p->draws && p->summary && p->model && p->config;
}

static atvi_status save(atvi_ctx *ctx, atvi_pool *pool, const char *dir, const atvi_draws *draws,
                        const char *summary, const char *model, const char *how) {
  paths p;
  if (!paths_in(pool, dir, &p)) return ATVI_FAIL(ctx, ATVI_ENOMEM, "out of memory");
  ATVI_TRY(atvi_draws_csv_write(draws, p.draws));
  ATVI_TRY(atvi_file_save(ctx, p.summary, summary, strlen(summary)));
  ATVI_TRY(atvi_file_save(ctx, p.model, model, strlen(model)));
  return atvi_file_save(ctx, p.config, how, strlen(how));
}

/* The folder could not be written: keep the work somewhere else and say where. Always a failure. */
static atvi_status rescue(atvi_ctx *ctx, atvi_pool *pool, const char *name, const atvi_draws *draws,
                          const char *summary, const char *model, const char *how) {
  const char *tmp = getenv("TMPDIR"), *why = atvi_pool_printf(pool, "%s", atvi_errmsg(ctx));
  char *base = atvi_pool_printf(pool, "%s/atvi-rescued-%s", tmp && *tmp ? tmp : "/tmp", name), *dir;
  if (!why || !base) return ATVI_FAIL(ctx, ATVI_ENOMEM, "out of memory");
  if (atvi_rundir_new(ctx, pool, base, &dir) == ATVI_OK &&
      save(ctx, pool, dir, draws, summary, model, how) == ATVI_OK)
    return ATVI_FAIL(ctx, ATVI_EIO, "%s\nThe results are safe in %s instead: move them once there is room.",
                     why, dir);
  return ATVI_FAIL(ctx, ATVI_EIO, "%s\nThe results could not be kept in %s either, and are lost.", why, base);
}

static atvi_status finish(atvi_ctx *ctx, atvi_pool *pool, const atvi_app_fit_opts *o, atvi_loaded *l,
                          atvi_draws *draws, atvi_app_fit_result *r) {
  atvi_summary *s;
  const char *json, *how, *model = l->model->lang->source;
  ATVI_TRY(atvi_summary_new(pool, draws, &s));
  ATVI_TRY(atvi_summary_json(pool, s, &json));
  ATVI_TRY(atvi_summary_text(pool, s, &r->text));
  ATVI_TRY(config(ctx, pool, o, l, &how));
  r->verdict = atvi_verdict_name(s->verdict);
  r->stopped = draws->made.end == ATVI_END_STOPPED;
  atvi_status status = save(ctx, pool, r->dir, draws, json, model, how);
  return status == ATVI_EIO ? rescue(ctx, pool, l->target->name, draws, json, model, how) : status;
}

static atvi_status make_dir(atvi_ctx *ctx, atvi_pool *pool, const atvi_app_fit_opts *o, const atvi_target *t,
                            const char **dir) {
  if (!o->out) {
    char *path;
    ATVI_TRY(atvi_rundir_new(ctx, pool, t->name, &path));
    *dir = path;
    return ATVI_OK;
  }
  *dir = o->out;
  bool empty = rmdir(o->out) == 0; /* left by a run that was killed: nothing of the user's is in it */
  return atvi_dir_make(ctx, o->out, !o->force && !empty);
}

atvi_status atvi_app_fit(atvi_ctx *ctx, atvi_pool *pool, const atvi_app_fit_opts *opts,
                         atvi_app_fit_result *result) {
  method how;
  atvi_loaded l;
  atvi_draws *draws = NULL;
  *result = (atvi_app_fit_result){0};
  ATVI_TRY(find_method(ctx, opts->method, &how));
  ATVI_TRY(atvi_app_load(ctx, &opts->model, NULL, &l));
  atvi_status status = make_dir(ctx, pool, opts, l.target, &result->dir);
  if (status == ATVI_OK) {
    status = infer(ctx, opts, how, l.ev, &draws);
    if (status == ATVI_OK && atvi_app_no_data(&l))
      status =
          atvi_draws_say(draws, "Every observation is missing: the data say nothing, and this is the prior.");
    if (status == ATVI_OK) status = check_solver(ctx, pool, &l, draws);
    if (status == ATVI_OK)
      status = finish(ctx, pool, opts, &l, draws, result);
    else
      rmdir(result->dir); /* removes it only if it is empty: nothing of the user's */
  }
  atvi_draws_free(draws);
  atvi_app_unload(&l);
  return status;
}
