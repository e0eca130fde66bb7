/* SPDX-License-Identifier: MIT */
/* Coordinates of a fit: which maps, the care that the boundary surjection needs, and the frame of q.
 *
 * Two bounds   probit where the posterior stays inside: a flat prior is exactly normal under it. Where it reaches a bound, the surjection:
 *              a density that is finite at the bound and falls from there has, under probit, tails that are right
 *              only if the scale of q is right to the last digit; a fold has no tail there. In effective size both were equal
 *              with the flow used here (docs/method.md); in the density of q at the bound the fold is better. It starts again from a
 *              normal distribution, though, so short pilots under both maps must say that its draws are worth as much.
 * One bound    log, or the surjection where the posterior reaches the bound: its density is exponential in the log,
 *              a tail that no normal base has. But a wide posterior on the log scale looks the same near the bound, so short
 *              pilots under both maps decide, by what their draws are worth.
 *
 * The ladder is climbed under probit and log, which have no copies to get lost in; the fold takes over at its
 * end, in the frame of the draws.
 *
 * Traps of the surjection. A copy of the posterior beyond a fold is as good as the one in the box but for the
 * slope, and q may settle there: in theta nothing is wrong, but w is not what it could be. The cure is exact:
 * the isometry that takes that copy of the box to the box leaves theta as it is. It serves near and far
 * copies alike. The slope is steep enough, in units of the spread of q, that a reflected copy of a posterior
 * which does not touch the bound has no mass, and so gentle that one which does can cross it.
 *
 * Frame        It follows q up the ladder. A posterior may be a million times narrower than its prior, and steps that
 *              suit a flow of unit size would take thousands to shrink it that far, coordinate by coordinate, or to turn
 *              it into a narrow ridge. A normal approximation of the draws at hand, weighted to the next temperature, does it at
 *              once. */
#include "infer/vi_state.h"
#include "math/linalg.h"
#include "math/rng.h"
#include "math/special.h"
#include "math/stat/stat.h"
#include "infer/modes.h"
#include <math.h>
#include <string.h>

static int n_ends(const atvi_map *m) { return isfinite(m->lower) + isfinite(m->upper); }

/* Where x is in units of the box (two ends: [-2, 2]) or of the distance from the only end. */
static double unit(const atvi_map *m, double x) {
  if (n_ends(m) == 2) return x;
  double theta = m->loc + m->scale * x;
  return isfinite(m->lower) ? (theta - m->lower) / m->scale : (m->upper - theta) / m->scale;
}

static double median(atvi_idx n, const double *x, double *scratch) {
  memcpy(scratch, x, (size_t)n * sizeof *x);
  atvi_math_sort(n, scratch, NULL, scratch + n);
  return scratch[n / 2];
}

/* x becomes sign x + by in coordinate i. */
static void move(atvi_vi *v, atvi_member *m, atvi_idx i, double sign, double by) {
  m->whole = true;
  m->shift[i] = sign * m->shift[i] + by;
  for (atvi_idx k = 0; k <= i; k++) m->chol[i * v->d + k] *= sign;
}

