/* SPDX-License-Identifier: MIT */
#include "diag/summary.h"
#include "testing.h"
#include "world.h"

/* Four independent normal chains: everything known within Monte Carlo error. */
static void numbers_of_normal_chains(void) {
  world w = world_new(4, 5000, false);
  world_flat(&w);
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
  CHECK(s->col[1].reaches_lower && s->col[1].reaches_upper);
  CHECK(!c->reaches_lower && !c->reaches_upper);
  CHECK_STR(s->col[2].name, "twice");
  CHECK_REL(s->col[2].mean, 2 * c->mean, 1e-12);
  CHECK(isnan(s->col[2].near_lower));
  double best = -HUGE_VAL;
  for (atvi_idx i = 0; i < w.d->n; i++) best = fmax(best, w.d->log_prior[i] + w.d->log_lik[i]);
  CHECK(s->log_map == best && isfinite(best));
  CHECK_INT(s->verdict, ATVI_VERDICT_OK);
  CHECK_INT(s->n_message, 1); /* about the bounds of share */
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
  world_flat(&w);
  double sum = 0, squares = 0, mean = 0, near = 0;
  for (atvi_idx i = 0; i < w.d->n; i++) {
    w.d->weight[i] = i % 3 == 0 ? 2.0 : 0.5;
    sum += w.d->weight[i];
    squares += w.d->weight[i] * w.d->weight[i];
    mean += w.d->weight[i] * w.d->x[i];
    if (w.d->x[w.d->n + i] <= 0.01) near += w.d->weight[i];
  }
  s = world_summary(&w);
  CHECK_REL(s->ess, sum * sum / squares, 1e-12);
  CHECK_REL(s->col[0].ess_bulk, s->ess, 0.1); /* the weights have nothing to do with the values */
  CHECK_REL(s->col[0].ess_tail, s->ess, 0.1);
  CHECK_REL(s->col[0].mean, mean / sum, 1e-12);
  CHECK_REL(s->col[1].near_lower, near / sum, 1e-12);
  CHECK_REL(s->col[0].mcse, s->col[0].sd / sqrt(s->col[0].ess_bulk), 1e-3); /* sd has the other divisor */
  world_free(&w);
}

/* Draws of N(m, s) with weights exp(c z) are draws of N(m + c s, s): everything that a summary says must be
 * of that one. Tolerances are 4 standard errors with the effective size, n exp(-c^2). */
