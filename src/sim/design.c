/* SPDX-License-Identifier: MIT */
/* Maximin is approximated by a smooth criterion, the sum over pairs of (scale / distance)^2q, which is
 * dominated by the nearest pairs but also ranks two designs with equal nearest pairs (Morris and Mitchell
 * 1995). A move exchanges one coordinate of two new points, which does not change the slices, and costs O(n
 * d). Moves pick crowded points; a slightly worse design is accepted with a tolerance that falls to zero, and
 * the best one is kept. The number of moves is fixed by the sizes, never by a clock: equal seeds give equal
 * designs. */
#include "sim/simulator.h"
#include "math/rng.h"
#include "math/sobol.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
  STREAM_DESIGN = 128, /* no other stream of math/rng.h has this number */
  POWER = 8,           /* q; distances enter squared */
  CROWD = 4,           /* number of points among which the most crowded is moved */
  MOVES_MAX = 60000,
};
static const double WORK = 2e8; /* coordinates examined in total: about half a second */
/* An end of an axis without old points is empty if it is longer than this and than that many mean distances
 * between them. */
static const double EMPTY = 0.05, EMPTY_POINTS = 4;
static const double TOLERANCE = 0.1; /* share by which the first moves may worsen the sum */

typedef struct {
  atvi_idx n, n_old, d;
  double *x;        /* [n][d] of the caller */
  double *best;     /* [n - n_old][d] */
  double *crowd;    /* [n] sum of a point's pairs */
  double *da, *db;  /* [n] changes of a move */
  atvi_idx *count;  /* [n] old points per slice */
  atvi_idx *chosen; /* [n] slices for new points */
  double scale;     /* squared distance that counts as 1 */
  atvi_rng rng;
} search;

static void *carve(atvi_arena *a, search *s) {
  ATVI_TAKE(a, s->best, (s->n - s->n_old) * s->d);
  ATVI_TAKE(a, s->crowd, s->n);
  ATVI_TAKE(a, s->da, s->n);
  ATVI_TAKE(a, s->db, s->n);
  ATVI_TAKE(a, s->count, s->n);
  ATVI_TAKE(a, s->chosen, s->n + 1);
  return a->base;
}

static double squared(atvi_idx d, const double *a, const double *b) {
  double sum = 0;
  for (atvi_idx j = 0; j < d; j++) sum += (a[j] - b[j]) * (a[j] - b[j]);
  return sum;
}

/* (scale / distance^2)^8; equal points count as much as can be summed without overflow. */
static double repulsion(const search *s, double distance2) {
  double r = s->scale / fmax(distance2, 1e-30);
  r *= r, r *= r, r *= r;
  return fmin(r, 1e200);
}

static atvi_idx below(search *s, atvi_idx n) { return (atvi_idx)(atvi_math_rng_bits(&s->rng) % (uint64_t)n); }

/* Slices of axis j that get a new point: the empty ones, as many as there are new points. If old points share
 * slices there are more empty ones than that: a slice is then left empty once the slices up to it have enough
 * points. */
static void choose_slices(search *s, atvi_idx j) {
  atvi_idx n = s->n, have = 0, m = 0, want = n - s->n_old;
  memset(s->count, 0, (size_t)n * sizeof *s->count);
  for (atvi_idx i = 0; i < s->n_old; i++) {
    atvi_idx k = (atvi_idx)(s->x[i * s->d + j] * (double)n);
    s->count[k < n ? k : n - 1]++;
  }
  for (atvi_idx k = 0; k < n; k++) {
    have += s->count[k];
    if (s->count[k] > 0 || have > k || m == want) continue;
    s->chosen[m++] = k;
    have++;
  }
  ATVI_ASSERT(m == want); /* have >= k + 1 after slice k, unless all are placed */
}

static void random_latin(search *s) {
  atvi_idx m = s->n - s->n_old;
  for (atvi_idx j = 0; j < s->d; j++) {
    choose_slices(s, j);
    for (atvi_idx i = m; i-- > 0;) {
      atvi_idx k = below(s, i + 1), slice = s->chosen[k];
      s->chosen[k] = s->chosen[i];
      s->x[(s->n_old + i) * s->d + j] = ((double)slice + atvi_math_rng_uniform(&s->rng)) / (double)s->n;
    }
  }
}

