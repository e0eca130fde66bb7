/* SPDX-License-Identifier: MIT */
/* The PDF writer: one page, paths, fills with opacity, Helvetica. Written after ISO 32000-1: section 7.5
 * (file structure), 8.4 and 8.5 (graphics state, paths), 9 (text), 11.6.4.4 (opacity by ExtGState). Streams
 * are not compressed: that would need a library, and the figures are small. No date, no identifier: the same
 * figure gives the same file.
 *
 * Objects: 1 catalogue, 2 pages, 3 page, 4 contents, 5 and 6 fonts, 7 information, then one per opacity. */
#include "report/canvas.h"
#include <math.h>
#include <string.h>

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
