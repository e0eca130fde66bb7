/* SPDX-License-Identifier: MIT */
/* Measures the bends of a frame (bend.h) that is the normal approximation at a maximum. In a normal posterior the gradient at t v, in y, is
 * -t v; where a ridge is curved it also points to where the ridge is. Directions are those in which each parameter moves most, all else following
 * it: the ridge is smoothest as a function of the one that the data inform least. Along those in which it is curved most it is followed: at
 * four t all else climbs to it, a Newton step being the gradient itself, and what it was displaced by is the bend. The best stays, if draws of the normal
 * approximation have less variable weights with it, and another one may follow. */
#include "infer/vi_state.h"
#include "math/rng.h"
#include "math/sobol.h"
#include "math/stat/stat.h"
#include <math.h>
#include <string.h>

enum { CHUNK = 32, STEPS = 6, PROBES = 256, CANDIDATES = 4 };
#define LOOK 1.5   /* standard deviations along each coordinate, where gradients are looked at */
#define WORTH 0.75 /* of the spread of log weights that a bend may leave */
#define CURVED 0.3 /* standard deviations by which others are displaced there, for a bend to pay */

static const double PATH[4] = {-2.4, -1.2, 1.2, 2.4};

/* Points in y, and the gradient there. */
typedef struct {
  atvi_vi *v;
  atvi_member *m;
  double *y, *x, *theta, *dy, *log_pi; /* [d][n], [n] for n up to 2 CHUNK and PROBES */
  double *way;                         /* [d] a direction */
} look;

/* A direction, that of coordinate k of x, and how far the ridge is off at LOOK. */
typedef struct {
  atvi_idx k;
  double off;
} candidate;

static void gradients(const look *l, atvi_idx n) {
  atvi_infer_member_to_frame(l->m, l->v->d, n, l->y, l->x);
  atvi_infer_space_eval(
      l->v->space,
      &(atvi_space_batch){.B = n, .x = l->x, .beta = 1, .theta = l->theta, .log_pi = l->log_pi, .dx = l->dy});
  atvi_infer_member_adjoint(l->m, l->v->d, n, l->y, l->dy);
}

/* v[d]: the direction in which coordinate k of x moves most, all else following it. */
static void direction(const look *l, atvi_idx k, double *v) {
  atvi_idx d = l->v->d;
  double sum = 0;
  for (atvi_idx i = 0; i < d; i++) v[i] = i <= k ? l->m->chol[k * d + i] : 0, sum += v[i] * v[i];
  for (atvi_idx i = 0; i < d; i++) v[i] /= sqrt(sum);
}

/* Column j of a[d][n] less its part along v; returns the squared length of what is left. */
static double cross(atvi_idx d, atvi_idx n, atvi_idx j, const double *v, double *a) {
  double part = 0, sum = 0;
  for (atvi_idx i = 0; i < d; i++) part += v[i] * a[i * n + j];
  for (atvi_idx i = 0; i < d; i++) a[i * n + j] -= part * v[i], sum += a[i * n + j] * a[i * n + j];
  return sum;
}

/* The CANDIDATES directions in which the ridge is curved most, by coordinates of x; returns how many are. */
static int most_curved(const look *l, candidate *out) {
  atvi_idx d = l->v->d;
  int found = 0;
  for (atvi_idx first = 0; first < d; first += CHUNK) {
    atvi_idx n = d - first < CHUNK ? d - first : CHUNK;
    for (atvi_idx k = 0; k < n; k++) {
      direction(l, first + k, l->way);
      for (atvi_idx i = 0; i < d; i++)
        for (int s = 0; s < 2; s++) l->y[i * 2 * n + 2 * k + s] = (s ? LOOK : -LOOK) * l->way[i];
    }
    gradients(l, 2 * n);
    for (atvi_idx k = 0; k < n; k++) {
      candidate c = {first + k, 0};
      if (!isfinite(l->log_pi[2 * k] + l->log_pi[2 * k + 1])) continue;
      for (atvi_idx i = 0; i < d; i++) {
        double *g = l->dy + i * 2 * n + 2 * k;
        g[0] = 0.5 * (g[0] + g[1]);
      }
      direction(l, first + k, l->way);
      c.off = sqrt(cross(d, 2 * n, 2 * k, l->way, l->dy));
      if (!(c.off > CURVED)) continue;
      int at = found;
      while (at > 0 && out[at - 1].off < c.off) at--;
      if (at == CANDIDATES) continue;
      if (found < CANDIDATES) found++;
      for (int j = found - 1; j > at; j--) out[j] = out[j - 1];
      out[at] = c;
    }
  }
  return found;
}

