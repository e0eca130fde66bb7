/* SPDX-License-Identifier: MIT */
/* The interpreter's loop. Arithmetic works on vectors of the instruction set's own width; truth
 * values are bit masks on the way; transcendental functions are libm's, lane by lane. */
#include "graph/internal.h"
#include <math.h>

#if defined __AVX512F__
enum { W = 8 };
#elif defined __AVX__
enum { W = 4 };
#else
enum { W = 2 };
#endif
typedef double vec __attribute__((vector_size(W * 8), may_alias));
typedef int64_t mask __attribute__((vector_size(W * 8)));

enum { OFFSET = 0xfffffff };

static inline vec pick(mask m, vec a, vec b) { return (vec)((m & (mask)a) | (~m & (mask)b)); }
static inline vec truth(mask m) { return (vec)(m & (mask)((vec){0} + 1.0)); }

/* One case: expr in x, y, z (the arguments) and d (the result so far), vector by vector. Unused
 * arguments point to the first, so that loading them is harmless. */
#define EACH(expr)                                                                                           \
  for (int k = 0; k < ATVI_LANES / W; k++) {                                                                 \
    vec x = a[k], y = b[k];                                                                                  \
    (void)y;                                                                                                 \
    d[k] = (expr);                                                                                           \
  }                                                                                                          \
  return true

static inline bool arithmetic(int op, vec *d, const vec *a, const vec *b, const vec *c) {
  const vec zero = {0};
  switch (op) {
  case ATVI_OP_ADD: EACH(x + y);
  case ATVI_OP_SUB: EACH(x - y);
  case ATVI_OP_MUL: EACH(x * y);
  case ATVI_OP_DIV: EACH(x / y);
  case ATVI_OP_MIN: EACH(pick((mask)(y < x), y, x));
  case ATVI_OP_MAX: EACH(pick((mask)(x < y), y, x));
  case ATVI_OP_LT: EACH(truth((mask)(x < y)));
  case ATVI_OP_LE: EACH(truth((mask)(x <= y)));
  case ATVI_OP_EQ: EACH(truth((mask)(x == y)));
  case ATVI_OP_AND: EACH(truth((mask)(x != zero) & (mask)(y != zero)));
  case ATVI_OP_OR: EACH(truth((mask)(x != zero) | (mask)(y != zero)));
  case ATVI_OP_XDIVY: EACH((vec)((mask)(x != zero) & (mask)(x / y)));
  case ATVI_OP_NEG: EACH(-x);
  case ATVI_OP_NOT: EACH(truth((mask)(x == zero)));
  case ATVI_OP_ABS: EACH((vec)((mask)x & ~(mask)(-zero)));
  case ATVI_OP_SIGN: EACH(truth((mask)(x > zero)) - truth((mask)(x < zero)));
  case ATVI_OP_SELECT: EACH(pick((mask)(x != zero), y, c[k]));
  case ATVI_INS_STORE: EACH(x);
  case ATVI_INS_ADD_TO: EACH(d[k] + x);
  case ATVI_INS_RECIP: EACH(1.0 / x);
  case ATVI_ISTEP_MULADD: EACH(x * y + c[k]);
  case ATVI_ISTEP_MULSUB: EACH(c[k] - x * y);
  default: return false;
  }
}

static void scalar(const atvi_istep *s, double *d, const double *const *arg) {
  switch (s->op) {
  case ATVI_OP_SQRT:
    for (int l = 0; l < ATVI_LANES; l++) d[l] = sqrt(arg[0][l]);
    break;
  case ATVI_OP_FLOOR:
    for (int l = 0; l < ATVI_LANES; l++) d[l] = floor(arg[0][l]);
    break;
  default:
    for (int l = 0; l < ATVI_LANES; l++) {
      double v[4] = {arg[0][l], arg[1][l], arg[2][l], arg[3][l]};
      d[l] = atvi_graph_op_eval(s->op, s->index, s->index2, v);
    }
  }
}

void ATVI_ISA_NAME(atvi_graph_interp_run)(const void *self, double *scratch, const double *const *in,
                                          double *const *out) {
  const atvi_interp *p = self;
  double *to[16] = {[ATVI_BASE_SCRATCH] = scratch};
  const double *base[16] = {[ATVI_BASE_SCRATCH] = scratch, [ATVI_BASE_CONST] = p->constant};
  for (int k = 0; k < p->n_in; k++) base[ATVI_BASE_IN + k] = in[k];
  for (int k = 0; k < p->n_out; k++) to[ATVI_BASE_OUT + k] = out[k];
  for (const atvi_istep *s = p->step, *end = s + p->n; s < end; s++) {
    double *d = to[s->dst >> 28] + (size_t)(s->dst & OFFSET) * ATVI_LANES;
    if (s->op == ATVI_ISTEP_SPLAT) {
      double v = base[s->arg[0] >> 28][s->arg[0] & OFFSET];
      for (int l = 0; l < ATVI_LANES; l++) d[l] = v;
      continue;
    }
    if (s->op == ATVI_OP_PICK || s->op == ATVI_INS_SCATTER) {
      const double *index = base[s->arg[0] >> 28] + (size_t)(s->arg[0] & OFFSET) * ATVI_LANES;
      const double *from = base[s->arg[1] >> 28] + (size_t)(s->arg[1] & OFFSET) * ATVI_LANES;
      for (int l = 0; l < ATVI_LANES; l++) {
        atvi_idx at = atvi_graph_pick_at(index[l], s->arg[2]) * ATVI_LANES + l;
        if (s->op == ATVI_OP_PICK)
          d[l] = from[at];
        else
          d[at] += from[l];
      }
      continue;
    }
    const double *arg[4];
    for (int k = 0; k < 3; k++) arg[k] = base[s->arg[k] >> 28] + (size_t)(s->arg[k] & OFFSET) * ATVI_LANES;
    if (arithmetic(s->op, (vec *)d, (const vec *)arg[0], (const vec *)arg[1], (const vec *)arg[2])) continue;
    arg[3] = base[s->arg[3] >> 28] + (size_t)(s->arg[3] & OFFSET) * ATVI_LANES;
    scalar(s, d, arg);
  }
}
