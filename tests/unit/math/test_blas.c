/* SPDX-License-Identifier: MIT */
/* Against plain loops, with rows further apart than they are long. */
#include "math/linalg.h"
#include "math/rng.h"
#include "testing.h"

enum { N = 37, M = 23, K = 31, LD = 41 };
#define TOL 1e-12 /* sums of some 40 products of order 1 */

static void fill(uint32_t number, double *a) {
  atvi_rng r = atvi_math_rng_at(17, ATVI_STREAM_TEST, number, 0);
  for (int i = 0; i < LD * LD; i++) a[i] = atvi_math_rng_normal(&r);
}

/* Symmetric and well conditioned; the upper triangle is something else. */
static void fill_spd(double *a) {
  static double g[LD * LD];
  fill(9, g);
  fill(10, a);
  for (int i = 0; i < N; i++)
    for (int j = 0; j <= i; j++) {
      a[i * LD + j] = i == j ? 2.3 : 0;
      for (int k = 0; k < N; k++) a[i * LD + j] += g[i * LD + k] * g[j * LD + k] / N;
    }
}

static double lower(const double *a, int i, int j) { return i >= j ? a[i * LD + j] : a[j * LD + i]; }

static double a[LD * LD], b[LD * LD], c[LD * LD], d[LD * LD];

static void begin(void) {
  atvi_ctx *ctx = test_ctx();
  CHECK_OK(atvi_math_blas_begin(ctx));
  CHECK_OK(atvi_math_blas_begin(ctx));
  atvi_ctx_free(ctx);
}

static void factors_and_inverts(void) {
  begin();
  fill_spd(a);
  memcpy(b, a, sizeof a);
  CHECK(atvi_math_blas_cholesky(N, b, LD));
  for (int i = 0; i < N; i++)
    for (int j = 0; j < N; j++) {
      double s = 0;
      for (int k = 0; k <= (i < j ? i : j); k++) s += b[i * LD + k] * b[j * LD + k];
      if (j <= i) CHECK_ABS(s, a[i * LD + j], TOL);
      if (j > i) CHECK(b[i * LD + j] == a[i * LD + j]);
    }
  memcpy(c, b, sizeof b);
  memcpy(d, b, sizeof b);
  atvi_math_blas_inverse(N, c, LD);
  atvi_math_blas_tri_inverse(N, d, LD);
  for (int i = 0; i < N; i++)
    for (int j = 0; j < N; j++) {
      double s = 0, t = 0;
      for (int k = 0; k < N; k++) s += lower(a, i, k) * lower(c, k, j);
      for (int k = j; k <= i; k++) t += b[i * LD + k] * d[k * LD + j];
      CHECK_ABS(s, i == j, 10 * TOL);
      CHECK_ABS(t, i == j, 10 * TOL);
    }
}

static void refuses_what_is_not_positive_definite(void) {
  begin();
  double bad[4] = {1.3, 0, 2.1, 3.3}, nan[1] = {NAN}, zero[4] = {1, 1, 1, 1};
  CHECK(!atvi_math_blas_cholesky(2, bad, 2));
  CHECK(!atvi_math_blas_cholesky(1, nan, 1));
  CHECK(!atvi_math_blas_cholesky(2, zero, 2));
}

static void solves(void) {
  begin();
  fill_spd(a);
  CHECK(atvi_math_blas_cholesky(N, a, LD));
  for (int transposed = 0; transposed <= 1; transposed++) {
    fill(2, b);
    memcpy(c, b, sizeof b);
    atvi_math_blas_tri_solve(N, M, a, LD, transposed, b, LD);
    for (int i = 0; i < N; i++)
      for (int j = 0; j < M; j++) {
        double s = 0;
        for (int k = 0; k < N; k++) {
          double l = transposed ? (k >= i ? a[k * LD + i] : 0) : (k <= i ? a[i * LD + k] : 0);
          s += l * b[k * LD + j];
        }
        CHECK_ABS(s, c[i * LD + j], 10 * TOL);
      }
  }
}

