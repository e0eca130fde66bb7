/* SPDX-License-Identifier: MIT */
/* What the figures of a fit need, computed once: densities, pairs, thinned series. */
#include "report/fit.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
  SERIES_ROWS = 700,     /* points of a series that are drawn */
  DOTS = 500,            /* draws in a panel of pairs */
  CONTOUR_DRAWS = 40000, /* draws used for contours */
};

typedef struct {
  atvi_fit_parts *x;
  atvi_idx n, step;     /* draws that contours use: every step-th */
  double **draw;        /* [pairs.n][n] */
  unsigned char **cell; /* likewise */
  const double *weight; /* [n] */
} pairing;

static const double *weights_of(const atvi_report_fit *r) {
  return r->summary->weighted ? r->draws->weight : NULL;
}

/* ---- densities ---- */

static size_t work_size(const atvi_draws *d) {
  size_t density = atvi_report_marginal_work(d->n), ranks = 4 * (size_t)d->n + 20 * (size_t)d->n_chain;
  return density > ranks ? density : ranks; /* weights take 3 n */
}

static atvi_status make_marginals(atvi_fit_parts *x) {
  const atvi_report_fit *r = x->r;
  const atvi_draws *d = r->draws;
  x->n_col = d->n_col < ATVI_REPORT_COLUMNS ? d->n_col : ATVI_REPORT_COLUMNS;
  x->marginal = atvi_pool_take(x->pool, (size_t)x->n_col + 1, sizeof *x->marginal);
  x->work = atvi_pool_take(x->pool, work_size(d), sizeof *x->work);
  if (!x->marginal || !x->work) return ATVI_ENOMEM;
  for (atvi_idx k = 0; k < x->n_col; k++)
    atvi_report_marginal_make(d->n, d->x + k * d->n, weights_of(r), &r->summary->col[k], k, r->prior,
                              r->prior_user, x->work, &x->marginal[k]);
  return ATVI_OK;
}

/* ---- pairs ---- */

/* Every step-th draw of a column, or all. */
static double *some(atvi_pool *pool, const double *from, atvi_idx n, atvi_idx step) {
  double *to = atvi_pool_take(pool, (size_t)n + 1, sizeof *to);
  for (atvi_idx i = 0; to && i < n; i++) to[i] = from[i * step];
  return to;
}

static bool gather(pairing *g) {
  atvi_fit_parts *x = g->x;
  const atvi_draws *d = x->r->draws, *plain = x->r->plain;
  const double *weight = weights_of(x->r);
  atvi_idx dots = plain->n < DOTS ? plain->n : DOTS, m = 0;
  const double **dot = atvi_pool_take(x->pool, ATVI_REPORT_PAIRED, sizeof *dot);
  x->paired = atvi_pool_take(x->pool, ATVI_REPORT_PAIRED, sizeof *x->paired);
  g->draw = atvi_pool_take(x->pool, ATVI_REPORT_PAIRED, sizeof *g->draw);
  g->cell = atvi_pool_take(x->pool, ATVI_REPORT_PAIRED, sizeof *g->cell);
  g->step = (d->n + CONTOUR_DRAWS - 1) / CONTOUR_DRAWS |
            1; /* odd, since every second Sobol point is not a fair half of them */
  g->n = d->n / g->step;
  g->weight = weight ? some(x->pool, weight, g->n, g->step) : NULL;
  if (!dot || !x->paired || !g->draw || !g->cell) return false;
  for (atvi_idx k = 0; k < x->n_col && m < ATVI_REPORT_PAIRED; k++) {
    if (x->marginal[k].flat) continue;
    x->paired[m] = x->marginal[k];
    dot[m] = some(x->pool, plain->x + k * plain->n, dots, plain->n / dots);
    g->draw[m] = some(x->pool, d->x + k * d->n, g->n, g->step);
    g->cell[m] = atvi_pool_take(x->pool, (size_t)g->n + 1, 1);
    if (!g->draw[m] || !g->cell[m]) return false;
    atvi_report_contour_cells(g->n, g->draw[m], x->marginal[k].shown[0], x->marginal[k].shown[1], g->cell[m]);
    m++;
  }
  x->pairs = (atvi_pairs){.n = m, .marginal = x->paired, .n_draw = dots, .draw = dot};
  return !atvi_pool_failed(x->pool);
}

