/* SPDX-License-Identifier: MIT */
/* Interpreter and compiled code against atvi_graph_value. */
#include "exprs.h"
#include "testing.h"
#include <unistd.h>

enum { L = ATVI_LANES, ROOM = 4096 };

static atvi_ctx *ctx;
static atvi_graph *g;
static char cache[64];
static _Alignas(ATVI_ALIGN) double input[ROOM][L], output[ROOM][L], more[ROOM][L], uniform_in[ROOM];

static void begin(void) {
  ctx = test_ctx();
  CHECK_OK(atvi_graph_new(ctx, &g));
  strcpy(cache, "/tmp/atvi-test-XXXXXX");
  CHECK(mkdtemp(cache));
}

static void end(void) {
  char command[128];
  atvi_graph_free(g);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
  snprintf(command, sizeof command, "rm -rf %s", cache);
  CHECK(system(command) == 0);
}

static atvi_node con(double v) { return atvi_graph_const(g, v); }
static atvi_node in(int i) { return atvi_graph_input(g, 0, i); }
static atvi_node op1(atvi_op op, atvi_node a) { return atvi_graph_op1(g, op, a); }
static atvi_node op2(atvi_op op, atvi_node a, atvi_node b) { return atvi_graph_op2(g, op, a, b); }

static uint64_t random_state = 88172645463325252u;
static double uniform(void) {
  random_state ^= random_state << 13;
  random_state ^= random_state >> 7;
  random_state ^= random_state << 17;
  return (double)(random_state >> 11) * 0x1p-53;
}

static atvi_module *make(bool compile, atvi_idx n, const atvi_prog_spec *spec) {
  atvi_module *m;
  atvi_module_info info;
  atvi_module_opts opts = {.compile = compile, .cache_dir = cache};
  CHECK_OK(atvi_graph_module_new(ctx, g, n, spec, &opts, &m, &info));
  CHECK_MSG(info.compiled == compile, "%s", info.reason);
  CHECK_STR(info.reason, "");
  return m;
}

static void run(const atvi_prog *p, const double *const *ins, double *const *outs) {
  double *scratch = atvi_block(ctx, p->scratch * sizeof *scratch);
  CHECK(scratch);
  for (size_t i = 0; i < p->scratch; i++) scratch[i] = NAN;
  long before = test_allocs;
  atvi_graph_prog_run(p, scratch, ins, outs);
  CHECK(test_allocs == before);
  atvi_block_free(ctx, scratch);
}

static bool agree(double a, double b, double tol) {
  if (isnan(a) || isnan(b)) return isnan(a) && isnan(b);
  return a == b || fabs(a - b) <= tol * fabs(b);
}

/* Every output in every lane against the oracle. */
static void check_lanes(const atvi_prog *p, atvi_idx n, const atvi_node *x, double tol,
                        const char *const *name, const char *how) {
  memset(output, 0, sizeof output);
  run(p, (const double *const[]){&input[0][0]}, (double *const[]){&output[0][0]});
  double *point = atvi_block(ctx, ROOM * sizeof *point), want;
  for (int l = 0; l < L; l++) {
    for (int i = 0; i < ROOM; i++) point[i] = input[i][l];
    for (atvi_idx i = 0; i < n; i++) {
      CHECK_OK(atvi_graph_value(ctx, g, x[i], (const double *const[]){point}, &want));
      CHECK_MSG(agree(output[i][l], want, tol), "%s %s lane %d: %.17g, want %.17g", how, name ? name[i] : "",
                l, output[i][l], want);
    }
  }
  atvi_block_free(ctx, point);
}

