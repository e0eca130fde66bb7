/* SPDX-License-Identifier: MIT */
/* Jumps in time. A comparison of the time with a number in an equation, as in `if t < 10 then a else b`, becomes a step table of
 * 0 and 1: the solver then lands on the jump, and steps on either side see one side of it alone. Where the moment depends on
 * parameters it becomes a jump of the solver's own, which has another time in every lane. Comparisons whose moment depends on
 * states stay as they are. */
#include "model/model.h"
#include <math.h>

enum { MOST_DEEP = 64, MOST_JUMPS = 1000, TIME_BIT = 1u << ATVI_IN_TIME, PARAM_BIT = 1u << ATVI_IN_PARAM };

typedef struct {
  atvi_node t; /* when */
  bool before; /* the comparison holds before, not after */
  atvi_node node;
} jump;

typedef struct {
  atvi_model *m;
  atvi_graph *g;
  jump *item;
  atvi_idx n, cap;
} jumps;

/* x = a + b t with a number b? a is x without its terms in t, and may depend on parameters. */
static bool affine(atvi_graph *g, atvi_node x, int deep, atvi_node *a, double *b) {
  atvi_node p, q, zero = atvi_graph_const(g, 0);
  double dp, dq, c;
  if (atvi_graph_failed(g) || deep > MOST_DEEP) return false;
  atvi_node_info s = atvi_graph_get(g, x);
  *a = x, *b = 0;
  if (!(s.kinds & TIME_BIT)) return true;
  if (s.op == ATVI_OP_INPUT) return *a = zero, *b = 1, true;
  if (!affine(g, s.arg[0], deep + 1, &p, &dp)) return false;
  if (s.op == ATVI_OP_NEG) return *a = atvi_graph_op1(g, s.op, p), *b = -dp, true;
  if (s.n_arg != 2 || !affine(g, s.arg[1], deep + 1, &q, &dq)) return false;
  *a = atvi_graph_op2(g, s.op, p, q);
  switch (s.op) {
  case ATVI_OP_ADD: return *b = dp + dq, true;
  case ATVI_OP_SUB: return *b = dp - dq, true;
  case ATVI_OP_MUL: /* a constant comes first */
    return dp == 0 && atvi_graph_is_const(g, p, &c) && (*b = c * dq, true);
  case ATVI_OP_DIV: return dq == 0 && atvi_graph_is_const(g, q, &c) && (*b = dp / c, true);
  default: return false;
  }
}

/* Notes x if it compares the time with a number, or with something that depends on parameters alone. False on ENOMEM. */
static bool note(jumps *j, atvi_node x) {
  atvi_node a[2];
  double b[2], t;
  atvi_node_info s = atvi_graph_get(j->g, x);
  if ((s.op != ATVI_OP_LT && s.op != ATVI_OP_LE) || !(s.kinds & TIME_BIT) ||
      (s.kinds & ~(TIME_BIT | PARAM_BIT)))
    return true;
  if (!affine(j->g, s.arg[0], 0, &a[0], &b[0]) || !affine(j->g, s.arg[1], 0, &a[1], &b[1])) return true;
  double slope = b[0] - b[1];
  if (slope == 0) return true;
  atvi_node at = atvi_graph_op2(j->g, ATVI_OP_DIV, atvi_graph_op2(j->g, ATVI_OP_SUB, a[1], a[0]),
                                atvi_graph_const(j->g, slope));
  if (atvi_graph_failed(j->g) || (atvi_graph_is_const(j->g, at, &t) && !isfinite(t))) return true;
  if (!ATVI_PUSH(j->m->pool, j->item, j->n, j->cap)) return false;
  j->item[j->n++] = (jump){at, slope > 0, x};
  return true;
}

static bool find(jumps *j) {
  const atvi_lang *lang = j->m->lang;
  atvi_idx n = atvi_graph_size(j->g);
  bool *need = atvi_pool_take(j->m->pool, (size_t)n + 1, sizeof *need), ok = need != NULL;
  for (atvi_idx i = 0; ok && i < lang->n_state; i++)
    need[lang->state[i].rhs] = need[lang->state[i].rest] = true;
  for (atvi_idx i = n - 1; ok && i >= 0; i--) {
    if (!need[i] || !(atvi_graph_kinds(j->g, (atvi_node)i) & TIME_BIT)) continue;
    atvi_node_info s = atvi_graph_get(j->g, (atvi_node)i);
    for (int k = 0; k < s.n_arg; k++) need[s.arg[k]] = true;
    ok = note(j, (atvi_node)i);
  }
  return ok;
}

