/* SPDX-License-Identifier: MIT */
/* Expressions to nodes: names, elements, operators. */
#include "lang/elab.h"
#include <math.h>
#include <string.h>

bool atvi_lang_constant(const elab *e, atvi_node x, double *value) {
  return x != ATVI_NODE_NONE && atvi_graph_is_const(e->g, x, value);
}

bool atvi_lang_number(elab *e, const elab_binding *vars, const ast_expr *x, const char *where,
                      double *value) {
  elab_env v = {.vars = vars, .where = where, .data = -1};
  atvi_node n = atvi_lang_eval(e, &v, x);
  if (atvi_lang_constant(e, n, value) && !isnan(*value)) return true;
  if (n == ATVI_NODE_NONE) {
    if (e->s->status == ATVI_OK) atvi_lang_nomem(e->s);
  } else
    atvi_lang_error(e->s, x->at, "use numbers and constants", "%s must be a number", where);
  return false;
}

bool atvi_lang_whole(elab *e, const elab_binding *vars, const ast_expr *x, const char *where,
                     atvi_idx *value) {
  double real;
  if (!atvi_lang_number(e, vars, x, where, &real)) return false;
  if (real != floor(real) || fabs(real) > 1e9) {
    atvi_lang_error(e->s, x->at, "write a whole number, or floor() around it",
                    "%s must be a whole number, not %g", where, real);
    return false;
  }
  *value = (atvi_idx)real;
  return true;
}

elab_symbol *atvi_lang_find(const elab_env *v, ast_word *word, const elab_binding **binding) {
  for (const elab_binding *b = v->vars; b; b = b->next)
    if (b->word == word) {
      *binding = b;
      return b->array;
    }
  *binding = NULL;
  return word->symbol;
}

/* Functions as other languages call them. */
static const char *other_name(const char *text) {
  static const struct {
    const char *text, *hint;
  } NAMES[] = {
      {"ln", "the natural logarithm is log"},
      {"ifelse", "write: if condition then value else other value"},
      {"iif", "write: if condition then value else other value"},
      {"where", "write: if condition then value else other value"},
      {"log2", "write log(x)/log(2)"},
      {"fabs", "the absolute value is abs"},
      {"power", "a power is written with ^: x^2"},
      {"mod", "the remainder of a by b is a - b*floor(a/b)"},
      {"fmod", "the remainder of a by b is a - b*floor(a/b)"},
      {"ceil", "write -floor(-x)"},
      {"ceiling", "write -floor(-x)"},
      {"round", "write floor(x + 0.5)"},
      {"expit", "its name is invlogit"},
      {"sigmoid", "its name is invlogit"},
      {"logsumexp", "its name is log_sum_exp"},
      {"pnorm", "its name is Phi"},
      {"arcsin", "its name is asin"},
      {"arccos", "its name is acos"},
      {"arctan", "its name is atan"},
  };
  for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++)
    if (strcmp(text, NAMES[i].text) == 0) return NAMES[i].hint;
  return NULL;
}

bool atvi_lang_unknown(elab *e, const ast_expr *x, bool function, const atvi_csv *csv) {
  if (!function && atvi_lang_belongs(e, x->word, x->at)) return false;
  ast_guess g = {.text = x->word->text};
  for (atvi_idx i = 0; i < e->n_symbol; i++)
    if ((e->symbol[i]->kind == SYM_FUNCTION) == function) atvi_lang_guess(&g, e->symbol[i]->word->text);
  for (const elab_each *each = function ? NULL : e->in.each; each; each = each->outer)
    for (atvi_idx c = 0; each->rows.csv && c < each->rows.csv->n_col; c++)
      atvi_lang_guess(&g, each->rows.csv->name[c]);
  const ast_builtin *b;
  for (int k = 0; function && (b = atvi_lang_builtin(k)); k++) atvi_lang_guess(&g, b->name);
  const char *hint = function ? "functions of your own are defined with: function f(x) = ..."
                     : csv    ? atvi_lang_columns(e, csv)
                              : "define it with param, state, const or let";
  for (atvi_idx c = 0; csv && c < csv->n_col; c++) atvi_lang_guess(&g, csv->name[c]);
  for (atvi_idx d = 0; !function && d < e->lang->n_data; d++)
    if (e->lang->data[d].csv && atvi_lang_has_column(e->lang->data[d].csv, x))
      hint =
          "a column of that name is in the data, but columns can be used only in the arguments of 'observe'";
  const char *other = function ? other_name(x->word->text) : NULL;
  if (g.best) hint = atvi_pool_printf(e->s->pool, "did you mean '%s'?", g.best);
  if (other) hint = other;
  atvi_lang_error(e->s, x->at, hint, "unknown %s '%.60s'", function ? "function" : "name", x->word->text);
  return false;
}

