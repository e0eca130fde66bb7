/* SPDX-License-Identifier: MIT */
/* One point, one product at a time. */
#include "unit/gp/emulator_ref.h"
#include "gp/emulator_detail.h"
#include "gp/emulator_detail.h"
#include <math.h>

enum { G = ATVI_EM_GROUP };

/* dot of row i of a with column b of x[cols][G]. */
static double row_dot(const atvi_em_packed *a, atvi_idx i, const double *x, int b) {
  double s = 0;
  for (atvi_idx j = 0; j < a->cols; j++) s += atvi_gp_em_packed_get(a, i, j) * x[j * G + b];
  return s;
}

/* The same of column j. */
static double column_dot(const atvi_em_packed *a, atvi_idx j, const double *x, int b) {
  double s = 0;
  for (atvi_idx i = 0; i < a->rows; i++) s += atvi_gp_em_packed_get(a, i, j) * x[i * G + b];
  return s;
}

static double corr(const atvi_emulator *em, const double *x, atvi_idx i, int b) {
  double factor = 1;
  for (atvi_idx j = 0; j < em->d; j++) {
    double u = x[j * G + b] * em->scale[j];
    factor *= atvi_gp_corr_ref(em->kernel, 1, &u, &em->u[i * em->d + j]);
  }
  return factor;
}

/* d log k / d u_j. */
static double slope_of(atvi_em_kernel kind, double u, double v) {
  double s = u - v, a = fabs(s);
  switch (kind) {
  case ATVI_EM_MATERN32: return -s / (1 + a);
  case ATVI_EM_MATERN52: return -s * (1 + a) / (3 + 3 * a + a * a);
  case ATVI_EM_SQUARED: return -2 * s;
  case ATVI_EM_EXPONENTIAL: break;
  }
  return s > 0 ? -1 : s < 0 ? 1 : 0;
}

void em_eval_ref(const atvi_emulator *em, const atvi_em_work *w, const double *x, double *mean,
                 double *share) {
  for (int b = 0; b < G; b++) {
    double sum = 0;
    for (atvi_idx i = 0; i < em->n; i++) w->k[i * G + b] = corr(em, x, i, b);
    for (atvi_idx i = 0; i < em->n; i++) {
      double v = row_dot(&em->root, i, w->k, b);
      sum += v * v;
    }
    share[b] = fmax(0, 1 + em->info.nugget - sum) + em->info.dropped;
    for (atvi_idx j = 0; em->basis && j < em->q; j++) w->coef[j * G + b] = row_dot(&w->w, j, w->k, b);
    for (atvi_idx t = 0; t < w->n_row; t++)
      mean[t * G + b] =
          w->mean[t] + (em->basis ? row_dot(&w->base, t, w->coef, b) : row_dot(&w->w, t, w->k, b));
  }
}

void em_vjp_ref(const atvi_emulator *em, const atvi_em_work *w, const double *x, const double *mean_bar,
                const double *share_bar, double *x_bar) {
  for (int b = 0; b < G; b++) {
    for (atvi_idx j = 0; j < em->d; j++) x_bar[j * G + b] = 0;
    for (atvi_idx i = 0; i < em->n; i++) w->k[i * G + b] = corr(em, x, i, b);
    for (atvi_idx i = 0; i < em->n; i++) w->v[i * G + b] = row_dot(&em->root, i, w->k, b);
    for (atvi_idx j = 0; em->basis && j < em->q; j++)
      w->coef[j * G + b] = column_dot(&w->base, j, mean_bar, b);
    for (atvi_idx i = 0; i < em->n; i++) {
      double k_bar = column_dot(&w->w, i, em->basis ? w->coef : mean_bar, b) -
                     2 * share_bar[b] * column_dot(&em->root, i, w->v, b);
      for (atvi_idx j = 0; j < em->d; j++) {
        double slope = slope_of(em->kernel, x[j * G + b] * em->scale[j], em->u[i * em->d + j]);
        x_bar[j * G + b] += k_bar * w->k[i * G + b] * slope * em->scale[j];
      }
    }
  }
}
