/* SPDX-License-Identifier: MIT */
/* An emulator is judged three ways: each run left out in turn with the estimates kept (closed form), some
 * runs held out with new estimates made without them, and Sobol indices, which measure the effect of
 * inputs. */
#include "app/app.h"
#include "app/common.h"
#include "app/report.h"
#include "io/file.h"
#include "io/fields.h"
#include "io/text.h"
#include "math/rng.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define DOES_NOT_MATTER 0.005 /* total index of every output */

typedef struct {
  atvi_ctx *ctx;
  atvi_pool *pool;
  const atvi_app_emulate_opts *o;
  const atvi_lang *lang;
  atvi_idx k;
  const atvi_lang_emulator *of;
  const atvi_emulated_runs *r;
  atvi_dossier d;
  atvi_emulator *em;
  /* loaded rather than fitted */
  bool saved;
  double seconds;
  atvi_em_sobol sobol;
  /* its estimates in words */
  const char *how;
  /* [d] */
  const char **remark;
} work;

/* ---- work ---- */

static atvi_status get(work *w, const char *path) {
  atvi_status status = ATVI_EDATA;
  double begun = atvi_clock_s();
  if (!w->o->refit && access(path, F_OK) == 0)
    status = atvi_gp_emulator_load(w->ctx, path, &w->r->runs, &w->r->opts, NULL, &w->em);
  w->saved = status == ATVI_OK;
  if (!w->saved) {
    ATVI_TRY(atvi_gp_emulator_new(w->ctx, &w->r->runs, &w->r->opts, &w->em));
    ATVI_TRY(atvi_gp_emulator_save(w->ctx, w->em, path));
  }
  w->seconds = atvi_clock_s() - begun;
  return ATVI_OK;
}

/* The first n_held of a random order are held out. */
static atvi_status split(work *w, atvi_pool *pool, atvi_em_runs *kept, atvi_em_runs *held) {
  const atvi_em_runs *all = &w->r->runs;
  atvi_idx n = all->n, d = all->d, m = all->m, *order = atvi_pool_take(pool, (size_t)n, sizeof *order);
  double *x = atvi_pool_take(pool, (size_t)(n * d), sizeof *x),
         *y = atvi_pool_take(pool, (size_t)(n * m), sizeof *y);
  atvi_rng r = atvi_math_rng_at(w->o->seed, 0, 0, 0);
  if (!order || !x || !y) return ATVI_ENOMEM;
  for (atvi_idx i = 0; i < n; i++) order[i] = i;
  for (atvi_idx i = n - 1; i > 0; i--) {
    atvi_idx j = (atvi_idx)(atvi_math_rng_uniform(&r) * (double)(i + 1)), t = order[i];
    order[i] = order[j];
    order[j] = t;
  }
  for (atvi_idx i = 0; i < n; i++) {
    memcpy(x + i * d, all->x + order[i] * d, (size_t)d * sizeof *x);
    memcpy(y + i * m, all->y + order[i] * m, (size_t)m * sizeof *y);
  }
  *held = *kept = *all;
  held->n = w->d.n_held;
  kept->n = n - w->d.n_held;
  held->x = x, held->y = y;
  kept->x = x + w->d.n_held * d, kept->y = y + w->d.n_held * m;
  return ATVI_OK;
}

static atvi_status test_on(work *w, atvi_pool *pool) {
  atvi_em_runs kept, held;
  atvi_emulator *em;
  ATVI_TRY(split(w, pool, &kept, &held));
  atvi_status fitted = atvi_gp_emulator_new(w->ctx, &kept, &w->r->opts, &em);
  if (fitted == ATVI_EDATA) { /* the rest never varies, so this test shows nothing */
    w->d.n_held = 0;
    return ATVI_OK;
  }
  ATVI_TRY(fitted);
  atvi_status status = atvi_gp_emulator_test(w->ctx, em, &held, &w->d.held);
  atvi_gp_emulator_free(em);
  return status;
}

