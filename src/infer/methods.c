/* SPDX-License-Identifier: MIT */
/* The list of methods: a new one is an entry here (docs/dev/add-a-method.md). */
#include "infer/fit.h"
#include "infer/map.h"
#include "infer/nuts.h"
#include "infer/ram.h"
#include "infer/vi.h"
#include <limits.h>
#include <stdio.h>
#include <string.h>

/* ---- from the options of a fit to those of a method ---- */

static int whole(atvi_idx n) { return n > INT_MAX ? INT_MAX : (int)n; }

static atvi_status run_vi(atvi_ctx *ctx, atvi_evaluator *ev, const atvi_fit_plan *p, atvi_vi_opts vi,
                          atvi_draws **out) {
  vi.seed = p->o.seed;
  if (p->o.ess > 0) vi.ess = p->o.ess;
  if (p->o.max_seconds > 0) vi.max_seconds = p->o.max_seconds;
  if (p->o.max_iter > 0) vi.max_steps = whole(p->o.max_iter);
  return atvi_vi_run(ctx, ev, &vi, out);
}

static atvi_status run_atvi(atvi_ctx *ctx, atvi_evaluator *ev, const atvi_fit_plan *p, atvi_draws **out) {
  atvi_vi_opts vi = atvi_vi_defaults();
  const char *const tune = p->o.tune, *const exact = p->o.exact;
  vi.map = p->o.map;
  vi.n_rung = p->n_rung;
  vi.temperature = p->temperature;
  vi.freeze = p->o.freeze;
  vi.tune = strcmp(tune, "on") == 0    ? ATVI_TUNE_ON
            : strcmp(tune, "off") == 0 ? ATVI_TUNE_OFF
                                       : ATVI_TUNE_AUTO;
  vi.exact = strcmp(exact, "on") == 0    ? ATVI_EXACT_ON
             : strcmp(exact, "off") == 0 ? ATVI_EXACT_OFF
                                         : ATVI_EXACT_AUTO;
  return run_vi(ctx, ev, p, vi, out);
}

static atvi_status run_nf(atvi_ctx *ctx, atvi_evaluator *ev, const atvi_fit_plan *p, atvi_draws **out) {
  return run_vi(ctx, ev, p, atvi_vi_nf_defaults(), out);
}

static atvi_status run_copula(atvi_ctx *ctx, atvi_evaluator *ev, const atvi_fit_plan *p, atvi_draws **out) {
  return run_vi(ctx, ev, p, atvi_vi_copula_defaults(), out);
}

static atvi_status run_ram(atvi_ctx *ctx, atvi_evaluator *ev, const atvi_fit_plan *p, atvi_draws **out) {
  atvi_ram_opts ram = atvi_ram_defaults();
  ram.seed = p->o.seed;
  if (p->o.chains > 0) ram.chains = whole(p->o.chains);
  if (p->o.ess > 0) ram.ess = p->o.ess;
  if (p->o.max_iter > 0) ram.max_iter = p->o.max_iter;
  if (p->o.max_seconds > 0) ram.max_seconds = p->o.max_seconds;
  return atvi_ram_run(ctx, ev, &ram, out);
}

static atvi_status run_nuts(atvi_ctx *ctx, atvi_evaluator *ev, const atvi_fit_plan *p, atvi_draws **out) {
  atvi_nuts_opts nuts = atvi_nuts_defaults();
  nuts.seed = p->o.seed;
  if (p->o.chains > 0) nuts.chains = whole(p->o.chains);
  if (p->o.ess > 0) nuts.ess = p->o.ess;
  if (p->o.max_iter > 0) nuts.max_iter = p->o.max_iter;
  if (p->o.max_seconds > 0) nuts.max_seconds = p->o.max_seconds;
  return atvi_nuts_run(ctx, ev, &nuts, out);
}

static atvi_status run_map(atvi_ctx *ctx, atvi_evaluator *ev, const atvi_fit_plan *p, atvi_draws **out) {
  atvi_map_opts map = atvi_map_defaults();
  map.seed = p->o.seed;
  if (p->o.max_seconds > 0) map.max_seconds = p->o.max_seconds;
  return atvi_map_run(ctx, ev, &map, NULL, out);
}

/* ---- the list ---- */

static const double WEIGHTED_MOST = 1e6; /* ess of weighted draws: each is in memory */

