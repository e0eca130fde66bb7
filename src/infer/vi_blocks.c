/* SPDX-License-Identifier: MIT */
/* Draws and weights of a posterior whose coordinates come in blocks. The joint weights of hundreds of good
 * factors are poor, so blocks are weighted one by one.
 *
 * Weight   A draw of what is common has K draws of every block. Its weight
 *
 *              w = f_0(x_0) / q_0(x_0) prod_b (1 / K) sum_k f_b(x_0, x_bk) / q_b(x_bk | x_0)
 *
 *          has the evidence as its mean, whatever K is: given x_0 the sums are independent, and each is an unbiased estimate of the
 *          integral over its block. One of the K is taken for each block, with probability in proportion to its ratio; together with
 *          x_0 they are a draw of the posterior with weight w (Andrieu and Roberts 2009). It is enough that each of the K has
 *          the distribution q_b by itself: they come in pairs y and -y, which takes away what the skewness of a block does to its sum.
 * K        The halves of the K share nothing, and show the variance of log w that comes from the blocks. K grows until that is about a half: less
 *          would take more runs than it saves.
 * Rounds   The mean and covariance of what is common follow the weighted draws, held back by a power of the weights as long as few
 *          draws have most of them. */
#include "infer/scan.h"
#include "infer/vi_blocks.h"
#include "math/linalg.h"
#include "math/rng.h"
#include "math/sobol.h"
#include "math/special.h"
#include <float.h>
#include <math.h>
#include <string.h>

enum {
  STARTS = ATVI_LANES,    /* climbs: as many as are evaluated for the price of one */
  CHUNK = 4 * ATVI_BATCH, /* points evaluated at a time, with their memory: each is of many blocks */
  MOST_PAIRED =
      ATVI_VI_BLOCK_MOST / 4, /* in pairs: a look at blocks for each draw of what is common is better then */
  AT_ONCE =
      CHUNK /
      ATVI_SCAN_FIRST, /* draws of what is common whose blocks are looked at together: what there is room for */
  FEW =
      3 /* size: of the table BY; coordinates of a block up to which points of a lattice are better than random ones */
};
#define STRETCHED 0.2 /* of the draws of what is common are wider in one coordinate */
#define STRETCH 3.0   /* times as wide: the log of a scale that may be 0 has an exponential tail */
#define DF                                                                                                   \
  5.0 /* degrees of freedom of q_0: tails that are longer than those of any posterior that is about normal */

typedef struct {
  atvi_vi *v;
  atvi_vi_arrow a;
  /* Draws of each block for one of what is common: pairs. */
  atvi_idx k;
  /* One evaluation: [d][CHUNK], [CHUNK], [common][CHUNK], [1 + blocks][CHUNK]. */
  double *x, *theta, *log_pi, *y0, *prior, *lik, *ldj, *log_q;
  /* Of its draws of what is common: log weights, and their variances from the blocks. */
  double log_w[CHUNK], spread[CHUNK];
  /* The same spreads of all draws that are kept. */
  double *all_spread;
  /* [CHUNK][1 + blocks] the columns taken; NULL: none is. */
  atvi_idx *picked;
  /* Blocks are looked at anew for each draw of what is common. Those of several coordinates climb: from `at`
   * to mid, [d][AT_ONCE], with factors [AT_ONCE][1 + blocks][most][most]. Those of one are scanned:
   * [AT_ONCE][1 + blocks], at places[1 + blocks][AT_ONCE][FIRST], by points px[d][CHUNK]. */
  bool follows;
  double *at, *mid, *chol, *places, *px;
  atvi_scan *scan;
  atvi_pool *pool;
} blocks;

static double *reals(blocks *s, atvi_idx n) { return atvi_pool_take(s->pool, (size_t)n, sizeof(double)); }

static bool make(blocks *s) {
  atvi_idx d = s->v->d, rows = 1 + s->a.b->n;
  s->x = reals(s, d * CHUNK);
  s->theta = reals(s, d * CHUNK);
  s->log_pi = reals(s, CHUNK);
  s->y0 = reals(s, s->a.piece[0].n * CHUNK);
  s->prior = reals(s, rows * CHUNK);
  s->lik = reals(s, rows * CHUNK);
  s->ldj = reals(s, rows * CHUNK);
  s->log_q = reals(s, rows * CHUNK);
  return !atvi_pool_failed(s->pool);
}

/* ---- what is common ---- */

/* Coordinate i is this far from a middle: how far others go with it. Near a bound the log of a parameter goes
 * far while nothing else changes any more: below the middle the others follow the parameter, not its log. */
static double levelled(const blocks *s, atvi_idx i, double x) {
  const atvi_map *m = &s->v->space->map[s->a.piece[0].of[i]];
  return m->kind == ATVI_MAP_LOG && x < 0 ? expm1(m->scale * x) / m->scale : x;
}

/* The same of y_i, in widths of coordinate i. */
static double bent(const blocks *s, atvi_idx i, double y) {
  const atvi_vi_piece *p = &s->a.piece[0];
  double width = p->chol[i * p->n + i];
  return levelled(s, i, width * y) / width;
}

/* Where coordinate i is for y_i = 0, given those before it: column j of y0[common][n]. */
static double centre(const blocks *s, atvi_idx i, atvi_idx n, atvi_idx j) {
  const atvi_vi_piece *p = &s->a.piece[0];
  double x = p->mean[i];
  for (atvi_idx k = 0; k < i; k++) x += p->chol[i * p->n + k] * bent(s, k, s->y0[k * n + j]);
  return x;
}