/* Complains if what `x` stands for depends on something that has no place here. */
static bool permit(elab *e, const elab_env *v, const ast_expr *x, uint32_t kinds, bool direct) {
  static const struct {
    int kind;
    const char *what, *hint;
  } RULES[] = {
      {ATVI_IN_DELAY, "a delayed state",
       "delay() belongs in differential equations; make what it should show a state of its own"},
      {ATVI_IN_TRAJECTORY, "of a whole run",
       "at(), maximum(), time_of_maximum() and integral() belong in 'derived'"},
      {ATVI_IN_PREV, "increase()", "increase() belongs in the arguments of 'observe'"},
      {ATVI_IN_DATA, "columns of the data", "columns can be used only in the arguments of 'observe'"},
      {ATVI_IN_STATE, "a state", NULL},
      {ATVI_IN_TABLE, "a table", NULL},
      {ATVI_IN_TIME, "the time t", NULL},
      {ATVI_IN_PARAM, "a parameter", NULL},
  };
  uint32_t bad = kinds & ~v->allowed;
  for (size_t i = 0; bad && i < sizeof RULES / sizeof *RULES; i++) {
    if (!(bad & ELAB_KIND(RULES[i].kind))) continue;
    const char *text = x->kind == EX_TIME ? "t" : x->word ? x->word->text : "this";
    const char *hint = RULES[i].hint;
    if (!hint)
      hint = v->allowed & ELAB_KIND(ATVI_IN_STATE)
                 ? "only states, parameters, constants and t can be used here"
             : v->allowed ? "only parameters and constants can be used here"
                          : "only constants can be used here";
    if (direct)
      atvi_lang_error(e->s, x->at, hint, "%s cannot use '%.60s': it is %s", v->where, text, RULES[i].what);
    else
      atvi_lang_error(e->s, x->at, hint, "%s cannot use '%.60s': it depends on %s", v->where, text,
                      RULES[i].what);
    return false;
  }
  return true;
}

static bool circle(elab *e, const ast_expr *use, const elab_symbol *sym) {
  const char *path = sym->word->text;
  int shown = 0;
  for (const elab_active *a = e->effort.active; a && path; a = a->outer) {
    if (++shown <= 6) path = atvi_pool_printf(e->s->pool, "%.60s -> %.400s", a->symbol->word->text, path);
    if (a->symbol == sym) break;
  }
  atvi_lang_error(e->s, use->at, "one of them must be defined without the others", "circular definition: %s",
                  path ? path : "");
  return false;
}

/* `inf` itself, where it is meant; a constant may be copied from another. */
static bool says_inf(const ast_expr *x) {
  switch (x->kind) {
  case EX_NUMBER: return isinf(x->number);
  case EX_NAME: return true;
  case EX_NEG: return says_inf(x->arg[0]);
  case EX_IF: return says_inf(x->arg[1]) || says_inf(x->arg[2]);
  default: return false;
  }
}

