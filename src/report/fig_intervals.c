/* SPDX-License-Identifier: MIT */
/* An array of parameters as one figure. */
#include "report/figure.h"
#include <math.h>
#include <string.h>

static const double NARROW_BAR = 1.4, WIDE_BAR = 4, LABEL_GAP = 6;

static atvi_scale scale_of(atvi_idx n, const atvi_summary_column *col) {
  double low = NAN, high = NAN;
  for (atvi_idx i = 0; i < n; i++) {
    low = fmin(low, fmin(col[i].hpd95[0], col[i].quantile[1])); /* fmin leaves out NaN */
    high = fmax(high, fmax(col[i].hpd95[1], col[i].quantile[3]));
  }
  return atvi_scale_of(low, high, 0.06);
}

/* The names of the elements under the axis, as many as have room. */
static void label(atvi_canvas *c, const atvi_frame *f, const char *name, atvi_idx n,
                  const atvi_summary_column *col) {
  size_t skip = strlen(name) + 1;
  double end = -HUGE_VAL;
  for (atvi_idx i = 0; i < n; i++) {
    const char *text = strlen(col[i].name) > skip ? col[i].name + skip : col[i].name;
    double x = atvi_frame_x(f, (double)i), half = atvi_text_width(text, ATVI_FONT_SIZE - 1, false) / 2;
    if (x - half < end + LABEL_GAP) continue;
    end = x + half;
    atvi_draw_text(c, x, f->y + f->height + 15,
                   (atvi_label){ATVI_ANCHOR_MIDDLE, ATVI_FONT_SIZE - 1, ATVI_INK_MUTED, false, false}, text);
  }
}

static void draw_bar(atvi_canvas *c, const atvi_frame *f, double x, double low, double high, double width) {
  if (isfinite(low) && isfinite(high))
    atvi_draw_line(c, x, atvi_frame_y(f, low), x, atvi_frame_y(f, high),
                   (atvi_style){.stroke = ATVI_INK_MAIN, .width = width, .opacity = 0.7});
}

atvi_frame atvi_panel_intervals(atvi_canvas *c, atvi_box box, const char *name, atvi_idx n,
                                const atvi_summary_column *col) {
  atvi_scale across = {.low = -0.5, .high = (double)n - 0.5};
  atvi_frame f = atvi_panel_frame(box, across, scale_of(n, col), false, 0);
  double radius = n > 60 ? 1.8 : 3;
  atvi_frame_draw(c, &f, &(atvi_frame_opts){.title = name, .no_x = true});
  label(c, &f, name, n, col);
  for (atvi_idx i = 0; i < n; i++) {
    double x = atvi_frame_x(&f, (double)i), y = atvi_frame_y(&f, col[i].median);
    draw_bar(c, &f, x, col[i].hpd95[0], col[i].hpd95[1], NARROW_BAR);
    draw_bar(c, &f, x, col[i].quantile[1], col[i].quantile[3], n > 60 ? NARROW_BAR + 1 : WIDE_BAR);
    if (isfinite(y)) atvi_draw_dots(c, 1, &x, &y, radius, (atvi_style){.stroke = ATVI_INK_TEXT});
  }
  return f;
}
