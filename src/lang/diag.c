/* SPDX-License-Identifier: MIT */
/* Error messages: path:line:column, what is wrong, the line itself, a caret, a hint. */
#include "lang/ast.h"
#include "io/text.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WHAT = 800 };

atvi_status atvi_lang_nomem(ast_source *s) {
  if (s->status == ATVI_OK) s->status = ATVI_ENOMEM;
  return s->status;
}

void *atvi_lang_take(ast_source *s, atvi_idx count, size_t size) {
  void *p = atvi_pool_take(s->pool, count > 0 ? (size_t)count : 1, size);
  if (!p) atvi_lang_nomem(s);
  return p;
}

static void show(const ast_source *s, atvi_place at, char out[ATVI_EXCERPT_BYTES]) {
  atvi_io_excerpt(s->text, s->n, at.line, at.column, false, out);
}

atvi_status atvi_lang_error(ast_source *s, atvi_place at, const char *hint, const char *fmt, ...) {
  if (s->status != ATVI_OK) return s->status;
  char what[WHAT], shown[ATVI_EXCERPT_BYTES];
  va_list args;
  va_start(args, fmt);
  vsnprintf(what, sizeof what, fmt, args);
  va_end(args);
  atvi_io_excerpt_clean(what);
  show(s, at, shown);
  return s->status = ATVI_FAIL(s->ctx, ATVI_EMODEL, "%s:%d:%d: error: %s\n%s%s%s", s->path, at.line,
                               at.column, what, shown, hint ? "\nhint: " : "", hint ? hint : "");
}

/* "\nasked for in ..." and the line, or nothing where no statement asked. */
static const char *asked(const ast_source *s, atvi_place about) {
  char shown[ATVI_EXCERPT_BYTES];
  if (about.line <= 0) return "";
  show(s, about, shown);
  const char *text =
      atvi_pool_printf(s->pool, "\nasked for in %s:%d:%d\n%s", s->path, about.line, about.column, shown);
  return text ? text : "";
}

atvi_status atvi_lang_data_error(ast_source *s, const atvi_csv *csv, atvi_idx row, atvi_idx col,
                                 atvi_place about, const char *hint, const char *fmt, ...) {
  if (s->status != ATVI_OK) return s->status;
  char what[WHAT], cell[ATVI_EXCERPT_BYTES];
  va_list args;
  va_start(args, fmt);
  vsnprintf(what, sizeof what, fmt, args);
  va_end(args);
  atvi_io_excerpt_clean(what);
  atvi_place at = {row >= 0 ? csv->line[row] : 1,
                   row >= 0 && col >= 0 ? csv->column[row * csv->n_col + col] : 1};
  if (row >= 0 && col >= 0 && csv->kind[row * csv->n_col + col] != ATVI_CELL_NUMBER &&
      atvi_io_decimal_comma(csv->text[row * csv->n_col + col]))
    hint = "numbers have a decimal point: write 1.5, not 1,5";
  atvi_io_excerpt(csv->source, csv->n_source, at.line, at.column, true, cell);
  return s->status =
             ATVI_FAIL(s->ctx, ATVI_EDATA, "%s:%d:%d: error: %s\n%s%s%s%s", csv->path, at.line, at.column,
                       what, cell, asked(s, about), hint ? "\nhint: " : "", hint ? hint : "");
}

atvi_status atvi_lang_file_error(ast_source *s, atvi_status status, atvi_place about) {
  if (s->status != ATVI_OK) return s->status;
  if (status == ATVI_ENOMEM) return s->status = status;
  const char *told = atvi_errmsg(s->ctx);
  char *copy = atvi_pool_strndup(s->pool, told, strlen(told));
  if (!copy) return atvi_lang_nomem(s);
  if (status == ATVI_EDATA) return s->status = ATVI_FAIL(s->ctx, status, "%s%s", copy, asked(s, about));
  char shown[ATVI_EXCERPT_BYTES];
  show(s, about, shown);
  return s->status = ATVI_FAIL(s->ctx, status,
                               "%s:%d:%d: error: %s\n%s\nhint: this must be a CSV file that can be read",
                               s->path, about.line, about.column, copy, shown);
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

static int shared(const char *a, const char *b) {
  int n = 0;
  while (a[n] && a[n] == b[n]) n++;
  return n;
}

static int small(int c) { return c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c; }

static bool same_letters(const char *a, const char *b) {
  while (*a && small(*a) == small(*b)) a++, b++;
  return small(*a) == small(*b);
}

void atvi_lang_guess(ast_guess *g, const char *candidate) {
  int d = same_letters(g->text, candidate) ? 0 : distance(g->text, candidate), n = (int)strlen(g->text);
  /* In a one-letter name everything is one edit away: no guess. Two edits need five letters. */
  int most = n >= 5 ? 2 : n >= 2 ? 1 : 0;
  if (d > most || (g->best && d > g->distance)) return;
  /* slips are rarer in the first letters: of sin and sign, sinn means the first */
  if (g->best && d == g->distance && shared(g->text, candidate) <= shared(g->text, g->best)) return;
  g->best = candidate;
  g->distance = d;
}
