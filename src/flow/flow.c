/* SPDX-License-Identifier: MIT */
/* The shape of a flow: sizes, offsets, orders, and the parameters it starts from. */
#include "flow/detail.h"
#include "math/rng.h"
#include <math.h>

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

/* Natural, reversed, shuffled, that reversed, shuffled anew, ...: each coordinate comes after each other one in half of
 * the layers. */
static void choose_orders(atvi_flow *f) {
  const atvi_idx d = f->shape.d;
  for (int k = 0; k < f->shape.layers; k++) {
    int32_t *o = f->order + k * d;
    for (atvi_idx i = 0; i < d; i++) o[i] = k % 2 ? o[-1 - i] : (int32_t)i;
    if (k % 2 || k == 0) continue;
    atvi_rng r = atvi_rng_at(f->shape.seed, STREAM_FLOW, ORDER, (uint32_t)k);
    for (atvi_idx i = d - 1; i > 0; i--) {
      atvi_idx j = (atvi_idx)(atvi_rng_bits(&r) % (uint64_t)(i + 1));
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
  if (!a.base) return ATVI_FAIL(ctx, ATVI_ENOMEM, "flow: d = %td, %d layers", shape->d, shape->layers);
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

/* A unit of degree m sees m standard normals: weights of variance 1/m let it see about one. Biases of the same size
 * make units differ in more than direction: without them all would be odd functions. */
void atvi_flow_init(const atvi_flow *f, double *theta) {
  const atvi_idx n = atvi_flow_size(f);
  for (atvi_idx i = 0; i < n; i++) theta[i] = 0;
  for (int k = 0; k < f->shape.layers; k++) {
    atvi_rng r = atvi_rng_at(f->shape.seed, STREAM_FLOW, WEIGHTS, (uint32_t)k);
    for (atvi_idx i = 0; i < f->shape.d; i++) {
      double *w = theta + k * f->per_layer + f->unit_at[i], scale = 1 / sqrt((double)(i + 1));
      for (atvi_idx j = 0; j < f->units[i]; j++, w += i + 2) {
        w[0] = 2 * atvi_rng_uniform(&r) - 1;
        for (atvi_idx c = 1; c < i + 2; c++) w[c] = scale * atvi_rng_normal(&r);
      }
    }
  }
}
