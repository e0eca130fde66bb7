/* SPDX-License-Identifier: MIT */
/* Other modes. Climbs from points spread over the prior find maxima; Laplace's method says roughly what each is worth. One
 * that may matter, and at whose peak q has far too little density, gets a component of its own: a flow in the
 * frame of the normal approximation there, trained at temperature 1. q is then the mixture, and weights are taken against
 * the whole mixture, so that overlap counts once and shares come out right by themselves. */
#include "infer/vi_state.h"
#include "math/rng.h"
#include "math/sobol.h"
#include <math.h>
#include <string.h>

enum { STARTS = 32 };
#define MATTERS                                                                                              \
  8.0 /* nats below the evidence so far; Laplace may err by a few, and modes are told from 5 on */
#define MISSED 2.0 /* nats by which q is too low at a peak */

/* log q of the mixture, each component with the mass it has found, at the first n points of the cloud. */
static void log_mass(atvi_vi *v, const atvi_cloud *c, atvi_idx n, double *part, double *out) {
  for (atvi_idx j = 0; j < n; j++) out[j] = -HUGE_VAL;
  for (atvi_idx k = 0; k < v->n_part; k++) {
    atvi_elbo_log_q(v->elbo, &v->part[k].at, false, c, n, part);
    for (atvi_idx j = 0; j < n; j++) {
      double a = out[j], b = v->part[k].log_evidence + part[j], top = fmax(a, b);
      if (top > -HUGE_VAL) out[j] = top + log(exp(a - top) + exp(b - top));
    }
  }
}

static double best_evidence(const atvi_vi *v) {
  double best = -HUGE_VAL;
  for (atvi_idx k = 0; k < v->n_part; k++) best = fmax(best, v->part[k].log_evidence);
  return best;
}

/* Is the peak one that q should know and does not? */
static bool is_missed(atvi_vi *v, const atvi_peak *p) {
  double part, have;
  atvi_cloud c = {.cap = 1, .x = p->x};
  if (p->log_evidence < best_evidence(v) - MATTERS) return false;
  log_mass(v, &c, 1, &part, &have);
  return !(have > p->log_pi - MISSED);
}

static atvi_status add_component(atvi_vi *v, const atvi_peak *p) {
  atvi_vi_part *part = atvi_vi_part_new(v, p->x, p->chol);
  if (!part) return ATVI_FAIL(v->ctx, ATVI_ENOMEM, "vi: another mode");
  if (!atvi_vi_train(v, &part->at, false)) v->converged = false;
  part->log_evidence = atvi_vi_judge(v, &part->at, v->scramble++).log_evidence;
  return ATVI_OK;
}

atvi_status atvi_vi_seek(atvi_vi *v) {
  double *start = atvi_pool_take(v->pool, (size_t)(v->d * STARTS), sizeof *start);
  if (!start) return ATVI_FAIL(v->ctx, ATVI_ENOMEM, "vi: starts");
  atvi_tell(v->ctx, "other modes", 0.75, atvi_clock_s() - v->begun_s, "%d climbs", STARTS);
  v->part[0].log_evidence = atvi_vi_judge(v, &v->part[0].at, v->scramble++).log_evidence;
  atvi_sobol key = {v->opts.seed, ATVI_STREAM_TRAIN, v->scramble++};
  atvi_sobol_normal(key, 0, v->d, STARTS, start);
  ATVI_TRY(atvi_modes_find(v->space, NULL, v->pool, STARTS, start, &v->modes));
  for (atvi_idx k = 0; k < v->modes.n && !atvi_vi_over(v); k++)
    if (is_missed(v, &v->modes.mode[k])) ATVI_TRY(add_component(v, &v->modes.mode[k]));
  return ATVI_OK;
}
