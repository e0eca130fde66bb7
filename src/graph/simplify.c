/* SPDX-License-Identifier: MIT */
/* Folding and identities, applied as nodes are made.
 *
 * Canonical forms: a constant comes first in + and *, other arguments in order of age; signs move outward (-a
 * * b is -(a b), a + -b is a - b), and into constants (-(c a) is (-c) a, -a / c is a / -c); x - c is -c + x;
 * x / c is (1/c) x where 1/c is exact (elsewhere floor(x / 49) would be 0 at 49: see lower.c); (1/b) a is a /
 * b, so that code generation sees all divisions by one b together. Every rule makes a smaller or more
 * canonical expression, hence the mutual recursion ends at once.
 *
 * Logarithms. exp(x) overflows or vanishes long before its logarithm does, so a logarithm looks at what its
 * argument is made of: split() writes it as coef * exp(expo), and log, log1p and xlogy then need the
 * logarithm of coef alone. Sums of positive multiples of exponentials are LOG_ADD; other sums are scaled by
 * their largest exponential. The scale is rounded by FLOOR, whose derivative is 0, as is that of the sum with
 * respect to its scale. a / (a + b) is INVLOGIT(log a - log b) where a and b are positive multiples of
 * exponentials, and 1 - INVLOGIT(x) is INVLOGIT(-x), so that probabilities near 1 keep their complements. */
#include "graph/internal.h"
#include <float.h>
#include <math.h>

enum {
  MAX_WHOLE_POWER = 16,
  MAX_LOOKS = 1 << 16 /* nodes that one split visits; what lies beyond is a coefficient */
};

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

/* ---- logarithms of exponentials ---- */
typedef struct {
  atvi_node coef, expo; /* expo: ATVI_NODE_NONE for exp(0) */
} power;

static atvi_node op1(atvi_graph *g, atvi_op op, atvi_node a) { return atvi_graph_op1(g, op, a); }

static atvi_node exponent(atvi_graph *g, power p) {
  return p.expo == ATVI_NODE_NONE ? constant(g, 0) : p.expo;
}

/* The logarithm of p where its coefficient is a positive number, else ATVI_NODE_NONE. */
static atvi_node positive(atvi_graph *g, power p) {
  double c;
  if (!atvi_graph_is_const(g, p.coef, &c) || !(c > 0 && isfinite(c))) return ATVI_NODE_NONE;
  return add(g, constant(g, log(c)), exponent(g, p));
}

static power power_sum(atvi_graph *g, power a, power b) {
  atvi_node la = positive(g, a), lb = positive(g, b);
  if (la != ATVI_NODE_NONE && lb != ATVI_NODE_NONE)
    return (power){constant(g, 1), atvi_graph_op2(g, ATVI_OP_LOG_ADD, la, lb)};
  atvi_node ea = exponent(g, a), eb = exponent(g, b);
  atvi_node top = op1(g, ATVI_OP_FLOOR, atvi_graph_op2(g, ATVI_OP_MAX, ea, eb));
  atvi_node sa = mul(g, a.coef, op1(g, ATVI_OP_EXP, sub(g, ea, top)));
  return (power){add(g, sa, mul(g, b.coef, op1(g, ATVI_OP_EXP, sub(g, eb, top)))), top};
}

static power split(atvi_graph *g, atvi_node x, int *looks);

enum { TINY_HAZARD = -20 }; /* log h below which 1 - exp(-h) is h (1 - h/2) to the last digit */

/* 1 - exp(-h) for h = exp(x), the probability of a complementary log-log link: about h, and lost, where h is
 * small. */
static power hazard(atvi_graph *g, atvi_node h, atvi_node x) {
  atvi_node small = atvi_graph_op2(g, ATVI_OP_MIN, x, constant(g, 0));
  atvi_node plain = mul(g, neg(g, op1(g, ATVI_OP_EXPM1, neg(g, h))), op1(g, ATVI_OP_EXP, neg(g, small)));
  atvi_node tiny = sub(g, constant(g, 1), mul(g, constant(g, 0.5), h));
  atvi_node is_tiny = atvi_graph_op2(g, ATVI_OP_LT, x, constant(g, TINY_HAZARD));
  return (power){atvi_graph_select(g, is_tiny, tiny, plain), small};
}

