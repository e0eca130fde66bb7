/* SPDX-License-Identifier: MIT */
#include "infer/chains.h"
#include "moments.h"

static atvi_draws *sample(toy *t, const atvi_chains_opts *opts, int threads) {
  atvi_ctx *ctx = test_ctx();
  atvi_ctx_set_threads(ctx, threads);
  atvi_evaluator *ev;
  atvi_draws *d;
  CHECK_OK(atvi_model_evaluator_new(ctx, &t->target, &ev));
  CHECK_OK(atvi_infer_ram_run(ctx, ev, opts, &d));
  CHECK_INT(d->made->evaluations, atvi_model_evaluator_count(ev));
  CHECK_INT(d->made->failures, atvi_model_evaluator_failures(ev));
  atvi_model_evaluator_free(ev);
  return d;
}

/* Likelihood times a N(0, 100) prior that is far wider: the posterior moments follow from the precision
 * matrix; with prior sd 1e3 the change is below 1e-5 of the sds. */
static void correlated_normal(void) {
  toy t = {.lik = toy_chain, .prior_sd = 1000};
  toy_set(&t, 5, -HUGE_VAL, HUGE_VAL);
  for (uint64_t seed = 1; seed <= (uint64_t)test_seeds(3, 3); seed++) {
    atvi_chains_opts o = atvi_infer_chains_defaults();
    o.seed = seed;
    atvi_draws *d = sample(&t, &o, 2);
    CHECK_INT(d->made->end, ATVI_END_DONE);
    CHECK(d->n >= 4000 && d->n <= 21000 && d->n_chain == 16 && d->chains);
    CHECK(d->made->accept > 0.15 && d->made->accept < 0.35);
    CHECK_STR(d->made->method, "ram");
    CHECK_STR(d->col[5].name, "sum");
    for (atvi_idx j = 0; j < 5; j++) {
      check_column(d, j, 0.4 * (double)j, 0.3 * (double)(j + 1));
      CHECK(judge(d, j).rhat < 1.01);
    }
    for (atvi_idx i = 0; i < d->n; i++) {
      double sum = 0, x[5], g[5] = {0};
      for (atvi_idx j = 0; j < 5; j++) sum += x[j] = d->x[j * d->n + i];
      CHECK(d->x[5 * d->n + i] == sum);
      CHECK_ABS(d->log_lik[i], toy_chain(&t, x, g, NULL), 1e-12 * (1 + fabs(d->log_lik[i])));
    }
    done_with(d);
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

/* Density proportional to e^{-4x} on [0, 1]: mass at the bound, and one parameter only. */
static void mass_at_a_bound(void) {
  toy t = {.lik = toy_slope4};
  toy_set(&t, 1, 0, 1);
  double q = exp(-4.0), mean = 0.25 - q / (1 - q), second = 0.125 - q * (1 + 0.5) / (1 - q);
  for (uint64_t seed = 1; seed <= (uint64_t)test_seeds(3, 3); seed++) {
    atvi_chains_opts o = atvi_infer_chains_defaults();
    o.seed = seed;
    o.ess = 4000;
    atvi_draws *d = sample(&t, &o, 1);
    CHECK_INT(d->made->end, ATVI_END_DONE);
    check_column(d, 0, mean, sqrt(second - mean * mean));
    double near = 0; /* P(x < 0.05) = (1 - e^{-0.2}) / (1 - e^{-4}) = 0.1847 */
    for (atvi_idx i = 0; i < d->n; i++) near += d->x[i] < 0.05;
    CHECK_ABS(near / (double)d->n, (1 - exp(-0.2)) / (1 - q), 4 * sqrt(0.1847 * 0.8153 / 4000));
    done_with(d);
  }
}

/* x ~ N(0, 1), y | x ~ N(x^2, 0.25^2): E y = 1, Var y = 2 + 1/16. */
static double banana(const toy *t, const double *x, double *g, atvi_outcome *o) {
  (void)t, (void)o;
  double e = (x[1] - x[0] * x[0]) / 0.25;
  g[0] = -x[0] + 2 * x[0] * e / 0.25;
  g[1] = -e / 0.25;
  return -0.5 * x[0] * x[0] - 0.5 * e * e;
}

static void banana_is_followed(void) {
  toy t = {.lik = banana};
  toy_set(&t, 2, -30, 30);
  atvi_chains_opts o = atvi_infer_chains_defaults();
  o.ess = 4000;
  atvi_draws *d = sample(&t, &o, 2);
  CHECK_INT(d->made->end, ATVI_END_DONE);
  check_column(d, 0, 0, 1);
  check_column(d, 1, 1, sqrt(2.0625));
  done_with(d);
}

/* Runs fail where x > 0.3: the posterior is the normal cut there, and failures are counted. */
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
  CHECK(d->made->failures > 1000);
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
    atvi_chains_opts o = atvi_infer_chains_defaults();
    o.seed = seed;
    o.max_iter = 20000;
    atvi_draws *d = sample(&t, &o, 2);
    CHECK_INT(d->made->end, ATVI_END_LIMIT);
    CHECK(judge(d, 0).rhat > 1.2); /* at most 1.66, for chains that are halved between the modes */
    done_with(d);
  }
}

