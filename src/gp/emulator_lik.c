/* SPDX-License-Identifier: MIT */
/* Log likelihood of the runs and its gradient.
 *
 * With y the outputs [n][m], mean taken off, K over runs and c over times, s = sill:
 *
 *   log L = - nm/2 log(2 pi s) - m/2 log|K| - n/2 log|c| - Q / (2 s),   Q = tr(K^-1 S),  S = y c^-1 y'
 *   d log L = 1/2 tr(G dK),   G = K^-1 S K^-1 / s - m K^-1;   best s = Q / (n m)
 *
 * c is exponential, so y_i given y_{i-1} does not depend on earlier times. With r_i = exp(-h_i / l_t), e_i =
 * 1 - r_i:
 *
 *   S = y_1 y_1' + sum_i (D_i + e_i y_{i-1}) (D_i + e_i y_{i-1})' / (1 - r_i^2),   D_i = y_i - y_{i-1}
 *
 * The form with differences does not cancel if outputs are smooth and l_t is long. On a regular grid r and e
 * are the same for all i, so S = y_1 y_1' + (dd + e dy + e^2 yy) / (1 - r^2) with dd = sum D_i D_i', yy = sum
 * y_{i-1} y_{i-1}', which are computed once, and dy = sum D_i y_{i-1}' + y_{i-1} D_i' = y_m y_m' - y_1 y_1' -
 * dd, since the squares of y telescope: an evaluation then costs n^3 whatever m is. This is used for m > n.
 * Otherwise V = K^-1 y is computed, and K^-1 S K^-1 is the sum above with V instead of y; Q needs only, for
 * each i, the three products of D_i and y_{i-1} in the metric K^-1. */
#include "gp/emulator_detail.h"
#include "math/linalg.h"
#include "math/special.h"
#include <math.h>
#include <string.h>

#define REGULAR 1e-9  /* largest deviation of a step from the mean one, relative */
enum { CHUNK = 256 }; /* times that are summed at once */

struct atvi_em_scratch {
  double *u, *ut;       /* [n][d], [d][ld] scaled coordinates */
  double *k, *g;        /* [n][ld] */
  double *b;            /* [n][ld] with squares */
  double *v;            /* [n][m] without */
  double *va, *vb, *vc; /* [m] products at each time, without squares */
};

static atvi_idx padded(atvi_idx n) { return (n + ATVI_GP_PAD - 1) / ATVI_GP_PAD * ATVI_GP_PAD; }
static double time_at(const atvi_em_runs *r, atvi_idx t) { return r->time ? r->time[t] : (double)(t + 1); }
static const double *run_at(const atvi_em_lik *lik, const double *of, atvi_idx i, atvi_idx width) {
  return of + (lik->row ? lik->row[i] : i) * width;
}

static bool regular(const atvi_em_runs *r) {
  double step = (time_at(r, r->m - 1) - time_at(r, 0)) / (double)(r->m - 1);
  for (atvi_idx t = 1; t < r->m; t++)
    if (!(fabs(time_at(r, t) - time_at(r, t - 1) - step) <= REGULAR * step)) return false;
  return true;
}

static atvi_em_lik *carve(atvi_arena *a, atvi_idx n, atvi_idx ld, bool squares) {
  atvi_em_lik *o, head = {0};
  ATVI_TAKE(a, o, 1);
  ATVI_TAKE(a, head.first, n);
  ATVI_TAKE(a, head.last, n);
  ATVI_TAKE(a, head.dd, squares ? n * ld : 0);
  ATVI_TAKE(a, head.yy, squares ? n * ld : 0);
  if (o) *o = head;
  return o;
}

