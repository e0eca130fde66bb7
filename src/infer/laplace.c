/* SPDX-License-Identifier: MIT */
/* Normal approximation at the mode m of a posterior in a box.
 *
 * Coordinates  y = theta / s with s the prior standard deviations, so that 1 means "as wide as the prior".
 * Hessian      central differences of the gradient; a first pass with small steps finds the widths, the
 *              second uses a part of them, ATVI_PART_SD: large against the roughness of adaptive solvers, small against
 *              the width. Exact for a normal posterior at any step.
 * Uninformed   directions v with v^T H_lik v < ATVI_SMALL: the data narrow the prior by less than 5 %. The data may
 *              still tell of them by way of others, as of the mean in a hierarchy, so that of their span
 *              only those combinations v . y count whose posterior variance is at least WIDE of what the
 *              prior alone has there (inverse Hessians at the mode, both with the floor). The eigenvectors of equal eigenvalues are arbitrary, so
 *              their span is brought to reduced echelon form: combinations of few parameters.
 * At a bound   with slope g > 0 away from the density's side the law is g e^{-g x}, x the distance; its
 *              integral over a box of width w is (1 - e^{-g w}) / g. */
#include "infer/modes.h"
#include "infer/vi_tuning.h"
#include "math/linalg.h"
#include "math/rng.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

#define WIDE                                                                                                 \
  0.6 /* words: share of the prior variance: 0.8 of the standard deviation, less some for the floor */
#define SMALL_PART 0.15 /* words: share of the largest coefficient below which a coefficient is not named */

typedef struct {
  double *theta, *gp, *gl; /* [d][2k] */
  atvi_outcome *outcome;   /* [2k] */
  double *step;            /* [k] wanted, in y */
  double *lo, *hi;         /* [k] taken */
  double *prior;           /* [k][k] */
  double *g0p, *g0l;       /* [d] gradients at the mode, in theta */
} work;

static bool take_all(atvi_pool *p, atvi_laplace *l, work *w) {
  size_t d = (size_t)l->d, k = (size_t)(l->k > 0 ? l->k : 1), n = 2 * k;
  double **to[] = {&w->theta, &w->gp,  &w->gl,    &w->step,     &w->lo,   &w->hi,    &w->prior,
                   &w->g0p,   &w->g0l, &l->slope, &l->hess_lik, &l->hess, &l->value, &l->vector};
  size_t count[] = {d * n, d * n, d * n, k, k, k, k * k, d, d, d, k * k, k * k, k, k * k};
  for (size_t i = 0; i < sizeof to / sizeof to[0]; i++) *to[i] = atvi_pool_take(p, count[i], sizeof(double));
  w->outcome = atvi_pool_take(p, n, sizeof *w->outcome);
  return !atvi_pool_failed(p);
}

/* Steps of at most w->step that stay in the box. */
static void set_points(const atvi_laplace *l, const atvi_target *t, const double *mode, work *w) {
  atvi_idx n = 2 * l->k;
  for (atvi_idx j = 0; j < l->d; j++)
    for (atvi_idx i = 0; i < n; i++) w->theta[j * n + i] = mode[j];
  for (atvi_idx i = 0; i < l->k; i++) {
    atvi_idx j = l->free[i];
    double h = w->step[i] * l->scale[j];
    double lo = fmax(mode[j] - h, t->param[j].lower), hi = fmin(mode[j] + h, t->param[j].upper);
    w->theta[j * n + 2 * i] = lo;
    w->theta[j * n + 2 * i + 1] = hi;
    w->lo[i] = (mode[j] - lo) / l->scale[j];
    w->hi[i] = (hi - mode[j]) / l->scale[j];
  }
}

static bool usable(const work *w, atvi_idx d, atvi_idx n, atvi_idx i) {
  if (w->outcome[i] != ATVI_RUN_OK) return false;
  for (atvi_idx j = 0; j < d; j++)
    if (!isfinite(w->gp[j * n + i]) || !isfinite(w->gl[j * n + i])) return false;
  return true;
}

/* Row i from the two points of parameter i; a point that failed is replaced by the mode itself. */
static void set_row(const atvi_laplace *l, const work *w, atvi_idx i) {
  atvi_idx n = 2 * l->k, a = 2 * i, b = a + 1;
  bool ua = usable(w, l->d, n, a), ub = usable(w, l->d, n, b);
  double h = (ua ? w->lo[i] : 0) + (ub ? w->hi[i] : 0);
  for (atvi_idx m = 0; m < l->k; m++) {
    atvi_idx j = l->free[m];
    double pa = ua ? w->gp[j * n + a] : w->g0p[j], pb = ub ? w->gp[j * n + b] : w->g0p[j];
    double la = ua ? w->gl[j * n + a] : w->g0l[j], lb = ub ? w->gl[j * n + b] : w->g0l[j];
    w->prior[i * l->k + m] = h > 0 ? -(pb - pa) * l->scale[j] / h : 0;
    l->hess_lik[i * l->k + m] = h > 0 ? -(lb - la) * l->scale[j] / h : 0;
  }
}

