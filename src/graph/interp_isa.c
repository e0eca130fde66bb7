/* SPDX-License-Identifier: MIT */
/* The interpreter's loop. Every case is a plain loop over the lanes, which the compiler turns
 * into vector instructions; transcendental functions are libm's, lane by lane. */
#include "graph/internal.h"
#include <math.h>

enum { OFFSET = 0xfffffff };

#define EACH(expr)                                                                                           \
  do {                                                                                                       \
    for (int l = 0; l < ATVI_LANES; l++) d[l] = (expr);                                                      \
  } while (0);                                                                                               \
  break

static void arithmetic(const atvi_istep *s, double *restrict d, const double *a, const double *b, const double *c) {
  switch (s->op) {
  case ATVI_OP_ADD: EACH(a[l] + b[l]);
  case ATVI_OP_SUB: EACH(a[l] - b[l]);
  case ATVI_OP_MUL: EACH(a[l] * b[l]);
  case ATVI_OP_DIV: EACH(a[l] / b[l]);
  case ATVI_OP_MIN: EACH(b[l] < a[l] ? b[l] : a[l]);
  case ATVI_OP_MAX: EACH(a[l] < b[l] ? b[l] : a[l]);
  case ATVI_OP_LT: EACH(a[l] < b[l] ? 1.0 : 0.0);
  case ATVI_OP_LE: EACH(a[l] <= b[l] ? 1.0 : 0.0);
  case ATVI_OP_EQ: EACH(a[l] == b[l] ? 1.0 : 0.0);
  case ATVI_OP_AND: EACH((a[l] != 0) & (b[l] != 0) ? 1.0 : 0.0);
  case ATVI_OP_OR: EACH((a[l] != 0) | (b[l] != 0) ? 1.0 : 0.0);
  case ATVI_OP_XDIVY: EACH(a[l] == 0 ? 0.0 : a[l] / b[l]);
  case ATVI_OP_NEG: EACH(-a[l]);
  case ATVI_OP_NOT: EACH(a[l] == 0 ? 1.0 : 0.0);
  case ATVI_OP_ABS: EACH(fabs(a[l]));
  case ATVI_OP_SIGN: EACH((a[l] > 0 ? 1.0 : 0.0) - (a[l] < 0 ? 1.0 : 0.0));
  case ATVI_OP_FLOOR: EACH(floor(a[l]));
  case ATVI_OP_SQRT: EACH(sqrt(a[l]));
  case ATVI_OP_SELECT: EACH(a[l] != 0 ? b[l] : c[l]);
  case ATVI_INS_STORE: EACH(a[l]);
  case ATVI_INS_ADD_TO: EACH(d[l] + a[l]);
  case ATVI_INS_RECIP: EACH(1.0 / a[l]);
  case ATVI_ISTEP_MULADD: EACH(a[l] * b[l] + c[l]);
  default: break;
  }
}

static bool is_arithmetic(int op) {
  switch (op) {
  case ATVI_OP_POW:
  case ATVI_OP_ATAN2:
  case ATVI_OP_XLOGY:
  case ATVI_OP_LRISE:
  case ATVI_OP_LRISE_D:
  case ATVI_OP_FN: return false;
  default: return op < ATVI_OP_EXP || op > ATVI_OP_LOG_NDTR_D;
  }
}

static void scalar(const atvi_istep *s, double *d, const double *const *arg) {
  for (int l = 0; l < ATVI_LANES; l++) {
    double v[4];
    for (int k = 0; k < 4; k++) v[k] = arg[k][l];
    d[l] = atvi_op_eval(s->op, s->index, s->index2, v);
  }
}

void ATVI_ISA_NAME(atvi_interp_run)(const void *self, double *scratch, const double *const *in, double *const *out) {
  const atvi_interp *p = self;
  const double *base[16] = {[ATVI_BASE_SCRATCH] = scratch, [ATVI_BASE_CONST] = p->constant};
  for (int k = 0; k < p->n_in; k++) base[ATVI_BASE_IN + k] = in[k];
  for (int k = 0; k < p->n_out; k++) base[ATVI_BASE_OUT + k] = out[k];
  for (atvi_idx i = 0; i < p->n; i++) {
    const atvi_istep *s = &p->step[i];
    uint32_t at = s->dst >> 28;
    double *d = (at == ATVI_BASE_SCRATCH ? scratch : out[at - ATVI_BASE_OUT]) + (size_t)(s->dst & OFFSET) * ATVI_LANES;
    if (s->op == ATVI_ISTEP_SPLAT) {
      double v = base[s->arg[0] >> 28][s->arg[0] & OFFSET];
      for (int l = 0; l < ATVI_LANES; l++) d[l] = v;
      continue;
    }
    const double *arg[4];
    for (int k = 0; k < 4; k++) arg[k] = base[s->arg[k] >> 28] + (size_t)(s->arg[k] & OFFSET) * ATVI_LANES;
    if (is_arithmetic(s->op))
      arithmetic(s, d, arg[0], arg[1], arg[2]);
    else
      scalar(s, d, arg);
  }
}