/* part: [2][n][CHUNK]. */
static void sum_squares(atvi_em_lik *lik, double *part) {
  atvi_idx n = lik->n, m = lik->m, ld = lik->ld;
  double *before = part, *step = part + n * CHUNK;
  for (atvi_idx t0 = 1; t0 < m; t0 += CHUNK) {
    atvi_idx count = m - t0 < CHUNK ? m - t0 : CHUNK;
    for (atvi_idx i = 0; i < n; i++) {
      const double *y = run_at(lik, lik->runs->y, i, m) + t0, *mean = lik->mean + t0;
      for (atvi_idx t = 0; t < count; t++) {
        double last = y[t - 1] - mean[t - 1];
        before[i * CHUNK + t] = last;
        step[i * CHUNK + t] = (y[t] - mean[t]) - last;
      }
    }
    double old = t0 == 1 ? 0 : 1;
    atvi_math_blas_square(n, count, 1, step, CHUNK, old, lik->dd, ld);
    atvi_math_blas_square(n, count, 1, before, CHUNK, old, lik->yy, ld);
  }
}

atvi_status atvi_gp_em_lik_new(atvi_ctx *ctx, const atvi_em_runs *runs, const double *mean,
                               atvi_em_kernel kernel, atvi_idx n, const atvi_idx *row, atvi_em_lik **out) {
  *out = NULL;
  ATVI_TRY(atvi_math_blas_begin(ctx));
  atvi_arena a = {0};
  atvi_idx ld = padded(n);
  bool squares = runs->m > n && regular(runs);
  carve(&a, n, ld, squares);
  a = (atvi_arena){.base = atvi_block(ctx, a.used)};
  if (!a.base) return ATVI_ENOMEM;
  atvi_em_lik *o = carve(&a, n, ld, squares);
  o->n = n, o->d = runs->d, o->m = runs->m, o->ld = ld;
  o->kernel = kernel;
  o->table = atvi_gp_best();
  o->runs = runs, o->mean = mean, o->row = row, o->squares = squares;
  for (atvi_idx i = 0; i < n; i++) {
    const double *y = run_at(o, runs->y, i, o->m);
    o->first[i] = y[0] - mean[0];
    o->last[i] = y[o->m - 1] - mean[o->m - 1];
  }
  if (squares) {
    double *part = atvi_block(ctx, 2 * (size_t)n * CHUNK * sizeof *part);
    if (!part) {
      atvi_block_free(ctx, o);
      return ATVI_ENOMEM;
    }
    o->step = (time_at(runs, o->m - 1) - time_at(runs, 0)) / (double)(o->m - 1);
    sum_squares(o, part);
    atvi_block_free(ctx, part);
  }
  *out = o;
  return ATVI_OK;
}

void atvi_gp_em_lik_free(atvi_ctx *ctx, atvi_em_lik *lik) { atvi_block_free(ctx, lik); }

static atvi_em_scratch *carve_scratch(atvi_arena *a, const atvi_em_lik *lik) {
  atvi_em_scratch *o, head = {0};
  atvi_idx n = lik->n, ld = lik->ld, m = lik->squares ? 0 : lik->m, side = lik->squares ? n * ld : 0;
  ATVI_TAKE(a, o, 1);
  ATVI_TAKE(a, head.u, n * lik->d);
  ATVI_TAKE(a, head.ut, lik->d * ld);
  ATVI_TAKE(a, head.k, n * ld);
  ATVI_TAKE(a, head.g, n * ld);
  ATVI_TAKE(a, head.b, side);
  ATVI_TAKE(a, head.v, n * m);
  ATVI_TAKE(a, head.va, m);
  ATVI_TAKE(a, head.vb, m);
  ATVI_TAKE(a, head.vc, m);
  if (o) *o = head;
  return o;
}

atvi_status atvi_gp_em_scratch_new(atvi_ctx *ctx, const atvi_em_lik *lik, atvi_em_scratch **out) {
  atvi_arena a = {0};
  carve_scratch(&a, lik);
  a = (atvi_arena){.base = atvi_block(ctx, a.used)};
  *out = NULL;
  if (!a.base) return ATVI_ENOMEM;
  *out = carve_scratch(&a, lik);
  return ATVI_OK;
}

void atvi_gp_em_scratch_free(atvi_ctx *ctx, atvi_em_scratch *s) { atvi_block_free(ctx, s); }

