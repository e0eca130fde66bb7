/* SPDX-License-Identifier: MIT */
/* What a model costs, in CPU time, so that a busy machine matters little. bench/peers/peers.py and
 * tools/cost_plots.py call it.
 *
 *   cost gradient MODEL     us of one evaluation, and of one with gradient, at draws from the prior on one thread; minima of trials
 *   cost fit MODEL SEED     s to read (and compile) the model, s of atvi_fit with default options, peak of memory in MB */
#include <atvi/atvi.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

enum { POINTS = 64, TRIALS = 40 };
#define LONGEST_S 2.0 /* of trials */

static double cpu_s(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double least(const atvi_target *t, void *work, const atvi_batch *b) {
  double best = INFINITY, begun = cpu_s();
  for (int k = 0; k < TRIALS && (k < 3 || cpu_s() - begun < LONGEST_S); k++) {
    double start = cpu_s();
    t->ops->eval(t->self, work, b);
    best = fmin(best, cpu_s() - start);
  }
  return best / POINTS * 1e6;
}

static atvi_status gradient(atvi_ctx *ctx, const atvi_target *t) {
  void *work = NULL;
  size_t rows = (size_t)(3 * t->d + 2);
  double *room = calloc(rows * POINTS, sizeof *room);
  atvi_outcome outcome[POINTS];
  atvi_status status = t->ops->work_new ? t->ops->work_new(t->self, ctx, &work) : ATVI_OK;
  if (room && status == ATVI_OK) {
    double *at = room + t->d * POINTS;
    atvi_batch b = {.B = POINTS, .theta = room, .log_prior = at, .log_lik = at + POINTS, .outcome = outcome};
    t->ops->prior_draw(t->self, work, 1, 0, POINTS, room);
    double plain = least(t, work, &b);
    b.grad_prior = at + 2 * (atvi_idx)POINTS, b.grad_lik = b.grad_prior + t->d * POINTS;
    printf("%.4g %.4g\n", plain, least(t, work, &b));
  }
  if (work && t->ops->work_free) t->ops->work_free(work);
  free(room);
  return status;
}

static atvi_status fit(atvi_ctx *ctx, const atvi_target *t, const char *seed, double loaded) {
  struct rusage use;
  atvi_draws *draws = NULL;
  atvi_fit_opts opts = atvi_fit_defaults();
  opts.seed = strtoull(seed, NULL, 10);
  double begun = cpu_s();
  atvi_status status = atvi_fit(ctx, t, &opts, &draws);
  getrusage(RUSAGE_SELF, &use);
  if (status == ATVI_OK) printf("%.3f %.3f %ld\n", loaded, cpu_s() - begun, use.ru_maxrss / 1024);
  atvi_draws_free(draws);
  return status;
}

int main(int argc, char **argv) {
  atvi_ctx *ctx = NULL;
  atvi_model *model = NULL;
  bool fits = argc == 4 && strcmp(argv[1], "fit") == 0;
  if (!fits && (argc != 3 || strcmp(argv[1], "gradient") != 0)) {
    fprintf(stderr, "usage: cost gradient MODEL | cost fit MODEL SEED\n");
    return 2;
  }
  if (atvi_ctx_new(NULL, &ctx) != ATVI_OK) return 1;
  atvi_status status = atvi_model_load(ctx, argv[2], NULL, &model);
  if (status == ATVI_OK)
    status =
        fits ? fit(ctx, atvi_model_target(model), argv[3], cpu_s()) : gradient(ctx, atvi_model_target(model));
  if (status != ATVI_OK) fprintf(stderr, "cost: %s\n", atvi_errmsg(ctx));
  atvi_model_free(model);
  atvi_ctx_free(ctx);
  return status != ATVI_OK;
}
