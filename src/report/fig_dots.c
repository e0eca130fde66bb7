/* SPDX-License-Identifier: MIT */
/* Numbers with their errors, in one row for each thing compared. */
#include "report/figure.h"
#include <math.h>
#include <string.h>

static const double ROW_LEAST = 26, EACH = 9, WIDTH = 640, TITLE = 30, BELOW = 40;

/* Ends of the bar through dot i; NaN: none. */
static void bar_of(const atvi_dots *d, atvi_idx i, double ends[2]) {
  double e = d->error ? d->error[i] : NAN;
  ends[0] = d->low ? d->low[i] : d->value[i] - e;
  ends[1] = d->high ? d->high[i] : d->value[i] + e;
}

static atvi_scale axis_of(const atvi_dot_plot *p) {
  double low = p->mark, high = p->mark;
  for (atvi_idx k = 0; k < p->n; k++)
    for (atvi_idx i = 0; i < p->n_row; i++) {
      double v = p->of[k].value[i], bar[2];
      if (!isfinite(v) || (p->log && !(v > 0))) continue;
      bar_of(&p->of[k], i, bar);
      low = fmin(low, p->log || !isfinite(bar[0]) ? v : bar[0]); /* fmin leaves out NaN */
      high = fmax(high, isfinite(bar[1]) ? bar[1] : v);
    }
  if (isfinite(p->ends[0])) low = p->ends[0];
  if (isfinite(p->ends[1])) high = p->ends[1];
  if (p->log)
    return (atvi_scale){.low = low > 0 ? low / 1.5 : 0.1, .high = high > 0 ? high * 1.5 : 10, .log = true};
  return atvi_report_scale_of(low, high, isfinite(p->ends[0]) ? 0.02 : 0.06);
}

/* Height of a row, with room between its dots. */
static double row_of(const atvi_dot_plot *p) { return fmax(ROW_LEAST, EACH * ((double)p->n + 1)); }

/* Draws if there is a canvas. Returns the height. */
static double legend(atvi_canvas *c, const atvi_dot_plot *p, double left, double width) {
  atvi_legend l = {.left = left, .top = TITLE, .right = width, .dots = true};
  for (atvi_idx k = 0; p->n > 1 && k < p->n; k++) atvi_report_legend_put(c, &l, k, p->of[k].name);
  return l.height;
}

static void draw_one(atvi_canvas *c, const atvi_frame *f, const atvi_dot_plot *p, atvi_idx k, atvi_idx i) {
  double v = p->of[k].value[i], bar[2];
  double y = f->y + row_of(p) * ((double)i + ((double)k + 1) / ((double)p->n + 1)),
         x = atvi_report_frame_x(f, v);
  if (!isfinite(v) || !isfinite(x)) return;
  bar_of(&p->of[k], i, bar);
  if (isfinite(bar[0]) && bar[1] > bar[0] && isfinite(bar[1]) && !p->log)
    atvi_report_draw_line(c, atvi_report_frame_x(f, fmax(bar[0], f->across.low)), y,
                          atvi_report_frame_x(f, fmin(bar[1], p->ends[1])), y,
                          (atvi_style){.stroke = atvi_report_ink_of(k), .width = 1.5});
  atvi_report_draw_dots(c, 1, &x, &y, p->n > 3 ? 3 : 4, (atvi_style){.stroke = atvi_report_ink_of(k)});
}

atvi_canvas *atvi_report_figure_dots(atvi_pool *pool, const atvi_dot_plot *p) {
  double names = 60, row = row_of(p), width = p->width > 0 ? p->width : WIDTH;
  for (atvi_idx i = 0; i < p->n_row; i++)
    names =
        fmin(width / 3, fmax(names, 1.12 * atvi_report_text_width(p->row[i], ATVI_FONT_SIZE, false) + 16));
  double top = TITLE + legend(NULL, p, names, width);
  atvi_canvas *c = atvi_report_canvas_new(pool, width, top + row * (double)p->n_row + BELOW);
  atvi_frame f = {.x = names, .y = top, .width = width - names - 16, .height = row * (double)p->n_row};
  f.across = axis_of(p);
  f.up = (atvi_scale){.low = 0, .high = 1};
  atvi_report_draw_text(c, names, 16, (atvi_label){.size = ATVI_FONT_SIZE + 1, .bold = true}, p->title);
  atvi_report_frame_draw(c, &f, &(atvi_frame_opts){.x = p->axis, .no_y = true});
  legend(c, p, names, width);
  for (atvi_idx i = 0; i < p->n_row; i++) {
    double y = top + row * (double)i;
    if (i > 0) atvi_report_draw_line(c, f.x, y, f.x + f.width, y, (atvi_style){.stroke = ATVI_INK_GRID});
    atvi_report_draw_text(c, names - 8, y + row / 2 + 4, (atvi_label){.anchor = ATVI_ANCHOR_END}, p->row[i]);
    for (atvi_idx k = 0; k < p->n; k++) draw_one(c, &f, p, k, i);
  }
  if (isfinite(p->mark)) {
    double x = atvi_report_frame_x(&f, p->mark);
    atvi_report_draw_line(c, x, f.y, x, f.y + f.height, (atvi_style){.stroke = ATVI_INK_TEXT, .dash = true});
  }
  return c;
}

/* Shared by panels. */

static const double TOP = 30, BOTTOM = 22, BOTTOM_NAMED = 38, RIGHT = 12, /* margins, for title and ticks */
    LEFT_LEAST = 24, LABEL_GAP = 6, WIDER = 1.1; /* width of other fonts of a page, relative to Helvetica */