/* A program with one input slot, compiled, and interpreted by every instruction set there is. */
static void compare(atvi_idx n, const atvi_node *x, double tol, const char *const *name) {
  atvi_prog_spec spec = {
      .name = "all", .n_in = 1, .in = {{0, ROOM, false}}, .n_out = 1, .out = {{n, x, false}}};
  atvi_module *m = make(true, 1, &spec);
  atvi_prog p = atvi_graph_module_get(m, 0);
  check_lanes(&p, n, x, tol, name, "compiled");
  atvi_graph_module_free(m);
  m = make(false, 1, &spec);
  p = atvi_graph_module_get(m, 0);
  p.fn = atvi_graph_interp_run_base;
  check_lanes(&p, n, x, tol, name, "base");
#ifdef ATVI_HAVE_X86_ISA
  p.fn = atvi_graph_interp_run_avx2;
  if (atvi_isa_best() >= ATVI_ISA_AVX2) check_lanes(&p, n, x, tol, name, "avx2");
  p.fn = atvi_graph_interp_run_avx512;
  if (atvi_isa_best() >= ATVI_ISA_AVX512) check_lanes(&p, n, x, tol, name, "avx512");
#endif
  atvi_graph_module_free(m);
}

static void every_operation_and_derivative(void) {
  begin();
  atvi_node x[5 * N_TEST_EXPR];
  const char *name[5 * N_TEST_EXPR];
  atvi_idx n = 0;
  for (int e = 0; e < N_TEST_EXPR; e++) {
    const test_expr *t = &test_exprs[e];
    atvi_node wrt[4], grad[4], seed = con(1.7);
    bool whole = t->op == ATVI_OP_FN && t->fn >= ATVI_FN_POISSON_LCDF;
    for (int k = 0; k < t->n_arg; k++) {
      wrt[k] = in(4 * e + k);
      for (int l = 0; l < L; l++) input[4 * e + k][l] = whole && k < 2 ? t->x[k] : t->x[k] * (1 + 0.01 * l);
    }
    x[n] = test_expr_node(g, t, 4 * e);
    atvi_graph_vjp(g, 1, &x[n], &seed, t->n_arg, wrt, grad);
    name[n++] = t->name;
    for (int k = 0; k < t->n_arg; k++) {
      x[n] = grad[k];
      name[n++] = t->name;
    }
  }
  compare(n, x, 1e-12, name);
  end();
}

/* Infinities, NaN, zeros and denormals must come out as libm has them, in every lane. */
static void special_arguments(void) {
  static const double hard[] = {0.0,    -0.0,    1,      -1,    INFINITY, -INFINITY, NAN,
                                1e-310, -1e-310, 5e-324, 1e300, -1e300,   709.79,    -745.2,
                                0.5,    -2.5,    1e22,   3,     27,       -40};
  enum { N_HARD = sizeof hard / sizeof hard[0] };
  begin();
  atvi_node x[2000];
  const char *name[2000];
  atvi_idx n = 0;
  for (int e = 0; e < N_TEST_EXPR; e++) {
    const test_expr *t = &test_exprs[e];
    if (t->op == ATVI_OP_FN || t->op == ATVI_OP_LRISE || t->op == ATVI_OP_LRISE_D || t->n_arg > 2) continue;
    name[n] = t->name;
    x[n++] = test_expr_node(g, t, 0);
  }
  x[n] = atvi_graph_select(g, in(0), op2(ATVI_OP_DIV, in(1), in(0)), op1(ATVI_OP_SQRT, in(1)));
  name[n++] = "select";
  for (int i = 0; i < N_HARD; i += 2) /* lanes differ: one hard argument must not touch its neighbours */
    for (int j = 0; j < N_HARD; j += 4) {
      for (int l = 0; l < L; l++) {
        input[0][l] = hard[(i + l % 2) % N_HARD];
        input[1][l] = hard[(j + l / 2) % N_HARD];
      }
      compare(n, x, 1e-12, name);
    }
  end();
}

