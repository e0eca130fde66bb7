/* SPDX-License-Identifier: MIT */
/* Observations: which column, which distribution, and whether the data can be what it says. */
#include "lang/elab.h"
#include <math.h>

static const uint32_t TIMED =
    ELAB_KIND(ATVI_IN_TIME) | ELAB_KIND(ATVI_IN_STATE) | ELAB_KIND(ATVI_IN_PREV) | ELAB_KIND(ATVI_IN_TABLE);

/* Position of the column of element k; -1 if there is none. */
static atvi_idx spelled(const atvi_csv *csv, const char *base, const elab_loop *loop, atvi_idx k) {
  atvi_idx at[AST_MAX_DIM];
  elab_spelling s = {0};
  atvi_lang_position(loop->n_dim, loop->range, k, at);
  for (int d = 0; d < loop->n_dim; d++)
    atvi_lang_spell(&s, atvi_lang_labelled(&loop->range[d]), loop->range[d].lo + at[d]);
  return atvi_lang_spelled(csv, base, &s);
}

static bool has_column(const atvi_csv *csv, const ast_stmt *st, const elab_loop *loop) {
  if (st->words.n)
    return atvi_io_csv_find(csv, st->words.token[0].kind == TOK_STRING ? st->words.token[0].text
                                                                       : st->words.token[0].word->text) >= 0;
  return loop->n_dim ? spelled(csv, st->name->text, loop, 0) >= 0
                     : atvi_io_csv_find(csv, st->name->text) >= 0;
}

/* The data set an observation belongs to; -1 after an error. */
static atvi_idx data_of(elab *e, const ast_stmt *st, const elab_loop *loop) {
  atvi_idx found = -1, missing = -1, n = e->lang->n_data;
  if (n == 0) {
    atvi_lang_error(e->s, st->at, "add a line such as: data \"cases.csv\" time day",
                    "there is no data file to observe");
    return -1;
  }
  if (st->qualifier) {
    const elab_symbol *set = atvi_lang_symbol(e, st->qualifier, SYM_DATA);
    if (set) return set->base;
    atvi_lang_error(e->s, st->at, "a data set is given a name like this: data hosp \"hosp.csv\" time day",
                    "there is no data set '%.60s'", st->qualifier->text);
    return -1;
  }
  if (n == 1) return 0;
  if (st->column.first) {
    atvi_lang_error(e->s, st->at, "write observe name.column, with the name of the data set",
                    "there are several data files: it is not clear which one is meant");
    return -1;
  }
  for (atvi_idx d = 0; d < n; d++) {
    if (!e->lang->data[d].csv) {
      missing = d;
      continue;
    }
    if (!has_column(e->lang->data[d].csv, st, loop)) continue;
    if (found >= 0) {
      atvi_lang_error(e->s, st->at, "write observe name.column, with the name of the data set",
                      "'%.60s' is a column of several data files", st->name->text);
      return -1;
    }
    found = d;
  }
  if (found >= 0 || missing >= 0) return found >= 0 ? found : missing;
  atvi_lang_error(e->s, st->at,
                  "'columns' gives the name of a column that differs: observe x columns count ~ ...",
                  "there is no column '%.60s' in any data file", st->name->text);
  return -1;
}

static bool column_by_position(elab *e, const ast_stmt *st, const elab_loop *loop, const atvi_csv *csv,
                               atvi_idx k, atvi_idx *column) {
  atvi_idx first, last;
  if (!atvi_lang_whole(e, NULL, st->column.first, "the position of a column", &first)) return false;
  last = first;
  if (st->column.last && !atvi_lang_whole(e, NULL, st->column.last, "the position of a column", &last))
    return false;
  if (last - first + 1 != loop->total) {
    atvi_lang_error(e->s, st->column.at, "one column per element",
                    "wrong shape: '%.60s' has %td %s, but %td columns are given", st->name->text, loop->total,
                    loop->total == 1 ? "element" : "elements", last - first + 1);
    return false;
  }
  if (csv && (first < 1 || last > csv->n_col)) {
    atvi_lang_error(e->s, st->column.at, "columns are counted from 1",
                    "there are no columns %td..%td: %s has %td", first, last, csv->path, csv->n_col);
    return false;
  }
  *column = csv ? first - 1 + k : -1;
  return true;
}

