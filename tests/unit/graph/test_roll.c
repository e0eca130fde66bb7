/* SPDX-License-Identifier: MIT */
/* Loops found in straight-line code, and the C made of them against the interpreter. */
#include "exprs.h"
#include "graph/internal.h"
#include "testing.h"
#include <unistd.h>

enum { L = ATVI_LANES, ROOM = 6000 };

static atvi_ctx *ctx;
static atvi_graph *g;
static atvi_pool *pool;
static char cache[64];
static _Alignas(ATVI_ALIGN) double input[ROOM][L], output[2][2][ROOM][L], uniform_in[ROOM];

static void begin(void) {
  ctx = test_ctx();
  CHECK_OK(atvi_graph_new(ctx, &g));
  CHECK_OK(atvi_pool_new(ctx, &pool));
  strcpy(cache, "/tmp/atvi-test-XXXXXX");
  CHECK(mkdtemp(cache));
  for (int i = 0; i < ROOM; i++) {
    uniform_in[i] = 0.4 + 0.3 * sin(0.731 * i);
    for (int l = 0; l < L; l++) input[i][l] = 1.27 + sin(1.7 * i + 0.483 * l);
  }
}

static void end(void) {
  char command[128];
  atvi_pool_free(pool);
  atvi_graph_free(g);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
  snprintf(command, sizeof command, "rm -rf %s", cache);
  CHECK(system(command) == 0);
}

static atvi_node con(double v) { return atvi_graph_const(g, v); }
static atvi_node in(int i) { return atvi_graph_input(g, 0, i); }
static atvi_node known(int i) { return atvi_graph_input(g, 5, i); }
static atvi_node op1(atvi_op op, atvi_node a) { return atvi_graph_op1(g, op, a); }
static atvi_node op2(atvi_op op, atvi_node a, atvi_node b) { return atvi_graph_op2(g, op, a, b); }

static atvi_prog_spec one_output(atvi_idx n, const atvi_node *x) {
  return (atvi_prog_spec){.name = "all",
                          .n_in = 2,
                          .in = {{0, ROOM, false}, {5, ROOM, true}},
                          .n_out = 1,
                          .out = {{n, x, false}}};
}

static atvi_pieces roll(const atvi_prog_spec *spec, atvi_graph_code *code) {
  atvi_pieces p;
  CHECK_OK(atvi_graph_code_new(pool, g, spec, code));
  CHECK(atvi_graph_roll(pool, code, &p));
  return p;
}

static void check_reads(const atvi_graph_code *code, const atvi_pieces *p, atvi_idx q, const int32_t *ins,
                        atvi_idx n) {
  for (atvi_idx m = 0; m < n; m++) {
    CHECK_INT(p->of[ins[m]], q);
    for (int k = 0; k < code->ins[ins[m]].n_arg; k++) CHECK(p->of[code->ins[ins[m]].arg[k]] <= q);
  }
}

/* Every instruction is in one piece, and every piece reads only what it or earlier ones compute. */
static void check_order(const atvi_graph_code *code, const atvi_pieces *p) {
  atvi_idx n = 0, leaves = 0;
  for (atvi_idx i = 0; i < code->n; i++) leaves += p->of[i] < 0;
  for (atvi_idx q = 0; q < p->n; q++) {
    const atvi_piece *x = &p->piece[q];
    check_reads(code, p, q, x->ins, x->n_copy * x->n_ins);
    n += x->n_copy * x->n_ins;
    for (atvi_idx k = 0; k < x->n_sum; k++) {
      check_reads(code, p, q, x->sum[k].link, x->sum[k].n);
      n += x->sum[k].n;
    }
  }
  CHECK_INT(n + leaves, code->n);
}

