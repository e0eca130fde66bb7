/* SPDX-License-Identifier: MIT */
/* Any bytes as the file of an emulator: an error, or an emulator of the runs that it is loaded for. */
#include "gp/emulator.h"
#include "place.h"
#include <math.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

enum { RUNS = 6, INPUTS = 2, TIMES = 3 };

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
  static double x[RUNS * INPUTS], y[RUNS * TIMES];
  const atvi_em_runs runs = {RUNS, INPUTS, TIMES, x, y, NULL, NULL};
  static size_t known; /* bytes of the sound file */
  static char sound[2048];
  atvi_ctx *ctx;
  atvi_emulator *em = NULL;
  if (atvi_ctx_new(NULL, &ctx) != ATVI_OK) return 0;
  if (known == 0) {
    for (int i = 0; i < RUNS; i++)
      for (int j = 0; j < INPUTS; j++) x[i * INPUTS + j] = fmod(0.618 * (i + 1) * (j + 1), 1);
    for (int i = 0; i < RUNS; i++)
      for (int t = 0; t < TIMES; t++) y[i * TIMES + t] = sin(3 * x[i * INPUTS] + t) + x[i * INPUTS + 1];
    if (atvi_gp_emulator_new(ctx, &runs, NULL, &em) != ATVI_OK ||
        atvi_gp_emulator_save(ctx, em, place_path("sound.json")) != ATVI_OK)
      abort();
    atvi_gp_emulator_free(em);
    FILE *f = fopen(place_path("sound.json"), "rb");
    known = f ? fread(sound, 1, sizeof sound, f) : 0;
    if (!f || fclose(f) != 0 || known == 0) abort();
  }
  /* The first two bytes: which part of the sound file the rest replaces, so that fingerprints, which nobody
   * would guess, stay. */
  char text[8192];
  size_t from = n > 0 ? bytes[0] * known / 256 : 0, gone = n > 1 ? bytes[1] : 0, m = n > 2 ? n - 2 : 0;
  if (m > 4096) m = 4096;
  if (gone > known - from) gone = known - from;
  memcpy(text, sound, from);
  if (m) memcpy(text + from, bytes + 2, m);
  memcpy(text + from + m, sound + from + gone, known - from - gone);
  const char *path = place_put("emulator.json", text, known - gone + m);
  if (atvi_gp_emulator_load(ctx, path, &runs, NULL, NULL, &em) == ATVI_OK) {
    const atvi_em_info *i = atvi_gp_emulator_info(em);
    if (!(i->sill > 0) || !isfinite(i->sill) || !(i->nugget >= 0) || !isfinite(i->log_lik)) __builtin_trap();
  } else if (em) {
    __builtin_trap();
  }
  atvi_gp_emulator_free(em);
  atvi_ctx_free(ctx);
  return 0;
}
