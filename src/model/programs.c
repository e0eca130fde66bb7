/* SPDX-License-Identifier: MIT */
/* From nodes to programs: loop-invariant work is hoisted, derivatives are appended, and two modules
 * are made: the hot one compiled, the cold one interpreted. */
#include "model/model.h"
#include <math.h>

enum { PARAM_BIT = 1u << ATVI_IN_PARAM };
#define KNOWN_BITS (1u << ATVI_IN_DATA | 1u << ATVI_IN_TIME | 1u << ATVI_IN_TABLE)

typedef struct {
  atvi_model *m;
  atvi_lang *lang;
  atvi_graph *g;
  atvi_idx n;       /* states */
  atvi_node *hoist; /* [n_hoist] */
  atvi_idx cap;
  atvi_node *rhs;    /* [n] rewritten in terms of HOIST */
  atvi_node *rest;   /* [n] likewise, on the way to a steady start */
  atvi_node **pulse; /* [n_combo][n] state after, rewritten */
  atvi_prog_spec *spec;
  atvi_idx n_spec;
  const atvi_ode_shape *shape; /* of the last Jacobian */
} builder;

static void *take(builder *b, atvi_idx n, size_t size) {
  return atvi_pool_take(b->m->pool, (size_t)(n > 0 ? n : 1), size);
}

static atvi_node *inputs(builder *b, int kind, atvi_idx n) {
  atvi_node *x = take(b, n, sizeof *x);
  for (atvi_idx i = 0; x && i < n; i++) x[i] = atvi_graph_input(b->g, kind, i);
  return x;
}

/* ---- rewriting ---- */
static void hoist(builder *b, atvi_idx n, atvi_node *x) {
  atvi_graph_hoist(b->g, n, x, PARAM_BIT, ATVI_IN_HOIST, b->cap, b->hoist, &b->m->prog.n_hoist);
}

/* The amounts of pulse item[i] of a combination, its numbers from the file being inputs of the solver; NULL
 * on ENOMEM. */
static const atvi_node *amounts(builder *b, const atvi_pulses *combo, atvi_idx i) {
  const atvi_lang_pulse *p = &b->lang->dynamics.pulse[combo->item[i]];
  if (!p->n_value) return p->amount;
  atvi_node *from = inputs(b, ATVI_IN_DATA, p->n_value), *to = take(b, p->n_value, sizeof *to);
  atvi_node *x = take(b, p->n, sizeof *x);
  if (!from || !to || !x) return NULL;
  atvi_idx at = atvi_model_pulse_at(b->lang, combo->item[i]);
  for (atvi_idx j = 0; j < i; j++)
    if (combo->item[j] == combo->item[i]) at += p->n_value;
  for (atvi_idx k = 0; k < p->n_value; k++) to[k] = atvi_graph_input(b->g, ATVI_IN_TABLE, at + k);
  for (atvi_idx j = 0; j < p->n; j++) x[j] = p->amount[j];
  atvi_graph_substitute(b->g, p->n, x, p->n_value, from, to);
  return x;
}

/* Lists that are picked from go into HOIST. */
static void place_lists(builder *b, atvi_idx n, atvi_node *x) {
  atvi_graph_place_lists(b->g, n, x, ATVI_IN_HOIST, b->cap, b->hoist, &b->m->prog.n_hoist);
}

/* Those of the cold programs, which are made later. */
static atvi_status place_cold_lists(builder *b) {
  const atvi_lang *lang = b->lang;
  atvi_node *x = take(b, lang->n_observe * ATVI_DIST_ARGS + lang->outputs.n_track, sizeof *x);
  atvi_idx n = 0;
  if (!x) return ATVI_ENOMEM;
  for (atvi_idx o = 0; o < lang->n_observe; o++)
    for (int a = 0; a < lang->observe[o].n_arg; a++) x[n++] = lang->observe[o].arg[a];
  for (atvi_idx i = 0; i < lang->outputs.n_track; i++) x[n++] = lang->outputs.track[i].node;
  place_lists(b, n, x);
  return ATVI_OK;
}

/* Delayed states come with the tables, after the jumps. */
static bool delays(builder *b) {
  atvi_model *m = b->m;
  const atvi_idx first = atvi_model_tab(b->lang) + m->jumps.n;
  atvi_node *from = inputs(b, ATVI_IN_DELAY, m->delays.n), *to = take(b, m->delays.n, sizeof *to);
  if (!from || !to) return false;
  for (atvi_idx k = 0; k < m->delays.n; k++) to[k] = atvi_graph_input(b->g, ATVI_IN_TABLE, first + k);
  if (m->delays.n) atvi_graph_substitute(b->g, b->n, b->rhs, m->delays.n, from, to);
  for (atvi_idx k = 0; k < m->delays.n; k++) {
    if (m->delays.node[k] == ATVI_NODE_NONE) continue;
    hoist(b, 1, &m->delays.node[k]);
    m->delays.delay[k].par = atvi_graph_failed(b->g) ? 0 : atvi_graph_get(b->g, m->delays.node[k]).index;
  }
  return true;
}

