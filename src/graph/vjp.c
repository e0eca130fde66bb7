/* SPDX-License-Identifier: MIT */
/* Reverse mode: one sweep down the nodes, each handing its adjoint to its arguments.
 *
 * Guarding. Where the expression branches (select, min, max) the branch not taken has adjoint
 * exactly 0, but its partial derivatives may be infinite or NaN (log at 0, ...), and 0 * inf
 * is NaN. An adjoint is "guarded" if all of it came through branches: such an adjoint w meets a
 * partial p that is not tame only as select(w, w * p, 0). Adjoints that are part of every
 * evaluation stay plain, so that code without branches pays nothing.
 *
 * Nothing is made for arguments that no wrt depends on. Derivatives reuse the value y of the node (exp,
 * sqrt, tanh, tan, division, pow) so that the programs share work. */
#include "graph/internal.h"
#include <math.h>

typedef struct {
  atvi_graph *g;
  atvi_node *adj;          /* [n] ATVI_NODE_NONE: none yet */
  bool *active;            /* [n] some wrt is at or below the node */
  bool *stop;              /* [n] is a wrt */
  bool *guard;             /* [n] all of adj came through branches */
  int32_t *at;             /* [n] number of a wrt, -1: it is none */
  atvi_scatters *scatters; /* NULL: none are wanted */
  atvi_node w;             /* adjoint of the node at hand */
  bool guarded;
} sweep;

static atvi_node op1(sweep *s, atvi_op op, atvi_node a) { return atvi_graph_op1(s->g, op, a); }
static atvi_node op2(sweep *s, atvi_op op, atvi_node a, atvi_node b) {
  return atvi_graph_op2(s->g, op, a, b);
}
static atvi_node con(sweep *s, double v) { return atvi_graph_const(s->g, v); }
static atvi_node add(sweep *s, atvi_node a, atvi_node b) { return op2(s, ATVI_OP_ADD, a, b); }
static atvi_node sub(sweep *s, atvi_node a, atvi_node b) { return op2(s, ATVI_OP_SUB, a, b); }
static atvi_node mul(sweep *s, atvi_node a, atvi_node b) { return op2(s, ATVI_OP_MUL, a, b); }
static atvi_node divide(sweep *s, atvi_node a, atvi_node b) { return op2(s, ATVI_OP_DIV, a, b); }
static atvi_node neg(sweep *s, atvi_node a) { return op1(s, ATVI_OP_NEG, a); }
static atvi_node one_minus_square(sweep *s, atvi_node a) { return sub(s, con(s, 1), mul(s, a, a)); }
static atvi_node one_plus_square(sweep *s, atvi_node a) { return add(s, con(s, 1), mul(s, a, a)); }

static void give(sweep *s, atvi_node to, atvi_node part, bool guarded) {
  if (part == ATVI_NODE_NONE || !s->active[to]) return;
  double v;
  if (atvi_graph_is_const(s->g, part, &v) && v == 0) return;
  bool first = s->adj[to] == ATVI_NODE_NONE;
  s->adj[to] = first ? part : add(s, s->adj[to], part);
  s->guard[to] = guarded && (first || s->guard[to]);
}

/* part, made from the adjoint w and something that may be infinite; 0 where w is. */
static void give_safe(sweep *s, atvi_node to, atvi_node part) {
  if (s->guarded) part = atvi_graph_select(s->g, s->w, part, con(s, 0));
  give(s, to, part, s->guarded);
}

static void give_times(sweep *s, atvi_node to, atvi_node partial) {
  if (partial == ATVI_NODE_NONE) return;
  atvi_node part = mul(s, s->w, partial);
  if (s->g->failed) return;
  if (s->g->node[partial].tame)
    give(s, to, part, s->guarded);
  else
    give_safe(s, to, part);
}

static void give_over(sweep *s, atvi_node to, atvi_node den) { give_safe(s, to, divide(s, s->w, den)); }

