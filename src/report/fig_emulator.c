/* SPDX-License-Identifier: MIT */
/* How well an emulator predicts runs that it has not seen. */
#include "report/figure.h"
#include <math.h>

static const double TOP = 30, BOTTOM = 38, RIGHT = 12, HALF = 1.96; /* of a 95 % interval, in sds */
enum { MANY = 400 };                                                /* so many dots are smaller */

static atvi_frame frame_of(atvi_box box, double top, atvi_scale across, atvi_scale up) {
  double left = atvi_frame_left(&up, 6);
  return (atvi_frame){.x = box.x + left,
                      .y = box.y + top,
                      .width = box.width - left - RIGHT,
                      .height = box.height - top - BOTTOM,
                      .across = across,
                      .up = up};
}

static bool known(atvi_idx i, const double *observed, const double *predicted, const double *sd) {
  return isfinite(observed[i]) && isfinite(predicted[i]) && isfinite(sd[i]);
}

static bool missed(atvi_idx i, const double *observed, const double *predicted, const double *sd) {
  return fabs(observed[i] - predicted[i]) > HALF * sd[i];
}

atvi_frame atvi_panel_left_out(atvi_canvas *c, atvi_box box, atvi_idx n, const double *observed,
                               const double *predicted, const double *sd) {
  double low = HUGE_VAL, high = -HUGE_VAL;
  for (atvi_idx i = 0; i < n; i++)
    if (known(i, observed, predicted, sd)) {
      low = fmin(low, fmin(observed[i], predicted[i] - HALF * sd[i]));
      high = fmax(high, fmax(observed[i], predicted[i] + HALF * sd[i]));
    }
  atvi_scale both = atvi_scale_of(low, high, 0.03);
  atvi_frame f = frame_of(box, TOP, both, both);
  atvi_frame_draw(c, &f,
                  &(atvi_frame_opts){.title = "Predicted against simulated",
                                     .x = "the simulator's",
                                     .y = "the emulator's",
                                     .ticks_y = 6});
  atvi_draw_line(c, f.x, f.y + f.height, f.x + f.width, f.y,
                 (atvi_style){.stroke = ATVI_INK_PRIOR, .dash = true});
  for (int pass = 0; pass < 2; pass++) /* those that are missed on top */
    for (atvi_idx i = 0; i < n; i++) {
      if (!known(i, observed, predicted, sd) || missed(i, observed, predicted, sd) != pass) continue;
      atvi_ink ink = pass ? ATVI_INK_HELD : ATVI_INK_MAIN;
      double x = atvi_frame_x(&f, observed[i]), y = atvi_frame_y(&f, predicted[i]);
      atvi_draw_line(c, x, atvi_frame_y(&f, predicted[i] - HALF * sd[i]), x,
                     atvi_frame_y(&f, predicted[i] + HALF * sd[i]),
                     (atvi_style){.stroke = ink, .opacity = pass ? 0.8 : 0.35});
      atvi_draw_dots(c, 1, &x, &y, n > MANY ? 1.4 : 2.2, (atvi_style){.stroke = ink, .opacity = 0.8});
    }
  return f;
}

