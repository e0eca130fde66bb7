/* SPDX-License-Identifier: MIT */
/* Mean and variance for groups of points, and their adjoint; several points together.
 *
 *   k = k(x), v = L^-1 k, share = 1 + g - |v|^2 + dropped, mean = mean_0 + B' W' k      (B: the basis, or I; dropped: 0 without)
 *   k_bar = W B mean_bar - 2 share_bar L'^-1 v
 *
 * The sum of squares, unlike k' K^-1 k, cannot lose accuracy by cancellation, and half of L^-1 is zero: fewer
 * products than with K^-1, at better accuracy. Time goes into the products with W; everything else is a few
 * percent. */
#include "gp/emulator_detail.h"
#include "math/linalg.h"
#include <math.h>
#include <string.h>

enum { P = ATVI_GP_PANEL, G = ATVI_EM_GROUP };

static atvi_em_packed shape(atvi_idx rows, atvi_idx cols) {
  return (atvi_em_packed){.rows = rows, .cols = cols};
}

static void take(atvi_arena *a, atvi_em_packed *p) { ATVI_TAKE(a, p->data, atvi_gp_em_packed_size(p)); }

static atvi_em_work *carve(atvi_arena *a, const atvi_emulator *em, atvi_idx n_row, bool own) {
  atvi_em_work *o, head = {.n_row = n_row, .cols = G, .w = em->w};
  atvi_idx n = em->n;
  ATVI_TAKE(a, o, 1);
  ATVI_TAKE(a, head.mean, n_row);
  ATVI_TAKE(a, head.p, em->d * G);
  ATVI_TAKE(a, head.p_bar, em->d * G);
  ATVI_TAKE(a, head.k, n * G);
  ATVI_TAKE(a, head.v, n * G);
  ATVI_TAKE(a, head.k_bar, n * G);
  ATVI_TAKE(a, head.spill, ATVI_GP_PANEL * G);
  if (own) {
    head.w = shape(n_row, n);
    take(a, &head.w);
  }
  if (em->basis) {
    head.base = shape(n_row, em->q);
    take(a, &head.base);
    ATVI_TAKE(a, head.coef, em->q * G);
  }
  if (o) *o = head;
  return o;
}

/* Rows row[] (NULL: all) of W' or B'. */
static void fill(const atvi_emulator *em, const atvi_idx *row, atvi_em_packed *a) {
  for (atvi_idx i = 0; i < a->rows; i++) {
    atvi_idx r = row ? row[i] : i;
    for (atvi_idx j = 0; j < a->cols; j++) {
      double x = em->basis ? em->basis[j * em->m + r] : atvi_gp_em_packed_get(&em->w, r, j);
      a->data[((i / P) * a->cols + j) * P + i % P] = x;
    }
  }
}

atvi_status atvi_gp_em_work_new(const atvi_emulator *em, atvi_ctx *ctx, atvi_idx n_row, const atvi_idx *row,
                                atvi_em_work **out) {
  *out = NULL;
  if (n_row < 1) return ATVI_FAIL(ctx, ATVI_EINVAL, "emulator: %td rows, want at least 1", n_row);
  bool whole = n_row == em->m;
  for (atvi_idx i = 0; row && i < n_row; i++) {
    if (row[i] < 0 || row[i] >= em->m)
      return ATVI_FAIL(ctx, ATVI_EINVAL, "emulator: row %td is not one of its %td outputs", row[i], em->m);
    whole = whole && row[i] == i;
  }
  if (!row && !whole)
    return ATVI_FAIL(ctx, ATVI_EINVAL, "emulator: %td rows, but it has %td outputs", n_row, em->m);
  atvi_arena a = {0};
  bool own = !whole && !em->basis;
  carve(&a, em, n_row, own);
  a = (atvi_arena){.base = atvi_block(ctx, a.used)};
  if (!a.base) return ATVI_ENOMEM;
  atvi_em_work *w = carve(&a, em, n_row, own);
  w->ctx = ctx;
  for (atvi_idx i = 0; i < n_row; i++) w->mean[i] = em->mean[row ? row[i] : i];
  if (own) fill(em, row, &w->w);
  if (em->basis) fill(em, row, &w->base);
  *out = w;
  return ATVI_OK;
}

