/* SPDX-License-Identifier: MIT */
/* Evaluation of a model with blocks `each`: every part is given its parameters, and adds to the whole.
 * ATVI_LANES points of one unit are one group of lanes. Parts are added in their order, so that results
 * depend on nothing else. */
#include "math/rng.h"
#include "model/model.h"
#include "model/evaluator.h"
#include <math.h>
#include <string.h>

enum { L = ATVI_LANES };

typedef struct {
  atvi_ctx *ctx;
  atvi_idx n_block;
  /* [1 + n_block] scratch of what stands outside, and of the units of each block. */
  void **of;
  /* [most d of a part][L] */
  double *theta, *grad_prior, *grad_lik, *location, *scale;
  /* [most values of a part][L] */
  double *value;
} units_work;

static atvi_idx most_values(const atvi_model *m) {
  atvi_idx most = 1;
  for (atvi_idx i = 0; i < m->blocks.n_part; i++) {
    const atvi_target *t = &m->blocks.part[i].m->target;
    if (t->n_out > most) most = t->n_out;
    if (t->n_derived > most) most = t->n_derived;
  }
  return most;
}

static units_work *carve(atvi_arena *a, const atvi_model *m) {
  units_work *o, head = {.n_block = m->blocks.n_block};
  atvi_idx d = 1;
  for (atvi_idx i = 0; i < m->blocks.n_part; i++)
    if (m->blocks.part[i].m->target.d > d) d = m->blocks.part[i].m->target.d;
  ATVI_TAKE(a, o, 1);
  ATVI_TAKE(a, head.of, 1 + m->blocks.n_block);
  ATVI_TAKE(a, head.theta, d * L);
  ATVI_TAKE(a, head.grad_prior, d * L);
  ATVI_TAKE(a, head.grad_lik, d * L);
  ATVI_TAKE(a, head.location, d * L);
  ATVI_TAKE(a, head.scale, d * L);
  ATVI_TAKE(a, head.value, most_values(m) * L);
  if (o) *o = head;
  return o;
}

static void work_free(void *work) {
  units_work *w = work;
  if (!w) return;
  for (atvi_idx b = 0; b <= w->n_block; b++) atvi_model_work_free(w->of[b]);
  atvi_block_free(w->ctx, w);
}

static atvi_status work_new(const void *self, atvi_ctx *ctx, void **work) {
  const atvi_model *m = self;
  atvi_arena a = {0};
  *work = NULL;
  carve(&a, m);
  a = (atvi_arena){.base = atvi_block(ctx, a.used)};
  if (!a.base) return ATVI_ENOMEM;
  units_work *w = carve(&a, m);
  w->ctx = ctx;
  for (atvi_idx i = 0; i < m->blocks.n_part; i++) {
    void **of = &w->of[m->blocks.part[i].block];
    atvi_status status = *of ? ATVI_OK : atvi_model_work_new(m->blocks.part[i].m->base, ctx, of);
    if (status != ATVI_OK) {
      work_free(w);
      return status;
    }
  }
  *work = w;
  return ATVI_OK;
}

/* Points first .. first+b-1 of theta[d][B] as the part has them: [d of the part][b]. */
static void load(const atvi_model_part *p, units_work *w, atvi_idx B, const double *theta, atvi_idx first,
                 int b) {
  for (atvi_idx i = 0; i < p->m->target.d; i++)
    memcpy(w->theta + i * b, theta + p->param[i] * B + first, (size_t)b * sizeof *theta);
}

static void eval_unit(const void *self, void *work, atvi_idx u, const atvi_batch *batch) {
  const atvi_model *m = self;
  const atvi_model_part *p = &m->blocks.part[u];
  units_work *w = work;
  atvi_batch b = *batch;
  if (p->silent) b.log_lik = b.grad_lik = NULL;
  p->m->target.ops->eval(p->m, w->of[p->block], &b);
  for (atvi_idx i = 0; p->silent && batch->log_lik && i < batch->B; i++) batch->log_lik[i] = 0;
  if (p->silent && batch->grad_lik)
    memset(batch->grad_lik, 0, (size_t)(p->m->target.d * batch->B) * sizeof *batch->grad_lik);
}

