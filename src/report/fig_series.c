/* SPDX-License-Identifier: MIT */
/* Data with predictions, and residuals. */
#include "math/special.h"
#include "report/figure.h"
#include <math.h>
#include <stddef.h>
#include <string.h>

/* The simulator without its discrepancy. */
#define ATVI_INK_ALONE ((atvi_ink)(ATVI_INK_CHAIN + 2))

/* ---- thinning ---- */

static const atvi_band *band_at(const atvi_point *p, size_t band) {
  return (const atvi_band *)((const char *)p + band);
}

/* Means of the middle, outer ends. */
static atvi_band merge_bands(const atvi_predicted *s, atvi_idx from, atvi_idx to, size_t band) {
  atvi_band out = atvi_diag_point_at(0).of_mean;
  double n = 0, mean = 0, median = 0;
  for (atvi_idx i = from; i < to; i++) {
    const atvi_band *b = band_at(&s->point[i], band);
    if (!isnan(b->mean)) n++, mean += b->mean, median += b->median;
    out.hpd95[0] = fmin(out.hpd95[0], b->hpd95[0]); /* fmin and fmax leave out NaN */
    out.hpd95[1] = fmax(out.hpd95[1], b->hpd95[1]);
    out.quartile[0] = fmin(out.quartile[0], b->quartile[0]);
    out.quartile[1] = fmax(out.quartile[1], b->quartile[1]);
  }
  if (n > 0) out.mean = mean / n, out.median = median / n;
  return out;
}

/* Points from .. to-1 of s as one. Data are represented by the largest and the smallest in turn, to keep
 * outliers. */
static atvi_point merge(const atvi_predicted *s, atvi_idx from, atvi_idx to, bool largest) {
  const atvi_point *p = s->point;
  atvi_point out = atvi_diag_point_at(0.5 * (p[from].time + p[to - 1].time));
  out.of_mean = merge_bands(s, from, to, offsetof(atvi_point, of_mean));
  out.of_draw = merge_bands(s, from, to, offsetof(atvi_point, of_draw));
  out.of_alone = merge_bands(s, from, to, offsetof(atvi_point, of_alone));
  for (atvi_idx i = from; i < to; i++) {
    double v = p[i].value;
    if (isnan(v) || (!isnan(out.value) && (largest ? v <= out.value : v >= out.value))) continue;
    out.value = v;
    out.held = p[i].held;
    out.exact = p[i].exact;
  }
  return out;
}

const atvi_predicted *atvi_report_series_thin(atvi_pool *pool, const atvi_predicted *s, atvi_idx most) {
  if (s->n <= most) return s;
  atvi_predicted *out = atvi_pool_take(pool, 1, sizeof *out);
  atvi_point *point = atvi_pool_take(pool, (size_t)most, sizeof *point);
  if (!out || !point) return s;
  for (atvi_idx k = 0; k < most; k++) point[k] = merge(s, k * s->n / most, (k + 1) * s->n / most, k % 2 == 0);
  *out = *s;
  out->n = most;
  out->point = point;
  return out;
}

/* ---- data and bands ---- */

static void widen(double ends[2], double v) {
  if (!isfinite(v)) return;
  ends[0] = isnan(ends[0]) ? v : fmin(ends[0], v);
  ends[1] = isnan(ends[1]) ? v : fmax(ends[1], v);
}

/* The line and the bands that a view shows. */
typedef struct {
  /* offset of the line's double in a point */
  size_t line;
  /* offsets of pairs of doubles, outermost first */
  size_t band[2];
} shown;

#define PART(band, part) (offsetof(atvi_point, band) + offsetof(atvi_band, part))
static shown shown_of(const atvi_predicted *s, bool middle) {
  if (!middle) return (shown){PART(of_mean, mean), {PART(of_draw, hpd95), PART(of_mean, hpd95)}};
  return s->kind == ATVI_SERIES_OBSERVED
             ? (shown){PART(of_mean, median), {PART(of_draw, hpd95), PART(of_draw, quartile)}}
             : (shown){PART(of_mean, median), {PART(of_mean, hpd95), PART(of_mean, quartile)}};
}

static double number_at(const atvi_point *p, size_t at) {
  double v;
  memcpy(&v, (const char *)p + at, sizeof v);
  return v;
}