atvi_frame atvi_panel_left_errors(atvi_canvas *c, atvi_box box, atvi_idx n, const double *observed,
                                  const double *predicted, const double *sd) {
  double low = HUGE_VAL, high = -HUGE_VAL, most = 3;
  for (atvi_idx i = 0; i < n; i++)
    if (known(i, observed, predicted, sd) && sd[i] > 0) {
      low = fmin(low, predicted[i]);
      high = fmax(high, predicted[i]);
      most = fmax(most, fabs(observed[i] - predicted[i]) / sd[i]);
    }
  atvi_frame f = frame_of(box, TOP, atvi_scale_of(low, high, 0.03), atvi_scale_of(-most, most, 0.05));
  atvi_frame_draw(
      c, &f,
      &(atvi_frame_opts){
          .title = "Errors", .x = "the emulator's", .y = "in its standard deviations", .ticks_y = 6});
  for (int k = -2; k <= 2; k += 2) {
    double y = atvi_frame_y(&f, k);
    atvi_draw_line(c, f.x, y, f.x + f.width, y, (atvi_style){.stroke = ATVI_INK_MUTED, .dash = k != 0});
  }
  for (atvi_idx i = 0; i < n; i++) {
    if (!known(i, observed, predicted, sd) || !(sd[i] > 0)) continue;
    double x = atvi_frame_x(&f, predicted[i]), y = atvi_frame_y(&f, (observed[i] - predicted[i]) / sd[i]);
    atvi_draw_dots(c, 1, &x, &y, n > MANY ? 1.4 : 2.2,
                   (atvi_style){.stroke = missed(i, observed, predicted, sd) ? ATVI_INK_HELD : ATVI_INK_MAIN,
                                .opacity = 0.8});
  }
  return f;
}

/* ---- lines ---- */

static atvi_ink ink_of(atvi_idx k) { return (atvi_ink)(ATVI_INK_CHAIN + k % ATVI_INK_CHAINS); }

/* Names in as many lines as they need; with a canvas they are drawn. Returns their height. */
static double legend(atvi_canvas *c, atvi_box box, double left, const atvi_line_plot *p) {
  static const double MARK = 20, GAP = 16, LINE = 16;
  double x = left, y = 0, room = box.width - RIGHT;
  for (atvi_idx k = 0; p->name && k < p->n_line; k++) {
    double width = MARK + atvi_text_width(p->name[k], ATVI_FONT_SIZE, false);
    if (x > left && x + width > room) x = left, y += LINE;
    if (c) {
      double at = box.y + TOP + y + 4;
      atvi_draw_line(c, box.x + x, at, box.x + x + MARK - 6, at,
                     (atvi_style){.stroke = ink_of(k), .width = 2.4});
      atvi_draw_text(c, box.x + x + MARK, at + 4, (atvi_label){.ink = ATVI_INK_MUTED}, p->name[k]);
    }
    x += width + GAP;
  }
  return p->name && p->n_line > 0 ? y + LINE : 0;
}

atvi_frame atvi_panel_lines(atvi_canvas *c, atvi_box box, const atvi_line_plot *p) {
  double low = p->ends[0], high = p->ends[1];
  for (atvi_idx k = 0; k < p->n_line; k++)
    for (atvi_idx i = 0; i < p->n; i++) {
      double v = p->value[k][i];
      if (!isfinite(v)) continue;
      if (isnan(p->ends[0])) low = fmin(low, v); /* fmin leaves out NaN */
      if (isnan(p->ends[1])) high = fmax(high, v);
    }
  atvi_scale up = isnan(p->ends[0]) || isnan(p->ends[1]) ? atvi_scale_of(low, high, 0.05)
                                                         : (atvi_scale){.low = low, .high = high};
  double first = p->n > 0 ? p->x[0] : 0, last = p->n > 0 ? p->x[p->n - 1] : 1;
  double left = atvi_frame_left(&up, 6);
  atvi_frame f = frame_of(box, TOP + legend(NULL, box, left, p), atvi_scale_of(first, last, 0.02), up);
  atvi_frame_draw(c, &f, &(atvi_frame_opts){.x = p->x_name, .ticks_y = 6});
  atvi_draw_text(c, f.x, box.y + 16, (atvi_label){.size = ATVI_FONT_SIZE + 1, .bold = true}, p->title);
  legend(c, box, left, p);
  atvi_draw_clip(c, f.x, f.y, f.width, f.height);
  for (atvi_idx k = 0; k < p->n_line; k++)
    atvi_plot_line(c, &f, p->n, p->x, p->value[k], (atvi_style){.stroke = ink_of(k), .width = 1.6});
  atvi_draw_end(c);
  return f;
}
