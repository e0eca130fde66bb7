/* SPDX-License-Identifier: MIT */
/* Cost of an evaluation and of a gradient, for the examples, at points of their posterior.
 *
 * Peer: the same model, pair of formulas, tolerances and stops in a plain scalar C loop, one point after the
 * other, on as many cores (each core's share timed on one, times the number of threads). It is checked first
 * that both agree. Times are minima of several trials. Lines that begin with "figure" are read by
 * tools/acceptance.py:
 *
 *   figure <model> evaluations|gradients <per second on all threads> <ratio to the scalar loop's evaluations> */
#include "core/core.h"
#include "math/rng.h"
#include "model/evaluator.h"
#include "model/model.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { POINTS = 2048, MOST_STATES = 32, MOST_OUT = 160, TRIALS = 15 };

typedef struct {
  const char *name, *path;
  atvi_idx d, n;                                 /* parameters, states */
  const double *mean, *sd;                       /* posterior, for points */
  void (*start)(const double *theta, double *y); /* initial state */
  void (*rhs)(double t, const double *y, const double *theta, const double *tab, double *dy);
  double (*log_lik)(const atvi_model *m, const double *theta, const double *yout); /* yout[n_output][n] */
} problem;

/* ---- the plain scalar solver: Tsitouras 5(4) with the controller of src/ode/control_isa.c ---- */
static const double A[7][6] = {
    {0},
    {0.161},
    {-0.008480655492356989, 0.335480655492357},
    {2.8971530571054935, -6.359448489975075, 4.3622954328695815},
    {5.325864828439257, -11.748883564062828, 7.4955393428898365, -0.09249506636175525},
    {5.86145544294642, -12.92096931784711, 8.159367898576159, -0.071584973281401, -0.028269050394068383},
    {0.09646076681806523, 0.01, 0.4798896504144996, 1.379008574103742, -3.290069515436081,
     2.324710524099774}};
static const double C[7] = {0, 0.161, 0.327, 0.9, 0.9800255409045097, 1, 1};
static const double E[7] = {-0.00178001105222577714,
                            -0.0008164344596567469,
                            0.007880878010261995,
                            -0.1447110071732629,
                            0.5823571654525552,
                            -0.45808210592918697,
                            1.0 / 66};

static double step(const problem *p, const atvi_ode *o, double t, double h, const double *theta,
                   const double *tab, const double *y, const double *scale, double k[7][MOST_STATES],
                   double *ynew) {
  atvi_idx n = p->n;
  double at[MOST_STATES], sum = 0;
  for (int s = 1; s < 7; s++) {
    for (atvi_idx i = 0; i < n; i++) {
      double a = 0;
      for (int j = 0; j < s; j++) a += A[s][j] * k[j][i];
      at[i] = y[i] + h * a;
    }
    p->rhs(t + C[s] * h, at, theta, tab, k[s]);
  }
  for (atvi_idx i = 0; i < n; i++) {
    double e = 0;
    for (int j = 0; j < 7; j++) e += E[j] * k[j][i];
    double a = fmax(fabs(y[i]), fabs(at[i])), s = fmax(scale[i], a);
    e *= h / fmax(o->control.tol_abs * s + o->control.tol_rel * a, 1e-200);
    sum += e * e;
    ynew[i] = at[i];
  }
  return sum / (double)n;
}

static double scalar(const problem *p, const atvi_model *m, const double *theta) {
  const atvi_ode *o = &m->odes.fit;
  atvi_idx n = p->n;
  double y[MOST_STATES], scale[MOST_STATES], ynew[MOST_STATES], k[7][MOST_STATES],
      yout[MOST_OUT * MOST_STATES];
  double t = o->stop[0].t, h = 0;
  p->start(theta, y);
  for (atvi_idx s = 0; s < o->n_stop; s++) {
    if (o->stop[s].output >= 0) memcpy(yout + o->stop[s].output * n, y, (size_t)n * sizeof *y);
    if (s + 1 == o->n_stop) break;
    const double *tab = o->stop[s].tab;
    double end = o->stop[s + 1].t, most = 0;
    p->rhs(t, y, theta, tab, k[0]);
    if (s == 0) {
      double slope = 0;
      for (atvi_idx i = 0; i < n; i++)
        scale[i] = fabs(y[i]), most = fmax(most, scale[i]), slope = fmax(slope, fabs(k[0][i]));
      for (atvi_idx i = 0; i < n; i++) scale[i] = fmax(scale[i], 1e-6 * most);
      h = fmin(end - t, 0.05 * most / fmax(slope, 1e-200));
    }
    while (t < end) {
      double left = end - t, hs = left <= 1.1 * h ? left : left < 2 * h ? 0.5 * left : h;
      double e = step(p, o, t, hs, theta, tab, y, scale, k, ynew);
      double f = fmin(5, fmax(0.2, 0.9 * pow(fmax(e, 1e-8), -0.1)));
      if (e <= 1) {
        t = hs == left ? end : t + hs;
        for (atvi_idx i = 0; i < n; i++)
          y[i] = ynew[i], scale[i] = fmax(scale[i], fabs(y[i])), k[0][i] = k[6][i];
        h = hs < h ? fmax(h, f * hs) : f * hs;
      } else {
        h = f * hs;
      }
    }
  }
  return p->log_lik(m, theta, yout);
}