/* What must be visible entirely, and how far bands reach. */
typedef struct {
  double core[2], all[2];
} extent;

/* least: values at or below this are left out. */
static extent extent_of(const atvi_predicted *s, bool middle, double least) {
  extent e = {{NAN, NAN}, {NAN, NAN}};
  const shown of = shown_of(s, middle);
  for (atvi_idx i = 0; i < s->n; i++) {
    const atvi_point *p = &s->point[i];
    const double core[] = {p->value, number_at(p, of.line), p->of_alone.mean,
                           middle ? number_at(p, of.band[1]) : NAN,
                           middle ? number_at(p, of.band[1] + sizeof(double)) : NAN};
    for (int k = 0; k < 5; k++)
      if (core[k] > least) widen(e.core, core[k]);
    for (int k = 0; k < 2; k++) {
      size_t at = (size_t)k * sizeof(double);
      widen(e.all, number_at(p, of.band[0] + at));
      widen(e.all, number_at(p, of.band[1] + at));
      widen(e.all, p->of_alone.hpd95[k]);
    }
  }
  if (isnan(e.all[0])) memcpy(e.all, e.core, sizeof e.all);
  if (isnan(e.core[0])) memcpy(e.core, e.all, sizeof e.core);
  return e;
}

/* All data and means; bands up to ROOM times that width: a band far beyond would squeeze the rest, and is
 * cut. */
static atvi_scale height_of(atvi_idx n, const atvi_predicted *const *s, bool middle) {
  static const double ROOM = 1.2;
  double ends[2] = {NAN, NAN};
  for (atvi_idx k = 0; k < n; k++) {
    extent e = extent_of(s[k], middle, -HUGE_VAL);
    /* Without data, or with one value, the band matters most. */
    bool whole = s[k]->kind != ATVI_SERIES_OBSERVED || s[k]->n < 2;
    double room = whole ? HUGE_VAL : ROOM * (e.core[1] - e.core[0]);
    widen(ends, fmin(e.core[0], fmax(e.all[0], e.core[0] - room)));
    widen(ends, fmax(e.core[1], fmin(e.all[1], e.core[1] + room)));
  }
  if (ends[0] >= 0 && ends[0] < 0.5 * ends[1]) ends[0] = 0;
  atvi_scale scale = atvi_report_scale_of(ends[0], ends[1], ends[0] == 0 ? 0 : 0.04);
  if (ends[0] == 0) scale.high += 0.05 * (scale.high - scale.low);
  return scale;
}

/* ---- logarithmic scales ---- */

static const double LOG_ROOM = 10, /* factor by which bands may exceed data and lines before they are cut */
    LOG_DEEP = 100,                /* factor by which lines may go below the data */
    LOG_SPAN = 1e6;                /* factor by which they may go below the largest, without data */

/* Neither lines nor data below zero, and at least half of the data above it. */
static bool may_be_log(const atvi_predicted *s, bool middle) {
  size_t line = shown_of(s, middle).line;
  atvi_idx n = 0, above = 0, points = 0;
  for (atvi_idx i = 0; i < s->n; i++) {
    const atvi_point *p = &s->point[i];
    double on_line = number_at(p, line);
    if (on_line < 0 || p->value < 0 || p->of_alone.mean < 0) return false;
    points += on_line > 0 || p->value > 0;
    n += !isnan(p->value);
    above += p->value > 0;
  }
  return points > 1 && 2 * above >= n;
}

static atvi_scale log_height_of(atvi_idx n, const atvi_predicted *const *s, bool middle) {
  double ends[2] = {NAN, NAN};
  for (atvi_idx k = 0; k < n; k++) {
    double least = NAN, most = extent_of(s[k], middle, 0).core[1];
    for (atvi_idx i = 0; i < s[k]->n; i++)
      if (s[k]->point[i].value > 0) least = fmin(least, s[k]->point[i].value);
    extent e = extent_of(s[k], middle, isnan(least) ? most / LOG_SPAN : least / LOG_DEEP);
    widen(ends, fmin(e.core[0], fmax(e.all[0], e.core[0] / LOG_ROOM)));
    widen(ends, fmax(e.core[1], fmin(e.all[1], e.core[1] * LOG_ROOM)));
  }
  double pad = ends[1] > ends[0] ? pow(ends[1] / ends[0], 0.04) : 2;
  return (atvi_scale){.low = ends[0] / pad, .high = ends[1] * pad, .log = true};
}

