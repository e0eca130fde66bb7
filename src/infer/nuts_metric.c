/* SPDX-License-Identifier: MIT */
#include "infer/nuts_metric.h"
#include "infer/vi_tuning.h"
#include "math/linalg.h"
#include <math.h>
#include <string.h>

enum {
  SPAN =
      32, /* directions of the widest of x, and of g, at most: eigenvalues of matrices twice as large are sought */
  POWERS =
      4, /* products with the covariance by which the widest are found: neighbours need not be told apart */
};
/* Covariances have this many places more, of ATVI_TINY of the typical size in every direction, so that
 * directions in which no place is have a variance. */
#define SHRINK 5.0

static atvi_idx span_most(atvi_idx d) { return d < 2 * SPAN ? d : 2 * SPAN; }

bool atvi_infer_nuts_metric_new(atvi_pool *pool, atvi_idx d, atvi_idx n_most, atvi_nuts_metric *m) {
  atvi_idx r = span_most(d);
  *m = (atvi_nuts_metric){.d = d, .n_most = n_most};
  m->scale = atvi_pool_take(pool, (size_t)d, sizeof(double));
  m->dir = atvi_pool_take(pool, (size_t)(r * d), sizeof(double));
  m->stretch = atvi_pool_take(pool, (size_t)r, sizeof(double));
  m->work = atvi_pool_take(pool, (size_t)(r * d + 6 * r * r + r + r * n_most), sizeof(double));
  if (atvi_pool_failed(pool)) return false;
  for (atvi_idx i = 0; i < d; i++) m->scale[i] = 1;
  return true;
}

/* ---- the map ---- */

/* x += U (stretch^power - 1) U' x, in place. */
static void along(const atvi_nuts_metric *m, atvi_idx n, int power, double *x) {
  for (atvi_idx k = 0; k < m->rank; k++) {
    const double *u = m->dir + k * m->d;
    double by = (power > 0 ? m->stretch[k] : 1 / m->stretch[k]) - 1;
    for (atvi_idx from = 0; from < n; from += ATVI_LANES) {
      atvi_idx B = n - from < ATVI_LANES ? n - from : ATVI_LANES;
      double dot[ATVI_LANES] = {0};
      for (atvi_idx j = 0; j < m->d; j++)
        for (atvi_idx b = 0; b < B; b++) dot[b] += u[j] * x[j * n + from + b];
      for (atvi_idx b = 0; b < B; b++) dot[b] *= by;
      for (atvi_idx j = 0; j < m->d; j++)
        for (atvi_idx b = 0; b < B; b++) x[j * n + from + b] += u[j] * dot[b];
    }
  }
}

static void scaled(const atvi_nuts_metric *m, atvi_idx n, int power, double *x) {
  for (atvi_idx j = 0; j < m->d; j++) {
    double by = power > 0 ? m->scale[j] : 1 / m->scale[j];
    for (atvi_idx b = 0; b < n; b++) x[j * n + b] *= by;
  }
}

void atvi_infer_nuts_metric_out(const atvi_nuts_metric *m, atvi_idx n, const double *y, double *x) {
  if (x != y) memcpy(x, y, (size_t)(m->d * n) * sizeof *x);
  along(m, n, 1, x);
  scaled(m, n, 1, x);
}

void atvi_infer_nuts_metric_in(const atvi_nuts_metric *m, atvi_idx n, const double *x, double *y) {
  if (x != y) memcpy(y, x, (size_t)(m->d * n) * sizeof *y);
  scaled(m, n, -1, y);
  along(m, n, -1, y);
}

void atvi_infer_nuts_metric_adjoint(const atvi_nuts_metric *m, atvi_idx n, double *g) {
  scaled(m, n, 1, g);
  along(m, n, 1, g);
}

void atvi_infer_nuts_metric_adjoint_back(const atvi_nuts_metric *m, atvi_idx n, double *g) {
  along(m, n, -1, g);
  scaled(m, n, -1, g);
}

/* ---- learning ---- */

/* Row `row` of q[rows][d] less its parts along the rows before it, of length 1; false: nothing is left. */
static bool orthogonal(atvi_idx d, atvi_idx row, double *q) {
  double *a = q + row * d, before = 0, length = 0;
  for (atvi_idx j = 0; j < d; j++) before += a[j] * a[j];
  for (int twice = 0; twice < 2; twice++)
    for (atvi_idx k = 0; k < row; k++) {
      double dot = 0;
      for (atvi_idx j = 0; j < d; j++) dot += a[j] * q[k * d + j];
      for (atvi_idx j = 0; j < d; j++) a[j] -= dot * q[k * d + j];
    }
  for (atvi_idx j = 0; j < d; j++) length += a[j] * a[j];
  if (!(length > ATVI_ROUNDING * before)) return false;
  for (atvi_idx j = 0; j < d; j++) a[j] /= sqrt(length);
  return true;
}