static atvi_status rewrite(builder *b) {
  atvi_model *m = b->m;
  b->cap = 5 * atvi_graph_size(b->g); /* a node of a list holds up to four elements */
  b->hoist = take(b, b->cap, sizeof *b->hoist);
  b->rhs = take(b, b->n, sizeof *b->rhs);
  b->rest = take(b, b->n, sizeof *b->rest);
  b->pulse = take(b, m->pulses.n_combo, sizeof *b->pulse);
  if (!b->hoist || !b->rhs || !b->rest || !b->pulse) return ATVI_ENOMEM;
  for (atvi_idx i = 0; i < b->n; i++) {
    b->rhs[i] = b->lang->dynamics.state[b->m->states.live[i]].rhs;
    b->rest[i] = b->lang->dynamics.state[b->m->states.live[i]].rest;
  }
  if (!delays(b)) return ATVI_ENOMEM;
  place_lists(b, b->n, b->rhs);
  ATVI_TRY(place_cold_lists(b));
  hoist(b, b->n, b->rhs);
  if (b->lang->dynamics.given) {
    place_lists(b, b->n, b->rest);
    hoist(b, b->n, b->rest);
  }
  m->odes.rhs_node = b->rhs;
  m->odes.rest_node = b->rest;
  m->jumps.at = take(b, m->jumps.n, sizeof *m->jumps.at);
  if (!m->jumps.at) return ATVI_ENOMEM;
  hoist(b, m->jumps.n, m->jumps.node);
  for (atvi_idx j = 0; j < m->jumps.n && !atvi_graph_failed(b->g); j++)
    m->jumps.at[j] = atvi_graph_get(b->g, m->jumps.node[j]).index;
  for (atvi_idx i = 0; i < m->copies.n; i++) {
    atvi_model *u = m->copies.unit[i];
    hoist(b, u->pulses.n_moving, u->pulses.moving_node);
    for (atvi_idx j = 0; j < u->pulses.n_moving && !atvi_graph_failed(b->g); j++)
      u->pulses.moving[j].par = atvi_graph_get(b->g, u->pulses.moving_node[j]).index;
  }
  place_lists(b, 2 * m->pulses.n_root, m->pulses.root_node);
  hoist(b, 2 * m->pulses.n_root, m->pulses.root_node);
  m->odes.path_node = take(b, b->lang->outputs.n_trajectory, sizeof *m->odes.path_node);
  if (!m->odes.path_node) return ATVI_ENOMEM;
  for (atvi_idx k = 0; k < b->lang->outputs.n_trajectory; k++)
    m->odes.path_node[k] = b->lang->outputs.trajectory[k].node;
  place_lists(b, b->lang->outputs.n_trajectory, m->odes.path_node);
  hoist(b, b->lang->outputs.n_trajectory, m->odes.path_node);
  for (atvi_idx c = 0; c < m->pulses.n_combo; c++) {
    atvi_node *y = b->pulse[c] = inputs(b, ATVI_IN_STATE, b->n);
    if (!y) return ATVI_ENOMEM;
    for (atvi_idx i = 0; i < m->pulses.combo[c].n; i++) {
      const atvi_lang_pulse *p = &b->lang->dynamics.pulse[m->pulses.combo[c].item[i]];
      const atvi_node *amount = amounts(b, &m->pulses.combo[c], i);
      if (!amount) return ATVI_ENOMEM;
      for (atvi_idx j = 0; j < p->n; j++) {
        atvi_node *at = &y[m->states.at[p->state[j]]]; /* a state with pulses is solved for */
        *at =
            p->how == ATVI_PULSE_SET
                ? amount[j]
                : atvi_graph_op2(b->g, p->how == ATVI_PULSE_ADD ? ATVI_OP_ADD : ATVI_OP_MUL, *at, amount[j]);
      }
    }
    place_lists(b, b->n, y);
    hoist(b, b->n, y);
  }
  for (atvi_idx k = 0; k < m->lik.n_rows; k++) {
    atvi_rows *rows = &m->lik.rows[k];
    if (rows->data >= 0) {
      place_lists(b, rows->n_el, rows->node);
      place_lists(b, rows->n_el, rows->whole);
      rows->known_node = take(b, b->cap, sizeof *rows->known_node);
      if (!rows->known_node) return ATVI_ENOMEM;
      atvi_graph_hoist(b->g, rows->n_el, rows->node, KNOWN_BITS, ATVI_IN_ROW, b->cap, rows->known_node,
                       &rows->n_known);
    }
    hoist(b, rows->n_el, rows->node);
  }
  return atvi_graph_failed(b->g) ? ATVI_ENOMEM : ATVI_OK;
}

/* ---- specifications ---- */
static void in(atvi_prog_spec *s, int kind, atvi_idx n, bool uniform) {
  s->in[s->n_in++] = (atvi_prog_in){kind, n, uniform};
}

static void out(atvi_prog_spec *s, atvi_idx n, const atvi_node *nodes, bool accumulate) {
  s->out[s->n_out++] = (atvi_prog_out){n, nodes, accumulate};
}

static atvi_prog_spec *begin(builder *b, const char *name, atvi_idx number) {
  atvi_prog_spec *s = &b->spec[b->n_spec++];
  s->name = number < 0 ? name : atvi_pool_printf(b->m->pool, "%s_%td", name, number);
  return s;
}

/* What the last output, adjoints of wrt first .. first + n - 1, gets from PICKs. */
static bool scatter(builder *b, atvi_prog_spec *s, const atvi_scatters *all, atvi_idx first) {
  atvi_scatter *x = take(b, all->n, sizeof *x);
  s->scatter_out = s->n_out - 1;
  s->scatter = x;
  for (atvi_idx i = 0; x && i < all->n; i++) {
    x[s->n_scatter] = all->item[i];
    x[s->n_scatter++].first -= first;
  }
  return x != NULL;
}