static const atvi_method LIST[] = {
    {.name = "atvi",
     .brief = "annealed variational inference",
     .help = "Annealed transformed variational inference, the default: a flexible\n"
             "distribution is fitted to the posterior along a ladder of falling\n"
             "temperatures, other modes are looked for, and its draws are weighted\n"
             "to make them exact. k-hat and the effective sample size tell how far\n"
             "they can be trusted.",
     .takes = "ess, max_iter, ladder, freeze, map, tune, exact",
     .gradient = true,
     .posterior = true,
     .ess_most = WEIGHTED_MOST,
     .run = run_atvi},
    {.name = "nf",
     .brief = "a normalising flow alone",
     .help = "The same distribution (a normalising flow) without ladder, without\n"
             "a search for modes and without fine-tuning.",
     .takes = "ess, max_iter",
     .gradient = true,
     .posterior = true,
     .ess_most = WEIGHTED_MOST,
     .run = run_nf},
    {.name = "copula",
     .brief = "a Gaussian copula",
     .help = "A Gaussian copula instead of the flow; likewise.",
     .takes = "ess, max_iter",
     .gradient = true,
     .posterior = true,
     .ess_most = WEIGHTED_MOST,
     .run = run_copula},
    {.name = "ram",
     .brief = "robust adaptive Metropolis",
     .help = "Robust adaptive Metropolis: several chains from dispersed starts,\n"
             "run until R-hat < 1.01 and bulk and tail ESS are what was asked for,\n"
             "for every parameter, or a limit. Exact in the end; the check of the\n"
             "others.",
     .takes = "ess, max_iter, chains",
     .posterior = true,
     .reference = 3,
     .run = run_ram},
    {.name = "nuts",
     .brief = "the No-U-Turn sampler",
     .help = "The No-U-Turn sampler as in Stan, with windowed adaptation, until\n"
             "the same criteria are met. For smooth models; reports divergences,\n"
             "E-BFMI and tree depth.",
     .takes = "ess, max_iter, chains",
     .gradient = true,
     .posterior = true,
     .reference = 2,
     .run = run_nuts},
    {.name = "exact",
     .brief = "atvi, then chains that start from it and end exact",
     .of = "atvi",
     .posterior = true,
     .reference = 1},
    {.name = "map",
     .brief = "the maximum and Laplace's method",
     .help = "The maximum of the posterior from several starts, standard\n"
             "deviations by Laplace's method, and the directions that the data\n"
             "do not inform.",
     .takes = "",
     .gradient = true,
     .run = run_map},
};
enum { METHODS = sizeof LIST / sizeof *LIST };

/* ---- questions about it ---- */

static bool is_in(const atvi_method *m, atvi_methods set) {
  switch (set) {
  case ATVI_METHODS_OWN: return !m->of;
  case ATVI_METHODS_ALL: return true;
  case ATVI_METHODS_POSTERIOR: return m->posterior;
  case ATVI_METHODS_REFERENCE: return m->reference > 0;
  }
  return false;
}

const atvi_method *atvi_method_at(atvi_methods set, int i) {
  for (int k = 0, n = 0; k < METHODS; k++)
    if (set == ATVI_METHODS_REFERENCE ? LIST[k].reference == i + 1 : is_in(&LIST[k], set) && n++ == i)
      return &LIST[k];
  return NULL;
}

const atvi_method *atvi_method_find(atvi_methods set, const char *name) {
  for (int k = 0; k < METHODS; k++)
    if (is_in(&LIST[k], set) && strcmp(LIST[k].name, name) == 0) return &LIST[k];
  return NULL;
}

bool atvi_method_takes(const atvi_method *m, const char *option) {
  static const char all[] = "method, seed, max_seconds";
  const char *list[] = {all, m->of ? atvi_method_find(ATVI_METHODS_OWN, m->of)->takes : m->takes};
  size_t n = strlen(option);
  for (int k = 0; k < 2; k++)
    for (const char *at = list[k]; *at; at += strspn(at, ", ")) {
      size_t word = strcspn(at, ",");
      if (word == n && memcmp(at, option, n) == 0) return true;
      at += word;
    }
  return false;
}

void atvi_list_add(char *text, size_t size, const char *word, bool last, const char *joint) {
  size_t at = strlen(text);
  snprintf(text + at, size - at, "%s%s", at == 0 ? "" : last ? joint : ", ", word);
}

const char *atvi_methods_text(atvi_methods set, const char *joint, char text[ATVI_METHODS_TEXT]) {
  const atvi_method *m;
  text[0] = 0;
  for (int i = 0; (m = atvi_method_at(set, i)); i++)
    atvi_list_add(text, ATVI_METHODS_TEXT, m->name, !atvi_method_at(set, i + 1), joint);
  return text;
}