/* Runs a program interpreted and compiled, from the same outputs, and compares. */
static void compare(const atvi_prog_spec *spec, double tol) {
  for (int compile = 0; compile < 2; compile++) {
    atvi_module *m;
    atvi_module_info info;
    atvi_module_opts opts = {.compile = compile, .cache_dir = cache};
    CHECK_OK(atvi_graph_module_new(ctx, g, 1, spec, &opts, &m, &info));
    CHECK_MSG(info.compiled == (bool)compile, "%s", info.reason);
    atvi_prog p = atvi_graph_module_get(m, 0);
    double *scratch = atvi_block(ctx, (p.scratch + 1) * sizeof *scratch);
    for (size_t i = 0; i < p.scratch; i++) scratch[i] = NAN;
    for (int k = 0; k < 2; k++)
      for (int i = 0; i < ROOM; i++)
        for (int l = 0; l < L; l++) output[compile][k][i][l] = 0.1 * k + i;
    const double *ins[] = {&input[0][0], uniform_in};
    atvi_graph_prog_run(&p, scratch, ins, (double *[]){output[compile][0][0], output[compile][1][0]});
    atvi_block_free(ctx, scratch);
    atvi_graph_module_free(m);
  }
  for (int k = 0; k < 2; k++)
    for (int i = 0; i < ROOM; i++)
      for (int l = 0; l < L; l++) {
        double a = output[1][k][i][l], b = output[0][k][i][l];
        CHECK_MSG((isnan(a) && isnan(b)) || a == b || fabs(a - b) <= tol * (1 + fabs(b)),
                  "output %d, %d, lane %d: %.17g compiled, %.17g interpreted", k, i, l, a, b);
      }
}

/* Log density and gradient of n normals with a common mean and scale, and each of its terms. */
static atvi_node *hierarchy(int n, atvi_idx *n_node) {
  atvi_node *term = atvi_pool_take(pool, (size_t)n, sizeof *term), one = con(1);
  atvi_node *wrt = atvi_pool_take(pool, (size_t)n + 2, sizeof *wrt);
  atvi_node *all = atvi_pool_take(pool, 2 * (size_t)n + 3, sizeof *all);
  for (int i = 0; i < n + 2; i++) wrt[i] = in(i);
  for (int i = 0; i < n; i++) {
    atvi_node z = op2(ATVI_OP_DIV, op2(ATVI_OP_SUB, in(2 + i), in(0)), in(1));
    atvi_node p =
        op2(ATVI_OP_SUB, op2(ATVI_OP_MUL, con(-0.5), op2(ATVI_OP_MUL, z, z)), op1(ATVI_OP_LOG, in(1)));
    term[i] = atvi_graph_select(g, op2(ATVI_OP_LE, in(1), con(0)), con(-INFINITY), p);
    all[n + 3 + i] = term[i];
  }
  all[0] = atvi_graph_sum(g, n, term);
  atvi_graph_vjp(g, 1, all, &one, n + 2, wrt, all + 1);
  *n_node = 2 * n + 3;
  return all;
}

static void hierarchies_become_loops(void) {
  begin();
  enum { N = 997 };
  atvi_idx n, body = 0, sums = 0;
  const atvi_node *x = hierarchy(N, &n);
  atvi_prog_spec spec = one_output(n, x);
  atvi_graph_code code;
  atvi_pieces p = roll(&spec, &code);
  check_order(&code, &p);
  for (atvi_idx q = 0; q < p.n; q++) {
    sums += p.piece[q].n_sum;
    body += p.piece[q].chain ? 1 : p.piece[q].n_ins;
  }
  CHECK(code.n > 10 * N);
  CHECK_MSG(p.n > 0 && body < 150, "%td instructions are left", body);
  CHECK_INT(sums, 1); /* the adjoint of the mean; those of the scale have another term in between */
  compare(&spec, 1e-12);
  end();
}

/* Terms in any order, numbers of their own, inputs that all lanes share, truths across loops, sums of every
 * kind. */
