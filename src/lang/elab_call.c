/* SPDX-License-Identifier: MIT */
/* Functions: built-in ones, the model's own, sum and prod, increase, convolve. */
#include "lang/elab.h"
#include <math.h>
#include <string.h>

/* convolve(x, w): the sum of w[i] times x as it was i steps ago. What x was is kept in states of its own, one
 * for each step back, which are handed on from step to step and are 0 at the start.
 *
 * In a `next` equation steps are counted back from the time that it leads to, so that w[1] meets x as it is
 * now. Where x is a let, which may itself use convolve(x, w), its expression is made at the end. */

static const uint32_t DYNAMICS =
    ELAB_KIND(ATVI_IN_PARAM) | ELAB_KIND(ATVI_IN_TIME) | ELAB_KIND(ATVI_IN_STATE) | ELAB_KIND(ATVI_IN_TABLE);

static bool mentions(const ast_expr *x) {
  if (!x) return false;
  if (x->kind == EX_CALL && strcmp(x->word->text, "convolve") == 0) return true;
  for (atvi_idx k = 0; k < x->n; k++)
    if (mentions(x->arg[k])) return true;
  return x->kind == EX_REDUCE && mentions(x->arg[0]);
}

bool atvi_lang_convolves(const ast_stmt *st) { return mentions(st->value) || mentions(st->dist.args); }

/* The weights, a whole array. */
static bool weights(elab *e, const elab_env *v, const ast_expr *x, atvi_idx *n, atvi_node **w) {
  const elab_binding *b = NULL;
  elab_symbol *sym = x->kind == EX_NAME && !x->n && !x->qualifier ? atvi_lang_find(v, x->word, &b) : NULL;
  bool array = sym && (sym->kind == SYM_CONST || sym->kind == SYM_PARAM || sym->kind == SYM_LET);
  if (array && !atvi_lang_shape(e, sym)) return false;
  if (!array || sym->n_dim != 1) {
    if (x->kind == EX_NAME && !sym && !b) return atvi_lang_unknown(e, x, false, NULL);
    atvi_lang_error(e->s, x->at, "for example: const w[1..3] = [0.2, 0.5, 0.3], and convolve(x, w)",
                    "the weights of convolve() must be an array with one index");
    return false;
  }
  *n = sym->total;
  if (!(*w = atvi_lang_take(e->s, *n, sizeof **w))) return false;
  for (atvi_idx k = 0; k < *n; k++)
    if (((*w)[k] = atvi_lang_at_offset(e, v, x, sym, k)) == ATVI_NODE_NONE) return false;
  return true;
}

/* The quantity that is looked back at. A let is not evaluated yet. */
static elab_past *past_of(elab *e, const elab_env *v, const ast_expr *x) {
  const elab_binding *b = NULL;
  elab_past past = {.use = x, .node = ATVI_NODE_NONE};
  elab_symbol *sym = x->kind == EX_NAME && !x->qualifier ? atvi_lang_find(v, x->word, &b) : NULL;
  if (sym && sym->kind == SYM_LET && !b) {
    if (!atvi_lang_shape(e, sym)) return NULL;
    past.let = sym;
    past.element = atvi_lang_element_of(e, v, x, sym);
    if (past.element < 0) return NULL;
  } else {
    elab_env now = *v;
    now.prev = false;
    now.data = -1;
    now.allowed = DYNAMICS;
    now.where = "convolve()";
    past.node = atvi_lang_eval(e, &now, x);
    if (past.node == ATVI_NODE_NONE) return NULL;
  }
  for (atvi_idx i = 0; i < e->past.n; i++)
    if (e->past.of[i]->let == past.let && e->past.of[i]->element == past.element &&
        e->past.of[i]->node == past.node)
      return e->past.of[i];
  elab_past *new = atvi_lang_take(e->s, 1, sizeof *new);
  if (!new) return NULL;
  if (!ATVI_PUSH(e->s->pool, e->past.of, e->past.n, e->past.cap)) return atvi_lang_nomem(e->s), NULL;
  *new = past;
  return e->past.of[e->past.n++] = new;
}

