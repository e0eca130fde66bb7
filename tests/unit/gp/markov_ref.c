/* SPDX-License-Identifier: MIT */
/* Processes in time by dense matrices, as in textbooks: the oracle of markov_isa.c and
 * markov_smooth_isa.c. */
#include "unit/gp/markov_ref.h"
#include "math/linalg.h"
#include <math.h>

#define LOG_2PI 1.8378770664093454836

/* Correlation at distance h, and its derivative in the range. */
static double correlation(atvi_gp_kind kind, double h, double l, double *slope) {
  static const double root[4] = {0, 1, 1.7320508075688772, 2.2360679774997896};
  double a = root[kind] * h / l, e = exp(-a);
  *slope = 0;
  if (kind == ATVI_GP_WHITE || e == 0) return 0;
  *slope = e * a / l;
  if (kind == ATVI_GP_EXPONENTIAL) return e;
  *slope *= a;
  if (kind == ATVI_GP_MATERN32) return (1 + a) * e;
  *slope *= (1 + a) / 3;
  return (1 + a + a * a / 3) * e;
}

typedef struct {
  atvi_idx n, u; /* rows, used ones */
  const double *time, *par, *resid;
  int n_term;
  const atvi_gp_kind *term;
  atvi_idx *row; /* [u] */
  double *C;     /* [u][u] factor of the covariance, then its inverse */
  double *inv;   /* [u][u] */
  double *alpha; /* [u] C^-1 r */
  double *cross; /* [n][u] covariance of a process with the values */
  double *gain;  /* [n][u] cross C^-1 */
} dense;

static dense *carve(atvi_arena *a, atvi_idx n, atvi_idx u) {
  dense *o, head = {0};
  ATVI_TAKE(a, o, 1);
  ATVI_TAKE(a, head.row, u);
  ATVI_TAKE(a, head.C, u * u);
  ATVI_TAKE(a, head.inv, u * u);
  ATVI_TAKE(a, head.alpha, u);
  ATVI_TAKE(a, head.cross, n * u);
  ATVI_TAKE(a, head.gain, n * u);
  if (o) *o = head;
  return o;
}

/* Covariance of rows i and j: term k, or all except white ones (k < 0). */
static double cov_of(const dense *o, int k, atvi_idx i, atvi_idx j) {
  double sum = 0, slope;
  for (int t = k < 0 ? 0 : k; t < (k < 0 ? o->n_term : k + 1); t++)
    if (o->term[t] != ATVI_GP_WHITE)
      sum +=
          o->par[2 * t] * correlation(o->term[t], fabs(o->time[i] - o->time[j]), o->par[2 * t + 1], &slope);
  return sum;
}

static double noise(const dense *o) {
  double sum = 0;
  for (int t = 0; t < o->n_term; t++) sum += o->term[t] == ATVI_GP_WHITE ? o->par[2 * t] : 0;
  return sum;
}

static bool usable(const dense *o) {
  for (int t = 0; t < o->n_term; t++) {
    if (!(o->par[2 * t] >= 0) || !isfinite(o->par[2 * t])) return false;
    if (o->term[t] != ATVI_GP_WHITE && (!(o->par[2 * t + 1] > 0) || !isfinite(o->par[2 * t + 1])))
      return false;
  }
  return true;
}

/* x = C^-1 b, C factored. */
static void solve(const dense *o, const double *b, double *x) {
  for (atvi_idx i = 0; i < o->u; i++) {
    double sum = b[i];
    for (atvi_idx k = 0; k < i; k++) sum -= o->C[i * o->u + k] * x[k];
    x[i] = sum / o->C[i * o->u + i];
  }
  for (atvi_idx i = o->u - 1; i >= 0; i--) {
    double sum = x[i];
    for (atvi_idx k = i + 1; k < o->u; k++) sum -= o->C[k * o->u + i] * x[k];
    x[i] = sum / o->C[i * o->u + i];
  }
}

static bool factor(dense *o, double *log_density) {
  const atvi_idx u = o->u;
  double sum = (double)u * LOG_2PI, w = noise(o);
  for (atvi_idx i = 0; i < u; i++) {
    for (atvi_idx j = 0; j <= i; j++) o->C[i * u + j] = cov_of(o, -1, o->row[i], o->row[j]);
    o->C[i * u + i] += w;
    o->cross[i] = o->resid[o->row[i]];
  }
  if (!usable(o) || !atvi_math_cholesky(u, o->C)) return false;
  solve(o, o->cross, o->alpha);
  for (atvi_idx i = 0; i < u; i++) sum += o->cross[i] * o->alpha[i] + 2 * log(o->C[i * u + i]);
  *log_density = -0.5 * sum;
  for (atvi_idx i = 0; i < u; i++) { /* columns of the inverse are rows */
    for (atvi_idx j = 0; j < u; j++) o->cross[j] = i == j;
    solve(o, o->cross, o->inv + i * u);
  }
  return true;
}

