/* SPDX-License-Identifier: MIT */
#include "app/common.h"
#include "io/csv.h"
#include "model/model.h"
#include <math.h>
#include <string.h>

/* Does parameter name belong to what the user wrote: itself, or an element of that array? "beta[1]" is "beta.1". */
static bool matches(const char *given, const char *name) {
  size_t n = 0;
  for (; given[n] && name[n]; n++) {
    char c = given[n] == '[' || given[n] == ',' ? '.' : given[n];
    if (c != name[n]) break;
  }
  if (given[n] == ']' && given[n + 1] == 0 && name[n] == 0) return true;
  return given[n] == 0 && (name[n] == 0 || name[n] == '.');
}

static atvi_status unknown(atvi_ctx *ctx, const char *what, const atvi_target *target, const char *name) {
  char list[600] = "";
  for (atvi_idx i = 0; i < target->d && strlen(list) < sizeof list - 80; i++) {
    if (i) strcat(list, ", ");
    strncat(list, target->param[i].name, 60);
  }
  return ATVI_FAIL(ctx, ATVI_EINVAL, "%s %s: the model has no parameter of that name; it has %s", what, name,
                   list);
}

static atvi_status bad_number(atvi_ctx *ctx, const char *what, const atvi_app_set *s) {
  return ATVI_FAIL(ctx, ATVI_EINVAL,
                   "%s %s=%s: want a number, or for an array one number per element separated by commas",
                   what, s->name, s->value);
}

static atvi_status assign(atvi_ctx *ctx, const char *what, const atvi_target *target, const atvi_app_set *s,
                          double *value) {
  const char *at = s->value, *item;
  size_t n;
  bool list = strchr(at, ',') != NULL;
  atvi_idx found = 0;
  for (atvi_idx i = 0; i < target->d; i++) {
    double x;
    if (!matches(s->name, target->param[i].name)) continue;
    if (!list) at = s->value; /* one for all */
    if (!atvi_app_next(&at, &item, &n) || !atvi_parse_number(item, n, &x)) return bad_number(ctx, what, s);
    value[i] = x;
    found++;
  }
  if (found == 0) return unknown(ctx, what, target, s->name);
  return list && at ? bad_number(ctx, what, s) : ATVI_OK;
}

atvi_status atvi_app_values(atvi_ctx *ctx, const char *what, const atvi_target *target, atvi_idx n,
                            const atvi_app_set *set, double *value) {
  for (atvi_idx i = 0; i < target->d; i++) value[i] = NAN;
  for (atvi_idx k = 0; k < n; k++) ATVI_TRY(assign(ctx, what, target, &set[k], value));
  return ATVI_OK;
}

atvi_status atvi_app_point(atvi_ctx *ctx, const atvi_target *target, atvi_idx n, const atvi_app_set *set,
                           double *theta) {
  ATVI_TRY(atvi_app_values(ctx, "--set", target, n, set, theta));
  for (atvi_idx i = 0; i < target->d; i++) {
    const atvi_param *p = &target->param[i];
    if (isnan(theta[i]))
      return ATVI_FAIL(ctx, ATVI_EINVAL, "no value for %s: add --set %s=... (its bounds are [%g, %g])",
                       p->name, p->name, p->lower, p->upper);
    if (theta[i] < p->lower || theta[i] > p->upper)
      return ATVI_FAIL(ctx, ATVI_EINVAL, "--set %s=%g is outside its bounds [%g, %g]", p->name, theta[i],
                       p->lower, p->upper);
  }
  return ATVI_OK;
}

