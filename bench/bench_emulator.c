/* SPDX-License-Identifier: MIT */
/* Cost of an emulator of 400 runs, 5 inputs and 480 outputs: per point on one core, in groups of 32, after a
 * check against the plain code; and of fitting one. Times of points are minima of several trials. Lines that
 * begin with "figure":
 *
 *   figure emulator <kernel> <instruction set> <us per point: mean and variance> <the same and its adjoint>
 *   figure emulator_lik <runs> <outputs> <ms of one likelihood and gradient, CPU>
 *   figure emulator_fit <runs> <outputs> <seconds> <CPU seconds> <evaluations> <starts that agree> <peak of memory in MB>
 *
 * With arguments N M: only the fit, of N runs of M outputs (the largest that is promised: 2000 10000, in
 * minutes). */
#include "unit/gp/emulator_ref.h"
#include "gp/emulator_detail.h"
#include "math/rng.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

enum { G = ATVI_EM_GROUP, D = 5, TRIALS = 60, REPEATS = 4 };
#define CLOSE 1e-9 /* relative to the largest number of its kind */

static const char *const KERNEL[] = {"exponential", "matern32", "matern52", "squared"};

static void demand(atvi_ctx *ctx, atvi_status status) {
  if (status == ATVI_OK) return;
  fprintf(stderr, "bench_emulator: %s\n", atvi_errmsg(ctx));
  exit(1);
}

