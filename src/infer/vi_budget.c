/* SPDX-License-Identifier: MIT */
/* One budget: the model runs that a fit takes to reach the effective size that is wanted.
 *
 * Draws     An effective size E takes E / s draws, where s is what one of them is worth. Of a component that stands for a part c of the
 *           posterior, c E / s.
 * Training  -log s is about the variance of the log weights. A round that leaves a part r of it, as the one before did, saves
 *           c E (s^-1 - s^-r) draws and costs its gradients. Training goes on while it saves more than it costs.
 * Sound     All of that supposes that weights show all of the posterior. So training goes on, too, while k-hat is above its threshold, or more than a
 *           hundredth of the posterior has weights so large that the search for what q misses would find it there. */
#include "infer/vi_state.h"
#include <math.h>

bool atvi_infer_vi_is_dear(const atvi_vi *v) { return v->space->target->operations > ATVI_VI_DEAR; }

static double ess_wanted(const atvi_vi *v) {
  bool dear = v->wide || atvi_infer_vi_is_dear(v);
  return !isnan(v->opts.ess) ? v->opts.ess : dear ? ATVI_VI_ESS_WIDE : ATVI_VI_ESS;
}

double atvi_infer_vi_most_draws(const atvi_vi *v) {
  if (!isnan(v->opts.ess)) return 8 * ATVI_VI_DRAWS;
  return fmin(ATVI_VI_DRAWS, fmax(ATVI_VI_VALUES / (double)v->d, ATVI_VI_DRAWS / 16));
}

double atvi_infer_vi_draws(const atvi_vi *v, double share) {
  share = fmax(share, 1e-3) * 0.97; /* a little less than seen */
  double step = ATVI_GUARD * ATVI_VI_BLOCKS;
  return fmin(ceil(ess_wanted(v) / share / step) * step, atvi_infer_vi_most_draws(v));
}

int atvi_infer_vi_round_steps(const atvi_vi *v) {
  int n = (int)v->tuning.round_steps, d = (int)v->d;
  return d == 1 ? 8 * n : d < ATVI_VI_FEW ? ATVI_VI_FEW * n / d : n;
}

double atvi_infer_vi_round_runs(const atvi_vi *v) {
  return ATVI_VI_GRADIENT_RUNS * v->opts.batch * atvi_infer_vi_round_steps(v) + ATVI_VI_TEST;
}

double atvi_infer_vi_saving(const atvi_vi *v, double part, double share, double left) {
  share = fmax(share, 1e-3);
  return part * ess_wanted(v) * (1 / share - pow(share, -left));
}

atvi_vi_worth atvi_infer_vi_worth_of(const atvi_vi *v, atvi_idx n, const double *log_w) {
  double *w = v->scratch, wild = exp(v->tuning.missed) / (double)n;
  for (atvi_idx j = 0; j < n; j++) w[j] = isfinite(log_w[j]) ? log_w[j] : -HUGE_VAL;
  atvi_psis_info p = atvi_math_psis(n, w, w, w + n);
  atvi_vi_worth worth = {.share = p.ess / (double)n, .permits = atvi_math_psis_permits(n, p.khat, p.excess)};
  for (atvi_idx j = 0; j < n; j++) {
    worth.top = fmax(worth.top, w[j] * (double)n);
    worth.lacking += w[j] > wild ? w[j] : 0;
  }
  return worth;
}

/* Whether q lacks next to nothing by the measure of the search for what it misses: what that finds would cost
 * more than the training that is left out. */
static bool is_sound(const atvi_vi *v, double part, const atvi_vi_worth *w) {
  return (w->permits && part * w->lacking < ATVI_SLIGHT) || w->top < exp(v->tuning.missed);
}

bool atvi_infer_vi_is_enough(const atvi_vi *v, double part, double runs, const atvi_vi_worth *before,
                             const atvi_vi_worth *now) {
  if (v->d < ATVI_VI_FEW) return false;
  double left = before ? fmin(1, log(now->share) / log(before->share)) : ATVI_HALF;
  return is_sound(v, part, now) && atvi_infer_vi_saving(v, part, now->share, left) < runs;
}

bool atvi_infer_vi_is_sound(const atvi_vi *v, const atvi_vi_weights *w) {
  atvi_vi_worth worth = {.permits = atvi_infer_vi_permits(w), .lacking = w->lacking};
  for (atvi_idx j = 0; j < w->c.n; j++) worth.top = fmax(worth.top, w->w[j] * (double)w->c.n);
  return is_sound(v, 1, &worth);
}
