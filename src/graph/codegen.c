/* SPDX-License-Identifier: MIT */
/* Generated C: one function per program, one statement per instruction.
 *
 * Instruction i is the vector v<i>; truth values are also the bit mask m<i>, which is what select and
 * logic use. Inputs are read where they are used. A program longer than PART instructions becomes
 * several functions, for compilers take more than linear time over one; values that live from one
 * part into another go through scratch, in slots that are reused part by part. */
#include "graph/internal.h"
#include "math/special.h"
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

enum { PART = 1500 };

const atvi_callbacks atvi_graph_gen_callbacks = {
    .f1 = {atvi_math_lgamma, atvi_math_digamma, atvi_math_trigamma, atvi_math_log_ndtr, atvi_math_log_ndtr_d},
    .f2 = {atvi_math_lrise, atvi_math_lrise_dnu},
    .fn = atvi_graph_fn_eval,
};

typedef struct {
  atvi_pool *pool;
  char *text;
  size_t n, cap;
  bool failed;
} text;

static void put(text *t, const char *fmt, ...) ATVI_PRINTF(2, 3);
static void put(text *t, const char *fmt, ...) {
  for (int again = 0; again < 2 && !t->failed; again++) {
    va_list args;
    va_start(args, fmt);
    int len = vsnprintf(t->text ? t->text + t->n : NULL, t->cap - t->n, fmt, args);
    va_end(args);
    if (len >= 0 && (size_t)len < t->cap - t->n) {
      t->n += (size_t)len;
      return;
    }
    size_t cap = 2 * (t->cap + (size_t)(len < 0 ? 0 : len) + 4096);
    char *bigger = atvi_pool_take(t->pool, cap, 1);
    t->failed = !bigger || len < 0;
    if (t->failed) return;
    if (t->n) memcpy(bigger, t->text, t->n);
    t->text = bigger;
    t->cap = cap;
  }
}

static const char *const math1[ATVI_OP_COUNT] = {
    [ATVI_OP_EXP] = "exp",   [ATVI_OP_LOG] = "log",   [ATVI_OP_LOG1P] = "log1p", [ATVI_OP_EXPM1] = "expm1",
    [ATVI_OP_SIN] = "sin",   [ATVI_OP_COS] = "cos",   [ATVI_OP_TAN] = "tan",     [ATVI_OP_ASIN] = "asin",
    [ATVI_OP_ACOS] = "acos", [ATVI_OP_ATAN] = "atan", [ATVI_OP_SINH] = "sinh",   [ATVI_OP_COSH] = "cosh",
    [ATVI_OP_TANH] = "tanh", [ATVI_OP_ERF] = "erf",
};
static const char *const math2[ATVI_OP_COUNT] = {[ATVI_OP_POW] = "pow", [ATVI_OP_ATAN2] = "atan2"};
static const char *const inline_fn[ATVI_OP_COUNT] = {
    [ATVI_OP_ABS] = "v_abs",           [ATVI_OP_SIGN] = "v_sign",   [ATVI_OP_FLOOR] = "v_floor",
    [ATVI_OP_SQRT] = "v_sqrt",         [ATVI_OP_MIN] = "v_min",     [ATVI_OP_MAX] = "v_max",
    [ATVI_OP_XDIVY] = "v_xdivy",       [ATVI_OP_XLOGY] = "v_xlogy", [ATVI_OP_LOG_ADD] = "v_log_add",
    [ATVI_OP_INVLOGIT] = "v_invlogit",
};
static const char *const infix[ATVI_OP_COUNT] = {
    [ATVI_OP_ADD] = "+", [ATVI_OP_SUB] = "-", [ATVI_OP_MUL] = "*", [ATVI_OP_DIV] = "/", [ATVI_OP_LT] = "<",
    [ATVI_OP_LE] = "<=", [ATVI_OP_EQ] = "==", [ATVI_OP_AND] = "&", [ATVI_OP_OR] = "|",
};

typedef struct {
  text *t;
  const atvi_prog_spec *spec;
  const atvi_graph_code *code;
  int32_t *slot;         /* [n] scratch slot of values that leave their part, else -1 */
  int32_t *dying, *next; /* [n_part], [n] lists of the values last used in a part */
  int32_t *free;         /* stack of free slots */
  atvi_idx n_free, cap_free, n_slot, n_part, part;
} gen;

