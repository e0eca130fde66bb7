/* SPDX-License-Identifier: MIT */
/* Measures the bends of a frame (bend.h) that is the normal approximation at a maximum. In a normal posterior
 * the gradient at t v, in y, is
 * -t v; where a ridge is curved it also points to where the ridge is. Directions are those in which each parameter moves most, all else following
 * it: the ridge is smoothest as a function of the one that the data inform least. Along those in which it is
 * curved most it is followed: at a few t all else climbs to it, a Newton step being the gradient itself, and
 * what it was displaced by is the bend. The best stays, if draws of the normal approximation have less
 * variable weights with it, and another one may follow.
 *
 * A ridge whose curve comes from the map of a share, which multiplies something, is straight in its
 * logarithm: such maps are tried first. */
#include "infer/vi_state.h"
#include "math/linalg.h"
#include "math/rng.h"
#include "math/sobol.h"
#include "math/stat/stat.h"
#include <math.h>
#include <string.h>

enum {
  CHUNK = ATVI_BATCH / 2,  /* coordinates along which gradients are looked at in one batch */
  PATH = 2 * ATVI_REPEATS, /* points of the ridge: as many on either side */
  T = ATVI_BEND_TERMS
};
#define WORTH 0.75 /* of the spread of log weights that a bend may leave */

/* Of the logit that stands for a logarithm of the distance from either end: within 1 % of it up to 0.7 or
 * 0.92 of the interval. */
static const double POWERS[] = {8, -8, 32, -32};
#define STRIDE (ATVI_NEAR / ATVI_REPEATS) /* between the points at which a ridge is followed */

/* Points in y, and the gradient there. */
typedef struct {
  atvi_vi *v;
  atvi_member *m;
  double *y, *x, *theta, *dy, *log_pi; /* [d][n], [n] for n up to 2 CHUNK and ATVI_VI_GLANCE */
  double *way, *off;                   /* [d] a direction; see find_curves */
  double *u, *g;                       /* [d][PATH], [d][2] see follow */
} look;

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

/* off[d]: how far the ridge is off, ATVI_NEAR along the direction of each coordinate of x; 0 where that
 * cannot be told. */
static void find_curves(const look *l, double *off) {
  atvi_idx d = l->v->d;
  for (atvi_idx first = 0; first < d; first += CHUNK) {
    atvi_idx n = d - first < CHUNK ? d - first : CHUNK;
    for (atvi_idx k = 0; k < n; k++) {
      direction(l, first + k, l->way);
      for (atvi_idx i = 0; i < d; i++)
        for (int s = 0; s < 2; s++) l->y[i * 2 * n + 2 * k + s] = (s ? ATVI_NEAR : -ATVI_NEAR) * l->way[i];
    }
    gradients(l, 2 * n);
    for (atvi_idx k = 0; k < n; k++) {
      double *g = l->dy + 2 * k;
      for (atvi_idx i = 0; i < d; i++) g[i * 2 * n] = 0.5 * (g[i * 2 * n] + g[i * 2 * n + 1]);
      direction(l, first + k, l->way);
      bool known = isfinite(l->log_pi[2 * k]) && isfinite(l->log_pi[2 * k + 1]);
      off[first + k] = known ? sqrt(cross(d, 2 * n, 2 * k, l->way, l->dy)) : 0;
    }
  }
}

/* The coordinates with the largest off above ATVI_PART_SD, at most ATVI_TOPS, which then is 0; returns how
 * many. */
static int most_curved(atvi_idx d, double *off, atvi_idx *k) {
  int n = 0;
  for (; n < ATVI_TOPS; n++) {
    k[n] = 0;
    for (atvi_idx i = 1; i < d; i++)
      if (off[i] > off[k[n]]) k[n] = i;
    if (!(off[k[n]] > ATVI_PART_SD)) break;
    off[k[n]] = 0;
  }
  return n;
}

/* Where the j-th point of the path is along the way: outwards, up and down in turn. */
static double path(int j) { return STRIDE * (j / 2 + 1) * (j % 2 ? -1 : 1); }