/* K = k + g I, lower; factored in place. Returns log|K|, NaN if it is not positive definite. */
static double factor(const atvi_em_lik *lik, atvi_em_scratch *s, const double *par) {
  atvi_idx n = lik->n, d = lik->d, ld = lik->ld;
  double g = exp(par[d]), log_det = 0;
  for (atvi_idx j = 0; j < d; j++) {
    double scale = atvi_gp_scale(lik->kernel, exp(par[j]));
    for (atvi_idx i = 0; i < n; i++)
      s->u[i * d + j] = s->ut[j * ld + i] = scale * run_at(lik, lik->runs->x, i, d)[j];
  }
  for (atvi_idx i = 0; i < n; i++) {
    lik->table->row(lik->kernel, d, ld, i + 1, s->u + i * d, s->ut, s->k + i * ld);
    s->k[i * ld + i] = 1 + g;
  }
  if (!atvi_math_blas_cholesky(n, s->k, ld)) return NAN;
  for (atvi_idx i = 0; i < n; i++) log_det += log(s->k[i * ld + i]);
  return 2 * log_det;
}

/* tr(a b) of two symmetric matrices, lower triangles. */
static double inner(atvi_idx n, atvi_idx ld, const double *a, const double *b) {
  double off = 0, diag = 0;
  for (atvi_idx i = 0; i < n; i++) {
    double part[4] = {0};
    atvi_idx j = 0;
    for (; j + 4 <= i; j += 4)
      for (int l = 0; l < 4; l++) part[l] += a[i * ld + j + l] * b[i * ld + j + l];
    for (; j < i; j++) part[0] += a[i * ld + j] * b[i * ld + j];
    off += (part[0] + part[1]) + (part[2] + part[3]);
    diag += a[i * ld + i] * b[i * ld + i];
  }
  return 2 * off + diag;
}

/* x' a x of a symmetric matrix, lower triangle. */
static double form(atvi_idx n, atvi_idx ld, const double *a, const double *x) {
  double out = 0;
  for (atvi_idx i = 0; i < n; i++) {
    double sum = 0.5 * a[i * ld + i] * x[i];
    for (atvi_idx j = 0; j < i; j++) sum += a[i * ld + j] * x[j];
    out += 2 * sum * x[i];
  }
  return out;
}

/* For a step of length h: r = exp(-h / l_t), w = 1 / (1 - r^2). */
typedef struct {
  double r, e, w;
} link;

static link link_of(double h, double length) {
  return (link){exp(-h / length), -expm1(-h / length), -1 / expm1(-2 * h / length)};
}

/* Contribution of one step to Q and n log|c|, and their derivatives by r. */
static void add_step(link l, double n, double a, double b, double c, double *q, double *q_r, double *log_c,
                     double *log_c_r) {
  double inside = a + l.e * (b + l.e * c);
  *q += l.w * inside;
  *q_r = l.w * (2 * l.r * l.w * inside - b - 2 * l.e * c);
  *log_c -= n * log(l.w);
  *log_c_r = -n * 2 * l.r * l.w;
}

typedef struct {
  double q, q_time;         /* Q and its derivative by log l_t */
  double log_c, log_c_time; /* n log|c| */
} in_time;

/* With squares. k holds K^-1. */
static in_time time_from_squares(const atvi_em_lik *lik, const atvi_em_scratch *s, double length) {
  atvi_idx n = lik->n, ld = lik->ld, steps = lik->m - 1;
  in_time o = {0};
  o.q = form(n, ld, s->k, lik->first);
  double a = inner(n, ld, s->k, lik->dd), b = form(n, ld, s->k, lik->last) - o.q - a;
  double c = inner(n, ld, s->k, lik->yy), q_r, log_r, log_c = 0;
  link l = link_of(lik->step, length);
  add_step(l, (double)n, a, b, c, &o.q, &q_r, &log_c, &log_r);
  double by_log = l.r * lik->step / length;
  o.q_time = q_r * by_log;
  o.log_c = (double)steps * log_c;
  o.log_c_time = (double)steps * log_r * by_log;
  return o;
}

