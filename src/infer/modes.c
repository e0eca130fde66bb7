/* SPDX-License-Identifier: MIT */
/* From where many climbs ended to a list of modes with a normal approximation each.
 *
 * Merging   Two ends belong to one mode if log pi does not dip on the straight line between them below the lower of
 *           the two. This is done midway, too, so that only one climb for each hill goes on; and ends that are
 *           still climbing are given as much time again, as only few are left then.
 * Reach     A mode 20 nats below the best has a share of e^-20 times the ratio of the volumes, which does not make
 *           up for that in a posterior that can be sampled at all; its Hessian is not worth the runs.
 * Hessian   Central differences of the gradient along the axes. A first pass with small steps finds the widths and
 *           gives a Newton step; the second and any further one, at the new place, steps by a third of the
 *           conditional standard deviation: large against the roughness of adaptive solvers, and where there
 *           is a kink (a fold of the surjection) it sees the width of the peak, not its point.
 * Floor     Curvature below a floor is raised to it: no direction of the normal approximation is wider than five
 *           prior standard deviations, beyond which there is nothing. */
#include "infer/modes.h"
#include "infer/vi_tuning.h"
#include "math/linalg.h"
#include "math/special.h"
#include <math.h>
#include <string.h>

static const double newton_share[] = {1, 0.5, 0.2, 0.05}; /* lengths tried of a Newton step */
enum { N_LENGTH = sizeof newton_share / sizeof *newton_share };

typedef struct {
  atvi_climb *climb;
  const atvi_peak *known; /* what it was found to be before; NULL: it is new */
  int hits;
  double log_evidence;
  double before; /* log pi where the Hessian was taken */
  double *hess;  /* [d][d] minus the Hessian; later the Cholesky factor of the covariance */
  double *width; /* [d] steps of the differences */
} end;

typedef struct {
  const atvi_space *s;
  atvi_idx d;
  atvi_pool *pool; /* of the search */
  atvi_climb_batch batch;
  atvi_climb **climb; /* [n_climb] those to be run */
  atvi_idx n_climb, n;
  end *end, *left;            /* [n] best first; scratch. Room for all climbs */
  end **open;                 /* those of which not all is known: scratch */
  double *value, *vector, *a; /* [d], [d][d], [d][d] */
  double *step, *g;           /* [d] */
  bool *same;                 /* of each end */
} finder;

atvi_modes_opts atvi_infer_modes_defaults(void) { return (atvi_modes_opts){.iterations = 60, .most = 8}; }

/* ---- which ends are one mode ---- */

static void sort_ends(finder *f) {
  for (atvi_idx i = 1; i < f->n; i++)
    for (atvi_idx k = i; k > 0 && f->end[k].climb->f > f->end[k - 1].climb->f; k--) {
      end swap = f->end[k];
      f->end[k] = f->end[k - 1];
      f->end[k - 1] = swap;
    }
}

/* Drops what is too low; a climb that goes on counts as what it may reach, which in the middle of the way is
 * anything. Ends are sorted, and the first remains. */
static void drop_low(finder *f, bool midway) {
  atvi_idx kept = 0;
  for (atvi_idx i = 0; i < f->n; i++) {
    const atvi_climb *c = f->end[i].climb;
    double reach = c->f + (c->ended ? 0 : midway ? HUGE_VAL : 2 * c->gain);
    if (i == 0 || reach > f->end[0].climb->f - ATVI_HOPELESS) f->end[kept++] = f->end[i];
  }
  f->n = kept;
}

/* Of open[n], those that are as high as they ought to be at one of the points between them and the better end
 * `top`; how many these are. */
static atvi_idx find_level(finder *f, atvi_idx n, const end *top, int point) {
  atvi_climb_batch *b = &f->batch;
  atvi_idx level = 0;
  for (atvi_idx first = 0; first < n; first += b->cap) {
    b->B = n - first < b->cap ? n - first : b->cap;
    for (atvi_idx i = 0; i < b->B; i++)
      atvi_infer_climb_batch_put(b, i, (double)(point + 1) / (ATVI_BETWEEN + 1), f->open[first + i]->climb->x,
                                 top->climb->x);
    atvi_infer_climb_batch_eval(b, false);
    for (atvi_idx i = 0; i < b->B; i++) {
      end *e = f->open[first + i];
      const atvi_climb *c = e->climb;
      double least = c->f - ATVI_SMALL - (c->ended ? 0 : fmin(c->gain, ATVI_ROUGH));
      if (atvi_infer_climb_batch_get(b, i, NULL) >= least) f->open[level++] = e;
    }
  }
  return level;
}