static atvi_status hold_out(work *w) {
  atvi_pool *own; /* a second copy of the runs */
  w->d.n_held = (atvi_idx)ceil(w->o->test * (double)w->r->runs.n);
  if (w->d.n_held < 1 || w->r->runs.n - w->d.n_held < 2) {
    w->d.n_held = 0;
    return ATVI_OK;
  }
  ATVI_TRY(atvi_pool_new(w->ctx, &own));
  atvi_status status = test_on(w, own);
  atvi_pool_free(own);
  return status;
}

static atvi_status judge(work *w) {
  size_t d = (size_t)w->r->runs.d, m = (size_t)w->r->runs.m;
  const atvi_dossier held = w->d;
  ATVI_TRY(atvi_model_dossier_make(w->pool, w->lang, w->k, w->r, w->em, &w->d));
  w->d.n_held = held.n_held, w->d.held = held.held;
  w->sobol.first = atvi_pool_take(w->pool, d, sizeof(double));
  w->sobol.total = atvi_pool_take(w->pool, d, sizeof(double));
  w->sobol.first_time = atvi_pool_take(w->pool, d * m, sizeof(double));
  w->sobol.total_time = atvi_pool_take(w->pool, d * m, sizeof(double));
  if (atvi_pool_failed(w->pool)) return ATVI_ENOMEM;
  ATVI_TRY(atvi_gp_emulator_sobol(w->ctx, w->em, w->o->seed, &w->sobol));
  atvi_app_emulators_count_design(w->pool, w->lang, w->o->runs, w->k > 0 ? &w[-1].d : NULL, &w->d);
  return atvi_model_dossier_judge(w->pool, w->em, &w->d);
}

/* ---- words ---- */

static const char *doubt_of(const work *w, int i) {
  return atvi_app_emulators_doubt(w->pool, w->o->path, w->o->runs, &w->d, i);
}

/* "kernel matern52, nugget 0.013, ..." */
static const char *name_estimates(const work *w) {
  const atvi_em_info *info = atvi_gp_emulator_info(w->em);
  atvi_text t = {.pool = w->pool};
  const char *text;
  atvi_em_ends ends;
  atvi_gp_emulator_ends(&w->r->runs, &w->r->opts, info, &ends);
  atvi_io_text_add(&t, "kernel %s, nugget %.4g%s, sill %.4g", atvi_gp_em_kernel_name[w->r->opts.kernel],
                   info->nugget, ends.nugget < 0 ? " (at its lower limit)" : "", info->sill);
  if (w->r->runs.m > 1) atvi_io_text_add(&t, ", range in time %.4g", info->time_length);
  atvi_io_text_add(&t, "; log likelihood %.2f", info->log_lik);
  if (info->starts > 0) atvi_io_text_add(&t, " (%d of %d starts agree)", info->agreed, info->starts);
  if (info->n_basis < w->r->runs.m && w->r->opts.basis > 0)
    atvi_io_text_add(&t, "; basis of %td columns, %.4f of the variance", info->n_basis, info->basis_share);
  return atvi_io_text_get(&t, &text) == ATVI_OK ? text : "";
}

/* Without effect on any output, although the runs vary it. */
static bool does_not_matter(const work *w, atvi_idx j) {
  const atvi_em_runs *r = &w->r->runs;
  double most = 0;
  for (atvi_idx t = 0; t < r->m; t++) most = fmax(most, w->sobol.total_time[t * r->d + j]);
  return most < DOES_NOT_MATTER;
}

/* Where the prior extends beyond the runs by more than the last slice of a design, in length for a box, else
 * in mass. */
static const char *name_gap(const work *w, atvi_idx j) {
  const atvi_lang_param *p = &w->lang->param[w->of->input[j]];
  const atvi_emulated_runs *r = w->r;
  double share = fmax(0.02, 1.5 / (double)r->runs.n), gap = share * r->width[j];
  if (isfinite(p->lower) && isfinite(p->upper)) {
    bool all = r->least[j] <= r->lower[j] + gap && r->most[j] >= r->lower[j] + r->width[j] - gap;
    return all ? NULL
               : atvi_pool_printf(w->pool, "runs only from %.4g to %.4g: extrapolates beyond", r->least[j],
                                  r->most[j]);
  }
  atvi_program_axis a;
  if (atvi_app_program_axis_new(w->pool, w->lang, w->of->input[j], &a) != ATVI_OK) return NULL;
  double below = atvi_app_program_axis_below(&a, r->least[j]),
         above = 1 - atvi_app_program_axis_below(&a, r->most[j]);
  if (below <= share && above <= share) return NULL;
  return atvi_pool_printf(w->pool,
                          "runs only from %.4g to %.4g: extrapolates beyond, in %.3g %% of the prior",
                          r->least[j], r->most[j], 100 * (below + above));
}

