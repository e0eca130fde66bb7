/* SPDX-License-Identifier: MIT */
/* Lists and times on the command line. */
#include "app/common.h"
#include "testing.h"

static void lists(void) {
  const char *at = " beta, gamma\t,,S0 ", *item;
  const char *const want[] = {"beta", "gamma", "", "S0"};
  size_t n;
  for (int i = 0; i < 4; i++) {
    CHECK(atvi_app_next(&at, &item, &n));
    CHECK_INT((long)n, (long)strlen(want[i]));
    CHECK(strncmp(item, want[i], n) == 0);
  }
  CHECK(!atvi_app_next(&at, &item, &n));
  at = "";
  CHECK(atvi_app_next(&at, &item, &n) && n == 0 && !at);
}

static void times(void) {
  atvi_ctx *ctx = test_ctx();
  atvi_pool *pool;
  atvi_idx n;
  double *t;
  CHECK_OK(atvi_pool_new(ctx, &pool));
  CHECK_OK(atvi_app_times(ctx, pool, NULL, NULL, &n, &t));
  CHECK(n == 0 && !t);
  CHECK_OK(atvi_app_times(ctx, pool, "1.5: 3 :0.5", NULL, &n, &t));
  CHECK_INT(n, 4);
  CHECK(t[0] == 1.5 && t[3] == 3);
  CHECK_OK(atvi_app_times(ctx, pool, "0:0.3:0.1", NULL, &n, &t)); /* 0.3 / 0.1 is below 3 */
  CHECK_INT(n, 4);
  CHECK_OK(atvi_app_times(ctx, pool, "-2, 0.25 ,7", NULL, &n, &t));
  CHECK_INT(n, 3);
  CHECK(t[0] == -2 && t[1] == 0.25 && t[2] == 7);
  static const char *const wrong[][2] = {
      {"", "'' is not a number"},         {"1,2,", "'' is not a number"},     {"1:x", "'x' is not a number"},
      {"1:2:3:4", "more than three"},     {"3:1", "1, is before the first"},  {"1:3:0", "the step is 0"},
      {"1:3:-1", "the step is -1"},       {"0:1e7", "at most 1000000"},       {"1,3,3", "3 comes after 3"},
      {"1,inf", "'inf' is not a number"}, {"1,nan", "'nan' is not a number"},
  };
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    CHECK_STATUS(atvi_app_times(ctx, pool, wrong[i][0], NULL, &n, &t), ATVI_EINVAL);
    CHECK_MSG(strstr(atvi_errmsg(ctx), wrong[i][1]) != NULL, "%s: %s", wrong[i][0], atvi_errmsg(ctx));
  }
  atvi_pool_free(pool);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

static void times_without_memory(void) {
  static const char *const text[] = {"1:3", "1,2,4"};
  atvi_ctx *ctx = test_ctx();
  for (int k = 0; k < 2; k++)
    for (long fail = 1;; fail++) {
      atvi_pool *pool;
      atvi_idx n;
      double *t;
      CHECK_OK(atvi_pool_new(ctx, &pool));
      test_allocs = 0;
      test_fail_at = fail;
      atvi_status status = atvi_app_times(ctx, pool, text[k], NULL, &n, &t);
      test_fail_at = 0;
      atvi_pool_free(pool);
      if (status == ATVI_OK) break;
      CHECK_STATUS(status, ATVI_ENOMEM);
    }
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

static void dates(void) {
  atvi_ctx *ctx = test_ctx();
  atvi_pool *pool;
  atvi_idx n;
  double *t;
  char date[ATVI_APP_DATE];
  /* 2023-01-02 is day 19359 */
  const atvi_lang day = {.time.calendar = {19359, 1}}, none = {0};
  const atvi_lang week = {.time.calendar = {19359, 7}};
  CHECK_OK(atvi_pool_new(ctx, &pool));
  CHECK_OK(atvi_app_times(ctx, pool, "2023-06-12:2023-07-03:7", &day, &n, &t));
  CHECK_INT(n, 4);
  CHECK(t[0] == 161 && t[1] == 168 && t[3] == 182);
  CHECK_OK(atvi_app_times(ctx, pool, "2023-06-12 : 2023-07-03", &week, &n, &t)); /* the step is in the unit */
  CHECK_INT(n, 4);
  CHECK(t[0] == 23 && t[3] == 26);
  CHECK_OK(atvi_app_times(ctx, pool, "160, 2023-06-12,2024-02-29", &day, &n, &t));
  CHECK_INT(n, 3);
  CHECK(t[0] == 160 && t[1] == 161 && t[2] == 423);
  static const char *const wrong[][2] = {{"2023-06-12:2023-06-19:2023-06-26", "2023-06-26 is a date"},
                                         {"2023-06-31", "'2023-06-31' is not a number"},
                                         {"2023-06-12,2023-06-12", "161 comes after 161"}};
  for (int i = 0; i < 3; i++) {
    CHECK_STATUS(atvi_app_times(ctx, pool, wrong[i][0], &day, &n, &t), ATVI_EINVAL);
    CHECK_MSG(strstr(atvi_errmsg(ctx), wrong[i][1]) != NULL, "%s: %s", wrong[i][0], atvi_errmsg(ctx));
  }
  CHECK_STATUS(atvi_app_times(ctx, pool, "2023-06-12", &none, &n, &t), ATVI_EINVAL);
  CHECK(strstr(atvi_errmsg(ctx), "only if the model has a calendar") != NULL);
  static const struct {
    double t;
    const char *day, *week;
  } is[] = {{0, "2023-01-02", "2023-01-02"},
            {-1, "2023-01-01", "2022-12-26"},
            {161, "2023-06-12", "2026-02-02"},
            {0.25, "2023-01-02T06:00", "2023-01-03"},
            {1 - 1e-12, "2023-01-03", "2023-01-09"},
            {1.5 + 7.0 / 86400, "2023-01-03T12:00:07", "2023-01-12"},
            {1e300, "", ""},
            {-0.5, "2023-01-01T12:00", "2022-12-29"}};
  for (size_t i = 0; i < sizeof is / sizeof is[0]; i++) {
    atvi_app_date(&day, is[i].t, date);
    CHECK_STR(date, is[i].day);
    atvi_app_date(&week, is[i].t, date);
    CHECK_STR(date, is[i].week);
    atvi_app_date(&none, is[i].t, date);
    CHECK_STR(date, "");
  }
  atvi_pool_free(pool);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

/* FNV-1a of "a" and of "foobar", from its authors' test vectors. */
static void hashes(void) {
  CHECK(atvi_hash(ATVI_HASH, "", 0) == 0xcbf29ce484222325u);
  CHECK(atvi_hash(ATVI_HASH, "a", 1) == 0xaf63dc4c8601ec8cu);
  CHECK(atvi_hash(atvi_hash(ATVI_HASH, "foo", 3), "bar", 3) == 0x85944171f73967e8u);
}

TESTS({"lists", lists}, {"times", times}, {"dates", dates}, {"times_without_memory", times_without_memory},
      {"hashes", hashes})
