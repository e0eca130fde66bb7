/* SPDX-License-Identifier: MIT */
/* Columns   are points that share nothing. At each, every block goes to its maximum given what is common by Newton steps of its own, all
 *           blocks at once: the l-th coordinates of all blocks are moved together, so that differences of gradients give all their Hessians
 *           for the price of the largest. A block goes back if a step did not raise its own part of the density.
 * Integral  h = f_0 + sum_b (f_b - log det(H_b) / 2) at these maxima, but for a constant. Its gradient is that of f, as blocks are at
 *           their maxima, and that of the determinants, from columns on either side of the centre along each column of chol_0; so is
 *           its Hessian, with columns along every two of them for mixed derivatives. */
#include "infer/vi_blocks.h"
#include "math/linalg.h"
#include <math.h>
#include <string.h>

enum {
  WIDTHS =
      (int)ATVI_FAR /* standard deviations up to which the density of a block is looked at for its widths */
};

typedef struct {
  atvi_idx n;
  /* [d][n] where blocks are, the gradient there, and a Newton step. */
  double *x, *g, *step;
  /* [1 + blocks][n] density, what the step promises, and log det of the Hessian. */
  double *f, *rise, *log_det;
  /* [1 + blocks][n] share of the step that is tried. */
  double *share;
  /* The same at the points that are tried. */
  double *tx, *tg, *tstep, *tf, *trise, *tlog_det;
  /* [n][1 + blocks][most][most] factors of the Hessians, and of those tried. */
  double *hess, *thess;
} columns;

/* Room for one evaluation. */
typedef struct {
  atvi_idx cap;
  double *x, *theta, *dx, *log_pi, *prior, *lik, *ldj;
  double *h; /* [most][most] */
} room;

typedef struct atvi_vi_finder {
  atvi_vi_arrow *a;
  columns c;
  room r;
  /* Widths are known. */
  bool scaled;
  /* [common], [common][common] */
  double *grad, *curve, *value, *vector, *move;
  /* Nats by which the integral may still rise from the centre. */
  double gain;
} finder;

static double *reals(atvi_pool *pool, atvi_idx n) { return atvi_pool_take(pool, (size_t)n, sizeof(double)); }

atvi_status atvi_infer_vi_arrow_new(atvi_vi *v, atvi_pool *pool, atvi_vi_arrow *out) {
  atvi_vi_arrow a = {.v = v, .b = &v->space->blocks, .pool = pool};
  atvi_idx n = a.b->n;
  a.piece = atvi_pool_take(pool, (size_t)(1 + n), sizeof *a.piece);
  if (!a.piece) return ATVI_ENOMEM;
  for (atvi_idx i = 0; i < v->d; i++) a.piece[a.b->of[i]].n++;
  const atvi_idx common = a.piece[0].n;
  a.from = reals(pool, common);
  for (atvi_idx b = 0; b <= n; b++) {
    atvi_vi_piece *p = &a.piece[b];
    p->of = atvi_pool_take(pool, (size_t)p->n, sizeof *p->of);
    p->mean = reals(pool, p->n);
    p->slope = reals(pool, p->n * common);
    p->chol = reals(pool, p->n * p->n);
    p->up = reals(pool, p->n);
    p->down = reals(pool, p->n);
    if (atvi_pool_failed(pool)) return ATVI_ENOMEM;
    if (b > 0 && p->n > a.most) a.most = p->n;
    memset(p->slope, 0, (size_t)(p->n * common) * sizeof(double));
    p->n = 0;
  }
  /* Logs first: what comes after them depends on the parameter itself near its bound (vi_blocks.c). */
  for (int rest = 0; rest < 2; rest++)
    for (atvi_idx i = 0; i < v->d; i++) {
      atvi_vi_piece *p = &a.piece[a.b->of[i]];
      if ((a.b->of[i] > 0 || v->space->map[i].kind != ATVI_MAP_LOG) == (rest == 1)) p->of[p->n++] = i;
    }
  *out = a;
  return ATVI_OK;
}

/* ---- blocks ---- */

static bool make(finder *f, atvi_idx n) {
  atvi_pool *pool = f->a->pool;
  atvi_idx d = f->a->v->d, rows = 1 + f->a->b->n, most = f->a->most, common = f->a->piece[0].n;
  columns *c = &f->c;
  room *r = &f->r;
  double **wide[] = {&c->x, &c->g, &c->step, &c->tx, &c->tg, &c->tstep};
  double **row[] = {&c->f, &c->rise, &c->log_det, &c->share, &c->tf, &c->trise, &c->tlog_det};
  for (size_t k = 0; k < sizeof wide / sizeof *wide; k++) *wide[k] = reals(pool, d * n);
  for (size_t k = 0; k < sizeof row / sizeof *row; k++) *row[k] = reals(pool, rows * n);
  c->hess = reals(pool, n * rows * most * most);
  c->thess = reals(pool, n * rows * most * most);
  r->cap = ATVI_BATCH / (1 + 2 * most) > 0 ? ATVI_BATCH : 1 + 2 * most;
  r->x = reals(pool, d * r->cap);
  r->theta = reals(pool, d * r->cap);
  r->dx = reals(pool, d * r->cap);
  r->log_pi = reals(pool, r->cap);
  r->prior = reals(pool, rows * r->cap);
  r->lik = reals(pool, rows * r->cap);
  r->ldj = reals(pool, rows * r->cap);
  r->h = reals(pool, most * most);
  f->grad = reals(pool, common);
  f->move = reals(pool, common);
  f->value = reals(pool, common);
  f->curve = reals(pool, common * common);
  f->vector = reals(pool, common * common);
  return !atvi_pool_failed(pool);
}

