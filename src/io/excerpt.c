/* SPDX-License-Identifier: MIT */
#include "io/excerpt.h"
#include <string.h>

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

void atvi_excerpt_clean(char *s) {
  for (const char *end = s + strlen(s); s < end;) {
    int n = printable(s, end);
    if (n == 0) *s = '?';
    s += n ? n : 1;
  }
}

static bool ends_line(const char *p, const char *end, bool cr) {
  return *p == '\n' || (cr && *p == '\r' && (p + 1 == end || p[1] != '\n'));
}

void atvi_excerpt(const char *text, size_t n, int line, int column, bool cr, char out[ATVI_EXCERPT_BYTES]) {
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
    if (from < target) caret[m++] = *from == '\t' ? '\t' : ' '; /* so that both lines advance alike */
    if (bytes == 0) *out++ = '?';
    for (int k = 0; k < bytes; k++) *out++ = from[k];
    from += bytes ? bytes : 1;
  }
  *out++ = '\n';
  memcpy(out, caret, (size_t)m);
  memcpy(out + m, "^", 2);
}
