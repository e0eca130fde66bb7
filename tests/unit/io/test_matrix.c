/* SPDX-License-Identifier: MIT */
#include "io/csv.h"
#include "testing.h"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char path[64];

static void save(const char *text, size_t n) {
  strcpy(path, "/tmp/atvi-matrix-XXXXXX");
  int fd = mkstemp(path);
  CHECK(fd >= 0 && write(fd, text, n) == (ssize_t)n);
  close(fd);
}

/* Columns first .. last of the text, as the reader of all tables has them. */
static void same(const char *text, size_t n, atvi_idx first, atvi_idx last) {
  atvi_ctx *ctx = test_ctx();
  atvi_pool *pool;
  atvi_csv *csv;
  double *value;
  atvi_idx rows, cols;
  CHECK_OK(atvi_pool_new(ctx, &pool));
  save(text, n);
  CHECK_OK(atvi_io_csv_read(pool, path, &csv));
  for (int threads = 1; threads <= 3; threads += 2) {
    atvi_ctx_set_threads(ctx, threads);
    CHECK_OK(atvi_io_matrix_read(pool, path, first, last, &rows, &cols, &value));
    CHECK(value != NULL && rows == csv->n_row && cols == csv->n_col);
    atvi_idx to = last ? last : cols, wide = to - first + 1;
    for (atvi_idx i = 0; i < rows; i++)
      for (atvi_idx j = 0; j < wide; j++) CHECK(value[i * wide + j] == csv->value[i * cols + first - 1 + j]);
  }
  unlink(path);
  atvi_pool_free(pool);
  atvi_ctx_free(ctx);
}

static void plain_files_are_read(void) {
  static const char *const text[] = {"1.5,2.385e3,-7\n0.25,1e-300,4\n", "1.5, 2.385 ,-7\r\n0.25 ,1e-5,4\r\n",
                                     "a,b,c\n1.5,2,3\n\n4,5,6",
                                     "\"\",\"V1\",\"V2\"\n\"1\",2.5,3\n\"2\",0.1,17\n",
                                     "id,x,y\nrun 1,2.5,3\nrun 2,0.1,17.000000000000004\n"};
  for (size_t i = 0; i < sizeof text / sizeof *text; i++) same(text[i], strlen(text[i]), 2, i % 2 ? 3 : 0);
}

/* More than a block. */
static void long_files_are_read(void) {
  enum { ROWS = 251, COLS = 2600 };
  size_t room = (size_t)ROWS * COLS * 17, n = 0;
  char *text = malloc(room);
  CHECK(text != NULL);
  for (int i = 0; i < ROWS; i++)
    for (int j = 0; j < COLS; j++)
      n += (size_t)snprintf(text + n, room - n, "%d.%010d%c", i, 7919 * j, j + 1 < COLS ? ',' : '\n');
  CHECK(n > 9 << 20);
  same(text, n, 1, 0);
  same(text, n - 1, 3, 4);
  free(text);
}

static void the_rest_is_left(void) {
  static const char *const text[] = {"1,2,3\n4,x,6\n",
                                     "1,2,3\n4,,6\n",
                                     "1,2,3\n4,5\n",
                                     "1,2,3\n4,5,6,7\n",
                                     "1;2;3\n4;5;6\n",
                                     "# made by hand\n1,2,3\n4,5,6\n",
                                     "1\n2\n",
                                     "",
                                     "a,a,b\n1,2,3\n",
                                     "1,2,3\n4,<5,6\n",
                                     "1,2,3\n\"4,5,6\n",
                                     "1,2,3\n# 4\n5,6,7\n",
                                     "1,2,3\n4,\"5\",6\n",
                                     "1,2,3\r4,5,6\r"};
  atvi_ctx *ctx = test_ctx();
  atvi_pool *pool;
  double *value;
  atvi_idx rows, cols;
  CHECK_OK(atvi_pool_new(ctx, &pool));
  for (size_t i = 0; i < sizeof text / sizeof *text; i++) {
    save(text[i], strlen(text[i]));
    CHECK_OK(atvi_io_matrix_read(pool, path, 1, 0, &rows, &cols, &value));
    CHECK(value == NULL);
    unlink(path);
  }
  CHECK_OK(atvi_io_matrix_read(pool, path, 1, 0, &rows, &cols, &value)); /* not there */
  CHECK(value == NULL);
  save("1,2\n3,4\n", 8);
  CHECK_OK(atvi_io_matrix_read(pool, path, 2, 3, &rows, &cols, &value)); /* no such column */
  CHECK(value == NULL);
  unlink(path);
  atvi_pool_free(pool);
  atvi_ctx_free(ctx);
}

TESTS({"plain", plain_files_are_read}, {"long", long_files_are_read}, {"rest", the_rest_is_left})