static void symmetrise(atvi_idx k, double *a) {
  for (atvi_idx i = 0; i < k; i++)
    for (atvi_idx j = 0; j < i; j++) a[i * k + j] = a[j * k + i] = 0.5 * (a[i * k + j] + a[j * k + i]);
}

static void set_hessian(const atvi_laplace *l, atvi_evaluator *ev, const double *mode, work *w) {
  const atvi_target *t = atvi_model_evaluator_target(ev);
  for (atvi_idx i = 0; i < l->k; i++) w->step[i] = ATVI_STEP;
  for (int pass = 0; pass < 2; pass++) {
    set_points(l, t, mode, w);
    atvi_model_evaluator_run(
        ev,
        &(atvi_batch){
            .B = 2 * l->k, .theta = w->theta, .grad_prior = w->gp, .grad_lik = w->gl, .outcome = w->outcome});
    for (atvi_idx i = 0; i < l->k; i++) set_row(l, w, i);
    for (atvi_idx i = 0; i < l->k; i++) {
      double curve = l->hess_lik[i * l->k + i] + w->prior[i * l->k + i];
      w->step[i] = ATVI_PART_SD / sqrt(fmin(fmax(curve, 1), 1e12));
    }
  }
  symmetrise(l->k, l->hess_lik);
  symmetrise(l->k, w->prior);
  for (atvi_idx i = 0; i < l->k * l->k; i++) l->hess[i] = l->hess_lik[i] + w->prior[i];
}

/* Eigenvalues with the floor, covariance, and how much the log posterior could still rise: g^T H^-1 g / 2. */
static atvi_status set_normal(atvi_laplace *l, atvi_optimum_info *info) {
  atvi_idx k = l->k, d = l->d;
  double *copy = atvi_pool_take(info->pool, (size_t)(k * k + 1), sizeof *copy);
  if (!copy) return ATVI_ENOMEM;
  memcpy(copy, l->hess, (size_t)(k * k) * sizeof *copy);
  atvi_math_eigen_sym(k, copy, l->value, l->vector);
  info->definite = true;
  info->gap = 0;
  for (atvi_idx e = 0; e < k; e++) {
    if (!(l->value[e] > ATVI_TINY)) info->definite = false;
    l->value[e] = fmax(l->value[e], ATVI_CURVED_LEAST);
    double g = 0;
    for (atvi_idx i = 0; i < k; i++) g += l->slope[l->free[i]] * l->vector[i * k + e];
    info->gap += 0.5 * g * g / l->value[e];
  }
  info->converged = info->gap < ATVI_SLIGHT;
  for (atvi_idx a = 0; a < k; a++)
    for (atvi_idx b = 0; b < k; b++) {
      double c = 0;
      for (atvi_idx e = 0; e < k; e++) c += l->vector[a * k + e] * l->vector[b * k + e] / l->value[e];
      info->cov[l->free[a] * d + l->free[b]] = c * l->scale[l->free[a]] * l->scale[l->free[b]];
    }
  for (atvi_idx j = 0; j < d; j++) info->sd[j] = sqrt(info->cov[j * d + j]);
  return ATVI_OK;
}

/* Reduced echelon form of rows[n][k], pivots by size; pivot[n] receives the columns. */
static void echelon(atvi_idx n, atvi_idx k, double *rows, atvi_idx *pivot) {
  for (atvi_idx r = 0; r < n; r++) {
    atvi_idx row = r, col = 0;
    for (atvi_idx i = r; i < n; i++)
      for (atvi_idx j = 0; j < k; j++)
        if (fabs(rows[i * k + j]) > fabs(rows[row * k + col])) row = i, col = j;
    pivot[r] = col;
    double p = rows[row * k + col];
    for (atvi_idx j = 0; j < k; j++) {
      double x = rows[row * k + j] / p;
      rows[row * k + j] = rows[r * k + j];
      rows[r * k + j] = x;
    }
    for (atvi_idx i = 0; i < n; i++) {
      double f = rows[i * k + col];
      for (atvi_idx j = 0; j < k && i != r; j++) rows[i * k + j] -= f * rows[r * k + j];
    }
  }
}

