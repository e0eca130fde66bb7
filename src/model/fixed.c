/* SPDX-License-Identifier: MIT */
#include "model/model.h"
#include <math.h>

enum { L = ATVI_LANES };

typedef struct {
  atvi_target target; /* first: what the caller sees */
  atvi_ctx *ctx;
  const atvi_target *base;
  atvi_target_ops ops;
  atvi_param *param;      /* [target.d] */
  atvi_prior_link *prior; /* [target.d] */
  atvi_idx *on;           /* what these point to */
  double *value;          /* [base->d] values of the fixed ones */
  atvi_idx *at;           /* [base->d] index among the free ones, -1 if fixed */
} fixed;

typedef struct {
  atvi_ctx *ctx;
  const fixed *f;
  void *base;
  double *theta, *grad;     /* [base->d][group] */
  double *location, *scale; /* [base->d][group] */
} fixed_work;

/* Points that the base gets at once. */
static atvi_idx group_of(const fixed *f) { return f->base->group > L ? f->base->group : L; }

static atvi_status work_new(const void *self, atvi_ctx *ctx, void **work) {
  const fixed *f = self;
  size_t n = (size_t)(f->base->d * group_of(f));
  fixed_work *w = atvi_block(ctx, sizeof *w + ATVI_ALIGN + 4 * n * sizeof(double));
  *work = NULL;
  if (!w) return ATVI_ENOMEM;
  w->ctx = ctx;
  w->f = f;
  w->theta = (double *)((char *)w + (sizeof *w + ATVI_ALIGN - 1) / ATVI_ALIGN * ATVI_ALIGN);
  w->grad = w->theta + n;
  w->location = w->grad + n;
  w->scale = w->location + n;
  if (f->base->ops->work_new) {
    atvi_status status = f->base->ops->work_new(f->base->self, ctx, &w->base);
    if (status != ATVI_OK) {
      atvi_block_free(ctx, w);
      return status;
    }
  }
  *work = w;
  return ATVI_OK;
}

static void work_free(void *work) {
  fixed_work *w = work;
  if (!w) return;
  if (w->f->base->ops->work_free) w->f->base->ops->work_free(w->base);
  atvi_block_free(w->ctx, w);
}

/* Points first .. first+b-1 of theta[d][B] with the fixed values put in: w->theta[base d][b]. */
static void expand(const fixed *f, fixed_work *w, atvi_idx B, const double *theta, atvi_idx first,
                   atvi_idx b) {
  for (atvi_idx i = 0; i < f->base->d; i++)
    for (atvi_idx l = 0; l < b; l++)
      w->theta[i * b + l] = f->at[i] < 0 ? f->value[i] : theta[f->at[i] * B + first + l];
}

static void pick(const fixed *f, const double *from, atvi_idx B, double *to, atvi_idx first, atvi_idx b) {
  for (atvi_idx i = 0; i < f->base->d; i++)
    for (atvi_idx l = 0; f->at[i] >= 0 && l < b; l++) to[f->at[i] * B + first + l] = from[i * b + l];
}

static void *plus(double *p, atvi_idx n) { return p ? p + n : NULL; }

/* The b points from `first` on, without gradients. */
static atvi_batch values_of(const atvi_batch *batch, atvi_idx first, atvi_idx b, const double *theta) {
  return (atvi_batch){.B = b,
                      .theta = theta,
                      .log_prior = plus(batch->log_prior, first),
                      .log_lik = plus(batch->log_lik, first),
                      .outcome = batch->outcome ? batch->outcome + first : NULL};
}

static void eval(const void *self, void *work, const atvi_batch *batch) {
  const fixed *f = self;
  fixed_work *w = work;
  const atvi_idx group = group_of(f);
  for (atvi_idx first = 0; first < batch->B; first += group) {
    atvi_idx b = batch->B - first < group ? batch->B - first : group;
    expand(f, w, batch->B, batch->theta, first, b);
    atvi_batch inner = values_of(batch, first, b, w->theta);
    inner.grad_lik = batch->grad_lik ? w->grad : NULL;
    f->base->ops->eval(f->base->self, w->base, &inner);
    if (batch->grad_lik) pick(f, w->grad, batch->B, batch->grad_lik, first, b);
    if (!batch->grad_prior) continue;
    inner = (atvi_batch){.B = b, .theta = w->theta, .grad_prior = w->grad};
    f->base->ops->eval(f->base->self, w->base, &inner);
    pick(f, w->grad, batch->B, batch->grad_prior, first, b);
  }
}

