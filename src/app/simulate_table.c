/* SPDX-License-Identifier: MIT */
#include "app/simulate_table.h"
#include "io/csv.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static atvi_idx n_part(const atvi_table *t) { return t->l->model->part ? t->l->model->n_part : 1; }

static bool mine(const atvi_table *t, const atvi_series *s) {
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

/* The name of series s without the label of its unit: a unit's series of one kind are in the same order there. seen: [parts][kinds], how
 * many have been met. */
static const char *own_series(const atvi_model *m, const atvi_series *s, atvi_idx *seen) {
  if (!m->part) return s->name;
  const atvi_target *of = &m->part[s->unit].m->target;
  atvi_idx left = seen[s->unit * (ATVI_SERIES_STATE + 1) + s->kind]++;
  for (atvi_idx k = 0; k < of->n_series; k++)
    if (of->series[k].kind == s->kind && left-- == 0) return of->series[k].name;
  return s->name;
}

static atvi_status find_columns(atvi_pool *pool, atvi_table *t) {
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
static const atvi_series *first_of(const atvi_table *t, atvi_idx unit) {
  for (atvi_idx c = 0; c < t->n_col; c++)
    if (t->series[unit * t->n_col + c] >= 0) return &t->l->target->series[t->series[unit * t->n_col + c]];
  return NULL;
}

static const char *block_of(const atvi_model *m, atvi_idx unit) {
  return m->part[0].m->lang->block[m->part[unit].block - 1].name;
}

/* ---- lines ---- */

typedef struct {
  int place;
  atvi_table_line line;
} placed;

static int by_place(const void *a, const void *b) {
  const placed *x = a, *y = b;
  return (x->place > y->place) - (x->place < y->place);
}

/* In the order of the file that units share. */
static atvi_status in_file_order(atvi_pool *pool, atvi_table *t) {
  placed *p = atvi_pool_take(pool, (size_t)t->n_line + 1, sizeof *p);
  if (!p) return ATVI_ENOMEM;
  for (atvi_idx i = 0; i < t->n_line; i++)
    p[i] = (placed){t->l->model->lang->data[t->line[i].data].csv->line[t->line[i].row], t->line[i]};
  qsort(p, (size_t)t->n_line, sizeof *p, by_place);
  for (atvi_idx i = 0; i < t->n_line; i++) t->line[i] = p[i].line;
  return ATVI_OK;
}

static atvi_status find_lines(atvi_pool *pool, atvi_table *t) {
  const atvi_model *m = t->l->model;
  atvi_idx n = 0;
  for (atvi_idx u = 0; u < n_part(t); u++) n += first_of(t, u) ? first_of(t, u)->n : 0;
  t->line = atvi_pool_take(pool, (size_t)n + 1, sizeof *t->line);
  if (!t->line) return ATVI_ENOMEM;
  for (atvi_idx u = 0; u < n_part(t); u++) {
    const atvi_series *s = first_of(t, u);
    for (atvi_idx r = 0; s && r < s->n; r++)
      t->line[t->n_line++] = (atvi_table_line){u, t->file < 0 ? -1 : s->group, r};
    if (s && t->file >= 0) t->csv = m->lang->data[s->group].csv;
    if (!s || !m->part) continue;
    const char *name = u ? block_of(m, u) : "unit";
    t->whose = !t->whose || strcmp(t->whose, name) == 0 ? name : "unit";
  }
  if (t->csv && m->part) return in_file_order(pool, t);
  return ATVI_OK;
}

/* ---- parameters ---- */

/* The name of a parameter without the label of its unit. */
static const char *own_param(const atvi_model *m, atvi_idx param) {
  for (atvi_idx u = 1; m->part && u < m->n_part; u++)
    for (atvi_idx i = m->part[u].n_outer; i < m->part[u].m->target.d; i++)
      if (m->part[u].param[i] == param) return m->part[u].m->target.param[i].name;
  return m->target.param[param].name;
}

/* Whether unit u is part `of` or lies in it: it then depends on all of its parameters. */
static bool encloses(const atvi_model *m, atvi_idx of, atvi_idx u) {
  if (of == u || of == 0) return true;
  const atvi_model_part *a = &m->part[of], *b = &m->part[u];
  const atvi_idx n = a->m->target.d;
  return a->block != b->block && n > 0 && n <= b->n_outer &&
         memcmp(a->param, b->param, (size_t)n * sizeof *a->param) == 0;
}

/* A line has the parameters that its unit depends on, and what is derived from these. */
static atvi_status find_leads(atvi_pool *pool, atvi_table *t) {
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
    const atvi_unit *unit = m->part ? &base->unit[u] : NULL;
    for (atvi_idx i = 0; i < (unit ? unit->n_on : base->d); i++) {
      atvi_idx j = free_at[unit ? unit->on[i] : i];
      if (j >= 0) t->from[u * n + of[j]] = j;
    }
    for (atvi_idx a = 0; a < parts; a++) {
      const atvi_model *part = m->part ? m->part[a].m : m;
      for (atvi_idx k = 0; encloses(m, a, u) && k < part->target.n_derived; k++) {
        atvi_idx at = m->part ? m->part[a].derived_at[k] : k;
        t->from[u * n + column(&t->n_lead, t->lead, part->target.derived[k])] = target->d + at;
      }
    }
  }
  return ATVI_OK;
}

atvi_status atvi_app_table_make(atvi_pool *pool, atvi_table *t) {
  ATVI_TRY(find_columns(pool, t));
  ATVI_TRY(find_lines(pool, t));
  return find_leads(pool, t);
}

/* ---- writing ---- */

static const char *time_name(const atvi_table *t) {
  const atvi_lang *lang = t->l->model->lang;
  for (atvi_idx k = 0; t->file >= 0 && k < lang->n_data; k++)
    if (lang->data[k].file == t->file && lang->data[k].time_name) return lang->data[k].time_name;
  return "t";
}

static void put_names(atvi_text *out, const atvi_table *t) {
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

void atvi_app_table_header(atvi_text *out, const atvi_table *t, bool lead) {
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
static void put_value(atvi_text *out, const atvi_table *t, atvi_idx s, double x) {
  const atvi_lang *lang = t->l->model->lang;
  const atvi_lang_observe *o = s < lang->n_observe ? &lang->observe[s] : NULL;
  bool below = t->fitted && o && x <= o->limit_lower, above = t->fitted && o && x >= o->limit_upper;
  atvi_io_text_add(out, "%s", below ? "<=" : above ? ">=" : "");
  atvi_io_text_number(out, below ? o->limit_lower : above ? o->limit_upper : x);
}

static double value_of(const atvi_table *t, atvi_idx s, atvi_idx row, atvi_idx draw) {
  return t->value[(t->offset[s] + row) * t->B + draw];
}

/* The layout of the data file, with observed columns replaced. */
static void data_line(atvi_text *out, const atvi_table *t, const atvi_table_line *at, atvi_idx draw) {
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

static void series_line(atvi_text *out, const atvi_table *t, const atvi_table_line *at, atvi_idx draw) {
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

static void put_lead(atvi_text *out, const atvi_table *t, atvi_idx unit, atvi_idx draw, const double *theta,
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

void atvi_app_table_lines(atvi_text *out, const atvi_table *t, atvi_idx draw, const double *theta,
                          const double *derived) {
  atvi_text lead = {.pool = out->pool}; /* the same in all lines of a unit */
  for (atvi_idx i = 0; i < t->n_line; i++) {
    const atvi_table_line *at = &t->line[i];
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
