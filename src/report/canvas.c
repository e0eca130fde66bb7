/* SPDX-License-Identifier: MIT */
#include "report/canvas.h"
#include <math.h>
#include <string.h>

static const struct {
  const char *name;
  unsigned rgb;
} INK[ATVI_INKS] = {
    {"none", 0},        {"text", 0x1b1f24},  {"muted", 0x5b6470}, {"grid", 0xdde2e8}, {"paper", 0xffffff},
    {"main", 0x1f5fa8}, {"prior", 0x7d8792}, {"data", 0x1b1f24},  {"held", 0xc2500c}, {"warn", 0xb42318},
    {"c1", 0x1f5fa8},   {"c2", 0xc2500c},    {"c3", 0x0b7a5c},    {"c4", 0x9a4a8f},   {"c5", 0x8a6d00},
    {"c6", 0x2a8fb5},   {"c7", 0x6b4fbb},    {"c8", 0x5b6470},
};

const char *atvi_report_ink_name(atvi_ink ink) { return INK[ink].name; }
unsigned atvi_report_ink_rgb(atvi_ink ink) { return INK[ink].rgb; }

atvi_canvas *atvi_report_canvas_new(atvi_pool *pool, double width, double height) {
  atvi_canvas *c = atvi_pool_take(pool, 1, sizeof *c);
  if (c) *c = (atvi_canvas){.pool = pool, .width = width, .height = height};
  return c;
}

double atvi_report_canvas_width(const atvi_canvas *c) { return c->width; }
double atvi_report_canvas_height(const atvi_canvas *c) { return c->height; }
atvi_idx atvi_report_canvas_shapes(const atvi_canvas *c) { return c->n_drawn; }

/* A shape with room for n points at *x, *y; NULL: out of memory, or no canvas. */
static atvi_shape *add(atvi_canvas *c, atvi_shape_kind kind, atvi_idx n, double **x, double **y) {
  if (!c) return NULL;
  *x = atvi_pool_take(c->pool, (size_t)(2 * n) + 1, sizeof **x);
  atvi_shape *bigger = *x ? atvi_pool_grow(c->pool, c->shape, c->n, &c->cap, sizeof *c->shape) : NULL;
  if (!bigger) return NULL;
  c->shape = bigger;
  *y = *x + n;
  atvi_shape *s = &c->shape[c->n++];
  *s = (atvi_shape){.kind = kind, .n = n, .x = *x, .y = *y};
  c->n_drawn += kind < ATVI_SHAPE_GROUP;
  return s;
}

void atvi_report_draw_path(atvi_canvas *c, atvi_idx n, const double *x, const double *y, bool closed,
                           atvi_style style) {
  double *px, *py;
  atvi_shape *s = n > 0 ? add(c, closed ? ATVI_SHAPE_AREA : ATVI_SHAPE_PATH, n, &px, &py) : NULL;
  if (!s) return;
  memcpy(px, x, (size_t)n * sizeof *x);
  memcpy(py, y, (size_t)n * sizeof *y);
  s->style = style;
}

static bool there(const double *x, const double *low, const double *high, atvi_idx i) {
  return isfinite(x[i]) && isfinite(low[i]) && isfinite(high[i]);
}

/* Runs of finite points become outlines: forward along low, back along high. */
void atvi_report_draw_band(atvi_canvas *c, atvi_idx n, const double *x, const double *low, const double *high,
                           atvi_style style) {
  double *px, *py;
  atvi_shape *s = n > 0 ? add(c, ATVI_SHAPE_AREA, 3 * n + 1, &px, &py) : NULL;
  if (!s) return;
  atvi_idx m = 0;
  for (atvi_idx i = 0, j; i < n; i = j) {
    for (j = i; j < n && there(x, low, high, j); j++) px[m] = x[j], py[m++] = low[j];
    for (atvi_idx k = j - 1; k >= i; k--) px[m] = x[k], py[m++] = high[k];
    if (j == i)
      j++;
    else
      px[m] = py[m] = NAN, m++;
  }
  s->n = m;
  s->style = style;
}

void atvi_report_draw_line(atvi_canvas *c, double x0, double y0, double x1, double y1, atvi_style style) {
  const double x[2] = {x0, x1}, y[2] = {y0, y1};
  atvi_report_draw_path(c, 2, x, y, false, style);
}

void atvi_report_draw_rect(atvi_canvas *c, double x, double y, double width, double height,
                           atvi_style style) {
  const double px[4] = {x, x + width, x + width, x}, py[4] = {y, y, y + height, y + height};
  atvi_report_draw_path(c, 4, px, py, true, style);
}

void atvi_report_draw_dots(atvi_canvas *c, atvi_idx n, const double *x, const double *y, double radius,
                           atvi_style style) {
  double *px, *py;
  atvi_idx m = 0;
  atvi_shape *s = n > 0 ? add(c, ATVI_SHAPE_DOTS, n, &px, &py) : NULL;
  if (!s) return;
  for (atvi_idx i = 0; i < n; i++)
    if (isfinite(x[i]) && isfinite(y[i])) px[m] = x[i], py[m++] = y[i];
  s->n = m;
  s->radius = radius;
  s->style = style;
}

