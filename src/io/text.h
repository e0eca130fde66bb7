/* SPDX-License-Identifier: MIT */
/* A string that grows, in a pool. Failure is sticky: asked once, at the end. */
#ifndef ATVI_IO_TEXT_H
#define ATVI_IO_TEXT_H

#include "core/core.h"

typedef struct {
  atvi_pool *pool;
  char *text; /* NUL-terminated; NULL before the first add and after a failure */
  atvi_idx n, cap;
  bool failed;
} atvi_text;

void atvi_text_add(atvi_text *t, const char *fmt, ...) ATVI_PRINTF(2, 3);
/* A number with 17 digits if it needs them, fewer if not; NaN as "NA". */
void atvi_text_number(atvi_text *t, double x);
/* The whole; "" if nothing was added. Errors: ENOMEM. */
ATVI_CHECKED atvi_status atvi_text_get(atvi_text *t, const char **out);

#endif
