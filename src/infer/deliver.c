/* SPDX-License-Identifier: MIT */
#include "infer/deliver.h"
#include <math.h>

atvi_status atvi_deliver_new(atvi_ctx *ctx, const atvi_target *t, atvi_idx n, atvi_idx n_chain, bool weighted,
                             atvi_draws **out) {
  *out = NULL;
  atvi_idx n_col = t->d + t->n_derived;
  atvi_column *col = atvi_block(ctx, (size_t)n_col * sizeof *col);
  if (!col) return ATVI_FAIL(ctx, ATVI_ENOMEM, "draws: %td columns", n_col);
  for (atvi_idx j = 0; j < t->d; j++)
    col[j] = (atvi_column){t->param[j].name, t->param[j].lower, t->param[j].upper};
  for (atvi_idx j = 0; j < t->n_derived; j++)
    col[t->d + j] = (atvi_column){t->derived[j], -HUGE_VAL, HUGE_VAL};
  atvi_status st = atvi_draws_new(ctx, n, n_chain, t->d, n_col, col, weighted, out);
  atvi_block_free(ctx, col);
  return st;
}

void atvi_deliver_derived(atvi_evaluator *ev, atvi_draws *d) {
  const atvi_target *t = atvi_evaluator_target(ev);
  if (t->n_derived == 0) return;
  double *out = d->x + t->d * d->n;
  if (t->ops->derived)
    t->ops->derived(t->self, atvi_evaluator_work(ev), d->n, d->x, out);
  else
    for (atvi_idx i = 0; i < t->n_derived * d->n; i++) out[i] = NAN;
}