/* One evaluation of a part, whatever its way to solve. */
typedef void part_eval(const atvi_model *m, units_work *w, atvi_idx u, const atvi_batch *batch);

static void as_usual(const atvi_model *m, units_work *w, atvi_idx u, const atvi_batch *batch) {
  eval_unit(m, w, u, batch);
}

static void exactly(const atvi_model *m, units_work *w, atvi_idx u, const atvi_batch *batch) {
  const atvi_model_part *p = &m->blocks.part[u];
  if (p->silent)
    eval_unit(m, w, u, batch);
  else
    p->m->target.ops->eval_exact(p->m, w->of[p->block], batch);
}

/* ---- the sum over units ---- */

bool atvi_model_sum_runs(const atvi_batch *batch) {
  return batch->log_lik || batch->grad_lik || batch->unit_lik;
}

static void add_gradient(const atvi_unit *u, atvi_idx B, atvi_idx first, int n, const double *from,
                         double *to) {
  for (atvi_idx i = 0; i < u->n_on; i++)
    for (int l = 0; l < n; l++) to[u->on[i] * B + first + l] += from[i * n + l];
}

void atvi_model_sum_begin(const atvi_target *t, const atvi_batch *batch, atvi_idx first, int n,
                          atvi_units_sum *sum) {
  double *const grad[] = {batch->grad_prior, batch->grad_lik};
  *sum = (atvi_units_sum){.first = first, .n = n};
  for (int l = 0; l < n; l++) sum->outcome[l] = ATVI_RUN_OK;
  for (int k = 0; k < 2; k++)
    for (atvi_idx i = 0; grad[k] && i < t->d; i++)
      memset(grad[k] + i * batch->B + first, 0, (size_t)n * sizeof(double));
}

void atvi_model_sum_load(const atvi_target *t, const atvi_batch *batch, const atvi_units_sum *sum, atvi_idx u,
                         double *theta) {
  for (atvi_idx i = 0; i < t->unit[u].n_on; i++)
    memcpy(theta + i * sum->n, batch->theta + t->unit[u].on[i] * batch->B + sum->first,
           (size_t)sum->n * sizeof *theta);
}

void atvi_model_sum_add(const atvi_target *t, const atvi_batch *batch, atvi_units_sum *sum, atvi_idx u,
                        const atvi_batch *part) {
  for (int l = 0; l < sum->n; l++) {
    const atvi_idx at = u * batch->B + sum->first + l;
    bool good = part->outcome[l] == ATVI_RUN_OK;
    if (batch->unit_prior) batch->unit_prior[at] = part->log_prior[l];
    if (batch->unit_lik) batch->unit_lik[at] = good ? part->log_lik[l] : -HUGE_VAL;
    sum->log_prior[l] += part->log_prior[l];
    if (part->log_lik) sum->log_lik[l] += part->log_lik[l];
    if (sum->outcome[l] == ATVI_RUN_OK || part->outcome[l] == ATVI_RUN_OUTSIDE)
      sum->outcome[l] = part->outcome[l];
  }
  if (batch->grad_prior)
    add_gradient(&t->unit[u], batch->B, sum->first, sum->n, part->grad_prior, batch->grad_prior);
  if (batch->grad_lik)
    add_gradient(&t->unit[u], batch->B, sum->first, sum->n, part->grad_lik, batch->grad_lik);
}

