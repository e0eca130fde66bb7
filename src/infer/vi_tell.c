/* SPDX-License-Identifier: MIT */
/* What is said of modes. Every draw goes with the peak in whose normal approximation it is likeliest; peaks with no deep valley between them are
 * one hill, and their draws are counted together: ledges of a rough posterior are nobody's explanation of the data. */
#include "infer/vi_state.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { BETWEEN = 9, SHOWN = 4 };
#define TOLD 5.0 /* a hill is told if its share is above e^-TOLD */
#define DEEP 3.0 /* nats that the way between two peaks falls below the lower one */

/* Squared distance of x from a peak in its own metric. */
static double distance2(const atvi_vi *v, const atvi_peak *p, const atvi_vi_points *f, atvi_idx j,
                        double *y) {
  double sum = 0;
  for (atvi_idx i = 0; i < v->d; i++) {
    double r = f->x[i * f->stride + j] - p->x[i];
    for (atvi_idx k = 0; k < i; k++) r -= p->chol[i * v->d + k] * y[k];
    y[i] = r / p->chol[i * v->d + i];
    sum += y[i] * y[i];
  }
  return sum;
}

/* share[n] of the posterior nearest to each peak. y[d]: scratch. */
static void nearest(const atvi_vi *v, const atvi_vi_points *f, double *share, double *y) {
  for (atvi_idx j = 0; j < f->n; j++) {
    if (f->w && !(f->w[j] > 0)) continue;
    atvi_idx near = 0;
    double best = HUGE_VAL;
    for (atvi_idx k = 0; k < v->modes.n; k++) {
      double log_det = 0, r = distance2(v, &v->modes.mode[k], f, j, y);
      for (atvi_idx i = 0; i < v->d; i++) log_det += log(v->modes.mode[k].chol[i * v->d + i]);
      r += 2 * log_det - 2 * v->modes.mode[k].log_evidence;
      if (r < best) {
        best = r;
        near = k;
      }
    }
    share[near] += f->w ? f->w[j] : 1.0 / (double)f->n;
  }
}

/* The lowest point on the straight way. x, theta: [d][BETWEEN] */
static double valley(const atvi_vi *v, const atvi_peak *a, const atvi_peak *b, double *x, double *theta) {
  double value[BETWEEN], low = HUGE_VAL;
  for (atvi_idx i = 0; i < v->d; i++)
    for (int k = 0; k < BETWEEN; k++)
      x[i * BETWEEN + k] = a->x[i] + (b->x[i] - a->x[i]) * (k + 1) / (BETWEEN + 1);
  atvi_space_eval(v->space,
                  &(atvi_space_batch){.B = BETWEEN, .x = x, .beta = 1, .theta = theta, .log_pi = value});
  for (int k = 0; k < BETWEEN; k++) low = fmin(low, isnan(value[k]) ? -HUGE_VAL : value[k]);
  return low;
}

/* Shares of hills: each peak's goes to the best peak of its hill, hill[k]. */
static void gather(const atvi_vi *v, double *share, atvi_idx *hill, double *x, double *theta) {
  const atvi_peak *p = v->modes.mode;
  atvi_idx n = v->modes.n;
  for (atvi_idx k = 0; k < n; k++) hill[k] = k;
  for (atvi_idx k = 0; k < n; k++)
    for (atvi_idx l = 0; l < k; l++) {
      atvi_idx a = hill[k], b = hill[l];
      /* measured from the summits: two that a low ledge joins have a deep valley between them all the same */
      if (a == b || !(valley(v, &p[k], &p[l], x, theta) > fmin(p[a].log_pi, p[b].log_pi) - DEEP)) continue;
      atvi_idx top = p[a].log_pi > p[b].log_pi ? a : b, other = top == a ? b : a;
      for (atvi_idx i = 0; i < n; i++)
        if (hill[i] == other) hill[i] = top;
    }
  for (atvi_idx k = 0; k < n; k++)
    if (hill[k] != k) {
      share[hill[k]] += share[k];
      share[k] = 0;
    }
}

/* How far hills are apart in a coordinate, in standard deviations of the first one's peak. */
static double apart(const atvi_vi *v, const double *share, atvi_idx first, atvi_idx i) {
  const atvi_peak *p = v->modes.mode;
  double var = 0, most = 0;
  for (atvi_idx k = 0; k <= i; k++) var += p[first].chol[i * v->d + k] * p[first].chol[i * v->d + k];
  for (atvi_idx k = 0; k < v->modes.n; k++)
    if (share[k] > exp(-TOLD)) most = fmax(most, fabs(p[k].x[i] - p[first].x[i]));
  return most / sqrt(var);
}

/* The SHOWN coordinates in which they differ most. */
static void choose(const atvi_vi *v, const double *share, atvi_idx first, bool *shown) {
  for (int n = 0; n < SHOWN; n++) {
    atvi_idx best = -1;
    for (atvi_idx i = 0; i < v->d; i++)
      if (!shown[i] && (best < 0 || apart(v, share, first, i) > apart(v, share, first, best))) best = i;
    if (best >= 0) shown[best] = true;
  }
}

static atvi_status say(const atvi_vi *v, const double *share, const bool *shown, atvi_idx k, atvi_idx number,
                       atvi_draws *d) {
  char where[200];
  size_t used = 0;
  for (atvi_idx i = 0; i < v->d && used < sizeof where; i++) {
    double theta, ldj = 0;
    if (!shown[i]) continue;
    atvi_map_fwd(&v->space->map[i], 1, &v->modes.mode[k].x[i], &theta, &ldj);
    used += (size_t)snprintf(where + used, sizeof where - used, "%s%s = %.3g", used ? ", " : "",
                             v->space->target->param[i].name, theta);
  }
  return atvi_draws_say(d, "Mode %td holds %.2g %% of the posterior: near %s%s.", number, 100 * share[k],
                        where, v->d > SHOWN ? " (where the modes differ most)" : "");
}

atvi_status atvi_vi_tell_modes(atvi_vi *v, const atvi_vi_points *f, atvi_draws *d) {
  atvi_idx n = v->modes.n, told = 0, first = -1;
  d->made.modes = v->opts.seek_modes && n > 0 ? 1 : NAN;
  if (n < 2) return ATVI_OK;
  double *share = atvi_pool_take(v->pool, (size_t)(n + v->d), sizeof *share),
         *x = atvi_pool_take(v->pool, 2 * (size_t)(v->d * BETWEEN), sizeof *x);
  atvi_idx *hill = atvi_pool_take(v->pool, (size_t)n, sizeof *hill);
  bool *shown = atvi_pool_take(v->pool, (size_t)v->d, sizeof *shown);
  if (!share || !x || !hill || !shown) return ATVI_FAIL(v->ctx, ATVI_ENOMEM, "vi: modes");
  nearest(v, f, share, share + n);
  gather(v, share, hill, x, x + v->d * BETWEEN);
  for (atvi_idx k = 0; k < n; k++) {
    if (!(share[k] > exp(-TOLD))) continue;
    told++;
    if (first < 0 || share[k] > share[first]) first = k;
  }
  d->made.modes = (double)(told > 1 ? told : 1);
  if (!f->sure || told < 2) return ATVI_OK;
  choose(v, share, first, shown);
  ATVI_TRY(say(v, share, shown, first, 1, d));
  for (atvi_idx k = 0, number = 1; k < n; k++)
    if (k != first && share[k] > exp(-TOLD)) ATVI_TRY(say(v, share, shown, k, ++number, d));
  return ATVI_OK;
}
