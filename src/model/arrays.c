/* SPDX-License-Identifier: MIT */
/* Units that a text has without saying so. The log density of a model without equations is a sum of terms:
 * priors, what `logp` adds up, and rows of data. If a few parameters are in the terms of many others, and the
 * others fall apart into groups once these few are given, as the effects of a hierarchy do given their mean
 * and scale, then each group is a unit of the target (target.h), and what is common is another.
 *
 *   terms     what is added up, and which parameters each term depends on; a row depends on those elements that its indices pick
 *   common    the parameters that share terms with the most others, until the rest falls apart
 *   units     terms go to the unit of their parameters: sums of nodes for priors and `logp`, a number for each element of a row */
#include "model/model.h"
#include <math.h>
#include <string.h>

enum {
  /* Parameters for which nobody asks for units. */
  FEW = 30,
  /* Common ones: with more, what is common is no easier than the whole. */
  MOST_COMMON = 30,
  /* Operations in an index. */
  DEEP = 8,
};

/* One summand of the log prior (0) or of logp (1). */
typedef struct {
  int of;
  double by;
  atvi_node node;
  atvi_idx term;
} summand;

typedef struct {
  atvi_model *m;
  atvi_graph *g;
  atvi_pool *pool;
  atvi_idx d;
  /* Parameters of the terms, one term after the other: those of term k are param[end[k - 1]] .. param[end[k]
   * - 1]. */
  atvi_idx n_term, cap_term, n_param, cap_param;
  atvi_idx *end, *param;
  atvi_idx n_sum, cap_sum;
  summand *sum;
  /* [nodes] the last term that met a node, and room for nodes to look at. */
  atvi_idx *seen;
  atvi_node *stack;
  atvi_idx n_stack;
  /* Numbers of the row; NULL: the term is none. */
  const double *row;
  bool failed;
} search;

/* ---- terms ---- */

/* The number that an index is in this row; NaN: it is not known. */
static double index_value(const search *s, atvi_node x, int deep);

static atvi_node element(const search *s, atvi_node list, atvi_idx k) {
  atvi_node_info l = atvi_graph_get(s->g, list);
  atvi_idx n = l.index;
  for (k = k < 0 ? 0 : k < n ? k : n - 1; n > 4 && k >= 3; k -= 3, n -= 3) l = atvi_graph_get(s->g, l.arg[3]);
  return l.arg[k];
}

static double index_value(const search *s, atvi_node x, int deep) {
  atvi_node_info n = atvi_graph_get(s->g, x);
  if (n.op == ATVI_OP_CONST) return n.value;
  if (n.op == ATVI_OP_INPUT) return s->row && n.index2 == ATVI_IN_DATA ? s->row[n.index] : NAN;
  if (deep == 0 || n.n_arg != 2) return NAN;
  double a = index_value(s, n.arg[0], deep - 1);
  if (n.op == ATVI_OP_PICK && isfinite(a))
    return index_value(s, element(s, n.arg[1], (atvi_idx)lround(a)), deep - 1);
  double b = n.op == ATVI_OP_PICK ? NAN : index_value(s, n.arg[1], deep - 1);
  return n.op == ATVI_OP_ADD ? a + b : n.op == ATVI_OP_SUB ? a - b : n.op == ATVI_OP_MUL ? a * b : NAN;
}

static void look_at(search *s, atvi_node x) {
  if (s->seen[x] == s->n_term || !(atvi_graph_kinds(s->g, x) >> ATVI_IN_PARAM & 1)) return;
  s->seen[x] = s->n_term;
  s->stack[s->n_stack++] = x;
}

static void add_param(search *s, atvi_idx i) {
  if (i >= s->d) return;
  if (!ATVI_PUSH(s->pool, s->param, s->n_param, s->cap_param))
    s->failed = true;
  else
    s->param[s->n_param++] = i;
}

/* The parameters of x are added to those of the term that is made. */
static void add_params(search *s, atvi_node x) {
  for (look_at(s, x); s->n_stack > 0;) {
    atvi_node_info n = atvi_graph_get(s->g, s->stack[--s->n_stack]);
    double k = n.op == ATVI_OP_PICK ? index_value(s, n.arg[0], DEEP) : NAN;
    if (n.op == ATVI_OP_INPUT) add_param(s, n.index);
    if (isfinite(k))
      look_at(s, element(s, n.arg[1], (atvi_idx)lround(k)));
    else
      for (int a = 0; a < n.n_arg; a++) look_at(s, n.arg[a]);
  }
}

