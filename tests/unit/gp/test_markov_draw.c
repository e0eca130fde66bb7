/* SPDX-License-Identifier: MIT */
/* Draws: moments against the dense covariance, in standard errors. 6000 draws; with about 400 moments per
 * case a correct program exceeds 5 standard errors once in 4000 cases, and the seeds are fixed. */
#include "unit/gp/markov_ref.h"
#include "gp/markov_detail.h"
#include "math/rng.h"
#include "testing.h"

enum { L = ATVI_LANES, N = 12, DRAWS = 6000 };

static const double TIME[N] = {0.3, 0.8, 1.3, 1.3, 1.9, 2.4, 2.9, 5.1, 5.6, 6.1, 6.6, 9.9};
static const bool USED[N] = {true, false, true, true, false, true, true, false, true, true, false, false};

typedef struct {
  const char *name;
  int n_term;
  atvi_gp_kind term[4];
  double par[8];
} sum;
static const sum SUMS[] = {
    {"exponential + white", 2, {ATVI_GP_EXPONENTIAL, ATVI_GP_WHITE}, {2.385, 1.71, 0.31, 0}},
    {"exponential + matern32 + 2 white",
     4,
     {ATVI_GP_EXPONENTIAL, ATVI_GP_MATERN32, ATVI_GP_WHITE, ATVI_GP_WHITE},
     {0.73, 4.2, 1.9, 2.6, 0.07, 0, 0.02, 0}},
    {"white + matern52 + exponential of 0",
     3,
     {ATVI_GP_WHITE, ATVI_GP_MATERN52, ATVI_GP_EXPONENTIAL},
     {0.11, 0, 3.1, 2.2, 0, 1}},
};

static void spread(int n, const double *x, double *out) {
  for (int i = 0; i < n * L; i++) out[i] = x[i / L];
}

static double noise_of(const sum *s) {
  double v = 0;
  for (int k = 0; k < s->n_term; k++) v += s->term[k] == ATVI_GP_WHITE ? s->par[2 * k] : 0;
  return v;
}

static void right_moments(const sum *s, bool conditional) {
  static double x[DRAWS][N], out[N * L], one[4 * N], two[4 * N];
  double par[8 * L], given[N], given_l[N * L], mean[4 * N], var[N], cov[N * N], var_term[4 * N],
      want[N] = {0};
  const bool none[N] = {false};
  markov_dense d = {.mean = mean, .var = var, .cov = cov, .var_term = var_term};
  atvi_markov *m;
  atvi_markov_work *w;
  atvi_ctx *ctx = test_ctx();
  for (int i = 0; i < N; i++) given[i] = USED[i] ? 1.3 * sin(1.7 * i) : NAN;
  spread(2 * s->n_term, s->par, par);
  spread(N, given, given_l);
  CHECK_OK(atvi_gp_markov_new(ctx, N, TIME, USED, s->n_term, s->term, &m));
  CHECK_OK(atvi_gp_markov_work_new(m, ctx, &w));
  CHECK_OK(markov_ref(ctx, N, TIME, conditional ? USED : none, s->n_term, s->term, s->par, given, &d));
  for (int k = 0; k < DRAWS; k += L) {
    atvi_gp_markov_draw(m, w, par, conditional ? given_l : NULL, 11, k, out);
    for (int i = 0; i < N * L; i++) x[k + i % L][i / L] = out[i];
    const double *part = atvi_gp_markov_drawn(w);
    for (int i = 0; i < s->n_term * N * L; i++) {
      if (k == 0 && i % L == 0) one[i / L] = two[i / L] = 0;
      double e = part[i] - mean[i / L];
      one[i / L] += e / DRAWS, two[i / L] += e * e / DRAWS;
    }
  }
  for (int i = 0; i < s->n_term * N; i++) { /* of each term alone */
    CHECK_ABS(one[i], 0, 5 * sqrt(var_term[i] / DRAWS) + 1e-12);
    CHECK_ABS(two[i], var_term[i], 5 * var_term[i] * sqrt(2.0 / DRAWS) + 1e-12);
  }
  for (int i = 0; i < N; i++) {
    cov[i * N + i] += noise_of(s);
    for (int k = 0; k < s->n_term; k++) want[i] += mean[k * N + i];
  }
  for (int i = 0; i < N; i++) {
    double m1 = 0;
    for (int k = 0; k < DRAWS; k++) m1 += x[k][i] / DRAWS;
    CHECK_ABS(m1, want[i], 5 * sqrt(cov[i * N + i] / DRAWS));
    for (int j = 0; j <= i; j++) {
      double c = 0, vi = cov[i * N + i], vj = cov[j * N + j], cij = cov[i * N + j];
      for (int k = 0; k < DRAWS; k++) c += (x[k][i] - want[i]) * (x[k][j] - want[j]) / DRAWS;
      CHECK_MSG(fabs(c - cij) <= 5 * sqrt((vi * vj + cij * cij) / DRAWS),
                "%s: covariance %d %d is %g, want %g", s->name, i, j, c, cij);
    }
  }
  atvi_gp_markov_work_free(w);
  atvi_gp_markov_free(m);
  atvi_ctx_free(ctx);
}

static void unconditional_draws_have_the_moments(void) {
  for (int k = 0; k < 3; k++) right_moments(&SUMS[k], false);
}

static void conditional_draws_have_the_moments(void) {
  for (int k = 0; k < 3; k++) right_moments(&SUMS[k], true);
}

/* Draw number 13 is the same in lane 5 of a call from 8 and in lane 0 of a call from 13. */
static void a_draw_has_a_number(void) {
  const sum *s = &SUMS[1];
  double par[8 * L], given_l[N * L], a[N * L], b[N * L];
  atvi_markov *m;
  atvi_markov_work *w;
  atvi_ctx *ctx = test_ctx();
  spread(2 * s->n_term, s->par, par);
  for (int i = 0; i < N * L; i++) given_l[i] = 0.2 * (i / L);
  CHECK_OK(atvi_gp_markov_new(ctx, N, TIME, USED, s->n_term, s->term, &m));
  CHECK_OK(atvi_gp_markov_work_new(m, ctx, &w));
  for (int k = 0; k < 2; k++) {
    long before = test_allocs;
    atvi_gp_markov_draw(m, w, par, k ? given_l : NULL, 5, 8, a);
    atvi_gp_markov_draw(m, w, par, k ? given_l : NULL, 5, 13, b);
    CHECK(test_allocs == before);
    for (int i = 0; i < N; i++) CHECK(a[i * L + 5] == b[i * L] && a[i * L + 4] != b[i * L]);
  }
  atvi_gp_markov_work_free(w);
  atvi_gp_markov_free(m);
  atvi_ctx_free(ctx);
}

TESTS({"unconditional", unconditional_draws_have_the_moments},
      {"conditional", conditional_draws_have_the_moments}, {"number", a_draw_has_a_number})