static bool check_constant(elab *e, const elab_symbol *sym, atvi_idx k, atvi_node x) {
  double value;
  if (!atvi_lang_constant(e, x, &value)) {
    atvi_lang_error(e->s, sym->at, "use let for what is not constant", "'%.60s' is not a constant",
                    sym->word->text);
    return false;
  }
  atvi_idx at[AST_MAX_DIM];
  atvi_lang_position(sym->n_dim, sym->dim, k, at);
  const ast_expr *item = sym->stmt->value;
  for (int d = 0; d < sym->n_dim && item->kind == EX_LIST; d++) item = item->arg[at[d]];
  if (isfinite(value) || (isinf(value) && says_inf(item))) return true;
  const char *name = atvi_lang_element_name(e, sym->word->text, sym->n_dim, sym->dim, k);
  atvi_lang_error(e->s, sym->at,
                  isnan(value) ? "look for the logarithm or root of a negative number, or 0/0"
                               : "look for a division by 0; an infinity that is meant is written inf or -inf",
                  "the constant '%.60s' is %s", name ? name : "",
                  isnan(value) ? "not a number (NaN)"
                  : value > 0  ? "infinite (inf)"
                               : "infinite (-inf)");
  return false;
}

/* Where the elements of a symbol stand: what they may use does not depend on who asks. */
static elab_env inside(const elab_env *outer, const elab_symbol *sym, const atvi_idx *at) {
  elab_env v = {.allowed = ELAB_ALL,
                .where = "this",
                .data = outer->data,
                .rows = outer->rows,
                .prev = outer->prev,
                .level = sym->level + 1};
  if (sym->kind == SYM_CONST)
    v = (elab_env){.allowed = 0, .where = "a constant", .data = -1, .list = sym, .at = at};
  if (sym->kind == SYM_DERIVED)
    v = (elab_env){.allowed = ELAB_KIND(ATVI_IN_PARAM) | ELAB_KIND(ATVI_IN_TRAJECTORY),
                   .where = "a derived quantity",
                   .data = -1,
                   .level = sym->level + 1};
  if (sym->kind == SYM_TRACK) {
    v.data = -1;
    v.rows = NULL;
    v.where = "a tracked quantity";
    v.allowed = ELAB_KIND(ATVI_IN_PARAM) | ELAB_KIND(ATVI_IN_STATE) | ELAB_KIND(ATVI_IN_TIME) |
                ELAB_KIND(ATVI_IN_TABLE);
    if (v.prev) v.allowed |= ELAB_KIND(ATVI_IN_PREV);
  }
  return v;
}

static atvi_node compute(elab *e, const elab_env *outer, elab_symbol *sym, atvi_idx k) {
  const ast_stmt *st = sym->stmt;
  elab_binding var[AST_MAX_DIM];
  atvi_idx at[AST_MAX_DIM];
  atvi_lang_position(sym->n_dim, sym->dim, k, at);
  elab_env v = inside(outer, sym, at);
  for (int d = 0; d < sym->n_dim; d++)
    if (st->dim[d].var) {
      var[d] = (elab_binding){st->dim[d].var, atvi_graph_const(e->g, (double)(sym->dim[d].lo + at[d])), NULL,
                              v.vars, atvi_lang_labelled(&sym->dim[d])};
      v.vars = &var[d];
    }
  elab_active active = {sym, e->effort.active};
  e->effort.active = &active;
  atvi_node x = atvi_lang_eval(e, &v, st->value);
  e->effort.active = active.outer;
  if (sym->kind == SYM_CONST && x != ATVI_NODE_NONE && !check_constant(e, sym, k, x)) return ATVI_NODE_NONE;
  return x;
}

