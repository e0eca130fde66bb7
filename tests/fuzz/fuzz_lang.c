/* SPDX-License-Identifier: MIT */
/* Any bytes as a model file: an error or a model, never a crash, never long. */
#include "lang/lang.h"
#include "place.h"

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

/* Units share all but numbers, and their parameters are those of the whole model. */
static bool sound_units(const atvi_lang *lang) {
  bool ok = lang->blocks.n_param >= lang->n_param;
  for (atvi_idx b = 0; b < lang->blocks.n_block; b++)
    for (atvi_idx u = 0; u < lang->blocks.block[b].n_unit; u++) {
      const atvi_lang_unit *unit = &lang->blocks.block[b].unit[u];
      const atvi_lang *l = unit->lang, *first = lang->blocks.block[b].unit[0].lang;
      ok = ok && sound(l) && l->blocks.n_block == 0 && l->dynamics.n_state == first->dynamics.n_state &&
           l->dynamics.n_pulse == first->dynamics.n_pulse;
      for (atvi_idx i = 0; ok && i < l->n_param; i++)
        ok = unit->param[i] >= 0 && unit->param[i] < lang->blocks.n_param;
      for (atvi_idx k = 0; ok && k < lang->blocks.block[b].n_covariate; k++)
        ok = unit->covariate[k] == unit->covariate[k];
      for (atvi_idx p = 0; ok && p < l->dynamics.n_pulse; p++)
        for (atvi_idx i = 1; ok && i < l->dynamics.pulse[p].n_time; i++)
          ok = l->dynamics.pulse[p].time[i] >= l->dynamics.pulse[p].time[i - 1];
    }
  return ok;
}

/* The folder of the model: a file of units, and a long one. Other files that the text names are not found. */
static const char *model_path(void) {
  static const char UNITS[] = "u,v,w,x\na,p,1.5,3\nb,p,2,4\nc,q,2,-1\n",
                    LONG[] = "u,t,y\na,0,1\nb,0,3\na,2,NA\nb,4,7\n",
                    WAVES[] = "u,t,y\na,0,1\nb,0,3\na,2,5\nb,4,7\nb,5,6\nc,0,1\nc,9,2\n";
  static bool made;
  if (!made) {
    place_put("u.csv", UNITS, sizeof UNITS - 1);
    place_put("l.csv", LONG, sizeof LONG - 1);
    place_put("w.csv", WAVES, sizeof WAVES - 1);
    made = true;
  }
  return place_path("fuzz.atvi");
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
  atvi_ctx *ctx;
  atvi_lang *lang;
  const atvi_lang_opts opts = {.data_optional = true};
  if (atvi_ctx_new(NULL, &ctx) != ATVI_OK) return 0;
  if (atvi_lang_parse(ctx, model_path(), (const char *)bytes, n, &opts, &lang) == ATVI_OK) {
    if (!sound(lang) || !sound_units(lang)) __builtin_trap();
    for (atvi_idx k = 0; k < lang->n_table; k++) {
      double t = lang->time.start, a, b, next;
      for (int i = 0; i < 5 && t < 1e300; i++, t = next)
        atvi_lang_table_at(lang, &lang->table[k], t, &a, &b, &next);
    }
  } else if (!*atvi_errmsg(ctx))
    __builtin_trap();
  atvi_lang_free(lang);
  atvi_ctx_free(ctx);
  return 0;
}