/* The last output of s: the gradient of sum seed * x by the parameters. */
static bool gradient(builder *b, atvi_prog_spec *s, atvi_idx n, const atvi_node *x, const atvi_node *seed) {
  const atvi_idx d = b->lang->n_param;
  atvi_node *wrt = inputs(b, ATVI_IN_PARAM, d), *grad = take(b, d, sizeof *grad);
  atvi_scatters picked = {.pool = b->m->pool};
  if (!wrt || !grad || !seed) return false;
  atvi_graph_vjp_scatter(b->g, n, x, seed, d, wrt, grad, &picked);
  out(s, d, grad, false);
  return scatter(b, s, &picked, 0);
}

/* parts: [n_array] what x is the sum of, as the third output; NULL: not wanted. */
static bool scalar_with_gradient(builder *b, const char *name, const atvi_node *x, const atvi_node *parts) {
  atvi_idx d = b->lang->n_param;
  atvi_node *one = take(b, 1, sizeof *one);
  if (!one) return false;
  *one = atvi_graph_const(b->g, 1);
  atvi_prog_spec *s = begin(b, name, -1);
  in(s, ATVI_IN_PARAM, d + b->m->copies.n_covariate, false);
  out(s, 1, x, false);
  bool ok = gradient(b, s, 1, x, one);
  if (parts) out(s, b->m->arrays.n, parts, false);
  return ok;
}

static bool setup(builder *b) {
  const atvi_emulated *e = b->m->emulated;
  atvi_idx d = b->lang->n_param, nh = b->m->prog.n_hoist, n_arg = e ? e->n_arg : 0, total = nh + b->n + n_arg;
  atvi_node *all = take(b, total, sizeof *all), *seed = inputs(b, ATVI_IN_SEED, total);
  if (!all || !seed) return false;
  for (atvi_idx i = 0; i < nh; i++) all[i] = b->hoist[i];
  for (atvi_idx i = 0; i < b->n; i++) all[nh + i] = b->lang->dynamics.state[b->m->states.live[i]].init;
  for (atvi_idx i = 0; i < n_arg; i++) all[nh + b->n + i] = e->arg[i];
  atvi_prog_spec *s = begin(b, "setup", -1);
  in(s, ATVI_IN_PARAM, d + b->m->copies.n_covariate, false);
  out(s, nh, all, false);
  out(s, b->n, all + nh, false);
  out(s, n_arg, all + nh + b->n, false);
  s = begin(b, "setup_vjp", -1);
  in(s, ATVI_IN_PARAM, d + b->m->copies.n_covariate, false);
  in(s, ATVI_IN_SEED, total, false);
  return gradient(b, s, total, all, seed);
}

/* Locations and scales of priors that depend on other parameters, and the adjoint. */
static bool placed(builder *b) {
  const atvi_model *m = b->m;
  atvi_idx d = b->lang->n_param, n = 2 * m->place.n;
  atvi_node *seed = inputs(b, ATVI_IN_SEED, n);
  atvi_prog_spec *s = begin(b, "placed", -1);
  in(s, ATVI_IN_PARAM, d + b->m->copies.n_covariate, false);
  out(s, n, m->place.node, false);
  s = begin(b, "placed_vjp", -1);
  in(s, ATVI_IN_PARAM, d + b->m->copies.n_covariate, false);
  in(s, ATVI_IN_SEED, n, false);
  return gradient(b, s, n, m->place.node, seed);
}

static void solver_inputs(builder *b, atvi_prog_spec *s) {
  in(s, ATVI_IN_TIME, 1, false);
  in(s, ATVI_IN_STATE, b->n, false);
  in(s, ATVI_IN_HOIST, b->m->prog.n_hoist, false);
  in(s, ATVI_IN_TABLE, atvi_model_tab(b->lang) + b->m->jumps.n + b->m->delays.n, false);
}

/* A program of the solver with n_out results (and as many truths after them, if `holds`), and its adjoint: by
 * the time too where some times move, and by delayed states, if there may be some. */
static bool solver_pair(builder *b, const char *name, const char *name_vjp, atvi_idx number, atvi_idx n_out,
                        const atvi_node *f, bool holds, bool delays) {
  const atvi_model *m = b->m;
  atvi_node *seed = inputs(b, ATVI_IN_SEED, n_out);
  const atvi_idx nd = delays ? m->delays.n : 0, first = atvi_model_tab(b->lang) + m->jumps.n,
                 nh = m->prog.n_hoist;
  atvi_idx nt =
               m->jumps.n + m->pulses.n_moving + m->odes.fit.most.moving + m->pulses.n_root + m->delays.n > 0,
           nw = b->n + nh + nt + nd;
  atvi_node *wrt = take(b, nw, sizeof *wrt), *grad = take(b, nw, sizeof *grad);
  if (!seed || !wrt || !grad) return false;
  for (atvi_idx i = 0; i < b->n + nh; i++)
    wrt[i] =
        i < b->n ? atvi_graph_input(b->g, ATVI_IN_STATE, i) : atvi_graph_input(b->g, ATVI_IN_HOIST, i - b->n);
  atvi_scatters picked = {.pool = b->m->pool};
  if (nt) wrt[b->n + nh] = atvi_graph_input(b->g, ATVI_IN_TIME, 0);
  for (atvi_idx k = 0; k < nd; k++) wrt[b->n + nh + 1 + k] = atvi_graph_input(b->g, ATVI_IN_TABLE, first + k);
  atvi_graph_vjp_scatter(b->g, n_out, f, seed, nw, wrt, grad, &picked);
  atvi_prog_spec *s = begin(b, name, number);
  solver_inputs(b, s);
  out(s, n_out, f, false);
  if (holds) out(s, n_out, f + n_out, false);
  s = begin(b, name_vjp, number);
  solver_inputs(b, s);
  in(s, ATVI_IN_SEED, n_out, false);
  out(s, b->n, grad, false);
  out(s, nh, grad + b->n, true);
  if (!scatter(b, s, &picked, b->n)) return false;
  if (nt) out(s, 1, grad + b->n + nh, false);
  if (nd) out(s, nd, grad + b->n + nh + 1, false);
  return true;
}

