/* SPDX-License-Identifier: MIT */
/* Jumps in time. A comparison of the time with a number in an equation, as in `if t < 10 then a else b`, becomes a step table of
 * 0 and 1: the solver then lands on the jump, and steps on either side see one side of it alone. Comparisons whose moment
 * depends on parameters or states stay as they are. */
#include "model/model.h"
#include <math.h>

enum { MOST_DEEP = 64, MOST_JUMPS = 1000, TIME_BIT = 1u << ATVI_IN_TIME };

typedef struct {
  double t;    /* when */
  bool before; /* the comparison holds before, not after */
  atvi_node node;
} jump;

typedef struct {
  atvi_model *m;
  atvi_graph *g;
  jump *item;
  atvi_idx n, cap;
} jumps;

/* x = a + b t? */
static bool affine(const atvi_graph *g, atvi_node x, int deep, double *a, double *b) {
  double p[2], q[2];
  atvi_node_info s = atvi_graph_get(g, x);
  *a = *b = 0;
  if (atvi_graph_is_const(g, x, a)) return true;
  if (s.op == ATVI_OP_INPUT) return *b = 1, s.index2 == ATVI_IN_TIME;
  if (s.kinds != TIME_BIT || deep > MOST_DEEP || !affine(g, s.arg[0], deep + 1, &p[0], &p[1])) return false;
  if (s.op == ATVI_OP_NEG) return *a = -p[0], *b = -p[1], true;
  if (s.n_arg != 2 || !affine(g, s.arg[1], deep + 1, &q[0], &q[1])) return false;
  switch (s.op) {
  case ATVI_OP_ADD: return *a = p[0] + q[0], *b = p[1] + q[1], true;
  case ATVI_OP_SUB: return *a = p[0] - q[0], *b = p[1] - q[1], true;
  case ATVI_OP_MUL: return *a = p[0] * q[0], *b = p[0] * q[1] + p[1] * q[0], p[1] == 0 || q[1] == 0;
  case ATVI_OP_DIV: return *a = p[0] / q[0], *b = p[1] / q[0], q[1] == 0;
  default: return false;
  }
}

/* Notes x if it compares the time with a number. False on ENOMEM. */
static bool note(jumps *j, atvi_node x) {
  double a[2], b[2];
  atvi_node_info s = atvi_graph_get(j->g, x);
  if ((s.op != ATVI_OP_LT && s.op != ATVI_OP_LE) || s.kinds != TIME_BIT) return true;
  if (!affine(j->g, s.arg[0], 0, &a[0], &b[0]) || !affine(j->g, s.arg[1], 0, &a[1], &b[1])) return true;
  double slope = b[0] - b[1], t = (a[1] - a[0]) / slope;
  if (slope == 0 || !isfinite(t)) return true;
  if (!ATVI_PUSH(j->m->pool, j->item, j->n, j->cap)) return false;
  j->item[j->n++] = (jump){t, slope > 0, x};
  return true;
}

static bool find(jumps *j) {
  const atvi_lang *lang = j->m->lang;
  atvi_idx n = atvi_graph_size(j->g);
  bool *need = atvi_pool_take(j->m->pool, (size_t)n + 1, sizeof *need), ok = need != NULL;
  for (atvi_idx i = 0; ok && i < lang->n_state; i++) need[lang->state[i].rhs] = true;
  for (atvi_idx i = n - 1; ok && i >= 0; i--) {
    if (!need[i] || !(atvi_graph_kinds(j->g, (atvi_node)i) & TIME_BIT)) continue;
    atvi_node_info s = atvi_graph_get(j->g, (atvi_node)i);
    for (int k = 0; k < s.n_arg; k++) need[s.arg[k]] = true;
    ok = note(j, (atvi_node)i);
  }
  return ok;
}

static bool add_table(const atvi_model *m, const jump *j, atvi_lang_table *out) {
  double *t = atvi_pool_take(m->pool, 2, sizeof *t), *v = atvi_pool_take(m->pool, 2, sizeof *v);
  if (!t || !v) return false;
  t[0] = fmin(m->lang->start, j->t) - 1 - fabs(j->t); /* before the start: no stop */
  t[1] = j->t;
  v[0] = j->before;
  v[1] = !j->before;
  *out = (atvi_lang_table){.name = "", .kind = ATVI_TABLE_STEP, .n = 2, .t = t, .v = v};
  return true;
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
  atvi_node *rhs = atvi_pool_take(m->pool, (size_t)lang->n_state, sizeof *rhs);
  if (!table || !from || !to || !rhs) return ATVI_ENOMEM;
  for (atvi_idx k = 0; k < lang->n_table; k++) table[k] = lang->table[k];
  for (atvi_idx k = 0; k < j.n; k++) {
    from[k] = j.item[k].node;
    to[k] = atvi_graph_input(j.g, ATVI_IN_TABLE, 2 * (lang->n_table + k));
    if (!add_table(m, &j.item[k], &table[lang->n_table + k])) return ATVI_ENOMEM;
  }
  lang->table = table;
  lang->n_table += j.n;
  for (atvi_idx i = 0; i < lang->n_state; i++) rhs[i] = lang->state[i].rhs;
  atvi_graph_substitute(j.g, lang->n_state, rhs, j.n, from, to);
  for (atvi_idx i = 0; i < lang->n_state; i++) lang->state[i].rhs = rhs[i];
  return atvi_graph_failed(j.g) ? ATVI_ENOMEM : ATVI_OK;
}
