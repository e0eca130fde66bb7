/* SPDX-License-Identifier: MIT */
/* How the draws were made: training and weights of an approximation, chains of a sampler. */
#include "report/figure.h"
#include <math.h>
#include <string.h>

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
                          (atvi_style){.stroke = atvi_report_ink_of(k), .width = 0.8, .opacity = 0.7});
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
                          (atvi_style){.stroke = atvi_report_ink_of(k), .width = 1, .opacity = 0.7});
  }
  double one = atvi_report_frame_y(&f, 1);
  atvi_report_draw_line(c, f.x, one, f.x + f.width, one, (atvi_style){.stroke = ATVI_INK_TEXT, .dash = true});
  return f;
}
