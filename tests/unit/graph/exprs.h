/* SPDX-License-Identifier: MIT */
/* Small expressions over inputs of kind 0, one for every operation, with a point inside its domain: shared by
 * the tests of values, derivatives and programs. */
#ifndef ATVI_TESTS_GRAPH_EXPRS_H
#define ATVI_TESTS_GRAPH_EXPRS_H

#include "graph/internal.h"
#include "graph/program.h"
#include "testing.h"

typedef struct {
  const char *name;
  atvi_op op;
  double x[4];
  int fn; /* ATVI_OP_FN: which */
  int n_arg;
} test_expr;

static const test_expr test_exprs[] = {
    {"add", ATVI_OP_ADD, {1.27, -0.483}, 0, 2},
    {"sub", ATVI_OP_SUB, {1.27, -0.483}, 0, 2},
    {"mul", ATVI_OP_MUL, {1.27, -0.483}, 0, 2},
    {"div", ATVI_OP_DIV, {1.27, -0.483}, 0, 2},
    {"pow", ATVI_OP_POW, {1.27, -0.483}, 0, 2},
    {"pow2", ATVI_OP_POW, {0.317, 2.71}, 0, 2},
    {"min", ATVI_OP_MIN, {1.27, -0.483}, 0, 2},
    {"max", ATVI_OP_MAX, {1.27, -0.483}, 0, 2},
    {"atan2", ATVI_OP_ATAN2, {1.27, -0.483}, 0, 2},
    {"lt", ATVI_OP_LT, {1.27, -0.483}, 0, 2},
    {"le", ATVI_OP_LE, {-1.27, -0.483}, 0, 2},
    {"eq", ATVI_OP_EQ, {1.27, -0.483}, 0, 2},
    {"and", ATVI_OP_AND, {1.27, -0.483}, 0, 2},
    {"or", ATVI_OP_OR, {0, -0.483}, 0, 2},
    {"log_add", ATVI_OP_LOG_ADD, {1.27, 0.483}, 0, 2},
    {"xlogy", ATVI_OP_XLOGY, {1.27, 0.483}, 0, 2},
    {"xdivy", ATVI_OP_XDIVY, {1.27, 0.483}, 0, 2},
    {"lrise", ATVI_OP_LRISE, {3.19, 7.12}, 0, 2},
    {"lrise_d", ATVI_OP_LRISE_D, {3.19, 7.12}, 0, 2},
    {"neg", ATVI_OP_NEG, {0.731}, 0, 1},
    {"not", ATVI_OP_NOT, {0.731}, 0, 1},
    {"abs", ATVI_OP_ABS, {-0.731}, 0, 1},
    {"sign", ATVI_OP_SIGN, {-0.731}, 0, 1},
    {"floor", ATVI_OP_FLOOR, {-0.731}, 0, 1},
    {"sqrt", ATVI_OP_SQRT, {0.731}, 0, 1},
    {"exp", ATVI_OP_EXP, {0.731}, 0, 1},
    {"log", ATVI_OP_LOG, {0.731}, 0, 1},
    {"log1p", ATVI_OP_LOG1P, {0.0731}, 0, 1},
    {"expm1", ATVI_OP_EXPM1, {0.0731}, 0, 1},
    {"sin", ATVI_OP_SIN, {2.731}, 0, 1},
    {"cos", ATVI_OP_COS, {2.731}, 0, 1},
    {"tan", ATVI_OP_TAN, {0.731}, 0, 1},
    {"asin", ATVI_OP_ASIN, {-0.731}, 0, 1},
    {"acos", ATVI_OP_ACOS, {-0.731}, 0, 1},
    {"atan", ATVI_OP_ATAN, {0.731}, 0, 1},
    {"sinh", ATVI_OP_SINH, {0.731}, 0, 1},
    {"cosh", ATVI_OP_COSH, {0.731}, 0, 1},
    {"tanh", ATVI_OP_TANH, {0.731}, 0, 1},
    {"erf", ATVI_OP_ERF, {0.731}, 0, 1},
    {"invlogit", ATVI_OP_INVLOGIT, {-0.731}, 0, 1},
    {"lgamma", ATVI_OP_LGAMMA, {3.731}, 0, 1},
    {"digamma", ATVI_OP_DIGAMMA, {3.731}, 0, 1},
    {"trigamma", ATVI_OP_TRIGAMMA, {3.731}, 0, 1},
    {"log_ndtr", ATVI_OP_LOG_NDTR, {-1.731}, 0, 1},
    {"log_ndtr_d", ATVI_OP_LOG_NDTR_D, {-1.731}, 0, 1},
    {"select", ATVI_OP_SELECT, {0.2, 1.27, -0.483}, 0, 3},
    {"normal_lcdf", ATVI_OP_FN, {0.9, 1.27, 0.483}, ATVI_FN_NORMAL_LCDF, 3},
    {"normal_lccdf", ATVI_OP_FN, {0.9, 1.27, 0.483}, ATVI_FN_NORMAL_LCCDF, 3},
    {"student_lcdf", ATVI_OP_FN, {0.9, 4.3, 1.27, 0.483}, ATVI_FN_STUDENT_LCDF, 4},
    {"student_lccdf", ATVI_OP_FN, {0.9, 4.3, 1.27, 0.483}, ATVI_FN_STUDENT_LCCDF, 4},
    {"poisson_lcdf", ATVI_OP_FN, {3, 4.21}, ATVI_FN_POISSON_LCDF, 2},
    {"poisson_lccdf", ATVI_OP_FN, {3, 4.21}, ATVI_FN_POISSON_LCCDF, 2},
    {"negbin_lcdf", ATVI_OP_FN, {3, 4.21, 1.37}, ATVI_FN_NEGBIN_LCDF, 3},
    {"negbin_lccdf", ATVI_OP_FN, {3, 4.21, 1.37}, ATVI_FN_NEGBIN_LCCDF, 3},
    {"binomial_lcdf", ATVI_OP_FN, {3, 9, 0.317}, ATVI_FN_BINOMIAL_LCDF, 3},
    {"binomial_lccdf", ATVI_OP_FN, {3, 9, 0.317}, ATVI_FN_BINOMIAL_LCCDF, 3},
    {"poisson_log_lcdf", ATVI_OP_FN, {3, 1.43}, ATVI_FN_POISSON_LOG_LCDF, 2},
    {"poisson_log_lccdf", ATVI_OP_FN, {3, 1.43}, ATVI_FN_POISSON_LOG_LCCDF, 2},
    {"negbin_log_lcdf", ATVI_OP_FN, {3, 1.43, 1.37}, ATVI_FN_NEGBIN_LOG_LCDF, 3},
    {"negbin_log_lccdf", ATVI_OP_FN, {3, 1.43, 1.37}, ATVI_FN_NEGBIN_LOG_LCCDF, 3},
    {"binomial_logit_lcdf", ATVI_OP_FN, {3, 9, -0.77}, ATVI_FN_BINOMIAL_LOGIT_LCDF, 3},
    {"binomial_logit_lccdf", ATVI_OP_FN, {3, 9, -0.77}, ATVI_FN_BINOMIAL_LOGIT_LCCDF, 3},
};
enum { N_TEST_EXPR = sizeof test_exprs / sizeof test_exprs[0] };

