/* SPDX-License-Identifier: MIT */
/* A first q without training: the normal approximation at the best maximum, which then follows its own weighted draws.
 *
 * Many posteriors are so nearly normal, in these coordinates, that its draws cost less than training would; of most others it is no farther from the posterior than the
 * end of a ladder. So climbs come first: the search for other modes needs them anyway. A round takes draws that say what they are worth, and gives q their weighted mean and
 * covariance; rounds go on while one is expected to save more than it costs, as those of training do (vi_budget.c). Where there are several modes that count, the ladder
 * begins at the prior as if nothing had been: it sees them while they are still connected. */
#include "infer/vi_state.h"
#include "math/stat/stat.h"
#include <math.h>
#include <string.h>

/* Whether another maximum counts, by Laplace's method. */
static bool has_rivals(const atvi_vi *v) {
  double least = log(v->tuning.lost) - v->tuning.doubt;
  for (atvi_idx k = 1; k < v->modes.n; k++)
    if (v->modes.mode[k].log_evidence > v->modes.mode[0].log_evidence + least) return true;
  return false;
}

static void keep(const atvi_vi *v, const atvi_member *from, atvi_member *to) {
  size_t d = (size_t)v->d;
  memcpy(to->shift, from->shift, d * sizeof *to->shift);
  memcpy(to->chol, from->chol, d * d * sizeof *to->chol);
  to->log_det = from->log_det;
  to->whole = from->whole;
}

/* Nats between prior and posterior: the mean of log likelihood - log evidence. */
static double gained(const atvi_vi *v, const atvi_cloud *c, const double *log_w) {
  double *w = v->scratch, mean = 0;
  for (atvi_idx j = 0; j < c->n; j++) w[j] = isfinite(log_w[j]) ? log_w[j] : -HUGE_VAL;
  atvi_psis_info p = atvi_math_psis(c->n, w, w, w + c->n);
  for (atvi_idx j = 0; j < c->n; j++) mean += w[j] > 0 ? w[j] * (c->log_pi[j] - c->log_base[j]) : 0;
  return mean - p.log_mean;
}

atvi_status atvi_infer_vi_draft(atvi_vi *v, atvi_member *m, atvi_vi_worth *worth) {
  atvi_member at;
  bool found, better = true;
  *worth = (atvi_vi_worth){0};
  ATVI_TRY(atvi_infer_vi_summit(v, &at, &found));
  if (!found || has_rivals(v)) return ATVI_OK;
  double *log_w = atvi_pool_take(v->pool, ATVI_VI_LOOK, sizeof *log_w), left = 0;
  if (!log_w) return ATVI_ENOMEM;
  do {
    atvi_cloud c;
    atvi_infer_vi_judge(v, &at, v->scramble++, &c);
    for (atvi_idx j = 0; j < c.n; j++) log_w[j] = c.log_pi[j] - c.log_q[j];
    atvi_vi_worth now = atvi_infer_vi_worth_of(v, c.n, log_w);
    left = worth->share > 0 ? log(now.share) / log(worth->share) : 0.5;
    better = now.share > worth->share;
    if (!better) break;
    keep(v, &at, m);
    *worth = now;
    v->gained = gained(v, &c, log_w);
    better = atvi_infer_vi_follow(v, &at, &c, log_w);
  } while (better && !atvi_infer_vi_over(v) && atvi_infer_vi_saving(v, 1, worth->share, left) > ATVI_VI_LOOK);
  return ATVI_OK;
}
