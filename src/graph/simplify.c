/* SPDX-License-Identifier: MIT */
/* Folding and identities, applied as nodes are made.
 *
 * Canonical forms: a constant comes first in + and *, other arguments in order of age; signs
 * move outward (-a * b is -(a b), a + -b is a - b), and into constants (-(c a) is (-c) a, -a / c is a / -c);
 * x - c is -c + x; x / c is (1/c) x where 1/c is exact (elsewhere floor(x / 49) would be 0 at 49: see lower.c);
 * (1/b) a is a / b, so that code generation sees all divisions by one b together. Every rule makes a
 * smaller or more canonical expression, hence the mutual recursion ends at once. */
#include "graph/internal.h"
#include <float.h>
#include <math.h>

enum { MAX_WHOLE_POWER = 16 };

static atvi_node add(atvi_graph *g, atvi_node a, atvi_node b) { return atvi_graph_op2(g, ATVI_OP_ADD, a, b); }
static atvi_node sub(atvi_graph *g, atvi_node a, atvi_node b) { return atvi_graph_op2(g, ATVI_OP_SUB, a, b); }
static atvi_node mul(atvi_graph *g, atvi_node a, atvi_node b) { return atvi_graph_op2(g, ATVI_OP_MUL, a, b); }
static atvi_node divide(atvi_graph *g, atvi_node a, atvi_node b) {
  return atvi_graph_op2(g, ATVI_OP_DIV, a, b);
}
static atvi_node neg(atvi_graph *g, atvi_node a) { return atvi_graph_op1(g, ATVI_OP_NEG, a); }
static atvi_node constant(atvi_graph *g, double v) { return atvi_graph_const(g, v); }

static bool is_op(const atvi_graph *g, atvi_node x, atvi_op op) { return g->node[x].op == op; }
static bool is_value(const atvi_graph *g, atvi_node x, double v) {
  return g->node[x].op == ATVI_OP_CONST && g->node[x].value == v;
}
static atvi_node arg(const atvi_graph *g, atvi_node x, int k) { return g->node[x].arg[k]; }
/* Fit to stand in for two constants: neither overflowed nor lost digits. */
static bool is_normal(double v) { return isnormal(v); }

static bool is_power_of_2(double v) {
  int exponent;
  return fabs(frexp(v, &exponent)) == 0.5;
}

static atvi_node raw1(atvi_graph *g, atvi_op op, atvi_node a) {
  return atvi_graph_intern(g, (atvi_gnode){.op = (uint8_t)op, .n_arg = 1, .arg = {a}});
}
static atvi_node raw2(atvi_graph *g, atvi_op op, atvi_node a, atvi_node b) {
  return atvi_graph_intern(g, (atvi_gnode){.op = (uint8_t)op, .n_arg = 2, .arg = {a, b}});
}

/* Constant first, then by age. */
static void order(const atvi_graph *g, atvi_node *a, atvi_node *b) {
  bool ca = is_op(g, *a, ATVI_OP_CONST), cb = is_op(g, *b, ATVI_OP_CONST);
  if (ca || (!cb && *a <= *b)) return;
  atvi_node t = *a;
  *a = *b;
  *b = t;
}

static atvi_node make_add(atvi_graph *g, atvi_node a, atvi_node b) {
  order(g, &a, &b);
  if (is_value(g, a, 0)) return b;
  if (a == b) return mul(g, constant(g, 2), a);
  if (is_op(g, b, ATVI_OP_NEG)) return sub(g, a, arg(g, b, 0));
  if (is_op(g, a, ATVI_OP_NEG)) return sub(g, b, arg(g, a, 0));
  if (is_op(g, a, ATVI_OP_CONST)) {
    atvi_op inner = g->node[b].op;
    double c;
    if ((inner == ATVI_OP_ADD || inner == ATVI_OP_SUB) && atvi_graph_is_const(g, arg(g, b, 0), &c))
      return atvi_graph_op2(g, inner, constant(g, g->node[a].value + c), arg(g, b, 1));
  }
  return raw2(g, ATVI_OP_ADD, a, b);
}

