/* SPDX-License-Identifier: MIT */
/* Every method behind one call: options are read and checked here, once, and handed to the method. */
#include "infer/fit.h"
#include "infer/map.h"
#include "infer/nuts.h"
#include "infer/ram.h"
#include "infer/vi.h"
#include "io/csv.h"
#include <limits.h>
#include <math.h>
#include <string.h>

enum { RUNGS_MAX = 64 };
static const double ESS_MAX = 1e6; /* of weighted draws: there are no more than about so many */

typedef enum { METHOD_ATVI, METHOD_NF, METHOD_COPULA, METHOD_RAM, METHOD_NUTS, METHOD_MAP, N_METHOD } method;
static const char *const METHOD[N_METHOD] = {"atvi", "nf", "copula", "ram", "nuts", "map"};

/* The options, read. */
typedef struct {
  atvi_fit_opts o;
  method method;
  int n_rung; /* 0: chosen from the draws */
  double temperature[RUNGS_MAX];
  atvi_tune tune;
  atvi_exact exact;
} plan;

atvi_fit_opts atvi_fit_defaults(void) {
  return (atvi_fit_opts){.size = sizeof(atvi_fit_opts),
                         .method = "atvi",
                         .seed = 1,
                         .ladder = "auto",
                         .map = "auto",
                         .tune = "auto",
                         .exact = "auto"};
}

/* ---- options ---- */

/* Callers built with an older header have a shorter struct: what is missing keeps its default. */
static atvi_status take_opts(atvi_ctx *ctx, const atvi_fit_opts *opts, atvi_fit_opts *o) {
  const atvi_fit_opts standard = atvi_fit_defaults();
  *o = standard;
  if (!opts) return ATVI_OK;
  if (opts->size < offsetof(atvi_fit_opts, seed) || opts->size > sizeof *o)
    return ATVI_FAIL(ctx, ATVI_EINVAL, "fit: options of %zu bytes; begin with atvi_fit_defaults()",
                     opts->size);
  memcpy(o, opts, opts->size);
  if (!o->method) o->method = standard.method;
  if (!o->ladder) o->ladder = standard.ladder;
  if (!o->map) o->map = standard.map;
  if (!o->tune) o->tune = standard.tune;
  if (!o->exact) o->exact = standard.exact;
  return ATVI_OK;
}

static int find(const char *word, const char *const *list, int n) {
  for (int i = 0; i < n; i++)
    if (strcmp(word, list[i]) == 0) return i;
  return -1;
}

static atvi_status read_method(atvi_ctx *ctx, plan *p) {
  int k = find(p->o.method, METHOD, N_METHOD);
  p->method = k < 0 ? METHOD_ATVI : (method)k;
  if (k >= 0) return ATVI_OK;
  return ATVI_FAIL(
      ctx, ATVI_EINVAL,
      "method %s: there are atvi (annealed variational inference), nf and copula (plain "
      "variational inference), ram (adaptive Metropolis), nuts (No-U-Turn sampler) and map (maximum "
      "and Laplace)",
      p->o.method);
}

static atvi_status bad_ladder(atvi_ctx *ctx, const plan *p, const char *why) {
  return ATVI_FAIL(ctx, ATVI_EINVAL,
                   "ladder %s: %s; want auto, none, or temperatures that fall and end with 1, such as 3,1",
                   p->o.ladder, why);
}

static atvi_status read_ladder(atvi_ctx *ctx, plan *p) {
  const char *at = p->o.ladder;
  if (strcmp(at, "auto") == 0) return ATVI_OK;
  if (strcmp(at, "none") == 0) at = "1";
  for (double before = HUGE_VAL;; at++) {
    size_t n = strcspn(at, ",");
    double t;
    if (!atvi_parse_number(at, n, &t)) return bad_ladder(ctx, p, "that is no list of numbers");
    if (!(t >= 1)) return bad_ladder(ctx, p, "a temperature below 1");
    if (!(t < before)) return bad_ladder(ctx, p, "the temperatures do not fall");
    if (p->n_rung == RUNGS_MAX) return bad_ladder(ctx, p, "more than 64 temperatures");
    p->temperature[p->n_rung++] = before = t;
    at += n;
    if (!*at) break;
  }
  return p->temperature[p->n_rung - 1] == 1 ? ATVI_OK : bad_ladder(ctx, p, "the last temperature is not 1");
}