atvi_node atvi_lang_element(elab *e, const elab_env *v, const ast_expr *use, elab_symbol *sym, atvi_idx k) {
  bool prev = v->prev && sym->kind != SYM_CONST;
  if (sym->stmt->file.name && sym->memo[k].state == MEMO_NONE && !atvi_lang_const_file(e, sym))
    return ATVI_NODE_NONE;
  elab_memo *m = &sym->memo[prev ? sym->total + k : k];
  uint32_t bound = ELAB_KIND(ATVI_IN_DATA);
  bool valid = m->state == MEMO_DONE && (m->data == v->data || !(atvi_graph_kinds(e->g, m->node) & bound));
  if (!valid) {
    if (m->state == MEMO_BUSY) return circle(e, use, sym), ATVI_NODE_NONE;
    m->state = MEMO_BUSY;
    atvi_node x = compute(e, v, sym, k);
    if (x == ATVI_NODE_NONE) return ATVI_NODE_NONE; /* for good: the first error ends the work */
    *m = (elab_memo){x, MEMO_DONE, (int16_t)v->data};
  }
  return permit(e, v, use, atvi_graph_kinds(e->g, m->node), false) ? m->node : ATVI_NODE_NONE;
}

/* A model without states has the times of its data. */
static bool has_time(const elab *e, const elab_env *v) {
  bool any = e->lang->kind != ATVI_MODEL_STATIC;
  for (atvi_idx d = 0; d < e->lang->n_data; d++)
    any = any || ((v->data < 0 || v->data == d) && e->data_stmt[d]->column.time);
  return any;
}

static atvi_node table_node(elab *e, const elab_env *v, const ast_expr *x, elab_symbol *sym) {
  if (!permit(e, v, x, ELAB_KIND(ATVI_IN_TABLE), true)) return ATVI_NODE_NONE;
  if (!has_time(e, v)) {
    atvi_lang_error(e->s, x->at,
                    "tables need states, or data with a time column: data \"cases.csv\" time day",
                    "the table '%.60s' has no time to follow here", sym->word->text);
    return ATVI_NODE_NONE;
  }
  atvi_node y = atvi_lang_table_node(e, sym, x);
  uint32_t kinds = y == ATVI_NODE_NONE ? 0 : atvi_graph_kinds(e->g, y) & ELAB_KIND(ATVI_IN_PARAM);
  return permit(e, v, x, kinds, false) ? y : ATVI_NODE_NONE;
}

/* A label, or an index that runs over labels, belongs to its own set; i - 1 and numbers go anywhere. */
static bool same_set(elab *e, const elab_env *v, const ast_expr *index, const elab_symbol *sym, int d) {
  if (index->kind != EX_NAME || index->n || index->qualifier) return true;
  const elab_binding *b = NULL;
  const elab_symbol *found = atvi_lang_find(v, index->word, &b), *set = b ? b->set : NULL;
  if (!b && found && found->kind == SYM_LABEL) set = found->stmt->name->symbol;
  if (!set || !sym->dim[d].set || sym->dim[d].set == set) return true;
  atvi_lang_error(e->s, index->at, "indices go in the order in which the array names its sets",
                  "wrong shape: '%.60s' has %.60s here, but '%.60s' belongs to %.60s", sym->word->text,
                  sym->dim[d].set->word->text, index->word->text, set->word->text);
  return false;
}

/* Number of the element that x names. */
atvi_idx atvi_lang_element_of(elab *e, const elab_env *v, const ast_expr *x, const elab_symbol *sym) {
  atvi_idx at[AST_MAX_DIM];
  if (x->n == 0 && sym->n_dim > 0 && v->list && v->list->n_dim == sym->n_dim) {
    for (int d = 0; d < sym->n_dim; d++) {
      at[d] = sym->dim[d].lo + v->at[d];
      if (sym->dim[d].n != v->list->dim[d].n) {
        atvi_lang_error(e->s, x->at, "write the indices: const a[i in age] = b[i]",
                        "wrong shape: '%.60s' and '%.60s' have different sizes", sym->word->text,
                        v->list->word->text);
        return -1;
      }
    }
    return atvi_lang_offset(e, sym, sym->n_dim, at, x->at);
  }
  for (atvi_idx d = 0; d < x->n; d++)
    if (atvi_lang_column_as_index(e, v, x->arg[d]) ||
        !atvi_lang_whole(e, v->vars, x->arg[d], "an index", &at[d]) ||
        (d < sym->n_dim && !same_set(e, v, x->arg[d], sym, (int)d)))
      return -1;
  return atvi_lang_offset(e, sym, (int)x->n, at, x->at);
}

