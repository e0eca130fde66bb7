/* SPDX-License-Identifier: MIT */
/* Pairs of quantities, and how much of the posterior is at the bounds. */
#include "report/figure.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static const double LEFT = 46, BELOW = 34, GAP = 6;

typedef struct {
  const atvi_pairs *p;
  atvi_canvas *c;
  double side; /* of a panel */
} grid;

static atvi_scale shown(const atvi_marginal *m) { return atvi_report_scale_of(m->shown[0], m->shown[1], 0); }

static atvi_frame panel(const grid *g, atvi_idx row, atvi_idx col, const atvi_marginal *up,
                        const atvi_marginal *across) {
  return (atvi_frame){.x = LEFT + (double)col * (g->side + GAP),
                      .y = 6 + (double)row * (g->side + GAP),
                      .width = g->side,
                      .height = g->side,
                      .across = shown(across),
                      .up = shown(up)};
}

static void border(const grid *g, const atvi_frame *f) {
  atvi_report_draw_rect(g->c, f->x, f->y, f->width, f->height, (atvi_style){.stroke = ATVI_INK_GRID});
}

static void draw_contours(const grid *g, const atvi_frame *f, const atvi_contour *level) {
  for (int k = ATVI_CONTOUR_LEVELS - 1; k >= 0; k--) {
    double px[256], py[256];
    atvi_idx n = 0;
    for (atvi_idx i = 0; i < level[k].n; i++) {
      const short *at = level[k].at + 2 * i;
      if (at[0] >= 0 && n < 256) {
        px[n] = f->x + f->width * at[0] / ATVI_CONTOUR_UNIT;
        py[n++] = f->y + f->height * (1 - (double)at[1] / ATVI_CONTOUR_UNIT);
        continue;
      }
      atvi_report_draw_path(
          g->c, n, px, py, true,
          (atvi_style){.stroke = ATVI_INK_MAIN, .fill = ATVI_INK_NONE, .width = k ? 1 : 1.6});
      n = 0;
    }
  }
}

static void draw_below(const grid *g, atvi_idx row, atvi_idx col, atvi_idx i, atvi_idx j) {
  const atvi_pairs *p = g->p;
  atvi_frame f = panel(g, row, col, &p->marginal[i], &p->marginal[j]);
  border(g, &f);
  atvi_report_draw_clip(g->c, f.x, f.y, f.width, f.height);
  atvi_report_plot_dots(g->c, &f, p->n_draw, p->draw[j], p->draw[i], 0.9,
                        (atvi_style){.stroke = ATVI_INK_MAIN, .opacity = 0.35});
  /* contours are stored for i > j and mirrored for i < j */
  if (i > j) draw_contours(g, &f, &p->contour[(i * p->n + j) * ATVI_CONTOUR_LEVELS]);
  atvi_report_draw_end(g->c);
}

static void draw_diagonal(const grid *g, atvi_idx row, atvi_idx i) {
  const atvi_marginal *m = &g->p->marginal[i];
  atvi_frame f = panel(g, row, row, m, m);
  double zero[ATVI_MARGINAL] = {0};
  f.up = (atvi_scale){.low = 0, .high = m->top > 0 ? 1.28 * m->top : 1}; /* room for the name above */
  border(g, &f);
  atvi_report_draw_clip(g->c, f.x, f.y, f.width, f.height);
  if (!m->flat) {
    atvi_report_plot_band(g->c, &f, ATVI_MARGINAL, m->x, zero, m->density,
                          (atvi_style){.fill = ATVI_INK_MAIN, .opacity = 0.2});
    atvi_report_plot_line(g->c, &f, ATVI_MARGINAL, m->x, m->density,
                          (atvi_style){.stroke = ATVI_INK_MAIN, .width = 1.5});
  }
  atvi_report_draw_end(g->c);
  atvi_report_draw_text(g->c, f.x + 7, f.y + 17, (atvi_label){.bold = true}, m->of->name);
}

static void draw_above(const grid *g, atvi_idx row, atvi_idx col, atvi_idx i, atvi_idx j) {
  double r = g->p->correlation[i * g->p->n + j], strength = isfinite(r) ? fabs(r) : 0;
  char text[ATVI_TICK_LABEL];
  atvi_frame f = panel(g, row, col, &g->p->marginal[i], &g->p->marginal[j]);
  if (strength > 0.005)
    atvi_report_draw_rect(
        g->c, f.x, f.y, f.width, f.height,
        (atvi_style){.fill = r < 0 ? ATVI_INK_HELD : ATVI_INK_MAIN, .opacity = 0.02 + 0.28 * strength});
  border(g, &f);
  snprintf(text, sizeof text, isfinite(r) ? "%s%.2f" : "\xe2\x80\x93", r < -0.005 ? "\xe2\x88\x92" : "",
           strength);
  atvi_report_draw_text(
      g->c, f.x + f.width / 2, f.y + f.height / 2 + 5,
      (atvi_label){.anchor = ATVI_ANCHOR_MIDDLE, .size = fmin(18, 12 + 6 * strength), .bold = strength > 0.5},
      text);
}

