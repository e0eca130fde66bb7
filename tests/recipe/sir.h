/* SPDX-License-Identifier: MIT */
/* A method added as docs/dev/add-a-method.md says: sampling, importance, resampling from the prior. */
#ifndef ATVI_RECIPE_SIR_H
#define ATVI_RECIPE_SIR_H

#include "core/core.h"
#include "infer/fit.h"
#include "infer/chains.h"
#include <math.h>

/* n draws of starts, systematically, in proportion to their likelihood. */
static void sir_pick(const atvi_starts *s, atvi_draws *d) {
  double best = -HUGE_VAL, sum = 0, seen = 0;
  for (atvi_idx k = 0; k < s->n; k++) best = fmax(best, s->log_lik[k]);
  for (atvi_idx k = 0; k < s->n; k++) sum += exp(s->log_lik[k] - best);
  for (atvi_idx i = 0, k = -1; i < d->n; i++) {
    while (k + 1 < s->n && seen <= ((double)i + 0.5) / (double)d->n)
      seen += exp(s->log_lik[++k] - best) / sum;
    for (atvi_idx j = 0; j < s->d; j++) d->x[j * d->n + i] = s->theta[j * s->cap + k];
    d->log_prior[i] = s->log_prior[k];
    d->log_lik[i] = s->log_lik[k];
  }
}

static atvi_status run_sir(atvi_ctx *ctx, atvi_evaluator *ev, const atvi_fit_plan *p, atvi_draws **out) {
  enum { SPREAD = 40 };
  const atvi_target *t = atvi_model_evaluator_target(ev);
  atvi_idx n = p->o.ess > 0 ? (atvi_idx)p->o.ess : 1000;
  atvi_starts *s;
  ATVI_TRY(atvi_infer_starts_new(ctx, ev, p->o.seed, SPREAD * n, &s));
  atvi_status status = atvi_infer_fit_draws_new(ctx, t, n, 1, false, out);
  if (status == ATVI_OK) {
    sir_pick(s, *out);
    atvi_infer_fit_derived(ev, *out);
    (*out)->made->method = "sir";
    (*out)->made->model = t->name;
    (*out)->made->seed = p->o.seed;
    (*out)->made->evaluations = atvi_model_evaluator_count(ev);
  }
  atvi_infer_starts_free(s);
  return status;
}

#endif
