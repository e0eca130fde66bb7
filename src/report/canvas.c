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

/* The SVG writer. Coordinates have one decimal: a tenth of a pixel is invisible, and files stay small. Dots
 * are one path of empty strokes with round ends, a fifth of the bytes of circles. */

enum { BUFFER = 1024, NUMBER = 24 };

/* Length of the UTF-8 sequence at s; 0 if invalid. */
static int utf8(const unsigned char *s) {
  int n = s[0] < 0x80 ? 1 : s[0] >= 0xc2 && s[0] < 0xe0 ? 2 : s[0] >= 0xe0 && s[0] < 0xf0 ? 3 : 0;
  if (s[0] >= 0xf0 && s[0] < 0xf5) n = 4;
  for (int i = 1; i < n; i++)
    if ((s[i] & 0xc0) != 0x80) return 0;
  return n;
}

static const char *entity(char c) {
  switch (c) {
  case '<': return "&lt;";
  case '>': return "&gt;";
  case '&': return "&amp;";
  case '"': return "&quot;";
  case '\'': return "&#39;";
  default: return NULL;
  }
}

void atvi_report_text_escape(atvi_text *out, const char *s) {
  while (*s) {
    size_t plain = strcspn(s, "<>&\"'");
    for (size_t i = 0; i < plain;) {
      int n = utf8((const unsigned char *)s + i);
      bool control = (unsigned char)s[i] < 0x20 && s[i] != '\n' && s[i] != '\t';
      if (n > 1 || (n == 1 && !control)) {
        size_t from = i;
        while (i < plain && (n = utf8((const unsigned char *)s + i)) > 0 &&
               ((unsigned char)s[i] >= 0x20 || s[i] == '\n' || s[i] == '\t'))
          i += (size_t)n;
        atvi_io_text_add(out, "%.*s", (int)(i - from), s + from);
      } else {
        if (n == 0) atvi_io_text_add(out, "?");
        i++;
      }
    }
    s += plain;
    if (*s) atvi_io_text_add(out, "%s", entity(*s++));
  }
}

/* x with one decimal, which is omitted if 0. Returns the length. */
static int number(char out[NUMBER], double x) {
  double tenths = round(fmin(fmax(x, -1e7), 1e7) * 10);
  long long t = (long long)tenths, a = t < 0 ? -t : t;
  char *at = out, digits[NUMBER];
  int n = 0;
  if (t < 0) *at++ = '-';
  long long whole = a / 10;
  do digits[n++] = (char)('0' + whole % 10);
  while ((whole /= 10) > 0);
  while (n > 0) *at++ = digits[--n];
  if (a % 10) {
    *at++ = '.';
    *at++ = (char)('0' + a % 10);
  }
  *at = 0;
  return (int)(at - out);
}

typedef struct {
  atvi_text *out;
  int n;
  char text[BUFFER];
} buffer;

static void flush(buffer *b) {
  if (b->n) atvi_io_text_add(b->out, "%.*s", b->n, b->text);
  b->n = 0;
}

/* A command and a point, "M12.5 3". */
static void put_point(buffer *b, char command, double x, double y) {
  if (b->n + 2 * NUMBER + 2 > BUFFER) flush(b);
  if (command) b->text[b->n++] = command;
  b->n += number(b->text + b->n, x);
  if (y >= 0) b->text[b->n++] = ' '; /* a minus sign separates as well */
  b->n += number(b->text + b->n, y);
}

static void put_path(atvi_text *out, const atvi_shape *s) {
  buffer b = {.out = out};
  bool open = false;
  for (atvi_idx i = 0; i < s->n; i++) {
    if (!isfinite(s->x[i]) || !isfinite(s->y[i])) {
      if (open && s->kind == ATVI_SHAPE_AREA) flush(&b), atvi_io_text_add(out, "Z");
      open = false;
      continue;
    }
    put_point(&b, open ? 'L' : 'M', s->x[i], s->y[i]);
    open = true;
  }
  flush(&b);
  if (open && s->kind == ATVI_SHAPE_AREA) atvi_io_text_add(out, "Z");
}