/* Column j of y0[common][n] of the point x[coordinate * stride]. */
static void base_of(const blocks *s, const double *x, atvi_idx stride, atvi_idx n, atvi_idx j) {
  const atvi_vi_piece *p = &s->a.piece[0];
  for (atvi_idx i = 0; i < p->n; i++)
    s->y0[i * n + j] = (x[p->of[i] * stride] - centre(s, i, n, j)) / p->chol[i * p->n + i];
}

/* ---- draws ---- */

/* log q_0 of column j of y0[common][n]: the mixture of Student's t distribution and of those that are wider
 * in one coordinate. */
static double log_common(const blocks *s, atvi_idx n, atvi_idx j) {
  const atvi_vi_piece *p = &s->a.piece[0];
  double d = (double)p->n, df = DF, half = 0.5 * (df + d), r2 = 0, wide = 0;
  for (atvi_idx i = 0; i < p->n; i++) r2 += s->y0[i * n + j] * s->y0[i * n + j];
  for (atvi_idx i = 0; i < p->n; i++) {
    double y = s->y0[i * n + j], r2_wide = fmax(0, r2 - y * y * (1 - 1 / (STRETCH * STRETCH)));
    wide += exp(half * (log1p(r2 / df) - log1p(r2_wide / df))) / (STRETCH * d);
  }
  return lgamma(half) - lgamma(0.5 * df) - 0.5 * d * log(df * acos(-1.0)) - p->log_det -
         half * log1p(r2 / df) + log(1 - STRETCHED + STRETCHED * wide);
}

/* Base points of what is common, from that. */
static void draw_common(blocks *s, uint32_t scramble, atvi_idx first, atvi_idx n) {
  const atvi_vi_piece *p = &s->a.piece[0];
  const double df = DF;
  atvi_math_sobol_normal((atvi_sobol){s->v->opts.seed, ATVI_STREAM_FINAL, scramble}, first, p->n, n, s->y0);
  for (atvi_idx j = 0; j < n; j++) {
    atvi_rng rng =
        atvi_math_rng_at(s->v->opts.seed, ATVI_STREAM_BLOCKS, scramble, UINT32_MAX - (uint32_t)(first + j));
    double by = sqrt(0.5 * df / atvi_math_rng_gamma(&rng, 0.5 * df));
    for (atvi_idx i = 0; i < p->n; i++) s->y0[i * n + j] *= by;
    double u = atvi_math_rng_uniform(&rng) / STRETCHED;
    if (u < 1) s->y0[(atvi_idx)(u * (double)p->n) * n + j] *= STRETCH;
  }
}

/* A standard normal z becomes a point between halves of normal distributions; *log_q receives their log
 * density. */
static double halves(double z, double up, double down, double *log_q) {
  if (up == down) {
    *log_q -= log(up) + 0.5 * z * z;
    return up * z;
  }
  double below = down / (up + down), u = 0.5 * erfc(-z * ATVI_SQRT_HALF), y;
  if (u < below)
    y = down * atvi_math_ndtri(0.5 * u / below);
  else
    y = -up * atvi_math_ndtri(0.25 * erfc(z * ATVI_SQRT_HALF) / (1 - below));
  double s = y < 0 ? down : up;
  *log_q += log(2 / (up + down)) - 0.5 * (y / s) * (y / s);
  return y;
}

/* The same of a uniform u, with halves of Student's t distributions with 4 degrees of freedom. */
static double long_halves(double u, double up, double down, double *log_q) {
  double below = down / (up + down), side = u < below ? -down : up;
  double far =
      fmax(0.5 * (u < below ? u / below : (1 - u) / (1 - below)), DBL_MIN); /* probability further out */
  double a = sqrt(4 * far * (1 - far)), y = 2 * sqrt(fmax(cos(acos(a) / 3) / a - 1, 0));
  *log_q += log(0.75 / (up + down)) - 2.5 * log1p(0.25 * y * y);
  return side * y;
}

/* The middle of a coordinate of a block, as far as it follows the draw of what is common in column `at` of B. */
static double middle(const blocks *s, const atvi_vi_piece *p, atvi_idx i, atvi_idx B, atvi_idx at) {
  const atvi_vi_piece *p0 = &s->a.piece[0];
  double mid = p->mean[i];
  for (atvi_idx k = 0; k < p0->n; k++)
    mid += p->slope[i * p0->n + k] * levelled(s, k, s->x[p0->of[k] * B + at] - s->a.from[k]);
  return mid;
}

/* Draw c of a block with n coordinates: it has y[n], and its middle is in x already. */
static void shift(const blocks *s, const atvi_vi_piece *p, const double *chol, const double *y, atvi_idx B,
                  atvi_idx c) {
  for (atvi_idx i = 0; i < p->n; i++)
    for (atvi_idx k = 0; k <= i; k++) s->x[p->of[i] * B + c] += chol[i * p->n + k] * y[k];
}

/* The k draws of a block with these middles (x already has them) and this factor: columns at .. at + k - 1 of
 * B. In pairs y and -y. */
