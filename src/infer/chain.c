/* SPDX-License-Identifier: MIT */
#include "infer/kin.h"
#include "infer/vi_tuning.h"
#include "math/linalg.h"
#include <math.h>
#include <string.h>

enum { L = ATVI_LANES };

/* Eight points. Entry (i, i + k) of an upper triangle is at [i][k]. */
typedef struct {
  atvi_idx n, row;           /* members, entries of a row */
  double *u, *du;            /* [n][row][L] K, then U; and adjoint */
  double *c, *b, *s, *x, *q; /* [n][L] c, b, s; z or theta; U^-1 of what K's mean is multiplied by */
  double *dc, *db, *ds, *p;  /* [n][L] */
  double *gain, *dgain;      /* [L] */
} lanes;

size_t atvi_infer_chain_work(atvi_idx n) {
  atvi_idx row = n < ATVI_CHAIN_BAND ? n : ATVI_CHAIN_BAND;
  return (size_t)((2 * row + 9) * n * L + 2 * L);
}

static lanes lay(const atvi_kin *k, double *work) {
  lanes w = {.n = k->n, .row = k->width + 1};
  double **part[] = {&w.c, &w.b, &w.s, &w.x, &w.q, &w.dc, &w.db, &w.ds, &w.p};
  for (size_t m = 0; m < sizeof part / sizeof *part; m++, work += w.n * L) *part[m] = work;
  w.u = work;
  w.du = work + w.n * w.row * L;
  w.gain = w.du + w.n * w.row * L;
  w.dgain = w.gain + L;
  return w;
}

static double *at(const lanes *w, double *u, atvi_idx i, atvi_idx j) { return u + (i * w->row + j - i) * L; }

/* How many columns of row i are right of the diagonal. */
static atvi_idx right(const lanes *w, atvi_idx i) {
  return w->n - 1 - i < w->row - 1 ? w->n - 1 - i : w->row - 1;
}

static atvi_idx first_row(const lanes *w, atvi_idx j) { return j < w->row - 1 ? 0 : j - w->row + 1; }

/* Rows of eight points; those that are missing repeat the last. */
static void load(const atvi_kin *k, atvi_idx B, atvi_idx first, const double *from, double *to) {
  for (atvi_idx i = 0; i < k->n; i++)
    for (atvi_idx l = 0; l < L; l++) to[i * L + l] = from[k->of[i] * B + (first + l < B ? first + l : B - 1)];
}

static void store(const atvi_kin *k, atvi_idx B, atvi_idx first, const double *from, double *to) {
  for (atvi_idx i = 0; i < k->n; i++)
    for (atvi_idx l = 0; l < L && first + l < B; l++) to[k->of[i] * B + first + l] = from[i * L + l];
}

static void less(const double *a, const double *b, double *to) {
  for (int l = 0; l < L; l++) to[l] -= a[l] * b[l];
}

/* U of K. */
static void factor(const atvi_kin *k, const lanes *w) {
  for (atvi_idx i = 0; i < w->n * w->row; i++)
    for (int l = 0; l < L; l++) w->u[i * L + l] = k->known ? w->gain[l] * k->g[i] : 0;
  for (atvi_idx i = 0; i < w->n; i++) {
    atvi_idx m = k->before[i];
    for (int l = 0; l < L; l++) {
      double s = w->s[i * L + l], d = s > 0 ? 1 / (s * s) : NAN, b = w->b[i * L + l];
      at(w, w->u, i, i)[l] += d;
      if (m < 0) continue;
      at(w, w->u, m, i)[l] -= b * d;
      at(w, w->u, m, m)[l] += b * b * d;
    }
  }
  for (atvi_idx j = w->n - 1; j >= 0; j--) {
    double *diag = at(w, w->u, j, j);
    for (atvi_idx m = 1; m <= right(w, j); m++) less(diag + m * L, diag + m * L, diag);
    for (int l = 0; l < L; l++) diag[l] = sqrt(diag[l]);
    for (atvi_idx i = j - 1; i >= first_row(w, j); i--) {
      double *v = at(w, w->u, i, j);
      for (atvi_idx m = j + 1; m <= i + right(w, i); m++) less(at(w, w->u, i, m), at(w, w->u, j, m), v);
      for (int l = 0; l < L; l++) v[l] /= diag[l];
    }
  }
}

