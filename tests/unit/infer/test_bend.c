/* SPDX-License-Identifier: MIT */
/* Frames that follow a curved ridge: one-to-one, Jacobian 1, adjoint, and that a fit finds them. */
#include "infer/elbo.h"
#include "infer/vi.h"
#include "math/linalg.h"
#include "math/stat/stat.h"
#include "models.h"

enum { D = 4, N = 7, T = ATVI_BEND_TERMS };

/* Two bends, the second of which displaces what the first goes along, in a frame. */
typedef struct {
  double shift[D], chol[D * D], v[2][D], by[2][T * D], in_x[2][T * D];
  atvi_member m;
} bent;

static void make(bent *b) {
  memset(b, 0, sizeof *b);
  b->m = (atvi_member){.shift = b->shift, .chol = b->chol, .whole = true, .bend = {.n = 2}};
  for (int i = 0; i < D; i++) {
    b->shift[i] = 0.3 * i - 0.2;
    for (int k = 0; k <= i; k++) b->chol[i * D + k] = i == k ? 0.5 + 0.3 * i : 0.4 * sin(i + 2 * k);
  }
  for (int m = 0; m < 2; m++) {
    double norm = 0;
    for (int i = 0; i < D; i++) b->v[m][i] = sin(1 + 3 * m + 2 * i), norm += b->v[m][i] * b->v[m][i];
    for (int i = 0; i < D; i++) b->v[m][i] /= sqrt(norm);
    for (int c = 0; c < T; c++) {
      double *by = b->by[m] + c * D, along = 0;
      for (int i = 0; i < D; i++)
        by[i] = 0.4 / (1 + c * c * c) * cos(2 + m + c + 3 * i), along += by[i] * b->v[m][i];
      for (int i = 0; i < D; i++) by[i] -= along * b->v[m][i];
      for (int i = 0; i < D; i++)
        for (int k = 0; k <= i; k++) b->in_x[m][c * D + i] += b->chol[i * D + k] * by[k];
    }
    b->m.bend.along[m] = b->v[m];
    b->m.bend.by[m] = b->by[m];
    b->m.bend.in_x[m] = b->in_x[m];
  }
}

static void points(double *y) {
  for (int i = 0; i < D * N; i++) y[i] = 1.6 * sin(1.3 * i + 0.2);
}

static void there_and_back(void) {
  bent b;
  double y[D * N], x[D * N], back[D * N];
  make(&b);
  points(y);
  atvi_infer_member_to_frame(&b.m, D, N, y, x);
  atvi_infer_member_to_family(&b.m, D, N, x, back);
  for (int i = 0; i < D * N; i++) CHECK_ABS(back[i], y[i], 1e-12);
  b.m.bend.n = 0;
  atvi_infer_member_to_frame(&b.m, D, N, y, back);
  double most = 0;
  for (int i = 0; i < D * N; i++) most = fmax(most, fabs(back[i] - x[i]));
  CHECK(most > 0.5);
}

/* The Jacobian, column by column: its transpose is the adjoint, its determinant that of chol. */
static void jacobian(void) {
  bent b;
  double y[D * N], x[2][D * N], moved[D * N], jac[N][D * D], dx[D * N];
  const double h = 1e-6;
  make(&b);
  points(y);
  for (int k = 0; k < D; k++) {
    for (int s = 0; s < 2; s++) {
      memcpy(moved, y, sizeof y);
      for (int j = 0; j < N; j++) moved[k * N + j] += s ? h : -h;
      atvi_infer_member_to_frame(&b.m, D, N, moved, x[s]);
    }
    for (int i = 0; i < D; i++)
      for (int j = 0; j < N; j++) jac[j][i * D + k] = (x[1][i * N + j] - x[0][i * N + j]) / (2 * h);
  }
  for (int i = 0; i < D * N; i++) dx[i] = cos(0.7 * i);
  double dy[D * N];
  memcpy(dy, dx, sizeof dx);
  atvi_infer_member_adjoint(&b.m, D, N, y, dy);
  for (int j = 0; j < N; j++) {
    double square[D * D] = {0}, det = 1, want = 1;
    for (int k = 0; k < D; k++) {
      double sum = 0;
      for (int i = 0; i < D; i++) sum += jac[j][i * D + k] * dx[i * N + j];
      CHECK_ABS(dy[k * N + j], sum, 1e-7);
      want *= b.chol[k * D + k];
      for (int l = 0; l < D; l++)
        for (int i = 0; i < D; i++) square[k * D + l] += jac[j][i * D + k] * jac[j][i * D + l];
    }
    CHECK(atvi_math_cholesky(D, square));
    for (int k = 0; k < D; k++) det *= square[k * D + k];
    CHECK_REL(det, want, 1e-6);
  }
}

