/* SPDX-License-Identifier: MIT */
/* The one call of the library: what it refuses, what it hands to which method, and that contexts are
 * independent. */
#include "atvi/fit.h"
#include "infer/fit.h"
#include "toys.h"
#include <pthread.h>

static const char *const METHODS[] = {"atvi", "nf", "copula", "ram", "nuts", "map"};
enum { N_METHOD = 6 };

static bool has_weights(const char *method) {
  return strcmp(method, "ram") != 0 && strcmp(method, "nuts") != 0 && strcmp(method, "map") != 0;
}

static double mean_of(const atvi_draws *d, atvi_idx j, double *sd) {
  double sum = 0, mean = 0, var = 0;
  for (atvi_idx i = 0; i < d->n; i++) {
    double w = d->weight ? d->weight[i] : 1;
    sum += w;
    mean += w * d->x[j * d->n + i];
  }
  mean /= sum;
  for (atvi_idx i = 0; i < d->n; i++) {
    double w = d->weight ? d->weight[i] : 1, r = d->x[j * d->n + i] - mean;
    var += w * r * r / sum;
  }
  *sd = sqrt(var);
  return mean;
}

/* Normal with means 0, 0.4, sds 0.3, 0.6 and correlation 0.9, in a box that is far away. */
static void every_method_finds_a_normal(void) {
  toy t = {.lik = toy_chain};
  toy_set(&t, 2, -6, 6);
  for (int k = 0; k < N_METHOD; k++) {
    atvi_ctx *ctx = test_ctx();
    atvi_fit_opts o = atvi_fit_defaults();
    atvi_draws *d;
    o.method = METHODS[k];
    o.seed = 5;
    CHECK_OK(atvi_fit(ctx, &t.target, &o, &d));
    CHECK_STR(d->made->method, METHODS[k]);
    CHECK_STR(d->made->model, "toy");
    CHECK(d->made->seed == 5 && d->made->evaluations > 0 && d->made->end == ATVI_END_DONE);
    CHECK_INT(d->weight != NULL, has_weights(METHODS[k]));
    CHECK_INT(d->chains, strcmp(METHODS[k], "ram") == 0 || strcmp(METHODS[k], "nuts") == 0);
    CHECK(d->n_param == 2 && d->n_col == 3);
    double sd;
    for (atvi_idx j = 0; j < 2; j++) { /* ESS of 1000 and more: a standard error of 0.03 sd at most */
      double mean = mean_of(d, j, &sd);
      CHECK_ABS(mean, 0.4 * (double)j, 0.12 * 0.3 * (double)(j + 1));
      CHECK_REL(sd, 0.3 * (double)(j + 1), 0.09);
    }
    if (d->weight) {
      double sum = 0;
      for (atvi_idx i = 0; i < d->n; i++) sum += d->weight[i];
      CHECK_REL(sum, 1, 1e-9);
      CHECK(isfinite(d->made->khat) && isfinite(d->made->elbo) && isfinite(d->made->efficiency));
      /* the likelihood integrates to 2 pi 0.3 0.6 sqrt(1 - 0.81), the prior is 1/144 */
      CHECK_ABS(d->made->log_evidence, log(2 * acos(-1.0) * 0.18 * sqrt(0.19) / 144), 0.05);
    }
    for (atvi_idx i = 0; i < d->n; i += 97)
      CHECK_ABS(d->x[2 * d->n + i], d->x[i] + d->x[d->n + i], 1e-12); /* the derived sum */
    atvi_draws_free(d);
    atvi_ctx_free(ctx);
    CHECK_INT(test_live, 0);
  }
}

static void defaults_are_said(void) {
  atvi_fit_opts o = atvi_fit_defaults();
  CHECK(o.size == sizeof o && o.seed == 1 && o.ess == 0 && o.max_seconds == 0 && o.chains == 0 &&
        o.max_iter == 0 && !o.freeze);
  CHECK_STR(o.method, "atvi");
  CHECK_STR(o.ladder, "auto");
  CHECK_STR(o.map, "auto");
  CHECK_STR(o.tune, "auto");
}

static atvi_status check(atvi_ctx *ctx, const atvi_fit_opts *o) {
  atvi_fit_plan plan;
  return atvi_infer_fit_check(ctx, o, &plan);
}