atvi_idx atvi_report_series_below(const atvi_predicted *s, const atvi_series_view *v, bool *cut) {
  const shown of = shown_of(s, v->middle);
  atvi_idx n = 0;
  for (atvi_idx i = 0; i < s->n; i++) {
    n += s->point[i].value <= 0;
    *cut = *cut || number_at(&s->point[i], of.band[0]) < v->log_up.low;
  }
  return n;
}

/* ---- views ---- */

static atvi_series_view view_of(atvi_idx n, const atvi_predicted *const *s, atvi_calendar calendar,
                                const char *time_name, bool middle) {
  atvi_series_view v = {.time_name = time_name, .middle = middle, .end = NAN, .has_log = n > 0};
  double ends[2] = {NAN, NAN};
  for (atvi_idx k = 0; k < n; k++) {
    if (s[k]->n > 0) widen(ends, s[k]->point[0].time), widen(ends, s[k]->point[s[k]->n - 1].time);
    v.has_log = v.has_log && may_be_log(s[k], middle);
  }
  v.across = isnan(ends[0]) ? atvi_report_scale_of(0, 1, 0) : atvi_report_scale_of(ends[0], ends[1], 0.02);
  if (n > 0 && !s[0]->rows) v.across.calendar = calendar;
  v.up = height_of(n, s, middle);
  if (v.has_log) v.log_up = log_height_of(n, s, middle);
  return v;
}

size_t atvi_report_unit_name(const atvi_predicted *s) {
  const char *label = s->unit ? strchr(s->unit, ' ') : NULL;
  size_t n = strlen(s->name);
  return label && n > strlen(label) ? n - strlen(label) : 0; /* a dot instead of the blank */
}

bool atvi_report_same_kind(const atvi_predicted *a, const atvi_predicted *b) {
  size_t unit = atvi_report_unit_name(a), n = unit ? unit : atvi_report_array_name(a->name);
  return n && (unit ? atvi_report_unit_name(b) : atvi_report_array_name(b->name)) == n &&
         memcmp(a->name, b->name, n) == 0 && a->kind == b->kind && a->rows == b->rows;
}

static double end_of_data(const atvi_predicted *s) {
  double end = NAN;
  for (atvi_idx i = 0; i < s->n; i++)
    if (!isnan(s->point[i].value)) end = fmax(s->point[i].time, end);
  return s->n > 0 && end < s->point[s->n - 1].time ? end : NAN;
}

atvi_series_view *atvi_report_series_views(atvi_pool *pool, atvi_idx n, const atvi_predicted *const *s,
                                           atvi_calendar calendar, const char *time_name, bool middle) {
  atvi_series_view *view = atvi_pool_take(pool, (size_t)n + 1, sizeof *view);
  const atvi_predicted **like = atvi_pool_take(pool, (size_t)n + 1, sizeof *like);
  bool *done = atvi_pool_take(pool, (size_t)n + 1, sizeof *done);
  for (atvi_idx k = 0; view && like && done && k < n; k++) {
    atvi_idx m = 1;
    if (done[k]) continue;
    like[0] = s[k];
    for (atvi_idx i = k + 1; i < n; i++)
      if (atvi_report_same_kind(s[k], s[i])) like[m++] = s[i];
    view[k] = view_of(m, like, calendar, time_name, middle);
    for (atvi_idx i = k + 1; i < n; i++)
      if (atvi_report_same_kind(s[k], s[i])) view[i] = view[k], done[i] = true;
  }
  for (atvi_idx i = 0; view && middle && i < n; i++) view[i].end = end_of_data(s[i]);
  return like && done ? view : NULL;
}

/* Observed values, whatever was predicted between them. */
static atvi_idx n_given(const atvi_predicted *s) {
  atvi_idx n = 0;
  for (atvi_idx i = 0; i < s->n; i++) n += !s->point[i].grid;
  return n;
}

