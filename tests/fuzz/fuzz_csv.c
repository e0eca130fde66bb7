/* SPDX-License-Identifier: MIT */
/* Any bytes as a CSV file: an error or a table. */
#include "io/csv.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
  atvi_ctx *ctx;
  atvi_pool *pool;
  atvi_csv *csv;
  if (atvi_ctx_new(NULL, &ctx) != ATVI_OK) return 0;
  if (atvi_pool_new(ctx, &pool) == ATVI_OK) {
    if (atvi_io_csv_parse(pool, "fuzz.csv", (const char *)bytes, n, &csv) == ATVI_OK)
      for (atvi_idx i = 0; i < csv->n_row * csv->n_col; i++)
        if (!csv->text[i] || csv->kind[i] > ATVI_CELL_TEXT) __builtin_trap();
    atvi_pool_free(pool);
  }
  atvi_ctx_free(ctx);
  return 0;
}
