/* SPDX-License-Identifier: MIT */
#include "model/evaluator.h"
#include "testing.h"

enum { D = 3 };

/* log prior = -x0, log lik = x0 x1 + x2^2, and fates by the value of x2; largest batch and scratch noted. */
typedef struct {
  atvi_target target;
  long made, freed;
  int fail_work_at;
} model;

typedef struct {
  model *m;
  long calls;
  atvi_idx widest;
} scratch;

static void eval(const void *self, void *work, const atvi_batch *b) {
  (void)self;
  scratch *s = work;
  s->calls++;
  if (b->B > s->widest) s->widest = b->B;
  for (atvi_idx i = 0; i < b->B; i++) {
    const double x0 = b->theta[i], x1 = b->theta[b->B + i], x2 = b->theta[2 * b->B + i];
    if (b->log_prior) b->log_prior[i] = -x0;
    if (b->log_lik)
      b->log_lik[i] = x2 == 7 ? NAN : x2 == 8 ? HUGE_VAL : x2 == 9 ? -HUGE_VAL : x0 * x1 + x2 * x2;
    const double gp[D] = {-1, 0, 0}, gl[D] = {x1, x0, 2 * x2};
    for (int j = 0; j < D; j++) {
      if (b->grad_prior) b->grad_prior[j * b->B + i] = gp[j];
      if (b->grad_lik) b->grad_lik[j * b->B + i] = gl[j];
    }
    if (b->outcome)
      b->outcome[i] = x2 == 4   ? (atvi_outcome)(99 - 200 * (i % 2)) /* there is none such */
                      : x2 == 5 ? ATVI_RUN_STEPS
                      : x2 == 6 ? ATVI_RUN_OUTSIDE
                                : ATVI_RUN_OK;
  }
}

static atvi_status work_new(const void *self, atvi_ctx *ctx, void **work) {
  model *m = (model *)(uintptr_t)self;
  if (m->fail_work_at > 0 && m->made + 1 == m->fail_work_at) return ATVI_FAIL(ctx, ATVI_ECALL, "no scratch");
  scratch *s = atvi_block(ctx, sizeof *s + 64);
  if (!s) return ATVI_FAIL(ctx, ATVI_ENOMEM, "scratch");
  s->m = m;
  m->made++;
  *work = s;
  return ATVI_OK;
}

static atvi_ctx *work_ctx;
static void work_free(void *work) {
  ((scratch *)work)->m->freed++;
  atvi_block_free(work_ctx, work);
}

/* Draw number k: seed + k, and the same by ten and hundred. */
static void prior_draw(const void *self, void *work, uint64_t seed, atvi_idx first, atvi_idx B,
                       double *theta) {
  static const double by[D] = {1, 10, 100};
  (void)self;
  scratch *s = work;
  s->calls++;
  for (int j = 0; j < D; j++)
    for (atvi_idx i = 0; i < B; i++) theta[j * B + i] = by[j] * (double)((atvi_idx)seed + first + i);
}

static const atvi_target_ops ops = {
    .size = sizeof ops, .eval = eval, .work_new = work_new, .work_free = work_free, .prior_draw = prior_draw};

static void model_set(model *m) {
  static const atvi_param param[D] = {
      {"a", -HUGE_VAL, HUGE_VAL, NULL}, {"b", -HUGE_VAL, HUGE_VAL, NULL}, {"c", 0, 10, NULL}};
  *m = (model){.target = {.ops = &ops, .self = m, .name = "m", .d = D, .param = param}};
}