/* Of the differences in the l-th coordinate of a block. */
static double step_of(const finder *f, const atvi_vi_piece *p, atvi_idx l) {
  double sum = 0;
  for (atvi_idx k = 0; k <= l; k++) sum += p->chol[l * p->n + k] * p->chol[l * p->n + k];
  return f->scaled ? ATVI_PART_SD * sqrt(sum) : ATVI_STEP;
}

/* H^-1 y in place of y, by the factor l[n][n] of H; returns y' H^-1 y / 2. */
static double solve(atvi_idx n, const double *l, double *y) {
  double half = 0;
  for (atvi_idx i = 0; i < n; i++) {
    for (atvi_idx k = 0; k < i; k++) y[i] -= l[i * n + k] * y[k];
    y[i] /= l[i * n + i];
    half += 0.5 * y[i] * y[i];
  }
  for (atvi_idx i = n - 1; i >= 0; i--) {
    for (atvi_idx k = i + 1; k < n; k++) y[i] -= l[k * n + i] * y[k];
    y[i] /= l[i * n + i];
  }
  return half;
}

/* The same with the covariance of a piece in place of H^-1. */
static double spread(const atvi_vi_piece *p, double *y) {
  double half = 0;
  for (atvi_idx k = 0; k < p->n; k++) {
    y[k] *= p->chol[k * p->n + k];
    for (atvi_idx i = k + 1; i < p->n; i++) y[k] += p->chol[i * p->n + k] * y[i];
    half += 0.5 * y[k] * y[k];
  }
  for (atvi_idx i = p->n - 1; i >= 0; i--) {
    y[i] *= p->chol[i * p->n + i];
    for (atvi_idx k = 0; k < i; k++) y[i] += p->chol[i * p->n + k] * y[k];
  }
  return half;
}

/* Log density of a piece at a point of the last evaluation, of B. */
static double density(const room *r, atvi_idx b, atvi_idx B, atvi_idx at) {
  return r->prior[b * B + at] + r->lik[b * B + at] + r->ldj[b * B + at];
}

/* Where the Hessian of a block of a column is. */
static atvi_idx hess_at(const finder *f, atvi_idx b, atvi_idx j) {
  return (j * (1 + f->a->b->n) + b) * f->a->most * f->a->most;
}

/* Newton's step for one block of a column, from the evaluation at `at` and the differences behind it. */
static void newton(finder *f, atvi_idx b, atvi_idx j, atvi_idx at, atvi_idx B) {
  const atvi_vi_piece *p = &f->a->piece[b];
  const room *r = &f->r;
  columns *c = &f->c;
  atvi_idx n = p->n, nc = c->n;
  double *h = r->h;
  bool known = true;
  c->tf[b * nc + j] = density(r, b, B, at);
  for (atvi_idx l = 0; l < n; l++) {
    known = known && isfinite(r->log_pi[at + 1 + 2 * l]) && isfinite(r->log_pi[at + 2 + 2 * l]);
    for (atvi_idx i = 0; i < n; i++) {
      const double *dx = r->dx + p->of[i] * B + at;
      h[i * n + l] = (dx[2 + 2 * l] - dx[1 + 2 * l]) / (2 * step_of(f, p, l));
    }
  }
  for (atvi_idx i = 0; i < n; i++)
    for (atvi_idx l = 0; l <= i; l++) h[i * n + l] = 0.5 * (h[i * n + l] + h[l * n + i]);
  known = known && atvi_math_cholesky(n, h);
  double y[ATVI_VI_BLOCK_MOST];
  for (atvi_idx i = 0; i < n; i++) y[i] = c->tg[p->of[i] * nc + j];
  double rise = known ? solve(n, h, y) : spread(p, y), log_det = known ? 0 : -2 * p->log_det;
  for (atvi_idx i = 0; i < n && known; i++) log_det += 2 * log(h[i * n + i]);
  for (atvi_idx i = 0; i < n; i++) c->tstep[p->of[i] * nc + j] = y[i];
  c->trise[b * nc + j] = rise;
  c->tlog_det[b * nc + j] = log_det;
  double *keep = c->thess + hess_at(f, b, j);
  keep[0] = NAN;
  if (known) memcpy(keep, h, (size_t)(n * n) * sizeof *h);
}

