/* SPDX-License-Identifier: MIT */
/* Any bytes as a file of a fit's groups or as its history. The first byte says which; the other files are
 * sound. */
#include "io/file.h"
#include "io/draws_file.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static const char *const NAME[] = {"groups/groups.json", "groups/mean.npy", "history.csv"};
static char dir[] = "/tmp/atvi_fuzzXXXXXX";

static void clean(void) {
  atvi_io_groups_drop(dir);
  rmdir(dir);
}

static atvi_draws *draws(atvi_ctx *ctx) {
  static const atvi_column col[] = {{"a", 0, 1}, {"b", 0, 1}};
  atvi_draws *d;
  if (atvi_draws_new(ctx, 4, 2, 1, 2, col, false, &d) != ATVI_OK) abort();
  for (int i = 0; i < 8; i++) d->x[i] = i;
  return d;
}

/* One observed series at two times and one between, with a group of means, and one step. */
static void write_sound(atvi_ctx *ctx) {
  static const double time[2] = {0, 1}, value[2] = {0.5, NAN}, grid[1] = {0.5};
  static const unsigned char mark[2] = {ATVI_MARK_EXACT, 0};
  static const atvi_draws_series series = {"y",  ATVI_SERIES_OBSERVED, 0, "", false, 2, time, value, mark, 1,
                                           grid, "subject s01"};
  static const atvi_idx used[2] = {0, 2};
  const atvi_progress step = {"training", 0.5, 1, "", 10, 1, -3, 1, NAN, NAN, NAN, 0};
  atvi_draws *d = draws(ctx);
  double *x;
  if (atvi_draws_group_new(d, "mean", 2, 2, used, &x) != ATVI_OK) abort();
  d->series = &series, d->n_series = 1;
  *d->about = (atvi_about){.title = "t", .n_data = 1};
  if (atvi_draws_history(d, 1, &step) != ATVI_OK || atvi_io_groups_write(d, dir) != ATVI_OK) abort();
  atvi_draws_free(d);
}

/* Everything that readers rely on. */
static void check(const atvi_draws *d) {
  atvi_idx n = 0;
  for (atvi_idx s = 0; s < d->n_series; s++) {
    if (!d->series[s].name || (d->series[s].kind == ATVI_SERIES_OBSERVED) != (d->series[s].value != NULL))
      __builtin_trap();
    for (atvi_idx i = 0; i < d->series[s].n; i++, n++)
      if (isnan(d->series[s].time[i])) __builtin_trap();
  }
  const atvi_group *mean = atvi_draws_group(d, "mean");
  if (mean && mean->n_value != n) __builtin_trap();
  for (atvi_idx i = 0; mean && i < mean->n_draw; i++)
    if (mean->draw[i] < 0 || mean->draw[i] >= d->n) __builtin_trap();
  for (atvi_idx i = 0; i < d->n_step; i++)
    if (!d->step[i].phase) __builtin_trap();
  if (!d->about->title) __builtin_trap();
}

static void put(int which, const void *bytes, size_t n) {
  char path[64];
  snprintf(path, sizeof path, "%s/%s", dir, NAME[which]);
  FILE *f = fopen(path, "wb");
  if (!f || fwrite(bytes, 1, n, f) != n || fclose(f) != 0) abort();
}

/* The sound files, kept: writing them anew waits for the disk. */
static struct {
  char bytes[1024];
  size_t n;
} sound[3];

static void begin(atvi_ctx *ctx) {
  if (!mkdtemp(dir)) abort();
  atexit(clean);
  write_sound(ctx);
  for (int k = 0; k < 3; k++) {
    char path[64];
    snprintf(path, sizeof path, "%s/%s", dir, NAME[k]);
    FILE *f = fopen(path, "rb");
    sound[k].n = f ? fread(sound[k].bytes, 1, sizeof sound[k].bytes, f) : 0;
    if (!f || fclose(f) != 0) abort();
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
  atvi_ctx *ctx;
  if (n == 0 || atvi_ctx_new(NULL, &ctx) != ATVI_OK) return 0;
  if (sound[0].n == 0) begin(ctx);
  int which = bytes[0] % 3;
  put(which, bytes + 1, n - 1);
  atvi_draws *d = draws(ctx);
  if (atvi_io_groups_read(d, dir) == ATVI_OK)
    check(d);
  else if (d->n_group || d->n_series || d->n_step)
    __builtin_trap();
  atvi_draws_free(d);
  put(which, sound[which].bytes, sound[which].n);
  atvi_ctx_free(ctx);
  return 0;
}