static void multiplies(void) {
  begin();
  for (int form = 0; form < 2; form++) {
    double beta = form == 1 ? 0 : -0.7;
    fill(3, a);
    fill(4, b);
    fill(5, c);
    memcpy(d, c, sizeof c);
    if (form == 1) c[3] = NAN; /* not read */
    if (form == 0) atvi_math_blas_mul(N, M, K, a, LD, b, LD, beta, c, LD);
    if (form == 1) atvi_math_blas_mul_bt(N, M, K, a, LD, b, LD, beta, c, LD);
    for (int i = 0; i < N; i++)
      for (int j = 0; j < M; j++) {
        double s = beta * d[i * LD + j];
        for (int k = 0; k < K; k++) s += a[i * LD + k] * (form == 1 ? b[j * LD + k] : b[k * LD + j]);
        CHECK_ABS(c[i * LD + j], s, 10 * TOL);
      }
  }
}

static void symmetric_products(void) {
  begin();
  fill(3, a);
  fill(5, c);
  memcpy(d, c, sizeof c);
  atvi_math_blas_square(N, K, 1.7, a, LD, 0.3, c, LD);
  for (int i = 0; i < N; i++)
    for (int j = 0; j < N; j++) {
      double s = 0.3 * d[i * LD + j];
      for (int k = 0; k < K; k++) s += 1.7 * a[i * LD + k] * a[j * LD + k];
      CHECK_ABS(c[i * LD + j], j <= i ? s : d[i * LD + j], 10 * TOL);
    }
  fill_spd(a);
  fill(6, b);
  atvi_math_blas_sym_mul(N, M, a, LD, b, LD, c, LD);
  for (int i = 0; i < N; i++)
    for (int j = 0; j < M; j++) {
      double s = 0;
      for (int k = 0; k < N; k++) s += lower(a, i, k) * b[k * LD + j];
      CHECK_ABS(c[i * LD + j], s, 10 * TOL);
    }
  atvi_math_blas_mirror(N, a, LD);
  for (int i = 0; i < N; i++)
    for (int j = 0; j < i; j++) CHECK(a[j * LD + i] == a[i * LD + j]);
}

static void finds_eigenvectors(void) {
  begin();
  static double packed[N * N], w[N];
  double *work = malloc(atvi_math_blas_eigen_work(N) * sizeof *work);
  fill_spd(a);
  for (int i = 0; i < N; i++)
    for (int j = 0; j < N; j++) packed[i * N + j] = lower(a, i, j);
  CHECK(atvi_math_blas_eigen(N, packed, w, work));
  for (int r = 0; r < N; r++) {
    const double *v = packed + r * N;
    double norm = 0;
    if (r > 0) CHECK(w[r] >= w[r - 1]);
    for (int i = 0; i < N; i++) {
      double s = 0;
      for (int j = 0; j < N; j++) s += lower(a, i, j) * v[j];
      CHECK_ABS(s, w[r] * v[i], 10 * TOL);
      norm += v[i] * v[i];
    }
    CHECK_ABS(norm, 1, TOL);
  }
  free(work);
}

typedef struct {
  double out[64][N * N];
} results;

static void one_product(void *arg, atvi_idx item, int worker) {
  (void)worker;
  double *out = ((results *)arg)->out[item];
  for (int again = 0; again < 50; again++) atvi_math_blas_mul_bt(N, N, K, a, LD, b, LD, 0, out, N);
}

/* Many threads at once: what some builds of the library get wrong now and then. */
static void threads_do_not_meet(void) {
  static results r;
  atvi_ctx *ctx = test_ctx();
  CHECK_OK(atvi_math_blas_begin(ctx));
  fill(3, a);
  fill(4, b);
  atvi_ctx_set_threads(ctx, 8);
  atvi_parallel(ctx, 64, one_product, &r);
  for (int i = 1; i < 64; i++) CHECK(memcmp(r.out[0], r.out[i], sizeof r.out[0]) == 0);
  atvi_ctx_free(ctx);
}

TESTS({"factor", factors_and_inverts}, {"refuse", refuses_what_is_not_positive_definite}, {"solve", solves},
      {"multiply", multiplies}, {"symmetric", symmetric_products}, {"eigen", finds_eigenvectors},
      {"threads", threads_do_not_meet})