static atvi_idx n_declared(const elab *e) {
  atvi_idx n = 0;
  for (atvi_idx i = 0; i < e->n_symbol; i++)
    if (e->symbol[i]->kind == SYM_STATE) n += e->symbol[i]->total;
  return n;
}

/* The number of the state that is the quantity k steps ago, k >= 1; -1 after an error. */
static atvi_idx lag(elab *e, elab_past *past, atvi_idx k, atvi_place at) {
  while (past->n < k) {
    if (++e->effort.elements > ELAB_MAX_ELEMENTS) {
      atvi_lang_error(e->s, at, "use fewer weights", "too large: a model has at most %d elements in all",
                      ELAB_MAX_ELEMENTS);
      return -1;
    }
    if (!ATVI_PUSH(e->s->pool, past->state, past->n, past->cap)) return atvi_lang_nomem(e->s), -1;
    past->state[past->n++] = n_declared(e) + e->past.n_lag++;
  }
  return past->state[k - 1];
}

/* The quantity now. */
static atvi_node present(elab *e, const elab_past *past) {
  elab_env v = {.allowed = DYNAMICS, .where = "convolve()", .data = -1};
  return past->let ? atvi_lang_element(e, &v, past->use, past->let, past->element) : past->node;
}

static atvi_node convolve(elab *e, const elab_env *v, const ast_expr *x) {
  atvi_idx n = 0;
  atvi_node *w = NULL;
  if (x->n != 2) {
    atvi_lang_error(e->s, x->at, "write convolve(x, w): a quantity and the array of its weights",
                    "convolve() takes 2 arguments, not %td", x->n);
    return ATVI_NODE_NONE;
  }
  if (e->lang->kind != ATVI_MODEL_MAP || !(v->allowed & ELAB_KIND(ATVI_IN_STATE))) {
    atvi_lang_error(e->s, x->at, "it looks back over the steps of 'next' equations",
                    e->lang->kind == ATVI_MODEL_MAP
                        ? "%s cannot use convolve(): it depends on time"
                        : "there are no steps that convolve() could look back over",
                    v->where);
    return ATVI_NODE_NONE;
  }
  if (!weights(e, v, x->arg[1], &n, &w)) return ATVI_NODE_NONE;
  elab_past *past = past_of(e, v, x->arg[0]);
  if (!past) return ATVI_NODE_NONE;
  for (atvi_idx k = 0; k < n; k++) {
    atvi_idx back = v->next ? k : k + 1, state = back ? lag(e, past, back, x->at) : 0;
    if (state < 0) return ATVI_NODE_NONE;
    atvi_node then =
        back ? atvi_graph_input(e->g, v->prev ? ATVI_IN_PREV : ATVI_IN_STATE, state) : present(e, past);
    if (then == ATVI_NODE_NONE) return then;
    w[k] = atvi_graph_op2(e->g, ATVI_OP_MUL, w[k], then);
  }
  return atvi_graph_sum(e->g, n, w);
}

bool atvi_lang_lags(elab *e) {
  atvi_lang *lang = e->lang;
  if (!e->past.n) return true;
  atvi_node *now = NULL;
  atvi_idx n = 0, cap = 0;
  for (; n < e->past.n; n++) { /* making one may add others */
    if (!ATVI_PUSH(e->s->pool, now, n, cap)) return atvi_lang_nomem(e->s), false;
    if ((now[n] = present(e, e->past.of[n])) == ATVI_NODE_NONE) return false;
  }
  atvi_idx first = n_declared(e);
  atvi_lang_state *state = atvi_lang_take(e->s, first + e->past.n_lag, sizeof *state);
  if (!state) return false;
  for (atvi_idx i = 0; i < first; i++) state[i] = lang->dynamics.state[i];
  for (atvi_idx i = 0; i < n; i++)
    for (atvi_idx k = 0; k < e->past.of[i]->n; k++) {
      atvi_node from = k ? atvi_graph_input(e->g, ATVI_IN_STATE, e->past.of[i]->state[k - 1]) : now[i];
      state[e->past.of[i]->state[k]] = (atvi_lang_state){"", atvi_graph_const(e->g, 0), from, from};
    }
  lang->dynamics.state = state;
  lang->dynamics.n_state = first + e->past.n_lag;
  lang->dynamics.n_lag = e->past.n_lag;
  return true;
}