static void draw_pairs(const blocks *s, atvi_rng *rng, atvi_idx b, const double *chol, atvi_idx B,
                       atvi_idx at) {
  const atvi_vi_piece *p = &s->a.piece[b];
  double log_det = 0, y[2][ATVI_VI_BLOCK_MOST];
  for (atvi_idx i = 0; i < p->n; i++) log_det += log(chol[i * p->n + i]);
  for (atvi_idx c = at; c < at + s->k; c += 2) {
    double q[2];
    q[0] = q[1] = -log_det - (double)p->n * ATVI_LN_SQRT_2PI;
    for (atvi_idx i = 0; i < p->n; i++) {
      double z = atvi_math_rng_normal(rng);
      for (int h = 0; h < 2; h++) y[h][i] = halves(h ? -z : z, p->up[i], p->down[i], &q[h]);
    }
    for (int h = 0; h < 2; h++) {
      shift(s, p, chol, y[h], B, c + h);
      s->log_q[b * B + c + h] = q[h];
    }
  }
}

/* The same for few coordinates: two lattices of k / 2 points, each shifted at random, with tails of Student's
 * t distribution. */
static void draw_lattices(const blocks *s, atvi_rng *rng, atvi_idx b, const double *chol, atvi_idx B,
                          atvi_idx at) {
  static const double BY[FEW][FEW] = {
      {0}, {0, 0.6180339887498949}, {0, 0.7548776662466927, 0.5698402909980532}};
  const atvi_vi_piece *p = &s->a.piece[b];
  const atvi_idx m = s->k / 2;
  double log_det = 0;
  for (atvi_idx i = 0; i < p->n; i++) log_det += log(chol[i * p->n + i]);
  for (atvi_idx h = 0; h < 2; h++) {
    double by[FEW];
    for (atvi_idx i = 0; i < p->n; i++) by[i] = atvi_math_rng_uniform(rng);
    for (atvi_idx c = 0; c < m; c++) {
      double y[FEW], q = -log_det;
      for (atvi_idx i = 0; i < p->n; i++) {
        double u = (double)c * (i > 0 ? BY[p->n - 1][i] : 1 / (double)m) + by[i];
        y[i] = long_halves(u - floor(u), p->up[i], p->down[i], &q);
      }
      shift(s, p, chol, y, B, at + h * m + c);
      s->log_q[b * B + at + h * m + c] = q;
    }
  }
}

/* The same for one coordinate that was scanned: quantiles. */
static void draw_scanned(const blocks *s, const atvi_scan *scan, atvi_rng *rng, atvi_idx b,
                         const double *chol, atvi_idx B, atvi_idx at) {
  const atvi_vi_piece *p = &s->a.piece[b];
  const atvi_idx m = s->k / 2;
  for (atvi_idx h = 0; h < 2; h++) {
    double by = atvi_math_rng_uniform(rng);
    for (atvi_idx c = 0; c < m; c++) {
      double q, y = atvi_infer_scan_quantile(scan, ((double)c + by) / (double)m, &q);
      shift(s, p, chol, &y, B, at + h * m + c);
      s->log_q[b * B + at + h * m + c] = q - log(chol[0]);
    }
  }
}

/* n draws of what is common, from the first of a scrambling, with k of each block: columns j k .. j k + k -
 * 1. */
typedef struct {
  blocks *s;
  uint32_t scramble;
  atvi_idx first, n;
  /* The first of those whose blocks climb together. */
  atvi_idx from;
} draws;

/* What is common, in all columns of a draw, and where its blocks are expected. */
static void place_item(void *arg, atvi_idx j, int worker) {
  const draws *d = arg;
  const blocks *s = d->s;
  const atvi_vi_piece *p0 = &s->a.piece[0];
  atvi_idx B = d->n * s->k, at = j * s->k;
  (void)worker;
  for (atvi_idx i = 0; i < p0->n; i++) {
    double x = centre(s, i, d->n, j) + p0->chol[i * p0->n + i] * s->y0[i * d->n + j];
    for (atvi_idx c = 0; c < s->k; c++) s->x[p0->of[i] * B + at + c] = x;
  }
  for (atvi_idx b = 1; b <= s->a.b->n; b++) {
    const atvi_vi_piece *p = &s->a.piece[b];
    for (atvi_idx i = 0; i < p->n; i++) {
      double mid = middle(s, p, i, B, at);
      for (atvi_idx c = 0; c < s->k; c++) s->x[p->of[i] * B + at + c] = mid;
    }
  }
}

/* Draws of the blocks of one draw of what is common. */
static void draw_item(void *arg, atvi_idx j, int worker) {
  const draws *d = arg;
  const blocks *s = d->s;
  const atvi_idx most = s->a.most, rows = 1 + s->a.b->n, B = d->n * s->k, at = j * s->k;
  atvi_rng rng = atvi_math_rng_at(s->v->opts.seed, ATVI_STREAM_BLOCKS, d->scramble, (uint32_t)(d->first + j));
  (void)worker;
  for (atvi_idx b = 1; b < rows; b++) {
    const atvi_idx own = (j - d->from) * rows + b, n = s->a.piece[b].n;
    const double *chol = s->follows && most > 1 ? s->chol + own * most * most : s->a.piece[b].chol;
    if (s->follows && n == 1 && s->scan[own].n > 0)
      draw_scanned(s, &s->scan[own], &rng, b, chol, B, at);
    else if (s->follows && n <= FEW)
      draw_lattices(s, &rng, b, chol, B, at);
    else
      draw_pairs(s, &rng, b, chol, B, at);
  }
}

static void draw_some(void *arg, atvi_idx j, int worker) {
  const draws *d = arg;
  draw_item(arg, d->from + j, worker);
}

