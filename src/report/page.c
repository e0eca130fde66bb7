/* SPDX-License-Identifier: MIT */
#include "report/page.h"
#include "core/core.h"
#include "report/report.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- text ---- */

atvi_page atvi_report_page_begin(atvi_pool *pool, const char *title, bool live) {
  return (atvi_page){.pool = pool,
                     .body = {.pool = pool},
                     .data = {.pool = pool},
                     .pairs = {.pool = pool},
                     .contents = {.pool = pool},
                     .title = title,
                     .live = live};
}

static void end_section(atvi_page *p) {
  if (p->in_section) atvi_io_text_add(&p->body, "</section>\n");
  p->in_section = false;
}

void atvi_report_page_section(atvi_page *p, const char *id, const char *heading) {
  end_section(p);
  p->in_section = true;
  atvi_io_text_add(&p->body, "<section id=\"%s\"><h2>", id);
  atvi_report_text_escape(&p->body, heading);
  atvi_io_text_add(&p->body, "</h2>\n");
  atvi_io_text_add(&p->contents, "<a href=\"#%s\">", id);
  atvi_report_text_escape(&p->contents, heading);
  atvi_io_text_add(&p->contents, "</a>\n");
}

void atvi_report_page_heading(atvi_page *p, const char *heading) {
  atvi_io_text_add(&p->body, "<h3>");
  atvi_report_text_escape(&p->body, heading);
  atvi_io_text_add(&p->body, "</h3>\n");
}

void atvi_report_page_prose(atvi_page *p, const char *text) {
  atvi_text joined = {.pool = p->pool};
  const char *whole;
  char before = ' ';
  for (; *text; text++) {
    bool join = text[0] == ' ' && (text[1] == '%' || (text[1] == '=' && text[2] == ' ') || before == '=');
    bool minus = text[0] == '-' && (before == ' ' || before == '(') && text[1] >= '0' && text[1] <= '9';
    atvi_io_text_add(&joined, join ? "\xc2\xa0" : minus ? "\xe2\x88\x92" : "%c", *text);
    before = *text;
  }
  if (atvi_io_text_get(&joined, &whole) == ATVI_OK) atvi_report_text_escape(&p->body, whole);
}

static void paragraph(atvi_page *p, const char *tag, const char *fmt, va_list args) {
  char line[4096];
  vsnprintf(line, sizeof line, fmt, args);
  atvi_io_text_add(&p->body, "<p%s>", tag);
  atvi_report_page_prose(p, line);
  atvi_io_text_add(&p->body, "</p>\n");
}

void atvi_report_page_say(atvi_page *p, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  paragraph(p, "", fmt, args);
  va_end(args);
}

void atvi_report_page_note(atvi_page *p, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  paragraph(p, " class=\"note\"", fmt, args);
  va_end(args);
}

void atvi_report_page_listing(atvi_page *p, const char *heading, const char *text, bool open) {
  atvi_io_text_add(&p->body, "<details%s><summary>", open ? " open" : "");
  atvi_report_text_escape(&p->body, heading);
  atvi_io_text_add(&p->body, "</summary><pre class=\"scroll\" tabindex=\"0\">");
  atvi_report_text_escape(&p->body, text);
  atvi_io_text_add(&p->body, "</pre></details>\n");
}

void atvi_report_page_command(atvi_page *p, const char *text) {
  atvi_io_text_add(&p->body, "<pre class=\"scroll\" tabindex=\"0\">");
  atvi_report_text_escape(&p->body, text);
  atvi_io_text_add(&p->body, "</pre>\n");
}

/* ---- figures ---- */

void atvi_report_page_grid(atvi_page *p, const char *size) {
  atvi_io_text_add(&p->body, "<div class=\"grid %s\">\n", size);
}

void atvi_report_page_grid_end(atvi_page *p) { atvi_io_text_add(&p->body, "</div>\n"); }

void atvi_report_page_figure(atvi_page *p, const atvi_canvas *c, const char *id, const char *alt) {
  atvi_io_text_add(&p->body, "<figure>");
  atvi_report_canvas_svg(c, &(atvi_svg_opts){.id = id, .title = alt, .page = true}, &p->body);
  atvi_io_text_add(&p->body, "</figure>\n");
}

