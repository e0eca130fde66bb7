/* SPDX-License-Identifier: MIT */
/* Maps of a fit: which, and the care that the boundary surjection needs.
 *
 * Two bounds   probit. A posterior that is flat up to a bound is exactly normal under it, and one that piles up there has
 *              normal tails; measured against the surjection it was equal or better with a flow (docs/method.md).
 * One bound    log, unless the posterior reaches the bound: its density is then finite at the bound and exponential in the
 *              log, a tail that no normal base has. The surjection folds it instead. Where draws near the
 *              bound say that this may be so, pilots under both maps decide, by what their draws are worth.
 *
 * Traps of the surjection. A copy of the posterior beyond a fold is as good as the one in the box but for the slope, and q
 * may settle there: in theta nothing is wrong, but w is not what it could be. The cure is exact: the isometry that takes that copy of the box to
 * the box leaves theta as it is. It serves near and far copies alike. The slope is steep enough, in units of the
 * spread of q, that a reflected copy of a posterior which does not touch the bound has no mass, and so gentle that
 * one which does can cross it. */
#include "infer/vi_state.h"
#include "math/rng.h"
#include "math/stat/stat.h"
#include <math.h>
#include <string.h>

#define SLOPE_LEAST 8.0 /* the next copy of the box then has e^-32 of the mass */
#define SLOPE_MOST 400.0
#define SLOPE_BY_SD 4.0
#define REACH_SHARE                                                                                          \
  0.03 /* of draws nearer to the bound than REACH of their median distance: the bound is reached */
#define REACH 0.1
enum { PILOT_ROUNDS = 2 };

static int n_ends(const atvi_map *m) { return isfinite(m->lower) + isfinite(m->upper); }

/* Where x is in units of the box (two ends: [-2, 2]) or of the distance from the only end. */
static double unit(const atvi_map *m, double x) {
  if (n_ends(m) == 2) return x;
  double theta = m->loc + m->scale * x;
  return isfinite(m->lower) ? (theta - m->lower) / m->scale : (m->upper - theta) / m->scale;
}

static double median(atvi_idx n, const double *x, double *scratch) {
  memcpy(scratch, x, (size_t)n * sizeof *x);
  atvi_sort(n, scratch, NULL, scratch + n);
  return scratch[n / 2];
}

/* x becomes sign x + by in coordinate i. */
static void move(atvi_vi *v, atvi_member *m, atvi_idx i, double sign, double by) {
  m->whole = true;
  m->shift[i] = sign * m->shift[i] + by;
  for (atvi_idx k = 0; k <= i; k++) m->chol[i * v->d + k] *= sign;
}

int atvi_vi_home(atvi_vi *v, atvi_member *m, atvi_idx n) {
  int moved = 0;
  for (atvi_idx i = 0; i < v->d; i++) {
    const atvi_map *map = &v->space->map[i];
    if (map->kind != ATVI_MAP_SURJECTION) continue;
    double mid = median(n, v->look.x + i * v->look.cap, v->weight);
    double sign = 1, by = 0;
    if (n_ends(map) == 2) {
      double copy = floor((mid + 2) / 4);
      sign = fmod(copy, 2) == 0 ? 1 : -1;
      by = -4 * sign * copy;
    } else if (unit(map, mid) < 0) {
      double end = isfinite(map->lower) ? map->lower : map->upper;
      sign = -1;
      by = 2 * (end - map->loc) / map->scale;
    }
    if (sign == 1 && by == 0) continue;
    move(v, m, i, sign, by);
    moved++;
  }
  return moved;
}

void atvi_vi_slopes(atvi_vi *v, atvi_idx n) {
  for (atvi_idx i = 0; i < v->d; i++) {
    atvi_map *map = &v->space->map[i];
    if (map->kind != ATVI_MAP_SURJECTION) continue;
    double sd = atvi_sd(n, v->look.x + i * v->look.cap, NULL);
    map->slope = fmin(fmax(SLOPE_BY_SD / sd, SLOPE_LEAST), SLOPE_MOST);
  }
}

/* ---- the choice ---- */