static const char *remark(const work *w, atvi_idx j) {
  const atvi_em_runs *r = &w->r->runs;
  bool varies = false;
  for (atvi_idx i = 1; i < r->n; i++) varies = varies || r->x[i * r->d + j] != r->x[j];
  const char *what = !varies                 ? "the same in all runs: its effect is not known"
                     : does_not_matter(w, j) ? "does not matter"
                                             : "";
  const char *gap = name_gap(w, j);
  return gap && *what ? atvi_pool_printf(w->pool, "%s  %s", what, gap) : gap ? gap : what;
}

/* Rounded as in the table, without a sign on zero. */
static double shown(double index) { return fabs(index) < 5e-4 ? 0 : index; }

static void say_inputs(const work *w, atvi_text *t) {
  const atvi_em_info *info = atvi_gp_emulator_info(w->em);
  int width = 5;
  bool logs = false;
  for (atvi_idx j = 0; j < w->r->runs.d; j++) {
    int n = (int)strlen(w->d.input[j]);
    if (n > width) width = n;
  }
  atvi_io_text_add(t, "\n%-*s  %10s %10s %10s %8s %8s\n", width, "input", "from", "to", "length", "first",
                   "total");
  for (atvi_idx j = 0; j < w->r->runs.d; j++) {
    bool log_scale = !isnan(w->r->axis[j].base);
    logs = logs || log_scale;
    atvi_io_text_add(t, "%-*s  %10.4g %10.4g %10.4g %8.3f %8.3f%s%s%s\n", width, w->d.input[j],
                     w->r->lower[j], w->r->lower[j] + w->r->width[j], info->length[j],
                     shown(w->sobol.first[j]), shown(w->sobol.total[j]), log_scale ? "  log" : "",
                     *w->remark[j] ? "  " : "", w->remark[j]);
  }
  atvi_io_text_add(t, "length: of the kernel, in ranges of the input; first, total: Sobol indices, +- %.3f\n",
                   w->sobol.err);
  if (logs) atvi_io_text_add(t, "log: these inputs enter by their logarithm, in lengths and indices too\n");
}

static void say_judged(atvi_text *t, const atvi_em_loo *j) {
  atvi_io_text_add(t, "Q2 %.4f, 95 %% intervals contain %.1f %%, root mean square error %.4g\n", j->q2,
                   100 * j->coverage, j->rmse);
}

static atvi_app_mark say(const work *w, atvi_text *t) {
  atvi_io_text_add(t, "%s%s: %td runs, %td inputs, %td output%s each; %s in %.2g s\n", w->k ? "\n" : "",
                   w->of->name, w->r->runs.n, w->r->runs.d, w->r->runs.m, w->r->runs.m == 1 ? "" : "s",
                   w->saved ? "loaded" : "fitted", w->seconds);
  atvi_io_text_add(t, "%s\n", w->how);
  say_inputs(w, t);
  atvi_io_text_add(t, "\nleave one out: ");
  say_judged(t, &w->d.loo);
  atvi_io_text_add(t, "  worst run %.1f standard errors off, at ", w->d.loo.worst_error);
  for (atvi_idx j = 0; j < w->r->runs.d; j++)
    atvi_io_text_add(
        t, "%s%s %.4g", j ? ", " : "", w->d.input[j],
        atvi_model_emulated_axis_theta(&w->r->axis[j], w->r->runs.x[w->d.loo.worst * w->r->runs.d + j]));
  atvi_io_text_add(t, "\n");
  if (w->d.poor) atvi_io_text_add(t, "  poor %s\n", w->d.poor);
  if (w->d.n_held > 0) {
    atvi_io_text_add(t, "%td run%s held out: ", w->d.n_held, w->d.n_held == 1 ? "" : "s");
    say_judged(t, &w->d.held);
  }
  atvi_io_text_add(t, "verdict: ");
  atvi_app_mark judged = {atvi_model_dossier_doubtful(&w->d) ? ATVI_VERDICT_WARN : ATVI_VERDICT_OK,
                          (size_t)t->n};
  atvi_io_text_add(t, "%s\n", atvi_verdict_name(judged.verdict));
  for (int i = 0; i < w->d.n_doubt; i++)
    atvi_io_text_add(t, "  - %s%s\n", w->d.doubt[i].doubtful ? "" : "note: ", doubt_of(w, i));
  return judged;
}