/* The first B points of the room, with gradients or without. */
static void evaluate(finder *f, atvi_idx B, bool gradient) {
  room *r = &f->r;
  atvi_infer_space_eval(f->a->v->space, &(atvi_space_batch){.B = B,
                                                            .x = r->x,
                                                            .beta = 1,
                                                            .theta = r->theta,
                                                            .log_pi = r->log_pi,
                                                            .dx = gradient ? r->dx : NULL,
                                                            .block_prior = r->prior,
                                                            .block_lik = r->lik,
                                                            .block_ldj = r->ldj});
}

/* All that is known of the columns at tx. */
static void look(finder *f) {
  columns *c = &f->c;
  room *r = &f->r;
  atvi_idx d = f->a->v->d, n = f->a->b->n, per = 1 + 2 * f->a->most, many = r->cap / per;
  for (atvi_idx first = 0; first < c->n; first += many) {
    atvi_idx m = c->n - first < many ? c->n - first : many, B = m * per;
    for (atvi_idx i = 0; i < d; i++)
      for (atvi_idx j = 0; j < m; j++)
        for (atvi_idx k = 0; k < per; k++) r->x[i * B + j * per + k] = c->tx[i * c->n + first + j];
    for (atvi_idx b = 1; b <= n; b++) {
      const atvi_vi_piece *p = &f->a->piece[b];
      for (atvi_idx l = 0; l < p->n; l++)
        for (atvi_idx j = 0; j < m; j++) {
          double *x = r->x + p->of[l] * B + j * per, by = step_of(f, p, l);
          x[1 + 2 * l] += by;
          x[2 + 2 * l] -= by;
        }
    }
    evaluate(f, B, true);
    for (atvi_idx j = 0; j < m; j++) {
      atvi_idx at = j * per;
      for (atvi_idx i = 0; i < d; i++) c->tg[i * c->n + first + j] = r->dx[i * B + at];
      c->tf[first + j] = density(r, 0, B, at);
      for (atvi_idx b = 1; b <= n; b++) newton(f, b, first + j, at, B);
    }
  }
}

/* Takes over what was tried for a block of a column. */
static void accept(finder *f, atvi_idx b, atvi_idx j) {
  columns *c = &f->c;
  const atvi_vi_piece *p = &f->a->piece[b];
  atvi_idx n = c->n, at = b * n + j, hess = hess_at(f, b, j);
  c->f[at] = c->tf[at];
  c->rise[at] = c->trise[at];
  c->log_det[at] = c->tlog_det[at];
  c->share[at] = 1;
  for (atvi_idx i = 0; i < p->n; i++) {
    atvi_idx k = p->of[i] * n + j;
    c->x[k] = c->tx[k];
    c->g[k] = c->tg[k];
    c->step[k] = c->tstep[k];
  }
  if (b > 0) memcpy(c->hess + hess, c->thess + hess, (size_t)(p->n * p->n) * sizeof *c->hess);
}

/* Share of a step that promises `rise` which is `most` standard deviations long. */
static double cut(double rise, double most) { return rise > 0.5 * most * most ? most / sqrt(2 * rise) : 1; }

/* Brings the blocks of all columns, which begin at x, to their maxima. */
static void settle(finder *f) {
  columns *c = &f->c;
  atvi_idx n = f->a->b->n, d = f->a->v->d;
  memcpy(c->tx, c->x, (size_t)(d * c->n) * sizeof *c->x);
  for (atvi_idx k = 0; k < (1 + n) * c->n; k++) c->f[k] = -HUGE_VAL;
  for (int pass = 0; pass < ATVI_NEWTON; pass++) {
    double most = 0;
    look(f);
    for (atvi_idx j = 0; j < c->n; j++) {
      double left = 0;
      accept(f, 0, j);
      for (atvi_idx b = 1; b <= n; b++) {
        atvi_idx at = b * c->n + j;
        if (pass == 0 || c->tf[at] > c->f[at] - ATVI_TINY)
          accept(f, b, j);
        else
          c->share[at] *= 0.3;
        left += c->rise[at];
      }
      most = fmax(most, left);
    }
    if (!(most > ATVI_SLIGHT) || pass + 1 == ATVI_NEWTON) return;
    for (atvi_idx b = 1; b <= n; b++) {
      const atvi_vi_piece *p = &f->a->piece[b];
      for (atvi_idx i = 0; i < p->n; i++)
        for (atvi_idx j = 0; j < c->n; j++) {
          atvi_idx k = p->of[i] * c->n + j;
          c->tx[k] = c->x[k] +
                     c->share[b * c->n + j] * cut(c->rise[b * c->n + j], ATVI_CLIMB_STEP_MOST) * c->step[k];
        }
    }
  }
}

/* h of a column, with what the last steps promise where that is little: far from a maximum it may be
 * anything. */
static double integral(const finder *f, atvi_idx j) {
  const columns *c = &f->c;
  double h = c->f[j];
  for (atvi_idx b = 1; b <= f->a->b->n; b++) {
    atvi_idx at = b * c->n + j;
    h += c->f[at] + (c->rise[at] < ATVI_SMALL ? c->rise[at] : 0) - 0.5 * c->log_det[at];
  }
  return h;
}

