/* SPDX-License-Identifier: MIT */
#include "io/draws_file.h"
#include "io/csv.h"
#include "io/file.h"
#include "testing.h"
#include <jansson.h>
#include <unistd.h>

static char path[64];

static void new_path(void) {
  snprintf(path, sizeof path, "/tmp/atvi-test-text-XXXXXX");
  int fd = mkstemp(path);
  CHECK(fd >= 0 && close(fd) == 0);
}

static atvi_draws *sample(atvi_ctx *ctx, bool weighted) {
  static const atvi_column col[4] = {{"beta.1", 0, 3},
                                     {"beta.2", 0, 3},
                                     {"odd, \"name\"", -HUGE_VAL, HUGE_VAL},
                                     {"R0", -HUGE_VAL, HUGE_VAL}};
  atvi_draws *d;
  CHECK_OK(atvi_draws_new(ctx, 6, 2, 3, 4, col, weighted, &d));
  for (atvi_idx i = 0; i < 24; i++) d->x[i] = 0.1 + 1.7 * (double)i;
  for (atvi_idx i = 0; i < 6; i++) d->log_prior[i] = -0.3, d->log_lik[i] = -(double)i / 3;
  d->x[4] = NAN;
  d->x[5] = HUGE_VAL;
  d->made->seed = UINT64_MAX;
  d->made->method = "ram";
  d->made->model = "two\nlines";
  return d;
}