static void put_number(text *t, double v) {
  if (isnan(v))
    put(t, "K(NOT_A_NUMBER)");
  else if (isinf(v))
    put(t, v > 0 ? "K(INF)" : "K(-INF)");
  else
    put(t, "K(%a)", v);
}

static void put_operand(gen *e, int32_t i) {
  const atvi_ins *s = &e->code->ins[i];
  if (s->op == ATVI_OP_CONST)
    put_number(e->t, s->value);
  else if (s->op == ATVI_OP_INPUT)
    put(e->t, "%c(x%d, %d)", s->uniform ? 'U' : 'A', (int)s->index2, (int)s->index);
  else if (i / PART != e->part)
    put(e->t, "A(s, %d)", (int)e->slot[i]);
  else
    put(e->t, "v%d", (int)i);
}

/* Compilers spread a scalar over the other operand's lanes themselves, and read it faster than K(..). */
static bool put_scalar(gen *e, int32_t i) {
  const atvi_ins *s = &e->code->ins[i];
  if (s->op == ATVI_OP_CONST && isfinite(s->value))
    put(e->t, "%a", s->value);
  else if (s->op == ATVI_OP_INPUT && s->uniform)
    put(e->t, "x%d[%d]", (int)s->index2, (int)s->index);
  else
    return false;
  return true;
}

static void put_infix(gen *e, const atvi_ins *s) {
  bool scalar = put_scalar(e, s->arg[0]);
  if (!scalar) put_operand(e, s->arg[0]);
  put(e->t, " %s ", infix[s->op]);
  if (scalar || !put_scalar(e, s->arg[1])) put_operand(e, s->arg[1]);
  put(e->t, ";\n");
}

static void put_mask(gen *e, int32_t i) {
  if (atvi_graph_op_is_truth(e->code->ins[i].op) && i / PART == e->part) {
    put(e->t, "m%d", (int)i);
    return;
  }
  put(e->t, "holds(");
  put_operand(e, i);
  put(e->t, ")");
}

static void put_call(gen *e, const atvi_ins *s) {
  for (int k = 0; k < s->n_arg; k++) {
    if (k) put(e->t, ", ");
    put_operand(e, s->arg[k]);
  }
  put(e->t, ");\n");
}

static void put_truth(gen *e, int32_t i, const atvi_ins *s) {
  bool logic = s->op == ATVI_OP_AND || s->op == ATVI_OP_OR;
  put(e->t, "const M m%d = ", (int)i);
  if (s->op == ATVI_OP_NOT) {
    put(e->t, "~");
    put_mask(e, s->arg[0]);
  } else if (logic) {
    put_mask(e, s->arg[0]);
    put(e->t, " %s ", infix[s->op]);
    put_mask(e, s->arg[1]);
  } else {
    put(e->t, "(M)(");
    put_operand(e, s->arg[0]);
    put(e->t, " %s ", infix[s->op]);
    put_operand(e, s->arg[1]);
    put(e->t, ")");
  }
  put(e->t, "; const V v%d = truth(m%d);\n", (int)i, (int)i);
}

static void put_fn(gen *e, const atvi_ins *s) {
  put(e->t, "calln(T, %d, %d", (int)s->index, (int)s->index2);
  for (int k = 0; k < 4; k++) {
    put(e->t, ", ");
    put_operand(e, s->arg[k < s->n_arg ? k : 0]);
  }
  put(e->t, ");\n");
}

static void put_select(gen *e, const atvi_ins *s) {
  put(e->t, "pick(");
  put_mask(e, s->arg[0]);
  put(e->t, ", ");
  put_operand(e, s->arg[1]);
  put(e->t, ", ");
  put_operand(e, s->arg[2]);
  put(e->t, ");\n");
}

/* Lanes that share an index read and add whole vectors. */
static void put_pick(gen *e, const atvi_ins *s) {
  const atvi_ins *index = &e->code->ins[s->arg[0]];
  if (index->op == ATVI_OP_INPUT && index->uniform) {
    put(e->t, "A(x%d, %d + at(x%d[%d], %d));\n", (int)s->index2, (int)s->index, (int)index->index2,
        (int)index->index, (int)s->count);
    return;
  }
  put(e->t, "gather(x%d + %d * L + c * W, %d, ", (int)s->index2, (int)s->index, (int)s->count);
  put_operand(e, s->arg[0]);
  put(e->t, ");\n");
}