static atvi_node make_sub(atvi_graph *g, atvi_node a, atvi_node b) {
  double c;
  if (a == b) return constant(g, 0);
  if (atvi_graph_is_const(g, b, &c)) return add(g, constant(g, -c), a);
  if (is_value(g, a, 0)) return neg(g, b);
  if (is_op(g, b, ATVI_OP_NEG)) return add(g, a, arg(g, b, 0));
  if (is_op(g, a, ATVI_OP_NEG)) return neg(g, add(g, arg(g, a, 0), b));
  if (is_op(g, a, ATVI_OP_CONST)) {
    atvi_op inner = g->node[b].op;
    if ((inner == ATVI_OP_ADD || inner == ATVI_OP_SUB) && atvi_graph_is_const(g, arg(g, b, 0), &c))
      return atvi_graph_op2(g, inner == ATVI_OP_ADD ? ATVI_OP_SUB : ATVI_OP_ADD,
                            constant(g, g->node[a].value - c), arg(g, b, 1));
  }
  return raw2(g, ATVI_OP_SUB, a, b);
}

static atvi_node make_mul(atvi_graph *g, atvi_node a, atvi_node b) {
  double c;
  order(g, &a, &b);
  if (is_value(g, a, 0)) return constant(g, 0);
  if (is_value(g, a, 1)) return b;
  if (is_value(g, a, -1)) return neg(g, b);
  bool na = is_op(g, a, ATVI_OP_NEG), nb = is_op(g, b, ATVI_OP_NEG);
  if (na && nb) return mul(g, arg(g, a, 0), arg(g, b, 0));
  if (atvi_graph_is_const(g, a, &c)) {
    if (nb) return mul(g, constant(g, -c), arg(g, b, 0));
    double d;
    if (is_op(g, b, ATVI_OP_MUL) && atvi_graph_is_const(g, arg(g, b, 0), &d) && is_normal(c * d))
      return mul(g, constant(g, c * d), arg(g, b, 1));
  } else {
    if (na) return neg(g, mul(g, arg(g, a, 0), b));
    if (nb) return neg(g, mul(g, a, arg(g, b, 0)));
    if (is_op(g, b, ATVI_OP_DIV) && is_value(g, arg(g, b, 0), 1)) return divide(g, a, arg(g, b, 1));
    if (is_op(g, a, ATVI_OP_DIV) && is_value(g, arg(g, a, 0), 1)) return divide(g, b, arg(g, a, 1));
  }
  return raw2(g, ATVI_OP_MUL, a, b);
}

static atvi_node make_div(atvi_graph *g, atvi_node a, atvi_node b) {
  double c;
  if (is_value(g, a, 0)) return a;
  bool by_constant = atvi_graph_is_const(g, b, &c);
  if (by_constant && is_power_of_2(c) && is_normal(1 / c)) return mul(g, constant(g, 1 / c), a);
  if (by_constant && is_op(g, a, ATVI_OP_NEG)) return divide(g, arg(g, a, 0), constant(g, -c));
  bool na = is_op(g, a, ATVI_OP_NEG), nb = is_op(g, b, ATVI_OP_NEG);
  if (na || nb) {
    atvi_node q = divide(g, na ? arg(g, a, 0) : a, nb ? arg(g, b, 0) : b);
    return na && nb ? q : neg(g, q);
  }
  return raw2(g, ATVI_OP_DIV, a, b);
}

static atvi_node whole_power(atvi_graph *g, atvi_node x, int n) {
  atvi_node y = ATVI_NODE_NONE;
  for (;; n >>= 1) {
    if (n & 1) y = y == ATVI_NODE_NONE ? x : mul(g, y, x);
    if (n <= 1) return y;
    x = mul(g, x, x);
  }
}

