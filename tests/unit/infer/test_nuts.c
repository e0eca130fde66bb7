/* SPDX-License-Identifier: MIT */
/* Runs of the No-U-Turn sampler against posteriors with known moments, and what it refuses and reports. */
#include "infer/chains.h"
#include "models.h"
#include "moments.h"

static atvi_draws *sample_target(const atvi_target *t, const atvi_chains_opts *opts, int threads) {
  atvi_ctx *ctx = test_ctx();
  atvi_ctx_set_threads(ctx, threads);
  atvi_evaluator *ev;
  atvi_draws *d;
  CHECK_OK(atvi_model_evaluator_new(ctx, t, &ev));
  atvi_status status = atvi_infer_nuts_run(ctx, ev, opts, &d);
  CHECK_MSG(status == ATVI_OK, "status %d: %s", status, atvi_errmsg(ctx));
  CHECK_INT(d->made->evaluations, atvi_model_evaluator_count(ev));
  CHECK_INT(d->made->failures, atvi_model_evaluator_failures(ev));
  CHECK_STR(d->made->method, "nuts");
  CHECK(d->made->ess_wanted == (opts ? opts->ess : 1000) && isnan(d->made->log_evidence));
  atvi_model_evaluator_free(ev);
  return d;
}

static atvi_draws *sample(toy *t, const atvi_chains_opts *opts, int threads) {
  return sample_target(&t->target, opts, threads);
}

static atvi_chains_opts seeded(uint64_t seed) {
  atvi_chains_opts o = atvi_infer_nuts_defaults();
  o.seed = seed;
  return o;
}

/* The prior is far wider than the likelihood: with sd 1e3 the change is below 1e-5 of the sds. */
static void correlated_normal(void) {
  static const atvi_idx dim[] = {5, 10};
  for (int k = 0; k < 2; k++) {
    toy t = {.lik = toy_chain, .prior_sd = 1000};
    toy_set(&t, dim[k], -HUGE_VAL, HUGE_VAL);
    for (uint64_t seed = 1; seed <= (uint64_t)test_seeds(3, 3); seed++) {
      atvi_chains_opts o = seeded(seed);
      atvi_draws *d = sample(&t, &o, 2);
      CHECK_INT(d->made->end, ATVI_END_DONE);
      CHECK(d->n >= 1600 && d->n_chain == 16 && d->chains);
      CHECK(d->made->accept > 0.7 && d->made->accept < 0.95);
      CHECK(d->made->divergences == 0 && d->made->max_depth_hits == 0);
      CHECK(d->made->ebfmi > 0.4 && d->made->ebfmi < 2 && d->made->tree_depth > 1 && d->made->tree_depth < 7);
      for (atvi_idx j = 0; j < dim[k]; j++) {
        check_column(d, j, 0.4 * (double)j, 0.3 * (double)(j + 1));
        CHECK(judge(d, j).rhat < 1.01);
      }
      for (atvi_idx i = 0; i < d->n; i += 7) {
        double sum = 0, x[10], g[10] = {0};
        for (atvi_idx j = 0; j < dim[k]; j++) sum += x[j] = d->x[j * d->n + i];
        CHECK(d->x[dim[k] * d->n + i] == sum);
        CHECK_ABS(d->log_lik[i], toy_chain(&t, x, g, NULL), 1e-12 * (1 + fabs(d->log_lik[i])));
      }
      done_with(d);
    }
  }
}

/* A hundred normals with much in common: one direction of all coordinates, which no scale of a coordinate
 * shows. */
static const char *const IN_COMMON =
    "index i = 1..100\nparam x[i] ~ normal(0, 100)\nlet m = sum(k in i: x[k])/100\n"
    "logp sum(k in i: -0.5*(x[k] - m)^2) - 50*(m/30)^2\n";

