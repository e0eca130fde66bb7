/* SPDX-License-Identifier: MIT */
/* Stacking by an interior-point method.
 *
 * Notation  r_ik = exp(elpd[k][i] - max_k elpd[k][i]); p_i = sum_k w_k r_ik; a_ik = w_k r_ik / p_i, which sum to 1 over k.
 * Problem   maximise f(w) = mean_i log p_i - sum_k w_k over w > 0. Its maximum sums to 1, as one finds by scaling w: the
 *           constraint needs no multiplier (Kim, Carbonetto, Stephens, Anitescu 2020, section 2).
 * Barrier   mu sum_k log w_k is added, and mu lowered in steps. Near the end it decides only between models that
 *           predict alike, which it gives equal weights.
 * Step      w_k (1 + t u_k) with (mean_i a_i a_i^T + mu I) u = mean_i a_i - w + mu: Newton's step in units of w, in which
 *           the matrix is well conditioned although weights go to zero.
 *
 * The EM algorithm for the same maximum needs 1 / (variance of r) steps, too many for models that differ
 * little. */
#include "math/linalg.h"
#include "math/stat/stat.h"
#include <math.h>

static const double BARRIER_FIRST = 1e-2, BARRIER_LAST = 1e-10, BARRIER_FACTOR = 0.1;
static const double GOOD_ENOUGH = 1e-2; /* of the gradient, in units of the barrier */
static const double LEAST_SHARE = 0.05; /* of a weight that stays in one step */
static const double LEAST_GAIN = 1e-4;  /* of what the slope promises */
enum { STEPS = 50, HALVINGS = 30 };

typedef struct {
  atvi_idx n, K;
  double *r;            /* [n][K] */
  double *matrix;       /* [K][K] */
  double *u, *a, *next; /* [K] */
} problem;

size_t atvi_math_stacking_work(atvi_idx n, atvi_idx K) { return (size_t)(n * K + K * K + 3 * K); }

/* One observation's ratios into r[K]; false: it is left out. */
static bool ratios(const problem *p, atvi_idx n, atvi_idx i, const double *elpd, double *r) {
  double top = -HUGE_VAL;
  for (atvi_idx k = 0; k < p->K; k++) {
    if (isnan(elpd[k * n + i])) return false;
    top = fmax(top, elpd[k * n + i]);
  }
  if (!isfinite(top)) return false;
  for (atvi_idx k = 0; k < p->K; k++) r[k] = exp(elpd[k * n + i] - top);
  return true;
}

static double mix(const problem *p, const double *r, const double *w) {
  double sum = 0;
  for (atvi_idx k = 0; k < p->K; k++) sum += w[k] * r[k];
  return sum;
}

static double objective(const problem *p, const double *w, double mu) {
  double f = 0;
  for (atvi_idx i = 0; i < p->n; i++) f += log(mix(p, p->r + i * p->K, w));
  f /= (double)p->n;
  for (atvi_idx k = 0; k < p->K; k++) f += mu * log(w[k]) - w[k];
  return f;
}

/* Matrix and right-hand side of the step, the latter in u; the largest of it in absolute value. */
static double linearise(const problem *p, const double *w, double mu) {
  const atvi_idx K = p->K;
  double most = 0;
  for (atvi_idx k = 0; k < K; k++) {
    p->u[k] = mu - w[k];
    for (atvi_idx l = 0; l < K; l++) p->matrix[k * K + l] = k == l ? mu : 0;
  }
  for (atvi_idx i = 0; i < p->n; i++) {
    const double *r = p->r + i * K;
    double each = 1 / (double)p->n, sum = mix(p, r, w);
    for (atvi_idx k = 0; k < K; k++) {
      p->a[k] = w[k] * r[k] / sum;
      p->u[k] += each * p->a[k];
      for (atvi_idx l = 0; l <= k; l++) p->matrix[k * K + l] += each * p->a[k] * p->a[l];
    }
  }
  for (atvi_idx k = 0; k < K; k++) most = fmax(most, fabs(p->u[k]));
  return most;
}

/* w[K] moves along u; false: it could not. slope: of the objective along u. */
static bool move(const problem *p, double *w, double mu, double slope) {
  double t = 1, before = objective(p, w, mu);
  for (atvi_idx k = 0; k < p->K; k++)
    if (p->u[k] < 0) t = fmin(t, (1 - LEAST_SHARE) / -p->u[k]);
  for (int h = 0; h < HALVINGS; h++, t /= 2) {
    for (atvi_idx k = 0; k < p->K; k++) p->next[k] = w[k] * (1 + t * p->u[k]);
    if (!(objective(p, p->next, mu) >= before + LEAST_GAIN * t * slope)) continue;
    for (atvi_idx k = 0; k < p->K; k++) w[k] = p->next[k];
    return true;
  }
  return false;
}

/* x[K] in place of the right-hand side, from the lower Cholesky factor. */
static void solve(atvi_idx K, const double *factor, double *x) {
  for (atvi_idx k = 0; k < K; k++) {
    for (atvi_idx l = 0; l < k; l++) x[k] -= factor[k * K + l] * x[l];
    x[k] /= factor[k * K + k];
  }
  for (atvi_idx k = K - 1; k >= 0; k--) {
    for (atvi_idx l = k + 1; l < K; l++) x[k] -= factor[l * K + k] * x[l];
    x[k] /= factor[k * K + k];
  }
}

static void maximise(const problem *p, double *w, double mu) {
  for (int s = 0; s < STEPS && linearise(p, w, mu) > GOOD_ENOUGH * mu; s++) {
    double slope = 0;
    for (atvi_idx k = 0; k < p->K; k++) p->a[k] = p->u[k];
    if (!atvi_math_cholesky(p->K, p->matrix)) return;
    solve(p->K, p->matrix, p->u);
    for (atvi_idx k = 0; k < p->K; k++) slope += p->a[k] * p->u[k];
    if (!move(p, w, mu, slope)) return;
  }
}

void atvi_math_stacking(atvi_idx n, atvi_idx K, const double *elpd, double *w, double *work) {
  problem p = {.K = K, .matrix = work, .u = work + K * K};
  p.a = p.u + K;
  p.next = p.a + K;
  p.r = p.next + K;
  for (atvi_idx i = 0; i < n; i++) p.n += ratios(&p, n, i, elpd, p.r + p.n * K);
  for (atvi_idx k = 0; k < K; k++) w[k] = 1 / (double)K;
  for (double mu = BARRIER_FIRST; p.n > 0 && mu > 0.5 * BARRIER_LAST; mu *= BARRIER_FACTOR)
    maximise(&p, w, mu);
  double sum = 0;
  for (atvi_idx k = 0; k < K; k++) sum += w[k];
  for (atvi_idx k = 0; k < K; k++) w[k] /= sum;
}