static void weights_count_in_every_number(void) {
  const double c = 0.5, m = 2.385, s = 0.731;
  world w = world_new(1, 40000, true);
  w.d->made->method = "atvi", w.d->made->steps = 700;
  w.d->made->khat = 0.2;
  for (atvi_idx i = 0; i < w.d->n; i++) w.d->weight[i] = exp(c * (w.d->x[i] - m) / s);
  const atvi_summary *sum = world_summary(&w);
  const atvi_summary_column *a = &sum->col[0];
  const double n = 40000 * exp(-c * c), se = s / sqrt(n), mean = m + c * s;
  CHECK(sum->weighted);
  CHECK_REL(sum->ess, n, 0.05);
  CHECK(isnan(a->rhat));
  /* sum w^2 (x - mean)^2 has the law of N(m + 2 c s, s): s^2 + c^2 s^2 */
  CHECK_REL(a->ess_bulk, n / (1 + c * c), 0.1);
  /* high values have the large weights: the upper quantile is known worse. With y the draw in its sds from
   * the new mean, sum w^2 (I - p)^2 = p^2 Phi(q - c) + (1 - p)^2 Phi(c - q), q = 1.6449, p = 0.95 for I = (y
   * <= q) */
  const double q = 1.644854, above = 0.5 * erfc((q - c) / sqrt(2.0));
  CHECK_REL(a->ess_tail, n * 0.0475 / (0.05 * 0.05 * (1 - above) + 0.95 * 0.95 * above), 0.1);
  CHECK_REL(sum->col[1].ess_bulk, n, 0.1); /* independent of the weights */
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

/* Weights that k-hat > 0.5 makes doubtful have larger errors; those that it refuses tell nothing about
 * errors. */
static void khat_and_errors(void) {
  world w = world_new(1, 4000, true);
  w.d->made->method = "atvi", w.d->made->steps = 700;
  for (atvi_idx i = 0; i < w.d->n; i++) w.d->weight[i] = i % 2 ? 1.5 : 0.5;
  w.d->made->khat = 0.4;
  const atvi_summary *a = world_summary(&w);
  w.d->made->khat = 0.65; /* twice and a bit, as in stat.h */
  const atvi_summary *b = world_summary(&w);
  CHECK_REL(b->col[0].mcse, a->col[0].mcse * (0.5 / 0.35) * (0.5 / 0.35), 1e-12);
  CHECK(b->col[0].ess_bulk == a->col[0].ess_bulk && !b->refused && b->ess == a->ess);
  w.d->made->khat = 0.75;
  for (int k = 0; k < 2; k++) { /* the draws of draws.csv, too, which have no weights */
    b = world_summary(&w);
    CHECK(b->refused && !b->weighted && isnan(b->ess) && isfinite(b->col[0].mean));
    CHECK(isnan(b->col[0].ess_bulk) && isnan(b->col[0].ess_tail) && isnan(b->col[0].mcse));
    w.d->weight = NULL; /* part of the same block */
  }
  world_free(&w);
}

/* All weight on one draw: nothing varies, and the effective size is that of the weights. */
static void one_draw_is_worth_one(void) {
  world w = world_new(1, 1000, true);
  for (atvi_idx i = 0; i < w.d->n; i++) w.d->weight[i] = i == 17;
  const atvi_summary *s = world_summary(&w);
  CHECK(s->ess == 1 && s->col[0].ess_bulk == 1 && s->col[0].ess_tail == 1);
  CHECK_INT(s->verdict, ATVI_VERDICT_BAD);
  world_free(&w);
}

/* A value of normal, uniform or exponential quantiles on [0, inf) or (-inf, 0]. */
static double shape_at(int shape, double u) {
  switch (shape) {
  case 0: return u;            /* uniform */
  case 1: return -log(1 - u);  /* exponential */
  case 2: return 2 * u * u;    /* density 1/sqrt(x): more at the bound */
  default: return 2 * sqrt(u); /* density x: falls off */
  }
}

static void reaching_a_bound(void) {
  for (int shape = 0; shape < 4; shape++)
    for (int side = 0; side < 2; side++) {
      const atvi_column col = {"x", side ? -HUGE_VAL : 0, side ? 0 : HUGE_VAL};
      world w = world_new(1, 1, false);
      atvi_draws_free(w.d);
      CHECK_OK(atvi_draws_new(w.ctx, 5000, 1, 1, 1, &col, false, &w.d));
      for (atvi_idx i = 0; i < w.d->n; i++)
        w.d->x[i] = (side ? -1 : 1) * shape_at(shape, ((double)i + 0.5) / 5000);
      const atvi_summary_column *c = &world_summary(&w)->col[0];
      CHECK(isnan(c->near_lower) && isnan(c->near_upper)); /* one bound has no range */
      CHECK_INT(c->reaches_lower, shape < 3 && !side);
      CHECK_INT(c->reaches_upper, shape < 3 && side);
      world_free(&w);
    }
}

/* Densities that vanish at a bound or nearly so, also where they rise from it steeply or where tails are
 * long; and one that is cut at half of its height, of draws too few to show it and of enough. */
static void bounds_that_do_not_cut(void) {
  static const struct {
    int shape;
    atvi_idx n;
    double at, tol;
    bool reaches;
  } it[] = {
      {0, 4000, 0, 0.1, false},  /* gamma of shape 2 */
      {1, 4000, 0, 0.01, false}, /* inverse gamma of shape 2 */
      {2, 4000, 0, 0.03, false}, /* inverse gamma of shape 1: no mean */
      {3, 4000, 0.5, 0.2, true}, /* 150 draws: three standard errors; a normal cut where it has half of its height */
      {3, 400, 0.5, 0.25, true}, {3, 12, 0.5, 1, false}};
  for (size_t k = 0; k < sizeof it / sizeof *it; k++) {
    const atvi_column col = {"x", 0, 1e9};
    world w = world_new(1, 1, false);
    uint64_t state = 7;
    atvi_draws_free(w.d);
    CHECK_OK(atvi_draws_new(w.ctx, it[k].n, 1, 1, 1, &col, false, &w.d));
    for (atvi_idx i = 0; i < w.d->n; i++) {
      double gamma = -log(world_uniform(&state));
      if (it[k].shape < 2) gamma -= log(world_uniform(&state));
      w.d->x[i] = it[k].shape == 0 ? gamma : 1 / gamma;
      while (it[k].shape == 3 && !(w.d->x[i] < 1.1774)) w.d->x[i] = world_normal(&state);
      if (it[k].shape == 3) w.d->x[i] = 1.1774 - w.d->x[i];
      double u = world_uniform(&state); /* density 1 - exp(-x / 0.05): thinned, a uniform number on (0, 1) */
      while (it[k].shape == 4 && world_uniform(&state) > 1 - exp(-u / 0.05)) u = world_uniform(&state);
      if (it[k].shape == 4) w.d->x[i] = u;
    }
    const atvi_summary_column *c = &world_summary(&w)->col[0];
    CHECK_ABS(c->at_lower, it[k].at, it[k].tol);
    CHECK_MSG(c->reaches_lower == it[k].reaches, "%zu: %g of the largest", k, c->at_lower);
    CHECK(!c->reaches_upper && c->at_upper == 0);
    world_free(&w);
  }
}

/* A normal whose bound is k sds below its mean: with none or one it reaches it, with two or three not. */
static void a_tail_that_is_cut_off(void) {
  for (int k = 0; k < 4; k++) {
    const atvi_column col = {"x", 0, HUGE_VAL};
    world w = world_new(1, 1, false);
    uint64_t state = 99;
    atvi_draws_free(w.d);
    CHECK_OK(atvi_draws_new(w.ctx, 20000, 1, 1, 1, &col, false, &w.d));
    for (atvi_idx i = 0; i < w.d->n; i++) do
        w.d->x[i] = world_normal(&state) + k;
      while (w.d->x[i] < 0);
    CHECK_INT(world_summary(&w)->col[0].reaches_lower, k < 2);
    world_free(&w);
  }
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
  CHECK_OK(atvi_draws_say(w.d, ATVI_NOTE, ATVI_CODE_NONE, "A message."));
  atvi_ctx_set_threads(w.ctx, 1);
  long live = test_live, k = 1;
  for (;; k++) {
    atvi_pool *pool;
    atvi_summary *s;
    CHECK_OK(atvi_pool_new(w.ctx, &pool));
    test_fail_at = test_allocs + k;
    atvi_status status = atvi_diag_summary_new(pool, w.d, &s);
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
      {"khat", khat_and_errors}, {"one_draw", one_draw_is_worth_one}, {"reaches", reaching_a_bound},
      {"vanishes", bounds_that_do_not_cut}, {"cut_off", a_tail_that_is_cut_off},
      {"odd", odd_draws_do_not_break_it}, {"memory", memory_failures_leave_nothing})