static double cpu_s(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Floods: two waves whose height, time and length depend on the inputs, on an uneven base. */
static void simulate(atvi_idx n, atvi_idx m, double *x, double *y) {
  for (atvi_idx i = 0; i < n; i++) {
    double *u = x + i * D;
    atvi_rng r = atvi_math_rng_at(7, ATVI_STREAM_TEST, 0, (uint32_t)i);
    for (int j = 0; j < D; j++) u[j] = atvi_math_rng_uniform(&r);
    for (atvi_idx t = 0; t < m; t++) {
      double s = (double)t / (double)m, a = (s - 0.25 - 0.1 * u[1]) / (0.05 + 0.05 * u[2]),
             b = (s - 0.7) / 0.1;
      y[i * m + t] = 100 * (1 + u[0]) * exp(-a * a) + 50 * u[3] * u[3] * exp(-b * b) +
                     5 * sin(6 * s + 3 * u[4]) + 0.5 * atvi_math_rng_normal(&r);
    }
  }
}

static double largest(atvi_idx n, const double *a, const double *b) {
  double top = 0, gap = 0;
  for (atvi_idx i = 0; i < n; i++) top = fmax(top, fabs(a[i])), gap = fmax(gap, fabs(a[i] - b[i]));
  return gap / top;
}

typedef struct {
  atvi_emulator *em;
  atvi_em_work *w;
  double *x, *mean, *share, *mean_bar, *share_bar, *x_bar;
} problem;

static void forward(problem *p) { atvi_gp_em_eval(p->em, p->w, p->x, p->mean, p->share); }

static void both(problem *p) {
  forward(p);
  atvi_gp_em_vjp(p->em, p->w, p->mean_bar, p->share_bar, p->x_bar);
}

/* us per point */
static double time_of(void (*fn)(problem *), problem *p) {
  double best = 1e300;
  for (int t = 0; t < TRIALS; t++) {
    double start = atvi_clock_s();
    for (int k = 0; k < REPEATS; k++) fn(p);
    best = fmin(best, (atvi_clock_s() - start) * 1e6 / (REPEATS * G));
  }
  return best;
}

static void check(problem *p) {
  atvi_idx m = p->em->m;
  double *mean = calloc((size_t)(m * G), sizeof *mean), share[G], x_bar[D * G];
  both(p);
  em_eval_ref(p->em, p->w, p->x, mean, share);
  double a = largest(m * G, mean, p->mean), b = largest(G, share, p->share);
  em_vjp_ref(p->em, p->w, p->x, p->mean_bar, p->share_bar, x_bar);
  double c = largest(D * G, x_bar, p->x_bar);
  free(mean);
  if (a < CLOSE && b < CLOSE && c < CLOSE) return;
  fprintf(stderr, "bench_emulator: differs from the plain code by %g %g %g\n", a, b, c);
  exit(1);
}

static void time_points(atvi_ctx *ctx, const atvi_em_runs *runs, atvi_em_kernel kernel) {
  const double length[D] = {2.1, 3.4, 1.2, 0.8, 4.1};
  atvi_em_opts opts;
  atvi_gp_em_defaults(&opts);
  opts.kernel = kernel, opts.length = length, opts.nugget = 0.01, opts.time_length = 150;
  problem p;
  demand(ctx, atvi_gp_emulator_new(ctx, runs, &opts, &p.em));
  demand(ctx, atvi_gp_em_work_new(p.em, ctx, runs->m, NULL, &p.w));
  atvi_idx m = runs->m, all = 2 * m * G + 2 * D * G + 2 * G;
  double *room = atvi_block(ctx, (size_t)all * sizeof *room);
  if (!room) exit(1);
  atvi_rng r = atvi_math_rng_at(8, ATVI_STREAM_TEST, 0, 0);
  for (atvi_idx i = 0; i < all; i++) room[i] = atvi_math_rng_uniform(&r);
  p.x = room, p.x_bar = p.x + D * G, p.share = p.x_bar + D * G, p.share_bar = p.share + G;
  p.mean = p.share_bar + G, p.mean_bar = p.mean + m * G;
  const atvi_gp_table *table[] = {&atvi_gp_table_base,
#ifdef ATVI_HAVE_X86_ISA
                                  &atvi_gp_table_avx2, &atvi_gp_table_avx512
#endif
  };
  static const char *const name[] = {"base", "avx2", "avx512"};
  for (int i = 0; i <= (int)atvi_isa_best(); i++) {
    p.em->table = table[i];
    check(&p);
    printf("figure emulator %s %s %.2f %.2f\n", KERNEL[kernel], name[i], time_of(forward, &p),
           time_of(both, &p));
  }
  atvi_block_free(ctx, room);
  atvi_gp_em_work_free(p.w);
  atvi_gp_emulator_free(p.em);
}

static void time_lik(atvi_ctx *ctx, const atvi_em_runs *runs) {
  double *mean = calloc((size_t)runs->m, sizeof *mean), par[D + 2] = {0.7, 1.2, 0.2, -0.2, 1.4, -4, 5},
         grad[D + 3];
  atvi_em_lik *lik;
  atvi_em_scratch *scratch;
  demand(ctx, atvi_gp_em_lik_new(ctx, runs, mean, ATVI_EM_MATERN52, runs->n, NULL, &lik));
  demand(ctx, atvi_gp_em_scratch_new(ctx, lik, &scratch));
  double best = 1e300;
  for (int t = 0; t < 8; t++) {
    double sill = NAN, start = cpu_s();
    if (!isfinite(atvi_gp_em_lik_eval(lik, scratch, par, &sill, grad))) exit(1);
    best = fmin(best, cpu_s() - start);
  }
  printf("figure emulator_lik %td %td %.2f\n", runs->n, runs->m, 1e3 * best);
  atvi_gp_em_scratch_free(ctx, scratch);
  atvi_gp_em_lik_free(ctx, lik);
  free(mean);
}

static void time_fit(atvi_ctx *ctx, const atvi_em_runs *runs) {
  atvi_emulator *em;
  struct rusage use;
  double start = atvi_clock_s(), cpu = cpu_s();
  demand(ctx, atvi_gp_emulator_new(ctx, runs, NULL, &em));
  double took = atvi_clock_s() - start, took_cpu = cpu_s() - cpu;
  const atvi_em_info *info = atvi_gp_emulator_info(em);
  getrusage(RUSAGE_SELF, &use);
  printf("figure emulator_fit %td %td %.2f %.2f %d %d/%d %.0f\n", runs->n, runs->m, took, took_cpu,
         info->evals, info->agreed, info->starts, (double)use.ru_maxrss / 1024);
  atvi_gp_emulator_free(em);
}

int main(int argc, char **argv) {
  atvi_idx n = argc > 2 ? atoi(argv[1]) : 400, m = argc > 2 ? atoi(argv[2]) : 480;
  double *x = calloc((size_t)(n * D), sizeof *x), *y = calloc((size_t)(n * m), sizeof *y);
  atvi_ctx *ctx;
  if (!x || !y || atvi_ctx_new(NULL, &ctx) != ATVI_OK) return 1;
  simulate(n, m, x, y);
  atvi_em_runs runs = {.n = n, .d = D, .m = m, .x = x, .y = y};
  if (argc <= 2) {
    for (int k = ATVI_EM_EXPONENTIAL; k <= ATVI_EM_SQUARED; k++) time_points(ctx, &runs, (atvi_em_kernel)k);
    time_lik(ctx, &runs);
  }
  time_fit(ctx, &runs);
  atvi_ctx_free(ctx);
  free(x);
  free(y);
  return 0;
}
