/* SPDX-License-Identifier: MIT */
/* When the chains of adaptive Metropolis agree, and what happens to those that are lost.
 *
 * A chain may get caught in a hollow that holds next to none of the posterior. It would stay there for ever,
 * and the run would never end. The log mass of the region a chain is in is about
 *     mean of log posterior + log det S + a constant that chains share,
 * exactly so for normal regions, as S S^T is proportional to their covariance. A chain whose mass is below
 * e^-LOST of the greatest is moved to the place of a chain that is not lost, everything before is discarded,
 * and the user is told. Modes that matter are far above that: they keep their chains, and R-hat shows them. */
#include "infer/ram_state.h"
#include "math/linalg.h"
#include "math/rng.h"
#include "math/stat/stat.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { RESHAPE_MIN = 100 }; /* states per parameter from which a covariance is taken */
#define LOST 20.0           /* of this some nats are for the error of log det S */

void atvi_ram_kept(const atvi_ram *r, atvi_idx *first, atvi_idx *last) {
  atvi_idx warm = r->done / 2 > r->discard ? r->done / 2 : r->discard;
  *last = r->done / r->thin;
  *first = warm / r->thin;
  if (*last - *first > r->room / 2 + 1) *first = *last - (r->room / 2 + 1);
}

static atvi_ram_quality judge_one(const atvi_ram *r, atvi_idx j, int worker) {
  atvi_idx first, last, m = r->opts.chains;
  atvi_ram_kept(r, &first, &last);
  atvi_idx n = last - first;
  double *x = r->judge[worker], *work = x + m * n;
  for (atvi_idx c = 0; c < m; c++)
    memcpy(x + c * n, r->store + (j * m + c) * r->room + first, (size_t)n * sizeof *x);
  atvi_convergence v = atvi_converge(m, n, x, work);
  return (atvi_ram_quality){.rhat = v.rhat,
                            .ess = isnan(v.ess_tail) || v.ess_tail < v.ess_bulk ? v.ess_tail : v.ess_bulk};
}

static void judge_item(void *arg, atvi_idx j, int worker) {
  atvi_ram *r = arg;
  r->quality[j] = judge_one(r, j, worker);
}

/* How far from the criteria: share of the way, 1 and more is there. */
static double share_of(const atvi_ram *r, atvi_ram_quality q) {
  double rhat = (r->opts.rhat - 1) / fmax(q.rhat - 1, 1e-9), ess = q.ess / r->opts.ess;
  if (!(q.rhat >= 0) || !(q.ess >= 0)) return 0;
  return fmin(rhat, ess);
}

/* A checkpoint: the parameter that was worst is looked at first, and while it is not good enough the others
 * are not looked at, so that checkpoints stay cheap. Returns whether all are good. */
bool atvi_ram_judge(atvi_ram *r, double *share, char detail[64]) {
  atvi_ram_quality q = judge_one(r, r->worst, 0);
  *share = share_of(r, q);
  if (*share > 1) {
    atvi_parallel(r->ctx, r->d, judge_item, r);
    for (atvi_idx j = 0; j < r->d; j++) {
      if (share_of(r, r->quality[j]) >= *share) continue;
      *share = share_of(r, r->quality[j]);
      r->worst = j;
    }
    q = r->quality[r->worst];
  }
  snprintf(detail, 64, "R-hat %.3f, ESS %.0f", q.rhat, q.ess);
  return *share > 1;
}

/* Mean log posterior of the kept states of a chain, and its log mass. */
static double mass_of(const atvi_ram *r, atvi_idx chain, double *mean) {
  atvi_idx first, last, m = r->opts.chains;
  const atvi_lanes *l = &r->group[chain / ATVI_LANES].lanes;
  atvi_ram_kept(r, &first, &last);
  const double *prior = r->store + (r->d * m + chain) * r->room, *lik = prior + m * r->room;
  double sum = 0;
  for (atvi_idx i = first; i < last; i++) sum += prior[i] + lik[i];
  *mean = sum / (double)(last - first);
  double log_det = 0;
  for (atvi_idx i = 0; i < r->d; i++) log_det += log(l->S[i * (i + 3) / 2 * ATVI_LANES + chain % ATVI_LANES]);
  return *mean + log_det;
}

