/* SPDX-License-Identifier: MIT */
/* A growing string in a pool. Failure is sticky and checked once, at the end. */
#ifndef ATVI_IO_TEXT_H
#define ATVI_IO_TEXT_H

#include "core/core.h"

enum { ATVI_TEXT_WIDTH = 100 }; /* width limit of tables and paragraphs, in columns of a terminal */

typedef struct {
  atvi_pool *pool;
  /* NUL-terminated; NULL before the first add and after a failure. */
  char *text;
  atvi_idx n, cap;
  bool failed;
} atvi_text;

void atvi_io_text_add(atvi_text *t, const char *fmt, ...) ATVI_PRINTF(2, 3);
/* A number with up to 17 digits, as many as needed; NaN as "NA". */
void atvi_io_text_number(atvi_text *t, double x);
/* lead and the words of s, broken at blanks and line ends into lines of at most ATVI_TEXT_WIDTH columns,
 * those after the first indented; a blank follows a lead that does not end with one. */
void atvi_io_text_wrap(atvi_text *t, const char *lead, int indent, const char *s);
/* A name in a column of that width; a longer one loses its beginning, because the index is at its end. */
void atvi_io_text_label(atvi_text *t, int width, const char *name);
/* The whole; "" if nothing was added. Errors: ENOMEM (*out is then NULL). */
ATVI_CHECKED atvi_status atvi_io_text_get(atvi_text *t, const char **out);

/* Pieces of a text as messages show them: safe to print on a terminal, whatever the text contains. */

enum { ATVI_EXCERPT_BYTES = 1024 };
/* The line `line` of text[n] and below it a caret under byte `column` (both from 1), with no line end after
 * the caret. Long lines are cut to about 100 characters around the caret. cr: a lone CR ends a line too. A
 * UTF-8 BOM is ignored. */
void atvi_io_excerpt(const char *text, size_t n, int line, int column, bool cr, char out[ATVI_EXCERPT_BYTES]);

/* Control characters and bytes that are not UTF-8 become '?', in place. */
void atvi_io_excerpt_clean(char *s);

#endif