/* ---- the common cold ---- */
static void cold_start(const double *theta, double *y) { y[0] = theta[2], y[1] = 1, y[2] = 0; }

static void cold_rhs(double t, const double *y, const double *theta, const double *tab, double *dy) {
  (void)t, (void)tab;
  double infect = theta[0] * y[0] * y[1] / (y[0] + y[1] + y[2]), heal = theta[1] * y[1];
  dy[0] = -infect;
  dy[1] = infect - heal;
  dy[2] = heal;
}

static double poisson(double y, double mean) { return (y > 0 ? y * log(mean) : 0) - mean - lgamma(y + 1); }

static double cold_log_lik(const atvi_model *m, const double *theta, const double *yout) {
  const atvi_lang_data *d = &m->lang->data[0];
  double sum = 0;
  (void)theta;
  for (atvi_idx r = 0; r < d->n_row; r++) {
    const double *y = yout + 3 * m->times.row_out[0][r];
    sum += poisson(d->value[r * d->n_col + 1], y[1] + 0.001) + poisson(d->value[r * d->n_col + 2], y[2]);
  }
  return sum;
}

/* ---- rotavirus: states M1..M6, S1..S6, Is1..6, Im1..6, R1..R5; parameters w, phi, rho, nu, beta ---- */
static const double N = 324935, DELTA = 1.0 / 13, TAU = 1.0 / 52;
static const double SHARE[6] = {2.0 / 60, 2.0 / 60, 2.0 / 60, 6.0 / 60, 12.0 / 60, 36.0 / 60};
static const double LEAVE[6] = {1.0 / 8, 1.0 / 8, 1.0 / 8, 1.0 / 24, 1.0 / 48, 1.0 / 144};

static void rota_start(const double *theta, double *y) {
  (void)theta;
  y[0] = N * 13 / 260;
  for (int i = 1; i < 6; i++) y[i] = 0;
  for (int i = 6; i < 29; i++) y[i] = (N - y[0]) / 30;
}

static void rota_lambda(double t, const double *y, const double *theta, double lambda[6]) {
  const double *Is = y + 12, *Im = y + 18;
  double c = 1 + theta[0] * cos((2 * 3.14159265358979323846 * t - 52 * theta[1]) / 52);
  for (int i = 0; i < 6; i++) {
    double sum = 0;
    for (int j = 0; j < 6; j++)
      sum += (j < i ? SHARE[i] / SHARE[j] : 1) * (Is[j] + 0.5 * Im[j]) / (N * SHARE[j]);
    lambda[i] = theta[4 + i] * c * sum;
  }
}

static void rota_rhs(double t, const double *y, const double *theta, const double *tab, double *dy) {
  const double *M = y, *S = y + 6, *Is = y + 12, *Im = y + 18, *R = y + 24;
  double lambda[6], rest = N, amplitude = tab[0] + tab[1] * t;
  rota_lambda(t, y, theta, lambda);
  for (int i = 0; i < 29; i++) rest -= y[i];
  for (int i = 0; i < 6; i++) {
    dy[i] = -DELTA * M[i];
    double removed = i < 5 ? R[i] : rest;
    dy[6 + i] =
        DELTA * M[i] - lambda[i] * S[i] + TAU * removed - LEAVE[i] * S[i] + (i ? LEAVE[i - 1] * S[i - 1] : 0);
    dy[12 + i] = 0.24 * lambda[i] * S[i] - Is[i] - LEAVE[i] * Is[i] + (i ? LEAVE[i - 1] * Is[i - 1] : 0);
    dy[18 + i] = 0.76 * lambda[i] * S[i] - 2 * Im[i] - LEAVE[i] * Im[i] + (i ? LEAVE[i - 1] * Im[i - 1] : 0);
    if (i < 5)
      dy[24 + i] = Is[i] + 2 * Im[i] - TAU * R[i] - LEAVE[i] * R[i] + (i ? LEAVE[i - 1] * R[i - 1] : 0);
  }
  dy[0] += (1 + amplitude) / 260 * N - M[0] / 8;
  dy[1] += M[0] / 8 - M[1] / 8;
  dy[8] += M[1] / 8;
}

static double rota_log_lik(const atvi_model *m, const double *theta, const double *yout) {
  const atvi_lang_data *d = &m->lang->data[0];
  double sum = 0, lambda[6], nu = theta[3];
  for (atvi_idx r = 0; r < d->n_row; r++) {
    const double *y = yout + 29 * m->times.row_out[0][r];
    rota_lambda(d->time[r], y, theta, lambda);
    for (int i = 0; i < 6; i++) {
      double k = d->value[r * d->n_col + 1 + i], mean = 0.24 * theta[2] * lambda[i] * y[6 + i];
      sum += lgamma(k + nu) - lgamma(nu) - lgamma(k + 1) + nu * log(nu / (nu + mean)) +
             (k > 0 ? k * log(mean / (nu + mean)) : 0);
    }
  }
  return sum;
}

