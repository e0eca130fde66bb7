/* SPDX-License-Identifier: MIT */
/* convolve(x, w): the sum of w[i] times x as it was i steps ago. What x was is kept in states of its own, one for each step back, which
 * are handed on from step to step and are 0 at the start.
 *
 * In a `next` equation steps are counted back from the time that it leads to, so that w[1] meets x as it is now. Where x is a let, which
 * may itself use convolve(x, w), its expression is made at the end. */
#include "lang/elab.h"
#include <math.h>
#include <string.h>

static const uint32_t DYNAMICS =
    ELAB_KIND(ATVI_IN_PARAM) | ELAB_KIND(ATVI_IN_TIME) | ELAB_KIND(ATVI_IN_STATE) | ELAB_KIND(ATVI_IN_TABLE);

static bool mentions(const ast_expr *x) {
  if (!x) return false;
  if (x->kind == EX_CALL && strcmp(x->word->text, "convolve") == 0) return true;
  for (atvi_idx k = 0; k < x->n; k++)
    if (mentions(x->arg[k])) return true;
  return x->kind == EX_REDUCE && mentions(x->arg[0]);
}

bool atvi_lang_convolves(const ast_stmt *st) { return mentions(st->value) || mentions(st->args); }

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
  for (atvi_idx i = 0; i < e->n_past; i++)
    if (e->past[i]->let == past.let && e->past[i]->element == past.element && e->past[i]->node == past.node)
      return e->past[i];
  elab_past *new = atvi_lang_take(e->s, 1, sizeof *new);
  if (!new) return NULL;
  if (!ATVI_PUSH(e->s->pool, e->past, e->n_past, e->past_cap)) return atvi_lang_nomem(e->s), NULL;
  *new = past;
  return e->past[e->n_past++] = new;
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
    if (++e->elements > ELAB_MAX_ELEMENTS) {
      atvi_lang_error(e->s, at, "use fewer weights", "too large: a model has at most %d elements in all",
                      ELAB_MAX_ELEMENTS);
      return -1;
    }
    if (!ATVI_PUSH(e->s->pool, past->state, past->n, past->cap)) return atvi_lang_nomem(e->s), -1;
    past->state[past->n++] = n_declared(e) + e->n_lag++;
  }
  return past->state[k - 1];
}

/* The quantity now. */
static atvi_node present(elab *e, const elab_past *past) {
  elab_env v = {.allowed = DYNAMICS, .where = "convolve()", .data = -1};
  return past->let ? atvi_lang_element(e, &v, past->use, past->let, past->element) : past->node;
}

atvi_node atvi_lang_convolve(elab *e, const elab_env *v, const ast_expr *x) {
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
  if (!e->n_past) return true;
  atvi_node *now = NULL;
  atvi_idx n = 0, cap = 0;
  for (; n < e->n_past; n++) { /* making one may add others */
    if (!ATVI_PUSH(e->s->pool, now, n, cap)) return atvi_lang_nomem(e->s), false;
    if ((now[n] = present(e, e->past[n])) == ATVI_NODE_NONE) return false;
  }
  atvi_idx first = n_declared(e);
  atvi_lang_state *state = atvi_lang_take(e->s, first + e->n_lag, sizeof *state);
  if (!state) return false;
  for (atvi_idx i = 0; i < first; i++) state[i] = lang->state[i];
  for (atvi_idx i = 0; i < n; i++)
    for (atvi_idx k = 0; k < e->past[i]->n; k++) {
      atvi_node from = k ? atvi_graph_input(e->g, ATVI_IN_STATE, e->past[i]->state[k - 1]) : now[i];
      state[e->past[i]->state[k]] = (atvi_lang_state){"", atvi_graph_const(e->g, 0), from, from};
    }
  lang->state = state;
  lang->n_state = first + e->n_lag;
  lang->n_lag = e->n_lag;
  return true;
}