static atvi_idx end_term(search *s) {
  if (!ATVI_PUSH(s->pool, s->end, s->n_term, s->cap_term)) {
    s->failed = true;
    return 0;
  }
  s->end[s->n_term] = s->n_param;
  return s->n_term++;
}

static void add_summand(search *s, int of, double by, atvi_node x) {
  if (!ATVI_PUSH(s->pool, s->sum, s->n_sum, s->cap_sum)) {
    s->failed = true;
    return;
  }
  add_params(s, x);
  s->sum[s->n_sum++] = (summand){of, by, x, end_term(s)};
}

/* x as a number times something: that is left in *x. 1: it is nothing of the kind. */
static double factor(const search *s, atvi_node *x) {
  atvi_node_info i = atvi_graph_get(s->g, *x);
  double c = 1;
  if (i.op == ATVI_OP_NEG) c = -1, *x = i.arg[0];
  for (int k = 0; k < 2 && i.op == ATVI_OP_MUL; k++)
    if (atvi_graph_is_const(s->g, i.arg[k], &c)) *x = i.arg[1 - k];
  if (i.op == ATVI_OP_DIV && atvi_graph_is_const(s->g, i.arg[1], &c)) c = 1 / c, *x = i.arg[0];
  return c;
}

typedef struct {
  summand *item;
  atvi_idx n, cap;
} open_sums;

static void put_off(search *s, open_sums *open, double by, atvi_node x) {
  if (!ATVI_PUSH(s->pool, open->item, open->n, open->cap))
    s->failed = true;
  else
    open->item[open->n++] = (summand){.by = by, .node = x};
}

/* What x adds up. A sum that is part of several others may be met more often than there are nodes: then it is
 * no sum of small things. */
static void add_summands(search *s, int of, atvi_node x) {
  open_sums open = {0};
  atvi_idx left = 8 * atvi_graph_size(s->g);
  put_off(s, &open, 1, x);
  while (open.n > 0 && !s->failed) {
    summand at = open.item[--open.n];
    const atvi_node was = at.node;
    at.by *= factor(s, &at.node);
    atvi_node_info i = atvi_graph_get(s->g, at.node);
    if (i.op == ATVI_OP_ADD || i.op == ATVI_OP_SUB) {
      put_off(s, &open, i.op == ATVI_OP_SUB ? -at.by : at.by, i.arg[1]);
      put_off(s, &open, at.by, i.arg[0]);
    } else if (at.node != was) {
      put_off(s, &open, at.by, at.node);
    } else {
      add_summand(s, of, at.by, at.node);
    }
    s->failed = s->failed || --left == 0;
  }
}

/* Elements of rows in their order; those that do not count are terms without parameters. */
static void add_rows(search *s, const atvi_rows *rows) {
  for (atvi_idx r = 0; r < rows->n_row && !s->failed; r++) {
    s->row = rows->data < 0 ? NULL : s->m->lik.filled[rows->data] + r * s->m->lang->data[rows->data].n_col;
    for (atvi_idx e = 0; e < rows->n_el; e++) {
      if (rows->mask[r * rows->n_el + e] != 0) add_params(s, rows->node[e]);
      end_term(s);
    }
  }
  s->row = NULL;
}

/* ---- what is common ---- */

typedef struct {
  /* [d] */
  bool *common, *best;
  atvi_idx *up, *size, *degree;
} choice;

static atvi_idx root(atvi_idx *up, atvi_idx i) {
  for (; up[i] != i; i = up[i]) up[i] = up[up[i]];
  return i;
}

static const atvi_idx *term_begin(const search *s, atvi_idx k) { return s->param + (k ? s->end[k - 1] : 0); }
static const atvi_idx *term_end(const search *s, atvi_idx k) { return s->param + s->end[k]; }

/* With how many others a parameter shares terms. Errors: ENOMEM. */
static bool count_degrees(const search *s, atvi_idx *degree) {
  atvi_idx *first = atvi_pool_take(s->pool, (size_t)s->d + 2, sizeof *first);
  atvi_idx *in = atvi_pool_take(s->pool, (size_t)s->n_param + 1, sizeof *in);
  atvi_idx *met = atvi_pool_take(s->pool, (size_t)s->d + 1, sizeof *met);
  if (!first || !in || !met) return false;
  for (atvi_idx j = 0; j < s->n_param; j++) first[s->param[j] + 2]++;
  for (atvi_idx i = 2; i < s->d + 2; i++) first[i] += first[i - 1];
  for (atvi_idx k = 0; k < s->n_term; k++)
    for (const atvi_idx *p = term_begin(s, k); p < term_end(s, k); p++) in[first[*p + 1]++] = k;
  for (atvi_idx i = 0; i < s->d; i++)
    for (atvi_idx j = first[i]; j < first[i + 1]; j++)
      for (const atvi_idx *p = term_begin(s, in[j]); p < term_end(s, in[j]); p++)
        if (met[*p] != i + 1) met[*p] = i + 1, degree[i]++;
  return true;
}