/* Dots at y[n] of the points that `held` and `censored` pick. */
static void plot_some(atvi_canvas *c, const atvi_frame *f, const atvi_predicted *s, size_t y, bool held,
                      bool censored, atvi_ink ink) {
  atvi_idx n = n_given(s);
  double radius = (n > 400 ? 1.3 : n > 120 ? 1.8 : 2.6) + (held && n > 120);
  for (atvi_idx i = 0; i < s->n;) {
    double px[128], py[128];
    atvi_idx m = 0;
    for (; i < s->n && m < 128; i++) {
      const atvi_point *p = &s->point[i];
      double v = number_at(p, y);
      if (isfinite(v) && p->held == held && (!p->exact && !isnan(p->value)) == censored)
        px[m] = p->time, py[m++] = v;
    }
    atvi_report_plot_dots(c, f, m, px, py, radius,
                          (atvi_style){.stroke = ink, .opacity = censored ? 0.5 : 0});
  }
}

/* A band is invisible at a single time: draws a bar of that width instead, with a line at the middle. */
static void plot_bar(atvi_canvas *c, const atvi_frame *f, double time, double width, const atvi_band *b,
                     double middle, atvi_style style) {
  double x = atvi_report_frame_x(f, time) - 0.5 * width;
  if (isfinite(b->hpd95[0]) && isfinite(b->hpd95[1])) {
    double top = atvi_report_frame_y(f, b->hpd95[1]);
    atvi_report_draw_rect(c, x, top, width, atvi_report_frame_y(f, b->hpd95[0]) - top, style);
  }
  if (!isfinite(middle)) return;
  double y = atvi_report_frame_y(f, middle);
  atvi_report_draw_line(c, x, y, x + width, y, (atvi_style){.stroke = style.fill, .width = 1.6});
}

/* ends: offset of two doubles in a point. On a logarithmic scale, bands that reach zero end at the bottom. */
static void plot_band(atvi_canvas *c, const atvi_frame *f, const atvi_predicted *s, size_t ends,
                      atvi_style style) {
  bool some = false;
  double *time = atvi_diag_predicted_column(c->pool, s, offsetof(atvi_point, time)),
         *low = atvi_diag_predicted_column(c->pool, s, ends),
         *high = atvi_diag_predicted_column(c->pool, s, ends + sizeof(double));
  if (!time || !low || !high) return;
  for (atvi_idx i = 0; i < s->n; i++) {
    some = some || !isnan(low[i]);
    if (f->up.log && low[i] < f->up.low) low[i] = f->up.low;
    if (f->up.log && high[i] < f->up.low) high[i] = f->up.low;
  }
  if (some) atvi_report_plot_band(c, f, s->n, time, low, high, style);
}

static void plot_line(atvi_canvas *c, const atvi_frame *f, const atvi_predicted *s, size_t at, atvi_ink ink) {
  bool some = false;
  double *time = atvi_diag_predicted_column(c->pool, s, offsetof(atvi_point, time)),
         *value = atvi_diag_predicted_column(c->pool, s, at);
  for (atvi_idx i = 0; time && value && i < s->n; i++) some = some || !isnan(value[i]);
  if (some) atvi_report_plot_line(c, f, s->n, time, value, (atvi_style){.stroke = ink, .width = 1.6});
}

static const atvi_style OUTER = {.fill = ATVI_INK_MAIN, .opacity = 0.18},
                        INNER = {.fill = ATVI_INK_MAIN, .opacity = 0.35},
                        ALONE = {.fill = ATVI_INK_ALONE, .opacity = 0.25};

/* One value, or replicates. */
static bool at_one_time(const atvi_predicted *s) {
  for (atvi_idx i = 1; i < s->n; i++)
    if (s->point[i].time != s->point[0].time) return false;
  return s->n > 0;
}

