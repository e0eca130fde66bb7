/* SPDX-License-Identifier: MIT */
/* atvi simulate: trajectories, synthetic data or prior predictive draws, as CSV.
 *
 *   (default)   t, tracked quantities, states, one line per time; for a model without states the
 *               means of its observations
 *   --observe   synthetic data in the layout of the model's data file: with its header, if it has one, its missing cells, and censored
 *               where the model has limits
 *   --fit DIR   draws of a fit, with parameters of units drawn from their priors given these: new units from the population
 *   --prior N   N draws from the prior: draw, parameters, derived quantities, and simulated observations
 *               (tracked quantities and states if the model observes nothing), one line per draw and time */
#include "app/common.h"
#include "app/predictions.h"
#include "app/replicate.h"
#include "app/simulate_table.h"
#include "io/csv.h"
#include "io/draws_file.h"
#include "io/text.h"
#include <math.h>
#include <string.h>

enum { DRAWS = 100 };                   /* of a fit, by default */
static const double MOST_NUMBERS = 2e8; /* in one table: 1.6 GB */

atvi_status atvi_app_data_text(atvi_pool *pool, const atvi_loaded *l, atvi_idx file, const double *value,
                               const char **text) {
  atvi_table one = {
      .l = l, .file = file, .value = value, .B = 1, .fitted = true, .whole = atvi_app_no_data(l)};
  atvi_text out = {.pool = pool};
  ATVI_TRY(atvi_app_table_make(pool, &one));
  atvi_app_table_header(&out, &one, false);
  atvi_app_table_lines(&out, &one, 0, NULL, NULL);
  return atvi_io_text_get(&out, text);
}

/* Whether it is the name of data set k, or of its file. */
static bool is_set(const atvi_loaded *l, atvi_idx k, const char *name) {
  const char *path = l->model->lang->data[k].path;
  size_t n = strlen(name), all = strlen(path);
  bool file = n && all >= n && strcmp(path + all - n, name) == 0 && (all == n || path[all - n - 1] == '/');
  return file || strcmp(atvi_app_set_name(l->model, k), name) == 0;
}

static atvi_status which_file(atvi_ctx *ctx, const atvi_loaded *l, const char *data, atvi_idx *file) {
  const atvi_lang *lang = l->model->lang;
  atvi_idx k = 0;
  *file = 0;
  if (data) {
    while (k < lang->n_data && !is_set(l, k, data)) k++;
    if (k == lang->n_data) return ATVI_FAIL(ctx, ATVI_EINVAL, "the model has no data set named %s", data);
    *file = lang->data[k].file;
  } else if (atvi_app_files(lang) > 1) {
    return ATVI_FAIL(ctx, ATVI_EINVAL,
                     "the model has %td data sets; choose one by its name or file with --observe=NAME",
                     atvi_app_files(lang));
  }
  return lang->n_observe
             ? ATVI_OK
             : ATVI_FAIL(ctx, ATVI_EINVAL,
                         "the model observes nothing, so there is nothing to simulate with --observe");
}

/* What one call computes, and where the numbers go. */
typedef struct {
  bool many;    /* draws instead of one point */
  bool observe; /* observations with their noise */
  bool data;    /* in the layout of a data file; else tracked quantities and states */
  atvi_idx file, B;
  double *theta, *derived, *value;
} job;

static atvi_status plan(atvi_ctx *ctx, atvi_pool *pool, const atvi_app_simulate_opts *o, const atvi_loaded *l,
                        job *j) {
  const atvi_target *t = l->target;
  const atvi_lang *lang = l->model->lang;
  j->many = o->prior > 0 || o->fit || o->draws > 0;
  j->observe = o->observe || (j->many && lang->n_observe > 0);
  j->data = j->observe || (lang->n_state == 0 && lang->n_observe > 0);
  j->B = o->prior > 0 ? o->prior : o->draws > 0 ? o->draws : o->fit ? DRAWS : 1;
  if (j->data) ATVI_TRY(which_file(ctx, l, o->data, &j->file));
  for (atvi_idx s = 0; j->data && o->times && s < lang->n_observe; s++)
    for (int a = 0; a < lang->observe[s].n_arg; a++)
      if (lang->data[lang->observe[s].data].file == j->file &&
          atvi_graph_kinds(lang->graph, lang->observe[s].arg[a]) >> ATVI_IN_DATA & 1)
        return ATVI_FAIL(ctx, ATVI_EINVAL,
                         "--times: %s depends on a column of its data file, which has no value at other "
                         "times; leave --times out",
                         lang->observe[s].name);
  double wanted = (double)j->B * (double)(t->d + t->n_derived + t->n_out + 1);
  if (wanted > MOST_NUMBERS)
    return ATVI_FAIL(ctx, ATVI_EINVAL, "%td draws: that is %.2g numbers; use fewer", j->B, wanted);
  j->theta = atvi_pool_take(pool, (size_t)(t->d * j->B), sizeof(double));
  j->derived = atvi_pool_take(pool, (size_t)(t->n_derived * j->B + 1), sizeof(double));
  j->value = atvi_pool_take(pool, (size_t)((j->observe ? t->n_obs : t->n_out) * j->B + 1), sizeof(double));
  return j->theta && j->derived && j->value ? ATVI_OK : ATVI_ENOMEM;
}

