/* SPDX-License-Identifier: MIT */
/* What is rewritten in the expressions of a model before programs are made of them. */
#include "model/model.h"
#include <math.h>
#include <string.h>

/* Jumps in time. A comparison of the time with a number in an equation, as in `if t < 10 then a else b`,
 * becomes a step table of 0 and 1: the solver then lands on the jump, and steps on either side see one side
 * of it alone. Where the moment depends on parameters it becomes a jump of the solver's own, which has
 * another time in every lane. Comparisons whose moment depends on states stay as they are. */

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

/* Notes x if it compares the time with a number, or with something that depends on parameters alone. False on
 * ENOMEM. */
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
  for (atvi_idx i = 0; ok && i < lang->dynamics.n_state; i++)
    need[lang->dynamics.state[i].rhs] = need[lang->dynamics.state[i].rest] = true;
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
  t[0] = fmin(m->lang->time.start, at) - 1 - fabs(at); /* before the start: no stop */
  t[1] = at;
  v[0] = before;
  v[1] = !before;
  *out = (atvi_lang_table){.name = "", .kind = ATVI_TABLE_STEP, .n = 2, .t = t, .v = v};
  return true;
}

/* Jumps of the solver's own; their places in TABLE come after all else. */
static bool add_moving(jumps *j, atvi_node *from, atvi_node *to, atvi_idx *n) {
  atvi_model *m = j->m;
  m->jumps.node = atvi_pool_take(m->pool, ATVI_ODE_JUMPS, sizeof *m->jumps.node);
  for (atvi_idx k = 0; m->jumps.node && k < j->n; k++) {
    if (atvi_graph_is_const(j->g, j->item[k].t, NULL)) continue;
    atvi_idx at = 0;
    while (at < m->jumps.n && m->jumps.node[at] != j->item[k].t) at++;
    if (at == ATVI_ODE_JUMPS) continue;
    if (at == m->jumps.n) m->jumps.node[m->jumps.n++] = j->item[k].t;
    atvi_node u = atvi_graph_input(j->g, ATVI_IN_TABLE, atvi_model_tab(m->lang) + at);
    from[*n] = j->item[k].node;
    to[(*n)++] = j->item[k].before ? atvi_graph_op1(j->g, ATVI_OP_NOT, u) : u;
  }
  return m->jumps.node != NULL;
}

atvi_status atvi_model_jumps(atvi_model *m) {
  atvi_lang *lang = m->lang;
  jumps j = {.m = m, .g = lang->graph};
  if (lang->kind == ATVI_MODEL_MAP || lang->dynamics.n_state == 0) return ATVI_OK;
  if (!find(&j)) return ATVI_ENOMEM;
  if (j.n == 0 || j.n > MOST_JUMPS) return ATVI_OK;
  atvi_lang_table *table = atvi_pool_take(m->pool, (size_t)(lang->n_table + j.n), sizeof *table);
  atvi_node *from = atvi_pool_take(m->pool, (size_t)j.n, sizeof *from);
  atvi_node *to = atvi_pool_take(m->pool, (size_t)j.n, sizeof *to);
  atvi_node *rhs = atvi_pool_take(m->pool, 2 * (size_t)lang->dynamics.n_state, sizeof *rhs);
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
  if (lang->solver.kind != ATVI_SOLVER_RK4 && !add_moving(&j, from, to, &n)) return ATVI_ENOMEM;
  atvi_node *rest = rhs + lang->dynamics.n_state;
  for (atvi_idx i = 0; i < lang->dynamics.n_state; i++)
    rhs[i] = lang->dynamics.state[i].rhs, rest[i] = lang->dynamics.state[i].rest;
  atvi_graph_substitute(j.g, 2 * lang->dynamics.n_state, rhs, n, from, to);
  for (atvi_idx i = 0; i < lang->dynamics.n_state; i++)
    lang->dynamics.state[i].rhs = rhs[i], lang->dynamics.state[i].rest = rest[i];
  return atvi_graph_failed(j.g) ? ATVI_ENOMEM : ATVI_OK;
}

/* States that never change need not be solved for: those that start at a number, are touched by no pulse, and
 * whose equation leaves them there once all of their kind are put in (a compartment nobody enters, x' = -d x
 * from 0). The others are numbered anew, and every expression is rewritten in terms of them. */

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
  for (atvi_idx i = 0; i < s->n; i++)
    s->still[i] = atvi_graph_is_const(s->g, s->lang->dynamics.state[i].init, NULL);
  for (atvi_idx p = 0; p < s->lang->dynamics.n_pulse; p++)
    for (atvi_idx j = 0; j < s->lang->dynamics.pulse[p].n; j++)
      s->still[s->lang->dynamics.pulse[p].state[j]] = false;
}

