/* SPDX-License-Identifier: MIT */
/* The list of methods: a new one is an entry here (docs/dev/add-a-method.md). */
#include "infer/fit.h"
#include "infer/chains.h"
#include "infer/optimum.h"
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
  return atvi_infer_vi_run(ctx, ev, &vi, out);
}

/* Place of a word in auto, on, off: the order of atvi_tune and atvi_exact. */
static int when(const char *word) { return strcmp(word, "auto") == 0 ? 0 : strcmp(word, "on") == 0 ? 1 : 2; }

static atvi_status run_atvi(atvi_ctx *ctx, atvi_evaluator *ev, const atvi_fit_plan *p, atvi_draws **out) {
  atvi_vi_opts vi = atvi_infer_vi_defaults();
  vi.map = p->o.map;
  vi.n_rung = p->n_rung;
  vi.temperature = p->temperature;
  vi.freeze = p->o.freeze;
  vi.tune = (atvi_tune)when(p->o.tune);
  vi.exact = (atvi_exact)when(p->o.exact);
  return run_vi(ctx, ev, p, vi, out);
}

static atvi_status run_nf(atvi_ctx *ctx, atvi_evaluator *ev, const atvi_fit_plan *p, atvi_draws **out) {
  return run_vi(ctx, ev, p, atvi_infer_vi_nf_defaults(), out);
}

static atvi_status run_copula(atvi_ctx *ctx, atvi_evaluator *ev, const atvi_fit_plan *p, atvi_draws **out) {
  return run_vi(ctx, ev, p, atvi_infer_vi_copula_defaults(), out);
}

static atvi_chains_opts chains_opts(const atvi_fit_plan *p, atvi_chains_opts chains) {
  chains.seed = p->o.seed;
  if (p->o.chains > 0) chains.chains = whole(p->o.chains);
  if (p->o.ess > 0) chains.ess = p->o.ess;
  if (p->o.max_iter > 0) chains.max_iter = p->o.max_iter;
  if (p->o.max_seconds > 0) chains.max_seconds = p->o.max_seconds;
  return chains;
}

static atvi_status run_ram(atvi_ctx *ctx, atvi_evaluator *ev, const atvi_fit_plan *p, atvi_draws **out) {
  atvi_chains_opts opts = chains_opts(p, atvi_infer_chains_defaults());
  return atvi_infer_ram_run(ctx, ev, &opts, out);
}

static atvi_status run_nuts(atvi_ctx *ctx, atvi_evaluator *ev, const atvi_fit_plan *p, atvi_draws **out) {
  atvi_chains_opts opts = chains_opts(p, atvi_infer_nuts_defaults());
  return atvi_infer_nuts_run(ctx, ev, &opts, out);
}

static atvi_status run_map(atvi_ctx *ctx, atvi_evaluator *ev, const atvi_fit_plan *p, atvi_draws **out) {
  atvi_optimum_opts opts = atvi_infer_optimum_defaults();
  opts.seed = p->o.seed;
  if (p->o.max_seconds > 0) opts.max_seconds = p->o.max_seconds;
  return atvi_infer_optimum_run(ctx, ev, &opts, NULL, out);
}

/* ---- the list ---- */

#define WEIGHTED_MOST 1e6 /* input: ess of weighted draws: each is in memory */
enum {
  OWN = ATVI_METHOD_OWN,
  DRAWS = ATVI_METHOD_POSTERIOR,
  GRADIENT = ATVI_METHOD_GRADIENT,
  EXACT = ATVI_METHOD_EXACT,
  TRAINS = ATVI_TAKES_ESS | ATVI_TAKES_ITER,
  CHAINS = ATVI_TAKES_ESS | ATVI_TAKES_ITER | ATVI_TAKES_CHAINS,
};

static const atvi_method LIST[] = {
    {"atvi", "annealed variational inference", OWN | DRAWS | GRADIENT, TRAINS | ATVI_TAKES_ATVI,
     .ess_most = WEIGHTED_MOST, .run = run_atvi,
     .help = "Annealed transformed variational inference, the default: a flexible\n"
             "distribution is fitted to the posterior along a ladder of falling\n"
             "temperatures, other modes are looked for, and its draws are weighted\n"
             "to make them exact. k-hat and the effective sample size tell how far\n"
             "they can be trusted."},
    {"nf", "a normalising flow alone", OWN | DRAWS | GRADIENT, TRAINS, .ess_most = WEIGHTED_MOST,
     .run = run_nf,
     .help = "The same distribution (a normalising flow) without ladder, without\n"
             "a search for modes and without fine-tuning."},
    {"copula", "a Gaussian copula", OWN | DRAWS | GRADIENT, TRAINS, .ess_most = WEIGHTED_MOST,
     .run = run_copula, .help = "A Gaussian copula instead of the flow; likewise."},
    {"ram", "robust adaptive Metropolis", OWN | DRAWS | EXACT, CHAINS, .run = run_ram,
     .help = "Robust adaptive Metropolis: several chains from dispersed starts,\n"
             "run until R-hat < 1.01 and bulk and tail ESS are what was asked for,\n"
             "for every parameter, or a limit. Exact in the end; the check of the\n"
             "others."},
    {"nuts", "the No-U-Turn sampler", OWN | DRAWS | GRADIENT | EXACT, CHAINS, .run = run_nuts,
     .help = "The No-U-Turn sampler as in Stan, with windowed adaptation, until\n"
             "the same criteria are met. For smooth models; reports divergences,\n"
             "E-BFMI and tree depth."},
    {"exact", "atvi, then chains that start from it and end exact", DRAWS | EXACT, TRAINS | ATVI_TAKES_ATVI,
     .of = "atvi"},
    {"map", "the maximum and Laplace's method", OWN | GRADIENT, 0, .run = run_map,
     .help = "The maximum of the posterior from several starts, standard\n"
             "deviations by Laplace's method, and the directions that the data\n"
             "do not inform."},
};
enum { METHODS = sizeof LIST / sizeof *LIST };

const atvi_method *atvi_infer_method_at(unsigned is, int i) {
  for (int k = 0, n = 0; k < METHODS; k++)
    if ((LIST[k].is & is) == is && n++ == i) return &LIST[k];
  return NULL;
}

const atvi_method *atvi_infer_method_find(unsigned is, const char *name) {
  for (int k = 0; k < METHODS; k++)
    if ((LIST[k].is & is) == is && strcmp(LIST[k].name, name) == 0) return &LIST[k];
  return NULL;
}

void atvi_infer_list_add(char text[ATVI_METHODS_TEXT], const char *word, bool last, const char *joint) {
  size_t at = strlen(text);
  snprintf(text + at, ATVI_METHODS_TEXT - at, "%s%s", at == 0 ? "" : last ? joint : ", ", word);
}

const char *atvi_infer_methods_text(unsigned is, const char *joint, char text[ATVI_METHODS_TEXT]) {
  const atvi_method *m;
  text[0] = 0;
  for (int i = 0; (m = atvi_infer_method_at(is, i)); i++)
    atvi_infer_list_add(text, m->name, !atvi_infer_method_at(is, i + 1), joint);
  return text;
}