static void evaluate(const blocks *s, atvi_idx B, const double *x) {
  atvi_infer_space_eval(s->v->space, &(atvi_space_batch){.B = B,
                                                         .x = x,
                                                         .beta = 1,
                                                         .theta = s->theta,
                                                         .log_pi = s->log_pi,
                                                         .block_prior = s->prior,
                                                         .block_lik = s->lik,
                                                         .block_ldj = s->ldj});
}

static double density(const blocks *s, atvi_idx at) { return s->prior[at] + s->lik[at] + s->ldj[at]; }

/* `per` more nodes for each scan of m draws from the first of d->from. */
static void scan_more(const blocks *s, const draws *d, atvi_idx m, atvi_idx per, bool first) {
  const atvi_idx rows = 1 + s->a.b->n, most = s->a.most, B = m * per, from = d->n * s->k;
  for (atvi_idx i = 0; i < s->v->d; i++)
    for (atvi_idx j = 0; j < m; j++)
      for (atvi_idx c = 0; c < per; c++) s->px[i * B + j * per + c] = s->x[i * from + (d->from + j) * s->k];
  for (atvi_idx b = 1; b < rows; b++) {
    if (s->a.piece[b].n > 1) continue;
    for (atvi_idx j = 0; j < m; j++) {
      double *y = s->places + (j * rows + b) * ATVI_SCAN_FIRST,
             *x = s->px + s->a.piece[b].of[0] * B + j * per;
      const double *chol = most > 1 ? s->chol + (j * rows + b) * most * most : s->a.piece[b].chol;
      if (first)
        atvi_infer_scan_places(y);
      else
        atvi_infer_scan_next(&s->scan[j * rows + b], y);
      for (atvi_idx c = 0; c < per; c++) x[c] += chol[0] * y[c];
    }
  }
  evaluate(s, B, s->px);
  for (atvi_idx b = 1; b < rows; b++)
    for (atvi_idx j = 0; j < m && s->a.piece[b].n == 1; j++) {
      atvi_scan *scan = &s->scan[j * rows + b];
      double f[ATVI_SCAN_FIRST];
      for (atvi_idx c = 0; c < per; c++) f[c] = density(s, b * B + j * per + c);
      if (first) scan->n = 0;
      atvi_infer_scan_add(scan, per, s->places + (j * rows + b) * ATVI_SCAN_FIRST, f);
      if (scan->n == ATVI_SCAN_MOST && !atvi_infer_scan_close(scan)) scan->n = 0;
    }
}

/* As draw_item for all, with a look at their blocks: as many at a time as there is room for. */
static void draw_following(blocks *s, draws *d) {
  const atvi_idx B = d->n * s->k;
  for (d->from = 0; d->from < d->n; d->from += AT_ONCE) {
    atvi_idx m = d->n - d->from < AT_ONCE ? d->n - d->from : AT_ONCE;
    if (s->a.most > 1) {
      for (atvi_idx i = 0; i < s->v->d; i++)
        for (atvi_idx j = 0; j < m; j++) s->at[i * m + j] = s->x[i * B + (d->from + j) * s->k];
      atvi_infer_vi_arrow_climb(&s->a, m, s->at, s->mid, s->chol);
      for (atvi_idx i = 0; i < s->v->d; i++)
        for (atvi_idx j = 0; j < m && s->a.b->of[i] > 0; j++)
          for (atvi_idx c = 0; c < s->k; c++) s->x[i * B + (d->from + j) * s->k + c] = s->mid[i * m + j];
    }
    if (s->scan)
      for (int round = 0; round < 3; round++)
        scan_more(s, d, m, round ? ATVI_SCAN_MORE : ATVI_SCAN_FIRST, round == 0);
    atvi_parallel(s->v->ctx, m, draw_some, d);
  }
}

/* With the base points in y0. */
static void draw_at(blocks *s, uint32_t scramble, atvi_idx first, atvi_idx n) {
  atvi_idx B = n * s->k;
  draws d = {.s = s, .scramble = scramble, .first = first, .n = n};
  for (atvi_idx j = 0; j < n; j++) {
    double log_q = log_common(s, n, j);
    for (atvi_idx c = 0; c < s->k; c++) s->log_q[j * s->k + c] = log_q;
  }
  atvi_parallel(s->v->ctx, n, place_item, &d);
  if (s->follows)
    draw_following(s, &d);
  else
    atvi_parallel(s->v->ctx, n, draw_item, &d);
  evaluate(s, B, s->x);
}

static void draw(blocks *s, uint32_t scramble, atvi_idx first, atvi_idx n) {
  draw_common(s, scramble, first, n);
  draw_at(s, scramble, first, n);
}

/* Ratios of a block for draw j, in e[k]; returns the log of their mean. */
static double ratios(const blocks *s, atvi_idx B, atvi_idx b, atvi_idx j, double *e) {
  double sum = -HUGE_VAL;
  for (atvi_idx c = 0; c < s->k; c++) {
    atvi_idx at = b * B + j * s->k + c;
    double r = density(s, at) - s->log_q[at];
    e[c] = isfinite(r) ? r : -HUGE_VAL;
    sum = atvi_math_log_add(sum, e[c]);
  }
  return sum - log((double)s->k);
}

/* Variance of the logarithm of their mean, as its halves show it, which share nothing. */
static double variance(const blocks *s, const double *e) {
  double half[2] = {-HUGE_VAL, -HUGE_VAL};
  if (s->k < 4) return 0; /* a pair, not two */
  for (atvi_idx c = 0; c < s->k; c++) half[c >= s->k / 2] = atvi_math_log_add(half[c >= s->k / 2], e[c]);
  double by = 0.5 * (half[0] - half[1]);
  return isfinite(by) ? by * by : 0;
}

