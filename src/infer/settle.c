/* SPDX-License-Identifier: MIT */
/* What the data say of the parameters of a hierarchy, so that their coordinates suit prior and data
 * (anchor.h).
 *
 * Climbs from prior draws find a maximum of pi in coordinates in which the prior has no dependence; there is
 * no funnel in them, so that there is a maximum. At it, k of a parameter is the curvature of log pi in u less
 * that of its own prior, and r follows from the slope in the same way. Levels are measured from the bottom
 * up, with the coordinates of the parameters below held fixed: integrating over theta ~ N(mu, tau), which the
 * data know to 1 / k, leaves mu known to 1 / k + tau^2, and that is the curvature in these coordinates.
 *
 * Of kin (kin.h) the whole matrix is measured. Those that follow each other are rotated by its eigenvectors;
 * others only where it is not about diagonal, so that they can send messages.
 *
 * The curvature of the own prior is that of pi at beta = 0 and k = 0, where coordinates are independent: one
 * difference measures them all. With what was measured, the climb goes on from the maximum in better
 * coordinates, and all is measured again. */
#include "infer/modes.h"
#include "infer/space.h"
#include "infer/vi_tuning.h"
#include "math/linalg.h"
#include <math.h>
#include <string.h>

#define GAIN_MOST 4.0 /* powers above are not those of a scale */

typedef struct {
  atvi_space *s;
  atvi_idx d;
  atvi_climb_batch batch;
  double *x, *theta;             /* [d] the maximum */
  double *loc, *scale, *k, *r;   /* [d] of the anchors there */
  double *own_slope, *own_curve; /* [d] of the priors, in u */
  double *slope, *curve;         /* [d] of log pi, in x */
  atvi_space_link *kept;         /* [d] */
  atvi_idx *column;              /* [d] where the differences of a parameter are in the batch */
  double *matrix[2], *vector[3]; /* [n][n], [n] of the largest kin */
  double **turn;                 /* [kin] rotations put aside */
  double *affine;                /* [d] slopes in chains */
  bool *known;                   /* [kin] of chains, put aside */
  bool *alone;                   /* [kin] whose members are settled each by itself */
} pilot;

static bool make(pilot *p, atvi_pool *pool, atvi_idx n) {
  atvi_idx cap = 2 * p->d > n ? 2 * p->d : n;
  double **row[] = {&p->x,         &p->theta,     &p->loc,   &p->scale, &p->k,     &p->r,
                    &p->own_slope, &p->own_curve, &p->slope, &p->curve, &p->affine};
  for (size_t k = 0; k < sizeof row / sizeof *row; k++)
    *row[k] = atvi_pool_take(pool, (size_t)p->d, sizeof(double));
  p->kept = atvi_pool_take(pool, (size_t)p->d, sizeof *p->kept);
  p->column = atvi_pool_take(pool, (size_t)p->d, sizeof *p->column);
  p->turn = atvi_pool_take(pool, (size_t)p->s->n_kin + 1, sizeof *p->turn);
  p->known = atvi_pool_take(pool, (size_t)p->s->n_kin + 1, sizeof *p->known);
  p->alone = atvi_pool_take(pool, (size_t)p->s->n_kin + 1, sizeof *p->alone);
  size_t most = 1;
  for (atvi_idx k = 0; k < p->s->n_kin; k++)
    if ((size_t)p->s->kin[k].n > most) most = (size_t)p->s->kin[k].n;
  for (int k = 0; k < 2; k++) p->matrix[k] = atvi_pool_take(pool, most * most, sizeof(double));
  for (int k = 0; k < 3; k++) p->vector[k] = atvi_pool_take(pool, most, sizeof(double));
  return atvi_infer_climb_batch_new(p->s, pool, cap, &p->batch) == ATVI_OK && !atvi_pool_failed(pool);
}