static void plot_bands(atvi_canvas *c, const atvi_frame *f, const atvi_predicted *s,
                       const atvi_series_view *v) {
  const shown of = shown_of(s, v->middle);
  if (!c) return;
  bool once = at_one_time(s);
  if (once || v->label) {
    atvi_idx n = once ? 1 : s->n; /* replicates have the same bands */
    double width = fmin(56, 0.7 * f->width / (double)n);
    for (const atvi_point *p = s->point; p < s->point + n; p++) {
      plot_bar(c, f, p->time, width, &p->of_draw, NAN, OUTER);
      plot_bar(c, f, p->time, width * 5 / 7, &p->of_mean, p->of_mean.mean, INNER);
      plot_bar(c, f, p->time, width * 5 / 14, &p->of_alone, p->of_alone.mean, ALONE);
    }
    return;
  }
  plot_band(c, f, s, of.band[0], OUTER);
  plot_band(c, f, s, of.band[1], INNER);
  plot_band(c, f, s, PART(of_alone, hpd95), ALONE);
  plot_line(c, f, s, PART(of_alone, mean), ATVI_INK_ALONE);
  plot_line(c, f, s, of.line, ATVI_INK_MAIN);
}

static const atvi_style END_OF_DATA = {.stroke = ATVI_INK_MUTED, .dash = true};

/* Times are row numbers, or nothing has said what they are. */
static bool is_timeless(const atvi_predicted *s, const atvi_series_view *v) {
  return s->rows || (!v->time_name && !(v->across.calendar.unit > 0));
}

static bool has_no_axis(const atvi_predicted *s, const atvi_series_view *v) {
  return v->label || (is_timeless(s, v) && at_one_time(s));
}

/* What is written under the axis. */
static const char *under(const atvi_predicted *s, const atvi_series_view *v) {
  return has_no_axis(s, v) ? NULL : is_timeless(s, v) ? "row" : v->time_name;
}

atvi_frame atvi_report_panel_series(atvi_canvas *c, atvi_box box, const atvi_predicted *s,
                                    const atvi_series_view *v, bool log) {
  const char *x = under(s, v);
  atvi_frame f = atvi_report_panel_frame(box, v->across, log ? v->log_up : v->up, x != NULL, 0);
  atvi_report_frame_draw(c, &f, &(atvi_frame_opts){.title = s->name, .x = x, .no_x = has_no_axis(s, v)});
  if (v->label) atvi_report_frame_names(c, &f, s->point[0].time, s->n, v->label);
  atvi_report_draw_clip(c, f.x - 4, f.y - 4, f.width + 8, f.height + 8); /* dots on the edge are not cut */
  atvi_report_draw_group(c, "zoom");
  plot_bands(c, &f, s, v);
  plot_some(c, &f, s, offsetof(atvi_point, value), false, true, ATVI_INK_DATA);
  plot_some(c, &f, s, offsetof(atvi_point, value), false, false, ATVI_INK_DATA);
  plot_some(c, &f, s, offsetof(atvi_point, value), true, false, ATVI_INK_HELD);
  double end = atvi_report_frame_x(&f, v->end);
  if (isfinite(end)) atvi_report_draw_line(c, end, f.y, end, f.y + f.height, END_OF_DATA);
  atvi_report_draw_end(c);
  atvi_report_draw_end(c);
  return f;
}

/* ---- legend ---- */

double atvi_report_series_legend(atvi_canvas *c, double width, bool held) {
  static const double LEFT = 16, SWATCH = 18, AFTER = 6, APART = 18, LINE = 18;
  const struct {
    const char *name;
    atvi_style style;
    double dot;
    bool wanted;
  } item[] = {{"data", {.stroke = ATVI_INK_DATA}, 2.6, true},
              {"data held out", {.stroke = ATVI_INK_HELD}, 2.6, held},
              {"median", {.stroke = ATVI_INK_MAIN, .width = 1.6}, 0, true},
              {"50 % of observations", INNER, 0, true},
              {"95 % of observations", OUTER, 0, true},
              {"end of the data", END_OF_DATA, 0, true}};
  double x = LEFT, y = LINE;
  for (size_t k = 0; k < sizeof item / sizeof *item; k++) {
    double room = SWATCH + AFTER + 1.1 * atvi_report_text_width(item[k].name, ATVI_FONT_SIZE, false);
    double middle = x + SWATCH / 2, level = y - 4;
    if (!item[k].wanted) continue;
    if (x > LEFT && x + room > width) x = LEFT, y += LINE, middle = x + SWATCH / 2, level = y - 4;
    if (item[k].dot > 0)
      atvi_report_draw_dots(c, 1, &middle, &level, item[k].dot, item[k].style);
    else if (item[k].style.fill)
      atvi_report_draw_rect(c, x, level - 5, SWATCH, 10, item[k].style);
    else
      atvi_report_draw_line(c, x, level, x + SWATCH, level, item[k].style);
    atvi_report_draw_text(c, x + SWATCH + AFTER, y, (atvi_label){.ink = ATVI_INK_MUTED}, item[k].name);
    x += room + APART;
  }
  return y + 8;
}

