/* SPDX-License-Identifier: MIT */
/* States that never change need not be solved for: those that start at a number, are touched by no pulse, and whose
 * equation leaves them there once all of their kind are put in (a compartment nobody enters, x' = -d x from 0).
 * The others are numbered anew, and every expression is rewritten in terms of them. */
#include "model/model.h"

typedef struct {
  atvi_model *m;
  atvi_lang *lang;
  atvi_graph *g;
  atvi_idx n;           /* states in the file */
  bool *still;          /* [n] */
  atvi_node *from, *to; /* [2 n] substitution of states and previous states */
} scan;

/* What the equation must give for the state to stay at c. */
static bool stays(const scan *s, atvi_node rhs, double c) {
  double x;
  return atvi_graph_is_const(s->g, rhs, &x) && x == (s->lang->kind == ATVI_MODEL_MAP ? c : 0);
}

static void candidates(scan *s) {
  for (atvi_idx i = 0; i < s->n; i++) s->still[i] = atvi_graph_is_const(s->g, s->lang->state[i].init, NULL);
  for (atvi_idx p = 0; p < s->lang->n_pulse; p++)
    for (atvi_idx j = 0; j < s->lang->pulse[p].n; j++) s->still[s->lang->pulse[p].state[j]] = false;
}

/* Drops candidates until all that are left stay where they are. False on ENOMEM. */
static bool settle(scan *s, atvi_node *rhs) {
  for (bool changed = true; changed;) {
    atvi_idx n_sub = 0, n_rhs = 0;
    for (atvi_idx i = 0; i < s->n; i++) {
      if (!s->still[i]) continue;
      s->from[n_sub] = atvi_graph_input(s->g, ATVI_IN_STATE, i);
      s->to[n_sub++] = s->lang->state[i].init;
      rhs[n_rhs++] = s->lang->state[i].rhs;
      rhs[n_rhs++] = s->lang->state[i].rest;
    }
    if (n_sub == 0) return true;
    atvi_graph_substitute(s->g, n_rhs, rhs, n_sub, s->from, s->to);
    if (atvi_graph_failed(s->g)) return false;
    changed = false;
    for (atvi_idx i = 0, k = 0; i < s->n; i++) {
      double c;
      if (!s->still[i]) continue;
      bool moves = !atvi_graph_is_const(s->g, s->lang->state[i].init, &c) || !stays(s, rhs[k], c) ||
                   !stays(s, rhs[k + 1], c);
      k += 2;
      if (moves) s->still[i] = false, changed = true;
    }
  }
  return true;
}

static void number(scan *s) {
  atvi_model *m = s->m;
  for (atvi_idx i = 0; i < s->n; i++) {
    m->state_at[i] = s->still[i] ? -1 : m->n_state;
    if (s->still[i])
      atvi_graph_is_const(s->g, s->lang->state[i].init, &m->state_value[i]);
    else
      m->live[m->n_state++] = i;
    for (int prev = 0; prev < 2; prev++) {
      int kind = prev ? ATVI_IN_PREV : ATVI_IN_STATE;
      s->from[2 * i + prev] = atvi_graph_input(s->g, kind, i);
      s->to[2 * i + prev] =
          s->still[i] ? s->lang->state[i].init : atvi_graph_input(s->g, kind, m->state_at[i]);
    }
  }
  for (atvi_idx k = 0; k < s->lang->n_delay; k++) {
    atvi_node x = atvi_graph_input(s->g, ATVI_IN_DELAY, k);
    s->from[2 * s->n + k] = x;
    s->to[2 * s->n + k] =
        s->still[s->lang->delay[k].state] ? s->lang->state[s->lang->delay[k].state].init : x;
  }
}

/* Calls fn for every expression that may hold a state. */
static void each(atvi_lang *lang, void (*fn)(void *user, atvi_node *x), void *user) {
  for (atvi_idx i = 0; i < lang->n_state; i++) fn(user, &lang->state[i].rhs), fn(user, &lang->state[i].rest);
  for (atvi_idx o = 0; o < lang->n_observe; o++)
    for (int a = 0; a < lang->observe[o].n_arg; a++) fn(user, &lang->observe[o].arg[a]);
  for (atvi_idx i = 0; i < lang->n_track; i++) fn(user, &lang->track[i].node);
  for (atvi_idx i = 0; i < lang->n_trajectory; i++) fn(user, &lang->trajectory[i].node);
  for (atvi_idx p = 0; p < lang->n_pulse; p++)
    for (atvi_idx j = 0; j < lang->pulse[p].n; j++) fn(user, &lang->pulse[p].amount[j]);
  for (atvi_idx p = 0; p < lang->n_pulse; p++)
    if (lang->pulse[p].conditional) fn(user, &lang->pulse[p].when), fn(user, &lang->pulse[p].holds);
}

typedef struct {
  atvi_node *node; /* NULL: only counted */
  atvi_idx n;
} list;

static void collect(void *user, atvi_node *x) {
  list *l = user;
  if (l->node) l->node[l->n] = *x;
  l->n++;
}

static void put_back(void *user, atvi_node *x) {
  list *l = user;
  *x = l->node[l->n++];
}

/* All at once: a substitution walks the whole graph. */
static bool rewrite_all(const scan *s) {
  list l = {0};
  each(s->lang, collect, &l);
  l.node = atvi_pool_take(s->m->pool, (size_t)l.n + 1, sizeof *l.node);
  if (!l.node) return false;
  l.n = 0;
  each(s->lang, collect, &l);
  atvi_graph_substitute(s->g, l.n, l.node, 2 * s->n + s->lang->n_delay, s->from, s->to);
  l.n = 0;
  each(s->lang, put_back, &l);
  return true;
}

atvi_status atvi_model_constant(atvi_model *m) {
  atvi_idx n = m->lang->n_state;
  scan s = {.m = m, .lang = m->lang, .g = m->lang->graph, .n = n};
  s.still = atvi_pool_take(m->pool, (size_t)n + 1, sizeof *s.still);
  const size_t n_sub = (size_t)(2 * n + m->lang->n_delay + 1);
  s.from = atvi_pool_take(m->pool, n_sub, sizeof *s.from);
  s.to = atvi_pool_take(m->pool, n_sub, sizeof *s.to);
  atvi_node *rhs = atvi_pool_take(m->pool, 2 * (size_t)n + 1, sizeof *rhs);
  m->state_at = atvi_pool_take(m->pool, (size_t)n + 1, sizeof *m->state_at);
  m->live = atvi_pool_take(m->pool, (size_t)n + 1, sizeof *m->live);
  m->state_value = atvi_pool_take(m->pool, (size_t)n + 1, sizeof *m->state_value);
  bool ok = s.still && s.from && s.to && rhs && m->state_at && m->live && m->state_value;
  if (ok) {
    candidates(&s);
    ok = settle(&s, rhs);
  }
  if (ok) {
    number(&s);
    ok = m->n_state == n || rewrite_all(&s);
  }
  return ok && !atvi_graph_failed(s.g) ? ATVI_OK : ATVI_ENOMEM;
}