void atvi_report_draw_text(atvi_canvas *c, double x, double y, atvi_label label, const char *text) {
  double *px, *py;
  atvi_shape *s = add(c, ATVI_SHAPE_TEXT, 1, &px, &py);
  if (!s) return;
  px[0] = x, py[0] = y;
  s->label = label;
  if (!(s->label.size > 0)) s->label.size = ATVI_FONT_SIZE;
  if (s->label.ink == ATVI_INK_NONE) s->label.ink = ATVI_INK_TEXT;
  s->text = atvi_pool_strndup(c->pool, text, strlen(text));
  if (!s->text) s->text = ""; /* the pool knows */
}

void atvi_report_draw_group(atvi_canvas *c, const char *name) {
  double *px, *py;
  atvi_shape *s = add(c, ATVI_SHAPE_GROUP, 0, &px, &py);
  if (s && name) s->text = atvi_pool_strndup(c->pool, name, strlen(name));
}

void atvi_report_draw_clip(atvi_canvas *c, double x, double y, double width, double height) {
  double *px, *py;
  atvi_shape *s = add(c, ATVI_SHAPE_CLIP, 2, &px, &py);
  if (!s) return;
  px[0] = x, py[0] = y;
  px[1] = x + width, py[1] = y + height;
}

void atvi_report_draw_end(atvi_canvas *c) {
  double *px, *py;
  (void)add(c, ATVI_SHAPE_END, 0, &px, &py);
}

/* Helvetica's widths, in thousandths of the font's size, for the characters of a PDF's WinAnsiEncoding: every
 * PDF reader has the font, so files need not embed it. */

/* 0x20 .. 0x7e */
static const short PLAIN[95] = {
    278, 278, 355, 556, 556, 889, 667, 191, 333, 333, 389, 584, 278, 333,  278, 278, 556, 556, 556,
    556, 556, 556, 556, 556, 556, 556, 278, 278, 584, 584, 584, 556, 1015, 667, 667, 722, 722, 667,
    611, 778, 722, 278, 500, 667, 556, 833, 722, 778, 667, 778, 722, 667,  611, 722, 667, 944, 667,
    667, 611, 278, 278, 278, 469, 556, 333, 556, 556, 500, 556, 556, 278,  556, 556, 222, 222, 500,
    222, 833, 556, 556, 556, 556, 333, 500, 278, 556, 500, 722, 500, 500,  500, 334, 260, 334, 584};
static const short BOLD[95] = {278, 333, 474, 556, 556, 889, 722, 238, 333, 333, 389, 584, 278, 333, 278, 278,
                               556, 556, 556, 556, 556, 556, 556, 556, 556, 556, 333, 333, 584, 584, 584, 611,
                               975, 722, 722, 722, 722, 667, 611, 778, 722, 278, 556, 722, 611, 833, 722, 778,
                               667, 778, 722, 667, 611, 722, 667, 944, 667, 667, 611, 333, 278, 333, 584, 556,
                               333, 556, 611, 556, 611, 556, 333, 611, 611, 278, 278, 556, 278, 889, 611, 611,
                               611, 611, 389, 556, 333, 611, 556, 778, 556, 556, 500, 389, 280, 389, 584};

/* Characters beyond Latin 1 that figures use. The minus sign is not in the encoding: the en dash looks the
 * same. */
static const struct {
  unsigned from;
  unsigned char to;
} OTHER[] = {{0x2212, 0x96}, {0x2013, 0x96}, {0x2014, 0x97}, {0x2018, 0x91}, {0x2019, 0x92},
             {0x201c, 0x93}, {0x201d, 0x94}, {0x2026, 0x85}, {0x2022, 0x95}, {0x20ac, 0x80}};

unsigned char atvi_report_font_byte(const char **at) {
  const unsigned char *s = (const unsigned char *)*at;
  int n = s[0] < 0x80 ? 1 : s[0] >= 0xc2 && s[0] < 0xe0 ? 2 : s[0] >= 0xe0 && s[0] < 0xf0 ? 3 : 1;
  unsigned code = n == 1 ? s[0] : n == 2 ? s[0] & 0x1fu : s[0] & 0x0fu;
  for (int i = 1; i < n; i++) {
    if ((s[i] & 0xc0) != 0x80) {
      n = i;
      code = 0xffff;
      break;
    }
    code = code << 6 | (s[i] & 0x3fu);
  }
  *at += n;
  if (n == 1) return code >= 0x20 && code < 0x7f ? (unsigned char)code : '?';
  if (code >= 0xa0 && code <= 0xff) return (unsigned char)code;
  for (size_t i = 0; i < sizeof OTHER / sizeof *OTHER; i++)
    if (OTHER[i].from == code) return OTHER[i].to;
  return '?';
}

double atvi_report_text_width(const char *text, double size, bool bold) {
  const short *width = bold ? BOLD : PLAIN;
  double sum = 0;
  while (*text) {
    unsigned char c = atvi_report_font_byte(&text);
    sum += c >= 0x20 && c < 0x7f ? width[c - 0x20] : 556; /* close enough for accents and dashes */
  }
  return sum * size / 1000;
}