void atvi_gp_em_work_free(atvi_em_work *w) {
  if (w) atvi_block_free(w->ctx, w);
}

void atvi_gp_em_use(atvi_em_work *w, int n) {
  int lanes = (n + ATVI_LANES - 1) / ATVI_LANES * ATVI_LANES;
  w->cols = lanes < ATVI_LANES ? ATVI_LANES : lanes > G ? G : lanes;
}

void atvi_gp_em_eval(const atvi_emulator *em, atvi_em_work *w, const double *restrict x,
                     double *restrict mean, double *restrict share) {
  atvi_idx n = em->n, d = em->d;
  double sum[G] = {0};
  for (atvi_idx j = 0; j < d; j++)
    for (int b = 0; b < G; b++) w->p[j * G + b] = x[j * G + b] * em->scale[j];
  em->table->points(em->kernel, n, d, w->cols, em->u, w->p, w->k);
  atvi_gp_em_packed_mul(em->table, &em->root, w->cols, w->k, false, w->v, w->spill);
  for (atvi_idx i = 0; i < n; i++)
    for (int b = 0; b < w->cols; b++) sum[b] += w->v[i * G + b] * w->v[i * G + b];
  for (int b = 0; b < w->cols; b++) share[b] = fmax(0, 1 + em->info.nugget - sum[b]) + em->info.dropped;
  atvi_gp_em_packed_mul(em->table, &w->w, w->cols, w->k, false, em->basis ? w->coef : mean, w->spill);
  if (em->basis) atvi_gp_em_packed_mul(em->table, &w->base, w->cols, w->coef, false, mean, w->spill);
  for (atvi_idx i = 0; i < w->n_row; i++)
    for (int b = 0; b < w->cols; b++) mean[i * G + b] += w->mean[i];
}

void atvi_gp_em_vjp(const atvi_emulator *em, atvi_em_work *w, const double *restrict mean_bar,
                    const double *restrict share_bar, double *restrict x_bar) {
  atvi_idx n = em->n, d = em->d;
  for (atvi_idx i = 0; i < n; i++)
    for (int b = 0; b < w->cols; b++) w->v[i * G + b] *= -2 * share_bar[b];
  if (em->basis) atvi_gp_em_packed_mul_t(em->table, &w->base, w->cols, mean_bar, false, w->coef, w->spill);
  atvi_gp_em_packed_mul_t(em->table, &w->w, w->cols, em->basis ? w->coef : mean_bar, false, w->k_bar,
                          w->spill);
  atvi_gp_em_packed_mul_t(em->table, &em->root, w->cols, w->v, true, w->k_bar, w->spill);
  em->table->points_vjp(em->kernel, n, d, w->cols, em->u, w->p, w->k, w->k_bar, w->p_bar);
  for (atvi_idx j = 0; j < d; j++)
    for (int b = 0; b < G; b++) x_bar[j * G + b] = w->p_bar[j * G + b] * em->scale[j];
}

/* Matrices in the order in which the product with a group of points reads them. */

static atvi_idx least(atvi_idx a, atvi_idx b) { return a < b ? a : b; }

static atvi_idx panels_of(atvi_idx rows) { return (rows + P - 1) / P; }

/* Columns of panel p. */
static atvi_idx width(const atvi_em_packed *a, atvi_idx p) {
  return a->lower ? least((p + 1) * P, a->cols) : a->cols;
}

size_t atvi_gp_em_panel_at(const atvi_em_packed *a, atvi_idx p) {
  atvi_idx widths = p * a->cols, whole = a->cols / P; /* panels of a triangle that are not cut short */
  if (a->lower) widths = P * (least(p, whole) * (least(p, whole) + 1) / 2) + (p > whole ? a->cols : 0);
  return (size_t)widths * P;
}

size_t atvi_gp_em_packed_size(const atvi_em_packed *a) {
  return atvi_gp_em_panel_at(a, panels_of(a->rows)) + (size_t)P * P;
}

