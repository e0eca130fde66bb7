/* SPDX-License-Identifier: MIT */
/* Data with predictions, and what is left between them. */
#include "math/special.h"
#include "report/figure.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The simulator without its discrepancy. */
#define ATVI_INK_ALONE ((atvi_ink)(ATVI_INK_CHAIN + 2))

static double at(const double *x, atvi_idx i) { return x ? x[i] : NAN; }

/* ---- thinning ---- */

typedef struct {
  double *time, *value, *mean, *mean_low, *mean_high, *low, *high, *alone, *alone_low, *alone_high;
  bool *held, *censored;
} rows;

static bool rows_new(atvi_pool *pool, atvi_idx n, rows *r) {
  double **field[] = {&r->time, &r->value, &r->mean,  &r->mean_low,  &r->mean_high,
                      &r->low,  &r->high,  &r->alone, &r->alone_low, &r->alone_high};
  for (size_t i = 0; i < sizeof field / sizeof *field; i++)
    *field[i] = atvi_pool_take(pool, (size_t)n, sizeof(double));
  r->held = atvi_pool_take(pool, (size_t)n, sizeof *r->held);
  r->censored = atvi_pool_take(pool, (size_t)n, sizeof *r->censored);
  return !atvi_pool_failed(pool);
}

/* Rows from .. to-1 of s as one. Of the data it keeps the largest and the smallest in turn: outliers stay. */
static void merge(const atvi_report_series *s, atvi_idx from, atvi_idx to, bool largest, const rows *r,
                  atvi_idx k) {
  double n = 0, sum = 0, alone = 0;
  r->time[k] = 0.5 * (s->time[from] + s->time[to - 1]);
  r->value[k] = r->mean_low[k] = r->mean_high[k] = r->low[k] = r->high[k] = NAN;
  r->alone_low[k] = r->alone_high[k] = NAN;
  for (atvi_idx i = from; i < to; i++) {
    double v = at(s->value, i);
    if (!isnan(at(s->mean, i))) n++, sum += s->mean[i], alone += at(s->alone, i);
    r->mean_low[k] = fmin(r->mean_low[k], at(s->mean_low, i)); /* fmin leaves out NaN */
    r->mean_high[k] = fmax(r->mean_high[k], at(s->mean_high, i));
    r->low[k] = fmin(r->low[k], at(s->low, i));
    r->high[k] = fmax(r->high[k], at(s->high, i));
    r->alone_low[k] = fmin(r->alone_low[k], at(s->alone_low, i));
    r->alone_high[k] = fmax(r->alone_high[k], at(s->alone_high, i));
    if (isnan(v) || (!isnan(r->value[k]) && (largest ? v <= r->value[k] : v >= r->value[k]))) continue;
    r->value[k] = v;
    r->held[k] = s->held && s->held[i];
    r->censored[k] = s->censored && s->censored[i];
  }
  r->mean[k] = n > 0 ? sum / n : NAN;
  r->alone[k] = n > 0 ? alone / n : NAN;
}

const atvi_report_series *atvi_series_thin(atvi_pool *pool, const atvi_report_series *s, atvi_idx most) {
  if (s->n <= most) return s;
  rows r;
  atvi_report_series *out = atvi_pool_take(pool, 1, sizeof *out);
  if (!out || !rows_new(pool, most, &r)) return s;
  for (atvi_idx k = 0; k < most; k++) merge(s, k * s->n / most, (k + 1) * s->n / most, k % 2 == 0, &r, k);
  *out = (atvi_report_series){.name = s->name,
                              .kind = s->kind,
                              .n = most,
                              .rows = s->rows,
                              .time = r.time,
                              .value = s->value ? r.value : NULL,
                              .held = s->held ? r.held : NULL,
                              .censored = s->censored ? r.censored : NULL,
                              .mean = s->mean ? r.mean : NULL,
                              .mean_low = s->mean_low ? r.mean_low : NULL,
                              .mean_high = s->mean_high ? r.mean_high : NULL,
                              .low = s->low ? r.low : NULL,
                              .high = s->high ? r.high : NULL,
                              .alone = s->alone ? r.alone : NULL,
                              .alone_low = s->alone_low ? r.alone_low : NULL,
                              .alone_high = s->alone_high ? r.alone_high : NULL};
  return out;
}

/* ---- data and bands ---- */

static void widen(double ends[2], double v) {
  if (!isfinite(v)) return;
  ends[0] = isnan(ends[0]) ? v : fmin(ends[0], v);
  ends[1] = isnan(ends[1]) ? v : fmax(ends[1], v);
}

/* All data and means; bands as far as they are no more than ROOM times as wide: a band that goes far beyond would hide what
 * there is to see, and is cut. */