static void put_scatter(gen *e, const atvi_ins *s) {
  const atvi_ins *index = &e->code->ins[s->arg[0]];
  if (index->op == ATVI_OP_INPUT && index->uniform) {
    put(e->t, "O(y%d, %d + at(x%d[%d], %d)) += ", (int)s->index2, (int)s->index, (int)index->index2,
        (int)index->index, (int)s->count);
    put_operand(e, s->arg[1]);
    put(e->t, ";\n");
    return;
  }
  put(e->t, "scatter(y%d + %d * L + c * W, %d, ", (int)s->index2, (int)s->index, (int)s->count);
  put_call(e, s);
}

static void put_value(gen *e, int32_t i, const atvi_ins *s) {
  put(e->t, "const V v%d = ", (int)i);
  int op = s->op;
  if (op == ATVI_INS_RECIP || op == ATVI_OP_NEG) {
    put(e->t, op == ATVI_OP_NEG ? "-" : "1.0 / ");
    put_operand(e, s->arg[0]);
    put(e->t, ";\n");
  } else if (op == ATVI_OP_SELECT) {
    put_select(e, s);
  } else if (op == ATVI_OP_FN) {
    put_fn(e, s);
  } else if (op == ATVI_OP_PICK) {
    put_pick(e, s);
  } else if (infix[op]) {
    put_infix(e, s);
  } else {
    if (math1[op] || math2[op])
      put(e->t, "v_%s(", math1[op] ? math1[op] : math2[op]);
    else if (inline_fn[op])
      put(e->t, "%s(", inline_fn[op]);
    else if (op == ATVI_OP_LRISE || op == ATVI_OP_LRISE_D)
      put(e->t, "call2(T->f2[%d], ", op - ATVI_OP_LRISE);
    else
      put(e->t, "call1(T->f1[%d], ", op - ATVI_OP_LGAMMA);
    put_call(e, s);
  }
}

static void put_ins(gen *e, int32_t i) {
  const atvi_ins *s = &e->code->ins[i];
  if (s->op == ATVI_OP_CONST || s->op == ATVI_OP_INPUT) return;
  if (s->op == ATVI_INS_STORE || s->op == ATVI_INS_ADD_TO) {
    put(e->t, "O(y%d, %d) %s ", (int)s->index2, (int)s->index, s->op == ATVI_INS_STORE ? "=" : "+=");
    put_operand(e, s->arg[0]);
    put(e->t, ";\n");
    return;
  }
  if (s->op == ATVI_INS_SCATTER) {
    put_scatter(e, s);
    return;
  }
  if (atvi_graph_op_is_truth(s->op))
    put_truth(e, i, s);
  else
    put_value(e, i, s);
  if (e->slot[i] >= 0) put(e->t, "O(s, %d) = v%d;\n", (int)e->slot[i], (int)i);
}

/* Stores of one constant to neighbouring places, as in a sparse Jacobian, become a loop. Instructions taken, 0 if none. */
static atvi_idx put_fill(gen *e, atvi_idx i, atvi_idx to) {
  const atvi_ins *s = &e->code->ins[i];
  atvi_idx n = 0;
  if (s->op != ATVI_INS_STORE || e->code->ins[s->arg[0]].op != ATVI_OP_CONST) return 0;
  for (const atvi_ins *r = s; i + n < to; n++, r++)
    if (r->op != s->op || r->arg[0] != s->arg[0] || r->index2 != s->index2 || r->index != s->index + n) break;
  if (n < 3) return 0;
  put(e->t, "for (int i = %d; i < %d; i++) O(y%d, i) = ", (int)s->index, (int)(s->index + n), (int)s->index2);
  put_operand(e, s->arg[0]);
  put(e->t, ";\n");
  return n;
}

/* Slots for the values of a part that are used in later ones; then those last used here become free. */
static bool assign_slots(gen *e, atvi_idx from, atvi_idx to) {
  for (atvi_idx i = from; i < to; i++) {
    const atvi_ins *s = &e->code->ins[i];
    bool leaves = s->op != ATVI_OP_CONST && s->op != ATVI_OP_INPUT && s->last / PART != e->part;
    e->slot[i] = -1;
    if (!leaves) continue;
    if (e->n_free) {
      e->slot[i] = e->free[--e->n_free];
    } else {
      if (!ATVI_PUSH(e->t->pool, e->free, e->n_slot, e->cap_free)) return false;
      e->slot[i] = (int32_t)e->n_slot++;
    }
    e->next[i] = e->dying[s->last / PART];
    e->dying[s->last / PART] = (int32_t)i;
  }
  for (int32_t i = e->dying[e->part]; i >= 0; i = e->next[i]) e->free[e->n_free++] = e->slot[i];
  return true;
}

