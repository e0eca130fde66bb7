/* SPDX-License-Identifier: MIT */
/* Elements whose index is a column of the data or a table: b[id], M[id, 2], beta[period].
 *
 * The values that such an index takes are known when model and data are read, and are looked at then, one by
 * one: each must be a whole number of the index set, or, in a column, a label of it. Labels become their
 * positions. */
#include "lang/elab.h"
#include <math.h>
#include <string.h>

enum {
  MOST_LOOKS = 10000
}; /* lets that use others twice, and these others, must not take exponential time */

/* The column of the observation's data that a name means where it is an index; -1: none. The name of an index
 * set means a column there. */
static atvi_idx index_column(const elab *e, const elab_env *v, const ast_expr *x) {
  const elab_binding *b = NULL;
  const atvi_csv *csv =
      v->data >= 0 && v->allowed & ELAB_KIND(ATVI_IN_DATA) ? e->lang->data[v->data].csv : NULL;
  if (!csv || x->kind != EX_NAME || x->n) return -1;
  if (x->qualifier)
    return x->qualifier->symbol && x->qualifier->symbol->kind == SYM_DATA &&
                   x->qualifier->symbol->base == v->data
               ? atvi_io_csv_find(csv, x->word->text)
               : -1;
  const elab_symbol *sym = atvi_lang_find(v, x->word, &b);
  return b || (sym && sym->kind != SYM_SET) ? -1 : atvi_io_csv_find(csv, x->word->text);
}

static bool varies(const elab *e, const elab_env *v, const ast_expr *x, int *looks) {
  const elab_binding *b = NULL;
  if (!x || --*looks < 0) return false;
  for (atvi_idx k = 0; k < x->n; k++)
    if (varies(e, v, x->arg[k], looks)) return true;
  if (x->kind != EX_NAME) return false;
  if (index_column(e, v, x) >= 0) return true;
  const elab_symbol *sym = x->qualifier ? NULL : atvi_lang_find(v, x->word, &b);
  if (b) return !b->array && !atvi_graph_is_const(e->g, b->node, NULL);
  bool column = !sym || sym->kind == SYM_SET || sym->kind == SYM_BLOCK;
  if (column && atvi_lang_is_covariate(e, v, x)) return true;
  if (sym && sym->kind == SYM_LET) {
    elab_env inner = *v;
    inner.vars = NULL;
    return varies(e, &inner, sym->stmt->value, looks);
  }
  return sym && sym->kind == SYM_TABLE;
}

static bool index_varies(const elab *e, const elab_env *v, const ast_expr *x) {
  int looks = MOST_LOOKS;
  return varies(e, v, x, &looks);
}

bool atvi_lang_index_varies(const elab *e, const elab_env *v, const ast_expr *x) {
  for (atvi_idx d = 0; d < x->n; d++)
    if (index_varies(e, v, x->arg[d])) return true;
  return false;
}

/* Labels in column c become their positions in the set. */
static bool read_labels(elab *e, atvi_idx d, const ast_expr *x, const elab_symbol *set, atvi_idx c) {
  const atvi_lang_data *data = &e->lang->data[d];
  const atvi_csv *csv = data->csv;
  for (atvi_idx r = 0; r < csv->n_row; r++) {
    atvi_idx at = r * csv->n_col + c, k = 0;
    if (csv->kind[at] != ATVI_CELL_TEXT) continue;
    while (k < set->dim[0].n && strcmp(set->label[k], csv->text[at]) != 0) k++;
    if (k < set->dim[0].n && !isnan(data->value[at]) && data->value[at] != (double)(k + 1)) {
      atvi_lang_error(e->s, x->at, "use one index set for both arrays",
                      "the labels of column '%.60s' belong to two index sets", csv->name[c]);
      return false;
    }
    if (k < set->dim[0].n) {
      ((double *)data->value)[at] = (double)(k + 1); /* the elaboration's own */
      continue;
    }
    ast_guess g = {.text = csv->text[at]};
    for (k = 0; k < set->dim[0].n; k++) atvi_lang_guess(&g, set->label[k]);
    const char *hint = g.best ? atvi_pool_printf(e->s->pool, "did you mean '%s'?", g.best)
                              : atvi_pool_printf(e->s->pool, "line %d of the model says what %s can be",
                                                 set->at.line, set->word->text);
    atvi_lang_data_error(e->s, csv, r, c, x->at, hint, "'%.60s' is not a label of '%.60s'", csv->text[at],
                         set->word->text);
    return false;
  }
  return true;
}