/* Two or three numbers along the outer sides. */
static void draw_ticks(const grid *g, atvi_idx k, const atvi_idx *pick) {
  atvi_label up = {ATVI_ANCHOR_END, 10, ATVI_INK_MUTED, false, false}, across = up;
  across.anchor = ATVI_ANCHOR_MIDDLE;
  for (atvi_idx row = 0; row < k; row++) {
    const atvi_marginal *m = &g->p->marginal[pick[row]];
    atvi_tick tick[ATVI_TICKS];
    atvi_scale s = shown(m);
    int n = atvi_report_ticks(&s, 3, tick);
    atvi_frame left = panel(g, row, 0, m, m), below = panel(g, k - 1, row, m, m);
    double end = -HUGE_VAL;
    for (int i = 0; i < n; i++) {
      double x = atvi_report_frame_x(&below, tick[i].at),
             half = atvi_report_text_width(tick[i].label, 10, false) / 2;
      if (row > 0)
        atvi_report_draw_text(g->c, left.x - 4, atvi_report_frame_y(&left, tick[i].at) + 4, up,
                              tick[i].label);
      x = fmin(fmax(x, below.x + half), below.x + below.width - half); /* never into the next panel */
      if (x - half < end + 4) continue;
      end = x + half;
      atvi_report_draw_text(g->c, x, below.y + below.height + 13, across, tick[i].label);
    }
    atvi_report_draw_text(g->c, below.x + below.width / 2, below.y + below.height + 28,
                          (atvi_label){.anchor = ATVI_ANCHOR_MIDDLE, .ink = ATVI_INK_MUTED}, m->of->name);
  }
}

void atvi_report_figure_pairs(atvi_canvas *c, const atvi_pairs *p, atvi_idx k, const atvi_idx *pick) {
  if (!c || k < 1) return;
  double room = fmin(atvi_report_canvas_width(c) - LEFT - 4, atvi_report_canvas_height(c) - 6 - BELOW);
  grid g = {p, c, (room - GAP * (double)(k - 1)) / (double)k};
  for (atvi_idx row = 0; row < k; row++)
    for (atvi_idx col = 0; col < k; col++)
      if (col < row)
        draw_below(&g, row, col, pick[row], pick[col]);
      else if (col > row)
        draw_above(&g, row, col, pick[row], pick[col]);
      else
        draw_diagonal(&g, row, pick[row]);
  draw_ticks(&g, k, pick);
}

/* ---- bounds ---- */

atvi_canvas *atvi_report_figure_bounds(atvi_pool *pool, double width, atvi_idx n,
                                       const atvi_summary_column *const *col) {
  static const double ROW = 24;
  double names = 60, most = 0.05;
  atvi_canvas *c = atvi_report_canvas_new(pool, width, 44 + ROW * (double)n + 34);
  for (atvi_idx i = 0; i < n; i++) {
    most = fmax(most, fmax(col[i]->near_lower, col[i]->near_upper));
    names = fmin(width / 3, fmax(names, atvi_report_text_width(col[i]->name, ATVI_FONT_SIZE, false) + 16));
  }
  double half = (width - names - 20) / 2, gap = 24;
  atvi_frame f[2];
  for (int k = 0; k < 2; k++) {
    f[k] = (atvi_frame){.x = names + k * half, .y = 26, .width = half - gap, .height = ROW * (double)n};
    f[k].across = (atvi_scale){.low = 0, .high = fmin(1, 1.1 * most)};
    f[k].up = (atvi_scale){.low = 0, .high = 1};
    atvi_report_frame_draw(c, &f[k],
                           &(atvi_frame_opts){.title = k ? "upper bound" : "lower bound",
                                              .x = "share of the posterior",
                                              .no_y = true,
                                              .ticks_x = 3});
  }
  for (atvi_idx i = 0; i < n; i++) {
    double y = 26 + ROW * (double)i;
    atvi_report_draw_text(c, names - 8, y + ROW / 2 + 4, (atvi_label){.anchor = ATVI_ANCHOR_END},
                          col[i]->name);
    for (int k = 0; k < 2; k++) {
      double share = k ? col[i]->near_upper : col[i]->near_lower;
      bool reaches = k ? col[i]->reaches_upper : col[i]->reaches_lower;
      double length = isfinite(share) ? atvi_report_frame_x(&f[k], share) - f[k].x : 0;
      atvi_report_draw_rect(c, f[k].x, y + 5, fmax(length, 0.5), ROW - 10,
                            (atvi_style){.fill = reaches ? ATVI_INK_WARN : ATVI_INK_MAIN, .opacity = 0.75});
    }
  }
  return c;
}