/* Where the density is 0 or the run failed, there is no slope. */
void atvi_model_sum_end(const atvi_target *t, const atvi_batch *batch, const atvi_units_sum *sum) {
  for (int l = 0; l < sum->n; l++) {
    const atvi_idx at = sum->first + l;
    bool ok = sum->outcome[l] == ATVI_RUN_OK;
    if (batch->log_prior) batch->log_prior[at] = sum->log_prior[l];
    if (batch->log_lik) batch->log_lik[at] = ok ? sum->log_lik[l] : -HUGE_VAL;
    if (batch->outcome) batch->outcome[at] = sum->outcome[l];
    for (atvi_idx i = 0; batch->grad_prior && !isfinite(sum->log_prior[l]) && i < t->d; i++)
      batch->grad_prior[i * batch->B + at] = 0;
    for (atvi_idx i = 0; batch->grad_lik && !(ok && isfinite(sum->log_lik[l])) && i < t->d; i++)
      batch->grad_lik[i * batch->B + at] = 0;
  }
}

static void run_group(const atvi_model *m, units_work *w, part_eval *eval, const atvi_batch *batch,
                      atvi_idx first, int n) {
  double log_prior[L], log_lik[L];
  atvi_outcome outcome[L];
  atvi_units_sum sum;
  const atvi_batch part = {.B = n,
                           .theta = w->theta,
                           .log_prior = log_prior,
                           .log_lik = atvi_model_sum_runs(batch) ? log_lik : NULL,
                           .grad_prior = batch->grad_prior ? w->grad_prior : NULL,
                           .grad_lik = batch->grad_lik ? w->grad_lik : NULL,
                           .outcome = outcome};
  atvi_model_sum_begin(&m->target, batch, first, n, &sum);
  for (atvi_idx u = 0; u < m->blocks.n_part; u++) {
    atvi_model_sum_load(&m->target, batch, &sum, u, w->theta);
    eval(m, w, u, &part);
    atvi_model_sum_add(&m->target, batch, &sum, u, &part);
  }
  atvi_model_sum_end(&m->target, batch, &sum);
}

static void run_batch(const atvi_model *m, units_work *w, part_eval *eval, const atvi_batch *batch) {
  for (atvi_idx first = 0; first < batch->B; first += L)
    run_group(m, w, eval, batch, first, batch->B - first < L ? (int)(batch->B - first) : L);
}

static void eval(const void *self, void *work, const atvi_batch *batch) {
  run_batch(self, work, as_usual, batch);
}

static void eval_exact(const void *self, void *work, const atvi_batch *batch) {
  atvi_batch plain = *batch;
  plain.grad_lik = NULL;
  run_batch(self, work, exactly, &plain);
}

static void tangent(const void *self, void *work, atvi_idx B, const double *theta, const double *direction,
                    double *log_prior, double *log_lik) {
  const atvi_model *m = self;
  units_work *w = work;
  for (atvi_idx first = 0; first < B; first += L) {
    const int n = B - first < L ? (int)(B - first) : L;
    double prior[L] = {0}, lik[L] = {0}, part_prior[L], part_lik[L];
    for (atvi_idx u = 0; u < m->blocks.n_part; u++) {
      const atvi_model_part *p = &m->blocks.part[u];
      load(p, w, B, direction, first, n);
      memcpy(w->location, w->theta, (size_t)(p->m->target.d * n) * sizeof *w->theta);
      load(p, w, B, theta, first, n);
      p->m->target.ops->tangent(p->m, w->of[p->block], n, w->theta, w->location, part_prior, part_lik);
      for (int l = 0; l < n; l++) prior[l] += part_prior[l], lik[l] += p->silent ? 0 : part_lik[l];
    }
    if (log_prior) memcpy(log_prior + first, prior, (size_t)n * sizeof *prior);
    if (log_lik) memcpy(log_lik + first, lik, (size_t)n * sizeof *lik);
  }
}

/* ---- priors ---- */

/* Points of the whole, and what is made of them. */
typedef struct {
  const atvi_model *m;
  units_work *w;
  atvi_idx B;
  const double *theta;
  double *out;
  /* Of random numbers: seed, and the number of the first point. */
  uint64_t seed;
  atvi_idx first;
} points;

/* Part u at points at .. at+b-1, which are in w->theta. */
typedef void part_do(const points *x, atvi_idx u, atvi_idx at, int b);

