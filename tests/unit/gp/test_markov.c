/* SPDX-License-Identifier: MIT */
/* Against the dense reference. Tolerances: the two differ by rounding times the condition of the covariance,
 * below 1e6 in these problems, so 1e-10 is what a right formula reaches and no wrong one. */
#include "unit/gp/markov_ref.h"
#include "gp/markov_detail.h"
#include "math/rng.h"
#include "testing.h"

enum { L = ATVI_LANES, N = 40, TERMS = ATVI_MARKOV_TERMS };
static const atvi_gp_kind W = ATVI_GP_WHITE, E = ATVI_GP_EXPONENTIAL, M3 = ATVI_GP_MATERN32,
                          M5 = ATVI_GP_MATERN52;

typedef struct {
  const char *name;
  int n_term;
  atvi_gp_kind term[TERMS];
} sum;
static const sum SUMS[] = {
    {"white", 1, {ATVI_GP_WHITE}},
    {"exponential", 1, {ATVI_GP_EXPONENTIAL}},
    {"exponential + white", 2, {ATVI_GP_EXPONENTIAL, ATVI_GP_WHITE}},
    {"white + exponential + exponential", 3, {ATVI_GP_WHITE, ATVI_GP_EXPONENTIAL, ATVI_GP_EXPONENTIAL}},
    {"3 exponentials", 4, {ATVI_GP_EXPONENTIAL, ATVI_GP_EXPONENTIAL, ATVI_GP_WHITE, ATVI_GP_EXPONENTIAL}},
    {"matern32 + white", 2, {ATVI_GP_MATERN32, ATVI_GP_WHITE}},
    {"matern52 + white", 2, {ATVI_GP_MATERN52, ATVI_GP_WHITE}},
    {"exponential + matern32", 2, {ATVI_GP_EXPONENTIAL, ATVI_GP_MATERN32}},
    {"exponential + matern52 + white + white",
     4,
     {ATVI_GP_EXPONENTIAL, ATVI_GP_MATERN52, ATVI_GP_WHITE, ATVI_GP_WHITE}},
    {"5 exponentials",
     6,
     {ATVI_GP_EXPONENTIAL, ATVI_GP_EXPONENTIAL, ATVI_GP_EXPONENTIAL, ATVI_GP_EXPONENTIAL, ATVI_GP_EXPONENTIAL,
      ATVI_GP_WHITE}},
    {"matern32 + matern52 + matern52 + white",
     4,
     {ATVI_GP_MATERN32, ATVI_GP_MATERN52, ATVI_GP_MATERN52, ATVI_GP_WHITE}},
};
enum { N_SUM = sizeof SUMS / sizeof SUMS[0] };

/* A problem of N rows for 8 lanes. */
typedef struct {
  sum terms;
  double time[N];
  bool used[N];
  double par[2 * TERMS * L], resid[N * L];
} problem;

typedef enum { REGULAR, DECIMAL, IRREGULAR, REPEATED, GAPS, N_GRID } grid;

static bool has_white(const sum *s) {
  for (int k = 0; k < s->n_term; k++)
    if (s->term[k] == W) return true;
  return false;
}

static void make(problem *p, const sum *terms, grid g, uint64_t seed) {
  atvi_rng r = atvi_math_rng_at(seed, ATVI_STREAM_TEST, 0, 0);
  double t = g == DECIMAL ? 40000.1 : -3.27;
  p->terms = *terms;
  for (int i = 0; i < N; i++) {
    p->time[i] = t;
    p->used[i] = !(g == GAPS && (i % 7 == 2 || (i > 20 && i < 26) || i == 0));
    if (g == IRREGULAR)
      t += 3 * atvi_math_rng_uniform(&r) + 0.01;
    else if (g == REPEATED)
      t += i % 4 == 1 ? 0 : 0.731;
    else if (g == DECIMAL)
      t = 40000.1 + 0.1 * (i + 1);
    else
      t += 0.731;
  }
  for (int k = 0; k < terms->n_term; k++)
    for (int l = 0; l < L; l++) {
      p->par[2 * k * L + l] = (terms->term[k] == W ? 0.05 : 1) * exp(atvi_math_rng_normal(&r));
      p->par[(2 * k + 1) * L + l] = terms->term[k] == W ? NAN : 5 * exp(atvi_math_rng_normal(&r));
    }
  for (int i = 0; i < N * L; i++) p->resid[i] = p->used[i / L] ? 1.7 * atvi_math_rng_normal(&r) : NAN;
}

