/* SPDX-License-Identifier: MIT */
/* atvi export: the draws of a finished fit in the format of another program. */
#include "app/common.h"
#include "app/predictions.h"
#include "io/arrays.h"
#include "io/draws_file.h"
#include "io/file.h"
#include "io/netcdf.h"
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct {
  atvi_ctx *ctx;
  atvi_pool *pool;
  const atvi_app_export_opts *opts;
  const char *dir;
  atvi_draws *plain, *weighted; /* weighted: NULL if there are none */
  atvi_text done;               /* names of files */
} exporting;

static atvi_status read_draws(exporting *x) {
  const char *plain = atvi_pool_printf(x->pool, "%s/draws.csv", x->dir);
  const char *weighted = atvi_pool_printf(x->pool, "%s/weighted.csv", x->dir);
  if (!plain || !weighted) return ATVI_ENOMEM;
  if (access(plain, F_OK) == 0) ATVI_TRY(atvi_app_whole_fit(x->ctx, x->pool, x->dir));
  ATVI_TRY(atvi_io_draws_csv_read(x->ctx, plain, &x->plain));
  ATVI_TRY(atvi_io_groups_priors(x->plain, x->dir));
  if (access(weighted, F_OK) != 0) return ATVI_OK;
  ATVI_TRY(atvi_io_draws_csv_read(x->ctx, weighted, &x->weighted));
  return atvi_io_groups_priors(x->weighted, x->dir);
}

/* The file to write: --out, or one of the run folder. */
static const char *place(const exporting *x, const char *name) {
  return x->opts->out ? x->opts->out : atvi_pool_printf(x->pool, "%s/%s", x->dir, name);
}

/* Whether path may be written. Default files in the folder of the fit may be overwritten; a pipe or a
 * terminal loses nothing. */
static atvi_status may_write(const exporting *x, const char *path) {
  struct stat is;
  if (!x->opts->out || x->opts->force || stat(path, &is) != 0 || !S_ISREG(is.st_mode)) return ATVI_OK;
  return ATVI_FAIL(x->ctx, ATVI_EEXIST, "%s already exists", path);
}

static void wrote(exporting *x, const char *path) { atvi_io_text_add(&x->done, "%s\n", path); }

/* path without that extension, followed by `more` */
static const char *beside(const exporting *x, const char *path, const char *extension, const char *more) {
  size_t n = strlen(path), e = strlen(extension);
  if (n > e && strcmp(path + n - e, extension) == 0) n -= e;
  return n > 4000 ? NULL : atvi_pool_printf(x->pool, "%.*s%s", (int)n, path, more);
}

static const atvi_draws *chosen(const exporting *x) { return x->opts->weighted ? x->weighted : x->plain; }

static atvi_status to_csv(exporting *x) {
  const char *path = place(x, x->opts->weighted ? "weighted-table.csv" : "draws-table.csv");
  if (!path) return ATVI_ENOMEM;
  ATVI_TRY(may_write(x, path));
  ATVI_TRY(atvi_io_draws_table_write(chosen(x), path));
  wrote(x, path);
  return ATVI_OK;
}

static atvi_status to_stan(exporting *x) {
  const char *path = place(x, "stan.csv");
  atvi_idx n = x->plain->n_chain;
  const char **each = atvi_pool_take(x->pool, (size_t)n, sizeof *each);
  if (!path || !each) return ATVI_ENOMEM;
  for (atvi_idx c = 0; c < n; c++) {
    char number[32];
    snprintf(number, sizeof number, "_%td.csv", c + 1);
    each[c] = n > 1 ? beside(x, path, ".csv", number) : path;
    if (!each[c]) return ATVI_ENOMEM;
    ATVI_TRY(may_write(x, each[c]));
  }
  for (atvi_idx c = 0; c < n; c++) {
    ATVI_TRY(atvi_io_draws_stan_write(x->plain, c, each[c]));
    wrote(x, each[c]);
  }
  return ATVI_OK;
}

/* ---- JSON ---- */

/* The info file that posteriordb keeps beside draws: how they were made, and their diagnostics, quantity by
 * quantity. */

static const double RHAT_MOST = 1.01, EBFMI_LEAST = 0.2;
enum { DRAWS_DUE = 10000, CHAINS_DUE = 4 }; /* required for a reference posterior */

/* One number of each quantity's summary. */
static void put_numbers(atvi_json *w, const char *key, const atvi_summary *s, const char *field) {
  const atvi_field *f = atvi_io_fields_find(&atvi_diag_summary_column_fields, field);
  atvi_io_json_list(w, key);
  for (atvi_idx j = 0; j < s->n_col; j++)
    atvi_io_json_put(w, NULL, atvi_io_json_real(atvi_io_field_number(f, &s->col[j])));
  atvi_io_json_end(w);
}