static bool jacobian(builder *b, const atvi_node *f) {
  atvi_idx n = b->n;
  atvi_node *jac = take(b, n * n, sizeof *jac), *wrt = inputs(b, ATVI_IN_STATE, n);
  if (!jac || !wrt) return false;
  atvi_node one = atvi_graph_const(b->g, 1);
  for (atvi_idx i = 0; i < n; i++) atvi_graph_vjp(b->g, 1, &f[i], &one, n, wrt, jac + i * n);
  int32_t *entry = take(b, n * n, sizeof *entry);
  atvi_idx n_entry = 0;
  for (atvi_idx i = 0; entry && i < n * n; i++) {
    double value;
    if (atvi_graph_is_const(b->g, jac[i], &value) && value == 0) continue;
    jac[n_entry] = jac[i];
    entry[n_entry++] = (int32_t)i;
  }
  b->shape = entry ? atvi_ode_shape_new(b->m->pool, n, n_entry, entry) : NULL;
  atvi_prog_spec *s = begin(b, "jac", -1);
  solver_inputs(b, s);
  out(s, n_entry, jac, false);
  return b->shape != NULL;
}

/* Operations that nodes take, each once; functions of libm count as several. */
static double operations(builder *b, atvi_idx n, const atvi_node *x) {
  enum { FUNCTION = 8 };
  atvi_idx size = atvi_graph_size(b->g);
  bool *need = take(b, size, sizeof *need);
  double sum = 0;
  if (!need) return -1;
  for (atvi_idx i = 0; i < n; i++) need[x[i]] = true;
  for (atvi_idx i = size - 1; i >= 0; i--) {
    if (!need[i]) continue;
    atvi_node_info s = atvi_graph_get(b->g, (atvi_node)i);
    for (int k = 0; k < s.n_arg; k++) need[s.arg[k]] = true;
    bool function =
        s.op == ATVI_OP_POW || s.op == ATVI_OP_FN || (s.op >= ATVI_OP_SQRT && s.op < ATVI_OP_SELECT);
    sum += s.n_arg == 0 || s.op == ATVI_OP_LIST ? 0 : function ? FUNCTION : 1;
  }
  return sum;
}

atvi_status atvi_model_jacobian(atvi_model *m, const atvi_node *f, bool compile, atvi_module **module,
                                atvi_ode *ode, double *ops_jac, double *ops_rhs) {
  builder b = {.m = m, .lang = m->lang, .g = m->lang->graph, .n = m->states.n};
  atvi_module_info info;
  b.spec = take(&b, 1, sizeof *b.spec);
  if (!b.spec || !jacobian(&b, f) || atvi_graph_failed(b.g)) return ATVI_ENOMEM;
  *ops_rhs = operations(&b, b.n, f);
  *ops_jac = operations(&b, b.shape->n_entry, b.spec->out[0].nodes);
  if (*ops_rhs < 0 || *ops_jac < 0) return ATVI_ENOMEM;
  atvi_graph_module_free(*module);
  *module = NULL;
  ATVI_TRY(
      atvi_graph_module_new(m->ctx, b.g, 1, b.spec, &(atvi_module_opts){.compile = compile}, module, &info));
  ode->jac = atvi_graph_module_get(*module, 0);
  ode->shape = b.shape;
  return ATVI_OK;
}

/* Whether element e of group k is left out in some row of some unit. */
static bool has_masked(const atvi_model *m, atvi_idx k, atvi_idx e) {
  for (atvi_idx i = 0; i < m->copies.n; i++) {
    const atvi_rows *rows = &m->copies.unit[i]->lik.rows[k];
    for (atvi_idx r = 0; r < rows->n_row; r++)
      if (rows->mask[r * rows->n_el + e] == 0) return true;
  }
  return false;
}

