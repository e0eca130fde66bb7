/* SPDX-License-Identifier: MIT */
#include "math/detail.h"
#include "math/optim.h"
#include <math.h>
#include <string.h>

struct atvi_adam {
  atvi_ctx *ctx;
  atvi_adam_opts opts;
  atvi_idx n;
  int64_t t;     /* steps taken */
  double *m, *v; /* [n] first and second moment, inside this block */
};

atvi_adam_opts atvi_math_adam_defaults(void) { return (atvi_adam_opts){1e-3, 0.9, 0.999, 1e-8}; }

/* Lays the object out. Runs twice: a.base == NULL measures, else it places. */
static atvi_adam *carve(atvi_arena *a, atvi_idx n) {
  atvi_adam *o, head = {0};
  ATVI_TAKE(a, o, 1);
  ATVI_TAKE(a, head.m, n);
  ATVI_TAKE(a, head.v, n);
  if (o) *o = head;
  return o;
}

static atvi_status check(atvi_ctx *ctx, atvi_idx n, const atvi_adam_opts *use) {
  if (n < 1) return ATVI_FAIL(ctx, ATVI_EINVAL, "adam: n = %td, want >= 1", n);
  if (!(use->step > 0)) return ATVI_FAIL(ctx, ATVI_EINVAL, "adam: step = %g, want > 0", use->step);
  if (!(use->beta1 >= 0 && use->beta1 < 1))
    return ATVI_FAIL(ctx, ATVI_EINVAL, "adam: beta1 = %g, want in [0, 1)", use->beta1);
  if (!(use->beta2 >= 0 && use->beta2 < 1))
    return ATVI_FAIL(ctx, ATVI_EINVAL, "adam: beta2 = %g, want in [0, 1)", use->beta2);
  if (!(use->eps > 0)) return ATVI_FAIL(ctx, ATVI_EINVAL, "adam: eps = %g, want > 0", use->eps);
  return ATVI_OK;
}

atvi_status atvi_math_adam_new(atvi_ctx *ctx, atvi_idx n, const atvi_adam_opts *opts, atvi_adam **out) {
  atvi_adam_opts use = opts ? *opts : atvi_math_adam_defaults();
  atvi_arena a = {0};
  *out = NULL;
  ATVI_TRY(check(ctx, n, &use));
  carve(&a, n);
  a = (atvi_arena){.base = atvi_block(ctx, a.used)};
  if (!a.base) return ATVI_ENOMEM;
  atvi_adam *o = carve(&a, n);
  o->ctx = ctx;
  o->opts = use;
  o->n = n;
  *out = o;
  return ATVI_OK;
}

void atvi_math_adam_free(atvi_adam *opt) {
  if (opt) atvi_block_free(opt->ctx, opt);
}

void atvi_math_adam_set_step(atvi_adam *opt, double step) {
  ATVI_ASSERT(step >= 0);
  opt->opts.step = step;
}

atvi_adam_memory atvi_math_adam_memory(atvi_adam *opt) { return (atvi_adam_memory){&opt->t, opt->m, opt->v}; }

void atvi_math_adam_reset(atvi_adam *opt) {
  opt->t = 0;
  memset(opt->m, 0, (size_t)opt->n * sizeof *opt->m);
  memset(opt->v, 0, (size_t)opt->n * sizeof *opt->v);
}

atvi_idx atvi_math_adam_step(atvi_adam *opt, double *x, const double *g) {
  const atvi_adam_opts o = opt->opts;
  opt->t++;
  atvi_adam_rates r = {.beta1 = o.beta1, .beta2 = o.beta2, .eps = o.eps};
  r.step = o.step / (1 - pow(o.beta1, (double)opt->t));
  r.root = 1 / sqrt(1 - pow(o.beta2, (double)opt->t));
  return ATVI_ISA_PICK(atvi_math_adam_update)(opt->n, &r, opt->m, opt->v, x, g);
}
