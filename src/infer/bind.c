/* SPDX-License-Identifier: MIT */
#include "atvi/bind.h"
#include "atvi/fit.h"
#include "core/core.h"
#include "infer/fit.h"
#include "infer/optimum.h"
#include "infer/vi_tuning.h"
#include "io/draws_file.h"
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

enum { GROUP = ATVI_BATCH }; /* points per call: other languages are slow to be called, and quick on arrays */

typedef struct {
  atvi_target target; /* first: it is what the user has */
  atvi_target_ops ops;
  atvi_ctx *ctx;
  atvi_density_fn fn;
  void *user;
  pthread_mutex_t lock;
  atomic_bool failed;
} density;

/* Points inside the box, side by side. */
typedef struct {
  atvi_ctx *ctx;
  atvi_idx *at;  /* [GROUP] which they are */
  double *theta; /* [d][GROUP] */
  double *value; /* [GROUP] */
  double *grad;  /* [d][GROUP] */
} scratch;

/* ---- the target ---- */

static atvi_status work_new(const void *self, atvi_ctx *ctx, void **out) {
  const density *s = self;
  const size_t n = GROUP, d = (size_t)s->target.d;
  scratch *w = atvi_block(ctx, sizeof *w + n * (sizeof *w->at + (2 * d + 1) * sizeof(double)));
  *out = w;
  if (!w) return ATVI_ENOMEM;
  w->ctx = ctx;
  w->theta = (double *)(w + 1);
  w->value = w->theta + n * d;
  w->grad = w->value + n;
  w->at = (atvi_idx *)(w->grad + n * d);
  return ATVI_OK;
}

static void work_free(void *work) {
  scratch *w = work;
  atvi_block_free(w->ctx, w);
}

static bool inside(const density *s, const atvi_batch *b, atvi_idx i) {
  for (atvi_idx j = 0; j < s->target.d; j++) {
    double x = b->theta[j * b->B + i];
    if (!(x >= s->target.param[j].lower && x <= s->target.param[j].upper)) return false;
  }
  return true;
}

/* Point i, whose log density is value and its gradient grad[j * stride]; NULL: zero. */
static void answer(const atvi_batch *b, atvi_idx d, atvi_idx i, double prior, double value,
                   const double *grad, atvi_idx stride, atvi_outcome outcome) {
  if (b->log_prior) b->log_prior[i] = prior;
  if (b->log_lik) b->log_lik[i] = value;
  for (atvi_idx j = 0; j < d; j++) {
    if (b->grad_prior) b->grad_prior[j * b->B + i] = 0;
    if (b->grad_lik) b->grad_lik[j * b->B + i] = grad ? grad[j * stride] : 0;
  }
  if (b->outcome) b->outcome[i] = outcome;
}

/* Calls fn for the n points of w; false if it failed, now or earlier. */
static bool call(density *s, scratch *w, atvi_idx n, bool grad) {
  pthread_mutex_lock(&s->lock);
  if (!s->failed && s->fn(s->user, s->target.d, n, w->theta, w->value, grad ? w->grad : NULL) != 0)
    s->failed = true;
  pthread_mutex_unlock(&s->lock);
  return !s->failed;
}

static void eval_part(density *s, scratch *w, const atvi_batch *b, atvi_idx first, atvi_idx end) {
  const atvi_idx d = s->target.d;
  atvi_idx n = 0;
  for (atvi_idx i = first; i < end; i++) {
    if (inside(s, b, i))
      w->at[n++] = i;
    else
      answer(b, d, i, -HUGE_VAL, -HUGE_VAL, NULL, 0, ATVI_RUN_OUTSIDE);
  }
  for (atvi_idx j = 0; j < d; j++)
    for (atvi_idx k = 0; k < n; k++) w->theta[j * n + k] = b->theta[j * b->B + w->at[k]];
  bool good = n == 0 || call(s, w, n, b->grad_lik != NULL);
  for (atvi_idx k = 0; k < n; k++) {
    bool finite = good && w->value[k] < HUGE_VAL;
    for (atvi_idx j = 0; finite && b->grad_lik && w->value[k] > -HUGE_VAL && j < d; j++)
      finite = isfinite(w->grad[j * n + k]);
    answer(b, d, w->at[k], 0, finite ? w->value[k] : -HUGE_VAL, finite && b->grad_lik ? w->grad + k : NULL, n,
           !good    ? ATVI_RUN_CALL
           : finite ? ATVI_RUN_OK
                    : ATVI_RUN_NONFINITE);
  }
}