/* ---- measuring ---- */
static double best_of(void (*fn)(void *), void *arg) {
  double best = HUGE_VAL;
  for (int k = 0; k < TRIALS; k++) {
    double t0 = atvi_clock_s();
    fn(arg);
    best = fmin(best, atvi_clock_s() - t0);
  }
  return best;
}

typedef struct {
  atvi_evaluator *ev;
  atvi_batch batch;
} batched;

static void run_batch(void *arg) {
  batched *b = arg;
  atvi_model_evaluator_run(b->ev, &b->batch);
}

typedef struct {
  const problem *p;
  const atvi_model *m;
  const double *theta; /* [d][POINTS] */
  double *ll;
  int n;
} looped;

static void run_loop(void *arg) {
  looped *b = arg;
  for (int j = 0; j < b->n; j++) {
    double theta[16];
    for (atvi_idx i = 0; i < b->p->d; i++) theta[i] = b->theta[i * POINTS + j];
    b->ll[j] = scalar(b->p, b->m, theta);
  }
}

static int measure(atvi_ctx *ctx, const problem *p) {
  atvi_model *m;
  atvi_evaluator *ev;
  static double theta[16 * POINTS], lp[POINTS], ll[POINTS], gp[16 * POINTS], gl[16 * POINTS], plain[POINTS];
  static atvi_outcome outcome[POINTS];
  if (atvi_model_load(ctx, p->path, NULL, &m) != ATVI_OK ||
      atvi_model_evaluator_new(ctx, atvi_model_target(m), &ev) != ATVI_OK) {
    fprintf(stderr, "%s\n", atvi_errmsg(ctx));
    return 1;
  }
  const atvi_param *param = atvi_model_target(m)->param;
  for (int j = 0; j < POINTS; j++) {
    atvi_rng rng = atvi_math_rng_at(1, ATVI_STREAM_TEST, 0, (uint32_t)j);
    for (atvi_idx i = 0; i < p->d; i++) {
      double x;
      do x = p->mean[i] + p->sd[i] * atvi_math_rng_normal(&rng);
      while (x <= param[i].lower || x >= param[i].upper);
      theta[i * POINTS + j] = x;
    }
  }
  looped loop = {p, m, theta, plain, 64};
  batched eval = {ev, {.B = POINTS, .theta = theta, .log_prior = lp, .log_lik = ll, .outcome = outcome}},
          grad = eval;
  grad.batch.grad_prior = gp, grad.batch.grad_lik = gl;
  run_batch(&eval);
  run_loop(&loop);
  double worst = 0;
  for (int j = 0; j < loop.n; j++) worst = fmax(worst, fabs(plain[j] - ll[j]));
  if (!(worst < 0.02)) {
    fprintf(stderr, "%s: the scalar loop's log likelihood differs by %g\n", p->name, worst);
    return 1;
  }
  int threads = atvi_ctx_threads(ctx);
  double eval_s = best_of(run_batch, &eval) / POINTS, grad_s = best_of(run_batch, &grad) / POINTS;
  double loop_s = best_of(run_loop, &loop) / loop.n / threads;
  printf("%-10s %d threads: %.2f us per evaluation, %.2f us with gradient; scalar loop %.2f us (agree to "
         "%.1e)\n",
         p->name, threads, 1e6 * eval_s, 1e6 * grad_s, 1e6 * loop_s, worst);
  printf("figure %s evaluations %.0f %.2f\n", p->name, 1 / eval_s, loop_s / eval_s);
  printf("figure %s gradients %.0f %.2f\n", p->name, 1 / grad_s, loop_s / grad_s);
  atvi_model_evaluator_free(ev);
  atvi_model_free(m);
  return 0;
}

int main(void) {
  static const double cold_mean[] = {0.8871, 0.2902, 39.775}, cold_sd[] = {0.0348, 0.0255, 2.01};
  static const double rota_mean[] = {.4213, 7.474, .02861, .9127, 1.416, 3.444, .0408, 3.196, .352, .0848};
  static const double rota_sd[] = {.0402, .0682, .00245, .0533, .282, .393, .0135, .557, .149, .0354};
  const problem problems[] = {
      {"cold", "examples/cold/cold.atvi", 3, 3, cold_mean, cold_sd, cold_start, cold_rhs, cold_log_lik},
      {"rotavirus", "examples/rotavirus/rotavirus.atvi", 10, 29, rota_mean, rota_sd, rota_start, rota_rhs,
       rota_log_lik},
  };
  atvi_ctx *ctx;
  int failed = 0;
  if (atvi_ctx_new(NULL, &ctx) != ATVI_OK) return 1;
  atvi_ctx_set_threads(ctx, 2);
  for (int i = 0; i < 2; i++) failed |= measure(ctx, &problems[i]);
  atvi_ctx_free(ctx);
  return failed;
}
