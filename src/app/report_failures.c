/* SPDX-License-Identifier: MIT */
/* Where a model could not be run, as the evaluator remembers it. */
#include "app/report.h"

void atvi_report_find_failures(atvi_pool *pool, const atvi_evaluator *ev, atvi_report_fit *r) {
  atvi_idx d = atvi_evaluator_target(ev)->d;
  double *theta = atvi_pool_take(pool, (size_t)(ATVI_FAILED_KEPT * d), sizeof *theta);
  atvi_report_failure *list = atvi_pool_take(pool, ATVI_FAILED_KEPT, sizeof *list);
  atvi_outcome why[ATVI_FAILED_KEPT];
  if (!theta || !list) return;
  r->n_failure = atvi_evaluator_failed(ev, theta, why);
  for (atvi_idx k = 0; k < r->n_failure; k++)
    list[k] = (atvi_report_failure){theta + k * d, atvi_outcome_word(why[k])};
  r->failure = list;
}