static void eval(const void *self, void *work, const atvi_batch *b) {
  density *s = (density *)self; /* counts as read-only: fn is called under the lock */
  for (atvi_idx first = 0; first < b->B; first += GROUP)
    eval_part(s, work, b, first, b->B - first < GROUP ? b->B : first + GROUP);
}

/* ---- making it ---- */

static atvi_status check(atvi_ctx *ctx, atvi_idx d, const char *const *names, const double *lower,
                         const double *upper, atvi_density_fn fn) {
  if (d < 1 || !names || !lower || !upper || !fn)
    return ATVI_FAIL(ctx, ATVI_EINVAL,
                     "density: %td parameters; want at least one, with names, bounds and a function", d);
  for (atvi_idx i = 0; i < d; i++) {
    if (!names[i] || !*names[i])
      return ATVI_FAIL(ctx, ATVI_EINVAL, "density: parameter %td has no name", i + 1);
    for (atvi_idx j = 0; j < i; j++)
      if (strcmp(names[i], names[j]) == 0)
        return ATVI_FAIL(ctx, ATVI_EINVAL, "density: two parameters are called %s", names[i]);
    if (!(lower[i] < upper[i]))
      return ATVI_FAIL(ctx, ATVI_EINVAL, "density: %s has bounds [%g, %g]", names[i], lower[i], upper[i]);
  }
  return ATVI_OK;
}

typedef struct {
  density *self;
  atvi_param *param;
  char *text;
} parts;

/* Lays the object out. Runs twice: a->base == NULL measures, else it places. */
static parts carve(atvi_arena *a, atvi_idx d, size_t n_text) {
  parts p;
  ATVI_TAKE(a, p.self, 1);
  ATVI_TAKE(a, p.param, d);
  ATVI_TAKE(a, p.text, n_text);
  return p;
}

static const char *keep(char **at, const char *s) {
  size_t n = strlen(s) + 1;
  char *to = memcpy(*at, s, n);
  *at += n;
  return to;
}

atvi_status atvi_density_new(atvi_ctx *ctx, const char *name, atvi_idx d, const char *const *names,
                             const double *lower, const double *upper, const char *map, atvi_density_fn fn,
                             void *user, atvi_target **out) {
  atvi_arena a = {0};
  *out = NULL;
  ATVI_TRY(check(ctx, d, names, lower, upper, fn));
  if (!name || !*name) name = "density";
  if (!map) map = "auto";
  size_t n_text = strlen(name) + strlen(map) + 2;
  for (atvi_idx i = 0; i < d; i++) n_text += strlen(names[i]) + 1;
  carve(&a, d, n_text);
  a = (atvi_arena){.base = atvi_block(ctx, a.used)};
  if (!a.base) return ATVI_ENOMEM;
  parts p = carve(&a, d, n_text);
  density *s = p.self;
  const char *one_map = keep(&p.text, map);
  s->ctx = ctx;
  s->fn = fn;
  s->user = user;
  pthread_mutex_init(&s->lock, NULL);
  s->ops =
      (atvi_target_ops){.size = sizeof s->ops, .eval = eval, .work_new = work_new, .work_free = work_free};
  s->target = (atvi_target){
      .ops = &s->ops, .self = s, .name = keep(&p.text, name), .d = d, .param = p.param, .group = GROUP};
  for (atvi_idx i = 0; i < d; i++)
    p.param[i] = (atvi_param){keep(&p.text, names[i]), lower[i], upper[i], one_map};
  *out = &s->target;
  return ATVI_OK;
}

bool atvi_density_failed(const atvi_target *target) { return ((density *)target->self)->failed; }

void atvi_density_free(atvi_target *target) {
  if (!target) return;
  density *s = target->self;
  pthread_mutex_destroy(&s->lock);
  atvi_block_free(s->ctx, s);
}

/* ---- options by name ---- */

static bool is(const char *a, const char *b) { return strcmp(a, b) == 0; }

