/* SPDX-License-Identifier: MIT */
/* The smaller figures: numbers with their errors, pairs and bounds, how the draws were made, emulators. */
#include "report/figure.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- shared by panels ---- */

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

/* Colour of the k-th of several things. */
static atvi_ink ink_of(atvi_idx k) { return (atvi_ink)(ATVI_INK_CHAIN + k % ATVI_INK_CHAINS); }

/* c NULL: measures */
static void legend_put(atvi_canvas *c, atvi_legend *l, atvi_idx k, const char *name) {
  static const double GAP = 16, LINE = 17;
  double mark = l->dots ? 13 : 20, x = l->left + l->used,
         room = mark + WIDER * atvi_report_text_width(name, ATVI_FONT_SIZE, false);
  if (l->used > 0 && x + room > l->right) x = l->left, l->used = 0, l->height += LINE;
  if (l->height == 0) l->height = LINE;
  double y = l->top + l->height - LINE + 4, middle = x + 5;
  if (c && l->dots)
    atvi_report_draw_dots(c, 1, &middle, &y, 4, (atvi_style){.stroke = ink_of(k)});
  else if (c)
    atvi_report_draw_line(c, x, y, x + mark - 6, y, (atvi_style){.stroke = ink_of(k), .width = 2.4});
  if (c) atvi_report_draw_text(c, x + mark, y + 4, (atvi_label){.ink = ATVI_INK_MUTED}, name);
  l->used += room + GAP;
}

size_t atvi_report_array_name(const char *name) {
  const char *dot = strchr(name, '.');
  return dot && dot[1] >= '0' && dot[1] <= '9' ? (size_t)(dot - name) : 0;
}

/* ---- numbers with their errors, in one row for each thing compared ---- */

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
  for (atvi_idx k = 0; p->n > 1 && k < p->n; k++) legend_put(c, &l, k, p->of[k].name);
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
                          (atvi_style){.stroke = ink_of(k), .width = 1.5});
  atvi_report_draw_dots(c, 1, &x, &y, p->n > 3 ? 3 : 4, (atvi_style){.stroke = ink_of(k)});
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

/* Pairs of quantities, and how much of the posterior is at the bounds. */

static const double LEFT = 46, UNDER = 34, GAP = 6;

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
  double room = fmin(atvi_report_canvas_width(c) - LEFT - 4, atvi_report_canvas_height(c) - 6 - UNDER);
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

/* How the draws were made: training and weights of an approximation, chains of a sampler. */

static atvi_frame frame_of(atvi_box box, atvi_scale across, atvi_scale up) {
  return atvi_report_panel_frame(box, across, up, true, 0);
}

/* ---- training ---- */

static const double FALL = 0.5; /* nats: smaller changes are noise of training */

bool atvi_report_step_has_elbo(const atvi_progress *s, bool hot) {
  return isfinite(s->elbo) && (s->temperature > 1) == hot;
}

typedef double field(const atvi_progress *s);
static double elbo_of(const atvi_progress *s) { return atvi_report_step_has_elbo(s, false) ? s->elbo : NAN; }
static double hot_elbo_of(const atvi_progress *s) {
  return atvi_report_step_has_elbo(s, true) ? s->elbo : NAN;
}
static double temperature_of(const atvi_progress *s) { return s->temperature; }

static void range_of(atvi_idx n, const atvi_progress *step, field *get, double x[2], double y[2]) {
  x[0] = y[0] = HUGE_VAL;
  x[1] = y[1] = -HUGE_VAL;
  for (atvi_idx i = 0; i < n; i++) {
    double v = get(&step[i]), a = step[i].steps;
    if (!isfinite(v) || !isfinite(a)) continue;
    x[0] = fmin(x[0], a), x[1] = fmax(x[1], a);
    y[0] = fmin(y[0], v), y[1] = fmax(y[1], v);
  }
}

/* A line ends where another component starts: there the ELBO falls by more than `fall`. */
static void plot_field(atvi_canvas *c, const atvi_frame *f, atvi_idx n, const atvi_progress *step, field *get,
                       double fall) {
  enum { ROOM = 256 };
  double px[ROOM], py[ROOM], part = NAN;
  atvi_idx m = 0;
  atvi_report_draw_clip(c, f->x - 3, f->y - 3, f->width + 6, f->height + 6);
  for (atvi_idx i = 0; i <= n; i++) {
    if (m == ROOM || (i == n && m > 0)) {
      atvi_report_plot_line(c, f, m, px, py, (atvi_style){.stroke = ATVI_INK_MAIN, .width = 1.6});
      atvi_report_plot_dots(c, f, m, px, py, 2.2, (atvi_style){.stroke = ATVI_INK_MAIN});
      if (i < n) px[0] = px[m - 1], py[0] = py[m - 1], m = 1;
    }
    if (i == n) break;
    double v = get(&step[i]), a = step[i].steps;
    if (!isfinite(v) || !isfinite(a)) continue;
    bool other = m > 0 && isfinite(fall) && (step[i].part != part || v < py[m - 1] - fall);
    part = step[i].part;
    if (other && m < ROOM - 1) px[m] = py[m] = NAN, m++;
    px[m] = a, py[m++] = v;
  }
  atvi_report_draw_end(c);
}

