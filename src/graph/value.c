/* SPDX-License-Identifier: MIT */
/* What every operation means, one point at a time: oracle for interpreter and generated code. */
#include "graph/internal.h"
#include "math/special.h"
#include <math.h>

int atvi_graph_op_arity(atvi_op op) {
  if (op >= ATVI_OP_ADD && op <= ATVI_OP_LRISE_D) return 2;
  if (op >= ATVI_OP_NEG && op <= ATVI_OP_LOG_NDTR_D) return 1;
  return op == ATVI_OP_SELECT ? 3 : 0;
}

bool atvi_graph_op_is_truth(int op) { return (op >= ATVI_OP_LT && op <= ATVI_OP_OR) || op == ATVI_OP_NOT; }

double atvi_graph_fn_eval(int fn, int derivative, const double *a) {
  double grad[3] = {0}, value = NAN;
  double *want = derivative ? grad : NULL;
  switch ((atvi_fn)fn) {
  case ATVI_FN_NORMAL_LCDF: value = atvi_math_normal_lcdf(a[0], a[1], a[2], want); break;
  case ATVI_FN_NORMAL_LCCDF: value = atvi_math_normal_lccdf(a[0], a[1], a[2], want); break;
  case ATVI_FN_STUDENT_LCDF: value = atvi_math_student_lcdf(a[0], a[1], a[2], a[3], want); break;
  case ATVI_FN_STUDENT_LCCDF: value = atvi_math_student_lccdf(a[0], a[1], a[2], a[3], want); break;
  case ATVI_FN_POISSON_LCDF: value = atvi_math_poisson_lcdf(a[0], a[1], want); break;
  case ATVI_FN_POISSON_LCCDF: value = atvi_math_poisson_lccdf(a[0], a[1], want); break;
  case ATVI_FN_NEGBIN_LCDF: value = atvi_math_negbin_lcdf(a[0], a[1], a[2], want); break;
  case ATVI_FN_NEGBIN_LCCDF: value = atvi_math_negbin_lccdf(a[0], a[1], a[2], want); break;
  case ATVI_FN_BINOMIAL_LCDF: value = atvi_math_binomial_lcdf(a[0], a[1], a[2], want); break;
  case ATVI_FN_BINOMIAL_LCCDF: value = atvi_math_binomial_lccdf(a[0], a[1], a[2], want); break;
  case ATVI_FN_POISSON_LOG_LCDF: value = atvi_math_poisson_log_lcdf(a[0], a[1], want); break;
  case ATVI_FN_POISSON_LOG_LCCDF: value = atvi_math_poisson_log_lccdf(a[0], a[1], want); break;
  case ATVI_FN_NEGBIN_LOG_LCDF: value = atvi_math_negbin_log_lcdf(a[0], a[1], a[2], want); break;
  case ATVI_FN_NEGBIN_LOG_LCCDF: value = atvi_math_negbin_log_lccdf(a[0], a[1], a[2], want); break;
  case ATVI_FN_BINOMIAL_LOGIT_LCDF: value = atvi_math_binomial_logit_lcdf(a[0], a[1], a[2], want); break;
  case ATVI_FN_BINOMIAL_LOGIT_LCCDF: value = atvi_math_binomial_logit_lccdf(a[0], a[1], a[2], want); break;
  case ATVI_FN_COUNT: break;
  }
  return derivative == 0 ? value : derivative == 1 ? 0 : grad[derivative - 2];
}

static double eval2(atvi_op op, double a, double b) {
  switch (op) {
  case ATVI_OP_ADD: return a + b;
  case ATVI_OP_SUB: return a - b;
  case ATVI_OP_MUL: return a * b;
  case ATVI_OP_DIV: return a / b;
  case ATVI_OP_POW: return pow(a, b);
  case ATVI_OP_MIN: return b < a ? b : a;
  case ATVI_OP_MAX: return a < b ? b : a;
  case ATVI_OP_ATAN2: return atan2(a, b);
  case ATVI_OP_LT: return a < b;
  case ATVI_OP_LE: return a <= b;
  case ATVI_OP_EQ: return a == b;
  case ATVI_OP_AND: return a != 0 && b != 0;
  case ATVI_OP_OR: return a != 0 || b != 0;
  case ATVI_OP_LOG_ADD: return (a < b ? b : a) + log1p(exp(a == b ? 0 : -fabs(a - b)));
  case ATVI_OP_XLOGY: return a == 0 ? 0 : a * log(b);
  case ATVI_OP_XDIVY: return a == 0 ? 0 : a / b;
  case ATVI_OP_LRISE: return atvi_math_lrise(a, b);
  case ATVI_OP_LRISE_D: return atvi_math_lrise_dnu(a, b);
  default: return NAN;
  }
}