static atvi_fit_opts with(const char *method, const char *ladder, bool freeze, const char *map,
                          const char *tune) {
  atvi_fit_opts o = atvi_fit_defaults();
  o.method = method;
  o.ladder = ladder;
  o.freeze = freeze;
  o.map = map;
  o.tune = tune;
  return o;
}

static void wrong_options_are_named(void) {
  const struct {
    atvi_fit_opts o;
    const char *word, *also;
  } bad[] = {
      {with("magic", NULL, false, NULL, NULL), "method magic", "atvi (annealed"},
      {with("", NULL, false, NULL, NULL), "method ", "copula"},
      {with("atvi", "1,3", false, NULL, NULL), "ladder 1,3", "do not fall"},
      {with("atvi", "3,3,1", false, NULL, NULL), "ladder 3,3,1", "do not fall"},
      {with("atvi", "3,2", false, NULL, NULL), "ladder 3,2", "not 1"},
      {with("atvi", "2,0.5", false, NULL, NULL), "ladder 2,0.5", "below 1"},
      {with("atvi", "hot", false, NULL, NULL), "ladder hot", "not a list"},
      {with("atvi", "", false, NULL, NULL), "ladder ", "not a list"},
      {with("atvi", "3,,1", false, NULL, NULL), "ladder 3,,1", "not a list"},
      {with("atvi", "3,1,", false, NULL, NULL), "ladder 3,1,", "not a list"},
      {with("atvi", "3, 1", false, NULL, NULL), "ladder 3, 1", "not a list"},
      {with("atvi", "nan,1", false, NULL, NULL), "ladder nan,1", "not a list"},
      {with("atvi", NULL, true, NULL, NULL), "freeze", "ladder auto"},
      {with("atvi", "none", true, NULL, NULL), "freeze", "ladder none"},
      {with("atvi", NULL, false, "log", NULL), "map log", "surjection"},
      {with("atvi", NULL, false, NULL, "yes"), "tune yes", "auto, on or off"},
      {with("ram", "3,1", false, NULL, NULL), "ladder", "ram has none"},
      {with("nf", "none", false, NULL, NULL), "ladder", "nf has none"},
      {with("map", NULL, false, "probit", NULL), "map is a setting", "map has none"},
      {with("copula", NULL, false, NULL, "on"), "tune", "copula has none"},
  };
  atvi_ctx *ctx = test_ctx();
  toy t = {.lik = toy_unit};
  toy_set(&t, 1, -6, 6);
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    atvi_draws *d = (atvi_draws *)(void *)ctx;
    CHECK_STATUS(check(ctx, &bad[i].o), ATVI_EINVAL);
    CHECK_STATUS(atvi_fit(ctx, &t.target, &bad[i].o, &d), ATVI_EINVAL);
    const char *m = atvi_errmsg(ctx);
    CHECK(d == NULL);
    CHECK_MSG(strstr(m, bad[i].word) && strstr(m, bad[i].also), "%s, %s: %s", bad[i].word, bad[i].also, m);
  }
  CHECK_OK(check(ctx, NULL));
  const atvi_fit_opts good[] = {with(NULL, NULL, false, NULL, NULL), with("atvi", "none", false, NULL, NULL),
                                with("atvi", "1", true, "logit", "off"),
                                with("atvi", "1e2,7.5,1.0", true, "surjection", "on")};
  for (size_t i = 0; i < sizeof good / sizeof *good; i++) CHECK_OK(check(ctx, &good[i]));
  atvi_ctx_free(ctx);
}