int atvi_infer_vi_home(atvi_vi *v, atvi_member *m, const atvi_cloud *draws) {
  int moved = 0;
  for (atvi_idx i = 0; i < v->d; i++) {
    const atvi_map *map = &v->space->map[i];
    if (map->kind != ATVI_MAP_SURJECTION) continue;
    double mid = median(draws->n, draws->x + i * draws->cap, v->scratch);
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

void atvi_infer_vi_slopes(atvi_vi *v, const atvi_cloud *draws) {
  for (atvi_idx i = 0; i < v->d; i++) {
    atvi_map *map = &v->space->map[i];
    if (map->kind != ATVI_MAP_SURJECTION) continue;
    double sd = atvi_math_sd(draws->n, draws->x + i * draws->cap, NULL);
    map->slope = fmin(fmax(v->tuning.slope_by_sd / sd, v->tuning.slope_least), ATVI_VI_SLOPE_MOST);
  }
}

bool atvi_infer_vi_slopes_of_peaks(atvi_vi *v, double least_evidence) {
  bool any = false;
  for (atvi_idx i = 0; i < v->d; i++) {
    atvi_map *map = &v->space->map[i];
    double before = map->slope;
    for (atvi_idx k = 0; k < v->search.modes.n && map->kind == ATVI_MAP_SURJECTION; k++) {
      const atvi_peak *p = &v->search.modes.mode[k];
      double var = 0;
      for (atvi_idx l = 0; l <= i; l++) var += p->chol[i * v->d + l] * p->chol[i * v->d + l];
      if (p->log_evidence > least_evidence)
        map->slope = fmin(fmax(map->slope, v->tuning.slope_by_sd / sqrt(var)), ATVI_VI_SLOPE_MOST);
    }
    any = any || map->slope != before;
  }
  return any;
}

void atvi_infer_vi_ldj(const atvi_vi *v, const atvi_cloud *c, atvi_idx n, double *ldj) {
  double *z = ldj + n;
  memset(ldj, 0, (size_t)n * sizeof *ldj);
  for (atvi_idx i = 0; i < v->d; i++) atvi_transform_map_fwd(&v->space->map[i], n, c->x + i * c->cap, z, ldj);
}

/* ---- the frame ---- */

/* y = chol^-1 (x - shift), in place. */
static void to_frame(const atvi_member *m, atvi_idx d, double *x) {
  for (atvi_idx i = 0; i < d; i++) {
    x[i] -= m->shift[i];
    for (atvi_idx k = 0; k < i; k++) x[i] -= m->chol[i * d + k] * x[k];
    x[i] /= m->chol[i * d + i];
  }
}

/* weight[n], sums to one, of going up by step; returns the effective size. */
static double weights(const atvi_cloud *c, double step, double *weight) {
  atvi_idx n = c->n;
  for (atvi_idx j = 0; j < n; j++)
    weight[j] = isfinite(c->log_pi[j]) ? step * (c->log_pi[j] - c->log_base[j]) : -HUGE_VAL;
  atvi_math_softmax(n, weight, weight);
  return atvi_math_effective_size(n, weight);
}

/* Mean and covariance of the draws in the frame. */
static void moments(const atvi_member *m, atvi_idx d, const atvi_cloud *c, const double *weight, double *mean,
                    double *cov, double *y) {
  for (int pass = 0; pass < 2; pass++) {
    for (atvi_idx j = 0; j < c->n; j++) {
      for (atvi_idx i = 0; i < d; i++) y[i] = c->x[i * c->cap + j];
      to_frame(m, d, y);
      for (atvi_idx i = 0; i < d; i++) {
        if (pass == 0) mean[i] += weight[j] * y[i];
        for (atvi_idx k = 0; k <= i && pass == 1; k++)
          cov[i * d + k] += weight[j] * (y[i] - mean[i]) * (y[k] - mean[k]);
      }
    }
  }
}

void atvi_infer_vi_move(atvi_idx d, const double *mean, const double *by, double inflate, double *row,
                        double *shift, double *chol) {
  for (atvi_idx i = d - 1; i >= 0; i--) { /* from the last row up and the last column on, in place */
    for (atvi_idx k = 0; k <= i; k++) shift[i] += chol[i * d + k] * mean[k];
    for (atvi_idx k = 0; k <= i; k++) {
      double sum = 0;
      for (atvi_idx l = k; l <= i; l++) sum += chol[i * d + l] * by[l * d + k];
      row[k] = inflate * sum;
    }
    memcpy(chol + i * d, row, (size_t)(i + 1) * sizeof *row);
  }
}

/* By the weights in v->scratch, whose effective size is ess: always, or where q has become narrow. */
static bool move_frame(atvi_vi *v, atvi_member *m, const atvi_cloud *draws, double ess, double inflate,
                       bool always) {
  atvi_idx d = v->d;
  double *weight = v->scratch, narrow = HUGE_VAL;
  double *mean = weight + draws->n, *y = mean + d, *chol = y + d;
  if (!(ess > v->tuning.per_dim)) return false;
  memset(mean, 0, (size_t)(d * (d + 2)) * sizeof *mean);
  moments(m, d, draws, weight, mean, chol, y);
  for (atvi_idx i = 0; i < d; i++)
    for (atvi_idx k = 0; k < i && ess < v->tuning.per_dim * (double)d; k++) chol[i * d + k] = 0;
  if (!atvi_math_cholesky(d, chol)) return false;
  for (atvi_idx i = 0; i < d; i++) narrow = fmin(narrow, chol[i * d + i]);
  if (!(narrow < ATVI_SMALL) && !always) return false;
  atvi_infer_vi_move(d, mean, chol, inflate, y, m->shift, m->chol);
  m->whole = true;
  m->log_det = 0;
  for (atvi_idx i = 0; i < d; i++) m->log_det += log(fabs(m->chol[i * d + i]));
  v->family.ops->init(v->family.self, m->phi);
  return true;
}

bool atvi_infer_vi_reframe(atvi_vi *v, atvi_member *m, const atvi_cloud *draws, double step, bool always) {
  return move_frame(v, m, draws, weights(draws, step, v->scratch), v->tuning.inflate, always);
}

bool atvi_infer_vi_follow(atvi_vi *v, atvi_member *m, const atvi_cloud *draws, const double *log_w) {
  double *weight = v->scratch;
  for (atvi_idx j = 0; j < draws->n; j++) weight[j] = isfinite(log_w[j]) ? log_w[j] : -HUGE_VAL;
  atvi_psis_info p = atvi_math_psis(draws->n, weight, weight, weight + draws->n);
  return move_frame(v, m, draws, p.ess, 1, true);
}

/* ---- the choice ---- */

static bool is_auto(const char *map) { return !map || strcmp(map, "auto") == 0; }

bool atvi_infer_vi_is_open(const atvi_vi *v, atvi_idx i) {
  return is_auto(v->space->target->param[i].map) && is_auto(v->opts.map) && n_ends(&v->space->map[i]) > 0;
}

/* z[draws->n] of coordinate i (space.h): the parameter itself, unless its prior depends on others. */
static void bounded(const atvi_vi *v, const atvi_cloud *draws, atvi_idx i, double *z) {
  double *ldj = z + draws->n;
  atvi_transform_map_fwd(&v->space->map[i], draws->n, draws->x + i * draws->cap, z, ldj);
}

/* Is there mass right at the end, on the scale of the distance from it to the median? */
static bool reaches(atvi_vi *v, const atvi_cloud *draws, atvi_idx i, double end) {
  double *z = v->scratch;
  if (!isfinite(end)) return false;
  bounded(v, draws, i, z);
  double near = 0, far = fabs(median(draws->n, z, z + draws->n) - end);
  for (atvi_idx j = 0; j < draws->n; j++) near += fabs(z[j] - end) < ATVI_SMALL * far;
  const double flat = 0.5 * ATVI_SMALL; /* of the draws, if the density were flat */
  return near > ATVI_HALF * flat * (double)draws->n;
}

/* ---- the density at a bound ---- */

/* Draws moved to the bound of coordinate i. Where a parameter goes to its bound, others that trade with it
 * must come along. */
typedef struct {
  atvi_idx n, i;
  /* z and x at the end, or nearly. */
  double z_end, x_end;
  /* [draws] of the parameter, and scratch. */
  double *z;
  /* [d] mean of the other coordinates, and their slope against z: not against its log, which goes far where
   * nothing changes any more. */
  double *mean, *slope;
  /* [d] where they are at the end. */
  double *there;
  /* [d][n], [d][n] and [n] of the draws there. */
  double *x, *theta, *log_pi;
} at_bound;

static at_bound lay_at_bound(const atvi_vi *v, const atvi_cloud *draws, atvi_idx i) {
  atvi_idx n = ATVI_VI_PROBES / 2, d = v->d;
  at_bound a = {.n = n, .i = i, .z = v->scratch};
  a.mean = a.z + 2 * draws->n;
  a.slope = a.mean + d;
  a.there = a.slope + d;
  a.log_pi = a.there + d;
  a.x = a.log_pi + n;
  a.theta = a.x + d * n;
  return a;
}

static void regress(const atvi_vi *v, const atvi_cloud *draws, at_bound *a) {
  bounded(v, draws, a->i, a->z);
  double mean = atvi_math_mean(draws->n, a->z, NULL), sd = atvi_math_sd(draws->n, a->z, NULL);
  for (atvi_idx k = 0; k < v->d; k++) {
    const double *x = draws->x + k * draws->cap;
    double sum = 0;
    for (atvi_idx j = 0; j < draws->n; j++) sum += x[j] * (a->z[j] - mean);
    a->slope[k] = k == a->i ? 0 : sum / (sd * sd * (double)draws->n);
    a->mean[k] = atvi_math_mean(draws->n, x, NULL) - a->slope[k] * mean;
    a->there[k] = k == a->i ? a->x_end : a->mean[k] + a->slope[k] * a->z_end;
  }
}

static void evaluate_there(const atvi_vi *v, const atvi_cloud *draws, const at_bound *a) {
  for (atvi_idx k = 0; k < v->d; k++)
    for (atvi_idx j = 0; j < a->n; j++) {
      double rest = draws->x[k * draws->cap + j] - a->mean[k] - a->slope[k] * a->z[j];
      a->x[k * a->n + j] = a->there[k] + (k == a->i ? 0 : rest);
    }
  atvi_space_batch b = {.B = a->n, .x = a->x, .beta = 1, .theta = a->theta, .log_pi = a->log_pi};
  atvi_infer_space_eval(v->space, &b);
}

/* From the best of the draws there the others climb to where they are when this parameter is at its bound. */
static atvi_status climb_there(const atvi_vi *v, const at_bound *a) {
  atvi_pool *pool;
  atvi_climb_batch b;
  atvi_climb *c;
  atvi_idx best = 0;
  for (atvi_idx j = 1; j < a->n; j++)
    if (a->log_pi[j] > a->log_pi[best]) best = j;
  if (!isfinite(a->log_pi[best])) return ATVI_OK;
  ATVI_TRY(atvi_pool_new(v->ctx, &pool));
  for (atvi_idx k = 0; k < v->d; k++) a->there[k] = a->x[k * a->n + best];
  atvi_status status = atvi_infer_climb_batch_new(v->space, pool, 1, &b);
  if (status == ATVI_OK) status = atvi_infer_climbs_new(pool, v->d, 1, a->there, &c);
  if (status == ATVI_OK) {
    c->fixed = a->i;
    atvi_infer_climbs_run(&b, 1, (atvi_climb *const[]){c}, ATVI_ITERATIONS);
    memcpy(a->there, c->x, (size_t)v->d * sizeof *c->x);
  }
  atvi_pool_free(pool);
  return status;
}

/* The same asked of the posterior, for one bound: a density that is finite there has, in the log, an
 * exponential tail, which q cannot have. Its marginal density at the bound is the mean of
 *
 *     f(x) p(end, r + c) / p(x, rest),   r = rest - b z
 *
 * over draws (x, rest) of the posterior, for any density f and any b and c (Chen 1994, with a shear): here f,
 * b are those of a normal approximation of the draws of q, which are weighted, and r + c is about where the
 * others have their maximum at the end. Between the bound and the end of q's tail that makes the share of the
 * posterior which the log would lose. */
static bool reaches_by_density(atvi_vi *v, const atvi_cloud *draws, atvi_idx i, double end) {
  const atvi_map *map = &v->space->map[i];
  const double *xi = draws->x + i * draws->cap;
  if (!isfinite(end) || n_ends(map) != 1) return false;
  double mean = atvi_math_mean(draws->n, xi, NULL), sd = atvi_math_sd(draws->n, xi, NULL);
  double low, high, x_low = mean - ATVI_FAR * sd, x_high = mean + ATVI_FAR * sd, ldj = 0, log_slope = 0;
  double all = -HUGE_VAL, there = -HUGE_VAL;
  atvi_transform_map_fwd(map, 1, &x_low, &low, &ldj);
  atvi_transform_map_fwd(map, 1, &x_high, &high, &ldj);
  double reach = fmin(fabs(low - end), fabs(high - end));
  at_bound a = lay_at_bound(v, draws, i);
  a.z_end = end + (end < low ? ATVI_SMALL : -ATVI_SMALL) * reach;
  atvi_transform_map_inv(map, 1, &a.z_end, &a.x_end);
  atvi_transform_map_fwd(map, 1, &a.x_end, &a.z_end, &log_slope);
  regress(v, draws, &a);
  evaluate_there(v, draws, &a);
  if (climb_there(v, &a) != ATVI_OK) return false;
  evaluate_there(v, draws, &a);
  for (atvi_idx j = 0; j < a.n; j++) {
    double r = (xi[j] - mean) / sd, log_f = -0.5 * r * r - log(sd) - 0.91893853320467274178;
    double w = draws->log_pi[j] - draws->log_q[j], w_end = a.log_pi[j] - draws->log_q[j];
    if (isfinite(w)) all = atvi_math_log_add(all, w);
    if (isfinite(w_end)) there = atvi_math_log_add(there, log_f + w_end);
  }
  return reach * exp(there - all - log_slope) > ATVI_SLIGHT;
}

bool atvi_infer_vi_log_loses(atvi_vi *v, const atvi_member *m) {
  bool any = false;
  atvi_cloud draws = atvi_infer_vi_glance(v, m, ATVI_VI_TEST);
  for (atvi_idx i = 0; i < v->d && !any; i++) {
    const atvi_map *map = &v->space->map[i];
    if (!atvi_infer_vi_is_open(v, i) || n_ends(map) != 1) continue;
    double end = isfinite(map->lower) ? map->lower : map->upper;
    any = reaches(v, &draws, i, end) || reaches_by_density(v, &draws, i, end);
  }
  return any;
}

/* The map of coordinate i becomes a surjection and the draws follow; one-sided ones take location and scale
 * from the draws. */
static bool fold(atvi_vi *v, atvi_cloud *draws, atvi_idx i) {
  atvi_map *map = &v->space->map[i], new;
  double *z = v->scratch;
  bounded(v, draws, i, z);
  if (atvi_transform_map_new(v->ctx, ATVI_MAP_SURJECTION, map->lower, map->upper, &new) != ATVI_OK)
    return false;
  if (n_ends(map) == 1) {
    new.loc = median(draws->n, z, z + draws->n);
    new.scale = atvi_math_sd(draws->n, z, NULL);
    if (!(new.scale > 0)) return false;
  }
  *map = new;
  atvi_transform_map_inv(map, draws->n, z, draws->x + i * draws->cap);
  return true;
}

static atvi_vi_trained pilot(atvi_vi *v, atvi_member *m, double step, atvi_vi_quality *q) {
  atvi_vi_rounds_opts o = {
      .beta = 1, .step = step, .most = (int)v->tuning.short_rounds, .halvings = INT32_MAX, .last = v->size};
  atvi_vi_trained t = atvi_infer_vi_rounds(v, m, &o);
  if (!t.enough) *q = atvi_infer_vi_judge(v, m, v->scramble++, NULL);
  return t;
}

/* Whether a pilot costs more than it could save, next to one that came to q. */
static bool is_idle(const atvi_vi *v, const atvi_vi_quality *q) {
  double cost = v->tuning.short_rounds * atvi_infer_vi_round_runs(v) + ATVI_VI_LOOK;
  return atvi_math_psis_permits(ATVI_VI_LOOK, q->khat, q->excess) &&
         atvi_infer_vi_saving(v, 1, q->share, 0) < cost;
}

/* Short rounds for `folded` under the new maps and, unless that would not pay, for m under the old ones; what
 * their draws are worth decides which stays. */
static atvi_vi_trained compare(atvi_vi *v, atvi_member *m, const atvi_member *folded, const atvi_map *old,
                               double step, double handicap) {
  size_t bytes = (size_t)v->d * sizeof *old;
  atvi_vi_quality q_old, q_folded;
  atvi_member other = *folded;
  atvi_map *now = atvi_pool_take(v->pool, (size_t)v->d, sizeof *now);
  if (!now) return (atvi_vi_trained){.done = true, .step = step};
  memcpy(now, v->space->map, bytes);
  atvi_vi_trained t = pilot(v, &other, step, &q_folded);
  if (t.done && (t.enough || is_idle(v, &q_folded))) {
    *m = other;
    return t;
  }
  memcpy(v->space->map, old, bytes);
  if (t.done) t = pilot(v, m, step, &q_old);
  if (!t.done || t.enough || !(q_folded.share > handicap * q_old.share)) return t;
  memcpy(v->space->map, now, bytes);
  *m = other;
  return t;
}

bool atvi_infer_vi_fold(atvi_vi *v, atvi_cloud *draws, bool *one_sided) {
  bool any = false, able = true;
  *one_sided = false;
  for (atvi_idx i = 0; i < v->d && able; i++) {
    const atvi_map *map = &v->space->map[i];
    if (!atvi_infer_vi_is_open(v, i)) continue;
    if (!reaches(v, draws, i, map->lower) && !reaches(v, draws, i, map->upper) &&
        !reaches_by_density(v, draws, i, map->lower) && !reaches_by_density(v, draws, i, map->upper))
      continue;
    any = true;
    *one_sided = *one_sided || n_ends(map) == 1;
    able = fold(v, draws, i);
  }
  return any && able;
}

atvi_vi_trained atvi_infer_vi_choose_maps(atvi_vi *v, atvi_member *m, atvi_vi_trained ladder) {
  size_t bytes = (size_t)v->d * sizeof(atvi_map);
  bool any = false, one_sided = false;
  for (atvi_idx i = 0; i < v->d; i++) any = any || atvi_infer_vi_is_open(v, i);
  if (!any) return ladder;
  atvi_member folded;
  atvi_map *old = atvi_pool_take(v->pool, (size_t)v->d, sizeof *old);
  if (!old || !atvi_infer_vi_member_new(v, NULL, NULL, &folded)) return ladder;
  memcpy(old, v->space->map, bytes);
  atvi_cloud draws = atvi_infer_vi_glance(v, m, ATVI_VI_TEST);
  if (!atvi_infer_vi_fold(v, &draws, &one_sided) ||
      !atvi_infer_vi_reframe(v, &folded, &draws, 1 - ladder.beta, true)) {
    memcpy(v->space->map, old, bytes);
    return ladder;
  }
  atvi_infer_vi_slopes(v, &draws);
  atvi_vi_trained t = compare(v, m, &folded, old, ladder.step, one_sided ? 1 : 1 - ATVI_SLIGHT);
  t.step /= ATVI_VI_AGAIN; /* it was found by rounds, and can be believed */
  return t;
}