atvi_node atvi_lang_at_offset(elab *e, const elab_env *v, const ast_expr *x, elab_symbol *sym, atvi_idx k) {
  switch (sym->kind) {
  case SYM_PARAM:
    if (!permit(e, v, x, ELAB_KIND(ATVI_IN_PARAM), true)) return ATVI_NODE_NONE;
    return atvi_graph_input(e->g, ATVI_IN_PARAM, sym->base + k);
  case SYM_STATE:
    if (!permit(e, v, x, ELAB_KIND(ATVI_IN_STATE), true)) return ATVI_NODE_NONE;
    return atvi_graph_input(e->g, v->prev ? ATVI_IN_PREV : ATVI_IN_STATE, sym->base + k);
  case SYM_TABLE: return table_node(e, v, x, sym);
  default: return atvi_lang_element(e, v, x, sym, k);
  }
}

static atvi_node symbol_node(elab *e, const elab_env *v, const ast_expr *x, elab_symbol *sym) {
  const char *text = sym->word->text;
  atvi_node column;
  switch (sym->kind) {
  case SYM_SET:
    column = atvi_lang_set_column(e, v, x, sym);
    if (column != ATVI_NODE_NONE || e->s->status != ATVI_OK) return column;
    atvi_lang_error(e->s, x->at, "name an element of it: b[i in age] ~ normal(m[i], 1), sum(i in age: X[i])",
                    "'%.60s' is an index set and has no value", text);
    return ATVI_NODE_NONE;
  case SYM_FUNCTION:
    atvi_lang_error(e->s, x->at, "its arguments go in brackets after it", "'%.60s' is a function", text);
    return ATVI_NODE_NONE;
  case SYM_BLOCK:
    atvi_lang_error(e->s, x->at, "columns of its file are numbers inside of it",
                    "'%.60s' is a block of units and has no value", text);
    return ATVI_NODE_NONE;
  case SYM_DATA:
    atvi_lang_error(e->s, x->at, "a column of it is written name.column", "'%.60s' is a data set", text);
    return ATVI_NODE_NONE;
  case SYM_LABEL:
    if (x->n == 0) return atvi_graph_const(e->g, (double)sym->base);
    atvi_lang_error(e->s, x->at, "arrays are indexed by labels, not the other way round",
                    "'%.60s' is a label and has no elements", text);
    return ATVI_NODE_NONE;
  default: break;
  }
  if (!v->allowed && sym->kind != SYM_CONST) {
    atvi_lang_error(e->s, x->at, "only numbers and constants can be used here",
                    "%s cannot use '%.60s': it is %s", v->where, text, atvi_lang_kind_name(sym->kind));
    return ATVI_NODE_NONE;
  }
  if (!atvi_lang_shape(e, sym)) return ATVI_NODE_NONE;
  if (atvi_lang_index_varies(e, v, x)) return atvi_lang_pick(e, v, x, sym);
  atvi_idx k = atvi_lang_element_of(e, v, x, sym);
  return k < 0 ? ATVI_NODE_NONE : atvi_lang_at_offset(e, v, x, sym, k);
}

