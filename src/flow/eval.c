/* SPDX-License-Identifier: MIT */
/* Batches through the layers. A batch is cut into chunks of FLOW_CHUNK groups; a chunk goes through all layers before the
 * next one starts, so that a layer's weights are read once per chunk. The last group is filled up with zeros, which
 * every kernel takes and nobody sees. */
#include "flow/detail.h"
#include <string.h>

enum { L = ATVI_LANES };

struct atvi_flow_work {
  atvi_ctx *ctx;
  atvi_idx max_B, B;   /* room; draws of the last fwd or inv */
  atvi_idx max_groups; /* of max_B draws */
  double *rec;         /* [chunks][layers][FLOW_CHUNK][rec_rows][L], the last chunk may be shorter */
  double *v;           /* [FLOW_CHUNK][d][L] */
  double *ldj;         /* [FLOW_CHUNK][L] */
  double *du, *dz, *dout, *dpre, *ut, *zt;
  atvi_idx ut_ld, zt_ld;
};

/* An odd number of cache lines: rows then fall into different sets. */
static atvi_idx leading(atvi_idx n) { return ((n + L - 1) / L | 1) * L; }

static atvi_idx groups_of(atvi_idx B) { return B / L + (B % L != 0); }

static atvi_flow_work *carve(atvi_arena *a, const atvi_flow *f, atvi_idx max_B) {
  const atvi_idx d = f->shape.d;
  atvi_flow_work *w, head = {.max_B = max_B, .max_groups = groups_of(max_B)};
  head.ut_ld = leading(f->features);
  head.zt_ld = leading(1 + d);
  ATVI_TAKE(a, w, 1);
  /* count and size as products that cannot wrap: the arena saturates */
  head.rec = atvi_arena_take(a, (size_t)head.max_groups,
                             (size_t)(f->rec_rows * f->shape.layers * L) * sizeof(double));
  ATVI_TAKE(a, head.v, FLOW_CHUNK * d * L);
  ATVI_TAKE(a, head.ldj, FLOW_CHUNK * L);
  ATVI_TAKE(a, head.du, f->features * L);
  ATVI_TAKE(a, head.dz, (1 + d) * L);
  ATVI_TAKE(a, head.dout, FLOW_CHUNK * d * f->rows * L);
  ATVI_TAKE(a, head.dpre, FLOW_CHUNK * f->shape.hidden * L);
  ATVI_TAKE(a, head.ut, FLOW_CHUNK * L * head.ut_ld);
  ATVI_TAKE(a, head.zt, FLOW_CHUNK * L * head.zt_ld);
  if (w) *w = head;
  return w;
}

atvi_status atvi_flow_work_new(atvi_ctx *ctx, const atvi_flow *f, atvi_idx max_B, atvi_flow_work **out) {
  atvi_arena a = {0};
  *out = NULL;
  if (max_B < 1) return ATVI_FAIL(ctx, ATVI_EINVAL, "flow: room for %td draws, want >= 1", max_B);
  carve(&a, f, max_B);
  a = (atvi_arena){.base = atvi_block(ctx, a.used)};
  if (!a.base) return ATVI_FAIL(ctx, ATVI_ENOMEM, "flow: scratch for %td draws", max_B);
  *out = carve(&a, f, max_B);
  (*out)->ctx = ctx;
  return ATVI_OK;
}

void atvi_flow_work_free(atvi_flow_work *w) {
  if (w) atvi_block_free(w->ctx, w);
}

/* Draws at .. of x[n][B] into groups [n][L], filled up with zeros. */
static void load(atvi_idx n, atvi_idx B, atvi_idx at, atvi_idx groups, const double *x, double *v) {
  for (atvi_idx g = 0; g < groups; g++, at += L) {
    const atvi_idx m = B - at < L ? B - at : L;
    for (atvi_idx i = 0; i < n; i++, v += L) {
      for (atvi_idx l = m; l < L; l++) v[l] = 0;
      memcpy(v, x + i * B + at, (size_t)m * sizeof *v);
    }
  }
}

static void store(atvi_idx n, atvi_idx B, atvi_idx at, atvi_idx groups, const double *v, double *x) {
  for (atvi_idx g = 0; g < groups; g++, at += L) {
    const atvi_idx m = B - at < L ? B - at : L;
    for (atvi_idx i = 0; i < n; i++, v += L) memcpy(x + i * B + at, v, (size_t)m * sizeof *v);
  }
}