static atvi_status fix(atvi_ctx *ctx, const atvi_app_model *opts, atvi_loaded *l) {
  const atvi_target *base = atvi_model_target(l->model);
  l->target = base;
  if (base->d == 0)
    return ATVI_FAIL(
        ctx, ATVI_EMODEL,
        "%s:1:1: error: the model has no parameters\nhint: add a line such as: param beta ~ uniform(0, 3)",
        opts->path);
  if (opts->n_fix == 0) return ATVI_OK;
  double *value = atvi_block(ctx, (size_t)base->d * (sizeof(double) + sizeof(atvi_idx)));
  if (!value) return ATVI_FAIL(ctx, ATVI_ENOMEM, "out of memory");
  atvi_idx *index = (atvi_idx *)(value + base->d), n = 0;
  atvi_status status = atvi_app_values(ctx, "--fix", base, opts->n_fix, opts->fix, value);
  for (atvi_idx i = 0; status == ATVI_OK && i < base->d; i++)
    if (!isnan(value[i])) {
      value[n] = value[i];
      index[n++] = i;
    }
  if (status == ATVI_OK) status = atvi_fixed_new(ctx, base, n, index, value, &l->fixed);
  if (status == ATVI_OK) l->target = l->fixed;
  atvi_block_free(ctx, value);
  return status;
}

bool atvi_app_no_data(const atvi_loaded *l) {
  const atvi_lang *lang = l->model->lang;
  for (atvi_idx o = 0; o < lang->n_observe; o++)
    if (lang->observe[o].column < 0 || lang->observe[o].n_missing < lang->data[lang->observe[o].data].n_row)
      return false;
  return lang->n_observe > 0;
}

atvi_status atvi_app_load(atvi_ctx *ctx, const atvi_app_model *opts, const atvi_model_load_opts *use,
                          atvi_loaded *out) {
  atvi_model_load_opts how = use ? *use : (atvi_model_load_opts){0};
  *out = (atvi_loaded){0};
  how.n_data = opts->n_data;
  how.data = opts->data;
  how.interpret = opts->interpret;
  how.folder = opts->folder;
  how.runs = opts->runs;
  how.runs_lines = opts->runs_lines;
  how.emulators = opts->emulators;
  atvi_status status = atvi_model_load_with(ctx, opts->path, &how, &out->model);
  if (status == ATVI_EIO)
    status = ATVI_EDATA; /* a file that cannot be read is for the user to mend, like a wrong one */
  if (status == ATVI_OK) status = fix(ctx, opts, out);
  if (status == ATVI_OK) status = atvi_evaluator_new(ctx, out->target, &out->ev);
  if (status != ATVI_OK)
    atvi_app_unload(out);
  else if (atvi_app_no_data(out) && !how.text) /* of the model of a fit it was told then */
    atvi_log(ctx, ATVI_LOG_WARN,
             "every observation is missing: the data say nothing, and the posterior is the prior");
  if (status == ATVI_OK && out->model->info.reason[0])
    atvi_log(ctx, ATVI_LOG_WARN, "the model runs in the interpreter, several times slower: %s",
             out->model->info.reason);
  return status;
}

void atvi_app_unload(atvi_loaded *l) {
  atvi_evaluator_free(l->ev);
  atvi_fixed_free(l->fixed);
  atvi_model_free(l->model);
  *l = (atvi_loaded){0};
}

atvi_status atvi_app_solver_error(atvi_ctx *ctx, atvi_loaded *l, atvi_idx n, const double *theta,
                                  double *error) {
  const atvi_target *t = l->target;
  *error = 0;
  if (!t->ops->eval_exact) return ATVI_OK;
  double *ll = atvi_block(ctx, (size_t)(2 * n + 1) * sizeof *ll);
  if (!ll) return ATVI_FAIL(ctx, ATVI_ENOMEM, "out of memory");
  t->ops->eval(t->self, atvi_evaluator_work(l->ev), &(atvi_batch){.B = n, .theta = theta, .log_lik = ll});
  t->ops->eval_exact(t->self, atvi_evaluator_work(l->ev),
                     &(atvi_batch){.B = n, .theta = theta, .log_lik = ll + n});
  atvi_idx compared = 0;
  for (atvi_idx j = 0; j < n; j++)
    if (isfinite(ll[j]) && isfinite(ll[n + j])) *error = fmax(*error, fabs(ll[j] - ll[n + j])), compared++;
  if (compared == 0) *error = NAN;
  atvi_block_free(ctx, ll);
  return ATVI_OK;
}