static atvi_node name_node(elab *e, const elab_env *v, const ast_expr *x) {
  const elab_binding *b = NULL;
  elab_symbol *sym = x->qualifier ? NULL : atvi_lang_find(v, x->word, &b);
  if (b && !b->array) {
    if (x->n == 0) return b->node;
    atvi_lang_error(e->s, x->at, "write it without an index",
                    "wrong shape: '%.60s' is a single value here and has no elements", x->word->text);
    return ATVI_NODE_NONE;
  }
  if (sym && v->level && sym->level >= v->level) return atvi_lang_belongs(e, x->word, x->at), ATVI_NODE_NONE;
  bool found = false;
  if (sym &&
      (sym->kind == SYM_SET || sym->kind == SYM_BLOCK)) { /* a column of the units' file may be meant */
    atvi_node position = v->rows ? atvi_lang_column(e, v, x, &found) : ATVI_NODE_NONE;
    if (!found) position = atvi_lang_covariate(e, v, x, &found);
    if (found) return position;
  }
  if (sym) return symbol_node(e, v, x, sym);
  bool missing = v->data >= 0 && !e->lang->data[v->data].csv; /* a file whose columns are not known */
  atvi_node column = missing ? atvi_lang_covariate(e, v, x, &found) : ATVI_NODE_NONE;
  if (!found) column = atvi_lang_column(e, v, x, &found);
  if (!found) column = atvi_lang_covariate(e, v, x, &found);
  if (!found) atvi_lang_unknown(e, x, false, v->rows ? v->rows->csv : NULL);
  return found ? column : ATVI_NODE_NONE;
}

static atvi_node list_node(elab *e, const elab_env *v, const ast_expr *x) {
  if (!v->list || v->list->n_dim == 0) {
    atvi_lang_error(e->s, x->at, "for example: const f[age] = [1, 2, 3]",
                    v->list ? "wrong shape: a list needs a const with an index"
                            : "a list can be used only in a 'const' with an index");
    return ATVI_NODE_NONE;
  }
  const ast_expr *item = x;
  for (int d = 0; d < v->list->n_dim; d++) {
    atvi_idx want = v->list->dim[d].n;
    if (item->kind != EX_LIST) {
      atvi_lang_error(e->s, item->at, "a matrix is written by rows: [[1, 2], [3, 4]]",
                      "wrong shape: '%.60s' has %d indices, so this must be a list of %td",
                      v->list->word->text, v->list->n_dim, want);
      return ATVI_NODE_NONE;
    }
    if (item->n != want) {
      atvi_lang_error(e->s, item->at, "one value per element of the index set",
                      "wrong shape: '%.60s' needs %td values here, the list has %td", v->list->word->text,
                      want, item->n);
      return ATVI_NODE_NONE;
    }
    item = item->arg[v->at[d]];
  }
  if (item->kind == EX_LIST) {
    atvi_lang_error(e->s, item->at, "one level of brackets per index",
                    "wrong shape: lists are nested deeper than '%.60s' has indices", v->list->word->text);
    return ATVI_NODE_NONE;
  }
  return atvi_lang_eval(e, v, item);
}

static atvi_node binary_node(elab *e, const elab_env *v, const ast_expr *x) {
  atvi_node a = atvi_lang_eval(e, v, x->arg[0]);
  if (a == ATVI_NODE_NONE) return a;
  atvi_node b = atvi_lang_eval(e, v, x->arg[1]);
  if (b == ATVI_NODE_NONE) return b;
  switch (x->op) {
  case '+': return atvi_graph_op2(e->g, ATVI_OP_ADD, a, b);
  case '-': return atvi_graph_op2(e->g, ATVI_OP_SUB, a, b);
  case '*': return atvi_graph_op2(e->g, ATVI_OP_MUL, a, b);
  case '/': return atvi_graph_op2(e->g, ATVI_OP_DIV, a, b);
  case '^': return atvi_graph_op2(e->g, ATVI_OP_POW, a, b);
  case '<': return atvi_graph_op2(e->g, ATVI_OP_LT, a, b);
  case '>': return atvi_graph_op2(e->g, ATVI_OP_LT, b, a);
  case TOK_LE: return atvi_graph_op2(e->g, ATVI_OP_LE, a, b);
  case TOK_GE: return atvi_graph_op2(e->g, ATVI_OP_LE, b, a);
  case TOK_EQ: return atvi_graph_op2(e->g, ATVI_OP_EQ, a, b);
  case TOK_NE: return atvi_graph_op1(e->g, ATVI_OP_NOT, atvi_graph_op2(e->g, ATVI_OP_EQ, a, b));
  case 1000 + KW_AND: return atvi_graph_op2(e->g, ATVI_OP_AND, a, b);
  default: return atvi_graph_op2(e->g, ATVI_OP_OR, a, b);
  }
}

