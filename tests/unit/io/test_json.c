/* SPDX-License-Identifier: MIT */
#include "io/json.h"
#include "testing.h"

static void numbers_words_and_seeds(void) {
  atvi_ctx *ctx = test_ctx();
  atvi_pool *pool;
  const char *text;
  CHECK_OK(atvi_pool_new(ctx, &pool));
  atvi_json w = {.pool = pool};
  atvi_io_json_object(&w, NULL);
  atvi_io_json_put(&w, "a", atvi_io_json_real(2.385));
  atvi_io_json_put(&w, "b", atvi_io_json_real(NAN));
  atvi_io_json_put(&w, "c", atvi_io_json_pair(-HUGE_VAL, 0.1));
  atvi_io_json_put(&w, "d", atvi_io_json_word(pool, "na\xc3\xafve"));
  atvi_io_json_put(&w, "e", atvi_io_json_word(pool, "na\xefve"));
  atvi_io_json_put(&w, "f", atvi_io_json_word(pool, NULL));
  atvi_io_json_put(&w, "g", atvi_io_json_seed(pool, INT64_MAX));
  atvi_io_json_put(&w, "h", atvi_io_json_seed(pool, UINT64_MAX));
  CHECK_OK(atvi_io_json_get(&w, "test", &text));
  json_t *o = json_loads(text, 0, NULL);
  CHECK(o != NULL && text[strlen(text) - 1] == '\n');
  CHECK(json_real_value(json_object_get(o, "a")) == 2.385 && json_is_null(json_object_get(o, "b")));
  CHECK(json_is_null(json_array_get(json_object_get(o, "c"), 0)) && strstr(text, "0.1\n") != NULL);
  CHECK_STR(json_string_value(json_object_get(o, "d")), "na\xc3\xafve");
  CHECK_STR(json_string_value(json_object_get(o, "e")), "na?ve");
  CHECK(json_is_null(json_object_get(o, "f")));
  CHECK(json_integer_value(json_object_get(o, "g")) == INT64_MAX);
  CHECK_STR(json_string_value(json_object_get(o, "h")), "18446744073709551615");
  json_decref(o);
  atvi_pool_free(pool);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

static void written_in_order(void) {
  static const char *const word[] = {"a", NULL};
  atvi_ctx *ctx = test_ctx();
  atvi_pool *pool;
  const char *text;
  CHECK_OK(atvi_pool_new(ctx, &pool));
  atvi_json w = {.pool = pool};
  atvi_io_json_object(&w, NULL);
  atvi_io_json_put(&w, "x", atvi_io_json_real(0.1));
  atvi_io_json_list(&w, "list");
  atvi_io_json_object(&w, NULL);
  atvi_io_json_end(&w);
  atvi_io_json_put(&w, NULL, json_true());
  atvi_io_json_end(&w);
  atvi_io_json_words(&w, "words", 2, word);
  CHECK_OK(atvi_io_json_get(&w, "test", &text));
  CHECK_STR(text, "{\n  \"x\": 0.1,\n  \"list\": [\n    {},\n    true\n  ],\n"
                  "  \"words\": [\n    \"a\",\n    null\n  ]\n}\n");
  json_t *o = json_loads(text, 0, NULL);
  CHECK(atvi_io_json_number(o, "x") == 0.1 && isnan(atvi_io_json_number(o, "list")) &&
        isnan(atvi_io_json_number(NULL, "x")));
  json_decref(o);
  w = (atvi_json){.pool = pool, .digits = 17};
  atvi_io_json_list(&w, NULL);
  atvi_io_json_put(&w, NULL, atvi_io_json_real(0.1));
  CHECK_OK(atvi_io_json_get(&w, "test", &text));
  CHECK_STR(text, "[\n  0.10000000000000001\n]\n");
  atvi_pool_free(pool);
  atvi_ctx_free(ctx);
}

/* A value that could not be made, at any depth: what follows is taken and dropped, and the end says so. */
static void failure_is_remembered(void) {
  atvi_ctx *ctx = test_ctx();
  atvi_pool *pool;
  const char *text = "";
  CHECK_OK(atvi_pool_new(ctx, &pool));
  for (int deep = 0; deep < 2; deep++) {
    atvi_json w = {.pool = pool};
    atvi_io_json_object(&w, NULL);
    if (deep) atvi_io_json_object(&w, "inner");
    atvi_io_json_put(&w, "gone", NULL);
    atvi_io_json_put(&w, "kept", json_true());
    atvi_io_json_list(&w, "list");
    atvi_io_json_put(&w, NULL, json_integer(1));
    atvi_io_json_end(&w);
    if (deep) atvi_io_json_end(&w);
    CHECK(w.failed);
    CHECK_STATUS(atvi_io_json_get(&w, "this file", &text), ATVI_ENOMEM);
    CHECK(text == NULL && strstr(atvi_errmsg(ctx), "this file") != NULL);
  }
  atvi_pool_free(pool);
  atvi_ctx_free(ctx);
}

TESTS({"values", numbers_words_and_seeds}, {"writer", written_in_order}, {"failure", failure_is_remembered})
