/* SPDX-License-Identifier: MIT */
/* What the runs leave open of the output at several points together, and which runs it rests on.
 *
 * With v = L^-1 k(x), K = L L', the covariance of x and x' given the runs is k(x, x') + g [x = x'] - v(x)'
 * v(x'), and the mean at x is a sum over runs with the weights K^-1 k(x) = L'^-1 v. Their squares, as
 * shares, tell which runs the prediction is made of: neighbours screen what is behind them, however long
 * the correlation.
 *
 * To a simulator without noise a nugget stands for what changes within less than the distance between
 * runs, and so it is taken here: g [x = x'] is smoothed over that distance, near the points. So is what a
 * basis drops. */
#include "gp/emulator_detail.h"
#include "math/linalg.h"
#include <math.h>
#include <string.h>

enum { G = ATVI_EM_GROUP };
/* Runs whose nearest neighbours are looked for. */
enum { SPACED = 1000 };
/* The nugget at a point is correlated with that at another one by exp(-FINE r^2): 0.05 at the distance r =
 * 1 between neighbouring runs. */
static const double FINE = 3;

typedef struct {
  const atvi_emulator *em;
  atvi_idx B;
  const double *x, *weight;
  /* [B][n] */
  double *v;
  /* [n][G] */
  double *by_run;
  double *near;
} joint;

/* The shares of the runs in the predictions of a group, of which `some` points are real. */
static void count_runs(const joint *a, atvi_em_work *w, atvi_idx first, atvi_idx some) {
  const atvi_emulator *em = a->em;
  atvi_gp_em_packed_mul_t(em->table, &em->root, w->cols, w->v, false, a->by_run, w->spill);
  for (atvi_idx b = 0; b < some; b++) {
    double sum = 0;
    for (atvi_idx i = 0; i < em->n; i++) sum += a->by_run[i * G + b] * a->by_run[i * G + b];
    for (atvi_idx i = 0; sum > 0 && i < em->n; i++)
      a->near[i] += a->weight[first + b] * a->by_run[i * G + b] * a->by_run[i * G + b] / sum;
  }
}

static void walk(const joint *a, atvi_em_work *w, double *x) {
  const atvi_emulator *em = a->em;
  _Alignas(ATVI_ALIGN) double mean[G];
  double share[G];
  memset(a->near, 0, (size_t)em->n * sizeof *a->near);
  for (atvi_idx first = 0; first < a->B; first += G) {
    atvi_idx some = a->B - first < G ? a->B - first : G;
    for (atvi_idx j = 0; j < em->d; j++)
      for (atvi_idx b = 0; b < G; b++) x[j * G + b] = a->x[j * a->B + first + (b < some ? b : 0)];
    atvi_gp_em_eval(em, w, x, mean, share);
    for (atvi_idx b = 0; b < some; b++)
      for (atvi_idx i = 0; i < em->n; i++) a->v[(first + b) * em->n + i] = w->v[i * G + b];
    count_runs(a, w, first, some);
  }
}

static double distance2(const double *a, const double *b, atvi_idx d) {
  double sum = 0;
  for (atvi_idx j = 0; j < d; j++) sum += (a[j] - b[j]) * (a[j] - b[j]);
  return sum;
}

/* Mean square of the distance to the nearest other run, over the runs that predictions are made of. */
static double spacing2(const joint *a) {
  const atvi_emulator *em = a->em;
  atvi_idx n = em->n, step = 1 + n / SPACED;
  double sum = 0, all = 0;
  for (atvi_idx i = 0; i < n; i += step) {
    double least = HUGE_VAL;
    for (atvi_idx k = 0; k < n; k++)
      if (k != i) least = fmin(least, distance2(em->u + i * em->d, em->u + k * em->d, em->d));
    sum += a->near[i] * least, all += a->near[i];
  }
  return all > 0 ? sum / all : 0;
}

/* Lower triangle of cov[B][B], before the runs; u[B][d]. */
static void prior(const joint *a, double *u, double *cov) {
  const atvi_emulator *em = a->em;
  atvi_idx B = a->B, d = em->d;
  double fine = spacing2(a);
  for (atvi_idx b = 0; b < B; b++)
    for (atvi_idx j = 0; j < d; j++) u[b * d + j] = a->x[j * B + b] * em->scale[j];
  for (atvi_idx b = 0; b < B; b++)
    for (atvi_idx c = 0; c <= b; c++) {
      double r2 = distance2(u + b * d, u + c * d, d), near = r2 > 0 ? exp(-FINE * r2 / fine) : 1;
      cov[b * B + c] =
          atvi_gp_corr_ref(em->kernel, d, u + b * d, u + c * d) + (em->info.nugget + em->info.dropped) * near;
    }
}

atvi_status atvi_gp_emulator_joint(atvi_ctx *ctx, const atvi_emulator *em, atvi_idx B, const double *x,
                                   const double *weight, double *cov, double *near) {
  const atvi_idx row = 0, n = em->n, d = em->d;
  if (B < 1 || !x || !weight || !cov || !near)
    return ATVI_FAIL(ctx, ATVI_EINVAL, "emulator: the covariance of %td points", B);
  atvi_em_work *w;
  ATVI_TRY(atvi_math_blas_begin(ctx));
  ATVI_TRY(atvi_gp_em_work_new(em, ctx, 1, &row, &w));
  double *room = atvi_block(ctx, (size_t)((n + d) * G + B * (n + d)) * sizeof *room);
  if (!room) {
    atvi_gp_em_work_free(w);
    return ATVI_ENOMEM;
  }
  joint a = {em, B, x, weight, .by_run = room, .v = room + (n + d) * G, .near = near};
  walk(&a, w, room + n * G);
  prior(&a, a.v + B * n, cov);
  atvi_math_blas_square(B, n, -1, a.v, n, 1, cov, B);
  atvi_math_blas_mirror(B, cov, B);
  for (atvi_idx b = 0; b < B; b++) cov[b * B + b] = fmax(em->info.dropped, cov[b * B + b]);
  atvi_block_free(ctx, room);
  atvi_gp_em_work_free(w);
  return ATVI_OK;
}
