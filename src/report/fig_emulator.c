/* SPDX-License-Identifier: MIT */
/* How well an emulator predicts runs it has not seen. */
#include "report/figure.h"
#include <math.h>

static const double HALF = 1.96; /* of a 95 % interval, in sds */
enum { MANY = 400, TICKS = 6 };  /* with more dots than this they are smaller */

static bool known(atvi_idx i, const double *observed, const double *predicted, const double *sd) {
  return isfinite(observed[i]) && isfinite(predicted[i]) && isfinite(sd[i]);
}

static bool missed(atvi_idx i, const double *observed, const double *predicted, const double *sd) {
  return fabs(observed[i] - predicted[i]) > HALF * sd[i];
}

atvi_frame atvi_report_panel_left_out(atvi_canvas *c, atvi_box box, atvi_idx n, const double *observed,
                                      const double *predicted, const double *sd) {
  double low = HUGE_VAL, high = -HUGE_VAL;
  for (atvi_idx i = 0; i < n; i++)
    if (known(i, observed, predicted, sd)) {
      low = fmin(low, fmin(observed[i], predicted[i] - HALF * sd[i]));
      high = fmax(high, fmax(observed[i], predicted[i] + HALF * sd[i]));
    }
  atvi_scale both = atvi_report_scale_of(low, high, 0.03);
  atvi_frame f = atvi_report_panel_frame(box, both, both, true, TICKS);
  atvi_report_frame_draw(c, &f,
                         &(atvi_frame_opts){.title = "Predicted against simulated",
                                            .x = "the simulator's",
                                            .y = "the emulator's",
                                            .ticks_y = TICKS});
  atvi_report_draw_line(c, f.x, f.y + f.height, f.x + f.width, f.y,
                        (atvi_style){.stroke = ATVI_INK_PRIOR, .dash = true});
  for (int pass = 0; pass < 2; pass++) /* missed ones on top */
    for (atvi_idx i = 0; i < n; i++) {
      if (!known(i, observed, predicted, sd) || missed(i, observed, predicted, sd) != pass) continue;
      atvi_ink ink = pass ? ATVI_INK_HELD : ATVI_INK_MAIN;
      double x = atvi_report_frame_x(&f, observed[i]), y = atvi_report_frame_y(&f, predicted[i]);
      atvi_report_draw_line(c, x, atvi_report_frame_y(&f, predicted[i] - HALF * sd[i]), x,
                            atvi_report_frame_y(&f, predicted[i] + HALF * sd[i]),
                            (atvi_style){.stroke = ink, .opacity = pass ? 0.8 : 0.35});
      atvi_report_draw_dots(c, 1, &x, &y, n > MANY ? 1.4 : 2.2, (atvi_style){.stroke = ink, .opacity = 0.8});
    }
  return f;
}

atvi_frame atvi_report_panel_left_errors(atvi_canvas *c, atvi_box box, atvi_idx n, const double *observed,
                                         const double *predicted, const double *sd) {
  double low = HUGE_VAL, high = -HUGE_VAL, most = 3;
  for (atvi_idx i = 0; i < n; i++)
    if (known(i, observed, predicted, sd) && sd[i] > 0) {
      low = fmin(low, predicted[i]);
      high = fmax(high, predicted[i]);
      most = fmax(most, fabs(observed[i] - predicted[i]) / sd[i]);
    }
  atvi_frame f = atvi_report_panel_frame(box, atvi_report_scale_of(low, high, 0.03),
                                         atvi_report_scale_of(-most, most, 0.05), true, TICKS);
  atvi_report_frame_draw(
      c, &f,
      &(atvi_frame_opts){
          .title = "Errors", .x = "the emulator's", .y = "in its standard deviations", .ticks_y = TICKS});
  for (int k = -2; k <= 2; k += 2) {
    double y = atvi_report_frame_y(&f, k);
    atvi_report_draw_line(c, f.x, y, f.x + f.width, y,
                          (atvi_style){.stroke = ATVI_INK_MUTED, .dash = k != 0});
  }
  for (atvi_idx i = 0; i < n; i++) {
    if (!known(i, observed, predicted, sd) || !(sd[i] > 0)) continue;
    double x = atvi_report_frame_x(&f, predicted[i]),
           y = atvi_report_frame_y(&f, (observed[i] - predicted[i]) / sd[i]);
    atvi_report_draw_dots(
        c, 1, &x, &y, n > MANY ? 1.4 : 2.2,
        (atvi_style){.stroke = missed(i, observed, predicted, sd) ? ATVI_INK_HELD : ATVI_INK_MAIN,
                     .opacity = 0.8});
  }
  return f;
}

/* ---- lines ---- */

/* Draws if there is a canvas. Returns the height. */
static double legend(atvi_canvas *c, atvi_box box, const atvi_frame *f, const atvi_line_plot *p) {
  atvi_legend l = {.left = f->x, .top = box.y + 30, .right = f->x + f->width};
  for (atvi_idx k = 0; p->name && k < p->n_line; k++) atvi_report_legend_put(c, &l, k, p->name[k]);
  return l.height;
}

atvi_frame atvi_report_panel_lines(atvi_canvas *c, atvi_box box, const atvi_line_plot *p) {
  double low = p->ends[0], high = p->ends[1];
  for (atvi_idx k = 0; k < p->n_line; k++)
    for (atvi_idx i = 0; i < p->n; i++) {
      double v = p->value[k][i];
      if (!isfinite(v)) continue;
      if (isnan(p->ends[0])) low = fmin(low, v); /* fmin leaves out NaN */
      if (isnan(p->ends[1])) high = fmax(high, v);
    }
  atvi_scale up = isnan(p->ends[0]) || isnan(p->ends[1]) ? atvi_report_scale_of(low, high, 0.05)
                                                         : (atvi_scale){.low = low, .high = high};
  double first = p->n > 0 ? p->x[0] : 0, last = p->n > 0 ? p->x[p->n - 1] : 1;
  atvi_frame f = atvi_report_panel_frame(box, atvi_report_scale_of(first, last, 0.02), up, true, TICKS);
  double names = legend(NULL, box, &f, p);
  f.y += names;
  f.height -= names;
  atvi_report_frame_draw(c, &f, &(atvi_frame_opts){.x = p->x_name, .ticks_y = TICKS});
  atvi_report_draw_text(c, f.x, box.y + 16, (atvi_label){.size = ATVI_FONT_SIZE + 1, .bold = true}, p->title);
  legend(c, box, &f, p);
  atvi_report_draw_clip(c, f.x, f.y, f.width, f.height);
  for (atvi_idx k = 0; k < p->n_line; k++)
    atvi_report_plot_line(c, &f, p->n, p->x, p->value[k],
                          (atvi_style){.stroke = atvi_report_ink_of(k), .width = 1.6});
  atvi_report_draw_end(c);
  return f;
}
