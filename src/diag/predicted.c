/* SPDX-License-Identifier: MIT */
/* From the groups of DRAWS to series of points. */
#include "diag/score.h"
#include "math/rng.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *atvi_diag_series_word(atvi_series_kind kind) {
  static const char *const word[] = {"observed", "tracked", "state"};
  return word[kind];
}

atvi_point atvi_diag_point_at(double time) {
  const atvi_band none = {NAN, NAN, NAN, {NAN, NAN}, {NAN, NAN}};
  return (atvi_point){.time = time,
                      .value = NAN,
                      .of_mean = none,
                      .of_draw = none,
                      .of_alone = none,
                      .loo = {NAN, NAN, NAN, NAN, NAN},
                      .residual = NAN,
                      .pit = NAN};
}

atvi_idx atvi_diag_predicted_draws(const atvi_draws *d) {
  const atvi_group *mean = atvi_draws_group(d, "mean");
  return mean ? mean->n_draw : 0;
}

static int by_time(const void *a, const void *b) {
  const atvi_point *x = a, *y = b;
  if (x->time != y->time) return x->time < y->time ? -1 : 1;
  return (x->row > y->row) - (x->row < y->row);
}

/* The name, with that of its data set if another series has the same. */
static const char *name_of(atvi_pool *pool, const atvi_draws *d, atvi_idx s) {
  bool twice = false;
  for (atvi_idx k = 0; k < d->n_series; k++)
    twice = twice || (k != s && strcmp(d->series[k].name, d->series[s].name) == 0);
  if (!twice || d->series[s].kind != ATVI_SERIES_OBSERVED) return d->series[s].name;
  return atvi_pool_printf(pool, "%s.%s", d->series[s].set, d->series[s].name);
}

static bool all_nan(atvi_idx n, const double *x) {
  for (atvi_idx i = 0; i < n; i++)
    if (!isnan(x[i])) return false;
  return true;
}

/* Value number `at` of a group; NULL: no such group. */
static const double *value_of(const atvi_draws *d, const char *group, atvi_idx at) {
  const atvi_group *g = atvi_draws_group(d, group);
  return g && at < g->n_value ? g->x + at * g->n_draw : NULL;
}

static atvi_point data_point(const atvi_draws *d, const atvi_draws_series *s, int what, atvi_idx at,
                             atvi_idx r) {
  atvi_point x = atvi_diag_point_at(s->time[r]);
  x.row = r;
  x.given = true;
  x.mean = value_of(d, "mean", at + r);
  if (s->kind != ATVI_SERIES_OBSERVED) return x;
  x.value = s->value[r];
  x.held = s->mark[r] & ATVI_MARK_HELD;
  x.exact = s->mark[r] & ATVI_MARK_EXACT;
  x.draw = value_of(d, "predictive", at + r);
  if (what & ATVI_PREDICTED_LOO) x.log_lik = value_of(d, "log_lik", at + r);
  if (!x.held && !isnan(x.value)) x.others = value_of(d, "others", at + r);
  x.alone = value_of(d, "simulator", at + r);
  if (x.alone && all_nan(atvi_diag_predicted_draws(d), x.alone)) x.alone = NULL;
  return x;
}

static atvi_point grid_point(const atvi_draws *d, const atvi_draws_series *s, atvi_idx at, atvi_idx g) {
  atvi_point x = atvi_diag_point_at(s->grid[g]);
  x.row = s->n + g;
  x.grid = true;
  x.mean = value_of(d, "grid", at + g);
  if (s->kind == ATVI_SERIES_OBSERVED) x.draw = value_of(d, "grid_predictive", at + g);
  return x;
}

/* at, grid_at: where the values of the series begin. */
static void fill(const atvi_draws *d, const atvi_draws_series *s, int what, atvi_idx at, atvi_idx grid_at,
                 atvi_predicted *to) {
  atvi_idx B = atvi_diag_predicted_draws(d), n_grid = what & ATVI_PREDICTED_GRID ? s->n_grid : 0;
  for (atvi_idx r = 0; r < s->n + n_grid; r++) {
    atvi_point x = r < s->n ? data_point(d, s, what, at, r) : grid_point(d, s, grid_at, r - s->n);
    to->others = to->others || x.others;
    if (isnan(x.value) && x.mean && all_nan(B, x.mean)) continue; /* nothing is known without covariates */
    to->point[to->n++] = x;
  }
  to->told = d->about->dependent && s->kind == ATVI_SERIES_OBSERVED && !to->others;
  qsort(to->point, (size_t)to->n, sizeof *to->point, by_time);
}

atvi_status atvi_diag_predicted_read(atvi_pool *pool, const atvi_draws *d, int what, atvi_idx *n,
                                     atvi_predicted **out) {
  atvi_predicted *series = atvi_pool_take(pool, (size_t)d->n_series + 1, sizeof *series);
  atvi_idx at = 0, grid_at = 0;
  *n = 0;
  *out = series;
  for (atvi_idx k = 0; series && k < d->n_series; k++) {
    const atvi_draws_series *s = &d->series[k];
    series[k] = (atvi_predicted){
        .name = name_of(pool, d, k), .kind = s->kind, .unit = s->unit ? s->unit : "", .rows = s->rows};
    series[k].point = atvi_pool_take(pool, (size_t)(s->n + s->n_grid) + 1, sizeof *series[k].point);
    if (atvi_pool_failed(pool)) break;
    fill(d, s, what, at, grid_at, &series[k]);
    at += s->n;
    grid_at += s->n_grid;
  }
  if (atvi_pool_failed(pool)) return ATVI_ENOMEM;
  *n = d->n_series;
  return ATVI_OK;
}

/* ---- residuals ---- */

static double pit_of(const atvi_point *p, atvi_idx n_draw, atvi_rng *rng) {
  double below = 0, equal = 0, n = 0;
  const double *draw = p->others ? p->others : p->draw;
  if (isnan(p->value) || !draw || !p->exact) return NAN;
  for (atvi_idx k = 0; k < n_draw; k++) {
    if (isnan(draw[k])) continue;
    n++;
    below += draw[k] < p->value;
    equal += draw[k] == p->value;
  }
  return n > 0 ? (below + atvi_math_rng_uniform(rng) * (equal + 1)) / (n + 1) : NAN;
}

void atvi_diag_predicted_residuals(uint64_t seed, atvi_idx n_draw, atvi_idx n, atvi_predicted *series) {
  atvi_rng rng = atvi_math_rng_at(seed, ATVI_STREAM_PREDICT, 1, 0);
  for (atvi_idx s = 0; s < n; s++)
    for (atvi_idx i = 0; i < series[s].n; i++) {
      atvi_point *p = &series[s].point[i];
      double predicted = isfinite(p->of_mean.mean) && !p->others ? p->of_mean.mean : p->of_draw.mean;
      p->residual = p->exact && p->of_draw.sd > 0 ? (p->value - predicted) / p->of_draw.sd : NAN;
      p->pit = pit_of(p, n_draw, &rng);
      if (series[s].told && !p->held) p->residual = p->pit = NAN;
    }
}

double *atvi_diag_predicted_column(atvi_pool *pool, const atvi_predicted *s, size_t offset) {
  double *x = atvi_pool_take(pool, (size_t)s->n + 1, sizeof *x);
  for (atvi_idx i = 0; x && i < s->n; i++) memcpy(&x[i], (const char *)&s->point[i] + offset, sizeof *x);
  return x;
}