/* Layer k of the groups from `first` on. */
static atvi_flow_pass pass_at(const atvi_flow *f, const double *theta, atvi_flow_work *w, atvi_idx first,
                              atvi_idx groups, int k) {
  return (atvi_flow_pass){.f = f,
                          .order = f->order + k * f->shape.d,
                          .theta = theta + k * f->per_layer,
                          .groups = groups,
                          .rec = w->rec + (first * f->shape.layers + k * groups) * f->rec_rows * L,
                          .v = w->v,
                          .ldj = w->ldj,
                          .du = w->du,
                          .dz = w->dz,
                          .dout = w->dout,
                          .dpre = w->dpre,
                          .ut = w->ut,
                          .zt = w->zt,
                          .ut_ld = w->ut_ld,
                          .zt_ld = w->zt_ld};
}

static void run(const atvi_flow *f, const double *theta, atvi_flow_work *w, bool inverse, const double *from,
                double *to, double *ldj) {
  const atvi_idx d = f->shape.d, B = w->B, all = groups_of(B);
  const int layers = f->shape.layers;
  for (atvi_idx first = 0; first < all; first += FLOW_CHUNK) {
    const atvi_idx groups = all - first < FLOW_CHUNK ? all - first : FLOW_CHUNK;
    load(d, B, first * L, groups, from, w->v);
    memset(w->ldj, 0, (size_t)(groups * L) * sizeof *w->ldj);
    for (int k = 0; k < layers; k++) {
      atvi_flow_pass p = pass_at(f, theta, w, first, groups, inverse ? layers - 1 - k : k);
      (inverse ? f->kern->inv : f->kern->fwd)(&p);
    }
    if (inverse)
      for (atvi_idx i = 0; i < groups * L; i++) w->ldj[i] = -w->ldj[i];
    store(d, B, first * L, groups, w->v, to);
    store(1, B, first * L, groups, w->ldj, ldj);
  }
}

void atvi_flow_fwd(const atvi_flow *f, const double *theta, atvi_flow_work *w, atvi_idx B, const double *z,
                   double *x, double *ldj) {
  ATVI_ASSERT(B >= 0 && B <= w->max_B);
  w->B = B;
  run(f, theta, w, false, z, x, ldj);
}

void atvi_flow_inv(const atvi_flow *f, const double *theta, atvi_flow_work *w, atvi_idx B, const double *x,
                   double *z, double *ldj) {
  ATVI_ASSERT(B >= 0 && B <= w->max_B);
  w->B = B;
  run(f, theta, w, true, x, z, ldj);
}

/* from: adjoints on the side where the direction ends; to (NULL: not wanted): on the side where it starts. */
static void run_back(const atvi_flow *f, const double *theta, atvi_flow_work *w, bool inverse,
                     const double *from, const double *dldj, double *to, double *dtheta) {
  const atvi_idx d = f->shape.d, B = w->B, all = groups_of(B);
  const int layers = f->shape.layers;
  for (atvi_idx first = 0; first < all; first += FLOW_CHUNK) {
    const atvi_idx groups = all - first < FLOW_CHUNK ? all - first : FLOW_CHUNK;
    load(d, B, first * L, groups, from, w->v);
    load(1, B, first * L, groups, dldj, w->ldj);
    if (inverse)
      for (atvi_idx i = 0; i < groups * L; i++) w->ldj[i] = -w->ldj[i];
    for (int k = 0; k < layers; k++) {
      const int at = inverse ? k : layers - 1 - k;
      atvi_flow_pass p = pass_at(f, theta, w, first, groups, at);
      (inverse ? f->kern->inv_bwd : f->kern->fwd_bwd)(&p);
      if (!dtheta) continue;
      p.dtheta = dtheta + at * f->per_layer;
      f->kern->grad(&p);
    }
    if (to) store(d, B, first * L, groups, w->v, to);
  }
}

void atvi_flow_fwd_vjp(const atvi_flow *f, const double *theta, atvi_flow_work *w, const double *dx,
                       const double *dldj, double *dtheta, double *dz) {
  run_back(f, theta, w, false, dx, dldj, dz, dtheta);
}

void atvi_flow_inv_vjp(const atvi_flow *f, const double *theta, atvi_flow_work *w, const double *dz,
                       const double *dldj, double *dx, double *dtheta) {
  run_back(f, theta, w, true, dz, dldj, dx, dtheta);
}