/* Trees of 15 leaves do, as for independent normals. */
static void many_with_much_in_common(void) {
  const double var = 1 / (1 / 9.0 + 0.01) + 0.99 / 1.0001; /* of the mean, and of what differs from it */
  for (uint64_t seed = 1; seed <= (uint64_t)test_seeds(1, 4); seed++) {
    atvi_chains_opts o = seeded(seed);
    atvi_ctx *ctx = test_ctx();
    atvi_model *m = test_load(ctx, test_file("common.atvi", IN_COMMON), false);
    atvi_draws *d = sample_target(atvi_model_target(m), &o, 2);
    CHECK_INT(d->made->end, ATVI_END_DONE);
    CHECK_MSG(d->made->tree_depth < 4.5, "depth %g", d->made->tree_depth);
    CHECK(d->made->evaluations < 150000);
    for (atvi_idx j = 0; j < 100; j += 9) check_column(d, j, 0, sqrt(var));
    atvi_model_free(m);
    atvi_ctx *own = d->ctx;
    atvi_draws_free(d);
    atvi_ctx_free(own);
    atvi_ctx_free(ctx);
    CHECK_INT(test_live, 0);
  }
}

/* N(0, I) cut to [-0.5, 1.7]^10: mean (phi(a) - phi(b)) / Z, second moment 1 + (a phi(a) - b phi(b)) / Z. */
static void truncated_normal(void) {
  toy t = {.lik = toy_unit};
  const double a = -0.5, b = 1.7;
  toy_set(&t, 10, a, b);
  double pa = exp(-a * a / 2) / sqrt(2 * acos(-1.0)), pb = exp(-b * b / 2) / sqrt(2 * acos(-1.0));
  double z = 0.5 * (erf(b / sqrt(2)) - erf(a / sqrt(2))), mean = (pa - pb) / z;
  double sd = sqrt(1 + (a * pa - b * pb) / z - mean * mean);
  atvi_draws *d = sample(&t, NULL, 2);
  CHECK_INT(d->made->end, ATVI_END_DONE);
  for (atvi_idx j = 0; j < 10; j++) {
    check_column(d, j, mean, sd);
    for (atvi_idx i = 0; i < d->n; i++) CHECK(d->x[j * d->n + i] >= a && d->x[j * d->n + i] <= b);
  }
  done_with(d);
}

static double flat(const toy *t, const double *x, double *g, atvi_outcome *o) {
  (void)t, (void)x, (void)g, (void)o;
  return 0;
}

static double half_draw(const toy *t, atvi_idx j, atvi_rng *r) {
  double x = fabs(t->prior_sd * atvi_math_rng_normal(r));
  return j == 0 ? x : -x;
}

/* Half-normals with the bound below and above: mean +- s sqrt(2 / pi), variance s^2 (1 - 2 / pi). */
static void half_normal(void) {
  toy t = {.lik = flat, .prior_sd = 2.385, .draw = half_draw};
  toy_set(&t, 2, 0, HUGE_VAL);
  toy_bound(&t, 1, -HUGE_VAL, 0, NULL);
  double pi = acos(-1.0), mean = 2.385 * sqrt(2 / pi), sd = 2.385 * sqrt(1 - 2 / pi);
  for (uint64_t seed = 1; seed <= (uint64_t)test_seeds(3, 3); seed++) {
    atvi_chains_opts o = seeded(seed);
    o.ess = 4000;
    atvi_draws *d = sample(&t, &o, 2);
    CHECK_INT(d->made->end, ATVI_END_DONE);
    check_column(d, 0, mean, sd);
    check_column(d, 1, -mean, sd);
    for (atvi_idx i = 0; i < d->n; i++) CHECK(d->x[i] > 0 && d->x[d->n + i] < 0);
    done_with(d);
  }
}