atvi_frame atvi_report_panel_elbo(atvi_canvas *c, atvi_box box, atvi_idx n, const atvi_progress *step,
                                  bool hot, double log_evidence) {
  double x[2], y[2];
  field *get = hot ? hot_elbo_of : elbo_of;
  range_of(n, step, get, x, y);
  if (isfinite(log_evidence)) y[0] = fmin(y[0], log_evidence), y[1] = fmax(y[1], log_evidence);
  atvi_frame f =
      frame_of(box, atvi_report_scale_of(x[0], x[1], 0.03), atvi_report_scale_of(y[0], y[1], 0.08));
  atvi_report_frame_draw(
      c, &f,
      &(atvi_frame_opts){.title = hot ? "ELBO at higher temperatures" : "ELBO at temperature 1",
                         .y = isfinite(log_evidence) ? "dashed: log evidence" : NULL,
                         .x = "training steps"});
  if (isfinite(log_evidence)) {
    double at = atvi_report_frame_y(&f, log_evidence);
    atvi_report_draw_line(c, f.x, at, f.x + f.width, at,
                          (atvi_style){.stroke = ATVI_INK_PRIOR, .dash = true});
  }
  plot_field(c, &f, n, step, get, hot ? HUGE_VAL : fmax(FALL, 0.2 * (y[1] - y[0])));
  return f;
}

atvi_frame atvi_report_panel_temperature(atvi_canvas *c, atvi_box box, atvi_idx n,
                                         const atvi_progress *step) {
  double x[2], y[2];
  range_of(n, step, temperature_of, x, y);
  atvi_scale up = {.low = 0.9, .high = fmax(10, 1.3 * y[1]), .log = true};
  atvi_frame f = frame_of(box, atvi_report_scale_of(x[0], x[1], 0.03), up);
  atvi_report_frame_draw(c, &f, &(atvi_frame_opts){.title = "Temperature", .x = "training steps"});
  plot_field(c, &f, n, step, temperature_of, HUGE_VAL);
  return f;
}

/* ---- weights ---- */

enum { SHOWN = 200 };

atvi_frame atvi_report_panel_weights(atvi_canvas *c, atvi_box box, atvi_idx n, const double *weight,
                                     double khat, double *work) {
  double px[SHOWN], py[SHOWN], top = 1, least = 1;
  atvi_idx good = 0, m = 0;
  for (atvi_idx i = 0; i < n; i++)
    if (weight[i] > 0) work[good++] = weight[i] * (double)n;
  atvi_math_sort(good, work, NULL, work + n);
  /* ranks evenly spaced on their logarithmic axis */
  for (int k = 0; k < SHOWN && good > 0; k++) {
    double rank = floor(pow((double)good, (double)k / (SHOWN - 1)) + 0.5);
    if (m > 0 && rank <= px[m - 1]) continue;
    px[m] = rank;
    py[m] = work[good - (atvi_idx)rank];
    top = fmax(top, py[m]);
    least = fmin(least, py[m++]);
  }
  double few = good > 0 ? work[good / 100] : 1; /* 99 % are larger */
  atvi_scale up = {.low = fmin(0.3, fmax(1e-3, few)) / 1.2, .high = fmax(3, 1.5 * top), .log = true};
  atvi_frame f =
      frame_of(box, (atvi_scale){.low = 0.8, .high = 1.2 * fmax(10, (double)good), .log = true}, up);
  atvi_report_frame_draw(
      c, &f, &(atvi_frame_opts){.title = "Weights, largest first", .y = "1: the average draw", .x = "rank"});
  atvi_report_draw_clip(c, f.x, f.y, f.width, f.height);
  double one = atvi_report_frame_y(&f, 1), tail = fmin(0.2 * (double)n, 3 * sqrt((double)n));
  atvi_report_draw_line(c, f.x, one, f.x + f.width, one,
                        (atvi_style){.stroke = ATVI_INK_PRIOR, .dash = true});
  atvi_report_plot_line(c, &f, m, px, py, (atvi_style){.stroke = ATVI_INK_MAIN, .width = 1.8});
  atvi_idx in_tail = 0; /* the weights behind k-hat */
  while (in_tail < m && px[in_tail] <= tail) in_tail++;
  if (isfinite(khat))
    atvi_report_plot_line(c, &f, in_tail, px, py, (atvi_style){.stroke = ATVI_INK_HELD, .width = 2.6});
  atvi_report_draw_end(c);
  return f;
}

/* ---- chains ---- */