static void weigh_item(void *arg, atvi_idx j, int worker) {
  const draws *d = arg;
  blocks *s = d->s;
  atvi_idx B = d->n * s->k, *picked = s->picked ? s->picked + j * (1 + s->a.b->n) : NULL;
  atvi_rng rng =
      atvi_math_rng_at(s->v->opts.seed, ATVI_STREAM_RESAMPLE, d->scramble, (uint32_t)(d->first + j));
  double e[ATVI_VI_BLOCK_MOST] = {0}, w = density(s, j * s->k) - s->log_q[j * s->k];
  (void)worker;
  s->spread[j] = 0;
  for (atvi_idx b = 1; b <= s->a.b->n; b++) {
    double z = ratios(s, B, b, j, e);
    w += z;
    s->spread[j] += variance(s, e);
    if (!picked) continue;
    double u = atvi_math_rng_uniform(&rng) * (double)s->k;
    atvi_idx c = 0;
    while (c < s->k - 1 && (u -= exp(e[c] - z)) > 0) c++;
    picked[b] = j * s->k + c;
  }
  s->log_w[j] = isfinite(w) ? w : -HUGE_VAL;
}

/* Their log weights, and which of the k are taken. */
static void weigh(blocks *s, uint32_t scramble, atvi_idx first, atvi_idx n) {
  atvi_parallel(s->v->ctx, n, weigh_item, &(draws){.s = s, .scramble = scramble, .first = first, .n = n});
}

/* ---- rounds ---- */

/* Weights e[n] to the largest power that leaves this effective size. */
static double temper(atvi_idx n, const double *log_w, double least, double *e) {
  double top = -HUGE_VAL, power = 1;
  for (atvi_idx j = 0; j < n; j++) top = fmax(top, log_w[j]);
  for (;; power *= 0.9) {
    double sum = 0, square = 0;
    for (atvi_idx j = 0; j < n; j++) {
      e[j] = exp(power * (log_w[j] - top));
      sum += e[j];
      square += e[j] * e[j];
    }
    for (atvi_idx j = 0; j < n; j++) e[j] /= sum;
    if (sum * sum >= least * square || power < 1e-3) return power;
  }
}

/* Mean and factor of what is common, from weighted draws x0[common][n]: each coordinate by least squares on
 * the bent ones before it, base[common][n]. */
static void follow(blocks *s, atvi_idx n, const double *x0, const double *e, double *base, double *cov) {
  atvi_vi_piece *p = &s->a.piece[0];
  for (atvi_idx i = 0; i < p->n; i++) {
    double mean[ATVI_VI_BLOCK_MOST + 1] = {0}, *own = p->chol + i * p->n;
    atvi_idx m = i + 1;
    memcpy(base + i * n, x0 + i * n, (size_t)n * sizeof *base);
    for (atvi_idx k = 0; k < m; k++)
      for (atvi_idx j = 0; j < n; j++) mean[k] += e[j] * base[k * n + j];
    for (atvi_idx k = 0; k < m; k++)
      for (atvi_idx l = 0; l <= k; l++) {
        double sum = 0;
        for (atvi_idx j = 0; j < n; j++)
          sum += e[j] * (base[k * n + j] - mean[k]) * (base[l * n + j] - mean[l]);
        cov[k * m + l] = sum;
      }
    if (!atvi_math_cholesky(m, cov)) return;
    memcpy(own, cov + i * m, (size_t)m * sizeof *own);
    p->mean[i] = mean[i];
    for (atvi_idx k = i - 1; k >= 0; k--) {
      for (atvi_idx l = k + 1; l < i; l++) own[k] -= cov[l * m + k] * own[l];
      own[k] /= cov[k * m + k];
      p->mean[i] -= own[k] * mean[k];
    }
    for (atvi_idx j = 0; j < n; j++) {
      double y = base[i * n + j] - p->mean[i];
      for (atvi_idx k = 0; k < i; k++) y -= own[k] * base[k * n + j];
      base[i * n + j] = bent(s, i, y / own[i]);
    }
  }
  atvi_infer_vi_piece_log_det(p);
}

static double effective(atvi_idx n, const double *log_w, double *e) {
  double sum = 0;
  temper(n, log_w, 0, e);
  for (atvi_idx j = 0; j < n; j++) sum += e[j] * e[j];
  return 1 / sum;
}

/* Mean and factor of what is common, to and from kept[common][common + 1]. */
static void save(const blocks *s, double *kept) {
  const atvi_vi_piece *p = &s->a.piece[0];
  memcpy(kept, p->mean, (size_t)p->n * sizeof *kept);
  memcpy(kept + p->n, p->chol, (size_t)(p->n * p->n) * sizeof *kept);
}

static void restore(blocks *s, const double *kept) {
  atvi_vi_piece *p = &s->a.piece[0];
  memcpy(p->mean, kept, (size_t)p->n * sizeof *kept);
  memcpy(p->chol, kept + p->n, (size_t)(p->n * p->n) * sizeof *kept);
  atvi_infer_vi_piece_log_det(p);
}

/* With k draws of a block log w has this variance: with so many it has about the one that is wanted, if it
 * falls as 1 / k. */
static atvi_idx better_k(atvi_idx k, double variance) {
  double times = fmin(variance / ATVI_ROUGH, 2);
  return times > 1 ? (atvi_idx)fmin(4 * ceil(0.25 * times * (double)k), ATVI_VI_BLOCK_MOST) : k;
}