static void gradient(const dense *o, double *par_bar, double *resid_bar) {
  for (int t = 0; t < 2 * o->n_term; t++) par_bar[t] = 0;
  for (atvi_idx i = 0; i < o->n; i++) resid_bar[i] = 0;
  for (atvi_idx i = 0; i < o->u; i++) resid_bar[o->row[i]] = -o->alpha[i];
  for (atvi_idx i = 0; i < o->u; i++)
    for (atvi_idx j = 0; j < o->u; j++) {
      double half = 0.5 * (o->alpha[i] * o->alpha[j] - o->inv[i * o->u + j]), slope, c;
      for (int t = 0; t < o->n_term; t++) {
        if (o->term[t] == ATVI_GP_WHITE) {
          if (i == j) par_bar[2 * t] += half;
          continue;
        }
        c = correlation(o->term[t], fabs(o->time[o->row[i]] - o->time[o->row[j]]), o->par[2 * t + 1], &slope);
        par_bar[2 * t] += half * c;
        par_bar[2 * t + 1] += half * o->par[2 * t] * slope;
      }
    }
}

/* Conditional mean[n] of term k, or of all (k < 0), its variance var[n] and covariance cov[n][n]; each may be
 * NULL. */
static void condition(const dense *o, int k, double *mean, double *var, double *cov) {
  const atvi_idx u = o->u;
  for (atvi_idx i = 0; i < o->n; i++) {
    double *cross = o->cross + i * u;
    for (atvi_idx j = 0; j < u; j++) cross[j] = cov_of(o, k, i, o->row[j]);
    solve(o, cross, o->gain + i * u);
    if (mean) mean[i] = 0;
    for (atvi_idx j = 0; j < u && mean; j++) mean[i] += cross[j] * o->alpha[j];
  }
  for (atvi_idx i = 0; i < o->n; i++)
    for (atvi_idx j = cov ? 0 : i; j < (cov ? o->n : i + 1); j++) {
      double sum = cov_of(o, k, i, j);
      for (atvi_idx r = 0; r < u; r++) sum -= o->gain[i * u + r] * o->cross[j * u + r];
      if (cov) cov[i * o->n + j] = sum;
      if (var && i == j) var[i] = sum;
    }
}

static void leave_out(const dense *o, const bool *used, double *mean, double *var) {
  double w = noise(o);
  condition(o, -1, mean, var, NULL); /* right for rows that are not used */
  for (atvi_idx i = 0, at = 0; i < o->n; i++) {
    if (used && !used[i]) {
      var[i] += w;
      continue;
    }
    double D = o->inv[at * o->u + at];
    mean[i] = o->resid[i] - o->alpha[at] / D;
    var[i] = 1 / D;
    at++;
  }
}

static void fill(double *x, atvi_idx n, double with) {
  for (atvi_idx i = 0; i < n && x; i++) x[i] = with;
}

atvi_status markov_ref(atvi_ctx *ctx, atvi_idx n, const double *time, const bool *used, int n_term,
                       const atvi_gp_kind *term, const double *par, const double *resid, markov_dense *out) {
  atvi_arena a = {0};
  atvi_idx u = 0;
  for (atvi_idx i = 0; i < n; i++) u += !used || used[i];
  carve(&a, n, u);
  a = (atvi_arena){.base = atvi_block(ctx, a.used)};
  if (!a.base) return ATVI_ENOMEM;
  dense *o = carve(&a, n, u);
  o->n = n, o->u = u, o->time = time, o->par = par, o->resid = resid, o->n_term = n_term, o->term = term;
  for (atvi_idx i = 0, at = 0; i < n; i++)
    if (!used || used[i]) o->row[at++] = i;
  if (factor(o, &out->log_density)) {
    if (out->par_bar && out->resid_bar) gradient(o, out->par_bar, out->resid_bar);
    for (int k = 0; k < n_term && (out->mean || out->var_term); k++)
      condition(o, k, out->mean ? out->mean + k * n : NULL, out->var_term ? out->var_term + k * n : NULL,
                NULL);
    if (out->var || out->cov) condition(o, -1, NULL, out->var, out->cov);
    if (out->loo_mean && out->loo_var) leave_out(o, used, out->loo_mean, out->loo_var);
  } else {
    out->log_density = NAN;
    fill(out->par_bar, 2 * n_term, NAN), fill(out->resid_bar, n, NAN), fill(out->mean, n_term * n, NAN);
    fill(out->var, n, NAN), fill(out->var_term, n_term * n, NAN), fill(out->cov, n * n, NAN);
    fill(out->loo_mean, n, NAN), fill(out->loo_var, n, NAN);
  }
  atvi_block_free(ctx, o);
  return ATVI_OK;
}