/* Bit for bit, whatever the other lanes hold. */
static void lanes_do_not_see_each_other(void) {
  static const double hard[] = {0, -1, INFINITY, NAN, 1e-310, 1e300, -745.2, 1e22};
  static _Alignas(ATVI_ALIGN) double mixed[ROOM][L], got[N_TEST_EXPR][L];
  begin();
  atvi_node x[N_TEST_EXPR];
  for (int e = 0; e < N_TEST_EXPR; e++) {
    x[e] = test_expr_node(g, &test_exprs[e], 4 * e);
    for (int k = 0; k < 4; k++)
      for (int l = 0; l < L; l++)
        mixed[4 * e + k][l] =
            uniform() < 0.3 ? hard[(int)(8 * uniform())] : test_exprs[e].x[k] * (0.5 + uniform());
  }
  atvi_prog_spec spec = {
      .name = "all", .n_in = 1, .in = {{0, ROOM, false}}, .n_out = 1, .out = {{N_TEST_EXPR, x, false}}};
  for (int compile = 0; compile < 2; compile++) {
    atvi_module *m = make(compile, 1, &spec);
    atvi_prog p = atvi_graph_module_get(m, 0);
    memcpy(input, mixed, sizeof input);
    run(&p, (const double *const[]){&input[0][0]}, (double *const[]){&got[0][0]});
    for (int l = 0; l < L; l++) {
      for (int i = 0; i < ROOM; i++)
        for (int j = 0; j < L; j++) input[i][j] = mixed[i][l];
      run(&p, (const double *const[]){&input[0][0]}, (double *const[]){&output[0][0]});
      for (int e = 0; e < N_TEST_EXPR; e++)
        CHECK_MSG(agree(output[e][(l + 3) % L], got[e][l], 0), "%s lane %d: %.17g alone, %.17g in company",
                  test_exprs[e].name, l, output[e][(l + 3) % L], got[e][l]);
    }
    atvi_graph_module_free(m);
  }
  end();
}

static void random_graphs(void) {
  static const atvi_op op[] = {ATVI_OP_SIN, ATVI_OP_COS, ATVI_OP_TANH, ATVI_OP_ATAN, ATVI_OP_ERF,
                               ATVI_OP_NEG, ATVI_OP_ABS, ATVI_OP_EXP,  ATVI_OP_SINH};
  enum { N_IN = 6, N_NODE = 200 };
  for (int round = 0; round < 6; round++) {
    begin();
    atvi_node x[N_IN + N_NODE], grad[N_IN], seed = con(0.731);
    for (int i = 0; i < N_IN; i++) {
      x[i] = in(i);
      for (int l = 0; l < L; l++) input[i][l] = 0.3 + uniform();
    }
    for (int i = N_IN; i < N_IN + N_NODE; i++) {
      atvi_node a = x[(int)(uniform() * i)], b = x[(int)(uniform() * i)], c = x[(int)(uniform() * i)];
      double pick = uniform();
      atvi_node far = op2(ATVI_OP_ADD, con(2.5), op1(ATVI_OP_TANH, b));
      /* sizes stay near 1 and nothing cancels much: rounding is not amplified */
      x[i] = pick < 0.3 ? op1(op[(int)(uniform() * 9)], op1(ATVI_OP_TANH, a))
             : pick < 0.5
                 ? op2(ATVI_OP_ADD, con(1.5), op2(ATVI_OP_MUL, op1(ATVI_OP_TANH, a), op1(ATVI_OP_SIN, b)))
             : pick < 0.7 ? op2(ATVI_OP_DIV, a, far)
             : pick < 0.8 ? op2(ATVI_OP_POW, far, op1(ATVI_OP_SIN, a))
             : pick < 0.9 ? atvi_graph_select(g, op2(ATVI_OP_LT, a, con(0.77)), op1(ATVI_OP_TANH, b), c)
                          : op2(ATVI_OP_MAX, op1(ATVI_OP_TANH, a), op1(ATVI_OP_LOG, far));
    }
    compare(N_NODE, x + N_IN, 1e-12, NULL);
    atvi_graph_vjp(g, 1, &x[N_IN + N_NODE - 1], &seed, N_IN, x, grad);
    compare(N_IN, grad, 1e-11, NULL);
    end();
  }
}