static bool column_of(elab *e, const ast_stmt *st, const elab_loop *loop, const atvi_csv *csv, atvi_idx k,
                      atvi_idx *column) {
  *column = -1;
  if (st->column.first) return column_by_position(e, st, loop, csv, k, column);
  if (st->words.n && st->words.n != loop->total) {
    atvi_lang_error(e->s, st->column.at, "one column per element",
                    "wrong shape: '%.60s' has %td %s, but %td columns are given", st->name->text, loop->total,
                    loop->total == 1 ? "element" : "elements", st->words.n);
    return false;
  }
  if (!csv) return true;
  if (st->words.n) {
    const ast_token *w = &st->words.token[k];
    *column = atvi_lang_find_column(e, csv, w->kind == TOK_STRING ? w->text : w->word->text, w->at);
    return *column >= 0;
  }
  if (loop->n_dim == 0) {
    *column = atvi_lang_find_column(e, csv, st->name->text, st->at);
    return *column >= 0;
  }
  *column = spelled(csv, st->name->text, loop, k);
  if (*column >= 0) return true;
  const char *name = atvi_lang_element_name(e, st->name->text, loop->n_dim, loop->range, k);
  atvi_lang_error(e->s, st->at, "one column per element, or give positions: columns 2..7",
                  "there is no column '%s' in %s", name ? name : "", csv->path);
  return false;
}

/* A cell that no parameters make possible, being below every count. */
static bool below_counts(const atvi_lang_observe *o, int kind, double y) {
  return atvi_lang_dist_get(o->dist)->count && kind == ATVI_CELL_LT && y <= 0;
}

/* A value outside the support, also as one that only says it is below the detection limit. */
static bool outside_support(const atvi_lang_observe *o, int kind, double y) {
  const atvi_dist_info *info = atvi_lang_dist_get(o->dist);
  bool undetected = kind == ATVI_CELL_NUMBER && y <= o->limit_lower && o->limit_lower > info->lower;
  bool closed =
      o->dist == ATVI_DIST_EXPONENTIAL || o->dist == ATVI_DIST_HALFNORMAL || o->dist == ATVI_DIST_HALFCAUCHY;
  return !info->count && !undetected && ((closed ? y < info->lower : y <= info->lower) || y >= info->upper);
}

static bool check_trials(elab *e, const atvi_lang_observe *o, const atvi_csv *csv, atvi_idx row) {
  atvi_idx at = row * csv->n_col + o->column;
  double n = NAN, y = csv->value[at];
  atvi_node_info size = {.op = ATVI_OP_CONST};
  if (!atvi_lang_constant(e, o->arg[0], &n)) {
    size = atvi_graph_get(e->g, o->arg[0]);
    if (size.op == ATVI_OP_INPUT && size.index2 == ATVI_IN_DATA)
      n = csv->value[row * csv->n_col + size.index];
  }
  if (size.op == ATVI_OP_INPUT && !isnan(n) && (n < 0 || n != floor(n))) {
    atvi_lang_data_error(e->s, csv, row, size.index, o->place, "n is the number of trials",
                         "n = %g of a binomial is not a whole number", n);
    return false;
  }
  if (n < y || (n == y && csv->kind[at] == ATVI_CELL_GT)) {
    atvi_lang_data_error(e->s, csv, row, o->column, o->place, "binomial(n, p): n is the number of trials",
                         n < y ? "the count '%.60s' is larger than n = %g"
                               : "'%.60s' is impossible: no count is larger than n = %g",
                         csv->text[at], n);
    return false;
  }
  return true;
}