/* Without squares: v holds L^-1 y. */
static in_time time_from_columns(const atvi_em_lik *lik, atvi_em_scratch *s, double length) {
  atvi_idx n = lik->n, m = lik->m;
  in_time o = {0};
  memset(s->va, 0, (size_t)m * sizeof *s->va);
  memset(s->vb, 0, (size_t)m * sizeof *s->vb);
  memset(s->vc, 0, (size_t)m * sizeof *s->vc);
  for (atvi_idx i = 0; i < n; i++) {
    const double *restrict v = s->v + i * m;
    double *restrict va = s->va, *restrict vb = s->vb, *restrict vc = s->vc;
    o.q += v[0] * v[0];
    for (atvi_idx t = 1; t < m; t++) {
      double last = v[t - 1], step = v[t] - last;
      va[t] += step * step;
      vb[t] += 2 * step * last;
      vc[t] += last * last;
    }
  }
  for (atvi_idx t = 1; t < m; t++) {
    double h = time_at(lik->runs, t) - time_at(lik->runs, t - 1), q_r, log_r;
    link l = link_of(h, length);
    add_step(l, (double)n, s->va[t], s->vb[t], s->vc[t], &o.q, &q_r, &o.log_c, &log_r);
    o.q_time += q_r * l.r * h / length;
    o.log_c_time += log_r * l.r * h / length;
  }
  return o;
}

/* Lower triangle of g = K^-1 S K^-1, with squares: half of the second product is enough. g holds S until
 * then. */
static void sandwich_squares(const atvi_em_lik *lik, atvi_em_scratch *s, double length) {
  enum { BLOCK = 96 };
  atvi_idx n = lik->n, ld = lik->ld;
  link l = link_of(lik->step, length);
  for (atvi_idx i = 0; i < n; i++)
    for (atvi_idx j = 0; j <= i; j++) {
      atvi_idx at = i * ld + j;
      double first = lik->first[i] * lik->first[j], dy = lik->last[i] * lik->last[j] - first - lik->dd[at];
      s->g[at] = first + l.w * (lik->dd[at] + l.e * (dy + l.e * lik->yy[at]));
    }
  atvi_math_blas_mirror(n, s->g, ld);
  atvi_math_blas_mirror(n, s->k, ld);
  atvi_math_blas_sym_mul(n, n, s->k, ld, s->g, ld, s->b, ld);
  for (atvi_idx i = 0; i < n; i += BLOCK) {
    atvi_idx rows = n - i < BLOCK ? n - i : BLOCK;
    atvi_math_blas_mul(rows, i + rows, n, s->b + i * ld, ld, s->k, ld, 0, s->g + i * ld, ld);
  }
}

/* The same without squares: v holds K^-1 y and is overwritten. */
static void sandwich_columns(const atvi_em_lik *lik, atvi_em_scratch *s, double length) {
  atvi_idx n = lik->n, m = lik->m;
  for (atvi_idx t = 1; t < m; t++) { /* weights of y_t and y_{t-1} */
    link l = link_of(time_at(lik->runs, t) - time_at(lik->runs, t - 1), length);
    s->va[t] = sqrt(l.w), s->vb[t] = l.e;
  }
  for (atvi_idx i = 0; i < n; i++) {
    double *v = s->v + i * m;
    for (atvi_idx t = m - 1; t > 0; t--) v[t] = s->va[t] * ((v[t] - v[t - 1]) + s->vb[t] * v[t - 1]);
  }
  atvi_math_blas_square(n, m, 1, s->v, m, 0, s->g, lik->ld);
}