static void eval_exact(const void *self, void *work, const atvi_batch *batch) {
  const fixed *f = self;
  fixed_work *w = work;
  for (atvi_idx first = 0; first < batch->B; first += L) {
    atvi_idx b = batch->B - first < L ? batch->B - first : L;
    expand(f, w, batch->B, batch->theta, first, b);
    atvi_batch inner = values_of(batch, first, b, w->theta);
    f->base->ops->eval_exact(f->base->self, w->base, &inner);
  }
}

static void tangent(const void *self, void *work, atvi_idx B, const double *theta, const double *direction,
                    double *log_prior, double *log_lik) {
  const fixed *f = self;
  fixed_work *w = work;
  for (atvi_idx first = 0; first < B; first += L) {
    atvi_idx b = B - first < L ? B - first : L;
    expand(f, w, B, theta, first, b);
    for (atvi_idx i = 0; i < f->base->d; i++)
      for (atvi_idx l = 0; l < b; l++)
        w->grad[i * b + l] = f->at[i] < 0 ? 0 : direction[f->at[i] * B + first + l];
    f->base->ops->tangent(f->base->self, w->base, b, w->theta, w->grad, plus(log_prior, first),
                          plus(log_lik, first));
  }
}

static void prior_draw(const void *self, void *work, uint64_t seed, atvi_idx first, atvi_idx B,
                       double *theta) {
  const fixed *f = self;
  fixed_work *w = work;
  for (atvi_idx at = 0; at < B; at += L) {
    atvi_idx b = B - at < L ? B - at : L;
    f->base->ops->prior_draw(f->base->self, w->base, seed, first + at, b, w->theta);
    pick(f, w->theta, B, theta, at, b);
  }
}

static void prior_place(const void *self, void *work, atvi_idx B, const double *theta, double *location,
                        double *scale) {
  const fixed *f = self;
  fixed_work *w = work;
  for (atvi_idx at = 0; at < B; at += L) {
    atvi_idx b = B - at < L ? B - at : L;
    expand(f, w, B, theta, at, b);
    for (atvi_idx i = 0; i < f->base->d * b; i++) w->location[i] = w->scale[i] = 0;
    f->base->ops->prior_place(f->base->self, w->base, b, w->theta, w->location, w->scale);
    pick(f, w->location, B, location, at, b);
    pick(f, w->scale, B, scale, at, b);
  }
}

static void prior_place_vjp(const void *self, void *work, atvi_idx B, const double *theta,
                            const double *dlocation, const double *dscale, double *dtheta) {
  const fixed *f = self;
  fixed_work *w = work;
  for (atvi_idx at = 0; at < B; at += L) {
    atvi_idx b = B - at < L ? B - at : L;
    expand(f, w, B, theta, at, b);
    for (atvi_idx i = 0; i < f->base->d; i++)
      for (atvi_idx l = 0; l < b; l++) {
        atvi_idx from = f->at[i] * B + at + l;
        w->location[i * b + l] = f->at[i] < 0 ? 0 : dlocation[from];
        w->scale[i * b + l] = f->at[i] < 0 ? 0 : dscale[from];
        w->grad[i * b + l] = f->at[i] < 0 ? 0 : dtheta[from];
      }
    f->base->ops->prior_place_vjp(f->base->self, w->base, b, w->theta, w->location, w->scale, w->grad);
    pick(f, w->grad, B, dtheta, at, b);
  }
}

/* The members that map points to named numbers are alike: expand, call for each point, copy. */
typedef void (*mapper)(const void *self, void *work, atvi_idx B, const double *theta, double *out);

static void map_points(const fixed *f, fixed_work *w, mapper fn, atvi_idx n, atvi_idx B, const double *theta,
                       double *out) {
  const atvi_idx group = group_of(f);
  double *rows = atvi_block(w->ctx, (size_t)(n * group) * sizeof *rows + 1);
  for (atvi_idx first = 0; first < B; first += group) {
    atvi_idx b = B - first < group ? B - first : group;
    expand(f, w, B, theta, first, b);
    if (rows) fn(f->base->self, w->base, b, w->theta, rows);
    for (atvi_idx i = 0; i < n; i++)
      for (atvi_idx l = 0; l < b; l++) out[i * B + first + l] = rows ? rows[i * b + l] : NAN;
  }
  atvi_block_free(w->ctx, rows);
}

