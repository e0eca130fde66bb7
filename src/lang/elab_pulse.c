/* SPDX-License-Identifier: MIT */
/* Pulses whose times and numbers are columns of a file. */
#include "lang/elab.h"
#include <math.h>
#include <string.h>

/* Column that a bare name means; -1: none. */
static atvi_idx named(const ast_expr *x, const atvi_csv *csv) {
  bool name = x->kind == EX_NAME && !x->n && !x->qualifier;
  return name || x->kind == EX_TIME ? atvi_io_csv_find(csv, name ? x->word->text : "t") : -1;
}

/* Column of the times; -1 after an error. *lag is what is added to it, or taken from it; NULL: nothing. */
static atvi_idx time_column(elab *e, const ast_stmt *st, const atvi_csv *csv, const ast_expr **lag) {
  const ast_expr *x = st->times->n == 1 ? st->times->arg[0] : NULL;
  bool name = x && x->kind == EX_NAME && !x->n && !x->qualifier, t = x && x->kind == EX_TIME;
  *lag = NULL;
  if (name || t) return atvi_lang_find_column(e, csv, name ? x->word->text : "t", x->at);
  for (int side = 0; x && x->kind == EX_BINARY && side < 2; side++) {
    if (x->op != '+' && (x->op != '-' || side)) continue;
    atvi_idx column = named(x->arg[side], csv);
    if (column < 0) continue;
    *lag = x->arg[1 - side];
    return column;
  }
  atvi_lang_error(e->s, st->times->at,
                  "for example: pulse A += amount at time from \"doses.csv\", or at time + lag from ...",
                  "the times of this pulse are a column of the file, or one and a lag");
  return -1;
}

/* What is added to the times: a number in *offset, or another column, or pulse->lag. *least: the least it can be. */
static bool find_lag(elab *e, const ast_stmt *st, const atvi_csv *csv, const ast_expr *x,
                     atvi_lang_pulse *pulse, double *offset, atvi_idx *column, double *least) {
  *offset = *least = 0;
  *column =
      x && x->kind == EX_NAME && !x->word->symbol ? named(x, csv) : -1; /* names of the model come first */
  if (!x || *column >= 0) return true;
  atvi_node lag = atvi_lang_lag(e, x, st->times->arg[0]->op == '-', least);
  if (lag == ATVI_NODE_NONE) return false;
  if (atvi_lang_constant(e, lag, offset)) return true;
  pulse->moves = true;
  pulse->lag = lag;
  return atvi_lang_can_move(e, x->at, "pulses at times that are parameters");
}

bool atvi_lang_pulse_rows(elab *e, const ast_stmt *st, elab_rows *rows) {
  return atvi_lang_csv(e, st, &rows->csv);
}

/* Refuses a time at which the pulse cannot act. */
static bool check_time(elab *e, const ast_stmt *st, const atvi_csv *csv, atvi_idx row, atvi_idx column,
                       double before, double t, double least) {
  double start = e->lang->start, steps = (t - start) / e->lang->step;
  bool off = e->lang->kind == ATVI_MODEL_MAP && fabs(steps - nearbyint(steps)) > 1e-9 * fmax(1, fabs(steps));
  if (t < before)
    atvi_lang_data_error(e->s, csv, row, column, st->file_at, "sort the file by time",
                         "the times are not ascending: %g follows %g", t, before);
  else if (!(t + least >= start) && (e->lang->n_data || !e->lang->n_block))
    atvi_lang_data_error(
        e->s, csv, row, column, st->file_at,
        least < 0 ? "start earlier, or bound the lag from below: param lag ~ normal(2, 1) in (0, inf)"
                  : "start earlier, or drop the row",
        least < 0 ? "the pulse at %g and a negative lag could lie before the start time %g"
                  : "the pulse at %g lies before the start time %g",
        t, start);
  else if (off)
    atvi_lang_data_error(e->s, csv, row, column, st->file_at, "pulses of 'next' equations fall on steps",
                         "the pulse at %g is not a whole number of steps of %g after the start %g", t,
                         e->lang->step, start);
  return e->s->status == ATVI_OK;
}

/* The position of a label, in a column with the name of an index set; 0: it is none. */
static double position(const elab *e, const char *column, const char *label) {
  for (atvi_idx i = 0; i < e->n_symbol; i++) {
    const elab_symbol *set = e->symbol[i];
    if (set->kind != SYM_SET || !set->label || strcmp(set->word->text, column) != 0) continue;
    for (atvi_idx k = 0; k < set->dim[0].n; k++)
      if (strcmp(set->label[k], label) == 0) return (double)(k + 1);
  }
  return 0;
}

