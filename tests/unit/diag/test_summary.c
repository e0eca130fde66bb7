/* SPDX-License-Identifier: MIT */
#include "diag/summary.h"
#include "testing.h"
#include "world.h"

/* Four independent normal chains: everything known within Monte Carlo error. */
static void numbers_of_normal_chains(void) {
  world w = world_new(4, 5000, false);
  atvi_summary *s = world_summary(&w);
  const atvi_summary_column *c = &s->col[0]; /* mean 2.385, sd 0.731 */
  const double se = 0.731 / sqrt(20000.0);
  CHECK_ABS(c->mean, 2.385, 4 * se);
  CHECK_ABS(c->sd, 0.731, 4 * se / sqrt(2.0));
  CHECK_ABS(c->median, 2.385, 4 * 1.2533 * se); /* sqrt(pi / 2) */
  CHECK_ABS(c->mode, 2.385, 0.15);
  CHECK_ABS(c->quantile[0], 2.385 - 1.959964 * 0.731, 4 * 2.7 * se); /* sqrt(p q) / density = 2.67 */
  CHECK_ABS(c->quantile[1], 2.385 - 0.674490 * 0.731, 4 * 1.4 * se);
  CHECK_ABS(c->quantile[3], 2.385 + 0.674490 * 0.731, 4 * 1.4 * se);
  CHECK_ABS(c->quantile[4], 2.385 + 1.959964 * 0.731, 4 * 2.7 * se);
  CHECK(c->quantile[2] == c->median);
  CHECK_ABS(c->hpd95[1] - c->hpd95[0], 2 * 1.959964 * 0.731, 0.1);
  CHECK_ABS(c->rhat, 1.0, 2e-3);
  CHECK(c->ess_bulk > 15000 && c->ess_bulk < 25000 && c->ess_tail > 14000);
  CHECK_REL(c->mcse, se, 0.15);
  CHECK(isnan(c->near_lower) && isnan(c->near_upper)); /* unbounded */
  CHECK_INT(s->n_param, 2);
  CHECK_INT(s->n_col, 3);
  CHECK_STR(s->col[1].name, "share");
  CHECK_ABS(s->col[1].near_lower, 0.01, 4e-3); /* uniform on its bounds */
  CHECK_ABS(s->col[1].near_upper, 0.01, 4e-3);
  CHECK_STR(s->col[2].name, "twice");
  CHECK_REL(s->col[2].mean, 2 * c->mean, 1e-12);
  CHECK(isnan(s->col[2].near_lower));
  double best = -HUGE_VAL;
  for (atvi_idx i = 0; i < w.d->n; i++) best = fmax(best, w.d->log_prior[i] + w.d->log_lik[i]);
  CHECK(s->log_map == best && isfinite(best));
  CHECK_INT(s->verdict, ATVI_VERDICT_OK);
  CHECK_INT(s->n_message, 0);
  world_free(&w);
}

static void results_do_not_depend_on_threads(void) {
  world w = world_new(4, 500, false);
  atvi_ctx_set_threads(w.ctx, 1);
  const atvi_summary *a = world_summary(&w);
  for (int threads = 2; threads <= 4; threads++) {
    atvi_ctx_set_threads(w.ctx, threads);
    const atvi_summary *b = world_summary(&w);
    for (int j = 0; j < 3; j++)
      CHECK(a->col[j].mean == b->col[j].mean && a->col[j].rhat == b->col[j].rhat &&
            a->col[j].mode == b->col[j].mode);
  }
  world_free(&w);
}

static void independent_and_weighted_draws(void) {
  world w = world_new(1, 4000, false);
  w.d->chains = false;
  const atvi_summary *s = world_summary(&w);
  CHECK(isnan(s->col[0].rhat));
  CHECK(s->col[0].ess_bulk == 4000 && s->col[0].ess_tail == 4000);
  CHECK_REL(s->col[0].mcse, s->col[0].sd / sqrt(4000.0), 1e-12);
  CHECK_INT(s->verdict, ATVI_VERDICT_OK);
  world_free(&w);

  w = world_new(1, 4000, true);
  w.d->chains = false;
  double sum = 0, squares = 0, mean = 0, near = 0;
  for (atvi_idx i = 0; i < w.d->n; i++) {
    w.d->weight[i] = i % 3 == 0 ? 2.0 : 0.5;
    sum += w.d->weight[i];
    squares += w.d->weight[i] * w.d->weight[i];
    mean += w.d->weight[i] * w.d->x[i];
    if (w.d->x[w.d->n + i] <= 0.01) near += w.d->weight[i];
  }
  s = world_summary(&w);
  CHECK_REL(s->col[0].ess_bulk, sum * sum / squares, 1e-12);
  CHECK_REL(s->col[0].mean, mean / sum, 1e-12);
  CHECK_REL(s->col[1].near_lower, near / sum, 1e-12);
  CHECK_REL(s->col[0].mcse, s->col[0].sd / sqrt(s->col[0].ess_bulk), 0.1);
  world_free(&w);
}

