/* SPDX-License-Identifier: MIT */
#include "markup.h"
#include "report/canvas.h"

static atvi_pool *pool_of(atvi_ctx *ctx) {
  atvi_pool *pool;
  CHECK_OK(atvi_pool_new(ctx, &pool));
  return pool;
}

static const char *svg_of(const atvi_canvas *c, atvi_pool *pool, bool page) {
  atvi_text out = {.pool = pool};
  const char *text;
  atvi_report_canvas_svg(c, &(atvi_svg_opts){.id = "x", .title = "a <b> & \"c\"", .page = page}, &out);
  CHECK_OK(atvi_io_text_get(&out, &text));
  return text;
}

static const char *pdf_of(const atvi_canvas *c, atvi_pool *pool) {
  atvi_text out = {.pool = pool};
  const char *text;
  atvi_report_canvas_pdf(c, "a (b)", &out);
  CHECK_OK(atvi_io_text_get(&out, &text));
  return text;
}

/* One of everything. */
static atvi_canvas *drawing(atvi_pool *pool) {
  const double x[5] = {10, 30.54, NAN, 50, 60}, y[5] = {20, 40, 1, 5.25, -3}, high[5] = {25, 47, 1, 9, 2};
  atvi_canvas *c = atvi_report_canvas_new(pool, 200, 100);
  atvi_report_draw_path(c, 5, x, y, false, (atvi_style){.stroke = ATVI_INK_MAIN, .width = 1.6, .dash = true});
  atvi_report_draw_group(c, "zoom");
  atvi_report_draw_clip(c, 1, 2, 30, 40);
  atvi_report_draw_band(c, 5, x, y, high, (atvi_style){.fill = ATVI_INK_MAIN, .opacity = 0.18});
  atvi_report_draw_dots(c, 5, x, y, 2.5, (atvi_style){.stroke = ATVI_INK_DATA});
  atvi_report_draw_end(c);
  atvi_report_draw_end(c);
  atvi_report_draw_rect(c, 1, 2, 3, 4, (atvi_style){.fill = ATVI_INK_WARN});
  atvi_report_draw_text(c, 7, 8, (atvi_label){.anchor = ATVI_ANCHOR_END, .bold = true},
                        "beta <&> \"R0\" (1)");
  atvi_report_draw_text(c, 9, 50, (atvi_label){.turned = true, .size = 10}, "up");
  return c;
}

static void svg_has_the_shapes_at_their_places(void) {
  atvi_ctx *ctx = test_ctx();
  atvi_pool *pool = pool_of(ctx);
  atvi_canvas *c = drawing(pool);
  CHECK_INT(atvi_report_canvas_shapes(c), 6);
  const char *s = svg_of(c, pool, true);
  CHECK_INT(markup_check(s), 11);
  CHECK(strstr(s, "viewBox=\"0 0 200 100\""));
  CHECK(strstr(s, "class=\"s-main f-none\" stroke-width=\"1.6\" stroke-dasharray=\"5 4\" d=\"M10 20L30.5 "
                  "40M50 5.3L60-3\""));
  CHECK(strstr(s,
               "<g class=\"zoom\"><clipPath id=\"x-k2\"><rect x=\"1\" y=\"2\" width=\"30\" height=\"40\"/>"));
  CHECK(strstr(
      s,
      "class=\"s-none f-main\" opacity=\"0.18\" d=\"M10 20L30.5 40L30.5 47L10 25ZM50 5.3L60-3L60 2L50 9Z\""));
  CHECK(strstr(s, "stroke-width=\"5\" stroke-linecap=\"round\" d=\"M10 20h0M30.5 40h0M50 5.3h0M60-3h0\""));
  CHECK(strstr(s, "text-anchor=\"end\" font-weight=\"bold\">beta &lt;&amp;&gt; &quot;R0&quot; (1)</text>"));
  CHECK(strstr(s, "aria-label=\"a &lt;b&gt; &amp; &quot;c&quot;\""));
  CHECK(strstr(s, "translate(9 50) rotate(-90)"));
  CHECK(!strstr(s, "xmlns"));
  atvi_pool_free(pool);
  atvi_ctx_free(ctx);
  CHECK_INT(test_live, 0);
}