/* ---- residuals ---- */

atvi_frame atvi_report_panel_residuals(atvi_canvas *c, atvi_box box, const atvi_predicted *s,
                                       const atvi_series_view *v) {
  double most = 3;
  const char *x = under(s, v);
  for (atvi_idx i = 0; i < s->n; i++)
    if (isfinite(s->point[i].residual)) most = fmax(most, fabs(s->point[i].residual));
  atvi_frame f = atvi_report_panel_frame(box, v->across, atvi_report_scale_of(-1.05 * most, 1.05 * most, 0),
                                         x != NULL, 0);
  atvi_report_frame_draw(
      c, &f, &(atvi_frame_opts){.title = s->name, .x = x, .no_x = has_no_axis(s, v), .ticks_y = 5});
  if (v->label) atvi_report_frame_names(c, &f, s->point[0].time, s->n, v->label);
  for (int k = -2; k <= 2; k += 2) {
    double y = atvi_report_frame_y(&f, k);
    atvi_report_draw_line(c, f.x, y, f.x + f.width, y,
                          (atvi_style){.stroke = ATVI_INK_MUTED, .dash = k != 0});
  }
  bool stalks = n_given(s) <= 150;
  for (atvi_idx i = 0; stalks && i < s->n; i++) {
    double px = atvi_report_frame_x(&f, s->point[i].time);
    if (isfinite(s->point[i].residual))
      atvi_report_draw_line(c, px, atvi_report_frame_y(&f, 0), px,
                            atvi_report_frame_y(&f, s->point[i].residual),
                            (atvi_style){.stroke = ATVI_INK_MAIN, .opacity = 0.5});
  }
  plot_some(c, &f, s, offsetof(atvi_point, residual), false, false, ATVI_INK_MAIN);
  plot_some(c, &f, s, offsetof(atvi_point, residual), true, false, ATVI_INK_HELD);
  return f;
}

/* ---- probability integral transform ---- */

atvi_pit atvi_report_pit_of(atvi_idx n, const atvi_predicted *series) {
  atvi_pit p = {0};
  for (atvi_idx s = 0; s < n; s++)
    for (atvi_idx i = 0; i < series[s].n; i++) {
      double u = series[s].point[i].pit;
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

atvi_frame atvi_report_panel_pit(atvi_canvas *c, atvi_box box, const atvi_pit *p) {
  double most = p->high;
  for (int k = 0; k < ATVI_PIT_BINS; k++) most = fmax(most, (double)p->count[k]);
  atvi_frame f = atvi_report_panel_frame(box, (atvi_scale){.low = 0, .high = 1},
                                         atvi_report_scale_of(0, 1.08 * most, 0), true, 0);
  atvi_report_frame_draw(c, &f,
                         &(atvi_frame_opts){.title = "Where observations fall in their predictions",
                                            .x = "probability of a smaller value",
                                            .ticks_x = 5});
  double high = atvi_report_frame_y(&f, p->high), low = atvi_report_frame_y(&f, p->low);
  double mean = atvi_report_frame_y(&f, (double)p->n / ATVI_PIT_BINS);
  atvi_report_draw_rect(c, f.x, high, f.width, low - high,
                        (atvi_style){.fill = ATVI_INK_PRIOR, .opacity = 0.25});
  for (int k = 0; k < ATVI_PIT_BINS; k++) {
    double x = atvi_report_frame_x(&f, (double)k / ATVI_PIT_BINS),
           y = atvi_report_frame_y(&f, (double)p->count[k]);
    atvi_report_draw_rect(c, x + 5, y, f.width / ATVI_PIT_BINS - 10, f.y + f.height - y,
                          (atvi_style){.fill = ATVI_INK_MAIN, .opacity = 0.75});
  }
  atvi_report_draw_line(c, f.x, mean, f.x + f.width, mean,
                        (atvi_style){.stroke = ATVI_INK_TEXT, .dash = true});
  return f;
}
