/* SPDX-License-Identifier: MIT */
/* Tangents of programs: against reverse mode, which is checked against differences. */
#include "exprs.h"
#include "testing.h"

enum { L = ATVI_LANES, ROOM = 64 };

static atvi_ctx *ctx;
static atvi_graph *g;
static _Alignas(ATVI_ALIGN) double x[ROOM][L], dx[ROOM][L], y[ROOM][L], dy[ROOM][L], uniform_in[4] = {3, 0.5};

static void begin(void) {
  ctx = test_ctx();
  CHECK_OK(atvi_graph_new(ctx, &g));
}

static void end(void) {
  atvi_graph_free(g);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

static atvi_node con(double v) { return atvi_graph_const(g, v); }
static atvi_node in(int i) { return atvi_graph_input(g, 0, i); }
static atvi_node op1(atvi_op op, atvi_node a) { return atvi_graph_op1(g, op, a); }
static atvi_node op2(atvi_op op, atvi_node a, atvi_node b) { return atvi_graph_op2(g, op, a, b); }

/* Runs n nodes with x and dx; their results in y and dy. */
static void run(atvi_idx n, const atvi_node *nodes, bool add) {
  const atvi_prog_spec spec = {
      .name = "it", .n_in = 2, .in = {{0, ROOM, false}, {1, 2, true}}, .n_out = 1, .out = {{n, nodes, add}}};
  atvi_module *m;
  CHECK_OK(atvi_graph_module_new(ctx, g, 1, &spec, &(atvi_module_opts){.tangent = true}, &m, NULL));
  const atvi_prog p = atvi_graph_module_get(m, 0);
  double *scratch = atvi_block(ctx, p.scratch * sizeof *scratch);
  const double *const ins[] = {&x[0][0], uniform_in, &dx[0][0], NULL};
  for (size_t i = 0; i < p.scratch; i++) scratch[i] = NAN;
  atvi_graph_prog_run(&p, scratch, ins, (double *const[]){&y[0][0], &dy[0][0]});
  atvi_block_free(ctx, scratch);
  atvi_graph_module_free(m);
}

static double value(atvi_node node, int l) {
  double at[ROOM], v;
  for (int i = 0; i < ROOM; i++) at[i] = x[i][l];
  CHECK_OK(atvi_graph_value(ctx, g, node, (const double *const[]){at, uniform_in}, &v));
  return v;
}

static void of_every_operation(void) {
  for (int i = 0; i < N_TEST_EXPR; i++) {
    const test_expr *e = &test_exprs[i];
    if (e->op == ATVI_OP_TRIGAMMA) continue; /* its derivative is not known */
    begin();
    atvi_node f = test_expr_node(g, e, 0), seed = con(1), wrt[4], grad[4];
    for (int k = 0; k < e->n_arg; k++) wrt[k] = in(k);
    for (int k = 0; k < e->n_arg; k++)
      for (int l = 0; l < L; l++) x[k][l] = e->x[k], dx[k][l] = sin(1 + 3 * k + l);
    atvi_graph_vjp(g, 1, &f, &seed, e->n_arg, wrt, grad);
    run(1, &f, false);
    for (int l = 0; l < L; l++) {
      double want = 0, size = 0;
      for (int k = 0; k < e->n_arg; k++) {
        double part = value(grad[k], l) * dx[k][l];
        want += part, size += fabs(part);
      }
      CHECK_MSG(fabs(dy[0][l] - want) <= 1e-13 * size, "%s: %.17g, want %.17g", e->name, dy[0][l], want);
      CHECK_REL(y[0][l], value(f, l), 1e-14);
    }
    end();
  }
}

/* Shared results, products that become one step with a sum, divisions by a common denominator, uniform slots,
 * added results. */
static void through_a_graph(void) {
  begin();
  atvi_node a = in(0), b = in(1), u = atvi_graph_input(g, 1, 1), p = op2(ATVI_OP_MUL, a, b);
  atvi_node s = op2(ATVI_OP_ADD, op2(ATVI_OP_MUL, a, in(2)), p),
            t = op2(ATVI_OP_SUB, s, op2(ATVI_OP_MUL, b, u));
  atvi_node f[4] = {op2(ATVI_OP_DIV, s, b), op2(ATVI_OP_DIV, op1(ATVI_OP_EXP, t), b), op1(ATVI_OP_SIN, t),
                    op2(ATVI_OP_DIV, op1(ATVI_OP_TANH, p), op2(ATVI_OP_ADD, con(2), s))};
  atvi_node wrt[3] = {a, b, in(2)}, grad[3], seed = con(1);
  for (int i = 0; i < 3; i++)
    for (int l = 0; l < L; l++) x[i][l] = 0.4 + 0.1 * l + 0.3 * i, dx[i][l] = cos(2.0 * i + l);
  for (int i = 0; i < 4; i++)
    for (int l = 0; l < L; l++) y[i][l] = 10, dy[i][l] = 20;
  run(4, f, true);
  for (int i = 0; i < 4; i++) {
    atvi_graph_vjp(g, 1, &f[i], &seed, 3, wrt, grad);
    for (int l = 0; l < L; l++) {
      double want = 20;
      for (int k = 0; k < 3; k++) want += value(grad[k], l) * dx[k][l];
      CHECK_REL(dy[i][l], want, 1e-13);
      CHECK_REL(y[i][l], 10 + value(f[i], l), 1e-13);
    }
  }
  end();
}

/* The element that is picked, the side that is taken, the first of two that tie; nothing else, however
 * singular. */
static void where_it_branches(void) {
  begin();
  atvi_node list[5];
  for (int k = 0; k < 5; k++) list[k] = in(3 + k);
  atvi_node a = in(0), zero = con(0);
  atvi_node f[5] = {
      atvi_graph_pick(g, 5, list, atvi_graph_input(g, 1, 0)),
      atvi_graph_select(g, op2(ATVI_OP_LT, zero, a), op1(ATVI_OP_LOG, a), op2(ATVI_OP_MUL, con(3), a)),
      op2(ATVI_OP_MIN, op2(ATVI_OP_MUL, con(2), a), op1(ATVI_OP_SQRT, a)), op2(ATVI_OP_MAX, a, zero),
      op2(ATVI_OP_POW, a, con(1.5))};
  for (int i = 0; i < ROOM; i++)
    for (int l = 0; l < L; l++) x[i][l] = 0, dx[i][l] = i + 1;
  run(5, f, false);
  for (int l = 0; l < L; l++)
    CHECK(dy[0][l] == 7 && dy[1][l] == 3 && dy[2][l] == 2 && dy[3][l] == 1 && dy[4][l] == 0);
  end();
}

static void errors_are_told(void) {
  begin();
  atvi_node f = op1(ATVI_OP_EXP, in(0));
  const atvi_scatter scatter = {0, 1, f, f};
  atvi_prog_spec spec = {.name = "it",
                         .n_in = 1,
                         .in = {{0, 1, false}},
                         .n_out = 1,
                         .out = {{1, &f, true}},
                         .n_scatter = 1,
                         .scatter = &scatter};
  atvi_module *m;
  const atvi_module_opts opts = {.tangent = true};
  CHECK_INT(atvi_graph_module_new(ctx, g, 1, &spec, &opts, &m, NULL), ATVI_EINVAL);
  spec.n_scatter = 0;
  test_module_sweep(ctx, g, &spec, &opts, 100);
  end();
}

TESTS({"operations", of_every_operation}, {"graph", through_a_graph}, {"branches", where_it_branches},
      {"errors", errors_are_told})