/* Drops candidates until all that are left stay where they are. False on ENOMEM. */
static bool settle(scan *s, atvi_node *rhs) {
  for (bool changed = true; changed;) {
    atvi_idx n_sub = 0, n_rhs = 0;
    for (atvi_idx i = 0; i < s->n; i++) {
      if (!s->still[i]) continue;
      s->from[n_sub] = atvi_graph_input(s->g, ATVI_IN_STATE, i);
      s->to[n_sub++] = s->lang->dynamics.state[i].init;
      rhs[n_rhs++] = s->lang->dynamics.state[i].rhs;
      rhs[n_rhs++] = s->lang->dynamics.state[i].rest;
    }
    if (n_sub == 0) return true;
    atvi_graph_substitute(s->g, n_rhs, rhs, n_sub, s->from, s->to);
    if (atvi_graph_failed(s->g)) return false;
    changed = false;
    for (atvi_idx i = 0, k = 0; i < s->n; i++) {
      double c;
      if (!s->still[i]) continue;
      bool moves = !atvi_graph_is_const(s->g, s->lang->dynamics.state[i].init, &c) || !stays(s, rhs[k], c) ||
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
    m->states.at[i] = s->still[i] ? -1 : m->states.n;
    if (s->still[i])
      atvi_graph_is_const(s->g, s->lang->dynamics.state[i].init, &m->states.value[i]);
    else
      m->states.live[m->states.n++] = i;
    for (int prev = 0; prev < 2; prev++) {
      int kind = prev ? ATVI_IN_PREV : ATVI_IN_STATE;
      s->from[2 * i + prev] = atvi_graph_input(s->g, kind, i);
      s->to[2 * i + prev] =
          s->still[i] ? s->lang->dynamics.state[i].init : atvi_graph_input(s->g, kind, m->states.at[i]);
    }
  }
  for (atvi_idx k = 0; k < s->lang->dynamics.n_delay; k++) {
    atvi_node x = atvi_graph_input(s->g, ATVI_IN_DELAY, k);
    s->from[2 * s->n + k] = x;
    s->to[2 * s->n + k] = s->still[s->lang->dynamics.delay[k].state]
                              ? s->lang->dynamics.state[s->lang->dynamics.delay[k].state].init
                              : x;
  }
}

/* Calls fn for every expression that may hold a state. */
static void each(atvi_lang *lang, void (*fn)(void *user, atvi_node *x), void *user) {
  for (atvi_idx i = 0; i < lang->dynamics.n_state; i++)
    fn(user, &lang->dynamics.state[i].rhs), fn(user, &lang->dynamics.state[i].rest);
  for (atvi_idx o = 0; o < lang->n_observe; o++)
    for (int a = 0; a < lang->observe[o].n_arg; a++) fn(user, &lang->observe[o].arg[a]);
  for (atvi_idx i = 0; i < lang->outputs.n_track; i++) fn(user, &lang->outputs.track[i].node);
  for (atvi_idx i = 0; i < lang->outputs.n_trajectory; i++) fn(user, &lang->outputs.trajectory[i].node);
  for (atvi_idx p = 0; p < lang->dynamics.n_pulse; p++)
    for (atvi_idx j = 0; j < lang->dynamics.pulse[p].n; j++) fn(user, &lang->dynamics.pulse[p].amount[j]);
  for (atvi_idx p = 0; p < lang->dynamics.n_pulse; p++)
    if (lang->dynamics.pulse[p].conditional)
      fn(user, &lang->dynamics.pulse[p].when), fn(user, &lang->dynamics.pulse[p].holds);
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
  atvi_graph_substitute(s->g, l.n, l.node, 2 * s->n + s->lang->dynamics.n_delay, s->from, s->to);
  l.n = 0;
  each(s->lang, put_back, &l);
  return true;
}

atvi_status atvi_model_constant(atvi_model *m) {
  atvi_idx n = m->lang->dynamics.n_state;
  scan s = {.m = m, .lang = m->lang, .g = m->lang->graph, .n = n};
  s.still = atvi_pool_take(m->pool, (size_t)n + 1, sizeof *s.still);
  const size_t n_sub = (size_t)(2 * n + m->lang->dynamics.n_delay + 1);
  s.from = atvi_pool_take(m->pool, n_sub, sizeof *s.from);
  s.to = atvi_pool_take(m->pool, n_sub, sizeof *s.to);
  atvi_node *rhs = atvi_pool_take(m->pool, 2 * (size_t)n + 1, sizeof *rhs);
  m->states.at = atvi_pool_take(m->pool, (size_t)n + 1, sizeof *m->states.at);
  m->states.live = atvi_pool_take(m->pool, (size_t)n + 1, sizeof *m->states.live);
  m->states.value = atvi_pool_take(m->pool, (size_t)n + 1, sizeof *m->states.value);
  bool ok = s.still && s.from && s.to && rhs && m->states.at && m->states.live && m->states.value;
  if (ok) {
    candidates(&s);
    ok = settle(&s, rhs);
  }
  if (ok) {
    number(&s);
    ok = m->states.n == n || rewrite_all(&s);
  }
  return ok && !atvi_graph_failed(s.g) ? ATVI_OK : ATVI_ENOMEM;
}

/* Alternatives of a density. Where `logp` is written as one of several expressions, by their size (max, min),
 * by a condition (if), or as the log of a sum of their exponentials, each of them may hold a mode that
 * nothing leads to: where another is larger by thirty nats, neither value nor gradient knows of it. So every
 * alternative is made a density of its own, which is climbed when modes are looked for.
 *
 * expand   In x, part of the density `whole`, take the outermost nodes that choose; for each alternative of each of them put that in its
 *          place, and go on inside it. What chooses nothing any more is a branch. */

/* More of them is a mixture for every row of data, whose modes are elsewhere. */
enum { MOST = 32 };

typedef struct {
  atvi_graph *g;
  atvi_pool *pool;
  atvi_node branch[MOST];
  atvi_idx n;
  bool many;
} search;

/* Whether a node chooses between two densities, alternative[2]. A number is none: max(x, 0) is a kink, and
 * -inf a region that is cut out. */
static bool chooses(const atvi_graph *g, atvi_node x, atvi_node *alternative) {
  atvi_node_info s = atvi_graph_get(g, x);
  int first = s.op == ATVI_OP_SELECT ? 1 : 0;
  if (s.op != ATVI_OP_MAX && s.op != ATVI_OP_MIN && s.op != ATVI_OP_LOG_ADD && s.op != ATVI_OP_SELECT)
    return false;
  for (int k = 0; k < 2; k++) alternative[k] = s.arg[first + k];
  return !atvi_graph_is_const(g, alternative[0], NULL) && !atvi_graph_is_const(g, alternative[1], NULL);
}

/* The outermost nodes of x that choose: choice[MOST]; returns how many. */
static atvi_idx outermost(search *s, atvi_node x, atvi_node *choice) {
  atvi_node two[2];
  atvi_idx n = 0;
  bool *need = atvi_pool_take(s->pool, (size_t)x + 1, sizeof *need);
  if (!need) return 0;
  need[x] = true;
  for (atvi_node i = x; i >= 0; i--) {
    if (!need[i]) continue;
    if (chooses(s->g, i, two)) {
      if (n == MOST) return MOST + 1;
      choice[n++] = i;
      continue;
    }
    atvi_node_info a = atvi_graph_get(s->g, i);
    for (int k = 0; k < a.n_arg; k++) need[a.arg[k]] = true;
  }
  return n;
}

static void expand(search *s, atvi_node whole, atvi_node x, int deep) {
  atvi_node choice[MOST], two[2];
  atvi_idx n = outermost(s, x, choice);
  s->many = s->many || n > MOST || (n == 0 && deep > 0 && s->n == MOST);
  if (s->many) return;
  if (n == 0 && deep > 0) s->branch[s->n++] = whole;
  for (atvi_idx i = 0; i < n; i++) {
    if (!chooses(s->g, choice[i], two)) continue;
    for (int k = 0; k < 2 && !s->many; k++) {
      atvi_node in = whole;
      atvi_graph_substitute(s->g, 1, &in, 1, &choice[i], &two[k]);
      if (!atvi_graph_failed(s->g)) expand(s, in, two[k], deep + 1);
    }
  }
}

atvi_status atvi_model_branches(atvi_model *m) {
  search s = {.g = m->lang->graph, .pool = m->pool};
  expand(&s, m->lang->log.extra, m->lang->log.extra, 0);
  if (atvi_graph_failed(s.g)) return ATVI_ENOMEM;
  if (s.many || s.n < 2) return ATVI_OK;
  m->branches.node = atvi_pool_take(m->pool, (size_t)s.n, sizeof *m->branches.node);
  m->branches.extra = atvi_pool_take(m->pool, (size_t)s.n, sizeof *m->branches.extra);
  if (!m->branches.node || !m->branches.extra) return ATVI_ENOMEM;
  memcpy(m->branches.node, s.branch, (size_t)s.n * sizeof *s.branch);
  m->branches.n = s.n;
  return ATVI_OK;
}