/* What a method has no use for, and what no variational method delivers. */
static void settings_of_other_methods(void) {
  atvi_ctx *ctx = test_ctx();
  for (int k = 0; k < N_METHOD; k++) {
    const char *method = METHODS[k];
    bool chained = strcmp(method, "ram") == 0 || strcmp(method, "nuts") == 0,
         map = strcmp(method, "map") == 0;
    atvi_fit_opts o = with(method, NULL, false, NULL, NULL);
    o.chains = 4;
    CHECK_STATUS(check(ctx, &o), chained ? ATVI_OK : ATVI_EINVAL);
    if (!chained) CHECK(strstr(atvi_errmsg(ctx), "chains") && strstr(atvi_errmsg(ctx), method));
    o.chains = 0;
    o.max_iter = 1000;
    CHECK_STATUS(check(ctx, &o), map ? ATVI_EINVAL : ATVI_OK);
    if (map)
      CHECK(strstr(atvi_errmsg(ctx),
                   "max_iter is a setting of methods atvi, nf, copula, ram and nuts; map has none"));
    o.max_iter = 0;
    o.ess = 1e6;
    CHECK_STATUS(check(ctx, &o), map ? ATVI_EINVAL : ATVI_OK);
    if (map) CHECK(strstr(atvi_errmsg(ctx), "ess is a setting"));
    o.ess = 1000001;
    CHECK_STATUS(check(ctx, &o), chained ? ATVI_OK : ATVI_EINVAL); /* those have limits of their own */
    if (has_weights(method)) CHECK(strstr(atvi_errmsg(ctx), "at most 1e+06"));
  }
  atvi_ctx_free(ctx);
}

static void wrong_numbers_are_named(void) {
  atvi_ctx *ctx = test_ctx();
  static const char *const word[] = {"ess -1",    "ess nan",     "max_seconds -2",
                                     "chains -3", "max_iter -4", "0 bytes"};
  char many[400] = "", *at = many;
  for (int k = 0; k < 6; k++) {
    atvi_fit_opts o = atvi_fit_defaults();
    if (k == 0) o.ess = -1;
    if (k == 1) o.ess = NAN;
    if (k == 2) o.max_seconds = -2;
    if (k == 3) o.chains = -3;
    if (k == 4) o.max_iter = -4;
    if (k == 5) o.size = 0;
    CHECK_STATUS(check(ctx, &o), ATVI_EINVAL);
    CHECK_MSG(strstr(atvi_errmsg(ctx), word[k]) != NULL, "%s", atvi_errmsg(ctx));
  }
  for (int k = 65; k >= 1; k--) at += sprintf(at, "%d%s", k, k > 1 ? "," : "");
  atvi_fit_opts o = with("atvi", many, false, NULL, NULL);
  CHECK_STATUS(check(ctx, &o), ATVI_EINVAL);
  o.ladder = strchr(many, ',') + 1; /* 64 of them */
  CHECK_OK(check(ctx, &o));
  o.size = sizeof o + 8;
  CHECK_STATUS(check(ctx, &o), ATVI_EINVAL);
  atvi_ctx_free(ctx);
}

/* Programs built with the header of an older version: shorter options, fewer members in the table. */
static void older_callers_are_served(void) {
  atvi_ctx *ctx = test_ctx();
  toy t = {.lik = toy_unit};
  toy_set(&t, 1, -6, 6);
  atvi_target_ops old = {.size = offsetof(atvi_target_ops, work_new), .eval = toy_eval};
  memset((char *)&old + old.size, 0xA5, sizeof old - old.size); /* not theirs: must not be called */
  t.target.ops = &old;
  t.target.n_derived = 0;
  t.target.name = NULL;
  atvi_fit_opts o = atvi_fit_defaults();
  o.size = offsetof(atvi_fit_opts, ladder);
  o.method = "map";
  o.ladder = o.map = o.tune = "nonsense"; /* beyond their struct */
  atvi_draws *d;
  CHECK_OK(atvi_fit(ctx, &t.target, &o, &d));
  CHECK_STR(d->made->model, "target");
  atvi_draws_free(d);
  atvi_ctx_free(ctx);
}