#define JUDGED(member) ATVI_FIELD(REAL, atvi_em_loo, member)
static const atvi_field JUDGE[] = {JUDGED(q2), JUDGED(coverage), JUDGED(rmse), JUDGED(log_score),
                                   JUDGED(worst_error)};
static const atvi_fields JUDGE_FIELDS = ATVI_FIELDS(JUDGE);

static void put_judged(atvi_json *to, const char *key, const atvi_em_loo *j, atvi_idx n) {
  atvi_io_json_object(to, key);
  atvi_io_json_put(to, "n", json_integer(n));
  atvi_io_fields_json(to, &JUDGE_FIELDS, j, NULL);
  atvi_io_json_end(to);
}

static void put_real(atvi_json *to, const char *key, double x) {
  atvi_io_json_put(to, key, atvi_io_json_real(x));
}

static void put_input(atvi_json *to, const work *w, atvi_idx j) {
  const atvi_emulated_runs *r = w->r;
  atvi_io_json_object(to, NULL);
  atvi_io_json_put(to, "name", atvi_io_json_word(w->pool, w->d.input[j]));
  atvi_io_json_put(to, "range", atvi_io_json_pair(r->lower[j], r->lower[j] + r->width[j]));
  atvi_io_json_put(to, "scale", json_string(isnan(r->axis[j].base) ? "linear" : "log"));
  atvi_io_json_put(to, "runs", atvi_io_json_pair(r->least[j], r->most[j]));
  put_real(to, "length", atvi_gp_emulator_info(w->em)->length[j]);
  put_real(to, "first", w->sobol.first[j]);
  put_real(to, "total", w->sobol.total[j]);
  atvi_io_json_list(to, "q2_thirds");
  for (int k = 0; k < 3; k++) put_real(to, NULL, w->d.third[3 * j + k].q2);
  atvi_io_json_end(to);
  atvi_io_json_end(to);
}

static void put(atvi_json *to, const work *w) {
  const atvi_em_info *info = atvi_gp_emulator_info(w->em);
  const atvi_dossier *d = &w->d;
  atvi_io_json_object(to, NULL);
  atvi_io_json_put(to, "name", atvi_io_json_word(w->pool, d->name));
  atvi_io_json_put(to, "runs", json_integer(w->r->runs.n));
  atvi_io_json_put(to, "failed_runs", json_integer(w->r->record.n_failed));
  atvi_io_json_put(to, "outputs", json_integer(w->r->runs.m));
  atvi_io_json_put(to, "kernel", json_string(atvi_gp_em_kernel_name[w->r->opts.kernel]));
  put_real(to, "nugget", info->nugget);
  put_real(to, "time_length", w->r->runs.m > 1 ? info->time_length : NAN);
  put_real(to, "sill", info->sill);
  put_real(to, "log_likelihood", info->log_lik);
  atvi_io_json_put(to, "basis", json_integer(info->n_basis));
  put_real(to, "basis_share", info->basis_share);
  atvi_io_json_list(to, "inputs");
  for (atvi_idx j = 0; j < w->r->runs.d; j++) put_input(to, w, j);
  atvi_io_json_end(to);
  put_real(to, "sobol_error", w->sobol.err);
  put_judged(to, "leave_one_out", &d->loo, w->r->runs.n);
  if (d->n_held > 0) put_judged(to, "held_out", &d->held, d->n_held);
  atvi_io_json_put(to, "poor", atvi_io_json_word(w->pool, d->poor));
  atvi_io_json_put(to, "verdict", json_string(atvi_model_dossier_doubtful(d) ? "warn" : "ok"));
  atvi_io_json_list(to, "messages");
  for (int note = 0; note < 2; note++)
    for (int i = 0; i < d->n_doubt; i++)
      if (d->doubt[i].doubtful != note)
        atvi_io_json_put(to, NULL, atvi_io_json_word(w->pool, doubt_of(w, i)));
  atvi_io_json_end(to);
  atvi_io_json_end(to);
}

