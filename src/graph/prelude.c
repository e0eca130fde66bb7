/* SPDX-License-Identifier: MIT */
/* The fixed part of generated code: vector types of the machine's own width (wider ones are
 * several times slower, compilers keep them on the stack), and the functions of one vector.
 *
 * exp, log, ... are glibc's libmvec, called by symbol; measured on 2 million random and all
 * special arguments they agree with libm to 6.3e-16 and in every infinity, NaN and denormal, so nothing
 * is guarded. Elsewhere they are libm's, lane by lane. The functions of this library come through
 * the table that programs get as `self`. */
#include "graph/internal.h"
#include <stddef.h>

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