static bool row_pair(builder *b, atvi_idx k) {
  atvi_rows *rows = &b->m->lik.rows[k];
  atvi_idx n = b->n, np = b->m->lik.has_prev ? n : 0, nh = b->m->prog.n_hoist, nw = n + np + nh;
  atvi_node *seed = inputs(b, ATVI_IN_SEED, rows->n_el), *node = take(b, rows->n_el, sizeof *node);
  atvi_node *wrt = take(b, nw, sizeof *wrt), *grad = take(b, nw, sizeof *grad);
  if (!seed || !node || !wrt || !grad) return false;
  for (atvi_idx e = 0; e < rows->n_el; e++) {
    node[e] = rows->node[e];
    if (!has_masked(b->m, k, e)) continue;
    /* where the mask is 0 the density may be anything, an infinite slope too: differentiate a branch not
     * taken */
    node[e] = atvi_graph_select(b->g, seed[e], node[e], atvi_graph_const(b->g, 0));
    seed[e] = atvi_graph_const(b->g, 1);
  }
  for (atvi_idx i = 0; i < n; i++) wrt[i] = atvi_graph_input(b->g, ATVI_IN_STATE, i);
  for (atvi_idx i = 0; i < np; i++) wrt[n + i] = atvi_graph_input(b->g, ATVI_IN_PREV, i);
  for (atvi_idx i = 0; i < nh; i++) wrt[n + np + i] = atvi_graph_input(b->g, ATVI_IN_HOIST, i);
  atvi_scatters picked = {.pool = b->m->pool};
  atvi_graph_vjp_scatter(b->g, rows->n_el, node, seed, nw, wrt, grad, &picked);
  for (int with = 0; with < 2; with++) {
    atvi_prog_spec *s = begin(b, with ? "row_grad" : "row", k);
    in(s, ATVI_IN_HOIST, nh, false);
    in(s, ATVI_IN_STATE, n, false);
    in(s, ATVI_IN_PREV, np, false);
    in(s, ATVI_IN_ROW, rows->n_known, true);
    if (with) in(s, ATVI_IN_SEED, rows->n_el, true);
    out(s, rows->n_el, rows->node, false);
    if (!with) continue;
    out(s, n, grad, true);
    out(s, np, grad + n, true);
    out(s, nh, grad + n + np, true);
    if (!scatter(b, s, &picked, n + np)) return false;
  }
  return true;
}

enum { ONCE = 3 }; /* of the specifications, run once for a point: prior, extra, setup */

/* Operations of an evaluation, from the specifications: what is run once, and for every row. */
static bool count(builder *b) {
  atvi_model *m = b->m;
  double sum = 0, least = 0;
  m->prog.ops_rhs = least = operations(b, b->n, b->rhs);
  for (const atvi_prog_spec *s = b->spec; s < b->spec + ONCE; s++)
    for (int k = 0; k < s->n_out; k++) {
      double n = operations(b, s->out[k].n, s->out[k].nodes);
      least = fmin(least, n);
      sum += n;
    }
  for (atvi_idx k = 0; k < m->lik.n_rows; k++) {
    double n = operations(b, m->lik.rows[k].n_el, m->lik.rows[k].node);
    least = fmin(least, n);
    sum += n * (double)m->lik.rows[k].n_row;
  }
  m->prog.ops_point = sum;
  return least >= 0;
}

static atvi_status hot(builder *b, bool interpret) {
  atvi_model *m = b->m;
  double extra = 1;
  m->prog.has_extra = !atvi_graph_is_const(b->g, b->lang->log.extra, &extra) || extra != 0;
  b->spec = take(b, 19 + 2 * (m->lik.n_rows + m->pulses.n_combo), sizeof *b->spec);
  if (!b->spec) return ATVI_ENOMEM;
  bool stiff = b->lang->solver.kind == ATVI_SOLVER_STIFF;
  bool ok = scalar_with_gradient(b, "prior", &b->lang->log.prior, m->arrays.prior) &&
            scalar_with_gradient(b, "extra", &b->lang->log.extra, m->arrays.extra) && setup(b) &&
            solver_pair(b, "rhs", "rhs_vjp", -1, b->n, b->rhs, false, true);
  if (ok && b->lang->dynamics.given) ok = solver_pair(b, "rest", "rest_vjp", -1, b->n, b->rest, false, false);
  for (atvi_idx c = 0; ok && c < m->pulses.n_combo; c++)
    ok = solver_pair(b, "pulse", "pulse_vjp", c, b->n, b->pulse[c], false, true);
  if (ok && m->pulses.n_root)
    ok = solver_pair(b, "root", "root_vjp", -1, m->pulses.n_root, m->pulses.root_node, true, true);
  for (atvi_idx k = 0; ok && k < m->lik.n_rows; k++) ok = row_pair(b, k);
  if (ok && m->odes.any && stiff) ok = jacobian(b, b->rhs);
  if (ok && m->place.n > 0) ok = placed(b);
  if (ok && b->lang->outputs.n_trajectory > 0) {
    atvi_prog_spec *s = begin(b, "path", -1);
    solver_inputs(b, s);
    out(s, b->lang->outputs.n_trajectory, m->odes.path_node, false);
  }
  if (!ok || atvi_graph_failed(b->g) || !count(b)) return ATVI_ENOMEM;
  ATVI_TRY(atvi_graph_module_new(m->ctx, b->g, b->n_spec, b->spec, &(atvi_module_opts){.compile = !interpret},
                                 &m->prog.hot, &m->prog.info));

  atvi_idx i = 0;
  m->prog.prior = atvi_graph_module_get(m->prog.hot, i++);
  m->prog.extra = atvi_graph_module_get(m->prog.hot, i++);
  m->prog.setup = atvi_graph_module_get(m->prog.hot, i++);
  m->prog.setup_vjp = atvi_graph_module_get(m->prog.hot, i++);
  m->odes.fit.rhs = atvi_graph_module_get(m->prog.hot, i++);
  m->odes.fit.vjp = atvi_graph_module_get(m->prog.hot, i++);
  m->odes.steady.rhs = b->lang->dynamics.given ? atvi_graph_module_get(m->prog.hot, i++) : m->odes.fit.rhs;
  m->odes.steady.vjp = b->lang->dynamics.given ? atvi_graph_module_get(m->prog.hot, i++) : m->odes.fit.vjp;
  atvi_prog *pulse = take(b, 2 * m->pulses.n_combo, sizeof *pulse);
  if (!pulse) return ATVI_ENOMEM;
  for (atvi_idx c = 0; c < m->pulses.n_combo; c++) {
    pulse[c] = atvi_graph_module_get(m->prog.hot, i++);
    pulse[m->pulses.n_combo + c] = atvi_graph_module_get(m->prog.hot, i++);
  }
  m->odes.fit.pulses.n = m->pulses.n_combo;
  m->odes.fit.pulses.prog = pulse;
  m->odes.fit.pulses.vjp = pulse + m->pulses.n_combo;
  if (m->pulses.n_root) {
    m->odes.fit.roots.prog = atvi_graph_module_get(m->prog.hot, i++);
    m->odes.fit.roots.vjp = atvi_graph_module_get(m->prog.hot, i++);
  }
  for (atvi_idx k = 0; k < m->lik.n_rows; k++) {
    m->lik.rows[k].value = atvi_graph_module_get(m->prog.hot, i++);
    m->lik.rows[k].grad = atvi_graph_module_get(m->prog.hot, i++);
  }
  if (m->odes.any && stiff)
    m->odes.fit.jac = atvi_graph_module_get(m->prog.hot, i++), m->odes.fit.shape = b->shape;
  if (m->place.n > 0) {
    m->place.eval = atvi_graph_module_get(m->prog.hot, i++);
    m->place.vjp = atvi_graph_module_get(m->prog.hot, i++);
  }
  if (b->lang->outputs.n_trajectory > 0) m->odes.path.path = atvi_graph_module_get(m->prog.hot, i++);
  return ATVI_OK;
}