/* ---- parameters ---- */

/* The same point for all draws, which differ by their noise. */
static atvi_status one_point(atvi_ctx *ctx, const atvi_app_simulate_opts *o, const atvi_target *t, job *j) {
  atvi_idx B = j->B;
  ATVI_TRY(atvi_app_point(ctx, t, o->n_set, o->set, j->theta));
  for (atvi_idx i = t->d - 1; i >= 0; i--)
    for (atvi_idx b = B - 1; b >= 0; b--) j->theta[i * B + b] = j->theta[i];
  return ATVI_OK;
}

/* Parameters outside blocks from draws of the fit: theta[n][B]. */
static atvi_status take_draws(atvi_ctx *ctx, atvi_pool *pool, const char *dir, const atvi_draws *d,
                              atvi_idx n, const atvi_target *t, const double *set, job *j) {
  atvi_idx *draw;
  if (j->B > d->n)
    atvi_log(ctx, ATVI_LOG_NOTE, "%s has %td draws, fewer than %td: all are used", dir, d->n, j->B);
  ATVI_TRY(atvi_app_predictions_pick(pool, d, j->B, &j->B, &draw));
  for (atvi_idx i = 0; i < n; i++) {
    atvi_idx c = atvi_draws_find(d, t->param[i].name);
    if (c < 0 && isnan(set[i]))
      return ATVI_FAIL(ctx, ATVI_EINVAL,
                       "--fit %s: the fit has no draws of %s; if it was fixed there, add --set %s=...", dir,
                       t->param[i].name, t->param[i].name);
    for (atvi_idx b = 0; c >= 0 && b < j->B; b++) j->theta[i * j->B + b] = d->x[c * d->n + draw[b]];
  }
  return ATVI_OK;
}

static atvi_status read_draws(atvi_ctx *ctx, atvi_pool *pool, const char *where, atvi_idx n,
                              const atvi_target *t, const double *set, job *j) {
  const char *dir;
  atvi_draws *d;
  ATVI_TRY(atvi_app_find_run(ctx, pool, where, "draws.csv", &dir));
  const char *path = atvi_pool_printf(pool, "%s/draws.csv", dir);
  if (!path) return ATVI_ENOMEM;
  ATVI_TRY(atvi_io_draws_csv_read(ctx, path, &d));
  atvi_status status = take_draws(ctx, pool, dir, d, n, t, set, j);
  atvi_draws_free(d);
  return status;
}

/* What is outside blocks is set or from a fit; parameters of units that are not set are drawn from their priors given it. */
static atvi_status draw_units(atvi_ctx *ctx, atvi_pool *pool, const atvi_app_simulate_opts *o,
                              const atvi_loaded *l, job *j) {
  const atvi_model *m = l->model;
  const atvi_target *t = l->target;
  atvi_idx outside = m->part ? m->part[0].m->target.d : t->d;
  double *set = atvi_pool_take(pool, (size_t)t->d + 1, sizeof *set);
  if (!set) return ATVI_ENOMEM;
  if (l->fixed) return ATVI_FAIL(ctx, ATVI_EINVAL, "--fix goes with --prior; with --fit use --set");
  ATVI_TRY(atvi_app_values(ctx, "--set", t, o->n_set, o->set, set));
  for (atvi_idx i = 0; i < t->d * j->B; i++) j->theta[i] = NAN;
  if (o->fit) ATVI_TRY(read_draws(ctx, pool, o->fit, outside, t, set, j));
  for (atvi_idx i = 0; i < t->d; i++) {
    const atvi_param *p = &t->param[i];
    if (i < outside && !o->fit && isnan(set[i]))
      return ATVI_FAIL(ctx, ATVI_EINVAL, "no value for %s: add --set %s=... (its bounds are [%g, %g])",
                       p->name, p->name, p->lower, p->upper);
    if (set[i] < p->lower || set[i] > p->upper)
      return ATVI_FAIL(ctx, ATVI_EINVAL, "--set %s=%g is outside its bounds [%g, %g]", p->name, set[i],
                       p->lower, p->upper);
    for (atvi_idx b = 0; !isnan(set[i]) && b < j->B; b++) j->theta[i * j->B + b] = set[i];
  }
  atvi_model_prior_fill(m, atvi_model_evaluator_work(l->ev), o->seed, ATVI_TRUTH_FIRST, j->B, j->theta);
  return ATVI_OK;
}

