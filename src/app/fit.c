/* SPDX-License-Identifier: MIT */
/* atvi fit: load, infer, judge, write. The folder is made before the work starts, so that a fit does not end
 * with nowhere to write; if writing fails all the same, the draws are saved in a temporary folder.
 *
 * Draws of an approximation are weighted. weighted.csv has them as they are; draws.csv, for programs that
 * ignore weights, has them resampled, or without their weights if those cannot be trusted. */
#include "app/common.h"
#include "app/predictions.h"
#include "app/report.h"
#include "diag/summary.h"
#include "draws/made.h"
#include "infer/fit.h"
#include "io/draws_file.h"
#include "io/file.h"
#include "io/json.h"
#include "sim/record.h"
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static json_t *option_json(atvi_pool *pool, const atvi_fit_option *p, const atvi_fit_opts *how) {
  const void *at = atvi_infer_fit_option_in(p, how);
  switch (p->kind) {
  case ATVI_OPTION_WORD: return json_string(*(const char *const *)at);
  case ATVI_OPTION_SEED: return atvi_io_json_seed(pool, *(const uint64_t *)at);
  case ATVI_OPTION_NUMBER:
  case ATVI_OPTION_SECONDS: return json_real(*(const double *)at);
  case ATVI_OPTION_COUNT: return json_integer(*(const atvi_idx *)at);
  case ATVI_OPTION_FLAG: return json_boolean(*(const bool *)at);
  }
  return NULL;
}

/* Always numbers; words and flags if the method takes them. */
static void add_options(atvi_pool *pool, json_t *root, const atvi_fit_opts *how) {
  const atvi_method *m = atvi_infer_method_find(ATVI_METHOD_OWN, how->method);
  const atvi_fit_option *p;
  for (int i = 0; (p = atvi_infer_fit_option_at(i)); i++)
    if (atvi_infer_fit_option_taken(p, m) || p->kind == ATVI_OPTION_NUMBER || p->kind == ATVI_OPTION_COUNT)
      json_object_set_new(root, p->name, option_json(pool, p, how));
}

/* The settings that run this fit again; 0 means the default. */
static atvi_status config(atvi_ctx *ctx, atvi_pool *pool, const atvi_app_fit_opts *o, const atvi_loaded *l,
                          const char **text) {
  char folder[4096];
  json_t *root = json_object(), *data = json_array(), *fix = json_object(), *given = json_object();
  json_object_set_new(root, "version", json_string(ATVI_VERSION));
  json_object_set_new(root, "folder", atvi_app_bytes_json(pool, getcwd(folder, sizeof folder) ? folder : ""));
  json_object_set_new(root, "model", atvi_app_bytes_json(pool, o->model.path));
  add_options(pool, root, &o->how);
  for (atvi_idx i = 0, file = 0; i < l->model->lang->n_data; i++) /* units share a file */
    if (l->model->lang->data[i].file == file) {
      json_array_append_new(data, atvi_app_bytes_json(pool, l->model->lang->data[i].path));
      file++;
    }
  json_object_set_new(root, "data", data);
  for (atvi_idx i = 0; i < o->model.n_fix; i++)
    json_object_set_new(fix, o->model.fix[i].name, atvi_app_bytes_json(pool, o->model.fix[i].value));
  json_object_set_new(root, "fix", fix);
  for (atvi_idx i = 0; i < o->model.n_data; i++)
    json_object_set_new(given, o->model.data[i].name ? o->model.data[i].name : "",
                        atvi_app_bytes_json(pool, o->model.data[i].path));
  json_object_set_new(root, "given", given);
  json_object_set_new(root, "files", atvi_app_bytes_json(pool, o->model.folder));
  json_object_set_new(root, "holdout", atvi_app_bytes_json(pool, o->holdout));
  if (l->model->holdout.held) {
    const char *hash = atvi_app_held_hash(pool, l);
    json_object_set_new(root, "held_n", json_integer(l->model->holdout.n_held));
    json_object_set_new(root, "held_hash", hash ? json_string(hash) : json_null());
  }
  if (l->model->emulated && l->model->emulated->lines > 0) {
    const char *runs = o->model.runs ? o->model.runs : atvi_sim_folder(pool, o->model.path);
    json_object_set_new(root, "runs", atvi_app_bytes_json(pool, runs));
    json_object_set_new(root, "runs_lines", json_integer(l->model->emulated->lines));
  }
  if (l->model->odes.any) json_object_set_new(root, "solver", json_string(atvi_model_solver_word(l->model)));
  json_object_set_new(root, "compiled", json_boolean(l->model->prog.info.compiled));
  char *dump = json_dumps(root, JSON_INDENT(2));
  json_decref(root);
  if (!dump) return ATVI_FAIL(ctx, ATVI_ENOMEM, "fit.json: out of memory");
  *text = atvi_pool_printf(pool, "%s\n", dump);
  free(dump);
  return *text ? ATVI_OK : ATVI_ENOMEM;
}