static void put_both(atvi_page *p, const atvi_canvas *wide, const atvi_canvas *narrow, const char *id,
                     const char *alt) {
  char other[64];
  snprintf(other, sizeof other, "%sn", id);
  atvi_io_text_add(&p->body, "<div class=\"on-wide\">");
  atvi_report_canvas_svg(wide, &(atvi_svg_opts){.id = id, .title = alt, .page = true}, &p->body);
  atvi_io_text_add(&p->body, "</div><div class=\"on-narrow\">");
  atvi_report_canvas_svg(narrow, &(atvi_svg_opts){.id = other, .title = alt, .page = true}, &p->body);
  atvi_io_text_add(&p->body, "</div>");
}

void atvi_report_page_figure_both(atvi_page *p, const atvi_canvas *wide, const atvi_canvas *narrow,
                                  const char *id, const char *alt) {
  atvi_io_text_add(&p->body, "<figure>");
  put_both(p, wide, narrow, id, alt);
  atvi_io_text_add(&p->body, "</figure>\n");
}

void atvi_report_page_drawing_id(char out[ATVI_DRAWING_ID], const char *id, bool log, bool narrow) {
  snprintf(out, ATVI_DRAWING_ID, "%s%s%s", id, log ? "l" : "", narrow ? "n" : "");
}

void atvi_report_page_figure_scaled(atvi_page *p, const char *id, const char *alt,
                                    const atvi_canvas *drawing[2][2]) {
  atvi_io_text_add(&p->body, "<figure>");
  for (int log = 0; log < 2 && drawing[log][0]; log++) {
    char name[ATVI_DRAWING_ID];
    atvi_report_page_drawing_id(name, id, log, false);
    if (drawing[1][0]) atvi_io_text_add(&p->body, "<div class=\"%s\">", log ? "log" : "lin");
    if (drawing[log][1])
      put_both(p, drawing[log][0], drawing[log][1], name, alt);
    else
      atvi_report_canvas_svg(drawing[log][0], &(atvi_svg_opts){.id = name, .title = alt, .page = true},
                             &p->body);
    if (drawing[1][0]) atvi_io_text_add(&p->body, "</div>");
  }
  atvi_io_text_add(&p->body, "</figure>\n");
}

void atvi_report_page_scales(atvi_page *p) {
  atvi_io_text_add(
      &p->body, "<div class=\"chips\" data-scales=\"1\">vertical axis <button "
                "aria-pressed=\"true\">linear</button><button aria-pressed=\"false\">log</button></div>\n");
}

void atvi_report_page_figure_table(atvi_page *p, const atvi_canvas *wide, const atvi_canvas *narrow,
                                   const char *id, const char *alt) {
  atvi_io_text_add(&p->body, "<figure class=\"table\">");
  if (narrow)
    put_both(p, wide, narrow, id, alt);
  else
    atvi_report_canvas_svg(wide, &(atvi_svg_opts){.id = id, .title = alt, .page = true}, &p->body);
  atvi_io_text_add(&p->body, "</figure>\n");
}

static void put_numbers(atvi_text *out, atvi_idx n, const double *x) {
  atvi_io_text_add(out, "[");
  for (atvi_idx i = 0; i < n; i++) {
    if (i) atvi_io_text_add(out, ",");
    atvi_report_json_put_number(out, x[i]);
  }
  atvi_io_text_add(out, "]");
}

static void put_plot(atvi_page *p, const char *id, const atvi_frame *f) {
  const double plot[4] = {f->x, f->y, f->width, f->height};
  atvi_io_text_add(&p->data, "%s\"%s\":{\"f\":", p->n_figs++ ? ",\n" : "", id);
  put_numbers(&p->data, 4, plot);
}

void atvi_report_page_hover_like(atvi_page *p, const char *id, const atvi_frame *f, const char *other) {
  put_plot(p, id, f);
  atvi_io_text_add(&p->data, ",\"as\":\"%s\"}", other);
}

