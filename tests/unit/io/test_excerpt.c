/* SPDX-License-Identifier: MIT */
#include "io/text.h"
#include "testing.h"

static void shows(const char *text, size_t n, int line, int column, bool cr, const char *want) {
  char out[ATVI_EXCERPT_BYTES];
  atvi_io_excerpt(text, n, line, column, cr, out);
  CHECK_STR(out, want);
}
#define SHOWS(text, line, column, cr, want) shows(text, sizeof(text) - 1, line, column, cr, want)

static void the_caret_stands_under_its_column(void) {
  SHOWS("one\ntwo\nthree", 2, 3, false, "two\n  ^");
  SHOWS("one\ntwo\nthree", 3, 1, false, "three\n^");
  SHOWS("one\ntwo", 1, 99, false, "one\n   ^"); /* past the end: at the end */
  SHOWS("one\n", 2, 1, false, "\n^");
  SHOWS("", 7, 7, false, "\n^");
  SHOWS("\ta\tb", 1, 4, false, "\ta\tb\n\t \t^");
  SHOWS("\xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\x80x", 1, 10, false,
        "\xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\x80x\n   ^"); /* one place per character */
  SHOWS("\xEF\xBB\xBF"
        "ab",
        1, 2, false, "ab\n ^");
}

static void lines_end_in_three_ways(void) {
  SHOWS("a\r\nbc\r\n", 2, 2, true, "bc\n ^");
  SHOWS("a\r\nbc\r\n", 2, 2, false, "bc\n ^");
  SHOWS("a\rbc\rd", 2, 2, true, "bc\n ^");
  SHOWS("a\rbc\nd", 1, 2, false, "a?bc\n ^");
  SHOWS("a\r", 1, 1, true, "a\n^");
}

static void what_cannot_be_printed_is_not(void) {
  SHOWS("a\0\x1b\x7f\xff\xc2\x9b\xe2\x82", 1, 9, false, "a????\x3f?\x3f?\n        ^");
  char s[] = "ok \x1b[2J\n\xC3\xA4 \xC3 \xED";
  atvi_io_excerpt_clean(s);
  CHECK_STR(s, "ok ?[2J?\xC3\xA4 ? ?");
}

static void long_lines_are_cut(void) {
  static char text[100000];
  char out[ATVI_EXCERPT_BYTES];
  memset(text, 'x', sizeof text);
  text[70000] = 'Y';
  atvi_io_excerpt(text, sizeof text, 1, 70001, false, out);
  const char *caret = strchr(out, '\n') + 1;
  CHECK_INT(caret - out, 101);
  CHECK_INT(strlen(caret), 61);
  CHECK(out[60] == 'Y');
  for (size_t i = 0; i + 4 <= sizeof text; i += 4)
    memcpy(text + i, "\xF0\x9F\x98\x80", 4); /* the longest lines */
  for (int column = 1; column < 300; column++) {
    atvi_io_excerpt(text, sizeof text, 1, column, false, out);
    CHECK(strlen(out) < ATVI_EXCERPT_BYTES && strlen(out) > 400);
  }
}

TESTS({"caret", the_caret_stands_under_its_column}, {"lines", lines_end_in_three_ways},
      {"clean", what_cannot_be_printed_is_not}, {"long", long_lines_are_cut})
