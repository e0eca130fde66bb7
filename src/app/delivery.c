/* SPDX-License-Identifier: MIT */
#include "app/delivery.h"
#include "diag/summary.h"
#include "draws/made.h"

enum { PLAIN_LEAST = 4000 }; /* resampled draws: systematic resampling repeats draws, but adds little noise */

/* Equally weighted draws of the posterior, as far as they can be had. */
static atvi_status plain_draws(atvi_delivery *y) {
  y->plain = y->draws;
  if (!y->draws->weight) return ATVI_OK;
  if (!atvi_weights_hold(y->draws)) return atvi_draws_unweighted(y->draws, &y->plain);
  atvi_idx n = (atvi_idx)atvi_weights_ess(y->draws);
  if (n < PLAIN_LEAST) n = PLAIN_LEAST;
  if (n > y->draws->n) n = y->draws->n;
  return atvi_draws_resample(y->draws, n, y->draws->made.seed, &y->plain);
}

enum { SOLVER_POINTS = 8 * ATVI_LANES };

/* Is the solver exact enough where the posterior is? */
static atvi_status check_solver(atvi_ctx *ctx, atvi_pool *pool, atvi_loaded *l, atvi_delivery *y) {
  const atvi_draws *draws = y->plain;
  atvi_idx n = draws->n < SOLVER_POINTS ? draws->n : SOLVER_POINTS, d = draws->n_param;
  double *theta = atvi_pool_take(pool, (size_t)(d * n + 1), sizeof *theta), error;
  if (!theta) return ATVI_FAIL(ctx, ATVI_ENOMEM, "out of memory");
  for (atvi_idx i = 0; i < d; i++)
    for (atvi_idx j = 0; j < n; j++) theta[i * n + j] = draws->x[i * draws->n + j * draws->n / n];
  ATVI_TRY(atvi_app_solver_error(ctx, l, n, theta, &error));
  y->draws->made.log_lik_error = y->plain->made.log_lik_error = error;
  return ATVI_OK;
}

atvi_status atvi_delivery_make(atvi_ctx *ctx, atvi_pool *pool, atvi_loaded *l, atvi_delivery *y) {
  ATVI_TRY(plain_draws(y));
  return check_solver(ctx, pool, l, y);
}

void atvi_delivery_free(atvi_delivery *y) {
  if (y->plain != y->draws) atvi_draws_free(y->plain);
  atvi_draws_free(y->draws);
  *y = (atvi_delivery){0};
}
