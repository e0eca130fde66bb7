/* SPDX-License-Identifier: MIT */
/* The SVG writer. Coordinates have one decimal: a tenth of a pixel is invisible, and files stay small. Dots
 * are one path of empty strokes with round ends, a fifth of the bytes of circles. */
#include "report/canvas.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

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