static void run_batches(atvi_idx group) {
  enum { MAX = 101 };
  static double theta[D * MAX], lp[MAX], ll[MAX], gp[D * MAX], gl[D * MAX];
  static atvi_outcome outcome[MAX];
  for (int threads = 1; threads <= 3; threads++) {
    model m;
    model_set(&m);
    m.target.group = group;
    atvi_ctx *ctx = work_ctx = test_ctx();
    atvi_ctx_set_threads(ctx, threads);
    atvi_evaluator *ev;
    CHECK_OK(atvi_model_evaluator_new(ctx, &m.target, &ev));
    CHECK(atvi_model_evaluator_target(ev) == &m.target);
    CHECK_INT(m.made, threads);
    int64_t count = 0, failures = 0;
    for (atvi_idx B = 1; B <= MAX; B += 4) {
      for (atvi_idx i = 0; i < B; i++) {
        theta[i] = 0.3 + 0.17 * (double)i;
        theta[B + i] = 1.1 - 0.23 * (double)i;
        theta[2 * B + i] = (double)(i % 10);
        count += i % 10 != 6;
        failures += i % 10 == 4 || i % 10 == 5 || i % 10 == 7 || i % 10 == 8;
      }
      long before = test_allocs;
      atvi_model_evaluator_run(ev, &(atvi_batch){.B = B,
                                                 .theta = theta,
                                                 .log_prior = lp,
                                                 .log_lik = ll,
                                                 .grad_prior = gp,
                                                 .grad_lik = gl,
                                                 .outcome = outcome});
      CHECK(test_allocs - before <= 1); /* the team of threads, once */
      for (atvi_idx i = 0; i < B; i++) {
        double x0 = theta[i], x1 = theta[B + i], x2 = theta[2 * B + i];
        int k = (int)(i % 10);
        CHECK_INT(outcome[i], k == 4             ? ATVI_RUN_CALL
                              : k == 5           ? ATVI_RUN_STEPS
                              : k == 6           ? ATVI_RUN_OUTSIDE
                              : k == 7 || k == 8 ? ATVI_RUN_NONFINITE
                                                 : ATVI_RUN_OK);
        CHECK(lp[i] == -x0 && gp[i] == -1 && gl[i] == x1 && gl[B + i] == x0 && gl[2 * B + i] == 2 * x2);
        if (k < 7) CHECK_ABS(ll[i], x0 * x1 + x2 * x2, 1e-13);
        if (k == 9) CHECK(ll[i] == -HUGE_VAL);
      }
      CHECK_INT(atvi_model_evaluator_count(ev), count);
      CHECK_INT(atvi_model_evaluator_failures(ev), failures);
    }
    atvi_idx widest = ((scratch *)atvi_model_evaluator_work(ev))->widest, most = group ? group : ATVI_LANES;
    CHECK(widest == most || (threads > 1 && widest < most));
    atvi_model_evaluator_free(ev);
    CHECK_INT(m.freed, threads);
    atvi_ctx_free(ctx);
    CHECK_INT(test_live, 0);
  }
}

static void runs_batches_of_any_size(void) { run_batches(0); }
static void gives_a_target_the_points_it_likes(void) { run_batches(24); }

/* The sample is the same for any number of threads and any cut into batches, has each point once, and the
 * reason. */
static void remembers_points_that_failed(void) {
  enum { N = 400 };
  static double theta[D * N], kept[3][D * ATVI_FAILED_KEPT];
  atvi_outcome why[3][ATVI_FAILED_KEPT];
  for (int run = 0; run < 3; run++) {
    model m;
    model_set(&m);
    atvi_ctx *ctx = work_ctx = test_ctx();
    atvi_ctx_set_threads(ctx, run + 1);
    atvi_evaluator *ev;
    CHECK_OK(atvi_model_evaluator_new(ctx, &m.target, &ev));
    CHECK_INT(atvi_model_evaluator_failed(ev, kept[run], why[run]), 0);
    atvi_idx step = run == 2 ? 50 : N;
    for (atvi_idx first = 0; first < 2 * N; first += step) { /* all twice */
      for (atvi_idx i = 0; i < step; i++) {
        atvi_idx k = (first + i) % N;
        theta[i] = (double)k, theta[step + i] = -(double)k,
        theta[2 * step + i] = (double)(k % 10 == 4 ? 0 : k % 10);
      }
      atvi_model_evaluator_run(ev, &(atvi_batch){.B = step, .theta = theta});
      if (first == 0 && step == 50) CHECK_INT(atvi_model_evaluator_failed(ev, kept[run], why[run]), 5);
    }
    CHECK_INT(atvi_model_evaluator_failed(ev, kept[run], why[run]), ATVI_FAILED_KEPT);
    for (int k = 0; k < ATVI_FAILED_KEPT; k++) {
      const double *x = kept[run] + k * D;
      CHECK(x[2] == 5 && x[0] == -x[1] && (int)x[0] % 10 == 5 && why[run][k] == ATVI_RUN_STEPS);
      for (int j = 0; j < k; j++) CHECK(kept[run][j * D] != x[0]);
    }
    CHECK(memcmp(kept[run], kept[0], sizeof kept[0]) == 0);
    atvi_model_evaluator_free(ev);
    atvi_ctx_free(ctx);
    CHECK_INT(test_live, 0);
  }
}

