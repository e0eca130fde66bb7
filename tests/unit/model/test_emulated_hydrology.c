/* SPDX-License-Identifier: MIT */
/* The hydrograph of examples/hydrology by dense matrices: log likelihood, and its gradient in all nine
 * parameters without a single difference,
 *
 *   d log L = 1/2 tr((a a' - C^-1) dC) + a' dm,    a = C^-1 (y - m),
 *   C = sill share(theta) c_t + sill_d c_d + nugget I,    m and share: of the emulator.
 *
 * Skipped where the data are missing. */
#include "io/csv.h"
#include "math/linalg.h"
#include "model/evaluator.h"
#include "model/model.h"
#include "models.h"
#include <unistd.h>

enum { N = 400, D = 5, M = 480, P = 9 };
enum { RANGE = D, SILL_D, NUGGET, SILL };

/* Reference data are not part of the project: $ATVI_DATA, else beside it. */
static const char *folder(void) {
  static char path[4096];
  const char *data = getenv("ATVI_DATA");
  snprintf(path, sizeof path, "%s/hydrology", data ? data : TEST_SOURCE_DIR "/../shared/data");
  return path;
}

/* Columns 2 .. of a file whose first column is a label. */
static void columns(atvi_ctx *ctx, const char *name, atvi_idx rows, atvi_idx cols, double *out) {
  char path[5000];
  atvi_pool *pool;
  atvi_csv *csv;
  snprintf(path, sizeof path, "%s/%s", folder(), name);
  CHECK_OK(atvi_pool_new(ctx, &pool));
  CHECK_OK(atvi_io_csv_read(pool, path, &csv));
  CHECK(csv->n_row == rows && csv->n_col == cols + 1);
  for (atvi_idx i = 0; i < rows; i++)
    for (atvi_idx j = 0; j < cols; j++) out[i * cols + j] = csv->value[i * csv->n_col + j + 1];
  atvi_pool_free(pool);
}

/* Everything of the runs, read once. */
static struct {
  double x[N * D], y[N * M], mean[M], value[M], known[9]; /* known: lengths, nugget, range in time, -, sill */
  double factor[N * N];
} of;

static bool read_all(atvi_ctx *ctx) {
  if (access(folder(), R_OK) != 0) {
    printf("SKIP: no %s\n", folder());
    return false;
  }
  columns(ctx, "param_par_rescale.csv", N, D, of.x);
  columns(ctx, "mat_Y_em.csv", N, M, of.y);
  columns(ctx, "mat_Y_mean.csv", M, 1, of.mean);
  columns(ctx, "obs0.csv", M, 1, of.value);
  columns(ctx, "mle_est.csv", 9, 1, of.known);
  for (int i = 0; i < N; i++)
    for (int j = 0; j < N; j++) {
      double s = 0;
      for (int k = 0; k < D; k++) s += fabs(of.x[i * D + k] - of.x[j * D + k]) / of.known[k];
      of.factor[i * N + j] = exp(-s) + (i == j ? of.known[5] : 0);
    }
  CHECK(atvi_math_cholesky(N, of.factor));
  return true;
}

/* x = A^-1 b, A = L L'. */
static void solve(int n, const double *l, const double *b, double *x) {
  for (int i = 0; i < n; i++) {
    x[i] = b[i];
    for (int k = 0; k < i; k++) x[i] -= l[i * n + k] * x[k];
    x[i] /= l[i * n + i];
  }
  for (int i = n - 1; i >= 0; i--) {
    for (int k = i + 1; k < n; k++) x[i] -= l[k * n + i] * x[k];
    x[i] /= l[i * n + i];
  }
}

/* m[M] and share at theta, with their derivatives by theta. */
static double emulate(const double *theta, double *m, double (*m_by)[M], double *share_by) {
  double k[N], z[N], dk[N], dz[N], share = 1 + of.known[5];
  for (int i = 0; i < N; i++) {
    double s = 0;
    for (int j = 0; j < D; j++) s += fabs(theta[j] - of.x[i * D + j]) / of.known[j];
    k[i] = exp(-s);
  }
  solve(N, of.factor, k, z);
  for (int t = 0; t < M; t++) {
    m[t] = of.mean[t];
    for (int i = 0; i < N; i++) m[t] += z[i] * of.y[i * M + t];
  }
  for (int i = 0; i < N; i++) share -= k[i] * z[i];
  for (int j = 0; j < D; j++) {
    for (int i = 0; i < N; i++) dk[i] = (theta[j] > of.x[i * D + j] ? -1 : 1) / of.known[j] * k[i];
    solve(N, of.factor, dk, dz);
    share_by[j] = 0;
    for (int i = 0; i < N; i++) share_by[j] -= 2 * dk[i] * z[i];
    for (int t = 0; t < M; t++) {
      m_by[j][t] = 0;
      for (int i = 0; i < N; i++) m_by[j][t] += dz[i] * of.y[i * M + t];
    }
  }
  return share;
}

