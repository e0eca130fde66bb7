/* SPDX-License-Identifier: MIT */
/* The shape of a flow: sizes, offsets, orders, and the parameters it starts from. */
#include "flow/detail.h"
#include "math/rng.h"
#include <math.h>
#include <string.h>

enum { STREAM_FLOW = 0x666c6f77 }; /* apart from the streams of math/rng.h, which count from 1 */
enum { ORDER, WEIGHTS };           /* iterations of that stream */

extern const atvi_flow_kernels atvi_flow_kernels_base, atvi_flow_kernels_avx2, atvi_flow_kernels_avx512;

atvi_flow_shape atvi_flow_defaults(atvi_idx d) {
  return (atvi_flow_shape){.d = d,
                           .layers = 6,
                           .bins = d == 1   ? 8
                                   : d == 2 ? 6
                                            : 4,
                           .hidden = d <= 4  ? 16
                                     : d < 8 ? 24
                                             : 32,
                           .box = 4,
                           .seed = 1};
}

void atvi_flow_set_isa(atvi_flow *f, atvi_isa isa) {
#ifdef ATVI_HAVE_X86_ISA
  f->kern = isa == ATVI_ISA_AVX512 ? &atvi_flow_kernels_avx512
            : isa == ATVI_ISA_AVX2 ? &atvi_flow_kernels_avx2
                                   : &atvi_flow_kernels_base;
#else
  (void)isa;
  f->kern = &atvi_flow_kernels_base;
#endif
}

static atvi_flow *carve(atvi_arena *a, const atvi_flow_shape *s) {
  atvi_flow *f, head = {.shape = *s};
  ATVI_TAKE(a, f, 1);
  ATVI_TAKE(a, head.cut, s->d);
  ATVI_TAKE(a, head.out_at, s->d);
  ATVI_TAKE(a, head.units, s->d);
  ATVI_TAKE(a, head.unit_at, s->d);
  ATVI_TAKE(a, head.order, s->d * s->layers);
  if (f) *f = head;
  return f;
}

/* Units with degree <= m, of n spread evenly over the degrees 1 .. d-1. */
static atvi_idx units_to(atvi_idx m, atvi_idx n, atvi_idx d) {
  return m >= d - 1 ? n : (m * n + d - 2) / (d - 1);
}

static void lay_out(atvi_flow *f) {
  const atvi_flow_shape *s = &f->shape;
  const atvi_idx K = s->bins;
  f->rows = 3 * K + 1;
  f->features = 1;
  for (atvi_idx i = 0, at = 0; i < s->d; i++) {
    f->cut[i] = f->features;
    f->out_at[i] = at;
    at += f->rows * f->cut[i];
    f->units[i] = i + 1 == s->d ? 0 : units_to(i + 1, s->hidden, s->d) - units_to(i, s->hidden, s->d);
    f->unit_at[i] = at;
    at += f->units[i] * (i + 2);
    f->features += i + 1 == s->d ? 0 : 1 + f->units[i];
    f->per_layer = at;
  }
  f->rec_rows = 1 + s->d + f->features + s->d * (2 * K + REC_ROWS);
}

/* Natural, reversed, shuffled, that reversed, shuffled anew, ...: each coordinate comes after each other one
 * in half of the layers. */
static void choose_orders(atvi_flow *f) {
  const atvi_idx d = f->shape.d;
  for (int k = 0; k < f->shape.layers; k++) {
    int32_t *o = f->order + k * d;
    for (atvi_idx i = 0; i < d; i++) o[i] = k % 2 ? o[-1 - i] : (int32_t)i;
    if (k % 2 || k == 0) continue;
    atvi_rng r = atvi_math_rng_at(f->shape.seed, STREAM_FLOW, ORDER, (uint32_t)k);
    for (atvi_idx i = d - 1; i > 0; i--) {
      atvi_idx j = (atvi_idx)(atvi_math_rng_bits(&r) % (uint64_t)(i + 1));
      int32_t was = o[i];
      o[i] = o[j];
      o[j] = was;
    }
  }
}

static atvi_status check(atvi_ctx *ctx, const atvi_flow_shape *s) {
  if (s->d < 1 || s->d > FLOW_MAX_SIZE)
    return ATVI_FAIL(ctx, ATVI_EINVAL, "flow: d = %td, want 1 to %d", s->d, FLOW_MAX_SIZE);
  if (s->layers < 1 || s->layers > FLOW_MAX_SIZE)
    return ATVI_FAIL(ctx, ATVI_EINVAL, "flow: layers = %d, want 1 to %d", s->layers, FLOW_MAX_SIZE);
  if (s->bins < 1 || s->bins > FLOW_MAX_BINS)
    return ATVI_FAIL(ctx, ATVI_EINVAL, "flow: bins = %d, want 1 to %d", s->bins, FLOW_MAX_BINS);
  if (s->hidden < 1 || s->hidden > FLOW_MAX_SIZE)
    return ATVI_FAIL(ctx, ATVI_EINVAL, "flow: hidden = %d, want 1 to %d", s->hidden, FLOW_MAX_SIZE);
  if (!(s->box > 0 && s->box < INFINITY))
    return ATVI_FAIL(ctx, ATVI_EINVAL, "flow: box = %g, want > 0 and finite", s->box);
  return ATVI_OK;
}

