/* SPDX-License-Identifier: MIT */
/* Helvetica's widths, in thousandths of the font's size, for the characters of a PDF's WinAnsiEncoding: every PDF reader has the font, so that no
 * file needs to bring it. */
#include "report/canvas.h"
#include <string.h>

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

/* Characters beyond Latin 1 that figures use. The minus sign has no place of its own: the en dash looks the same. */
static const struct {
  unsigned from;
  unsigned char to;
} OTHER[] = {{0x2212, 0x96}, {0x2013, 0x96}, {0x2014, 0x97}, {0x2018, 0x91}, {0x2019, 0x92},
             {0x201c, 0x93}, {0x201d, 0x94}, {0x2026, 0x85}, {0x2022, 0x95}, {0x20ac, 0x80}};

unsigned char atvi_font_byte(const char **at) {
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

double atvi_text_width(const char *text, double size, bool bold) {
  const short *width = bold ? BOLD : PLAIN;
  double sum = 0;
  while (*text) {
    unsigned char c = atvi_font_byte(&text);
    sum += c >= 0x20 && c < 0x7f ? width[c - 0x20] : 556; /* near enough for accents and dashes */
  }
  return sum * size / 1000;
}