static void irregular_copies(void) {
  begin();
  enum { N = 300 };
  static atvi_node x[3 * N + 8], term[N];
  static const atvi_op kind[] = {ATVI_OP_ADD, ATVI_OP_MUL, ATVI_OP_MIN, ATVI_OP_MAX, ATVI_OP_LOG_ADD};
  atvi_idx n = 0;
  for (int i = 0; i < N; i++) {
    int j = i * 7 % N;
    atvi_node low = op2(ATVI_OP_LT, in(j), known(i));
    atvi_node y = op2(ATVI_OP_MUL, op2(ATVI_OP_ADD, in(j), con(0.01 * i)), known((3 * i) % N));
    atvi_node big = op2(ATVI_OP_ADD, con(i % 50 == 7 ? INFINITY : 2.5), op1(ATVI_OP_EXP, in(j)));
    term[i] = atvi_graph_select(g, low, op1(ATVI_OP_TANH, y), op2(ATVI_OP_POW, known(i), in(j)));
    x[n++] = i % 3 ? term[i] : low;
    x[n++] = op2(ATVI_OP_SUB, con(i), op2(ATVI_OP_DIV, y, op2(ATVI_OP_ADD, con(2.385), big)));
    x[n++] = i % 5 ? con(0) : con(i);
  }
  for (int k = 0; k < 5; k++) { /* chains: those of odd number with the sum as the second argument */
    atvi_node sum = term[k];
    for (int i = 0; i < N; i++) {
      atvi_node t = i < 100   ? op2(ATVI_OP_ADD, con(1), op2(ATVI_OP_MUL, con(0.01), term[(i + k) % N]))
                    : i < 150 ? in(N + i)
                              : known(i);
      if (k == 0 && (i % 60 > 40 || i % 3 == 1))
        sum = op2(ATVI_OP_SUB, sum, t);
      else
        sum = op2(kind[k], k % 2 ? t : sum, k % 2 ? sum : t);
    }
    x[n++] = sum;
  }
  x[n++] = atvi_graph_sum(g, N, term);
  atvi_prog_spec spec = one_output(n, x);
  atvi_graph_code code;
  atvi_pieces p = roll(&spec, &code);
  CHECK(p.n > 0);
  check_order(&code, &p);
  compare(&spec, 1e-12);
  end();
}

/* Copies that read one of two values of a loop, or of that and another: the category of a row picks its
 * linear predictor. */
static void values_picked_by_copies(void) {
  begin();
  enum { N = 60 };
  static atvi_node x[5 * N];
  atvi_idx n = 0;
  for (int i = 0; i < N; i++) {
    atvi_node root = op1(ATVI_OP_EXP, in(i)), other = op1(ATVI_OP_TANH, op1(ATVI_OP_EXP, in(N + i)));
    atvi_node a = op1(ATVI_OP_SIN, root), b = op1(ATVI_OP_COS, root);
    x[n++] = op2(ATVI_OP_MUL, a, b);
    x[n++] = op2(ATVI_OP_DIV, a, b);
    x[n++] = op1(ATVI_OP_TANH, i % 3 ? a : b);
    x[n++] = op1(ATVI_OP_EXP, i % 2 ? a : other);
    x[n++] = other;
  }
  atvi_prog_spec spec = one_output(n, x);
  atvi_graph_code code;
  atvi_pieces p = roll(&spec, &code);
  CHECK(p.n > 0);
  check_order(&code, &p);
  compare(&spec, 1e-12);
  end();
}

/* More code than fits into a function beside the loops, whose values are read far away from it. */
static void loops_among_long_code(void) {
  begin();
  enum { N = 2500 };
  static atvi_node x[N];
  for (int i = 0; i < N; i++) {
    atvi_node a = i < 16 ? in(i) : x[i - 16], b = i < 3 ? in(3) : x[(i * 31) % i];
    x[i] = op2(ATVI_OP_ADD, op2(ATVI_OP_MUL, con(0.5 + 1e-5 * i), a), op2(ATVI_OP_MUL, con(0.25), b));
    if (i % 3 == 1) x[i] = op1(i % 2 ? ATVI_OP_SIN : ATVI_OP_TANH, x[i]);
    if (i > N - 500) x[i] = op2(ATVI_OP_MUL, op2(ATVI_OP_SUB, in(i), x[i % 97]), x[i % 11]);
  }
  atvi_prog_spec spec = one_output(N, x);
  atvi_graph_code code;
  atvi_pieces p = roll(&spec, &code);
  CHECK(p.n > 800);
  check_order(&code, &p);
  compare(&spec, 1e-12);
  end();
}

