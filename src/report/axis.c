/* SPDX-License-Identifier: MIT */
#include "report/canvas.h"
#include "io/csv.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

#define MINUS "\xe2\x88\x92"
#define EDGE 1e-9 /* relative to the length: a tick at the very end is inside */

/* ---- numbers ---- */

/* With a real minus sign. */
static void put_minus(char out[ATVI_TICK_LABEL], const char *s) {
  size_t n = 0;
  for (; *s && n + 4 < ATVI_TICK_LABEL; s++) {
    if (*s == '-') {
      memcpy(out + n, MINUS, 3);
      n += 3;
    } else {
      out[n++] = *s;
    }
  }
  out[n] = 0;
}

/* "2.1e-07" becomes "2.1e-7". */
static void trim_exponent(char *s) {
  char *e = strchr(s, 'e');
  if (!e) return;
  char *from = e + 1, *to = e + 1;
  if (*from == '-') to++, from++;
  if (*from == '+') from++;
  while (*from == '0' && from[1]) from++;
  memmove(to, from, strlen(from) + 1);
}

void atvi_report_write_number(char out[ATVI_TICK_LABEL], double x, int digits) {
  char s[64];
  double a = fabs(x);
  if (!isfinite(x)) {
    snprintf(out, ATVI_TICK_LABEL, isnan(x) ? "\xe2\x80\x93" : x > 0 ? "inf" : MINUS "inf");
    return;
  }
  if (a >= 1e-4 && a < 1e6) {
    int decimals = digits - 1 - (int)floor(log10(a));
    snprintf(s, sizeof s, "%.*f", decimals < 0 ? 0 : decimals, x);
  } else {
    snprintf(s, sizeof s, "%.*g", digits, x);
  }
  trim_exponent(s);
  put_minus(out, s);
}

/* ---- dates ---- */