static void put_diagnostics(atvi_json *w, const atvi_draws *d, const atvi_summary *s) {
  const atvi_made *m = &s->made;
  atvi_io_json_object(w, "diagnostics");
  atvi_io_json_object(w, "diagnostic_information");
  atvi_io_json_list(w, "names");
  for (atvi_idx j = 0; j < s->n_col; j++)
    atvi_io_json_put(w, NULL, atvi_io_json_word(w->pool, atvi_io_array_bracket(w->pool, s->col[j].name)));
  atvi_io_json_end(w);
  atvi_io_json_end(w);
  atvi_io_json_put(w, "ndraws", json_integer(d->n));
  atvi_io_json_put(w, "nchains", json_integer(d->n_chain));
  put_numbers(w, "effective_sample_size_bulk", s, "ess_bulk");
  put_numbers(w, "effective_sample_size_tail", s, "ess_tail");
  put_numbers(w, "r_hat", s, "rhat");
  atvi_io_json_put(w, "divergent_transitions", atvi_io_json_real(m->divergences));
  atvi_io_json_put(w, "expected_fraction_of_missing_information", atvi_io_json_real(m->ebfmi));
  atvi_io_json_put(w, "pareto_khat", atvi_io_json_real(m->khat));
  atvi_io_fields_json(w, &atvi_io_made_fields, m, "elbo log_evidence log_evidence_se");
  atvi_io_json_end(w);
}

static json_t *known(bool is, bool good) { return is ? json_boolean(good) : json_null(); }

static void put_checks(atvi_json *w, const atvi_draws *d, const atvi_summary *s) {
  double rhat = atvi_diag_summary_headline(s).rhat;
  atvi_io_json_object(w, "checks");
  atvi_io_json_put(w, "ndraws_is_10k", json_boolean(d->n == DRAWS_DUE));
  atvi_io_json_put(w, "nchains_is_gte_4", json_boolean(d->n_chain >= CHAINS_DUE));
  atvi_io_json_put(w, "r_hat_below_1_01", known(rhat > 0, rhat < RHAT_MOST));
  atvi_io_json_put(w, "efmi_above_0_2", known(!isnan(s->made.ebfmi), s->made.ebfmi > EBFMI_LEAST));
  atvi_io_json_put(w, "verdict_is_ok", json_boolean(s->verdict == ATVI_VERDICT_OK));
  atvi_io_json_end(w);
}

static atvi_status write_info(atvi_pool *pool, const atvi_draws *d, const atvi_summary *s,
                              const char **text) {
  atvi_json w = {.pool = pool};
  atvi_io_json_object(&w, NULL);
  atvi_io_json_put(&w, "name", atvi_io_json_word(pool, s->made.model));
  atvi_io_json_object(&w, "inference");
  atvi_io_fields_json(&w, &atvi_io_made_fields, &s->made, "method");
  atvi_io_json_object(&w, "method_arguments");
  atvi_io_fields_json(&w, &atvi_io_made_fields, &s->made, "seed");
  atvi_io_json_end(&w);
  atvi_io_json_end(&w);
  put_diagnostics(&w, d, s);
  put_checks(&w, d, s);
  atvi_io_json_list(&w, "comments");
  for (atvi_idx i = 0; i < s->n_message; i++)
    atvi_io_json_put(&w, NULL, atvi_io_json_word(pool, s->message[i].text));
  atvi_io_json_end(&w);
  atvi_io_json_object(&w, "versions");
  atvi_io_json_put(&w, "atvi_version", json_string(ATVI_VERSION));
  atvi_io_json_end(&w);
  return atvi_io_json_get(&w, "info", text);
}

static atvi_status to_json(exporting *x) {
  const char *path = place(x, x->opts->weighted ? "weighted.json" : "draws.json"), *text;
  const char *info = path ? beside(x, path, ".json", ".info.json") : NULL;
  atvi_summary *s;
  if (!info) return ATVI_ENOMEM;
  ATVI_TRY(may_write(x, path));
  ATVI_TRY(may_write(x, info));
  ATVI_TRY(atvi_app_advised_summary(x->pool, x->weighted ? x->weighted : x->plain, &s));
  ATVI_TRY(write_info(x->pool, chosen(x), s, &text));
  ATVI_TRY(atvi_io_draws_json_write(chosen(x), path));
  ATVI_TRY(atvi_io_file_save(x->ctx, info, text, strlen(text)));
  wrote(x, path);
  wrote(x, info);
  return ATVI_OK;
}

/* ---- netCDF ---- */