/* Only what is informed through its location can be drawn to the data. */
static bool may_settle(const pilot *p, atvi_idx i) {
  atvi_prior_form form = p->s->link[i].form;
  return form == ATVI_PRIOR_RATIO ? p->s->map[i].kind == ATVI_MAP_LOG
                                  : form != ATVI_PRIOR_ALONE && form != ATVI_PRIOR_INTERVAL;
}

/* du / dx at the maximum. */
static double rate(const pilot *p, atvi_idx i) {
  bool ratio = p->s->link[i].form == ATVI_PRIOR_RATIO;
  double s = p->scale[i];
  return p->s->map[i].scale * (ratio ? 1 : s / sqrt(1 + p->k[i] * s * s));
}

static double to_u(const pilot *p, atvi_idx i) {
  double t = p->theta[i];
  switch (p->s->link[i].form) {
  case ATVI_PRIOR_LINE: return t;
  case ATVI_PRIOR_STANDARD: return p->loc[i] + p->scale[i] * t;
  case ATVI_PRIOR_LOGIT: return log(t) - log1p(-t);
  default: return log(t);
  }
}

static void locate(pilot *p) { atvi_infer_space_anchors(p->s, p->theta, p->loc, p->scale, p->k, p->r); }

/* Slope and curvature of each prior alone. */
static void own_priors(pilot *p) {
  atvi_space *s = p->s;
  atvi_climb_batch *b = &p->batch;
  memcpy(p->kept, s->link, (size_t)p->d * sizeof *p->kept);
  for (atvi_idx i = 0; i < p->d; i++) s->link[i].k = s->link[i].r = 0;
  for (atvi_idx k = 0; k < s->n_kin; k++) {
    p->turn[k] = s->kin[k].turn, s->kin[k].turn = NULL;
    p->known[k] = s->kin[k].known, s->kin[k].known = false;
  }
  locate(p);
  atvi_infer_space_inv(s, 1, p->theta, p->x);
  b->B = 2;
  for (atvi_idx i = 0; i < p->d; i++)
    for (int k = 0; k < 2; k++)
      b->x[2 * i + k] = p->x[i] + (may_settle(p, i) ? (k ? ATVI_STEP : -ATVI_STEP) / s->map[i].scale : 0);
  atvi_infer_space_eval(
      s, &(atvi_space_batch){.B = 2, .x = b->x, .theta = b->theta, .log_pi = b->log_pi, .dx = b->dx});
  bool good = isfinite(b->log_pi[0]) && isfinite(b->log_pi[1]);
  for (atvi_idx i = 0; i < p->d; i++) {
    if (!may_settle(p, i)) continue;
    double by = rate(p, i), low = b->dx[2 * i], high = b->dx[2 * i + 1];
    double z = p->x[i]; /* of a normal prior */
    p->own_slope[i] = (good ? 0.5 * (low + high) : -z) / by;
    p->own_curve[i] = (good ? (low - high) * s->map[i].scale / (2 * ATVI_STEP) : 1) / (by * by);
  }
  memcpy(s->link, p->kept, (size_t)p->d * sizeof *p->kept);
  for (atvi_idx k = 0; k < s->n_kin; k++) s->kin[k].turn = p->turn[k], s->kin[k].known = p->known[k];
}

/* Measured at once: all of one level and depth. */
static bool is_due(const pilot *p, atvi_idx i, int level, int depth) {
  return may_settle(p, i) && p->s->link[i].level == level && p->s->link[i].depth == depth;
}

/* Slope and curvature of log pi in each x of that level and depth; NaN where it cannot be evaluated. False:
 * there are none. */