/* same[i]: no barrier between left[i] and the better end `top`. Two that are known are known to be different.
 * The middle tells most of them apart. */
static void find_same(finder *f, atvi_idx n, const end *top) {
  atvi_idx n_open = 0;
  for (atvi_idx i = 0; i < n; i++) {
    f->same[i] = false;
    if (!f->left[i].known || !top->known) f->open[n_open++] = &f->left[i];
  }
  n_open = find_level(f, n_open, top, ATVI_BETWEEN / 2);
  for (int k = 0; k < ATVI_BETWEEN; k++)
    if (k != ATVI_BETWEEN / 2) n_open = find_level(f, n_open, top, k);
  for (atvi_idx i = 0; i < n_open; i++) f->same[f->open[i] - f->left] = true;
}

/* One mode of two ends, of which `top` is the better; what is known of it stays, if the other is hardly
 * better. */
static void join(end *top, const end *other) {
  int hits = top->hits + other->hits;
  if (!top->known && other->known && other->climb->f > top->climb->f - ATVI_SMALL) *top = *other;
  top->hits = hits;
}

/* Keeps the best end of each mode, at most `most` of them; midway, all that do not belong to one of these are
 * kept. */
static void merge(finder *f, atvi_idx most, bool midway) {
  sort_ends(f);
  drop_low(f, midway);
  atvi_idx n = f->n;
  memcpy(f->left, f->end, (size_t)n * sizeof *f->left);
  for (f->n = 0; n > 0 && f->n < most; f->n++) {
    end top = f->left[0];
    atvi_idx kept = 0;
    memmove(f->left, f->left + 1, (size_t)--n * sizeof *f->left);
    find_same(f, n, &top);
    for (atvi_idx i = 0; i < n; i++) {
      if (f->same[i])
        join(&top, &f->left[i]);
      else
        f->left[kept++] = f->left[i];
    }
    n = kept;
    f->end[f->n] = top;
  }
  for (atvi_idx i = 0; midway && i < n; i++) f->end[f->n++] = f->left[i];
}

/* ---- normal approximations ---- */

static void put_axis(atvi_climb_batch *b, atvi_idx at, const end *e, atvi_idx axis, double step) {
  atvi_infer_climb_batch_put(b, at, 0, e->climb->x, e->climb->x);
  b->x[axis * b->B + at] += step;
}

/* Minus the Hessian of e from the 2 d points that begin at `at`. A point that failed is replaced by the
 * middle. */
static void set_hessian(const finder *f, const end *e, atvi_idx at) {
  atvi_idx d = f->d;
  double *low = f->step, *high = f->g;
  for (atvi_idx i = 0; i < d; i++) {
    memcpy(low, e->climb->g, (size_t)d * sizeof *low);
    memcpy(high, e->climb->g, (size_t)d * sizeof *high);
    double h = isfinite(atvi_infer_climb_batch_get(&f->batch, at + 2 * i, low)) ? e->width[i] : 0;
    h += isfinite(atvi_infer_climb_batch_get(&f->batch, at + 2 * i + 1, high)) ? e->width[i] : 0;
    for (atvi_idx j = 0; j < d; j++) e->hess[i * d + j] = h > 0 ? (low[j] - high[j]) / h : i == j;
  }
  for (atvi_idx i = 0; i < d; i++) {
    for (atvi_idx j = 0; j <= i; j++) {
      double mean = 0.5 * (e->hess[i * d + j] + e->hess[j * d + i]);
      e->hess[i * d + j] = e->hess[j * d + i] = isfinite(mean) ? mean : i == j;
    }
    e->width[i] = ATVI_PART_SD / sqrt(fmin(fmax(e->hess[i * d + i], 1), 1e12));
  }
}

