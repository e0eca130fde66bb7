/* SPDX-License-Identifier: MIT */
/* Figures of a fit's report, for the page and as files. */
#include "io/file.h"
#include "report/fit.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What the figures of a fit need, computed once: densities, pairs, thinned series. */

enum {
  SERIES_ROWS = 700,     /* points of a series that are drawn */
  DOTS = 500,            /* draws in a panel of pairs */
  CONTOUR_DRAWS = 40000, /* draws used for contours */
};

typedef struct {
  atvi_fit_parts *x;
  atvi_idx n, step;      /* draws that contours use: every step-th */
  double **draw;         /* [pairs.n][n] */
  unsigned char **cell;  /* likewise */
  const double *weight;  /* [n] */
  double *correlation;   /* [pairs.n][pairs.n] */
  atvi_contour *contour; /* [pairs.n][pairs.n][ATVI_CONTOUR_LEVELS] */
} pairing;

static const double *weights_of(const atvi_report_fit *r) {
  return r->summary->weighted ? r->draws->weight : NULL;
}

/* ---- densities ---- */

static size_t work_size(const atvi_draws *d) {
  size_t density = atvi_report_marginal_work(d->n), ranks = 4 * (size_t)d->n + 20 * (size_t)d->n_chain;
  return density > ranks ? density : ranks; /* weights take 3 n */
}

size_t atvi_report_family_name(const char *name) {
  size_t n = strcspn(name, ".");
  return name[n] ? n : 0;
}

atvi_idx atvi_report_family_end(const atvi_summary *s, atvi_idx k) {
  size_t n = atvi_report_family_name(s->col[k].name);
  atvi_idx end = k + 1, to = k < s->n_param ? s->n_param : s->n_col;
  while (n && end < to && atvi_report_family_name(s->col[end].name) == n &&
         memcmp(s->col[end].name, s->col[k].name, n) == 0)
    end++;
  return end;
}

void atvi_report_keep_most(const atvi_summary *s, atvi_idx room, bool *in) {
  for (int arrays = 0; arrays < 2; arrays++)
    for (atvi_idx k = 0, end; k < s->n_col; k = end) {
      end = atvi_report_family_end(s, k);
      for (atvi_idx i = k; i < end && arrays == (end - k >= ATVI_REPORT_ARRAY); i++)
        in[i] = in[i] && room-- > 0;
    }
}

/* That of a thread, made when it is first needed; false: out of memory. */
static bool own_memory(struct atvi_fit_own *own, const atvi_draws *d) {
  if (own->ctx) return own->work != NULL;
  if (atvi_ctx_new(NULL, &own->ctx) != ATVI_OK || atvi_pool_new(own->ctx, &own->pool) != ATVI_OK)
    return false;
  own->work = atvi_pool_take(own->pool, work_size(d), sizeof *own->work);
  return own->work != NULL;
}

static bool all_had_memory(const atvi_fit_parts *x) {
  bool had = true;
  for (int k = 0; k < atvi_ctx_threads(atvi_pool_ctx(x->pool)); k++)
    had = had && (!x->own[k].ctx || (x->own[k].work && !atvi_pool_failed(x->own[k].pool)));
  return had;
}

/* Marginals of these columns. */
typedef struct {
  const atvi_fit_parts *x;
  const atvi_idx *column;
} marginals;

static void marginal_item(void *arg, atvi_idx k, int worker) {
  const marginals *m = arg;
  const atvi_fit_parts *x = m->x;
  const atvi_report_fit *r = x->r;
  const atvi_draws *d = r->draws;
  atvi_idx c = m->column[k];
  if (!own_memory(&x->own[worker], d)) return;
  atvi_report_marginal_make(d->n, d->x + c * d->n, weights_of(r), &r->summary->col[c], c, r->prior,
                            r->prior_user, x->own[worker].work, &x->marginal[k]);
}