/* The lowest input of a kind that x uses, and whether there are others of the kind; -1: none. */
static atvi_idx only_input(elab *e, atvi_node x, int kind, atvi_idx most, bool *others) {
  unsigned char *seen = atvi_lang_take(e->s, x + 1, 1);
  atvi_idx found = -1;
  *others = false;
  if (!seen) return -1;
  seen[x] = 1;
  for (atvi_node i = x; i >= 0; i--) {
    if (!seen[i]) continue;
    atvi_node_info s = atvi_graph_get(e->g, i);
    for (int k = 0; k < s.n_arg; k++) seen[s.arg[k]] = 1;
    if (s.op != ATVI_OP_INPUT || s.index2 != kind || s.index >= most) continue;
    *others = *others || found >= 0;
    found = found < 0 || s.index < found ? s.index : found;
  }
  return found;
}

static const char *outside(const elab_range *r, double value) {
  if (value != floor(value)) return "is not a whole number";
  return value < (double)r->lo || value > (double)(r->lo + r->n - 1) ? "is outside" : NULL;
}

static bool check_column_index(elab *e, const elab_index *i) {
  const atvi_lang_data *data = &e->lang->data[i->data];
  const elab_range *r = &i->array->dim[i->dim];
  const elab_symbol *sym = i->array;
  const ast_expr *x = i->use;
  bool others;
  atvi_idx c = only_input(e, i->index, ATVI_IN_DATA, data->n_col, &others);
  for (atvi_idx row = 0; c >= 0 && row < data->n_row; row++) {
    const double *in[ATVI_IN_DATA + 1] = {[ATVI_IN_DATA] = data->value + row * data->n_col};
    double value;
    atvi_idx at = row * data->n_col + c;
    if (data->csv->kind[at] == ATVI_CELL_TEXT && isnan(data->value[at])) {
      atvi_lang_data_error(
          e->s, data->csv, row, c, x->at, "labels belong to an index set: index place = north, south",
          "'%.60s' cannot be an index of '%.60s': it is not a number", data->csv->text[at], sym->word->text);
      return false;
    }
    if (atvi_graph_value(e->s->ctx, e->g, i->index, in, &value) != ATVI_OK)
      return atvi_lang_nomem(e->s), false;
    if (isnan(value)) continue; /* missing: an error where an observation needs it */
    const char *wrong = outside(r, value);
    if (!wrong) continue;
    atvi_lang_data_error(
        e->s, data->csv, row, c, x->at, "every value of the column must be in the array's index set",
        "index %g of '%.60s' %s %td..%td", value, sym->word->text, wrong, r->lo, r->lo + r->n - 1);
    return false;
  }
  return e->s->status == ATVI_OK;
}

static bool check_table_index(elab *e, const elab_index *i) {
  const elab_range *r = &i->array->dim[i->dim];
  const elab_symbol *sym = i->array;
  const ast_expr *x = i->use;
  bool others;
  atvi_idx k = only_input(e, i->index, ATVI_IN_TABLE, 2 * e->lang->n_table, &others);
  if (k < 0) return false;
  const atvi_lang_table *table = &e->lang->table[k / 2];
  bool whole = table->v && table->kind != ATVI_TABLE_LINEAR;
  if (others || !whole) {
    atvi_lang_error(e->s, x->at, "a table of whole numbers is written: table period step = [0: 1, 10: 2]",
                    whole ? "an index can use one table, not several"
                          : "the table '%.60s' cannot be an index: its values are not whole numbers",
                    table->name);
    return false;
  }
  double *tab = atvi_lang_take(e->s, k + 1, sizeof *tab);
  for (atvi_idx j = 0; tab && j < table->n; j++) {
    const double *in[ATVI_IN_TABLE + 1] = {[ATVI_IN_TABLE] = tab};
    double value;
    tab[k] = table->v[j];
    if (atvi_graph_value(e->s->ctx, e->g, i->index, in, &value) != ATVI_OK)
      return atvi_lang_nomem(e->s), false;
    const char *wrong = isnan(value) ? "is not a whole number" : outside(r, value);
    if (!wrong) continue;
    atvi_lang_error(
        e->s, x->at, atvi_pool_printf(e->s->pool, "it is value %td of the table '%.60s'", j + 1, table->name),
        "index %g of '%.60s' %s %td..%td", value, sym->word->text, wrong, r->lo, r->lo + r->n - 1);
    return false;
  }
  return tab != NULL;
}