static double determinants(const finder *f, atvi_idx j) {
  double sum = 0;
  for (atvi_idx b = 1; b <= f->a->b->n; b++) sum += f->c.log_det[b * f->c.n + j];
  return sum;
}

/* Derivative of f at a column, blocks following, along column k of chol_0. */
static double along(const finder *f, atvi_idx j, atvi_idx k) {
  const atvi_vi_piece *p0 = &f->a->piece[0];
  const columns *c = &f->c;
  double sum = 0;
  for (atvi_idx i = k; i < p0->n; i++) {
    double g = c->g[p0->of[i] * c->n + j];
    for (atvi_idx b = 1; b <= f->a->b->n; b++) {
      const atvi_vi_piece *p = &f->a->piece[b];
      for (atvi_idx l = 0; l < p->n; l++) g += p->slope[l * p0->n + i] * c->g[p->of[l] * c->n + j];
    }
    sum += p0->chol[i * p0->n + k] * g;
  }
  return sum;
}

/* ---- what is common ---- */

/* Columns: the centre, two along each column of chol_0, and one along every two of them. */
static atvi_idx beside(atvi_idx n) { return 1 + 2 * n + n * (n - 1) / 2; }

/* The one along columns k and i < k. */
static atvi_idx along_both(atvi_idx n, atvi_idx k, atvi_idx i) { return 1 + 2 * n + k * (k - 1) / 2 + i; }

/* Where column j is, in standard deviations: y[n]. */
static void offsets(atvi_idx n, atvi_idx j, double *y) {
  memset(y, 0, (size_t)n * sizeof *y);
  if (j == 0) return;
  if (j <= 2 * n) {
    y[(j - 1) / 2] = j % 2 ? ATVI_PART_SD : -ATVI_PART_SD;
    return;
  }
  for (atvi_idx k = 1; k < n; k++)
    for (atvi_idx i = 0; i < k; i++)
      if (along_both(n, k, i) == j) y[k] = y[i] = ATVI_PART_SD;
}

static void spread_out(finder *f) {
  const atvi_vi_arrow *a = f->a;
  const atvi_vi_piece *p0 = &a->piece[0];
  columns *c = &f->c;
  for (atvi_idx j = 0; j < c->n; j++) {
    double y[ATVI_VI_BLOCK_MOST], by[ATVI_VI_BLOCK_MOST];
    offsets(p0->n, j, y);
    for (atvi_idx i = 0; i < p0->n; i++) {
      by[i] = 0;
      for (atvi_idx k = 0; k <= i; k++) by[i] += p0->chol[i * p0->n + k] * y[k];
      c->x[p0->of[i] * c->n + j] = p0->mean[i] + by[i];
    }
    for (atvi_idx b = 1; b <= a->b->n; b++) {
      const atvi_vi_piece *p = &a->piece[b];
      for (atvi_idx l = 0; l < p->n; l++) {
        double x = p->mean[l];
        for (atvi_idx i = 0; i < p0->n; i++) x += p->slope[l * p0->n + i] * by[i];
        c->x[p->of[l] * c->n + j] = x;
      }
    }
  }
}

/* chol of the inverse of the matrix with the lower factor h[n][n], in out. False: not definite. */
static bool inverse_chol(atvi_idx n, const double *h, double *out) {
  double inv[ATVI_VI_BLOCK_MOST * ATVI_VI_BLOCK_MOST];
  for (atvi_idx c = 0; c < n; c++) /* L^-1 */
    for (atvi_idx i = 0; i < n; i++) {
      double sum = i == c;
      for (atvi_idx k = c; k < i; k++) sum -= h[i * n + k] * inv[k * n + c];
      inv[i * n + c] = i < c ? 0 : sum / h[i * n + i];
    }
  for (atvi_idx i = 0; i < n; i++)
    for (atvi_idx j = 0; j < n; j++) {
      double sum = 0;
      for (atvi_idx k = 0; k < n; k++) sum += inv[k * n + i] * inv[k * n + j];
      out[i * n + j] = sum;
    }
  return atvi_math_cholesky(n, out);
}

void atvi_infer_vi_piece_log_det(atvi_vi_piece *p) {
  p->log_det = 0;
  for (atvi_idx i = 0; i < p->n; i++) p->log_det += log(p->chol[i * p->n + i]);
}