/* Joins parameters that share terms, but for common ones. */
static void join(const search *s, choice *c) {
  for (atvi_idx i = 0; i < s->d; i++) c->up[i] = i, c->size[i] = 0;
  for (atvi_idx k = 0; k < s->n_term; k++) {
    atvi_idx to = -1;
    for (const atvi_idx *p = term_begin(s, k); p < term_end(s, k); p++) {
      if (c->common[*p]) continue;
      if (to < 0) to = root(c->up, *p);
      c->up[root(c->up, *p)] = to;
    }
  }
  for (atvi_idx i = 0; i < s->d; i++)
    if (!c->common[i]) c->size[root(c->up, i)]++;
}

/* The parameters of the largest group that share terms with the most others become common. False: it has but
 * one. */
static bool take_more(const search *s, choice *c) {
  atvi_idx largest = 0, most = 0;
  for (atvi_idx i = 1; i < s->d; i++)
    if (c->size[i] > c->size[largest]) largest = i;
  if (c->size[largest] < 2) return false;
  for (atvi_idx i = 0; i < s->d; i++)
    if (!c->common[i] && root(c->up, i) == largest && c->degree[i] > most) most = c->degree[i];
  for (atvi_idx i = 0; i < s->d; i++)
    if (!c->common[i] && root(c->up, i) == largest && c->degree[i] == most) c->common[i] = true;
  return true;
}

/* Numbers in factors of what is common, of the groups, and of both: half of what a matrix of all has is no
 * structure. */
static bool choose(const search *s, choice *c) {
  double best = 0.5 * (double)s->d * (double)s->d;
  bool found = false;
  do {
    double n = 0, common = 0, cost = 0;
    join(s, c);
    for (atvi_idx i = 0; i < s->d; i++) {
      double size = (double)c->size[i];
      common += c->common[i], n += size > 0, cost += size * size;
    }
    cost += common * (double)s->d;
    if (common > MOST_COMMON) break;
    if (common == 0 || n < 2 || cost >= best) continue;
    best = cost;
    found = true;
    memcpy(c->best, c->common, (size_t)s->d * sizeof *c->best);
  } while (take_more(s, c));
  memcpy(c->common, c->best, (size_t)s->d * sizeof *c->best);
  join(s, c);
  return found;
}

/* ---- units ---- */

/* unit[d]: that of each parameter, in the order of their first ones; 0: common. */
static atvi_idx number_units(const search *s, choice *c, atvi_idx *unit) {
  atvi_idx n = 1;
  for (atvi_idx i = 0; i < s->d; i++) c->size[i] = 0;
  for (atvi_idx i = 0; i < s->d; i++) {
    atvi_idx *of = &c->size[root(c->up, i)];
    if (!c->common[i] && *of == 0) *of = n++;
    unit[i] = c->common[i] ? 0 : *of;
  }
  return n;
}

/* Common parameters, then its own. */
static bool describe_units(atvi_model *m, const atvi_idx *unit, atvi_idx n) {
  atvi_idx d = m->lang->n_param, common = 0, *fill = atvi_pool_take(m->pool, (size_t)n, sizeof *fill);
  atvi_unit *u = atvi_pool_take(m->pool, (size_t)n, sizeof *u);
  if (!u || !fill) return false;
  for (atvi_idx i = 0; i < d; i++) u[unit[i]].n_on++, common += unit[i] == 0;
  for (atvi_idx k = 0; k < n; k++) {
    u[k].n_outer = k ? common : 0;
    u[k].n_on += u[k].n_outer;
    atvi_idx *on = atvi_pool_take(m->pool, (size_t)u[k].n_on + 1, sizeof *on), at = 0;
    if (!on) return false;
    for (atvi_idx i = 0; i < d && k; i++)
      if (unit[i] == 0) on[at++] = i;
    u[k].on = on;
    u[k].name = "";
    fill[k] = at;
  }
  for (atvi_idx i = 0; i < d; i++) {
    atvi_unit *of = &u[unit[i]];
    if (unit[i] && fill[unit[i]] == of->n_outer) of->name = m->lang->param[i].name;
    ((atvi_idx *)of->on)[fill[unit[i]]++] = i;
  }
  m->arrays.unit = u;
  m->arrays.n = n;
  return true;
}

