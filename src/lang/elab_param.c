/* SPDX-License-Identifier: MIT */
/* Parameters: priors, bounds, the log prior density. */
#include "lang/elab.h"
#include <math.h>
#include <string.h>

/* Box of the prior's support, then of the bounds; says whether bounds cut something off. */
static bool bounds(elab *e, const ast_stmt *st, const elab_binding *vars, atvi_lang_param *p) {
  const atvi_dist_info *info = atvi_lang_dist_get(p->dist);
  double end[2] = {info->lower, info->upper}, bound[2];
  for (int k = 0; k < 2 && p->dist == ATVI_DIST_UNIFORM; k++)
    if (!atvi_lang_constant(e, p->arg[k], &end[k])) end[k] = k ? INFINITY : -INFINITY;
  p->lower = end[0];
  p->upper = end[1];
  if (!st->range.given) return true;
  if (!atvi_lang_number(e, vars, st->range.lower, "a bound", &bound[0]) ||
      !atvi_lang_number(e, vars, st->range.upper, "a bound", &bound[1]))
    return false;
  if (!(bound[0] < bound[1])) {
    atvi_lang_error(e->s, st->range.at, "the lower one comes first", "the bounds (%g, %g) are empty",
                    bound[0], bound[1]);
    return false;
  }
  if (bound[1] <= end[0] || bound[0] >= end[1]) {
    atvi_lang_error(e->s, st->range.at, "change the bounds or the prior",
                    "the bounds (%g, %g) contradict the prior, which lives on (%g, %g)", bound[0], bound[1],
                    end[0], end[1]);
    return false;
  }
  bool outside = (isfinite(bound[0]) && bound[0] < end[0]) || (isfinite(bound[1]) && bound[1] > end[1]);
  if (outside) {
    atvi_lang_error(e->s, st->range.at, "change the bounds or the prior",
                    "the bounds (%g, %g) reach outside the prior, which lives on (%g, %g)", bound[0],
                    bound[1], end[0], end[1]);
    return false;
  }
  p->lower = fmax(bound[0], end[0]);
  p->upper = fmin(bound[1], end[1]);
  p->truncated = p->lower > end[0] || p->upper < end[1];
  return true;
}

/* A flat prior is not a distribution, which everything that draws from the prior or begins there needs. A
 * proper reference takes its place, and the log density of the reference is taken off the likelihood: their
 * product is that of the flat one, exactly. Its tails fall slowly, so that it has something to say about
 * every order of magnitude. */
static const double REFERENCE_SCALE =
    10; /* its quartiles, in the parameter's unit; which number does not matter much */

static bool flat(elab *e, const ast_stmt *st, const elab_binding *vars, atvi_lang_param *p) {
  double end[2] = {-INFINITY, INFINITY};
  if (st->range.given && (!atvi_lang_number(e, vars, st->range.lower, "a bound", &end[0]) ||
                          !atvi_lang_number(e, vars, st->range.upper, "a bound", &end[1])))
    return false;
  if (!(end[0] < end[1])) {
    atvi_lang_error(e->s, st->range.at, "the lower one comes first", "the bounds (%g, %g) are empty", end[0],
                    end[1]);
    return false;
  }
  bool box = isfinite(end[0]) && isfinite(end[1]);
  double arg[2] = {isfinite(end[0]) ? end[0] : isfinite(end[1]) ? end[1] : 0, box ? end[1] : REFERENCE_SCALE};
  p->flat = true;
  p->dist = box ? ATVI_DIST_UNIFORM : ATVI_DIST_CAUCHY;
  p->n_arg = 2;
  for (int k = 0; k < 2; k++) p->arg[k] = atvi_graph_const(e->g, arg[k]);
  p->lower = end[0];
  p->upper = end[1];
  p->truncated = !box && (isfinite(end[0]) || isfinite(end[1]));
  return true;
}