#define SIGNATURE "(const void *self, double *scratch, const double *const *in, double *const *out)"

static void put_head(gen *e) {
  if (e->n_part == 1)
    put(e->t, "void atvi_prog_%s" SIGNATURE " {\n", e->spec->name);
  else
    put(e->t, "static __attribute__((noinline)) void part_%s_%d" SIGNATURE " {\n", e->spec->name,
        (int)e->part);
  put(e->t, "const table *T = self; (void)T;\ndouble *restrict s = scratch; (void)s; (void)in; (void)out;\n");
  for (int k = 0; k < e->spec->n_in; k++)
    put(e->t, "const double *restrict x%d = in[%d]; (void)x%d;\n", k, k, k);
  for (int k = 0; k < e->spec->n_out; k++) put(e->t, "double *restrict y%d = out[%d]; (void)y%d;\n", k, k, k);
  put(e->t, "for (int c = 0; c < C; c++) {\n");
}

static bool put_program(gen *e) {
  atvi_idx n = e->code->n;
  e->n_part = n ? (n + PART - 1) / PART : 1;
  e->slot = atvi_pool_take(e->t->pool, (size_t)n + 1, sizeof *e->slot);
  e->next = atvi_pool_take(e->t->pool, (size_t)n + 1, sizeof *e->next);
  e->dying = atvi_pool_take(e->t->pool, (size_t)e->n_part, sizeof *e->dying);
  if (!e->slot || !e->next || !e->dying) return false;
  for (atvi_idx p = 0; p < e->n_part; p++) e->dying[p] = -1;
  for (e->part = 0; e->part < e->n_part; e->part++) {
    atvi_idx from = e->part * PART, to = from + PART < n ? from + PART : n;
    if (!assign_slots(e, from, to)) return false;
    put_head(e);
    for (atvi_idx i = from; i < to;) {
      atvi_idx fill = put_fill(e, i, to);
      if (!fill) put_ins(e, (int32_t)i);
      i += fill ? fill : 1;
    }
    put(e->t, "}\n}\n");
  }
  if (e->n_part > 1) {
    put(e->t, "void atvi_prog_%s" SIGNATURE " {\n", e->spec->name);
    for (atvi_idx p = 0; p < e->n_part; p++)
      put(e->t, "part_%s_%d(self, scratch, in, out);\n", e->spec->name, (int)p);
    put(e->t, "}\n");
  }
  return !e->t->failed;
}

static void put_prelude(text *t, atvi_idx n, const atvi_graph_code *code) {
  bool used[ATVI_INS_RECIP + 1] = {0};
  for (atvi_idx k = 0; k < n; k++)
    for (atvi_idx i = 0; i < code[k].n; i++) used[code[k].ins[i].op] = true;
  used[ATVI_OP_LOG] = used[ATVI_OP_LOG] || used[ATVI_OP_XLOGY];
  used[ATVI_OP_LOG1P] = used[ATVI_OP_LOG1P] || used[ATVI_OP_LOG_ADD];
  used[ATVI_OP_EXP] = used[ATVI_OP_EXP] || used[ATVI_OP_LOG_ADD] || used[ATVI_OP_INVLOGIT];
  for (int k = 0; atvi_graph_gen_prelude[k]; k++) put(t, "%s", atvi_graph_gen_prelude[k]);
  for (int op = 0; op < ATVI_OP_COUNT; op++) {
    if (used[op] && math1[op]) put(t, "MATH1(%s)\n", math1[op]);
    if (used[op] && math2[op]) put(t, "MATH2(%s)\n", math2[op]);
  }
  if (used[ATVI_OP_XLOGY]) put(t, "%s", atvi_graph_gen_xlogy);
  if (used[ATVI_OP_LOG_ADD]) put(t, "%s", atvi_graph_gen_log_add);
  if (used[ATVI_OP_INVLOGIT]) put(t, "%s", atvi_graph_gen_invlogit);
  if (used[ATVI_OP_PICK] || used[ATVI_INS_SCATTER]) put(t, "%s", atvi_graph_gen_pick);
}