static bool is_open(const atvi_vi *v, atvi_idx i) {
  const char *own = v->space->target->param[i].map, *all = v->opts.map;
  bool open = (!own || strcmp(own, "auto") == 0) && (!all || strcmp(all, "auto") == 0);
  return open && v->space->map[i].kind == ATVI_MAP_LOG;
}

static bool reaches(atvi_vi *v, atvi_idx i, atvi_idx n) {
  const atvi_map *map = &v->space->map[i];
  const double *theta = v->look.theta + i * v->look.cap;
  double end = isfinite(map->lower) ? map->lower : map->upper, near = 0;
  double far = fabs(median(n, theta, v->weight) - end);
  for (atvi_idx j = 0; j < n; j++) near += fabs(theta[j] - end) < REACH * far;
  return near > REACH_SHARE * (double)n;
}

/* One-sided surjection with the location and scale of the draws. */
static atvi_status fold(atvi_vi *v, atvi_idx i, atvi_idx n) {
  atvi_map *map = &v->space->map[i], new;
  const double *theta = v->look.theta + i * v->look.cap;
  ATVI_TRY(atvi_map_new(v->ctx, ATVI_MAP_SURJECTION, map->lower, map->upper, &new));
  new.loc = median(n, theta, v->weight);
  new.scale = fmax(atvi_sd(n, theta, NULL), 1e-300);
  *map = new;
  return ATVI_OK;
}

static bool pilot(atvi_vi *v, atvi_member *m, double *share) {
  atvi_vi_rounds_opts o = {1, PILOT_ROUNDS, INT32_MAX, 0, v->size};
  bool done = atvi_vi_rounds(v, m, &o);
  *share = atvi_vi_judge(v, m, v->scramble++).share;
  return done;
}

/* Climbs anew under maps with folds; keeps them and m if the draws are worth more. */
static bool try_folds(atvi_vi *v, atvi_member *m, atvi_idx n_fold, const atvi_idx *which) {
  size_t bytes = (size_t)v->size * sizeof(double);
  double share_log, share_fold;
  double *phi = atvi_pool_take(v->pool, (size_t)v->size, sizeof *phi);
  atvi_map *old = atvi_pool_take(v->pool, (size_t)v->d, sizeof *old);
  if (!phi || !old) return true; /* without memory for a second try the first one stands */
  memcpy(old, v->space->map, (size_t)v->d * sizeof *old);
  for (atvi_idx k = 0; k < n_fold; k++)
    if (fold(v, which[k], ATVI_VI_TEST) != ATVI_OK) return true;
  atvi_map *folded = atvi_pool_take(v->pool, (size_t)v->d, sizeof *folded);
  if (!folded) return true;
  memcpy(folded, v->space->map, (size_t)v->d * sizeof *folded);
  memcpy(v->space->map, old, (size_t)v->d * sizeof *old);
  if (!pilot(v, m, &share_log)) return false;
  memcpy(phi, m->phi, bytes);
  memcpy(v->space->map, folded, (size_t)v->d * sizeof *folded);
  v->family.ops->init(v->family.self, m->phi);
  int rungs = v->rungs;
  v->rungs = 0;
  if (!atvi_vi_climb(v, m) || !pilot(v, m, &share_fold)) return false;
  if (share_fold > share_log) return true;
  v->rungs = rungs;
  memcpy(v->space->map, old, (size_t)v->d * sizeof *old);
  memcpy(m->phi, phi, bytes);
  return true;
}

bool atvi_vi_choose_maps(atvi_vi *v, atvi_member *m) {
  if (!atvi_vi_climb(v, m)) return false;
  atvi_idx *which = atvi_pool_take(v->pool, (size_t)v->d, sizeof *which), n = 0;
  for (atvi_idx i = 0; i < v->d && which; i++) n += is_open(v, i);
  if (n == 0 || !which) return true;
  atvi_vi_look(v, m, ATVI_STREAM_TRAIN, v->scramble++, false, ATVI_VI_TEST);
  n = 0;
  for (atvi_idx i = 0; i < v->d; i++)
    if (is_open(v, i) && reaches(v, i, ATVI_VI_TEST)) which[n++] = i;
  return n == 0 || try_folds(v, m, n, which);
}