static atvi_node make_pow(atvi_graph *g, atvi_node a, atvi_node b) {
  double c;
  if (is_value(g, a, 1)) return a;
  if (atvi_graph_is_const(g, b, &c)) {
    if (c == 0) return constant(g, 1);
    if (c == 0.5) return atvi_graph_op1(g, ATVI_OP_SQRT, a);
    if (c == -0.5) return divide(g, constant(g, 1), atvi_graph_op1(g, ATVI_OP_SQRT, a));
    if (fabs(c) <= MAX_WHOLE_POWER && c == floor(c)) {
      atvi_node y = whole_power(g, a, (int)fabs(c));
      return c > 0 ? y : divide(g, constant(g, 1), y);
    }
  }
  return raw2(g, ATVI_OP_POW, a, b);
}

static atvi_node truth(atvi_graph *g, atvi_node a) {
  if (atvi_graph_op_is_truth(g->node[a].op)) return a;
  return raw1(g, ATVI_OP_NOT, raw1(g, ATVI_OP_NOT, a));
}

static atvi_node make_logic(atvi_graph *g, atvi_op op, atvi_node a, atvi_node b) {
  double c;
  order(g, &a, &b);
  if (atvi_graph_is_const(g, a, &c)) {
    bool decides = (c != 0) == (op == ATVI_OP_OR);
    return decides ? constant(g, op == ATVI_OP_OR) : truth(g, b);
  }
  if (a == b) return truth(g, a);
  return raw2(g, op, a, b);
}

/* a log b and a / b with 0 wherever a == 0: plain once a is known not to be 0, or b to be harmless. */
static atvi_node make_x(atvi_graph *g, atvi_op op, atvi_node a, atvi_node b) {
  double c;
  if (is_value(g, a, 0)) return constant(g, 0);
  bool log_form = op == ATVI_OP_XLOGY;
  bool plain = is_op(g, a, ATVI_OP_CONST);
  if (atvi_graph_is_const(g, b, &c)) plain = plain || (log_form ? isfinite(log(c)) : is_normal(1 / c));
  if (!plain) return raw2(g, op, a, b);
  return log_form ? mul(g, a, atvi_graph_op1(g, ATVI_OP_LOG, b)) : divide(g, a, b);
}

atvi_node atvi_graph_op2(atvi_graph *g, atvi_op op, atvi_node a, atvi_node b) {
  ATVI_ASSERT(atvi_graph_op_arity(op) == 2);
  if (g->failed || a == ATVI_NODE_NONE || b == ATVI_NODE_NONE) return ATVI_NODE_NONE;
  double v[2];
  if (atvi_graph_is_const(g, a, &v[0]) && atvi_graph_is_const(g, b, &v[1]))
    return constant(g, atvi_graph_op_eval(op, 0, 0, v));
  switch (op) {
  case ATVI_OP_ADD: return make_add(g, a, b);
  case ATVI_OP_SUB: return make_sub(g, a, b);
  case ATVI_OP_MUL: return make_mul(g, a, b);
  case ATVI_OP_DIV: return make_div(g, a, b);
  case ATVI_OP_POW: return make_pow(g, a, b);
  case ATVI_OP_MIN:
  case ATVI_OP_MAX: return a == b ? a : raw2(g, op, a, b);
  case ATVI_OP_AND:
  case ATVI_OP_OR: return make_logic(g, op, a, b);
  case ATVI_OP_XLOGY:
  case ATVI_OP_XDIVY: return make_x(g, op, a, b);
  case ATVI_OP_LRISE:
  case ATVI_OP_LRISE_D: return is_value(g, b, 0) ? constant(g, 0) : raw2(g, op, a, b);
  case ATVI_OP_EQ: order(g, &a, &b); return raw2(g, op, a, b);
  default: return raw2(g, op, a, b);
  }
}

