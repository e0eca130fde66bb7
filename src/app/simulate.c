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
#include "io/csv.h"
#include "io/draws_file.h"
#include "io/text.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { DRAWS = 100 };                   /* of a fit, by default */
static const double MOST_NUMBERS = 2e8; /* in one table: 1.6 GB */

/* ---- values as CSV: trajectories, or observations in the layout of their data file ---- */

/* In a model with blocks units have their own times, so that every line is of one unit: a column of the
 * block's name says of which, and columns are named as in the block. */

/* One line. */
typedef struct {
  /* of the target; 0: none */
  atvi_idx unit;
  /* data set; -1: none */
  atvi_idx data;
  atvi_idx row;
} line;

typedef struct {
  const atvi_loaded *l;
  /* which data file (atvi_lang_data); -1: tracked quantities and states */
  atvi_idx file;
  /* [values of all series][B] */
  const double *value;
  atvi_idx B;
  /* a data file that can be fitted */
  bool fitted;
  /* without missing cells */
  bool whole;
  /* the rest is made by make_table */
  const atvi_csv *csv;
  atvi_idx n_line;
  line *line;
  /* columns of series */
  atvi_idx n_col;
  const char **col;
  /* [parts][n_col] which series; -1: the unit has none */
  atvi_idx *series;
  /* [n_series] where their values begin */
  atvi_idx *offset;
  /* name of the column that says whose line it is; NULL: nobody's alone */
  const char *whose;
  /* columns of parameters and derived quantities */
  atvi_idx n_lead;
  const char **lead;
  /* [parts][n_lead] which one, derived quantities after the parameters; -1: none */
  atvi_idx *from;
} table;

static atvi_idx n_part(const table *t) { return t->l->model->blocks.part ? t->l->model->blocks.n_part : 1; }

static bool mine(const table *t, const atvi_series *s) {
  bool observed = s->kind == ATVI_SERIES_OBSERVED;
  return t->file < 0 ? !observed : observed && t->l->model->lang->data[s->group].file == t->file;
}

/* The number of that name among *n, added if it is new. */
static atvi_idx column(atvi_idx *n, const char **name, const char *new) {
  atvi_idx c = 0;
  while (c < *n && strcmp(name[c], new) != 0) c++;
  if (c == *n) name[(*n)++] = new;
  return c;
}

/* ---- which series are in which column ---- */

/* The name of series s without the label of its unit: a unit's series of one kind are in the same order
 * there. seen: [parts][kinds], how many have been met. */
static const char *own_series(const atvi_model *m, const atvi_series *s, atvi_idx *seen) {
  if (!m->blocks.part) return s->name;
  const atvi_target *of = &m->blocks.part[s->unit].m->target;
  atvi_idx left = seen[s->unit * (ATVI_SERIES_STATE + 1) + s->kind]++;
  for (atvi_idx k = 0; k < of->n_series; k++)
    if (of->series[k].kind == s->kind && left-- == 0) return of->series[k].name;
  return s->name;
}

static atvi_status find_columns(atvi_pool *pool, table *t) {
  const atvi_target *target = t->l->target;
  const atvi_model *m = t->l->model;
  t->col = atvi_pool_take(pool, (size_t)target->n_series + 1, sizeof *t->col);
  t->offset = atvi_pool_take(pool, (size_t)target->n_series + 1, sizeof *t->offset);
  atvi_idx *of = atvi_pool_take(pool, (size_t)target->n_series + 1, sizeof *of);
  atvi_idx *seen = atvi_pool_take(pool, (size_t)(n_part(t) * (ATVI_SERIES_STATE + 1)), sizeof *seen);
  if (!t->col || !t->offset || !of || !seen) return ATVI_ENOMEM;
  for (atvi_idx s = 0, at = 0; s < target->n_series; at += target->series[s++].n) {
    const atvi_series *is = &target->series[s];
    const char *name = own_series(m, is, seen);
    t->offset[s] = at;
    of[s] = mine(t, is) ? column(&t->n_col, t->col, name) : -1;
  }
  t->series = atvi_pool_take(pool, (size_t)(n_part(t) * t->n_col) + 1, sizeof *t->series);
  if (!t->series) return ATVI_ENOMEM;
  for (atvi_idx i = 0; i < n_part(t) * t->n_col; i++) t->series[i] = -1;
  for (atvi_idx s = 0; s < target->n_series; s++)
    if (of[s] >= 0) t->series[target->series[s].unit * t->n_col + of[s]] = s;
  return ATVI_OK;
}

/* The first series of a unit; NULL: it has none. */
static const atvi_series *first_of(const table *t, atvi_idx unit) {
  for (atvi_idx c = 0; c < t->n_col; c++)
    if (t->series[unit * t->n_col + c] >= 0) return &t->l->target->series[t->series[unit * t->n_col + c]];
  return NULL;
}

