/* SPDX-License-Identifier: MIT */
#include "math/linalg.h"
#include "math/rng.h"
#include "testing.h"

enum { N = 9 };
#define TOL 1e-12 /* some hundred roundings of numbers of order 10 */

/* a = G G^T + N/10 I with G normal: well conditioned. */
static void random_spd(uint32_t seed, double *a) {
  double g[N * N];
  atvi_rng r = atvi_math_rng_at(seed, ATVI_STREAM_TEST, 0, 0);
  for (int i = 0; i < N * N; i++) g[i] = atvi_math_rng_normal(&r);
  for (int i = 0; i < N; i++)
    for (int j = 0; j < N; j++) {
      a[i * N + j] = i == j ? 0.1 * N : 0;
      for (int k = 0; k < N; k++) a[i * N + j] += g[i * N + k] * g[j * N + k];
    }
}

static void check_factor(const double *L, const double *a) {
  for (int i = 0; i < N; i++)
    for (int j = 0; j <= i; j++) {
      double s = 0;
      for (int k = 0; k <= j; k++) s += L[i * N + k] * L[j * N + k];
      CHECK_ABS(s, a[i * N + j], TOL * 10);
    }
}

static void cholesky_factors(void) {
  double a[N * N], L[N * N];
  random_spd(1, a);
  memcpy(L, a, sizeof a);
  CHECK(atvi_math_cholesky(N, L));
  check_factor(L, a);
  double bad[4] = {1.3, 0, 2.1, 3.3};
  CHECK(!atvi_math_cholesky(2, bad)); /* 1.3 * 3.3 < 2.1^2 */
  double nan[1] = {NAN};
  CHECK(!atvi_math_cholesky(1, nan));
}

static void eigenvectors_diagonalise(void) {
  double a[N * N], copy[N * N], w[N], v[N * N];
  random_spd(4, a);
  for (int i = 0; i < N; i++) a[i * N + i] -= 4.0; /* indefinite */
  memcpy(copy, a, sizeof a);
  atvi_math_eigen_sym(N, copy, w, v);
  for (int j = 0; j < N; j++) {
    if (j > 0) CHECK(w[j] >= w[j - 1]);
    for (int i = 0; i < N; i++) {
      double av = 0, vv = 0;
      for (int k = 0; k < N; k++) {
        av += a[i * N + k] * v[k * N + j];
        vv += v[k * N + i] * v[k * N + j];
      }
      CHECK_ABS(av, w[j] * v[i * N + j], 1e-12 * 20);
      CHECK_ABS(vv, i == j, 1e-13);
    }
  }
  /* Hessians of badly scaled parameters: D A D with D = diag(1, 1e-4, 1e-8). The smallest eigenvalue is
   * det / (product of the others) and keeps its digits. */
  double s[9] = {2.0, 0.5e-4, 0.3e-8, 0.5e-4, 1.5e-8, 0.2e-12, 0.3e-8, 0.2e-12, 1.1e-16};
  double w3[3], v3[9];
  atvi_math_eigen_sym(3, s, w3, v3);
  double det = 1e-24 * (2 * (1.5 * 1.1 - 0.04) - 0.5 * (0.5 * 1.1 - 0.06) + 0.3 * (0.1 - 0.45));
  CHECK_REL(w3[0] * w3[1] * w3[2], det, 1e-12);
  double none[1] = {-2.5}, w1[1], v1[1];
  atvi_math_eigen_sym(1, none, w1, v1);
  CHECK(w1[0] == -2.5 && v1[0] == 1);
}

TESTS({"cholesky", cholesky_factors}, {"eigen", eigenvectors_diagonalise})