/* From the folder or, for a fit of an older version without groups, from its model. */
static atvi_status find_groups(const exporting *x, atvi_loaded *l) {
  atvi_fitted run;
  atvi_idx n, *draw;
  if (x->opts->fit.n_data == 0 && atvi_io_groups_there(x->dir)) return atvi_io_groups_read(x->plain, x->dir);
  ATVI_TRY(atvi_app_fitted_read(x->ctx, x->pool, &x->opts->fit, &run));
  ATVI_TRY(atvi_app_load(x->ctx, &run.model,
                         &(atvi_model_load_opts){.text = run.text, .holdout = run.holdout}, l));
  ATVI_TRY(atvi_app_predictions_pick(x->pool, x->plain, ATVI_PREDICTIONS_CHECKED, &n, &draw));
  ATVI_TRY(atvi_app_predictions_check(l, x->dir, x->plain, false, &n, draw));
  ATVI_TRY(atvi_app_predictions_of_fit(l, &run.model, run.text, run.holdout, NULL, x->plain));
  const char *why = x->plain->about->no_groups;
  return why ? ATVI_FAIL(x->ctx, ATVI_EMODEL, "%s", why) : ATVI_OK;
}

/* The model cannot be run: a file without its groups is better than none, but worse than one that may have
 * them. */
static atvi_status without_model(const exporting *x, const char *path) {
  const char *why = atvi_pool_printf(x->pool, "%s", atvi_errmsg(x->ctx));
  if (!why) return ATVI_ENOMEM;
  if (!x->opts->out && !x->opts->force && access(path, F_OK) == 0)
    return ATVI_FAIL(
        x->ctx, ATVI_EEXIST,
        "%s already exists and may contain more than can be written now, because the model cannot be run: %s",
        path, why);
  atvi_log(x->ctx, ATVI_LOG_WARN,
           "posterior_predictive, log_likelihood, observed_data and prior are left out because the model "
           "cannot be run: %s",
           why);
  return ATVI_OK;
}

static atvi_status to_nc(exporting *x) {
  atvi_loaded l = {0};
  const char *path = place(x, "fit.nc");
  if (!path) return ATVI_ENOMEM;
  ATVI_TRY(atvi_io_netcdf_available(x->ctx));
  ATVI_TRY(may_write(x, path));
  atvi_summary *s;
  atvi_status status = find_groups(x, &l);
  atvi_app_unload(&l);
  if (status != ATVI_OK) status = without_model(x, path);
  if (status == ATVI_OK) status = atvi_app_advised_summary(x->pool, x->weighted ? x->weighted : x->plain, &s);
  if (status == ATVI_OK)
    status = atvi_app_export_nc(
        x->ctx, x->pool, &(atvi_export_fit){x->plain, x->weighted, atvi_verdict_name(s->verdict)}, path);
  if (status == ATVI_OK) wrote(x, path);
  return status;
}

/* ---- the whole ---- */

static const struct {
  const char *name;
  bool weights; /* has its own place for weights */
  atvi_status (*to)(exporting *x);
} FORMAT[] = {{"nc", false, to_nc},
              {"netcdf", false, to_nc},
              {"csv", true, to_csv},
              {"stan", false, to_stan},
              {"json", true, to_json}};
enum { FORMATS = sizeof FORMAT / sizeof *FORMAT };

static atvi_status check_format(const exporting *x, int *k) {
  const char *name = x->opts->format ? x->opts->format : "";
  for (*k = 0; *k < FORMATS; ++*k)
    if (strcmp(name, FORMAT[*k].name) == 0) break;
  if (*k == FORMATS)
    return ATVI_FAIL(x->ctx, ATVI_EINVAL, "%s%s; want nc, csv, stan or json",
                     *name ? "--format " : "--format is missing", name);
  if (x->opts->weighted && !FORMAT[*k].weights)
    return ATVI_FAIL(x->ctx, ATVI_EINVAL, "--weighted: %s",
                     FORMAT[*k].to == to_nc ? "fit.nc always contains the weighted draws too"
                                            : "Stan CSV has no weights; use csv or json");
  return ATVI_OK;
}

static atvi_status convert(exporting *x, int k) {
  ATVI_TRY(read_draws(x));
  if (x->opts->weighted && !x->weighted)
    return ATVI_FAIL(x->ctx, ATVI_EINVAL, "--weighted: the draws of %s have no weights", x->dir);
  return FORMAT[k].to(x);
}

atvi_status atvi_app_export(atvi_ctx *ctx, atvi_pool *pool, const atvi_app_export_opts *opts,
                            const char **text) {
  exporting x = {.ctx = ctx, .pool = pool, .opts = opts, .done = {.pool = pool}};
  int k;
  *text = NULL;
  ATVI_TRY(check_format(&x, &k));
  ATVI_TRY(atvi_app_find_run(ctx, pool, opts->fit.where, "draws.csv", &x.dir));
  atvi_status status = convert(&x, k);
  atvi_draws_free(x.plain);
  atvi_draws_free(x.weighted);
  return status == ATVI_OK ? atvi_io_text_get(&x.done, text) : status;
}
