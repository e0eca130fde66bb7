/* SPDX-License-Identifier: MIT */
/* atvi eval: log density and gradient at a point, as JSON. */
#include "app/common.h"
#include "io/json.h"

static void put_names(atvi_json *w, const char *key, const atvi_target *t, const double *x) {
  atvi_io_json_object(w, key);
  for (atvi_idx i = 0; i < t->d; i++) atvi_io_json_put(w, t->param[i].name, atvi_io_json_real(x[i]));
  atvi_io_json_end(w);
}

static atvi_status describe(atvi_pool *pool, const atvi_loaded *l, const atvi_batch *b, double *grad_total,
                            const char **text) {
  const atvi_target *t = l->target;
  atvi_json w = {.pool = pool, .digits = 17};
  for (atvi_idx i = 0; i < t->d; i++) grad_total[i] = b->grad_prior[i] + b->grad_lik[i];
  atvi_io_json_object(&w, NULL);
  atvi_io_json_put(&w, "model", atvi_io_json_word(pool, t->name));
  atvi_io_json_put(&w, "log_prior", atvi_io_json_real(b->log_prior[0]));
  atvi_io_json_put(&w, "log_likelihood", atvi_io_json_real(b->log_lik[0]));
  atvi_io_json_put(&w, "log_posterior", atvi_io_json_real(b->log_prior[0] + b->log_lik[0]));
  put_names(&w, "parameters", t, b->theta);
  put_names(&w, "gradient", t, grad_total);
  put_names(&w, "gradient_log_prior", t, b->grad_prior);
  put_names(&w, "gradient_log_likelihood", t, b->grad_lik);
  atvi_io_json_put(&w, "outcome",
                   json_string(b->outcome[0] == ATVI_RUN_OK ? "ok" : atvi_outcome_word(b->outcome[0])));
  return atvi_io_json_get(&w, "eval", text);
}

static atvi_status evaluate(atvi_ctx *ctx, atvi_pool *pool, atvi_loaded *l, atvi_idx n_set,
                            const atvi_app_set *set, const char **text) {
  atvi_idx d = l->target->d;
  double *theta = atvi_pool_take(pool, (size_t)(4 * d), sizeof *theta);
  if (!theta) return ATVI_ENOMEM;
  ATVI_TRY(atvi_app_point(ctx, l->target, n_set, set, theta));
  double lp, ll;
  atvi_outcome outcome;
  atvi_batch b = {.B = 1,
                  .theta = theta,
                  .log_prior = &lp,
                  .log_lik = &ll,
                  .grad_prior = theta + d,
                  .grad_lik = theta + 2 * d,
                  .outcome = &outcome};
  atvi_model_evaluator_run(l->ev, &b);
  return describe(pool, l, &b, theta + 3 * d, text);
}

atvi_status atvi_app_eval(atvi_ctx *ctx, atvi_pool *pool, const atvi_app_model *model, atvi_idx n_set,
                          const atvi_app_set *set, const char **text) {
  atvi_loaded l;
  ATVI_TRY(atvi_app_load(ctx, model, NULL, &l));
  atvi_status status = evaluate(ctx, pool, &l, n_set, set, text);
  atvi_app_unload(&l);
  return status;
}