/* ---- tangents ---- */

/* From the specifications of the hot module: values without their gradients, and the first of each pair. */
static atvi_status tangents(builder *b) {
  atvi_model *m = b->m;
  const atvi_idx pairs =
      2 + (b->lang->dynamics.given ? 1 : 0) + m->pulses.n_combo + (m->pulses.n_root ? 1 : 0) + m->lik.n_rows;
  atvi_prog_spec *spec = take(b, 2 + pairs, sizeof *spec);
  atvi_prog *pulse = take(b, m->pulses.n_combo, sizeof *pulse);
  atvi_model_tangents *t = m->prog.tangents = take(b, 1, sizeof *t);
  if (!spec || !pulse || !t) return ATVI_ENOMEM;
  for (atvi_idx i = 0; i < 2 + pairs; i++) spec[i] = b->spec[i < 2 ? i : 2 * i - 2];
  for (int i = 0; i < 2; i++) spec[i].n_out = 1, spec[i].n_scatter = 0;
  ATVI_TRY(atvi_graph_module_new(m->ctx, b->g, 2 + pairs, spec, &(atvi_module_opts){.tangent = true},
                                 &t->module, NULL));
  atvi_idx i = 0;
  t->prior = atvi_graph_module_get(t->module, i++);
  t->extra = atvi_graph_module_get(t->module, i++);
  t->setup = atvi_graph_module_get(t->module, i++);
  t->ode.rhs = t->rest.rhs = atvi_graph_module_get(t->module, i++);
  if (b->lang->dynamics.given) t->rest.rhs = atvi_graph_module_get(t->module, i++);
  for (atvi_idx c = 0; c < m->pulses.n_combo; c++) pulse[c] = atvi_graph_module_get(t->module, i++);
  t->ode.pulse = t->rest.pulse = pulse;
  if (m->pulses.n_root) t->ode.root = atvi_graph_module_get(t->module, i++);
  for (atvi_idx k = 0; k < m->lik.n_rows; k++) m->lik.rows[k].tangent = atvi_graph_module_get(t->module, i++);
  m->odes.fit.tangents = &t->ode;
  m->odes.steady.tangents = &t->rest;
  t->ops = *m->target.ops;
  t->ops.tangent = atvi_model_tangent;
  m->target.ops = &t->ops;
  return ATVI_OK;
}

/* ---- the cold module ---- */
static atvi_prog_spec *cold_begin(builder *b, const char *name, atvi_idx number, atvi_idx n_col) {
  atvi_prog_spec *s = begin(b, name, number);
  in(s, ATVI_IN_PARAM, b->lang->n_param + b->m->copies.n_covariate, false);
  in(s, ATVI_IN_TIME, 1, true);
  in(s, ATVI_IN_STATE, b->n, false);
  in(s, ATVI_IN_PREV, b->n, false);
  in(s, ATVI_IN_TABLE, 2 * b->lang->n_table, true);
  in(s, ATVI_IN_DATA, n_col, true);
  in(s, ATVI_IN_HOIST, b->m->prog.n_hoist, false); /* lists alone */
  return s;
}