/* r: correlation with the other axis. */
static atvi_contour_axis axis_of(const pairing *g, atvi_idx k, double r) {
  const atvi_marginal *m = &g->x->paired[k];
  double given = m->of->sd * sqrt(fmax(0.01, 1 - r * r));
  return (atvi_contour_axis){g->cell[k], given / (m->shown[1] - m->shown[0])};
}

static bool relate(pairing *g) {
  atvi_fit_parts *x = g->x;
  atvi_idx m = x->pairs.n;
  double *r = atvi_pool_take(x->pool, (size_t)(m * m) + 1, sizeof *r);
  atvi_contour *contour = atvi_pool_take(x->pool, (size_t)(m * m) * ATVI_CONTOUR_LEVELS + 1, sizeof *contour);
  if (!r || !contour) return false;
  for (atvi_idx i = 0; i < m; i++)
    for (atvi_idx j = 0; j <= i; j++) {
      r[i * m + j] = r[j * m + i] =
          i == j ? 1 : atvi_report_correlation(g->n, g->draw[i], g->draw[j], g->weight);
      if (i == j) continue;
      atvi_contour_axis across = axis_of(g, j, r[i * m + j]), up = axis_of(g, i, r[i * m + j]);
      atvi_report_contour_make(x->pool, g->n, &across, &up, g->weight,
                               &contour[(i * m + j) * ATVI_CONTOUR_LEVELS]);
    }
  x->pairs.correlation = r;
  x->pairs.contour = contour;
  return !atvi_pool_failed(x->pool);
}

/* If there are many, those that depend on each other most. */
static void choose(atvi_fit_parts *x) {
  atvi_idx m = x->pairs.n;
  bool in[ATVI_REPORT_PAIRED] = {0};
  x->n_pick = m <= ATVI_REPORT_SQUARE + 1 ? m : 0;
  for (atvi_idx i = 0; i < x->n_pick; i++) in[i] = true;
  while (m > ATVI_REPORT_SQUARE + 1 && x->n_pick < ATVI_REPORT_SQUARE) {
    double best = -1;
    atvi_idx a = 0, b = 1;
    for (atvi_idx i = 0; i < m; i++)
      for (atvi_idx j = 0; j < i; j++) {
        double r = fabs(x->pairs.correlation[i * m + j]);
        if (in[i] + in[j] == 2 || (x->n_pick == ATVI_REPORT_SQUARE - 1 && !in[i] && !in[j])) continue;
        if (r > best || best < 0) best = isnan(r) ? 0 : r, a = i, b = j;
      }
    x->n_pick += !in[a] + !in[b];
    in[a] = in[b] = true;
  }
  for (atvi_idx i = 0, k = 0; i < m; i++)
    if (in[i]) x->pick[k++] = i;
}

static atvi_status make_pairs(atvi_fit_parts *x) {
  pairing g = {.x = x};
  if (!gather(&g) || !relate(&g)) return ATVI_ENOMEM;
  choose(x);
  return ATVI_OK;
}

/* ---- the rest ---- */

static atvi_series_view *make_views(const atvi_fit_parts *x, atvi_idx n, const atvi_predicted *const *s,
                                    bool middle) {
  const atvi_about *a = x->r->plain->about;
  const char *name = a->day_unit > 0 ? NULL : a->time_name ? a->time_name : "row"; /* dates need no name */
  return atvi_report_series_views(x->pool, n, s, atvi_report_calendar(x->r->plain), name, middle);
}

bool atvi_report_has_log(atvi_idx n, const atvi_series_view *view) {
  for (atvi_idx k = 0; k < n; k++)
    if (view[k].has_log) return true;
  return false;
}

