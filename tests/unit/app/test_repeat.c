/* SPDX-License-Identifier: MIT */
/* What repeated runs rest on: truths that no fit is handed, records that are read as they were written,
 * settings in any encoding. */
#define _POSIX_C_SOURCE 200809L
#include "app/common.h"
#include "app/replicate.h"
#include "io/file.h"
#include "testing.h"
#include <unistd.h>

static atvi_ctx *ctx;
static atvi_pool *pool;

static void begin(void) {
  char dir[] = "/tmp/atvi-test-XXXXXX";
  CHECK(mkdtemp(dir) && chdir(dir) == 0);
  ctx = test_ctx();
  CHECK_OK(atvi_pool_new(ctx, &pool));
}

static void end(void) {
  char dir[4096];
  atvi_pool_free(pool);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
  CHECK(getcwd(dir, sizeof dir) && chdir("/") == 0 && rmdir(dir) == 0);
}

static void save(const char *path, const char *text) {
  CHECK_OK(atvi_io_file_save(ctx, path, text, strlen(text)));
}

/* Fits begin with draws 0, 1, ... of their seed; truths of the same seed are none of them, and simulate
 * --prior shows those truths. */
static void truths_are_no_starts(void) {
  enum { N = 4000 };
  atvi_loaded l;
  atvi_app_simulate_result result;
  const atvi_app_model model = {.path = "m.atvi", .interpret = true};
  begin();
  save("y.csv", "y\n1.21\n0.483\n");
  save("m.atvi",
       "param a ~ normal(0.4, 2.385)\nparam s ~ gamma(2, 1)\ndata \"y.csv\"\nobserve y ~ normal(a, s)\n");
  CHECK_OK(atvi_app_load(ctx, &model, NULL, &l));
  double *start = atvi_pool_take(pool, 2 * N, sizeof *start), truth[2 * 3];
  const atvi_target *t = l.target;
  t->ops->prior_draw(t->self, atvi_model_evaluator_work(l.ev), 7, 0, N, start);
  t->ops->prior_draw(t->self, atvi_model_evaluator_work(l.ev), 7, ATVI_TRUTH_FIRST, 3, truth);
  for (int i = 0; i < 2; i++)
    for (int k = 0; k < N; k++)
      for (int j = 0; j < 3; j++) CHECK(start[i * N + k] != truth[i * 3 + j]);
  atvi_app_unload(&l);
  CHECK_OK(atvi_app_simulate(ctx, pool, &(atvi_app_simulate_opts){.model = model, .prior = 3, .seed = 7},
                             &result));
  atvi_csv *csv;
  CHECK_OK(atvi_io_csv_parse(pool, "out", result.text, strlen(result.text), &csv));
  CHECK_INT(csv->n_row, 6);
  for (atvi_idx r = 0; r < 6; r++)
    for (atvi_idx i = 0; i < 2; i++) CHECK(csv->value[r * csv->n_col + 1 + i] == truth[i * 3 + r / 2]);
  unlink("y.csv");
  unlink("m.atvi");
  end();
}

static void infinite_cells(void) {
  begin();
  atvi_text out = {.pool = pool};
  const char *line;
  atvi_io_fields_cell(&out, HUGE_VAL);
  atvi_io_fields_cell(&out, -HUGE_VAL);
  atvi_io_fields_cell(&out, NAN);
  atvi_io_fields_cell(&out, 2.385);
  CHECK_OK(atvi_io_text_get(&out, &line));
  const char *text = atvi_pool_printf(pool, "a.x,b.x,c.x,d.x\n%s\n", line + 1);
  atvi_csv *csv;
  CHECK_OK(atvi_io_csv_parse(pool, "r", text, strlen(text), &csv));
  CHECK(atvi_app_record_number(csv, 0, "a", ".x") == HUGE_VAL);
  CHECK(atvi_app_record_number(csv, 0, "b", ".x") == -HUGE_VAL);
  CHECK(isnan(atvi_app_record_number(csv, 0, "c", ".x")));
  CHECK(atvi_app_record_number(csv, 0, "d", ".x") == 2.385);
  CHECK(isnan(atvi_app_record_number(csv, 0, "e", ".x")));
  end();
}

static void bytes_come_back(void) {
  static const char *const text[] = {"",
                                     "plain",
                                     "h\xc3\xb6he",
                                     "h\xf6he > 3",
                                     "\x80\xbf\xc0\xff",
                                     "\xef\x9e\x80 of a user's own",
                                     "cut \xef\x9e"};
  begin();
  for (size_t i = 0; i < sizeof text / sizeof text[0]; i++) {
    json_t *x = atvi_app_bytes_json(pool, text[i]);
    CHECK(json_is_string(x));
    CHECK_STR(atvi_app_bytes_text(pool, json_string_value(x)), text[i]);
    json_decref(x);
  }
  json_t *x = atvi_app_bytes_json(pool, "h\xc3\xb6he"); /* what JSON takes is left alone */
  CHECK_STR(json_string_value(x), "h\xc3\xb6he");
  json_decref(x);
  CHECK(json_is_null(atvi_app_bytes_json(pool, NULL)));
  CHECK(!atvi_app_bytes_text(pool, NULL));
  end();
}

TESTS({"truths_are_no_starts", truths_are_no_starts}, {"infinite_cells", infinite_cells},
      {"bytes_come_back", bytes_come_back})