static atvi_status make_marginals(atvi_fit_parts *x) {
  const atvi_draws *d = x->r->draws;
  bool *in = atvi_pool_take(x->pool, (size_t)d->n_col + 1, sizeof *in);
  atvi_idx *column = atvi_pool_take(x->pool, (size_t)d->n_col + 1, sizeof *column);
  x->marginal = atvi_pool_take(x->pool, ATVI_REPORT_COLUMNS, sizeof *x->marginal);
  x->work = atvi_pool_take(x->pool, work_size(d), sizeof *x->work);
  if (!in || !column || !x->marginal || !x->work) return ATVI_ENOMEM;
  for (atvi_idx k = 0; k < d->n_col; k++) in[k] = true;
  atvi_report_keep_most(x->r->summary, ATVI_REPORT_COLUMNS, in);
  for (atvi_idx k = 0; k < d->n_col; k++)
    if (in[k]) column[x->n_col++] = k;
  atvi_parallel(atvi_pool_ctx(x->pool), x->n_col, marginal_item, &(marginals){x, column});
  return all_had_memory(x) ? ATVI_OK : ATVI_ENOMEM;
}

const atvi_marginal *atvi_report_density_of(const atvi_fit_parts *x, atvi_idx k) {
  for (atvi_idx i = 0; i < x->n_col; i++)
    if (x->marginal[i].of == &x->r->summary->col[k]) return &x->marginal[i];
  return NULL;
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
  bool *in = atvi_pool_take(x->pool, (size_t)d->n_col + 1, sizeof *in);
  if (!dot || !x->paired || !g->draw || !g->cell || !in) return false;
  for (atvi_idx i = 0; i < x->n_col; i++) in[x->marginal[i].of - x->r->summary->col] = !x->marginal[i].flat;
  atvi_report_keep_most(x->r->summary, ATVI_REPORT_PAIRED, in);
  for (atvi_idx i = 0; i < x->n_col; i++) {
    const atvi_marginal *of = &x->marginal[i];
    atvi_idx k = of->of - x->r->summary->col;
    if (!in[k]) continue;
    x->paired[m] = *of;
    dot[m] = some(x->pool, plain->x + k * plain->n, dots, plain->n / dots);
    g->draw[m] = some(x->pool, d->x + k * d->n, g->n, g->step);
    g->cell[m] = atvi_pool_take(x->pool, (size_t)g->n + 1, 1);
    if (!g->draw[m] || !g->cell[m]) return false;
    atvi_report_contour_cells(g->n, g->draw[m], of->shown[0], of->shown[1], g->cell[m]);
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

/* Pair number `item` of (1, 0), (2, 0), (2, 1), (3, 0) and so on. */
static void pair_item(void *arg, atvi_idx item, int worker) {
  const pairing *g = arg;
  atvi_fit_parts *x = g->x;
  atvi_idx m = x->pairs.n, i = 1, j = item;
  while (j >= i) j -= i++;
  double r = atvi_report_correlation(g->n, g->draw[i], g->draw[j], g->weight);
  g->correlation[i * m + j] = g->correlation[j * m + i] = r;
  if (!own_memory(&x->own[worker], x->r->draws)) return;
  atvi_contour_axis across = axis_of(g, j, r), up = axis_of(g, i, r);
  atvi_report_contour_make(x->own[worker].pool, g->n, &across, &up, g->weight,
                           &g->contour[(i * m + j) * ATVI_CONTOUR_LEVELS]);
}

static bool relate(pairing *g) {
  atvi_fit_parts *x = g->x;
  atvi_idx m = x->pairs.n;
  g->correlation = atvi_pool_take(x->pool, (size_t)(m * m) + 1, sizeof *g->correlation);
  g->contour = atvi_pool_take(x->pool, (size_t)(m * m) * ATVI_CONTOUR_LEVELS + 1, sizeof *g->contour);
  if (!g->correlation || !g->contour) return false;
  for (atvi_idx i = 0; i < m; i++) g->correlation[i * m + i] = 1;
  atvi_parallel(atvi_pool_ctx(x->pool), m * (m - 1) / 2, pair_item, g);
  x->pairs.correlation = g->correlation;
  x->pairs.contour = g->contour;
  return all_had_memory(x);
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
  const char *name = a->day_unit > 0 ? NULL : a->time_name; /* dates need no name */
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

/* Errors: ENOMEM. */
/* To be freed, also where it failed. */
static atvi_status parts_make(atvi_pool *pool, const atvi_report_fit *r, atvi_fit_parts *out) {
  *out = (atvi_fit_parts){.r = r, .pool = pool};
  ATVI_TRY(make_series(out));
  if (!r->summary) return ATVI_OK;
  out->own = atvi_pool_take(pool, (size_t)atvi_ctx_threads(atvi_pool_ctx(pool)), sizeof *out->own);
  if (!out->own) return ATVI_ENOMEM;
  ATVI_TRY(make_bounds(out));
  ATVI_TRY(make_marginals(out));
  return make_pairs(out);
}

static void parts_free(atvi_fit_parts *x) {
  for (int k = 0; x->own && k < atvi_ctx_threads(atvi_pool_ctx(x->pool)); k++) {
    atvi_pool_free(x->own[k].pool);
    atvi_ctx_free(x->own[k].ctx);
  }
}

enum {
  LONG = 110,
  HEIGHT = ATVI_REPORT_HEIGHT,
  TRACE_POINTS = 1600,
  ALONE_ROWS = 700,
  ACROSS = 3,
  ACROSS_HALF = 2
};
static const double HALF = ATVI_REPORT_HALF, CARD_W = 300, CARD_H = 170;

bool atvi_report_long(const atvi_predicted *s) {
  atvi_idx n = 0;
  for (atvi_idx i = 0; i < s->n; i++) n += !s->point[i].grid;
  return n > LONG;
}

atvi_calendar atvi_report_calendar(const atvi_draws *d) {
  return (atvi_calendar){d->about->day0, d->about->day_unit};
}

atvi_canvas *atvi_report_draw_series(atvi_pool *pool, const atvi_predicted *s, const atvi_series_view *v,
                                     bool log, double width, atvi_frame *f) {
  double height = width > ATVI_REPORT_SMALL ? HEIGHT : ATVI_REPORT_SMALL_HEIGHT;
  atvi_canvas *c = atvi_report_canvas_new(pool, width, height);
  *f = atvi_report_panel_series(c, (atvi_box){0, 0, width, height}, s, v, log);
  return c;
}

atvi_canvas *atvi_report_draw_residuals(atvi_pool *pool, const atvi_predicted *s, const atvi_series_view *v,
                                        double width, atvi_frame *f) {
  atvi_canvas *c = atvi_report_canvas_new(pool, width, HEIGHT - 40);
  *f = atvi_report_panel_residuals(c, (atvi_box){0, 0, width, HEIGHT - 40}, s, v);
  return c;
}

atvi_canvas *atvi_report_draw_marginal(const atvi_fit_parts *x, const atvi_marginal *m, atvi_frame *f) {
  atvi_canvas *c = atvi_report_canvas_new(x->pool, CARD_W, CARD_H);
  *f = atvi_report_panel_density(c, (atvi_box){0, 0, CARD_W, CARD_H}, m);
  return c;
}

atvi_canvas *atvi_report_draw_array(const atvi_fit_parts *x, const char *name, atvi_idx from, atvi_idx n,
                                    double width, atvi_frame *f) {
  atvi_canvas *c = atvi_report_canvas_new(x->pool, width, HEIGHT);
  *f = atvi_report_panel_intervals(c, (atvi_box){0, 0, width, HEIGHT}, name, n, x->r->summary->col + from);
  return c;
}

atvi_canvas *atvi_report_draw_pairs(const atvi_fit_parts *x) {
  static const double WIDTH = 860;
  if (x->n_pick < 2) return NULL;
  atvi_canvas *c = atvi_report_canvas_new(x->pool, WIDTH, WIDTH - 10);
  atvi_report_figure_pairs(c, &x->pairs, x->n_pick, x->pick);
  return c;
}

atvi_canvas *atvi_report_draw_weights(const atvi_fit_parts *x, atvi_frame *f) {
  const atvi_draws *d = x->r->draws;
  atvi_canvas *c = atvi_report_canvas_new(x->pool, HALF, HEIGHT);
  *f = atvi_report_panel_weights(c, (atvi_box){0, 0, HALF, HEIGHT}, d->n, d->weight, d->made->khat, x->work);
  return c;
}

bool atvi_report_has_elbo(const atvi_fit_parts *x, bool hot) {
  atvi_idx n = 0;
  for (atvi_idx i = 0; i < x->r->plain->n_step; i++)
    n += atvi_report_step_has_elbo(&x->r->plain->step[i], hot);
  return n >= 2;
}

bool atvi_report_has_ladder(const atvi_fit_parts *x) {
  atvi_idx n = 0, hot = 0;
  for (atvi_idx i = 0; i < x->r->plain->n_step; i++) {
    n += isfinite(x->r->plain->step[i].temperature);
    hot += x->r->plain->step[i].temperature > 1;
  }
  return n >= 2 && hot > 0;
}

bool atvi_report_has_chains(const atvi_fit_parts *x) {
  const atvi_draws *d = x->r->draws;
  return d->chains && d->n / d->n_chain >= 4;
}

static void draw_chains(const atvi_fit_parts *x, atvi_canvas *c, atvi_box box, atvi_idx k, bool ranks) {
  const atvi_draws *d = x->r->draws;
  const char *name = x->r->summary->col[k].name;
  if (ranks)
    atvi_report_panel_ranks(c, box, name, d->n_chain, d->n / d->n_chain, d->x + k * d->n, x->work);
  else
    atvi_report_panel_trace(c, box, name, d->n_chain, d->n / d->n_chain, d->x + k * d->n, TRACE_POINTS);
}

atvi_canvas *atvi_report_draw_trace(const atvi_fit_parts *x, atvi_idx k, bool ranks) {
  atvi_box box = {0, 0, CARD_W + 20, CARD_H + 20};
  atvi_canvas *c = atvi_report_canvas_new(x->pool, box.width, box.height);
  draw_chains(x, c, box, k, ranks);
  return c;
}

/* ---- files ---- */

static atvi_status save(atvi_pool *pool, const char *dir, const char *name, const char *kind,
                        atvi_text *text) {
  const char *body, *file = atvi_pool_printf(pool, "figures/%s.%s", name, kind);
  ATVI_TRY(atvi_io_text_get(text, &body));
  if (!file) return ATVI_ENOMEM;
  return atvi_io_file_save_soon(pool, dir, file, body);
}

atvi_status atvi_report_save_figure(atvi_pool *pool, const char *dir, const char *name, const char *title,
                                    const atvi_canvas *c) {
  const char *folder = atvi_pool_printf(pool, "%s/figures", dir);
  if (!folder || !c) return ATVI_ENOMEM;
  ATVI_TRY(atvi_io_dir_make(atvi_pool_ctx(pool), folder, false));
  atvi_text svg = {.pool = pool}, pdf = {.pool = pool};
  atvi_report_canvas_svg(c, &(atvi_svg_opts){.id = name, .title = title}, &svg);
  atvi_report_canvas_pdf(c, title, &pdf);
  ATVI_TRY(save(pool, dir, name, "svg", &svg));
  return save(pool, dir, name, "pdf", &pdf);
}

atvi_status atvi_report_save_page(atvi_pool *pool, const char *dir, const char *html) {
  return atvi_io_file_save_soon(pool, dir, "report.html", html);
}

/* Panels of one size, `across` per line. */
static atvi_box place(atvi_idx k, atvi_idx across, double width, double height) {
  return (atvi_box){(double)(k % across) * width, (double)(k / across) * height, width, height};
}

static atvi_canvas *sheet(atvi_pool *pool, atvi_idx n, atvi_idx across, double width, double height) {
  atvi_idx lines = (n + across - 1) / across;
  return atvi_report_canvas_new(pool, width * (double)(n < across ? n : across),
                                height * (double)(lines > 0 ? lines : 1));
}

static atvi_status save_forecast(atvi_pool *pool, const char *dir, atvi_idx n, const atvi_predicted *const *s,
                                 const atvi_series_view *view) {
  bool wide = n == 1, held = false;
  for (atvi_idx k = 0; k < n; k++) {
    wide = wide || atvi_report_long(s[k]);
    for (atvi_idx i = 0; i < s[k]->n; i++) held = held || s[k]->point[i].held;
  }
  double width = wide ? 2 * HALF : HALF, top = atvi_report_series_legend(NULL, 2 * HALF, held);
  atvi_idx across = wide ? 1 : ACROSS_HALF;
  atvi_canvas *c = atvi_report_canvas_new(pool, 2 * HALF, top + HEIGHT * (double)((n + across - 1) / across));
  atvi_report_series_legend(c, 2 * HALF, held);
  for (atvi_idx k = 0; k < n; k++) {
    atvi_box box = place(k, across, width, HEIGHT);
    box.y += top;
    atvi_report_panel_series(c, box, s[k], &view[k], false);
  }
  return atvi_report_save_figure(pool, dir, "forecast", "Data and forecast", c);
}

atvi_status atvi_report_save_forecast(atvi_pool *pool, const char *dir, atvi_idx n,
                                      const atvi_predicted *series, atvi_calendar calendar,
                                      const char *time_name) {
  const char *below = calendar.unit > 0 ? NULL : time_name;
  const atvi_predicted **some = atvi_pool_take(pool, (size_t)n + 1, sizeof *some);
  for (atvi_idx s = 0; some && s < n; s++) some[s] = atvi_report_series_thin(pool, &series[s], ALONE_ROWS);
  const atvi_series_view *view = some ? atvi_report_series_views(pool, n, some, calendar, below, true) : NULL;
  if (!view) return ATVI_ENOMEM;
  return save_forecast(pool, dir, n, some, view);
}

/* Panels of a figure: series that are not of units, then units as the page shows them at first; residuals of
 * all units are one panel. Returns how many there are; s and v may be NULL. */
static atvi_idx panels(const atvi_fit_parts *x, bool residuals, const atvi_predicted **s,
                       const atvi_series_view **v) {
  atvi_idx n = 0;
  for (atvi_idx k = 0; k < x->n_observed; k++) {
    if (x->of_unit[k]) continue;
    if (s) s[n] = residuals ? &x->r->series[k] : x->series[k], v[n] = &x->view[k];
    n++;
  }
  for (atvi_idx u = 0; u < x->n_units; u++) {
    const atvi_report_units *of = &x->units[u];
    if (of->single && of->kind == ATVI_SERIES_OBSERVED) {
      if (s) s[n] = &of->all, v[n] = &of->view;
      n++;
      continue;
    }
    for (atvi_idx k = 0; of->kind == ATVI_SERIES_OBSERVED && k < (residuals ? 1 : of->n_shown); k++) {
      if (s) s[n] = residuals ? &of->all : x->series[of->series[k]], v[n] = &x->view[of->series[k]];
      n++;
    }
  }
  return n;
}

static atvi_status save_series(const atvi_fit_parts *x, const char *dir, bool residuals) {
  atvi_idx n = panels(x, residuals, NULL, NULL);
  const atvi_predicted **some = atvi_pool_take(x->pool, (size_t)n + 1, sizeof *some);
  const atvi_series_view **view = atvi_pool_take(x->pool, (size_t)n + 1, sizeof *view);
  bool wide = false;
  if (!some || !view) return ATVI_ENOMEM;
  panels(x, residuals, some, view);
  for (atvi_idx s = 0; s < n; s++) wide = wide || atvi_report_long(some[s]);
  double width = wide ? 2 * HALF : HALF, height = residuals ? HEIGHT - 40 : HEIGHT;
  atvi_idx across = wide ? 1 : ACROSS_HALF;
  atvi_canvas *c = sheet(x->pool, n + residuals, across, width, height);
  for (atvi_idx s = 0; s < n; s++) {
    atvi_box box = place(s, across, width, height);
    if (residuals)
      atvi_report_panel_residuals(c, box, some[s], view[s]);
    else
      atvi_report_panel_series(c, box, some[s], view[s], false);
  }
  if (residuals) atvi_report_panel_pit(c, place(n, across, width, height), &x->pit);
  return atvi_report_save_figure(x->pool, dir, residuals ? "residuals" : "data",
                                 residuals ? "Standardised residuals" : "Data and posterior predictive bands",
                                 c);
}

static atvi_status save_marginals(const atvi_fit_parts *x, const char *dir) {
  atvi_canvas *c = sheet(x->pool, x->n_col, ACROSS, CARD_W, CARD_H);
  for (atvi_idx k = 0; k < x->n_col; k++)
    atvi_report_panel_density(c, place(k, ACROSS, CARD_W, CARD_H), &x->marginal[k]);
  return atvi_report_save_figure(x->pool, dir, "marginals", "Marginal posterior densities", c);
}

static atvi_status save_training(const atvi_fit_parts *x, const char *dir) {
  const atvi_report_fit *r = x->r;
  bool elbo = atvi_report_has_elbo(x, false), hot = atvi_report_has_elbo(x, true),
       ladder = atvi_report_has_ladder(x);
  atvi_idx n = elbo + hot + ladder, k = 0;
  if (n == 0) return ATVI_OK;
  atvi_canvas *c = sheet(x->pool, n, ACROSS_HALF, HALF, HEIGHT);
  if (ladder)
    atvi_report_panel_temperature(c, place(k++, ACROSS_HALF, HALF, HEIGHT), r->plain->n_step, r->plain->step);
  if (hot)
    atvi_report_panel_elbo(c, place(k++, ACROSS_HALF, HALF, HEIGHT), r->plain->n_step, r->plain->step, true,
                           NAN);
  if (elbo)
    atvi_report_panel_elbo(c, place(k++, ACROSS_HALF, HALF, HEIGHT), r->plain->n_step, r->plain->step, false,
                           r->draws->made->log_evidence);
  return atvi_report_save_figure(x->pool, dir, "training", "Training", c);
}

static atvi_status save_chains(const atvi_fit_parts *x, const char *dir, bool ranks) {
  const atvi_draws *d = x->r->draws;
  atvi_idx n = d->n_param < ATVI_REPORT_TRACES ? d->n_param : ATVI_REPORT_TRACES;
  bool *in = atvi_pool_take(x->pool, (size_t)d->n_col, sizeof *in);
  if (!in) return ATVI_ENOMEM;
  for (atvi_idx k = 0; k < d->n_param; k++) in[k] = true;
  atvi_report_keep_most(x->r->summary, n, in);
  double w = CARD_W + 20, h = CARD_H + 20;
  atvi_canvas *c = sheet(x->pool, n, ACROSS, w, h);
  for (atvi_idx k = 0, i = 0; k < d->n_param; k++)
    if (in[k]) draw_chains(x, c, place(i++, ACROSS, w, h), k, ranks);
  return atvi_report_save_figure(x->pool, dir, ranks ? "ranks" : "traces",
                                 ranks ? "Ranks of chains" : "Traces", c);
}

static atvi_status save_data(const atvi_fit_parts *x, const char *dir) {
  return x->n_observed > 0 ? save_series(x, dir, false) : ATVI_OK;
}

static atvi_status save_residuals(const atvi_fit_parts *x, const char *dir) {
  return x->pit.n > 0 ? save_series(x, dir, true) : ATVI_OK;
}

static atvi_status save_ahead(const atvi_fit_parts *x, const char *dir) {
  atvi_idx ahead = 0;
  while (ahead < x->n_forecast && x->forecast[ahead]->kind == ATVI_SERIES_OBSERVED) ahead++;
  return ahead > 0 ? save_forecast(x->pool, dir, ahead, x->forecast, x->forecast_view) : ATVI_OK;
}

static atvi_status save_columns(const atvi_fit_parts *x, const char *dir) {
  return x->n_col > 0 ? save_marginals(x, dir) : ATVI_OK;
}

static atvi_status save_pairs(const atvi_fit_parts *x, const char *dir) {
  if (x->n_pick < 2) return ATVI_OK;
  return atvi_report_save_figure(x->pool, dir, "pairs", "Pairs of parameters", atvi_report_draw_pairs(x));
}

static atvi_status save_bounds(const atvi_fit_parts *x, const char *dir) {
  if (x->n_bounded < 1) return ATVI_OK;
  return atvi_report_save_figure(x->pool, dir, "bounds", "Posterior near the bounds",
                                 atvi_report_figure_bounds(x->pool, 640, x->n_bounded, x->bounded));
}

static atvi_status save_traces(const atvi_fit_parts *x, const char *dir) {
  return atvi_report_has_chains(x) ? save_chains(x, dir, false) : ATVI_OK;
}

static atvi_status save_ranks(const atvi_fit_parts *x, const char *dir) {
  return atvi_report_has_chains(x) ? save_chains(x, dir, true) : ATVI_OK;
}

static atvi_status save_weights(const atvi_fit_parts *x, const char *dir) {
  atvi_frame f;
  if (!x->r->draws->weight) return ATVI_OK;
  return atvi_report_save_figure(x->pool, dir, "weights", "Importance weights",
                                 atvi_report_draw_weights(x, &f));
}

static atvi_status write_page(const atvi_fit_parts *x, const char **html) {
  const atvi_report_fit *r = x->r;
  atvi_page p = atvi_report_page_begin(x->pool, r->plain->about->title, !r->summary);
  atvi_report_say_head(&p, x);
  atvi_report_say_data(&p, x);
  if (r->summary) {
    atvi_report_say_forecast(&p, x);
    atvi_report_say_marginals(&p, x);
    atvi_report_say_pairs(&p, x);
    atvi_report_say_table(&p, x);
    atvi_report_say_bounds(&p, x);
    atvi_report_say_convergence(&p, x);
    atvi_report_say_residuals(&p, x);
    atvi_report_say_emulators(&p, x);
    atvi_report_say_cost(&p, x);
  }
  atvi_report_say_again(&p, x);
  return atvi_report_page_end(&p, html);
}

atvi_status atvi_report_fit_page(atvi_pool *pool, const atvi_report_fit *r, const char **html) {
  atvi_fit_parts x;
  *html = NULL;
  atvi_status status = parts_make(pool, r, &x);
  if (status == ATVI_OK) status = write_page(&x, html);
  parts_free(&x);
  return status;
}

static atvi_status save_page(const atvi_fit_parts *x, const char *dir) {
  const char *html;
  ATVI_TRY(write_page(x, &html));
  return atvi_report_save_page(x->pool, dir, html);
}

/* ---- files side by side ---- */

typedef atvi_status save_fn(const atvi_fit_parts *x, const char *dir);
static save_fn *const FILES[] = {save_page,    save_data,  save_residuals, save_ahead,
                                 save_columns, save_pairs, save_bounds,    save_training,
                                 save_traces,  save_ranks, save_weights};
enum { N_FILES = sizeof FILES / sizeof *FILES };

typedef struct {
  const atvi_fit_parts *x;
  const char *dir;
  atvi_ctx *ctx[N_FILES]; /* NULL: out of memory */
  atvi_status status[N_FILES];
} saving;

/* With a context, memory and messages of its own. */
static void save_item(void *arg, atvi_idx i, int worker) {
  saving *s = arg;
  atvi_fit_parts own = *s->x;
  (void)worker;
  s->status[i] = atvi_ctx_new(NULL, &s->ctx[i]);
  if (s->status[i] != ATVI_OK) return;
  atvi_ctx_set_threads(s->ctx[i], 1);
  s->status[i] = atvi_pool_new(s->ctx[i], &own.pool);
  if (s->status[i] != ATVI_OK) return;
  if (own.work) own.work = atvi_pool_take(own.pool, work_size(own.r->draws), sizeof *own.work);
  s->status[i] = FILES[i](&own, s->dir);
  atvi_pool_free(own.pool);
}

atvi_status atvi_report_fit_save(atvi_pool *pool, const atvi_report_fit *r, const char *dir) {
  atvi_ctx *ctx = atvi_pool_ctx(pool);
  atvi_fit_parts x;
  saving s = {.x = &x, .dir = dir};
  atvi_status status = parts_make(pool, r, &x);
  bool there = access(dir, F_OK) == 0; /* else the page fails, and no figure makes the folder again */
  if (status == ATVI_OK) atvi_parallel(ctx, r->summary && there ? N_FILES : 1, save_item, &s);
  for (int i = 0; i < N_FILES; i++) {
    if (status == ATVI_OK && s.status[i] != ATVI_OK) {
      status = s.status[i];
      (void)ATVI_FAIL(ctx, status, "%s", s.ctx[i] ? atvi_errmsg(s.ctx[i]) : "out of memory");
    }
    atvi_ctx_free(s.ctx[i]);
  }
  parts_free(&x);
  return status;
}