atvi_node atvi_graph_op1(atvi_graph *g, atvi_op op, atvi_node a) {
  ATVI_ASSERT(atvi_graph_op_arity(op) == 1);
  if (g->failed || a == ATVI_NODE_NONE) return ATVI_NODE_NONE;
  double c;
  if (atvi_graph_is_const(g, a, &c)) return constant(g, atvi_graph_op_eval(op, 0, 0, &c));
  atvi_op inner = g->node[a].op;
  if (op == ATVI_OP_NEG) {
    if (inner == ATVI_OP_NEG) return arg(g, a, 0);
    if (inner == ATVI_OP_SUB) return sub(g, arg(g, a, 1), arg(g, a, 0));
    if (inner == ATVI_OP_MUL && atvi_graph_is_const(g, arg(g, a, 0), &c))
      return mul(g, constant(g, -c), arg(g, a, 1));
    if (inner == ATVI_OP_DIV && atvi_graph_is_const(g, arg(g, a, 1), &c))
      return divide(g, arg(g, a, 0), constant(g, -c));
  }
  if (op == ATVI_OP_NOT && inner == ATVI_OP_NOT) return truth(g, arg(g, a, 0));
  if (op == ATVI_OP_ABS && inner == ATVI_OP_NEG) a = arg(g, a, 0);
  if (op == ATVI_OP_ABS && inner == ATVI_OP_ABS) return a;
  return raw1(g, op, a);
}

atvi_node atvi_graph_select(atvi_graph *g, atvi_node cond, atvi_node a, atvi_node b) {
  if (g->failed || cond == ATVI_NODE_NONE || a == ATVI_NODE_NONE || b == ATVI_NODE_NONE)
    return ATVI_NODE_NONE;
  double c;
  if (atvi_graph_is_const(g, cond, &c)) return c != 0 ? a : b;
  if (is_op(g, cond, ATVI_OP_NOT)) return atvi_graph_select(g, arg(g, cond, 0), b, a);
  if (is_op(g, a, ATVI_OP_SELECT) && arg(g, a, 0) == cond) a = arg(g, a, 1);
  if (is_op(g, b, ATVI_OP_SELECT) && arg(g, b, 0) == cond) b = arg(g, b, 2);
  if (a == b) return a;
  return atvi_graph_intern(g, (atvi_gnode){.op = ATVI_OP_SELECT, .n_arg = 3, .arg = {cond, a, b}});
}

atvi_node atvi_graph_fn(atvi_graph *g, atvi_fn fn, int derivative, int n_arg, const atvi_node *x) {
  ATVI_ASSERT(fn >= 0 && fn < ATVI_FN_COUNT && n_arg >= 2 && n_arg <= 4 && derivative >= 0 &&
              derivative <= n_arg);
  if (derivative == 1) return constant(g, 0);
  atvi_gnode node = {
      .op = ATVI_OP_FN, .n_arg = (uint8_t)n_arg, .index = (int32_t)fn, .index2 = (int32_t)derivative};
  double v[4] = {0};
  bool fold = true;
  for (int k = 0; k < n_arg; k++) {
    if (g->failed || x[k] == ATVI_NODE_NONE) return ATVI_NODE_NONE;
    node.arg[k] = x[k];
    fold = atvi_graph_is_const(g, x[k], &v[k]) && fold;
  }
  return fold ? constant(g, atvi_graph_fn_eval(fn, derivative, v)) : atvi_graph_intern(g, node);
}

atvi_node atvi_graph_make(atvi_graph *g, const atvi_gnode *like, const atvi_node *x) {
  switch (like->n_arg) {
  case 1: return atvi_graph_op1(g, like->op, x[0]);
  case 2:
    if (like->op != ATVI_OP_FN) return atvi_graph_op2(g, like->op, x[0], x[1]);
    break;
  case 3:
    if (like->op == ATVI_OP_SELECT) return atvi_graph_select(g, x[0], x[1], x[2]);
    break;
  default: break;
  }
  return atvi_graph_fn(g, (atvi_fn)like->index, like->index2, like->n_arg, x);
}