/* Of open[n]. */
static void find_hessians(finder *f, atvi_idx n) {
  atvi_climb_batch *b = &f->batch;
  if (f->d < 1) return;
  atvi_idx chunk = b->cap / (2 * f->d);
  for (atvi_idx first = 0; first < n; first += chunk) {
    atvi_idx m = n - first < chunk ? n - first : chunk;
    b->B = 2 * f->d * m;
    for (atvi_idx i = 0; i < b->B; i++) {
      const end *e = f->open[first + i / (2 * f->d)];
      atvi_idx axis = i / 2 % f->d;
      put_axis(b, i, e, axis, i % 2 ? e->width[axis] : -e->width[axis]);
    }
    atvi_infer_climb_batch_eval(b, true);
    for (atvi_idx k = 0; k < m; k++) set_hessian(f, f->open[first + k], 2 * f->d * k);
  }
}

static void decompose(const finder *f, const end *e) {
  memcpy(f->a, e->hess, (size_t)(f->d * f->d) * sizeof *f->a);
  atvi_math_eigen_sym(f->d, f->a, f->value, f->vector);
}

/* Where the Newton step leads: to[d]. Against negative curvature the step is as long as with positive. The
 * curvature is at least that of the prior, 1, and the step at most its standard deviation, 1. */
static void newton_step(const finder *f, const end *e) {
  atvi_idx d = f->d;
  atvi_climb *c = e->climb;
  double norm2 = 0;
  decompose(f, e);
  memset(f->step, 0, (size_t)d * sizeof *f->step);
  for (atvi_idx k = 0; k < d; k++) {
    double along = 0;
    for (atvi_idx j = 0; j < d; j++) along += f->vector[j * d + k] * c->g[j];
    along /= fmax(fabs(f->value[k]), 1);
    for (atvi_idx j = 0; j < d; j++) f->step[j] += along * f->vector[j * d + k];
  }
  for (atvi_idx j = 0; j < d; j++) norm2 += f->step[j] * f->step[j];
  double t = fmin(1, 1 / sqrt(norm2));
  for (atvi_idx j = 0; j < d; j++) c->to[j] = c->x[j] + (norm2 > 0 ? t * f->step[j] : 0);
}

/* One step of each of open[n]: several lengths are tried at once, and the best is taken if it is better. */
static void newton(finder *f, atvi_idx n) {
  atvi_climb_batch *b = &f->batch;
  atvi_idx chunk = b->cap / N_LENGTH;
  for (atvi_idx first = 0; first < n; first += chunk) {
    atvi_idx m = n - first < chunk ? n - first : chunk;
    b->B = m * N_LENGTH;
    for (atvi_idx k = 0; k < m; k++) {
      const atvi_climb *c = f->open[first + k]->climb;
      newton_step(f, f->open[first + k]);
      for (atvi_idx i = 0; i < N_LENGTH; i++)
        atvi_infer_climb_batch_put(b, k * N_LENGTH + i, newton_share[i], c->x, c->to);
    }
    atvi_infer_climb_batch_eval(b, true);
    for (atvi_idx i = 0; i < b->B; i++) {
      atvi_climb *c = f->open[first + i / N_LENGTH]->climb;
      double value = atvi_infer_climb_batch_get(b, i, c->gt);
      if (!(value > c->f)) continue;
      c->f = value;
      memcpy(c->g, c->gt, (size_t)f->d * sizeof *c->g);
      for (atvi_idx j = 0; j < f->d; j++) c->x[j] = b->x[j * b->B + i];
    }
  }
}

/* What log pi could still rise by according to the Hessian. */
static double left_to_gain(const finder *f, const end *e) {
  double gain = 0;
  decompose(f, e);
  for (atvi_idx k = 0; k < f->d; k++) {
    double along = 0;
    for (atvi_idx j = 0; j < f->d; j++) along += f->vector[j * f->d + k] * e->climb->g[j];
    gain += 0.5 * along * along / fmax(fabs(f->value[k]), 1);
  }
  return gain;
}

/* Newton steps of each until they gain nothing more, two at least. Of ends that are no maximum even then only
 * the best is kept. */