/* Groups of points, and parts of each in their order. */
static void each_part(const points *x, part_do *fn) {
  for (atvi_idx at = 0; at < x->B; at += L) {
    int b = x->B - at < L ? (int)(x->B - at) : L;
    for (atvi_idx u = 0; u < x->m->blocks.n_part; u++) {
      load(&x->m->blocks.part[u], x->w, x->B, x->theta, at, b);
      fn(x, u, at, b);
    }
  }
}

/* Row `from` of b numbers to row `to` of the whole. */
static void put_row(const points *x, atvi_idx at, int b, const double *from, atvi_idx to) {
  memcpy(x->out + to * x->B + at, from, (size_t)b * sizeof *from);
}

/* theta is out. */
static void complete_part(const points *x, atvi_idx u, atvi_idx at, int b) {
  const atvi_model_part *p = &x->m->blocks.part[u];
  atvi_model_prior_complete(p->m, x->w->of[p->block], x->seed, x->first + at, p->param, b, x->w->theta);
  for (atvi_idx i = p->n_outer; i < p->m->target.d; i++) put_row(x, at, b, x->w->theta + i * b, p->param[i]);
}

static void complete(const atvi_model *m, units_work *w, uint64_t seed, atvi_idx first, atvi_idx B,
                     double *theta) {
  each_part(&(points){m, w, B, theta, theta, seed, first}, complete_part);
}

static void prior_draw(const void *self, void *work, uint64_t seed, atvi_idx first, atvi_idx B,
                       double *theta) {
  const atvi_model *m = self;
  for (atvi_idx i = 0; i < m->target.d * B; i++) theta[i] = NAN;
  complete(m, work, seed, first, B, theta);
}

void atvi_model_prior_fill(const atvi_model *m, void *work, uint64_t seed, atvi_idx first, atvi_idx B,
                           double *theta) {
  if (m->blocks.part)
    complete(m, work, seed, first, B, theta);
  else
    atvi_model_prior_complete(m, work, seed, first, NULL, B, theta);
}

static void prior_place(const void *self, void *work, atvi_idx B, const double *theta, double *location,
                        double *scale) {
  const atvi_model *m = self;
  units_work *w = work;
  for (atvi_idx at = 0; at < B; at += L) {
    int b = B - at < L ? (int)(B - at) : L;
    for (atvi_idx u = 0; u < m->blocks.n_part; u++) {
      const atvi_model_part *p = &m->blocks.part[u];
      if (!p->m->target.prior) continue;
      load(p, w, B, theta, at, b);
      atvi_model_prior_place(p->m, w->of[p->block], b, w->theta, w->location, w->scale);
      for (atvi_idx i = 0; i < p->m->target.d; i++) {
        atvi_idx g = p->param[i];
        if (m->blocks.placed_by[g] != u) continue;
        if (m->target.prior[g].form != ATVI_PRIOR_RATIO)
          memcpy(location + g * B + at, w->location + i * b, (size_t)b * sizeof *location);
        memcpy(scale + g * B + at, w->scale + i * b, (size_t)b * sizeof *scale);
      }
    }
  }
}

static void prior_place_vjp(const void *self, void *work, atvi_idx B, const double *theta,
                            const double *dlocation, const double *dscale, double *dtheta) {
  const atvi_model *m = self;
  units_work *w = work;
  for (atvi_idx at = 0; at < B; at += L) {
    int b = B - at < L ? (int)(B - at) : L;
    for (atvi_idx u = 0; u < m->blocks.n_part; u++) {
      const atvi_model_part *p = &m->blocks.part[u];
      atvi_idx d = p->m->target.d;
      if (!p->m->target.prior) continue;
      load(p, w, B, theta, at, b);
      memset(w->grad_prior, 0, (size_t)(d * b) * sizeof *w->grad_prior);
      for (atvi_idx i = 0; i < d; i++) {
        atvi_idx g = p->param[i];
        bool mine = m->blocks.placed_by[g] == u, ratio = m->target.prior[g].form == ATVI_PRIOR_RATIO;
        for (int l = 0; l < b; l++) {
          w->location[i * b + l] = mine && !ratio ? dlocation[g * B + at + l] : 0;
          w->scale[i * b + l] = mine ? dscale[g * B + at + l] : 0;
        }
      }
      atvi_model_prior_place_vjp(p->m, w->of[p->block], b, w->theta, w->location, w->scale, w->grad_prior);
      add_gradient(&m->target.unit[u], B, at, b, w->grad_prior, dtheta);
    }
  }
}