static atvi_scale height_of(const atvi_report_series *s) {
  /* Without data, or with one value, the band is what there is to see. */
  const double ROOM = s->value && s->n > 1 ? 1.2 : HUGE_VAL;
  double core[2] = {NAN, NAN}, all[2] = {NAN, NAN};
  for (atvi_idx i = 0; i < s->n; i++) {
    widen(core, at(s->value, i));
    widen(core, at(s->mean, i));
    widen(core, at(s->alone, i));
    widen(all, at(s->low, i));
    widen(all, at(s->high, i));
    widen(all, at(s->mean_low, i));
    widen(all, at(s->mean_high, i));
    widen(all, at(s->alone_low, i));
    widen(all, at(s->alone_high, i));
  }
  if (isnan(all[0])) all[0] = core[0], all[1] = core[1];
  if (isnan(core[0])) core[0] = all[0], core[1] = all[1];
  double room = isfinite(ROOM) ? ROOM * (core[1] - core[0]) : HUGE_VAL;
  double low = fmin(core[0], fmax(all[0], core[0] - room)),
         high = fmax(core[1], fmin(all[1], core[1] + room));
  if (low >= 0 && low < 0.5 * high) low = 0;
  atvi_scale scale = atvi_scale_of(low, high, low == 0 ? 0 : 0.04);
  if (low == 0) scale.high += 0.05 * (scale.high - scale.low);
  return scale;
}

static atvi_scale time_of(const atvi_report_series *s, atvi_calendar calendar) {
  atvi_scale across = s->n > 0 ? atvi_scale_of(s->time[0], s->time[s->n - 1], 0.02) : atvi_scale_of(0, 1, 0);
  if (!s->rows) across.calendar = calendar;
  return across;
}

/* Dots of the rows that `held` and `censored` pick. */
static void plot_some(atvi_canvas *c, const atvi_frame *f, const atvi_report_series *s, const double *y,
                      bool held, bool censored, atvi_ink ink) {
  double radius = (s->n > 400 ? 1.3 : s->n > 120 ? 1.8 : 2.6) + (held && s->n > 120);
  for (atvi_idx i = 0; i < s->n;) {
    double px[128], py[128];
    atvi_idx m = 0;
    for (; i < s->n && m < 128; i++)
      if (isfinite(y[i]) && (s->held && s->held[i]) == held && (s->censored && s->censored[i]) == censored)
        px[m] = s->time[i], py[m++] = y[i];
    atvi_plot_dots(c, f, m, px, py, radius, (atvi_style){.stroke = ink, .opacity = censored ? 0.5 : 0});
  }
}

/* A band is nothing to see at a single time: a bar in its place, so many units wide, with a line at the middle. */
static void plot_bar(atvi_canvas *c, const atvi_frame *f, const atvi_report_series *s, double width,
                     const double *low, const double *high, const double *middle, atvi_style band) {
  double x = atvi_frame_x(f, s->time[0]) - 0.5 * width;
  if (isfinite(at(low, 0)) && isfinite(at(high, 0))) {
    double top = atvi_frame_y(f, high[0]);
    atvi_draw_rect(c, x, top, width, atvi_frame_y(f, low[0]) - top, band);
  }
  if (!isfinite(at(middle, 0))) return;
  double y = atvi_frame_y(f, middle[0]);
  atvi_draw_line(c, x, y, x + width, y, (atvi_style){.stroke = band.fill, .width = 1.6});
}

static void plot_bands(atvi_canvas *c, const atvi_frame *f, const atvi_report_series *s) {
  const atvi_style observed = {.fill = ATVI_INK_MAIN, .opacity = 0.18},
                   mean = {.fill = ATVI_INK_MAIN, .opacity = 0.35},
                   alone = {.fill = ATVI_INK_ALONE, .opacity = 0.25};
  if (s->n == 1) {
    plot_bar(c, f, s, 56, s->low, s->high, NULL, observed);
    plot_bar(c, f, s, 40, s->mean_low, s->mean_high, s->mean, mean);
    plot_bar(c, f, s, 20, s->alone_low, s->alone_high, s->alone, alone);
    return;
  }
  if (s->low && s->high) atvi_plot_band(c, f, s->n, s->time, s->low, s->high, observed);
  if (s->mean_low && s->mean_high) atvi_plot_band(c, f, s->n, s->time, s->mean_low, s->mean_high, mean);
  if (s->alone_low && s->alone_high) atvi_plot_band(c, f, s->n, s->time, s->alone_low, s->alone_high, alone);
  if (s->alone)
    atvi_plot_line(c, f, s->n, s->time, s->alone, (atvi_style){.stroke = ATVI_INK_ALONE, .width = 1.6});
  if (s->mean)
    atvi_plot_line(c, f, s->n, s->time, s->mean, (atvi_style){.stroke = ATVI_INK_MAIN, .width = 1.6});
}

static bool has_no_axis(const atvi_report_series *s) { return s->rows && s->n == 1; }

/* What is written under the axis. */
static const char *under(const atvi_report_series *s, const char *time_name) {
  return has_no_axis(s) ? NULL : s->rows ? "row" : time_name;
}