static const char *block_of(const atvi_model *m, atvi_idx unit) {
  return m->blocks.part[0].m->lang->blocks.block[m->blocks.part[unit].block - 1].name;
}

/* ---- lines ---- */

typedef struct {
  int place;
  line at;
} placed;

static int by_place(const void *a, const void *b) {
  const placed *x = a, *y = b;
  return (x->place > y->place) - (x->place < y->place);
}

/* In the order of the file that units share. */
static atvi_status in_file_order(atvi_pool *pool, table *t) {
  placed *p = atvi_pool_take(pool, (size_t)t->n_line + 1, sizeof *p);
  if (!p) return ATVI_ENOMEM;
  for (atvi_idx i = 0; i < t->n_line; i++)
    p[i] = (placed){t->l->model->lang->data[t->line[i].data].csv->line[t->line[i].row], t->line[i]};
  qsort(p, (size_t)t->n_line, sizeof *p, by_place);
  for (atvi_idx i = 0; i < t->n_line; i++) t->line[i] = p[i].at;
  return ATVI_OK;
}

static atvi_status find_lines(atvi_pool *pool, table *t) {
  const atvi_model *m = t->l->model;
  atvi_idx n = 0;
  for (atvi_idx u = 0; u < n_part(t); u++) n += first_of(t, u) ? first_of(t, u)->n : 0;
  t->line = atvi_pool_take(pool, (size_t)n + 1, sizeof *t->line);
  if (!t->line) return ATVI_ENOMEM;
  for (atvi_idx u = 0; u < n_part(t); u++) {
    const atvi_series *s = first_of(t, u);
    for (atvi_idx r = 0; s && r < s->n; r++) t->line[t->n_line++] = (line){u, t->file < 0 ? -1 : s->group, r};
    if (s && t->file >= 0) t->csv = m->lang->data[s->group].csv;
    if (!s || !m->blocks.part) continue;
    const char *name = u ? block_of(m, u) : "unit";
    t->whose = !t->whose || strcmp(t->whose, name) == 0 ? name : "unit";
  }
  if (t->csv && m->blocks.part) return in_file_order(pool, t);
  return ATVI_OK;
}

/* ---- parameters ---- */

/* The name of a parameter without the label of its unit. */
static const char *own_param(const atvi_model *m, atvi_idx param) {
  for (atvi_idx u = 1; m->blocks.part && u < m->blocks.n_part; u++)
    for (atvi_idx i = m->blocks.part[u].n_outer; i < m->blocks.part[u].m->target.d; i++)
      if (m->blocks.part[u].param[i] == param) return m->blocks.part[u].m->target.param[i].name;
  return m->target.param[param].name;
}

/* Whether unit u is part `of` or lies in it: it then depends on all of its parameters. */
static bool encloses(const atvi_model *m, atvi_idx of, atvi_idx u) {
  if (of == u || of == 0) return true;
  const atvi_model_part *a = &m->blocks.part[of], *b = &m->blocks.part[u];
  const atvi_idx n = a->m->target.d;
  return a->block != b->block && n > 0 && n <= b->n_outer &&
         memcmp(a->param, b->param, (size_t)n * sizeof *a->param) == 0;
}

/* A line has the parameters that its unit depends on, and what is derived from these. */
static atvi_status find_leads(atvi_pool *pool, table *t) {
  const atvi_model *m = t->l->model;
  const atvi_target *target = t->l->target, *base = &m->target;
  atvi_idx n = target->d + target->n_derived, parts = n_part(t);
  t->lead = atvi_pool_take(pool, (size_t)n + 1, sizeof *t->lead);
  t->from = atvi_pool_take(pool, (size_t)(parts * n) + 1, sizeof *t->from);
  atvi_idx *of = atvi_pool_take(pool, (size_t)n + 1, sizeof *of);
  atvi_idx *free_at = atvi_pool_take(pool, (size_t)base->d + 1, sizeof *free_at);
  if (!t->lead || !t->from || !of || !free_at) return ATVI_ENOMEM;
  for (atvi_idx i = 0; i < parts * n; i++) t->from[i] = -1;
  for (atvi_idx i = 0, j = 0; i < base->d; i++) { /* fixed ones are left out, the order is the same */
    bool is = j < target->d && strcmp(target->param[j].name, base->param[i].name) == 0;
    free_at[i] = is ? j : -1;
    if (is) of[j++] = column(&t->n_lead, t->lead, own_param(m, i));
  }
  for (atvi_idx u = 0; u < parts; u++) {
    const atvi_unit *unit = m->blocks.part ? &base->unit[u] : NULL;
    for (atvi_idx i = 0; i < (unit ? unit->n_on : base->d); i++) {
      atvi_idx j = free_at[unit ? unit->on[i] : i];
      if (j >= 0) t->from[u * n + of[j]] = j;
    }
    for (atvi_idx a = 0; a < parts; a++) {
      const atvi_model *part = m->blocks.part ? m->blocks.part[a].m : m;
      for (atvi_idx k = 0; encloses(m, a, u) && k < part->target.n_derived; k++) {
        atvi_idx at = m->blocks.part ? m->blocks.part[a].derived_at[k] : k;
        t->from[u * n + column(&t->n_lead, t->lead, part->target.derived[k])] = target->d + at;
      }
    }
  }
  return ATVI_OK;
}

