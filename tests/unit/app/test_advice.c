/* SPDX-License-Identifier: MIT */
#include "app/common.h"
#include "testing.h"

/* Every piece of advice is whole sentences, with or without an option or a command in them. */
static void is_whole_sentences(void) {
  int n = 0;
  for (int k = 0; k < ATVI_CODES; k++) {
    const char *advice = atvi_app_advice((atvi_code)k);
    if (!advice) continue;
    size_t length = strlen(advice);
    n++;
    CHECK_MSG(length > 10 && advice[length - 1] == '.' && !strchr(advice, '\n'), "%s: %s",
              atvi_code_name((atvi_code)k), advice);
    CHECK_MSG(strchr("-'", advice[0]) || (advice[0] >= 'A' && advice[0] <= 'Z'), "%s", advice);
  }
  CHECK(n > 20);
  CHECK(!atvi_app_advice(ATVI_CODE_NONE) && !atvi_app_advice(ATVI_CODES));
}

static atvi_draws *five(atvi_ctx *ctx) {
  const atvi_column col = {"a", 0, 1};
  atvi_draws *d;
  CHECK_OK(atvi_draws_new(ctx, 5, 1, 1, 1, &col, false, &d));
  for (int i = 0; i < 5; i++) d->x[i] = 0.3 + 0.1 * i;
  d->made->method = "map";
  return d;
}

/* The summary has the draws' message of every code with the advice after it, and severities as they were. */
static void follows_every_message(void) {
  for (int k = 0; k < ATVI_CODES; k++) {
    atvi_ctx *ctx = test_ctx();
    atvi_pool *pool;
    atvi_summary *s;
    atvi_draws *d = five(ctx);
    const char *advice = atvi_app_advice((atvi_code)k);
    CHECK_OK(atvi_pool_new(ctx, &pool));
    CHECK_OK(atvi_draws_say(d, ATVI_SERIOUS, (atvi_code)k, "It is so."));
    CHECK_OK(atvi_draws_say(d, ATVI_NOTE, (atvi_code)k, "Again."));
    CHECK_OK(atvi_app_advised_summary(pool, d, &s));
    CHECK(s->verdict == ATVI_VERDICT_BAD && s->n_message >= 2);
    const atvi_message *m = &s->message[s->n_message - 2];
    CHECK_STR(m->text, advice ? atvi_pool_printf(pool, "It is so. %s", advice) : "It is so.");
    CHECK(m->severity == ATVI_SERIOUS && m->code == (atvi_code)k && atvi_diag_summary_reason(s) == m);
    CHECK_STR(m[1].text, "Again."); /* said once */
    atvi_draws_free(d);
    atvi_pool_free(pool);
    atvi_ctx_free(ctx);
    CHECK_INT(test_live, 0);
  }
}

static void memory_failures_leave_nothing(void) {
  atvi_ctx *ctx = test_ctx();
  atvi_ctx_set_threads(ctx, 1);
  atvi_draws *d = five(ctx);
  CHECK_OK(atvi_draws_say(d, ATVI_NOTE, ATVI_CODE_LIMIT, "It ended."));
  long live = test_live, k = 1;
  for (;; k++) {
    atvi_pool *pool;
    atvi_summary *s = NULL;
    CHECK_OK(atvi_pool_new(ctx, &pool));
    test_fail_at = test_allocs + k;
    atvi_status status = atvi_app_advised_summary(pool, d, &s);
    test_fail_at = 0;
    atvi_pool_free(pool);
    CHECK_INT(test_live, live);
    if (status == ATVI_OK) break;
    CHECK(status == ATVI_ENOMEM && !s);
  }
  CHECK(k > 1);
  atvi_draws_free(d);
  atvi_ctx_free(ctx);
}

TESTS({"sentences", is_whole_sentences}, {"messages", follows_every_message},
      {"memory", memory_failures_leave_nothing})