/* "beta - 0.7 gamma": the combination row . y, in units of the parameter with the pivot. */
static const char *in_words(const atvi_laplace *l, const atvi_target *t, atvi_pool *pool, const double *row,
                            atvi_idx pivot) {
  const char *text = t->param[l->free[pivot]].name;
  for (atvi_idx i = 0; i < l->k && text; i++) {
    if (i == pivot || fabs(row[i]) < SMALL_PART) continue;
    atvi_idx j = l->free[i];
    double c = row[i] * l->scale[l->free[pivot]] / l->scale[j];
    char number[32];
    snprintf(number, sizeof number, "%.2g ", fabs(c));
    text = atvi_pool_printf(pool, "%s %c %s%s", text, c < 0 ? '-' : '+',
                            strcmp(number, "1 ") == 0 ? "" : number, t->param[j].name);
  }
  return text;
}

/* out[n][n] = rows V^-1 rows^T with V = vector diag(max(value, ATVI_CURVED_LEAST)) vector^T, for rows[n][k]. */
static void spread_in(atvi_idx n, atvi_idx k, const double *rows, const double *value, const double *vector,
                      double *out) {
  memset(out, 0, (size_t)(n * n) * sizeof *out);
  for (atvi_idx e = 0; e < k; e++)
    for (atvi_idx a = 0; a < n; a++)
      for (atvi_idx b = 0; b < n; b++) {
        double pa = 0, pb = 0;
        for (atvi_idx i = 0; i < k; i++)
          pa += rows[a * k + i] * vector[i * k + e], pb += rows[b * k + i] * vector[i * k + e];
        out[a * n + b] += pa * pb / fmax(value[e], ATVI_CURVED_LEAST);
      }
}

/* Of the span of rows[n][k] leaves what the posterior leaves as wide as the prior; returns its dimension.
 * In coordinates in which the prior's spread is the unit matrix these are eigenvectors. room: 4 k^2 + k. */
static atvi_idx keep_wide(const atvi_laplace *l, atvi_idx n, double *rows, double *room) {
  atvi_idx k = l->k, kept = 0;
  double *a = room, *v = a + k * k, *p = v + k * k, *q = p + k * k, *w = q + k * k;
  for (atvi_idx i = 0; i < k * k; i++) a[i] = l->hess[i] - l->hess_lik[i];
  atvi_math_eigen_sym(k, a, w, v);
  spread_in(n, k, rows, w, v, p);
  atvi_math_eigen_sym(n, p, w, q);
  memcpy(a, rows, (size_t)(n * k) * sizeof *a);
  for (atvi_idx e = 0; e < n; e++)
    for (atvi_idx i = 0; i < k; i++) {
      double x = 0;
      for (atvi_idx r = 0; r < n; r++) x += q[r * n + e] * a[r * k + i];
      rows[e * k + i] = x / sqrt(w[e]);
    }
  spread_in(n, k, rows, l->value, l->vector, p);
  atvi_math_eigen_sym(n, p, w, q);
  memcpy(a, rows, (size_t)(n * k) * sizeof *a);
  for (atvi_idx e = 0; e < n; e++) {
    if (!(w[e] >= WIDE)) continue;
    for (atvi_idx i = 0; i < k; i++) {
      double x = 0;
      for (atvi_idx r = 0; r < n; r++) x += q[r * n + e] * a[r * k + i];
      rows[kept * k + i] = x;
    }
    kept++;
  }
  return kept;
}

static atvi_status set_uninformed(const atvi_laplace *l, const atvi_target *t, atvi_optimum_info *info) {
  atvi_idx k = l->k, n = 0;
  atvi_pool *p = info->pool;
  double *a = atvi_pool_take(p, (size_t)(7 * k * k + 2 * k + 1), sizeof *a);
  atvi_idx *pivot = atvi_pool_take(p, (size_t)k + 1, sizeof *pivot);
  info->uninformed = atvi_pool_take(p, (size_t)k + 1, sizeof *info->uninformed);
  if (atvi_pool_failed(p)) return ATVI_ENOMEM;
  double *v = a + k * k, *rows = v + k * k, *w = rows + k * k;
  memcpy(a, l->hess_lik, (size_t)(k * k) * sizeof *a);
  atvi_math_eigen_sym(k, a, w, v);
  for (atvi_idx e = 0; e < k; e++) {
    if (!(w[e] < ATVI_SMALL)) continue;
    for (atvi_idx i = 0; i < k; i++) rows[n * k + i] = v[i * k + e];
    n++;
  }
  if (n > 0) n = keep_wide(l, n, rows, w + k);
  echelon(n, k, rows, pivot);
  for (atvi_idx i = 0; i < n; i++) info->uninformed[i] = in_words(l, t, p, rows + i * k, pivot[i]);
  info->n_uninformed = n;
  return atvi_pool_status(p);
}

