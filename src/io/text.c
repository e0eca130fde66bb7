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

void atvi_io_text_add(atvi_text *t, const char *fmt, ...) {
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

void atvi_io_text_number(atvi_text *t, double x) {
  if (isnan(x)) {
    atvi_io_text_add(t, "NA");
    return;
  }
  char s[32];
  for (int digits = 15; digits <= 17; digits++) {
    snprintf(s, sizeof s, "%.*g", digits, x);
    if (strtod(s, NULL) == x) break;
  }
  atvi_io_text_add(t, "%s", s);
}

void atvi_io_text_wrap(atvi_text *t, const char *lead, int indent, const char *s) {
  int column = (int)strlen(lead);
  bool fresh = column == 0 || lead[column - 1] == ' ';
  atvi_io_text_add(t, "%s", lead);
  for (s += strspn(s, " \n"); *s; s += strspn(s, " \n")) {
    int n = (int)strcspn(s, " \n");
    bool fits = column + 1 + n <= ATVI_TEXT_WIDTH;
    if (!fresh && !fits) {
      atvi_io_text_add(t, "\n%*s", indent, "");
      column = indent;
      fresh = true;
    }
    atvi_io_text_add(t, "%s%.*s", fresh ? "" : " ", n, s);
    column += n + !fresh;
    fresh = false;
    s += n;
  }
  atvi_io_text_add(t, "\n");
}

void atvi_io_text_label(atvi_text *t, int width, const char *name) {
  int n = (int)strlen(name), skip = n > width ? n - width + 2 : 0;
  atvi_io_text_add(t, "%s%-*s", skip ? ".." : "", skip ? width - 2 : width, name + skip);
}

atvi_status atvi_io_text_get(atvi_text *t, const char **out) {
  *out = t->failed ? NULL : t->text ? t->text : "";
  return t->failed ? ATVI_ENOMEM : ATVI_OK;
}

enum { SHOWN = 100, LEFT = 60 }; /* characters of a line, bytes before the caret */

/* Bytes of the UTF-8 character at p; 0 if it is not one that can be printed. */
static int printable(const char *p, const char *end) {
  unsigned char b = (unsigned char)*p;
  if (b < 0x80) return b >= 32 && b != 127;
  int n = b >= 0xC2 && b <= 0xDF ? 2 : b >= 0xE0 && b <= 0xEF ? 3 : b >= 0xF0 && b <= 0xF4 ? 4 : 0;
  if (end - p < n) return 0;
  for (int k = 1; k < n; k++)
    if (((unsigned char)p[k] & 0xC0) != 0x80) return 0;
  return b == 0xC2 && (unsigned char)p[1] < 0xA0 ? 0 : n; /* U+0080 to U+009F control terminals too */
}

void atvi_io_excerpt_clean(char *s) {
  for (const char *end = s + strlen(s); s < end;) {
    int n = printable(s, end);
    if (n == 0) *s = '?';
    s += n ? n : 1;
  }
}

static bool ends_line(const char *p, const char *end, bool cr) {
  return *p == '\n' || (cr && *p == '\r' && (p + 1 == end || p[1] != '\n'));
}

void atvi_io_excerpt(const char *text, size_t n, int line, int column, bool cr,
                     char out[ATVI_EXCERPT_BYTES]) {
  const char *p = text, *end = text + n;
  if (n >= 3 && memcmp(p, "\xEF\xBB\xBF", 3) == 0) p += 3;
  for (int k = 1; k < line && p < end; p++)
    if (ends_line(p, end, cr)) k++;
  const char *stop = p;
  while (stop < end && !ends_line(stop, end, cr)) stop++;
  if (stop > p && stop[-1] == '\r') stop--;
  const char *target = p + (column - 1 < stop - p ? column - 1 : stop - p);
  const char *from = target - p > LEFT ? target - LEFT : p;
  while (from > p && from < target && ((unsigned char)*from & 0xC0) == 0x80) from++;
  char caret[SHOWN + 2];
  int m = 0;
  for (int shown = 0; from < stop && shown < SHOWN; shown++) {
    int bytes = *from == '\t' ? 1 : printable(from, stop);
    if (from < target) caret[m++] = *from == '\t' ? '\t' : ' '; /* so that both lines stay aligned */
    if (bytes == 0) *out++ = '?';
    for (int k = 0; k < bytes; k++) *out++ = from[k];
    from += bytes ? bytes : 1;
  }
  *out++ = '\n';
  memcpy(out, caret, (size_t)m);
  memcpy(out + m, "^", 2);
}