enum { MAX_ARGS = 20 };

static bool check_count(elab *e, const ast_expr *x, atvi_idx least, atvi_idx most) {
  if (x->n >= least && x->n <= most) return true;
  if (least == most)
    atvi_lang_error(e->s, x->at, "separate arguments with commas", "'%.60s' takes %td %s, not %td",
                    x->word->text, least, least == 1 ? "argument" : "arguments", x->n);
  else
    atvi_lang_error(e->s, x->at, "separate arguments with commas",
                    "'%.60s' takes at least %td arguments, not %td", x->word->text, least, x->n);
  return false;
}

static atvi_node special(elab *e, int which, atvi_node a) {
  atvi_graph *g = e->g;
  switch (which) {
  case FN_LOG10:
    return atvi_graph_op2(g, ATVI_OP_DIV, atvi_graph_op1(g, ATVI_OP_LOG, a), atvi_graph_const(g, log(10.0)));
  case FN_LOGIT:
    return atvi_graph_op2(g, ATVI_OP_SUB, atvi_graph_op1(g, ATVI_OP_LOG, a),
                          atvi_graph_op1(g, ATVI_OP_LOG1P, atvi_graph_op1(g, ATVI_OP_NEG, a)));
  default: return atvi_graph_op1(g, ATVI_OP_EXP, atvi_graph_op1(g, ATVI_OP_LOG_NDTR, a)); /* FN_PHI */
  }
}

/* log(p exp(a) + (1 - p) exp(b)) */
static atvi_node log_mix(elab *e, const elab_env *v, atvi_node p, const ast_expr *x) {
  atvi_node coef[2] = {p, atvi_graph_op2(e->g, ATVI_OP_SUB, atvi_graph_const(e->g, 1), p)}, expo[2];
  for (int k = 0; k < 2; k++)
    if ((expo[k] = atvi_lang_eval(e, v, x->arg[k + 1])) == ATVI_NODE_NONE) return ATVI_NODE_NONE;
  return atvi_graph_log_sum(e->g, coef, expo);
}

static atvi_node builtin(elab *e, const elab_env *v, const ast_expr *x) {
  const ast_builtin *b = atvi_lang_builtin(x->word->builtin);
  if (!check_count(e, x, b->min_arg, b->max_arg)) return ATVI_NODE_NONE;
  atvi_node a = atvi_lang_eval(e, v, x->arg[0]);
  if (a == ATVI_NODE_NONE) return a;
  if (b->min_arg == 1)
    return b->op >= 0 ? atvi_graph_op1(e->g, (atvi_op)b->op, a) : special(e, -1 - b->op, a);
  if (b->op == -1 - FN_LOG_MIX) return log_mix(e, v, a, x);
  atvi_op op = b->op >= 0 ? (atvi_op)b->op : b->op == -1 - FN_MIN ? ATVI_OP_MIN : ATVI_OP_MAX;
  for (atvi_idx i = 1; i < x->n && a != ATVI_NODE_NONE; i++)
    a = atvi_graph_op2(e->g, op, a, atvi_lang_eval(e, v, x->arg[i]));
  return a;
}

/* An argument that is the bare name of an array is handed over whole. */
static bool bind(elab *e, const elab_env *v, const ast_expr *arg, ast_word *word, elab_binding *b) {
  *b = (elab_binding){.word = word, .node = ATVI_NODE_NONE};
  if (arg->kind == EX_NAME && arg->n == 0 && !arg->qualifier) {
    const elab_binding *outer = NULL;
    elab_symbol *sym = atvi_lang_find(v, arg->word, &outer);
    bool array = sym && sym->kind != SYM_SET && sym->kind != SYM_LABEL && sym->kind != SYM_FUNCTION &&
                 sym->kind != SYM_DATA && sym->kind != SYM_TABLE;
    if (array && !atvi_lang_shape(e, sym)) return false;
    if (array && sym->n_dim > 0) {
      b->array = sym;
      return true;
    }
    if (outer) b->set = outer->set;
    if (sym && sym->kind == SYM_LABEL) b->set = sym->stmt->name->symbol;
  }
  b->node = atvi_lang_eval(e, v, arg);
  return b->node != ATVI_NODE_NONE;
}