static bool differences(pilot *p, int level, int depth, double step) {
  const atvi_space *s = p->s;
  atvi_climb_batch *b = &p->batch;
  atvi_idx n = 0;
  for (atvi_idx i = 0; i < p->d; i++) n += is_due(p, i, level, depth);
  if (n == 0) return false;
  atvi_infer_space_inv(s, 1, p->theta, p->x);
  b->B = 2 * n;
  n = 0;
  for (atvi_idx i = 0; i < p->d; i++) {
    for (atvi_idx j = 0; j < b->B; j++) b->x[i * b->B + j] = p->x[i];
    if (!is_due(p, i, level, depth)) continue;
    p->column[i] = n;
    for (int k = 0; k < 2; k++, n++) b->x[i * b->B + n] += (k ? step : -step) / s->map[i].scale;
  }
  atvi_infer_climb_batch_eval(b, true);
  for (atvi_idx i = 0; i < p->d; i++) {
    if (!is_due(p, i, level, depth)) continue;
    n = p->column[i];
    bool good = isfinite(b->log_pi[n]) && isfinite(b->log_pi[n + 1]);
    double low = b->dx[i * b->B + n], high = b->dx[i * b->B + n + 1];
    p->slope[i] = good ? 0.5 * (low + high) : NAN;
    p->curve[i] = good ? (low - high) * s->map[i].scale / (2 * step) : NAN;
  }
  return true;
}

/* Of k and r in all, what messages do not say. */
static void set(pilot *p, atvi_idx i) {
  atvi_space_link *a = &p->s->link[i];
  bool ratio = a->form == ATVI_PRIOR_RATIO;
  double by = rate(p, i), units = ratio ? p->s->map[i].scale : p->scale[i];
  double k = p->curve[i] / (by * by) - p->own_curve[i], slope = p->slope[i] / by - p->own_slope[i];
  double r = k * to_u(p, i) + slope;
  if (!ratio) {
    k -= p->k[i] - a->k;
    r -= p->r[i] - a->r;
  }
  bool informed = k * units * units > ATVI_TINY && isfinite(r);
  a->k = !informed ? 0 : ratio ? k * units * units : k;
  a->r = informed && !ratio ? r : 0;
}

/* out = V a, or V' a, of n columns; V = NULL: a. */
static void rotate(atvi_idx n, const double *v, bool back, atvi_idx columns, const double *a, double *out) {
  for (atvi_idx i = 0; i < n; i++)
    for (atvi_idx j = 0; j < columns; j++) {
      double sum = v ? 0 : a[i * columns + j];
      for (atvi_idx m = 0; m < n && v; m++) sum += (back ? v[m * n + i] : v[i * n + m]) * a[m * columns + j];
      out[i * columns + j] = sum;
    }
}

/* After differences: the precision g[n][n] of what the data say of A theta (kin.h), and r[n], g times its
 * mean; of a chain the slope of its log density instead. False: not known. */
static bool kin_precision(const pilot *p, const atvi_kin *k, double step, double *g, double *r) {
  const atvi_climb_batch *b = &p->batch;
  double *work = p->matrix[1], *slope = p->vector[1];
  atvi_idx n = k->n;
  for (atvi_idx j = 0; j < n; j++) { /* curvature in t, a column after the other */
    atvi_idx at = p->column[k->of[j]], of = k->of[j];
    double moved = 2 * step * rate(p, of) / p->s->map[of].scale;
    for (atvi_idx i = 0; i < n; i++) {
      const double *dx = b->dx + k->of[i] * b->B + at;
      g[i * n + j] = (dx[0] - dx[1]) / (rate(p, k->of[i]) * moved);
    }
    if (!isfinite(p->curve[of]) || !isfinite(p->slope[of])) return false;
    slope[j] = p->slope[of] / rate(p, of);
  }
  rotate(n, k->turn, false, n, g, work); /* V g, then V (V g)' */
  for (atvi_idx i = 0; i < n; i++)
    for (atvi_idx j = 0; j < n; j++) g[j * n + i] = work[i * n + j];
  rotate(n, k->turn, false, n, g, work);
  rotate(n, k->turn, false, 1, slope, r);
  for (atvi_idx i = 0; i < n; i++) {
    for (atvi_idx j = 0; j < n; j++) g[i * n + j] = 0.5 * (work[i * n + j] + work[j * n + i]);
    g[i * n + i] -= p->own_curve[k->of[i]];
    r[i] -= p->own_slope[k->of[i]];
  }
  for (atvi_idx i = 0; i < n && !k->chain; i++)
    for (atvi_idx j = 0; j < n; j++) {
      double before = k->before[j] < 0 ? 0 : p->theta[k->of[k->before[j]]];
      r[i] += g[i * n + j] * (to_u(p, k->of[j]) - before);
    }
  return true;
}