static const char *const MONTH[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                    "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};

void atvi_report_write_time(char out[ATVI_TICK_LABEL], double t, atvi_calendar calendar) {
  double day = floor(atvi_io_calendar_day(calendar, t) + EDGE);
  if (!(calendar.unit > 0) || !(fabs(day) < 1e7)) {
    char s[64];
    snprintf(s, sizeof s, "%.6g", t);
    put_minus(out, s);
    return;
  }
  int y, m, d;
  atvi_io_date_from_days((int64_t)day, &y, &m, &d);
  snprintf(out, ATVI_TICK_LABEL, "%d-%02d-%02d", y, m, d);
}

/* Steps in days or months: the finest that gives no more ticks than wanted. */
static const struct {
  int days, months;
} EVERY[] = {{1, 0}, {2, 0},  {7, 0},  {14, 0}, {0, 1},   {0, 2},   {0, 3},
             {0, 6}, {0, 12}, {0, 24}, {0, 60}, {0, 120}, {0, 600}, {0, 1200}};

static void date_label(char out[ATVI_TICK_LABEL], int64_t day, int months) {
  int y, m, d;
  atvi_io_date_from_days(day, &y, &m, &d);
  if (months >= 12)
    snprintf(out, ATVI_TICK_LABEL, "%d", y);
  else if (months)
    snprintf(out, ATVI_TICK_LABEL, "%s %d", MONTH[m - 1], y);
  else
    snprintf(out, ATVI_TICK_LABEL, "%d %s", d, MONTH[m - 1]);
}

/* The first such day at or after `day`. */
static int64_t first_day(int64_t day, int days, int months) {
  if (days) {
    int64_t past = (day + 3) % days; /* day -3 was a Monday */
    return past == 0 ? day : day + days - (past < 0 ? past + days : past);
  }
  int y, m, d;
  atvi_io_date_from_days(day, &y, &m, &d);
  int64_t index = (int64_t)y * 12 + m - 1 + (d > 1);
  index = (index + months - 1) / months * months;
  return atvi_io_days_from_date((int)(index / 12), (int)(index % 12) + 1, 1);
}

static int64_t next_day(int64_t day, int days, int months) {
  return days ? day + days : first_day(day + 1, days, months);
}

static int date_ticks(const atvi_scale *s, int want, atvi_tick tick[ATVI_TICKS]) {
  atvi_calendar c = s->calendar;
  double low = atvi_io_calendar_day(c, s->low), high = atvi_io_calendar_day(c, s->high);
  size_t k = 0, last = sizeof EVERY / sizeof *EVERY - 1;
  while (k < last && (high - low) / (EVERY[k].days ? EVERY[k].days : 30.44 * EVERY[k].months) > want) k++;
  int n = 0;
  for (int64_t day = first_day((int64_t)ceil(low - EDGE), EVERY[k].days, EVERY[k].months);
       (double)day <= high && n < ATVI_TICKS; day = next_day(day, EVERY[k].days, EVERY[k].months)) {
    tick[n].at = atvi_io_calendar_time(c, (double)day);
    date_label(tick[n++].label, day, EVERY[k].months);
  }
  return n;
}

/* ---- ticks ---- */

/* 1, 2 or 5 times a power of ten, so that there are at most as many ticks as wanted, or one more if there
 * would be one or two. */
static double nice_step(double low, double high, int want) {
  double raw = (high - low) / want, unit = pow(10, floor(log10(raw))), m = raw / unit;
  double step = unit * (m <= 1 ? 1 : m <= 2 ? 2 : m <= 5 ? 5 : 10);
  double finer = m <= 1 ? 0.5 * unit : m <= 2 ? unit : m <= 5 ? 2 * unit : 5 * unit;
  double now = floor(high / step) - ceil(low / step) + 1, then = floor(high / finer) - ceil(low / finer) + 1;
  return now < 3 && then <= want + 1 ? finer : step;
}

static void plain_label(char out[ATVI_TICK_LABEL], double v, double step, double largest) {
  char s[64];
  int decimals = -(int)floor(log10(step) + EDGE);
  if (largest >= 1e6 || largest < 1e-4)
    snprintf(s, sizeof s, "%.4g", v);
  else
    snprintf(s, sizeof s, "%.*f", decimals < 0 ? 0 : decimals, v);
  if (v == 0) snprintf(s, sizeof s, "0");
  trim_exponent(s);
  put_minus(out, s);
}

static int plain_ticks(const atvi_scale *s, int want, atvi_tick tick[ATVI_TICKS]) {
  double length = s->high - s->low, step = nice_step(s->low, s->high, want);
  double first = ceil(s->low / step - EDGE), largest = fmax(fabs(s->low), fabs(s->high));
  int n = 0;
  for (double k = first; k * step <= s->high + EDGE * length && n < ATVI_TICKS; k++) {
    tick[n].at = k * step;
    plain_label(tick[n++].label, k * step, step, largest);
  }
  return n;
}

/* Powers of ten; if there are fewer than three, also 2 and 5 times them; if these are few too, round
 * numbers. */
static int log_ticks(const atvi_scale *s, int want, atvi_tick tick[ATVI_TICKS]) {
  int from = (int)ceil(log10(s->low) - EDGE), to = (int)floor(log10(s->high) + EDGE);
  int every = (to - from) / want + 1, n = 0;
  static const double part[] = {1, 2, 5};
  int parts = to - from < 2 ? 3 : 1;
  for (int e = (parts == 3 ? from - 1 : from); e <= to && n < ATVI_TICKS; e += every)
    for (int k = 0; k < parts && n < ATVI_TICKS; k++) {
      double v = part[k] * pow(10, e);
      if (v < s->low * (1 - EDGE) || v > s->high * (1 + EDGE)) continue;
      tick[n].at = v;
      atvi_report_write_number(tick[n++].label, v, 1);
    }
  return n < 2 ? plain_ticks(s, want, tick) : n;
}

int atvi_report_ticks(const atvi_scale *s, int want, atvi_tick tick[ATVI_TICKS]) {
  if (!(s->low < s->high) || want < 1) return 0;
  if (s->calendar.unit > 0) return date_ticks(s, want, tick);
  return s->log ? log_ticks(s, want, tick) : plain_ticks(s, want, tick);
}

atvi_scale atvi_report_scale_of(double low, double high, double pad) {
  if (!isfinite(low)) low = isfinite(high) ? high : 0;
  if (!isfinite(high) || high < low) high = low;
  double length = high - low;
  if (!(length > 1e-12 * fmax(fabs(low), fabs(high)))) {
    length = low != 0 ? fabs(low) : 1;
    pad = 0.5;
  }
  return (atvi_scale){.low = low - pad * length, .high = high + pad * length};
}

/* ---- frames ---- */

static double along(const atvi_scale *s, double v) {
  if (s->log) return v > 0 ? log(v / s->low) / log(s->high / s->low) : NAN;
  return (v - s->low) / (s->high - s->low);
}

double atvi_report_frame_x(const atvi_frame *f, double v) { return f->x + f->width * along(&f->across, v); }
double atvi_report_frame_y(const atvi_frame *f, double v) {
  return f->y + f->height * (1 - along(&f->up, v));
}

static const double BESIDE = 10, /* least margin left and right of every frame */
    WIDER = 1.1;                 /* width of other fonts of a page, relative to Helvetica */

double atvi_report_frame_left(const atvi_scale *up, int ticks) {
  atvi_tick tick[ATVI_TICKS];
  double most = 0;
  int n = atvi_report_ticks(up, ticks > 0 ? ticks : 5, tick);
  for (int i = 0; i < n; i++)
    most = fmax(most, atvi_report_text_width(tick[i].label, ATVI_FONT_SIZE - 1, false));
  return WIDER * most + 8;
}

static void draw_across(atvi_canvas *c, const atvi_frame *f, const atvi_frame_opts *o) {
  atvi_tick tick[ATVI_TICKS];
  double bottom = f->y + f->height, room = f->across.calendar.unit > 0 ? 80 : 60, end = -HUGE_VAL;
  int want = o->ticks_x > 0 ? o->ticks_x : (int)fmax(2, f->width / room),
      n = o->no_x ? 0 : atvi_report_ticks(&f->across, want, tick);
  atvi_report_draw_group(c, "ax");
  for (int i = 0; i < n; i++) {
    double x = atvi_report_frame_x(f, tick[i].at),
           half = WIDER * atvi_report_text_width(tick[i].label, ATVI_FONT_SIZE - 1, false) / 2;
    atvi_report_draw_line(c, x, f->y, x, bottom, (atvi_style){.stroke = ATVI_INK_GRID});
    /* labels at the ends are moved inwards rather than outside the figure */
    double at = fmax(f->x - BESIDE + half, fmin(x, f->x + f->width + BESIDE - half));
    if (at - half < end + 6) continue; /* labels never touch */
    end = at + half;
    atvi_report_draw_text(c, at, bottom + 15,
                          (atvi_label){ATVI_ANCHOR_MIDDLE, ATVI_FONT_SIZE - 1, ATVI_INK_MUTED, false, false},
                          tick[i].label);
  }
  atvi_report_draw_end(c);
  if (o->x)
    atvi_report_draw_text(c, f->x + f->width / 2, bottom + 31,
                          (atvi_label){ATVI_ANCHOR_MIDDLE, ATVI_FONT_SIZE, ATVI_INK_MUTED, false, false},
                          o->x);
}

static void draw_up(atvi_canvas *c, const atvi_frame *f, const atvi_frame_opts *o) {
  atvi_tick tick[ATVI_TICKS];
  int want = o->ticks_y > 0 ? o->ticks_y : (int)fmax(2, fmin(6, f->height / 32));
  int n = o->no_y ? 0 : atvi_report_ticks(&f->up, want, tick);
  for (int i = 0; i < n; i++) {
    double y = atvi_report_frame_y(f, tick[i].at);
    atvi_report_draw_line(c, f->x, y, f->x + f->width, y, (atvi_style){.stroke = ATVI_INK_GRID});
    atvi_report_draw_text(c, f->x - 6, y + 4,
                          (atvi_label){ATVI_ANCHOR_END, ATVI_FONT_SIZE - 1, ATVI_INK_MUTED, false, false},
                          tick[i].label);
  }
}

void atvi_report_frame_draw(atvi_canvas *c, const atvi_frame *f, const atvi_frame_opts *o) {
  double bottom = f->y + f->height;
  draw_across(c, f, o);
  draw_up(c, f, o);
  atvi_report_draw_line(c, f->x, bottom, f->x + f->width, bottom, (atvi_style){.stroke = ATVI_INK_MUTED});
  if (o->title)
    atvi_report_draw_text(c, f->x, f->y - 8, (atvi_label){.size = ATVI_FONT_SIZE + 1, .bold = true},
                          o->title);
  if (o->y)
    atvi_report_draw_text(c, f->x + f->width, f->y - 8,
                          (atvi_label){ATVI_ANCHOR_END, ATVI_FONT_SIZE - 1, ATVI_INK_MUTED, false, false},
                          o->y);
}

/* ---- plots ---- */

enum { CHUNK = 512 };

void atvi_report_plot_line(atvi_canvas *c, const atvi_frame *f, atvi_idx n, const double *x, const double *y,
                           atvi_style style) {
  double px[CHUNK], py[CHUNK];
  /* chunks share an end, so that the line has no gaps */
  for (atvi_idx from = 0; from < n - 1 || (from == 0 && n == 1); from += CHUNK - 1) {
    atvi_idx m = n - from < CHUNK ? n - from : CHUNK;
    for (atvi_idx i = 0; i < m; i++) {
      px[i] = atvi_report_frame_x(f, x[from + i]);
      py[i] = atvi_report_frame_y(f, y[from + i]);
    }
    atvi_report_draw_path(c, m, px, py, false, style);
  }
}

void atvi_report_plot_band(atvi_canvas *c, const atvi_frame *f, atvi_idx n, const double *x,
                           const double *low, const double *high, atvi_style style) {
  double px[CHUNK], py[CHUNK], qy[CHUNK];
  for (atvi_idx from = 0; from < n - 1; from += CHUNK - 1) {
    atvi_idx m = n - from < CHUNK ? n - from : CHUNK;
    for (atvi_idx i = 0; i < m; i++) {
      px[i] = atvi_report_frame_x(f, x[from + i]);
      py[i] = atvi_report_frame_y(f, low[from + i]);
      qy[i] = atvi_report_frame_y(f, high[from + i]);
    }
    atvi_report_draw_band(c, m, px, py, qy, style);
  }
}

void atvi_report_plot_dots(atvi_canvas *c, const atvi_frame *f, atvi_idx n, const double *x, const double *y,
                           double radius, atvi_style style) {
  double px[CHUNK], py[CHUNK];
  for (atvi_idx from = 0; from < n; from += CHUNK) {
    atvi_idx m = n - from < CHUNK ? n - from : CHUNK;
    for (atvi_idx i = 0; i < m; i++) {
      px[i] = atvi_report_frame_x(f, x[from + i]);
      py[i] = atvi_report_frame_y(f, y[from + i]);
    }
    atvi_report_draw_dots(c, m, px, py, radius, style);
  }
}