/* q of what is common follows its weights until that is no longer worth it; *share is the effective size per
 * draw, *variance that of log w from the blocks. */
static atvi_status adapt(blocks *s, double *share, double *variance) {
  atvi_vi *v = s->v;
  const atvi_vi_piece *p = &s->a.piece[0];
  atvi_idx n = 64 * (p->n > ATVI_VI_FEW ? p->n : ATVI_VI_FEW), per;
  double *log_w = reals(s, n), *spread = reals(s, n), *e = reals(s, n), *x0 = reals(s, p->n * n),
         *base = reals(s, p->n * n), *cov = reals(s, p->n * p->n);
  double *kept = reals(s, p->n * (p->n + 1)), before = 0;
  if (atvi_pool_failed(s->pool)) return ATVI_ENOMEM;
  s->k = s->follows ? 8 : 4;
  s->picked = NULL;
  *share = *variance = 0;
  for (int round = 0; round < ATVI_ROUNDS && !atvi_infer_vi_late(v); round++) {
    uint32_t scramble = ++v->final_scramble;
    *variance = 0;
    per = CHUNK / s->k;
    for (atvi_idx first = 0; first < n; first += per) {
      atvi_idx m = n - first < per ? n - first : per, B = m * s->k;
      draw(s, scramble, first, m);
      weigh(s, scramble, first, m);
      for (atvi_idx j = 0; j < m; j++) {
        log_w[first + j] = s->log_w[j];
        spread[first + j] = s->spread[j];
        for (atvi_idx i = 0; i < p->n; i++) x0[i * n + first + j] = s->x[p->of[i] * B + j * s->k];
      }
    }
    double size = effective(n, log_w, e), power = temper(n, log_w, ATVI_VI_WORTH * (double)n, e);
    *share = size / (double)n;
    for (atvi_idx j = 0; j < n; j++) *variance += e[j] * spread[j];
    if (!(size > 0)) break; /* no draw can be evaluated */
    atvi_infer_vi_tell(v, "adapting", 0.3 + 0.02 * round, "%.0f of %td draws count", size, n);
    atvi_idx k = better_k(s->k, *variance);
    if (power == 1 && size < (1 + ATVI_SMALL) * before && k <= s->k) {
      if (size < before) restore(s, kept);
      break;
    }
    if (k > MOST_PAIRED && !s->follows) {
      *share = 0;
      break;
    }
    before = power == 1 ? size : 0;
    save(s, kept);
    follow(s, n, x0, e, base, cov);
    s->k = k;
  }
  if (*variance < ATVI_SMALL && s->k == 4 && !s->follows) s->k = 2; /* as good as normal: one pair serves */
  return ATVI_OK;
}

/* ---- the end ---- */

typedef struct {
  const blocks *s;
  uint32_t scramble;
  atvi_idx n;
  atvi_vi_weights *w;
} keeping;

/* ATVI_LANES of the draws, which are next to each other. */
static void keep_item(void *arg, atvi_idx item, int worker) {
  const keeping *k = arg;
  const blocks *s = k->s;
  const atvi_cloud *c = &k->w->c;
  const atvi_idx n = k->n, B = n * s->k, row = 1 + s->a.b->n, at = c->n, first = item * ATVI_LANES;
  const atvi_idx end = first + ATVI_LANES < n ? first + ATVI_LANES : n;
  (void)worker;
  for (atvi_idx j = first; j < end; j++) {
    const atvi_idx *picked = s->picked + j * row, to = at + j;
    c->log_prior[to] = s->prior[j * s->k];
    c->log_lik[to] = s->lik[j * s->k];
    c->log_pi[to] = density(s, j * s->k);
    for (atvi_idx b = 1; b < row; b++) {
      c->log_prior[to] += s->prior[b * B + picked[b]];
      c->log_lik[to] += s->lik[b * B + picked[b]];
      c->log_pi[to] += density(s, b * B + picked[b]);
    }
    if (!isfinite(c->log_pi[to])) c->log_pi[to] = -HUGE_VAL;
    c->log_base[to] = c->log_pi[to] - c->log_lik[to];
    c->log_q[to] = c->log_pi[to] - s->log_w[j]; /* so that their ratio is the weight */
    c->log_member[to] = c->log_q[to];
    k->w->from[to] = k->scramble;
  }
  for (atvi_idx i = 0; i < s->v->d; i++) {
    const atvi_idx b = s->a.b->of[i];
    for (atvi_idx j = first; j < end; j++) {
      atvi_idx col = i * B + (b > 0 ? s->picked[j * row + b] : j * s->k);
      c->x[i * c->cap + at + j] = s->x[col];
      c->theta[i * c->cap + at + j] = s->theta[col];
    }
  }
}

/* The n draws of an evaluation as some of w. */
static void keep(const blocks *s, atvi_idx n, uint32_t scramble, atvi_vi_weights *w) {
  keeping k = {s, scramble, n, w};
  atvi_parallel(s->v->ctx, (n + ATVI_LANES - 1) / ATVI_LANES, keep_item, &k);
  w->c.n += n;
}