static void put_dots(atvi_text *out, const atvi_shape *s) {
  buffer b = {.out = out};
  for (atvi_idx i = 0; i < s->n; i++) {
    put_point(&b, 'M', s->x[i], s->y[i]);
    b.text[b.n++] = 'h';
    b.text[b.n++] = '0';
  }
  flush(&b);
}

static void put_style(atvi_text *out, const atvi_style *s, double width) {
  atvi_io_text_add(out, " class=\"s-%s f-%s\"", atvi_report_ink_name(s->stroke),
                   atvi_report_ink_name(s->fill));
  if (s->stroke != ATVI_INK_NONE && width != 1) atvi_io_text_add(out, " stroke-width=\"%g\"", width);
  if (s->opacity > 0 && s->opacity < 1) atvi_io_text_add(out, " opacity=\"%g\"", s->opacity);
  if (s->dash) atvi_io_text_add(out, " stroke-dasharray=\"5 4\"");
}

static void put_text(atvi_text *out, const atvi_shape *s) {
  static const char *const anchor[] = {"start", "middle", "end"};
  char x[NUMBER], y[NUMBER];
  const atvi_label *l = &s->label;
  number(x, s->x[0]), number(y, s->y[0]);
  if (l->turned)
    atvi_io_text_add(out, "<text transform=\"translate(%s %s) rotate(-90)\"", x, y);
  else
    atvi_io_text_add(out, "<text x=\"%s\" y=\"%s\"", x, y);
  atvi_io_text_add(out, " class=\"f-%s\"", atvi_report_ink_name(l->ink));
  if (l->anchor != ATVI_ANCHOR_START) atvi_io_text_add(out, " text-anchor=\"%s\"", anchor[l->anchor]);
  if (l->size != ATVI_FONT_SIZE) atvi_io_text_add(out, " font-size=\"%g\"", l->size);
  if (l->bold) atvi_io_text_add(out, " font-weight=\"bold\"");
  atvi_io_text_add(out, ">");
  atvi_report_text_escape(out, s->text);
  atvi_io_text_add(out, "</text>");
}

static void put_clip(atvi_text *out, const atvi_shape *s, const char *id, atvi_idx k) {
  char x[NUMBER], y[NUMBER], w[NUMBER], h[NUMBER];
  number(x, s->x[0]), number(y, s->y[0]), number(w, s->x[1] - s->x[0]), number(h, s->y[1] - s->y[0]);
  atvi_io_text_add(out,
                   "<clipPath id=\"%s-k%td\"><rect x=\"%s\" y=\"%s\" width=\"%s\" "
                   "height=\"%s\"/></clipPath><g clip-path=\"url(#%s-k%td)\">",
                   id, k, x, y, w, h, id, k);
}

static void put_shape(atvi_text *out, const atvi_shape *s, const char *id, atvi_idx k) {
  switch (s->kind) {
  case ATVI_SHAPE_PATH:
  case ATVI_SHAPE_AREA:
  case ATVI_SHAPE_DOTS:
    atvi_io_text_add(out, "<path");
    put_style(out, &s->style,
              s->kind == ATVI_SHAPE_DOTS ? 2 * s->radius
              : s->style.width > 0       ? s->style.width
                                         : 1);
    atvi_io_text_add(out, s->kind == ATVI_SHAPE_DOTS ? " stroke-linecap=\"round\" d=\"" : " d=\"");
    if (s->kind == ATVI_SHAPE_DOTS)
      put_dots(out, s);
    else
      put_path(out, s);
    atvi_io_text_add(out, "\"/>");
    break;
  case ATVI_SHAPE_TEXT: put_text(out, s); break;
  case ATVI_SHAPE_GROUP:
    atvi_io_text_add(out, s->text ? "<g class=\"" : "<g");
    if (s->text) atvi_report_text_escape(out, s->text), atvi_io_text_add(out, "\"");
    atvi_io_text_add(out, ">");
    break;
  case ATVI_SHAPE_CLIP: put_clip(out, s, id, k); break;
  case ATVI_SHAPE_END: atvi_io_text_add(out, "</g>"); break;
  }
}