/* Whether observation i can and should be drawn: the columns that its distribution needs are present, and so
 * is the cell, unless the file is used only for its layout. */
static bool drawable(const atvi_loaded *l, atvi_idx i) {
  const atvi_model *m = l->model;
  atvi_idx o = 0, r = i;
  while (r >= m->target.series[o].n) r -= m->target.series[o++].n;
  const atvi_lang_observe *obs = &m->lang->observe[o];
  const atvi_csv *csv = m->lang->data[obs->data].csv;
  bool lacks = csv && obs->column >= 0 && r < csv->n_row &&
               csv->kind[r * csv->n_col + obs->column] == ATVI_CELL_MISSING;
  return m->covariates[o][r] && (!lacks || atvi_app_no_data(l));
}

atvi_idx atvi_app_undrawn(const atvi_loaded *l, atvi_idx B, const double *value) {
  atvi_idx n = 0;
  for (atvi_idx i = 0; i < l->target->n_obs; i++)
    for (atvi_idx b = 0; b < B; b++) n += !isfinite(value[i * B + b]) && drawable(l, i);
  return n;
}

static bool broken(const atvi_loaded *l, const job *j, atvi_idx draw) {
  atvi_idx n_obs = l->target->n_obs, n = j->observe ? n_obs : l->target->n_out;
  for (atvi_idx i = 0; i < n; i++)
    if (!isfinite(j->value[i * j->B + draw]) && (i >= n_obs || drawable(l, i))) return true;
  return false;
}

/* A point whose run fails gives a table of NA: say why. */
static atvi_status tell_failures(atvi_ctx *ctx, atvi_pool *pool, const atvi_loaded *l, const job *j,
                                 atvi_idx *failed) {
  const atvi_target *t = l->target;
  atvi_idx last = -1;
  *failed = 0;
  for (atvi_idx b = 0; b < j->B; b++)
    if (broken(l, j, b)) ++*failed, last = b;
  if (last < 0) return ATVI_OK;
  double ll, *theta = atvi_pool_take(pool, (size_t)t->d + 1, sizeof *theta);
  atvi_outcome outcome;
  if (!theta) return ATVI_ENOMEM;
  for (atvi_idx i = 0; i < t->d; i++) theta[i] = j->theta[i * j->B + last];
  t->ops->eval(t->self, atvi_model_evaluator_work(l->ev),
               &(atvi_batch){.B = 1, .theta = theta, .log_lik = &ll, .outcome = &outcome});
  const char *why =
      outcome == ATVI_RUN_OK ? "some distributions have no finite values there" : atvi_outcome_word(outcome);
  if (j->many)
    atvi_log(ctx, ATVI_LOG_WARN, "%td of %td points could not be run: %s", *failed, j->B, why);
  else
    atvi_log(ctx, ATVI_LOG_WARN, "the model cannot be run at this point: %s", why);
  return ATVI_OK;
}

static atvi_status simulate(atvi_ctx *ctx, atvi_pool *pool, const atvi_app_simulate_opts *o, atvi_loaded *l,
                            atvi_app_simulate_result *result) {
  const atvi_target *t = l->target;
  void *work = atvi_model_evaluator_work(l->ev);
  job j = {0};
  ATVI_TRY(plan(ctx, pool, o, l, &j));
  if (o->prior > 0)
    t->ops->prior_draw(t->self, work, o->seed, ATVI_TRUTH_FIRST, j.B, j.theta);
  else if (o->fit || (l->model->part && !l->fixed))
    ATVI_TRY(draw_units(ctx, pool, o, l, &j));
  else
    ATVI_TRY(one_point(ctx, o, t, &j));
  if (t->n_derived) t->ops->derived(t->self, work, j.B, j.theta, j.derived);
  if (j.observe)
    t->ops->simulate(t->self, work, o->seed, 0, j.B, j.theta, j.value);
  else
    t->ops->predict(t->self, work, j.B, j.theta, j.value);
  atvi_idx failed;
  ATVI_TRY(tell_failures(ctx, pool, l, &j, &failed));
  result->failed = failed == j.B;

  atvi_table one = {.l = l,
                    .file = j.data ? j.file : -1,
                    .value = j.value,
                    .B = j.B,
                    .fitted = j.observe && !j.many,
                    .whole = atvi_app_no_data(l)};
  ATVI_TRY(atvi_app_table_make(pool, &one));
  atvi_text out = {.pool = pool};
  atvi_app_table_header(&out, &one, j.many);
  for (atvi_idx k = 0; k < j.B; k++) atvi_app_table_lines(&out, &one, k, j.many ? j.theta : NULL, j.derived);
  return atvi_io_text_get(&out, &result->text);
}