static atvi_status draw_all(blocks *s, double share, atvi_vi_weights *w) {
  atvi_vi *v = s->v;
  double want = isnan(v->opts.ess) ? ATVI_VI_ESS_WIDE : v->opts.ess;
  atvi_idx per = (atvi_idx)ceil(fmin(1.1 * want / share, atvi_infer_vi_most_draws(v)) / ATVI_VI_BLOCKS);
  atvi_idx chunk = CHUNK / s->k;
  s->picked = atvi_pool_take(s->pool, (size_t)(chunk * (1 + s->a.b->n)), sizeof *s->picked);
  s->all_spread = reals(s, ATVI_VI_BLOCKS * per);
  if (!s->picked || !s->all_spread) return ATVI_ENOMEM;
  ATVI_TRY(atvi_infer_vi_weights_room(v, w, ATVI_VI_BLOCKS * per));
  v->part[0].drawn = v->final_scramble + 1;
  v->final_scramble += ATVI_VI_BLOCKS;
  for (uint32_t block = 0; block < ATVI_VI_BLOCKS; block++) {
    uint32_t scramble = v->part[0].drawn + block;
    if (block >= ATVI_VI_HASTY_BLOCKS && atvi_infer_vi_late(v)) {
      v->outcome.cut = true;
      break;
    }
    for (atvi_idx first = 0; first < per; first += chunk) {
      atvi_idx n = per - first < chunk ? per - first : chunk;
      draw(s, scramble, first, n);
      weigh(s, scramble, first, n);
      memcpy(s->all_spread + w->c.n, s->spread, (size_t)n * sizeof *s->spread);
      keep(s, n, scramble, w);
      atvi_infer_vi_tell(v, "drawing", 0.5 + 0.4 * (double)w->c.n / (double)(ATVI_VI_BLOCKS * per),
                         "%td of %td draws, %td of each unit", w->c.n, ATVI_VI_BLOCKS * per, s->k);
    }
  }
  w->all = true;
  atvi_infer_vi_weigh_given(v, w);
  return ATVI_OK;
}

/* Room for a look at blocks. */
static bool make_looks(blocks *s) {
  const atvi_idx n = AT_ONCE, most = s->a.most, rows = 1 + s->a.b->n;
  if (most > 1) {
    s->at = reals(s, s->v->d * n);
    s->mid = reals(s, s->v->d * n);
    s->chol = reals(s, n * rows * most * most);
  }
  for (atvi_idx b = 1; b < rows && !s->scan; b++)
    if (s->a.piece[b].n == 1) s->scan = atvi_pool_take(s->pool, (size_t)(n * rows), sizeof *s->scan);
  if (s->scan) {
    s->places = reals(s, n * rows * ATVI_SCAN_FIRST);
    s->px = reals(s, s->v->d * CHUNK);
  }
  return !atvi_pool_failed(s->pool);
}

/* Draws of which blocks know little, those that may have the most weight first: at most `most` of them, in
 * which. If log w has a variance of V from its blocks, its mean is V / 2 above where most of its values
 * are. */
static atvi_idx vaguest(const blocks *s, const atvi_vi_weights *w, atvi_idx most, atvi_idx *which) {
  double value[AT_ONCE];
  atvi_idx n = 0;
  for (atvi_idx j = 0; j < w->c.n; j++) {
    double var = s->all_spread[j], v = w->c.log_pi[j] - w->c.log_q[j] + 0.5 * var;
    if (!(var > ATVI_ROUGH) || !isfinite(v) || (n == most && v <= value[n - 1])) continue;
    atvi_idx k = n < most ? n++ : n - 1;
    for (; k > 0 && value[k - 1] < v; k--) value[k] = value[k - 1], which[k] = which[k - 1];
    value[k] = v;
    which[k] = j;
  }
  return n;
}

/* Weighs these draws anew, with blocks that climb, and says what share of the posterior they turn out to
 * lack. */
static double lacking(blocks *s, const atvi_vi_weights *w) {
  const atvi_cloud *c = &w->c;
  atvi_idx which[AT_ONCE], n = vaguest(s, w, AT_ONCE, which), k = s->k;
  double top = -HUGE_VAL, all = 0, more = 0;
  if (n == 0) return 0;
  for (atvi_idx j = 0; j < n; j++) base_of(s, c->x + which[j], c->cap, n, j);
  s->follows = true;
  s->k = 4;
  s->picked = NULL;
  draw_at(s, ++s->v->final_scramble, 0, n);
  weigh(s, s->v->final_scramble, 0, n);
  s->k = k;
  for (atvi_idx j = 0; j < c->n; j++) top = fmax(top, c->log_pi[j] - c->log_q[j]);
  for (atvi_idx j = 0; j < n; j++) top = fmax(top, s->log_w[j]);
  for (atvi_idx j = 0; j < c->n; j++) all += exp(c->log_pi[j] - c->log_q[j] - top);
  for (atvi_idx j = 0; j < n; j++)
    more += exp(s->log_w[j] - top) - exp(c->log_pi[which[j]] - c->log_q[which[j]] - top);
  return more / (all + more);
}

/* ---- mirror images ---- */

/* The weighted share of draws whose image under a mirror q of what is common has as well. */
static double overlap(blocks *s, const atvi_vi_weights *w, const double *image) {
  const atvi_cloud *c = &w->c;
  double share = 0;
  for (atvi_idx first = 0; first < c->n; first += CHUNK) {
    atvi_idx n = c->n - first < CHUNK ? c->n - first : CHUNK;
    for (int side = 0; side < 2; side++) { /* the images, and the draws themselves */
      for (atvi_idx j = 0; j < n; j++)
        base_of(s, (side ? c->x : image) + first + j, side ? c->cap : c->n, n, j);
      for (atvi_idx j = 0; j < n; j++) {
        double q = log_common(s, n, j);
        if (side == 0)
          s->spread[j] = q;
        else
          share += s->spread[j] > q - ATVI_NEGLIGIBLE ? w->w[first + j] : 0;
      }
    }
  }
  return share;
}

