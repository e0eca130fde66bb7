/* SPDX-License-Identifier: MIT */
/* Pieces of a text as messages show them: whatever the text holds, a terminal can print them. */
#ifndef ATVI_IO_EXCERPT_H
#define ATVI_IO_EXCERPT_H

#include "core/core.h"

enum { ATVI_EXCERPT_BYTES = 1024 };
/* The line `line` of text[n] and below it a caret under byte `column` (both from 1), with no line end after the caret. Long
 * lines are cut to some 100 characters around the caret. cr: a lone CR ends a line too. A UTF-8 BOM does not count. */
void atvi_excerpt(const char *text, size_t n, int line, int column, bool cr, char out[ATVI_EXCERPT_BYTES]);

/* Control characters and bytes that are not UTF-8 become '?', in place. */
void atvi_excerpt_clean(char *s);

#endif
