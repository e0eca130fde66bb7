/* SPDX-License-Identifier: MIT */
/* atvi simulate: trajectories, synthetic data or prior predictive draws, as CSV.
 *
 *   (default)   t, tracked quantities, states, one line per time; for a model without states the
 *               means of its observations
 *   --observe   synthetic data in the layout of the model's data file
 *   --prior N   N draws from the prior: draw, parameters, derived quantities, and simulated observations
 *               (tracked quantities and states if the model observes nothing), one line per draw and time */
#include "app/common.h"
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
} table;

static bool mine(const table *t, const atvi_series *s) {
  return t->data ? s->kind == ATVI_SERIES_OBSERVED && s->group == t->group : s->kind != ATVI_SERIES_OBSERVED;
}

/* The observed series that stands in column c of the data file: its index and where its values start. */
static const atvi_series *in_column(const table *t, const atvi_lang *lang, atvi_idx c, atvi_idx *offset) {
  *offset = 0;
  for (atvi_idx s = 0; s < lang->n_observe; s++) {
    if (mine(t, &t->target->series[s]) && lang->observe[s].column == c) return &t->target->series[s];
    *offset += t->target->series[s].n;
  }
  return NULL;
}

static void names(atvi_text *out, const table *t) {
  const atvi_csv *csv = t->data ? t->data->csv : NULL;
  for (atvi_idx c = 0; csv && c < csv->n_col; c++) {
    if (c) atvi_text_add(out, ",");
    atvi_app_field(out, csv->name[c]);
  }
  if (csv) return;
  atvi_app_field(out, t->data && t->data->time_name ? t->data->time_name : "t");
  for (atvi_idx s = 0; s < t->target->n_series; s++)
    if (mine(t, &t->target->series[s])) {
      atvi_text_add(out, ",");
      atvi_app_field(out, t->target->series[s].name);
    }
}

/* Line r in the data file's own layout, observed columns replaced. */
static void data_line(atvi_text *out, const table *t, const atvi_lang *lang, atvi_idx r, atvi_idx draw) {
  const atvi_csv *csv = t->data->csv;
  for (atvi_idx c = 0; c < csv->n_col; c++) {
    atvi_idx offset;
    if (c) atvi_text_add(out, ",");
    if (in_column(t, lang, c, &offset))
      atvi_text_number(out, t->value[(offset + r) * t->B + draw]);
    else
      atvi_app_field(out, csv->text[r * csv->n_col + c]);
  }
}