/* 1 - exp(e) */
static power one_less(atvi_graph *g, atvi_node e, int *looks) {
  atvi_node h = is_op(g, e, ATVI_OP_NEG) ? arg(g, e, 0) : ATVI_NODE_NONE;
  double c;
  if (is_op(g, e, ATVI_OP_MUL) && atvi_graph_is_const(g, arg(g, e, 0), &c) && c < 0) h = neg(g, e);
  if (h != ATVI_NODE_NONE && !g->failed && g->node[h].powers) {
    atvi_node x = positive(g, split(g, h, looks));
    if (x != ATVI_NODE_NONE) return hazard(g, h, x);
  }
  return (power){neg(g, op1(g, ATVI_OP_EXPM1, e)), ATVI_NODE_NONE};
}

static power split2(atvi_graph *g, const atvi_gnode *s, int *looks) {
  if (s->op == ATVI_OP_SUB && is_value(g, s->arg[0], 1) && is_op(g, s->arg[1], ATVI_OP_EXP))
    return one_less(g, arg(g, s->arg[1], 0), looks);
  power a = split(g, s->arg[0], looks), b = s->op == ATVI_OP_POW ? a : split(g, s->arg[1], looks);
  bool plain = a.expo == ATVI_NODE_NONE && b.expo == ATVI_NODE_NONE;
  if (g->failed) return a;
  if (plain)
    return (power){atvi_graph_op2(g, s->op, a.coef, s->op == ATVI_OP_POW ? s->arg[1] : b.coef), a.expo};
  switch (s->op) {
  case ATVI_OP_POW: return (power){atvi_graph_op2(g, s->op, a.coef, s->arg[1]), mul(g, s->arg[1], a.expo)};
  case ATVI_OP_MUL: return (power){mul(g, a.coef, b.coef), add(g, exponent(g, a), exponent(g, b))};
  case ATVI_OP_DIV: return (power){divide(g, a.coef, b.coef), sub(g, exponent(g, a), exponent(g, b))};
  case ATVI_OP_SUB: b.coef = neg(g, b.coef); return power_sum(g, a, b);
  default: return power_sum(g, a, b); /* ADD */
  }
}

static power split(atvi_graph *g, atvi_node x, int *looks) {
  const power whole = {x, ATVI_NODE_NONE}, none = {ATVI_NODE_NONE, ATVI_NODE_NONE};
  if (g->failed) return none;
  atvi_gnode s = g->node[x]; /* a copy: the array may move */
  if (!s.powers || --*looks < 0) return whole;
  if (s.op == ATVI_OP_EXP) return (power){constant(g, 1), s.arg[0]};
  if (s.op == ATVI_OP_INVLOGIT)
    return (power){constant(g, 1),
                   neg(g, atvi_graph_op2(g, ATVI_OP_LOG_ADD, constant(g, 0), neg(g, s.arg[0])))};
  if (s.n_arg == 2) return split2(g, &s, looks);
  power a = split(g, s.arg[0], looks);
  if (g->failed) return none;
  bool root = s.op == ATVI_OP_SQRT && a.expo != ATVI_NODE_NONE;
  return (power){op1(g, s.op, a.coef), root ? mul(g, constant(g, 0.5), a.expo) : a.expo}; /* NEG, SQRT */
}

/* The logarithm of a coefficient, which is not split again. */
static atvi_node log_coef(atvi_graph *g, atvi_node c) {
  if (g->failed) return ATVI_NODE_NONE;
  return is_op(g, c, ATVI_OP_CONST) ? op1(g, ATVI_OP_LOG, c) : raw1(g, ATVI_OP_LOG, c);
}