atvi_status atvi_flow_new(atvi_ctx *ctx, const atvi_flow_shape *shape, atvi_flow **out) {
  atvi_arena a = {0};
  *out = NULL;
  if (!shape) return ATVI_FAIL(ctx, ATVI_EINVAL, "flow: no shape");
  ATVI_TRY(check(ctx, shape));
  carve(&a, shape);
  a = (atvi_arena){.base = atvi_block(ctx, a.used)};
  if (!a.base) return ATVI_ENOMEM;
  atvi_flow *f = carve(&a, shape);
  f->ctx = ctx;
  lay_out(f);
  choose_orders(f);
  atvi_flow_set_isa(f, atvi_isa_best());
  *out = f;
  return ATVI_OK;
}

void atvi_flow_free(atvi_flow *f) {
  if (f) atvi_block_free(f->ctx, f);
}

atvi_idx atvi_flow_size(const atvi_flow *f) { return f->per_layer * f->shape.layers; }

void atvi_flow_layer(const atvi_flow *f, int k, atvi_idx *first, atvi_idx *last) {
  *first = f->per_layer * k;
  *last = f->per_layer * (k + 1);
}

/* A unit of degree m sees m standard normals: weights of variance 1/m let it see about one. Biases of the
 * same size make units differ in more than direction: without them all would be odd functions. */
void atvi_flow_init(const atvi_flow *f, double *theta) {
  const atvi_idx n = atvi_flow_size(f);
  for (atvi_idx i = 0; i < n; i++) theta[i] = 0;
  for (int k = 0; k < f->shape.layers; k++) {
    atvi_rng r = atvi_math_rng_at(f->shape.seed, STREAM_FLOW, WEIGHTS, (uint32_t)k);
    for (atvi_idx i = 0; i < f->shape.d; i++) {
      double *w = theta + k * f->per_layer + f->unit_at[i], scale = 1 / sqrt((double)(i + 1));
      for (atvi_idx j = 0; j < f->units[i]; j++, w += i + 2) {
        w[0] = 2 * atvi_math_rng_uniform(&r) - 1;
        for (atvi_idx c = 1; c < i + 2; c++) w[c] = scale * atvi_math_rng_normal(&r);
      }
    }
  }
}

/* Batches through the layers. A batch is cut into chunks of FLOW_CHUNK groups; a chunk goes through all
 * layers before the next one starts, so that a layer's weights are read once per chunk. The last group is
 * filled up with zeros, which every kernel takes and nobody sees. */

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

static atvi_flow_work *carve_work(atvi_arena *a, const atvi_flow *f, atvi_idx max_B) {
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
  carve_work(&a, f, max_B);
  a = (atvi_arena){.base = atvi_block(ctx, a.used)};
  if (!a.base) return ATVI_ENOMEM;
  *out = carve_work(&a, f, max_B);
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

/* Untrained components are asked at every batch, and have tens of thousands of zeros. This takes as long as
 * memcmp() of glibc; that of musl goes byte by byte. The compiler makes vectors of loops whose length it
 * knows. */
static bool all_zero(atvi_idx n, const double *x) {
  enum { BLOCK = 64, APART = 4 };
  for (; n >= BLOCK; n -= BLOCK, x += BLOCK) {
    uint64_t any[APART] = {0};
    for (int i = 0; i < BLOCK; i += APART)
      for (int k = 0; k < APART; k++) {
        uint64_t bits;
        memcpy(&bits, x + i + k, sizeof bits);
        any[k] |= bits;
      }
    if ((any[0] | any[1] | any[2] | any[3]) << 1) return false; /* a zero may have a sign */
  }
  while (n > 0 && x[n - 1] == 0) n--;
  return n == 0;
}

bool atvi_flow_is_identity(const atvi_flow *f, const double *theta) {
  for (int k = 0; k < f->shape.layers; k++)
    for (atvi_idx i = 0; i < f->shape.d; i++)
      if (!all_zero(f->rows * f->cut[i], theta + k * f->per_layer + f->out_at[i])) return false;
  return true;
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
