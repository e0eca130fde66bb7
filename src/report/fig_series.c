/* SPDX-License-Identifier: MIT */
/* Data with predictions, and what is left between them. */
#include "math/special.h"
#include "report/figure.h"
#include "report/list.h"
#include <math.h>
#include <stddef.h>
#include <string.h>

/* The simulator without its discrepancy. */
#define ATVI_INK_ALONE ((atvi_ink)(ATVI_INK_CHAIN + 2))

/* ---- thinning ---- */

/* Points from .. to-1 of s as one. Of the data it keeps the largest and the smallest in turn: outliers stay. */
static atvi_point merge(const atvi_predicted *s, atvi_idx from, atvi_idx to, bool largest) {
  const atvi_point *p = s->point;
  atvi_point out = atvi_point_at(0.5 * (p[from].time + p[to - 1].time));
  double n = 0, sum = 0, alone = 0;
  for (atvi_idx i = from; i < to; i++) {
    double v = p[i].value;
    if (!isnan(p[i].of_mean.mean)) n++, sum += p[i].of_mean.mean, alone += p[i].of_alone.mean;
    const atvi_band *band[] = {&p[i].of_mean, &p[i].of_draw, &p[i].of_alone};
    atvi_band *to_band[] = {&out.of_mean, &out.of_draw, &out.of_alone};
    for (int k = 0; k < 3; k++) { /* fmin and fmax leave out NaN */
      to_band[k]->hpd95[0] = fmin(to_band[k]->hpd95[0], band[k]->hpd95[0]);
      to_band[k]->hpd95[1] = fmax(to_band[k]->hpd95[1], band[k]->hpd95[1]);
    }
    if (isnan(v) || (!isnan(out.value) && (largest ? v <= out.value : v >= out.value))) continue;
    out.value = v;
    out.held = p[i].held;
    out.exact = p[i].exact;
  }
  out.of_mean.mean = n > 0 ? sum / n : NAN;
  out.of_alone.mean = n > 0 ? alone / n : NAN;
  return out;
}

const atvi_predicted *atvi_series_thin(atvi_pool *pool, const atvi_predicted *s, atvi_idx most) {
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

/* All data and means; bands as far as they are no more than ROOM times as wide: a band that goes far beyond would hide what
 * there is to see, and is cut. */
static atvi_scale height_of(const atvi_predicted *s) {
  /* Without data, or with one value, the band is what there is to see. */
  const double ROOM = s->kind == ATVI_SERIES_OBSERVED && s->n > 1 ? 1.2 : HUGE_VAL;
  double core[2] = {NAN, NAN}, all[2] = {NAN, NAN};
  for (atvi_idx i = 0; i < s->n; i++) {
    const atvi_point *p = &s->point[i];
    widen(core, p->value);
    widen(core, p->of_mean.mean);
    widen(core, p->of_alone.mean);
    for (int k = 0; k < 2; k++) {
      widen(all, p->of_draw.hpd95[k]);
      widen(all, p->of_mean.hpd95[k]);
      widen(all, p->of_alone.hpd95[k]);
    }
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

static atvi_scale time_of(const atvi_predicted *s, atvi_calendar calendar) {
  atvi_scale across =
      s->n > 0 ? atvi_scale_of(s->point[0].time, s->point[s->n - 1].time, 0.02) : atvi_scale_of(0, 1, 0);
  if (!s->rows) across.calendar = calendar;
  return across;
}

/* Values that are observed, whatever was predicted between them. */
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
      double v;
      memcpy(&v, (const char *)p + y, sizeof v);
      if (isfinite(v) && p->held == held && (!p->exact && !isnan(p->value)) == censored)
        px[m] = p->time, py[m++] = v;
    }
    atvi_plot_dots(c, f, m, px, py, radius, (atvi_style){.stroke = ink, .opacity = censored ? 0.5 : 0});
  }
}

/* A band is nothing to see at a single time: a bar in its place, so many units wide, with a line at the middle. */
static void plot_bar(atvi_canvas *c, const atvi_frame *f, double time, double width, const atvi_band *b,
                     double middle, atvi_style style) {
  double x = atvi_frame_x(f, time) - 0.5 * width;
  if (isfinite(b->hpd95[0]) && isfinite(b->hpd95[1])) {
    double top = atvi_frame_y(f, b->hpd95[1]);
    atvi_draw_rect(c, x, top, width, atvi_frame_y(f, b->hpd95[0]) - top, style);
  }
  if (!isfinite(middle)) return;
  double y = atvi_frame_y(f, middle);
  atvi_draw_line(c, x, y, x + width, y, (atvi_style){.stroke = style.fill, .width = 1.6});
}

static void plot_band(atvi_canvas *c, const atvi_frame *f, const atvi_predicted *s, size_t band,
                      atvi_style style) {
  bool some = false;
  double *time = atvi_predicted_column(c->pool, s, offsetof(atvi_point, time)),
         *low = atvi_predicted_column(c->pool, s, band + offsetof(atvi_band, hpd95)),
         *high = atvi_predicted_column(c->pool, s, band + offsetof(atvi_band, hpd95) + sizeof(double));
  for (atvi_idx i = 0; high && i < s->n; i++) some = some || !isnan(low[i]);
  if (some) atvi_plot_band(c, f, s->n, time, low, high, style);
}