/* u[d][4]: displacement of all else at PATH along v. A step that does not come nearer to the ridge is halved. g: [d][4]. */
static void follow(const look *l, double *u, double *g) {
  atvi_idx d = l->v->d;
  double best[4], by[4];
  for (int j = 0; j < 4; j++) best[j] = HUGE_VAL, by[j] = 1;
  memset(u, 0, (size_t)(4 * d) * sizeof *u);
  memset(g, 0, (size_t)(4 * d) * sizeof *g);
  for (int step = 0; step <= STEPS; step++) {
    for (int j = 0; j < 4; j++)
      for (atvi_idx i = 0; i < d; i++)
        l->y[i * 4 + j] = PATH[j] * l->way[i] + u[i * 4 + j] + by[j] * g[i * 4 + j];
    gradients(l, 4);
    for (int j = 0; j < 4; j++) {
      double now = cross(d, 4, j, l->way, l->dy);
      bool nearer = isfinite(l->log_pi[j]) && now < best[j];
      if (nearer)
        for (atvi_idx i = 0; i < d; i++)
          u[i * 4 + j] += by[j] * g[i * 4 + j], g[i * 4 + j] = l->dy[i * 4 + j];
      by[j] = nearer ? 1 : 0.5 * by[j];
      if (nearer) best[j] = now;
    }
  }
}

/* Interquartile range of the log weights of draws of the normal approximation. */
static double spread(const look *l) {
  atvi_idx d = l->v->d, n = 0;
  double e[3 * PROBES];
  atvi_math_sobol_normal((atvi_sobol){l->v->opts.seed, ATVI_STREAM_TRAIN, l->v->scramble}, 0, d, PROBES,
                         l->y);
  atvi_infer_member_to_frame(l->m, d, PROBES, l->y, l->x);
  atvi_infer_space_eval(
      l->v->space,
      &(atvi_space_batch){.B = PROBES, .x = l->x, .beta = 1, .theta = l->theta, .log_pi = l->log_pi});
  for (atvi_idx j = 0; j < PROBES; j++) {
    double w = l->log_pi[j];
    for (atvi_idx i = 0; i < d; i++) w += 0.5 * l->y[i * PROBES + j] * l->y[i * PROBES + j];
    if (isfinite(w)) e[n++] = w;
  }
  if (n < PROBES / 2) return HUGE_VAL;
  atvi_math_sort(n, e, NULL, e + n);
  return e[3 * n / 4] - e[n / 4];
}

/* The bend along v that makes the displacements u[d][4] at PATH, by least squares. */
static bool add_bend(const look *l, const double *u) {
  atvi_idx d = l->v->d;
  atvi_bend *b = &l->m->bend;
  atvi_pool *pool = l->v->pool;
  double *v = atvi_pool_take(pool, (size_t)d, sizeof *v),
         *by = atvi_pool_take(pool, (size_t)(2 * d), sizeof *by);
  double *in_x = atvi_pool_take(pool, (size_t)(2 * d), sizeof *in_x);
  double f[4], g[4], ff = 0, gg = 0;
  if (!v || !by || !in_x) return false;
  memcpy(v, l->way, (size_t)d * sizeof *v);
  for (int j = 0; j < 4; j++) {
    atvi_infer_bend_features(PATH[j], &f[j], &g[j]);
    ff += f[j] * f[j];
    gg += g[j] * g[j];
  }
  for (atvi_idx i = 0; i < d; i++)
    for (int j = 0; j < 4; j++) {
      by[i] += f[j] * u[i * 4 + j] / ff;
      by[d + i] += g[j] * u[i * 4 + j] / gg;
    }
  for (int c = 0; c < 2; c++)
    for (atvi_idx i = 0; i < d; i++)
      for (atvi_idx j = 0; j <= i; j++) in_x[c * d + i] += l->m->chol[i * d + j] * by[c * d + j];
  b->along[b->n] = v;
  b->by[b->n] = by;
  b->in_x[b->n++] = in_x;
  return true;
}

/* Puts the best of the candidates in place, if it is worth it; *now is the spread, before and after. */
static atvi_status one_more(look *l, double *u, double *g, double *now, bool *any) {
  candidate c[CANDIDATES];
  int n = most_curved(l, c);
  double least = WORTH * *now;
  atvi_bend before = l->m->bend, best = before;
  for (int k = 0; k < n; k++) {
    direction(l, c[k].k, l->way);
    follow(l, u, g);
    if (!add_bend(l, u)) return ATVI_ENOMEM;
    double with = spread(l);
    if (with < least) least = with, best = l->m->bend;
    l->m->bend = before;
  }
  *any = best.n > before.n;
  if (*any) *now = least;
  l->m->bend = best;
  return ATVI_OK;
}

atvi_status atvi_infer_vi_bend(atvi_vi *v, atvi_member *m) {
  look l = {.v = v, .m = m};
  size_t d = (size_t)v->d;
  double **wide[] = {&l.y, &l.x, &l.theta, &l.dy};
  for (int k = 0; k < 4; k++) *wide[k] = atvi_pool_take(v->pool, d * PROBES, sizeof(double));
  l.log_pi = atvi_pool_take(v->pool, PROBES, sizeof(double));
  l.way = atvi_pool_take(v->pool, d, sizeof(double));
  double *u = atvi_pool_take(v->pool, 4 * d, sizeof *u), *g = atvi_pool_take(v->pool, 4 * d, sizeof *g);
  if (atvi_pool_failed(v->pool)) return ATVI_ENOMEM;
  double now = spread(&l);
  for (bool any = true; any && m->bend.n < ATVI_BENDS;) ATVI_TRY(one_more(&l, u, g, &now, &any));
  v->scramble++;
  return ATVI_OK;
}