static bool values(builder *b, const char *name, atvi_idx n, const atvi_lang_value *v) {
  atvi_node *x = take(b, n, sizeof *x);
  if (!x) return false;
  for (atvi_idx i = 0; i < n; i++) x[i] = v[i].node;
  place_lists(b, n, x);
  atvi_prog_spec *s = cold_begin(b, name, -1, 0);
  in(s, ATVI_IN_TRAJECTORY, b->lang->outputs.n_trajectory, false);
  out(s, n, x, false);
  return true;
}

static bool prior_args(builder *b) {
  atvi_model *m = b->m;
  atvi_idx d = b->lang->n_param, at = 0;
  atvi_node *x = take(b, d * ATVI_DIST_ARGS, sizeof *x);
  m->levels.arg_at = take(b, d, sizeof *m->levels.arg_at);
  m->levels.param = take(b, d, sizeof *m->levels.param);
  m->levels.args = take(b, m->levels.n, sizeof *m->levels.args);
  m->levels.end = take(b, m->levels.n, sizeof *m->levels.end);
  if (!m->levels.arg_at || !x || !m->levels.param || !m->levels.args || !m->levels.end) return false;
  for (atvi_idx i = 0; i < d; i++) m->levels.end[m->levels.of[i]]++;
  for (atvi_idx k = 1; k < m->levels.n; k++) m->levels.end[k] += m->levels.end[k - 1];
  for (atvi_idx i = d - 1; i >= 0; i--) m->levels.param[--m->levels.end[m->levels.of[i]]] = i;
  for (atvi_idx k = 0; k < m->levels.n;
       k++) { /* level_end[k] is where level k begins, until it has been passed */
    atvi_idx n = 0, first = at;
    for (; at < d && m->levels.of[m->levels.param[at]] == k; at++) {
      const atvi_lang_param *p = &b->lang->param[m->levels.param[at]];
      m->levels.arg_at[m->levels.param[at]] = n;
      for (int a = 0; a < p->n_arg; a++) x[first * ATVI_DIST_ARGS + n++] = p->arg[a];
    }
    m->levels.end[k] = at;
    if (n > m->levels.most_arg) m->levels.most_arg = n;
    out(cold_begin(b, "prior_args", k, 0), n, x + first * ATVI_DIST_ARGS, false);
  }
  return true;
}

/* Arguments, then means, of a data set's observations. */
static bool report(builder *b, atvi_idx k) {
  const atvi_lang *lang = b->lang;
  atvi_node *args = take(b, lang->n_observe * ATVI_DIST_ARGS, sizeof *args);
  atvi_node *means = take(b, lang->n_observe, sizeof *means);
  if (!args || !means) return false;
  atvi_idx n = 0, n_mean = 0;
  for (atvi_idx o = 0; o < lang->n_observe; o++) {
    const atvi_lang_observe *obs = &lang->observe[o];
    if (obs->data != k) continue;
    for (int a = 0; a < obs->n_arg; a++) args[n++] = obs->arg[a];
    means[n_mean++] =
        obs->n_term > 0 ? atvi_graph_const(b->g, 0) : atvi_lang_dist_mean(b->g, obs->dist, obs->arg);
  }
  place_lists(b, n, args);
  place_lists(b, n_mean, means);
  b->m->rare.report_args[k] = n;
  atvi_prog_spec *s = cold_begin(b, "report", k, lang->data[k].n_col);
  out(s, n, args, false);
  out(s, n_mean, means, false);
  return true;
}

static atvi_status cold(builder *b) {
  atvi_model *m = b->m;
  const atvi_lang *lang = b->lang;
  if (m->prog.has_extra) ATVI_TRY(atvi_model_branches(m));
  b->spec = take(b, 4 + m->levels.n + lang->n_data + 2 * m->lik.n_rows + m->branches.n, sizeof *b->spec);
  b->n_spec = 0;
  m->rare.report = take(b, lang->n_data, sizeof *m->rare.report);
  m->rare.report_args = take(b, lang->n_data, sizeof *m->rare.report_args);
  bool ok = b->spec && m->rare.report && m->rare.report_args &&
            values(b, "derived", lang->outputs.n_derived, lang->outputs.derived) &&
            values(b, "track", lang->outputs.n_track, lang->outputs.track) && prior_args(b);
  for (atvi_idx k = 0; ok && k < lang->n_data; k++) ok = report(b, k);
  for (atvi_idx k = 0; ok && k < m->lik.n_rows; k++) {
    const atvi_rows *rows = &m->lik.rows[k];
    if (rows->data < 0) continue;
    atvi_idx n_col = lang->data[rows->data].n_col;
    out(cold_begin(b, "known", k, n_col), rows->n_known, rows->known_node, false);
    out(cold_begin(b, "each", k, n_col), rows->n_el, rows->whole, false);
  }
  const atvi_idx first_branch = b->n_spec;
  for (atvi_idx k = 0; ok && k < m->branches.n; k++)
    ok = scalar_with_gradient(b, "branch", &m->branches.node[k], NULL);
  if (!ok || atvi_graph_failed(b->g)) return ATVI_ENOMEM;
  atvi_module_info info;
  ATVI_TRY(atvi_graph_module_new(m->ctx, b->g, b->n_spec, b->spec, &(atvi_module_opts){.compile = false},
                                 &m->prog.cold, &info));
  atvi_idx i = 0;
  m->rare.derived = atvi_graph_module_get(m->prog.cold, i++);
  m->rare.track = atvi_graph_module_get(m->prog.cold, i++);
  for (atvi_idx k = 0; k < m->levels.n; k++) m->levels.args[k] = atvi_graph_module_get(m->prog.cold, i++);
  for (atvi_idx k = 0; k < lang->n_data; k++) m->rare.report[k] = atvi_graph_module_get(m->prog.cold, i++);
  for (atvi_idx k = 0; k < m->branches.n; k++)
    m->branches.extra[k] = atvi_graph_module_get(m->prog.cold, first_branch + k);
  return ATVI_OK;
}

