/* SPDX-License-Identifier: MIT */
/* Priors that depend on other parameters, expressed through a location and a scale (target.h): coordinates in which the
 * prior of a hierarchy has no funnel are made of these.
 *
 *   normal, cauchy, student        location and scale are their own
 *   lognormal                      the same of the logarithm
 *   exponential, half-...          scale; also a normal, cauchy or student prior at 0 of which the positive half is kept
 *   gamma, invgamma                scale; where the shape is no number, location and scale of the logarithm
 *   beta                           location and scale of the logit
 *   uniform                        its ends
 *
 * A parameter with a standard normal prior that the model uses as location + scale theta (uses.c) has these.
 *
 * For the last four, location and scale need not be those of any moment: whatever they are, the change of coordinates is exact. They
 * only have to follow the prior. Other truncated priors stay as they are. */
#include "model/model.h"
#include <math.h>

enum { L = ATVI_LANES };

typedef atvi_node node;

static node two(atvi_graph *g, atvi_op op, node a, node b) { return atvi_graph_op2(g, op, a, b); }
static node number(atvi_graph *g, double x) { return atvi_graph_const(g, x); }

/* Root of the variance of the logarithm of a gamma variable of shape a, roughly: 1 / sqrt(a) where it is large, 1 / a where small. */
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
  if (p->dist == ATVI_DIST_NORMAL || p->dist == ATVI_DIST_CAUCHY || p->dist == ATVI_DIST_STUDENT) {
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
  m->level = atvi_pool_take(m->pool, (size_t)d + 1, sizeof *m->level);
  if (!end || !m->level) return false;
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
        if (m->level[dep.on[k]] + 1 > m->level[i]) m->level[i] = m->level[dep.on[k]] + 1, changed = true;
  }
  for (atvi_idx i = 0; i < d; i++)
    if (m->level[i] + 1 > m->n_level) m->n_level = m->level[i] + 1;
  return true;
}

/* The parameter that x is; -1: it is an expression. */
static atvi_idx parameter(const atvi_model *m, atvi_node x) {
  atvi_node_info info = atvi_graph_get(m->lang->graph, x);
  bool is = info.op == ATVI_OP_INPUT && info.index2 == ATVI_IN_PARAM && info.index < m->lang->n_param;
  return is ? info.index : -1;
}

/* A parameter with a prior of its own that is the location of others. */
static bool is_location(const atvi_model *m, const atvi_use *use, atvi_idx i) {
  const atvi_lang_param *p = m->lang->param;
  for (atvi_idx k = 0; k < m->lang->n_param; k++) {
    if (use[k].found && parameter(m, use[k].location) == i) return true;
    for (int a = 0; a < p[k].n_arg && m->level[k] > 0; a++)
      if (parameter(m, p[k].arg[a]) == i && p[k].dist != ATVI_DIST_UNIFORM) return true;
  }
  return false;
}

static bool set_link(atvi_model *m, const atvi_use *use, atvi_idx i, atvi_prior_link *link) {
  const atvi_lang_param *p = &m->lang->param[i];
  node loc = use[i].location, scale = use[i].scale;
  bool top = m->level[i] == 0 && p->dist == ATVI_DIST_NORMAL && is_location(m, use, i);
  link->location = -1;
  if (m->level[i] == 0 && !top && !use[i].found) return true;
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
  m->place_node[2 * m->n_place] = loc;
  m->place_node[2 * m->n_place + 1] = scale;
  m->place[m->n_place++] = i;
  return true;
}

atvi_status atvi_model_place(atvi_model *m) {
  atvi_idx d = m->lang->n_param;
  atvi_prior_link *link = atvi_pool_take(m->pool, (size_t)d + 1, sizeof *link);
  m->place = atvi_pool_take(m->pool, (size_t)d + 1, sizeof *m->place);
  m->place_node = atvi_pool_take(m->pool, (size_t)(2 * d + 1), sizeof *m->place_node);
  if (!link || !m->place || !m->place_node || !levels(m)) return ATVI_ENOMEM;
  atvi_use *use;
  ATVI_TRY(atvi_model_uses(m, &use));
  for (atvi_idx i = 0; i < d; i++)
    if (!set_link(m, use, i, &link[i])) return ATVI_ENOMEM;
  if (m->n_place > 0) m->target.prior = link;
  return atvi_graph_failed(m->lang->graph) ? ATVI_ENOMEM : ATVI_OK;
}

void atvi_model_prior_place(const void *self, void *work, atvi_idx B, const double *theta, double *location,
                            double *scale) {
  const atvi_model *m = self;
  atvi_model_work *w = work;
  for (atvi_idx first = 0; first < B; first += L) {
    int real = atvi_model_load_lanes(m, w, B, theta, first);
    atvi_graph_prog_run(&m->placed, w->scratch, (const double *[]){w->theta}, (double *[]){w->el});
    for (atvi_idx k = 0; k < m->n_place; k++) {
      atvi_idx to = m->place[k] * B + first;
      bool ratio = m->target.prior[m->place[k]].form == ATVI_PRIOR_RATIO;
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
    for (atvi_idx k = 0; k < m->n_place; k++) {
      atvi_idx from = m->place[k] * B + first;
      bool ratio = m->target.prior[m->place[k]].form == ATVI_PRIOR_RATIO;
      for (int l = 0; l < L; l++) {
        w->el[2 * k * L + l] = l < real && !ratio ? dlocation[from + l] : 0;
        w->el[(2 * k + 1) * L + l] = l < real ? dscale[from + l] : 0;
      }
    }
    atvi_graph_prog_run(&m->placed_vjp, w->scratch, (const double *[]){w->theta, w->el},
                        (double *[]){w->grad_p});
    for (atvi_idx i = 0; i < m->target.d; i++)
      for (int l = 0; l < real; l++) dtheta[i * B + first + l] += w->grad_p[i * L + l];
  }
}
