/* SPDX-License-Identifier: MIT */
/* Moments of draws in chains, judged by their Monte Carlo errors. */
#ifndef ATVI_TEST_MOMENTS_H
#define ATVI_TEST_MOMENTS_H

#include "atvi/draws.h"
#include "math/stat/stat.h"
#include "toys.h"

typedef struct {
  double mean, sd, mcse, rhat, ess;
} column;

/* ess_mean gives the standard error of the mean; that of the sd, for near-normal margins, from the ESS of the
 * squared deviations. */
static TEST_UNUSED column judge(const atvi_draws *d, atvi_idx j) {
  atvi_idx m = d->n_chain, n = d->n / m;
  double *work = malloc(atvi_math_stat_work(m, n) * sizeof *work);
  const double *x = d->x + j * d->n;
  atvi_convergence v = atvi_math_converge(m, n, x, work);
  column c = {.mean = atvi_math_mean(d->n, x, NULL),
              .sd = atvi_math_sd(d->n, x, NULL),
              .rhat = v.rhat,
              .ess = v.ess_mean};
  c.mcse = c.sd / sqrt(c.ess);
  free(work);
  return c;
}

static TEST_UNUSED double mcse_of_sd(const atvi_draws *d, atvi_idx j) {
  atvi_idx m = d->n_chain, n = d->n / m;
  column c = judge(d, j);
  double *work = malloc(atvi_math_stat_work(m, n) * sizeof *work), *q = malloc((size_t)d->n * sizeof *q);
  for (atvi_idx i = 0; i < d->n; i++) q[i] = pow(d->x[j * d->n + i] - c.mean, 2);
  double se = atvi_math_sd(d->n, q, NULL) / sqrt(atvi_math_converge(m, n, q, work).ess_mean) / (2 * c.sd);
  free(work);
  free(q);
  return se;
}

/* Within four standard errors, which themselves are not larger than an ESS near 1 000 allows. */
static TEST_UNUSED void check_column(const atvi_draws *d, atvi_idx j, double mean, double sd) {
  column c = judge(d, j);
  CHECK(c.mcse < 0.05 * sd);
  CHECK_ABS(c.mean, mean, 4 * c.mcse);
  CHECK_ABS(c.sd, sd, 4 * mcse_of_sd(d, j));
}

static TEST_UNUSED void done_with(atvi_draws *d) {
  atvi_ctx *ctx = d->ctx;
  atvi_draws_free(d);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

#endif