/* Fills what is known per row of one unit. */
static atvi_status fill_unit(const atvi_model *u, atvi_rows *rows, const atvi_prog *known, double *lanes) {
  const atvi_lang *lang = u->lang;
  atvi_idx nk = rows->n_known, n_col = lang->data[rows->data].n_col;
  static const double zero[2 * ATVI_LANES];
  rows->known = atvi_pool_take(u->pool, (size_t)(rows->n_row * nk + 1), sizeof *rows->known);
  if (!rows->known) return ATVI_ENOMEM;
  for (atvi_idx r = 0; r < rows->n_row; r++) {
    const double *time = lang->data[rows->data].time ? &lang->data[rows->data].time[r] : zero;
    const double *tab = rows->out[r] >= 0 ? u->times.output_tab + 2 * lang->n_table * rows->out[r] : zero;
    const double *args[] = {zero, time, zero, zero, tab, u->lik.filled[rows->data] + r * n_col, zero};
    atvi_graph_prog_run(known, lanes + (nk + 1) * ATVI_LANES, args, (double *[]){lanes});
    for (atvi_idx i = 0; i < nk; i++) rows->known[r * nk + i] = lanes[i * ATVI_LANES];
  }
  return ATVI_OK;
}

/* Gives every unit the programs of its rows, and what is known there. Those of data group k stand in pairs
 * after the reports. */
static atvi_status fill_known(builder *b) {
  atvi_model *m = b->m;
  atvi_idx at = 2 + m->levels.n + b->lang->n_data;
  for (atvi_idx k = 0; k < m->lik.n_rows; k++) {
    atvi_rows *of = &m->lik.rows[k];
    const bool data = of->data >= 0;
    atvi_prog known = data ? atvi_graph_module_get(m->prog.cold, at++) : (atvi_prog){0};
    if (data) of->each = atvi_graph_module_get(m->prog.cold, at++);
    size_t room = (size_t)(of->n_known + 1) * ATVI_LANES + known.scratch;
    double *lanes = atvi_block(m->ctx, room * sizeof *lanes);
    atvi_status status = lanes ? ATVI_OK : ATVI_ENOMEM;
    for (atvi_idx i = 0; status == ATVI_OK && i < m->copies.n; i++) {
      atvi_rows *rows = &m->copies.unit[i]->lik.rows[k];
      rows->n_known = of->n_known;
      rows->value = of->value;
      rows->grad = of->grad;
      rows->tangent = of->tangent;
      rows->each = of->each;
      if (data) status = fill_unit(m->copies.unit[i], rows, &known, lanes);
    }
    atvi_block_free(m->ctx, lanes);
    ATVI_TRY(status);
  }
  return ATVI_OK;
}

static void most(size_t *scratch, atvi_prog p) {
  if (p.scratch > *scratch) *scratch = p.scratch;
}

atvi_status atvi_model_programs(atvi_model *m, const atvi_model_load_opts *opts) {
  builder b = {.m = m, .lang = m->lang, .g = m->lang->graph, .n = m->states.n};
  m->prog.interpret = opts->interpret;
  ATVI_TRY(rewrite(&b));
  ATVI_TRY(hot(&b, opts->interpret));
  if (opts->tangents && !m->emulated) ATVI_TRY(tangents(&b));
  ATVI_TRY(cold(&b));
  ATVI_TRY(fill_known(&b));
  most(&m->prog.scratch, m->prog.prior), most(&m->prog.scratch, m->prog.extra),
      most(&m->prog.scratch, m->prog.setup), most(&m->prog.scratch, m->prog.setup_vjp);
  most(&m->prog.scratch, m->place.eval), most(&m->prog.scratch, m->place.vjp);
  most(&m->prog.scratch, m->rare.derived), most(&m->prog.scratch, m->rare.track);
  for (atvi_idx k = 0; k < m->levels.n; k++) most(&m->prog.scratch, m->levels.args[k]);
  for (atvi_idx k = 0; k < m->lik.n_rows; k++)
    most(&m->prog.scratch, m->lik.rows[k].value), most(&m->prog.scratch, m->lik.rows[k].grad),
        most(&m->prog.scratch, m->lik.rows[k].each);
  if (m->prog.tangents)
    most(&m->prog.scratch, m->prog.tangents->prior), most(&m->prog.scratch, m->prog.tangents->extra),
        most(&m->prog.scratch, m->prog.tangents->setup);
  for (atvi_idx k = 0; k < m->lik.n_rows; k++) most(&m->prog.scratch, m->lik.rows[k].tangent);
  for (atvi_idx k = 0; k < m->lang->n_data; k++) most(&m->prog.scratch, m->rare.report[k]);
  for (atvi_idx k = 0; k < m->branches.n; k++) most(&m->prog.scratch, m->branches.extra[k]);
  return ATVI_OK;
}
