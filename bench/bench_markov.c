/* SPDX-License-Identifier: MIT */
/* Cost of the log density of a residual and of its gradient, per point, one core, lanes full.
 *
 * Shapes: 480 hourly values as an emulator's error, a discrepancy and white noise; the same with a Matern
 * discrepancy; the same at irregular times. Checked first against the dense reference. Times are minima of
 * several trials. Lines that begin with "figure" are for machines:
 *
 *   figure markov <shape> density|gradient|smooth|draw <microseconds per point> */
#include "unit/gp/markov_ref.h"
#include "gp/markov_detail.h"
#include "math/rng.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { N = 480, L = ATVI_LANES, TRIALS = 30, EACH = 20 };

typedef struct {
  const char *name;
  bool regular;
  atvi_gp_kind term[3];
} shape;
static const shape SHAPES[] = {
    {"exponential", true, {ATVI_GP_EXPONENTIAL, ATVI_GP_EXPONENTIAL, ATVI_GP_WHITE}},
    {"matern32", true, {ATVI_GP_EXPONENTIAL, ATVI_GP_MATERN32, ATVI_GP_WHITE}},
    {"matern52", true, {ATVI_GP_EXPONENTIAL, ATVI_GP_MATERN52, ATVI_GP_WHITE}},
    {"irregular", false, {ATVI_GP_EXPONENTIAL, ATVI_GP_EXPONENTIAL, ATVI_GP_WHITE}},
};

static double time_of[N], par[6 * L], resid[N * L], log_density[L], par_bar[6 * L], resid_bar[N * L];
static double mean[3 * N * L], var[N * L], out[N * L];
static const atvi_markov *m;
static atvi_markov_work *w;

static void density(void) { atvi_gp_markov_eval(m, w, par, resid, log_density, NULL, NULL); }
static void gradient(void) { atvi_gp_markov_eval(m, w, par, resid, log_density, par_bar, resid_bar); }
static void smooth(void) { atvi_gp_markov_smooth(m, w, par, resid, mean, var, NULL, NULL, NULL); }
static void draw(void) { atvi_gp_markov_draw(m, w, par, resid, 1, 0, out); }

static double cost_us(void (*fn)(void)) {
  double best = HUGE_VAL;
  for (int t = 0; t < TRIALS; t++) {
    double from = atvi_clock_s();
    for (int i = 0; i < EACH; i++) fn();
    best = fmin(best, atvi_clock_s() - from);
  }
  return 1e6 * best / (EACH * L);
}

static void set_up(const shape *s) {
  const double centre[6] = {1.06e8 * 0.3, 149, 1e4, 150, 16, 0};
  atvi_rng r = atvi_math_rng_at(1, ATVI_STREAM_TEST, 0, 0);
  for (int i = 0; i < N; i++) time_of[i] = s->regular ? i : i + 0.9 * atvi_math_rng_uniform(&r);
  for (int k = 0; k < 6 * L; k++) par[k] = centre[k / L] * exp(0.3 * atvi_math_rng_normal(&r));
  for (int i = 0; i < N * L; i++) resid[i] = 1000 * atvi_math_rng_normal(&r);
}

static bool agrees(atvi_ctx *ctx, const shape *s) {
  double p0[6], r0[N];
  markov_dense d = {0};
  for (int k = 0; k < 6; k++) p0[k] = par[k * L + 3];
  for (int i = 0; i < N; i++) r0[i] = resid[i * L + 3];
  if (markov_ref(ctx, N, time_of, NULL, 3, s->term, p0, r0, &d)) return false;
  density();
  double error = fabs(log_density[3] / d.log_density - 1);
  printf("%-12s relative difference from dense %.1e\n", s->name, error);
  return error < 1e-8;
}

int main(void) {
  atvi_ctx *ctx;
  if (atvi_ctx_new(NULL, &ctx)) return 1;
  for (size_t k = 0; k < sizeof SHAPES / sizeof SHAPES[0]; k++) {
    const shape *s = SHAPES + k;
    atvi_markov *made;
    set_up(s);
    if (atvi_gp_markov_new(ctx, N, time_of, NULL, 3, s->term, &made) ||
        atvi_gp_markov_work_new(made, ctx, &w))
      return 1;
    m = made;
    if (!agrees(ctx, s)) return 1;
    printf("figure markov %s density %.2f\n", s->name, cost_us(density));
    printf("figure markov %s gradient %.2f\n", s->name, cost_us(gradient));
    printf("figure markov %s smooth %.2f\n", s->name, cost_us(smooth));
    printf("figure markov %s draw %.2f\n", s->name, cost_us(draw));
    atvi_gp_markov_work_free(w);
    atvi_gp_markov_free(made);
  }
  atvi_ctx_free(ctx);
  return 0;
}
