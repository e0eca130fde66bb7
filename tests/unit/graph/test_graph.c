/* SPDX-License-Identifier: MIT */
#include "exprs.h"
#include "testing.h"

static atvi_ctx *ctx;
static atvi_graph *g;

static void begin(void) {
  ctx = test_ctx();
  CHECK_OK(atvi_graph_new(ctx, &g));
}

static void end(void) {
  CHECK(!atvi_graph_failed(g));
  atvi_graph_free(g);
  atvi_graph_free(NULL);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

static atvi_node con(double v) { return atvi_graph_const(g, v); }
static atvi_node in(int i) { return atvi_graph_input(g, 0, i); }
static atvi_node op1(atvi_op op, atvi_node a) { return atvi_graph_op1(g, op, a); }
static atvi_node op2(atvi_op op, atvi_node a, atvi_node b) { return atvi_graph_op2(g, op, a, b); }

static double value(atvi_node x, const double *at) {
  double v;
  CHECK_OK(atvi_graph_value(ctx, g, x, (const double *const[]){at, at, at}, &v));
  return v;
}

static atvi_node gradient(atvi_node y, atvi_node x) {
  atvi_node seed = con(1), grad;
  atvi_graph_vjp(g, 1, &y, &seed, 1, &x, &grad);
  return grad;
}

static void equal_nodes_are_one(void) {
  begin();
  atvi_node x = in(0), y = in(1);
  CHECK(in(0) == x && x != y && con(2.385) == con(2.385) && con(NAN) == con(-NAN));
  CHECK(op2(ATVI_OP_ADD, x, y) == op2(ATVI_OP_ADD, y, x));
  CHECK(op2(ATVI_OP_MUL, x, y) == op2(ATVI_OP_MUL, y, x));
  CHECK(op2(ATVI_OP_EQ, x, y) == op2(ATVI_OP_EQ, y, x));
  CHECK(op2(ATVI_OP_LT, x, y) != op2(ATVI_OP_LT, y, x));
  CHECK(op2(ATVI_OP_SUB, x, y) != op2(ATVI_OP_SUB, y, x));
  atvi_idx n = atvi_graph_size(g);
  for (int k = 0; k < 10; k++) op1(ATVI_OP_EXP, op2(ATVI_OP_ADD, x, y));
  CHECK_INT(atvi_graph_size(g), n + 1);
  atvi_node_info info = atvi_graph_get(g, op1(ATVI_OP_EXP, op2(ATVI_OP_ADD, x, atvi_graph_input(g, 3, 7))));
  CHECK(info.op == ATVI_OP_EXP && info.n_arg == 1 && info.kinds == (1u | 1u << 3));
  CHECK(atvi_graph_kinds(g, x) == 1 && atvi_graph_kinds(g, con(2)) == 0);
  double v;
  CHECK(atvi_graph_is_const(g, con(2.385), &v) && v == 2.385 && !atvi_graph_is_const(g, x, NULL));
  end();
}

static void identities_hold(void) {
  begin();
  atvi_node x = in(0), y = in(1), zero = con(0), one = con(1);
  CHECK(op2(ATVI_OP_ADD, x, zero) == x && op2(ATVI_OP_ADD, zero, x) == x && op2(ATVI_OP_SUB, x, zero) == x);
  CHECK(op2(ATVI_OP_MUL, x, one) == x && op2(ATVI_OP_MUL, x, zero) == zero && op2(ATVI_OP_DIV, x, one) == x);
  CHECK(op2(ATVI_OP_SUB, x, x) == zero && op2(ATVI_OP_SUB, zero, x) == op1(ATVI_OP_NEG, x));
  CHECK(op1(ATVI_OP_NEG, op1(ATVI_OP_NEG, x)) == x);
  CHECK(op2(ATVI_OP_ADD, x, op1(ATVI_OP_NEG, y)) == op2(ATVI_OP_SUB, x, y));
  CHECK(op1(ATVI_OP_NEG, op2(ATVI_OP_SUB, x, y)) == op2(ATVI_OP_SUB, y, x));
  CHECK(op2(ATVI_OP_MUL, op1(ATVI_OP_NEG, x), op1(ATVI_OP_NEG, y)) == op2(ATVI_OP_MUL, x, y));
  CHECK(op2(ATVI_OP_POW, x, zero) == one && op2(ATVI_OP_POW, x, one) == x);
  CHECK(op2(ATVI_OP_POW, x, con(2)) == op2(ATVI_OP_MUL, x, x));
  CHECK(op2(ATVI_OP_POW, x, con(0.5)) == op1(ATVI_OP_SQRT, x));
  CHECK(op2(ATVI_OP_MUL, con(3), op2(ATVI_OP_MUL, con(0.5), x)) == op2(ATVI_OP_MUL, con(1.5), x));
  CHECK(op2(ATVI_OP_ADD, con(3), op2(ATVI_OP_SUB, con(0.5), x)) == op2(ATVI_OP_SUB, con(3.5), x));
  CHECK(atvi_graph_select(g, one, x, y) == x && atvi_graph_select(g, zero, x, y) == y);
  CHECK(atvi_graph_select(g, x, y, y) == y);
  CHECK(op2(ATVI_OP_XLOGY, zero, x) == zero && op2(ATVI_OP_XDIVY, zero, x) == zero);
  CHECK(op2(ATVI_OP_MUL, op2(ATVI_OP_DIV, one, x), y) == op2(ATVI_OP_DIV, y, x));
  CHECK(op2(ATVI_OP_AND, zero, x) == zero && op2(ATVI_OP_OR, one, x) == one);
  CHECK(op2(ATVI_OP_MIN, x, x) == x);
  double v;
  CHECK(atvi_graph_is_const(g, op1(ATVI_OP_EXP, con(0.731)), &v) && v == exp(0.731));
  CHECK(atvi_graph_is_const(g, op2(ATVI_OP_ADD, con(0.731), con(2)), &v) && v == 2.731);
  for (int n = -16; n <= 16; n++) {
    atvi_node p = op2(ATVI_OP_POW, x, con(n));
    CHECK(n == 0 || atvi_graph_get(g, p).op != ATVI_OP_POW);
    CHECK_REL(value(p, (double[]){1.317}), pow(1.317, n), 1e-14);
  }
  end();
}

static void values_are_those_of_libm(void) {
  begin();
  const double at[4] = {0.731, 2.385, -1.27, 0};
  atvi_node a = in(0), b = in(1), c = in(2), zero = in(3);
  CHECK(value(op2(ATVI_OP_ATAN2, a, c), at) == atan2(0.731, -1.27));
  CHECK(value(op2(ATVI_OP_POW, a, b), at) == pow(0.731, 2.385));
  CHECK(value(op2(ATVI_OP_XLOGY, zero, zero), at) == 0 && value(op2(ATVI_OP_XDIVY, zero, zero), at) == 0);
  CHECK(value(op2(ATVI_OP_XLOGY, a, b), at) == 0.731 * log(2.385));
  CHECK(value(op2(ATVI_OP_MIN, a, c), at) == -1.27 && value(op2(ATVI_OP_MAX, a, c), at) == 0.731);
  CHECK(value(op2(ATVI_OP_LT, c, a), at) == 1 && value(op2(ATVI_OP_LE, a, c), at) == 0);
  CHECK(value(op2(ATVI_OP_AND, c, a), at) == 1 && value(op2(ATVI_OP_OR, zero, zero), at) == 0);
  CHECK(value(op1(ATVI_OP_NOT, zero), at) == 1 && value(op1(ATVI_OP_SIGN, c), at) == -1);
  CHECK(value(op1(ATVI_OP_FLOOR, c), at) == -2);
  CHECK(value(atvi_graph_select(g, c, a, b), at) == 0.731 &&
        value(atvi_graph_select(g, zero, a, b), at) == 2.385);
  end();
}

/* Every operation against central differences, step 1e-5: error about 1e-10 for functions of size 1. */
static void derivatives_agree_with_differences(void) {
  for (int i = 0; i < N_TEST_EXPR; i++) {
    const test_expr *e = &test_exprs[i];
    if (e->op == ATVI_OP_TRIGAMMA) continue; /* has none, see below */
    begin();
    atvi_node y = test_expr_node(g, e, 0), seed = con(1.7), wrt[4], grad[4];
    for (int k = 0; k < e->n_arg; k++) wrt[k] = in(k);
    atvi_graph_vjp(g, 1, &y, &seed, e->n_arg, wrt, grad);
    for (int k = 0; k < e->n_arg; k++) {
      bool trials = e->fn == ATVI_FN_BINOMIAL_LCDF || e->fn == ATVI_FN_BINOMIAL_LCCDF ||
                    e->fn == ATVI_FN_BINOMIAL_LOGIT_LCDF || e->fn == ATVI_FN_BINOMIAL_LOGIT_LCCDF;
      bool data = e->op == ATVI_OP_FN && (k == 0 || (trials && k == 1));
      double lo[4], hi[4], h = 1e-5;
      memcpy(lo, e->x, sizeof lo);
      memcpy(hi, e->x, sizeof hi);
      lo[k] -= h;
      hi[k] += h;
      bool flat = data || atvi_graph_op_is_truth(e->op);
      double want = flat ? 0 : 1.7 * (value(y, hi) - value(y, lo)) / (2 * h), got = value(grad[k], e->x);
      CHECK_MSG(fabs(got - want) <= 1e-8 * (1 + fabs(want)), "%s argument %d: %.17g, want %.17g", e->name, k,
                got, want);
    }
    end();
  }
}

static void third_derivatives_are_nan(void) {
  begin();
  CHECK(isnan(value(gradient(op1(ATVI_OP_TRIGAMMA, in(0)), in(0)), (double[]){2.385})));
  atvi_node a[2] = {con(3), in(0)};
  atvi_node d = atvi_graph_fn(g, ATVI_FN_POISSON_LCDF, 2, 2, a);
  CHECK(isnan(value(gradient(d, in(0)), (double[]){2.385})));
  end();
}

static uint64_t random_state = 88172645463325252u;
static double uniform(void) {
  random_state ^= random_state << 13;
  random_state ^= random_state >> 7;
  random_state ^= random_state << 17;
  return (double)(random_state >> 11) * 0x1p-53;
}

/* Smooth functions of bounded size, nested at random: the chain rule through sharing. */
static void random_graphs_differentiate(void) {
  static const atvi_op smooth[] = {ATVI_OP_SIN,  ATVI_OP_COS, ATVI_OP_TANH,
                                   ATVI_OP_ATAN, ATVI_OP_ERF, ATVI_OP_NEG};
  enum { N_IN = 5, N_NODE = 60 };
  for (int round = 0; round < 40; round++) {
    begin();
    atvi_node x[N_IN + N_NODE], grad[N_IN], seed[2] = {con(0.731), con(-1.27)};
    double at[N_IN];
    for (int i = 0; i < N_IN; i++) {
      x[i] = in(i);
      at[i] = 0.3 + uniform();
    }
    for (int i = N_IN; i < N_IN + N_NODE; i++) {
      atvi_node a = x[(int)(uniform() * i)], b = x[(int)(uniform() * i)];
      double pick = uniform();
      atvi_node shifted = op2(ATVI_OP_ADD, con(2.5), op1(ATVI_OP_TANH, b));
      x[i] = pick < 0.4   ? op1(smooth[(int)(uniform() * 6)], a)
             : pick < 0.6 ? op2(ATVI_OP_ADD, a, b)
             : pick < 0.8 ? op1(ATVI_OP_TANH, op2(ATVI_OP_MUL, a, b))
             : pick < 0.9 ? op2(ATVI_OP_DIV, op1(ATVI_OP_SIN, a), shifted)
                          : op2(ATVI_OP_SUB, a, op2(ATVI_OP_MUL, con(0.3), b));
    }
    atvi_graph_vjp(g, 2, x + N_IN + N_NODE - 2, seed, N_IN, x, grad);
    for (int k = 0; k < N_IN; k++) {
      double keep = at[k], y[2][2], h = 1e-5;
      for (int s = 0; s < 2; s++) {
        at[k] = s ? keep + h : keep - h;
        for (int o = 0; o < 2; o++) y[s][o] = value(x[N_IN + N_NODE - 2 + o], at);
      }
      at[k] = keep;
      double want = (0.731 * (y[1][0] - y[0][0]) - 1.27 * (y[1][1] - y[0][1])) / (2 * h);
      CHECK_ABS(value(grad[k], at), want, 1e-6 * (1 + fabs(want)));
    }
    end();
  }
}

static void branches_not_taken_contribute_nothing(void) {
  begin();
  atvi_node x = in(0), zero = con(0), positive = op2(ATVI_OP_LT, zero, x);
  const double at0[1] = {0}, at2[1] = {2.385};
  atvi_node inside[] = {
      op1(ATVI_OP_LOG, x),
      op1(ATVI_OP_SQRT, x),
      op2(ATVI_OP_DIV, con(1), x),
      op2(ATVI_OP_MUL, x, op1(ATVI_OP_LOG, x)),
      op2(ATVI_OP_POW, x, con(-1.3)),
      op1(ATVI_OP_EXP, op2(ATVI_OP_DIV, con(1), x)),
      op1(ATVI_OP_LGAMMA, x),
      op2(ATVI_OP_ATAN2, x, x),
      op1(ATVI_OP_ACOS, op2(ATVI_OP_SUB, con(1), x)),
      op1(ATVI_OP_LOG, op1(ATVI_OP_SQRT, op2(ATVI_OP_MUL, x, x))),
  };
  for (size_t k = 0; k < sizeof inside / sizeof inside[0]; k++) {
    atvi_node y = atvi_graph_select(g, positive, inside[k], op2(ATVI_OP_MUL, con(3.19), x));
    atvi_node d = gradient(y, x);
    CHECK(value(y, at0) == 0);
    CHECK(value(d, at0) == 3.19);
    if (k != 8) CHECK_REL(value(d, at2), value(gradient(inside[k], x), at2), 1e-14);
  }
  atvi_node low = op2(ATVI_OP_MIN, op2(ATVI_OP_MUL, con(2), x), op1(ATVI_OP_SQRT, x));
  CHECK(isfinite(value(gradient(low, x), at0))); /* tie at 0: the first argument's derivative, exactly */
  CHECK(value(gradient(low, x), at0) == 2);
  atvi_node high = op2(ATVI_OP_MAX, x, con(0));
  CHECK(value(gradient(high, x), at0) == 1 && value(gradient(high, x), (double[]){-1}) == 0);
  end();
}

static void powers_at_zero(void) {
  begin();
  atvi_node x = in(0), b = in(1), y = op2(ATVI_OP_POW, x, b);
  atvi_node dx = gradient(y, x), db = gradient(y, b);
  CHECK(value(dx, (double[]){0, 1.5}) == 0 && value(db, (double[]){0, 1.5}) == 0);
  CHECK(value(dx, (double[]){0, 1}) == 1 && value(dx, (double[]){0, 3}) == 0);
  CHECK(value(dx, (double[]){0, 0.5}) == INFINITY && value(dx, (double[]){0, 0}) == 0);
  CHECK_REL(value(dx, (double[]){-2, 3}), 12, 1e-15);
  CHECK(value(gradient(op2(ATVI_OP_POW, x, con(1.5)), x), (double[]){0}) == 0);
  CHECK(value(gradient(op2(ATVI_OP_POW, x, con(3)), x), (double[]){0}) == 0);
  atvi_node l = op2(ATVI_OP_XLOGY, b, x); /* a Poisson count of 0 with mean 0 */
  CHECK(value(l, (double[]){0, 0}) == 0 && value(gradient(l, x), (double[]){0, 0}) == 0);
  end();
}

static void nodes_can_be_independent(void) {
  begin();
  atvi_node x = in(0), u = op1(ATVI_OP_EXP, x), y = op2(ATVI_OP_MUL, u, op2(ATVI_OP_ADD, u, x));
  atvi_node wrt[3] = {u, x, in(1)}, seed = con(1), grad[3];
  atvi_graph_vjp(g, 1, &y, &seed, 3, wrt, grad);
  const double at[2] = {0.731, 0};
  CHECK_REL(value(grad[0], at), 2 * exp(0.731) + 0.731, 1e-15);
  CHECK_REL(value(grad[1], at), exp(0.731), 1e-15);
  CHECK(grad[2] == con(0));
  end();
}

static void substitution_replaces(void) {
  begin();
  atvi_node x = in(0), y = in(1), e = op1(ATVI_OP_EXP, x);
  atvi_node out[3] = {op2(ATVI_OP_MUL, e, y), op2(ATVI_OP_ADD, y, con(2)), e};
  atvi_node from[2] = {e, y}, to[2] = {op1(ATVI_OP_SIN, y), op2(ATVI_OP_MUL, x, con(3))};
  atvi_graph_substitute(g, 3, out, 2, from, to);
  const double at[2] = {0.731, 2.385};
  CHECK_REL(value(out[0], at), sin(2.385) * 3 * 0.731, 1e-15);
  CHECK_REL(value(out[1], at), 3 * 0.731 + 2, 1e-15);
  CHECK(out[2] == to[0]);
  atvi_node kept = op2(ATVI_OP_MUL, x, x), same = kept;
  atvi_graph_substitute(g, 1, &kept, 1, &y, &x);
  CHECK(kept == same);
  end();
}

static void invariant_work_is_hoisted(void) {
  begin();
  atvi_node s = in(0), p = atvi_graph_input(g, 1, 0), q = atvi_graph_input(g, 1, 1);
  atvi_node ratio = op2(ATVI_OP_DIV, op1(ATVI_OP_EXP, p), q);
  atvi_node out[3] = {op2(ATVI_OP_MUL, s, ratio), op2(ATVI_OP_ADD, op2(ATVI_OP_MUL, s, q), con(2)), ratio};
  atvi_node before[3], hoisted[4];
  memcpy(before, out, sizeof out);
  atvi_idx n_hoisted = 0;
  atvi_graph_hoist(g, 3, out, 1u << 1, 2, 4, hoisted, &n_hoisted);
  CHECK_INT(n_hoisted, 2);
  for (int k = 0; k < 3; k++) CHECK((atvi_graph_kinds(g, out[k]) & 2u) == 0);
  atvi_node more = op2(ATVI_OP_SUB, s, ratio), again = more;
  atvi_graph_hoist(g, 1, &again, 1u << 1, 2, 4, hoisted, &n_hoisted);
  CHECK_INT(n_hoisted, 2);
  const double state[1] = {1.27}, par[2] = {0.731, 2.385};
  double work[4], v, w;
  const double *const inputs[3] = {state, par, work};
  for (int k = 0; k < 2; k++) CHECK_OK(atvi_graph_value(ctx, g, hoisted[k], inputs, &work[k]));
  for (int k = 0; k < 3; k++) {
    CHECK_OK(atvi_graph_value(ctx, g, before[k], inputs, &v));
    CHECK_OK(atvi_graph_value(ctx, g, out[k], inputs, &w));
    CHECK(v == w);
  }
  CHECK_OK(atvi_graph_value(ctx, g, again, inputs, &w));
  CHECK(w == 1.27 - work[0] || w == 1.27 - work[1]);
  atvi_node late = op2(ATVI_OP_MUL, s, p);
  atvi_graph_hoist(g, 1, &late, 1u << 1, 2, 2, hoisted, &n_hoisted);
  CHECK(atvi_graph_failed(g) && late == ATVI_NODE_NONE);
  atvi_graph_free(g);
  atvi_ctx_free(ctx);
}

static void deep_graphs_do_not_recurse(void) {
  enum { N = 100000 };
  begin();
  static atvi_node x[N], grad[N];
  static double at[N];
  atvi_node chain = con(0);
  for (int i = 0; i < N; i++) {
    x[i] = in(i);
    at[i] = 1e-3 * (i % 7);
    chain = op1(ATVI_OP_SIN, op2(ATVI_OP_ADD, chain, x[i]));
  }
  atvi_node sum = atvi_graph_sum(g, N, x), seed[2] = {con(1), con(1)}, out[2] = {chain, sum};
  CHECK(isfinite(value(chain, at)));
  double want = 0;
  for (int i = 0; i < N; i++) want += at[i];
  CHECK_REL(value(sum, at), want, 1e-12);
  atvi_graph_vjp(g, 2, out, seed, N, x, grad);
  CHECK_REL(value(grad[N - 1], at) - 1, cos(asin(value(chain, at))), 1e-9);
  CHECK(atvi_graph_sum(g, 0, NULL) == con(0) && atvi_graph_sum(g, 1, x) == x[0]);
  atvi_graph_substitute(g, 1, &chain, 1, &x[0], &x[1]);
  CHECK(isfinite(value(chain, at)));
  end();
}

/* log y of an expression y, and its slope, at x where y itself is 0 or infinite. b is a coefficient of any
 * sign. */
static void logarithms_of_exponentials(void) {
  begin();
  atvi_node x = in(0), b = in(1), one = con(1), ex = op1(ATVI_OP_EXP, x);
  atvi_node p = op1(ATVI_OP_INVLOGIT, x),
            written = op2(ATVI_OP_DIV, one, op2(ATVI_OP_ADD, one, op1(ATVI_OP_EXP, op1(ATVI_OP_NEG, x))));
  atvi_node odds = op2(ATVI_OP_DIV, ex, op2(ATVI_OP_ADD, ex, one)), bx = op2(ATVI_OP_MUL, b, ex);
  atvi_node q = op2(ATVI_OP_SUB, one, p), e2 = op1(ATVI_OP_EXP, op2(ATVI_OP_MUL, con(2), x));
  CHECK(written == p && odds == p && op2(ATVI_OP_SUB, one, written) == q);
  CHECK(op1(ATVI_OP_LOG, ex) == x);
  CHECK(op2(ATVI_OP_SUB, one, op1(ATVI_OP_EXP, op1(ATVI_OP_LOG_NDTR, x))) ==
        op1(ATVI_OP_EXP, op1(ATVI_OP_LOG_NDTR, op1(ATVI_OP_NEG, x))));
  /* log1p(e^x) for x > 0 is x + log1p(e^-x) */
#define SOFT(x) ((x) > 0 ? (x) + log1p(exp(-(x))) : log1p(exp(x)))
#define SHARE(x) ((x) > 0 ? 1 / (1 + exp(-(x))) : exp(x) / (1 + exp(x)))
  static const double at_x[] = {-1e5, -801.3, -37.2, -2.385, 0.731, 36.4, 812.4, 1e5};
  for (int i = 0; i < 8; i++) {
    double v = at_x[i], at[2] = {v, 1.7}, top = fmax(v, 2 * v);
    const struct {
      atvi_node node;
      double log, slope;
    } c[] = {
        {op1(ATVI_OP_LOG, p), -SOFT(-v), SHARE(-v)},
        {op1(ATVI_OP_LOG, q), -SOFT(v), -SHARE(v)},
        {op1(ATVI_OP_LOG1P, op1(ATVI_OP_NEG, p)), -SOFT(v), -SHARE(v)},
        {op2(ATVI_OP_XLOGY, b, q), -1.7 * SOFT(v), -1.7 * SHARE(v)},
        {op1(ATVI_OP_LOG1P, ex), SOFT(v), SHARE(v)},
        {op1(ATVI_OP_LOG1P, bx), SOFT(v + log(1.7)), SHARE(v + log(1.7))},
        {op1(ATVI_OP_LOG, op2(ATVI_OP_ADD, one, bx)), SOFT(v + log(1.7)), SHARE(v + log(1.7))},
        {op1(ATVI_OP_LOG, op2(ATVI_OP_ADD, bx, ex)), v + log(2.7), 1},
        {op1(ATVI_OP_LOG, op2(ATVI_OP_DIV, bx, op2(ATVI_OP_ADD, bx, b))), -SOFT(-v), SHARE(-v)},
        {op1(ATVI_OP_LOG, op2(ATVI_OP_ADD, ex, e2)), top + log1p(exp(-fabs(v))), 1 + SHARE(v)},
        {op1(ATVI_OP_LOG, op1(ATVI_OP_SQRT, op2(ATVI_OP_MUL, ex, b))), 0.5 * (v + log(1.7)), 0.5},
    };
    for (size_t k = 0; k < sizeof c / sizeof *c; k++) {
      CHECK_MSG(fabs(value(c[k].node, at) - c[k].log) <= 4e-15 * (1 + fabs(c[k].log)),
                "%d at %g: %.17g, want %.17g", (int)k, v, value(c[k].node, at), c[k].log);
      double slope = value(gradient(c[k].node, x), at);
      CHECK_MSG(fabs(slope - c[k].slope) <= 4e-15 * (1 + fabs(slope)), "slope of %d at %g: %.17g, want %.17g",
                (int)k, v, slope, c[k].slope);
    }
    /* log(1 - exp(-e^x)), of a complementary log-log link */
    if (v < -700 || v > 6) continue;
    atvi_node hit = op2(ATVI_OP_SUB, one, op1(ATVI_OP_EXP, op1(ATVI_OP_NEG, ex)));
    CHECK_REL(value(op1(ATVI_OP_LOG, hit), at), log(-expm1(-exp(v))), 1e-14);
    CHECK_REL(value(op1(ATVI_OP_LOG, op2(ATVI_OP_SUB, one, hit)), at), -exp(v), 1e-14);
  }
  /* a coefficient of 0 has a slope */
  CHECK_REL(value(gradient(op1(ATVI_OP_LOG1P, bx), b), (const double[]){-1.3, 0}), exp(-1.3), 1e-15);
  CHECK_REL(value(gradient(op1(ATVI_OP_LOG, op2(ATVI_OP_ADD, one, bx)), b), (const double[]){-1.3, 0}),
            exp(-1.3), 1e-15);
  end();
}

static void memory_failure_marks_the_graph(void) {
  for (long fail = 1;; fail++) {
    ctx = test_ctx();
    long live = test_live;
    test_fail_at = test_allocs + fail;
    atvi_status made = atvi_graph_new(ctx, &g);
    if (made != ATVI_OK) {
      CHECK_INT(made, ATVI_ENOMEM);
      CHECK(g == NULL);
      CHECK_INT(test_live, live);
      atvi_ctx_free(ctx);
      continue;
    }
    atvi_node y = con(1), seed = con(1), x = in(0), grad, hoisted[4];
    for (int i = 0; i < 300; i++) y = op1(ATVI_OP_SIN, op2(ATVI_OP_ADD, y, in(i)));
    atvi_node z = atvi_graph_sum(g, 3, (atvi_node[]){x, y, in(2)});
    atvi_graph_vjp(g, 1, &z, &seed, 1, &x, &grad);
    atvi_idx n_hoisted = 0;
    atvi_graph_substitute(g, 1, &grad, 1, &x, &seed);
    atvi_graph_hoist(g, 1, &grad, 1, 1, 4, hoisted, &n_hoisted);
    bool failed = atvi_graph_failed(g);
    if (failed)
      CHECK(grad == ATVI_NODE_NONE && con(7) == ATVI_NODE_NONE && op1(ATVI_OP_EXP, x) == ATVI_NODE_NONE);
    double v;
    atvi_status got =
        failed ? ATVI_ENOMEM : atvi_graph_value(ctx, g, z, (const double *const[]){(double[300]){0}}, &v);
    CHECK(got == ATVI_OK || got == ATVI_ENOMEM);
    atvi_graph_free(g);
    CHECK_INT(test_live, live);
    atvi_ctx_free(ctx);
    if (got == ATVI_OK) break;
    CHECK(fail < 100);
  }
  test_fail_at = 0;
  CHECK_INT(test_live, 0);
}

/* An element by its number: constants fold, values and derivatives are those of the element, lists move into
 * inputs of another kind. */
static void elements_are_picked(void) {
  begin();
  enum { N = 11 };
  atvi_node x[N], same[3], p = atvi_graph_input(g, 1, 0), q = atvi_graph_input(g, 1, 1);
  for (int k = 0; k < N; k++) x[k] = op2(ATVI_OP_ADD, op1(ATVI_OP_EXP, p), op2(ATVI_OP_MUL, con(k), q));
  for (int k = 0; k < 3; k++) same[k] = p;
  atvi_node i = in(0), pick = atvi_graph_pick(g, N, x, i);
  CHECK(pick == atvi_graph_pick(g, N, x, i));
  CHECK(atvi_graph_pick(g, N, x, con(7)) == x[7] && atvi_graph_pick(g, N, x, con(-3)) == x[0] &&
        atvi_graph_pick(g, N, x, con(1e9)) == x[N - 1] && atvi_graph_pick(g, 3, same, i) == p);
  CHECK(atvi_graph_kinds(g, pick) == 3u);
  atvi_node y = op2(ATVI_OP_MUL, pick, op2(ATVI_OP_SUB, in(1), pick)), seed = con(1), wrt[2] = {p, q},
            grad[2];
  atvi_graph_vjp(g, 1, &y, &seed, 2, wrt, grad);
  atvi_node placed[3 * N], moved[2] = {y, atvi_graph_pick(g, 4, x + 5, op2(ATVI_OP_MUL, con(0.5), i))};
  atvi_node before[2] = {moved[0], moved[1]}, copy = pick;
  atvi_idx n_placed = 0;
  atvi_graph_place_lists(g, 2, moved, 2, 3 * N, placed, &n_placed);
  atvi_graph_place_lists(g, 1, &copy, 2, 3 * N, placed, &n_placed);
  CHECK_INT(n_placed, N + 4);
  CHECK(atvi_graph_kinds(g, moved[0]) == 5u && atvi_graph_kinds(g, copy) == 5u);
  atvi_node fixed = pick, zero = con(3);
  atvi_graph_substitute(g, 1, &fixed, 1, &i, &zero);
  CHECK(fixed == x[3]);
  for (int k = -1; k <= N; k++) {
    const double at[2] = {k, 0.731}, par[2] = {0.3, 2.385};
    int inside = k < 0 ? 0 : k >= N ? N - 1 : k;
    double list[3 * N], v, w, element = exp(0.3) + inside * 2.385;
    const double *const inputs[3] = {at, par, list};
    for (atvi_idx e = 0; e < n_placed; e++) CHECK_OK(atvi_graph_value(ctx, g, placed[e], inputs, &list[e]));
    CHECK_OK(atvi_graph_value(ctx, g, pick, inputs, &v));
    CHECK_REL(v, element, 1e-15);
    for (int m = 0; m < 2; m++) {
      CHECK_OK(atvi_graph_value(ctx, g, before[m], inputs, &v));
      CHECK_OK(atvi_graph_value(ctx, g, moved[m], inputs, &w));
      CHECK(v == w);
    }
    if (inside != k) continue;
    CHECK_OK(atvi_graph_value(ctx, g, grad[0], inputs, &v));
    CHECK_REL(v, (0.731 - 2 * element) * exp(0.3), 1e-14);
    CHECK_OK(atvi_graph_value(ctx, g, grad[1], inputs, &v));
    CHECK(fabs(v - (0.731 - 2 * element) * k) <= 1e-13 * (1 + fabs(v)));
  }
  atvi_node other[2] = {q, p}, late = atvi_graph_pick(g, 2, other, i);
  atvi_graph_place_lists(g, 1, &late, 2, n_placed + 1, placed, &n_placed);
  CHECK(atvi_graph_failed(g) && late == ATVI_NODE_NONE);
  atvi_graph_free(g);
  atvi_ctx_free(ctx);
}

TESTS({"equal", equal_nodes_are_one}, {"identities", identities_hold}, {"values", values_are_those_of_libm},
      {"derivatives", derivatives_agree_with_differences}, {"third", third_derivatives_are_nan},
      {"random", random_graphs_differentiate}, {"branches", branches_not_taken_contribute_nothing},
      {"powers", powers_at_zero}, {"independent", nodes_can_be_independent},
      {"substitute", substitution_replaces}, {"pick", elements_are_picked},
      {"hoist", invariant_work_is_hoisted}, {"logarithms", logarithms_of_exponentials},
      {"deep", deep_graphs_do_not_recurse}, {"memory", memory_failure_marks_the_graph})