static void derived(const void *self, void *work, atvi_idx B, const double *theta, double *out) {
  const fixed *f = self;
  map_points(f, work, f->base->ops->derived, f->base->n_derived, B, theta, out);
}

static void pointwise(const void *self, void *work, atvi_idx B, const double *theta, double *out) {
  const fixed *f = self;
  map_points(f, work, f->base->ops->pointwise, f->base->n_obs, B, theta, out);
}

static void predict(const void *self, void *work, atvi_idx B, const double *theta, double *out) {
  const fixed *f = self;
  map_points(f, work, f->base->ops->predict, f->base->n_out, B, theta, out);
}

typedef void (*drawer)(const void *self, void *work, uint64_t seed, atvi_idx first, atvi_idx B,
                       const double *theta, double *out);

static void draw_points(const fixed *f, fixed_work *w, drawer fn, uint64_t seed, atvi_idx first, atvi_idx B,
                        const double *theta, double *out) {
  atvi_idx n = f->base->n_obs;
  const atvi_idx group = group_of(f);
  double *rows = atvi_block(w->ctx, (size_t)(n * group) * sizeof *rows + 1);
  for (atvi_idx at = 0; at < B; at += group) {
    atvi_idx b = B - at < group ? B - at : group;
    expand(f, w, B, theta, at, b);
    if (rows) fn(f->base->self, w->base, seed, first + at, b, w->theta, rows);
    for (atvi_idx i = 0; i < n; i++)
      for (atvi_idx l = 0; l < b; l++) out[i * B + at + l] = rows ? rows[i * b + l] : NAN;
  }
  atvi_block_free(w->ctx, rows);
}

static void simulate(const void *self, void *work, uint64_t seed, atvi_idx first, atvi_idx B,
                     const double *theta, double *out) {
  const fixed *f = self;
  draw_points(f, work, f->base->ops->simulate, seed, first, B, theta, out);
}

static void predictive(const void *self, void *work, uint64_t seed, atvi_idx first, atvi_idx B,
                       const double *theta, double *out) {
  const fixed *f = self;
  draw_points(f, work, f->base->ops->predictive, seed, first, B, theta, out);
}

static void leave_one_out(const void *self, void *work, uint64_t seed, atvi_idx first, atvi_idx B,
                          const double *theta, double *out) {
  const fixed *f = self;
  draw_points(f, work, f->base->ops->leave_one_out, seed, first, B, theta, out);
}

/* In place: what was there goes in, since only some rows are written. */
static void latent(const void *self, void *work, uint64_t seed, atvi_idx first, atvi_idx B,
                   const double *theta, double *out) {
  const fixed *f = self;
  fixed_work *w = work;
  atvi_idx n = f->base->n_out;
  const atvi_idx group = group_of(f);
  double *rows = atvi_block(w->ctx, (size_t)(n * group) * sizeof *rows + 1);
  for (atvi_idx i = 0; !rows && i < n * B; i++) out[i] = NAN; /* means would pass for draws */
  for (atvi_idx at = 0; rows && at < B; at += group) {
    atvi_idx b = B - at < group ? B - at : group;
    expand(f, w, B, theta, at, b);
    for (atvi_idx i = 0; i < n * b; i++) rows[i] = out[i / b * B + at + i % b];
    f->base->ops->latent(f->base->self, w->base, seed, first + at, b, w->theta, rows);
    for (atvi_idx i = 0; i < n * b; i++) out[i / b * B + at + i % b] = rows[i];
  }
  atvi_block_free(w->ctx, rows);
}

/* The links of the free parameters, in their numbers: what is fixed is a number now. */
static void link_free(fixed *f) {
  const atvi_target *base = f->base;
  atvi_idx *on = f->on;
  for (atvi_idx i = 0; i < base->d; i++) {
    if (f->at[i] < 0) continue;
    atvi_prior_link all = base->prior[i], *link = &f->prior[f->at[i]];
    *link = (atvi_prior_link){
        .form = all.form, .location = all.location < 0 ? -1 : f->at[all.location], .on = on};
    for (atvi_idx k = 0; k < all.n_on; k++) {
      if (f->at[all.on[k]] < 0) continue;
      on[link->n_on++] = f->at[all.on[k]];
      link->n_on_scale += k < all.n_on_scale;
    }
    on += link->n_on;
  }
}

