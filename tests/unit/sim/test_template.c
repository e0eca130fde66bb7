/* SPDX-License-Identifier: MIT */
#include "sim/simulator.h"
#include "testing.h"

static const char *const NAME[] = {"k", "m", "theta.1"};
static const double VALUE[] = {0.1, -2.385e-7, 3};

static const char *filled(atvi_pool *pool, const char *text) {
  atvi_template *t;
  atvi_text out = {.pool = pool};
  const char *got;
  CHECK_OK(
      atvi_sim_template_parse(pool, (atvi_template_place){"x.tmpl", 1, 1}, text, strlen(text), 3, NAME, &t));
  atvi_sim_template_fill(t, VALUE, &out);
  CHECK_OK(atvi_io_text_get(&out, &got));
  return got;
}

static void fields_get_their_values(void) {
  atvi_ctx *ctx = test_ctx();
  atvi_pool *pool;
  CHECK_OK(atvi_pool_new(ctx, &pool));
  CHECK_STR(filled(pool, ""), "");
  CHECK_STR(filled(pool, "no field\n"), "no field\n");
  CHECK_STR(filled(pool, "a {theta.1} b {theta[1]} c { theta.1 }"), "a 3 b 3 c 3");
  CHECK_STR(filled(pool, "{{\"k\": {theta.1}}}"), "{\"k\": 3}");
  CHECK_STR(filled(pool, "{{{{}}}}"), "{{}}");
  /* every digit arrives */
  CHECK(strtod(filled(pool, "{k}"), NULL) == VALUE[0]);
  CHECK(strtod(filled(pool, "{m}"), NULL) == VALUE[1]);
  atvi_template *t;
  CHECK_OK(atvi_sim_template_parse(pool, (atvi_template_place){"x", 1, 1}, "{m}{m}", 6, 3, NAME, &t));
  CHECK(atvi_sim_template_uses(t, 1) && !atvi_sim_template_uses(t, 0));
  atvi_pool_free(pool);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

static void mistakes_are_told_with_their_place(void) {
  static const struct {
    const char *text, *place, *word;
  } wrong[] = {
      {"a\nb {kk} c\n", "x.tmpl:2:3: error:", "did you mean {k}?"},
      {"one {k\n}", "x.tmpl:1:5: error:", "not closed"},
      {"{k", "x.tmpl:1:1: error:", "not closed"},
      {"x }", "x.tmpl:1:3: error:", "}}"},
      {"\n\n {} ", "x.tmpl:3:2: error:", "empty name"},
      {"{a{k}}", "x.tmpl:1:1: error:", "not closed"},
      {"awk '{print $1}'", "x.tmpl:1:6: error:", "{{"},
      {"{theta[1}", "x.tmpl:1:1: error:", "no parameter theta[1\n"},
      {"{theta.1]}", "x.tmpl:1:1: error:", "did you mean {theta.1}?"},
      {"{theta,1}", "x.tmpl:1:1: error:", "no parameter theta,1\n"},
      {"{theta[1]]}", "x.tmpl:1:1: error:", "no parameter theta[1]]\n"},
  };
  atvi_ctx *ctx = test_ctx();
  atvi_pool *pool;
  atvi_template *t;
  CHECK_OK(atvi_pool_new(ctx, &pool));
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    CHECK_STATUS(atvi_sim_template_parse(pool, (atvi_template_place){"x.tmpl", 1, 1}, wrong[i].text,
                                         strlen(wrong[i].text), 3, NAME, &t),
                 ATVI_EMODEL);
    CHECK(t == NULL);
    CHECK_MSG(strstr(atvi_errmsg(ctx), wrong[i].place) && strstr(atvi_errmsg(ctx), wrong[i].word), "%s",
              atvi_errmsg(ctx));
  }
  CHECK_STATUS(
      atvi_sim_template_parse(pool, (atvi_template_place){"m.atvi", 7, 12}, "run {q}", 7, 3, NAME, &t),
      ATVI_EMODEL);
  CHECK(strstr(atvi_errmsg(ctx), "m.atvi:7:16: error:"));
  CHECK_STATUS(atvi_sim_template_parse(pool, (atvi_template_place){"x", 1, 1}, "a\0b", 3, 3, NAME, &t),
               ATVI_EMODEL);
  CHECK_STATUS(atvi_sim_template_parse(pool, (atvi_template_place){"x", 1, 1}, "{k\0}", 4, 3, NAME, &t),
               ATVI_EMODEL);
  atvi_pool_free(pool);
  atvi_ctx_free(ctx);
}

static void no_memory_is_told(void) {
  atvi_ctx *ctx = test_ctx();
  atvi_pool *pool;
  atvi_template *t;
  CHECK_OK(atvi_pool_new(ctx, &pool));
  char *big = malloc(1 << 20);
  memset(big, 'x', 1 << 20);
  test_fail_at = test_allocs + 1;
  CHECK_STATUS(atvi_sim_template_parse(pool, (atvi_template_place){"x", 1, 1}, big, 1 << 20, 3, NAME, &t),
               ATVI_ENOMEM);
  CHECK(t == NULL);
  free(big);
  atvi_pool_free(pool);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

TESTS({"fields", fields_get_their_values}, {"mistakes", mistakes_are_told_with_their_place},
      {"memory", no_memory_is_told})
