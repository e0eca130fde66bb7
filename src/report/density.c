/* SPDX-License-Identifier: MIT */
/* Marginal densities with their prior. The kernel density is that of atvi_math_mode: reflected at hard bounds
 * and zero beyond them. */
#include "report/figure.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double SEEN = 0.002; /* relative to the largest density: lower parts are not shown */

size_t atvi_report_marginal_work(atvi_idx n) { return 4 * (size_t)n + 4 * 1024; }

/* The range with visible density, extended to a nearby bound. */
static void choose_shown(atvi_marginal *m) {
  int first = 0, last = ATVI_MARGINAL - 1;
  while (first < last && m->density[first] < SEEN * m->top) first++;
  while (last > first && m->density[last] < SEEN * m->top) last--;
  double cell = (m->ends[1] - m->ends[0]) / ATVI_MARGINAL;
  double low = m->ends[0] + first * cell, high = m->ends[0] + (last + 1) * cell, near = 0.06 * (high - low);
  m->shown[0] = isfinite(m->of->lower) && low - m->of->lower < near ? m->of->lower : low;
  m->shown[1] = isfinite(m->of->upper) && m->of->upper - high < near ? m->of->upper : high;
}

static void add_prior(atvi_marginal *m, atvi_idx col, atvi_prior_mass *prior, const void *user) {
  double cell = (m->ends[1] - m->ends[0]) / ATVI_MARGINAL;
  m->has_prior = prior != NULL;
  for (int k = 0; k < ATVI_MARGINAL && m->has_prior; k++) {
    double a = m->ends[0] + k * cell;
    m->prior[k] = prior(user, col, a, a + cell) / cell;
    m->has_prior = isfinite(m->prior[k]);
  }
}

void atvi_report_marginal_make(atvi_idx n, const double *x, const double *weight,
                               const atvi_summary_column *of, atvi_idx col, atvi_prior_mass *prior,
                               const void *user, double *work, atvi_marginal *out) {
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
  atvi_math_sort(m, xs, ws, rest);
  out->ends[0] = out->shown[0] = xs[0];
  out->ends[1] = out->shown[1] = xs[m - 1];
  if (!atvi_math_density(m, xs, ws, of->lower, of->upper, out->ends, out->density, rest)) return;
  out->flat = false;
  for (int k = 0; k < ATVI_MARGINAL; k++) {
    out->x[k] = out->ends[0] + (k + 0.5) * (out->ends[1] - out->ends[0]) / ATVI_MARGINAL;
    out->top = fmax(out->top, out->density[k]);
  }
  choose_shown(out);
  add_prior(out, col, prior, user);
}

/* ---- figure ---- */

/* The curve from a to b with its heights there: cells are too coarse for the end of an interval. */
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
  double x = atvi_report_frame_x(f, v);
  atvi_report_draw_line(c, x, f->y, x, f->y + f->height, (atvi_style){.stroke = ATVI_INK_WARN, .width = 1.5});
}

static void draw_curves(atvi_canvas *c, const atvi_frame *f, const atvi_marginal *m) {
  double px[ATVI_MARGINAL + 2], py[ATVI_MARGINAL + 2], zero[ATVI_MARGINAL + 2] = {0};
  const double *hpd = m->of->hpd95;
  atvi_idx n = cut(m, m->density, m->shown[0], m->shown[1], px, py);
  atvi_report_plot_band(c, f, n, px, zero, py, (atvi_style){.fill = ATVI_INK_MAIN, .opacity = 0.12});
  if (isfinite(hpd[0]) && hpd[1] > hpd[0]) {
    n = cut(m, m->density, fmax(hpd[0], m->shown[0]), fmin(hpd[1], m->shown[1]), px, py);
    atvi_report_plot_band(c, f, n, px, zero, py, (atvi_style){.fill = ATVI_INK_MAIN, .opacity = 0.3});
  }
  if (m->has_prior) {
    n = cut(m, m->prior, m->shown[0], m->shown[1], px, py);
    atvi_report_plot_line(c, f, n, px, py,
                          (atvi_style){.stroke = ATVI_INK_PRIOR, .width = 1.4, .dash = true});
  }
  n = cut(m, m->density, m->shown[0], m->shown[1], px, py);
  atvi_report_plot_line(c, f, n, px, py, (atvi_style){.stroke = ATVI_INK_MAIN, .width = 1.8});
  if (m->of->mode >= f->across.low && m->of->mode <= f->across.high) {
    double x = atvi_report_frame_x(f, m->of->mode);
    atvi_report_draw_line(c, x, f->y + 2, x, f->y + f->height, (atvi_style){.stroke = ATVI_INK_TEXT});
  }
}