static void polish(finder *f) {
  atvi_idx n = 0;
  for (atvi_idx k = 0; k < f->n; k++)
    if (!f->end[k].known) f->open[n++] = &f->end[k];
  for (int pass = 0; n > 0 && pass < ATVI_NEWTON; pass++) {
    find_hessians(f, n);
    for (atvi_idx k = 0; k < n; k++) f->open[k]->before = f->open[k]->climb->f;
    newton(f, n);
    atvi_idx left = 0;
    for (atvi_idx k = 0; k < n; k++) {
      end *e = f->open[k];
      e->climb->gain = left_to_gain(f, e);
      if (pass == 0 || e->climb->f - e->before + e->climb->gain > ATVI_TINY) f->open[left++] = e;
    }
    n = left;
  }
  sort_ends(f);
  atvi_idx kept = 1;
  for (atvi_idx k = 1; k < f->n; k++)
    if (f->end[k].climb->gain < ATVI_ROUGH) f->end[kept++] = f->end[k];
  f->n = kept;
}

/* Row i of the covariance, from the eigenvectors of the Hessian: four sums at a time, which do not wait for
 * each other. */
static void covariance_item(void *arg, atvi_idx i, int worker) {
  const finder *f = arg;
  const double *v = f->vector, *value = f->value;
  atvi_idx d = f->d;
  (void)worker;
  for (atvi_idx j = 0; j <= i; j += 4) {
    double sum[4] = {0};
    const double *row[4];
    for (atvi_idx c = 0; c < 4; c++) row[c] = v + (j + c <= i ? j + c : i) * d;
    for (atvi_idx k = 0; k < d; k++)
      for (int c = 0; c < 4; c++) sum[c] += v[i * d + k] * row[c][k] * value[k];
    for (atvi_idx c = 0; c < 4 && j + c <= i; c++) f->a[i * d + j + c] = sum[c];
  }
}

/* The covariance's Cholesky factor takes the place of the Hessian. */
static void set_normal(finder *f, end *e) {
  atvi_idx d = f->d;
  decompose(f, e);
  for (atvi_idx k = 0; k < d; k++) f->value[k] = 1 / fmax(f->value[k], ATVI_CURVED_LEAST);
  atvi_parallel(f->s->ctx, d, covariance_item, f);
  for (atvi_idx i = 0; i < d; i++) memcpy(e->hess + i * d, f->a + i * d, (size_t)(i + 1) * sizeof *e->hess);
  bool sound = atvi_math_cholesky(d, e->hess);
  e->log_evidence = e->climb->f + 0.5 * (double)d * ATVI_LOG_2PI;
  for (atvi_idx i = 0; i < d; i++) {
    /* Rounding can spoil a covariance that is as good as singular: its widths alone are better than nothing. */
    for (atvi_idx j = 0; j < i && !sound; j++) e->hess[i * d + j] = 0;
    if (!sound) e->hess[i * d + i] = sqrt(f->a[i * d + i]);
    for (atvi_idx j = i + 1; j < d; j++) e->hess[i * d + j] = 0;
    e->log_evidence += log(e->hess[i * d + i]);
  }
}

static atvi_status approximate(finder *f, atvi_idx most) {
  size_t d = (size_t)f->d;
  for (atvi_idx k = 0; k < f->n; k++) {
    end *e = &f->end[k];
    if (e->known) continue;
    e->hess = atvi_pool_take(f->pool, d * d, sizeof *e->hess);
    e->width = atvi_pool_take(f->pool, d, sizeof *e->width);
    if (atvi_pool_failed(f->pool)) return ATVI_ENOMEM;
    for (size_t j = 0; j < d; j++) e->width[j] = ATVI_STEP;
  }
  polish(f);
  if (f->n > 1) merge(f, most, false);
  for (atvi_idx k = 0; k < f->n; k++)
    if (!f->end[k].known) set_normal(f, &f->end[k]);
  return ATVI_OK;
}

/* ---- the whole ---- */

static atvi_status take_room(finder *f, atvi_idx n_climb) {
  size_t n = (size_t)n_climb, d = (size_t)f->d;
  atvi_idx cap = n_climb > ATVI_BATCH ? n_climb : ATVI_BATCH;
  if (cap < 2 * f->d) cap = 2 * f->d;
  ATVI_TRY(atvi_infer_climb_batch_new(f->s, f->pool, cap, &f->batch));
  f->climb = atvi_pool_take(f->pool, n, sizeof *f->climb);
  f->end = atvi_pool_take(f->pool, n, sizeof *f->end);
  f->left = atvi_pool_take(f->pool, n, sizeof *f->left);
  f->open = atvi_pool_take(f->pool, n, sizeof *f->open);
  f->same = atvi_pool_take(f->pool, n, sizeof *f->same);
  f->value = atvi_pool_take(f->pool, d, sizeof *f->value);
  f->vector = atvi_pool_take(f->pool, d * d, sizeof *f->vector);
  f->a = atvi_pool_take(f->pool, d * d, sizeof *f->a);
  f->step = atvi_pool_take(f->pool, d, sizeof *f->step);
  f->g = atvi_pool_take(f->pool, d, sizeof *f->g);
  return atvi_pool_failed(f->pool) ? ATVI_ENOMEM : ATVI_OK;
}