/* Draws of N(m, s) with weights exp(c z) are draws of N(m + c s, s): everything that a summary says must be of that
 * one. Tolerances are 4 standard errors with the effective size, n exp(-c^2). */
static void weights_count_in_every_number(void) {
  const double c = 0.5, m = 2.385, s = 0.731;
  world w = world_new(1, 40000, true);
  w.d->made.method = "atvi";
  w.d->made.khat = 0.2;
  for (atvi_idx i = 0; i < w.d->n; i++) w.d->weight[i] = exp(c * (w.d->x[i] - m) / s);
  const atvi_summary *sum = world_summary(&w);
  const atvi_summary_column *a = &sum->col[0];
  const double n = 40000 * exp(-c * c), se = s / sqrt(n), mean = m + c * s;
  CHECK(sum->weighted);
  CHECK_REL(sum->ess, n, 0.05);
  CHECK(a->ess_bulk == sum->ess && a->ess_tail == sum->ess && isnan(a->rhat));
  CHECK_ABS(a->mean, mean, 4 * se);
  CHECK_ABS(a->sd, s, 4 * se);
  CHECK_ABS(a->median, mean, 4 * 1.2533 * se);
  CHECK_ABS(a->mode, mean, 0.15);
  static const double z[5] = {-1.959964, -0.674490, 0, 0.674490, 1.959964};
  for (int k = 0; k < 5; k++) CHECK_ABS(a->quantile[k], mean + z[k] * s, 4 * (k % 4 ? 1.4 : 2.7) * se);
  CHECK_ABS(a->hpd95[0], mean - 1.96 * s, 0.1);
  CHECK_ABS(a->hpd95[1], mean + 1.96 * s, 0.1);
  CHECK_REL(a->mcse, se * sqrt(1 + c * c), 0.1); /* weights and values go together: E w^2 (x - mean)^2 */
  CHECK_REL(sum->col[2].mean, 2 * a->mean, 1e-12);
  world_free(&w);
}

static void odd_draws_do_not_break_it(void) {
  world w = world_new(2, 3, false); /* chains too short for anything */
  const atvi_summary *s = world_summary(&w);
  CHECK(isnan(s->col[0].rhat) && isnan(s->col[0].ess_bulk) && isfinite(s->col[0].mean));
  CHECK_INT(s->verdict, ATVI_VERDICT_BAD);
  world_free(&w);
  w = world_new(1, 1, false);
  w.d->chains = false;
  s = world_summary(&w);
  CHECK(s->col[0].mean == w.d->x[0] && s->col[0].median == w.d->x[0] && s->col[0].mode == w.d->x[0] &&
        isnan(s->col[0].sd));
  world_free(&w);
  w = world_new(4, 200, false);
  w.d->x[2 * w.d->n + 7] = HUGE_VAL; /* the derived column */
  for (atvi_idx i = 0; i < w.d->n; i++) w.d->log_lik[i] = NAN;
  s = world_summary(&w);
  CHECK(isnan(s->col[2].mean) && isnan(s->col[2].rhat) && isfinite(s->col[0].mean));
  CHECK(!isfinite(s->log_map));
  world_free(&w);
}

static void memory_failures_leave_nothing(void) {
  world w = world_new(2, 100, false);
  CHECK_OK(atvi_draws_say(w.d, "A message."));
  atvi_ctx_set_threads(w.ctx, 1);
  long live = test_live, k = 1;
  for (;; k++) {
    atvi_pool *pool;
    atvi_summary *s;
    CHECK_OK(atvi_pool_new(w.ctx, &pool));
    test_fail_at = test_allocs + k;
    atvi_status status = atvi_summary_new(pool, w.d, &s);
    test_fail_at = 0;
    CHECK((status == ATVI_OK) == (s != NULL));
    atvi_pool_free(pool);
    CHECK_INT(test_live, live);
    if (status == ATVI_OK) break;
    CHECK_INT(status, ATVI_ENOMEM);
  }
  CHECK(k > 2);
  world_free(&w);
}

TESTS({"normal", numbers_of_normal_chains}, {"threads", results_do_not_depend_on_threads},
      {"weights", independent_and_weighted_draws}, {"weights_count", weights_count_in_every_number},
      {"odd", odd_draws_do_not_break_it}, {"memory", memory_failures_leave_nothing})