/* Two points of the path climb to the ridge from u[d][PATH], their displacements, by gradients. g: [d][2] */
static void climb(const look *l, int first, double *u, double *g) {
  atvi_idx d = l->v->d;
  double best[2] = {HUGE_VAL, HUGE_VAL}, by[2] = {0, 0};
  memset(g, 0, (size_t)(2 * d) * sizeof *g);
  for (int step = 0; step <= ATVI_ROUNDS; step++) {
    for (int j = 0; j < 2; j++)
      for (atvi_idx i = 0; i < d; i++)
        l->y[i * 2 + j] = path(first + j) * l->way[i] + u[i * PATH + first + j] + by[j] * g[i * 2 + j];
    gradients(l, 2);
    for (int j = 0; j < 2; j++) {
      double now = cross(d, 2, j, l->way, l->dy), *ui = u + first + j;
      if (!isfinite(l->log_pi[j]) || !(now < best[j])) {
        by[j] *= 0.5;
        continue;
      }
      for (atvi_idx i = 0; i < d; i++) ui[i * PATH] += by[j] * g[i * 2 + j], g[i * 2 + j] = l->dy[i * 2 + j];
      by[j] = step == 0 ? 1 : fmin(1.5 * by[j], 1);
      best[j] = now;
    }
  }
}

/* u[d][PATH]: displacement of all else along the way, from the middle out. */
static void follow(const look *l, double *u, double *g) {
  for (int first = 0; first < PATH; first += 2) {
    for (atvi_idx i = 0; i < l->v->d; i++)
      for (int j = 0; j < 2; j++) {
        double ratio = first > 0 ? path(first) / path(first - 2) : 0;
        u[i * PATH + first + j] = first > 0 ? ratio * ratio * u[i * PATH + first - 2 + j] : 0;
      }
    climb(l, first, u, g);
  }
}

/* Range of the log weights of draws of the normal approximation, but for a twentieth at either end. */
static double spread(const look *l) {
  atvi_idx d = l->v->d, n = 0;
  double e[3 * ATVI_VI_GLANCE];
  atvi_math_sobol_normal((atvi_sobol){l->v->opts.seed, ATVI_STREAM_TRAIN, l->v->scramble}, 0, d,
                         ATVI_VI_GLANCE, l->y);
  atvi_infer_member_to_frame(l->m, d, ATVI_VI_GLANCE, l->y, l->x);
  atvi_infer_space_eval(
      l->v->space,
      &(atvi_space_batch){.B = ATVI_VI_GLANCE, .x = l->x, .beta = 1, .theta = l->theta, .log_pi = l->log_pi});
  for (atvi_idx j = 0; j < ATVI_VI_GLANCE; j++) {
    double w = l->log_pi[j];
    for (atvi_idx i = 0; i < d; i++) w += 0.5 * l->y[i * ATVI_VI_GLANCE + j] * l->y[i * ATVI_VI_GLANCE + j];
    if (isfinite(w)) e[n++] = w;
  }
  if (n < ATVI_VI_GLANCE / 2) return HUGE_VAL;
  atvi_math_sort(n, e, NULL, e + n);
  return e[19 * n / 20] - e[n / 20];
}

/* b[terms] for displacements u[PATH], by least squares. */
static void fit_terms(const double *u, double *b) {
  double f[PATH][T], a[T * T] = {0};
  memset(b, 0, T * sizeof *b);
  for (int j = 0; j < PATH; j++) {
    atvi_infer_bend_features(path(j), f[j]);
    for (int k = 0; k < T; k++) {
      b[k] += f[j][k] * u[j];
      for (int l = 0; l <= k; l++) a[k * T + l] += f[j][k] * f[j][l];
    }
  }
  atvi_math_cholesky(T, a);
  for (int k = 0; k < T; k++) {
    for (int l = 0; l < k; l++) b[k] -= a[k * T + l] * b[l];
    b[k] /= a[k * T + k];
  }
  for (int k = T - 1; k >= 0; k--) {
    for (int l = k + 1; l < T; l++) b[k] -= a[l * T + k] * b[l];
    b[k] /= a[k * T + k];
  }
}

/* The bend along the way that makes the displacements u[d][PATH]. */
static bool add_bend(const look *l, const double *u) {
  atvi_idx d = l->v->d;
  atvi_bend *b = &l->m->bend;
  atvi_pool *pool = l->v->pool;
  double *v = atvi_pool_take(pool, (size_t)d, sizeof *v),
         *by = atvi_pool_take(pool, (size_t)(T * d), sizeof *by);
  double *in_x = atvi_pool_take(pool, (size_t)(T * d), sizeof *in_x), own[T];
  if (!v || !by || !in_x) return false;
  memcpy(v, l->way, (size_t)d * sizeof *v);
  for (atvi_idx i = 0; i < d; i++) {
    fit_terms(u + i * PATH, own);
    for (int k = 0; k < T; k++) by[k * d + i] = own[k];
  }
  for (int k = 0; k < T; k++)
    for (atvi_idx i = 0; i < d; i++)
      for (atvi_idx j = 0; j <= i; j++) in_x[k * d + i] += l->m->chol[i * d + j] * by[k * d + j];
  b->along[b->n] = v;
  b->by[b->n] = by;
  b->in_x[b->n++] = in_x;
  return true;
}

