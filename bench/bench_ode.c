/* SPDX-License-Identifier: MIT */
/* The adaptive solver on an epidemic of 20 days with daily outputs: one thread, compiled right-hand sides,
 * against a plain scalar loop of the same method and step control. Checks that both agree, then times. */
#include "core/core.h"
#include "ode/work.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { L = ATVI_LANES, N = 3, DAYS = 21, GROUPS = 64 };
enum { TIME, STATE, PAR, TAB, LAM }; /* kinds of inputs */

typedef struct {
  double y[N], k[7][N], scale[N];
} lane_state;

static void sir(const double *p, const double *restrict y, double *restrict f) {
  double inf = p[0] * y[0] * y[1] / (y[0] + y[1] + y[2]), rec = p[1] * y[1];
  f[0] = -inf;
  f[1] = inf - rec;
  f[2] = rec;
}

/* One trial step; returns the squared error. */
static double scalar_try(const double *p, double tol, double h, lane_state *s, double *ynew) {
  const atvi_ode_tableau *tb = &atvi_ode_tsit5;
  double smax = 0, sum = 0;
  for (int i = 1; i < 7; i++) {
    for (int c = 0; c < N; c++) {
      double v = 0;
      for (int j = 0; j < i; j++) v += tb->a[i][j] * s->k[j][c];
      ynew[c] = s->y[c] + h * v;
    }
    sir(p, ynew, s->k[i]);
  }
  for (int c = 0; c < N; c++) smax = fmax(smax, s->scale[c]);
  for (int c = 0; c < N; c++) {
    double e = 0, a = fmax(fabs(s->y[c]), fabs(ynew[c]));
    for (int j = 0; j < 7; j++) e += tb->e[j] * s->k[j][c];
    e *= h / (tol * (fmax(fmax(s->scale[c], 1e-6 * smax), a) + a));
    sum += e * e;
  }
  return sum / N;
}

/* The whole solution; returns the number of steps tried. */
static int scalar_solve(const double *p, const double *y0, double tol, double *out) {
  lane_state s;
  double t = 0, h = 0.2, ynew[N];
  int tries = 0;
  memcpy(s.y, y0, sizeof s.y);
  memcpy(out, y0, sizeof s.y);
  for (int c = 0; c < N; c++) s.scale[c] = fabs(y0[c]);
  sir(p, s.y, s.k[0]);
  for (int day = 1; day < DAYS;) {
    double left = day - t, hs = left <= 1.15 * h ? left : left < 2 * h ? left / 2 : h;
    double e = scalar_try(p, tol, hs, &s, ynew), f = 0.85 * pow(e, -0.1);
    tries++;
    f = f < 0.2 ? 0.2 : f > 5 ? 5 : f;
    if (!(e <= 1)) {
      h = fmin(f, 0.8) * hs;
      continue;
    }
    h = hs < h && f == 5 ? fmax(h, f * hs) : f * hs;
    memcpy(s.y, ynew, sizeof s.y);
    memcpy(s.k[0], s.k[6], sizeof s.y);
    for (int c = 0; c < N; c++) s.scale[c] = fmax(s.scale[c], fabs(ynew[c]));
    t = hs == left ? day : t + hs;
    if (t == day) memcpy(out + N * day++, ynew, sizeof s.y);
  }
  return tries;
}

static atvi_status programs(atvi_ctx *ctx, atvi_graph *g, atvi_module **module, atvi_module_info *info) {
  atvi_node y[N], lam[N], f[N], wrt[N + 2], grad[N + 2];
  for (int i = 0; i < N; i++) {
    wrt[i] = y[i] = atvi_graph_input(g, STATE, i);
    lam[i] = atvi_graph_input(g, LAM, i);
  }
  atvi_node beta = wrt[N] = atvi_graph_input(g, PAR, 0), gamma = wrt[N + 1] = atvi_graph_input(g, PAR, 1);
  atvi_node rec = atvi_graph_op2(g, ATVI_OP_MUL, gamma, y[1]);
  atvi_node inf = atvi_graph_op2(g, ATVI_OP_MUL, atvi_graph_op2(g, ATVI_OP_MUL, beta, y[0]), y[1]);
  inf = atvi_graph_op2(g, ATVI_OP_DIV, inf, atvi_graph_sum(g, N, y));
  f[0] = atvi_graph_op1(g, ATVI_OP_NEG, inf);
  f[1] = atvi_graph_op2(g, ATVI_OP_SUB, inf, rec);
  f[2] = rec;
  atvi_graph_vjp(g, N, f, lam, N + 2, wrt, grad);
  const atvi_prog_spec spec[2] = {{.name = "rhs",
                                   .n_in = 4,
                                   .in = {{TIME, 1, 0}, {STATE, N, 0}, {PAR, 2, 0}, {TAB, 0, 0}},
                                   .n_out = 1,
                                   .out = {{N, f, 0}}},
                                  {.name = "vjp",
                                   .n_in = 5,
                                   .in = {{TIME, 1, 0}, {STATE, N, 0}, {PAR, 2, 0}, {TAB, 0, 0}, {LAM, N, 0}},
                                   .n_out = 2,
                                   .out = {{N, grad, 0}, {2, grad + N, 1}}}};
  return atvi_graph_module_new(ctx, g, 2, spec, &(atvi_module_opts){.compile = true}, module, info);
}

typedef struct {
  _Alignas(ATVI_ALIGN) double y0[GROUPS][N][L], par[GROUPS][2][L], yout[DAYS][N][L], ybar[DAYS][N][L];
  double y0bar[N][L], parbar[2][L];
} data;

static data d;