/* What a Newton step would gain at a peak, where the gradient is g. */
static double left_at(const finder *f, const atvi_peak *p, const double *g) {
  double gain = 0;
  for (atvi_idx i = 0; i < f->d; i++) {
    double part = 0;
    for (atvi_idx j = i; j < f->d; j++) part += p->chol[j * f->d + i] * g[j];
    gain += 0.5 * part * part;
  }
  return gain;
}

/* Those of climb[known->n] that are maxima, with the log pi that they had, are ends; the others are to be
 * run. */
static void take_known(finder *f, const atvi_modes *known, atvi_climb *climb) {
  f->batch.B = known->n;
  for (atvi_idx k = 0; k < known->n; k++) atvi_infer_climb_batch_put(&f->batch, k, 0, climb[k].x, climb[k].x);
  atvi_infer_climb_batch_eval(&f->batch, true);
  for (atvi_idx k = 0; k < known->n; k++) {
    const atvi_peak *p = &known->mode[k];
    double value = atvi_infer_climb_batch_get(&f->batch, k, climb[k].g);
    if (fabs(value - p->log_pi) < ATVI_TINY && left_at(f, p, climb[k].g) < ATVI_TINY) {
      climb[k].f = value;
      climb[k].gain = 0;
      climb[k].ended = true;
      f->end[f->n++] =
          (end){.climb = &climb[k], .known = p, .hits = p->hits, .log_evidence = p->log_evidence};
    } else {
      f->climb[f->n_climb++] = &climb[k];
    }
  }
}

static atvi_status prepare(finder *f, const atvi_modes *known, atvi_idx n_start, const double *start) {
  atvi_idx d = f->d, n = known->n + n_start;
  double *x = atvi_pool_take(f->pool, (size_t)(d * n), sizeof *x);
  atvi_climb *climb;
  ATVI_TRY(take_room(f, n));
  for (atvi_idx i = 0; i < d; i++) {
    for (atvi_idx k = 0; k < known->n; k++) x[i * n + k] = known->mode[k].x[i];
    memcpy(x + i * n + known->n, start + i * n_start, (size_t)n_start * sizeof *x);
  }
  ATVI_TRY(atvi_infer_climbs_new(f->pool, d, n, x, &climb));
  take_known(f, known, climb);
  for (atvi_idx k = known->n; k < n; k++) f->climb[f->n_climb++] = &climb[k];
  return ATVI_OK;
}

/* Outside the box the surjection has copies of every mode, lower ones and separated by a barrier: the climb
 * begins anew at the image inside. Returns whether any did. */
static bool fold_back(finder *f) {
  bool any = false;
  for (atvi_idx k = 0; k < f->n_climb; k++) {
    atvi_climb *c = f->climb[k];
    bool moved = false;
    for (atvi_idx j = 0; j < f->d; j++) {
      const atvi_map *map = &f->s->map[j];
      if (map->kind != ATVI_MAP_SURJECTION) continue;
      double theta, inside, ldj = 0;
      atvi_transform_map_fwd(map, 1, &c->x[j], &theta, &ldj);
      atvi_transform_map_inv(map, 1, &theta, &inside);
      if (!(fabs(inside - c->x[j]) > ATVI_ROUNDING)) continue;
      c->x[j] = inside;
      moved = true;
    }
    if (moved) atvi_infer_climb_restart(c);
    any |= moved;
  }
  return any;
}

/* Climbs to their ends. False: asked to stop. */
static bool climb(finder *f, int iterations) {
  for (int fold = 0; fold < ATVI_REPEATS; fold++) {
    if (!fold_back(f) && fold > 0) break;
    if (!atvi_infer_climbs_run(&f->batch, f->n_climb, f->climb, iterations)) return false;
  }
  return true;
}

