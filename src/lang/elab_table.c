/* SPDX-License-Identifier: MIT */
/* Tables in time: from lists, months or files. */
#include "lang/elab.h"
#include "lang/lang.h"
#include <math.h>
#include <string.h>

static bool monthly(elab *e, const ast_stmt *st, atvi_lang_table *table) {
  if (!e->lang->calendar.unit) {
    atvi_lang_error(e->s, st->at, "say what date t = 0 is, for example: calendar 2009-12-19 week",
                    "a monthly table needs a calendar");
    return false;
  }
  if (st->value->kind != EX_LIST || st->value->n != 12) {
    atvi_lang_error(e->s, st->value->at, "January first: [1, 2, ..., 12]",
                    "a monthly table has 12 values, this has %td",
                    st->value->kind == EX_LIST ? st->value->n : 1);
    return false;
  }
  double *v = atvi_lang_take(e->s, 12, sizeof *v);
  for (int k = 0; v && k < 12; k++)
    if (!atvi_lang_number(e, NULL, st->value->arg[k], "a value of a table", &v[k])) return false;
  table->kind = ATVI_TABLE_MONTH;
  table->n = 12;
  table->v = v;
  return v != NULL;
}

static bool from_list(elab *e, const ast_stmt *st, atvi_lang_table *table) {
  atvi_idx n = st->times->n;
  if (n < 1)
    return atvi_lang_error(e->s, st->times->at, "for example: [0: 1, 10: 0.4]", "the table is empty"), false;
  double *t = atvi_lang_take(e->s, n, sizeof *t), *v = atvi_lang_take(e->s, n, sizeof *v);
  for (atvi_idx k = 0; t && v && k < n; k++) {
    if (!atvi_lang_time(e, st->times->arg[k], "a time of a table", &t[k])) return false;
    if (!atvi_lang_number(e, NULL, st->value->arg[k], "a value of a table", &v[k])) return false;
    if (k > 0 && !(t[k] > t[k - 1])) {
      atvi_lang_error(e->s, st->times->arg[k]->at, "sort them", "times of a table must ascend: %g follows %g",
                      t[k], t[k - 1]);
      return false;
    }
  }
  table->n = n;
  table->t = t;
  table->v = v;
  return t && v;
}

static bool from_file(elab *e, const ast_stmt *st, atvi_lang_table *table) {
  const atvi_csv *csv;
  if (!atvi_lang_csv(e, st, &csv)) return false;
  if (!csv->n_row && e->each) {
    atvi_lang_error(e->s, st->file_at, "a table needs a value for every unit", "%s has no rows of '%.60s'",
                    csv->path, atvi_lang_unit_label(e, st->level));
    return false;
  }
  atvi_idx ct = atvi_lang_find_column(e, csv, st->time_column, st->time_at);
  atvi_idx cv = ct < 0 ? -1 : atvi_lang_find_column(e, csv, st->value_column, st->column_at);
  if (cv < 0) return false;
  double *t = atvi_lang_take(e->s, csv->n_row, sizeof *t), *v = atvi_lang_take(e->s, csv->n_row, sizeof *v);
  for (atvi_idx k = 0; t && v && k < csv->n_row; k++) {
    if (!atvi_lang_time_cell(e, csv, k, ct, st->time_at, &t[k])) return false;
    atvi_idx at = k * csv->n_col + cv;
    v[k] = csv->value[at];
    if (csv->kind[at] != ATVI_CELL_NUMBER) {
      atvi_lang_data_error(e->s, csv, k, cv, st->column_at, "a table has no gaps: drop the row or fill it in",
                           "'%.60s' is not a number", csv->text[at]);
      return false;
    }
    if (k > 0 && !(t[k] > t[k - 1])) {
      atvi_lang_data_error(e->s, csv, k, ct, st->time_at, "sort the file by time",
                           "times of a table must ascend: %g follows %g", t[k], t[k - 1]);
      return false;
    }
  }
  table->n = csv->n_row;
  table->t = t;
  table->v = v;
  return t && v;
}

bool atvi_lang_tables(elab *e) {
  atvi_idx n = 0;
  for (atvi_idx i = 0; i < e->n_symbol; i++)
    if (e->symbol[i]->kind == SYM_TABLE) e->symbol[i]->base = n++;
  if (!(e->lang->table = atvi_lang_take(e->s, n, sizeof *e->lang->table))) return false;
  e->lang->n_table = n;
  for (atvi_idx i = 0; i < e->n_symbol; i++) {
    const elab_symbol *sym = e->symbol[i];
    if (sym->kind != SYM_TABLE) continue;
    atvi_lang_table *table = &e->lang->table[sym->base];
    const char *kind = sym->stmt->option->text;
    table->name = sym->word->text;
    table->kind = strcmp(kind, "linear") == 0 ? ATVI_TABLE_LINEAR : ATVI_TABLE_STEP;
    bool ok = strcmp(kind, "monthly") == 0 ? monthly(e, sym->stmt, table)
              : sym->stmt->file            ? from_file(e, sym->stmt, table)
                                           : from_list(e, sym->stmt, table);
    if (!ok) return false;
  }
  return true;
}

/* Tables at work: the line a + b t that holds from t on, and how long it holds. */

/* A solver that was sent to the first of a month arrives there up to rounding: within this many days it is there. */
static const double DAY_SLACK = 1e-6;
/* Days around 1970 that have months: 0001 to 9999 and then some. Every month is a stop of the solver, so that this
 * bounds their number. */
static const double DAY_MOST = 2932896;

bool atvi_lang_has_month(const atvi_lang *lang, double t) {
  return fabs(atvi_io_calendar_day(lang->calendar, t)) < DAY_MOST;
}

static void month_at(const atvi_lang *lang, const atvi_lang_table *table, double t, double *a, double *next) {
  double day = atvi_io_calendar_day(lang->calendar, t) + DAY_SLACK;
  *a = table->v[0];
  *next = day <= -DAY_MOST ? atvi_io_calendar_time(lang->calendar, 1 - DAY_MOST) : INFINITY;
  if (!(fabs(day) < DAY_MOST)) return;
  int year, month, mday;
  atvi_io_date_from_days((int64_t)floor(day), &year, &month, &mday);
  *a = table->v[month - 1];
  int64_t first =
      month == 12 ? atvi_io_days_from_date(year + 1, 1, 1) : atvi_io_days_from_date(year, month + 1, 1);
  *next = atvi_io_calendar_time(lang->calendar, (double)first);
}

/* Number of knots at or before t. */
static atvi_idx passed(const atvi_lang_table *table, double t) {
  atvi_idx lo = 0, hi = table->n;
  while (lo < hi) {
    atvi_idx mid = lo + (hi - lo) / 2;
    if (table->t[mid] <= t)
      lo = mid + 1;
    else
      hi = mid;
  }
  return lo;
}

void atvi_lang_table_at(const atvi_lang *lang, const atvi_lang_table *table, double t, double *a, double *b,
                        double *next) {
  *b = 0;
  if (table->kind == ATVI_TABLE_MONTH) {
    month_at(lang, table, t, a, next);
    return;
  }
  atvi_idx k = passed(table, t);
  *next = k < table->n ? table->t[k] : INFINITY;
  *a = table->v[k > 0 ? k - 1 : 0];
  if (table->kind != ATVI_TABLE_LINEAR || k == 0 || k == table->n) return;
  *b = (table->v[k] - table->v[k - 1]) / (table->t[k] - table->t[k - 1]);
  *a = table->v[k - 1] - *b * table->t[k - 1];
}