void atvi_gp_em_pack(atvi_em_packed *a, const double *src, atvi_idx ld_i, atvi_idx ld_j) {
  for (atvi_idx p = 0; p < panels_of(a->rows); p++) {
    double *to = a->data + atvi_gp_em_panel_at(a, p);
    for (atvi_idx j = 0; j < width(a, p); j++)
      for (atvi_idx r = 0; r < P; r++) {
        atvi_idx i = p * P + r;
        to[j * P + r] = i >= a->rows || (a->lower && j > i) ? 0 : src[i * ld_i + j * ld_j];
      }
  }
}

double atvi_gp_em_packed_get(const atvi_em_packed *a, atvi_idx i, atvi_idx j) {
  if (j >= width(a, i / P)) return 0;
  return a->data[atvi_gp_em_panel_at(a, i / P) + (size_t)(j * P + i % P)];
}

void atvi_gp_em_packed_mul(const atvi_gp_table *table, const atvi_em_packed *a, int cols, const double *b,
                           bool add, double *c, double *spill) {
  for (atvi_idx p = 0; p < panels_of(a->rows); p++) {
    atvi_idx rows = least(P, a->rows - p * P);
    double *to = c + p * P * G, *at = rows < P ? spill : to;
    size_t bytes = (size_t)(rows * G) * sizeof *c;
    if (rows < P && add) memcpy(at, to, bytes);
    table->panel(width(a, p), cols, a->data + atvi_gp_em_panel_at(a, p), b, add, at);
    if (rows < P) memcpy(to, at, bytes);
  }
}

void atvi_gp_em_packed_mul_t(const atvi_gp_table *table, const atvi_em_packed *a, int cols, const double *b,
                             bool add, double *c, double *spill) {
  for (atvi_idx j = 0; j < a->cols; j += P) {
    atvi_idx wide = least(P, a->cols - j), p = a->lower ? j / P : 0;
    double *to = c + j * G, *at = wide < P ? spill : to;
    size_t bytes = (size_t)(wide * G) * sizeof *c;
    if (wide < P && add) memcpy(at, to, bytes);
    table->across(a->rows - p * P, cols, a->data + atvi_gp_em_panel_at(a, p) + j * P, width(a, p) * P,
                  a->lower ? P * P : 0, b + p * P * G, add, at);
    if (wide < P) memcpy(to, at, bytes);
  }
}

/* What the runs leave open of the output at several points together, and which runs it rests on.
 *
 * With v = L^-1 k(x), K = L L', the covariance of x and x' given the runs is k(x, x') + g [x = x'] - v(x)'
 * v(x'), and the mean at x is a sum over runs with the weights K^-1 k(x) = L'^-1 v. Their squares, as
 * shares, tell which runs the prediction is made of: neighbours screen what is behind them, however long
 * the correlation.
 *
 * To a simulator without noise a nugget stands for what changes within less than the distance between
 * runs, and so it is taken here: g [x = x'] is smoothed over that distance, near the points. So is what a
 * basis drops. */

/* Runs whose nearest neighbours are looked for. */
enum { SPACED = 1000 };
/* The nugget at a point is correlated with that at another one by exp(-FINE r^2): 0.05 at the distance r =
 * 1 between neighbouring runs. */
static const double FINE = 3;

typedef struct {
  const atvi_emulator *em;
  atvi_idx B;
  const double *x, *weight;
  /* [B][n] */
  double *v;
  /* [n][G] */
  double *by_run;
  double *near;
} joint;

/* The shares of the runs in the predictions of a group, of which `some` points are real. */
static void count_runs(const joint *a, atvi_em_work *w, atvi_idx first, atvi_idx some) {
  const atvi_emulator *em = a->em;
  atvi_gp_em_packed_mul_t(em->table, &em->root, w->cols, w->v, false, a->by_run, w->spill);
  for (atvi_idx b = 0; b < some; b++) {
    double sum = 0;
    for (atvi_idx i = 0; i < em->n; i++) sum += a->by_run[i * G + b] * a->by_run[i * G + b];
    for (atvi_idx i = 0; sum > 0 && i < em->n; i++)
      a->near[i] += a->weight[first + b] * a->by_run[i * G + b] * a->by_run[i * G + b] / sum;
  }
}