/* Fills in the rest. Memory from pool. Errors: ENOMEM. */
static atvi_status make_table(atvi_pool *pool, table *t) {
  ATVI_TRY(find_columns(pool, t));
  ATVI_TRY(find_lines(pool, t));
  return find_leads(pool, t);
}

/* ---- writing ---- */

static const char *time_name(const table *t) {
  const atvi_lang *lang = t->l->model->lang;
  for (atvi_idx k = 0; t->file >= 0 && k < lang->n_data; k++)
    if (lang->data[k].file == t->file && lang->data[k].time_name) return lang->data[k].time_name;
  return "t";
}

static void put_names(atvi_text *out, const table *t) {
  for (atvi_idx c = 0; t->csv && c < t->csv->n_col; c++) {
    if (c) atvi_io_text_add(out, ",");
    atvi_app_field(out, t->csv->name[c]);
  }
  if (t->csv) return;
  if (t->whose) atvi_app_field(out, t->whose), atvi_io_text_add(out, ",");
  atvi_app_field(out, time_name(t));
  for (atvi_idx c = 0; c < t->n_col; c++) {
    atvi_io_text_add(out, ",");
    atvi_app_field(out, t->col[c]);
  }
}

/* The first line, unless the data file has none. lead: with the number of the draw, parameters and derived
 * quantities. */
static void put_header(atvi_text *out, const table *t, bool lead) {
  /* names made up for a file without a header would be read as its first line */
  if (!lead && t->fitted && t->csv && !t->csv->header) return;
  if (lead) atvi_io_text_add(out, "draw__"); /* cannot be a name in a model */
  for (atvi_idx c = 0; lead && c < t->n_lead; c++) {
    atvi_io_text_add(out, ",");
    atvi_app_field(out, t->lead[c]);
  }
  if (lead && t->n_col) atvi_io_text_add(out, ",");
  if (t->n_col) put_names(out, t);
  atvi_io_text_add(out, "\n");
}

/* In a data file, values beyond a detection limit are hidden. */
static void put_value(atvi_text *out, const table *t, atvi_idx s, double x) {
  const atvi_lang *lang = t->l->model->lang;
  const atvi_lang_observe *o = s < lang->n_observe ? &lang->observe[s] : NULL;
  bool below = t->fitted && o && x <= o->limit_lower, above = t->fitted && o && x >= o->limit_upper;
  atvi_io_text_add(out, "%s", below ? "<=" : above ? ">=" : "");
  atvi_io_text_number(out, below ? o->limit_lower : above ? o->limit_upper : x);
}

static double value_of(const table *t, atvi_idx s, atvi_idx row, atvi_idx draw) {
  return t->value[(t->offset[s] + row) * t->B + draw];
}

/* The layout of the data file, with observed columns replaced. */
static void data_line(atvi_text *out, const table *t, const line *at, atvi_idx draw) {
  const atvi_lang *lang = t->l->model->lang;
  const atvi_csv *csv = lang->data[at->data].csv;
  for (atvi_idx c = 0; c < csv->n_col; c++) {
    atvi_idx s = -1;
    for (atvi_idx k = 0; k < t->n_col; k++) {
      atvi_idx of = t->series[at->unit * t->n_col + k];
      if (of >= 0 && lang->observe[of].column == c) s = of;
    }
    if (c) atvi_io_text_add(out, ",");
    if (s >= 0 && t->fitted && !t->whole && csv->kind[at->row * csv->n_col + c] == ATVI_CELL_MISSING)
      atvi_io_text_add(out, "NA");
    else if (s >= 0)
      put_value(out, t, s, value_of(t, s, at->row, draw));
    else
      atvi_app_field(out, csv->text[at->row * csv->n_col + c]);
  }
}

static void series_line(atvi_text *out, const table *t, const line *at, atvi_idx draw) {
  if (t->whose) {
    atvi_app_field(out, t->l->model->target.unit[at->unit].name);
    atvi_io_text_add(out, ",");
  }
  atvi_io_text_number(out, first_of(t, at->unit)->time[at->row]);
  for (atvi_idx c = 0; c < t->n_col; c++) {
    atvi_idx s = t->series[at->unit * t->n_col + c];
    atvi_io_text_add(out, ",");
    if (s >= 0)
      put_value(out, t, s, value_of(t, s, at->row, draw));
    else
      atvi_io_text_add(out, "NA");
  }
}