/* Means and factors of the blocks from the first column, slopes from those beside it. */
static void take_blocks(finder *f) {
  atvi_vi_arrow *a = f->a;
  const atvi_vi_piece *p0 = &a->piece[0];
  columns *c = &f->c;
  for (atvi_idx b = 1; b <= a->b->n; b++) {
    atvi_vi_piece *p = &a->piece[b];
    const double *h = c->hess + hess_at(f, b, 0);
    for (atvi_idx l = 0; l < p->n; l++) {
      const double *x = c->x + p->of[l] * c->n, *step = c->step + p->of[l] * c->n;
      double *s = p->slope + l * p0->n;
      const double *rise = c->rise + b * c->n;
      p->mean[l] = x[0] + cut(rise[0], ATVI_CLIMB_STEP_MOST) * step[0];
      for (atvi_idx k = 0; k < p0->n && c->n > 1; k++) {
        atvi_idx up = 1 + 2 * k, down = 2 + 2 * k;
        s[k] = x[up] + cut(rise[up], ATVI_CLIMB_STEP_MOST) * step[up] - x[down] -
               cut(rise[down], ATVI_CLIMB_STEP_MOST) * step[down];
        s[k] /= 2 * ATVI_PART_SD;
      }
      for (atvi_idx k = p0->n - 1; k >= 0 && c->n > 1; k--) { /* from y_0 to x_0: s chol_0 = s_y */
        for (atvi_idx i = k + 1; i < p0->n; i++) s[k] -= s[i] * p0->chol[i * p0->n + k];
        s[k] /= p0->chol[k * p0->n + k];
      }
    }
    if (isnan(h[0])) continue;
    double *chol = f->r.h;
    if (inverse_chol(p->n, h, chol)) memcpy(p->chol, chol, (size_t)(p->n * p->n) * sizeof *chol);
    atvi_infer_vi_piece_log_det(p);
  }
}

/* The first widths of what is common: those given the blocks, from differences of its own gradient. */
static bool first_widths(finder *f) {
  atvi_vi_piece *p0 = &f->a->piece[0];
  room *r = &f->r;
  atvi_idx d = f->a->v->d;
  memset(p0->chol, 0, (size_t)(p0->n * p0->n) * sizeof *p0->chol);
  for (atvi_idx k = 0; k < p0->n; k++) {
    for (atvi_idx i = 0; i < d; i++) r->x[2 * i] = r->x[2 * i + 1] = f->c.x[i * f->c.n];
    r->x[2 * p0->of[k]] += ATVI_STEP;
    r->x[2 * p0->of[k] + 1] -= ATVI_STEP;
    evaluate(f, 2, true);
    if (!isfinite(r->log_pi[0]) || !isfinite(r->log_pi[1])) return false;
    double h = (r->dx[2 * p0->of[k] + 1] - r->dx[2 * p0->of[k]]) / (2 * ATVI_STEP);
    p0->chol[k * p0->n + k] = 1 / sqrt(fmax(h, ATVI_CURVED_LEAST));
  }
  return true;
}

/* Gradient and negative Hessian of h in y_0. False: one of the columns beside the centre cannot be evaluated. */
static bool derivatives(finder *f) {
  atvi_idx n = f->a->piece[0].n;
  double mid = determinants(f, 0);
  for (atvi_idx j = 0; j <= 2 * n; j++)
    if (!isfinite(integral(f, j))) return false;
  for (atvi_idx k = 0; k < n; k++) {
    double up = determinants(f, 1 + 2 * k), down = determinants(f, 2 + 2 * k);
    f->grad[k] = along(f, 0, k) - 0.25 * (up - down) / ATVI_PART_SD;
    for (atvi_idx i = 0; i < n; i++)
      f->curve[i * n + k] = (along(f, 2 + 2 * k, i) - along(f, 1 + 2 * k, i)) / (2 * ATVI_PART_SD);
    f->curve[k * n + k] += 0.5 * (up - 2 * mid + down) / (ATVI_PART_SD * ATVI_PART_SD);
  }
  for (atvi_idx i = 0; i < n; i++)
    for (atvi_idx k = 0; k < i; k++) {
      double both = determinants(f, along_both(n, i, k)),
             mean = 0.5 * (f->curve[i * n + k] + f->curve[k * n + i]);
      both = (both - determinants(f, 1 + 2 * i) - determinants(f, 1 + 2 * k) + mid) /
             (ATVI_PART_SD * ATVI_PART_SD);
      f->curve[i * n + k] = f->curve[k * n + i] = mean + (isfinite(both) ? 0.5 * both : 0);
    }
  return true;
}

/* chol_0 becomes chol_0 times a factor of the inverse of curve; move[n] is the step in x_0. Returns what it
 * promises. */