static bool is_diagonal(const pilot *p, const atvi_kin *k, const double *g) {
  for (atvi_idx i = 0; i < k->n; i++)
    for (atvi_idx j = 0; j < i; j++) {
      double a = g[i * k->n + i] + p->own_curve[k->of[i]], b = g[j * k->n + j] + p->own_curve[k->of[j]];
      double off = g[i * k->n + j];
      if (off * off > ATVI_SMALL * ATVI_SMALL * a * b) return false;
    }
  return true;
}

/* Whether the data may speak the louder of a chain the larger or smaller i is: a scale that is known before
 * it. */
static bool may_gain(const pilot *p, atvi_idx i) {
  const atvi_space *s = p->s;
  const atvi_param *q = &s->target->param[i];
  return s->link[i].form == ATVI_PRIOR_ALONE && q->lower == 0 && isinf(q->upper);
}

/* +1 or -1, without a pattern: the first bits of the multiples of the golden ratio. */
static double sign(atvi_idx m) { return fmod(0.6180339887498949 * (double)(m + 1), 1) < 0.5 ? -1 : 1; }

/* The power of theta_i to which the curvature of the log likelihood is in proportion, in a direction of all
 * members together. */
static double power_of(pilot *p, const atvi_kin *k, atvi_idx i) {
  atvi_climb_batch *b = &p->batch;
  double curve[2];
  b->B = 4; /* both, less and more */
  for (atvi_idx j = 0; j < p->d * 4; j++) b->theta[j] = p->theta[j / 4];
  for (int c = 0; c < 4; c++) b->theta[i * 4 + c] *= exp(c & 2 ? ATVI_PART_SD : -ATVI_PART_SD);
  for (atvi_idx m = 0; m < k->n; m++) {
    double by = ATVI_PART_SD * p->scale[k->of[m]] * sign(m);
    for (int c = 0; c < 4; c++) b->theta[k->of[m] * 4 + c] += c & 1 ? by : -by;
  }
  atvi_infer_space_inv(p->s, 4, b->theta, b->x);
  atvi_infer_space_eval(
      p->s, &(atvi_space_batch){.B = 4, .x = b->x, .theta = b->theta, .log_pi = b->log_pi, .dlik = b->dx});
  for (int c = 0; c < 2; c++) {
    curve[c] = 0;
    for (atvi_idx m = 0; m < k->n; m++) {
      const double *g = b->dx + k->of[m] * 4 + 2 * c;
      curve[c] += (g[0] - g[1]) * p->scale[k->of[m]] * sign(m);
    }
  }
  double power = log(curve[1] / curve[0]) / (2 * ATVI_PART_SD);
  return fabs(power) > ATVI_SMALL && fabs(power) < GAIN_MOST ? power : 0;
}

static void set_gain(pilot *p, atvi_kin *k) {
  k->n_gain = 0;
  for (atvi_idx i = 0; i < p->d; i++) {
    double power = may_gain(p, i) ? power_of(p, k, i) : 0;
    if (power == 0) continue;
    k->gain_of[k->n_gain] = i;
    k->gain_at[k->n_gain] = p->theta[i];
    k->power[k->n_gain++] = power;
  }
}