/* Additions to outputs come before what is scattered there, whatever is a loop. */
static void scatters_stay_last(void) {
  begin();
  enum { N = 400, PICKS = 3 };
  static atvi_node all[N], list[N], wrt[N], grad[N], y[PICKS], seed[PICKS + N];
  atvi_scatters picked = {.pool = pool};
  for (int i = 0; i < N; i++) wrt[i] = list[i] = in(i);
  for (int k = 0; k < PICKS; k++)
    y[k] = op1(ATVI_OP_EXP, atvi_graph_pick(g, N, list, op2(ATVI_OP_MUL, con(20), known(k))));
  for (int i = 0; i < N; i++) all[i] = op1(ATVI_OP_TANH, op2(ATVI_OP_MUL, in(i), in((i + 1) % N)));
  atvi_node out[PICKS + N];
  for (int i = 0; i < PICKS + N; i++) {
    out[i] = i < PICKS ? y[i] : all[i - PICKS];
    seed[i] = con(0.7 + i);
  }
  atvi_graph_vjp_scatter(g, PICKS + N, out, seed, N, wrt, grad, &picked);
  CHECK_INT(picked.n, PICKS);
  atvi_prog_spec spec = one_output(PICKS + N, out);
  spec.n_out = 2;
  spec.out[1] = (atvi_prog_out){N, grad, true};
  spec.scatter_out = 1;
  spec.n_scatter = picked.n;
  spec.scatter = picked.item;
  atvi_graph_code code;
  atvi_pieces p = roll(&spec, &code);
  CHECK(p.n > 0);
  check_order(&code, &p);
  atvi_idx seen = 0;
  for (atvi_idx q = 0; q < p.n; q++) {
    const atvi_ins *last = &code.ins[p.piece[q].ins[p.piece[q].n_ins - 1]];
    seen += last->op == ATVI_INS_SCATTER;
    if (last->op == ATVI_INS_STORE || last->op == ATVI_INS_ADD_TO) CHECK_INT(seen, 0);
  }
  CHECK_INT(seen, PICKS);
  compare(&spec, 1e-12);
  end();
}

/* Short programs and such that do not repeat themselves are left as they are. */
static void what_is_not_worth_it(void) {
  begin();
  atvi_idx n;
  const atvi_node *x = hierarchy(6, &n);
  atvi_prog_spec spec = one_output(n, x);
  atvi_graph_code code;
  CHECK_INT(roll(&spec, &code).n, 0);
  atvi_node y = in(0);
  for (int i = 0; i < 1000; i++) y = op1(i % 7 ? ATVI_OP_SIN : ATVI_OP_TANH, op2(ATVI_OP_ADD, y, in(i)));
  spec = one_output(1, &y);
  CHECK_INT(roll(&spec, &code).n, 0);
  end();
}

static void memory_failures(void) {
  begin();
  atvi_idx n;
  const atvi_node *x = hierarchy(200, &n);
  atvi_prog_spec spec = one_output(n, x);
  atvi_module_opts opts = {.compile = true, .cache_dir = cache};
  test_module_sweep(ctx, g, &spec, &opts, 200);
  end();
}

TESTS({"hierarchies", hierarchies_become_loops}, {"irregular", irregular_copies},
      {"picked", values_picked_by_copies}, {"long", loops_among_long_code}, {"scatters", scatters_stay_last},
      {"not worth it", what_is_not_worth_it}, {"memory", memory_failures})