/* A series with its predictions after the last time; NULL: none, or out of memory. */
static const atvi_predicted *joined(atvi_pool *pool, const atvi_predicted *s, const atvi_predicted *more) {
  double last = s->n > 0 ? s->point[s->n - 1].time : -HUGE_VAL;
  if (s->rows || more->n == 0 || !(more->point[more->n - 1].time > last)) return NULL;
  atvi_predicted *out = atvi_pool_take(pool, 1, sizeof *out);
  atvi_point *point = atvi_pool_take(pool, (size_t)(s->n + more->n), sizeof *point);
  if (!out || !point) return NULL;
  *out = *s;
  out->point = point;
  for (atvi_idx i = 0; i < s->n; i++) { /* forecasts have no simulator alone */
    point[i] = s->point[i];
    point[i].of_alone = more->point[0].of_alone;
  }
  for (atvi_idx i = 0; i < more->n; i++)
    if (more->point[i].time > last) point[out->n++] = more->point[i];
  return out;
}

static void make_forecast(atvi_fit_parts *x) {
  const atvi_report_fit *r = x->r;
  double *last = atvi_pool_take(x->pool, (size_t)r->n_series + 1, sizeof *last);
  x->forecast = atvi_pool_take(x->pool, (size_t)r->n_series + 1, sizeof *x->forecast);
  for (atvi_idx s = 0; last && x->forecast && s < r->n_series; s++) {
    const atvi_predicted *of = &r->series[s], *all = joined(x->pool, of, &r->forecast[s]);
    if (!all) continue;
    last[x->n_forecast] = of->n > 0 ? of->point[of->n - 1].time : NAN;
    x->forecast[x->n_forecast++] = atvi_report_series_thin(x->pool, all, SERIES_ROWS);
  }
  x->forecast_view = make_views(x, x->n_forecast, x->forecast, true);
  for (atvi_idx k = 0; x->forecast_view && k < x->n_forecast; k++) /* tracked quantities have no data */
    if (isnan(x->forecast_view[k].end)) x->forecast_view[k].end = last[k];
}

/* ---- units ---- */

/* Root of the mean square of standardised residuals; 0: none are known. */
static double misfit(const atvi_predicted *s) {
  double sum = 0, n = 0;
  for (atvi_idx i = 0; i < s->n; i++)
    if (isfinite(s->point[i].residual)) sum += s->point[i].residual * s->point[i].residual, n++;
  return n > 0 ? sqrt(sum / n) : 0;
}

static int by_time(const void *a, const void *b) {
  const atvi_point *x = a, *y = b;
  return (x->time > y->time) - (x->time < y->time);
}

/* Of many units those that fit worst come first. */
static void order(const atvi_report_fit *r, atvi_report_units *u) {
  u->n_shown = u->n <= ATVI_REPORT_UNITS ? u->n : ATVI_REPORT_UNITS_FIRST;
  for (atvi_idx k = 0; u->n_shown < u->n && k < u->n_shown; k++) {
    atvi_idx worst = k;
    for (atvi_idx i = k + 1; i < u->n; i++)
      if (misfit(&r->series[u->series[i]]) > misfit(&r->series[u->series[worst]])) worst = i;
    u->worst = u->worst || misfit(&r->series[u->series[worst]]) > 0;
    atvi_idx is = u->series[worst];
    memmove(u->series + k + 1, u->series + k, (size_t)(worst - k) * sizeof *u->series);
    u->series[k] = is;
  }
}

/* The units side by side, by their labels. */
static bool view_single(atvi_fit_parts *x, atvi_report_units *u) {
  const char **label = atvi_pool_take(x->pool, (size_t)u->n + 1, sizeof *label);
  const atvi_predicted *all = &u->all;
  if (!label) return false;
  for (atvi_idx k = 0; k < u->n; k++) {
    const atvi_predicted *of = &x->r->series[u->series[k]];
    label[k] = of->name + atvi_report_unit_name(of) + 1;
    u->all.point[k].time = (double)(k + 1);
  }
  u->n_shown = u->n;
  u->all.name = u->name;
  atvi_series_view *v = make_views(x, 1, &all, false);
  if (!v) return false;
  u->view = *v;
  u->view.label = label;
  u->view.across = (atvi_scale){.low = 0.5, .high = (double)u->n + 0.5};
  u->view.has_log = false;
  return true;
}