bool atvi_graph_split(atvi_graph *g, atvi_node x, atvi_node *coef, atvi_node *expo) {
  if (g->failed || x == ATVI_NODE_NONE || !g->node[x].powers) return false;
  int looks = MAX_LOOKS;
  power p = split(g, x, &looks);
  if (g->failed || (p.expo == ATVI_NODE_NONE && p.coef == x)) return false;
  *coef = p.coef;
  *expo = exponent(g, p);
  return true;
}

atvi_node atvi_graph_log_sum(atvi_graph *g, const atvi_node coef[2], const atvi_node expo[2]) {
  power p[2];
  for (int k = 0; k < 2; k++) {
    if (g->failed || coef[k] == ATVI_NODE_NONE || expo[k] == ATVI_NODE_NONE) return ATVI_NODE_NONE;
    p[k] = (power){coef[k], expo[k]};
    atvi_node more;
    if (atvi_graph_split(g, coef[k], &p[k].coef, &more)) p[k].expo = add(g, more, expo[k]);
  }
  power sum = power_sum(g, p[0], p[1]);
  return add(g, sum.expo, log_coef(g, sum.coef));
}

/* 1 - x where that is another expression than x with a minus sign, else ATVI_NODE_NONE. */
static atvi_node complement(atvi_graph *g, atvi_node x) {
  if (is_op(g, x, ATVI_OP_INVLOGIT)) return op1(g, ATVI_OP_INVLOGIT, neg(g, arg(g, x, 0)));
  if (is_op(g, x, ATVI_OP_EXP) && is_op(g, arg(g, x, 0), ATVI_OP_LOG_NDTR))
    return op1(g, ATVI_OP_EXP, op1(g, ATVI_OP_LOG_NDTR, neg(g, arg(g, arg(g, x, 0), 0))));
  return ATVI_NODE_NONE;
}

static atvi_node make_log(atvi_graph *g, atvi_node a) {
  atvi_node c, e;
  return atvi_graph_split(g, a, &c, &e) ? add(g, e, log_coef(g, c)) : raw1(g, ATVI_OP_LOG, a);
}

/* log(1 + c exp(e)) = m + log(exp(-m) + c exp(e - m)) with the whole number m = max(0, e), or the next below
 * it. */
static atvi_node make_log1p(atvi_graph *g, atvi_node a) {
  power p;
  atvi_node minus = is_op(g, a, ATVI_OP_NEG) ? arg(g, a, 0) : ATVI_NODE_NONE;
  if (minus != ATVI_NODE_NONE && complement(g, minus) != ATVI_NODE_NONE)
    return op1(g, ATVI_OP_LOG, complement(g, minus));
  if (minus != ATVI_NODE_NONE && is_op(g, minus, ATVI_OP_EXP))
    return make_log(g, sub(g, constant(g, 1), minus));
  if (!atvi_graph_split(g, a, &p.coef, &p.expo)) return raw1(g, ATVI_OP_LOG1P, a);
  atvi_node zero = constant(g, 0), l = positive(g, p);
  if (l != ATVI_NODE_NONE) return atvi_graph_op2(g, ATVI_OP_LOG_ADD, zero, l);
  atvi_node m = op1(g, ATVI_OP_FLOOR, atvi_graph_op2(g, ATVI_OP_MAX, zero, p.expo));
  atvi_node rest =
      add(g, op1(g, ATVI_OP_EXPM1, neg(g, m)), mul(g, p.coef, op1(g, ATVI_OP_EXP, sub(g, p.expo, m))));
  return g->failed ? ATVI_NODE_NONE : add(g, m, raw1(g, ATVI_OP_LOG1P, rest));
}