/* ---- the start ---- */

/* The line that begins with that word; NULL: none. */
static const char *line_of(const char *source, const char *word) {
  size_t n = strlen(word);
  for (const char *at = source; *at; at += strcspn(at, "\n"), at += *at != 0) {
    const char *first = at + strspn(at, " \t");
    if (strncmp(first, word, n) == 0 && strchr(" \t(", first[n]) && first[n]) return at;
  }
  return NULL;
}

static bool has_time(const atvi_lang *lang) {
  for (atvi_idx k = 0; k < lang->n_data; k++)
    if (lang->data[k].time && lang->data[k].n_row > 0) return true;
  return false;
}

static const atvi_lang_observe *counting(const atvi_lang *lang) {
  for (atvi_idx o = 0; o < lang->n_observe; o++)
    if (atvi_app_counts(lang, &lang->observe[o])) return &lang->observe[o];
  return NULL;
}

atvi_status atvi_app_start_text(atvi_pool *pool, const atvi_lang *lang, double start, const char **text) {
  const char *burnin = line_of(lang->source, "burnin"), *rest = burnin ? burnin + strcspn(burnin, "\n") : "";
  char number[ATVI_NUMBER_BYTES + 1] = "";
  *text = NULL;
  if (lang->n_state == 0 || line_of(lang->source, "start")) return ATVI_OK;
  atvi_io_format_number(number, start);
  *text = burnin ? atvi_pool_printf(pool, "%.*sstart %s%s", (int)(burnin - lang->source), lang->source,
                                    number, rest)
                 : atvi_pool_printf(pool, "%s\nstart %s\n", lang->source, number);
  return *text ? ATVI_OK : ATVI_ENOMEM;
}

/* A model without 'start' starts at the first time of its data. Without data that is the first requested
 * time, where a fit to the simulated data will start, too. *text: the model with that start; NULL:
 * unchanged. */
static atvi_status say_start(atvi_ctx *ctx, atvi_pool *pool, const atvi_lang *lang, double first,
                             const char **text) {
  const char *burnin = line_of(lang->source, "burnin");
  if (lang->n_state == 0 || has_time(lang) || line_of(lang->source, "start")) return ATVI_OK;
  if (!burnin && counting(lang))
    return ATVI_FAIL(ctx, ATVI_EMODEL,
                     "%s: error: %s counts since the previous time (increase), and neither the data nor the "
                     "model say when counting starts\nhint: add a line such as: start 0",
                     lang->path, counting(lang)->name);
  double start = burnin ? first + lang->start : first; /* without data a burn-in starts before 0 */
  atvi_log(ctx, ATVI_LOG_NOTE,
           burnin
               ? "no data and no start in the model: it starts at %g, its burn-in before the first time, %g"
               : "no data and no start in the model: it starts at the first time, %g",
           start, first);
  return atvi_app_start_text(pool, lang, start, text);
}

/* Times may be dates, which need the calendar of the model; and the start depends on them. */
static atvi_status find_times(atvi_ctx *ctx, atvi_pool *pool, const atvi_app_simulate_opts *o, atvi_idx *n,
                              double **time, const char **text) {
  const atvi_app_model *model = &o->model;
  atvi_lang *lang;
  const atvi_lang_opts how = {model->n_data, model->data, model->folder, .data_optional = true};
  atvi_status status = atvi_lang_load(ctx, model->path, &how, &lang);
  if (status == ATVI_EIO) status = ATVI_EDATA; /* as in atvi_app_load */
  if (status != ATVI_OK) return status;
  status = atvi_app_times(ctx, pool, o->times, lang, n, time);
  if (status == ATVI_OK) status = say_start(ctx, pool, lang, (*time)[0], text);
  atvi_lang_free(lang);
  return status;
}

atvi_status atvi_app_simulate(atvi_ctx *ctx, atvi_pool *pool, const atvi_app_simulate_opts *opts,
                              atvi_app_simulate_result *result) {
  atvi_loaded l;
  atvi_idx n_time = 0;
  double *time = NULL;
  const char *text = NULL;
  *result = (atvi_app_simulate_result){.text = ""};
  if (opts->times) ATVI_TRY(find_times(ctx, pool, opts, &n_time, &time, &text));
  ATVI_TRY(atvi_app_load(
      ctx, &opts->model,
      &(atvi_model_load_opts){.n_time = n_time, .time = time, .text = text, .forward = true}, &l));
  atvi_status status = simulate(ctx, pool, opts, &l, result);
  atvi_app_unload(&l);
  return status;
}
