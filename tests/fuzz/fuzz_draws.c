/* SPDX-License-Identifier: MIT */
/* Any bytes as draws.csv: an error, or draws of a shape that all their readers can rely on. */
#include "io/draws_file.h"
#include "place.h"
#include <math.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static void check(const atvi_draws *d) {
  if (d->n < 1 || d->n_chain < 1 || d->n % d->n_chain != 0 || d->n_param < 0 || d->n_param > d->n_col)
    __builtin_trap();
  for (atvi_idx j = 0; j < d->n_col; j++)
    if (!d->col[j].name || isnan(d->col[j].lower) || isnan(d->col[j].upper)) __builtin_trap();
  double sum = 0;
  for (atvi_idx i = 0; i < d->n * d->n_col; i++) sum += isnan(d->x[i]);
  for (atvi_idx i = 0; d->weight && i < d->n; i++)
    if (!(d->weight[i] >= 0)) __builtin_trap();
  for (atvi_idx i = 0; i < d->n_message; i++)
    if (!d->message[i].text || d->message[i].code >= ATVI_CODES) __builtin_trap();
  if (sum < 0 || !d->made->method) __builtin_trap();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
  atvi_ctx *ctx;
  atvi_draws *d;
  if (atvi_ctx_new(NULL, &ctx) != ATVI_OK) return 0;
  if (atvi_io_draws_csv_read(ctx, place_put("draws.csv", bytes, n), &d) == ATVI_OK)
    check(d);
  else if (d)
    __builtin_trap();
  atvi_draws_free(d);
  atvi_ctx_free(ctx);
  return 0;
}
