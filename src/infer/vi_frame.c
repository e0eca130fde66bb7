/* SPDX-License-Identifier: MIT */
/* The frame follows q up the ladder. A posterior may be a million times narrower than its prior, and steps that suit
 * a flow of unit size would take thousands to shrink it that far, coordinate by coordinate, or to turn it into a narrow ridge. A
 * normal approximation of the draws at hand, weighted to the next temperature, does it at once. */
#include "infer/vi_state.h"
#include "math/linalg.h"
#include "math/special.h"
#include <math.h>
#include <string.h>

#define NARROW 0.1    /* conditional standard deviation in the frame at which it is time for another */
#define INFLATE 1.15  /* the new frame is wider than the draws: too wide is easier to mend than too narrow */
enum { PER_DIM = 6 }; /* draws per dimension that a covariance needs; below, variances only */

/* y = chol^-1 (x - shift), in place. */
static void to_frame(const atvi_member *m, atvi_idx d, double *x) {
  for (atvi_idx i = 0; i < d; i++) {
    x[i] -= m->shift[i];
    for (atvi_idx k = 0; k < i; k++) x[i] -= m->chol[i * d + k] * x[k];
    x[i] /= m->chol[i * d + i];
  }
}

/* weight[n], sums to one, of going up by step; returns the effective size. */
static double weights(const atvi_cloud *c, atvi_idx n, double step, double *weight) {
  for (atvi_idx j = 0; j < n; j++)
    weight[j] = isfinite(c->log_pi[j]) ? step * (c->log_pi[j] - c->log_base[j]) : -HUGE_VAL;
  atvi_softmax(n, weight, weight);
  return atvi_effective_size(n, weight);
}

/* Mean and covariance of the draws in the frame. */
static void moments(const atvi_vi *v, const atvi_member *m, atvi_idx n, const double *weight, double *mean,
                    double *cov, double *y) {
  atvi_idx d = v->d;
  for (int pass = 0; pass < 2; pass++) {
    for (atvi_idx j = 0; j < n; j++) {
      for (atvi_idx i = 0; i < d; i++) y[i] = v->look.x[i * v->look.cap + j];
      to_frame(m, d, y);
      for (atvi_idx i = 0; i < d; i++) {
        if (pass == 0) mean[i] += weight[j] * y[i];
        for (atvi_idx k = 0; k <= i && pass == 1; k++)
          cov[i * d + k] += weight[j] * (y[i] - mean[i]) * (y[k] - mean[k]);
      }
    }
  }
}

bool atvi_vi_reframe(atvi_vi *v, atvi_member *m, atvi_idx n, double step, bool always) {
  atvi_idx d = v->d;
  double ess = weights(&v->look, n, step, v->weight), narrow = HUGE_VAL;
  double *mean = v->frame, *y = mean + d, *chol = y + d;
  if (!(ess > PER_DIM)) return false;
  memset(v->frame, 0, (size_t)(d * (d + 2)) * sizeof *v->frame);
  moments(v, m, n, v->weight, mean, chol, y);
  for (atvi_idx i = 0; i < d; i++)
    for (atvi_idx k = 0; k < i && ess < (double)(PER_DIM * d); k++) chol[i * d + k] = 0;
  if (!atvi_cholesky(d, chol)) return false;
  for (atvi_idx i = 0; i < d; i++) narrow = fmin(narrow, chol[i * d + i]);
  if (!(narrow < NARROW) && !always) return false;
  /* shift += chol_old mean; chol_new = chol_old chol, from the last row up and the last column on, in place */
  for (atvi_idx i = d - 1; i >= 0; i--) {
    for (atvi_idx k = 0; k <= i; k++) m->shift[i] += m->chol[i * d + k] * mean[k];
    for (atvi_idx k = 0; k <= i; k++) {
      double sum = 0;
      for (atvi_idx l = k; l <= i; l++) sum += m->chol[i * d + l] * chol[l * d + k];
      y[k] = INFLATE * sum;
    }
    memcpy(m->chol + i * d, y, (size_t)(i + 1) * sizeof *y);
  }
  m->whole = true;
  m->log_det = 0;
  for (atvi_idx i = 0; i < d; i++) m->log_det += log(fabs(m->chol[i * d + i]));
  v->family.ops->init(v->family.self, m->phi);
  return true;
}