static void slots_uniform_and_accumulating(void) {
  begin();
  atvi_node a = in(1), t = atvi_graph_input(g, 5, 0), u = atvi_graph_input(g, 5, 2);
  atvi_node first[2] = {op2(ATVI_OP_MUL, a, t), u}, second[3] = {op2(ATVI_OP_ADD, a, u), con(0), con(2.385)};
  atvi_prog_spec spec[2] = {{.name = "one",
                             .n_in = 2,
                             .in = {{5, 3, true}, {0, 2, false}},
                             .n_out = 2,
                             .out = {{2, first, false}, {3, second, true}}},
                            {.name = "two", .n_in = 0, .n_out = 1, .out = {{1, &second[2], false}}}};
  uniform_in[0] = 0.731;
  uniform_in[2] = -1.27;
  for (int compile = 0; compile < 2; compile++) {
    atvi_module *m = make(compile, 2, spec);
    atvi_prog p = atvi_graph_module_get(m, 0), q = atvi_graph_module_get(m, 1);
    for (int l = 0; l < L; l++) {
      input[1][l] = 1.5 + l;
      for (int i = 0; i < 3; i++) more[i][l] = 10 * i + l;
    }
    run(&p, (const double *const[]){uniform_in, &input[0][0]}, (double *const[]){&output[0][0], &more[0][0]});
    for (int l = 0; l < L; l++) {
      CHECK(output[0][l] == (1.5 + l) * 0.731 && output[1][l] == -1.27);
      CHECK_REL(more[0][l], l + (1.5 + l - 1.27), 1e-15);
      CHECK(more[1][l] == 10 + l && more[2][l] == 20 + l + 2.385);
    }
    run(&q, NULL, (double *const[]){&output[0][0]});
    for (int l = 0; l < L; l++) CHECK(output[0][l] == 2.385);
    atvi_graph_module_free(m);
  }
  end();
}

/* Longer than a part of generated code, with values used far from where they are made. */
static void long_programs_are_cut(void) {
  enum { N = 4000 };
  begin();
  static atvi_node x[N];
  for (int i = 0; i < 16; i++)
    for (int l = 0; l < L; l++) input[i][l] = 0.3 + uniform();
  atvi_node truth = op2(ATVI_OP_LT, in(0), in(1));
  for (int i = 0; i < N; i++) {
    atvi_node a = i < 16 ? in(i) : x[i - 16], b = i < 3 ? in(3) : x[(int)(uniform() * i)];
    x[i] = op2(ATVI_OP_ADD, op2(ATVI_OP_MUL, con(0.5 + 1e-4 * i), a), op2(ATVI_OP_MUL, con(0.25), b));
    if (i % 100 == 99) x[i] = atvi_graph_select(g, truth, x[i], op2(ATVI_OP_ADD, x[i], truth));
    if (i > 100) x[i] = op2(ATVI_OP_DIV, x[i], op2(ATVI_OP_ADD, con(1), x[i]));
  }
  compare(40, x + N - 40, 1e-12, NULL);
  end();
}

/* As a sparse Jacobian: many equal constants side by side, broken by other outputs and by values. */
static void runs_of_constants(void) {
  begin();
  atvi_node x[40];
  for (int i = 0; i < 40; i++) x[i] = i % 13 == 5 ? in(i) : con(i / 20 ? 2.385 : 0);
  for (int l = 0; l < L; l++)
    for (int i = 0; i < 40; i++) input[i][l] = 1 + i + 0.01 * l;
  compare(40, x, 0, NULL);
  end();
}

static void errors_are_told(void) {
  begin();
  atvi_module *m;
  atvi_module_info info;
  atvi_node x = in(3), none = ATVI_NODE_NONE;
  atvi_prog_spec spec = {.name = "p", .n_in = 1, .in = {{1, 9, false}}, .n_out = 1, .out = {{1, &x, false}}};
  CHECK_STATUS(atvi_graph_module_new(ctx, g, 1, &spec, NULL, &m, &info), ATVI_EINVAL);
  CHECK(m == NULL && strstr(atvi_errmsg(ctx), "kind 0"));
  spec.in[0] = (atvi_prog_in){0, 3, false};
  CHECK_STATUS(atvi_graph_module_new(ctx, g, 1, &spec, NULL, &m, NULL), ATVI_EINVAL);
  spec.in[0].n = 4;
  spec.name = "Bad name";
  CHECK_STATUS(atvi_graph_module_new(ctx, g, 1, &spec, NULL, &m, NULL), ATVI_EINVAL);
  spec.name = "p";
  spec.out[0].nodes = &none;
  CHECK_STATUS(atvi_graph_module_new(ctx, g, 1, &spec, NULL, &m, NULL), ATVI_EINVAL);
  spec.out[0].nodes = &x;
  CHECK_STATUS(atvi_graph_module_new(ctx, g, -1, &spec, NULL, &m, NULL), ATVI_EINVAL);
  CHECK_OK(atvi_graph_module_new(ctx, g, 1, &spec, NULL, &m, &info));
  CHECK(!info.compiled && info.reason[0] == 0);
  atvi_graph_module_free(m);
  atvi_graph_module_free(NULL);
  end();
}