const char *atvi_graph_gen_source(atvi_pool *pool, atvi_idx n, const atvi_prog_spec *spec,
                                  const atvi_graph_code *code, size_t *scratch) {
  text t = {.pool = pool};
  put_prelude(&t, n, code);
  for (atvi_idx k = 0; k < n; k++) {
    gen e = {.t = &t, .spec = &spec[k], .code = &code[k]};
    if (!put_program(&e)) return NULL;
    scratch[k] = (size_t)e.n_slot * ATVI_LANES;
  }
  return t.failed ? NULL : t.text;
}

/* The fixed part of generated code: vector types of the machine's own width (wider ones are
 * several times slower, compilers keep them on the stack), and the functions of one vector.
 *
 * exp, log, ... are glibc's libmvec, called by symbol; measured on 2 million random and all
 * special arguments they agree with libm to 6.3e-16 and in every infinity, NaN and denormal, so nothing
 * is guarded. Elsewhere they are libm's, lane by lane. The functions of this library come through
 * the table that programs get as `self`. */

const char *const atvi_graph_gen_prelude[] = {
    "#if defined __has_include\n"
    "#if __has_include(<features.h>)\n"
    "#include <features.h>\n"
    "#endif\n"
    "#endif\n"
    "enum { L = 8 };\n"
    "#if defined __AVX512F__\n"
    "enum { W = 8 };\n"
    "#elif defined __AVX__\n"
    "enum { W = 4 };\n"
    "#else\n"
    "enum { W = 2 };\n"
    "#endif\n"
    "enum { C = L / W };\n"
    "typedef double V __attribute__((vector_size(W * 8)));\n"
    "typedef long long M __attribute__((vector_size(W * 8)));\n"
    "typedef double (*F1)(double);\n"
    "typedef double (*F2)(double, double);\n"
    "typedef struct { F1 f1[5]; F2 f2[2]; double (*fn)(int, int, const double *); } table;\n"
    "#if defined __GNUC__ && !defined __clang__\n"
    "#define FN static inline __attribute__((always_inline, unused))\n"
    "#else\n"
    "#define FN static inline __attribute__((unused))\n"
    "#endif\n"
    "#define COLD static __attribute__((noinline, unused))\n",

    "#if defined __AVX512F__\n"
    "#define K(x) ((V){x, x, x, x, x, x, x, x})\n"
    "#elif defined __AVX__\n"
    "#define K(x) ((V){x, x, x, x})\n"
    "#else\n"
    "#define K(x) ((V){x, x})\n"
    "#endif\n"
    "FN V splat(double x) { return K(x); }\n"
    "#define INF __builtin_inf()\n"
    "#define NOT_A_NUMBER __builtin_nan(\"\")\n"
    "#define A(p, i) (((const V *)(p))[(i) * C + c])\n"
    "#define O(p, i) (((V *)(p))[(i) * C + c])\n"
    "#define U(p, i) splat((p)[i])\n"
    "FN V pick(M m, V a, V b) { return (V)((m & (M)a) | (~m & (M)b)); }\n"
    "FN V truth(M m) { return (V)(m & (M)K(1.0)); }\n"
    "FN M holds(V a) { return (M)(a != K(0.0)); }\n"
    "FN V v_abs(V a) { return (V)((M)a & ~(M)K(-0.0)); }\n"
    "FN V v_sign(V a) { return truth((M)(a > K(0.0))) - truth((M)(a < K(0.0))); }\n"
    "FN V v_min(V a, V b) { return pick((M)(b < a), b, a); }\n"
    "FN V v_max(V a, V b) { return pick((M)(a < b), b, a); }\n"
    "FN V v_xdivy(V a, V b) { return (V)(~(M)(a == K(0.0)) & (M)(a / b)); }\n",

    "#define LANES1(name, f) COLD V name(V a) { V r = a; for (int l = 0; l < W; l++) r[l] = f(a[l]); return "
    "r; }\n"
    "#define LANES2(name, f) \\\n"
    "  COLD V name(V a, V b) { V r = a; for (int l = 0; l < W; l++) r[l] = f(a[l], b[l]); return r; }\n"
    "#if defined __AVX512F__\n"
    "FN V v_sqrt(V a) { V r; __asm__(\"vsqrtpd %1, %0\" : \"=v\"(r) : \"v\"(a)); return r; }\n"
    "FN V v_floor(V a) { V r; __asm__(\"vrndscalepd $9, %1, %0\" : \"=v\"(r) : \"v\"(a)); return r; }\n"
    "#elif defined __AVX__\n"
    "FN V v_sqrt(V a) { V r; __asm__(\"vsqrtpd %1, %0\" : \"=x\"(r) : \"x\"(a)); return r; }\n"
    "FN V v_floor(V a) { V r; __asm__(\"vroundpd $9, %1, %0\" : \"=x\"(r) : \"x\"(a)); return r; }\n"
    "#else\n"
    "LANES1(v_sqrt, __builtin_sqrt)\n"
    "LANES1(v_floor, __builtin_floor)\n"
    "#endif\n"
    "#if defined __x86_64__ && defined __GLIBC__ && defined __GLIBC_PREREQ\n"
    "#if __GLIBC_PREREQ(2, 35)\n"
    "#if defined __AVX512F__\n"
    "#define MV(n, f) _ZGVeN8##n##_##f\n"
    "#elif defined __AVX2__\n"
    "#define MV(n, f) _ZGVdN4##n##_##f\n"
    "#elif defined __AVX__\n"
    "#define MV(n, f) _ZGVcN4##n##_##f\n"
    "#else\n"
    "#define MV(n, f) _ZGVbN2##n##_##f\n"
    "#endif\n"
    "#endif\n"
    "#endif\n"
    "#ifdef MV\n"
    "#define MATH1(f) V MV(v, f)(V) __attribute__((const)); FN V v_##f(V a) { return MV(v, f)(a); }\n"
    "#define MATH2(f) V MV(vv, f)(V, V) __attribute__((const)); FN V v_##f(V a, V b) { return MV(vv, f)(a, "
    "b); }\n"
    "#else\n"
    "#define MATH1(f) LANES1(v_##f, __builtin_##f)\n"
    "#define MATH2(f) LANES2(v_##f, __builtin_##f)\n"
    "#endif\n",

    "COLD V call1(F1 f, V a) { V r = a; for (int l = 0; l < W; l++) r[l] = f(a[l]); return r; }\n"
    "COLD V call2(F2 f, V a, V b) { V r = a; for (int l = 0; l < W; l++) r[l] = f(a[l], b[l]); return r; }\n"
    "COLD V calln(const table *T, int which, int derivative, V a, V b, V d, V e) {\n"
    "  V r = a;\n"
    "  for (int l = 0; l < W; l++) {\n"
    "    double x[4] = {a[l], b[l], d[l], e[l]};\n"
    "    r[l] = T->fn(which, derivative, x);\n"
    "  }\n"
    "  return r;\n"
    "}\n",
    NULL};