static bool add_table(const atvi_model *m, double at, bool before, atvi_lang_table *out) {
  double *t = atvi_pool_take(m->pool, 2, sizeof *t), *v = atvi_pool_take(m->pool, 2, sizeof *v);
  if (!t || !v) return false;
  t[0] = fmin(m->lang->start, at) - 1 - fabs(at); /* before the start: no stop */
  t[1] = at;
  v[0] = before;
  v[1] = !before;
  *out = (atvi_lang_table){.name = "", .kind = ATVI_TABLE_STEP, .n = 2, .t = t, .v = v};
  return true;
}

/* Jumps of the solver's own; their places in TABLE come after all else. */
static bool add_moving(jumps *j, atvi_node *from, atvi_node *to, atvi_idx *n) {
  atvi_model *m = j->m;
  m->jump_node = atvi_pool_take(m->pool, ATVI_ODE_JUMPS, sizeof *m->jump_node);
  for (atvi_idx k = 0; m->jump_node && k < j->n; k++) {
    if (atvi_graph_is_const(j->g, j->item[k].t, NULL)) continue;
    atvi_idx at = 0;
    while (at < m->n_jump && m->jump_node[at] != j->item[k].t) at++;
    if (at == ATVI_ODE_JUMPS) continue;
    if (at == m->n_jump) m->jump_node[m->n_jump++] = j->item[k].t;
    atvi_node u = atvi_graph_input(j->g, ATVI_IN_TABLE, atvi_model_tab(m->lang) + at);
    from[*n] = j->item[k].node;
    to[(*n)++] = j->item[k].before ? atvi_graph_op1(j->g, ATVI_OP_NOT, u) : u;
  }
  return m->jump_node != NULL;
}

atvi_status atvi_model_jumps(atvi_model *m) {
  atvi_lang *lang = m->lang;
  jumps j = {.m = m, .g = lang->graph};
  if (lang->kind == ATVI_MODEL_MAP || lang->n_state == 0) return ATVI_OK;
  if (!find(&j)) return ATVI_ENOMEM;
  if (j.n == 0 || j.n > MOST_JUMPS) return ATVI_OK;
  atvi_lang_table *table = atvi_pool_take(m->pool, (size_t)(lang->n_table + j.n), sizeof *table);
  atvi_node *from = atvi_pool_take(m->pool, (size_t)j.n, sizeof *from);
  atvi_node *to = atvi_pool_take(m->pool, (size_t)j.n, sizeof *to);
  atvi_node *rhs = atvi_pool_take(m->pool, 2 * (size_t)lang->n_state, sizeof *rhs);
  if (!table || !from || !to || !rhs) return ATVI_ENOMEM;
  atvi_idx n = 0;
  double at;
  for (atvi_idx k = 0; k < lang->n_table; k++) table[k] = lang->table[k];
  lang->table = table;
  for (atvi_idx k = 0; k < j.n; k++) {
    if (!atvi_graph_is_const(j.g, j.item[k].t, &at)) continue;
    from[n] = j.item[k].node;
    to[n++] = atvi_graph_input(j.g, ATVI_IN_TABLE, 2 * lang->n_table);
    if (!add_table(m, at, j.item[k].before, &table[lang->n_table++])) return ATVI_ENOMEM;
  }
  if (lang->solver != ATVI_SOLVER_RK4 && !add_moving(&j, from, to, &n)) return ATVI_ENOMEM;
  atvi_node *rest = rhs + lang->n_state;
  for (atvi_idx i = 0; i < lang->n_state; i++) rhs[i] = lang->state[i].rhs, rest[i] = lang->state[i].rest;
  atvi_graph_substitute(j.g, 2 * lang->n_state, rhs, n, from, to);
  for (atvi_idx i = 0; i < lang->n_state; i++) lang->state[i].rhs = rhs[i], lang->state[i].rest = rest[i];
  return atvi_graph_failed(j.g) ? ATVI_ENOMEM : ATVI_OK;
}
