/* SPDX-License-Identifier: MIT */
/* The common cold, fitted with defaults, against its exact posterior, which was computed on a grid with
 * another solver. S0 has its mass on its lower bound. Draws have an effective size of 25 000: a mean has a
 * standard error of 0.006 sd. */
#include "atvi/fit.h"
#include "math/stat/stat.h"
#include "models.h"

enum { Q = 5 };
static const double MEAN[3] = {0.8871, 0.2902, 39.775}, SD[3] = {0.0348, 0.0255, 2.010};
static const double LEVEL[Q] = {0.025, 0.25, 0.5, 0.75, 0.975};
static const double QUANTILE[3][Q] = {{0.8224, 0.8632, 0.8859, 0.9097, 0.9590},
                                      {0.2446, 0.2724, 0.2886, 0.3063, 0.3446},
                                      {37.129, 38.205, 39.402, 40.936, 44.568}};

static double correlation(const atvi_draws *d, int i, int j) {
  const double *x = d->x + i * d->n, *y = d->x + j * d->n;
  double mx = atvi_math_mean(d->n, x, d->weight), my = atvi_math_mean(d->n, y, d->weight), sum = 0;
  for (atvi_idx k = 0; k < d->n; k++) sum += d->weight[k] * (x[k] - mx) * (y[k] - my);
  return sum / (atvi_math_sd(d->n, x, d->weight) * atvi_math_sd(d->n, y, d->weight));
}

/* Quantiles of a sd-and-a-half in the tail have a standard error of 0.02 sd. */
static void check_quantiles(const atvi_draws *d, int j, int seed) {
  size_t n = (size_t)d->n;
  double *xs = malloc(4 * n * sizeof *xs), *ws = xs + n;
  CHECK(xs != NULL);
  memcpy(xs, d->x + j * d->n, n * sizeof *xs);
  memcpy(ws, d->weight, n * sizeof *ws);
  atvi_math_sort(d->n, xs, ws, ws + n);
  for (int q = 0; q < Q; q++) {
    double got = atvi_math_quantile(d->n, xs, ws, LEVEL[q]);
    CHECK_MSG(fabs(got - QUANTILE[j][q]) < 0.06 * SD[j], "seed %d: %g quantile of %d is %.5g, want %.5g",
              seed, LEVEL[q], j, got, QUANTILE[j][q]);
  }
  free(xs);
}

static void check_fit(const atvi_draws *d, int seed) {
  for (int j = 0; j < 3; j++) {
    double mean = atvi_math_mean(d->n, d->x + j * d->n, d->weight),
           sd = atvi_math_sd(d->n, d->x + j * d->n, d->weight);
    CHECK_MSG(fabs(mean - MEAN[j]) < 0.03 * SD[j], "seed %d: mean of %d is %.6g, want %.6g", seed, j, mean,
              MEAN[j]);
    CHECK_MSG(fabs(sd / SD[j] - 1) < 0.03, "seed %d: sd of %d is %.5g, want %.5g", seed, j, sd, SD[j]);
    check_quantiles(d, j, seed);
  }
  CHECK_ABS(correlation(d, 1, 2), 0.53, 0.03);
  CHECK_ABS(correlation(d, 0, 2), -0.32, 0.03);
  CHECK_ABS(d->made->log_evidence, -97.900, 0.02);
  CHECK_MSG(d->made->khat < 0.7, "seed %d: k-hat %.3f, excess %.4f", seed, d->made->khat, d->made->excess);
  CHECK_MSG(d->made->efficiency * (double)d->n > 20000, "seed %d: ESS %.0f of %td", seed,
            d->made->efficiency * (double)d->n, d->n);
  CHECK_INT(d->made->end, ATVI_END_DONE);
  CHECK_MSG(d->made->elbo < d->made->log_evidence + 0.01, "seed %d: ELBO %.4f", seed, d->made->elbo);
}

static void agrees_with_the_grid(const char *map, int seeds) {
  atvi_ctx *ctx = test_ctx();
  atvi_model *m = test_load(ctx, TEST_SOURCE_DIR "/examples/cold/cold.atvi", false);
  for (int seed = 1; seed <= seeds; seed++) {
    atvi_fit_opts o = atvi_fit_defaults();
    atvi_draws *d;
    o.seed = (uint64_t)seed;
    o.map = map;
    atvi_status status = atvi_fit(ctx, atvi_model_target(m), &o, &d);
    CHECK_MSG(status == ATVI_OK, "%s", atvi_errmsg(ctx));
    check_fit(d, seed);
    if (!map) CHECK_ABS(d->made->elbo, -97.900, 0.02); /* q itself is close, not just its weights */
    atvi_draws_free(d);
  }
  atvi_model_free(m);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

static void defaults(void) { agrees_with_the_grid(NULL, 10); }
static void surjection(void) { agrees_with_the_grid("surjection", 3); }

TESTS({"defaults", defaults}, {"surjection", surjection})
