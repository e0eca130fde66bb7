/* SPDX-License-Identifier: MIT */
/* Any bytes as a model file: an error or a model, never a crash, never long. */
#include "lang/lang.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

/* What others take for granted about a model that was read. */
static bool sound(const atvi_lang *lang) {
  bool ok = !lang->simulator.given || (lang->simulator.command && lang->simulator.n_output > 0);
  for (atvi_idx i = 0; i < lang->simulator.n_input; i++)
    ok = ok && lang->simulator.input[i] >= 0 && lang->simulator.input[i] < lang->n_param;
  for (atvi_idx i = 0; i < lang->simulator.n_output; i++) ok = ok && lang->simulator.output[i].format;
  for (atvi_idx k = 0; k < lang->n_emulator; k++) {
    const atvi_lang_emulator *em = &lang->emulator[k];
    ok = ok && em->n_input > 0 && (!em->length || em->n_length == em->n_input);
    ok = ok && !em->designs.path == !em->outputs.path && (em->designs.path || lang->simulator.given);
  }
  for (atvi_idx o = 0; o < lang->n_observe; o++)
    for (atvi_idx t = 0; t < lang->observe[o].n_term; t++) {
      const atvi_lang_term *term = &lang->observe[o].term[t];
      ok = ok && (term->kind == ATVI_TERM_EMULATOR) == (term->emulator >= 0);
      ok = ok && term->emulator < lang->n_emulator && lang->kind == ATVI_MODEL_STATIC;
    }
  return ok;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
  atvi_ctx *ctx;
  atvi_lang *lang;
  /* no such folder: files that the text names are not found */
  const atvi_lang_opts opts = {.data_optional = true};
  if (atvi_ctx_new(NULL, &ctx) != ATVI_OK) return 0;
  if (atvi_lang_parse(ctx, "/nonexistent/fuzz.atvi", (const char *)bytes, n, &opts, &lang) == ATVI_OK) {
    if (!sound(lang)) __builtin_trap();
    for (atvi_idx k = 0; k < lang->n_table; k++) {
      double t = lang->start, a, b, next;
      for (int i = 0; i < 5 && t < 1e300; i++, t = next)
        atvi_lang_table_at(lang, &lang->table[k], t, &a, &b, &next);
    }
  } else if (!*atvi_errmsg(ctx))
    __builtin_trap();
  atvi_lang_free(lang);
  atvi_ctx_free(ctx);
  return 0;
}