/* x becomes U^-1 x. */
static void solve(const lanes *w, double *x) {
  for (atvi_idx i = w->n - 1; i >= 0; i--) {
    const double *u = at(w, w->u, i, i);
    for (atvi_idx m = 1; m <= right(w, i); m++) less(u + m * L, x + (i + m) * L, x + i * L);
    for (int l = 0; l < L; l++) x[i * L + l] /= u[l];
  }
}

/* x becomes U'^-1 x. */
static void solve_back(const lanes *w, double *x) {
  for (atvi_idx i = 0; i < w->n; i++) {
    for (atvi_idx m = first_row(w, i); m < i; m++) less(at(w, w->u, m, i), x + m * L, x + i * L);
    for (int l = 0; l < L; l++) x[i * L + l] /= at(w, w->u, i, i)[l];
  }
}

/* q = U^-1 (A' D c + h). */
static void centre(const atvi_kin *k, const lanes *w) {
  for (atvi_idx i = 0; i < w->n; i++)
    for (int l = 0; l < L; l++) w->q[i * L + l] = k->known ? w->gain[l] * k->h[i] : 0;
  for (atvi_idx i = 0; i < w->n; i++) {
    atvi_idx m = k->before[i];
    for (int l = 0; l < L; l++) {
      double s = w->s[i * L + l], v = w->c[i * L + l] / (s * s);
      w->q[i * L + l] += v;
      if (m >= 0) w->q[m * L + l] -= w->b[i * L + l] * v;
    }
  }
  solve(w, w->q);
}

static void begin(const atvi_kin *k, atvi_idx B, atvi_idx first, const atvi_chain_place *p, const lanes *w) {
  load(k, B, first, p->loc, w->c);
  load(k, B, first, p->scale, w->s);
  load(k, B, first, p->slope, w->b);
  for (atvi_idx l = 0; l < L; l++) w->gain[l] = p->gain[first + l < B ? first + l : B - 1];
  factor(k, w);
  centre(k, w);
}

/* And theta of z, in w->x. */
static void to_theta(const atvi_kin *k, atvi_idx B, atvi_idx first, const atvi_chain_place *p,
                     const double *z, lanes *w) {
  begin(k, B, first, p, w);
  load(k, B, first, z, w->x);
  for (atvi_idx i = 0; i < w->n * L; i++) w->x[i] += w->q[i];
  solve_back(w, w->x);
}

void atvi_infer_chain_fwd(const atvi_kin *k, atvi_idx B, const atvi_chain_place *p, double *theta,
                          double *ldj, double *work) {
  lanes w = lay(k, work);
  for (atvi_idx first = 0; first < B; first += L) {
    to_theta(k, B, first, p, theta, &w);
    store(k, B, first, w.x, theta);
    for (atvi_idx i = 0; i < w.n; i++)
      for (atvi_idx l = 0; l < L && first + l < B; l++) ldj[first + l] -= log(at(&w, w.u, i, i)[l]);
  }
}

void atvi_infer_chain_inv(const atvi_kin *k, atvi_idx B, const atvi_chain_place *p, double *theta,
                          double *work) {
  lanes w = lay(k, work);
  for (atvi_idx first = 0; first < B; first += L) {
    begin(k, B, first, p, &w);
    load(k, B, first, theta, w.x);
    for (atvi_idx i = 0; i < w.n; i++) {
      double *z = w.p + i * L;
      for (int l = 0; l < L; l++) z[l] = -w.q[i * L + l];
      for (atvi_idx m = first_row(&w, i); m <= i; m++)
        for (int l = 0; l < L; l++) z[l] += at(&w, w.u, m, i)[l] * w.x[m * L + l];
    }
    store(k, B, first, w.p, theta);
  }
}

