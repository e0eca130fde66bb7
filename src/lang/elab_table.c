/* SPDX-License-Identifier: MIT */
/* Tables in time: from lists, months or files, and walks. */
#include "lang/elab.h"
#include "lang/lang.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Walks: a table whose values at the knots are a random walk, x[k] = x[k-1] + e[k], or an AR(1) process, x[k]
 * = phi x[k-1] + e[k]. The values x[k] are parameters, named by the time of their knot; the prior of x[k] is
 * that of e[k] around what comes before. So methods can choose between coordinates: the values, which much
 * data determine one by one, or the increments in units of their scale. */

/* A knot this close to the end of the range, in steps, is in it. */
static const double SAME_KNOT = 1e-9;
/* A day this close to midnight has a date. */
static const double WHOLE_DAY = 1e-6;

static bool is_ar1(const ast_stmt *st) { return strcmp(st->dist.name->text, "ar1") == 0; }

/* A parameter array over a set without a name, whose labels come later. */
static bool declare_params(elab *e, elab_symbol *sym) {
  elab_symbol *set = atvi_lang_take(e->s, 1, sizeof *set);
  ast_word *word = atvi_lang_take(e->s, 1, sizeof *word);
  ast_expr *name = atvi_lang_take(e->s, 1, sizeof *name);
  ast_stmt *st = atvi_lang_take(e->s, 1, sizeof *st);
  if (!set || !word || !name || !st) return false;
  *word = (ast_word){.text = sym->word->text, .symbol = set};
  *set = (elab_symbol){.kind = SYM_SET, .stmt = st, .word = word, .at = sym->at};
  *name = (ast_expr){.kind = EX_NAME, .at = sym->at, .word = word};
  *st = *sym->stmt;
  st->kind = KW_PARAM;
  st->n_dim = 1;
  st->dim[0] = (ast_dim){.lo = name, .at = sym->at};
  st->option = NULL;
  sym->stmt = st;
  return true;
}

bool atvi_lang_walk_declare(elab *e, elab_symbol *walk, elab_symbol *first, elab_symbol *later) {
  if (!declare_params(e, first) || !declare_params(e, later)) return false;
  ast_stmt *a = (ast_stmt *)first->stmt, *b = (ast_stmt *)later->stmt; /* made above */
  a->dist.name = a->walk.dist;
  a->dist.args = a->walk.args;
  a->dist.at = a->walk.at;
  walk->first = first;
  walk->later = later;
  later->walk = walk;
  if (!is_ar1(b)) return true;
  if (b->dist.args->n != 2) {
    atvi_lang_error(e->s, b->dist.at, "write ar1(phi, sd)", "'ar1' takes 2 arguments, not %td",
                    b->dist.args->n);
    return false;
  }
  ast_word *normal = atvi_lang_take(e->s, 1, sizeof *normal);
  ast_expr *call = atvi_lang_take(e->s, 1, sizeof *call), *zero = atvi_lang_take(e->s, 1, sizeof *zero);
  ast_expr **arg = atvi_lang_take(e->s, 2, sizeof *arg);
  if (!normal || !call || !zero || !arg) return false;
  *normal = (ast_word){.text = "normal"};
  *zero = (ast_expr){.kind = EX_NUMBER, .at = b->dist.at};
  arg[0] = zero;
  arg[1] = b->dist.args->arg[1];
  *call = *b->dist.args;
  call->arg = arg;
  b->dist.name = normal;
  b->dist.args = call;
  return true;
}

static bool data_range(elab *e, const ast_stmt *st, double *first, double *last) {
  if (!atvi_lang_data_range(e, first, last)) return false;
  if (*first <= *last || (st->range.lower && st->range.upper)) return true;
  atvi_lang_error(e->s, st->at, "say when it begins and ends: walk x every 7 from 0 to 140 ~ ...",
                  "the walk '%.60s' has no data with times to follow", st->name->text);
  return false;
}

/* The first of the month after t. */
static double next_month(const atvi_calendar c, double t) {
  int year, month, day;
  atvi_io_date_from_days((int64_t)floor(atvi_io_calendar_day(c, t) + WHOLE_DAY), &year, &month, &day);
  int64_t next =
      month == 12 ? atvi_io_days_from_date(year + 1, 1, 1) : atvi_io_days_from_date(year, month + 1, 1);
  return atvi_io_calendar_time(c, (double)next);
}