/* x rounded to 10^place, if that is above 1. */
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
  atvi_report_write_number(mean, round_to(c->mean, place), digits < 1 ? 1 : digits > 8 ? 8 : digits);
  if (c->sd < 1e-4 && c->sd > 1e-8 && fabs(c->mean) >= 1e-4) /* like the mean, without an exponent */
    snprintf(sd, sizeof sd, "%.*f", (int)-place, c->sd);
  else
    atvi_report_write_number(sd, round_to(c->sd, place), 2);
  snprintf(out, n, "%s \xc2\xb1 %s", mean, sd);
}

/* The posterior's top, or the prior's where that is a little higher: a prior far above it would flatten the
 * posterior, and is cut. */
static double tallest(const atvi_marginal *m) {
  static const double ROOM = 1.5;
  double prior = 0;
  for (int k = 0; m->has_prior && k < ATVI_MARGINAL; k++)
    if (m->x[k] >= m->shown[0] && m->x[k] <= m->shown[1]) prior = fmax(prior, m->prior[k]);
  return fmax(m->top, fmin(prior, ROOM * m->top));
}

atvi_frame atvi_report_panel_density(atvi_canvas *c, atvi_box box, const atvi_marginal *m) {
  char note[3 * ATVI_TICK_LABEL];
  atvi_frame f = {.x = box.x + 10, .y = box.y + 28, .width = box.width - 20, .height = box.height - 50};
  f.across = atvi_report_scale_of(m->shown[0], m->shown[1], 0.03);
  f.up = (atvi_scale){.low = 0, .high = m->top > 0 ? 1.06 * tallest(m) : 1};
  write_mean(note, sizeof note, m->of);
  atvi_report_frame_draw(
      c, &f,
      &(atvi_frame_opts){
          .title = m->of->name, .y = note, .no_y = true, .ticks_x = (int)fmax(2, fmin(5, box.width / 65))});
  if (m->flat) return f;
  atvi_report_draw_clip(c, f.x, f.y, f.width, f.height + 1);
  draw_curves(c, &f, m);
  atvi_report_draw_end(c);
  draw_bound(c, &f, m->of->lower);
  draw_bound(c, &f, m->of->upper);
  return f;
}

/* Regions of highest density in two dimensions.
 *
 * Draws are counted into GRID x GRID cells, which are smoothed along each axis with a Gaussian kernel that
 * reflects at the ends of the range: correct at hard bounds, and without effect elsewhere, where nothing is
 * near the ends. The bandwidth is Silverman's for two dimensions, n^(-1/6) sd given the other (a narrow ridge
 * must not be widened), and a little more, for smooth outlines. The level of a region is the density above
 * which its share of the mass lies. Lines are found by marching squares on the cells with a border of zeros
 * around them, so that every line is closed; each edge between two cell centres that a line crosses has a
 * line on either side, so following it is a walk along a list. */

enum { GRID = 40, OUTSIDE = 255, NODES = GRID + 2, EDGES = 2 * NODES * NODES, NO_EDGE = -1 };

const double atvi_report_contour_mass[ATVI_CONTOUR_LEVELS] = {0.5, 0.95};

/* ---- density ---- */

void atvi_report_contour_cells(atvi_idx n, const double *x, double low, double high, unsigned char *cell) {
  for (atvi_idx i = 0; i < n; i++) {
    double k = floor((x[i] - low) / (high - low) * GRID);
    cell[i] = k >= 0 && k <= GRID ? (unsigned char)fmin(k, GRID - 1) : OUTSIDE;
  }
}