/* grad by log lengths and log nugget; g becomes G. */
static void by_kernel(const atvi_em_lik *lik, atvi_em_scratch *s, double nugget, double sill, double *grad) {
  atvi_idx n = lik->n, d = lik->d, ld = lik->ld;
  double trace = 0, m = (double)lik->m, one_over = 1 / sill;
  memset(grad, 0, (size_t)d * sizeof *grad);
  for (atvi_idx i = 0; i < n; i++) {
    double *g = s->g + i * ld;
    for (atvi_idx j = 0; j <= i; j++) g[j] = g[j] * one_over - m * s->k[i * ld + j];
    trace += g[i];
    /* Only below the diagonal: the upper half cancels the 1/2, and on the diagonal k does not change. */
    lik->table->row_grad(lik->kernel, d, ld, i, s->u + i * d, s->ut, g, grad);
  }
  grad[d] = 0.5 * nugget * trace;
}

static void centre(const atvi_em_lik *lik, double *v) {
  atvi_idx m = lik->m;
  for (atvi_idx i = 0; i < lik->n; i++) {
    const double *y = run_at(lik, lik->runs->y, i, m);
    for (atvi_idx t = 0; t < m; t++) v[i * m + t] = y[t] - lik->mean[t];
  }
}

double atvi_gp_em_lik_eval(const atvi_em_lik *lik, atvi_em_scratch *s, const double *par, double *sill,
                           double *grad) {
  atvi_idx n = lik->n, d = lik->d, m = lik->m, ld = lik->ld;
  double length = exp(par[d + 1]), nm = (double)n * (double)m;
  double log_det = factor(lik, s, par);
  if (isnan(log_det)) return NAN;
  in_time t;
  if (lik->squares) {
    atvi_math_blas_inverse(n, s->k, ld);
    t = time_from_squares(lik, s, length);
  } else {
    centre(lik, s->v);
    atvi_math_blas_tri_solve(n, m, s->k, ld, false, s->v, m);
    t = time_from_columns(lik, s, length);
  }
  if (isnan(*sill)) *sill = t.q / nm;
  double log_lik = -0.5 * (nm * (ATVI_LOG_2PI + log(*sill)) + (double)m * log_det + t.log_c + t.q / *sill);
  if (!grad || !isfinite(log_lik)) return isfinite(log_lik) ? log_lik : NAN;
  if (lik->squares) {
    sandwich_squares(lik, s, length);
  } else {
    atvi_math_blas_tri_solve(n, m, s->k, ld, true, s->v, m);
    atvi_math_blas_inverse(n, s->k, ld);
    sandwich_columns(lik, s, length);
  }
  by_kernel(lik, s, exp(par[d]), *sill, grad);
  grad[d + 1] = m > 1 ? -0.5 * (t.log_c_time + t.q_time / *sill) : 0;
  grad[d + 2] = 0.5 * (t.q / *sill - nm);
  return log_lik;
}

/* ---- correlations (kernel.h) ---- */

double atvi_gp_scale(atvi_em_kernel kind, double length) {
  switch (kind) {
  case ATVI_EM_MATERN32: return sqrt(3.0) / length;
  case ATVI_EM_MATERN52: return sqrt(5.0) / length;
  case ATVI_EM_SQUARED: return sqrt(0.5) / length;
  case ATVI_EM_EXPONENTIAL: break;
  }
  return 1 / length;
}

const atvi_gp_table *atvi_gp_best(void) {
#ifdef ATVI_HAVE_X86_ISA
  if (atvi_isa_best() == ATVI_ISA_AVX512) return &atvi_gp_table_avx512;
  if (atvi_isa_best() == ATVI_ISA_AVX2) return &atvi_gp_table_avx2;
#endif
  return &atvi_gp_table_base;
}

double atvi_gp_corr_ref(atvi_em_kernel kind, atvi_idx d, const double *u, const double *v) {
  double factor = 1, sum = 0;
  for (atvi_idx j = 0; j < d; j++) {
    double a = fabs(u[j] - v[j]);
    sum += kind == ATVI_EM_SQUARED ? a * a : a;
    if (kind == ATVI_EM_MATERN32) factor *= 1 + a;
    if (kind == ATVI_EM_MATERN52) factor *= 1 + a + a * a / 3;
  }
  return factor * exp(-sum);
}