static bool check_index(elab *e, const elab_index *i) {
  const elab_symbol *set = i->array->dim[i->dim].set;
  if (i->column >= 0 && set && set->label && !read_labels(e, i->data, i->use, set, i->column)) return false;
  return atvi_graph_kinds(e->g, i->index) & ELAB_KIND(ATVI_IN_DATA) ? check_column_index(e, i)
                                                                    : check_table_index(e, i);
}

static bool is_of_unit(const elab *e, const elab_index *i) {
  return atvi_graph_kinds(e->g, i->index) & ELAB_KIND(ATVI_IN_PARAM);
}

bool atvi_lang_check_indices(elab *e) {
  for (atvi_idx k = 0; k < e->index.n; k++)
    if (!is_of_unit(e, &e->index.of[k]) && !check_index(e, &e->index.of[k])) return false;
  return true;
}

bool atvi_lang_check_unit_indices(elab *e, const double *covariate) {
  atvi_idx n = e->lang->n_param;
  double *x = e->index.n ? atvi_lang_take(e->s, n + e->covariate.n, sizeof *x) : NULL;
  if (e->index.n && !x) return false;
  for (atvi_idx k = 0; x && k < e->covariate.n; k++) x[n + k] = covariate[k];
  for (atvi_idx k = 0; k < e->index.n; k++) {
    const elab_index *i = &e->index.of[k];
    const elab_range *r = &i->array->dim[i->dim];
    const double *in[ATVI_IN_PARAM + 1] = {[ATVI_IN_PARAM] = x};
    const atvi_csv *csv;
    atvi_idx row, column;
    double value;
    bool others;
    if (!is_of_unit(e, i)) continue;
    if (atvi_graph_value(e->s->ctx, e->g, i->index, in, &value) != ATVI_OK)
      return atvi_lang_nomem(e->s), false;
    const char *wrong = outside(r, value);
    atvi_idx first = only_input(e, i->index, ATVI_IN_PARAM, n + e->covariate.n, &others);
    if (!wrong || first < n || !atvi_lang_covariate_cell(e, first - n, &csv, &row, &column)) continue;
    atvi_lang_data_error(
        e->s, csv, row, column, i->use->at, "every value of the column must be in the array's index set",
        "index %g of '%.60s' %s %td..%td", value, i->array->word->text, wrong, r->lo, r->lo + r->n - 1);
    return false;
  }
  return e->s->status == ATVI_OK;
}

/* Looks at the values of an index that is new. */
static atvi_node add_index(elab *e, elab_index i) {
  for (atvi_idx k = 0; k < e->index.n; k++) {
    const elab_index *seen = &e->index.of[k];
    if (seen->index == i.index && seen->array == i.array && seen->dim == i.dim && seen->data == i.data)
      return i.index;
  }
  if (!is_of_unit(e, &i) && !check_index(e, &i)) return ATVI_NODE_NONE;
  if (!ATVI_PUSH(e->s->pool, e->index.of, e->index.n, e->index.cap))
    return atvi_lang_nomem(e->s), ATVI_NODE_NONE;
  e->index.of[e->index.n++] = i;
  return i.index;
}

atvi_node atvi_lang_set_column(elab *e, const elab_env *v, const ast_expr *x, const elab_symbol *set) {
  atvi_idx c = index_column(e, v, x);
  if (c < 0) return ATVI_NODE_NONE;
  return add_index(e, (elab_index){.index = atvi_graph_input(e->g, ATVI_IN_DATA, c),
                                   .use = x,
                                   .array = set,
                                   .data = v->data,
                                   .column = c});
}

/* The index x of dimension d as a node, its values checked. */
static atvi_node index_node(elab *e, const elab_env *v, const ast_expr *x, const elab_symbol *sym, int d) {
  const uint32_t unit = e->in.each ? ELAB_KIND(ATVI_IN_PARAM) : 0;
  elab_env inner = *v;
  inner.allowed = v->allowed & (ELAB_KIND(ATVI_IN_DATA) | ELAB_KIND(ATVI_IN_TABLE) | unit);
  inner.where = "an index";
  inner.list = NULL;
  elab_index i = {.use = x, .array = sym, .dim = d, .data = v->data, .column = index_column(e, v, x)};
  i.index = i.column >= 0 ? atvi_graph_input(e->g, ATVI_IN_DATA, i.column) : atvi_lang_eval(e, &inner, x);
  const elab_symbol *set = i.column >= 0 && !x->qualifier ? atvi_lang_symbol(e, x->word, SYM_SET) : NULL;
  if (i.index == ATVI_NODE_NONE ||
      (set && set != sym->dim[d].set && atvi_lang_set_column(e, v, x, set) == ATVI_NODE_NONE))
    return ATVI_NODE_NONE;
  uint32_t kinds = atvi_graph_kinds(e->g, i.index) & ~ELAB_KIND(ATVI_IN_TIME); /* that of a linear table */
  bool others;
  if (kinds & (kinds - 1)) {
    atvi_lang_error(e->s, x->at, "use two indices",
                    "an index is made of columns of one file or of a table, not of both");
    return ATVI_NODE_NONE;
  }
  if (is_of_unit(e, &i) && only_input(e, i.index, ATVI_IN_PARAM, e->lang->n_param, &others) >= 0) {
    atvi_lang_error(e->s, x->at, "only numbers, constants and columns can be used here",
                    "an index cannot use a parameter");
    return ATVI_NODE_NONE;
  }
  return add_index(e, i);
}

