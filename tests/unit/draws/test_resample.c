/* SPDX-License-Identifier: MIT */
#include "atvi/draws.h"
#include "testing.h"

enum { N = 500 };

/* Draw i has the value i in its first column, -i in the second. */
static atvi_draws *numbered(atvi_ctx *ctx, bool weighted) {
  static const atvi_column col[2] = {{"a", 0, N}, {"minus", -HUGE_VAL, HUGE_VAL}};
  atvi_draws *d;
  CHECK_OK(atvi_draws_new(ctx, N, 1, 1, 2, col, weighted, &d));
  for (int i = 0; i < N; i++) {
    d->x[i] = i;
    d->x[N + i] = -i;
    d->log_prior[i] = 0.5 * i;
    d->log_lik[i] = -2.0 * i;
  }
  return d;
}

static void count(const atvi_draws *d, int times[N]) {
  memset(times, 0, N * sizeof *times);
  for (atvi_idx k = 0; k < d->n; k++) {
    int i = (int)d->x[k];
    CHECK(d->x[d->n + k] == -i && d->log_prior[k] == 0.5 * i && d->log_lik[k] == -2.0 * i);
    times[i]++;
  }
}

/* The whole point of systematic resampling: a count is n w rounded up or down. */
static void counts_are_the_weights_within_one(void) {
  atvi_ctx *ctx = test_ctx();
  atvi_draws *d = numbered(ctx, true), *r;
  double all = 0;
  int times[N];
  for (int i = 0; i < N; i++) {
    d->weight[i] = i % 7 == 0 || i < 3 || i >= N - 4 ? 0 : 0.1 + fabs(sin(1.7 * i)) * (i % 31 == 5 ? 20 : 1);
    all += d->weight[i];
  }
  for (atvi_idx n = 1; n < 20000; n = 3 * n + 1) {
    for (uint64_t seed = 1; seed <= 5; seed++) {
      CHECK_OK(atvi_draws_resample(d, n, seed, &r));
      CHECK(r->n == n && !r->weight && !r->chains && r->n_chain == 1 && r->n_param == 1 && r->n_col == 2);
      count(r, times);
      for (int i = 0; i < N; i++) {
        double want = (double)n * d->weight[i] / all;
        CHECK_MSG(fabs(times[i] - want) < 1 + 1e-9, "draw %d: %d times, want %g", i, times[i], want);
        if (d->weight[i] == 0) CHECK_INT(times[i], 0);
      }
      atvi_draws_free(r);
    }
  }
  atvi_draws_free(d);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

/* Over seeds the mean count is n w: the uniform number is uniform. */
static void is_unbiased(void) {
  atvi_ctx *ctx = test_ctx();
  atvi_draws *d = numbered(ctx, true), *r;
  enum { SEEDS = 2000 };
  for (int i = 0; i < N; i++) d->weight[i] = i == 17 ? 0.3 / 4 : i == 403 ? 1.9 / 4 : i == 404 ? 1.8 / 4 : 0;
  double sum = 0;
  for (uint64_t seed = 0; seed < SEEDS; seed++) {
    int times[N];
    CHECK_OK(atvi_draws_resample(d, 4, seed, &r));
    count(r, times);
    sum += times[17]; /* 0 or 1, with probability 0.3 */
    atvi_draws_free(r);
  }
  CHECK_ABS(sum / SEEDS, 0.3, 4 * sqrt(0.3 * 0.7 / SEEDS));
  atvi_draws_free(d);
  atvi_ctx_free(ctx);
}

static void is_shuffled_and_repeatable(void) {
  atvi_ctx *ctx = test_ctx();
  atvi_draws *d = numbered(ctx, false), *a, *b, *c;
  int times[N];
  CHECK_OK(atvi_draws_resample(d, N, 11, &a));
  count(a, times); /* without weights and as many as there are: a permutation */
  for (int i = 0; i < N; i++) CHECK_INT(times[i], 1);
  double mean = (N - 1) / 2.0, lag = 0, rank = 0, var = (N * (double)N - 1) / 12;
  for (int k = 0; k + 1 < N; k++) lag += (a->x[k] - mean) * (a->x[k + 1] - mean) / var / N;
  for (int k = 0; k < N; k++) rank += (a->x[k] - mean) * (k - mean) / var / N;
  CHECK_ABS(lag, 0, 4 / sqrt((double)N)); /* correlations of a random order have sd 1/sqrt(N) */
  CHECK_ABS(rank, 0, 4 / sqrt((double)N));
  CHECK_OK(atvi_draws_resample(d, N, 11, &b));
  CHECK_OK(atvi_draws_resample(d, N, 12, &c));
  CHECK(memcmp(a->x, b->x, N * sizeof *a->x) == 0 && memcmp(a->x, c->x, N * sizeof *a->x) != 0);
  atvi_draws_free(a);
  atvi_draws_free(b);
  atvi_draws_free(c);
  atvi_draws_free(d);
  atvi_ctx_free(ctx);
}

static void what_is_known_goes_along(void) {
  atvi_ctx *ctx = test_ctx();
  atvi_draws *d = numbered(ctx, true), *r;
  char method[] = "atvi";
  d->made->method = method;
  d->made->model = "Cold";
  d->made->khat = 0.31;
  d->made->log_evidence = -97.9;
  d->made->mode_draw = 3;
  d->made->seed = 5;
  CHECK_OK(atvi_draws_say(d, ATVI_NOTE, ATVI_CODE_NONE, "First, 5 %%."));
  CHECK_OK(atvi_draws_say(d, ATVI_NOTE, ATVI_CODE_NONE, "Second."));
  CHECK_OK(atvi_draws_resample(d, 3, 1, &r));
  atvi_draws_free(d);
  method[0] = 'x';
  CHECK_STR(r->made->method, "atvi");
  CHECK_STR(r->made->model, "Cold");
  CHECK(r->made->khat == 0.31 && r->made->log_evidence == -97.9 && r->made->seed == 5);
  CHECK(isnan(r->made->mode_draw)); /* draw 3 is another one now */
  CHECK_INT(r->n_message, 2);
  CHECK_STR(r->message[0].text, "First, 5 %.");
  CHECK_STR(r->col[1].name, "minus");
  CHECK(r->col[0].upper == N);
  atvi_draws_free(r);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

static void refuses_what_cannot_be(void) {
  atvi_ctx *ctx = test_ctx();
  atvi_draws *d = numbered(ctx, true), *r = d;
  CHECK_STATUS(atvi_draws_resample(d, 0, 1, &r), ATVI_EINVAL);
  CHECK(r == NULL && strstr(atvi_errmsg(ctx), "n = 0"));
  CHECK_STATUS(atvi_draws_resample(d, PTRDIFF_MAX, 1, &r), ATVI_ENOMEM);
  for (int i = 0; i < N; i++) d->weight[i] = 0;
  r = d;
  CHECK_STATUS(atvi_draws_resample(d, 5, 1, &r), ATVI_EINVAL);
  CHECK(r == NULL && strstr(atvi_errmsg(ctx), "above zero"));
  d->weight[N - 1] = NAN;
  CHECK_STATUS(atvi_draws_resample(d, 5, 1, &r), ATVI_EINVAL);
  atvi_draws_free(d);
  atvi_ctx_free(ctx);
}

static void memory_failures_leave_nothing(void) {
  atvi_ctx *ctx = test_ctx();
  atvi_draws *d = numbered(ctx, true), *r;
  d->made->method = "atvi";
  CHECK_OK(atvi_draws_say(d, ATVI_NOTE, ATVI_CODE_NONE, "A sentence."));
  long live = test_live, k = 1;
  for (;; k++) {
    test_fail_at = test_allocs + k;
    atvi_status status = atvi_draws_resample(d, 40, 1, &r);
    if (status == ATVI_OK) break;
    CHECK_INT(status, ATVI_ENOMEM);
    CHECK(r == NULL);
    CHECK_INT(test_live, live);
  }
  CHECK(k >= 3);
  atvi_draws_free(r);
  atvi_draws_free(d);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

TESTS({"counts", counts_are_the_weights_within_one}, {"unbiased", is_unbiased},
      {"shuffled", is_shuffled_and_repeatable}, {"words", what_is_known_goes_along},
      {"refuses", refuses_what_cannot_be}, {"memory", memory_failures_leave_nothing})