static void sweep(bool compile) {
  atvi_node y = in(0);
  for (int i = 0; i < 50; i++) y = op1(ATVI_OP_SIN, op2(ATVI_OP_ADD, y, in(i)));
  atvi_prog_spec spec = {.name = "p", .n_in = 1, .in = {{0, 50, false}}, .n_out = 1, .out = {{1, &y, false}}};
  atvi_module_opts opts = {.compile = compile, .cache_dir = cache};
  test_module_sweep(ctx, g, &spec, &opts, 100);
}

static void memory_failures(void) {
  begin();
  sweep(false);
  sweep(true);
  end();
}

static void source_is_deterministic(void) {
  begin();
  atvi_pool *pool;
  CHECK_OK(atvi_pool_new(ctx, &pool));
  const char *source[2];
  for (int k = 0; k < 2; k++) {
    atvi_graph *h;
    CHECK_OK(atvi_graph_new(ctx, &h));
    atvi_node x = atvi_graph_input(h, 0, 0), y = atvi_graph_op1(h, ATVI_OP_EXP, x);
    atvi_node z = atvi_graph_op2(h, ATVI_OP_DIV, y, atvi_graph_input(h, 0, 1));
    atvi_prog_spec spec = {
        .name = "p", .n_in = 1, .in = {{0, 2, false}}, .n_out = 1, .out = {{1, &z, false}}};
    source[k] = atvi_graph_module_source(pool, h, 1, &spec);
    CHECK(source[k] && strstr(source[k], "atvi_prog_p"));
    atvi_graph_free(h);
  }
  CHECK_STR(source[0], source[1]);
  atvi_pool_free(pool);
  end();
}

/* 49 * (1/49) < 1: a division by a constant, or by a denominator that others share, must not be replaced by a
 * multiplication where a step is taken from it. */
static void steps_are_where_they_should_be(void) {
  begin();
  static const double of[] = {49, 98, 103, 107, 161, 187};
  enum { N = sizeof of / sizeof *of, FORMS = 8 };
  atvi_node x[FORMS * N + 2];
  atvi_idx n = 0;
  for (int k = 0; k < N; k++) {
    atvi_node q = op2(ATVI_OP_DIV, in(0), con(of[k])), one = con(1);
    x[n++] = op1(ATVI_OP_FLOOR, q);
    x[n++] = op1(ATVI_OP_FLOOR, op2(ATVI_OP_DIV, op1(ATVI_OP_NEG, in(0)), con(of[k])));
    x[n++] = op1(ATVI_OP_FLOOR, op2(ATVI_OP_ADD, q, in(1)));
    x[n++] = op2(ATVI_OP_LE, one, q);
    x[n++] = op2(ATVI_OP_LT, q, one);
    x[n++] = op2(ATVI_OP_EQ, q, one);
    x[n++] = op1(ATVI_OP_SIGN, op2(ATVI_OP_SUB, q, one));
    x[n++] = atvi_graph_select(g, op2(ATVI_OP_LE, con(0), op2(ATVI_OP_SUB, q, one)), in(1), in(2));
  }
  x[n++] = op1(ATVI_OP_FLOOR, op2(ATVI_OP_DIV, in(0), in(3)));
  x[n++] = op1(ATVI_OP_EXP, op2(ATVI_OP_ADD, op2(ATVI_OP_DIV, in(1), in(3)), op2(ATVI_OP_DIV, in(2), in(3))));
  for (int k = 0; k < N; k++) {
    for (int l = 0; l < L; l++) {
      input[0][l] = of[k];
      input[1][l] = 0;
      input[2][l] = 0.731;
      input[3][l] = of[k];
    }
    compare(n, x, 1e-15, NULL);
    const double want[FORMS] = {1, -1, 1, 1, 0, 1, 0, 0};
    for (int f = 0; f < FORMS; f++)
      CHECK_MSG(output[FORMS * k + f][0] == want[f], "form %d of %g: %g", f, of[k], output[FORMS * k + f][0]);
    CHECK(output[n - 2][0] == 1);
  }
  end();
}

