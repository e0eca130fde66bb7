/* SPDX-License-Identifier: MIT */
/* Cost of variational training: a step of Adam on a batch of 64 draws, at the posterior, and what it is made
 * of. The limit is the model's gradient alone, in batches as large as it likes. CPU time of one thread;
 * minima of several trials. Lines that begin with "figure", microseconds per draw:
 *
 *   figure vi <model> step <all of it> flow <base draws, forward, adjoint> model <log density and gradient> optimiser
 *             <sums, clipping, Adam, average> rest <maps, frame, bookkeeping> alone <gradient in batches of 2048> draw
 *             <one draw at the end of a fit, with its weight> */
#include "infer/elbo.h"
#include "math/optim.h"
#include "math/rng.h"
#include "math/sobol.h"
#include "model/evaluator.h"
#include "model/model.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { BATCH = 64, PART = 16, MOST_D = 10, ALONE = 2048, FINAL = 4096, TRIALS = 15 };

static const char TRUNCATED[] =
    "model \"Normal observations of parameters in a box\"\nindex k = 1..10\nparam theta[k] in (-1, 1)\n"
    "const x[k] = [-0.54, -0.24, 0.82, 0.64, 0.42, -0.10, 1.13, -0.06, -0.97, -0.94]\n"
    "logp -5*sum(i in k: (theta[i] - x[i])^2)\n";

typedef struct {
  const char *name, *path, *text;
  double mean[MOST_D], sd[MOST_D]; /* of the posterior */
} problem;

typedef struct {
  atvi_idx d, size;
  atvi_evaluator *ev;
  atvi_space *space;
  atvi_family family;
  atvi_elbo *elbo;
  atvi_adam *adam;
  atvi_member m;
  void *work; /* of the family */
  double *grad, *avg;
  double z[MOST_D * PART], x[MOST_D * PART], log_q[PART], dx[MOST_D * PART], dq[PART];
  double theta[MOST_D * ALONE], row[2][ALONE], g[2][MOST_D * ALONE];
  atvi_outcome outcome[ALONE];
  atvi_cloud c; /* FINAL draws */
  uint32_t scramble;
} bench;

/* ---- what is timed ---- */

static void flow(bench *b) {
  for (int part = 0; part < BATCH / PART; part++) {
    atvi_math_sobol_normal((atvi_sobol){1, ATVI_STREAM_TRAIN, b->scramble}, part * PART, b->d, PART, b->z);
    b->family.ops->fwd(b->family.self, b->m.phi, b->work, PART, b->z, b->x, b->log_q);
    b->family.ops->vjp(b->family.self, b->m.phi, b->work, b->dx, b->dq, b->grad);
  }
  b->scramble++;
}

static void gradients(bench *b, atvi_idx n) {
  atvi_model_evaluator_run_on(b->ev, 0,
                              &(atvi_batch){.B = n,
                                            .theta = b->theta,
                                            .log_prior = b->row[0],
                                            .log_lik = b->row[1],
                                            .grad_prior = b->g[0],
                                            .grad_lik = b->g[1],
                                            .outcome = b->outcome});
}

static void model(bench *b) {
  for (int part = 0; part < BATCH / PART; part++) gradients(b, PART);
}

static void alone(bench *b) { gradients(b, ALONE); }

/* As a step of src/infer/vi_train.c, but that the step has length zero: the draws stay where they are. */
static void optimiser(bench *b) {
  double norm = 0;
  for (atvi_idx i = 0; i < b->size; i++) norm += b->grad[i] * b->grad[i];
  norm = sqrt(norm);
  for (atvi_idx i = 0; i < b->size && norm > 10; i++) b->grad[i] *= 10 / norm;
  atvi_math_adam_set_step(b->adam, 0);
  atvi_math_adam_step(b->adam, b->m.phi, b->grad);
  for (atvi_idx i = 0; i < b->size; i++) b->avg[i] = 0.98 * b->avg[i] + 0.02 * b->m.phi[i];
}

static void step(bench *b) {
  atvi_infer_elbo_grad(b->elbo, &b->m, 1, b->scramble++, b->grad);
  optimiser(b);
}