static void outputs_may_be_missing(void) {
  model m;
  model_set(&m);
  atvi_ctx *ctx = work_ctx = test_ctx();
  atvi_ctx_set_threads(ctx, 2);
  atvi_evaluator *ev;
  CHECK_OK(atvi_model_evaluator_new(ctx, &m.target, &ev));
  double theta[D * 20], ll[20];
  for (int i = 0; i < D * 20; i++) theta[i] = 0.1 * i;
  atvi_model_evaluator_run(ev, &(atvi_batch){.B = 20, .theta = theta, .log_lik = ll});
  for (int i = 0; i < 20; i++)
    CHECK_ABS(ll[i], theta[i] * theta[20 + i] + theta[40 + i] * theta[40 + i], 1e-13);
  atvi_model_evaluator_run_on(ev, 1, &(atvi_batch){.B = 20, .theta = theta});
  atvi_model_evaluator_run_on(ev, 1, &(atvi_batch){.B = 0, .theta = theta});
  CHECK_INT(atvi_model_evaluator_count(ev), 20); /* without a likelihood nothing is run */
  atvi_ctx_set_threads(ctx, 5);                  /* more than there are seats: still right */
  memset(ll, 0, sizeof ll);
  atvi_model_evaluator_run(ev, &(atvi_batch){.B = 20, .theta = theta, .log_lik = ll});
  for (int i = 0; i < 20; i++)
    CHECK_ABS(ll[i], theta[i] * theta[20 + i] + theta[40 + i] * theta[40 + i], 1e-13);
  atvi_model_evaluator_free(ev);
  atvi_model_evaluator_free(NULL);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

static void refuses_and_cleans_up(void) {
  model m;
  model_set(&m);
  atvi_ctx *ctx = work_ctx = test_ctx();
  atvi_ctx_set_threads(ctx, 3);
  atvi_evaluator *ev;
  atvi_target_ops wrong = ops;
  wrong.eval = NULL;
  m.target.ops = &wrong;
  CHECK_STATUS(atvi_model_evaluator_new(ctx, &m.target, &ev), ATVI_EINVAL);
  wrong = ops;
  wrong.size = 8;
  CHECK_STATUS(atvi_model_evaluator_new(ctx, &m.target, &ev), ATVI_EINVAL);
  model_set(&m);
  m.target.d = 0;
  CHECK_STATUS(atvi_model_evaluator_new(ctx, &m.target, &ev), ATVI_EINVAL);
  model_set(&m);
  m.fail_work_at = 2;
  long live = test_live;
  CHECK_STATUS(atvi_model_evaluator_new(ctx, &m.target, &ev), ATVI_ECALL);
  CHECK(ev == NULL);
  CHECK_INT(m.freed, 1);
  CHECK_INT(test_live, live);
  int k;
  for (k = 1; k < 20; k++) {
    model_set(&m);
    test_fail_at = test_allocs + k;
    atvi_status st = atvi_model_evaluator_new(ctx, &m.target, &ev);
    if (st == ATVI_OK) break;
    CHECK_STATUS(st, ATVI_ENOMEM);
    CHECK(ev == NULL);
    CHECK_INT(test_live, live);
  }
  CHECK_INT(k, 5); /* the object and three scratches */
  atvi_model_evaluator_free(ev);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

static void draws_the_prior_on_all_threads(void) {
  enum { N = 53, FIRST = 19 };
  double theta[D * N];
  for (int threads = 1; threads <= 3; threads++) {
    model m;
    model_set(&m);
    atvi_ctx *ctx = work_ctx = test_ctx();
    atvi_ctx_set_threads(ctx, threads);
    atvi_evaluator *ev;
    CHECK_OK(atvi_model_evaluator_new(ctx, &m.target, &ev));
    for (int more = 0; more < 2; more++) { /* threads that came after the evaluator have no scratch */
      atvi_ctx_set_threads(ctx, threads + more);
      memset(theta, 0, sizeof theta);
      atvi_model_evaluator_prior(ev, 7, FIRST, N, theta);
      for (int i = 0; i < N; i++) {
        CHECK_ABS(theta[i], 7 + FIRST + i, 0);
        CHECK_ABS(theta[N + i], 10 * (7 + FIRST + i), 0);
        CHECK_ABS(theta[2 * N + i], 100 * (7 + FIRST + i), 0);
      }
    }
    CHECK_INT(atvi_model_evaluator_count(ev), 0); /* these are no runs */
    atvi_model_evaluator_free(ev);
    atvi_ctx_free(ctx);
  }
}

TESTS({"batches", runs_batches_of_any_size}, {"prior", draws_the_prior_on_all_threads},
      {"group", gives_a_target_the_points_it_likes}, {"failed", remembers_points_that_failed},
      {"missing", outputs_may_be_missing}, {"refuses", refuses_and_cleans_up})