static void table_reads_back(void) {
  atvi_ctx *ctx = test_ctx();
  atvi_pool *pool;
  atvi_csv *csv;
  new_path();
  CHECK_OK(atvi_pool_new(ctx, &pool));
  for (int weighted = 0; weighted < 2; weighted++) {
    atvi_draws *d = sample(ctx, weighted);
    CHECK_OK(atvi_io_draws_table_write(d, path));
    CHECK_OK(atvi_io_csv_read(pool, path, &csv));
    CHECK_INT(csv->n_row, 6);
    CHECK_INT(csv->n_col, 9 + weighted);
    CHECK_STR(csv->name[0], "chain__");
    CHECK_STR(csv->name[1], "draw__");
    CHECK_INT(atvi_io_csv_find(csv, "weight__"), weighted ? 5 : -1);
    CHECK_INT(atvi_io_csv_find(csv, "odd, \"name\""), 7 + weighted);
    for (atvi_idx i = 0; i < 6; i++) {
      const double *row = csv->value + i * csv->n_col;
      CHECK(row[0] == (double)(i / 3 + 1) && row[1] == (double)(i % 3 + 1));
      CHECK(row[2] == d->log_prior[i] + d->log_lik[i] && row[3] == d->log_lik[i] &&
            row[4] == d->log_prior[i]);
      CHECK(row[6 + weighted] == d->x[6 + i]);
    }
    CHECK_INT(csv->kind[4 * csv->n_col + 5 + weighted], ATVI_CELL_MISSING);
    CHECK_STR(csv->text[5 * csv->n_col + 5 + weighted], "inf");
    atvi_draws_free(d);
  }
  CHECK(unlink(path) == 0);
  atvi_pool_free(pool);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

static void stan_has_one_chain_and_its_configuration(void) {
  atvi_ctx *ctx = test_ctx();
  atvi_pool *pool;
  atvi_csv *csv;
  char *text;
  size_t n;
  new_path();
  CHECK_OK(atvi_pool_new(ctx, &pool));
  atvi_draws *d = sample(ctx, false);
  CHECK_OK(atvi_io_draws_stan_write(d, 1, path));
  CHECK_OK(atvi_io_file_read(pool, path, &text, &n));
  CHECK(strstr(text, "\n# model = two lines\n") && strstr(text, "\n# id = 2\n"));
  CHECK(strstr(text, "\n#     num_samples = 3\n") && strstr(text, "\n#   seed = 18446744073709551615\n"));
  CHECK_OK(atvi_io_csv_read(pool, path, &csv));
  CHECK_INT(csv->n_row, 3);
  CHECK_STR(csv->name[0], "lp__");
  CHECK_STR(csv->name[2], "beta.1");
  CHECK(csv->value[0] == d->log_prior[3] + d->log_lik[3]);
  CHECK(csv->value[3] == d->x[6 + 3]);
  atvi_draws_free(d);
  CHECK(unlink(path) == 0);
  atvi_pool_free(pool);
  atvi_ctx_free(ctx);
}

/* Readers of Stan CSV take matrices to be by columns, and indices to be complete. */
static void stan_has_its_order_of_arrays(void) {
  static const atvi_column col[] = {{"C.1.1", 0, 3},   {"C.1.2", 0, 3},   {"C.1.3", 0, 3},   {"C.2.1", 0, 3},
                                    {"C.2.2", 0, 3},   {"C.2.3", 0, 3},   {"b.2", 0, 3},     {"b.3", 0, 3},
                                    {"m.north", 0, 3}, {"m.south", 0, 3}, {"m_south", 0, 3}, {"k.1", 0, 3}};
  static const char *const want[] = {"C.1.1", "C.2.1", "C.1.2",   "C.2.2",    "C.1.3",   "C.2.3",
                                     "b_2",   "b_3",   "m_north", "m_south_", "m_south", "k.1"};
  static const atvi_idx from[] = {0, 3, 1, 4, 2, 5, 6, 7, 8, 9, 10, 11};
  atvi_ctx *ctx = test_ctx();
  atvi_pool *pool;
  atvi_csv *csv;
  atvi_draws *d;
  new_path();
  CHECK_OK(atvi_pool_new(ctx, &pool));
  CHECK_OK(atvi_draws_new(ctx, 2, 1, 12, 12, col, false, &d));
  for (atvi_idx i = 0; i < 24; i++) d->x[i] = 0.31 + 1.7 * (double)i;
  CHECK_OK(atvi_io_draws_stan_write(d, 0, path));
  CHECK_OK(atvi_io_csv_read(pool, path, &csv));
  CHECK_INT(csv->n_col, 14);
  for (atvi_idx j = 0; j < 12; j++) {
    CHECK_STR(csv->name[2 + j], want[j]);
    CHECK(csv->value[csv->n_col + 2 + j] == d->x[from[j] * 2 + 1]);
  }
  atvi_draws_free(d);
  CHECK(unlink(path) == 0);
  atvi_pool_free(pool);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

/* A name that was made is as good as one that was there, and none ends in __, which is the sampler's. */
static void stan_has_no_name_twice(void) {
  static const atvi_column col[] = {{"b.x_y", 0, 3}, {"b.z", 0, 3},  {"b_x.y", 0, 3}, {"b_x.w", 0, 3},
                                    {"b_z", 0, 3},   {"b_z_", 0, 3}, {"b.x.y", 0, 3}, {"c.e_", 0, 3},
                                    {"c.f", 0, 3},   {"c_e_", 0, 3}};
  static const char *const want[] = {"b_x_y", "b_z_2",   "b_x_y_", "b_x_w", "b_z",
                                     "b_z_",  "b_x_y_2", "c_e__2", "c_f",   "c_e_"};
  atvi_ctx *ctx = test_ctx();
  atvi_pool *pool;
  atvi_csv *csv;
  atvi_draws *d;
  new_path();
  CHECK_OK(atvi_pool_new(ctx, &pool));
  CHECK_OK(atvi_draws_new(ctx, 2, 1, 10, 10, col, false, &d));
  for (atvi_idx i = 0; i < 20; i++) d->x[i] = 0.31 + 1.7 * (double)i;
  CHECK_OK(atvi_io_draws_stan_write(d, 0, path));
  CHECK_OK(atvi_io_csv_read(pool, path, &csv)); /* refuses a name that is listed twice */
  CHECK_INT(csv->n_col, 12);
  for (atvi_idx j = 0; j < 10; j++) {
    CHECK_STR(csv->name[2 + j], want[j]);
    CHECK(csv->value[csv->n_col + 2 + j] == d->x[j * 2 + 1]);
  }
  long live = test_live;
  for (long at = 1, ok = 0; !ok; at++) {
    test_fail_at = test_allocs + at;
    atvi_status status = atvi_io_draws_stan_write(d, 0, path);
    test_fail_at = 0;
    ok = status == ATVI_OK;
    CHECK(ok ? at > 1 : status == ATVI_ENOMEM);
    CHECK_INT(test_live, live);
  }
  atvi_draws_free(d);
  CHECK(unlink(path) == 0);
  atvi_pool_free(pool);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

static void json_is_a_list_of_chains(void) {
  atvi_ctx *ctx = test_ctx();
  new_path();
  for (int weighted = 0; weighted < 2; weighted++) {
    atvi_draws *d = sample(ctx, weighted);
    json_error_t error;
    CHECK_OK(atvi_io_draws_json_write(d, path));
    json_t *root = json_load_file(path, 0, &error);
    CHECK_MSG(root, "%s", error.text);
    CHECK_INT(json_array_size(root), 2);
    json_t *second = json_array_get(root, 1);
    CHECK_INT(json_object_size(second), 4 + weighted);
    for (atvi_idx i = 0; i < 3; i++)
      CHECK(json_real_value(json_array_get(json_object_get(second, "beta[2]"), (size_t)i)) ==
            d->x[6 + 3 + i]);
    CHECK(json_is_null(json_array_get(json_object_get(second, "beta[1]"), 1)));
    CHECK(json_is_null(json_array_get(json_object_get(second, "beta[1]"), 2)));
    CHECK_INT(json_array_size(json_object_get(second, "odd, \"name\"")), 3);
    if (weighted)
      CHECK(json_real_value(json_array_get(json_object_get(second, "weight__"), 0)) == d->weight[3]);
    json_decref(root);
    atvi_draws_free(d);
  }
  CHECK(unlink(path) == 0);
  atvi_ctx_free(ctx);
}

static void failures_are_told(void) {
  static atvi_status (*const write[])(const atvi_draws *, const char *) = {atvi_io_draws_table_write,
                                                                           atvi_io_draws_json_write};
  atvi_ctx *ctx = test_ctx();
  atvi_draws *d = sample(ctx, false);
  for (int k = 0; k < 3; k++) {
    CHECK_STATUS(k < 2 ? write[k](d, "/nowhere/x") : atvi_io_draws_stan_write(d, 0, "/nowhere/x"), ATVI_EIO);
    CHECK(strstr(atvi_errmsg(ctx), "/nowhere/x") != NULL);
    new_path();
    long live = test_live;
    for (long at = 1, ok = 0; !ok; at++) {
      test_fail_at = test_allocs + at;
      atvi_status status = k < 2 ? write[k](d, path) : atvi_io_draws_stan_write(d, 0, path);
      test_fail_at = 0;
      ok = status == ATVI_OK;
      CHECK(ok ? at > 1 : status == ATVI_ENOMEM);
      CHECK_INT(test_live, live);
    }
    CHECK(unlink(path) == 0);
  }
  atvi_draws_free(d);
  atvi_ctx_free(ctx);
}

TESTS({"table", table_reads_back}, {"stan", stan_has_one_chain_and_its_configuration},
      {"order", stan_has_its_order_of_arrays}, {"twice", stan_has_no_name_twice},
      {"json", json_is_a_list_of_chains}, {"failures", failures_are_told})