static void put_hover(atvi_page *p, const char *id, const atvi_frame *f, bool zoom, const char *name,
                      atvi_idx n, const double *x, int n_column, const atvi_hover *column) {
  atvi_text *out = &p->data;
  const double across[2] = {f->across.low, f->across.high};
  const double calendar[2] = {f->across.calendar.day0, f->across.calendar.unit};
  put_plot(p, id, f);
  atvi_io_text_add(out, ",\"z\":%d,\"l\":%d,\"d\":", zoom, f->across.log);
  put_numbers(out, 2, across);
  if (f->across.calendar.unit > 0) atvi_io_text_add(out, ",\"c\":"), put_numbers(out, 2, calendar);
  atvi_io_text_add(out, ",\"n\":");
  atvi_report_json_put_text(out, name);
  atvi_io_text_add(out, ",\"x\":");
  put_numbers(out, n, x);
  atvi_io_text_add(out, ",\"v\":[");
  for (int k = 0, some = 0; k < n_column; k++) {
    if (!column[k].value) continue;
    atvi_io_text_add(out, some++ ? ",[" : "[");
    atvi_report_json_put_text(out, column[k].name);
    atvi_io_text_add(out, ",");
    put_numbers(out, n, column[k].value);
    atvi_io_text_add(out, "]");
  }
  atvi_io_text_add(out, "]");
}

void atvi_report_page_hover(atvi_page *p, const char *id, const atvi_frame *f, bool zoom, const char *name,
                            atvi_idx n, const double *x, int n_column, const atvi_hover *column) {
  put_hover(p, id, f, zoom, name, n, x, n_column, column);
  atvi_io_text_add(&p->data, "}");
}

void atvi_report_page_hover_named(atvi_page *p, const char *id, const atvi_frame *f, const char *name,
                                  atvi_idx n, const double *x, const char *const *label, int n_column,
                                  const atvi_hover *column) {
  put_hover(p, id, f, false, name, n, x, n_column, column);
  atvi_io_text_add(&p->data, ",\"s\":[");
  for (atvi_idx i = 0; label && i < n; i++) {
    if (i) atvi_io_text_add(&p->data, ",");
    atvi_report_json_put_text(&p->data, label[i]);
  }
  atvi_io_text_add(&p->data, "]}");
}

void atvi_report_page_fold(atvi_page *p, const char *heading) {
  atvi_io_text_add(&p->body, "<details><summary>");
  if (heading) atvi_report_text_escape(&p->body, heading);
  atvi_io_text_add(&p->body, "</summary>\n");
}

void atvi_report_page_fold_end(atvi_page *p) { atvi_io_text_add(&p->body, "</details>\n"); }

/* ---- tables ---- */

void atvi_report_page_table(atvi_page *p, const char *caption, int n, const char *const *column,
                            bool folded) {
  if (folded) atvi_report_page_fold(p, caption);
  atvi_io_text_add(&p->body, "<div class=\"scroll\" tabindex=\"0\"><table data-folded=\"%d\"><caption>",
                   folded);
  atvi_report_text_escape(&p->body, caption);
  atvi_io_text_add(&p->body, "</caption><thead><tr>");
  for (int k = 0; k < n; k++) {
    atvi_io_text_add(&p->body, "<th scope=\"col\">");
    atvi_report_text_escape(&p->body, column[k]);
    atvi_io_text_add(&p->body, "</th>");
  }
  atvi_io_text_add(&p->body, "</tr></thead><tbody>\n");
}

static void end_row(atvi_page *p) {
  if (p->in_row) atvi_io_text_add(&p->body, "</tr>\n");
  p->in_row = false;
}

static void row_to(atvi_page *p, const char *name, const char *link) {
  end_row(p);
  p->in_row = true;
  atvi_io_text_add(&p->body, "<tr><th scope=\"row\">");
  if (link) {
    atvi_io_text_add(&p->body, "<a href=\"");
    atvi_report_text_escape(&p->body, link);
    atvi_io_text_add(&p->body, "\">");
  }
  atvi_report_text_escape(&p->body, name);
  atvi_io_text_add(&p->body, link ? "</a></th>" : "</th>");
}

void atvi_report_page_row(atvi_page *p, const char *name) { row_to(p, name, NULL); }

void atvi_report_page_row_part(atvi_page *p, const char *name, int n) {
  end_row(p);
  atvi_io_text_add(&p->body, "<tr class=\"part\"><th scope=\"rowgroup\" colspan=\"%d\">%s</th></tr>\n", n,
                   name);
}