static void column(int n, const double *x, int lane, double *out) {
  for (int i = 0; i < n; i++) out[i] = x[i * L + lane];
}

static void begin(atvi_ctx *ctx, const problem *p, atvi_markov **m, atvi_markov_work **w) {
  CHECK_OK(atvi_gp_markov_new(ctx, N, p->time, p->used, p->terms.n_term, p->terms.term, m));
  CHECK_OK(atvi_gp_markov_work_new(*m, ctx, w));
}

static void end(atvi_ctx *ctx, atvi_markov *m, atvi_markov_work *w) {
  atvi_gp_markov_work_free(w);
  atvi_gp_markov_free(m);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

static void reference(atvi_ctx *ctx, const problem *p, int lane, markov_dense *d) {
  double par[2 * TERMS], resid[N];
  column(2 * p->terms.n_term, p->par, lane, par);
  column(N, p->resid, lane, resid);
  CHECK_OK(markov_ref(ctx, N, p->time, p->used, p->terms.n_term, p->terms.term, par, resid, d));
}

/* Times such as 40000.3 are rounded, by 4e-12 for steps of 0.1: the dense sum sees it, the grid that is found
 * to be regular does not. */
static double slack(grid g) { return g == DECIMAL ? 100 : 1; }

static void close_to(const char *what, const problem *p, grid g, double a, double b, double scale,
                     double tol) {
  CHECK_MSG(fabs(a - b) <= tol * scale * slack(g), "%s, grid %d, %s: %.17g, want %.17g", p->terms.name,
            (int)g, what, a, b);
}

static double largest(int n, const double *x) {
  double most = 0;
  for (int i = 0; i < n; i++) most = fmax(most, fabs(x[i]));
  return most;
}

static void same_density(const sum *s, grid g) {
  problem p;
  atvi_markov *m;
  atvi_markov_work *w;
  double ld[L], alone[L], par_bar[2 * TERMS * L], resid_bar[N * L];
  if (g == REPEATED && !has_white(s)) return; /* singular */
  make(&p, s, g, 71 + g);
  atvi_ctx *ctx = test_ctx();
  begin(ctx, &p, &m, &w);
  long before = test_allocs;
  atvi_gp_markov_eval(m, w, p.par, p.resid, ld, par_bar, resid_bar);
  atvi_gp_markov_eval(m, w, p.par, p.resid, alone, NULL, NULL);
  CHECK(test_allocs == before);
  CHECK(memcmp(ld, alone, sizeof ld) == 0);
  if (g == REGULAR || g == DECIMAL) CHECK_INT(m->n_dt, 1);
  for (int l = 0; l < L; l++) {
    double pb[2 * TERMS], rb[N];
    markov_dense d = {.par_bar = pb, .resid_bar = rb};
    reference(ctx, &p, l, &d);
    close_to("log density", &p, g, ld[l], d.log_density, 1 + fabs(d.log_density), 1e-11);
    for (int k = 0; k < s->n_term; k++) {
      close_to("variance", &p, g, par_bar[2 * k * L + l], pb[2 * k], 1 + fabs(pb[2 * k]), 1e-9);
      close_to("range", &p, g, par_bar[(2 * k + 1) * L + l], pb[2 * k + 1], 1 + fabs(pb[2 * k + 1]), 1e-9);
    }
    for (int i = 0; i < N; i++)
      close_to("residual", &p, g, resid_bar[i * L + l], rb[i], largest(N, rb), 1e-10);
  }
  end(ctx, m, w);
}

static void density_and_gradient_equal_dense(void) {
  for (int s = 0; s < N_SUM; s++)
    for (int g = 0; g < N_GRID; g++) same_density(SUMS + s, (grid)g);
}

/* Central differences of the filter itself: error h^2 f''' ~ 1e-9, rounding 1e-15 |f| / h ~ 1e-8. */
static void gradient_equals_differences(void) {
  const double h = 1e-5;
  double ld[L], up[L], down[L], par_bar[2 * TERMS * L], resid_bar[N * L];
  problem p;
  atvi_markov *m;
  atvi_markov_work *w;
  atvi_ctx *ctx = test_ctx();
  make(&p, &SUMS[10], IRREGULAR, 5);
  begin(ctx, &p, &m, &w);
  atvi_gp_markov_eval(m, w, p.par, p.resid, ld, par_bar, resid_bar);
  for (int k = 0; k < 2 * p.terms.n_term; k++) {
    double *x = p.par + k * L;
    if (isnan(x[0])) continue;
    for (int l = 0; l < L; l++) x[l] *= 1 + h;
    atvi_gp_markov_eval(m, w, p.par, p.resid, up, NULL, NULL);
    for (int l = 0; l < L; l++) x[l] *= (1 - h) / (1 + h);
    atvi_gp_markov_eval(m, w, p.par, p.resid, down, NULL, NULL);
    for (int l = 0; l < L; l++) {
      x[l] /= 1 - h;
      CHECK_ABS((up[l] - down[l]) / (2 * h), par_bar[k * L + l] * x[l], 1e-6 * (1 + fabs(ld[l])));
    }
  }
  end(ctx, m, w);
}

static void same_conditionals(const sum *s, grid g) {
  static double mean[TERMS * N * L], var[N * L], var_term[TERMS * N * L], loo_mean[N * L], loo_var[N * L];
  static double dmean[TERMS * N], dvar[N], dvar_term[TERMS * N], dloo_mean[N], dloo_var[N];
  problem p;
  atvi_markov *m;
  atvi_markov_work *w;
  if (g == REPEATED && !has_white(s)) return;
  make(&p, s, g, 1071 + g);
  atvi_ctx *ctx = test_ctx();
  begin(ctx, &p, &m, &w);
  atvi_gp_markov_smooth(m, w, p.par, p.resid, mean, var, var_term, loo_mean, loo_var);
  for (int l = 0; l < L; l++) {
    markov_dense d = {
        .mean = dmean, .var = dvar, .var_term = dvar_term, .loo_mean = dloo_mean, .loo_var = dloo_var};
    double most = 1;
    for (int k = 0; k < s->n_term; k++) most = fmax(most, p.par[2 * k * L + l]);
    reference(ctx, &p, l, &d);
    for (int i = 0; i < s->n_term * N; i++) {
      close_to("mean", &p, g, mean[i * L + l], dmean[i], 1 + largest(s->n_term * N, dmean), 1e-10);
      close_to("variance of a term", &p, g, var_term[i * L + l], dvar_term[i], most, 1e-10);
    }
    for (int i = 0; i < N; i++) {
      close_to("variance", &p, g, var[i * L + l], dvar[i], most, 1e-10);
      close_to("left-out mean", &p, g, loo_mean[i * L + l], dloo_mean[i], 1 + largest(N, dloo_mean), 1e-10);
      close_to("left-out variance", &p, g, loo_var[i * L + l], dloo_var[i], dloo_var[i], 1e-9);
    }
  }
  atvi_gp_markov_smooth(m, w, p.par, p.resid, mean, NULL, NULL, NULL, NULL); /* outputs not wanted */
  end(ctx, m, w);
}

static void smoothing_and_leaving_out_equal_dense(void) {
  for (int s = 0; s < N_SUM; s++)
    for (int g = 0; g < N_GRID; g++) same_conditionals(SUMS + s, (grid)g);
}

/* The closed form of leaving out against leaving out. */
static void left_out_rows_are_predicted_without_themselves(void) {
  double loo_mean[N * L], loo_var[N * L], dvar[N], dmean[2 * N];
  problem p;
  atvi_markov *m;
  atvi_markov_work *w;
  atvi_ctx *ctx = test_ctx();
  make(&p, &SUMS[5], GAPS, 9);
  begin(ctx, &p, &m, &w);
  atvi_gp_markov_smooth(m, w, p.par, p.resid, NULL, NULL, NULL, loo_mean, loo_var);
  for (int i = 1; i < N; i += 6) {
    bool was = p.used[i];
    p.used[i] = false;
    for (int l = 0; l < L; l++) {
      markov_dense d = {.mean = dmean, .var = dvar};
      reference(ctx, &p, l, &d);
      CHECK_ABS(loo_mean[i * L + l], dmean[i], 1e-11);
      CHECK_REL(loo_var[i * L + l], dvar[i] + p.par[2 * L + l], 1e-10);
    }
    p.used[i] = was;
  }
  end(ctx, m, w);
}

/* A term of variance 0 is as good as absent, also in its gradient (which is that of dense). */
static void a_variance_may_be_0(void) {
  const sum both[2] = {{"three", 3, {E, M3, W}}, {"two", 2, {E, W}}};
  double ld[2][L], par_bar[6 * L], resid_bar[N * L], pb[6], rb[N];
  problem p, q;
  atvi_markov *m, *m2;
  atvi_markov_work *w, *w2;
  atvi_ctx *ctx = test_ctx();
  make(&p, &both[0], REGULAR, 31);
  q = p;
  q.terms = both[1];
  memcpy(q.par + 2 * L, p.par + 4 * L, 2 * L * sizeof *q.par);
  for (int l = 0; l < L; l++) p.par[2 * L + l] = 0;
  begin(ctx, &p, &m, &w);
  begin(ctx, &q, &m2, &w2);
  atvi_gp_markov_eval(m, w, p.par, p.resid, ld[0], par_bar, resid_bar);
  atvi_gp_markov_eval(m2, w2, q.par, q.resid, ld[1], NULL, NULL);
  for (int l = 0; l < L; l++) {
    markov_dense d = {.par_bar = pb, .resid_bar = rb};
    CHECK_REL(ld[0][l], ld[1][l], 1e-13);
    reference(ctx, &p, l, &d);
    for (int k = 0; k < 5; k++) CHECK_ABS(par_bar[k * L + l], pb[k], 1e-9 * (1 + fabs(pb[k])));
  }
  atvi_gp_markov_work_free(w2);
  atvi_gp_markov_free(m2);
  end(ctx, m, w);
}

static void bad_lanes_are_nan_and_touch_nobody(void) {
  double ld[2][L], pb[2][6 * L], rb[2][N * L], mean[2][3 * N * L], draw[2][N * L];
  problem p, q;
  atvi_markov *m;
  atvi_markov_work *w;
  atvi_ctx *ctx = test_ctx();
  make(&p, &SUMS[3], IRREGULAR, 17);
  q = p;
  q.par[0 * L + 0] = -1e-3; /* white */
  q.par[2 * L + 1] = NAN;   /* variance */
  q.par[3 * L + 2] = 0;     /* range */
  q.par[5 * L + 3] = -2;
  q.par[4 * L + 4] = INFINITY;
  q.resid[20 * L + 6] = INFINITY;
  q.resid[20 * L + 7] = NAN;
  begin(ctx, &p, &m, &w);
  for (int k = 0; k < 2; k++) {
    const problem *at = k ? &q : &p;
    atvi_gp_markov_eval(m, w, at->par, at->resid, ld[k], pb[k], rb[k]);
    atvi_gp_markov_smooth(m, w, at->par, at->resid, mean[k], NULL, NULL, NULL, NULL);
    atvi_gp_markov_draw(m, w, at->par, at->resid, 3, 0, draw[k]);
  }
  for (int l = 0; l < L; l++) {
    if (l == 5) {
      CHECK(ld[0][l] == ld[1][l]);
      for (int k = 0; k < 6; k++) CHECK(pb[0][k * L + l] == pb[1][k * L + l]);
      for (int i = 0; i < N; i++)
        CHECK(rb[0][i * L + l] == rb[1][i * L + l] && draw[0][i * L + l] == draw[1][i * L + l]);
      for (int i = 0; i < 3 * N; i++) CHECK(mean[0][i * L + l] == mean[1][i * L + l]);
    } else {
      CHECK(isnan(ld[1][l]) && isnan(pb[1][l]) && isnan(rb[1][l]) && isnan(mean[1][N * L + l]) &&
            isnan(draw[1][l]));
    }
  }
  end(ctx, m, w);
}

static void singular_covariances_are_nan(void) {
  double ld[L];
  problem p;
  atvi_markov *m;
  atvi_markov_work *w;
  atvi_ctx *ctx = test_ctx();
  make(&p, &SUMS[3], REPEATED, 17);
  for (int l = 0; l < L; l++)
    p.par[l] = l % 2 ? 0 : p.par[l]; /* no white noise, and two values at one time */
  begin(ctx, &p, &m, &w);
  atvi_gp_markov_eval(m, w, p.par, p.resid, ld, NULL, NULL);
  for (int l = 0; l < L; l += 2) CHECK(isfinite(ld[l]));
  make(&p, &SUMS[3], REGULAR, 17);
  for (int k = 0; k < 6; k += 2)
    for (int l = 0; l < L; l++) p.par[k * L + l] = 0;
  atvi_gp_markov_eval(m, w, p.par, p.resid, ld, NULL, NULL);
  for (int l = 0; l < L; l++) CHECK(isnan(ld[l]));
  end(ctx, m, w);
}

static void a_point_does_not_depend_on_its_lane(void) {
  static double mean[2][TERMS * N * L], loo[2][N * L];
  for (int s = 0; s < N_SUM; s++) {
    double ld[2][L], pb[2][2 * TERMS * L], rb[2][N * L];
    problem p, q;
    atvi_markov *m;
    atvi_markov_work *w;
    atvi_ctx *ctx = test_ctx();
    make(&p, &SUMS[s], GAPS, 23);
    q = p;
    for (int k = 0; k < 2 * p.terms.n_term; k++)
      for (int l = 0; l < L; l++) q.par[k * L + l] = p.par[k * L + (l + 3) % L];
    for (int i = 0; i < N; i++)
      for (int l = 0; l < L; l++) q.resid[i * L + l] = p.resid[i * L + (l + 3) % L];
    begin(ctx, &p, &m, &w);
    for (int k = 0; k < 2; k++) {
      const problem *at = k ? &q : &p;
      atvi_gp_markov_eval(m, w, at->par, at->resid, ld[k], pb[k], rb[k]);
      atvi_gp_markov_smooth(m, w, at->par, at->resid, mean[k], NULL, NULL, loo[k], NULL);
    }
    for (int l = 0; l < L; l++) {
      int from = (l + 3) % L;
      CHECK(ld[1][l] == ld[0][from]);
      for (int k = 0; k < 2 * p.terms.n_term; k++) CHECK(pb[1][k * L + l] == pb[0][k * L + from]);
      for (int i = 0; i < N; i++)
        CHECK(rb[1][i * L + l] == rb[0][i * L + from] && loo[1][i * L + l] == loo[0][i * L + from]);
      for (int i = 0; i < N * p.terms.n_term; i++) CHECK(mean[1][i * L + l] == mean[0][i * L + from]);
    }
    end(ctx, m, w);
  }
}

/* Ranges far shorter and far longer than the grid: white noise, and a constant. */
static void extreme_ranges_are_finite(void) {
  const double range[L] = {1e-300, 1e-12, 1e-3, 0.1, 1e3, 1e8, 1e14, 1e280};
  for (int kind = 1; kind <= 3; kind++) {
    const sum s = {"extreme", 2, {(atvi_gp_kind)kind, W}};
    double ld[L], pb[4 * L], rb[N * L], dpb[4], drb[N];
    problem p;
    atvi_markov *m;
    atvi_markov_work *w;
    atvi_ctx *ctx = test_ctx();
    make(&p, &s, IRREGULAR, 29);
    memcpy(p.par + L, range, sizeof range);
    begin(ctx, &p, &m, &w);
    atvi_gp_markov_eval(m, w, p.par, p.resid, ld, pb, rb);
    for (int l = 0; l < L; l++) {
      markov_dense d = {.par_bar = dpb, .resid_bar = drb};
      reference(ctx, &p, l, &d);
      CHECK_REL(ld[l], d.log_density, 1e-10);
      for (int k = 0; k < 3; k++)
        close_to("gradient", &p, REGULAR, pb[k * L + l], dpb[k], 1e-12 + fabs(dpb[k]), 1e-7);
    }
    end(ctx, m, w);
  }
}

static void no_values_at_all(void) {
  double ld[L], pb[4 * L], rb[N * L], var[N * L], mean[2 * N * L];
  problem p;
  atvi_markov *m;
  atvi_markov_work *w;
  atvi_ctx *ctx = test_ctx();
  make(&p, &SUMS[2], REGULAR, 1);
  memset(p.used, 0, sizeof p.used);
  begin(ctx, &p, &m, &w);
  atvi_gp_markov_eval(m, w, p.par, p.resid, ld, pb, rb);
  atvi_gp_markov_smooth(m, w, p.par, p.resid, mean, var, NULL, NULL, NULL);
  for (int l = 0; l < L; l++) {
    CHECK(ld[l] == 0 && pb[l] == 0 && pb[L + l] == 0 && pb[2 * L + l] == 0);
    for (int i = 0; i < N; i++) {
      CHECK(rb[i * L + l] == 0 && mean[i * L + l] == 0);
      CHECK_REL(var[i * L + l], p.par[l], 1e-13);
    }
  }
  end(ctx, m, w);
}

/* One row; and more rows than one product of mantissas takes (512). */
static void any_number_of_rows(void) {
  const atvi_gp_kind term[2] = {E, W};
  static double time[1100], resid[1100 * L], one[1100];
  double par[4 * L], ld[L];
  atvi_rng r = atvi_math_rng_at(3, ATVI_STREAM_TEST, 1, 0);
  for (int i = 0; i < 1100; i++) time[i] = 0.5 * i;
  for (int i = 0; i < 1100 * L; i++) resid[i] = 1e120 * atvi_math_rng_normal(&r);
  for (int l = 0; l < L; l++) par[l] = 1e240, par[L + l] = 2.3, par[2 * L + l] = 1e239, par[3 * L + l] = 0;
  atvi_ctx *ctx = test_ctx();
  for (int n = 1; n <= 1100; n += 1099) {
    atvi_markov *m;
    atvi_markov_work *w;
    const double p0[4] = {1e240, 2.3, 1e239, 0};
    markov_dense d = {0};
    CHECK_OK(atvi_gp_markov_new(ctx, n, time, NULL, 2, term, &m));
    CHECK_OK(atvi_gp_markov_work_new(m, ctx, &w));
    atvi_gp_markov_eval(m, w, par, resid, ld, NULL, NULL);
    column(n, resid, 4, one);
    CHECK_OK(markov_ref(ctx, n, time, NULL, 2, term, p0, one, &d));
    CHECK_REL(ld[4], d.log_density, 1e-12);
    atvi_gp_markov_work_free(w);
    atvi_gp_markov_free(m);
  }
  atvi_ctx_free(ctx);
}

static void wrong_calls_are_refused(void) {
  const double time[3] = {1, 2, 1.5}, nan[2] = {1, NAN};
  const atvi_gp_kind term[9] = {M5, M5, M3, E, E, E, E, E, E};
  atvi_ctx *ctx = test_ctx();
  atvi_markov *m;
  CHECK_STATUS(atvi_gp_markov_new(ctx, 0, time, NULL, 1, term, &m), ATVI_EINVAL);
  CHECK(m == NULL);
  CHECK_STATUS(atvi_gp_markov_new(ctx, 3, time, NULL, 1, term, &m), ATVI_EINVAL);
  CHECK(strstr(atvi_errmsg(ctx), "time 3 is 1.5"));
  CHECK_STATUS(atvi_gp_markov_new(ctx, 2, nan, NULL, 1, term, &m), ATVI_EINVAL);
  CHECK_STATUS(atvi_gp_markov_new(ctx, 2, time, NULL, 0, term, &m), ATVI_EINVAL);
  CHECK_STATUS(atvi_gp_markov_new(ctx, 2, time, NULL, 9, term, &m), ATVI_EINVAL);
  CHECK_STATUS(atvi_gp_markov_new(ctx, 2, time, NULL, 4, term, &m), ATVI_EINVAL); /* 9 states */
  CHECK(strstr(atvi_errmsg(ctx), "9 states"));
  CHECK_STATUS(atvi_gp_markov_new(ctx, 2, time, NULL, 1, (const atvi_gp_kind[]){(atvi_gp_kind)7}, &m),
               ATVI_EINVAL);
  CHECK_OK(atvi_gp_markov_new(ctx, 2, time, NULL, 3, term, &m));
  atvi_gp_markov_free(m);
  atvi_gp_markov_free(NULL);
  atvi_gp_markov_work_free(NULL);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

static void memory_may_fail(void) {
  atvi_ctx *ctx = test_ctx();
  problem p;
  make(&p, &SUMS[3], REGULAR, 1);
  atvi_markov *m = NULL;
  atvi_markov_work *w = NULL;
  markov_dense d = {0};
  long live = test_live;
  test_fail_at = test_allocs + 1;
  CHECK_STATUS(atvi_gp_markov_new(ctx, N, p.time, NULL, 3, p.terms.term, &m), ATVI_ENOMEM);
  CHECK(m == NULL && test_live == live);
  CHECK_OK(atvi_gp_markov_new(ctx, N, p.time, NULL, 3, p.terms.term, &m));
  live = test_live;
  test_fail_at = test_allocs + 1;
  CHECK_STATUS(atvi_gp_markov_work_new(m, ctx, &w), ATVI_ENOMEM);
  CHECK(w == NULL && test_live == live);
  test_fail_at = test_allocs + 1;
  CHECK_STATUS(markov_ref(ctx, N, p.time, NULL, 3, p.terms.term, p.par, p.resid, &d), ATVI_ENOMEM);
  CHECK_OK(atvi_gp_markov_work_new(m, ctx, &w));
  end(ctx, m, w);
}

TESTS({"dense", density_and_gradient_equal_dense}, {"differences", gradient_equals_differences},
      {"smooth", smoothing_and_leaving_out_equal_dense},
      {"left_out", left_out_rows_are_predicted_without_themselves}, {"zero", a_variance_may_be_0},
      {"bad", bad_lanes_are_nan_and_touch_nobody}, {"singular", singular_covariances_are_nan},
      {"lanes", a_point_does_not_depend_on_its_lane}, {"extreme", extreme_ranges_are_finite},
      {"none", no_values_at_all}, {"rows", any_number_of_rows}, {"wrong", wrong_calls_are_refused},
      {"memory", memory_may_fail})
