/* SPDX-License-Identifier: MIT */
#include "io/fields.h"
#include "testing.h"
#include <string.h>

typedef struct {
  const char *name;
  const char *word;
  double mean, hpd[2], modes, tuned, exact;
  atvi_idx n;
  int64_t runs;
  uint64_t seed;
  bool weighted;
} result;

static const atvi_field RESULT[] = {
    ATVI_FIELD(NAME, result, name),
    ATVI_FIELD(WORD, result, word),
    ATVI_FIELD_SHOWN("mean", REAL, result, mean, "Mean", 9, FIXED, 2),
    ATVI_FIELD_AS("hpd95", PAIR, result, hpd),
    ATVI_FIELD(WHOLE, result, modes),
    ATVI_FIELD(MAYBE, result, tuned),
    ATVI_FIELD(YES, result, exact),
    ATVI_FIELD_SHOWN("n", COUNT, result, n, "values", 8, FIXED, 0),
    ATVI_FIELD(COUNT, result, runs),
    ATVI_FIELD(SEED, result, seed),
    ATVI_FIELD(FLAG, result, weighted),
    ATVI_FIELD_SHOWN("share", REAL, result, mean, "share", 10, PERCENT, 1),
    ATVI_FIELD_SHOWN("rough", REAL, result, mean, "rough", 10, SIZE, 0),
    ATVI_FIELD_SHOWN("digits", REAL, result, mean, "digits", 10, GENERAL, 3),
};
static const atvi_fields FIELDS = ATVI_FIELDS(RESULT);
static const result SOME = {"theta.1", "warn",           2.385,      {-0.25, 0.5}, 2, 0, 1,
                            7,         INT64_C(1) << 40, UINT64_MAX, true},
                    NONE = {NULL, NULL, NAN, {NAN, NAN}, NAN, NAN, NAN, 0, 0, 3, false};

static void found_by_key(void) {
  CHECK(atvi_io_fields_find(&FIELDS, "hpd95") == &RESULT[3]);
  CHECK(atvi_io_fields_find(&FIELDS, "hpd") == NULL && atvi_io_fields_find(&FIELDS, "hpd95_") == NULL);
  const double want[] = {NAN, NAN, 2.385, -0.25, 2, 0, 1, 7, 1099511627776.0, 18446744073709551616.0, 1};
  for (int k = 2; k < 11; k++) CHECK_REL(atvi_io_field_number(&RESULT[k], &SOME), want[k], 1e-15);
  CHECK(isnan(atvi_io_field_number(&RESULT[0], &SOME)) && isnan(atvi_io_field_number(&RESULT[1], &SOME)));
}

static const char *json_of(atvi_pool *pool, const result *row, const char *keys) {
  atvi_json w = {.pool = pool};
  const char *text;
  atvi_io_json_object(&w, NULL);
  atvi_io_fields_json(&w, &FIELDS, row, keys);
  CHECK_OK(atvi_io_json_get(&w, "test", &text));
  return text;
}