/* Everything that is written into the folder. */
typedef struct {
  const atvi_draws *weighted, *plain; /* weighted: NULL if the draws have no weights */
  const char *summary, *model, *how;
  const atvi_loaded *l;
} results;

/* False: there was none. */
static bool drop(atvi_pool *pool, const char *dir, const char *name) {
  const char *path = atvi_pool_printf(pool, "%s/%s", dir, name);
  return path && unlink(path) == 0;
}

/* Figures come in pairs, .svg and .pdf: anything else belongs to the user. */
static void drop_figures(atvi_pool *pool, const char *dir) {
  const char *folder = atvi_pool_printf(pool, "%s/figures", dir);
  DIR *d = folder ? opendir(folder) : NULL;
  if (!d) return;
  for (const struct dirent *e; (e = readdir(d));) {
    size_t n = strlen(e->d_name);
    if (n < 5 || strcmp(e->d_name + n - 4, ".svg") != 0) continue;
    const char *pdf = atvi_pool_printf(pool, "%.*s.pdf", (int)(n - 4), e->d_name);
    if (pdf && drop(pool, folder, pdf)) drop(pool, folder, e->d_name);
  }
  closedir(d);
  rmdir(folder);
}

/* Removes what an earlier fit left in the folder and what was made from it, as it does not belong to the new
 * draws. The report is written or removed elsewhere. */
static void drop_old(atvi_pool *pool, const char *dir, bool weighted) {
  static const char *const name[] = {"fit.nc",     "scores.json",   "predict.csv",     "forecast.csv",
                                     "draws.json", "weighted.json", "draws-table.csv", "weighted-table.csv",
                                     "stan.csv",   "apart.csv",     "apart.json"};
  for (size_t i = 0; i < sizeof name / sizeof name[0]; i++) drop(pool, dir, name[i]);
  char chain[32] = "stan_1.csv";
  for (int i = 2; drop(pool, dir, chain); i++) snprintf(chain, sizeof chain, "stan_%d.csv", i);
  if (!weighted) drop(pool, dir, "weighted.csv");
  drop_figures(pool, dir);
  atvi_app_emulators_drop(dir);
  atvi_io_groups_drop(dir);
}

static atvi_status save(atvi_ctx *ctx, atvi_pool *pool, const char *dir, const results *r) {
  const char *draws = atvi_pool_printf(pool, "%s/draws.csv", dir);
  const char *weighted = atvi_pool_printf(pool, "%s/weighted.csv", dir);
  const char *mark = atvi_pool_printf(pool, "%s/fit.json", dir),
             *aside = atvi_pool_printf(pool, "%s/.fit.json.old", dir),
             *groups = atvi_pool_printf(pool, "%s/groups", dir);
  if (!draws || !weighted || !mark || !aside || !groups) return ATVI_ENOMEM;
  /* fit.json is written last and marks a complete fit: that of an earlier fit goes before anything else
   * changes. */
  bool old = rename(mark, aside) == 0;
  atvi_status status = atvi_io_draws_csv_write(r->plain, draws);
  if (old && status == ATVI_OK) unlink(aside);
  if (old && status != ATVI_OK) (void)rename(aside, mark); /* nothing has changed */
  if (status != ATVI_OK) return status;
  drop_old(pool, dir, r->weighted != NULL);
  if (r->weighted) ATVI_TRY(atvi_io_draws_csv_write(r->weighted, weighted));
  ATVI_TRY(atvi_io_file_save_soon(pool, dir, "summary.json", r->summary));
  ATVI_TRY(atvi_io_file_save_soon(pool, dir, "model.atvi", r->model));
  ATVI_TRY(atvi_app_emulators_keep(ctx, pool, r->l, dir));
  ATVI_TRY(atvi_io_groups_write(r->plain, dir));
  ATVI_TRY(atvi_io_dir_sync(ctx, groups));
  ATVI_TRY(atvi_io_dir_sync(ctx, dir));
  return atvi_io_file_save_in(pool, dir, "fit.json", r->how);
}