static void plot_mean(atvi_canvas *c, const atvi_frame *f, const atvi_predicted *s, size_t band,
                      atvi_ink ink) {
  bool some = false;
  double *time = atvi_predicted_column(c->pool, s, offsetof(atvi_point, time)),
         *mean = atvi_predicted_column(c->pool, s, band + offsetof(atvi_band, mean));
  for (atvi_idx i = 0; time && mean && i < s->n; i++) some = some || !isnan(mean[i]);
  if (some) atvi_plot_line(c, f, s->n, time, mean, (atvi_style){.stroke = ink, .width = 1.6});
}

static void plot_bands(atvi_canvas *c, const atvi_frame *f, const atvi_predicted *s) {
  const atvi_style observed = {.fill = ATVI_INK_MAIN, .opacity = 0.18},
                   mean = {.fill = ATVI_INK_MAIN, .opacity = 0.35},
                   alone = {.fill = ATVI_INK_ALONE, .opacity = 0.25};
  if (!c) return;
  if (s->n == 1) {
    const atvi_point *p = s->point;
    plot_bar(c, f, p->time, 56, &p->of_draw, NAN, observed);
    plot_bar(c, f, p->time, 40, &p->of_mean, p->of_mean.mean, mean);
    plot_bar(c, f, p->time, 20, &p->of_alone, p->of_alone.mean, alone);
    return;
  }
  plot_band(c, f, s, offsetof(atvi_point, of_draw), observed);
  plot_band(c, f, s, offsetof(atvi_point, of_mean), mean);
  plot_band(c, f, s, offsetof(atvi_point, of_alone), alone);
  plot_mean(c, f, s, offsetof(atvi_point, of_alone), ATVI_INK_ALONE);
  plot_mean(c, f, s, offsetof(atvi_point, of_mean), ATVI_INK_MAIN);
}

static bool has_no_axis(const atvi_predicted *s) { return s->rows && s->n == 1; }

/* What is written under the axis. */
static const char *under(const atvi_predicted *s, const char *time_name) {
  return has_no_axis(s) ? NULL : s->rows ? "row" : time_name;
}

atvi_frame atvi_panel_series(atvi_canvas *c, atvi_box box, const atvi_predicted *s, atvi_calendar calendar,
                             const char *time_name) {
  const char *x = under(s, time_name);
  atvi_frame f = atvi_panel_frame(box, time_of(s, calendar), height_of(s), x != NULL, 0);
  atvi_frame_draw(c, &f, &(atvi_frame_opts){.title = s->name, .x = x, .no_x = has_no_axis(s)});
  atvi_draw_clip(c, f.x - 4, f.y - 4, f.width + 8, f.height + 8); /* dots on the edge are whole */
  atvi_draw_group(c, "zoom");
  plot_bands(c, &f, s);
  plot_some(c, &f, s, offsetof(atvi_point, value), false, true, ATVI_INK_DATA);
  plot_some(c, &f, s, offsetof(atvi_point, value), false, false, ATVI_INK_DATA);
  plot_some(c, &f, s, offsetof(atvi_point, value), true, false, ATVI_INK_HELD);
  atvi_draw_end(c);
  atvi_draw_end(c);
  return f;
}

/* ---- residuals ---- */

atvi_frame atvi_panel_residuals(atvi_canvas *c, atvi_box box, const atvi_predicted *s, atvi_calendar calendar,
                                const char *time_name) {
  double most = 3;
  const char *x = under(s, time_name);
  for (atvi_idx i = 0; i < s->n; i++)
    if (isfinite(s->point[i].residual)) most = fmax(most, fabs(s->point[i].residual));
  atvi_frame f =
      atvi_panel_frame(box, time_of(s, calendar), atvi_scale_of(-1.05 * most, 1.05 * most, 0), x != NULL, 0);
  atvi_frame_draw(c, &f, &(atvi_frame_opts){.title = s->name, .x = x, .no_x = has_no_axis(s), .ticks_y = 5});
  for (int k = -2; k <= 2; k += 2) {
    double y = atvi_frame_y(&f, k);
    atvi_draw_line(c, f.x, y, f.x + f.width, y, (atvi_style){.stroke = ATVI_INK_MUTED, .dash = k != 0});
  }
  bool stalks = n_given(s) <= 150;
  for (atvi_idx i = 0; stalks && i < s->n; i++) {
    double px = atvi_frame_x(&f, s->point[i].time);
    if (isfinite(s->point[i].residual))
      atvi_draw_line(c, px, atvi_frame_y(&f, 0), px, atvi_frame_y(&f, s->point[i].residual),
                     (atvi_style){.stroke = ATVI_INK_MAIN, .opacity = 0.5});
  }
  plot_some(c, &f, s, offsetof(atvi_point, residual), false, false, ATVI_INK_MAIN);
  plot_some(c, &f, s, offsetof(atvi_point, residual), true, false, ATVI_INK_HELD);
  return f;
}

/* ---- probability integral transform ---- */

atvi_pit atvi_pit_of(atvi_idx n, const atvi_predicted *series) {
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
