/* SPDX-License-Identifier: MIT */
/* Generated C: one function per program, one statement per instruction.
 *
 * Instruction i is the vector v<i>; truth values are also the bit mask m<i>, which is what select and
 * logic use. Inputs are read where they are used. A program longer than ATVI_GEN_PART instructions becomes
 * several functions, for compilers take more than linear time over one; values that live from one
 * part into another go through scratch, in slots that are reused part by part.
 * What repeats itself becomes loops: codegen_loops.c. */
#include "graph/internal.h"
#include "math/special.h"
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* The fixed part of generated code: vector types of the machine's own width (wider ones are
 * several times slower, compilers keep them on the stack), and the functions of one vector.
 *
 * exp, log, ... are glibc's libmvec, called by symbol; measured on 2 million random and all
 * special arguments they agree with libm to 6.3e-16 and in every infinity, NaN and denormal, so nothing
 * is guarded. Elsewhere they are libm's, lane by lane. The functions of this library come through
 * the table that programs get as `self`. */

static const char *const PRELUDE[] = {
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

static const char XLOGY[] = "FN V v_xlogy(V a, V b) { return (V)(~(M)(a == K(0.0)) & (M)(a * v_log(b))); }\n";
static const char LOG_ADD[] = "FN V v_log_add(V a, V b) {\n"
                              "  V d = pick((M)(a == b), K(0.0), -v_abs(a - b));\n"
                              "  return v_max(a, b) + v_log1p(v_exp(d));\n"
                              "}\n";
static const char INVLOGIT[] = "FN V v_invlogit(V a) {\n"
                               "  V e = v_exp(-v_abs(a));\n"
                               "  return pick((M)(a < K(0.0)), e, K(1.0)) / (1.0 + e);\n"
                               "}\n";
static const char PICK[] = "FN long at(double x, long n) { return !(x > 0.5) ? 0 : x < (double)(n - "
                           "1) ? (long)(x + 0.5) : n - 1; }\n"
                           "FN V gather(const double *p, long n, V i) {\n"
                           "  V r = i;\n"
                           "  for (int l = 0; l < W; l++) r[l] = p[at(i[l], n) * L + l];\n"
                           "  return r;\n"
                           "}\n"
                           "FN void scatter(double *p, long n, V i, V x) {\n"
                           "  for (int l = 0; l < W; l++) p[at(i[l], n) * L + l] += x[l];\n"
                           "}\n";

const atvi_callbacks atvi_graph_gen_callbacks = {
    .f1 = {atvi_math_lgamma, atvi_math_digamma, atvi_math_trigamma, atvi_math_log_ndtr, atvi_math_log_ndtr_d},
    .f2 = {atvi_math_lrise, atvi_math_lrise_dnu},
    .fn = atvi_graph_fn_eval,
};

void atvi_graph_gen_put(atvi_gen_text *t, const char *fmt, ...) {
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
const char *const atvi_graph_gen_inline[ATVI_OP_COUNT] = {
    [ATVI_OP_ABS] = "v_abs",           [ATVI_OP_SIGN] = "v_sign",   [ATVI_OP_FLOOR] = "v_floor",
    [ATVI_OP_SQRT] = "v_sqrt",         [ATVI_OP_MIN] = "v_min",     [ATVI_OP_MAX] = "v_max",
    [ATVI_OP_XDIVY] = "v_xdivy",       [ATVI_OP_XLOGY] = "v_xlogy", [ATVI_OP_LOG_ADD] = "v_log_add",
    [ATVI_OP_INVLOGIT] = "v_invlogit",
};
const char *const atvi_graph_gen_infix[ATVI_OP_COUNT] = {
    [ATVI_OP_ADD] = "+", [ATVI_OP_SUB] = "-", [ATVI_OP_MUL] = "*", [ATVI_OP_DIV] = "/", [ATVI_OP_LT] = "<",
    [ATVI_OP_LE] = "<=", [ATVI_OP_EQ] = "==", [ATVI_OP_AND] = "&", [ATVI_OP_OR] = "|",
};

void atvi_graph_gen_number(atvi_gen_text *t, double v) {
  if (isnan(v))
    atvi_graph_gen_put(t, "NOT_A_NUMBER");
  else if (isinf(v))
    atvi_graph_gen_put(t, v > 0 ? "INF" : "-INF");
  else
    atvi_graph_gen_put(t, "%a", v);
}

/* ---- instructions ---- */

void atvi_graph_gen_operand(atvi_gen *e, const atvi_ins *s, int k) {
  int32_t i = s->arg[k];
  const atvi_ins *a = &e->code->ins[i];
  if (a->op == ATVI_OP_CONST && atvi_graph_gen_varies(e, s, k)) {
    atvi_graph_gen_put(e->t, "U(k%d_%d, j)", (int)e->at, k + 1);
  } else if (a->op == ATVI_OP_CONST) {
    atvi_graph_gen_put(e->t, "K(");
    atvi_graph_gen_number(e->t, a->value);
    atvi_graph_gen_put(e->t, ")");
  } else if (a->op == ATVI_OP_INPUT || !atvi_graph_gen_is_near(e, i)) {
    if (a->op == ATVI_OP_INPUT)
      atvi_graph_gen_put(e->t, "%c(x%d, ", a->uniform ? 'U' : 'A', (int)a->index2);
    else
      atvi_graph_gen_put(e->t, "A(s, ");
    atvi_graph_gen_place(e, s, k);
    atvi_graph_gen_put(e->t, ")");
  } else {
    atvi_graph_gen_put(e->t, "v%d", (int)i);
  }
}

/* Compilers spread a scalar over the other operand's lanes themselves, and read it faster than K(..). */
static bool put_scalar(atvi_gen *e, const atvi_ins *s, int k) {
  const atvi_ins *a = &e->code->ins[s->arg[k]];
  if (a->op == ATVI_OP_CONST && atvi_graph_gen_varies(e, s, k)) {
    atvi_graph_gen_put(e->t, "k%d_%d[j]", (int)e->at, k + 1);
  } else if (a->op == ATVI_OP_CONST && isfinite(a->value)) {
    atvi_graph_gen_number(e->t, a->value);
  } else if (a->op == ATVI_OP_INPUT && a->uniform) {
    atvi_graph_gen_put(e->t, "x%d[", (int)a->index2);
    atvi_graph_gen_place(e, s, k);
    atvi_graph_gen_put(e->t, "]");
  } else {
    return false;
  }
  return true;
}

static void put_infix(atvi_gen *e, const atvi_ins *s) {
  bool scalar = put_scalar(e, s, 0);
  if (!scalar) atvi_graph_gen_operand(e, s, 0);
  atvi_graph_gen_put(e->t, " %s ", atvi_graph_gen_infix[s->op]);
  if (scalar || !put_scalar(e, s, 1)) atvi_graph_gen_operand(e, s, 1);
  atvi_graph_gen_put(e->t, ";\n");
}

static void put_mask(atvi_gen *e, const atvi_ins *s, int k) {
  if (atvi_graph_op_is_truth(e->code->ins[s->arg[k]].op) && atvi_graph_gen_is_near(e, s->arg[k])) {
    atvi_graph_gen_put(e->t, "m%d", (int)s->arg[k]);
    return;
  }
  atvi_graph_gen_put(e->t, "holds(");
  atvi_graph_gen_operand(e, s, k);
  atvi_graph_gen_put(e->t, ")");
}

static void put_call(atvi_gen *e, const atvi_ins *s) {
  for (int k = 0; k < s->n_arg; k++) {
    if (k) atvi_graph_gen_put(e->t, ", ");
    atvi_graph_gen_operand(e, s, k);
  }
  atvi_graph_gen_put(e->t, ");\n");
}

static void put_truth(atvi_gen *e, int32_t i, const atvi_ins *s) {
  bool logic = s->op == ATVI_OP_AND || s->op == ATVI_OP_OR;
  atvi_graph_gen_put(e->t, "const M m%d = ", (int)i);
  if (s->op == ATVI_OP_NOT) {
    atvi_graph_gen_put(e->t, "~");
    put_mask(e, s, 0);
  } else if (logic) {
    put_mask(e, s, 0);
    atvi_graph_gen_put(e->t, " %s ", atvi_graph_gen_infix[s->op]);
    put_mask(e, s, 1);
  } else {
    atvi_graph_gen_put(e->t, "(M)(");
    atvi_graph_gen_operand(e, s, 0);
    atvi_graph_gen_put(e->t, " %s ", atvi_graph_gen_infix[s->op]);
    atvi_graph_gen_operand(e, s, 1);
    atvi_graph_gen_put(e->t, ")");
  }
  atvi_graph_gen_put(e->t, "; const V v%d = truth(m%d);\n", (int)i, (int)i);
}

static void put_fn(atvi_gen *e, const atvi_ins *s) {
  atvi_graph_gen_put(e->t, "calln(T, %d, %d", (int)s->index, (int)s->index2);
  for (int k = 0; k < 4; k++) {
    atvi_graph_gen_put(e->t, ", ");
    atvi_graph_gen_operand(e, s, k < s->n_arg ? k : 0);
  }
  atvi_graph_gen_put(e->t, ");\n");
}

static void put_select(atvi_gen *e, const atvi_ins *s) {
  atvi_graph_gen_put(e->t, "pick(");
  put_mask(e, s, 0);
  atvi_graph_gen_put(e->t, ", ");
  atvi_graph_gen_operand(e, s, 1);
  atvi_graph_gen_put(e->t, ", ");
  atvi_graph_gen_operand(e, s, 2);
  atvi_graph_gen_put(e->t, ");\n");
}

/* Lanes that share an index read and add whole vectors. */
static void put_pick(atvi_gen *e, const atvi_ins *s) {
  const atvi_ins *index = &e->code->ins[s->arg[0]];
  if (index->op == ATVI_OP_INPUT && index->uniform) {
    atvi_graph_gen_put(e->t, "A(x%d, %d + at(x%d[%d], %d));\n", (int)s->index2, (int)s->index,
                       (int)index->index2, (int)index->index, (int)s->count);
    return;
  }
  atvi_graph_gen_put(e->t, "gather(x%d + %d * L + c * W, %d, ", (int)s->index2, (int)s->index, (int)s->count);
  atvi_graph_gen_operand(e, s, 0);
  atvi_graph_gen_put(e->t, ");\n");
}

static void put_scatter(atvi_gen *e, const atvi_ins *s) {
  const atvi_ins *index = &e->code->ins[s->arg[0]];
  if (index->op == ATVI_OP_INPUT && index->uniform) {
    atvi_graph_gen_put(e->t, "O(y%d, %d + at(x%d[%d], %d)) += ", (int)s->index2, (int)s->index,
                       (int)index->index2, (int)index->index, (int)s->count);
    atvi_graph_gen_operand(e, s, 1);
    atvi_graph_gen_put(e->t, ";\n");
    return;
  }
  atvi_graph_gen_put(e->t, "scatter(y%d + %d * L + c * W, %d, ", (int)s->index2, (int)s->index,
                     (int)s->count);
  put_call(e, s);
}

static void put_value(atvi_gen *e, int32_t i, const atvi_ins *s) {
  atvi_graph_gen_put(e->t, "const V v%d = ", (int)i);
  int op = s->op;
  if (op == ATVI_INS_RECIP || op == ATVI_OP_NEG) {
    atvi_graph_gen_put(e->t, op == ATVI_OP_NEG ? "-" : "1.0 / ");
    atvi_graph_gen_operand(e, s, 0);
    atvi_graph_gen_put(e->t, ";\n");
  } else if (op == ATVI_OP_SELECT) {
    put_select(e, s);
  } else if (op == ATVI_OP_FN) {
    put_fn(e, s);
  } else if (op == ATVI_OP_PICK) {
    put_pick(e, s);
  } else if (atvi_graph_gen_infix[op]) {
    put_infix(e, s);
  } else {
    if (math1[op] || math2[op])
      atvi_graph_gen_put(e->t, "v_%s(", math1[op] ? math1[op] : math2[op]);
    else if (atvi_graph_gen_inline[op])
      atvi_graph_gen_put(e->t, "%s(", atvi_graph_gen_inline[op]);
    else if (op == ATVI_OP_LRISE || op == ATVI_OP_LRISE_D)
      atvi_graph_gen_put(e->t, "call2(T->f2[%d], ", op - ATVI_OP_LRISE);
    else
      atvi_graph_gen_put(e->t, "call1(T->f1[%d], ", op - ATVI_OP_LGAMMA);
    put_call(e, s);
  }
}

void atvi_graph_gen_ins(atvi_gen *e, int32_t i) {
  const atvi_ins *s = &e->code->ins[i];
  if (s->op == ATVI_OP_CONST || s->op == ATVI_OP_INPUT) return;
  if (s->op == ATVI_INS_STORE || s->op == ATVI_INS_ADD_TO) {
    atvi_graph_gen_put(e->t, "O(y%d, ", (int)s->index2);
    atvi_graph_gen_place(e, s, ATVI_GEN_TO);
    atvi_graph_gen_put(e->t, ") %s ", s->op == ATVI_INS_STORE ? "=" : "+=");
    atvi_graph_gen_operand(e, s, 0);
    atvi_graph_gen_put(e->t, ";\n");
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
  if (e->slot[i] >= 0)
    atvi_graph_gen_put(e->t, "O(s, %d%s) = v%d;\n", (int)e->slot[i], e->loop ? " + j" : "", (int)i);
}

/* Stores of one constant to neighbouring places, as in a sparse Jacobian, become a loop. Instructions taken,
 * 0 if none. */
static atvi_idx put_fill(atvi_gen *e, atvi_idx i, atvi_idx to) {
  const atvi_ins *s = &e->code->ins[i];
  atvi_idx n = 0;
  if (s->op != ATVI_INS_STORE || e->code->ins[s->arg[0]].op != ATVI_OP_CONST) return 0;
  for (const atvi_ins *r = s; i + n < to; n++, r++)
    if (r->op != s->op || r->arg[0] != s->arg[0] || r->index2 != s->index2 || r->index != s->index + n) break;
  if (n < 3) return 0;
  atvi_graph_gen_put(e->t, "for (int i = %d; i < %d; i++) O(y%d, i) = ", (int)s->index, (int)(s->index + n),
                     (int)s->index2);
  atvi_graph_gen_operand(e, s, 0);
  atvi_graph_gen_put(e->t, ";\n");
  return n;
}

/* Slots for the values of a part that are used in later ones; then those last used here become free. */
static bool assign_slots(atvi_gen *e, atvi_idx from, atvi_idx to) {
  for (atvi_idx i = from; i < to; i++) {
    const atvi_ins *s = &e->code->ins[i];
    bool leaves = s->op != ATVI_OP_CONST && s->op != ATVI_OP_INPUT && s->last / ATVI_GEN_PART != e->part;
    e->slot[i] = -1;
    e->part_of[i] = (int32_t)e->part;
    if (!leaves) continue;
    if (e->n_free) {
      e->slot[i] = e->free[--e->n_free];
    } else {
      if (!ATVI_PUSH(e->t->pool, e->free, e->n_slot, e->cap_free)) return false;
      e->slot[i] = (int32_t)e->n_slot++;
    }
    e->next[i] = e->dying[s->last / ATVI_GEN_PART];
    e->dying[s->last / ATVI_GEN_PART] = (int32_t)i;
  }
  for (int32_t i = e->dying[e->part]; i >= 0; i = e->next[i]) e->free[e->n_free++] = e->slot[i];
  return true;
}

#define SIGNATURE "(const void *self, double *scratch, const double *const *in, double *const *out)"

void atvi_graph_gen_head(atvi_gen *e) {
  if (e->n_part == 1)
    atvi_graph_gen_put(e->t, "void atvi_prog_%s" SIGNATURE " {\n", e->spec->name);
  else
    atvi_graph_gen_put(e->t, "static __attribute__((noinline)) void part_%s_%d" SIGNATURE " {\n",
                       e->spec->name, (int)e->part);
  atvi_graph_gen_put(
      e->t, "const table *T = self; (void)T;\ndouble *restrict s = scratch; (void)s; (void)in; (void)out;\n");
  for (int k = 0; k < e->spec->n_in; k++)
    atvi_graph_gen_put(e->t, "const double *restrict x%d = in[%d]; (void)x%d;\n", k, k, k);
  for (int k = 0; k < e->spec->n_out; k++)
    atvi_graph_gen_put(e->t, "double *restrict y%d = out[%d]; (void)y%d;\n", k, k, k);
  atvi_graph_gen_put(e->t, "for (int c = 0; c < C; c++) {\n");
}

/* ---- programs ---- */

static bool put_parts(atvi_gen *e) {
  atvi_idx n = e->code->n;
  e->n_part = n ? (n + ATVI_GEN_PART - 1) / ATVI_GEN_PART : 1;
  e->dying = atvi_pool_take(e->t->pool, (size_t)e->n_part, sizeof *e->dying);
  if (!e->dying) return false;
  for (atvi_idx p = 0; p < e->n_part; p++) e->dying[p] = -1;
  for (e->part = 0; e->part < e->n_part; e->part++) {
    atvi_idx from = e->part * ATVI_GEN_PART, to = from + ATVI_GEN_PART < n ? from + ATVI_GEN_PART : n;
    if (!assign_slots(e, from, to)) return false;
    atvi_graph_gen_head(e);
    for (atvi_idx i = from; i < to;) {
      atvi_idx fill = put_fill(e, i, to);
      if (!fill) atvi_graph_gen_ins(e, (int32_t)i);
      i += fill ? fill : 1;
    }
    atvi_graph_gen_put(e->t, "}\n}\n");
  }
  return true;
}

static bool put_program(atvi_gen *e) {
  size_t n = (size_t)e->code->n + 1;
  e->slot = atvi_pool_take(e->t->pool, n, sizeof *e->slot);
  e->part_of = atvi_pool_take(e->t->pool, n, sizeof *e->part_of);
  e->next = atvi_pool_take(e->t->pool, n, sizeof *e->next);
  if (!e->slot || !e->next || !e->part_of) return false;
  if (!atvi_graph_roll(e->t->pool, e->code, &e->pieces)) return false;
  if (!(e->pieces.n ? atvi_graph_gen_pieces(e) : put_parts(e))) return false;
  if (e->n_part > 1) {
    atvi_graph_gen_put(e->t, "void atvi_prog_%s" SIGNATURE " {\n", e->spec->name);
    for (atvi_idx p = 0; p < e->n_part; p++)
      atvi_graph_gen_put(e->t, "part_%s_%d(self, scratch, in, out);\n", e->spec->name, (int)p);
    atvi_graph_gen_put(e->t, "}\n");
  }
  return !e->t->failed;
}

static void put_prelude(atvi_gen_text *t, atvi_idx n, const atvi_graph_code *code) {
  bool used[ATVI_INS_RECIP + 1] = {0};
  for (atvi_idx k = 0; k < n; k++)
    for (atvi_idx i = 0; i < code[k].n; i++) used[code[k].ins[i].op] = true;
  used[ATVI_OP_LOG] = used[ATVI_OP_LOG] || used[ATVI_OP_XLOGY];
  used[ATVI_OP_LOG1P] = used[ATVI_OP_LOG1P] || used[ATVI_OP_LOG_ADD];
  used[ATVI_OP_EXP] = used[ATVI_OP_EXP] || used[ATVI_OP_LOG_ADD] || used[ATVI_OP_INVLOGIT];
  for (int k = 0; PRELUDE[k]; k++) atvi_graph_gen_put(t, "%s", PRELUDE[k]);
  for (int op = 0; op < ATVI_OP_COUNT; op++) {
    if (used[op] && math1[op]) atvi_graph_gen_put(t, "MATH1(%s)\n", math1[op]);
    if (used[op] && math2[op]) atvi_graph_gen_put(t, "MATH2(%s)\n", math2[op]);
  }
  if (used[ATVI_OP_XLOGY]) atvi_graph_gen_put(t, "%s", XLOGY);
  if (used[ATVI_OP_LOG_ADD]) atvi_graph_gen_put(t, "%s", LOG_ADD);
  if (used[ATVI_OP_INVLOGIT]) atvi_graph_gen_put(t, "%s", INVLOGIT);
  if (used[ATVI_OP_PICK] || used[ATVI_INS_SCATTER]) atvi_graph_gen_put(t, "%s", PICK);
}

const char *atvi_graph_gen_source(atvi_pool *pool, atvi_idx n, const atvi_prog_spec *spec,
                                  const atvi_graph_code *code, size_t *scratch) {
  atvi_gen_text t = {.pool = pool};
  put_prelude(&t, n, code);
  for (atvi_idx k = 0; k < n; k++) {
    atvi_gen e = {.t = &t, .spec = &spec[k], .code = &code[k]};
    if (!put_program(&e)) return NULL;
    scratch[k] = (size_t)e.n_slot * ATVI_LANES;
  }
  return t.failed ? NULL : t.text;
}