static double dense(const double *theta, double *grad) {
  static double C[M * M], inverse[M * M], m_by[D][M];
  double m[M], r[M], a[M], unit[M] = {0}, share_by[D], share = emulate(theta, m, m_by, share_by);
  double own = theta[SILL] * share, by_own = 0, sum = M * log(2 * acos(-1));
  for (int s = 0; s < M; s++) {
    r[s] = of.value[s] - m[s];
    for (int t = 0; t < M; t++)
      C[s * M + t] = own * exp(-abs(s - t) / of.known[6]) + theta[SILL_D] * exp(-abs(s - t) / theta[RANGE]) +
                     (s == t ? theta[NUGGET] : 0);
  }
  CHECK(atvi_math_cholesky(M, C));
  solve(M, C, r, a);
  for (int t = 0; t < M; t++) {
    sum += r[t] * a[t] + 2 * log(C[t * M + t]);
    unit[t] = 1;
    solve(M, C, unit, inverse + t * M);
    unit[t] = 0;
  }
  for (int i = 0; i < P; i++) grad[i] = 0;
  for (int s = 0; s < M; s++)
    for (int t = 0; t < M; t++) {
      double half = 0.5 * (a[s] * a[t] - inverse[s * M + t]), h = abs(s - t);
      by_own += half * exp(-h / of.known[6]);
      grad[SILL_D] += half * exp(-h / theta[RANGE]);
      grad[RANGE] += half * theta[SILL_D] * exp(-h / theta[RANGE]) * h / (theta[RANGE] * theta[RANGE]);
      if (s == t) grad[NUGGET] += half;
    }
  grad[SILL] = by_own * share;
  for (int j = 0; j < D; j++) {
    grad[j] = by_own * theta[SILL] * share_by[j];
    for (int t = 0; t < M; t++) grad[j] += a[t] * m_by[j][t];
  }
  return -0.5 * sum;
}

/* Near the main mode, near the one with 2.3 % of the mass, and where nothing fits. */
static const double POINT[3][P] = {
    {0.557, 0.868, 0.3669, 0.9024, 0.9425, 243.1, 6546, 10.61, 3.75e7},
    {0.557, 0.868, 0.1912, 0.9024, 0.3871, 243.1, 6546, 10.61, 3.75e7},
    {0.031, 0.97, 0.71, 0.083, 0.12, 7.19, 2385, 419, 2.3e7},
};

static void likelihood_and_gradient_are_the_dense_ones(void) {
  atvi_ctx *ctx = test_ctx();
  atvi_model *m;
  if (!read_all(ctx)) {
    atvi_ctx_free(ctx);
    return;
  }
  CHECK_OK(atvi_model_load_with(
      ctx, TEST_SOURCE_DIR "/examples/hydrology/hydrology.atvi",
      &(atvi_model_load_opts){.interpret = true, .folder = folder(), .runs = test_dir}, &m));
  const atvi_target *t = atvi_model_target(m);
  CHECK_INT(t->d, P);
  CHECK_STR(t->param[RANGE].name, "range");
  CHECK_STR(t->param[SILL].name, "sill");
  for (int k = 0; k < 3; k++) {
    double want[P], ll = dense(POINT[k], want), most = 0;
    test_value v = test_eval(ctx, t, POINT[k]);
    CHECK_INT(v.outcome, ATVI_RUN_OK);
    CHECK_REL(v.ll, ll, 1e-8);
    for (int i = 0; i < P; i++) most = fmax(most, fabs(want[i] * POINT[k][i])); /* by logs: of one size */
    for (int i = 0; i < P; i++) {
      CHECK_REL(v.gl[i], want[i], 1e-6);
      CHECK(fabs(v.gl[i] - want[i]) * POINT[k][i] <= 1e-8 * most);
    }
  }
  atvi_model_free(m);
  atvi_ctx_free(ctx);
}

TESTS({"dense", likelihood_and_gradient_are_the_dense_ones})