static void series_line(atvi_text *out, const table *t, const double *time, atvi_idx r, atvi_idx draw) {
  atvi_idx offset = 0;
  atvi_text_number(out, time[r]);
  for (atvi_idx s = 0; s < t->target->n_series; s++) {
    if (mine(t, &t->target->series[s])) {
      atvi_text_add(out, ",");
      atvi_text_number(out, t->value[(offset + r) * t->B + draw]);
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
    atvi_text_add(out, "%s", lead);
    if (t->data && t->data->csv)
      data_line(out, t, lang, r, draw);
    else
      series_line(out, t, first->time, r, draw);
    atvi_text_add(out, "\n");
  }
}

atvi_status atvi_app_data_text(atvi_pool *pool, const atvi_loaded *l, atvi_idx group, const double *value,
                               const char **text) {
  const atvi_lang *lang = l->model->lang;
  table one = {l->target, &lang->data[group], group, value, 1};
  atvi_text out = {.pool = pool};
  names(&out, &one);
  atvi_text_add(&out, "\n");
  lines(&out, &one, lang, "", 0);
  return atvi_text_get(&out, text);
}

static atvi_status which_group(atvi_ctx *ctx, const atvi_loaded *l, const char *data, atvi_idx *group) {
  const atvi_lang *lang = l->model->lang;
  *group = 0;
  if (data) {
    while (*group < lang->n_data && strcmp(lang->data[*group].name, data) != 0) ++*group;
    if (*group == lang->n_data)
      return ATVI_FAIL(ctx, ATVI_EINVAL, "the model has no data set named %s", data);
  } else if (lang->n_data > 1) {
    return ATVI_FAIL(ctx, ATVI_EINVAL,
                     "the model has %td data sets; say which one to simulate with --observe=NAME",
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
    atvi_text_add(&out, "draw__"); /* cannot be a name in a model */
  else
    atvi_text_add(&out, "%td", j + 1);
  for (atvi_idx i = 0; i < t->d + t->n_derived; i++) {
    atvi_text_add(&out, ",");
    if (j < 0)
      atvi_app_field(&out, i < t->d ? t->param[i].name : t->derived[i - t->d]);
    else
      atvi_text_number(&out, i < t->d ? theta[i * B + j] : derived[(i - t->d) * B + j]);
  }
  atvi_text_add(&out, more ? "," : "\n");
  return atvi_text_get(&out, text);
}

/* What the numbers of one call are of, and where they go. */
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
    return ATVI_FAIL(ctx, ATVI_EINVAL, "--prior %td: that is %.2g numbers; ask for fewer draws", j->B,
                     wanted);
  j->theta = atvi_pool_take(pool, (size_t)(t->d * j->B), sizeof(double));
  j->derived = atvi_pool_take(pool, (size_t)(t->n_derived * j->B + 1), sizeof(double));
  j->value = atvi_pool_take(pool, (size_t)((j->observe ? t->n_obs : t->n_out) * j->B + 1), sizeof(double));
  return j->theta && j->derived && j->value ? ATVI_OK
                                            : ATVI_FAIL(ctx, ATVI_ENOMEM, "out of memory: %td draws", j->B);
}

/* A point whose run fails gives a table of NA: say why. */
static void tell_failures(atvi_ctx *ctx, const atvi_loaded *l, const job *j) {
  const atvi_target *t = l->target;
  atvi_idx failed = 0;
  atvi_outcome last = ATVI_RUN_OK;
  for (atvi_idx k = 0; k < j->B; k += ATVI_LANES) {
    double theta[64 * ATVI_LANES], ll[ATVI_LANES];
    atvi_outcome outcome[ATVI_LANES];
    atvi_idx n = j->B - k < ATVI_LANES ? j->B - k : ATVI_LANES;
    if (t->d > 64) return;
    for (atvi_idx i = 0; i < t->d; i++)
      for (atvi_idx b = 0; b < n; b++) theta[i * n + b] = j->theta[i * j->B + k + b];
    t->ops->eval(t->self, atvi_evaluator_work(l->ev),
                 &(atvi_batch){.B = n, .theta = theta, .log_lik = ll, .outcome = outcome});
    for (atvi_idx b = 0; b < n; b++)
      if (outcome[b] != ATVI_RUN_OK) failed++, last = outcome[b];
  }
  if (failed)
    atvi_log(ctx, ATVI_LOG_WARN, "%td of %td points could not be run: %s", failed, j->B,
             atvi_outcome_word(last));
}

static atvi_status simulate(atvi_ctx *ctx, atvi_pool *pool, const atvi_app_simulate_opts *o, atvi_loaded *l,
                            const char **text) {
  const atvi_target *t = l->target;
  const atvi_lang *lang = l->model->lang;
  void *work = atvi_evaluator_work(l->ev);
  job j = {0};
  ATVI_TRY(plan(ctx, pool, o, l, &j));
  if (j.prior)
    t->ops->prior_draw(t->self, work, o->seed, 0, j.B, j.theta);
  else
    ATVI_TRY(atvi_app_point(ctx, t, o->n_set, o->set, j.theta));
  if (t->n_derived) t->ops->derived(t->self, work, j.B, j.theta, j.derived);
  if (j.observe)
    t->ops->simulate(t->self, work, o->seed, 0, j.B, j.theta, j.value);
  else
    t->ops->predict(t->self, work, j.B, j.theta, j.value);
  tell_failures(ctx, l, &j);

  table one = {t, j.data ? &lang->data[j.group] : NULL, j.group, j.value, j.B};
  bool any = j.data || t->n_out > t->n_obs;
  atvi_text out = {.pool = pool};
  const char *before = "";
  for (atvi_idx k = -1; k < j.B; k++) {
    if (j.prior) ATVI_TRY(lead(pool, t, j.B, k, j.theta, j.derived, any, &before));
    if (k >= 0 && any) {
      lines(&out, &one, lang, before, k);
      continue;
    }
    atvi_text_add(&out, "%s", before);
    if (!any) continue;
    names(&out, &one);
    atvi_text_add(&out, "\n");
  }
  return atvi_text_get(&out, text);
}

atvi_status atvi_app_simulate(atvi_ctx *ctx, atvi_pool *pool, const atvi_app_simulate_opts *opts,
                              const char **text) {
  atvi_idx n_time;
  double *time;
  atvi_loaded l;
  ATVI_TRY(atvi_app_times(ctx, pool, opts->times, &n_time, &time));
  ATVI_TRY(atvi_app_load(ctx, &opts->model, &(atvi_model_opts){.n_time = n_time, .time = time}, &l));
  atvi_status status = simulate(ctx, pool, opts, &l, text);
  atvi_app_unload(&l);
  return status;
}
