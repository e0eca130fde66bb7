/* SPDX-License-Identifier: MIT */
/* The likelihood of the runs and the search for its maximum. */
#include "emulator_world.h"

/* n, m, irregular: one output; products by columns, on both grids; sums of squares. */
static const struct {
  atvi_idx n, m;
  bool irregular;
} SHAPE[] = {{9, 1, false}, {9, 5, false}, {9, 6, true}, {5, 11, true}, {5, 12, false}};
enum { SHAPES = sizeof SHAPE / sizeof SHAPE[0], D = 3 };

static void is_that_of_the_dense_normal(void) {
  atvi_ctx *ctx = test_ctx();
  for (int s = 0; s < SHAPES; s++)
    for (int k = ATVI_EM_EXPONENTIAL; k <= ATVI_EM_SQUARED; k++) {
      world w = world_new(SHAPE[s].n, D, SHAPE[s].m, SHAPE[s].irregular);
      atvi_em_opts o = some_opts((atvi_em_kernel)k);
      double got;
      CHECK_OK(atvi_gp_emulator_log_lik(ctx, &w.runs, &o, &got, NULL));
      CHECK_REL(got, dense_log_lik(&w.runs, &o), 1e-11); /* condition of K: some 1000 */
      double mean[12];
      fill_uniform(3, 12, mean);
      w.runs.mean = mean, w.runs.time = NULL;
      CHECK_OK(atvi_gp_emulator_log_lik(ctx, &w.runs, &o, &got, NULL));
      CHECK_REL(got, dense_log_lik(&w.runs, &o), 1e-11);
      world_free(&w);
    }
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

static double at_log(atvi_ctx *ctx, const atvi_em_runs *r, const atvi_em_opts *o, const double *v) {
  double length[D], got;
  atvi_em_opts use = *o;
  for (int j = 0; j < D; j++) length[j] = exp(v[j]);
  use.length = length, use.nugget = exp(v[D]), use.time_length = exp(v[D + 1]), use.sill = exp(v[D + 2]);
  CHECK_OK(atvi_gp_emulator_log_lik(ctx, r, &use, &got, NULL));
  return got;
}

static void gradient_is_that_of_differences(void) {
  atvi_ctx *ctx = test_ctx();
  const double h = 1e-4; /* fourth order: truncation 1e-15, rounding 1e-12 of the value / h */
  for (int s = 0; s < SHAPES; s++)
    for (int k = ATVI_EM_EXPONENTIAL; k <= ATVI_EM_SQUARED; k++) {
      world w = world_new(SHAPE[s].n, D, SHAPE[s].m, SHAPE[s].irregular);
      atvi_em_opts o = some_opts((atvi_em_kernel)k);
      double grad[D + 3], got, v[D + 3] = {log(o.length[0]), log(o.length[1]),   log(o.length[2]),
                                           log(o.nugget),    log(o.time_length), log(o.sill)};
      CHECK_OK(atvi_gp_emulator_log_lik(ctx, &w.runs, &o, &got, grad));
      for (int j = 0; j < D + 3; j++) {
        double keep = v[j], f[4], step[4] = {-2, -1, 1, 2};
        for (int i = 0; i < 4; i++) v[j] = keep + step[i] * h, f[i] = at_log(ctx, &w.runs, &o, v);
        v[j] = keep;
        CHECK_ABS(grad[j], (f[0] - 8 * f[1] + 8 * f[2] - f[3]) / (12 * h),
                  2e-8 * fabs(got) + 1e-7 * fabs(grad[j]));
      }
      if (SHAPE[s].m == 1) CHECK(grad[D + 1] == 0);
      world_free(&w);
    }
  atvi_ctx_free(ctx);
}

static void best_sill_is_best(void) {
  atvi_ctx *ctx = test_ctx();
  world w = world_new(9, D, 5, false);
  atvi_em_opts o = some_opts(ATVI_EM_MATERN52);
  double top, got, grad[D + 3];
  atvi_emulator *em;
  o.sill = NAN;
  CHECK_OK(atvi_gp_emulator_log_lik(ctx, &w.runs, &o, &top, grad));
  CHECK_ABS(grad[D + 2], 0, 1e-10 * 45);
  CHECK_OK(atvi_gp_emulator_new(ctx, &w.runs, &o, &em));
  CHECK_REL(atvi_gp_emulator_info(em)->log_lik, top, 1e-13);
  o.sill = atvi_gp_emulator_info(em)->sill;
  CHECK_OK(atvi_gp_emulator_log_lik(ctx, &w.runs, &o, &got, grad));
  CHECK_REL(got, top, 1e-13);
  o.sill *= 1.02;
  CHECK_OK(atvi_gp_emulator_log_lik(ctx, &w.runs, &o, &got, grad));
  CHECK(got < top);
  atvi_gp_emulator_free(em);
  world_free(&w);
  atvi_ctx_free(ctx);
}

static void tells_what_it_cannot_do(void) {
  atvi_ctx *ctx = test_ctx();
  world w = world_new(7, D, 4, false);
  atvi_em_opts o = some_opts(ATVI_EM_SQUARED);
  double got;
  memcpy(w.x + D, w.x, D * sizeof *w.x); /* equal points */
  o.nugget = 1e-40;
  CHECK_OK(atvi_gp_emulator_log_lik(ctx, &w.runs, &o, &got, NULL));
  CHECK(isnan(got));
  o.nugget = NAN;
  CHECK_STATUS(atvi_gp_emulator_log_lik(ctx, &w.runs, &o, &got, NULL), ATVI_EINVAL);
  o = some_opts(ATVI_EM_SQUARED), o.length = NULL;
  CHECK_STATUS(atvi_gp_emulator_log_lik(ctx, &w.runs, &o, &got, NULL), ATVI_EINVAL);
  o = some_opts(ATVI_EM_SQUARED), o.time_length = NAN;
  CHECK_STATUS(atvi_gp_emulator_log_lik(ctx, &w.runs, &o, &got, NULL), ATVI_EINVAL);
  o = some_opts(ATVI_EM_SQUARED), w.y[3] = INFINITY;
  CHECK_STATUS(atvi_gp_emulator_log_lik(ctx, &w.runs, &o, &got, NULL), ATVI_EDATA);
  world_free(&w);
  atvi_ctx_free(ctx);
}

static void survives_missing_memory(void) {
  for (int irregular = 0; irregular <= 1; irregular++) {
    world w = world_new(5, D, 7, irregular);
    atvi_em_opts o = some_opts(ATVI_EM_MATERN32);
    atvi_ctx *ctx = test_ctx();
    double got;
    long live = test_live;
    for (int k = 1;; k++) {
      test_fail_at = test_allocs + k;
      atvi_status s = atvi_gp_emulator_log_lik(ctx, &w.runs, &o, &got, NULL);
      CHECK_INT(test_live, live);
      if (s == ATVI_OK) break;
      CHECK_INT(s, ATVI_ENOMEM);
      CHECK(k < 20);
    }
    test_fail_at = 0;
    atvi_ctx_free(ctx);
    world_free(&w);
  }
}

/* Outputs drawn from the model: lengths, nugget and range in time come back. */
static void finds_the_values_that_made_the_runs(void) {
  enum { N = 160, M = 40 };
  static double l[N * N], c[M * M], z[N * M], y[N * M];
  const double length[2] = {0.41, 1.9};
  atvi_ctx *ctx = test_ctx();
  for (int k = ATVI_EM_EXPONENTIAL; k <= ATVI_EM_SQUARED; k++) {
    world w = world_new(N, 2, M, true);
    atvi_em_opts o;
    atvi_gp_em_defaults(&o);
    o.kernel = (atvi_em_kernel)k, o.length = length, o.nugget = 0.032, o.time_length = 6.3, o.sill = 12.7;
    atvi_rng r = atvi_math_rng_at(3, ATVI_STREAM_TEST, (uint32_t)k, 0);
    for (int i = 0; i < N; i++)
      for (int j = 0; j < N; j++)
        l[i * N + j] = dense_corr(o.kernel, 2, length, w.x + 2 * i, w.x + 2 * j) + (i == j ? o.nugget : 0);
    for (int s = 0; s < M; s++)
      for (int t = 0; t < M; t++) c[s * M + t] = exp(-fabs(w.time[s] - w.time[t]) / o.time_length);
    CHECK(atvi_math_cholesky(N, l) && atvi_math_cholesky(M, c));
    for (int i = 0; i < N * M; i++) z[i] = atvi_math_rng_normal(&r), y[i] = 0, w.y[i] = 0;
    for (int i = 0; i < N; i++)
      for (int j = 0; j <= i; j++)
        for (int t = 0; t < M; t++) y[i * M + t] += l[i * N + j] * z[j * M + t];
    for (int i = 0; i < N; i++)
      for (int t = 0; t < M; t++)
        for (int s = 0; s <= t; s++) w.y[i * M + t] += sqrt(o.sill) * c[t * M + s] * y[i * M + s];
    double zero[M] = {0}, truth;
    w.runs.mean = zero;
    CHECK_OK(atvi_gp_emulator_log_lik(ctx, &w.runs, &o, &truth, NULL));
    atvi_em_opts free_opts;
    atvi_gp_em_defaults(&free_opts);
    free_opts.kernel = o.kernel;
    atvi_emulator *em;
    CHECK_OK(atvi_gp_emulator_new(ctx, &w.runs, &free_opts, &em));
    const atvi_em_info *f = atvi_gp_emulator_info(em);
    CHECK(f->log_lik > truth &&
          f->log_lik < truth + 12); /* twice the difference is chi squared with 5 degrees */
    /* 6400 numbers, some 0.02 on the log scale for what acts at every point, 0.1 for a length of many
     * spacings. */
    CHECK_ABS(log(f->length[0] / length[0]), 0, 0.25);
    CHECK_ABS(log(f->length[1] / length[1]), 0, 0.4);
    CHECK_ABS(log(f->nugget / o.nugget), 0, 0.5);
    CHECK_ABS(log(f->time_length / o.time_length), 0, 0.2);
    atvi_gp_emulator_free(em);
    world_free(&w);
  }
  atvi_ctx_free(ctx);
}

static void gradient_vanishes(atvi_ctx *ctx, const atvi_em_runs *r, const atvi_emulator *em) {
  const atvi_em_info *f = atvi_gp_emulator_info(em);
  atvi_em_opts o;
  atvi_gp_em_defaults(&o);
  double got, grad[MOST_D + 3];
  o.length = f->length, o.nugget = f->nugget, o.time_length = f->time_length, o.sill = f->sill;
  CHECK_OK(atvi_gp_emulator_log_lik(ctx, r, &o, &got, grad));
  CHECK_REL(got, f->log_lik, 1e-12);
  for (atvi_idx j = 0; j < r->d + 3; j++) {
    bool at_bound = (j < r->d && (f->length[j] > 9999 || f->length[j] < 1.001e-3)) ||
                    (j == r->d && f->nugget < 1.001e-10);
    if (!at_bound) CHECK_ABS(grad[j], 0, 1e-6 * (double)(r->n * r->m) + 1e-3);
  }
}

/* More runs than the search takes at first: it ends at a maximum of the whole likelihood all the same. */
static void many_runs_end_at_the_same_place(void) {
  atvi_ctx *ctx = test_ctx();
  world w = world_new(640, 2, 2, false);
  atvi_rng r = atvi_math_rng_at(4, ATVI_STREAM_TEST, 0, 0);
  for (int i = 0; i < 1280; i++) w.y[i] += 0.2 * atvi_math_rng_normal(&r);
  atvi_em_opts o;
  atvi_emulator *em;
  atvi_gp_em_defaults(&o);
  o.starts = 2;
  CHECK_OK(atvi_gp_emulator_new(ctx, &w.runs, &o, &em));
  gradient_vanishes(ctx, &w.runs, em);
  atvi_gp_emulator_free(em);
  world_free(&w);
  atvi_ctx_free(ctx);
}

static void threads_change_nothing(void) {
  world w = world_new(30, 2, 8, true);
  atvi_em_info one = {0};
  double length[2];
  for (int threads = 1; threads <= 4; threads++) {
    atvi_ctx *ctx = test_ctx();
    atvi_ctx_set_threads(ctx, threads);
    atvi_emulator *em;
    CHECK_OK(atvi_gp_emulator_new(ctx, &w.runs, NULL, &em));
    const atvi_em_info *f = atvi_gp_emulator_info(em);
    if (threads == 1) {
      one = *f;
      memcpy(length, f->length, sizeof length);
      CHECK(one.agreed >= 1 && one.agreed <= one.starts && one.evals > one.starts);
      gradient_vanishes(ctx, &w.runs, em);
    }
    CHECK(memcmp(length, f->length, sizeof length) == 0);
    CHECK(f->nugget == one.nugget && f->time_length == one.time_length && f->sill == one.sill);
    CHECK_REL(f->log_lik, one.log_lik, 0);
    CHECK_INT(f->agreed, one.agreed);
    CHECK_INT(f->evals, one.evals);
    atvi_gp_emulator_free(em);
    atvi_ctx_free(ctx);
  }
  world_free(&w);
}

static bool at_once(void *user) {
  int *asked = user;
  return ++*asked > 3;
}

static void stops_when_asked(void) {
  atvi_ctx *ctx = test_ctx();
  world w = world_new(30, 2, 8, false);
  atvi_emulator *em;
  int asked = 0;
  atvi_ctx_set_stop(ctx, at_once, &asked);
  CHECK_STATUS(atvi_gp_emulator_new(ctx, &w.runs, NULL, &em), ATVI_ESTOP);
  CHECK(em == NULL);
  CHECK_INT(asked, 4); /* and does not go on asking */
  world_free(&w);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

/* An input that is never changed, and one that is but has no effect. */
static void inputs_that_do_not_matter_get_long_lengths(void) {
  atvi_ctx *ctx = test_ctx();
  world w = world_new(60, 5, 3, false);
  for (int i = 0; i < 60; i++) w.x[i * 5 + 3] = 0.37;
  atvi_emulator *em;
  CHECK_OK(atvi_gp_emulator_new(ctx, &w.runs, NULL, &em));
  const atvi_em_info *f = atvi_gp_emulator_info(em);
  CHECK_REL(f->length[3], 1e4, 1e-12);
  CHECK(f->length[4] > 20 && f->length[4] > 5 * f->length[0]);
  atvi_gp_emulator_free(em);
  world_free(&w);
  atvi_ctx_free(ctx);
}

TESTS({"dense", is_that_of_the_dense_normal}, {"gradient", gradient_is_that_of_differences},
      {"sill", best_sill_is_best}, {"status", tells_what_it_cannot_do}, {"memory", survives_missing_memory},
      {"recovery", finds_the_values_that_made_the_runs}, {"many", many_runs_end_at_the_same_place},
      {"threads", threads_change_nothing}, {"stop", stops_when_asked},
      {"irrelevant", inputs_that_do_not_matter_get_long_lengths})