/* ---- report ---- */

static atvi_status for_report(const work *w, atvi_report_emulator *out) {
  atvi_app_emulators_report(w->pool, w->lang, w->o->path, w->o->runs, &w->d, out);
  out->how = atvi_pool_printf(w->pool, "Estimates: %s.", w->how);
  out->remark = w->remark;
  out->length = atvi_gp_emulator_info(w->em)->length;
  out->seconds = w->seconds;
  out->loaded = w->saved;
  out->first = w->sobol.first, out->total = w->sobol.total;
  out->total_time = w->r->runs.m > 1 ? w->sobol.total_time : NULL;
  out->sobol_error = w->sobol.err;
  return atvi_pool_status(w->pool);
}

static const char *command(atvi_pool *pool, const atvi_app_emulate_opts *o) {
  atvi_text out = {.pool = pool};
  const char *text;
  atvi_io_text_add(&out, "atvi emulate");
  atvi_app_report_word(&out, o->path);
  if (o->folder) atvi_io_text_add(&out, " --folder"), atvi_app_report_word(&out, o->folder);
  if (o->runs) atvi_io_text_add(&out, " --runs"), atvi_app_report_word(&out, o->runs);
  atvi_io_text_add(&out, " --test %g --seed %" PRIu64 " --refit", o->test, o->seed);
  return atvi_io_text_get(&out, &text) == ATVI_OK ? text : NULL;
}

/* Removes an old report, perhaps of other runs, but no page that somebody else wrote. */
static bool clear_report(atvi_ctx *ctx, atvi_pool *pool, const char *dir) {
  const char *old = atvi_pool_printf(pool, "%s/report.html", dir);
  if (!atvi_report_emulate_may(pool, dir)) {
    atvi_log(ctx, ATVI_LOG_WARN,
             "%s/report.html is not a report of atvi emulate, so it is kept and no report is written", dir);
    return false;
  }
  if (old) unlink(old);
  return true;
}

/* DIR/report.html and DIR/figures. Failures are logged. */
static void write_report(atvi_pool *pool, const work *w, atvi_app_emulate_result *result) {
  atvi_ctx *ctx = w->ctx;
  const atvi_lang *lang = w->lang;
  atvi_report_emulator *list = atvi_pool_take(pool, (size_t)lang->n_emulator, sizeof *list);
  const char *title = lang->title && *lang->title ? lang->title : lang->path;
  const atvi_report_emulate page = {title, w->o->path,          lang->n_emulator,
                                    list,  command(pool, w->o), lang->source};
  atvi_status status = list ? ATVI_OK : ATVI_ENOMEM;
  for (atvi_idx k = 0; k < lang->n_emulator && status == ATVI_OK; k++) status = for_report(&w[k], &list[k]);
  if (status == ATVI_OK) status = atvi_report_emulate_save(pool, &page, result->dir);
  if (status != ATVI_OK)
    atvi_log(ctx, ATVI_LOG_LOST, "the report could not be written: %s", atvi_errmsg(ctx));
  else
    result->report = atvi_pool_printf(w->pool, "%s/report.html", result->dir);
}

/* ---- the command ---- */

static atvi_status one(work *w, atvi_text *text, atvi_app_mark *judged, atvi_json *all) {
  const char *path = atvi_model_emulated_path(w->pool, w->lang, w->k, w->o->runs);
  if (!path) return ATVI_ENOMEM;
  ATVI_TRY(hold_out(w)); /* first, as one emulator at a time takes less memory */
  ATVI_TRY(get(w, path));
  ATVI_TRY(judge(w));
  w->how = name_estimates(w);
  w->remark = atvi_pool_take(w->pool, (size_t)w->r->runs.d + 1, sizeof *w->remark);
  for (atvi_idx j = 0; w->remark && j < w->r->runs.d; j++) w->remark[j] = remark(w, j);
  if (atvi_pool_failed(w->pool)) return ATVI_ENOMEM;
  *judged = say(w, text);
  put(all, w);
  return ATVI_OK;
}

