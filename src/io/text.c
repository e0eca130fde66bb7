/* SPDX-License-Identifier: MIT */
#include "io/text.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool room(atvi_text *t, atvi_idx more) {
  if (t->failed) return false;
  if (t->n + more < t->cap) return true;
  atvi_idx cap = t->cap ? t->cap : 256;
  while (cap <= t->n + more) cap *= 2;
  char *bigger = atvi_pool_take(t->pool, (size_t)cap, 1);
  if (!bigger) {
    t->failed = true;
    return false;
  }
  if (t->n) memcpy(bigger, t->text, (size_t)t->n);
  t->text = bigger;
  t->cap = cap;
  return true;
}

void atvi_text_add(atvi_text *t, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  int n = vsnprintf(NULL, 0, fmt, args);
  va_end(args);
  if (n < 0 || !room(t, n + 1)) {
    t->failed = true;
    return;
  }
  va_start(args, fmt);
  vsnprintf(t->text + t->n, (size_t)n + 1, fmt, args);
  va_end(args);
  t->n += n;
}

void atvi_text_number(atvi_text *t, double x) {
  if (isnan(x)) {
    atvi_text_add(t, "NA");
    return;
  }
  char s[32];
  for (int digits = 15; digits <= 17; digits++) {
    snprintf(s, sizeof s, "%.*g", digits, x);
    if (strtod(s, NULL) == x) break;
  }
  atvi_text_add(t, "%s", s);
}

void atvi_text_wrap(atvi_text *t, const char *lead, int indent, const char *s) {
  int column = (int)strlen(lead);
  bool fresh = column == 0 || lead[column - 1] == ' ';
  atvi_text_add(t, "%s", lead);
  for (s += strspn(s, " \n"); *s; s += strspn(s, " \n")) {
    int n = (int)strcspn(s, " \n");
    bool fits = column + 1 + n <= ATVI_TEXT_WIDTH;
    if (!fresh && !fits) {
      atvi_text_add(t, "\n%*s", indent, "");
      column = indent;
      fresh = true;
    }
    atvi_text_add(t, "%s%.*s", fresh ? "" : " ", n, s);
    column += n + !fresh;
    fresh = false;
    s += n;
  }
  atvi_text_add(t, "\n");
}

void atvi_text_label(atvi_text *t, int width, const char *name) {
  int n = (int)strlen(name), skip = n > width ? n - width + 2 : 0;
  atvi_text_add(t, "%s%-*s", skip ? ".." : "", skip ? width - 2 : width, name + skip);
}

atvi_status atvi_text_get(atvi_text *t, const char **out) {
  *out = t->failed ? NULL : t->text ? t->text : "";
  return t->failed ? ATVI_FAIL(atvi_pool_ctx(t->pool), ATVI_ENOMEM, "out of memory: text") : ATVI_OK;
}
