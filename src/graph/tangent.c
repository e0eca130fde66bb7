/* SPDX-License-Identifier: MIT */
/* Forward mode: the interpreter's steps on dual numbers, value and tangent.
 *
 * The tangent of a step is the sum over its arguments of partial derivative times tangent, each written down
 * here as a number and not taken from the nodes of vjp.c: it is what these are tested against. An argument
 * whose tangent or whose partial derivative is 0 contributes nothing, however singular the other of them is.
 * It is plain, lane by lane, since only tests of gradients ask for it. */
#include "graph/internal.h"
#include "math/special.h"
#include <math.h>

enum { OFFSET = 0xfffffff };

static double slope_pow(int k, double a, double b, double y) {
  if (k == 1) return y == 0 ? 0 : y * log(a);
  if (a == 0) return b > 1 ? 0 : b == 1 ? 1 : b / 0.0;
  return b * pow(a, b - 1);
}

static double slope_lrise(bool derivative, int k, double a, double b) {
  if (derivative) return k ? atvi_math_trigamma(a + b) : atvi_math_trigamma(a + b) - atvi_math_trigamma(a);
  return k ? atvi_math_digamma(a + b) : atvi_math_lrise_dnu(a, b);
}

/* Of operations on two numbers, by argument k. */
static double slope2(int op, int k, double a, double b, double y) {
  switch (op) {
  case ATVI_OP_ADD: return 1;
  case ATVI_OP_SUB: return k ? -1 : 1;
  case ATVI_OP_MUL: return k ? a : b;
  case ATVI_OP_DIV: return k ? -a / b / b : 1 / b;
  case ATVI_OP_POW: return slope_pow(k, a, b, y);
  case ATVI_OP_MIN: return (k == 0) == (a <= b);
  case ATVI_OP_MAX: return (k == 0) == (b <= a);
  case ATVI_OP_ATAN2: return (k ? -a : b) / (a * a + b * b);
  case ATVI_OP_LOG_ADD: return k ? 1 / (1 + exp(a - b)) : 1 / (1 + exp(b - a));
  case ATVI_OP_XLOGY: return k ? (a == 0 ? 0 : a / b) : log(b);
  case ATVI_OP_XDIVY: return k ? (a == 0 ? 0 : -a / b / b) : 1 / b;
  case ATVI_OP_LRISE: return slope_lrise(false, k, a, b);
  case ATVI_OP_LRISE_D: return slope_lrise(true, k, a, b);
  default: return 0; /* comparisons and logic */
  }
}

static double square(double x) { return x * x; }

/* Of operations on one number, with result y. */
static double slope1(int op, double a, double y) {
  switch (op) {
  case ATVI_INS_STORE:
  case ATVI_INS_ADD_TO: return 1;
  case ATVI_INS_RECIP: return -1 / a / a;
  case ATVI_OP_NEG: return -1;
  case ATVI_OP_ABS: return (a > 0) - (a < 0);
  case ATVI_OP_SQRT: return 0.5 / sqrt(a);
  case ATVI_OP_EXP: return exp(a);
  case ATVI_OP_LOG: return 1 / a;
  case ATVI_OP_LOG1P: return 1 / (1 + a);
  case ATVI_OP_EXPM1: return exp(a);
  case ATVI_OP_SIN: return cos(a);
  case ATVI_OP_COS: return -sin(a);
  case ATVI_OP_TAN: return 1 / square(cos(a));
  case ATVI_OP_ASIN: return 1 / sqrt((1 - a) * (1 + a));
  case ATVI_OP_ACOS: return -1 / sqrt((1 - a) * (1 + a));
  case ATVI_OP_ATAN: return 1 / (1 + a * a);
  case ATVI_OP_SINH: return cosh(a);
  case ATVI_OP_COSH: return sinh(a);
  case ATVI_OP_TANH: return 1 / square(cosh(a));
  case ATVI_OP_ERF: return 2 / sqrt(acos(-1)) * exp(-a * a);
  case ATVI_OP_INVLOGIT: return exp(-fabs(a)) / square(1 + exp(-fabs(a)));
  case ATVI_OP_LGAMMA: return atvi_math_digamma(a);
  case ATVI_OP_DIGAMMA: return atvi_math_trigamma(a);
  case ATVI_OP_TRIGAMMA: return NAN; /* not known, as in vjp.c */
  case ATVI_OP_LOG_NDTR: return atvi_math_log_ndtr_d(a);
  case ATVI_OP_LOG_NDTR_D: return -y * (a + y);
  default: return 0; /* not, sign, floor */
  }
}