static atvi_node own_function(elab *e, const elab_env *v, const ast_expr *x, elab_symbol *fn) {
  elab_binding var[MAX_ARGS];
  atvi_idx n = fn->stmt->words.n;
  if (!check_count(e, x, n, n)) return ATVI_NODE_NONE;
  for (atvi_idx i = 0; i < n; i++) {
    if (!bind(e, v, x->arg[i], fn->stmt->words.token[i].word, &var[i])) return ATVI_NODE_NONE;
    var[i].next = i ? &var[i - 1] : NULL;
  }
  if (fn->busy) {
    atvi_lang_error(e->s, x->at, "a function cannot use itself",
                    "circular definition of the function '%.60s'", x->word->text);
    return ATVI_NODE_NONE;
  }
  elab_env inner = *v;
  inner.vars = n ? &var[n - 1] : NULL;
  inner.list = NULL;
  inner.level = fn->level + 1;
  fn->busy = true;
  atvi_node y = atvi_lang_eval(e, &inner, fn->stmt->value);
  fn->busy = false;
  return y;
}

static atvi_node increase(elab *e, const elab_env *v, const ast_expr *x) {
  if (!check_count(e, x, 1, 1)) return ATVI_NODE_NONE;
  if (v->prev) {
    atvi_lang_error(e->s, x->at, "write increase() once, around the state",
                    "increase() inside increase() has no meaning");
    return ATVI_NODE_NONE;
  }
  if (v->data < 0 || !(v->allowed & ELAB_KIND(ATVI_IN_PREV))) {
    atvi_lang_error(e->s, x->at,
                    "it means what a state gained since the previous row of the data, so it belongs in the "
                    "arguments of 'observe'",
                    "increase() cannot be used outside observations");
    return ATVI_NODE_NONE;
  }
  elab_env before = *v;
  before.prev = true;
  atvi_node now = atvi_lang_eval(e, v, x->arg[0]);
  atvi_node then = now == ATVI_NODE_NONE ? now : atvi_lang_eval(e, &before, x->arg[0]);
  if (then == ATVI_NODE_NONE) return then;
  uint32_t kinds = atvi_graph_kinds(e->g, now);
  if (kinds & ~(ELAB_KIND(ATVI_IN_STATE) | ELAB_KIND(ATVI_IN_PARAM))) {
    atvi_lang_error(e->s, x->at, "make what you want to count a state of its own",
                    "increase() takes an expression of states and parameters alone");
    return ATVI_NODE_NONE;
  }
  if (!(kinds & ELAB_KIND(ATVI_IN_STATE))) {
    atvi_lang_error(e->s, x->arg[0]->at, "write increase(C) with a state C",
                    "increase() of something that is not a state is always 0");
    return ATVI_NODE_NONE;
  }
  return atvi_graph_op2(e->g, ATVI_OP_SUB, now, then);
}

static atvi_node combine(elab *e, int op, atvi_idx n, atvi_node *x) {
  if (op == '+') return atvi_graph_sum(e->g, n, x);
  for (; n > 1; n = (n + 1) / 2) /* balanced, so that derivatives stay shallow */
    for (atvi_idx i = 0; i < (n + 1) / 2; i++)
      x[i] = 2 * i + 1 < n ? atvi_graph_op2(e->g, ATVI_OP_MUL, x[2 * i], x[2 * i + 1]) : x[2 * i];
  return x[0];
}