static void walk(const joint *a, atvi_em_work *w, double *x) {
  const atvi_emulator *em = a->em;
  _Alignas(ATVI_ALIGN) double mean[G];
  double share[G];
  memset(a->near, 0, (size_t)em->n * sizeof *a->near);
  for (atvi_idx first = 0; first < a->B; first += G) {
    atvi_idx some = a->B - first < G ? a->B - first : G;
    for (atvi_idx j = 0; j < em->d; j++)
      for (atvi_idx b = 0; b < G; b++) x[j * G + b] = a->x[j * a->B + first + (b < some ? b : 0)];
    atvi_gp_em_eval(em, w, x, mean, share);
    for (atvi_idx b = 0; b < some; b++)
      for (atvi_idx i = 0; i < em->n; i++) a->v[(first + b) * em->n + i] = w->v[i * G + b];
    count_runs(a, w, first, some);
  }
}

static double distance2(const double *a, const double *b, atvi_idx d) {
  double sum = 0;
  for (atvi_idx j = 0; j < d; j++) sum += (a[j] - b[j]) * (a[j] - b[j]);
  return sum;
}

/* Mean square of the distance to the nearest other run, over the runs that predictions are made of. */
static double spacing2(const joint *a) {
  const atvi_emulator *em = a->em;
  atvi_idx n = em->n, step = 1 + n / SPACED;
  double sum = 0, all = 0;
  for (atvi_idx i = 0; i < n; i += step) {
    double least = HUGE_VAL;
    for (atvi_idx k = 0; k < n; k++)
      if (k != i) least = fmin(least, distance2(em->u + i * em->d, em->u + k * em->d, em->d));
    sum += a->near[i] * least, all += a->near[i];
  }
  return all > 0 ? sum / all : 0;
}

/* Lower triangle of cov[B][B], before the runs; u[B][d]. */
static void prior(const joint *a, double *u, double *cov) {
  const atvi_emulator *em = a->em;
  atvi_idx B = a->B, d = em->d;
  double fine = spacing2(a);
  for (atvi_idx b = 0; b < B; b++)
    for (atvi_idx j = 0; j < d; j++) u[b * d + j] = a->x[j * B + b] * em->scale[j];
  for (atvi_idx b = 0; b < B; b++)
    for (atvi_idx c = 0; c <= b; c++) {
      double r2 = distance2(u + b * d, u + c * d, d), near = r2 > 0 ? exp(-FINE * r2 / fine) : 1;
      cov[b * B + c] =
          atvi_gp_corr_ref(em->kernel, d, u + b * d, u + c * d) + (em->info.nugget + em->info.dropped) * near;
    }
}

atvi_status atvi_gp_emulator_joint(atvi_ctx *ctx, const atvi_emulator *em, atvi_idx B, const double *x,
                                   const double *weight, double *cov, double *near) {
  const atvi_idx row = 0, n = em->n, d = em->d;
  if (B < 1 || !x || !weight || !cov || !near)
    return ATVI_FAIL(ctx, ATVI_EINVAL, "emulator: the covariance of %td points", B);
  atvi_em_work *w;
  ATVI_TRY(atvi_math_blas_begin(ctx));
  ATVI_TRY(atvi_gp_em_work_new(em, ctx, 1, &row, &w));
  double *room = atvi_block(ctx, (size_t)((n + d) * G + B * (n + d)) * sizeof *room);
  if (!room) {
    atvi_gp_em_work_free(w);
    return ATVI_ENOMEM;
  }
  joint a = {em, B, x, weight, .by_run = room, .v = room + (n + d) * G, .near = near};
  walk(&a, w, room + n * G);
  prior(&a, a.v + B * n, cov);
  atvi_math_blas_square(B, n, -1, a.v, n, 1, cov, B);
  atvi_math_blas_mirror(B, cov, B);
  for (atvi_idx b = 0; b < B; b++) cov[b * B + b] = fmax(em->info.dropped, cov[b * B + b]);
  atvi_block_free(ctx, room);
  atvi_gp_em_work_free(w);
  return ATVI_OK;
}