static void svg_of_its_own_brings_colours(void) {
  atvi_ctx *ctx = test_ctx();
  atvi_pool *pool = pool_of(ctx);
  const char *s = svg_of(drawing(pool), pool, false);
  markup_check(s);
  CHECK(strncmp(s, "<?xml version=\"1.0\"", 19) == 0);
  CHECK(strstr(s, "xmlns=\"http://www.w3.org/2000/svg\""));
  CHECK(strstr(s, ".s-main{stroke:#1f5fa8}"));
  for (int i = 1; i < ATVI_INKS; i++) {
    char rule[64];
    snprintf(rule, sizeof rule, ".f-%s{fill:#%06x}", atvi_report_ink_name((atvi_ink)i),
             atvi_report_ink_rgb((atvi_ink)i));
    CHECK_MSG(strstr(s, rule) != NULL, "no rule %s", rule);
  }
  CHECK_STR(s, svg_of(drawing(pool), pool, false)); /* the same drawing, the same bytes */
  atvi_pool_free(pool);
  atvi_ctx_free(ctx);
}

/* Every entry of the table of objects points at its object, and the stream is as long as it says. */
static void pdf_is_a_sound_file(void) {
  atvi_ctx *ctx = test_ctx();
  atvi_pool *pool = pool_of(ctx);
  const char *s = pdf_of(drawing(pool), pool);
  CHECK(strncmp(s, "%PDF-1.4\n", 9) == 0);
  CHECK_STR(s + strlen(s) - 6, "%%EOF\n");
  const char *start = strstr(s, "startxref\n"), *table = s + atol(start + 10);
  int n, offset = 0;
  CHECK_INT(sscanf(table, "xref\n0 %d\n%n", &n, &offset), 1);
  const char *entry = table + offset;
  CHECK(strncmp(entry, "0000000000 65535 f \n", 20) == 0);
  for (int k = 1; k < n; k++) {
    char want[32];
    CHECK(strncmp(entry + 20 * k + 10, " 00000 n \n", 10) == 0);
    snprintf(want, sizeof want, "%d 0 obj\n", k);
    CHECK_MSG(strncmp(s + atol(entry + 20 * k), want, strlen(want)) == 0,
              "object %d is not where the table says", k);
  }
  CHECK(strncmp(entry + 20 * n, "trailer\n", 8) == 0);
  const char *length = strstr(s, "/Length "), *stream = strstr(s, "stream\n") + 7;
  CHECK(strncmp(stream + atol(length + 8), "\nendstream", 10) == 0);
  CHECK(strstr(s, "/MediaBox [0 0 150.00 75.00]")); /* three quarters of a point per pixel */
  atvi_pool_free(pool);
  atvi_ctx_free(ctx);
}

static void pdf_has_the_shapes_at_their_places(void) {
  atvi_ctx *ctx = test_ctx();
  atvi_pool *pool = pool_of(ctx);
  const char *s = pdf_of(drawing(pool), pool);
  CHECK(
      strstr(s, "10.00 80.00 m\n30.54 60.00 l\n50.00 94.75 m\n60.00 103.00 l\nS\n")); /* y is turned round */
  CHECK(strstr(s, "1.60 w 0 J 1 j [5 4] 0 d\n"));
  CHECK(strstr(s, "q 1.00 58.00 30.00 40.00 re W n\n"));
  CHECK(strstr(s, "5.00 w 1 J 1 j [] 0 d\n10.00 80.00 m\n10.00 80.00 l\n"));
  CHECK(strstr(s, "/ca 0.18 /CA 0.18"));
  CHECK(strstr(s, "(beta <&> \"R0\" \\(1\\)) Tj"));
  CHECK(strstr(s, "0 1 -1 0 9.00 50.00 Tm (up) Tj"));
  CHECK(strstr(s, "/Title (a \\(b\\))"));
  /* ends where it should: right-aligned text begins its width before */
  char want[64];
  snprintf(want, sizeof want, "BT /F2 12 Tf 1 0 0 1 %.2f 92.00 Tm",
           7 - atvi_report_text_width("beta <&> \"R0\" (1)", 12, true));
  CHECK(strstr(s, want));
  int q = 0, Q = 0;
  for (const char *at = s; *at; at++) q += strncmp(at, "\nq", 2) == 0, Q += strncmp(at, "\nQ\n", 3) == 0;
  CHECK_INT(q, 2);
  CHECK_INT(Q, 2);
  CHECK_STR(s, pdf_of(drawing(pool), pool));
  atvi_pool_free(pool);
  atvi_ctx_free(ctx);
}