/* Partial derivative of a step by its argument k, given its arguments and its result. */
static double slope(const atvi_istep *s, int k, const double *a, double y) {
  switch (s->op) {
  case ATVI_ISTEP_MULADD: return k == 2 ? 1 : a[1 - k];
  case ATVI_ISTEP_MULSUB: return k == 2 ? 1 : -a[1 - k];
  case ATVI_OP_SELECT: return k == (a[0] != 0 ? 1 : 2);
  case ATVI_OP_FN: return k == 0 ? 0 : s->index2 ? NAN : atvi_graph_fn_eval(s->index, k + 1, a);
  default: return atvi_graph_op_arity(s->op) == 2 ? slope2(s->op, k, a[0], a[1], y) : slope1(s->op, a[0], y);
  }
}

static int arguments(int op) {
  if (op == ATVI_OP_FN) return 4; /* those that it does not have are copies of the first, of slope 0 */
  if (op == ATVI_ISTEP_MULADD || op == ATVI_ISTEP_MULSUB) return 3;
  int n = atvi_graph_op_arity(op);
  return n ? n : 1;
}

static double value(const atvi_istep *s, const double *a) {
  switch (s->op) {
  case ATVI_INS_STORE:
  case ATVI_INS_ADD_TO: return a[0];
  case ATVI_INS_RECIP: return 1 / a[0];
  case ATVI_ISTEP_MULADD: return a[0] * a[1] + a[2];
  case ATVI_ISTEP_MULSUB: return a[2] - a[0] * a[1];
  default: return atvi_graph_op_eval(s->op, s->index, s->index2, a);
  }
}

/* Where values and tangents are; no tangents where they are all 0. */
typedef struct {
  const double *value[16], *tangent[16];
} place;

static double at(const double *const base[16], uint32_t operand, int l) {
  const double *from = base[operand >> 28];
  return from ? from[(size_t)(operand & OFFSET) * ATVI_LANES + (size_t)l] : 0;
}

static void step(const atvi_istep *s, const place *p, int l, double *y, double *dy) {
  if (s->op == ATVI_ISTEP_SPLAT) {
    *y = p->value[s->arg[0] >> 28][s->arg[0] & OFFSET];
    *dy = 0;
    return;
  }
  if (s->op == ATVI_OP_PICK) {
    uint32_t from = s->arg[1] + (uint32_t)atvi_graph_pick_at(at(p->value, s->arg[0], l), s->arg[2]);
    *y = at(p->value, from, l);
    *dy = at(p->tangent, from, l);
    return;
  }
  double a[4], sum = 0;
  for (int k = 0; k < 4; k++) a[k] = at(p->value, s->arg[k], l);
  *y = value(s, a);
  for (int k = 0; k < arguments(s->op); k++) {
    double da = at(p->tangent, s->arg[k], l), by = da != 0 ? slope(s, k, a, *y) : 0;
    if (by != 0) sum += by * da;
  }
  *dy = sum;
}

void atvi_graph_tangent_run(const void *self, double *scratch, const double *const *in, double *const *out) {
  const atvi_interp *t = self;
  double *tangents = scratch + t->scratch;
  double *to[16] = {[ATVI_BASE_SCRATCH] = scratch}, *dto[16] = {[ATVI_BASE_SCRATCH] = tangents};
  place p = {.value = {[ATVI_BASE_SCRATCH] = scratch, [ATVI_BASE_CONST] = t->constant},
             .tangent = {[ATVI_BASE_SCRATCH] = tangents}};
  for (int k = 0; k < t->n_in; k++)
    p.value[ATVI_BASE_IN + k] = in[k], p.tangent[ATVI_BASE_IN + k] = in[t->n_in + k];
  for (int k = 0; k < t->n_out; k++)
    to[ATVI_BASE_OUT + k] = out[k], dto[ATVI_BASE_OUT + k] = out[t->n_out + k];
  for (const atvi_istep *s = t->step, *end = s + t->n; s < end; s++) {
    const size_t d = (size_t)(s->dst & OFFSET) * ATVI_LANES;
    const bool add = s->op == ATVI_INS_ADD_TO;
    for (size_t l = 0; l < ATVI_LANES; l++) {
      double y, dy;
      step(s, &p, (int)l, &y, &dy);
      to[s->dst >> 28][d + l] = add ? to[s->dst >> 28][d + l] + y : y;
      dto[s->dst >> 28][d + l] = add ? dto[s->dst >> 28][d + l] + dy : dy;
    }
  }
}
