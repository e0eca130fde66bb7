/* SPDX-License-Identifier: MIT */
/* Marginal densities with their prior. The kernel density is that of atvi_mode: reflected at hard bounds and
 * nothing past them. */
#include "report/figure.h"
#include <math.h>
#include <stdio.h>

static const double SEEN = 0.002; /* of the largest density: what is lower is not shown */

size_t atvi_marginal_work(atvi_idx n) { return 4 * (size_t)n + 4 * 1024; }

/* The range where something is seen; out to a bound that is near. */
static void choose_shown(atvi_marginal *m) {
  int first = 0, last = ATVI_MARGINAL - 1;
  while (first < last && m->density[first] < SEEN * m->top) first++;
  while (last > first && m->density[last] < SEEN * m->top) last--;
  double cell = (m->ends[1] - m->ends[0]) / ATVI_MARGINAL;
  double low = m->ends[0] + first * cell, high = m->ends[0] + (last + 1) * cell, near = 0.06 * (high - low);
  m->shown[0] = isfinite(m->of->lower) && low - m->of->lower < near ? m->of->lower : low;
  m->shown[1] = isfinite(m->of->upper) && m->of->upper - high < near ? m->of->upper : high;
}

static void add_prior(atvi_marginal *m, atvi_idx col, atvi_prior_mass *prior, void *user) {
  double cell = (m->ends[1] - m->ends[0]) / ATVI_MARGINAL;
  m->has_prior = prior != NULL;
  for (int k = 0; k < ATVI_MARGINAL && m->has_prior; k++) {
    double a = m->ends[0] + k * cell;
    m->prior[k] = prior(user, col, a, a + cell) / cell;
    m->has_prior = isfinite(m->prior[k]);
  }
}

void atvi_marginal_make(atvi_idx n, const double *x, const double *weight, const atvi_summary_column *of,
                        atvi_idx col, atvi_prior_mass *prior, void *user, double *work, atvi_marginal *out) {
  double *xs = work, *ws = weight ? xs + n : NULL, *rest = xs + 2 * n;
  atvi_idx m = 0;
  *out = (atvi_marginal){.of = of, .flat = true};
  for (atvi_idx i = 0; i < n; i++) {
    if (weight && !(weight[i] > 0)) continue;
    if (!isfinite(x[i])) return;
    xs[m] = x[i];
    if (ws) ws[m] = weight[i];
    m++;
  }
  if (m == 0) return;
  atvi_sort(m, xs, ws, rest);
  out->ends[0] = out->shown[0] = xs[0];
  out->ends[1] = out->shown[1] = xs[m - 1];
  if (!atvi_density(m, xs, ws, of->lower, of->upper, out->ends, out->density, rest)) return;
  out->flat = false;
  for (int k = 0; k < ATVI_MARGINAL; k++) {
    out->x[k] = out->ends[0] + (k + 0.5) * (out->ends[1] - out->ends[0]) / ATVI_MARGINAL;
    out->top = fmax(out->top, out->density[k]);
  }
  choose_shown(out);
  add_prior(out, col, prior, user);
}

/* ---- drawing ---- */

/* The curve from a to b, with its height there: cells are too coarse for an end of an interval. */
static atvi_idx cut(const atvi_marginal *m, const double *y, double a, double b, double *px, double *py) {
  atvi_idx n = 0;
  double cell = (m->ends[1] - m->ends[0]) / ATVI_MARGINAL;
  for (int e = 0; e < 2; e++) {
    double v = e ? b : a, at = fmin(fmax((v - m->x[0]) / cell, 0), ATVI_MARGINAL - 1);
    int k = (int)at < ATVI_MARGINAL - 1 ? (int)at : ATVI_MARGINAL - 2;
    if (e)
      for (int i = 0; i < ATVI_MARGINAL; i++)
        if (m->x[i] > a && m->x[i] < b) px[n] = m->x[i], py[n++] = y[i];
    px[n] = v;
    py[n++] = y[k] + (at - k) * (y[k + 1] - y[k]);
  }
  return n;
}