/* Whether x[n] are parameters, one after the other. */
static bool are_parameters(const elab *e, atvi_idx n, const atvi_node *x) {
  const int32_t first = atvi_graph_get(e->g, x[0]).index;
  for (atvi_idx k = 0; k < n; k++) {
    const atvi_node_info s = atvi_graph_get(e->g, x[k]);
    if (s.op != ATVI_OP_INPUT || s.index2 != ATVI_IN_PARAM || s.index != first + k) return false;
  }
  return true;
}

/* One of x[n] by comparing: for elements that depend on more than parameters. */
static atvi_node compare(elab *e, atvi_idx n, const atvi_node *x, atvi_idx first, atvi_node index) {
  if (n == 1) return x[0];
  atvi_node below =
      atvi_graph_op2(e->g, ATVI_OP_LT, index, atvi_graph_const(e->g, (double)(first + n / 2) - 0.5));
  return atvi_graph_select(e->g, below, compare(e, n / 2, x, first, index),
                           compare(e, n - n / 2, x + n / 2, first + n / 2, index));
}

atvi_node atvi_lang_pick(elab *e, const elab_env *v, const ast_expr *x, elab_symbol *sym) {
  atvi_idx at[AST_MAX_DIM] = {0}, n = 1;
  bool moves[AST_MAX_DIM] = {0};
  atvi_node index = atvi_graph_const(e->g, 0);
  if (x->n != sym->n_dim) return atvi_lang_offset(e, sym, (int)x->n, at, x->at), ATVI_NODE_NONE;
  for (int d = 0; d < sym->n_dim; d++) {
    const elab_range *r = &sym->dim[d];
    moves[d] = index_varies(e, v, x->arg[d]);
    at[d] = r->lo;
    if (!moves[d]) {
      if (!atvi_lang_whole(e, v->vars, x->arg[d], "an index", &at[d])) return ATVI_NODE_NONE;
      continue;
    }
    atvi_node i = index_node(e, v, x->arg[d], sym, d);
    if (i == ATVI_NODE_NONE) return i;
    i = atvi_graph_op2(e->g, ATVI_OP_SUB, i, atvi_graph_const(e->g, (double)r->lo));
    index = atvi_graph_op2(e->g, ATVI_OP_ADD,
                           atvi_graph_op2(e->g, ATVI_OP_MUL, index, atvi_graph_const(e->g, (double)r->n)), i);
    n *= r->n;
  }
  atvi_node *item = atvi_lang_take(e->s, n, sizeof *item);
  /* What depends on numbers of a unit alone is done once per point and unit, where only parameters stand one
   * after the other. */
  uint32_t kinds = 0, by_number = atvi_graph_kinds(e->g, index) & ELAB_KIND(ATVI_IN_PARAM);
  e->effort.nodes += n;
  for (atvi_idx k = 0; item && k < n; k++) {
    atvi_idx rest = k;
    for (int d = sym->n_dim - 1; d >= 0; d--)
      if (moves[d]) {
        at[d] = sym->dim[d].lo + rest % sym->dim[d].n;
        rest /= sym->dim[d].n;
      }
    atvi_idx offset = atvi_lang_offset(e, sym, sym->n_dim, at, x->at);
    item[k] = offset < 0 ? ATVI_NODE_NONE : atvi_lang_at_offset(e, v, x, sym, offset);
    if (item[k] == ATVI_NODE_NONE) return ATVI_NODE_NONE;
    kinds |= atvi_graph_kinds(e->g, item[k]);
  }
  if (!item) return ATVI_NODE_NONE;
  const bool loads = by_number ? are_parameters(e, n, item) : !(kinds & ~ELAB_KIND(ATVI_IN_PARAM));
  return loads ? atvi_graph_pick(e->g, n, item, index) : compare(e, n, item, 0, index);
}