/* Elsewhere a division by a constant costs a multiplication. */
static void constants_are_multiplied_by(void) {
  begin();
  atvi_pool *pool;
  CHECK_OK(atvi_pool_new(ctx, &pool));
  atvi_node q = op2(ATVI_OP_DIV, in(0), con(49)),
            x[3] = {op1(ATVI_OP_EXP, q), op2(ATVI_OP_ADD, q, in(1)), op1(ATVI_OP_NEG, q)};
  atvi_prog_spec spec = {
      .name = "rates", .n_in = 1, .in = {{0, ROOM, false}}, .n_out = 1, .out = {{3, x, false}}};
  atvi_graph_code code;
  CHECK_OK(atvi_graph_code_new(pool, g, &spec, &code));
  int products = 0;
  for (atvi_idx i = 0; i < code.n; i++) {
    CHECK(code.ins[i].op != ATVI_OP_DIV && code.ins[i].op != ATVI_INS_RECIP);
    products += code.ins[i].op == ATVI_OP_MUL;
  }
  CHECK_INT(products, 2); /* by 1/49 and -1/49 */
  for (int l = 0; l < L; l++) {
    input[0][l] = 2.385 + l;
    input[1][l] = 0.731;
  }
  compare(3, x, 1e-15, NULL);
  atvi_pool_free(pool);
  end();
}

/* Lists of many lengths, an index in every lane and one for all, also beyond the ends; adjoints scattered and
 * written out. */
