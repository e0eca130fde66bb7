/* SPDX-License-Identifier: MIT */
/* atvi eval: log density and gradient at a point, as JSON. */
#include "app/common.h"
#include <jansson.h>
#include <math.h>
#include <stdlib.h>

static json_t *number(double x) { return isfinite(x) ? json_real(x) : json_null(); }

static json_t *by_name(const atvi_target *t, const double *x) {
  json_t *o = json_object();
  for (atvi_idx i = 0; i < t->d; i++) json_object_set_new(o, t->param[i].name, number(x[i]));
  return o;
}

static json_t *describe(const atvi_loaded *l, const double *theta, const atvi_batch *b, double *grad_total) {
  const atvi_target *t = l->target;
  for (atvi_idx i = 0; i < t->d; i++) grad_total[i] = b->grad_prior[i] + b->grad_lik[i];
  json_t *root = json_object();
  json_object_set_new(root, "model", json_string(t->name));
  json_object_set_new(root, "log_prior", number(b->log_prior[0]));
  json_object_set_new(root, "log_likelihood", number(b->log_lik[0]));
  json_object_set_new(root, "log_posterior", number(b->log_prior[0] + b->log_lik[0]));
  json_object_set_new(root, "parameters", by_name(t, theta));
  json_object_set_new(root, "gradient", by_name(t, grad_total));
  json_object_set_new(root, "gradient_log_prior", by_name(t, b->grad_prior));
  json_object_set_new(root, "gradient_log_likelihood", by_name(t, b->grad_lik));
  json_object_set_new(root, "outcome",
                      json_string(b->outcome[0] == ATVI_RUN_OK ? "ok" : atvi_outcome_word(b->outcome[0])));
  return root;
}

static atvi_status evaluate(atvi_ctx *ctx, atvi_pool *pool, atvi_loaded *l, atvi_idx n_set,
                            const atvi_app_set *set, const char **text) {
  atvi_idx d = l->target->d;
  double *theta = atvi_pool_take(pool, (size_t)(4 * d), sizeof *theta);
  if (!theta) return ATVI_FAIL(ctx, ATVI_ENOMEM, "out of memory");
  ATVI_TRY(atvi_app_point(ctx, l->target, n_set, set, theta));
  double lp, ll;
  atvi_outcome outcome;
  atvi_batch b = {1, theta, &lp, &ll, theta + d, theta + 2 * d, &outcome};
  atvi_evaluator_run(l->ev, &b);
  json_t *root = describe(l, theta, &b, theta + 3 * d);
  char *dump = json_dumps(root, JSON_INDENT(2) | JSON_REAL_PRECISION(17));
  json_decref(root);
  *text = dump ? atvi_pool_printf(pool, "%s\n", dump) : NULL;
  free(dump);
  return *text ? ATVI_OK : ATVI_FAIL(ctx, ATVI_ENOMEM, "out of memory");
}

atvi_status atvi_app_eval(atvi_ctx *ctx, atvi_pool *pool, const atvi_app_model *model, atvi_idx n_set,
                          const atvi_app_set *set, const char **text) {
  atvi_loaded l;
  ATVI_TRY(atvi_app_load(ctx, model, NULL, &l));
  atvi_status status = evaluate(ctx, pool, &l, n_set, set, text);
  atvi_app_unload(&l);
  return status;
}