/* What one cell may be under the distribution. */
static bool check_cell(elab *e, const atvi_lang_observe *o, const atvi_csv *csv, atvi_idx row) {
  atvi_idx at = row * csv->n_col + o->column;
  double y = csv->value[at];
  const atvi_dist_info *info = atvi_lang_dist_get(o->dist);
  if (csv->kind[at] == ATVI_CELL_TEXT || csv->kind[at] == ATVI_CELL_DATE) {
    atvi_lang_data_error(e->s, csv, row, o->column, o->place, "missing values are written NA or left empty",
                         "'%.60s' is not a number", csv->text[at]);
    return false;
  }
  if (info->count && (y < 0 || y != floor(y) || isinf(y))) {
    atvi_lang_data_error(e->s, csv, row, o->column, o->place,
                         "counts are 0, 1, 2, ...; for other numbers use normal or lognormal",
                         y < 0 ? "the count '%.60s' is negative" : "the count '%.60s' is not a whole number",
                         csv->text[at]);
    return false;
  }
  if (below_counts(o, csv->kind[at], y)) {
    atvi_lang_data_error(e->s, csv, row, o->column, o->place, "none at all is written 0, at most one <=1",
                         "'%.60s' is impossible: counts are 0 or more", csv->text[at]);
    return false;
  }
  if (outside_support(o, csv->kind[at], y)) {
    const char *why = isfinite(info->upper) ? "not between 0 and 1" : y < 0 ? "below 0" : "not above 0";
    atvi_lang_data_error(e->s, csv, row, o->column, o->place,
                         "use normal, or a detection limit: limits (0.5, inf)",
                         "'%.60s' cannot be %s: it is %s", csv->text[at], info->name,
                         o->dist == ATVI_DIST_LOGNORMAL ? "not above 0" : why);
    return false;
  }
  bool trials = o->dist == ATVI_DIST_BINOMIAL || o->dist == ATVI_DIST_BETABINOMIAL;
  return !trials || check_trials(e, o, csv, row);
}

static bool censored(const atvi_lang_observe *o, int kind, double y) {
  return (kind >= ATVI_CELL_LT && kind <= ATVI_CELL_GE) || y <= o->limit_lower || y >= o->limit_upper;
}

/* Covariates of an observation must be there in the rows that are observed. */
static bool check_covariates(elab *e, const atvi_lang_observe *o, const atvi_csv *csv,
                             const unsigned char *used) {
  for (atvi_idx r = 0; r < csv->n_row; r++) {
    if (csv->kind[r * csv->n_col + o->column] == ATVI_CELL_MISSING) continue;
    for (atvi_idx c = 0; c < csv->n_col; c++) {
      atvi_idx at = r * csv->n_col + c;
      if (!used[c] || (csv->kind[at] == ATVI_CELL_NUMBER)) continue;
      if (csv->kind[at] == ATVI_CELL_DATE && e->lang->time.calendar.unit) continue;
      if (csv->kind[at] == ATVI_CELL_TEXT && !isnan(e->lang->data[o->data].value[at])) continue; /* a label */
      atvi_lang_data_error(
          e->s, csv, r, c, o->place, "fill it in, or make the observation of that row NA",
          "'%.60s' in column '%.60s', which the observation of this row needs, is not a number",
          csv->text[at], csv->name[c]);
      return false;
    }
  }
  return true;
}

/* Marks the data columns that the arguments use. */
static bool used_columns(elab *e, const atvi_lang_observe *o, unsigned char *used) {
  atvi_idx n = atvi_graph_size(e->g), top = 0;
  unsigned char *seen = atvi_lang_take(e->s, n, 1);
  atvi_node *stack = atvi_lang_take(e->s, n, sizeof *stack);
  if (!seen || !stack) return false;
  for (int k = 0; k < o->n_arg; k++)
    if (!seen[o->arg[k]]) {
      seen[o->arg[k]] = 1;
      stack[top++] = o->arg[k];
    }
  while (top > 0) {
    atvi_node_info info = atvi_graph_get(e->g, stack[--top]);
    if (info.op == ATVI_OP_INPUT && info.index2 == ATVI_IN_DATA) used[info.index] = 1;
    for (int k = 0; k < info.n_arg; k++)
      if (!seen[info.arg[k]] && (atvi_graph_kinds(e->g, info.arg[k]) & ELAB_KIND(ATVI_IN_DATA))) {
        seen[info.arg[k]] = 1;
        stack[top++] = info.arg[k];
      }
  }
  return true;
}