/* The exact posterior of the common cold, from a grid: S0 has its mass on its lower bound. */
static void cold_agrees_with_the_grid(void) {
  static const double mean[3] = {0.8871, 0.2902, 39.775}, sd[3] = {0.0348, 0.0255, 2.010};
  atvi_ctx *ctx = test_ctx();
  atvi_model *m = test_load(ctx, TEST_SOURCE_DIR "/examples/cold/cold.atvi", true);
  for (uint64_t seed = 1; seed <= (uint64_t)test_seeds(2, 2); seed++) {
    atvi_chains_opts o = seeded(seed);
    o.ess = 3000;
    atvi_evaluator *ev;
    atvi_draws *d;
    CHECK_OK(atvi_model_evaluator_new(ctx, atvi_model_target(m), &ev));
    CHECK_OK(atvi_infer_nuts_run(ctx, ev, &o, &d));
    CHECK_INT(d->made->end, ATVI_END_DONE);
    for (int j = 0; j < 3; j++) check_column(d, j, mean[j], sd[j]);
    atvi_draws_free(d);
    atvi_model_evaluator_free(ev);
  }
  atvi_model_free(m);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

/* ---- Neal's funnel ---- */

/* v ~ N(0, 3), x_j ~ N(0, e^(v/2)). */
static double funnel(const toy *t, const double *x, double *g, atvi_outcome *o) {
  (void)o;
  double v = x[0], sum = -v * v / 18;
  g[0] = -v / 9;
  for (atvi_idx j = 1; j < t->target.d; j++) {
    double q = x[j] * x[j] * exp(-v);
    sum -= 0.5 * v + 0.5 * q;
    g[0] += -0.5 + 0.5 * q;
    g[j] = -x[j] * exp(-v);
  }
  return sum;
}

static double unfunnelled(const toy *t, const double *x, double *g, atvi_outcome *o) {
  (void)o;
  double sum = -x[0] * x[0] / 18;
  g[0] = -x[0] / 9;
  for (atvi_idx j = 1; j < t->target.d; j++) sum -= 0.5 * x[j] * x[j], g[j] = -x[j];
  return sum;
}

static void funnel_is_told_of(void) {
  toy t = {.lik = funnel, .no_prior = true};
  toy_set(&t, 10, -HUGE_VAL, HUGE_VAL);
  atvi_chains_opts o = atvi_infer_nuts_defaults();
  o.max_iter = 2000;
  atvi_draws *d = sample(&t, &o, 2);
  CHECK(d->made->divergences > 10 && d->made->ebfmi < 0.3);
  CHECK_INT(d->made->end, ATVI_END_LIMIT);
  done_with(d);
  t.lik = unfunnelled;
  d = sample(&t, NULL, 2);
  CHECK_INT(d->made->end, ATVI_END_DONE);
  CHECK(d->made->divergences == 0 && d->made->ebfmi > 0.4);
  check_column(d, 0, 0, 3);
  for (atvi_idx j = 1; j < 10; j++) check_column(d, j, 0, 1);
  done_with(d);
}

/* ---- difficulties ---- */

/* Runs fail where x > 0.3: the posterior is the normal cut there; failures are counted, and are divergences. */
static double fails_above(const toy *t, const double *x, double *g, atvi_outcome *o) {
  if (x[0] > 0.3) {
    *o = x[0] > 1 ? ATVI_RUN_STEPS : ATVI_RUN_OK;
    return NAN;
  }
  return toy_unit(t, x, g, o);
}

static void failures_are_excluded(void) {
  toy t = {.lik = fails_above};
  toy_set(&t, 2, -8, 8);
  atvi_draws *d = sample(&t, NULL, 2);
  double b = 0.3, pb = exp(-b * b / 2) / sqrt(2 * acos(-1.0)), z = 0.5 * (1 + erf(b / sqrt(2))),
         mean = -pb / z;
  CHECK(d->made->failures > 1000 && d->made->divergences > 100);
  check_column(d, 0, mean, sqrt(1 - b * pb / z - mean * mean));
  check_column(d, 1, 0, 1);
  for (atvi_idx i = 0; i < d->n; i++) CHECK(d->x[i] <= 0.3);
  done_with(d);
}

/* Two modes 40 standard deviations apart: no chain crosses, and the run must not call itself done. */
static double two_modes(const toy *t, const double *x, double *g, atvi_outcome *o) {
  (void)t, (void)o;
  double a = -0.5 * pow((x[0] - 2) / 0.1, 2), b = -0.5 * pow((x[0] + 2) / 0.1, 2);
  g[0] = a > b ? -(x[0] - 2) / 0.01 : -(x[0] + 2) / 0.01;
  return a > b ? a + log1p(exp(b - a)) : b + log1p(exp(a - b));
}

static void two_modes_are_not_hidden(void) {
  toy t = {.lik = two_modes};
  toy_set(&t, 2, -10, 10);
  for (uint64_t seed = 1; seed <= (uint64_t)test_seeds(5, 5); seed++) {
    atvi_chains_opts o = seeded(seed);
    o.max_iter = 1000;
    atvi_draws *d = sample(&t, &o, 2);
    CHECK_INT(d->made->end, ATVI_END_LIMIT);
    CHECK(judge(d, 0).rhat > 1.2);
    CHECK_INT(d->n_message, 0);
    done_with(d);
  }
}

/* A second mode that is 60 nats lower, with a wider basin. */
static double lesser_mode(const toy *t, const double *x, double *g, atvi_outcome *o) {
  (void)t, (void)o;
  double a = -0.5 * (pow((x[0] - 5) / 0.1, 2) + pow(x[1] / 0.1, 2));
  double b = -60 - 0.5 * (pow((x[0] + 5) / 0.3, 2) + pow(x[1] / 0.3, 2));
  g[0] = a > b ? -(x[0] - 5) / 0.01 : -(x[0] + 5) / 0.09;
  g[1] = a > b ? -x[1] / 0.01 : -x[1] / 0.09;
  return fmax(a, b);
}

static void lost_chains_are_moved(void) {
  toy t = {.lik = lesser_mode};
  toy_set(&t, 2, -10, 10);
  int told = 0;
  for (uint64_t seed = 1; seed <= 4; seed++) {
    atvi_chains_opts o = seeded(seed);
    atvi_draws *d = sample(&t, &o, 2);
    CHECK_INT(d->made->end, ATVI_END_DONE);
    check_column(d, 0, 5, 0.1);
    check_column(d, 1, 0, 0.1);
    told += d->n_message == 1 && strstr(d->message[0].text, "caught in a region of negligible probability");
    done_with(d);
  }
  CHECK(told >= 1);
}

/* A prior 10^4 times wider than the posterior in one direction, 10 times in the other. */
static double narrow(const toy *t, const double *x, double *g, atvi_outcome *o) {
  (void)o, (void)t;
  static const double sd[2] = {1e-4, 0.1};
  double sum = 0;
  for (int j = 0; j < 2; j++) {
    double z = (x[j] - 0.3) / sd[j];
    sum -= 0.5 * z * z;
    g[j] = -z / sd[j];
  }
  return sum;
}

static void scales_are_learnt(void) {
  toy t = {.lik = narrow};
  toy_set(&t, 2, -1, 1);
  for (uint64_t seed = 1; seed <= (uint64_t)test_seeds(3, 3); seed++) {
    atvi_chains_opts o = seeded(seed);
    atvi_draws *d = sample(&t, &o, 2);
    CHECK_INT(d->made->end, ATVI_END_DONE);
    CHECK(d->made->tree_depth < 4); /* with the metric as it begins it would be 10 */
    check_column(d, 0, 0.3, 1e-4);
    check_column(d, 1, 0.3, 0.1);
    done_with(d);
  }
}

/* A flat improper prior on the whole line that cannot be drawn. */
static void prior_that_cannot_be_drawn(void) {
  toy t = {.lik = toy_chain, .no_prior = true};
  toy_set(&t, 3, -HUGE_VAL, HUGE_VAL);
  atvi_draws *d = sample(&t, NULL, 2);
  CHECK_INT(d->made->end, ATVI_END_DONE);
  CHECK_INT(d->n_col, 3);
  for (atvi_idx j = 0; j < 3; j++) check_column(d, j, 0.4 * (double)j, 0.3 * (double)(j + 1));
  done_with(d);
}

/* ---- the run ---- */

static void same_for_any_number_of_threads(void) {
  toy t = {.lik = fails_above};
  toy_set(&t, 3, -8, 8);
  atvi_chains_opts o = seeded(77);
  o.chains = 21;
  atvi_draws *one = sample(&t, &o, 1);
  for (int threads = 2; threads <= 3; threads++) {
    atvi_draws *d = sample(&t, &o, threads);
    CHECK_INT(d->n, one->n);
    CHECK(memcmp(d->x, one->x, (size_t)(d->n * d->n_col) * sizeof *d->x) == 0);
    CHECK(memcmp(d->log_lik, one->log_lik, (size_t)d->n * sizeof *d->x) == 0);
    CHECK_INT(d->made->evaluations, one->made->evaluations);
    CHECK(d->made->accept == one->made->accept && d->made->ebfmi == one->made->ebfmi);
    CHECK(d->made->divergences == one->made->divergences && d->made->tree_depth == one->made->tree_depth);
    atvi_ctx *ctx = d->ctx;
    atvi_draws_free(d);
    atvi_ctx_free(ctx);
  }
  done_with(one);
}

static bool stop_later(void *user) { return ++*(int *)user > 40; }
static bool stop_now(void *user) {
  (void)user;
  return true;
}

static void stops_when_asked(void) {
  toy t = {.lik = two_modes};
  toy_set(&t, 1, -10, 10);
  atvi_ctx *ctx = test_ctx();
  atvi_evaluator *ev;
  atvi_draws *d;
  int polls = 0;
  CHECK_OK(atvi_model_evaluator_new(ctx, &t.target, &ev));
  atvi_ctx_set_stop(ctx, stop_later, &polls);
  atvi_chains_opts o = atvi_infer_nuts_defaults();
  o.max_iter = 1 << 30;
  CHECK_OK(atvi_infer_nuts_run(ctx, ev, &o, &d));
  CHECK_INT(d->made->end, ATVI_END_STOPPED);
  CHECK_INT(polls, 41);
  CHECK(d->n >= 4 * 16);
  atvi_draws_free(d);
  atvi_ctx_set_stop(ctx, stop_now, NULL);
  CHECK_STATUS(atvi_infer_nuts_run(ctx, ev, NULL, &d), ATVI_ESTOP);
  CHECK(d == NULL);
  atvi_model_evaluator_free(ev);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

static void keeps_to_its_limits(void) {
  toy t = {.lik = two_modes};
  toy_set(&t, 1, -10, 10);
  atvi_chains_opts o = atvi_infer_nuts_defaults();
  o.max_seconds = TEST_SANITIZED ? 1.5 : 0.3;
  o.max_iter = 1 << 30;
  atvi_draws *d = sample(&t, &o, 2);
  CHECK_INT(d->made->end, ATVI_END_LIMIT);
  CHECK(d->made->seconds > o.max_seconds && d->made->seconds < o.max_seconds + 1.2);
  CHECK(d->n > 5000 && d->n <= 20480); /* thinned */
  done_with(d);
  o = atvi_infer_nuts_defaults();
  o.max_iter = 400;
  d = sample(&t, &o, 2);
  CHECK_INT(d->made->end, ATVI_END_LIMIT);
  CHECK_INT(d->n, 16 * (400 - 400 / 3)); /* a third is more than the warm-up of 10 + 10 + 20 + 40 + 40 */
  done_with(d);
  o.max_iter = 16;
  d = sample(&t, &o, 2);
  CHECK_INT(d->n, 16 * 8);
  done_with(d);
}

static void one_chain_and_shallow_trees(void) {
  toy t = {.lik = toy_chain, .prior_sd = 1000};
  toy_set(&t, 3, -HUGE_VAL, HUGE_VAL);
  atvi_chains_opts o = atvi_infer_nuts_defaults();
  o.chains = 1;
  o.max_depth = 3;
  o.ess = 400;
  o.accept = 0.9;
  atvi_draws *d = sample(&t, &o, 2);
  CHECK_INT(d->made->end, ATVI_END_DONE);
  CHECK_INT(d->n_chain, 1);
  CHECK(d->chains && d->made->max_depth_hits > 100 && d->made->tree_depth <= 3 && d->made->accept > 0.85);
  for (atvi_idx j = 0; j < 3; j++) check_column(d, j, 0.4 * (double)j, 0.3 * (double)(j + 1));
  done_with(d);
}

static double no_gradient(const toy *t, const double *x, double *g, atvi_outcome *o) {
  double sum = toy_unit(t, x, g, o);
  g[0] = NAN;
  return sum;
}

static double never(const toy *t, const double *x, double *g, atvi_outcome *o) {
  (void)t, (void)g;
  *o = x[0] > -0.9 ? ATVI_RUN_STEPS : ATVI_RUN_NONFINITE;
  return NAN;
}

static void refuses(toy *t, const atvi_chains_opts *o, atvi_status code, const char *word) {
  atvi_ctx *ctx = test_ctx();
  atvi_evaluator *ev;
  atvi_draws *d = (atvi_draws *)(void *)ctx;
  CHECK_OK(atvi_model_evaluator_new(ctx, &t->target, &ev));
  CHECK_STATUS(atvi_infer_nuts_run(ctx, ev, o, &d), code);
  CHECK_MSG(strstr(atvi_errmsg(ctx), word) != NULL, "%s", atvi_errmsg(ctx));
  CHECK(d == NULL);
  atvi_model_evaluator_free(ev);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

static void refuses_what_is_wrong(void) {
  toy t = {.lik = never};
  toy_set(&t, 2, -1, 1);
  refuses(&t, NULL, ATVI_EMODEL, "none of 4096 draws from the prior could be evaluated");
  t.lik = no_gradient;
  refuses(&t, NULL, ATVI_EMODEL, "the gradient is not finite at any of 16 starting points");
  t.lik = two_modes;
  atvi_chains_opts o = atvi_infer_nuts_defaults();
  o.max_seconds = 1e-9;
  refuses(&t, &o, ATVI_ELIMIT, "too few to keep any draw");
  t.param[0].map = "log";
  refuses(&t, NULL, ATVI_EINVAL, "map log does not suit a");
  t.param[0].map = NULL;
  for (int k = 0; k < 13; k++) {
    static const char *const word[] = {"chains",   "ess",         "rhat",
                                       "max_iter", "max_seconds", "candi",
                                       "ess",      "max_iter",    "chains = 1025, want >= 1",
                                       "accept",   "accept",      "max_depth",
                                       "max_depth"};
    o = atvi_infer_nuts_defaults();
    if (k == 0) o.chains = 0;
    if (k == 1) o.ess = NAN;
    if (k == 2) o.rhat = 1;
    if (k == 3) o.max_iter = 15;
    if (k == 4) o.max_seconds = 0;
    if (k == 5) o.candidates = 0;
    if (k == 6) o.ess = 1e9;
    if (k == 7) o.max_iter = (atvi_idx)1 << 33;
    if (k == 8) o.chains = 1025;
    if (k == 9) o.accept = 1;
    if (k == 10) o.accept = NAN;
    if (k == 11) o.max_depth = 0;
    if (k == 12) o.max_depth = 21;
    refuses(&t, &o, ATVI_EINVAL, word[k]);
  }
}

static void survives_lack_of_memory(void) {
  toy t = {.lik = toy_unit};
  toy_set(&t, 2, -1, 1);
  atvi_ctx *ctx = test_ctx();
  atvi_ctx_set_threads(ctx, 1);
  atvi_evaluator *ev;
  atvi_draws *d = NULL;
  CHECK_OK(atvi_model_evaluator_new(ctx, &t.target, &ev));
  long live = test_live, k;
  atvi_chains_opts o = atvi_infer_nuts_defaults();
  o.max_iter = 40;
  for (k = 1; k < 100; k++) {
    test_fail_at = test_allocs + k;
    atvi_status st = atvi_infer_nuts_run(ctx, ev, &o, &d);
    if (st == ATVI_OK) break;
    CHECK_STATUS(st, ATVI_ENOMEM);
    CHECK(d == NULL);
    CHECK_INT(test_live, live);
  }
  CHECK(k > 5 && k < 100);
  atvi_draws_free(d);
  atvi_model_evaluator_free(ev);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

static int heard;
static void hear(void *user, const atvi_progress *p) {
  (void)user;
  CHECK(p->detail && p->phase && p->done <= 1 && p->elapsed_s >= 0);
  heard++;
}

static void tells_its_progress(void) {
  toy t = {.lik = toy_unit};
  toy_set(&t, 2, -1, 1);
  atvi_ctx *ctx = test_ctx();
  atvi_evaluator *ev;
  atvi_draws *d;
  atvi_ctx_set_progress(ctx, hear, NULL);
  CHECK_OK(atvi_model_evaluator_new(ctx, &t.target, &ev));
  CHECK_OK(atvi_infer_nuts_run(ctx, ev, NULL, &d));
  CHECK(heard >= 2);
  atvi_draws_free(d);
  atvi_model_evaluator_free(ev);
  atvi_ctx_free(ctx);
}

TESTS({"normal", correlated_normal}, {"truncated", truncated_normal}, {"half", half_normal},
      {"cold", cold_agrees_with_the_grid}, {"funnel", funnel_is_told_of}, {"failures", failures_are_excluded},
      {"modes", two_modes_are_not_hidden}, {"lost", lost_chains_are_moved}, {"scales", scales_are_learnt},
      {"undrawable", prior_that_cannot_be_drawn}, {"threads", same_for_any_number_of_threads},
      {"common", many_with_much_in_common}, {"stop", stops_when_asked}, {"limits", keeps_to_its_limits},
      {"one_chain", one_chain_and_shallow_trees}, {"refuses", refuses_what_is_wrong},
      {"memory", survives_lack_of_memory}, {"progress", tells_its_progress})
