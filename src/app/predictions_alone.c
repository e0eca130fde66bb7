/* SPDX-License-Identifier: MIT */
/* The simulator alone, as its emulator predicts it at draws of the posterior: neither the emulator's error nor a discrepancy, both of which know
 * the data. What is between it and the data is theirs. */
#include "app/predictions.h"
#include <math.h>
#include <string.h>

enum { G = ATVI_EM_GROUP };

typedef struct {
  atvi_ctx *ctx;
  const atvi_model *model;
  const atvi_draws *plain;
  const double *held; /* [d of the model] values of fixed parameters */
  const atvi_process *process;
  const atvi_emulation *em;
  atvi_idx B;
  const atvi_idx *draw; /* [B] */
  double *at;           /* [n][B] */
} work;

/* Input j at draw b, in the unit cube. */
static double input_at(const work *w, atvi_idx j, atvi_idx b) {
  const atvi_target *t = atvi_model_target(w->model);
  const atvi_draws *d = w->plain;
  atvi_idx param = w->em->input[j], c = 0;
  while (c < d->n_param && strcmp(d->col[c].name, t->param[param].name) != 0) c++;
  double theta = c < d->n_param ? d->x[c * d->n + w->draw[b]] : w->held[param];
  return atvi_emulated_axis_x(&w->em->axis[j], theta);
}

static atvi_status evaluate(const work *w) {
  const atvi_process *p = w->process;
  atvi_em_work *em;
  size_t room = (size_t)((w->em->d + p->n + 1) * G);
  double *x = atvi_block(w->ctx, room * sizeof *x), *mean = x ? x + w->em->d * G : NULL,
         *share = mean ? mean + p->n * G : NULL;
  if (!x) return ATVI_FAIL(w->ctx, ATVI_ENOMEM, "report: out of memory");
  atvi_status status = atvi_em_work_new(w->em->em, w->ctx, p->n, p->em_row, &em);
  for (atvi_idx first = 0; status == ATVI_OK && first < w->B; first += G) {
    for (atvi_idx j = 0; j < w->em->d; j++)
      for (atvi_idx b = 0; b < G; b++) x[j * G + b] = input_at(w, j, first + b < w->B ? first + b : w->B - 1);
    atvi_em_eval(w->em->em, em, x, mean, share);
    for (atvi_idx i = 0; i < p->n; i++)
      for (atvi_idx b = 0; b < G && first + b < w->B; b++) w->at[i * w->B + first + b] = mean[i * G + b];
  }
  atvi_em_work_free(em);
  atvi_block_free(w->ctx, x);
  return status;
}

atvi_status atvi_predictions_alone(const atvi_loaded *l, const atvi_app_model *model,
                                   const atvi_predictions_opts *opts, atvi_draws *d) {
  const atvi_emulated *e = l->model->emulated;
  const atvi_target *t = atvi_model_target(l->model);
  const atvi_group *observed = atvi_draws_group(d, "predictive");
  double *held, *x;
  if (!e || !observed) return ATVI_OK;
  ATVI_TRY(atvi_draws_group_new(d, "simulator", observed->n_value, opts->n, opts->draw, &x));
  for (atvi_idx i = 0; i < observed->n_value * opts->n; i++) x[i] = NAN;
  if (!(held = atvi_block(d->ctx, ((size_t)t->d + 1) * sizeof *held)))
    return ATVI_FAIL(d->ctx, ATVI_ENOMEM, "out of memory: predictions");
  atvi_status status = atvi_app_values(d->ctx, "--fix", t, model->n_fix, model->fix, held);
  for (atvi_idx k = 0; status == ATVI_OK && k < e->n; k++) {
    const atvi_process *p = &e->process[k];
    atvi_idx at = 0;
    if (p->emulator < 0 || p->n == 0 || !e->emulator[p->emulator].em || d->series[p->observe].n != p->n)
      continue;
    for (atvi_idx s = 0; s < p->observe; s++) at += d->series[s].n;
    status = evaluate(&(work){d->ctx, l->model, d, held, p, &e->emulator[p->emulator], opts->n, opts->draw,
                              x + at * opts->n});
  }
  atvi_block_free(d->ctx, held);
  return status;
}
