/* SPDX-License-Identifier: MIT */
/* Any bytes as a model file: an error or a model, never a crash, never long. */
#include "lang/lang.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
  atvi_ctx *ctx;
  atvi_lang *lang;
  /* no such folder: files that the text names are not found */
  const atvi_lang_opts opts = {.data_optional = true};
  if (atvi_ctx_new(NULL, &ctx) != ATVI_OK) return 0;
  if (atvi_lang_parse(ctx, "/nonexistent/fuzz.atvi", (const char *)bytes, n, &opts, &lang) == ATVI_OK)
    for (atvi_idx k = 0; k < lang->n_table; k++) {
      double t = lang->start, a, b, next;
      for (int i = 0; i < 5 && t < 1e300; i++, t = next)
        atvi_lang_table_at(lang, &lang->table[k], t, &a, &b, &next);
    }
  else if (!*atvi_errmsg(ctx))
    __builtin_trap();
  atvi_lang_free(lang);
  atvi_ctx_free(ctx);
  return 0;
}
