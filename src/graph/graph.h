/* SPDX-License-Identifier: MIT */
/* Expression graphs: build, differentiate, turn into programs.
 *
 * A graph holds scalar expressions. A node is an operation on earlier nodes; equal nodes are
 * one node (hash-consing), constants are folded, and the safe identities (x+0, x*1, x*0, x-x,
 * --x, x/1, pow by small whole numbers and 1/2, select of a constant condition) are applied as nodes are made.
 * Logarithms of exponentials are taken before the exponentials overflow or vanish (simplify.c), so that log(1
 * - invlogit(x)) or log(a*exp(x) + b) is right for every x. Leaves are constants and inputs; an input is
 * (kind, index), where kinds are small numbers whose meaning is the client's (parameter, state, time, ...).
 * Truth values are 0 and 1.
 *
 * A program (program.h) computes a list of nodes from arrays of inputs, for ATVI_LANES
 * points at once. The graph is append-only; nodes never change. */
#ifndef ATVI_GRAPH_GRAPH_H
#define ATVI_GRAPH_GRAPH_H

#include "core/core.h"

typedef int32_t atvi_node; /* index into the graph; ATVI_NODE_NONE where there is none */
#define ATVI_NODE_NONE ((atvi_node)-1)

typedef enum {
  ATVI_OP_CONST,
  ATVI_OP_INPUT,
  /* two arguments */
  ATVI_OP_ADD,
  ATVI_OP_SUB,
  ATVI_OP_MUL,
  ATVI_OP_DIV,
  ATVI_OP_POW, /* d/da right at a = 0, b >= 1; d/db = 0 at a = 0, b > 0 */
  ATVI_OP_MIN, /* derivative to the first argument on ties */
  ATVI_OP_MAX,
  ATVI_OP_ATAN2,
  ATVI_OP_LT, /* comparisons and logic: derivative 0 */
  ATVI_OP_LE,
  ATVI_OP_EQ,
  ATVI_OP_AND,
  ATVI_OP_OR,
  ATVI_OP_LOG_ADD, /* log(exp a + exp b), whatever the size of a and b */
  ATVI_OP_XLOGY,   /* a log b; 0 where a == 0, whatever b */
  ATVI_OP_XDIVY,   /* a / b; 0 where a == 0, whatever b (the derivative of XLOGY) */
  ATVI_OP_LRISE,   /* lgamma(a + b) - lgamma(a) */
  ATVI_OP_LRISE_D, /* d/da of it: digamma(a + b) - digamma(a) */
  /* one argument */
  ATVI_OP_NEG,
  ATVI_OP_NOT,
  ATVI_OP_ABS,
  ATVI_OP_SIGN,
  ATVI_OP_FLOOR,
  ATVI_OP_SQRT,
  ATVI_OP_EXP,
  ATVI_OP_LOG,
  ATVI_OP_LOG1P,
  ATVI_OP_EXPM1,
  ATVI_OP_SIN,
  ATVI_OP_COS,
  ATVI_OP_TAN,
  ATVI_OP_ASIN,
  ATVI_OP_ACOS,
  ATVI_OP_ATAN,
  ATVI_OP_SINH,
  ATVI_OP_COSH,
  ATVI_OP_TANH,
  ATVI_OP_ERF,
  ATVI_OP_INVLOGIT, /* 1 / (1 + exp(-a)), to full precision in both tails */
  ATVI_OP_LGAMMA,
  ATVI_OP_DIGAMMA,
  ATVI_OP_TRIGAMMA,
  ATVI_OP_LOG_NDTR,   /* log Phi(a) */
  ATVI_OP_LOG_NDTR_D, /* phi(a)/Phi(a) */
  /* three arguments */
  ATVI_OP_SELECT, /* a != 0 ? b : c; the branch not taken never spoils value or derivative */
  /* up to four arguments: the functions of ATVI_FN_*, in `index`; value or one partial derivative, see below */
  ATVI_OP_FN,
  /* A list of `index` nodes, not a number: its elements if there are up to four, else three and the list of
   * the others. */
  ATVI_OP_LIST,
  /* arg[0]: a number known to the client, rounded; arg[1]: a list. The element of that number, counted from
   * 0; beyond the ends of the list its first or last one. The derivative with respect to arg[0] is 0. */
  ATVI_OP_PICK,
  ATVI_OP_COUNT
} atvi_op;