/* At a = 0: b a^(b-1) is 0 for b > 1, 1 for b = 1, infinite below; elsewhere b y / a spares a second pow. */
static void pow_vjp(sweep *s, atvi_node y, atvi_node a, atvi_node b) {
  atvi_node zero = con(s, 0), one = con(s, 1);
  if (s->active[a]) {
    atvi_node at0 = atvi_graph_select(s->g, op2(s, ATVI_OP_EQ, b, one), one, op2(s, ATVI_OP_XDIVY, b, zero));
    at0 = atvi_graph_select(s->g, op2(s, ATVI_OP_LT, one, b), zero, at0);
    atvi_node slope = mul(s, b, divide(s, y, a));
    give_times(s, a, atvi_graph_select(s->g, op2(s, ATVI_OP_EQ, a, zero), at0, slope));
  }
  if (s->active[b]) give_times(s, b, op2(s, ATVI_OP_XLOGY, y, a));
}

static void branch_vjp(sweep *s, atvi_node cond, atvi_node a, atvi_node b) {
  atvi_node zero = con(s, 0);
  if (s->active[a]) give(s, a, atvi_graph_select(s->g, cond, s->w, zero), true);
  if (s->active[b]) give(s, b, atvi_graph_select(s->g, cond, zero, s->w), true);
}

static void atan2_vjp(sweep *s, atvi_node a, atvi_node b) {
  atvi_node r = add(s, mul(s, a, a), mul(s, b, b));
  if (s->active[a]) give_times(s, a, divide(s, b, r));
  if (s->active[b]) give_times(s, b, neg(s, divide(s, a, r)));
}

static void lrise_vjp(sweep *s, bool derivative, atvi_node a, atvi_node b) {
  atvi_op up = derivative ? ATVI_OP_TRIGAMMA : ATVI_OP_DIGAMMA;
  atvi_node high = op1(s, up, add(s, a, b));
  if (s->active[a])
    give_times(s, a, derivative ? sub(s, high, op1(s, up, a)) : op2(s, ATVI_OP_LRISE_D, a, b));
  if (s->active[b]) give_times(s, b, high);
}

static void vjp2(sweep *s, atvi_op op, atvi_node y, atvi_node a, atvi_node b) {
  switch (op) {
  case ATVI_OP_ADD:
    give(s, a, s->w, s->guarded);
    give(s, b, s->w, s->guarded);
    break;
  case ATVI_OP_SUB:
    give(s, a, s->w, s->guarded);
    if (s->active[b]) give(s, b, neg(s, s->w), s->guarded);
    break;
  case ATVI_OP_MUL:
    if (s->active[a]) give_times(s, a, b);
    if (s->active[b]) give_times(s, b, a);
    break;
  case ATVI_OP_DIV:
    if (s->active[a]) give_over(s, a, b);
    if (s->active[b]) give_safe(s, b, neg(s, mul(s, divide(s, s->w, b), y)));
    break;
  case ATVI_OP_POW: pow_vjp(s, y, a, b); break;
  case ATVI_OP_MIN: branch_vjp(s, op2(s, ATVI_OP_LE, a, b), a, b); break;
  case ATVI_OP_MAX: branch_vjp(s, op2(s, ATVI_OP_LE, b, a), a, b); break;
  case ATVI_OP_ATAN2: atan2_vjp(s, a, b); break;
  case ATVI_OP_LOG_ADD:
    if (s->active[a]) give_times(s, a, op1(s, ATVI_OP_INVLOGIT, sub(s, a, b)));
    if (s->active[b]) give_times(s, b, op1(s, ATVI_OP_INVLOGIT, sub(s, b, a)));
    break;
  case ATVI_OP_XLOGY:
    if (s->active[a]) give_times(s, a, op1(s, ATVI_OP_LOG, b));
    if (s->active[b]) give_times(s, b, op2(s, ATVI_OP_XDIVY, a, b));
    break;
  case ATVI_OP_XDIVY:
    if (s->active[a]) give_over(s, a, b);
    if (s->active[b]) give_times(s, b, neg(s, op2(s, ATVI_OP_XDIVY, y, b)));
    break;
  case ATVI_OP_LRISE: lrise_vjp(s, false, a, b); break;
  case ATVI_OP_LRISE_D: lrise_vjp(s, true, a, b); break;
  default: break; /* comparisons and logic */
  }
}

