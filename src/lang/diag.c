/* SPDX-License-Identifier: MIT */
/* Error messages: path:line:column, what is wrong, the line itself, a caret, a hint. */
#include "lang/ast.h"
#include "io/file.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { SHOWN = 160, LEFT = 100, WHAT = 800 };

atvi_status atvi_lang_nomem(ast_source *s) {
  if (s->status == ATVI_OK) s->status = ATVI_FAIL(s->ctx, ATVI_ENOMEM, "%s: out of memory", s->path);
  return s->status;
}

void *atvi_lang_take(ast_source *s, atvi_idx count, size_t size) {
  void *p = atvi_pool_take(s->pool, count > 0 ? (size_t)count : 1, size);
  if (!p) atvi_lang_nomem(s);
  return p;
}

/* The shown part of a line with control bytes made harmless, and below it the caret's line, in
 * which tabs stay tabs so that both lines advance alike. */
static void show_line(const char *text, size_t size, atvi_place at, char line[SHOWN + 1],
                      char caret[SHOWN + 2]) {
  const char *p = text, *end = text + size;
  for (int k = 1; k < at.line && p < end; p++)
    if (*p == '\n') k++;
  const char *stop = memchr(p, '\n', (size_t)(end - p));
  if (!stop) stop = end;
  if (stop > p && stop[-1] == '\r') stop--;
  const char *target = p + (at.column - 1 < stop - p ? at.column - 1 : stop - p);
  const char *from = target - p > LEFT ? target - LEFT : p;
  while (from > p && from < target && ((unsigned char)*from & 0xC0) == 0x80) from++;
  atvi_idx n = 0, m = 0;
  for (const char *c = from; c < stop && n < SHOWN; c++) {
    unsigned char b = (unsigned char)*c;
    line[n++] = (b < 32 && b != '\t') || b == 127 ? '?' : *c;
    if (c < target && (b & 0xC0) != 0x80) caret[m++] = b == '\t' ? '\t' : ' ';
  }
  line[n] = 0;
  caret[m++] = '^';
  caret[m] = 0;
}

atvi_status atvi_lang_error(ast_source *s, atvi_place at, const char *hint, const char *fmt, ...) {
  if (s->status != ATVI_OK) return s->status;
  char what[WHAT], line[SHOWN + 1], caret[SHOWN + 2];
  va_list args;
  va_start(args, fmt);
  vsnprintf(what, sizeof what, fmt, args);
  va_end(args);
  show_line(s->text, s->n, at, line, caret);
  return s->status = ATVI_FAIL(s->ctx, ATVI_EMODEL, "%s:%d:%d: error: %s\n%s\n%s%s%s", s->path, at.line,
                               at.column, what, line, caret, hint ? "\nhint: " : "", hint ? hint : "");
}

atvi_status atvi_lang_data_error(ast_source *s, const atvi_csv *csv, atvi_idx row, atvi_idx col,
                                 atvi_place about, const char *hint, const char *fmt, ...) {
  if (s->status != ATVI_OK) return s->status;
  char what[WHAT], cell[WHAT] = "", asked[WHAT] = "", line[SHOWN + 1], caret[SHOWN + 2];
  va_list args;
  va_start(args, fmt);
  vsnprintf(what, sizeof what, fmt, args);
  va_end(args);
  atvi_place at = {row >= 0 ? csv->line[row] : 1,
                   row >= 0 && col >= 0 ? csv->column[row * csv->n_col + col] : 1};
  char *text;
  size_t n;
  struct stat st; /* a pipe cannot be read twice: then the message does without the line */
  bool again = stat(csv->path, &st) == 0 && S_ISREG(st.st_mode);
  if (again && atvi_file_read(s->pool, csv->path, &text, &n) == ATVI_OK) {
    show_line(text, n, at, line, caret);
    snprintf(cell, sizeof cell, "\n%s\n%s", line, caret);
  }
  if (about.line > 0) {
    show_line(s->text, s->n, about, line, caret);
    snprintf(asked, sizeof asked, "\nasked for in %s:%d:%d\n%s\n%s", s->path, about.line, about.column, line,
             caret);
  }
  return s->status = ATVI_FAIL(s->ctx, ATVI_EDATA, "%s:%d:%d: error: %s%s%s%s%s", csv->path, at.line,
                               at.column, what, cell, asked, hint ? "\nhint: " : "", hint ? hint : "");
}

/* Edit distance with swaps of neighbours, given up above 2; long names are compared in their first letters. */
static int distance(const char *a, const char *b) {
  enum { CAP = 40 };
  int row[3][CAP + 1];
  int n = (int)strnlen(a, CAP), m = (int)strnlen(b, CAP);
  if (abs(n - m) > 2) return 9;
  for (int j = 0; j <= m; j++) row[0][j] = j;
  for (int i = 1; i <= n; i++) {
    int *now = row[i % 3], *up = row[(i + 2) % 3], *up2 = row[(i + 1) % 3];
    now[0] = i;
    for (int j = 1; j <= m; j++) {
      int d = up[j - 1] + (a[i - 1] != b[j - 1]);
      if (up[j] + 1 < d) d = up[j] + 1;
      if (now[j - 1] + 1 < d) d = now[j - 1] + 1;
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && up2[j - 2] + 1 < d)
        d = up2[j - 2] + 1;
      now[j] = d;
    }
  }
  return row[n % 3][m];
}

void atvi_lang_guess(ast_guess *g, const char *candidate) {
  int d = distance(g->text, candidate), n = (int)strlen(g->text);
  /* In a one-letter name everything is one edit away: no guess. Two edits need five letters. */
  int most = n >= 5 ? 2 : n >= 2 ? 1 : 0;
  if (d > most || (g->best && d >= g->distance)) return;
  g->best = candidate;
  g->distance = d;
}