/* Points like those a posterior has: beta, gamma and S0 within a third of each other. */
static void fill_data(void) {
  for (int g = 0; g < GROUPS; g++)
    for (int l = 0; l < L; l++) {
      double u = fmod(0.618033988749895 * (g * L + l), 1), v = fmod(0.754877666246693 * (g * L + l), 1);
      d.y0[g][0][l] = 37 + 20 * v;
      d.y0[g][1][l] = 1;
      d.y0[g][2][l] = 0;
      d.par[g][0][l] = 0.8 + 0.5 * u;
      d.par[g][1][l] = 0.35 + 0.1 * v;
    }
  for (int i = 0; i < DAYS * N * L; i++) (&d.ybar[0][0][0])[i] = sin(i);
}

/* Largest difference to the scalar loop, in units of the largest state. */
static double compare(const atvi_ode *ode, atvi_ode_work *w) {
  double worst = 0, out[DAYS * N];
  atvi_outcome outcome[L];
  for (int g = 0; g < GROUPS; g += 9) {
    atvi_ode_solve(ode, w, &d.y0[g][0][0], &d.par[g][0][0], &d.yout[0][0][0], false, outcome);
    for (int l = 0; l < L; l++) {
      const double p[2] = {d.par[g][0][l], d.par[g][1][l]},
                   y0[N] = {d.y0[g][0][l], d.y0[g][1][l], d.y0[g][2][l]};
      scalar_solve(p, y0, ode->control.tol_rel, out);
      for (int i = 0; i < DAYS * N; i++)
        worst = fmax(worst, fabs(out[i] - d.yout[i / N][i % N][l]) / y0[0] + (outcome[l] != ATVI_RUN_OK));
    }
  }
  return worst;
}

/* Rates are those of the best of many short trials: other programs on the machine only ever slow a trial
 * down. */
enum { TRIALS = 200 };

static double time_solves(const atvi_ode *ode, atvi_ode_work *w, bool gradient, double *per_run) {
  atvi_outcome outcome[L];
  atvi_idx steps = 0;
  double best = HUGE_VAL;
  for (int trial = 0; trial < TRIALS; trial++) {
    double start = atvi_clock_s();
    for (int g = 0; g < GROUPS; g++) {
      atvi_ode_solve(ode, w, &d.y0[g][0][0], &d.par[g][0][0], &d.yout[0][0][0], gradient, outcome);
      if (gradient)
        atvi_ode_adjoint(ode, w, &d.par[g][0][0], &d.ybar[0][0][0], &d.y0bar[0][0], &d.parbar[0][0]);
      atvi_ode_count count[L];
      atvi_ode_counts(w, count);
      steps += count[0].accepted + count[0].rejected;
    }
    best = fmin(best, atvi_clock_s() - start);
  }
  *per_run = (double)steps / (TRIALS * GROUPS);
  return GROUPS * L / best;
}

static double time_scalar(double tol, double *per_run) {
  double out[DAYS * N], best = HUGE_VAL;
  atvi_idx steps = 0;
  for (int trial = 0; trial < TRIALS; trial++) {
    double start = atvi_clock_s();
    for (int g = 0; g < GROUPS; g++)
      for (int l = 0; l < L; l++) {
        const double p[2] = {d.par[g][0][l], d.par[g][1][l]},
                     y0[N] = {d.y0[g][0][l], d.y0[g][1][l], d.y0[g][2][l]};
        steps += scalar_solve(p, y0, tol, out);
      }
    best = fmin(best, atvi_clock_s() - start);
  }
  *per_run = (double)steps / (TRIALS * GROUPS * L);
  return GROUPS * L / best;
}

int main(void) {
  atvi_ctx *ctx;
  atvi_graph *g;
  atvi_module *module;
  atvi_module_info info;
  atvi_ode_work *w;
  atvi_ode_stop stop[DAYS];
  if (atvi_ctx_new(NULL, &ctx) || atvi_graph_new(ctx, &g)) return 1;
  if (programs(ctx, g, &module, &info)) return fprintf(stderr, "%s\n", atvi_errmsg(ctx)), 1;
  for (int s = 0; s < DAYS; s++) stop[s] = (atvi_ode_stop){s, s, -1, NULL};
  fill_data();
  int failed = 0;
  printf("bench_ode: 3 states, 20 days, daily outputs, one thread, %s\n",
         info.compiled ? "compiled" : info.reason);
  for (int k = 4; k <= 8; k += 2) {
    atvi_ode ode = {.n = N,
                    .n_par = 2,
                    .rhs = atvi_graph_module_get(module, 0),
                    .vjp = atvi_graph_module_get(module, 1),
                    .n_stop = DAYS,
                    .stop = stop,
                    .n_output = DAYS,
                    .control.tol_rel = pow(10, -k),
                    .control.tol_abs = pow(10, -k),
                    .control.max_steps = 10000};
    if (atvi_ode_work_new(ctx, &ode, &w)) return fprintf(stderr, "%s\n", atvi_errmsg(ctx)), 1;
    double steps, scalar_steps, difference = compare(&ode, w),
                                scalar = time_scalar(ode.control.tol_rel, &scalar_steps);
    double eval = time_solves(&ode, w, false, &steps), grad = time_solves(&ode, w, true, &steps);
    bool ok = difference < 30 * ode.control.tol_rel;
    failed += !ok;
    printf("tolerance 1e-%d: %s, %.0f evaluations/s (%.1f steps), %.0f gradients/s; scalar loop %.0f "
           "evaluations/s "
           "(%.1f steps), ratio %.1f; difference %.1e\n",
           k, ok ? "agree" : "DISAGREE", eval, steps, grad, scalar, scalar_steps, eval / scalar, difference);
    atvi_ode_work_free(w);
  }
  atvi_graph_module_free(module);
  atvi_graph_free(g);
  atvi_ctx_free(ctx);
  return failed != 0;
}