/* ---- numbers of parts that go to places of their own ---- */

static void derived_part(const points *x, atvi_idx u, atvi_idx at, int b) {
  const atvi_model_part *p = &x->m->blocks.part[u];
  if (p->m->target.n_derived == 0) return;
  atvi_model_derived(p->m, x->w->of[p->block], b, x->w->theta, x->w->value);
  for (atvi_idx k = 0; k < p->m->target.n_derived; k++)
    put_row(x, at, b, x->w->value + k * b, p->derived_at[k]);
}

static void derived(const void *self, void *work, atvi_idx B, const double *theta, double *out) {
  each_part(&(points){self, work, B, theta, out, 0, 0}, derived_part);
}

static void put_observations(const points *x, atvi_idx u, atvi_idx at, int b) {
  const atvi_model_part *p = &x->m->blocks.part[u];
  for (atvi_idx k = 0; k < p->m->target.n_obs; k++) put_row(x, at, b, x->w->value + k * b, p->obs_at + k);
}

static void pointwise_part(const points *x, atvi_idx u, atvi_idx at, int b) {
  const atvi_model_part *p = &x->m->blocks.part[u];
  if (p->m->target.n_obs == 0) return;
  atvi_model_pointwise(p->m, x->w->of[p->block], b, x->w->theta, x->w->value);
  put_observations(x, u, at, b);
}

static void pointwise(const void *self, void *work, atvi_idx B, const double *theta, double *out) {
  each_part(&(points){self, work, B, theta, out, 0, 0}, pointwise_part);
}

static void predict_part(const points *x, atvi_idx u, atvi_idx at, int b) {
  const atvi_model_part *p = &x->m->blocks.part[u];
  const atvi_target *t = &p->m->target;
  if (t->n_out == 0) return;
  atvi_model_predict(p->m, x->w->of[p->block], b, x->w->theta, x->w->value);
  for (atvi_idx s = 0, k = 0; s < t->n_series; s++)
    for (atvi_idx i = 0; i < t->series[s].n; i++, k++)
      put_row(x, at, b, x->w->value + k * b, p->series_at[s] + i);
}

static void predict(const void *self, void *work, atvi_idx B, const double *theta, double *out) {
  each_part(&(points){self, work, B, theta, out, 0, 0}, predict_part);
}

static void simulate_part(const points *x, atvi_idx u, atvi_idx at, int b) {
  const atvi_model_part *p = &x->m->blocks.part[u];
  if (p->m->target.n_obs == 0) return;
  atvi_rng rng = atvi_math_rng_at(x->seed, ATVI_STREAM_UNIT, (uint32_t)u, 0);
  uint64_t own = u == 0 ? x->seed : atvi_math_rng_bits(&rng);
  atvi_model_simulate(p->m, x->w->of[p->block], own, x->first + at, b, x->w->theta, x->w->value);
  put_observations(x, u, at, b);
}

static void simulate(const void *self, void *work, uint64_t seed, atvi_idx first, atvi_idx B,
                     const double *theta, double *out) {
  each_part(&(points){self, work, B, theta, out, seed, first}, simulate_part);
}

const atvi_target_ops atvi_model_units_ops = {
    .size = sizeof(atvi_target_ops),
    .eval = eval,
    .work_new = work_new,
    .work_free = work_free,
    .prior_draw = prior_draw,
    .prior_place = prior_place,
    .prior_place_vjp = prior_place_vjp,
    .derived = derived,
    .pointwise = pointwise,
    .predict = predict,
    .simulate = simulate,
    .eval_exact = eval_exact,
    .eval_unit = eval_unit,
    .tangent = tangent,
};