/* du, adjoint of U, becomes that of K: the steps of factor in reverse. */
static void factor_vjp(const lanes *w) {
  for (atvi_idx j = 0; j < w->n; j++) {
    const double *diag = at(w, w->u, j, j);
    double *d_diag = at(w, w->du, j, j);
    for (atvi_idx i = first_row(w, j); i < j; i++) {
      double *dv = at(w, w->du, i, j);
      for (int l = 0; l < L; l++) dv[l] /= diag[l];
      less(dv, at(w, w->u, i, j), d_diag);
      for (atvi_idx m = j + 1; m <= i + right(w, i); m++) {
        less(dv, at(w, w->u, j, m), at(w, w->du, i, m));
        less(dv, at(w, w->u, i, m), at(w, w->du, j, m));
      }
    }
    for (int l = 0; l < L; l++) d_diag[l] /= 2 * diag[l];
    for (atvi_idx m = 1; m <= right(w, j); m++)
      for (int l = 0; l < L; l++) d_diag[m * L + l] -= 2 * d_diag[l] * diag[m * L + l];
  }
}

/* From adjoints of K, du, and of A' D c + h, p. */
static void place_vjp(const atvi_kin *k, const lanes *w) {
  for (atvi_idx i = 0; i < w->n; i++) {
    atvi_idx m = k->before[i];
    for (int l = 0; l < L; l++) {
      double s = w->s[i * L + l], d = 1 / (s * s), b = m < 0 ? 0 : w->b[i * L + l], c = w->c[i * L + l];
      double p_m = m < 0 ? 0 : w->p[m * L + l], off = m < 0 ? 0 : at(w, w->du, m, i)[l];
      double low = m < 0 ? 0 : at(w, w->du, m, m)[l], p = w->p[i * L + l] - b * p_m;
      double dd = at(w, w->du, i, i)[l] - b * off + b * b * low + c * p;
      w->dc[i * L + l] = d * p;
      w->db[i * L + l] = d * (2 * b * low - off - c * p_m);
      w->ds[i * L + l] = -2 * dd * d / s;
    }
  }
  for (int l = 0; l < L; l++) w->dgain[l] = 0;
  for (atvi_idx i = 0; i < w->n && k->known; i++)
    for (int l = 0; l < L; l++) {
      w->dgain[l] += w->p[i * L + l] * k->h[i];
      for (atvi_idx m = 0; m <= right(w, i); m++)
        w->dgain[l] += at(w, w->du, i, i + m)[l] * k->g[i * w->row + m];
    }
}

void atvi_infer_chain_vjp(const atvi_kin *k, atvi_idx B, const atvi_chain_place *p, const double *z,
                          const double *dldj, double *dtheta, const atvi_chain_adjoint *to, double *work) {
  lanes w = lay(k, work);
  for (atvi_idx first = 0; first < B; first += L) {
    to_theta(k, B, first, p, z, &w);
    load(k, B, first, dtheta, w.p);
    solve(&w, w.p);
    store(k, B, first, w.p, dtheta);
    memset(w.du, 0, (size_t)(w.n * w.row * L) * sizeof *w.du);
    for (atvi_idx i = 0; i < w.n; i++)
      for (atvi_idx m = 0; m <= right(&w, i); m++)
        less(w.p + (i + m) * L, w.x + i * L, at(&w, w.du, i, i + m));
    solve_back(&w, w.p);
    for (atvi_idx i = 0; i < w.n; i++) {
      for (atvi_idx m = 0; m <= right(&w, i); m++)
        less(w.p + i * L, w.q + (i + m) * L, at(&w, w.du, i, i + m));
      for (int l = 0; l < L; l++)
        at(&w, w.du, i, i)[l] -= dldj[first + l < B ? first + l : B - 1] / at(&w, w.u, i, i)[l];
    }
    factor_vjp(&w);
    place_vjp(k, &w);
    store(k, B, first, w.dc, to->loc);
    store(k, B, first, w.db, to->slope);
    store(k, B, first, w.ds, to->scale);
    for (atvi_idx l = 0; l < L && first + l < B; l++) to->gain[first + l] = w.dgain[l];
  }
}

void atvi_infer_chain_gain(const atvi_kin *k, atvi_idx B, const double *theta, double *gain) {
  for (atvi_idx j = 0; j < B; j++) {
    double sum = 0;
    for (atvi_idx m = 0; m < k->n_gain; m++)
      sum += k->power[m] * log(theta[k->gain_of[m] * B + j] / k->gain_at[m]);
    gain[j] = exp(fmin(fmax(sum, -ATVI_FOLDS), ATVI_FOLDS));
  }
}