static void copy_rows(atvi_idx rows, double *to, atvi_idx to_lane, const double *from, atvi_idx from_lane) {
  for (atvi_idx i = 0; i < rows; i++) to[i * ATVI_LANES + to_lane] = from[i * ATVI_LANES + from_lane];
}

static void move_chain(atvi_ram *r, atvi_idx lost, atvi_idx good) {
  atvi_lanes *a = &r->group[lost / ATVI_LANES].lanes, *b = &r->group[good / ATVI_LANES].lanes;
  atvi_idx i = lost % ATVI_LANES, k = good % ATVI_LANES;
  copy_rows(r->d, a->x, i, b->x, k);
  copy_rows(r->d * (r->d + 1) / 2, a->S, i, b->S, k);
  copy_rows(1, a->log_prior, i, b->log_prior, k);
  copy_rows(1, a->log_lik, i, b->log_lik, k);
}

void atvi_ram_move(atvi_ram *r) {
  atvi_idx first, last, m = r->opts.chains;
  double *mass = r->judge[0], *mean = mass + m; /* [m] each; the statistics' room is free now, and larger */
  atvi_ram_kept(r, &first, &last);
  if (last <= first) return;
  atvi_idx best = 0;
  for (atvi_idx c = 0; c < m; c++) {
    mass[c] = mass_of(r, c, &mean[c]);
    if (mass[c] > mass[best]) best = c;
  }
  int before = r->moved;
  for (atvi_idx c = 0; c < m; c++) {
    if (!(mass[c] < mass[best] - LOST)) continue;
    atvi_rng rng = atvi_rng_at(r->opts.seed, ATVI_STREAM_START, 2, (uint32_t)c);
    atvi_idx good = (atvi_idx)(atvi_rng_uniform(&rng) * (double)m);
    while (mass[good] < mass[best] - LOST) good = (good + 1) % m;
    move_chain(r, c, good);
    r->moved++;
    r->moved_drop = fmax(r->moved_drop, mean[best] - mean[c]);
  }
  if (r->moved > before) r->discard = r->done;
}

/* Adds the kept states of a chain, about their mean[d], to the lower triangle of cov[d][d]. */
static void add_chain(const atvi_ram *r, atvi_idx chain, atvi_idx first, atvi_idx last, double *cov,
                      double *mean) {
  atvi_idx d = r->d, stride = r->opts.chains * r->room;
  const double *x = r->store + chain * r->room;
  for (atvi_idx j = 0; j < d; j++) mean[j] = atvi_mean(last - first, x + j * stride + first, NULL);
  for (atvi_idx j = 0; j < d; j++)
    for (atvi_idx k = 0; k <= j; k++) {
      double sum = 0;
      for (atvi_idx i = first; i < last; i++)
        sum += (x[j * stride + i] - mean[j]) * (x[k * stride + i] - mean[k]);
      cov[j * d + k] += sum;
    }
}

void atvi_ram_reshape(atvi_ram *r) {
  atvi_idx first, last, d = r->d;
  double *cov = r->shape, *mean = cov + d * d, log_det = 0;
  atvi_ram_kept(r, &first, &last);
  if ((last - first) * r->opts.chains < RESHAPE_MIN * d) return;
  for (atvi_idx i = 0; i < d * d; i++) cov[i] = 0;
  for (atvi_idx c = 0; c < r->opts.chains; c++) add_chain(r, c, first, last, cov, mean);
  if (!atvi_cholesky(d, cov)) return;
  for (atvi_idx j = 0; j < d; j++) log_det += log(cov[j * d + j]);
  if (!isfinite(log_det)) return;
  for (atvi_idx c = 0; c < r->n_group * ATVI_LANES; c++) {
    double *S = r->group[c / ATVI_LANES].lanes.S + c % ATVI_LANES, own = 0;
    for (atvi_idx j = 0; j < d; j++) own += log(S[j * (j + 3) / 2 * ATVI_LANES]);
    double size = exp((own - log_det) / (double)d);
    for (atvi_idx j = 0; j < d; j++)
      for (atvi_idx k = 0; k <= j; k++) S[(j * (j + 1) / 2 + k) * ATVI_LANES] = size * cov[j * d + k];
  }
}
