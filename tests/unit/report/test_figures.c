/* SPDX-License-Identifier: MIT */
#include "markup.h"
#include "math/rng.h"
#include "points.h"
#include "report/figure.h"

static const double PI = 3.14159265358979323846;

static atvi_summary_column column(const char *name, double lower, double upper) {
  return (atvi_summary_column){
      .name = name, .lower = lower, .upper = upper, .mean = 1.3, .sd = 0.7, .mode = 1.1, .hpd95 = {1, 2.4}};
}

static double uniform_mass(const void *user, atvi_idx col, double a, double b) {
  const double *ends = user;
  (void)col;
  a = fmax(a, ends[0]), b = fmin(b, ends[1]);
  return a < b ? (b - a) / (ends[1] - ends[0]) : 0;
}

/* ---- densities ---- */

enum { N = 20000 };

/* |z| + 1 of normal z: its density is largest at the hard bound 1, where a kernel that smears would halve it. */
static void density_is_right_at_a_bound(void) {
  double *x = malloc(N * sizeof *x), *work = malloc(atvi_report_marginal_work(N) * sizeof *work),
         ends[2] = {1, 4};
  atvi_marginal *m = malloc(sizeof *m);
  atvi_summary_column c = column("a", 1, HUGE_VAL);
  atvi_rng r = atvi_math_rng_at(7, 1, 0, 0);
  for (int i = 0; i < N; i++) x[i] = 1 + fabs(atvi_math_rng_normal(&r));
  atvi_report_marginal_make(N, x, NULL, &c, 0, uniform_mass, ends, work, m);
  CHECK(!m->flat);
  CHECK(m->ends[0] == 1); /* not a cell past the bound */
  CHECK(m->shown[0] == 1);
  double cell = (m->ends[1] - m->ends[0]) / ATVI_MARGINAL, sum = 0, prior = 0;
  for (int k = 0; k < ATVI_MARGINAL; k++) sum += m->density[k] * cell, prior += m->prior[k] * cell;
  CHECK_ABS(sum, 1, 1e-9);
  /* reflected kernel: bias ~ h f'' / 2 is small; noise 1 / sqrt(n h f) ~ 3 %, with h ~ 0.1 */
  for (int k = 0; k < 100; k += 9)
    CHECK_ABS(m->density[k], sqrt(2 / PI) * exp(-0.5 * pow(m->x[k] - 1, 2)), 0.06);
  CHECK(m->has_prior);
  CHECK_REL(m->prior[3], 1.0 / 3, 1e-9);
  CHECK_REL(prior, fmin(1, (m->ends[1] - 1) / 3), 1e-9);
  free(x), free(work), free(m);
}

/* Weights count: w = 2 x turns uniform draws into the density 2 x on (0, 1), with bounds at both ends. */
static void density_follows_weights(void) {
  double *x = malloc(2 * N * sizeof *x), *w = x + N,
         *work = malloc(atvi_report_marginal_work(N) * sizeof *work);
  atvi_marginal *m = malloc(sizeof *m);
  atvi_summary_column c = column("a", 0, 1);
  atvi_rng r = atvi_math_rng_at(8, 1, 0, 0);
  for (int i = 0; i < N; i++) x[i] = atvi_math_rng_uniform(&r), w[i] = 2 * x[i] / N;
  w[5] = 0, x[5] = NAN; /* a failed run */
  atvi_report_marginal_make(N, x, w, &c, 0, NULL, NULL, work, m);
  CHECK(m->ends[0] >= 0 && m->ends[1] <= 1);
  CHECK(!m->has_prior);
  for (int k = 20; k < ATVI_MARGINAL - 20; k += 17) CHECK_ABS(m->density[k], 2 * m->x[k], 0.15);
  free(x), free(work), free(m);
}

static void constant_and_broken_columns_are_flat(void) {
  double x[8] = {2, 2, 2, 2, 2, 2, 2, 2}, work[4 * 8 + 4 * 1024];
  atvi_marginal m;
  atvi_summary_column c = column("a", 0, 3);
  CHECK(atvi_report_marginal_work(8) <= sizeof work / sizeof *work);
  atvi_report_marginal_make(8, x, NULL, &c, 0, NULL, NULL, work, &m);
  CHECK(m.flat);
  x[3] = NAN;
  atvi_report_marginal_make(8, x, NULL, &c, 0, NULL, NULL, work, &m);
  CHECK(m.flat);
}

/* ---- contours ---- */

/* Even-odd rule over closed lines. */
static bool inside(const atvi_contour *c, double x, double y) {
  bool in = false;
  for (atvi_idx i = 0, begin = 0; i < c->n; i++) {
    if (c->at[2 * i] >= 0) continue;
    for (atvi_idx a = begin, b = i - 1; a < i; b = a++) {
      double xa = c->at[2 * a], ya = c->at[2 * a + 1], xb = c->at[2 * b], yb = c->at[2 * b + 1];
      if ((ya > y) != (yb > y) && x < xa + (xb - xa) * (y - ya) / (yb - ya)) in = !in;
    }
    begin = i + 1;
  }
  return in;
}