const char *atvi_fit_option_word(atvi_idx i, const char *what) {
  const atvi_fit_option *p = atvi_infer_fit_option_at((int)i);
  return !p ? NULL : is(what, "name") ? p->name : is(what, "help") ? p->help : NULL;
}

const char *atvi_fit_method_word(atvi_idx i, const char *what) {
  const atvi_method *m = atvi_infer_method_at(ATVI_METHOD_OWN, (int)i);
  return !m ? NULL : is(what, "name") ? m->name : is(what, "help") ? m->help : NULL;
}

/* time: of what there is, that of the check. */
static const double CHECK_SHARE = 0.1;

/* A gradient that someone has written by hand; a wrong one costs minutes, and ends in chains that do not
 * agree. */
static atvi_status check_gradient(atvi_ctx *ctx, const atvi_target *target, const atvi_fit_plan *p) {
  atvi_evaluator *ev;
  bool own = target && target->ops && target->ops->eval == eval;
  if (!own || !(p->method->is & ATVI_METHOD_GRADIENT)) return ATVI_OK;
  ATVI_TRY(atvi_model_evaluator_new(ctx, target, &ev));
  atvi_status status = atvi_infer_gradient_check(ctx, ev, p->o.seed, CHECK_SHARE * p->o.max_seconds);
  atvi_model_evaluator_free(ev);
  return status;
}

atvi_status atvi_fit_named(atvi_ctx *ctx, const atvi_target *target, atvi_idx n, const char *const *option,
                           const char *const *value, atvi_draws **out) {
  static const char *const want[] = {"a word",   "a whole number", "a number",
                                     "a number", "a whole number", "0 or 1"}; /* by atvi_option_kind */
  atvi_fit_opts o = atvi_fit_defaults();
  atvi_fit_plan plan;
  bool check = true;
  *out = NULL;
  for (atvi_idx i = 0; i < n; i++) {
    const atvi_fit_option *p = atvi_infer_fit_option_find(option[i]);
    bool own = is(option[i], "check_gradient"), good = own && (is(value[i], "0") || is(value[i], "1"));
    if (!p && !own) return ATVI_FAIL(ctx, ATVI_EINVAL, "fit: there is no option %s", option[i]);
    if (!(own ? good : atvi_infer_fit_option_read(p, value[i], &o)))
      return ATVI_FAIL(ctx, ATVI_EINVAL, "fit: %s = %s: want %s", option[i], value[i],
                       want[own ? ATVI_OPTION_FLAG : p->kind]);
    if (own) check = is(value[i], "1");
  }
  ATVI_TRY(atvi_infer_fit_check(ctx, &o, &plan));
  if (check) ATVI_TRY(check_gradient(ctx, target, &plan));
  return atvi_infer_fit_planned(ctx, target, &plan, out);
}

/* ---- draws by name ---- */

atvi_idx atvi_draws_size(const atvi_draws *d, const char *what) {
  if (is(what, "draws")) return d->n;
  if (is(what, "chains")) return d->n_chain;
  if (is(what, "parameters")) return d->n_param;
  if (is(what, "columns")) return d->n_col;
  return is(what, "messages") ? d->n_message : -1;
}

const char *atvi_draws_word(const atvi_draws *d, const char *what, atvi_idx i) {
  static const char *const end[] = {"done", "limit", "stopped"}; /* by atvi_end */
  if (is(what, "column")) return i >= 0 && i < d->n_col ? d->col[i].name : NULL;
  if (is(what, "message")) return i >= 0 && i < d->n_message ? d->message[i].text : NULL;
  if (is(what, "method")) return d->made->method;
  if (is(what, "model")) return d->made->model;
  return is(what, "end") ? end[d->made->end] : NULL;
}

const double *atvi_draws_numbers(const atvi_draws *d, const char *what, atvi_idx i) {
  if (is(what, "column")) return i >= 0 && i < d->n_col ? d->x + i * d->n : NULL;
  if (is(what, "log_prior")) return d->log_prior;
  if (is(what, "log_lik")) return d->log_lik;
  return is(what, "weight") ? d->weight : NULL;
}

double atvi_draws_number(const atvi_draws *d, const char *what) {
  const atvi_field *f = atvi_io_fields_find(&atvi_io_made_fields, what);
  return f ? atvi_io_field_number(f, d->made) : NAN;
}

const char *atvi_version(void) { return ATVI_VERSION; }
