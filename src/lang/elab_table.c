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

/* One value: a number, or an expression of parameters. */
static bool table_value(elab *e, const ast_expr *x, atvi_node *node, double *v) {
  elab_env env = {.allowed = ELAB_KIND(ATVI_IN_PARAM), .where = "a value of a table", .data = -1};
  *v = NAN;
  *node = atvi_lang_eval(e, &env, x);
  if (*node == ATVI_NODE_NONE) return false;
  if (!atvi_lang_constant(e, *node, v) || !isnan(*v)) return true;
  atvi_lang_error(e->s, x->at, "look for the logarithm or root of a negative number, or 0/0",
                  "a value of a table must be a number");
  return false;
}

static bool from_list(elab *e, const ast_stmt *st, atvi_lang_table *table, atvi_node *node) {
  atvi_idx n = st->times->n;
  if (n < 1)
    return atvi_lang_error(e->s, st->times->at, "for example: [0: 1, 10: 0.4]", "the table is empty"), false;
  double *t = atvi_lang_take(e->s, n, sizeof *t), *v = atvi_lang_take(e->s, n, sizeof *v);
  for (atvi_idx k = 0; t && v && k < n; k++) {
    if (!atvi_lang_time(e, st->times->arg[k], "a time of a table", &t[k])) return false;
    if (!table_value(e, st->value->arg[k], &node[k], &v[k])) return false;
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

static atvi_node two(elab *e, atvi_op op, atvi_node a, atvi_node b) { return atvi_graph_op2(e->g, op, a, b); }
static atvi_node times(elab *e, double c, atvi_node x) {
  return two(e, ATVI_OP_MUL, atvi_graph_const(e->g, c), x);
}

/* Second derivatives m[n] of the natural cubic spline through y[n] at t[n], by elimination: m is linear in y, and the factors are numbers.
 *   h[i-1] m[i-1] + 2 (h[i-1] + h[i]) m[i] + h[i] m[i+1] = 6 (slope[i] - slope[i-1]),   m[0] = m[n-1] = 0 */
static bool second_derivatives(elab *e, atvi_idx n, const double *t, const atvi_node *slope, atvi_node *m) {
  double *up = atvi_lang_take(e->s, n, sizeof *up);
  if (!up) return false;
  m[0] = m[n - 1] = atvi_graph_const(e->g, 0);
  for (atvi_idx i = 1; i < n - 1; i++) {
    double h0 = t[i] - t[i - 1], h1 = t[i + 1] - t[i], pivot = 2 * (h0 + h1) - h0 * up[i - 1];
    atvi_node right = times(e, 6, two(e, ATVI_OP_SUB, slope[i], slope[i - 1]));
    up[i] = h1 / pivot;
    m[i] = times(e, 1 / pivot, two(e, ATVI_OP_SUB, right, times(e, h0, m[i - 1])));
  }
  for (atvi_idx i = n - 2; i > 0; i--) m[i] = two(e, ATVI_OP_SUB, m[i], times(e, up[i], m[i + 1]));
  return true;
}

/* Coefficients between the knots; outside the first or last value holds. order: 0 step, 1 linear, 3 spline. */
static bool segments(elab *e, elab_symbol *sym, const atvi_lang_table *table, const atvi_node *y, int order) {
  atvi_idx n = table->n;
  const double *t = table->t;
  atvi_node *slope = atvi_lang_take(e->s, n, sizeof *slope), *m = atvi_lang_take(e->s, n, sizeof *m);
  atvi_node *c = sym->coef = atvi_lang_take(e->s, (order + 1) * (n + 1), sizeof *c);
  if (!slope || !m || !c) return false;
  for (atvi_idx i = 0; i < (order + 1) * (n + 1); i++) c[i] = atvi_graph_const(e->g, 0);
  for (atvi_idx i = 0; i <= n; i++) c[i] = y[i > 0 ? i - 1 : 0];
  for (atvi_idx i = 0; order > 0 && i < n - 1; i++)
    slope[i] = c[n + 2 + i] = times(e, 1 / (t[i + 1] - t[i]), two(e, ATVI_OP_SUB, y[i + 1], y[i]));
  if (order == 3 && !second_derivatives(e, n, t, slope, m)) return false;
  for (atvi_idx i = 0; order == 3 && i < n - 1; i++) {
    double h = t[i + 1] - t[i];
    atvi_node bend = two(e, ATVI_OP_ADD, times(e, 2, m[i]), m[i + 1]);
    c[n + 2 + i] = two(e, ATVI_OP_SUB, slope[i], times(e, h / 6, bend));
    c[2 * (n + 1) + 1 + i] = times(e, 0.5, m[i]);
    c[3 * (n + 1) + 1 + i] = times(e, 1 / (6 * h), two(e, ATVI_OP_SUB, m[i + 1], m[i]));
  }
  sym->n_coef = order + 1;
  return true;
}

static bool elab_walk(elab *e, elab_symbol *sym) {
  atvi_lang_table table = {
      .name = sym->word->text, .kind = ATVI_TABLE_SEGMENT, .n = sym->n_knot, .t = sym->knot};
  atvi_node *value = atvi_lang_take(e->s, sym->n_knot, sizeof *value);
  if (!value) return false;
  atvi_lang_walk_values(e, sym, value);
  if (!segments(e, sym, &table, value, sym->stmt->linear ? 1 : 0)) return false;
  e->lang->table[sym->base] = table;
  return true;
}

/* A spline from a file, which may be another one in each unit: its coefficients are numbers of two more tables. */
static bool from_numbers(const ast_stmt *st) {
  return st->kind == KW_TABLE && st->file && strcmp(st->option->text, "spline") == 0;
}

static bool pairs(elab *e, const elab_symbol *sym, const atvi_lang_table *table) {
  const atvi_idx n = table->n + 1;
  for (int p = 0; p < 2; p++) {
    double *v = atvi_lang_take(e->s, 2 * n, sizeof *v);
    if (!v) return false;
    for (atvi_idx j = 0; j < n; j++)
      for (int k = 0; k < 2; k++) atvi_lang_constant(e, sym->coef[(2 * p + k) * n + j], &v[2 * j + k]);
    e->lang->table[sym->base + 1 + p] =
        (atvi_lang_table){.name = "", .kind = ATVI_TABLE_PAIR, .n = table->n, .t = table->t, .v = v};
  }
  return true;
}

static bool elab_table(elab *e, elab_symbol *sym) {
  const ast_stmt *st = sym->stmt;
  if (st->kind == KW_WALK) return elab_walk(e, sym);
  const char *kind = st->option->text;
  bool spline = strcmp(kind, "spline") == 0, linear = strcmp(kind, "linear") == 0;
  atvi_lang_table table = {.name = sym->word->text, .kind = linear ? ATVI_TABLE_LINEAR : ATVI_TABLE_STEP};
  atvi_idx n = st->times ? st->times->n : 0;
  atvi_node *node = atvi_lang_take(e->s, n, sizeof *node);
  bool ok = !node                          ? false
            : strcmp(kind, "monthly") == 0 ? monthly(e, st, &table)
            : st->file                     ? from_file(e, st, &table)
                                           : from_list(e, st, &table, node);
  if (!ok) return false;
  bool numbers = true;
  for (atvi_idx k = 0; k < n; k++) numbers = numbers && atvi_graph_is_const(e->g, node[k], NULL);
  if (spline && table.n < 2) {
    atvi_lang_error(e->s, st->at, "for example: table beta spline = [0: 1, 10: 0.4, 30: 0.8]",
                    "a spline needs two knots or more, '%.60s' has %td", table.name, table.n);
    return false;
  }
  if (spline || !numbers) {
    if (st->file && !(node = atvi_lang_take(e->s, table.n, sizeof *node))) return false;
    for (atvi_idx k = 0; st->file && k < table.n; k++) node[k] = atvi_graph_const(e->g, table.v[k]);
    if (!segments(e, sym, &table, node, spline ? 3 : linear ? 1 : 0)) return false;
    table.kind = ATVI_TABLE_SEGMENT;
    table.v = NULL;
    if (st->file && !pairs(e, sym, &table)) return false;
  }
  e->lang->table[sym->base] = table;
  return true;
}

/* On use, for the values of one table may need a let that uses another. */
static bool ready(elab *e, elab_symbol *sym, atvi_place at) {
  if (e->lang->table[sym->base].name) return true;
  if (sym->busy) {
    atvi_lang_error(e->s, at, "its values can use parameters and constants",
                    "circular definition: the values of the table '%.60s' use the table", sym->word->text);
    return false;
  }
  sym->busy = true;
  bool ok = elab_table(e, sym);
  sym->busy = false;
  return ok;
}

atvi_node atvi_lang_table_node(elab *e, elab_symbol *sym, const ast_expr *use) {
  if (!ready(e, sym, use->at)) return ATVI_NODE_NONE;
  const atvi_lang_table *table = &e->lang->table[sym->base];
  atvi_node a = atvi_graph_input(e->g, ATVI_IN_TABLE, 2 * sym->base);
  if (table->kind == ATVI_TABLE_STEP || table->kind == ATVI_TABLE_MONTH) return a;
  atvi_node b = atvi_graph_input(e->g, ATVI_IN_TABLE, 2 * sym->base + 1);
  atvi_node t = atvi_graph_input(e->g, ATVI_IN_TIME, 0);
  if (table->kind == ATVI_TABLE_LINEAR) return two(e, ATVI_OP_ADD, a, two(e, ATVI_OP_MUL, b, t));
  atvi_node since = two(e, ATVI_OP_SUB, t, b), y = ATVI_NODE_NONE;
  for (int k = sym->n_coef - 1; k >= 0; k--) {
    atvi_node c = from_numbers(sym->stmt)
                      ? atvi_graph_input(e->g, ATVI_IN_TABLE, 2 * (sym->base + 1) + k)
                      : atvi_graph_pick(e->g, table->n + 1, sym->coef + k * (table->n + 1), a);
    y = y == ATVI_NODE_NONE ? c : two(e, ATVI_OP_ADD, c, two(e, ATVI_OP_MUL, since, y));
  }
  return y;
}

bool atvi_lang_tables(elab *e) {
  atvi_idx n = 0;
  for (atvi_idx i = 0; i < e->n_symbol; i++)
    if (e->symbol[i]->kind == SYM_TABLE)
      e->symbol[i]->base = n, n += from_numbers(e->symbol[i]->stmt) ? 3 : 1;
  if (!(e->lang->table = atvi_lang_take(e->s, n, sizeof *e->lang->table))) return false;
  e->lang->n_table = n;
  for (atvi_idx i = 0; i < e->n_symbol; i++)
    if (e->symbol[i]->kind == SYM_TABLE && !ready(e, e->symbol[i], e->symbol[i]->at)) return false;
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
  if (table->kind == ATVI_TABLE_SEGMENT) {
    *a = (double)k;
    *b = table->t[k > 0 ? k - 1 : 0];
    return;
  }
  if (table->kind == ATVI_TABLE_PAIR) {
    *a = table->v[2 * k];
    *b = table->v[2 * k + 1];
    return;
  }
  *a = table->v[k > 0 ? k - 1 : 0];
  if (table->kind != ATVI_TABLE_LINEAR || k == 0 || k == table->n) return;
  *b = (table->v[k] - table->v[k - 1]) / (table->t[k] - table->t[k - 1]);
  *a = table->v[k - 1] - *b * table->t[k - 1];
}
