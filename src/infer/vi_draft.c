/* SPDX-License-Identifier: MIT */
/* A first q without training: the normal approximation at the best maximum, which then follows its own
 * weighted draws.
 *
 * Many posteriors are so nearly normal, in these coordinates, that its draws cost less than training would.
 * So a few climbs come first. A round takes draws that say what they are worth, and gives q their weighted
 * mean and covariance; rounds go on while one is expected to save more than it costs, and q stays if training
 * would not pay, by the rule that ends training (vi_budget.c). Otherwise the ladder begins at the prior as if
 * nothing had been: it sees several modes while they are still connected, and training from a normal q that
 * is not good enough ended with more components than training from the ladder did (up to seven times the
 * runs). */
#include "infer/vi_state.h"
#include <math.h>
#include <string.h>

bool atvi_infer_vi_has_rivals(const atvi_vi *v) {
  double least = -ATVI_NEGLIGIBLE - ATVI_DOUBT;
  for (atvi_idx k = 1; k < v->search.modes.n; k++)
    if (v->search.modes.mode[k].log_evidence > v->search.modes.mode[0].log_evidence + least) return true;
  return false;
}

double atvi_infer_vi_gained(const atvi_vi *v, const atvi_cloud *c, const double *log_w) {
  double *w = v->scratch, mean = 0;
  for (atvi_idx j = 0; j < c->n; j++) w[j] = isfinite(log_w[j]) ? log_w[j] : -HUGE_VAL;
  atvi_psis_info p = atvi_math_psis(c->n, w, w, w + c->n);
  for (atvi_idx j = 0; j < c->n; j++) mean += w[j] > 0 ? w[j] * (c->log_pi[j] - c->log_base[j]) : 0;
  return mean - p.log_mean;
}

/* Rounds from `at`; the best of them in *best, what its draws are worth in *worth. log_w[ATVI_VI_LOOK]:
 * scratch. */
static void polish(atvi_vi *v, atvi_member *at, atvi_member *best, atvi_vi_worth *worth, double *log_w) {
  double left;
  do {
    atvi_cloud c;
    atvi_infer_vi_judge(v, at, v->scramble++, &c);
    for (atvi_idx j = 0; j < c.n; j++) log_w[j] = c.log_pi[j] - c.log_q[j];
    atvi_vi_worth now = atvi_infer_vi_worth_of(v, c.n, log_w);
    if (!(now.share > fmax(worth->share, ATVI_VI_WORTH))) break;
    left = worth->share > 0 ? log(now.share) / log(worth->share) : ATVI_HALF;
    atvi_infer_vi_member_copy(v, at, best);
    *worth = now;
    v->outcome.gained = atvi_infer_vi_gained(v, &c, log_w);
    if (!atvi_infer_vi_follow(v, at, &c, log_w)) break;
  } while (!atvi_infer_vi_over(v) && atvi_infer_vi_saving(v, 1, worth->share, left) > ATVI_VI_LOOK);
}

atvi_status atvi_infer_vi_draft(atvi_vi *v, atvi_member *m, bool *enough) {
  atvi_member at, best;
  atvi_vi_worth worth = {0};
  bool found;
  double *log_w = atvi_pool_take(v->pool, ATVI_VI_LOOK, sizeof *log_w);
  *enough = false;
  if (!log_w || !atvi_infer_vi_member_new(v, NULL, NULL, &best)) return ATVI_ENOMEM;
  ATVI_TRY(atvi_infer_vi_summit(v, &at, &found));
  if (found && atvi_infer_vi_can_learn(v)) {
    ATVI_TRY(atvi_infer_vi_learn(v, &at, enough));
    if (*enough) *m = at;
    v->search.modes.n = 0;
    return ATVI_OK;
  }
  if (found && !atvi_infer_vi_has_rivals(v)) polish(v, &at, &best, &worth, log_w);
  *enough = worth.share > 0 && atvi_infer_vi_is_enough(v, 1, atvi_infer_vi_round_runs(v), NULL, &worth) &&
            !atvi_infer_vi_log_loses(v, &best);
  if (*enough) atvi_infer_vi_member_copy(v, &best, m);
  v->search.modes.n = 0; /* the search for modes begins anew, in the coordinates that are chosen */
  return ATVI_OK;
}
