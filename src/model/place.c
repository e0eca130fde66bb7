/* SPDX-License-Identifier: MIT */
/* Priors that depend on other parameters, expressed through a location and a scale (target.h): coordinates in
 * which the prior of a hierarchy has no funnel are made of these.
 *
 *   normal, cauchy, student        location and scale are their own
 *   lognormal                      the same of the logarithm
 *   exponential, half-...          scale; also a normal, cauchy or student prior at 0 of which the positive half is kept
 *   gamma, invgamma                scale; where the shape is no number, location and scale of the logarithm
 *   beta                           location and scale of the logit
 *   uniform                        its ends
 *
 * A parameter with a standard normal prior that the model uses as location + scale theta (below) has these.
 *
 * For the last four, location and scale need not be those of any moment: whatever they are, the change of
 * coordinates is exact. They only have to follow the prior. Other truncated priors stay as they are. */
#include "model/model.h"
#include <math.h>
#include <string.h>

/* Standard parameters of a hierarchy: those with a standard normal (Cauchy, Student) prior of which the model
 * uses
 *
 *     location + scale theta,   scale > 0
 *
 * where both are functions of other parameters, as in mu + tau * z[i]. With many or good data it is that sum
 * which they know, not z. Only the text is looked at: what is made of it (transform.h) is exact whatever the
 * location and scale are. One that has several scales, as those that a Cholesky factor mixes, has no such
 * sum: taking one of them for it bent a Gaussian process so much that 4 % of its posterior were out of
 * reach. */

/* How the model uses a parameter with a standard prior: as location + scale theta. */
typedef struct {
  bool found;
  atvi_node location, scale;
} use_of;