atvi_frame atvi_report_panel_trace(atvi_canvas *c, atvi_box box, const char *name, atvi_idx n_chain,
                                   atvi_idx n, const double *x, atvi_idx points) {
  double px[256], py[256], low = HUGE_VAL, high = -HUGE_VAL;
  for (atvi_idx i = 0; i < n_chain * n; i++)
    if (isfinite(x[i])) low = fmin(low, x[i]), high = fmax(high, x[i]);
  atvi_frame f = frame_of(box, (atvi_scale){.low = 0, .high = fmax(1, (double)n)},
                          atvi_report_scale_of(low, high, 0.05));
  atvi_report_frame_draw(c, &f, &(atvi_frame_opts){.title = name, .x = "draw"});
  atvi_idx each = points / n_chain;
  each = each > 256 ? 256 : each < 2 ? 2 : each;
  if (each > n) each = n;
  for (atvi_idx k = 0; k < n_chain; k++) {
    for (atvi_idx i = 0; i < each; i++) {
      atvi_idx at = i * n / each;
      px[i] = (double)at + 0.5;
      py[i] = x[k * n + at];
    }
    atvi_report_plot_line(c, &f, each, px, py,
                          (atvi_style){.stroke = ink_of(k), .width = 0.8, .opacity = 0.7});
  }
  return f;
}

enum { BINS = 20, BINS_LEAST = 5, PER_BIN = 25 }; /* draws of a chain in a bin, if there are enough */

/* xs, ws: the sorted draws, with the number of the chain of each. */
static void count_ranks(atvi_idx n_chain, atvi_idx n, atvi_idx bins, const double *chain, double *share) {
  atvi_idx all = n_chain * n;
  memset(share, 0, (size_t)(n_chain * bins) * sizeof *share);
  for (atvi_idx i = 0; i < all; i++)
    share[(atvi_idx)chain[i] * bins + i * bins / all] += (double)bins / (double)n;
}

atvi_frame atvi_report_panel_ranks(atvi_canvas *c, atvi_box box, const char *name, atvi_idx n_chain,
                                   atvi_idx n, const double *x, double *work) {
  atvi_idx all = n_chain * n, bins = n / PER_BIN;
  bins = bins < BINS_LEAST ? BINS_LEAST : bins > BINS ? BINS : bins;
  double *xs = work, *chain = xs + all, *share = chain + all, top = 1.5;
  for (atvi_idx i = 0; i < all; i++) xs[i] = x[i], chain[i] = (double)(i / n);
  atvi_math_sort(all, xs, chain, share);
  count_ranks(n_chain, n, bins, chain, share);
  for (atvi_idx i = 0; i < n_chain * bins; i++) top = fmax(top, share[i]);
  atvi_frame f = frame_of(box, (atvi_scale){.low = 0, .high = 1}, atvi_report_scale_of(0, 1.05 * top, 0));
  atvi_report_frame_draw(c, &f,
                         &(atvi_frame_opts){.title = name, .x = "rank among all chains", .ticks_x = 5});
  for (atvi_idx k = 0; k < n_chain; k++) {
    double px[2 * BINS], py[2 * BINS];
    for (atvi_idx b = 0; b < bins; b++) {
      px[2 * b] = (double)b / (double)bins, px[2 * b + 1] = (double)(b + 1) / (double)bins;
      py[2 * b] = py[2 * b + 1] = share[k * bins + b];
    }
    atvi_report_plot_line(c, &f, 2 * bins, px, py,
                          (atvi_style){.stroke = ink_of(k), .width = 1, .opacity = 0.7});
  }
  double one = atvi_report_frame_y(&f, 1);
  atvi_report_draw_line(c, f.x, one, f.x + f.width, one, (atvi_style){.stroke = ATVI_INK_TEXT, .dash = true});
  return f;
}

/* How well an emulator predicts runs it has not seen. */

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
static double line_legend(atvi_canvas *c, atvi_box box, const atvi_frame *f, const atvi_line_plot *p) {
  atvi_legend l = {.left = f->x, .top = box.y + 30, .right = f->x + f->width};
  for (atvi_idx k = 0; p->name && k < p->n_line; k++) legend_put(c, &l, k, p->name[k]);
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
  double names = line_legend(NULL, box, &f, p);
  f.y += names;
  f.height -= names;
  atvi_report_frame_draw(c, &f, &(atvi_frame_opts){.x = p->x_name, .ticks_y = TICKS});
  atvi_report_draw_text(c, f.x, box.y + 16, (atvi_label){.size = ATVI_FONT_SIZE + 1, .bold = true}, p->title);
  line_legend(c, box, &f, p);
  atvi_report_draw_clip(c, f.x, f.y, f.width, f.height);
  for (atvi_idx k = 0; k < p->n_line; k++)
    atvi_report_plot_line(c, &f, p->n, p->x, p->value[k], (atvi_style){.stroke = ink_of(k), .width = 1.6});
  atvi_report_draw_end(c);
  return f;
}