/* to[r][n] = q[r][d] x[d][n] */
static void project(atvi_idx r, atvi_idx d, atvi_idx n, const double *q, const double *x, double *to) {
  memset(to, 0, (size_t)(r * n) * sizeof *to);
  for (atvi_idx k = 0; k < r; k++)
    for (atvi_idx j = 0; j < d; j++) {
      double c = q[k * d + j];
      for (atvi_idx b = 0; b < n && c != 0; b++) to[k * n + b] += c * x[j * n + b];
    }
}

/* q[r][d] spans about the widest directions of x[d][n], as far as products with its covariance make them from
 * some of the places. Returns how many there are. room[n] */
static atvi_idx widest(atvi_idx r, atvi_idx d, atvi_idx n, const double *x, double *q, double *room) {
  atvi_idx kept = 0;
  if (r > n) r = n;
  for (atvi_idx k = 0; k < r; k++)
    for (atvi_idx j = 0; j < d; j++) q[k * d + j] = x[j * n + k * n / r];
  for (int power = 0; power < POWERS; power++) {
    kept = 0;
    for (atvi_idx k = 0; k < r; k++) {
      if (kept < k) memcpy(q + kept * d, q + k * d, (size_t)d * sizeof *q);
      kept += orthogonal(d, kept, q);
    }
    r = kept;
    for (atvi_idx k = 0; k < r && power + 1 < POWERS; k++) {
      project(1, d, n, q + k * d, x, room);
      for (atvi_idx j = 0; j < d; j++) {
        double dot = 0;
        for (atvi_idx b = 0; b < n; b++) dot += x[j * n + b] * room[b];
        q[k * d + j] = dot / (double)n;
      }
    }
  }
  return kept;
}

/* c[r][r] of the projections of x; returns the sum of their squares. */
static double covariance(atvi_idx r, atvi_idx d, atvi_idx n, const double *q, const double *x, double *room,
                         double *c) {
  double size = 0, square = 0;
  for (atvi_idx i = 0; i < d * n; i++) size += x[i] * x[i] / (double)(d * n);
  project(r, d, n, q, x, room);
  for (atvi_idx i = 0; i < r * n; i++) square += room[i] * room[i];
  for (atvi_idx i = 0; i < r; i++)
    for (atvi_idx k = 0; k <= i; k++) {
      double sum = i == k ? SHRINK * ATVI_TINY * size : 0;
      for (atvi_idx b = 0; b < n; b++) sum += room[i * n + b] * room[k * n + b];
      c[i * r + k] = c[k * r + i] = sum / ((double)n * size);
    }
  return square;
}

/* a[r][r] = v f(w) v' */
static void compose(atvi_idx r, const double *v, const double *w, double *a) {
  memset(a, 0, (size_t)(r * r) * sizeof *a);
  for (atvi_idx i = 0; i < r; i++)
    for (atvi_idx k = 0; k < r; k++)
      for (atvi_idx e = 0; e < r; e++) a[i * r + k] += v[i * r + e] * w[e] * v[k * r + e];
}

static void multiply(atvi_idx r, const double *a, const double *b, double *c) {
  memset(c, 0, (size_t)(r * r) * sizeof *c);
  for (atvi_idx i = 0; i < r; i++)
    for (atvi_idx e = 0; e < r; e++)
      for (atvi_idx k = 0; k < r; k++) c[i * r + k] += a[i * r + e] * b[e * r + k];
}

/* The M with M cg M = cx: cg^-1/2 (cg^1/2 cx cg^1/2)^1/2 cg^-1/2. Its eigenvectors are the columns of v.
 * room[3 r^2] */
static void balance(atvi_idx r, double *cx, double *cg, double *w, double *v, double *room) {
  double *root = room, *inverse = root + r * r, *a = inverse + r * r;
  atvi_math_eigen_sym(r, cg, w, v);
  for (atvi_idx e = 0; e < r; e++) w[e] = sqrt(fmax(w[e], ATVI_ROUNDING));
  compose(r, v, w, root);
  for (atvi_idx e = 0; e < r; e++) w[e] = 1 / w[e];
  compose(r, v, w, inverse);
  multiply(r, root, cx, a);
  multiply(r, a, root, cx);
  atvi_math_eigen_sym(r, cx, w, v);
  for (atvi_idx e = 0; e < r; e++) w[e] = sqrt(fmax(w[e], 0));
  compose(r, v, w, a);
  multiply(r, inverse, a, cx);
  multiply(r, cx, inverse, a);
  atvi_math_eigen_sym(r, a, w, v);
}

