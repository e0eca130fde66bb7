/* SPDX-License-Identifier: MIT */
#include "gp/kernel.h"
#include <math.h>

double atvi_gp_scale(atvi_em_kernel kind, double length) {
  switch (kind) {
  case ATVI_EM_MATERN32: return sqrt(3.0) / length;
  case ATVI_EM_MATERN52: return sqrt(5.0) / length;
  case ATVI_EM_SQUARED: return sqrt(0.5) / length;
  case ATVI_EM_EXPONENTIAL: break;
  }
  return 1 / length;
}

const atvi_gp_table *atvi_gp_best(void) {
#ifdef ATVI_HAVE_X86_ISA
  if (atvi_isa_best() == ATVI_ISA_AVX512) return &atvi_gp_table_avx512;
  if (atvi_isa_best() == ATVI_ISA_AVX2) return &atvi_gp_table_avx2;
#endif
  return &atvi_gp_table_base;
}

double atvi_gp_corr_ref(atvi_em_kernel kind, atvi_idx d, const double *u, const double *v) {
  double factor = 1, sum = 0;
  for (atvi_idx j = 0; j < d; j++) {
    double a = fabs(u[j] - v[j]);
    sum += kind == ATVI_EM_SQUARED ? a * a : a;
    if (kind == ATVI_EM_MATERN32) factor *= 1 + a;
    if (kind == ATVI_EM_MATERN52) factor *= 1 + a + a * a / 3;
  }
  return factor * exp(-sum);
}
