/* SPDX-License-Identifier: MIT */
/* One draw through a flow, in plain scalar C from the formulas as published: masks as conditions, the spline
 * by Durkan's equations 4 and 5, softplus slopes. The oracle of the kernels; shares only the layout of theta
 * with them. */
#ifndef ATVI_TEST_FLOW_REFERENCE_H
#define ATVI_TEST_FLOW_REFERENCE_H

#include "flow/detail.h"
#include <math.h>

enum { REF_MOST = 64 }; /* coordinates, bins, or units */

static inline void ref_shares(int K, double A, const double *raw, double *size) {
  double sum = 0;
  for (int k = 0; k < K; k++) sum += exp(raw[k]);
  for (int k = 0; k < K; k++) size[k] = 2 * A * (0.01 / K + (1 - 0.01) * exp(raw[k]) / sum);
}

/* S(z), and log S'(z) in *l. raw: K widths, K heights, K-1 slopes. */
static inline double ref_spline(int K, double A, const double *raw, double z, double *l) {
  double w[REF_MOST], h[REF_MOST], t[REF_MOST + 1], x = -A, y = -A;
  const double offset = log(expm1(1 - 0.001));
  *l = 0;
  if (!(fabs(z) < A)) return z;
  ref_shares(K, A, raw, w);
  ref_shares(K, A, raw + K, h);
  t[0] = t[K] = 1;
  for (int k = 1; k < K; k++) t[k] = 0.001 + log1p(exp(raw[2 * K + k - 1] + offset));
  int k = 0;
  for (; k < K - 1 && z >= x + w[k]; k++) {
    x += w[k];
    y += h[k];
  }
  double s = h[k] / w[k], q = (z - x) / w[k], r = q * (1 - q), D = s + (t[k + 1] + t[k] - 2 * s) * r;
  *l = log(s * s * (t[k + 1] * q * q + 2 * s * r + t[k] * (1 - q) * (1 - q)) / (D * D));
  return y + h[k] * (s * q * q + t[k] * r) / D;
}

/* Layer k, in place; returns log |det|. */
static inline double ref_layer(const atvi_flow *f, const double *theta, int k, double *v) {
  const atvi_idx d = f->shape.d;
  const int K = f->shape.bins, rows = 3 * K + 1;
  double u[2 * REF_MOST] = {1}, z[REF_MOST], ldj = 0;
  atvi_idx n = 1;
  theta += k * f->per_layer;
  for (atvi_idx i = 0; i < d; i++) {
    double out[3 * REF_MOST + 1], l;
    for (int r = 0; r < rows; r++) {
      out[r] = 0;
      for (atvi_idx j = 0; j < n; j++) out[r] += *theta++ * u[j];
    }
    double *x = v + f->order[k * d + i], a = out[0] / sqrt(1 + out[0] * out[0] / 9);
    z[i] = *x;
    *x = exp(a) * ref_spline(K, f->shape.box, out + 2, z[i], &l) + out[1];
    ldj += a + l;
    u[n++] = z[i];
    for (atvi_idx j = 0; j < f->units[i]; j++) {
      double sum = *theta++;
      for (atvi_idx c = 0; c <= i; c++) sum += *theta++ * z[c];
      u[n++] = tanh(sum);
    }
  }
  return ldj;
}

/* x = f(z); returns log |det|. */
static inline double ref_fwd(const atvi_flow *f, const double *theta, const double *z, double *x) {
  double ldj = 0;
  for (atvi_idx i = 0; i < f->shape.d; i++) x[i] = z[i];
  for (int k = 0; k < f->shape.layers; k++) ldj += ref_layer(f, theta, k, x);
  return ldj;
}

#endif