atvi_frame atvi_report_panel_frame(atvi_box box, atvi_scale across, atvi_scale up, bool named, int ticks) {
  double left = fmax(LEFT_LEAST, atvi_report_frame_left(&up, ticks)), bottom = named ? BOTTOM_NAMED : BOTTOM;
  return (atvi_frame){.x = box.x + left,
                      .y = box.y + TOP,
                      .width = box.width - left - RIGHT,
                      .height = box.height - TOP - bottom,
                      .across = across,
                      .up = up};
}

void atvi_report_frame_names(atvi_canvas *c, const atvi_frame *f, double first, atvi_idx n,
                             const char *const *name) {
  double end = -HUGE_VAL;
  for (atvi_idx i = 0; i < n; i++) {
    double x = atvi_report_frame_x(f, first + (double)i),
           half = atvi_report_text_width(name[i], ATVI_FONT_SIZE - 1, false) / 2;
    if (x - half < end + LABEL_GAP) continue;
    end = x + half;
    atvi_report_draw_text(c, x, f->y + f->height + 15,
                          (atvi_label){ATVI_ANCHOR_MIDDLE, ATVI_FONT_SIZE - 1, ATVI_INK_MUTED, false, false},
                          name[i]);
  }
}

atvi_ink atvi_report_ink_of(atvi_idx k) { return (atvi_ink)(ATVI_INK_CHAIN + k % ATVI_INK_CHAINS); }

void atvi_report_legend_put(atvi_canvas *c, atvi_legend *l, atvi_idx k, const char *name) {
  static const double GAP = 16, LINE = 17;
  double mark = l->dots ? 13 : 20, x = l->left + l->used,
         room = mark + WIDER * atvi_report_text_width(name, ATVI_FONT_SIZE, false);
  if (l->used > 0 && x + room > l->right) x = l->left, l->used = 0, l->height += LINE;
  if (l->height == 0) l->height = LINE;
  double y = l->top + l->height - LINE + 4, middle = x + 5;
  if (c && l->dots)
    atvi_report_draw_dots(c, 1, &middle, &y, 4, (atvi_style){.stroke = atvi_report_ink_of(k)});
  else if (c)
    atvi_report_draw_line(c, x, y, x + mark - 6, y,
                          (atvi_style){.stroke = atvi_report_ink_of(k), .width = 2.4});
  if (c) atvi_report_draw_text(c, x + mark, y + 4, (atvi_label){.ink = ATVI_INK_MUTED}, name);
  l->used += room + GAP;
}

size_t atvi_report_array_name(const char *name) {
  const char *dot = strchr(name, '.');
  return dot && dot[1] >= '0' && dot[1] <= '9' ? (size_t)(dot - name) : 0;
}

/* An array of parameters as one figure. */

static const double NARROW_BAR = 1.4, WIDE_BAR = 4;

static atvi_scale scale_of(atvi_idx n, const atvi_summary_column *col) {
  double low = NAN, high = NAN;
  for (atvi_idx i = 0; i < n; i++) {
    low = fmin(low, fmin(col[i].hpd95[0], col[i].quantile[1])); /* fmin leaves out NaN */
    high = fmax(high, fmax(col[i].hpd95[1], col[i].quantile[3]));
  }
  return atvi_report_scale_of(low, high, 0.06);
}

/* Elements are named by what follows the name of their array. */
static void label(atvi_canvas *c, const atvi_frame *f, const char *name, atvi_idx n,
                  const atvi_summary_column *col) {
  size_t skip = strlen(name) + 1;
  const char **text = c ? atvi_pool_take(c->pool, (size_t)n + 1, sizeof *text) : NULL;
  for (atvi_idx i = 0; text && i < n; i++)
    text[i] = strlen(col[i].name) > skip ? col[i].name + skip : col[i].name;
  if (text) atvi_report_frame_names(c, f, 0, n, text);
}

static void draw_bar(atvi_canvas *c, const atvi_frame *f, double x, double low, double high, double width) {
  if (isfinite(low) && isfinite(high))
    atvi_report_draw_line(c, x, atvi_report_frame_y(f, low), x, atvi_report_frame_y(f, high),
                          (atvi_style){.stroke = ATVI_INK_MAIN, .width = width, .opacity = 0.7});
}

atvi_frame atvi_report_panel_intervals(atvi_canvas *c, atvi_box box, const char *name, atvi_idx n,
                                       const atvi_summary_column *col) {
  atvi_scale across = {.low = -0.5, .high = (double)n - 0.5};
  atvi_frame f = atvi_report_panel_frame(box, across, scale_of(n, col), false, 0);
  double radius = n > 60 ? 1.8 : 3;
  atvi_report_frame_draw(c, &f, &(atvi_frame_opts){.title = name, .no_x = true});
  label(c, &f, name, n, col);
  for (atvi_idx i = 0; i < n; i++) {
    double x = atvi_report_frame_x(&f, (double)i), y = atvi_report_frame_y(&f, col[i].median);
    draw_bar(c, &f, x, col[i].hpd95[0], col[i].hpd95[1], NARROW_BAR);
    draw_bar(c, &f, x, col[i].quantile[1], col[i].quantile[3], n > 60 ? NARROW_BAR + 1 : WIDE_BAR);
    if (isfinite(y)) atvi_report_draw_dots(c, 1, &x, &y, radius, (atvi_style){.stroke = ATVI_INK_TEXT});
  }
  return f;
}