static void put_lead(atvi_text *out, const table *t, atvi_idx unit, atvi_idx draw, const double *theta,
                     const double *derived) {
  const atvi_target *target = t->l->target;
  atvi_io_text_add(out, "%td", draw + 1);
  for (atvi_idx c = 0; c < t->n_lead; c++) {
    atvi_idx i = t->from[unit * (target->d + target->n_derived) + c];
    atvi_io_text_add(out, ",");
    atvi_io_text_number(out, i < 0           ? NAN
                             : i < target->d ? theta[i * t->B + draw]
                                             : derived[(i - target->d) * t->B + draw]);
  }
}

/* The lines of a draw. theta[d][B], derived[n_derived][B] are for the lead; NULL: there is none. */
static void put_lines(atvi_text *out, const table *t, atvi_idx draw, const double *theta,
                      const double *derived) {
  atvi_text lead = {.pool = out->pool}; /* the same in all lines of a unit */
  for (atvi_idx i = 0; i < t->n_line; i++) {
    const line *at = &t->line[i];
    if (theta && (i == 0 || at->unit != at[-1].unit)) {
      lead.n = 0;
      put_lead(&lead, t, at->unit, draw, theta, derived);
    }
    if (theta) atvi_io_text_add(out, "%s,", lead.text ? lead.text : "");
    out->failed = out->failed || lead.failed;
    if (t->csv)
      data_line(out, t, at, draw);
    else
      series_line(out, t, at, draw);
    atvi_io_text_add(out, "\n");
  }
  /* nothing is predicted: the parameters alone */
  for (atvi_idx u = t->n_col ? n_part(t) : n_part(t) > 1; theta && u < n_part(t); u++) {
    put_lead(out, t, u, draw, theta, derived);
    atvi_io_text_add(out, "\n");
  }
}

/* ---- what to simulate ---- */

atvi_status atvi_app_data_text(atvi_pool *pool, const atvi_loaded *l, atvi_idx file, const double *value,
                               const char **text) {
  table one = {.l = l, .file = file, .value = value, .B = 1, .fitted = true, .whole = atvi_app_no_data(l)};
  atvi_text out = {.pool = pool};
  ATVI_TRY(make_table(pool, &one));
  put_header(&out, &one, false);
  put_lines(&out, &one, 0, NULL, NULL);
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
  j->data = j->observe || (lang->dynamics.n_state == 0 && lang->n_observe > 0);
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

/* What is outside blocks is set or from a fit; parameters of units that are not set are drawn from their
 * priors given it. */
static atvi_status draw_units(atvi_ctx *ctx, atvi_pool *pool, const atvi_app_simulate_opts *o,
                              const atvi_loaded *l, job *j) {
  const atvi_model *m = l->model;
  const atvi_target *t = l->target;
  atvi_idx outside = m->blocks.part ? m->blocks.part[0].m->target.d : t->d;
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
  return m->lik.covariates[o][r] && (!lacks || atvi_app_no_data(l));
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
  if (o->prior > 0 && atvi_app_flat(l))
    return ATVI_FAIL(ctx, ATVI_EMODEL,
                     "%s: error: the prior of '%s' is flat, and cannot be drawn from\nhint: give it a prior, "
                     "or simulate at "
                     "draws of a fit",
                     o->model.path, atvi_app_flat(l));
  ATVI_TRY(plan(ctx, pool, o, l, &j));
  if (o->prior > 0)
    t->ops->prior_draw(t->self, work, o->seed, ATVI_TRUTH_FIRST, j.B, j.theta);
  else if (o->fit || (l->model->blocks.part && !l->fixed))
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

  table one = {.l = l,
               .file = j.data ? j.file : -1,
               .value = j.value,
               .B = j.B,
               .fitted = j.observe && !j.many,
               .whole = atvi_app_no_data(l)};
  ATVI_TRY(make_table(pool, &one));
  atvi_text out = {.pool = pool};
  put_header(&out, &one, j.many);
  for (atvi_idx k = 0; k < j.B; k++) put_lines(&out, &one, k, j.many ? j.theta : NULL, j.derived);
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
  if (lang->dynamics.n_state == 0 || line_of(lang->source, "start")) return ATVI_OK;
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
  if (lang->dynamics.n_state == 0 || has_time(lang) || line_of(lang->source, "start")) return ATVI_OK;
  if (!burnin && counting(lang))
    return ATVI_FAIL(ctx, ATVI_EMODEL,
                     "%s: error: %s counts since the previous time (increase), and neither the data nor the "
                     "model say when counting starts\nhint: add a line such as: start 0",
                     lang->path, counting(lang)->name);
  double start = burnin ? first + lang->time.start : first; /* without data a burn-in starts before 0 */
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