static bool step_of(elab *e, const ast_stmt *st, double *step) {
  if (st->step) {
    if (!atvi_lang_number(e, NULL, st->step, "the step of a walk", step)) return false;
    if (*step > 0 && *step < INFINITY) return true;
    atvi_lang_error(e->s, st->step->at, "for example: every 7", "the step of a walk must be above 0, not %g",
                    *step);
    return false;
  }
  const char *word = st->option->text;
  if (!e->lang->time.calendar.unit) {
    atvi_lang_error(e->s, st->at,
                    "say what date t = 0 is, for example: calendar 2020-03-02 day; or write: every 7",
                    "a %s walk needs a calendar", word);
    return false;
  }
  *step = strcmp(word, "daily") == 0 ? 1 : strcmp(word, "weekly") == 0 ? 7 : 0; /* 0: by months */
  *step /= e->lang->time.calendar.unit;
  return true;
}

static bool too_many(elab *e, const ast_stmt *st, double n) {
  if (n <= ELAB_MAX_PARAMS) return false;
  atvi_lang_error(e->s, st->at, "choose a larger step, or a range: from 0 to 140",
                  "the walk '%.60s' has more than %d knots", st->name->text, ELAB_MAX_PARAMS);
  return true;
}

/* From the beginning of the range to its end; the last line of a linear walk reaches the end. */
static bool regular(elab *e, const ast_stmt *st, elab_symbol *walk) {
  double first = 0, last = 0, step, *t = NULL;
  atvi_idx n = 0, cap = 0;
  if (!step_of(e, st, &step) || !data_range(e, st, &first, &last)) return false;
  const double from = first, to = last; /* of the data; from > to: there are none */
  if (st->range.lower && !atvi_lang_time(e, st->range.lower, "the beginning of a walk", &first)) return false;
  if (st->range.upper && !atvi_lang_time(e, st->range.upper, "the end of a walk", &last)) return false;
  if (!(first < last)) {
    atvi_lang_error(e->s, st->at, "it needs two knots or more",
                    "the walk '%.60s' ends at %g, not after its beginning %g", st->name->text, last, first);
    return false;
  }
  if (from <= to && (first > to || last < from)) {
    atvi_lang_error(e->s, st->at, "let it begin and end with the data, or remove it",
                    "the walk '%.60s' goes from %g to %g, but the data from %g to %g", st->name->text, first,
                    last, from, to);
    return false;
  }
  if (step > 0 && too_many(e, st, (last - first) / step)) return false;
  if (!step && (!atvi_lang_has_month(e->lang, first) || !atvi_lang_has_month(e->lang, last))) {
    atvi_lang_error(e->s, st->at, "check the unit of the calendar",
                    "the walk '%.60s' lies thousands of years from the start of the calendar",
                    st->name->text);
    return false;
  }
  double at = first, width = step > 0 ? step : last - first;
  for (bool more = true; more;) {
    if (too_many(e, st, (double)n)) return false;
    if (!ATVI_PUSH(e->s->pool, t, n, cap)) return atvi_lang_nomem(e->s), false;
    t[n++] = at;
    double next = step > 0 ? first + (double)n * step : next_month(e->lang->time.calendar, at);
    more = st->walk.linear ? at < last - SAME_KNOT * width : next <= last + SAME_KNOT * width;
    at = next;
  }
  walk->n_knot = n;
  walk->knot = t;
  return true;
}

/* Whether listed time k is after the one before. */
static bool ascends(elab *e, const ast_stmt *st, const char *what, const double *t, atvi_idx k) {
  if (k == 0 || t[k] > t[k - 1]) return true;
  atvi_lang_error(e->s, st->times->arg[k]->at, "sort them", "times of a %s must ascend: %g follows %g", what,
                  t[k], t[k - 1]);
  return false;
}

static bool listed(elab *e, const ast_stmt *st, elab_symbol *walk) {
  atvi_idx n = st->times->n;
  if (too_many(e, st, (double)n)) return false;
  double *t = atvi_lang_take(e->s, n, sizeof *t);
  for (atvi_idx k = 0; t && k < n; k++) {
    if (!atvi_lang_time(e, st->times->arg[k], "a time of a walk", &t[k]) || !ascends(e, st, "walk", t, k))
      return false;
  }
  walk->n_knot = n;
  walk->knot = t;
  return t != NULL;
}

