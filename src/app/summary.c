/* SPDX-License-Identifier: MIT */
/* atvi summary: the table of a finished fit, computed again from its draws. */
#include "app/common.h"
#include "diag/summary.h"
#include "io/draws_file.h"
#include "io/file.h"
#include <unistd.h>

/* Folders that other commands make, recognised by a file in them. */
static const struct {
  const char *holds, *told;
} OTHER[] = {
    {"compare.json", "of atvi compare: its table is compare.csv, and each fit has a folder in it"},
    {"study.json", "of atvi study: its table is study.csv"},
    {"sbc.json", "of atvi sbc: its results are in sbc_summary.json"},
    {"runs.jsonl", "of atvi run with runs of a simulator; atvi emulate judges them"},
    {"design.csv", "of atvi design; next: atvi run"},
    {"fit.json", "of a fit that has not finished"},
};

static bool has(atvi_pool *pool, const char *dir, const char *name) {
  const char *path = atvi_pool_printf(pool, "%s/%s", dir, name);
  return path && access(path, F_OK) == 0;
}

static atvi_status no_draws(atvi_ctx *ctx, atvi_pool *pool, const char *dir) {
  for (size_t k = 0; k < sizeof OTHER / sizeof *OTHER; k++)
    if (has(pool, dir, OTHER[k].holds))
      return ATVI_FAIL(ctx, ATVI_EIO, "%s is the folder %s", dir, OTHER[k].told);
  return ATVI_FAIL(ctx, ATVI_EIO, "%s has no draws.csv: it is not the folder of a finished fit", dir);
}

atvi_status atvi_app_whole_fit(atvi_ctx *ctx, atvi_pool *pool, const char *dir) {
  if (has(pool, dir, "fit.json")) return ATVI_OK;
  return ATVI_FAIL(ctx, ATVI_EIO,
                   "%s has no fit.json, which is written last: the fit ended before all its files were "
                   "written, and others may be of an earlier one; run it again",
                   dir);
}

atvi_status atvi_app_read_draws(atvi_ctx *ctx, atvi_pool *pool, const char *dir, atvi_draws **out) {
  bool weighted = has(pool, dir, "weighted.csv"), plain = weighted || has(pool, dir, "draws.csv");
  const char *path = atvi_pool_printf(pool, "%s/%s.csv", dir, weighted ? "weighted" : "draws");
  *out = NULL;
  if (!path) return ATVI_ENOMEM;
  if (!plain) return no_draws(ctx, pool, dir);
  ATVI_TRY(atvi_app_whole_fit(ctx, pool, dir));
  return atvi_io_draws_csv_read(ctx, path, out);
}

atvi_status atvi_app_summary(atvi_ctx *ctx, atvi_pool *pool, const char *where, bool json, const char **text,
                             atvi_app_mark *judged) {
  const char *dir;
  atvi_draws *draws;
  atvi_summary *s;
  ATVI_TRY(atvi_app_find_run(ctx, pool, where, "draws.csv", &dir));
  ATVI_TRY(atvi_app_read_draws(ctx, pool, dir, &draws));
  atvi_status status = atvi_app_advised_summary(pool, draws, &s);
  if (status == ATVI_OK)
    status =
        json ? atvi_diag_summary_json(pool, s, text) : atvi_diag_summary_text(pool, s, text, &judged->at);
  if (status == ATVI_OK) judged->verdict = s->verdict;
  atvi_draws_free(draws);
  return status;
}