static double eval1(atvi_op op, double a) {
  switch (op) {
  case ATVI_OP_NEG: return -a;
  case ATVI_OP_NOT: return a == 0;
  case ATVI_OP_ABS: return fabs(a);
  case ATVI_OP_SIGN: return (a > 0) - (a < 0);
  case ATVI_OP_FLOOR: return floor(a);
  case ATVI_OP_SQRT: return sqrt(a);
  case ATVI_OP_EXP: return exp(a);
  case ATVI_OP_LOG: return log(a);
  case ATVI_OP_LOG1P: return log1p(a);
  case ATVI_OP_EXPM1: return expm1(a);
  case ATVI_OP_SIN: return sin(a);
  case ATVI_OP_COS: return cos(a);
  case ATVI_OP_TAN: return tan(a);
  case ATVI_OP_ASIN: return asin(a);
  case ATVI_OP_ACOS: return acos(a);
  case ATVI_OP_ATAN: return atan(a);
  case ATVI_OP_SINH: return sinh(a);
  case ATVI_OP_COSH: return cosh(a);
  case ATVI_OP_TANH: return tanh(a);
  case ATVI_OP_ERF: return erf(a);
  case ATVI_OP_INVLOGIT: return a < 0 ? exp(a) / (1 + exp(a)) : 1 / (1 + exp(-a));
  case ATVI_OP_LGAMMA: return atvi_math_lgamma(a);
  case ATVI_OP_DIGAMMA: return atvi_math_digamma(a);
  case ATVI_OP_TRIGAMMA: return atvi_math_trigamma(a);
  case ATVI_OP_LOG_NDTR: return atvi_math_log_ndtr(a);
  case ATVI_OP_LOG_NDTR_D: return atvi_math_log_ndtr_d(a);
  default: return NAN;
  }
}

double atvi_graph_op_eval(atvi_op op, int index, int index2, const double *a) {
  if (op == ATVI_OP_FN) return atvi_graph_fn_eval(index, index2, a);
  if (op == ATVI_OP_SELECT) return a[0] != 0 ? a[1] : a[2];
  return atvi_graph_op_arity(op) == 1 ? eval1(op, a[0]) : eval2(op, a[0], a[1]);
}

/* Nodes are in topological order: mark downward what x needs, then compute upward. */
atvi_status atvi_graph_value(atvi_ctx *ctx, const atvi_graph *g, atvi_node x, const double *const *inputs,
                             double *value) {
  ATVI_ASSERT(x >= 0 && x < g->n);
  double *v = atvi_block(ctx, (size_t)(x + 1) * sizeof *v);
  bool *need = atvi_block(ctx, (size_t)(x + 1) * sizeof *need);
  if (!v || !need) {
    atvi_block_free(ctx, v);
    atvi_block_free(ctx, need);
    return ATVI_ENOMEM;
  }
  need[x] = true;
  for (atvi_node i = x; i >= 0; i--)
    for (int k = 0; need[i] && k < g->node[i].n_arg; k++) need[g->node[i].arg[k]] = true;
  for (atvi_node i = 0; i <= x; i++) {
    const atvi_gnode *s = &g->node[i];
    if (!need[i]) continue;
    double a[4] = {0};
    for (int k = 0; k < s->n_arg; k++) a[k] = v[s->arg[k]];
    v[i] = s->op == ATVI_OP_CONST   ? s->value
           : s->op == ATVI_OP_INPUT ? inputs[s->index2][s->index]
           : s->op == ATVI_OP_LIST  ? NAN
           : s->op == ATVI_OP_PICK
               ? v[atvi_graph_list_element(g, s->arg[1], atvi_graph_pick_at(a[0], g->node[s->arg[1]].index))]
               : atvi_graph_op_eval(s->op, s->index, s->index2, a);
  }
  *value = v[x];
  atvi_block_free(ctx, v);
  atvi_block_free(ctx, need);
  return ATVI_OK;
}