static atvi_status build(atvi_evaluator *ev, atvi_laplace *l, atvi_optimum_info *info) {
  work w = {0};
  if (!take_all(info->pool, l, &w)) return ATVI_ENOMEM;
  atvi_model_evaluator_run(
      ev, &(atvi_batch){.B = 1, .theta = info->mode, .grad_prior = w.g0p, .grad_lik = w.g0l});
  for (atvi_idx j = 0; j < l->d; j++) l->slope[j] = (w.g0p[j] + w.g0l[j]) * l->scale[j];
  if (l->k > 0) set_hessian(l, ev, info->mode, &w);
  ATVI_TRY(set_normal(l, info));
  return set_uninformed(l, atvi_model_evaluator_target(ev), info);
}

atvi_status atvi_infer_laplace_at(atvi_ctx *ctx, atvi_evaluator *ev, const double *scale,
                                  atvi_optimum_info *info, atvi_laplace **out) {
  *out = NULL;
  atvi_laplace *l = atvi_pool_take(info->pool, 1, sizeof *l);
  atvi_status st = ATVI_ENOMEM;
  if (l) {
    l->d = info->d;
    l->scale = scale;
    l->free = atvi_pool_take(info->pool, (size_t)info->d, sizeof *l->free);
    for (atvi_idx j = 0; j < info->d && l->free; j++)
      if (!info->at_bound[j]) l->free[l->k++] = j;
    if (l->free) st = build(ev, l, info);
  }
  if (st != ATVI_OK) return ATVI_FAIL(ctx, st, "map: Hessian, d = %td", info->d);
  *out = l;
  return ATVI_OK;
}

/* Distance from the bound of a parameter held there: exponential, cut at the width of the box. */
static double away(double rate, double width, atvi_rng *r) {
  double u = atvi_math_rng_uniform(r);
  if (rate * width < 1e-9) return u * width;
  return -log1p(u * expm1(-rate * width)) / rate;
}

/* One try; false if it lies outside the box. */
static bool draw_one(const atvi_laplace *l, const atvi_target *t, const atvi_optimum_info *info, atvi_rng *r,
                     atvi_idx n, double *x) {
  for (atvi_idx j = 0; j < l->d; j++) x[j * n] = info->mode[j];
  for (atvi_idx e = 0; e < l->k; e++) {
    double z = atvi_math_rng_normal(r) / sqrt(l->value[e]);
    for (atvi_idx i = 0; i < l->k; i++)
      x[l->free[i] * n] += z * l->vector[i * l->k + e] * l->scale[l->free[i]];
  }
  for (atvi_idx j = 0; j < l->d; j++) {
    double lower = t->param[j].lower, upper = t->param[j].upper, rate = fabs(l->slope[j]) / l->scale[j];
    if (info->at_bound[j] && rate > 0) x[j * n] -= info->at_bound[j] * away(rate, upper - lower, r);
    if (!(x[j * n] >= lower && x[j * n] <= upper)) return false;
  }
  return true;
}

double atvi_infer_laplace_draw(const atvi_laplace *l, const atvi_target *t, const atvi_optimum_info *info,
                               uint64_t seed, atvi_idx n, double *x) {
  const uint32_t most =
      (uint32_t)(1 / ATVI_TINY); /* so that a share of the box that is not negligible is seen */
  double tries = 0;
  bool moved = false;
  for (atvi_idx i = 0; i < n; i++) {
    bool in = false;
    for (uint32_t k = 0; k < most && !in; k++, tries++) {
      atvi_rng r = atvi_math_rng_at(seed, ATVI_STREAM_MAP, k, (uint32_t)i);
      in = draw_one(l, t, info, &r, n, x + i);
    }
    for (atvi_idx j = 0; j < l->d && !in; j++)
      x[j * n + i] = fmin(fmax(x[j * n + i], t->param[j].lower), t->param[j].upper);
    moved |= !in;
  }
  return moved ? 0 : (double)n / tries;
}

double atvi_infer_laplace_evidence(const atvi_laplace *l, const atvi_target *t, const atvi_optimum_info *info,
                                   double share) {
  if (!info->definite || !(share > 0)) return NAN;
  double z = info->log_prior + info->log_lik + log(share) + 0.5 * (double)l->k * log(2 * acos(-1.0));
  for (atvi_idx e = 0; e < l->k; e++) z -= 0.5 * log(l->value[e]);
  for (atvi_idx i = 0; i < l->k; i++) z += log(l->scale[l->free[i]]);
  for (atvi_idx j = 0; j < l->d; j++) {
    if (!info->at_bound[j]) continue;
    double rate = fabs(l->slope[j]) / l->scale[j], width = t->param[j].upper - t->param[j].lower;
    z += rate * width < 1e-9 ? log(width) : log(-expm1(-rate * width) / rate);
  }
  return z;
}