/* The folder could not be written: saves the results somewhere else and says where. Always a failure. */
static atvi_status rescue(atvi_ctx *ctx, atvi_pool *pool, const char *name, const results *r) {
  const char *tmp = getenv("TMPDIR"), *why = atvi_pool_printf(pool, "%s", atvi_errmsg(ctx));
  char *base = atvi_pool_printf(pool, "%s/atvi-rescued-%s", tmp && *tmp ? tmp : "/tmp", name), *dir = NULL;
  if (!why || !base) return ATVI_ENOMEM;
  if (atvi_io_rundir_new(ctx, pool, base, &dir) == ATVI_OK && save(ctx, pool, dir, r) == ATVI_OK)
    return ATVI_FAIL(ctx, ATVI_EIO, "%s\nThe results are saved in %s instead: move them once there is room.",
                     why, dir);
  static const char *const file[] = {"draws.csv", "weighted.csv", "summary.json", "model.atvi", "fit.json"};
  for (size_t i = 0; dir && i < sizeof file / sizeof file[0]; i++)
    drop(pool, dir, file[i]); /* half of the files are not a fit */
  if (dir) atvi_app_emulators_drop(dir);
  if (dir) atvi_io_groups_drop(dir);
  if (dir) rmdir(dir);
  return ATVI_FAIL(ctx, ATVI_EIO, "%s\nThe results could not be saved in %s either and are lost.", why, base);
}

static atvi_status finish(atvi_ctx *ctx, atvi_pool *pool, const atvi_app_fit_opts *o, atvi_loaded *l,
                          const atvi_delivery *y, atvi_report_session *report, atvi_app_fit_result *out) {
  atvi_summary *s;
  results r = {.weighted = y->draws->weight ? y->draws : NULL,
               .plain = y->plain,
               .model = l->model->lang->source,
               .l = l};
  ATVI_TRY(atvi_app_advised_summary(pool, y->draws, &s));
  ATVI_TRY(atvi_diag_summary_json(pool, s, &r.summary));
  ATVI_TRY(atvi_diag_summary_text(pool, s, &out->text, &out->judged.at));
  ATVI_TRY(config(ctx, pool, o, l, &r.how));
  out->judged.verdict = s->verdict;
  out->reason = s->verdict == ATVI_VERDICT_OK ? NULL : atvi_diag_summary_reason(s)->text;
  out->stopped = y->draws->made->end == ATVI_END_STOPPED;
  atvi_status status = save(ctx, pool, out->dir, &r);
  atvi_export_process nc = {0};
  if (status == ATVI_OK && !o->leaves_nc)
    atvi_app_export_begin(ctx, pool, &(atvi_export_fit){r.plain, r.weighted, atvi_verdict_name(s->verdict)},
                          out->dir, &nc);
  if (status == ATVI_OK && o->no_report) drop(pool, out->dir, "report.html"); /* of an earlier fit */
  if (status == ATVI_OK) atvi_app_report_finish(report, y, s, r.how, &out->report);
  atvi_app_export_end(ctx, &nc);
  return status == ATVI_EIO ? rescue(ctx, pool, l->target->name, &r) : status;
}

atvi_status atvi_app_out_dir(atvi_ctx *ctx, atvi_pool *pool, const char *out, bool force, const char *base,
                             const char **dir) {
  if (!out) {
    char *path;
    ATVI_TRY(atvi_io_rundir_new(ctx, pool, base, &path));
    *dir = path;
    return ATVI_OK;
  }
  *dir = out;
  atvi_app_report_sweep(pool, out);
  bool empty = rmdir(out) == 0; /* left by a fit that was killed: it contains nothing of the user's */
  return atvi_io_dir_make(ctx, out, !force && !empty);
}