static atvi_idx unit_of(const search *s, const atvi_idx *unit, atvi_idx term) {
  for (const atvi_idx *p = term_begin(s, term); p < term_end(s, term); p++)
    if (unit[*p]) return unit[*p];
  return 0;
}

/* The sums of each unit: node[n]. */
static bool add_up(const search *s, int of, const atvi_idx *unit, atvi_idx n, atvi_node *node) {
  atvi_idx *first = atvi_pool_take(s->pool, (size_t)n + 2, sizeof *first);
  atvi_node *x = atvi_pool_take(s->pool, (size_t)s->n_sum + 1, sizeof *x);
  if (!first || !x) return false;
  for (atvi_idx k = 0; k < s->n_sum; k++)
    if (s->sum[k].of == of) first[unit_of(s, unit, s->sum[k].term) + 2]++;
  for (atvi_idx u = 2; u < n + 2; u++) first[u] += first[u - 1];
  for (atvi_idx k = 0; k < s->n_sum; k++) {
    const summand *a = &s->sum[k];
    if (a->of == of)
      x[first[unit_of(s, unit, a->term) + 1]++] =
          atvi_graph_op2(s->g, ATVI_OP_MUL, atvi_graph_const(s->g, a->by), a->node);
  }
  for (atvi_idx u = 0; u < n; u++) node[u] = atvi_graph_sum(s->g, first[u + 1] - first[u], x + first[u]);
  return true;
}

static bool make_units(search *s, choice *c) {
  atvi_model *m = s->m;
  atvi_idx *unit = atvi_pool_take(s->pool, (size_t)s->d, sizeof *unit), term = 0;
  if (!unit) return false;
  atvi_idx n = number_units(s, c, unit);
  m->arrays.prior = atvi_pool_take(m->pool, (size_t)n, sizeof *m->arrays.prior);
  m->arrays.extra = atvi_pool_take(m->pool, (size_t)n, sizeof *m->arrays.extra);
  if (!m->arrays.prior || !m->arrays.extra) return false;
  if (!add_up(s, 0, unit, n, m->arrays.prior) || !add_up(s, 1, unit, n, m->arrays.extra)) return false;
  term = s->n_sum;
  for (atvi_idx k = 0; k < m->lik.n_rows; k++) {
    atvi_rows *rows = &m->lik.rows[k];
    atvi_idx size = rows->n_row * rows->n_el;
    rows->unit = atvi_pool_take(m->pool, (size_t)size + 1, sizeof *rows->unit);
    if (!rows->unit) return false;
    for (atvi_idx i = 0; i < size; i++) rows->unit[i] = unit_of(s, unit, term++);
  }
  return describe_units(m, unit, n);
}

static bool find(search *s) {
  size_t d = (size_t)s->d, n = (size_t)atvi_graph_size(s->g) + 1;
  choice c = {0};
  s->seen = atvi_pool_take(s->pool, n, sizeof *s->seen);
  s->stack = atvi_pool_take(s->pool, n, sizeof *s->stack);
  c.common = atvi_pool_take(s->pool, d, sizeof *c.common);
  c.best = atvi_pool_take(s->pool, d, sizeof *c.best);
  c.up = atvi_pool_take(s->pool, d, sizeof *c.up);
  c.size = atvi_pool_take(s->pool, d, sizeof *c.size);
  c.degree = atvi_pool_take(s->pool, d, sizeof *c.degree);
  if (atvi_pool_failed(s->pool)) return false;
  for (size_t i = 0; i < n; i++) s->seen[i] = -1;
  add_summands(s, 0, s->m->lang->log.prior);
  add_summands(s, 1, s->m->lang->log.extra);
  for (atvi_idx k = 0; k < s->m->lik.n_rows; k++) add_rows(s, &s->m->lik.rows[k]);
  if (atvi_pool_failed(s->pool)) return false;
  if (s->failed) return true;
  if (!count_degrees(s, c.degree)) return false;
  return !choose(s, &c) || make_units(s, &c);
}

atvi_status atvi_model_arrays(atvi_model *m) {
  search s = {.m = m, .g = m->lang->graph, .d = m->lang->n_param};
  if (s.d <= FEW || m->odes.any || m->lang->dynamics.n_state > 0 || m->emulated) return ATVI_OK;
  ATVI_TRY(atvi_pool_new(m->ctx, &s.pool));
  bool ok = find(&s) && !atvi_graph_failed(s.g);
  atvi_pool_free(s.pool);
  return ok ? ATVI_OK : ATVI_ENOMEM;
}