static void elements_of_lists(void) {
  begin();
  static const int SIZE[] = {2, 3, 4, 5, 6, 7, 8, 60};
  enum { N_SIZE = sizeof SIZE / sizeof *SIZE, N = 60, FIRST = 10 };
  atvi_pool *pool;
  CHECK_OK(atvi_pool_new(ctx, &pool));
  atvi_node x[N], y[3 * N_SIZE], seed[2 * N_SIZE], all[N + 2 * N_SIZE], grad[N], full[N];
  for (int k = 0; k < N; k++) x[k] = in(FIRST + k);
  atvi_node index = in(0), shared = atvi_graph_input(g, 5, 0);
  atvi_idx n = 0;
  for (int s = 0; s < N_SIZE; s++)
    for (int all_lanes = 0; all_lanes < 2; all_lanes++) {
      atvi_node at = all_lanes ? shared : index, pick = atvi_graph_pick(g, SIZE[s], x + N - SIZE[s], at);
      y[n] = op2(ATVI_OP_MUL, op1(ATVI_OP_EXP, pick), in(1 + s));
      seed[n] = con(0.7 + (double)n);
      n++;
    }
  atvi_scatters scatters = {.pool = pool};
  atvi_graph_vjp(g, n, y, seed, N, x, full);
  atvi_graph_vjp_scatter(g, n, y, seed, N, x, grad, &scatters);
  CHECK_INT(scatters.n, n);
  for (int k = 0; k < N; k++) CHECK(grad[k] == con(0));
  for (atvi_idx i = 0; i < n; i++) all[i] = y[i];
  for (int k = 0; k < N; k++) all[n + k] = full[k];
  atvi_prog_spec spec[2] = {{.name = "values",
                             .n_in = 2,
                             .in = {{0, ROOM, false}, {5, 1, true}},
                             .n_out = 1,
                             .out = {{n + N, all, false}}},
                            {.name = "scattered",
                             .n_in = 2,
                             .in = {{0, ROOM, false}, {5, 1, true}},
                             .n_out = 2,
                             .out = {{n, y, false}, {N, grad, true}},
                             .scatter_out = 1,
                             .n_scatter = scatters.n,
                             .scatter = scatters.item}};
  for (int l = 0; l < L; l++)
    for (int i = 0; i < FIRST + N; i++) input[i][l] = sin(i * 1.7 + l);
  for (int compile = 0; compile < 2; compile++) {
    atvi_module *m = make(compile, 2, spec);
    atvi_prog values = atvi_graph_module_get(m, 0), scattered = atvi_graph_module_get(m, 1);
    for (int turn = 0; turn < N + 2; turn++) {
      uniform_in[0] = turn - 1;
      for (int l = 0; l < L; l++) input[0][l] = (turn * 7 + l * 13) % (N + 2) - 1;
      const double *const ins[] = {&input[0][0], uniform_in};
      memset(more, 0, sizeof more);
      run(&values, ins, (double *const[]){&output[0][0]});
      double point[FIRST + N], want;
      for (int l = 0; l < L; l++) {
        for (int i = 0; i < FIRST + N; i++) point[i] = input[i][l];
        for (atvi_idx i = 0; i < n; i++) {
          CHECK_OK(atvi_graph_value(
              ctx, g, y[i], (const double *const[]){point, NULL, NULL, NULL, NULL, uniform_in}, &want));
          CHECK_REL(output[i][l], want, 1e-13);
        }
      }
      static _Alignas(ATVI_ALIGN) double first[3 * N_SIZE][L];
      run(&scattered, ins, (double *const[]){&first[0][0], &more[0][0]});
      for (int l = 0; l < L; l++) {
        for (atvi_idx i = 0; i < n; i++) CHECK(first[i][l] == output[i][l]);
        bool inside = turn >= 1 && turn <= 2 && input[0][l] >= 0 && input[0][l] < 2; /* of every list */
        for (int k = 0; k < N && inside; k++)
          CHECK(fabs(more[k][l] - output[n + k][l]) <= 1e-13 * fabs(output[n + k][l]));
        double sum = 0, sum_y = 0;
        for (int k = 0; k < N; k++) sum += more[k][l];
        for (atvi_idx i = 0; i < n; i++) sum_y += (0.7 + (double)i) * first[i][l];
        CHECK_REL(sum, sum_y, 1e-12); /* every adjoint arrived somewhere */
      }
    }
    atvi_graph_module_free(m);
  }
  atvi_node apart[2] = {in(FIRST), in(FIRST + 2)}, bad = atvi_graph_pick(g, 2, apart, index);
  atvi_prog_spec wrong = {
      .name = "p", .n_in = 1, .in = {{0, ROOM, false}}, .n_out = 1, .out = {{1, &bad, false}}};
  atvi_module *m;
  CHECK_STATUS(atvi_graph_module_new(ctx, g, 1, &wrong, NULL, &m, NULL), ATVI_EINVAL);
  CHECK(strstr(atvi_errmsg(ctx), "not neighbouring"));
  spec[1].scatter_out = 2;
  CHECK_STATUS(atvi_graph_module_new(ctx, g, 2, spec, NULL, &m, NULL), ATVI_EINVAL);
  CHECK(strstr(atvi_errmsg(ctx), "scatter"));
  atvi_pool_free(pool);
  end();
}

TESTS({"operations", every_operation_and_derivative}, {"special", special_arguments},
      {"lanes", lanes_do_not_see_each_other}, {"random", random_graphs},
      {"slots", slots_uniform_and_accumulating}, {"long", long_programs_are_cut}, {"runs", runs_of_constants},
      {"errors", errors_are_told}, {"memory", memory_failures}, {"source", source_is_deterministic},
      {"steps", steps_are_where_they_should_be}, {"by constants", constants_are_multiplied_by},
      {"lists", elements_of_lists})