/* The numbers of a row; *missing: one is not there, and the row is no pulse. */
static bool numbers(elab *e, const ast_stmt *st, const elab_rows *rows, atvi_idx row, double *value,
                    bool *missing) {
  const atvi_csv *csv = rows->csv;
  *missing = false;
  for (atvi_idx k = 0; k < rows->n; k++) {
    atvi_idx at = row * csv->n_col + rows->column[k];
    value[k] = csv->value[at];
    if (csv->kind[at] == ATVI_CELL_MISSING)
      *missing = true;
    else if (csv->kind[at] == ATVI_CELL_DATE && e->lang->calendar.unit)
      value[k] = atvi_io_calendar_time(e->lang->calendar, csv->value[at]);
    else if (csv->kind[at] != ATVI_CELL_NUMBER) {
      const char *name = csv->name[rows->column[k]];
      if ((value[k] = position(e, name, csv->text[at])) > 0) continue;
      atvi_lang_data_error(
          e->s, csv, row, rows->column[k], st->at,
          atvi_pool_printf(
              e->s->pool,
              "a row without a pulse has NA or nothing here; labels are named by: index %.60s = %.60s, ...",
              name, csv->text[at]),
          "'%.60s' is not a number", csv->text[at]);
      return false;
    }
  }
  return true;
}

/* The most times that coincide up to rounding, or nearly. */
static atvi_idx coincide(atvi_idx n, const double *t) {
  static const double NEAR = 1e-6;
  atvi_idx most = n > 0, first = 0;
  for (atvi_idx k = 1; k < n; k++) {
    while (t[k] - t[first] > NEAR * fmax(1, fabs(t[k]))) first++;
    if (k - first + 1 > most) most = k - first + 1;
  }
  return most;
}

/* Puts the last of n times, with its numbers, where it belongs. */
static void put_in_order(atvi_idx n, double *t, atvi_idx n_value, double *value) {
  for (atvi_idx k = n - 1; k > 0 && t[k] < t[k - 1]; k--) {
    const double late = t[k - 1];
    t[k - 1] = t[k], t[k] = late;
    for (atvi_idx i = 0; i < n_value; i++) {
      double *a = &value[(k - 1) * n_value + i], *b = a + n_value, x = *a;
      *a = *b, *b = x;
    }
  }
}

bool atvi_lang_pulse_values(elab *e, const ast_stmt *st, const elab_rows *rows, atvi_lang_pulse *pulse) {
  const atvi_csv *csv = rows->csv;
  const ast_expr *lag;
  double offset, least;
  atvi_idx column = time_column(e, st, csv, &lag), later, n = 0;
  double *t = atvi_lang_take(e->s, csv->n_row, sizeof *t);
  double *value = atvi_lang_take(e->s, csv->n_row * rows->n, sizeof *value);
  if (column < 0 || !t || !value || !find_lag(e, st, csv, lag, pulse, &offset, &later, &least)) return false;
  for (atvi_idx r = 0; r < csv->n_row; r++) {
    bool missing;
    if (!numbers(e, st, rows, r, value + n * rows->n, &missing)) return false;
    if (missing) continue;
    if (!atvi_lang_time_cell(e, csv, r, column, st->times->at, &t[n])) return false;
    const double since = later < 0 ? 0 : csv->value[r * csv->n_col + later];
    if (isnan(since)) {
      atvi_lang_data_error(e->s, csv, r, later, lag->at, "fill it in",
                           "this is added to the time, and is not a number");
      return false;
    }
    t[n] += offset + (st->times->arg[0]->op == '-' ? -since : since);
    const double before = n && later < 0 ? t[n - 1] : -INFINITY;
    if (!check_time(e, st, csv, r, column, before, t[n], least)) return false;
    put_in_order(++n, t, rows->n, value);
  }
  pulse->n_time = n;
  pulse->time = t;
  pulse->n_value = rows->n;
  pulse->value = value;
  pulse->n_same = rows->n ? coincide(n, t) : 0;
  return true;
}

bool atvi_lang_pulse_first(elab *e, double *first) {
  *first = INFINITY;
  for (atvi_idx i = 0; i < e->file->n; i++) {
    const ast_stmt *st = &e->file->stmt[i];
    const atvi_csv *csv;
    double t;
    if (st->kind != KW_PULSE || !st->file) continue;
    if (!atvi_lang_csv(e, st, &csv)) return false;
    const ast_expr *lag;
    atvi_idx column = time_column(e, st, csv, &lag);
    if (column < 0) return false;
    for (atvi_idx r = 0; r < csv->n_row; r++) {
      if (!atvi_lang_time_cell(e, csv, r, column, st->times->at, &t)) return false;
      *first = fmin(*first, t);
    }
  }
  return true;
}