/* Shares of the cells; returns the effective number of draws. */
static double count(atvi_idx n, const atvi_contour_axis *across, const atvi_contour_axis *up,
                    const double *weight, double *cell) {
  double sum = 0, squares = 0;
  memset(cell, 0, GRID * GRID * sizeof *cell);
  for (atvi_idx i = 0; i < n; i++) {
    double w = weight ? weight[i] : 1;
    if (across->cell[i] == OUTSIDE || up->cell[i] == OUTSIDE || !(w > 0)) continue;
    cell[up->cell[i] * GRID + across->cell[i]] += w;
    sum += w;
    squares += w * w;
  }
  for (int k = 0; k < GRID * GRID && sum > 0; k++) cell[k] /= sum;
  return sum > 0 ? sum * sum / squares : 0;
}

/* One axis: cells are `step` apart, the others `stride`. h: bandwidth in cells. */
static void smooth(double *cell, int step, int stride, double h) {
  double kernel[GRID], line[3 * GRID], sum = 0; /* the line with its mirror images on either side */
  int reach = (int)fmin(GRID - 1, ceil(3.5 * h));
  for (int k = 0; k <= reach; k++) {
    kernel[k] = exp(-0.5 * k * k / (h * h));
    sum += k ? 2 * kernel[k] : kernel[k];
  }
  for (int j = 0; j < GRID; j++) {
    double *at = cell + j * stride;
    for (int i = 0; i < GRID; i++)
      line[GRID - 1 - i] = line[GRID + i] = line[3 * GRID - 1 - i] = at[i * step];
    for (int i = 0; i < GRID; i++) {
      const double *mid = line + GRID + i;
      double v = kernel[0] * mid[0];
      for (int k = 1; k <= reach; k++) v += kernel[k] * (mid[-k] + mid[k]);
      at[i * step] = v / sum;
    }
  }
}

static double bandwidth(const atvi_contour_axis *a, double n) {
  static const double MORE = 1.3;
  return fmin(fmax(MORE * a->width * pow(n, -1.0 / 6) * GRID, 0.6), GRID / 6.0);
}

static int descending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x < y) - (x > y);
}

static double level_of(const double *sorted, double mass) {
  double sum = 0;
  for (int k = 0; k < GRID * GRID; k++) {
    sum += sorted[k];
    if (sum >= mass) return sorted[k];
  }
  return 0;
}

/* ---- lines ---- */

typedef struct {
  const double *cell;
  double level;
  short next[EDGES][2]; /* the edges to which a line continues from each */
} walk;

static double node(const walk *w, int i, int j) {
  return i >= 1 && i <= GRID && j >= 1 && j <= GRID ? w->cell[(j - 1) * GRID + i - 1] : 0;
}

/* Edge from node (i, j) to the right (0) or up (1). */
static int edge(int i, int j, int up) { return 2 * (j * NODES + i) + up; }

static void join(walk *w, int a, int b) {
  for (int k = 0; k < 2; k++) {
    short *at = w->next[k ? b : a];
    at[at[0] == NO_EDGE ? 0 : 1] = (short)(k ? a : b);
  }
}

/* The lines through the square whose lowest corner is (i, j). */
static void square(walk *w, int i, int j) {
  int side[4] = {edge(i, j, 0), edge(i + 1, j, 1), edge(i, j + 1, 0),
                 edge(i, j, 1)}; /* below, right, above, left */
  double corner[4] = {node(w, i, j), node(w, i + 1, j), node(w, i + 1, j + 1), node(w, i, j + 1)};
  int crossed[4], n = 0;
  for (int k = 0; k < 4; k++)
    if ((corner[k] > w->level) != (corner[(k + 1) % 4] > w->level)) crossed[n++] = side[k];
  if (n == 2) join(w, crossed[0], crossed[1]);
  if (n < 4) return;
  /* a saddle: the middle decides which corners belong together */
  double mid = 0.25 * (corner[0] + corner[1] + corner[2] + corner[3]);
  bool pair = (mid > w->level) == (corner[0] > w->level);
  join(w, side[0], side[pair ? 1 : 3]);
  join(w, side[2], side[pair ? 3 : 1]);
}