/* Two normals with correlation 0.8: the regions hold their share of the draws, and the outer one is the
 * ellipse r^2 = 5.99. */
static void contours_hold_their_mass(void) {
  atvi_ctx *ctx = test_ctx();
  atvi_pool *pool;
  CHECK_OK(atvi_pool_new(ctx, &pool));
  double *x = malloc(2 * N * sizeof *x), *y = x + N;
  unsigned char *cell = malloc(2 * N);
  atvi_rng r = atvi_math_rng_at(9, 1, 0, 0);
  for (int i = 0; i < N; i++) {
    x[i] = atvi_math_rng_normal(&r);
    y[i] = 0.8 * x[i] + 0.6 * atvi_math_rng_normal(&r);
  }
  atvi_report_contour_cells(N, x, -4, 4, cell);
  atvi_report_contour_cells(N, y, -4, 4, cell + N);
  CHECK_ABS(atvi_report_correlation(N, x, y, NULL), 0.8, 4 * 0.36 / sqrt(N));
  atvi_contour level[ATVI_CONTOUR_LEVELS];
  atvi_report_contour_make(pool, N, &(atvi_contour_axis){cell, 0.6 / 8},
                           &(atvi_contour_axis){cell + N, 0.6 / 8}, NULL, level);
  for (int k = 0; k < ATVI_CONTOUR_LEVELS; k++) {
    atvi_idx in = 0;
    CHECK(level[k].n > 10 && level[k].at[2 * (level[k].n - 1)] == -1);
    for (int i = 0; i < N; i++) in += inside(&level[k], 125 * (x[i] + 4), 125 * (y[i] + 4));
    CHECK_ABS((double)in / N, atvi_report_contour_mass[k], 0.03); /* the kernel widens, cells are coarse */
  }
  /* along the long axis, sd sqrt(1.8 / 2) per coordinate */
  double far = sqrt(5.99 * 0.9);
  CHECK(inside(&level[1], 125 * (0.85 * far + 4), 125 * (0.85 * far + 4)));
  CHECK(!inside(&level[1], 125 * (1.15 * far + 4), 125 * (1.15 * far + 4)));
  CHECK(!inside(&level[1], 125 * (1.5 + 4), 125 * (-1.5 + 4)));
  free(x), free(cell);
  atvi_pool_free(pool);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

/* Draws heaped against a bound: the line runs along it, and does not stop short. */
static void contours_reach_bounds(void) {
  atvi_ctx *ctx = test_ctx();
  atvi_pool *pool;
  CHECK_OK(atvi_pool_new(ctx, &pool));
  double x[4000], y[4000], w[4000];
  unsigned char cx[4000], cy[4000];
  atvi_rng r = atvi_math_rng_at(10, 1, 0, 0);
  for (int i = 0; i < 4000; i++)
    x[i] = fabs(atvi_math_rng_normal(&r)), y[i] = atvi_math_rng_normal(&r), w[i] = 1;
  atvi_report_contour_cells(4000, x, 0, 4, cx);
  atvi_report_contour_cells(4000, y, -4, 4, cy);
  atvi_contour level[ATVI_CONTOUR_LEVELS];
  atvi_report_contour_make(pool, 4000, &(atvi_contour_axis){cx, 0.15}, &(atvi_contour_axis){cy, 0.125}, w,
                           level);
  int at_bound = 0;
  for (atvi_idx i = 0; i < level[0].n; i++) at_bound += level[0].at[2 * i] == 0;
  CHECK(at_bound >= 5);
  atvi_report_contour_make(pool, 4000, &(atvi_contour_axis){cx, 0}, &(atvi_contour_axis){cy, 0.1}, NULL,
                           level);
  CHECK(level[0].n == 0 && level[1].n == 0); /* a constant has no region */
  CHECK(isnan(atvi_report_correlation(2, (double[]){1, 1}, (double[]){1, 2}, NULL)));
  CHECK_REL(atvi_report_correlation(3, (double[]){1, 2, 3}, (double[]){2, 1, 9}, (double[]){1, 1, 0}), -1,
            1e-12);
  atvi_pool_free(pool);
  atvi_ctx_free(ctx);
}

/* ---- series ---- */

static void thinning_keeps_extremes(void) {
  atvi_ctx *ctx = test_ctx();
  atvi_pool *pool;
  CHECK_OK(atvi_pool_new(ctx, &pool));
  enum { LONG = 5000 };
  double *v = malloc(4 * LONG * sizeof *v), *low = v + LONG, *high = low + LONG, *time = high + LONG;
  for (int i = 0; i < LONG; i++) v[i] = i % 100 ? NAN : 1, low[i] = -1, high[i] = 2, time[i] = i;
  v[1300] = 50;
  high[4203] = 9;
  atvi_predicted s = points((columns){.name = "a",

                                      .n = LONG,
                                      .time = time,
                                      .value = v,
                                      .mean = time,
                                      .low = low,
                                      .high = high});
  CHECK(atvi_report_series_thin(pool, &s, LONG) == &s);
  const atvi_predicted *t = atvi_report_series_thin(pool, &s, 500);
  double most = 0, top = 0;
  CHECK_INT(t->n, 500);
  for (int i = 0; i < 500; i++)
    most = fmax(most, t->point[i].value), top = fmax(top, t->point[i].of_draw.hpd95[1]);
  CHECK(top == 9);
  CHECK(most == 50);
  CHECK(isnan(t->point[0].of_mean.hpd95[0]) && !t->point[0].held);
  CHECK_REL(t->point[0].time, 4.5, 1e-12);
  CHECK_REL(t->point[1].of_mean.mean, 14.5, 1e-12);
  free(v);
  atvi_pool_free(pool);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

static const char *svg(const atvi_canvas *c, atvi_pool *pool) {
  atvi_text out = {.pool = pool};
  const char *s;
  atvi_report_canvas_svg(c, &(atvi_svg_opts){.id = "p", .title = "t"}, &out);
  CHECK_OK(atvi_io_text_get(&out, &s));
  markup_check(s);
  return s;
}

/* As SVG has it. */
static const char *place_of(atvi_pool *pool, double x, double y) {
  return atvi_pool_printf(pool, "%.6g %.6g", round(10 * x) / 10, round(10 * y) / 10);
}

/* In views of their own. */
static atvi_frame draw_series(atvi_canvas *c, atvi_pool *pool, atvi_box box, const atvi_predicted *s,
                              atvi_calendar calendar, const char *time_name) {
  return atvi_report_panel_series(c, box, s,
                                  atvi_report_series_views(pool, 1, &s, calendar, time_name, false), false);
}

static atvi_frame draw_residuals(atvi_canvas *c, atvi_pool *pool, atvi_box box, const atvi_predicted *s,
                                 atvi_calendar calendar, const char *time_name) {
  return atvi_report_panel_residuals(c, box, s,
                                     atvi_report_series_views(pool, 1, &s, calendar, time_name, false));
}

static void series_are_drawn_where_they_are(void) {
  atvi_ctx *ctx = test_ctx();
  atvi_pool *pool;
  CHECK_OK(atvi_pool_new(ctx, &pool));
  const double time[4] = {0, 1, 2, 3}, value[4] = {1, 4, NAN, 2}, mean[4] = {1, 3, 3, 2},
               low[4] = {0, 1, 1, 0}, high[4] = {3, 6, 6, 4};
  const double residual[4] = {0, 0.5, NAN, 4}, pit[4] = {0.05, 0.95, NAN, 1};
  const bool held[4] = {false, false, false, true};
  atvi_predicted s = points((columns){.name = "infected",

                                      .n = 4,
                                      .time = time,
                                      .value = value,
                                      .held = held,
                                      .mean = mean,
                                      .mean_low = low,
                                      .mean_high = high,
                                      .low = low,
                                      .high = high,
                                      .residual = residual,
                                      .pit = pit});
  atvi_canvas *c = atvi_report_canvas_new(pool, 420, 240);
  atvi_frame f = draw_series(c, pool, (atvi_box){0, 0, 420, 240}, &s, (atvi_calendar){0, 0}, "day");
  CHECK(f.up.low == 0 && f.up.high >= 6 && f.up.high < 7);
  CHECK(f.across.low < 0 && f.across.high > 3);
  const char *text = svg(c, pool);
  char dot[64];
  snprintf(dot, sizeof dot, "%.1f", atvi_report_frame_x(&f, 1));
  CHECK(strstr(text, dot));
  CHECK(strstr(text, "class=\"s-held"));
  CHECK(strstr(text, "class=\"zoom\"") && strstr(text, "class=\"ax\""));
  c = atvi_report_canvas_new(pool, 420, 240);
  f = draw_residuals(c, pool, (atvi_box){0, 0, 420, 240}, &s, (atvi_calendar){14597, 1}, NULL);
  CHECK(f.up.high > 4 && f.up.low == -f.up.high);
  CHECK(strstr(svg(c, pool), "Dec"));
  atvi_pit p = atvi_report_pit_of(1, &s);
  CHECK_INT(p.n, 3);
  CHECK_INT(p.count[0], 1);
  CHECK_INT(p.count[9], 2); /* 1 itself belongs to the last */
  c = atvi_report_canvas_new(pool, 420, 240);
  f = atvi_report_panel_pit(c, (atvi_box){0, 0, 420, 240}, &p);
  CHECK(f.up.high >= 2);
  svg(c, pool);
  atvi_pool_free(pool);
  atvi_ctx_free(ctx);
}

/* A single time, data alone, nothing at all. */
static void odd_series_are_drawn_too(void) {
  atvi_ctx *ctx = test_ctx();
  atvi_pool *pool;
  CHECK_OK(atvi_pool_new(ctx, &pool));
  const double one[1] = {3}, none[1] = {NAN};
  const atvi_predicted of[] = {points((columns){.name = "a", .n = 1, .time = one, .value = one}),
                               points((columns){.name = "b", .n = 1, .time = one, .value = none}),
                               points((columns){.name = "c", .kind = ATVI_SERIES_TRACKED, .time = one})};
  for (int k = 0; k < 3; k++) {
    atvi_canvas *c = atvi_report_canvas_new(pool, 300, 200);
    atvi_frame f = draw_series(c, pool, (atvi_box){0, 0, 300, 200}, &of[k], (atvi_calendar){0, 0}, NULL);
    CHECK(f.across.low < f.across.high && f.up.low < f.up.high);
    draw_residuals(c, pool, (atvi_box){0, 0, 300, 200}, &of[k], (atvi_calendar){0, 0}, NULL);
    CHECK(!strstr(svg(c, pool), "nan"));
  }
  CHECK_INT(atvi_report_pit_of(3, of).n, 0);
  atvi_pool_free(pool);
  atvi_ctx_free(ctx);
}

/* A value without a time has bars for bands, all of them in sight, and no axis of time. */
static void a_single_value(void) {
  atvi_ctx *ctx = test_ctx();
  atvi_pool *pool;
  CHECK_OK(atvi_pool_new(ctx, &pool));
  const double row[1] = {1}, value[1] = {0.8385}, mean[1] = {0.84}, low[2] = {0.78, 0.8},
               high[2] = {0.93, 0.9};
  atvi_predicted s = points((columns){.name = "attack",

                                      .n = 1,
                                      .time = row,
                                      .value = value,
                                      .mean = mean,
                                      .mean_low = low + 1,
                                      .mean_high = high + 1,
                                      .low = low,
                                      .high = high,
                                      .alone = mean,
                                      .alone_low = low + 1,
                                      .alone_high = high + 1});
  for (int rows = 0; rows < 2; rows++) {
    s.rows = rows;
    atvi_canvas *c = atvi_report_canvas_new(pool, 420, 225);
    atvi_frame f = draw_series(c, pool, (atvi_box){0, 0, 420, 225}, &s, (atvi_calendar){14597, 1}, "week");
    CHECK(f.up.low <= 0.78 && f.up.high >= 0.93);
    const char *text = svg(c, pool);
    char bar[64];
    snprintf(bar, sizeof bar, "M%.1f %.1f", atvi_report_frame_x(&f, 1) - 28, atvi_report_frame_y(&f, 0.93));
    CHECK_MSG(strstr(text, bar) != NULL, "no %s in %s", bar, text);
    CHECK((strstr(text, "week") != NULL) == !rows);
    CHECK((strstr(text, "Dec") != NULL) == !rows); /* a number of a row is no date */
    c = atvi_report_canvas_new(pool, 420, 225);
    draw_residuals(c, pool, (atvi_box){0, 0, 420, 225}, &s, (atvi_calendar){0}, "week");
    CHECK((strstr(svg(c, pool), "week") != NULL) == !rows);
  }
  const double rows[3] = {1, 2, 3}, three[3] = {5, 6, 7};
  const atvi_predicted more =
      points((columns){.name = "a", .n = 3, .time = rows, .value = three, .rows = true});
  atvi_canvas *c = atvi_report_canvas_new(pool, 420, 225);
  draw_series(c, pool, (atvi_box){0, 0, 420, 225}, &more, (atvi_calendar){0}, "week");
  const char *text = svg(c, pool);
  CHECK(strstr(text, "row") && !strstr(text, "week"));
  atvi_pool_free(pool);
  atvi_ctx_free(ctx);
}

/* So have replicates: two values at a time that has no name. */
static void replicates(void) {
  atvi_ctx *ctx = test_ctx();
  atvi_pool *pool;
  CHECK_OK(atvi_pool_new(ctx, &pool));
  const double time[2] = {0, 0}, value[2] = {0.8, 0.85}, mean[2] = {0.84, 0.84}, low[2] = {0.78, 0.78},
               high[2] = {0.93, 0.93};
  const atvi_predicted s = points((columns){
      .name = "attack", .n = 2, .time = time, .value = value, .mean = mean, .low = low, .high = high});
  for (int named = 0; named < 2; named++) {
    atvi_canvas *c = atvi_report_canvas_new(pool, 420, 225);
    atvi_frame f =
        draw_series(c, pool, (atvi_box){0, 0, 420, 225}, &s, (atvi_calendar){0}, named ? "week" : NULL);
    const char *text = svg(c, pool);
    char bar[64];
    snprintf(bar, sizeof bar, "M%.1f %.1f", atvi_report_frame_x(&f, 0) - 28, atvi_report_frame_y(&f, 0.93));
    CHECK_MSG(strstr(text, bar) != NULL, "no %s in %s", bar, text);
    CHECK(!strstr(text, "row") && (strstr(text, "week") != NULL) == named);
  }
  atvi_pool_free(pool);
  atvi_ctx_free(ctx);
}

/* Elements of an array, and no others, have their scales in common. */
static void arrays_have_one_scale(void) {
  atvi_ctx *ctx = test_ctx();
  atvi_pool *pool;
  CHECK_OK(atvi_pool_new(ctx, &pool));
  const double early[3] = {0, 1, 2}, late[3] = {1, 2, 5}, small[3] = {1, 2, 3}, large[3] = {10, 90, 40};
  const atvi_predicted of[] = {
      points((columns){.name = "y.1", .n = 3, .time = early, .value = small, .mean = small}),
      points((columns){.name = "y.2", .n = 3, .time = late, .value = large, .mean = large}),
      points((columns){.name = "y.3", .kind = ATVI_SERIES_TRACKED, .n = 3, .time = early, .mean = small}),
      points((columns){.name = "yy.1", .n = 3, .time = early, .value = small, .mean = small}),
      points((columns){.name = "set.y", .n = 3, .time = early, .value = small, .mean = small}),
      points((columns){.name = "set.z", .n = 3, .time = late, .value = large, .mean = large})};
  const atvi_predicted *list[6];
  for (int k = 0; k < 6; k++) list[k] = &of[k];
  const atvi_series_view *v = atvi_report_series_views(pool, 6, list, (atvi_calendar){0}, "t", false);
  CHECK(v);
  CHECK(v[0].up.high == v[1].up.high && v[0].up.low == v[1].up.low && v[0].up.high > 90);
  CHECK(v[0].across.low == v[1].across.low && v[0].across.low < 0 && v[0].across.high > 5);
  CHECK(v[0].across.high == v[1].across.high);
  CHECK(v[0].log_up.low == v[1].log_up.low && v[0].log_up.low < 1 && v[0].log_up.high > 90);
  for (int k = 2; k < 5; k++) CHECK(v[k].up.high < 4 && v[k].across.high < 3);
  CHECK(v[5].up.high > 90 && v[5].across.low > 0);
  atvi_pool_free(pool);
  atvi_ctx_free(ctx);
}

/* Zero is not on a logarithmic scale: values are left out, bands end at the bottom, lines below zero have no
 * such scale. */
static void logarithmic_scales(void) {
  atvi_ctx *ctx = test_ctx();
  atvi_pool *pool;
  CHECK_OK(atvi_pool_new(ctx, &pool));
  const double time[4] = {0, 1, 2, 3}, value[4] = {100, 10, 0, 2.385}, mean[4] = {98, 11, 2, 2},
               low[4] = {50, 4, 0, -1}, high[4] = {200, 20, 6, 5}, mixed[4] = {3, 1, -1, -2};
  columns all = {.name = "y", .n = 4, .time = time, .value = value, .mean = mean, .low = low, .high = high};
  const atvi_predicted s = points(all), *p = &s;
  const atvi_series_view *v = atvi_report_series_views(pool, 1, &p, (atvi_calendar){0}, "t", false);
  bool cut = false;
  CHECK(v->has_log && v->log_up.log && !v->up.log);
  CHECK(v->log_up.low > 0.1 && v->log_up.low < 2 && v->log_up.high > 200 && v->log_up.high < 400);
  CHECK_INT(atvi_report_series_below(&s, v, &cut), 1);
  CHECK(cut);
  atvi_canvas *c = atvi_report_canvas_new(pool, 420, 225);
  atvi_frame f = atvi_report_panel_series(c, (atvi_box){0, 0, 420, 225}, &s, v, true);
  const char *text = svg(c, pool);
  CHECK_REL(atvi_report_frame_y(&f, 100) - atvi_report_frame_y(&f, 10),
            atvi_report_frame_y(&f, 1000) - atvi_report_frame_y(&f, 100), 1e-9);
  const char *place = place_of(pool, atvi_report_frame_x(&f, 2), f.y + f.height);
  CHECK_MSG(strstr(text, place) != NULL, "no %s in %s", place, text); /* the band ends at the bottom */
  CHECK(!strstr(text, "nan") && strstr(text, ">100<"));
  /* a line below zero; a value below zero; most values at zero; half of them */
  const double zeros[4] = {3, 0, 0, 0}, half[4] = {3, 1, 0, 0};
  const struct {
    const double *value, *mean;
    bool has_log;
  } other[] = {{value, mixed, false}, {mixed, mean, false}, {zeros, mean, false}, {half, mean, true}};
  for (int k = 0; k < 4; k++) {
    all.value = other[k].value, all.mean = other[k].mean;
    const atvi_predicted one = points(all), *q = &one;
    v = atvi_report_series_views(pool, 1, &q, (atvi_calendar){0}, "t", false);
    CHECK(v && v->has_log == other[k].has_log);
  }
  /* a line that falls without end is followed two decades below the data */
  const double falls[4] = {100, 1, 1e-40, 1e-200};
  all.value = NULL, all.mean = falls, all.low = all.high = NULL;
  const atvi_predicted deep = points(all), *q = &deep;
  v = atvi_report_series_views(pool, 1, &q, (atvi_calendar){0}, "t", false);
  CHECK(v->has_log && v->log_up.low > 1e-5);
  atvi_pool_free(pool);
  atvi_ctx_free(ctx);
}

/* Median, half and nearly all of what is observed, and where the data end. */
static void what_is_ahead(void) {
  atvi_ctx *ctx = test_ctx();
  atvi_pool *pool;
  CHECK_OK(atvi_pool_new(ctx, &pool));
  const double time[4] = {0, 1, 2, 3}, value[4] = {5, 6, NAN, NAN}, mean[4] = {5, 6, 70, 90},
               median[4] = {5, 6, 7, 8}, low[4] = {3, 3, 3, 3}, high[4] = {8, 9, 11, 14},
               q25[4] = {4, 5, 6, 6.5}, q75[4] = {6, 7, 8, 10};
  const atvi_predicted s = points((columns){.name = "y",
                                            .n = 4,
                                            .time = time,
                                            .value = value,
                                            .mean = mean,
                                            .median = median,
                                            .low = low,
                                            .high = high,
                                            .pred_q25 = q25,
                                            .pred_q75 = q75}),
                       *p = &s;
  const atvi_series_view *v = atvi_report_series_views(pool, 1, &p, (atvi_calendar){0}, "t", true);
  CHECK(v->end == 1 && v->up.high < 20); /* a mean far off is not shown */
  atvi_canvas *c = atvi_report_canvas_new(pool, 420, 225);
  atvi_frame f = atvi_report_panel_series(c, (atvi_box){0, 0, 420, 225}, &s, v, false);
  const char *text = svg(c, pool);
  const double seen[][2] = {{3, 8}, {3, 10}, {3, 6.5}, {3, 14}, {3, 3}};
  for (int k = 0; k < 5; k++) {
    const char *place =
        place_of(pool, atvi_report_frame_x(&f, seen[k][0]), atvi_report_frame_y(&f, seen[k][1]));
    CHECK_MSG(strstr(text, place) != NULL, "no %s in %s", place, text);
  }
  CHECK(strstr(text, "stroke-dasharray"));
  double wide = atvi_report_series_legend(NULL, 840, true),
         narrow = atvi_report_series_legend(NULL, 300, true);
  CHECK(narrow > wide && wide > 10);
  c = atvi_report_canvas_new(pool, 840, wide);
  CHECK(atvi_report_series_legend(c, 840, true) == wide);
  text = svg(c, pool);
  CHECK(strstr(text, ">median<") && strstr(text, ">end of the data<") && strstr(text, ">data held out<"));
  atvi_pool_free(pool);
  atvi_ctx_free(ctx);
}

/* ---- the rest ---- */

static void made_and_compared(void) {
  atvi_ctx *ctx = test_ctx();
  atvi_pool *pool;
  CHECK_OK(atvi_pool_new(ctx, &pool));
  enum { CHAINS = 4, LENGTH = 300 };
  double *x = malloc(CHAINS * LENGTH * sizeof *x),
         *work = malloc((4 * CHAINS * LENGTH + 20 * CHAINS) * sizeof *work), w[400], most[1200];
  atvi_rng r = atvi_math_rng_at(11, 1, 0, 0);
  for (int i = 0; i < CHAINS * LENGTH; i++) x[i] = atvi_math_rng_normal(&r) + (i < LENGTH ? 5 : 0);
  atvi_canvas *c = atvi_report_canvas_new(pool, 300, 200);
  atvi_box box = {0, 0, 300, 200};
  atvi_frame f = atvi_report_panel_trace(c, box, "a", CHAINS, LENGTH, x, 200);
  CHECK(f.up.high > 5 && f.across.high == LENGTH);
  f = atvi_report_panel_ranks(c, box, "a", CHAINS, LENGTH, x, work);
  CHECK(f.up.high > 3.9); /* the chain that is apart has all of the highest ranks: four times its share */
  for (int i = 0; i < 400; i++) w[i] = exp(atvi_math_rng_normal(&r)) / 660;
  w[7] = 0;
  f = atvi_report_panel_weights(c, box, 400, w, 0.4, most);
  CHECK(f.up.log && f.across.log);
  const atvi_progress step[] = {{"annealing", 0, 0.1, "", 20, 100, -12, 1, NAN, NAN, NAN, 0},
                                {"annealing", 0, 0.2, "", 40, 10, -40, 1, NAN, NAN, NAN, 0},
                                {"training", 0.5, 0.3, "", 100, 1, -97.9, 1, NAN, NAN, NAN, 0},
                                {"training", 0.9, 0.4, "", 150, 1, -97.2, 2, NAN, NAN, NAN, 0},
                                {"weighing", 0.9, 0.4, "", 150, NAN, NAN, NAN, 0.3, NAN, NAN, 0}};
  f = atvi_report_panel_elbo(c, box, 5, step, false, -97.1);
  CHECK(f.across.low < 100 && f.across.low > 90 && f.across.high > 150 && f.up.high > -97.1 &&
        f.up.low > -99);
  f = atvi_report_panel_elbo(c, box, 5, step, true, NAN); /* of the tempered ones alone */
  CHECK(f.across.high < 45 && f.up.low > -45 && f.up.high < 0);
  CHECK(atvi_report_step_has_elbo(&step[0], true) && !atvi_report_step_has_elbo(&step[0], false));
  CHECK(atvi_report_step_has_elbo(&step[3], false) && !atvi_report_step_has_elbo(&step[4], false));
  f = atvi_report_panel_temperature(c, box, 5, step);
  CHECK(f.across.low < 20 && f.across.high > 150 && f.up.high > 100);
  svg(c, pool);
  const double v[2] = {0.9, NAN}, e[2] = {0.5, 0.1};
  const char *const row[] = {"a<b", "b"};
  const char *s = svg(
      atvi_report_figure_dots(pool, &(atvi_dot_plot){.n_row = 2,
                                                     .row = row,
                                                     .n = 1,
                                                     .of = &(atvi_dots){.name = "m", .value = v, .error = e},
                                                     .title = "t",
                                                     .axis = "x",
                                                     .mark = 0.95,
                                                     .ends = {NAN, 1}}),
      pool);
  CHECK(strstr(s, "a&lt;b"));
  free(x), free(work);
  atvi_pool_free(pool);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

/* Two digits of the sd, the mean to the same place. */
static void means_have_no_more_digits_than_they_know(void) {
  static const struct {
    double mean, sd;
    const char *text;
  } of[] = {{0.88712, 0.0348, "0.887 \xc2\xb1 0.035"},
            {9353.2, 12106, "9000 \xc2\xb1 12000"},
            {0.00068712, 0.00008041, "0.000687 \xc2\xb1 0.000080"},
            {3.768e7, 2.258e6, "3.77e7 \xc2\xb1 2.3e6"}};
  double *x = malloc(N * sizeof *x), *work = malloc(atvi_report_marginal_work(N) * sizeof *work);
  atvi_marginal *m = malloc(sizeof *m);
  atvi_ctx *ctx = test_ctx();
  atvi_pool *pool;
  CHECK_OK(atvi_pool_new(ctx, &pool));
  for (size_t k = 0; k < sizeof of / sizeof *of; k++) {
    atvi_rng r = atvi_math_rng_at(7, 1, 0, 0);
    atvi_summary_column c = column("a", -HUGE_VAL, HUGE_VAL);
    for (int i = 0; i < N; i++) x[i] = of[k].mean + of[k].sd * atvi_math_rng_normal(&r);
    c.mean = of[k].mean, c.sd = of[k].sd;
    atvi_report_marginal_make(N, x, NULL, &c, 0, NULL, NULL, work, m);
    atvi_canvas *canvas = atvi_report_canvas_new(pool, 300, 170);
    atvi_report_panel_density(canvas, (atvi_box){0, 0, 300, 170}, m);
    CHECK_MSG(strstr(svg(canvas, pool), of[k].text) != NULL, "no '%s'", of[k].text);
  }
  atvi_pool_free(pool);
  atvi_ctx_free(ctx);
  free(x), free(work), free(m);
}

/* The simulator alone is part of the frame, and is thinned with the rest. */
static void the_simulator_alone_is_drawn(void) {
  enum { ROWS = 900 };
  atvi_ctx *ctx = test_ctx();
  atvi_pool *pool;
  CHECK_OK(atvi_pool_new(ctx, &pool));
  double *v = malloc(5 * ROWS * sizeof *v), *mean = v + ROWS, *alone = v + 2 * ROWS, *low = v + 3 * ROWS,
         *high = v + 4 * ROWS;
  for (int i = 0; i < ROWS; i++)
    v[i] = i, mean[i] = 2, alone[i] = 10 + 0.001 * i, low[i] = 9, high[i] = i == 450 ? 13 : 12;
  atvi_predicted s = points((columns){.name = "y",

                                      .n = ROWS,
                                      .time = v,
                                      .value = mean,
                                      .mean = mean,
                                      .alone = alone,
                                      .alone_low = low,
                                      .alone_high = high});
  const atvi_predicted *t = atvi_report_series_thin(pool, &s, 300);
  CHECK_INT(t->n, 300);
  CHECK_REL(t->point[100].of_alone.mean, 10 + 0.001 * 301, 1e-12); /* of rows 300, 301, 302 */
  CHECK(t->point[150].of_alone.hpd95[1] == 13 && t->point[7].of_alone.hpd95[0] == 9);
  atvi_canvas *c = atvi_report_canvas_new(pool, 420, 225);
  atvi_frame f = draw_series(c, pool, (atvi_box){0, 0, 420, 225}, t, (atvi_calendar){0}, "row");
  CHECK(f.up.high > 13);
  CHECK(strstr(svg(c, pool), "s-c3"));
  free(v);
  atvi_pool_free(pool);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

/* The frame holds all intervals, and what was missed has a colour of its own. */
static void runs_that_were_left_out(void) {
  atvi_ctx *ctx = test_ctx();
  atvi_pool *pool;
  CHECK_OK(atvi_pool_new(ctx, &pool));
  const double observed[4] = {1, 2, 3, NAN}, predicted[4] = {1.1, 2.05, 4, 1}, sd[4] = {0.2, 0.5, 0.1, 1};
  atvi_canvas *c = atvi_report_canvas_new(pool, 420, 370);
  atvi_box box = {0, 0, 420, 370};
  atvi_frame f = atvi_report_panel_left_out(c, box, 4, observed, predicted, sd);
  CHECK(f.up.low < 1.1 - 1.96 * 0.2 && f.up.high > 4 + 1.96 * 0.1 && f.across.low == f.up.low);
  const char *s = svg(c, pool);
  CHECK(strstr(s, "class=\"s-held") != NULL); /* the third */
  c = atvi_report_canvas_new(pool, 420, 370);
  f = atvi_report_panel_left_errors(c, box, 4, observed, predicted, sd);
  CHECK(f.up.low < -10 && f.up.high > 10 && f.across.low < 1.1 && f.across.high > 4);
  svg(c, pool);
  c = atvi_report_canvas_new(pool, 420, 370);
  atvi_report_panel_left_out(c, box, 2, observed, predicted, sd);
  CHECK(!strstr(svg(c, pool), "class=\"s-held"));
  atvi_pool_free(pool);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

static void lines_have_names(void) {
  atvi_ctx *ctx = test_ctx();
  atvi_pool *pool;
  CHECK_OK(atvi_pool_new(ctx, &pool));
  const double x[3] = {1, 2, 4}, a[3] = {0.2, NAN, 0.7}, b[3] = {0.1, 0.4, 0.3};
  const double *const value[] = {a, b};
  const char *const name[] = {"k<m",
                              "a name that is so long that the next one has to stand below it, really"};
  atvi_canvas *c = atvi_report_canvas_new(pool, 420, 225);
  atvi_box box = {0, 0, 420, 225};
  atvi_frame f =
      atvi_report_panel_lines(c, box, &(atvi_line_plot){"t", "hour", 3, x, 2, name, value, {0, 1}});
  CHECK(f.up.low == 0 && f.up.high == 1 && f.y > 30 + 2 * 16 - 1);
  CHECK(strstr(svg(c, pool), "k&lt;m"));
  f = atvi_report_panel_lines(c, box, &(atvi_line_plot){"t", "hour", 3, x, 1, NULL, value, {NAN, 1}});
  CHECK(f.up.low < 0.2 && f.up.low > 0.1 && f.up.high >= 1 && f.y == 30);
  atvi_report_panel_lines(c, box, &(atvi_line_plot){"t", "hour", 0, x, 0, NULL, value, {NAN, NAN}});
  svg(c, pool);
  atvi_pool_free(pool);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

TESTS({"means", means_have_no_more_digits_than_they_know}, {"alone", the_simulator_alone_is_drawn},
      {"left_out", runs_that_were_left_out}, {"lines", lines_have_names},
      {"bound", density_is_right_at_a_bound}, {"weights", density_follows_weights},
      {"flat", constant_and_broken_columns_are_flat}, {"contours", contours_hold_their_mass},
      {"contour_bounds", contours_reach_bounds}, {"thin", thinning_keeps_extremes},
      {"series", series_are_drawn_where_they_are}, {"odd", odd_series_are_drawn_too},
      {"arrays", arrays_have_one_scale}, {"log", logarithmic_scales}, {"ahead", what_is_ahead},
      {"single", a_single_value}, {"replicates", replicates}, {"made", made_and_compared})
