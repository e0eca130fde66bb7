/* SPDX-License-Identifier: MIT */
/* Cost of a flow per draw on one core, in batches of 64, after a check against the plain scalar code that the
 * tests use as their oracle, which is also timed. Times are minima of several trials. Lines that begin with
 * "figure":
 *
 *   figure flow <d> <hidden> <instruction set> <ns per draw: forward> <forward and adjoint> <inverse>
 *               <forward and score (adjoint of the inverse, no dtheta)> <scalar forward> */
#include "../tests/unit/flow/reference.h"
#include "math/rng.h"
#include <stdio.h>
#include <stdlib.h>

enum { DRAWS = 64, TRIALS = 40, REPEATS = 20, MOST = 10 };

typedef struct {
  atvi_flow *f;
  atvi_flow_work *w;
  double *theta, *dtheta;
  double z[MOST * DRAWS], x[MOST * DRAWS], ldj[DRAWS], dx[MOST * DRAWS], dl[DRAWS], back[MOST * DRAWS];
} problem;

static void forward(problem *p) { atvi_flow_fwd(p->f, p->theta, p->w, DRAWS, p->z, p->x, p->ldj); }

static void both(problem *p) {
  forward(p);
  atvi_flow_fwd_vjp(p->f, p->theta, p->w, p->dx, p->dl, p->dtheta, NULL);
}

static void inverse(problem *p) { atvi_flow_inv(p->f, p->theta, p->w, DRAWS, p->x, p->back, p->ldj); }

static void score(problem *p) {
  forward(p);
  atvi_flow_inv_vjp(p->f, p->theta, p->w, p->dx, p->dl, p->back, NULL);
}

static void scalar(problem *p) {
  for (int b = 0; b < DRAWS; b++) {
    double z[MOST], x[MOST];
    for (atvi_idx i = 0; i < p->f->shape.d; i++) z[i] = p->z[i * DRAWS + b];
    p->ldj[b] = ref_fwd(p->f, p->theta, z, x);
    for (atvi_idx i = 0; i < p->f->shape.d; i++) p->x[i * DRAWS + b] = x[i];
  }
}

/* ns per draw */
static double time_of(void (*fn)(problem *p), problem *p) {
  double best = 1e300;
  for (int t = 0; t < TRIALS; t++) {
    double start = atvi_clock_s();
    for (int k = 0; k < REPEATS; k++) fn(p);
    double took = (atvi_clock_s() - start) * 1e9 / (REPEATS * DRAWS);
    best = took < best ? took : best;
  }
  return best;
}

static int agree(problem *p) {
  double x[MOST * DRAWS], ldj[DRAWS], worst = 0;
  scalar(p);
  for (int i = 0; i < MOST * DRAWS; i++) x[i] = p->x[i];
  for (int b = 0; b < DRAWS; b++) ldj[b] = p->ldj[b];
  forward(p);
  for (int i = 0; i < MOST * DRAWS; i++) worst = fmax(worst, fabs(x[i] - p->x[i]));
  for (int b = 0; b < DRAWS; b++) worst = fmax(worst, fabs(ldj[b] - p->ldj[b]));
  if (!(worst < 1e-11)) printf("differs from the scalar code by %g\n", worst);
  return worst < 1e-11;
}

static int bench(atvi_ctx *ctx, atvi_idx d, int hidden) {
  static problem p;
  static const char *names[] = {"base", "avx2", "avx512"};
  atvi_flow_shape s = atvi_flow_defaults(d);
  s.hidden = hidden;
  p = (problem){0};
  if (atvi_flow_new(ctx, &s, &p.f) || atvi_flow_work_new(ctx, p.f, DRAWS, &p.w)) return 1;
  const atvi_idx n = atvi_flow_size(p.f);
  p.theta = calloc((size_t)n, sizeof *p.theta);
  p.dtheta = calloc((size_t)n, sizeof *p.dtheta);
  if (!p.theta || !p.dtheta) return 1;
  atvi_flow_init(p.f, p.theta);
  atvi_rng r = atvi_math_rng_at(1, ATVI_STREAM_TEST, 0, 0);
  for (atvi_idx i = 0; i < n; i++) p.theta[i] += 0.02 * atvi_math_rng_normal(&r);
  for (atvi_idx i = 0; i < d * DRAWS; i++)
    p.z[i] = atvi_math_rng_normal(&r), p.dx[i] = 1e-3 * atvi_math_rng_normal(&r);
  for (int b = 0; b < DRAWS; b++) p.dl[b] = -1.0 / DRAWS;
  printf("d = %td, %d layers, %d bins, %d hidden: %td parameters\n", d, s.layers, s.bins, hidden, n);
  int wrong = 0;
  for (int isa = ATVI_ISA_BASE; isa <= (int)atvi_isa_best(); isa++) {
    atvi_flow_set_isa(p.f, (atvi_isa)isa);
    wrong |= !agree(&p);
    printf("figure flow %td %d %s %.0f %.0f %.0f %.0f %.0f\n", d, hidden, names[isa], time_of(forward, &p),
           time_of(both, &p), time_of(inverse, &p), time_of(score, &p), time_of(scalar, &p));
  }
  free(p.theta);
  free(p.dtheta);
  atvi_flow_work_free(p.w);
  atvi_flow_free(p.f);
  return wrong;
}

int main(void) {
  atvi_ctx *ctx;
  if (atvi_ctx_new(NULL, &ctx)) return 1;
  int wrong = bench(ctx, 3, 16) | bench(ctx, 10, 32);
  atvi_ctx_free(ctx);
  return wrong;
}