/* Adobe's metrics: H 722, e 556, l 222, o 556. */
static void letters_have_helveticas_widths(void) {
  CHECK_REL(atvi_report_text_width("Hello", 10, false), 0.01 * (722 + 556 + 222 + 222 + 556), 1e-12);
  CHECK_REL(atvi_report_text_width("Hello", 10, true), 0.01 * (722 + 556 + 278 + 278 + 611), 1e-12);
  CHECK(atvi_report_text_width("", 10, false) == 0);
  const char *minus = "\xe2\x88\x92"
                      "1\xc3\xa9\xce\xb2\xff";
  CHECK_INT(atvi_report_font_byte(&minus), 0x96);
  CHECK_INT(atvi_report_font_byte(&minus), '1');
  CHECK_INT(atvi_report_font_byte(&minus), 0xe9);
  CHECK_INT(atvi_report_font_byte(&minus), '?'); /* Greek is not in the encoding */
  CHECK_INT(atvi_report_font_byte(&minus), '?'); /* nor is a byte that is no UTF-8 */
  CHECK(*minus == 0);
}

static void escapes_leave_nothing_that_means_something(void) {
  atvi_ctx *ctx = test_ctx();
  atvi_pool *pool = pool_of(ctx);
  atvi_text out = {.pool = pool};
  const char *text;
  atvi_report_text_escape(&out, "<script>'a' & \"b\"\x01\n\xc3\xa9\xc3(\xf0\x9f\x98\x80\xe2\x82");
  CHECK_OK(atvi_io_text_get(&out, &text));
  CHECK_STR(text, "&lt;script&gt;&#39;a&#39; &amp; &quot;b&quot;\n\xc3\xa9?(\xf0\x9f\x98\x80??");
  atvi_pool_free(pool);
  atvi_ctx_free(ctx);
}

static void empty_drawings_are_sound(void) {
  atvi_ctx *ctx = test_ctx();
  atvi_pool *pool = pool_of(ctx);
  atvi_canvas *c = atvi_report_canvas_new(pool, 10, 10);
  const double nothing[2] = {NAN, NAN};
  CHECK_REL(atvi_report_canvas_width(c), 10, 0);
  CHECK_REL(atvi_report_canvas_height(c), 10, 0);
  markup_check(svg_of(c, pool, false));
  atvi_report_draw_path(c, 0, NULL, NULL, false, (atvi_style){.stroke = ATVI_INK_MAIN});
  atvi_report_draw_path(c, 2, nothing, nothing, true, (atvi_style){.fill = ATVI_INK_MAIN});
  atvi_report_draw_band(c, 2, nothing, nothing, nothing, (atvi_style){.fill = ATVI_INK_MAIN});
  atvi_report_draw_dots(c, 2, nothing, nothing, 1, (atvi_style){.stroke = ATVI_INK_MAIN});
  CHECK(strstr(svg_of(c, pool, false), "d=\"\""));
  CHECK(strstr(pdf_of(c, pool), "%%EOF"));
  atvi_pool_free(pool);
  atvi_ctx_free(ctx);
}

/* Without memory: told, and nothing is left behind. */
static void missing_memory_is_told(void) {
  for (long k = 1;; k++) {
    atvi_ctx *ctx = test_ctx();
    atvi_pool *pool;
    const char *text;
    test_fail_at = test_allocs + k;
    atvi_status status = atvi_pool_new(ctx, &pool);
    if (status == ATVI_OK) {
      atvi_text svg = {.pool = pool}, pdf = {.pool = pool};
      atvi_canvas *c = drawing(pool);
      for (int i = 0; i < 3000; i++)
        atvi_report_draw_line(c, i, i, 2 * i, 3, (atvi_style){.stroke = ATVI_INK_MAIN});
      atvi_report_canvas_svg(c, &(atvi_svg_opts){.id = "x", .title = "t"}, &svg);
      atvi_report_canvas_pdf(c, "t", &pdf);
      status = atvi_io_text_get(&svg, &text);
      if (status == ATVI_OK) status = atvi_io_text_get(&pdf, &text);
    }
    bool reached = test_allocs >= test_fail_at;
    test_fail_at = 0;
    CHECK_INT(status, reached ? ATVI_ENOMEM : ATVI_OK);
    atvi_pool_free(pool);
    atvi_ctx_free(ctx);
    CHECK_INT(test_live, 0);
    if (!reached) break;
  }
}

TESTS({"svg", svg_has_the_shapes_at_their_places}, {"svg_file", svg_of_its_own_brings_colours},
      {"pdf", pdf_is_a_sound_file}, {"pdf_places", pdf_has_the_shapes_at_their_places},
      {"widths", letters_have_helveticas_widths}, {"escapes", escapes_leave_nothing_that_means_something},
      {"empty", empty_drawings_are_sound}, {"memory", missing_memory_is_told})
