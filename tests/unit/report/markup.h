/* SPDX-License-Identifier: MIT */
/* Is a text well-formed markup: do tags match, are attributes quoted, is nothing left over? */
#ifndef ATVI_TESTS_REPORT_MARKUP_H
#define ATVI_TESTS_REPORT_MARKUP_H

#include "testing.h"

enum { MARKUP_DEPTH = 64 };

/* HTML elements that have no end. */
static TEST_UNUSED bool markup_void(const char *name, size_t n) {
  static const char *const list[] = {"meta", "link", "br", "wbr", "!DOCTYPE", "?xml"};
  for (size_t i = 0; i < sizeof list / sizeof *list; i++)
    if (strlen(list[i]) == n && strncmp(list[i], name, n) == 0) return true;
  return false;
}

/* After the tag that begins at s (its '<'); *closed: it ends itself. */
static TEST_UNUSED const char *markup_tag(const char *s, bool *closed) {
  char quote = 0;
  const char *at = s + 1;
  for (; *at && (quote || *at != '>'); at++) {
    CHECK_MSG(quote || *at != '<', "a tag inside a tag: %.60s", s);
    if (quote && *at == quote)
      quote = 0;
    else if (!quote && *at == '"')
      quote = *at;
  }
  CHECK_MSG(*at == '>', "a tag without end: %.60s", s);
  *closed = at[-1] == '/';
  return at + 1;
}

/* Fails the test where it is not; returns the number of elements. */
static TEST_UNUSED int markup_check(const char *text) {
  const char *open[MARKUP_DEPTH];
  size_t length[MARKUP_DEPTH];
  int depth = 0, n = 0;
  for (const char *at = text; (at = strchr(at, '<'));) {
    bool end = at[1] == '/', closed;
    const char *name = at + 1 + end;
    size_t size = strcspn(name, " />\n");
    const char *after = markup_tag(at, &closed);
    if (end) {
      CHECK_MSG(depth > 0 && length[depth - 1] == size && strncmp(open[depth - 1], name, size) == 0,
                "%.40s ends %.40s", at, depth ? open[depth - 1] : "nothing");
      depth--;
    } else if (!closed && !markup_void(name, size)) {
      CHECK(depth < MARKUP_DEPTH);
      open[depth] = name;
      length[depth++] = size;
      if (size == 6 && strncmp(name, "script", 6) == 0)
        after = strstr(after, "</script>"); /* no markup in it */
    }
    n += !end;
    at = after;
  }
  CHECK_MSG(depth == 0, "%d elements are open, the last %.40s", depth, depth ? open[depth - 1] : "");
  return n;
}

#endif