/* a / (a + b) for positive multiples a and b of exponentials, else ATVI_NODE_NONE. */
static atvi_node make_share(atvi_graph *g, atvi_node a, atvi_node b) {
  if (!is_op(g, b, ATVI_OP_ADD) || !g->node[b].powers || (arg(g, b, 0) != a && arg(g, b, 1) != a))
    return ATVI_NODE_NONE;
  int looks = MAX_LOOKS;
  power p = split(g, a, &looks), q = split(g, arg(g, b, arg(g, b, 0) == a), &looks);
  if (g->failed) return ATVI_NODE_NONE;
  atvi_node la = positive(g, p), lb = positive(g, q);
  if (la == ATVI_NODE_NONE || lb == ATVI_NODE_NONE) return ATVI_NODE_NONE;
  return op1(g, ATVI_OP_INVLOGIT, sub(g, la, lb));
}

static atvi_node make_log_add(atvi_graph *g, atvi_node a, atvi_node b) {
  order(g, &a, &b);
  if (is_value(g, a, -HUGE_VAL)) return b;
  if (a == b) return add(g, constant(g, log(2.0)), a);
  return raw2(g, ATVI_OP_LOG_ADD, a, b);
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
  if (is_value(g, a, 1) && complement(g, b) != ATVI_NODE_NONE) return complement(g, b);
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
  atvi_node share = make_share(g, a, b);
  if (share != ATVI_NODE_NONE) return share;
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
static atvi_node make_x(atvi_graph *g, atvi_op op, atvi_node a, atvi_node b, bool look) {
  double c;
  if (is_value(g, a, 0)) return constant(g, 0);
  bool log_form = op == ATVI_OP_XLOGY;
  bool plain = is_op(g, a, ATVI_OP_CONST);
  if (atvi_graph_is_const(g, b, &c)) plain = plain || (log_form ? isfinite(log(c)) : is_normal(1 / c));
  atvi_node coef, expo;
  if (look && log_form && !plain && atvi_graph_split(g, b, &coef, &expo))
    return add(g, mul(g, a, expo), make_x(g, op, a, coef, false));
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
  case ATVI_OP_LOG_ADD: return make_log_add(g, a, b);
  case ATVI_OP_XLOGY:
  case ATVI_OP_XDIVY: return make_x(g, op, a, b, true);
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
  if (op == ATVI_OP_LOG) return make_log(g, a);
  if (op == ATVI_OP_LOG1P) return make_log1p(g, a);
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

static atvi_node make_pick(atvi_graph *g, const atvi_gnode *like, const atvi_node *x) {
  atvi_gnode node = {.op = like->op, .n_arg = like->n_arg, .index = like->index};
  double known;
  for (int k = 0; k < like->n_arg; k++) {
    if (g->failed || x[k] == ATVI_NODE_NONE) return ATVI_NODE_NONE;
    node.arg[k] = x[k];
  }
  if (like->op == ATVI_OP_PICK && atvi_graph_is_const(g, x[0], &known))
    return atvi_graph_list_element(g, x[1], atvi_graph_pick_at(known, g->node[x[1]].index));
  return atvi_graph_intern(g, node);
}

atvi_node atvi_graph_make(atvi_graph *g, const atvi_gnode *like, const atvi_node *x) {
  bool varies = !g->failed && x[0] != ATVI_NODE_NONE && !is_op(g, x[0], ATVI_OP_CONST);
  if (like->op == ATVI_OP_PICK || like->op == ATVI_OP_LIST) return make_pick(g, like, x);
  switch (like->n_arg) {
  case 1:
    if (varies && (like->op == ATVI_OP_LOG || like->op == ATVI_OP_LOG1P)) return raw1(g, like->op, x[0]);
    return atvi_graph_op1(g, like->op, x[0]);
  case 2:
    if (varies && like->op == ATVI_OP_XLOGY && x[1] != ATVI_NODE_NONE)
      return make_x(g, like->op, x[0], x[1], false);
    if (like->op != ATVI_OP_FN) return atvi_graph_op2(g, like->op, x[0], x[1]);
    break;
  case 3:
    if (like->op == ATVI_OP_SELECT) return atvi_graph_select(g, x[0], x[1], x[2]);
    break;
  default: break;
  }
  return atvi_graph_fn(g, (atvi_fn)like->index, like->index2, like->n_arg, x);
}