/* A second mode that is 60 nats lower, with a wider basin: chains that fall into it are moved away, the run
 * ends well, and says so. */
static double lesser_mode(const toy *t, const double *x, double *g, atvi_outcome *o) {
  (void)t, (void)o, (void)g;
  double a = -0.5 * (pow((x[0] - 5) / 0.1, 2) + pow(x[1] / 0.1, 2));
  double b = -60 - 0.5 * (pow((x[0] + 5) / 0.3, 2) + pow(x[1] / 0.3, 2));
  return fmax(a, b);
}

static void lost_chains_are_moved(void) {
  toy t = {.lik = lesser_mode};
  toy_set(&t, 2, -10, 10);
  int told = 0;
  for (uint64_t seed = 1; seed <= 4; seed++) {
    atvi_chains_opts o = atvi_infer_chains_defaults();
    o.seed = seed;
    o.max_iter = 50000;
    atvi_draws *d = sample(&t, &o, 2);
    CHECK_INT(d->made->end, ATVI_END_DONE);
    check_column(d, 0, 5, 0.1);
    check_column(d, 1, 0, 0.1);
    told += d->n_message == 1 && strstr(d->message[0].text, "negligible probability") &&
            strstr(d->message[0].text, "60 lower");
    done_with(d);
  }
  CHECK(told >= 1);
}

static void same_for_any_number_of_threads(void) {
  toy t = {.lik = banana};
  toy_set(&t, 2, -2, 2);
  atvi_chains_opts o = atvi_infer_chains_defaults();
  o.chains = 21;
  o.seed = 77;
  atvi_draws *one = sample(&t, &o, 1);
  for (int threads = 2; threads <= 3; threads++) {
    atvi_draws *d = sample(&t, &o, threads);
    CHECK_INT(d->n, one->n);
    CHECK(memcmp(d->x, one->x, (size_t)(d->n * d->n_col) * sizeof *d->x) == 0);
    CHECK(memcmp(d->log_lik, one->log_lik, (size_t)d->n * sizeof *d->x) == 0);
    CHECK_INT(d->made->evaluations, one->made->evaluations);
    CHECK(d->made->accept == one->made->accept);
    atvi_ctx *ctx = d->ctx;
    atvi_draws_free(d);
    atvi_ctx_free(ctx);
  }
  done_with(one);
}

static bool stop_later(void *user) { return ++*(int *)user > 12; }
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
  CHECK_OK(atvi_infer_ram_run(ctx, ev, NULL, &d));
  CHECK_INT(d->made->end, ATVI_END_STOPPED);
  CHECK_INT(polls, 13);
  CHECK(d->n >= 4 * 16);
  atvi_draws_free(d);
  atvi_ctx_set_stop(ctx, stop_now, NULL);
  CHECK_STATUS(atvi_infer_ram_run(ctx, ev, NULL, &d), ATVI_ESTOP);
  CHECK(d == NULL);
  atvi_model_evaluator_free(ev);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

static void keeps_to_its_limits(void) {
  toy t = {.lik = two_modes};
  toy_set(&t, 1, -10, 10);
  atvi_chains_opts o = atvi_infer_chains_defaults();
  o.max_seconds = 0.3;
  o.max_iter = 1 << 30;
  atvi_draws *d = sample(&t, &o, 2);
  CHECK_INT(d->made->end, ATVI_END_LIMIT);
  CHECK(d->made->seconds > 0.3 && d->made->seconds < 1.5);
  done_with(d);
  o = atvi_infer_chains_defaults();
  o.max_iter = 1234;
  d = sample(&t, &o, 2);
  CHECK_INT(d->made->end, ATVI_END_LIMIT);
  CHECK_INT(d->n, 16 * 617);
  done_with(d);
  o.max_iter = 16;
  d = sample(&t, &o, 2);
  CHECK_INT(d->n, 16 * 8);
  done_with(d);
}

