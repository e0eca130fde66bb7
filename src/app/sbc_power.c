/* SPDX-License-Identifier: MIT */
/* Which wrong posteriors a calibration run would have noticed.
 *
 * Let posterior standard deviations be f times what they should be. Given the data the truth is then at z sds of its right place and at z/f sds
 * of the one reported, z standard normal where posteriors are normal, and its rank among L draws is Binomial(L, Phi(z/f)). Averaged over z by
 * the midpoint rule in Phi(z), that is the distribution of one rank. Sets of n ranks are drawn from it and put through the two tests
 * as atvi_sbc_count does; the share that is flagged is the power at f. All f use the same random numbers, so that it grows with the distance of f
 * from 1, and the f at which it passes POWER is found by bisection. */
#include "app/sbc.h"
#include "math/rng.h"
#include "math/special.h"
#include <math.h>

enum { L = ATVI_SBC_DRAWS, K = ATVI_SBC_DRAWS + 1, GRID = 500, HALVINGS = 7, SETS = 400, SETS_LEAST = 100 };
static const double POWER = 0.8, FURTHEST = 8; /* factors beyond are not looked at */
static const double MOST_RANKS = 4e6;          /* to be drawn in all: about a tenth of a second */

typedef struct {
  const atvi_ecdf *ecdf;
  atvi_idx n;
  double level;
  int sets;
  double square[K]; /* of the normal score of each rank, in units of their mean */
  double log_choose[K];
} design;

double atvi_sbc_score(atvi_idx rank) { return atvi_ndtri(((double)rank + 0.5) / K); }

double atvi_sbc_mean_square(void) {
  double sum = 0;
  for (atvi_idx k = 0; k < K; k++) sum += atvi_sbc_score(k) * atvi_sbc_score(k);
  return sum / K;
}

double atvi_sbc_spread(atvi_idx n, double sum) {
  double a = 0.5 * (double)n, x = 0.5 * sum;
  return fmin(1, 2 * fmin(atvi_gamma_p(a, x), atvi_gamma_q(a, x)));
}

/* cdf[k] = P(rank <= k) */
static void distribution(const design *d, double f, double cdf[K]) {
  for (int k = 0; k < K; k++) cdf[k] = 0;
  for (int i = 0; i < GRID; i++) {
    double z = atvi_ndtri((i + 0.5) / GRID) / f, below = atvi_log_ndtr(z), above = atvi_log_ndtr(-z);
    for (int k = 0; k < K; k++) cdf[k] += exp(d->log_choose[k] + k * below + (L - k) * above) / GRID;
  }
  for (int k = 1; k < K; k++) cdf[k] += cdf[k - 1];
}

static int draw(const double cdf[K], double u) {
  int low = 0, high = K - 1;
  while (low < high) {
    int mid = (low + high) / 2;
    if (cdf[mid] < u)
      low = mid + 1;
    else
      high = mid;
  }
  return low;
}

static double power(const design *d, double f) {
  double cdf[K];
  int flagged = 0;
  distribution(d, f, cdf);
  for (int s = 0; s < d->sets; s++) {
    atvi_rng rng = atvi_rng_at(0, ATVI_STREAM_CHECK, (uint32_t)s, 1);
    atvi_idx count[K] = {0};
    double sum = 0;
    for (atvi_idx i = 0; i < d->n; i++) {
      int rank = draw(cdf, atvi_rng_uniform(&rng));
      count[rank]++;
      sum += d->square[rank];
    }
    flagged += atvi_sbc_spread(d->n, sum) < d->level || atvi_ecdf_p(d->ecdf, count) < d->level;
  }
  return (double)flagged / d->sets;
}

/* The factor nearest to 1 that is noticed, on the side of `far`; NaN: not even that. */
static double nearest(const design *d, double far) {
  if (power(d, far) < POWER) return NAN;
  double in = 0, out = log(far);
  for (int i = 0; i < HALVINGS; i++) {
    double mid = 0.5 * (in + out);
    *(power(d, exp(mid)) < POWER ? &in : &out) = mid;
  }
  return exp(out);
}

void atvi_sbc_notice(const atvi_ecdf *ecdf, atvi_idx n, double level, double *narrow, double *wide) {
  design d = {.ecdf = ecdf, .n = n, .level = level};
  double mean = atvi_sbc_mean_square(), sets = MOST_RANKS / (2 * (HALVINGS + 1) * (double)n);
  d.sets = sets > SETS ? SETS : sets < SETS_LEAST ? SETS_LEAST : (int)sets;
  for (int k = 0; k < K; k++) {
    double z = atvi_sbc_score(k);
    d.square[k] = z * z / mean;
    d.log_choose[k] = atvi_lgamma(L + 1) - atvi_lgamma(k + 1) - atvi_lgamma(L - k + 1);
  }
  *narrow = nearest(&d, 1 / FURTHEST);
  *wide = nearest(&d, FURTHEST);
}