/* The operation on inputs (0, first), (0, first + 1), ... */
static inline atvi_node test_expr_node(atvi_graph *g, const test_expr *e, atvi_idx first) {
  atvi_node a[4] = {0};
  for (int k = 0; k < e->n_arg; k++) a[k] = atvi_graph_input(g, 0, first + k);
  if (e->op == ATVI_OP_FN) return atvi_graph_fn(g, (atvi_fn)e->fn, 0, e->n_arg, a);
  if (e->op == ATVI_OP_SELECT) return atvi_graph_select(g, a[0], a[1], a[2]);
  return e->n_arg == 1 ? atvi_graph_op1(g, e->op, a[0]) : atvi_graph_op2(g, e->op, a[0], a[1]);
}

/* Makes a module of a program with each allocation failing in turn; fewer than `most` of them. */
static inline void test_module_sweep(atvi_ctx *ctx, atvi_graph *g, const atvi_prog_spec *spec,
                                     const atvi_module_opts *opts, long most) {
  for (long fail = 1;; fail++) {
    atvi_module *m;
    long live = test_live;
    test_fail_at = test_allocs + fail;
    atvi_status status = atvi_graph_module_new(ctx, g, 1, spec, opts, &m, NULL);
    if (status == ATVI_OK) {
      atvi_graph_module_free(m);
      CHECK_INT(test_live, live);
      break;
    }
    CHECK_INT(status, ATVI_ENOMEM);
    CHECK(m == NULL);
    CHECK_INT(test_live, live);
    CHECK(fail < most);
  }
  test_fail_at = 0;
}

#endif