/* False: they are better off each by itself. */
static bool set_kin(pilot *p, atvi_kin *k, double step) {
  double *g = p->matrix[0], *r = p->vector[0], *value = p->vector[2];
  bool known = kin_precision(p, k, step, g, r);
  if (k->chain) {
    atvi_infer_space_slopes(p->s, p->theta, p->affine);
    if (known) atvi_infer_chain_set(k, p->affine, p->scale, p->theta, g, r, p->matrix[1], value);
    return true;
  }
  if (!atvi_infer_kin_together(k) && (!known || is_diagonal(p, k, g))) return false;
  for (atvi_idx j = 0; j < k->n && !known; j++) p->s->link[k->of[j]].k = p->s->link[k->of[j]].r = 0;
  if (!known) return true;
  atvi_math_eigen_sym(k->n, g, value, k->room);
  k->turn = k->room;
  rotate(k->n, k->turn, true, 1, r, p->vector[1]);
  for (atvi_idx j = 0; j < k->n; j++) {
    atvi_space_link *a = &p->s->link[k->of[j]];
    double s = p->scale[k->of[j]];
    bool informed = value[j] * s * s > ATVI_TINY;
    a->k = informed ? value[j] : 0;
    a->r = informed ? p->vector[1][j] : 0;
  }
  return true;
}

/* At the point x of the space as it is. */
static void measure(pilot *p, const double *x, double step) {
  atvi_space *s = p->s;
  int depth = 0;
  for (atvi_idx i = 0; i < p->d; i++) depth = s->link[i].depth > depth ? s->link[i].depth : depth;
  atvi_infer_space_fwd(s, 1, x, p->theta);
  own_priors(p);
  for (int at = s->n_level * (depth + 1) - 1; at > depth; at--) {
    int level = at / (depth + 1), deep = at % (depth + 1);
    for (atvi_idx k = 0; k < s->n_kin; k++) /* chains are measured in the coordinates of their prior */
      if (is_due(p, s->kin[k].of[0], level, deep)) s->kin[k].known = false;
    locate(p);
    if (!differences(p, level, deep, step)) continue;
    for (atvi_idx k = 0; k < s->n_kin; k++)
      if (is_due(p, s->kin[k].of[0], level, deep)) p->alone[k] = !set_kin(p, &s->kin[k], step);
    for (atvi_idx i = 0; i < p->d; i++)
      if (is_due(p, i, level, deep) && (s->link[i].kin < 0 || p->alone[s->link[i].kin])) set(p, i);
    for (atvi_idx k = 0; k < s->n_kin; k++) /* last, as that needs the batch with the differences */
      if (s->kin[k].chain && s->kin[k].known && is_due(p, s->kin[k].of[0], level, deep))
        set_gain(p, &s->kin[k]);
  }
}

static atvi_status settle(pilot *p, atvi_pool *pool, atvi_idx n, const double *start) {
  atvi_climb *climb;
  if (!make(p, pool, n)) return ATVI_ENOMEM;
  ATVI_TRY(atvi_infer_climbs_new(pool, p->d, n, start, &climb));
  atvi_climb **all = atvi_pool_take(pool, (size_t)n, sizeof *all);
  if (!all) return ATVI_ENOMEM;
  for (atvi_idx k = 0; k < n; k++) all[k] = &climb[k];
  atvi_infer_climbs_run(&p->batch, n, all, ATVI_ITERATIONS);
  atvi_climb *best = all[0];
  for (atvi_idx k = 1; k < n; k++)
    if (all[k]->f > best->f) best = all[k];
  for (int round = 0; round < ATVI_REPEATS && isfinite(best->f); round++) {
    measure(p, best->x, round ? ATVI_PART_SD : ATVI_STEP);
    atvi_infer_space_inv(p->s, 1, p->theta, best->x);
    atvi_infer_climb_restart(best);
    if (round + 1 < ATVI_REPEATS) atvi_infer_climbs_run(&p->batch, 1, &best, ATVI_ITERATIONS / 2);
  }
  return ATVI_OK;
}

atvi_status atvi_infer_space_settle(atvi_space *s, atvi_idx n, const double *start) {
  pilot p = {.s = s, .d = s->d};
  atvi_pool *pool;
  ATVI_TRY(atvi_pool_new(s->ctx, &pool));
  atvi_status status = settle(&p, pool, n, start);
  atvi_pool_free(pool);
  return status;
}
