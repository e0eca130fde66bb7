/* SPDX-License-Identifier: MIT */
#include "math/linalg.h"
#include "math/rng.h"
#include "testing.h"

enum { N = 9 };
#define TOL 1e-12 /* some hundred roundings of numbers of order 10 */

/* a = G G^T + N/10 I with G normal: well conditioned. */
static void random_spd(uint32_t seed, double *a) {
  double g[N * N];
  atvi_rng r = atvi_rng_at(seed, ATVI_STREAM_TEST, 0, 0);
  for (int i = 0; i < N * N; i++) g[i] = atvi_rng_normal(&r);
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

static void cholesky_factors_and_solves(void) {
  double a[N * N], L[N * N], x[N], b[N], y[N];
  random_spd(1, a);
  memcpy(L, a, sizeof a);
  CHECK(atvi_cholesky(N, L));
  check_factor(L, a);
  for (int i = 0; i < N; i++) {
    x[i] = 0.37 * i - 1.21;
    b[i] = 0;
  }
  for (int i = 0; i < N; i++)
    for (int j = 0; j < N; j++) b[i] += a[i * N + j] * x[j];
  atvi_chol_solve(N, L, b);
  for (int i = 0; i < N; i++) CHECK_ABS(b[i], x[i], 1e-11);
  atvi_tri_mul(N, L, x, y);
  for (int i = 0; i < N; i++) {
    double s = 0;
    for (int k = 0; k <= i; k++) s += L[i * N + k] * x[k];
    CHECK_ABS(y[i], s, TOL);
  }
  atvi_tri_mul(N, L, x, x); /* in place */
  for (int i = 0; i < N; i++) CHECK(x[i] == y[i]);
  double bad[4] = {1.3, 0, 2.1, 3.3};
  CHECK(!atvi_cholesky(2, bad)); /* 1.3 * 3.3 < 2.1^2 */
  double nan[1] = {NAN};
  CHECK(!atvi_cholesky(1, nan));
}

static void updates_match_refactoring(void) {
  double a[N * N], L[N * N], v[N], spoil[N], work[N * N + N];
  atvi_rng r = atvi_rng_at(9, ATVI_STREAM_TEST, 0, 0);
  random_spd(2, a);
  memcpy(L, a, sizeof a);
  CHECK(atvi_cholesky(N, L));
  for (int round = 0; round < 200; round++) { /* up and down again; errors must not build up */
    double sign = round % 2 ? -1 : 1;
    if (round % 2 == 0)
      for (int i = 0; i < N; i++) v[i] = 3.0 * atvi_rng_normal(&r);
    memcpy(spoil, v, sizeof v);
    CHECK(atvi_cholesky_update(N, L, spoil, sign, work));
    for (int i = 0; i < N; i++)
      for (int j = 0; j < N; j++) a[i * N + j] += sign * v[i] * v[j];
    for (int i = 0; i < N; i++) CHECK(L[i * N + i] > 0);
  }
  check_factor(L, a);
}

static void impossible_downdate_leaves_factor(void) {
  double a[N * N], L[N * N], before[N * N], v[N], work[N * N + N];
  random_spd(3, a);
  memcpy(L, a, sizeof a);
  CHECK(atvi_cholesky(N, L));
  memcpy(before, L, sizeof L);
  for (int i = 0; i < N; i++) v[i] = 1.01 * L[i * N]; /* 1.01 L e_1: too long by 1 % */
  CHECK(!atvi_cholesky_update(N, L, v, -1, work));
  CHECK(memcmp(L, before, sizeof L) == 0);
  for (int i = 0; i < N; i++) v[i] = 0.99 * L[i * N];
  CHECK(atvi_cholesky_update(N, L, v, -1, work));
  CHECK_REL(L[0], before[0] * sqrt(1 - 0.99 * 0.99), 1e-12);
  memcpy(before, L, sizeof L);
  v[4] = NAN;
  CHECK(!atvi_cholesky_update(N, L, v, 1, work));
  CHECK(memcmp(L, before, sizeof L) == 0);
}

static void eigenvectors_diagonalise(void) {
  double a[N * N], copy[N * N], w[N], v[N * N];
  random_spd(4, a);
  for (int i = 0; i < N; i++) a[i * N + i] -= 4.0; /* indefinite */
  memcpy(copy, a, sizeof a);
  atvi_eigen_sym(N, copy, w, v);
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
  atvi_eigen_sym(3, s, w3, v3);
  double det = 1e-24 * (2 * (1.5 * 1.1 - 0.04) - 0.5 * (0.5 * 1.1 - 0.06) + 0.3 * (0.1 - 0.45));
  CHECK_REL(w3[0] * w3[1] * w3[2], det, 1e-12);
  double none[1] = {-2.5}, w1[1], v1[1];
  atvi_eigen_sym(1, none, w1, v1);
  CHECK(w1[0] == -2.5 && v1[0] == 1);
}

static void lu_solves_both_ways(void) {
  double a[N * N], lu[N * N], x[N], b[N] = {0}, t[N] = {0};
  int piv[N];
  atvi_rng r = atvi_rng_at(5, ATVI_STREAM_TEST, 0, 0);
  for (int i = 0; i < N * N; i++) a[i] = atvi_rng_normal(&r);
  a[0] = 0; /* needs a pivot */
  for (int i = 0; i < N; i++) x[i] = 1.93 - 0.41 * i;
  for (int i = 0; i < N; i++)
    for (int j = 0; j < N; j++) {
      b[i] += a[i * N + j] * x[j];
      t[j] += a[i * N + j] * x[i];
    }
  memcpy(lu, a, sizeof a);
  CHECK(atvi_lu(N, lu, piv));
  atvi_lu_solve(N, lu, piv, b);
  atvi_lu_solve_t(N, lu, piv, t);
  for (int i = 0; i < N; i++) {
    CHECK_ABS(b[i], x[i], 1e-12);
    CHECK_ABS(t[i], x[i], 1e-12);
  }
  double singular[4] = {1.5, 3.0, 0.5, 1.0}, nan[1] = {NAN};
  CHECK(!atvi_lu(2, singular, piv));
  CHECK(!atvi_lu(1, nan, piv));
}

TESTS({"cholesky", cholesky_factors_and_solves}, {"update", updates_match_refactoring},
      {"downdate", impossible_downdate_leaves_factor}, {"eigen", eigenvectors_diagonalise},
      {"lu", lu_solves_both_ways})