static void json_in_the_order_asked_for(void) {
  atvi_ctx *ctx = test_ctx();
  atvi_pool *pool;
  CHECK_OK(atvi_pool_new(ctx, &pool));
  CHECK_STR(
      json_of(pool, &SOME, "runs name hpd95 modes tuned exact weighted seed"),
      "{\n  \"runs\": 1099511627776,\n  \"name\": \"theta.1\",\n  \"hpd95\": [\n    -0.25,\n    0.5\n  ],\n"
      "  \"modes\": 2,\n  \"tuned\": false,\n  \"exact\": true,\n  \"weighted\": true,\n"
      "  \"seed\": \"18446744073709551615\"\n}\n");
  CHECK_STR(json_of(pool, &NONE, "name word mean modes tuned exact n seed"),
            "{\n  \"word\": null,\n  \"mean\": null,\n  \"modes\": null,\n  \"tuned\": null,\n"
            "  \"exact\": false,\n  \"n\": 0,\n  \"seed\": 3\n}\n");
  atvi_pool_free(pool);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

static void json_read_back(void) {
  static const atvi_field part[] = {ATVI_FIELD(NAME, result, name), ATVI_FIELD(WORD, result, word),
                                    ATVI_FIELD(REAL, result, mean), ATVI_FIELD(COUNT, result, n)};
  static const atvi_fields fields = ATVI_FIELDS(part);
  atvi_ctx *ctx = test_ctx();
  atvi_pool *pool;
  result got;
  CHECK_OK(atvi_pool_new(ctx, &pool));
  json_t *o = json_loads(json_of(pool, &SOME, NULL), 0, NULL);
  atvi_io_fields_read(pool, &fields, o, &got);
  json_decref(o);
  CHECK_STR(got.name, "theta.1");
  CHECK_STR(got.word, "warn");
  CHECK(got.mean == 2.385 && got.n == 7);
  atvi_io_fields_read(pool, &fields, NULL, &got);
  CHECK(!got.name && !got.word && isnan(got.mean) && got.n == 0);
  atvi_pool_free(pool);
  atvi_ctx_free(ctx);
}

static void csv_by_line_and_by_cell(void) {
  atvi_ctx *ctx = test_ctx();
  atvi_pool *pool;
  const char *text;
  CHECK_OK(atvi_pool_new(ctx, &pool));
  atvi_text t = {.pool = pool};
  atvi_io_fields_lines(&t, "ram,fit,", &FIELDS, &SOME, "hpd95 n");
  atvi_io_fields_lines(&t, "", &FIELDS, &NONE, "mean");
  atvi_io_text_add(&t, "replicate");
  atvi_io_fields_names(&t, &FIELDS, "runs mean n");
  atvi_io_text_add(&t, "\n1");
  atvi_io_fields_cells(&t, &FIELDS, &SOME, "runs mean n");
  atvi_io_text_add(&t, "\n2");
  atvi_io_fields_cells(&t, &FIELDS, NULL, "runs mean n");
  atvi_io_fields_cell(&t, 1.0 / 3);
  CHECK_OK(atvi_io_text_get(&t, &text));
  CHECK_STR(text, "ram,fit,hpd95_low,-0.25\nram,fit,hpd95_high,0.5\nram,fit,n,7\nmean,NA\n"
                  "replicate,runs,mean,n\n1,1.09951163e+12,2.385,7\n2,NA,NA,NA,0.333333333");
  atvi_pool_free(pool);
  atvi_ctx_free(ctx);
}

static void tables_for_a_terminal(void) {
  static const double size[] = {0, 0.4567, 12.345, 123.45, 2345.6, 1.2e7, 1e-5, HUGE_VAL};
  static const char *const want[] = {"    0.0000", "    0.4567", "     12.35", "     123.5",
                                     "      2346", "   1.2e+07", "     1e-05", "         -"};
  atvi_ctx *ctx = test_ctx();
  atvi_pool *pool;
  const char *text;
  CHECK_OK(atvi_pool_new(ctx, &pool));
  atvi_text t = {.pool = pool};
  atvi_io_fields_heading(&t, &FIELDS, "n mean share");
  atvi_io_fields_row(&t, &FIELDS, &SOME, "n mean share digits", "-");
  atvi_io_fields_row(&t, &FIELDS, &NONE, "n mean", "?");
  CHECK_OK(atvi_io_text_get(&t, &text));
  CHECK_STR(text, "  values     Mean     share       7     2.38   238.5 %      2.38       0        ?");
  for (size_t k = 0; k < sizeof size / sizeof *size; k++) {
    result row = {.mean = size[k]};
    atvi_text one = {.pool = pool};
    atvi_io_fields_row(&one, &FIELDS, &row, "rough", "-");
    CHECK_OK(atvi_io_text_get(&one, &text));
    CHECK_STR(text, want[k]);
  }
  atvi_pool_free(pool);
  atvi_ctx_free(ctx);
}

TESTS({"find", found_by_key}, {"json", json_in_the_order_asked_for}, {"read", json_read_back},
      {"csv", csv_by_line_and_by_cell}, {"table", tables_for_a_terminal})