static atvi_status read_words(atvi_ctx *ctx, plan *p) {
  static const char *const tune[] = {"auto", "on", "off"}; /* by atvi_tune */
  static const char *const map[] = {"auto", "surjection", "probit", "logit"};
  const atvi_fit_opts *o = &p->o;
  int k = find(o->tune, tune, 3);
  if (k < 0) return ATVI_FAIL(ctx, ATVI_EINVAL, "tune %s: want auto, on or off", o->tune);
  p->tune = (atvi_tune)k;
  k = find(o->exact, tune, 3); /* by atvi_exact, the same words */
  if (k < 0) return ATVI_FAIL(ctx, ATVI_EINVAL, "exact %s: want auto, on or off", o->exact);
  p->exact = (atvi_exact)k;
  if (find(o->map, map, 4) < 0)
    return ATVI_FAIL(ctx, ATVI_EINVAL, "map %s: want auto, surjection, probit or logit", o->map);
  if (o->freeze && (strcmp(o->ladder, "auto") == 0 || strcmp(o->ladder, "none") == 0))
    return ATVI_FAIL(ctx, ATVI_EINVAL,
                     "freeze: ladder %s has no temperatures to give layers to; name them, such as ladder 3,1",
                     o->ladder);
  return ATVI_OK;
}

/* A setting that would be ignored is a mistake that would not be noticed. */
static atvi_status only_atvi(atvi_ctx *ctx, const plan *p) {
  const atvi_fit_opts *o = &p->o;
  const char *name = strcmp(o->ladder, "auto") != 0 ? "ladder"
                     : o->freeze                    ? "freeze"
                     : strcmp(o->map, "auto") != 0  ? "map"
                     : strcmp(o->tune, "auto") != 0 ? "tune"
                     : p->exact == ATVI_EXACT_ON    ? "exact"
                                                    : NULL;
  if (!name || p->method == METHOD_ATVI) return ATVI_OK;
  return ATVI_FAIL(ctx, ATVI_EINVAL, "%s is a setting of method atvi; %s has none", name, o->method);
}

static atvi_status only_some(atvi_ctx *ctx, const plan *p) {
  const atvi_fit_opts *o = &p->o;
  if (o->chains > 0 && p->method != METHOD_RAM && p->method != METHOD_NUTS)
    return ATVI_FAIL(ctx, ATVI_EINVAL, "chains is a setting of methods ram and nuts; %s has none", o->method);
  if (p->method == METHOD_MAP && (o->ess > 0 || o->max_iter > 0))
    return ATVI_FAIL(ctx, ATVI_EINVAL, "%s is a setting of the other methods; map has none",
                     o->ess > 0 ? "ess" : "max_iter");
  if (p->method <= METHOD_COPULA && o->ess > ESS_MAX)
    return ATVI_FAIL(ctx, ATVI_EINVAL, "ess %g: method %s draws at most %g", o->ess, o->method, ESS_MAX);
  return ATVI_OK;
}

static atvi_status read_numbers(atvi_ctx *ctx, const plan *p) {
  const atvi_fit_opts *o = &p->o;
  if (!(o->ess >= 0) || !isfinite(o->ess))
    return ATVI_FAIL(ctx, ATVI_EINVAL, "ess %g: want a number above 0, or 0 for the default", o->ess);
  if (!(o->max_seconds >= 0))
    return ATVI_FAIL(ctx, ATVI_EINVAL, "max_seconds %g: want a time above 0, or 0 for no limit",
                     o->max_seconds);
  if (o->chains < 0) return ATVI_FAIL(ctx, ATVI_EINVAL, "chains %d: want 1 or more", o->chains);
  if (o->max_iter < 0) return ATVI_FAIL(ctx, ATVI_EINVAL, "max_iter %td: want 1 or more", o->max_iter);
  return ATVI_OK;
}

static atvi_status read_opts(atvi_ctx *ctx, const atvi_fit_opts *opts, plan *p) {
  *p = (plan){0};
  ATVI_TRY(take_opts(ctx, opts, &p->o));
  ATVI_TRY(read_method(ctx, p));
  ATVI_TRY(read_ladder(ctx, p));
  ATVI_TRY(read_words(ctx, p));
  ATVI_TRY(only_atvi(ctx, p));
  ATVI_TRY(read_numbers(ctx, p));
  return only_some(ctx, p);
}

atvi_status atvi_fit_check(atvi_ctx *ctx, const atvi_fit_opts *opts) {
  plan p;
  return read_opts(ctx, opts, &p);
}

/* ---- methods ---- */

static atvi_status run_vi(atvi_ctx *ctx, atvi_evaluator *ev, const plan *p, atvi_draws **out) {
  const atvi_fit_opts *o = &p->o;
  atvi_vi_opts vi = p->method == METHOD_NF       ? atvi_vi_nf_defaults()
                    : p->method == METHOD_COPULA ? atvi_vi_copula_defaults()
                                                 : atvi_vi_defaults();
  vi.seed = o->seed;
  if (o->ess > 0) vi.ess = o->ess;
  if (o->max_seconds > 0) vi.max_seconds = o->max_seconds;
  if (o->max_iter > 0) vi.max_steps = o->max_iter > INT_MAX ? INT_MAX : (int)o->max_iter;
  if (p->method == METHOD_ATVI) {
    if (strcmp(o->map, "auto") != 0) vi.map = o->map;
    if (p->n_rung > 0) {
      vi.n_rung = p->n_rung;
      vi.temperature = p->temperature;
    }
    vi.freeze = o->freeze;
    if (p->tune != ATVI_TUNE_AUTO) vi.tune = p->tune;
    vi.exact = p->exact;
  }
  return atvi_vi_run(ctx, ev, &vi, out);
}

