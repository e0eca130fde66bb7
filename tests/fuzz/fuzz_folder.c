/* SPDX-License-Identifier: MIT */
/* Any bytes as one of the files that commands leave in their folders for others: fit.json, scores.json (read
 * by compare), design.csv, replicates.csv and progress.json. The first byte says which; the files beside it
 * are sound. */
#include "app/compare.h"
#include "app/common.h"
#include "app/replicate.h"
#include "app/report.h"
#include "io/draws_file.h"
#include "io/json.h"
#include "place.h"
#include <math.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

enum { FIT, SCORES, DESIGN, REPLICATES, PROGRESS, KINDS };
static const char *const NAME[KINDS] = {"fit.json", "scores.json", "design.csv", "replicates.csv",
                                        "progress.json"};

static void put_text(const char *name, const char *text) { place_put(name, text, strlen(text)); }

static void write_sound(atvi_ctx *ctx) {
  static const atvi_column col[] = {{"a", 0, 1}, {"b", 0, 1}};
  atvi_draws *d;
  if (atvi_draws_new(ctx, 8, 2, 2, 2, col, false, &d) != ATVI_OK) abort();
  for (int i = 0; i < 16; i++) d->x[i] = fmod(0.618 * i, 1);
  if (atvi_io_draws_csv_write(d, place_path("draws.csv")) != ATVI_OK) abort();
  atvi_draws_free(d);
  put_text("fit.json", "{\"model\": \"m.atvi\", \"data\": []}");
  put_text("model.atvi", "param a ~ uniform(0, 1)\n");
}

static void read_fit(atvi_ctx *ctx, atvi_pool *pool) {
  atvi_fitted run;
  if (atvi_app_fitted_read(ctx, pool, &(atvi_app_finished){.where = place_dir}, &run) != ATVI_OK) return;
  if (!run.text || !run.model.path) __builtin_trap();
  for (atvi_idx i = 0; i < run.model.n_fix; i++)
    if (!run.model.fix[i].name || !run.model.fix[i].value) __builtin_trap();
  for (atvi_idx i = 0; i < run.model.n_data; i++)
    if (!run.model.data[i].path) __builtin_trap();
}

static void read_scores(atvi_ctx *ctx, atvi_pool *pool) {
  atvi_compared of = {.method = "ram", .state = ATVI_COMPARED_DONE, .dir = place_dir};
  atvi_comparison c = {.model = "m", .n = 1, .of = &of};
  const char *text;
  if (atvi_app_compare_read(ctx, pool, NULL, &c) == ATVI_OK)
    if (atvi_app_compare_text(pool, &c, &text) != ATVI_OK ||
        atvi_app_compare_csv(pool, &c, &text) != ATVI_OK || atvi_app_compare_json(pool, &c, &text) != ATVI_OK)
      __builtin_trap();
  atvi_app_compare_free(&c);
}

static void read_design(atvi_pool *pool) {
  static const char *const name[] = {"k", "m"};
  atvi_program_points points;
  if (atvi_app_program_points_read(pool, place_dir, 2, name, &points) != ATVI_OK) return;
  for (atvi_idx i = 0; i < points.n; i++)
    if (points.id[i] < 1 || !isfinite(points.x[2 * i]) || !isfinite(points.x[2 * i + 1])) __builtin_trap();
}

static void read_replicates(atvi_pool *pool) {
  static const char header[] = "replicate,method,state,a.rank,coverage";
  const atvi_app_model model = {.path = "m.atvi"};
  atvi_json settings = {.pool = pool};
  atvi_record rec = {.command = "study", .header = header, .dir = place_dir};
  atvi_io_json_object(&settings, NULL);
  atvi_io_json_put(&settings, "seed", json_integer(1));
  if (atvi_app_record_open(pool, &model, &settings, &rec) != ATVI_OK) return;
  for (atvi_idx r = 0; rec.done && r < rec.done->n_row; r++) {
    double rank = atvi_app_record_number(rec.done, r, "a", "rank");
    if (rank < 0 || rank > ATVI_RANK_MOST) __builtin_trap();
    (void)atvi_app_record_has(&rec, 1, "atvi");
  }
  atvi_app_record_close(&rec);
}

static void read_progress(void) {
  char state[ATVI_STATE_BYTES];
  long pid;
  if (!atvi_app_report_state(place_dir, state, &pid) && state[0]) __builtin_trap();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
  static bool begun;
  atvi_ctx *ctx;
  atvi_pool *pool;
  if (n == 0 || atvi_ctx_new(NULL, &ctx) != ATVI_OK) return 0;
  if (!begun) write_sound(ctx), begun = true;
  int which = bytes[0] % KINDS;
  if (atvi_pool_new(ctx, &pool) == ATVI_OK) {
    place_put(NAME[which], bytes + 1, n - 1);
    if (which == REPLICATES) put_text("study.json", "{\"seed\": 1}");
    switch (which) {
    case FIT: read_fit(ctx, pool); break;
    case SCORES: read_scores(ctx, pool); break;
    case DESIGN: read_design(pool); break;
    case REPLICATES: read_replicates(pool); break;
    default: read_progress();
    }
    if (which == FIT)
      put_text("fit.json", "{\"model\": \"m.atvi\", \"data\": []}");
    else
      unlink(place_path(NAME[which]));
    atvi_pool_free(pool);
  }
  atvi_ctx_free(ctx);
  return 0;
}