typedef struct {
  const atvi_model *m;
  const atvi_graph *g;
  atvi_idx d, n_node;
  /* [d] the product of a parameter and its scale. */
  atvi_node *product;
  /* [d] the factor that depends on parameters, of a product; and whether other products have another. */
  atvi_node *factor;
  bool *mixed;
  use_of *use;
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

/* A use may depend on those known before, but not on what is on a par with it: the steps of a walk, the terms
 * of a sum. */
static void look_for_circle(void *user, atvi_idx i) {
  search *s = user;
  bool is = i < s->d && s->product[i] != ATVI_NODE_NONE;
  s->circle = s->circle || i == s->at || (is && (!s->done[i] || s->first[i] == s->first[s->at]));
}

/* Sets whether there is a use without a circle: with its location, or else with 0. */
static bool find_use(search *s, atvi_idx i, atvi_node zero) {
  use_of *u = &s->use[i];
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

/* Nodes are made after what they depend on, so uses in the order of their products follow each other. order:
 * [d], n of them. */
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

/* [parameters], in the model's pool. Errors: ENOMEM. */
static atvi_status all_uses(atvi_model *m, use_of **out) {
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

enum { L = ATVI_LANES };

typedef atvi_node node;

static node two(atvi_graph *g, atvi_op op, node a, node b) { return atvi_graph_op2(g, op, a, b); }
static node number(atvi_graph *g, double x) { return atvi_graph_const(g, x); }

/* Root of the variance of the logarithm of a gamma variable of shape a, roughly: 1 / sqrt(a) where it is
 * large, 1 / a where small. */
static node log_spread(atvi_graph *g, node a) {
  return two(g, ATVI_OP_DIV, atvi_graph_op1(g, ATVI_OP_SQRT, two(g, ATVI_OP_ADD, number(g, 1), a)), a);
}

static atvi_prior_form gamma_like(atvi_graph *g, node shape, node mean, node *loc, node *scale) {
  *scale = mean;
  if (atvi_graph_is_const(g, shape, NULL)) return ATVI_PRIOR_RATIO;
  *loc = atvi_graph_op1(g, ATVI_OP_LOG, mean);
  *scale = log_spread(g, shape);
  return ATVI_PRIOR_LOG;
}

/* The half above 0 of a density that is centred there: a family of scales. */
static bool is_half(const atvi_graph *g, const atvi_lang_param *p, node location) {
  double at;
  return p->lower == 0 && isinf(p->upper) && atvi_graph_is_const(g, location, &at) && at == 0;
}

static atvi_prior_form form(atvi_graph *g, const atvi_lang_param *p, node *loc, node *scale) {
  const node *a = p->arg;
  node log_a, log_b, spread_a, spread_b;
  *loc = *scale = number(g, 0);
  if (p->dist == ATVI_DIST_NORMAL || p->dist == ATVI_DIST_CAUCHY || p->dist == ATVI_DIST_STUDENT ||
      p->dist == ATVI_DIST_LAPLACE || p->dist == ATVI_DIST_LOGISTIC) {
    int first = p->dist == ATVI_DIST_STUDENT;
    *loc = a[first];
    *scale = a[first + 1];
    return !p->truncated ? ATVI_PRIOR_LINE : is_half(g, p, *loc) ? ATVI_PRIOR_RATIO : ATVI_PRIOR_ALONE;
  }
  if (p->truncated) return ATVI_PRIOR_ALONE;
  switch (p->dist) {
  case ATVI_DIST_LOGNORMAL:
    *loc = a[0];
    *scale = a[1];
    return ATVI_PRIOR_LOG;
  case ATVI_DIST_GAMMA: return gamma_like(g, a[0], two(g, ATVI_OP_DIV, a[0], a[1]), loc, scale);
  case ATVI_DIST_INVGAMMA: return gamma_like(g, a[0], two(g, ATVI_OP_DIV, a[1], a[0]), loc, scale);
  case ATVI_DIST_WEIBULL:
    *scale = a[1];
    if (atvi_graph_is_const(g, a[0], NULL)) return ATVI_PRIOR_RATIO;
    *loc = atvi_graph_op1(g, ATVI_OP_LOG, a[1]);
    *scale = two(g, ATVI_OP_DIV, number(g, 1), a[0]);
    return ATVI_PRIOR_LOG;
  case ATVI_DIST_EXPONENTIAL: *scale = two(g, ATVI_OP_DIV, number(g, 1), a[0]); return ATVI_PRIOR_RATIO;
  case ATVI_DIST_HALFNORMAL:
  case ATVI_DIST_HALFCAUCHY: *scale = a[0]; return ATVI_PRIOR_RATIO;
  case ATVI_DIST_BETA:
    log_a = atvi_graph_op1(g, ATVI_OP_LOG, a[0]), log_b = atvi_graph_op1(g, ATVI_OP_LOG, a[1]);
    spread_a = log_spread(g, a[0]), spread_b = log_spread(g, a[1]);
    *loc = two(g, ATVI_OP_SUB, log_a, log_b);
    *scale = atvi_graph_op1(g, ATVI_OP_SQRT,
                            two(g, ATVI_OP_ADD, two(g, ATVI_OP_MUL, spread_a, spread_a),
                                two(g, ATVI_OP_MUL, spread_b, spread_b)));
    return ATVI_PRIOR_LOGIT;
  case ATVI_DIST_UNIFORM:
    *loc = a[0];
    *scale = two(g, ATVI_OP_SUB, a[1], a[0]);
    return ATVI_PRIOR_INTERVAL;
  default: return ATVI_PRIOR_ALONE;
  }
}

/* Which parameters the prior of each depends on. */
typedef struct {
  atvi_pool *pool;
  atvi_idx d;   /* parameters; what follows them are numbers of the unit */
  atvi_idx *on; /* all, one parameter's after the other's */
  atvi_idx n, cap;
  bool failed;
} dependences;

static void note_dependence(void *user, atvi_idx index) {
  dependences *d = user;
  if (index >= d->d) return;
  if (!ATVI_PUSH(d->pool, d->on, d->n, d->cap))
    d->failed = true;
  else
    d->on[d->n++] = index;
}

/* Level 0: depends on no parameter; level k + 1: depends on one of level k. The language forbids circles. */
static bool levels(atvi_model *m) {
  atvi_idx d = m->lang->n_param;
  atvi_idx *end = atvi_pool_take(m->pool, (size_t)d + 1, sizeof *end);
  m->levels.of = atvi_pool_take(m->pool, (size_t)d + 1, sizeof *m->levels.of);
  if (!end || !m->levels.of) return false;
  dependences dep = {.pool = m->pool, .d = m->lang->n_param};
  for (atvi_idx i = 0; i < d; i++) {
    for (int a = 0; a < m->lang->param[i].n_arg; a++)
      if (!atvi_model_inputs(m, m->lang->param[i].arg[a], ATVI_IN_PARAM, note_dependence, &dep) || dep.failed)
        return false;
    end[i] = dep.n;
  }
  for (bool changed = true; changed;) {
    changed = false;
    for (atvi_idx i = 0; i < d; i++)
      for (atvi_idx k = i ? end[i - 1] : 0; k < end[i]; k++)
        if (m->levels.of[dep.on[k]] + 1 > m->levels.of[i])
          m->levels.of[i] = m->levels.of[dep.on[k]] + 1, changed = true;
  }
  for (atvi_idx i = 0; i < d; i++)
    if (m->levels.of[i] + 1 > m->levels.n) m->levels.n = m->levels.of[i] + 1;
  return true;
}

/* The parameter that x is; -1: it is an expression. */
static atvi_idx parameter(const atvi_model *m, atvi_node x) {
  atvi_node_info info = atvi_graph_get(m->lang->graph, x);
  bool is = info.op == ATVI_OP_INPUT && info.index2 == ATVI_IN_PARAM && info.index < m->lang->n_param;
  return is ? info.index : -1;
}

typedef struct {
  atvi_idx of;
  bool found;
} mention;

static void note_mention(void *user, atvi_idx index) {
  mention *m = user;
  m->found = m->found || index == m->of;
}

/* Whether x depends on parameter i. */
static bool mentions(const atvi_model *m, atvi_node x, atvi_idx i) {
  mention at = {.of = i};
  return atvi_model_inputs(m, x, ATVI_IN_PARAM, note_mention, &at) && at.found;
}

/* A parameter with a prior of its own that is the location of others, or that others of its array begin with,
 * as in an AR(1) process. */
static bool is_location(const atvi_model *m, const use_of *use, atvi_idx i) {
  const atvi_lang_param *p = m->lang->param;
  for (atvi_idx k = 0; k < m->lang->n_param; k++) {
    bool next = k != i && p[k].place.line == p[i].place.line && p[k].place.column == p[i].place.column;
    if (use[k].found && parameter(m, use[k].location) == i) return true;
    for (int a = 0; a < p[k].n_arg && m->levels.of[k] > 0 && p[k].dist != ATVI_DIST_UNIFORM; a++)
      if (parameter(m, p[k].arg[a]) == i || (next && mentions(m, p[k].arg[a], i))) return true;
  }
  return false;
}

static bool set_link(atvi_model *m, const use_of *use, atvi_idx i, atvi_prior_link *link) {
  const atvi_lang_param *p = &m->lang->param[i];
  node loc = use[i].location, scale = use[i].scale;
  bool top = m->levels.of[i] == 0 && p->dist == ATVI_DIST_NORMAL && is_location(m, use, i);
  link->location = -1;
  if (m->levels.of[i] == 0 && !top && !use[i].found) return true;
  link->form = use[i].found ? ATVI_PRIOR_STANDARD : form(m->lang->graph, p, &loc, &scale);
  if (link->form == ATVI_PRIOR_ALONE) return true;
  if (atvi_graph_failed(m->lang->graph)) return false;
  dependences dep = {.pool = m->pool, .d = m->lang->n_param};
  if (link->form != ATVI_PRIOR_RATIO) link->location = parameter(m, loc);
  if (!atvi_model_inputs(m, scale, ATVI_IN_PARAM, note_dependence, &dep)) return false;
  link->n_on_scale = dep.n;
  if (!atvi_model_inputs(m, loc, ATVI_IN_PARAM, note_dependence, &dep) || dep.failed) return false;
  link->n_on = dep.n;
  link->on = dep.on;
  m->place.node[2 * m->place.n] = loc;
  m->place.node[2 * m->place.n + 1] = scale;
  m->place.param[m->place.n++] = i;
  return true;
}

atvi_status atvi_model_place(atvi_model *m) {
  atvi_idx d = m->lang->n_param;
  atvi_prior_link *link = atvi_pool_take(m->pool, (size_t)d + 1, sizeof *link);
  m->place.param = atvi_pool_take(m->pool, (size_t)d + 1, sizeof *m->place.param);
  m->place.node = atvi_pool_take(m->pool, (size_t)(2 * d + 1), sizeof *m->place.node);
  if (!link || !m->place.param || !m->place.node || !levels(m)) return ATVI_ENOMEM;
  use_of *use;
  ATVI_TRY(all_uses(m, &use));
  for (atvi_idx i = 0; i < d; i++)
    if (!set_link(m, use, i, &link[i])) return ATVI_ENOMEM;
  if (m->place.n > 0) m->target.prior = link;
  return atvi_graph_failed(m->lang->graph) ? ATVI_ENOMEM : ATVI_OK;
}

void atvi_model_prior_place(const void *self, void *work, atvi_idx B, const double *theta, double *location,
                            double *scale) {
  const atvi_model *m = self;
  atvi_model_work *w = work;
  for (atvi_idx first = 0; first < B; first += L) {
    int real = atvi_model_load_lanes(m, w, B, theta, first);
    atvi_graph_prog_run(&m->place.eval, w->scratch, (const double *[]){w->theta}, (double *[]){w->el});
    for (atvi_idx k = 0; k < m->place.n; k++) {
      atvi_idx to = m->place.param[k] * B + first;
      bool ratio = m->target.prior[m->place.param[k]].form == ATVI_PRIOR_RATIO;
      for (int l = 0; l < real; l++) {
        if (!ratio) location[to + l] = w->el[2 * k * L + l];
        scale[to + l] = w->el[(2 * k + 1) * L + l];
      }
    }
  }
}

void atvi_model_prior_place_vjp(const void *self, void *work, atvi_idx B, const double *theta,
                                const double *dlocation, const double *dscale, double *dtheta) {
  const atvi_model *m = self;
  atvi_model_work *w = work;
  for (atvi_idx first = 0; first < B; first += L) {
    int real = atvi_model_load_lanes(m, w, B, theta, first);
    for (atvi_idx k = 0; k < m->place.n; k++) {
      atvi_idx from = m->place.param[k] * B + first;
      bool ratio = m->target.prior[m->place.param[k]].form == ATVI_PRIOR_RATIO;
      for (int l = 0; l < L; l++) {
        w->el[2 * k * L + l] = l < real && !ratio ? dlocation[from + l] : 0;
        w->el[(2 * k + 1) * L + l] = l < real ? dscale[from + l] : 0;
      }
    }
    atvi_graph_prog_run(&m->place.vjp, w->scratch, (const double *[]){w->theta, w->el},
                        (double *[]){w->grad.prior});
    for (atvi_idx i = 0; i < m->target.d; i++)
      for (int l = 0; l < real; l++) dtheta[i * B + first + l] += w->grad.prior[i * L + l];
  }
}