static bool check_column(elab *e, atvi_lang_observe *o) {
  const atvi_lang_data *data = &e->lang->data[o->data];
  const atvi_csv *csv = data->csv;
  if (!csv) return true;
  for (atvi_idx r = 0; r < csv->n_row; r++) {
    atvi_idx at = r * csv->n_col + o->column;
    if (csv->kind[at] == ATVI_CELL_MISSING) {
      o->n_missing++;
      continue;
    }
    if (!check_cell(e, o, csv, r)) return false;
    bool cut = censored(o, csv->kind[at], csv->value[at]);
    o->n_censored += cut;
    if (cut && o->n_term) {
      atvi_lang_data_error(e->s, csv, r, o->column, o->place, "make it NA, and it is left out",
                           "'%.60s' is censored, which a sum of processes does not allow", csv->text[at]);
      return false;
    }
  }
  uint32_t kinds = 0;
  for (int k = 0; k < o->n_arg; k++) kinds |= atvi_graph_kinds(e->g, o->arg[k]);
  if (!(kinds & ELAB_KIND(ATVI_IN_DATA))) return true;
  unsigned char **used = &e->used[o - e->lang->observe]; /* the same in all units */
  if (!*used && (!(*used = atvi_lang_take(e->s, csv->n_col, 1)) || !used_columns(e, o, *used))) return false;
  return check_covariates(e, o, csv, *used);
}

static bool check_time(elab *e, const ast_stmt *st, const atvi_lang_observe *o) {
  const atvi_lang_data *data = &e->lang->data[o->data];
  uint32_t kinds = 0;
  for (int k = 0; k < o->n_arg; k++) kinds |= atvi_graph_kinds(e->g, o->arg[k]);
  if ((kinds & TIMED) && !e->data_stmt[o->data]->column.time && !e->lang->dynamics.steady) {
    atvi_lang_error(e->s, st->at, "name it in the line of the data file: data \"cases.csv\" time day",
                    "this observation depends on time, but the data have no time column");
    return false;
  }
  if (!(kinds & ELAB_KIND(ATVI_IN_PREV)) || !data->csv) return true;
  for (atvi_idx r = 0; r < data->n_row && data->time[r] <= e->lang->time.start; r++) {
    if (data->csv->kind[r * data->n_col + o->column] == ATVI_CELL_MISSING) continue;
    atvi_lang_error(
        e->s, st->at,
        "say when counting began, before the first time of the data: start ...; or make that row NA",
        "increase() has no meaning in the first row: its time %g is the start time", data->time[r]);
    return false;
  }
  return true;
}

static bool limits(elab *e, const ast_stmt *st, const elab_binding *vars, atvi_lang_observe *o) {
  o->limit_lower = -INFINITY;
  o->limit_upper = INFINITY;
  if (!st->range.given) return true;
  if (!atvi_lang_number(e, vars, st->range.lower, "a limit", &o->limit_lower) ||
      !atvi_lang_number(e, vars, st->range.upper, "a limit", &o->limit_upper))
    return false;
  if (o->limit_lower < o->limit_upper) return true;
  atvi_lang_error(e->s, st->range.at, "the lower one comes first", "the limits (%g, %g) are empty",
                  o->limit_lower, o->limit_upper);
  return false;
}

/* A column, or the name of an observation, may be used once per data set. */
static bool twice(elab *e, const ast_stmt *st, const atvi_lang_observe *o, atvi_idx k) {
  const ast_stmt **by = e->observed[o->data];
  if (!by || !by[o->column]) {
    if (by) by[o->column] = st;
    return false;
  }
  atvi_place at = st->words.n ? st->words.token[k].at : st->column.first ? st->column.at : st->at;
  atvi_lang_error(e->s, at, "every column has one distribution",
                  "the column '%.60s' is observed twice: line %d has it",
                  e->lang->data[o->data].csv->name[o->column], by[o->column]->at.line);
  return true;
}