atvi_frame atvi_panel_series(atvi_canvas *c, atvi_box box, const atvi_report_series *s,
                             atvi_calendar calendar, const char *time_name) {
  const char *x = under(s, time_name);
  atvi_frame f = atvi_panel_frame(box, time_of(s, calendar), height_of(s), x != NULL, 0);
  atvi_frame_draw(c, &f, &(atvi_frame_opts){.title = s->name, .x = x, .no_x = has_no_axis(s)});
  atvi_draw_clip(c, f.x - 4, f.y - 4, f.width + 8, f.height + 8); /* dots on the edge are whole */
  atvi_draw_group(c, "zoom");
  plot_bands(c, &f, s);
  if (s->value) {
    plot_some(c, &f, s, s->value, false, true, ATVI_INK_DATA);
    plot_some(c, &f, s, s->value, false, false, ATVI_INK_DATA);
    plot_some(c, &f, s, s->value, true, false, ATVI_INK_HELD);
  }
  atvi_draw_end(c);
  atvi_draw_end(c);
  return f;
}

/* ---- residuals ---- */

atvi_frame atvi_panel_residuals(atvi_canvas *c, atvi_box box, const atvi_report_series *s,
                                atvi_calendar calendar, const char *time_name) {
  double most = 3;
  const char *x = under(s, time_name);
  for (atvi_idx i = 0; i < s->n; i++)
    if (isfinite(at(s->residual, i))) most = fmax(most, fabs(s->residual[i]));
  atvi_frame f =
      atvi_panel_frame(box, time_of(s, calendar), atvi_scale_of(-1.05 * most, 1.05 * most, 0), x != NULL, 0);
  atvi_frame_draw(c, &f, &(atvi_frame_opts){.title = s->name, .x = x, .no_x = has_no_axis(s), .ticks_y = 5});
  for (int k = -2; k <= 2; k += 2) {
    double y = atvi_frame_y(&f, k);
    atvi_draw_line(c, f.x, y, f.x + f.width, y, (atvi_style){.stroke = ATVI_INK_MUTED, .dash = k != 0});
  }
  for (atvi_idx i = 0; s->residual && i < s->n; i++) {
    double px = atvi_frame_x(&f, s->time[i]);
    if (isfinite(s->residual[i]) && s->n <= 150)
      atvi_draw_line(c, px, atvi_frame_y(&f, 0), px, atvi_frame_y(&f, s->residual[i]),
                     (atvi_style){.stroke = ATVI_INK_MAIN, .opacity = 0.5});
  }
  if (s->residual) {
    plot_some(c, &f, s, s->residual, false, false, ATVI_INK_MAIN);
    plot_some(c, &f, s, s->residual, true, false, ATVI_INK_HELD);
  }
  return f;
}

/* ---- probability integral transform ---- */

atvi_pit atvi_pit_of(atvi_idx n, const atvi_report_series *series) {
  atvi_pit p = {0};
  for (atvi_idx s = 0; s < n; s++)
    for (atvi_idx i = 0; series[s].pit && i < series[s].n; i++) {
      double u = series[s].pit[i];
      if (!(u >= 0 && u <= 1)) continue;
      int k = (int)(u * ATVI_PIT_BINS);
      p.count[k < ATVI_PIT_BINS ? k : ATVI_PIT_BINS - 1]++;
      p.n++;
    }
  double share = 1.0 / ATVI_PIT_BINS, mean = share * (double)p.n, z = 1.96 * sqrt(mean * (1 - share));
  p.low = fmax(0, mean - z);
  p.high = mean + z;
  return p;
}

atvi_frame atvi_panel_pit(atvi_canvas *c, atvi_box box, const atvi_pit *p) {
  double most = p->high;
  for (int k = 0; k < ATVI_PIT_BINS; k++) most = fmax(most, (double)p->count[k]);
  atvi_frame f =
      atvi_panel_frame(box, (atvi_scale){.low = 0, .high = 1}, atvi_scale_of(0, 1.08 * most, 0), true, 0);
  atvi_frame_draw(c, &f,
                  &(atvi_frame_opts){.title = "Where observations fall in their predictions",
                                     .x = "probability of a smaller value",
                                     .ticks_x = 5});
  double high = atvi_frame_y(&f, p->high), low = atvi_frame_y(&f, p->low);
  double mean = atvi_frame_y(&f, (double)p->n / ATVI_PIT_BINS);
  atvi_draw_rect(c, f.x, high, f.width, low - high, (atvi_style){.fill = ATVI_INK_PRIOR, .opacity = 0.25});
  for (int k = 0; k < ATVI_PIT_BINS; k++) {
    double x = atvi_frame_x(&f, (double)k / ATVI_PIT_BINS), y = atvi_frame_y(&f, (double)p->count[k]);
    atvi_draw_rect(c, x + 5, y, f.width / ATVI_PIT_BINS - 10, f.y + f.height - y,
                   (atvi_style){.fill = ATVI_INK_MAIN, .opacity = 0.75});
  }
  atvi_draw_line(c, f.x, mean, f.x + f.width, mean, (atvi_style){.stroke = ATVI_INK_TEXT, .dash = true});
  return f;
}
