/* SPDX-License-Identifier: MIT */
/* atvi summary: the table of a finished fit, computed again from its draws. */
#include "app/common.h"
#include "diag/summary.h"
#include "io/draws_csv.h"
#include "io/file.h"
#include <unistd.h>

atvi_status atvi_app_read_draws(atvi_ctx *ctx, atvi_pool *pool, const char *dir, atvi_draws **out) {
  const char *path = atvi_pool_printf(pool, "%s/weighted.csv", dir);
  *out = NULL;
  if (path && access(path, F_OK) != 0) path = atvi_pool_printf(pool, "%s/draws.csv", dir);
  if (!path) return ATVI_FAIL(ctx, ATVI_ENOMEM, "out of memory");
  return atvi_draws_csv_read(ctx, path, out);
}

atvi_status atvi_app_summary(atvi_ctx *ctx, atvi_pool *pool, const char *where, bool json,
                             const char **text) {
  const char *dir;
  atvi_draws *draws;
  atvi_summary *s;
  ATVI_TRY(atvi_app_find_run(ctx, pool, where, &dir));
  ATVI_TRY(atvi_app_read_draws(ctx, pool, dir, &draws));
  atvi_status status = atvi_summary_new(pool, draws, &s);
  if (status == ATVI_OK) status = json ? atvi_summary_json(pool, s, text) : atvi_summary_text(pool, s, text);
  atvi_draws_free(draws);
  return status;
}