static double step_common(finder *f) {
  atvi_vi_piece *p = &f->a->piece[0];
  atvi_idx n = p->n;
  double gain = 0, *cov = f->curve, *half = f->vector;
  atvi_math_eigen_sym(n, f->curve, f->value, f->vector);
  for (atvi_idx i = 0; i < n; i++) f->move[i] = 0;
  for (atvi_idx e = 0; e < n; e++) {
    double g = 0;
    f->value[e] = fmax(f->value[e], ATVI_CURVED_LEAST);
    for (atvi_idx i = 0; i < n; i++) g += f->vector[i * n + e] * f->grad[i];
    gain += 0.5 * g * g / f->value[e];
    for (atvi_idx i = 0; i < n; i++) f->move[i] += f->vector[i * n + e] * g / f->value[e];
  }
  double part = cut(gain, ATVI_CLIMB_STEP_MOST);
  for (atvi_idx i = n - 1; i >= 0; i--) { /* to x_0 */
    double sum = 0;
    for (atvi_idx k = 0; k <= i; k++) sum += p->chol[i * n + k] * f->move[k];
    f->move[i] = part * sum;
  }
  for (atvi_idx i = 0; i < n; i++)
    for (atvi_idx k = 0; k < n; k++) {
      double sum = 0;
      for (atvi_idx e = 0; e < n; e++) sum += f->vector[i * n + e] * f->vector[k * n + e] / f->value[e];
      cov[i * n + k] = sum;
    }
  for (atvi_idx i = 0; i < n; i++) /* chol_0 cov, then chol_0 cov chol_0' */
    for (atvi_idx k = 0; k < n; k++) {
      double sum = 0;
      for (atvi_idx l = 0; l <= i; l++) sum += p->chol[i * n + l] * cov[l * n + k];
      half[i * n + k] = sum;
    }
  for (atvi_idx i = 0; i < n; i++)
    for (atvi_idx k = 0; k < n; k++) {
      double sum = 0;
      for (atvi_idx l = 0; l <= k; l++) sum += half[i * n + l] * p->chol[k * n + l];
      cov[i * n + k] = sum;
    }
  if (!atvi_math_cholesky(n, cov)) return HUGE_VAL;
  memcpy(p->chol, cov, (size_t)(n * n) * sizeof *cov);
  return gain;
}

/* By a part of f->move. */
static void move_centre(finder *f, double part) {
  atvi_vi_arrow *a = f->a;
  atvi_vi_piece *p0 = &a->piece[0];
  for (atvi_idx i = 0; i < p0->n; i++) p0->mean[i] += part * f->move[i];
  for (atvi_idx b = 1; b <= a->b->n; b++) {
    atvi_vi_piece *p = &a->piece[b];
    for (atvi_idx l = 0; l < p->n; l++)
      for (atvi_idx i = 0; i < p0->n; i++) p->mean[l] += part * p->slope[l * p0->n + i] * f->move[i];
  }
}

/* From the end of a climb, x[d], as near to a maximum as steps lead: q of what is common follows its weights
 * from there. False: it cannot be evaluated, or there is no time. */
static bool maximise(finder *f, const double *x) {
  atvi_vi_arrow *a = f->a;
  atvi_vi_piece *p0 = &a->piece[0];
  columns *c = &f->c;
  f->scaled = false;
  for (atvi_idx b = 0; b <= a->b->n; b++) {
    atvi_vi_piece *p = &a->piece[b];
    memset(p->chol, 0, (size_t)(p->n * p->n) * sizeof *p->chol);
    for (atvi_idx i = 0; i < p->n; i++) p->mean[i] = x[p->of[i]], p->chol[i * p->n + i] = 0.1;
    memset(p->slope, 0, (size_t)(p->n * p0->n) * sizeof *p->slope);
    atvi_infer_vi_piece_log_det(p);
  }
  c->n = 1;
  spread_out(f);
  settle(f);
  if (!isfinite(integral(f, 0)) || !first_widths(f)) return false;
  take_blocks(f);
  f->scaled = true;
  double top = -HUGE_VAL, drop = ATVI_ROUGH;
  f->gain = HUGE_VAL;
  memset(f->move, 0, (size_t)p0->n * sizeof *f->move);
  double pending = 0; /* the part of the last step that was taken and not looked at */
  for (int round = 0; round < ATVI_ROUNDS && f->gain > ATVI_SLIGHT;) {
    if (atvi_infer_vi_late(a->v)) return false;
    c->n = beside(p0->n);
    spread_out(f);
    settle(f);
    double h = integral(f, 0);
    if (!(h > top - drop)) {                       /* the step was too long: back by half of it */
      if (pending < ldexp(1, -ATVI_NEWTON)) break; /* a ridge that curves, or a kink */
      pending *= 0.5;
      move_centre(f, -pending);
      continue;
    }
    if (h < top) drop *= 0.5; /* lest it goes to and fro */
    top = h;
    round++;
    pending = 0;
    if (!derivatives(f)) {
      for (atvi_idx i = 0; i < p0->n * p0->n; i++) p0->chol[i] *= 0.3;
      continue;
    }
    take_blocks(f);
    f->gain = step_common(f);
    if (!isfinite(f->gain)) return false;
    move_centre(f, pending = 1);
    atvi_infer_vi_tell(a->v, "climbing", 0.05 + 0.2 * round / ATVI_ROUNDS, "the maximum is %.2g nats higher",
                       f->gain);
  }
  if (f->gain > ATVI_SLIGHT) move_centre(f, -pending);
  memcpy(a->from, p0->mean, (size_t)p0->n * sizeof *a->from);
  atvi_infer_vi_piece_log_det(p0);
  return isfinite(f->gain);
}

/* Widths of the halves: such that the density falls no faster than that of the block, anywhere up to WIDTHS
 * standard deviations. */
