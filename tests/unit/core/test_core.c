/* SPDX-License-Identifier: MIT */
#include "core/core.h"
#include "testing.h"

static void blocks_are_aligned_zeroed_and_counted(void) {
  atvi_ctx *ctx = test_ctx();
  char *p = atvi_block(ctx, 1234);
  CHECK((uintptr_t)p % ATVI_ALIGN == 0);
  for (int i = 0; i < 1234; i++) CHECK(p[i] == 0);
  CHECK(atvi_block(ctx, SIZE_MAX) == NULL);
  atvi_block_free(ctx, p);
  atvi_block_free(ctx, NULL);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

/* Memory of malloc is not cleared twice, but it is cleared. */
static void blocks_that_are_used_again_are_zero(void) {
  atvi_ctx *ctx;
  CHECK_OK(atvi_ctx_new(NULL, &ctx));
  for (size_t n = 100; n < 1000000; n *= 3) {
    for (int again = 0; again < 3; again++) {
      unsigned char *p = atvi_block(ctx, n);
      for (size_t i = 0; i < n; i++) CHECK(p[i] == 0);
      memset(p, 0xa5, n);
      atvi_block_free(ctx, p);
    }
  }
  atvi_ctx_free(ctx);
}

static void pool_keeps_pieces_and_fails_for_good(void) {
  atvi_ctx *ctx = test_ctx();
  atvi_pool *pool;
  CHECK_OK(atvi_pool_new(ctx, &pool));
  int *arr = NULL;
  atvi_idx cap = 0;
  for (int n = 0; n < 100000; n++) {
    CHECK(ATVI_PUSH(pool, arr, n, cap));
    arr[n] = 3 * n;
  }
  for (int n = 0; n < 100000; n++) CHECK(arr[n] == 3 * n);
  CHECK_STR(atvi_pool_printf(pool, "%s-%d", "ab", 7), "ab-7");
  test_fail_at = test_allocs + 1;
  CHECK(atvi_pool_take(pool, 1 << 20, 1) == NULL);
  CHECK(atvi_pool_failed(pool));
  CHECK(atvi_pool_take(pool, 1, 1) == NULL);
  atvi_pool_free(pool);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

static void failure_keeps_its_message(void) {
  atvi_ctx *ctx = test_ctx();
  CHECK_STR(atvi_errmsg(ctx), "");
  CHECK_STATUS(ATVI_FAIL(ctx, ATVI_EIO, "file %s", "x.csv"), ATVI_EIO);
  CHECK_STR(atvi_errmsg(ctx), "file x.csv");
  CHECK_INT(atvi_errcode(ctx), ATVI_CODE_NONE);
  CHECK_STATUS(ATVI_FAIL_AS(ctx, ATVI_EMODEL, ATVI_CODE_NO_GRADIENT, "no %d", 7), ATVI_EMODEL);
  CHECK_STR(atvi_errmsg(ctx), "no 7");
  CHECK_INT(atvi_errcode(ctx), ATVI_CODE_NO_GRADIENT);
  CHECK_STATUS(ATVI_FAIL(ctx, ATVI_EIO, "another"),
               ATVI_EIO); /* and the code is not that of the one before */
  CHECK_INT(atvi_errcode(ctx), ATVI_CODE_NONE);
  atvi_ctx_free(ctx);
  test_fail_at = test_allocs + 1;
  CHECK_STATUS(atvi_ctx_new(&test_allocator, &ctx), ATVI_ENOMEM);
  CHECK(ctx == NULL);
}

/* Names stand in files: all different, of small letters and hyphens, and found again. */
static void codes_have_names(void) {
  for (int k = 0; k < ATVI_CODES; k++) {
    const char *name = atvi_code_name((atvi_code)k);
    atvi_code back = ATVI_CODES;
    CHECK_MSG(name && *name && strspn(name, "abcdefghijklmnopqrstuvwxyz-") == strlen(name), "code %d", k);
    CHECK(atvi_code_find(name, &back));
    CHECK_INT(back, k);
  }
  for (int k = 0; k <= ATVI_SERIOUS; k++) {
    atvi_severity back = ATVI_NOTE;
    CHECK(atvi_severity_find(atvi_severity_name((atvi_severity)k), &back));
    CHECK_INT(back, k);
  }
  atvi_code code = ATVI_CODE_RHAT;
  CHECK(!atvi_code_find("of-a-later-version", &code) && code == ATVI_CODE_RHAT);
  CHECK_STR(atvi_code_name(ATVI_CODES), "none");
  CHECK_STR(atvi_code_name(ATVI_CODE_KHAT_REFUSED), "khat-refused");
  for (int k = 0; k <= ATVI_RUN_STEADY; k++) CHECK(atvi_outcome_code((atvi_outcome)k) != ATVI_CODE_NONE);
}

typedef struct {
  int seen[1000];
  int by[8];
} tally;

static void count(void *arg, atvi_idx item, int worker) {
  tally *t = arg;
  t->seen[item]++;
  t->by[worker]++;
}

/* Jobs that end before all threads have come: those that come late do not touch the next one. */
static void jobs_follow_each_other_quickly(void) {
  atvi_ctx *ctx = test_ctx();
  atvi_ctx_set_threads(ctx, 8);
  for (int again = 0; again < 20000; again++) {
    tally t = {0};
    int n = 2 + again % 9;
    atvi_parallel(ctx, n, count, &t);
    for (int i = 0; i < 1000; i++) CHECK_INT(t.seen[i], i < n);
  }
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

static void parallel_runs_every_item_once(void) {
  atvi_ctx *ctx = test_ctx();
  for (int threads = 1; threads <= 4; threads++) {
    atvi_ctx_set_threads(ctx, threads);
    for (int again = 0; again < 50; again++) {
      tally t = {0};
      atvi_parallel(ctx, 1000, count, &t);
      int sum = 0;
      for (int i = 0; i < 1000; i++) CHECK_INT(t.seen[i], 1);
      for (int i = 0; i < 8; i++) sum += t.by[i];
      CHECK_INT(sum, 1000);
    }
  }
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

static void statuses_have_names(void) {
  CHECK_STR(atvi_status_name(ATVI_OK), "ok");
  CHECK_STR(atvi_status_name(ATVI_ELIMIT), "limit reached");
  for (int k = 0; k >= ATVI_ELIMIT; k--)
    CHECK(strcmp(atvi_status_name((atvi_status)k), "unknown status") != 0);
  CHECK_STR(atvi_status_name((atvi_status)1), "unknown status");
  CHECK_STR(atvi_status_name((atvi_status)(ATVI_ELIMIT - 1)), "unknown status");
}

TESTS({"statuses", statuses_have_names}, {"blocks", blocks_are_aligned_zeroed_and_counted},
      {"pool", pool_keeps_pieces_and_fails_for_good}, {"failure", failure_keeps_its_message},
      {"codes", codes_have_names}, {"parallel", parallel_runs_every_item_once},
      {"again", blocks_that_are_used_again_are_zero}, {"quickly", jobs_follow_each_other_quickly})