/* param x in (a, b): uniform. */
static bool bounds_only(elab *e, const ast_stmt *st, const elab_binding *vars, atvi_lang_param *p) {
  double end[2];
  if (!atvi_lang_number(e, vars, st->range.lower, "a bound", &end[0]) ||
      !atvi_lang_number(e, vars, st->range.upper, "a bound", &end[1]))
    return false;
  if (!(end[0] < end[1]) || isinf(end[0]) || isinf(end[1])) {
    atvi_lang_error(
        e->s, st->range.at,
        "without a prior the bounds mean a uniform prior on them; for none: param x ~ flat in (0, inf)",
        "the bounds (%g, %g) must be finite and ascending", end[0], end[1]);
    return false;
  }
  p->dist = ATVI_DIST_UNIFORM;
  p->n_arg = 2;
  for (int k = 0; k < 2; k++) p->arg[k] = atvi_graph_const(e->g, end[k]);
  p->lower = end[0];
  p->upper = end[1];
  return true;
}

static atvi_node density(elab *e, const ast_stmt *st, const atvi_lang_param *p, atvi_idx index) {
  atvi_node x = atvi_graph_input(e->g, ATVI_IN_PARAM, index);
  if (!p->truncated) return atvi_lang_dist_lpdf(e->g, p->dist, x, p->arg, NULL);
  atvi_node mass = atvi_lang_dist_lmass(e->g, p->dist, p->lower, p->upper, p->arg);
  double constant;
  if (mass == ATVI_NODE_NONE && !atvi_graph_failed(e->g)) {
    atvi_lang_error(
        e->s, st->range.at,
        "use a normal, lognormal, exponential, student, cauchy or half-... prior, or constants as arguments",
        "a %s prior whose arguments are parameters cannot be truncated", atvi_lang_dist_get(p->dist)->name);
    return ATVI_NODE_NONE;
  }
  if (atvi_lang_constant(e, mass, &constant) && !(constant > -INFINITY)) {
    atvi_lang_error(e->s, st->range.at, "change the bounds or the prior",
                    "the bounds (%g, %g) contradict the prior: it has no mass there", p->lower, p->upper);
    return ATVI_NODE_NONE;
  }
  return atvi_graph_op2(e->g, ATVI_OP_SUB, atvi_lang_dist_lpdf(e->g, p->dist, x, p->arg, NULL), mass);
}

static bool map_name(elab *e, const ast_stmt *st, const char **map) {
  static const char *const MAPS[] = {"auto", "surjection", "probit", "logit", "log", "none"};
  *map = "auto";
  if (!st->option) return true;
  for (size_t i = 0; i < sizeof MAPS / sizeof *MAPS; i++)
    if (strcmp(st->option->text, MAPS[i]) == 0) {
      *map = MAPS[i];
      return true;
    }
  atvi_lang_error(e->s, st->column.time_at, "there are auto, surjection, probit, logit, log and none",
                  "unknown map '%.60s'", st->option->text);
  return false;
}

static bool param(elab *e, const elab_symbol *sym, elab_loop *loop, atvi_idx k, atvi_node *log_density) {
  const ast_stmt *st = sym->stmt;
  atvi_lang_param *p = &e->lang->param[sym->base + k];
  atvi_lang_loop_at(e, loop, k);
  p->place = sym->at;
  p->name = atvi_lang_element_name(e, sym->word->text, sym->n_dim, sym->dim, k);
  if (!p->name || !map_name(e, st, &p->map)) return false;
  if (st->flat) {
    if (!flat(e, st, loop->vars, p)) return false;
  } else if (!st->dist.args) {
    if (!bounds_only(e, st, loop->vars, p)) return false;
  } else {
    if (!atvi_lang_dist(e, st, true, &p->dist)) return false;
    p->n_arg = atvi_lang_dist_get(p->dist)->n_arg;
    elab_env v = {.vars = loop->vars, .allowed = ELAB_KIND(ATVI_IN_PARAM), .where = "a prior", .data = -1};
    if (!atvi_lang_dist_args(e, &v, st, p->dist, p->arg) || !bounds(e, st, loop->vars, p)) return false;
    if (sym->walk && !atvi_lang_walk_prior(e, sym->walk, sym->base + k, p)) return false;
  }
  *log_density = density(e, st, p, sym->base + k);
  return e->s->status == ATVI_OK;
}

/* Depth first through the arguments of priors; a parameter met while open closes a circle. Nodes and
 * parameters share one walk: the node of a parameter has the nodes of its prior's arguments below it. */
typedef struct {
  atvi_node node;
  int next;
} visit;