static void measure_widths(finder *f) {
  atvi_vi_arrow *a = f->a;
  room *r = &f->r;
  enum { B = 1 + 2 * WIDTHS };
  for (atvi_idx l = 0; l < a->most; l++) {
    for (atvi_idx b = 0; b <= a->b->n; b++) {
      const atvi_vi_piece *p = &a->piece[b];
      for (atvi_idx i = 0; i < p->n; i++)
        for (int k = 0; k < B; k++)
          r->x[p->of[i] * B + k] =
              p->mean[i] + (b > 0 && l < p->n && i >= l ? (k - WIDTHS) * p->chol[i * p->n + l] : 0);
    }
    evaluate(f, B, false);
    for (atvi_idx b = 1; b <= a->b->n; b++) {
      atvi_vi_piece *p = &a->piece[b];
      double fb[B];
      if (l >= p->n) continue;
      for (int k = 0; k < B; k++) fb[k] = density(r, b, B, k);
      p->up[l] = p->down[l] = ATVI_PART_SD;
      for (int k = 1; k <= WIDTHS; k++) {
        double up = fb[WIDTHS] - fb[WIDTHS + k], down = fb[WIDTHS] - fb[WIDTHS - k], most = WIDTHS;
        if (up < HUGE_VAL) p->up[l] = fmax(p->up[l], up > 0 ? fmin(k / sqrt(2 * up), most) : most);
        if (down < HUGE_VAL) p->down[l] = fmax(p->down[l], down > 0 ? fmin(k / sqrt(2 * down), most) : most);
      }
    }
  }
}

/* Squared distance of a point x[i * stride] from the middle of a piece, in standard deviations. */
static double far_off(const atvi_vi_piece *p, const double *x, atvi_idx stride) {
  double y[ATVI_VI_BLOCK_MOST], far = 0;
  for (atvi_idx i = 0; i < p->n; i++) {
    y[i] = x[p->of[i] * stride] - p->mean[i];
    for (atvi_idx l = 0; l < i; l++) y[i] -= p->chol[i * p->n + l] * y[l];
    y[i] /= p->chol[i * p->n + i];
    far += y[i] * y[i];
  }
  return far;
}

/* x[d] in the middle of all pieces. */
static void centre(const finder *f, double *x) {
  for (atvi_idx b = 0; b <= f->a->b->n; b++)
    for (atvi_idx i = 0; i < f->a->piece[b].n; i++) x[f->a->piece[b].of[i]] = f->a->piece[b].mean[i];
}

/* chol_0 becomes so wide that x[d], another maximum of the integral, is not far off: q of what is common can
 * then follow its weights there. */
static void reach(finder *f, const double *x) {
  atvi_vi_piece *p = &f->a->piece[0];
  atvi_idx n = p->n;
  if (!(far_off(p, x, 1) > ATVI_NEAR * ATVI_NEAR)) return;
  for (atvi_idx i = 0; i < n; i++)
    for (atvi_idx k = 0; k <= i; k++) {
      double sum = (x[p->of[i]] - p->mean[i]) * (x[p->of[k]] - p->mean[k]) / (ATVI_NEAR * ATVI_NEAR);
      for (atvi_idx l = 0; l <= k; l++) sum += p->chol[i * n + l] * p->chol[k * n + l];
      f->curve[i * n + k] = sum;
    }
  if (!atvi_math_cholesky(n, f->curve)) return;
  memcpy(p->chol, f->curve, (size_t)(n * n) * sizeof *p->chol);
  atvi_infer_vi_piece_log_det(p);
}

typedef enum { SINGLE, MOVED, SEVERAL } others;

/* Blocks that begin at the ends of other climbs, x[d][n], come to the same maxima, or to much lower ones.
 * MOVED: some came to higher ones, which replace theirs in top[d]. */
static others look_for_others(finder *f, atvi_idx n, const double *x, double *top) {
  atvi_vi_arrow *a = f->a;
  columns *c = &f->c;
  others found = SINGLE;
  c->n = n;
  memcpy(c->x, x, (size_t)(a->v->d * n) * sizeof *x);
  for (atvi_idx b = 0; b <= a->b->n; b++)
    for (atvi_idx i = 0; i < a->piece[b].n; i++) {
      const atvi_vi_piece *p = &a->piece[b];
      for (atvi_idx j = 0; j < (b > 0 ? 1 : n); j++) c->x[p->of[i] * n + j] = p->mean[i];
    }
  centre(f, top);
  settle(f);
  for (atvi_idx b = 1; b <= a->b->n; b++) {
    atvi_idx best = 0;
    for (atvi_idx j = 1; j < n; j++) {
      double low = c->f[b * n] - c->f[b * n + j], far = far_off(&a->piece[b], c->x + j, n);
      bool there = c->rise[b * n + j] < ATVI_SMALL; /* not on its way still */
      if (!(far > ATVI_FAR * ATVI_FAR && low < ATVI_NEGLIGIBLE && there)) continue;
      if (c->f[b * n + j] > c->f[b * n + best]) best = j;
      if (a->piece[b].n == 1)
        a->several = true;
      else if (found == SINGLE)
        found = SEVERAL;
    }
    if (best == 0) continue;
    found = MOVED;
    for (atvi_idx i = 0; i < a->piece[b].n; i++) top[a->piece[b].of[i]] = c->x[a->piece[b].of[i] * n + best];
  }
  return found;
}