/* sum(X) of a whole array: the indices are written out as numbers. */
static atvi_node whole_array(elab *e, const elab_env *v, const ast_expr *x) {
  const ast_expr *arg = x->arg[0];
  const elab_binding *b = NULL;
  elab_symbol *sym =
      arg->kind == EX_NAME && arg->n == 0 && !arg->qualifier ? atvi_lang_find(v, arg->word, &b) : NULL;
  bool array = sym && sym->kind != SYM_SET && sym->kind != SYM_LABEL && sym->kind != SYM_FUNCTION &&
               (v->allowed || sym->kind == SYM_CONST);
  if (array && !atvi_lang_shape(e, sym)) return ATVI_NODE_NONE;
  if (!array || sym->n_dim == 0) {
    if (arg->kind == EX_NAME && !sym && !b) return atvi_lang_unknown(e, arg, false, NULL), ATVI_NODE_NONE;
    atvi_lang_error(e->s, arg->at, "write sum(i in set: expression), or sum(X) of a whole array",
                    "wrong shape: '%s' needs a whole array here", x->word->text);
    return ATVI_NODE_NONE;
  }
  atvi_node *item = atvi_lang_take(e->s, sym->total, sizeof *item);
  ast_expr index[AST_MAX_DIM], *arg_of[AST_MAX_DIM];
  ast_expr element = *arg;
  element.n = sym->n_dim;
  element.arg = arg_of;
  for (atvi_idx k = 0; item && k < sym->total; k++) {
    atvi_idx at[AST_MAX_DIM];
    atvi_lang_position(sym->n_dim, sym->dim, k, at);
    for (int d = 0; d < sym->n_dim; d++) {
      index[d] = (ast_expr){.kind = EX_NUMBER, .at = arg->at, .number = (double)(sym->dim[d].lo + at[d])};
      arg_of[d] = &index[d];
    }
    item[k] = atvi_lang_eval(e, v, &element);
    if (item[k] == ATVI_NODE_NONE) return ATVI_NODE_NONE;
  }
  return item ? combine(e, x->op, sym->total, item) : ATVI_NODE_NONE;
}

atvi_node atvi_lang_reduce(elab *e, const elab_env *v, const ast_expr *x) {
  elab_loop loop;
  if (!atvi_lang_loop(e, v->vars, x->n_dim, x->dim, false, &loop)) return ATVI_NODE_NONE;
  atvi_node *item = NULL;
  atvi_idx n = 0, cap = 0;
  for (atvi_idx k = 0; k < loop.total; k++) {
    atvi_lang_loop_at(e, &loop, k);
    elab_env inner = *v;
    inner.vars = loop.vars;
    atvi_node y = atvi_lang_eval(e, &inner, x->arg[0]);
    if (y == ATVI_NODE_NONE) return y;
    if (!ATVI_PUSH(e->s->pool, item, n, cap)) return atvi_lang_nomem(e->s), ATVI_NODE_NONE;
    item[n++] = y;
  }
  return combine(e, x->op, n, item);
}

atvi_node atvi_lang_call(elab *e, const elab_env *v, const ast_expr *x) {
  switch (x->word->keyword) {
  case KW_BUILTIN: return builtin(e, v, x);
  case KW_INCREASE: return increase(e, v, x);
  case KW_SUM:
  case KW_PROD: return whole_array(e, v, x);
  default: break;
  }
  const elab_binding *b = NULL;
  elab_symbol *fn = atvi_lang_find(v, x->word, &b);
  if (fn && !b && fn->kind == SYM_FUNCTION) return own_function(e, v, x, fn);
  if (!fn && !b && strcmp(x->word->text, "convolve") == 0) return convolve(e, v, x);
  if (!fn && !b) {
    bool found;
    atvi_node y = atvi_lang_density(e, v, x, &found);
    if (!found) y = atvi_lang_delay_call(e, v, x, &found);
    if (!found) y = atvi_lang_trajectory_call(e, v, x, &found);
    if (!found) atvi_lang_unknown(e, x, true, NULL);
    return found ? y : ATVI_NODE_NONE;
  }
  bool at_time = x->n == 1 && x->arg[0]->kind == EX_TIME;
  const char *hint =
      fn && fn->n_dim ? "elements of arrays are written with [ ]" : "write a * where you mean a product";
  if (fn && !fn->n_dim && (at_time || fn->kind == SYM_TABLE))
    hint =
        atvi_pool_printf(e->s->pool, "write just %.60s: it always means the value at time t", x->word->text);
  if (!hint) return atvi_lang_nomem(e->s), ATVI_NODE_NONE;
  atvi_lang_error(e->s, x->at, hint, "'%.60s' is not a function", x->word->text);
  return ATVI_NODE_NONE;
}