static void draw(bench *b) {
  atvi_elbo_lot lot = {ATVI_STREAM_FINAL, b->scramble++, 0, FINAL, true};
  atvi_infer_elbo_draw(b->elbo, &b->m, &lot, &b->c, 0);
}

static double cpu_s(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Microseconds per draw. Trials of at least a millisecond. */
static double time_of(void (*fn)(bench *), bench *b, int draws) {
  double best = HUGE_VAL, begun = cpu_s();
  fn(b);
  int repeats = (int)(1e-3 / fmax(cpu_s() - begun, 1e-6)) + 1;
  for (int k = 0; k < TRIALS; k++) {
    begun = cpu_s();
    for (int r = 0; r < repeats; r++) fn(b);
    best = fmin(best, (cpu_s() - begun) / repeats);
  }
  return 1e6 * best / draws;
}

/* ---- set-up ---- */

/* The frame puts q where the posterior is: under the map, its mean and standard deviations. */
static void place(bench *b, const problem *p, double *shift, double *chol) {
  b->m.whole = true;
  for (atvi_idx i = 0; i < b->d; i++) {
    const atvi_map *map = &b->space->map[i];
    double at[3] = {p->mean[i], p->mean[i] - 0.05 * p->sd[i], p->mean[i] + 0.05 * p->sd[i]}, xi[3];
    atvi_transform_map_inv(map, 3, at, xi);
    shift[i] = xi[0];
    chol[i * b->d + i] = 10 * (xi[2] - xi[1]);
    b->m.log_det += log(chol[i * b->d + i]);
  }
  b->m.shift = shift;
  b->m.chol = chol;
}

static double *reals(atvi_pool *pool, atvi_idx n) { return atvi_pool_take(pool, (size_t)n, sizeof(double)); }

static atvi_status make(atvi_ctx *ctx, atvi_pool *pool, const problem *p, bench *b) {
  ATVI_TRY(atvi_infer_space_new(ctx, b->ev, "auto", 1, &b->space));
  b->d = b->space->d;
  atvi_flow_shape shape = atvi_flow_defaults(b->d);
  ATVI_TRY(atvi_flow_family_flow(ctx, &shape, &b->family));
  ATVI_TRY(b->family.ops->work_new(b->family.self, ctx, PART, &b->work));
  ATVI_TRY(atvi_infer_elbo_new(ctx, b->space, &b->family, 1, false, BATCH, &b->elbo));
  b->size = b->family.size;
  ATVI_TRY(atvi_math_adam_new(ctx, b->size, NULL, &b->adam));
  b->grad = reals(pool, b->size);
  b->avg = reals(pool, b->size);
  b->m.phi = reals(pool, b->size);
  b->c.cap = FINAL;
  b->c.x = reals(pool, b->d * FINAL);
  b->c.theta = reals(pool, b->d * FINAL);
  double **row[] = {&b->c.log_prior, &b->c.log_lik, &b->c.log_base,
                    &b->c.log_pi,    &b->c.log_q,   &b->c.log_member};
  for (size_t k = 0; k < sizeof row / sizeof *row; k++) *row[k] = reals(pool, FINAL);
  double *shift = reals(pool, b->d), *chol = reals(pool, b->d * b->d);
  if (atvi_pool_failed(pool)) return ATVI_FAIL(ctx, ATVI_ENOMEM, "bench");
  place(b, p, shift, chol);
  b->family.ops->init(b->family.self, b->m.phi);
  atvi_rng r = atvi_math_rng_at(1, ATVI_STREAM_TEST, 0, 0);
  for (atvi_idx i = 0; i < b->size; i++) b->m.phi[i] += 0.01 * atvi_math_rng_normal(&r);
  for (int i = 0; i < PART; i++) b->dq[i] = 1;
  for (atvi_idx i = 0; i < b->d * PART; i++) b->dx[i] = 0.1 * atvi_math_rng_normal(&r);
  /* Points for the model alone, from q. */
  atvi_infer_elbo_draw(b->elbo, &b->m, &(atvi_elbo_lot){ATVI_STREAM_FINAL, 0, 0, ALONE, false}, &b->c, 0);
  for (atvi_idx i = 0; i < b->d; i++)
    for (atvi_idx j = 0; j < ALONE; j++) b->theta[i * ALONE + j] = b->c.theta[i * FINAL + j];
  return ATVI_OK;
}

static void drop(bench *b) {
  atvi_math_adam_free(b->adam);
  atvi_infer_elbo_free(b->elbo);
  if (b->work) b->family.ops->work_free(b->work);
  atvi_flow_family_free(&b->family);
  atvi_infer_space_free(b->space);
}

/* Draws innermost, of batches of n from those of ALONE. */
static void pack(bench *b, atvi_idx n) {
  for (atvi_idx i = 1; i < b->d; i++)
    for (atvi_idx j = 0; j < n; j++) b->theta[i * n + j] = b->theta[i * ALONE + j];
}

static void report(const problem *p, bench *b) {
  double large = time_of(alone, b, ALONE);
  pack(b, PART);
  double in_model = time_of(model, b, BATCH), in_flow = time_of(flow, b, BATCH);
  double in_adam = time_of(optimiser, b, BATCH), whole = time_of(step, b, BATCH),
         last = time_of(draw, b, FINAL);
  printf(
      "%-10s d = %td, %td parameters of the flow: a step of %d draws takes %.0f us, %.2f times the model's "
      "gradients alone\n",
      p->name, b->d, b->size, BATCH, BATCH * whole, whole / large);
  printf("figure vi %s step %.3f flow %.3f model %.3f optimiser %.3f rest %.3f alone %.3f draw %.3f\n",
         p->name, whole, in_flow, in_model, in_adam, whole - in_flow - in_model - in_adam, large, last);
}

static atvi_status measure(atvi_ctx *ctx, const problem *p, const char *path) {
  static bench b;
  atvi_model *m;
  atvi_pool *pool;
  b = (bench){0};
  ATVI_TRY(atvi_model_load(ctx, path, NULL, &m));
  ATVI_TRY(atvi_model_evaluator_new(ctx, atvi_model_target(m), &b.ev));
  ATVI_TRY(atvi_pool_new(ctx, &pool));
  ATVI_TRY(make(ctx, pool, p, &b));
  atvi_idx good = atvi_infer_elbo_grad(b.elbo, &b.m, 1, b.scramble++, b.grad).good;
  if (good < BATCH) return ATVI_FAIL(ctx, ATVI_EMODEL, "only %td of %d draws can be evaluated", good, BATCH);
  report(p, &b);
  drop(&b);
  atvi_pool_free(pool);
  atvi_model_evaluator_free(b.ev);
  atvi_model_free(m);
  return ATVI_OK;
}

int main(void) {
  static const problem problems[] = {
      {"cold", "examples/cold/cold.atvi", NULL, {0.8871, 0.2902, 39.775}, {0.0348, 0.0255, 2.01}},
      {"truncated",
       NULL,
       TRUNCATED,
       {-.5, -.24, .66, .57, .4, -.1, .76, -.06, -.72, -.71},
       {.25, .3, .22, .25, .28, .3, .18, .3, .2, .2}},
      {"rotavirus",
       "examples/rotavirus/rotavirus.atvi",
       NULL,
       {.4213, 7.474, .02861, .9127, 1.416, 3.444, .0408, 3.196, .352, .0848},
       {.0402, .0682, .00245, .0533, .282, .393, .0135, .557, .149, .0354}},
  };
  atvi_ctx *ctx;
  int failed = 0;
  if (atvi_ctx_new(NULL, &ctx) != ATVI_OK) return 1;
  atvi_ctx_set_threads(ctx, 1);
  for (size_t i = 0; i < sizeof problems / sizeof *problems; i++) {
    const problem *p = &problems[i];
    char path[] = "/tmp/bench-vi-XXXXXX";
    if (p->text) {
      int fd = mkstemp(path);
      FILE *f = fd >= 0 ? fdopen(fd, "w") : NULL;
      if (!f || fputs(p->text, f) < 0 || fclose(f) != 0) return 1;
    }
    atvi_status status = measure(ctx, p, p->text ? path : p->path);
    if (p->text) unlink(path);
    if (status != ATVI_OK) fprintf(stderr, "%s: %s\n", p->name, atvi_errmsg(ctx));
    failed |= status != ATVI_OK;
  }
  atvi_ctx_free(ctx);
  return failed;
}