static void vjp1(sweep *s, atvi_op op, atvi_node y, atvi_node a) {
  switch (op) {
  case ATVI_OP_NEG: give(s, a, neg(s, s->w), s->guarded); break;
  case ATVI_OP_ABS: give_times(s, a, op1(s, ATVI_OP_SIGN, a)); break;
  case ATVI_OP_SQRT: give_safe(s, a, divide(s, mul(s, con(s, 0.5), s->w), y)); break;
  case ATVI_OP_EXP: give_times(s, a, y); break;
  case ATVI_OP_LOG: give_over(s, a, a); break;
  case ATVI_OP_LOG1P: give_over(s, a, add(s, con(s, 1), a)); break;
  case ATVI_OP_EXPM1: give_times(s, a, add(s, con(s, 1), y)); break;
  case ATVI_OP_SIN: give_times(s, a, op1(s, ATVI_OP_COS, a)); break;
  case ATVI_OP_COS: give_times(s, a, neg(s, op1(s, ATVI_OP_SIN, a))); break;
  case ATVI_OP_TAN: give_times(s, a, one_plus_square(s, y)); break;
  case ATVI_OP_ASIN: give_over(s, a, op1(s, ATVI_OP_SQRT, one_minus_square(s, a))); break;
  case ATVI_OP_ACOS: give_over(s, a, neg(s, op1(s, ATVI_OP_SQRT, one_minus_square(s, a)))); break;
  case ATVI_OP_ATAN: give_over(s, a, one_plus_square(s, a)); break;
  case ATVI_OP_SINH: give_times(s, a, op1(s, ATVI_OP_COSH, a)); break;
  case ATVI_OP_COSH: give_times(s, a, op1(s, ATVI_OP_SINH, a)); break;
  case ATVI_OP_TANH: give_times(s, a, one_minus_square(s, y)); break;
  case ATVI_OP_ERF:
    give_times(s, a, mul(s, con(s, 1.1283791670955126), op1(s, ATVI_OP_EXP, neg(s, mul(s, a, a)))));
    break;
  case ATVI_OP_INVLOGIT: give_times(s, a, mul(s, y, op1(s, ATVI_OP_INVLOGIT, neg(s, a)))); break;
  case ATVI_OP_LGAMMA: give_times(s, a, op1(s, ATVI_OP_DIGAMMA, a)); break;
  case ATVI_OP_DIGAMMA: give_times(s, a, op1(s, ATVI_OP_TRIGAMMA, a)); break;
  case ATVI_OP_TRIGAMMA:
    give(s, a, con(s, NAN), s->guarded);
    break; /* no third derivative here: say so loudly */
  case ATVI_OP_LOG_NDTR: give_times(s, a, op1(s, ATVI_OP_LOG_NDTR_D, a)); break;
  case ATVI_OP_LOG_NDTR_D: give_times(s, a, neg(s, mul(s, y, add(s, a, y)))); break;
  default: break; /* not, sign, floor */
  }
}

static void fn_vjp(sweep *s, const atvi_gnode *x) {
  for (int k = 1; k < x->n_arg; k++) {
    if (!s->active[x->arg[k]]) continue;
    if (x->index2)
      give(s, x->arg[k], con(s, NAN), s->guarded); /* second derivatives are not known */
    else
      give_times(s, x->arg[k], atvi_graph_fn(s->g, (atvi_fn)x->index, k + 1, x->n_arg, x->arg));
  }
}

/* Whether x[n] are neighbouring wrt. */
static bool neighbours(const sweep *s, atvi_idx n, const atvi_node *x) {
  for (atvi_idx k = 0; k < n; k++)
    if (s->at[x[k]] < 0 || s->at[x[k]] != s->at[x[0]] + k) return false;
  return true;
}