static void learn_scales(atvi_nuts_metric *m, atvi_idx n, double *x, double *g) {
  for (atvi_idx j = 0; j < m->d; j++) {
    double vx = 0, vg = 0;
    for (atvi_idx b = 0; b < n; b++) vx += x[j * n + b] * x[j * n + b], vg += g[j * n + b] * g[j * n + b];
    double scale = sqrt(sqrt(vx / vg));
    bool known = scale > 0 && isfinite(scale);
    if (known) m->scale[j] = scale;
    for (atvi_idx b = 0; b < n; b++) {
      x[j * n + b] *= known ? 1 / m->scale[j] : 0;
      g[j * n + b] *= known ? m->scale[j] : 0;
    }
  }
}

/* The widest directions of x and of g together, to q[2 r][d]: all of them where there are no more. */
static atvi_idx span(const atvi_nuts_metric *m, atvi_idx n, const double *x, const double *g, double *q,
                     double *room) {
  atvi_idx d = m->d, most = span_most(d), kept = 0;
  if (most == d) {
    memset(q, 0, (size_t)(d * d) * sizeof *q);
    for (atvi_idx j = 0; j < d; j++) q[j * d + j] = 1;
    return d;
  }
  atvi_idx of_x = widest(SPAN, d, n, x, q, room), of_g = widest(SPAN, d, n, g, q + of_x * d, room);
  for (atvi_idx k = 0; k < of_x + of_g; k++) {
    memmove(q + kept * d, q + k * d, (size_t)d * sizeof *q);
    kept += orthogonal(d, kept, q);
  }
  return kept;
}

/* What counts as neither wide nor narrow: the median over all directions, where those outside the span have
 * what their squares say. A scale has the variance of all directions in it, and one that is very wide makes
 * all others look narrow. w[r] ascending */
static double typical(const atvi_nuts_metric *m, atvi_idx r, atvi_idx n, const double *x, const double *g,
                      const double *square, const double *w) {
  atvi_idx outside = m->d - r, middle = m->d / 2;
  double sx = 0, sg = 0;
  if (outside == 0) return w[middle];
  for (atvi_idx i = 0; i < m->d * n; i++) sx += x[i] * x[i], sg += g[i] * g[i];
  /* the two squares are of x and of g in the span */
  double rest = sqrt(fmax(sx - square[0], 0) / (sg - square[1]));
  if (!(rest > 0) || !isfinite(rest)) return 1;
  atvi_idx below = 0;
  while (below < r && w[below] < rest) below++;
  if (middle < below) return w[middle];
  return middle < below + outside ? rest : w[middle - outside];
}

void atvi_infer_nuts_metric_learn(atvi_nuts_metric *m, atvi_idx n, double *x, double *g) {
  atvi_idx d = m->d, most = span_most(d);
  double *q = m->work, *cx = q + most * d, *cg = cx + most * most, *v = cg + most * most,
         *room = v + most * most, *w = room + 3 * most * most, *shadow = w + most;
  ATVI_ASSERT(n <= m->n_most);
  m->rank = 0;
  learn_scales(m, n, x, g);
  if (n < 2) return;
  atvi_idx r = span(m, n, x, g, q, shadow);
  double square[2] = {covariance(r, d, n, q, x, shadow, cx), covariance(r, d, n, q, g, shadow, cg)};
  balance(r, cx, cg, w, v, room);
  double usual = typical(m, r, n, x, g, square, w);
  if (!(usual > 0) || !isfinite(usual)) return;
  for (atvi_idx j = 0; j < d; j++) m->scale[j] *= sqrt(usual);
  for (atvi_idx e = 0; e < r; e++) {
    w[e] /= usual;
    /* half or twice the usual variance: trajectories that are shorter by its root pay for a direction in the
     * metric */
    if (!isfinite(w[e]) || !(fmax(w[e], 1 / w[e]) > 1 / ATVI_HALF)) continue;
    double *u = m->dir + m->rank * d;
    memset(u, 0, (size_t)d * sizeof *u);
    for (atvi_idx k = 0; k < r; k++)
      for (atvi_idx j = 0; j < d; j++) u[j] += v[k * r + e] * q[k * d + j];
    m->stretch[m->rank++] = sqrt(w[e]);
  }
}