/* Node 1 is the middle of the first cell. Between a node and the border the density is that of the node, by
 * reflection: a line that leaves there lies at the very end of the range. */
static short to_unit(int node, double part) {
  double u = part > 0 && node == 0 ? 0 : part > 0 && node == GRID ? 1 : (node + part - 0.5) / GRID;
  return (short)lround(fmin(fmax(u, 0), 1) * ATVI_CONTOUR_UNIT);
}

/* Where the line crosses an edge. */
static void crossing(const walk *w, int e, short out[2]) {
  int i = e / 2 % NODES, j = e / 2 / NODES, up = e % 2;
  double a = node(w, i, j), b = node(w, i + !up, j + up), t = fmax((w->level - a) / (b - a), 1e-9);
  out[0] = to_unit(i, up ? 0 : t);
  out[1] = to_unit(j, up ? t : 0);
}

static atvi_idx follow(walk *w, short (*out)[2]) {
  atvi_idx n = 0;
  for (int start = 0; start < EDGES; start++) {
    if (w->next[start][0] == NO_EDGE) continue;
    for (int at = start, to; at != NO_EDGE; at = to) {
      to = w->next[at][0];
      crossing(w, at, out[n++]);
      w->next[at][0] = NO_EDGE;
      if (to == NO_EDGE || w->next[to][0] == NO_EDGE) break;
      if (w->next[to][0] == at) w->next[to][0] = w->next[to][1]; /* forward, not back */
    }
    out[n][0] = -1, out[n++][1] = 0;
  }
  return n;
}

static void trace(atvi_pool *pool, const double *cell, double level, atvi_contour *out) {
  walk w = {.cell = cell, .level = level};
  short at[2 * EDGES][2];              /* each edge once, and an end for each line */
  memset(w.next, 0xff, sizeof w.next); /* NO_EDGE throughout */
  for (int j = 0; j < NODES - 1; j++)
    for (int i = 0; i < NODES - 1; i++) square(&w, i, j);
  atvi_idx n = follow(&w, at);
  short *kept = atvi_pool_take(pool, (size_t)(2 * n) + 1, sizeof *kept);
  if (!kept) return;
  memcpy(kept, at, (size_t)n * sizeof *at);
  *out = (atvi_contour){n, kept};
}

void atvi_report_contour_make(atvi_pool *pool, atvi_idx n, const atvi_contour_axis *across,
                              const atvi_contour_axis *up, const double *weight, atvi_contour *level) {
  double cell[GRID * GRID], sorted[GRID * GRID];
  for (int k = 0; k < ATVI_CONTOUR_LEVELS; k++) level[k] = (atvi_contour){0, NULL};
  if (!(across->width > 0) || !(up->width > 0)) return;
  double size = count(n, across, up, weight, cell);
  if (!(size > 1)) return;
  smooth(cell, 1, GRID, bandwidth(across, size));
  smooth(cell, GRID, 1, bandwidth(up, size));
  memcpy(sorted, cell, sizeof sorted);
  qsort(sorted, GRID * GRID, sizeof *sorted, descending);
  for (int k = 0; k < ATVI_CONTOUR_LEVELS; k++)
    trace(pool, cell, level_of(sorted, atvi_report_contour_mass[k]), &level[k]);
}

double atvi_report_correlation(atvi_idx n, const double *x, const double *y, const double *weight) {
  double mx = atvi_math_mean(n, x, weight), my = atvi_math_mean(n, y, weight), xx = 0, yy = 0, xy = 0;
  for (atvi_idx i = 0; i < n; i++) {
    double w = weight ? weight[i] : 1, a = x[i] - mx, b = y[i] - my;
    if (!(w > 0)) continue;
    xx += w * a * a;
    yy += w * b * b;
    xy += w * a * b;
  }
  return xx > 0 && yy > 0 ? xy / sqrt(xx * yy) : NAN;
}
