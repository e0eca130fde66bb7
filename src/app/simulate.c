/* SPDX-License-Identifier: MIT */
/* atvi simulate: trajectories, synthetic data or prior predictive draws, as CSV.
 *
 *   (default)   t, tracked quantities, states, one line per time; for a model without states the
 *               means of its observations
 *   --observe   synthetic data in the layout of the model's data file: with its header, if it has one, its missing cells, and censored
 *               where the model has limits
 *   --prior N   N draws from the prior: draw, parameters, derived quantities, and simulated observations
 *               (tracked quantities and states if the model observes nothing), one line per draw and time */
#include "app/common.h"
#include "app/replicate.h"
#include "io/csv.h"
#include "io/text.h"
#include <math.h>
#include <string.h>

static const double MOST_NUMBERS = 2e8; /* in one table: 1.6 GB */

/* One block of lines: the series chosen, side by side, at their common times. */
typedef struct {
  const atvi_target *target;
  const atvi_lang_data *data; /* observations: their data set; NULL: tracked quantities and states */
  atvi_idx group;
  const double *value; /* [values of all series][B] */
  atvi_idx B;
  bool file;  /* a data file that can be fitted */
  bool whole; /* without missing cells */
} table;

static bool mine(const table *t, const atvi_series *s) {
  return t->data ? s->kind == ATVI_SERIES_OBSERVED && s->group == t->group : s->kind != ATVI_SERIES_OBSERVED;
}

/* The observation in column c of the data file, and where its values start; NULL: none. */
static const atvi_lang_observe *in_column(const table *t, const atvi_lang *lang, atvi_idx c,
                                          atvi_idx *offset) {
  *offset = 0;
  for (atvi_idx s = 0; s < lang->n_observe; s++) {
    if (mine(t, &t->target->series[s]) && lang->observe[s].column == c) return &lang->observe[s];
    *offset += t->target->series[s].n;
  }
  return NULL;
}

/* In a data file, values beyond a detection limit are hidden. */
static void put_value(atvi_text *out, const table *t, const atvi_lang_observe *o, double x) {
  bool below = t->file && o && x <= o->limit_lower, above = t->file && o && x >= o->limit_upper;
  atvi_io_text_add(out, "%s", below ? "<=" : above ? ">=" : "");
  atvi_io_text_number(out, below ? o->limit_lower : above ? o->limit_upper : x);
}

static bool is_missing(const atvi_csv *csv, atvi_idx r, atvi_idx c) {
  return csv->kind[r * csv->n_col + c] == ATVI_CELL_MISSING;
}

static void names(atvi_text *out, const table *t) {
  const atvi_csv *csv = t->data ? t->data->csv : NULL;
  for (atvi_idx c = 0; csv && c < csv->n_col; c++) {
    if (c) atvi_io_text_add(out, ",");
    atvi_app_field(out, csv->name[c]);
  }
  if (csv) return;
  atvi_app_field(out, t->data && t->data->time_name ? t->data->time_name : "t");
  for (atvi_idx s = 0; s < t->target->n_series; s++)
    if (mine(t, &t->target->series[s])) {
      atvi_io_text_add(out, ",");
      atvi_app_field(out, t->target->series[s].name);
    }
}

/* Line r in the layout of the data file, with observed columns replaced. */
static void data_line(atvi_text *out, const table *t, const atvi_lang *lang, atvi_idx r, atvi_idx draw) {
  const atvi_csv *csv = t->data->csv;
  for (atvi_idx c = 0; c < csv->n_col; c++) {
    atvi_idx offset;
    const atvi_lang_observe *o = in_column(t, lang, c, &offset);
    if (c) atvi_io_text_add(out, ",");
    if (o && t->file && !t->whole && is_missing(csv, r, c))
      atvi_io_text_add(out, "NA");
    else if (o)
      put_value(out, t, o, t->value[(offset + r) * t->B + draw]);
    else
      atvi_app_field(out, csv->text[r * csv->n_col + c]);
  }
}

static void series_line(atvi_text *out, const table *t, const atvi_lang *lang, const double *time, atvi_idx r,
                        atvi_idx draw) {
  atvi_idx offset = 0;
  atvi_io_text_number(out, time[r]);
  for (atvi_idx s = 0; s < t->target->n_series; s++) {
    if (mine(t, &t->target->series[s])) {
      atvi_io_text_add(out, ",");
      put_value(out, t, s < lang->n_observe ? &lang->observe[s] : NULL, t->value[(offset + r) * t->B + draw]);
    }
    offset += t->target->series[s].n;
  }
}