const char atvi_graph_gen_xlogy[] =
    "FN V v_xlogy(V a, V b) { return (V)(~(M)(a == K(0.0)) & (M)(a * v_log(b))); }\n";
const char atvi_graph_gen_log_add[] = "FN V v_log_add(V a, V b) {\n"
                                      "  V d = pick((M)(a == b), K(0.0), -v_abs(a - b));\n"
                                      "  return v_max(a, b) + v_log1p(v_exp(d));\n"
                                      "}\n";
const char atvi_graph_gen_invlogit[] = "FN V v_invlogit(V a) {\n"
                                       "  V e = v_exp(-v_abs(a));\n"
                                       "  return pick((M)(a < K(0.0)), e, K(1.0)) / (1.0 + e);\n"
                                       "}\n";
const char atvi_graph_gen_pick[] = "FN long at(double x, long n) { return !(x > 0.5) ? 0 : x < (double)(n - "
                                   "1) ? (long)(x + 0.5) : n - 1; }\n"
                                   "FN V gather(const double *p, long n, V i) {\n"
                                   "  V r = i;\n"
                                   "  for (int l = 0; l < W; l++) r[l] = p[at(i[l], n) * L + l];\n"
                                   "  return r;\n"
                                   "}\n"
                                   "FN void scatter(double *p, long n, V i, V x) {\n"
                                   "  for (int l = 0; l < W; l++) p[at(i[l], n) * L + l] += x[l];\n"
                                   "}\n";