static bool gather_units(atvi_fit_parts *x, atvi_idx first, atvi_report_units *u) {
  const atvi_report_fit *r = x->r;
  const atvi_predicted *like = &r->series[first];
  atvi_idx points = 0;
  *u = (atvi_report_units){.name = atvi_pool_strndup(x->pool, like->name, atvi_report_unit_name(like)),
                           .kind = like->kind,
                           .single = like->rows};
  u->series = atvi_pool_take(x->pool, (size_t)r->n_series, sizeof *u->series);
  if (!u->name || !u->series) return false;
  for (atvi_idx s = first; s < r->n_series; s++)
    if (s == first || atvi_report_same_kind(like, &r->series[s])) {
      u->series[u->n++] = s;
      u->single = u->single && r->series[s].n == 1;
      points += r->series[s].n;
      x->of_unit[s] = true;
    }
  u->all = *like;
  u->all.name = atvi_pool_printf(x->pool, "%s, all %td units", u->name, u->n);
  u->all.n = 0;
  u->all.point = atvi_pool_take(x->pool, (size_t)points + 1, sizeof *u->all.point);
  if (!u->all.name || !u->all.point) return false;
  for (atvi_idx k = 0; k < u->n; k++)
    for (atvi_idx i = 0; i < r->series[u->series[k]].n; i++)
      if (!r->series[u->series[k]].point[i].grid) u->all.point[u->all.n++] = r->series[u->series[k]].point[i];
  if (u->single) return view_single(x, u);
  qsort(u->all.point, (size_t)u->all.n, sizeof *u->all.point, by_time);
  order(r, u);
  return true;
}

static bool make_units(atvi_fit_parts *x) {
  const atvi_report_fit *r = x->r;
  x->units = atvi_pool_take(x->pool, (size_t)r->n_series + 1, sizeof *x->units);
  x->of_unit = atvi_pool_take(x->pool, (size_t)r->n_series + 1, sizeof *x->of_unit);
  if (!x->units || !x->of_unit) return false;
  for (atvi_idx s = 0; s < r->n_series; s++)
    if (!x->of_unit[s] && atvi_report_unit_name(&r->series[s]) &&
        !gather_units(x, s, &x->units[x->n_units++]))
      return false;
  return true;
}

static atvi_status make_series(atvi_fit_parts *x) {
  const atvi_report_fit *r = x->r;
  x->series = atvi_pool_take(x->pool, (size_t)r->n_series + 1, sizeof *x->series);
  for (atvi_idx s = 0; x->series && s < r->n_series; s++) {
    x->series[s] = atvi_report_series_thin(x->pool, &r->series[s], SERIES_ROWS);
    x->n_observed += r->series[s].kind == ATVI_SERIES_OBSERVED;
  }
  if (x->series) x->view = make_views(x, r->n_series, x->series, false);
  if (!make_units(x)) return ATVI_ENOMEM;
  if (r->forecast) make_forecast(x);
  x->pit = atvi_report_pit_of(r->n_series, r->series);
  return atvi_pool_status(x->pool);
}

static atvi_status make_bounds(atvi_fit_parts *x) {
  const atvi_summary *s = x->r->summary;
  x->bounded = atvi_pool_take(x->pool, (size_t)s->n_param + 1, sizeof *x->bounded);
  if (!x->bounded) return ATVI_ENOMEM;
  for (atvi_idx k = 0; k < s->n_param; k++)
    if (isfinite(s->col[k].near_lower)) x->bounded[x->n_bounded++] = &s->col[k];
  return ATVI_OK;
}

atvi_status atvi_report_parts_make(atvi_pool *pool, const atvi_report_fit *r, atvi_fit_parts *out) {
  *out = (atvi_fit_parts){.r = r, .pool = pool};
  ATVI_TRY(make_series(out));
  if (!r->summary) return ATVI_OK;
  ATVI_TRY(make_bounds(out));
  ATVI_TRY(make_marginals(out));
  return make_pairs(out);
}