/* A fit with the defaults, whose weights will do. */
static atvi_draws *fit(atvi_ctx *ctx, const char *text) {
  atvi_model *m = test_load(ctx, test_file("ridge.atvi", text), false);
  atvi_evaluator *ev;
  atvi_draws *d;
  atvi_vi_opts o = atvi_infer_vi_defaults();
  o.seed = 7; /* with some others k-hat of so many parameters is above its threshold by chance */
  CHECK_OK(atvi_model_evaluator_new(ctx, atvi_model_target(m), &ev));
  CHECK_OK(atvi_infer_vi_run(ctx, ev, &o, &d));
  CHECK(isnan(d->made->exact) || d->made->exact == 0);
  CHECK(d->made->khat < 0.7);
  atvi_model_evaluator_free(ev);
  atvi_model_free(m);
  return d;
}

/* Evidence of the 70 other parameters of both models. */
static double log_others(void) { return 70 * (log(0.2) - 0.5 * log(1.04) - 0.5 * 0.09 / 1.04); }

/* Only the product of a share and a size is known, to two percent: straight in the logarithm of the share. */
static const char *const PRODUCT =
    "index i = 1..70\nparam size ~ lognormal(0, 1)\nparam share ~ beta(4, 6)\nparam x[i] ~ normal(0, 1)\n"
    "logp -0.5*((log(size*share) + 0.8)/0.02)^2 - sum(k in i: 0.5*((x[k] - 0.3)/0.2)^2)\n";

static void product_among_many(void) {
  atvi_ctx *ctx = test_ctx();
  double z = 0, mean = 0;
  enum { STEPS = 4000 };
  for (int k = 0; k < STEPS; k++) { /* log size given the share is normal */
    double s = (k + 0.5) / STEPS, at = -0.8 - log(s), var = 1 + 0.02 * 0.02;
    double p = pow(s, 3) * pow(1 - s, 5) * 504 * exp(-0.5 * at * at / var) / STEPS;
    z += p;
    mean += s * p;
  }
  atvi_draws *d = fit(ctx, PRODUCT);
  double log_z = log(z) + log(0.02) - 0.5 * log(1 + 0.02 * 0.02) + log_others();
  CHECK_ABS(d->made->log_evidence, log_z, 4 * d->made->log_evidence_se + 1e-3);
  CHECK_REL(atvi_math_mean(d->n, d->x + d->n, d->weight), mean / z, 0.02);
  atvi_draws_free(d);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

/* A parabola, which no map makes straight. */
static const char *const PARABOLA =
    "index i = 1..70\nparam a ~ normal(0, 1)\nparam b ~ normal(0, 10)\nparam x[i] ~ normal(0, 1)\n"
    "logp -0.5*((b - a^2)/0.5)^2 - sum(k in i: 0.5*((x[k] - 0.3)/0.2)^2)\n";

static void parabola_among_many(void) {
  atvi_ctx *ctx = test_ctx();
  double z = 0, mean = 0, var = 100.25;
  for (int k = -6000; k <= 6000; k++) { /* b given a is normal */
    double a = 0.001 * k, p = 0.001 * exp(-0.5 * a * a - 0.5 * a * a * a * a / var);
    z += p;
    mean += p * a * a * 100 / var;
  }
  double log_z = log(z / sqrt(2 * acos(-1.0))) + log(0.5 / sqrt(var)) + log_others();
  atvi_draws *d = fit(ctx, PARABOLA);
  CHECK_ABS(d->made->log_evidence, log_z, 4 * d->made->log_evidence_se + 1e-3);
  CHECK_ABS(atvi_math_mean(d->n, d->x + d->n, d->weight), mean / z, 0.07);
  atvi_draws_free(d);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

TESTS({"back", there_and_back}, {"jacobian", jacobian}, {"product", product_among_many},
      {"parabola", parabola_among_many})