static atvi_node child(const elab *e, atvi_node x, int k) {
  atvi_node_info info = atvi_graph_get(e->g, x);
  if (info.op != ATVI_OP_INPUT) return k < info.n_arg ? info.arg[k] : ATVI_NODE_NONE;
  if (info.index2 != ATVI_IN_PARAM || info.index >= e->lang->n_param) return ATVI_NODE_NONE;
  const atvi_lang_param *p = &e->lang->param[info.index];
  return k < p->n_arg ? p->arg[k] : ATVI_NODE_NONE;
}

static bool no_circle_from(elab *e, atvi_node root, unsigned char *color, visit *stack) {
  atvi_idx n = 0;
  stack[n++] = (visit){root, 0};
  color[root] = 1;
  while (n > 0) {
    visit *top = &stack[n - 1];
    atvi_node next = child(e, top->node, top->next++);
    if (next == ATVI_NODE_NONE) {
      color[top->node] = 2;
      n--;
    } else if (color[next] == 0) {
      color[next] = 1;
      stack[n++] = (visit){next, 0};
    } else if (color[next] == 1) {
      const atvi_lang_param *p = NULL; /* some parameter on the circle: one is, for nodes alone have none */
      for (atvi_idx i = n - 1; i >= 0 && !p; i--) {
        atvi_node_info info = atvi_graph_get(e->g, stack[i].node);
        if (info.op == ATVI_OP_INPUT && info.index < e->lang->n_param) p = &e->lang->param[info.index];
      }
      if (p)
        atvi_lang_error(e->s, p->place, "one of the priors must not depend on the others",
                        "circular priors: the prior of '%.60s' depends on itself", p->name);
      return false;
    }
  }
  return true;
}

static bool no_circles(elab *e) {
  for (atvi_idx i = 0; i < e->lang->n_param; i++) atvi_graph_input(e->g, ATVI_IN_PARAM, i);
  atvi_idx n = atvi_graph_size(e->g);
  unsigned char *color = atvi_lang_take(e->s, n, 1);
  visit *stack = atvi_lang_take(e->s, n, sizeof *stack);
  if (!color || !stack) return false;
  for (atvi_idx i = 0; i < e->lang->n_param; i++) {
    atvi_node x = atvi_graph_input(e->g, ATVI_IN_PARAM, i);
    if (x == ATVI_NODE_NONE) return atvi_lang_nomem(e->s), false;
    if (color[x] == 0 && !no_circle_from(e, x, color, stack)) return false;
  }
  return true;
}

bool atvi_lang_params(elab *e) {
  atvi_idx n = 0;
  for (atvi_idx i = 0; i < e->n_symbol; i++)
    if (e->symbol[i]->kind == SYM_PARAM && (n += e->symbol[i]->total) > ELAB_MAX_PARAMS) {
      atvi_lang_error(e->s, e->symbol[i]->at, "choose smaller index sets",
                      "a model has at most %d parameters", ELAB_MAX_PARAMS);
      return false;
    }
  e->lang->param = atvi_lang_take(e->s, n, sizeof *e->lang->param);
  atvi_node *term = atvi_lang_take(e->s, n, sizeof *term);
  if (!e->lang->param || !term) return false;
  e->lang->n_param = n;
  for (atvi_idx i = 0; i < e->n_symbol; i++) {
    const elab_symbol *sym = e->symbol[i];
    elab_loop loop;
    if (sym->kind != SYM_PARAM) continue;
    if (!atvi_lang_loop(e, NULL, sym->n_dim, sym->stmt->dim, false, &loop)) return false;
    for (atvi_idx k = 0; k < sym->total; k++)
      if (!param(e, sym, &loop, k, &term[sym->base + k])) return false;
  }
  /* Priors of parameters outside the block are counted there. */
  atvi_idx outside = 0;
  for (atvi_idx i = 0; i < e->n_symbol; i++)
    if (e->symbol[i]->kind == SYM_PARAM && e->symbol[i]->level < e->in.level) outside += e->symbol[i]->total;
  e->lang->log.prior = atvi_graph_sum(e->g, n - outside, term + outside);
  atvi_idx flats = 0;
  for (atvi_idx i = outside; i < n; i++)
    if (e->lang->param[i].flat) term[flats++] = atvi_graph_op1(e->g, ATVI_OP_NEG, term[i]);
  e->lang->log.flat = atvi_graph_sum(e->g, flats, term);
  if (atvi_graph_failed(e->g)) return atvi_lang_nomem(e->s), false;
  return no_circles(e);
}