/* The sum over pairs with a new point in them; crowd[] of every point. */
static double weigh(search *s) {
  double sum = 0;
  memset(s->crowd, 0, (size_t)s->n * sizeof *s->crowd);
  for (atvi_idx i = s->n_old; i < s->n; i++)
    for (atvi_idx k = 0; k < i; k++) {
      double r = repulsion(s, squared(s->d, s->x + i * s->d, s->x + k * s->d));
      s->crowd[i] += r;
      s->crowd[k] += r;
      sum += r;
    }
  return sum;
}

/* Change of the sum if coordinate j of a and b is exchanged. */
static double change(search *s, atvi_idx a, atvi_idx b, atvi_idx j) {
  const double *xa = s->x + a * s->d, *xb = s->x + b * s->d;
  double sum = 0;
  for (atvi_idx k = 0; k < s->n; k++) {
    s->da[k] = s->db[k] = 0;
    if (k == a || k == b) continue; /* the distance between them does not change */
    const double *xk = s->x + k * s->d;
    double ak = squared(s->d, xa, xk), bk = squared(s->d, xb, xk);
    double swap = (xb[j] - xk[j]) * (xb[j] - xk[j]) - (xa[j] - xk[j]) * (xa[j] - xk[j]);
    s->da[k] = repulsion(s, ak + swap) - repulsion(s, ak);
    s->db[k] = repulsion(s, bk - swap) - repulsion(s, bk);
    sum += s->da[k] + s->db[k];
  }
  return sum;
}

static void apply(search *s, atvi_idx a, atvi_idx b, atvi_idx j) {
  double t = s->x[a * s->d + j];
  s->x[a * s->d + j] = s->x[b * s->d + j];
  s->x[b * s->d + j] = t;
  for (atvi_idx k = 0; k < s->n; k++) {
    s->crowd[k] += s->da[k] + s->db[k];
    s->crowd[a] += s->da[k];
    s->crowd[b] += s->db[k];
  }
}

static void improve(search *s) {
  atvi_idx m = s->n - s->n_old;
  if (m < 2 || s->d < 2) return;
  double moves = fmin(MOVES_MAX, WORK / (2.0 * (double)s->n * (double)(s->d + 6)));
  size_t bytes = (size_t)(m * s->d) * sizeof *s->x;
  double now = weigh(s), least = now;
  memcpy(s->best, s->x + s->n_old * s->d, bytes);
  for (double step = 0; step < moves; step++) {
    atvi_idx a = s->n_old + below(s, m), j = below(s, s->d);
    for (int c = 1; c < CROWD; c++) {
      atvi_idx other = s->n_old + below(s, m);
      if (s->crowd[other] > s->crowd[a]) a = other;
    }
    atvi_idx b = s->n_old + below(s, m);
    if (a == b) continue;
    double more = change(s, a, b, j);
    if (!(more < now * TOLERANCE * pow(1 - step / moves, 4) * 0.1 * atvi_math_rng_uniform(&s->rng))) continue;
    apply(s, a, b, j);
    now += more;
    if (!(now < least)) continue;
    least = now;
    memcpy(s->best, s->x + s->n_old * s->d, bytes);
  }
  memcpy(s->x + s->n_old * s->d, s->best, bytes);
}

static atvi_status latin(atvi_ctx *ctx, uint64_t seed, atvi_idx number, atvi_idx d, atvi_idx n_old,
                         atvi_idx n, double *x) {
  search s = {.n = n, .n_old = n_old, .d = d, .x = x};
  s.rng = atvi_math_rng_at(seed, STREAM_DESIGN, (uint32_t)number, (uint32_t)n);
  s.scale = (double)d / 6 * pow((double)n, -2.0 / (double)d);
  atvi_arena a = {0};
  carve(&a, &s);
  void *block = atvi_block(ctx, a.used);
  if (!block) return ATVI_ENOMEM;
  a = (atvi_arena){.base = block};
  carve(&a, &s);
  random_latin(&s);
  improve(&s);
  atvi_block_free(ctx, block);
  return ATVI_OK;
}

/* ---- ranges that have grown ---- */

void atvi_sim_design_extent(atvi_idx n, atvi_idx d, const double *x, atvi_idx j, double *from, double *to) {
  double least = 1, most = 0, empty = fmax(EMPTY, EMPTY_POINTS / (double)n);
  for (atvi_idx i = 0; i < n; i++) least = fmin(least, x[i * d + j]), most = fmax(most, x[i * d + j]);
  *from = least > empty ? least : 0;
  *to = most < 1 - empty ? most : 1;
}