static atvi_status every(work *w, const atvi_app_emulate_opts *opts, atvi_app_emulate_result *result,
                         atvi_json *all) {
  atvi_pool *pool = w->pool, *own; /* figures are large */
  atvi_text text = {.pool = pool};
  result->judged = atvi_pool_take(pool, (size_t)w->lang->n_emulator, sizeof *result->judged);
  if (!result->judged) return ATVI_ENOMEM;
  for (atvi_idx k = 0; k < w->lang->n_emulator; k++) {
    ATVI_TRY(one(&w[k], &text, &result->judged[result->n_judged++], all));
    result->doubtful = result->doubtful || atvi_model_dossier_doubtful(&w[k].d);
  }
  if (!opts->no_report && clear_report(w->ctx, pool, result->dir)) {
    ATVI_TRY(atvi_pool_new(w->ctx, &own));
    write_report(own, w, result);
    atvi_pool_free(own);
  }
  return atvi_io_text_get(&text, &result->text);
}

static atvi_status emulators(atvi_ctx *ctx, atvi_pool *pool, const atvi_app_emulate_opts *opts,
                             const atvi_lang *lang, atvi_app_emulate_result *result, atvi_json *all) {
  atvi_idx n = lang->n_emulator;
  work *w = atvi_pool_take(pool, (size_t)n, sizeof *w);
  atvi_emulated_runs *r = atvi_pool_take(pool, (size_t)n, sizeof *r);
  if (!w || !r) return ATVI_ENOMEM;
  ATVI_TRY(atvi_model_emulated_runs_read(pool, lang, NULL, opts->runs, 0, r));
  for (atvi_idx k = 0; k < n; k++)
    w[k] = (work){
        .ctx = ctx, .pool = pool, .o = opts, .lang = lang, .k = k, .of = &lang->emulator[k], .r = &r[k]};
  atvi_status status = every(w, opts, result, all);
  for (atvi_idx k = 0; k < n; k++) atvi_gp_emulator_free(w[k].em);
  return status;
}

static atvi_status emulate(atvi_ctx *ctx, atvi_pool *pool, const atvi_app_emulate_opts *opts,
                           const atvi_lang *lang, atvi_app_emulate_result *result) {
  if (lang->n_emulator == 0)
    return ATVI_FAIL(ctx, ATVI_EMODEL,
                     "%s:1:1: error: the model has no emulator\nhint: a block emulator NAME { ... }, or an "
                     "observation ~ emulator(NAME) + ... of an output of its simulator; docs/simulators.md",
                     lang->path);
  result->dir = opts->runs ? opts->runs : atvi_sim_folder(pool, lang->path);
  if (!result->dir) return ATVI_ENOMEM;
  ATVI_TRY(atvi_io_dir_make(ctx, result->dir, false));
  atvi_json all = {.pool = pool};
  atvi_io_json_list(&all, NULL);
  atvi_status status = emulators(ctx, pool, opts, lang, result, &all);
  atvi_status written = atvi_io_json_get(&all, "emulate.json", &result->json);
  ATVI_TRY(status);
  ATVI_TRY(written);
  return atvi_io_file_save_in(pool, result->dir, "emulate.json", result->json);
}

atvi_status atvi_app_emulate(atvi_ctx *ctx, atvi_pool *pool, const atvi_app_emulate_opts *opts,
                             atvi_app_emulate_result *result) {
  atvi_lang *lang;
  *result = (atvi_app_emulate_result){0};
  if (!(opts->test >= 0 && opts->test < 1))
    return ATVI_FAIL(ctx, ATVI_EINVAL, "--test %g: want a share of the runs, at least 0 and below 1",
                     opts->test);
  ATVI_TRY(atvi_lang_load(ctx, opts->path, &(atvi_lang_opts){.folder = opts->folder, .data_optional = true},
                          &lang));
  atvi_status status = emulate(ctx, pool, opts, lang, result);
  atvi_lang_free(lang);
  return status;
}