/* Puts the best of the candidates in place, if it is worth it; *now is the spread, before and after. */
static atvi_status one_more(look *l, double *now, bool *any) {
  atvi_idx k[ATVI_TOPS];
  find_curves(l, l->off);
  int n = most_curved(l->v->d, l->off, k);
  double least = WORTH * *now;
  atvi_bend before = l->m->bend, best = before;
  for (int c = 0; c < n; c++) {
    direction(l, k[c], l->way);
    follow(l, l->u, l->g);
    if (!add_bend(l, l->u)) return ATVI_ENOMEM;
    double with = spread(l);
    if (with < least) least = with, best = l->m->bend;
    l->m->bend = before;
  }
  *any = best.n > before.n;
  if (*any) *now = least;
  l->m->bend = best;
  return ATVI_OK;
}

static atvi_status open_look(atvi_vi *v, atvi_member *m, look *l) {
  size_t d = (size_t)v->d;
  *l = (look){.v = v, .m = m};
  double **wide[] = {&l->y, &l->x, &l->theta, &l->dy}, **row[] = {&l->way, &l->off};
  for (int k = 0; k < 4; k++) *wide[k] = atvi_pool_take(v->pool, d * ATVI_VI_GLANCE, sizeof(double));
  for (int k = 0; k < 2; k++) *row[k] = atvi_pool_take(v->pool, d, sizeof(double));
  l->log_pi = atvi_pool_take(v->pool, ATVI_VI_GLANCE, sizeof(double));
  l->u = atvi_pool_take(v->pool, PATH * d, sizeof(double));
  l->g = atvi_pool_take(v->pool, 2 * d, sizeof(double));
  return atvi_pool_failed(v->pool) ? ATVI_ENOMEM : ATVI_OK;
}

atvi_status atvi_infer_vi_bend(atvi_vi *v, atvi_member *m) {
  look l;
  ATVI_TRY(open_look(v, m, &l));
  double now = spread(&l);
  for (bool any = true; any && m->bend.n < ATVI_TOPS;) ATVI_TRY(one_more(&l, &now, &any));
  v->scramble++;
  return ATVI_OK;
}

/* ---- maps ---- */

/* The map of coordinate k with this power, which agrees with the one that is there in value and slope at x,
 * so that the frame stays. */
static bool power_map(const atvi_map *old, double power, double x, atvi_map *out) {
  double theta, ldj = 0, own = 0, at;
  *out = *old;
  out->kind = ATVI_MAP_LOGIT;
  out->power = power;
  out->loc = 0;
  out->scale = 1;
  atvi_transform_map_fwd(old, 1, &x, &theta, &ldj);
  atvi_transform_map_inv(out, 1, &theta, &at);
  atvi_transform_map_fwd(out, 1, &at, &theta, &own);
  out->scale = exp(ldj - own);
  out->loc = at - out->scale * x;
  return isfinite(out->loc) && out->scale > 0 && isfinite(out->scale);
}

atvi_status atvi_infer_vi_straighten(atvi_vi *v, atvi_member *m, bool *changed) {
  look l;
  *changed = false;
  ATVI_TRY(open_look(v, m, &l));
  double now = spread(&l), *off = l.off;
  find_curves(&l, off);
  for (atvi_idx k = 0; k < v->d; k++) {
    atvi_map *map = &v->space->map[k], old = *map, best = old, new;
    if (!(off[k] > ATVI_PART_SD) || old.kind != ATVI_MAP_PROBIT || !atvi_infer_vi_is_open(v, k)) continue;
    double least = WORTH * now;
    for (int t = 0; t < 4; t++) {
      if (!power_map(&old, POWERS[t], m->shift[k], &new)) continue;
      *map = new;
      double with = spread(&l);
      if (with < least) least = with, best = new;
    }
    *map = best;
    if (best.kind == old.kind) continue;
    now = least;
    *changed = true;
  }
  v->scramble++;
  return ATVI_OK;
}