/* Share of the cube covered by old points; 1: all of it. */
static double covered(atvi_idx n, atvi_idx d, const double *x) {
  double part = 1, from, to;
  for (atvi_idx j = 0; n > 0 && j < d; j++) {
    atvi_sim_design_extent(n, d, x, j, &from, &to);
    part *= fmax(to - from, 0);
  }
  return part;
}

typedef struct {
  double distance; /* to the nearest old point */
  atvi_idx i;
} candidate;

static int farthest_first(const void *a, const void *b) {
  const candidate *p = a, *q = b;
  if (p->distance != q->distance) return p->distance > q->distance ? -1 : 1;
  return (p->i > q->i) - (p->i < q->i);
}

/* Old points fill a part of the cube, so slices of single axes would leave holes. New points are those of a
 * fresh Latin hypercube over the whole cube, without those nearest to old points. The number left out makes
 * the density outside the part that of evenly spread points or, if the old points are denser, theirs. */
static atvi_status around(atvi_ctx *ctx, uint64_t seed, atvi_idx d, atvi_idx n_old, atvi_idx n, double part,
                          double *x) {
  atvi_idx m = n - n_old, fresh = (atvi_idx)ceil(fmin((double)n, (double)m / fmax(1 - part, 1e-9)));
  atvi_arena a = {0};
  double *y;
  candidate *c;
  ATVI_TAKE(&a, y, fresh * d);
  ATVI_TAKE(&a, c, fresh);
  void *block = atvi_block(ctx, a.used);
  if (!block) return ATVI_ENOMEM;
  a = (atvi_arena){.base = block};
  ATVI_TAKE(&a, y, fresh * d);
  ATVI_TAKE(&a, c, fresh);
  atvi_status status = latin(ctx, seed, n_old, d, 0, fresh, y);
  for (atvi_idx i = 0; status == ATVI_OK && i < fresh; i++) {
    c[i] = (candidate){INFINITY, i};
    for (atvi_idx k = 0; k < n_old; k++)
      c[i].distance = fmin(c[i].distance, squared(d, y + i * d, x + k * d));
  }
  if (status == ATVI_OK) {
    qsort(c, (size_t)fresh, sizeof *c, farthest_first);
    for (atvi_idx i = 0; i < m; i++) memcpy(x + (n_old + i) * d, y + c[i].i * d, (size_t)d * sizeof *x);
  }
  atvi_block_free(ctx, block);
  return status;
}

static atvi_status sobol(atvi_ctx *ctx, uint64_t seed, atvi_idx d, atvi_idx n_old, atvi_idx n, double *x) {
  atvi_idx m = n - n_old;
  double *u = atvi_block(ctx, (size_t)(m * d) * sizeof *u);
  if (!u) return ATVI_ENOMEM;
  atvi_math_sobol_uniform((atvi_sobol){seed, STREAM_DESIGN, 0}, n_old, d, m, u);
  for (atvi_idx i = 0; i < m; i++)
    for (atvi_idx j = 0; j < d; j++) x[(n_old + i) * d + j] = u[j * m + i];
  atvi_block_free(ctx, u);
  return ATVI_OK;
}

atvi_status atvi_sim_design_fill(atvi_ctx *ctx, atvi_design_kind kind, uint64_t seed, atvi_idx d,
                                 atvi_idx n_old, atvi_idx n, double *x) {
  if (d < 1) return ATVI_FAIL(ctx, ATVI_EINVAL, "design: %td inputs, want at least 1", d);
  if (n_old < 0 || n < n_old || n > (atvi_idx)1 << 31)
    return ATVI_FAIL(ctx, ATVI_EINVAL, "design: from %td points to %td", n_old, n);
  for (atvi_idx i = 0; kind == ATVI_DESIGN_LHS && i < n_old * d; i++)
    if (!(x[i] >= 0 && x[i] <= 1))
      return ATVI_FAIL(ctx, ATVI_EINVAL, "design: point %td is outside the unit cube", i / d + 1);
  if (n == n_old) return ATVI_OK;
  if (kind == ATVI_DESIGN_SOBOL) return sobol(ctx, seed, d, n_old, n, x);
  double part = covered(n_old, d, x);
  return part < 1 ? around(ctx, seed, d, n_old, n, part, x) : latin(ctx, seed, n_old, d, n_old, n, x);
}