static atvi_status infer(atvi_ctx *ctx, atvi_pool *pool, const atvi_app_fit_opts *opts,
                         const atvi_fit_plan *plan, atvi_loaded *l, atvi_delivery *y) {
  ATVI_TRY(atvi_infer_fit_with(ctx, l->ev, plan, &y->draws));
  atvi_app_predictions_priors(l, y->draws); /* which moments there are depends on them */
  if (atvi_app_no_data(l))
    ATVI_TRY(atvi_draws_say(y->draws, ATVI_NOTE, ATVI_CODE_NO_DATA,
                            "Every observation is missing: the data say nothing, and this is the prior."));
  const char *flat = atvi_app_flat(l);
  if (flat && (isfinite(y->draws->made->log_evidence)))
    ATVI_TRY(atvi_draws_say(
        y->draws, ATVI_NOTE, ATVI_CODE_PRIOR_FLAT,
        "The prior of %s is flat, with density 1 everywhere: the log evidence compares models only "
        "if they have the same flat parameters.",
        flat));
  const char *gaps;
  ATVI_TRY(atvi_app_gaps(pool, l->model->lang, &gaps));
  if (gaps) ATVI_TRY(atvi_draws_say(y->draws, ATVI_NOTE, ATVI_CODE_GAPS, "Gaps in %s.", gaps));
  if (l->model->holdout.held)
    ATVI_TRY(atvi_draws_say(y->draws, ATVI_NOTE, ATVI_CODE_HELD_OUT,
                            "%td of %td observations were held out (%s).", l->model->holdout.n_held,
                            l->model->holdout.n_held + l->model->holdout.n_left, opts->holdout));
  if (l->model->choice.automatic &&
      (l->model->choice.uses_both || l->model->odes.fit.method == ATVI_ODE_STIFF))
    ATVI_TRY(atvi_draws_say(y->draws, ATVI_NOTE, ATVI_CODE_SOLVER_CHOSEN,
                            "The model names no solver: %s (%s).",
                            l->model->odes.fit.method == ATVI_ODE_STIFF
                                ? "the implicit one ran it"
                                : "the explicit one ran it, and the implicit one the points that are stiff",
                            l->model->choice.why));
  ATVI_TRY(atvi_app_emulators_say(ctx, pool, &opts->model, l, y->draws));
  return atvi_app_delivery_make(ctx, pool, l, y);
}

/* What is known of a fit that is to go on later is on the disk before its results so far are. */
static void put_aside(atvi_loaded *l, atvi_memo **memo) {
  atvi_model_evaluator_set_memo(l->ev, NULL);
  atvi_io_memo_close(*memo, false);
  *memo = NULL;
}

static bool interrupted(atvi_ctx *ctx, atvi_status status, const atvi_delivery *y) {
  bool stopped = status == ATVI_OK && y->draws->made->end == ATVI_END_STOPPED;
  return stopped || status == ATVI_ESTOP || status == ATVI_ENOMEM ||
         (status == ATVI_OK && atvi_stop_asked(ctx));
}

/* The input of all that follows: the history, and the predictions at the draws. */
static atvi_status predict(atvi_pool *pool, const atvi_app_fit_opts *opts, atvi_loaded *l,
                           const atvi_recorder *rec, atvi_draws *d) {
  const char *command = atvi_app_report_command(pool, opts);
  if (!command) return ATVI_ENOMEM;
  ATVI_TRY(atvi_draws_history(d, rec->n, rec->step));
  return atvi_app_predictions_of_fit(l, &opts->model, l->model->lang->source, opts->holdout, command, d);
}