/* From the end of a climb, top[d], which becomes where it leads; *h the integral there. */
static others climb_on(finder *f, atvi_idx n, const double *end, double *top, double *h) {
  others more = MOVED;
  *h = -HUGE_VAL;
  for (int round = 0; round < ATVI_REPEATS && more == MOVED; round++) {
    if (!maximise(f, top)) return SEVERAL;
    *h = integral(f, 0);
    more = look_for_others(f, n, end, top);
  }
  return more;
}

void atvi_infer_vi_arrow_climb(const atvi_vi_arrow *a, atvi_idx n, const double *x, double *mid,
                               double *chol) {
  finder *f = a->finder;
  const columns *c = &f->c;
  const atvi_idx d = a->v->d;
  f->c.n = n;
  memcpy(c->x, x, (size_t)(d * n) * sizeof *x);
  settle(f);
  memcpy(mid, c->x, (size_t)(d * n) * sizeof *x);
  for (atvi_idx j = 0; j < n; j++)
    for (atvi_idx b = 1; b <= a->b->n; b++) {
      const atvi_vi_piece *p = &a->piece[b];
      const double *h = c->hess + hess_at(f, b, j);
      double *to = chol + hess_at(f, b, j);
      bool known = isfinite(c->f[b * n + j]) && !isnan(h[0]) && inverse_chol(p->n, h, to);
      if (!known) memcpy(to, p->chol, (size_t)(p->n * p->n) * sizeof *to);
      double part = cut(c->rise[b * n + j], ATVI_CLIMB_STEP_MOST);
      for (atvi_idx i = 0; i < p->n && known; i++) mid[p->of[i] * n + j] += part * c->step[p->of[i] * n + j];
    }
}

atvi_status atvi_infer_vi_arrow_find(atvi_vi_arrow *a, atvi_idx n, const double *start, bool *found) {
  finder *kept = a->finder = atvi_pool_take(a->pool, 1, sizeof *kept);
  if (!kept) return ATVI_ENOMEM;
  finder f = {.a = a};
  atvi_climb_batch batch;
  atvi_climb *climb;
  atvi_idx d = a->v->d, best = 0, most = beside(a->piece[0].n);
  atvi_climb **all = atvi_pool_take(a->pool, (size_t)n, sizeof *all);
  double *end = reals(a->pool, d * n), *top = reals(a->pool, d * ATVI_TOPS), h[ATVI_TOPS];
  *found = false;
  most = most > n ? most : n;
  if (!make(&f, most > ATVI_VI_ARROW_CLIMBS ? most : ATVI_VI_ARROW_CLIMBS)) return ATVI_ENOMEM;
  ATVI_TRY(atvi_infer_climb_batch_new(a->v->space, a->pool, n, &batch));
  ATVI_TRY(atvi_infer_climbs_new(a->pool, d, n, start, &climb));
  for (atvi_idx k = 0; k < n; k++) all[k] = &climb[k];
  atvi_infer_climbs_run(&batch, n, all, ATVI_ITERATIONS);
  for (atvi_idx k = 0; k < n; k++)
    for (atvi_idx i = 0; i < d; i++) end[i * n + k] = climb[k].x[i];
  for (atvi_idx t = 0; t < ATVI_TOPS; t++) { /* the highest first */
    atvi_idx k = 0;
    for (atvi_idx l = 1; l < n; l++)
      if (climb[l].f > climb[k].f) k = l;
    h[t] = -HUGE_VAL;
    if (!isfinite(climb[k].f) || atvi_infer_vi_late(a->v)) continue;
    climb[k].f = -HUGE_VAL;
    memcpy(top + t * d, climb[k].x, (size_t)d * sizeof *top);
    if (t == 0 || !isfinite(h[0])) {
      climb_on(&f, n, end, top + t * d, &h[t]);
    } else { /* from there in what is common; blocks that are far from their maxima would only take time */
      for (atvi_idx i = 0; i < d; i++)
        if (a->b->of[i] > 0) top[t * d + i] = top[best * d + i];
      if (maximise(&f, top + t * d)) h[t] = integral(&f, 0), centre(&f, top + t * d);
    }
    if (h[t] > h[best]) best = t;
  }
  if (!isfinite(h[best])) return ATVI_OK;
  *found = climb_on(&f, n, end, top + best * d, &h[best]) == SINGLE;
  a->twin = false;
  for (atvi_idx t = 0; t < ATVI_TOPS && *found; t++) {
    if (!(h[t] > h[best] - ATVI_NEGLIGIBLE)) continue;
    if (fabs(h[t] - h[best]) < ATVI_SMALL && far_off(&a->piece[0], top + t * d, 1) > ATVI_FAR * ATVI_FAR)
      a->twin = true;
    else
      reach(&f, top + t * d);
  }
  if (*found) measure_widths(&f);
  *kept = f;
  return ATVI_OK;
}