static bool same_name(elab *e, const ast_stmt *st) {
  for (const ast_stmt *o = e->file->stmt; o < st; o++)
    if (o->kind == KW_OBSERVE && o->name == st->name && o->qualifier == st->qualifier) {
      atvi_lang_error(e->s, st->at, "every column has one distribution; 'columns' says which one it is",
                      "'%.60s' is observed twice: line %d has it", st->name->text, o->at.line);
      return true;
    }
  return false;
}

static bool distributed(elab *e, const ast_stmt *st, const elab_loop *loop, atvi_lang_observe *o) {
  elab_env v = {.vars = loop->vars,
                .allowed = ELAB_ALL & ~(ELAB_KIND(ATVI_IN_DELAY) | ELAB_KIND(ATVI_IN_TRAJECTORY)),
                .where = "an observation",
                .data = o->data};
  o->n_arg = atvi_lang_dist_get(o->dist)->n_arg;
  return atvi_lang_dist_args(e, &v, st, o->dist, o->arg) && check_time(e, st, o);
}

/* A model has one sort of observations. */
static bool one_sort(elab *e) {
  const ast_stmt *sum = NULL, *plain = NULL;
  for (atvi_idx i = 0; i < e->file->n; i++) {
    const ast_stmt *st = &e->file->stmt[i];
    if (st->kind != KW_OBSERVE) continue;
    if (st->dist.n_term && !sum) sum = st;
    if (!st->dist.n_term && !plain) plain = st;
  }
  if (!sum || !plain) return true;
  atvi_lang_error(
      e->s, plain->dist.at,
      "white(variance) in a sum is normal noise; keep the others in a model of their own",
      "'%.60s' has a distribution, but line %d observes a sum of processes, and a model cannot have both",
      plain->name->text, sum->at.line);
  return false;
}

static bool observe(elab *e, const ast_stmt *st, elab_loop *loop) {
  if (!atvi_lang_free_name(e, st->name->text, st->at) || same_name(e, st)) return false;
  atvi_idx data = data_of(e, st, loop);
  for (atvi_idx k = 0; data >= 0 && k < loop->total; k++) {
    atvi_lang_observe *o = &e->lang->observe[e->lang->n_observe];
    atvi_lang_loop_at(e, loop, k);
    *o = (atvi_lang_observe){.data = data, .place = st->at};
    o->name = atvi_lang_element_name(e, st->name->text, loop->n_dim, loop->range, k);
    if (!o->name || (!st->dist.n_term && !atvi_lang_dist(e, st, false, &o->dist)) ||
        !limits(e, st, loop->vars, o) || !column_of(e, st, loop, e->lang->data[data].csv, k, &o->column) ||
        !(st->dist.n_term ? atvi_lang_terms(e, st, loop->vars, o) : distributed(e, st, loop, o)) ||
        !check_column(e, o) || twice(e, st, o, k))
      return false;
    e->lang->n_observe++;
  }
  return data >= 0;
}

bool atvi_lang_elab_observe(elab *e) {
  atvi_idx n = 0;
  elab_loop loop;
  if (!one_sort(e)) return false;
  for (int pass = 0; pass < 2; pass++) {
    for (atvi_idx i = 0; i < e->file->n; i++) {
      const ast_stmt *st = &e->file->stmt[i];
      if (st->kind != KW_OBSERVE) continue;
      if (!atvi_lang_loop(e, NULL, st->n_dim, st->dim, false, &loop)) return false;
      if (pass == 1 && !observe(e, st, &loop)) return false;
      n += loop.total;
      if (n > ELAB_MAX_ELEMENTS)
        return atvi_lang_error(e->s, st->at, "choose smaller index sets", "too many observed columns"), false;
    }
    if (pass == 0 && !(e->lang->observe = atvi_lang_take(e->s, n, sizeof *e->lang->observe))) return false;
    if (pass == 0 && !e->used && !(e->used = atvi_lang_take(e->s, n, sizeof *e->used))) return false;
    n = 0;
  }
  return true;
}