/* Scalar library functions with known gradients (math/special.h). Node: op = ATVI_OP_FN, index = which,
 * index2 = 0 for the value, k for the derivative with respect to argument k (1-based, y being 1). The first
 * argument (the observed y) has derivative 0 by convention, being data. */
typedef enum {
  ATVI_FN_NORMAL_LCDF, /* y, mean, sd */
  ATVI_FN_NORMAL_LCCDF,
  ATVI_FN_STUDENT_LCDF, /* y, df, loc, scale */
  ATVI_FN_STUDENT_LCCDF,
  ATVI_FN_POISSON_LCDF, /* y, mean */
  ATVI_FN_POISSON_LCCDF,
  ATVI_FN_NEGBIN_LCDF, /* y, mean, size */
  ATVI_FN_NEGBIN_LCCDF,
  ATVI_FN_BINOMIAL_LCDF, /* y, n, p */
  ATVI_FN_BINOMIAL_LCCDF,
  ATVI_FN_POISSON_LOG_LCDF, /* y, log mean */
  ATVI_FN_POISSON_LOG_LCCDF,
  ATVI_FN_NEGBIN_LOG_LCDF, /* y, log mean, size */
  ATVI_FN_NEGBIN_LOG_LCCDF,
  ATVI_FN_BINOMIAL_LOGIT_LCDF, /* y, n, log(p / (1 - p)) */
  ATVI_FN_BINOMIAL_LOGIT_LCCDF,
  ATVI_FN_COUNT
} atvi_fn;

typedef struct atvi_graph atvi_graph;

typedef struct {
  atvi_op op;
  int32_t index;  /* ATVI_OP_INPUT: index; ATVI_OP_FN: which; ATVI_OP_LIST: elements */
  int32_t index2; /* ATVI_OP_INPUT: kind; ATVI_OP_FN: 0 or the derivative's argument */
  int n_arg;
  atvi_node arg[4];
  double value;   /* ATVI_OP_CONST */
  uint32_t kinds; /* bit k set: depends on an input of kind k */
} atvi_node_info;

/* An empty graph. Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_graph_new(atvi_ctx *ctx, atvi_graph **out);
void atvi_graph_free(atvi_graph *g); /* NULL is fine */

/* Making nodes never fails: when memory runs out the graph is marked failed, ATVI_NODE_NONE is
 * returned, and every operation on ATVI_NODE_NONE gives ATVI_NODE_NONE. Ask once, at the end. */
bool atvi_graph_failed(const atvi_graph *g);
atvi_node atvi_graph_const(atvi_graph *g, double value);
atvi_node atvi_graph_input(atvi_graph *g, int kind, atvi_idx index); /* kind in [0, 31] */
atvi_node atvi_graph_op1(atvi_graph *g, atvi_op op, atvi_node a);
atvi_node atvi_graph_op2(atvi_graph *g, atvi_op op, atvi_node a, atvi_node b);
atvi_node atvi_graph_select(atvi_graph *g, atvi_node cond, atvi_node a, atvi_node b);
atvi_node atvi_graph_fn(atvi_graph *g, atvi_fn fn, int derivative, int n_arg, const atvi_node *arg);
atvi_node atvi_graph_sum(atvi_graph *g, atvi_idx n, const atvi_node *x); /* balanced; 0 for n = 0 */
/* x[round(index)], n >= 1. A program reads one element, whatever n is, if the elements are neighbouring
 * inputs of one kind; for other elements see atvi_graph_place_lists. */
atvi_node atvi_graph_pick(atvi_graph *g, atvi_idx n, const atvi_node *x, atvi_node index);

