/* SPDX-License-Identifier: MIT */
/* The families: a spline flow and a copula behind one table of operations. */
#include "flow/flow.h"
#include "flow/detail.h"
#include "math/special.h"
#include <math.h>
#include <string.h>

/* ---- the spline flow: log q(x) = log N(z; 0, I) - log |det dx/dz| ---- */

typedef struct {
  atvi_ctx *ctx;
  atvi_flow_work *inner;
  atvi_idx B;      /* of the last fwd */
  double *minus_z; /* [d][B] of the last fwd; z in log_q */
  double *dldj;    /* [B] */
} flow_work;

/* log_q[B] = log N(z; 0, I) + sign ldj, where log_q holds ldj. */
static void density(atvi_idx d, atvi_idx B, const double *z, double sign, double *log_q) {
  for (atvi_idx b = 0; b < B; b++) log_q[b] = sign * log_q[b] - (double)d * ATVI_LN_SQRT_2PI;
  for (atvi_idx i = 0; i < d; i++)
    for (atvi_idx b = 0; b < B; b++) log_q[b] -= 0.5 * z[i * B + b] * z[i * B + b];
}

static void flow_init(const void *self, double *theta) { atvi_flow_init(self, theta); }

static void flow_fwd(const void *self, const double *theta, void *work, atvi_idx B, const double *z,
                     double *x, double *log_q) {
  const atvi_flow *f = self;
  flow_work *w = work;
  w->B = B;
  for (atvi_idx i = 0; i < f->shape.d * B; i++) w->minus_z[i] = -z[i];
  atvi_flow_fwd(f, theta, w->inner, B, z, x, log_q);
  density(f->shape.d, B, w->minus_z, -1, log_q);
}

/* With z fixed, log N(z) does not move: what is left of log q is minus the log determinant. */
static void flow_vjp(const void *self, const double *theta, void *work, const double *dx,
                     const double *dlog_q, double *dtheta) {
  flow_work *w = work;
  for (atvi_idx b = 0; b < w->B; b++) w->dldj[b] = -dlog_q[b];
  atvi_flow_fwd_vjp(self, theta, w->inner, dx, w->dldj, dtheta, NULL);
}

static void flow_log_q(const void *self, const double *theta, void *work, atvi_idx B, const double *x,
                       double *log_q, double *radius2) {
  const atvi_flow *f = self;
  flow_work *w = work;
  const double *z = w->minus_z;
  if (atvi_flow_is_identity(f, theta)) {
    z = x;
    memset(log_q, 0, (size_t)B * sizeof *log_q);
  } else {
    atvi_flow_inv(f, theta, w->inner, B, x, w->minus_z, log_q);
  }
  density(f->shape.d, B, z, 1, log_q);
  for (atvi_idx b = 0; b < B && radius2; b++) {
    radius2[b] = 0;
    for (atvi_idx i = 0; i < f->shape.d; i++) radius2[b] += z[i * B + b] * z[i * B + b];
  }
}

static void flow_score(const void *self, const double *theta, void *work, double *dx) {
  flow_work *w = work;
  for (atvi_idx b = 0; b < w->B; b++) w->dldj[b] = 1;
  atvi_flow_inv_vjp(self, theta, w->inner, w->minus_z, w->dldj, dx, NULL);
}

static void flow_inv(const void *self, const double *theta, void *work, atvi_idx B, const double *x,
                     double *z) {
  flow_work *w = work;
  atvi_flow_inv(self, theta, w->inner, B, x, z, w->dldj);
}

static void flow_pull(const void *self, const double *theta, void *work, const double *dx,
                      const double *dlog_q, double *dz) {
  const atvi_flow *f = self;
  flow_work *w = work;
  for (atvi_idx b = 0; b < w->B; b++) w->dldj[b] = -dlog_q[b];
  atvi_flow_fwd_vjp(self, theta, w->inner, dx, w->dldj, NULL, dz);
  for (atvi_idx i = 0; i < f->shape.d; i++)
    for (atvi_idx b = 0; b < w->B; b++) dz[i * w->B + b] += dlog_q[b] * w->minus_z[i * w->B + b];
}

static flow_work *carve(atvi_arena *a, atvi_idx d, atvi_idx max_B) {
  flow_work *w, head = {0};
  ATVI_TAKE(a, w, 1);
  /* max_B apart: the product could wrap, and the arena saturates */
  head.minus_z = atvi_arena_take(a, (size_t)max_B, (size_t)d * sizeof(double));
  ATVI_TAKE(a, head.dldj, max_B);
  if (w) *w = head;
  return w;
}

