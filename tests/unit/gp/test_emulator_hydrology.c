/* SPDX-License-Identifier: MIT */
/* 400 runs of a hydrological simulator, 480 hours each, with the estimates that were published with them.
 * Skipped where the data are missing. */
#include "emulator_world.h"
#include "io/csv.h"
#include <unistd.h>

enum { N = 400, D = 5, M = 480 };
/* Reference data are not part of the project: $ATVI_DATA, else beside it. */
static const char *folder(void) {
  static char path[4096];
  const char *data = getenv("ATVI_DATA");
  snprintf(path, sizeof path, "%s/hydrology/", data ? data : TEST_SOURCE_DIR "/../shared/data");
  return path;
}

/* Columns 2 .. of a file whose first column is a label. */
static double *columns(atvi_ctx *ctx, const char *name, atvi_idx rows, atvi_idx cols) {
  char path[5000];
  atvi_pool *pool;
  atvi_csv *csv;
  double *out = malloc((size_t)(rows * cols) * sizeof *out);
  snprintf(path, sizeof path, "%s%s", folder(), name);
  CHECK_OK(atvi_pool_new(ctx, &pool));
  CHECK_OK(atvi_io_csv_read(pool, path, &csv));
  CHECK(csv->n_row == rows && csv->n_col == cols + 1);
  for (atvi_idx i = 0; i < rows; i++)
    for (atvi_idx j = 0; j < cols; j++) out[i * cols + j] = csv->value[i * csv->n_col + j + 1];
  atvi_pool_free(pool);
  return out;
}

typedef struct {
  double *x, *y, *known, zero[M];
  atvi_em_runs runs;
} data;

static bool read_data(atvi_ctx *ctx, data *o) {
  if (access(folder(), R_OK) != 0) {
    printf("SKIP: no %s\n", folder());
    atvi_ctx_free(ctx);
    return false;
  }
  memset(o, 0, sizeof *o);
  o->x = columns(ctx, "param_par_rescale.csv", N, D);
  o->y = columns(ctx, "mat_Y_em.csv", N, M);
  o->known = columns(ctx, "mle_est.csv", 9, 1); /* lengths, nugget, range in time, -, sill */
  o->runs = (atvi_em_runs){.n = N, .d = D, .m = M, .x = o->x, .y = o->y, .mean = o->zero};
  return true;
}

static atvi_em_opts published(const data *o) {
  atvi_em_opts p;
  atvi_gp_em_defaults(&p);
  p.kernel = ATVI_EM_EXPONENTIAL, p.length = o->known;
  p.nugget = o->known[5], p.time_length = o->known[6], p.sill = o->known[8];
  return p;
}

static void free_data(data *o) {
  free(o->x);
  free(o->y);
  free(o->known);
}

static void covariance_is_the_published_one(void) {
  static data o;
  atvi_ctx *ctx = test_ctx();
  if (!read_data(ctx, &o)) return;
  double *c = columns(ctx, "cov_theta_est.csv", N, N);
  for (int i = 0; i < N; i++)
    for (int j = 0; j < N; j++) {
      double k = dense_corr(ATVI_EM_EXPONENTIAL, D, o.known, o.x + i * D, o.x + j * D);
      CHECK_ABS(c[i * N + j], k + (i == j ? o.known[5] : 0), 1e-12);
    }
  free(c);
  free_data(&o);
  atvi_ctx_free(ctx);
}

static void own_estimates_are_better_than_the_published(void) {
  static data o;
  atvi_ctx *ctx = test_ctx();
  if (!read_data(ctx, &o)) return;
  double known;
  atvi_em_opts p = published(&o);
  CHECK_OK(atvi_gp_emulator_log_lik(ctx, &o.runs, &p, &known, NULL));
  CHECK_REL(known, -1543110.869, 1e-9);
  for (int k = ATVI_EM_EXPONENTIAL; k <= ATVI_EM_MATERN52; k += 2) {
    atvi_em_opts own;
    atvi_emulator *em;
    atvi_em_loo loo = {0};
    atvi_gp_em_defaults(&own);
    own.kernel = (atvi_em_kernel)k, own.starts = 2;
    CHECK_OK(atvi_gp_emulator_new(ctx, &o.runs, &own, &em));
    CHECK(atvi_gp_emulator_info(em)->log_lik > known + 50000);
    CHECK_OK(atvi_gp_emulator_loo(ctx, em, &o.runs, &loo));
    CHECK(loo.coverage > 0.93 && loo.coverage < 0.97);
    CHECK(loo.q2 > 0.92);
    atvi_gp_emulator_free(em);
  }
  free_data(&o);
  atvi_ctx_free(ctx);
}

TESTS({"covariance", covariance_is_the_published_one},
      {"estimates", own_estimates_are_better_than_the_published})