/* Where draws lack mirror images of themselves, each goes to one of the images at random: q is then the mean
 * of its images, and its density that of one of them divided by their number, if they do not overlap. Where
 * they do, or do not commute, the fit goes the way of other models. */
static atvi_status spread_images(blocks *s, atvi_vi_weights *w) {
  atvi_vi *v = s->v;
  const atvi_cloud *c = &w->c;
  ATVI_TRY(atvi_infer_vi_mirrors(v, w));
  const atvi_idx n = c->n, d = v->d;
  if (v->search.mirrors.n == 0) return ATVI_OK;
  double *theta = reals(s, d * n), *image = reals(s, d * n), *x = reals(s, d * n);
  bool apart = true;
  uint32_t number = ++v->final_scramble;
  if (atvi_pool_failed(s->pool)) return ATVI_ENOMEM;
  for (atvi_idx i = 0; i < d; i++) memcpy(theta + i * n, c->theta + i * c->cap, (size_t)n * sizeof *theta);
  for (atvi_idx g = 0; g < v->search.mirrors.n && apart; g++) {
    const atvi_mirror *m = &v->search.mirrors.mirror[g];
    for (atvi_idx i = 0; i < d; i++) apart = apart && (m->from[i] == i || v->search.mirrors.n == 1);
    atvi_infer_mirror_image(m, d, n, theta, image);
    atvi_infer_space_inv(v->space, n, image, x);
    apart = apart && overlap(s, w, x) < ATVI_VI_UNSEEN;
  }
  if (!apart) {
    atvi_infer_vi_weights_free(w);
    v->search.mirrors.n = 0;
    v->search.mirrored = false;
    return ATVI_OK;
  }
  for (atvi_idx g = 0; g < v->search.mirrors.n; g++) {
    atvi_infer_mirror_image(&v->search.mirrors.mirror[g], d, n, theta, image);
    for (atvi_idx j = 0; j < n; j++) {
      atvi_rng rng = atvi_math_rng_at(v->opts.seed, ATVI_STREAM_RESAMPLE, number, (uint32_t)(g * n + j));
      bool stays = atvi_math_rng_uniform(&rng) < 0.5;
      for (atvi_idx i = 0; i < d && !stays; i++) theta[i * n + j] = image[i * n + j];
    }
  }
  atvi_infer_space_inv(v->space, n, theta, x);
  for (atvi_idx i = 0; i < d; i++) {
    memcpy(c->theta + i * c->cap, theta + i * n, (size_t)n * sizeof *theta);
    memcpy(c->x + i * c->cap, x + i * n, (size_t)n * sizeof *x);
  }
  v->images = exp2((double)v->search.mirrors.n);
  for (atvi_idx j = 0; j < n; j++) {
    c->log_q[j] -= log(v->images);
    c->log_member[j] -= log(v->images);
  }
  atvi_infer_vi_weigh_given(v, w);
  return ATVI_OK;
}

static atvi_status run(blocks *s, atvi_vi_weights *w) {
  atvi_vi *v = s->v;
  bool found;
  double share, variance, *start = reals(s, v->d * STARTS);
  if (!start) return ATVI_ENOMEM;
  atvi_math_sobol_normal((atvi_sobol){v->opts.seed, ATVI_STREAM_TRAIN, v->scramble++}, 0, v->d, STARTS,
                         start);
  atvi_infer_vi_tell(v, "climbing", 0.02, "%d climbs", STARTS);
  ATVI_TRY(atvi_infer_vi_arrow_new(v, s->pool, &s->a));
  if (s->a.most > ATVI_VI_BLOCK_MOST || s->a.piece[0].n > ATVI_VI_BLOCK_MOST) return ATVI_OK;
  ATVI_TRY(atvi_infer_vi_arrow_find(&s->a, STARTS, start, &found));
  if (!found) return ATVI_OK;
  if (!make(s)) return ATVI_ENOMEM;
  if (!make_looks(s)) return ATVI_ENOMEM;
  for (int with = s->a.several; with < 2; with++) {
    atvi_infer_vi_weights_free(w);
    s->follows = with > 0;
    ATVI_TRY(adapt(s, &share, &variance));
    if (share > 0) ATVI_TRY(draw_all(s, share, w));
    if (v->outcome.cut || with > 0) break;
    if (share > 0 && variance < ATVI_SMALL) break; /* what is lacking is not due to the blocks */
    /* With k-hat below 1/2 weights have a variance. */
    if (share > 0 && w->psis.khat < 0.5 && lacking(s, w) < ATVI_VI_UNSEEN) break;
  }
  if (!atvi_infer_vi_permits(w)) return ATVI_OK;
  ATVI_TRY(spread_images(s, w));
  if (s->a.twin && v->search.mirrors.n == 0) atvi_infer_vi_weights_free(w);
  return ATVI_OK;
}

atvi_status atvi_infer_vi_blocks(atvi_vi *v, atvi_vi_weights *w) {
  blocks s = {.v = v};
  if (v->space->blocks.n == 0) return ATVI_OK;
  for (atvi_idx i = 0; i < v->d; i++) /* which has images of every point */
    if (v->space->map[i].kind == ATVI_MAP_SURJECTION) return ATVI_OK;
  ATVI_TRY(atvi_pool_new(v->ctx, &s.pool));
  atvi_status status = run(&s, w);
  atvi_pool_free(s.pool);
  return status;
}
