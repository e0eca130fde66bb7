/* SPDX-License-Identifier: MIT */
/* Which states of adaptive Metropolis are kept, and what happens to chains that are lost.
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

enum { RESHAPE_MIN = 100 }; /* states per parameter from which a covariance is taken */
#define LOST 20.0           /* of this some nats are for the error of log det S */

atvi_chains atvi_ram_kept(const atvi_ram *r) {
  atvi_idx warm = r->done / 2 > r->discard ? r->done / 2 : r->discard;
  atvi_chains c = {.d = r->d, .m = r->opts.chains, .room = r->room, .store = r->store};
  c.last = r->done / r->thin;
  c.first = warm / r->thin;
  if (c.last - c.first > r->room / 2 + 1) c.first = c.last - (r->room / 2 + 1);
  return c;
}

/* Mean log posterior of the kept states of a chain, and its log mass. */
static double mass_of(const atvi_ram *r, atvi_idx chain, double *mean) {
  atvi_idx m = r->opts.chains;
  const atvi_lanes *l = &r->group[chain / ATVI_LANES].lanes;
  atvi_chains c = atvi_ram_kept(r);
  const double *prior = r->store + (r->d * m + chain) * r->room, *lik = prior + m * r->room;
  double sum = 0;
  for (atvi_idx i = c.first; i < c.last; i++) sum += prior[i] + lik[i];
  *mean = sum / (double)(c.last - c.first);
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
  atvi_idx m = r->opts.chains;
  atvi_chains kept = atvi_ram_kept(r);
  double *mass = r->judge.work[0],
         *mean = mass + m; /* [m] each; the statistics' room is free now, and larger */
  if (kept.last <= kept.first) return;
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
  atvi_idx d = r->d;
  atvi_chains kept = atvi_ram_kept(r);
  double *cov = r->shape, *mean = cov + d * d, log_det = 0;
  if ((kept.last - kept.first) * r->opts.chains < RESHAPE_MIN * d) return;
  for (atvi_idx i = 0; i < d * d; i++) cov[i] = 0;
  for (atvi_idx c = 0; c < r->opts.chains; c++) add_chain(r, c, kept.first, kept.last, cov, mean);
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