/* x = coef * exp(expo), as far as x is made of exponentials; false (and nothing set) where it has none. */
bool atvi_graph_split(atvi_graph *g, atvi_node x, atvi_node *coef, atvi_node *expo);
/* log(coef[0] exp(expo[0]) + coef[1] exp(expo[1])); any signs of the coefficients that leave the sum
 * positive. */
atvi_node atvi_graph_log_sum(atvi_graph *g, const atvi_node coef[2], const atvi_node expo[2]);

atvi_idx atvi_graph_size(const atvi_graph *g);
atvi_node_info atvi_graph_get(const atvi_graph *g, atvi_node x);
bool atvi_graph_is_const(const atvi_graph *g, atvi_node x, double *value); /* value may be NULL */
uint32_t atvi_graph_kinds(const atvi_graph *g, atvi_node x);

/* Reverse mode. For y = sum_k seed[k] * out[k], appends the nodes of dy/dwrt[i] to the graph: grad[n_wrt].
 * wrt are inputs (or any nodes, treated as independent). A derivative that is identically 0
 * is the constant 0. A zero adjoint never meets an infinite partial: where the expression
 * branches (select, min, max, pow), products with singular partials are guarded so that
 * the branch not taken contributes exactly 0; inputs are taken to be finite for this. Derivatives
 * of TRIGAMMA and of the derivatives of ATVI_OP_FN are not known: NaN. */
void atvi_graph_vjp(atvi_graph *g, atvi_idx n_out, const atvi_node *out, const atvi_node *seed,
                    atvi_idx n_wrt, const atvi_node *wrt, atvi_node *grad);

/* What a PICK of neighbouring wrt hands to one of them: grad[first + index] += value, where index is in
 * 0..n-1. */
typedef struct {
  atvi_idx first, n;
  atvi_node index, value;
} atvi_scatter;

typedef struct {
  atvi_pool *pool;
  atvi_scatter *item;
  atvi_idx n, cap;
} atvi_scatters;

/* As atvi_graph_vjp, but what such PICKs contribute is not in grad: it is appended to scatters, one entry per
 * PICK. (Without them every element of the list has a term of its own.) */
void atvi_graph_vjp_scatter(atvi_graph *g, atvi_idx n_out, const atvi_node *out, const atvi_node *seed,
                            atvi_idx n_wrt, const atvi_node *wrt, atvi_node *grad, atvi_scatters *scatters);

/* Rewrites x[n] in place with every node from[i] replaced by to[i]. */
void atvi_graph_substitute(atvi_graph *g, atvi_idx n, atvi_node *x, atvi_idx n_sub, const atvi_node *from,
                           const atvi_node *to);

/* Moves loop-invariant work out: in x[n], every largest subexpression that is neither a constant nor depends
 * on a kind outside the mask `kinds` is replaced, in place, by input (hoist_kind, k). Subexpressions found
 * are appended to hoisted[*n_hoisted ...], of capacity cap; equal ones (also from earlier calls with the same
 * list) share one k. Plain inputs count as subexpressions too. If cap is too small the graph is marked
 * failed. */
void atvi_graph_hoist(atvi_graph *g, atvi_idx n, atvi_node *x, uint32_t kinds, int hoist_kind, atvi_idx cap,
                      atvi_node *hoisted, atvi_idx *n_hoisted);

/* Lays out lists: in x[n], every list that is picked from becomes, in place, neighbouring inputs of that
 * kind, whose values, the list's elements, are appended to placed[*n_placed ...], of capacity cap, or found
 * there. Lists whose PICK depends on the kinds of its elements alone stay: the PICK as a whole is invariant
 * where they are. If cap is too small the graph is marked failed. */
void atvi_graph_place_lists(atvi_graph *g, atvi_idx n, atvi_node *x, int kind, atvi_idx cap,
                            atvi_node *placed, atvi_idx *n_placed);

/* Value of one node at a point; inputs[kind][index]. The slow, obvious way, recursion-free: oracle for the
 * rest. Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_graph_value(atvi_ctx *ctx, const atvi_graph *g, atvi_node x,
                                          const double *const *inputs, double *value);

#endif