/* The lines of one draw, each after `lead`. */
static void lines(atvi_text *out, const table *t, const atvi_lang *lang, const char *lead, atvi_idx draw) {
  const atvi_series *first = NULL;
  for (atvi_idx s = 0; s < t->target->n_series && !first; s++)
    if (mine(t, &t->target->series[s])) first = &t->target->series[s];
  for (atvi_idx r = 0; first && r < first->n; r++) {
    atvi_io_text_add(out, "%s", lead);
    if (t->data && t->data->csv)
      data_line(out, t, lang, r, draw);
    else
      series_line(out, t, lang, first->time, r, draw);
    atvi_io_text_add(out, "\n");
  }
}

/* Names made up for a file without a header would be read as its first line. */
static bool has_header(const table *t) { return !t->file || !t->data->csv || t->data->csv->header; }

atvi_status atvi_app_data_text(atvi_pool *pool, const atvi_loaded *l, atvi_idx group, const double *value,
                               const char **text) {
  const atvi_lang *lang = l->model->lang;
  table one = {l->target, &lang->data[group], group, value, 1, true, atvi_app_no_data(l)};
  atvi_text out = {.pool = pool};
  if (has_header(&one)) {
    names(&out, &one);
    atvi_io_text_add(&out, "\n");
  }
  lines(&out, &one, lang, "", 0);
  return atvi_io_text_get(&out, text);
}

static atvi_status which_group(atvi_ctx *ctx, const atvi_loaded *l, const char *data, atvi_idx *group) {
  const atvi_lang *lang = l->model->lang;
  *group = 0;
  if (data) {
    while (*group < lang->n_data && strcmp(lang->data[*group].name, data) != 0) ++*group;
    if (*group == lang->n_data)
      return ATVI_FAIL(ctx, ATVI_EINVAL, "the model has no data set named %s", data);
  } else if (lang->n_data > 1) {
    return ATVI_FAIL(ctx, ATVI_EINVAL, "the model has %td data sets; choose one with --observe=NAME",
                     lang->n_data);
  }
  return lang->n_observe
             ? ATVI_OK
             : ATVI_FAIL(ctx, ATVI_EINVAL,
                         "the model observes nothing, so there is nothing to simulate with --observe");
}

/* "draw,parameters,derived," of draw j, or of the header (j < 0). */
static atvi_status lead(atvi_pool *pool, const atvi_target *t, atvi_idx B, atvi_idx j, const double *theta,
                        const double *derived, bool more, const char **text) {
  atvi_text out = {.pool = pool};
  if (j < 0)
    atvi_io_text_add(&out, "draw__"); /* cannot be a name in a model */
  else
    atvi_io_text_add(&out, "%td", j + 1);
  for (atvi_idx i = 0; i < t->d + t->n_derived; i++) {
    atvi_io_text_add(&out, ",");
    if (j < 0)
      atvi_app_field(&out, i < t->d ? t->param[i].name : t->derived[i - t->d]);
    else
      atvi_io_text_number(&out, i < t->d ? theta[i * B + j] : derived[(i - t->d) * B + j]);
  }
  atvi_io_text_add(&out, more ? "," : "\n");
  return atvi_io_text_get(&out, text);
}

/* What one call computes, and where the numbers go. */
typedef struct {
  bool prior;   /* draws from the prior instead of one point */
  bool observe; /* observations with their noise */
  bool data;    /* in the layout of a data file; else tracked quantities and states */
  atvi_idx group, B;
  double *theta, *derived, *value;
} job;