static atvi_status flow_work_new(const void *self, atvi_ctx *ctx, atvi_idx max_B, void **work) {
  const atvi_flow *f = self;
  atvi_flow_work *inner;
  atvi_arena a = {0};
  *work = NULL;
  ATVI_TRY(atvi_flow_work_new(ctx, f, max_B, &inner));
  carve(&a, f->shape.d, max_B);
  a = (atvi_arena){.base = atvi_block(ctx, a.used)};
  if (!a.base) {
    atvi_flow_work_free(inner);
    return ATVI_ENOMEM;
  }
  flow_work *w = carve(&a, f->shape.d, max_B);
  w->ctx = ctx;
  w->inner = inner;
  *work = w;
  return ATVI_OK;
}

static void flow_work_free(void *work) {
  flow_work *w = work;
  if (!w) return;
  atvi_flow_work_free(w->inner);
  atvi_block_free(w->ctx, w);
}

static void flow_free(void *self) { atvi_flow_free(self); }

static const atvi_family_ops flow_ops = {.size = sizeof(atvi_family_ops),
                                         .init = flow_init,
                                         .fwd = flow_fwd,
                                         .vjp = flow_vjp,
                                         .log_q = flow_log_q,
                                         .score = flow_score,
                                         .inv = flow_inv,
                                         .pull = flow_pull,
                                         .work_new = flow_work_new,
                                         .work_free = flow_work_free,
                                         .free = flow_free};

atvi_status atvi_flow_family_flow(atvi_ctx *ctx, const atvi_flow_shape *shape, atvi_family *out) {
  atvi_flow *f;
  *out = (atvi_family){0};
  ATVI_TRY(atvi_flow_new(ctx, shape, &f));
  *out = (atvi_family){&flow_ops, f, shape->d, shape->d, atvi_flow_size(f), shape->layers};
  return ATVI_OK;
}

/* ---- the copula ---- */

static void copula_init(const void *self, double *theta) { atvi_flow_copula_init(self, theta); }

static void copula_fwd(const void *self, const double *theta, void *work, atvi_idx B, const double *z,
                       double *x, double *log_q) {
  atvi_flow_copula_fwd(self, theta, work, B, z, x, log_q);
}

static void copula_vjp(const void *self, const double *theta, void *work, const double *dx,
                       const double *dlog_q, double *dtheta) {
  atvi_flow_copula_vjp(self, theta, work, dx, dlog_q, dtheta);
}

static void copula_log_q(const void *self, const double *theta, void *work, atvi_idx B, const double *x,
                         double *log_q, double *radius2) {
  atvi_flow_copula_log_q(self, theta, work, B, x, log_q);
  for (atvi_idx b = 0; b < B && radius2; b++) radius2[b] = NAN;
}

static void copula_score(const void *self, const double *theta, void *work, double *dx) {
  (void)theta;
  atvi_flow_copula_score(self, work, dx);
}

static atvi_status copula_work_new(const void *self, atvi_ctx *ctx, atvi_idx max_B, void **work) {
  atvi_copula_work *w;
  *work = NULL;
  ATVI_TRY(atvi_flow_copula_work_new(ctx, self, max_B, &w));
  *work = w;
  return ATVI_OK;
}

static void copula_work_free(void *work) { atvi_flow_copula_work_free(work); }
static void copula_free(void *self) { atvi_flow_copula_free(self); }

static const atvi_family_ops copula_ops = {.size = sizeof(atvi_family_ops),
                                           .init = copula_init,
                                           .fwd = copula_fwd,
                                           .vjp = copula_vjp,
                                           .log_q = copula_log_q,
                                           .score = copula_score,
                                           .work_new = copula_work_new,
                                           .work_free = copula_work_free,
                                           .free = copula_free};

atvi_status atvi_flow_family_copula(atvi_ctx *ctx, atvi_idx d, int factors, atvi_family *out) {
  atvi_copula *c;
  *out = (atvi_family){0};
  ATVI_TRY(atvi_flow_copula_new(ctx, d, factors, &c));
  *out = (atvi_family){&copula_ops, c, d, factors + d, atvi_flow_copula_size(c), 1};
  return ATVI_OK;
}

void atvi_flow_family_block(const atvi_family *f, int k, atvi_idx *first, atvi_idx *last) {
  ATVI_ASSERT(k >= 0 && k < f->blocks);
  if (f->ops == &flow_ops) {
    atvi_flow_layer(f->self, k, first, last);
  } else {
    *first = 0;
    *last = f->size;
  }
}

void atvi_flow_family_free(atvi_family *f) {
  if (f->ops) f->ops->free(f->self);
  *f = (atvi_family){0};
}