/* "2020-03-23", or the time where that is no date. */
static const char *label_of(elab *e, double t) {
  int year, month, day;
  double days = e->lang->time.calendar.unit ? atvi_io_calendar_day(e->lang->time.calendar, t) : NAN;
  double whole = nearbyint(days);
  const char *label;
  if (fabs(days - whole) < WHOLE_DAY && atvi_lang_has_month(e->lang, t)) {
    atvi_io_date_from_days((int64_t)whole, &year, &month, &day);
    label = atvi_pool_printf(e->s->pool, "%04d-%02d-%02d", year, month, day);
  } else
    label = atvi_pool_printf(e->s->pool, "%.10g", t);
  if (!label) atvi_lang_nomem(e->s);
  return label;
}

static void name_params(const elab_symbol *sym, atvi_idx n, const char *const *label) {
  elab_symbol *set = sym->stmt->dim[0].lo->word->symbol;
  set->label = label;
  set->dim[0] = (elab_range){1, n, set};
  set->ready = true;
}

static bool knots(elab *e, elab_symbol *walk) {
  const ast_stmt *st = walk->stmt;
  if (!(st->times ? listed(e, st, walk) : regular(e, st, walk))) return false;
  if (walk->n_knot < 2) {
    atvi_lang_error(e->s, st->at, "what does not change is a 'param'",
                    "a walk needs two knots or more, '%.60s' has %td", st->name->text, walk->n_knot);
    return false;
  }
  const char **label = atvi_lang_take(e->s, walk->n_knot, sizeof *label);
  for (atvi_idx k = 0; label && k < walk->n_knot; k++) {
    if (!(label[k] = label_of(e, walk->knot[k]))) return false;
    if (k == 0 || strcmp(label[k], label[k - 1]) != 0) continue;
    atvi_lang_error(e->s, st->at, "choose times that differ more",
                    "two knots of the walk '%.60s' have the name %s", st->name->text, label[k]);
    return false;
  }
  if (!label) return false;
  name_params(walk->first, 1, label);
  name_params(walk->later, walk->n_knot - 1, label + 1);
  return true;
}

bool atvi_lang_walks(elab *e) {
  /* files are read before their statements are copied into blocks: a pipe can be read once */
  double first, last;
  if (!e->in.each && atvi_lang_has_statement(e->tree->n, e->tree->stmt, KW_WALK) &&
      !atvi_lang_data_range(e, &first, &last))
    return false;
  for (atvi_idx i = 0; i < e->n_symbol; i++)
    if (e->symbol[i]->kind == SYM_TABLE && e->symbol[i]->stmt->kind == KW_WALK && !knots(e, e->symbol[i]))
      return false;
  return true;
}

static void walk_values(elab *e, const elab_symbol *walk, atvi_node *value) {
  for (atvi_idx k = 0; k < walk->n_knot; k++) /* both arrays are numbered one after the other */
    value[k] = atvi_graph_input(e->g, ATVI_IN_PARAM, walk->first->base + k);
}

bool atvi_lang_walk_prior(elab *e, const elab_symbol *walk, atvi_idx index, atvi_lang_param *p) {
  const ast_stmt *st = walk->stmt;
  int location = p->dist == ATVI_DIST_STUDENT ? 1 : 0;
  if (p->dist != ATVI_DIST_NORMAL && p->dist != ATVI_DIST_STUDENT && p->dist != ATVI_DIST_CAUCHY) {
    atvi_lang_error(e->s, st->dist.at, "for example: walk x every 7 ~ normal(0, s) from normal(0, 1)",
                    "increments of a walk are normal, student or cauchy, or it is ar1, not '%.60s'",
                    st->dist.name->text);
    return false;
  }
  atvi_node before = atvi_graph_input(e->g, ATVI_IN_PARAM, index - 1);
  if (is_ar1(st)) {
    elab_env v = {.allowed = ELAB_KIND(ATVI_IN_PARAM), .where = "a walk", .data = -1};
    atvi_node phi = atvi_lang_eval(e, &v, st->dist.args->arg[0]);
    before = atvi_graph_op2(e->g, ATVI_OP_MUL, phi, before);
  }
  p->arg[location] = atvi_graph_op2(e->g, ATVI_OP_ADD, before, p->arg[location]);
  return e->s->status == ATVI_OK;
}