/* A condition known now decides which branch has to make sense. */
static atvi_node if_node(elab *e, const elab_env *v, const ast_expr *x) {
  atvi_node c = atvi_lang_eval(e, v, x->arg[0]);
  if (c == ATVI_NODE_NONE) return c;
  double known;
  if (atvi_lang_constant(e, c, &known)) return atvi_lang_eval(e, v, x->arg[known != 0 ? 1 : 2]);
  atvi_node a = atvi_lang_eval(e, v, x->arg[1]);
  if (a == ATVI_NODE_NONE) return a;
  atvi_node b = atvi_lang_eval(e, v, x->arg[2]);
  return b == ATVI_NODE_NONE ? b : atvi_graph_select(e->g, c, a, b);
}

static atvi_node time_node(elab *e, const elab_env *v, const ast_expr *x) {
  if (!permit(e, v, x, ELAB_KIND(ATVI_IN_TIME), true)) return ATVI_NODE_NONE;
  if (e->lang->kind != ATVI_MODEL_STATIC) return atvi_graph_input(e->g, ATVI_IN_TIME, 0);
  /* A column of the data may be called t. */
  const atvi_csv *csv =
      v->data >= 0 && v->allowed & ELAB_KIND(ATVI_IN_DATA) ? e->lang->data[v->data].csv : NULL;
  atvi_idx column = csv ? atvi_io_csv_find(csv, "t") : -1;
  if (column >= 0) return atvi_graph_input(e->g, ATVI_IN_DATA, column);
  atvi_lang_error(e->s, x->at, "use the name of the data's time column instead",
                  "a model without states has no time t");
  return ATVI_NODE_NONE;
}

static atvi_node dispatch(elab *e, const elab_env *v, const ast_expr *x) {
  switch (x->kind) {
  case EX_NUMBER: return atvi_graph_const(e->g, x->number);
  case EX_DATE:
    atvi_lang_error(e->s, x->at, "dates can be used in start, calendar, pulse and table",
                    "a date cannot be used in an expression");
    return ATVI_NODE_NONE;
  case EX_TIME: return time_node(e, v, x);
  case EX_NAME: return name_node(e, v, x);
  case EX_NEG: return atvi_graph_op1(e->g, ATVI_OP_NEG, atvi_lang_eval(e, v, x->arg[0]));
  case EX_NOT: return atvi_graph_op1(e->g, ATVI_OP_NOT, atvi_lang_eval(e, v, x->arg[0]));
  case EX_BINARY: return binary_node(e, v, x);
  case EX_IF: return if_node(e, v, x);
  case EX_CALL: return atvi_lang_call(e, v, x);
  case EX_REDUCE: return atvi_lang_reduce(e, v, x);
  default: return list_node(e, v, x);
  }
}

atvi_node atvi_lang_eval(elab *e, const elab_env *v, const ast_expr *x) {
  if (e->s->status != ATVI_OK) return ATVI_NODE_NONE;
  if (++e->effort.nodes > ELAB_MAX_WORK) {
    atvi_lang_error(e->s, x->at, "the sizes of index sets multiply",
                    "the model is too large when written out");
    return ATVI_NODE_NONE;
  }
  if (e->effort.depth >= ELAB_MAX_DEPTH) {
    atvi_lang_error(e->s, x->at, "break the chain of definitions, or use sum()",
                    "definitions are nested too deeply");
    return ATVI_NODE_NONE;
  }
  e->effort.depth++;
  atvi_node n = dispatch(e, v, x);
  e->effort.depth--;
  if (n == ATVI_NODE_NONE && e->s->status == ATVI_OK) atvi_lang_nomem(e->s);
  return n;
}