void atvi_infer_chain_gain_vjp(const atvi_kin *k, atvi_idx B, const double *theta, const double *gain,
                               const double *dgain, double *dtheta) {
  for (atvi_idx m = 0; m < k->n_gain; m++)
    for (atvi_idx j = 0; j < B; j++) {
      bool inside = fabs(log(gain[j])) < 0.999999 * ATVI_FOLDS;
      atvi_idx at = k->gain_of[m] * B + j;
      if (inside) dtheta[at] += dgain[j] * gain[j] * k->power[m] / theta[at];
    }
}

/* ---- what the data say ---- */

/* Negative eigenvalues of g[n][n] become 0. */
static void clip(atvi_idx n, double *g, double *work, double *value) {
  atvi_math_eigen_sym(n, g, value, work);
  for (atvi_idx i = 0; i < n; i++)
    for (atvi_idx j = 0; j <= i; j++) {
      double sum = 0;
      for (atvi_idx m = 0; m < n; m++) sum += fmax(value[m], 0) * work[i * n + m] * work[j * n + m];
      g[i * n + j] = g[j * n + i] = sum;
    }
}

static double beyond(atvi_idx n, const double *g, atvi_idx i, atvi_idx width) {
  double sum = 0;
  for (atvi_idx j = 0; j < n; j++)
    if (j > i + width || j < i - width) sum += fabs(g[i * n + j]);
  return sum;
}

/* The least width outside of which nothing matters. */
static atvi_idx width_of(const atvi_kin *k, const double *scale, const double *g) {
  atvi_idx width = k->least_width, most = k->n < ATVI_CHAIN_BAND ? k->n - 1 : ATVI_CHAIN_BAND - 1;
  for (atvi_idx i = 0; i < k->n; i++) {
    double s = scale[k->of[i]], own = fabs(g[i * k->n + i]) + 1 / (s * s);
    while (width < most && beyond(k->n, g, i, width) > ATVI_TINY * own) width++;
  }
  return width;
}

/* What is left out is added to the diagonal: the difference is diagonally dominant, so that G has no negative
 * eigenvalue if g has none. */
static void cut(const atvi_kin *k, double *g) {
  for (atvi_idx i = 0; i < k->n; i++) {
    g[i * k->n + i] += beyond(k->n, g, i, k->width);
    for (atvi_idx j = 0; j < k->n; j++)
      if (j > i + k->width || j < i - k->width) g[i * k->n + j] = 0;
  }
}

static bool is_positive(atvi_idx n, const double *g, double *work) {
  memcpy(work, g, (size_t)(n * n) * sizeof *g);
  for (atvi_idx i = 0; i < n; i++) work[i * n + i] *= 1 + 1e-10; /* rounding */
  for (atvi_idx i = 0; i < n; i++)
    if (work[i * n + i] == 0) work[i * n + i] = 1; /* not informed at all */
  return atvi_math_cholesky(n, work);
}

void atvi_infer_chain_set(atvi_kin *k, const double *slope, const double *scale, const double *theta,
                          double *g, double *rise, double *work, double *value) {
  const atvi_idx n = k->n;
  for (atvi_idx i = 0; i < n; i++) { /* A' g A and A' rise: those after i have not been added to i yet */
    atvi_idx m = k->before[i];
    if (m < 0) continue;
    double b = slope[k->of[i]];
    for (atvi_idx j = 0; j < n; j++) g[m * n + j] -= b * g[i * n + j];
    for (atvi_idx j = 0; j < n; j++) g[j * n + m] -= b * g[j * n + i];
    rise[m] -= b * rise[i];
  }
  k->width = width_of(k, scale, g);
  cut(k, g);
  if (!is_positive(n, g, work)) {
    clip(n, g, work, value);
    k->width = width_of(k, scale, g);
    cut(k, g);
  }
  for (atvi_idx i = 0; i < n; i++) {
    k->h[i] = rise[i];
    for (atvi_idx j = 0; j < n; j++) k->h[i] += g[i * n + j] * theta[k->of[j]];
    for (atvi_idx m = 0; m <= k->width; m++) k->g[i * (k->width + 1) + m] = i + m < n ? g[i * n + i + m] : 0;
  }
  k->known = true;
}