/* The ends that are left go on, as far as they have not ended. Climbs end where little is to be gained in the
 * directions they know; those of rivals must know better. */
static bool go_on(finder *f, int iterations, bool strict) {
  f->n_climb = 0;
  for (atvi_idx k = 0; k < f->n; k++) {
    if (f->end[k].known) continue;
    f->climb[f->n_climb++] = f->end[k].climb;
    if (strict && f->n > 1) atvi_infer_climb_resume(f->end[k].climb, f->d);
  }
  return climb(f, iterations);
}

/* A third of the way suffices to see that most climbs are on one hill. Few evaluations remain to be made if a
 * stop was asked for: those that the best end needs. */
static void find_ends(finder *f, const atvi_modes_opts *opts, atvi_idx most) {
  int third = (opts->iterations + 2) / 3;
  bool on = climb(f, third);
  for (atvi_idx k = 0; k < f->n_climb; k++)
    if (isfinite(f->climb[k]->f)) f->end[f->n++] = (end){.climb = f->climb[k], .hits = 1};
  if (on && f->n > 0) {
    merge(f, ATVI_TOPS, true);
    on = go_on(f, opts->iterations - third, false);
  }
  if (on && f->n > 0) {
    merge(f, f->n, false);
    on = go_on(f, opts->iterations, true);
  }
  if (on && f->n > 1) merge(f, most, false);
  sort_ends(f);
  if (!on && f->n > 1) f->n = 1;
}

static atvi_status hand_over(finder *f, int most, atvi_pool *pool, atvi_modes *out) {
  size_t d = (size_t)f->d;
  for (atvi_idx i = 1; i < f->n; i++)
    for (atvi_idx k = i; k > 0 && f->end[k].log_evidence > f->end[k - 1].log_evidence; k--) {
      end swap = f->end[k];
      f->end[k] = f->end[k - 1];
      f->end[k - 1] = swap;
    }
  if (f->n > most) f->n = most;
  atvi_peak *mode = atvi_pool_take(pool, (size_t)f->n, sizeof *mode);
  if (!mode) return ATVI_ENOMEM;
  for (atvi_idx k = 0; k < f->n; k++) {
    const end *e = &f->end[k];
    if (e->known) {
      mode[k] = *e->known;
      mode[k].hits = e->hits;
      continue;
    }
    double *room = atvi_pool_take(pool, d + d * d, sizeof *room);
    if (!room) return ATVI_ENOMEM;
    memcpy(room, e->climb->x, d * sizeof *room);
    memcpy(room + d, e->hess, d * d * sizeof *room);
    mode[k] = (atvi_peak){
        .log_pi = e->climb->f, .log_evidence = e->log_evidence, .x = room, .chol = room + d, .hits = e->hits};
  }
  out->mode = mode;
  out->n = f->n;
  return ATVI_OK;
}

static atvi_status find(finder *f, const atvi_modes_opts *opts, atvi_pool *pool, atvi_idx n_start,
                        const double *start, atvi_modes *out) {
  atvi_idx most = 2 * (atvi_idx)opts->most; /* by log pi; the widths may turn the order about */
  ATVI_TRY(prepare(f, out, n_start, start));
  f->batch.late = opts->late;
  f->batch.user = opts->user;
  find_ends(f, opts, most);
  if (f->n > 0) ATVI_TRY(approximate(f, most));
  ATVI_TRY(hand_over(f, opts->most, pool, out));
  out->evaluations = f->batch.evaluations;
  return ATVI_OK;
}

atvi_status atvi_infer_modes_find(const atvi_space *s, const atvi_modes_opts *opts, atvi_pool *pool,
                                  atvi_idx n_start, const double *start, atvi_modes *out) {
  atvi_modes_opts use = opts ? *opts : atvi_infer_modes_defaults();
  finder f = {.s = s, .d = s->d};
  ATVI_ASSERT(use.iterations >= 1 && use.most >= 1 && n_start >= 0);
  if (n_start == 0) return ATVI_OK;
  ATVI_TRY(atvi_pool_new(s->ctx, &f.pool));
  atvi_status status = find(&f, &use, pool, n_start, start, out);
  if (status != ATVI_OK) *out = (atvi_modes){0};
  atvi_pool_free(f.pool);
  return status;
}