static void put_head(atvi_text *out, const atvi_canvas *c, const atvi_svg_opts *o) {
  if (!o->page) atvi_io_text_add(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
  atvi_io_text_add(out, "<svg%s id=\"%s\" viewBox=\"0 0 %g %g\" role=\"img\" aria-label=\"",
                   o->page ? "" : " xmlns=\"http://www.w3.org/2000/svg\"", o->id, c->width, c->height);
  atvi_report_text_escape(out, o->title);
  if (o->page) {
    atvi_io_text_add(out, "\">");
    return;
  }
  atvi_io_text_add(
      out,
      "\" width=\"%g\" height=\"%g\" font-family=\"Helvetica, Arial, sans-serif\" font-size=\"%g\"><title>",
      c->width, c->height, ATVI_FONT_SIZE);
  atvi_report_text_escape(out, o->title);
  atvi_io_text_add(out, "</title>\n<style>.s-none{stroke:none}.f-none{fill:none}path{stroke-linejoin:round}");
  for (int i = 1; i < ATVI_INKS; i++)
    atvi_io_text_add(out, ".s-%s{stroke:#%06x}.f-%s{fill:#%06x}", atvi_report_ink_name((atvi_ink)i),
                     atvi_report_ink_rgb((atvi_ink)i), atvi_report_ink_name((atvi_ink)i),
                     atvi_report_ink_rgb((atvi_ink)i));
  atvi_io_text_add(out, "</style>\n");
}

void atvi_report_canvas_svg(const atvi_canvas *c, const atvi_svg_opts *opts, atvi_text *out) {
  if (!c) {
    out->failed = true;
    return;
  }
  put_head(out, c, opts);
  for (atvi_idx i = 0; i < c->n; i++) put_shape(out, &c->shape[i], opts->id, i);
  atvi_io_text_add(out, "</svg>\n");
  out->failed = out->failed || atvi_pool_failed(c->pool);
}

/* The PDF writer: one page, paths, fills with opacity, Helvetica. Written after ISO 32000-1: section 7.5
 * (file structure), 8.4 and 8.5 (graphics state, paths), 9 (text), 11.6.4.4 (opacity by ExtGState). Streams
 * are not compressed: that would need a library, and the figures are small. No date, no identifier: the same
 * figure gives the same file.
 *
 * Objects: 1 catalogue, 2 pages, 3 page, 4 contents, 5 and 6 fonts, 7 information, then one per opacity. */

enum { OPACITIES = 32, OBJECTS = 8 + OPACITIES };

typedef struct {
  atvi_text body; /* the page's contents */
  double height;
  int n_opacity, percent[OPACITIES]; /* opacity in hundredths */
} page;

static void point(page *p, double x, double y, const char *command) {
  atvi_io_text_add(&p->body, "%.2f %.2f %s\n", x, p->height - y, command);
}

static void colour(page *p, atvi_ink ink, const char *command) {
  unsigned rgb = atvi_report_ink_rgb(ink);
  atvi_io_text_add(&p->body, "%.3f %.3f %.3f %s\n", (rgb >> 16) / 255.0, (rgb >> 8 & 255) / 255.0,
                   (rgb & 255) / 255.0, command);
}

/* Number of the graphics state with that opacity. */
static int state_of(page *p, double opacity) {
  int percent = opacity > 0 && opacity < 1 ? (int)lround(100 * opacity) : 100, k = 0;
  while (k < p->n_opacity && p->percent[k] != percent) k++;
  if (k == OPACITIES) return 0;
  if (k == p->n_opacity) p->percent[p->n_opacity++] = percent;
  return k;
}

static void set_style(page *p, const atvi_style *s, double width, bool round_ends) {
  atvi_io_text_add(&p->body, "/G%d gs\n", state_of(p, s->opacity));
  if (s->stroke != ATVI_INK_NONE) {
    colour(p, s->stroke, "RG");
    atvi_io_text_add(&p->body, "%.2f w %d J 1 j %s d\n", width, round_ends, s->dash ? "[5 4] 0" : "[] 0");
  }
  if (s->fill != ATVI_INK_NONE) colour(p, s->fill, "rg");
}

static void path(page *p, const atvi_shape *s) {
  bool open = false, area = s->kind == ATVI_SHAPE_AREA;
  set_style(p, &s->style, s->style.width > 0 ? s->style.width : 1, false);
  for (atvi_idx i = 0; i < s->n; i++) {
    if (!isfinite(s->x[i]) || !isfinite(s->y[i])) {
      if (open && area) atvi_io_text_add(&p->body, "h\n");
      open = false;
      continue;
    }
    point(p, s->x[i], s->y[i], open ? "l" : "m");
    open = true;
  }
  bool fill = s->style.fill != ATVI_INK_NONE, stroke = s->style.stroke != ATVI_INK_NONE;
  if (open && area) atvi_io_text_add(&p->body, "h\n");
  atvi_io_text_add(&p->body, "%s\n", fill && stroke ? "B" : fill ? "f" : stroke ? "S" : "n");
}

/* An empty line with round ends is a disc. */
static void dots(page *p, const atvi_shape *s) {
  set_style(p, &s->style, 2 * s->radius, true);
  for (atvi_idx i = 0; i < s->n; i++) {
    point(p, s->x[i], s->y[i], "m");
    point(p, s->x[i], s->y[i], "l");
  }
  atvi_io_text_add(&p->body, "S\n");
}

static void string(atvi_text *out, const char *s) {
  atvi_io_text_add(out, "(");
  while (*s) {
    unsigned char c = atvi_report_font_byte(&s);
    if (c == '(' || c == ')' || c == '\\')
      atvi_io_text_add(out, "\\%c", c);
    else
      atvi_io_text_add(out, c < 0x7f ? "%c" : "\\%03o", c);
  }
  atvi_io_text_add(out, ")");
}

static void text(page *p, const atvi_shape *s) {
  const atvi_label *l = &s->label;
  double back = atvi_report_text_width(s->text, l->size, l->bold) * (l->anchor == ATVI_ANCHOR_START    ? 0
                                                                     : l->anchor == ATVI_ANCHOR_MIDDLE ? 0.5
                                                                                                       : 1);
  double x = s->x[0] - (l->turned ? 0 : back), y = p->height - s->y[0] - (l->turned ? back : 0);
  atvi_io_text_add(&p->body, "/G%d gs\n", state_of(p, 1));
  colour(p, l->ink, "rg");
  atvi_io_text_add(&p->body, "BT /F%d %g Tf %s %.2f %.2f Tm ", l->bold ? 2 : 1, l->size,
                   l->turned ? "0 1 -1 0" : "1 0 0 1", x, y);
  string(&p->body, s->text);
  atvi_io_text_add(&p->body, " Tj ET\n");
}

static void shape(page *p, const atvi_shape *s) {
  switch (s->kind) {
  case ATVI_SHAPE_PATH:
  case ATVI_SHAPE_AREA: path(p, s); break;
  case ATVI_SHAPE_DOTS: dots(p, s); break;
  case ATVI_SHAPE_TEXT: text(p, s); break;
  case ATVI_SHAPE_GROUP: atvi_io_text_add(&p->body, "q\n"); break;
  case ATVI_SHAPE_CLIP:
    atvi_io_text_add(&p->body, "q %.2f %.2f %.2f %.2f re W n\n", s->x[0], p->height - s->y[1],
                     s->x[1] - s->x[0], s->y[1] - s->y[0]);
    break;
  case ATVI_SHAPE_END: atvi_io_text_add(&p->body, "Q\n"); break;
  }
}

/* ---- the file ---- */

typedef struct {
  atvi_text *out;
  atvi_idx begin; /* of the file in out */
  int n;
  atvi_idx at[OBJECTS]; /* of each object, from begin */
} file;

static void object(file *f) {
  f->at[f->n++] = f->out->n - f->begin;
  atvi_io_text_add(f->out, "%d 0 obj\n", f->n);
}

static void put_objects(file *f, const atvi_canvas *c, page *p, const char *title) {
  atvi_text *out = f->out;
  const char *body = "";
  if (atvi_io_text_get(&p->body, &body) != ATVI_OK) {
    out->failed = true;
    return;
  }
  object(f);
  atvi_io_text_add(out, "<< /Type /Catalog /Pages 2 0 R >>\nendobj\n");
  object(f);
  atvi_io_text_add(out, "<< /Type /Pages /Kids [3 0 R] /Count 1 >>\nendobj\n");
  object(f);
  atvi_io_text_add(out,
                   "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 %.2f %.2f] /Contents 4 0 R\n"
                   "/Resources << /Font << /F1 5 0 R /F2 6 0 R >> /ExtGState <<",
                   0.75 * c->width, 0.75 * c->height);
  for (int k = 0; k < p->n_opacity; k++) atvi_io_text_add(out, " /G%d %d 0 R", k, 8 + k);
  atvi_io_text_add(out, " >> >> >>\nendobj\n");
  object(f);
  atvi_io_text_add(out, "<< /Length %zu >>\nstream\n%s\nendstream\nendobj\n", strlen(body), body);
  for (int bold = 0; bold < 2; bold++) {
    object(f);
    atvi_io_text_add(out,
                     "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica%s /Encoding /WinAnsiEncoding >>\n"
                     "endobj\n",
                     bold ? "-Bold" : "");
  }
  object(f);
  atvi_io_text_add(out, "<< /Producer (atvi " ATVI_VERSION ") /Title ");
  string(out, title);
  atvi_io_text_add(out, " >>\nendobj\n");
  for (int k = 0; k < p->n_opacity; k++) {
    object(f);
    atvi_io_text_add(out, "<< /Type /ExtGState /ca %.2f /CA %.2f >>\nendobj\n", p->percent[k] / 100.0,
                     p->percent[k] / 100.0);
  }
}

void atvi_report_canvas_pdf(const atvi_canvas *c, const char *title, atvi_text *out) {
  if (!c) {
    out->failed = true;
    return;
  }
  page p = {.body = {.pool = c->pool}, .height = c->height};
  file f = {.out = out, .begin = out->n};
  atvi_io_text_add(&p.body, "0.75 0 0 0.75 0 0 cm\n");
  for (atvi_idx i = 0; i < c->n; i++) shape(&p, &c->shape[i]);
  atvi_io_text_add(out, "%%PDF-1.4\n%%\xe2\xe3\xcf\xd3\n");
  put_objects(&f, c, &p, title);
  atvi_idx xref = out->n - f.begin;
  atvi_io_text_add(out, "xref\n0 %d\n0000000000 65535 f \n", f.n + 1);
  for (int k = 0; k < f.n; k++) atvi_io_text_add(out, "%010td 00000 n \n", f.at[k]);
  atvi_io_text_add(out, "trailer\n<< /Size %d /Root 1 0 R /Info 7 0 R >>\nstartxref\n%td\n%%%%EOF\n", f.n + 1,
                   xref);
  out->failed = out->failed || atvi_pool_failed(c->pool);
}