static atvi_status run(atvi_ctx *ctx, atvi_pool *pool, const atvi_app_fit_opts *opts, atvi_loaded *l,
                       const atvi_fit_plan *plan, atvi_app_fit_result *result) {
  atvi_delivery y = {0};
  atvi_report_session report;
  atvi_memo *memo;
  ATVI_TRY(atvi_app_resume_begin(ctx, pool, opts, l, &result->dir, &memo));
  atvi_model_evaluator_set_memo(l->ev, memo);
  atvi_app_report_begin(ctx, pool, opts, l, result->dir, &report);
  atvi_app_recorder_resume(&report.rec, memo);
  atvi_status status = infer(ctx, pool, opts, plan, l, &y);
  if (interrupted(ctx, status, &y)) {
    put_aside(l, &memo);
    result->resume = result->dir;
  }
  if (status == ATVI_OK) status = predict(pool, opts, l, &report.rec, y.plain);
  if (status == ATVI_OK) status = finish(ctx, pool, opts, l, &y, &report, result);
  atvi_app_report_end(&report);
  atvi_model_evaluator_set_memo(l->ev, NULL);
  atvi_io_memo_close(memo, status != ATVI_OK || !opts->keeps_checkpoint);
  if (status != ATVI_OK) rmdir(result->dir); /* removed only if empty: it contains nothing of the user's */
  atvi_app_delivery_free(&y);
  return status;
}

atvi_status atvi_app_fit(atvi_ctx *ctx, atvi_pool *pool, const atvi_app_fit_opts *given,
                         atvi_app_fit_result *result) {
  atvi_fit_plan plan;
  atvi_loaded l;
  atvi_app_fit_opts opts = *given;
  *result = (atvi_app_fit_result){0};
  if (given->resume && !atvi_app_resume_there(pool, given->resume) &&
      atvi_app_whole_fit(ctx, pool, given->resume) == ATVI_OK) {
    result->dir = given->resume;
    return ATVI_OK;
  }
  if (given->resume) ATVI_TRY(atvi_app_resume_options(ctx, pool, given, &opts));
  ATVI_TRY(atvi_infer_fit_check(ctx, &opts.how, &plan));
  ATVI_TRY(atvi_app_load(ctx, &opts.model, &(atvi_model_load_opts){.holdout = opts.holdout}, &l));
  atvi_status status = opts.model.serves
                           ? atvi_app_predictions_serve(ctx, pool, &l, &opts.model, opts.holdout)
                           : run(ctx, pool, &opts, &l, &plan, result);
  atvi_app_unload(&l);
  return status;
}

enum { PLAIN_LEAST = 4000 }; /* resampled draws: systematic resampling repeats draws, but adds little noise */

/* Equally weighted draws of the posterior, if possible. */
static atvi_status plain_draws(atvi_delivery *y) {
  y->plain = y->draws;
  if (!y->draws->weight) return ATVI_OK;
  if (!atvi_diag_weights_hold(y->draws)) return atvi_draws_unweighted(y->draws, &y->plain);
  atvi_idx n = (atvi_idx)atvi_diag_weights_ess(y->draws);
  if (n < PLAIN_LEAST) n = PLAIN_LEAST;
  if (n > y->draws->n) n = y->draws->n;
  return atvi_draws_resample(y->draws, n, y->draws->made->seed, &y->plain);
}

enum { SOLVER_POINTS = 8 * ATVI_LANES };

/* Is the solver accurate enough at the posterior? */
static atvi_status check_solver(atvi_ctx *ctx, atvi_pool *pool, atvi_loaded *l, atvi_delivery *y) {
  const atvi_draws *draws = y->plain;
  atvi_idx n = draws->n < SOLVER_POINTS ? draws->n : SOLVER_POINTS, d = draws->n_param;
  double *theta = atvi_pool_take(pool, (size_t)(d * n + 1), sizeof *theta), error;
  if (!theta) return ATVI_ENOMEM;
  for (atvi_idx i = 0; i < d; i++)
    for (atvi_idx j = 0; j < n; j++) theta[i * n + j] = draws->x[i * draws->n + j * draws->n / n];
  ATVI_TRY(atvi_app_solver_error(ctx, l, n, theta, &error));
  y->draws->made->log_lik_error = y->plain->made->log_lik_error = error;
  return ATVI_OK;
}

atvi_status atvi_app_delivery_make(atvi_ctx *ctx, atvi_pool *pool, atvi_loaded *l, atvi_delivery *y) {
  ATVI_TRY(plain_draws(y));
  return check_solver(ctx, pool, l, y);
}

void atvi_app_delivery_free(atvi_delivery *y) {
  if (y->plain != y->draws) atvi_draws_free(y->plain);
  atvi_draws_free(y->draws);
  *y = (atvi_delivery){0};
}