static bool monthly(elab *e, const ast_stmt *st, atvi_lang_table *table) {
  if (!e->lang->time.calendar.unit) {
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
    if (!ascends(e, st, "table", t, k)) return false;
  }
  table->n = n;
  table->t = t;
  table->v = v;
  return t && v;
}

static bool from_file(elab *e, const ast_stmt *st, atvi_lang_table *table) {
  const atvi_csv *csv;
  if (!atvi_lang_csv(e, st, &csv)) return false;
  if (!csv->n_row && e->in.each) {
    atvi_lang_error(e->s, st->file.at, "a table needs a value for every unit", "%s has no rows of '%.60s'",
                    csv->path, atvi_lang_unit_label(e, st->level));
    return false;
  }
  atvi_idx ct = atvi_lang_find_column(e, csv, st->column.time, st->column.time_at);
  atvi_idx cv = ct < 0 ? -1 : atvi_lang_find_column(e, csv, st->column.value, st->column.at);
  if (cv < 0) return false;
  double *t = atvi_lang_take(e->s, csv->n_row, sizeof *t), *v = atvi_lang_take(e->s, csv->n_row, sizeof *v);
  for (atvi_idx k = 0; t && v && k < csv->n_row; k++) {
    if (!atvi_lang_time_cell(e, csv, k, ct, st->column.time_at, &t[k])) return false;
    atvi_idx at = k * csv->n_col + cv;
    v[k] = csv->value[at];
    if (csv->kind[at] != ATVI_CELL_NUMBER) {
      atvi_lang_data_error(e->s, csv, k, cv, st->column.at, "a table has no gaps: drop the row or fill it in",
                           "'%.60s' is not a number", csv->text[at]);
      return false;
    }
    if (k > 0 && !(t[k] > t[k - 1])) {
      atvi_lang_data_error(e->s, csv, k, ct, st->column.time_at, "sort the file by time",
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

/* Second derivatives m[n] of the natural cubic spline through y[n] at t[n], by elimination: m is linear in y,
 * and the factors are numbers.
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
  walk_values(e, sym, value);
  if (!segments(e, sym, &table, value, sym->stmt->walk.linear ? 1 : 0)) return false;
  e->lang->table[sym->base] = table;
  return true;
}

/* A spline from a file, which may be another one in each unit: its coefficients are numbers of two more
 * tables. */
static bool from_numbers(const ast_stmt *st) {
  return st->kind == KW_TABLE && st->file.name && strcmp(st->option->text, "spline") == 0;
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
            : st->file.name                ? from_file(e, st, &table)
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
    if (st->file.name && !(node = atvi_lang_take(e->s, table.n, sizeof *node))) return false;
    for (atvi_idx k = 0; st->file.name && k < table.n; k++) node[k] = atvi_graph_const(e->g, table.v[k]);
    if (!segments(e, sym, &table, node, spline ? 3 : linear ? 1 : 0)) return false;
    table.kind = ATVI_TABLE_SEGMENT;
    table.v = NULL;
    if (st->file.name && !pairs(e, sym, &table)) return false;
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

/* A solver that was sent to the first of a month arrives there up to rounding: within this many days it is
 * there. */
static const double DAY_SLACK = 1e-6;
/* Days around 1970 that have months: 0001 to 9999 and then some. Every month is a stop of the solver, so that
 * this bounds their number. */
static const double DAY_MOST = 2932896;

bool atvi_lang_has_month(const atvi_lang *lang, double t) {
  return fabs(atvi_io_calendar_day(lang->time.calendar, t)) < DAY_MOST;
}

static void month_at(const atvi_lang *lang, const atvi_lang_table *table, double t, double *a, double *next) {
  double day = atvi_io_calendar_day(lang->time.calendar, t) + DAY_SLACK;
  *a = table->v[0];
  *next = day <= -DAY_MOST ? atvi_io_calendar_time(lang->time.calendar, 1 - DAY_MOST) : INFINITY;
  if (!(fabs(day) < DAY_MOST)) return;
  int year, month, mday;
  atvi_io_date_from_days((int64_t)floor(day), &year, &month, &mday);
  *a = table->v[month - 1];
  int64_t first =
      month == 12 ? atvi_io_days_from_date(year + 1, 1, 1) : atvi_io_days_from_date(year, month + 1, 1);
  *next = atvi_io_calendar_time(lang->time.calendar, (double)first);
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
