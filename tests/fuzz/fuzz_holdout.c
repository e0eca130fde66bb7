/* SPDX-License-Identifier: MIT */
/* Any bytes as a rule of --holdout: an error with a message, or a choice that leaves some and takes some. */
#include "model/model.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static const char MODEL[] = "param b in (0, 1)\n"
                            "calendar 2020-01-01 day\n"
                            "data \"holdout.csv\" time t\n"
                            "observe y ~ poisson(b)\n";

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
  static atvi_ctx *ctx;
  static atvi_lang *lang; /* read once: it is the rule that varies */
  atvi_pool *pool;
  atvi_holdout out;
  if (!ctx && atvi_ctx_new(NULL, &ctx) != ATVI_OK) abort();
  if (!lang && atvi_lang_parse(ctx, "fuzz.atvi", MODEL, sizeof MODEL - 1, NULL, &lang) != ATVI_OK) abort();
  if (atvi_pool_new(ctx, &pool) != ATVI_OK) abort();
  char *rule = atvi_pool_strndup(pool, (const char *)bytes, n);
  atvi_status status = atvi_model_holdout_find(pool, lang, rule, &out);
  if (status == ATVI_OK && (out.n_held < 1 || out.n_left < 1 || out.n_held + out.n_left != 9)) abort();
  if (status != ATVI_OK && strlen(atvi_errmsg(ctx)) == 0) abort();
  atvi_pool_free(pool);
  return 0;
}