static void pick_vjp(sweep *s, atvi_node index, atvi_node list) {
  atvi_graph *g = s->g;
  atvi_idx n = g->node[list].index;
  atvi_node *x = s->active[list] ? atvi_block(g->ctx, (size_t)n * sizeof *x) : NULL;
  if (!s->active[list]) return;
  if (!x) {
    g->failed = true;
    return;
  }
  atvi_graph_list_get(g, list, x);
  if (s->scatters && neighbours(s, n, x)) {
    atvi_scatters *to = s->scatters;
    if (ATVI_PUSH(to->pool, to->item, to->n, to->cap))
      to->item[to->n++] = (atvi_scatter){s->at[x[0]], n, index, s->w};
    else
      g->failed = true;
  } else {
    for (atvi_idx k = 0; k < n && !g->failed; k++)
      if (s->active[x[k]])
        give(s, x[k], atvi_graph_select(g, op2(s, ATVI_OP_EQ, con(s, (double)k), index), s->w, con(s, 0)),
             true);
  }
  atvi_block_free(g->ctx, x);
}

static void step(sweep *s, atvi_node y) {
  atvi_gnode x = s->g->node[y]; /* a copy: the array may move */
  s->w = s->adj[y];
  s->guarded = s->guard[y];
  if (x.op == ATVI_OP_SELECT)
    branch_vjp(s, x.arg[0], x.arg[1], x.arg[2]);
  else if (x.op == ATVI_OP_FN)
    fn_vjp(s, &x);
  else if (x.op == ATVI_OP_PICK)
    pick_vjp(s, x.arg[0], x.arg[1]);
  else if (x.n_arg == 2)
    vjp2(s, x.op, y, x.arg[0], x.arg[1]);
  else if (x.n_arg == 1)
    vjp1(s, x.op, y, x.arg[0]);
}

static sweep *sweep_new(atvi_graph *g) {
  atvi_arena a = {0};
  sweep *s = NULL, head = {.g = g};
  for (int pass = 0; pass < 2; pass++) {
    ATVI_TAKE(&a, s, 1);
    ATVI_TAKE(&a, head.adj, g->n);
    ATVI_TAKE(&a, head.active, g->n);
    ATVI_TAKE(&a, head.stop, g->n);
    ATVI_TAKE(&a, head.guard, g->n);
    ATVI_TAKE(&a, head.at, g->n);
    if (pass) break;
    a = (atvi_arena){.base = atvi_block(g->ctx, a.used)};
    if (!a.base) return NULL;
  }
  *s = head;
  for (atvi_idx i = 0; i < g->n; i++) s->adj[i] = ATVI_NODE_NONE, s->at[i] = -1;
  return s;
}

void atvi_graph_vjp(atvi_graph *g, atvi_idx n_out, const atvi_node *out, const atvi_node *seed,
                    atvi_idx n_wrt, const atvi_node *wrt, atvi_node *grad) {
  atvi_graph_vjp_scatter(g, n_out, out, seed, n_wrt, wrt, grad, NULL);
}

void atvi_graph_vjp_scatter(atvi_graph *g, atvi_idx n_out, const atvi_node *out, const atvi_node *seed,
                            atvi_idx n_wrt, const atvi_node *wrt, atvi_node *grad, atvi_scatters *scatters) {
  atvi_idx n = g->n;
  sweep *s = g->failed ? NULL : sweep_new(g);
  for (atvi_idx i = 0; i < n_wrt; i++) grad[i] = ATVI_NODE_NONE;
  if (!s) {
    g->failed = true;
    return;
  }
  s->scatters = scatters;
  for (atvi_idx i = 0; i < n_wrt; i++) s->active[wrt[i]] = s->stop[wrt[i]] = true, s->at[wrt[i]] = (int32_t)i;
  for (atvi_idx i = 0; i < n; i++)
    for (int k = 0; k < g->node[i].n_arg; k++) s->active[i] = s->active[i] || s->active[g->node[i].arg[k]];
  for (atvi_idx k = 0; k < n_out; k++) give(s, out[k], seed[k], false);
  for (atvi_idx i = n - 1; i >= 0 && !g->failed; i--)
    if (s->adj[i] != ATVI_NODE_NONE && !s->stop[i]) step(s, (atvi_node)i);
  for (atvi_idx i = 0; i < n_wrt; i++) {
    atvi_node a = s->adj[wrt[i]];
    grad[i] = g->failed ? ATVI_NODE_NONE : a == ATVI_NODE_NONE ? con(s, 0) : a;
  }
  atvi_block_free(g->ctx, s);
}
