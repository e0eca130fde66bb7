/* SPDX-License-Identifier: MIT */
/* Standard parameters of a hierarchy: those with a standard normal (Cauchy, Student) prior of which the model uses
 *
 *     location + scale theta,   scale > 0
 *
 * where both are functions of other parameters, as in mu + tau * z[i]. With many or good data it is that sum which they know, not z.
 * Only the text is looked at: what is made of it (transform.h) is exact whatever the location and scale are. One that has several scales, as those that a Cholesky factor mixes,
 * has no such sum: taking one of them for it bent a Gaussian process so much that 4 % of its posterior were out of reach. */
#include "model/model.h"
#include <string.h>

typedef struct {
  const atvi_model *m;
  const atvi_graph *g;
  atvi_idx d, n_node;
  /* [d] the product of a parameter and its scale. */
  atvi_node *product;
  /* [d] the factor that depends on parameters, of a product; and whether other products have another. */
  atvi_node *factor;
  bool *mixed;
  atvi_use *use;
  /* [n_node] */
  bool *positive, *is_product;
  /* [n_node] of products: what is added to them; and whether that is so in more than one sum. */
  atvi_node *added;
  bool *several;
  /* [d] the lowest parameter that the scale depends on; those that share it are on a par. */
  atvi_idx *first;
  /* [d] whether its use is known. */
  bool *done;
  /* [d] parameters that priors of others depend on. */
  bool *outer;
  /* Of the parameter that is looked at. */
  atvi_idx at;
  bool circle;
} search;

static bool is_number(const atvi_graph *g, atvi_node x, double value) {
  double v;
  return atvi_graph_is_const(g, x, &v) && v == value;
}

static bool is_standard(const search *s, atvi_idx i) {
  const atvi_lang_param *p = &s->m->lang->param[i];
  int first = p->dist == ATVI_DIST_STUDENT;
  bool family = first || p->dist == ATVI_DIST_NORMAL || p->dist == ATVI_DIST_CAUCHY;
  return family && !p->truncated && is_number(s->g, p->arg[first], 0) &&
         is_number(s->g, p->arg[first + 1], 1);
}

static bool is_positive(const search *s, const atvi_node_info *x) {
  const bool a = x->n_arg > 0 && s->positive[x->arg[0]], b = x->n_arg > 1 && s->positive[x->arg[1]];
  switch (x->op) {
  case ATVI_OP_CONST: return x->value > 0;
  case ATVI_OP_INPUT:
    return x->index2 == ATVI_IN_PARAM && x->index < s->d && s->m->lang->param[x->index].lower >= 0;
  case ATVI_OP_EXP:
  case ATVI_OP_INVLOGIT: return true;
  case ATVI_OP_SQRT: return a;
  case ATVI_OP_POW: return a;
  case ATVI_OP_ADD:
  case ATVI_OP_MUL:
  case ATVI_OP_DIV: return a && b;
  default: return false;
  }
}

/* A positive function of parameters and nothing else. */
static bool is_scale(const search *s, atvi_node x) {
  return s->positive[x] && atvi_graph_kinds(s->g, x) == 1u << ATVI_IN_PARAM;
}

static void note_product(search *s, atvi_idx i, atvi_node product, atvi_node scale) {
  if (i < s->d && (atvi_graph_kinds(s->g, scale) & 1u << ATVI_IN_PARAM)) {
    s->mixed[i] = s->mixed[i] || (s->factor[i] != ATVI_NODE_NONE && s->factor[i] != scale);
    s->factor[i] = scale;
  }
  if (i >= s->d || !is_scale(s, scale) || s->product[i] != ATVI_NODE_NONE || s->outer[i] ||
      !is_standard(s, i))
    return;
  s->product[i] = product;
  s->use[i].scale = scale;
  s->is_product[product] = true;
}

/* x is a parameter, or one of a list that depends on the row. */
static void note_factor(search *s, atvi_node x, atvi_node product, atvi_node scale) {
  atvi_node_info f = atvi_graph_get(s->g, x);
  if (scale == x) return; /* a square, as in its prior */
  if (f.op == ATVI_OP_INPUT && f.index2 == ATVI_IN_PARAM) note_product(s, f.index, product, scale);
  for (atvi_node list = f.op == ATVI_OP_PICK ? f.arg[1] : ATVI_NODE_NONE; list != ATVI_NODE_NONE;) {
    atvi_node_info l = atvi_graph_get(s->g, list);
    list = ATVI_NODE_NONE;
    for (int k = 0; k < l.n_arg; k++) {
      atvi_node_info e = atvi_graph_get(s->g, l.arg[k]);
      if (e.op == ATVI_OP_LIST) list = l.arg[k];
      if (e.op == ATVI_OP_INPUT && e.index2 == ATVI_IN_PARAM) note_product(s, e.index, product, scale);
    }
  }
}

static void note_sum(search *s, atvi_node product, atvi_node other) {
  if (!s->is_product[product]) return;
  s->several[product] = s->added[product] != ATVI_NODE_NONE;
  s->added[product] = other;
}

static void find_products(search *s) {
  for (atvi_idx x = 0; x < s->n_node; x++) {
    atvi_node_info n = atvi_graph_get(s->g, (atvi_node)x);
    s->positive[x] = is_positive(s, &n);
    for (int k = 0; k < 2 && n.op == ATVI_OP_MUL; k++) note_factor(s, n.arg[k], (atvi_node)x, n.arg[1 - k]);
    for (int k = 0; k < 2 && n.op == ATVI_OP_ADD; k++) note_sum(s, n.arg[k], n.arg[1 - k]);
  }
}