static void targets_are_checked(void) {
  atvi_ctx *ctx = test_ctx();
  static const char *const word[] = {
      "no functions",     "no eval",       "ops->size = 3",           "ops->size",
      "no parameters",    "no parameters", "parameter 1 has no name", "b has the bounds [2, 2]",
      "b has the bounds", "without names"};
  for (int k = 0; k < 10; k++) {
    toy t = {.lik = toy_unit};
    toy_set(&t, 2, -6, 6);
    atvi_target_ops ops = toy_ops;
    t.target.ops = k == 0 ? NULL : &ops;
    if (k == 1) ops.eval = NULL;
    if (k == 2) ops.size = 3;
    if (k == 3) ops.size += 8;
    if (k == 4) t.target.d = 0;
    if (k == 5) t.target.param = NULL;
    if (k == 6) t.param[1].name = NULL;
    if (k == 7) t.param[1].lower = t.param[1].upper = 2;
    if (k == 8) t.param[1].lower = NAN;
    if (k == 9) t.target.derived = NULL;
    atvi_draws *d = (atvi_draws *)(void *)ctx;
    CHECK_STATUS(atvi_fit(ctx, &t.target, NULL, &d), ATVI_EINVAL);
    CHECK(d == NULL);
    CHECK_MSG(strstr(atvi_errmsg(ctx), word[k]) != NULL, "%d: %s", k, atvi_errmsg(ctx));
  }
  atvi_draws *d;
  CHECK_STATUS(atvi_fit(ctx, NULL, NULL, &d), ATVI_EINVAL);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

static double nowhere(const toy *t, const double *x, double *g, atvi_outcome *o) {
  (void)t, (void)x, (void)g;
  *o = ATVI_RUN_CALL;
  return -HUGE_VAL;
}

static bool at_once(void *user) {
  (void)user;
  return true;
}

static atvi_status no_work(const void *self, atvi_ctx *ctx, void **work) {
  (void)self, (void)ctx, (void)work;
  return ATVI_ECALL;
}

/* EMODEL, ESTOP, ELIMIT and what work_new says, from every method that documents them. */
static void failures_are_handed_up(void) {
  for (int k = 0; k < N_METHOD; k++) {
    atvi_ctx *ctx = test_ctx();
    toy t = {.lik = nowhere};
    toy_set(&t, 2, -6, 6);
    atvi_fit_opts o = atvi_fit_defaults();
    atvi_draws *d;
    o.method = METHODS[k];
    CHECK_STATUS(atvi_fit(ctx, &t.target, &o, &d), ATVI_EMODEL);
    CHECK(d == NULL && atvi_errmsg(ctx)[0]);
    t.lik = toy_chain;
    atvi_target_ops ops = toy_ops;
    ops.work_new = no_work;
    t.target.ops = &ops;
    CHECK_STATUS(atvi_fit(ctx, &t.target, &o, &d), ATVI_ECALL);
    t.target.ops = &toy_ops;
    o.max_seconds = 1e-9;
    atvi_status status = atvi_fit(ctx, &t.target, &o, &d); /* or draws of what there was */
    CHECK(status == ATVI_ELIMIT || (status == ATVI_OK && d->made->end == ATVI_END_LIMIT));
    atvi_draws_free(d);
    o.max_seconds = 0;
    atvi_ctx_set_stop(ctx, at_once, NULL);
    status = atvi_fit(ctx, &t.target, &o, &d);
    CHECK(status == ATVI_ESTOP || (status == ATVI_OK && d->made->end == ATVI_END_STOPPED));
    atvi_draws_free(d);
    atvi_ctx_free(ctx);
    CHECK_INT(test_live, 0);
  }
}

typedef struct {
  const toy *t;
  uint64_t seed;
  int threads;
  atvi_ctx *ctx;
  atvi_draws *d;
  atvi_status status;
} one_fit;

static void *run_fit(void *arg) {
  one_fit *f = arg;
  atvi_fit_opts o = atvi_fit_defaults();
  o.seed = f->seed;
  f->status = atvi_ctx_new(&test_allocator, &f->ctx);
  if (f->status != ATVI_OK) return NULL;
  atvi_ctx_set_threads(f->ctx, f->threads);
  f->status = atvi_fit(f->ctx, &f->t->target, &o, &f->d);
  return NULL;
}

static void check_equal(const atvi_draws *a, const atvi_draws *b) {
  CHECK_INT(a->n, b->n);
  size_t bytes = (size_t)a->n * sizeof *a->x;
  CHECK(memcmp(a->x, b->x, (size_t)a->n_col * bytes) == 0 && memcmp(a->weight, b->weight, bytes) == 0);
  CHECK(a->made->khat == b->made->khat && a->made->log_evidence == b->made->log_evidence &&
        a->made->evaluations == b->made->evaluations);
}

/* Two contexts at once, each with threads of its own, give what each gives alone on one thread. */
static void contexts_are_independent(void) {
  toy t = {.lik = toy_chain};
  toy_set(&t, 2, -6, 6);
  one_fit alone[2] = {{&t, 3, 1, NULL, NULL, 0}, {&t, 4, 1, NULL, NULL, 0}};
  one_fit both[2] = {{&t, 3, 2, NULL, NULL, 0}, {&t, 4, 3, NULL, NULL, 0}};
  pthread_t thread[2];
  for (int k = 0; k < 2; k++) run_fit(&alone[k]);
  for (int k = 0; k < 2; k++) CHECK(pthread_create(&thread[k], NULL, run_fit, &both[k]) == 0);
  for (int k = 0; k < 2; k++) CHECK(pthread_join(thread[k], NULL) == 0);
  for (int k = 0; k < 2; k++) {
    CHECK_OK(alone[k].status);
    CHECK_OK(both[k].status);
    check_equal(alone[k].d, both[k].d);
  }
  CHECK(alone[0].d->n != alone[1].d->n ||
        memcmp(alone[0].d->x, alone[1].d->x, (size_t)alone[0].d->n * sizeof(double)) != 0);
  for (int k = 0; k < 2; k++) {
    atvi_draws_free(alone[k].d);
    atvi_draws_free(both[k].d);
    atvi_ctx_free(alone[k].ctx);
    atvi_ctx_free(both[k].ctx);
  }
  CHECK_INT(test_live, 0);
}

/* With the evaluator of the caller: the same draws. */
static void with_an_evaluator(void) {
  atvi_ctx *ctx = test_ctx();
  toy t = {.lik = toy_chain};
  toy_set(&t, 2, -6, 6);
  atvi_evaluator *ev;
  atvi_draws *a, *b;
  atvi_fit_opts o = atvi_fit_defaults();
  o.method = "map";
  CHECK_OK(atvi_model_evaluator_new(ctx, &t.target, &ev));
  atvi_fit_plan plan;
  CHECK_OK(atvi_infer_fit_check(ctx, &o, &plan));
  CHECK_OK(atvi_infer_fit_with(ctx, ev, &plan, &a));
  CHECK_OK(atvi_fit(ctx, &t.target, &o, &b));
  CHECK(a->n == b->n && memcmp(a->x, b->x, (size_t)(a->n * a->n_col) * sizeof *a->x) == 0);
  atvi_draws_free(a);
  CHECK_OK(atvi_infer_fit_planned(ctx, &t.target, &plan, &a));
  CHECK(a->n == b->n && memcmp(a->x, b->x, (size_t)(a->n * a->n_col) * sizeof *a->x) == 0);
  atvi_draws_free(a);
  atvi_draws_free(b);
  atvi_model_evaluator_free(ev);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

static void memory_failures_leave_nothing(void) {
  atvi_ctx *ctx = test_ctx();
  atvi_ctx_set_threads(ctx, 1);
  toy t = {.lik = toy_unit};
  toy_set(&t, 1, -6, 6);
  atvi_fit_opts o = atvi_fit_defaults();
  o.method = "ram";
  o.max_iter = 64;
  o.chains = 2;
  atvi_draws *d;
  long live = test_live, k = 1;
  for (;; k++) {
    test_fail_at = test_allocs + k;
    atvi_status status = atvi_fit(ctx, &t.target, &o, &d);
    test_fail_at = 0;
    if (status == ATVI_OK) break;
    CHECK_INT(status, ATVI_ENOMEM);
    CHECK(d == NULL);
    CHECK_INT(test_live, live);
  }
  CHECK(k > 4);
  atvi_draws_free(d);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

TESTS({"methods", every_method_finds_a_normal}, {"defaults", defaults_are_said},
      {"options", wrong_options_are_named}, {"others", settings_of_other_methods},
      {"numbers", wrong_numbers_are_named}, {"older", older_callers_are_served},
      {"targets", targets_are_checked}, {"failures", failures_are_handed_up},
      {"contexts", contexts_are_independent}, {"evaluator", with_an_evaluator},
      {"memory", memory_failures_leave_nothing})