static void cell(atvi_page *p, const char *kind, const char *text) {
  atvi_io_text_add(&p->body, "<td%s>", kind);
  if (text) atvi_report_page_prose(p, text);
  atvi_io_text_add(&p->body, "</td>");
}

void atvi_report_page_cell(atvi_page *p, const char *text) { cell(p, "", text); }
void atvi_report_page_words(atvi_page *p, const char *text) { cell(p, " class=\"words\"", text); }

void atvi_report_page_number(atvi_page *p, double x, int digits) {
  char text[ATVI_TICK_LABEL];
  atvi_report_write_number(text, x, digits);
  atvi_report_page_cell(p, text);
}

void atvi_report_page_round(atvi_page *p, double x) {
  char text[32];
  if (!isfinite(x)) {
    atvi_report_page_number(p, x, 4);
    return;
  }
  snprintf(text, sizeof text, "%.5g", fabs(x));
  atvi_io_text_add(&p->body, "<td>%s%s</td>", x < 0 ? "\xe2\x88\x92" : "", text);
}

void atvi_report_page_table_end(atvi_page *p, bool folded) {
  end_row(p);
  atvi_io_text_add(&p->body, "</tbody></table></div>%s\n", folded ? "</details>" : "");
}

/* ---- JSON ---- */

void atvi_report_json_put_text(atvi_text *out, const char *s) {
  atvi_text clean = {.pool = out->pool};
  atvi_report_text_escape(
      &clean, s); /* a first pass makes it UTF-8; entities are fine because the script shows text as HTML */
  const char *at;
  if (atvi_io_text_get(&clean, &at) != ATVI_OK) {
    out->failed = true;
    return;
  }
  atvi_io_text_add(out, "\"");
  for (; *at; at++) {
    if (*at == '\\' || *at == '"')
      atvi_io_text_add(out, "\\%c", *at);
    else if ((unsigned char)*at < 0x20)
      atvi_io_text_add(out, "\\u%04x", *at);
    else
      atvi_io_text_add(out, "%c", *at);
  }
  atvi_io_text_add(out, "\"");
}

void atvi_report_json_put_number(atvi_text *out, double x) {
  if (isfinite(x))
    atvi_io_text_add(out, "%.6g", x);
  else
    atvi_io_text_add(out, "null");
}

/* ---- the file ---- */

static const char *join(atvi_pool *pool, const char *const *line) {
  atvi_text out = {.pool = pool};
  const char *text;
  for (; *line; line++) atvi_io_text_add(&out, "%s\n", *line);
  return atvi_io_text_get(&out, &text) == ATVI_OK ? text : "";
}