/* What is added to a product, in its one sum. */
static void find_locations(search *s, atvi_node zero) {
  for (atvi_idx i = 0; i < s->d; i++) {
    if (s->mixed[i]) s->product[i] = ATVI_NODE_NONE;
    atvi_node p = s->product[i], a = p == ATVI_NODE_NONE ? ATVI_NODE_NONE : s->added[p];
    bool sum = a != ATVI_NODE_NONE && !s->several[p];
    bool fits = sum && (atvi_graph_kinds(s->g, a) & ~(1u << ATVI_IN_PARAM)) == 0;
    s->use[i].location = fits ? a : zero;
  }
}

/* ---- without circles ---- */

static void note_outer(void *user, atvi_idx i) {
  search *s = user;
  if (i < s->d) s->outer[i] = true;
}

static void note_first(void *user, atvi_idx i) {
  search *s = user;
  if (i < s->first[s->at]) s->first[s->at] = i;
}

/* A use may depend on those known before, but not on what is on a par with it: the steps of a walk, the terms of a sum. */
static void look_for_circle(void *user, atvi_idx i) {
  search *s = user;
  bool is = i < s->d && s->product[i] != ATVI_NODE_NONE;
  s->circle = s->circle || i == s->at || (is && (!s->done[i] || s->first[i] == s->first[s->at]));
}

/* Sets whether there is a use without a circle: with its location, or else with 0. */
static bool find_use(search *s, atvi_idx i, atvi_node zero) {
  atvi_use *u = &s->use[i];
  s->at = i;
  for (int k = 0; k < 2 && !u->found; k++) {
    s->circle = false;
    if (!atvi_model_inputs(s->m, u->location, ATVI_IN_PARAM, look_for_circle, s)) return false;
    if (!atvi_model_inputs(s->m, u->scale, ATVI_IN_PARAM, look_for_circle, s)) return false;
    u->found = !s->circle;
    if (s->circle) u->location = zero;
  }
  s->done[i] = true;
  return true;
}

/* Nodes are made after what they depend on, so uses in the order of their products follow each other. order: [d], n of them. */
static atvi_idx put_in_order(const search *s, atvi_idx *order) {
  atvi_idx n = 0;
  for (atvi_idx i = 0; i < s->d; i++) {
    if (s->product[i] == ATVI_NODE_NONE) continue;
    atvi_idx k = n++;
    for (; k > 0 && s->product[order[k - 1]] > s->product[i]; k--) order[k] = order[k - 1];
    order[k] = i;
  }
  return n;
}

static bool find_uses(search *s, atvi_node zero, atvi_idx *order) {
  atvi_idx n = put_in_order(s, order);
  for (s->at = 0; s->at < s->d; s->at++) {
    s->first[s->at] = s->d;
    if (s->product[s->at] == ATVI_NODE_NONE) continue;
    if (!atvi_model_inputs(s->m, s->use[s->at].scale, ATVI_IN_PARAM, note_first, s)) return false;
  }
  for (atvi_idx k = 0; k < n; k++)
    if (!find_use(s, order[k], zero)) return false;
  return true;
}

atvi_status atvi_model_uses(atvi_model *m, atvi_use **out) {
  atvi_graph *g = m->lang->graph;
  atvi_node zero = atvi_graph_const(g, 0);
  search s = {.m = m, .g = g, .d = m->lang->n_param, .n_node = atvi_graph_size(g)};
  size_t d = (size_t)s.d + 1, n = (size_t)s.n_node + 1;
  s.use = *out = atvi_pool_take(m->pool, d, sizeof *s.use);
  atvi_pool *pool;
  ATVI_TRY(atvi_pool_new(m->ctx, &pool));
  atvi_idx *order = atvi_pool_take(pool, d, sizeof *order);
  s.product = atvi_pool_take(pool, d, sizeof *s.product);
  s.factor = atvi_pool_take(pool, d, sizeof *s.factor);
  s.mixed = atvi_pool_take(pool, d, sizeof *s.mixed);
  s.positive = atvi_pool_take(pool, n, sizeof *s.positive);
  s.is_product = atvi_pool_take(pool, n, sizeof *s.is_product);
  s.added = atvi_pool_take(pool, n, sizeof *s.added);
  s.several = atvi_pool_take(pool, n, sizeof *s.several);
  s.first = atvi_pool_take(pool, d, sizeof *s.first);
  s.done = atvi_pool_take(pool, d, sizeof *s.done);
  s.outer = atvi_pool_take(pool, d, sizeof *s.outer);
  bool ok = s.use && !atvi_pool_failed(pool) && zero != ATVI_NODE_NONE;
  for (atvi_idx i = 0; ok && i < s.d; i++) s.product[i] = s.factor[i] = ATVI_NODE_NONE;
  for (atvi_idx x = 0; ok && x < s.n_node; x++) s.added[x] = ATVI_NODE_NONE;
  for (atvi_idx i = 0; ok && i < s.d; i++)
    for (int a = 0; ok && a < m->lang->param[i].n_arg; a++)
      ok = atvi_model_inputs(m, m->lang->param[i].arg[a], ATVI_IN_PARAM, note_outer, &s);
  if (ok) {
    find_products(&s);
    find_locations(&s, zero);
    ok = find_uses(&s, zero, order);
  }
  atvi_pool_free(pool);
  return ok ? ATVI_OK : ATVI_ENOMEM;
}