static atvi_status run_ram(atvi_ctx *ctx, atvi_evaluator *ev, const atvi_fit_opts *o, atvi_draws **out) {
  atvi_ram_opts ram = atvi_ram_defaults();
  ram.seed = o->seed;
  if (o->chains > 0) ram.chains = o->chains;
  if (o->ess > 0) ram.ess = o->ess;
  if (o->max_iter > 0) ram.max_iter = o->max_iter;
  if (o->max_seconds > 0) ram.max_seconds = o->max_seconds;
  return atvi_ram_run(ctx, ev, &ram, out);
}

static atvi_status run_nuts(atvi_ctx *ctx, atvi_evaluator *ev, const atvi_fit_opts *o, atvi_draws **out) {
  atvi_nuts_opts nuts = atvi_nuts_defaults();
  nuts.seed = o->seed;
  if (o->chains > 0) nuts.chains = o->chains;
  if (o->ess > 0) nuts.ess = o->ess;
  if (o->max_iter > 0) nuts.max_iter = o->max_iter;
  if (o->max_seconds > 0) nuts.max_seconds = o->max_seconds;
  return atvi_nuts_run(ctx, ev, &nuts, out);
}

static atvi_status run_map(atvi_ctx *ctx, atvi_evaluator *ev, const atvi_fit_opts *o, atvi_draws **out) {
  atvi_map_opts map = atvi_map_defaults();
  map.seed = o->seed;
  if (o->max_seconds > 0) map.max_seconds = o->max_seconds;
  return atvi_map_run(ctx, ev, &map, NULL, out);
}

static atvi_status run(atvi_ctx *ctx, atvi_evaluator *ev, const plan *p, atvi_draws **out) {
  switch (p->method) {
  case METHOD_RAM: return run_ram(ctx, ev, &p->o, out);
  case METHOD_NUTS: return run_nuts(ctx, ev, &p->o, out);
  case METHOD_MAP: return run_map(ctx, ev, &p->o, out);
  default: return run_vi(ctx, ev, p, out);
  }
}

atvi_status atvi_fit_with(atvi_ctx *ctx, atvi_evaluator *ev, const atvi_fit_opts *opts, atvi_draws **out) {
  plan p;
  *out = NULL;
  ATVI_TRY(read_opts(ctx, opts, &p));
  return run(ctx, ev, &p, out);
}

/* ---- targets of others ---- */

static atvi_status check_target(atvi_ctx *ctx, const atvi_target *t) {
  if (!t || !t->ops) return ATVI_FAIL(ctx, ATVI_EINVAL, "fit: there is no target, or it has no functions");
  if (t->ops->size < offsetof(atvi_target_ops, work_new) || t->ops->size > sizeof *t->ops || !t->ops->eval)
    return ATVI_FAIL(ctx, ATVI_EINVAL,
                     "fit: the target has no eval, or ops->size = %zu is not sizeof(atvi_target_ops)",
                     t->ops->size);
  if (t->d < 1 || !t->param) return ATVI_FAIL(ctx, ATVI_EINVAL, "fit: the target has no parameters");
  for (atvi_idx i = 0; i < t->d; i++) {
    const atvi_param *p = &t->param[i];
    if (!p->name) return ATVI_FAIL(ctx, ATVI_EINVAL, "fit: parameter %td has no name", i);
    if (!(p->lower < p->upper))
      return ATVI_FAIL(ctx, ATVI_EINVAL, "fit: %s has the bounds [%g, %g]", p->name, p->lower, p->upper);
  }
  if (t->n_derived < 0 || (t->n_derived > 0 && !t->derived))
    return ATVI_FAIL(ctx, ATVI_EINVAL, "fit: the target has derived quantities without names");
  return ATVI_OK;
}

atvi_status atvi_fit(atvi_ctx *ctx, const atvi_target *target, const atvi_fit_opts *opts, atvi_draws **out) {
  plan p;
  atvi_evaluator *ev;
  *out = NULL;
  ATVI_TRY(read_opts(ctx, opts, &p));
  ATVI_TRY(check_target(ctx, target));
  /* Members that the caller's header did not have yet are absent. */
  atvi_target_ops ops = {0};
  memcpy(&ops, target->ops, target->ops->size);
  ops.size = sizeof ops;
  atvi_target whole = *target;
  whole.ops = &ops;
  if (!whole.name) whole.name = "target";
  ATVI_TRY(atvi_evaluator_new(ctx, &whole, &ev));
  atvi_status status = run(ctx, ev, &p, out);
  atvi_evaluator_free(ev);
  /* The name belongs to the target, which may go before the draws. */
  if (status == ATVI_OK) status = atvi_draws_keep(*out, (*out)->made.model, &(*out)->made.model);
  if (status != ATVI_OK) {
    atvi_draws_free(*out);
    *out = NULL;
  }
  return status;
}