/* The hash of the script, so that the policy allows this script only. */
static void put_hash(atvi_text *out, const char *script) {
  static const char digit[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  unsigned char digest[33] = {0};
  char code[45];
  atvi_sha256 s;
  atvi_sha256_begin(&s);
  atvi_sha256_add(&s, script, strlen(script));
  atvi_sha256_end(&s, digest);
  for (int i = 0; i < 11; i++) {
    unsigned v = (unsigned)digest[3 * i] << 16 | (unsigned)digest[3 * i + 1] << 8 | digest[3 * i + 2];
    for (int k = 0; k < 4; k++) code[4 * i + k] = digit[v >> (18 - 6 * k) & 63];
  }
  code[43] = '='; /* 32 bytes are ten groups and two */
  code[44] = 0;
  atvi_io_text_add(out, "'sha256-%s'", code);
}

static const char KIND[] = "<meta name=\"atvi-page\" content=\"";
enum { HEAD = 4096 }; /* it precedes these bytes */

static void put_head(const atvi_page *p, const char *script, atvi_text *out) {
  atvi_io_text_add(out,
                   "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
                   "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
                   "'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; script-src ");
  put_hash(out, script);
  atvi_io_text_add(out, "%s\">\n", p->live ? "; connect-src 'self'" : "");
  atvi_io_text_add(out, "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
                        "<meta name=\"color-scheme\" content=\"light dark\">\n"
                        "<meta name=\"generator\" content=\"atvi " ATVI_VERSION "\">\n");
  if (p->kind) atvi_io_text_add(out, "%s%s\">\n", KIND, p->kind);
  atvi_io_text_add(out, "<link rel=\"icon\" href=\"data:,\">\n<title>");
  atvi_report_text_escape(out, p->title);
  atvi_io_text_add(out, "</title>\n<style>\n%s</style></head>\n", join(p->pool, atvi_report_page_style));
}

atvi_status atvi_report_page_end(atvi_page *p, const char **text) {
  atvi_text out = {.pool = p->pool};
  const char *body, *data, *pairs, *contents, *script = join(p->pool, atvi_report_page_script);
  end_section(p);
  ATVI_TRY(atvi_io_text_get(&p->body, &body));
  ATVI_TRY(atvi_io_text_get(&p->data, &data));
  ATVI_TRY(atvi_io_text_get(&p->pairs, &pairs));
  ATVI_TRY(atvi_io_text_get(&p->contents, &contents));
  put_head(p, script, &out);
  atvi_io_text_add(&out, "<body><nav aria-label=\"Sections\">\n%s</nav>\n<main>\n", contents);
  atvi_io_text_add(&out, "%s", body);
  atvi_io_text_add(
      &out,
      "</main>\n<footer><p>Written by atvi " ATVI_VERSION
      ". This file is complete: it needs no network and can be stored, sent and printed.</p></footer>\n");
  atvi_io_text_add(
      &out, "<script type=\"application/json\" id=\"atvi-data\">{\"figs\":{%s},\"pairs\":%s}</script>\n",
      data, *pairs ? pairs : "null");
  atvi_io_text_add(&out, "<script>%s</script>\n</body></html>\n", script);
  if (atvi_pool_failed(p->pool)) out.failed = true;
  return atvi_io_text_get(&out, text);
}

bool atvi_report_page_is(const char *path, const char *kind) {
  char head[HEAD];
  FILE *f = fopen(path, "re");
  if (!f) return false;
  size_t n = fread(head, 1, sizeof head - 1, f);
  fclose(f);
  head[n] = 0;
  const char *at = strstr(head, KIND);
  size_t length = strlen(kind);
  return at && strncmp(at + sizeof KIND - 1, kind, length) == 0 && at[sizeof KIND - 1 + length] == '"';
}

/* Reports made of sentences, tables and figures: comparisons, studies. */

static void put_table(atvi_page *p, const atvi_report_table *t) {
  atvi_report_page_table(p, t->caption, t->n_column, t->column, false);
  for (atvi_idx i = 0; i < t->n_row; i++) {
    const char *const *row = t->cell + i * t->n_column;
    row_to(p, row[0], t->link ? t->link[i] : NULL);
    for (int k = 1; k < t->n_column; k++) atvi_report_page_cell(p, row[k]);
  }
  atvi_report_page_table_end(p, false);
}

static void put_part(atvi_page *p, const atvi_report_part *part) {
  atvi_report_page_section(p, part->id, part->heading);
  for (atvi_idx i = 0; i < part->n_say; i++) atvi_report_page_say(p, "%s", part->say[i]);
  for (atvi_idx i = 0; i < part->n_figure; i++) {
    const atvi_report_figure *f = &part->figure[i];
    const char *id = atvi_pool_printf(p->pool, "f-%s", f->name);
    atvi_report_page_figure_table(p, f->canvas, f->narrow, id ? id : "f", f->alt);
  }
  for (atvi_idx i = 0; i < part->n_table; i++) put_table(p, &part->table[i]);
}

atvi_status atvi_report_short_save(atvi_pool *pool, const atvi_report_short *r, const char *dir) {
  atvi_page p = atvi_report_page_begin(pool, r->title, false);
  const char *html;
  atvi_report_head(&p, r->title, r->sub, r->verdict, r->say);
  atvi_io_text_add(&p.body, "</div>\n");
  for (atvi_idx i = 0; i < r->n_part; i++) put_part(&p, &r->part[i]);
  ATVI_TRY(atvi_report_page_end(&p, &html));
  ATVI_TRY(atvi_report_save_page(pool, dir, html));
  for (atvi_idx i = 0; i < r->n_part; i++)
    for (atvi_idx k = 0; k < r->part[i].n_figure; k++) {
      const atvi_report_figure *f = &r->part[i].figure[k];
      ATVI_TRY(atvi_report_save_figure(pool, dir, f->name, f->alt, f->canvas));
    }
  return ATVI_OK;
}