static atvi_idx links(const atvi_target *base) {
  atvi_idx n = 0;
  for (atvi_idx i = 0; base->prior && i < base->d; i++) n += base->prior[i].n_on;
  return n;
}

static atvi_status hold(fixed *f, atvi_idx n, const atvi_idx *index, const double *value) {
  const atvi_target *base = f->base;
  for (atvi_idx k = 0; k < n; k++) {
    atvi_idx i = index[k];
    if (i < 0 || i >= base->d || f->at[i] < 0)
      return ATVI_FAIL(f->ctx, ATVI_EINVAL, "fix: parameter number %td does not exist or is fixed twice", i);
    const atvi_param *p = &base->param[i];
    if (!isfinite(value[k]) || value[k] < p->lower || value[k] > p->upper)
      return ATVI_FAIL(f->ctx, ATVI_EINVAL, "fix: %s = %g is outside its bounds [%g, %g]", p->name, value[k],
                       p->lower, p->upper);
    f->at[i] = -1;
    f->value[i] = value[k];
  }
  atvi_idx d = 0;
  for (atvi_idx i = 0; i < base->d; i++) {
    if (f->at[i] < 0) continue;
    f->param[d] = base->param[i];
    f->at[i] = d++;
  }
  f->target.d = d;
  if (base->prior) link_free(f);
  return d > 0 ? ATVI_OK
               : ATVI_FAIL(f->ctx, ATVI_EINVAL, "fix: every parameter is fixed; nothing is left to infer");
}

static fixed *carve(atvi_arena *a, atvi_idx d, atvi_idx n_link) {
  fixed *o, head = {0};
  ATVI_TAKE(a, o, 1);
  ATVI_TAKE(a, head.param, d);
  ATVI_TAKE(a, head.prior, d);
  ATVI_TAKE(a, head.on, n_link + 1);
  ATVI_TAKE(a, head.value, d);
  ATVI_TAKE(a, head.at, d);
  if (o) *o = head;
  return o;
}

atvi_status atvi_model_fixed_new(atvi_ctx *ctx, const atvi_target *base, atvi_idx n, const atvi_idx *index,
                                 const double *value, atvi_target **out) {
  atvi_arena a = {0};
  *out = NULL;
  carve(&a, base->d, links(base));
  a = (atvi_arena){.base = atvi_block(ctx, a.used)};
  if (!a.base) return ATVI_ENOMEM;
  fixed *f = carve(&a, base->d, links(base));
  f->ctx = ctx;
  f->base = base;
  atvi_status status = hold(f, n, index, value);
  if (status != ATVI_OK) {
    atvi_block_free(ctx, f);
    return status;
  }
  f->ops = (atvi_target_ops){.size = sizeof f->ops,
                             .eval = eval,
                             .work_new = work_new,
                             .work_free = work_free,
                             .prior_draw = base->ops->prior_draw ? prior_draw : NULL,
                             .prior_place = base->ops->prior_place ? prior_place : NULL,
                             .prior_place_vjp = base->ops->prior_place_vjp ? prior_place_vjp : NULL,
                             .derived = base->ops->derived ? derived : NULL,
                             .pointwise = base->ops->pointwise ? pointwise : NULL,
                             .predict = base->ops->predict ? predict : NULL,
                             .simulate = base->ops->simulate ? simulate : NULL,
                             .predictive = base->ops->predictive ? predictive : NULL,
                             .leave_one_out = base->ops->leave_one_out ? leave_one_out : NULL,
                             .latent = base->ops->latent ? latent : NULL,
                             .tangent = base->ops->tangent ? tangent : NULL,
                             .eval_exact = base->ops->eval_exact ? eval_exact : NULL};
  atvi_idx d = f->target.d;
  f->target = *base;
  f->target.ops = &f->ops;
  f->target.self = f;
  f->target.d = d;
  f->target.param = f->param;
  f->target.prior = base->prior ? f->prior : NULL;
  f->target.n_unit = 0;
  f->target.unit = NULL;
  f->target.n_branch = 0;
  *out = &f->target;
  return ATVI_OK;
}

void atvi_model_fixed_free(atvi_target *target) {
  if (!target) return;
  fixed *f = (fixed *)target;
  atvi_block_free(f->ctx, f);
}
