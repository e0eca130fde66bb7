/* SPDX-License-Identifier: MIT */
/* The simulator alone, as its emulator predicts it at draws of the posterior: neither the emulator's error nor a discrepancy, both of which know
 * the data. What is between it and the data is theirs. */
#include "app/report.h"
#include "math/stat/stat.h"
#include <math.h>
#include <string.h>

enum { DRAWS = 500, G = ATVI_EM_GROUP };

typedef struct {
  atvi_ctx *ctx;
  atvi_pool *pool;
  const atvi_model *model;
  const atvi_draws *plain;
  const double *held; /* [d of the model] values of fixed parameters */
  const atvi_process *process;
  const atvi_emulation *em;
  atvi_idx B;
  double *at; /* [n][B] */
} work;

/* Input j at draw b, in the unit cube. */
static double input_at(const work *w, atvi_idx j, atvi_idx b) {
  const atvi_target *t = atvi_model_target(w->model);
  const atvi_draws *d = w->plain;
  atvi_idx param = w->em->input[j], c = 0;
  while (c < d->n_param && strcmp(d->col[c].name, t->param[param].name) != 0) c++;
  atvi_idx row = (atvi_idx)((double)b * (double)d->n / (double)w->B);
  double theta = c < d->n_param ? d->x[c * d->n + row] : w->held[param];
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

static bool describe(const work *w, atvi_report_series *s) {
  atvi_idx n = w->process->n;
  double *mean = atvi_pool_take(w->pool, 3 * (size_t)n + 1, sizeof *mean), *low = mean ? mean + n : NULL,
         *high = low ? low + n : NULL, *scratch = atvi_pool_take(w->pool, (size_t)w->B + 1, sizeof *scratch);
  if (!mean || !scratch) return false;
  for (atvi_idx i = 0; i < n; i++) {
    double *v = w->at + i * w->B, ends[2];
    for (atvi_idx b = 0; b < w->B; b++) mean[i] += v[b] / (double)w->B;
    atvi_sort(w->B, v, NULL, scratch);
    atvi_hpd(w->B, v, NULL, 0.95, ends);
    low[i] = ends[0], high[i] = ends[1];
  }
  s->alone = mean;
  s->alone_low = low, s->alone_high = high;
  return true;
}

static atvi_status one(work *w, atvi_report_series *s) {
  w->at = atvi_pool_take(w->pool, (size_t)(w->process->n * w->B) + 1, sizeof *w->at);
  if (!w->at) return ATVI_FAIL(w->ctx, ATVI_ENOMEM, "report: out of memory");
  ATVI_TRY(evaluate(w));
  return describe(w, s) ? ATVI_OK : ATVI_FAIL(w->ctx, ATVI_ENOMEM, "report: out of memory");
}

atvi_status atvi_report_alone(atvi_ctx *ctx, atvi_pool *pool, const atvi_loaded *l,
                              const atvi_app_model *opts, const atvi_draws *plain, atvi_idx n,
                              atvi_report_series *series) {
  const atvi_emulated *e = l->model->emulated;
  const atvi_target *t = atvi_model_target(l->model);
  double *held = atvi_pool_take(pool, (size_t)t->d + 1, sizeof *held);
  if (!held) return ATVI_FAIL(ctx, ATVI_ENOMEM, "report: out of memory");
  ATVI_TRY(atvi_app_values(ctx, "--fix", t, opts->n_fix, opts->fix, held));
  for (atvi_idx k = 0; e && k < e->n; k++) {
    const atvi_process *p = &e->process[k];
    if (p->emulator < 0 || p->n == 0 || !e->emulator[p->emulator].em) continue;
    work w = {
        ctx, pool, l->model, plain, held, p, &e->emulator[p->emulator], plain->n < DRAWS ? plain->n : DRAWS,
        NULL};
    if (p->observe < n && series[p->observe].value && series[p->observe].n == p->n)
      ATVI_TRY(one(&w, &series[p->observe]));
  }
  return ATVI_OK;
}
