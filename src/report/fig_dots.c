/* SPDX-License-Identifier: MIT */
/* Numbers with their errors, a line of them for each thing compared; and one number against another. */
#include "report/figure.h"
#include <math.h>

static const double ROW = 26, WIDTH = 640, TOP = 52, BELOW = 40;

static atvi_scale axis_of(const atvi_dot_plot *p) {
  double low = p->mark, high = p->mark;
  for (atvi_idx k = 0; k < p->n; k++)
    for (atvi_idx i = 0; i < p->n_row; i++) {
      double v = p->of[k].value[i], e = p->of[k].error && isfinite(p->of[k].error[i]) ? p->of[k].error[i] : 0;
      if (!isfinite(v) || (p->log && !(v > 0))) continue;
      low = fmin(low, p->log ? v : v - e); /* fmin leaves out NaN */
      high = fmax(high, v + e);
    }
  if (isfinite(p->ends[0])) low = p->ends[0];
  if (isfinite(p->ends[1])) high = p->ends[1];
  if (p->log)
    return (atvi_scale){.low = low > 0 ? low / 1.5 : 0.1, .high = high > 0 ? high * 1.5 : 10, .log = true};
  return atvi_scale_of(low, high, isfinite(p->ends[0]) ? 0.02 : 0.06);
}

static atvi_ink ink_of(atvi_idx k) { return (atvi_ink)(ATVI_INK_CHAIN + k % ATVI_INK_CHAINS); }

static void legend(atvi_canvas *c, const atvi_dot_plot *p, double x) {
  for (atvi_idx k = 0; k < p->n && p->n > 1; k++) {
    double at = x + 5, y = 34;
    atvi_draw_dots(c, 1, &at, &y, 4, (atvi_style){.stroke = ink_of(k)});
    atvi_draw_text(c, x + 13, 38, (atvi_label){.ink = ATVI_INK_MUTED}, p->of[k].name);
    x += 13 + atvi_text_width(p->of[k].name, ATVI_FONT_SIZE, false) + 16;
  }
}

static void draw_one(atvi_canvas *c, const atvi_frame *f, const atvi_dot_plot *p, atvi_idx k, atvi_idx i) {
  double v = p->of[k].value[i], e = p->of[k].error ? p->of[k].error[i] : NAN;
  double y = f->y + ROW * ((double)i + ((double)k + 1) / ((double)p->n + 1)), x = atvi_frame_x(f, v);
  if (!isfinite(v) || !isfinite(x)) return;
  if (isfinite(e) && e > 0 && !p->log)
    atvi_draw_line(c, atvi_frame_x(f, fmax(v - e, f->across.low)), y,
                   atvi_frame_x(f, fmin(v + e, p->ends[1])), y,
                   (atvi_style){.stroke = ink_of(k), .width = 1.5});
  atvi_draw_dots(c, 1, &x, &y, p->n > 3 ? 3 : 4, (atvi_style){.stroke = ink_of(k)});
}

atvi_canvas *atvi_figure_dots(atvi_pool *pool, const atvi_dot_plot *p) {
  double names = 60;
  for (atvi_idx i = 0; i < p->n_row; i++)
    names = fmin(200, fmax(names, atvi_text_width(p->row[i], ATVI_FONT_SIZE, false) + 16));
  atvi_canvas *c = atvi_canvas_new(pool, WIDTH, TOP + ROW * (double)p->n_row + BELOW);
  atvi_frame f = {.x = names, .y = TOP, .width = WIDTH - names - 16, .height = ROW * (double)p->n_row};
  f.across = axis_of(p);
  f.up = (atvi_scale){.low = 0, .high = 1};
  atvi_draw_text(c, names, 16, (atvi_label){.size = ATVI_FONT_SIZE + 1, .bold = true}, p->title);
  atvi_frame_draw(c, &f, &(atvi_frame_opts){.x = p->axis, .no_y = true});
  legend(c, p, names);
  for (atvi_idx i = 0; i < p->n_row; i++) {
    double y = TOP + ROW * (double)i;
    if (i > 0) atvi_draw_line(c, f.x, y, f.x + f.width, y, (atvi_style){.stroke = ATVI_INK_GRID});
    atvi_draw_text(c, names - 8, y + ROW / 2 + 4, (atvi_label){.anchor = ATVI_ANCHOR_END}, p->row[i]);
    for (atvi_idx k = 0; k < p->n; k++) draw_one(c, &f, p, k, i);
  }
  if (isfinite(p->mark)) {
    double x = atvi_frame_x(&f, p->mark);
    atvi_draw_line(c, x, f.y, x, f.y + f.height, (atvi_style){.stroke = ATVI_INK_TEXT, .dash = true});
  }
  return c;
}

atvi_canvas *atvi_figure_scatter(atvi_pool *pool, atvi_idx n, const double *x, const double *y,
                                 const char *title, const char *name_x, const char *name_y) {
  double low = HUGE_VAL, high = -HUGE_VAL;
  for (atvi_idx i = 0; i < n; i++) {
    if (!isfinite(x[i]) || !isfinite(y[i])) continue;
    low = fmin(low, fmin(x[i], y[i]));
    high = fmax(high, fmax(x[i], y[i]));
  }
  atvi_canvas *c = atvi_canvas_new(pool, 480, 420);
  atvi_scale both = atvi_scale_of(low, high, 0.03);
  double left = atvi_frame_left(&both, 6);
  atvi_frame f = {.x = left, .y = 30, .width = 480 - left - 14, .height = 350, .across = both, .up = both};
  atvi_frame_draw(c, &f, &(atvi_frame_opts){.title = title, .x = name_x, .y = name_y, .ticks_y = 6});
  atvi_draw_line(c, f.x, f.y + f.height, f.x + f.width, f.y,
                 (atvi_style){.stroke = ATVI_INK_PRIOR, .dash = true});
  atvi_plot_dots(c, &f, n, x, y, n > 2000 ? 1 : 2, (atvi_style){.stroke = ATVI_INK_MAIN, .opacity = 0.5});
  return c;
}