static void draw_bound(atvi_canvas *c, const atvi_frame *f, double v) {
  if (!(v >= f->across.low && v <= f->across.high)) return;
  double x = atvi_frame_x(f, v);
  atvi_draw_line(c, x, f->y, x, f->y + f->height, (atvi_style){.stroke = ATVI_INK_WARN, .width = 1.5});
}

static void draw_curves(atvi_canvas *c, const atvi_frame *f, const atvi_marginal *m) {
  double px[ATVI_MARGINAL + 2], py[ATVI_MARGINAL + 2], zero[ATVI_MARGINAL + 2] = {0};
  const double *hpd = m->of->hpd95;
  atvi_idx n = cut(m, m->density, m->shown[0], m->shown[1], px, py);
  atvi_plot_band(c, f, n, px, zero, py, (atvi_style){.fill = ATVI_INK_MAIN, .opacity = 0.12});
  if (isfinite(hpd[0]) && hpd[1] > hpd[0]) {
    n = cut(m, m->density, fmax(hpd[0], m->shown[0]), fmin(hpd[1], m->shown[1]), px, py);
    atvi_plot_band(c, f, n, px, zero, py, (atvi_style){.fill = ATVI_INK_MAIN, .opacity = 0.3});
  }
  if (m->has_prior) {
    n = cut(m, m->prior, m->shown[0], m->shown[1], px, py);
    atvi_plot_line(c, f, n, px, py, (atvi_style){.stroke = ATVI_INK_PRIOR, .width = 1.4, .dash = true});
  }
  n = cut(m, m->density, m->shown[0], m->shown[1], px, py);
  atvi_plot_line(c, f, n, px, py, (atvi_style){.stroke = ATVI_INK_MAIN, .width = 1.8});
  if (m->of->mode >= f->across.low && m->of->mode <= f->across.high) {
    double x = atvi_frame_x(f, m->of->mode);
    atvi_draw_line(c, x, f->y + 2, x, f->y + f->height, (atvi_style){.stroke = ATVI_INK_TEXT});
  }
}

/* x to the place 10^place, where that is above 1. */
static double round_to(double x, double place) {
  double unit = pow(10, place);
  return place > 0 && place < 6 ? unit * round(x / unit) : x;
}

/* "0.887 +- 0.035": two digits of the sd, and the mean down to the same place. */
static void write_mean(char *out, size_t n, const atvi_summary_column *c) {
  char mean[ATVI_TICK_LABEL], sd[ATVI_TICK_LABEL];
  int digits = 3;
  if (c->sd > 0 && c->mean != 0 && isfinite(c->mean))
    digits = 2 + (int)(floor(log10(fabs(c->mean))) - floor(log10(c->sd)));
  double place = c->sd > 0 ? floor(log10(c->sd)) - 1 : 0;
  atvi_write_number(mean, round_to(c->mean, place), digits < 1 ? 1 : digits > 8 ? 8 : digits);
  if (c->sd < 1e-4 && c->sd > 1e-8 && fabs(c->mean) >= 1e-4) /* as the mean: without an exponent */
    snprintf(sd, sizeof sd, "%.*f", (int)-place, c->sd);
  else
    atvi_write_number(sd, round_to(c->sd, place), 2);
  snprintf(out, n, "%s \xc2\xb1 %s", mean, sd);
}

atvi_frame atvi_panel_density(atvi_canvas *c, atvi_box box, const atvi_marginal *m) {
  char note[3 * ATVI_TICK_LABEL];
  atvi_frame f = {.x = box.x + 10, .y = box.y + 28, .width = box.width - 20, .height = box.height - 50};
  f.across = atvi_scale_of(m->shown[0], m->shown[1], 0.03);
  f.up = (atvi_scale){.low = 0, .high = m->top > 0 ? 1.06 * m->top : 1};
  write_mean(note, sizeof note, m->of);
  atvi_frame_draw(
      c, &f,
      &(atvi_frame_opts){
          .title = m->of->name, .y = note, .no_y = true, .ticks_x = (int)fmax(2, fmin(5, box.width / 65))});
  if (m->flat) return f;
  atvi_draw_clip(c, f.x, f.y, f.width, f.height + 1);
  draw_curves(c, &f, m);
  atvi_draw_end(c);
  draw_bound(c, &f, m->of->lower);
  draw_bound(c, &f, m->of->upper);
  return f;
}