static void long_runs_are_thinned(void) {
  toy t = {.lik = toy_unit};
  toy_set(&t, 3, -HUGE_VAL, HUGE_VAL);
  atvi_chains_opts o = atvi_infer_chains_defaults();
  o.ess = 5000;
  o.rhat = 1 + 1e-12; /* never */
  o.max_iter = 50000;
  atvi_draws *d = sample(&t, &o, 2);
  CHECK_INT(d->made->end, ATVI_END_LIMIT);
  CHECK(d->n >= 10240 && d->n <= 20480 + 16);
  for (atvi_idx j = 0; j < 3; j++) check_column(d, j, 0, 1 / sqrt(1 + 0.01));
  done_with(d);
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

/* A prior 10^4 times wider than the posterior in every one of six directions. */
static double narrow(const toy *t, const double *x, double *g, atvi_outcome *o) {
  (void)o;
  double sum = 0;
  for (atvi_idx j = 0; j < t->target.d; j++) {
    double z = (x[j] - 0.3) / 1e-4;
    sum -= 0.5 * z * z;
    g[j] = -z / 1e-4;
  }
  return sum;
}

static void narrow_posterior_is_found(void) {
  toy t = {.lik = narrow};
  toy_set(&t, 6, -1, 1);
  atvi_draws *d = sample(&t, NULL, 2);
  CHECK_INT(d->made->end, ATVI_END_DONE);
  CHECK(d->made->evaluations < 16 * 15000);
  for (atvi_idx j = 0; j < 6; j++) check_column(d, j, 0.3, 1e-4);
  done_with(d);
}

static double never(const toy *t, const double *x, double *g, atvi_outcome *o) {
  (void)t, (void)g;
  *o = x[0] > -0.9 ? ATVI_RUN_STEPS : ATVI_RUN_NONFINITE;
  return NAN;
}

static void refuses_what_is_wrong(void) {
  toy t = {.lik = never};
  toy_set(&t, 2, -1, 1);
  atvi_ctx *ctx = test_ctx();
  atvi_evaluator *ev;
  atvi_draws *d;
  CHECK_OK(atvi_model_evaluator_new(ctx, &t.target, &ev));
  CHECK_STATUS(atvi_infer_ram_run(ctx, ev, NULL, &d), ATVI_EMODEL);
  CHECK(strstr(atvi_errmsg(ctx), "none of 4096 draws from the prior could be evaluated"));
  CHECK(strstr(atvi_errmsg(ctx), "step limit"));
  CHECK(d == NULL);
  for (int k = 0; k < 9; k++) {
    atvi_chains_opts o = atvi_infer_chains_defaults();
    if (k == 0) o.chains = 0;
    if (k == 1) o.ess = NAN;
    if (k == 2) o.rhat = 1;
    if (k == 3) o.max_iter = 15;
    if (k == 4) o.max_seconds = 0;
    if (k == 5) o.candidates = 0;
    if (k == 6) o.ess = 1e9;
    if (k == 7) o.max_iter = (atvi_idx)1 << 33;
    if (k == 8) o.chains = 1025;
    CHECK_STATUS(atvi_infer_ram_run(ctx, ev, &o, &d), ATVI_EINVAL);
    if (k == 8) CHECK(strstr(atvi_errmsg(ctx), "chains = 1025, want >= 1 and <= 1024"));
  }
  atvi_model_evaluator_free(ev);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

static double mostly_fails(const toy *t, const double *x, double *g, atvi_outcome *o) {
  if (x[0] < 0.9) {
    *o = ATVI_RUN_SMALL;
    return NAN;
  }
  return toy_unit(t, x, g, o);
}

static void says_that_starts_were_rare(void) {
  toy t = {.lik = mostly_fails};
  toy_set(&t, 1, -1, 1);
  atvi_chains_opts o = atvi_infer_chains_defaults();
  o.max_iter = 2000;
  atvi_draws *d = sample(&t, &o, 1);
  CHECK_INT(d->n_message, 1);
  CHECK(strstr(d->message[0].text, "could not be evaluated") && strstr(d->message[0].text, "too small"));
  done_with(d);
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
  atvi_chains_opts o = atvi_infer_chains_defaults();
  o.max_iter = 100;
  for (k = 1; k < 100; k++) {
    test_fail_at = test_allocs + k;
    atvi_status st = atvi_infer_ram_run(ctx, ev, &o, &d);
    if (st == ATVI_OK) break;
    CHECK_STATUS(st, ATVI_ENOMEM);
    CHECK(d == NULL);
    CHECK_INT(test_live, live);
  }
  CHECK(k > 3 && k < 100);
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
  CHECK_OK(atvi_infer_ram_run(ctx, ev, NULL, &d));
  CHECK(heard >= 2);
  atvi_draws_free(d);
  atvi_model_evaluator_free(ev);
  atvi_ctx_free(ctx);
}

TESTS({"normal", correlated_normal}, {"truncated", truncated_normal}, {"bound", mass_at_a_bound},
      {"banana", banana_is_followed}, {"failures", failures_are_excluded},
      {"modes", two_modes_are_not_hidden}, {"lost", lost_chains_are_moved},
      {"threads", same_for_any_number_of_threads}, {"stop", stops_when_asked},
      {"limits", keeps_to_its_limits}, {"thin", long_runs_are_thinned},
      {"undrawable", prior_that_cannot_be_drawn}, {"narrow", narrow_posterior_is_found},
      {"refuses", refuses_what_is_wrong}, {"rare", says_that_starts_were_rare},
      {"memory", survives_lack_of_memory}, {"progress", tells_its_progress})
