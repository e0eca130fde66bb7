/* SPDX-License-Identifier: MIT */
/* Every method behind one call: options are read and checked here, once, and handed to the method. */
#include "infer/fit.h"
#include "core/core.h"
#include "io/csv.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

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
  *o = atvi_fit_defaults();
  if (!opts) return ATVI_OK;
  if (opts->size < offsetof(atvi_fit_opts, seed) || opts->size > sizeof *o)
    return ATVI_FAIL(ctx, ATVI_EINVAL, "fit: options of %zu bytes; begin with atvi_fit_defaults()",
                     opts->size);
  memcpy(o, opts, opts->size);
  atvi_fit_options_fill(o);
  return ATVI_OK;
}

static atvi_status no_method(atvi_ctx *ctx, const char *name) {
  const atvi_method *m;
  char list[ATVI_METHODS_TEXT] = "", one[ATVI_METHODS_TEXT];
  for (int i = 0; (m = atvi_method_at(ATVI_METHOD_OWN, i)); i++) {
    snprintf(one, sizeof one, "%s (%s)", m->name, m->brief);
    atvi_list_add(list, one, !atvi_method_at(ATVI_METHOD_OWN, i + 1), " and ");
  }
  return ATVI_FAIL(ctx, ATVI_EINVAL, "method %s: there are %s", name, list);
}

static atvi_status bad_ladder(atvi_ctx *ctx, const atvi_fit_plan *p, const char *why) {
  return ATVI_FAIL(ctx, ATVI_EINVAL,
                   "ladder %s: %s; want auto, none, or temperatures that fall and end with 1, such as 3,1",
                   p->o.ladder, why);
}

static atvi_status read_ladder(atvi_ctx *ctx, atvi_fit_plan *p) {
  const char *at = p->o.ladder;
  bool automatic = strcmp(at, "auto") == 0, none = strcmp(at, "none") == 0;
  if (p->o.freeze && (automatic || none))
    return ATVI_FAIL(ctx, ATVI_EINVAL,
                     "freeze: ladder %s has no temperatures to give layers to; name them, such as ladder 3,1",
                     p->o.ladder);
  if (automatic) return ATVI_OK;
  if (none) at = "1";
  for (double before = HUGE_VAL;; at++) {
    size_t n = strcspn(at, ",");
    double t;
    if (!atvi_parse_number(at, n, &t)) return bad_ladder(ctx, p, "that is not a list of numbers");
    if (!(t >= 1)) return bad_ladder(ctx, p, "a temperature below 1");
    if (!(t < before)) return bad_ladder(ctx, p, "the temperatures do not fall");
    if (p->n_rung == ATVI_FIT_RUNGS) return bad_ladder(ctx, p, "more than 64 temperatures");
    p->temperature[p->n_rung++] = before = t;
    at += n;
    if (!*at) break;
  }
  return p->temperature[p->n_rung - 1] == 1 ? ATVI_OK : bad_ladder(ctx, p, "the last temperature is not 1");
}

atvi_status atvi_fit_check(atvi_ctx *ctx, const atvi_fit_opts *opts, atvi_fit_plan *plan) {
  *plan = (atvi_fit_plan){0};
  ATVI_TRY(take_opts(ctx, opts, &plan->o));
  plan->method = atvi_method_find(ATVI_METHOD_OWN, plan->o.method);
  if (!plan->method) return no_method(ctx, plan->o.method);
  ATVI_TRY(atvi_fit_options_check(ctx, plan->method, &plan->o));
  return read_ladder(ctx, plan);
}

atvi_status atvi_fit_with(atvi_ctx *ctx, atvi_evaluator *ev, const atvi_fit_plan *plan, atvi_draws **out) {
  *out = NULL;
  return plan->method->run(ctx, ev, plan, out);
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

atvi_status atvi_fit_planned(atvi_ctx *ctx, const atvi_target *target, const atvi_fit_plan *plan,
                             atvi_draws **out) {
  atvi_evaluator *ev;
  *out = NULL;
  ATVI_TRY(check_target(ctx, target));
  /* Members that the caller's header did not have yet are absent. */
  atvi_target_ops ops = {0};
  memcpy(&ops, target->ops, target->ops->size);
  ops.size = sizeof ops;
  atvi_target whole = *target;
  whole.ops = &ops;
  if (!whole.name) whole.name = "target";
  ATVI_TRY(atvi_evaluator_new(ctx, &whole, &ev));
  atvi_status status = atvi_fit_with(ctx, ev, plan, out);
  atvi_evaluator_free(ev);
  /* The name belongs to the target, which may go before the draws. */
  if (status == ATVI_OK) status = atvi_draws_keep(*out, (*out)->made.model, &(*out)->made.model);
  if (status != ATVI_OK) {
    atvi_draws_free(*out);
    *out = NULL;
  }
  return status;
}

atvi_status atvi_fit(atvi_ctx *ctx, const atvi_target *target, const atvi_fit_opts *opts, atvi_draws **out) {
  atvi_fit_plan plan;
  *out = NULL;
  ATVI_TRY(atvi_fit_check(ctx, opts, &plan));
  return atvi_fit_planned(ctx, target, &plan, out);
}

/* ---- what methods end with ---- */

atvi_status atvi_fit_draws_new(atvi_ctx *ctx, const atvi_target *t, atvi_idx n, atvi_idx n_chain,
                               bool weighted, atvi_draws **out) {
  *out = NULL;
  atvi_idx n_col = t->d + t->n_derived;
  atvi_column *col = atvi_block(ctx, (size_t)n_col * sizeof *col);
  if (!col) return ATVI_FAIL(ctx, ATVI_ENOMEM, "draws: %td columns", n_col);
  for (atvi_idx j = 0; j < t->d; j++)
    col[j] = (atvi_column){t->param[j].name, t->param[j].lower, t->param[j].upper};
  for (atvi_idx j = 0; j < t->n_derived; j++)
    col[t->d + j] = (atvi_column){t->derived[j], -HUGE_VAL, HUGE_VAL};
  atvi_status st = atvi_draws_new(ctx, n, n_chain, t->d, n_col, col, weighted, out);
  atvi_block_free(ctx, col);
  return st;
}

void atvi_fit_derived(atvi_evaluator *ev, atvi_draws *d) {
  const atvi_target *t = atvi_evaluator_target(ev);
  if (t->n_derived == 0) return;
  double *out = d->x + t->d * d->n;
  if (t->ops->derived)
    t->ops->derived(t->self, atvi_evaluator_work(ev), d->n, d->x, out);
  else
    for (atvi_idx i = 0; i < t->n_derived * d->n; i++) out[i] = NAN;
}