static atvi_status plan(atvi_ctx *ctx, atvi_pool *pool, const atvi_app_simulate_opts *o, const atvi_loaded *l,
                        job *j) {
  const atvi_target *t = l->target;
  const atvi_lang *lang = l->model->lang;
  j->prior = o->prior > 0;
  j->observe = o->observe || (j->prior && lang->n_observe > 0);
  j->data = j->observe || (lang->n_state == 0 && lang->n_observe > 0);
  j->B = j->prior ? o->prior : 1;
  if (j->data) ATVI_TRY(which_group(ctx, l, o->data, &j->group));
  for (atvi_idx s = 0; j->data && o->times && s < lang->n_observe; s++)
    for (int a = 0; a < lang->observe[s].n_arg; a++)
      if (lang->observe[s].data == j->group &&
          atvi_graph_kinds(lang->graph, lang->observe[s].arg[a]) >> ATVI_IN_DATA & 1)
        return ATVI_FAIL(ctx, ATVI_EINVAL,
                         "--times: %s depends on a column of its data file, which has no value at other "
                         "times; leave --times out",
                         lang->observe[s].name);
  double wanted = (double)j->B * (double)(t->d + t->n_derived + t->n_out + 1);
  if (wanted > MOST_NUMBERS)
    return ATVI_FAIL(ctx, ATVI_EINVAL, "--prior %td: that is %.2g numbers; use fewer draws", j->B, wanted);
  j->theta = atvi_pool_take(pool, (size_t)(t->d * j->B), sizeof(double));
  j->derived = atvi_pool_take(pool, (size_t)(t->n_derived * j->B + 1), sizeof(double));
  j->value = atvi_pool_take(pool, (size_t)((j->observe ? t->n_obs : t->n_out) * j->B + 1), sizeof(double));
  return j->theta && j->derived && j->value ? ATVI_OK : ATVI_ENOMEM;
}

/* Whether observation i can and should be drawn: the columns that its distribution needs are present, and so
 * is the cell, unless the file is used only for its layout. */
static bool drawable(const atvi_loaded *l, atvi_idx i) {
  const atvi_model *m = l->model;
  atvi_idx o = m->lang->n_observe - 1;
  while (o > 0 && m->obs_at[o] > i) o--;
  const atvi_lang_observe *obs = &m->lang->observe[o];
  const atvi_csv *csv = m->lang->data[obs->data].csv;
  atvi_idx r = i - m->obs_at[o];
  bool lacks = csv && obs->column >= 0 && r < csv->n_row && is_missing(csv, r, obs->column);
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
  if (j->prior)
    atvi_log(ctx, ATVI_LOG_WARN, "%td of %td points could not be run: %s", *failed, j->B, why);
  else
    atvi_log(ctx, ATVI_LOG_WARN, "the model cannot be run at this point: %s", why);
  return ATVI_OK;
}

static atvi_status simulate(atvi_ctx *ctx, atvi_pool *pool, const atvi_app_simulate_opts *o, atvi_loaded *l,
                            atvi_app_simulate_result *result) {
  const atvi_target *t = l->target;
  const atvi_lang *lang = l->model->lang;
  void *work = atvi_model_evaluator_work(l->ev);
  job j = {0};
  ATVI_TRY(plan(ctx, pool, o, l, &j));
  if (j.prior)
    t->ops->prior_draw(t->self, work, o->seed, ATVI_TRUTH_FIRST, j.B, j.theta);
  else
    ATVI_TRY(atvi_app_point(ctx, t, o->n_set, o->set, j.theta));
  if (t->n_derived) t->ops->derived(t->self, work, j.B, j.theta, j.derived);
  if (j.observe)
    t->ops->simulate(t->self, work, o->seed, 0, j.B, j.theta, j.value);
  else
    t->ops->predict(t->self, work, j.B, j.theta, j.value);
  atvi_idx failed;
  ATVI_TRY(tell_failures(ctx, pool, l, &j, &failed));
  result->failed = failed == j.B;

  table one = {t,
               j.data ? &lang->data[j.group] : NULL,
               j.group,
               j.value,
               j.B,
               j.observe && !j.prior,
               atvi_app_no_data(l)};
  bool any = j.data || t->n_out > t->n_obs;
  atvi_text out = {.pool = pool};
  const char *before = "";
  for (atvi_idx k = -1; k < j.B; k++) {
    if (j.prior) ATVI_TRY(lead(pool, t, j.B, k, j.theta, j.derived, any, &before));
    if (k >= 0 && any) {
      lines(&out, &one, lang, before, k);
      continue;
    }
    atvi_io_text_add(&out, "%s", before);
    if (!any || !has_header(&one)) continue;
    names(&out, &one);
    atvi_io_text_add(&out, "\n");
  }
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
